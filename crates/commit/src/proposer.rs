//! The proposer: one attempt to change one register (docs/protocol.md 2.3).
//!
//! Life: PREPARE to all slots -> [`Proposer::on_promise`] until a base is known -> conditions are
//! checked by the caller -> data durable on k' + f drives -> [`Proposer::propose`] -> ACCEPT to all
//! slots -> [`Proposer::on_accepted`] until chosen. A lost attempt is followed by a new `Proposer`
//! with a higher ballot; pauses between attempts (duels) are the caller's.
//!
//! What the caller must know:
//! * **Undecided base.** `Base(_, false)` means the base may not be chosen yet. Building a new
//!   record on it is fine (that chooses it too). *Answering* from it (412, 404, a read) is not:
//!   first complete it by an identity round, `propose(0)` with the base itself as the record, and
//!   answer after `Chosen`.
//! * **Nothing to change.** An update that finds nothing to change and answers success is held to
//!   more: no record of an earlier operation may appear afterwards. It may answer without a round only
//!   if [`Proposer::idle_known`], else after an identity round. (Mutant `IdleDelete`.)
//! * **Absence has a horizon.** A drive without a record says up to which ballot it takes none any more.
//!   A record against which H voters say "none, and none up to there" is dead: a chosen one would be on
//!   one of them, unless a later tombstone was purged. It is no base, and never answered from without
//!   a round, which writes over it. (Mutant `AbsenceWithoutHorizon`.)
//! * **Unknown outcome.** After ACCEPTs were sent, `Lost` and `Unavailable` do not mean "not
//!   written": somebody else's round may complete the record ([`Proposer::maybe_accepted`]). The
//!   next attempt is a [`Proposer::retry`]. It must look for its own write id in the new base and,
//!   if it is there, complete that base instead of applying the change twice. A base without it
//!   proves nothing yet, even one that is chosen: the record may wait on a slot outside this
//!   majority, and be built upon later. So before a retry answers "not done" (412, 404), its base
//!   must be chosen again under its own ballot (`Base(_, false)` asks for that; a tombstone where
//!   there is no record).
//! * **Retry with staged data.** The stages of an earlier attempt count again only after each drive
//!   has confirmed them for the new ballot ([`crate::Acceptor::confirm`]); the collector may have
//!   dropped them in between.
//! * **Base without enough shards.** A staged record is in the register only if its data was on
//!   k' + f drives. If drives have died since, the record can still be completed and built upon:
//!   the register needs no shard. Reading it is 503 and healing it is another matter; a writer that
//!   dropped such a version from the list would hide a loss. One-sync records: [`crate::Footing`].
//!
//! Slots answer in any order; a repeated answer changes nothing. No step allocates.

use crate::quorum::{Quorum, Slot, SlotSet};
use crate::recover::{Footing, OneSync, Recovery, Verdict, judge};
use ashlar_format::Ballot;
use smallvec::SmallVec;

/// What follows from an answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step<V> {
    /// More answers are needed.
    Wait,
    /// A majority promised. The base is the record with the highest accepted ballot, or `None`
    /// when the register was never written. The flag: is the base known to be chosen?
    Base(Option<(Ballot, V)>, bool),
    /// A majority promised, and the highest accepted record is a one-sync record that cannot
    /// simply be built upon.
    Recover(Recovery<V>),
    /// The record is chosen: this is the linearization point. Said once.
    Chosen,
    /// A higher ballot is in the way; try again with a ballot above.
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

/// See the module. `V` is the record; it is moved, never cloned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Proposer<V> {
    quorum: Quorum,
    ballot: Ballot,
    phase: Phase,
    /// Highest ballot met in refusals.
    highest: Ballot,
    /// Highest ballot known chosen.
    chosen: Ballot,
    promised: SlotSet,
    refused: SlotSet,
    silent: SlotSet,
    /// Highest accepted ballot among the promises; zero when none has a record.
    top: Ballot,
    /// Its record, until the base is given out.
    record: Option<V>,
    /// The highest purge horizons of promisers without a record, at most H, highest first.
    horizons: SmallVec<[Ballot; 8]>,
    /// The highest record is dead: the base is nothing, and a round must say so.
    dead: bool,
    /// After the base was given out, a promiser told of a record above it.
    above: bool,
    /// An earlier attempt of the operation sent ACCEPTs.
    again: bool,
    /// Set when it is a one-sync record.
    light: Option<OneSync>,
    /// Promisers with exactly this ballot, and those of them with its shard.
    top_slots: SlotSet,
    top_shards: SlotSet,
    /// Shards that must be durable before anything is built on the base; 0 = solid.
    mend_needed: u8,
    mended: SlotSet,
    staged: SlotSet,
    /// Accepts that make the proposal chosen, and the slots that may give them.
    bar: u8,
    targets: SlotSet,
    accepted: SlotSet,
    accept_refused: SlotSet,
    accept_silent: SlotSet,
}

impl<V> Proposer<V> {
    /// A new attempt. PREPARE(key, `ballot`) is to be sent to all n slots.
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
            light: None,
            top_slots: none,
            top_shards: none,
            mend_needed: 0,
            mended: none,
            staged: none,
            bar: 0,
            targets: none,
            accepted: none,
            accept_refused: none,
            accept_silent: none,
        }
    }

    /// A further attempt of an operation that has sent ACCEPTs before. No base counts as known to be
    /// chosen (see the module).
    #[must_use]
    pub fn retry(quorum: Quorum, ballot: Ballot) -> Proposer<V> {
        Proposer { again: true, ..Proposer::new(quorum, ballot) }
    }

    /// The ballot of this attempt.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// The highest ballot met so far, this one included: the node's next ballots should be above
    /// it even when this attempt succeeds, so that drives that refused take part again.
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

    /// May a refusal, or a read, be answered from the base: is it known to be chosen, has no promiser told
    /// of a record above it, and is nothing of this operation under way? May change while more promises
    /// come.
    #[must_use]
    pub fn chosen_known(&self) -> bool {
        if self.again || self.above || self.dead {
            return false;
        }
        if self.top == Ballot::ZERO {
            return self.promised.without(self.top_slots).len() >= self.quorum.majority();
        }
        let bar = self.light.map_or(self.quorum.majority(), |l| l.bar(self.quorum));
        let count = if self.light.is_some() { self.top_shards } else { self.top_slots };
        self.chosen == self.top || count.len() >= bar
    }

    /// May "there was nothing to change" be answered from the base without a round? All n slots have
    /// promised and none told of a record above the base: nothing older can appear any more.
    #[must_use]
    pub fn idle_known(&self) -> bool {
        self.chosen_known() && self.promised == self.quorum.all()
    }

    /// A majority has promised, but the base is not given out yet: the slots still asked may show that the
    /// highest record is dead, or spare mending. Worth a short wait, no more; then
    /// [`Proposer::on_silent`] for them.
    #[must_use]
    pub fn could_decide(&self) -> bool {
        let unknown = |l: OneSync| {
            self.chosen != self.top
                && judge(self.quorum, l, self.promised, self.top_slots, self.top_shards) == Verdict::Unknown
        };
        self.phase == Phase::Preparing
            && self.promised.len() >= self.quorum.majority()
            && !self.light.is_some_and(unknown)
    }

    /// ACCEPTs were sent and not every slot has refused: the record is, or may become, visible.
    #[must_use]
    pub fn maybe_accepted(&self) -> bool {
        self.bar > 0 && self.accept_refused.len() < self.targets.len()
    }

    fn check(&self, slot: Slot) {
        assert!(slot < self.quorum.n, "slot {slot} of {}", self.quorum.n);
    }

    /// A drive says that `ballot` is chosen (the HINT beside its accepted pair).
    pub fn on_hint(&mut self, ballot: Ballot) {
        self.chosen = self.chosen.max(ballot);
    }

    /// A voter promised and told its accepted pair, a staged record or none.
    pub fn on_promise(&mut self, slot: Slot, accepted: Option<(Ballot, V)>) -> Step<V> {
        self.promise(slot, accepted, None, false)
    }

    /// A voter promised and has no record, nor takes one up to `horizon` (its purge horizon).
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

    /// Voters that have no record and take none of the ballot of the highest record, H at most.
    fn against(&self) -> u8 {
        self.horizons.iter().take_while(|h| **h >= self.top).count() as u8
    }

    /// A voter promised and told its accepted pair, a one-sync record. `holds_shard`: the drive
    /// has the record's shard too (false on a drive that copied the record while joining).
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
        light: Option<OneSync>,
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
            // After the base is given out a higher record cannot be a chosen one: it is on too few
            // of the slots that promised. A proposal keeps its base; an answer needs a round first.
            self.above |= b > self.top && self.phase != Phase::Preparing;
            if b > self.top && self.phase == Phase::Preparing {
                self.top = b;
                self.record = Some(record);
                self.light = light;
                self.top_slots = SlotSet::EMPTY;
                self.top_shards = SlotSet::EMPTY;
            }
            if b == self.top {
                if light.is_none() {
                    // Copied as an ordinary record by a drive that joined: it was known solid.
                    self.light = None;
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
            // The answer to a repeated PREPARE; only the first answer, which is lost, counts.
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

    /// The step of the first phase.
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
                    return self.bury();
                }
                if against > 0 && against + open >= half {
                    return Step::Wait;
                }
            }
            let verdict = match self.light {
                // What is chosen was on k' + f drives.
                Some(l) if self.chosen != self.top => {
                    judge(self.quorum, l, self.promised, self.top_slots, self.top_shards)
                }
                _ => Verdict::Solid,
            };
            let more = |l: OneSync| self.top_shards.len() + open >= l.needed;
            match (verdict, self.light) {
                (Verdict::Unknown, _) if open > 0 => return Step::Wait,
                (Verdict::Unknown, _) => {}
                // The slots still asked may spare the mending; the caller ends the wait.
                (Verdict::Mend, Some(l)) if open > 0 && more(l) => return Step::Wait,
                (Verdict::Mend | Verdict::Overtaken, Some(light)) => {
                    return self.recover(verdict, light);
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
        // No verdict can come any more. Slots that refused would answer a higher ballot.
        self.phase = Phase::Done;
        if self.refused.is_empty() || self.promised.len() + self.refused.len() + open < m {
            Step::Unavailable
        } else {
            Step::Lost { retry_above: self.highest }
        }
    }

    /// The highest record is dead, and with it every lower one.
    fn bury(&mut self) -> Step<V> {
        self.phase = Phase::Based;
        self.dead = true;
        self.record = None;
        self.light = None;
        Step::Base(None, false)
    }

    fn recover(&mut self, verdict: Verdict, light: OneSync) -> Step<V> {
        self.phase = Phase::Based;
        let Some(value) = self.record.take() else { unreachable!("a light record was kept") };
        let footing = if verdict == Verdict::Mend {
            self.mend_needed = light.needed;
            self.mended = self.top_shards;
            Footing::Mend { holders: self.top_shards, needed: light.needed }
        } else {
            // Nothing is known about the parent.
            self.chosen = Ballot::ZERO;
            self.top_slots = SlotSet::EMPTY;
            self.top_shards = SlotSet::EMPTY;
            Footing::Overtaken
        };
        Step::Recover(Recovery { ballot: self.top, value, footing })
    }

    /// A shard of the base was made and flushed on this slot, under this attempt's ballot.
    pub fn on_mended(&mut self, slot: Slot) {
        self.check(slot);
        self.mended.insert(slot);
    }

    /// The data of the base is written anew under another write id, with another k'; the record
    /// proposed names that one. `needed` is its k' + f; shards are reported by
    /// [`Proposer::on_mended`].
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

    /// May a record be proposed that needs `needed` durable stages?
    #[must_use]
    pub fn may_propose(&self, needed: u8) -> bool {
        self.phase == Phase::Based && self.staged.len() >= needed && self.mended.len() >= self.mend_needed
    }

    /// The record is sent: ACCEPT to all slots follows this call, and only this call. `needed` is
    /// k' + f of the new data the record names, 0 if it names none (delete, tags, identity round).
    ///
    /// # Panics
    /// Without a base, without `needed` durable stages (I4), before the base is mended, or twice.
    pub fn propose(&mut self, needed: u8) {
        assert!(self.staged.len() >= needed, "I4: {} of {needed} stages", self.staged.len());
        self.send(self.quorum.majority(), self.quorum.all());
    }

    /// Like [`Proposer::propose`], with the shards of the new data inside the ACCEPTs: no STAGE.
    /// The record must carry `record` and, whole, the record it is built on. It is chosen when
    /// max(M, k' + f) voters of the targets have flushed record and shard.
    ///
    /// # Panics
    /// Without a base, before the base is mended, with too few targets, or twice.
    pub fn one_sync(&mut self, record: OneSync) {
        let bar = record.bar(self.quorum);
        assert!(record.k >= 1 && record.k <= record.needed && record.targets.len() >= bar);
        assert!(record.targets.without(self.quorum.all()).is_empty(), "unknown slots");
        self.send(bar, record.targets);
    }

    fn send(&mut self, bar: u8, targets: SlotSet) {
        assert!(self.phase == Phase::Based, "I1: proposed in {:?}", self.phase);
        assert!(self.mended.len() >= self.mend_needed, "I4: base of {} shards", self.mended.len());
        self.bar = bar;
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
        if self.accepted.len() >= self.bar {
            self.phase = Phase::Done;
            return Step::Chosen;
        }
        let refused = self.accept_refused.len();
        let possible = self.targets.len() - refused - self.accept_silent.len();
        if possible >= self.bar {
            return Step::Wait;
        }
        self.phase = Phase::Done;
        if possible + refused >= self.bar {
            Step::Lost { retry_above: self.highest }
        } else {
            Step::Unavailable
        }
    }

    /// Everything this machine knows about one slot, as bits: for traces, and for the model
    /// checker, which treats slots as interchangeable.
    #[must_use]
    pub fn slot_bits(&self, slot: Slot) -> u16 {
        [
            self.promised,
            self.refused,
            self.silent,
            self.light.map_or(SlotSet::EMPTY, |l| l.targets),
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

    /// The rest of the state, which belongs to no slot.
    pub fn hash_shared<S: std::hash::Hasher>(&self, state: &mut S)
    where
        V: std::hash::Hash,
    {
        use std::hash::Hash;
        (self.ballot, self.phase, self.highest, self.chosen, self.top, &self.record).hash(state);
        (&self.horizons, self.dead, self.above).hash(state);
        (self.again, self.mend_needed, self.bar, self.light.map(|l| (l.k, l.needed))).hash(state);
    }
}

#[cfg(test)]
#[path = "proposer_tests.rs"]
mod tests;
