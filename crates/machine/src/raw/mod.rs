//! Files on a block device without a file system: what a drive needs, and no more.
//!
//! * [`Store`]: names, places, space; how changes become durable.
//! * [`RawFile`]: reading and writing.
//! * [`RawDevice`]: what the device must do.
//! * [`open`]: the store on a device, shared by all who name the device.
//! * [`use_other_devices`]: devices that the kernel does not know.
//!
//! Invariants: as of folders and files of a file system: nothing is durable before a sync, and after a loss of power everything is that was
//! synced. A device is opened once in a process, whatever names it has.
//!
//! Must not depend on: the content of files.

mod device;
mod file;
#[doc(hidden)]
pub mod fuzzed;
mod inode;
mod layout;
mod space;
mod state;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;

pub use device::RawDevice;
pub(crate) use file::RawFile;
pub(crate) use store::Store;

use crate::block::{Access, BlockDevice};

/// The stores that are open, by the numbers of their devices, or the paths of others.
static OPEN: Mutex<BTreeMap<Key, Slot>> = Mutex::new(BTreeMap::new());
/// Devices that the kernel does not know.
static OTHERS: OnceLock<OtherDevices> = OnceLock::new();

/// Whoever opens a device has its lock meanwhile.
type Slot = Arc<Mutex<Option<Weak<Store>>>>;

/// Time that the last user of a device may need to close it, in steps of 10 ms.
const CLOSING: u32 = 100;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    Path(PathBuf),
}

/// How a program opens devices that the kernel does not know, for instance namespaces of NVMe/TCP targets.
#[derive(Clone, Copy)]
pub struct OtherDevices {
    /// Whether a path means such a device.
    pub is: fn(&Path) -> bool,
    /// Opens one; the process must not have it twice.
    pub open: fn(&Path) -> io::Result<Box<dyn RawDevice>>,
}

/// Lets folders be on other devices than those of the kernel, from now on. Only the first call has an effect.
pub fn use_other_devices(how: OtherDevices) {
    let _ = OTHERS.set(how);
}

fn other(path: &Path) -> Option<&'static OtherDevices> {
    OTHERS.get().filter(|o| (o.is)(path))
}

/// Whether a path means a device that the kernel does not know ([`use_other_devices`]).
#[must_use]
pub fn is_other_device(path: &Path) -> bool {
    other(path).is_some()
}

/// The store on a device. Links to block devices are followed.
///
/// # Errors
/// Of opening the device, and of [`Store::open`].
pub(crate) fn open(path: &Path) -> io::Result<Arc<Store>> {
    let other = other(path);
    let key = match other {
        Some(_) => Key::Path(path.to_owned()),
        None => Key::Number(rustix::fs::stat(path)?.st_rdev),
    };
    let slot = OPEN.lock().entry(key).or_default().clone();
    let mut slot = slot.lock();
    if let Some(store) = slot.as_ref().and_then(Weak::upgrade) {
        return Ok(store);
    }
    let device = || -> io::Result<Box<dyn RawDevice>> {
        match other {
            Some(others) => (others.open)(path),
            None => Ok(Box::new(BlockDevice::open(&path.canonicalize()?, Access::Alone)?)),
        }
    };
    let mut opened = device();
    // The one that this process had may be about to be closed.
    for _ in 0..if slot.is_some() { CLOSING } else { 0 } {
        if !opened.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::ResourceBusy) {
            break;
        }
        ashlar_environment::thread::sleep(Duration::from_millis(10));
        opened = device();
    }
    let store = Store::open(opened?)?;
    *slot = Some(Arc::downgrade(&store));
    Ok(store)
}
