//! Encrypted bodies: packages, sizes, keys, and the related fields of a version.
//!
//! A body is cut into packages of 64 KiB of plaintext (the last one shorter). Each is sealed separately,
//! followed by a tag of 16 bytes, so that a range is read by opening the packages that it touches. The key of
//! a part is HKDF-SHA-256 of the version's content key, the part's random nonce and the part's number; the
//! nonce of a package is its index and a mark on the last one. So a package that is changed, cut off, moved,
//! repeated, or taken from another part or version does not open. Byte layout: docs/formats.md, "Encrypted
//! bodies".
//!
//! A version stores the name [`SEAL`] in `meta` with the cipher and an envelope, a text that the API layer
//! defines (it contains the sealed content key); each part stores its nonce, before its checksum. The size of
//! a part is the stored size, that of the version is what clients see.
//!
//! Must not depend on: who seals content keys, and how; who may read.

use std::sync::OnceLock;

use ashlar_format::{Checksum, Version};
use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use crate::marks::{self, SEAL};
use crate::{Error, Result};

/// Plaintext bytes of a package.
pub(crate) const PACKAGE: usize = 64 * 1024;
/// Bytes of its tag.
pub(crate) const TAG: usize = 16;
/// A full package as stored.
pub(crate) const WHOLE: usize = PACKAGE + TAG;
/// Added to the algorithm of a part's checksum: 16 bytes of nonce come before the value.
const SEALED_PART: u8 = 64;
/// Longest envelope, in bytes: it is in every record of the key.
pub const MAX_ENVELOPE: usize = 8 * 1024;

/// The cipher of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cipher {
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439): for processors without AES.
    ChaCha20Poly1305,
}

impl Cipher {
    /// The faster one on this machine.
    #[must_use]
    pub fn best() -> Cipher {
        static BEST: OnceLock<Cipher> = OnceLock::new();
        *BEST.get_or_init(|| {
            #[cfg(target_arch = "x86_64")]
            let has = std::arch::is_x86_feature_detected!("aes");
            #[cfg(target_arch = "aarch64")]
            let has = std::arch::is_aarch64_feature_detected!("aes");
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            let has = false;
            if has { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Cipher::Aes256Gcm => "aes",
            Cipher::ChaCha20Poly1305 => "chacha",
        }
    }

    fn parse(name: &str) -> Option<Cipher> {
        [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305].into_iter().find(|c| c.name() == name)
    }
}

/// The key of one version's bytes, in clear: wiped when it is dropped; it implements neither `Debug` nor
/// `Display`.
#[derive(Clone)]
pub struct ContentKey(Zeroizing<[u8; 32]>);

impl ContentKey {
    /// From 32 random bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> ContentKey {
        ContentKey(Zeroizing::new(bytes))
    }

    /// The bytes, to be sealed again.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

/// How to encrypt a new body.
#[derive(Clone)]
pub struct Seal {
    /// A new key, used for this version alone.
    pub key: ContentKey,
    /// The cipher.
    pub cipher: Cipher,
    /// A text that is stored to recover the key; at most [`MAX_ENVELOPE`] bytes without control characters.
    pub envelope: String,
    /// The ETag is the MD5 of the plaintext; otherwise it is random.
    pub md5: bool,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seal({:?})", self.cipher)
    }
}

/// How a version, or an upload, is encrypted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// The cipher.
    pub cipher: Cipher,
    /// The envelope, as it was given.
    pub envelope: String,
    /// What hides the checksums.
    pub(crate) hiding: Hiding,
}

/// What hides the checksums of an encrypted version: a checksum of the plaintext would confirm a guess of the
/// plaintext. No mask is used for two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hiding {
    /// Nothing: the checksums of an upload are combined without the key.
    Nothing,
    /// The content key: the checksum of the version, which is set once and never changes.
    Whole,
    /// The content key and a part's nonce: each part's checksum, and the version's under the nonce of the
    /// last part. For a version that was appended to: each append has its own nonce.
    Parts,
}

impl Sealed {
    pub(crate) fn pair(&self) -> (String, String) {
        let sums = match self.hiding {
            Hiding::Nothing => "clear",
            Hiding::Whole => "hidden",
            Hiding::Parts => "parts",
        };
        (SEAL.to_owned(), format!("1 {} {sums} {}", self.cipher.name(), self.envelope))
    }

    fn parse(text: &str) -> Option<Sealed> {
        let mut words = text.splitn(4, ' ');
        let one = words.next()? == "1";
        let cipher = Cipher::parse(words.next()?)?;
        let hiding = match words.next()? {
            "clear" => Hiding::Nothing,
            "hidden" => Hiding::Whole,
            "parts" => Hiding::Parts,
            _ => return None,
        };
        let envelope = words.next()?.to_owned();
        one.then_some(Sealed { cipher, envelope, hiding })
    }

    /// From the metadata of a version or template. What cannot be decoded is an error: never treated as
    /// plaintext.
    pub(crate) fn of(meta: &[(String, String)]) -> Result<Option<Sealed>> {
        let Some((_, text)) = meta.iter().find(|(name, _)| name == SEAL) else { return Ok(None) };
        match Sealed::parse(text) {
            Some(sealed) => Ok(Some(sealed)),
            None => Err(Error::Corrupt("how the version is encrypted is not understood here".to_owned())),
        }
    }
}

/// For the fuzzer: the words of a version have one encoding.
pub(crate) fn fuzzed_words(text: &str) {
    if let Some(sealed) = Sealed::parse(text) {
        assert_eq!(sealed.pair().1, text);
    }
}

/// Refuses envelopes that a record should not contain.
pub(crate) fn check_envelope(text: &str) -> Result<()> {
    if text.len() <= MAX_ENVELOPE && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::InvalidArgument("the encryption context is too long"))
}

/// Sets `sealed` in the metadata, replacing an existing one.
pub(crate) fn set(meta: &mut Vec<(String, String)>, sealed: &Sealed) {
    meta.retain(|(name, _)| name != SEAL);
    meta.insert(0, sealed.pair());
}

/// Number of stored bytes for `plain` plaintext bytes.
pub(crate) fn sealed_len(plain: u64) -> u64 {
    plain + plain.div_ceil(PACKAGE as u64) * TAG as u64
}

/// The inverse of [`sealed_len`]. A size that it never returns is damage; the result is then the smallest
/// possible.
pub(crate) fn plain_len(sealed: u64) -> u64 {
    sealed.saturating_sub(sealed.div_ceil(WHOLE as u64) * TAG as u64)
}

/// A part's checksum as stored: after the part's nonce.
pub(crate) fn join(nonce: Option<[u8; 16]>, checksum: Option<Checksum>) -> Option<Checksum> {
    let Some(nonce) = nonce else { return checksum };
    let (algorithm, composite, tail) =
        checksum.map_or((0, false, Vec::new()), |c| (c.algorithm, c.composite, c.value));
    Some(Checksum { algorithm: SEALED_PART | algorithm, composite, value: [&nonce[..], &tail].concat() })
}

/// The inverse of [`join`].
pub(crate) fn split(kept: Option<&Checksum>) -> (Option<[u8; 16]>, Option<Checksum>) {
    let Some(c) = kept else { return (None, None) };
    let nonce = (c.algorithm & SEALED_PART != 0).then(|| c.value.first_chunk::<16>().copied()).flatten();
    let Some(nonce) = nonce else { return (None, Some(c.clone())) };
    let algorithm = c.algorithm & !SEALED_PART;
    let checksum = (algorithm != 0).then(|| Checksum {
        algorithm,
        composite: c.composite,
        value: c.value[16..].to_vec(),
    });
    (Some(nonce), checksum)
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(key: &ContentKey, salt: &[u8], purpose: &str, tail: &[u8], out: &mut [u8]) {
    let prk = Salt::new(HKDF_SHA256, salt).extract(&key.0[..]);
    let info = [purpose.as_bytes(), tail];
    let length = Length(out.len());
    prk.expand(&info, length).and_then(|okm| okm.fill(out)).expect("at most 255 blocks are asked for");
}

/// The purpose of a checksum's mask.
const WHOLE_SUM: &str = "ashlar sum 1";
const PART_SUM: &str = "ashlar part sum 1";

/// Hides or shows the checksum of a version that is set once.
pub(crate) fn mask(key: &ContentKey, checksum: &mut Checksum) {
    mask_with(key, b"", WHOLE_SUM, checksum);
}

fn mask_with(key: &ContentKey, salt: &[u8], purpose: &str, checksum: &mut Checksum) {
    let mut pad = Zeroizing::new(vec![0; checksum.value.len()]);
    expand(key, salt, purpose, &[checksum.algorithm], &mut pad);
    for (b, p) in checksum.value.iter_mut().zip(pad.iter()) {
        *b ^= p;
    }
}

/// The version as clients may see it: plaintext sizes, no nonces, no internal metadata. `key`: shows hidden
/// checksums; without it there are none.
pub(crate) fn shown(v: &Version, sealed: &Sealed, key: Option<&ContentKey>) -> Version {
    let mut v = marks::clean(v);
    v.meta.retain(|(name, _)| name != SEAL);
    let mut last = None;
    for p in &mut v.parts {
        p.size = plain_len(p.size);
        (last, p.checksum) = split(p.checksum.as_ref());
        if sealed.hiding == Hiding::Parts {
            match (key, &last, &mut p.checksum) {
                (Some(key), Some(nonce), Some(c)) => mask_with(key, nonce, PART_SUM, c),
                _ => p.checksum = None,
            }
        }
    }
    match (sealed.hiding, key, last, &mut v.checksum) {
        (Hiding::Nothing, ..) => {}
        (Hiding::Whole, Some(key), _, Some(c)) => mask(key, c),
        (Hiding::Parts, Some(key), Some(nonce), Some(c)) => mask_with(key, &nonce, WHOLE_SUM, c),
        _ => v.checksum = None,
    }
    if sealed.hiding == Hiding::Whole {
        for p in &mut v.parts {
            p.checksum.clone_from(&v.checksum);
        }
    }
    v
}

/// The inverse of [`shown`] for a version to which a part was appended. `next`: the new version as clients
/// see it; `v`: the stored one so far; `nonce` and `stored`: of the new part, and the number of its stored
/// bytes.
pub(crate) fn append_to(
    v: &Version,
    sealed: &Sealed,
    key: &ContentKey,
    (nonce, stored): ([u8; 16], u64),
    next: Version,
) -> Result<Version> {
    let hiding = if sealed.hiding == Hiding::Nothing { Hiding::Nothing } else { Hiding::Parts };
    let mut next = Version { meta: v.meta.clone(), ..next };
    set(&mut next.meta, &Sealed { hiding, ..sealed.clone() });
    for (i, p) in next.parts.iter_mut().enumerate() {
        let (size, nonce) = match v.parts.get(i) {
            Some(old) => {
                let own = split(old.checksum.as_ref()).0;
                (old.size, own.ok_or_else(|| Error::Corrupt("an encrypted part has no nonce".to_owned()))?)
            }
            None => (stored, nonce),
        };
        p.size = size;
        if let (Hiding::Parts, Some(c)) = (hiding, &mut p.checksum) {
            mask_with(key, &nonce, PART_SUM, c);
        }
        p.checksum = join(Some(nonce), p.checksum.take());
    }
    if let (Hiding::Parts, Some(c)) = (hiding, &mut next.checksum) {
        mask_with(key, &nonce, WHOLE_SUM, c);
    }
    Ok(next)
}

/// Opens or seals the packages of one part.
pub(crate) struct Packages {
    key: LessSafeKey,
    /// Plaintext bytes.
    pub plain: u64,
}

impl Packages {
    /// For part `number` with `plain` bytes.
    pub(crate) fn new(
        key: &ContentKey,
        cipher: Cipher,
        nonce: &[u8; 16],
        number: u16,
        plain: u64,
    ) -> Packages {
        let algorithm = match cipher {
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let mut own = Zeroizing::new([0; 32]);
        let tail = [&number.to_be_bytes()[..], cipher.name().as_bytes()].concat();
        expand(key, nonce, "ashlar part 1", &tail, &mut own[..]);
        let key = UnboundKey::new(algorithm, &own[..]).expect("32 bytes are a key of either cipher");
        Packages { key: LessSafeKey::new(key), plain }
    }

    pub(crate) fn count(&self) -> u64 {
        self.plain.div_ceil(PACKAGE as u64)
    }

    /// Plaintext bytes of package `index`.
    pub(crate) fn len(&self, index: u64) -> usize {
        (self.plain - index * PACKAGE as u64).min(PACKAGE as u64) as usize
    }

    fn nonce(&self, index: u64) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[0] = u8::from(index + 1 == self.count());
        nonce[4..].copy_from_slice(&index.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals `package` (plaintext, then space for the tag) in place.
    pub(crate) fn seal(&self, index: u64, package: &mut [u8]) {
        let (plain, room) = package.split_at_mut(package.len() - TAG);
        assert_eq!(plain.len(), self.len(index), "a package of another length");
        let tag = self
            .key
            .seal_in_place_separate_tag(self.nonce(index), Aad::empty(), plain)
            .expect("a package is within what the cipher takes");
        room.copy_from_slice(tag.as_ref());
    }

    /// Opens `package` (with its tag) into `out`, which has the length of the plaintext.
    pub(crate) fn open(&self, index: u64, package: &[u8], out: &mut [u8]) -> Result<()> {
        let (body, tag) = package.split_at(package.len() - TAG);
        let opened = self.key.open_separate_gather(self.nonce(index), Aad::empty(), body, tag, out);
        opened.map_err(|_| damaged(index))
    }

    /// Opens a package in place: `package` without its tag.
    pub(crate) fn open_in_place(&self, index: u64, package: &mut [u8], tag: &[u8; TAG]) -> Result<()> {
        let opened = self.key.open_in_place_separate_tag(self.nonce(index), Aad::empty(), tag, package);
        opened.map(|_| ()).map_err(|_| damaged(index))
    }
}

fn damaged(index: u64) -> Error {
    Error::Corrupt(format!("package {index} of an encrypted part was changed, or its key is wrong"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for plain in [1, 15, 16, 65_535, 65_536, 65_537, 131_072, 131_073, 10 << 20, (5 << 30) + 7] {
            assert_eq!(plain_len(sealed_len(plain)), plain, "{plain}");
        }
        assert_eq!((sealed_len(0), plain_len(0), plain_len(3)), (0, 0, 0));
    }

    #[test]
    fn nonces_go_with_checksums() {
        let sum = Checksum { algorithm: 3, composite: false, value: vec![1; 8] };
        for c in [None, Some(sum)] {
            let kept = join(Some([7; 16]), c.clone());
            assert_eq!(split(kept.as_ref()), (Some([7; 16]), c.clone()));
            assert_eq!(split(join(None, c.clone()).as_ref()), (None, c));
        }
    }

    #[test]
    fn golden() {
        let key = ContentKey::new([9; 32]);
        let mut all = String::new();
        for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
            let packages = Packages::new(&key, cipher, &[5; 16], 3, PACKAGE as u64 + 4);
            let mut last = *b"abcd................";
            packages.seal(1, &mut last);
            all += &last.iter().map(|b| format!("{b:02x}")).collect::<String>();
            all += "\n";
            let mut out = [0; 4];
            packages.open(1, &last, &mut out).unwrap();
            assert_eq!(&out, b"abcd");
        }
        let mut sum = Checksum { algorithm: 3, composite: false, value: vec![0; 8] };
        mask(&key, &mut sum);
        all += &sum.value.iter().map(|b| format!("{b:02x}")).collect::<String>();
        for purpose in [PART_SUM, WHOLE_SUM] {
            let mut sum = Checksum { algorithm: 3, composite: false, value: vec![0; 8] };
            mask_with(&key, &[5; 16], purpose, &mut sum);
            all += "\n";
            all += &sum.value.iter().map(|b| format!("{b:02x}")).collect::<String>();
        }
        assert_eq!(all, include_str!("golden_seal.txt").trim());
        let sealed = Sealed { cipher: Cipher::Aes256Gcm, envelope: "x y".into(), hiding: Hiding::Whole };
        assert_eq!(sealed.pair(), (":seal".to_owned(), "1 aes hidden x y".to_owned()));
        assert_eq!(Sealed::of(&[sealed.pair()]).unwrap(), Some(sealed));
        let appended = Sealed { cipher: Cipher::Aes256Gcm, envelope: "x y".into(), hiding: Hiding::Parts };
        assert_eq!(appended.pair(), (":seal".to_owned(), "1 aes parts x y".to_owned()));
        assert_eq!(Sealed::of(&[appended.pair()]).unwrap(), Some(appended));
        for unknown in ["2 aes hidden x", "1 aes else x"] {
            assert!(Sealed::of(&[(SEAL.to_owned(), unknown.to_owned())]).is_err());
        }
    }

    #[test]
    fn packages_open_only_at_their_position() {
        let key = ContentKey::new([1; 32]);
        let size = 2 * PACKAGE as u64 + 9;
        let of = |key: &ContentKey, nonce, number, size| {
            Packages::new(key, Cipher::Aes256Gcm, &[nonce; 16], number, size)
        };
        let p = of(&key, 1, 1, size);
        let mut package = vec![7; WHOLE];
        p.seal(0, &mut package);
        let mut out = vec![0; PACKAGE];
        p.open(0, &package, &mut out).unwrap();
        assert!(out.iter().all(|b| *b == 7));
        assert!(p.open(1, &package, &mut out).is_err(), "another place");
        assert!(of(&key, 2, 1, size).open(0, &package, &mut out).is_err(), "another part's nonce");
        assert!(of(&key, 1, 2, size).open(0, &package, &mut out).is_err(), "another number");
        assert!(of(&key, 1, 1, PACKAGE as u64).open(0, &package, &mut out).is_err(), "cut off behind it");
        assert!(of(&ContentKey::new([2; 32]), 1, 1, size).open(0, &package, &mut out).is_err());
        for at in [0, 1, PACKAGE - 1, PACKAGE, WHOLE - 1] {
            package[at] ^= 1;
            assert!(p.open(0, &package, &mut out).is_err(), "byte {at}");
            package[at] ^= 1;
        }
    }
}
