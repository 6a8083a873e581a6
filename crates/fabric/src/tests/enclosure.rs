//! An enclosure through the traits that NVMe uses: identities, faults, damage.

use std::path::Path;
use std::sync::Arc;

use ashlar_nvme_tcp::{Fault, Namespace, Subsystem, Subsystems as _};

use super::setup;
use crate::api::{Blocks, FaultSpec};
use crate::enclosure::Enclosure;
use crate::target::Target;
use crate::{Kind, identity};

const BLOCK: usize = 4096;

struct Rig {
    enclosure: Arc<Enclosure>,
}

impl Rig {
    fn new(folder: &Path, rest: &str) -> Rig {
        let text = format!("bays = 4\nseed = 5\nsync = false\n{rest}");
        Rig { enclosure: Arc::new(Enclosure::open(setup(folder, "data24", &text)).unwrap()) }
    }

    fn target(&self, port: usize) -> Target {
        Target { enclosure: self.enclosure.clone(), port, addresses: Arc::default(), hosts: None }
    }

    fn drive(&self, port: usize, bay: usize) -> Option<Arc<dyn Subsystem>> {
        self.target(port).open_for(&identity::nqn(&self.enclosure.setup, bay), "nqn.host")
    }

    fn space(&self, bay: usize, nsid: u32) -> Arc<dyn Namespace> {
        self.drive(0, bay).unwrap().namespace(nsid).unwrap()
    }

    fn inject(&self, fault: FaultSpec) -> u32 {
        self.enclosure.inject(&fault, &|_| {}).unwrap().id
    }

    fn clear(&self, ids: &[u32]) {
        self.enclosure.clear(ids, &|_| {}).unwrap();
    }
}

fn read(space: &dyn Namespace, block: u64, count: usize) -> Result<Vec<u8>, Fault> {
    let mut out = vec![0; count * BLOCK];
    space.read(block * BLOCK as u64, &mut out).map(|()| out)
}

fn write(space: &dyn Namespace, block: u64, count: usize, with: u8) {
    space.write(block * BLOCK as u64, vec![with; count * BLOCK], false).unwrap();
}

#[test]
fn reservations_of_a_namespace_are_the_same_at_all_ports() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"\nnamespaces = 2");
    let at = |port: usize, bay: usize, nsid: u32| {
        let space = rig.drive(port, bay).unwrap().namespace(nsid).unwrap();
        std::ptr::from_ref(space.reservations().unwrap()) as usize
    };
    assert_eq!(at(0, 2, 1), at(5, 2, 1));
    let all = [at(0, 1, 1), at(0, 1, 2), at(0, 2, 1), at(0, 2, 2)];
    assert!((0..4).all(|i| (0..i).all(|k| all[i] != all[k])));
    let none = [(0, 1), (1, 0), (1, 3), (5, 1)];
    assert!(none.iter().all(|(bay, nsid)| rig.enclosure.reservations(*bay, *nsid).is_none()));
}

#[test]
fn namespaces_of_a_drive_share_its_subsystem_and_serial_number() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"\nhours = 77\nspare = 5");
    let (a, b) = (rig.drive(0, 2).unwrap(), rig.drive(5, 2).unwrap());
    assert_eq!((a.nqn(), a.serial()), (b.nqn(), b.serial()));
    assert_eq!(a.namespaces(), [1, 2]);
    assert_ne!(a.serial(), rig.drive(0, 3).unwrap().serial());
    assert!(a.serial().ends_with("0002") && a.serial().len() <= 20 && a.model().len() <= 40);
    let of = |d: &dyn Subsystem, n| {
        let space = d.namespace(n).unwrap();
        (space.id(), space.eui64().unwrap())
    };
    assert_eq!(of(&*a, 1), of(&*b, 1));
    assert_ne!(of(&*a, 1).0, of(&*a, 2).0);
    assert_ne!(of(&*a, 1).1, of(&*a, 2).1);
    assert_eq!(a.namespace(1).unwrap().blocks(), 1024);
    write(&*a.namespace(1).unwrap(), 3, 2, 7);
    assert_eq!(read(&*b.namespace(1).unwrap(), 3, 1).unwrap(), vec![7; BLOCK]);
    let health = a.health().unwrap();
    assert_eq!((health.hours, health.spare, health.critical_warning), (77, 5, 1));
    assert_eq!((health.writes, health.bytes_written, health.reads), (1, 8192, 1));
    assert_eq!(health.kelvins, 308);
}

#[test]
fn data_and_identities_stay_and_another_set_up_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let small = "[drive]\ncapacity = \"8MiB\"";
    let rig = Rig::new(folder.path(), small);
    write(&*rig.space(1, 2), 9, 1, 42);
    let id = rig.space(1, 2).id();
    let twice = Enclosure::open(rig.enclosure.setup.clone()).map(drop).unwrap_err();
    assert_eq!(twice.kind, Kind::Conflict);
    drop(rig);
    let rig = Rig::new(folder.path(), small);
    assert_eq!((rig.space(1, 2).id(), read(&*rig.space(1, 2), 9, 1).unwrap()), (id, vec![42; BLOCK]));
    drop(rig);
    let other = setup(folder.path(), "data24", "bays = 4\nseed = 6\n[drive]\ncapacity = \"8MiB\"");
    let error = Enclosure::open(other).map(drop).unwrap_err();
    assert!(error.kind == Kind::Conflict && error.message.contains("another set-up"), "{error}");
}

#[test]
fn drive_that_is_pulled_fails_until_hosts_connect_again() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"");
    let (drive, space) = (rig.drive(0, 1).unwrap(), rig.space(1, 1));
    write(&*space, 0, 1, 1);
    let fault = rig.inject(FaultSpec::DriveGone { bay: 1 });
    assert!(!drive.in_service() && rig.drive(0, 1).is_none() && rig.drive(0, 2).is_some());
    assert_eq!(read(&*space, 0, 1), Err(Fault::Internal));
    rig.clear(&[fault]);
    // The connections of before the pull stay dead.
    assert!(!drive.in_service());
    assert_eq!(space.write(0, vec![9; BLOCK], false), Err(Fault::Internal));
    assert_eq!(read(&*rig.space(1, 1), 0, 1).unwrap(), vec![1; BLOCK]);
    let health = rig.drive(0, 1).unwrap().health().unwrap();
    assert_eq!((health.power_cycles, health.unsafe_shutdowns), (2, 1));
}

#[test]
fn write_that_waits_when_its_port_goes_down_never_takes_effect() {
    let folder = tempfile::tempdir().unwrap();
    // A write of a block takes seconds.
    let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"\nwrite_us = [[1, 3000000]]");
    let space = rig.space(1, 1);
    let writer = {
        let space = space.clone();
        std::thread::spawn(move || space.write(0, vec![9; BLOCK], false))
    };
    while rig.enclosure.model.lock().drives[0].depth(rig.enclosure.now()) == 0 {
        std::thread::yield_now();
    }
    let fault = rig.inject(FaultSpec::PortDown { port: "A1".into() });
    rig.clear(&[fault]);
    assert_eq!(writer.join().unwrap(), Err(Fault::Internal));
    assert_eq!(read(&*rig.space(1, 1), 0, 1).unwrap(), vec![0; BLOCK]);
}

#[test]
fn ports_follow_their_module_and_the_enclosure() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"");
    let up = || -> Vec<bool> { (0..6).map(|p| rig.drive(p, 1).is_some()).collect() };
    let port = rig.inject(FaultSpec::PortDown { port: "a2".into() });
    assert_eq!(up(), [true, false, true, true, true, true]);
    let module = rig.inject(FaultSpec::ModuleDown { module: "B".into() });
    assert_eq!(up(), [true, false, true, false, false, false]);
    let all = rig.inject(FaultSpec::EnclosureDown {});
    assert_eq!(up(), [false; 6]);
    rig.clear(&[all, module]);
    assert_eq!(up(), [true, false, true, true, true, true]);
    assert_eq!(rig.enclosure.clear(&[port, 99], &|_| {}).unwrap_err().kind, Kind::NotFound);
    assert_eq!(up(), [true, false, true, true, true, true], "a call that fails changes nothing");
    rig.clear(&[]);
    assert_eq!(up(), [true; 6]);
}

#[test]
fn lost_namespace_is_not_there_and_the_other_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"");
    let (drive, space) = (rig.drive(0, 3).unwrap(), rig.space(3, 2));
    rig.inject(FaultSpec::NamespaceLost { bay: 3, namespace: 2 });
    assert!(drive.namespaces() == [1] && drive.namespace(2).is_none() && drive.in_service());
    assert_eq!(read(&*space, 0, 1), Err(Fault::Gone));
    write(&*rig.space(3, 1), 0, 1, 1);
}

#[test]
fn pulled_drive_loses_what_it_had_not_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"\ncache = \"64KiB\"");
    let pull = || {
        let fault = rig.inject(FaultSpec::DriveGone { bay: 1 });
        rig.clear(&[fault]);
    };
    let (space, other) = (rig.space(1, 1), rig.space(1, 2));
    write(&*space, 0, 8, 1);
    write(&*other, 0, 2, 1);
    space.flush().unwrap();
    // Overwritten twice; zeroed; a new block; one with FUA.
    write(&*space, 0, 1, 2);
    write(&*space, 0, 1, 3);
    space.zero(BLOCK as u64, BLOCK as u64, false, false).unwrap();
    write(&*space, 9, 1, 3);
    space.write(2 * BLOCK as u64, vec![3; BLOCK], true).unwrap();
    assert_eq!(read(&*space, 0, 1).unwrap(), vec![3; BLOCK], "until it is pulled, it reads what was written");
    pull();
    let block = |n| read(&*rig.space(1, 1), n, 1).unwrap()[0];
    assert_eq!([0, 1, 2, 3, 9].map(block), [1, 1, 3, 1, 0]);
    // The flush of a namespace is not that of the other one.
    assert_eq!(read(&*rig.space(1, 2), 0, 2).unwrap(), vec![0; 2 * BLOCK]);
    // Sixteen blocks fit; older ones go to the medium.
    write(&*rig.space(1, 1), 100, 40, 7);
    pull();
    let all = read(&*rig.space(1, 1), 100, 40).unwrap();
    assert!(all[..24 * BLOCK] == vec![7; 24 * BLOCK] && all[24 * BLOCK..] == vec![0; 16 * BLOCK]);
    let state = crate::describe::state(&rig.enclosure, vec![None; 6], None);
    assert_eq!(state.drives[0].unflushed_blocks, 3 + 2 + 16);
    // Ports that go down leave the power on.
    write(&*rig.space(1, 1), 0, 1, 8);
    let fault = rig.inject(FaultSpec::EnclosureDown {});
    rig.clear(&[fault]);
    assert_eq!(block(0), 8);
}

#[test]
fn share_of_the_cache_that_is_lost_is_the_same_in_every_run() {
    let run = || {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"\ncache = \"1MiB\"\ncache_lost = 0.5");
        write(&*rig.space(1, 1), 0, 200, 7);
        rig.inject(FaultSpec::DriveGone { bay: 1 });
        rig.clear(&[]);
        let all = read(&*rig.space(1, 1), 0, 200).unwrap();
        all.chunks(BLOCK).map(|b| b == [0; BLOCK]).collect::<Vec<bool>>()
    };
    let lost = run();
    assert!((60..140).contains(&lost.iter().filter(|l| **l).count()), "{lost:?}");
    assert_eq!(lost, run());
}

fn lost(rate: f64, times: Option<u32>) -> FaultSpec {
    let blocks = Blocks { rate, times, first: 16, last: Some(271), seed: Some(8), limit: None };
    FaultSpec::LostWrite { bay: 2, namespace: 1, blocks }
}

#[test]
fn lost_writes_are_the_same_in_every_run() {
    let run = || {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"");
        let space = rig.space(2, 1);
        write(&*space, 0, 512, 1);
        rig.inject(lost(0.1, None));
        write(&*space, 0, 512, 2);
        let all = read(&*space, 0, 512).unwrap();
        let old: Vec<u64> =
            (0..512).filter(|b| all[*b as usize * BLOCK..(*b as usize + 1) * BLOCK] == [1; BLOCK]).collect();
        let fault = &rig.enclosure.faults().list()[0];
        assert_eq!((fault.hits, &fault.blocks_hit), (old.len() as u64, &old));
        // Once each: the next write is stored.
        write(&*space, 0, 512, 3);
        assert_eq!(read(&*space, 0, 512).unwrap(), vec![3; 512 * BLOCK]);
        // A namespace beside it loses nothing.
        write(&*rig.space(2, 2), 0, 512, 4);
        assert_eq!(read(&*rig.space(2, 2), 0, 512).unwrap(), vec![4; 512 * BLOCK]);
        old
    };
    let old = run();
    assert!((10..45).contains(&old.len()) && old.iter().all(|b| (16..=271).contains(b)), "{old:?}");
    assert_eq!(old, run());
}

#[test]
fn writes_can_be_lost_always_also_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"");
    let space = rig.space(2, 1);
    write(&*space, 0, 300, 1);
    rig.inject(lost(1.0, Some(0)));
    write(&*space, 0, 300, 2);
    space.zero(0, 300 * BLOCK as u64, false, false).unwrap();
    space.trim(0, 300 * BLOCK as u64).unwrap();
    let all = read(&*space, 0, 300).unwrap();
    for (block, bytes) in all.chunks(BLOCK).enumerate() {
        let wanted = u8::from((16..=271).contains(&block));
        assert!(bytes.iter().all(|b| *b == wanted), "{block}");
    }
}

#[test]
fn lost_and_corrupt_blocks_are_counted_up_to_their_limit() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"");
    let space = rig.space(1, 1);
    let blocks = Blocks { limit: Some(3), times: Some(0), ..Blocks::default() };
    rig.inject(FaultSpec::LostWrite { bay: 1, namespace: 1, blocks: blocks.clone() });
    rig.inject(FaultSpec::CorruptRead { bay: 1, namespace: 1, blocks });
    write(&*space, 0, 8, 5);
    let first = read(&*space, 0, 8).unwrap();
    let second = read(&*space, 0, 8).unwrap();
    // The first three blocks are those that were never stored, and those that are damaged when they are read.
    assert!(
        first != second && second[..3 * BLOCK] == [0; 3 * BLOCK] && second[3 * BLOCK..] == [5; 5 * BLOCK]
    );
    assert_eq!(first[..3 * BLOCK].iter().map(|b| b.count_ones()).sum::<u32>(), 3);
    let state = crate::describe::state(&rig.enclosure, vec![None; 6], None);
    assert_eq!((state.drives[0].lost_blocks, state.drives[0].corrupt_blocks), (3, 3));
    assert_eq!(state.faults.iter().map(|f| f.hits).collect::<Vec<_>>(), [3, 3]);
    let page = crate::metrics::text(&state);
    for fault in ["corrupt-read", "lost-write"] {
        let wanted = format!("bay=\"1\",fault=\"{fault}\"");
        assert!(
            page.lines()
                .any(|l| l.contains("damaged_blocks_total") && l.contains(&wanted) && l.ends_with(" 3")),
            "{page}"
        );
    }
    let none = Blocks { limit: Some(0), ..Blocks::default() };
    let wrong = FaultSpec::LostWrite { bay: 1, namespace: 1, blocks: none };
    assert_eq!(rig.enclosure.inject(&wrong, &|_| {}).unwrap_err().kind, Kind::Invalid);
}

#[test]
fn corrupt_reads_flip_one_bit_of_the_same_blocks_until_they_are_written() {
    let run = || {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::new(folder.path(), "[drive]\ncapacity = \"8MiB\"");
        let space = rig.space(4, 2);
        write(&*space, 0, 512, 0);
        let blocks = Blocks { rate: 0.05, ..Blocks::default() };
        rig.inject(FaultSpec::CorruptRead { bay: 4, namespace: 2, blocks });
        let first = read(&*space, 0, 512).unwrap();
        assert_eq!(first, read(&*space, 0, 512).unwrap(), "until the block is written");
        let wrong: Vec<(usize, u32)> = first
            .chunks(BLOCK)
            .enumerate()
            .map(|(i, b)| (i, b.iter().map(|b| b.count_ones()).sum()))
            .filter(|w| w.1 > 0)
            .collect();
        assert!((10..50).contains(&wrong.len()) && wrong.iter().all(|w| w.1 == 1), "{wrong:?}");
        let (mended, other) = (wrong[0].0, wrong[1].0);
        write(&*space, mended as u64, 1, 0);
        assert_eq!(read(&*space, mended as u64, 1).unwrap(), vec![0; BLOCK]);
        assert_ne!(read(&*space, other as u64, 1).unwrap(), vec![0; BLOCK]);
        rig.clear(&[]);
        assert_eq!(read(&*space, 0, 512).unwrap(), vec![0; 512 * BLOCK]);
        first
    };
    assert_eq!(run(), run());
}
