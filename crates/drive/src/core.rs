//! The state that all parts of a drive share: its identity, its small state under one lock, its counters.
//!
//! Invariants: the lock is never held over I/O. The guarded state contains only what is durable, except
//! `pending` and `queue`, which contain what is being written.
//!
//! Must not depend on: what registers and shards contain.

use crate::block::BlockCache;
use crate::counters::Counters;
use crate::entry::ShardName;
use crate::fence_table::Fences;
use crate::found::Found;
use crate::groups::Groups;
use crate::hard_disk::HardDisk;
use crate::head::Writer;
use crate::index::RunSet;
use crate::maintenance_state::MaintenanceState;
use crate::op::Op;
use crate::overlay::Overlay;
use crate::read_queue::ReadOrder;
use crate::space::{Extent, Freed, Position, Segment, Spare, SpareExtent};
use crate::types::{Options, State, Stats};
use crate::unnamed::Unnamed;
use crate::write_queue::WriteOrder;
use crate::{Completion, Error, Label, Result};
use ashlar_environment::{HashMap, HashSet};
use ashlar_format::journal::HashKey;
use ashlar_format::{Ballot, RegisterKey};
use ashlar_machine::{DiskFile, FileSystem, Folder, IoPool, Lock, Watch};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Bound of what may wait for the journal: operations and bytes.
pub(crate) const MAX_QUEUE_OPS: usize = 16 << 10;
pub(crate) const MAX_QUEUE_BYTES: usize = 64 << 20;
/// The same bounds while a call to the device does not return: short stalls are tolerated, and a drive that
/// hangs takes little memory from the others.
pub(crate) const MAX_STALLED_OPS: usize = 1024;
pub(crate) const MAX_STALLED_BYTES: usize = 4 << 20;
/// A call to the device that takes longer than this is a stall.
pub(crate) const STALL: Duration = Duration::from_secs(1);
/// Lazily journalled operations that may wait; further ones wake the journal.
pub(crate) const MAX_LAZY_OPS: usize = 1024;
/// Discards and purges that wait for a lookup in the index files.
pub(crate) const MAX_UNRESOLVED: usize = 64 << 10;

/// An accept that is being written.
#[derive(Default)]
pub(crate) struct Pending {
    /// The highest ballot in flight.
    pub ballot: Ballot,
    pub count: u32,
    /// Prepares that wait for it.
    pub waiters: Vec<tokio::sync::oneshot::Sender<()>>,
    /// Repeated accepts of the same ballot.
    pub repeats: Vec<Completion>,
}

/// Shards whose data is written and waits for a flush of its segment.
#[derive(Default)]
pub(crate) struct SyncQueue {
    pub waiting: Vec<(Op, u32)>,
}

/// The state under the lock.
pub(crate) struct Core {
    /// As in [`Shared`].
    pub watch: Arc<Watch>,
    /// The state of the drive in each placement group.
    pub groups: Groups,
    /// The states of all groups are in this segment or later ones; 0: none was written.
    pub state_segment: u32,
    pub pending: HashMap<u128, Pending>,
    pub queue: Vec<Op>,
    pub queue_bytes: usize,
    pub lazy: Vec<Op>,
    /// Regions and shards that the journal does not name yet.
    pub unnamed: Unnamed,
    /// The journal thread sleeps.
    pub journal_sleeps: bool,
    pub overlay: Overlay,
    pub runs: Arc<RunSet>,
    pub journal: BTreeMap<u32, Segment>,
    pub active: u32,
    /// Number of the next journal segment to be made; no number is used twice.
    pub next_segment: u32,
    /// Empty files with durable names are prepared for the numbers from `next_segment` to below this one.
    pub named_segments: u32,
    pub spare: Option<Spare>,
    pub extents: BTreeMap<u32, Extent>,
    /// The extent segment that takes new regions; 0: none yet.
    pub active_extent: u32,
    pub next_extent: u32,
    /// Empty segments, ready for regions; bounded by `recycle`.
    pub spare_extents: VecDeque<SpareExtent>,
    /// Numbers of empty files with durable names, for segments to come; bounded by `recycle`.
    pub extent_names: VecDeque<u32>,
    pub pins: HashMap<(u32, u64), u32>,
    /// Regions that are free but pinned by readers.
    pub held: HashMap<(u32, u64), u64>,
    pub freed: Vec<Freed>,
    /// Bytes of freed regions, and the number that may wait for the maintenance thread's next round; above it
    /// the maintenance thread is woken.
    pub freed_bytes: u64,
    pub freed_most: u64,
    /// Bytes that the maintenance thread has taken and not given back yet.
    pub freed_waiting: u64,
    /// Batches with operations of compaction, or deletions, that could not be written.
    pub failed_moves: u64,
    /// Number of wrong counts of bytes in use: see `account`.
    pub miscounts: u64,
    /// Discards and purges whose entry must be looked up in the index files first.
    pub unresolved: Vec<(RegisterKey, Ballot)>,
    pub unresolved_discards: HashSet<ShardName>,
    /// Stage ballots confirmed in memory (docs/protocol.md 2.6); bounded by `MAX_QUEUE_OPS`.
    pub confirmed: HashMap<ShardName, Ballot>,
    /// Fences of buckets.
    pub fences: Fences,
    /// End of what the journal has applied: segment, offset, sequence, chain.
    pub applied: Position,
    pub fenced: Option<String>,
    /// Free bytes at the last check, minus what was taken since.
    pub free: u64,
    pub capacity: u64,
    /// The drive has the mark of a fence ([`Shared::mark_fenced`]).
    pub fence_marked: bool,
    pub closing: bool,
    pub checkpoint_on_close: bool,
    pub maintenance_woken: bool,
    /// Grows whenever the index files change: an earlier lookup must then be repeated.
    pub generation: u64,
    /// What PREPARE found in the index files.
    pub found: Found,
    /// The index is being rebuilt: no lookup is possible.
    pub rebuilding: bool,
}

const ONLINE: u8 = 0;
const OUT: u8 = 1;
const READ_ONLY: u8 = 2;
const CLOSED: u8 = 3;

/// The state of an open drive.
pub(crate) struct Shared {
    pub label: Label,
    pub key: HashKey,
    pub root: Folder,
    pub journal_folder: Folder,
    pub extent_folder: Folder,
    pub index_folder: Folder,
    pub options: Options,
    pub medium: FileSystem,
    pub io: IoPool,
    /// Whether the drive is a hard disk.
    pub hard_disk: HardDisk,
    /// Reads that wait for the head of a hard disk.
    pub read_order: ReadOrder,
    /// Shards that wait to be written to a hard disk.
    pub write_order: WriteOrder,
    /// The device calls under way.
    pub watch: Arc<Watch>,
    /// Bytes of large shards that wait in memory for the device.
    pub frames_waiting: AtomicU64,
    /// False: there are no threads; a test calls the drive's functions.
    pub threads: bool,
    /// Flushes do not wait for a device: commits run on the caller's thread.
    pub here: bool,
    pub core: Mutex<Core>,
    pub journal_work: Condvar,
    pub maintenance_work: Condvar,
    pub writer: Mutex<Writer>,
    pub files: crate::files::FileCache,
    /// Blocks of index files that lists read.
    pub blocks: BlockCache,
    pub counters: Arc<Counters>,
    pub syncs: Mutex<HashMap<u32, SyncQueue>>,
    /// Held while a journal segment is being made.
    pub spare_making: Mutex<()>,
    /// Held while an extent segment is being made.
    pub extent_making: Mutex<()>,
    /// Held while names of extent segments are made durable, which nobody else waits for while there are some.
    pub extent_naming: Mutex<()>,
    pub maintenance: Mutex<MaintenanceState>,
    state: AtomicU8,
    pub label_identity: (u64, u64),
    /// Completed when the journal thread has ended; only the maintenance thread waits for it.
    pub journal_ended: Arc<crate::Tally>,
    /// True when the maintenance thread, the last of the two threads, has ended.
    pub ended: tokio::sync::watch::Sender<bool>,
    pub lock: Mutex<Option<Lock>>,
    /// Held during upkeep.
    pub upkeep: Mutex<()>,
    /// Without threads: jobs for the next commit.
    pub later: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Shared {
    pub fn new(
        label: Label,
        root: Folder,
        options: Options,
        medium: FileSystem,
        threads: bool,
        label_identity: (u64, u64),
        lock: Lock,
    ) -> Shared {
        let name = format!("io-{}", &label.drive.to_hex()[..8]);
        let watch = Arc::new(Watch::new());
        let root = root.watched(&watch);
        let hard_disk = HardDisk::new(options.kind, &root, medium);
        let core = Core::blank(&watch);
        Shared {
            label,
            key: label.hash_key(),
            journal_folder: root.sub(JOURNAL),
            extent_folder: root.sub(EXTENTS),
            index_folder: root.sub(INDEX),
            root,
            io: IoPool::new(&name, options.io_threads, 4096),
            hard_disk,
            read_order: ReadOrder::default(),
            write_order: WriteOrder::default(),
            watch,
            frames_waiting: AtomicU64::new(0),
            medium,
            threads,
            here: threads && medium == FileSystem::Memory && options.faults.is_none(),
            core: Mutex::new(core),
            journal_work: Condvar::new(),
            maintenance_work: Condvar::new(),
            writer: Mutex::new(Writer::new(None, 0, Position::default())),
            files: crate::files::FileCache::new(options.direct),
            blocks: BlockCache::new(options.cache_bytes),
            counters: Arc::new(Counters::default()),
            syncs: Mutex::new(HashMap::default()),
            spare_making: Mutex::new(()),
            extent_making: Mutex::new(()),
            extent_naming: Mutex::new(()),
            maintenance: Mutex::default(),
            state: AtomicU8::new(ONLINE),
            label_identity,
            journal_ended: crate::Tally::new(1),
            ended: tokio::sync::watch::Sender::new(false),
            options,
            lock: Mutex::new(Some(lock)),
            upkeep: Mutex::new(()),
            later: Mutex::default(),
        }
    }

    pub fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            ONLINE => State::Online,
            READ_ONLY => State::ReadOnly,
            CLOSED => State::Closed,
            _ => State::Fenced(self.core.lock().fenced.clone().unwrap_or_default()),
        }
    }

    /// Fails unless the drive may be read.
    pub fn readable(&self) -> Result<()> {
        match self.state.load(Ordering::Relaxed) {
            ONLINE | READ_ONLY => Ok(()),
            _ => self.refuse(),
        }
    }

    /// Fails unless the drive may be written.
    pub fn writable(&self) -> Result<()> {
        if self.state.load(Ordering::Relaxed) == ONLINE { Ok(()) } else { self.refuse() }
    }

    fn refuse(&self) -> Result<()> {
        Err(match self.state() {
            State::Online => return Ok(()),
            State::Fenced(why) => Error::Fenced(why),
            State::ReadOnly => Error::ReadOnly,
            State::Closed => Error::Offline("closed"),
        })
    }

    /// Takes the drive out of service at once; only the first reason is kept.
    pub fn fence(&self, why: &str) {
        let waiting = {
            let mut core = self.core.lock();
            if core.fenced.is_some() {
                return;
            }
            core.fenced = Some(why.to_owned());
            self.state.store(OUT, Ordering::SeqCst);
            core.lazy.clear();
            core.unnamed.clear();
            (std::mem::take(&mut core.pending), std::mem::take(&mut core.queue))
        };
        tracing::error!(drive = %self.label.drive, why, "drive fenced");
        drop(waiting.0);
        for op in waiting.1 {
            op.fail(&Error::Fenced(why.to_owned()));
        }
        self.journal_work.notify_all();
        self.maintenance_work.notify_all();
        if !self.threads {
            self.mark_fenced();
        }
    }

    /// Records on the drive that it fenced itself, so that it joins before it votes again, also after a
    /// restart (I12). The server must record it elsewhere as well: writing may fail on a drive that failed. A
    /// folder that no longer holds this drive is not changed: nothing failed, and its content belongs to
    /// others.
    pub fn mark_fenced(&self) {
        let why = {
            let core = self.core.lock();
            match &core.fenced {
                Some(why) if why != EMPTIED && !core.fence_marked => why.clone(),
                _ => return,
            }
        };
        if !self.root.identity("label").is_ok_and(|id| id == self.label_identity) {
            return;
        }
        let written = match self.root.write_new(FENCED, why.as_bytes()) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            r => r,
        };
        match written.and_then(|()| self.root.sync()) {
            Ok(()) => self.core.lock().fence_marked = true,
            Err(error) => {
                tracing::error!(drive = %self.label.drive, %error, "the drive cannot note that it is fenced");
            }
        }
    }

    /// From now on the drive only reads.
    pub fn set_read_only(&self) {
        let _ = self.state.compare_exchange(ONLINE, READ_ONLY, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The threads have ended. A fenced drive stays fenced: it must not be mistaken for one that was closed
    /// normally.
    pub fn set_closed(&self) {
        for open in [ONLINE, READ_ONLY] {
            let _ = self.state.compare_exchange(open, CLOSED, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Handles a failed write, flush or allocation; returns the error to report.
    pub fn failed(&self, op: &str, e: &std::io::Error) -> Error {
        let err = Error::io(op, e);
        match &err {
            Error::Full => {}
            Error::ReadOnly => self.set_read_only(),
            _ => self.fence(&err.to_string()),
        }
        err
    }

    /// Checked after a flush, before anything is answered: a file without a name is not durable, even after a
    /// flush. This detects an emptied folder before anything in it is acknowledged (one `fstat`, 0.4 us of
    /// CPU); [`Shared::tick`] detects it when nothing is written.
    pub fn still_linked(&self, file: &DiskFile, what: &str) -> Result<()> {
        match file.linked() {
            Ok(true) => Ok(()),
            Ok(false) => {
                tracing::error!(drive = %self.label.drive, what, "the file has no name any more");
                self.fence(EMPTIED);
                Err(Error::Fenced(EMPTIED.into()))
            }
            Err(e) => {
                self.fence(&format!("{what} cannot be looked at: {e}"));
                Err(Error::io("looking at a flushed file", &e))
            }
        }
    }

    /// Runs `job` on the drive's own threads; inline if there are none.
    pub fn spawn(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) -> Result<()> {
        if !self.threads {
            job();
            return Ok(());
        }
        self.io.run(job).map_err(|_| Error::Offline("too many operations wait for the drive"))
    }

    /// Like [`Shared::spawn`], also for use under the core's lock: without threads the job is kept for the next
    /// commit.
    pub fn spawn_unlocked(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) -> Result<()> {
        if !self.threads {
            self.later.lock().push(Box::new(job));
            return Ok(());
        }
        self.spawn(job)
    }

    /// Runs `f` on the drive's own threads and waits for its answer.
    pub async fn on_io<T: Send + 'static>(
        self: &Arc<Self>,
        f: impl FnOnce(&Arc<Shared>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.answered(|job| self.spawn(job), f).await
    }

    /// Has `f` run by `start`, which gets it as a job for the drive's own threads, and waits for its answer.
    pub async fn answered<T: Send + 'static>(
        self: &Arc<Self>,
        start: impl FnOnce(Box<dyn FnOnce() + Send>) -> Result<()>,
        f: impl FnOnce(&Arc<Shared>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (tx, rx) = tokio::sync::oneshot::channel();
        let job = Arc::new(Mutex::new(Some(f)));
        // A caller that stops waiting releases what the job holds, above all buffers, although the job stays
        // in the queue: a drive that hangs may never run it.
        let waiting = TakenBack(job.clone());
        let me = self.clone();
        start(Box::new(move || {
            let f = job.lock().take();
            if let Some(f) = f {
                let _ = tx.send(f(&me));
            }
        }))?;
        let answer = rx.await.unwrap_or(Err(Error::Offline("closing")));
        drop(waiting);
        answer
    }

    /// How long the oldest call to the device has been running, if that is long.
    pub fn stalled(&self) -> Option<Duration> {
        Some(self.watch.oldest()).filter(|age| *age >= STALL)
    }

    /// Wakes the maintenance thread.
    pub fn wake_maintenance(&self, core: &mut Core) {
        core.maintenance_woken = true;
        self.maintenance_work.notify_all();
    }

    /// Opens a journal segment for reading.
    pub fn journal_file(&self, number: u32) -> std::io::Result<Arc<DiskFile>> {
        self.files.get(crate::files::Kind::Journal, number, &self.journal_folder)
    }

    /// Opens an extent segment.
    ///
    /// The file is kept open only while the table contains the segment. That is checked under the lock under
    /// which a segment leaves the table. `recycle` drops the file after that, so that an old number never
    /// leads to a file that now holds other shards.
    pub fn extent_file(&self, number: u32) -> std::io::Result<Arc<DiskFile>> {
        use crate::files::{Kind, segment_name};
        if let Some(f) = self.files.peek(Kind::Extent, number) {
            return Ok(f);
        }
        let f = Arc::new(self.extent_folder.open(&segment_name(number), self.options.direct)?);
        let core = self.core.lock();
        if core.extents.contains_key(&number) {
            self.files.put(Kind::Extent, number, f.clone());
        }
        Ok(f)
    }

    pub fn stats(&self) -> Stats {
        let c = &self.counters;
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        let core = self.core.lock();
        let journal_bytes =
            core.journal.values().map(|s| s.bytes).sum::<u64>() + core.spare.as_ref().map_or(0, |s| s.bytes);
        let extents = || core.extents.values().filter(|e| !e.lost);
        let extent_live = extents().map(|e| e.live).sum::<u64>() + core.unnamed.bytes();
        let index_bytes = core.runs.bytes();
        let open: u64 = extents().filter(|e| !e.sealed).map(|e| e.bytes - e.at.min(e.bytes)).sum();
        Stats {
            capacity: core.capacity,
            free: core.free,
            used: journal_bytes
                + extent_live
                + open
                + core.spare_bytes()
                + core.freed_bytes
                + core.freed_waiting
                + index_bytes,
            journal_live: core.journal.values().map(|s| s.live).sum(),
            journal_bytes,
            extent_live,
            extent_bytes: extents().map(|e| e.bytes).sum(),
            miscounts: core.miscounts,
            index_bytes,
            overlay_bytes: (core.overlay.active.bytes + core.overlay.frozen.as_ref().map_or(0, |f| f.bytes))
                as u64,
            reads: get(&c.reads),
            writes: get(&c.writes),
            syncs: get(&c.syncs),
            records: get(&c.records),
            batches: get(&c.batches),
            commit_us: get(&c.commit_us),
            commit_us_max: get(&c.commit_us_max),
            compacted: get(&c.compacted),
            recycled: get(&c.recycled),
            read_errors: get(&c.read_errors),
            journal_damage: get(&c.journal_damage),
            index_rebuilt: get(&c.index_rebuilt),
        }
    }
}

/// Empties a job whose caller no longer waits.
struct TakenBack<F>(Arc<Mutex<Option<F>>>);

impl<F> Drop for TakenBack<F> {
    fn drop(&mut self) {
        let job = self.0.lock().take();
        drop(job);
    }
}

/// Sub-folders of a drive.
pub(crate) const JOURNAL: &str = "journal";
pub(crate) const EXTENTS: &str = "extents";
pub(crate) const INDEX: &str = "index";
/// The file with the reason why a drive fenced itself; it exists until the drive is durably joining.
pub(crate) const FENCED: &str = "fenced";
/// The reason of a fence without a failure: the folder no longer holds the drive.
pub(crate) const EMPTIED: &str = "emptied";

impl Core {
    /// An empty core.
    pub fn blank(watch: &Arc<Watch>) -> Core {
        Core {
            watch: watch.clone(),
            groups: Groups::default(),
            state_segment: 0,
            pending: HashMap::default(),
            queue: Vec::new(),
            queue_bytes: 0,
            lazy: Vec::new(),
            unnamed: Unnamed::default(),
            journal_sleeps: false,
            overlay: Overlay::default(),
            runs: Arc::new(RunSet::default()),
            journal: BTreeMap::new(),
            active: 0,
            next_segment: 1,
            named_segments: 0,
            spare: None,
            extents: BTreeMap::new(),
            active_extent: 0,
            next_extent: 1,
            spare_extents: VecDeque::new(),
            extent_names: VecDeque::new(),
            pins: HashMap::default(),
            held: HashMap::default(),
            freed: Vec::new(),
            freed_bytes: 0,
            freed_most: u64::MAX,
            freed_waiting: 0,
            failed_moves: 0,
            miscounts: 0,
            unresolved: Vec::new(),
            unresolved_discards: HashSet::default(),
            confirmed: HashMap::default(),
            fences: Fences::default(),
            applied: Position::default(),
            fenced: None,
            fence_marked: false,
            free: 0,
            capacity: 0,
            closing: false,
            checkpoint_on_close: false,
            maintenance_woken: false,
            generation: 0,
            found: Found::default(),
            rebuilding: false,
        }
    }

    /// A purge or discard record was written to `segment`.
    pub fn journal_deletion(&mut self, segment: u32, bytes: u64, lo: u32, hi: u32) {
        if let Some(s) = self.journal.get_mut(&segment) {
            s.deletions += bytes;
            let (a, b) = s.need.unwrap_or((lo, hi));
            s.need = Some((a.min(lo), b.max(hi)));
        }
    }

    /// A region that may be given back.
    pub fn push_freed(&mut self, freed: Freed) {
        self.freed_bytes += freed.bytes;
        self.freed.push(freed);
    }
}
