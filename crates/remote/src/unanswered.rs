//! The calls that a drive of another node has not answered.
//!
//! Invariant: a call counts from when it was sent until its answer has arrived, also if whoever waits for the answer does
//! not look at it: the client of an upload may take minutes between two frames.
//!
//! Must not depend on: what is asked, how messages travel.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ashlar_environment::time::Instant;
use futures::future::BoxFuture;
use parking_lot::Mutex;

/// The calls of a drive without an answer.
#[derive(Default)]
pub(crate) struct Calls {
    /// When each was sent, by number. Those that read a whole shard are left out.
    open: Mutex<BTreeMap<u64, Instant>>,
    next: AtomicU64,
    /// Bytes that were sent with calls without an answer.
    bytes: AtomicU64,
}

impl Calls {
    /// How long the oldest call has not been answered.
    pub(crate) fn oldest(&self) -> Duration {
        self.open.lock().values().next().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Bytes that were sent with calls without an answer.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The answer to a call of `bytes` bytes that was sent now. With `has_age`, the call counts for [`Calls::oldest`].
    pub(crate) fn sent<T>(
        self: &Arc<Calls>,
        bytes: u64,
        has_age: bool,
        answer: BoxFuture<'static, T>,
    ) -> Unanswered<T> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let since = has_age.then(Instant::now);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let call = Call { calls: self.clone(), number, since, bytes };
        call.counts();
        Unanswered { answer, call }
    }
}

/// A call. Dropping it says that nobody waits for the answer any more.
struct Call {
    calls: Arc<Calls>,
    number: u64,
    since: Option<Instant>,
    bytes: u64,
}

impl Call {
    fn counts(&self) {
        if let Some(since) = self.since {
            self.calls.open.lock().insert(self.number, since);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.calls.open.lock().remove(&self.number);
        self.calls.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The answer to a call.
pub(crate) struct Unanswered<T> {
    answer: BoxFuture<'static, T>,
    call: Call,
}

impl<T> Future for Unanswered<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.call.counts();
        let arrival = Arrival {
            calls: self.call.calls.clone(),
            number: self.call.number,
            waiting: context.waker().clone(),
        };
        let waker = Waker::from(Arc::new(arrival));
        self.answer.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// Wakes whoever waits for an answer; the call does not count until that one looks, and finds no answer.
struct Arrival {
    calls: Arc<Calls>,
    number: u64,
    waiting: Waker,
}

impl Wake for Arrival {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.calls.open.lock().remove(&self.number);
        self.waiting.wake_by_ref();
    }
}
