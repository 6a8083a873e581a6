//! The acceptor: what a drive may promise and accept (docs/protocol.md 2.2).
//!
//! One per (drive, placement group): a drive may be voter in one group and joining in another, and every group
//! has a layout epoch of its own.
//!
//! Nothing here is durable. The drive owns, on its medium: per group the epoch E, the role, the floor F and the
//! purge horizon, and per register the accepted pair (ballot, record). It hands the accepted
//! ballot in with every question ([`Ballot::ZERO`] = no record).
//!
//! What the drive must do:
//! * **Floor.** Before it calls [`Acceptor::floor_raised`] the new floor has been flushed. The
//!   floor is above every promise held in memory, so a restart that promises the floor for every
//!   register forgets nothing.
//! * **Accepting.** When [`Acceptor::accept`] says go, the record is written and flushed before
//!   the answer. From the call on, the drive shows this ballot as the register's accepted ballot
//!   to later PREPAREs and ACCEPTs (checked here), and a PREPARE that is shown a record not yet
//!   flushed is answered after the flush. A READ is shown only flushed records. Of two ACCEPTs
//!   for one register the one with the higher ballot stays.
//! * **A failed flush** fences the drive: nothing more is answered, and it comes back only by
//!   joining (2.7).
//! * **Epochs.** [`Acceptor::fence`] is called after the new epoch was flushed. A drive whose
//!   journal tail was corrupt (not torn) has forgotten something and joins under a *new* epoch.

use crate::promises::{Held, PromiseTable, Promises};
use ashlar_format::Ballot;

/// May the drive vote?
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// It holds everything a voter of its slot must hold.
    Voter,
    /// Blank, or being filled: takes data and records, is never counted (I6).
    Joining,
}

/// Answer to PREPARE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PrepareAnswer {
    /// Promised: nothing below the ballot will be accepted. The drive adds its accepted pair.
    Promised,
    /// A ballot at least as high was promised or accepted.
    Refused {
        /// It; the proposer must go above.
        highest: Ballot,
    },
    /// Flush this floor, call [`Acceptor::floor_raised`], then ask again.
    RaiseFloorFirst {
        /// The new floor.
        to: Ballot,
    },
    /// A joining drive does not promise.
    NotVoter,
}

/// Answer to ACCEPT.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AcceptAnswer {
    /// Write the record, flush, then answer "accepted": it counts.
    Go,
    /// Write the record, flush, then answer that it is there but must not be counted: the drive
    /// is joining.
    GoUncounted,
    /// This very ballot was accepted before (a repeated message; by I1 it carries the same
    /// record): answer again once that record is flushed, write nothing.
    Already {
        /// Does the answer count?
        counted: bool,
    },
    /// A higher ballot was promised or accepted, or the epoch is over.
    Refused {
        /// The highest.
        highest: Ballot,
    },
}

/// Answer to the question of a writer with a raised ballot whether its staged shard is still safe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConfirmAnswer {
    /// Note the ballot as the shard's stage ballot, in memory; the shard counts as durable.
    Confirmed,
    /// Flush this floor, call [`Acceptor::floor_raised`], then ask again.
    RaiseFloorFirst {
        /// The new floor.
        to: Ballot,
    },
}

/// Counters a floor is raised ahead of the ballot that needs it: one flush per this many ballots.
/// A restart skips at most twice as many, of 2^64.
pub const HEADROOM: u64 = 1 << 20;

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Acceptor<P = PromiseTable> {
    role: Role,
    epoch: u32,
    /// Durable; above every promise made by PREPARE.
    floor: Ballot,
    /// Promised for every register without an entry.
    base: Ballot,
    /// Durable; no ballot up to here is taken for a register without a record.
    horizon: Ballot,
    /// Highest ballot seen: when it comes near the floor, the floor should rise.
    top: Ballot,
    headroom: u64,
    promises: P,
}

impl Acceptor {
    /// The acceptor of a drive that starts (or starts again) with what it holds durably: its
    /// role, its epoch, its floor. The floor becomes the promise of every register.
    ///
    /// A stored purge horizon is given by [`Acceptor::restore_horizon`] before the first question.
    #[must_use]
    pub fn new(role: Role, epoch: u32, durable_floor: Ballot) -> Acceptor {
        Acceptor::with_promises(role, epoch, durable_floor, HEADROOM, PromiseTable::default())
    }
}

impl Acceptor {
    /// Promises held in memory.
    #[must_use]
    pub fn promises(&self) -> usize {
        self.promises.len()
    }

    /// Those of the young generation.
    #[must_use]
    pub fn young_promises(&self) -> usize {
        self.promises.young()
    }

    /// Ends a generation of promises: for a drive that bounds those of many acceptors together.
    pub fn age_promises(&mut self) {
        if let Some(dropped) = self.promises.age() {
            self.base = self.base.max(dropped);
        }
    }
}

impl<P: Promises> Acceptor<P> {
    /// [`Acceptor::new`] with a chosen store of promises and headroom.
    #[must_use]
    pub fn with_promises(
        role: Role,
        epoch: u32,
        durable_floor: Ballot,
        headroom: u64,
        promises: P,
    ) -> Acceptor<P> {
        let base = durable_floor.max(Ballot::fence(epoch));
        Acceptor {
            role,
            epoch,
            floor: durable_floor,
            base,
            horizon: Ballot::ZERO,
            top: base,
            headroom,
            promises,
        }
    }

    /// Voter or joining.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The layout epoch of the group, as the drive follows it.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The durable floor.
    #[must_use]
    pub fn floor(&self) -> Ballot {
        self.floor
    }

    /// The purge horizon.
    #[must_use]
    pub fn horizon(&self) -> Ballot {
        self.horizon
    }

    /// The ballot promised for a register: only higher ones are promised, only those not below
    /// it are accepted.
    #[must_use]
    pub fn promised(&self, key: u128, accepted: Ballot) -> Ballot {
        self.highest(self.promises.get(key), accepted)
    }

    fn highest(&self, held: Held, accepted: Ballot) -> Ballot {
        let known = held.promised.max(self.base).max(accepted);
        if accepted == Ballot::ZERO { known.max(self.horizon) } else { known }
    }

    /// What is held, checked against what the index shows.
    fn held(&self, key: u128, accepted: Ballot) -> Held {
        let held = self.promises.get(key);
        assert!(accepted >= held.accepted, "index behind: {accepted:?} < {:?}", held.accepted);
        held
    }

    /// PREPARE(key, b). `accepted` is the ballot of the register's accepted pair.
    ///
    /// `key` is a keyed 128-bit hash of the register key; registers that collide share a promise,
    /// which only refuses more.
    ///
    /// # Panics
    /// If `accepted` is older than an ACCEPT that was let through (see the module).
    pub fn prepare(&mut self, key: u128, accepted: Ballot, b: Ballot) -> PrepareAnswer {
        if self.role == Role::Joining {
            return PrepareAnswer::NotVoter;
        }
        let held = self.held(key, accepted);
        let highest = self.highest(held, accepted);
        if b <= highest {
            return PrepareAnswer::Refused { highest };
        }
        self.top = self.top.max(b);
        if b > self.floor {
            return PrepareAnswer::RaiseFloorFirst { to: self.floor_above(b) };
        }
        self.hold(key, held, Held { promised: b, ..held });
        PrepareAnswer::Promised
    }

    /// ACCEPT(key, b, record). `accepted` as for [`Acceptor::prepare`].
    ///
    /// Needs no floor: what it promises is as durable as the record itself.
    ///
    /// # Panics
    /// If `accepted` is older than an ACCEPT that was let through (see the module).
    pub fn accept(&mut self, key: u128, accepted: Ballot, b: Ballot) -> AcceptAnswer {
        let held = self.held(key, accepted);
        let highest = self.highest(held, accepted);
        if b < highest || (accepted == Ballot::ZERO && b <= self.horizon) {
            return AcceptAnswer::Refused { highest };
        }
        let counted = self.role == Role::Voter;
        if b == accepted {
            return AcceptAnswer::Already { counted };
        }
        assert!(b.epoch >= self.epoch, "I3: {b:?} accepted in epoch {}", self.epoch);
        self.top = self.top.max(b);
        self.hold(key, held, Held { promised: b, accepted: b });
        if counted { AcceptAnswer::Go } else { AcceptAnswer::GoUncounted }
    }

    fn hold(&mut self, key: u128, before: Held, after: Held) {
        assert!(after.promised >= before.promised, "I2: a promise fell");
        if let Some(dropped) = self.promises.put(key, after) {
            // Either at most the floor, or the promise of a record that is written: both are
            // found again after a restart. Until then the base stands for them.
            self.base = self.base.max(dropped);
        }
    }

    /// The record accepted under `b` is flushed and in the index; the entry in memory may go.
    /// Optional: it keeps the table small.
    pub fn settled(&mut self, key: u128, b: Ballot) {
        self.promises.settle(key, b);
    }

    /// May a READ, or any other call, of a client with this epoch be answered? A drive that was fenced for a newer
    /// epoch must not help to build a majority of the old one: slots may have other drives now.
    /// The asker counts a refusal as silence and fetches the map.
    #[must_use]
    pub fn may_read(&self, reader_epoch: u32) -> bool {
        reader_epoch >= self.epoch
    }

    fn floor_above(&self, b: Ballot) -> Ballot {
        Ballot {
            epoch: b.epoch,
            counter: b.counter.saturating_add(self.headroom),
            node: u16::MAX,
            nonce: u32::MAX,
        }
    }

    /// The floor that should be flushed now, ahead of need, so that no PREPARE waits for it.
    #[must_use]
    pub fn should_raise_floor(&self) -> Option<Ballot> {
        let soon = Ballot { counter: self.top.counter.saturating_add(self.headroom / 2), ..self.top };
        (soon > self.floor).then(|| self.floor_above(self.top))
    }

    /// The floor `to` is durable.
    pub fn floor_raised(&mut self, to: Ballot) {
        // Two raises may finish out of order; the medium keeps the higher.
        self.floor = self.floor.max(to);
    }

    /// `epoch` is durable on the drive: no ballot of an earlier one is promised or accepted from
    /// here on (docs/protocol.md 2.7).
    pub fn fence(&mut self, epoch: u32) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.base = self.base.max(Ballot::fence(epoch));
            self.top = self.top.max(self.base);
        }
    }

    /// Every range was resynced and the role "voter" is durable, and with it a purge horizon of at least
    /// the fence of its epoch: whatever was chosen below it and not deleted was copied.
    ///
    /// # Panics
    /// If the drive was not joining.
    pub fn joined(&mut self) {
        assert!(self.role == Role::Joining, "joined twice");
        self.role = Role::Voter;
        self.horizon = self.horizon.max(Ballot::fence(self.epoch));
    }

    /// The stored purge horizon, at the start.
    pub fn restore_horizon(&mut self, horizon: Ballot) {
        self.horizon = self.horizon.max(horizon);
    }

    /// The tombstone `t`, the accepted pair of this register, is removed now, and the horizon `t`
    /// is durable already: no ballot up to it is taken again for a register without a record
    /// (2.6). The horizon is one for the whole group. [`crate::may_purge`] says when.
    ///
    /// # Panics
    /// If a higher ballot was accepted: then the accepted pair is not `t`.
    pub fn purged(&mut self, key: u128, t: Ballot) {
        self.horizon = self.horizon.max(t);
        let held = self.promises.get(key);
        assert!(held.accepted <= t, "purged {t:?} below {:?}", held.accepted);
        if held.accepted > Ballot::ZERO {
            self.hold(key, held, Held { accepted: Ballot::ZERO, ..held });
        }
    }

    /// May a writer count a shard staged under an older ballot as durable for its ballot `b`?
    /// The ballot is noted in memory only, so it must be below the floor: [`Acceptor::may_drop`]
    /// then refuses after a restart too.
    #[must_use]
    pub fn confirm(&self, b: Ballot) -> ConfirmAnswer {
        if b > self.floor {
            ConfirmAnswer::RaiseFloorFirst { to: self.floor_above(b) }
        } else {
            ConfirmAnswer::Confirmed
        }
    }

    /// May a shard that no record here names be dropped for a collector whose ballot is
    /// `collector` (see [`crate::Sweep`])? `stage` is the highest ballot under which the shard
    /// was staged or, since the start, confirmed. Confirmations from before a restart are not
    /// remembered, but they were at most the floor, which is the base now.
    #[must_use]
    pub fn may_drop(&self, stage: Ballot, collector: Ballot) -> bool {
        collector > stage && collector > self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn b(epoch: u32, counter: u64, node: u16) -> Ballot {
        Ballot { epoch, counter, node, nonce: 1 }
    }

    fn voter() -> Acceptor {
        let mut a = Acceptor::new(Role::Voter, 1, Ballot::ZERO);
        let to = a.should_raise_floor().expect("a new drive reserves ballots at once");
        a.floor_raised(to);
        assert_eq!(a.should_raise_floor(), None);
        a
    }

    #[test]
    fn promises_and_accepts_in_order() {
        let mut a = voter();
        let none = Ballot::ZERO;
        assert_eq!(a.prepare(7, none, b(1, 5, 1)), PrepareAnswer::Promised);
        assert_eq!(a.prepare(7, none, b(1, 5, 1)), PrepareAnswer::Refused { highest: b(1, 5, 1) });
        assert_eq!(a.accept(7, none, b(1, 4, 9)), AcceptAnswer::Refused { highest: b(1, 5, 1) });
        assert_eq!(a.accept(7, none, b(1, 5, 1)), AcceptAnswer::Go);
        assert_eq!(a.accept(7, b(1, 5, 1), b(1, 5, 1)), AcceptAnswer::Already { counted: true });
        assert_eq!(a.accept(7, b(1, 5, 1), b(1, 6, 1)), AcceptAnswer::Go, "no promise needed");
        a.settled(7, b(1, 6, 1));
        assert_eq!(a.prepare(7, b(1, 6, 1), b(1, 6, 0)), PrepareAnswer::Refused { highest: b(1, 6, 1) });
        assert_eq!(a.prepare(8, none, b(1, 1, 1)), PrepareAnswer::Promised, "other register");
    }

    #[test]
    #[should_panic(expected = "index behind")]
    fn an_index_that_lags_is_caught() {
        let mut a = voter();
        assert_eq!(a.accept(7, Ballot::ZERO, b(1, 5, 1)), AcceptAnswer::Go);
        let _ = a.prepare(7, Ballot::ZERO, b(1, 6, 1));
    }

    #[test]
    fn a_restart_forgets_no_promise() {
        let mut a = voter();
        assert_eq!(a.prepare(7, Ballot::ZERO, b(1, 50, 1)), PrepareAnswer::Promised);
        let mut again = Acceptor::new(a.role(), a.epoch(), a.floor());
        assert!(matches!(
            again.accept(7, Ballot::ZERO, b(1, 49, 1)),
            AcceptAnswer::Refused { highest } if highest == a.floor()
        ));
        let next = crate::ballot_above(a.floor(), 1, 1, 1).unwrap();
        let PrepareAnswer::RaiseFloorFirst { to } = again.prepare(7, Ballot::ZERO, next) else {
            panic!("a ballot above the floor needs a new floor")
        };
        again.floor_raised(to);
        assert_eq!(again.prepare(7, Ballot::ZERO, next), PrepareAnswer::Promised);
    }

    #[test]
    fn a_fence_and_a_horizon_refuse_the_past() {
        let mut a = voter();
        a.fence(2);
        assert!(!a.may_read(1) && a.may_read(2));
        let highest = Ballot::fence(2);
        assert_eq!(a.prepare(1, Ballot::ZERO, b(1, 9, 1)), PrepareAnswer::Refused { highest });
        assert_eq!(a.accept(1, Ballot::ZERO, b(1, 9, 1)), AcceptAnswer::Refused { highest });
        assert_eq!(a.accept(4, Ballot::ZERO, b(2, 7, 1)), AcceptAnswer::Go);
        a.purged(4, b(2, 7, 1));
        let highest = b(2, 7, 1);
        assert_eq!(a.accept(1, Ballot::ZERO, b(2, 7, 1)), AcceptAnswer::Refused { highest });
        assert_eq!(a.accept(2, b(2, 1, 1), b(2, 6, 1)), AcceptAnswer::Go, "it has a record");
        assert_eq!(a.accept(4, Ballot::ZERO, b(2, 8, 1)), AcceptAnswer::Go);
    }

    #[test]
    fn joining_takes_records_and_has_no_vote() {
        let mut a = Acceptor::new(Role::Joining, 3, Ballot::ZERO);
        assert_eq!(a.prepare(1, Ballot::ZERO, b(3, 1, 1)), PrepareAnswer::NotVoter);
        assert_eq!(a.accept(1, Ballot::ZERO, b(3, 1, 1)), AcceptAnswer::GoUncounted);
        assert_eq!(a.accept(1, b(3, 1, 1), b(3, 1, 1)), AcceptAnswer::Already { counted: false });
        assert!(matches!(a.accept(1, b(3, 1, 1), b(2, 9, 1)), AcceptAnswer::Refused { .. }));
        a.joined();
        assert_eq!(a.accept(1, b(3, 1, 1), b(3, 2, 1)), AcceptAnswer::Go);
    }

    #[test]
    fn eviction_raises_the_base_and_keeps_the_bound() {
        let table = PromiseTable::with_capacity(8);
        let mut a = Acceptor::with_promises(Role::Voter, 0, b(0, 10_000, 0), HEADROOM, table);
        a.base = Ballot::ZERO; // as if the floor had been raised while running
        for i in 1..=100u64 {
            assert_eq!(a.prepare(u128::from(i), Ballot::ZERO, b(0, i, 1)), PrepareAnswer::Promised);
            assert!(a.promises.len() <= 16);
            for old in 1..=i {
                assert!(a.promised(u128::from(old), Ballot::ZERO) >= b(0, old, 1));
            }
        }
        assert!(a.base >= b(0, 80, 1) && a.base < b(0, 100, 1));
    }

    #[test]
    fn a_confirmed_stage_outlives_a_restart() {
        let mut a = voter();
        let (stage, raised, collector) = (b(1, 1, 1), b(1, 9, 1), b(1, 5, 2));
        assert!(a.may_drop(stage, collector));
        assert_eq!(a.confirm(raised), ConfirmAnswer::Confirmed);
        assert!(!a.may_drop(stage.max(raised), collector));
        let again = Acceptor::new(a.role(), a.epoch(), a.floor());
        assert!(!again.may_drop(stage, collector), "the confirmation was in memory");
        a.fence(2);
        assert!(matches!(a.confirm(b(2, 1, 1)), ConfirmAnswer::RaiseFloorFirst { .. }));
    }
}
