//! The map of a thin virtual drive: which piece of the group's address space each piece of it has. **Part of the on-drive format**
//! (docs/array.md, "Format").
//!
//! A map is a table of entries of 4 bytes, in blocks; an entry is the number of a piece of the group and one, or 0: there is none.
//!
//! Invariants: blocks without entries take no memory; what is encoded is what was decoded.
//!
//! Must not depend on: groups, who has which piece.

use crate::geometry::BLOCK;

/// Entries of a block.
pub(crate) const ENTRIES: usize = BLOCK / 4;

/// The entries of a block, as they are stored.
pub(crate) type Entries = [u32; ENTRIES];

/// The entries of a block of a map. None: it has none.
pub(crate) fn decode(block: &[u8]) -> Option<Box<Entries>> {
    let mut out = Box::new([0; ENTRIES]);
    for (entry, bytes) in out.iter_mut().zip(block.chunks_exact(4)) {
        *entry = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    out.iter().any(|e| *e != 0).then_some(out)
}

/// The inverse of [`decode`].
pub(crate) fn encode(entries: &Entries) -> Vec<u8> {
    entries.iter().flat_map(|e| e.to_le_bytes()).collect()
}

/// The piece of an entry.
fn piece(entry: u32) -> Option<u64> {
    entry.checked_sub(1).map(u64::from)
}

/// The entry of a piece. None: it is too far away for an entry.
pub(crate) fn entry(piece: u64) -> Option<u32> {
    u32::try_from(piece + 1).ok()
}

/// A map in memory.
#[derive(Clone, Default, Debug)]
pub(crate) struct Map {
    blocks: Vec<Option<Box<Entries>>>,
    given: u64,
}

impl Map {
    /// An empty one of so many blocks.
    pub(crate) fn new(blocks: u64) -> Map {
        Map { blocks: vec![None; blocks as usize], given: 0 }
    }

    /// The block of an entry, and its place there.
    pub(crate) fn place(index: u64) -> (u64, usize) {
        (index / ENTRIES as u64, (index % ENTRIES as u64) as usize)
    }

    /// The piece of the group that this piece of the virtual drive has.
    pub(crate) fn get(&self, index: u64) -> Option<u64> {
        let (block, at) = Map::place(index);
        piece(self.blocks.get(block as usize)?.as_ref()?[at])
    }

    /// The entries of a block.
    pub(crate) fn entries(&self, block: u64) -> Box<Entries> {
        let found = self.blocks.get(block as usize).and_then(Clone::clone);
        found.unwrap_or_else(|| Box::new([0; ENTRIES]))
    }

    /// Sets the entries of a block, which is one of the map.
    pub(crate) fn set(&mut self, block: u64, entries: Option<Box<Entries>>) {
        let count =
            |e: &Option<Box<Entries>>| e.as_ref().map_or(0, |e| e.iter().filter(|e| **e != 0).count()) as u64;
        let entries = entries.filter(|e| e.iter().any(|e| *e != 0));
        let more = count(&entries);
        let before = std::mem::replace(&mut self.blocks[block as usize], entries);
        self.given = self.given - count(&before) + more;
    }

    /// How many pieces it has.
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// Its pieces: those of the virtual drive, ascending, and those of the group that they have.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        let blocks = (0u64..).zip(&self.blocks).filter_map(|(b, entries)| Some((b, entries.as_ref()?)));
        blocks.flat_map(|(b, entries)| {
            let first = b * ENTRIES as u64;
            (first..).zip(entries.iter()).filter_map(|(index, e)| Some((index, piece(*e)?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_keeps_its_bytes() {
        let mut map = Map::new(3);
        let mut entries = map.entries(1);
        (entries[0], entries[1023]) = (entry(0).unwrap(), entry(0x0102_0303).unwrap());
        let bytes = encode(&entries);
        // The format: docs/array.md.
        assert_eq!((&bytes[..8], &bytes[4092..]), (&[1, 0, 0, 0, 0, 0, 0, 0][..], &[4, 3, 2, 1][..]));
        map.set(1, decode(&bytes));
        assert_eq!(map.all().collect::<Vec<_>>(), [(1024, 0), (2047, 0x0102_0303)]);
        assert_eq!((map.given(), map.get(1024), map.get(1025), map.get(9999)), (2, Some(0), None, None));
        map.set(1, decode(&[0; BLOCK]));
        assert_eq!((map.given(), map.all().count()), (0, 0));
        assert_eq!((entry(u64::from(u32::MAX) - 1), entry(u64::from(u32::MAX))), (Some(u32::MAX), None));
    }
}
