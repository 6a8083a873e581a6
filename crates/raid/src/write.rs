//! Writing: which blocks of a row change, and what they become. [`crate::commit`] brings them to the members.
//!
//! A row that is written whole is encoded; one that is written in part is updated from the old content of its parity
//! (read-modify-write) or encoded with what the others hold (reconstruct-write), whichever reads less. A row that
//! holds nothing yet and is written whole goes in place at once, and an entry without content makes it count: it is
//! written once.
//!
//! Invariants: no request is answered before its entries are flushed. A row that becomes unwritten again is not written in place before
//! that is durable.
//!
//! Must not depend on: threads, who asks.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::Error;
use crate::content::{Content, Staged};
use crate::geometry::{BLOCK, Place};
use crate::group::Group;
use crate::journal::{Change, MAX_CHANGES};
use crate::once::WholeRow;
use crate::sums::{UNKNOWN, UNWRITTEN};

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

impl Request<'_> {
    /// Its first byte, and how many it has.
    fn range(&self) -> (u64, u64) {
        match self {
            Request::Write { at, data } => (*at, data.len() as u64),
            Request::Zero { at, len } => (*at, *len),
        }
    }
}

impl Group {
    /// Executes requests in order and makes them durable together, as far as the policy says: under `journal` all of
    /// them, else none before [`Group::flush`].
    pub fn apply(&mut self, requests: &[Request<'_>]) -> Vec<Result<(), Error>> {
        let mut ranges = requests.iter().map(Request::range);
        if let Err(e) = ranges.try_for_each(|(at, len)| self.make_consistent(at, len)) {
            return vec![Err(e); requests.len()];
        }
        self.prefetch(requests);
        let mut results = self.stage_all(requests);
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

    /// Stages requests in order.
    pub(crate) fn stage_all(&mut self, requests: &[Request<'_>]) -> Vec<Result<(), Error>> {
        requests.iter().map(|r| self.stage(*r)).collect()
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
            let place = self.locate(first + i as u64);
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
            let place = self.locate(first + i);
            rows.entry((place.set, place.row)).or_default().push((place.role, i as usize));
        }
        rows
    }

    fn write_range(&mut self, first: u64, data: &[u8]) -> Result<(), Error> {
        let mut entry: Vec<Staged> = Vec::new();
        let mut at_once: Vec<(Change, Content)> = Vec::new();
        let mut once: Vec<WholeRow> = Vec::new();
        let rows = self.rows_of(first, (data.len() / BLOCK) as u64);
        let writes_once = self.is_open() && self.writes_once(&rows);
        let near = self.has_near(&rows);
        for ((set, row), parts) in rows {
            let whole = parts.len() == self.shape(row).k;
            let slots = self.slots(set, row);
            let in_place = |me: &Group| {
                near && slots.iter().any(|s| me.overlay.get(&(*s, row)).is_some_and(|b| b.in_place))
            };
            let unwritten = |me: &Group| near && slots.iter().any(|s| me.discarded.contains(&(*s, row)));
            if in_place(self) || whole && unwritten(self) {
                self.append(std::mem::take(&mut entry))?;
                self.commit()?;
            }
            let new: Vec<(usize, &[u8])> =
                parts.iter().map(|(role, i)| (*role, &data[i * BLOCK..(i + 1) * BLOCK])).collect();
            if near && self.is_written_once(&slots, row) {
                // By a request of the same batch.
                self.journal_content(&[(set, row)]);
            }
            let covered = |me: &Group| near && slots.iter().any(|s| me.overlay.contains_key(&(*s, row)));
            if writes_once && whole && !covered(self) {
                let blocks = self.compose(set, row, &new)?;
                once.push(WholeRow { set, row, blocks });
                continue;
            }
            let fresh = whole && self.journaled() && self.is_unwritten(&slots, row);
            let changed = self.compose(set, row, &new)?;
            if fresh {
                at_once.extend(changed);
                if at_once.len() >= MAX_CHANGES {
                    self.write_fresh(std::mem::take(&mut at_once))?;
                }
                continue;
            }
            if entry.len() + changed.len() > MAX_CHANGES {
                self.append(std::mem::take(&mut entry))?;
            }
            entry.extend(changed.into_iter().map(|(change, content)| (change, Some(content))));
        }
        self.append(entry)?;
        self.append_intents(once);
        self.write_fresh(at_once)
    }

    /// Whether no block of a row was ever written, or the row was discarded.
    pub(crate) fn is_unwritten(&mut self, slots: &[usize], row: u64) -> bool {
        slots.iter().all(|s| {
            !self.overlay.contains_key(&(*s, row)) && (!self.up(*s, row) || self.sum(*s, row) == UNWRITTEN)
        })
    }

    /// Whether a batch, or what is staged, has blocks between the first and the last one of these rows.
    fn has_near(&self, rows: &BTreeMap<(u32, u64), Vec<(usize, usize)>>) -> bool {
        let numbers = || rows.keys().map(|(_, row)| *row);
        let (Some(first), Some(last)) = (numbers().min(), numbers().max()) else { return false };
        (0..self.members.len()).any(|slot| {
            let rows = (slot, first)..=(slot, last);
            self.overlay.range(rows.clone()).next().is_some() || self.discarded.range(rows).next().is_some()
        })
    }

    /// Data of a request as content: a part of the request's memory if that is shared, else a copy.
    fn content_of(&self, data: &[u8]) -> Content {
        let range = data.as_ptr_range();
        let has = |whole: &&Bytes| {
            let whole = whole.as_ptr_range();
            whole.start <= range.start && range.end <= whole.end
        };
        self.shared
            .iter()
            .find(has)
            .map_or_else(|| Bytes::copy_from_slice(data), |whole| whole.slice_ref(data))
    }

    /// The new blocks of a row, for all members that are in service for it; without checksums.
    fn compose(
        &mut self,
        set: u32,
        row: u64,
        new: &[(usize, &[u8])],
    ) -> Result<Vec<(Change, Content)>, Error> {
        let parity = self.new_parity(set, row, new)?;
        let data: Vec<(usize, Content)> =
            new.iter().map(|(role, data)| (*role, self.content_of(data))).collect();
        let blocks = data.into_iter().chain(parity.into_iter().map(|(role, block)| (role, block.into())));
        let mut out = Vec::new();
        for (role, content) in blocks {
            let slot = self.slot(&Place { set, row, role });
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
        let (k, n) = (self.shape(row).k, self.shape(row).n());
        let parity = self.parity_in_service(set, row);
        if parity.is_empty() {
            return Ok(Vec::new());
        }
        let roles: Vec<usize> = new.iter().map(|(role, _)| *role).collect();
        let (others, changed) = self.either(row, &roles, &parity);
        let code = self.code(row).clone();
        let mut made = vec![vec![0; BLOCK]; n - k];
        if others.is_empty() || self.reads(set, row, &others) <= self.reads(set, row, &changed) {
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
        let g = self.shape(row);
        (g.k..g.n()).filter(|role| self.up(self.slot_of(set, row, *role), row)).collect()
    }

    /// The two sets of roles of which the parity can be made when these data roles change: the other data, or what changes.
    fn either(&self, row: u64, new: &[usize], parity: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let others = (0..self.shape(row).k).filter(|role| !new.contains(role)).collect();
        (others, new.iter().chain(parity).copied().collect())
    }

    /// The roles of which the parity of a row is made when these data roles change.
    pub(crate) fn roles_for_parity(&mut self, set: u32, row: u64, new: &[usize]) -> Vec<usize> {
        let parity = self.parity_in_service(set, row);
        if parity.is_empty() {
            return Vec::new();
        }
        let (others, changed) = self.either(row, new, &parity);
        if self.reads(set, row, &others) <= self.reads(set, row, &changed) { others } else { changed }
    }

    /// How many blocks have to be read for the content of these roles.
    fn reads(&mut self, set: u32, row: u64, roles: &[usize]) -> usize {
        let mut reads = 0;
        for role in roles {
            let slot = self.slot(&Place { set, row, role: *role });
            if self.overlay.contains_key(&(slot, row)) {
                continue;
            }
            if !self.up(slot, row) {
                return self.shape(row).k;
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
            if parts.len() < self.shape(row).k {
                for (_, i) in parts {
                    self.write_range(first + i as u64, &zeros)?;
                }
                continue;
            }
            let slots = self.slots(set, row);
            if slots.iter().any(|s| self.overlay.get(&(*s, row)).is_some_and(|b| b.in_place)) {
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
}

fn shape(e: ashlar_erasure::Error) -> Error {
    Error::State(e.to_string())
}
