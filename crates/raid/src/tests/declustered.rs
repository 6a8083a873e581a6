//! Declustered groups: distributed spares, failures one after another, new devices, and what is refused.

use ashlar_environment::random::Seeded;
use ashlar_machine::{Fault, Operation};

use super::rig::*;
use super::waiting::How;
use crate::{
    BLOCK, Batching, Error, Geometry, Group, GroupState, InSpare, Level, MemberState, Policy, Repair, Slot,
    Superblock,
};

pub(super) const ONE: Level = Level::Declustered { k: 2, m: 1, spares: 1 };
pub(super) const TWO: Level = Level::Declustered { k: 2, m: 1, spares: 2 };
pub(super) const SIX: Level = Level::Declustered { k: 3, m: 2, spares: 2 };

/// A group with content in most of its blocks.
fn written(rig: &Rig, level: Level, members: usize, strip: u64) -> Group {
    let mut group = rig.create(level, strip, Policy::Journal, members);
    let mut random = Seeded::new(members as u64);
    for block in 0..group.size() / B {
        if random.below(5) != 0 {
            group.write(block * B, &content(block + 1)).unwrap();
        }
    }
    group
}

fn rebuild_all(group: &mut Group, rows: u64) {
    let mut calls = 0;
    while group.rebuild(rows).unwrap().is_some() {
        calls += 1;
        assert!(calls < 1000, "it ends");
    }
}

fn is_right(group: &mut Group, expected: &[Option<u64>]) {
    assert_eq!(identities(group), expected);
    assert_eq!(group.check(0, u64::MAX, Repair::StopOnError).unwrap().mismatches, []);
    assert_eq!(group.counters().corrected, 0);
}

/// Members fail one after another, as many as there are spares and as the code tolerates, and all are replaced.
fn fail_and_replace(level: Level, members: usize, how: How, batching: &Batching, seed: u64) {
    let rig = Rig::new(members + 6).asked(how, seed);
    let mut random = Seeded::new(seed);
    let mut group = written(&rig, level, members, 4096 << random.below(3));
    group.set_batching(batching.clone());
    let mut expected = identities(&mut group);
    let Level::Declustered { m, spares, .. } = level else { panic!("it is declustered") };
    let rows = 1 + random.below(30);
    let mut lost: Vec<usize> = Vec::new();
    let next = |random: &mut Seeded, lost: &[usize]| loop {
        let slot = random.below(members as u64) as usize;
        if !lost.contains(&slot) {
            return slot;
        }
    };
    let change = |group: &mut Group, random: &mut Seeded, expected: &mut [Option<u64>]| {
        for _ in 0..6 {
            let block = random.below(expected.len() as u64);
            let id = 1 + random.below(1 << 40);
            group.write(block * B, &content(id)).unwrap();
            expected[block as usize] = Some(id);
        }
    };
    for used in 1..=usize::from(spares) {
        let slot = next(&mut random, &lost);
        group.take_out(slot).unwrap();
        lost.push(slot);
        assert_eq!(group.use_spare().unwrap(), Some(slot));
        assert_eq!(group.use_spare().unwrap(), None, "one spare is enough");
        assert_eq!(group.state(), GroupState::Recovery);
        group.rebuild(rows).unwrap();
        change(&mut group, &mut random, &mut expected);
        is_right(&mut group, &expected);
        rebuild_all(&mut group, rows);
        assert_eq!(group.distributed_spares(), (usize::from(spares), used));
        assert_eq!(group.members()[slot].state, MemberState::Failed);
        assert_eq!(group.state(), GroupState::PartiallyDegraded, "it tolerates as much as before");
        is_right(&mut group, &expected);
    }
    for more in 1..=usize::from(m) {
        let slot = next(&mut random, &lost);
        group.take_out(slot).unwrap();
        lost.push(slot);
        assert_eq!(group.use_spare().unwrap(), None, "no spare is left");
        let word = if more == usize::from(m) { GroupState::Degraded } else { GroupState::PartiallyDegraded };
        assert_eq!(group.state(), word);
        change(&mut group, &mut random, &mut expected);
        is_right(&mut group, &expected);
    }
    assert!(matches!(group.take_out(next(&mut random, &lost)), Err(Error::State(_))));
    group.close().unwrap();
    let attached = (0..members).filter(|slot| !lost.contains(slot));
    group = Group::open(rig.devices(attached), false).unwrap();
    group.set_batching(batching.clone());
    is_right(&mut group, &expected);
    // In another order than that in which they failed.
    while !lost.is_empty() {
        let slot = lost.remove(random.below(lost.len() as u64) as usize);
        let device = members + lost.len();
        group.replace(slot, rig.device(device), false).unwrap();
        group.rebuild(rows).unwrap();
        change(&mut group, &mut random, &mut expected);
        is_right(&mut group, &expected);
        rebuild_all(&mut group, rows);
        assert_eq!(group.members()[slot].state, MemberState::Online);
        is_right(&mut group, &expected);
    }
    assert_eq!(group.state(), GroupState::Optimal);
    assert_eq!(group.distributed_spares(), (usize::from(spares), 0));
}

#[test]
fn failures_one_after_another_are_absorbed() {
    let small = Batching { bytes: 1, ..Batching::default() };
    let several = Batching { bytes: 90 << 10, threads: 3, ..Batching::default() };
    for seed in 0..3 {
        for (level, members) in [(ONE, 7), (ONE, 4), (TWO, 8), (TWO, 11), (SIX, 7), (SIX, 12)] {
            fail_and_replace(level, members, How::InTurn, &Batching::default(), seed);
            fail_and_replace(level, members, How::InTurn, &small, seed + 10);
            fail_and_replace(level, members, How::Submitted, &several, seed + 20);
        }
    }
    fail_and_replace(TWO, 8, How::OnThreads, &several, 30);
}

/// A second member fails while the first one is rebuilt, with a code that tolerates two: each gets its spare.
#[test]
fn members_that_fail_together_are_rebuilt_one_after_the_other() {
    for seed in 0..8 {
        let rig = Rig::new(12);
        let mut random = Seeded::new(seed);
        let mut group = written(&rig, SIX, 12, 4096);
        let expected = identities(&mut group);
        let (a, b) = (random.below(6) as usize, 6 + random.below(6) as usize);
        group.take_out(a).unwrap();
        assert_eq!(group.use_spare().unwrap(), Some(a));
        group.rebuild(1 + random.below(40)).unwrap();
        group.take_out(b).unwrap();
        assert_eq!(group.state(), GroupState::Recovery);
        assert!(
            matches!(group.take_out(3), Err(Error::State(_)))
                || matches!(group.take_out(2), Err(Error::State(_)))
        );
        assert_eq!(group.use_spare().unwrap(), Some(b));
        rebuild_all(&mut group, 9);
        assert_eq!((group.distributed_spares(), group.state()), ((2, 2), GroupState::PartiallyDegraded));
        is_right(&mut group, &expected);
    }
}

/// A member that is written to while another one is rebuilt into its spares fails; the rebuild goes on without it.
#[test]
fn a_member_that_fails_under_a_rebuild_is_done_without() {
    for how in [How::InTurn, How::Submitted] {
        for seed in 0..6 {
            let rig = Rig::new(12).asked(how, seed);
            let mut group = written(&rig, SIX, 12, 4096);
            let expected = identities(&mut group);
            group.take_out(1).unwrap();
            group.use_spare().unwrap();
            let on = if seed % 2 == 0 { Operation::Write } else { Operation::Read };
            rig.faults[5].set_after(on, Fault::Error(libc::EIO), seed, u64::MAX);
            rebuild_all(&mut group, 1000);
            assert_eq!(group.members()[5].state, MemberState::Failed, "{how:?} {seed}");
            assert_eq!(identities(&mut group), expected);
            assert_eq!(group.use_spare().unwrap(), Some(5));
            rebuild_all(&mut group, 1000);
            assert_eq!(group.state(), GroupState::PartiallyDegraded);
            is_right(&mut group, &expected);
        }
    }
}

/// A new device that fails while blocks are copied back: those that are in the spare still are, the others are rebuilt again.
#[test]
fn a_new_device_that_fails_leaves_the_rest_in_the_spare() {
    let rig = Rig::new(12);
    let mut group = written(&rig, ONE, 7, 4096);
    let expected = identities(&mut group);
    group.take_out(2).unwrap();
    group.use_spare().unwrap();
    rebuild_all(&mut group, 1000);
    group.replace(2, rig.device(7), false).unwrap();
    let rows = group.geometry().rows();
    group.rebuild(20).unwrap();
    let (slot, left) = (group.superblock().slots[2], rows - 20);
    assert_eq!(slot.state, MemberState::Rebuild { done: 20 });
    assert_eq!(slot.spare, Some(InSpare { index: 0, below: left }));
    assert_eq!(group.state(), GroupState::Recovery);
    // The rows that were copied have no other place.
    rig.faults[7].set_after(Operation::Write, Fault::Error(libc::EIO), 0, u64::MAX);
    group.rebuild(20).unwrap();
    let slot = group.superblock().slots[2];
    assert_eq!((slot.state, slot.spare), (MemberState::Failed, Some(InSpare { index: 0, below: left })));
    is_right(&mut group, &expected);
    assert!(group.take_out(3).is_err(), "some stripes tolerate nothing more");
    assert_eq!(group.use_spare().unwrap(), None);
    rebuild_all(&mut group, 1000);
    group.take_out(3).unwrap();
    is_right(&mut group, &expected);
}

/// What a spare has is copied: a block is read once, and none is made of others.
#[test]
fn blocks_are_copied_back() {
    let rig = Rig::new(8);
    let mut group = rig.create(ONE, 4096, Policy::Journal, 7);
    group.write(0, &vec![7; group.size() as usize]).unwrap();
    group.take_out(4).unwrap();
    group.use_spare().unwrap();
    rebuild_all(&mut group, 1000);
    group.replace(4, rig.device(7), false).unwrap();
    let before = group.counters();
    rebuild_all(&mut group, 1000);
    let after = group.counters();
    // Of 7 rows, one has a block of the spare.
    let rows = group.geometry().rows();
    let own = rows - rows / 7..=rows - rows / 7 + 1;
    let (read, written) =
        (after.blocks_read - before.blocks_read, after.blocks_written - before.blocks_written);
    assert!(read == written && (*own.start() - 1..=*own.end()).contains(&read), "{read} of {rows} read");
    // A damaged block is found, and made of the others.
    group.take_out(4).unwrap();
    group.use_spare().unwrap();
    rebuild_all(&mut group, 1000);
    let start = group.superblock().data_start;
    for row in 0..rows {
        rig.disk.flip("m1", (start + row) * B + 9, 3);
    }
    group.replace(4, rig.device(4), true).unwrap();
    rebuild_all(&mut group, 1000);
    assert!(group.counters().corrected > 0);
    group.check(0, u64::MAX, Repair::AutoFix).unwrap();
    let mut all = vec![0; group.size() as usize];
    group.read(0, &mut all).unwrap();
    assert!(all.iter().all(|b| *b == 7));
}

/// Hot spares come after the distributed ones, and give these back.
#[test]
fn a_hot_spare_follows_the_distributed_one() {
    let rig = Rig::new(9);
    let mut group = written(&rig, ONE, 7, 8192);
    let expected = identities(&mut group);
    group.add_spare(rig.device(7), false).unwrap();
    group.take_out(5).unwrap();
    assert_eq!(group.use_spare().unwrap(), Some(5));
    assert_eq!(group.use_spare().unwrap(), None);
    rebuild_all(&mut group, 1000);
    assert_eq!((group.distributed_spares(), group.spares().len()), ((1, 1), 1));
    assert_eq!(group.use_spare().unwrap(), Some(5));
    assert_eq!((group.distributed_spares(), group.spares().len()), ((1, 1), 0));
    rebuild_all(&mut group, 1000);
    assert_eq!((group.distributed_spares(), group.state()), ((1, 0), GroupState::Optimal));
    is_right(&mut group, &expected);
}

/// All members read and write in a rebuild into a spare, and equally much.
#[test]
fn all_members_take_part_in_a_rebuild() {
    let rig = Rig::with(13, 16 + 256 + 40 + 13 * 32 * 8);
    let mut group = rig.create(Level::Declustered { k: 5, m: 1, spares: 1 }, 4096, Policy::Journal, 13);
    let size = group.size() as usize;
    group.write(0, &vec![7; size]).unwrap();
    group.checkpoint().unwrap();
    let rows = group.geometry().rows();
    group.take_out(3).unwrap();
    group.use_spare().unwrap();
    let before = group.counters();
    rebuild_all(&mut group, 1 << 20);
    let after = group.counters();
    let (read, written) =
        (after.blocks_read - before.blocks_read, after.blocks_written - before.blocks_written);
    assert_eq!(read, 5 * written);
    // The member had no block of the spare in 12 of 13 rows.
    assert!(written.abs_diff(rows * 12 / 13) <= 2, "{written} of {rows}");
}

#[test]
fn shapes_that_are_not_declustered_are_refused() {
    for (level, members) in [
        ("4+1s1", 7),
        ("4+1s1", 5),
        ("4+0s1", 9),
        ("0+2s1", 3),
        ("4+1s0", 5),
        ("4+1s17", 22),
        ("4+1s2", 2),
        ("60+5s1", 66),
    ] {
        let made = Geometry::new(level.parse().unwrap(), members, 4096, 1000);
        assert!(matches!(made, Err(Error::Layout(_))), "{level} of {members}: {made:?}");
    }
    let Err(Error::Layout(why)) = Geometry::new("4+1s1".parse().unwrap(), 12, 4096, 1000) else { panic!() };
    assert!(why.contains("it can be 2, 7"), "{why}");
    assert!("4+1s".parse::<Level>().is_err() && "4+s1".parse::<Level>().is_err());
    let g = Geometry::new("4+1s2".parse().unwrap(), 12, 4096, 1000).unwrap();
    assert_eq!(
        (g.sets, g.k, g.m, g.spares, g.members(), g.level.to_string().as_str()),
        (2, 4, 1, 2, 12, "4+1s2")
    );
    // It does not grow, and none becomes one.
    let rig = Rig::new(8);
    let mut group = rig.create(ONE, 4096, Policy::Journal, 7);
    for level in [None, Some(TWO), Some(Level::Raid6)] {
        let joining = vec![crate::Joining::Device(rig.device(7))];
        let grow = crate::Grow { level, ..Default::default() };
        let Err(Error::Layout(why)) = group.grow(&grow, joining) else { panic!("{level:?}") };
        assert!(why.contains("does not grow"), "{why}");
    }
    let rig = Rig::new(4);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 3);
    let joining = vec![crate::Joining::Device(rig.device(3))];
    assert!(matches!(
        group.grow(&crate::Grow { level: Some(ONE), ..Default::default() }, joining),
        Err(Error::Layout(_))
    ));
}

#[test]
fn the_superblock_says_which_spare_has_what() {
    let g = Geometry::new(SIX, 12, 8192, 4096).unwrap();
    let slot = |i: u8, state, spare| Slot { device: [i; 16], state, spare };
    let mut slots: Vec<Slot> = (0..12).map(|i| slot(i, MemberState::Online, None)).collect();
    let spare = |index, below| Some(InSpare { index, below });
    slots[3] = slot(3, MemberState::Failed, spare(1, 4096));
    slots[7] = slot(7, MemberState::Rebuild { done: 96 }, spare(0, 4000));
    let of = |slots: &[Slot]| Superblock {
        group: *b"group identity..",
        generation: 7,
        name: "tank".into(),
        geometry: g,
        policy: Policy::Journal,
        intents: false,
        journal_blocks: 8192,
        data_start: 9000,
        clean: true,
        slots: slots.to_vec(),
        spares: vec![[9; 16]],
        volumes: Vec::new(),
        settings: crate::Settings { checked_ms: 1 << 60, ..Default::default() },
        directory: false,
        growth: None,
    };
    let bytes = of(&slots).encode(&[3; 16]);
    assert_eq!(Superblock::decode(&bytes), Ok((of(&slots), [3; 16])));
    // Releases without declustered groups know 1 and 2, and refuse others.
    assert_eq!(bytes[8..12], [3, 0, 0, 0]);
    let end = bytes.len() - 32 - bytes[..bytes.len() - 32].iter().rev().position(|b| *b != 0).unwrap();
    let le =
        [&[16, 2][..], &[3, 0, 1], &4096u64.to_le_bytes(), &[7, 0, 0], &4000u64.to_le_bytes()[..2]].concat();
    assert_eq!(bytes[end - le.len()..end], le);
    // What cannot be is refused.
    let wrong = |change: fn(&mut Vec<Slot>)| {
        let mut slots = slots.clone();
        change(&mut slots);
        assert!(Superblock::decode(&of(&slots).encode(&[3; 16])).is_err(), "{slots:?}");
    };
    wrong(|s| s[3].spare = Some(InSpare { index: 0, below: 4096 }));
    wrong(|s| s[3].spare = Some(InSpare { index: 2, below: 4096 }));
    wrong(|s| s[3].spare = Some(InSpare { index: 1, below: 4098 }));
    wrong(|s| s[3].spare = Some(InSpare { index: 1, below: 33 }));
    wrong(|s| s[3].state = MemberState::Online);
    wrong(|s| s[7].state = MemberState::Rebuild { done: 98 });
    wrong(|s| s[7].state = MemberState::Rebuild { done: 95 });
    wrong(|s| s[7].state = MemberState::Rebuild { done: 1 << 60 });
}

/// A block of a row is on one member at most, and no two of a row on one, whatever fails in which order.
#[test]
fn blocks_of_a_row_are_on_different_members() {
    for seed in 0..200 {
        let mut random = Seeded::new(seed);
        let rig = Rig::new(14);
        let level = Level::Declustered { k: 2, m: 1, spares: 5 };
        let mut group = rig.create(level, 8192, Policy::Journal, 14);
        let (rows, members) = (group.geometry().rows(), 14);
        for index in 0..1 + random.below(5) as u8 {
            let slot = random.below(members) as usize;
            if group.superblock.slots[slot].spare.is_some() {
                continue;
            }
            let below = if random.below(2) == 0 { rows } else { random.below(rows / 2) * 2 };
            let done =
                if random.below(2) == 0 { Some(random.below((rows - below) / 2 + 1) * 2) } else { None };
            let state = done.map_or(MemberState::Failed, |done| MemberState::Rebuild { done });
            (group.superblock.slots[slot].spare, group.superblock.slots[slot].state) =
                (Some(InSpare { index, below }), state);
        }
        for row in 0..rows {
            let mut seen = vec![false; members as usize];
            for (set, role) in (0..group.geometry().sets).flat_map(|set| (0..3).map(move |role| (set, role)))
            {
                let slot = group.slot_of(set, row, role);
                assert!(!std::mem::replace(&mut seen[slot], true), "two blocks of row {row} on {slot}");
                assert_eq!(group.role_at(slot, row), Some((set, role)));
                let at = &group.superblock.slots[slot];
                assert!(at.spare.is_none_or(|s| row >= s.below), "it is looked for where it has left");
            }
        }
        assert_eq!(group.geometry().k * BLOCK, 8192);
    }
}
