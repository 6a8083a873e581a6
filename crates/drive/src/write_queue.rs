//! The shards of a hard disk that wait to be written: see `write_order`.
//!
//! Must not depend on: who writes, what shards contain.

use crate::Error;
use crate::op::Op;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// What came of writing a part of a shard.
#[allow(clippy::large_enum_variant)] // moved once per shard
pub(crate) enum Step {
    /// Nothing more is to be written now.
    Idle,
    More,
    /// All is written, to this segment: it is to be flushed, then this is to be done.
    Done(u32, Op),
}

/// A shard that has something to write.
pub(crate) trait Part: Send + Sync {
    /// Writes what is queued. `ripe`: if it is enough. After [`Step::Idle`] no thread has the shard.
    fn write_queued(self: Arc<Self>, ripe: bool) -> Step;

    /// The shard fails, now or before. No thread has it any more.
    fn fail(&self, error: Error);
}

/// The shards that have something to write.
#[derive(Default)]
pub(crate) struct WriteOrder {
    pub state: Mutex<State>,
    /// Something waits.
    pub work: Condvar,
}

/// The shards that wait for their turn.
#[derive(Default)]
pub(crate) struct State {
    pub waiting: VecDeque<Arc<dyn Part>>,
    /// A thread writes shards.
    pub running: bool,
}
