//! The label: the file that says which drive of which deployment a folder is.
//!
//! 8192 bytes, little-endian: the same 4096-byte page twice, so that one torn or damaged page does not lose
//! the identity of a drive. Layout of a page: docs/formats.md, "Label".
//!
//! Invariants: a page with any flipped bit is refused; two valid pages that differ are refused.
//!
//! Must not depend on: files.

use crate::codec::{Reader, Writer};
use crate::{DeploymentId, DriveId, Error};
use highway::{HighwayHash, HighwayHasher, Key};

/// Which drive a folder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The drive.
    pub drive: DriveId,
    /// When it was formatted, milliseconds since 1970.
    pub created_ms: i64,
}

const MAGIC: &[u8; 8] = b"ASHLABEL";
const FORMAT: u32 = 1;
const PAGE: usize = 4096;
const KEY: [u64; 4] = [
    u64::from_le_bytes(*b"ashlar d"),
    u64::from_le_bytes(*b"rive lab"),
    u64::from_le_bytes(*b"el v1 .."),
    u64::from_le_bytes(*b"........"),
];

impl Label {
    /// Encoded length in bytes.
    pub const LEN: usize = 2 * PAGE;

    /// The bytes of the label file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(PAGE);
        w.raw(MAGIC);
        w.u32(FORMAT);
        w.raw(&self.deployment.0);
        w.raw(&self.drive.0);
        w.i64(self.created_ms);
        let mut page = w.into_vec();
        page.resize(PAGE - 32, 0);
        let sum = hash(&page);
        page.extend_from_slice(&sum);
        page.extend_from_within(..);
        page
    }

    /// The inverse of [`Label::encode`]; one of the two pages may be damaged.
    ///
    /// # Errors
    /// [`Error::Version`] for a newer format, else [`Error::Malformed`] or [`Error::Checksum`].
    pub fn decode(bytes: &[u8]) -> Result<Label, Error> {
        if bytes.len() != Self::LEN {
            return Err(Error::Malformed("label length"));
        }
        let (head, tail) = bytes.split_at(PAGE);
        match (page(head), page(tail)) {
            (Ok(a), Ok(b)) if a == b => Ok(a),
            (Ok(_), Ok(_)) => Err(Error::Identity("label copy")),
            (Ok(a), Err(_)) | (Err(_), Ok(a)) => Ok(a),
            (Err(e), Err(_)) => Err(e),
        }
    }

    /// Whether both pages are valid and equal.
    #[must_use]
    pub fn is_whole(bytes: &[u8]) -> bool {
        bytes.len() == Self::LEN && bytes[..PAGE] == bytes[PAGE..] && page(&bytes[..PAGE]).is_ok()
    }

    /// The key of all hashes on this drive. Bytes that are copied to another drive do not verify there.
    #[must_use]
    pub fn hash_key(&self) -> [u64; 4] {
        let mut key = [0; 4];
        let ids = [self.deployment.0, self.drive.0].concat();
        for (k, b) in key.iter_mut().zip(ids.chunks_exact(8)) {
            let mut w = [0; 8];
            w.copy_from_slice(b);
            *k = u64::from_le_bytes(w);
        }
        key
    }
}

fn hash(b: &[u8]) -> [u8; 32] {
    let words = HighwayHasher::new(Key(KEY)).hash256(b);
    let mut out = [0; 32];
    for (o, w) in out.chunks_exact_mut(8).zip(words) {
        o.copy_from_slice(&w.to_le_bytes());
    }
    out
}

fn page(b: &[u8]) -> Result<Label, Error> {
    let (body, sum) = b.split_at(PAGE - 32);
    let mut r = Reader::new(body);
    if r.raw(8)? != MAGIC {
        return Err(Error::Malformed("not a label"));
    }
    let format = r.u32()?;
    if format != FORMAT && hash(body) == sum {
        return Err(Error::Version { what: "label", found: format });
    }
    if hash(body) != sum {
        return Err(Error::Checksum("label"));
    }
    Ok(Label { deployment: DeploymentId(r.array()?), drive: DriveId(r.array()?), created_ms: r.i64()? })
}
