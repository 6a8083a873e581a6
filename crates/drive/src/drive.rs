//! A drive in service: the functions that the layers above call.
//!
//! This file opens, controls and closes a drive. `vote`, `registers` and `shards` contain its operations.
//!
//! Invariants: PREPARE, ACCEPT and READ follow `ashlar_commit::Acceptor`; the `_now` functions never wait;
//! every completion is answered exactly once.
//!
//! Must not depend on: other drives.

use crate::core::Shared;
use crate::groups::GroupVote;
use crate::op::{Op, StateChange};
use crate::types::{Options, Role, State, Stats};
use crate::{Error, Label, Result, Tally};
use ashlar_format::{Ballot, GroupId};
use ashlar_machine::{Folder, Watch};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Longest summary of a register, in bytes.
pub const MAX_SUMMARY: usize = 256;
/// Stack of the drive's two own threads.
const STACK: usize = 256 << 10;

/// A drive in service. Cloning gives another handle; when the last is dropped the threads end.
#[derive(Clone)]
pub struct Drive {
    pub(crate) shared: Arc<Shared>,
    path: Arc<PathBuf>,
    _last: Arc<Last>,
}

/// Ends the threads with the last handle.
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.core.lock().closing = true;
        self.0.journal_work.notify_all();
        self.0.maintenance_work.notify_all();
        self.0.io.close();
        if !self.0.threads {
            self.0.lock.lock().take();
        }
    }
}

impl Drive {
    /// Opens a formatted folder: recovers, then is ready. Blocking: call it outside of the async runtime.
    ///
    /// # Errors
    /// `Unsuitable` if there is no drive or it is in use, `Corrupt` for the label, `Io`.
    pub fn open(path: &Path, options: &Options) -> Result<Drive> {
        Drive::open_folder(&Folder::real(path, options.faults.clone()), options, true)
    }

    /// Like [`Drive::open`], for any folder. Without threads no work is done in the background: a test calls
    /// [`Drive::pump`] and [`Drive::tidy`].
    #[doc(hidden)]
    pub fn open_folder(folder: &Folder, options: &Options, threads: bool) -> Result<Drive> {
        let shared = crate::probe::open_shared(folder, options, threads)?;
        if threads {
            let done = shared.journal_ended.completion(0);
            start(&shared, "journal", Shared::run_journal, move |_| done.ok())?;
            start(&shared, "maintenance", Shared::run_maintenance, |s| {
                s.ended.send_replace(true);
            })?;
        }
        let path = Arc::new(folder.path());
        Ok(Drive { _last: Arc::new(Last(shared.clone())), shared, path })
    }

    /// The label.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.shared.label
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it works.
    #[must_use]
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// Whether it may vote in a placement group; `None`: it does not hold the group.
    #[must_use]
    pub fn role(&self, group: GroupId) -> Option<Role> {
        self.shared.core.lock().groups.get(group).map(GroupVote::role)
    }

    /// The groups that it holds, in ascending order, with its role in each.
    #[must_use]
    pub fn held(&self) -> Vec<(GroupId, Role)> {
        self.shared.core.lock().groups.iter().map(|(id, g)| (id, g.role())).collect()
    }

    /// Like [`Drive::held`], with the layout epoch of each.
    pub(crate) fn held_since(&self) -> Arc<[(GroupId, Role, u32)]> {
        self.shared.core.lock().groups.iter().map(|(id, g)| (id, g.role(), g.acceptor.epoch())).collect()
    }

    /// Whether it votes in any group.
    #[must_use]
    pub fn votes(&self) -> bool {
        self.shared.core.lock().groups.iter().any(|(_, g)| g.role() == Role::Voter)
    }

    /// Whether it still has to join a group, or holds no group.
    #[must_use]
    pub fn joins(&self) -> bool {
        let core = self.shared.core.lock();
        core.groups.len() == 0 || core.groups.iter().any(|(_, g)| g.role() != Role::Voter)
    }

    /// The layout epoch to which the drive was last fenced in a group; 0 for a group that it does not hold.
    #[must_use]
    pub fn epoch(&self, group: GroupId) -> u32 {
        self.shared.core.lock().groups.get(group).map_or(0, |g| g.acceptor.epoch())
    }

    /// The ballot floor with the highest counter among its groups. The floors are above every ballot ever
    /// promised; after a restart, proposers need higher ballots.
    #[must_use]
    pub fn floor(&self) -> Ballot {
        let core = self.shared.core.lock();
        core.groups.iter().map(|(_, g)| g.acceptor.floor()).max_by_key(|b| b.counter).unwrap_or_default()
    }

    /// The number of the last durable batch of the journal. It grows by one with each batch and never
    /// restarts.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.shared.core.lock().applied.seq
    }

    /// [`Drive::sequence`] when the drive was opened. If it is less than others have noted for it, the drive
    /// lost what it had acknowledged (an older image, a lost cache) and must join.
    #[must_use]
    pub fn opened_sequence(&self) -> u64 {
        self.shared.counters.opened_sequence.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// How many registers lists and digests went through since the drive was opened.
    #[must_use]
    pub fn scanned(&self) -> u64 {
        self.shared.counters.scanned.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The calls to the device that are running; they show whether the device answers.
    #[must_use]
    pub fn watch(&self) -> &Arc<Watch> {
        &self.shared.watch
    }

    /// How long a call to the device has not returned, if that is longer than a second. Callers that do not
    /// need the drive should then not wait for it. The stall ends by itself when the device answers.
    #[must_use]
    pub fn stalled(&self) -> Option<Duration> {
        self.shared.stalled()
    }

    /// Bytes of large shards that wait in memory for the device.
    #[must_use]
    pub fn frames_waiting(&self) -> u64 {
        self.shared.frames_waiting.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether it is a hard disk, as told ([`crate::DriveKind`]) or as measured until now.
    #[must_use]
    pub fn is_hard_disk(&self) -> bool {
        self.shared.hard_disk.is()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Damage found when the drive was opened, as text (at most 64 lines).
    #[must_use]
    pub fn damage(&self) -> Vec<String> {
        self.shared.counters.damage.lock().clone()
    }

    /// Whether `bytes` of new data have room above the reserve. No I/O.
    ///
    /// # Errors
    /// `Full`, `ReadOnly`, `Fenced`.
    pub fn check_room(&self, bytes: u64) -> Result<()> {
        self.shared.check_room(bytes)
    }

    /// Takes the drive out of service, for a health monitor.
    pub fn fence(&self, why: &str) {
        self.shared.fence(why);
    }

    /// Flushes, writes the index to files, stops the threads.
    pub async fn close(&self) {
        {
            let mut core = self.shared.core.lock();
            core.checkpoint_on_close = true;
            core.closing = true;
        }
        self.shared.journal_work.notify_all();
        self.shared.maintenance_work.notify_all();
        if self.shared.threads {
            let _ = self.shared.ended.subscribe().wait_for(|ended| *ended).await;
        } else {
            self.shared.set_closed();
            self.shared.lock.lock().take();
        }
        self.shared.io.close();
    }

    pub(crate) fn gone(&self) -> Error {
        self.shared.writable().err().unwrap_or(Error::Offline("the accept before it failed"))
    }

    // --- membership

    /// Durably refuses every ballot of `group` below `(epoch, 0, 0, 0)` from now on.
    ///
    /// # Errors
    /// `Fenced`, `ReadOnly`, `Full`, `NotHeld`.
    pub async fn fence_epoch(&self, group: GroupId, epoch: u32) -> Result<()> {
        // Before the lock, which the reason of a refusal needs.
        self.shared.writable()?;
        {
            let core = self.shared.core.lock();
            let vote = core.groups.get(group).ok_or(Error::NotHeld(group))?;
            if vote.state.epoch >= epoch {
                return Ok(());
            }
        }
        self.change(group, StateChange::Epoch(epoch)).await
    }

    /// Durably holds these groups, each in a layout epoch, as a joining drive. In a group that it already
    /// holds, only the epoch rises.
    ///
    /// # Errors
    /// `Fenced`, `ReadOnly`, `Full`.
    pub async fn join(&self, groups: &[(GroupId, u32)]) -> Result<()> {
        self.change_all(groups.iter().map(|(id, epoch)| (*id, StateChange::Join(*epoch))).collect()).await
    }

    /// Durably votes in exactly these groups. For the start of a deployment, before anything was written.
    ///
    /// # Errors
    /// Like [`Drive::join`].
    pub async fn found(&self, groups: &[GroupId], epoch: u32) -> Result<()> {
        let mut changes: Vec<_> = groups.iter().map(|id| (*id, StateChange::Found(epoch))).collect();
        // Left by a start that did not finish, with another map.
        let other = self.held().into_iter().filter(|(id, _)| !groups.contains(id));
        changes.extend(other.map(|(id, _)| (id, StateChange::Voter(false, u32::MAX))));
        self.change_all(changes).await
    }

    /// Durably removes the vote in these groups, each as of a layout epoch.
    ///
    /// # Errors
    /// Like [`Drive::joined`].
    pub async fn set_joining(&self, groups: &[(GroupId, u32)]) -> Result<()> {
        let all = groups.iter().map(|(id, epoch)| (*id, StateChange::Voter(false, *epoch))).collect();
        self.change_votes(groups, all).await
    }

    /// Durably gives the vote in `group` (again): every range of the group has been resynced in the layout of
    /// `epoch`.
    ///
    /// # Errors
    /// `Fenced`, `ReadOnly`, `Full`; `NotHeld`; `NewerLayout` for an epoch below the group's.
    pub async fn joined(&self, group: GroupId, epoch: u32) -> Result<()> {
        self.change_votes(&[(group, epoch)], vec![(group, StateChange::Voter(true, epoch))]).await
    }

    async fn change_votes(&self, of: &[(GroupId, u32)], changes: Vec<(GroupId, StateChange)>) -> Result<()> {
        let known = || {
            let core = self.shared.core.lock();
            of.iter().try_for_each(|(id, epoch)| core.groups.in_epoch(*id, *epoch).map(drop))
        };
        known()?;
        self.change_all(changes).await?;
        // A fence that was set in between prevented it.
        known()
    }

    pub(crate) async fn change(&self, group: GroupId, change: StateChange) -> Result<()> {
        self.change_all(vec![(group, change)]).await
    }

    async fn change_all(&self, changes: Vec<(GroupId, StateChange)>) -> Result<()> {
        self.shared.writable()?;
        if changes.is_empty() {
            return Ok(());
        }
        let tally = Tally::new(1);
        let op = Op::State { changes, done: tally.completion(0) };
        self.submit(op, &tally).await
    }

    /// Waits until everything submitted so far, lazy operations too, is durable.
    ///
    /// # Errors
    /// Like [`Drive::fence_epoch`].
    pub async fn flush(&self) -> Result<()> {
        let tally = Tally::new(1);
        self.submit(Op::Barrier { done: tally.completion(0) }, &tally).await
    }

    async fn submit(&self, op: Op, tally: &Tally) -> Result<()> {
        let failed = self.shared.core.lock().enqueue(op, &self.shared.journal_work).err();
        if let Some((op, e)) = failed {
            op.fail(&e);
            return Err(e);
        }
        self.pump_if_manual();
        if tally.wait(1).await.ok == 1 {
            return Ok(());
        }
        Err(tally.error().unwrap_or_else(|| self.gone()))
    }

    // --- upkeep

    /// Does all upkeep that is due (index written to files, merges, compaction, space given back) now instead
    /// of when the maintenance thread has time. Blocking.
    ///
    /// # Errors
    /// The error of the upkeep.
    #[doc(hidden)]
    pub fn tidy(&self) -> Result<()> {
        let _one = self.shared.upkeep.lock();
        for _ in 0..3 {
            self.shared.submit_and_wait(Vec::new())?;
            self.shared.drop_empty_extents();
            self.shared.round(&mut Vec::new(), true)?;
        }
        Ok(())
    }

    /// Where the counts of bytes in use differ from the index. No operation may run at the same time.
    ///
    /// # Errors
    /// The error of reading the index.
    #[doc(hidden)]
    pub fn audit(&self) -> Result<Vec<String>> {
        let _one = self.shared.upkeep.lock();
        self.shared.audit()
    }

    /// Without threads: one round of the maintenance thread. A merge that it begins is not continued.
    #[doc(hidden)]
    pub fn upkeep(&self) -> Result<()> {
        let _one = self.shared.upkeep.lock();
        self.shared.round(&mut Vec::new(), false)
    }

    /// Without threads: rounds of the maintenance thread until it has nothing to merge.
    #[doc(hidden)]
    pub fn upkeep_with_merges(&self) -> Result<()> {
        let _one = self.shared.upkeep.lock();
        let mut merges = Vec::new();
        loop {
            self.shared.round(&mut merges, false)?;
            if merges.is_empty() {
                return Ok(());
            }
        }
    }

    /// Without threads: commits what is queued.
    #[doc(hidden)]
    pub fn pump(&self) {
        while self.shared.commit() {}
    }

    /// Without threads: commits what is queued, and with it, if it is anything, what waits for a batch.
    #[doc(hidden)]
    pub fn pump_queued(&self) {
        self.shared.commit_queued();
    }

    /// Without threads: what the maintenance thread does once per tick.
    #[doc(hidden)]
    pub fn tick(&self) {
        self.shared.tick();
    }

    pub(crate) fn pump_if_manual(&self) {
        if !self.shared.threads {
            self.pump_queued();
        }
    }
}

fn start(
    shared: &Arc<Shared>,
    what: &str,
    run: impl Fn(&Arc<Shared>) + Send + 'static,
    after: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> Result<()> {
    let me = shared.clone();
    let name = format!("{what}-{}", &shared.label.drive.to_hex()[..6]);
    ashlar_environment::thread::start(name, Some(STACK), move || {
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&me)));
        if r.is_err() {
            me.fence("a thread of the drive panicked");
        }
        after(&me);
    })
    .map_err(|e| Error::io("starting a thread", &e))?;
    Ok(())
}
