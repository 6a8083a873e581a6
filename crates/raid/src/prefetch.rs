//! What the writes of a batch will need of members is read before, with one request for each range of a member, and of all members
//! at the same time. Staging finds it in memory.
//!
//! Invariants: it is only a saving. A block is used only while its checksum is the one with which it was verified; one that
//! was not read, or is wrong, is read again where it is needed, and corrected there.
//!
//! Must not depend on: the journal, how parity is computed.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::content::Old;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::io::{Ask, Got, Reader, wrong_places};
use crate::pool::Pool;
use crate::sums::{UNKNOWN, UNWRITTEN};
use crate::write::Request;

/// Blocks that are read before, at most. Requests beyond that read for themselves.
pub(crate) const MOST: usize = 8 << 10;

/// Blocks by member and row.
pub(crate) type Places = BTreeSet<(usize, u64)>;

/// Blocks that are to be read, without the group, and those that were here already.
pub(crate) struct Fetch {
    old: Old,
    blocks: Vec<((usize, u64), u64, Vec<u8>)>,
    reader: Arc<Reader>,
    pool: Arc<Pool>,
    got: Vec<Got>,
}

impl Fetch {
    /// Whether nothing has to be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Reads them; beside others who read for batches too if `in_turn`.
    pub(crate) fn run(&mut self, in_turn: bool) {
        let asks = self.blocks.iter_mut().map(|((slot, row), sum, to)| Ask {
            slot: *slot,
            row: *row,
            sums: std::slice::from_ref(sum),
            to,
        });
        let asks: Vec<Ask<'_>> = asks.collect();
        if asks.is_empty() {
            return;
        }
        self.got = match in_turn {
            true => self.reader.read_in_turn(&self.pool, asks),
            false => self.reader.read(Some(&self.pool), asks),
        };
        let wrong = wrong_places(&self.got);
        let right = std::mem::take(&mut self.blocks).into_iter().filter(|(place, ..)| !wrong.contains(place));
        self.old.extend(right.map(|(place, sum, content)| (place, (sum, content.into()))));
    }
}

impl Group {
    /// Reads what these requests need.
    pub(crate) fn prefetch(&mut self, requests: &[Request<'_>]) {
        if self.stopped.is_some() || !self.is_worth_a_prefetch(requests) {
            return;
        }
        let places = self.needed(requests);
        self.fetch_all(places);
    }

    /// The blocks that these requests need.
    pub(crate) fn needed(&mut self, requests: &[Request<'_>]) -> Places {
        let mut places = BTreeSet::new();
        for request in requests {
            let Request::Write { at, data } = request else { continue };
            if self.check_range(*at, data.len() as u64).is_ok() && !data.is_empty() && places.len() < MOST {
                self.needs(*at, data.len() as u64, &mut places);
            }
        }
        places
    }

    /// Whether anything is saved: blocks that are read one by one of members that do not wait are read as well where they are needed.
    fn is_worth_a_prefetch(&self, requests: &[Request<'_>]) -> bool {
        let long = |r: &Request<'_>| matches!(r, Request::Write { data, .. } if data.len() > BLOCK);
        requests.iter().any(long) || self.waits()
    }

    /// Adds the blocks that a write needs.
    fn needs(&mut self, at: u64, len: u64, places: &mut Places) {
        let block = BLOCK as u64;
        let (first, end) = (at / block, (at + len).div_ceil(block));
        // The blocks that are written in part.
        let head = (!at.is_multiple_of(block)).then_some(first);
        let tail = (!(at + len).is_multiple_of(block)).then(|| end - 1);
        for number in head.into_iter().chain(tail) {
            let place = self.locate(number);
            self.sources(place.set, place.row, &[place.role], places);
        }
        for ((set, row), parts) in self.rows_of(first, end - first) {
            if parts.len() == self.shape(row).k {
                continue;
            }
            let new: Vec<usize> = parts.iter().map(|(role, _)| *role).collect();
            let needed = self.roles_for_parity(set, row, &new);
            self.sources(set, row, &needed, places);
        }
    }

    /// Adds the blocks of which the content of these roles is made.
    pub(crate) fn sources(&mut self, set: u32, row: u64, wanted: &[usize], places: &mut Places) {
        let g = *self.shape(row);
        let up = |me: &Group, role: &usize| me.up(me.slot_of(set, row, *role), row);
        let mut roles: Vec<usize> = wanted.iter().copied().filter(|r| up(self, r)).collect();
        if roles.len() < wanted.len() {
            let others = (0..g.n()).filter(|r| !wanted.contains(r) && up(self, r));
            roles.extend(others.take(g.k.saturating_sub(roles.len())));
        }
        places.extend(roles.into_iter().map(|role| (self.slot_of(set, row, role), row)));
    }

    /// Reads these blocks, as far as they hold anything and are not here yet.
    pub(crate) fn fetch_all(&mut self, places: Places) {
        let mut fetch = self.plan_fetch(&places, Old::new());
        fetch.run(false);
        let old = self.take_fetched(fetch);
        self.old.extend(old);
    }

    /// Plans to read these blocks, as far as they hold anything and are not here yet. What is in the overlay is kept: it may have left
    /// it when it is needed.
    pub(crate) fn plan_fetch(&mut self, places: &Places, mut old: Old) -> Fetch {
        let mut blocks: Vec<((usize, u64), u64, Vec<u8>)> = Vec::new();
        for (slot, row) in places.iter().copied() {
            let sum = self.sum(slot, row);
            if let Some(block) = self.overlay.get(&(slot, row)) {
                old.insert((slot, row), (sum, block.content.clone()));
                continue;
            }
            let is = |old: &Old| old.get(&(slot, row)).is_some_and(|(s, _)| *s == sum);
            if sum != UNWRITTEN && sum != UNKNOWN && !is(&old) && !is(&self.old) && self.up(slot, row) {
                blocks.push(((slot, row), sum, vec![0; BLOCK]));
            }
        }
        self.counters.blocks_read += blocks.len() as u64;
        let slots: BTreeSet<usize> = blocks.iter().map(|((slot, _), ..)| *slot).collect();
        Fetch { old, blocks, reader: self.reader(slots), pool: self.pool.clone(), got: Vec::new() }
    }

    /// What was read, and what was here already.
    pub(crate) fn take_fetched(&mut self, mut fetch: Fetch) -> Old {
        fetch.got.retain(|g| self.is_of(&fetch.reader, g.slot));
        self.judge(&mut fetch.got);
        fetch.old
    }

    /// The content of a block that was read before, if it still counts.
    pub(crate) fn old(&self, slot: usize, row: u64) -> Option<Vec<u8>> {
        let (sum, content) = self.old.get(&(slot, row))?;
        (self.up(slot, row) && self.pages.get(slot, row) == Some(*sum)).then(|| content.to_vec())
    }
}
