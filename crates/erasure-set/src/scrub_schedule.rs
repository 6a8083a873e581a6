//! When the next full pass of a placement group is due, where it goes on, and what is recorded of it.
//!
//! A [`ScrubRecord`] is kept outside of the process by [`ScrubRecords`], so that a pass goes on after a restart, and at
//! the next node that scrubs the group.
//!
//! Wall clocks may be wrong. A pass is due when either clock says so: the wall clock since the last pass began, or the
//! monotonic clock of this process since it learned of that pass. A recorded time of the future is replaced by the present
//! one when it has been of the future for a while ([`ScrubRecord::correct`]), so that it delays the next pass by little
//! more than the interval. One process begins passes of a group at most once in half the interval, so that a clock that
//! jumps costs at most one pass each time.
//!
//! Invariants: everything here is pure; a record is bounded ([`MARKS`], [`MARK_BYTES`]); registers below the position
//! of a pass were checked by it; a lost or old record costs work and nothing else.
//!
//! Must not depend on: where records are stored, how a pass is made.

use ashlar_format::{DriveId, GroupId};
use futures::future::BoxFuture;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// Most marks of a pass.
pub const MARKS: usize = 64;
/// Most marks of one pass of each group together, but for those few that a pass may always have: the control store has
/// limits.
const ALL_MARKS: usize = 8192;
/// How many marks a pass may always have.
const LEAST_MARKS: usize = 4;
/// Most bytes of the position of a mark; it is cut.
pub const MARK_BYTES: usize = 64;
/// The first interval between marks, in milliseconds; it doubles whenever there are too many of them.
const MARK_INTERVAL_MS: i64 = 60_000;
/// How far the clocks of nodes may differ, in milliseconds. A later time is one of the future.
const SKEW_MS: i64 = 5 * 60_000;

/// Keeps the records of full passes outside of the process.
pub trait ScrubRecords: Send + Sync {
    /// The record of a group, from memory; `None`: there is none, or it cannot be read.
    fn read(&self, group: GroupId) -> Option<Arc<ScrubRecord>>;

    /// Merges the record with the stored one ([`ScrubRecord::merged`]), stores and returns the result. The error is for
    /// people; the caller tries again later.
    fn write(&self, group: GroupId, record: ScrubRecord) -> BoxFuture<'static, Result<ScrubRecord, String>>;
}

/// What is recorded of the full passes of a group. Times are in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubRecord {
    /// When the group was seen for the first time.
    pub seen_ms: i64,
    /// The last pass that ended.
    pub last: Option<ScrubPass>,
    /// The pass in progress, or interrupted.
    pub current: Option<ScrubPass>,
}

/// A full pass of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubPass {
    /// When it began.
    pub began_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// The drives of the slots. With other drives a pass begins anew.
    pub drives: Vec<DriveId>,
    /// The key of a register, in the order of a drive's index: those below were checked. Empty at the beginning and after
    /// the end.
    pub position: Vec<u8>,
    /// When it came how far; positions ascend.
    pub marks: Vec<ScrubMark>,
    /// When the last mark was made, also if it was merged with the one before.
    pub marked_ms: i64,
    /// Milliseconds between marks.
    pub interval_ms: i64,
    /// Whether since the last mark every register was checked on every slot.
    pub whole: bool,
    /// What it did so far.
    pub counts: ScrubCounts,
}

/// A point in a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubMark {
    /// Registers below were checked. Cut after [`MARK_BYTES`].
    pub position: Vec<u8>,
    /// The time; if marks were thinned out, an earlier one.
    pub at_ms: i64,
    /// Whether since the mark before every register was checked on every slot.
    pub whole: bool,
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubCounts {
    /// How long it worked, in milliseconds.
    pub took_ms: u64,
    /// Registers checked.
    pub registers: u64,
    /// Findings of damage.
    pub damaged: u64,
    /// Records brought up to date.
    pub records: u64,
    /// Shards made again.
    pub shards: u64,
    /// Shards still missing.
    pub missing: u64,
    /// Pieces of data with too few shards left.
    pub lost: u64,
    /// Bytes of shards made.
    pub bytes: u64,
}

/// What this process knows of a group besides its record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Elapsed {
    /// How old the last pass was, by the wall clock, when this process learned of it, and how long ago that was.
    pub(crate) age_then: Duration,
    /// See `age_then`.
    pub(crate) since_learned: Duration,
    /// How long ago this process began a pass.
    pub(crate) since_begun: Option<Duration>,
    /// Whether passes of other groups are being made: then this one may come a little early.
    pub(crate) in_round: bool,
}

/// What to do with a group now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Wait,
    /// Begin a pass.
    Begin,
    /// Go on with the pass in progress.
    Resume,
}

impl ScrubRecord {
    /// What to do at `now_ms` with a group on `drives`, of which a pass is due `every` after the last one began.
    pub(crate) fn step(&self, drives: &[DriveId], now_ms: i64, every: Duration, elapsed: Elapsed) -> Step {
        match &self.current {
            Some(current) if current.drives == drives => return Step::Resume,
            Some(_) => return Step::Begin,
            None => {}
        }
        if elapsed.since_begun.is_some_and(|since| since < every / 2) {
            return Step::Wait;
        }
        let age = self.age(now_ms).max(elapsed.age_then.saturating_add(elapsed.since_learned));
        // Groups of which one was due after the other stay together.
        let early = if elapsed.in_round { every / 16 } else { Duration::ZERO };
        if age.saturating_add(early) >= every { Step::Begin } else { Step::Wait }
    }

    /// When the last pass began, or the group was seen first.
    pub(crate) fn reference_ms(&self) -> i64 {
        self.last.as_ref().map_or(self.seen_ms, |pass| pass.began_ms)
    }

    /// How long that was ago, by the wall clock; zero for a time of the future.
    pub(crate) fn age(&self, now_ms: i64) -> Duration {
        Duration::from_millis(u64::try_from(now_ms.saturating_sub(self.reference_ms())).unwrap_or(0))
    }

    /// A new pass from the beginning. It is later than every recorded one, whatever the clock says.
    pub(crate) fn begin(&self, drives: Vec<DriveId>, now_ms: i64) -> ScrubPass {
        let recorded = self.last.iter().chain(&self.current).map(|pass| pass.began_ms.saturating_add(1));
        let began_ms = recorded.fold(now_ms, i64::max);
        ScrubPass {
            began_ms,
            drives,
            marked_ms: began_ms,
            interval_ms: MARK_INTERVAL_MS,
            whole: true,
            ..ScrubPass::default()
        }
    }

    /// Replaces times of the future by `now_ms`; returns whether there were any.
    pub fn correct(&mut self, now_ms: i64) -> bool {
        let latest = now_ms.saturating_add(SKEW_MS);
        let mut wrong = false;
        let passes = self.last.iter_mut().chain(&mut self.current);
        let of_pass = |pass: &mut ScrubPass| {
            let mut times: Vec<&mut i64> = vec![&mut pass.began_ms, &mut pass.marked_ms];
            times.extend(&mut pass.ended_ms);
            times.extend(pass.marks.iter_mut().map(|mark| &mut mark.at_ms));
            for time in times.into_iter().filter(|time| **time > latest) {
                *time = now_ms;
                wrong = true;
            }
        };
        passes.for_each(of_pass);
        if self.seen_ms > latest {
            self.seen_ms = now_ms;
            wrong = true;
        }
        wrong
    }

    /// This record and the `stored` one as one: the later pass of each kind counts, and of one pass the further state.
    /// A stored time of the future counts less than what is known here.
    #[must_use]
    pub fn merged(self, stored: ScrubRecord, now_ms: i64) -> ScrubRecord {
        let latest = now_ms.saturating_add(SKEW_MS);
        let later = |mine: Option<ScrubPass>, theirs: Option<ScrubPass>| match (mine, theirs) {
            (Some(mine), Some(theirs)) => {
                let ahead = theirs.began_ms <= latest || theirs.began_ms == mine.began_ms;
                Some(if ahead && mine.order(&theirs) == Ordering::Less { theirs } else { mine })
            }
            (mine, theirs) => mine.or(theirs),
        };
        let seen_ms = match (self.seen_ms, stored.seen_ms) {
            (seen, 0) | (0, seen) => seen,
            (mine, theirs) => mine.min(theirs),
        };
        let last = later(self.last, stored.last);
        let is_open = |pass: &ScrubPass| last.as_ref().is_none_or(|last| last.began_ms < pass.began_ms);
        let current = later(self.current.filter(is_open), stored.current.filter(is_open));
        ScrubRecord { seen_ms, last, current }
    }

    /// Notes the state of a pass, unless a later one has ended or is in progress.
    pub(crate) fn note(&mut self, pass: ScrubPass) {
        let mut with = ScrubRecord::default();
        let of = if pass.ended_ms.is_some() { &mut with.last } else { &mut with.current };
        *of = Some(pass);
        *self = with.merged(std::mem::take(self), i64::MAX);
    }

    /// When the shards of a register on a drive were verified last: `None` if that is not known. What was written at
    /// `written_ms` or later in the same stretch of the pass is not known to have been verified.
    ///
    /// `key`: the bytes of the register's key.
    #[must_use]
    pub fn verified_ms(&self, key: &[u8], drive: DriveId, written_ms: i64) -> Option<i64> {
        let passes = self.current.iter().chain(&self.last);
        let passes = passes.filter(|pass| pass.drives.contains(&drive));
        let mut passes = passes.filter_map(|pass| pass.passed(key));
        passes.find(|(after, _)| *after > written_ms).map(|(after, at)| at.max(after))
    }
}

impl ScrubPass {
    /// Of two passes the later one is greater; of two states of one pass the further one.
    fn order(&self, other: &ScrubPass) -> Ordering {
        let order = |pass: &ScrubPass| (pass.began_ms, pass.ended_ms);
        order(self).cmp(&order(other)).then_with(|| self.position.cmp(&other.position))
    }

    /// The pass has checked what is below `position`; its group is one of `groups`. Returns whether it is to be stored.
    pub(crate) fn advance(&mut self, position: &[u8], now_ms: i64, groups: usize) -> bool {
        self.position = position.to_vec();
        // A clock that was set back must not stop marks.
        if (0..self.interval_ms).contains(&now_ms.saturating_sub(self.marked_ms)) {
            return false;
        }
        self.marked_ms = now_ms;
        let cut = position[..position.len().min(MARK_BYTES)].to_vec();
        // What is behind a position that was cut alike belongs to the next mark.
        if self.marks.last().is_none_or(|last| last.position < cut) {
            let whole = std::mem::replace(&mut self.whole, true);
            self.marks.push(ScrubMark { position: cut, at_ms: now_ms, whole });
        }
        if self.marks.len() > (ALL_MARKS / groups.max(1)).clamp(LEAST_MARKS, MARKS) {
            self.thin_out();
        }
        true
    }

    /// Merges each two marks, and doubles the interval.
    fn thin_out(&mut self) {
        let two = |pair: &[ScrubMark]| ScrubMark {
            position: pair[pair.len() - 1].position.clone(),
            at_ms: pair.iter().map(|mark| mark.at_ms).min().unwrap_or_default(),
            whole: pair.iter().all(|mark| mark.whole),
        };
        self.marks = self.marks.chunks(2).map(two).collect();
        self.interval_ms = self.interval_ms.saturating_mul(2);
    }

    /// The pass has checked everything.
    pub(crate) fn end(&mut self, now_ms: i64) {
        self.ended_ms = Some(now_ms.max(self.began_ms));
        self.position.clear();
    }

    /// When the pass checked a register on every slot: after the first time, and about the second.
    fn passed(&self, key: &[u8]) -> Option<(i64, i64)> {
        let next = self.marks.iter().position(|mark| mark.position.as_slice() > key);
        let (at, whole) = match next {
            Some(next) => (self.marks[next].at_ms, self.marks[next].whole),
            None => (self.ended_ms?, self.whole),
        };
        // The position of a mark that the key begins with may have been cut, and be behind the key.
        let before = self.marks[..next.unwrap_or(self.marks.len())].iter().rev();
        let after = before.into_iter().find(|mark| !key.starts_with(&mark.position));
        let after = after.map_or(self.began_ms, |mark| mark.at_ms);
        whole.then_some((after, at))
    }
}

/// Registers to check before the next position: fewer if the last stretch of `limit` took long, so that a pass that is
/// interrupted repeats little.
pub(crate) fn next_limit(limit: usize, most: usize, took: Duration) -> usize {
    match took {
        took if took > Duration::from_secs(60) => (limit / 2).max(16),
        took if took < Duration::from_secs(15) => (limit * 2).min(most),
        _ => limit,
    }
}

#[cfg(test)]
#[path = "scrub_schedule_tests.rs"]
mod tests;
