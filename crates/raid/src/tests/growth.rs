//! Growth: content, capacity and redundancy while rows move, beside requests and members that fail; what is refused, and the format. Power
//! cuts are in `growth_crash`.

use ashlar_environment::random::Seeded;
use ashlar_machine::{Fault, Operation};

use super::rig::*;
use crate::{
    BLOCK, Error, Geometry, Group, GroupState, Grow, Joining, Level, MemberState, Plan, Policy, Repair,
    Request,
};

/// What a group is, and what it grows to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) from: Level,
    pub(super) members: usize,
    pub(super) to: Option<Level>,
    pub(super) more: usize,
}

pub(super) fn case(from: Level, members: usize, to: Option<Level>, more: usize) -> Case {
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
    pub(super) fn all(&self) -> usize {
        self.members + self.more
    }

    pub(super) fn grow(&self) -> Grow {
        Grow { level: self.to, ..Grow::default() }
    }

    pub(super) fn begin(&self, rig: &Rig, group: &mut Group) {
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

pub(super) fn consistent(group: &mut Group) {
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

/// Each pair can do without one of its members, the new level cannot do without two.
#[test]
fn a_level_that_tolerates_less_than_is_out_of_service_is_refused() {
    let rig = Rig::new(5);
    let c = case(Level::Raid10, 4, Some(Level::Raid5), 1);
    let (mut group, expected) = filled(&rig, &c, 4096, 1);
    group.take_out(0).unwrap();
    group.take_out(2).unwrap();
    let error = group.grow(&c.grow(), vec![Joining::Device(rig.device(4))]).unwrap_err();
    assert!(matches!(&error, Error::State(why) if why.contains("rebuild them first")), "{error}");
    assert_eq!((group.superblock().growth, group.spares().len()), (None, 0));
    assert_eq!(identities(&mut group), expected);
}

/// A new device that fails at any request: the group goes on without it, or as it was.
#[test]
fn a_new_member_may_fail_at_once() {
    let c = case(Level::Raid5, 3, None, 1);
    let (mut refused, mut degraded) = (0, 0);
    for on in [Operation::Write, Operation::Sync] {
        for after in 0..30 {
            let rig = Rig::new(4);
            let (mut group, expected) = filled(&rig, &c, 8192, 5);
            rig.faults[3].set_after(on, Fault::Error(libc::EIO), after, u64::MAX);
            let done = group.grow(&c.grow(), vec![Joining::Device(rig.device(3))]);
            match &done {
                Err(_) => {
                    refused += 1;
                    assert_eq!((group.superblock().growth, group.members().len()), (None, 3));
                }
                Ok(()) => while group.move_rows(10).unwrap().is_some() {},
            }
            let found = identities(&mut group);
            assert_eq!(found[..expected.len()], expected, "{on:?} {after}");
            consistent(&mut group);
            group.close().unwrap();
            let slots = group.members();
            degraded += usize::from(slots.iter().any(|m| m.state == MemberState::Failed));
            let here = (0..slots.len()).filter(|s| slots[*s].device.is_some()).collect::<Vec<_>>();
            let mut group = Group::open(rig.devices(here), false).unwrap();
            assert_eq!(identities(&mut group), found);
        }
    }
    assert!(refused >= 3 && degraded > 10, "{refused} {degraded}");
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
