//! Time: the monotonic clock, the wall clock, and waiting.
//!
//! In a simulation all functions use the virtual clock.
//!
//! Invariants: the monotonic clock never goes back; the wall clock may. The order of events is never decided
//! by time (docs/protocol.md I14).
//!
//! Must not depend on: what the time is for.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use crate::sleep::{Elapsed, Interval, Sleep, Timeout};
pub use crate::sleep::{interval, interval_at, sleep, sleep_until, timeout, timeout_at};

/// A point of the monotonic clock, like std's, but with a clock that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub(crate) std::time::Instant);

impl Instant {
    /// The present moment.
    #[inline]
    #[must_use]
    pub fn now() -> Instant {
        Instant(crate::world::with(crate::world::World::now).unwrap_or_else(std::time::Instant::now))
    }

    /// The time since this point.
    #[inline]
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(*self)
    }

    /// The time from `earlier` to this point; zero if `earlier` is not earlier.
    #[inline]
    #[must_use]
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The time from `earlier` to this point; zero if `earlier` is not earlier.
    #[inline]
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The time from `earlier` to this point; none if `earlier` is not earlier.
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// A later point; none if it cannot be represented.
    #[must_use]
    pub fn checked_add(&self, by: Duration) -> Option<Instant> {
        self.0.checked_add(by).map(Instant)
    }

    /// An earlier point; none if it cannot be represented.
    #[must_use]
    pub fn checked_sub(&self, by: Duration) -> Option<Instant> {
        self.0.checked_sub(by).map(Instant)
    }

    /// For waits of the system (condition variables), which do not exist in a simulation.
    #[must_use]
    pub fn into_std(self) -> std::time::Instant {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, by: Duration) -> Instant {
        Instant(self.0 + by)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        self.0 += by;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, by: Duration) -> Instant {
        Instant(self.0 - by)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, by: Duration) {
        self.0 -= by;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

/// Milliseconds since 1970 by the wall clock; may jump.
#[must_use]
pub fn wall_ms() -> i64 {
    if let Some(ms) = crate::world::with(crate::world::World::wall_ms) {
        return ms;
    }
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(e) => i64::try_from(e.duration().as_millis()).map_or(i64::MIN, |before| -before),
    }
}

/// The wall clock as std's type, for callers that need nanoseconds or compare times of files.
#[must_use]
pub fn wall() -> SystemTime {
    match crate::world::current() {
        None => SystemTime::now(),
        Some(world) => {
            let since = Duration::from_millis(world.wall_ms().unsigned_abs());
            if world.wall_ms() < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since }
        }
    }
}

/// A source of time that belongs to one store, for threads in which several stores have different clocks.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970 by the wall clock; may jump.
    fn wall_ms(&self) -> i64;
    /// Time since an arbitrary start; never goes back.
    fn elapsed(&self) -> Duration;
}

/// The clock of the current thread: the system's, or the virtual one.
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
        wall_ms()
    }
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that only tests move.
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
