//! Records on their way to the writer.
//!
//! Room for a record is taken before its request is done, so that what was done can always be recorded; when
//! there is none, requests wait, and are refused after [`PATIENCE`]. The writer takes everything at
//! once, every [`BEAT`], or at once when somebody waits: under load nobody pays for waking it.

use ashlar_environment::time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

use crate::{Error, Record, Result};

/// How long a request waits for room before it is refused.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Most records that wait, together with requests that run and will make one.
const ROOM: usize = 16 * 1024;
/// How often the writer looks while records come.
const BEAT: Duration = Duration::from_millis(10);
/// How long it sleeps at most when none come, so that checkpoints and flushes are made.
const NAP: Duration = Duration::from_secs(1);

/// One record, and who waits for it.
pub struct Entry {
    /// The record.
    pub record: Record,
    /// Told when it is on stable storage.
    pub done: Option<oneshot::Sender<()>>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    urgent: bool,
    /// The writer sleeps until something comes.
    asleep: bool,
    closed: bool,
}

/// The queue.
pub struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    room: Arc<Semaphore>,
    refused: AtomicU64,
}

/// Room for one record.
#[derive(Default)]
pub struct Ticket(Option<Arc<Shared>>);

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.room.add_permits(1);
        }
    }
}

impl Ticket {
    /// Whether a record is to be made.
    pub fn is_real(&self) -> bool {
        self.0.is_some()
    }

    /// Hands the record over.
    pub fn note(mut self, record: Record) {
        if let Some(shared) = self.0.take() {
            shared.push(Entry { record, done: None });
        }
    }

    /// Hands the record over; what is returned ends when it is on stable storage.
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
            room: Arc::new(Semaphore::new(ROOM)),
            refused: AtomicU64::new(0),
        })
    }

    /// Room for one record.
    pub async fn ticket(self: &Arc<Shared>) -> Result<Ticket> {
        let taken = match self.room.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => time::timeout(PATIENCE, self.room.acquire()).await.ok().and_then(|p| p.ok()),
        };
        match taken {
            Some(permit) => {
                permit.forget();
                Ok(Ticket(Some(self.clone())))
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

    /// What has come, for the writer. `None`: it was closed, and nothing is left.
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

    /// That many records are written.
    pub fn done(&self, count: usize) {
        self.room.add_permits(count);
    }

    /// Records that wait.
    pub fn waiting(&self) -> u64 {
        self.state.lock().entries.len() as u64
    }

    /// Requests that were refused for want of room.
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
