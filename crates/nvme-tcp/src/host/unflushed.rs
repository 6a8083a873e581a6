//! Writes that were answered and may be lost if the target is: copies of them, until a Flush has made them durable.
//!
//! A target with a volatile write cache may answer a write and lose it when it restarts; the Flush that comes after the
//! restart succeeds all the same. So what was not flushed is written again to every new controller before anything else is, as a client
//! of NFS does for writes that were not committed (RFC 1813, 3.3.21).
//!
//! Invariants: changes are kept in the order in which they began; a change is forgotten only by a Flush that began after its end.
//!
//! Must not depend on: connections.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of copies, at most: then the host flushes by itself.
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
    fn cost(&self) -> usize {
        match self {
            Change::Write { data, .. } => data.len() + OVERHEAD,
            Change::Zero { .. } => OVERHEAD,
        }
    }
}

/// Changes that were not flushed.
#[derive(Default)]
pub(crate) struct Unflushed {
    next: u64,
    /// Each, and whether it was answered.
    all: BTreeMap<u64, (Change, bool)>,
    bytes: usize,
}

impl Unflushed {
    /// Whether there is room for a change. There always is when nothing is kept.
    pub(crate) fn has_room(&self, change: &Change) -> bool {
        self.all.is_empty() || self.bytes + change.cost() <= MOST
    }

    /// A change begins; its number.
    pub(crate) fn begin(&mut self, change: Change) -> u64 {
        self.bytes += change.cost();
        self.next += 1;
        self.all.insert(self.next, (change, false));
        self.next
    }

    /// A change was answered.
    pub(crate) fn done(&mut self, number: u64) {
        if let Some((_, done)) = self.all.get_mut(&number) {
            *done = true;
        }
    }

    /// A change failed: what is there is not known, and is not made so again.
    pub(crate) fn failed(&mut self, number: u64) {
        if let Some((change, _)) = self.all.remove(&number) {
            self.bytes -= change.cost();
        }
    }

    /// Numbers of changes that were answered: a Flush that begins now and succeeds makes them durable.
    pub(crate) fn answered(&self) -> Vec<u64> {
        self.all.iter().filter(|(_, (_, done))| *done).map(|(number, _)| *number).collect()
    }

    /// They are durable.
    pub(crate) fn flushed(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|n| self.failed(*n));
    }

    /// All, in their order.
    pub(crate) fn all(&self) -> Vec<Change> {
        self.all.values().map(|(change, _)| change.clone()).collect()
    }
}
