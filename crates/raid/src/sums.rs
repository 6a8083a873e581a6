//! Checksums of blocks: what they are, their pages, and the cache of pages. **Part of the on-drive format**.
//!
//! A checksum is 8 bytes of HighwayHash-256 under a key of the group over the member's position, the row and the
//! content: a block that was written to another place, or for another group, does not verify. 0 means that the
//! block was never written, or was discarded: it reads as zeros. All ones means that the checksum is lost with its page.
//!
//! A page has 510 checksums, a generation and a hash, and lies on its member twice; one copy is written and flushed before
//! the other. A page of zeros is one of unwritten blocks.
//!
//! Invariants: pages that differ from those on the member are never evicted.
//!
//! Must not depend on: devices, the journal, the state of members.

use std::collections::BTreeMap;

use ashlar_checksum::{frame_hash, frame_hashes};

use crate::geometry::BLOCK;
use crate::layout::PER_PAGE;
use crate::superblock::Id;

/// The block reads as zeros.
pub(crate) const UNWRITTEN: u64 = 0;
/// The page was lost; the block must be reconstructed.
pub(crate) const UNKNOWN: u64 = u64::MAX;
/// Pages kept in memory, at most, beside those that have to be written: 4 KiB each.
const CACHED: usize = 16 << 10;

/// Computes the checksums of a group.
#[derive(Clone)]
pub(crate) struct Summer {
    key: [u64; 4],
    #[cfg(test)]
    pub(crate) without_place: bool,
}

impl Summer {
    pub(crate) fn new(group: &Id) -> Summer {
        let word = |at: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&group[at..at + 8]);
            u64::from_le_bytes(w)
        };
        let name = [u64::from_le_bytes(*b"ashlar b"), u64::from_le_bytes(*b"locks  1")];
        Summer {
            key: [word(0), word(8), name[0], name[1]],
            #[cfg(test)]
            without_place: false,
        }
    }

    fn place(&self, slot: usize, row: u64) -> [u8; 32] {
        let mut out = [0; 32];
        #[cfg(test)]
        if self.without_place {
            return out;
        }
        out[..8].copy_from_slice(&(slot as u64).to_le_bytes());
        out[8..16].copy_from_slice(&row.to_le_bytes());
        out
    }

    /// The checksums of consecutive blocks of a member.
    pub(crate) fn of(&self, slot: usize, row: u64, blocks: &[u8]) -> Vec<u64> {
        let items: Vec<_> = blocks
            .chunks_exact(BLOCK)
            .zip(row..)
            .map(|(block, row)| (self.place(slot, row), block))
            .collect();
        let mut out = vec![[0; 32]; items.len()];
        frame_hashes(&self.key, &items, &mut out);
        out.iter().map(first).collect()
    }
}

impl Summer {
    /// The checksums of blocks anywhere: member, row, content. Several together cost half of what they cost one by one.
    pub(crate) fn of_blocks(&self, blocks: &[(usize, u64, &[u8])]) -> Vec<u64> {
        let items: Vec<_> =
            blocks.iter().map(|(slot, row, content)| (self.place(*slot, *row), *content)).collect();
        let mut out = vec![[0; 32]; items.len()];
        frame_hashes(&self.key, &items, &mut out);
        out.iter().map(first).collect()
    }
}

fn first(hash: &[u8; 32]) -> u64 {
    let mut w = [0; 8];
    w.copy_from_slice(&hash[..8]);
    // The two reserved values are not checksums.
    u64::from_le_bytes(w).clamp(1, UNKNOWN - 1)
}

/// A page of checksums.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) generation: u64,
    pub(crate) sums: Box<[u64; PER_PAGE as usize]>,
    dirty: bool,
}

impl Page {
    /// A page of blocks that were never written, or whose checksums are lost.
    fn filled(with: u64) -> Page {
        Page { generation: 0, sums: Box::new([with; PER_PAGE as usize]), dirty: with != UNWRITTEN }
    }

    /// The page of a member out of its two copies, and whether it was lost.
    pub(crate) fn decode(group: &Id, slot: usize, number: u64, copies: [&[u8]; 2]) -> (Page, bool) {
        let [a, b] = copies.map(|bytes| Page::copy(group, slot, number, bytes));
        match (a, b) {
            (Some(a), Some(b)) => (if a.generation >= b.generation { a } else { b }, false),
            (Some(one), None) | (None, Some(one)) => (one, false),
            (None, None) => (Page::filled(UNKNOWN), true),
        }
    }

    fn copy(group: &Id, slot: usize, number: u64, bytes: &[u8]) -> Option<Page> {
        if bytes.iter().all(|b| *b == 0) {
            return Some(Page::filled(UNWRITTEN));
        }
        let (sum, body) = bytes.split_at(8);
        if page_hash(group, slot, number, body) != sum {
            return None;
        }
        let mut words = body.chunks_exact(8).map(|w| {
            let mut word = [0; 8];
            word.copy_from_slice(w);
            u64::from_le_bytes(word)
        });
        let mut page = Page::filled(UNWRITTEN);
        page.generation = words.next()?;
        for (to, word) in page.sums.iter_mut().zip(words) {
            *to = word;
        }
        Some(page)
    }

    /// The bytes of the page with the next generation.
    fn encode(&mut self, group: &Id, slot: usize, number: u64) -> Vec<u8> {
        self.generation += 1;
        let mut out = vec![0; 8];
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend(self.sums.iter().flat_map(|s| s.to_le_bytes()));
        let sum = page_hash(group, slot, number, &out[8..]);
        out[..8].copy_from_slice(&sum);
        out
    }
}

pub(crate) fn page_hash(group: &Id, slot: usize, number: u64, body: &[u8]) -> [u8; 8] {
    let key = [u64::from_le_bytes(*b"ashlar s"), u64::from_le_bytes(*b"um pages"), slot as u64, number];
    let mut out = [0; 8];
    out.copy_from_slice(&frame_hash(&key, &[group, body])[..8]);
    out
}

/// The pages in memory, by member and number.
#[derive(Default)]
pub(crate) struct Pages {
    pages: BTreeMap<(usize, u64), Page>,
    dirty: usize,
}

impl Pages {
    /// The page and the place in it of a row.
    pub(crate) fn place(row: u64) -> (u64, usize) {
        (row / PER_PAGE, (row % PER_PAGE) as usize)
    }

    pub(crate) fn get(&self, slot: usize, row: u64) -> Option<u64> {
        let (number, at) = Pages::place(row);
        self.pages.get(&(slot, number)).map(|p| p.sums[at])
    }

    /// The checksums after that of a row, to the end of its page, which is in memory.
    pub(crate) fn rest(&self, slot: usize, row: u64) -> &[u64] {
        let (number, at) = Pages::place(row);
        self.pages.get(&(slot, number)).map_or(&[], |p| &p.sums[at + 1..])
    }

    /// Sets a checksum of a page that is in memory.
    pub(crate) fn set(&mut self, slot: usize, row: u64, sum: u64) {
        let (number, at) = Pages::place(row);
        let page = self.pages.get_mut(&(slot, number)).expect("the page was loaded");
        page.sums[at] = sum;
        if !page.dirty {
            page.dirty = true;
            self.dirty += 1;
        }
    }

    /// Adds a page that was read. Others are evicted, if there are too many.
    pub(crate) fn insert(&mut self, slot: usize, number: u64, page: Page) {
        if self.pages.len() >= CACHED + self.dirty {
            self.pages.retain(|_, p| p.dirty);
        }
        self.dirty += usize::from(page.dirty);
        self.pages.insert((slot, number), page);
    }

    /// Forgets the pages of a member.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.pages.retain(|(s, _), _| *s != slot);
        self.dirty = self.pages.values().filter(|p| p.dirty).count();
    }

    /// Pages that have to be written.
    pub(crate) fn dirty(&self) -> usize {
        self.dirty
    }

    /// The bytes of all pages that have to be written, with their member and number. They count as written.
    pub(crate) fn drain(&mut self, group: &Id) -> Vec<(usize, u64, Vec<u8>)> {
        let mut out = Vec::with_capacity(self.dirty);
        for ((slot, number), page) in self.pages.iter_mut().filter(|(_, p)| p.dirty) {
            page.dirty = false;
            out.push((*slot, *number, page.encode(group, *slot, *number)));
        }
        self.dirty = 0;
        out
    }
}
