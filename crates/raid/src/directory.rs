//! The directory: the virtual drives of a group that has more of them than the superblock has room for. **Part of the on-drive format**
//! (docs/array.md, "Format").
//!
//! Each member has two places for it, the last blocks of the area of its journal, which is shorter then. A new directory is written to the place that
//! does not hold the one in force, and flushed, before a superblock says its place, its length and its hash; so a power cut at any instant leaves
//! a superblock with its directory. A group that has one keeps it.
//!
//! Invariants: what a superblock says of a directory is verified before a byte of it counts; the journals were empty when their areas became shorter.
//!
//! Must not depend on: how virtual drives are used.

use ashlar_checksum::frame_hash;
use ashlar_format::Error::{self, Malformed};
use ashlar_format::codec::{Reader, Writer};

use crate::geometry::BLOCK;
use crate::group::Group;
use crate::layout::{JOURNAL, MIN_JOURNAL};
use crate::properties;
use crate::superblock::{MAX_VOLUMES, Volume, get_volumes, put_volumes};

/// Blocks of each of the two places.
const PLACE: u64 = 32;
/// Blocks of both.
pub(crate) const BLOCKS: u64 = 2 * PLACE;
/// Bytes of a directory, at most.
const LEN: usize = PLACE as usize * BLOCK;
pub(crate) const KEY: [u64; 4] = [
    u64::from_le_bytes(*b"ashlar r"),
    u64::from_le_bytes(*b"aid dire"),
    u64::from_le_bytes(*b"ctory v1"),
    u64::from_le_bytes(*b"........"),
];

/// What a superblock says of the directory of its member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    /// Which of the two places: 0 or 1.
    pub(crate) place: u8,
    /// Its bytes.
    pub(crate) len: u32,
    pub(crate) hash: [u8; 32],
}

impl Reference {
    /// That of these bytes.
    pub(crate) fn to(place: u8, bytes: &[u8]) -> Reference {
        Reference { place, len: bytes.len() as u32, hash: frame_hash(&KEY, &[bytes]) }
    }

    pub(crate) fn put(&self, w: &mut Writer) {
        w.u8(self.place);
        w.u32(self.len);
        w.raw(&self.hash);
    }

    pub(crate) fn get(r: &mut Reader<'_>) -> Result<Reference, Error> {
        let found = Reference { place: r.u8()?, len: r.u32()?, hash: r.array()? };
        if found.place > 1 || found.len as usize > LEN {
            Err(Malformed("place of a directory"))
        } else {
            Ok(found)
        }
    }

    /// The virtual drives that these bytes, read at its place, say; what is behind its length does not count.
    ///
    /// # Errors
    /// `Checksum` if they are not the ones, else `Malformed`.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<Vec<Volume>, Error> {
        let bytes = bytes.get(..self.len as usize).ok_or(Malformed("length of a directory"))?;
        if frame_hash(&KEY, &[bytes]) != self.hash {
            return Err(Error::Checksum("directory"));
        }
        decode(bytes)
    }
}

/// The first block of a place, in an area of a journal of so many blocks with the directories.
pub(crate) fn place(journal_area: u64, place: u8) -> Option<u64> {
    Some(JOURNAL + journal_area.checked_sub(BLOCKS)? + u64::from(place) * PLACE)
}

pub(crate) fn encode(volumes: &[Volume]) -> Vec<u8> {
    let mut w = Writer::with_capacity(BLOCK);
    put_volumes(&mut w, volumes);
    let has_properties = volumes.iter().any(properties::has_any);
    w.bool(has_properties);
    if has_properties {
        properties::put(&mut w, volumes);
    }
    w.into_vec()
}

/// The inverse of [`encode`].
///
/// # Errors
/// `Malformed`, also if something is behind it.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Volume>, Error> {
    let mut r = Reader::new(bytes);
    let mut volumes = get_volumes(&mut r)?;
    if r.bool()? {
        properties::get(&mut r, &mut volumes)?;
    }
    if volumes.len() > MAX_VOLUMES || !r.rest().is_empty() {
        Err(Malformed("directory"))
    } else {
        Ok(volumes)
    }
}

/// Whether virtual drives fit a directory.
pub(crate) fn fits(volumes: &[Volume]) -> bool {
    volumes.len() <= MAX_VOLUMES && encode(volumes).len() <= LEN
}

impl Group {
    /// Keeps the virtual drives in a directory from the next superblock on. No batch is under way.
    ///
    /// # Errors
    /// [`crate::Error::State`] if the journals are too short to give room for it; [`crate::Error::Failed`].
    pub(crate) fn begin_directory(&mut self) -> Result<(), crate::Error> {
        let left = self.layout.journal_blocks.checked_sub(BLOCKS).filter(|blocks| *blocks >= MIN_JOURNAL);
        let Some(left) = left else {
            return Err(crate::Error::State(format!(
                "the superblock has no room for more virtual drives, and the journals of this group are too short to keep them: \
                 a group whose journals have {} KiB and more can have {MAX_VOLUMES}",
                (MIN_JOURNAL + BLOCKS) * BLOCK as u64 >> 10
            )));
        };
        // What the journals have is in place, so nothing is in the blocks that they lose.
        self.checkpoint()?;
        self.layout.journal_blocks = left;
        self.layout.directory_blocks = BLOCKS;
        self.superblock.directory = true;
        Ok(())
    }
}
