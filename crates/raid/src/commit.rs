//! How changed blocks come to be in the journal and in place: the steps of a batch, in their order.
//!
//! Changes are staged in memory; those with content that follow each other are one entry, in which a block that changes again has its last content
//! only. [`Group::commit`] writes the parts of all entries, flushes the members, and then writes in place.
//!
//! Invariants: nothing that the journal could be needed for is written in place before its entry is flushed. Within a step members, and the
//! requests of one, are in no order; between steps is a flush, or what was written before does not matter yet. After an error the group has
//! stopped, and nothing staged is left.
//!
//! Must not depend on: which blocks a request changes.

use std::collections::BTreeSet;

use crate::Error;
use crate::content::{Content, Staged};
use crate::group::Group;
#[cfg(test)]
use crate::group::Mutant;
use crate::journal::{self, Change, Entry, MAX_CHANGES, Position};
use crate::layout::JOURNAL;
use crate::sums::{UNKNOWN, UNWRITTEN};

/// Blocks of the journal that only entries without content may use.
pub(crate) const RESERVE: u64 = 32;
/// Blocks in place whose entry waits, at most.
const MAX_FRESH: usize = 16 * MAX_CHANGES;
/// Checksum pages that wait for a checkpoint, at most: 4 KiB each.
pub(crate) const MAX_DIRTY: usize = 8 << 10;

impl Group {
    /// Puts content in place whose entry follows: its rows hold nothing yet.
    pub(crate) fn write_fresh(&mut self, mut blocks: Vec<(Change, Content)>) -> Result<(), Error> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.set_sums(blocks.iter_mut().map(|(change, content)| (change, &content[..])));
        // Later entries do not name a member that fails here.
        let places = blocks.iter().map(|(c, content)| ((usize::from(c.slot), c.row), content.clone()));
        self.place(places.collect());
        for (change, content) in blocks {
            self.cover((usize::from(change.slot), change.row), content, true);
            self.fresh.push(change);
        }
        if self.fresh.len() >= MAX_FRESH { self.commit() } else { Ok(()) }
    }

    /// Sets the checksums of changes from their content.
    pub(crate) fn set_sums<'a>(&self, blocks: impl Iterator<Item = (&'a mut Change, &'a [u8])>) {
        let (changes, content): (Vec<&mut Change>, Vec<_>) = blocks
            .map(|(change, content)| {
                let place = (usize::from(change.slot), change.row);
                (change, (place.0, place.1, content))
            })
            .unzip();
        for (change, sum) in changes.into_iter().zip(self.summer.of_blocks(&content)) {
            change.sum = sum;
        }
    }

    /// Writes blocks in place.
    fn place(&mut self, blocks: Vec<((usize, u64), Content)>) {
        self.counters.blocks_written += blocks.len() as u64;
        let start = self.layout.data_start;
        let blocks = blocks.into_iter().map(|((slot, row), content)| (slot, start + row, content));
        self.write_all(blocks.collect(), "write");
    }

    /// Adds an entry to the journal, or without one changes the blocks in place.
    pub(crate) fn append(&mut self, mut entry: Vec<Staged>) -> Result<(), Error> {
        if entry.is_empty() {
            return Ok(());
        }
        let content = entry.iter_mut().filter_map(|(change, content)| Some((change, &content.as_ref()?[..])));
        self.set_sums(content);
        if !self.journaled() {
            return self.in_place(entry);
        }
        self.make_room(entry.len())?;
        // Parts with content and parts without are different entries.
        let (with, without): (Vec<Staged>, Vec<Staged>) = entry.into_iter().partition(|(_, c)| c.is_some());
        self.append_entry(with, true)?;
        self.append_entry(without, false)
    }

    /// Moves rows of a group that grows: they have the new shape from the end of the entry on, which has all of their blocks that
    /// change. Either all have content, or none.
    pub(crate) fn append_moved(&mut self, mut entry: Vec<Staged>, end: u64) -> Result<(), Error> {
        self.make_room(entry.len())?;
        self.seal();
        let has_content = entry.iter().any(|(_, content)| content.is_some());
        let content = entry.iter_mut().filter_map(|(change, content)| Some((change, &content.as_ref()?[..])));
        self.set_sums(content);
        self.moved = end;
        #[cfg(test)]
        if self.has(Mutant::MovedBeforeJournal) {
            self.record_moved();
            self.settle()?;
        }
        self.append_entry(entry, has_content)?;
        self.seal();
        Ok(())
    }

    /// Makes room in the journals for an entry of so many blocks.
    fn make_room(&mut self, blocks: usize) -> Result<(), Error> {
        if self.is_open() {
            // There is room for the whole batch.
            return Ok(());
        }
        let need = 2 + (self.joint.len() + blocks) as u64 + RESERVE;
        if self.room() < need || self.pages.dirty() > MAX_DIRTY {
            self.commit()?;
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Free blocks of the fullest journal.
    fn room(&self) -> u64 {
        let used = self.members.iter().flatten().map(|m| m.journal_at).max().unwrap_or(0);
        self.layout.journal_blocks.saturating_sub(used)
    }

    fn append_entry(&mut self, mut staged: Vec<Staged>, content: bool) -> Result<(), Error> {
        // Whoever reads this entry after a crash must not expect a part of a member that has failed before it.
        self.settle()?;
        assert!(!self.is_held(), "nothing is staged until the failure is recorded");
        staged.retain(|(c, _)| self.up(usize::from(c.slot), c.row));
        if staged.is_empty() {
            return Ok(());
        }
        if content {
            self.join(&staged);
        } else {
            self.seal();
            self.append_parts(&staged, false);
        }
        #[cfg(test)]
        if self.has(Mutant::InPlaceBeforeJournal) {
            let places: Vec<_> = staged
                .iter()
                .filter_map(|(c, content)| Some(((usize::from(c.slot), c.row), content.clone()?)))
                .collect();
            self.place(places);
        }
        for (change, content) in staged {
            let place = (usize::from(change.slot), change.row);
            if !self.up(place.0, place.1) {
                continue;
            }
            self.set_sum(place.0, place.1, change.sum);
            match content {
                Some(content) => {
                    self.cover(place, content, false);
                }
                None if change.sum == UNWRITTEN => {
                    self.overlay.remove(&place);
                    self.discarded.insert(place);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Adds changes with content to the entry that is being made.
    fn join(&mut self, staged: &[Staged]) {
        let place = |c: &Change| (c.slot, c.row);
        let known = |me: &Group, c: &Change| me.joint.iter().position(|(j, _)| place(j) == place(c));
        let new = staged.iter().filter(|(c, _)| known(self, c).is_none()).count();
        if self.joint.len() + new > MAX_CHANGES {
            self.seal();
        }
        for (change, content) in staged {
            match known(self, change) {
                Some(at) => self.joint[at] = (*change, content.clone()),
                None => self.joint.push((*change, content.clone())),
            }
        }
    }

    /// Ends the entry that is being made: its parts wait to be written.
    pub(crate) fn seal(&mut self) {
        let mut joint = std::mem::take(&mut self.joint);
        joint.retain(|(c, _)| self.up(usize::from(c.slot), c.row));
        if !joint.is_empty() {
            self.append_parts(&joint, true);
        }
    }

    /// Adds the parts of an entry to those that wait.
    pub(crate) fn append_parts(&mut self, staged: &[Staged], content: bool) {
        self.sequence += 1;
        let changes: Vec<Change> = staged.iter().map(|(c, _)| *c).collect();
        let entry = Entry { sequence: self.sequence, content, moved: self.moved, changes };
        let slots: BTreeSet<u16> = entry.changes.iter().map(|c| c.slot).collect();
        for slot in slots {
            let own =
                staged.iter().filter(|(c, _)| c.slot == slot).filter_map(|(_, content)| content.clone());
            self.append_part(slot, own.collect(), |at, content| journal::encode(at, &entry, content));
        }
    }

    /// Adds a part on a member to those that wait: they follow one another in its journal and are written with one request. `head` makes its
    /// first block, which is before the content.
    pub(crate) fn append_part(
        &mut self,
        slot: u16,
        mut part: Vec<Content>,
        head: impl FnOnce(&Position, &[&[u8]]) -> Vec<u8>,
    ) {
        let Some(member) = &mut self.members[usize::from(slot)] else { return };
        let at = Position { group: self.superblock.group, slot, epoch: self.epoch, ordinal: member.ordinal };
        let head = head(&at, &part.iter().map(|c| &c[..]).collect::<Vec<_>>());
        part.insert(0, head.into());
        let block = JOURNAL + member.journal_at;
        member.journal_at += part.len() as u64;
        member.ordinal += 1;
        assert!(member.journal_at <= self.layout.journal_blocks, "room was made before");
        self.parts.push((usize::from(slot), block, part));
    }

    /// Writes the parts that wait to the journals.
    fn write_parts(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        let blocks = parts.iter().flat_map(|(slot, first, part)| {
            (*first..).zip(part).map(move |(block, content)| (*slot, block, content.clone()))
        });
        self.write_all(blocks.collect(), "write the journal");
    }

    /// Makes all staged requests durable, then in place.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        assert!(!self.is_open(), "the steps of such a batch follow later");
        let done = self.commit_staged();
        if done.is_err() {
            // The group has stopped; the journal has what was answered.
            self.overlay.clear();
            self.joint.clear();
            self.parts.clear();
            self.fresh.clear();
            self.discarded.clear();
        }
        done
    }

    fn commit_staged(&mut self) -> Result<(), Error> {
        self.running()?;
        if !self.journaled() {
            return self.settle();
        }
        if !self.fresh.is_empty() {
            // What they make count is durable first.
            self.flush_members()?;
            let fresh = std::mem::take(&mut self.fresh);
            for changes in self.whole_rows(&fresh) {
                self.append_entry(changes.iter().map(|c| (*c, None)).collect(), false)?;
            }
        }
        self.seal();
        if self.overlay.is_empty() && self.discarded.is_empty() && self.parts.is_empty() {
            return self.settle();
        }
        self.write_parts();
        #[cfg(test)]
        let unflushed = self.has(Mutant::AnsweredBeforeFlush);
        #[cfg(not(test))]
        let unflushed = false;
        if !unflushed {
            self.flush_members()?;
        }
        self.settle()?;
        for (slot, row, rows) in runs(&std::mem::take(&mut self.discarded)) {
            if let Some(member) = &mut self.members[slot]
                && let Err(e) = member.discard(self.layout.data_start + row, rows)
            {
                self.fail(slot, "discard", &e);
            }
        }
        let blocks = std::mem::take(&mut self.overlay);
        let waiting = blocks.into_iter().filter(|(_, block)| !block.in_place);
        self.place(waiting.map(|(place, block)| (place, block.content)).collect());
        self.settle()?;
        // Entries without content take little of the journal; it still ends.
        if self.room() < RESERVE { self.checkpoint() } else { Ok(()) }
    }

    /// Changes in pieces that fit an entry. A row is never in two entries: one of them might count without the other.
    pub(crate) fn whole_rows<'a>(&self, mut changes: &'a [Change]) -> Vec<&'a [Change]> {
        let set = |c: &Change| self.role_at(usize::from(c.slot), c.row).map(|(set, _)| set);
        let row = |c: &Change| (set(c), c.row);
        let mut out = Vec::new();
        while !changes.is_empty() {
            let mut len = changes.len().min(MAX_CHANGES);
            while len < changes.len() && len > 1 && row(&changes[len - 1]) == row(&changes[len]) {
                len -= 1;
            }
            let (piece, rest) = changes.split_at(len);
            out.push(piece);
            changes = rest;
        }
        out
    }

    /// Without a journal: marks the regions and writes, or leaves that to the steps of the batch.
    fn in_place(&mut self, entry: Vec<Staged>) -> Result<(), Error> {
        self.mark(entry.iter().map(|(change, _)| change.row))?;
        self.settle()?;
        if self.is_open() {
            for (change, content) in entry {
                let place = (usize::from(change.slot), change.row);
                if let Some(content) = content.filter(|_| self.up(place.0, place.1)) {
                    self.set_sum(place.0, place.1, change.sum);
                    self.cover(place, content, false);
                }
            }
            return Ok(());
        }
        let blocks = entry
            .iter()
            .filter(|(c, _)| self.up(usize::from(c.slot), c.row))
            .filter_map(|(c, content)| Some(((usize::from(c.slot), c.row), content.clone()?)))
            .collect();
        self.place(blocks);
        for (change, _) in &entry {
            let slot = usize::from(change.slot);
            if self.up(slot, change.row) {
                assert!(change.sum != UNKNOWN);
                self.set_sum(slot, change.row, change.sum);
            }
        }
        self.settle()?;
        if self.pages.dirty() > MAX_DIRTY { self.checkpoint() } else { Ok(()) }
    }
}

/// Adjacent rows of a member, together.
fn runs(places: &BTreeSet<(usize, u64)>) -> Vec<(usize, u64, u64)> {
    let mut out: Vec<(usize, u64, u64)> = Vec::new();
    for (slot, row) in places {
        match out.last_mut() {
            Some((s, first, rows)) if s == slot && *first + *rows == *row => *rows += 1,
            _ => out.push((*slot, *row, 1)),
        }
    }
    out
}
