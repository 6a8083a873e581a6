//! Virtual drives: parts of the address space of a group, with names.
//!
//! Invariants: virtual drives do not overlap; each begins at a multiple of 256 blocks; their number is bounded by the
//! superblock. What was in a deleted one reads as zeros in the next, and in one that grows into its place.
//!
//! Must not depend on: exports.

use crate::Error;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::superblock::{MAX_NAME, MAX_VOLUMES, Volume};

/// Blocks that the start of a virtual drive is a multiple of: 1 MiB.
const ALIGN: u64 = 256;

impl Group {
    /// Makes a virtual drive of `bytes` bytes, rounded up to blocks; none: all that is free in one piece.
    ///
    /// # Errors
    /// [`Error::State`] if the name is taken or unsuitable, or there is no such space.
    pub fn create_volume(&mut self, name: &str, bytes: Option<u64>) -> Result<Volume, Error> {
        self.running()?;
        let suitable = !name.is_empty()
            && name.len() <= MAX_NAME
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !suitable {
            return Err(Error::State(format!(
                "{name:?} is no name of a virtual drive: it has 1 to {MAX_NAME} letters, digits, '-', '_', '.'"
            )));
        }
        if self.superblock.volumes.iter().any(|v| v.name == name) {
            return Err(Error::State(format!("there is a virtual drive {name:?} already")));
        }
        if self.superblock.volumes.len() >= MAX_VOLUMES {
            return Err(Error::State(format!("a group has at most {MAX_VOLUMES} virtual drives")));
        }
        let gaps = self.gaps();
        let largest = gaps.iter().map(|(_, len)| *len).max().unwrap_or(0);
        let blocks = bytes.map_or(largest, |b| b.div_ceil(BLOCK as u64));
        let start = gaps.iter().find(|(_, len)| *len >= blocks).map(|(start, _)| *start);
        let Some(start) = start.filter(|_| blocks > 0) else {
            return Err(Error::State(format!(
                "there is no free piece of {} bytes in the group; the largest has {}",
                blocks * BLOCK as u64,
                largest * BLOCK as u64
            )));
        };
        let volume = Volume { name: name.to_owned(), start, blocks };
        self.superblock.volumes.push(volume.clone());
        self.unsettled = true;
        self.settle()?;
        Ok(volume)
    }

    /// Makes a virtual drive larger where it is: to `bytes` bytes in all, rounded up to blocks; none: all that is free behind it. Its content
    /// stays; the rest reads as zeros. One that has the size already stays as it is.
    ///
    /// # Errors
    /// [`Error::State`] if there is none of that name, it is larger already, or there is less room behind it.
    pub fn grow_volume(&mut self, name: &str, bytes: Option<u64>) -> Result<Volume, Error> {
        self.running()?;
        let volumes = &self.superblock.volumes;
        let Some(at) = volumes.iter().position(|v| v.name == name) else {
            return Err(Error::State(format!("there is no virtual drive {name:?}")));
        };
        let Volume { start, blocks: before, .. } = volumes[at];
        let behind = volumes.iter().filter(|v| v.start > start).min_by_key(|v| v.start);
        let most = behind.map_or(self.geometry().blocks(), |v| v.start) - start;
        let blocks = bytes.map_or(most, |b| b.div_ceil(BLOCK as u64));
        if blocks < before {
            return Err(Error::State(format!(
                "the virtual drive {name:?} has {} bytes, and cannot become smaller",
                before * BLOCK as u64
            )));
        }
        if blocks > most {
            let end = behind.map_or("the end of the group".to_owned(), |v| format!("{:?}", v.name));
            return Err(Error::State(format!(
                "the virtual drive {name:?} can have {} bytes at most: {end} is behind it",
                most * BLOCK as u64
            )));
        }
        if blocks > before {
            self.superblock.volumes[at].blocks = blocks;
            self.unsettled = true;
            self.settle()?;
        }
        Ok(self.superblock.volumes[at].clone())
    }

    /// Removes a virtual drive and what it holds.
    ///
    /// # Errors
    /// [`Error::State`] if there is none of that name.
    pub fn delete_volume(&mut self, name: &str) -> Result<(), Error> {
        self.running()?;
        let Some(at) = self.superblock.volumes.iter().position(|v| v.name == name) else {
            return Err(Error::State(format!("there is no virtual drive {name:?}")));
        };
        let volume = self.superblock.volumes[at].clone();
        // First the content: a crash between leaves an empty drive, not a new one with old content.
        self.zero(volume.start * BLOCK as u64, volume.blocks * BLOCK as u64)?;
        self.flush()?;
        self.superblock.volumes.remove(at);
        self.unsettled = true;
        self.settle()
    }

    /// Free pieces: first block and blocks.
    fn gaps(&self) -> Vec<(u64, u64)> {
        let mut volumes: Vec<(u64, u64)> =
            self.superblock.volumes.iter().map(|v| (v.start, v.start + v.blocks)).collect();
        volumes.sort_unstable();
        volumes.push((self.geometry().blocks(), 0));
        let mut free = 0u64;
        let mut out = Vec::new();
        for (start, end) in volumes {
            if start > free {
                out.push((free, start - free));
            }
            free = free.max(end.next_multiple_of(ALIGN));
        }
        out
    }
}
