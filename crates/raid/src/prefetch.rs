//! What the writes of a batch will need of members is read before, with one request for each range of a member, and of all members
//! at the same time. Staging finds it in memory.
//!
//! Invariants: it is only a saving. A block is used only while its checksum is the one with which it was verified; one that
//! was not read, or is wrong, is read again where it is needed, and corrected there.
//!
//! Must not depend on: the journal, how parity is computed.

use std::collections::BTreeSet;

use crate::geometry::BLOCK;
use crate::group::Group;
use crate::io::{Ask, wrong_places};
use crate::sums::{UNKNOWN, UNWRITTEN};
use crate::write::Request;

/// Blocks that are read before, at most. Requests beyond that read for themselves.
pub(crate) const MOST: usize = 8 << 10;

impl Group {
    /// Reads what these requests need.
    pub(crate) fn prefetch(&mut self, requests: &[Request<'_>]) {
        if self.stopped.is_some() || !self.is_worth_a_prefetch(requests) {
            return;
        }
        let mut places = BTreeSet::new();
        for request in requests {
            let Request::Write { at, data } = request else { continue };
            if self.check_range(*at, data.len() as u64).is_ok() && !data.is_empty() && places.len() < MOST {
                self.needs(*at, data.len() as u64, &mut places);
            }
        }
        self.fetch_all(places);
    }

    /// Whether anything is saved: blocks that are read one by one of members that do not wait are read as well where they are needed.
    fn is_worth_a_prefetch(&self, requests: &[Request<'_>]) -> bool {
        let long = |r: &Request<'_>| matches!(r, Request::Write { data, .. } if data.len() > BLOCK);
        requests.iter().any(long) || self.members.iter().flatten().any(|m| m.medium().waits())
    }

    /// Adds the blocks that a write needs.
    fn needs(&mut self, at: u64, len: u64, places: &mut BTreeSet<(usize, u64)>) {
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
    pub(crate) fn sources(
        &mut self,
        set: u32,
        row: u64,
        wanted: &[usize],
        places: &mut BTreeSet<(usize, u64)>,
    ) {
        let g = *self.shape(row);
        let up = |me: &Group, role: &usize| me.up(g.slot(set, row, *role), row);
        let mut roles: Vec<usize> = wanted.iter().copied().filter(|r| up(self, r)).collect();
        if roles.len() < wanted.len() {
            let others = (0..g.n()).filter(|r| !wanted.contains(r) && up(self, r));
            roles.extend(others.take(g.k.saturating_sub(roles.len())));
        }
        places.extend(roles.into_iter().map(|role| (g.slot(set, row, role), row)));
    }

    /// Reads these blocks, as far as they hold anything and are not here yet.
    pub(crate) fn fetch_all(&mut self, places: BTreeSet<(usize, u64)>) {
        let mut blocks: Vec<((usize, u64), u64, Vec<u8>)> = Vec::with_capacity(places.len());
        for (slot, row) in places {
            let sum = self.sum(slot, row);
            let here = self.old.get(&(slot, row)).is_some_and(|(s, _)| *s == sum);
            if sum != UNWRITTEN && sum != UNKNOWN && !here && self.up(slot, row) {
                blocks.push(((slot, row), sum, vec![0; BLOCK]));
            }
        }
        if blocks.is_empty() {
            return;
        }
        self.counters.blocks_read += blocks.len() as u64;
        let slots: BTreeSet<usize> = blocks.iter().map(|((slot, _), ..)| *slot).collect();
        let asks = blocks.iter_mut().map(|((slot, row), sum, to)| Ask {
            slot: *slot,
            row: *row,
            sums: std::slice::from_ref(sum),
            to,
        });
        let mut got = self.reader(slots).read(Some(&self.pool), asks.collect());
        self.judge(&mut got);
        let wrong = wrong_places(&got);
        let right = blocks.into_iter().filter(|(place, ..)| !wrong.contains(place));
        self.old.extend(right.map(|(place, sum, content)| (place, (sum, content))));
    }

    /// The content of a block that was read before, if it still counts.
    pub(crate) fn old(&self, slot: usize, row: u64) -> Option<Vec<u8>> {
        let (sum, content) = self.old.get(&(slot, row))?;
        (self.up(slot, row) && self.pages.get(slot, row) == Some(*sum)).then(|| content.clone())
    }
}
