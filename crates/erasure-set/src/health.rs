//! What each group can still do.
//!
//! Invariants: counts are over slots; nothing here asks a device.

use crate::sets::Sets;
use crate::table::Member;
use ashlar_commit::lower_k;

/// What one group can do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHealth {
    /// Which group.
    pub group: u16,
    /// Slots in all.
    pub slots: u8,
    /// Slots whose drive answers and votes.
    pub voters: u8,
    /// Slots whose drive is being filled.
    pub joining: u8,
    /// Records can be read (half the slots vote). Each body needs its shards too.
    pub readable: bool,
    /// Writes are taken: a majority votes, and enough drives take shards.
    pub writable: bool,
    /// Drives that can still be lost before new writes stop.
    pub spare: u8,
}

impl Sets {
    /// The state of every group.
    #[must_use]
    pub fn health(&self) -> Vec<GroupHealth> {
        let table = self.inner.table.load();
        table
            .views
            .iter()
            .map(|v| {
                let up = v.which(Member::is_up);
                let voters = up.and(v.which(Member::is_voter));
                let majority = v.quorum.majority();
                let codes = lower_k(v.k, v.m, up.len()).is_some();
                GroupHealth {
                    group: v.group,
                    slots: v.n(),
                    voters: voters.len(),
                    joining: up.without(voters).len(),
                    readable: voters.len() >= v.quorum.half(),
                    writable: voters.len() >= majority && codes,
                    spare: voters.len().saturating_sub(majority),
                }
            })
            .collect()
    }

    /// Registers waiting to be healed.
    #[must_use]
    pub fn heal_backlog(&self) -> usize {
        self.inner.heals.len()
    }
}
