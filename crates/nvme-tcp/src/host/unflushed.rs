//! Writes that were answered and may be lost if the target is: copies of them, until a Flush has made them durable.
//!
//! A target with a volatile write cache may answer a write and lose it when it restarts; the Flush that comes after the
//! restart succeeds all the same. A Flush covers the commands that its own controller has completed, no others (Base 7.1). So every
//! change is known with its controller: a Flush goes to each controller that has completed changes, and what was completed by a controller
//! that is lost is written again, as a client of NFS does for writes that were not committed (RFC 1813, 3.3.21).
//!
//! Invariants: no two entries overlap: a later change takes the place of what it overlaps, so the order of entries does not matter; an
//! entry is forgotten only by a Flush of its controller that began after its end.
//!
//! Must not depend on: connections.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of copies, at most, beside those of the changes that are on their way: then the host flushes by itself.
pub(crate) const MOST: usize = 8 << 20;
/// What a change costs beside its data.
const OVERHEAD: usize = 128;

/// A change of a namespace. Positions and lengths are bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Write { at: u64, data: Arc<[u8]> },
    Zero { at: u64, len: u64 },
}

impl Change {
    /// First byte, and the byte after the last.
    pub(crate) fn range(&self) -> (u64, u64) {
        match self {
            Change::Write { at, data } => (*at, at + data.len() as u64),
            Change::Zero { at, len } => (*at, at + len),
        }
    }

    fn cost(&self) -> usize {
        match self {
            Change::Write { data, .. } => data.len() + OVERHEAD,
            Change::Zero { .. } => OVERHEAD,
        }
    }

    /// The part of it in a range that it overlaps.
    fn part(&self, from: u64, to: u64) -> Change {
        let (at, end) = self.range();
        let (from, to) = (from.max(at), to.min(end));
        match self {
            // A copy: the whole would stay in memory with a reference to it.
            Change::Write { data, .. } => {
                Change::Write { at: from, data: data[(from - at) as usize..(to - at) as usize].into() }
            }
            Change::Zero { .. } => Change::Zero { at: from, len: to - from },
        }
    }
}

struct Entry {
    change: Change,
    /// The order of answers.
    number: u64,
    /// The controller that has completed it; 0: none that could flush it.
    controller: u64,
}

/// Changes that were answered and not flushed, by their first byte.
#[derive(Default)]
pub(crate) struct Unflushed {
    next: u64,
    all: BTreeMap<u64, Entry>,
    bytes: usize,
}

impl Unflushed {
    /// Whether there is room for a change. There always is when nothing is kept.
    pub(crate) fn has_room(&self, change: &Change) -> bool {
        self.all.is_empty() || self.bytes + change.cost() <= MOST
    }

    fn put(&mut self, entry: Entry) {
        self.bytes += entry.change.cost();
        self.all.insert(entry.change.range().0, entry);
    }

    /// Forgets what is in a range.
    pub(crate) fn forget(&mut self, at: u64, end: u64) {
        let overlaps = |e: &Entry| e.change.range().1 > at;
        // At most the last entry before the range reaches into it.
        let before = self.all.range(..at).next_back().filter(|(_, e)| overlaps(e)).map(|(start, _)| *start);
        let inside: Vec<u64> = self.all.range(at..end).map(|(start, _)| *start).collect();
        for start in before.into_iter().chain(inside) {
            let Some(Entry { change, number, controller }) = self.all.remove(&start) else { continue };
            self.bytes -= change.cost();
            let (from, to) = change.range();
            if from < at {
                self.put(Entry { change: change.part(from, at), number, controller });
            }
            if to > end {
                self.put(Entry { change: change.part(end, to), number, controller });
            }
        }
    }

    /// A change was answered by a controller.
    pub(crate) fn done(&mut self, change: Change, controller: u64) {
        let (at, end) = change.range();
        self.forget(at, end);
        self.next += 1;
        let number = self.next;
        self.put(Entry { change, number, controller });
    }

    /// The controllers that have to flush, and the last change of each: a Flush that begins now makes those up to it durable.
    pub(crate) fn marks(&self) -> BTreeMap<u64, u64> {
        let mut out = BTreeMap::new();
        for e in self.all.values() {
            let last = out.entry(e.controller).or_insert(e.number);
            *last = e.number.max(*last);
        }
        out
    }

    /// A controller has flushed its changes up to this one.
    pub(crate) fn flushed(&mut self, controller: u64, last: u64) {
        self.all.retain(|_, e| e.controller != controller || e.number > last);
        self.bytes = self.all.values().map(|e| e.change.cost()).sum();
    }

    /// A controller cannot flush its changes.
    pub(crate) fn disown(&mut self, controller: u64) {
        self.all.values_mut().filter(|e| e.controller == controller).for_each(|e| e.controller = 0);
    }

    /// Changes of controllers that are not among these, in a range.
    pub(crate) fn lost(&self, up: &[u64], at: u64, end: u64) -> Vec<Change> {
        let before = self.all.range(..at).next_back().map(|(_, e)| e);
        let inside = before.into_iter().chain(self.all.range(at..end).map(|(_, e)| e));
        let lost = inside.filter(|e| e.change.range().1 > at && !up.contains(&e.controller));
        lost.map(|e| e.change.part(at, end)).collect()
    }

    /// Ranges of changes of controllers that are not among these.
    pub(crate) fn lost_ranges(&self, up: &[u64]) -> Vec<(u64, u64)> {
        self.all.values().filter(|e| !up.contains(&e.controller)).map(|e| e.change.range()).collect()
    }
}
