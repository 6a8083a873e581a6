//! Power cuts at every position of the log while a group grows, in every state, as in `crash`.
//!
//! Each image is opened and judged; some go on from there until the group has grown.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ashlar_environment::random::Seeded;
use ashlar_machine::{Crash, Fault, Operation, SimDisk};

use super::crash::{Past, State, batch, subset};
use super::growth::{Case, case, consistent};
use super::rig::*;
use super::waiting::How;
use crate::group::Mutant;
use crate::{Group, Grow, Joining, Level, MemberState, Moved, Policy};

/// A life of a group whose log is cut at every position.
struct Life {
    case: Case,
    state: State,
    mutant: Option<Mutant>,
    seed: u64,
    how: How,
    /// Rows that move in a step.
    step: u64,
}

struct Lived {
    case: Case,
    disk: SimDisk,
    /// Devices of the group, and those that join it.
    devices: Vec<usize>,
    count: usize,
    from: usize,
    pasts: Vec<Past>,
}

fn live(life: &Life) -> Lived {
    let c = life.case;
    let count = c.all() + 1;
    let rig = Rig::new(count).asked(life.how, life.seed);
    let mut random = Seeded::new(life.seed);
    let mut group = rig.create(c.from, 8192, Policy::Journal, c.members);
    let mut pasts: Vec<Past> = vec![Vec::new(); (group.size() / B) as usize];
    let mut next = 1;
    let mut devices: Vec<usize> = (0..c.all()).collect();
    // Everything up to half of the members is written, the rest but for some blocks is not.
    for block in 0..pasts.len() as u64 {
        if block < pasts.len() as u64 / 2 || random.below(5) == 0 {
            group.write(block * B, &content(next)).unwrap();
            pasts[block as usize].push((next, 0, 0));
            next += 1;
        }
    }
    let victim = random.below(c.members as u64) as usize;
    if matches!(life.state, State::Degraded | State::Rebuilding) {
        group.take_out(victim).unwrap();
        devices.retain(|d| *d != victim);
    }
    if life.state == State::Rebuilding {
        group.replace(victim, rig.device(c.all()), false).unwrap();
        devices.push(c.all());
        group.rebuild(20).unwrap();
    }
    group.checkpoint().unwrap();
    let from = rig.disk.position();
    c.begin(&rig, &mut group);
    group.mutant = life.mutant;
    let mut step = 0;
    loop {
        step += 1;
        if life.state == State::Failing && step == 3 {
            let on = if random.below(2) == 0 { Operation::Write } else { Operation::Sync };
            // Also one of the new members.
            let victim = random.below(c.all() as u64) as usize;
            rig.faults[victim].set_after(on, Fault::Error(libc::EIO), random.below(3), u64::MAX);
        }
        if random.below(2) == 0 {
            batch(&mut group, &rig, &mut random, &mut pasts, &mut next);
        }
        if random.below(5) == 0 {
            let _ = group.rebuild(6).unwrap();
        }
        match group.move_rows(life.step).unwrap() {
            Some(Moved { done, rows }) if done < rows => {}
            _ => break,
        }
    }
    batch(&mut group, &rig, &mut random, &mut pasts, &mut next);
    Lived { case: c, disk: rig.disk.clone(), devices, count, from, pasts }
}

/// Opens an image. Devices that were not taken in yet have no superblock.
fn open(rig: &Rig, lived: &Lived) -> Group {
    let has_one = |i: &usize| Group::examine(rig.device(*i)).is_ok();
    let here: Vec<usize> = lived.devices.iter().copied().filter(has_one).collect();
    match Group::open(rig.devices(here), false) {
        Ok(group) => group,
        Err(e) => panic!("not opened: {e}"),
    }
}

fn judge(lived: &Lived, position: usize, image: SimDisk, random: &mut Seeded) {
    let rig = Rig::of(image, lived.count);
    let twice = random.below(60) == 0;
    if twice {
        rig.disk.resume();
    }
    let recovery = rig.disk.position();
    let mut group = open(&rig, lived);
    let found = identities(&mut group);
    for (block, (id, past)) in found.iter().zip(&lived.pasts).enumerate() {
        let allowed = super::crash::allowed(past, position);
        assert!(
            id.is_some_and(|id| allowed.contains(&id)),
            "block {block} reads {id:?} after a crash at {position}, allowed are {allowed:?}; {:?}",
            group.superblock().growth
        );
    }
    assert!(found[lived.pasts.len()..].iter().all(|id| *id == Some(0)), "the new room is zeros");
    assert_eq!(group.counters().corrected, 0, "nothing is wrong after a recovery");
    consistent(&mut group);
    if twice {
        let mut crash = Crash::new(&rig.disk);
        for again in recovery..=rig.disk.position() {
            crash.advance(again);
            let rig = Rig::of(crash.image(|| random.next()), lived.count);
            let mut group = open(&rig, lived);
            assert_eq!(
                identities(&mut group)[..lived.pasts.len()],
                found[..lived.pasts.len()],
                "crash at {again} of the recovery from {position}"
            );
        }
        return;
    }
    // It goes on from there, and whatever is read with all members is read without one.
    let slot = random.below(group.members().len() as u64) as usize;
    let went_on = random.below(4) == 0;
    if group.members()[slot].state == MemberState::Online && group.take_out(slot).is_ok() {
        assert_eq!(identities(&mut group), found, "without member {slot} after a crash at {position}");
    }
    if went_on {
        if group.superblock().growth.is_none() && group.geometry().members() == lived.case.members {
            // Nothing of it was durable but new hot spares.
            let spares = group.spares();
            let rest = (lived.case.members..lived.case.all()).filter(|i| !spares.contains(&name(*i)));
            let rest = rest.map(|i| Joining::Device(rig.device(i))).collect::<Vec<_>>();
            let joining = spares.iter().cloned().map(Joining::Spare).chain(rest);
            group.grow(&Grow { force: true, ..lived.case.grow() }, joining.collect()).unwrap();
        }
        while group.move_rows(9).unwrap().is_some() {}
        assert_eq!(group.geometry().members(), lived.case.all());
        let grown = identities(&mut group);
        assert_eq!(
            grown[..lived.pasts.len()],
            found[..lived.pasts.len()],
            "grown after a crash at {position}"
        );
        assert!(grown[lived.pasts.len()..].iter().all(|id| *id == Some(0)));
        consistent(&mut group);
    }
}

/// The number of images judged, of one position of `share`. `GROWTH_SHARE=1 cargo test` takes all of them, which takes minutes.
fn enumerate(life: &Life, share: u64) -> usize {
    let lived = live(life);
    let share = std::env::var("GROWTH_SHARE").map_or(share, |s| s.parse().unwrap());
    let mut crash = Crash::new(&lived.disk);
    let mut random = Seeded::new(life.seed ^ 0xabcd);
    let mut images = 0;
    for position in lived.from..=lived.disk.position() {
        crash.advance(position);
        if random.below(share) != 0 {
            continue;
        }
        let mut calls = 0u32;
        let whole = crash.image(|| {
            calls += 1;
            1
        });
        judge(&lived, position, whole, &mut random);
        images += 1;
        let blocks = (calls - 1).div_ceil(8);
        let subsets: Vec<Option<u64>> = match blocks {
            0 => continue,
            1..=2 => (0..(1 << blocks) - 1).map(Some).chain([None]).collect(),
            _ => vec![Some(0), Some(random.next()), None],
        };
        for kept in subsets {
            judge(&lived, position, subset(&crash, kept, &mut random), &mut random);
            images += 1;
        }
    }
    println!("{:?} {:?}: {images} images", life.case, life.state);
    images
}

/// Cases that differ in what moves over what.
fn crash_cases() -> [Case; 4] {
    let coded = |k, m| Level::Coded { k, m };
    [
        case(Level::Raid5, 4, None, 1),
        case(Level::Raid5, 4, Some(Level::Raid6), 1),
        case(Level::Raid6, 5, None, 2),
        case(coded(2, 2), 4, Some(coded(3, 3)), 2),
    ]
}

fn all(state: State, how: How) {
    let mut images = 0;
    for (seed, case) in (1..).zip(crash_cases()) {
        images += enumerate(&Life { case, state, mutant: None, seed, how, step: 5 }, 24);
    }
    assert!(images > 80, "{images} images");
}

#[test]
fn power_cut_while_growing_optimal() {
    all(State::Optimal, How::InTurn);
}

#[test]
fn power_cut_while_growing_degraded() {
    all(State::Degraded, How::InTurn);
}

#[test]
fn power_cut_while_growing_and_rebuilding() {
    all(State::Rebuilding, How::InTurn);
}

#[test]
fn power_cut_while_growing_and_a_member_fails() {
    all(State::Failing, How::InTurn);
}

#[test]
fn power_cut_while_growing_with_members_that_are_asked_at_once() {
    all(State::Optimal, How::Submitted);
    all(State::Failing, How::OnThreads);
}

/// Levels without parity, with mirrors and with several sets.
#[test]
fn power_cut_while_other_levels_grow() {
    for (seed, c) in [
        case(Level::Raid0, 2, None, 1),
        case(Level::Raid1, 2, Some(Level::Raid5), 1),
        case(Level::Raid10, 4, None, 2),
        case(Level::Raid50 { sets: 2 }, 6, None, 2),
    ]
    .into_iter()
    .enumerate()
    {
        let life = Life {
            case: c,
            state: State::Optimal,
            mutant: None,
            seed: seed as u64,
            how: How::InTurn,
            step: 7,
        };
        enumerate(&life, 24);
    }
}

/// One row at a time: each position in the order of rows is a state that was durable.
#[test]
fn power_cut_while_single_rows_move() {
    let case = case(Level::Raid5, 3, None, 1);
    enumerate(&Life { case, state: State::Optimal, mutant: None, seed: 9, how: How::InTurn, step: 1 }, 12);
}

fn is_found(mutant: Mutant, state: State) {
    let found = (1..=6).find(|&seed| {
        let case = case(Level::Raid5, 4, None, 1);
        let life = Life { case, state, mutant: Some(mutant), seed, how: How::InTurn, step: 12 };
        catch_unwind(AssertUnwindSafe(|| enumerate(&life, 2))).is_err()
    });
    println!("{mutant:?} {state:?}: found by seed {found:?}");
    assert!(found.is_some(), "{mutant:?} was not found");
}

#[test]
fn rows_that_move_before_the_journal_are_found() {
    is_found(Mutant::MovedBeforeJournal, State::Optimal);
}

#[test]
fn rows_whose_move_is_forgotten_are_found() {
    is_found(Mutant::MovedForgotten, State::Optimal);
}

#[test]
fn rows_that_move_in_parts_are_found() {
    is_found(Mutant::MovedInParts, State::Optimal);
}

#[test]
fn rows_in_place_before_the_journal_are_found() {
    is_found(Mutant::InPlaceBeforeJournal, State::Optimal);
}
