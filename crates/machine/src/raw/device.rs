//! What a store of files needs of a device, and who offers it.
//!
//! Invariants: a write is complete or an error; after [`RawDevice::flush`] all writes that had returned survive a loss of power; a
//! failed flush is never retried.
//!
//! Must not depend on: files.

use std::io::{self, IoSlice, IoSliceMut};

use crate::block::BlockDevice;
use crate::sim::SimFile;

/// A device of blocks of 4 KiB. All positions and lengths are bytes of whole blocks.
pub trait RawDevice: Send + Sync {
    /// Bytes.
    fn size(&self) -> u64;

    /// Fills `buf` with the bytes from `at` on.
    ///
    /// # Errors
    /// Of the device.
    fn read(&self, buf: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes the slices one after another; together they are whole blocks.
    ///
    /// # Errors
    /// Of the device: then any part may be written.
    fn write(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()>;

    /// Makes all writes that have returned durable.
    ///
    /// # Errors
    /// Of the device.
    fn flush(&self) -> io::Result<()>;

    /// Tells the device that the content of a range does not matter, if it can be told.
    fn discard(&self, at: u64, len: u64);
}

impl RawDevice for BlockDevice {
    fn size(&self) -> u64 {
        BlockDevice::size(self)
    }

    fn read(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        self.read_slices_at(&mut [IoSliceMut::new(buf)], at)
    }

    fn write(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        self.write_slices_at(slices, at)
    }

    fn flush(&self) -> io::Result<()> {
        BlockDevice::flush(self)
    }

    fn discard(&self, at: u64, len: u64) {
        // It is a hint: the space is free whatever the device makes of it.
        let _ = BlockDevice::discard(self, at, len);
    }
}

/// A file of a simulated disk, which loses power as the disk does.
impl RawDevice for SimFile {
    fn size(&self) -> u64 {
        self.len()
    }

    fn read(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        self.read_at(buf, at)
    }

    fn write(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        // One write: a device keeps or loses whole sectors, wherever slices end.
        let bytes: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
        self.write_at(&bytes, at)
    }

    fn flush(&self) -> io::Result<()> {
        self.sync()
    }

    /// Afterwards it reads as anything.
    fn discard(&self, at: u64, len: u64) {
        let _ = self.write_at(&vec![0xdb; len as usize], at);
    }
}
