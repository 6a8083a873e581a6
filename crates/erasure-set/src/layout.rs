//! Placement: key -> group -> slots -> drives, and the sizes of stripes and rows.
//!
//! Invariants: placement is a pure function of the layout and the key; a row of a full stripe is a whole
//! number of 4 KiB blocks and one frame on its drive, so that rows are transferred to and from the device
//! without a copy.
//!
//! Must not depend on: drives.

use crate::{Error, Result};
use ashlar_format::{BucketId, DriveId, GroupId};

/// The default code of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Data shards.
    pub k: u8,
    /// Parity shards.
    pub m: u8,
}

/// One placement group: drive `slots[s]` is in slot s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its id, the first bytes of its register keys.
    pub id: GroupId,
    /// Layout epoch of the group. A drive that is in none of its slots in this epoch can never vote in it
    /// again.
    pub epoch: u32,
    /// The drives; as many as `k + m`.
    pub slots: Vec<DriveId>,
}

/// The placement groups of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Epoch of the map: at least that of every group, and higher in a later layout.
    pub epoch: u32,
    /// The code.
    pub code: Code,
    /// The groups, in order of id; those of a pool are numbered from 0 without gaps.
    pub groups: Vec<Group>,
}

/// The longest row of a stripe, which is also the longest frame.
pub const MAX_ROW: u32 = 256 << 10;
/// The longest stripe.
pub const MAX_STRIPE: u32 = 1 << 20;
/// Rows of full stripes are multiples of this.
const BLOCK: u32 = 4096;

impl Code {
    /// Slots.
    #[must_use]
    pub fn n(self) -> u8 {
        self.k + self.m
    }
}

/// Object bytes per stripe for `k` data rows: at most 1 MiB, rows of at most 256 KiB that are whole
/// blocks.
#[must_use]
pub fn stripe_len(k: u8) -> u32 {
    let k = u32::from(k.max(1));
    let row = (MAX_STRIPE / k / BLOCK * BLOCK).clamp(BLOCK, MAX_ROW);
    row * k
}

impl Layout {
    /// Checks that the layout is valid.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the reason.
    pub fn check(&self) -> Result<()> {
        let Code { k, m } = self.code;
        if k == 0 || u16::from(k) + u16::from(m) > 64 {
            return Err(Error::Invalid("a code has k >= 1 and k + m <= 64"));
        }
        if self.groups.is_empty() || self.groups.len() > usize::from(u16::MAX) {
            return Err(Error::Invalid("a layout has 1..=65535 groups"));
        }
        for (i, g) in self.groups.iter().enumerate() {
            if g.id != GroupId::new(0, i as u16) || g.slots.len() != usize::from(self.code.n()) {
                return Err(Error::Invalid("groups are numbered and have k + m slots"));
            }
            if g.epoch > self.epoch {
                return Err(Error::Invalid("a group is in a later epoch than the layout"));
            }
            let mut drives = g.slots.clone();
            drives.sort_unstable();
            drives.dedup();
            if drives.len() != g.slots.len() {
                return Err(Error::Invalid("a drive is in two slots of one group"));
            }
        }
        Ok(())
    }

    /// The group of a key. All registers of an object (also its uploads and parts) are in the group of the
    /// object's key.
    #[must_use]
    pub fn group_of(&self, bucket: BucketId, key: &[u8]) -> GroupId {
        if self.groups.len() <= 1 {
            return GroupId::default();
        }
        let h = hash(bucket, key);
        // Multiplication instead of a remainder: even, and a pure function of the hash.
        GroupId::new(0, ((u128::from(h) * self.groups.len() as u128) >> 64) as u16)
    }
}

impl Layout {
    /// The index of a group in [`Layout::groups`].
    #[must_use]
    pub fn index(&self, id: GroupId) -> Option<usize> {
        // The first pool is at the front, with its groups at the indexes of their numbers.
        let at = usize::from(id.group);
        if self.groups.get(at).is_some_and(|g| g.id == id) {
            return Some(at);
        }
        self.groups.binary_search_by_key(&id, |g| g.id).ok()
    }
}

fn hash(bucket: BucketId, key: &[u8]) -> u64 {
    let mut buf = smallvec::SmallVec::<[u8; 256]>::with_capacity(16 + key.len());
    buf.extend_from_slice(&bucket.0);
    buf.extend_from_slice(key);
    ashlar_checksum::key_hash(&buf)
}

/// The rotation of the slot -> shard map of a write: spreads data and parity shards evenly over the
/// drives.
#[must_use]
pub(crate) fn rotation(hash: u64, n: u8) -> u8 {
    (hash % u64::from(n.max(1))) as u8
}

/// The code of a body of `size` bytes: fewer data shards for a small one, so that no shard has
/// fewer than `min_shard` bytes.
#[must_use]
pub(crate) fn width(k: u8, size: u64, min_shard: u32) -> u8 {
    let most = size.div_ceil(u64::from(min_shard.max(1))).max(1);
    u8::try_from(most).unwrap_or(u8::MAX).min(k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_blocks() {
        for k in 1..=64 {
            let stripe = stripe_len(k);
            let row = stripe / u32::from(k);
            assert!(stripe <= MAX_STRIPE && stripe.is_multiple_of(u32::from(k)));
            assert!(row.is_multiple_of(BLOCK) && row <= MAX_ROW, "k = {k}: {row}");
        }
        assert_eq!((stripe_len(1), stripe_len(2), stripe_len(4)), (256 << 10, 512 << 10, 1 << 20));
        assert_eq!(stripe_len(12), 12 * (84 << 10));
    }

    #[test]
    fn small_bodies_are_narrow() {
        assert_eq!(width(12, 4096, 1024), 4);
        assert_eq!(width(2, 4096, 1024), 2);
        assert_eq!(width(12, 1, 1024), 1);
        assert_eq!(width(12, 1 << 40, 1024), 12);
    }

    #[test]
    fn placement_is_even_and_stable() {
        let groups = (0..7)
            .map(|g| Group {
                id: GroupId::new(0, g),
                epoch: 1,
                slots: (0..4u8).map(|d| DriveId([d; 16])).collect(),
            })
            .collect();
        let l = Layout { epoch: 1, code: Code { k: 2, m: 2 }, groups };
        l.check().unwrap();
        let mut count = [0u32; 7];
        for i in 0..7000u32 {
            count[usize::from(l.group_of(BucketId::ZERO, &i.to_le_bytes()).group)] += 1;
        }
        assert!(count.iter().all(|c| (850..1150).contains(c)), "{count:?}");
        assert_eq!(l.group_of(BucketId([1; 16]), b"photos/2024/a.jpg"), GroupId::new(0, 1));
    }
}
