//! The bounded queue of records that wait for the writer.
//!
//! A request reserves space for its record before it is carried out, so that a request that was carried out
//! can always be recorded. While the queue is full, requests wait, and are refused after [`PATIENCE`]. The
//! writer takes all queued records every [`BEAT`], or immediately if a request waits for its record to be
//! durable. Under load, no request pays for waking the writer.

use ashlar_environment::time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

use crate::{Error, Record, Result};

/// How long a request waits for space in the queue before it is refused.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Most queued records, including those reserved by requests that still run.
const CAPACITY: usize = 16 * 1024;
/// How often the writer takes records while records arrive.
const BEAT: Duration = Duration::from_millis(10);
/// How long the writer sleeps at most while none arrive, so that it makes checkpoints and flushes in time.
const NAP: Duration = Duration::from_secs(1);

/// One record, and the request that waits for it.
pub struct Entry {
    /// The record.
    pub record: Record,
    /// Receives a message when the record is on stable storage.
    pub done: Option<oneshot::Sender<()>>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    urgent: bool,
    /// The writer sleeps until a record arrives.
    asleep: bool,
    closed: bool,
}

/// The queue.
pub struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    permits: Arc<Semaphore>,
    refused: AtomicU64,
}

/// Reserved space for one record. Dropping it without a record returns the space.
#[derive(Default)]
pub struct QueuePermit(Option<Arc<Shared>>);

impl Drop for QueuePermit {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.permits.add_permits(1);
        }
    }
}

impl QueuePermit {
    /// Whether the audit log is on, so that the request must be recorded.
    pub fn is_real(&self) -> bool {
        self.0.is_some()
    }

    /// Queues the record.
    pub fn note(mut self, record: Record) {
        if let Some(shared) = self.0.take() {
            shared.push(Entry { record, done: None });
        }
    }

    /// Queues the record. The receiver gets a message when the record is on stable storage.
    pub fn note_urgent(mut self, record: Record) -> Option<oneshot::Receiver<()>> {
        let shared = self.0.take()?;
        let (done, wait) = oneshot::channel();
        shared.push(Entry { record, done: Some(done) });
        Some(wait)
    }
}

impl Shared {
    /// An empty queue.
    pub fn new() -> Arc<Shared> {
        Arc::new(Shared {
            state: Mutex::default(),
            wake: Condvar::new(),
            permits: Arc::new(Semaphore::new(CAPACITY)),
            refused: AtomicU64::new(0),
        })
    }

    /// Reserves space for one record. Waits for it, at most [`PATIENCE`].
    pub async fn reserve(self: &Arc<Shared>) -> Result<QueuePermit> {
        let taken = match self.permits.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => time::timeout(PATIENCE, self.permits.acquire()).await.ok().and_then(|p| p.ok()),
        };
        match taken {
            Some(permit) => {
                permit.forget();
                Ok(QueuePermit(Some(self.clone())))
            }
            None => {
                self.refused.fetch_add(1, Relaxed);
                Err(Error::Stuck)
            }
        }
    }

    fn push(&self, entry: Entry) {
        let mut state = self.state.lock();
        state.urgent |= entry.done.is_some();
        state.entries.push(entry);
        if state.asleep || state.urgent {
            state.asleep = false;
            self.wake.notify_one();
        }
    }

    /// Takes all queued records, for the writer. `None`: the queue is closed and empty.
    pub fn take(&self, spare: Vec<Entry>) -> Option<Vec<Entry>> {
        let mut state = self.state.lock();
        if state.entries.is_empty() && !state.closed {
            state.asleep = true;
            self.wake.wait_for(&mut state, NAP);
            state.asleep = false;
        }
        if !state.entries.is_empty() && !state.urgent && !state.closed {
            self.wake.wait_while_for(&mut state, |s| !s.urgent && !s.closed, BEAT);
        }
        if state.entries.is_empty() && state.closed {
            return None;
        }
        state.urgent = false;
        Some(std::mem::replace(&mut state.entries, spare))
    }

    /// Returns the space of `count` records that were written.
    pub fn done(&self, count: usize) {
        self.permits.add_permits(count);
    }

    /// Records that wait.
    pub fn waiting(&self) -> u64 {
        self.state.lock().entries.len() as u64
    }

    /// Number of requests that were refused because the queue was full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_all();
    }
}
