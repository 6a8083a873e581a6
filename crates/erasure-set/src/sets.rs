//! The shared state: layout, attached drives, caches, background queues.
//!
//! Invariants: everything here is bounded (the bound is documented at each field); the table of drives is
//! replaced as a whole, never changed in place; dropping the last handle ends the background work.
//!
//! Must not depend on: S3, HTTP.

use crate::ballots::{Ballots, WriteIds};
use crate::budget::Share;
use crate::cache::RecordCache;
use crate::damage::{Damage, Damages};
use crate::disk_turns::DiskTurns;
use crate::heal_queue::HealQueue;
use crate::keylock::KeyLocks;
use crate::layout::Layout;
use crate::memory::{Limits as MemoryLimits, Memory, MemoryStats};
use crate::progress::Rebuilds;
use crate::scrub_schedule::ScrubRecords;
use crate::scrub_state::ScrubState;
use crate::table::{Attached, Member, Table, View};
use crate::tail_queue::{InFlight, Missed, Tails};
use crate::turns::{Others, Turns};
use crate::undecided_registers::UndecidedRegisters;
use crate::{Error, Result};
use arc_swap::ArcSwap;
use ashlar_commit::Quorum;
use ashlar_drive::{Drive, DriveHandle};
use ashlar_duties::Duties;
use ashlar_engine::Engine;
use ashlar_environment::HashMap;
use ashlar_format::{BucketId, DriveId, GroupId, WriteId};
use ashlar_machine::BufferPool;
use ashlar_pacer::{Foreground, Limits, Pacer};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reads the epoch of the newest layout from the control store; an error is returned to the reader.
pub type EpochSource = Arc<dyn Fn() -> BoxFuture<'static, Result<u32, String>> + Send + Sync>;

/// The options of the sets.
#[derive(Clone)]
pub struct Options {
    /// The pool of buffers; its ceiling bounds the bodies in flight.
    pub pool: BufferPool,
    /// Number of this node in ballots.
    pub node: u16,
    /// The scrubs and rebuilds that the background task of this node does.
    pub duties: Duties,
    /// Shards up to this many bytes are stored in the journals of the drives.
    pub inline_shard: u32,
    /// Small bodies use fewer data shards, so that a shard has at least this many bytes.
    pub min_shard: u32,
    /// Bound on the cache of decoded records, in bytes.
    pub record_cache: usize,
    /// No other process or [`Sets`] proposes to these drives: what was read or written here last is the
    /// chosen state, and reading it again needs no drive. The process that has a local drive open locks it.
    /// Must be off as soon as a drive has another coordinator.
    pub sole: bool,
    /// Small bodies of healthy groups are written with one flush instead of two (2.3 a).
    pub one_sync: bool,
    /// With whom this process takes turns where its proposals meet those of other nodes; `None`: with nobody.
    pub turns: Option<Others>,
    /// Where to read the epoch of the newest layout when only half of the drives answer; `None`: only this
    /// process changes the layout, so the one in force here is the newest.
    pub epoch: Option<EpochSource>,
    /// One of this many encoded stripes is decoded again; 1: every stripe.
    pub recheck: u64,
    /// Limits of heal and rebuild; units are bytes of records and shards written to drives.
    pub heal: Limits,
    /// Limits of scrubs; units are bytes of records and shards read and verified.
    pub scrub: Limits,
    /// How long slow clients may keep others waiting.
    pub memory: MemoryLimits,
    /// How often everything is scrubbed: the presence of all shards, and their hashes.
    pub scrub_every: Duration,
    /// Where full passes are recorded, so that they go on after a restart; `None`: nowhere.
    pub scrub_records: Option<Arc<dyn ScrubRecords>>,
    /// How long data must be seen without a name before it is dropped; with [`Options::sole`] at most a
    /// minute, since this process knows every write in flight.
    pub orphan_age: Duration,
    /// How often the drives are searched for such data, the first time soon after the start. What a write of
    /// this process left behind is recorded and needs no search.
    pub census_every: Duration,
}

impl Options {
    /// Defaults over a buffer pool.
    #[must_use]
    pub fn new(pool: BufferPool) -> Options {
        Options {
            pool,
            node: 0,
            duties: Duties::alone(0),
            inline_shard: 128 << 10,
            min_shard: 1024,
            record_cache: 32 << 20,
            sole: true,
            one_sync: true,
            turns: None,
            epoch: None,
            recheck: ashlar_engine::SAMPLE,
            heal: Limits::default(),
            scrub: Limits::default(),
            memory: MemoryLimits::default(),
            scrub_every: Duration::from_secs(7 * 86_400),
            scrub_records: None,
            orphan_age: Duration::from_secs(86_400),
            census_every: Duration::from_secs(86_400),
        }
    }
}

/// All placement groups of a pool over the attached drives. Cloning gives another handle.
#[derive(Clone)]
pub struct Sets {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// A weak reference to this value, for work that outlives a call.
    pub(crate) me: std::sync::Weak<Inner>,
    pub(crate) options: Options,
    pub(crate) engine: Engine,
    pub(crate) table: ArcSwap<Table>,
    attached: Arc<Attached>,
    pub(crate) missed: Missed,
    pub(crate) damages: Damages,
    /// Serialises changes of the table.
    changes: Mutex<()>,
    pub(crate) ballots: Ballots,
    pub(crate) ids: WriteIds,
    /// Bound: `Options::record_cache`.
    pub(crate) cache: RecordCache,
    pub(crate) pages: crate::pages::PageCache,
    pub(crate) locks: Arc<KeyLocks>,
    pub(crate) turns: Turns,
    pub(crate) undecided_registers: UndecidedRegisters,
    pub(crate) tails: Tails,
    pub(crate) heals: HealQueue,
    pub(crate) rebuilds: Rebuilds,
    pub(crate) scrub: ScrubState,
    /// Writes whose shards no record names yet, with the handles to give them up on drives that hang; one
    /// entry per body in flight.
    pub(crate) writes_in_flight: Mutex<HashMap<WriteId, InFlight>>,
    /// What readers and writers hold in memory.
    pub(crate) memory: Memory,
    pub(crate) disk_turns: DiskTurns,
    /// Permits for requests that read one body to write another: they hold memory of both budgets, so enough
    /// of them could wait for each other forever. All permits together use at most half of the writers'
    /// budget, and the other half is given back in time.
    pub(crate) copies: Arc<Semaphore>,
    pub(crate) foreground: Arc<Foreground>,
    /// Of what heal and rebuild write.
    pub(crate) heal_pacer: Pacer,
    /// Of what scrubs read.
    pub(crate) scrub_pacer: Pacer,
    /// Whose data a scrub with a rate limit reads.
    pub(crate) scrub_turn: tokio::sync::Mutex<()>,
    pub(crate) tasks: Mutex<Vec<ashlar_environment::task::JoinHandle<()>>>,
    /// Whether READ may ask drives of other nodes for shards as well.
    pub(crate) may_bring_shards: AtomicBool,
    /// Whether drives of other nodes may be asked for folded lists; see [`Sets::fold_lists`].
    pub(crate) may_fold_lists: AtomicBool,
    #[cfg(test)]
    pub(crate) gate: crate::tests::Gate,
}

/// An upper bound of what a copy holds of the writers' budget: a stripe with three parity rows for each data
/// row, padded.
const COPY: usize = 4 * crate::layout::MAX_STRIPE as usize + (64 << 10);

impl Sets {
    /// The pool of all buffers.
    #[must_use]
    pub fn pool(&self) -> &BufferPool {
        &self.inner.options.pool
    }

    /// The memory of bodies under way, and the requests that were refused because of it.
    #[must_use]
    pub fn memory(&self) -> MemoryStats {
        self.inner.memory.stats()
    }

    /// Whether slow clients hold so many answer bytes that callers should return bodies in small pieces.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.inner.memory.is_crowded()
    }

    /// Damage found since the start, the latest last; at most 256 findings.
    #[must_use]
    pub fn damages(&self) -> Vec<Damage> {
        self.inner.damages.list()
    }

    /// The groups of `layout` over `drives`; drives that are in no slot are kept for a later layout.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid layout; [`Error::Unavailable`] without randomness.
    pub fn new(layout: Layout, drives: Vec<Drive>, options: Options) -> Result<Sets> {
        layout.check()?;
        let mut random = [0; 36];
        ashlar_environment::random::fill(&mut random)
            .map_err(|e| Error::Unavailable(format!("randomness: {e}")))?;
        let (nonce, rest) = random.split_at(4);
        let nonce = [nonce[0], nonce[1], nonce[2], nonce[3]];
        let mut key = [0u64; 4];
        for (word, bytes) in key.iter_mut().zip(rest.chunks_exact(8)) {
            *word = bytes.iter().fold(0, |w, b| w << 8 | u64::from(*b));
        }
        let attached = Attached::new();
        let members: HashMap<DriveId, Arc<Member>> = drives
            .into_iter()
            .map(|d| (d.label().drive, Arc::new(Member::new(d.into(), attached.clone()))))
            .collect();
        let memory = Memory::new(&options.pool, options.memory);
        let disk_turns = DiskTurns::new(&options.pool);
        let foreground = Arc::new(Foreground::new());
        let inner = Arc::new_cyclic(|me| Inner {
            me: me.clone(),
            engine: Engine::with_sample(options.recheck),
            table: ArcSwap::from_pointee(Table::new(Arc::new(layout), HashMap::default())),
            attached,
            missed: Missed::default(),
            damages: Damages::default(),
            changes: Mutex::new(()),
            ballots: Ballots::new(options.node, u32::from_le_bytes(nonce)),
            ids: WriteIds::new(key),
            cache: RecordCache::new(options.record_cache),
            pages: crate::pages::PageCache::default(),
            locks: KeyLocks::new(),
            turns: Turns::new(options.turns.clone(), options.node, key[0]),
            undecided_registers: UndecidedRegisters::new(),
            tails: Tails::new(),
            heals: HealQueue::new(),
            rebuilds: Rebuilds::new(),
            scrub: ScrubState::new(),
            writes_in_flight: Mutex::new(HashMap::default()),
            copies: Arc::new(Semaphore::new((memory.writers.total() / 2 / COPY).max(1))),
            memory,
            disk_turns,
            heal_pacer: Pacer::new(foreground.clone(), options.heal),
            scrub_pacer: Pacer::new(foreground.clone(), options.scrub),
            scrub_turn: tokio::sync::Mutex::new(()),
            foreground,
            tasks: Mutex::new(Vec::new()),
            may_bring_shards: AtomicBool::new(false),
            may_fold_lists: AtomicBool::new(false),
            #[cfg(test)]
            gate: crate::tests::Gate::default(),
            options,
        });
        let sets = Sets { inner };
        sets.change(|_, m| *m = members);
        Ok(sets)
    }

    fn change(&self, f: impl FnOnce(&mut Arc<Layout>, &mut HashMap<DriveId, Arc<Member>>)) {
        let _one = self.inner.changes.lock();
        let old = self.inner.table.load_full();
        let (mut layout, mut members) = (old.layout.clone(), old.members.clone());
        f(&mut layout, &mut members);
        for m in members.values() {
            // Of any group and epoch: there is one counter for all.
            let floor = m.drive.floor();
            let _ = self.inner.ballots.pass(floor, floor.epoch);
        }
        let n = layout.code.n();
        self.inner.attached.set(&members, &layout, n - Quorum::new(n).majority());
        self.inner.table.store(Arc::new(Table::new(layout, members)));
        self.inner.undecided_registers.raise();
        // Nobody else's reads look at the marks.
        if self.inner.options.sole {
            self.inner.cache.invalidate_all();
        }
        self.inner.rebuilds.refresh();
    }

    /// Puts a drive in service (or replaces the handle with the same id). A joining drive is rebuilt in the
    /// background.
    pub fn attach(&self, drive: impl Into<DriveHandle>) {
        let member = Arc::new(Member::new(drive.into(), self.inner.attached.clone()));
        self.change(|_, m| {
            m.insert(member.id, member.clone());
        });
        self.inner.scrub.scan_soon();
    }

    /// Takes a drive out of service. Its slot counts as silent from now on. Returns the drive if it is in
    /// this process.
    pub fn detach(&self, drive: DriveId) -> Option<Drive> {
        let mut gone = None;
        self.change(|_, m| gone = m.remove(&drive));
        gone.and_then(|m| m.drive.local().cloned())
    }

    /// Follows the map: a new epoch, other drives in slots.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a layout that is invalid, has another code or number of groups, or is older
    /// than the one in force.
    pub fn set_layout(&self, layout: Layout) -> Result<()> {
        layout.check()?;
        let now = self.layout();
        if layout.epoch < now.epoch {
            return Err(Error::Invalid("an older layout"));
        }
        if layout.code != now.code || layout.groups.len() != now.groups.len() {
            return Err(Error::Invalid("code and number of groups are for life"));
        }
        if layout.groups.iter().zip(&now.groups).any(|(next, now)| next.epoch < now.epoch) {
            return Err(Error::Invalid("an older layout of a group"));
        }
        self.change(|l, _| *l = Arc::new(layout));
        Ok(())
    }

    /// The layout in force.
    #[must_use]
    pub fn layout(&self) -> Arc<Layout> {
        self.inner.table.load().layout.clone()
    }

    /// The group of a key.
    #[must_use]
    pub fn group_of(&self, bucket: BucketId, key: &[u8]) -> GroupId {
        self.inner.table.load().layout.group_of(bucket, key)
    }

    /// The drives in the slots of a group.
    #[must_use]
    pub fn slots(&self, group: GroupId) -> Vec<DriveId> {
        let table = self.inner.table.load();
        table
            .layout
            .index(group)
            .map(|i| &table.layout.groups[i])
            .map(|g| g.slots.clone())
            .unwrap_or_default()
    }

    /// The attached drives that are in this process.
    #[must_use]
    pub fn drives(&self) -> Vec<Drive> {
        self.inner.table.load().members.values().filter_map(|m| m.drive.local().cloned()).collect()
    }

    /// Whether a drive can be asked now: it is attached, works, and its node answers. `bytes`: and it has room for so
    /// many.
    #[must_use]
    pub fn is_here(&self, drive: DriveId, bytes: Option<u64>) -> bool {
        let table = self.inner.table.load();
        let member = table.members.get(&drive).filter(|m| m.is_here());
        member.is_some_and(|m| bytes.is_none_or(|bytes| m.drive.check_room(bytes).is_ok()))
    }

    /// The tracker of clients' requests: API layers record their requests in it, and background work yields
    /// to it.
    #[must_use]
    pub fn foreground(&self) -> Arc<Foreground> {
        self.inner.foreground.clone()
    }

    /// A permit to read one body while writing another; hold it as long as both are open.
    pub fn copy_permit(&self) -> BoxFuture<'_, CopyPermit> {
        Box::pin(async move { self.inner.copy_permit().await })
    }

    /// Memory for `bytes` that a decoder of a body allocates itself; dropping the result gives it back.
    ///
    /// # Errors
    /// [`Error::Busy`]: not available in time.
    pub fn reserve_decoder_memory(&self, bytes: usize) -> BoxFuture<'_, Result<DecoderMemory>> {
        Box::pin(async move {
            let room = self.inner.memory.decoder(bytes).await;
            room.map(|share| DecoderMemory { _share: share })
                .ok_or(Error::Busy("no memory for a decoder came in time"))
        })
    }

    /// Sets the limits of heal and rebuild, and those of scrubs; units as in [`Options`]. They apply from the next
    /// piece of work on: a stripe of a large body, a register, or the shards of one body that were verified.
    pub fn set_background(&self, heal: Limits, scrub: Limits) {
        self.inner.heal_pacer.set(heal);
        self.inner.scrub_pacer.set(scrub);
    }

    /// The limits of heal and rebuild, and those of scrubs.
    #[must_use]
    pub fn background(&self) -> (Limits, Limits) {
        (self.inner.heal_pacer.limits(), self.inner.scrub_pacer.limits())
    }

    /// Bytes that heal and rebuild wrote, and bytes that scrubs read and verified, since the start.
    #[must_use]
    pub fn paced_bytes(&self) -> (u64, u64) {
        (self.inner.heal_pacer.units(), self.inner.scrub_pacer.units())
    }
}

/// See [`Sets::reserve_decoder_memory`].
pub struct DecoderMemory {
    _share: Share,
}

/// See [`Sets::copy_permit`].
pub struct CopyPermit {
    _turn: Option<OwnedSemaphorePermit>,
}

impl Inner {
    pub(crate) async fn copy_permit(&self) -> CopyPermit {
        // Never closed.
        CopyPermit { _turn: self.copies.clone().acquire_owned().await.ok() }
    }

    /// Whether undecided registers may be outside of the majority that would answer: then every slot is
    /// asked.
    pub(crate) fn all_may_be_undecided(&self) -> bool {
        !self.options.sole || self.undecided_registers.all()
    }

    /// The present epoch of a view's group, for the rest of work that began in the view.
    pub(crate) fn epoch_now(&self, view: &View) -> u32 {
        self.view(view.group).map_or(view.epoch, |now| now.epoch.max(view.epoch))
    }

    pub(crate) fn view(&self, group: GroupId) -> Result<Arc<View>> {
        self.table.load().view(group).cloned()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for t in self.tasks.get_mut().drain(..) {
            t.abort();
        }
    }
}
