//! The queue of registers to be healed, and the counters of heal.
//!
//! Invariants: each register is in the queue once; the queue is bounded ([`BOUND`]), and the scrub finds what
//! did not fit.
//!
//! Must not depend on: how a register is healed (`heal`).

use ashlar_environment::HashSet;
use ashlar_format::RegisterKey;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use tokio::sync::Notify;

/// Most registers in the queue; the scrub finds the others.
const BOUND: usize = 65_536;

/// Registers to be healed, each once.
pub(crate) struct HealQueue {
    state: Mutex<QueueState>,
    pub(crate) work: Notify,
    /// Registers inspected, records and shards made again, bodies found lost.
    pub(crate) looked: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) shards: AtomicU64,
    pub(crate) lost: AtomicU64,
}

#[derive(Default)]
struct QueueState {
    queue: VecDeque<Wanted>,
    inside: HashSet<RegisterKey>,
    /// Taken from the queue and not finished: being healed, or waiting for another attempt.
    open: u64,
}

/// A register to be healed.
pub(crate) struct Wanted {
    pub(crate) key: RegisterKey,
    /// Something was damaged, not only missing: read every shard.
    pub(crate) deep: bool,
    pub(crate) tries: u8,
}

impl HealQueue {
    pub(crate) fn new() -> HealQueue {
        let zero = || AtomicU64::new(0);
        HealQueue {
            state: Mutex::default(),
            work: Notify::new(),
            looked: zero(),
            records: zero(),
            shards: zero(),
            lost: zero(),
        }
    }

    pub(crate) fn push(&self, key: &RegisterKey, deep: bool) {
        self.put(Wanted { key: key.clone(), deep, tries: 0 });
    }

    pub(crate) fn put(&self, wanted: Wanted) {
        let mut s = self.state.lock();
        if s.inside.contains(&wanted.key) {
            if wanted.deep
                && let Some(w) = s.queue.iter_mut().find(|w| w.key == wanted.key)
            {
                w.deep = true;
            }
        } else if s.queue.len() < BOUND {
            s.inside.insert(wanted.key.clone());
            s.queue.push_back(wanted);
            drop(s);
            self.work.notify_one();
        }
    }

    pub(crate) fn pop(&self) -> Option<Wanted> {
        let mut s = self.state.lock();
        let next = s.queue.pop_front();
        if let Some(w) = &next {
            s.inside.remove(&w.key);
            s.open += 1;
        }
        next
    }

    /// The register that was taken is finished, or in the queue again.
    pub(crate) fn done(&self) {
        self.state.lock().open -= 1;
    }

    /// Number of registers whose heal is not finished.
    pub(crate) fn open(&self) -> u64 {
        let s = self.state.lock();
        s.queue.len() as u64 + s.open
    }
}

/// How a heal looks at the shards of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Whether they are there.
    Present,
    /// Every byte is read and verified, without waiting: damage is known or suspected.
    Verified,
    /// The same, at the rate of scrubs.
    Scrubbed,
}

impl Depth {
    /// For something that is damaged (`deep`), or only missing.
    pub(crate) fn of(deep: bool) -> Depth {
        if deep { Depth::Verified } else { Depth::Present }
    }

    /// Whether every byte is read.
    pub(crate) fn is_deep(self) -> bool {
        self != Depth::Present
    }
}

/// What a heal found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Healed {
    /// Slots whose record was brought up to date.
    pub records: u32,
    /// Shards made again.
    pub shards: u32,
    /// Shards still missing on slots that have a drive.
    pub missing: u32,
    /// Pieces of data with too few shards left to be read.
    pub lost: u32,
    /// Bytes of shards made.
    pub bytes: u64,
    /// 1 or more: its shards were not inspected yet, because a write of it is still under way.
    pub later: u32,
    /// How often a drive in service did not say whether it has its record or shard.
    pub unheard: u32,
}

impl Healed {
    /// Whether another attempt may find or make what this one did not. What is lost stays lost.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.later > 0 || self.unheard > 0 || (self.missing > 0 && self.lost == 0)
    }

    pub(crate) fn add(&mut self, o: Healed) {
        self.records += o.records;
        self.shards += o.shards;
        self.missing += o.missing;
        self.lost += o.lost;
        self.bytes += o.bytes;
        self.later += o.later;
        self.unheard += o.unheard;
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealStats {
    /// Registers inspected.
    pub looked: u64,
    /// Records brought up to date.
    pub records: u64,
    /// Shards made again.
    pub shards: u64,
    /// Pieces of data found with too few shards: lost.
    pub lost: u64,
    /// Registers whose heal is queued, under way, or waiting for another attempt.
    pub queued: u64,
}
