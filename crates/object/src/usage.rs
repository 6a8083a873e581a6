//! The usage of buckets, and their limits.
//!
//! Every bucket is counted: once from the index after the start (`count`); from then on every change adds its
//! difference (`tally`). Counts are not stored: after a crash they come from the records. Cost: a change is
//! added to and removed from one small table of its bucket, without I/O. Parts of open uploads count against
//! a limit too (`part_usage`) and are not in [`Usage`], which counts versions.
//!
//! Invariants: the bytes that a body may add are reserved before its first byte, so that concurrent bodies
//! together never exceed the limit; until a bucket with a limit has been counted once, nothing is added to
//! it. A count is exact while changes continue: keys of which a scan cannot be sure are read again
//! separately. A rename is counted when its keys are freed, by whichever operation frees them.
//!
//! On several machines each counts its own changes between two counts.
//!
//! Must not depend on: who sets limits.

use ashlar_environment::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use ashlar_format::BucketId;
use parking_lot::{Mutex, RwLock};

use crate::bucket::Bucket;
use crate::part_usage::PartUsage;
use crate::tally::{self, Share};
pub use crate::tally::{COUNT_BOUNDS, SIZE_BOUNDS, Usage};
use crate::{Error, Result};

/// The document of a bucket that contains its limit, in bytes as decimal digits.
pub const QUOTA: &str = "quota";

/// No limit.
const NONE: u64 = u64::MAX;

/// The state of the count of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The usage. Before the first count ends: what it has found so far.
    pub usage: Usage,
    /// Whether a first count has ended. False after a start until the bucket has been scanned.
    pub complete: bool,
    /// Keys with a change of unknown outcome, or that have to be read again.
    pub unsettled: u64,
    /// Time of the last count, in milliseconds since 1970; 0: none. Later changes are added.
    pub counted_ms: i64,
}

/// The counts of one bucket.
pub(crate) struct Ledger {
    pub tally: Mutex<tally::Bucket>,
    /// Bytes; [`NONE`]: no limit.
    limit: AtomicU64,
    /// Allows one scan at a time.
    pub turn: tokio::sync::Mutex<()>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { tally: Mutex::default(), limit: AtomicU64::new(NONE), turn: tokio::sync::Mutex::default() }
    }
}

/// All buckets.
#[derive(Default)]
pub(crate) struct Usages {
    /// Number of buckets with a limit; most bodies check only this.
    limited: AtomicUsize,
    buckets: RwLock<HashMap<BucketId, Arc<Ledger>>>,
    /// Parts of open uploads, which also count against limits.
    pub parts: PartUsage,
}

/// Bytes reserved in a bucket for a body under way; given back when dropped.
#[derive(Default)]
pub(crate) struct Room(Option<(Arc<Ledger>, u64)>);

impl Drop for Room {
    fn drop(&mut self) {
        if let Some((ledger, bytes)) = self.0.take() {
            let mut tally = ledger.tally.lock();
            tally.reserved = tally.reserved.saturating_sub(bytes);
        }
    }
}

/// A change of a key under way. If it is dropped before its end, its outcome is unknown if it proposed
/// anything.
pub(crate) struct Changing<'a> {
    ledger: Arc<Ledger>,
    key: &'a [u8],
    hash: u64,
    proposed: Option<(Share, Share)>,
    ended: bool,
}

impl Changing<'_> {
    /// It reads the key again: its earlier proposal did not take effect.
    pub fn looks(&mut self) {
        self.proposed = None;
    }

    /// It proposes `new` in the place of `old`.
    pub fn proposes(&mut self, old: Share, new: Share) {
        self.proposed = Some((old, new));
    }

    /// Its last proposal took effect; without a proposal, it changed nothing.
    pub fn took_effect(mut self) {
        self.ended = true;
        let mut tally = self.ledger.tally.lock();
        match &self.proposed {
            Some((old, new)) => tally.committed(self.hash, self.key, old, new),
            None => tally.nothing(self.hash),
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut tally = self.ledger.tally.lock();
        match &self.proposed {
            Some((old, _)) => tally.lost(self.hash, self.key, old),
            None => tally.nothing(self.hash),
        }
    }
}

impl Usages {
    /// The counts of a bucket.
    pub fn of(&self, bucket: BucketId) -> Arc<Ledger> {
        if let Some(ledger) = self.buckets.read().get(&bucket) {
            return ledger.clone();
        }
        self.buckets.write().entry(bucket).or_default().clone()
    }

    /// Sets or removes the limit of a bucket.
    pub fn limit(&self, bucket: BucketId, limit: Option<u64>) {
        self.parts.follow(bucket, limit.is_some());
        let ledger = self.of(bucket);
        let had = ledger.limit.swap(limit.unwrap_or(NONE), Relaxed);
        match (had == NONE, limit.is_none()) {
            (true, false) => self.limited.fetch_add(1, Relaxed),
            (false, true) => self.limited.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }

    /// A bucket was created: it is empty.
    pub fn made(&self, bucket: BucketId, now_ms: i64) {
        self.of(bucket).tally.lock().start_empty(now_ms);
    }

    /// The bucket is gone.
    pub fn forget(&self, bucket: BucketId) {
        self.limit(bucket, None);
        self.buckets.write().remove(&bucket);
    }

    /// Reserves bytes for a body.
    pub fn reserve(&self, bucket: BucketId, bytes: u64) -> Result<Room> {
        if self.limited.load(Relaxed) == 0 {
            return Ok(Room::default());
        }
        let ledger = self.of(bucket);
        let limit = ledger.limit.load(Relaxed);
        if limit == NONE {
            return Ok(Room::default());
        }
        let mut tally = ledger.tally.lock();
        let (Some(used), Some(parts)) = (tally.bytes(), self.parts.bytes(bucket)) else {
            return Err(Error::Busy);
        };
        let used = used.saturating_add(parts);
        if used.saturating_add(tally.reserved).saturating_add(bytes) > limit {
            return Err(Error::QuotaExceeded { used, limit });
        }
        tally.reserved += bytes;
        drop(tally);
        Ok(Room(Some((ledger, bytes))))
    }

    /// Begins a change of a key; call it before the register is read for the change.
    pub fn begin<'a>(&self, bucket: BucketId, key: &'a [u8]) -> Changing<'a> {
        let ledger = self.of(bucket);
        let hash = ledger.tally.lock().begin(key);
        Changing { ledger, key, hash, proposed: None, ended: false }
    }
}

/// The limit of a bucket; if it cannot be decoded, nothing may be added.
pub(crate) fn limit_of(bucket: &Bucket) -> Option<u64> {
    bucket.documents.get(QUOTA).map(|text| text.parse().unwrap_or(0))
}
