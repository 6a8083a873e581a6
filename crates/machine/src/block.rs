//! Block devices of the kernel: a whole disk, a partition, or what is made of them.
//!
//! All reads and writes are direct: what the page cache of a device has not written yet would fail later, or be lost, without an error at
//! the request. Memory that is not aligned is copied through aligned buffers.
//!
//! Invariants: a device in service is opened exclusively (`O_EXCL`), by one descriptor, so that the kernel refuses to mount it, to make other devices
//! of it or to give it to another process that asks the same, and so that the device behind the descriptor stays the same whatever its name
//! means later; a device that is only looked at disturbs nobody; a write is complete or an error; a failed flush is never retried.
//!
//! Must not depend on: the meaning of the bytes.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::buffer::{ALIGN, BufferPool};
use crate::sysfs::{Facts, FailureDomain, Uses};
use crate::whole::{read_full, write_full};

/// Bytes that are copied through one buffer at a time, at most.
const CHUNK: usize = 1 << 20;
/// Bytes that one call has zeroed, at most, so that it ends within a while on slow devices.
const ZEROED: u64 = 1 << 30;

/// How a block device is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To look at it: also if another process has it, and without effect on that.
    Look,
    /// To read and write it, alone.
    Alone,
}

/// A block device. Reads and writes are of whole blocks of 4 KiB.
pub struct BlockDevice {
    file: File,
    size: u64,
    /// Bytes of a block of the device.
    block: u32,
    /// None: the kernel tells nothing about it.
    facts: Option<Facts>,
    domain: Option<String>,
    /// It cannot discard.
    keeps: AtomicBool,
    /// It cannot zero without being written.
    writes_zeros: AtomicBool,
    pool: BufferPool,
}

/// Whether a path leads to a block device; links are followed.
#[must_use]
pub fn is_block_device(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::BlockDevice)
}

/// What the block device at a path fails with, if it is one and the kernel tells it: see [`BlockDevice::domain`]. It is not opened.
#[must_use]
pub fn failure_domain(path: &Path) -> Option<FailureDomain> {
    let stat = rustix::fs::stat(path).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return None;
    }
    facts(stat.st_rdev).map(|facts| facts.domain())
}

/// Whether other devices are made of the device at a path: paths of a multipath device, members of md or LVM.
#[must_use]
pub fn has_holders(path: &Path) -> bool {
    let facts = rustix::fs::stat(path).ok().and_then(|s| facts(s.st_rdev));
    facts.is_some_and(|f| !f.holders().is_empty())
}

/// What the kernel says of the device with a number.
pub(crate) fn facts(number: u64) -> Option<Facts> {
    Facts::of(Path::new("/sys"), (rustix::fs::major(number), rustix::fs::minor(number)))
}

/// Who has a device in use, in a message.
fn in_use(facts: Option<&Facts>) -> io::Error {
    let users = facts.map(|f| f.users(&Uses::now())).unwrap_or_default();
    let by = match users.as_slice() {
        [] => "another process has it, or this one twice, or it is mounted in another mount namespace"
            .to_owned(),
        users => users.join(", "),
    };
    io::Error::new(ErrorKind::ResourceBusy, format!("the device is in use: {by}"))
}

impl BlockDevice {
    /// Opens a device. The path is no link.
    ///
    /// # Errors
    /// `InvalidInput` if it is no block device; `ResourceBusy` if something else has it in use, and what, if the kernel shows it;
    /// `Unsupported` if its blocks are larger than 4 KiB or it has no room for one; other errors of `open`.
    pub fn open(path: &Path, access: Access) -> io::Result<BlockDevice> {
        let no_device = || io::Error::new(ErrorKind::InvalidInput, "not a block device");
        let before = rustix::fs::lstat(path)?;
        if FileType::from_raw_mode(before.st_mode) != FileType::BlockDevice {
            return Err(no_device());
        }
        let found = facts(before.st_rdev);
        let how = match access {
            // A drive without a medium does not make anybody wait.
            Access::Look => OFlags::RDONLY | OFlags::NONBLOCK,
            Access::Alone => OFlags::RDWR | OFlags::EXCL,
        };
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECT | how;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| match e {
            Errno::BUSY => in_use(found.as_ref()),
            e => e.into(),
        })?;
        let opened = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(opened.st_mode) != FileType::BlockDevice {
            return Err(no_device());
        }
        let blocks = rustix::fs::ioctl_blksszget(&file)?;
        if !(512..=ALIGN as u32).contains(&blocks) || !blocks.is_power_of_two() {
            let why = format!("the device has blocks of {blocks} bytes; those of drives have 512 to {ALIGN}");
            return Err(io::Error::new(ErrorKind::Unsupported, why));
        }
        BlockDevice::over(file.into(), blocks, facts(opened.st_rdev))
    }

    fn over(file: File, block: u32, facts: Option<Facts>) -> io::Result<BlockDevice> {
        let end = end_of(&file)?;
        if end < ALIGN as u64 {
            return Err(io::Error::new(ErrorKind::Unsupported, "the device has no medium, or no size"));
        }
        Ok(BlockDevice {
            file,
            block,
            // A last block that is not whole is not used.
            size: end - end % ALIGN as u64,
            domain: facts.as_ref().map(|f| f.domain().name),
            keeps: AtomicBool::new(facts.as_ref().is_some_and(|f| !f.discards())),
            writes_zeros: AtomicBool::new(false),
            facts,
            pool: BufferPool::new(2 * CHUNK),
        })
    }

    /// Bytes, of whole blocks of 4 KiB, when it was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the device writes blocks of 4 KiB as a whole: its own blocks have that size.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        self.block == ALIGN as u32
    }

    /// What it fails with, for instance the disk of a partition or the NVMe subsystem of a namespace, if the kernel tells it.
    #[must_use]
    pub fn domain(&self) -> Option<&str> {
        self.domain.as_deref()
    }

    /// Why every request would fail, if that is known without one: it was removed, or has become smaller.
    #[must_use]
    pub fn gone(&self) -> Option<String> {
        match end_of(&self.file) {
            Err(e) => return Some(e.to_string()),
            Ok(end) if end < self.size => {
                return Some(format!("the device had {} bytes and has {end}", self.size));
            }
            Ok(_) => {}
        }
        let there = self.facts.as_ref().is_none_or(Facts::still);
        (!there).then(|| "the device was removed".to_owned())
    }

    /// Fills the slices one after another with the bytes from `at` on.
    ///
    /// # Errors
    /// `InvalidInput` unless these are whole blocks; `UnexpectedEof` beyond the end; errors of `pread`.
    pub fn read_slices_at(&self, slices: &mut [IoSliceMut<'_>], at: u64) -> io::Result<()> {
        let total = whole(slices.iter().map(|s| s.len()).sum(), at)?;
        if let [one] = slices
            && aligned(one)
        {
            return read_full(&self.file, one, at);
        }
        let mut buffer = self.pool.get_reserved(total.min(CHUNK));
        // The slice that the next byte goes to, and where in it.
        let (mut to, mut inside) = (0, 0);
        for done in (0..total).step_by(CHUNK) {
            let count = (total - done).min(CHUNK);
            read_full(&self.file, &mut buffer[..count], at + done as u64)?;
            let mut from = &buffer[..count];
            while !from.is_empty() {
                let rest = &mut slices[to][inside..];
                let n = rest.len().min(from.len());
                rest[..n].copy_from_slice(&from[..n]);
                from = &from[n..];
                (to, inside) = if n == rest.len() { (to + 1, 0) } else { (to, inside + n) };
            }
        }
        Ok(())
    }

    /// Writes all slices one after another, from `at` on.
    ///
    /// # Errors
    /// `InvalidInput` unless these are whole blocks; errors of `pwrite`: then any part may be written.
    pub fn write_slices_at(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        let total = whole(slices.iter().map(|s| s.len()).sum(), at)?;
        if slices.iter().all(|s| aligned(s)) {
            return write_full(&self.file, slices, at);
        }
        let mut buffer = self.pool.get_reserved(total.min(CHUNK));
        let (mut of, mut inside) = (0, 0);
        for done in (0..total).step_by(CHUNK) {
            let count = (total - done).min(CHUNK);
            let mut filled = 0;
            while filled < count {
                let rest = &slices[of][inside..];
                let n = rest.len().min(count - filled);
                buffer[filled..filled + n].copy_from_slice(&rest[..n]);
                filled += n;
                (of, inside) = if n == rest.len() { (of + 1, 0) } else { (of, inside + n) };
            }
            write_full(&self.file, &mut [IoSlice::new(&buffer[..count])], at + done as u64)?;
        }
        Ok(())
    }

    /// Makes all writes that have returned durable: empties the cache of the device. Never retried.
    ///
    /// # Errors
    /// Errors of `fdatasync`.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Tells the device that the content of a range does not matter. False: it cannot be told, and is not asked again.
    ///
    /// # Errors
    /// Errors of `fallocate`.
    pub fn discard(&self, at: u64, len: u64) -> io::Result<bool> {
        punch(&self.file, &self.keeps, at, len)
    }

    /// Makes a range read as zeros; faster than to write them where the device has a command for it. False: they have to be written.
    ///
    /// # Errors
    /// Errors of `fallocate`.
    pub fn zero(&self, at: u64, len: u64) -> io::Result<bool> {
        punch(&self.file, &self.writes_zeros, at, len)
    }
}

/// Gives a range back, in parts, unless the device `cannot`, which is remembered. Of a block device the range reads as zeros afterwards, as `fallocate(2)` of Linux
/// says; a device that would have to be written refuses.
fn punch(file: &File, cannot: &AtomicBool, at: u64, len: u64) -> io::Result<bool> {
    let mut done = 0;
    while done < len {
        if cannot.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let n = (len - done).min(ZEROED);
        match rustix::fs::fallocate(
            file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            at + done,
            n,
        ) {
            Ok(()) => done += n,
            Err(Errno::INTR) => {}
            // Kernels and drivers have had all of these words for it.
            Err(
                Errno::OPNOTSUPP
                | Errno::NOSYS
                | Errno::INVAL
                | Errno::NODEV
                | Errno::NOTTY
                | Errno::REMOTEIO,
            ) => {
                cannot.store(true, Ordering::Relaxed);
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(true)
}

/// The size now. The position of the descriptor that it moves is used for nothing.
fn end_of(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

fn aligned(bytes: &[u8]) -> bool {
    (bytes.as_ptr() as usize | bytes.len()).is_multiple_of(ALIGN)
}

/// The length, if it and the position are whole blocks.
fn whole(len: usize, at: u64) -> io::Result<usize> {
    if len.is_multiple_of(ALIGN) && at.is_multiple_of(ALIGN as u64) {
        return Ok(len);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, format!("{at}+{len} are no whole blocks of a device")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::OpenOptionsExt;

    const B: usize = ALIGN;

    /// A file instead of a device, direct where the file system can.
    fn device(folder: &Path, size: u64) -> BlockDevice {
        let path = folder.join("device");
        File::create(&path).unwrap().set_len(size).unwrap();
        let open = |flags: i32| File::options().read(true).write(true).custom_flags(flags).open(&path);
        let file = open(OFlags::DIRECT.bits() as i32).or_else(|_| open(0)).unwrap();
        BlockDevice::over(file, 4096, None).unwrap()
    }

    fn noise(len: usize, seed: usize) -> Vec<u8> {
        (0..len).map(|i| (((i + seed) * 2_654_435_761) >> 13) as u8).collect()
    }

    /// A slice of so many bytes that begins at an odd address.
    fn odd(memory: &mut Vec<u8>, len: usize) -> &mut [u8] {
        memory.resize(len + 2, 0);
        let from = 1 - memory.as_ptr() as usize % 2;
        &mut memory[from..from + len]
    }

    #[test]
    fn slices_of_any_address_and_length_arrive() {
        let folder = tempfile::tempdir().unwrap();
        let device = device(folder.path(), 8 << 20);
        // Over more than one buffer; slices that end inside of a block; aligned memory.
        let content = noise(3 * CHUNK - B, 7);
        let (a, rest) = content.split_at(100);
        let (b, c) = rest.split_at(2 * CHUNK);
        device.write_slices_at(&mut [a, b, &[], c].map(IoSlice::new), B as u64).unwrap();
        let mut pooled = device.pool.get_reserved(CHUNK);
        pooled.copy_from_slice(&noise(CHUNK, 3));
        device.write_slices_at(&mut [IoSlice::new(&pooled)], 4 << 20).unwrap();
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let first = odd(&mut one, CHUNK + 511);
        let second = odd(&mut two, content.len() - first.len());
        let mut slices = [&mut *first, &mut [], &mut *second].map(IoSliceMut::new);
        device.read_slices_at(&mut slices, B as u64).unwrap();
        assert!(*first == content[..first.len()] && *second == content[first.len()..]);
        pooled.fill(0);
        device.read_slices_at(&mut [IoSliceMut::new(&mut pooled)], 4 << 20).unwrap();
        assert!(pooled[..] == noise(CHUNK, 3));
        // What was not written is as it was.
        let mut before = vec![1; B];
        device.read_slices_at(&mut [IoSliceMut::new(&mut before)], 0).unwrap();
        assert!(before.iter().all(|b| *b == 0));
        device.flush().unwrap();
    }

    #[test]
    fn only_whole_blocks_inside_are_read() {
        let folder = tempfile::tempdir().unwrap();
        // The last 100 bytes are no block.
        let device = device(folder.path(), 4 * B as u64 + 100);
        assert_eq!(device.size(), 4 * B as u64);
        let mut bytes = vec![0; 2 * B];
        let mut read = |len: usize, at| {
            device.read_slices_at(&mut [IoSliceMut::new(&mut bytes[..len])], at).map_err(|e| e.kind())
        };
        assert_eq!(read(B, 3 * B as u64), Ok(()));
        assert_eq!(read(2 * B, 4 * B as u64), Err(ErrorKind::UnexpectedEof));
        assert_eq!(read(B, 512), Err(ErrorKind::InvalidInput));
        assert_eq!(read(512, 0), Err(ErrorKind::InvalidInput));
        let write = device.write_slices_at(&mut [IoSlice::new(&[0; 512])], 0);
        assert_eq!(write.map_err(|e| e.kind()), Err(ErrorKind::InvalidInput));
        assert!(device.domain().is_none());
    }

    #[test]
    fn zeroed_ranges_read_as_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let device = device(folder.path(), 1 << 20);
        device.write_slices_at(&mut [IoSlice::new(&noise(8 * B, 1))], 0).unwrap();
        let bytes = |at: usize| {
            let mut out = vec![7; B];
            device.read_slices_at(&mut [IoSliceMut::new(&mut out)], (at * B) as u64).unwrap();
            out
        };
        let before = bytes(2);
        let zeroed = device.zero(3 * B as u64, 2 * B as u64).unwrap();
        let gone = device.discard(6 * B as u64, B as u64).unwrap();
        assert!([3, 4].iter().all(|at| zeroed == (bytes(*at) == vec![0; B])));
        assert_eq!(gone, bytes(6) == vec![0; B]);
        assert!(bytes(2) == before && bytes(5) == noise(8 * B, 1)[5 * B..6 * B] && bytes(7) != vec![0; B]);
        // A device that cannot is no error, and is not asked again.
        device.keeps.store(true, Ordering::Relaxed);
        assert!(!device.discard(0, B as u64).unwrap());
        assert!(bytes(0) != vec![0; B]);
    }

    #[test]
    fn a_device_that_becomes_smaller_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let device = device(folder.path(), 1 << 20);
        assert!(device.gone().is_none());
        device.file.set_len(0).unwrap();
        assert!(device.gone().unwrap().contains("has 0"));
        let mut out = vec![7; B];
        let read = device.read_slices_at(&mut [IoSliceMut::new(&mut out)], 0);
        assert_eq!(read.map_err(|e| e.kind()), Err(ErrorKind::UnexpectedEof));
    }

    #[test]
    fn other_files_are_no_devices() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        File::create(&file).unwrap();
        for (path, kind) in [
            (file.as_path(), ErrorKind::InvalidInput),
            (folder.path(), ErrorKind::InvalidInput),
            (Path::new("/dev/null"), ErrorKind::InvalidInput),
            (&folder.path().join("none"), ErrorKind::NotFound),
        ] {
            let opened = BlockDevice::open(path, Access::Look).map(drop).map_err(|e| e.kind());
            assert_eq!(opened, Err(kind), "{path:?}");
            assert!(!is_block_device(path) && !has_holders(path));
        }
    }
}
