//! Space is given back: from the journal, from extents, from the index; never while a reader uses it.

use crate::common::*;
use ashlar_drive::{Check, Drive, Options, ShardReader, Tally};
use ashlar_machine::{Fault, Faults, Operation};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes on the device below a folder. The drive may remove a file while it is being counted.
fn used(path: &Path) -> u64 {
    let mut sum = 0;
    for e in std::fs::read_dir(path).unwrap() {
        let e = e.unwrap();
        let m = match e.metadata() {
            Ok(m) => m,
            Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => panic!("{e}"),
        };
        sum += if m.is_dir() { used(&e.path()) } else { m.blocks() * 512 };
    }
    sum
}

/// A new segment needs no flush of its folder: names are prepared, many with one flush, before writes need them.
#[test]
fn names_of_segments_are_flushed_many_at_a_time() {
    let mut o = small_options();
    o.segment_bytes = 64 << 10;
    let (disk, _, d) = sim_drive(&o);
    let shards = 200;
    let mut by_writes = 0;
    for id in 0..shards {
        let (before, batches) = (d.stats().syncs, d.stats().batches);
        write_large(&d, id, id, &Rng(id).bytes(20_000), 4096).unwrap();
        // The region, and batches: a segment of the journal that is full ends with one that is not counted.
        by_writes += d.stats().syncs - before - 1 - (d.stats().batches - batches);
        if id % 2 == 1 {
            d.upkeep().unwrap();
        }
    }
    let files = disk.dump();
    let extents =
        files.iter().filter(|(name, bytes)| name.starts_with("extents/") && !bytes.is_empty()).count() as u64;
    assert!(extents >= 90, "{extents} segments");
    let s = d.stats();
    let others = s.syncs - s.batches - shards;
    // Most are of segments of the journal, for their zeros and for their ends. With one for each name these were more
    // than 100, and 200 with one for each length too.
    assert!(others * 2 < extents, "{others} other flushes, {extents} segments");
    assert!(by_writes * 4 < extents, "{by_writes} other flushes in writes, {extents} segments");
    let prepared =
        files.iter().filter(|(name, bytes)| name.starts_with("extents/") && bytes.is_empty()).count();
    assert!((1..=64).contains(&prepared), "{prepared} names");
    // What is not used is removed at the next start.
    drop(d);
    let d = Drive::open_folder(&ashlar_machine::Folder::simulated(&disk, None), &o, false).unwrap();
    assert!(disk.dump().values().all(|bytes| !bytes.is_empty()));
    for id in 0..shards {
        assert_eq!(read_shard(&d, id).unwrap(), Rng(id).bytes(20_000));
    }
}

#[test]
fn deleted_data_releases_space() {
    for base in ["/dev/shm", "/tmp"] {
        let dir = tempfile::Builder::new().prefix("ashlar-space").tempdir_in(base).unwrap();
        ashlar_drive::format(dir.path(), &label(1), VOTER).unwrap();
        let mut o = small_options();
        o.journal_segment_bytes = 1 << 20;
        o.segment_bytes = 4 << 20;
        let d = Drive::open(dir.path(), &o).unwrap();
        let empty = used(dir.path());
        assert!(empty < 4 << 20, "an empty drive takes {empty}");
        block(async {
            for chunk in 0..40u64 {
                let t = Tally::new(64);
                for slot in 0..64u8 {
                    let id = chunk * 64 + u64::from(slot);
                    d.stage(stage_of(id, id, &[slot; 4000]), t.completion(slot));
                }
                assert_eq!(t.wait_all().await.ok, u64::MAX);
            }
            for id in 0..20u64 {
                let mut w = d
                    .begin_shard(&key(id), write_id(90_000 + id), 3, ballot(1), u32::MAX, 1 << 20, 65_536)
                    .unwrap();
                let frame = o.pool.get(65_536).await.freeze();
                for _ in 0..16 {
                    w.write(frame.clone()).await.unwrap();
                }
                let t = Tally::new(1);
                w.finish(t.completion(0));
                assert_eq!(t.wait(1).await.ok, 1, "{:?}", t.error());
            }
        });
        let full = used(dir.path());
        assert!(full > 28 << 20, "{full}");
        // An abandoned shard leaves nothing.
        let w = d.begin_shard(&key(1), write_id(1 << 30), 3, ballot(1), u32::MAX, 1 << 20, 65_536).unwrap();
        drop(w);
        block(async {
            let keep = d.open_shard(write_id(90_003), 3).await.unwrap();
            let all: Vec<_> = (0..2560).chain(90_000..90_020).map(|id| (write_id(id), 3)).collect();
            d.discard(GROUP, u32::MAX, &all);
            d.tidy().unwrap();
            assert!(d.shards(None, 10).await.unwrap().is_empty());
            for n in 0..16 {
                keep.read(n, Check::Drive).await.unwrap();
            }
            drop(keep);
        });
        d.tidy().unwrap();
        d.tidy().unwrap();
        let after = used(dir.path());
        assert!(after < 6 << 20, "{base}: {after} of {full} left, {:?}", d.stats());
        // The accounting agrees with the file system.
        let s = d.stats();
        assert!(s.extent_live == 0 && s.journal_live < 10_000, "{s:?}");
        block(d.close());
    }
}

#[test]
fn compaction_keeps_what_is_in_use() {
    let mut o = small_options();
    o.cache_bytes = 32 << 10;
    let (disk, folder, d) = sim_drive(&o);
    let mut rng = Rng(11);
    let mut live: std::collections::BTreeMap<u64, Vec<u8>> = Default::default();
    let mut next = 0;
    let mut b = 0;
    let mut records = std::collections::BTreeMap::new();
    for round in 0..60 {
        for _ in 0..40 {
            let data = rng.bytes(200 + rng.clone().below(3000) as usize);
            let t = Tally::new(1);
            d.stage(stage_of(next, next, &data), t.completion(0));
            live.insert(next, data);
            next += 1;
            b += 1;
            let k = rng.below(30);
            let r = rng.bytes(200);
            d.accept(accept_of(k, ballot(b), &r), ashlar_drive::Completion::ignored());
            records.insert(k, (ballot(b), r));
        }
        d.pump();
        let drop_these: Vec<u64> =
            live.keys().copied().filter(|id| id % 7 != 0 && rng.next().is_multiple_of(2)).collect();
        d.discard(GROUP, u32::MAX, &drop_these.iter().map(|id| (write_id(*id), 3)).collect::<Vec<_>>());
        for id in drop_these {
            live.remove(&id);
        }
        if round % 5 == 4 {
            run(&d, d.flush()).unwrap();
            d.tidy().unwrap();
            run(&d, d.flush()).unwrap();
        }
    }
    run(&d, d.flush()).unwrap();
    d.tidy().unwrap();
    let s = d.stats();
    assert!(s.compacted > 100_000, "{s:?}");
    let total: usize = live.values().map(Vec::len).sum();
    assert!(s.journal_bytes < 3 * total as u64 + (1 << 20), "{total} live, {s:?}");
    let check = |d: &Drive| {
        for (id, data) in &live {
            assert_eq!(&read_shard(d, *id).unwrap(), data, "{id}");
        }
        for (k, (b, r)) in &records {
            assert_eq!(read_record(d, *k).unwrap().unwrap(), (*b, r.clone()));
        }
        let census = run(d, d.shards(None, 100_000)).unwrap();
        assert_eq!(census.len(), live.len());
    };
    check(&d);
    let accounted = d.stats().journal_live;
    drop(d);
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    check(&d);
    drop(d);
    for n in disk.dump().keys().filter(|n| n.starts_with("index/")) {
        disk.put(n, None);
    }
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    assert_eq!(d.damage(), [""; 0]);
    check(&d);
    d.tidy().unwrap();
    let again = d.stats().journal_live;
    assert!(again.abs_diff(accounted) * 20 < accounted, "{again} {accounted}");
}

fn put(d: &Drive, o: &Options, id: u64) {
    let data = Rng(id).bytes(300_000);
    block(async {
        let mut w = d.begin_shard(&key(id), write_id(id), 3, ballot(1), u32::MAX, 300_000, 65_536).unwrap();
        for f in data.chunks(65_536) {
            let mut frame = o.pool.get(65_536).await;
            frame[..f.len()].copy_from_slice(f);
            w.write(frame.freeze().slice(..f.len())).await.unwrap();
        }
        let t = Tally::new(1);
        w.finish(t.completion(0));
        assert_eq!(t.wait(1).await.ok, 1, "{:?}", t.error());
    });
}

fn holds(r: &ShardReader, id: u64) -> bool {
    let read = |n| block(r.read(n, Check::Drive)).map(|f| f.to_vec());
    let all: Result<Vec<_>, _> = (0..r.frames()).map(read).collect();
    all.unwrap_or_else(|e| panic!("{id}: {e}")).concat() == Rng(id).bytes(300_000)
}

#[test]
fn empty_extent_segment_is_reused_under_new_number() {
    let dir = tempfile::tempdir().unwrap();
    ashlar_drive::format(dir.path(), &label(1), VOTER).unwrap();
    let mut o = small_options();
    o.segment_bytes = 1 << 20;
    let names = || -> std::collections::BTreeSet<_> {
        let folder = std::fs::read_dir(dir.path().join("extents")).unwrap();
        folder.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    };
    let d = Drive::open(dir.path(), &o).unwrap();
    let mut ever = names();
    let mut reused = 0;
    // One shard of the first segment is being read all the time.
    put(&d, &o, 0);
    let reader = block(d.open_shard(write_id(0), 3)).unwrap();
    for round in 0..6 {
        let ids: Vec<u64> = (1..=12).map(|n| round * 100 + n).collect();
        ids.iter().for_each(|id| put(&d, &o, *id));
        for id in &ids {
            assert!(holds(&block(d.open_shard(write_id(*id), 3)).unwrap(), *id));
        }
        ever.extend(names());
        let gone: Vec<_> = ids.iter().chain([&0]).map(|id| (write_id(*id), 3)).collect();
        d.discard(GROUP, u32::MAX, &gone);
        block(d.flush()).unwrap();
        let before = names();
        d.upkeep().unwrap();
        reused += names().difference(&before).filter(|n| ever.contains(*n)).count();
        ever.extend(names());
        assert!(holds(&reader, 0), "round {round}: taken from its reader");
        // If the index files already contain its entry, a drop requires a lookup first.
        for id in ids {
            let began = Instant::now();
            while block(d.open_shard(write_id(id), 3)).is_ok() {
                assert!(began.elapsed() < Duration::from_secs(10), "round {round}: {id} is still there");
                d.upkeep().unwrap();
                block(d.flush()).unwrap();
            }
        }
    }
    assert_eq!(reused, 0, "a number came back");
    assert!(d.stats().recycled >= 10, "{:?}", d.stats());
    drop(reader);
    put(&d, &o, 9999);
    block(d.close());
    // Remaining spares do not affect a restart.
    let d = Drive::open(dir.path(), &o).unwrap();
    assert_eq!(d.damage(), [""; 0]);
    assert!(holds(&block(d.open_shard(write_id(9999), 3)).unwrap(), 9999));
    assert!(names().len() <= 2, "{:?}", names());
    block(d.close());
}

/// A shard that only the index files contain is looked up; before the lookup ends the shard is dropped, the
/// index files are written again without it, and its segment holds others. The shard is then missing, not
/// damaged.
#[test]
fn lookup_overtaken_by_drop_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    ashlar_drive::format(dir.path(), &label(1), VOTER).unwrap();
    let faults = std::sync::Arc::new(Faults::new());
    let mut o = small_options();
    o.faults = Some(faults.clone());
    o.tick = std::time::Duration::from_secs(60);
    let d = Drive::open(dir.path(), &o).unwrap();
    (0..12).for_each(|id| put(&d, &o, id));
    block(d.close());
    let d = Drive::open(dir.path(), &o).unwrap();
    faults.set(Operation::Read, Fault::Delay(std::time::Duration::from_millis(1500)));
    let found = std::thread::scope(|s| {
        let look = s.spawn(|| block(d.open_shard(write_id(1), 3)));
        std::thread::sleep(std::time::Duration::from_millis(300));
        faults.clear();
        d.discard(GROUP, u32::MAX, &(0..12).map(|id| (write_id(id), 3)).collect::<Vec<_>>());
        d.upkeep().unwrap();
        block(d.flush()).unwrap();
        d.tidy().unwrap();
        (100..112).for_each(|id| put(&d, &o, id));
        look.join().unwrap()
    });
    assert_eq!(found.err(), Some(ashlar_drive::Error::Missing));
    assert_eq!(d.stats().read_errors, 0);
    block(d.close());
}

/// A few small records in a batch leave most of their segment empty: batches are padded. What upkeep left while
/// clients wrote, it compacts when they pause.
#[test]
fn padding_is_given_back_when_writes_pause() {
    const RECORDS: u64 = 20_000;
    let mut o = small_options();
    o.journal_segment_bytes = 1 << 20;
    let (_disk, _folder, d) = sim_drive(&o);
    let data = [9; 150];
    for id in 0..RECORDS {
        d.stage(stage_of(id, id, &data), ashlar_drive::Completion::ignored());
        if id % 5 == 4 {
            d.pump();
        }
        if id % 100 == 99 {
            d.tick();
            d.upkeep().unwrap();
        }
    }
    let busy = d.stats();
    assert!(busy.journal_live * 2 < busy.journal_bytes, "nothing is padded: {busy:?}");
    assert!(busy.journal_live * 4 > busy.journal_bytes, "worth it for a drive that is written to: {busy:?}");
    assert!(busy.compacted < 1 << 20, "compacted for a drive that is written to: {busy:?}");
    for _ in 0..100 {
        d.tick();
        d.pump();
        d.upkeep_with_merges().unwrap();
    }
    let after = d.stats();
    assert!(after.journal_live * 10 > after.journal_bytes * 6, "{after:?}");
    assert!(after.compacted < busy.journal_bytes, "records moved again and again: {after:?}");
    for id in 0..RECORDS {
        assert_eq!(read_shard(&d, id).unwrap(), data);
    }
    assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0));
}

/// Shards are replaced repeatedly. The files of the drive take less than three times the bytes in use during
/// that, and soon afterwards little more than these.
#[test]
fn overwriting_uses_bounded_space() {
    const SHARDS: u64 = 48;
    const BYTES: u64 = 2 << 20;
    let dir = tempfile::Builder::new().prefix("ashlar-churn").tempdir_in("/tmp").unwrap();
    ashlar_drive::format(dir.path(), &label(1), VOTER).unwrap();
    let mut o = Options::new(ashlar_machine::BufferPool::new(64 << 20));
    (o.reserve_bytes, o.tick) = (1 << 20, Duration::from_millis(100));
    let d = Drive::open(dir.path(), &o).unwrap();
    let mut rng = Rng(3);
    let frame = block(o.pool.get(1 << 20)).freeze();
    let mut now: Vec<u64> = Vec::new();
    let mut peak = 0;
    for id in 0..SHARDS * 8 {
        block(async {
            let mut w =
                d.begin_shard(&key(id), write_id(id), 3, ballot(1), u32::MAX, BYTES, 1 << 20).unwrap();
            for _ in 0..2 {
                w.write(frame.clone()).await.unwrap();
            }
            let t = Tally::new(1);
            w.finish(t.completion(0));
            assert_eq!(t.wait(1).await.ok, 1, "{:?}", t.error());
        });
        if id < SHARDS {
            now.push(id);
        } else {
            let n = rng.below(SHARDS) as usize;
            let old = std::mem::replace(&mut now[n], id);
            d.discard(GROUP, u32::MAX, &[(write_id(old), 3)]);
            peak = peak.max(used(dir.path()));
        }
    }
    let live = SHARDS * BYTES;
    assert!(peak < 3 * live, "{peak} bytes for {live} while overwriting: {:?}", d.stats());
    let began = Instant::now();
    while used(dir.path()) > live * 13 / 10 {
        let s = d.stats();
        assert!(began.elapsed() < Duration::from_secs(120), "{} bytes for {live}: {s:?}", used(dir.path()));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0));
    let all: Vec<u64> = now.clone();
    for id in all {
        block(d.verify_shard(write_id(id), 3)).unwrap();
    }
    block(d.close());
}
