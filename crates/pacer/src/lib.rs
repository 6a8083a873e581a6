#![forbid(unsafe_code)]
//! Paces background jobs so that they yield to foreground requests.
//!
//! * [`Foreground`]: the load of clients' requests: how many are in flight, how long they take.
//! * [`Bucket`]: a rate in units per second, as a pure function of time.
//! * [`Pacer`]: both together: a job calls [`Pacer::pace`] after each piece of work and sleeps for as long as
//!   it should leave the machine to requests.
//!
//! Invariants: a job always makes progress (no sleep is longer than [`Limits::longest_pause`] per piece plus
//! what the rate demands); with an idle foreground a job runs at full rate; a foreground request costs two
//! relaxed atomic operations.
//!
//! Must not depend on: what the jobs do.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod bucket;
mod foreground;

pub use bucket::Bucket;
pub use foreground::{Foreground, Request};

use ashlar_environment::time::{self, Instant};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// The share of resources that a job may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Units (bytes, usually) per second, foreground or not. `None`: no cap.
    pub per_second: Option<u64>,
    /// Share of time that the job may work while clients' requests are in flight, 0.01..=1.
    pub busy_share: f64,
    /// Share if, in addition, their latency is above twice its usual value.
    pub pressed_share: f64,
    /// The longest sleep after one piece of work, apart from the rate.
    pub longest_pause: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            per_second: None,
            busy_share: 0.25,
            pressed_share: 0.05,
            longest_pause: Duration::from_millis(500),
        }
    }
}

/// Paces one job, or several that share its limits.
pub struct Pacer {
    foreground: Arc<Foreground>,
    state: Mutex<State>,
}

struct State {
    limits: Limits,
    bucket: Option<Bucket>,
}

impl Pacer {
    /// A pacer that yields to `foreground`.
    #[must_use]
    pub fn new(foreground: Arc<Foreground>, limits: Limits) -> Pacer {
        let bucket = limits.per_second.map(|r| Bucket::new(r, r / 4 + 1, Instant::now()));
        Pacer { foreground, state: Mutex::new(State { limits, bucket }) }
    }

    /// Changes the limits; they apply from the next piece on.
    pub fn set(&self, limits: Limits) {
        let mut s = self.state.lock();
        if s.limits.per_second != limits.per_second {
            s.bucket = limits.per_second.map(|r| Bucket::new(r, r / 4 + 1, Instant::now()));
        }
        s.limits = limits;
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.state.lock().limits
    }

    /// How long to sleep after a piece of work of `units` that took `worked` and ended at `now`.
    #[must_use]
    pub fn pause(&self, units: u64, worked: Duration, now: Instant) -> Duration {
        let mut s = self.state.lock();
        let by_rate = s.bucket.as_mut().map_or(Duration::ZERO, |b| b.take(units, now));
        let share = match (self.foreground.in_flight() > 0, self.foreground.pressed()) {
            (false, _) => 1.0,
            (true, false) => s.limits.busy_share,
            (true, true) => s.limits.pressed_share.min(s.limits.busy_share),
        }
        .clamp(0.01, 1.0);
        let yielding = worked.mul_f64((1.0 - share) / share).min(s.limits.longest_pause);
        by_rate.max(yielding)
    }

    /// Sleeps as long as [`Pacer::pause`] returns; always lets other tasks run.
    pub async fn pace(&self, units: u64, worked: Duration) {
        let pause = self.pause(units, worked, Instant::now());
        // The timer's resolution is a millisecond: shorter pauses would each become one.
        if pause >= Duration::from_micros(500) {
            time::sleep(pause).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_runs_at_full_rate_on_an_idle_machine() {
        let p = Pacer::new(Arc::new(Foreground::new()), Limits::default());
        assert_eq!(p.pause(1 << 20, Duration::from_secs(1), Instant::now()), Duration::ZERO);
    }

    #[test]
    fn job_gets_a_small_share_under_load() {
        let f = Arc::new(Foreground::new());
        let p = Pacer::new(f.clone(), Limits::default());
        let request = f.enter();
        let pause = p.pause(1, Duration::from_millis(10), Instant::now());
        assert!(pause >= Duration::from_millis(29) && pause <= Duration::from_millis(31));
        let long = p.pause(1, Duration::from_secs(60), Instant::now());
        assert_eq!(long, Limits::default().longest_pause, "progress is kept");
        drop(request);
        assert_eq!(p.pause(1, Duration::from_millis(10), Instant::now()), Duration::ZERO);
    }

    #[test]
    fn job_slows_down_when_latency_rises() {
        let f = Arc::new(Foreground::new());
        let p = Pacer::new(f.clone(), Limits::default());
        for _ in 0..2000 {
            f.note(Duration::from_micros(100));
        }
        assert!(!f.pressed());
        for _ in 0..50 {
            f.note(Duration::from_millis(5));
        }
        assert!(f.pressed());
        let _request = f.enter();
        let pause = p.pause(1, Duration::from_millis(10), Instant::now());
        assert!(pause >= Duration::from_millis(180), "{pause:?}");
    }

    #[test]
    fn rate_limit_is_kept() {
        let limits = Limits { per_second: Some(1000), ..Limits::default() };
        let p = Pacer::new(Arc::new(Foreground::new()), limits);
        let mut now = Instant::now();
        let start = now;
        for _ in 0..100 {
            now += p.pause(100, Duration::ZERO, now);
        }
        let took = now - start;
        assert!(took >= Duration::from_secs_f64(9.5) && took <= Duration::from_secs(10), "{took:?}");
    }
}
