//! The list of streams that are ready to be hashed, and the choice of the worker to wake.
//!
//! Streams with enough queued are put on the ready list; a few threads, the workers (`worker.rs`),
//! hash them in lanes. This file decides which thread is woken when a stream becomes ready, and
//! remembers which streams are likely to become ready soon.
//!
//! Invariants: a cell is on the list at most once (`Cell::scheduled`), so the list is bounded by
//! the number of streams; whenever the list is not empty, a worker is awake, has a timer, or has
//! been notified.
//!
//! Wakers, and the drop code of chunks, run outside of all locks; a cell's lock may be taken under
//! the list's, never the other way round.
//!
//! Must not depend on: the content of chunks, their producers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_environment::{simulation, thread};
use parking_lot::{Condvar, Mutex};

use super::cell::Cell;
use super::kernel::LANES;
use super::worker::Worker;

/// The most paused streams that are remembered as likely to be back.
const REMEMBERED: usize = 4 * LANES;

/// Values that were chosen by measurement; `worker.rs` describes their use and effect.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Tuning {
    /// The longest that a stream with a waiting caller waits for other streams.
    pub gather: Duration,
    /// How many times `gather` a stream without a waiting caller waits.
    pub patience: u32,
    /// How long after its last block a paused stream is expected back.
    pub recent: Duration,
    /// A worker with so many streams does not wait for more.
    pub enough: usize,
    /// The most threads.
    pub workers: usize,
    /// A worker stops to wait for others when one in so many of its lanes have emptied; 0 never.
    pub decline: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        // One thread with full lanes hashes about 9 GB/s, and more threads fill fewer lanes.
        let cores = thread::available_parallelism().map_or(1, |n| n.get());
        Tuning {
            gather: Duration::from_millis(1),
            patience: 8,
            recent: Duration::from_millis(20),
            enough: LANES,
            workers: (cores / 4).clamp(1, 4),
            decline: 4,
        }
    }
}

/// What a scheduler has hashed, and how full its lanes were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStats {
    /// Bytes hashed in lanes (not those hashed by the caller that waited for them).
    pub bytes: u64,
    /// Bytes that a single lane would have hashed in the same time: `bytes / lane_bytes` is the
    /// mean number of streams side by side.
    pub lane_bytes: u64,
    /// How often a worker began to hash.
    pub runs: u64,
    /// How often a worker waited, with a timer, for more streams.
    pub waits: u64,
}

/// What workers and handles share.
pub(super) struct Shared {
    /// False in a simulation: the callers that wait for streams hash them.
    pub(super) threads: bool,
    pub(super) tuning: Tuning,
    pub(super) list: Mutex<List>,
    /// Idle workers sleep here.
    pub(super) idle: Condvar,
    /// The worker that waits for more streams sleeps here.
    pub(super) gathering: Condvar,
    /// The length of the ready list, readable without the lock.
    pub(super) ready: AtomicUsize,
    /// Whether a caller waits for a stream on the list or in a lane.
    pub(super) urgent: AtomicBool,
    next_id: AtomicU64,
    pub(super) blocks: AtomicU64,
    pub(super) steps: AtomicU64,
    pub(super) runs: AtomicU64,
    pub(super) waits: AtomicU64,
}

/// The data that the lock protects.
pub(super) struct List {
    pub(super) ready: VecDeque<Arc<Cell>>,
    /// Paused streams and since when; the oldest first.
    paused: VecDeque<(u64, Instant)>,
    /// Threads that exist.
    workers: usize,
    /// Threads asleep without a timer, not yet notified.
    pub(super) idle: usize,
    /// Free lanes of the threads that hash or have been notified.
    pub(super) free: usize,
    /// A worker waits with a timer, until the list has this length.
    pub(super) gathering: Option<usize>,
    pub(super) shut_down: bool,
}

impl Shared {
    /// A scheduler with its first worker.
    pub(super) fn start(tuning: Tuning) -> Arc<Shared> {
        let shared = Arc::new(Shared {
            threads: !simulation::is_running(),
            tuning,
            list: Mutex::new(List {
                ready: VecDeque::new(),
                paused: VecDeque::with_capacity(REMEMBERED),
                workers: 0,
                idle: 0,
                free: 0,
                gathering: None,
                shut_down: false,
            }),
            idle: Condvar::new(),
            gathering: Condvar::new(),
            ready: AtomicUsize::new(0),
            urgent: AtomicBool::new(false),
            next_id: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            waits: AtomicU64::new(0),
        });
        let started = shared.threads && shared.start_worker(&mut shared.list.lock());
        assert!(started || !shared.threads, "the system starts no thread for MD5");
        shared
    }

    /// A number for a new stream, which is expected to have bytes soon.
    pub(super) fn open(&self) -> u64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.list.lock().remember(id, Instant::now());
        id
    }

    /// A stream is dropped and not expected again.
    pub(super) fn close(&self, id: u64) {
        self.list.lock().forget(id);
    }

    /// Puts a cell, just scheduled, on the list, and wakes a worker if one should begin now.
    pub(super) fn make_ready(self: &Arc<Self>, cell: &Arc<Cell>) {
        let mut list = self.list.lock();
        list.forget(cell.id);
        list.ready.push_back(cell.clone());
        self.ready.store(list.ready.len(), Ordering::Relaxed);
        if let Some(length) = list.gathering {
            if list.ready.len() >= length {
                list.gathering = None;
                drop(list);
                self.gathering.notify_one();
            }
        } else if list.free >= list.ready.len() {
            // A worker looks at the list after each round, and before it sleeps.
        } else if list.idle > 0 {
            list.idle -= 1;
            list.free += LANES;
            drop(list);
            self.idle.notify_one();
        } else if list.workers < self.tuning.workers {
            self.start_worker(&mut list);
        }
    }

    /// Tells all workers to end. There are no streams any more.
    pub(super) fn shut_down(&self) {
        self.list.lock().shut_down = true;
        self.idle.notify_all();
        self.gathering.notify_all();
    }

    pub(super) fn stats(&self) -> LaneStats {
        LaneStats {
            bytes: 64 * self.blocks.load(Ordering::Relaxed),
            lane_bytes: 64 * self.steps.load(Ordering::Relaxed),
            runs: self.runs.load(Ordering::Relaxed),
            waits: self.waits.load(Ordering::Relaxed),
        }
    }

    /// Starts a thread; false if the system refuses, in which case the others do its work.
    fn start_worker(self: &Arc<Self>, list: &mut List) -> bool {
        let shared = self.clone();
        let name = format!("md5-{}", list.workers);
        let started = thread::start(name, None, move || {
            let _abort = AbortOnPanic;
            Worker::new(&shared).work();
        });
        list.workers += usize::from(started.is_ok());
        started.is_ok()
    }

    /// A caller waits for a stream that is not hashed: there is less time to wait for others.
    pub(super) fn hurry(&self) {
        if !self.urgent.load(Ordering::Relaxed) {
            self.urgent.store(true, Ordering::Relaxed);
        }
    }
}

impl List {
    /// A stream has nothing queued since `now`, and may have more soon.
    pub(super) fn remember(&mut self, id: u64, now: Instant) {
        if self.paused.len() == REMEMBERED {
            self.paused.pop_front();
        }
        self.paused.push_back((id, now));
    }

    /// A stream has more bytes, or will not have any.
    fn forget(&mut self, id: u64) {
        // Streams come back in about the order in which they paused.
        if let Some(at) = self.paused.iter().position(|(paused, _)| *paused == id) {
            self.paused.remove(at);
        }
    }

    /// How many streams are likely to have more bytes soon.
    pub(super) fn expected(&mut self, now: Instant, recent: Duration) -> usize {
        while self.paused.front().is_some_and(|(_, since)| now.duration_since(*since) > recent) {
            self.paused.pop_front();
        }
        self.paused.len()
    }
}

/// Ends the process if a worker panics, because streams would wait for it for ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last handle ends the threads, which let go of what they share.
    #[test]
    fn threads_end_with_the_last_handle() {
        let shared = Shared::start(Tuning::default());
        let weak = Arc::downgrade(&shared);
        shared.shut_down();
        drop(shared);
        for _ in 0..1000 {
            if weak.strong_count() == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("a worker lives on");
    }

    #[test]
    fn paused_streams_are_expected_for_a_while() {
        let shared = Shared::start(Tuning::default());
        let mut list = shared.list.lock();
        let (start, recent) = (Instant::now(), Duration::from_millis(5));
        for id in 0..100 {
            list.remember(id, start + Duration::from_millis(id / 50));
        }
        assert_eq!(list.expected(start, recent), REMEMBERED, "a bounded number is remembered");
        list.forget(99);
        assert_eq!(list.expected(start + recent, recent), REMEMBERED - 1);
        assert_eq!(list.expected(start + recent * 3, recent), 0);
        drop(list);
        shared.shut_down();
    }
}
