//! Consistency check: every block of every row against its checksum, and the rows against their parity.
//!
//! Rows are read and verified in batches, on several threads if the group says so. A batch only tells which rows are not
//! as they should be: these are looked at again one by one, which finds the members and corrects them.
//!
//! Must not depend on: when and how fast it is called.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_erasure::Code;

use crate::Error;
use crate::batch::Site;
use crate::geometry::{BLOCK, Geometry};
use crate::group::Group;
use crate::sums::{UNKNOWN, UNWRITTEN};
use crate::threads::on_threads;

/// Batches that are planned at once, at most.
const WINDOW: usize = 64;

/// What a check does about what it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// Wrong blocks are reconstructed and written again.
    AutoFix,
    /// The check ends at the first row that is wrong, and changes nothing.
    StopOnError,
}

/// A row that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The set.
    pub set: u32,
    /// The row.
    pub row: u64,
    /// The members whose blocks are wrong; empty if all match their checksums and the row does not match its parity.
    pub members: Vec<usize>,
    /// They were corrected.
    pub fixed: bool,
}

/// The result of a check of some rows.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The row to go on at; none: the check is complete, or stopped.
    pub next: Option<u64>,
    /// What was wrong.
    pub mismatches: Vec<Mismatch>,
}

impl Group {
    /// Checks `rows` rows of every set from `from` on.
    ///
    /// # Errors
    /// [`Error::Failed`]. A row that cannot be reconstructed is a mismatch that is not fixed.
    pub fn check(&mut self, from: u64, rows: u64, repair: Repair) -> Result<Checked, Error> {
        self.running()?;
        self.resync_all()?;
        let end = from.saturating_add(rows).min(self.geometry().rows());
        let mut out = Checked { next: (end < self.geometry().rows()).then_some(end), ..Checked::default() };
        let mut at = from;
        while at < end {
            let (suspects, next) = self.suspects(self.one_shape(at..end));
            for (row, set) in suspects {
                if let Some(found) = self.check_row(set, row, repair)? {
                    out.mismatches.push(found);
                    if repair == Repair::StopOnError {
                        out.next = None;
                        return Ok(out);
                    }
                }
            }
            at = next;
        }
        self.settle()?;
        Ok(out)
    }

    /// Rows at the beginning of a range that may be wrong, with their sets, in order; and where they end.
    fn suspects(&mut self, rows: Range<u64>) -> (Vec<(u64, u32)>, u64) {
        let g = *self.shape(rows.start);
        let per_batch = (self.batching.bytes / (g.n() * BLOCK)).max(1) as u64;
        let (mut batches, mut at) = (Vec::new(), rows.start);
        while at < rows.end && batches.len() < WINDOW {
            let mut to = (at + per_batch).min(rows.end);
            if g.is_declustered() {
                // In another strip a set has other members.
                to = to.min((at / g.strip_blocks + 1) * g.strip_blocks);
            }
            for set in 0..g.sets {
                batches.push(self.plan_check(set, at..to));
            }
            at = to;
        }
        // Kept from call to call, so that it is not mapped anew by many threads at once.
        self.buffers.resize_with(self.batching.threads.max(1), Vec::new);
        self.buffers.iter_mut().for_each(|b| b.resize(per_batch as usize * g.n() * BLOCK, 0));
        let site =
            Site { members: &self.members, layout: &self.layout, summer: &self.summer, together: None };
        let (next, code) = (AtomicUsize::new(0), self.code(rows.start).clone());
        let threads = self.batching.threads.clamp(1, batches.len());
        let found = on_threads(&mut self.buffers[..threads], |buffer| {
            let (mut out, mut read) = (Vec::new(), 0);
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                let rows = batch.suspects(site, &g, &code, buffer, &mut read);
                out.extend(rows.into_iter().map(|row| (row, batch.set)));
            }
            (out, read)
        });
        let (suspects, read): (Vec<_>, Vec<u64>) = found.into_iter().unzip();
        self.counters.blocks_read += read.iter().sum::<u64>();
        let mut suspects = suspects.concat();
        suspects.sort_unstable();
        suspects.dedup();
        (suspects, at)
    }

    fn plan_check(&mut self, set: u32, rows: Range<u64>) -> CheckBatch {
        let mut slots = self.slots(set, rows.start);
        if !self.geometry().is_declustered() {
            // Roles turn within the batch.
            slots.sort_unstable();
        }
        let sums = slots.iter().map(|slot| self.sums(*slot, rows.clone())).collect();
        let up =
            slots.iter().map(|slot| rows.clone().take_while(|row| self.up(*slot, *row)).count()).collect();
        CheckBatch { set, rows, slots, sums, up }
    }

    fn check_row(&mut self, set: u32, row: u64, repair: Repair) -> Result<Option<Mismatch>, Error> {
        let slots = self.slots(set, row);
        let n = slots.len();
        let mut blocks = vec![vec![0; BLOCK]; n];
        let (mut wrong, mut roles, mut absent) = (Vec::new(), Vec::new(), false);
        for (role, &slot) in slots.iter().enumerate() {
            if !self.up(slot, row) {
                absent = true;
                continue;
            }
            let sum = self.sum(slot, row);
            if sum == UNWRITTEN {
                continue;
            }
            let at = self.layout.data_start + row;
            let read = self.members[slot].as_ref().is_some_and(|m| m.read(at, &mut blocks[role]).is_ok());
            self.counters.blocks_read += 1;
            if !read || sum == UNKNOWN || self.summer.of(slot, row, &blocks[role])[0] != sum {
                wrong.push(slot);
                roles.push(role);
            }
        }
        if wrong.is_empty() {
            let rows: Vec<&[u8]> = blocks.iter().map(|b| &b[..]).collect();
            if absent || self.code(row).verify(&rows).map_err(|e| Error::State(e.to_string()))? {
                return Ok(None);
            }
        }
        // Reading corrects what does not match its checksum.
        let fixed = repair == Repair::AutoFix && !roles.is_empty() && self.gather(set, row, &roles).is_ok();
        self.running()?;
        Ok(Some(Mismatch { set, row, members: wrong, fixed }))
    }
}

/// Rows of one set that are read together.
struct CheckBatch {
    set: u32,
    rows: Range<u64>,
    /// The members of the set: in the order of positions, of a declustered group by role.
    slots: Vec<usize>,
    /// The checksums of all rows, likewise.
    sums: Vec<Vec<u64>>,
    /// For how many of the rows each member is in service.
    up: Vec<usize>,
}

impl CheckBatch {
    /// The rows that may be wrong. `buffer` has room for all blocks; `read` counts those that were read.
    fn suspects(
        &self,
        site: Site<'_>,
        g: &Geometry,
        code: &Code,
        buffer: &mut [u8],
        read: &mut u64,
    ) -> Vec<u64> {
        let count = (self.rows.end - self.rows.start) as usize;
        let (mut wrong, mut written) = (vec![false; count], vec![false; count]);
        for (i, content) in buffer.chunks_exact_mut(count * BLOCK).take(g.n()).enumerate() {
            self.verify(site, i, content, &mut wrong, &mut written, read);
        }
        let least = self.up.iter().copied().min().unwrap_or(0);
        let mut from = 0;
        // Within a strip the roles stay. Rows with an absent member have nothing to compare with.
        while from < least {
            let row = self.rows.start + from as u64;
            let in_strip = (g.strip_blocks - row % g.strip_blocks) as usize;
            let to = (from + in_strip).min(least);
            if written[from..to].contains(&true) {
                let of_role = |role| {
                    let of =
                        if g.is_declustered() { role } else { g.slot(self.set, row, role) - self.slots[0] };
                    let at = of * count;
                    &buffer[(at + from) * BLOCK..(at + to) * BLOCK]
                };
                let rows: Vec<&[u8]> = (0..g.n()).map(of_role).collect();
                if !code.verify(&rows).unwrap_or(false) {
                    wrong[from..to].fill(true);
                }
            }
            from = to;
        }
        (self.rows.start..).zip(wrong).filter_map(|(row, wrong)| wrong.then_some(row)).collect()
    }

    /// Reads the blocks of one member and compares them with their checksums.
    fn verify(
        &self,
        site: Site<'_>,
        i: usize,
        content: &mut [u8],
        wrong: &mut [bool],
        written: &mut [bool],
        read: &mut u64,
    ) {
        let (slot, up, sums) = (self.slots[i], self.up[i], &self.sums[i]);
        let content = &mut content[..up * BLOCK];
        if sums[..up].iter().all(|sum| *sum == UNWRITTEN) {
            return content.fill(0);
        }
        let at = site.layout.data_start + self.rows.start;
        if site.members[slot].as_ref().is_none_or(|m| m.read(at, content).is_err()) {
            return wrong[..up].fill(true);
        }
        *read += up as u64;
        let found = site.summer.of(slot, self.rows.start, content);
        for (at, (sum, found)) in sums.iter().zip(&found).enumerate() {
            if *sum == UNWRITTEN {
                content[at * BLOCK..(at + 1) * BLOCK].fill(0);
            } else {
                written[at] = true;
                // A checksum that is lost is never found.
                wrong[at] |= sum != found;
            }
        }
    }
}
