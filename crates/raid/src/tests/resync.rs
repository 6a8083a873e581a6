//! Resyncs of groups that are in service, after power cuts without a journal.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ashlar_environment::random::Seeded;
use ashlar_machine::Crash;

use super::rig::*;
use super::waiting::How;
use crate::group::{Mutant, OPENED_WITH};
use crate::{Group, Level, Policy, Repair, Shared};

/// Blocks of the virtual drive, and those that were being written when the power went.
const BLOCKS: u64 = 90;

fn torn(random: &mut Seeded, policy: Policy, how: How) -> Rig {
    let rig = Rig::new(4).asked(how, random.next());
    let mut group = rig.create(Level::Raid5, 8192, policy, 4);
    group.create_volume("v", Some(BLOCKS * B)).unwrap();
    for block in 0..BLOCKS {
        group.write(block * B, &content(block + 1)).unwrap();
    }
    group.flush().unwrap();
    let from = rig.disk.position();
    for block in (0..BLOCKS).filter(|b| b.is_multiple_of(5)) {
        group.write(block * B, &content(1000 + block)).unwrap();
    }
    let position = from + random.below((rig.disk.position() - from) as u64) as usize;
    let mut crash = Crash::new(&rig.disk);
    crash.advance(position);
    // Whole blocks are kept or not, so that each has one of its contents.
    let image = super::crash::subset(&crash, Some(random.next()), random);
    Rig::of(image, 4).asked(how, random.next())
}

/// Threads read, write and discard while the resync goes on.
fn threads(seed: u64, policy: Policy, how: How) {
    let mut random = Seeded::new(seed);
    let rig = torn(&mut random, policy, how);
    let shared = Shared::new(Group::open(rig.devices(0..4), false).unwrap());
    let drive = shared.volume("v").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (drive, mut random) = (drive.clone(), Seeded::new(seed * 8 + thread));
            scope.spawn(move || {
                for turn in 1..12 {
                    // A third of the blocks is of each thread.
                    let block = random.below(BLOCKS / 3) * 3 + thread;
                    let new = turn * 10_000 + block;
                    match random.below(4) {
                        0 => drive.zero(block * B, B).unwrap(),
                        1 => drive.write(block * B + 512, vec![7; 100]).unwrap(),
                        _ => drive.write(block * B, content(new)).unwrap(),
                    }
                    let mut found = vec![0; 4096];
                    drive.read(block * B, &mut found).unwrap();
                }
            });
        }
        let (drive, mut random) = (drive.clone(), Seeded::new(seed * 8 + 7));
        scope.spawn(move || {
            for _ in 0..20 {
                let (at, mut found) = (random.below(BLOCKS - 8), vec![0; 8 * 4096]);
                drive.read(at * B, &mut found).unwrap();
            }
        });
        scope.spawn(|| while shared.with(|group| group.resync(3)).unwrap().is_some() {});
    });
    shared.with(|group| {
        assert_eq!(group.resyncing(), None);
        assert_eq!(group.counters().corrected, 0, "{policy:?} {seed}");
        let mismatches = group.check(0, u64::MAX, Repair::StopOnError).unwrap().mismatches;
        assert_eq!(mismatches, [], "{policy:?} {seed}");
        let mut before = vec![0; group.size() as usize];
        group.read(0, &mut before).unwrap();
        group.take_out((seed % 4) as usize).unwrap();
        let mut after = vec![0; before.len()];
        group.read(0, &mut after).unwrap();
        assert!(before == after, "{policy:?} {seed}");
    });
}

#[test]
fn group_is_in_service_while_parity_is_made_anew() {
    for policy in [Policy::Bitmap, Policy::None] {
        for seed in 1..12 {
            threads(seed, policy, if seed % 2 == 0 { How::InTurn } else { How::OnThreads });
        }
    }
}

/// A request that does not make its rows consistent first is found.
#[test]
fn requests_for_suspect_rows_are_found() {
    let found = (1..40).find(|seed| {
        OPENED_WITH.set(Some(Mutant::SuspectsUsed));
        let result = catch_unwind(AssertUnwindSafe(|| threads(*seed, Policy::None, How::InTurn)));
        OPENED_WITH.set(None);
        result.is_err()
    });
    println!("found by seed {found:?}");
    assert!(found.is_some());
}

/// Rows that no request has made consistent are still to be done after an orderly end, and after a second power cut.
#[test]
fn resync_begins_again() {
    for policy in [Policy::Bitmap, Policy::None] {
        let rig = torn(&mut Seeded::new(3), policy, How::InTurn);
        for orderly in [true, false] {
            let mut group = Group::open(rig.devices(0..4), false).unwrap();
            let all = group.resyncing().expect("it was not closed").rows;
            assert!(group.resync(4).unwrap().is_some_and(|r| r.done >= 4 && r.rows == all));
            if orderly {
                group.close().unwrap();
            }
        }
        let mut group = Group::open(rig.devices(0..4), false).unwrap();
        assert!(group.resyncing().is_some_and(|r| r.done == 0), "{policy:?}");
        while group.resync(1000).unwrap().is_some() {}
        group.close().unwrap();
        let group = Group::open(rig.devices(0..4), false).unwrap();
        assert_eq!(group.resyncing(), None, "{policy:?}");
    }
}
