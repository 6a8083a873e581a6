//! How many requests members get for one request of a client, and that those of a step are under way together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ashlar_machine::Operation;
use parking_lot::{Condvar, Mutex};

use super::rig::*;
use super::waiting::{How, Watched};
use crate::{Device, Group, Level, MemberState, Plan, Policy, Request, Shared};

/// What all members of a group were asked.
#[derive(Default)]
struct Asked {
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
}

const KIB: u64 = 1024;

/// RAID 5 of 8 with strips of 64 KiB, four stripes of which hold data, and what its members are asked.
fn group() -> (Rig, Group, Arc<Asked>) {
    let rig = Rig::with(8, 16 + 256 + 2 + 80 + 14);
    let asked = Arc::new(Asked::default());
    let device = |i| {
        let asked = asked.clone();
        let before = move |step| {
            let count = match step {
                Operation::Read => &asked.reads,
                Operation::Write => &asked.writes,
                _ => &asked.flushes,
            };
            count.fetch_add(1, Ordering::Relaxed);
        };
        Device { medium: Box::new(Watched { file: rig.file(i), waits: false, before }), name: name(i) }
    };
    let plan = Plan {
        name: "g".into(),
        level: Level::Raid5,
        strip: 64 * KIB,
        policy: Policy::Journal,
        journal: 256 * B,
        ..Plan::default()
    };
    let mut group = Group::create(&plan, (0..8).map(device).collect(), vec![]).unwrap();
    let all: Vec<u8> = (0..4 * 7 * 16).flat_map(|i| content(i + 1)).collect();
    group.write(0, &all).unwrap();
    group.checkpoint().unwrap();
    (rig, group, asked)
}

/// Reads, writes and flushes of members.
fn counted(asked: &Asked, work: impl FnOnce()) -> (u64, u64, u64) {
    let seen = || {
        let of = |c: &AtomicU64| c.load(Ordering::Relaxed);
        (of(&asked.reads), of(&asked.writes), of(&asked.flushes))
    };
    let before = seen();
    work();
    let after = seen();
    (after.0 - before.0, after.1 - before.1, after.2 - before.2)
}

#[test]
fn a_write_asks_each_member_once_per_step() {
    let cases = [
        // Data and parity: one member each.
        (0, 4 * KIB, (2, 4, 2)),
        // Two strips of one stripe, and the parity.
        (0, 128 * KIB, (3, 6, 3)),
        // Parts of three strips.
        (60 * KIB, 128 * KIB, (4, 8, 4)),
        // The end of one stripe and the start of the next: each of the two members has data of one and the parity of the other.
        (384 * KIB, 128 * KIB, (2, 4, 2)),
        // A whole stripe reads nothing.
        (448 * KIB, 448 * KIB, (0, 16, 8)),
    ];
    for (at, len, expected) in cases {
        let (_rig, mut group, asked) = group();
        let data: Vec<u8> = (0..len / B).flat_map(|i| content(1000 + i)).collect();
        let found = counted(&asked, || group.write(at, &data).unwrap());
        println!("write of {len} at {at}: {found:?}");
        assert_eq!(found, expected, "write of {len} at {at}");
        let mut back = vec![0; data.len()];
        group.read(at, &mut back).unwrap();
        assert!(back == data, "write of {len} at {at}");
    }
}

#[test]
fn writes_of_a_batch_are_one_step() {
    let (_rig, mut group, asked) = group();
    let data: Vec<u8> = (0..7 * 16).flat_map(|i| content(1000 + i)).collect();
    let parts: Vec<&[u8]> = data.chunks(64 * KIB as usize).collect();
    let requests: Vec<_> =
        parts.iter().zip(0..).map(|(data, i)| Request::Write { at: i * 64 * KIB, data }).collect();
    let found = counted(&asked, || {
        group.apply(&requests).into_iter().for_each(Result::unwrap);
    });
    println!("{found:?}");
    assert_eq!(found, (8, 16, 8), "each of the eight members is read once, and written twice");
    let mut back = vec![0; data.len()];
    group.read(0, &mut back).unwrap();
    assert!(back == data);
}

#[test]
fn a_read_asks_each_member_once() {
    let (_rig, mut group, asked) = group();
    for (at, len, expected) in
        [(0, 4 * KIB, 1), (2 * KIB, 3 * KIB, 1), (0, 128 * KIB, 2), (0, 448 * KIB, 7), (0, 1024 * KIB, 9)]
    {
        let mut out = vec![0; len as usize];
        let found = counted(&asked, || group.read(at, &mut out).unwrap());
        println!("read of {len} at {at}: {found:?}");
        assert_eq!(found, (expected, 0, 0), "read of {len} at {at}");
    }
    // Without a member its strip is made of the others, each of which is read once.
    group.take_out(0).unwrap();
    let mut out = vec![0; 448 * KIB as usize];
    let found = counted(&asked, || group.read(0, &mut out).unwrap());
    assert_eq!(found, (7, 0, 0));
    let expected: Vec<u8> = (0..7 * 16).flat_map(|i| content(i + 1)).collect();
    assert!(out == expected);
}

/// Requests of several threads that are one stripe together read nothing: they wait while the group is busy, and are merged.
#[test]
fn writes_that_wait_together_are_one() {
    let (_rig, mut group, asked) = group();
    group.create_volume("v", None).unwrap();
    let shared = Shared::new(group);
    let drive = shared.volume("v").unwrap();
    let data: Vec<u8> = (0..7 * 16).flat_map(|i| content(1000 + i)).collect();
    let found = counted(&asked, || {
        std::thread::scope(|scope| {
            shared.with(|_| {
                for (part, i) in data.chunks(64 * KIB as usize).zip(0..) {
                    let drive = &drive;
                    scope.spawn(move || drive.write(i * 64 * KIB, part.to_vec()).unwrap());
                }
                let begun = std::time::Instant::now();
                while shared.waiting() < 7 && begun.elapsed() < Duration::from_secs(60) {
                    std::thread::yield_now();
                }
            });
        });
    });
    assert_eq!(found, (0, 16, 8));
    let mut back = vec![0; data.len()];
    drive.read(0, &mut back).unwrap();
    assert!(back == data);
}

/// What is lost is an error of the request that needs it, not of those it was merged with.
#[test]
fn a_write_is_not_lost_with_its_neighbour() {
    let rig = Rig::new(4);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 4);
    let all: Vec<u8> = (0..24).flat_map(|i| content(i + 1)).collect();
    group.write(0, &all).unwrap();
    group.checkpoint().unwrap();
    group.create_volume("v", None).unwrap();
    // Two blocks of the first row: they cannot be made any more.
    for block in [1, 2] {
        let place = group.geometry().locate(block);
        let slot = group.geometry().slot(place.set, place.row, place.role);
        rig.disk.flip(&name(slot), (group.layout.data_start + place.row) * B, 1);
    }
    let shared = Shared::new(group);
    let drive = shared.volume("v").unwrap();
    let half = B as usize / 2;
    let (lost, fine) = std::thread::scope(|scope| {
        let (lost, fine) = shared.with(|_| {
            // The first needs the rest of its block, the second a whole row.
            let lost = scope.spawn(|| drive.write(B * 2 + half as u64, vec![7; half]));
            let fine = scope.spawn(|| drive.write(B * 3, vec![8; 3 * B as usize]));
            let begun = std::time::Instant::now();
            while shared.waiting() < 2 && begun.elapsed() < Duration::from_secs(60) {
                std::thread::yield_now();
            }
            (lost, fine)
        });
        (lost.join().unwrap(), fine.join().unwrap())
    });
    assert!(matches!(lost, Err(crate::Error::Lost { .. })));
    fine.unwrap();
    let mut back = vec![0; 3 * B as usize];
    drive.read(3 * B, &mut back).unwrap();
    assert!(back.iter().all(|b| *b == 8));
}

/// A block that is wrong where it was read before it is needed is corrected, whichever request of the batch needs it.
#[test]
fn wrong_blocks_are_found_before_they_are_needed() {
    for how in [How::InTurn, How::Submitted, How::OnThreads] {
        let rig = Rig::new(4).asked(how, 1);
        let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 4);
        for block in 0..24 {
            group.write(block * B, &content(block + 1)).unwrap();
        }
        group.checkpoint().unwrap();
        for block in [1, 9] {
            let place = group.geometry().locate(block);
            let slot = group.geometry().slot(place.set, place.row, place.role);
            rig.disk.flip(&name(slot), (group.layout.data_start + place.row) * B + 77, 1);
        }
        // The first needs the wrong block 1, and the parity that the second needs after it; the last writes half of the wrong block 9.
        let (one, two, half) = (content(100), content(101), vec![5; 2048]);
        let requests = [
            Request::Write { at: 0, data: &one },
            Request::Write { at: 2 * B, data: &two },
            Request::Write { at: 9 * B, data: &half },
        ];
        group.apply(&requests).into_iter().for_each(Result::unwrap);
        let mut out = vec![0; B as usize];
        group.read(9 * B, &mut out).unwrap();
        assert!(out[..2048] == half && out[2048..] == content(10)[2048..], "{how:?}");
        let found = identities(&mut group);
        assert_eq!(found[..4], [Some(100), Some(2), Some(101), Some(4)], "{how:?}");
        assert_eq!(group.check(0, u64::MAX, crate::Repair::StopOnError).unwrap().mismatches, []);
        group.take_out(1).unwrap();
        assert_eq!(identities(&mut group), found, "{how:?} without a member");
    }
}

/// Members that wait until several are asked at the same time, or for long.
#[derive(Default)]
struct Gate {
    wanted: AtomicUsize,
    inside: Mutex<usize>,
    changed: Condvar,
    most: AtomicUsize,
    alone: AtomicUsize,
}

impl Gate {
    /// Ends when as many as are wanted have been here at once.
    fn pass(&self) {
        let mut inside = self.inside.lock();
        *inside += 1;
        self.most.fetch_max(*inside, Ordering::Relaxed);
        self.changed.notify_all();
        let wanted = self.wanted.load(Ordering::Relaxed);
        let together = |_: &mut usize| self.most.load(Ordering::Relaxed) < wanted;
        let limit = Duration::from_secs(20);
        if self.changed.wait_while_for(&mut inside, together, limit).timed_out() {
            self.alone.fetch_add(1, Ordering::Relaxed);
        }
        *inside -= 1;
    }

    /// From now on so many are to be here at once.
    fn expect(&self, wanted: usize) {
        self.most.store(0, Ordering::Relaxed);
        self.wanted.store(wanted, Ordering::Relaxed);
    }
}

fn slow() -> (Rig, Group, Arc<Gate>, Arc<Gate>) {
    let rig = Rig::new(4);
    let (reads, writes) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
    let device = |i| {
        let (reads, writes) = (reads.clone(), writes.clone());
        let before = move |step| match step {
            Operation::Read => reads.pass(),
            Operation::Write => writes.pass(),
            _ => {}
        };
        Device { medium: Box::new(Watched { file: rig.file(i), waits: true, before }), name: name(i) }
    };
    let plan = Plan {
        name: "g".into(),
        level: Level::Raid5,
        strip: 4096,
        policy: Policy::Journal,
        journal: 256 * B,
        ..Plan::default()
    };
    let mut group = Group::create(&plan, (0..4).map(device).collect(), vec![]).unwrap();
    for block in 0..24 {
        group.write(block * B, &content(block + 1)).unwrap();
    }
    group.checkpoint().unwrap();
    (rig, group, reads, writes)
}

/// A step of a request asks all its members before it waits for one.
#[test]
fn members_that_wait_are_asked_together() {
    let (_rig, mut group, reads, writes) = slow();
    reads.expect(2);
    writes.expect(2);
    group.write(0, &content(100)).unwrap();
    reads.expect(3);
    let mut out = vec![0; 3 * B as usize];
    group.read(0, &mut out).unwrap();
    let alone = reads.alone.load(Ordering::Relaxed) + writes.alone.load(Ordering::Relaxed);
    assert_eq!(alone, 0, "a member was asked alone");
    assert_eq!(identity(&out[..B as usize]), Some(100));
}

/// What members can begin without waiting takes no thread, and is under way together.
#[test]
fn members_that_can_be_submitted_to_take_no_thread() {
    let rig = Rig::new(4).asked(How::Submitted, 1);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 4);
    for block in 0..24 {
        group.write(block * B, &content(block + 1)).unwrap();
    }
    // Several blocks of each member that are not adjacent, and one of which its member cannot be asked.
    let (one, other) = (content(100), content(101));
    let requests = [Request::Write { at: B, data: &one }, Request::Write { at: 13 * B, data: &other }];
    group.apply(&requests).into_iter().for_each(Result::unwrap);
    rig.faults[2].set_after(
        ashlar_machine::Operation::Read,
        ashlar_machine::Fault::Error(libc::EIO),
        0,
        u64::MAX,
    );
    let found = identities(&mut group);
    for block in 0..24u64 {
        let expected = match block {
            1 => 100,
            13 => 101,
            other => other + 1,
        };
        assert_eq!(found[block as usize], Some(expected));
    }
    assert_eq!(group.members()[2].state, MemberState::Failed);
    assert_eq!(group.pool.threads(), 0);
    assert!(rig.traffic.is_empty());
}

/// Reads of several threads are at the members at the same time.
#[test]
fn reads_run_at_the_same_time() {
    let (_rig, mut group, reads, _writes) = slow();
    group.create_volume("v", None).unwrap();
    let drive = Shared::new(group).volume("v").unwrap();
    reads.expect(4);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let drive = &drive;
            // All of one member: it has a request of each.
            scope.spawn(move || {
                let mut out = vec![0; B as usize];
                drive.read(12 * (i % 2) * B, &mut out).unwrap();
                assert_eq!(identity(&out), Some(12 * (i % 2) + 1));
            });
        }
    });
    assert_eq!(reads.alone.load(Ordering::Relaxed), 0, "a read was alone");
}

/// A read that was planned before its block changed, its member failed, or its virtual drive went, is right all the same.
#[test]
fn a_planned_read_is_overtaken() {
    let rig = Rig::new(4);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 4);
    for block in 0..24 {
        group.write(block * B, &content(block + 1)).unwrap();
    }
    let mut out = vec![0; 3 * B as usize];
    let read = |group: &mut Group, out: &mut [u8], meanwhile: &mut dyn FnMut(&mut Group)| {
        let plan = group.plan_read(B / 2, out.len()).unwrap();
        meanwhile(group);
        let done = plan.run(out);
        let whole = done.is_whole();
        group.finish_read(&plan, done, out).unwrap();
        whole
    };
    let identities = |out: &[u8]| -> Vec<_> {
        let half = B as usize / 2;
        out[half..].chunks_exact(B as usize).map(identity).collect()
    };
    assert!(read(&mut group, &mut out, &mut |_| {}));
    assert_eq!(identities(&out), [Some(2), Some(3)]);
    let change = &mut |g: &mut Group| g.write(B, &content(200)).unwrap();
    assert!(!read(&mut group, &mut out, change), "the block is another one");
    assert_eq!(identities(&out), [Some(200), Some(3)]);
    let fails = &mut |_: &mut Group| {
        let fault = ashlar_machine::Fault::Error(libc::EIO);
        rig.faults
            .iter()
            .take(1)
            .for_each(|f| f.set_after(ashlar_machine::Operation::Read, fault, 0, u64::MAX));
    };
    read(&mut group, &mut out, fails);
    assert_eq!(identities(&out), [Some(200), Some(3)]);
    // The first block was read of it, in part.
    assert_eq!(group.members()[0].state, MemberState::Failed);
    let change = &mut |g: &mut Group| g.write(2 * B, &content(201)).unwrap();
    read(&mut group, &mut out, change);
    assert_eq!(identities(&out), [Some(200), Some(201)], "without the member");
}
