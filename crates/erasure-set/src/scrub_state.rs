//! The results of scrubs, and their next candidates: suspected orphans and abandoned writes.
//!
//! Invariant: suspects and abandoned writes are bounded ([`SUSPECTS`]).
//!
//! Must not depend on: how a pass is made (`scrub`).

use crate::heal_queue::Healed;
use crate::scrub_records::KeptRecords;
use crate::scrub_schedule::ScrubPass;
use ashlar_environment::HashMap;
use ashlar_environment::time::Instant;
use ashlar_format::{RegisterKey, WriteId};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// Number of orphans kept until they are old enough; further ones wait for the next pass.
pub(crate) const SUSPECTS: usize = 65_536;

/// The result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Whether every shard was read and verified, not only looked up.
    pub deep: bool,
    /// When it began (milliseconds since 1970), and how long it took, in milliseconds.
    pub began_ms: u64,
    /// See `began_ms`.
    pub took_ms: u64,
    /// Findings of damage, each of which is named in the log and by [`crate::Sets::damages`].
    pub damaged: u64,
    /// Registers checked.
    pub registers: u64,
    /// What was healed.
    pub healed: Healed,
    /// Shards checked in the census of the drives.
    pub shards: u64,
    /// Shards that no record names, and how many of them were dropped.
    pub orphans: u64,
    /// See `orphans`.
    pub dropped: u64,
}

impl Scrubbed {
    /// Adds a full pass of a group.
    pub(crate) fn add_pass(&mut self, pass: &ScrubPass) {
        let (counts, small) = (pass.counts, |n: u64| u32::try_from(n).unwrap_or(u32::MAX));
        self.began_ms = self.began_ms.min(pass.began_ms.max(0).unsigned_abs());
        self.took_ms += counts.took_ms;
        self.damaged += counts.damaged;
        self.registers += counts.registers;
        self.healed.add(Healed {
            records: small(counts.records),
            shards: small(counts.shards),
            missing: small(counts.missing),
            lost: small(counts.lost),
            bytes: counts.bytes,
            later: 0,
            unheard: 0,
        });
    }
}

pub(crate) struct ScrubState {
    pub(crate) started: Instant,
    pub(crate) suspects: Mutex<HashMap<WriteId, Instant>>,
    /// Writes of this process that ended and, as far as it can tell, no record names; bound: [`SUSPECTS`].
    pub(crate) abandoned: Mutex<HashMap<WriteId, (RegisterKey, Instant)>>,
    /// Whether more were abandoned than are kept.
    pub(crate) overflowed: AtomicBool,
    pub(crate) last: Mutex<Option<Scrubbed>>,
    /// Shards and orphans of the last census.
    pub(crate) census: Mutex<Scrubbed>,
    pub(crate) records: KeptRecords,
    pub(crate) soon: Notify,
    /// How often a drive came back that missed more registers than are noted.
    pub(crate) owed: AtomicU64,
    /// Its value when the last pass that ended began.
    pub(crate) passed: AtomicU64,
}

impl ScrubState {
    pub(crate) fn new() -> ScrubState {
        ScrubState {
            started: Instant::now(),
            suspects: Mutex::default(),
            abandoned: Mutex::default(),
            overflowed: AtomicBool::new(false),
            last: Mutex::new(None),
            census: Mutex::default(),
            records: KeptRecords::default(),
            soon: Notify::new(),
            owed: AtomicU64::new(0),
            passed: AtomicU64::new(0),
        }
    }

    /// A write ended, and it is not known that a record names its data.
    pub(crate) fn abandoned(&self, owner: &RegisterKey, id: WriteId) {
        let mut abandoned = self.abandoned.lock();
        if abandoned.len() < SUSPECTS {
            abandoned.insert(id, (owner.clone(), Instant::now()));
        } else {
            self.overflowed.store(true, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    pub(crate) fn abandoned_now(&self) -> usize {
        self.abandoned.lock().len()
    }

    #[cfg(test)]
    pub(crate) fn forget_abandoned(&self) {
        self.abandoned.lock().clear();
    }

    pub(crate) fn scan_soon(&self) {
        self.soon.notify_one();
    }

    /// Only a pass finds what a drive has missed.
    pub(crate) fn owe_pass(&self) {
        self.owed.fetch_add(1, Ordering::AcqRel);
        self.scan_soon();
    }

    /// Whether a pass that is owed has not ended.
    pub(crate) fn owes_pass(&self) -> bool {
        self.owed.load(Ordering::Acquire) > self.passed.load(Ordering::Acquire)
    }
}
