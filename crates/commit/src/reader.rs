//! The reader: what a read of one register may answer (docs/protocol.md 2.4, 2.13).
//!
//! READ goes to the voters, among them the preferred shard holders. Each answer contains the accepted ballot
//! of the drive (flushed records only) and its HINT. With M answers:
//! * M voters with the same ballot, or a hinted ballot, and no higher one seen: serve (I8);
//! * M voters without a record, and no record seen: absent (I9);
//! * otherwise, and whenever a voter shows a higher ballot, an identity round ([`crate::Proposer`],
//!   `propose(0)` with the base) decides.
//!
//! The caller may go on asking after an answer is possible, to see what the other slots have
//! ([`Reader::more`] tells whether that is useful). A higher ballot that was seen is settled before anything
//! is answered, so that the answer does not change while nobody writes (mutant `ReadPassesBy`).
//!
//! A record is dead if H voters state "no record, and none accepted up to its ballot" ([`crate::Proposer`],
//! "Absence has a horizon"), and counts as no record. One such voter is enough to invalidate a hint: a drive
//! that went back in time shows its hints too.
//!
//! Fewer than M voters answer, and every other slot is known to be silent, but at least H = n - M + 1 voters
//! answer (half of the slots, for even n): every chosen record is on at least one of them. A hinted ballot is
//! served if none is higher; the register is absent if none has a record; otherwise 503. After the last
//! answer the caller must confirm the layout epoch with the control store ([`Proof::HintHalf`], `Absent`
//! without `majority`): the other half may have been declared dead and replaced without this half having seen
//! it. (With M answers this is not needed: a drive of a newer epoch refuses to answer,
//! [`crate::Acceptor::may_read`].)
//!
//! It is *not* enough that all drives of one half show the same ballot, although no later majority can
//! overtake such a record. The other half can agree on the state before it, and two reads would go back in
//! time. And if exactly the drives that showed the record are lost for good, the recovery of 2.13 does not
//! find it. [`Reader::trusting_half`] serves such a record nevertheless, for callers that prefer an answer;
//! the model has both counterexamples. Half of the drives are useful because hints reach the medium, lazily,
//! without a flush of their own.
//!
//! A one-sync record is chosen at max(M, k' + f) accepts, so it needs that many equal answers, or a hint.
//! Half of the drives never prove it without a hint.
//!
//! Must not depend on: files, sockets, clocks, what a record contains.
//!
//! A one-sync record is chosen at max(M, k' + f) accepts, so that many equal answers, or a hint,
//! are needed; half the drives never prove it without a hint.

use crate::quorum::{Quorum, Slot, SlotSet};
use ashlar_format::Ballot;
use smallvec::SmallVec;

/// The next step after the answers so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ReadStep {
    /// More answers are needed.
    Wait,
    /// This record may be served. If fewer than k' of these slots have good shards: ask more slots, then
    /// answer 503.
    Serve {
        /// Its ballot.
        ballot: Ballot,
        /// Slots that showed the record, including joining ones.
        slots: SlotSet,
        /// Why the record may be served.
        proof: Proof,
    },
    /// The register has no record: 404.
    Absent {
        /// M voters said so, not only half: the epoch need not be confirmed.
        majority: bool,
    },
    /// The answers differ: complete the newest record by an identity round, and serve its result.
    NeedIdentityRound,
    /// Answer 503, never 404.
    Unavailable,
}

/// Why a record may be served.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Proof {
    /// Enough voters showed it: it is chosen.
    Majority,
    /// A hint says that it is chosen, and M voters show nothing higher.
    Hint,
    /// A hint says that it is chosen, and half of the slots show nothing higher. Confirm the epoch.
    HintHalf,
    /// All voters of exactly half of the slots show it; only by [`Reader::trusting_half`].
    Half,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Seen {
    ballot: Ballot,
    voters: SlotSet,
    all: SlotSet,
    hinted: bool,
    /// Number of equal voters that prove it.
    voters_needed: u8,
}

/// One read; see the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reader {
    quorum: Quorum,
    trust_half: bool,
    /// Slots that answered as voters.
    answered: SlotSet,
    /// The voters without a record.
    none: SlotSet,
    /// Their purge horizons: the highest H, in descending order, without zeros.
    horizons: SmallVec<[Ballot; 8]>,
    silent: SlotSet,
    /// Distinct ballots. More than two only in a duel; on the heap from the fourth on.
    seen: SmallVec<[Seen; 3]>,
}

impl Reader {
    /// A read of one register.
    #[must_use]
    pub fn new(quorum: Quorum) -> Reader {
        Reader {
            quorum,
            trust_half: false,
            answered: SlotSet::EMPTY,
            none: SlotSet::EMPTY,
            horizons: SmallVec::new(),
            silent: SlotSet::EMPTY,
            seen: SmallVec::new(),
        }
    }

    /// A read that also accepts [`Proof::Half`]: **not linearizable** (see the module).
    #[must_use]
    pub fn trusting_half(quorum: Quorum) -> Reader {
        Reader { trust_half: true, ..Reader::new(quorum) }
    }

    /// A slot answered. `accepted`: the ballot of its (staged) record, if it has one. `hint`: the drive has a
    /// hint that this ballot is chosen. `voter`: false for a joining drive, whose answer is not counted but
    /// whose shard may be used.
    pub fn on_answer(&mut self, slot: Slot, accepted: Option<Ballot>, hint: bool, voter: bool) -> ReadStep {
        self.answer(slot, accepted, hint, voter, self.quorum.majority())
    }

    /// A slot answered that it has no record and accepts none up to `horizon` (its purge horizon).
    pub fn on_absent(&mut self, slot: Slot, horizon: Ballot, voter: bool) -> ReadStep {
        if voter && horizon > Ballot::ZERO && slot < self.quorum.n && !self.answered.contains(slot) {
            let at = self.horizons.iter().take_while(|h| **h >= horizon).count();
            let most = usize::from(self.quorum.half());
            if at < most {
                self.horizons.truncate(most - 1);
                self.horizons.insert(at, horizon);
            }
        }
        self.answer(slot, None, false, voter, self.quorum.majority())
    }

    /// A slot answered with a one-sync record that needs `needed` (k' + f) durable shards. `whole`: the drive
    /// has the record's shard too.
    pub fn on_answer_one_sync(
        &mut self,
        slot: Slot,
        accepted: Ballot,
        hint: bool,
        voter: bool,
        whole: bool,
        needed: u8,
    ) -> ReadStep {
        // A drive with the record alone has copied it while joining. It saw the record chosen, which its hint
        // states; its answer does not count.
        let voters_needed = self.quorum.majority().max(needed);
        if whole || hint || !voter {
            return self.answer(slot, Some(accepted), hint, voter, voters_needed);
        }
        self.answer(slot, Some(accepted), false, true, u8::MAX)
    }

    fn answer(
        &mut self,
        slot: Slot,
        accepted: Option<Ballot>,
        hint: bool,
        voter: bool,
        voters_needed: u8,
    ) -> ReadStep {
        assert!(slot < self.quorum.n, "slot {slot} of {}", self.quorum.n);
        if self.answered.contains(slot) {
            return self.step();
        }
        if voter {
            self.answered.insert(slot);
            self.silent.remove(slot);
        } else {
            self.silent.insert(slot);
        }
        match accepted {
            None if voter => {
                self.none.insert(slot);
            }
            None => {}
            Some(ballot) => {
                let i = self.seen.iter().position(|s| s.ballot == ballot).unwrap_or_else(|| {
                    let none = SlotSet::EMPTY;
                    self.seen.push(Seen { ballot, voters: none, all: none, hinted: false, voters_needed });
                    self.seen.len() - 1
                });
                let seen = &mut self.seen[i];
                seen.all.insert(slot);
                if voter {
                    seen.voters.insert(slot);
                    seen.hinted |= hint;
                    // A joining drive may have answered first; the strictest number applies.
                    seen.voters_needed = seen.voters_needed.max(voters_needed);
                }
            }
        }
        self.step()
    }

    /// Slots that answered as voters.
    #[must_use]
    pub fn answered_by(&self) -> SlotSet {
        self.answered
    }

    /// A slot does not answer, or refused because it has a newer epoch.
    pub fn on_silent(&mut self, slot: Slot) -> ReadStep {
        assert!(slot < self.quorum.n, "slot {slot} of {}", self.quorum.n);
        if !self.answered.contains(slot) {
            self.silent.insert(slot);
        }
        self.step()
    }

    /// The caller stops waiting: every slot that has not answered counts as silent.
    pub fn on_deadline(&mut self) -> ReadStep {
        self.silent = self.quorum.all().without(self.answered);
        self.step()
    }

    /// The step for the answers so far. Calling again returns the same.
    #[must_use]
    pub fn step(&self) -> ReadStep {
        let m = self.quorum.majority();
        let count = self.answered.len();
        let open = self.open().len();
        let newest = self.seen.iter().filter(|s| !s.voters.is_empty()).max_by_key(|s| s.ballot);
        let against = newest.map_or(0, |s| self.against(s.ballot));
        if newest.is_none() || against >= self.quorum.half() {
            // No record was shown, or only a dead one.
            return if count >= m {
                ReadStep::Absent { majority: true }
            } else if open > 0 {
                ReadStep::Wait
            } else if count >= self.quorum.half() {
                ReadStep::Absent { majority: false }
            } else {
                ReadStep::Unavailable
            };
        }
        let Some(s) = newest else { unreachable!("looked at above") };
        if s.voters.len() >= s.voters_needed {
            return serve(s, Proof::Majority);
        }
        // A voter that does not accept the record any more may have newer information than the hint.
        let hinted = s.hinted && against == 0;
        if count >= m {
            return if hinted {
                serve(s, Proof::Hint)
            } else if open > 0 && self.may_agree(s, against, open) {
                ReadStep::Wait
            } else {
                ReadStep::NeedIdentityRound
            };
        }
        if open > 0 {
            return ReadStep::Wait;
        }
        if count < self.quorum.half() {
            return ReadStep::Unavailable;
        }
        // Half of the slots answered, and no other slot will (2.13).
        if hinted {
            serve(s, Proof::HintHalf)
        } else if s.voters == self.answered && s.voters_needed <= m && self.trust_half {
            serve(s, Proof::Half)
        } else {
            ReadStep::Unavailable
        }
    }

    /// Slots that have neither answered nor are known to be silent.
    fn open(&self) -> SlotSet {
        self.quorum.all().without(self.answered.or(self.silent))
    }

    /// Number of voters that have no record and accept none of this ballot, at most H.
    fn against(&self, ballot: Ballot) -> u8 {
        self.horizons.iter().take_while(|h| **h >= ballot).count() as u8
    }

    /// Whether an answer is possible already, but slots that may show a higher ballot have not answered.
    #[must_use]
    pub fn more(&self) -> bool {
        !self.open().is_empty() && matches!(self.step(), ReadStep::Serve { .. } | ReadStep::Absent { .. })
    }

    /// A state that a majority of the voters shows, although another voter shows something above it. It is
    /// chosen, and a read that cannot settle the rest returns it. The answer may change once the rest is
    /// settled.
    #[must_use]
    pub fn majority_shows(&self) -> Option<Ballot> {
        self.seen.iter().find(|s| s.voters.len() >= s.voters_needed).map(|s| s.ballot)
    }

    /// Whether `open` more answers can still make enough voters show the newest record, or show it dead.
    fn may_agree(&self, newest: &Seen, against: u8, open: u8) -> bool {
        newest.voters.len() + open >= newest.voters_needed
            || against > 0 && against + open >= self.quorum.half()
    }

    /// The state that concerns one slot: for traces, and for the model checker, which treats slots as
    /// interchangeable.
    #[must_use]
    pub fn slot_bits(&self, slot: Slot) -> u64 {
        let mut bits = [self.answered, self.none, self.silent]
            .iter()
            .fold(1, |bits, set| bits << 1 | u64::from(set.contains(slot)));
        // Ballots in ascending order, not in the order in which they were seen.
        let mut seen: SmallVec<[&Seen; 3]> = self.seen.iter().collect();
        seen.sort_by_key(|s| s.ballot);
        for s in seen.iter().take(15) {
            bits = bits << 2 | u64::from(s.voters.contains(slot)) << 1 | u64::from(s.all.contains(slot));
        }
        bits
    }

    /// Hashes the rest of the state, which concerns no single slot.
    pub fn hash_shared<S: std::hash::Hasher>(&self, state: &mut S) {
        use std::hash::Hash;
        let mut seen: SmallVec<[&Seen; 3]> = self.seen.iter().collect();
        seen.sort_by_key(|s| s.ballot);
        (self.trust_half, &self.horizons).hash(state);
        for s in seen {
            (s.ballot, s.hinted, s.voters_needed).hash(state);
        }
    }
}

fn serve(s: &Seen, proof: Proof) -> ReadStep {
    ReadStep::Serve { ballot: s.ballot, slots: s.all, proof }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn b(counter: u64) -> Ballot {
        Ballot { counter, node: 1, ..Ballot::ZERO }
    }

    fn served(step: &ReadStep) -> Option<(u64, Proof)> {
        match step {
            ReadStep::Serve { ballot, proof, .. } => Some((ballot.counter, *proof)),
            _ => None,
        }
    }

    #[test]
    fn one_round_when_a_majority_agrees() {
        let mut r = Reader::new(Quorum::new(5));
        assert_eq!(r.on_answer(0, Some(b(3)), false, true), ReadStep::Wait);
        assert_eq!(r.on_answer(4, Some(b(3)), false, false), ReadStep::Wait, "joining");
        assert_eq!(r.on_answer(0, Some(b(3)), false, true), ReadStep::Wait, "repeated");
        assert_eq!(r.on_answer(1, Some(b(3)), false, true), ReadStep::Wait);
        let step = r.on_answer(2, Some(b(3)), false, true);
        assert_eq!(served(&step), Some((3, Proof::Majority)));
        assert!(matches!(step, ReadStep::Serve { slots, .. } if slots == [0, 1, 2, 4].into_iter().collect()));
    }

    #[test]
    fn hint_is_served_unless_newer_ballot_seen() {
        let mut r = Reader::new(Quorum::new(3));
        let _ = r.on_answer(0, Some(b(3)), true, true);
        assert_eq!(served(&r.on_answer(1, Some(b(2)), true, true)), Some((3, Proof::Hint)));
        let mut r = Reader::new(Quorum::new(3));
        let _ = r.on_answer(0, Some(b(3)), true, true);
        assert_eq!(r.on_answer(1, Some(b(4)), false, true), ReadStep::Wait, "two more may agree");
        assert_eq!(r.on_silent(2), ReadStep::NeedIdentityRound);
    }

    #[test]
    fn absence_needs_a_majority_or_all_of_half() {
        let mut r = Reader::new(Quorum::new(4));
        let _ = r.on_answer(0, None, false, true);
        let _ = r.on_answer(1, None, false, true);
        let mut half = r.clone();
        assert_eq!(r.on_answer(2, None, false, true), ReadStep::Absent { majority: true });
        assert_eq!(half.on_silent(2), ReadStep::Wait);
        assert_eq!(half.on_silent(3), ReadStep::Absent { majority: false });
        let mut less = Reader::new(Quorum::new(4));
        let _ = less.on_answer(0, None, false, true);
        assert_eq!(less.on_deadline(), ReadStep::Unavailable, "503, never 404");
    }

    #[test]
    fn half_of_slots_needs_hint() {
        let q = Quorum::new(4);
        let half = |mut r: Reader, x: Option<Ballot>, y: Option<Ballot>, hint: bool| {
            let _ = r.on_answer(0, x, hint, true);
            let _ = r.on_answer(1, y, false, true);
            r.on_deadline()
        };
        let (r, t) = (|| Reader::new(q), || Reader::trusting_half(q));
        let (two, three) = (Some(b(2)), Some(b(3)));
        assert_eq!(served(&half(r(), three, two, true)), Some((3, Proof::HintHalf)));
        assert_eq!(half(r(), two, three, true), ReadStep::Unavailable);
        assert_eq!(half(r(), three, three, false), ReadStep::Unavailable);
        assert_eq!(half(r(), None, None, false), ReadStep::Absent { majority: false });
        assert_eq!(served(&half(t(), three, three, false)), Some((3, Proof::Half)));
        assert_eq!(half(t(), three, two, false), ReadStep::Unavailable);
        assert_eq!(half(t(), three, None, false), ReadStep::Unavailable);
    }

    #[test]
    fn higher_ballot_is_settled_first() {
        let mut r = Reader::new(Quorum::new(4));
        for slot in 0..2 {
            let _ = r.on_answer(slot, Some(b(2)), true, true);
        }
        let step = r.on_answer(2, Some(b(2)), true, true);
        assert_eq!(served(&step), Some((2, Proof::Majority)));
        assert!(r.more());
        assert_eq!(r.on_answer(3, Some(b(3)), false, true), ReadStep::NeedIdentityRound);
        assert_eq!(r.majority_shows(), Some(b(2)));
        let mut r = Reader::new(Quorum::new(4));
        for slot in 0..3 {
            let _ = r.on_absent(slot, Ballot::ZERO, true);
        }
        assert_eq!(r.step(), ReadStep::Absent { majority: true });
        assert_eq!(r.on_answer(3, Some(b(3)), false, true), ReadStep::NeedIdentityRound);
    }

    #[test]
    fn absence_has_a_horizon() {
        let four = |horizons: [u64; 3], record: u64, hint: bool| {
            let mut r = Reader::new(Quorum::new(4));
            let _ = r.on_answer(1, Some(b(record)), hint, true);
            let _ = r.on_absent(0, b(horizons[0]), true);
            let two = r.on_absent(2, b(horizons[1]), true);
            (two, r.on_absent(3, b(horizons[2]), true))
        };
        let gone = ReadStep::Absent { majority: true };
        assert_eq!(four([8, 7, 9], 5, true), (gone.clone(), gone.clone()));
        assert_eq!(four([8, 4, 9], 5, true), (ReadStep::Wait, gone));
        // A write that was not completed is not old.
        assert_eq!(four([4, 4, 4], 5, false).1, ReadStep::NeedIdentityRound);
        // Half of the drives: the drive with newer information invalidates the hint.
        let mut r = Reader::new(Quorum::new(4));
        let _ = r.on_answer(1, Some(b(5)), true, true);
        let _ = r.on_absent(0, b(9), true);
        assert_eq!(r.on_deadline(), ReadStep::Unavailable);
    }

    #[test]
    fn one_sync_reads_need_more_voters() {
        let mut r = Reader::new(Quorum::new(6)); // 4+2: M = 4, k + f = 5
        for slot in 0..4 {
            let _ = r.on_answer_one_sync(slot, b(3), false, true, true, 5);
        }
        assert_eq!(r.step(), ReadStep::Wait);
        let step = r.clone().on_answer_one_sync(4, b(3), false, true, true, 5);
        assert_eq!(served(&step), Some((3, Proof::Majority)));
        assert_eq!(r.on_deadline(), ReadStep::NeedIdentityRound);
        assert_eq!(served(&r.on_answer_one_sync(4, b(3), true, true, true, 5)).map(|s| s.0), Some(3));
    }
}
