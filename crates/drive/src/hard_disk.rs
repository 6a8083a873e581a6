//! Whether a drive is a hard disk: a device on which another place costs milliseconds, and so does a flush.
//!
//! The operator says so, or it is measured ([`DriveKind::Auto`], docs/decisions/0066-hard-disks.md): a drive is a hard disk if the kernel
//! says that its device rotates, which it also says of virtual disks, and if either no flush of the last [`FLUSHES`] took less than
//! [`FLUSH`], or half of some reads at places far from each other, when it was opened, took [`READ`] or longer.
//!
//! Invariants: a drive in memory is none; what is measured never makes a call fail.
//!
//! Must not depend on: what follows from it.

use crate::types::DriveKind;
use ashlar_machine::{FileSystem, Folder};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The number of flushes that are considered.
const FLUSHES: usize = 8;
/// The least time of a flush: most of a turn of a disk, and more than solid-state drives take at their best.
const FLUSH: Duration = Duration::from_millis(3);
/// The least time of a read at another place.
const READ: Duration = Duration::from_millis(2);
/// The number of reads when a drive is opened, and the least number that says something.
pub(crate) const READS: (usize, usize) = (5, 3);

/// What is known about a drive.
pub(crate) struct HardDisk {
    /// Whether it is to be measured.
    pub measured: bool,
    /// The answer.
    is: AtomicBool,
    /// Reads at other places were slow when it was opened.
    seeks: AtomicBool,
    /// The last flushes.
    flushes: Mutex<Flushes>,
}

#[derive(Default)]
struct Flushes {
    took: [Duration; FLUSHES],
    noted: usize,
}

impl HardDisk {
    pub fn new(kind: DriveKind, root: &Folder, medium: FileSystem) -> HardDisk {
        let disk = medium == FileSystem::Disk;
        HardDisk {
            measured: disk && kind == DriveKind::Auto && root.rotates() == Some(true),
            is: AtomicBool::new(disk && kind == DriveKind::Hdd),
            seeks: AtomicBool::new(false),
            flushes: Mutex::default(),
        }
    }

    /// Whether it is one, as far as is known.
    pub fn is(&self) -> bool {
        self.is.load(Ordering::Relaxed)
    }

    /// A flush of bytes that were written before it took so long.
    pub fn note_flush(&self, took: Duration) {
        if !self.measured {
            return;
        }
        let mut flushes = self.flushes.lock();
        let at = flushes.noted % FLUSHES;
        flushes.took[at] = took;
        flushes.noted += 1;
        let waits = flushes.noted >= FLUSHES && flushes.took.iter().all(|t| *t >= FLUSH);
        drop(flushes);
        self.is.store(waits || self.seeks.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Reads of a page each, at places far from each other, took so long.
    pub fn note_reads(&self, took: &mut [Duration]) {
        if !self.measured || took.len() < READS.1 {
            return;
        }
        took.sort_unstable();
        if took[took.len() / 2] >= READ {
            self.seeks.store(true, Ordering::Relaxed);
            self.is.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> HardDisk {
        HardDisk {
            measured: true,
            is: AtomicBool::new(false),
            seeks: AtomicBool::new(false),
            flushes: Mutex::default(),
        }
    }

    fn millis(all: &[u64]) -> Vec<Duration> {
        all.iter().map(|ms| Duration::from_millis(*ms)).collect()
    }

    #[test]
    fn drive_of_which_every_flush_is_slow_is_a_hard_disk() {
        let d = measured();
        for _ in 1..FLUSHES {
            d.note_flush(Duration::from_millis(8));
            assert!(!d.is(), "too few");
        }
        d.note_flush(Duration::from_millis(8));
        assert!(d.is());
        // One that is quick is enough, until it is forgotten.
        d.note_flush(Duration::from_micros(300));
        for _ in 1..FLUSHES {
            assert!(!d.is());
            d.note_flush(Duration::from_secs(1));
        }
        assert!(!d.is());
        d.note_flush(Duration::from_millis(8));
        assert!(d.is());
    }

    #[test]
    fn drive_that_reads_slowly_at_other_places_is_a_hard_disk() {
        for (reads, is) in [
            (&[8, 9][..], false),
            (&[8, 9, 8], true),
            (&[0, 0, 9], false),
            (&[0, 0, 9, 9, 9], true),
            (&[0, 1, 1, 9, 9], false),
        ] {
            let d = measured();
            d.note_reads(&mut millis(reads));
            assert_eq!(d.is(), is, "{reads:?}");
            d.note_flush(Duration::ZERO);
            assert_eq!(d.is(), is, "a cache for writes changes nothing: {reads:?}");
        }
    }

    #[test]
    fn operator_decides_and_memory_is_no_disk() {
        let folder = tempfile::tempdir().unwrap();
        let root = Folder::real(folder.path(), None);
        let new = |kind, medium| HardDisk::new(kind, &root, medium);
        assert!(new(DriveKind::Hdd, FileSystem::Disk).is());
        for d in [
            new(DriveKind::Hdd, FileSystem::Memory),
            new(DriveKind::Auto, FileSystem::Memory),
            new(DriveKind::Ssd, FileSystem::Disk),
        ] {
            (0..2 * FLUSHES).for_each(|_| d.note_flush(Duration::from_millis(20)));
            d.note_reads(&mut millis(&[20; 5]));
            assert!(!d.is());
        }
    }
}
