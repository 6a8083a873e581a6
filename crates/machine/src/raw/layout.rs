//! The bytes of a store of files on a device: docs/formats.md, "Drives on block devices".
//!
//! Invariants: what is decoded was encoded by this program, whole, for this device (a checksum, and the store's own number in each
//! block that begins something); lengths are checked before memory is taken.
//!
//! Must not depend on: the device, what changes mean.

use std::io;

use crc_fast::{CrcAlgorithm, checksum};

use super::inode::Extent;
use crate::buffer::ALIGN;

/// Bytes of a block.
pub(super) const BLOCK: u64 = ALIGN as u64;
const MAGIC: &[u8; 8] = b"ASHLRAW1";
const BATCH: &[u8; 8] = b"ASHLRAWB";
/// Bytes of the superblock before its checksum.
const SUPERBLOCK: usize = 8 + 16 + 8 + 8;
/// Bytes of the header of a batch.
const HEADER: usize = 8 + 16 + 8 + 8 + 8 + 4;
/// Longest name.
const NAME: usize = 1024;

/// What never changes: written when the store is made, into the first and the last block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Superblock {
    /// Number of the store.
    pub(super) store: [u8; 16],
    /// Blocks of the device.
    pub(super) blocks: u64,
    /// Blocks of each of the two logs, which follow the first block.
    pub(super) log: u64,
}

impl Superblock {
    /// The first block of log 0 or 1.
    pub(super) fn log_at(&self, which: usize) -> u64 {
        1 + self.log * which as u64
    }

    /// The first block of files.
    pub(super) fn files_at(&self) -> u64 {
        1 + 2 * self.log
    }

    /// Blocks of files.
    pub(super) fn files(&self) -> u64 {
        self.blocks - 1 - self.files_at()
    }

    /// Its block.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(ALIGN);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.store);
        out.extend_from_slice(&self.blocks.to_le_bytes());
        out.extend_from_slice(&self.log.to_le_bytes());
        out.extend_from_slice(&crc(&[&out]).to_le_bytes());
        out.resize(ALIGN, 0);
        out
    }

    /// From its block, for a device of so many blocks. None: it is none.
    pub(super) fn decode(block: &[u8], blocks: u64) -> Option<Superblock> {
        let mut r = Reader(block);
        let ours =
            r.take(8)? == MAGIC && crc(&[block.get(..SUPERBLOCK)?]) == Reader(&block[SUPERBLOCK..]).u32()?;
        let s = Superblock { store: r.take(16)?.try_into().ok()?, blocks: r.u64()?, log: r.u64()? };
        let fits = s.blocks <= blocks && s.log > 0 && s.log.checked_mul(2)?.checked_add(2)? < s.blocks;
        (ours && fits).then_some(s)
    }
}

/// A change of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// A file is as it says from now on.
    File { id: u64, len: u64, extents: Vec<(u64, Extent)> },
    /// A name means a file, or none. A file without a name is gone when the store is opened again.
    Name { name: String, file: Option<u64> },
}

const FILE: u8 = 1;
const NAMED: u8 = 2;
const UNNAMED: u8 = 3;
/// Set in the count of an extent that was written.
const WRITTEN: u64 = 1 << 63;

/// Bytes that a file takes in a log, about.
pub(super) fn size_of_file(extents: usize) -> u64 {
    // Its name too, as names of drives are.
    96 + 24 * extents as u64
}

impl Change {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::File { id, len, extents } => {
                out.push(FILE);
                for n in [*id, *len, extents.len() as u64] {
                    out.extend_from_slice(&n.to_le_bytes());
                }
                for (at, e) in extents {
                    let count = e.count | if e.written { WRITTEN } else { 0 };
                    for n in [*at, e.start, count] {
                        out.extend_from_slice(&n.to_le_bytes());
                    }
                }
            }
            Change::Name { name, file } => {
                out.push(if file.is_some() { NAMED } else { UNNAMED });
                out.extend_from_slice(&(name.len() as u16).to_le_bytes());
                out.extend_from_slice(name.as_bytes());
                out.extend(file.iter().flat_map(|id| id.to_le_bytes()));
            }
        }
    }

    fn decode(r: &mut Reader<'_>) -> Option<Change> {
        Some(match r.take(1)?[0] {
            FILE => {
                let (id, len, count) = (r.u64()?, r.u64()?, r.u64()?);
                if count > r.0.len() as u64 / 24 {
                    return None;
                }
                let mut extents = Vec::with_capacity(count as usize);
                for _ in 0..count {
                    let (at, start, count) = (r.u64()?, r.u64()?, r.u64()?);
                    let (count, written) = (count & !WRITTEN, count & WRITTEN != 0);
                    extents.push((at, Extent { start, count, written }));
                }
                Change::File { id, len, extents }
            }
            kind @ (NAMED | UNNAMED) => {
                let len = usize::from(u16::from_le_bytes(r.take(2)?.try_into().ok()?));
                let name = std::str::from_utf8(r.take(len)?).ok()?.to_owned();
                Change::Name { name, file: if kind == NAMED { Some(r.u64()?) } else { None } }
            }
            _ => return None,
        })
    }
}

/// Where a batch belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) store: [u8; 16],
    /// Grows with each checkpoint: the log with the larger one is the valid one.
    pub(super) generation: u64,
    /// 0: a checkpoint, which begins a log and has the whole state.
    pub(super) sequence: u64,
}

/// Changes that take effect together: whole blocks.
pub(super) fn encode_batch(place: Place, changes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity((HEADER + changes.len()).next_multiple_of(ALIGN));
    out.extend_from_slice(BATCH);
    out.extend_from_slice(&place.store);
    for n in [place.generation, place.sequence, changes.len() as u64] {
        out.extend_from_slice(&n.to_le_bytes());
    }
    let sum = crc(&[&out, changes]);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(changes);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    out
}

/// The place of a batch and its blocks, from its first block; nothing is verified yet.
pub(super) fn batch_head(block: &[u8]) -> Option<(Place, u64)> {
    let mut r = Reader(block);
    if r.take(8)? != BATCH {
        return None;
    }
    let place = Place { store: r.take(16)?.try_into().ok()?, generation: r.u64()?, sequence: r.u64()? };
    let len = r.u64()?.checked_add(HEADER as u64)?;
    Some((place, len.div_ceil(BLOCK)))
}

/// The changes of a batch, from all its blocks. None: it is damaged, or was not written to its end.
pub(super) fn decode_batch(blocks: &[u8]) -> Option<Vec<Change>> {
    let len = Reader(blocks.get(HEADER - 12..)?).u64()?;
    let body = blocks.get(HEADER..)?.get(..usize::try_from(len).ok()?)?;
    if crc(&[&blocks[..HEADER - 4], body]) != Reader(&blocks[HEADER - 4..]).u32()? {
        return None;
    }
    let (mut r, mut out) = (Reader(body), Vec::new());
    while !r.0.is_empty() {
        out.push(Change::decode(&mut r)?);
    }
    Some(out)
}

/// Whether a name can be stored.
pub(super) fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name.len() > NAME {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    Ok(())
}

fn crc(parts: &[&[u8]]) -> u32 {
    match parts {
        [one] => checksum(CrcAlgorithm::Crc32Iscsi, one) as u32,
        parts => {
            let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
            parts.iter().for_each(|p| digest.update(p));
            digest.finalize() as u32
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change() -> impl Strategy<Value = Change> {
        let extent = (any::<u64>(), any::<u64>(), 0..WRITTEN, any::<bool>())
            .prop_map(|(at, start, count, written)| (at, Extent { start, count, written }));
        prop_oneof![
            (any::<u64>(), any::<u64>(), proptest::collection::vec(extent, 0..300))
                .prop_map(|(id, len, extents)| Change::File { id, len, extents }),
            ("[a-z/]{1,20}", any::<Option<u64>>()).prop_map(|(name, file)| Change::Name { name, file }),
        ]
    }

    proptest! {
        #[test]
        fn batches_come_back_and_damage_is_seen(
            changes in proptest::collection::vec(change(), 0..8),
            (generation, sequence, store) in any::<(u64, u64, [u8; 16])>(),
            damage in any::<(prop::sample::Index, u8)>(),
        ) {
            let mut body = Vec::new();
            changes.iter().for_each(|c| c.encode(&mut body));
            let place = Place { store, generation, sequence };
            let mut batch = encode_batch(place, &body);
            prop_assert_eq!(batch_head(&batch), Some((place, batch.len() as u64 / BLOCK)));
            prop_assert_eq!(decode_batch(&batch), Some(changes));
            let used = HEADER + body.len();
            let at = damage.0.index(used);
            batch[at] ^= 1 << (damage.1 % 8);
            prop_assert_eq!(decode_batch(&batch), None);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
            let _ = (batch_head(&bytes), decode_batch(&bytes), Superblock::decode(&bytes, 1 << 20));
            // Whatever the checksum says.
            let mut r = Reader(&bytes);
            while Change::decode(&mut r).is_some() {}
        }
    }

    #[test]
    fn superblocks_come_back_and_fit_their_device() {
        let s = Superblock { store: [7; 16], blocks: 1000, log: 100 };
        let block = s.encode();
        assert_eq!(Superblock::decode(&block, 1000), Some(s));
        assert_eq!(Superblock::decode(&block, 2000), Some(s));
        assert_eq!(Superblock::decode(&block, 999), None);
        for at in 0..SUPERBLOCK + 4 {
            let mut damaged = block.clone();
            damaged[at] ^= 1;
            assert_eq!(Superblock::decode(&damaged, 1000), None, "{at}");
        }
    }
}
