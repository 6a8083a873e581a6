//! Time as a parameter, so that a simulation can replace it.
//!
//! Invariants: the monotonic clock never goes back; the wall clock may. Time never determines an order
//! (docs/protocol.md I14).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970 by the wall clock; may jump.
    fn wall_ms(&self) -> i64;
    /// Time since an arbitrary start; never goes back.
    fn elapsed(&self) -> Duration;
}

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(d) => i64::try_from(d.as_millis()).unwrap_or(i64::MAX),
            Err(e) => i64::try_from(e.duration().as_millis()).map_or(i64::MIN, |v| -v),
        }
    }
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that moves only when told: for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    ms: AtomicU64,
}

impl ManualClock {
    /// Moves both clocks forward.
    pub fn advance(&self, by: Duration) {
        self.ms.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> i64 {
        self.ms.load(Ordering::SeqCst) as i64
    }
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.ms.load(Ordering::SeqCst))
    }
}
