//! Members that fail together, and members that are known to be gone.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ashlar_machine::DiskFile;

use super::rig::*;
use crate::{Device, Error, Group, GroupState, Level, Medium, MemberState, Plan};

/// A namespace of a drive.
struct Part {
    file: DiskFile,
    drive: String,
    gone: Arc<AtomicBool>,
}

impl Part {
    fn answer<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if self.gone.load(Ordering::Relaxed) { Err(io::ErrorKind::NotConnected.into()) } else { done }
    }
}

impl Medium for Part {
    fn size(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.answer(self.file.read_at(out, at))
    }

    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        self.answer(self.file.write_slices_at(slices, at))
    }

    fn flush(&self) -> io::Result<()> {
        self.answer(self.file.sync_data())
    }

    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn domain(&self) -> Option<String> {
        Some(self.drive.clone())
    }

    fn gone(&self) -> Option<String> {
        self.gone.load(Ordering::Relaxed).then(|| "it was pulled".into())
    }
}

struct Drives {
    rig: Rig,
    pulled: Vec<Arc<AtomicBool>>,
}

impl Drives {
    fn new(devices: usize) -> Drives {
        Drives { rig: Rig::new(devices), pulled: (0..devices).map(|_| Arc::default()).collect() }
    }

    /// Device `i`, on this drive.
    fn on(&self, i: usize, drive: usize) -> Device {
        let gone = self.pulled[drive].clone();
        let part = Part { file: self.rig.file(i), drive: format!("drive {drive}"), gone };
        Device { medium: Box::new(part), name: name(i) }
    }

    fn pull(&self, drive: usize, gone: bool) {
        self.pulled[drive].store(gone, Ordering::Relaxed);
    }

    /// A group of devices on these drives, in order.
    fn group(&self, level: Level, drives: &[usize], shared_domains: bool) -> Result<Group, Error> {
        let journal = 256 * B;
        let plan = Plan { name: "g".into(), level, strip: 4096, journal, shared_domains, ..Plan::default() };
        Group::create(&plan, drives.iter().enumerate().map(|(i, d)| self.on(i, *d)).collect(), vec![])
    }
}

#[test]
fn members_of_a_set_are_of_different_drives() {
    let drives = Drives::new(8);
    let shared = |device: usize, other: usize, drive: usize| {
        let (device, other) = (name(device), name(other));
        Some(Error::Domain { device, other, domain: format!("drive {drive}") })
    };
    // Devices of their own each time: a group leaves its signature.
    let made = |level, on: &[usize]| Drives::new(8).group(level, on, false).err();
    assert!(drives.group(Level::Raid5, &[0, 1, 1], false).is_err());
    assert_eq!(made(Level::Raid5, &[0, 1, 2, 1]), shared(3, 1, 1));
    assert_eq!(made(Level::Raid1, &[4, 4]), shared(1, 0, 4));
    assert_eq!(made(Level::Raid10, &[0, 1, 2, 2]), shared(3, 2, 2));
    // Nothing was written.
    assert!(Group::examine(drives.on(0, 0)).is_err());
    // A drive that is in each set once takes one member of each along; without redundancy there is nothing to protect.
    assert_eq!(made(Level::Raid10, &[0, 1, 1, 0]), None);
    assert_eq!(made(Level::Raid50 { sets: 2 }, &[0, 1, 2, 0, 1, 2]), None);
    assert_eq!(made(Level::Raid0, &[5, 5]), None);
    // Any two members of a declustered group have stripes together.
    let declustered = Level::Declustered { k: 1, m: 1, spares: 1 };
    assert_eq!(made(declustered, &[0, 1, 2, 3, 0]), shared(4, 0, 0));
    assert_eq!(made(declustered, &[0, 1, 2, 3, 4]), None);
    assert!(Drives::new(8).group(Level::Raid6, &[0, 0, 1, 1], true).is_ok());
}

#[test]
fn a_spare_of_another_drive_comes_first() {
    let drives = Drives::new(8);
    let mut group = drives.group(Level::Raid6, &[0, 1, 2, 3], false).unwrap();
    let other = group.apart(2, &drives.on(4, 2));
    assert_eq!(other, Ok(()), "the drive of the member that goes does not count");
    assert!(matches!(group.apart(2, &drives.on(4, 3)), Err(Error::Domain { .. })));
    // The last one would be taken.
    group.add_spare(drives.on(4, 5), false).unwrap();
    group.add_spare(drives.on(5, 6), false).unwrap();
    group.add_spare(drives.on(6, 3), false).unwrap();
    drives.pull(6, true);
    group.take_out(0).unwrap();
    assert_eq!(group.use_spare().unwrap(), Some(0));
    assert_eq!(group.members()[0].device, Some(name(4)));
    // One that shares a drive is better than none; one that is gone is of no use.
    group.take_out(1).unwrap();
    assert_eq!(group.use_spare().unwrap(), Some(1));
    assert_eq!(group.members()[1].domain, Some("drive 3".into()));
    while group.rebuild(16).unwrap().is_some() {}
    group.take_out(0).unwrap();
    assert_eq!(group.use_spare().unwrap(), None);
}

#[test]
fn a_drive_that_is_gone_is_noticed_without_requests() {
    let drives = Drives::new(6);
    let mut group = drives.group(Level::Raid60 { sets: 1 }, &[0, 1, 2, 3, 4], false).unwrap();
    group.write(0, &content(7)).unwrap();
    assert_eq!(group.drop_gone().unwrap(), []);
    drives.pull(2, true);
    assert_eq!(group.drop_gone().unwrap(), [2]);
    assert_eq!(group.state(), GroupState::PartiallyDegraded);
    assert!(group.members()[2].why.as_ref().unwrap().contains("pulled"));
    // The whole enclosure is away: the group waits for it.
    [0, 1, 3, 4].into_iter().for_each(|d| drives.pull(d, true));
    assert_eq!(group.drop_gone().unwrap(), []);
    assert_eq!(group.state(), GroupState::PartiallyDegraded);
    [0, 1, 3, 4].into_iter().for_each(|d| drives.pull(d, false));
    assert_eq!(identities(&mut group)[0], Some(7));
    // Two of one drive are gone at once.
    let shared = Drives::new(6);
    let mut group = shared.group(Level::Raid6, &[0, 1, 1, 2, 3], true).unwrap();
    shared.pull(1, true);
    assert_eq!(group.drop_gone().unwrap(), [1, 2]);
    assert_eq!(group.state(), GroupState::Degraded);
    // One that is being rebuilt is out of service already.
    group.replace(1, shared.on(5, 5), false).unwrap();
    shared.pull(5, true);
    assert_eq!(group.drop_gone().unwrap(), [1]);
    assert_eq!(group.superblock().slots[1].state, MemberState::Failed);
}
