//! Rebuilds: blocks of members that are out of service are made anew, on a new device or in a distributed spare.
//!
//! A new member is in service for the rows that the superblock tells, and counts as absent for the others: from the first row on, in a
//! declustered group from the last one. Blocks that a distributed spare has are copied from there. The rows move on when everything of
//! them is durable, so a rebuild goes on where it was after a crash.
//!
//! Invariants: nothing but what is rebuilt changes, and no request is executed meanwhile; the superblocks tell of rows that are durable.
//!
//! Must not depend on: when and how fast it is called: whoever owns the group sets the pace.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_erasure::Code;
use bytes::Bytes;

use crate::Error;
use crate::batch::{Batch, Outcome, Site};
use crate::coder::{Batching, Cpu};
use crate::content::Put;
use crate::geometry::BLOCK;
use crate::group::Group;
#[cfg(test)]
use crate::group::Mutant;
use crate::io::{Ask, wrong_places};
use crate::progress::Progress;
use crate::sums::UNWRITTEN;
use crate::superblock::MemberState;
use crate::threads;

/// Batches that are planned at once, at most.
const WINDOW: usize = 64;

impl Group {
    /// What the next call of [`Group::rebuild`] goes on with. Blocks that go to distributed spares come first, and those that a spare has last.
    #[must_use]
    pub fn rebuilding(&self) -> Option<Progress> {
        let rows = self.geometry().rows();
        let to_device = |whole: bool| {
            self.superblock.slots.iter().enumerate().find_map(|(slot, s)| match s.state {
                MemberState::Rebuild { done } if self.is_whole(slot) == whole => {
                    Some(Progress { slot, to_spare: false, done, rows })
                }
                _ => None,
            })
        };
        self.to_spare().or_else(|| to_device(false)).or_else(|| to_device(true))
    }

    /// A member whose blocks go to a distributed spare.
    pub(crate) fn to_spare(&self) -> Option<Progress> {
        let rows = self.geometry().rows();
        self.superblock.slots.iter().enumerate().find_map(|(slot, s)| {
            let done = s.spare.filter(|_| s.state == MemberState::Failed)?.below;
            (done < rows).then_some(Progress { slot, to_spare: true, done, rows })
        })
    }

    /// Rebuilds up to `rows` rows of one member; of a declustered group whole strips. None: no member is being rebuilt.
    ///
    /// # Errors
    /// [`Error::Lost`] if a row cannot be reconstructed: the rebuild stays where it is. [`Error::Failed`].
    pub fn rebuild(&mut self, rows: u64) -> Result<Option<Progress>, Error> {
        self.running()?;
        let Some(work) = self.rebuilding() else { return Ok(None) };
        self.resync_all()?;
        let (all, strip) = (work.rows, self.geometry().strip_blocks);
        let end = work.done.saturating_add(rows.max(1)).min(all);
        let to = match self.geometry().is_declustered() {
            true => end.next_multiple_of(strip).min(all),
            false => whole_strips(work.done, end, strip),
        };
        let range = match self.geometry().is_declustered() && !work.to_spare {
            true => all - to..all - work.done,
            false => work.done..to,
        };
        #[cfg(test)]
        if self.has(Mutant::ProgressBeforeBlocks) {
            let before = self.superblock.slots[work.slot];
            self.record_rebuilt(&Progress { done: to, ..work });
            self.settle()?;
            self.superblock.slots[work.slot] = before;
        }
        self.rebuild_rows(&work, range)?;
        let done = Instant::now();
        self.checkpoint()?;
        if self.still(&work) {
            self.record_rebuilt(&Progress { done: to, ..work });
            self.settle()?;
        }
        self.recording = done.elapsed();
        Ok(Some(Progress { done: to, ..work }))
    }

    /// Whether a rebuild can go on: its device, if it is to one, has not failed.
    fn still(&self, work: &Progress) -> bool {
        work.to_spare || self.members[work.slot].is_some()
    }

    /// Takes into the superblock how far a rebuild is.
    fn record_rebuilt(&mut self, work: &Progress) {
        let slot = &mut self.superblock.slots[work.slot];
        let left = work.rows - work.done;
        match &mut slot.spare {
            Some(spare) if work.to_spare => spare.below = work.done,
            // The spare has what the device has not.
            Some(spare) => spare.below = spare.below.min(left),
            None => {}
        }
        #[cfg(test)]
        if self.mutant == Some(Mutant::SpareKept)
            && let Some(spare) = &mut slot.spare
            && !work.to_spare
        {
            spare.below = work.rows;
        }
        if !work.to_spare {
            slot.state = match left {
                0 => MemberState::Online,
                _ => MemberState::Rebuild { done: work.done },
            };
        }
        if slot.state == MemberState::Online {
            slot.spare = None;
        }
        self.unsettled = true;
    }

    /// How long the last call of [`Group::rebuild`] took to record how far it is: that does not depend on the number of rows, so whoever
    /// sets the pace does more at once where it is long.
    #[must_use]
    pub fn recording(&self) -> Duration {
        self.recording
    }

    /// Sets how rebuilds and checks are done from now on.
    pub fn set_batching(&mut self, batching: Batching) {
        self.release_batches();
        self.batching = batching;
    }

    /// Gives the memory of batches back, until something is rebuilt or checked again.
    pub fn release_batches(&mut self) {
        self.workers.clear();
        self.buffers.clear();
    }

    /// How rebuilds and checks are done. The coder is the CPU after another one failed.
    #[must_use]
    pub fn batching(&self) -> &Batching {
        &self.batching
    }

    /// Rebuilds rows in batches; what no batch could do, row by row.
    fn rebuild_rows(&mut self, work: &Progress, rows: Range<u64>) -> Result<(), Error> {
        let mut at = rows.start;
        while at < rows.end && self.still(work) {
            let g = *self.shape(at);
            let to = self.one_shape(at..rows.end).end;
            if work.slot >= g.members() {
                // Rows that have not their new shape yet have no block on it.
                at = to;
                continue;
            }
            let least = if g.is_declustered() { g.strip_blocks } else { 1 };
            let per_batch = ((self.batching.bytes / (g.k * BLOCK)) as u64).max(least);
            let mut batches = Vec::new();
            while at < to && batches.len() < WINDOW {
                let end = whole_strips(at, (at + per_batch).min(to), g.strip_blocks);
                self.copy_back(work, at..end)?;
                batches.push(self.plan(work, at..end));
                at = end;
            }
            let code = self.code(to - 1).clone();
            let outcomes = self.run_batches(&code, &batches, per_batch as usize * BLOCK);
            // The rows of these batches are done one by one, those of later batches by the CPU.
            if let Some(error) = outcomes.iter().find_map(|o| o.coder.clone()) {
                self.coder_failed(error);
            }
            for (batch, outcome) in batches.iter().zip(outcomes) {
                self.take_in(work, batch, outcome)?;
            }
        }
        Ok(())
    }

    fn run_batches(&mut self, code: &Code, batches: &[Batch], output: usize) -> Vec<Outcome> {
        let of = (code.k(), code.m());
        if self.workers.is_empty() || self.workers_of != of {
            let made = threads::workers(&self.batching, code, output * code.k(), output);
            self.workers = made.unwrap_or_else(|e| {
                self.coder_failed(e);
                threads::workers(&self.batching, code, output * code.k(), output).unwrap_or_default()
            });
            self.workers_of = of;
        }
        for slot in batches.iter().flat_map(Batch::written_to) {
            if let Some(member) = &mut self.members[slot] {
                member.mark();
            }
        }
        let reader = self.waits().then(|| self.reader(0..self.members.len()));
        let together = reader.as_ref().map(|reader| (reader, &*self.pool));
        let site = Site { members: &self.members, layout: &self.layout, summer: &self.summer, together };
        threads::run(&mut self.workers, site, batches)
    }

    /// The CPU makes the same bytes.
    fn coder_failed(&mut self, error: Error) {
        let name = self.batching.coder.name();
        let why = format!("{name}: {error}");
        self.set_batching(Batching { coder: Arc::new(Cpu::instead_of(why)), ..self.batching.clone() });
    }

    /// Records what a batch did, and does what it left.
    fn take_in(&mut self, work: &Progress, batch: &Batch, outcome: Outcome) -> Result<(), Error> {
        self.counters.blocks_read += outcome.read;
        self.counters.blocks_written += outcome.written;
        for (failed, op, error) in outcome.failed {
            // Without redundancy left, what cannot be read is done row by row: others may be readable.
            if op != "read" || self.spareable(failed) {
                self.fail(failed, op, &error);
                self.running()?;
            }
        }
        let unwritten = batch.unwritten.iter().map(|(row, slot)| (*slot, *row, UNWRITTEN));
        for (slot, row, sum) in outcome.sums.into_iter().chain(unwritten) {
            if self.members[slot].is_some() {
                self.set_sum(slot, row, sum);
            }
        }
        let mut left = outcome.left;
        left.extend(&batch.alone);
        left.sort_unstable();
        left.dedup();
        for row in left {
            self.rebuild_row(work, row)?;
        }
        Ok(())
    }

    /// Where a block of a member that is rebuilt goes. None: to a member that is out of service, so that it stays missing.
    pub(crate) fn target(&self, work: &Progress, row: u64) -> Option<usize> {
        match work.to_spare {
            true => self.in_spare(work.slot, row).filter(|slot| self.up(*slot, row)),
            false => Some(work.slot).filter(|slot| self.members[*slot].is_some()),
        }
    }

    fn rebuild_row(&mut self, work: &Progress, row: u64) -> Result<(), Error> {
        let Some((set, role)) = self.role_at(work.slot, row) else { return Ok(()) };
        let Some(target) = self.target(work, row) else { return Ok(()) };
        let slots = self.slots(set, row);
        let unwritten = slots.iter().all(|s| !self.up(*s, row) || self.sum(*s, row) == UNWRITTEN);
        if unwritten {
            self.set_sum(target, row, UNWRITTEN);
            return Ok(());
        }
        let content = self.gather(set, row, &[role])?.remove(0);
        self.write_blocks(target, self.layout.data_start + row, &content, "rebuild");
        self.counters.blocks_written += 1;
        self.running()?;
        if self.members[target].is_some() {
            let sum = self.summer.of(target, row, &content)[0];
            self.set_sum(target, row, sum);
        }
        Ok(())
    }

    /// Copies the blocks of rows that a distributed spare has to the new device.
    fn copy_back(&mut self, work: &Progress, rows: Range<u64>) -> Result<(), Error> {
        if work.to_spare || self.superblock.slots[work.slot].spare.is_none() {
            return Ok(());
        }
        let strip = self.geometry().strip_blocks;
        let mut from: Vec<(usize, Range<u64>, Vec<u64>)> = Vec::new();
        for row in rows.step_by(strip as usize) {
            let Some((set, role)) = self.role_at(work.slot, row) else { continue };
            let source = self.slot_of(set, row, role);
            if self.up(source, row) {
                let sums = self.sums(source, row..row + strip);
                from.push((source, row..row + strip, sums));
            }
        }
        let mut content: Vec<Vec<u8>> = from.iter().map(|_| vec![0; strip as usize * BLOCK]).collect();
        let asks =
            from.iter().zip(&mut content).filter(|((.., sums), _)| sums.iter().any(|s| *s != UNWRITTEN));
        let asks = asks.map(|((slot, rows, sums), to)| Ask { slot: *slot, row: rows.start, sums, to });
        let reader = self.reader(from.iter().map(|(slot, ..)| *slot));
        let mut got = reader.read(Some(&self.pool.clone()), asks.collect());
        let wrong = wrong_places(&got);
        self.judge(&mut got);
        let (mut puts, mut changes, mut left): (Vec<Put>, Vec<(u64, u64)>, Vec<u64>) = Default::default();
        for ((source, rows, sums), content) in from.iter().zip(&content) {
            let made = self.summer.of(work.slot, rows.start, content);
            let blocks = rows.clone().zip(content.chunks_exact(BLOCK)).zip(sums).zip(made);
            for (((row, block), sum), new) in blocks {
                if *sum == UNWRITTEN {
                    changes.push((row, UNWRITTEN));
                } else if wrong.contains(&(*source, row)) {
                    left.push(row);
                } else {
                    changes.push((row, new));
                    puts.push((work.slot, self.layout.data_start + row, Bytes::copy_from_slice(block)));
                }
            }
        }
        self.counters.blocks_read += puts.len() as u64;
        self.counters.blocks_written += puts.len() as u64;
        self.write_all(puts, "rebuild");
        self.running()?;
        for (row, sum) in changes {
            if self.members[work.slot].is_some() {
                self.set_sum(work.slot, row, sum);
            }
        }
        left.into_iter().try_for_each(|row| self.rebuild_row(work, row))
    }
}

/// The end of a range, moved down to the end of a strip, unless nothing would be left.
fn whole_strips(from: u64, to: u64, strip: u64) -> u64 {
    let end = to / strip * strip;
    if end > from { end } else { to }
}
