//! A real folder of a drive: which files may be opened in it, and how.
//!
//! A user who can write into a drive's folder (a drive from another machine, another user of a shared disk)
//! must not be able to make the server wait without limit, or read, write or delete anything outside of it.
//!
//! Invariants: below the named folder no symbolic link is ever followed; only regular files and real folders
//! are opened, and opening never waits (opening a FIFO without a writer would); everything else is an error
//! that names it. Only their owner can access new files and folders (0700, 0600), regardless of the umask,
//! and a file with a wider mode is narrowed when it is opened for writing.
//!
//! Must not depend on: the content of files.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A folder named by an operator, and a folder inside it.
#[derive(Clone, Debug)]
pub(crate) struct RealDir {
    root: PathBuf,
    /// Names of folders below `root`.
    inside: Vec<String>,
}

/// The purpose of opening a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Read,
    ReadWrite,
    /// As `ReadWrite`; it must not exist.
    Create,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The permissions of others for new files and folders: none.
const OTHERS: u32 = 0o077;

fn wrong(path: &Path, is: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{} is {is}", path.display()))
}

/// The kind of a directory entry, for people.
fn kind_of(found: FileType) -> &'static str {
    match found {
        FileType::Directory => "a folder, not a regular file",
        FileType::Symlink => "a symbolic link, not a regular file",
        FileType::Fifo => "a FIFO, not a regular file",
        FileType::Socket => "a socket, not a regular file",
        FileType::CharacterDevice | FileType::BlockDevice => "a device, not a regular file",
        _ => "not a regular file",
    }
}

fn type_of(s: &Stat) -> FileType {
    FileType::from_raw_mode(s.st_mode)
}

impl RealDir {
    pub(crate) fn new(root: &Path) -> RealDir {
        RealDir { root: root.to_owned(), inside: Vec::new() }
    }

    pub(crate) fn sub(&self, name: &str) -> RealDir {
        let mut inside = self.inside.clone();
        inside.push(name.to_owned());
        RealDir { root: self.root.clone(), inside }
    }

    /// The path, for messages and for uses without the guarantees of this module.
    pub(crate) fn path(&self) -> PathBuf {
        let mut path = self.root.clone();
        path.extend(&self.inside);
        path
    }

    /// Opens the folder. The named folder may be a link, those inside may not.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        self.open_to(self.inside.len())
    }

    fn open_to(&self, depth: usize) -> io::Result<OwnedFd> {
        let mut fd = rustix::fs::open(&self.root, FOLDER, Mode::empty())?;
        for (i, name) in self.inside[..depth].iter().enumerate() {
            let at = || {
                let mut path = self.root.clone();
                path.extend(&self.inside[..=i]);
                path
            };
            fd = rustix::fs::openat(&fd, name.as_str(), FOLDER.union(OFlags::NOFOLLOW), Mode::empty())
                .map_err(|e| match e {
                    rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => wrong(&at(), "not a folder"),
                    e => e.into(),
                })?;
        }
        Ok(fd)
    }

    /// Makes the folder unless it exists.
    pub(crate) fn make(&self) -> io::Result<()> {
        let made = match self.inside.split_last() {
            None => rustix::fs::mkdir(&self.root, Mode::RWXU),
            Some((name, above)) => rustix::fs::mkdirat(self.open_to(above.len())?, name.as_str(), Mode::RWXU),
        };
        match made {
            Ok(()) => {}
            // If the name is taken by something else, opening it reports that.
            Err(rustix::io::Errno::EXIST) => return self.open().map(drop),
            Err(e) => return Err(e.into()),
        }
        Ok(rustix::fs::fchmod(self.open()?, Mode::RWXU)?)
    }

    /// Opens `name`, which must be a regular file. `also` are further flags.
    pub(crate) fn file(&self, name: &str, purpose: Purpose, also: OFlags) -> io::Result<File> {
        let dir = self.open()?;
        let path = || self.path().join(name);
        let mut flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | also;
        flags |= if purpose == Purpose::Read { OFlags::RDONLY } else { OFlags::RDWR };
        if purpose == Purpose::Create {
            flags |= OFlags::CREATE | OFlags::EXCL;
        } else {
            // Check before opening: opening a device may have effects, and the error should name what cannot
            // be opened.
            let found = type_of(&rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?);
            if found != FileType::RegularFile {
                return Err(wrong(&path(), kind_of(found)));
            }
        }
        let file = rustix::fs::openat(&dir, name, flags, Mode::RUSR | Mode::WUSR)?;
        let stat = rustix::fs::fstat(&file)?;
        if type_of(&stat) != FileType::RegularFile {
            return Err(wrong(&path(), kind_of(type_of(&stat))));
        }
        let mode = stat.st_mode & 0o777;
        // The umask may have removed bits from the mode of a new file; an existing one may have too many.
        if purpose == Purpose::Create && mode != 0o600 || purpose == Purpose::ReadWrite && mode & OTHERS != 0
        {
            match rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR) {
                // The file of another user, or a file system without modes: reading and writing still works.
                Err(rustix::io::Errno::PERM | rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ROFS) => {}
                r => r?,
            }
        }
        Ok(file.into())
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(self.open()?, name, AtFlags::empty()) {
            Err(rustix::io::Errno::ISDIR) => {
                Err(wrong(&self.path().join(name), kind_of(FileType::Directory)))
            }
            r => Ok(r?),
        }
    }

    /// Removes the folder `name` with the files in it; links in it are removed, not followed.
    pub(crate) fn remove_folder(&self, name: &str) -> io::Result<()> {
        let sub = self.sub(name);
        match sub.open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            fd => drop(fd?),
        }
        for file in sub.list()? {
            sub.remove(&file)?;
        }
        Ok(rustix::fs::unlinkat(self.open()?, name, AtFlags::REMOVEDIR)?)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let dir = self.open()?;
        Ok(rustix::fs::renameat(&dir, from, &dir, to)?)
    }

    pub(crate) fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.open()?)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.open()?)?)
    }

    /// Device and inode of an entry, without opening or following it.
    pub(crate) fn identity(&self, name: &str) -> io::Result<(u64, u64)> {
        let s = rustix::fs::statat(self.open()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((s.st_dev, s.st_ino))
    }

    /// The folder's permission bits for others that should not be set.
    pub(crate) fn mode(&self) -> io::Result<u32> {
        Ok(rustix::fs::fstat(self.open()?)?.st_mode & 0o777)
    }

    /// Removes the permissions of others for the folder, if possible.
    pub(crate) fn narrow(&self) -> io::Result<()> {
        let dir = self.open()?;
        if rustix::fs::fstat(&dir)?.st_mode & OTHERS == 0 {
            return Ok(());
        }
        match rustix::fs::fchmod(&dir, Mode::RWXU) {
            Err(rustix::io::Errno::PERM | rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ROFS) => Ok(()),
            r => Ok(r?),
        }
    }
}

/// Whether this process runs as root.
#[must_use]
pub fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}
