//! What a superblock says of the directory of its member. **Part of the on-drive format** (docs/array.md, "Format").
//!
//! Must not depend on: what a directory holds.

use ashlar_checksum::frame_hash;
use ashlar_format::Error::{self, Malformed};
use ashlar_format::codec::{Reader, Writer};

/// Bytes of a directory, at most.
pub(crate) const LEN: usize = 32 * 4096;
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

    /// Of what was read at its place, the bytes that it is for.
    ///
    /// # Errors
    /// `Checksum` if they are not the ones, `Malformed` if there are too few.
    pub(crate) fn verified<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        let bytes = bytes.get(..self.len as usize).ok_or(Malformed("length of a directory"))?;
        if frame_hash(&KEY, &[bytes]) == self.hash { Ok(bytes) } else { Err(Error::Checksum("directory")) }
    }
}
