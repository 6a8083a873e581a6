#![forbid(unsafe_code)]
//! Paces background jobs so that they yield to foreground requests.
//!
//! * [`Foreground`]: the load of clients' requests: how many are in flight, how long they take.
//! * [`Bucket`]: a rate in units per second, as a pure function of time.
//! * [`Pacer`]: both together: a job calls [`Pacer::pace`] after each piece of work and sleeps for as long as
//!   it should leave the machine to requests.
//!
//! Work that must not sleep where it is done, because it holds a lock, calls [`Pacer::charge`] there; the next
//! call of [`Pacer::pace`] sleeps for it too.
//!
//! Invariants: a job always makes progress (no sleep is longer than [`Limits::longest_pause`] per piece plus
//! what the rate demands); with an idle foreground and no rate limit a job runs at full rate; new limits end the
//! sleeps that the old ones demanded; a foreground request costs two relaxed atomic operations.
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
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

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
    /// Units of all pieces since the start.
    units: AtomicU64,
    /// Wakes the jobs that sleep.
    changed: Notify,
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
        let state = Mutex::new(State { limits, bucket });
        Pacer { foreground, state, units: AtomicU64::new(0), changed: Notify::new() }
    }

    /// Changes the limits; they apply from the next piece on. A job that sleeps for an old limit goes on at once:
    /// under a much lower limit it could have slept for an hour.
    pub fn set(&self, limits: Limits) {
        let mut s = self.state.lock();
        if s.limits == limits {
            return;
        }
        if s.limits.per_second != limits.per_second {
            s.bucket = limits.per_second.map(|r| Bucket::new(r, r / 4 + 1, Instant::now()));
        }
        s.limits = limits;
        drop(s);
        self.changed.notify_waiters();
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.state.lock().limits
    }

    /// Units of all pieces of work since the start.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.units.load(Ordering::Relaxed)
    }

    /// Counts `units` of work without a sleep; the next [`Pacer::pace`] of any job sleeps for them.
    pub fn charge(&self, units: u64) {
        self.units.fetch_add(units, Ordering::Relaxed);
        if let Some(bucket) = &mut self.state.lock().bucket {
            let _ = bucket.take(units, Instant::now());
        }
    }

    /// How long to sleep after a piece of work of `units` that took `worked` and ended at `now`.
    #[must_use]
    pub fn pause(&self, units: u64, worked: Duration, now: Instant) -> Duration {
        self.units.fetch_add(units, Ordering::Relaxed);
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

    /// Sleeps as long as [`Pacer::pause`] returns, or until the limits change; always lets other tasks run.
    pub async fn pace(&self, units: u64, worked: Duration) {
        // Before the pause is computed, so that no change of the limits is missed.
        let changed = self.changed.notified();
        let pause = self.pause(units, worked, Instant::now());
        // The timer's resolution is a millisecond: shorter pauses would each become one.
        if pause >= Duration::from_micros(500) {
            // An error means that the pause is over.
            let _ = time::timeout(pause, changed).await;
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

    /// Work done in virtual time: `jobs` take turns with pieces of `units`, each of which takes `worked`. Returns the
    /// units per second.
    fn rate_of(limits: Limits, jobs: usize, units: u64, worked: Duration) -> f64 {
        let p = Pacer::new(Arc::new(Foreground::new()), limits);
        let start = Instant::now();
        let mut free = vec![start; jobs];
        let mut done = 0;
        // So much that what goes at once at the beginning is of no account.
        let all = limits.per_second.unwrap_or(1 << 20) * 30;
        while done < all {
            // The job that is free first works next.
            let job = (0..jobs).min_by_key(|job| free[*job]).unwrap();
            let ended = free[job] + worked;
            free[job] = ended + p.pause(units, worked, ended);
            done += units;
        }
        assert_eq!(p.units(), done);
        done as f64 / (*free.iter().max().unwrap() - start).as_secs_f64()
    }

    #[test]
    fn rate_is_within_a_tenth_of_the_limit() {
        for (jobs, units) in [(1, 64 << 10), (1, 3 << 20), (16, 1 << 20), (16, 700)] {
            let limit = 10 << 20;
            let limits = Limits { per_second: Some(limit), ..Limits::default() };
            // Without a limit the work would be done at least at ten times the rate.
            let worked = Duration::from_secs_f64(units as f64 * jobs as f64 / (limit as f64 * 10.0));
            let rate = rate_of(limits, jobs, units, worked);
            let share = rate / limit as f64;
            assert!((0.9..=1.1).contains(&share), "{jobs} jobs, pieces of {units}: {share} of the limit");
            let rate = rate_of(Limits::default(), jobs, units, worked);
            assert!(rate > 5.0 * limit as f64, "without a limit: {rate}");
        }
    }

    #[test]
    fn charged_units_are_slept_for_later() {
        let limits = Limits { per_second: Some(1000), ..Limits::default() };
        let p = Pacer::new(Arc::new(Foreground::new()), limits);
        p.charge(10_000);
        let pause = p.pause(0, Duration::ZERO, Instant::now());
        assert!(pause >= Duration::from_secs(9) && pause <= Duration::from_secs(10), "{pause:?}");
        assert_eq!(p.units(), 10_000);
    }

    #[tokio::test]
    async fn new_limits_end_the_sleeps_of_old_ones() {
        let limits = Limits { per_second: Some(1), ..Limits::default() };
        let p = Arc::new(Pacer::new(Arc::new(Foreground::new()), limits));
        let sleeping = {
            let p = p.clone();
            tokio::spawn(async move { p.pace(3000, Duration::ZERO).await })
        };
        while p.units() == 0 {
            tokio::task::yield_now().await;
        }
        p.set(Limits::default());
        tokio::time::timeout(Duration::from_secs(60), sleeping).await.expect("it goes on").unwrap();
        p.pace(1 << 40, Duration::ZERO).await;
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
