//! A token bucket as a pure function of time.
//!
//! Invariant: in any interval, callers take at most `rate` x interval + `burst` units without a wait for the
//! excess.

use ashlar_environment::time::Instant;
use std::time::Duration;

/// Units per second, with a burst.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: f64,
    burst: f64,
    /// Available units; negative: owed.
    level: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket. A rate of 0 counts as 1.
    #[must_use]
    pub fn new(rate: u64, burst: u64, now: Instant) -> Bucket {
        let (rate, burst) = (rate.max(1) as f64, burst.max(1) as f64);
        Bucket { rate, burst, level: burst, at: now }
    }

    /// Takes `units` and returns how long to wait before continuing.
    pub fn take(&mut self, units: u64, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.level = (self.level + passed * self.rate).min(self.burst) - units as f64;
        if self.level >= 0.0 {
            return Duration::ZERO;
        }
        // At most one hour: a unit too large for the rate must not stop a job forever.
        Duration::from_secs_f64((-self.level / self.rate).min(3600.0))
    }
}
