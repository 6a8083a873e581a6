//! Filling a blank drive: what it must copy into one register (docs/protocol.md 2.7, 2.13).
//!
//! The new layout epoch is chosen in the control store first. Then other voters are fenced (the epoch is
//! flushed on them, [`crate::Acceptor::fence`]) and read only after that (I7). The record to copy is the one
//! with the highest accepted ballot.
//!
//! * A replaced drive needs M other voters fenced and read.
//! * Dead drives (at most n - H, declared dead in the new epoch because less than a majority is left) need
//!   *every* survivor, and at least H of them.
//!
//! The joining drive accepts ACCEPTs in the meantime; it keeps the higher of its own record and the copy. A
//! hint is copied with the record. A drive that copied a one-sync record without its shard is no holder of it
//! ([`crate::Proposer::on_promise_one_sync`]).
//!
//! One-sync records that are not known to be chosen are judged as by a proposer ([`crate::Footing`]): a fence
//! refuses every ballot of earlier epochs. If such a record is overtaken, its parent must be copied, under
//! the parent's ballot and as an ordinary record (its data was durable before anything was built on it). If
//! the record is of the new epoch, the fence proves nothing about it, but its proposer has seen a majority of
//! the new epoch: its parent is enough.
//!
//! Records are dead under the same rule as for proposers: if H of the drives read have no record and a
//! horizon at or above the highest ballot, nothing is copied.
//!
//! * If more than n - H drives of a group are distrusted, no drive is left to fill them from. On an
//!   operator's order, every drive that can be read is a source, whatever it may have lost
//!   ([`Resync::salvage`]): the highest record that verifies is the state, never the one that most drives
//!   show (mutant `SalvageMost`). [`Resync::certain`] tells which keys to report by name.
//!
//! After dead drives, an acknowledged record may have fewer than k' shards left; then more drives were lost
//! than an acknowledgement guarantees against. It is reported by name, never hidden.
//!
//! Must not depend on: files, sockets, clocks, what a record contains.

use crate::quorum::{Quorum, Slot, SlotSet};
use crate::recover::{OneSync, Verdict, judge};
use ashlar_format::Ballot;
use smallvec::SmallVec;

/// The copy of one register. `V` is the record, or its digest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Resync<V> {
    quorum: Quorum,
    /// The new epoch.
    epoch: u32,
    dead: bool,
    /// Number of voters that must be read.
    needed: u8,
    /// Slots that may be read: not joining, not dead.
    sources: SlotSet,
    fenced: SlotSet,
    read: SlotSet,
    /// Sources that have never been distrusted.
    trusted: SlotSet,
    /// Sources with bytes of the register that do not verify.
    unread: SlotSet,
    best: Option<(Ballot, V)>,
    /// Horizons of sources without a record, zeros left out.
    horizons: SmallVec<[Ballot; 8]>,
    /// Set if the highest record is a one-sync record that is not known to be chosen.
    one_sync: Option<OneSync>,
    top: SlotSet,
    shards: SlotSet,
}

/// What the joining drive copies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Copy<'a, V> {
    /// More drives must be fenced and read.
    Wait,
    /// No drive has a record: copy nothing.
    Nothing,
    /// This pair.
    Record(&'a (Ballot, V)),
    /// The parent inside this one-sync record, under the parent's ballot, as an ordinary record; nothing, if
    /// it has none.
    Parent {
        /// The record that contains the parent.
        of: &'a (Ballot, V),
        /// The record itself may have been acknowledged and is lost with the dead drives: report it by name.
        maybe_lost: bool,
    },
}

impl<V> Resync<V> {
    /// The drives of `joining` slots were replaced, one or several in the same new `epoch`.
    #[must_use]
    pub fn replaced(quorum: Quorum, epoch: u32, joining: SlotSet) -> Resync<V> {
        Resync::with(quorum, epoch, quorum.majority(), joining)
    }

    /// The drives of `dead` slots are declared dead in the new `epoch` and will never vote again. `None` if
    /// fewer than H survive: chosen records may be lost, which only an operator may accept.
    #[must_use]
    pub fn dead(quorum: Quorum, epoch: u32, dead: SlotSet) -> Option<Resync<V>> {
        let survivors = quorum.all().without(dead).len();
        (survivors >= quorum.half())
            .then(|| Resync { dead: true, ..Resync::with(quorum, epoch, survivors, dead) })
    }

    /// The drives of `sources`, all that can be read, are the rest of a group in which too many drives are
    /// distrusted; an operator ordered it. `trusted`: those of them that never lost anything. The others of
    /// the group are declared dead in the new `epoch`. `None` if there are fewer than H sources.
    #[must_use]
    pub fn salvage(quorum: Quorum, epoch: u32, sources: SlotSet, trusted: SlotSet) -> Option<Resync<V>> {
        let gone = quorum.all().without(sources);
        let needed = sources.len();
        (needed >= quorum.half()).then(|| Resync {
            dead: true,
            trusted: trusted.and(sources),
            ..Resync::with(quorum, epoch, needed, gone)
        })
    }

    /// A fenced drive has bytes of the register that do not verify (only for [`Resync::salvage`]).
    ///
    /// # Panics
    /// If the drive was not fenced (I7).
    pub fn on_unreadable(&mut self, slot: Slot) {
        self.record(slot, None, None, false);
        self.unread.insert(slot);
    }

    /// After [`Resync::copy`] of a salvage: whether this is known to be the newest state, assuming that not
    /// every drive that held a newer one has lost it. If not, the register is reported by name.
    #[must_use]
    pub fn certain(&self) -> bool {
        let sure = self.trusted.and(self.read).len() >= self.quorum.half();
        let lost = matches!(self.copy(), Copy::Wait | Copy::Parent { maybe_lost: true, .. });
        let shown = self.best.is_none() || self.is_dead() || self.top.len() >= self.quorum.majority();
        !lost && (sure || shown && self.unread.is_empty())
    }

    /// The highest record is dead: see [`crate::Proposer`], "Absence has a horizon".
    fn is_dead(&self) -> bool {
        let Some((top, _)) = &self.best else { return false };
        self.horizons.iter().filter(|h| *h >= top).count() >= usize::from(self.quorum.half())
    }

    fn with(quorum: Quorum, epoch: u32, needed: u8, gone: SlotSet) -> Resync<V> {
        let none = SlotSet::EMPTY;
        Resync {
            quorum,
            epoch,
            dead: false,
            needed,
            sources: quorum.all().without(gone),
            fenced: none,
            read: none,
            trusted: quorum.all().without(gone),
            unread: none,
            best: None,
            horizons: SmallVec::new(),
            one_sync: None,
            top: none,
            shards: none,
        }
    }

    /// The new epoch is durable on this drive, a voter.
    pub fn on_fenced(&mut self, slot: Slot) {
        assert!(self.sources.contains(slot), "slot {slot} is not a source");
        self.fenced.insert(slot);
    }

    /// A fenced drive sent its accepted pair: an ordinary record, one hinted to be chosen, or none.
    ///
    /// # Panics
    /// If the drive was not fenced (I7).
    pub fn on_record(&mut self, slot: Slot, accepted: Option<(Ballot, V)>) {
        self.record(slot, accepted, None, false);
    }

    /// A fenced drive has no record and accepts none up to `horizon` (its purge horizon).
    ///
    /// # Panics
    /// If the drive was not fenced (I7).
    pub fn on_absent(&mut self, slot: Slot, horizon: Ballot) {
        if horizon > Ballot::ZERO && !self.read.contains(slot) {
            let at = self.horizons.iter().take_while(|h| **h >= horizon).count();
            self.horizons.insert(at, horizon);
        }
        self.record(slot, None, None, false);
    }

    /// A fenced drive sent its accepted pair, a one-sync record without a hint. `holds_shard`: it has the
    /// record's shard too.
    ///
    /// # Panics
    /// If the drive was not fenced (I7).
    pub fn on_record_one_sync(
        &mut self,
        slot: Slot,
        accepted: (Ballot, V),
        record: OneSync,
        holds_shard: bool,
    ) {
        self.record(slot, Some(accepted), Some(record), holds_shard);
    }

    fn record(
        &mut self,
        slot: Slot,
        accepted: Option<(Ballot, V)>,
        one_sync: Option<OneSync>,
        holds_shard: bool,
    ) {
        assert!(self.fenced.contains(slot), "I7: slot {slot} was read before its fence");
        self.read.insert(slot);
        let Some((b, record)) = accepted else { return };
        let best = self.best.as_ref().map_or(Ballot::ZERO, |best| best.0);
        if b > best {
            self.best = Some((b, record));
            self.one_sync = one_sync;
            self.top = SlotSet::EMPTY;
            self.shards = SlotSet::EMPTY;
        }
        if b >= best {
            if one_sync.is_none() {
                self.one_sync = None; // another drive has it as chosen
            }
            self.top.insert(slot);
            if holds_shard {
                self.shards.insert(slot);
            }
        }
    }

    /// Slots that must or may be fenced and read.
    #[must_use]
    pub fn sources(&self) -> SlotSet {
        self.sources
    }

    /// Slots read so far. Reading a slot again is allowed.
    #[must_use]
    pub fn read_by(&self) -> SlotSet {
        self.read
    }

    /// The state that concerns one slot, as bits: for traces, and for the model checker, which treats slots
    /// as interchangeable.
    #[must_use]
    pub fn slot_bits(&self, slot: Slot) -> u8 {
        [self.sources, self.fenced, self.read, self.top, self.shards, self.trusted, self.unread]
            .iter()
            .fold(0, |bits, set| bits << 1 | u8::from(set.contains(slot)))
    }

    /// Hashes the rest of the state, which concerns no single slot.
    pub fn hash_shared<S: std::hash::Hasher>(&self, state: &mut S)
    where
        V: std::hash::Hash,
    {
        use std::hash::Hash;
        let one_sync = self.one_sync.map(|l| (l.k, l.needed));
        (self.epoch, self.dead, self.needed, &self.best, one_sync, &self.horizons).hash(state);
    }

    /// What to copy.
    #[must_use]
    pub fn copy(&self) -> Copy<'_, V> {
        if self.read.len() < self.needed {
            return Copy::Wait;
        }
        let Some(best) = &self.best else { return Copy::Nothing };
        if self.is_dead() {
            return Copy::Nothing;
        }
        let Some(one_sync) = self.one_sync else { return Copy::Record(best) };
        if best.0.epoch >= self.epoch {
            return Copy::Parent { of: best, maybe_lost: false };
        }
        match judge(self.quorum, one_sync, self.read, self.top, self.shards) {
            Verdict::Solid | Verdict::Mend => Copy::Record(best),
            Verdict::Overtaken => Copy::Parent { of: best, maybe_lost: false },
            // Only the survivors are left.
            Verdict::Unknown if self.dead => Copy::Parent { of: best, maybe_lost: true },
            Verdict::Unknown => Copy::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn b(epoch: u32, counter: u64) -> Ballot {
        Ballot { epoch, counter, ..Ballot::ZERO }
    }

    fn slots(list: &[Slot]) -> SlotSet {
        list.iter().copied().collect()
    }

    #[test]
    fn copies_highest_of_fenced_majority() {
        let mut r: Resync<u8> = Resync::replaced(Quorum::new(5), 2, slots(&[4]));
        for slot in 0..3 {
            r.on_fenced(slot);
        }
        r.on_record(0, Some((b(1, 1), 1)));
        r.on_record(0, Some((b(1, 1), 1)));
        r.on_record(1, None);
        assert_eq!(r.copy(), Copy::Wait);
        r.on_record(2, Some((b(1, 2), 2)));
        assert_eq!(r.copy(), Copy::Record(&(b(1, 2), 2)));
    }

    #[test]
    #[should_panic(expected = "I7")]
    fn unfenced_drive_is_not_read() {
        let mut r: Resync<u8> = Resync::replaced(Quorum::new(3), 2, slots(&[2]));
        r.on_record(0, None);
    }

    #[test]
    fn dead_drives_need_every_survivor_and_half() {
        let q = Quorum::new(4);
        assert!(Resync::<u8>::dead(q, 2, slots(&[1, 2, 3])).is_none());
        let mut r: Resync<u8> = Resync::dead(q, 2, slots(&[2, 3])).unwrap();
        r.on_fenced(0);
        r.on_record(0, None);
        assert_eq!(r.copy(), Copy::Wait);
        r.on_fenced(1);
        r.on_record(1, None);
        assert_eq!(r.copy(), Copy::Nothing);
    }

    #[test]
    fn dead_records_are_not_copied() {
        let mut r: Resync<u8> = Resync::replaced(Quorum::new(4), 2, slots(&[3]));
        for slot in 0..3 {
            r.on_fenced(slot);
        }
        r.on_absent(0, b(1, 9));
        r.on_absent(1, b(1, 4));
        r.on_record(2, Some((b(1, 5), 5)));
        assert_eq!(r.copy(), Copy::Record(&(b(1, 5), 5)), "one horizon above it is not enough");
        r.on_record(2, Some((b(1, 4), 4)));
        let mut r: Resync<u8> = Resync::replaced(Quorum::new(4), 2, slots(&[3]));
        for slot in 0..3 {
            r.on_fenced(slot);
        }
        r.on_absent(0, b(1, 9));
        r.on_absent(1, b(1, 5));
        r.on_record(2, Some((b(1, 5), 5)));
        assert_eq!(r.copy(), Copy::Nothing);
    }

    #[test]
    fn salvage_takes_highest_and_reports_uncertain() {
        let q = Quorum::new(4);
        let salvage = |trusted: &[Slot], seen: [Option<u64>; 4], unread: Option<Slot>| {
            let mut r: Resync<u64> = Resync::salvage(q, 2, q.all(), slots(trusted)).unwrap();
            for (slot, c) in seen.iter().enumerate() {
                r.on_fenced(slot as Slot);
                if unread == Some(slot as Slot) {
                    r.on_unreadable(slot as Slot);
                } else {
                    r.on_record(slot as Slot, c.map(|c| (b(1, c), c)));
                }
            }
            let got = match r.copy() {
                Copy::Record((_, c)) => Some(*c),
                Copy::Nothing => None,
                other => panic!("{other:?}"),
            };
            (got, r.certain())
        };
        assert_eq!(salvage(&[], [Some(3); 4], None), (Some(3), true));
        assert_eq!(salvage(&[], [Some(3), Some(3), Some(3), Some(4)], None), (Some(4), false));
        assert_eq!(salvage(&[0, 3], [Some(3), Some(3), Some(3), Some(4)], None), (Some(4), true));
        assert_eq!(salvage(&[], [Some(3); 4], Some(2)), (Some(3), false));
        assert_eq!(salvage(&[], [None; 4], None), (None, true));
        assert!(Resync::<u8>::salvage(q, 2, slots(&[1]), slots(&[1])).is_none());
    }

    /// 3+2: M = 3, chosen at 4.
    #[test]
    fn one_sync_records_are_judged() {
        let one_sync = OneSync { k: 3, needed: 4, targets: SlotSet::first(5) };
        let read = |epoch, holders: u8, without: u8, dead: bool| {
            let q = Quorum::new(5);
            let mut r: Resync<u8> = if dead {
                Resync::dead(q, 2, slots(&[3, 4])).unwrap()
            } else {
                Resync::replaced(q, 2, slots(&[4]))
            };
            for slot in 0..holders + without {
                r.on_fenced(slot);
                if slot < holders {
                    r.on_record_one_sync(slot, (b(epoch, 3), 7), one_sync, true);
                } else {
                    r.on_record(slot, None);
                }
            }
            match r.copy() {
                Copy::Wait => "wait",
                Copy::Nothing => "nothing",
                Copy::Record(_) => "record",
                Copy::Parent { maybe_lost: false, .. } => "parent",
                Copy::Parent { maybe_lost: true, .. } => "lost",
            }
        };
        assert_eq!(read(1, 3, 0, false), "record");
        assert_eq!(read(1, 2, 1, false), "wait");
        assert_eq!(read(1, 2, 2, false), "parent");
        assert_eq!(read(2, 2, 1, false), "parent", "of the new epoch");
        assert_eq!(read(1, 2, 1, true), "lost");
        assert_eq!(read(1, 1, 2, true), "parent");
    }
}
