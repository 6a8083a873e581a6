//! Virtual drives: parts of the address space of a group, with names.
//!
//! Invariants: virtual drives do not overlap; each begins at a multiple of 256 blocks (1 MiB). Space that none has reads as zeros: what was in a deleted one, or behind the end of one that was made smaller, is zeroed before
//! the superblocks give it up.
//!
//! Must not depend on: exports.

use crate::Error;
use crate::directory;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::layout::{DIRECTORIES, MIN_JOURNAL};
use crate::superblock::{self, MAX_NAME, MAX_VOLUMES, Volume, VolumeLimits};

/// What a new virtual drive is to be.
#[derive(Clone, Default, Debug)]
pub struct NewVolume {
    /// Its name.
    pub name: String,
    /// Its bytes, rounded up to blocks; none: all that is free in one piece.
    pub bytes: Option<u64>,
    /// What its clients get at most.
    pub limits: VolumeLimits,
    /// It gets room when it is first written, and not now.
    pub thin: bool,
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
    /// [`Error::State`] if the name is taken or unsuitable, there is no such space, or a thin one has no size.
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
        self.room_is_known()?;
        let gaps = self.gaps();
        let largest = gaps.iter().map(|(_, len)| *len).max().unwrap_or(0);
        let thin = match (new.thin, bytes) {
            (false, _) => None,
            (true, Some(bytes)) => Some(self.map_for(bytes.div_ceil(BLOCK as u64))?),
            (true, None) => return Err(Error::State("a thin virtual drive needs a size".into())),
        };
        let blocks = bytes.map_or(largest, |b| b.div_ceil(BLOCK as u64));
        let extent = thin.map_or(blocks, |map| map.blocks.into());
        let start = gaps.iter().find(|(_, len)| *len >= extent).map(|(start, _)| *start);
        let Some(start) = start.filter(|_| blocks > 0) else {
            let what = if thin.is_some() { " for its map" } else { "" };
            return Err(Error::State(format!(
                "there is no free piece of {} bytes{what} in the group; the largest has {}",
                extent * BLOCK as u64,
                largest * BLOCK as u64
            )));
        };
        let volume = Volume { name: name.to_owned(), start, blocks, thin, limits: new.limits };
        let mut volumes = self.superblock.volumes.clone();
        volumes.push(volume.clone());
        self.add_map(&volume);
        self.set_volumes(volumes)?;
        Ok(volume)
    }

    /// Makes the superblocks say which virtual drives there are.
    pub(crate) fn set_volumes(&mut self, volumes: Vec<Volume>) -> Result<(), Error> {
        if !directory::fits(&volumes) {
            return Err(Error::State(
                "the names and properties of the virtual drives are too long together".into(),
            ));
        }
        if !self.superblock.directory && !superblock::fit(&volumes) {
            self.begin_directory()?;
        }
        self.superblock.volumes = volumes;
        self.unsettled = true;
        let done = self.settle();
        self.refresh_room();
        done
    }

    /// Keeps the virtual drives in a directory from the next superblock on. No batch is under way.
    ///
    /// # Errors
    /// [`Error::State`] if the journals are too short to give room for it; [`Error::Failed`].
    fn begin_directory(&mut self) -> Result<(), Error> {
        let left =
            self.layout.journal_blocks.checked_sub(DIRECTORIES).filter(|blocks| *blocks >= MIN_JOURNAL);
        let Some(left) = left else {
            return Err(Error::State(format!(
                "the superblock has no room for more virtual drives, and the journals of this group are too short to keep them: \
                 a group whose journals have {} KiB and more can have {MAX_VOLUMES}",
                ((MIN_JOURNAL + DIRECTORIES) * BLOCK as u64) >> 10
            )));
        };
        // What the journals have is in place, so nothing is in the blocks that they lose.
        self.checkpoint()?;
        self.layout.journal_blocks = left;
        self.layout.directory_blocks = DIRECTORIES;
        self.superblock.directory = true;
        Ok(())
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
        let Volume { start, blocks: before, thin, .. } = volumes[at];
        let (most, end) = match thin {
            Some(map) => (self.most_of(map), "its map has no room for more".to_owned()),
            None => {
                self.room_is_known()?;
                let behind = self.taken().into_iter().map(|(start, _)| start).filter(|s| *s > start).min();
                let named = volumes.iter().find(|v| Some(v.start) == behind).map(|v| format!("{:?}", v.name));
                let what = match behind {
                    None => "the end of the group".to_owned(),
                    Some(_) => named.unwrap_or_else(|| "room of a thin virtual drive".to_owned()),
                };
                (behind.unwrap_or(self.geometry().blocks()) - start, format!("{what} is behind it"))
            }
        };
        let blocks = match (bytes, thin) {
            (Some(bytes), _) => bytes.div_ceil(BLOCK as u64),
            (None, None) => most,
            (None, Some(_)) => {
                return Err(Error::State("a thin virtual drive grows to a size that is named".into()));
            }
        };
        if blocks < before {
            return Err(Error::State(format!(
                "the virtual drive {name:?} has {} bytes already; it can be made smaller",
                before * BLOCK as u64
            )));
        }
        if blocks > most {
            return Err(Error::State(format!(
                "the virtual drive {name:?} can have {} bytes at most: {end}",
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
        let position = self.volume_position(name)?;
        let Volume { start, blocks: before, .. } = self.superblock.volumes[position];
        let blocks = bytes.div_ceil(BLOCK as u64);
        if blocks == 0 || blocks > before {
            return Err(Error::State(format!(
                "the virtual drive {name:?} has {} bytes; it can be made smaller than that, but not empty",
                before * BLOCK as u64
            )));
        }
        if blocks < before {
            // First the content: a crash between leaves the old size with zeros at its end.
            let (at, len) = (blocks * BLOCK as u64, (before - blocks) * BLOCK as u64);
            if self.superblock.volumes[position].thin.is_some() {
                let volume = self.superblock.volumes[position].clone();
                self.clear_thin(&volume, at, len)?;
            } else {
                self.zero(start * BLOCK as u64 + at, len)?;
            }
            self.flush()?;
            let mut volumes = self.superblock.volumes.clone();
            volumes[position].blocks = blocks;
            self.set_volumes(volumes)?;
        }
        Ok(self.superblock.volumes[position].clone())
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
        match volume.thin {
            Some(thin) => self.empty_thin(&volume, thin)?,
            None => {
                self.zero(volume.start * BLOCK as u64, volume.blocks * BLOCK as u64)?;
                self.flush()?;
            }
        }
        let mut volumes = self.superblock.volumes.clone();
        volumes.remove(at);
        self.set_volumes(volumes)
    }

    /// Free room: first block and blocks.
    fn gaps(&self) -> Vec<(u64, u64)> {
        self.between(self.taken())
    }
}
