//! What a drive counts since it was opened, and the damage it noted.
//!
//! Invariant: the counters are independent of each other; notes are bounded ([`MAX_NOTES`]). Depends on no
//! other file of this crate.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Notes of damage kept.
pub(crate) const MAX_NOTES: usize = 64;

/// Counters; the atomics are independent of each other.
#[derive(Default)]
pub(crate) struct Counters {
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub syncs: AtomicU64,
    pub records: AtomicU64,
    pub batches: AtomicU64,
    pub commit_us: AtomicU64,
    pub commit_us_max: AtomicU64,
    pub compacted: AtomicU64,
    /// Extent segments used again.
    pub recycled: AtomicU64,
    pub read_errors: AtomicU64,
    pub journal_damage: AtomicU64,
    /// The last durable batch that the journal showed when the drive was opened.
    pub opened_sequence: AtomicU64,
    pub index_rebuilt: AtomicU64,
    /// What the damage was, for people; at most [`MAX_NOTES`].
    pub damage: Mutex<Vec<String>>,
    /// An index file did not verify: the keeper rebuilds.
    pub index_broken: AtomicBool,
}
