//! One device of a group: positioned reads and writes of whole blocks, and its superblock.
//!
//! Invariants: nothing is retried; a new superblock never overwrites the newest one.
//!
//! Must not depend on: parity, the state of the group.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use crate::Error;
use crate::directory;
use crate::geometry::BLOCK;
use crate::layout::{HEADS, JOURNAL, Layout, directory_place};
use crate::medium::Medium;
use crate::reference::Reference;
use crate::signature;
use crate::superblock::{self, Id, Superblock, Volume};

/// A device that is to become, or is, a member of a group.
pub struct Device {
    /// Its blocks.
    pub medium: Box<dyn Medium>,
    /// Its name, for messages: a path, or the address of a namespace.
    pub name: String,
}

/// A device with a superblock.
pub(crate) struct Member {
    medium: Arc<dyn Medium>,
    pub(crate) name: String,
    pub(crate) id: Id,
    /// Which of the two places holds its newest superblock.
    place: u64,
    /// The directory that this superblock says.
    directory: Option<Reference>,
    /// The epoch of its journal, and which of the two places of the head says so.
    pub(crate) epoch: u64,
    pub(crate) head_place: u64,
    /// Where its next journal entry goes, from the start of the journal.
    pub(crate) journal_at: u64,
    /// Entries in its journal since the epoch began.
    pub(crate) ordinal: u64,
    /// Written since the last flush.
    pub(crate) dirty: bool,
}

/// What a device says at its opening.
pub(crate) struct Found {
    pub(crate) member: Member,
    pub(crate) superblock: Superblock,
}

impl Member {
    /// Reads the superblock of a device.
    pub(crate) fn find(device: Device) -> Result<Found, Error> {
        let not = |why: String| Error::NoMember { device: device.name.clone(), why };
        let mut best: Option<(Superblock, Id, u64, Option<Reference>)> = None;
        let mut wrong = None;
        for place in 0..2 {
            let mut bytes = vec![0; superblock::LEN];
            if let Err(e) = device.medium.read_at(&mut bytes, place * superblock::LEN as u64) {
                return Err(not(e.to_string()));
            }
            let found = Superblock::decode_with(&bytes).and_then(|(mut found, id, directory)| {
                if let Some(reference) = &directory {
                    found.volumes = read_directory(&device, found.journal_blocks, reference)?;
                }
                Ok((found, id, directory))
            });
            match found {
                Ok((found, id, directory))
                    if best.as_ref().is_none_or(|(b, ..)| b.generation < found.generation) =>
                {
                    best = Some((found, id, place, directory));
                }
                Ok(_) => {}
                // A format that this release does not know is never written over.
                Err(e @ ashlar_format::Error::Version { .. }) => return Err(not(e.to_string())),
                Err(e) => wrong = Some(e),
            }
        }
        let Some((superblock, id, place, directory)) = best else {
            return Err(not(wrong.map_or_else(String::new, |e| e.to_string())));
        };
        let member = Member { directory, ..Member::new(device, id, place) };
        Ok(Found { member, superblock })
    }

    fn new(device: Device, id: Id, place: u64) -> Member {
        Member {
            medium: Arc::from(device.medium),
            name: device.name,
            id,
            place,
            directory: None,
            epoch: 0,
            head_place: 1,
            journal_at: 0,
            ordinal: 0,
            dirty: false,
        }
    }

    /// Blocks of a device, after a look at whether it holds something else.
    pub(crate) fn inspect(device: &Device, force: bool) -> Result<u64, Error> {
        let io = |op| move |e: io::Error| Error::Io { op, error: format!("{}: {e}", device.name) };
        let len = device.medium.size().map_err(io("ask for the size of a device"))?;
        if force {
            return Ok(len / BLOCK as u64);
        }
        let part = (signature::HEAD as u64).min(len) as usize;
        let (mut head, mut tail) = (vec![0; part], vec![0; part]);
        device.medium.read_at(&mut head, 0).map_err(io("look for signatures"))?;
        // Aligned: a superblock of md at the end is.
        let end = len / BLOCK as u64 * BLOCK as u64;
        device
            .medium
            .read_at(&mut tail, (len - part as u64).next_multiple_of(BLOCK as u64).min(end))
            .or_else(|e| if e.kind() == io::ErrorKind::UnexpectedEof { Ok(()) } else { Err(e) })
            .map_err(io("look for signatures"))?;
        match signature::find(&head, &tail) {
            Some(found) => Err(Error::Signature { device: device.name.clone(), found }),
            None => Ok(len / BLOCK as u64),
        }
    }

    /// Makes a device an empty member without a superblock in force: no journal, no checksums. The caller writes the
    /// superblock last.
    pub(crate) fn format(device: Device, id: Id, layout: &Layout) -> io::Result<Member> {
        let mut member = Member::new(device, id, 1);
        // First of all what would make it a member of another group.
        member.zero(0, JOURNAL + layout.journal_blocks.min(2))?;
        member.zero(layout.page(0, 0), 2 * layout.pages)?;
        member.flush()?;
        Ok(member)
    }

    fn zero(&mut self, at: u64, blocks: u64) -> io::Result<()> {
        self.dirty = true;
        if self.medium.zero(at * BLOCK as u64, blocks * BLOCK as u64)? {
            return Ok(());
        }
        let zeros = vec![0; 64 * BLOCK];
        let mut done = 0;
        while done < blocks {
            let n = (blocks - done).min(64);
            self.write(at + done, &zeros[..n as usize * BLOCK])?;
            done += n;
        }
        Ok(())
    }

    /// What it is made of.
    pub(crate) fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    /// What it fails with.
    pub(crate) fn domain(&self) -> Option<String> {
        self.medium.domain()
    }

    /// Why it does not answer any more, if that is known.
    pub(crate) fn gone(&self) -> Option<String> {
        self.medium.gone()
    }

    /// Reads whole blocks.
    pub(crate) fn read(&self, block: u64, out: &mut [u8]) -> io::Result<()> {
        self.medium.read_at(out, block * BLOCK as u64)
    }

    /// Reads whole blocks one after another.
    pub(crate) fn read_slices(&self, block: u64, slices: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        self.medium.read_slices_at(slices, block * BLOCK as u64)
    }

    /// Writes whole blocks one after another, of a member that several threads write to at once: whoever owns it has marked
    /// it with [`Member::mark`].
    pub(crate) fn write_marked(&self, block: u64, slices: &[&[u8]]) -> io::Result<()> {
        assert!(self.dirty, "a member that is written is flushed");
        let mut all: Vec<IoSlice<'_>> = slices.iter().map(|s| IoSlice::new(s)).collect();
        self.medium.write_slices_at(&mut all, block * BLOCK as u64)
    }

    /// Makes the next flush flush.
    pub(crate) fn mark(&mut self) {
        self.dirty = true;
    }

    /// Writes whole blocks.
    pub(crate) fn write(&mut self, block: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(bytes.len().is_multiple_of(BLOCK));
        self.dirty = true;
        self.medium.write_slices_at(&mut [IoSlice::new(bytes)], block * BLOCK as u64)
    }

    /// Gives back the space of blocks whose content no longer matters. A device that cannot keeps them.
    pub(crate) fn discard(&mut self, block: u64, blocks: u64) -> io::Result<()> {
        self.medium.discard(block * BLOCK as u64, blocks * BLOCK as u64)
    }

    /// Makes everything written durable. Not to be called again after an error.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.dirty {
            self.medium.flush()?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Writes and flushes the superblock, and the directory before it, if there is one and it is another one.
    pub(crate) fn put_superblock(&mut self, superblock: &Superblock) -> io::Result<()> {
        let directory = superblock.directory.then(|| directory::encode(&superblock.volumes));
        let directory = directory.map(|bytes| self.put_directory(superblock, bytes)).transpose()?;
        let bytes = superblock.encode_with(&self.id, directory.as_ref());
        let place = 1 - self.place;
        self.write(place * superblock::LEN as u64 / BLOCK as u64, &bytes)?;
        self.flush()?;
        (self.place, self.directory) = (place, directory);
        Ok(())
    }

    /// Writes and flushes a directory, where the one in force is not.
    fn put_directory(&mut self, superblock: &Superblock, mut bytes: Vec<u8>) -> io::Result<Reference> {
        let here = self.directory.map_or(1, |directory| directory.place);
        let new = Reference::to(1 - here, &bytes);
        if let Some(same) = self.directory.filter(|d| (d.len, d.hash) == (new.len, new.hash)) {
            return Ok(same);
        }
        let at = directory_place(superblock.journal_blocks, new.place);
        let at = at.ok_or_else(|| io::Error::other("the area of the journal has no directory"))?;
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        self.write(at, &bytes)?;
        self.flush()?;
        Ok(new)
    }

    /// Removes both superblocks.
    pub(crate) fn wipe(&mut self) -> io::Result<()> {
        self.zero(0, HEADS)?;
        self.flush()
    }
}

/// The virtual drives in a directory.
fn read_directory(
    device: &Device,
    journal_area: u64,
    reference: &Reference,
) -> Result<Vec<Volume>, ashlar_format::Error> {
    let damaged = ashlar_format::Error::Malformed("directory");
    let at = directory_place(journal_area, reference.place).and_then(|at| at.checked_mul(BLOCK as u64));
    let mut bytes = vec![0; (reference.len as usize).next_multiple_of(BLOCK)];
    match at.map(|at| device.medium.read_at(&mut bytes, at)) {
        Some(Ok(())) => directory::read(reference, &bytes),
        _ => Err(damaged),
    }
}
