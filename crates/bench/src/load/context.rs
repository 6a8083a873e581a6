//! The shared state of all workers of a session: job, keys, data, counters.
//!
//! Invariant: memory does not grow with the number of requests. Must not depend on: `session`, which prepares
//! it; `worker` and `ops`, which use it.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::{Job, keys::Keys, population::Population};
use crate::wire::{Content, Pool, Settings};

/// Conditional creations are remembered in a ring of so many keys, to notice a second winner.
pub(super) const RING: usize = 1 << 16;

/// What all workers of a session share.
pub struct Context {
    /// The job.
    pub job: Job,
    pub(super) settings: Arc<Settings>,
    pub(super) pool: Pool,
    pub(super) keys: Keys,
    pub(super) buckets: Vec<String>,
    /// Existing objects: bucket and encoded path; at most `objects` of them.
    pub(super) listed: Vec<(u32, Box<str>)>,
    /// The next number that was never used.
    pub(super) next: AtomicU64,
    /// Conditional creations so far: two of them share a key.
    pub(super) turns: AtomicU64,
    /// The next prepared object to remove.
    pub(super) deleted: AtomicU64,
    /// Only for mixes that remove.
    pub(super) population: Option<Population>,
    /// Version ids of prepared objects, encoded: object times versions plus version.
    pub(super) versions: Vec<OnceLock<Box<str>>>,
    /// Numbers plus one of keys created under a condition.
    pub(super) created: Vec<AtomicU64>,
    /// The tag last replaced, by key.
    pub(super) replaced: Vec<Mutex<String>>,
    /// Requests in flight by host.
    pub(super) outstanding: Vec<AtomicU32>,
    /// Phases begun: random choices differ between them.
    pub(super) phases: AtomicU64,
}

impl Context {
    /// The bucket of an object.
    pub(super) fn bucket(&self, number: u64) -> &str {
        &self.buckets[(number % self.buckets.len() as u64) as usize]
    }

    /// Part `part` of object `number`.
    pub(super) fn part(&self, number: u64, part: u64) -> crate::wire::Slice<'_> {
        let size = self.job.part_size;
        let whole: Content<'_> = self.pool.content(number, 0, size * u64::from(self.job.parts));
        whole.slice(part * size, size)
    }

    /// The id of a version that was prepared.
    pub(super) fn version_id(&self, number: u64, version: u64) -> Result<&str, String> {
        let at = number * u64::from(self.job.versions) + version;
        self.versions.get(at as usize).and_then(OnceLock::get).map(|id| &**id).ok_or("no-version-id".into())
    }

    /// Mixed into the seeds of workers.
    pub(super) fn epoch(&self) -> u64 {
        self.phases.load(Ordering::Relaxed) << 48
    }
}
