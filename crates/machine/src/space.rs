//! The kind of a file system, and its space.
//!
//! Must not depend on: files, folders.

use std::io;
use std::os::fd::AsFd;

/// The kind of file system of a path, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystem {
    /// In memory: preallocation would use memory immediately, and flushing has no effect.
    Memory,
    /// Anything else.
    Disk,
}

/// Space of the file system a path is on, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Space {
    /// Whole size.
    pub total: u64,
    /// Space that an unprivileged program may still use.
    pub free: u64,
    /// Mounted read-only.
    pub read_only: bool,
    /// Files that it can hold; 0 where there is no limit.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
}

impl Space {
    /// Asks the file system.
    ///
    /// # Errors
    /// Errors of `statvfs`.
    pub fn of(folder: impl AsFd) -> io::Result<Space> {
        let s = rustix::fs::fstatvfs(folder)?;
        Ok(Space {
            total: s.f_blocks.saturating_mul(s.f_frsize),
            free: s.f_bavail.saturating_mul(s.f_frsize),
            read_only: s.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
            inodes: s.f_files,
            inodes_free: s.f_favail,
        })
    }
}

/// The kind of file system a folder is on.
///
/// # Errors
/// Errors of `statfs`.
pub(crate) fn file_system(folder: impl AsFd) -> io::Result<FileSystem> {
    let s = rustix::fs::fstatfs(folder)?;
    Ok(if is_memory(s.f_type) { FileSystem::Memory } else { FileSystem::Disk })
}

/// By the magic number of `statfs`.
#[allow(clippy::unnecessary_cast)] // the type of the field differs between architectures
pub(crate) fn is_memory(f_type: impl Into<i64>) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    matches!(f_type.into(), TMPFS | RAMFS)
}
