//! Parity after an unclean stop, under the policies `bitmap` and `none`: rows that may have been written when the group stopped get their
//! parity from their data as it is.
//!
//! The group is in service meanwhile. Rows are *suspect* until that is done; a request for suspect rows makes them consistent first, and
//! [`Group::resync`] does all others, in the order of rows.
//!
//! Invariants: no block of a suspect row is read for a client, written or reconstructed; a group with suspect rows is never recorded as clean, and
//! the marks of the bitmap stay, so that another unclean stop begins again with the same rows.
//!
//! Must not depend on: threads, who asks, how fast it goes.

use std::ops::Range;
use std::sync::Arc;

use crate::Error;
use crate::bitmap::REGIONS;
use crate::commit::MAX_DIRTY;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::medium::Medium;
use crate::sums::UNWRITTEN;
use crate::suspects::Suspects;

/// How far a resync is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resynced {
    /// Rows that are consistent again.
    pub done: u64,
    /// Rows that were suspect when the group was opened.
    pub rows: u64,
}

impl Group {
    /// After an unclean stop: which rows are suspect.
    pub(crate) fn suspect_marked(&mut self) {
        let (per_region, rows) = (self.region_rows(), self.geometry().rows());
        let region = |r: u64| (r * per_region).min(rows)..((r + 1) * per_region).min(rows);
        let marked = (0..REGIONS).map(region).take_while(|r| !r.is_empty()).filter(|r| self.marked(r.start));
        self.suspects = Some(Suspects::new(marked)).filter(|s| s.all() > 0);
    }

    /// The same without a bitmap: all rows are.
    pub(crate) fn suspect_all(&mut self) {
        self.suspects = Some(Suspects::new(std::iter::once(0..self.geometry().rows())));
    }

    /// How far the resync of a group is that was not closed; none: all rows are consistent.
    #[must_use]
    pub fn resyncing(&self) -> Option<Resynced> {
        self.suspects.as_ref().map(|s| Resynced { done: s.all() - s.left(), rows: s.all() })
    }

    /// Makes up to `rows` suspect rows consistent. None: there are none. No batch is under way.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn resync(&mut self, rows: u64) -> Result<Option<Resynced>, Error> {
        self.running()?;
        let mut left = rows.max(1);
        while left > 0 {
            let Some(suspects) = &mut self.suspects else { return Ok(None) };
            let Some(rows) = suspects.take_first(left) else { break };
            left -= rows.end - rows.start;
            self.resync_rows(rows)?;
        }
        self.settle()?;
        let done = self.resyncing();
        let over = done.is_some_and(|d| d.done == d.rows);
        if over || self.pages.dirty() > MAX_DIRTY {
            self.checkpoint()?;
        }
        if over {
            self.clear_bitmap()?;
            self.suspects = None;
        }
        Ok(done)
    }

    /// Makes all suspect rows consistent: what follows needs the rows of the whole group.
    pub(crate) fn resync_all(&mut self) -> Result<(), Error> {
        while self.resync(u64::MAX)?.is_some() {}
        Ok(())
    }

    /// Makes the rows of a range of bytes consistent before they are used.
    pub(crate) fn make_consistent(&mut self, at: u64, len: u64) -> Result<(), Error> {
        #[cfg(test)]
        if self.has(crate::group::Mutant::SuspectsUsed) {
            return Ok(());
        }
        if self.suspects.is_none() || len == 0 || self.check_range(at, len).is_err() {
            return Ok(());
        }
        let (first, end) = (at / BLOCK as u64, (at + len).div_ceil(BLOCK as u64));
        let (from, strip) = (self.locate(first).row, self.geometry().strip_blocks);
        let rows = if self.run(first, end - first) == end - first {
            from..from + (end - first)
        } else {
            let last = self.locate(end - 1).row;
            from / strip * strip..((last / strip + 1) * strip).min(self.geometry().rows())
        };
        while let Some(taken) = self.suspects.as_mut().and_then(|s| s.take(rows.clone())) {
            self.resync_rows(taken)?;
        }
        self.settle()
    }

    fn resync_rows(&mut self, rows: Range<u64>) -> Result<(), Error> {
        let strip = self.geometry().strip_blocks;
        let mut at = rows.start;
        while at < rows.end {
            let to = ((at / strip + 1) * strip).min(rows.end);
            for set in 0..self.geometry().sets {
                self.resync_strip(set, at..to)?;
            }
            at = to;
        }
        Ok(())
    }

    /// Rows of one strip of a set: their members stay the same.
    fn resync_strip(&mut self, set: u32, rows: Range<u64>) -> Result<(), Error> {
        let slots = self.slots(set, rows.start);
        let up = |me: &Group, row| slots.iter().map(|s| me.up(*s, row)).collect::<Vec<_>>();
        let first = up(self, rows.start);
        // A member that is being rebuilt is in service for the first or the last ones of the rows.
        if up(self, rows.end - 1) != first {
            let same = rows.clone().take_while(|row| up(self, *row) == first).count() as u64;
            self.resync_strip(set, rows.start..rows.start + same)?;
            return self.resync_strip(set, rows.start + same..rows.end);
        }
        let (k, count) = (self.geometry().k, (rows.end - rows.start) as usize);
        let mut written = vec![false; count];
        let data = self.as_it_is(&slots[..k], &rows, &mut written)?;
        let Some(data) = data else {
            // What a missing block was is known from the parity alone, which may be wrong: it stays as it is.
            self.counters.unprotected += count as u64;
            self.as_it_is(&slots[k..], &rows, &mut written)?;
            return self.running();
        };
        self.counters.resynced += written.iter().filter(|w| **w).count() as u64;
        if self.geometry().m == 0 {
            return self.running();
        }
        let data: Vec<&[u8]> = data.iter().map(|b| &b[..]).collect();
        let mut parity = vec![vec![0; count * BLOCK]; slots.len() - k];
        let mut out: Vec<&mut [u8]> = parity.iter_mut().map(|b| &mut b[..]).collect();
        self.code.encode(&data, &mut out).map_err(|e| Error::State(e.to_string()))?;
        for (slot, content) in slots[k..].iter().zip(&parity) {
            self.put_parity(*slot, &rows, content, &written);
        }
        self.running()
    }

    /// Reads blocks, and takes their checksums from what they are; marks rows of which one was ever written. Blocks that were not read as
    /// zeros. None: a member is out of service.
    fn as_it_is(
        &mut self,
        slots: &[usize],
        rows: &Range<u64>,
        written: &mut [bool],
    ) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let (mut absent, mut asked) = (false, Vec::new());
        let bytes = written.len() * BLOCK;
        let mut out: Vec<Vec<u8>> = vec![Vec::new(); slots.len()];
        let sums: Vec<Vec<u64>> = slots.iter().map(|slot| self.sums(*slot, rows.clone())).collect();
        for (at, slot) in slots.iter().enumerate() {
            match &self.members[*slot] {
                Some(member) if self.up(*slot, rows.start) => {
                    if sums[at].iter().any(|sum| *sum != UNWRITTEN) {
                        asked.push((at, member.medium().clone()));
                    } else {
                        out[at] = vec![0; bytes];
                    }
                }
                _ => absent = true,
            }
        }
        let from = (self.layout.data_start + rows.start) * BLOCK as u64;
        for (at, result) in self.read_together(asked, from, bytes) {
            let slot = slots[at];
            let mut content = match result {
                Ok(content) => content,
                Err(e) => {
                    self.fail(slot, "read", &e);
                    self.running()?;
                    absent = true;
                    continue;
                }
            };
            let found = self.summer.of(slot, rows.start, &content);
            for (i, (sum, found)) in sums[at].iter().zip(found).enumerate() {
                if *sum == UNWRITTEN {
                    content[i * BLOCK..(i + 1) * BLOCK].fill(0);
                } else {
                    written[i] = true;
                    self.set_sum(slot, rows.start + i as u64, found);
                }
            }
            out[at] = content;
        }
        Ok((!absent).then_some(out))
    }

    /// Reads the same bytes of several members: at the same time, if they wait for their devices.
    fn read_together(
        &self,
        asked: Vec<(usize, Arc<dyn Medium>)>,
        from: u64,
        bytes: usize,
    ) -> Vec<(usize, std::io::Result<Vec<u8>>)> {
        let read = move |(at, medium): (usize, Arc<dyn Medium>)| {
            let mut out = vec![0; bytes];
            let result = medium.read_at(&mut out, from);
            (at, result.map(|()| out))
        };
        if self.waits() { self.pool.run(asked, read) } else { asked.into_iter().map(read).collect() }
    }

    /// Writes the parity of rows of which a block was written.
    fn put_parity(&mut self, slot: usize, rows: &Range<u64>, content: &[u8], written: &[bool]) {
        let mut at = 0;
        while at < written.len() {
            let same = written[at..].iter().take_while(|w| **w == written[at]).count();
            let first = rows.start + at as u64;
            let bytes = &content[at * BLOCK..(at + same) * BLOCK];
            if written[at] && self.up(slot, first) {
                self.write_blocks(slot, self.layout.data_start + first, bytes, "write parity");
            }
            if self.up(slot, first) {
                let sums =
                    if written[at] { self.summer.of(slot, first, bytes) } else { vec![UNWRITTEN; same] };
                for (row, sum) in (first..).zip(sums) {
                    self.set_sum(slot, row, sum);
                }
            }
            at += same;
        }
    }
}
