//! Many placement groups on one drive: each has a role, an epoch, a floor and a horizon of its own.

use crate::common::*;
use ashlar_drive::{Accept, Drive, Error, Prepared, Role};
use ashlar_format::{Ballot, BucketId, GroupId, RegisterKey, Space};
use ashlar_machine::{Folder, SimDisk};
use bytes::Bytes;

const MANY: u16 = 256;

fn group(n: u16) -> GroupId {
    GroupId::new(n % 3, n)
}

fn key_in(n: u16, k: u64) -> RegisterKey {
    RegisterKey::new(group(n), Space::Object, BucketId([1; 16]), format!("key-{k:05}").as_bytes())
}

fn accept_in(n: u16, k: u64, b: Ballot, epoch: u32) -> Accept {
    let (record, summary) = (Bytes::from(record(k)), Bytes::new());
    Accept { key: key_in(n, k), ballot: b, epoch, record, summary, inline: None }
}

fn record(k: u64) -> Vec<u8> {
    format!("record {k}").into_bytes()
}

fn drive_of_many() -> (SimDisk, Folder, Drive) {
    let disk = SimDisk::new(256 << 20);
    let folder = Folder::simulated(&disk, None);
    ashlar_drive::format_folder(&folder, &label(1), &[], 64 << 10).unwrap();
    let d = Drive::open_folder(&folder, &small_options(), false).unwrap();
    (disk, folder, d)
}

fn in_epoch(epoch: u32, counter: u64) -> Ballot {
    Ballot { epoch, counter, node: 1, nonce: 7 }
}

fn all() -> Vec<GroupId> {
    (0..MANY).map(group).collect()
}

#[test]
fn drive_holds_only_assigned_groups() {
    let (_, folder, d) = drive_of_many();
    assert!(d.held().is_empty() && d.joins() && !d.votes());
    assert!(matches!(run(&d, d.prepare(&key_in(0, 1), in_epoch(1, 1))), Ok(Prepared::NotVoter)));
    assert_eq!(run(&d, d.read(&key_in(0, 1), true, 1)), Err(Error::NotHeld(group(0))));
    assert_eq!(run(&d, d.fence_epoch(group(0), 1)), Err(Error::NotHeld(group(0))));
    assert_eq!(run(&d, d.joined(group(0), 1)), Err(Error::NotHeld(group(0))));
    let refused = one(&d, |d, c| d.accept(accept_in(0, 1, in_epoch(1, 1), 1), c));
    assert_eq!((refused.0.failed, refused.1), (1, Some(Error::NotHeld(group(0)))));
    run(&d, d.found(&all(), 1)).unwrap();
    run(&d, d.join(&[(group(300), 4)])).unwrap();
    drop(d);
    let d = Drive::open_folder(&folder, &small_options(), false).unwrap();
    assert_eq!(d.held().len(), usize::from(MANY) + 1);
    assert_eq!((d.role(group(7)), d.epoch(group(7))), (Some(Role::Voter), 1));
    assert_eq!((d.role(group(300)), d.epoch(group(300))), (Some(Role::Joining), 4));
    assert!(d.votes() && d.joins());
    // A repeated start with another map.
    run(&d, d.found(&[group(3)], 1)).unwrap();
    let voters = d.held().into_iter().filter(|(_, role)| *role == Role::Voter);
    assert_eq!(voters.map(|(id, _)| id).collect::<Vec<_>>(), [group(3)]);
}

#[test]
fn one_flush_raises_floors_of_all_groups() {
    let (_, folder, d) = drive_of_many();
    run(&d, d.found(&all(), 1)).unwrap();
    for n in 0..MANY {
        assert!(matches!(run(&d, d.prepare(&key_in(n, 1), in_epoch(1, 5))), Ok(Prepared::Promised { .. })));
    }
    drop(d);
    let d = Drive::open_folder(&folder, &small_options(), false).unwrap();
    let before = d.stats().syncs;
    d.pump();
    let above = d.floor().counter;
    assert_eq!(d.stats().syncs, before + 1);
    for n in 0..MANY {
        // Above what was promised before the start, below the floor that is durable now.
        let b = in_epoch(1, above - 5);
        let promised = run(&d, d.prepare(&key_in(n, 1), b));
        assert!(matches!(promised, Ok(Prepared::Promised { .. })), "group {n}: {promised:?}");
    }
    assert_eq!(d.stats().syncs, before + 1, "no prepare waited for a flush");
}

#[test]
fn groups_are_fenced_joined_and_purged_one_by_one() {
    let (_, folder, d) = drive_of_many();
    run(&d, d.found(&all(), 1)).unwrap();
    for n in 0..3 {
        assert_eq!(one(&d, |d, c| d.accept(accept_in(n, 1, in_epoch(1, 9), 1), c)).0.ok, 1);
    }
    run(&d, d.fence_epoch(group(1), 2)).unwrap();
    run(&d, d.set_joining(&[(group(1), 2)])).unwrap();
    d.purge(&key_in(2, 1), in_epoch(1, 9), 1);
    run(&d, d.flush()).unwrap();
    let look = |d: &Drive| {
        let horizon = |n| run(d, d.read(&key_in(n, 7), false, u32::MAX)).unwrap().horizon;
        assert_eq!((horizon(0), horizon(2)), (Ballot::ZERO, in_epoch(1, 9)));
        assert_eq!((d.role(group(0)), d.role(group(1))), (Some(Role::Voter), Some(Role::Distrusted)));
        assert_eq!((d.epoch(group(0)), d.epoch(group(1))), (1, 2));
        assert!(matches!(run(d, d.read(&key_in(1, 1), true, 1)), Err(Error::NewerLayout(2))));
        assert!(run(d, d.read(&key_in(0, 1), true, 1)).unwrap().voter);
        let there = |n| run(d, d.read(&key_in(n, 1), true, 2)).unwrap().accepted.is_some();
        assert_eq!((there(0), there(1), there(2)), (true, true, false));
    };
    look(&d);
    drop(d);
    let d = Drive::open_folder(&folder, &small_options(), false).unwrap();
    look(&d);
    assert_eq!(run(&d, d.joined(group(1), 1)), Err(Error::NewerLayout(2)));
    run(&d, d.joined(group(1), 2)).unwrap();
    assert_eq!(d.role(group(1)), Some(Role::Voter));
}

#[test]
fn calls_of_an_older_layout_change_nothing() {
    let (_, _, d) = drive_of_many();
    run(&d, d.found(&[group(0)], 3)).unwrap();
    let b = in_epoch(3, 9);
    assert_eq!(one(&d, |d, c| d.accept(accept_in(0, 1, b, 3), c)).0.ok, 1);
    let shard = |epoch| ashlar_drive::InlineShard {
        owner: key_in(0, 1),
        write_id: write_id(1),
        index: 3,
        ballot: b,
        epoch,
        data: Bytes::from_static(b"shard"),
    };
    assert_eq!(one(&d, |d, c| d.stage(shard(3), c)).0.ok, 1);
    let older = Some(Error::NewerLayout(3));
    assert_eq!(one(&d, |d, c| d.stage(shard(2), c)).1, older);
    let refused = one(&d, |d, c| d.accept(accept_in(0, 1, in_epoch(3, 10), 2), c)).0;
    assert_eq!((refused.refused, refused.highest), (1, Ballot::fence(3)));
    assert_eq!(one(&d, |d, c| d.copy(accept_in(0, 1, b, 2), false, c)).1, older);
    assert_eq!(d.begin_shard(&key_in(0, 1), write_id(2), 0, b, 2, 9_000, 4096).err(), older);
    assert_eq!(run(&d, d.confirm(write_id(1), 3, b, 2)).err(), older);
    assert_eq!(run(&d, d.drop_orphan(write_id(1), 3, in_epoch(9, 1), 2)).err(), older);
    assert_eq!(run(&d, d.set_joining(&[(group(0), 2)])).err(), older);
    assert_eq!(run(&d, d.joined(group(0), 2)).err(), older);
    assert!(matches!(run(&d, d.scan(&[], &[0xff; 8], 9, 2)), Err(Error::NewerLayout(3))));
    assert!(matches!(run(&d, d.range_digest(&[], &[0xff; 8], 2)), Err(Error::NewerLayout(3))));
    d.hint(&key_in(0, 1), b, 2);
    d.purge(&key_in(0, 1), b, 2);
    d.discard(group(0), 2, &[(write_id(1), 3)]);
    run(&d, d.flush()).unwrap();
    let there = run(&d, d.read(&key_in(0, 1), true, 3)).unwrap().accepted.unwrap();
    assert!(!there.hint && there.record.is_some());
    assert_eq!(read_shard(&d, 1).unwrap(), b"shard");
    d.hint(&key_in(0, 1), b, 3);
    d.discard(group(0), 3, &[(write_id(1), 3)]);
    run(&d, d.flush()).unwrap();
    assert!(run(&d, d.read(&key_in(0, 1), true, 3)).unwrap().accepted.unwrap().hint);
    assert_eq!(read_shard(&d, 1), Err(Error::Missing));
}

/// States are written group by group, in segments that compaction removes.
#[test]
fn compaction_loses_no_state() {
    let (disk, folder, d) = drive_of_many();
    run(&d, d.found(&all(), 1)).unwrap();
    for round in 0..40u64 {
        let n = (round % 5) as u16;
        for k in 0..40 {
            let mut a = accept_in(n, k, in_epoch(100, round * 100 + k), u32::MAX);
            a.record = Bytes::from(vec![round as u8; 2000]);
            assert_eq!(one(&d, |d, c| d.accept(a.clone(), c)).0.ok, 1);
        }
        run(&d, d.fence_epoch(group(100 + round as u16), 2 + round as u32)).unwrap();
        d.tidy().unwrap();
    }
    assert!(d.stats().compacted > 0);
    let check = |d: &Drive| {
        assert_eq!(d.held().len(), usize::from(MANY));
        for round in 0..40u16 {
            assert_eq!(d.epoch(group(100 + round)), 2 + u32::from(round));
        }
        assert_eq!((d.epoch(group(99)), d.role(group(99))), (1, Some(Role::Voter)));
    };
    check(&d);
    drop(d);
    let d = Drive::open_folder(&folder, &small_options(), false).unwrap();
    check(&d);
    drop(d);
    // Again without the index: everything comes from the journal.
    for name in disk.dump().keys().filter(|n| n.starts_with("index/")) {
        disk.put(name, None);
    }
    let d = Drive::open_folder(&folder, &small_options(), false).unwrap();
    assert_eq!(d.stats().index_rebuilt, 1);
    check(&d);
}
