//! Thin virtual drives as they are kept with a group in service. Their rules are those of [`crate::thin`], which alone changes them.
//!
//! Must not depend on: groups, what requests do.

use std::collections::BTreeMap;

use crate::thin_map::{ENTRIES, Entries, Map};
use crate::thin_room::Room;

/// The map of a virtual drive, as it was found.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// None: it cannot be read.
    pub(crate) map: Option<Map>,
    /// Why the virtual drive is not served.
    pub(crate) damage: Option<String>,
}

/// The thin virtual drives of a group.
#[derive(Default, Debug)]
pub(crate) struct Thin {
    /// By the first block of their maps.
    pub(crate) maps: BTreeMap<u64, Loaded>,
    /// None: there are no thin virtual drives.
    pub(crate) room: Option<Room>,
    /// What a mutant has not written yet.
    #[cfg(test)]
    pub(crate) late: Changed,
}

/// What a thin virtual drive has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThinStatus {
    /// Its name.
    pub name: String,
    /// Bytes of the group that it has, without its map.
    pub allocated: u64,
    /// Why it is not served.
    pub damage: Option<String>,
}

/// A part of a request, in the address space of the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Its first byte in the request, and its bytes.
    pub(crate) from: u64,
    pub(crate) len: u64,
    /// Its first byte in the group. None: it has no room, and reads as zeros.
    pub(crate) at: Option<u64>,
}

/// Blocks of maps with new entries, by map and block.
pub(crate) type Changed = BTreeMap<(u64, u64), Box<Entries>>;

impl Loaded {
    /// The entries of a block.
    pub(crate) fn entries(&self, block: u64) -> Box<Entries> {
        self.map.as_ref().map_or_else(|| Box::new([0; ENTRIES]), |map| map.entries(block))
    }
}
