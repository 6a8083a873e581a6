//! How quickly a drive answers, by what was measured of it: when others are asked too, and which drive is asked last.
//!
//! Invariants: a drive that is late, or much slower than the others, keeps its vote and its shards; nothing here is an error.
//! What is not measured any more is forgotten.
//!
//! Must not depend on: what is asked, which drives there are.

use ashlar_environment::time::Instant;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How quickly a drive has answered recently.
pub(crate) struct LatencyTracker {
    start: Instant,
    /// Milliseconds after `start` until which the drive counts as late.
    late_until: AtomicU64,
    /// How often in a row it was late. Each time doubles the span, up to 64 s.
    late_count: AtomicU32,
    /// The time to read a frame.
    read: Estimate,
    /// The time to answer a short call; of drives of other nodes only.
    answer: Estimate,
    /// Milliseconds after `start` when it was measured last.
    measured: AtomicU64,
    /// Whether it takes [`LAGGARD`] times as long as the others.
    is_laggard: AtomicBool,
}

/// Moving average and mean deviation of a time, microseconds; zero: not measured.
#[derive(Default)]
struct Estimate {
    mean: AtomicU32,
    dev: AtomicU32,
}

impl Estimate {
    fn note(&self, took: Duration) {
        let us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).clamp(1, 60_000_000);
        let (mean, dev) = (self.mean.load(Ordering::Relaxed), self.dev.load(Ordering::Relaxed));
        let (mean, dev) = if mean == 0 {
            (us, us / 2)
        } else {
            ((mean * 7).saturating_add(us) / 8, (dev * 3).saturating_add(mean.abs_diff(us)) / 4)
        };
        self.mean.store(mean, Ordering::Relaxed);
        self.dev.store(dev, Ordering::Relaxed);
    }

    fn mean(&self) -> u32 {
        self.mean.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        self.mean.store(0, Ordering::Relaxed);
        self.dev.store(0, Ordering::Relaxed);
    }

    /// Twice the estimated 95th percentile: mean + 2 mean deviations.
    fn patience(&self) -> Duration {
        let us = self.mean().saturating_add(self.dev.load(Ordering::Relaxed).saturating_mul(2));
        Duration::from_micros(u64::from(us) * 2)
    }
}

/// The shortest span of being late, milliseconds.
const LATE_MS: u64 = 1000;
/// How many times as long as the others a drive takes that is asked last.
const LAGGARD: u32 = 10;
/// How long such a drive may be without a measurement until it is asked like the others again, milliseconds.
const FORGET_MS: u64 = 10_000;
/// Bounds of the time that a read waits before another shard is asked too. The lower bound is above the time
/// that a thread may wait for a busy processor: with 4 ms, one read in five on two busy cores fetched
/// unneeded parity.
const HEDGE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The same for a hard disk: at least this long after all that it was asked for before could have been read, at this many bytes per
/// second; and at most so long.
const HEDGE_DISK: (Duration, u64, Duration) =
    (Duration::from_millis(250), 40_000_000, Duration::from_secs(5));

impl LatencyTracker {
    pub(crate) fn new() -> LatencyTracker {
        LatencyTracker {
            start: Instant::now(),
            late_until: AtomicU64::new(0),
            late_count: AtomicU32::new(0),
            read: Estimate::default(),
            answer: Estimate::default(),
            measured: AtomicU64::new(0),
            is_laggard: AtomicBool::new(false),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records that an operation waited too long for the drive.
    pub(crate) fn mark_slow(&self) {
        // An operation that was already waiting when the drive became late gives no new information.
        if self.is_late() {
            return;
        }
        let late_count = self.late_count.fetch_add(1, Ordering::Relaxed).min(6);
        let until = self.now_ms().saturating_add(LATE_MS << late_count);
        self.late_until.store(until, Ordering::Relaxed);
    }

    /// Whether it was late repeatedly, with no prompt answer in between.
    pub(crate) fn is_slow(&self) -> bool {
        self.is_late() && self.late_count.load(Ordering::Relaxed) > 2
    }

    /// Resets the tracker after the drive hung and answers again.
    pub(crate) fn reset(&self) {
        self.late_count.store(0, Ordering::Relaxed);
        self.late_until.store(0, Ordering::Relaxed);
        self.read.forget();
        self.answer.forget();
    }

    /// Whether operations should not wait for it longer than necessary.
    pub(crate) fn is_late(&self) -> bool {
        let until = self.late_until.load(Ordering::Relaxed);
        until != 0 && self.now_ms() < until
    }

    /// The drive answered in time.
    pub(crate) fn in_time(&self) {
        if self.late_count.load(Ordering::Relaxed) != 0 && !self.is_late() {
            self.late_count.store(0, Ordering::Relaxed);
            self.late_until.store(0, Ordering::Relaxed);
        }
    }

    /// Records the time in which a frame was read.
    pub(crate) fn note_read(&self, took: Duration) {
        self.read.note(took);
        self.measured.store(self.now_ms(), Ordering::Relaxed);
        self.in_time();
    }

    /// Records the time in which a drive of another node answered a short call.
    pub(crate) fn note_answer(&self, took: Duration) {
        self.answer.note(took);
        self.measured.store(self.now_ms(), Ordering::Relaxed);
        self.in_time();
    }

    /// How long to wait for a frame before another shard is asked too: by its own times, within bounds.
    pub(crate) fn hedge_after(&self) -> Duration {
        self.read.patience().clamp(HEDGE.0, HEDGE.1)
    }

    /// The same for a hard disk of which `bytes` were asked and have not come: what waits takes its time, which the times of
    /// earlier frames do not show.
    pub(crate) fn hedge_after_on_disk(&self, bytes: u64) -> Duration {
        let (least, rate, most) = HEDGE_DISK;
        let queue = Duration::from_micros(bytes.saturating_mul(1_000_000) / rate);
        self.read.patience().max(least.saturating_add(queue)).min(most)
    }

    /// How long an operation that has its answer waits for this drive's: at least `least`.
    pub(crate) fn grace(&self, least: Duration) -> Duration {
        self.answer.patience().clamp(least, HEDGE.1.max(least))
    }

    /// Whether it takes much longer than the others, as they were compared last.
    pub(crate) fn is_laggard(&self) -> bool {
        self.is_laggard.load(Ordering::Relaxed)
    }
}

/// Compares the drives: one whose frames, or answers, take [`LAGGARD`] times as long as those of the others is asked last.
pub(crate) fn compare<'a>(all: impl Iterator<Item = &'a LatencyTracker> + Clone) {
    let reads = median(all.clone().map(|l| l.read.mean()));
    let answers = median(all.clone().map(|l| l.answer.mean()));
    let least = HEDGE.0.as_micros() as u32;
    let lags = |mean: u32, others: Option<u32>| {
        others.is_some_and(|others| mean > least.max(others.saturating_mul(LAGGARD)))
    };
    for l in all {
        let was = l.is_laggard();
        if was && l.now_ms().saturating_sub(l.measured.load(Ordering::Relaxed)) > FORGET_MS {
            // Nobody asks it, so that nobody would notice that it is quick again.
            l.read.forget();
            l.answer.forget();
        }
        let is = lags(l.read.mean(), reads) || lags(l.answer.mean(), answers);
        l.is_laggard.store(is, Ordering::Relaxed);
    }
}

/// The median of what was measured, of at least three drives.
fn median(all: impl Iterator<Item = u32>) -> Option<u32> {
    let mut known: SmallVec<[u32; 32]> = all.filter(|us| *us > 0).collect();
    let middle = known.len().checked_sub(1)? / 2;
    (known.len() > 2).then(|| *known.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_ends_and_hedges_are_bounded() {
        let p = LatencyTracker::new();
        assert!(!p.is_late());
        assert_eq!(p.hedge_after(), HEDGE.0);
        for _ in 0..100 {
            p.note_read(Duration::from_millis(10));
        }
        let hedge = p.hedge_after();
        assert!(hedge >= Duration::from_millis(19) && hedge <= Duration::from_millis(25), "{hedge:?}");
        p.note_read(Duration::from_secs(30));
        assert_eq!(p.hedge_after(), HEDGE.1);
        p.mark_slow();
        assert!(p.is_late());
        p.in_time();
        assert!(p.is_late(), "one quick answer does not end it");
    }

    #[test]
    fn a_hard_disk_has_time_for_what_waits() {
        let p = LatencyTracker::new();
        let hedge = |bytes| p.hedge_after_on_disk(bytes);
        assert_eq!(hedge(0), HEDGE_DISK.0, "nothing is measured");
        assert_eq!(hedge(20_000_000), HEDGE_DISK.0 + Duration::from_millis(500));
        assert_eq!(hedge(1 << 40), HEDGE_DISK.2);
        (0..100).for_each(|_| p.note_read(Duration::from_millis(900)));
        assert!(hedge(0) >= Duration::from_millis(1799) && p.hedge_after() == HEDGE.1);
    }

    #[test]
    fn drive_ten_times_slower_than_others_is_a_laggard() {
        let all: Vec<LatencyTracker> = (0..5).map(|_| LatencyTracker::new()).collect();
        let laggards = || {
            compare(all.iter());
            all.iter().map(LatencyTracker::is_laggard).collect::<Vec<_>>()
        };
        assert_eq!(laggards(), [false; 5], "nothing is measured");
        let note = |n: usize, times: u32, ms: u64| {
            (0..times).for_each(|_| all[n].note_read(Duration::from_millis(ms)));
        };
        (0..4).for_each(|n| note(n, 30, 3));
        note(4, 30, 29);
        assert_eq!(laggards(), [false; 5], "less than ten times as slow");
        note(4, 60, 40);
        assert_eq!(laggards(), [false, false, false, false, true]);
        (0..4).for_each(|n| note(n, 60, 30));
        assert_eq!(laggards(), [false; 5], "all are slow");
        note(4, 60, 3_000);
        assert!(laggards()[4]);
        note(4, 60, 30);
        assert!(!laggards()[4], "it is as quick as the others again");
        // Microseconds: the times of a busy processor say nothing.
        let quick: Vec<LatencyTracker> = (0..4).map(|_| LatencyTracker::new()).collect();
        quick.iter().for_each(|l| l.note_answer(Duration::from_micros(100)));
        (0..60).for_each(|_| quick[3].note_answer(Duration::from_millis(15)));
        compare(quick.iter());
        assert!(quick.iter().all(|l| !l.is_laggard()));
        (0..60).for_each(|_| quick[3].note_answer(Duration::from_millis(200)));
        compare(quick.iter());
        assert!(quick[3].is_laggard() && !quick[2].is_laggard());
        assert!(quick[3].grace(Duration::from_millis(50)) >= Duration::from_millis(390));
        assert_eq!(quick[2].grace(Duration::from_millis(50)), Duration::from_millis(50));
    }
}
