//! The byte layout of a large shard in an extent segment: a header page, frames, a table of hashes.
//!
//! A region starts at a multiple of 4096 with one header page that identifies the shard. The frames follow,
//! each starting at a multiple of 4096. The table is last: 32 bytes of HighwayHash-256 per frame and one more
//! over the table, padded with zeros to 4096. Layout: docs/formats.md, "Extents".
//!
//! Invariants: every hash is keyed with the deployment and the write, and covers shard index and frame
//! number, so that a frame of another shard, or another frame of this one, never verifies. The hash does not
//! depend on the drive: a reader across the network can check it again.
//!
//! Must not depend on: files, drives.

use crate::codec::{Reader, Writer};
use crate::journal::{ExtentEntry, HashKey, is_zero};
use crate::{Ballot, DeploymentId, Error, RegisterKey, WriteId};
use highway::{HighwayHash, HighwayHasher, Key};

/// Alignment of everything in an extent segment.
pub const PAGE: u64 = 4096;
/// Longest frame, in bytes.
pub const MAX_FRAME: u32 = 8 << 20;
const MAGIC: &[u8; 8] = b"ASHSHARD";
const FORMAT: u16 = 1;

/// The positions of the pieces of a shard in its region, in bytes. A position that overflows is `u64::MAX` or
/// near it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of the shard.
    pub len: u64,
    /// Bytes of a frame, except the last.
    pub frame: u32,
}

impl Layout {
    /// Number of frames.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.len.div_ceil(u64::from(self.frame))
    }
    /// Bytes of frame `n`; 0 past the end.
    #[must_use]
    pub fn frame_len(&self, n: u64) -> usize {
        let f = u64::from(self.frame);
        self.len.saturating_sub(n.saturating_mul(f)).min(f) as usize
    }
    /// Offset of frame `n` in the region.
    #[must_use]
    pub fn frame_at(&self, n: u64) -> u64 {
        n.saturating_mul(u64::from(self.frame).next_multiple_of(PAGE)).saturating_add(PAGE)
    }
    /// Offset of the table in the region.
    #[must_use]
    pub fn table_at(&self) -> u64 {
        let last = self.frames() - 1;
        self.frame_at(last).saturating_add((self.frame_len(last) as u64).next_multiple_of(PAGE))
    }
    /// Bytes of the table with its own hash and padding.
    #[must_use]
    pub fn table_len(&self) -> u64 {
        self.frames().saturating_add(1).div_ceil(PAGE / 32).saturating_mul(PAGE)
    }
    /// Bytes of the region.
    #[must_use]
    pub fn region(&self) -> u64 {
        self.table_at().saturating_add(self.table_len())
    }
}

/// The identity that frame hashes are bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardId {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The write.
    pub write_id: WriteId,
    /// Shard index.
    pub index: u8,
}

impl ShardId {
    /// The key of every hash of the shard; the same for all shards of a write.
    #[must_use]
    pub fn key(&self) -> HashKey {
        let mut key = [0; 4];
        let ids = [self.deployment.0, self.write_id.0].concat();
        for (k, b) in key.iter_mut().zip(ids.chunks_exact(8)) {
            let mut w = [0; 8];
            w.copy_from_slice(b);
            *k = u64::from_le_bytes(w);
        }
        key
    }

    /// The hash of frame `n`: HighwayHash-256 under [`ShardId::key`] of its position and its bytes.
    #[must_use]
    pub fn frame_hash(&self, n: u32, bytes: &[u8]) -> [u8; 32] {
        self.hash(&self.frame_place(n, bytes.len()), bytes)
    }

    /// What is hashed before the `len` bytes of frame `n`: its position.
    #[must_use]
    pub fn frame_place(&self, n: u32, len: usize) -> [u8; 32] {
        let mut place = [0; 32];
        place[0] = b'f';
        place[1] = self.index;
        place[4..8].copy_from_slice(&n.to_le_bytes());
        place[8..16].copy_from_slice(&(len as u64).to_le_bytes());
        place
    }

    fn table_hash(&self, table: &[u8]) -> [u8; 32] {
        let mut place = [0; 32];
        place[0] = b't';
        place[1] = self.index;
        place[8..16].copy_from_slice(&(table.len() as u64).to_le_bytes());
        self.hash(&place, table)
    }

    /// The 32 bytes of the position come first: HighwayHash takes packets of 32 bytes, so the content stays
    /// aligned.
    fn hash(&self, place: &[u8; 32], bytes: &[u8]) -> [u8; 32] {
        let mut h = HighwayHasher::new(Key(self.key()));
        h.append(place);
        h.append(bytes);
        let mut out = [0; 32];
        for (o, w) in out.chunks_exact_mut(8).zip(h.finalize256()) {
            o.copy_from_slice(&w.to_le_bytes());
        }
        out
    }

    /// The bytes of the table of `hashes` on the drive.
    #[must_use]
    pub fn table(&self, hashes: &[[u8; 32]]) -> Vec<u8> {
        let mut t: Vec<u8> = hashes.concat();
        let sum = self.table_hash(&t);
        t.extend_from_slice(&sum);
        t.resize(t.len().next_multiple_of(PAGE as usize), 0);
        t
    }

    /// Checks a table of `frames` hashes and returns the hashes' bytes.
    ///
    /// # Errors
    /// [`Error::Malformed`] or [`Error::Checksum`].
    pub fn check_table<'a>(&self, bytes: &'a [u8], frames: u64) -> Result<&'a [u8], Error> {
        let n =
            frames.checked_mul(32).and_then(|n| usize::try_from(n).ok()).ok_or(Error::Malformed("frames"))?;
        if bytes.len().checked_sub(32).is_none_or(|most| most < n) {
            return Err(Error::Malformed("hash table length"));
        }
        let (table, rest) = bytes.split_at(n);
        if self.table_hash(table) != rest[..32] || !is_zero(&rest[32..]) {
            return Err(Error::Checksum("hash table"));
        }
        Ok(table)
    }
}

/// The header page of a region.
///
/// `key` is the drive's ([`crate::label::Label::hash_key`]). The hash covers segment and offset, so a region
/// that was written to the wrong position or drive does not verify.
#[must_use]
pub fn header(e: &ExtentEntry<'_>, key: &HashKey) -> Vec<u8> {
    let mut w = Writer::with_capacity(PAGE as usize);
    w.raw(MAGIC);
    w.u16(FORMAT);
    w.raw(&e.write_id.0);
    w.u8(e.index);
    w.raw(&e.ballot.to_bytes());
    w.u64(e.len);
    w.u32(e.frame);
    w.u32(e.segment);
    w.u64(e.offset);
    w.bytes(e.owner);
    let mut page = w.into_vec();
    page.resize(PAGE as usize - 32, 0);
    let sum = page_hash(&page, key);
    page.extend_from_slice(&sum);
    page
}

fn page_hash(body: &[u8], key: &HashKey) -> [u8; 32] {
    let mut h = HighwayHasher::new(Key(*key));
    h.append(b"extent header");
    h.append(body);
    let mut out = [0; 32];
    for (o, w) in out.chunks_exact_mut(8).zip(h.finalize256()) {
        o.copy_from_slice(&w.to_le_bytes());
    }
    out
}

/// Whether a page may be a header page: whether it begins like one.
#[must_use]
pub fn is_header(page: &[u8]) -> bool {
    page.starts_with(MAGIC)
}

/// Checks a header page and decodes it.
///
/// # Errors
/// [`Error::Malformed`], [`Error::Version`], [`Error::Checksum`].
pub fn decode_header<'a>(page: &'a [u8], key: &HashKey) -> Result<ExtentEntry<'a>, Error> {
    if page.len() != PAGE as usize {
        return Err(Error::Malformed("extent header length"));
    }
    let (body, sum) = page.split_at(PAGE as usize - 32);
    if page_hash(body, key) != sum {
        return Err(Error::Checksum("extent header"));
    }
    let mut r = Reader::new(body);
    if r.raw(8)? != MAGIC {
        return Err(Error::Malformed("extent magic"));
    }
    let format = r.u16()?;
    if format != FORMAT {
        return Err(Error::Version { what: "extent", found: u32::from(format) });
    }
    let (write_id, index) = (WriteId(r.array()?), r.u8()?);
    let ballot = Ballot::from_bytes(&r.array()?);
    let (len, frame, segment, offset) = (r.u64()?, r.u32()?, r.u32()?, r.u64()?);
    let owner = r.bytes()?;
    if owner.len() > RegisterKey::MAX || frame == 0 || len == 0 || frame > MAX_FRAME {
        return Err(Error::Malformed("extent header fields"));
    }
    Ok(ExtentEntry { write_id, index, ballot, owner, len, frame, segment, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_lengths_do_not_overflow() {
        for frame in [1, 65_536, MAX_FRAME] {
            let small = Layout { len: 1, frame };
            assert_eq!((small.table_at(), small.region()), (2 * PAGE, 3 * PAGE));
            for len in [u64::MAX, u64::MAX - 1, 1 << 63] {
                let layout = Layout { len, frame };
                assert!(layout.region() >= layout.table_at() && layout.table_at() >= len, "{layout:?}");
            }
        }
        let id = ShardId { deployment: DeploymentId([1; 16]), write_id: WriteId([2; 16]), index: 3 };
        for frames in [1 << 59, u64::MAX / 32, u64::MAX] {
            assert!(matches!(id.check_table(&[0; 4096], frames), Err(Error::Malformed(_))), "{frames}");
        }
        let table = id.table(&[[4; 32], [5; 32]]);
        assert_eq!(id.check_table(&table, 2), Ok(&table[..64]));
        assert!(id.check_table(&[], 0).is_err());
    }
}
