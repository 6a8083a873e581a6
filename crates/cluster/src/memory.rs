//! A medium of the control store in memory: for tests, and for stores that need not be kept.
//!
//! Invariant: it keeps the contract of [`Medium`], and no operation fails; a test that needs failures wraps
//! it. Opening a second store over the same medium is a restart.
//!
//! Must not depend on: what the slots hold.

use std::io;
use std::sync::Arc;

use ashlar_format::DriveId;
use parking_lot::Mutex;

use crate::copy::Medium;

/// Two slots in memory.
#[derive(Default)]
pub struct MemoryMedium(Mutex<[Option<Vec<u8>>; 2]>);

impl MemoryMedium {
    /// The media of a store that has this one drive, whose id is 16 bytes of 1.
    #[must_use]
    pub fn as_only_drive(self: &Arc<Self>) -> Vec<(DriveId, Arc<dyn Medium>)> {
        vec![(DriveId([1; 16]), self.clone())]
    }

    /// The media of a store with one drive that nothing else uses.
    #[must_use]
    pub fn one_drive() -> Vec<(DriveId, Arc<dyn Medium>)> {
        Arc::new(MemoryMedium::default()).as_only_drive()
    }

    /// The bytes of both slots, one after the other: everything that the drive stores.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().iter().flatten().flatten().copied().collect()
    }

    /// Both slots.
    #[must_use]
    pub fn slots(&self) -> [Option<Vec<u8>>; 2] {
        self.0.lock().clone()
    }

    /// Replaces both slots, as if the drive was emptied or got the files of another one.
    pub fn set_slots(&self, slots: [Option<Vec<u8>>; 2]) {
        *self.0.lock() = slots;
    }
}

impl Medium for MemoryMedium {
    fn read(&self, slot: usize) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock()[slot].clone())
    }

    fn write(&self, slot: usize, bytes: &[u8]) -> io::Result<()> {
        self.0.lock()[slot] = Some(bytes.to_vec());
        Ok(())
    }
}
