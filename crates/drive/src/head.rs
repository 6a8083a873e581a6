//! The head of the journal: its open segment, the position of the next batch, the operations of a batch.
//!
//! Invariant: owned by the thread that commits.
//!
//! Must not depend on: how a batch is committed (`journal`).

use crate::entry::Loc;
use crate::op::Op;
use crate::space::Position;
use ashlar_machine::{Buf, DiskFile};
use std::sync::Arc;

/// The head of the journal; owned by the journal thread.
pub(crate) struct Writer {
    pub file: Option<Arc<DiskFile>>,
    pub bytes: u64,
    pub position: Position,
    pub buf: Option<Buf>,
    /// The next batch is the first one of its segment and starts with the list of segments.
    pub prologue: bool,
    /// Operations being committed; kept for its allocation.
    pub ops: Vec<Op>,
    pub batch: Vec<Op>,
    pub placed: Vec<(Loc, Loc)>,
}

impl Writer {
    pub fn new(file: Option<Arc<DiskFile>>, bytes: u64, position: Position) -> Writer {
        Writer {
            file,
            bytes,
            position,
            buf: None,
            prologue: false,
            ops: Vec::new(),
            batch: Vec::new(),
            placed: Vec::new(),
        }
    }

    /// The positions of the records of the last batch, one pair per operation.
    pub fn placed(&self) -> &[(Loc, Loc)] {
        &self.placed
    }
}
