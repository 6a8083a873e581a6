//! Virtual drives that grow.

use super::rig::*;
use crate::{Error, Group, Level, NewVolume, Policy, Shared, VolumeLimits};
use ashlar_environment::random::Seeded;
use ashlar_machine::Crash;

/// A group of 1,024 blocks and more, of which `a` and `b` have ten each.
fn group(rig: &Rig) -> Group {
    let mut group = rig.create(Level::Raid5, 65536, Policy::Journal, 4);
    assert!(group.size() >= 1024 * B);
    assert_eq!(group.create_volume("a", Some(10 * B)).unwrap().start, 0);
    assert_eq!(group.create_volume("b", Some(10 * B)).unwrap().start, 256);
    group
}

fn rig() -> Rig {
    Rig::with(4, MEMBER + 384)
}

fn refused(result: Result<crate::Volume, Error>, part: &str) {
    let error = result.expect_err("it is refused");
    assert!(matches!(&error, Error::State(why) if why.contains(part)), "{error} has no {part:?}");
}

#[test]
fn virtual_drive_grows_where_it_is() {
    let rig = rig();
    let shared = Shared::new(group(&rig));
    let before = shared.volume("a").unwrap();
    before.write(9 * B, content(9)).unwrap();
    shared.volume("b").unwrap().write(0, content(20)).unwrap();
    shared.with(|g| {
        refused(g.grow_volume("c", None), "no virtual drive");
        refused(g.grow_volume("a", Some(9 * B)), "smaller");
        refused(g.grow_volume("a", Some(257 * B)), "1048576 bytes at most: \"b\" is behind it");
        assert_eq!(g.superblock().volumes[0].blocks, 10, "nothing has changed");
        assert_eq!(g.grow_volume("a", Some(10 * B)).unwrap().blocks, 10);
        assert_eq!(g.grow_volume("a", Some(20 * B - 1)).unwrap().blocks, 20);
        assert_eq!(g.grow_volume("a", None).unwrap().blocks, 256);
    });
    let after = shared.volume("a").unwrap();
    assert_eq!(after.size(), 256 * B);
    let mut out = vec![1; 247 * crate::BLOCK];
    after.read(9 * B, &mut out).unwrap();
    assert!(identity(&out[..crate::BLOCK]) == Some(9) && out[crate::BLOCK..].iter().all(|b| *b == 0));
    after.write(255 * B, content(255)).unwrap();
    assert!(matches!(after.write(256 * B, content(1)), Err(Error::Range { .. })));
    // Who had it before goes on, with the size that they know.
    before.write(0, content(7)).unwrap();
    assert!(matches!(before.write(10 * B, content(1)), Err(Error::Range { .. })));
    let mut out = content(0);
    shared.volume("b").unwrap().read(0, &mut out).unwrap();
    assert_eq!(identity(&out), Some(20));
    // What was in a deleted one is not in one that grows into its place.
    shared.with(|g| {
        g.delete_volume("b").unwrap();
        let end = g.size() / B;
        refused(g.grow_volume("a", Some((end + 1) * B)), "the end of the group");
        assert_eq!(g.grow_volume("a", None).unwrap().blocks, end);
    });
    shared.volume("a").unwrap().read(256 * B, &mut out).unwrap();
    assert_eq!(identity(&out), Some(0));
    drop((before, after));
    drop(shared);
    let group = Group::open(rig.devices(0..4), false).unwrap();
    assert_eq!(group.superblock().volumes[0].blocks, group.size() / B);
}

#[test]
fn virtual_drive_becomes_smaller_and_what_is_cut_is_gone() {
    let rig = rig();
    let shared = Shared::new(group(&rig));
    shared.with(|g| g.grow_volume("a", None).unwrap());
    let before = shared.volume("a").unwrap();
    for block in 0..30 {
        before.write(block * B, content(block + 1)).unwrap();
    }
    shared.with(|g| {
        let refused =
            |g: &mut Group, bytes| assert!(matches!(g.shrink_volume("a", bytes), Err(Error::State(_))));
        refused(g, 0);
        refused(g, 257 * B);
        assert_eq!(g.superblock().volumes[0].blocks, 256);
        assert_eq!(g.shrink_volume("a", 20 * B - 1).unwrap().blocks, 20);
        assert_eq!(g.shrink_volume("a", 20 * B).unwrap().blocks, 20);
        assert!(matches!(g.shrink_volume("c", B), Err(Error::State(_))));
    });
    // Who has it goes on in what is left.
    let mut out = content(0);
    before.read(19 * B, &mut out).unwrap();
    assert_eq!(identity(&out), Some(20));
    before.write(0, content(99)).unwrap();
    for at in [20 * B, 19 * B + 1, 255 * B] {
        assert_eq!(before.read(at, &mut out), Err(Error::Range { at, len: B, size: 20 * B }));
        assert!(matches!(before.write(at, content(1)), Err(Error::Range { .. })));
        assert!(matches!(before.zero(at, B), Err(Error::Range { .. })));
        assert!(matches!(before.allocated(at, B, 1), Err(Error::Range { .. })));
    }
    // In whatever takes its place.
    shared.with(|g| assert_eq!(g.grow_volume("a", None).unwrap().blocks, 256));
    let after = shared.volume("a").unwrap();
    let mut all = vec![1; 256 * crate::BLOCK];
    after.read(0, &mut all).unwrap();
    let found: Vec<Option<u64>> = all.chunks_exact(crate::BLOCK).map(identity).collect();
    let wanted = |block: usize| {
        Some(if block == 0 {
            99
        } else if block < 20 {
            block as u64 + 1
        } else {
            0
        })
    };
    assert_eq!(found, (0..256).map(wanted).collect::<Vec<_>>());
}

#[test]
fn power_cut_while_a_virtual_drive_becomes_smaller() {
    let rig = rig();
    let mut group = group(&rig);
    group.grow_volume("a", Some(100 * B)).unwrap();
    let data: Vec<u8> = (1..=100).flat_map(content).collect();
    group.write(0, &data).unwrap();
    group.checkpoint().unwrap();
    let from = rig.disk.position();
    group.shrink_volume("a", 30 * B).unwrap();
    let acknowledged = rig.disk.position();
    // Its place is another one's at once.
    group.grow_volume("a", Some(60 * B)).unwrap();
    let mut crash = Crash::new(&rig.disk);
    let (mut random, mut sizes) = (Seeded::new(7), std::collections::BTreeSet::new());
    for position in from..=rig.disk.position() {
        crash.advance(position);
        for kept in 0..6 {
            let image = Rig::of(crash.image(|| if kept < 2 { kept } else { random.next() }), 4);
            let mut group = Group::open(image.devices(0..4), false).unwrap();
            let blocks = group.superblock().volumes[0].blocks;
            sizes.insert(blocks);
            assert!(
                blocks == 100 && position < acknowledged || blocks == 30 || blocks == 60,
                "{blocks} at {position}"
            );
            let found = identities(&mut group);
            for (block, id) in (0..100u64).zip(&found) {
                let whole = *id == Some(block + 1);
                let cut = *id == Some(0) && block >= 30;
                assert!(cut || whole && (block < 30 || blocks == 100), "{block} reads {id:?} at {position}");
            }
        }
    }
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [30, 60, 100]);
}

#[test]
fn limits_of_virtual_drives_survive_and_are_taken_back() {
    let rig = rig();
    let mut group = group(&rig);
    let limits = VolumeLimits { iops: 100, bandwidth: 1 << 20 };
    refused(group.limit_volume("c", limits), "no virtual drive");
    assert_eq!(group.limit_volume("a", limits).unwrap().limits, limits);
    let new = NewVolume { name: "c".into(), bytes: Some(B), limits, thin: false };
    assert_eq!(group.make_volume(&new).unwrap().limits, limits);
    drop(group);
    let mut group = Group::open(rig.devices(0..4), false).unwrap();
    let all: Vec<VolumeLimits> = group.superblock().volumes.iter().map(|v| v.limits).collect();
    assert_eq!(all, [limits, VolumeLimits::default(), limits]);
    for name in ["a", "c"] {
        group.limit_volume(name, VolumeLimits::default()).unwrap();
    }
    assert_eq!(group.superblock().encode(&[0; 16])[8], 1, "releases of before can read it again");
}

#[test]
fn power_cut_while_a_virtual_drive_grows() {
    let rig = rig();
    let mut group = group(&rig);
    group.write(9 * B, &content(9)).unwrap();
    group.checkpoint().unwrap();
    let from = rig.disk.position();
    group.grow_volume("a", Some(100 * B)).unwrap();
    let acknowledged = rig.disk.position();
    group.write(99 * B, &content(99)).unwrap();
    let mut crash = Crash::new(&rig.disk);
    for position in from..=rig.disk.position() {
        crash.advance(position);
        for kept in [0, 1] {
            let image = Rig::of(crash.image(|| kept), 4);
            let mut group = Group::open(image.devices(0..4), false).unwrap();
            let blocks = group.superblock().volumes[0].blocks;
            assert!(
                blocks == 100 || blocks == 10 && position < acknowledged,
                "{blocks} at {position}, {kept}"
            );
            assert_eq!(group.superblock().volumes[1].blocks, 10);
            assert_eq!(identities(&mut group)[9], Some(9));
        }
    }
}
