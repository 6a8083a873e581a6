//! Writes with missing answers, tombstones that wait for their purge, and registers that drives missed while
//! they hung or were away.
//!
//! Invariants: each of the three is bounded ([`BOUND`], [`MISSED`]).
//!
//! Must not depend on: how they are processed (`tail`).

use crate::keylock::HashKeyed;
use crate::table::View;
use ashlar_commit::SlotSet;
use ashlar_drive::{Tally, Unfinished};
use ashlar_environment::time::Instant;
use ashlar_environment::{HashMap, HashSet};
use ashlar_format::{Ballot, Data, DriveId, RegisterKey, WriteId};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tokio::sync::Notify;

/// Most entries kept; further ones become heals.
pub(crate) const BOUND: usize = 16_384;

/// Most registers recorded per drive that hangs or is away.
pub(crate) const MISSED: usize = 16_384;

/// Data that a record no longer names.
pub(crate) type Drops = SmallVec<[Data; 1]>;

/// Writes whose shards may still be being written.
pub(crate) type Writes = SmallVec<[WriteId; 1]>;

pub(crate) struct Tail {
    pub(crate) key: RegisterKey,
    /// The data whose shards the answers concern.
    pub(crate) writes: Writes,
    /// Large shards that can be given up.
    pub(crate) shards: Vec<(u8, Unfinished)>,
    pub(crate) ballot: Ballot,
    pub(crate) view: Arc<View>,
    pub(crate) tally: Arc<Tally>,
    /// Slots whose answer is missing.
    pub(crate) waiting: SlotSet,
    pub(crate) drops: Drops,
    pub(crate) since: Instant,
}

/// A tombstone that every slot, each with a voter, answered that it accepted.
pub(crate) struct PendingPurge {
    pub(crate) key: RegisterKey,
    pub(crate) ballot: Ballot,
    pub(crate) view: Arc<View>,
    pub(crate) since: Instant,
}

/// The shards of a large body that no record names yet and that are still being written.
#[derive(Default)]
pub(crate) struct InFlight {
    /// Those that were not left out, with the handles to give them up.
    pub(crate) shards: Vec<(DriveId, Unfinished)>,
    /// So many of them the write needs.
    pub(crate) needed: usize,
}

#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) tails: Vec<Tail>,
    /// Number of tails of each key (by hash) and of each write.
    pub(crate) keys: HashKeyed<u32>,
    pub(crate) writes: HashMap<WriteId, u32>,
}

impl Waiting {
    pub(crate) fn add(&mut self, tail: Tail) {
        *self.keys.entry(ashlar_checksum::key_hash(tail.key.as_bytes())).or_default() += 1;
        for w in &tail.writes {
            *self.writes.entry(*w).or_default() += 1;
        }
        self.tails.push(tail);
    }

    pub(crate) fn forget(&mut self, tail: &Tail) {
        fn less<K: std::hash::Hash + Eq, S: std::hash::BuildHasher>(
            map: &mut std::collections::HashMap<K, u32, S>,
            k: K,
        ) {
            if let Entry::Occupied(mut e) = map.entry(k) {
                *e.get_mut() -= 1;
                if *e.get() == 0 {
                    e.remove();
                }
            }
        }
        less(&mut self.keys, ashlar_checksum::key_hash(tail.key.as_bytes()));
        for w in &tail.writes {
            less(&mut self.writes, *w);
        }
    }
}

pub(crate) struct Tails {
    pub(crate) tails: Mutex<Waiting>,
    pub(crate) pending_purges: Mutex<Vec<PendingPurge>>,
    pub(crate) work: Notify,
}

impl Tails {
    pub(crate) fn new() -> Tails {
        Tails { tails: Mutex::default(), pending_purges: Mutex::default(), work: Notify::new() }
    }
}

/// Registers that drives missed while they hung or were away.
#[derive(Default)]
pub(crate) struct Missed {
    pub(crate) of: Mutex<HashMap<DriveId, Lacking>>,
}

#[derive(Default)]
pub(crate) struct Lacking {
    pub(crate) keys: HashSet<RegisterKey>,
    /// Whether there were more than are recorded.
    pub(crate) more: bool,
}

impl Missed {
    pub(crate) fn note(&self, drive: DriveId, key: &RegisterKey) {
        let mut of = self.of.lock();
        let lacking = of.entry(drive).or_default();
        if lacking.keys.len() < MISSED {
            lacking.keys.insert(key.clone());
        } else {
            lacking.more = true;
        }
    }
}
