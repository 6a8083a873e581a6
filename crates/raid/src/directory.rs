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

use ashlar_format::Error::{self, Malformed};
use ashlar_format::codec::{Reader, Writer};

use crate::geometry::BLOCK;
use crate::layout::DIRECTORY;
use crate::properties;
use crate::reference::{LEN, Reference};
use crate::superblock::{MAX_VOLUMES, Volume, get_volumes, put_volumes};

const _: () = assert!(LEN == DIRECTORY as usize * BLOCK, "a directory fits its place");

/// The virtual drives that the bytes at the place of a reference say; what is behind its length does not count.
///
/// # Errors
/// `Checksum` if they are not the ones, else `Malformed`.
pub(crate) fn read(reference: &Reference, bytes: &[u8]) -> Result<Vec<Volume>, Error> {
    decode(reference.verified(bytes)?)
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
