//! Rows whose parity may be wrong, until it is made anew ([`crate::resync`]).
//!
//! Invariant: a row is taken once.
//!
//! Must not depend on: groups.

use std::collections::BTreeMap;
use std::ops::Range;

/// Rows that are suspect: first ones and ends.
#[derive(Default, Debug)]
pub(crate) struct Suspects {
    ranges: BTreeMap<u64, u64>,
    all: u64,
}

impl Suspects {
    /// Of ranges in their order.
    pub(crate) fn new(ranges: impl Iterator<Item = Range<u64>>) -> Suspects {
        let mut found = Suspects::default();
        for range in ranges.filter(|r| !r.is_empty()) {
            found.all += range.end - range.start;
            match found.ranges.last_entry() {
                Some(mut last) if *last.get() == range.start => *last.get_mut() = range.end,
                _ => drop(found.ranges.insert(range.start, range.end)),
            }
        }
        found
    }

    /// How many there were.
    pub(crate) fn all(&self) -> u64 {
        self.all
    }

    /// How many are left.
    pub(crate) fn left(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// Removes the first of these rows that are suspect, and lie one after another; none: none is.
    pub(crate) fn take(&mut self, of: Range<u64>) -> Option<Range<u64>> {
        let reaches = self.ranges.range(..of.start).next_back().filter(|(_, end)| **end > of.start);
        let first = reaches.or_else(|| self.ranges.range(of.clone()).next()).map(|(s, e)| (*s, *e))?;
        let taken = first.0.max(of.start)..first.1.min(of.end);
        self.ranges.remove(&first.0);
        if first.0 < taken.start {
            self.ranges.insert(first.0, taken.start);
        }
        if taken.end < first.1 {
            self.ranges.insert(taken.end, first.1);
        }
        Some(taken)
    }

    /// Removes the first rows of all, at most so many.
    pub(crate) fn take_first(&mut self, most: u64) -> Option<Range<u64>> {
        let (start, end) = self.ranges.first_key_value().map(|(s, e)| (*s, *e))?;
        self.take(start..end.min(start + most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspects_are_taken_once() {
        let mut s = Suspects::new([0..4, 4..6, 10..12, 12..12].into_iter());
        assert_eq!((s.all, s.ranges.len()), (8, 2));
        assert_eq!(s.take(6..10), None);
        assert_eq!(s.take(3..11), Some(3..6));
        assert_eq!(s.take(3..11), Some(10..11));
        assert_eq!(s.take(3..11), None);
        assert_eq!((s.take(1..2), s.left()), (Some(1..2), 3));
        assert_eq!(
            (s.take(0..100), s.take(0..100), s.take(0..100), s.take(0..100)),
            (Some(0..1), Some(2..3), Some(11..12), None)
        );
    }

    #[test]
    fn suspects_match_a_set() {
        let mut random = ashlar_environment::random::Seeded::new(7);
        for _ in 0..2000 {
            let mut set = std::collections::BTreeSet::new();
            let (mut ranges, mut at) = (Vec::new(), 0);
            for _ in 0..random.below(6) {
                let start = at + random.below(4);
                at = start + random.below(5);
                ranges.push(start..at);
                set.extend(start..at);
            }
            let mut s = Suspects::new(ranges.into_iter());
            for _ in 0..8 {
                let start = random.below(30);
                let of = start..start + 1 + random.below(8);
                while let Some(taken) = s.take(of.clone()) {
                    assert!(
                        !taken.is_empty() && taken.clone().all(|row| of.contains(&row) && set.remove(&row))
                    );
                }
                assert!(of.clone().all(|row| !set.contains(&row)));
                assert_eq!(s.left(), set.len() as u64);
            }
        }
    }
}
