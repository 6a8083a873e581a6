//! Growth: content, capacity and redundancy while rows move, in every state, and over power cuts at every position of the log.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ashlar_environment::random::Seeded;
use ashlar_machine::{Crash, Fault, Operation, SimDisk};

use super::crash::{Past, State, batch, subset};
use super::rig::*;
use super::waiting::How;
use crate::group::Mutant;
use crate::{
    BLOCK, Error, Geometry, Group, GroupState, Grow, Joining, Level, MemberState, Moved, Plan, Policy,
    Repair, Request,
};

/// What a group is, and what it grows to.
#[derive(Clone, Copy, Debug)]
struct Case {
    from: Level,
    members: usize,
    to: Option<Level>,
    more: usize,
}

fn case(from: Level, members: usize, to: Option<Level>, more: usize) -> Case {
    Case { from, members, to, more }
}

fn cases() -> Vec<Case> {
    let coded = |k, m| Level::Coded { k, m };
    vec![
        case(Level::Raid5, 3, None, 1),
        case(Level::Raid5, 4, None, 1),
        case(Level::Raid5, 3, None, 3),
        case(Level::Raid5, 4, Some(Level::Raid6), 1),
        case(Level::Raid5, 3, Some(Level::Raid6), 2),
        case(Level::Raid6, 5, None, 1),
        case(Level::Raid6, 4, Some(coded(4, 3)), 3),
        case(coded(3, 2), 5, None, 2),
        case(coded(3, 2), 5, Some(coded(3, 3)), 1),
        case(Level::Raid1, 2, None, 1),
        case(Level::Raid1, 2, Some(Level::Raid5), 1),
        case(Level::Raid0, 2, None, 1),
        case(Level::Raid0, 3, Some(Level::Raid5), 1),
        case(Level::Raid10, 4, None, 2),
        case(Level::Raid10, 4, Some(Level::Raid6), 1),
        case(Level::Raid50 { sets: 2 }, 6, Some(Level::Raid50 { sets: 3 }), 3),
        case(Level::Raid50 { sets: 2 }, 6, None, 2),
        case(Level::Raid60 { sets: 2 }, 8, Some(Level::Raid60 { sets: 3 }), 4),
    ]
}

impl Case {
    fn all(&self) -> usize {
        self.members + self.more
    }

    fn grow(&self) -> Grow {
        Grow { level: self.to, ..Grow::default() }
    }

    fn begin(&self, rig: &Rig, group: &mut Group) {
        let joining = rig.devices(self.members..self.all()).into_iter().map(Joining::Device);
        group.grow(&self.grow(), joining.collect()).unwrap();
    }
}

/// What the crate relies on: the blocks of an old row are all in new rows up to its own, those of a new one in old rows from it on.
#[test]
fn rows_move_downwards() {
    for c in cases() {
        for strip in [4096, 16384] {
            let old = Geometry::new(c.from, c.members, strip, 48).unwrap();
            let new = Geometry::new(c.to.unwrap_or(grown(c.from, c.more)), c.all(), strip, 48).unwrap();
            new.grows_from(&old).unwrap();
            for block in 0..old.blocks() {
                assert!(new.locate(block).row <= old.locate(block).row, "{c:?}: block {block}");
            }
        }
    }
}

fn grown(level: Level, more: usize) -> Level {
    match level {
        Level::Coded { k, m } => Level::Coded { k: k + more as u8, m },
        level => level,
    }
}

/// Some blocks written, some discarded, some never touched.
fn filled(rig: &Rig, c: &Case, strip: u64, seed: u64) -> (Group, Vec<Option<u64>>) {
    let mut group = rig.create(c.from, strip, Policy::Journal, c.members);
    let mut random = Seeded::new(seed);
    let blocks = group.size() / B;
    let mut expected = vec![Some(0); blocks as usize];
    for turn in 0..40 {
        let at = random.below(blocks);
        let len = (1 + random.below(12)).min(blocks - at);
        let zero = turn % 5 == 4;
        let ids: Vec<u64> = (0..len).map(|i| if zero { 0 } else { 1000 * turn + i + 1 }).collect();
        if zero {
            group.zero(at * B, len * B).unwrap();
        } else {
            group.write(at * B, &ids.iter().flat_map(|id| content(*id)).collect::<Vec<u8>>()).unwrap();
        }
        for (i, id) in ids.iter().enumerate() {
            expected[at as usize + i] = Some(*id);
        }
    }
    (group, expected)
}

fn consistent(group: &mut Group) {
    let checked = group.check(0, u64::MAX, Repair::StopOnError).unwrap();
    assert_eq!((checked.next, checked.mismatches), (None, vec![]));
}

#[test]
fn content_stays_and_room_grows() {
    for c in cases() {
        for (strip, seed) in [(4096, 1), (16384, 2)] {
            let rig = Rig::new(c.all());
            let (mut group, mut expected) = filled(&rig, &c, strip, seed);
            let size = group.size();
            c.begin(&rig, &mut group);
            let rows = group.geometry().rows();
            assert_eq!(group.state(), GroupState::Optimal);
            let mut step = 0;
            loop {
                step += 1;
                let moved = group.move_rows(1 + step % 5).unwrap().unwrap();
                assert_eq!(moved.rows, rows);
                assert_eq!(identities(&mut group)[..expected.len()], expected, "{c:?} at {moved:?}");
                if step % 4 == 0 {
                    consistent(&mut group);
                }
                if moved.done == rows {
                    break;
                }
                assert_eq!(group.size(), size, "it grows at the end");
            }
            assert_eq!(group.move_rows(1).unwrap(), None);
            let new = Geometry::new(c.to.unwrap_or(grown(c.from, c.more)), c.all(), strip, rows).unwrap();
            assert_eq!(*group.geometry(), new);
            assert_eq!(group.superblock().growth, None);
            expected.resize((group.size() / B) as usize, Some(0));
            assert_eq!(identities(&mut group), expected);
            // The new room can be used, and everything survives as many members as the level tolerates.
            if group.size() > size {
                group.write(group.size() - B, &content(7)).unwrap();
                *expected.last_mut().unwrap() = Some(7);
            }
            consistent(&mut group);
            group.close().unwrap();
            drop(group);
            let mut group = Group::open(rig.devices(0..c.all()), false).unwrap();
            for slot in 0..group.geometry().m {
                group.take_out((slot + 1) % c.all()).unwrap();
            }
            assert_eq!(identities(&mut group), expected, "{c:?} without some");
            assert_eq!(group.counters().corrected, 0);
        }
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let rig = Rig::new(9);
    let mut group = rig.create(Level::Raid6, 4096, Policy::Journal, 5);
    group.add_spare(rig.device(5), false).unwrap();
    let mut refused = |level: Option<&str>, devices: &[usize], part: &str| {
        let level = level.map(|l| l.parse().unwrap());
        let joining = devices.iter().map(|i| Joining::Device(rig.device(*i)));
        let before = rig.disk.position();
        let error =
            group.grow(&Grow { level, ..Grow::default() }, joining.collect()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert_eq!(rig.disk.position(), before, "nothing was written");
    };
    refused(None, &[], "level 6 with 5 drives already");
    refused(Some("5"), &[6], "less parity");
    refused(Some("2+4"), &[6], "nothing smaller");
    refused(Some("10"), &[6], "parity");
    refused(Some("50"), &[6], "parity");
    refused(None, &[0], "signature");
    refused(None, &[6, 6], "named twice");
    let joining = vec![Joining::Spare("m7".into())];
    assert!(matches!(group.grow(&Grow::default(), joining), Err(Error::State(_))));
    // A hot spare becomes a member.
    group.grow(&Grow::default(), vec![Joining::Spare("m5".into()), Joining::Device(rig.device(6))]).unwrap();
    assert_eq!((group.members().len(), group.spares().len()), (7, 0));
    assert_eq!(group.members()[5].device.as_deref(), Some("m5"));
    let again = group.grow(&Grow::default(), vec![Joining::Device(rig.device(7))]).unwrap_err();
    assert_eq!(again, Error::State("the group grows already".into()));
    let mut other = Group::create(
        &Plan { policy: Policy::Bitmap, journal: 256 * B, ..Plan::default() },
        rig.devices([7, 8]).into_iter().chain([Rig::new(1).device(0)]).collect(),
        vec![],
    )
    .unwrap();
    let error = other.grow(&Grow::default(), vec![Joining::Device(Rig::new(1).device(0))]).unwrap_err();
    assert!(error.to_string().contains("the policy journal only"), "{error}");
}

/// A smaller device cannot be a member.
#[test]
fn a_device_that_is_too_small_is_refused() {
    let (rig, small) = (Rig::new(3), Rig::with(1, MEMBER - 32));
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 3);
    let error = group.grow(&Grow::default(), vec![Joining::Device(small.device(0))]).unwrap_err();
    assert!(matches!(error, Error::Layout(_)), "{error}");
    assert_eq!(group.superblock().growth, None);
}

/// Requests, members that fail and are replaced, and stops, at every time of a growth.
struct History {
    rig: Rig,
    group: Group,
    model: Vec<u8>,
    random: Seeded,
    at: Vec<usize>,
    free: Vec<usize>,
}

impl History {
    fn range(&mut self) -> (usize, usize) {
        let size = self.model.len() as u64;
        let (mut at, mut len) = (self.random.below(size), 1 + self.random.below(60_000.min(size)));
        if self.random.below(3) != 0 {
            (at, len) = (at / B * B, len.next_multiple_of(B));
        }
        (at as usize, len.min(size - at) as usize)
    }

    fn step(&mut self) {
        match self.random.below(24) {
            0..9 => {
                let ranges: Vec<_> = (0..1 + self.random.below(4)).map(|_| self.range()).collect();
                let mut data: Vec<Vec<u8>> = Vec::new();
                for (at, len) in &ranges {
                    let mut bytes = vec![0; *len];
                    self.random.fill(&mut bytes);
                    self.model[*at..at + len].copy_from_slice(&bytes);
                    data.push(bytes);
                }
                let requests: Vec<Request<'_>> = ranges
                    .iter()
                    .zip(&data)
                    .map(|((at, _), data)| Request::Write { at: *at as u64, data })
                    .collect();
                self.group.apply(&requests).into_iter().for_each(|r| r.unwrap());
            }
            9..12 => {
                let (at, len) = self.range();
                self.model[at..at + len].fill(0);
                self.group.zero(at as u64, len as u64).unwrap();
            }
            12..15 => {
                let (at, len) = self.range();
                let mut out = vec![1; len];
                self.group.read(at as u64, &mut out).unwrap();
                assert!(out == self.model[at..at + len]);
            }
            15..18 => drop(self.group.move_rows(1 + self.random.below(4)).unwrap()),
            18 | 19 => self.members(),
            20 | 21 => drop(self.group.rebuild(1 + self.random.below(20)).unwrap()),
            22 => consistent(&mut self.group),
            _ => self.reopen(),
        }
    }

    fn members(&mut self) {
        let slot = self.random.below(self.at.len() as u64) as usize;
        match self.group.members()[slot].state {
            MemberState::Failed if !self.free.is_empty() => {
                let device = self.free.remove(0);
                self.group.replace(slot, self.rig.device(device), true).unwrap();
                self.free.push(std::mem::replace(&mut self.at[slot], device));
            }
            MemberState::Failed => {}
            _ => drop(self.group.take_out(slot)),
        }
    }

    /// Stops, with and without an end, and goes on.
    fn reopen(&mut self) {
        if self.random.below(2) == 0 {
            self.group.close().unwrap();
        }
        let slots = self.at.iter().enumerate();
        let here = slots.filter(|(s, _)| self.group.members()[*s].device.is_some()).map(|(_, d)| *d);
        self.group = Group::open(self.rig.devices(here.collect::<Vec<_>>()), false).unwrap();
    }

    fn all(&mut self) {
        let mut out = vec![1; self.model.len()];
        self.group.read(0, &mut out).unwrap();
        assert!(out == self.model);
    }
}

#[test]
fn reads_return_what_was_written_while_a_group_grows() {
    for c in cases() {
        for seed in 0..6 {
            let mut random = Seeded::new(seed);
            let rig = Rig::new(c.all() + 3);
            let group = rig.create(c.from, 4096 << random.below(4), Policy::Journal, c.members);
            let model = vec![0; group.size() as usize];
            let free = (c.all()..c.all() + 3).collect();
            let mut h = History { rig, group, model, random, at: (0..c.members).collect(), free };
            for _ in 0..10 {
                h.step();
            }
            c.begin(&h.rig, &mut h.group);
            h.at.extend(c.members..c.all());
            for _ in 0..80 {
                h.step();
            }
            h.all();
            while h.group.move_rows(7).unwrap().is_some() {}
            h.model.resize(h.group.size() as usize, 0);
            h.all();
            while h.group.rebuild(1000).unwrap().is_some() {}
            for _ in 0..30 {
                h.step();
            }
            h.reopen();
            h.all();
            consistent(&mut h.group);
            assert_eq!(h.group.counters().corrected, 0, "{c:?} {seed}");
        }
    }
}

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

/// Releases that know nothing of growth refuse a group that grows, and open it before and after.
#[test]
fn the_format_has_another_number_while_a_group_grows() {
    let rig = Rig::new(5);
    let format = |i: usize| {
        let bytes = |place: u64| {
            let mut out = vec![0; 16];
            rig.file(i).read_at(&mut out, place * 4 * B).unwrap();
            (u32::from_le_bytes(out[8..12].try_into().unwrap()), out)
        };
        let superblock = Group::examine(rig.device(i)).unwrap().0;
        (superblock.growth.is_some(), [bytes(0).0, bytes(1).0])
    };
    let c = case(Level::Raid5, 4, None, 1);
    let (mut group, _) = filled(&rig, &c, 4096, 3);
    assert!(format(0).1.contains(&1) && !format(0).1.contains(&2));
    c.begin(&rig, &mut group);
    assert!(format(0).0 && format(0).1.contains(&2) && format(4).1.contains(&2));
    group.move_rows(5).unwrap();
    group.checkpoint().unwrap();
    group.checkpoint().unwrap();
    assert_eq!(format(0), (true, [2, 2]));
    while group.move_rows(100).unwrap().is_some() {}
    group.close().unwrap();
    assert_eq!(format(4), (false, [1, 1]));
}

/// A block that is lost stops the growth where it is, and nothing else; once it is written again the growth goes on.
#[test]
fn a_lost_block_stops_a_growth_where_it_is() {
    let rig = Rig::new(5);
    let c = case(Level::Raid5, 4, None, 1);
    let (mut group, _) = filled(&rig, &c, 4096, 3);
    let rows = group.geometry().rows();
    group.write(0, &vec![3; group.size() as usize]).unwrap();
    c.begin(&rig, &mut group);
    group.move_rows(2).unwrap();
    let start = group.superblock().data_start;
    for slot in [0, 1] {
        rig.disk.flip(&name(slot), (start + 20) * B + 5, 1);
    }
    let error = group.move_rows(rows).unwrap_err();
    assert!(matches!(error, Error::Lost { row: 20, .. }), "{error}");
    let at = group.moved;
    assert!((10..20).contains(&at), "{at}");
    assert!(matches!(group.move_rows(rows), Err(Error::Lost { row: 20, .. })));
    assert_eq!(group.moved, at);
    // Whole rows are written without what they hold.
    group.write(0, &vec![4; group.size() as usize]).unwrap();
    while group.move_rows(rows).unwrap().is_some() {}
    let mut all = vec![0; group.size() as usize];
    group.read(0, &mut all).unwrap();
    assert!(all[..48 * 3 * BLOCK].iter().all(|b| *b == 4));
}
