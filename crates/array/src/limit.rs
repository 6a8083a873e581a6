//! Limits of a virtual drive: requests per second and bytes per second, reads and writes together.
//!
//! A request takes its place in time and waits for it on its own thread. One that is larger than what is free borrows: those after it wait longer.
//!
//! Invariants: over any time the requests that go on have at most rate x (time + [`BURST`]) and one request more; a request waits for no
//! lock while another one sleeps; new limits, and the end of the virtual drive, end all waits; without limits a request costs one atomic read.
//!
//! Must not depend on: what requests do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_pacer::Bucket;
use ashlar_raid::VolumeLimits;
use parking_lot::{Condvar, Mutex};

/// Time in which nothing was asked, at most, that may be caught up on.
const BURST: Duration = Duration::from_millis(100);

/// What requests take their places from.
#[derive(Default)]
struct Places {
    requests: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Places {
    fn new(limits: VolumeLimits, now: Instant) -> Places {
        let bucket = |rate: u64| {
            let burst = (rate as f64 * BURST.as_secs_f64()) as u64;
            (rate > 0).then(|| Bucket::new(rate, burst, now))
        };
        Places { requests: bucket(limits.iops.into()), bytes: bucket(limits.bandwidth) }
    }

    /// Takes the place of a request of so many bytes: how long until then.
    fn take(&mut self, bytes: u64, now: Instant) -> Duration {
        let requests = self.requests.as_mut().map_or(Duration::ZERO, |b| b.take(1, now));
        let bytes = self.bytes.as_mut().map_or(Duration::ZERO, |b| b.take(bytes, now));
        requests.max(bytes)
    }
}

#[derive(Default)]
struct State {
    limits: VolumeLimits,
    places: Places,
    /// Counts what ends waits.
    changes: u64,
    /// Nothing waits any more.
    ended: bool,
}

/// The limits of a virtual drive, and who waits because of them.
#[derive(Default)]
pub(crate) struct Limiter {
    state: Mutex<State>,
    changed: Condvar,
    limited: AtomicBool,
    waited_us: AtomicU64,
}

impl Limiter {
    pub(crate) fn new(limits: VolumeLimits) -> Limiter {
        let me = Limiter::default();
        me.set(limits);
        me
    }

    /// Sets other limits.
    pub(crate) fn set(&self, limits: VolumeLimits) {
        let mut state = self.state.lock();
        if state.ended || state.limits == limits {
            return;
        }
        (state.limits, state.places) = (limits, Places::new(limits, Instant::now()));
        state.changes += 1;
        self.limited.store(limits != VolumeLimits::default(), Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }

    /// Nobody waits any more, nor from now on.
    pub(crate) fn end(&self) {
        self.set(VolumeLimits::default());
        self.state.lock().ended = true;
    }

    /// Waits until a request of so many bytes may go on.
    pub(crate) fn wait(&self, bytes: u64) {
        if !self.limited.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        let began = Instant::now();
        let pause = state.places.take(bytes, began);
        let (until, change) = (began + pause, state.changes);
        let mut now = began;
        while now < until && state.changes == change {
            let _ = self.changed.wait_for(&mut state, until.saturating_duration_since(now));
            now = Instant::now();
        }
        drop(state);
        if !pause.is_zero() {
            let waited = now.saturating_duration_since(began).as_micros();
            self.waited_us.fetch_add(u64::try_from(waited).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Microseconds that requests have waited, of all together.
    pub(crate) fn waited_us(&self) -> u64 {
        self.waited_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Lets `clients` ask one request after another for `seconds`, by a clock of its own. Requests and bytes that went on in that time, and the
    /// longest wait.
    fn run(limits: VolumeLimits, clients: usize, sizes: &[u64], seconds: u64) -> (u64, u64, Duration) {
        let begin = Instant::now();
        let end = begin + Duration::from_secs(seconds);
        let mut places = Places::new(limits, begin);
        // When each client asks next.
        let mut at = vec![begin; clients];
        let (mut requests, mut bytes, mut longest) = (0, 0, Duration::ZERO);
        for number in 0.. {
            let (client, now) = at.iter().copied().enumerate().min_by_key(|(_, at)| *at).unwrap();
            if now >= end {
                break;
            }
            let size = sizes[number % sizes.len()];
            let pause = places.take(size, now);
            longest = longest.max(pause);
            if now + pause < end {
                (requests, bytes) = (requests + 1, bytes + size);
            }
            at[client] = now + pause + Duration::from_micros(10);
        }
        (requests, bytes, longest)
    }

    fn within(found: u64, wanted: u64, permille: u64) {
        assert!(found.abs_diff(wanted) * 1000 <= wanted * permille, "{found} instead of {wanted}");
    }

    #[test]
    fn rate_over_seconds_is_the_limit() {
        let (requests, ..) = run(VolumeLimits { iops: 500, bandwidth: 0 }, 32, &[4096, 1 << 20], 10);
        within(requests, 5000, 20);
        let (_, bytes, _) =
            run(VolumeLimits { iops: 0, bandwidth: 50 << 20 }, 16, &[4096, 65536, 1 << 20], 10);
        within(bytes, 500 << 20, 20);
        // Whichever is reached first.
        let both = VolumeLimits { iops: 500, bandwidth: 50 << 20 };
        within(run(both, 8, &[4096], 10).0, 5000, 20);
        within(run(both, 8, &[1 << 20], 10).1, 500 << 20, 30);
    }

    #[test]
    fn request_larger_than_the_burst_goes_on_and_the_next_ones_pay() {
        let limits = VolumeLimits { iops: 0, bandwidth: 10 << 20 };
        let (_, bytes, longest) = run(limits, 4, &[32 << 20, 4096], 60);
        assert!(bytes > 500 << 20, "large ones are not held up for ever: {bytes}");
        assert!(longest < Duration::from_secs(15), "four of them are under way at most: {longest:?}");
        let now = Instant::now();
        let mut places = Places::new(limits, now);
        let large = places.take(32 << 20, now);
        assert_eq!(large.as_millis(), 3100);
        assert!(places.take(1 << 20, now) > large, "each has a place behind the one before");
    }

    #[test]
    fn idle_time_is_caught_up_on_for_a_tenth_of_a_second() {
        let now = Instant::now();
        let mut places = Places::new(VolumeLimits { iops: 100, bandwidth: 0 }, now);
        let later = now + Duration::from_secs(3600);
        let free = (0..100).take_while(|_| places.take(1, later).is_zero()).count();
        assert_eq!(free, 10);
    }

    #[test]
    fn other_limits_and_the_end_wake_who_waits() {
        for end in [false, true] {
            let limiter = Arc::new(Limiter::new(VolumeLimits { iops: 1, bandwidth: 0 }));
            limiter.wait(1);
            let waiting = limiter.clone();
            // An hour, unless it is woken.
            let thread = std::thread::spawn(move || {
                (0..3600).for_each(|_| _ = waiting.state.lock().places.take(1, Instant::now()));
                waiting.wait(1);
            });
            while !thread.is_finished() {
                if end {
                    limiter.end()
                } else {
                    limiter.set(VolumeLimits::default())
                }
                std::thread::yield_now();
            }
            thread.join().unwrap();
            limiter.set(VolumeLimits { iops: 1, bandwidth: 0 });
            assert_eq!(limiter.limited.load(Ordering::Acquire), !end, "what has ended gets no limits");
            limiter.end();
            (0..10).for_each(|_| limiter.wait(1 << 40));
        }
    }
}
