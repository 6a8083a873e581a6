//! The counters of a drive since it was opened, and its notes of damage.
//!
//! Invariants: the counters are independent of each other; notes are bounded ([`MAX_NOTES`]).
//!
//! Must not depend on: other files of this crate.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Number of notes of damage that are kept.
pub(crate) const MAX_NOTES: usize = 64;

/// The counters.
#[derive(Default)]
pub(crate) struct Counters {
    pub reads: AtomicU64,
    /// Registers that scans and digests went through.
    pub scanned: AtomicU64,
    pub writes: AtomicU64,
    pub syncs: AtomicU64,
    pub records: AtomicU64,
    pub batches: AtomicU64,
    pub commit_us: AtomicU64,
    pub commit_us_max: AtomicU64,
    pub compacted: AtomicU64,
    /// Extent segments that were reused.
    pub recycled: AtomicU64,
    pub read_errors: AtomicU64,
    pub journal_damage: AtomicU64,
    /// The last durable batch that the journal showed when the drive was opened.
    pub opened_sequence: AtomicU64,
    pub index_rebuilt: AtomicU64,
    /// Descriptions of the damage, for people; at most [`MAX_NOTES`].
    pub damage: Mutex<Vec<String>>,
    /// An index file did not verify: the maintenance thread rebuilds.
    pub index_broken: AtomicBool,
}
