//! How much a bucket holds, and a limit to it.
//!
//! Every bucket is counted: once from the index after the start ([`Store::count_uncounted`]), and from then on
//! every change adds its difference (`tally`). Nothing about counts is stored: after a crash they come
//! from the records. Cost: a change enters and leaves one small table of its bucket, without I/O.
//! Parts of open uploads count against a limit too (`part_usage`) and are not in [`Usage`], which is of versions.
//!
//! Invariants: what a body may add is reserved before its first byte, so that bodies in flight together
//! never exceed the limit; until a bucket has been counted once, nothing is added to one with a limit. A
//! count is exact while changes go on: what a scan cannot be sure of is read again by itself. A rename counts
//! when its keys are freed, which whoever meets them does.
//!
//! On many machines each counts its own changes between two counts.
//!
//! Must never know: who sets limits.

use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use ashlar_format::{Body, BucketId, RegisterKey, Space, Version};
use futures::StreamExt;
use parking_lot::{Mutex, RwLock};

use crate::part_usage::PartUsage;
use crate::store::Inner;
use crate::tally::{self, Share};
pub use crate::tally::{COUNT_BOUNDS, SIZE_BOUNDS, Usage};
use crate::{Error, Result, Store, summary, versions};

/// The bucket's document that holds its limit, in bytes as decimal digits.
pub const QUOTA: &str = "quota";

/// Keys read at once by a count.
const PAGE: usize = 1000;
/// Records read at the same time by a count.
const AT_ONCE: usize = 16;
/// No limit.
const NONE: u64 = u64::MAX;

/// What is known of the count of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// What it holds. Before the first count is done: what that has found so far.
    pub usage: Usage,
    /// A first count is done. False after a start until the bucket has been scanned.
    pub complete: bool,
    /// Keys with a change whose outcome is not known yet, or that have to be read again.
    pub unsettled: u64,
    /// Milliseconds since 1970 of the last count; 0: none. Changes since are added.
    pub counted_ms: i64,
}

/// The counts of one bucket.
pub(crate) struct Ledger {
    tally: Mutex<tally::Bucket>,
    /// Bytes; [`NONE`]: no limit.
    limit: AtomicU64,
    /// One scan at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { tally: Mutex::default(), limit: AtomicU64::new(NONE), turn: tokio::sync::Mutex::default() }
    }
}

/// All buckets.
#[derive(Default)]
pub(crate) struct Usages {
    /// How many have a limit, so that most bodies look no further.
    limited: AtomicUsize,
    buckets: RwLock<HashMap<BucketId, Arc<Ledger>>>,
    /// Parts of open uploads count against limits too.
    pub parts: PartUsage,
}

/// Room in a bucket for bytes on their way; given back when dropped.
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

/// A change of a key on its way. Dropped without having been ended, its outcome is not known if it
/// proposed anything.
pub(crate) struct Changing<'a> {
    ledger: Arc<Ledger>,
    key: &'a [u8],
    hash: u64,
    proposed: Option<(Share, Share)>,
    ended: bool,
}

impl Changing<'_> {
    /// It looks at the key, once more: what was proposed before did not take effect.
    pub fn looks(&mut self) {
        self.proposed = None;
    }

    /// It proposes `new` in the place of `old`.
    pub fn proposes(&mut self, old: &[Version], new: &[Version]) {
        self.proposed = Some((Share::of(old), Share::of(new)));
    }

    /// What it proposed last took effect; if nothing, it changed nothing.
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
    fn of(&self, bucket: BucketId) -> Arc<Ledger> {
        if let Some(ledger) = self.buckets.read().get(&bucket) {
            return ledger.clone();
        }
        self.buckets.write().entry(bucket).or_default().clone()
    }

    fn limit(&self, bucket: BucketId, limit: Option<u64>) {
        self.parts.follow(bucket, limit.is_some());
        let ledger = self.of(bucket);
        let had = ledger.limit.swap(limit.unwrap_or(NONE), Relaxed);
        match (had == NONE, limit.is_none()) {
            (true, false) => self.limited.fetch_add(1, Relaxed),
            (false, true) => self.limited.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }

    /// A bucket was made: it is empty.
    pub fn made(&self, bucket: BucketId, now_ms: i64) {
        self.of(bucket).tally.lock().start_empty(now_ms);
    }

    /// The bucket is gone.
    pub fn forget(&self, bucket: BucketId) {
        self.limit(bucket, None);
        self.buckets.write().remove(&bucket);
    }

    /// Reserves room for a body.
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

    /// A change of a key begins: to be called before the register is read for it.
    pub fn begin<'a>(&self, bucket: BucketId, key: &'a [u8]) -> Changing<'a> {
        let ledger = self.of(bucket);
        let hash = ledger.tally.lock().begin(key);
        Changing { ledger, key, hash, proposed: None, ended: false }
    }
}

/// Gives a scan up that was left half done.
struct Scanning<'a>(&'a Ledger);

impl Drop for Scanning<'_> {
    fn drop(&mut self) {
        self.0.tally.lock().give_up();
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

    /// Counts a bucket from the index.
    async fn scan(&self, bucket: BucketId, pause: bool) -> Result<()> {
        let ledger = self.usage.of(bucket);
        let _turn = ledger.turn.lock().await;
        self.count_parts(bucket).await?;
        ledger.tally.lock().scan();
        let _scanning = Scanning(&ledger);
        let mut from = Vec::new();
        loop {
            let began = std::time::Instant::now();
            ledger.tally.lock().read_page();
            let page = self.backend.list(Space::Object, bucket, b"", &from, PAGE).await?;
            let shares = futures::stream::iter(page.entries.clone())
                .map(|(key, shown)| async move {
                    match summary::glance(&shown) {
                        Some((s, true)) => Ok(Some(Share::one(s.size, s.delete_marker))),
                        _ => self.read_share(bucket, &key).await,
                    }
                })
                .buffered(AT_ONCE);
            let shares: Vec<Result<Option<Share>>> = shares.collect().await;
            let shares = shares.into_iter().collect::<Result<Vec<_>>>()?;
            ledger.tally.lock().page(page.entries.iter().map(|(key, _)| &key[..]).zip(shares));
            match page.entries.last().filter(|_| page.truncated) {
                Some((last, _)) => {
                    from = last.to_vec();
                    from.push(0);
                }
                None => break,
            }
            if pause {
                // Half of the time is for others.
                tokio::time::sleep(began.elapsed()).await;
            }
        }
        ledger.tally.lock().finish(self.now_ms());
        Ok(())
    }

    /// What a key adds; `None`: a rename holds it.
    async fn read_share(&self, bucket: BucketId, key: &[u8]) -> Result<Option<Share>> {
        let register = RegisterKey::new(self.backend.group_of(bucket, key), Space::Object, bucket, key);
        let record = self.backend.read_register(&register).await?;
        Ok(match record.as_ref().map(|r| &r.body) {
            Some(Body::Held(_)) => None,
            body => Some(Share::of(versions::of(body))),
        })
    }

    /// Reads keys again of which the count is not certain.
    async fn settle_counts(&self, bucket: BucketId) {
        let ledger = self.usage.of(bucket);
        let due = ledger.tally.lock().due(self.now_ms(), PAGE);
        let read = futures::stream::iter(due).map(|key| async move {
            let mut share = self.read_share(bucket, &key).await.ok();
            if share == Some(None) {
                // Freed by who makes the rename, or else here.
                let register =
                    RegisterKey::new(self.backend.group_of(bucket, &key), Space::Object, bucket, &key);
                if let Ok(Some(record)) = self.backend.read_register(&register).await
                    && let Body::Held(held) = &record.body
                {
                    let _ = self.settle_held(&register, held).await;
                }
                share = None;
            }
            (key, share.flatten())
        });
        let mut read = read.buffer_unordered(AT_ONCE);
        while let Some((key, share)) = read.next().await {
            ledger.tally.lock().read(&key, share, self.now_ms());
        }
    }

    fn counted(&self, bucket: BucketId) -> Counted {
        let ledger = self.usage.of(bucket);
        let tally = ledger.tally.lock();
        let known = tally.usage();
        Counted {
            usage: known.or_else(|| tally.scanned()).unwrap_or_default(),
            complete: known.is_some(),
            unsettled: tally.unsettled() as u64,
            counted_ms: tally.counted_ms(),
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
    pub fn set_quota<'a>(&'a self, name: &'a str, limit: Option<u64>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.set_bucket_document(name, QUOTA, limit.map(|l| l.to_string()).as_deref()).await?;
            let bucket = self.bucket(name)?;
            self.inner.usage.limit(bucket.id, limit_of(&bucket));
            if limit.is_some() {
                self.inner.count_parts(bucket.id).await?;
            }
            if limit.is_some() && !self.inner.counted(bucket.id).complete {
                self.inner.scan(bucket.id, false).await?;
            }
            Ok(())
        })
    }

    /// The limit of a bucket in bytes.
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub fn quota(&self, name: &str) -> Result<Option<u64>> {
        Ok(limit_of(&*self.bucket(name)?))
    }

    /// What a bucket holds, from memory: no I/O. Every change is in it when it is answered.
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub fn usage(&self, name: &str) -> Result<Counted> {
        Ok(self.inner.counted(self.bucket(name)?.id))
    }

    /// [`Store::usage`] of all buckets by name, from memory.
    #[must_use]
    pub fn usages(&self) -> Vec<(String, Counted)> {
        self.buckets().iter().map(|b| (b.name.clone(), self.inner.counted(b.id))).collect()
    }

    /// Counts a bucket anew from the index, whatever is known, and answers what it holds.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub fn count_usage<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Usage>> {
        Box::pin(async move {
            let id = self.bucket(name)?.id;
            self.inner.scan(id, false).await?;
            self.inner.settle_counts(id).await;
            Ok(self.inner.counted(id).usage)
        })
    }

    /// Counts every bucket that has not been counted since the start, or whose count cannot be trusted,
    /// those with a limit first and without pauses; `all`: the others too. Reads keys again whose change
    /// had no known outcome. To be called every few seconds.
    ///
    /// # Errors
    /// `Unavailable`; the other buckets are counted all the same.
    pub fn count_uncounted(&self, all: bool) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut buckets = self.buckets();
            buckets.sort_by_key(|b| !b.documents.contains_key(QUOTA));
            let mut failed = None;
            for bucket in buckets {
                let wants = self.inner.usage.of(bucket.id).tally.lock().wants_scan();
                if wants || all {
                    match self.inner.scan(bucket.id, !bucket.documents.contains_key(QUOTA)).await {
                        Ok(()) | Err(Error::NoSuchBucket) => {}
                        Err(e) => failed = Some(e),
                    }
                }
                self.inner.settle_counts(bucket.id).await;
            }
            failed.map_or(Ok(()), Err)
        })
    }
}
