//! Members that fail, lie and are repaired.

use ashlar_machine::{Fault, Operation};

use super::rig::*;
use crate::{Error, Group, GroupState, Level, MemberState, Mismatch, Policy, Repair, Shared};

/// A group whose first 24 blocks have the identities 1..=24.
fn filled(rig: &Rig, level: Level, members: usize) -> Group {
    let mut group = rig.create(level, 4096, Policy::Journal, members);
    for block in 0..24 {
        group.write(block * B, &content(block + 1)).unwrap();
    }
    group.checkpoint().unwrap();
    group
}

fn intact(group: &mut Group) {
    let found = identities(group);
    let expected: Vec<_> = (1..=24).map(Some).collect();
    assert_eq!(found[..24], expected[..]);
}

/// Where a virtual block lies: device and byte.
fn place(group: &Group, block: u64) -> (usize, u64) {
    let place = group.geometry().locate(block);
    let slot = group.geometry().slot(place.set, place.row, place.role);
    (slot, (group.layout.data_start + place.row) * B)
}

#[test]
fn flipped_bit_is_reconstructed_and_corrected() {
    let rig = Rig::new(4);
    let mut group = filled(&rig, Level::Raid6, 4);
    let (slot, at) = place(&group, 5);
    rig.disk.flip(&name(slot), at + 77, 3);
    intact(&mut group);
    assert_eq!((group.counters().corrected, group.members()[slot].corrected), (1, 1));
    intact(&mut group);
    assert_eq!(group.counters().corrected, 1, "it was written again");
    assert_eq!(group.state(), GroupState::Optimal);
}

/// A block that was written to another place matches its content, but not its place.
fn swapped(without_place: bool) -> bool {
    let rig = Rig::new(4);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 4);
    group.summer.without_place = without_place;
    // The same member holds both, under other addresses.
    let (a, b) = (0, 12);
    group.write(a * B, &content(1)).unwrap();
    group.write(b * B, &content(2)).unwrap();
    group.checkpoint().unwrap();
    let ((slot, from), (other, to)) = (place(&group, a), place(&group, b));
    assert_eq!(slot, other);
    let file = rig.file(slot);
    let mut block = vec![0; crate::BLOCK];
    file.read_at(&mut block, from).unwrap();
    file.write_at(&block, to).unwrap();
    // Its checksum came along: both pages and places of a member can be copied by a confused device.
    let sum = group.sum(slot, (from / B) - group.layout.data_start);
    group.set_sum(slot, (to / B) - group.layout.data_start, sum);
    let mut out = vec![0; crate::BLOCK];
    match group.read(b * B, &mut out) {
        Ok(()) => identity(&out) != Some(2),
        // Found: what is reconstructed does not match the checksum that came along.
        Err(Error::Lost { .. }) => false,
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn checksum_is_bound_to_its_place() {
    assert!(!swapped(false), "a misplaced block was returned");
    assert!(swapped(true), "the mutant without the place has to be found");
}

#[test]
fn lost_write_is_found() {
    let rig = Rig::new(4);
    let mut group = filled(&rig, Level::Raid5, 4);
    let (slot, _) = place(&group, 5);
    // The journal is written, the block is not.
    rig.faults[slot].set_after(Operation::Write, Fault::Lost, 1, 1);
    group.write(5 * B, &content(99)).unwrap();
    assert_eq!(rig.faults[slot].affected(), 1);
    let mut out = vec![0; crate::BLOCK];
    group.read(5 * B, &mut out).unwrap();
    assert_eq!(identity(&out), Some(99));
    assert_eq!(group.counters().corrected, 1);
}

#[test]
fn page_of_checksums_that_is_lost_is_made_anew() {
    let rig = Rig::new(4);
    let group = filled(&rig, Level::Raid5, 4);
    let pages = [group.layout.page(0, 0), group.layout.page(0, 1)];
    drop(group);
    rig.disk.flip("m2", pages[0] * B + 100, 1);
    let mut group = Group::open(rig.devices(0..4), false).unwrap();
    intact(&mut group);
    assert_eq!(group.counters().pages_lost, 0, "the other copy has it");
    drop(group);
    for page in pages {
        rig.disk.flip("m2", page * B + 101, 1);
    }
    rig.disk.flip("m2", pages[0] * B + 100, 1);
    let mut group = Group::open(rig.devices(0..4), false).unwrap();
    intact(&mut group);
    assert_eq!(group.counters().pages_lost, 1);
    while group.check(0, u64::MAX, Repair::AutoFix).unwrap().next.is_some() {}
    group.close().unwrap();
    let mut group = Group::open(rig.devices(0..4), false).unwrap();
    assert_eq!(group.check(0, u64::MAX, Repair::StopOnError).unwrap().mismatches, []);
    assert_eq!(group.counters().pages_lost, 0);
    intact(&mut group);
}

#[test]
fn errors_take_a_member_out_for_good() {
    for on in [Operation::Read, Operation::Write, Operation::Sync] {
        let rig = Rig::new(4);
        let mut group = filled(&rig, Level::Raid5, 4);
        let (slot, _) = place(&group, 3);
        // Once: it is not asked again.
        rig.faults[slot].set_after(on, Fault::Error(libc::EIO), 0, 1);
        // Reading the block; writing it anew.
        intact(&mut group);
        group.write(3 * B, &content(4)).unwrap();
        assert_eq!(group.state(), GroupState::Degraded, "{on:?}");
        let member = group.members().remove(slot);
        assert_eq!((member.state, member.device), (MemberState::Failed, None));
        assert!(member.why.is_some_and(|why| why.contains("os error 5")));
        intact(&mut group);
        drop(group);
        // Nor after a restart, although the device is fine.
        let mut group = Group::open(rig.devices(0..4), false).unwrap();
        assert_eq!(group.members()[slot].state, MemberState::Failed);
        intact(&mut group);
    }
}

#[test]
fn one_failure_too_many_stops_the_group_and_loses_nothing() {
    let rig = Rig::new(4);
    let mut group = filled(&rig, Level::Raid5, 4);
    for slot in [0, 1] {
        rig.faults[slot].set(Operation::Write, Fault::Error(libc::EIO));
    }
    let result = group.write(0, &vec![1; 12 * crate::BLOCK]);
    assert!(matches!(result, Err(Error::Failed { tolerated: 1, .. })), "{result:?}");
    assert_eq!(group.state(), GroupState::Failed);
    assert!(matches!(group.write(40 * B, &content(1)), Err(Error::Failed { .. })));
    assert!(matches!(group.read(0, &mut [0; 4096]), Err(Error::Failed { .. })));
    drop(group);
    // The cable is back.
    rig.faults.iter().for_each(|f| f.clear());
    let mut group = Group::open(rig.devices(0..4), false).unwrap();
    let found = identities(&mut group);
    for (block, id) in found.iter().enumerate().skip(12).take(12) {
        assert_eq!(*id, Some(block as u64 + 1));
    }
}

#[test]
fn bad_block_without_redundancy_is_an_error_and_others_stay_readable() {
    let rig = Rig::new(4);
    let mut group = filled(&rig, Level::Raid5, 4);
    let (slot, at) = place(&group, 5);
    let other = (slot + 1) % 4;
    group.take_out(other).unwrap();
    rig.disk.flip(&name(slot), at, 0);
    let lost = group.geometry().locate(5).row;
    for block in 0..24 {
        let mut out = vec![0; crate::BLOCK];
        let result = group.read(block * B, &mut out);
        match result {
            Ok(()) => assert_eq!(identity(&out), Some(block + 1)),
            Err(Error::Lost { row, .. }) => assert_eq!(row, lost),
            Err(e) => panic!("{e}"),
        }
    }
    assert!(matches!(group.read(5 * B, &mut [0; 4096]), Err(Error::Lost { .. })));
    // A new content of the whole row is taken.
    let row = group.geometry().locate(5).row * 3;
    group.write(row * B, &[content(1), content(2), content(3)].concat()).unwrap();
    let mut out = vec![0; 3 * crate::BLOCK];
    group.read(row * B, &mut out).unwrap();
    assert_eq!(out.chunks_exact(crate::BLOCK).map(identity).collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
}

#[test]
fn check_names_the_member_and_fixes_or_stops() {
    let rig = Rig::new(5);
    let mut group = filled(&rig, Level::Raid6, 5);
    let ((slot, at), (slot2, at2)) = (place(&group, 5), place(&group, 13));
    rig.disk.flip(&name(slot), at + 9, 1);
    rig.disk.flip(&name(slot2), at2 + 9, 1);
    let stopped = group.check(0, u64::MAX, Repair::StopOnError).unwrap();
    let row = group.geometry().locate(5).row;
    assert_eq!(stopped.mismatches, [Mismatch { set: 0, row, members: vec![slot], fixed: false }]);
    assert_eq!((stopped.next, group.counters().corrected), (None, 0));
    let (mut from, mut found) = (Some(0), Vec::new());
    while let Some(at) = from {
        let checked = group.check(at, 3, Repair::AutoFix).unwrap();
        from = checked.next;
        found.extend(checked.mismatches);
    }
    assert_eq!(
        found.iter().map(|m| (m.members.clone(), m.fixed)).collect::<Vec<_>>(),
        [(vec![slot], true), (vec![slot2], true)]
    );
    assert_eq!(group.check(0, u64::MAX, Repair::StopOnError).unwrap().mismatches, []);
}

#[test]
fn hot_spare_takes_the_place_of_a_failed_member() {
    let rig = Rig::new(5);
    let mut group = filled(&rig, Level::Raid5, 4);
    group.add_spare(rig.device(4), false).unwrap();
    assert_eq!(group.use_spare().unwrap(), None, "nothing has failed");
    rig.faults[2].set(Operation::Sync, Fault::Error(libc::EIO));
    group.write(0, &vec![0; 3 * crate::BLOCK]).unwrap();
    for block in 0..3 {
        group.write(block * B, &content(block + 1)).unwrap();
    }
    assert_eq!(group.use_spare().unwrap(), Some(2));
    assert_eq!(group.state(), GroupState::Recovery);
    let mut done = 0;
    while let Some(progress) = group.rebuild(5).unwrap() {
        assert!(progress.done > done && progress.rows == group.geometry().rows() && progress.slot == 2);
        done = progress.done;
        // It goes on where it was.
        drop(std::mem::replace(&mut group, Group::open(rig.devices([0, 1, 3, 4]), false).unwrap()));
    }
    assert_eq!(group.state(), GroupState::Optimal);
    group.take_out(0).unwrap();
    intact(&mut group);
    assert_eq!(group.check(0, u64::MAX, Repair::StopOnError).unwrap().mismatches, []);
}

#[test]
fn replacement_must_fit() {
    let rig = Rig::new(5);
    let mut group = filled(&rig, Level::Raid5, 4);
    assert!(matches!(group.replace(1, rig.device(4), false), Err(Error::State(_))), "it has not failed");
    group.take_out(1).unwrap();
    assert!(matches!(group.take_out(2), Err(Error::State(_))), "one more cannot be spared");
    rig.file(4).set_len(100 * B).unwrap();
    assert!(matches!(group.replace(1, rig.device(4), false), Err(Error::Layout(_))));
    assert!(
        matches!(group.replace(1, rig.device(1), false), Err(Error::Signature { .. })),
        "it has a superblock"
    );
    group.replace(1, rig.device(1), true).unwrap();
    while group.rebuild(100).unwrap().is_some() {}
    intact(&mut group);
}

#[test]
fn threads_share_batches() {
    let rig = Rig::new(4);
    let mut group = rig.create(Level::Raid5, 4096, Policy::Journal, 4);
    group.create_volume("v", Some(24 * B)).unwrap();
    assert!(matches!(group.create_volume("v", None), Err(Error::State(_))));
    assert!(matches!(group.create_volume("a/b", None), Err(Error::State(_))));
    let shared = Shared::new(group);
    let drive = shared.volume("v").unwrap();
    std::thread::scope(|scope| {
        for t in 0..8u64 {
            let drive = drive.clone();
            scope.spawn(move || {
                for i in 0..30 {
                    let block = t * 3 + i % 3;
                    drive.write(block * B, content(1 + block + 100 * i)).unwrap();
                    let mut out = vec![0; crate::BLOCK];
                    drive.read(block * B, &mut out).unwrap();
                    assert_eq!(identity(&out), Some(1 + block + 100 * i));
                }
            });
        }
    });
    drive.zero(0, 24 * B).unwrap();
    assert_eq!(drive.allocated(0, 24 * B, 10).unwrap(), [(24 * B, false)]);
    drive.write(4 * B, content(9)).unwrap();
    assert_eq!(drive.allocated(0, 24 * B, 10).unwrap(), [(4 * B, false), (B, true), (19 * B, false)]);
    assert!(matches!(drive.write(24 * B, content(1)), Err(Error::Range { .. })));
    shared.with(|g| g.delete_volume("v")).unwrap();
    assert!(matches!(drive.write(0, content(1)), Err(Error::State(_))));
    assert!(matches!(drive.read(0, &mut [0; 512]), Err(Error::State(_))));
}

#[test]
fn spare_that_was_removed_is_no_part_of_the_group() {
    let rig = Rig::new(5);
    let mut group = filled(&rig, Level::Raid5, 4);
    group.add_spare(rig.device(4), false).unwrap();
    assert!(matches!(group.remove_spare("m3"), Err(Error::State(_))), "a member is no spare");
    group.remove_spare("m4").unwrap();
    assert!(group.spares().is_empty() && group.superblock().spares.is_empty());
    assert!(
        matches!(Group::examine(rig.device(4)), Err(Error::NoMember { .. })),
        "it can be used for something else"
    );
    group.take_out(0).unwrap();
    assert_eq!(group.use_spare().unwrap(), None);
    assert_eq!(Group::examine(rig.device(1)).unwrap().0, *group.superblock());
}

#[test]
fn group_that_was_stopped_or_deleted_touches_its_members_no_more() {
    let rig = Rig::new(4);
    let mut group = filled(&rig, Level::Raid5, 4);
    group.create_volume("v", None).unwrap();
    let shared = Shared::new(group);
    let drive = shared.volume("v").unwrap();
    shared.with(|g| {
        g.close().unwrap();
        g.stop();
    });
    // Another process has the members now.
    let mut group = Group::open(rig.devices(0..4), false).unwrap();
    intact(&mut group);
    let mut out = vec![0; crate::BLOCK];
    assert!(matches!(drive.read(0, &mut out), Err(Error::State(_))));
    assert!(matches!(drive.write(0, content(77)), Err(Error::State(_))));
    assert!(matches!(drive.flush(), Err(Error::State(_))));
    intact(&mut group);
    group.delete().unwrap();
    assert!(matches!(group.read(0, &mut out), Err(Error::State(_))));
    assert!(matches!(Group::open(rig.devices(0..4), true), Err(Error::NoMember { .. })));
}

/// A member that loses the writes of its checksums: its blocks are those that the others say, so they count.
#[test]
fn checksums_that_a_member_has_lost_are_made_again() {
    for policy in [Policy::Journal, Policy::Bitmap] {
        let rig = Rig::new(4);
        let mut group = rig.create(Level::Raid5, 8192, policy, 4);
        let fill = |group: &mut Group, first: u64| {
            for block in 0..48 {
                group.write(block * B, &content(first + block)).unwrap();
            }
            group.checkpoint().unwrap();
        };
        fill(&mut group, 1);
        let before = rig.disk.dump()["m1"].clone();
        fill(&mut group, 1000);
        let pages = group.layout.page(0, 0) * B..(group.layout.page(0, 1) + group.layout.pages) * B;
        group.close().unwrap();
        let mut bytes = rig.disk.dump()["m1"].clone();
        let pages = pages.start as usize..pages.end as usize;
        bytes[pages.clone()].copy_from_slice(&before[pages]);
        rig.disk.put("m1", Some(bytes));
        let mut group = Group::open(rig.devices(0..4), false).unwrap();
        assert_eq!(identities(&mut group)[..48], (1000..1048).map(Some).collect::<Vec<_>>(), "{policy:?}");
        assert!(group.counters().corrected > 0);
        group.check(0, u64::MAX, Repair::AutoFix).unwrap();
        assert_eq!(group.check(0, u64::MAX, Repair::StopOnError).unwrap().mismatches, []);
    }
}
