//! Bytes of parts of open uploads, in buckets with a limit: they count against the limit like versions.
//!
//! A count reads the part registers of a bucket once; from then on every part that is stored, replaced or
//! dropped adds its difference. If no bucket has a limit, a change costs one atomic load.
//!
//! Invariant: a part is counted from its commit until its register is cleared; at a completion this is after
//! the version is counted, so that the sum is never too small. A change of a key that a count reads at the
//! same moment may be missed until the next count.
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
    /// The last count plus the changes since; `None`: never counted.
    pub known: Option<i64>,
    /// A count under way, and the last register that it has read.
    pub running: Option<(i64, Vec<u8>)>,
}

/// All buckets whose parts are counted.
#[derive(Default)]
pub(crate) struct PartUsage {
    number: AtomicUsize,
    buckets: RwLock<HashMap<BucketId, Arc<Mutex<Count>>>>,
}

impl PartUsage {
    /// The count of a bucket, if its parts are counted.
    pub fn of(&self, bucket: BucketId) -> Option<Arc<Mutex<Count>>> {
        if self.number.load(Relaxed) == 0 {
            return None;
        }
        self.buckets.read().get(&bucket).cloned()
    }

    /// Starts or stops counting the parts of a bucket.
    pub fn follow(&self, bucket: BucketId, counts: bool) {
        let mut buckets = self.buckets.write();
        match counts {
            true => drop(buckets.entry(bucket).or_default()),
            false => drop(buckets.remove(&bucket)),
        }
        self.number.store(buckets.len(), Relaxed);
    }

    /// Bytes of the parts of a bucket; `None` if it was never counted.
    pub fn bytes(&self, bucket: BucketId) -> Option<u64> {
        let known = self.of(bucket)?.lock().known?;
        Some(u64::try_from(known).unwrap_or(0))
    }

    /// Records that a part register changed its size.
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
