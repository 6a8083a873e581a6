//! The handles of callers: the scheduler and its streams.
//!
//! Invariant: a stream that is dropped, at any point of any of its futures, leaves no state.
//!
//! Must not depend on: when and where the queue is hashed.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::cell::{Cell, Until};
use super::scheduler::{LaneStats, Shared, Tuning};

/// Number of queued bytes from which a stream is given a lane; below it, the bytes wait for more bytes or for
/// a caller.
const WORTH_A_LANE: usize = 64 * 1024;

/// Number of queued bytes up to which the waiting caller hashes them itself: handing them to a worker costs
/// about as much processor time as hashing this many bytes.
const HASH_HERE: usize = 16 * 1024;

/// The scheduler of MD5 lanes: one per process, cheap to clone.
///
/// It owns a few threads that sleep while there is nothing to hash and end when the last handle
/// and stream are gone.
#[derive(Clone)]
pub struct Md5Lanes {
    home: Arc<Home>,
}

/// Ends the threads when the last handle is dropped.
struct Home {
    shared: Arc<Shared>,
}

impl Drop for Home {
    fn drop(&mut self) {
        self.shared.shut_down();
    }
}

impl Md5Lanes {
    /// A scheduler for this machine.
    ///
    /// # Panics
    /// If the system refuses to start its first thread.
    pub fn new() -> Md5Lanes {
        Md5Lanes::with_tuning(Tuning::default())
    }

    #[doc(hidden)]
    pub fn with_tuning(tuning: Tuning) -> Md5Lanes {
        Md5Lanes { home: Arc::new(Home { shared: Shared::start(tuning) }) }
    }

    /// Begins the MD5 of one upload.
    ///
    /// For a whole body below [`INLINE_BELOW`](crate::INLINE_BELOW) bytes, call
    /// [`md5_once`](crate::md5_once) instead.
    pub fn stream(&self) -> Md5Stream {
        let cell = Arc::new(Cell::new(self.home.shared.open()));
        Md5Stream { cell, home: self.home.clone() }
    }

    /// What was hashed so far, and how well the lanes were filled.
    pub fn stats(&self) -> LaneStats {
        self.home.shared.stats()
    }
}

impl Default for Md5Lanes {
    fn default() -> Self {
        Md5Lanes::new()
    }
}

/// The MD5 of one upload.
///
/// Dropping it, at any moment, cancels what is queued. Chunks may be dropped on another thread.
pub struct Md5Stream {
    cell: Arc<Cell>,
    home: Arc<Home>,
}

impl Md5Stream {
    /// Queues `data` behind all that was queued before, and returns at once. Nothing is copied.
    ///
    /// The queue has no bound of its own: the caller keeps it to a few MiB by awaiting
    /// [`drained`](Self::drained). Chunks of 64 KiB and more cost least.
    pub fn update(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        let mut inner = self.cell.lock();
        inner.queued += data.len();
        inner.queue.push_back(data);
        let threads = self.home.shared.threads;
        let schedule = threads && !inner.scheduled && inner.queued >= WORTH_A_LANE;
        inner.scheduled |= schedule;
        drop(inner);
        if schedule {
            self.home.shared.make_ready(&self.cell);
        }
    }

    /// How many bytes are queued and not yet hashed.
    pub fn queued(&self) -> usize {
        self.cell.lock().queued
    }

    /// Resolves when at most `at_most_bytes` of all queued bytes are not yet hashed; bytes count as hashed
    /// when their whole chunk is. May be cancelled and called again.
    pub async fn drained(&mut self, at_most_bytes: usize) {
        poll_fn(|context| self.poll(Until::Queued(at_most_bytes), context).map(|_| ())).await;
    }

    /// The MD5 of all that was queued.
    pub async fn finish(self) -> [u8; 16] {
        poll_fn(|context| self.poll(Until::Digest, context)).await
    }

    /// Checks whether `until` is fulfilled; if not, makes sure that a worker hashes and wakes the task. The
    /// value is the digest for `Until::Digest`, and nothing otherwise.
    fn poll(&self, until: Until, context: &Context<'_>) -> Poll<[u8; 16]> {
        let mut inner = self.cell.lock();
        let mut chunks = VecDeque::new();
        let here = inner.queued <= HASH_HERE || !self.home.shared.threads;
        if !inner.scheduled && here && !inner.reached(until) {
            chunks = inner.hash_here(until);
        }
        let reached = inner.reached(until);
        // The waker of an earlier wait is dropped outside of the lock, because it may own a task
        // that owns a stream.
        let before = if reached {
            inner.waiter.take()
        } else {
            inner.waiter.replace((until, context.waker().clone()))
        };
        let schedule = !reached && !inner.scheduled;
        inner.scheduled |= schedule;
        let digest = inner.digest;
        drop(inner);
        drop((before, chunks));
        if schedule {
            self.home.shared.make_ready(&self.cell);
        }
        if !reached {
            self.home.shared.hurry();
        }
        if reached { Poll::Ready(digest.unwrap_or_default()) } else { Poll::Pending }
    }
}

impl Drop for Md5Stream {
    fn drop(&mut self) {
        self.cell.drop_stream();
        self.home.shared.close(self.cell.id);
    }
}
