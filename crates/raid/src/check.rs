//! Consistency check: every block of every row against its checksum, and the rows against their parity.
//!
//! Must not depend on: when and how fast it is called.

use crate::Error;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::sums::{UNKNOWN, UNWRITTEN};

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
        let end = from.saturating_add(rows).min(self.geometry().rows());
        let mut out = Checked { next: (end < self.geometry().rows()).then_some(end), ..Checked::default() };
        for row in from..end {
            for set in 0..self.geometry().sets {
                if let Some(found) = self.check_row(set, row, repair)? {
                    out.mismatches.push(found);
                    if repair == Repair::StopOnError {
                        out.next = None;
                        return Ok(out);
                    }
                }
            }
        }
        self.settle()?;
        Ok(out)
    }

    fn check_row(&mut self, set: u32, row: u64, repair: Repair) -> Result<Option<Mismatch>, Error> {
        let n = self.geometry().n();
        let slots: Vec<usize> = (0..n).map(|role| self.geometry().slot(set, row, role)).collect();
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
            if absent || self.code.verify(&rows).map_err(|e| Error::State(e.to_string()))? {
                return Ok(None);
            }
        }
        // Reading corrects what does not match its checksum.
        let fixed = repair == Repair::AutoFix && !roles.is_empty() && self.gather(set, row, &roles).is_ok();
        self.running()?;
        Ok(Some(Mismatch { set, row, members: wrong, fixed }))
    }
}
