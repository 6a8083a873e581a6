//! A resource that does one piece of work after the other: a drive, a direction of a port, a module.
//!
//! Pure: time is an argument, so that tests run in virtual time.
//!
//! Invariants: in any interval, a resource does at most as much work as the interval is long, and [`CATCH_UP`] more; a piece of
//! work never takes less than its own time.
//!
//! Must not depend on: what the work is.

use std::time::Duration;

/// Picoseconds: the time of a command at millions per second is not a whole number of nanoseconds.
pub(crate) type Picos = u64;

/// Idle time that a resource may make up for. The threads of the server wake up later than they should, by 0.1 ms on an idle
/// machine; without this, each lateness would be lost, and a rate would be missed by more than the 1 % that is wanted. Over a
/// second it adds 0.5 % at most.
pub(crate) const CATCH_UP: Duration = Duration::from_millis(5);

const PER_NANO: u128 = 1000;

/// The time of one of `rate` pieces of work per second. At most an hour.
pub(crate) fn each(rate: f64) -> Picos {
    let longest = 3600e12;
    (1e12 / rate).clamp(0.0, longest).round() as Picos
}

/// The time of `bytes` at `rate` bytes per second. At most a day.
pub(crate) fn transfer(bytes: u64, rate: f64) -> Picos {
    let longest = 86_400e12;
    (bytes as f64 * 1e12 / rate).clamp(0.0, longest).round() as Picos
}

/// As a duration, rounded up.
pub(crate) fn span(work: Picos) -> Duration {
    Duration::from_nanos(work.div_ceil(1000))
}

/// A resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limiter {
    /// When all work that it was given is done.
    free: u128,
    /// Work that it was given.
    busy: u128,
}

impl Limiter {
    /// Gives it work at `now`, the time since a fixed start; returns when the work is done.
    pub(crate) fn reserve(&mut self, now: Duration, work: Picos) -> Duration {
        let from = self.free.max(now.saturating_sub(CATCH_UP).as_nanos() * PER_NANO);
        self.free = from + u128::from(work);
        self.busy += u128::from(work);
        let done = self.free.max(now.as_nanos() * PER_NANO + u128::from(work));
        Duration::from_nanos(u64::try_from(done.div_ceil(PER_NANO)).unwrap_or(u64::MAX))
    }

    /// The work that it was given since its start.
    pub(crate) fn worked(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.busy / PER_NANO).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_to_one_percent_by_late_callers() {
        // 32 callers in a closed loop, each of which wakes up late by up to 0.3 ms; 2500 pieces per second.
        let (mut limiter, work) = (Limiter::default(), each(2500.0));
        let mut random = ashlar_environment::random::Seeded::new(1);
        let mut wakes = vec![Duration::ZERO; 32];
        let (mut done, end) = (0u64, Duration::from_secs(1));
        loop {
            let next = (0..wakes.len()).min_by_key(|i| wakes[*i]).unwrap();
            let until = limiter.reserve(wakes[next], work);
            if until > end {
                break;
            }
            done += 1;
            wakes[next] = until + Duration::from_nanos(random.below(300_000));
        }
        assert!((2475..=2513).contains(&done), "{done}");
    }

    #[test]
    fn an_idle_resource_takes_the_time_of_the_work() {
        let mut limiter = Limiter::default();
        let now = Duration::from_secs(10);
        assert_eq!(limiter.reserve(now, 40_000_000_000), now + Duration::from_millis(40));
        assert_eq!(limiter.worked(), Duration::from_millis(40));
    }

    #[test]
    fn callers_get_no_more_than_the_rate_and_the_allowance() {
        let mut limiter = Limiter::default();
        let (now, work) = (Duration::from_secs(100), each(1000.0));
        let soon = (0..1000).filter(|_| limiter.reserve(now, work) <= now + Duration::from_millis(1)).count();
        // 5 ms of catching up, and the millisecond itself.
        assert_eq!(soon, 6);
    }
}
