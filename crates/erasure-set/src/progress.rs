//! The rebuilds under way, their progress, and the finished ones.
//!
//! Invariants: one job per drive; the last [`HISTORY`] finished rebuilds are kept.
//!
//! Must not depend on: how a drive is filled (`rebuild`).

use crate::table::{Table, View};
use ashlar_drive::DriveHandle;
use ashlar_environment::HashMap;
use ashlar_environment::time::{self, Instant};
use ashlar_format::{DriveId, GroupId};
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::sync::Notify;

/// Number of finished rebuilds that are kept.
const HISTORY: usize = 32;

/// The phase of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for enough other drives.
    Waiting,
    /// Copies records; the drive has no vote yet.
    Records,
    /// Makes its shards; the drive votes.
    Shards,
    /// Done.
    Done,
}

/// The progress of a rebuild.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The drive.
    pub drive: DriveId,
    /// The phase.
    pub phase: Phase,
    /// Registers to inspect in this phase, as counted at its start, and how many were inspected.
    pub registers: u64,
    /// See `registers`.
    pub looked: u64,
    /// Records copied.
    pub copied: u64,
    /// Shards made, and their bytes.
    pub shards: u64,
    /// See `shards`.
    pub bytes: u64,
    /// Pieces of data that could not be made: lost, or not possible yet.
    pub missing: u64,
    /// Registers per second in this phase.
    pub rate: f64,
    /// Estimated seconds until the end of the rebuild, from the rate of bytes so far.
    pub eta_s: Option<u64>,
    /// Why it waits.
    pub why: Option<String>,
    /// Live bytes on the drive, and an estimate of its final bytes: about as many as its peers hold.
    pub done_bytes: u64,
    /// See `done_bytes`.
    pub total_bytes: u64,
    /// Start and end: milliseconds since 1970.
    pub began_ms: u64,
    /// See `began_ms`.
    pub ended_ms: Option<u64>,
}

pub(crate) struct Job {
    pub(crate) progress: Progress,
    pub(crate) since: Instant,
    /// When the rebuild began, and the live bytes that the drive had then.
    pub(crate) first: Instant,
    pub(crate) had: u64,
}

pub(crate) struct Rebuilds {
    pub(crate) jobs: Mutex<HashMap<DriveId, Job>>,
    /// The finished rebuilds, the latest last; at most [`HISTORY`].
    pub(crate) history: Mutex<VecDeque<Progress>>,
    /// The groups that drives joined in rebuilds that have not come to their shards; at most those of the layout.
    owed: Mutex<HashMap<DriveId, BTreeSet<GroupId>>>,
    pub(crate) work: Notify,
}

impl Rebuilds {
    pub(crate) fn new() -> Rebuilds {
        Rebuilds {
            jobs: Mutex::default(),
            history: Mutex::default(),
            owed: Mutex::default(),
            work: Notify::new(),
        }
    }

    /// A drive joined a group: its shards there are still to be made.
    pub(crate) fn owe(&self, drive: DriveId, group: GroupId) {
        self.owed.lock().entry(drive).or_default().insert(group);
    }

    /// The drives whose shards are still to be made, in order.
    pub(crate) fn owing(&self) -> BTreeSet<DriveId> {
        self.owed.lock().keys().copied().collect()
    }

    /// The groups whose shards are made next on a drive; `None`: it joined none.
    pub(crate) fn owed(&self, drive: DriveId) -> Option<BTreeSet<GroupId>> {
        self.owed.lock().remove(&drive)
    }

    /// Whether the drive of a slot is being filled.
    pub(crate) fn is_filling(&self, view: &View, slot: u8) -> bool {
        let Some(m) = view.member(slot) else { return false };
        self.jobs.lock().get(&m.id).is_some_and(|j| j.progress.phase != Phase::Done)
    }

    /// Updates the list after a change of the drives.
    pub(crate) fn refresh(&self) {
        self.work.notify_one();
    }

    pub(crate) fn begin(&self, drive: &DriveHandle, phase: Phase, registers: u64) {
        let (id, had) = (drive.label().drive, live(drive));
        let mut jobs = self.jobs.lock();
        // A finished job belongs to another rebuild.
        let old = jobs.remove(&id).filter(|j| j.progress.phase != Phase::Done);
        let now = Instant::now();
        let mut job = old.unwrap_or_else(|| Job {
            progress: Progress {
                drive: id,
                phase,
                registers,
                looked: 0,
                copied: 0,
                shards: 0,
                bytes: 0,
                missing: 0,
                rate: 0.0,
                eta_s: None,
                why: None,
                done_bytes: 0,
                total_bytes: 0,
                began_ms: time::wall_ms().max(0).unsigned_abs(),
                ended_ms: None,
            },
            since: now,
            first: now,
            had,
        });
        let p = &mut job.progress;
        (p.phase, p.registers, p.looked, p.why) = (phase, registers, 0, None);
        job.since = now;
        jobs.insert(id, job);
    }

    /// Ends a rebuild: logs it and keeps it in the history.
    pub(crate) fn end(&self, drive: &DriveHandle) {
        let id = drive.label().drive;
        self.note(id, |p| (p.phase, p.ended_ms) = (Phase::Done, Some(time::wall_ms().max(0).unsigned_abs())));
        let jobs = self.jobs.lock();
        let Some(job) = jobs.get(&id) else { return };
        let mut p = job.progress.clone();
        drop(jobs);
        p.eta_s = Some(0);
        p.done_bytes = live(drive);
        p.total_bytes = p.done_bytes;
        let took = Duration::from_millis(p.ended_ms.unwrap_or(p.began_ms).saturating_sub(p.began_ms));
        tracing::info!(drive = %drive.path().display(), id = %id, ?took, records = p.copied, shards = p.shards,
            bytes = p.bytes, missing = p.missing, "the drive is rebuilt");
        if let Some(j) = self.jobs.lock().get_mut(&id) {
            j.progress = p.clone();
        }
        let mut history = self.history.lock();
        if history.len() == HISTORY {
            history.pop_front();
        }
        history.push_back(p);
    }

    pub(crate) fn note(&self, drive: DriveId, f: impl FnOnce(&mut Progress)) {
        if let Some(j) = self.jobs.lock().get_mut(&drive) {
            f(&mut j.progress);
            let p = &mut j.progress;
            p.rate = p.looked as f64 / j.since.elapsed().as_secs_f64().max(1e-3);
        }
    }
}

/// The progress with the present bytes of the drive. Its peers hold about as many bytes as it will: all
/// shards of a piece of data have one length, and records are on every slot.
pub(crate) fn measured(job: &Job, table: &Table) -> Progress {
    let mut p = job.progress.clone();
    let Some(m) = table.members.get(&p.drive).filter(|_| p.phase != Phase::Done) else { return p };
    let mut near: Vec<DriveId> = Vec::new();
    for v in table.views.iter().filter(|v| slot_of(v, p.drive).is_some()) {
        near.extend(v.members().filter(|(_, o)| o.id != p.drive && o.is_voter(v.group)).map(|(_, o)| o.id));
    }
    near.sort_unstable();
    near.dedup();
    let held: Vec<u64> = near.iter().filter_map(|d| table.members.get(d)).map(|o| live(&o.drive)).collect();
    p.done_bytes = live(&m.drive);
    p.total_bytes = held.iter().sum::<u64>() / (held.len() as u64).max(1);
    p.total_bytes = p.total_bytes.max(p.done_bytes);
    let (took, came) = (job.first.elapsed().as_secs_f64(), p.done_bytes.saturating_sub(job.had));
    if took >= 1.0 && came > 0 {
        p.eta_s = Some(((p.total_bytes - p.done_bytes) as f64 * took / came as f64).ceil() as u64);
    }
    p
}

pub(crate) fn slot_of(view: &View, drive: DriveId) -> Option<u8> {
    view.members().find(|(_, m)| m.id == drive).map(|(s, _)| s)
}

/// Bytes in use on a drive.
fn live(drive: &DriveHandle) -> u64 {
    let s = drive.stats();
    s.journal_live + s.extent_live
}
