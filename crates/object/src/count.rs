//! Counts the content of buckets: scans of the index, keys that are read again, quotas.
//!
//! Invariants: one scan of a bucket at a time; a count is exact while changes continue (`tally`).
//!
//! Must not depend on: who sets limits.

use ashlar_environment::time;
use futures::future::BoxFuture;

use ashlar_format::{Body, BucketId, RegisterKey, Space};
use futures::StreamExt;

use crate::bucket::Bucket;
use crate::registry::OpenBucket;
use crate::store::Inner;
use crate::sweep::let_others_run;
use crate::tally::{Share, Usage};
use crate::usage::{Counted, Ledger, QUOTA, limit_of};
use crate::{Error, MAX_PAGE, Result, Store, seal, summary};

/// Keys that a count reads at a time.
const PAGE: usize = 1000;
/// Records that a count reads concurrently.
const CONCURRENCY: usize = 16;

/// Gives up a scan that did not finish.
struct Scanning<'a>(&'a Ledger);

impl Drop for Scanning<'_> {
    fn drop(&mut self) {
        self.0.tally.lock().give_up();
        self.0.with(|h| h.scanning = None);
    }
}

impl Inner {
    /// Counts the parts of a bucket, if it has a limit.
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

    /// Counts a bucket from the index.
    async fn scan(&self, bucket: BucketId, pause: bool) -> Result<()> {
        let ledger = self.usage.of(bucket);
        let _turn = ledger.scan_lock.lock().await;
        self.begin_shared_count(bucket, &ledger).await?;
        self.count_parts(bucket).await?;
        ledger.tally.lock().scan();
        let _scanning = Scanning(&ledger);
        let mut from = Vec::new();
        loop {
            let began = time::Instant::now();
            ledger.tally.lock().read_page();
            let page = self.backend.list(Space::Object, bucket, b"", &from, PAGE).await?;
            let shares = futures::stream::iter(page.entries.clone())
                .map(|(key, shown)| async move {
                    match summary::scanned(&shown) {
                        Some((s, true)) => Ok(Some(Share::one(s.size, s.delete_marker))),
                        _ => self.read_share(bucket, &key).await,
                    }
                })
                .buffered(CONCURRENCY);
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
                // Half of the time is left for other work.
                time::sleep(began.elapsed()).await;
            }
        }
        ledger.tally.lock().finish(self.now_ms());
        ledger.with(|h| h.counted = h.scanning.take());
        self.settle_counts(bucket).await;
        self.post_count(bucket, &ledger).await
    }

    /// The share of a key; `None`: a rename holds it.
    async fn read_share(&self, bucket: BucketId, key: &[u8]) -> Result<Option<Share>> {
        let register = RegisterKey::new(self.backend.group_of(bucket, key), Space::Object, bucket, key);
        let record = self.backend.read_register(&register).await?;
        Ok(match record.as_ref().map(|r| &r.body) {
            Some(Body::HeldKey(_)) => None,
            body => Some(Share::of_body(body)),
        })
    }

    /// Reads the keys again whose count is uncertain.
    async fn settle_counts(&self, bucket: BucketId) {
        let ledger = self.usage.of(bucket);
        let due = ledger.tally.lock().due(self.now_ms(), PAGE);
        let read = futures::stream::iter(due).map(|key| async move {
            let mut share = self.read_share(bucket, &key).await.ok();
            if share == Some(None) {
                // The process that makes the rename frees it, or this one.
                let register =
                    RegisterKey::new(self.backend.group_of(bucket, &key), Space::Object, bucket, &key);
                if let Ok(Some(record)) = self.backend.read_register(&register).await
                    && let Body::HeldKey(held) = &record.body
                {
                    let _ = self.resolve_held_key(&register, held).await;
                }
                share = None;
            }
            (key, share.flatten())
        });
        let mut read = read.buffer_unordered(CONCURRENCY);
        while let Some((key, share)) = read.next().await {
            let mut tally = ledger.tally.lock();
            tally.read(&key, share, self.now_ms());
            ledger.touch(&mut tally);
        }
    }

    /// Counts a bucket from the index with pauses, and reads the keys again whose count is uncertain.
    pub(crate) async fn scan_and_settle(&self, bucket: BucketId) -> Result<()> {
        self.scan(bucket, true).await?;
        self.settle_counts(bucket).await;
        Ok(())
    }

    fn counted(&self, bucket: BucketId) -> Counted {
        let ledger = self.usage.of(bucket);
        if self.usage.share_node().is_some() {
            return ledger.counted_together();
        }
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

impl Store {
    /// Limits the content of a bucket, in bytes of all versions; `None`: no limit. Existing data stays. The
    /// bucket is counted before this returns.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub fn set_quota<'a>(&'a self, bucket: &'a OpenBucket, limit: Option<u64>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.set_bucket_document(bucket, QUOTA, limit.map(|l| l.to_string()).as_deref()).await?;
            if limit.is_some() {
                self.inner.count_parts(bucket.id).await?;
            }
            let alone = self.inner.usage.share_node().is_none();
            if limit.is_some() && !(alone && self.inner.counted(bucket.id).complete) {
                self.inner.scan(bucket.id, false).await?;
            }
            Ok(())
        })
    }

    /// The limit of a bucket in bytes.
    #[must_use]
    pub fn quota(&self, bucket: &Bucket) -> Option<u64> {
        limit_of(bucket)
    }

    /// The usage of a bucket, from memory, without I/O. It includes every acknowledged change of this node; where there are
    /// others, what [`Store::set_rest_of_usage`] says of theirs.
    #[must_use]
    pub fn usage(&self, bucket: &Bucket) -> Counted {
        self.inner.counted(bucket.id)
    }

    /// [`Store::usage`] of all buckets by name, from memory.
    #[must_use]
    pub fn usages(&self) -> Vec<(String, Counted)> {
        self.buckets().iter().map(|b| (b.name.clone(), self.inner.counted(b.id))).collect()
    }

    /// Counts a bucket again from the index, regardless of the present count, and returns the result.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub fn count_usage<'a>(&'a self, bucket: &'a OpenBucket) -> BoxFuture<'a, Result<Usage>> {
        Box::pin(async move {
            let id = bucket.id;
            self.inner.scan(id, false).await?;
            self.inner.settle_counts(id).await;
            Ok(self.inner.usage.of(id).tally.lock().usage().unwrap_or_default())
        })
    }

    /// Counts every bucket that has not been counted since the start, or whose count is not reliable; buckets
    /// with a limit first and without pauses; `all`: the others too. Reads keys again whose change had an
    /// unknown outcome. To be called every few seconds. Where there are other nodes, it counts without `all` for limits
    /// only: one of the nodes counts each bucket, with [`Store::count_with_part`].
    ///
    /// # Errors
    /// `Unavailable`; the other buckets are counted nevertheless.
    pub fn count_uncounted(&self, all: bool) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut buckets = self.buckets();
            buckets.sort_by_key(|b| !b.documents.contains_key(QUOTA));
            let (mut failed, mut confirmed) = (None, None);
            for bucket in buckets {
                let wants = self.inner.usage.of(bucket.id).wants_scan();
                let tended = self.inner.tend_share(bucket.id, &mut confirmed).await;
                let shared = tended.as_ref().is_ok_and(|count| *count);
                if let Err(error) = tended {
                    tracing::debug!(%error, bucket = bucket.name, "the share of a quota waits");
                }
                if wants || all || shared {
                    match self.inner.scan(bucket.id, !bucket.documents.contains_key(QUOTA)).await {
                        Ok(()) | Err(Error::NoSuchBucket) => {}
                        Err(e) => failed = Some(e),
                    }
                    let_others_run().await;
                }
                self.inner.settle_counts(bucket.id).await;
            }
            failed.map_or(Ok(()), Err)
        })
    }
}
