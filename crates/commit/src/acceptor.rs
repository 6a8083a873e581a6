//! The acceptor: what a drive may promise and accept (docs/protocol.md 2.2).
//!
//! There is one acceptor for each pair of drive and placement group. A drive may be a voter in one group and
//! joining in another, and every group has its own layout epoch.
//!
//! Nothing here is durable. The drive stores on its medium: per group the epoch E, the role, the floor F and
//! the purge horizon; per register the accepted pair (ballot, record). It passes the accepted ballot with
//! every call ([`Ballot::ZERO`]: no record).
//!
//! What the drive must do:
//! * **Floor.** The drive flushes the new floor before it calls [`Acceptor::floor_raised`]. The floor is
//!   above every promise held in memory. So a restart that promises the floor for every register forgets
//!   nothing.
//! * **Accepting.** When [`Acceptor::accept`] returns `Go`, the drive writes and flushes the record before it
//!   answers. From the call on, the drive passes this ballot as the accepted ballot of the register to later
//!   PREPAREs and ACCEPTs (checked here). A PREPARE that would return a record not yet flushed is answered
//!   after the flush. A READ returns only flushed records. Of two ACCEPTs for one register, the one with the
//!   higher ballot stays.
//! * **A failed flush** fences the drive: it answers nothing more, and returns to service only by joining
//!   (2.7).
//! * **Epochs.** The drive calls [`Acceptor::fence`] after it has flushed the new epoch. A drive whose
//!   journal tail was corrupt (not torn) may have lost records and joins under a *new* epoch.
//!
//! Must not depend on: files, clocks, what a record contains.

use crate::promises::{PromiseState, PromiseTable, Promises};
use ashlar_format::Ballot;

/// Whether the drive may vote.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// The drive holds everything that a voter of its slot must hold.
    Voter,
    /// Blank, or being filled: the drive takes data and records but is never counted (I6).
    Joining,
}

/// Answer to PREPARE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PrepareAnswer {
    /// Promised: the drive will accept nothing below the ballot. The drive adds its accepted pair.
    Promised,
    /// The drive has promised or accepted a ballot at least as high.
    Refused {
        /// That ballot. The proposer must use a higher one.
        highest: Ballot,
    },
    /// Flush this floor, call [`Acceptor::floor_raised`], then call again.
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
    /// Write the record, flush, then answer "accepted". The answer counts.
    Go,
    /// Write the record, flush, then answer that it is stored but must not be counted: the drive is joining.
    GoUncounted,
    /// This ballot was accepted before. The message is a repetition; by I1 it carries the same record. Answer
    /// once that record is flushed, and write nothing.
    Already {
        /// Whether the answer counts.
        counted: bool,
    },
    /// The drive has promised or accepted a higher ballot, or the epoch is over.
    Refused {
        /// The highest ballot promised or accepted.
        highest: Ballot,
    },
}

/// Answer to a writer that asks, with a raised ballot, whether its staged shard is still safe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConfirmAnswer {
    /// Keep the ballot in memory as the stage ballot of the shard. The shard counts as durable.
    Confirmed,
    /// Flush this floor, call [`Acceptor::floor_raised`], then call again.
    RaiseFloorFirst {
        /// The new floor.
        to: Ballot,
    },
}

/// How many ballot counters a floor is raised above the ballot that needs it. One flush covers this many
/// ballots. A restart skips at most twice as many, of 2^64.
pub const HEADROOM: u64 = 1 << 20;

/// The state of one acceptor; see the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Acceptor<P = PromiseTable> {
    role: Role,
    epoch: u32,
    /// Durable, and above every promise that PREPARE made.
    floor: Ballot,
    /// Promised for every register that has no entry in memory.
    base: Ballot,
    /// Durable. No ballot up to here is accepted for a register without a record.
    horizon: Ballot,
    /// Highest ballot seen. When it comes near the floor, the floor should rise.
    top: Ballot,
    headroom: u64,
    promises: P,
}

impl Acceptor {
    /// An acceptor for a drive that starts or restarts, from what the drive stores durably: its role, epoch
    /// and floor. The floor becomes the promise for every register.
    ///
    /// The caller passes a stored purge horizon to [`Acceptor::restore_horizon`] before any other call.
    #[must_use]
    pub fn new(role: Role, epoch: u32, durable_floor: Ballot) -> Acceptor {
        Acceptor::with_promises(role, epoch, durable_floor, HEADROOM, PromiseTable::default())
    }
}

impl Acceptor {
    /// Number of promises held in memory.
    #[must_use]
    pub fn promises(&self) -> usize {
        self.promises.len()
    }

    /// Number of promises in the young generation.
    #[must_use]
    pub fn young_promises(&self) -> usize {
        self.promises.young()
    }

    /// Ends a generation of promises. A drive calls it to bound the promises of many acceptors together.
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

    /// The layout epoch of the group that the drive follows.
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

    /// The ballot promised for a register. The acceptor promises only higher ballots, and accepts only
    /// ballots that are not below it.
    #[must_use]
    pub fn promised(&self, key: u128, accepted: Ballot) -> Ballot {
        self.highest(self.promises.get(key), accepted)
    }

    fn highest(&self, held: PromiseState, accepted: Ballot) -> Ballot {
        let known = held.promised.max(self.base).max(accepted);
        if accepted == Ballot::ZERO { known.max(self.horizon) } else { known }
    }

    /// The state of one register in memory, checked against the accepted ballot of the index.
    fn held(&self, key: u128, accepted: Ballot) -> PromiseState {
        let held = self.promises.get(key);
        assert!(accepted >= held.accepted, "index behind: {accepted:?} < {:?}", held.accepted);
        held
    }

    /// PREPARE(key, b). `accepted` is the ballot of the register's accepted pair.
    ///
    /// `key` is a keyed 128-bit hash of the register key. Registers whose hashes collide share a promise,
    /// which can only refuse more.
    ///
    /// # Panics
    /// If `accepted` is older than an ACCEPT for which [`Acceptor::accept`] returned `Go` (see the module).
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
        self.hold(key, held, PromiseState { promised: b, ..held });
        PrepareAnswer::Promised
    }

    /// ACCEPT(key, b, record). `accepted` as for [`Acceptor::prepare`].
    ///
    /// Needs no floor: what an ACCEPT promises is as durable as the record itself.
    ///
    /// # Panics
    /// If `accepted` is older than an ACCEPT for which [`Acceptor::accept`] returned `Go` (see the module).
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
        self.hold(key, held, PromiseState { promised: b, accepted: b });
        if counted { AcceptAnswer::Go } else { AcceptAnswer::GoUncounted }
    }

    fn hold(&mut self, key: u128, before: PromiseState, after: PromiseState) {
        assert!(after.promised >= before.promised, "I2: a promise fell");
        if let Some(dropped) = self.promises.put(key, after) {
            // A dropped promise is either at most the floor, or the promise of a record that is written. A
            // restart finds both again. Until then the base covers them.
            self.base = self.base.max(dropped);
        }
    }

    /// The record accepted under `b` is flushed and in the index, so its entry in memory may be removed.
    /// Optional: it keeps the table small.
    pub fn settled(&mut self, key: u128, b: Ballot) {
        self.promises.settle(key, b);
    }

    /// Whether the drive may answer a READ, or any other call, of a client with this epoch. A drive that was
    /// fenced for a newer epoch must not help to build a majority of the old one: slots may have other drives
    /// now. The caller counts a refusal as silence and fetches the map.
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

    /// The floor that the drive should flush now, in advance, so that no PREPARE waits for it.
    #[must_use]
    pub fn should_raise_floor(&self) -> Option<Ballot> {
        let soon = Ballot { counter: self.top.counter.saturating_add(self.headroom / 2), ..self.top };
        (soon > self.floor).then(|| self.floor_above(self.top))
    }

    /// The floor `to` is durable.
    pub fn floor_raised(&mut self, to: Ballot) {
        // Two raises may finish in either order; the higher floor is kept.
        self.floor = self.floor.max(to);
    }

    /// `epoch` is durable on the drive. From now on the acceptor promises and accepts no ballot of an earlier
    /// epoch (docs/protocol.md 2.7).
    pub fn fence(&mut self, epoch: u32) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.base = self.base.max(Ballot::fence(epoch));
            self.top = self.top.max(self.base);
        }
    }

    /// Every range was resynced, and the role "voter" is durable together with a purge horizon of at least
    /// the fence of its epoch: everything that was chosen below that fence and not deleted was copied.
    ///
    /// # Panics
    /// If the drive was not joining.
    pub fn joined(&mut self) {
        assert!(self.role == Role::Joining, "joined twice");
        self.role = Role::Voter;
        self.horizon = self.horizon.max(Ballot::fence(self.epoch));
    }

    /// Restores the stored purge horizon, at the start.
    pub fn restore_horizon(&mut self, horizon: Ballot) {
        self.horizon = self.horizon.max(horizon);
    }

    /// The tombstone `t`, the accepted pair of this register, is being removed, and the horizon `t` is
    /// durable already: no ballot up to it is accepted again for a register without a record (2.6). There is
    /// one horizon for the whole group. [`crate::may_purge`] tells when purging is allowed.
    ///
    /// # Panics
    /// If a higher ballot was accepted: then the accepted pair is not `t`.
    pub fn purged(&mut self, key: u128, t: Ballot) {
        self.horizon = self.horizon.max(t);
        let held = self.promises.get(key);
        assert!(held.accepted <= t, "purged {t:?} below {:?}", held.accepted);
        if held.accepted > Ballot::ZERO {
            self.hold(key, held, PromiseState { accepted: Ballot::ZERO, ..held });
        }
    }

    /// Whether a writer may count a shard staged under an older ballot as durable for its ballot `b`. The
    /// ballot is kept in memory only, so it must be below the floor: then [`Acceptor::may_drop`] refuses
    /// after a restart too.
    #[must_use]
    pub fn confirm(&self, b: Ballot) -> ConfirmAnswer {
        if b > self.floor {
            ConfirmAnswer::RaiseFloorFirst { to: self.floor_above(b) }
        } else {
            ConfirmAnswer::Confirmed
        }
    }

    /// Whether a collector with the ballot `collector` may drop a shard that no record on this drive names
    /// (see [`crate::Sweep`]). `stage` is the highest ballot under which the shard was staged or, since the
    /// start, confirmed. A restart forgets confirmations, but they were at most the floor, which is the base
    /// now.
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
    fn promises_and_accepts_in_ballot_order() {
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
    fn stale_index_panics() {
        let mut a = voter();
        assert_eq!(a.accept(7, Ballot::ZERO, b(1, 5, 1)), AcceptAnswer::Go);
        let _ = a.prepare(7, Ballot::ZERO, b(1, 6, 1));
    }

    #[test]
    fn restart_keeps_promises() {
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
    fn fence_and_horizon_refuse_older_ballots() {
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
    fn joining_drive_accepts_without_vote() {
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
    fn confirmed_stage_survives_restart() {
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
