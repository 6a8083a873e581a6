//! Positioned file I/O: direct where the file system supports it, with injected faults.
//!
//! Invariants: a write is complete or an error (short writes are continued, never ignored); a failed sync is
//! never retried; the non-blocking read either returns all bytes from memory or reports that it cannot. Must
//! not depend on: the meaning of the bytes.

use crate::dir::{Purpose, RealDir};
use crate::faults::{Faults, Operation};
use crate::raw::RawFile;
use crate::sim::SimFile;
use crate::space::is_memory;
use crate::watch::{Call, Held, Watch};
use crate::whole::{read_full, write_full};
use rustix::fs::{FallocateFlags, OFlags};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::{Arc, OnceLock};

/// A file with positioned reads and writes.
///
/// Opened twice when direct I/O works: once direct for writing and large reads, once buffered for
/// small reads, which then come from the page cache. The kernel invalidates cached pages under a
/// direct write.
pub struct DiskFile {
    medium: Medium,
    faults: Option<Arc<Faults>>,
    watch: Option<Arc<Watch>>,
}

enum Medium {
    Real {
        buffered: File,
        direct: Option<File>,
        /// On a memory file system: reading never waits for a device.
        memory: bool,
        /// What [`DiskFile::is_atomic`] found.
        atomic: OnceLock<bool>,
    },
    Simulated(SimFile),
    /// On a block device.
    Raw(RawFile),
}

impl DiskFile {
    /// Opens (or makes) a file of a folder. Direct I/O is used when asked for and the file system has it.
    ///
    /// # Errors
    /// Errors of `open`; `InvalidInput` if it is not a regular file.
    pub(crate) fn open(
        folder: &RealDir,
        name: &str,
        purpose: Purpose,
        direct: bool,
        faults: Option<Arc<Faults>>,
    ) -> io::Result<DiskFile> {
        let buffered = folder.file(name, purpose, OFlags::empty())?;
        let memory = is_memory(rustix::fs::fstatfs(&buffered)?.f_type);
        let direct = if direct && !memory {
            // EINVAL: the file system has no direct I/O.
            let again = folder.file(name, Purpose::ReadWrite, OFlags::DIRECT).ok();
            let inode = |f: &File| rustix::fs::fstat(f).map(|s| (s.st_dev, s.st_ino)).ok();
            // Another file may have that name by now.
            again.filter(|f| inode(f) == inode(&buffered))
        } else {
            None
        };
        Ok(DiskFile {
            medium: Medium::Real { buffered, direct, memory, atomic: OnceLock::new() },
            faults,
            watch: None,
        })
    }

    pub(crate) fn simulated(file: SimFile, faults: Option<Arc<Faults>>) -> DiskFile {
        DiskFile { medium: Medium::Simulated(file), faults, watch: None }
    }

    pub(crate) fn raw(file: RawFile, faults: Option<Arc<Faults>>) -> DiskFile {
        DiskFile { medium: Medium::Raw(file), faults, watch: None }
    }

    /// Records calls in a monitor from now on.
    pub(crate) fn watched(self, watch: &Option<Arc<Watch>>) -> DiskFile {
        DiskFile { watch: watch.clone(), ..self }
    }

    /// Records a call until the result is dropped.
    fn call(&self) -> Option<Call<'_>> {
        self.watch.as_deref().map(Watch::call)
    }

    /// The descriptor for calls of a [`crate::Ring`]; `None` if it must not be used: without direct I/O, and while faults are injected,
    /// which are those of the functions below.
    pub(crate) fn ring_descriptor(&self) -> Option<RawFd> {
        match &self.medium {
            Medium::Real { direct: Some(f), .. } if !self.faults.as_ref().is_some_and(|f| f.is_armed()) => {
                Some(f.as_raw_fd())
            }
            _ => None,
        }
    }

    /// Records a call of a [`crate::Ring`] until the result is dropped.
    ///
    /// # Errors
    /// Too many are recorded.
    pub(crate) fn hold(&self) -> Result<Option<Held>, ()> {
        self.watch.as_ref().map(|w| w.hold().ok_or(())).transpose()
    }

    /// True when writes bypass the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        matches!(self.medium, Medium::Real { direct: Some(_), .. } | Medium::Raw(_))
    }

    /// Whether an aligned block of 4 KiB that is being written has after a power cut, or the end of this process, either its old or its new
    /// content. So it is in memory, which a power cut leaves nothing of, and on devices with blocks of that size. Of other file systems, such
    /// as those of a network, nothing is known.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        let Medium::Real { buffered, memory, atomic, .. } = &self.medium else { return false };
        let blocks = || {
            Some(
                crate::block::facts(rustix::fs::fstat(buffered).ok()?.st_dev)?.block_bytes()?
                    >= crate::ALIGN as u64,
            )
        };
        *atomic.get_or_init(|| *memory || blocks().unwrap_or(false))
    }

    /// Length in bytes.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn len(&self) -> io::Result<u64> {
        match &self.medium {
            Medium::Real { buffered, .. } => Ok(buffered.metadata()?.len()),
            Medium::Simulated(f) => Ok(f.len()),
            Medium::Raw(f) => Ok(f.len()),
        }
    }

    /// True when the file has no bytes.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    fn check(&self, on: Operation) -> io::Result<crate::faults::Verdict> {
        match &self.faults {
            None => Ok(Default::default()),
            Some(f) => f.check(on),
        }
    }

    /// Reads exactly `buf.len()` bytes at `at`, through the page cache.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file is shorter, otherwise the error of `pread`.
    pub fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        let _call = self.call();
        let v = self.check(Operation::Read)?;
        match &self.medium {
            Medium::Real { buffered, .. } => read_full(buffered, buf, at)?,
            Medium::Simulated(f) => f.read_at(buf, at)?,
            Medium::Raw(f) => f.read_at(buf, at)?,
        }
        corrupt(v, buf, at);
        Ok(())
    }

    /// Like [`DiskFile::read_at`], bypassing the page cache when the file is direct and address,
    /// length and offset are aligned to 4 KiB.
    ///
    /// # Errors
    /// Like [`DiskFile::read_at`].
    pub fn read_at_direct(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        let bits = buf.as_ptr() as usize | buf.len() | at as usize;
        match &self.medium {
            Medium::Real { direct: Some(f), .. } if bits.is_multiple_of(crate::ALIGN) => {
                let _call = self.call();
                let v = self.check(Operation::Read)?;
                read_full(f, buf, at)?;
                corrupt(v, buf, at);
                Ok(())
            }
            _ => self.read_at(buf, at),
        }
    }

    /// Reads exactly as many bytes as the slices have, one after another from `at` on, through the page cache.
    ///
    /// # Errors
    /// Like [`DiskFile::read_at`].
    pub fn read_slices_at(&self, slices: &mut [IoSliceMut<'_>], at: u64) -> io::Result<()> {
        let _call = self.call();
        let v = self.check(Operation::Read)?;
        match &self.medium {
            Medium::Real { buffered, .. } => read_slices_full(buffered, slices, at, v)?,
            Medium::Simulated(_) | Medium::Raw(_) => {
                let mut from = at;
                for s in slices.iter_mut() {
                    match &self.medium {
                        Medium::Raw(f) => f.read_at(s, from)?,
                        Medium::Simulated(f) => f.read_at(s, from)?,
                        Medium::Real { .. } => {}
                    }
                    from += s.len() as u64;
                }
                if let Some(first) = slices.first_mut() {
                    corrupt(v, first, at);
                }
            }
        }
        Ok(())
    }

    /// Reads exactly `buf.len()` bytes when all of them are in memory; false when reading would
    /// wait for the device (the contents of `buf` are then unspecified).
    ///
    /// # Errors
    /// Like [`DiskFile::read_at`].
    pub fn read_at_now(&self, buf: &mut [u8], at: u64) -> io::Result<bool> {
        if self.faults.as_ref().is_some_and(|f| f.is_armed()) {
            // Injected delays belong on the drive's own threads.
            return Ok(false);
        }
        let file = match &self.medium {
            Medium::Real { buffered, memory: false, .. } => buffered,
            // Nothing of a device is in memory.
            Medium::Raw(_) => return Ok(false),
            _ => return self.read_at(buf, at).map(|()| true),
        };
        let want = buf.len();
        let mut done = 0;
        while done < want {
            let mut iov = [IoSliceMut::new(&mut buf[done..])];
            let flags = rustix::io::ReadWriteFlags::NOWAIT;
            match rustix::io::preadv2(file, &mut iov, at + done as u64, flags) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                // The file system, the kernel or a sandbox does not support it: assume that reading would
                // wait.
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                    return Ok(false);
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }

    /// Writes all of `buf` at `at`; direct when possible and aligned.
    ///
    /// # Errors
    /// Errors of `pwrite`.
    pub fn write_at(&self, buf: &[u8], at: u64) -> io::Result<()> {
        self.write_slices_at(&mut [IoSlice::new(buf)], at)
    }

    /// Writes all slices one after another at `at`; direct when possible and all are aligned.
    ///
    /// # Errors
    /// Errors of `pwritev`.
    pub fn write_slices_at(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        let _call = self.call();
        if self.check(Operation::Write)?.lost {
            return Ok(());
        }
        match &self.medium {
            Medium::Real { buffered, direct, .. } => {
                let mut bits = at as usize;
                for s in slices.iter() {
                    bits |= s.as_ptr() as usize | s.len();
                }
                let file = match direct {
                    Some(f) if bits.is_multiple_of(crate::ALIGN) => f,
                    _ => buffered,
                };
                write_full(file, slices, at)
            }
            Medium::Simulated(f) => {
                let mut at = at;
                for s in slices.iter() {
                    f.write_at(s, at)?;
                    at += s.len() as u64;
                }
                Ok(())
            }
            Medium::Raw(f) => f.write_at(slices, at),
        }
    }

    /// Makes written bytes durable (`fdatasync`). Never retried.
    ///
    /// # Errors
    /// Errors of `fdatasync`: the caller fences the drive.
    pub fn sync_data(&self) -> io::Result<()> {
        let _call = self.call();
        if self.check(Operation::Sync)?.lost {
            return Ok(());
        }
        match &self.medium {
            Medium::Real { buffered, .. } => buffered.sync_data(),
            Medium::Simulated(f) => f.sync(),
            Medium::Raw(f) => f.sync(),
        }
    }

    /// Makes content and length durable (`fsync`).
    ///
    /// # Errors
    /// Like [`DiskFile::sync_data`].
    pub fn sync_all(&self) -> io::Result<()> {
        let _call = self.call();
        if self.check(Operation::Sync)?.lost {
            return Ok(());
        }
        match &self.medium {
            Medium::Real { buffered, .. } => buffered.sync_all(),
            Medium::Simulated(f) => f.sync(),
            Medium::Raw(f) => f.sync(),
        }
    }

    /// Gives the file `len` bytes of allocated, zero-reading space; a file system without
    /// preallocation, or one in memory, only gets the length.
    ///
    /// # Errors
    /// `StorageFull` and other errors of the file system.
    pub fn allocate(&self, len: u64) -> io::Result<()> {
        let _call = self.call();
        let buffered = match &self.medium {
            Medium::Real { buffered, memory: false, .. } => buffered,
            Medium::Raw(f) => {
                self.check(Operation::Allocate)?;
                return f.allocate(len);
            }
            _ => return self.set_len(len),
        };
        self.check(Operation::Allocate)?;
        match rustix::fs::fallocate(buffered, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => buffered.set_len(len),
            Err(e) => Err(e.into()),
        }
    }

    /// Changes the length without allocating.
    ///
    /// # Errors
    /// Errors of `ftruncate`.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        let _call = self.call();
        self.check(Operation::Allocate)?;
        match &self.medium {
            Medium::Real { buffered, .. } => buffered.set_len(len),
            Medium::Simulated(f) => f.set_len(len),
            Medium::Raw(f) => f.set_len(len),
        }
    }

    /// Returns the space of a range to the file system; it reads as zeros afterwards. False: the file system
    /// cannot.
    ///
    /// # Errors
    /// Errors of `fallocate`.
    pub fn punch_hole(&self, at: u64, len: u64) -> io::Result<bool> {
        let _call = self.call();
        self.check(Operation::Allocate)?;
        let buffered = match &self.medium {
            Medium::Real { buffered, .. } => buffered,
            Medium::Simulated(f) => return f.punch(at, len).map(|()| true),
            Medium::Raw(f) => return f.punch(at, len),
        };
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(buffered, flags, at, len) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Tells the kernel that the page cache of this range is not needed any more.
    pub fn forget(&self, at: u64, len: u64) {
        if let Medium::Real { buffered, .. } = &self.medium {
            let len = std::num::NonZeroU64::new(len);
            let _ = rustix::fs::fadvise(buffered, at, len, rustix::fs::Advice::DontNeed);
        }
    }

    /// Whether any name still refers to this file. An unlinked file still accepts writes and flushes, but
    /// they cannot be read later.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn linked(&self) -> io::Result<bool> {
        let _call = self.call();
        match &self.medium {
            Medium::Real { buffered, .. } => Ok(rustix::fs::fstat(buffered)?.st_nlink > 0),
            Medium::Simulated(f) => Ok(f.linked()),
            Medium::Raw(f) => Ok(f.linked()),
        }
    }

    /// Device and inode numbers: tells whether a path still names this file.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        match &self.medium {
            Medium::Real { buffered, .. } => {
                let s = rustix::fs::fstat(buffered)?;
                Ok((s.st_dev, s.st_ino))
            }
            Medium::Simulated(f) => Ok((0, f.number())),
            Medium::Raw(f) => Ok(f.identity()),
        }
    }
}

fn corrupt(v: crate::faults::Verdict, buf: &mut [u8], at: u64) {
    if v.corrupt && !buf.is_empty() {
        let i = (at as usize).wrapping_mul(31) % buf.len();
        buf[i] ^= 1 << (at % 8);
    }
}

/// As [`read_full`]; a bit of the first slice is flipped where the verdict says so.
fn read_slices_full(
    f: &File,
    mut slices: &mut [IoSliceMut<'_>],
    mut at: u64,
    v: crate::faults::Verdict,
) -> io::Result<()> {
    if v.corrupt {
        let all = std::mem::take(&mut slices);
        let Some((first, rest)) = all.split_first_mut() else { return Ok(()) };
        read_full(f, first, at)?;
        corrupt(v, first, at);
        at += first.len() as u64;
        slices = rest;
    }
    while !slices.is_empty() {
        // IOV_MAX is 1024 on Linux.
        let n = slices.len().min(1024);
        match rustix::io::preadv(f, &mut slices[..n], at) {
            Ok(0) if slices[..n].iter().all(|s| s.is_empty()) => {
                slices = &mut std::mem::take(&mut slices)[n..];
            }
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(done) => {
                at += done as u64;
                IoSliceMut::advance_slices(&mut slices, done);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
