//! Shards of a drive: staged, read, dropped, counted, verified.
//!
//! Invariants: space is reserved before a byte of a large shard is written; a shard stays readable for a
//! caller that holds a reader, even if it is discarded; an orphan is dropped only if no writer with a higher
//! ballot can need it.
//!
//! Must not depend on: erasure codes, which object a shard belongs to.

use crate::core::MAX_UNRESOLVED;
use crate::core::Shared;
use crate::drive::Drive;
use crate::entry::ShardName;
use crate::extent::ShardWriter;
use crate::frames::ShardReader;
use crate::index::must;
use crate::op::{Op, StateChange};
use crate::run::{Halt, Mode};
use crate::types::{InlineShard, ShardInfo};
use crate::{Completion, Error, Result};
use ashlar_commit::ConfirmAnswer;
use ashlar_format::{Ballot, GroupId, RegisterKey, WriteId};
use smallvec::SmallVec;
use std::sync::Arc;

impl Drive {
    /// STAGE of a small shard: completes when durable.
    pub fn stage(&self, shard: InlineShard, done: Completion) {
        self.stage_all([(shard, done)]);
    }

    /// Like [`Drive::stage`], for shards that become durable together, usually in one batch of the journal.
    pub fn stage_all(&self, shards: impl IntoIterator<Item = (InlineShard, Completion)>) {
        let mut ops: SmallVec<[Op; 2]> = SmallVec::new();
        for (shard, done) in shards {
            if shard.data.is_empty() || shard.data.len() > self.max_record() {
                done.err(Error::Malformed("inline shard length"));
            } else if let Err(e) = self.shared.check_room(shard.data.len() as u64) {
                done.err(e);
            } else {
                ops.push(Op::Stage { shard, done });
            }
        }
        let mut failed: SmallVec<[(Op, Error); 2]> = SmallVec::new();
        let mut queued = false;
        {
            let mut core = self.shared.core.lock();
            for op in ops {
                let Op::Stage { shard, .. } = &op else { continue };
                let known = core.groups.in_epoch(shard.owner.group(), shard.epoch).map(drop);
                let refused = match known {
                    Err(e) => Some((op, e)),
                    Ok(()) => core.enqueue_for(op, &self.shared.journal_work, self.shared.here).err(),
                };
                queued |= refused.is_none();
                failed.extend(refused);
            }
        }
        for (op, e) in failed {
            op.fail(&e);
        }
        if queued && self.shared.here {
            self.shared.commit_here();
        }
    }

    /// STAGE of a large shard of `len` bytes in frames of `frame` bytes (1..=8 MiB). Space is reserved now,
    /// so `Full` is reported before any byte is written. `epoch`: the layout that the writer follows.
    ///
    /// # Errors
    /// `Full`, `ReadOnly`, `Fenced`, `Malformed`, `NotHeld`, `NewerLayout`.
    #[allow(clippy::too_many_arguments)] // what a shard is
    pub fn begin_shard(
        &self,
        owner: &RegisterKey,
        write_id: WriteId,
        index: u8,
        ballot: Ballot,
        epoch: u32,
        len: u64,
        frame: u32,
    ) -> Result<ShardWriter> {
        self.shared.core.lock().groups.in_epoch(owner.group(), epoch)?;
        self.shared.begin_shard(owner, (write_id, index), ballot, len, frame)
    }

    /// Opens a shard for reading; it stays readable until the reader is dropped, even if discarded.
    ///
    /// # Errors
    /// `Missing`, `Corrupt`, `Io`, `Fenced`.
    pub async fn open_shard(&self, write_id: WriteId, index: u8) -> Result<ShardReader> {
        if let Some(r) = self.open_shard_now(write_id, index) {
            return r;
        }
        let f = move |s: &Arc<Shared>| s.open_shard((write_id, index), Mode::Wait).map_err(must);
        self.shared.on_io(f).await
    }

    /// Like [`Drive::open_shard`], if no device is needed. An inline shard is read completely.
    #[must_use]
    pub fn open_shard_now(&self, write_id: WriteId, index: u8) -> Option<Result<ShardReader>> {
        if let Err(e) = self.shared.readable() {
            return Some(Err(e));
        }
        match self.shared.open_shard((write_id, index), Mode::Now) {
            Ok(r) => Some(Ok(r)),
            Err(Halt::WouldBlock) => None,
            Err(Halt::Failed(e)) => Some(Err(e)),
        }
    }

    /// Drops shards of registers of `group`; journaled lazily. Space is given back when no reader holds them.
    /// No effect for an older layout `epoch` of the group.
    pub fn discard(&self, group: GroupId, epoch: u32, ids: &[(WriteId, u8)]) {
        if self.shared.core.lock().groups.in_epoch(group, epoch).is_ok() {
            self.discard_here(ids);
        }
    }

    fn discard_here(&self, ids: &[(WriteId, u8)]) {
        let mut core = self.shared.core.lock();
        for name in ids {
            if core.unnamed.discard(name) {
                continue;
            }
            let found = core.overlay.shard(name).map(|f| f.map(|s| s.loc.segment));
            match found {
                Some(Some(target)) => {
                    let op = Op::Discard { name: *name, target };
                    core.enqueue_lazy(op, &self.shared.journal_work);
                }
                Some(None) => {}
                None if core.runs.runs.is_empty() => {}
                None if core.unresolved_discards.len() < MAX_UNRESOLVED => {
                    core.unresolved_discards.insert(*name);
                }
                // Too many are queued: the orphan collector finds it again.
                None => {}
            }
        }
        if core.unresolved_discards.len() > 256 {
            self.shared.wake_maintenance(&mut core);
        }
    }

    /// At most `limit` shards after `after`, in order of (write id, index).
    ///
    /// # Errors
    /// Like [`Drive::scan`].
    pub async fn shards(&self, after: Option<(WriteId, u8)>, limit: usize) -> Result<Vec<ShardInfo>> {
        self.shared.readable()?;
        self.shared.on_io(move |s| s.census(after, limit).map_err(must)).await
    }

    /// Confirms to a writer with a raised ballot that its staged shard is safe from collectors below that
    /// ballot (docs/protocol.md 2.6). Recorded in memory; may have to raise the floor.
    ///
    /// # Errors
    /// `Missing` if the shard is not on this drive; `NewerLayout` for an older layout `epoch` of its group.
    pub async fn confirm(&self, write_id: WriteId, index: u8, ballot: Ballot, epoch: u32) -> Result<()> {
        let name = (write_id, index);
        loop {
            let waiting = self.shared.core.lock().unnamed.group(&name);
            let group = match waiting {
                Some(group) => group,
                None => {
                    let here = match self.shared.shard_now(name, Mode::Now) {
                        Err(Halt::WouldBlock) => {
                            self.shared.on_io(move |s| s.shard_now(name, Mode::Wait).map_err(must)).await?
                        }
                        other => other.map_err(must)?,
                    };
                    here.ok_or(Error::Missing)?.owner.group()
                }
            };
            match self.try_confirm(name, group, ballot, epoch)? {
                None => return Ok(()),
                Some(raise) => self.change(group, StateChange::Floor(raise)).await?,
            }
        }
    }

    /// Confirms a shard that is on the drive; or the floor that must be raised first.
    fn try_confirm(
        &self,
        name: ShardName,
        group: GroupId,
        ballot: Ballot,
        epoch: u32,
    ) -> Result<Option<Ballot>> {
        let mut core = self.shared.core.lock();
        match core.groups.in_epoch(group, epoch)?.acceptor.confirm(ballot) {
            ConfirmAnswer::Confirmed => {
                if core.confirmed.len() >= crate::core::MAX_QUEUE_OPS {
                    return Err(Error::Offline("too many confirmed shards"));
                }
                let b = core.confirmed.entry(name).or_default();
                *b = ballot.max(*b);
                Ok(None)
            }
            ConfirmAnswer::RaiseFloorFirst { to } => Ok(Some(to)),
        }
    }

    /// Drops a shard that no record names, for the collector with ballot `collector`, unless a writer with a
    /// higher ballot may still need it. Returns whether the shard is dropped (or not on this drive).
    ///
    /// # Errors
    /// Those of [`Drive::confirm`] and [`Drive::scan`].
    pub async fn drop_orphan(
        &self,
        write_id: WriteId,
        index: u8,
        collector: Ballot,
        epoch: u32,
    ) -> Result<bool> {
        let name = (write_id, index);
        let found = self.shared.on_io(move |s| s.shard_now(name, Mode::Wait).map_err(must)).await?;
        let Some(s) = found else { return Ok(true) };
        {
            let core = self.shared.core.lock();
            let stage = core.confirmed.get(&name).copied().unwrap_or_default().max(s.ballot);
            if !core.groups.in_epoch(s.owner.group(), epoch)?.acceptor.may_drop(stage, collector) {
                return Ok(false);
            }
        }
        self.discard_here(&[name]);
        Ok(true)
    }

    /// Reads a whole shard from the device and checks everything about it (scrub).
    ///
    /// # Errors
    /// `Missing`, `Corrupt`, `Io`.
    pub async fn verify_shard(&self, write_id: WriteId, index: u8) -> Result<()> {
        self.shared.readable()?;
        self.shared.on_io(move |s| s.verify_shard((write_id, index))).await
    }
}
