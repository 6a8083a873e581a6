//! Bytes of parts of open uploads, in buckets with a limit: they take room like versions do.
//!
//! A count goes through the part registers of a bucket once, and from then on every part that is stored,
//! replaced or dropped adds its difference. Where no bucket has a limit, a change pays one atomic load.
//!
//! Invariant: a part is counted from its commit until its register is cleared; at a completion that is after
//! the version counts, so that the sum is never too small. What changes in a key that a count reads at that
//! very moment may be missed until the next count.
//!
//! Must never know: limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ashlar_format::{BucketId, Space};
use parking_lot::{Mutex, RwLock};

use crate::store::Inner;
use crate::{MAX_PAGE, Result, seal, summary};

#[derive(Default)]
struct Count {
    /// The last count with what happened since; `None`: never counted.
    known: Option<i64>,
    /// A count on its way, and the last register that it has seen.
    running: Option<(i64, Vec<u8>)>,
}

/// All buckets whose parts are counted.
#[derive(Default)]
pub(crate) struct PartUsage {
    number: AtomicUsize,
    buckets: RwLock<HashMap<BucketId, Arc<Mutex<Count>>>>,
}

impl PartUsage {
    fn of(&self, bucket: BucketId) -> Option<Arc<Mutex<Count>>> {
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

impl Inner {
    /// Counts the parts of a bucket, if they matter.
    pub(crate) async fn count_parts(&self, bucket: BucketId) -> Result<()> {
        let Some(count) = self.usage.parts.of(bucket) else { return Ok(()) };
        count.lock().running = Some((0, Vec::new()));
        let mut from = Vec::new();
        loop {
            let page = self.backend.list(Space::Part, bucket, &[], &from, MAX_PAGE).await?;
            let size = |s: summary::PartSummary| match seal::split(s.checksum.as_ref()).0 {
                Some(_) => seal::plain_len(s.size),
                None => s.size,
            };
            let sizes = page.entries.iter().filter_map(|(_, s)| summary::part(s)).map(size);
            let here = sizes.fold(0i64, i64::saturating_add_unsigned);
            let mut c = count.lock();
            let Some((sum, seen)) = &mut c.running else { return Ok(()) };
            *sum = sum.saturating_add(here);
            match page.entries.last() {
                Some((last, _)) if page.truncated => {
                    *seen = last.to_vec();
                    from = last.to_vec();
                    from.push(0);
                }
                _ => {
                    c.known = c.running.take().map(|(sum, _)| sum);
                    return Ok(());
                }
            }
        }
    }
}
