//! Fences of buckets on this drive (docs/protocol.md 2.15): set, lifted, queried by the acceptor.
//!
//! Invariants: a fence holds from the moment it is queued for the journal, so that no ACCEPT is let through
//! after it, and is acknowledged when it is durable. Of two deletions, the fence of the later one stays
//! ([`ashlar_commit::bucket_fence`]). A fence survives compaction and the loss of the index, because its
//! record counts as live, and a lift is kept as long as a record that it revokes.
//!
//! All fences are in memory: they are few ([`MAX_FENCES`]), and every vote checks them.
//!
//! Must not depend on: what a bucket is beyond its id.

use crate::core::Core;
use crate::drive::Drive;
use crate::entry::Loc;
use crate::fence_table::{Fence, FenceKey};
use crate::op::Op;
use crate::types::{FenceAnswer, Role};
use crate::{Error, Result, Tally};
use ashlar_commit::bucket_fence::{Deletion, SetFence, lifts, set};
use ashlar_format::journal::{FenceEntry, LiftEntry};
use ashlar_format::{BucketId, GroupId};

/// Most fences of a drive; further deletions of buckets fail until some are lifted.
pub(crate) const MAX_FENCES: usize = 256 << 10;

impl Drive {
    /// Durably fences a bucket in a group that the drive holds, for a deletion, as of the layout of `epoch`.
    ///
    /// # Errors
    /// `NewerLayout` if the drive follows a newer layout of the group: the deletion must restart its fences
    /// of the group. `NotHeld`; `Fenced`, `ReadOnly`, `Full`, `Offline`.
    pub async fn fence_bucket(
        &self,
        group: GroupId,
        bucket: BucketId,
        by: Deletion,
        epoch: u32,
    ) -> Result<FenceAnswer> {
        self.shared.writable()?;
        let key = (group, bucket);
        let tally = Tally::new(1);
        let waits = {
            let mut core = self.shared.core.lock();
            let core = &mut *core;
            core.groups.in_epoch(group, epoch)?;
            match set(core.fences.at(&key), by) {
                SetFence::Later(d) => return Ok(FenceAnswer::Later(d)),
                SetFence::Already if !core.fences.asked.contains_key(&key) => false,
                SetFence::Write | SetFence::Already => {
                    if core.fences.durable.len() + core.fences.asked.len() >= MAX_FENCES {
                        return Err(Error::Offline("too many fenced buckets"));
                    }
                    let oldest = core.fences.place(&key).map(|f| f.oldest);
                    let op = Op::Fence { key, deletion: by, oldest, done: tally.completion(0) };
                    if let Err((op, e)) = core.enqueue(op, &self.shared.journal_work) {
                        op.fail(&e);
                        return Err(e);
                    }
                    core.fences.ask(key, by);
                    true
                }
            }
        };
        if waits {
            self.pump_if_manual();
            if tally.wait(1).await.ok != 1 {
                return Err(tally.error().unwrap_or_else(|| self.gone()));
            }
        }
        let counted = self.role(group) == Some(Role::Voter);
        Ok(FenceAnswer::Fenced { counted })
    }

    /// Durably lifts the fences of a bucket, in every group, up to those of a deletion.
    ///
    /// # Errors
    /// `Fenced`, `ReadOnly`, `Full`, `Offline`: some fences may still exist.
    pub async fn lift_fence(&self, bucket: BucketId, up_to: Deletion) -> Result<()> {
        self.shared.writable()?;
        let tally = Tally::new(1);
        {
            let mut core = self.shared.core.lock();
            let core = &mut *core;
            let held = core.groups.iter().map(|(group, _)| (group, bucket));
            let keys: Vec<FenceKey> = held.filter(|k| lifts(core.fences.at(k), up_to)).collect();
            if keys.is_empty() {
                return Ok(());
            }
            for key in keys {
                // The record of a fence that is not durable yet will be in the open segment or after it.
                let oldest = core.fences.place(&key).map_or(core.applied.segment, |f| f.oldest);
                let op = Op::LiftFence { key, up_to, oldest };
                core.enqueue(op, &self.shared.journal_work).map_err(|(_, e)| e)?;
            }
            let barrier = Op::Barrier { done: tally.completion(0) };
            core.enqueue(barrier, &self.shared.journal_work).map_err(|(_, e)| e)?;
        }
        self.pump_if_manual();
        match tally.wait(1).await.ok {
            1 if self.is_fenced(bucket, up_to) => Err(Error::Full),
            1 => Ok(()),
            _ => Err(tally.error().unwrap_or_else(|| self.gone())),
        }
    }

    /// Whether it has a fence of the bucket, of a deletion up to this one, in a group that it holds.
    fn is_fenced(&self, bucket: BucketId, up_to: Deletion) -> bool {
        let core = self.shared.core.lock();
        core.groups.iter().any(|(group, _)| lifts(core.fences.at(&(group, bucket)), up_to))
    }

    /// The fences: group, bucket, deletion. From memory, including those that are being written.
    #[must_use]
    pub fn fences(&self) -> Vec<(GroupId, BucketId, Deletion)> {
        let core = self.shared.core.lock();
        let mut keys: Vec<FenceKey> =
            core.fences.durable.keys().chain(core.fences.asked.keys()).copied().collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().map(|k| (k.0, k.1, core.fences.at(&k))).collect()
    }
}

impl Core {
    /// A fence is durable; its record is at `loc`.
    pub fn apply_fence(&mut self, e: &FenceEntry, loc: Loc) {
        let key = (e.group, e.bucket);
        let deletion = Deletion(e.deletion);
        if self.fences.place(&key).is_some_and(|f| f.deletion > deletion) {
            return;
        }
        self.journal_live(loc, true);
        let now = Fence { deletion, loc, oldest: e.oldest };
        if let Some(old) = self.fences.durable.insert(key, now) {
            self.journal_live(old.loc, false);
        }
    }

    /// A fence is lifted; the record of the lift is at `loc`.
    pub fn apply_lift(&mut self, e: &LiftEntry, loc: Loc) {
        self.journal_deletion(loc.segment, loc.bytes(), e.oldest, e.newest);
        let key = (e.group, e.bucket);
        if self.fences.place(&key).is_some_and(|f| lifts(f.deletion, Deletion(e.up_to)))
            && let Some(old) = self.fences.durable.remove(&key)
        {
            self.journal_live(old.loc, false);
        }
    }
}
