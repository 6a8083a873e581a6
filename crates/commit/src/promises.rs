//! Stores what an acceptor has promised for each register, in memory.
//!
//! Invariant: memory may be lost in only one way. The acceptor's base promise, which holds for every register
//! without an entry, rises to the highest promise that was dropped. After a restart the durable floor serves
//! as the base (docs/protocol.md 2.2).
//!
//! Must not depend on: files, what a record contains.

use ashlar_format::Ballot;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The entry of one register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct PromiseState {
    /// The highest ballot promised or accepted.
    pub promised: Ballot,
    /// The highest ballot for which ACCEPT was allowed. From then on, the drive's index must show at least
    /// this ballot.
    pub accepted: Ballot,
}

/// A store of promises.
pub trait Promises {
    /// The entry of the register; all zero if there is none.
    fn get(&self, key: u128) -> PromiseState;
    /// Replaces the entry. Returns the highest promise that had to be dropped to make room: from now on it
    /// counts as promised for every register without an entry.
    fn put(&mut self, key: u128, held: PromiseState) -> Option<Ballot>;
    /// The accepted pair of `ballot` is durable and in the index: the entry may be removed unless it promises
    /// more.
    fn settle(&mut self, key: u128, ballot: Ballot);
}

/// A hasher that takes the low bits: the key is already a keyed hash, so clients cannot choose its bucket.
#[derive(Default, Clone)]
struct TakeLow(u64);

impl Hasher for TakeLow {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(b);
        }
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64 ^ (key >> 64) as u64;
    }
}

/// A table with room for more entries than this gives memory back when it is nearly empty.
const SMALL: usize = 512;

type Map = HashMap<u128, PromiseState, BuildHasherDefault<TakeLow>>;

/// Two generations of a hash map. When the young one is full, the old one is dropped as a whole and the young
/// one becomes old. So an entry is kept for at least `capacity` later registers.
///
/// Bound: 2 x `capacity` entries, about 100 bytes each.
#[derive(Clone, Debug)]
pub struct PromiseTable {
    young: Map,
    old: Map,
    capacity: usize,
}

impl PromiseTable {
    /// Default number of entries per generation: 16,384 (about 3 MiB when both are full).
    pub const CAPACITY: usize = 1 << 14;

    /// A table of at most 2 x `capacity` entries.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> PromiseTable {
        assert!(capacity >= 1);
        PromiseTable { young: Map::default(), old: Map::default(), capacity }
    }

    /// Registers in the young generation.
    #[must_use]
    pub fn young(&self) -> usize {
        self.young.len()
    }

    /// Ends a generation: the old one is dropped, the young one becomes old. Returns the highest promise that
    /// is lost with it, like [`Promises::put`].
    pub fn age(&mut self) -> Option<Ballot> {
        // An entry that is also in the young generation is not lost.
        let lost = self.old.iter().filter(|(k, _)| !self.young.contains_key(*k));
        let dropped = lost.map(|(_, held)| held.promised).max();
        // This frees its memory as well: a process has many tables.
        self.old = std::mem::take(&mut self.young);
        dropped
    }

    /// Number of registers held now (some may be counted in both generations).
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for PromiseTable {
    fn default() -> PromiseTable {
        PromiseTable::with_capacity(PromiseTable::CAPACITY)
    }
}

impl Promises for PromiseTable {
    fn get(&self, key: u128) -> PromiseState {
        self.young.get(&key).or_else(|| self.old.get(&key)).copied().unwrap_or_default()
    }

    fn put(&mut self, key: u128, held: PromiseState) -> Option<Ballot> {
        if self.young.len() >= self.capacity && !self.young.contains_key(&key) {
            // The entry that is being put is not lost either.
            self.old.remove(&key);
            let dropped = self.age();
            self.young.insert(key, held);
            return dropped;
        }
        self.young.insert(key, held);
        None
    }

    fn settle(&mut self, key: u128, ballot: Ballot) {
        // Remove from both generations: an old entry must not reappear when the young one is dropped.
        if self.get(key).promised <= ballot {
            self.young.remove(&key);
            self.old.remove(&key);
            if self.young.capacity() > SMALL && self.young.len() < self.young.capacity() / 8 {
                self.young.shrink_to(self.young.len() * 2);
            }
        }
    }
}

/// The promises of an acceptor with a single register, without heap memory: for the model checker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct OnePromise(PromiseState);

impl Promises for OnePromise {
    fn get(&self, _: u128) -> PromiseState {
        self.0
    }
    fn put(&mut self, _: u128, held: PromiseState) -> Option<Ballot> {
        self.0 = held;
        None
    }
    fn settle(&mut self, _: u128, ballot: Ballot) {
        if self.0.promised <= ballot {
            self.0 = PromiseState::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(counter: u64) -> PromiseState {
        PromiseState { promised: Ballot { counter, ..Ballot::ZERO }, accepted: Ballot::ZERO }
    }

    #[test]
    fn evicted_promises_are_covered() {
        let mut table = PromiseTable::with_capacity(4);
        let mut exact = HashMap::new();
        let mut base = Ballot::ZERO;
        let mut x: u64 = 88_172_645_463_325_252;
        for step in 0..10_000u64 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let key = u128::from(x % 23);
            if x >> 40 & 3 == 0 {
                let b = exact.get(&key).map_or(Ballot::ZERO, |h: &PromiseState| h.promised);
                table.settle(key, b);
                exact.remove(&key);
            } else {
                let h = held(step + 1);
                base = base.max(table.put(key, h).unwrap_or_default());
                exact.insert(key, h);
            }
            assert!(table.len() <= 8);
            for (k, h) in &exact {
                assert!(table.get(*k).promised.max(base) >= h.promised, "step {step}");
            }
        }
    }
}
