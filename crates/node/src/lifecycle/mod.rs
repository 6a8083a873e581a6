//! Carries out the lifecycle rules of buckets, and reports what they would do.
//!
//! Versions become due at midnight (UTC). A bucket with rules is processed once after each midnight, when its
//! rules change, at the start if a midnight was missed, and again within the hour if something was left over.
//! The progress of a pass is stored in the control store, so that it continues after a restart. A pass reads
//! the index; it reads records only of keys of which something may be due.
//!
//! | file | what it holds |
//! |---|---|
//! | `record` | the stored state of a pass |
//! | `dry_run` | counts what rules would do |
//! | `metrics` | the metrics |
//!
//! Invariants: the decision to remove a version is made on the state that the change replaces; locked
//! versions are not removed (`ashlar_object::KeyVersions::locked`); requests have priority (`ashlar_pacer`);
//! a key that fails does not stop the others.
//!
//! Must not depend on: how versions are removed, the semantics of rules, HTTP.

mod dry_run;
mod metrics;
mod record;

use ashlar_environment::time::{self, Instant};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ashlar_cluster::{Control, Update};
use ashlar_duties::{Duties, Duty, Unit};
use ashlar_lifecycle::{Action, Calendar, Config, DOCUMENT, KeySummary, VersionState};
use ashlar_object::feed::{Cause, Kind};
use ashlar_object::{
    Bucket, BucketId, Error, Expired, KeyVersions, MAX_SCAN, OpenBucket, Store, ToExpire, UploadListSpec,
};
use ashlar_pacer::{Limits, Pacer};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

pub use dry_run::{Counted, Example, Hits, Span};
pub use record::PassCounts;
use record::{PassRecord, Position};

use crate::clock::now_ms;

/// Time between checks whether a pass is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Milliseconds until a pass is repeated that left something over.
const AGAIN_MS: i64 = 3_600_000;
/// Milliseconds until a failed pass is tried again.
const RETRY_MS: i64 = 30_000;
/// Time between writes of the position of a pass.
const STORE: Duration = Duration::from_secs(30);
/// Keys changed at the same time.
const CONCURRENCY: usize = 16;
/// Uploads per page.
const UPLOADS: usize = 1000;
/// Prefix of the keys in the control store that hold passes; the bucket's id follows.
const PREFIX: &str = "lifecycle/";

/// How much of the resources a pass may use. The longest pause limits its delay under load.
fn limits() -> Limits {
    Limits { longest_pause: Duration::from_millis(100), ..Limits::default() }
}

/// The last pass, and when to try again after a failure.
#[derive(Clone, Default)]
struct Pass {
    record: PassRecord,
    not_before_ms: i64,
}

#[derive(Default)]
struct Totals {
    current: AtomicU64,
    versions: AtomicU64,
    markers: AtomicU64,
    uploads: AtomicU64,
    locked: AtomicU64,
    failed: AtomicU64,
    keys: AtomicU64,
    passes: AtomicU64,
    last_ended_ms: AtomicU64,
}

/// The lifecycle work of all buckets.
pub struct Lifecycle {
    store: Store,
    control: Control,
    duties: Duties,
    pacer: Pacer,
    calendar: Calendar,
    passes: Mutex<HashMap<BucketId, Pass>>,
    totals: Totals,
}

/// The last pass through a bucket.
#[derive(Clone, Copy, Debug)]
pub struct LastPass {
    /// When it began; 0: there was none.
    pub began_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// Whether it runs.
    pub running: bool,
    /// What it did.
    pub counts: PassCounts,
}

/// Why a pass ended early.
enum Halt {
    /// The rules were changed, or the bucket was removed.
    Changed,
    /// A failure; the pass is tried again later.
    Failed(Error),
}

impl Lifecycle {
    /// Loads the stored passes.
    pub(crate) fn new(store: Store, control: Control, duties: Duties, calendar: Calendar) -> Lifecycle {
        // Removals appear in the change feed.
        let cause = Cause { kind: Kind::Expire, who: "lifecycle".to_owned(), ..Cause::default() };
        let store = store.by(Arc::new(cause));
        let foreground = store.sets().map(ashlar_erasure_set::Sets::foreground).unwrap_or_default();
        let mut passes = HashMap::new();
        for (key, value) in control.list(PREFIX) {
            // A stored pass that cannot be decoded starts from the beginning.
            let id = BucketId::from_hex(&key[PREFIX.len()..]);
            let record = PassRecord::decode(&value.bytes);
            if let (Some(id), Some(record)) = (id, record) {
                passes.insert(id, Pass { record, not_before_ms: 0 });
            }
        }
        if !calendar.is_real() {
            tracing::warn!("lifecycle rules use shortened days: for tests only");
        }
        let pacer = Pacer::new(foreground, limits());
        let (passes, totals) = (Mutex::new(passes), Totals::default());
        Lifecycle { store, control, duties, pacer, calendar, passes, totals }
    }

    /// The last pass through a bucket.
    pub fn last_pass(&self, bucket: BucketId) -> LastPass {
        let pass = self.passes.lock().get(&bucket).cloned().unwrap_or_default().record;
        let running = pass.format == 1 && pass.ended_ms.is_none();
        LastPass { began_ms: pass.began_ms, ended_ms: pass.ended_ms, running, counts: pass.counts }
    }

    /// Carries out rules; never returns.
    pub fn run(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            loop {
                time::sleep(CHECK_INTERVAL).await;
                for bucket in self.store.buckets() {
                    if bucket.documents.contains_key(DOCUMENT)
                        && self.duties.mine(Duty::Lifecycle, &Unit::Bucket(bucket.id.0))
                    {
                        self.run_if_due(&bucket).await;
                    }
                }
                self.forget_gone().await;
            }
        })
    }

    /// Runs a pass through a bucket if one is due.
    async fn run_if_due(&self, bucket: &OpenBucket) {
        let Some(config) = bucket.documents.get(DOCUMENT).and_then(|d| Config::decode(d)) else { return };
        let now = now_ms();
        let mut pass = self.passes.lock().get(&bucket.id).cloned().unwrap_or_default();
        if now < pass.not_before_ms || !self.is_due(&pass.record, &config, now) {
            return;
        }
        // Another node may have gone through this bucket since.
        let stored = self.control.get(&format!("{PREFIX}{}", bucket.id));
        let stored = stored.and_then(|value| PassRecord::decode(&value.bytes));
        if let Some(stored) = stored.filter(|s| pass.record.format != 1 || pass.record.is_behind(s)) {
            pass.record = stored;
            if !self.is_due(&pass.record, &config, now) {
                // Remembered, so that it is not read again until it is due.
                self.passes.lock().insert(bucket.id, pass);
                return;
            }
        }
        let goes_on =
            pass.record.format == 1 && pass.record.ended_ms.is_none() && pass.record.set_ms == config.set_ms;
        if !goes_on {
            let record =
                PassRecord { format: 1, set_ms: config.set_ms, began_ms: now, ..PassRecord::default() };
            pass = Pass { record, not_before_ms: 0 };
        }
        let began = Instant::now();
        match self.pass(bucket, &config, &mut pass.record).await {
            Ok(()) => {
                let (counts, seconds) = (pass.record.counts, began.elapsed().as_secs());
                pass.record.ended_ms = Some(now_ms());
                pass.record.position = Position::default();
                self.totals.passes.fetch_add(1, Relaxed);
                self.totals.last_ended_ms.store(now_ms().max(0).unsigned_abs(), Relaxed);
                if counts.changed() + counts.failed > 0 {
                    tracing::info!(bucket = bucket.name, ?counts, seconds, "lifecycle rules carried out");
                }
            }
            Err(Halt::Changed) => return,
            Err(Halt::Failed(error)) => {
                tracing::warn!(bucket = bucket.name, %error, "lifecycle: the pass will continue later");
                pass.not_before_ms = now_ms() + RETRY_MS;
            }
        }
        self.store_record(bucket.id, &pass.record).await;
        self.passes.lock().insert(bucket.id, pass);
    }

    /// Whether a pass through a bucket is due now; `last` is its last pass.
    fn is_due(&self, last: &PassRecord, config: &Config, now: i64) -> bool {
        let Some(ended) = last.ended_ms.filter(|_| last.format == 1 && last.set_ms == config.set_ms) else {
            return true;
        };
        // A pass that began before midnight has not seen versions that became due then.
        if last.began_ms < self.calendar.midnight(now) {
            return true;
        }
        // A removal may have left a delete marker alone, and a failed removal may succeed now.
        let again = if self.calendar.is_real() { AGAIN_MS } else { 1000 };
        last.counts.changed() + last.counts.failed > 0 && now - ended >= again
    }

    async fn store_record(&self, id: BucketId, record: &PassRecord) {
        let Ok(json) = serde_json::to_vec(record) else { return };
        let json = Bytes::from(json);
        let advance = |update: &mut Update| {
            let entry = self.control.read(&format!("{PREFIX}{id}"));
            let stored = entry.bytes().and_then(|b| PassRecord::decode(b));
            if !stored.is_some_and(|s| record.is_behind(&s)) {
                update.set(&entry, json.clone());
            }
            Ok::<_, ashlar_cluster::Error>(())
        };
        if let Err(error) = self.control.change(advance).await {
            tracing::debug!(%error, "the position of a lifecycle pass cannot be stored");
        }
    }

    /// Removes the stored passes of buckets that were removed or have no rules any more.
    async fn forget_gone(&self) {
        let known: Vec<BucketId> = self.passes.lock().keys().copied().collect();
        if known.is_empty() {
            return;
        }
        let with: std::collections::HashSet<BucketId> = self
            .store
            .buckets()
            .iter()
            .filter(|b| b.documents.contains_key(DOCUMENT))
            .map(|b| b.id)
            .collect();
        let gone: Vec<BucketId> = known.into_iter().filter(|id| !with.contains(id)).collect();
        if gone.is_empty() {
            return;
        }
        // Failures are ignored: the stored pass is found again next time.
        for some in gone.chunks(Update::MAX_KEYS) {
            let mut update = Update::new();
            for id in some {
                update.remove(&self.control.read(&format!("{PREFIX}{id}")));
            }
            if self.control.update(update).await.is_ok() {
                let mut passes = self.passes.lock();
                some.iter().for_each(|id| drop(passes.remove(id)));
            }
        }
    }

    /// Runs a pass from its stored position.
    async fn pass(&self, bucket: &OpenBucket, config: &Config, record: &mut PassRecord) -> Result<(), Halt> {
        let mut stored = Instant::now();
        for uploads in [false, true] {
            if record.position.uploads && !uploads {
                continue;
            }
            for prefix in config.prefixes(uploads) {
                let position = Position { uploads, prefix: prefix.to_owned(), after: String::new() };
                if record.position.uploads != uploads || record.position.prefix.as_str() < prefix {
                    record.position = position;
                } else if record.position.prefix != prefix {
                    continue;
                }
                loop {
                    self.same_rules(bucket)?;
                    let began = Instant::now();
                    let looked = record.counts.keys;
                    let next = match uploads {
                        false => self.page(bucket, config, &record.position, &mut record.counts).await,
                        true => self.upload_page(bucket, config, &record.position, &mut record.counts).await,
                    };
                    let next = next.map_err(Halt::Failed)?;
                    self.totals.keys.fetch_add(record.counts.keys - looked, Relaxed);
                    self.pacer.pace(record.counts.keys - looked, began.elapsed()).await;
                    match next {
                        Some(after) => record.position.after = after,
                        None => break,
                    }
                    if stored.elapsed() >= STORE {
                        self.store_record(bucket.id, record).await;
                        stored = Instant::now();
                    }
                }
            }
        }
        Ok(())
    }

    fn same_rules(&self, bucket: &Bucket) -> Result<(), Halt> {
        let now = self.store.bucket(&bucket.name).map_err(|_| Halt::Changed)?;
        let same = match (now.documents.get(DOCUMENT), bucket.documents.get(DOCUMENT)) {
            (Some(a), Some(b)) => now.id == bucket.id && a == b,
            _ => false,
        };
        if same { Ok(()) } else { Err(Halt::Changed) }
    }

    /// Processes one page of keys; returns the begin of the next.
    async fn page(
        &self,
        bucket: &OpenBucket,
        config: &Config,
        position: &Position,
        counts: &mut PassCounts,
    ) -> Result<Option<String>, Error> {
        let now = now_ms();
        let (keys, next) = self.store.scan_index(bucket, &position.prefix, &position.after, MAX_SCAN).await?;
        counts.keys += keys.len() as u64;
        let calendar = self.calendar;
        let due = keys.into_iter().filter(|k| config.may_be_due(&k.key, &key_summary(k), now, calendar));
        let work = due.map(|k| async move {
            let mut decide = |found: &KeyVersions<'_>| chosen(config, &k.key, found, now, calendar);
            self.store.expire(bucket, &k.key, &mut decide).await
        });
        let mut work = futures::stream::iter(work).buffer_unordered(CONCURRENCY);
        let (mut tried, mut failed) = (0u64, 0u64);
        while let Some(done) = work.next().await {
            tried += 1;
            match done {
                Ok(expired) => {
                    counts.add(expired);
                    self.count(expired);
                }
                Err(Error::NoSuchBucket) => return Err(Error::NoSuchBucket),
                Err(error) => {
                    tracing::debug!(bucket = bucket.name, %error, "lifecycle: a key is postponed");
                    (failed, counts.failed) = (failed + 1, counts.failed + 1);
                    self.totals.failed.fetch_add(1, Relaxed);
                }
            }
        }
        if failed > 0 && failed == tried {
            return Err(Error::Busy);
        }
        Ok(next)
    }

    fn count(&self, e: Expired) {
        for (total, n) in [
            (&self.totals.current, e.current),
            (&self.totals.versions, e.versions),
            (&self.totals.markers, e.markers),
            (&self.totals.locked, e.locked),
        ] {
            if n > 0 {
                total.fetch_add(n, Relaxed);
            }
        }
    }

    /// Processes one page of uploads. `after`: key and id of the last one, with a zero byte between.
    async fn upload_page(
        &self,
        bucket: &OpenBucket,
        config: &Config,
        position: &Position,
        counts: &mut PassCounts,
    ) -> Result<Option<String>, Error> {
        let (uploads, next) = upload_list(&self.store, bucket, position).await?;
        let now = now_ms();
        for upload in uploads {
            counts.keys += 1;
            let at = config.abort_at(&upload.key, upload.created_ms, self.calendar);
            if at.is_none_or(|(at, _)| at > now) {
                continue;
            }
            match self.store.abort_upload(bucket, &upload.key, upload.id).await {
                Ok(()) => {
                    counts.uploads += 1;
                    self.totals.uploads.fetch_add(1, Relaxed);
                }
                // The upload was completed or aborted meanwhile.
                Err(Error::NoSuchUpload) => {}
                Err(Error::NoSuchBucket) => return Err(Error::NoSuchBucket),
                Err(_) => counts.failed += 1,
            }
        }
        Ok(next)
    }
}

fn key_summary(k: &ashlar_object::ScannedKey) -> KeySummary {
    KeySummary { modified_ms: k.modified_ms, size: k.size, delete_marker: k.delete_marker, alone: k.alone }
}

/// Versions in the form that rules are evaluated on.
fn seen<'a>(found: &'a KeyVersions<'_>) -> Vec<VersionState<'a>> {
    let all = found.versions.iter().zip(found.locked);
    all.map(|(v, locked)| VersionState {
        modified_ms: v.modified_ms,
        size: v.size,
        delete_marker: v.delete_marker,
        tags: &v.tags,
        locked: *locked,
    })
    .collect()
}

/// The versions of a key that are due.
fn chosen(config: &Config, key: &str, found: &KeyVersions<'_>, now: i64, calendar: Calendar) -> ToExpire {
    let mut chosen = ToExpire::default();
    for due in config.plan(key, &seen(found), found.keeps_data, now, calendar) {
        match due.action {
            Action::Expire => chosen.current = true,
            Action::Remove | Action::RemoveMarker => chosen.versions.push(due.index),
        }
    }
    chosen
}

/// A page of uploads, and the position of the next.
async fn upload_list(
    store: &Store,
    bucket: &OpenBucket,
    position: &Position,
) -> Result<(Vec<ashlar_object::UploadEntry>, Option<String>), Error> {
    let (key, id) = match position.after.rsplit_once('\0') {
        Some((key, id)) => (key, ashlar_object::UploadId::parse(id)),
        None => ("", None),
    };
    let spec = UploadListSpec {
        prefix: &position.prefix,
        key_marker: key,
        upload_marker: id,
        max_uploads: UPLOADS,
        ..UploadListSpec::default()
    };
    let page = store.list_uploads(bucket, &spec).await?;
    let next = match (page.next_key, page.next_upload) {
        (Some(key), Some(id)) if page.truncated => Some(format!("{key}\0{id}")),
        _ => None,
    };
    Ok((page.uploads, next))
}

/// The calendar of lifecycle rules. Shortened days are only for tests of the whole server, and need a second
/// variable as confirmation. Object locks do not use this calendar.
///
/// # Errors
/// A message for the operator.
pub fn calendar(get: impl Fn(&str) -> Option<String>) -> Result<Calendar, String> {
    let Some(text) = get("ASHLAR_LIFECYCLE_DAY_SECONDS") else { return Ok(Calendar::default()) };
    if get("ASHLAR_DEBUG_SHORT_DAYS").as_deref() != Some("expire-early") {
        return Err("ASHLAR_LIFECYCLE_DAY_SECONDS makes lifecycle rules remove objects long before their time. It is for tests: set ASHLAR_DEBUG_SHORT_DAYS=expire-early too, or unset it".into());
    }
    match text.parse::<i64>() {
        Ok(seconds) if (1..=86_400).contains(&seconds) => Ok(Calendar::with_days_of(seconds * 1000)),
        _ => Err(format!("ASHLAR_LIFECYCLE_DAY_SECONDS={text}: 1 to 86400 is meant")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_days_need_two_variables() {
        let with = |pairs: &'static [(&str, &str)]| {
            calendar(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert_eq!(with(&[]), Ok(Calendar::default()));
        assert!(with(&[("ASHLAR_LIFECYCLE_DAY_SECONDS", "5")]).is_err());
        let both =
            with(&[("ASHLAR_LIFECYCLE_DAY_SECONDS", "5"), ("ASHLAR_DEBUG_SHORT_DAYS", "expire-early")]);
        assert_eq!(both, Ok(Calendar::with_days_of(5000)));
        let bad = with(&[("ASHLAR_LIFECYCLE_DAY_SECONDS", "0"), ("ASHLAR_DEBUG_SHORT_DAYS", "expire-early")]);
        assert!(bad.is_err());
    }
}
