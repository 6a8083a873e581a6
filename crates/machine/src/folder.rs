//! A folder of a drive: creating, finding, renaming and removing files.
//!
//! Invariants: nothing is durable before [`Folder::sync`]; names never come from outside the program; `dir`
//! defines what may be opened in real folders. Real and simulated folders behave the same.
//!
//! Must not depend on: the content of files.

use crate::block::{facts, is_block_device};
use crate::dir::{Purpose, RealDir};
use crate::file::DiskFile;
use crate::raw::{RawDevice, RawFile, Store, is_other_device};
use crate::sim::SimDisk;
use crate::space::{FileSystem, Space, file_system};
use crate::watch::{Call, Watch};
use crate::{Faults, Operation};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A folder, real or simulated. Cloning gives another handle.
#[derive(Clone)]
pub struct Folder {
    location: Location,
    faults: Option<Arc<Faults>>,
    watch: Option<Arc<Watch>>,
}

#[derive(Clone)]
enum Location {
    Real(RealDir),
    Simulated(SimDisk, String),
    /// A block device, and the prefix of names.
    Device(Device, String),
}

/// A block device that is opened when it is first asked. Clones share it.
#[derive(Clone)]
struct Device {
    path: PathBuf,
    store: Arc<OnceLock<Arc<Store>>>,
}

impl Device {
    fn store(&self) -> io::Result<&Arc<Store>> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let store = crate::raw::open(&self.path)?;
        Ok(self.store.get_or_init(|| store))
    }
}

impl Folder {
    /// A real folder, or the files on a block device or another one ([`use_other_devices`](crate::use_other_devices)), which this process then has
    /// alone while a folder or file of it is open.
    #[must_use]
    pub fn real(path: &Path, faults: Option<Arc<Faults>>) -> Folder {
        let location = if is_block_device(path) || is_other_device(path) {
            Location::Device(Device { path: path.to_owned(), store: Arc::default() }, String::new())
        } else {
            Location::Real(RealDir::new(path))
        };
        Folder { location, faults, watch: None }
    }

    /// The files on a device that the kernel does not know. `path` is for messages.
    ///
    /// # Errors
    /// `AlreadyExists` if something else is on the device, `InvalidData` if the files cannot be found any more, errors of the device.
    pub fn on_device(
        device: Box<dyn RawDevice>,
        path: &Path,
        faults: Option<Arc<Faults>>,
    ) -> io::Result<Folder> {
        let store = Arc::new(OnceLock::from(Store::open(device)?));
        let location = Location::Device(Device { path: path.to_owned(), store }, String::new());
        Ok(Folder { location, faults, watch: None })
    }

    /// The files on a simulated block device of `bytes` bytes: a file of a simulated disk, made if it is not there.
    ///
    /// # Errors
    /// Of [`Folder::on_device`].
    pub fn simulated_device(disk: &SimDisk, bytes: u64, faults: Option<Arc<Faults>>) -> io::Result<Folder> {
        const NAME: &str = "device";
        let file = match disk.open(NAME) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let file = disk.create(NAME)?;
                file.set_len(bytes)?;
                file.sync()?;
                disk.sync_names("");
                file
            }
            opened => opened?,
        };
        Folder::on_device(Box::new(file), Path::new("sim:/device"), faults)
    }

    /// The root of a simulated disk.
    #[must_use]
    pub fn simulated(disk: &SimDisk, faults: Option<Arc<Faults>>) -> Folder {
        Folder { location: Location::Simulated(disk.clone(), String::new()), faults, watch: None }
    }

    /// The same folder; its calls and those of files opened in it are recorded in `watch` from now on.
    #[must_use]
    pub fn watched(&self, watch: &Arc<Watch>) -> Folder {
        Folder { watch: Some(watch.clone()), ..self.clone() }
    }

    /// Records a call until the result is dropped.
    fn call(&self) -> Option<Call<'_>> {
        self.watch.as_deref().map(Watch::call)
    }

    /// The folder `name` inside this one; not made.
    #[must_use]
    pub fn sub(&self, name: &str) -> Folder {
        let location = match &self.location {
            Location::Real(p) => Location::Real(p.sub(name)),
            Location::Simulated(d, prefix) => Location::Simulated(d.clone(), format!("{prefix}{name}/")),
            Location::Device(d, prefix) => Location::Device(d.clone(), format!("{prefix}{name}/")),
        };
        Folder { location, faults: self.faults.clone(), watch: self.watch.clone() }
    }

    /// The path, for messages.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match &self.location {
            Location::Real(p) => p.path(),
            Location::Simulated(_, prefix) => PathBuf::from(format!("sim:/{prefix}")),
            Location::Device(d, prefix) if prefix.is_empty() => d.path.clone(),
            Location::Device(d, prefix) => d.path.join(prefix),
        }
    }

    fn check(&self, on: Operation) -> io::Result<()> {
        match &self.faults {
            None => Ok(()),
            Some(f) => f.check(on).map(|_| ()),
        }
    }

    /// Creates this folder unless it exists, accessible only to its owner (0700).
    ///
    /// # Errors
    /// Errors of `mkdir`.
    pub fn make(&self) -> io::Result<()> {
        let _call = self.call();
        self.check(Operation::Allocate)?;
        match &self.location {
            Location::Real(p) => p.make(),
            Location::Simulated(..) | Location::Device(..) => Ok(()),
        }
    }

    /// Creates a new file, accessible only to its owner (0600); fails if it exists.
    ///
    /// # Errors
    /// Errors of `open`.
    pub fn create(&self, name: &str, direct: bool) -> io::Result<DiskFile> {
        let _call = self.call();
        self.check(Operation::Allocate)?;
        match &self.location {
            Location::Real(p) => DiskFile::open(p, name, Purpose::Create, direct, self.faults.clone())
                .map(|f| f.watched(&self.watch)),
            Location::Simulated(d, prefix) => {
                let f = d.create(&format!("{prefix}{name}"))?;
                Ok(DiskFile::simulated(f, self.faults.clone()).watched(&self.watch))
            }
            Location::Device(d, prefix) => {
                let f = RawFile::create(d.store()?, &format!("{prefix}{name}"))?;
                Ok(DiskFile::raw(f, self.faults.clone()).watched(&self.watch))
            }
        }
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// `NotFound`, `InvalidInput` if it is not a regular file (a symbolic link is not), or other errors of `open`.
    pub fn open(&self, name: &str, direct: bool) -> io::Result<DiskFile> {
        let _call = self.call();
        match &self.location {
            Location::Real(p) => DiskFile::open(p, name, Purpose::ReadWrite, direct, self.faults.clone())
                .map(|f| f.watched(&self.watch)),
            Location::Simulated(d, prefix) => {
                let f = d.open(&format!("{prefix}{name}"))?;
                Ok(DiskFile::simulated(f, self.faults.clone()).watched(&self.watch))
            }
            Location::Device(d, prefix) => {
                let f = RawFile::open(d.store()?, &format!("{prefix}{name}"))?;
                Ok(DiskFile::raw(f, self.faults.clone()).watched(&self.watch))
            }
        }
    }

    /// Opens a file for reading, buffered.
    ///
    /// # Errors
    /// Like [`Folder::open`].
    pub fn open_read(&self, name: &str) -> io::Result<DiskFile> {
        let _call = self.call();
        match &self.location {
            Location::Real(p) => DiskFile::open(p, name, Purpose::Read, false, self.faults.clone())
                .map(|f| f.watched(&self.watch)),
            Location::Simulated(..) | Location::Device(..) => self.open(name, false),
        }
    }

    /// The whole content of a file of at most `limit` bytes.
    ///
    /// # Errors
    /// `FileTooLarge` above the limit, else as [`Folder::open`].
    pub fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let f = self.open_read(name)?;
        let len = f.len()?;
        if len > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut out = vec![0; len as usize];
        f.read_at(&mut out, 0)?;
        Ok(out)
    }

    /// Writes a new file and flushes its content; its name is durable after [`Folder::sync`].
    ///
    /// # Errors
    /// Like [`Folder::create`], and errors of writing.
    pub fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let f = self.create(name, false)?;
        f.write_at(bytes, 0)?;
        f.sync_all()
    }

    /// Removes a file; a missing file is not an error.
    ///
    /// # Errors
    /// Errors of `unlink`.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let _call = self.call();
        self.check(Operation::Allocate)?;
        let r = match &self.location {
            Location::Real(p) => p.remove(name),
            Location::Simulated(d, prefix) => d.remove(&format!("{prefix}{name}")),
            Location::Device(d, prefix) => d.store()?.remove(&format!("{prefix}{name}")),
        };
        match r {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            r => r,
        }
    }

    /// Renames a file over another.
    ///
    /// # Errors
    /// Errors of `rename`.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let _call = self.call();
        self.check(Operation::Allocate)?;
        match &self.location {
            Location::Real(p) => p.rename(from, to),
            Location::Simulated(d, prefix) => d.rename(&format!("{prefix}{from}"), &format!("{prefix}{to}")),
            Location::Device(d, prefix) => {
                d.store()?.rename(&format!("{prefix}{from}"), &format!("{prefix}{to}"))
            }
        }
    }

    /// Names of everything in the folder, sorted.
    ///
    /// # Errors
    /// `NotFound` or other errors of reading the folder.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let _call = self.call();
        let mut names = match &self.location {
            Location::Real(p) => p.list()?,
            Location::Simulated(d, prefix) => d.list(prefix),
            Location::Device(d, prefix) => d.store()?.list(prefix),
        };
        names.sort();
        Ok(names)
    }

    /// Makes the names in the folder durable.
    ///
    /// # Errors
    /// Errors of `fsync`.
    pub fn sync(&self) -> io::Result<()> {
        let _call = self.call();
        self.check(Operation::Sync)?;
        match &self.location {
            Location::Real(p) => p.sync(),
            Location::Simulated(d, prefix) => {
                d.sync_names(prefix);
                Ok(())
            }
            Location::Device(d, _) => d.store()?.commit(),
        }
    }

    /// Removes the folder `name` inside this one with the files in it; one that is not there is fine. A link is
    /// never followed.
    ///
    /// # Errors
    /// Errors of `unlink` or `rmdir`.
    pub fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.check(Operation::Allocate)?;
        match &self.location {
            Location::Real(p) => p.remove_folder(name),
            Location::Simulated(..) | Location::Device(..) => {
                let sub = self.sub(name);
                sub.list()?.iter().try_for_each(|file| sub.remove(file))
            }
        }
    }

    /// The permission bits of the folder (`0o700` is the expected value).
    ///
    /// # Errors
    /// Errors of `open` or `fstat`.
    pub fn mode(&self) -> io::Result<u32> {
        match &self.location {
            Location::Real(p) => p.mode(),
            Location::Simulated(..) | Location::Device(..) => Ok(0o700),
        }
    }

    /// Removes the permissions of others for the folder, if possible.
    ///
    /// # Errors
    /// Errors of `open` or `chmod`; a folder of another user is not an error.
    pub fn narrow(&self) -> io::Result<()> {
        match &self.location {
            Location::Real(p) => p.narrow(),
            Location::Simulated(..) | Location::Device(..) => Ok(()),
        }
    }

    /// Space of the file system the folder is on.
    ///
    /// # Errors
    /// Errors of `statvfs`.
    pub fn space(&self) -> io::Result<Space> {
        let _call = self.call();
        match &self.location {
            Location::Real(p) => Space::of(p.open()?),
            Location::Simulated(d, _) => Ok(d.space()),
            Location::Device(d, _) => Ok(d.store()?.space()),
        }
    }

    /// The kind of file system.
    ///
    /// # Errors
    /// Errors of `statfs`.
    pub fn file_system(&self) -> io::Result<FileSystem> {
        match &self.location {
            Location::Real(p) => file_system(p.open()?),
            Location::Simulated(..) | Location::Device(..) => Ok(FileSystem::Disk),
        }
    }

    /// Whether the kernel says that the device below rotates, which it also says of many virtual disks. `None`: the file system
    /// is not on one block device, or nothing is known of it.
    #[must_use]
    pub fn rotates(&self) -> Option<bool> {
        let number = match &self.location {
            Location::Real(p) => rustix::fs::fstat(p.open().ok()?).ok()?.st_dev,
            Location::Device(d, _) if is_other_device(&d.path) => return None,
            Location::Device(d, _) => rustix::fs::stat(&d.path).ok()?.st_rdev,
            Location::Simulated(..) => return None,
        };
        facts(number)?.rotates()
    }

    /// Takes the exclusive lock of a file, until the result is dropped. `None`: another holder.
    /// A simulated folder has no locks.
    ///
    /// # Errors
    /// Errors of `open` or `flock`.
    pub fn lock(&self, name: &str) -> io::Result<Option<Lock>> {
        let p = match &self.location {
            Location::Simulated(..) => return Ok(Some(Lock(Held::Nothing))),
            Location::Device(d, prefix) => {
                // Other processes cannot open the device.
                let (store, name) = (d.store()?.clone(), format!("{prefix}{name}"));
                return Ok(store.lock(&name).then_some(Lock(Held::Name(store.clone(), name.clone()))));
            }
            Location::Real(p) => p,
        };
        let f = p.file(name, Purpose::Read, OFlags::empty())?;
        match rustix::fs::flock(&f, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(Held::File(f)))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Device and inode of a file, without opening it.
    ///
    /// # Errors
    /// `NotFound` or other errors of `stat`.
    pub fn identity(&self, name: &str) -> io::Result<(u64, u64)> {
        let _call = self.call();
        match &self.location {
            Location::Real(p) => p.identity(name),
            Location::Simulated(d, prefix) => Ok((0, d.open(&format!("{prefix}{name}"))?.number())),
            Location::Device(d, prefix) => {
                let store = d.store()?;
                Ok((store.id(), store.number(&format!("{prefix}{name}"))?))
            }
        }
    }
}

/// Holds the lock of a file: see [`Folder::lock`].
pub struct Lock(#[allow(dead_code, reason = "it is held")] Held);

enum Held {
    Nothing,
    File(#[allow(dead_code, reason = "the kernel unlocks it when it is closed")] File),
    Name(Arc<Store>, String),
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Held::Name(store, name) = self {
            store.unlock(name);
        }
    }
}
