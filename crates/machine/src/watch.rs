//! How long the device calls of one drive have been under way.
//!
//! A call into the kernel that does not return cannot be cancelled and says nothing about itself. So each
//! call of a watched [`crate::Folder`] and its files is noted before it begins and struck out when it
//! returns; whoever wants to know whether a drive hangs asks for the age of the oldest one.
//!
//! Invariants: noting a call takes no lock and never fails it; calls beyond [`PLACES`] at once are not
//! noted (a drive has fewer threads).

use ashlar_environment::time::Instant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Calls that can be noted at once.
const PLACES: usize = 16;

/// The calls under way of one drive.
pub struct Watch {
    origin: Instant,
    /// When each call began: microseconds after `origin` plus one; zero: a free place.
    since: [AtomicU64; PLACES],
}

/// A noted call; it has returned when this is dropped.
pub struct Call<'a>(Option<&'a AtomicU64>);

impl Default for Watch {
    fn default() -> Watch {
        Watch { origin: Instant::now(), since: [const { AtomicU64::new(0) }; PLACES] }
    }
}

impl Watch {
    /// No calls yet.
    #[must_use]
    pub fn new() -> Watch {
        Watch::default()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX - 1) + 1
    }

    /// A call begins.
    pub fn call(&self) -> Call<'_> {
        let now = self.now();
        let free = self.since.iter().find(|place| {
            place.load(Ordering::Relaxed) == 0
                && place.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        Call(free)
    }

    /// The age of the oldest call under way; zero when there is none.
    #[must_use]
    pub fn oldest(&self) -> Duration {
        let begun = self.since.iter().map(|p| p.load(Ordering::Relaxed)).filter(|t| *t != 0).min();
        match begun {
            None => Duration::ZERO,
            Some(t) => Duration::from_micros(self.now().saturating_sub(t)),
        }
    }

    /// Calls under way.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_call_counts_until_it_returns() {
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
    fn more_calls_than_places_do_no_harm() {
        let w = Watch::new();
        let calls: Vec<_> = (0..PLACES + 3).map(|_| w.call()).collect();
        assert_eq!(w.under_way(), PLACES);
        drop(calls);
        assert_eq!(w.under_way(), 0);
    }
}
