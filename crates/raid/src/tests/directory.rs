//! Groups with more virtual drives than a superblock has room for.

use ashlar_environment::random::Seeded;
use ashlar_machine::Crash;

use super::rig::*;
use crate::superblock::IN_SUPERBLOCK;
use crate::{Error, Group, Level, MAX_VOLUMES, Plan, Policy, Volume, VolumeLimits};

/// Blocks of a member that has room for so many virtual drives of 1 MiB and less, with three drives of data.
fn blocks(volumes: usize) -> u64 {
    let rows = volumes as u64 * 256 / 3 + 64;
    16 + 512 + rows / 200 + 64 + rows
}

fn plan(policy: Policy, journal: u64) -> Plan {
    Plan {
        name: "g".into(),
        level: Level::Raid5,
        strip: 65536,
        policy,
        journal: journal * B,
        ..Plan::default()
    }
}

/// A group with as many virtual drives as its superblock has.
fn full(rig: &Rig, policy: Policy) -> Group {
    let mut group = Group::create(&plan(policy, 512), rig.devices(0..4), vec![]).unwrap();
    group.set_volumes(many(IN_SUPERBLOCK)).unwrap();
    assert!(!group.superblock().directory);
    group
}

fn many(count: usize) -> Vec<Volume> {
    let limits = |i| VolumeLimits { iops: if i % 7 == 0 { 100 } else { 0 }, bandwidth: 0 };
    let of = |i: usize| Volume {
        name: format!("{i:04}"),
        start: i as u64 * 256,
        blocks: 1,
        limits: limits(i),
        thin: None,
    };
    (0..count).map(of).collect()
}

#[test]
fn as_many_virtual_drives_as_there_may_be() {
    for policy in [Policy::Journal, Policy::None] {
        let rig = Rig::with(5, blocks(MAX_VOLUMES + 1));
        let mut group = full(&rig, policy);
        group.set_volumes(many(MAX_VOLUMES)).unwrap();
        let last = (MAX_VOLUMES as u64 - 1) * 256 * B;
        group.write(last, &content(5)).unwrap();
        let refused = group.create_volume("more", Some(B));
        assert!(refused.is_err_and(|e| e.to_string().contains("1023")));
        // Named as long as names may be, each with limits.
        let limits = VolumeLimits { iops: u32::MAX, bandwidth: u64::MAX };
        let longest = |v: Volume| Volume { name: v.name.repeat(12), limits, ..v };
        let longest: Vec<Volume> = many(MAX_VOLUMES).into_iter().map(longest).collect();
        group.set_volumes(longest.clone()).unwrap();
        // A new member has it too.
        group.take_out(2).unwrap();
        group.replace(2, rig.device(4), false).unwrap();
        while group.rebuild(10_000).unwrap().is_some() {}
        group.close().unwrap();
        let mut group = Group::open(rig.devices([0, 1, 3, 4]), false).unwrap();
        assert_eq!(group.superblock().volumes, longest);
        let mut found = vec![0; B as usize];
        group.read(last, &mut found).unwrap();
        assert_eq!(identity(&found), Some(5));
        group.delete_volume(&longest[0].name).unwrap();
        group.close().unwrap();
        let found = Group::examine(rig.device(4)).unwrap().0;
        assert_eq!(found.volumes, longest[1..], "it is seen without a group in service");
        let group = Group::open(rig.devices([0, 1, 3, 4]), false).unwrap();
        assert!(group.superblock().directory && group.superblock().volumes.len() == MAX_VOLUMES - 1);
    }
}

#[test]
fn short_journals_have_no_room_for_a_directory() {
    let rig = Rig::with(4, blocks(IN_SUPERBLOCK + 2));
    let mut group = Group::create(&plan(Policy::Journal, 256), rig.devices(0..4), vec![]).unwrap();
    group.set_volumes(many(IN_SUPERBLOCK)).unwrap();
    let refused = group.create_volume("more", Some(B)).expect_err("there is no room");
    assert!(matches!(&refused, Error::State(why) if why.contains("1280 KiB")), "{refused}");
    assert_eq!(group.superblock().volumes.len(), IN_SUPERBLOCK);
    group.create_volume("more", Some(B)).expect_err("nor the second time");
    group.write(0, &content(1)).unwrap();
}

/// Power cuts while the directory is begun, and while it changes, among writes that fill the shorter journals.
#[test]
fn power_cut_while_the_directory_changes() {
    let rig = Rig::with(4, blocks(IN_SUPERBLOCK + 4));
    let mut group = full(&rig, Policy::Journal);
    let mut random = Seeded::new(9);
    for block in 0..60 {
        group.write(block * B, &content(block + 1)).unwrap();
    }
    let from = rig.disk.position();
    // The number of virtual drives from a position of the log on.
    let mut steps = vec![(from, IN_SUPERBLOCK)];
    for name in ["a", "b", "c"] {
        group.create_volume(name, Some(B)).unwrap();
        steps.push((rig.disk.position(), steps.last().unwrap().1 + 1));
        for _ in 0..40 {
            let block = random.below(60);
            group.write(block * B, &content(block + 1)).unwrap();
        }
    }
    group.delete_volume("b").unwrap();
    steps.push((rig.disk.position(), IN_SUPERBLOCK + 2));
    assert!(group.superblock().directory);
    let mut crash = Crash::new(&rig.disk);
    let mut opened = [0; 5];
    for position in from..=rig.disk.position() {
        crash.advance(position);
        // Writes in between are of other tests.
        let near =
            steps.windows(2).any(|two| (two[1].0.saturating_sub(60)..=two[1].0 + 4).contains(&position));
        for _ in 0..usize::from(near || position % 32 == 0) {
            let image = Rig::of(crash.image(|| random.next()), 4);
            let mut group = Group::open(image.devices(0..4), false).unwrap();
            let found = group.superblock().volumes.len();
            let done = steps.iter().rposition(|(at, _)| *at <= position).unwrap();
            let next = steps.get(done + 1).map(|(_, count)| *count);
            assert!(found == steps[done].1 || Some(found) == next, "{found} at {position}: {steps:?}");
            opened[done] += 1;
            let mut all = vec![0; 60 * B as usize];
            group.read(0, &mut all).unwrap();
            let ids: Vec<Option<u64>> = all.chunks_exact(B as usize).map(identity).collect();
            assert_eq!(ids, (1..=60).map(Some).collect::<Vec<_>>(), "at {position}");
            // It goes on.
            group.create_volume("later", Some(B)).unwrap();
            group.write(0, &content(1)).unwrap();
        }
    }
    assert!(opened.iter().all(|n| *n > 0), "{opened:?}");
}

/// A directory with a flipped bit is not used: the member has the superblock before, or none.
#[test]
fn damaged_directory_is_refused() {
    let rig = Rig::with(4, blocks(IN_SUPERBLOCK + 4));
    let mut group = full(&rig, Policy::Journal);
    group.create_volume("a", Some(B)).unwrap();
    group.create_volume("b", Some(B)).unwrap();
    group.close().unwrap();
    drop(group);
    let journal_end = 16 + 512;
    let places = [journal_end - 64, journal_end - 32].map(|block: u64| (block * B) as usize);
    let whole = rig.disk.dump()["m1"].clone();
    for places in [&places[..1], &places[1..], &places[..]] {
        let mut bytes = whole.clone();
        places.iter().for_each(|at| bytes[at + 100] ^= 1);
        rig.disk.put("m1", Some(bytes));
        match Group::examine(rig.device(1)) {
            Ok((found, _)) => {
                let names: Vec<&str> =
                    found.volumes.iter().skip(IN_SUPERBLOCK).map(|v| &v.name[..]).collect();
                assert!(places.len() == 1 && (names == ["a"] || names == ["a", "b"]), "{names:?}");
            }
            Err(e) => assert!(matches!(e, Error::NoMember { .. }), "{e}"),
        }
    }
    // The others have it.
    let group = Group::open(rig.devices([0, 2, 3]), true).unwrap();
    assert_eq!(group.superblock().volumes.len(), IN_SUPERBLOCK + 2);
}
