//! Power cuts as in `crash`, of declustered groups in all their states; and mutants.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ashlar_environment::random::Seeded;
use ashlar_machine::{Fault, Operation};

use super::crash::{Lived, Past, batch, images};
use super::declustered::{ONE, SIX, TWO};
use super::rig::*;
use super::waiting::How;
use crate::group::Mutant;
use crate::{Group, Level, Policy};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Optimal,
    /// A member is out of service, and there is no spare for it.
    Degraded,
    /// A member fails while requests are executed, and gets a spare.
    Failing,
    /// A member is rebuilt into a spare.
    ToSpare,
    /// It was.
    Spared,
    /// Another one fails then while requests are executed, and gets the other spare, if there is one.
    SecondFailure,
    /// A new device gets the blocks back.
    CopyingBack,
    /// Likewise, of the one of two members in spares which failed first.
    CopyingOneOfTwo,
}

use State::*;

struct Scenario {
    level: Level,
    members: usize,
    state: State,
    mutant: Option<Mutant>,
    seed: u64,
    how: How,
}

fn to_spare(group: &mut Group, slot: usize) {
    group.take_out(slot).unwrap();
    assert_eq!(group.use_spare().unwrap(), Some(slot));
}

fn finish(group: &mut Group) {
    while group.rebuild(1 << 20).unwrap().is_some() {}
}

fn live(s: &Scenario) -> Lived {
    let count = s.members + 1;
    let rig = Rig::new(count).asked(s.how, s.seed);
    let mut random = Seeded::new(s.seed);
    let mut group = rig.create(s.level, 8192, Policy::Journal, s.members);
    let mut pasts: Vec<Past> = vec![Vec::new(); (group.size() / B) as usize];
    let mut next = 1;
    let mut devices: Vec<usize> = (0..s.members).collect();
    for _ in 0..4 {
        batch(&mut group, &rig, &mut random, &mut pasts, &mut next);
    }
    let victim = random.below(s.members as u64) as usize;
    let second = (victim + 1 + random.below(s.members as u64 - 1) as usize) % s.members;
    if !matches!(s.state, Optimal | Failing) {
        devices.retain(|d| *d != victim);
    }
    let rows = group.geometry().rows();
    match s.state {
        Optimal | Failing => {}
        Degraded => group.take_out(victim).unwrap(),
        ToSpare => {
            to_spare(&mut group, victim);
            // Requests concern the first 8 rows: most of these are left.
            group.rebuild(2).unwrap();
        }
        Spared | SecondFailure | CopyingBack | CopyingOneOfTwo => {
            to_spare(&mut group, victim);
            finish(&mut group);
        }
    }
    if s.state == CopyingOneOfTwo {
        to_spare(&mut group, second);
        finish(&mut group);
        devices.retain(|d| *d != second);
    }
    if matches!(s.state, CopyingBack | CopyingOneOfTwo) {
        group.replace(victim, rig.device(s.members), false).unwrap();
        devices.push(s.members);
        // It goes on from the end.
        group.rebuild(rows - 6).unwrap();
    }
    group.mutant = s.mutant;
    let from = rig.disk.position();
    for step in 0..4 {
        let fails =
            if s.state == Failing { Some(victim) } else { Some(second).filter(|_| s.state == SecondFailure) };
        if let Some(slot) = fails.filter(|_| step == 1) {
            let on = if random.below(2) == 0 { Operation::Write } else { Operation::Sync };
            rig.faults[slot].set_after(on, Fault::Error(libc::EIO), random.below(3), u64::MAX);
        }
        batch(&mut group, &rig, &mut random, &mut pasts, &mut next);
        if fails.is_some() {
            let _ = group.use_spare().unwrap();
        }
        match random.below(4) {
            0 => group.checkpoint().unwrap(),
            _ => drop(group.rebuild(2).unwrap()),
        }
    }
    Lived { disk: rig.disk.clone(), devices, count, from, pasts }
}

fn scenario(level: Level, members: usize, state: State, seed: u64) -> Scenario {
    Scenario { level, members, state, mutant: None, seed, how: How::InTurn }
}

/// One position of `share` is tried.
fn all(state: State, share: u64) {
    let mut found = 0;
    for (seed, (level, members)) in (1..).zip([(ONE, 4), (ONE, 7), (TWO, 8), (SIX, 7)]) {
        if state == CopyingOneOfTwo && level == ONE {
            continue;
        }
        for how in [How::InTurn, How::Submitted] {
            let s = Scenario { how, ..scenario(level, members, state, seed) };
            found += images(&live(&s), seed, share);
        }
    }
    println!("{state:?}: {found} images");
    assert!(found > 200, "{found} images");
}

#[test]
fn power_cut_while_optimal() {
    all(Optimal, 6);
}

#[test]
fn power_cut_while_degraded() {
    all(Degraded, 6);
}

#[test]
fn power_cut_while_a_member_fails() {
    all(Failing, 6);
}

#[test]
fn power_cut_while_rebuilt_into_a_spare() {
    all(ToSpare, 6);
}

#[test]
fn power_cut_after_that() {
    all(Spared, 6);
}

#[test]
fn power_cut_while_a_second_member_fails() {
    all(SecondFailure, 6);
}

#[test]
fn power_cut_while_blocks_are_copied_back() {
    all(CopyingBack, 6);
}

#[test]
fn power_cut_while_blocks_of_one_of_two_are_copied_back() {
    all(CopyingOneOfTwo, 6);
}

/// Some scenario finds the mutant.
fn is_found(mutant: Mutant, state: State, level: Level, members: usize, seeds: u64) {
    let found = (1..=seeds).find(|&seed| {
        let s = Scenario { mutant: Some(mutant), ..scenario(level, members, state, seed) };
        catch_unwind(AssertUnwindSafe(|| images(&live(&s), seed, 1))).is_err()
    });
    println!("{mutant:?} {state:?}: found by seed {found:?}");
    assert!(found.is_some(), "{mutant:?} was not found in state {state:?}");
}

#[test]
fn mutants_are_found() {
    for (mutant, state, seeds) in [
        (Mutant::InPlaceBeforeJournal, Spared, 8),
        (Mutant::AnsweredBeforeFlush, Spared, 8),
        (Mutant::FailureNotRecorded, SecondFailure, 8),
        (Mutant::ProgressBeforeBlocks, ToSpare, 40),
        (Mutant::ProgressBeforeBlocks, CopyingBack, 40),
        (Mutant::SpareKept, CopyingBack, 8),
    ] {
        is_found(mutant, state, TWO, 8, seeds);
    }
}

/// Also one for which no power cut is needed: a third member fails when the blocks of two are in spares.
#[test]
fn a_spare_on_a_failed_member_is_followed() {
    let works = |mutant| {
        let rig = Rig::new(8);
        let mut group = rig.create(TWO, 8192, Policy::Journal, 8);
        let blocks = group.size() / B;
        let data: Vec<u8> = (1..=blocks).flat_map(content).collect();
        group.write(0, &data).unwrap();
        group.mutant = mutant;
        for slot in [2, 5] {
            to_spare(&mut group, slot);
            finish(&mut group);
        }
        group.take_out(0).unwrap();
        let found = catch_unwind(AssertUnwindSafe(|| identities(&mut group)));
        found.is_ok_and(|found| found == (1..=blocks).map(Some).collect::<Vec<_>>())
    };
    assert!(works(None) && !works(Some(Mutant::SpareOfSpareIgnored)));
}
