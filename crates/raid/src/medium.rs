//! What keeps the blocks of a member: a file, a block device, or whatever implements [`Medium`].
//!
//! Must not depend on: groups, what a medium is made of beside files and block devices.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use ashlar_machine::{BlockDevice, DiskFile};

/// What a medium can be asked without waiting for it.
#[derive(Clone, Debug)]
pub enum Command<'a> {
    /// As [`Medium::read_at`].
    Read {
        /// First byte.
        at: u64,
        /// Bytes.
        len: usize,
    },
    /// As [`Medium::write_slices_at`].
    Write {
        /// First byte.
        at: u64,
        /// What is written, one part after the other.
        data: Vec<&'a [u8]>,
    },
    /// As [`Medium::flush`].
    Flush,
}

/// A command that is under way. Whoever drops it waits for its end, and hears nothing of it.
pub trait Pending: Send {
    /// Waits for its end; the data of a read.
    ///
    /// # Errors
    /// Those of the function that waits.
    fn wait(self: Box<Self>) -> io::Result<Vec<u8>>;
}

/// Storage of one member: positioned reads and writes of whole blocks of 4 KiB, and an end.
///
/// A call that fails is not repeated by the group, which takes the member out of service. So an implementation that can lose
/// and get back its connection repeats what is safe to repeat before it returns an error, and bounds the time of that.
pub trait Medium: Send + Sync {
    /// Bytes. They do not change.
    ///
    /// # Errors
    /// Errors of the medium.
    fn size(&self) -> io::Result<u64>;

    /// Fills `out` with the bytes at `at`.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the end; errors of the medium.
    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()>;

    /// Fills the slices one after another with the bytes from `at` on. The slices may be changed.
    ///
    /// A medium that does not implement it reads into memory of its own first.
    ///
    /// # Errors
    /// Like [`Medium::read_at`].
    fn read_slices_at(&self, slices: &mut [IoSliceMut<'_>], at: u64) -> io::Result<()> {
        let mut all = vec![0; slices.iter().map(|slice| slice.len()).sum()];
        self.read_at(&mut all, at)?;
        let mut rest = &all[..];
        for slice in slices {
            let (mine, others) = rest.split_at(slice.len());
            slice.copy_from_slice(mine);
            rest = others;
        }
        Ok(())
    }

    /// Writes bytes one slice after another, from `at` on. The slices may be changed.
    ///
    /// # Errors
    /// Errors of the medium; then any part may be written.
    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()>;

    /// Makes all writes that have returned durable.
    ///
    /// # Errors
    /// Errors of the medium: a write that has returned may be lost.
    fn flush(&self) -> io::Result<()>;

    /// The content of a range does not matter any more. A medium that has no use for that does nothing.
    ///
    /// # Errors
    /// Errors of the medium.
    fn discard(&self, at: u64, len: u64) -> io::Result<()>;

    /// Makes a range read as zeros without writing them. False: it cannot, and the range may have any content.
    ///
    /// # Errors
    /// Errors of the medium.
    fn zero(&self, at: u64, len: u64) -> io::Result<bool> {
        let _ = (at, len);
        Ok(false)
    }

    /// The name of what fails as a whole and takes this medium along, for instance the drive that a namespace is a part of. None: nothing
    /// is known that it shares with others.
    fn domain(&self) -> Option<String> {
        None
    }

    /// Begins a command without waiting for it. None: it cannot now, or never does; the functions that wait can. Whoever has commands
    /// under way waits for all of them before anything else is asked of their media.
    fn submit(&self, command: &Command<'_>) -> Option<Box<dyn Pending>> {
        let _ = command;
        None
    }

    /// Whether a request to it mostly waits for something else than the processors of this machine, so that it is worth to ask it at the same
    /// time as others: with [`Medium::submit`], and where that does not do it, on a thread.
    fn waits(&self) -> bool {
        false
    }

    /// Whether a block of 4 KiB, aligned, has after a power cut either its old or its new content, never a part of both. Only then are
    /// whole rows written once ([`crate::once`]).
    fn is_atomic(&self) -> bool {
        false
    }

    /// Why every request to it would fail now, if that is known without asking it. The group then takes the member out of service without
    /// waiting for a request.
    fn gone(&self) -> Option<String> {
        None
    }
}

impl Medium for DiskFile {
    fn size(&self) -> io::Result<u64> {
        self.len()
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        DiskFile::read_at(self, out, at)
    }

    fn read_slices_at(&self, slices: &mut [IoSliceMut<'_>], at: u64) -> io::Result<()> {
        DiskFile::read_slices_at(self, slices, at)
    }

    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        DiskFile::write_slices_at(self, slices, at)
    }

    fn flush(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        self.punch_hole(at, len).map(drop)
    }

    fn is_atomic(&self) -> bool {
        DiskFile::is_atomic(self)
    }
}

/// Shared with whoever has claimed the device: it stays the same one as long as that lasts.
impl Medium for Arc<BlockDevice> {
    fn size(&self) -> io::Result<u64> {
        Ok(BlockDevice::size(self))
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        BlockDevice::read_slices_at(self, &mut [IoSliceMut::new(out)], at)
    }

    fn read_slices_at(&self, slices: &mut [IoSliceMut<'_>], at: u64) -> io::Result<()> {
        BlockDevice::read_slices_at(self, slices, at)
    }

    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        BlockDevice::write_slices_at(self, slices, at)
    }

    fn flush(&self) -> io::Result<()> {
        BlockDevice::flush(self)
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        BlockDevice::discard(self, at, len).map(drop)
    }

    fn zero(&self, at: u64, len: u64) -> io::Result<bool> {
        BlockDevice::zero(self, at, len)
    }

    fn domain(&self) -> Option<String> {
        BlockDevice::domain(self).map(str::to_owned)
    }

    /// All its requests are direct.
    fn waits(&self) -> bool {
        true
    }

    fn is_atomic(&self) -> bool {
        BlockDevice::is_atomic(self)
    }

    fn gone(&self) -> Option<String> {
        BlockDevice::gone(self)
    }
}
