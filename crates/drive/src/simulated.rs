//! A simulated drive without threads, for the tests inside of this crate.

use crate::{Drive, Label, Options, Role};
use ashlar_format::{DeploymentId, DriveId, GroupId};
use ashlar_machine::{BufferPool, Folder, SimDisk};

/// A drive with this role in the default group, and segments of so many bytes: extents and journal.
pub(crate) fn simulated_drive(role: Role, extents: u64, journal: u64) -> (SimDisk, Drive) {
    let mut o = Options::new(BufferPool::new(64 << 20));
    (o.segment_bytes, o.journal_segment_bytes, o.reserve_bytes) = (extents, journal, 1 << 20);
    let disk = SimDisk::new(256 << 20);
    let d = formatted_drive(&Folder::simulated(&disk, None), role, &o, false);
    (disk, d)
}

/// A drive in an empty folder, opened with or without threads.
pub(crate) fn formatted_drive(folder: &Folder, role: Role, options: &Options, threads: bool) -> Drive {
    let label = Label { deployment: DeploymentId([7; 16]), drive: DriveId([1; 16]), created_ms: 0 };
    let groups = [(GroupId::default(), role)];
    crate::format_folder(folder, &label, &groups, options.journal_segment_bytes).unwrap();
    Drive::open_folder(folder, options, threads).unwrap()
}
