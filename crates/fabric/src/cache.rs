//! The volatile write cache of a drive: what was written and not flushed is lost when the drive is pulled.
//!
//! The backing file has the new content at once; kept is what each block had before, as it is on the medium. A pull writes it back.
//!
//! Invariants: what was flushed, or written with FUA, is never lost; the cache never holds more than its size, as the oldest blocks go to the
//! medium by themselves.
//!
//! Must not depend on: files, faults, time.

use std::collections::{BTreeMap, VecDeque};

/// What the blocks of a drive have on the medium that were written since. A block is named by its namespace and its number.
#[derive(Default)]
pub(crate) struct Cache {
    old: BTreeMap<(u32, u64), Vec<u8>>,
    /// From the oldest on.
    order: VecDeque<(u32, u64)>,
}

impl Cache {
    /// A block is written for the first time since it was flushed: whether `keep` is needed before.
    pub(crate) fn is_clean(&self, nsid: u32, block: u64) -> bool {
        !self.old.contains_key(&(nsid, block))
    }

    /// Keeps what a block has on the medium. The cache has room for `most` blocks.
    pub(crate) fn keep(&mut self, nsid: u32, block: u64, content: Vec<u8>, most: usize) {
        self.old.insert((nsid, block), content);
        self.order.push_back((nsid, block));
        while self.old.len() > most {
            let Some(oldest) = self.order.pop_front() else { return };
            self.old.remove(&oldest);
        }
    }

    /// Blocks are on the medium: all of a namespace, or a range of it.
    pub(crate) fn settle(&mut self, nsid: u32, range: Option<std::ops::Range<u64>>) {
        let stays = |key: &(u32, u64)| key.0 != nsid || range.as_ref().is_some_and(|r| !r.contains(&key.1));
        self.old.retain(|key, _| stays(key));
        self.order.retain(stays);
    }

    /// Everything that is not on the medium, with what is there instead; the cache is empty afterwards.
    pub(crate) fn take(&mut self) -> BTreeMap<(u32, u64), Vec<u8>> {
        self.order.clear();
        std::mem::take(&mut self.old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(cache: &mut Cache) -> Vec<(u32, u64)> {
        cache.take().into_keys().collect()
    }

    #[test]
    fn only_unflushed_blocks_are_lost_and_the_oldest_go_to_the_medium() {
        let mut cache = Cache::default();
        for (nsid, block) in [(1, 5), (1, 6), (2, 5), (1, 7)] {
            assert!(cache.is_clean(nsid, block));
            cache.keep(nsid, block, vec![0], 3);
            assert!(!cache.is_clean(nsid, block));
        }
        assert!(cache.is_clean(1, 5), "the oldest");
        cache.settle(1, Some(6..7));
        cache.keep(1, 5, vec![9], 3);
        assert_eq!(blocks(&mut cache), [(1, 5), (1, 7), (2, 5)]);
        assert!(cache.is_clean(2, 5) && cache.order.is_empty());
        (0..9).for_each(|b| cache.keep(1, b, vec![0], 100));
        cache.keep(2, 1, vec![0], 100);
        cache.settle(1, None);
        assert_eq!((blocks(&mut cache), cache.order.len()), (vec![(2, 1)], 0));
    }
}
