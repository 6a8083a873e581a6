//! Counting: slots, majorities, spare shards, and the next ballot.
//!
//! Invariant: everything is counted over the n *slots* of a placement group, never over the drives that are
//! up at the moment.
//!
//! Must not depend on: what a record contains.

use ashlar_format::Ballot;
use std::fmt;

/// A position in a placement group. It has one drive at a time, and with it one shard of every object.
pub type Slot = u8;

/// The most slots a placement group can have (k + m <= 64).
pub const MAX_SLOTS: u8 = 64;

/// A set of slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SlotSet(pub u64);

impl SlotSet {
    /// No slot.
    pub const EMPTY: SlotSet = SlotSet(0);

    /// The slots 0..n.
    #[must_use]
    pub const fn first(n: u8) -> SlotSet {
        assert!(n <= MAX_SLOTS);
        if n == MAX_SLOTS { SlotSet(u64::MAX) } else { SlotSet((1 << n) - 1) }
    }

    /// Adds a slot; returns whether it was absent.
    pub const fn insert(&mut self, slot: Slot) -> bool {
        let had = self.contains(slot);
        self.0 |= 1 << slot;
        !had
    }

    /// Removes a slot.
    pub const fn remove(&mut self, slot: Slot) {
        self.0 &= !(1 << slot);
    }

    /// Whether the slot is in the set.
    #[must_use]
    pub const fn contains(self, slot: Slot) -> bool {
        self.0 >> slot & 1 == 1
    }

    /// Number of slots.
    #[must_use]
    pub const fn len(self) -> u8 {
        self.0.count_ones() as u8
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Slots in either set.
    #[must_use]
    pub const fn or(self, other: SlotSet) -> SlotSet {
        SlotSet(self.0 | other.0)
    }

    /// Slots in both sets.
    #[must_use]
    pub const fn and(self, other: SlotSet) -> SlotSet {
        SlotSet(self.0 & other.0)
    }

    /// Slots in this set and not in `other`.
    #[must_use]
    pub const fn without(self, other: SlotSet) -> SlotSet {
        SlotSet(self.0 & !other.0)
    }

    /// The slots in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Slot> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let slot = rest.trailing_zeros() as Slot;
                rest &= rest - 1;
                slot
            })
        })
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> SlotSet {
        let mut set = SlotSet::EMPTY;
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The counts that decide for a placement group of n slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quorum {
    /// Slots, 1..=64.
    pub n: u8,
}

impl Quorum {
    /// # Panics
    /// If `n` is not in 1..=64.
    #[must_use]
    pub const fn new(n: u8) -> Quorum {
        assert!(n >= 1 && n <= MAX_SLOTS);
        Quorum { n }
    }

    /// M, the slots that decide a record: n/2 + 1. Any two sets of M share a slot.
    #[must_use]
    pub const fn majority(self) -> u8 {
        self.n / 2 + 1
    }

    /// H, the fewest slots that share a slot with every majority: n - M + 1 (docs/protocol.md 2.13).
    /// For odd n this is M itself.
    #[must_use]
    pub const fn half(self) -> u8 {
        self.n - self.majority() + 1
    }

    /// All slots.
    #[must_use]
    pub const fn all(self) -> SlotSet {
        SlotSet::first(self.n)
    }
}

/// f, the spare shards that must be durable before an acknowledgement: ceil(m/2).
#[must_use]
pub const fn spare(m: u8) -> u8 {
    m.div_ceil(2)
}

/// k + f: the least number of durable shards of an acknowledged write of code k+m (12+4: 14, 8+8: 12, 4+2: 5,
/// 2+2: 3).
#[must_use]
pub const fn durable_needed(k: u8, m: u8) -> u8 {
    k + spare(m)
}

/// The code for a write while only `reachable` of the n = k + m drives answer: `(k', k' + f)`.
///
/// n does not change (the object has n - k' parity shards, most of them made later by heal), and f stays the
/// spare count of the *configured* code, ceil(m/2). So an object acknowledged while drives are missing
/// survives as many further losses at that moment as any other. An f computed from the larger m' = n - k'
/// would grow as k' falls and refuse writes that are safe. k' is the largest value not above k with k' + f <=
/// `reachable`. `None` if not even k' = 1 fits.
///
/// The [`crate::Proposer`] checks separately that a majority of voters answers.
#[must_use]
pub const fn lower_k(k: u8, m: u8, reachable: u8) -> Option<(u8, u8)> {
    assert!(k >= 1 && k as u16 + m as u16 <= MAX_SLOTS as u16 && reachable <= k + m);
    let f = spare(m);
    if reachable <= f {
        return None;
    }
    let fits = reachable - f;
    let k = if fits < k { fits } else { k };
    Some((k, k + f))
}

/// The next ballot of proposer `node`, above everything it has seen. `nonce` is drawn at boot and keeps a
/// restarted proposer from making a ballot twice.
///
/// `None` if `seen` belongs to a newer layout epoch: the caller's map is old and must be fetched again first.
/// Also `None` if the counter is used up, which no correct process reaches.
#[must_use]
pub fn ballot_above(seen: Ballot, epoch: u32, node: u16, nonce: u32) -> Option<Ballot> {
    if seen.epoch > epoch {
        return None;
    }
    let last = if seen.epoch == epoch { seen.counter } else { 0 };
    Some(Ballot { epoch, counter: last.checked_add(1)?, node, nonce })
}

/// Whether a tombstone may be purged (docs/protocol.md 2.6): only if *every* slot is held by a voter and
/// every one of them has accepted it. `voters`: slots whose drive is a voter now; `accepted`: slots known to
/// have accepted the tombstone's ballot.
///
/// "All voters" is not enough while a slot is joining: the joining drive has no tombstone and no
/// purge horizon, so a late ACCEPT of an older ballot would bring deleted data back (the model
/// finds it: `crates/model`, mutant "purge while a slot joins").
#[must_use]
pub const fn may_purge(quorum: Quorum, voters: SlotSet, accepted: SlotSet) -> bool {
    let all = quorum.all().0;
    voters.0 & all == all && accepted.0 & all == all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorum_counts_match_specification() {
        for (k, m, want) in [(12, 4, 14), (8, 8, 12), (14, 4, 16), (4, 2, 5), (2, 2, 3), (1, 0, 1)] {
            assert_eq!(durable_needed(k, m), want);
            assert_eq!(lower_k(k, m, k + m), Some((k, want)));
        }
        assert_eq!((Quorum::new(16).majority(), Quorum::new(16).half()), (9, 8));
        assert_eq!((Quorum::new(3).majority(), Quorum::new(3).half()), (2, 2));
        assert_eq!((Quorum::new(1).majority(), Quorum::new(1).half()), (1, 1));
        // Seven of sixteen drives are missing: a majority is left, and k is lowered to 7.
        assert_eq!(lower_k(12, 4, 9), Some((7, 9)));
        assert_eq!(lower_k(12, 4, 2), None);
        assert_eq!(lower_k(2, 2, 2), Some((1, 2)));
    }

    #[test]
    fn lowered_codes_fit_and_keep_their_spares() {
        for k in 1..=MAX_SLOTS {
            for m in 0..=MAX_SLOTS - k {
                for r in 0..=k + m {
                    match lower_k(k, m, r) {
                        None => assert!(r <= spare(m)),
                        Some((k1, needed)) => {
                            assert!(k1 >= 1 && k1 <= k && needed <= r);
                            assert_eq!(needed - k1, spare(m));
                            assert!(k1 == k || needed == r, "not the largest");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn half_intersects_every_majority() {
        for n in 1..=MAX_SLOTS {
            let q = Quorum::new(n);
            assert!(q.half() + q.majority() > n && 2 * u16::from(q.majority()) > u16::from(n));
            assert!(q.half() <= q.majority());
            assert_eq!(q.all().len(), n);
        }
    }

    #[test]
    fn ballots_increase() {
        let seen = Ballot { epoch: 3, counter: 7, node: 9, nonce: 9 };
        let next = ballot_above(seen, 3, 1, 5).unwrap();
        assert!(next > seen && next.node == 1 && next.counter == 8);
        assert!(ballot_above(seen, 4, 1, 5).unwrap() > Ballot::fence(4));
        assert_eq!(ballot_above(seen, 2, 1, 5), None);
        assert_eq!(ballot_above(Ballot { counter: u64::MAX, ..seen }, 3, 1, 5), None);
    }
}
