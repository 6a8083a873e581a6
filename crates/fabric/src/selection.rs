//! Which blocks of a namespace a fault concerns.
//!
//! A block is chosen by a hash of the seed, the drive, the namespace and the number of the block: neither time nor the order of
//! commands matters, so that a test that runs again meets the same damage.
//!
//! Invariant: what is kept is bounded by the chosen blocks that were used.
//!
//! Must not depend on: what the fault does.

use ashlar_environment::random::Seeded;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};

/// Blocks that were hit and are listed, at most.
const LISTED: usize = 1024;

/// A choice of blocks, and what has happened to them.
pub(crate) struct Selection {
    seed: u64,
    /// Hashes below it are chosen; none: all.
    below: Option<u64>,
    first: u64,
    last: u64,
    /// How often a block is hit; 0: always.
    times: u32,
    /// How many hits there are, over all blocks.
    limit: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hits: HashMap<u64, u32>,
    spared: HashSet<u64>,
    listed: Vec<u64>,
    count: u64,
}

impl Selection {
    /// A share of `rate` (0 to 1) of the blocks `first` to `last`. `place`: the drive and the namespace. `times`: how often a block is hit,
    /// 0: always; `limit`: how many hits there are in all.
    pub(crate) fn new(
        seed: u64,
        place: (u64, u64),
        rate: f64,
        (first, last): (u64, u64),
        (times, limit): (u32, u64),
    ) -> Selection {
        let mut mixer = Seeded::new(seed ^ place.0 << 32 ^ place.1);
        // 2^64 itself has no u64.
        let below = (rate < 1.0).then(|| (rate.max(0.0) * 18_446_744_073_709_551_616.0) as u64);
        Selection { seed: mixer.next(), below, first, last, times, limit, state: Mutex::default() }
    }

    fn hash(&self, block: u64) -> Seeded {
        let mut random = Seeded::new(self.seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.next();
        random
    }

    /// Whether a block is chosen.
    pub(crate) fn chosen(&self, block: u64) -> bool {
        (self.first..=self.last).contains(&block)
            && self.below.is_none_or(|below| self.hash(block).next() < below)
    }

    /// Which bit of `bytes` bytes of a block is concerned.
    pub(crate) fn bit(&self, block: u64, bytes: usize) -> usize {
        let mut random = self.hash(block);
        random.next();
        random.below(8 * bytes as u64) as usize
    }

    /// Whether this use of a block is hit; counts it.
    pub(crate) fn hit(&self, block: u64) -> bool {
        if !self.chosen(block) {
            return false;
        }
        let mut state = self.state.lock();
        if state.count >= self.limit || state.spared.contains(&block) {
            return false;
        }
        let hits = state.hits.entry(block).or_default();
        if self.times > 0 && *hits >= self.times {
            return false;
        }
        *hits = hits.saturating_add(1);
        state.count += 1;
        if state.listed.len() < LISTED {
            state.listed.push(block);
        }
        true
    }

    /// A block is hit no more.
    pub(crate) fn spare(&self, block: u64) {
        if self.chosen(block) {
            self.state.lock().spared.insert(block);
        }
    }

    /// How many uses were hit, and the blocks of the first ones.
    pub(crate) fn hits(&self) -> (u64, Vec<u64>) {
        let state = self.state.lock();
        (state.count, state.listed.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(seed: u64, place: (u64, u64)) -> Vec<u64> {
        let selection = Selection::new(seed, place, 0.01, (0, u64::MAX), (0, u64::MAX));
        (0..10_000).filter(|b| selection.chosen(*b)).collect()
    }

    #[test]
    fn choice_depends_on_seed_and_place_alone() {
        let one = chosen(7, (3, 1));
        assert!((60..140).contains(&one.len()), "{}", one.len());
        assert_eq!(one, chosen(7, (3, 1)));
        assert_ne!(one, chosen(8, (3, 1)));
        assert_ne!(one, chosen(7, (3, 2)));
        assert_ne!(one, chosen(7, (4, 1)));
    }

    #[test]
    fn hits_are_bounded_by_times_range_and_sparing() {
        let selection = Selection::new(1, (1, 1), 1.0, (10, 12), (2, u64::MAX));
        let hits = |block| (0..4).filter(|_| selection.hit(block)).count();
        selection.spare(11);
        assert_eq!([9, 10, 11, 12, 13].map(hits), [0, 2, 0, 2, 0]);
        assert_eq!(selection.hits(), (4, vec![10, 10, 12, 12]));
        assert!(!Selection::new(1, (1, 1), 0.0, (0, 9), (0, u64::MAX)).hit(3));
        let limited = Selection::new(1, (1, 1), 1.0, (0, 9), (0, 3));
        assert_eq!([7, 8, 7, 9, 7].map(|b| limited.hit(b)), [true, true, true, false, false]);
        assert_eq!(limited.hits(), (3, vec![7, 8, 7]));
        assert!(selection.bit(10, 4096) < 32_768);
    }
}
