//! What is served: block devices with names.
//!
//! Must not depend on: the protocol.

use std::sync::Arc;

/// Why a request failed, as far as NBD can say it to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The device failed.
    Io,
    /// The device is not there any more.
    Gone,
    /// There is no space for the data.
    NoSpace,
    /// The request does not fit the device.
    Invalid,
}

/// A piece of a device: how its blocks are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Bytes.
    pub len: u64,
    /// False: it reads as zeros and has no space.
    pub data: bool,
}

/// A block device. Calls come from several threads at once; ranges are inside of [`Device::size`].
pub trait Device: Send + Sync {
    /// Bytes.
    fn size(&self) -> u64;

    /// The smallest, the preferred and the largest request, in bytes. The first two are powers of two.
    fn block_sizes(&self) -> (u32, u32, u32) {
        (1, 4096, crate::MAX_PAYLOAD)
    }

    /// By what the device is known, whatever its name: the same after every restart. None: by nothing else.
    fn identity(&self) -> Option<[u8; 16]> {
        None
    }

    /// Whether changes are refused.
    fn read_only(&self) -> bool {
        false
    }

    /// Fills `out` with what is at `at`.
    ///
    /// # Errors
    /// [`Fault`].
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault>;

    /// Writes; `durable`: before the return (FUA).
    ///
    /// # Errors
    /// [`Fault`].
    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault>;

    /// Makes every write that has returned durable, whichever connection it came from.
    ///
    /// # Errors
    /// [`Fault`].
    fn flush(&self) -> Result<(), Fault>;

    /// Makes a range read as zeros. `keep`: its space stays allocated, if the device can do that.
    ///
    /// # Errors
    /// [`Fault`].
    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault>;

    /// The content of a range is not needed any more.
    ///
    /// # Errors
    /// [`Fault`].
    fn trim(&self, at: u64, len: u64, durable: bool) -> Result<(), Fault>;

    /// How a range is stored: at most `most` pieces from `at` on, at least one; they may end before the range does.
    ///
    /// # Errors
    /// [`Fault`].
    fn extents(&self, at: u64, len: u64, most: usize) -> Result<Vec<Extent>, Fault>;
}

/// A device with its name.
#[derive(Clone)]
pub struct Export {
    /// The name that clients ask for, in its full form.
    pub name: String,
    /// For people.
    pub description: String,
    /// The device.
    pub device: Arc<dyn Device>,
}

/// The devices that are served. They may change at any time; a connection keeps the device that it opened.
pub trait Exports: Send + Sync {
    /// Names and descriptions.
    fn list(&self) -> Vec<(String, String)>;

    /// The export of a name. The empty name is that of the default export, if there is one.
    fn open(&self, name: &str) -> Option<Export>;
}
