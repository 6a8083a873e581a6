//! Sealed bytes: what is stored or handed out cannot be read or changed without the key.
//!
//! AES-256-GCM with random nonces of 96 bits (NIST SP 800-38D), bound to where the bytes belong.
//! Invariants: a key seals at most 2^32 times by use (changes of configuration and tokens are far
//! fewer); what does not open gives no reason; keys are never printed.
//!
//! Must never know: what is sealed.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;

const VERSION: u8 = 1;

/// A key that seals.
pub struct Sealer(LessSafeKey);

impl Sealer {
    /// From 32 secret bytes.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Sealer {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("32 bytes are a key of AES-256");
        Sealer(LessSafeKey::new(key))
    }

    /// A key made from a secret, a purpose and the deployment, so that two deployments with the same
    /// secret cannot read each other (HMAC-SHA-256 as the extract and expand steps of RFC 5869, one
    /// block).
    #[must_use]
    pub fn derive(secret: &[u8], deployment: &[u8; 16], purpose: &str) -> [u8; 32] {
        let extracted = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, deployment), secret);
        let key = hmac::Key::new(hmac::HMAC_SHA256, extracted.as_ref());
        let block = hmac::sign(&key, &[purpose.as_bytes(), &[1]].concat());
        let mut out = [0; 32];
        out.copy_from_slice(block.as_ref());
        out
    }

    /// Seals bytes for `place`.
    #[must_use]
    pub fn seal(&self, place: &str, bytes: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_LEN] = random();
        let mut body = bytes.to_vec();
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(place), &mut body)
            .expect("the length is within that of AES-GCM");
        [&[VERSION][..], &nonce, &body].concat()
    }

    /// Opens what was sealed for `place`; `None` when it was not, or not under this key.
    #[must_use]
    pub fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (version, rest) = sealed.split_first()?;
        let (nonce, body) = rest.split_at_checked(NONCE_LEN)?;
        if *version != VERSION {
            return None;
        }
        let mut body = body.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let len = self.0.open_in_place(nonce, Aad::from(place), &mut body).ok()?.len();
        body.truncate(len);
        Some(body)
    }
}

/// Random bytes of the operating system.
#[must_use]
pub fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    getrandom::fill(&mut out).expect("the operating system gives random bytes");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_place_open_it_and_every_changed_byte_is_noticed() {
        let sealer = Sealer::new(&[7; 32]);
        let sealed = sealer.seal("iam/users/a", b"secret");
        assert_eq!(sealed.len(), 6 + 1 + NONCE_LEN + 16);
        assert_eq!(sealer.open("iam/users/a", &sealed).unwrap(), b"secret");
        assert!(sealer.open("iam/users/b", &sealed).is_none());
        assert!(Sealer::new(&[8; 32]).open("iam/users/a", &sealed).is_none());
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert!(sealer.open("iam/users/a", &bad).is_none(), "byte {at}");
            assert!(sealer.open("iam/users/a", &sealed[..at]).is_none(), "cut at {at}");
        }
        assert_ne!(sealer.seal("p", b"x"), sealer.seal("p", b"x"), "a nonce is used once");
    }

    #[test]
    fn deployments_and_purposes_have_other_keys() {
        let key = |secret: &[u8], d: u8, p| Sealer::derive(secret, &[d; 16], p);
        let all = [key(b"s", 1, "a"), key(b"s", 2, "a"), key(b"s", 1, "b"), key(b"t", 1, "a")];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }
}
