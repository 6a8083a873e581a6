//! The state of a drive in each placement group that it holds: its vote, its promises, its durable state.
//!
//! Invariants: requests for a group that is not held get an error; a state contains only what is durable; the
//! promises of all groups together are bounded by twice [`PROMISES`], however many groups there are, and
//! dropping one raises the base promise of its group (docs/protocol.md 2.2).
//!
//! Must not depend on: how a state reaches the medium, other drives.

use crate::types::Role;
use crate::{Error, Result};
use ashlar_commit::Acceptor;
use ashlar_format::journal::GroupState;
use ashlar_format::{Ballot, GroupId};
use std::collections::BTreeMap;

/// Number of registers, over all groups, whose promise is held in the young generation; the old one has as
/// many.
const PROMISES: usize = 4096;

/// One group.
pub(crate) struct GroupVote {
    pub acceptor: Acceptor,
    /// Its state on the medium.
    pub state: GroupState,
    /// A floor that is being written.
    pub floor_asked: Ballot,
    /// A replay has found its state.
    met: bool,
}

/// The groups that a drive holds.
#[derive(Default)]
pub(crate) struct Groups {
    of: BTreeMap<GroupId, GroupVote>,
    /// Promises in the young generations of all groups.
    young: usize,
    /// How many times the drive began to vote in a group.
    votes_begun: u64,
}

impl GroupVote {
    fn new(state: GroupState) -> GroupVote {
        GroupVote { acceptor: acceptor(&state, state.floor), state, floor_asked: state.floor, met: true }
    }

    pub fn role(&self) -> Role {
        match self.acceptor.role() {
            ashlar_commit::Role::Voter => Role::Voter,
            ashlar_commit::Role::Joining if self.state.distrusted => Role::Distrusted,
            ashlar_commit::Role::Joining => Role::Joining,
        }
    }
}

/// An acceptor as after a restart with this state.
fn acceptor(state: &GroupState, floor: Ballot) -> Acceptor {
    let role = if state.voter { ashlar_commit::Role::Voter } else { ashlar_commit::Role::Joining };
    let table = ashlar_commit::PromiseTable::with_capacity(PROMISES);
    let headroom = ashlar_commit::HEADROOM;
    let mut acceptor = Acceptor::with_promises(role, state.epoch, floor, headroom, table);
    acceptor.restore_horizon(state.horizon);
    acceptor
}

impl Groups {
    pub fn get(&self, id: GroupId) -> Option<&GroupVote> {
        self.of.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &GroupVote)> {
        self.of.iter().map(|(id, v)| (*id, v))
    }

    /// The groups from `from` to `to`, both inclusive.
    pub fn range(&self, from: GroupId, to: GroupId) -> impl Iterator<Item = (GroupId, &GroupVote)> {
        let bounds = (from <= to).then_some(from..=to);
        bounds.into_iter().flat_map(|b| self.of.range(b)).map(|(id, v)| (*id, v))
    }

    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// The purge horizon of the group; zero for one that the drive does not hold.
    pub fn horizon(&self, id: GroupId) -> Ballot {
        self.of.get(&id).map_or(Ballot::ZERO, |vote| vote.acceptor.horizon())
    }

    /// The group, for a caller that follows the layout of `epoch`.
    ///
    /// # Errors
    /// `NotHeld`; `NewerLayout` for an epoch below the one that the group is fenced to.
    pub fn in_epoch(&self, id: GroupId, epoch: u32) -> Result<&GroupVote> {
        let vote = self.of.get(&id).ok_or(Error::NotHeld(id))?;
        match vote.acceptor.may_read(epoch) {
            true => Ok(vote),
            false => Err(Error::NewerLayout(vote.acceptor.epoch())),
        }
    }

    /// How many times the drive began to vote in a group since it was opened.
    pub fn votes_begun(&self) -> u64 {
        self.votes_begun
    }

    /// Calls the acceptor of a group; `None`: the group is not held.
    pub fn ask<R>(&mut self, id: GroupId, question: impl FnOnce(&mut Acceptor) -> R) -> Option<R> {
        let vote = self.of.get_mut(&id)?;
        let before = vote.acceptor.young_promises();
        let answer = question(&mut vote.acceptor);
        self.young = self.young + vote.acceptor.young_promises() - before;
        if self.young > PROMISES {
            // A generation ends for all groups together: an entry stays for at least as many later ones.
            self.of.values_mut().for_each(|v| v.acceptor.age_promises());
            self.young = 0;
        }
        Some(answer)
    }

    pub fn states(&self) -> BTreeMap<GroupId, GroupState> {
        self.of.iter().map(|(id, v)| (*id, v.state)).collect()
    }

    /// A replay starts again: no state is known. The promises stay until it ends.
    pub fn forget_states(&mut self) {
        for vote in self.of.values_mut() {
            (vote.state, vote.met) = (GroupState::default(), false);
        }
    }

    /// Restores states found by recovery. Returns whether they are those of every group.
    pub fn restore(&mut self, found: &[(GroupId, GroupState)]) -> bool {
        for (id, state) in found {
            let vote = self.of.entry(*id).or_insert_with(|| GroupVote::new(*state));
            vote.state = GroupState { horizon: vote.state.horizon.max(state.horizon), ..*state };
            vote.met = true;
        }
        found.len() == self.of.len()
    }

    /// Recovery has ended: the acceptors are as after a restart.
    pub fn restart(&mut self) {
        self.of.retain(|_, v| v.met);
        for vote in self.of.values_mut() {
            *vote = GroupVote::new(vote.state);
        }
        self.young = 0;
    }

    /// Removes the vote in every group, in memory.
    pub fn distrust(&mut self) {
        for vote in self.of.values_mut() {
            vote.state.distrusted |= vote.state.voter;
            vote.state.voter = false;
            *vote = GroupVote::new(vote.state);
        }
        self.young = 0;
    }

    /// Adopts states that are durable now. Returns whether they are those of every group.
    pub fn adopt(&mut self, written: &[(GroupId, GroupState)]) -> bool {
        for (id, state) in written {
            let vote = self.of.entry(*id).or_insert_with(|| GroupVote::new(*state));
            vote.state = GroupState { horizon: vote.state.horizon.max(state.horizon), ..*state };
            vote.met = true;
            vote.acceptor.floor_raised(state.floor);
            vote.acceptor.fence(state.epoch);
            let role = vote.acceptor.role();
            if state.voter && role == ashlar_commit::Role::Joining {
                vote.acceptor.joined();
                self.votes_begun += 1;
            }
            if !state.voter && role == ashlar_commit::Role::Voter {
                self.reset(*id);
            }
        }
        written.len() == self.of.len()
    }

    /// Replaces the acceptor by one made from the durable state, as after a restart.
    pub fn reset(&mut self, id: GroupId) {
        let Some(vote) = self.of.get_mut(&id) else { return };
        self.young -= vote.acceptor.young_promises();
        vote.acceptor = acceptor(&vote.state, vote.acceptor.floor().max(vote.state.floor));
    }

    /// A tombstone of this ballot was dropped: the horizon of its group rises.
    pub fn raise_horizon(&mut self, id: GroupId, ballot: Ballot) {
        if let Some(vote) = self.of.get_mut(&id) {
            vote.state.horizon = vote.state.horizon.max(ballot);
            vote.acceptor.restore_horizon(ballot);
        }
    }

    /// The floors that must rise now because that of `id` (or of any group: `None`) is near; they are
    /// recorded as requested. Floors of the same layout epoch rise together, so that one flush is enough.
    pub fn floors_to_raise(&mut self, id: Option<GroupId>) -> Vec<(GroupId, Ballot)> {
        let wants = |v: &GroupVote| v.acceptor.should_raise_floor().filter(|to| *to > v.floor_asked);
        let first = match id {
            Some(id) => self.of.get(&id).and_then(wants),
            None => self.of.values().filter_map(wants).max(),
        };
        let Some(most) = first else { return Vec::new() };
        let mut out = Vec::new();
        for (id, vote) in &mut self.of {
            let with = (vote.acceptor.epoch() == most.epoch).then_some(most);
            if let Some(to) = wants(vote).max(with).filter(|to| *to > vote.floor_asked) {
                vote.floor_asked = to;
                out.push((*id, to));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_commit::PrepareAnswer;

    fn group(n: u16) -> GroupId {
        GroupId::new(0, n)
    }

    fn voter() -> GroupState {
        let floor = Ballot { epoch: 1, counter: 1 << 20, ..Ballot::ZERO };
        GroupState { epoch: 1, voter: true, distrusted: false, floor, horizon: Ballot::ZERO }
    }

    fn of(n: u16) -> Groups {
        let mut groups = Groups::default();
        let states: Vec<_> = (0..n).map(|i| (group(i), voter())).collect();
        assert!(groups.restore(&states));
        groups
    }

    #[test]
    fn promises_of_all_groups_are_bounded_without_loss() {
        let mut groups = of(256);
        let mut promised = Vec::new();
        for i in 0..40_000u64 {
            let (id, b) =
                (group((i % 256) as u16), Ballot { epoch: 1, counter: (1 << 20) + i, node: 1, nonce: 1 });
            let key = u128::from(i);
            let to = groups.ask(id, |a| match a.prepare(key, Ballot::ZERO, b) {
                PrepareAnswer::RaiseFloorFirst { to } => Some(to),
                answer => {
                    assert_eq!(answer, PrepareAnswer::Promised);
                    None
                }
            });
            if let Some(Some(to)) = to {
                let again = groups.ask(id, |a| {
                    a.floor_raised(to);
                    a.prepare(key, Ballot::ZERO, b)
                });
                assert_eq!(again, Some(PrepareAnswer::Promised));
            }
            promised.push((id, key, b));
            let held: usize = groups.of.values().map(|v| v.acceptor.promises()).sum();
            assert!(held <= 2 * PROMISES + 1, "{held} after {i}");
        }
        for (id, key, b) in promised {
            assert!(groups.get(id).unwrap().acceptor.promised(key, Ballot::ZERO) >= b);
        }
    }

    #[test]
    fn floors_rise_together() {
        let mut groups = of(64);
        let mut other = voter();
        other.epoch = 2;
        groups.restore(&[(group(64), other)]);
        let raised = groups.floors_to_raise(Some(group(3)));
        assert_eq!(raised.len(), 65, "all are at their floors after a restart");
        assert!(groups.floors_to_raise(None).is_empty(), "asked for already");
        let of_64 = raised.iter().find(|(id, _)| *id == group(64)).unwrap().1;
        assert_eq!(of_64.epoch, 2);
        assert!(raised.iter().all(|(id, to)| *id == group(64) || to.epoch == 1));
    }

    #[test]
    fn unheld_groups_and_older_epochs_are_refused() {
        let mut groups = of(2);
        assert!(matches!(groups.in_epoch(group(2), 9), Err(Error::NotHeld(g)) if g == group(2)));
        let mut fenced = voter();
        fenced.epoch = 5;
        assert!(!groups.adopt(&[(group(1), fenced)]), "one of two");
        assert!(matches!(groups.in_epoch(group(1), 4), Err(Error::NewerLayout(5))));
        assert!(groups.in_epoch(group(1), 5).is_ok() && groups.in_epoch(group(0), 1).is_ok());
        fenced.voter = false;
        groups.adopt(&[(group(1), fenced)]);
        assert_eq!(groups.get(group(1)).unwrap().role(), Role::Joining);
        groups.distrust();
        assert_eq!(groups.get(group(0)).unwrap().role(), Role::Distrusted);
        assert_eq!(groups.get(group(1)).unwrap().role(), Role::Joining, "it did not vote");
        assert_eq!(groups.ask(group(2), |a| a.epoch()), None);
    }
}
