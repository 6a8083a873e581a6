//! The target of a drive test: a file without a name in a folder, or a raw device.
//!
//! Invariants: the file never has a name (or loses it before the first byte is written), so that nothing is
//! left behind however the program ends; direct I/O is used, or its absence is an error unless the page cache
//! was requested; a device is opened exclusively.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use rustix::fs::{FallocateFlags, Mode, OFlags};

use super::device;
use crate::error::{Error, Result};

/// How to open targets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Access {
    /// Through the page cache.
    pub buffered: bool,
    /// Every write is durable before it counts.
    pub sync: bool,
    /// Raw devices may be overwritten.
    pub raw: bool,
    /// Even ones that hold something.
    pub force: bool,
}

/// One drive under test.
pub struct Target {
    /// As the user named it.
    pub path: PathBuf,
    /// Bytes that are read and written.
    pub size: u64,
    /// It is a device, not a file in a folder.
    pub device: bool,
    file: File,
    flags: OFlags,
}

impl Target {
    /// Opens a folder or a device for tests of `size` bytes (of a device: at most; 0 is all of it).
    ///
    /// # Errors
    /// [`Error::Setup`] when the path cannot be measured or must not be overwritten; [`Error::Io`].
    pub fn open(path: &Path, size: u64, access: Access) -> Result<Target> {
        let what = || format!("{}", path.display());
        let kind = std::fs::metadata(path).map_err(Error::io(what()))?.file_type();
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
        flags.set(OFlags::DIRECT, !access.buffered);
        flags.set(OFlags::DSYNC, access.sync);
        if kind.is_dir() {
            if in_memory(path).map_err(Error::io(what()))? && !access.buffered {
                return Err(no_direct(path, "a file system in memory"));
            }
            let file = nameless(path, flags).map_err(|e| match e.raw_os_error() {
                Some(code) if code == rustix::io::Errno::INVAL.raw_os_error() && !access.buffered => {
                    no_direct(path, "a file system without direct I/O")
                }
                _ => Error::Io { what: format!("cannot make a file in {}", path.display()), source: e },
            })?;
            return Ok(Target { path: path.to_owned(), size, device: false, file, flags });
        }
        if !std::os::unix::fs::FileTypeExt::is_block_device(&kind) {
            return Err(Error::usage(format!("{} is neither a folder nor a block device", path.display())));
        }
        if !access.raw {
            return Err(Error::setup(format!(
                "{} is a raw device: measuring it destroys everything on it; use --raw-device-data-loss to measure it anyway",
                path.display()
            )));
        }
        device::may_be_overwritten(path, access.force)?;
        let file = rustix::fs::open(path, flags | OFlags::EXCL, Mode::empty()).map_err(|e| match e {
            rustix::io::Errno::BUSY => Error::setup(format!("{} is in use by the system", path.display())),
            e => Error::Io { what: format!("cannot open {}", path.display()), source: e.into() },
        })?;
        let mut file = File::from(file);
        let length = file.seek(SeekFrom::End(0)).map_err(Error::io(what()))?;
        let size = if size == 0 { length } else { size.min(length) };
        Ok(Target { path: path.to_owned(), size, device: true, file, flags })
    }

    /// Takes the space of the whole file.
    ///
    /// # Errors
    /// [`Error::Setup`] when it does not fit with a tenth to spare, [`Error::Io`].
    pub fn allocate(&self) -> Result<()> {
        if self.device {
            return Ok(());
        }
        let fs = rustix::fs::fstatvfs(&self.file)
            .map_err(|e| Error::Io { what: self.path.display().to_string(), source: e.into() })?;
        let free = fs.f_bavail.saturating_mul(fs.f_frsize);
        if self.size > free / 10 * 9 {
            return Err(Error::setup(format!(
                "{}: {} bytes are free, too few for a test file of {} bytes; choose a smaller --size",
                self.path.display(),
                free,
                self.size
            )));
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, self.size) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self
                .file
                .set_len(self.size)
                .map_err(Error::io(format!("cannot size the test file in {}", self.path.display()))),
            Err(e) => Err(Error::Io {
                what: format!("cannot allocate {} bytes in {}", self.size, self.path.display()),
                source: e.into(),
            }),
        }
    }

    /// Another handle, so that threads do not share the kernel's counter of one.
    ///
    /// # Errors
    /// The error of opening.
    pub fn handle(&self) -> io::Result<File> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match rustix::fs::open(&own, self.flags, Mode::empty()) {
            Ok(file) => Ok(File::from(file)),
            // Without /proc a shared handle has to do.
            Err(_) => self.file.try_clone(),
        }
    }

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// The error of `fdatasync`.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Leaves a device blank where signatures are looked for; a file needs nothing.
    ///
    /// # Errors
    /// The error of writing.
    pub fn leave(&self) -> io::Result<()> {
        if self.device { device::blank_ends(&self.file) } else { Ok(()) }
    }
}

fn no_direct(path: &Path, what: &str) -> Error {
    Error::setup(format!(
        "{} is on {what}: the figures would be those of the page cache; use --buffered to measure anyway (the result notes it)",
        path.display()
    ))
}

fn in_memory(path: &Path) -> io::Result<bool> {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    let kind = rustix::fs::statfs(path)?.f_type as u64 & 0xffff_ffff;
    Ok(kind == TMPFS || kind == RAMFS)
}

/// A file without a name; where the file system cannot, one that loses its name at once.
fn nameless(folder: &Path, flags: OFlags) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
        Ok(file) => return Ok(File::from(file)),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::NOENT) => {}
        Err(e) => return Err(e.into()),
    }
    let path = folder.join(format!(".ashlar-bench-{}", std::process::id()));
    let file = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
    std::fs::remove_file(&path)?;
    Ok(File::from(file))
}
