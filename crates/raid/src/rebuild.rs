//! Members that are replaced, and their rebuild.
//!
//! A new member is in service below a row that its superblock tells, and counts as absent above. The row moves on when
//! everything below is durable, so a rebuild goes on where it was after a crash.
//!
//! Invariants: no entry of the journal that names the old member is left when a new one takes its position.
//!
//! Must not depend on: when and how fast it is called: whoever owns the group sets the pace.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::Instant;

use ashlar_erasure::Code;

use crate::Error;
use crate::batch::{Batch, Outcome, Site};
use crate::coder::{Batching, Cpu};
use crate::create::{new_id, smallest};
use crate::geometry::BLOCK;
use crate::group::Group;
#[cfg(test)]
use crate::group::Mutant;
use crate::member::{Device, Member};
use crate::sums::UNWRITTEN;
use crate::superblock::{Id, MAX_SPARES, MemberState, Settings};
use crate::threads;

/// Batches that are planned at once, at most.
const WINDOW: usize = 64;

/// How far the rebuild of a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The member.
    pub slot: usize,
    /// Rows done.
    pub done: u64,
    /// Rows in all.
    pub rows: u64,
}

impl Group {
    /// Takes a member out of service, as if it had failed.
    ///
    /// # Errors
    /// [`Error::State`] if it is out of service already or the group cannot do without it; [`Error::Failed`].
    pub fn take_out(&mut self, slot: usize) -> Result<(), Error> {
        self.running()?;
        let known = self.superblock.slots.get(slot).is_some_and(|s| s.state != MemberState::Failed);
        if !known {
            return Err(Error::State(format!("position {slot} has no member in service")));
        }
        if !self.spareable(slot) {
            return Err(Error::State(format!("the group cannot do without the member at position {slot}")));
        }
        self.fail(slot, "taken out", &std::io::Error::other("by request"));
        self.settle()
    }

    /// Takes a member out of service and remembers that an operator did it, until another one takes its place.
    ///
    /// # Errors
    /// As [`Group::take_out`].
    pub fn take_offline(&mut self, slot: usize) -> Result<(), Error> {
        let new = self.superblock.settings.offline.insert(slot as u16);
        self.take_out(slot).inspect_err(|_| {
            if new {
                self.superblock.settings.offline.remove(&(slot as u16));
            }
        })
    }

    /// Changes what the owner of the group keeps with it, durably.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::Failed`].
    pub fn configure(&mut self, change: impl FnOnce(&mut Settings)) -> Result<(), Error> {
        self.running()?;
        change(&mut self.superblock.settings);
        self.unsettled = true;
        self.settle()
    }

    /// Adds a hot spare.
    ///
    /// # Errors
    /// [`Error::Signature`], [`Error::Layout`] if it is too small, [`Error::State`] if there are enough.
    pub fn add_spare(&mut self, device: Device, force: bool) -> Result<(), Error> {
        self.running()?;
        self.make_spare(device, force).map(drop)
    }

    /// Makes a device a hot spare; its identity.
    fn make_spare(&mut self, device: Device, force: bool) -> Result<Id, Error> {
        if self.spares.len() >= MAX_SPARES {
            return Err(Error::State(format!("a group has at most {MAX_SPARES} spares")));
        }
        let member = self.prepare(device, force)?;
        let id = member.id;
        self.superblock.spares.push(id);
        self.spares.push(member);
        self.unsettled = true;
        self.settle()?;
        Ok(id)
    }

    /// Gives up a hot spare: its device is no part of the group any more.
    ///
    /// # Errors
    /// [`Error::State`] if no spare has this name; [`Error::Failed`].
    pub fn remove_spare(&mut self, name: &str) -> Result<(), Error> {
        self.running()?;
        let Some(at) = self.spares.iter().position(|m| m.name == name) else {
            return Err(Error::State(format!("{name} is no hot spare of the group")));
        };
        let mut spare = self.spares.remove(at);
        self.superblock.spares = self.spares.iter().map(|m| m.id).collect();
        self.unsettled = true;
        self.settle()?;
        // The group has forgotten it: a superblock that stays here is only an obstacle to using the device again.
        spare.wipe().map_err(|e| Error::Io { op: "remove the superblock", error: format!("{name}: {e}") })
    }

    /// Puts a device in the place of a failed member; its rebuild follows. The device becomes a hot spare first: so it has a
    /// superblock before another one says that it is a member.
    ///
    /// # Errors
    /// [`Error::State`] if that member is in service; else as [`Group::add_spare`].
    pub fn replace(&mut self, slot: usize, device: Device, force: bool) -> Result<(), Error> {
        self.running()?;
        if self.superblock.slots.get(slot).is_none_or(|s| s.state != MemberState::Failed) {
            return Err(Error::State(format!("position {slot} has no failed member to replace")));
        }
        let id = self.make_spare(device, force)?;
        let Some(at) = self.spares.iter().position(|m| m.id == id) else {
            return Err(Error::State("the new drive could not be written".into()));
        };
        let member = self.spares.remove(at);
        self.install(slot, member)
    }

    /// Puts a hot spare in the place of a failed member, if there are both. The position, if so. One that fails together with
    /// another member of the set is used only if there is no other one; one that is known to be gone is not used.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn use_spare(&mut self) -> Result<Option<usize>, Error> {
        self.running()?;
        let failed = self.superblock.slots.iter().position(|s| s.state == MemberState::Failed);
        let Some(slot) = failed else { return Ok(None) };
        let Some(chosen) = self.best_spare(slot) else { return Ok(None) };
        let member = self.spares.remove(chosen);
        self.install(slot, member)?;
        Ok(Some(slot))
    }

    /// Whether a device can become a member or a spare of this group. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Signature`], [`Error::Layout`] if it is too small, [`Error::Io`].
    pub fn suits(&self, device: &Device, force: bool) -> Result<(), Error> {
        let blocks = smallest(std::iter::once(device), force)?;
        let need = self.layout.data_start + self.layout.data_blocks;
        if blocks < need {
            return Err(Error::Layout(format!(
                "{} has {} bytes; a member of this group needs {}",
                device.name,
                blocks * BLOCK as u64,
                need * BLOCK as u64
            )));
        }
        Ok(())
    }

    pub(crate) fn prepare(&self, device: Device, force: bool) -> Result<Member, Error> {
        self.suits(&device, force)?;
        let name = device.name.clone();
        Member::format(device, new_id()?, &self.layout)
            .map_err(|e| Error::Io { op: "format a member", error: format!("{name}: {e}") })
    }

    fn install(&mut self, slot: usize, member: Member) -> Result<(), Error> {
        // From here on the journal names no member that was at this position before.
        self.checkpoint()?;
        self.pages.forget(slot);
        self.superblock.slots[slot].device = member.id;
        self.superblock.slots[slot].state = MemberState::Rebuild { below: 0 };
        self.superblock.settings.offline.remove(&(slot as u16));
        self.superblock.spares = self.spares.iter().map(|m| m.id).collect();
        self.members[slot] = Some(member);
        self.why[slot] = None;
        if self.journaled() {
            // Its journal is of the same epoch before a superblock says that it counts.
            self.new_epoch()?;
        }
        self.unsettled = true;
        self.settle()
    }

    /// Rebuilds up to `rows` rows of one member. None: no member is being rebuilt.
    ///
    /// # Errors
    /// [`Error::Lost`] if a row cannot be reconstructed: the rebuild stays where it is. [`Error::Failed`].
    pub fn rebuild(&mut self, rows: u64) -> Result<Option<Progress>, Error> {
        self.running()?;
        let found = self.superblock.slots.iter().enumerate().find_map(|(slot, s)| match s.state {
            MemberState::Rebuild { below } => Some((slot, below)),
            _ => None,
        });
        let Some((slot, below)) = found else { return Ok(None) };
        let all = self.geometry().rows();
        let to =
            whole_strips(below, below.saturating_add(rows.max(1)).min(all), self.geometry().strip_blocks);
        #[cfg(test)]
        if self.has(Mutant::ProgressBeforeBlocks) {
            self.superblock.slots[slot].state = MemberState::Rebuild { below: to };
            self.unsettled = true;
            self.settle()?;
            self.superblock.slots[slot].state = MemberState::Rebuild { below };
        }
        self.rebuild_rows(slot, below..to)?;
        let done = Instant::now();
        self.checkpoint()?;
        if self.members[slot].is_some() {
            self.superblock.slots[slot].state =
                if to == all { MemberState::Online } else { MemberState::Rebuild { below: to } };
            self.unsettled = true;
            self.settle()?;
        }
        self.recording = done.elapsed();
        Ok(Some(Progress { slot, done: to, rows: all }))
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
    fn rebuild_rows(&mut self, slot: usize, rows: Range<u64>) -> Result<(), Error> {
        let mut at = rows.start;
        while at < rows.end && self.members[slot].is_some() {
            let g = *self.shape(at);
            let to = self.one_shape(at..rows.end).end;
            if slot >= g.members() {
                // Rows that have not their new shape yet have no block on it.
                at = to;
                continue;
            }
            let per_batch = (self.batching.bytes / (g.k * BLOCK)).max(1) as u64;
            let mut batches = Vec::new();
            while at < to && batches.len() < WINDOW {
                let end = whole_strips(at, (at + per_batch).min(to), g.strip_blocks);
                batches.push(self.plan(slot, at..end));
                at = end;
            }
            let code = self.code(to - 1).clone();
            let outcomes = self.run_batches(slot, &code, &batches, per_batch as usize * BLOCK);
            // The rows of these batches are done one by one, those of later batches by the CPU.
            if let Some(error) = outcomes.iter().find_map(|o| o.coder.clone()) {
                self.coder_failed(error);
            }
            for (batch, outcome) in batches.iter().zip(outcomes) {
                self.take_in(slot, batch, outcome)?;
            }
        }
        Ok(())
    }

    fn run_batches(&mut self, slot: usize, code: &Code, batches: &[Batch], output: usize) -> Vec<Outcome> {
        let of = (code.k(), code.m());
        if self.workers.is_empty() || self.workers_of != of {
            let made = threads::workers(&self.batching, code, output * code.k(), output);
            self.workers = made.unwrap_or_else(|e| {
                self.coder_failed(e);
                threads::workers(&self.batching, code, output * code.k(), output).unwrap_or_default()
            });
            self.workers_of = of;
        }
        if let Some(member) = &mut self.members[slot] {
            member.mark();
        }
        let site = Site { members: &self.members, layout: &self.layout, summer: &self.summer };
        threads::run(&mut self.workers, site, batches)
    }

    /// The CPU makes the same bytes.
    fn coder_failed(&mut self, error: Error) {
        let name = self.batching.coder.name();
        let why = format!("{name}: {error}");
        self.set_batching(Batching { coder: Arc::new(Cpu::instead_of(why)), ..self.batching.clone() });
    }

    /// Records what a batch did, and does what it left.
    fn take_in(&mut self, slot: usize, batch: &Batch, outcome: Outcome) -> Result<(), Error> {
        self.counters.blocks_read += outcome.read;
        self.counters.blocks_written += outcome.written;
        if let Some((failed, op, error)) = outcome.failed {
            // Without redundancy left, row by row: others may be readable.
            if failed == slot || self.spareable(failed) {
                self.fail(failed, op, &error);
                self.running()?;
            }
        }
        let unwritten = batch.unwritten.iter().map(|row| (*row, UNWRITTEN));
        for (row, sum) in outcome.sums.into_iter().chain(unwritten) {
            if self.members[slot].is_some() {
                self.set_sum(slot, row, sum);
            }
        }
        let mut left = outcome.left;
        left.extend(&batch.alone);
        left.sort_unstable();
        for row in left {
            self.rebuild_row(slot, row)?;
        }
        Ok(())
    }

    fn rebuild_row(&mut self, slot: usize, row: u64) -> Result<(), Error> {
        let g = self.shape(row);
        let (set, role) = (g.set(slot), g.role(slot, row));
        let slots = g.slots(set, row);
        let unwritten = slots.iter().all(|s| !self.up(*s, row) || self.sum(*s, row) == UNWRITTEN);
        if unwritten {
            if self.members[slot].is_some() {
                self.set_sum(slot, row, UNWRITTEN);
            }
            return Ok(());
        }
        let content = self.gather(set, row, &[role])?.remove(0);
        self.write_blocks(slot, self.layout.data_start + row, &content, "rebuild");
        self.counters.blocks_written += 1;
        self.running()?;
        if self.members[slot].is_some() {
            let sum = self.summer.of(slot, row, &content)[0];
            self.set_sum(slot, row, sum);
        }
        Ok(())
    }
}

/// The end of a range, moved down to the end of a strip, unless nothing would be left.
fn whole_strips(from: u64, to: u64, strip: u64) -> u64 {
    let end = to / strip * strip;
    if end > from { end } else { to }
}
