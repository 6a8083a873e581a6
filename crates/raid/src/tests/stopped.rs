//! Batches that do not end as they should: a panic in one, and members that fail in the middle. Nobody waits for ever, and what was
//! answered stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ashlar_machine::{Fault, Operation};

use super::rig::*;
use super::waiting::{How, Watched};
use crate::{Device, Error, Group, GroupState, Level, Plan, Policy, Shared, VirtualDrive};

/// A group with a virtual drive, and how many writes its members do before one of them panics.
fn broken(rig: &Rig, waits: bool) -> (Arc<Shared>, VirtualDrive, Arc<AtomicI64>) {
    let writes_left = Arc::new(AtomicI64::new(-1));
    let device = |i| {
        let writes_left = writes_left.clone();
        let before = move |step| {
            let panics = step == Operation::Write && writes_left.fetch_sub(1, Ordering::Relaxed) == 0;
            assert!(!panics, "a defect of the medium");
        };
        Device { medium: Box::new(Watched { file: rig.file(i), waits, before }), name: name(i) }
    };
    let (level, policy) = (Level::Raid5, Policy::Journal);
    let plan = Plan { name: "g".into(), level, strip: 4096, policy, journal: 256 * B, ..Plan::default() };
    let mut group = Group::create(&plan, (0..4).map(device).collect(), vec![]).unwrap();
    group.create_volume("v", None).unwrap();
    let shared = Shared::new(group);
    let drive = shared.volume("v").unwrap();
    (shared, drive, writes_left)
}

/// After a panic at any write of a batch the group stops: what it has in memory may be one half of a change. Were it to go on, later
/// entries of a journal could lie behind a gap, where no recovery finds them.
#[test]
fn a_group_stops_after_a_panic_in_a_batch() {
    for waits in [false, true] {
        for at in 0..6 {
            let rig = Rig::new(4);
            let (shared, drive, writes_left) = broken(&rig, waits);
            for block in 0..6 {
                drive.write(block * B, content(block + 1)).unwrap();
            }
            writes_left.store(at, Ordering::Relaxed);
            let results: Vec<Result<(), Error>> = std::thread::scope(|scope| {
                let write = |block: u64| {
                    let drive = &drive;
                    scope.spawn(move || drive.write(block * B, content(100 + block)))
                };
                let all: Vec<_> = (0..4).map(write).collect();
                all.into_iter().map(|t| t.join().expect("a panic is an error of the request")).collect()
            });
            // All of them may have been one batch, whose entry is on four members at most: the panic may be at a write in place, after the answers.
            let answered = results.iter().all(Result::is_ok);
            assert!(!answered || waits && at >= 2, "the panic was at a write of them");
            let begun = Instant::now();
            let mut later = drive.write(5 * B, content(6));
            while answered && later.is_ok() && begun.elapsed() < Duration::from_secs(60) {
                later = drive.write(5 * B, content(6));
            }
            writes_left.store(-1, Ordering::Relaxed);
            assert!(matches!(later, Err(Error::State(_))), "it went on: {later:?}");
            let mut out = vec![0; B as usize];
            assert!(drive.read(0, &mut out).is_err() && drive.flush().is_err());
            assert_eq!(shared.with(|g| g.state()), GroupState::Failed);
            drop((shared, drive));
            // Everything that was answered is there, and the parity is right.
            let mut group = Group::open(rig.devices(0..4), false).unwrap();
            let found = identities(&mut group);
            for (block, result) in (0..6).zip(results.iter().map(Some).chain([None, None])) {
                let (old, new) = (Some(block + 1), Some(100 + block));
                let is = found[block as usize];
                match result {
                    Some(Ok(())) => assert_eq!(is, new),
                    Some(Err(_)) => assert!(is == old || is == new, "{is:?}"),
                    None => assert_eq!(is, old),
                }
            }
            group.take_out(1).unwrap();
            assert_eq!(identities(&mut group), found);
        }
    }
}

/// So does a panic of whoever has the group in hand for something else.
#[test]
fn a_group_stops_after_a_panic_of_its_owner() {
    let rig = Rig::new(4);
    let (shared, drive, _) = broken(&rig, false);
    let work = || shared.with(|_| panic!("in the middle of a change"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
    assert!(matches!(drive.write(0, content(1)), Err(Error::State(_))));
}

/// More members fail in one step than the level tolerates: every thread gets an error, and what was answered is there when the members
/// are back.
#[test]
fn threads_hear_that_a_group_has_failed() {
    for how in [How::InTurn, How::Submitted, How::OnThreads] {
        for (on, after) in
            [(Operation::Write, 0), (Operation::Write, 1), (Operation::Sync, 0), (Operation::Sync, 2)]
        {
            let rig = Rig::new(4).asked(how, after + 1);
            let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 4);
            group.create_volume("v", None).unwrap();
            let shared = Shared::new(group);
            let drive = shared.volume("v").unwrap();
            for block in 0..12 {
                drive.write(block * B, content(block + 1)).unwrap();
            }
            for faults in &rig.faults[1..3] {
                faults.set_after(on, Fault::Error(libc::EIO), after, u64::MAX);
            }
            let answered: Vec<u64> = std::thread::scope(|scope| {
                let write = |writer: u64| {
                    let drive = &drive;
                    scope.spawn(move || {
                        // Until it fails: it does, as every stripe has a part on one of the two.
                        (1..)
                            .find(|turn| drive.write(writer * B, content(turn * 100 + writer)).is_err())
                            .unwrap()
                    })
                };
                let all: Vec<_> = (0..8).map(write).collect();
                all.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert_eq!(shared.with(|g| g.state()), GroupState::Failed);
            assert!(rig.traffic.is_empty(), "nothing is under way");
            drop((shared, drive));
            rig.faults.iter().for_each(|f| f.clear());
            let found = identities(&mut Group::open(rig.devices(0..4), false).unwrap());
            for (block, failed) in answered.into_iter().enumerate() {
                let block = block as u64;
                let last = if failed == 1 { block + 1 } else { (failed - 1) * 100 + block };
                let is = found[block as usize];
                assert!(
                    is == Some(last) || is == Some(failed * 100 + block),
                    "{how:?} {on:?}: {block} is {is:?}"
                );
            }
        }
    }
}

/// A group that is closed while threads write: each gets its answer or an error, and what was answered is there without a recovery.
#[test]
fn threads_hear_that_a_group_was_closed() {
    for how in [How::InTurn, How::Submitted, How::OnThreads] {
        let rig = Rig::new(4).asked(how, 1);
        let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 4);
        group.create_volume("v", None).unwrap();
        let shared = Shared::new(group);
        let drive = shared.volume("v").unwrap();
        let answered: Vec<u64> = std::thread::scope(|scope| {
            let write = |writer: u64| {
                let drive = &drive;
                scope.spawn(move || {
                    let fails = |turn: &u64| drive.write(writer * B, content(turn * 100 + writer)).is_err();
                    (1..).find(fails).unwrap() - 1
                })
            };
            let all: Vec<_> = (0..6).map(write).collect();
            // Some writes first.
            let mut out = vec![0; B as usize];
            while identity(&out) == Some(0) {
                drive.read(0, &mut out).unwrap();
            }
            shared.with(|g| {
                g.close().unwrap();
                g.stop();
            });
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(rig.traffic.is_empty(), "nothing is under way");
        drop((shared, drive));
        let mut group = Group::open(rig.devices(0..4), false).unwrap();
        assert_eq!((group.counters().replayed, group.counters().dropped), (0, 0));
        let found = identities(&mut group);
        for (block, turn) in (0..).zip(answered) {
            let last = if turn == 0 { 0 } else { turn * 100 + block };
            assert_eq!(found[block as usize], Some(last), "{how:?}");
        }
    }
}
