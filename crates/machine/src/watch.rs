//! How long the device calls of one drive have been in progress.
//!
//! A kernel call that does not return cannot be cancelled. So each call of a watched [`crate::Folder`] and
//! its files is recorded before it begins and removed when it returns. The age of the oldest recorded call
//! tells whether a drive hangs.
//!
//! Invariants: recording takes no lock and never makes a call fail; calls beyond [`MAX_CALLS`] at once are
//! not recorded (a drive has fewer threads), and those of a [`crate::Ring`] are then not begun.
//!
//! Must not depend on: what the calls do.

use ashlar_environment::time::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most recorded calls.
const MAX_CALLS: usize = 64;

/// The calls of one drive in progress.
pub struct Watch {
    origin: Instant,
    /// When each call began: microseconds after `origin` plus one; zero: a free entry.
    since: [AtomicU64; MAX_CALLS],
}

/// A recorded call, which ends when this is dropped.
pub struct Call<'a>(Option<&'a AtomicU64>);

/// A recorded call that ends on another thread, when this is dropped.
pub(crate) struct Held {
    watch: Arc<Watch>,
    place: usize,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch { origin: Instant::now(), since: [const { AtomicU64::new(0) }; MAX_CALLS] }
    }
}

impl Watch {
    /// A monitor without calls.
    #[must_use]
    pub fn new() -> Watch {
        Watch::default()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Records the begin of a call.
    pub fn call(&self) -> Call<'_> {
        Call(self.begin().map(|place| &self.since[place]))
    }

    /// Records the begin of a call that ends on another thread. `None`: as many as can be recorded are in progress.
    pub(crate) fn hold(self: &Arc<Watch>) -> Option<Held> {
        self.begin().map(|place| Held { watch: self.clone(), place })
    }

    fn begin(&self) -> Option<usize> {
        let now = self.now();
        self.since.iter().position(|place| {
            place.load(Ordering::Relaxed) == 0
                && place.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })
    }

    /// The age of the oldest call in progress; zero if there is none.
    #[must_use]
    pub fn oldest(&self) -> Duration {
        let begun = self.since.iter().map(|p| p.load(Ordering::Relaxed)).filter(|t| *t != 0).min();
        match begun {
            None => Duration::ZERO,
            Some(t) => Duration::from_micros(self.now().saturating_sub(t)),
        }
    }

    /// Number of calls in progress.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.since.iter().filter(|p| p.load(Ordering::Relaxed) != 0).count()
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.watch.since[self.place].store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_call_counts_until_it_returns() {
        let w = Watch::new();
        assert_eq!((w.oldest(), w.under_way()), (Duration::ZERO, 0));
        let first = w.call();
        ashlar_environment::thread::sleep(Duration::from_millis(5));
        let second = w.call();
        assert!(w.oldest() >= Duration::from_millis(5));
        assert_eq!(w.under_way(), 2);
        drop(second);
        assert!(w.oldest() >= Duration::from_millis(5));
        drop(first);
        assert_eq!((w.oldest(), w.under_way()), (Duration::ZERO, 0));
    }

    #[test]
    fn held_call_counts_until_it_is_dropped_elsewhere() {
        let w = Arc::new(Watch::new());
        let held = w.hold().unwrap();
        assert_eq!(w.under_way(), 1);
        std::thread::spawn(move || drop(held)).join().unwrap();
        assert_eq!(w.under_way(), 0);
        let all: Vec<_> = (0..MAX_CALLS).map(|_| w.hold().unwrap()).collect();
        assert!(w.hold().is_none());
        drop(all);
        assert!(w.hold().is_some());
    }

    #[test]
    fn calls_beyond_the_limit_are_not_recorded() {
        let w = Watch::new();
        let calls: Vec<_> = (0..MAX_CALLS + 3).map(|_| w.call()).collect();
        assert_eq!(w.under_way(), MAX_CALLS);
        drop(calls);
        assert_eq!(w.under_way(), 0);
    }
}
