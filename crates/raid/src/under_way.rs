//! Batches of requests between their staging and their end, as they are kept with the group.
//!
//! Must not depend on: groups, what a batch does.

use std::collections::{BTreeMap, VecDeque};

/// A row of a member, and the batch that changes it.
pub(crate) type Row = (u64, u64);

/// Rows of a batch that are written once.
#[derive(Default)]
pub(crate) struct Once {
    /// Their blocks, by member and row.
    pub(crate) places: Vec<(usize, u64)>,
    /// Blocks of a journal that are kept free for their content.
    pub(crate) reserved: u64,
}

/// What is under way. Its rules are those of [`crate::pipeline`], which alone changes it.
#[derive(Default)]
pub(crate) struct UnderWay {
    /// The batch that is being staged.
    pub(crate) open: Option<u64>,
    /// The newest batch that is staged, and the newest one that is durable; without a journal the same.
    pub(crate) staged: u64,
    pub(crate) durable: u64,
    /// A request to the journals is under way.
    pub(crate) journaling: bool,
    /// What the batches that are not durable change.
    pub(crate) changes: VecDeque<(u64, Vec<(usize, u64)>)>,
    /// Durable rows that wait for their member.
    pub(crate) waiting: BTreeMap<usize, VecDeque<Row>>,
    /// Requests in place that a member has under way.
    pub(crate) putting: BTreeMap<usize, usize>,
    /// Rows that wait or are being written.
    pub(crate) backlog: usize,
    /// Without a journal, and of batches with rows that are written once: how many blocks of a batch are not in place.
    pub(crate) left: BTreeMap<u64, usize>,
    /// Rows that are written once, by batch, until they are durable in place.
    pub(crate) once: BTreeMap<u64, Once>,
    /// Batches with such rows, which are in place; those of them whose rows are durable, too.
    pub(crate) unflushed: Vec<u64>,
    pub(crate) flushed: Vec<u64>,
    /// Threads that wait until more is done: the journals wait for nothing meanwhile.
    pub(crate) hurried: usize,
    /// A thread waits until enough is staged for a request to the journals.
    pub(crate) gathering: bool,
    /// Batches that can be answered.
    pub(crate) finished: Vec<u64>,
}
