//! Small types of the interface: entity tags, upload ids, version ids as text.
//!
//! The API layer parses each once; from there on it is a value.
//!
//! Must not depend on: the store.

use std::fmt;

use ashlar_checksum::{Algorithm, Digest};
use ashlar_format::{Checksum, VersionId};

/// Ordered name-value pairs: metadata (lower-case header names, user metadata with its
/// `x-amz-meta-` prefix) or tags.
pub type Pairs = Vec<(String, String)>;

/// The entity tag of a version or part: an MD5, and for multipart objects the number of parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ETag {
    /// MD5 of the bytes, or of the parts' MD5s when `parts` is not 0.
    pub md5: [u8; 16],
    /// 0, or the number of parts after the dash.
    pub parts: u16,
}

impl ETag {
    /// Reads `hex` or `hex-N`, with or without double quotes, in either case of letters.
    #[must_use]
    pub fn parse(text: &str) -> Option<ETag> {
        let text = text.trim();
        let text = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text);
        let (hex, parts) = match text.split_once('-') {
            Some((hex, n)) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => {
                (hex, n.parse().ok().filter(|n| *n > 0)?)
            }
            Some(_) => return None,
            None => (text, 0),
        };
        Some(ETag { md5: VersionId::from_hex(hex)?.0, parts })
    }
}

impl fmt::Display for ETag {
    /// Without quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; 32];
        const HEX: &[u8; 16] = b"0123456789abcdef";
        for (i, b) in self.md5.iter().enumerate() {
            text[2 * i] = HEX[usize::from(b >> 4)];
            text[2 * i + 1] = HEX[usize::from(b & 15)];
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)?;
        if self.parts > 0 { write!(f, "-{}", self.parts) } else { Ok(()) }
    }
}

/// The id of a multipart upload; 32 hexadecimal digits as text. Later uploads sort after earlier ones (the
/// first six bytes are milliseconds since 1970).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UploadId(pub [u8; 16]);

impl UploadId {
    /// `None` for anything that cannot be an upload id (404 NoSuchUpload).
    #[must_use]
    pub fn parse(text: &str) -> Option<UploadId> {
        VersionId::from_hex(text).map(|v| UploadId(v.0))
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&VersionId(self.0).to_hex())
    }
}

/// The version id as clients see it: `null`, or 32 hexadecimal digits.
#[must_use]
pub fn version_text(id: VersionId) -> String {
    if id == VersionId::ZERO { "null".to_owned() } else { id.to_hex() }
}

/// The inverse of [`version_text`]; `None` for anything that cannot be a version id (400 InvalidArgument).
#[must_use]
pub fn parse_version(text: &str) -> Option<VersionId> {
    if text == "null" {
        return Some(VersionId::ZERO);
    }
    VersionId::from_hex(text).filter(|id| *id != VersionId::ZERO)
}

/// The redundancy of the data. Pools have one code today, so both classes are stored in the same way; the
/// choice is passed on so that API layers need not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Class {
    /// The code of the pool.
    #[default]
    Standard,
    /// Fewer parity shards (`REDUCED_REDUNDANCY`), once pools have such a class.
    Reduced,
}

impl Class {
    /// The name in the S3 protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Standard => "STANDARD",
            Class::Reduced => "REDUCED_REDUNDANCY",
        }
    }
}

/// The number of an algorithm in records.
pub(crate) fn algorithm_number(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::Crc32 => 1,
        Algorithm::Crc32c => 2,
        Algorithm::Crc64Nvme => 3,
        Algorithm::Sha1 => 4,
        Algorithm::Sha256 => 5,
        Algorithm::Sha512 => 6,
        Algorithm::Md5 => 7,
        Algorithm::XxHash64 => 8,
        Algorithm::XxHash3 => 9,
        Algorithm::XxHash128 => 10,
    }
}

/// The inverse of [`algorithm_number`]; `None` for 0 and unknown numbers.
pub(crate) fn number_algorithm(number: u8) -> Option<Algorithm> {
    Algorithm::ALL.into_iter().find(|a| algorithm_number(*a) == number)
}

/// A digest in the form of a record.
pub(crate) fn stored(digest: &Digest, composite: bool) -> Checksum {
    Checksum { algorithm: algorithm_number(digest.algorithm()), composite, value: digest.as_bytes().to_vec() }
}

/// The digest in a record; `None` if the record is from a later release.
#[must_use]
pub fn digest_of(checksum: &Checksum) -> Option<Digest> {
    Digest::from_bytes(number_algorithm(checksum.algorithm)?, &checksum.value)
}

/// The name of the storage class in the metadata.
pub(crate) const STORAGE_CLASS: &str = "x-amz-storage-class";

/// The storage class among `meta`, empty for STANDARD.
pub(crate) fn storage_class(meta: &[(String, String)]) -> &str {
    let found = meta.iter().find(|(k, _)| k == STORAGE_CLASS);
    found.map_or("", |(_, v)| if v == "STANDARD" { "" } else { v })
}

/// A new id for a version or upload: six bytes of milliseconds since 1970, so that later ids mostly sort
/// later, and ten random bytes, so that ids are unique.
pub(crate) fn fresh_id(now_ms: i64) -> crate::Result<[u8; 16]> {
    let mut id = [0; 16];
    ashlar_environment::random::fill(&mut id)
        .map_err(|e| crate::Error::Internal(format!("no randomness: {e}")))?;
    id[..6].copy_from_slice(&now_ms.max(0).to_be_bytes()[2..]);
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags() {
        let plain = "0123456789abcdef0123456789abcdef";
        assert_eq!(ETag::parse(plain).unwrap().to_string(), plain);
        assert_eq!(ETag::parse(&format!("\"{plain}-12\"")).unwrap().to_string(), format!("{plain}-12"));
        for bad in ["", "x", "0123-1", &format!("{plain}-"), &format!("{plain}-0"), &format!("{plain}-70000")]
        {
            assert_eq!(ETag::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn ids() {
        let id = fresh_id(1_700_000_000_123).unwrap();
        assert_eq!(id[..6], 1_700_000_000_123u64.to_be_bytes()[2..]);
        assert_eq!(parse_version("null"), Some(VersionId::ZERO));
        assert_eq!(parse_version(&VersionId::ZERO.to_hex()), None);
        assert_eq!(parse_version(&version_text(VersionId(id))), Some(VersionId(id)));
        assert_eq!(parse_version("nul"), None);
    }

    #[test]
    fn algorithms_have_fixed_numbers() {
        let numbers: Vec<u8> = Algorithm::ALL.into_iter().map(algorithm_number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(number_algorithm(0), None);
    }
}
