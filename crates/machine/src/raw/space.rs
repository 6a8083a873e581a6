//! Free blocks of a device.
//!
//! Invariants: both indexes have the same extents; extents are disjoint and not adjacent.
//!
//! Must not depend on: files, the device.

use std::collections::{BTreeMap, BTreeSet};

/// Blocks that belong to nobody.
#[derive(Default)]
pub(super) struct FreeSpace {
    by_start: BTreeMap<u64, u64>,
    by_count: BTreeSet<(u64, u64)>,
    blocks: u64,
}

impl FreeSpace {
    /// Number of blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Adds blocks. False, and nothing is added, if one of them is free already.
    #[must_use]
    pub(super) fn add(&mut self, start: u64, count: u64) -> bool {
        if count == 0 {
            return true;
        }
        let before = self.by_start.range(..=start).next_back().map(|(s, n)| (*s, *n));
        let after = self.by_start.range(start..).next().map(|(s, n)| (*s, *n));
        if before.is_some_and(|(s, n)| s + n > start) || after.is_some_and(|(s, _)| s < start + count) {
            return false;
        }
        let (mut from, mut len) = (start, count);
        if let Some((s, n)) = before.filter(|(s, n)| s + n == start) {
            self.forget(s, n);
            (from, len) = (s, len + n);
        }
        if let Some((s, n)) = after.filter(|(s, _)| *s == start + count) {
            self.forget(s, n);
            len += n;
        }
        self.by_start.insert(from, len);
        self.by_count.insert((len, from));
        self.blocks += count;
        true
    }

    /// Takes these blocks. False, and nothing is taken, unless all are free.
    #[must_use]
    pub(super) fn remove(&mut self, start: u64, count: u64) -> bool {
        let Some((s, n)) = self.by_start.range(..=start).next_back().map(|(s, n)| (*s, *n)) else {
            return count == 0;
        };
        if start + count > s + n {
            return false;
        }
        self.forget(s, n);
        for (s, n) in [(s, start - s), (start + count, s + n - start - count)] {
            if n > 0 {
                self.by_start.insert(s, n);
                self.by_count.insert((n, s));
            }
        }
        self.blocks -= count;
        true
    }

    /// Takes up to `most` blocks in a row: the smallest extent that has so many, or the largest one.
    pub(super) fn take(&mut self, most: u64) -> Option<(u64, u64)> {
        let fits = self.by_count.range((most, 0)..).next().or_else(|| self.by_count.iter().next_back());
        let (count, start) = *fits?;
        let count = count.min(most);
        let taken = self.remove(start, count);
        debug_assert!(taken);
        Some((start, count))
    }

    fn forget(&mut self, start: u64, count: u64) {
        self.by_start.remove(&start);
        self.by_count.remove(&(count, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a set of blocks.
        #[test]
        fn blocks_are_free_once(ops in proptest::collection::vec((0..3u8, 0..64u64, 1..12u64), 1..200)) {
            let (mut space, mut model) = (FreeSpace::default(), BTreeSet::new());
            for (op, start, count) in ops {
                let range = start..start + count;
                match op {
                    0 => {
                        let fits = range.clone().all(|b| !model.contains(&b));
                        prop_assert_eq!(space.add(start, count), fits);
                        model.extend(range.filter(|_| fits));
                    }
                    1 => {
                        let all = range.clone().all(|b| model.contains(&b));
                        prop_assert_eq!(space.remove(start, count), all);
                        model.retain(|b| !(all && range.contains(b)));
                    }
                    _ => match space.take(count) {
                        None => prop_assert!(model.is_empty()),
                        Some((s, n)) => {
                            prop_assert!(n <= count && (s..s + n).all(|b| model.remove(&b)));
                            // Less only if nothing has more.
                            let mut run = 0;
                            let longest = (0..80).map(|b| { run = if model.contains(&b) { run + 1 } else { 0 }; run }).max();
                            prop_assert!(n == count || longest <= Some(n));
                        }
                    },
                }
                prop_assert_eq!(space.blocks(), model.len() as u64);
                let listed: Vec<u64> = space.by_start.iter().flat_map(|(s, n)| *s..s + n).collect();
                prop_assert_eq!(listed, model.iter().copied().collect::<Vec<_>>());
                prop_assert!(space.by_start.iter().zip(space.by_start.iter().skip(1)).all(|((s, n), (t, _))| s + n < *t));
                prop_assert!(space.by_count.iter().all(|(n, s)| space.by_start.get(s) == Some(n)));
            }
        }
    }
}
