//! Ballots and write ids of this process.
//!
//! Ballots: one counter for all keys, always above everything it has seen. Because the counter is shared, the
//! first attempt on any key is above everything that this process ever proposed; and once the counter has
//! passed the floor of a drive that restarted, it has passed it for all keys.
//!
//! Invariant: no ballot is made twice (I1): the counter only grows, and the nonce is drawn at random for
//! every process.
//!
//! Must not depend on: drives, what a write contains.

use crate::{Error, Result};
use ashlar_format::{Ballot, WriteId};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Ballots {
    counter: AtomicU64,
    node: u16,
    nonce: u32,
}

impl Ballots {
    pub(crate) fn new(node: u16, nonce: u32) -> Ballots {
        Ballots { counter: AtomicU64::new(0), node, nonce }
    }

    /// A new ballot in `epoch`.
    pub(crate) fn next(&self, epoch: u32) -> Ballot {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed) + 1;
        Ballot { epoch, counter, node: self.node, nonce: self.nonce }
    }

    /// Makes the next ballots higher than `seen`. Fails if `seen` belongs to a later epoch: the layout of
    /// this process is outdated.
    pub(crate) fn pass(&self, seen: Ballot, epoch: u32) -> Result<()> {
        if seen.epoch > epoch {
            return Err(Error::Unavailable(format!(
                "a drive is in layout epoch {}, this process in {epoch}",
                seen.epoch
            )));
        }
        if seen.epoch == epoch {
            self.counter.fetch_max(seen.counter, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A number that differs from call to call, for jitter.
    pub(crate) fn jitter(&self) -> u64 {
        let x = self.counter.load(Ordering::Relaxed) ^ (u64::from(self.nonce) << 20);
        // The finaliser of splitmix64 (Steele, Lea, Flood 2014).
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

/// Write ids: a keyed hash of a counter, under a random key of this process. They are unique and cannot be
/// guessed, and need no system call each.
pub(crate) struct WriteIds {
    key: [u64; 4],
    counter: AtomicU64,
}

impl WriteIds {
    pub(crate) fn new(key: [u64; 4]) -> WriteIds {
        WriteIds { key, counter: AtomicU64::new(0) }
    }

    /// For a record ([`ashlar_format::Record::nonce`]); never 0.
    pub(crate) fn nonce(&self) -> u32 {
        let [a, b, c, d, ..] = self.next().0;
        u32::from_le_bytes([a, b, c, d]).max(1)
    }

    pub(crate) fn next(&self) -> WriteId {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let hash = ashlar_checksum::frame_hash(&self.key, &[&count.to_le_bytes()]);
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        WriteId(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn always_above_what_was_seen() {
        let b = Ballots::new(1, 77);
        let first = b.next(3);
        assert!(b.next(3) > first);
        let seen = Ballot { epoch: 3, counter: 1000, node: 9, nonce: 9 };
        b.pass(seen, 3).unwrap();
        assert!(b.next(3) > seen);
        b.pass(Ballot { epoch: 2, counter: 1 << 40, ..seen }, 3).unwrap();
        assert!(b.next(3).counter < 1 << 30, "an older epoch is below anyway");
        assert!(b.pass(Ballot { epoch: 4, ..seen }, 3).is_err());
    }
}
