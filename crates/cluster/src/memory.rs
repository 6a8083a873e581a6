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

/// Two slots and the log in memory.
#[derive(Default)]
pub struct MemoryMedium(Mutex<[Option<Vec<u8>>; 3]>);

/// The place of the log behind the two slots.
const LOG: usize = 2;

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

    /// The bytes of both slots and of the log, one after the other: everything that the drive stores.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().iter().flatten().flatten().copied().collect()
    }

    /// Both slots.
    #[must_use]
    pub fn slots(&self) -> [Option<Vec<u8>>; 2] {
        let [a, b, _] = self.0.lock().clone();
        [a, b]
    }

    /// Replaces both slots and removes the log, as if the drive was emptied or got the files of another one.
    pub fn set_slots(&self, slots: [Option<Vec<u8>>; 2]) {
        let [a, b] = slots;
        *self.0.lock() = [a, b, None];
    }

    /// Everything that the drive stores: both slots and the log.
    #[must_use]
    pub fn files(&self) -> [Option<Vec<u8>>; 3] {
        self.0.lock().clone()
    }

    /// Replaces everything that the drive stores.
    pub fn set_files(&self, files: [Option<Vec<u8>>; 3]) {
        *self.0.lock() = files;
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

    fn read_log(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock()[LOG].clone())
    }

    fn write_log(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut all = self.0.lock();
        let log = all[LOG].get_or_insert_default();
        let at = usize::try_from(at).map_err(io::Error::other)?;
        log.resize(log.len().max(at + bytes.len()), 0);
        log[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
