//! What only the keeper (or recovery before it) touches.
//!
//! Invariant: it is used by one thread at a time. Must not depend on: the state of a drive, what the keeper
//! does with it (`keeper`, `compact`, `recycle`).

use crate::index::Manifest;
use crate::space::FreedWaiting;
use ashlar_environment::time::Instant;
use std::collections::BTreeMap;

/// What only the keeper (or recovery before it) touches.
#[derive(Default)]
pub(crate) struct Keeper {
    /// The last manifest stored.
    pub manifest: Manifest,
    /// What the manifest for the frozen generation will say.
    pub freeze: Option<Manifest>,
    pub next_run: u32,
    /// Segments that do not verify: never compacted.
    pub bad: Vec<u32>,
    pub last_drain: Option<Instant>,
    pub pass: Pass,
    /// Hardly anything was written between the last two ticks.
    pub idle: bool,
    pub records: u64,
    /// Freed regions that wait for the rest of their segment.
    pub freed: BTreeMap<u32, FreedWaiting>,
}

/// How far compaction has come: see [`crate::core::Core::victim`].
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Pass {
    /// A pass is under way, over segments below this one.
    pub before: Option<u32>,
    /// Garbage that the last pass left.
    pub left: u64,
}
