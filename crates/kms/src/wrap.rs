//! One key sealed under another, bound to a context.
//!
//! | byte | |
//! |---|---|
//! | 0 | format, 1 |
//! | 1..17 | salt, random |
//! | 17..49 | the key, AES-256-GCM |
//! | 49..65 | tag |
//!
//! The key of the AES-256-GCM is HKDF-SHA-256 (RFC 5869) of the sealing key with the salt and, as `info`, a
//! purpose and the context. Its nonce is zero, because every derived key seals once. So a sealing key may
//! seal any number of times (NIST SP 800-38D limits random nonces under one key to 2^32), and a context of
//! any length is bound. A golden test below fixes the format.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroize;

use crate::{Error, Result, Secret, random};

const FORMAT: u8 = 1;
const SALT: usize = 16;
/// Bytes of a sealed key.
pub const SEALED: usize = 1 + SALT + 32 + 16;

struct Bytes32;

impl KeyType for Bytes32 {
    fn len(&self) -> usize {
        32
    }
}

/// Derives a key from a key, a salt, a purpose and a context; lengths separate the texts.
#[must_use]
fn derive(key: &[u8; 32], salt: &[u8], purpose: &str, context: &[u8]) -> Secret {
    let prk = Salt::new(HKDF_SHA256, salt).extract(key);
    let length = (purpose.len() as u64).to_be_bytes();
    let info = [&length[..], purpose.as_bytes(), context];
    let mut out = [0; 32];
    prk.expand(&info, Bytes32)
        .and_then(|okm| okm.fill(&mut out))
        .expect("32 bytes are within what HKDF-SHA-256 gives");
    Secret::new(out)
}

fn cipher(key: &[u8; 32], salt: &[u8], context: &[u8]) -> LessSafeKey {
    let key = derive(key, salt, "ashlar wrap 1", context);
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.expose()).expect("32 bytes are a key of AES-256"))
}

/// Seals `what` under `key` for `context`.
#[must_use]
pub fn seal(key: &Secret, what: &Secret, context: &[u8]) -> Vec<u8> {
    seal_with(random(), key, what, context)
}

fn seal_with(salt: [u8; SALT], key: &Secret, what: &Secret, context: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(SEALED);
    out.push(FORMAT);
    out.extend_from_slice(&salt);
    out.extend_from_slice(what.expose());
    let tag = cipher(key.expose(), &salt, context)
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key([0; NONCE_LEN]),
            Aad::empty(),
            &mut out[1 + SALT..],
        )
        .expect("32 bytes are within what AES-GCM takes");
    out.extend_from_slice(tag.as_ref());
    out
}

/// Opens what was sealed under `key` for `context`.
///
/// # Errors
/// [`Error::Sealed`].
pub fn open(key: &Secret, sealed: &[u8], context: &[u8]) -> Result<Secret> {
    if sealed.len() != SEALED || sealed[0] != FORMAT {
        return Err(Error::Sealed);
    }
    let mut body = sealed[1 + SALT..].to_vec();
    let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
    let opened =
        cipher(key.expose(), &sealed[1..1 + SALT], context).open_in_place(nonce, Aad::empty(), &mut body);
    let out = match opened {
        Ok(plain) => <[u8; 32]>::try_from(&*plain).map(Secret::new).map_err(|_| Error::Sealed),
        Err(_) => Err(Error::Sealed),
    };
    body.zeroize();
    out
}

/// Joins a key server's ciphertext of an intermediate key with what is sealed under that key: length of
/// `text` (u16, big-endian), `text`, `wrapped`. `None`: `text` is too long.
pub(crate) fn joined(text: &[u8], wrapped: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(text.len()).ok()?;
    Some([&length.to_be_bytes(), text, wrapped].concat())
}

/// The inverse of [`joined`].
pub(crate) fn sealed_parts(sealed: &[u8]) -> Result<(&[u8], &[u8])> {
    let (length, rest) = sealed.split_first_chunk::<2>().ok_or(Error::Sealed)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length))).ok_or(Error::Sealed)
}

/// Seals bytes of any length, as [`seal`] does a key.
#[must_use]
pub fn seal_bytes(key: &Secret, what: &[u8], context: &[u8]) -> Vec<u8> {
    let salt: [u8; SALT] = random();
    let mut out = Vec::with_capacity(1 + SALT + what.len() + 16);
    out.push(FORMAT);
    out.extend_from_slice(&salt);
    out.extend_from_slice(what);
    let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
    let tag = cipher(key.expose(), &salt, context)
        .seal_in_place_separate_tag(nonce, Aad::empty(), &mut out[1 + SALT..])
        .expect("documents are within what AES-GCM takes");
    out.extend_from_slice(tag.as_ref());
    out
}

/// The inverse of [`seal_bytes`].
///
/// # Errors
/// [`Error::Sealed`].
pub fn open_bytes(key: &Secret, sealed: &[u8], context: &[u8]) -> Result<Vec<u8>> {
    if sealed.len() < 1 + SALT + 16 || sealed[0] != FORMAT {
        return Err(Error::Sealed);
    }
    let mut body = sealed[1 + SALT..].to_vec();
    let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
    let cipher = cipher(key.expose(), &sealed[1..1 + SALT], context);
    let length = cipher.open_in_place(nonce, Aad::empty(), &mut body).map_err(|_| Error::Sealed)?.len();
    body.truncate(length);
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let sealed = seal_with([3; 16], &Secret::new([1; 32]), &Secret::new([2; 32]), b"here");
        assert_eq!(hex::encode(&sealed), include_str!("golden_wrap.txt").trim());
    }

    #[test]
    fn sealed_key_opens_with_same_key_and_context_only() {
        let (key, what) = (Secret::generate(), Secret::generate());
        let sealed = seal(&key, &what, b"a");
        assert_eq!(sealed.len(), SEALED);
        assert_eq!(open(&key, &sealed, b"a").ok().unwrap().expose(), what.expose());
        assert!(open(&key, &sealed, b"b").is_err());
        assert!(open(&Secret::generate(), &sealed, b"a").is_err());
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert!(open(&key, &bad, b"a").is_err(), "byte {at}");
            assert!(open(&key, &sealed[..at], b"a").is_err(), "cut at {at}");
        }
        assert_ne!(seal(&key, &what, b"a"), sealed);
        assert_eq!(open_bytes(&key, &seal_bytes(&key, b"text", b"a"), b"a").ok().unwrap(), b"text");
        assert_eq!(open_bytes(&key, &sealed, b"a").ok().unwrap(), what.expose(), "one format");
        for at in 0..sealed.len() {
            assert!(open_bytes(&key, &sealed[..at], b"a").is_err(), "cut at {at}");
        }
    }
}
