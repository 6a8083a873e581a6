//! The proposer: one attempt to change one register (docs/protocol.md 2.3).
//!
//! Sequence: PREPARE to all slots -> [`Proposer::on_promise`] until a base is known -> the caller evaluates
//! conditions -> data durable on k' + f drives -> [`Proposer::propose`] -> ACCEPT to all slots ->
//! [`Proposer::on_accepted`] until chosen. After a lost attempt, the caller makes a new `Proposer` with a
//! higher ballot; the caller also pauses between attempts (duels).
//!
//! What the caller must observe:
//! * **Undecided base.** `Base(_, false)` means that the base may not be chosen yet. Building a new record on
//!   it is allowed (that chooses it too). *Answering* from it (412, 404, a read) is not: first complete it by
//!   an identity round, `propose(0)` with the base itself as the record, and answer after `Chosen`.
//! * **Nothing to change.** An update that finds nothing to change and answers success must meet a stronger
//!   condition: no record of an earlier operation may appear afterwards. It may answer without a round only
//!   if [`Proposer::idle_known`], else after an identity round. (Mutant `IdleDelete`.)
//! * **Absence has a horizon.** A drive without a record states the ballot up to which it accepts none any
//!   more. A record is dead if H voters state "no record, and none accepted up to its ballot": if it were
//!   chosen, it would be on one of them, unless a later tombstone was purged. A dead record is no base, and
//!   no answer is given from it without a round, which overwrites it. (Mutant `AbsenceWithoutHorizon`.)
//! * **Unknown outcome.** After ACCEPTs were sent, `Lost` and `Unavailable` do not mean "not written": the
//!   round of another proposer may complete the record ([`Proposer::maybe_accepted`]). The next attempt is a
//!   [`Proposer::retry`]. It must look for its own write id in the new base. If the id is there, it must
//!   complete that base instead of applying the change twice. A base without the id proves nothing yet, even
//!   a chosen one: the record may be on a slot outside this majority, and a later record may be built on it.
//!   So before a retry answers "not done" (412, 404), its base must be chosen again under its own ballot
//!   (`Base(_, false)` asks for that; a tombstone if there is no record).
//! * **Retry with staged data.** The stages of an earlier attempt count again only after each drive has
//!   confirmed them for the new ballot ([`crate::Acceptor::confirm`]); the collector may have dropped them in
//!   between.
//! * **Base without enough shards.** A staged record is in the register only if its data was on k' + f
//!   drives. If drives have been lost since, the record can still be completed and built upon: the register
//!   needs no shard. A read of it answers 503, and heal handles it separately; a writer that dropped such a
//!   version from the list would hide a loss. One-sync records: [`crate::Footing`].
//!
//! Slots answer in any order; a repeated answer changes nothing. No step allocates.
//!
//! Must not depend on: files, sockets, clocks, what a record contains.

use crate::quorum::{Quorum, Slot, SlotSet};
use crate::recover::{Footing, OneSync, Recovery, Verdict, judge};
use ashlar_format::Ballot;
use smallvec::SmallVec;

/// The next step after an answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step<V> {
    /// More answers are needed.
    Wait,
    /// A majority promised. The base is the record with the highest accepted ballot, or `None` if the
    /// register was never written. The flag tells whether the base is known to be chosen.
    Base(Option<(Ballot, V)>, bool),
    /// A majority promised, and the highest accepted record is a one-sync record that needs recovery before
    /// anything is built on it.
    Recover(Recovery<V>),
    /// The record is chosen: this is the linearization point. Returned once.
    Chosen,
    /// Another proposer has a higher ballot; try again with a ballot above it.
    Lost {
        /// The highest ballot seen.
        retry_above: Ballot,
    },
    /// Too few slots answer.
    Unavailable,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Preparing,
    Based,
    Proposed,
    Done,
}

/// One attempt; see the module. `V` is the record; it is moved, never cloned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Proposer<V> {
    quorum: Quorum,
    ballot: Ballot,
    phase: Phase,
    /// Highest ballot in any refusal.
    highest: Ballot,
    /// Highest ballot known to be chosen.
    chosen: Ballot,
    promised: SlotSet,
    refused: SlotSet,
    silent: SlotSet,
    /// Highest accepted ballot among the promises; zero when none has a record.
    top: Ballot,
    /// The record of that ballot, until the base is returned.
    record: Option<V>,
    /// The highest purge horizons of promisers without a record, at most H, in descending order.
    horizons: SmallVec<[Ballot; 8]>,
    /// The highest record is dead: the base is empty, and a round must establish that.
    dead: bool,
    /// After the base was returned, a promiser reported a record above it.
    above: bool,
    /// An earlier attempt of the operation sent ACCEPTs.
    again: bool,
    /// Set if the highest record is a one-sync record.
    one_sync: Option<OneSync>,
    /// Promisers with exactly the ballot `top`, and those of them that have the shard of its record.
    top_slots: SlotSet,
    top_shards: SlotSet,
    /// Number of shards that must be durable before anything is built on the base; 0: none are missing.
    mend_needed: u8,
    mended: SlotSet,
    staged: SlotSet,
    /// Number of accepts that make the proposal chosen, and the slots that may give them.
    accepts_needed: u8,
    targets: SlotSet,
    accepted: SlotSet,
    accept_refused: SlotSet,
    accept_silent: SlotSet,
}

impl<V> Proposer<V> {
    /// A new attempt. The caller sends PREPARE(key, `ballot`) to all n slots.
    #[must_use]
    pub fn new(quorum: Quorum, ballot: Ballot) -> Proposer<V> {
        assert!(ballot > Ballot::fence(ballot.epoch), "a proposer's ballot is above its fence");
        let none = SlotSet::EMPTY;
        Proposer {
            quorum,
            ballot,
            phase: Phase::Preparing,
            highest: ballot,
            chosen: Ballot::ZERO,
            promised: none,
            refused: none,
            silent: none,
            top: Ballot::ZERO,
            record: None,
            horizons: SmallVec::new(),
            dead: false,
            above: false,
            again: false,
            one_sync: None,
            top_slots: none,
            top_shards: none,
            mend_needed: 0,
            mended: none,
            staged: none,
            accepts_needed: 0,
            targets: none,
            accepted: none,
            accept_refused: none,
            accept_silent: none,
        }
    }

    /// A further attempt of an operation that has sent ACCEPTs before. No base counts as known to be chosen
    /// (see the module).
    #[must_use]
    pub fn retry(quorum: Quorum, ballot: Ballot) -> Proposer<V> {
        Proposer { again: true, ..Proposer::new(quorum, ballot) }
    }

    /// The ballot of this attempt.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// The highest ballot seen so far, including this one. The node's next ballots should be above it even if
    /// this attempt succeeds, so that drives that refused take part again.
    #[must_use]
    pub fn highest(&self) -> Ballot {
        self.highest
    }

    /// Slots that promised.
    #[must_use]
    pub fn promised_by(&self) -> SlotSet {
        self.promised
    }

    /// Slots whose accept counted.
    #[must_use]
    pub fn accepted_by(&self) -> SlotSet {
        self.accepted
    }

    /// Slots with a durable stage for this attempt.
    #[must_use]
    pub fn staged_by(&self) -> SlotSet {
        self.staged
    }

    /// Whether a refusal, or a read, may be answered from the base: the base is known to be chosen, no
    /// promiser reported a record above it, and nothing of this operation is under way. The result may change
    /// when more promises arrive.
    #[must_use]
    pub fn chosen_known(&self) -> bool {
        if self.again || self.above || self.dead {
            return false;
        }
        if self.top == Ballot::ZERO {
            return self.promised.without(self.top_slots).len() >= self.quorum.majority();
        }
        let accepts_needed = self.one_sync.map_or(self.quorum.majority(), |l| l.accepts_needed(self.quorum));
        let count = if self.one_sync.is_some() { self.top_shards } else { self.top_slots };
        self.chosen == self.top || count.len() >= accepts_needed
    }

    /// Whether "nothing to change" may be answered from the base without a round: all n slots have promised
    /// and none reported a record above the base, so nothing older can appear any more.
    #[must_use]
    pub fn idle_known(&self) -> bool {
        self.chosen_known() && self.promised == self.quorum.all()
    }

    /// A majority has promised, but the base is not returned yet: the slots that have not answered may show
    /// that the highest record is dead, or make mending unnecessary. The caller should wait only briefly,
    /// then call [`Proposer::on_silent`] for them.
    #[must_use]
    pub fn could_decide(&self) -> bool {
        let unknown = |l: OneSync| {
            self.chosen != self.top
                && judge(self.quorum, l, self.promised, self.top_slots, self.top_shards) == Verdict::Unknown
        };
        self.phase == Phase::Preparing
            && self.promised.len() >= self.quorum.majority()
            && !self.one_sync.is_some_and(unknown)
    }

    /// Whether ACCEPTs were sent and not every slot has refused: the record is, or may become, visible.
    #[must_use]
    pub fn maybe_accepted(&self) -> bool {
        self.accepts_needed > 0 && self.accept_refused.len() < self.targets.len()
    }

    fn check(&self, slot: Slot) {
        assert!(slot < self.quorum.n, "slot {slot} of {}", self.quorum.n);
    }

    /// A drive reports that `ballot` is chosen (the HINT with its accepted pair).
    pub fn on_hint(&mut self, ballot: Ballot) {
        self.chosen = self.chosen.max(ballot);
    }

    /// A voter promised and sent its accepted pair: a staged record or none.
    pub fn on_promise(&mut self, slot: Slot, accepted: Option<(Ballot, V)>) -> Step<V> {
        self.promise(slot, accepted, None, false)
    }

    /// A voter promised. It has no record and accepts none up to `horizon` (its purge horizon).
    pub fn on_absent(&mut self, slot: Slot, horizon: Ballot) -> Step<V> {
        self.check(slot);
        if !self.promised.contains(slot) {
            let at = self.horizons.iter().take_while(|h| **h >= horizon).count();
            let most = usize::from(self.quorum.half());
            if horizon > Ballot::ZERO && at < most {
                self.horizons.truncate(most - 1);
                self.horizons.insert(at, horizon);
            }
        }
        self.promise(slot, None, None, false)
    }

    /// Number of voters that have no record and accept none of the ballot of the highest record, at most H.
    fn against(&self) -> u8 {
        self.horizons.iter().take_while(|h| **h >= self.top).count() as u8
    }

    /// A voter promised and sent its accepted pair, a one-sync record. `holds_shard`: the drive has the
    /// record's shard too (false on a drive that copied the record while joining).
    pub fn on_promise_one_sync(
        &mut self,
        slot: Slot,
        accepted: (Ballot, V),
        record: OneSync,
        holds_shard: bool,
    ) -> Step<V> {
        self.promise(slot, Some(accepted), Some(record), holds_shard)
    }

    fn promise(
        &mut self,
        slot: Slot,
        accepted: Option<(Ballot, V)>,
        one_sync: Option<OneSync>,
        holds_shard: bool,
    ) -> Step<V> {
        self.check(slot);
        if !self.promised.insert(slot) {
            return Step::Wait;
        }
        self.refused.remove(slot);
        self.silent.remove(slot);
        if let Some((b, record)) = accepted {
            assert!(b > Ballot::ZERO && b < self.ballot, "promised {:?} at {b:?}", self.ballot);
            // After the base is returned, a higher record cannot be chosen: too few of the slots that
            // promised have it. A proposal keeps its base; an answer needs a round first.
            self.above |= b > self.top && self.phase != Phase::Preparing;
            if b > self.top && self.phase == Phase::Preparing {
                self.top = b;
                self.record = Some(record);
                self.one_sync = one_sync;
                self.top_slots = SlotSet::EMPTY;
                self.top_shards = SlotSet::EMPTY;
            }
            if b == self.top {
                if one_sync.is_none() {
                    // A drive that joined copied it as an ordinary record: its data was known to be durable.
                    self.one_sync = None;
                }
                self.top_slots.insert(slot);
                if holds_shard {
                    self.top_shards.insert(slot);
                }
            }
        }
        self.settle()
    }

    /// A slot refused PREPARE; `highest` is what it has promised.
    pub fn on_refused(&mut self, slot: Slot, highest: Ballot) -> Step<V> {
        self.check(slot);
        self.highest = self.highest.max(highest);
        if self.promised.contains(slot) {
            return Step::Wait;
        }
        if highest == self.ballot {
            // The answer to a repeated PREPARE. Only the first answer counts, and it is lost.
            self.silent.insert(slot);
        } else {
            self.refused.insert(slot);
        }
        self.settle()
    }

    /// A slot does not answer PREPARE, or cannot vote.
    pub fn on_silent(&mut self, slot: Slot) -> Step<V> {
        self.check(slot);
        if !self.promised.contains(slot) && !self.refused.contains(slot) {
            self.silent.insert(slot);
        }
        self.settle()
    }

    /// The next step of the first phase.
    fn settle(&mut self) -> Step<V> {
        if self.phase != Phase::Preparing {
            return Step::Wait;
        }
        let m = self.quorum.majority();
        let heard = self.promised.or(self.refused).or(self.silent);
        let open = self.quorum.n - heard.len();
        if self.promised.len() >= m {
            if self.top > Ballot::ZERO {
                let (against, half) = (self.against(), self.quorum.half());
                if against >= half {
                    return self.discard_dead();
                }
                if against > 0 && against + open >= half {
                    return Step::Wait;
                }
            }
            let verdict = match self.one_sync {
                // A chosen record was on k' + f drives.
                Some(l) if self.chosen != self.top => {
                    judge(self.quorum, l, self.promised, self.top_slots, self.top_shards)
                }
                _ => Verdict::Solid,
            };
            let more = |l: OneSync| self.top_shards.len() + open >= l.needed;
            match (verdict, self.one_sync) {
                (Verdict::Unknown, _) if open > 0 => return Step::Wait,
                (Verdict::Unknown, _) => {}
                // The slots that have not answered may make mending unnecessary; the caller ends the wait.
                (Verdict::Mend, Some(l)) if open > 0 && more(l) => return Step::Wait,
                (Verdict::Mend | Verdict::Overtaken, Some(one_sync)) => {
                    return self.recover(verdict, one_sync);
                }
                _ => {
                    self.phase = Phase::Based;
                    let chosen = self.chosen_known();
                    return Step::Base(self.record.take().map(|r| (self.top, r)), chosen);
                }
            }
        } else if self.promised.len() + open >= m {
            return Step::Wait;
        }
        // No verdict is possible any more. Slots that refused would answer a higher ballot.
        self.phase = Phase::Done;
        if self.refused.is_empty() || self.promised.len() + self.refused.len() + open < m {
            Step::Unavailable
        } else {
            Step::Lost { retry_above: self.highest }
        }
    }

    /// The highest record is dead, and with it every lower one.
    fn discard_dead(&mut self) -> Step<V> {
        self.phase = Phase::Based;
        self.dead = true;
        self.record = None;
        self.one_sync = None;
        Step::Base(None, false)
    }

    fn recover(&mut self, verdict: Verdict, one_sync: OneSync) -> Step<V> {
        self.phase = Phase::Based;
        let Some(value) = self.record.take() else { unreachable!("a one-sync record was kept") };
        let footing = if verdict == Verdict::Mend {
            self.mend_needed = one_sync.needed;
            self.mended = self.top_shards;
            Footing::Mend { holders: self.top_shards, needed: one_sync.needed }
        } else {
            // Nothing is known about the parent.
            self.chosen = Ballot::ZERO;
            self.top_slots = SlotSet::EMPTY;
            self.top_shards = SlotSet::EMPTY;
            Footing::Overtaken
        };
        Step::Recover(Recovery { ballot: self.top, value, footing })
    }

    /// A shard of the base was made and flushed on this slot, under the ballot of this attempt.
    pub fn on_mended(&mut self, slot: Slot) {
        self.check(slot);
        self.mended.insert(slot);
    }

    /// The caller writes the data of the base again under another write id, with another k'; the record it
    /// proposes names that write id. `needed` is its k' + f; [`Proposer::on_mended`] reports the shards.
    pub fn rewrite_base(&mut self, needed: u8) {
        assert!(self.mend_needed > 0 && needed > 0, "nothing to mend");
        self.mend_needed = needed;
        self.mended = SlotSet::EMPTY;
    }

    /// A shard of the new data is durable on this slot, staged or confirmed under this ballot.
    pub fn on_stage_durable(&mut self, slot: Slot) {
        self.check(slot);
        self.staged.insert(slot);
    }

    /// Whether a record that needs `needed` durable stages may be proposed.
    #[must_use]
    pub fn may_propose(&self, needed: u8) -> bool {
        self.phase == Phase::Based && self.staged.len() >= needed && self.mended.len() >= self.mend_needed
    }

    /// The caller sends the record: ACCEPT goes to all slots after this call, and only after this call.
    /// `needed` is k' + f of the new data that the record names, 0 if it names none (delete, tags, identity
    /// round).
    ///
    /// # Panics
    /// Without a base, without `needed` durable stages (I4), before the base is mended, or twice.
    pub fn propose(&mut self, needed: u8) {
        assert!(self.staged.len() >= needed, "I4: {} of {needed} stages", self.staged.len());
        self.send(self.quorum.majority(), self.quorum.all());
    }

    /// Like [`Proposer::propose`], with the shards of the new data inside the ACCEPTs: no STAGE. The record
    /// must contain `record` and a full copy of the record that it is built on. It is chosen when max(M, k' +
    /// f) voters of the targets have flushed record and shard.
    ///
    /// # Panics
    /// Without a base, before the base is mended, with too few targets, or twice.
    pub fn one_sync(&mut self, record: OneSync) {
        let accepts_needed = record.accepts_needed(self.quorum);
        assert!(record.k >= 1 && record.k <= record.needed && record.targets.len() >= accepts_needed);
        assert!(record.targets.without(self.quorum.all()).is_empty(), "unknown slots");
        self.send(accepts_needed, record.targets);
    }

    fn send(&mut self, accepts_needed: u8, targets: SlotSet) {
        assert!(self.phase == Phase::Based, "I1: proposed in {:?}", self.phase);
        assert!(self.mended.len() >= self.mend_needed, "I4: base of {} shards", self.mended.len());
        self.accepts_needed = accepts_needed;
        self.targets = targets;
        self.phase = Phase::Proposed;
    }

    fn check_accept(&self, slot: Slot) {
        self.check(slot);
        assert!(matches!(self.phase, Phase::Proposed | Phase::Done), "an answer to nothing");
        assert!(self.targets.contains(slot), "slot {slot} was not asked");
    }

    /// A voter has flushed the record (and, for one-sync, its shard).
    pub fn on_accepted(&mut self, slot: Slot) -> Step<V> {
        self.check_accept(slot);
        self.accepted.insert(slot);
        self.accept_refused.remove(slot);
        self.accept_silent.remove(slot);
        self.settle_accept()
    }

    /// A slot refused ACCEPT; `highest` is what it has promised.
    pub fn on_accept_refused(&mut self, slot: Slot, highest: Ballot) -> Step<V> {
        self.check_accept(slot);
        self.highest = self.highest.max(highest);
        if !self.accepted.contains(slot) {
            self.accept_refused.insert(slot);
        }
        self.settle_accept()
    }

    /// A slot does not answer ACCEPT, or answered that it must not be counted (joining).
    pub fn on_accept_silent(&mut self, slot: Slot) -> Step<V> {
        self.check_accept(slot);
        if !self.accepted.contains(slot) && !self.accept_refused.contains(slot) {
            self.accept_silent.insert(slot);
        }
        self.settle_accept()
    }

    fn settle_accept(&mut self) -> Step<V> {
        if self.phase != Phase::Proposed {
            return Step::Wait;
        }
        if self.accepted.len() >= self.accepts_needed {
            self.phase = Phase::Done;
            return Step::Chosen;
        }
        let refused = self.accept_refused.len();
        let possible = self.targets.len() - refused - self.accept_silent.len();
        if possible >= self.accepts_needed {
            return Step::Wait;
        }
        self.phase = Phase::Done;
        if possible + refused >= self.accepts_needed {
            Step::Lost { retry_above: self.highest }
        } else {
            Step::Unavailable
        }
    }

    /// The state that concerns one slot, as bits: for traces, and for the model checker, which treats slots
    /// as interchangeable.
    #[must_use]
    pub fn slot_bits(&self, slot: Slot) -> u16 {
        [
            self.promised,
            self.refused,
            self.silent,
            self.one_sync.map_or(SlotSet::EMPTY, |l| l.targets),
            self.top_slots,
            self.top_shards,
            self.mended,
            self.staged,
            self.targets,
            self.accepted,
            self.accept_refused,
            self.accept_silent,
        ]
        .iter()
        .enumerate()
        .fold(0, |bits, (i, set)| bits | u16::from(set.contains(slot)) << i)
    }

    /// Hashes the rest of the state, which concerns no single slot.
    pub fn hash_shared<S: std::hash::Hasher>(&self, state: &mut S)
    where
        V: std::hash::Hash,
    {
        use std::hash::Hash;
        (self.ballot, self.phase, self.highest, self.chosen, self.top, &self.record).hash(state);
        (&self.horizons, self.dead, self.above).hash(state);
        (self.again, self.mend_needed, self.accepts_needed, self.one_sync.map(|l| (l.k, l.needed)))
            .hash(state);
    }
}

#[cfg(test)]
#[path = "proposer_tests.rs"]
mod tests;
