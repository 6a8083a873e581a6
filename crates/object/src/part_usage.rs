//! Bytes of parts of open uploads, in buckets with a limit: they take room like versions do.
//!
//! A count goes through the part registers of a bucket once, and from then on every part that is stored,
//! replaced or dropped adds its difference. Where no bucket has a limit, a change pays one atomic load.
//!
//! Invariant: a part is counted from its commit until its register is cleared; at a completion that is after
//! the version counts, so that the sum is never too small. What changes in a key that a count reads at that
//! very moment may be missed until the next count.
//!
//! Must not depend on: limits.

use ashlar_environment::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ashlar_format::BucketId;
use parking_lot::{Mutex, RwLock};

/// The count of one bucket.
#[derive(Default)]
pub(crate) struct Count {
    /// The last count with what happened since; `None`: never counted.
    pub known: Option<i64>,
    /// A count on its way, and the last register that it has seen.
    pub running: Option<(i64, Vec<u8>)>,
}

/// All buckets whose parts are counted.
#[derive(Default)]
pub(crate) struct PartUsage {
    number: AtomicUsize,
    buckets: RwLock<HashMap<BucketId, Arc<Mutex<Count>>>>,
}

impl PartUsage {
    /// The count of a bucket, if it is counted.
    pub fn of(&self, bucket: BucketId) -> Option<Arc<Mutex<Count>>> {
        if self.number.load(Relaxed) == 0 {
            return None;
        }
        self.buckets.read().get(&bucket).cloned()
    }

    /// Counts a bucket's parts from now on, or no longer.
    pub fn follow(&self, bucket: BucketId, counts: bool) {
        let mut buckets = self.buckets.write();
        match counts {
            true => drop(buckets.entry(bucket).or_default()),
            false => drop(buckets.remove(&bucket)),
        }
        self.number.store(buckets.len(), Relaxed);
    }

    /// Bytes of the parts of a bucket; `None`: it was never counted.
    pub fn bytes(&self, bucket: BucketId) -> Option<u64> {
        let known = self.of(bucket)?.lock().known?;
        Some(u64::try_from(known).unwrap_or(0))
    }

    /// A part register changed its size.
    pub fn note(&self, bucket: BucketId, key: &[u8], difference: i64) {
        let Some(count) = self.of(bucket) else { return };
        let mut c = count.lock();
        if let Some(known) = &mut c.known {
            *known = known.saturating_add(difference);
        }
        if let Some((sum, seen)) = &mut c.running
            && key <= &seen[..]
        {
            *sum = sum.saturating_add(difference);
        }
    }
}
