//! The behaviour of a drive without faults.

use crate::common::*;
use ashlar_commit::bucket_fence::Deletion;
use ashlar_drive::{Check, Drive, Error, Known, Prepared, Probe, Role, State, Tally, probe};
use ashlar_format::{Ballot, Record};
use ashlar_machine::Folder;

#[test]
fn registers_follow_acceptor_and_survive_restart() {
    let o = small_options();
    let (_, folder, d) = sim_drive(&o);
    assert_eq!(role(&d), Role::Voter);
    assert_eq!(read_record(&d, 1).unwrap(), None);
    let p = run(&d, d.prepare(&key(1), ballot(5))).unwrap();
    let (horizon, purged) = (Ballot::ZERO, Ballot::ZERO);
    assert_eq!(p, Prepared::Promised { accepted: None, horizon, purged, fence: Deletion::NONE });
    let (r, _) = one(&d, |d, c| d.accept(accept_of(1, ballot(4), b"low"), c));
    assert_eq!((r.refused, r.highest), (1, ballot(5)));
    let (r, _) = one(&d, |d, c| d.accept(accept_of(1, ballot(5), b"first"), c));
    assert_eq!(r.ok, 1);
    assert_eq!(read_record(&d, 1).unwrap(), Some((ballot(5), b"first".to_vec())));
    let (r, _) = one(&d, |d, c| d.accept(accept_of(1, ballot(5), b"first"), c));
    assert_eq!(r.ok, 1, "a repeat is answered again");
    let Prepared::Promised { accepted: Some(a), .. } = run(&d, d.prepare(&key(1), ballot(9))).unwrap() else {
        panic!()
    };
    assert_eq!((a.ballot, a.record.as_ref(), a.hint, a.with_shard), (ballot(5), &b"first"[..], false, false));
    d.hint(&key(1), ballot(5), u32::MAX);
    run(&d, d.flush()).unwrap();
    let floor = d.floor();
    assert!(floor > ballot(9));
    drop(d);

    let d = Drive::open_folder(&folder, &o, false).unwrap();
    assert_eq!(d.stats().journal_damage, 0);
    assert_eq!(read_record(&d, 1).unwrap(), Some((ballot(5), b"first".to_vec())));
    let seen = run(&d, d.read(&key(1), false, u32::MAX)).unwrap().accepted.unwrap();
    assert!(seen.hint && seen.record.is_none());
    assert_eq!(seen.digest, Record::digest(b"first"));
    // The promise was in memory only: after a restart the floor replaces every promise.
    let p = run(&d, d.prepare(&key(1), ballot(10))).unwrap();
    assert!(matches!(p, Prepared::Refused { highest } if highest >= floor), "{p:?} {floor:?}");
    let above = Ballot { counter: floor.counter + 1, ..ballot(0) };
    assert!(matches!(run(&d, d.prepare(&key(1), above)).unwrap(), Prepared::Promised { .. }));
    assert!(d.floor() > above);
}

/// The index files may be written between an ACCEPT and its HINT. Without hints, half of the drives of a group cannot serve the
/// record.
#[test]
fn hint_reaches_a_register_that_only_the_index_files_have() {
    let o = small_options();
    let (_, folder, d) = sim_drive(&o);
    let is_hinted = |d: &Drive, n| {
        let seen = run(d, d.read(&key(n), true, u32::MAX)).unwrap().accepted.unwrap();
        assert_eq!((seen.ballot, seen.record.as_deref()), (ballot(5), Some(&b"record"[..])));
        seen.hint
    };
    for n in [1, 2] {
        assert_eq!(one(&d, |d, c| d.accept(accept_of(n, ballot(5), b"record"), c)).0.ok, 1);
    }
    d.upkeep().unwrap();
    // Of another record.
    d.hint(&key(1), ballot(4), u32::MAX);
    assert!(!is_hinted(&d, 1));
    d.hint(&key(1), ballot(5), u32::MAX);
    assert!(is_hinted(&d, 1) && !is_hinted(&d, 2));
    // The hint is journaled behind what the index files have.
    run(&d, d.flush()).unwrap();
    drop(d);
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    assert_eq!(d.stats().journal_damage, 0);
    assert!(is_hinted(&d, 1) && !is_hinted(&d, 2));
    // It is in the files as well, and counts no byte twice.
    d.upkeep().unwrap();
    assert!(is_hinted(&d, 1));
    drop(d);
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    assert!(is_hinted(&d, 1) && !is_hinted(&d, 2));
}

#[test]
fn a_record_that_the_proposer_has_is_not_read() {
    let (_, _, d) = sim_drive(&small_options());
    assert_eq!(one(&d, |d, c| d.accept(accept_of(1, ballot(5), b"stored"), c)).0.ok, 1);
    let prepare = |counter, known: &Known| {
        let before = d.stats().reads;
        let p = run(&d, d.prepare_knowing(&key(1), ballot(counter), Some(known))).unwrap();
        let Prepared::Promised { accepted: Some(a), .. } = p else { panic!("{p:?}") };
        assert_eq!((a.ballot, a.record.as_ref()), (ballot(5), &b"stored"[..]));
        d.stats().reads - before
    };
    let known = |counter, record: &'static [u8]| Known {
        ballot: ballot(counter),
        digest: Record::digest(record),
        record: record.into(),
    };
    assert_eq!(prepare(6, &known(5, b"stored")), 0);
    assert_eq!(prepare(7, &known(4, b"stored")), 1, "another ballot");
    assert_eq!(prepare(8, &known(5, b"other")), 1, "another record");
}

#[test]
fn shards_that_are_staged_together_are_one_batch() {
    let (_, _, d) = sim_drive(&small_options());
    let before = d.stats().batches;
    let tally = Tally::new(3);
    let empty = (stage_of(3, 3, b""), tally.completion(2));
    let shards =
        [(stage_of(1, 1, b"one"), tally.completion(0)), (stage_of(2, 2, b"two"), tally.completion(1))];
    d.stage_all(shards.into_iter().chain([empty]));
    let o = run(&d, async { tally.wait(2).await });
    assert_eq!((o.ok, o.failed), (0b11, 0b100), "an empty shard is refused, the others are durable");
    assert_eq!(d.stats().batches - before, 1);
    assert_eq!((read_shard(&d, 1).unwrap(), read_shard(&d, 2).unwrap()), (b"one".to_vec(), b"two".to_vec()));
}

#[test]
fn small_and_large_shards() {
    let o = small_options();
    let (_, folder, d) = sim_drive(&o);
    let mut rng = Rng(1);
    let small = rng.bytes(5000);
    let (r, _) = one(&d, |d, c| d.stage(stage_of(1, 1, &small), c));
    assert_eq!(r.ok, 1);
    assert_eq!(read_shard(&d, 1).unwrap(), small);
    assert_eq!(read_shard(&d, 2), Err(Error::Missing));
    let mut all = vec![(1, small)];
    for (i, (len, frame)) in
        [(1, 1), (4096, 4096), (10_000, 4096), (300_000, 65_536), (200_000, 3333), (65_536, 65_536)]
            .into_iter()
            .enumerate()
    {
        let data = rng.bytes(len);
        let id = 10 + i as u64;
        write_large(&d, id, id, &data, frame).unwrap();
        assert_eq!(read_shard(&d, id).unwrap(), data, "{len} {frame}");
        run(&d, d.verify_shard(write_id(id), 3)).unwrap();
        all.push((id, data));
    }
    // One-sync: the shard is stored with the record.
    let mut a = accept_of(7, ballot(1), b"with shard");
    a.inline = Some(inline(70, b"the shard"));
    assert_eq!(one(&d, |d, c| d.accept(a, c)).0.ok, 1);
    assert!(run(&d, d.read(&key(7), false, u32::MAX)).unwrap().accepted.unwrap().with_shard);
    all.push((70, b"the shard".to_vec()));
    let census = run(&d, d.shards(None, 1000)).unwrap();
    assert_eq!(census.len(), all.len());
    for reopen in 0..2 {
        let d = if reopen == 0 { d.clone() } else { Drive::open_folder(&folder, &o, false).unwrap() };
        for (id, data) in &all {
            assert_eq!(&read_shard(&d, *id).unwrap(), data);
        }
        d.tidy().unwrap();
        for (id, data) in &all {
            assert_eq!(&read_shard(&d, *id).unwrap(), data);
        }
        assert_eq!(run(&d, d.shards(None, 1000)).unwrap(), census);
        let paged: Vec<_> = std::iter::successors(run(&d, d.shards(None, 2)).unwrap().pop(), |s| {
            run(&d, d.shards(Some((s.write_id, s.index)), 1)).unwrap().pop()
        })
        .collect();
        assert_eq!(paged, census[1..]);
    }
}

#[test]
fn listing_and_digests() {
    let o = small_options();
    let (_, folder, d) = sim_drive(&o);
    let mut rng = Rng(2);
    let mut model = std::collections::BTreeMap::new();
    for i in 0..3000u64 {
        let k = rng.below(800);
        let b = ballot(i + 1);
        let rec = format!("record {i}");
        let t = Tally::new(1);
        d.accept(accept_of(k, b, rec.as_bytes()), t.completion(0));
        model.insert(k, (b, Record::digest(rec.as_bytes())));
        if i % 64 == 0 {
            d.pump();
        }
        if i % 700 == 0 {
            d.tidy().unwrap();
        }
    }
    d.pump();
    let check = |d: &Drive| {
        let (from, to) = (key(100), key(700));
        let mut at = from.as_bytes().to_vec();
        let mut got = Vec::new();
        loop {
            let page = run(d, d.scan(&at, to.as_bytes(), 37, u32::MAX)).unwrap();
            let Some(last) = page.last() else { break };
            at = last.key.as_bytes().to_vec();
            at.push(0);
            got.extend(page);
        }
        let want: Vec<_> = model.range(100..700).map(|(k, (b, g))| (key(*k), *b, *g)).collect();
        let have: Vec<_> = got.iter().map(|e| (e.key.clone(), e.ballot, e.digest)).collect();
        assert_eq!(have, want);
        assert!(got.iter().all(|e| e.summary.starts_with(b"summary ")));
        run(d, d.range_digest(from.as_bytes(), to.as_bytes(), u32::MAX)).unwrap()
    };
    let digest = check(&d);
    assert_eq!(digest.0 as usize, model.range(100..700).count());
    d.tidy().unwrap();
    assert_eq!(check(&d), digest);
    drop(d);
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    assert_eq!(check(&d), digest);
    assert_eq!(d.stats().index_rebuilt, 0);
    // The bounds need not be register keys.
    assert_eq!(run(&d, d.scan(b"", &[0xff; 3000], 10_000, u32::MAX)).unwrap().len(), model.len());
    assert_eq!(run(&d, d.scan(b"", b"\0", 10_000, u32::MAX)).unwrap().len(), 0);
    one(&d, |d, c| d.accept(accept_of(1, Ballot { counter: 1 << 40, ..ballot(0) }, b"x"), c));
    assert_eq!(run(&d, d.scan(&[0; 5], &[0xff; 2], 10_000, u32::MAX)).unwrap().len(), model.len());
}

#[test]
fn purge_keeps_a_horizon() {
    let o = small_options();
    let (_, folder, d) = sim_drive(&o);
    one(&d, |d, c| d.accept(accept_of(1, ballot(50), b"tombstone"), c));
    one(&d, |d, c| d.accept(accept_of(2, ballot(3), b"other"), c));
    d.purge(&key(1), ballot(49), u32::MAX);
    d.purge(&key(1), ballot(50), u32::MAX);
    run(&d, d.flush()).unwrap();
    assert_eq!(read_record(&d, 1).unwrap(), None);
    // A drive that was opened again has promised everything up to its floor.
    for (d, above) in [(d, 60), (Drive::open_folder(&folder, &o, false).unwrap(), 1 << 40)] {
        let (r, _) = one(&d, |d, c| d.accept(accept_of(3, ballot(50), b"late"), c));
        assert_eq!(r.refused, 1);
        assert!(r.highest >= ballot(50));
        let Prepared::Promised { accepted: Some(_), purged, .. } =
            run(&d, d.prepare(&key(2), ballot(above))).unwrap()
        else {
            panic!("key 2 has a record");
        };
        assert_eq!(purged, ballot(50), "what was purged is said with every record of the group");
        assert_eq!(read_record(&d, 2).unwrap().unwrap().0, ballot(3));
        assert_eq!(read_record(&d, 1).unwrap(), None);
        d.tidy().unwrap();
    }
}

#[test]
fn joining_drives_do_not_vote() {
    let o = small_options();
    let (_, folder, d) = sim_drive(&o);
    run(&d, d.set_joining(&[(GROUP, u32::MAX)])).unwrap();
    run(&d, d.fence_epoch(GROUP, 3)).unwrap();
    assert_eq!(run(&d, d.prepare(&key(1), ballot(1))).unwrap(), Prepared::NotVoter);
    let b3 = Ballot { epoch: 3, ..ballot(1) };
    let (r, _) = one(&d, |d, c| d.accept(accept_of(1, b3, b"new"), c));
    assert_eq!((r.ok, r.uncounted), (0, 1));
    let (r, _) = one(&d, |d, c| d.accept(accept_of(1, ballot(9), b"old"), c));
    assert_eq!(r.refused, 1);
    // Copies of old records are accepted regardless of promises, and never replace newer ones.
    assert_eq!(one(&d, |d, c| d.copy(accept_of(1, ballot(9), b"old"), true, c)).0.ok, 1);
    assert_eq!(one(&d, |d, c| d.copy(accept_of(2, ballot(9), b"old"), true, c)).0.ok, 1);
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    assert_eq!((role(&d), d.epoch(GROUP)), (Role::Distrusted, 3));
    assert_eq!(read_record(&d, 1).unwrap().unwrap(), (b3, b"new".to_vec()));
    let seen = run(&d, d.read(&key(2), true, u32::MAX)).unwrap();
    assert!(!seen.voter && seen.accepted.unwrap().hint);
    run(&d, d.join(&[(GROUP, 0)])).unwrap();
    run(&d, d.joined(GROUP, u32::MAX)).unwrap();
    assert!(run(&d, d.read(&key(2), true, u32::MAX)).unwrap().voter);
    let (r, e) = one(&d, |d, c| d.copy(accept_of(2, ballot(10), b"x"), false, c));
    assert_eq!((r.failed, matches!(e, Some(Error::Malformed(_)))), (1, true));
}

#[test]
fn orphans_are_dropped_only_above_the_stage_ballot() {
    let o = small_options();
    let (_, _, d) = sim_drive(&o);
    one(&d, |d, c| d.stage(stage_of(1, 1, b"data"), c));
    assert!(!run(&d, d.drop_orphan(write_id(1), 3, ballot(1), u32::MAX)).unwrap());
    run(&d, d.confirm(write_id(1), 3, ballot(8), u32::MAX)).unwrap();
    assert!(!run(&d, d.drop_orphan(write_id(1), 3, ballot(8), u32::MAX)).unwrap());
    assert_eq!(run(&d, d.confirm(write_id(2), 3, ballot(8), u32::MAX)), Err(Error::Missing));
    assert!(run(&d, d.drop_orphan(write_id(1), 3, ballot(9), u32::MAX)).unwrap());
    run(&d, d.flush()).unwrap();
    assert_eq!(read_shard(&d, 1), Err(Error::Missing));
}

#[test]
fn real_files_with_threads() {
    for base in ["/dev/shm", "/tmp"] {
        let dir = tempfile::Builder::new().prefix("ashlar-drive").tempdir_in(base).unwrap();
        assert_eq!(probe(dir.path()), Probe::Blank);
        assert_eq!(probe(&dir.path().join("no")), Probe::Missing);
        ashlar_drive::format(dir.path(), &label(4), VOTER).unwrap();
        assert_eq!(probe(dir.path()), Probe::Ours(label(4)));
        assert!(matches!(ashlar_drive::format(dir.path(), &label(5), VOTER), Err(Error::Unsuitable(_))));
        let mut o = small_options();
        o.journal_segment_bytes = 1 << 20;
        let mut rng = Rng(3);
        let data: Vec<Vec<u8>> = (0..400).map(|i| rng.bytes(200 + i * 40)).collect();
        let big = rng.bytes(700_000);
        let d = Drive::open(dir.path(), &o).unwrap();
        block(async {
            let t = Tally::new(64);
            for (i, x) in data.iter().enumerate() {
                let t2 = if i < 64 { t.completion(i as u8) } else { ashlar_drive::Completion::ignored() };
                let mut a = accept_of(i as u64, ballot(1), x);
                a.inline = Some(inline(i as u64, x));
                d.accept(a, t2);
            }
            assert_eq!(t.wait_all().await.ok, u64::MAX);
            let mut w =
                d.begin_shard(&key(1), write_id(9999), 3, ballot(1), u32::MAX, 700_000, 65_536).unwrap();
            let mut buf = o.pool.get(704_512).await;
            buf[..700_000].copy_from_slice(&big);
            let frozen = buf.freeze();
            for at in (0..700_000).step_by(65_536) {
                w.write(frozen.slice(at..(at + 65_536).min(700_000))).await.unwrap();
            }
            let t = Tally::new(1);
            w.finish(t.completion(0));
            assert_eq!(t.wait(1).await.ok, 1, "{:?}", t.error());
            d.flush().await.unwrap();
        });
        let check = |d: &Drive| {
            block(async {
                for (i, x) in data.iter().enumerate() {
                    let r = d.read(&key(i as u64), true, u32::MAX).await.unwrap().accepted.unwrap();
                    assert_eq!(r.record.unwrap(), x.as_slice());
                    let s = d.open_shard(write_id(i as u64), 3).await.unwrap();
                    assert_eq!(s.read(0, Check::Drive).await.unwrap(), x.as_slice());
                }
                let s = d.open_shard(write_id(9999), 3).await.unwrap();
                let mut got = Vec::new();
                for n in 0..s.frames() {
                    got.extend_from_slice(&s.read(n, Check::Drive).await.unwrap());
                }
                assert!(got == big);
                d.verify_shard(write_id(9999), 3).await.unwrap();
            });
        };
        check(&d);
        assert!(matches!(Drive::open(dir.path(), &o), Err(Error::Unsuitable(_))), "opened twice");
        block(d.close());
        assert_eq!(d.state(), State::Closed);
        let d = Drive::open(dir.path(), &o).unwrap();
        check(&d);
        d.tidy().unwrap();
        check(&d);
        drop(d);
        let d = Drive::open(dir.path(), &o).unwrap();
        check(&d);
        assert_eq!(d.stats().journal_damage, 0);
        // The folder is emptied while the drive is running.
        std::fs::remove_dir_all(dir.path().join("journal")).unwrap();
        std::fs::remove_file(dir.path().join("label")).unwrap();
        for _ in 0..100 {
            if d.state() == State::Fenced("emptied".into()) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(d.state(), State::Fenced("emptied".into()));
        assert!(block(d.read(&key(1), false, u32::MAX)).is_err());
    }
}

#[test]
fn foreign_folders_are_not_formatted() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("lost+found")).unwrap();
    assert_eq!(probe(dir.path()), Probe::Blank);
    std::fs::write(dir.path().join("photo.jpg"), b"x").unwrap();
    assert!(matches!(probe(dir.path()), Probe::Foreign(_)));
    assert!(ashlar_drive::format(dir.path(), &label(1), VOTER).is_err());
    std::fs::remove_file(dir.path().join("photo.jpg")).unwrap();
    ashlar_drive::format(dir.path(), &label(1), JOINING).unwrap();
    std::fs::remove_file(dir.path().join("label")).unwrap();
    assert!(matches!(probe(dir.path()), Probe::Unreadable(_)), "a journal without a label");
    std::fs::write(dir.path().join("label"), b"hello").unwrap();
    assert!(matches!(probe(dir.path()), Probe::Unreadable(_)));
    assert!(Drive::open_folder(&Folder::real(dir.path(), None), &small_options(), false).is_err());
}
