//! The table of a drive's fences of buckets: the durable ones, and those being written (see `fences`).
//!
//! Must not depend on: the journal.

use crate::entry::Loc;
use ashlar_commit::bucket_fence::Deletion;
use ashlar_format::{BucketId, GroupId, RegisterKey};
use std::collections::{BTreeMap, HashMap};

/// Placement group and bucket.
pub(crate) type FenceKey = (GroupId, BucketId);

/// A durable fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fence {
    pub deletion: Deletion,
    /// Its journal record.
    pub loc: Loc,
    /// Journal segments below hold no record of a fence of this key.
    pub oldest: u32,
}

/// The fences of a drive.
#[derive(Default)]
pub(crate) struct Fences {
    pub durable: BTreeMap<FenceKey, Fence>,
    /// Fences that are queued for the journal: the highest, and how many.
    pub asked: HashMap<FenceKey, (Deletion, u32)>,
}

impl Fences {
    /// The fence that a register is under.
    pub fn of(&self, key: &RegisterKey) -> Deletion {
        if self.durable.is_empty() && self.asked.is_empty() {
            return Deletion::NONE;
        }
        self.at(&(key.group(), key.bucket()))
    }

    /// The fence of a bucket in a group.
    pub fn at(&self, key: &FenceKey) -> Deletion {
        let durable = self.durable.get(key).map_or(Deletion::NONE, |f| f.deletion);
        self.asked.get(key).map_or(durable, |(d, _)| durable.max(*d))
    }

    /// The position of the record of a fence.
    pub fn place(&self, key: &FenceKey) -> Option<Fence> {
        self.durable.get(key).copied()
    }

    /// The durable fences, in order.
    pub fn durable(&self) -> impl Iterator<Item = (&FenceKey, &Fence)> {
        self.durable.iter()
    }

    /// Restores the fences found in the index.
    pub fn restore(&mut self, fences: impl IntoIterator<Item = (FenceKey, Fence)>) {
        self.durable = fences.into_iter().collect();
    }

    /// A requested fence is durable, or was not written.
    pub fn answered(&mut self, key: &FenceKey) {
        if let Some((_, count)) = self.asked.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.asked.remove(key);
            }
        }
    }

    /// A fence was queued for the journal.
    pub fn ask(&mut self, key: FenceKey, by: Deletion) {
        let (highest, count) = self.asked.entry(key).or_insert((by, 0));
        *highest = by.max(*highest);
        *count += 1;
    }
}
