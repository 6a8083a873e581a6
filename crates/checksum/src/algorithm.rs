//! The checksums a client may ask for with an object (`x-amz-checksum-*`).
//!
//! Invariants: a [`Digest`] always has the length of its algorithm; CRCs are big-endian, as on the
//! wire. Equality of digests here is not constant-time: a checksum is no secret.
//!
//! Must never know: headers, multipart uploads, objects.

use std::fmt;

use aws_lc_rs::digest as sha;
use base64::{Engine, engine::general_purpose::STANDARD};
use crc_fast::CrcAlgorithm;

/// A checksum algorithm of the S3 protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// CRC-32 (ISO-HDLC, as in zip and Ethernet), 4 bytes.
    Crc32,
    /// CRC-32C (Castagnoli, as in iSCSI), 4 bytes.
    Crc32c,
    /// CRC-64/NVME, 8 bytes.
    Crc64Nvme,
    /// SHA-1, 20 bytes.
    Sha1,
    /// SHA-256, 32 bytes.
    Sha256,
}

impl Algorithm {
    /// All algorithms, in the order in which they are declared.
    pub const ALL: [Algorithm; 5] =
        [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme, Algorithm::Sha1, Algorithm::Sha256];

    /// The name in the protocol: `CRC32`, `CRC32C`, `CRC64NVME`, `SHA1`, `SHA256`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "CRC32",
            Algorithm::Crc32c => "CRC32C",
            Algorithm::Crc64Nvme => "CRC64NVME",
            Algorithm::Sha1 => "SHA1",
            Algorithm::Sha256 => "SHA256",
        }
    }

    /// The algorithm called `name`, in any case; `None` for any other string.
    pub fn parse(name: &str) -> Option<Algorithm> {
        Self::ALL.into_iter().find(|a| a.name().eq_ignore_ascii_case(name))
    }

    /// The length of a digest, in bytes.
    pub fn digest_len(self) -> usize {
        match self {
            Algorithm::Crc32 | Algorithm::Crc32c => 4,
            Algorithm::Crc64Nvme => 8,
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
        }
    }

    /// Whether digests of parts combine into the digest of the whole ([`combine_crc`]), which the
    /// protocol calls a full-object checksum.
    pub fn is_crc(self) -> bool {
        self.crc().is_some()
    }

    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Algorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Algorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Algorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Algorithm::Sha1 | Algorithm::Sha256 => None,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of a checksum: 4 to 32 bytes, held inline.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    /// Bytes beyond the algorithm's length are zero, so that derived equality holds.
    bytes: [u8; 32],
}

impl Digest {
    /// The digest whose bytes (as on the wire) are `bytes`; `None` if their number is wrong.
    pub fn from_bytes(algorithm: Algorithm, bytes: &[u8]) -> Option<Digest> {
        (bytes.len() == algorithm.digest_len()).then(|| {
            let mut digest = Digest { algorithm, bytes: [0; 32] };
            digest.bytes[..bytes.len()].copy_from_slice(bytes);
            digest
        })
    }

    /// The digest that `text` states in base64 (padded, canonical); `None` if it states none.
    pub fn from_base64(algorithm: Algorithm, text: &str) -> Option<Digest> {
        // The longest digest is 44 characters; a decode into a stack buffer allocates nothing.
        let mut buffer = [0; 36];
        let len = STANDARD.decode_slice(text, &mut buffer).ok()?;
        Digest::from_bytes(algorithm, &buffer[..len])
    }

    /// Which algorithm made it.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The bytes as on the wire before base64; CRCs are big-endian.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.algorithm.digest_len()]
    }

    /// The padded base64 of the bytes, as in headers and XML.
    pub fn base64(&self) -> String {
        STANDARD.encode(self.as_bytes())
    }

    fn from_crc(algorithm: Algorithm, crc: u64) -> Digest {
        let mut bytes = [0; 32];
        let len = algorithm.digest_len();
        bytes[..len].copy_from_slice(&crc.to_be_bytes()[8 - len..]);
        Digest { algorithm, bytes }
    }

    fn to_crc(self) -> u64 {
        self.as_bytes().iter().fold(0, |crc, &byte| crc << 8 | u64::from(byte))
    }
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.base64())
    }
}

/// A running checksum over bytes that arrive in pieces.
#[derive(Clone)]
pub struct Hasher {
    algorithm: Algorithm,
    state: State,
}

/// Not boxed: a hasher lives for one body, and an allocation costs more than its 300 bytes.
#[derive(Clone)]
#[allow(clippy::large_enum_variant)]
enum State {
    Crc(crc_fast::Digest),
    Sha(sha::Context),
}

impl Hasher {
    /// The checksum of no bytes yet.
    pub fn new(algorithm: Algorithm) -> Hasher {
        let state = match (algorithm.crc(), algorithm) {
            (Some(crc), _) => State::Crc(crc_fast::Digest::new(crc)),
            (None, Algorithm::Sha1) => State::Sha(sha::Context::new(&sha::SHA1_FOR_LEGACY_USE_ONLY)),
            (None, _) => State::Sha(sha::Context::new(&sha::SHA256)),
        };
        Hasher { algorithm, state }
    }

    /// Which algorithm runs.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Appends `data`.
    pub fn update(&mut self, data: &[u8]) {
        match &mut self.state {
            State::Crc(crc) => crc.update(data),
            State::Sha(sha) => sha.update(data),
        }
    }

    /// The checksum of everything appended.
    pub fn finish(self) -> Digest {
        match self.state {
            State::Crc(crc) => Digest::from_crc(self.algorithm, crc.finalize()),
            State::Sha(sha) => Digest::from_bytes(self.algorithm, sha.finish().as_ref())
                .expect("aws-lc returns the algorithm's own length"),
        }
    }
}

/// The CRC of `A || B` from `a`, the CRC of `A`, and `b`, the CRC of `B` of `len_b` bytes: the
/// full-object checksum of a multipart upload without reading it again.
///
/// `None` if `algorithm` is not a CRC or a digest is of another algorithm. Takes O(log len_b).
pub fn combine_crc(algorithm: Algorithm, a: &Digest, b: &Digest, len_b: u64) -> Option<Digest> {
    let crc = algorithm.crc()?;
    if a.algorithm != algorithm || b.algorithm != algorithm {
        return None;
    }
    let combined = crc_fast::checksum_combine(crc, a.to_crc(), b.to_crc(), len_b);
    Some(Digest::from_crc(algorithm, combined))
}

/// The composite checksum of a multipart upload: the checksum of the concatenated digests of its
/// parts, in part order. The protocol writes it as this base64 followed by `-` and their number.
pub fn composite(algorithm: Algorithm, parts: &[Digest]) -> Digest {
    let mut hasher = Hasher::new(algorithm);
    for part in parts {
        hasher.update(part.as_bytes());
    }
    hasher.finish()
}
