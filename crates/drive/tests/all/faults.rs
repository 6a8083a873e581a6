//! Injected failures: every failure is reported, and nothing is acknowledged falsely (I11, I12; T10).

use crate::common::*;
use ashlar_drive::{Check, Drive, Error, Options, Role, State, Tally};
use ashlar_machine::{Fault, Faults, Folder, Operation, SimDisk};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

fn with_faults() -> (Options, Arc<Faults>) {
    let mut o = small_options();
    let f = Arc::new(Faults::new());
    o.faults = Some(f.clone());
    (o, f)
}

#[test]
fn failed_write_or_flush_fences_drive() {
    for on in [Operation::Write, Operation::Sync] {
        let (o, f) = with_faults();
        let (disk, _, d) = sim_drive(&o);
        assert_eq!(one(&d, |d, c| d.accept(accept_of(1, ballot(1), b"kept"), c)).0.ok, 1);
        f.set_after(on, Fault::Error(EIO), 0, 1);
        let (r, _) = one(&d, |d, c| d.accept(accept_of(1, ballot(2), b"lost?"), c));
        assert_eq!((r.ok, r.failed), (0, 1));
        assert!(matches!(d.state(), State::Fenced(_)), "{:?}", d.state());
        assert_eq!(f.affected(), 1, "no retry");
        // Everything fails from now on, although the fault is gone.
        let (r, e) = one(&d, |d, c| d.accept(accept_of(2, ballot(3), b"x"), c));
        assert!(r.failed == 1 && matches!(e, Some(Error::Fenced(_))));
        assert!(matches!(read_record(&d, 1), Err(Error::Fenced(_))));
        assert!(matches!(run(&d, d.prepare(&key(1), ballot(9))), Err(Error::Fenced(_))));
        assert!(d.begin_shard(&key(1), write_id(1), 0, ballot(1), u32::MAX, 10, 10).is_err());
        assert!(run(&d, d.flush()).is_err());
        // It waited for a lock that it held itself, for ever.
        assert!(matches!(run(&d, d.fence_epoch(GROUP, 9)), Err(Error::Fenced(_))));
        d.hint(&key(1), ballot(1), u32::MAX);
        d.discard(GROUP, u32::MAX, &[(write_id(1), 3)]);
        drop(d);
        let d = Drive::open_folder(&Folder::simulated(&disk, None), &o, false).unwrap();
        let (b, rec) = read_record(&d, 1).unwrap().unwrap();
        assert!((b, rec.as_slice()) == (ballot(1), b"kept") || b == ballot(2));
    }
}

/// I12: a fence survives the process, and only joining restores the vote.
#[test]
fn fenced_drive_votes_only_after_joining() {
    for on in [Operation::Write, Operation::Sync] {
        let (o, f) = with_faults();
        let (disk, folder, d) = sim_drive(&o);
        assert_eq!(one(&d, |d, c| d.accept(accept_of(1, ballot(1), b"kept"), c)).0.ok, 1);
        f.set_after(on, Fault::Error(EIO), 0, 1);
        assert_eq!(one(&d, |d, c| d.accept(accept_of(1, ballot(2), b"lost?"), c)).0.failed, 1);
        run(&d, d.close());
        assert!(matches!(d.state(), State::Fenced(_)), "closing does not end a fence: {:?}", d.state());
        drop(d);
        // However often it is opened, and whether or not it was used.
        for _ in 0..3 {
            let d = Drive::open_folder(&folder, &o, false).unwrap();
            assert_eq!(role(&d), Role::Distrusted);
            assert_eq!(run(&d, d.prepare(&key(1), ballot(9))), Ok(ashlar_drive::Prepared::NotVoter));
            let kept = read_record(&d, 1).unwrap().unwrap();
            assert!(kept == (ballot(1), b"kept".to_vec()) || kept.0 == ballot(2));
        }
        assert!(!disk.dump().contains_key("fenced"), "the journal says it");
        let d = Drive::open_folder(&folder, &o, false).unwrap();
        run(&d, d.join(&[(GROUP, 0)])).unwrap();
        run(&d, d.joined(GROUP, u32::MAX)).unwrap();
        drop(d);
        assert_eq!(role(&Drive::open_folder(&folder, &o, false).unwrap()), Role::Voter);
    }
}

/// The same with the drive's own threads, on a real file system: a fenced drive is never mistaken for one
/// that was closed normally, however long afterwards.
#[test]
fn fence_is_not_mistaken_for_close() {
    let dir = tempfile::tempdir().unwrap();
    ashlar_drive::format(dir.path(), &label(1), VOTER).unwrap();
    let (o, f) = with_faults();
    let d = Drive::open(dir.path(), &o).unwrap();
    block(async {
        f.set_after(Operation::Sync, Fault::Error(EIO), 0, 1);
        let t = Tally::new(1);
        d.accept(accept_of(1, ballot(1), b"lost?"), t.completion(0));
        assert_eq!(t.wait_all().await.ok, 0);
        // Until both threads have ended.
        d.close().await;
    });
    assert!(matches!(d.state(), State::Fenced(_)), "{:?}", d.state());
    drop(d);
    let d = Drive::open(dir.path(), &o).unwrap();
    assert_eq!(role(&d), Role::Distrusted);
    assert!(d.damage().iter().any(|n| n.starts_with("fenced: ")), "{:?}", d.damage());
    block(d.close());
    drop(d);
    let d = Drive::open(dir.path(), &o).unwrap();
    assert_eq!(role(&d), Role::Distrusted);
    block(d.close());
}

#[test]
fn failed_extent_write_or_flush_fences_drive() {
    for on in [Operation::Write, Operation::Sync] {
        let (o, f) = with_faults();
        let (_, _, d) = sim_drive(&o);
        write_large(&d, 1, 1, &[7; 9000], 4096).unwrap();
        f.set_after(on, Fault::Error(EIO), 0, 1);
        assert!(write_large(&d, 2, 2, &[7; 9000], 4096).is_err());
        assert!(matches!(d.state(), State::Fenced(_)));
    }
}

/// Removes every file below `prefix` without the drive.
fn unlink(disk: &SimDisk, prefix: &str) {
    let names: Vec<String> = disk.dump().into_keys().filter(|n| n.starts_with(prefix)).collect();
    assert!(!names.is_empty());
    for n in names {
        disk.put(&n, None);
    }
}

/// The files of a drive are unlinked while it runs: flushing them still succeeds, without effect.
#[test]
fn unlinked_files_acknowledge_nothing() {
    type Act = fn(&Drive) -> Result<(), Error>;
    let accept: Act = |d| told_of(one(d, |d, c| d.accept(accept_of(5, ballot(5), b"void"), c)));
    let stage: Act = |d| told_of(one(d, |d, c| d.stage(stage_of(5, 5, &[5; 3000]), c)));
    let large: Act = |d| write_large(d, 6, 6, &[7; 9000], 4096);
    let state: Act = |d| run(d, d.fence_epoch(GROUP, 1));
    for (prefix, act) in [
        ("journal/", accept),
        ("journal/", stage),
        ("journal/", state),
        ("journal/", large),
        ("extents/", large),
    ] {
        for strict in [true, false] {
            if prefix == "extents/" && !strict {
                continue;
            }
            let mut o = small_options();
            o.strict = strict;
            let (disk, _, d) = sim_drive(&o);
            write_large(&d, 1, 1, &[7; 9000], 4096).unwrap();
            unlink(&disk, prefix);
            assert_eq!(act(&d), Err(Error::Fenced("emptied".into())), "{prefix} strict {strict}");
            assert_eq!(d.state(), State::Fenced("emptied".into()));
        }
    }
}

fn told_of((o, e): (ashlar_drive::Outcome, Option<Error>)) -> Result<(), Error> {
    if o.ok == 1 { Ok(()) } else { Err(e.expect("a failure has a reason")) }
}

/// The same on a real file system, with the drive's own threads, long before its next tick.
#[test]
fn emptied_folder_acknowledges_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d");
    std::fs::create_dir(&path).unwrap();
    ashlar_drive::format(&path, &label(1), VOTER).unwrap();
    let mut o = small_options();
    o.tick = Duration::from_secs(600);
    let d = Drive::open(&path, &o).unwrap();
    block(async {
        let t = Tally::new(1);
        d.accept(accept_of(1, ballot(1), b"kept"), t.completion(0));
        assert_eq!(t.wait(1).await.ok, 1);
        for sub in ["label", "journal", "extents", "index"] {
            let p = path.join(sub);
            if p.is_dir() { std::fs::remove_dir_all(p).unwrap() } else { std::fs::remove_file(p).unwrap() }
        }
        let t = Tally::new(1);
        d.accept(accept_of(2, ballot(2), b"void"), t.completion(0));
        assert_eq!(t.wait_all().await.ok, 0);
        assert_eq!(d.state(), State::Fenced("emptied".into()));
        d.close().await;
    });
}

#[test]
fn full_file_system_does_not_fence() {
    let (mut o, f) = with_faults();
    o.reserve_bytes = 0;
    let (_, _, d) = sim_drive(&o);
    f.set(Operation::Allocate, Fault::Error(ENOSPC));
    // A shard that needs a segment gets the error from its first write that reaches the drive.
    let mut w = d.begin_shard(&key(1), write_id(1), 0, ballot(1), u32::MAX, 9000, 4096).unwrap();
    for len in [4096, 4096, 808] {
        let _ = run(&d, w.write(Bytes::from(vec![1; len])));
    }
    let (r, e) = one(&d, |_, c| {
        w.finish(c);
    });
    assert_eq!((r.failed, e), (1, Some(Error::Full)));
    // The journal continues in its segment, then reports that it is full.
    let mut full = 0;
    for i in 0..60 {
        let (r, e) = one(&d, |d, c| d.accept(accept_of(i, ballot(i + 1), &[3; 3000]), c));
        if r.failed == 1 {
            assert_eq!(e, Some(Error::Full));
            full += 1;
        }
        // After a record was not written, the promises are the floor, as after a restart.
        assert!(r.ok + r.failed + r.refused == 1 && (r.refused == 0 || full > 0));
    }
    assert!(full > 0 && d.state() == State::Online);
    f.clear();
    let above = |n: u64| ashlar_format::Ballot { counter: (1 << 40) + n, ..ballot(0) };
    let (r, e) = one(&d, |d, c| d.accept(accept_of(99, above(0), b"again"), c));
    assert_eq!(r.ok, 1, "{e:?}");
    for i in 0..60 {
        // What was refused as full never happened, and can be requested again.
        if read_record(&d, i).unwrap().is_none() {
            let (r, _) = one(&d, |d, c| d.accept(accept_of(i, above(i), b"later"), c));
            assert_eq!(r.ok, 1);
        }
    }
}

#[test]
fn full_drive_still_deletes() {
    let disk = SimDisk::new(6 << 20);
    let folder = Folder::simulated(&disk, None);
    let mut o = small_options();
    o.reserve_bytes = 1 << 20;
    ashlar_drive::format_folder(&folder, &label(1), VOTER, 64 << 10).unwrap();
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    let mut stored = Vec::new();
    let mut b = 1;
    for id in 0..10_000u64 {
        let data = vec![id as u8; 3000];
        let (r, e) = one(&d, |d, c| d.stage(stage_of(id, id, &data), c));
        if r.ok == 0 {
            assert_eq!(e, Some(Error::Full));
            break;
        }
        stored.push(id);
        if id % 100 == 0 {
            d.tick();
        }
    }
    assert!(stored.len() > 500, "{}", stored.len());
    assert_eq!(d.check_room(1 << 20), Err(Error::Full));
    assert_eq!(
        d.begin_shard(&key(1), write_id(1), 0, ballot(1), u32::MAX, 1 << 20, 4096).err(),
        Some(Error::Full)
    );
    // Records without data (deletes) have the reserve.
    for k in 0..50 {
        b += 1;
        let (r, e) = one(&d, |d, c| d.accept(accept_of(k, ballot(b), b"tombstone"), c));
        assert_eq!(r.ok, 1, "{e:?}");
    }
    let gone: Vec<_> = stored.iter().map(|id| (write_id(*id), 3)).collect();
    d.discard(GROUP, u32::MAX, &gone);
    run(&d, d.flush()).unwrap();
    d.tidy().unwrap();
    d.tick();
    assert_eq!(d.check_room(3 << 20), Ok(()), "{:?}", d.stats());
    assert_eq!(one(&d, |d, c| d.stage(stage_of(1, 70_000, &[1; 3000]), c)).0.ok, 1);
    assert_eq!(run(&d, d.shards(None, 10)).unwrap().len(), 1);
}

#[test]
fn read_only_medium_still_reads() {
    let (o, f) = with_faults();
    let (_, _, d) = sim_drive(&o);
    assert_eq!(one(&d, |d, c| d.accept(accept_of(1, ballot(1), b"kept"), c)).0.ok, 1);
    f.set(Operation::Write, Fault::Error(EROFS));
    assert_eq!(one(&d, |d, c| d.accept(accept_of(1, ballot(2), b"x"), c)).0.failed, 1);
    f.clear();
    assert_eq!(d.state(), State::ReadOnly);
    assert_eq!(read_record(&d, 1).unwrap().unwrap().1, b"kept");
    let (_, e) = one(&d, |d, c| d.accept(accept_of(1, ballot(2), b"x"), c));
    assert_eq!(e, Some(Error::ReadOnly));
}

#[test]
fn failed_and_corrupt_reads_are_errors() {
    let (o, f) = with_faults();
    let (_, _, d) = sim_drive(&o);
    one(&d, |d, c| d.accept(accept_of(1, ballot(1), b"record"), c));
    one(&d, |d, c| d.stage(stage_of(1, 1, &[9; 5000]), c));
    write_large(&d, 1, 2, &[8; 30_000], 4096).unwrap();
    d.tidy().unwrap();
    for (fault, io) in [(Fault::Error(EIO), true), (Fault::Corrupt, false)] {
        f.set(Operation::Read, fault);
        let errors = [read_record(&d, 1).err(), read_shard(&d, 1).err(), read_shard(&d, 2).err()];
        for e in errors {
            match e {
                Some(Error::Io { code, .. }) if io => assert_eq!(code, Some(EIO)),
                Some(Error::Corrupt(_)) => {}
                e => panic!("{fault:?}: {e:?}"),
            }
        }
        f.clear();
        d.tidy().unwrap();
        assert_eq!(read_record(&d, 1).unwrap().unwrap().1, b"record");
        assert_eq!(read_shard(&d, 1).unwrap(), [9; 5000]);
        assert_eq!(read_shard(&d, 2).unwrap(), [8; 30_000]);
    }
    assert_eq!(d.state(), State::Online);
}

/// An index file cannot be read, and neither can the journal when the index is to be rebuilt from it:
/// whatever is done with the drive then, and after it was opened again, nothing is lost.
#[test]
fn failed_index_rebuild_loses_nothing() {
    for reads in 1..30 {
        let (o, f) = with_faults();
        let (_, folder, d) = sim_drive(&o);
        for k in 0..50 {
            assert_eq!(one(&d, |d, c| d.accept(accept_of(k, ballot(1), b"record"), c)).0.ok, 1);
        }
        d.tidy().unwrap();
        f.set_after(Operation::Read, Fault::Error(EIO), 0, reads);
        let asked = read_record(&d, 7);
        assert!(asked.is_err(), "{reads}: {asked:?}");
        let tidied = d.tidy();
        f.clear();
        // Operations continue, if the drive accepts them.
        for id in 0..40 {
            one(&d, |d, c| d.stage(stage_of(100 + id, id, &[1; 3000]), c));
        }
        let again = d.tidy();
        let what = format!("{reads} failed reads: {tidied:?}, then {again:?}, {:?}", d.state());
        let told = |d: &Drive, may_fail: bool| {
            for k in 0..50 {
                match read_record(d, k) {
                    Ok(Some(r)) => assert_eq!(r.1, b"record", "{what}"),
                    Ok(None) => panic!("{what}: register {k} is absent"),
                    Err(e) => assert!(may_fail, "{what}: {e}"),
                }
            }
        };
        told(&d, d.state() != State::Online);
        run(&d, d.close());
        drop(d);
        let d = Drive::open_folder(&folder, &o, false).unwrap();
        d.pump();
        told(&d, false);
    }
}

#[test]
fn lost_write_is_detected() {
    let (o, f) = with_faults();
    let (disk, _, d) = sim_drive(&o);
    one(&d, |d, c| d.accept(accept_of(1, ballot(1), b"first"), c));
    f.set_after(Operation::Write, Fault::Lost, 0, 1);
    one(&d, |d, c| d.accept(accept_of(2, ballot(2), b"lost by a lying drive"), c));
    one(&d, |d, c| d.accept(accept_of(3, ballot(3), b"third"), c));
    assert!(matches!(read_record(&d, 2), Err(Error::Corrupt(_))));
    drop(d);
    let d = Drive::open_folder(&Folder::simulated(&disk, None), &o, false).unwrap();
    assert_eq!(role(&d), Role::Distrusted);
    assert!(d.stats().journal_damage > 0);
    assert_eq!(read_record(&d, 3).unwrap().unwrap().1, b"third");
}

/// A slow drive: answers are late and right, and nothing else waits for it.
#[test]
fn slow_drive_blocks_no_other_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d");
    std::fs::create_dir(&path).unwrap();
    ashlar_drive::format(&path, &label(1), VOTER).unwrap();
    let (o, f) = with_faults();
    let d = Drive::open(&path, &o).unwrap();
    block(async {
        let t = Tally::new(1);
        d.accept(accept_of(1, ballot(1), b"quick"), t.completion(0));
        assert_eq!(t.wait(1).await.ok, 1);
        f.set(Operation::Sync, Fault::Delay(Duration::from_millis(150)));
        let started = Instant::now();
        let t = Tally::new(3);
        d.accept(accept_of(2, ballot(2), b"slow"), t.completion(0));
        d.stage(stage_of(2, 2, b"slow"), t.completion(1));
        // A prepare of a key whose accept is in flight waits for the flush.
        t.completion(2).ok();
        assert!(started.elapsed() < Duration::from_millis(100), "submitting does not wait");
        let p = d.prepare(&key(2), ballot(3)).await.unwrap();
        assert!(started.elapsed() >= Duration::from_millis(140));
        let ashlar_drive::Prepared::Promised { accepted: Some(a), .. } = p else { panic!("{p:?}") };
        assert_eq!(a.record, "slow");
        assert_eq!(t.wait(3).await.ok, 7);
        f.clear();
        // A read that hangs does not prevent the journal from committing.
        f.set(Operation::Read, Fault::Delay(Duration::from_millis(300)));
        let started = Instant::now();
        let slow = tokio::spawn({
            let d = d.clone();
            async move { d.read(&key(1), true, u32::MAX).await.unwrap() }
        });
        tokio::task::yield_now().await;
        let t = Tally::new(1);
        d.stage(stage_of(4, 4, b"meanwhile"), t.completion(0));
        assert_eq!(t.wait(1).await.ok, 1);
        assert!(started.elapsed() < Duration::from_millis(250));
        assert_eq!(slow.await.unwrap().accepted.unwrap().record.unwrap(), "quick");
        f.clear();
        d.close().await;
    });
}

/// Shards are begun on a slow drive without an extent segment with space: the caller does not wait for the
/// flushes that make the next segment.
#[test]
fn new_extent_segment_is_made_in_background() {
    let dir = tempfile::tempdir().unwrap();
    ashlar_drive::format(dir.path(), &label(1), VOTER).unwrap();
    let (o, f) = with_faults();
    let d = Drive::open(dir.path(), &o).unwrap();
    f.set(Operation::Sync, Fault::Delay(Duration::from_millis(200)));
    let slowest = (0..8)
        .map(|id| {
            let began = Instant::now();
            drop(d.begin_shard(&key(1), write_id(id), 3, ballot(1), u32::MAX, 400_000, 65_536).unwrap());
            began.elapsed()
        })
        .max()
        .unwrap();
    f.clear();
    block(d.close());
    assert!(slowest < Duration::from_millis(100), "{slowest:?}");
}

/// Heal drops a damaged shard and immediately makes it again. The drop requires a lookup in the index files;
/// if that happens while the new shard is being written, the new one stays.
#[test]
fn shard_staged_again_survives_earlier_drop() {
    let dir = tempfile::tempdir().unwrap();
    ashlar_drive::format(dir.path(), &label(1), VOTER).unwrap();
    let (mut o, f) = with_faults();
    o.tick = Duration::from_millis(10);
    let stage = |d: &Drive, data: &[u8]| {
        let t = Tally::new(1);
        d.stage(stage_of(1, 1, data), t.completion(0));
        block(t.wait_all()).ok
    };
    let d = Drive::open(dir.path(), &o).unwrap();
    assert_eq!(stage(&d, b"old"), 1);
    block(d.close());
    // From here on only the index files contain the shard.
    let d = Drive::open(dir.path(), &o).unwrap();
    d.discard(GROUP, u32::MAX, &[(write_id(1), 3)]);
    f.set(Operation::Sync, Fault::Delay(Duration::from_millis(300)));
    assert_eq!(stage(&d, b"new"), 1);
    f.clear();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(50));
        block(d.flush()).unwrap();
    }
    let r = block(d.open_shard(write_id(1), 3)).expect("it was staged after it was dropped");
    assert_eq!(block(r.read(0, Check::Drive)).unwrap(), b"new".as_slice());
    block(d.close());
}
