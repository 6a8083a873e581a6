//! What clients' requests feel.
//!
//! Invariants: recording costs a few relaxed atomic operations and never blocks; a lost update
//! between two threads only makes an average a little older.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Requests under way and their latency: a fast and a slow moving average, in nanoseconds.
#[derive(Debug, Default)]
pub struct Foreground {
    in_flight: AtomicUsize,
    fast: AtomicU64,
    slow: AtomicU64,
}

impl Foreground {
    /// Nothing under way.
    #[must_use]
    pub fn new() -> Foreground {
        Foreground::default()
    }

    /// A request begins; it ends when the guard is dropped.
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

    /// Requests under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Recent latency is above twice the usual.
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

/// A request under way.
#[derive(Debug)]
pub struct Request {
    of: Arc<Foreground>,
}

impl Drop for Request {
    fn drop(&mut self) {
        self.of.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
