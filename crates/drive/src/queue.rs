//! The queue of operations for the journal.
//!
//! Invariants: both queues are bounded ([`MAX_QUEUE_OPS`], [`MAX_QUEUE_BYTES`], [`MAX_LAZY_OPS`]), with lower
//! bounds while the device does not answer ([`MAX_STALLED_OPS`], [`MAX_STALLED_BYTES`]); records that wait,
//! then lazy operations, precede the others of their batch; a move of compaction whose entry has changed is dropped.
//!
//! Must not depend on: how a batch is written.

use crate::core::{Core, MAX_LAZY_OPS, MAX_QUEUE_BYTES, MAX_QUEUE_OPS};
use crate::core::{MAX_STALLED_BYTES, MAX_STALLED_OPS, STALL};
use crate::entry::ShardName;
use crate::op::{Op, StateChange};
use crate::types::Accept;
use crate::{Completion, Error, Result};
use ashlar_environment::HashSet;
use ashlar_format::GroupId;

impl Core {
    /// Takes the queued operations into `ops`: first the moves of compaction that are still current.
    pub fn take(&mut self, ops: &mut Vec<Op>) {
        self.queue_bytes = 0;
        // Lazy operations first: a discard must not hit a shard that was staged after it. It is not of a shard
        // whose record waits: see `unnamed`.
        ops.append(&mut self.unnamed.records);
        ops.append(&mut self.lazy);
        ops.append(&mut self.queue);
        self.aim(ops);
        let moving =
            |op: &Op| matches!(op, Op::MoveRegister { .. } | Op::MoveShard { .. } | Op::MoveFence { .. });
        if ops.iter().any(moving) {
            ops.retain(|op| match op {
                Op::MoveRegister { key, from, .. } => match self.overlay.register(key) {
                    Some(now) => now.is_some_and(|r| r.loc == *from),
                    None => true,
                },
                Op::MoveShard { name, from, .. } => match self.overlay.shard(name) {
                    Some(now) => now.is_some_and(|s| s.loc == *from),
                    None => true,
                },
                Op::MoveFence { key, from, .. } => self.fences.place(key).is_some_and(|f| f.loc == *from),
                _ => true,
            });
            ops.sort_by_key(|op| !moving(op));
        }
    }

    /// A deletion contains the range of segments in which the deleted records are, and is kept as long as one
    /// of those segments exists. Otherwise a replay of the journal from its beginning would restore the
    /// record. Compaction may have moved the record since the deletion was requested, or may move it in the
    /// same batch.
    fn aim(&self, ops: &mut Vec<Op>) {
        let mut moving = HashSet::default();
        for op in ops.iter() {
            if let Op::MoveRegister { key, .. } = op {
                moving.insert(key.clone());
            }
        }
        let mut dropped = HashSet::default();
        for op in ops.iter_mut() {
            match op {
                Op::Discard { name, target } => {
                    if let Some(Some(now)) = self.overlay.shard(name) {
                        *target = now.loc.segment;
                    }
                    dropped.insert(*name);
                }
                // Moves precede it, and go at most into the segment of the deletion itself.
                Op::Purge { key, newest, .. } if moving.contains(key) => *newest = u32::MAX,
                Op::Purge { key, newest, .. } => {
                    if let Some(Some(now)) = self.overlay.register(key) {
                        *newest = now.loc.segment.max(*newest);
                    }
                }
                _ => {}
            }
        }
        if !dropped.is_empty() {
            ops.retain(|op| !matches!(op, Op::MoveShard { name, .. } if dropped.contains(name)));
        }
    }

    /// Fails if there is no space for new data or a record of this size.
    pub fn may_enqueue(&self, weight: usize) -> Result<()> {
        let many = self.queue.len() >= MAX_STALLED_OPS || self.queue_bytes + weight > MAX_STALLED_BYTES;
        if many && self.watch.oldest() >= STALL {
            return Err(Error::Offline("it does not answer"));
        }
        self.has_room(weight)
    }

    fn has_room(&self, weight: usize) -> Result<()> {
        if let Some(why) = &self.fenced {
            return Err(Error::Fenced(why.clone()));
        }
        if self.closing {
            return Err(Error::Offline("closing"));
        }
        if self.queue.len() >= MAX_QUEUE_OPS || self.queue_bytes + weight > MAX_QUEUE_BYTES {
            return Err(Error::Offline("too many operations wait for the drive"));
        }
        Ok(())
    }

    /// Raises floors before a PREPARE needs it: because that of `group` is near, or that of any group.
    pub fn raise_floors(&mut self, group: Option<GroupId>, work: &parking_lot::Condvar) {
        let floors = self.groups.floors_to_raise(group);
        if !floors.is_empty() {
            let changes = floors.into_iter().map(|(id, to)| (id, StateChange::Floor(to))).collect();
            let _ = self.enqueue(Op::State { changes, done: Completion::ignored() }, work);
        }
    }

    /// Queues an operation for the journal. Fails if too much is queued.
    #[allow(clippy::result_large_err)] // the refused operation goes back to its owner, rarely
    pub fn enqueue(&mut self, op: Op, work: &parking_lot::Condvar) -> Result<(), (Op, Error)> {
        self.enqueue_for(op, work, false)
    }

    /// Like [`Core::enqueue`]. `quiet`: the caller commits itself ([`Shared::commit_here`]).
    #[allow(clippy::result_large_err)] // given back only when the drive is in trouble
    pub fn enqueue_for(
        &mut self,
        op: Op,
        work: &parking_lot::Condvar,
        quiet: bool,
    ) -> Result<(), (Op, Error)> {
        let weight = op.weight();
        let room = match &op {
            Op::Stage { .. } | Op::Extent { .. } => self.may_enqueue(weight),
            // For an accept this was checked before the acceptor was called.
            _ => self.has_room(weight),
        };
        if let Err(e) = room {
            return Err((op, e));
        }
        // A drop that waits for a lookup in the index, or for the record of an unnamed shard, concerns the shard
        // before this one. Once this one is queued, the drop would be journaled after it and remove it too.
        match &op {
            Op::Stage { shard, .. } => self.not_dropped(&(shard.write_id, shard.index)),
            Op::Extent { name, .. } => self.not_dropped(name),
            Op::Accept { accept: Accept { inline: Some(i), .. }, .. } => {
                self.not_dropped(&(i.write_id, i.index));
            }
            _ => {}
        }
        self.queue_bytes += weight;
        self.queue.push(op);
        if self.journal_sleeps && !quiet {
            self.journal_sleeps = false;
            work.notify_one();
        }
        Ok(())
    }

    /// A shard is staged: drops that wait do not concern it.
    fn not_dropped(&mut self, name: &ShardName) {
        self.unresolved_discards.remove(name);
        self.unnamed.staged_again(name);
    }

    /// Keeps an operation for the next batch.
    pub fn enqueue_lazy(&mut self, op: Op, work: &parking_lot::Condvar) {
        if self.fenced.is_some() || self.closing {
            return;
        }
        if self.lazy.len() >= MAX_LAZY_OPS {
            // Losing one would leak space or a purge: wake the journal instead.
            let _ = self.enqueue(op, work);
            return;
        }
        self.lazy.push(op);
    }
}
