//! Reading from hard disks: long runs of a shard, from the drives with the least to do.
//!
//! Another place costs a hard disk the time of a megabyte or more, so a shard is read in as few pieces as its length allows, with its
//! hashes, which are at its end. And the drive with the most to do ends last, so that all others would wait for it: any `k` shards
//! make the bytes.
//!
//! Invariants: a run takes no more than a third of the readers' memory, and of a reader that lost what it had read ahead not
//! more than of other drives; as many shards are chosen as the rows that are wanted.
//!
//! Must not depend on: how shards are asked for (`fetch`).

use crate::fetch::RUN;
use crate::read::ObjectReader;
use smallvec::SmallVec;

/// Most bytes of one shard that are read together: with its hashes within the largest class of buffers.
const LONG: u64 = (8 << 20) - (64 << 10);

impl ObjectReader {
    fn is_on_hard_disk(&self, shard: u8) -> bool {
        self.member(shard).is_some_and(|m| m.drive.is_hard_disk())
    }

    /// The most stripes to read together of these rows if one of them is on a hard disk.
    pub(crate) fn longest_run(&self, want: u64) -> Option<u64> {
        if self.was_reclaimed || self.data.inline {
            return None;
        }
        if !(0..self.data.k).any(|i| want >> i & 1 == 1 && self.is_on_hard_disk(i)) {
            return None;
        }
        let row = self.data.row_len(u64::from(self.data.stripe)).max(1);
        let room = self.inner.memory.readers.total() as u64 / 3 / (u64::from(self.data.k) + 1);
        Some((LONG.min(room) / row).max(RUN))
    }

    /// The shards to ask for `count` stripes, as bits, if all rows of them are wanted and all drives are hard disks: those with the
    /// least to do. A shard that is no row has to have less to do by half of what is to be read. `None`: the wanted ones.
    pub(crate) fn least_loaded(&self, want: u64, count: u64) -> Option<u64> {
        let (n, k) = (self.view.n(), self.data.k);
        let all = (0..n).filter(|i| self.member(*i).is_some());
        if want.count_ones() != u32::from(k) || !all.clone().all(|i| self.is_on_hard_disk(i)) {
            return None;
        }
        let long = self.data.row_len(u64::from(self.data.stripe)) * count;
        let load = |i: u8| {
            let margin = if i < k { 0 } else { long / 2 };
            self.member(i).map_or(u64::MAX, |m| m.load().saturating_add(margin))
        };
        let mut known: SmallVec<[(u64, u8); 16]> =
            all.filter(|i| self.is_prompt(*i)).map(|i| (load(i), i)).collect();
        if known.len() < usize::from(k) {
            return None;
        }
        known.sort_unstable();
        Some(known[..usize::from(k)].iter().fold(0, |bits, (_, i)| bits | 1 << i))
    }
}
