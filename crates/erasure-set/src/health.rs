//! The health of each group: what it can still do.
//!
//! Invariants: counts are over slots; no function here uses a device.
//!
//! Must not depend on: how operations are executed.

use crate::sets::Sets;
use crate::table::{Member, View};
use ashlar_commit::lower_k;
use ashlar_format::{DriveId, GroupId};

/// What one group can do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHealth {
    /// The group.
    pub group: GroupId,
    /// Total number of slots.
    pub slots: u8,
    /// Slots whose drive answers and votes. A drive whose node is not reached, or silent, does not.
    pub voters: u8,
    /// Slots whose drive is being filled.
    pub joining: u8,
    /// Whether records can be read (half of the slots vote). Each body needs its shards too.
    pub readable: bool,
    /// Whether writes are accepted: a majority votes, and enough drives accept shards.
    pub writable: bool,
    /// Drives that can still be lost before new writes stop.
    pub spare: u8,
}

/// How many drives of a placement group may be missing before something stops, for a code k+m.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// Complete objects can still be read: half of the slots vote and k shards exist.
    pub reads: u8,
    /// New writes are still accepted: a majority of the slots votes and enough drives accept shards.
    pub writes: u8,
}

/// What a placement group with the code k+m tolerates.
#[must_use]
pub fn tolerance(k: u8, m: u8) -> Tolerance {
    let n = k + m;
    let majority = n / 2 + 1;
    let reads = m.min(majority - 1);
    let writes = (0..=n - majority).rev().find(|missing| lower_k(k, m, n - missing).is_some());
    Tolerance { reads, writes: writes.unwrap_or(0) }
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
                let up = v.which(Member::is_here);
                let voters = up.and(v.voters());
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

    /// For every group the drives that answer and vote in it.
    #[must_use]
    pub fn voters(&self) -> Vec<(GroupId, Vec<DriveId>)> {
        let table = self.inner.table.load();
        let of = |v: &View| {
            let voters = v.members().filter(|(_, m)| m.is_here() && m.is_voter(v.group));
            (v.group, voters.map(|(_, m)| m.id).collect())
        };
        table.views.iter().map(|v| of(v)).collect()
    }

    /// The drives that are in service and answer, here and at other nodes, as far as is known without asking.
    #[must_use]
    pub fn present(&self) -> Vec<DriveId> {
        let table = self.inner.table.load();
        table.members.values().filter(|m| m.is_here()).map(|m| m.id).collect()
    }

    /// Drives that hang or are away, or did until now, and have missed registers that wait to be healed when they answer.
    #[must_use]
    pub fn lacking(&self) -> Vec<DriveId> {
        self.inner.missed.of.lock().keys().copied().collect()
    }

    /// Whether a drive that is back has missed more registers than are noted, so that a pass has to find them.
    #[must_use]
    pub fn owes_pass(&self) -> bool {
        self.inner.scrub.owes_pass()
    }

    /// Number of registers waiting for heal.
    #[must_use]
    pub fn heal_backlog(&self) -> usize {
        self.inner.heals.open() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_reads_tolerate_different_numbers_of_missing_drives() {
        let of = |k, m| {
            let t = tolerance(k, m);
            (t.reads, t.writes)
        };
        assert_eq!(of(1, 0), (0, 0));
        assert_eq!(of(1, 1), (1, 0));
        assert_eq!(of(2, 2), (2, 1));
        assert_eq!(of(4, 2), (2, 2));
        assert_eq!(of(4, 4), (4, 3));
        assert_eq!(of(12, 4), (4, 7));
        assert_eq!(of(14, 4), (4, 8));
    }
}
