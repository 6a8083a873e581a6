//! The collector of staged data that no record names (docs/protocol.md 2.6).
//!
//! A coordinator that crashes leaves shards behind. They may be dropped only when no record that names them
//! can ever become the state of the register. Reading the records is not enough. Winning PREPARE with a
//! ballot c at a majority is not enough either: a record of a lower ballot may be on a slot outside that
//! majority, and a later proposer would find it there as the highest and build on data that is gone (found by
//! the model, mutant "collector only prepares"). So either
//! * **all n** slots are voters, promise c, and none of their records names the data: nothing below c can be
//!   accepted anywhere any more, and no write is needed; or
//! * the base of a majority does not name it and the base is accepted again under c until chosen (an identity
//!   round; a tombstone if there was no record).
//!
//! Then each drive drops the shard by [`crate::Acceptor::may_drop`], unless its own record names it. A writer
//! that returns with a ballot above c first has its stages confirmed again, which fails if they are gone.
//!
//! Must not depend on: files, sockets, clocks, what a record contains.

use crate::proposer::{Proposer, Step};
use crate::quorum::{Quorum, Slot, SlotSet};
use ashlar_format::Ballot;

/// The collector's next step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SweepStep<V> {
    /// More answers are needed.
    Wait,
    /// A record names the data, or may name it: the data stays.
    Keep,
    /// Call [`Sweep::propose`] and send ACCEPT with this base (a tombstone if there is none).
    Round(Option<(Ballot, V)>),
    /// The data may be dropped on every drive, under the ballot of this sweep.
    Drop,
    /// Try again later: another proposer has a higher ballot (given), too few slots answer, or a plain
    /// identity round must first settle an undecided one-sync record.
    Later {
        /// A ballot to go above, if known.
        retry_above: Option<Ballot>,
    },
}

/// One sweep of the stages of one write id under one ballot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sweep<V> {
    quorum: Quorum,
    inner: Proposer<V>,
    /// The record of some promiser names the data.
    named: bool,
    /// The highest accepted ballot seen, and whether its record names the data.
    top: Ballot,
    top_names: bool,
    base: Option<Option<(Ballot, V)>>,
    base_open: bool,
    /// Slots that will not promise.
    away: SlotSet,
    over: bool,
}

impl<V> Sweep<V> {
    /// `ballot` must be above the stage ballot of every shard to be dropped.
    #[must_use]
    pub fn new(quorum: Quorum, ballot: Ballot) -> Sweep<V> {
        Sweep {
            quorum,
            inner: Proposer::new(quorum, ballot),
            named: false,
            top: Ballot::ZERO,
            top_names: false,
            base: None,
            base_open: true,
            away: SlotSet::EMPTY,
            over: false,
        }
    }

    /// The underlying proposer.
    #[must_use]
    pub fn proposer(&self) -> &Proposer<V> {
        &self.inner
    }

    /// The state that concerns one slot, as bits: for traces, and for the model checker, which treats slots
    /// as interchangeable.
    #[must_use]
    pub fn slot_bits(&self, slot: Slot) -> u32 {
        u32::from(self.inner.slot_bits(slot)) << 1 | u32::from(self.away.contains(slot))
    }

    /// Hashes the rest of the state, which concerns no single slot.
    pub fn hash_shared<S: std::hash::Hasher>(&self, state: &mut S)
    where
        V: std::hash::Hash,
    {
        use std::hash::Hash;
        self.inner.hash_shared(state);
        (self.named, self.top, self.top_names, &self.base, self.base_open, self.over).hash(state);
    }

    /// A voter promised. `names`: its record names the data. A one-sync record is passed like any other, with
    /// `undecided` unless a hint says that it is chosen.
    pub fn on_promise(
        &mut self,
        slot: Slot,
        accepted: Option<(Ballot, V)>,
        names: bool,
        undecided: bool,
    ) -> SweepStep<V> {
        if self.over {
            return SweepStep::Wait;
        }
        if undecided {
            return self.end(SweepStep::Later { retry_above: None });
        }
        self.named |= names;
        // Once a majority has given the base, a higher record on another slot is dead.
        if let Some((b, _)) = &accepted
            && self.base_open
            && *b > self.top
        {
            self.top = *b;
            self.top_names = names;
        }
        let step = self.inner.on_promise(slot, accepted);
        self.took(step)
    }

    /// A voter promised. It has no record and accepts none up to `horizon`.
    pub fn on_absent(&mut self, slot: Slot, horizon: Ballot) -> SweepStep<V> {
        if self.over {
            return SweepStep::Wait;
        }
        let step = self.inner.on_absent(slot, horizon);
        self.took(step)
    }

    /// A slot refused PREPARE.
    pub fn on_refused(&mut self, slot: Slot, highest: Ballot) -> SweepStep<V> {
        self.away.insert(slot);
        let step = self.inner.on_refused(slot, highest);
        self.took(step)
    }

    /// A slot does not answer PREPARE, or is joining.
    pub fn on_silent(&mut self, slot: Slot) -> SweepStep<V> {
        self.away.insert(slot);
        let step = self.inner.on_silent(slot);
        self.took(step)
    }

    fn took(&mut self, step: Step<V>) -> SweepStep<V> {
        match step {
            Step::Base(base, _) => {
                self.base = Some(base);
                self.base_open = false;
            }
            Step::Lost { retry_above } => {
                return self.end(SweepStep::Later { retry_above: Some(retry_above) });
            }
            Step::Unavailable | Step::Recover(_) => {
                return self.end(SweepStep::Later { retry_above: None });
            }
            Step::Wait | Step::Chosen => {}
        }
        if self.over || self.base.is_none() {
            return SweepStep::Wait;
        }
        if self.top_names {
            return self.end(SweepStep::Keep);
        }
        let promised = self.inner.promised_by();
        if promised == self.quorum.all() && !self.named {
            return self.end(SweepStep::Drop);
        }
        if self.named || promised.or(self.away) == self.quorum.all() {
            // Not all slots promised, or an overtaken record names it: choose the base again, above that
            // record.
            return self.base.take().map_or(SweepStep::Wait, SweepStep::Round);
        }
        SweepStep::Wait
    }

    fn end(&mut self, step: SweepStep<V>) -> SweepStep<V> {
        self.over = true;
        step
    }

    /// The caller sends ACCEPT of the base to all slots.
    ///
    /// # Panics
    /// If [`SweepStep::Round`] was not returned, or the sweep has ended since.
    pub fn propose(&mut self) {
        assert!(!self.over, "the sweep is over");
        self.inner.propose(0);
    }

    /// A voter has flushed the base under this ballot.
    pub fn on_accepted(&mut self, slot: Slot) -> SweepStep<V> {
        match self.inner.on_accepted(slot) {
            Step::Chosen if !self.over => self.end(SweepStep::Drop),
            _ => SweepStep::Wait,
        }
    }

    /// A slot refused ACCEPT.
    pub fn on_accept_refused(&mut self, slot: Slot, highest: Ballot) -> SweepStep<V> {
        let step = self.inner.on_accept_refused(slot, highest);
        self.took_accept(step)
    }

    /// A slot does not answer ACCEPT, or is joining.
    pub fn on_accept_silent(&mut self, slot: Slot) -> SweepStep<V> {
        let step = self.inner.on_accept_silent(slot);
        self.took_accept(step)
    }

    fn took_accept(&mut self, step: Step<V>) -> SweepStep<V> {
        match step {
            Step::Lost { retry_above } => self.end(SweepStep::Later { retry_above: Some(retry_above) }),
            Step::Unavailable => self.end(SweepStep::Later { retry_above: None }),
            _ => SweepStep::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn b(counter: u64) -> Ballot {
        Ballot { counter, ..Ballot::ZERO }
    }

    fn sweep() -> Sweep<&'static str> {
        Sweep::new(Quorum::new(3), b(9))
    }

    #[test]
    fn all_promised_and_none_names_data() {
        let mut s = sweep();
        assert_eq!(s.on_promise(0, None, false, false), SweepStep::Wait);
        assert_eq!(s.on_promise(1, Some((b(1), "x")), false, false), SweepStep::Wait);
        assert_eq!(s.on_promise(2, None, false, false), SweepStep::Drop);
    }

    #[test]
    fn record_naming_data_keeps_it() {
        let mut s = sweep();
        assert_eq!(s.on_promise(0, Some((b(1), "x")), false, false), SweepStep::Wait);
        assert_eq!(s.on_promise(1, Some((b(2), "names")), true, false), SweepStep::Keep);
    }

    #[test]
    fn missing_slot_or_dead_record_needs_round() {
        let mut s = sweep();
        let _ = s.on_promise(0, Some((b(1), "x")), false, false);
        assert_eq!(s.on_promise(1, None, false, false), SweepStep::Wait);
        let mut dead = s.clone();
        assert_eq!(s.on_silent(2), SweepStep::Round(Some((b(1), "x"))));
        s.propose();
        assert_eq!(s.on_accepted(0), SweepStep::Wait);
        assert_eq!(s.on_accepted(2), SweepStep::Drop);
        let step = dead.on_promise(2, Some((b(3), "names")), true, false);
        assert_eq!(step, SweepStep::Round(Some((b(1), "x"))));
    }
}
