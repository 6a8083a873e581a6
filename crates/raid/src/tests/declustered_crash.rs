//! Power cuts as in `crash`, of declustered groups in all their states; and mutants. `DECLUSTERED_SHARE=1 cargo test` tries all positions, which
//! takes minutes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ashlar_environment::random::Seeded;
use ashlar_machine::{Fault, Operation};

use super::crash::{Lived, Past, batch, images};
use super::declustered::{ONE, SIX, TWO};
use super::rig::*;
use super::waiting::How;
use super::{crash, pipelined};
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
    /// Another one fails while the first one is rebuilt into a spare. Two parity blocks are needed.
    SecondOnTheWay,
    /// A new device gets the blocks back.
    CopyingBack,
    /// Likewise, of the one of two members in spares which failed first.
    CopyingOneOfTwo,
    /// The new device fails on the way, and the rest goes to the spare again.
    DeviceFails,
    /// A member that has no spare is rebuilt on a new device.
    Replaced,
    /// Likewise, when some of its blocks are in a spare.
    PartlySpared,
}

use State::*;

/// One position of so many is tried.
const SHARE: u64 = 30;

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
    prepare(s, &rig, &mut group, [victim, second]);
    if !matches!(s.state, Optimal | Failing) {
        devices.retain(|d| *d != victim && (*d != second || s.state != CopyingOneOfTwo));
    }
    if group.members()[victim].device == Some(name(s.members)) {
        devices.push(s.members);
    }
    group.mutant = s.mutant;
    let from = rig.disk.position();
    let fails = match s.state {
        Failing => Some(victim),
        SecondFailure | SecondOnTheWay => Some(second),
        DeviceFails => Some(s.members),
        _ => None,
    };
    for step in 0..4 {
        if let Some(device) = fails.filter(|_| step == 1) {
            let on = if random.below(2) == 0 { Operation::Write } else { Operation::Sync };
            rig.faults[device].set_after(on, Fault::Error(libc::EIO), random.below(3), u64::MAX);
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
    Lived { disk: rig.disk.clone(), devices, count, from, pasts, atomic: false }
}

/// Brings a group into a state. Requests concern the first 8 rows, so most of these are left to rebuild.
fn prepare(s: &Scenario, rig: &Rig, group: &mut Group, [victim, second]: [usize; 2]) {
    match s.state {
        Optimal | Failing => return,
        Degraded | Replaced => group.take_out(victim).unwrap(),
        ToSpare | SecondOnTheWay | PartlySpared => {
            to_spare(group, victim);
            group.rebuild(if s.state == PartlySpared { 4 } else { 2 }).unwrap();
        }
        Spared | SecondFailure | CopyingBack | CopyingOneOfTwo | DeviceFails => {
            to_spare(group, victim);
            finish(group);
        }
    }
    if s.state == CopyingOneOfTwo {
        to_spare(group, second);
        finish(group);
    }
    if matches!(s.state, CopyingBack | CopyingOneOfTwo | DeviceFails | Replaced | PartlySpared) {
        group.replace(victim, rig.device(s.members), false).unwrap();
        // It goes on from the end.
        group.rebuild(group.geometry().rows() - 6).unwrap();
    }
}

fn scenario(level: Level, members: usize, state: State, seed: u64) -> Scenario {
    Scenario { level, members, state, mutant: None, seed, how: How::InTurn }
}

fn all(state: State) {
    let share = std::env::var("DECLUSTERED_SHARE").map_or(SHARE, |s| s.parse().unwrap());
    let mut found = 0;
    for (seed, (level, members)) in (1..).zip([(ONE, 4), (ONE, 7), (TWO, 8), (SIX, 7)]) {
        match state {
            CopyingOneOfTwo if level == ONE => continue,
            SecondOnTheWay if level != SIX => continue,
            _ => {}
        }
        for how in [How::InTurn, How::Submitted] {
            let s = Scenario { how, ..scenario(level, members, state, seed) };
            found += images(&live(&s), seed, share);
        }
    }
    println!("{state:?}: {found} images");
    assert!(found > 50, "{found} images");
}

#[test]
fn power_cut_while_optimal() {
    all(Optimal);
}

#[test]
fn power_cut_while_degraded() {
    all(Degraded);
}

#[test]
fn power_cut_while_a_member_fails() {
    all(Failing);
}

#[test]
fn power_cut_while_rebuilt_into_a_spare() {
    all(ToSpare);
}

#[test]
fn power_cut_after_blocks_went_to_a_spare() {
    all(Spared);
}

#[test]
fn power_cut_while_a_second_member_fails() {
    all(SecondFailure);
}

#[test]
fn power_cut_while_two_members_fail_together() {
    all(SecondOnTheWay);
}

#[test]
fn power_cut_while_blocks_are_copied_back() {
    all(CopyingBack);
}

#[test]
fn power_cut_while_blocks_of_one_of_two_are_copied_back() {
    all(CopyingOneOfTwo);
}

#[test]
fn power_cut_while_the_device_that_gets_blocks_back_fails() {
    all(DeviceFails);
}

#[test]
fn power_cut_while_rebuilt_on_a_new_device() {
    all(Replaced);
}

#[test]
fn power_cut_while_rebuilt_on_a_new_device_with_some_blocks_in_a_spare() {
    all(PartlySpared);
}

/// Brings a group of which a member is out of service into the middle of a rebuild into a spare, or of one back from it: the device of that.
pub(super) fn half_done(group: &mut Group, rig: &Rig, victim: usize, seed: u64) -> Option<usize> {
    assert_eq!(group.use_spare().unwrap(), Some(victim));
    if !seed.is_multiple_of(2) {
        group.rebuild(2).unwrap();
        return None;
    }
    finish(group);
    let device = group.members().len();
    group.replace(victim, rig.device(device), false).unwrap();
    // From the end, up to where most requests are.
    group.rebuild(group.geometry().rows() - 8).unwrap();
    Some(device)
}

/// Places of blocks change while batches are read for and prepared.
#[test]
fn power_cut_while_batches_are_under_way() {
    use crash::State;
    for (level, members) in [(ONE, 7), (SIX, 7)] {
        for (state, seed) in [
            (State::Optimal, 1),
            (State::Failing, 2),
            (State::Rebuilding, 3),
            (State::Rebuilding, 4),
            (State::Rebuilding, 5),
            (State::Rebuilding, 6),
        ] {
            pipelined::enumerate(&pipelined::life(level, members, state, seed), 16);
        }
    }
}

/// Some scenario finds the mutant.
fn is_found(mutant: Mutant, state: State, level: Level, members: usize, seeds: u64) {
    let found = (1..=seeds).find(|&seed| {
        let s = Scenario { mutant: Some(mutant), ..scenario(level, members, state, seed) };
        catch_unwind(AssertUnwindSafe(|| images(&live(&s), seed, 4))).is_err()
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
