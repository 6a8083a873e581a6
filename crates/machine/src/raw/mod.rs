//! Files on a block device without a file system: what a drive needs, and no more.
//!
//! * [`Store`]: names, places, space; how changes become durable.
//! * [`RawFile`]: reading and writing.
//! * [`RawDevice`]: what the device must do.
//! * [`open`]: the store on a device of the kernel, shared by all who name the device.
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
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

pub use device::RawDevice;
pub(crate) use file::RawFile;
pub(crate) use store::Store;

use crate::block::{Access, BlockDevice};

/// The stores that are open, by the numbers of their devices.
static OPEN: Mutex<BTreeMap<u64, Weak<Store>>> = Mutex::new(BTreeMap::new());

/// The store on a block device of the kernel. Links are followed.
///
/// # Errors
/// Of [`BlockDevice::open`] and [`Store::open`].
pub(crate) fn open(path: &Path) -> io::Result<Arc<Store>> {
    let mut open = OPEN.lock();
    let number = rustix::fs::stat(path)?.st_rdev;
    if let Some(store) = open.get(&number).and_then(Weak::upgrade) {
        return Ok(store);
    }
    let device = BlockDevice::open(&path.canonicalize()?, Access::Alone)?;
    let store = Store::open(Box::new(device))?;
    open.insert(number, Arc::downgrade(&store));
    Ok(store)
}
