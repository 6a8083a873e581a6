//! Rows of the tables of space: journal segments, extent segments, regions.
//!
//! Invariant: these are plain values; the code that changes them is in `segment`, `extent`, `recycle` and
//! `account`.
//!
//! Must not depend on: the state of a drive.

use crate::entry::Region;
use ashlar_environment::time::Instant;
use ashlar_machine::DiskFile;
use std::sync::Arc;

/// A journal segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Length of the file.
    pub bytes: u64,
    /// Bytes of records that the index points to.
    pub live: u64,
    /// Bytes of purge and discard records.
    pub deletions: u64,
    /// Segments that make those necessary: they are needed while a segment in this range exists.
    pub need: Option<(u32, u32)>,
}

/// A prepared journal segment.
pub(crate) struct Spare {
    pub number: u32,
    pub bytes: u64,
    pub file: Arc<DiskFile>,
}

/// An extent segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Length of the file.
    pub bytes: u64,
    /// The offset of the next region.
    pub at: u64,
    /// Bytes of regions in use.
    pub live: u64,
    /// Shards being written.
    pub writers: u32,
    /// Accepts no more regions.
    pub sealed: bool,
    /// Its count is wrong: nothing is given back (see `account`).
    pub suspect: bool,
    /// There is no such file.
    pub lost: bool,
}

/// An empty extent segment with a durable name.
pub(crate) struct SpareExtent {
    pub number: u32,
    pub bytes: u64,
    pub since: Instant,
}

/// A freed region of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub region: Region,
    pub bytes: u64,
}

/// Freed regions of one segment.
pub(crate) struct FreedWaiting {
    pub since: Instant,
    pub regions: Vec<Freed>,
}

/// The end of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub segment: u32,
    pub at: u32,
    pub seq: u64,
    pub chain: [u8; 16],
}
