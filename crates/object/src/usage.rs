//! How much a bucket holds, and a limit to it.
//!
//! Only buckets with a limit are counted: others pay one atomic load per change. Parts of open uploads count
//! against the limit (`part_usage`) and are not in [`Usage`], which is of versions. A count goes through all
//! versions once, and from then on every change adds its difference. Invariants: what a body may add is
//! reserved before its first byte, so that bodies in flight together never exceed the limit; until a
//! bucket has been counted once, nothing is added to it.
//!
//! A change of a key that a count reads at that very moment may be counted twice or not at all; counts
//! are repeated ([`Store::count_usage`]) so that such differences, and changes of unknown outcome, do not
//! stay. On many machines each counts its own changes between two counts.
//!
//! Must never know: who sets limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ashlar_format::{BucketId, Version};
use parking_lot::{Mutex, RwLock};

use crate::list::VersionListSpec;
use crate::part_usage::PartUsage;
use crate::store::Inner;
use crate::{Error, Result, Store};

/// The bucket's document that holds its limit, in bytes as decimal digits.
pub const QUOTA: &str = "quota";

/// Versions read at once by a count.
const PAGE: usize = 1000;

/// What a bucket holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all versions.
    pub bytes: u64,
    /// Versions, without delete markers.
    pub versions: u64,
}

/// The difference that a change makes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Difference {
    bytes: i64,
    versions: i64,
}

impl Difference {
    /// From one list of versions to the next.
    pub fn between(old: &[Version], new: &[Version]) -> Difference {
        let sum = |list: &[Version]| {
            let all = list.iter().filter(|v| !v.delete_marker);
            all.fold((0i64, 0i64), |(b, n), v| (b.saturating_add_unsigned(v.size), n + 1))
        };
        let ((a, n), (b, m)) = (sum(old), sum(new));
        Difference { bytes: b.saturating_sub(a), versions: m - n }
    }
}

#[derive(Default)]
struct Count {
    bytes: i64,
    versions: i64,
}

impl Count {
    fn add(&mut self, d: Difference) {
        self.bytes = self.bytes.saturating_add(d.bytes);
        self.versions = self.versions.saturating_add(d.versions);
    }
}

#[derive(Default)]
struct Counted {
    limit: u64,
    /// The last count with what happened since; `None`: never counted.
    known: Option<Count>,
    /// A count on its way, and the last key that it has seen.
    running: Option<(Count, String)>,
    reserved: u64,
}

/// All buckets with a limit.
#[derive(Default)]
pub(crate) struct Usages {
    /// How many there are, so that most changes look no further.
    number: AtomicUsize,
    buckets: RwLock<HashMap<BucketId, Arc<Mutex<Counted>>>>,
    /// Parts of open uploads count against limits too.
    pub parts: PartUsage,
}

/// Room in a bucket for bytes on their way; given back when dropped.
#[derive(Default)]
pub(crate) struct Room(Option<(Arc<Mutex<Counted>>, u64)>);

impl Drop for Room {
    fn drop(&mut self) {
        if let Some((counted, bytes)) = self.0.take() {
            let mut counted = counted.lock();
            counted.reserved = counted.reserved.saturating_sub(bytes);
        }
    }
}

impl Usages {
    fn of(&self, bucket: BucketId) -> Option<Arc<Mutex<Counted>>> {
        if self.number.load(Relaxed) == 0 {
            return None;
        }
        self.buckets.read().get(&bucket).cloned()
    }

    fn limit(&self, bucket: BucketId, limit: Option<u64>) {
        self.parts.follow(bucket, limit.is_some());
        let mut buckets = self.buckets.write();
        match limit {
            Some(limit) => buckets.entry(bucket).or_default().lock().limit = limit,
            None => {
                buckets.remove(&bucket);
            }
        }
        self.number.store(buckets.len(), Relaxed);
    }

    /// The bucket is gone.
    pub fn forget(&self, bucket: BucketId) {
        self.limit(bucket, None);
    }

    /// Reserves room for a body.
    pub fn reserve(&self, bucket: BucketId, bytes: u64) -> Result<Room> {
        let Some(counted) = self.of(bucket) else { return Ok(Room::default()) };
        let mut c = counted.lock();
        let (Some(known), Some(parts)) = (&c.known, self.parts.bytes(bucket)) else {
            return Err(Error::Busy);
        };
        let used = u64::try_from(known.bytes).unwrap_or(0).saturating_add(parts);
        if used.saturating_add(c.reserved).saturating_add(bytes) > c.limit {
            return Err(Error::QuotaExceeded { used, limit: c.limit });
        }
        c.reserved += bytes;
        drop(c);
        Ok(Room(Some((counted, bytes))))
    }

    /// Whether differences of this bucket matter.
    pub fn counts(&self, bucket: BucketId) -> bool {
        self.of(bucket).is_some()
    }

    /// A change was committed.
    pub fn note(&self, bucket: BucketId, key: &[u8], difference: Difference) {
        let Some(counted) = self.of(bucket) else { return };
        let mut c = counted.lock();
        if let Some(known) = &mut c.known {
            known.add(difference);
        }
        if let Some((count, seen)) = &mut c.running
            && key <= seen.as_bytes()
        {
            count.add(difference);
        }
    }
}

impl Inner {
    /// Takes up the limits that buckets have: at the start.
    pub(crate) fn take_limits(&self) {
        for live in self.registry.all() {
            let bucket = live.bucket();
            self.usage.limit(bucket.id, limit_of(&bucket));
        }
    }
}

/// The limit of a bucket; one that cannot be read lets nothing in.
fn limit_of(bucket: &crate::Bucket) -> Option<u64> {
    bucket.documents.get(QUOTA).map(|text| text.parse().unwrap_or(0))
}

impl Store {
    /// Limits what a bucket may hold, in bytes of all versions; `None`: without limit. What is there
    /// already stays. The bucket is counted before this returns.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub async fn set_quota(&self, name: &str, limit: Option<u64>) -> Result<()> {
        self.set_bucket_document(name, QUOTA, limit.map(|l| l.to_string()).as_deref()).await?;
        let bucket = self.bucket(name)?;
        self.inner.usage.limit(bucket.id, limit_of(&bucket));
        if limit.is_some() {
            self.count_usage(name).await?;
        }
        Ok(())
    }

    /// The limit of a bucket in bytes.
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub fn quota(&self, name: &str) -> Result<Option<u64>> {
        Ok(limit_of(&*self.bucket(name)?))
    }

    /// What a bucket with a limit holds as far as is known; `None` without limit, or before the first
    /// count.
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub fn usage(&self, name: &str) -> Result<Option<Usage>> {
        let Some(counted) = self.inner.usage.of(self.bucket(name)?.id) else { return Ok(None) };
        let counted = counted.lock();
        let whole = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(counted.known.as_ref().map(|k| Usage { bytes: whole(k.bytes), versions: whole(k.versions) }))
    }

    /// Counts a bucket, and, if it has a limit, replaces what was known.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub async fn count_usage(&self, name: &str) -> Result<Usage> {
        let id = self.bucket(name)?.id;
        self.inner.count_parts(id).await?;
        let counted = self.inner.usage.of(id);
        if let Some(c) = &counted {
            c.lock().running = Some((Count::default(), String::new()));
        }
        let mut total = Usage::default();
        let (mut key, mut version) = (String::new(), None);
        loop {
            let spec = VersionListSpec {
                key_marker: &key,
                version_marker: version,
                max_keys: PAGE,
                ..VersionListSpec::default()
            };
            let page = self.list_versions(name, &spec).await?;
            let found = page.entries.iter().filter(|e| !e.delete_marker);
            let mut here = Count::default();
            for entry in found {
                here.bytes = here.bytes.saturating_add_unsigned(entry.entry.size);
                here.versions += 1;
            }
            total.bytes += u64::try_from(here.bytes).unwrap_or(0);
            total.versions += u64::try_from(here.versions).unwrap_or(0);
            if let (Some(c), Some(last)) = (&counted, page.entries.last())
                && let Some((count, seen)) = &mut c.lock().running
            {
                count.add(Difference { bytes: here.bytes, versions: here.versions });
                seen.clone_from(&last.entry.key);
            }
            if !page.truncated {
                break;
            }
            key = page.next_key.unwrap_or_default();
            version = page.next_version;
        }
        if let Some(c) = counted {
            let mut c = c.lock();
            c.known = c.running.take().map(|(count, _)| count);
        }
        Ok(total)
    }

    /// Counts every bucket that has a limit.
    ///
    /// # Errors
    /// `Unavailable`; the others are counted all the same.
    pub async fn count_limited(&self) -> Result<()> {
        let mut failed = None;
        for bucket in self.buckets().iter().filter(|b| b.documents.contains_key(QUOTA)) {
            match self.count_usage(&bucket.name).await {
                Ok(_) | Err(Error::NoSuchBucket) => {}
                Err(e) => failed = Some(e),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
