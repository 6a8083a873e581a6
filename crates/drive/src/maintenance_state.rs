//! State that only the maintenance thread (or recovery before it) uses.
//!
//! Invariant: one thread uses it at a time.
//!
//! Must not depend on: the state of a drive, what the maintenance thread does with it (`maintenance`,
//! `compact`, `recycle`).

use crate::index::Manifest;
use crate::space::FreedWaiting;
use ashlar_environment::time::Instant;
use std::collections::BTreeMap;

/// State that only the maintenance thread (or recovery before it) uses.
#[derive(Default)]
pub(crate) struct MaintenanceState {
    /// The last manifest stored.
    pub manifest: Manifest,
    /// The future manifest of the frozen generation.
    pub freeze: Option<Manifest>,
    pub next_run: u32,
    /// Segments that do not verify: never compacted.
    pub bad: Vec<u32>,
    pub last_drain: Option<Instant>,
    pub pass: Pass,
    /// Almost nothing was written between the last two ticks.
    pub idle: bool,
    /// Records written until the last tick, and those that compaction moved since.
    pub records: u64,
    /// Freed regions that wait for the rest of their segment.
    pub freed: BTreeMap<u32, FreedWaiting>,
}

/// How much a segment may still hold so that its compaction is worth it; each more than the one before.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Urge {
    /// Clients need the processor: only segments that are mostly dead (or padding).
    #[default]
    Busy,
    Idle,
    ShortOfSpace,
}

/// The progress of compaction: see [`crate::core::Core::victim`].
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Pass {
    /// A pass is under way, over segments below this one.
    pub before: Option<u32>,
    /// Garbage that the last pass left.
    pub left: u64,
    /// What the last pass took to be worth the work.
    pub urge: Urge,
}
