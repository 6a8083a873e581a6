//! Where the blocks of a file are on the device.
//!
//! Invariants: extents of a file are disjoint, and merged where both the file and the device go on; blocks that were not written, or have
//! no place, read as zeros.
//!
//! Must not depend on: names, the device.

use std::collections::BTreeMap;

/// Blocks of a file that are next to each other on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// First block on the device.
    pub(super) start: u64,
    /// Number of blocks.
    pub(super) count: u64,
    /// Whether they were written since they belong to the file.
    pub(super) written: bool,
}

/// What a range of a file's blocks is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// Blocks without a place.
    Hole(u64),
    /// Blocks with a place.
    Placed(Extent),
}

/// The blocks of a file.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Blocks {
    /// By the first block of the file.
    extents: BTreeMap<u64, Extent>,
}

impl Blocks {
    /// All extents with their first blocks of the file.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Extent)> + '_ {
        self.extents.iter().map(|(b, e)| (*b, *e))
    }

    /// Number of extents.
    pub(super) fn len(&self) -> usize {
        self.extents.len()
    }

    /// What the blocks `from..to` of the file are, in order.
    pub(super) fn pieces(&self, from: u64, to: u64) -> Vec<Piece> {
        let mut out = Vec::new();
        if from >= to {
            return out;
        }
        let mut at = from;
        let first = self.extents.range(..=from).next_back().filter(|(b, e)| **b + e.count > from);
        for (b, e) in first.into_iter().chain(self.extents.range(from + 1..to)) {
            if *b > at {
                out.push(Piece::Hole(*b - at));
                at = *b;
            }
            let skipped = at - b;
            let count = (e.count - skipped).min(to - at);
            if count > 0 {
                out.push(Piece::Placed(Extent { start: e.start + skipped, count, ..*e }));
                at += count;
            }
        }
        if at < to {
            out.push(Piece::Hole(to - at));
        }
        out
    }

    /// Takes the blocks `from..to` out of the file; returns what had a place.
    pub(super) fn carve(&mut self, from: u64, to: u64) -> Vec<(u64, Extent)> {
        let first = self.extents.range(..from).next_back().map(|(b, _)| *b);
        let touched: Vec<u64> =
            first.into_iter().chain(self.extents.range(from..to).map(|(b, _)| *b)).collect();
        let mut out = Vec::new();
        for b in touched {
            let e = self.extents[&b];
            let (left, right) = (from.max(b), to.min(b + e.count));
            if left >= right {
                continue;
            }
            self.extents.remove(&b);
            if b < left {
                self.extents.insert(b, Extent { count: left - b, ..e });
            }
            if right < b + e.count {
                self.extents
                    .insert(right, Extent { start: e.start + right - b, count: b + e.count - right, ..e });
            }
            out.push((left, Extent { start: e.start + left - b, count: right - left, ..e }));
        }
        out
    }

    /// Gives blocks a place that they do not have.
    pub(super) fn insert(&mut self, mut at: u64, mut e: Extent) {
        if let Some((b, before)) = self.extents.range(..at).next_back().map(|(b, e)| (*b, *e))
            && b + before.count == at
            && before.start + before.count == e.start
            && before.written == e.written
        {
            self.extents.remove(&b);
            (at, e) = (b, Extent { count: before.count + e.count, ..before });
        }
        if let Some(after) = self.extents.get(&(at + e.count)).copied()
            && e.start + e.count == after.start
            && after.written == e.written
        {
            self.extents.remove(&(at + e.count));
            e.count += after.count;
        }
        self.extents.insert(at, e);
    }

    /// Notes that the blocks `from..to` are written, as far as they have a place. True if that is news.
    pub(super) fn mark_written(&mut self, from: u64, to: u64) -> bool {
        let news = |p: &Piece| matches!(p, Piece::Placed(e) if !e.written);
        if !self.pieces(from, to).iter().any(news) {
            return false;
        }
        for (at, e) in self.carve(from, to) {
            self.insert(at, Extent { written: true, ..e });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Block by block: where it is, and whether it was written.
    fn listed(blocks: &Blocks, to: u64) -> Vec<Option<(u64, bool)>> {
        let place = |p: Piece| match p {
            Piece::Hole(n) => vec![None; n as usize],
            Piece::Placed(e) => (0..e.count).map(|i| Some((e.start + i, e.written))).collect(),
        };
        blocks.pieces(0, to).into_iter().flat_map(place).collect()
    }

    proptest! {
        #[test]
        fn blocks_are_as_in_a_list(ops in proptest::collection::vec((0..3u8, 0..40u64, 1..16u64), 1..80)) {
            let (mut blocks, mut model) = (Blocks::default(), vec![None; 64]);
            let mut next = 100;
            for (op, from, count) in ops {
                let to = from + count;
                match op {
                    0 => {
                        let mut at = from;
                        for p in blocks.pieces(from, to) {
                            match p {
                                Piece::Hole(n) => {
                                    blocks.insert(at, Extent { start: next, count: n, written: false });
                                    for i in 0..n {
                                        model[(at + i) as usize] = Some((next + i, false));
                                    }
                                    // Sometimes the next one is adjacent.
                                    next += n + from % 2;
                                    at += n;
                                }
                                Piece::Placed(e) => at += e.count,
                            }
                        }
                    }
                    1 => {
                        for (at, e) in blocks.carve(from, to) {
                            for i in 0..e.count {
                                prop_assert_eq!(model[(at + i) as usize].take(), Some((e.start + i, e.written)));
                            }
                        }
                        prop_assert!(model[from as usize..to as usize].iter().all(Option::is_none));
                    }
                    _ => {
                        let mut news = false;
                        for m in model[from as usize..to as usize].iter_mut().flatten() {
                            news |= !m.1;
                            m.1 = true;
                        }
                        prop_assert_eq!(blocks.mark_written(from, to), news);
                    }
                }
                prop_assert_eq!(&listed(&blocks, 64), &model);
                let merged = |((b, e), (c, f)): ((u64, Extent), (u64, Extent))| {
                    b + e.count < c || e.start + e.count != f.start || e.written != f.written
                };
                prop_assert!(blocks.iter().zip(blocks.iter().skip(1)).all(merged));
            }
        }
    }
}
