//! Reading: verified blocks, and the reconstruction of those that are not there.
//!
//! Invariants: no byte is returned whose checksum was not verified, or that was not computed from verified ones; a
//! block that did not match is reconstructed, written again and counted.
//!
//! Must not depend on: how writes are journaled.

use crate::Error;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::sums::{UNKNOWN, UNWRITTEN};

/// A block of a row.
enum Fetched {
    Good(Vec<u8>),
    /// Its member is out of service for this row.
    Down,
    /// Its content is wrong or cannot be read.
    Bad,
}

impl Group {
    /// Reads `out.len()` bytes at `at`.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::Lost`], [`Error::Failed`].
    pub fn read(&mut self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        self.check_range(at, out.len() as u64)?;
        self.running()?;
        let mut done = 0;
        while done < out.len() {
            let (block, skip) =
                ((at + done as u64) / BLOCK as u64, ((at + done as u64) % BLOCK as u64) as usize);
            if skip == 0 && out.len() - done >= BLOCK {
                let in_strip = self.geometry().strip_blocks - block % self.geometry().strip_blocks;
                let blocks = ((out.len() - done) / BLOCK).min(in_strip as usize);
                self.read_run(block, &mut out[done..done + blocks * BLOCK])?;
                done += blocks * BLOCK;
            } else {
                let part = (BLOCK - skip).min(out.len() - done);
                let mut whole = vec![0; BLOCK];
                self.read_run(block, &mut whole)?;
                out[done..done + part].copy_from_slice(&whole[skip..skip + part]);
                done += part;
            }
        }
        // A member that failed on the way is recorded before its absence can matter.
        self.settle()
    }

    /// See [`crate::VirtualDrive::allocated`].
    pub(crate) fn allocated(&mut self, at: u64, len: u64, most: usize) -> Result<Vec<(u64, bool)>, Error> {
        self.running()?;
        let block = BLOCK as u64;
        let mut out: Vec<(u64, bool)> = Vec::new();
        let mut from = at;
        while from < at + len {
            let place = self.geometry().locate(from / block);
            let slot = self.geometry().slot(place.set, place.row, place.role);
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

    /// Reads blocks of one strip.
    fn read_run(&mut self, block: u64, out: &mut [u8]) -> Result<(), Error> {
        let place = self.geometry().locate(block);
        let slot = self.geometry().slot(place.set, place.row, place.role);
        let rows = place.row..place.row + (out.len() / BLOCK) as u64;
        let mut wrong = Vec::new();
        let plain = self.overlay.is_empty() && self.up(slot, rows.end - 1);
        if !plain || !self.read_verified(slot, place.row, out, &mut wrong) {
            wrong = rows.collect();
        }
        for row in wrong {
            let got = self.gather(place.set, row, &[place.role])?;
            let from = (row - place.row) as usize * BLOCK;
            out[from..from + BLOCK].copy_from_slice(&got[0]);
        }
        Ok(())
    }

    /// Reads consecutive blocks of a member that is in service; `wrong` gets the rows that do not match. False: the
    /// read failed.
    fn read_verified(&mut self, slot: usize, row: u64, out: &mut [u8], wrong: &mut Vec<u64>) -> bool {
        let sums: Vec<u64> = (row..).take(out.len() / BLOCK).map(|row| self.sum(slot, row)).collect();
        if sums.iter().all(|s| *s == UNWRITTEN) {
            out.fill(0);
            return true;
        }
        let at = self.layout.data_start + row;
        match self.members[slot].as_ref().map(|m| m.read(at, out)) {
            Some(Ok(())) => {}
            Some(Err(e)) if self.spareable(slot) => {
                // It is not asked again.
                self.fail(slot, "read", &e);
                return false;
            }
            // Without redundancy left, block by block: others may be readable.
            Some(Err(_)) | None => return false,
        }
        self.counters.blocks_read += sums.len() as u64;
        let found = self.summer.of(slot, row, out);
        for (i, (sum, found)) in sums.iter().zip(&found).enumerate() {
            if *sum == UNWRITTEN {
                out[i * BLOCK..(i + 1) * BLOCK].fill(0);
            } else if sum != found {
                wrong.push(row + i as u64);
            }
        }
        true
    }

    fn fetch(&mut self, set: u32, row: u64, role: usize) -> Fetched {
        let slot = self.geometry().slot(set, row, role);
        if let Some((content, _)) = self.overlay.get(&(slot, row)) {
            return Fetched::Good(content.clone());
        }
        if !self.up(slot, row) {
            return Fetched::Down;
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
            Err(_) => Fetched::Bad,
            Ok(()) if sum != UNKNOWN && self.summer.of(slot, row, &out)[0] == sum => Fetched::Good(out),
            Ok(()) => Fetched::Bad,
        }
    }

    /// The content of the `wanted` roles of a row, reconstructed where it has to be. Wrong blocks that are found on the
    /// way are corrected on their members.
    pub(crate) fn gather(&mut self, set: u32, row: u64, wanted: &[usize]) -> Result<Vec<Vec<u8>>, Error> {
        let n = self.geometry().n();
        let mut have: Vec<Option<Vec<u8>>> = vec![None; n];
        let (mut bad, mut asked) = (Vec::new(), vec![false; n]);
        for &role in wanted {
            self.ask(set, row, role, &mut have, &mut bad, &mut asked);
        }
        if wanted.iter().any(|role| have[*role].is_none()) {
            for role in 0..n {
                if have.iter().flatten().count() >= self.geometry().k {
                    break;
                }
                self.ask(set, row, role, &mut have, &mut bad, &mut asked);
            }
            self.reconstruct(set, row, wanted, &bad, &mut have)?;
        }
        for role in bad {
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
        bad: &mut Vec<usize>,
        asked: &mut [bool],
    ) {
        if std::mem::replace(&mut asked[role], true) {
            return;
        }
        match self.fetch(set, row, role) {
            Fetched::Good(content) => have[role] = Some(content),
            Fetched::Down => {}
            Fetched::Bad => bad.push(role),
        }
    }

    /// Makes what is missing of the wanted and the bad roles.
    fn reconstruct(
        &mut self,
        set: u32,
        row: u64,
        wanted: &[usize],
        bad: &[usize],
        have: &mut [Option<Vec<u8>>],
    ) -> Result<(), Error> {
        let missing: Vec<usize> = (0..have.len())
            .filter(|r| have[*r].is_none() && (wanted.contains(r) || bad.contains(r)))
            .collect();
        let present: Vec<(usize, &[u8])> =
            have.iter().enumerate().filter_map(|(r, c)| c.as_ref().map(|c| (r, &c[..]))).collect();
        if present.len() < self.geometry().k {
            return Err(Error::Lost { set, row, why: "too few of its blocks can be read" });
        }
        let mut made = vec![vec![0; BLOCK]; missing.len()];
        let mut out: Vec<&mut [u8]> = made.iter_mut().map(|b| &mut b[..]).collect();
        self.code.reconstruct(&present, &missing, &mut out).map_err(|_| Error::Lost {
            set,
            row,
            why: "the code refuses its blocks",
        })?;
        for (role, content) in missing.into_iter().zip(made) {
            let slot = self.geometry().slot(set, row, role);
            if bad.contains(&role) {
                let sum = self.sum(slot, row);
                if sum != UNKNOWN && self.summer.of(slot, row, &content)[0] != sum {
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
        let slot = self.geometry().slot(set, row, role);
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
