//! Round-trip times of a peer: percentiles of the recent calls, and a moving average.
//!
//! Invariants: adding takes no lock. Recent calls count most: all counts are halved whenever [`WINDOW`] were
//! added.
//!
//! Must not depend on: connections.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Counts are halved after so many.
const WINDOW: u32 = 1024;
/// Classes per doubling of the time.
const STEPS: u32 = 8;
/// Up to 2^27 us: two minutes.
const CLASSES: usize = 27 * STEPS as usize;

/// Round-trip times.
pub(crate) struct RoundTrips {
    classes: [AtomicU32; CLASSES],
    count: AtomicU32,
    average_ns: AtomicU64,
}

/// Round-trip times of recent calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTripSummary {
    /// How many calls the percentiles are from.
    pub calls: u32,
    /// Half of the calls took at most this, within an eighth.
    pub p50: Duration,
    /// 95 of 100 calls took at most this, within an eighth.
    pub p95: Duration,
    /// The average, in which a call weighs an eighth and older ones less and less.
    pub average: Duration,
}

impl Default for RoundTrips {
    fn default() -> RoundTrips {
        RoundTrips {
            classes: std::array::from_fn(|_| AtomicU32::new(0)),
            count: AtomicU32::new(0),
            average_ns: AtomicU64::new(0),
        }
    }
}

impl RoundTrips {
    /// Adds a call.
    pub(crate) fn add(&self, time: Duration) {
        self.classes[class(time)].fetch_add(1, Ordering::Relaxed);
        let ns = time.as_nanos() as u64;
        // An update that is lost to another one at the same time does not matter.
        let before = self.average_ns.load(Ordering::Relaxed);
        let after = if before == 0 { ns } else { before - before / 8 + ns / 8 };
        self.average_ns.store(after, Ordering::Relaxed);
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == WINDOW {
            self.halve();
        }
    }

    fn halve(&self) {
        let mut left = 0;
        for class in &self.classes {
            let half = class.load(Ordering::Relaxed) / 2;
            class.store(half, Ordering::Relaxed);
            left += half;
        }
        self.count.store(left, Ordering::Relaxed);
    }

    /// What is known.
    pub(crate) fn summary(&self) -> RoundTripSummary {
        let counts: Vec<u32> = self.classes.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        let calls: u32 = counts.iter().sum();
        let percentile = |of_100: u64| {
            let rank = (u64::from(calls) * of_100).div_ceil(100);
            let mut seen = 0;
            let at = counts.iter().position(|n| {
                seen += u64::from(*n);
                seen >= rank && seen > 0
            });
            at.map_or(Duration::ZERO, upper)
        };
        RoundTripSummary {
            calls,
            p50: percentile(50),
            p95: percentile(95),
            average: Duration::from_nanos(self.average_ns.load(Ordering::Relaxed)),
        }
    }
}

fn class(time: Duration) -> usize {
    let us = (time.as_micros() as u64).clamp(1, (1 << 27) - 1);
    let octave = us.ilog2();
    let within = ((us - (1 << octave)) * u64::from(STEPS)) >> octave;
    (octave * STEPS) as usize + within as usize
}

/// The longest time of a class.
fn upper(class: usize) -> Duration {
    let (octave, within) = (class as u64 / u64::from(STEPS), class as u64 % u64::from(STEPS));
    Duration::from_nanos(((1000 << octave) * (u64::from(STEPS) + within + 1)) / u64::from(STEPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_an_eighth_and_recent_calls_count() {
        let trips = RoundTrips::default();
        assert_eq!(trips.summary(), RoundTripSummary::default());
        for us in 1..=1000 {
            trips.add(Duration::from_micros(us));
        }
        let summary = trips.summary();
        assert_eq!(summary.calls, 1000);
        for (found, exact) in [(summary.p50, 500), (summary.p95, 950)] {
            let found = found.as_micros();
            assert!(found >= exact && found <= exact * 9 / 8 + 1, "{found} for {exact}");
        }
        for _ in 0..4 * WINDOW {
            trips.add(Duration::from_millis(50));
        }
        let summary = trips.summary();
        assert!(summary.p50 >= Duration::from_millis(50) && summary.p50 < Duration::from_millis(57));
        assert!(summary.average > Duration::from_millis(49) && summary.calls < WINDOW);
        trips.add(Duration::from_secs(10_000));
        trips.add(Duration::ZERO);
    }
}
