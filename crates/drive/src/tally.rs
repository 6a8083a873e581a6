//! One counter per fan-out: which slots answered, failed or refused.
//!
//! A write goes to all drives of a group and its caller waits for some of them.
//!
//! Invariants: every [`Completion`] answers exactly once (dropping one counts as a failure); an answer costs
//! a few atomic operations and wakes the waiter only when the result that it waits for is decided; late
//! answers are still counted after the waiter has continued.
//!
//! Must not depend on: what is sent.

use crate::Error;
use ashlar_format::Ballot;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// Counts the answers of one fan-out to at most 64 slots.
pub struct Tally {
    total: u8,
    ok: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    uncounted: AtomicU64,
    /// How many successes the waiter needs; 255: all answers.
    need: AtomicU8,
    slow: Mutex<Slow>,
}

#[derive(Default)]
struct Slow {
    waker: Option<Waker>,
    highest: Ballot,
    error: Option<Error>,
}

const ALL: u8 = u8::MAX;

/// The answers so far: bit s is slot s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Done, durable.
    pub ok: u64,
    /// Done, durable, but on a drive that is joining: never counted towards a majority.
    pub uncounted: u64,
    /// Failed.
    pub failed: u64,
    /// Refused because of a higher ballot.
    pub refused: u64,
    /// The highest ballot among the refusals.
    pub highest: Ballot,
}

impl Tally {
    /// A tally of `total` answers.
    ///
    /// # Panics
    /// If `total` is above 64.
    #[must_use]
    pub fn new(total: u8) -> Arc<Tally> {
        assert!(total <= 64, "a placement group has at most 64 slots");
        Arc::new(Tally {
            total,
            ok: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            uncounted: AtomicU64::new(0),
            need: AtomicU8::new(ALL),
            slow: Mutex::new(Slow::default()),
        })
    }

    /// The completion of slot `slot`; each slot below `total` has exactly one.
    pub fn completion(self: &Arc<Tally>, slot: u8) -> Completion {
        assert!(slot < 64);
        Completion { tally: Some(self.clone()), slot }
    }

    /// Waits until `need` slots succeeded, or until that is impossible because too many failed or refused.
    pub async fn wait(&self, need: u8) -> Outcome {
        self.until(need.min(self.total)).await
    }

    /// Waits until every slot has answered.
    pub async fn wait_all(&self) -> Outcome {
        self.until(ALL).await
    }

    /// The answers so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome {
            ok: self.ok.load(Ordering::SeqCst),
            uncounted: self.uncounted.load(Ordering::SeqCst),
            failed: self.failed.load(Ordering::SeqCst),
            refused: self.refused.load(Ordering::SeqCst),
            highest: self.slow.lock().highest,
        }
    }

    /// The first error reported.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.slow.lock().error.clone()
    }

    async fn until(&self, need: u8) -> Outcome {
        self.need.store(need, Ordering::SeqCst);
        poll_fn(|cx| {
            if self.decided(need) {
                return Poll::Ready(());
            }
            {
                let mut s = self.slow.lock();
                match &mut s.waker {
                    Some(w) => w.clone_from(cx.waker()),
                    None => s.waker = Some(cx.waker().clone()),
                }
            }
            // An answer may have arrived between the check and the registration of the waker.
            if self.decided(need) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.outcome()
    }

    fn decided(&self, need: u8) -> bool {
        let ok = self.ok.load(Ordering::SeqCst).count_ones();
        let bad = self.failed.load(Ordering::SeqCst).count_ones()
            + self.refused.load(Ordering::SeqCst).count_ones()
            + self.uncounted.load(Ordering::SeqCst).count_ones();
        let total = u32::from(self.total);
        if need == ALL {
            return ok + bad >= total;
        }
        let need = u32::from(need);
        ok >= need || ok + total.saturating_sub(ok + bad) < need
    }

    fn answered(&self) {
        if self.decided(self.need.load(Ordering::SeqCst)) {
            let waker = self.slow.lock().waker.take();
            if let Some(w) = waker {
                w.wake();
            }
        }
    }
}

impl std::fmt::Debug for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tally of {}: {:?}", self.total, self.outcome())
    }
}

/// The obligation to answer for one slot of a [`Tally`]. Dropping it counts as a failure.
#[must_use = "dropping a completion counts as a failure"]
pub struct Completion {
    tally: Option<Arc<Tally>>,
    slot: u8,
}

impl Completion {
    /// A completion that no caller waits for.
    pub fn ignored() -> Completion {
        Completion { tally: None, slot: 0 }
    }

    /// Done and durable.
    pub fn ok(mut self) {
        if let Some(t) = self.tally.take() {
            t.ok.fetch_or(1 << self.slot, Ordering::SeqCst);
            t.answered();
        }
    }

    /// Done and durable on a joining drive: must not be counted.
    pub fn uncounted(mut self) {
        if let Some(t) = self.tally.take() {
            t.uncounted.fetch_or(1 << self.slot, Ordering::SeqCst);
            t.answered();
        }
    }

    /// Failed.
    pub fn err(mut self, e: Error) {
        if let Some(t) = self.tally.take() {
            t.slow.lock().error.get_or_insert(e);
            t.failed.fetch_or(1 << self.slot, Ordering::SeqCst);
            t.answered();
        }
    }

    /// Refused because of this ballot.
    pub fn refused(mut self, highest: Ballot) {
        if let Some(t) = self.tally.take() {
            {
                let mut s = t.slow.lock();
                s.highest = s.highest.max(highest);
            }
            t.refused.fetch_or(1 << self.slot, Ordering::SeqCst);
            t.answered();
        }
    }

    /// Answers with a result.
    pub fn done(self, r: Result<(), Error>) {
        match r {
            Ok(()) => self.ok(),
            Err(e) => self.err(e),
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(t) = self.tally.take() {
            t.failed.fetch_or(1 << self.slot, Ordering::SeqCst);
            t.answered();
        }
    }
}

impl std::fmt::Debug for Completion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Completion(slot {})", self.slot)
    }
}

struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Tally {
    /// Blocks the thread until every slot has answered or the time is over.
    pub(crate) fn block(&self, timeout: std::time::Duration) {
        self.slow.lock().waker = Some(Waker::from(Arc::new(Unpark(std::thread::current()))));
        if !self.decided(ALL) {
            std::thread::park_timeout(timeout);
        }
    }
}
