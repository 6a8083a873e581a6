//! Reading: verified blocks, and the reconstruction of those that are not there.
//!
//! Invariants: no byte is returned whose checksum was not verified, or that was not computed from verified ones; a
//! block that did not match is reconstructed, written again and counted.
//!
//! Must not depend on: how writes are journaled.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::Error;
use crate::content::{Content, Old};
use crate::geometry::{BLOCK, Place};
use crate::group::Group;
use crate::io::{Ask, Got, Reader, wrong_places};
use crate::pool::Pool;
use crate::prefetch::MOST;
use crate::sums::{UNKNOWN, UNWRITTEN};

/// A block of a row.
enum Fetched {
    Good(Vec<u8>),
    /// Its member is out of service for this row.
    Down,
    /// Its content does not match its checksum, or cannot be read.
    Bad(Option<Vec<u8>>),
}

/// A role whose block does not match its checksum, with the block if it could be read.
type Bad = (usize, Option<Vec<u8>>);

/// Blocks of a strip that a member is asked for.
struct Piece {
    slot: usize,
    row: u64,
    sums: Vec<u64>,
    /// The first of them, counted from that of the read.
    block: u64,
}

/// A read that was planned: it is executed without the group.
pub(crate) struct ReadPlan {
    /// The first block of the virtual address space.
    first: u64,
    /// Bytes of it that are not read.
    skip: usize,
    pieces: Vec<Piece>,
    /// Blocks whose members are out of service, counted from the first.
    left: Vec<u64>,
    /// Blocks that are on their way in place, likewise.
    here: Vec<(u64, Content)>,
    /// The newest batch that these are of. What is read counts when that is durable.
    pub(crate) after: u64,
    reader: Arc<Reader>,
    pool: Arc<Pool>,
}

/// What became of a read.
pub(crate) struct ReadDone {
    got: Vec<Got>,
    /// Blocks that were not found, ascending.
    left: Vec<u64>,
}

impl ReadDone {
    /// Whether everything was read.
    pub(crate) fn is_whole(&self) -> bool {
        self.left.is_empty()
    }
}

impl ReadPlan {
    /// Reads what members in service have.
    pub(crate) fn run(&self, out: &mut [u8]) -> ReadDone {
        let done = if self.skip == 0 && out.len().is_multiple_of(BLOCK) {
            self.run_whole(out)
        } else {
            let mut whole = vec![0; (self.skip + out.len()).next_multiple_of(BLOCK)];
            let done = self.run_whole(&mut whole);
            out.copy_from_slice(&whole[self.skip..self.skip + out.len()]);
            done
        };
        self.here.iter().for_each(|(block, content)| self.put(*block, content, out));
        done
    }

    fn run_whole(&self, mut rest: &mut [u8]) -> ReadDone {
        let (mut asks, mut at) = (Vec::with_capacity(self.pieces.len()), 0);
        for piece in &self.pieces {
            let from = piece.block as usize * BLOCK;
            let len = piece.sums.len() * BLOCK;
            let (to, more) = std::mem::take(&mut rest)[from - at..].split_at_mut(len);
            (rest, at) = (more, from + len);
            if piece.sums.iter().all(|s| *s == UNWRITTEN) {
                to.fill(0);
            } else {
                asks.push(Ask { slot: piece.slot, row: piece.row, sums: &piece.sums, to });
            }
        }
        let reading = self.pool.reading();
        let got = self.reader.read(reading.is_one_of_few.then_some(&*self.pool), asks);
        drop(reading);
        let wrong = wrong_places(&got);
        let mut left = self.left.clone();
        for piece in self.pieces.iter().filter(|_| !wrong.is_empty()) {
            let rows = (piece.block..).zip(piece.row..).take(piece.sums.len());
            left.extend(rows.filter(|(_, row)| wrong.contains(&(piece.slot, *row))).map(|(block, _)| block));
        }
        left.sort_unstable();
        ReadDone { got, left }
    }

    /// Gives what was read and is needed to reconstruct other blocks.
    fn lend(&self, left: &[u64], needed: &BTreeSet<(usize, u64)>, out: &[u8], to: &mut Old) {
        if self.skip != 0 || !out.len().is_multiple_of(BLOCK) {
            return;
        }
        for piece in &self.pieces {
            for ((block, row), sum) in (piece.block..).zip(piece.row..).zip(&piece.sums) {
                let place = (piece.slot, row);
                if *sum != UNWRITTEN && needed.contains(&place) && left.binary_search(&block).is_err() {
                    let from = block as usize * BLOCK;
                    to.insert(place, (*sum, Bytes::copy_from_slice(&out[from..from + BLOCK])));
                }
            }
        }
    }

    /// Copies a block to its place in what is read.
    fn put(&self, block: u64, content: &[u8], out: &mut [u8]) {
        let from = block as usize * BLOCK;
        // A block at an end of the range is read in part.
        let begin = from.max(self.skip);
        let end = (from + BLOCK).min(self.skip + out.len());
        out[begin - self.skip..end - self.skip].copy_from_slice(&content[begin - from..end - from]);
    }
}

impl Group {
    /// Reads `out.len()` bytes at `at`.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::Lost`], [`Error::Failed`].
    pub fn read(&mut self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        self.read_now(at, out).map(drop)
    }

    /// As [`Group::read`]. What is read counts when the batch that it returns is durable.
    pub(crate) fn read_now(&mut self, at: u64, out: &mut [u8]) -> Result<u64, Error> {
        let plan = self.plan_read(at, out.len())?;
        let done = plan.run(out);
        self.finish_read(&plan, done, out)
    }

    /// Plans a read. What follows without the group, [`ReadPlan::run`], finds what is there now, or finds that it does not match.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::Failed`].
    pub(crate) fn plan_read(&mut self, at: u64, len: usize) -> Result<ReadPlan, Error> {
        self.check_range(at, len as u64)?;
        self.running()?;
        self.make_consistent(at, len as u64)?;
        let (first, end) = (at / BLOCK as u64, (at + len as u64).div_ceil(BLOCK as u64));
        let (mut pieces, mut left, mut slots) = (Vec::new(), Vec::new(), BTreeSet::new());
        let (mut here, mut after) = (Vec::new(), 0);
        let mut block = first;
        while block < end && len > 0 {
            let place = self.locate(block);
            let mut count = self.run(block, end - block);
            let slot = self.slot(&place);
            let rows = (slot, place.row)..(slot, place.row + count);
            if let Some((at, covered)) = self.overlay.range(rows).next() {
                if at.1 == place.row {
                    here.push((block - first, covered.content.clone()));
                    after = after.max(covered.batch);
                    block += 1;
                    continue;
                }
                count = at.1 - place.row;
            }
            if self.up(slot, place.row + count - 1) {
                let sums = self.sums(slot, place.row..place.row + count);
                if sums.iter().any(|s| *s != UNWRITTEN) {
                    self.counters.blocks_read += count;
                    slots.insert(slot);
                }
                pieces.push(Piece { slot, row: place.row, sums, block: block - first });
            } else {
                left.extend(block - first..block - first + count);
            }
            block += count;
        }
        Ok(ReadPlan {
            first,
            skip: (at % BLOCK as u64) as usize,
            pieces,
            left,
            here,
            after,
            reader: self.reader(slots),
            pool: self.pool.clone(),
        })
    }

    /// Brings what a read did not find, and records members that failed on the way before their absence can matter. What is read counts when
    /// the batch that it returns is durable.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::Failed`].
    pub(crate) fn finish_read(
        &mut self,
        plan: &ReadPlan,
        mut done: ReadDone,
        out: &mut [u8],
    ) -> Result<u64, Error> {
        self.running()?;
        // A member that was replaced meanwhile is another one.
        done.got.retain(|g| self.is_of(&plan.reader, g.slot));
        self.judge(&mut done.got);
        let (mut needed, mut after) = (BTreeSet::new(), plan.after);
        for block in &done.left {
            let place = self.locate(plan.first + block);
            for slot in self.slots(place.set, place.row) {
                after = after.max(self.overlay.get(&(slot, place.row)).map_or(0, |b| b.batch));
            }
        }
        for block in &done.left {
            let place = self.locate(plan.first + block);
            self.sources(place.set, place.row, &[place.role], &mut needed);
            if needed.len() >= MOST {
                break;
            }
        }
        plan.lend(&done.left, &needed, out, &mut self.old);
        self.fetch_all(needed);
        let found = self.gather_all(plan, &done.left, out);
        self.old.clear();
        found?;
        self.settle()?;
        // A failure that is recorded later counts when these batches do.
        Ok(if self.is_held() { after.max(self.durable()) } else { after })
    }

    fn gather_all(&mut self, plan: &ReadPlan, left: &[u64], out: &mut [u8]) -> Result<(), Error> {
        for block in left {
            let place = self.locate(plan.first + block);
            let got = self.gather(place.set, place.row, &[place.role])?;
            plan.put(*block, &got[0], out);
        }
        Ok(())
    }

    /// See [`crate::VirtualDrive::allocated`].
    pub(crate) fn allocated(&mut self, at: u64, len: u64, most: usize) -> Result<Vec<(u64, bool)>, Error> {
        self.running()?;
        let block = BLOCK as u64;
        let mut out: Vec<(u64, bool)> = Vec::new();
        let mut from = at;
        while from < at + len {
            let place = self.locate(from / block);
            let slot = self.slot(&place);
            // What a member that is out of service had is not known: it counts as data.
            let data = !self.up(slot, place.row) || self.sum(slot, place.row) != UNWRITTEN;
            let to = ((from / block + 1) * block).min(at + len);
            let full = out.len() == most;
            match out.last_mut() {
                Some((len, d)) if *d == data => *len += to - from,
                _ if full => break,
                _ => out.push((to - from, data)),
            }
            from = to;
        }
        Ok(out)
    }

    pub(crate) fn check_range(&self, at: u64, len: u64) -> Result<(), Error> {
        match at.checked_add(len) {
            Some(end) if end <= self.size() => Ok(()),
            _ => Err(Error::Range { at, len, size: self.size() }),
        }
    }

    fn fetch(&mut self, set: u32, row: u64, role: usize) -> Fetched {
        let slot = self.slot(&Place { set, row, role });
        if let Some(block) = self.overlay.get(&(slot, row)) {
            return Fetched::Good(block.content.to_vec());
        }
        if !self.up(slot, row) {
            return Fetched::Down;
        }
        if let Some(content) = self.old(slot, row) {
            return Fetched::Good(content);
        }
        let sum = self.sum(slot, row);
        let mut out = vec![0; BLOCK];
        if sum == UNWRITTEN {
            return Fetched::Good(out);
        }
        let at = self.layout.data_start + row;
        let read = match &self.members[slot] {
            Some(member) => member.read(at, &mut out),
            None => return Fetched::Down,
        };
        self.counters.blocks_read += 1;
        match read {
            // Without redundancy left, only this block is lost, not the whole member.
            Err(e) if self.spareable(slot) => {
                self.fail(slot, "read", &e);
                Fetched::Down
            }
            Err(_) => Fetched::Bad(None),
            Ok(()) if sum != UNKNOWN && self.summer.of(slot, row, &out)[0] == sum => Fetched::Good(out),
            Ok(()) => Fetched::Bad(Some(out)),
        }
    }

    /// The content of the `wanted` roles of a row, reconstructed where it has to be. Wrong blocks that are found on the
    /// way are corrected on their members.
    pub(crate) fn gather(&mut self, set: u32, row: u64, wanted: &[usize]) -> Result<Vec<Vec<u8>>, Error> {
        let (k, n) = (self.shape(row).k, self.shape(row).n());
        let mut have: Vec<Option<Vec<u8>>> = vec![None; n];
        let (mut bad, mut asked) = (Vec::new(), vec![false; n]);
        for &role in wanted {
            self.ask(set, row, role, &mut have, &mut bad, &mut asked);
        }
        if wanted.iter().any(|role| have[*role].is_none()) {
            for role in 0..n {
                if have.iter().flatten().count() >= k {
                    break;
                }
                self.ask(set, row, role, &mut have, &mut bad, &mut asked);
            }
            self.reconstruct(set, row, wanted, &bad, &mut have)?;
        }
        for (role, _) in bad {
            if let Some(content) = have[role].clone() {
                self.correct(set, row, role, &content);
            }
        }
        Ok(wanted
            .iter()
            .map(|role| have[*role].take().expect("every wanted role was found or made"))
            .collect())
    }

    fn ask(
        &mut self,
        set: u32,
        row: u64,
        role: usize,
        have: &mut [Option<Vec<u8>>],
        bad: &mut Vec<Bad>,
        asked: &mut [bool],
    ) {
        if std::mem::replace(&mut asked[role], true) {
            return;
        }
        match self.fetch(set, row, role) {
            Fetched::Good(content) => have[role] = Some(content),
            Fetched::Down => {}
            Fetched::Bad(found) => bad.push((role, found)),
        }
    }

    /// Makes what is missing of the wanted and the bad roles.
    fn reconstruct(
        &mut self,
        set: u32,
        row: u64,
        wanted: &[usize],
        bad: &[Bad],
        have: &mut [Option<Vec<u8>>],
    ) -> Result<(), Error> {
        let missing: Vec<usize> = (0..have.len())
            .filter(|r| have[*r].is_none() && (wanted.contains(r) || bad.iter().any(|(b, _)| b == r)))
            .collect();
        let present: Vec<(usize, &[u8])> =
            have.iter().enumerate().filter_map(|(r, c)| c.as_ref().map(|c| (r, &c[..]))).collect();
        if present.len() < self.shape(row).k {
            return Err(Error::Lost { set, row, why: "too few of its blocks can be read" });
        }
        let mut made = vec![vec![0; BLOCK]; missing.len()];
        let mut out: Vec<&mut [u8]> = made.iter_mut().map(|b| &mut b[..]).collect();
        self.code(row).reconstruct(&present, &missing, &mut out).map_err(|_| Error::Lost {
            set,
            row,
            why: "the code refuses its blocks",
        })?;
        for (role, content) in missing.into_iter().zip(made) {
            let slot = self.slot(&Place { set, row, role });
            if let Some((_, found)) = bad.iter().find(|(b, _)| *b == role) {
                let sum = self.sum(slot, row);
                // If it is what the member has, it is the checksum that is wrong: a member that loses writes may lose those of its checksums.
                let same = found.as_ref() == Some(&content);
                if sum != UNKNOWN && !same && self.summer.of(slot, row, &content)[0] != sum {
                    return Err(Error::Lost {
                        set,
                        row,
                        why: "its blocks match their checksums, but not each other",
                    });
                }
            }
            have[role] = Some(content);
        }
        Ok(())
    }

    /// Writes a block again that was wrong.
    fn correct(&mut self, set: u32, row: u64, role: usize, content: &[u8]) {
        let slot = self.slot(&Place { set, row, role });
        if !self.up(slot, row) {
            return;
        }
        let sum = self.summer.of(slot, row, content)[0];
        self.set_sum(slot, row, sum);
        self.write_blocks(slot, self.layout.data_start + row, content, "correct a block");
        self.counters.corrected += 1;
        self.counters.blocks_written += 1;
        self.corrected[slot] += 1;
    }
}
