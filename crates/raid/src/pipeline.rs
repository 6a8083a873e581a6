//! Batches in a pipeline: while the journal of one batch is written, or its blocks are written in place, the next one is staged already.
//!
//! A batch is staged in memory ([`Group::open_batch`], [`Group::close_batch`]). One request after the other takes all that is staged to the journals
//! ([`Group::begin_journal`], [`Journaling`]); when that is durable the batches are, and their blocks are written in place, each member by itself
//! ([`Group::begin_put`], [`Putting`]). Members are waited for between these functions, without the group. Without a journal a batch is in place before it
//! is answered.
//!
//! Invariants:
//! - Batches are staged and become durable in the order of their numbers: an entry of the journal counts only if all before it do.
//! - A block of the overlay belongs to the newest batch that changed it, and is written in place only when that batch is durable. An older batch need
//!   not write it any more: its content is in the journal. No block is written by two requests at once.
//! - It leaves the overlay when its newest content is in place, so whoever needs a block finds it there or on its member.
//! - A failed member is recorded on the others before the next entry, and before the next batch becomes durable.
//! - Nothing but batches changes the group while one is under way ([`Group::is_idle`]): no checkpoint, no progress of a rebuild, no growth.
//!
//! Must not depend on: threads, who waits for a batch.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::commit::{MAX_DIRTY, RESERVE};
use crate::content::{Block, Content};
use crate::geometry::BLOCK;
use crate::group::Group;
#[cfg(test)]
use crate::group::Mutant;
use crate::io::{Done, Flushes, Writes};
use crate::journal::MAX_CHANGES;
use crate::pool::Pool;
use crate::under_way::Row;
use crate::write::Request;

/// Requests in place that a member has under way at once, at most.
const PUTS: usize = 4;
/// Blocks of one of them, at most, and ranges that they lie in: those behind it do not wait for long.
const PUT: usize = 512;
const RANGES: usize = 4;
/// Blocks of a member for which one request to its journal waits, at most.
pub(crate) const GATHERED: usize = 32;
/// How long a staged batch waits for others, at most.
pub(crate) const GATHERS: Duration = Duration::from_millis(20);
/// Durable blocks that are not in place, from which on no further batch is staged.
const BACKLOG: usize = 2048;

/// Whether a batch can be staged while others are under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fits {
    Yes,
    /// Yes, and it has whole rows that are written once.
    Once,
    /// After a checkpoint.
    WithRoom,
    /// It needs steps of its own between its blocks.
    Alone,
}

impl Fits {
    /// Whether it can be staged now.
    pub(crate) fn is_staged(self) -> bool {
        matches!(self, Fits::Yes | Fits::Once)
    }
}

/// Staged batches on their way to the journals.
pub(crate) struct Journaling {
    /// The newest batch of these; none: only rows that were written once are made durable.
    upto: Option<u64>,
    /// Batches whose rows these are.
    in_place: Vec<u64>,
    writes: Writes,
    flushes: Flushes,
    pool: Arc<Pool>,
}

/// What became of a step: members with their errors, and what they failed at.
pub(crate) type Failures = Vec<(usize, &'static str, io::Error)>;

fn failures(done: Done, op: &'static str) -> Failures {
    done.into_iter().filter_map(|(slot, done)| Some((slot, op, done.err()?))).collect()
}

impl Journaling {
    /// Writes all parts.
    pub(crate) fn write(&mut self) -> Failures {
        failures(std::mem::take(&mut self.writes).run(&self.pool), "write the journal")
    }

    /// Makes them durable, but on members that failed.
    pub(crate) fn flush(&mut self, failed: &Failures) -> Failures {
        let mut flushes = std::mem::take(&mut self.flushes);
        flushes.retain(|(slot, ..)| failed.iter().all(|(s, ..)| s != slot));
        failures(crate::io::flush(&self.pool, flushes), "flush")
    }

    /// Both steps.
    pub(crate) fn run(&mut self) -> Failures {
        let mut failed = self.write();
        let more = self.flush(&failed);
        failed.extend(more);
        failed
    }
}

/// Blocks of a member on their way in place.
pub(crate) struct Putting {
    slot: usize,
    rows: Vec<Row>,
    writes: Writes,
    pool: Arc<Pool>,
}

impl Putting {
    pub(crate) fn run(&mut self) -> Failures {
        failures(std::mem::take(&mut self.writes).run(&self.pool), "write")
    }
}

impl Group {
    /// Whether no batch is under way.
    pub(crate) fn is_idle(&self) -> bool {
        let u = &self.under_way;
        #[cfg(test)]
        if self.has(Mutant::CheckpointBeforeInPlace) {
            return u.staged == u.durable && !u.journaling;
        }
        u.open.is_none()
            && u.staged == u.durable
            && !u.journaling
            && u.backlog == 0
            && u.putting.is_empty()
            && u.once.is_empty()
            && self.overlay.is_empty()
    }

    /// Whether so much waits to be written in place that no further batch should be staged.
    pub(crate) fn is_full(&self) -> bool {
        self.under_way.backlog >= BACKLOG && self.stopped.is_none()
    }

    /// The newest batch that is durable.
    pub(crate) fn durable(&self) -> u64 {
        self.under_way.durable
    }

    /// Whether what this batch, and those before it, have written cannot be lost any more.
    pub(crate) fn counts(&self, batch: u64) -> bool {
        self.under_way.durable >= batch
            && self.under_way.once.keys().next().is_none_or(|first| *first > batch)
    }

    /// Whether batches wait for the journals, and can go there.
    fn has_staged(&self) -> bool {
        self.under_way.staged > self.under_way.durable && !self.is_held()
    }

    /// Whether a request to the journals should begin: there is something for it, no other is under way, and the members do not have
    /// enough to write in place. While they have, more can be staged, and fewer requests to the journals are needed.
    pub(crate) fn wants_journal(&self) -> bool {
        let u = &self.under_way;
        let busy = u.waiting.keys().filter(|slot| self.is_busy(**slot)).count();
        !u.journaling && (!u.unflushed.is_empty() || busy < self.members.len() && self.has_staged())
    }

    /// Whether a request to the journals should wait for batches that are being read for, of so many requests in all: until half of all their
    /// blocks are staged, or [`Group::gathers`] blocks for each member. The members have fewer requests then. It is not worth it where
    /// that would be few.
    pub(crate) fn may_gather(&self, coming: usize) -> bool {
        let u = &self.under_way;
        let staged: usize = u.changes.iter().map(|(_, places)| places.len()).sum();
        let all = staged + coming * (1 + self.geometry().m);
        let most = self.gathers.0 * self.members.len();
        u.hurried == 0 && u.unflushed.is_empty() && all >= most / 4 && staged < most.min(all / 2)
    }

    /// Batches that can be answered since the last call.
    pub(crate) fn take_finished(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.under_way.finished)
    }

    /// Whether requests can be staged as a batch; `again`: some of them perhaps twice.
    pub(crate) fn fits(&mut self, requests: &[Request<'_>], again: bool) -> Fits {
        if self.stopped.is_some() {
            return Fits::Yes;
        }
        if self.is_held() || requests.iter().any(|r| matches!(r, Request::Zero { .. })) {
            return Fits::Alone;
        }
        let mut blocks = vec![self.under_way.once.values().map(|o| o.reserved).sum(); self.members.len()];
        let (mut heads, mut any_once) = (0, false);
        for request in requests {
            let Request::Write { at, data } = request else { continue };
            if data.is_empty() || self.check_range(*at, data.len() as u64).is_err() {
                continue;
            }
            let (first, end) = (at / BLOCK as u64, (at + data.len() as u64).div_ceil(BLOCK as u64));
            let mut changes = 0;
            let rows = self.rows_of(first, end - first);
            let once = self.writes_once(&rows);
            any_once |= once;
            for ((set, row), parts) in rows {
                let g = *self.shape(row);
                let slots = self.slots(set, row);
                if self.is_written_once(&slots, row) {
                    // Its rows are of nobody else until they are durable.
                    return Fits::Alone;
                }
                if self.journaled() && parts.len() == g.k && !once && self.is_unwritten(&slots, row) {
                    // It goes in place before its entry.
                    return Fits::Alone;
                }
                let roles = parts.iter().map(|(role, _)| *role).chain(g.k..g.n());
                roles.for_each(|role| blocks[slots[role]] += 1);
                changes += parts.len() + g.m;
            }
            heads += 1 + (changes / (MAX_CHANGES / 2)) as u64;
        }
        let times = if again { 2 } else { 1 };
        let room = |(member, blocks): (&Option<crate::member::Member>, u64)| {
            let used = member.as_ref().map_or(0, |m| m.journal_at);
            used + times * (blocks + heads) + RESERVE <= self.layout.journal_blocks
        };
        let has_room = !self.journaled() || self.members.iter().zip(blocks).all(room);
        match has_room && self.pages.dirty() <= MAX_DIRTY {
            true if any_once => Fits::Once,
            true => Fits::Yes,
            false => Fits::WithRoom,
        }
    }

    /// Begins a batch; its number. What is staged until [`Group::close_batch`] belongs to it.
    pub(crate) fn open_batch(&mut self) -> u64 {
        assert!(self.fresh.is_empty() && self.discarded.is_empty(), "such batches are executed alone");
        let number = self.under_way.staged + 1;
        self.under_way.open = Some(number);
        self.under_way.changes.push_back((number, Vec::new()));
        number
    }

    /// Whether a batch is being staged whose steps follow later.
    pub(crate) fn is_open(&self) -> bool {
        self.under_way.open.is_some()
    }

    /// Ends a batch: it is in memory as a whole.
    pub(crate) fn close_batch(&mut self) {
        self.seal();
        let u = &mut self.under_way;
        u.staged = u.open.take().expect("it was opened");
        if !self.journaled() {
            self.becomes_durable(self.under_way.staged);
        }
        if self.stopped.is_some() {
            self.abandon();
        }
    }

    /// Adds content to the overlay.
    pub(crate) fn cover(&mut self, place: (usize, u64), content: Content, in_place: bool) {
        let batch = self.under_way.open.unwrap_or(0);
        if let Some((_, places)) = self.under_way.changes.back_mut().filter(|(number, _)| *number == batch) {
            places.push(place);
        }
        let writing = self.overlay.get(&place).is_some_and(|b| b.writing);
        self.overlay.insert(place, Block { content, in_place, batch, writing, once: false });
    }

    /// Batches up to this one are durable: their blocks can go in place.
    fn becomes_durable(&mut self, upto: u64) {
        let journaled = self.journaled();
        let u = &mut self.under_way;
        u.durable = upto;
        while u.changes.front().is_some_and(|(number, _)| *number <= upto) {
            let Some((batch, mut places)) = u.changes.pop_front() else { break };
            places.sort_unstable();
            places.dedup();
            u.backlog += places.len();
            if journaled && !u.once.contains_key(&batch) || places.is_empty() {
                u.finished.push(batch);
            } else {
                u.left.insert(batch, places.len());
            }
            for (slot, row) in places {
                u.waiting.entry(slot).or_default().push_back((row, batch));
            }
        }
    }

    /// Takes what is staged to the journals. None: nothing is, a request to them is under way, or the group has stopped.
    pub(crate) fn begin_journal(&mut self) -> Option<Journaling> {
        if !self.wants_journal() {
            return None;
        }
        if self.stopped.is_some() {
            self.abandon();
            return None;
        }
        let staged = self.has_staged();
        if staged {
            self.journal_content_instead();
        }
        let in_place = std::mem::take(&mut self.under_way.unflushed);
        self.under_way.journaling = true;
        let parts = if staged { std::mem::take(&mut self.parts) } else { Vec::new() };
        let blocks = parts.iter().flat_map(|(slot, first, part)| {
            (*first..).zip(part).map(move |(block, content)| (*slot, block, content.clone()))
        });
        let writes = self.writes(blocks.collect());
        let flushes = if in_place.is_empty() { writes.flushes() } else { self.dirty_flushes() };
        #[cfg(test)]
        let unflushed = self.has(Mutant::OnceUnflushed) && !in_place.is_empty();
        #[cfg(test)]
        let flushes = if self.has(Mutant::AnsweredBeforeFlush) || unflushed { Vec::new() } else { flushes };
        let upto = staged.then_some(self.under_way.staged);
        Some(Journaling { upto, in_place, writes, flushes, pool: self.pool.clone() })
    }

    /// What was staged is in the journals.
    ///
    /// # Errors
    /// Why the group has stopped: nothing is under way any more but what members are doing.
    pub(crate) fn end_journal(&mut self, journaling: &Journaling, failed: Failures) -> Result<(), Error> {
        self.under_way.journaling = false;
        self.under_way.flushed.extend_from_slice(&journaling.in_place);
        self.settle_after(failed)?;
        let Some(upto) = journaling.upto else { return Ok(()) };
        if self.is_held() || self.journal_content_instead() {
            // They count after what is written next.
            return Ok(());
        }
        #[cfg(test)]
        let upto = if self.has(Mutant::DurableAtStaging) { self.under_way.staged } else { upto };
        self.becomes_durable(upto);
        Ok(())
    }

    /// Members that have something to write in place, and can take a request.
    pub(crate) fn can_put(&self) -> Vec<usize> {
        let u = &self.under_way;
        u.waiting.keys().copied().filter(|slot| !self.is_busy(*slot)).collect()
    }

    fn is_busy(&self, slot: usize) -> bool {
        self.under_way.putting.get(&slot).is_some_and(|n| *n >= PUTS)
    }

    /// Takes blocks of a member that can be written in place now, if it can take a request.
    pub(crate) fn begin_put(&mut self, slot: usize) -> Option<Putting> {
        if self.is_busy(slot) {
            return None;
        }
        if self.stopped.is_some() {
            self.abandon();
        }
        let mut waiting = self.under_way.waiting.remove(&slot)?;
        let (mut later, mut rows, mut blocks) = (VecDeque::new(), Vec::<Row>::new(), Vec::new());
        let mut ranges = 0;
        while let Some((row, batch)) = waiting.pop_front() {
            #[cfg(test)]
            let unordered = self.has(Mutant::PutsOutOfOrder);
            #[cfg(not(test))]
            let unordered = false;
            match self.overlay.get_mut(&(slot, row)).filter(|block| block.batch == batch) {
                // A later batch writes it, or its member has failed.
                None => self.is_put(batch),
                Some(block) if block.writing && !unordered => later.push_back((row, batch)),
                Some(block) => {
                    let follows = rows.last().is_some_and(|(last, _)| last + 1 == row);
                    if rows.len() >= PUT || !follows && ranges == RANGES {
                        waiting.push_front((row, batch));
                        break;
                    }
                    ranges += usize::from(!follows);
                    block.writing = true;
                    blocks.push((slot, self.layout.data_start + row, block.content.clone()));
                    rows.push((row, batch));
                }
            }
        }
        // In their order.
        later.append(&mut waiting);
        if !later.is_empty() {
            self.under_way.waiting.insert(slot, later);
        }
        if rows.is_empty() {
            return None;
        }
        self.counters.blocks_written += rows.len() as u64;
        *self.under_way.putting.entry(slot).or_default() += 1;
        Some(Putting { slot, rows, writes: self.writes(blocks), pool: self.pool.clone() })
    }

    /// A block of a batch is in place, or need not be.
    fn is_put(&mut self, batch: u64) {
        let u = &mut self.under_way;
        u.backlog = u.backlog.saturating_sub(1);
        if let Some(left) = u.left.get_mut(&batch) {
            *left -= 1;
            if *left == 0 {
                u.left.remove(&batch);
                if u.once.contains_key(&batch) { u.unflushed.push(batch) } else { u.finished.push(batch) }
            }
        }
    }

    /// Blocks are in place.
    ///
    /// # Errors
    /// As [`Group::end_journal`].
    pub(crate) fn end_put(&mut self, putting: &Putting, failed: Failures) -> Result<(), Error> {
        let slot = putting.slot;
        if let Some(under_way) = self.under_way.putting.get_mut(&slot) {
            *under_way -= 1;
            if *under_way == 0 {
                self.under_way.putting.remove(&slot);
            }
        }
        // A flush that ran meanwhile did not cover it.
        if let Some(member) = &mut self.members[slot] {
            member.mark();
        }
        for (row, batch) in &putting.rows {
            if let Some(block) = self.overlay.get_mut(&(slot, *row)) {
                block.writing = false;
                #[cfg(test)]
                let any = self.mutant == Some(Mutant::LeavesWithOlder);
                #[cfg(not(test))]
                let any = false;
                if (block.batch == *batch || any) && !block.once {
                    self.overlay.remove(&(slot, *row));
                }
            }
            if self.stopped.is_none() {
                self.is_put(*batch);
            }
        }
        self.settle_after(failed)
    }

    /// Takes members out of service that failed, durably.
    fn settle_after(&mut self, failed: Failures) -> Result<(), Error> {
        for (slot, op, error) in failed {
            self.fail(slot, op, &error);
        }
        let done = self.running().and_then(|()| self.settle());
        match done {
            Ok(()) => self.finish_once(),
            Err(_) => self.abandon(),
        }
        done
    }

    /// The group has stopped: the journals have what was answered, and nothing more is written.
    pub(crate) fn abandon(&mut self) {
        self.overlay.clear();
        self.joint.clear();
        self.parts.clear();
        let u = &mut self.under_way;
        u.open = None;
        u.durable = u.staged;
        u.changes.clear();
        u.waiting.clear();
        u.left.clear();
        u.once.clear();
        u.unflushed.clear();
        u.flushed.clear();
        u.backlog = 0;
    }

    /// Stops the group after a step that did not end as it should.
    pub(crate) fn stop_for(&mut self, error: Error) {
        self.stopped.get_or_insert(error);
        self.abandon();
    }
}
