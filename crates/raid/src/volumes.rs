//! Virtual drives: parts of the address space of a group, with names.
//!
//! Invariants: virtual drives do not overlap; each begins at a multiple of 256 blocks; their number is bounded by the
//! superblock. Space that none has reads as zeros: what was in a deleted one, or behind the end of one that was made smaller, is zeroed before
//! the superblocks give it up.
//!
//! Must not depend on: exports.

use crate::Error;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::superblock::{self, MAX_NAME, MAX_VOLUMES, Volume, VolumeLimits};

/// Blocks that the start of a virtual drive is a multiple of: 1 MiB.
const ALIGN: u64 = 256;

/// What a new virtual drive is to be.
#[derive(Clone, Default, Debug)]
pub struct NewVolume {
    /// Its name.
    pub name: String,
    /// Its bytes, rounded up to blocks; none: all that is free in one piece.
    pub bytes: Option<u64>,
    /// What its clients get at most.
    pub limits: VolumeLimits,
}

impl Group {
    /// Makes a virtual drive of `bytes` bytes, rounded up to blocks; none: all that is free in one piece.
    ///
    /// # Errors
    /// As [`Group::make_volume`].
    pub fn create_volume(&mut self, name: &str, bytes: Option<u64>) -> Result<Volume, Error> {
        self.make_volume(&NewVolume { name: name.to_owned(), bytes, ..NewVolume::default() })
    }

    /// Makes a virtual drive.
    ///
    /// # Errors
    /// [`Error::State`] if the name is taken or unsuitable, or there is no such space.
    pub fn make_volume(&mut self, new: &NewVolume) -> Result<Volume, Error> {
        self.running()?;
        let (name, bytes) = (&new.name[..], new.bytes);
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
        let volume = Volume { name: name.to_owned(), start, blocks, limits: new.limits };
        let mut volumes = self.superblock.volumes.clone();
        volumes.push(volume.clone());
        self.set_volumes(volumes)?;
        Ok(volume)
    }

    /// Makes the superblocks say which virtual drives there are.
    fn set_volumes(&mut self, volumes: Vec<Volume>) -> Result<(), Error> {
        if !superblock::fit(&volumes) {
            return Err(Error::State(
                "the superblock has no room for this: the names and properties of its virtual drives are too long together".into(),
            ));
        }
        self.superblock.volumes = volumes;
        self.unsettled = true;
        self.settle()
    }

    /// Sets what the clients of a virtual drive get at most.
    ///
    /// # Errors
    /// [`Error::State`] if there is none of that name.
    pub fn limit_volume(&mut self, name: &str, limits: VolumeLimits) -> Result<Volume, Error> {
        self.running()?;
        let at = self.volume_position(name)?;
        let mut volumes = self.superblock.volumes.clone();
        if volumes[at].limits != limits {
            volumes[at].limits = limits;
            self.set_volumes(volumes)?;
        }
        Ok(self.superblock.volumes[at].clone())
    }

    fn volume_position(&self, name: &str) -> Result<usize, Error> {
        let at = self.superblock.volumes.iter().position(|v| v.name == name);
        at.ok_or_else(|| Error::State(format!("there is no virtual drive {name:?}")))
    }

    /// Makes a virtual drive larger where it is: to `bytes` bytes in all, rounded up to blocks; none: all that is free behind it. Its content
    /// stays; the rest reads as zeros. One that has the size already stays as it is.
    ///
    /// # Errors
    /// [`Error::State`] if there is none of that name, it is larger already, or there is less room behind it.
    pub fn grow_volume(&mut self, name: &str, bytes: Option<u64>) -> Result<Volume, Error> {
        self.running()?;
        let at = self.volume_position(name)?;
        let volumes = &self.superblock.volumes;
        let Volume { start, blocks: before, .. } = volumes[at];
        let behind = volumes.iter().filter(|v| v.start > start).min_by_key(|v| v.start);
        let most = behind.map_or(self.geometry().blocks(), |v| v.start) - start;
        let blocks = bytes.map_or(most, |b| b.div_ceil(BLOCK as u64));
        if blocks < before {
            return Err(Error::State(format!(
                "the virtual drive {name:?} has {} bytes already; it can be made smaller",
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
            let mut volumes = self.superblock.volumes.clone();
            volumes[at].blocks = blocks;
            self.set_volumes(volumes)?;
        }
        Ok(self.superblock.volumes[at].clone())
    }

    /// Makes a virtual drive smaller: `bytes` bytes are left, rounded up to blocks. What was behind them is lost, and its space free.
    /// One that has the size already stays as it is.
    ///
    /// # Errors
    /// [`Error::State`] if there is none of that name, it is smaller already, or nothing would be left.
    pub fn shrink_volume(&mut self, name: &str, bytes: u64) -> Result<Volume, Error> {
        self.running()?;
        let at = self.volume_position(name)?;
        let Volume { start, blocks: before, .. } = self.superblock.volumes[at];
        let blocks = bytes.div_ceil(BLOCK as u64);
        if blocks == 0 || blocks > before {
            return Err(Error::State(format!(
                "the virtual drive {name:?} has {} bytes; it can be made smaller than that, but not empty",
                before * BLOCK as u64
            )));
        }
        if blocks < before {
            // First the content: a crash between leaves the old size with zeros at its end.
            self.zero((start + blocks) * BLOCK as u64, (before - blocks) * BLOCK as u64)?;
            self.flush()?;
            let mut volumes = self.superblock.volumes.clone();
            volumes[at].blocks = blocks;
            self.set_volumes(volumes)?;
        }
        Ok(self.superblock.volumes[at].clone())
    }

    /// Removes a virtual drive and what it holds.
    ///
    /// # Errors
    /// [`Error::State`] if there is none of that name.
    pub fn delete_volume(&mut self, name: &str) -> Result<(), Error> {
        self.running()?;
        let at = self.volume_position(name)?;
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
