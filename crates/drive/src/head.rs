//! The head of the journal: its open segment, the position of the next batch, the operations of a batch.
//!
//! Invariants: owned by the thread that commits; asserted in every build: no operation is answered before its batch is
//! on the medium (I11), and no batch follows one that failed (I12).
//!
//! Must not depend on: how a batch is committed (`journal`).

use crate::entry::Loc;
use crate::op::Op;
use crate::space::Position;
use crate::unnamed::Note;
use ashlar_machine::{Buf, DiskFile};
use std::sync::Arc;

/// The head of the journal; owned by the journal thread.
pub(crate) struct Writer {
    pub file: Option<Arc<DiskFile>>,
    pub bytes: u64,
    pub position: Position,
    /// The sequence number of the last batch that is on the medium: flushed, or only written on a drive that is not
    /// `strict`.
    durable: u64,
    /// A write or a flush failed, and what the medium holds is not known.
    failed: bool,
    pub buf: Option<Buf>,
    /// The next batch is the first one of its segment and starts with the list of segments.
    pub prologue: bool,
    /// The segment has a format of an earlier release, which gets no more than its seal.
    pub older: bool,
    /// Operations being committed; kept for its allocation.
    pub ops: Vec<Op>,
    pub batch: Vec<Op>,
    pub placed: Vec<(Loc, Loc)>,
    /// The note of unnamed regions in the batch, if it contains one.
    pub note: Option<Note>,
}

impl Writer {
    pub fn new(file: Option<Arc<DiskFile>>, bytes: u64, position: Position) -> Writer {
        Writer {
            file,
            bytes,
            position,
            durable: position.seq,
            failed: false,
            buf: None,
            prologue: false,
            older: false,
            ops: Vec::new(),
            batch: Vec::new(),
            placed: Vec::new(),
            note: None,
        }
    }

    /// The head is at the end of a journal that was read: all of it is on the medium.
    pub fn opened_at(&mut self, position: Position) {
        (self.position, self.durable) = (position, position.seq);
    }

    /// The write or the flush of a batch failed.
    pub fn batch_failed(&mut self) {
        self.failed = true;
    }

    /// A batch was written and flushed; the next one begins at `position`.
    ///
    /// # Panics
    /// I12: an earlier batch failed.
    pub fn batch_is_durable(&mut self, position: Position) {
        assert!(!self.failed, "I12: batch {} was written after one that failed", position.seq);
        (self.position, self.durable) = (position, position.seq);
    }

    /// The operations of the last batch may be answered.
    ///
    /// # Panics
    /// I11: it is not on the medium.
    pub fn may_answer(&self) {
        let (last, durable) = (self.position.seq, self.durable);
        assert!(last == durable && !self.failed, "I11: batch {last} is answered, {durable} is durable");
    }

    /// The positions of the records of the last batch, one pair per operation.
    pub fn placed(&self) -> &[(Loc, Loc)] {
        &self.placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: u64) -> Position {
        Position { seq, ..Position::default() }
    }

    #[test]
    fn durable_batches_are_answered() {
        let mut w = Writer::new(None, 0, at(0));
        w.opened_at(at(4));
        w.may_answer();
        w.batch_is_durable(at(5));
        w.may_answer();
    }

    #[test]
    #[should_panic(expected = "I11")]
    fn i11_fires_on_an_answer_before_the_flush() {
        let mut w = Writer::new(None, 0, at(4));
        w.position = at(5);
        w.may_answer();
    }

    #[test]
    #[should_panic(expected = "I11")]
    fn i11_fires_on_an_answer_after_a_failed_flush() {
        let mut w = Writer::new(None, 0, at(4));
        w.batch_failed();
        w.may_answer();
    }

    #[test]
    #[should_panic(expected = "I12")]
    fn i12_fires_on_a_batch_after_a_failed_one() {
        let mut w = Writer::new(None, 0, at(4));
        w.batch_failed();
        w.batch_is_durable(at(5));
    }
}
