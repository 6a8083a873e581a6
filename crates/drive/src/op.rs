//! What is to be journalled: one operation of a batch, and how much room it takes.
//!
//! Invariants: [`Op::size`] is never below what laying the operation out takes, because the buffer
//! of a batch is made from it; an operation that fails answers its completion exactly once.
//!
//! Must never know: when or where it is written.

use crate::entry::{Loc, Shard, ShardName};
use crate::fence_table::FenceKey;
use crate::types::{Accept, InlineShard};
use crate::{Completion, Error};
use ashlar_commit::bucket_fence::Deletion;
use ashlar_format::journal::{DriveState, record_len};
use ashlar_format::{Ballot, RegisterKey};
use bytes::Bytes;

/// What is to be journalled.
pub(crate) enum Op {
    /// A record (and its shard in one-sync mode), let through by the acceptor.
    Accept {
        hash: u128,
        accept: Accept,
        hint: bool,
        oldest: u32,
        counted: bool,
        /// A copy into a joining drive: nobody counts it.
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
    State {
        change: StateChange,
        done: Completion,
    },
    /// A bucket is fenced; `oldest`: that of the fence before.
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
    /// Compaction: as `MoveRegister`.
    MoveFence {
        key: FenceKey,
        from: Loc,
        payload: Bytes,
    },
    /// Compaction: an entry of the index moves to the head, if it is still where it was.
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
    Barrier {
        done: Completion,
    },
}

/// A change of the small durable state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StateChange {
    Floor(Ballot),
    Epoch(u32),
    Voter(bool),
    /// Written again as it is, so that an old segment can go.
    Again,
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
            Op::Discard { .. } | Op::State { .. } | Op::Fence { .. } | Op::LiftFence { .. } => {
                record_len(fixed)
            }
            Op::MoveRegister { payload, .. } => record_len(payload.len() + 8),
            Op::MoveShard { payload, .. }
            | Op::MoveFence { payload, .. }
            | Op::MoveDeletion { payload, .. } => record_len(payload.len()),
            Op::Forget { .. } | Op::Barrier { .. } => 0,
        }
    }

    /// Nobody waits for it by itself: who removes a segment has to know if it was not written.
    pub fn is_upkeep(&self) -> bool {
        matches!(
            self,
            Op::MoveRegister { .. }
                | Op::MoveShard { .. }
                | Op::MoveFence { .. }
                | Op::MoveDeletion { .. }
                | Op::Forget { .. }
                | Op::Purge { .. }
                | Op::Discard { .. }
        )
    }

    /// Bytes it holds in memory while it waits.
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

impl StateChange {
    pub fn apply(self, s: &mut DriveState) {
        match self {
            StateChange::Floor(b) => s.floor = s.floor.max(b),
            StateChange::Epoch(e) => s.epoch = s.epoch.max(e),
            StateChange::Voter(v) => {
                if v && !s.voter {
                    // Whatever was chosen below and not deleted was copied (`ashlar_commit::Acceptor::joined`).
                    s.horizon = s.horizon.max(Ballot::fence(s.epoch));
                }
                s.voter = v;
            }
            StateChange::Again => {}
        }
    }
}
