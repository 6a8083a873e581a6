//! The load and latency of clients' requests.
//!
//! Invariants: recording costs a few relaxed atomic operations and never blocks; an update that is lost
//! between two threads only delays an average a little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Requests in flight and their latency: a fast and a slow moving average, in nanoseconds.
#[derive(Debug, Default)]
pub struct Foreground {
    in_flight: AtomicUsize,
    fast: AtomicU64,
    slow: AtomicU64,
}

impl Foreground {
    /// A state without requests.
    #[must_use]
    pub fn new() -> Foreground {
        Foreground::default()
    }

    /// Counts a request as begun; it ends when the guard is dropped.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> Request {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Request { of: self.clone() }
    }

    /// A request ended after `latency`.
    pub fn note(&self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        blend(&self.fast, ns, 16);
        blend(&self.slow, ns, 1024);
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether recent latency is above twice the usual.
    #[must_use]
    pub fn pressed(&self) -> bool {
        self.fast.load(Ordering::Relaxed) > self.slow.load(Ordering::Relaxed).saturating_mul(2)
    }
}

fn blend(average: &AtomicU64, sample: u64, weight: u64) {
    let old = average.load(Ordering::Relaxed);
    let new = if old == 0 { sample } else { old - old / weight + sample / weight };
    average.store(new, Ordering::Relaxed);
}

/// A request in flight.
#[derive(Debug)]
pub struct Request {
    of: Arc<Foreground>,
}

impl Drop for Request {
    fn drop(&mut self) {
        self.of.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
