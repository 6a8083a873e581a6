//! Regions that may have inconsistent parity, for the policy `bitmap`. **Part of the on-drive format.**
//!
//! Every member has the bitmap in two places, in the first blocks of the area that a journal would use; a new one goes to
//! the place that does not hold the newest.
//!
//! Invariants: a region is marked durably before a row of it is written; marks go when everything is durable.
//!
//! Must not depend on: how rows are written.

use ashlar_checksum::frame_hash;
use ashlar_format::codec::{Reader, Writer};

use crate::Error;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::layout::JOURNAL;
use crate::superblock::{Id, Policy};

/// Regions of a group.
pub(crate) const REGIONS: u64 = 8 * 3968;
const MAGIC: &[u8; 8] = b"ASHLRBIT";
pub(crate) const KEY: [u64; 4] = [
    u64::from_le_bytes(*b"ashlar r"),
    u64::from_le_bytes(*b"aid bitm"),
    u64::from_le_bytes(*b"ap v1 .."),
    u64::from_le_bytes(*b"........"),
];

/// Marks of regions.
#[derive(Clone, Default)]
pub(crate) struct Bitmap {
    generation: u64,
    bits: Vec<u8>,
}

impl Bitmap {
    fn get(&self, region: u64) -> bool {
        self.bits.get((region / 8) as usize).is_some_and(|b| b >> (region % 8) & 1 != 0)
    }

    pub(crate) fn set(&mut self, region: u64) {
        self.bits.resize((REGIONS / 8) as usize, 0);
        self.bits[(region / 8) as usize] |= 1 << (region % 8);
    }

    pub(crate) fn encode(&self, group: &Id) -> Vec<u8> {
        let mut w = Writer::with_capacity(BLOCK);
        w.raw(MAGIC);
        w.raw(group);
        w.u64(self.generation);
        w.raw(&self.bits);
        let mut out = w.into_vec();
        out.resize(BLOCK - 32, 0);
        let sum = frame_hash(&KEY, &[&out]);
        out.extend_from_slice(&sum);
        out
    }

    pub(crate) fn decode(group: &Id, bytes: &[u8]) -> Option<Bitmap> {
        let (body, sum) = bytes.split_at_checked(BLOCK - 32)?;
        let mut r = Reader::new(body);
        let here = r.raw(8).ok()? == MAGIC && r.raw(16).ok()? == group;
        let generation = r.u64().ok()?;
        let bits = r.raw((REGIONS / 8) as usize).ok()?.to_vec();
        let (_, rest) = body.split_at_checked(8 + 16 + 8 + bits.len())?;
        let whole = here && rest.iter().all(|b| *b == 0) && frame_hash(&KEY, &[body]) == sum;
        whole.then_some(Bitmap { generation, bits })
    }
}

impl Group {
    /// Rows of a region.
    pub(crate) fn region_rows(&self) -> u64 {
        self.geometry().rows().div_ceil(REGIONS)
    }

    /// Marks the regions of rows, durably, if the policy says so and they are not marked.
    pub(crate) fn mark(&mut self, rows: impl Iterator<Item = u64>) -> Result<(), Error> {
        if self.superblock.policy != Policy::Bitmap {
            return Ok(());
        }
        let per_region = self.region_rows();
        let mut new = false;
        for region in rows.map(|row| row / per_region) {
            new |= !self.bitmap.get(region);
            self.bitmap.set(region);
        }
        if !new {
            return Ok(());
        }
        self.write_bitmap()?;
        self.settle()
    }

    /// Whether the region of a row is marked.
    pub(crate) fn marked(&self, row: u64) -> bool {
        self.bitmap.get(row / self.region_rows())
    }

    fn write_bitmap(&mut self) -> Result<(), Error> {
        self.bitmap.generation += 1;
        let bytes = self.bitmap.encode(&self.superblock.group);
        let at = JOURNAL + self.bitmap.generation % 2;
        for slot in 0..self.members.len() {
            self.write_blocks(slot, at, &bytes, "write the bitmap");
        }
        self.flush_members()
    }

    /// Removes all marks; everything is durable.
    pub(crate) fn clear_bitmap(&mut self) -> Result<(), Error> {
        if self.superblock.policy != Policy::Bitmap || self.bitmap.bits.iter().all(|b| *b == 0) {
            return Ok(());
        }
        self.bitmap.bits.fill(0);
        self.write_bitmap()?;
        self.settle()
    }

    /// Reads the newest bitmaps and joins their marks: one member may have failed to write the last.
    pub(crate) fn read_bitmap(&mut self) {
        let mut best = Bitmap::default();
        for member in self.members.iter().flatten() {
            for place in 0..2 {
                let mut bytes = vec![0; BLOCK];
                let read = member.read(JOURNAL + place, &mut bytes);
                if read.is_ok()
                    && let Some(found) = Bitmap::decode(&self.superblock.group, &bytes)
                    && found.generation > best.generation
                {
                    best = found;
                }
            }
        }
        self.bitmap = best;
    }
}
