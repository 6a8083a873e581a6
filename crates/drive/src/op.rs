//! The operations of a journal batch, and the space that each needs.
//!
//! Invariants: [`Op::size`] is never below the space that the records of the operation need, because the
//! buffer of a batch is allocated from it; an operation that fails answers its completion exactly once.
//!
//! Must not depend on: when or where it is written.

use crate::entry::{Loc, Shard, ShardName};
use crate::fence_table::FenceKey;
use crate::types::{Accept, InlineShard};
use crate::{Completion, Error};
use ashlar_commit::bucket_fence::Deletion;
use ashlar_format::journal::{GroupState, record_len};
use ashlar_format::{Ballot, GroupId, RegisterKey};
use bytes::Bytes;
use std::collections::BTreeMap;

/// An operation to be journaled.
pub(crate) enum Op {
    /// A record (and its shard in one-sync mode) that the acceptor let through.
    Accept {
        hash: u128,
        accept: Accept,
        hint: bool,
        oldest: u32,
        counted: bool,
        /// A copy into a joining drive: it is not counted.
        copy: bool,
        done: Completion,
    },
    Stage {
        shard: InlineShard,
        done: Completion,
    },
    Extent {
        name: ShardName,
        shard: Box<Shard>,
        done: Completion,
    },
    Hint {
        key: RegisterKey,
        ballot: Ballot,
    },
    Purge {
        key: RegisterKey,
        ballot: Ballot,
        oldest: u32,
        newest: u32,
    },
    Discard {
        name: ShardName,
        target: u32,
    },
    /// Changes of the states of groups; a group that is not held stays unchanged.
    State {
        changes: Vec<(GroupId, StateChange)>,
        done: Completion,
    },
    /// A bucket is fenced; `oldest`: that of the previous fence.
    Fence {
        key: FenceKey,
        deletion: Deletion,
        oldest: Option<u32>,
        done: Completion,
    },
    LiftFence {
        key: FenceKey,
        up_to: Deletion,
        oldest: u32,
    },
    /// Compaction: like `MoveRegister`.
    MoveFence {
        key: FenceKey,
        from: Loc,
        payload: Bytes,
    },
    /// Compaction: the states of all groups are written again unchanged, so that an old segment can be
    /// removed.
    States,
    /// Compaction: an index entry moves to the head, if it is unchanged.
    MoveRegister {
        key: RegisterKey,
        from: Loc,
        payload: Bytes,
    },
    MoveShard {
        name: ShardName,
        from: Loc,
        kind: u8,
        payload: Bytes,
    },
    /// Compaction: a purge or discard record that is still needed.
    MoveDeletion {
        kind: u8,
        payload: Bytes,
        need: (u32, u32),
    },
    /// Compaction: `victim` is about to be removed.
    Forget {
        victim: u32,
    },
    /// The journal notes where regions may be that it does not name (`unnamed`).
    NoteUnnamed,
    Barrier {
        done: Completion,
    },
}

/// A change of the small durable state of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StateChange {
    Floor(Ballot),
    Epoch(u32),
    /// The vote is given or removed by a caller that follows the layout of this epoch; no effect in a newer
    /// one.
    Voter(bool, u32),
    /// The drive holds the group from now on, as a joining drive; if it already holds it, only the epoch
    /// rises.
    Join(u32),
    /// The deployment begins: the drive holds the group and votes in it.
    Found(u32),
}

/// `Op::Accept::oldest`: the register had no record.
pub(crate) const FRESH: u32 = u32::MAX;

impl Op {
    /// Upper bound of the bytes its records take in a batch.
    pub fn size(&self) -> usize {
        let fixed = 64;
        match self {
            Op::Accept { accept: a, .. } => {
                let n = fixed + a.key.as_bytes().len() + a.summary.len() + a.record.len();
                let shard = a
                    .inline
                    .as_ref()
                    .map_or(0, |i| record_len(fixed + a.key.as_bytes().len() + i.data.len()));
                record_len(n) + shard
            }
            Op::Stage { shard: s, .. } => record_len(fixed + s.owner.as_bytes().len() + s.data.len()),
            Op::Extent { shard, .. } => record_len(fixed + 32 + shard.owner.as_bytes().len()),
            Op::Hint { key, .. } | Op::Purge { key, .. } => record_len(fixed + key.as_bytes().len()),
            Op::Discard { .. } | Op::Fence { .. } | Op::LiftFence { .. } => record_len(fixed),
            Op::State { changes, .. } => states_len(changes.len()),
            // Added when the batch is laid out: another operation may add a group first.
            Op::States => 0,
            Op::MoveRegister { payload, .. } => record_len(payload.len() + 8),
            Op::MoveShard { payload, .. }
            | Op::MoveFence { payload, .. }
            | Op::MoveDeletion { payload, .. } => record_len(payload.len()),
            Op::Forget { .. } | Op::NoteUnnamed | Op::Barrier { .. } => 0,
        }
    }

    /// How many groups it may add to the drive.
    pub fn groups(&self) -> usize {
        match self {
            Op::State { changes, .. } => changes.iter().filter(|(_, c)| c.creates()).count(),
            _ => 0,
        }
    }

    /// Applies a change of states; returns the new states of the groups that it concerns.
    pub fn change_states(&self, states: &mut BTreeMap<GroupId, GroupState>) -> Vec<(GroupId, GroupState)> {
        let mut left = BTreeMap::new();
        match self {
            Op::States => left.clone_from(states),
            Op::State { changes, .. } => {
                for (id, change) in changes {
                    if change.creates() {
                        states.entry(*id).or_default();
                    }
                    if let Some(state) = states.get_mut(id) {
                        change.apply(state);
                        left.insert(*id, *state);
                    }
                }
            }
            _ => {}
        }
        left.into_iter().collect()
    }

    /// Whether it has no completion: the code that removes a segment must learn if it was not written.
    pub fn is_upkeep(&self) -> bool {
        matches!(
            self,
            Op::MoveRegister { .. }
                | Op::MoveShard { .. }
                | Op::MoveFence { .. }
                | Op::MoveDeletion { .. }
                | Op::Forget { .. }
                | Op::States
                | Op::Purge { .. }
                | Op::Discard { .. }
        )
    }

    /// Bytes of memory that it holds while it is queued.
    pub fn weight(&self) -> usize {
        self.size() + 128
    }

    pub fn fail(self, e: &Error) {
        if let Some(done) = self.done() {
            done.err(e.clone());
        }
    }

    pub fn done(self) -> Option<Completion> {
        match self {
            Op::Accept { done, .. }
            | Op::Stage { done, .. }
            | Op::Extent { done, .. }
            | Op::State { done, .. }
            | Op::Fence { done, .. }
            | Op::Barrier { done } => Some(done),
            _ => None,
        }
    }
}

/// Bytes of a record with the states of `n` groups.
pub(crate) fn states_len(n: usize) -> usize {
    record_len(16 + n * (GroupId::LEN + GroupState::LEN))
}

impl StateChange {
    /// Whether it adds the group if the drive does not hold it.
    pub fn creates(self) -> bool {
        matches!(self, StateChange::Join(_) | StateChange::Found(_))
    }

    pub fn apply(self, s: &mut GroupState) {
        match self {
            StateChange::Floor(b) => s.floor = s.floor.max(b),
            StateChange::Epoch(e) => s.epoch = s.epoch.max(e),
            StateChange::Voter(_, epoch) if epoch < s.epoch => {}
            StateChange::Voter(v, _) => {
                if v && !s.voter {
                    // Everything that was chosen below it and not deleted was copied
                    // (`ashlar_commit::Acceptor::joined`).
                    s.horizon = s.horizon.max(Ballot::fence(s.epoch));
                }
                (s.voter, s.distrusted) = (v, !v && (s.voter || s.distrusted));
            }
            StateChange::Join(e) => s.epoch = s.epoch.max(e),
            StateChange::Found(e) => {
                (s.epoch, s.voter, s.distrusted) = (s.epoch.max(e), true, false);
            }
        }
    }
}
