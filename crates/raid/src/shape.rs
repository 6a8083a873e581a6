//! The shape of each row. A group that grows has two: rows below `moved` have the new one, the others the old one.
//!
//! A virtual block lies in its row of the new shape if that row is below `moved`, else in its row of the old one. Old rows from `moved`
//! on stay whole, also those of which some blocks have moved: what has moved is in them as it was, and their parity matches it.
//!
//! Invariants: a row has one shape on all members; everything that finds members of a row asks for its shape here.
//!
//! Must not depend on: how rows move.

use std::ops::Range;

use ashlar_erasure::Code;

use crate::Error;
use crate::geometry::{Geometry, Place};
use crate::group::Group;

impl Group {
    /// The shape of a row.
    pub(crate) fn shape(&self, row: u64) -> &Geometry {
        match &self.superblock.growth {
            Some(growth) if row < self.moved => &growth.to,
            _ => &self.superblock.geometry,
        }
    }

    /// The code of a row.
    pub(crate) fn code(&self, row: u64) -> &Code {
        match &self.new_code {
            Some(code) if row < self.moved => code,
            _ => &self.code,
        }
    }

    /// The shapes that rows have or will have: one, or two.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = Geometry> {
        [Some(self.superblock.geometry), self.superblock.growth.map(|growth| growth.to)].into_iter().flatten()
    }

    /// Rows at the beginning of a range that have the shape of the first one.
    pub(crate) fn one_shape(&self, rows: Range<u64>) -> Range<u64> {
        if rows.start < self.moved { rows.start..rows.end.min(self.moved) } else { rows }
    }

    /// Where a virtual block lies.
    pub(crate) fn locate(&self, block: u64) -> Place {
        if let Some(growth) = &self.superblock.growth {
            let place = growth.to.locate(block);
            if place.row < self.moved {
                return place;
            }
        }
        self.superblock.geometry.locate(block)
    }

    /// How many virtual blocks from this one on, at most `most`, lie one after another on one member.
    pub(crate) fn run(&self, block: u64, most: u64) -> u64 {
        let strip = self.superblock.geometry.strip_blocks;
        let count = (strip - block % strip).min(most);
        match &self.superblock.growth {
            Some(growth) => match self.moved.saturating_sub(growth.to.locate(block).row) {
                0 => count,
                moved => count.min(moved),
            },
            None => count,
        }
    }

    /// The position of the member that has a place.
    pub(crate) fn slot(&self, place: &Place) -> usize {
        self.slot_of(place.set, place.row, place.role)
    }

    /// Members of a part ([`Geometry::parts`]) of which not all blocks are there. Any stripe may have all of them.
    pub(crate) fn down(&self, shape: &Geometry, part: u32) -> usize {
        shape.members_of(part).filter(|s| !self.is_whole(*s)).count()
    }

    /// The most such members of any part.
    pub(crate) fn worst(&self, shape: &Geometry) -> usize {
        (0..shape.parts()).map(|part| self.down(shape, part)).max().unwrap_or(0)
    }

    /// Whether the parts of a member, in all shapes, can do without one more member.
    pub(crate) fn spareable(&self, slot: usize) -> bool {
        let spares = |g: Geometry| slot >= g.members() || self.down(&g, g.part(slot)) < g.m;
        !self.is_whole(slot) || self.is_whole_without(slot) || self.shapes().all(spares)
    }

    /// Why a part cannot do without a member.
    pub(crate) fn too_many(&self, slot: usize) -> Error {
        let short = |g: &Geometry| slot < g.members() && self.down(g, g.part(slot)) >= g.m;
        let g = self.shapes().find(short).unwrap_or(self.superblock.geometry);
        let set = g.part(slot);
        Error::Failed { set, down: self.down(&g, set) + 1, tolerated: g.m }
    }
}
