//! The superblock over crashes, damage and strangers; signatures; bytes that may not change.

use ashlar_machine::Crash;
use proptest::prelude::*;

use super::rig::*;
use crate::journal::{self, Change, Entry, Intent, Listed, Position};
use crate::superblock::IN_SUPERBLOCK;
use crate::{
    Device, Error, Geometry, Group, Growth, Level, MemberState, Plan, Policy, Settings, Slot, Superblock,
    Volume, VolumeLimits,
};

fn example() -> Superblock {
    Superblock {
        group: *b"group identity..",
        generation: 7,
        name: "tank".into(),
        geometry: Geometry::new(Level::Raid6, 5, 64 << 10, 4096).unwrap(),
        policy: Policy::Journal,
        intents: false,
        journal_blocks: 8192,
        data_start: 9000,
        clean: true,
        slots: (0..5u8)
            .map(|i| Slot {
                device: [i; 16],
                state: [MemberState::Online, MemberState::Failed, MemberState::Rebuild { done: 12 }]
                    [usize::from(i) % 3],
                spare: None,
            })
            .collect(),
        spares: vec![[9; 16]],
        volumes: vec![Volume { name: "v1".into(), start: 256, blocks: 1000, ..Volume::default() }],
        settings: Settings::default(),
        directory: false,
        growth: None,
    }
}

#[test]
fn settings_are_behind_what_other_releases_read() {
    let plain = example();
    let settings =
        Settings { rebuild_speed: 2, offline: [1, 4].into(), check_interval_s: 86_400, checked_ms: 1 << 41 };
    let chosen = Superblock { settings, ..plain.clone() };
    let bytes = chosen.encode(&[3; 16]);
    assert_eq!(Superblock::decode(&bytes), Ok((chosen, [3; 16])));
    let before = plain.encode(&[3; 16]);
    let end = bytes.iter().zip(&before).position(|(a, b)| a != b).unwrap();
    assert!(before[end..before.len() - 32].iter().all(|b| *b == 0), "the defaults are zeros");
}

#[test]
fn superblock_keeps_its_bytes() {
    let bytes = example().encode(&[3; 16]);
    assert_eq!(Superblock::decode(&bytes), Ok((example(), [3; 16])));
    // The format: docs/array.md. Another hash means another format, which needs another number.
    let sum = ashlar_checksum::frame_hash(&[0; 4], &[&bytes]);
    assert_eq!(sum[..8], GOLDEN_SUPERBLOCK, "{:?}", &sum[..8]);
    let at = Position { group: [1; 16], slot: 2, epoch: 3, ordinal: 4 };
    let entry =
        Entry { sequence: 5, content: true, moved: 0, changes: vec![Change { slot: 2, row: 6, sum: 7 }] };
    let part = [journal::encode(&at, &entry, &[&content(8)]), content(8)].concat();
    assert_eq!(journal::decode(&at, &part), Some((Listed::Entry(entry), 8192)));
    let le = |from: usize| u64::from_le_bytes(std::array::from_fn(|i| part[from + i]));
    assert_eq!((&part[..8], &part[8..24], &part[24..26]), (&b"ASHLRENT"[..], &[1; 16][..], &[2, 0][..]));
    assert_eq!([le(26), le(34), le(42)], [3, 4, 5]);
    assert_eq!((part[50], &part[51..53], &part[53..55], le(55), le(63)), (1, &[1, 0][..], &[2, 0][..], 6, 7));
    assert_eq!(le(71), 0, "as in releases that did not know growth");
    let entry =
        Entry { sequence: 5, content: false, moved: 9, changes: vec![Change { slot: 1, row: 6, sum: 7 }] };
    let part = journal::encode(&at, &entry, &[]);
    assert_eq!((&part[53..55], part[71], &part[72..4064]), (&[1, 0][..], 9, &[0; 3992][..]));
    assert_eq!(journal::decode(&at, &part), Some((Listed::Entry(entry), 4096)));
    let intent = Intent { sequence: 5, set: 1, runs: vec![(6, 2), (9, 1)], sums: vec![7, 8, 9] };
    let part = journal::encode_intent(&at, &intent);
    let le = |from: usize| u64::from_le_bytes(std::array::from_fn(|i| part[from + i]));
    assert_eq!((part[50], &part[51..55], &part[55..57]), (2, &[1, 0, 0, 0][..], &[2, 0][..]));
    assert_eq!((le(57), &part[65..67], le(67), &part[75..77]), (6, &[2, 0][..], 9, &[1, 0][..]));
    assert_eq!((&part[77..79], [le(79), le(87), le(95)], le(103)), (&[3, 0][..], [7, 8, 9], 0));
    assert_eq!(journal::decode(&at, &part), Some((Listed::Intent(intent.clone()), 4096)));
    for runs in
        [vec![(6, 2), (7, 1)], vec![(9, 1), (6, 2)], vec![(u64::MAX, 2)], vec![(6, 401)], vec![(6, 2)]]
    {
        let part = journal::encode_intent(&at, &Intent { runs, ..intent.clone() });
        assert_eq!(journal::decode(&at, &part), None);
    }
}

#[test]
fn a_group_whose_journals_may_have_intents_has_another_policy() {
    let bytes = Superblock { intents: true, ..example() }.encode(&[3; 16]);
    let plain = example().encode(&[3; 16]);
    let differs: Vec<usize> = (0..bytes.len() - 32).filter(|i| bytes[*i] != plain[*i]).collect();
    assert!(matches!(differs[..], [at] if (plain[at], bytes[at]) == (0, 3)));
    assert!(Superblock::decode(&bytes).unwrap().0.intents);
}

#[test]
fn growth_is_behind_the_settings_and_has_another_number() {
    let shape = |members| Geometry::new(Level::Raid6, members, 64 << 10, 4096).unwrap();
    let mut slots = example().slots;
    slots.push(Slot { device: [8; 16], state: MemberState::Online, spare: None });
    let settings = Settings { checked_ms: 1 << 60, ..Settings::default() };
    let growing = |moved| Superblock {
        slots: slots.clone(),
        settings: settings.clone(),
        growth: Some(Growth { to: shape(6), moved }),
        ..example()
    };
    let bytes = growing(77).encode(&[3; 16]);
    assert_eq!(Superblock::decode(&bytes), Ok((growing(77), [3; 16])));
    assert_eq!(bytes[8..12], [2, 0, 0, 0]);
    let end = bytes.len() - 32 - bytes[..bytes.len() - 32].iter().rev().position(|b| *b != 0).unwrap();
    // Members of the old shape, the new level and its numbers, the first row that has not moved; behind the last setting.
    assert_eq!(bytes[end - 9..end], [16, 5, 0, 6, 0, 0, 0, 0, 77]);
    // Nothing moves beyond the end, and no shape gets smaller.
    assert!(Superblock::decode(&growing(4097).encode(&[3; 16])).is_err());
    let shrinks =
        Superblock { geometry: shape(6), growth: Some(Growth { to: shape(6), moved: 0 }), ..growing(0) };
    assert!(Superblock::decode(&shrinks.encode(&[3; 16])).is_err());
}

const GOLDEN_SUPERBLOCK: [u8; 8] = [18, 98, 131, 73, 190, 99, 137, 19];

proptest! {
    #[test]
    fn damage_is_never_accepted(at in 0usize..16384, bit in 0u8..8) {
        let mut bytes = example().encode(&[3; 16]);
        bytes[at] ^= 1 << bit;
        prop_assert!(Superblock::decode(&bytes).is_err());
    }

    #[test]
    fn decoders_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000), at in 0usize..400) {
        let _ = Superblock::decode(&bytes);
        let position = Position { group: [1; 16], slot: 2, epoch: 3, ordinal: 4 };
        prop_assert_eq!(journal::decode(&position, &bytes), None);
        // Noise after a valid start.
        let entry = Entry { sequence: 5, content: true, moved: 0, changes: vec![Change { slot: 2, row: 6, sum: 7 }; 9] };
        let mut part = journal::encode(&position, &entry, &[]);
        let n = bytes.len().min(part.len() - at);
        part[at..at + n].copy_from_slice(&bytes[..n]);
        part.resize(20 * 4096, 1);
        prop_assert_eq!(journal::decode(&position, &part), None);
    }

    #[test]
    fn another_place_is_not_accepted(slot in 0u16..4, epoch in 0u64..4, ordinal in 0u64..4) {
        let at = Position { group: [1; 16], slot: 1, epoch: 1, ordinal: 1 };
        let entry = Entry { sequence: 5, content: false, moved: 0, changes: vec![Change { slot: 1, row: 6, sum: 7 }] };
        let part = journal::encode(&at, &entry, &[]);
        let other = Position { slot, epoch, ordinal, ..at };
        prop_assert_eq!(journal::decode(&other, &part).is_some(), other == at);
        prop_assert_eq!(journal::decode(&Position { group: [2; 16], ..at }, &part), None);
    }
}

#[test]
fn crash_in_any_write_of_a_superblock_leaves_one() {
    let rig = Rig::new(3);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 3);
    let from = rig.disk.position();
    for _ in 0..6 {
        group.unsettled = true;
        group.settle().unwrap();
    }
    let last = group.superblock().generation;
    let mut crash = Crash::new(&rig.disk);
    // Each opening adds one to what it found.
    let mut newest = 0;
    for position in from..=rig.disk.position() {
        crash.advance(position);
        for seed in 0..20 {
            let mut random = ashlar_environment::random::Seeded::new(seed);
            let image = Rig::of(crash.image(|| random.next()), 3);
            let opened = Group::open(image.devices(0..3), false).unwrap();
            let found = opened.superblock().generation - 1;
            assert!(found + 1 >= newest, "{found} after {newest}");
            newest = newest.max(found);
        }
    }
    assert_eq!(newest, last);
}

#[test]
fn crash_at_creation_leaves_a_group_or_none() {
    let rig = Rig::new(3);
    let from = rig.disk.position();
    rig.create(Level::Raid5, 4096, Policy::Journal, 3);
    let mut crash = Crash::new(&rig.disk);
    let mut opened = 0;
    for position in from..=rig.disk.position() {
        crash.advance(position);
        for seed in 0..8 {
            let mut random = ashlar_environment::random::Seeded::new(seed);
            let image = Rig::of(crash.image(|| random.next()), 3);
            match Group::open(image.devices(0..3), false) {
                Ok(mut group) => {
                    opened += 1;
                    assert!(identities(&mut group).iter().all(|id| *id == Some(0)));
                }
                Err(Error::NoMember { .. }) => {}
                Err(e) => panic!("at {position}: {e}"),
            }
        }
    }
    assert!(opened > 0);
}

#[test]
fn devices_with_signatures_are_refused_unless_forced() {
    for (at, bytes, owner) in [
        (0, &b"XFSB"[..], "an XFS file system"),
        (0x438, &[0x53, 0xef], "an ext file system"),
        (512, b"EFI PART", "a GPT partition table"),
        (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "an md RAID member"),
        (MEMBER as usize * 4096 - 65536, &[0xfc, 0x4e, 0x2b, 0xa9], "an md RAID member"),
        (0, b"ASHLRAID", "an Ashlar drive group"),
    ] {
        let rig = Rig::new(3);
        rig.file(1).write_at(bytes, at as u64).unwrap();
        let before = rig.disk.dump();
        let mut plan = Plan { journal: 1 << 20, strip: 4096, ..Plan::default() };
        let refused = Group::create(&plan, rig.devices(0..3), vec![]).err();
        assert_eq!(refused, Some(Error::Signature { device: "m1".into(), found: owner }));
        assert_eq!(rig.disk.dump(), before, "nothing was written");
        plan.force = true;
        Group::create(&plan, rig.devices(0..3), vec![]).unwrap();
        Group::open(rig.devices(0..3), false).unwrap();
    }
}

#[test]
fn devices_that_do_not_belong_together_are_refused() {
    let rig = Rig::new(7);
    rig.create(Level::Raid5, 4096, Policy::Journal, 3);
    let plan = Plan { journal: 1 << 20, strip: 4096, ..Plan::default() };
    Group::create(&plan, rig.devices(3..6), vec![]).unwrap();
    let open = |which: &[usize], without| Group::open(rig.devices(which.iter().copied()), without).err();
    assert!(matches!(open(&[0, 1, 5], false), Some(Error::Conflict(_))));
    assert!(matches!(open(&[0, 1, 6], false), Some(Error::NoMember { .. })));
    assert_eq!(open(&[0, 2], false), Some(Error::Missing { slots: vec![1] }));
    assert_eq!(open(&[0, 2], true), None);
    // The one that was left out has failed since.
    let group = Group::open(rig.devices(0..3), false).unwrap();
    assert_eq!(group.members()[1].state, MemberState::Failed);
    assert!(matches!(open(&[0, 1], true), Some(Error::Failed { .. })));
}

#[test]
fn halves_that_went_on_separately_are_a_conflict() {
    let rig = Rig::new(2);
    let mut group = rig.create(Level::Raid1, 4096, Policy::Journal, 2);
    group.close().unwrap();
    drop(group);
    Group::open(rig.devices([0]), true).unwrap();
    Group::open(rig.devices([1]), true).unwrap();
    let both: Vec<Device> = rig.devices(0..2);
    assert!(matches!(Group::open(both, true).err(), Some(Error::Conflict(_))));
}

/// What the fuzzer does at length.
#[test]
fn decoders_take_seeds_with_flipped_bits() {
    use crate::fuzzed;
    type Target = (Vec<Vec<u8>>, fn(&[u8]));
    let targets: [Target; 5] = [
        (fuzzed::superblocks(), fuzzed::superblock),
        (fuzzed::journal_heads(), fuzzed::journal_head),
        (fuzzed::journal_entries(), fuzzed::journal_entry),
        (fuzzed::checksum_pages(), fuzzed::checksum_page),
        (fuzzed::bitmaps(), fuzzed::bitmap),
    ];
    for (seeds, run) in targets {
        assert!(!seeds.is_empty());
        for seed in seeds {
            run(&seed);
            for bit in 0..8 * seed.len().min(200) {
                let mut flipped = seed.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                run(&flipped);
            }
            (0..seed.len().min(200)).for_each(|n| run(&seed[..n]));
        }
    }
}

/// A superblock with as much of everything as there may be, but for its virtual drives.
fn fullest(volumes: Vec<Volume>) -> Superblock {
    let level = Level::Declustered { k: 10, m: 5, spares: 16 };
    let slots = (0..=255u8).map(|i| {
        let spare = (i < 16).then_some(crate::InSpare { index: i, below: 16 });
        Slot { device: [i; 16], state: MemberState::Rebuild { done: 0 }, spare }
    });
    Superblock {
        name: "g".repeat(crate::MAX_NAME),
        geometry: Geometry::new(level, 256, 64 << 10, 1 << 30).unwrap(),
        slots: slots.collect(),
        spares: vec![[9; 16]; crate::MAX_SPARES],
        settings: Settings { offline: (0..256).collect(), ..Settings::default() },
        volumes,
        ..example()
    }
}

fn longest(i: usize, len: usize, limits: VolumeLimits) -> Volume {
    Volume {
        name: format!("{i:03}").repeat(16)[..len].into(),
        start: i as u64,
        blocks: u64::MAX,
        limits,
        thin: None,
    }
}

#[test]
fn properties_of_virtual_drives_have_a_version_of_their_own() {
    let limits = VolumeLimits { iops: 500, bandwidth: 1 << 20 };
    let limited = |superblock: &Superblock| {
        let mut volumes = superblock.volumes.clone();
        volumes.push(Volume { name: "v2".into(), start: 2048, blocks: 1, limits, thin: None });
        Superblock { volumes, ..superblock.clone() }
    };
    let shape = |members| Geometry::new(Level::Raid6, members, 64 << 10, 4096).unwrap();
    let mut growing = Superblock { growth: Some(Growth { to: shape(6), moved: 77 }), ..example() };
    growing.slots.push(Slot { device: [8; 16], state: MemberState::Online, spare: None });
    for (plain, version) in [(example(), 1), (growing, 2), (fullest(example().volumes), 3)] {
        assert_eq!(plain.encode(&[3; 16])[8], version, "without properties it is that of before");
        let bytes = limited(&plain).encode(&[3; 16]);
        assert_eq!(bytes[8], 4);
        assert_eq!(Superblock::decode(&bytes), Ok((limited(&plain), [3; 16])));
        // Without them again, it is as before.
        let mut without = limited(&plain);
        without.volumes[1].limits = VolumeLimits::default();
        assert_eq!(without.encode(&[3; 16])[8], version);
    }
    let bytes = limited(&example()).encode(&[3; 16]);
    let end = bytes.len() - 32 - bytes[..bytes.len() - 32].iter().rev().position(|b| *b != 0).unwrap();
    // After the version of the shape: one virtual drive with properties, its place in the list, which ones, requests, bytes.
    assert_eq!(
        bytes[end + 5 - 20..end + 5],
        [1, 0, 0, 0, 1, 1, 0, 3, 0xf4, 1, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0]
    );
}

#[test]
fn superblocks_with_the_most_of_everything_fit() {
    let plain: Vec<Volume> =
        (0..IN_SUPERBLOCK).map(|i| longest(i, crate::MAX_NAME, VolumeLimits::default())).collect();
    assert!(crate::superblock::fit(&plain));
    assert_eq!(fullest(plain.clone()).encode(&[3; 16]).len(), 16 << 10);
    // As many properties as are let in.
    let limits = VolumeLimits { iops: u32::MAX, bandwidth: u64::MAX };
    let mut limited = plain;
    for i in 0..limited.len() {
        limited[i].limits = limits;
        if !crate::superblock::fit(&limited) {
            limited[i].limits = VolumeLimits::default();
            assert!(i > 20, "there is room for {i}");
        }
    }
    let bytes = fullest(limited.clone()).encode(&[3; 16]);
    assert_eq!(Superblock::decode(&bytes), Ok((fullest(limited), [3; 16])));
    // All may have them under names of usual length.
    let usual: Vec<Volume> = (0..IN_SUPERBLOCK).map(|i| longest(i, 24, limits)).collect();
    assert!(crate::superblock::fit(&usual));
}
