//! The change feed: an ordered, durable record of the changes of buckets that somebody follows.
//!
//! Before a change of such a bucket is made, the feed records the intent; when the outcome is known, it
//! records the change with the next position. So a change that became durable is never missing: after a
//! crash, intents without an outcome are settled by reading their keys ([`background`]). If a change is recorded
//! twice, the second record is a later state of the key, never an older one.
//!
//! | file | what it holds |
//! |---|---|
//! | `change` | a change: [`Change`], [`Kind`], [`Cause`] |
//! | `entry` | the bytes of segments |
//! | `log` | segments as registers of the drives, positions of readers in the control store |
//! | `pending_change` | one change under way: intent, turn of the key, outcome |
//! | `background` | writing, trimming, settling open intents |
//! | `reader` | following: durable readers, live watchers |
//! | `takeover_record` | which node is at the feed of another |
//! | `takeover` | a node records anew what a node that is gone had recorded and nobody has read |
//!
//! Invariants: an intent is durable before its change is proposed; changes of one key are in the order in
//! which they were made; a position of a reader is never stored ahead of what is durable; the entries that
//! wait to be written ([`MAX_PENDING`]), those in memory ([`TAIL`]) and those on drives ([`Limits`]) are
//! bounded. A bucket without followers costs one comparison per change.
//!
//! Must not depend on: who follows and why; S3.

mod background;
mod change;
pub(crate) mod entry;
mod log;
mod pending_change;
mod reader;
mod takeover;
mod takeover_record;

use ashlar_environment::HashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use ashlar_cluster::Control;
use ashlar_environment::time::Clock;
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, watch};

pub use change::{Cause, Change, Kind};
pub use reader::{Batch, Reader, WatchEvent, Watcher};

pub(crate) use change::Effect;
pub(crate) use log::{fuzzed_name, fuzzed_names};
pub(crate) use pending_change::PendingChange;

use entry::{Entry, Intent};
use log::SegmentRef;

use crate::backend::Backend;
use crate::{Bucket, Error, Result};

/// Kind of the bucket document whose presence makes a bucket followed.
pub const NOTIFICATION: &str = "notification";

/// Bytes that may wait to be written; above it, new changes are refused with "slow down".
const MAX_PENDING: usize = 16 << 20;
/// Intents that may be open.
const MAX_OPEN: usize = 1 << 16;
/// Changes kept in memory for readers that keep up.
const TAIL: usize = 4096;
/// Changes that a live watcher may be behind.
const WATCHER_CAPACITY: usize = 1024;
/// Number of locks for turns of keys: sometimes two keys share one.
const TURNS: usize = 1024;

/// Limits of what is kept for slow readers, where the oldest segments are removed first, and of waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of segments.
    pub bytes: u64,
    /// Segments.
    pub segments: usize,
    /// How long an intent may take to become durable; then its change is refused.
    pub intent_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 1 << 30, segments: 200_000, intent_timeout: Duration::from_secs(10) }
    }
}

/// The feed of a store. Cheap to clone.
#[derive(Clone)]
pub struct Feed {
    pub(crate) shared: Arc<Shared>,
    /// The background work ends with the last handle.
    _stop: Arc<StopOnDrop>,
}

struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.work.notify_one();
        self.0.maintenance.notify_one();
    }
}

pub(crate) struct Shared {
    /// The number of this node; 0: this machine is alone.
    node: u16,
    backend: Backend,
    control: Control,
    clock: Arc<dyn Clock>,
    limits: Limits,
    state: Mutex<State>,
    /// Notifies that there is something to write.
    work: Notify,
    /// Notifies that there is other work.
    maintenance: Notify,
    stop: AtomicBool,
    /// Whether changes are recorded with their ballots: every node that may read them has to understand that.
    tells_ballots: AtomicBool,
    /// The number of the newest entry that is durable.
    durable: watch::Sender<u64>,
    /// The position of the newest change.
    newest: watch::Sender<u64>,
    live: broadcast::Sender<Arc<Change>>,
    watchers: AtomicUsize,
    turns: Vec<Arc<tokio::sync::Mutex<()>>>,
    /// The time of the newest change of some keys, by their hash.
    latest: Vec<AtomicI64>,
}

#[derive(Default)]
struct State {
    /// Whether [`Feed::open`] was called.
    opened: bool,
    /// The position of the next change, from 1.
    next: u64,
    /// Changes up to this position are durable.
    durable: u64,
    next_intent: u64,
    next_segment: u64,
    /// Entries to be written, and the number of the last one ever queued.
    pending: Vec<Entry>,
    pending_bytes: usize,
    queued: u64,
    /// Whether a caller waits for some of them.
    urgent: bool,
    /// Intents without a durable outcome.
    open: BTreeMap<u64, Open>,
    /// Those of them whose outcome has to be determined.
    unsure: Vec<u64>,
    /// The newest changes, including all that are not durable.
    tail: VecDeque<Arc<Change>>,
    /// The segments on drives, and their bytes.
    segments: VecDeque<SegmentRef>,
    bytes: u64,
    /// Segments to be removed.
    to_remove: Vec<SegmentRef>,
    readers: HashMap<String, Cursor>,
    /// Readers to be removed from the control store.
    gone: Vec<String>,
    /// Number of changes that were dropped before some reader had them.
    lost: u64,
    /// Why the last write failed.
    last_error: Option<String>,
}

/// An intent without a durable outcome.
struct Open {
    /// The segment that contains it; 0: none yet.
    segment: u64,
    intent: Intent,
}

/// The position of a reader.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// The position up to which it is done.
    done: u64,
    /// The stored position.
    saved: u64,
}

/// The state of the feed, for metrics.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Position of the newest change.
    pub position: u64,
    /// Changes up to this position are durable.
    pub durable: u64,
    /// Segments on drives, and their bytes.
    pub segments: usize,
    /// Bytes of segments, before coding.
    pub bytes: u64,
    /// Entries that wait to be written.
    pub pending: usize,
    /// Intents without an outcome.
    pub open: usize,
    /// Changes dropped before some reader had them, since the start.
    pub lost: u64,
    /// Readers by name, and how many changes each is behind.
    pub readers: Vec<(String, u64)>,
    /// Why the last write failed, while writes fail.
    pub last_error: Option<String>,
}

impl Feed {
    pub(crate) fn new(
        backend: Backend,
        control: Control,
        node: u16,
        clock: Arc<dyn Clock>,
        limits: Limits,
    ) -> Feed {
        let shared = Arc::new(Shared {
            node,
            backend,
            control,
            clock,
            limits,
            state: Mutex::new(State { next: 1, next_intent: 1, next_segment: 1, ..State::default() }),
            work: Notify::new(),
            maintenance: Notify::new(),
            stop: AtomicBool::new(false),
            tells_ballots: AtomicBool::new(node == 0),
            durable: watch::Sender::new(0),
            newest: watch::Sender::new(0),
            live: broadcast::Sender::new(WATCHER_CAPACITY),
            watchers: AtomicUsize::new(0),
            turns: (0..TURNS).map(|_| Arc::default()).collect(),
            latest: (0..TURNS).map(|_| AtomicI64::new(0)).collect(),
        });
        Feed { _stop: Arc::new(StopOnDrop(shared.clone())), shared }
    }

    /// Whether changes may be recorded with their ballots. At first only if this machine is alone.
    pub fn tell_ballots(&self, may: bool) {
        self.shared.tells_ballots.store(may, Ordering::Relaxed);
    }

    /// Whether changes of this bucket are recorded.
    #[must_use]
    pub fn records(&self, bucket: &Bucket) -> bool {
        !bucket.documents.is_empty() && bucket.documents.contains_key(NOTIFICATION)
    }

    /// Whether changes of this bucket are recorded or watched.
    #[must_use]
    pub fn wants(&self, bucket: &Bucket) -> bool {
        self.shared.watchers.load(Ordering::Relaxed) > 0 || self.records(bucket)
    }

    /// Reports an event that is no change (a read): to watchers at once, and, for a recorded bucket, to
    /// readers, durable shortly afterwards. It gets its position here. Dropped if too much is waiting.
    pub fn report(&self, bucket: &Bucket, change: Change) {
        let change = Change { ballot: self.shared.told(change.ballot), ..change };
        if !self.records(bucket) {
            self.shared.notify_watchers(Arc::new(Change { position: 0, ..change }));
            return;
        }
        let mut s = self.shared.state.lock();
        if s.opened && s.pending_bytes < MAX_PENDING / 2 {
            self.shared.push(&mut s, 0, change);
            drop(s);
            self.shared.work.notify_one();
        }
    }

    /// The state of the feed.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let s = self.shared.state.lock();
        let last = s.next - 1;
        let mut readers: Vec<(String, u64)> =
            s.readers.iter().map(|(n, c)| (n.clone(), last.saturating_sub(c.done))).collect();
        readers.sort();
        Stats {
            position: last,
            durable: s.durable,
            segments: s.segments.len(),
            bytes: s.bytes,
            pending: s.pending.len(),
            open: s.open.len(),
            lost: s.lost,
            readers,
            last_error: s.last_error.clone(),
        }
    }
}

impl Shared {
    fn now_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Sends a change to the watchers.
    fn notify_watchers(&self, change: Arc<Change>) {
        if self.watchers.load(Ordering::Relaxed) > 0 {
            // An error means that there is no watcher.
            let _ = self.live.send(change);
        }
    }

    /// A segment does not exist any more, so no older one does.
    fn is_gone(&self, segment_ref: SegmentRef) {
        let mut s = self.state.lock();
        while s.segments.front().is_some_and(|oldest| oldest.number <= segment_ref.number) {
            if let Some(oldest) = s.segments.pop_front() {
                s.bytes = s.bytes.saturating_sub(oldest.bytes);
            }
        }
    }

    /// Gives a change its position and queues it.
    fn push(&self, s: &mut State, intent: u64, mut change: Change) {
        change.position = s.next;
        s.next += 1;
        let change = Arc::new(change);
        s.tail.push_back(change.clone());
        s.queue(Entry::Change(intent, change.clone()));
        s.trim_tail();
        self.newest.send_replace(change.position);
        self.notify_watchers(change);
    }
}

impl State {
    fn queue(&mut self, entry: Entry) {
        self.pending_bytes += entry.weight();
        self.queued += 1;
        self.pending.push(entry);
    }

    /// Drops durable changes above the limit from memory.
    fn trim_tail(&mut self) {
        while self.tail.len() > TAIL && self.tail.front().is_some_and(|c| c.position <= self.durable) {
            self.tail.pop_front();
        }
    }

    /// The lowest position of a reader; without readers, all changes are done.
    fn lowest_position(&self) -> u64 {
        self.readers.values().map(|c| c.saved).min().unwrap_or(self.durable).min(self.durable)
    }

    /// The oldest segment that contains an open intent.
    fn open_from(&self) -> Option<u64> {
        self.open.values().map(|o| o.segment).filter(|n| *n > 0).min()
    }
}

/// Fails if the feed is not open, or too much is waiting.
fn check(s: &State) -> Result<()> {
    if !s.opened {
        return Err(Error::Unavailable("the change feed is not open yet".to_owned()));
    }
    if s.pending_bytes >= MAX_PENDING || s.open.len() >= MAX_OPEN {
        return Err(Error::Busy);
    }
    Ok(())
}
