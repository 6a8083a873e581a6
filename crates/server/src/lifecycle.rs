//! Carries out the lifecycle rules of buckets, and says what they would do.
//!
//! What is due becomes due at midnights (UTC), so a bucket with rules is gone through once after each
//! midnight, when its rules change, at the start if a midnight was missed, and again within the hour where
//! something was left over. How far a pass has come is kept in the control store, so that a restart goes
//! on. A pass reads the index; records are read only of keys of which something may be due.
//!
//! | request | document |
//! |---|---|
//! | `GET lifecycle/BUCKET` | answers when the last pass began and ended, and what it did |
//! | `POST lifecycle/BUCKET/test` `{"after", "at"}` | counts what the rules would do now, or at a time; changes nothing |
//!
//! Invariants: what goes is decided on the very versions that are replaced; nothing locked is touched
//! (`ashlar_object::Found::locked`); the foreground comes first (`ashlar_pacer`); one key that fails does
//! not stop the others.
//!
//! Must never know: how versions are removed, what rules mean.

use ashlar_environment::time::{self, Instant};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ashlar_cluster::{Control, Update};
use ashlar_lifecycle::{Action, Calendar, Config, Glance, Seen};
use ashlar_metrics::{self as metrics, Group, Page};
use ashlar_object::feed::{Cause, Kind};
use ashlar_object::{Bucket, BucketId, Chosen, Error, Expired, Found, MAX_LOOK, Store, UploadListSpec};
use ashlar_pacer::{Limits, Pacer};
use ashlar_s3::ops::lifecycle::DOCUMENT;
use bytes::Bytes;
use futures::StreamExt as _;
use http::StatusCode;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::admin_request::{Ask, Refusal, Reply, wrong};
use super::api::{self, state as shape};
use super::clock::now_ms;
use super::table::Route;

/// How often it is looked whether a pass is due.
const LOOK: Duration = Duration::from_secs(1);
/// How often a pass is repeated that left something over.
const AGAIN_MS: i64 = 3_600_000;
/// How long a bucket that could not be gone through is left alone.
const RETRY_MS: i64 = 30_000;
/// How often the place of a pass is stored.
const STORE: Duration = Duration::from_secs(30);
/// Keys changed at the same time.
const AT_ONCE: usize = 16;
/// Uploads of one page.
const UPLOADS: usize = 1000;
/// How long one call of a dry run may take; the next goes on from there.
const TEST: Duration = Duration::from_secs(20);
/// Where passes are kept in the control store: this and the bucket's id.
const PREFIX: &str = "lifecycle/";

/// How much a pass may take: the longest pause bounds how late it is under load.
fn limits() -> Limits {
    Limits { longest_pause: Duration::from_millis(100), ..Limits::default() }
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Did {
    keys: u64,
    current: u64,
    versions: u64,
    markers: u64,
    uploads: u64,
    locked: u64,
    failed: u64,
}

impl Did {
    fn add(&mut self, e: Expired) {
        self.current += e.current;
        self.versions += e.versions;
        self.markers += e.markers;
        self.locked += e.locked;
    }

    fn changed(&self) -> u64 {
        self.current + self.versions + self.markers + self.uploads
    }
}

/// Where a pass stands: in which prefix of versions or uploads, behind which key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Place {
    uploads: bool,
    prefix: String,
    after: String,
}

/// The last pass through a bucket, as it is kept. JSON, format 1.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    format: u32,
    /// Which rules, by the moment when they were set.
    set_ms: i64,
    began_ms: i64,
    /// `None`: it is under way.
    ended_ms: Option<i64>,
    place: Place,
    did: Did,
}

impl Kept {
    fn decode(bytes: &[u8]) -> Option<Kept> {
        serde_json::from_slice::<Kept>(bytes).ok().filter(|k| k.format == 1)
    }

    /// Whether `other` has come further with the same rules: in a later pass, or to the end of this one.
    fn is_behind(&self, other: &Kept) -> bool {
        let order = |k: &Kept| (k.began_ms, k.ended_ms.is_some());
        self.set_ms == other.set_ms && order(self) < order(other)
    }
}

/// The last pass, and when to try again after a failure.
#[derive(Clone, Default)]
struct Pass {
    kept: Kept,
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

/// Lifecycle of all buckets.
pub struct Lifecycle {
    store: Store,
    control: Control,
    pacer: Pacer,
    calendar: Calendar,
    passes: Mutex<HashMap<BucketId, Pass>>,
    totals: Totals,
}

/// Why a pass ended early.
enum Halt {
    /// The rules, or the bucket, are not what they were.
    Changed,
    /// Try later.
    Failed(Error),
}

impl Lifecycle {
    /// Goes on from what is kept.
    pub fn new(store: Store, control: Control, calendar: Calendar) -> Lifecycle {
        // What is removed is told to who follows changes.
        let cause = Cause { kind: Kind::Expire, who: "lifecycle".to_owned(), ..Cause::default() };
        let store = store.by(Arc::new(cause));
        let foreground = store.sets().map(ashlar_erasure_set::Sets::foreground).unwrap_or_default();
        let mut passes = HashMap::new();
        for (key, value) in control.list(PREFIX) {
            // What cannot be read is gone through anew.
            let id = BucketId::from_hex(&key[PREFIX.len()..]);
            let kept = Kept::decode(&value.bytes);
            if let (Some(id), Some(kept)) = (id, kept) {
                passes.insert(id, Pass { kept, not_before_ms: 0 });
            }
        }
        if !calendar.is_real() {
            tracing::warn!("lifecycle rules take days for shorter than they are: for tests only");
        }
        let pacer = Pacer::new(foreground, limits());
        let (passes, totals) = (Mutex::new(passes), Totals::default());
        Lifecycle { store, control, pacer, calendar, passes, totals }
    }

    /// Carries out rules for ever.
    pub async fn run(self: Arc<Self>) {
        loop {
            time::sleep(LOOK).await;
            for bucket in self.store.buckets() {
                if bucket.documents.contains_key(DOCUMENT) {
                    self.visit(&bucket).await;
                }
            }
            self.forget_gone().await;
        }
    }

    /// Goes through a bucket if that is due.
    async fn visit(&self, bucket: &Bucket) {
        let Some(config) = bucket.documents.get(DOCUMENT).and_then(|d| Config::decode(d)) else { return };
        let now = now_ms();
        let mut pass = self.passes.lock().get(&bucket.id).cloned().unwrap_or_default();
        if now < pass.not_before_ms || !self.is_due(&pass.kept, &config, now) {
            return;
        }
        let goes_on =
            pass.kept.format == 1 && pass.kept.ended_ms.is_none() && pass.kept.set_ms == config.set_ms;
        if !goes_on {
            let kept = Kept { format: 1, set_ms: config.set_ms, began_ms: now, ..Kept::default() };
            pass = Pass { kept, not_before_ms: 0 };
        }
        let began = Instant::now();
        match self.pass(bucket, &config, &mut pass.kept).await {
            Ok(()) => {
                let (did, seconds) = (pass.kept.did, began.elapsed().as_secs());
                pass.kept.ended_ms = Some(now_ms());
                pass.kept.place = Place::default();
                self.totals.passes.fetch_add(1, Relaxed);
                self.totals.last_ended_ms.store(now_ms().max(0).unsigned_abs(), Relaxed);
                if did.changed() + did.failed > 0 {
                    tracing::info!(bucket = bucket.name, ?did, seconds, "lifecycle rules carried out");
                }
            }
            Err(Halt::Changed) => return,
            Err(Halt::Failed(error)) => {
                tracing::warn!(bucket = bucket.name, %error, "lifecycle: the pass will go on later");
                pass.not_before_ms = now_ms() + RETRY_MS;
            }
        }
        self.keep(bucket.id, &pass.kept).await;
        self.passes.lock().insert(bucket.id, pass);
    }

    /// Whether a bucket has to be gone through now, `last` being its last pass.
    fn is_due(&self, last: &Kept, config: &Config, now: i64) -> bool {
        let Some(ended) = last.ended_ms.filter(|_| last.format == 1 && last.set_ms == config.set_ms) else {
            return true;
        };
        // A pass that began before midnight has not seen what became due then.
        if last.began_ms < self.calendar.midnight(now) {
            return true;
        }
        // What was removed may have left a marker alone; what failed may work now.
        let again = if self.calendar.is_real() { AGAIN_MS } else { 1000 };
        last.did.changed() + last.did.failed > 0 && now - ended >= again
    }

    async fn keep(&self, id: BucketId, kept: &Kept) {
        let Ok(json) = serde_json::to_vec(kept) else { return };
        let json = Bytes::from(json);
        let advance = |update: &mut Update| {
            let entry = self.control.read(&format!("{PREFIX}{id}"));
            let stored = entry.bytes().and_then(|b| Kept::decode(b));
            if !stored.is_some_and(|s| kept.is_behind(&s)) {
                update.set(&entry, json.clone());
            }
            Ok::<_, ashlar_cluster::Error>(())
        };
        if let Err(error) = self.control.change(advance).await {
            tracing::debug!(%error, "how far lifecycle has come is not stored");
        }
    }

    /// Forgets buckets that are gone or have no rules any more.
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
        // Each is by itself, and what could not be done now is found again.
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

    /// One pass, from where it stands.
    async fn pass(&self, bucket: &Bucket, config: &Config, kept: &mut Kept) -> Result<(), Halt> {
        let mut stored = Instant::now();
        for uploads in [false, true] {
            if kept.place.uploads && !uploads {
                continue;
            }
            for prefix in config.prefixes(uploads) {
                let place = Place { uploads, prefix: prefix.to_owned(), after: String::new() };
                if kept.place.uploads != uploads || kept.place.prefix.as_str() < prefix {
                    kept.place = place;
                } else if kept.place.prefix != prefix {
                    continue;
                }
                loop {
                    self.same_rules(bucket)?;
                    let began = Instant::now();
                    let looked = kept.did.keys;
                    let next = match uploads {
                        false => self.page(bucket, config, &kept.place, &mut kept.did).await,
                        true => self.upload_page(bucket, config, &kept.place, &mut kept.did).await,
                    };
                    let next = next.map_err(Halt::Failed)?;
                    self.totals.keys.fetch_add(kept.did.keys - looked, Relaxed);
                    self.pacer.pace(kept.did.keys - looked, began.elapsed()).await;
                    match next {
                        Some(after) => kept.place.after = after,
                        None => break,
                    }
                    if stored.elapsed() >= STORE {
                        self.keep(bucket.id, kept).await;
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

    /// One page of keys; answers where the next begins.
    async fn page(
        &self,
        bucket: &Bucket,
        config: &Config,
        place: &Place,
        did: &mut Did,
    ) -> Result<Option<String>, Error> {
        let now = now_ms();
        let (keys, next) = self.store.glance(&bucket.name, &place.prefix, &place.after, MAX_LOOK).await?;
        did.keys += keys.len() as u64;
        let calendar = self.calendar;
        let due = keys.into_iter().filter(|k| config.may_be_due(&k.key, &glanced(k), now, calendar));
        let work = due.map(|k| async move {
            let decide = |found: &Found<'_>| chosen(config, &k.key, found, now, calendar);
            self.store.expire(&bucket.name, &k.key, decide).await
        });
        let mut work = futures::stream::iter(work).buffer_unordered(AT_ONCE);
        let (mut tried, mut failed) = (0u64, 0u64);
        while let Some(done) = work.next().await {
            tried += 1;
            match done {
                Ok(expired) => {
                    did.add(expired);
                    self.count(expired);
                }
                Err(Error::NoSuchBucket) => return Err(Error::NoSuchBucket),
                Err(error) => {
                    tracing::debug!(bucket = bucket.name, %error, "lifecycle: a key is left for later");
                    (failed, did.failed) = (failed + 1, did.failed + 1);
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

    /// One page of uploads. `after` is the key and the id of the last one, with a zero byte between.
    async fn upload_page(
        &self,
        bucket: &Bucket,
        config: &Config,
        place: &Place,
        did: &mut Did,
    ) -> Result<Option<String>, Error> {
        let (uploads, next) = upload_list(&self.store, &bucket.name, place).await?;
        let now = now_ms();
        for upload in uploads {
            did.keys += 1;
            let at = config.abort_at(&upload.key, upload.created_ms, self.calendar);
            if at.is_none_or(|(at, _)| at > now) {
                continue;
            }
            match self.store.abort_upload(&bucket.name, &upload.key, upload.id).await {
                Ok(()) => {
                    did.uploads += 1;
                    self.totals.uploads.fetch_add(1, Relaxed);
                }
                // Completed or given up meanwhile.
                Err(Error::NoSuchUpload) => {}
                Err(Error::NoSuchBucket) => return Err(Error::NoSuchBucket),
                Err(_) => did.failed += 1,
            }
        }
        Ok(next)
    }

    /// Adds what is counted.
    pub fn render(&self, page: &mut Page) {
        let t = &self.totals;
        let last = t.last_ended_ms.load(Relaxed) as f64 / 1000.0;
        let all: [(&str, metrics::Kind, &'static str, f64); 10] = [
            (
                "expired_current_total",
                metrics::Kind::Counter,
                "Current versions that expired.",
                load(&t.current),
            ),
            (
                "expired_versions_total",
                metrics::Kind::Counter,
                "Noncurrent versions removed.",
                load(&t.versions),
            ),
            ("removed_markers_total", metrics::Kind::Counter, "Delete markers removed.", load(&t.markers)),
            ("aborted_uploads_total", metrics::Kind::Counter, "Uploads given up.", load(&t.uploads)),
            (
                "locked_total",
                metrics::Kind::Counter,
                "Versions left because they are locked.",
                load(&t.locked),
            ),
            ("failed_total", metrics::Kind::Counter, "Keys left for a later pass.", load(&t.failed)),
            ("keys_total", metrics::Kind::Counter, "Keys and uploads looked at.", load(&t.keys)),
            ("passes_total", metrics::Kind::Counter, "Passes ended.", load(&t.passes)),
            ("last_pass_timestamp_seconds", metrics::Kind::Gauge, "When the last pass ended.", last),
            (
                "behind_seconds",
                metrics::Kind::Gauge,
                "For how long something due waits at most.",
                self.behind_ms() as f64 / 1000.0,
            ),
        ];
        for (name, kind, help, value) in all {
            page.family(Group::Node, kind, &format!("ashlar_lifecycle_{name}"), help).add(&[], value);
        }
        let node = Group::Node;
        let removed = load(&t.current) + load(&t.versions) + load(&t.markers);
        page.value(
            node,
            "minio_node_ilm_expiry_pending_tasks",
            "Buckets whose pass is due or runs.",
            self.due(),
        );
        page.value(
            node,
            "minio_node_ilm_expiry_active_tasks",
            "Buckets whose rules are carried out now.",
            self.active(),
        );
        page.value(
            node,
            "minio_node_ilm_transition_pending_tasks",
            "Transitions that wait; there are none.",
            0,
        );
        page.value(
            node,
            "minio_node_ilm_transition_active_tasks",
            "Transitions that run; there are none.",
            0,
        );
        page.count(node, "minio_node_ilm_versions_scanned", "Keys and uploads looked at.", load(&t.keys));
        page.count(node, "ashlar_lifecycle_removed_total", "Versions and markers that expired.", removed);
    }

    /// What passes have done since the start: keys looked at, versions and markers that expired, passes.
    pub fn done(&self) -> [f64; 3] {
        let t = &self.totals;
        [load(&t.keys), load(&t.current) + load(&t.versions) + load(&t.markers), load(&t.passes)]
    }

    /// For how long the oldest pass that is due waits or runs.
    fn behind_ms(&self) -> i64 {
        self.late().into_iter().max().unwrap_or(0)
    }

    /// How many buckets wait for a pass, or are gone through.
    fn due(&self) -> usize {
        self.late().into_iter().filter(|ms| *ms > 0).count()
    }

    /// How many buckets are gone through.
    fn active(&self) -> usize {
        let passes = self.passes.lock();
        passes.values().filter(|p| p.kept.began_ms > 0 && p.kept.ended_ms.is_none()).count()
    }

    /// Of each bucket with rules, for how long its pass waits or runs.
    fn late(&self) -> Vec<i64> {
        let now = now_ms();
        let midnight = self.calendar.midnight(now);
        let passes = self.passes.lock();
        let late = |bucket: &Arc<Bucket>| {
            let text = bucket.documents.get(DOCUMENT)?;
            let done = passes
                .get(&bucket.id)
                .is_some_and(|p| p.kept.ended_ms.is_some() && p.kept.began_ms >= midnight);
            let since = || midnight.max(Config::decode(text).map_or(0, |c| c.set_ms));
            Some(if done { 0 } else { (now - since()).max(0) })
        };
        self.store.buckets().iter().filter_map(late).collect()
    }

    /// Answers a request about a bucket. What is asked for was permitted.
    pub async fn answer(&self, ask: &Ask) -> Reply {
        let refusal = |e: Error| Refusal::from(ashlar_s3::ops::fault(e, &ask.name, ""));
        let bucket = self.store.bucket(&ask.name).map_err(refusal)?;
        let Some(text) = bucket.documents.get(DOCUMENT) else {
            let why = format!("the bucket \"{}\" has no lifecycle rules", bucket.name);
            return Err(Refusal { status: StatusCode::NOT_FOUND, code: "NoSuchLifecycleConfiguration", why });
        };
        let config = Config::decode(text).ok_or_else(|| wrong("the bucket's rules cannot be read"))?;
        if ask.route == Route::LifecycleTest {
            let order: Order = ask.document()?;
            let answer = self.test(&bucket, &config, order).await.map_err(refusal)?;
            return Ok((StatusCode::OK, api::value(answer)));
        }
        let pass = self.passes.lock().get(&bucket.id).cloned().unwrap_or_default().kept;
        let did = pass.did;
        let time = |ms: i64| (ms > 0).then(|| ashlar_s3::date::format_iso(ms));
        let answer = shape::LifecycleStatus {
            bucket: bucket.name.clone(),
            rules: config.rules.len() as u64,
            began: time(pass.began_ms),
            ended: pass.ended_ms.and_then(time),
            running: pass.format == 1 && pass.ended_ms.is_none(),
            looked_at: did.keys,
            expired: did.current,
            removed_versions: did.versions,
            removed_markers: did.markers,
            aborted_uploads: did.uploads,
            locked: did.locked,
            failed: did.failed,
        };
        Ok((StatusCode::OK, api::value(answer)))
    }

    /// Counts what rules would do.
    async fn test(
        &self,
        bucket: &Bucket,
        config: &Config,
        order: Order,
    ) -> Result<shape::LifecycleTest, Error> {
        let at = match &order.at {
            None => now_ms(),
            Some(text) => ashlar_s3::date::parse_iso(text)
                .map(|s| s.saturating_mul(1000))
                .ok_or(Error::InvalidArgument("`at` is a time such as 2030-01-31T00:00:00Z"))?,
        };
        let mut place: Place = match &order.after {
            None => Place::default(),
            Some(text) => serde_json::from_str(text)
                .map_err(|_| Error::InvalidArgument("`after` is as it was answered"))?,
        };
        let mut counted = Counted::default();
        let began = Instant::now();
        for uploads in [false, true] {
            for prefix in config.prefixes(uploads) {
                let before = (place.uploads, place.prefix.as_str()) > (uploads, prefix);
                if before {
                    continue;
                }
                if (place.uploads, place.prefix.as_str()) != (uploads, prefix) {
                    place = Place { uploads, prefix: prefix.to_owned(), after: String::new() };
                }
                loop {
                    if began.elapsed() >= TEST {
                        let after = serde_json::to_string(&place).ok();
                        return Ok(counted.shape(bucket, config, at, after));
                    }
                    let next = match uploads {
                        false => self.test_page(bucket, config, &place, at, &mut counted).await?,
                        true => self.test_uploads(bucket, config, &place, at, &mut counted).await?,
                    };
                    match next {
                        Some(after) => place.after = after,
                        None => break,
                    }
                }
            }
        }
        Ok(counted.shape(bucket, config, at, None))
    }

    async fn test_page(
        &self,
        bucket: &Bucket,
        config: &Config,
        place: &Place,
        at: i64,
        counted: &mut Counted,
    ) -> Result<Option<String>, Error> {
        let (keys, next) = self.store.glance(&bucket.name, &place.prefix, &place.after, MAX_LOOK).await?;
        counted.keys += keys.len() as u64;
        let calendar = self.calendar;
        let due = keys.into_iter().filter(|k| config.may_be_due(&k.key, &glanced(k), at, calendar));
        let work = due.map(|k| async move {
            self.store
                .look(&bucket.name, &k.key, |found| {
                    let (seen, mut hits) = (seen(found), Counted::default());
                    let all = config.dues(&k.key, &seen, calendar);
                    let plan = config.plan(&k.key, &seen, found.keeps, at, calendar);
                    hits.locked = (all.iter().filter(|d| d.at_ms <= at).count() - plan.len()) as u64;
                    for due in plan {
                        hits.hit(due.rule, due.action, seen[due.index].size);
                    }
                    hits
                })
                .await
        });
        let mut work = futures::stream::iter(work).buffer_unordered(AT_ONCE);
        while let Some(hits) = work.next().await {
            counted.add(hits?);
        }
        Ok(next)
    }

    async fn test_uploads(
        &self,
        bucket: &Bucket,
        config: &Config,
        place: &Place,
        at: i64,
        counted: &mut Counted,
    ) -> Result<Option<String>, Error> {
        let (uploads, next) = upload_list(&self.store, &bucket.name, place).await?;
        for upload in uploads {
            counted.keys += 1;
            let due = config.abort_at(&upload.key, upload.created_ms, self.calendar);
            if let Some((_, rule)) = due.filter(|(due, _)| *due <= at) {
                counted.rules.entry(rule).or_default().uploads += 1;
            }
        }
        Ok(next)
    }
}

fn load(n: &AtomicU64) -> f64 {
    n.load(Relaxed) as f64
}

fn glanced(k: &ashlar_object::Glanced) -> Glance {
    Glance { modified_ms: k.modified_ms, size: k.size, delete_marker: k.delete_marker, alone: k.alone }
}

/// Versions as rules see them.
fn seen<'a>(found: &'a Found<'_>) -> Vec<Seen<'a>> {
    let all = found.versions.iter().zip(found.locked);
    all.map(|(v, locked)| Seen {
        modified_ms: v.modified_ms,
        size: v.size,
        delete_marker: v.delete_marker,
        tags: &v.tags,
        locked: *locked,
    })
    .collect()
}

/// What of a key is due.
fn chosen(config: &Config, key: &str, found: &Found<'_>, now: i64, calendar: Calendar) -> Chosen {
    let mut chosen = Chosen::default();
    for due in config.plan(key, &seen(found), found.keeps, now, calendar) {
        match due.action {
            Action::Expire => chosen.current = true,
            Action::Remove | Action::RemoveMarker => chosen.versions.push(due.index),
        }
    }
    chosen
}

/// A page of uploads, and the place of the next.
async fn upload_list(
    store: &Store,
    bucket: &str,
    place: &Place,
) -> Result<(Vec<ashlar_object::UploadEntry>, Option<String>), Error> {
    let (key, id) = match place.after.rsplit_once('\0') {
        Some((key, id)) => (key, ashlar_object::UploadId::parse(id)),
        None => ("", None),
    };
    let spec = UploadListSpec {
        prefix: &place.prefix,
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

/// What a dry run asks for.
#[derive(Deserialize, Default, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = LifecycleTestOrder)]
pub struct Order {
    /// At which time, such as `2030-01-31T00:00:00Z`; now, unless given.
    at: Option<String>,
    /// Go on where the last answer ended.
    after: Option<String>,
}

#[derive(Default, Clone, Copy)]
struct Hits {
    expire: u64,
    remove: u64,
    markers: u64,
    uploads: u64,
    bytes: u64,
}

/// What a dry run has counted.
#[derive(Default)]
struct Counted {
    keys: u64,
    locked: u64,
    rules: BTreeMap<usize, Hits>,
}

impl Counted {
    fn hit(&mut self, rule: usize, action: Action, size: u64) {
        let hits = self.rules.entry(rule).or_default();
        match action {
            Action::Expire => hits.expire += 1,
            Action::Remove => hits.remove += 1,
            Action::RemoveMarker => hits.markers += 1,
        }
        hits.bytes += size;
    }

    fn add(&mut self, other: Counted) {
        self.locked += other.locked;
        for (rule, h) in other.rules {
            let hits = self.rules.entry(rule).or_default();
            hits.expire += h.expire;
            hits.remove += h.remove;
            hits.markers += h.markers;
            hits.bytes += h.bytes;
        }
    }

    fn shape(
        &self,
        bucket: &Bucket,
        config: &Config,
        at: i64,
        after: Option<String>,
    ) -> shape::LifecycleTest {
        let rules = config.rules.iter().enumerate().map(|(i, rule)| {
            let h = self.rules.get(&i).copied().unwrap_or_default();
            shape::LifecycleHits {
                id: rule.id.clone(),
                enabled: rule.enabled,
                expire: h.expire,
                remove_versions: h.remove,
                remove_markers: h.markers,
                abort_uploads: h.uploads,
                bytes: h.bytes,
            }
        });
        shape::LifecycleTest {
            bucket: bucket.name.clone(),
            at: ashlar_s3::date::format_iso(at),
            looked_at: self.keys,
            locked: self.locked,
            rules: rules.collect(),
            after,
        }
    }
}

/// The calendar that the environment asks for: shortened days are for tests of the whole server only, and
/// need a second word to that effect. Object locks do not go by it.
///
/// # Errors
/// In words.
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
    fn short_days_need_two_words() {
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
