//! The checksums a client may ask for with an object (`x-amz-checksum-*`).
//!
//! Invariants: a [`Digest`] always has the length of its algorithm; CRCs are big-endian, as in the protocol.
//! Equality of digests here is not constant-time: a checksum is not a secret.
//!
//! Must not depend on: headers, multipart uploads, objects.

use std::fmt;
use std::hash::Hasher as _;

use aws_lc_rs::digest as sha;
use base64::{Engine, engine::general_purpose::STANDARD};
use crc_fast::CrcAlgorithm;
use md5::Digest as _;
use twox_hash::{XxHash64, xxhash3_64, xxhash3_128};

/// Bytes of the longest digest.
const LONGEST: usize = 64;

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
    /// SHA-512, 64 bytes.
    Sha512,
    /// MD5, 16 bytes.
    Md5,
    /// xxHash, 64 bits (XXH64 with seed 0), 8 bytes.
    XxHash64,
    /// xxHash 3, 64 bits (XXH3 with seed 0), 8 bytes.
    XxHash3,
    /// xxHash 3, 128 bits (XXH128 with seed 0), 16 bytes.
    XxHash128,
}

impl Algorithm {
    /// All algorithms, in the order in which they are declared.
    pub const ALL: [Algorithm; 10] = [
        Algorithm::Crc32,
        Algorithm::Crc32c,
        Algorithm::Crc64Nvme,
        Algorithm::Sha1,
        Algorithm::Sha256,
        Algorithm::Sha512,
        Algorithm::Md5,
        Algorithm::XxHash64,
        Algorithm::XxHash3,
        Algorithm::XxHash128,
    ];

    /// The name in the protocol, for instance `CRC32` or `XXHASH128`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "CRC32",
            Algorithm::Crc32c => "CRC32C",
            Algorithm::Crc64Nvme => "CRC64NVME",
            Algorithm::Sha1 => "SHA1",
            Algorithm::Sha256 => "SHA256",
            Algorithm::Sha512 => "SHA512",
            Algorithm::Md5 => "MD5",
            Algorithm::XxHash64 => "XXHASH64",
            Algorithm::XxHash3 => "XXHASH3",
            Algorithm::XxHash128 => "XXHASH128",
        }
    }

    /// The header or trailer that carries it on the wire of S3.
    #[must_use]
    pub fn header(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "x-amz-checksum-crc32",
            Algorithm::Crc32c => "x-amz-checksum-crc32c",
            Algorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Algorithm::Sha1 => "x-amz-checksum-sha1",
            Algorithm::Sha256 => "x-amz-checksum-sha256",
            Algorithm::Sha512 => "x-amz-checksum-sha512",
            Algorithm::Md5 => "x-amz-checksum-md5",
            Algorithm::XxHash64 => "x-amz-checksum-xxhash64",
            Algorithm::XxHash3 => "x-amz-checksum-xxhash3",
            Algorithm::XxHash128 => "x-amz-checksum-xxhash128",
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
            Algorithm::Crc64Nvme | Algorithm::XxHash64 | Algorithm::XxHash3 => 8,
            Algorithm::Md5 | Algorithm::XxHash128 => 16,
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
            Algorithm::Sha512 => 64,
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
            Algorithm::Sha1 | Algorithm::Sha256 | Algorithm::Sha512 | Algorithm::Md5 => None,
            Algorithm::XxHash64 | Algorithm::XxHash3 | Algorithm::XxHash128 => None,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of a checksum: 4 to 64 bytes, held inline.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    /// Bytes beyond the algorithm's length are zero, so that derived equality holds.
    bytes: [u8; LONGEST],
}

impl Digest {
    /// The digest whose bytes (as on the wire) are `bytes`; `None` if their number is wrong.
    pub fn from_bytes(algorithm: Algorithm, bytes: &[u8]) -> Option<Digest> {
        (bytes.len() == algorithm.digest_len()).then(|| {
            let mut digest = Digest { algorithm, bytes: [0; LONGEST] };
            digest.bytes[..bytes.len()].copy_from_slice(bytes);
            digest
        })
    }

    /// The digest that `text` states in base64 (padded, canonical); `None` if it states none.
    pub fn from_base64(algorithm: Algorithm, text: &str) -> Option<Digest> {
        // A decode into a stack buffer allocates nothing; the buffer must hold whole groups of three bytes.
        let mut buffer = [0; LONGEST + 2];
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
        let mut bytes = [0; LONGEST];
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
    Md5(md5::Md5),
    XxHash64(XxHash64),
    // The state of XXH3 is half a KiB, and these are rare.
    XxHash3(Box<xxhash3_64::Hasher>),
    XxHash128(Box<xxhash3_128::Hasher>),
}

impl Hasher {
    /// The checksum of no bytes yet.
    pub fn new(algorithm: Algorithm) -> Hasher {
        let state = match algorithm {
            Algorithm::Crc32 => State::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc)),
            Algorithm::Crc32c => State::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            Algorithm::Crc64Nvme => State::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme)),
            Algorithm::Sha1 => State::Sha(sha::Context::new(&sha::SHA1_FOR_LEGACY_USE_ONLY)),
            Algorithm::Sha256 => State::Sha(sha::Context::new(&sha::SHA256)),
            Algorithm::Sha512 => State::Sha(sha::Context::new(&sha::SHA512)),
            Algorithm::Md5 => State::Md5(md5::Md5::new()),
            Algorithm::XxHash64 => State::XxHash64(XxHash64::with_seed(0)),
            Algorithm::XxHash3 => State::XxHash3(Box::new(xxhash3_64::Hasher::new())),
            Algorithm::XxHash128 => State::XxHash128(Box::new(xxhash3_128::Hasher::new())),
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
            State::Md5(md5) => md5.update(data),
            State::XxHash64(hash) => hash.write(data),
            State::XxHash3(hash) => hash.write(data),
            State::XxHash128(hash) => hash.write(data),
        }
    }

    /// The checksum of everything appended.
    pub fn finish(self) -> Digest {
        let made = |bytes: &[u8]| {
            Digest::from_bytes(self.algorithm, bytes).expect("a hash returns the algorithm's own length")
        };
        match self.state {
            State::Crc(crc) => Digest::from_crc(self.algorithm, crc.finalize()),
            State::Sha(sha) => made(sha.finish().as_ref()),
            State::Md5(md5) => made(&md5.finalize()),
            // xxHash's canonical form is big-endian.
            State::XxHash64(hash) => made(&hash.finish().to_be_bytes()),
            State::XxHash3(hash) => made(&hash.finish().to_be_bytes()),
            State::XxHash128(hash) => made(&hash.finish_128().to_be_bytes()),
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
