//! Which member has a block of a declustered group now: at home, or in the distributed spare room.
//!
//! In each row every member has one block: that of a role of a set, or that of a spare. When a member fails it gets a spare, and its blocks are
//! rebuilt into that spare's blocks, row after row: those below [`crate::InSpare::below`] are there. A spare's block may be on a
//! member that has failed too; then it is where that member's block is, and so on. A spare belongs to one member at most and each member is at one
//! position of a row, so this ends, and two blocks of a row are never on one member. A new device gets its blocks back from the last row to the first,
//! so one number says at each instant what is in the spare: it falls until the spare is free.
//!
//! Invariants: the places of blocks change with the superblock only, in whole strips, when no batch is under way and everything is durable
//! at both places; a block that no role has now is never read.
//!
//! Must not depend on: how blocks are rebuilt.

use crate::geometry::Geometry;
use crate::group::Group;
#[cfg(test)]
use crate::group::Mutant;
use crate::permutation::Table;
use crate::superblock::MemberState;

impl Group {
    /// The member that has a role of a row.
    pub(crate) fn slot_of(&self, set: u32, row: u64, role: usize) -> usize {
        let g = self.shape(row);
        match &self.table {
            None => g.slot(set, row, role),
            Some(table) => self.holder(table, row, set as usize * g.n() + role),
        }
    }

    /// The members of a row of a set, by role.
    pub(crate) fn slots(&self, set: u32, row: u64) -> Vec<usize> {
        (0..self.shape(row).n()).map(|role| self.slot_of(set, row, role)).collect()
    }

    /// The member that has what belongs at a position of a row.
    fn holder(&self, table: &Table, row: u64, mut position: usize) -> usize {
        let g = self.geometry();
        loop {
            let slot = table.member(row / g.strip_blocks, position);
            match self.spare_of(slot, row) {
                Some(index) => position = first_spare(g) + index,
                None => return slot,
            }
            #[cfg(test)]
            if self.has(Mutant::SpareOfSpareIgnored) {
                return table.member(row / g.strip_blocks, position);
            }
        }
    }

    /// The spare that has the block of a member in a row.
    fn spare_of(&self, slot: usize, row: u64) -> Option<usize> {
        let spare = self.superblock.slots[slot].spare?;
        (row < spare.below).then_some(usize::from(spare.index))
    }

    /// Where the block of a member in a row is when it is rebuilt into its spare.
    pub(crate) fn in_spare(&self, slot: usize, row: u64) -> Option<usize> {
        let index = usize::from(self.superblock.slots[slot].spare?.index);
        Some(self.holder(self.table.as_deref()?, row, first_spare(self.geometry()) + index))
    }

    /// The set and the role that have their block of a row on a member, or had it there if it were in service: its own, or that for which it has a
    /// block of a spare. None: nothing is there.
    pub(crate) fn role_at(&self, slot: usize, row: u64) -> Option<(u32, usize)> {
        let g = self.shape(row);
        let Some(table) = &self.table else {
            return (slot < g.members()).then(|| (g.set(slot), g.role(slot, row)));
        };
        let strip = row / g.strip_blocks;
        let mut position = table.position(strip, slot);
        // Failed members that have each other's spares have no block.
        for _ in 0..=g.spares {
            let Some(index) = position.checked_sub(first_spare(g)) else {
                return Some(((position / g.n()) as u32, position % g.n()));
            };
            let other = (0..g.members()).find(|s| self.spare_of(*s, row) == Some(index))?;
            position = table.position(strip, other);
        }
        None
    }

    /// Whether all blocks of a member that are not on members out of service are there, at home or in its spare.
    pub(crate) fn is_whole(&self, slot: usize) -> bool {
        let (state, rows) = (self.superblock.slots[slot].state, self.geometry().rows());
        let below = self.superblock.slots[slot].spare.map_or(0, |s| s.below);
        match state {
            MemberState::Online => true,
            MemberState::Failed => below == rows,
            MemberState::Rebuild { done } => below > 0 && below + done >= rows,
        }
    }

    /// Whether it would be so without its device.
    pub(crate) fn is_whole_without(&self, slot: usize) -> bool {
        self.superblock.slots[slot].spare.is_some_and(|s| s.below == self.geometry().rows())
    }

    /// A spare that no member has.
    pub(crate) fn free_spare(&self) -> Option<u8> {
        let free =
            |index: &u8| self.superblock.slots.iter().all(|s| s.spare.is_none_or(|s| s.index != *index));
        (0..self.geometry().spares as u8).find(free)
    }

    /// Distributed spares in all, and those that have blocks of members.
    #[must_use]
    pub fn distributed_spares(&self) -> (usize, usize) {
        (self.geometry().spares, self.superblock.slots.iter().filter(|s| s.spare.is_some()).count())
    }
}

/// The first position of a spare.
fn first_spare(g: &Geometry) -> usize {
    g.sets as usize * g.n()
}
