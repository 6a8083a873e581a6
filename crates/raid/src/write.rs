//! Writing: which blocks of a row change, and how they come to be in the journal and in place.
//!
//! A row that is written whole is encoded; one that is written in part is updated from the old content of its parity
//! (read-modify-write) or encoded with what the others hold (reconstruct-write), whichever reads less. A row that
//! holds nothing yet and is written whole goes in place at once, and an entry without content makes it count: it is
//! written once.
//!
//! Invariants: nothing that the journal could be needed for is written in place before its entry is flushed; no
//! request is answered before that. A row that becomes unwritten again is not written in place before that is durable.
//!
//! Must not depend on: threads, who asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::Error;
use crate::content::Content;
use crate::geometry::BLOCK;
use crate::group::Group;
#[cfg(test)]
use crate::group::Mutant;
use crate::journal::{self, Change, Entry, MAX_CHANGES, Position};
use crate::layout::JOURNAL;
use crate::sums::{UNKNOWN, UNWRITTEN};

/// Blocks of the journal that only entries without content may use.
const RESERVE: u64 = 32;
/// Blocks in place whose entry waits, at most.
const MAX_FRESH: usize = 16 * MAX_CHANGES;
/// Checksum pages that wait for a checkpoint, at most: 4 KiB each.
const MAX_DIRTY: usize = 8 << 10;

/// A change of the virtual address space.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// New content.
    Write {
        /// First byte.
        at: u64,
        /// The content.
        data: &'a [u8],
    },
    /// Reads as zeros from then on. Whole rows give their space back.
    Zero {
        /// First byte.
        at: u64,
        /// Bytes.
        len: u64,
    },
}

/// A change with its content; none: it only sets the checksum. The checksum of content is set when the change is appended.
type Staged = (Change, Option<Content>);

impl Group {
    /// Executes requests in order and makes them durable together, as far as the policy says: under `journal` all of
    /// them, else none before [`Group::flush`].
    pub fn apply(&mut self, requests: &[Request<'_>]) -> Vec<Result<(), Error>> {
        self.prefetch(requests);
        let mut results: Vec<Result<(), Error>> = requests.iter().map(|r| self.stage(*r)).collect();
        self.old.clear();
        if let Err(e) = self.commit() {
            results.fill(Err(e));
        }
        results
    }

    /// Executes one write. See [`Group::apply`].
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::Lost`], [`Error::Failed`].
    pub fn write(&mut self, at: u64, data: &[u8]) -> Result<(), Error> {
        self.apply(&[Request::Write { at, data }]).remove(0)
    }

    /// Makes a range read as zeros. See [`Group::apply`].
    ///
    /// # Errors
    /// As [`Group::write`].
    pub fn zero(&mut self, at: u64, len: u64) -> Result<(), Error> {
        self.apply(&[Request::Zero { at, len }]).remove(0)
    }

    /// Makes everything that was answered durable.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.running()?;
        if self.journaled() {
            // Every answer was durable.
            return Ok(());
        }
        self.checkpoint()
    }

    fn stage(&mut self, request: Request<'_>) -> Result<(), Error> {
        self.running()?;
        match request {
            Request::Write { at, data } => {
                self.check_range(at, data.len() as u64)?;
                if data.is_empty() {
                    return Ok(());
                }
                if at.is_multiple_of(BLOCK as u64) && data.len().is_multiple_of(BLOCK) {
                    return self.write_range(at / BLOCK as u64, data);
                }
                let whole = self.widen(at, data)?;
                self.write_range(at / BLOCK as u64, &whole)
            }
            Request::Zero { at, len } => {
                self.check_range(at, len)?;
                self.zero_range(at, len)
            }
        }
    }

    /// The whole blocks that a write touches, with its content in them.
    fn widen(&mut self, at: u64, data: &[u8]) -> Result<Vec<u8>, Error> {
        let first = at / BLOCK as u64;
        let blocks = (at + data.len() as u64).div_ceil(BLOCK as u64) - first;
        let mut whole = vec![0; blocks as usize * BLOCK];
        let last = blocks as usize - 1;
        for i in if last == 0 { vec![0] } else { vec![0, last] } {
            let place = self.geometry().locate(first + i as u64);
            let got = self.gather(place.set, place.row, &[place.role])?;
            whole[i * BLOCK..(i + 1) * BLOCK].copy_from_slice(&got[0]);
        }
        let from = (at % BLOCK as u64) as usize;
        whole[from..from + data.len()].copy_from_slice(data);
        Ok(whole)
    }

    /// The rows of a range of blocks: roles, and the position of the block in the range.
    pub(crate) fn rows_of(&self, first: u64, blocks: u64) -> BTreeMap<(u32, u64), Vec<(usize, usize)>> {
        let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for i in 0..blocks {
            let place = self.geometry().locate(first + i);
            rows.entry((place.set, place.row)).or_default().push((place.role, i as usize));
        }
        rows
    }

    fn write_range(&mut self, first: u64, data: &[u8]) -> Result<(), Error> {
        let mut entry: Vec<Staged> = Vec::new();
        let mut at_once: Vec<(Change, Content)> = Vec::new();
        for ((set, row), parts) in self.rows_of(first, (data.len() / BLOCK) as u64) {
            let whole = parts.len() == self.geometry().k;
            let slots: Vec<usize> =
                (0..self.geometry().n()).map(|role| self.geometry().slot(set, row, role)).collect();
            let in_place =
                |me: &Group| slots.iter().any(|s| me.overlay.get(&(*s, row)).is_some_and(|(_, p)| *p));
            let unwritten = |me: &Group| slots.iter().any(|s| me.discarded.contains(&(*s, row)));
            if in_place(self) || whole && unwritten(self) {
                self.append(std::mem::take(&mut entry))?;
                self.commit()?;
            }
            let new: Vec<(usize, &[u8])> =
                parts.iter().map(|(role, i)| (*role, &data[i * BLOCK..(i + 1) * BLOCK])).collect();
            let fresh = whole && self.journaled() && self.is_unwritten(&slots, row);
            let changed = self.compose(set, row, &new)?;
            if fresh {
                at_once.extend(changed.into_iter().map(|(change, content)| (change, Arc::new(content))));
                if at_once.len() >= MAX_CHANGES {
                    self.write_fresh(std::mem::take(&mut at_once))?;
                }
                continue;
            }
            if entry.len() + changed.len() > MAX_CHANGES {
                self.append(std::mem::take(&mut entry))?;
            }
            entry.extend(changed.into_iter().map(|(change, content)| (change, Some(Arc::new(content)))));
        }
        self.append(entry)?;
        self.write_fresh(at_once)
    }

    /// Whether no block of a row was ever written, or the row was discarded.
    fn is_unwritten(&mut self, slots: &[usize], row: u64) -> bool {
        slots.iter().all(|s| {
            !self.overlay.contains_key(&(*s, row)) && (!self.up(*s, row) || self.sum(*s, row) == UNWRITTEN)
        })
    }

    /// The new blocks of a row, for all members that are in service for it; without checksums.
    fn compose(
        &mut self,
        set: u32,
        row: u64,
        new: &[(usize, &[u8])],
    ) -> Result<Vec<(Change, Vec<u8>)>, Error> {
        let parity = self.new_parity(set, row, new)?;
        let blocks = new.iter().map(|(role, data)| (*role, data.to_vec())).chain(parity);
        let mut out = Vec::new();
        for (role, content) in blocks {
            let slot = self.geometry().slot(set, row, role);
            if self.up(slot, row) {
                // The page has to be in memory when the checksum is set.
                self.sum(slot, row);
                out.push((Change { slot: slot as u16, row, sum: UNKNOWN }, content));
            }
        }
        Ok(out)
    }

    /// The parity of a row after the change, by role. Parity whose member is out of service is left out.
    fn new_parity(
        &mut self,
        set: u32,
        row: u64,
        new: &[(usize, &[u8])],
    ) -> Result<Vec<(usize, Vec<u8>)>, Error> {
        let (k, n) = (self.geometry().k, self.geometry().n());
        let parity = self.parity_in_service(set, row);
        if parity.is_empty() {
            return Ok(Vec::new());
        }
        let roles: Vec<usize> = new.iter().map(|(role, _)| *role).collect();
        let (others, changed) = self.either(&roles, &parity);
        let code = self.code.clone();
        let mut made = vec![vec![0; BLOCK]; n - k];
        if self.reads(set, row, &others) <= self.reads(set, row, &changed) {
            let old = self.gather(set, row, &others)?;
            let mut data: Vec<&[u8]> = vec![&[]; k];
            new.iter().for_each(|(role, content)| data[*role] = content);
            others.iter().zip(&old).for_each(|(role, content)| data[*role] = content);
            let mut rows: Vec<&mut [u8]> = made.iter_mut().map(|b| &mut b[..]).collect();
            code.encode(&data, &mut rows).map_err(shape)?;
        } else {
            let old = self.gather(set, row, &changed)?;
            let (old, old_parity) = old.split_at(new.len());
            for (role, content) in parity.iter().zip(old_parity) {
                made[*role - k].copy_from_slice(content);
            }
            let mut rows: Vec<&mut [u8]> = made.iter_mut().map(|b| &mut b[..]).collect();
            for ((role, content), old) in new.iter().zip(old) {
                code.update(*role, old, content, &mut rows).map_err(shape)?;
            }
        }
        Ok(parity.into_iter().map(|role| (role, std::mem::take(&mut made[role - k]))).collect())
    }

    /// Parity roles of a row whose members are in service for it.
    fn parity_in_service(&self, set: u32, row: u64) -> Vec<usize> {
        let g = self.geometry();
        (g.k..g.n()).filter(|role| self.up(g.slot(set, row, *role), row)).collect()
    }

    /// The two sets of roles of which the parity can be made when these data roles change: the other data, or what changes.
    fn either(&self, new: &[usize], parity: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let others = (0..self.geometry().k).filter(|role| !new.contains(role)).collect();
        (others, new.iter().chain(parity).copied().collect())
    }

    /// The roles of which the parity of a row is made when these data roles change.
    pub(crate) fn roles_for_parity(&mut self, set: u32, row: u64, new: &[usize]) -> Vec<usize> {
        let parity = self.parity_in_service(set, row);
        if parity.is_empty() {
            return Vec::new();
        }
        let (others, changed) = self.either(new, &parity);
        if self.reads(set, row, &others) <= self.reads(set, row, &changed) { others } else { changed }
    }

    /// How many blocks have to be read for the content of these roles.
    fn reads(&mut self, set: u32, row: u64, roles: &[usize]) -> usize {
        let mut reads = 0;
        for role in roles {
            let slot = self.geometry().slot(set, row, *role);
            if self.overlay.contains_key(&(slot, row)) {
                continue;
            }
            if !self.up(slot, row) {
                return self.geometry().k;
            }
            let here = self.old.contains_key(&(slot, row));
            reads += usize::from(!here && self.sum(slot, row) != UNWRITTEN);
        }
        reads
    }

    fn zero_range(&mut self, at: u64, len: u64) -> Result<(), Error> {
        let block = BLOCK as u64;
        let end = at + len;
        let (first, last) = (at.div_ceil(block), end / block);
        if first >= last {
            // Inside one block, or over one boundary.
            let zeros = vec![0; len as usize];
            return if len == 0 { Ok(()) } else { self.stage(Request::Write { at, data: &zeros }) };
        }
        let (head, tail) = (vec![0; (first * block - at) as usize], vec![0; (end - last * block) as usize]);
        self.stage(Request::Write { at, data: &head })?;
        self.stage(Request::Write { at: last * block, data: &tail })?;
        // In pieces of a stripe over all sets, so that memory is bounded.
        let g = self.geometry();
        let piece = g.strip_blocks * g.k as u64 * u64::from(g.sets);
        let mut from = first;
        while from < last {
            let to = ((from / piece + 1) * piece).min(last);
            self.zero_blocks(from, to - from)?;
            from = to;
        }
        Ok(())
    }

    fn zero_blocks(&mut self, first: u64, blocks: u64) -> Result<(), Error> {
        let zeros = vec![0; BLOCK];
        let mut entry: Vec<Staged> = Vec::new();
        for ((set, row), parts) in self.rows_of(first, blocks) {
            if parts.len() < self.geometry().k {
                for (_, i) in parts {
                    self.write_range(first + i as u64, &zeros)?;
                }
                continue;
            }
            let slots: Vec<usize> =
                (0..self.geometry().n()).map(|role| self.geometry().slot(set, row, role)).collect();
            if slots.iter().any(|s| self.overlay.get(&(*s, row)).is_some_and(|(_, p)| *p)) {
                self.append(std::mem::take(&mut entry))?;
                self.commit()?;
            }
            if self.is_unwritten(&slots, row) {
                continue;
            }
            if entry.len() + slots.len() > MAX_CHANGES {
                self.append(std::mem::take(&mut entry))?;
            }
            for slot in slots {
                if self.up(slot, row) {
                    self.sum(slot, row);
                    entry.push((Change { slot: slot as u16, row, sum: UNWRITTEN }, None));
                }
            }
        }
        self.append(entry)
    }

    /// Puts content in place whose entry follows: its rows hold nothing yet.
    fn write_fresh(&mut self, mut blocks: Vec<(Change, Content)>) -> Result<(), Error> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.set_sums(blocks.iter_mut().map(|(change, content)| (change, &content[..])));
        // Later entries do not name a member that fails here.
        let places = blocks.iter().map(|(c, content)| ((usize::from(c.slot), c.row), content.clone()));
        self.place(places.collect());
        for (change, content) in blocks {
            self.overlay.insert((usize::from(change.slot), change.row), (content, true));
            self.fresh.push(change);
        }
        if self.fresh.len() >= MAX_FRESH { self.commit() } else { Ok(()) }
    }

    /// Sets the checksums of changes from their content.
    fn set_sums<'a>(&self, blocks: impl Iterator<Item = (&'a mut Change, &'a [u8])>) {
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
    fn append(&mut self, mut entry: Vec<Staged>) -> Result<(), Error> {
        if entry.is_empty() {
            return Ok(());
        }
        let content = entry.iter_mut().filter_map(|(change, content)| Some((change, &content.as_ref()?[..])));
        self.set_sums(content);
        if !self.journaled() {
            return self.in_place(entry);
        }
        let need = 1 + entry.len() as u64 + RESERVE;
        if self.room() < need || self.pages.dirty() > MAX_DIRTY {
            self.commit()?;
            self.checkpoint()?;
        }
        // Parts with content and parts without are different entries.
        let (with, without): (Vec<Staged>, Vec<Staged>) = entry.into_iter().partition(|(_, c)| c.is_some());
        self.append_entry(with, true)?;
        self.append_entry(without, false)
    }

    /// Free blocks of the fullest journal.
    fn room(&self) -> u64 {
        let used = self.members.iter().flatten().map(|m| m.journal_at).max().unwrap_or(0);
        self.layout.journal_blocks.saturating_sub(used)
    }

    fn append_entry(&mut self, mut staged: Vec<Staged>, content: bool) -> Result<(), Error> {
        // Whoever reads this entry after a crash must not expect a part of a member that has failed before it.
        self.settle()?;
        staged.retain(|(c, _)| self.up(usize::from(c.slot), c.row));
        if staged.is_empty() {
            return Ok(());
        }
        self.sequence += 1;
        let changes: Vec<Change> = staged.iter().map(|(c, _)| *c).collect();
        let entry = Entry { sequence: self.sequence, content, changes };
        let slots: BTreeSet<u16> = entry.changes.iter().map(|c| c.slot).collect();
        for slot in slots {
            self.append_part(slot, &entry, &staged);
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
                    self.overlay.insert(place, (content, false));
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

    /// Adds the part of an entry on a member to those that wait: they follow one another in its journal and are written with one request.
    fn append_part(&mut self, slot: u16, entry: &Entry, staged: &[Staged]) {
        let Some(member) = &mut self.members[usize::from(slot)] else { return };
        let own = staged.iter().filter(|(c, _)| c.slot == slot).filter_map(|(_, content)| content.clone());
        let mut part: Vec<Content> = own.collect();
        let at = Position { group: self.superblock.group, slot, epoch: self.epoch, ordinal: member.ordinal };
        let head = journal::encode(&at, entry, &part.iter().map(|c| &c[..]).collect::<Vec<_>>());
        part.insert(0, Arc::new(head));
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
        let done = self.commit_staged();
        if done.is_err() {
            // The group has stopped; the journal has what was answered.
            self.overlay.clear();
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
        let waiting = blocks.iter().filter(|(_, (_, in_place))| !in_place);
        self.place(waiting.map(|(place, (content, _))| (*place, content.clone())).collect());
        self.settle()?;
        // Entries without content take little of the journal; it still ends.
        if self.room() < RESERVE { self.checkpoint() } else { Ok(()) }
    }

    /// Changes in pieces that fit an entry. A row is never in two entries: one of them might count without the other.
    fn whole_rows<'a>(&self, mut changes: &'a [Change]) -> Vec<&'a [Change]> {
        let row = |c: &Change| (self.geometry().set(usize::from(c.slot)), c.row);
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

    /// Without a journal: marks the regions and writes.
    fn in_place(&mut self, entry: Vec<Staged>) -> Result<(), Error> {
        for (change, _) in &entry {
            self.mark(change.row)?;
        }
        self.settle()?;
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

fn shape(e: ashlar_erasure::Error) -> Error {
    Error::State(e.to_string())
}
