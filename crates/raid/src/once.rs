//! Rows that are written whole, once: in place, and not to the journals before.
//!
//! The journals get an intent: which rows, and the checksums that their blocks will have. When it is durable the blocks go in place, and
//! when they are durable there the request is answered. After a power cut every block of such a row has its new content or the one before,
//! and the checksums tell which. So the data stays as it is, and the parity is made of it: that needs every member.
//!
//! Invariants:
//! - It is done only while every member is in service, and only with members that write a block as a whole ([`crate::Medium::is_atomic`]).
//! - Until the rows are durable in place no other request changes them ([`crate::pipeline::Fits::Alone`]).
//! - **When a member fails** while such rows go in place, that is recorded after they are in place and durable on the others; nothing else is
//!   staged, and nothing is answered, until then ([`Group::is_held`]). After a power cut the member is still one of the group, and its blocks
//!   tell what they were. Rows that are only in an intent go to the journals with their content instead.
//!
//! Must not depend on: threads, who waits for a batch.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::content::{Content, Staged};
use crate::geometry::BLOCK;
use crate::group::Group;
#[cfg(test)]
use crate::group::Mutant;
use crate::journal::{self, Change, Intent, MAX_CHANGES, MAX_INTENT, MAX_RUNS};
use crate::sums::{UNKNOWN, UNWRITTEN};
use crate::superblock::MemberState;
use crate::under_way::Once;

/// Rows that a request has to write whole, so that the steps that this takes more cost less than what it saves.
pub(crate) const LEAST: usize = 16;

/// The blocks of a row that is written whole, without checksums.
pub(crate) struct WholeRow {
    pub(crate) set: u32,
    pub(crate) row: u64,
    pub(crate) blocks: Vec<(Change, Content)>,
}

/// Rows of a request: which of their roles change, and the blocks of the request that are their content.
type Rows = BTreeMap<(u32, u64), Vec<(usize, usize)>>;

impl Group {
    /// Whether intents may be written, as far as members and policy are concerned.
    pub(crate) fn may_have_intents(&self) -> bool {
        self.journaled() && self.members.iter().flatten().all(|m| m.medium().is_atomic())
    }

    /// Whether a batch of so many bytes may have rows that are written once.
    pub(crate) fn may_write_once(&self, bytes: u64) -> bool {
        self.superblock.intents && bytes >= (self.once_rows * self.geometry().k * BLOCK) as u64
    }

    /// Whether the whole rows of a request that changes these are written once.
    pub(crate) fn writes_once(&self, rows: &Rows) -> bool {
        let whole = rows.iter().filter(|((_, row), parts)| parts.len() == self.shape(*row).k).count();
        whole >= self.once_rows
            && self.superblock.intents
            && self.superblock.growth.is_none()
            && self.all_online()
            && self.may_have_intents()
    }

    /// Whether every member is in service, with all its blocks.
    fn all_online(&self) -> bool {
        let slots = self.superblock.slots.iter();
        slots.zip(&self.members).all(|(slot, m)| slot.state == MemberState::Online && m.is_some())
    }

    /// Whether a row, of these members, is being written once.
    pub(crate) fn is_written_once(&self, slots: &[usize], row: u64) -> bool {
        #[cfg(test)]
        if self.has(Mutant::OnceShared) {
            return false;
        }
        !self.under_way.once.is_empty()
            && slots.iter().any(|slot| self.overlay.get(&(*slot, row)).is_some_and(|b| b.once))
    }

    /// Whether a member has failed, and that is not recorded yet because rows are being written once.
    pub(crate) fn is_held(&self) -> bool {
        #[cfg(test)]
        if self.has(Mutant::RecordedWhileWrittenOnce) {
            return false;
        }
        let u = &self.under_way;
        self.unsettled && u.once.keys().any(|batch| *batch <= u.durable && !u.flushed.contains(batch))
    }

    /// Adds rows of the batch that is being staged to the journals, with intents.
    pub(crate) fn append_intents(&mut self, mut rows: Vec<WholeRow>) {
        let Some(batch) = self.under_way.open.filter(|_| !rows.is_empty()) else {
            assert!(rows.is_empty(), "they need the steps of a batch");
            return;
        };
        self.seal();
        let blocks = rows.iter_mut().flat_map(|r| r.blocks.iter_mut());
        self.set_sums(blocks.map(|(change, content)| (change, &content[..])));
        let mut rest = &rows[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(piece(rest));
            self.append_intent(now);
            rest = later;
        }
        let blocks = rows.iter().map(|r| r.blocks.len()).sum::<usize>();
        let reserved = (rows.len() + 1 + blocks / (MAX_CHANGES / 2)) as u64;
        let mut places = Vec::with_capacity(blocks);
        for (change, content) in rows.into_iter().flat_map(|r| r.blocks) {
            let place = (usize::from(change.slot), change.row);
            self.set_sum(place.0, place.1, change.sum);
            self.cover(place, content, false);
            if let Some(block) = self.overlay.get_mut(&place) {
                block.once = true;
            }
            places.push(place);
        }
        let once = self.under_way.once.entry(batch).or_default();
        once.reserved += reserved;
        once.places.append(&mut places);
    }

    fn append_intent(&mut self, rows: &[WholeRow]) {
        self.sequence += 1;
        let mut runs: Vec<(u64, u16)> = Vec::new();
        let mut sums: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
        for row in rows {
            match runs.last_mut() {
                Some((first, count)) if *first + u64::from(*count) == row.row => *count += 1,
                _ => runs.push((row.row, 1)),
            }
            row.blocks.iter().for_each(|(change, _)| sums.entry(change.slot).or_default().push(change.sum));
        }
        let (sequence, set) = (self.sequence, rows[0].set);
        for (slot, sums) in sums {
            let intent = Intent { sequence, set, runs: runs.clone(), sums };
            self.append_part(slot, Vec::new(), |at, _| journal::encode_intent(at, &intent));
        }
    }

    /// Adds the content of rows that are only in an intent to the journals: they are written like others from then on.
    pub(crate) fn journal_content(&mut self, rows: &[(u32, u64)]) {
        self.seal();
        let mut staged: Vec<Staged> = Vec::new();
        for (set, row) in rows {
            for slot in self.slots(*set, *row) {
                let Some(block) = self.overlay.get_mut(&(slot, *row)).filter(|b| b.once) else { continue };
                block.once = false;
                let content = block.content.clone();
                let sum = self.sum(slot, *row);
                staged.push((Change { slot: slot as u16, row: *row, sum }, Some(content)));
            }
        }
        let changes: Vec<Change> = staged.iter().map(|(change, _)| *change).collect();
        let mut rest = &staged[..];
        for piece in self.whole_rows(&changes) {
            let (now, later) = rest.split_at(piece.len());
            self.append_parts(now, true);
            rest = later;
        }
        let overlay = &self.overlay;
        self.under_way.once.retain(|_, once| {
            once.places.retain(|place| overlay.get(place).is_some_and(|block| block.once));
            !once.places.is_empty()
        });
    }

    /// If a member has failed: rows of batches that are not durable are written with their content. Whether there are any.
    pub(crate) fn journal_content_instead(&mut self) -> bool {
        #[cfg(test)]
        if self.has(Mutant::OnceThoughDegraded) {
            return false;
        }
        if self.under_way.once.is_empty() || self.all_online() {
            return false;
        }
        let durable = self.under_way.durable;
        let staged = self.under_way.once.iter().filter(|(batch, _)| **batch > durable);
        let places: Vec<(usize, u64)> = staged.flat_map(|(_, once)| &once.places).copied().collect();
        let set_of = |(slot, row): (usize, u64)| self.role_at(slot, row).map(|(set, _)| (set, row));
        let rows: BTreeSet<(u32, u64)> = places.into_iter().filter_map(set_of).collect();
        self.journal_content(&rows.iter().copied().collect::<Vec<_>>());
        !rows.is_empty()
    }

    /// Ends batches whose rows are durable in place, if every failure is recorded.
    pub(crate) fn finish_once(&mut self) {
        if self.unsettled {
            return;
        }
        for batch in std::mem::take(&mut self.under_way.flushed) {
            let once: Once = self.under_way.once.remove(&batch).unwrap_or_default();
            for place in once.places {
                if self.overlay.get(&place).is_some_and(|block| block.batch == batch) {
                    self.overlay.remove(&place);
                }
            }
            self.under_way.finished.push(batch);
        }
    }
}

/// How many of these rows, from the first one on, are in one intent.
fn piece(rows: &[WholeRow]) -> usize {
    let mut runs = 1;
    let more = rows.windows(2).take(MAX_INTENT - 1).take_while(|two| {
        runs += usize::from(two[0].row + 1 != two[1].row);
        two[0].set == two[1].set && runs <= MAX_RUNS
    });
    1 + more.count()
}

/// Rows that intents of the journals say, after a power cut: by set and row, the blocks by member.
pub(crate) type Intended = BTreeMap<(u32, u64), BTreeMap<usize, IntendedBlock>>;

/// A block of such a row.
pub(crate) struct IntendedBlock {
    /// The checksum that it gets.
    pub(crate) new: u64,
    /// What it had before, if the journals tell: the checksum, and the content, if that is perhaps not in place.
    pub(crate) before: Option<(u64, Option<Vec<u8>>)>,
}

/// What a block of such a row turns out to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    New,
    Before,
    /// Its member is out of service, or it is neither.
    Neither,
}

/// The blocks of a row by role, and what is known of them.
struct Resolving<'a> {
    row: u64,
    slots: &'a [usize],
    found: Vec<Found>,
    /// Their checksums before.
    before: Vec<u64>,
    /// What they have, as far as it counts; zeros for what is not known.
    content: Vec<Cow<'a, [u8]>>,
}

impl Resolving<'_> {
    fn roles(&self, what: Found) -> Vec<usize> {
        (0..self.slots.len()).filter(|role| self.found[*role] == what).collect()
    }

    /// It reads as zeros, whatever is in place.
    fn is_empty(&self, role: usize) -> bool {
        self.found[role] == Found::Before && self.before[role] == UNWRITTEN
    }
}

impl Group {
    /// Makes rows consistent that were perhaps being written once.
    pub(crate) fn resolve(&mut self, intended: Intended) -> Result<(), Error> {
        let strip = self.geometry().strip_blocks;
        let mut rest = intended.into_iter().peekable();
        while let Some(((set, row), blocks)) = rest.next() {
            let mut rows = vec![blocks];
            // Of one strip: the same members have them.
            while let Some((_, blocks)) = rest.next_if(|(at, _)| {
                let next = row + rows.len() as u64;
                *at == (set, next) && !next.is_multiple_of(strip)
            }) {
                rows.push(blocks);
            }
            self.resolve_rows(set, row, rows)?;
        }
        Ok(())
    }

    fn resolve_rows(
        &mut self,
        set: u32,
        first: u64,
        rows: Vec<BTreeMap<usize, IntendedBlock>>,
    ) -> Result<(), Error> {
        let slots = self.slots(set, first);
        let mut in_place: Vec<Option<Vec<u8>>> = Vec::new();
        for slot in &slots {
            let mut out = vec![0; rows.len() * BLOCK];
            let up = self.up(*slot, first + rows.len() as u64 - 1);
            let read = self.members[*slot].as_ref().filter(|_| up);
            let read = read.map(|m| m.read(self.layout.data_start + first, &mut out));
            if let Some(Err(e)) = &read
                && self.spareable(*slot)
            {
                self.fail(*slot, "read", e);
            }
            in_place.push(matches!(read, Some(Ok(()))).then_some(out));
        }
        self.running()?;
        for (i, blocks) in rows.iter().enumerate() {
            let here: Vec<Option<&[u8]>> =
                in_place.iter().map(|b| b.as_ref().map(|b| &b[i * BLOCK..(i + 1) * BLOCK])).collect();
            self.resolve_row(&slots, first + i as u64, blocks, &here)?;
        }
        Ok(())
    }

    /// What each block of a row is.
    fn look<'a>(
        &mut self,
        slots: &'a [usize],
        row: u64,
        blocks: &'a BTreeMap<usize, IntendedBlock>,
        in_place: &[Option<&'a [u8]>],
    ) -> Resolving<'a> {
        let mut r = Resolving { row, slots, found: Vec::new(), before: Vec::new(), content: Vec::new() };
        for (slot, here) in slots.iter().zip(in_place) {
            let zeros = || Cow::Owned(vec![0; BLOCK]);
            let (found, before, content) = match (here, blocks.get(slot)) {
                (Some(here), Some(block)) => {
                    let has = self.summer.of(*slot, row, here)[0];
                    match &block.before {
                        _ if has == block.new => (Found::New, UNKNOWN, Cow::Borrowed(*here)),
                        Some((before, Some(content))) => {
                            (Found::Before, *before, Cow::Borrowed(&content[..]))
                        }
                        other => match other.as_ref().map_or_else(|| self.sum(*slot, row), |(sum, _)| *sum) {
                            UNWRITTEN => (Found::Before, UNWRITTEN, zeros()),
                            before if has == before => (Found::Before, before, Cow::Borrowed(*here)),
                            before => (Found::Neither, before, zeros()),
                        },
                    }
                }
                _ => (Found::Neither, UNKNOWN, zeros()),
            };
            r.found.push(found);
            r.before.push(before);
            r.content.push(content);
        }
        r
    }

    fn resolve_row(
        &mut self,
        slots: &[usize],
        row: u64,
        blocks: &BTreeMap<usize, IntendedBlock>,
        in_place: &[Option<&[u8]>],
    ) -> Result<(), Error> {
        let k = self.shape(row).k;
        let mut r = self.look(slots, row, blocks, in_place);
        let up: Vec<bool> = slots.iter().map(|slot| self.up(*slot, row)).collect();
        let whole = (0..slots.len()).all(|role| r.found[role] == Found::New || !up[role]);
        #[cfg(test)]
        let whole = whole || self.has(Mutant::OnceUnresolved);
        if whole {
            for (role, slot) in slots.iter().enumerate().filter(|(role, _)| up[*role]) {
                let sum = blocks.get(slot).map_or(r.before[role], |block| block.new);
                self.set_sum(*slot, row, sum);
            }
            return Ok(());
        }
        // Data that is neither follows from enough others of one kind.
        let lost: Vec<usize> = r.roles(Found::Neither).into_iter().filter(|role| *role < k).collect();
        if !lost.is_empty() {
            let sources = [r.roles(Found::New), r.roles(Found::Before)];
            let Some(roles) = sources.iter().find(|roles| roles.len() >= k) else {
                return self.lose(&r, &lost, blocks);
            };
            let present: Vec<(usize, &[u8])> =
                roles.iter().map(|role| (*role, &r.content[*role][..])).collect();
            let mut made = vec![vec![0; BLOCK]; lost.len()];
            let mut out: Vec<&mut [u8]> = made.iter_mut().map(|b| &mut b[..]).collect();
            self.code(row).reconstruct(&present, &lost, &mut out).map_err(|e| Error::State(e.to_string()))?;
            for (role, made) in lost.into_iter().zip(made) {
                r.content[role] = Cow::Owned(made);
            }
        }
        self.finish_row(r, in_place)
    }

    /// Writes what of a row is not in place: data as it was found, and the parity of that.
    fn finish_row(&mut self, r: Resolving<'_>, in_place: &[Option<&[u8]>]) -> Result<(), Error> {
        let (k, n, row) = (self.shape(r.row).k, r.slots.len(), r.row);
        let data: Vec<&[u8]> = r.content[..k].iter().map(|c| &c[..]).collect();
        let mut parity = vec![vec![0; BLOCK]; n - k];
        let mut out: Vec<&mut [u8]> = parity.iter_mut().map(|b| &mut b[..]).collect();
        self.code(row).encode(&data, &mut out).map_err(|e| Error::State(e.to_string()))?;
        let nothing = (0..k).all(|role| r.is_empty(role));
        for (role, slot) in r.slots.iter().enumerate() {
            if !self.up(*slot, row) {
                continue;
            }
            if nothing || role < k && r.is_empty(role) {
                self.set_sum(*slot, row, UNWRITTEN);
                continue;
            }
            let content = if role < k { &r.content[role][..] } else { &parity[role - k][..] };
            if in_place[role] != Some(content) {
                self.write_blocks(*slot, self.layout.data_start + row, content, "finish a row");
            }
            if self.up(*slot, row) {
                let sum = self.summer.of(*slot, row, content)[0];
                self.set_sum(*slot, row, sum);
            }
        }
        self.counters.resynced += 1;
        self.running()
    }

    /// Blocks of a row cannot be told, whose request was not answered: a member is missing since the power cut. They are errors until they
    /// are written again; the others stay.
    fn lose(
        &mut self,
        r: &Resolving<'_>,
        lost: &[usize],
        blocks: &BTreeMap<usize, IntendedBlock>,
    ) -> Result<(), Error> {
        let k = self.shape(r.row).k;
        for (role, slot) in r.slots.iter().enumerate() {
            if !self.up(*slot, r.row) {
                continue;
            }
            let sum = match r.found[role] {
                _ if role >= k || lost.contains(&role) => UNKNOWN,
                Found::New => blocks.get(slot).map_or(UNKNOWN, |block| block.new),
                Found::Before | Found::Neither => r.before[role],
            };
            if r.found[role] == Found::Before && sum != UNKNOWN && !r.is_empty(role) {
                // Perhaps it is in the journal only.
                self.write_blocks(*slot, self.layout.data_start + r.row, &r.content[role], "finish a row");
            }
            if self.up(*slot, r.row) {
                self.set_sum(*slot, r.row, sum);
            }
        }
        self.counters.unprotected += 1;
        self.running()
    }
}
