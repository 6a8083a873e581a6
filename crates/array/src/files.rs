//! Members by their paths: how they are found, opened and locked. A path leads to a file or a block device, or is the address of a namespace.
//!
//! Invariants: a file or device is locked before its superblock is believed, and stays locked while it belongs to a group in service or
//! a new group is made of it; a path means the file that it led to when it was named. A block device that is locked is the one that is
//! used, whatever has its name later.
//!
//! Must not depend on: groups.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ashlar_machine::{Access, BlockDevice, DiskFile, Folder, Lock, has_holders, is_block_device};
use ashlar_raid::{Device, Group, Id, Superblock};

use crate::error::{Error, Kind};
use crate::remote::{self, Claim};

/// Entries of a folder that are looked at, at most.
const MAX_FILES: usize = 4096;

/// What keeps a drive from being used twice.
#[allow(dead_code, reason = "it is kept until the drive is not used any more")]
pub(crate) enum Hold {
    File(Lock),
    /// A block device, opened exclusively.
    Device(Arc<BlockDevice>),
    Namespace(Claim),
    /// Nothing: the block device that had the path is gone.
    Nothing,
}

impl Hold {
    /// Whether it is a block device that is gone.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Hold::Device(device) if device.gone().is_some())
    }
}

/// A file or block device that this process alone uses, or a namespace that it uses once.
pub(crate) struct Locked {
    pub(crate) path: PathBuf,
    pub(crate) lock: Hold,
}

/// The path by which a drive is known: links are followed; an address has its canonical form.
pub(crate) fn known_path(path: &Path) -> std::io::Result<PathBuf> {
    match remote::address(path) {
        Some(Ok(address)) => Ok(address.to_string().into()),
        Some(Err(e)) => Err(std::io::Error::new(ErrorKind::InvalidInput, e)),
        None => path.canonicalize(),
    }
}

fn parts(path: &Path) -> Result<(Folder, String, PathBuf), Error> {
    let shown = path.display();
    // Links are followed here, once.
    let path = path.canonicalize().map_err(|e| Error::io(&shown.to_string(), &e))?;
    let folder = path.parent().map(|p| Folder::real(p, None));
    let name = path.file_name().and_then(|n| n.to_str()).map(str::to_owned);
    match (folder, name) {
        (Some(folder), Some(name)) => Ok((folder, name, path)),
        _ => Err(Error::invalid(format!("{shown} is no file, or its name is not UTF-8"))),
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Error {
    if error.kind() == ErrorKind::InvalidInput {
        return Error::invalid(format!(
            "{} is not a regular file, and no block device either",
            path.display()
        ));
    }
    Error::io(&path.display().to_string(), error)
}

fn device_error(path: &Path, error: &std::io::Error) -> Error {
    let (shown, message) = (path.display(), error.to_string());
    match error.kind() {
        ErrorKind::ResourceBusy => Error::conflict(format!("{shown}: {message}")),
        ErrorKind::Unsupported => Error::invalid(format!("{shown}: {message}")),
        _ => Error::io(&shown.to_string(), error),
    }
}

/// The path of a block device without links, if it is one.
fn device_path(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| is_block_device(path))
}

/// Locks a file or a block device. The lock of a process that ended is gone with it.
pub(crate) fn lock(path: &Path) -> Result<Locked, Error> {
    if let Some(address) = remote::address(path) {
        let address = address?;
        let lock = Hold::Namespace(remote::claim(&address)?);
        return Ok(Locked { path: address.to_string().into(), lock });
    }
    if let Some(path) = device_path(path) {
        let device = BlockDevice::open(&path, Access::Alone).map_err(|e| device_error(&path, &e))?;
        return Ok(Locked { path, lock: Hold::Device(Arc::new(device)) });
    }
    let (folder, name, path) = parts(path)?;
    match folder.lock(&name).map_err(|e| refused(&path, &e))? {
        Some(lock) => Ok(Locked { path, lock: Hold::File(lock) }),
        None => Err(Error::conflict(format!(
            "{} is in use by another process, or twice by this one",
            path.display()
        ))),
    }
}

/// Opens what was locked for reading and writing; its name is its path.
pub(crate) fn open(locked: &Locked) -> Result<Device, Error> {
    let path = &locked.path;
    if let Hold::Device(device) = &locked.lock {
        return Ok(Device { medium: Box::new(device.clone()), name: path.display().to_string() });
    }
    if let Some(address) = remote::address(path) {
        return remote::open(&address?);
    }
    let (folder, name, path) = parts(path)?;
    let file = folder.open(&name, false).map_err(|e| refused(&path, &e))?;
    Ok(Device { medium: Box::new(file), name: path.display().to_string() })
}

fn open_read(path: &Path) -> Result<Device, Error> {
    if let Some(address) = remote::address(path) {
        return remote::open(&address?);
    }
    if let Some(path) = device_path(path) {
        let device = BlockDevice::open(&path, Access::Look).map_err(|e| device_error(&path, &e))?;
        return Ok(Device { medium: Box::new(Arc::new(device)), name: path.display().to_string() });
    }
    let (folder, name, path) = parts(path)?;
    let file: DiskFile = folder.open_read(&name).map_err(|e| refused(&path, &e))?;
    Ok(Device { medium: Box::new(file), name: path.display().to_string() })
}

/// What a file, a block device or a namespace says about its group. It may belong to a process.
pub(crate) fn examine(path: &Path) -> Result<(Superblock, Id), Error> {
    Ok(Group::examine(open_read(path)?)?)
}

/// What something that is locked says about its group.
pub(crate) fn examine_locked(locked: &Locked) -> Result<(Superblock, Id), Error> {
    match &locked.lock {
        Hold::Device(_) => Ok(Group::examine(open(locked)?)?),
        _ => examine(&locked.path),
    }
}

/// What an entry of a folder leads to, if it may be a member. Of several devices with the same bytes, as the paths of a multipath device, the
/// one that is made of the others counts. Devices that a process serves (ublk) are none: while it is away whoever reads them waits, and this
/// process may be the one that is waited for.
fn candidate(path: &Path) -> Option<PathBuf> {
    let whole = path.canonicalize().ok()?;
    let served = whole.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ublkb"));
    let may = whole.is_file() || !served && is_block_device(&whole) && !has_holders(&whole);
    may.then_some(whole)
}

/// The files and block devices that paths mean: these, and of folders those that are members of groups. `strict`: a path that does not exist
/// is an error; else it stays in the list.
pub(crate) fn expand(paths: &[PathBuf], strict: bool) -> Result<Vec<PathBuf>, Error> {
    let mut out: Vec<PathBuf> = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        if let Some(address) = remote::address(path) {
            // What there is behind it is known when it is opened.
            out.push(address?.to_string().into());
            continue;
        }
        let whole = match path.canonicalize() {
            Ok(whole) => whole,
            // A drive that is gone: what else there is can be used.
            Err(_) if !strict => {
                out.push(path.clone());
                continue;
            }
            Err(e) => return Err(Error::io(&shown, &e)),
        };
        if !whole.is_dir() {
            out.push(whole);
            continue;
        }
        let names = Folder::real(&whole, None).list().map_err(|e| Error::io(&shown, &e))?;
        if names.len() > MAX_FILES {
            return Err(Error::invalid(format!("{shown} has more than {MAX_FILES} files; name the drives")));
        }
        let before = out.len();
        let all: BTreeSet<PathBuf> = names.iter().filter_map(|n| candidate(&whole.join(n))).collect();
        out.extend(all.into_iter().filter(|path| examine(path).is_ok()));
        if out.len() == before && strict {
            return Err(Error::not_found(format!("{shown} has no drive of a drive group in it")));
        }
    }
    out.sort();
    out.dedup();
    Ok(out)
}

/// Makes a file of `size` bytes to be used as a drive, with its space.
///
/// # Errors
/// [`Kind::Conflict`] if something is there; the errors of the system.
pub fn make_file(path: &Path, size: u64) -> Result<(), Error> {
    let shown = path.display().to_string();
    let name = path.file_name().and_then(|n| n.to_str());
    let Some(name) = name else { return Err(Error::invalid(format!("{shown} is no name of a file"))) };
    if is_block_device(path) {
        return Err(Error::conflict(format!(
            "{shown} is a block device, which can be used as a drive as it is"
        )));
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = Folder::real(parent, None);
    let file = folder.create(name, false).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => Error::conflict(format!("{shown} is there already")),
        _ => Error::io(&shown, &e),
    })?;
    let made = file.allocate(size).and_then(|()| file.sync_all()).and_then(|()| folder.sync());
    made.map_err(|e| {
        // A file that is too short would only be in the way.
        let _ = folder.remove(name);
        Error::new(Kind::Failed, format!("{shown}: {e}"))
    })
}
