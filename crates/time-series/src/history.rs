//! The three rings, and how points of one become points of the next.
//!
//! Invariants: a point is in a coarser ring at the end of the step that has it, or when a later point arrives; what a
//! restart interrupts is completed from the finest ring; a clock that was far ahead and was set right loses the points of
//! the time that has not come yet, and nothing else.
//!
//! Must not depend on: files.

use crate::Error;
use crate::point::{Kind, Point};
use crate::ring::{RESOLUTIONS, Ring};

/// A clock that goes back by less, in seconds, is waited for.
pub const JUMP_S: i64 = 3600;

/// A change to make in the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Bytes at the end of a file.
    Append {
        /// The step of the ring, in seconds.
        step_s: i64,
        /// The beginning of the segment.
        start_s: i64,
        /// Where: 0 makes a new file.
        at: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A file with another content.
    Replace {
        /// The step of the ring, in seconds.
        step_s: i64,
        /// The beginning of the segment.
        start_s: i64,
        /// All bytes.
        bytes: Vec<u8>,
    },
    /// A file that is not needed any more.
    Remove {
        /// The step of the ring, in seconds.
        step_s: i64,
        /// The beginning of the segment.
        start_s: i64,
    },
}

/// What happened in steps of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The beginning of the first step, in seconds since 1970.
    pub from_s: i64,
    /// The length of a step in seconds.
    pub step_s: i64,
    /// The steps; `None`: nothing was measured.
    pub points: Vec<Option<Point>>,
    /// The last point before the first step.
    pub before: Option<Point>,
}

/// A history of metrics.
#[derive(Clone, Debug)]
pub struct History {
    kinds: &'static [Kind],
    rings: Vec<Ring>,
    /// The step of each ring but the finest that has begun and is not in the ring yet.
    begun: Vec<Option<Point>>,
}

/// The end of the step that has a time.
fn end_of(at_s: i64, step_s: i64) -> i64 {
    (at_s - 1).div_euclid(step_s) * step_s + step_s
}

impl History {
    /// An empty history of values of these kinds.
    #[must_use]
    pub fn new(kinds: &'static [Kind]) -> History {
        let rings: Vec<Ring> = RESOLUTIONS.into_iter().map(Ring::new).collect();
        History { kinds, begun: vec![None; rings.len() - 1], rings }
    }

    /// Adds a point of the finest resolution. `None`: it is not later than the newest one, by less than [`JUMP_S`]; what
    /// it has belongs to the next point.
    pub fn push(&mut self, point: &Point) -> Option<Vec<Change>> {
        let mut changes = Vec::new();
        let last = self.rings[0].last_s();
        if point.at_s <= last {
            if last - point.at_s < JUMP_S {
                return None;
            }
            self.forget_after(point.at_s - 1, &mut changes);
        }
        self.add(0, point, &mut changes);
        self.carry(point, &mut changes);
        Some(changes)
    }

    /// Adds a point to a ring.
    fn add(&mut self, ring: usize, point: &Point, changes: &mut Vec<Change>) {
        let ring = &mut self.rings[ring];
        if point.at_s <= ring.last_s() {
            return;
        }
        let step_s = ring.resolution.step_s;
        let pushed = ring.push(point);
        let bytes = ring.bytes(pushed.start_s)[pushed.from..].to_vec();
        changes.push(Change::Append { step_s, start_s: pushed.start_s, at: pushed.from, bytes });
        let dropped = pushed.dropped.into_iter();
        changes.extend(dropped.map(|start_s| Change::Remove { step_s, start_s }));
    }

    /// Adds a point to the steps of the coarser rings, and those to the rings when they are complete.
    fn carry(&mut self, point: &Point, changes: &mut Vec<Change>) {
        for i in 0..self.begun.len() {
            let step_s = self.rings[i + 1].resolution.step_s;
            let end = end_of(point.at_s, step_s);
            if let Some(over) = self.begun[i].take_if(|b| b.at_s != end) {
                self.add(i + 1, &over, changes);
            }
            let begun = self.begun[i].get_or_insert_with(|| Point { at_s: end, ..Point::default() });
            begun.add(point, self.kinds);
            if point.at_s == end
                && let Some(complete) = self.begun[i].take()
            {
                self.add(i + 1, &complete, changes);
            }
        }
    }

    fn forget_after(&mut self, at_s: i64, changes: &mut Vec<Change>) {
        for ring in &mut self.rings {
            let step_s = ring.resolution.step_s;
            let (changed, gone) = ring.forget_after(at_s);
            changes.extend(changed.into_iter().map(|start_s| Change::Replace {
                step_s,
                start_s,
                bytes: ring.bytes(start_s).to_vec(),
            }));
            changes.extend(gone.into_iter().map(|start_s| Change::Remove { step_s, start_s }));
        }
        self.begun.fill(None);
        changes.extend(self.complete());
    }

    /// Adds the bytes of a file. Files of one ring are added in the order of their beginnings, all before
    /// [`History::complete`]. Returns how many of the bytes are good.
    ///
    /// # Errors
    /// They are not a segment of this history.
    pub fn load(&mut self, step_s: i64, start_s: i64, bytes: &[u8]) -> Result<usize, Error> {
        let ring = self.rings.iter_mut().find(|r| r.resolution.step_s == step_s);
        ring.ok_or(Error::Damaged("there is no such resolution"))?.load(start_s, bytes)
    }

    /// Completes what a restart interrupted, after the files are loaded.
    pub fn complete(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        // Of each coarser ring, what is in the finest only.
        let mut since: Vec<i64> = self.rings.iter().map(Ring::last_s).collect();
        since.remove(0);
        let oldest = since.iter().copied().min().unwrap_or(i64::MIN);
        let points: Vec<Point> = self.rings[0].points(oldest, i64::MAX).collect();
        for point in points {
            self.carry(&point, &mut changes);
        }
        // A step that has begun and is in a ring already has nothing to add.
        for (begun, last) in self.begun.iter_mut().zip(&since) {
            begun.take_if(|b| b.at_s <= *last);
        }
        changes
    }

    /// The points of the finest resolution after a time, in order.
    pub fn finest(&self, after_s: i64) -> impl Iterator<Item = Point> {
        self.rings[0].points(after_s, i64::MAX)
    }

    /// The changes that make the files of an empty folder.
    #[must_use]
    pub fn whole(&self) -> Vec<Change> {
        let of = |ring: &Ring| {
            let step_s = ring.resolution.step_s;
            let replace = |start_s| Change::Replace { step_s, start_s, bytes: ring.bytes(start_s).to_vec() };
            ring.starts().map(replace).collect::<Vec<_>>()
        };
        self.rings.iter().flat_map(of).collect()
    }

    /// The time of the newest point, in seconds since 1970.
    #[must_use]
    pub fn last_s(&self) -> Option<i64> {
        Some(self.rings[0].last_s()).filter(|at| *at != i64::MIN)
    }

    /// The time of the oldest point.
    #[must_use]
    pub fn first_s(&self) -> Option<i64> {
        self.rings.iter().filter_map(Ring::first_s).min()
    }

    /// What happened from `from_s` on in `count` steps of `step_s` seconds, from the finest ring that goes back so far and
    /// whose steps fit in. `from_s` and `step_s` are multiples of ten seconds, better of the steps of the rings.
    #[must_use]
    pub fn steps(&self, from_s: i64, step_s: i64, count: usize) -> Steps {
        let newest = self.rings[0].last_s().max(from_s);
        let fits = |r: &Ring| step_s % r.resolution.step_s == 0 && from_s % r.resolution.step_s == 0;
        let reaches = |r: &Ring| from_s >= newest - r.resolution.keep_s;
        let fitting = || self.rings.iter().enumerate().filter(|(_, r)| fits(r));
        let found = fitting().find(|(_, r)| reaches(r)).or_else(|| fitting().next_back());
        let (i, ring) = found.unwrap_or((0, &self.rings[0]));
        let to_s = from_s.saturating_add(step_s.saturating_mul(count as i64));
        let begun = i.checked_sub(1).and_then(|i| self.begun[i].as_ref());
        let begun = begun.filter(|b| b.at_s > from_s && b.at_s <= to_s).cloned();
        let mut points = vec![None; count];
        for point in ring.points(from_s, to_s).chain(begun) {
            let slot = (point.at_s - 1 - from_s).div_euclid(step_s) as usize;
            let end = from_s + step_s * (slot as i64 + 1);
            let step = points[slot].get_or_insert_with(|| Point { at_s: end, ..Point::default() });
            step.add(&point, self.kinds);
        }
        let before = ring.points(from_s - ring.resolution.keep_s, from_s).last();
        Steps { from_s, step_s, points, before }
    }
}

/// Reads any bytes as a segment: for the fuzzer.
pub fn fuzzed(bytes: &[u8]) {
    const KINDS: &[Kind] = &[Kind::Sum, Kind::Gauge];
    let mut history = History::new(KINDS);
    let Ok(good) = history.load(10, FUZZED_S, bytes) else { return };
    assert!(good <= bytes.len());
    history.complete();
    let points: Vec<Point> = history.finest(i64::MIN).collect();
    // What was read is written as it was, except for numbers that may be written in several ways.
    let mut again = History::new(KINDS);
    for point in &points {
        again.push(point);
    }
    assert!(again.finest(i64::MIN).eq(points));
}

/// The beginning of the segment of [`fuzzed`].
const FUZZED_S: i64 = 1_764_007_200;

/// Segments as they are written: for the fuzzer.
pub fn fuzzed_seeds() -> Vec<Vec<u8>> {
    const KINDS: &[Kind] = &[Kind::Sum, Kind::Gauge];
    let mut history = History::new(KINDS);
    for i in 1..20 {
        history.push(&Point { at_s: FUZZED_S + i * 10, covered_s: 10, values: vec![i as u64, 1 << (i * 3)] });
    }
    vec![history.rings[0].bytes(FUZZED_S).to_vec()]
}
