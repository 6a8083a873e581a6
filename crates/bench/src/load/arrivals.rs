//! The open loop's plan: intended start times that do not depend on any answer.
//!
//! Workers take the next intended time and wait for it. If all workers are busy, intended times pass and are
//! taken late, first in, first out, and the waiting time is part of the response time. So a stall of the
//! server affects every request that should have started during it (no coordinated omission; Gil Tene, "How
//! NOT to measure latency"). When more than a limit are due and unanswered, the run is declared overloaded.
//!
//! Invariants: intended times ascend; each is handed out once; those that were due and not handed out can be
//! counted.

use std::time::Duration;

use parking_lot::Mutex;

use super::keys::Rng;

/// The plan of one machine's open loop.
pub struct Arrivals {
    rate: f64,
    poisson: bool,
    limit: u64,
    end: Option<Duration>,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    /// Seconds from the start to the next intended time.
    next: f64,
    taken: u64,
}

/// The instruction for a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Start at this time after the start of the phase.
    At(Duration),
    /// Nothing more is intended.
    End,
    /// So many are due and unanswered, more than the limit.
    Overloaded,
}

impl Arrivals {
    /// `rate` per second, to the time `end`; `limit` is the most that may be due and unanswered.
    pub fn new(rate: f64, poisson: bool, limit: u64, end: Option<Duration>, seed: u64) -> Arrivals {
        let mut state = State { rng: Rng::new(seed ^ 0x617272), next: 0.0, taken: 0 };
        state.next = state.gap(rate, poisson);
        Arrivals { rate, poisson, limit, end, state: Mutex::new(state) }
    }

    /// Takes the next intended time; `now` since the start, `in_flight` requests without answer.
    pub fn take(&self, now: Duration, in_flight: u64) -> Next {
        let mut state = self.state.lock();
        let at = Duration::from_secs_f64(state.next);
        if self.end.is_some_and(|end| at >= end) {
            return Next::End;
        }
        if self.due(&state, now) + in_flight > self.limit {
            return Next::Overloaded;
        }
        state.taken += 1;
        state.next = match self.poisson {
            true => state.next + state.gap(self.rate, true),
            // From the count, so that rounding does not add up.
            false => (state.taken as f64 + 1.0) / self.rate,
        };
        Next::At(at)
    }

    /// How many are due and were not taken.
    pub fn unsent(&self, now: Duration) -> u64 {
        self.due(&self.state.lock(), now)
    }

    /// The expected number, for random distances; nothing is due before the next intended time.
    fn due(&self, state: &State, now: Duration) -> u64 {
        let now = self.end.map_or(now, |end| now.min(end)).as_secs_f64();
        if now <= state.next { 0 } else { ((now - state.next) * self.rate + 1e-6) as u64 + 1 }
    }
}

impl State {
    fn gap(&mut self, rate: f64, poisson: bool) -> f64 {
        if poisson { -(1.0 - self.rng.unit()).ln() / rate } else { 1.0 / rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_intervals_end_with_the_phase() {
        let plan = Arrivals::new(100.0, false, 10, Some(Duration::from_secs(1)), 0);
        let mut times = Vec::new();
        while let Next::At(at) = plan.take(Duration::ZERO, 0) {
            times.push(at.as_secs_f64());
        }
        assert_eq!(times.len(), 99);
        for (i, at) in times.iter().enumerate() {
            assert!((at - (i + 1) as f64 / 100.0).abs() < 1e-9);
        }
    }

    #[test]
    fn random_distances_are_exponential() {
        let plan = Arrivals::new(1000.0, true, u64::MAX, None, 5);
        let n = 50_000;
        let times: Vec<f64> = (0..n)
            .map(|_| match plan.take(Duration::ZERO, 0) {
                Next::At(at) => at.as_secs_f64(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!((times[n - 1] - 50.0).abs() < 1.0, "{}", times[n - 1]);
        let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        let above = gaps.iter().filter(|g| **g > 0.001).count() as f64 / gaps.len() as f64;
        assert!((above - (-1.0_f64).exp()).abs() < 0.01, "{above}");
    }

    #[test]
    fn overload_is_reported_and_counted() {
        let plan = Arrivals::new(100.0, false, 50, None, 0);
        assert!(matches!(plan.take(Duration::from_millis(400), 10), Next::At(_)));
        assert_eq!(plan.take(Duration::from_millis(600), 10), Next::Overloaded);
        assert_eq!(plan.unsent(Duration::from_millis(600)), 59);
    }
}
