//! The areas of a member. **Part of the on-drive format** (docs/array.md, "Format").
//!
//! In blocks of 4 KiB: two places of the superblock (0..4, 4..8) · two journal heads (8, 9) · unused · the journal
//! (16..), at whose end two places of the directory may be · two copies of the checksum pages · the data area, at a multiple of 16 blocks. Under the policies without
//! a journal, its first two blocks hold the bitmap.
//!
//! Must not depend on: devices, what the areas hold.

use crate::Error;
use crate::geometry::BLOCK;

/// Checksums in a page of them.
pub(crate) const PER_PAGE: u64 = 510;
/// Where the journal heads are.
pub(crate) const HEADS: u64 = 8;
/// Where the journal begins.
pub(crate) const JOURNAL: u64 = 16;
/// Blocks of the shortest journal: the largest entry must fit several times.
pub(crate) const MIN_JOURNAL: u64 = 256;

/// Blocks of each of the two places of the directory, at the end of the area of the journal.
pub(crate) const DIRECTORY: u64 = 32;
/// Blocks of both.
pub(crate) const DIRECTORIES: u64 = 2 * DIRECTORY;

/// The first block of a place of the directory, in an area of a journal of so many blocks.
pub(crate) fn directory_place(journal_area: u64, place: u8) -> Option<u64> {
    Some(JOURNAL + journal_area.checked_sub(DIRECTORIES)? + u64::from(place) * DIRECTORY)
}

/// The areas of a member, all in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) journal_blocks: u64,
    /// Blocks behind the journal that the directories have.
    pub(crate) directory_blocks: u64,
    /// Pages of each copy of the checksums.
    pub(crate) pages: u64,
    pub(crate) data_start: u64,
    pub(crate) data_blocks: u64,
}

impl Layout {
    /// Divides a device of `blocks` blocks.
    pub(crate) fn divide(blocks: u64, journal_blocks: u64) -> Result<Layout, Error> {
        let small = || {
            Error::Layout(format!(
                "a member of {} bytes is too small for a journal of {} bytes and data",
                blocks.saturating_mul(BLOCK as u64),
                journal_blocks.saturating_mul(BLOCK as u64)
            ))
        };
        if journal_blocks < MIN_JOURNAL {
            return Err(Error::Layout(format!("a journal has at least {} KiB", MIN_JOURNAL * 4)));
        }
        let rest = blocks.checked_sub(JOURNAL + journal_blocks).ok_or_else(small)?;
        // Enough pages for all of the rest: a few more than for the data area alone.
        let data_start = (JOURNAL + journal_blocks + 2 * rest.div_ceil(PER_PAGE)).next_multiple_of(16);
        // As an opened group computes it: up to the start of the data.
        let pages = (data_start - JOURNAL - journal_blocks) / 2;
        let data_blocks = blocks.checked_sub(data_start).filter(|b| *b > 0).ok_or_else(small)?;
        Ok(Layout { journal_blocks, directory_blocks: 0, pages, data_start, data_blocks })
    }

    /// The areas of an existing group: `journal_area` blocks for the journal, the end of which the directories may have, and `rows` blocks of data
    /// from `data_start`.
    pub(crate) fn existing(journal_area: u64, directory: bool, data_start: u64, rows: u64) -> Option<Layout> {
        let before = JOURNAL.checked_add(journal_area)?;
        let pages = data_start.checked_sub(before)? / 2;
        let directory_blocks = if directory { DIRECTORIES } else { 0 };
        let journal_blocks = journal_area.checked_sub(directory_blocks)?;
        if pages.checked_mul(PER_PAGE)? < rows || journal_blocks < MIN_JOURNAL {
            return None;
        }
        Some(Layout { journal_blocks, directory_blocks, pages, data_start, data_blocks: rows })
    }

    /// The block of a page of checksums; `copy` is 0 or 1.
    pub(crate) fn page(&self, page: u64, copy: u64) -> u64 {
        JOURNAL + self.journal_blocks + self.directory_blocks + copy * self.pages + page
    }
}
