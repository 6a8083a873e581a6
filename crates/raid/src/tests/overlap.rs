//! Threads whose batches overlap, with members that hold requests back until somebody else has come so far.

use std::sync::Arc;
use std::time::Duration;

use ashlar_machine::Operation;
use parking_lot::{Condvar, Mutex};

use super::rig::*;
use super::waiting::Watched;
use crate::{Device, Group, Level, Plan, Policy, Shared, VirtualDrive};

/// A test that waits so long has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// What members do now, and what they hold back.
#[derive(Default)]
struct Held {
    /// Writes that are let through before others wait; none: all.
    writes: Option<usize>,
    flushes: Option<usize>,
    /// Members whose reads wait.
    reads_of: &'static [usize],
    /// Requests that wait, and those that have come, of each kind.
    waiting: usize,
    reads: usize,
}

#[derive(Default)]
struct Gate {
    held: Mutex<Held>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self, member: usize, operation: Operation) {
        let mut held = self.held.lock();
        held.reads += usize::from(operation == Operation::Read);
        self.changed.notify_all();
        held.waiting += 1;
        let stays = |held: &mut Held| {
            let left = match operation {
                Operation::Write => &mut held.writes,
                Operation::Sync => &mut held.flushes,
                Operation::Read => return held.reads_of.contains(&member),
                _ => return false,
            };
            match left {
                Some(0) => true,
                Some(left) => {
                    *left -= 1;
                    false
                }
                None => false,
            }
        };
        let late = self.changed.wait_while_for(&mut held, stays, LIMIT).timed_out();
        held.waiting -= 1;
        self.changed.notify_all();
        assert!(!late, "nobody let it go");
    }

    fn set(&self, change: impl FnOnce(&mut Held)) {
        change(&mut self.held.lock());
        self.changed.notify_all();
    }

    fn until(&self, what: &str, is: impl Fn(&Held) -> bool) {
        let mut held = self.held.lock();
        let late = self.changed.wait_while_for(&mut held, |held| !is(held), LIMIT).timed_out();
        assert!(!late, "{what}");
    }
}

/// RAID 5 of four members that wait, with content in every block.
fn group(policy: Policy) -> (Rig, Arc<Shared>, VirtualDrive, Arc<Gate>) {
    group_that_gathers(policy, (crate::pipeline::GATHERED, LIMIT))
}

/// The same; a request to the journals waits for so many blocks per member, and so long.
fn group_that_gathers(
    policy: Policy,
    gathers: (usize, Duration),
) -> (Rig, Arc<Shared>, VirtualDrive, Arc<Gate>) {
    let (rig, gate) = (Rig::new(4), Arc::new(Gate::default()));
    let device = |i| {
        let gate = gate.clone();
        let before = move |operation| gate.pass(i, operation);
        Device { medium: Box::new(Watched { file: rig.file(i), waits: true, before }), name: name(i) }
    };
    let (level, strip, journal) = (Level::Raid5, 4096, 256 * B);
    let plan = Plan { name: "g".into(), level, strip, policy, journal, ..Plan::default() };
    let mut group = Group::create(&plan, (0..4).map(device).collect(), vec![]).unwrap();
    let all: Vec<u8> = (1..=36).flat_map(content).collect();
    group.write(0, &all).unwrap();
    group.checkpoint().unwrap();
    group.create_volume("v", None).unwrap();
    group.gathers = gathers;
    let shared = Shared::new(group);
    let drive = shared.volume("v").unwrap();
    (rig, shared, drive, gate)
}

fn block(drive: &VirtualDrive, block: u64) -> Option<u64> {
    let mut out = vec![0; B as usize];
    drive.read(block * B, &mut out).unwrap();
    identity(&out)
}

/// The members read for the next batch while the journals of the one before are flushed; and neither is answered before its flush.
#[test]
fn the_next_batch_is_read_while_the_journals_are_flushed() {
    let (_rig, shared, drive, gate) = group(Policy::Journal);
    gate.set(|held| held.flushes = Some(0));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| drive.write(0, content(100)).unwrap());
        gate.until("the first is at its flush", |held| held.waiting == 2);
        let before = gate.held.lock().reads;
        let second = scope.spawn(|| drive.write(12 * B, content(101)).unwrap());
        gate.until("the second has read", |held| held.reads >= before + 2);
        // A read of what the first one changes waits for it too.
        let read = scope.spawn(|| block(&drive, 0));
        assert_eq!(block(&drive, 20), Some(21), "others do not wait");
        assert!(!first.is_finished() && !second.is_finished() && !read.is_finished());
        gate.set(|held| held.flushes = None);
        assert_eq!(read.join().unwrap(), Some(100));
    });
    assert_eq!([block(&drive, 0), block(&drive, 12)], [Some(100), Some(101)]);
    shared.with(|group| {
        assert_eq!(group.check(0, u64::MAX, crate::Repair::StopOnError).unwrap().mismatches, [])
    });
}

/// With a journal a write is answered before its blocks are in place: it is read from memory, also by the write that follows it in its row. Whoever
/// wants the group alone waits until they are.
#[test]
fn what_is_not_in_place_is_read_from_memory() {
    let (_rig, shared, drive, gate) = group(Policy::Journal);
    // The parts in two journals go through.
    gate.set(|held| held.writes = Some(2));
    drive.write(0, content(100)).unwrap();
    gate.until("both blocks are on their way in place", |held| held.waiting == 2);
    assert_eq!(block(&drive, 0), Some(100));
    std::thread::scope(|scope| {
        let alone = scope.spawn(|| shared.with(|group| group.is_idle()));
        gate.set(|held| held.writes = Some(2));
        gate.until("they are in place", |held| held.waiting == 0);
        assert!(alone.join().unwrap(), "something was under way");
    });
    gate.set(|held| held.writes = Some(2));
    drive.write(0, content(102)).unwrap();
    std::thread::scope(|scope| {
        // The parity of the next one is made of what is not in place.
        let next = scope.spawn(|| drive.write(B, content(103)).unwrap());
        gate.until("its parts wait", |held| held.waiting == 4);
        gate.set(|held| held.writes = None);
        next.join().unwrap();
    });
    let found = [block(&drive, 0), block(&drive, 1), block(&drive, 2)];
    assert_eq!(found, [Some(102), Some(103), Some(3)]);
    shared.with(|group| {
        assert_eq!(group.check(0, u64::MAX, crate::Repair::StopOnError).unwrap().mismatches, []);
        group.take_out(0).unwrap();
        assert_eq!(identities(group)[..3], found);
    });
}

/// Without a journal a write is answered when it is in place, and a flush waits for all of them.
#[test]
fn without_a_journal_answers_wait_for_their_blocks() {
    for policy in [Policy::Bitmap, Policy::None] {
        let (_rig, _shared, drive, gate) = group(policy);
        drive.write(24 * B, content(99)).unwrap();
        gate.set(|held| held.writes = Some(0));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| drive.write(0, content(100)).unwrap());
            gate.until("the first is on its way", |held| held.waiting == 2);
            let second = scope.spawn(|| drive.write(12 * B, content(101)).unwrap());
            gate.until("the second too", |held| held.waiting == 4);
            let flush = scope.spawn(|| drive.flush().unwrap());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!first.is_finished() && !second.is_finished() && !flush.is_finished());
            gate.set(|held| held.writes = None);
        });
        assert_eq!([block(&drive, 0), block(&drive, 12)], [Some(100), Some(101)], "{policy:?}");
    }
}

/// Writes of one block, one after the other, while older contents of it are still on their way in place: the last one stays.
#[test]
fn the_last_write_of_a_block_stays() {
    // With threads enough that the journals wait for some of them, too.
    for (policy, gathers) in [(Policy::Journal, 16), (Policy::Journal, 1), (Policy::None, 16)] {
        let (rig, shared, drive, _gate) = group_that_gathers(policy, (gathers, LIMIT));
        std::thread::scope(|scope| {
            for writer in 0..6u64 {
                let drive = &drive;
                // Neighbours in two rows, so that parity is shared.
                scope.spawn(move || {
                    for turn in 1..60 {
                        drive.write(writer * B, content(1000 * turn + writer)).unwrap();
                        assert_eq!(block(drive, writer), Some(1000 * turn + writer));
                    }
                });
            }
            for _ in 0..20 {
                shared.with(|group| group.checkpoint().unwrap());
            }
        });
        shared.with(|group| group.close().unwrap());
        drop((drive, shared));
        let mut group = Group::open(rig.devices(0..4), false).unwrap();
        let found = identities(&mut group);
        let last = (59_000..59_006).map(Some).collect::<Vec<_>>();
        assert_eq!(found[..6], last, "{policy:?}");
        assert_eq!(group.check(0, u64::MAX, crate::Repair::StopOnError).unwrap().mismatches, []);
        assert_eq!(group.counters().corrected, 0);
    }
}

/// Four writes that read from two members each: the third is staged, while the others wait for theirs.
fn four_writes(shared: &Shared, drive: &VirtualDrive, gate: &Gate, during: impl FnOnce(&dyn Fn() -> bool)) {
    gate.set(|held| held.reads_of = &[0, 1, 2, 3]);
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            (0..4).map(|i| scope.spawn(move || drive.write(i * 9 * B, content(100 + i)).unwrap())).collect();
        while shared.coming() < 4 {
            std::thread::yield_now();
        }
        // Each reads the other data of its row: the third from the members 3 and 0, the others from 1 or 2.
        gate.set(|held| held.reads_of = &[1, 2]);
        while shared.coming() == 4 {
            std::thread::yield_now();
        }
        during(&|| writers[2].is_finished());
        gate.set(|held| held.reads_of = &[]);
    });
    for i in 0..4 {
        assert_eq!(block(drive, i * 9), Some(100 + i));
    }
}

/// Writes for which is being read share a request to the journals with those that are staged already.
#[test]
fn the_journals_wait_for_writes_that_are_read_for() {
    let (_rig, shared, drive, gate) = group_that_gathers(Policy::Journal, (2, LIMIT));
    four_writes(&shared, &drive, &gate, |finished| {
        std::thread::sleep(Duration::from_millis(30));
        assert!(!finished());
    });
}

/// They do not wait for long: a member that does not answer holds up only those that read from it.
#[test]
fn the_journals_wait_for_a_limited_time() {
    let (_rig, shared, drive, gate) = group_that_gathers(Policy::Journal, (2, Duration::from_millis(1)));
    four_writes(&shared, &drive, &gate, |finished| {
        let begun = std::time::Instant::now();
        while !finished() {
            assert!(begun.elapsed() < LIMIT, "nothing was answered");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Nor when somebody wants the group alone.
#[test]
fn the_journals_do_not_wait_while_somebody_wants_the_group_alone() {
    let (_rig, shared, drive, gate) = group_that_gathers(Policy::Journal, (2, LIMIT));
    four_writes(&shared, &drive, &gate, |_| shared.with(|group| assert!(group.is_idle())));
}
