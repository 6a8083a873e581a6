//! A simulated drive without threads, for the tests inside of this crate.

use crate::{Drive, Label, Options, Role};
use ashlar_format::{DeploymentId, DriveId, GroupId};
use ashlar_machine::{BufferPool, Folder, SimDisk};

/// A drive with this role in the default group, and segments of so many bytes: extents and journal.
pub(crate) fn simulated_drive(role: Role, extents: u64, journal: u64) -> (SimDisk, Drive) {
    let disk = SimDisk::new(256 << 20);
    let folder = Folder::simulated(&disk, None);
    let label = Label { deployment: DeploymentId([7; 16]), drive: DriveId([1; 16]), created_ms: 0 };
    crate::format_folder(&folder, &label, &[(GroupId::default(), role)], journal).unwrap();
    let mut o = Options::new(BufferPool::new(64 << 20));
    (o.segment_bytes, o.journal_segment_bytes, o.reserve_bytes) = (extents, journal, 1 << 20);
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    (disk, d)
}
