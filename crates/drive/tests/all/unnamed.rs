//! Large shards are durable with one flush, that of their region; their journal record goes with the next batch
//! (see `unnamed`). Power cuts at any point: what was answered is found again, and nothing is found in part.

use crate::common::*;
use ashlar_drive::{Completion, Drive, DriveKind, Error, Options, ShardWriter, Tally};
use ashlar_machine::{Crash, Folder, SimDisk};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

const FRAME: u32 = 4096;

fn content(id: u64) -> Vec<u8> {
    Rng(id).bytes(3_000 + (id % 7) as usize * 3_000)
}

fn begin(d: &Drive, id: u64) -> ShardWriter {
    let data = content(id);
    let mut w =
        d.begin_shard(&key(1), write_id(id), 3, ballot(1), u32::MAX, data.len() as u64, FRAME).unwrap();
    for c in data.chunks(FRAME as usize) {
        run(d, w.write(Bytes::copy_from_slice(c))).unwrap();
    }
    w
}

/// Stages a large shard; the journal writes nothing unless the drive has it do so.
fn stage(d: &Drive, id: u64) -> Arc<Tally> {
    let t = Tally::new(1);
    begin(d, id).finish(t.completion(0));
    t
}

/// A drive whose journal notes the active extent segment.
fn noted() -> (SimDisk, Folder, Drive) {
    let (disk, folder, d) = sim_drive(&small_options());
    let t = stage(&d, 1000);
    assert_eq!(t.outcome().ok, 0, "nothing is noted yet: the shard needs its record");
    d.pump();
    assert_eq!(t.outcome().ok, 1);
    (disk, folder, d)
}

fn open(image: &SimDisk, o: &Options) -> Drive {
    Drive::open_folder(&Folder::simulated(image, None), o, false).unwrap()
}

/// Images of what a power cut now may leave, from all unflushed sectors lost to none.
fn cuts(disk: &SimDisk, images: u64) -> Vec<SimDisk> {
    let mut crash = Crash::new(disk);
    crash.advance(disk.position());
    let mut rng = Rng(images);
    let mut all = vec![crash.image(|| 0)];
    all.extend((0..images).map(|_| crash.image(|| rng.next())));
    all
}

#[test]
fn large_shard_and_record_take_two_flushes() {
    let (_, _, d) = noted();
    let before = d.stats();
    let t = stage(&d, 1);
    assert_eq!(t.outcome().ok, 1, "durable with its region");
    let staged = d.stats();
    assert_eq!((staged.syncs - before.syncs, staged.batches - before.batches), (1, 0));
    let (o, _) = one(&d, |d, done| d.accept(accept_of(1, ballot(2), b"names it"), done));
    assert_eq!(o.ok, 1);
    let after = d.stats();
    assert_eq!((after.syncs - staged.syncs, after.batches - staged.batches), (1, 1));
    assert_eq!(after.records - staged.records, 2, "the record of the shard is in the batch of the accept");
    assert_eq!(read_shard(&d, 1).unwrap(), content(1));
    // A small write has its shard in the record: one flush.
    let mut small = accept_of(2, ballot(3), b"small");
    small.inline = Some(inline(2, b"its shard"));
    let (o, _) = one(&d, |d, done| d.accept(small, done));
    assert_eq!((o.ok, d.stats().syncs - after.syncs), (1, 1));
}

#[test]
fn answered_shard_survives_a_power_cut_before_its_record() {
    let (disk, _, d) = noted();
    // Two regions of writers that never finish: one before it, one behind it.
    let first = begin(&d, 2);
    let t = stage(&d, 1);
    let last = begin(&d, 3);
    assert_eq!(t.outcome().ok, 1);
    let o = small_options();
    for (i, image) in cuts(&disk, 200).into_iter().enumerate() {
        if i % 3 == 0 {
            // The note is in the journal too.
            for name in image.dump().keys().filter(|n| n.starts_with("index/")) {
                image.put(name, None);
            }
        }
        for start in 0..2 {
            let d = open(&image, &o);
            assert_eq!(d.damage(), [""; 0], "image {i}");
            assert_eq!(read_shard(&d, 1).unwrap(), content(1), "image {i}, start {start}");
            for unfinished in [2, 3] {
                assert_eq!(read_shard(&d, unfinished), Err(Error::Missing), "image {i}, start {start}");
            }
            assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0), "image {i}");
        }
    }
    drop((first, last));
}

/// The same files, in a log that begins with them.
fn copy(image: &SimDisk) -> SimDisk {
    let disk = SimDisk::new(256 << 20);
    let root = Folder::simulated(&disk, None);
    for (name, bytes) in image.dump() {
        let (folder, name) = match name.split_once('/') {
            Some((sub, name)) => (root.sub(sub), name.to_owned()),
            None => (root.clone(), name),
        };
        folder.make().unwrap();
        let file = folder.create(&name, false).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        file.write_at(&bytes, 0).unwrap();
        file.sync_all().unwrap();
        folder.sync().unwrap();
    }
    disk
}

/// Recovery may be cut off too, at any point.
#[test]
fn search_may_be_interrupted() {
    let (disk, _, d) = noted();
    let ids = [1, 2, 3];
    for id in ids {
        assert_eq!(stage(&d, id).outcome().ok, 1);
    }
    let o = small_options();
    for image in cuts(&disk, 4) {
        let image = copy(&image);
        let start = image.position();
        drop(open(&image, &o));
        let mut crash = Crash::new(&image);
        let mut rng = Rng(9);
        assert!(image.position() >= start + 3, "recovery wrote nothing");
        for at in start..=image.position() {
            crash.advance(at);
            for _ in 0..3 {
                let d = open(&crash.image(|| rng.next()), &o);
                for id in ids {
                    assert_eq!(read_shard(&d, id).unwrap(), content(id), "cut at {at}");
                }
                assert_eq!((d.audit().unwrap(), d.damage().len()), (vec![], 0), "cut at {at}");
            }
        }
    }
}

#[test]
fn shard_with_a_lost_sector_is_not_found() {
    let (disk, _, d) = noted();
    assert_eq!(stage(&d, 1).outcome().ok, 1);
    let whole = &cuts(&disk, 0)[0];
    let at = whole.dump()["extents/00000001.seg"].windows(8).rposition(|w| w == b"ASHSHARD").unwrap() as u64;
    let region = 4096 + content(1).len() as u64;
    for byte in [at + 10, at + 4096 + 5, at + region - 1, at + region.next_multiple_of(4096) + 3] {
        let image = &cuts(&disk, 0)[0];
        image.flip("extents/00000001.seg", byte, 3);
        let d = open(image, &small_options());
        assert_eq!(read_shard(&d, 1), Err(Error::Missing), "byte {byte}");
        // As after any torn stage: nothing is damaged, and the place can be used.
        assert_eq!((d.damage(), role(&d)), (vec![], ashlar_drive::Role::Voter));
        let t = stage(&d, 1);
        d.pump();
        assert_eq!((t.outcome().ok, read_shard(&d, 1).unwrap()), (1, content(1)));
    }
}

#[test]
fn shard_that_waits_is_read_listed_confirmed_and_dropped() {
    let (_, _, d) = noted();
    let batches = || d.stats().batches;
    let (none, live) = (batches(), d.stats().extent_live);
    assert_eq!(stage(&d, 1).outcome().ok, 1);
    run(&d, d.confirm(write_id(1), 3, ballot(5), u32::MAX)).unwrap();
    // It is opened and counted before its record is written.
    let reader = d.open_shard_now(write_id(1), 3).expect("no device is needed").unwrap();
    let counted = d.stats().extent_live;
    assert!(counted >= live + content(1).len() as u64, "{counted} bytes");
    assert_eq!(batches(), none, "a record was written");
    let first = run(&d, reader.read(0, ashlar_drive::Check::Drive)).unwrap();
    assert_eq!(first[..], content(1)[..first.len()]);
    d.pump();
    assert_eq!((d.stats().extent_live, batches()), (counted, none + 1), "and counted once");
    // Whoever lists the shards has the records written.
    assert_eq!(stage(&d, 2).outcome().ok, 1);
    let listed = run(&d, d.shards(None, 10)).unwrap();
    assert_eq!((listed.len(), batches()), (3, none + 2));
    // A drop that comes before the record.
    assert_eq!(stage(&d, 4).outcome().ok, 1);
    let reader = run(&d, d.open_shard(write_id(4), 3)).unwrap();
    d.discard(GROUP, u32::MAX, &[(write_id(4), 3)]);
    assert_eq!(read_shard(&d, 4), Err(Error::Missing));
    for _ in 0..2 {
        d.pump();
    }
    assert_eq!(run(&d, d.confirm(write_id(4), 3, ballot(5), u32::MAX)), Err(Error::Missing));
    assert_eq!(read_shard(&d, 4), Err(Error::Missing));
    d.tidy().unwrap();
    let first = run(&d, reader.read(0, ashlar_drive::Check::Drive)).unwrap();
    assert_eq!(first[..], content(4)[..first.len()], "a reader keeps what it has opened");
    drop(reader);
    assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0));
    // A collector whose ballot is above the stage ballot, before the record.
    assert_eq!(stage(&d, 5).outcome().ok, 1);
    assert!(!run(&d, d.drop_orphan(write_id(5), 3, ballot(1), u32::MAX)).unwrap());
    assert_eq!(stage(&d, 6).outcome().ok, 1);
    let before = batches();
    d.tick();
    d.pump_queued();
    assert_eq!(
        (read_shard(&d, 6).unwrap(), batches()),
        (content(6), before + 1),
        "a tick has the records written"
    );
}

/// A drive that only reads serves what it answered for, without the records; the next start finds it.
#[test]
fn answered_shard_is_read_on_a_drive_that_cannot_be_written() {
    let mut o = small_options();
    let faults = Arc::new(ashlar_machine::Faults::new());
    o.faults = Some(faults.clone());
    let (_, folder, d) = sim_drive(&o);
    assert_eq!(stage(&d, 1000).outcome().ok, 0);
    d.pump();
    assert_eq!(stage(&d, 1).outcome().ok, 1);
    faults.set(ashlar_machine::Operation::Write, ashlar_machine::Fault::Error(30));
    let (accepted, _) = one(&d, |d, done| d.accept(accept_of(1, ballot(2), b"refused"), done));
    assert_eq!((accepted.ok, d.state()), (0, ashlar_drive::State::ReadOnly));
    assert_eq!(read_shard(&d, 1).unwrap(), content(1));
    drop(d);
    faults.clear();
    let d = Drive::open_folder(&folder, &o, false).unwrap();
    assert_eq!((read_shard(&d, 1).unwrap(), role(&d)), (content(1), ashlar_drive::Role::Voter));
}

/// Every segment begins with a note: compaction may remove the one that had it before.
#[test]
fn note_outlives_the_segments_that_compaction_removes() {
    let (disk, _, d) = noted();
    // In every segment a few records stay, so that all are worth compacting.
    for n in 0..200 {
        let key = if n % 10 == 0 { 100 + n } else { 1 };
        assert_eq!(one(&d, |d, done| d.accept(accept_of(key, ballot(10 + n), b"a record"), done)).0.ok, 1);
    }
    d.tidy().unwrap();
    assert!(!disk.dump().contains_key("journal/00000001.seg"), "it is still there");
    let batches = d.stats().batches;
    assert_eq!((stage(&d, 1).outcome().ok, d.stats().batches), (1, batches), "answered before its record");
    for image in cuts(&disk, 20) {
        for name in image.dump().keys().filter(|n| n.starts_with("index/")) {
            image.put(name, None);
        }
        assert_eq!(read_shard(&open(&image, &small_options()), 1).unwrap(), content(1));
    }
}

/// A drive whose journal notes the active extent segment and has no room for one more batch.
fn without_space() -> (SimDisk, Options, Drive) {
    let mut o = small_options();
    o.reserve_bytes = 0;
    let (disk, _, d) = sim_drive(&o);
    assert_eq!(stage(&d, 1000).outcome().ok, 0);
    d.pump();
    disk.set_limit(disk.used());
    let accept = |k| one(&d, |d, done| d.accept(accept_of(k, ballot(2), b"a record"), done));
    let refused = (1..100).map(accept).find_map(|(outcome, error)| error.filter(|_| outcome.ok == 0));
    assert_eq!(refused, Some(Error::Full));
    (disk, o, d)
}

/// While the journal has no space, the records wait; that the drive is closed does not wait for them.
#[test]
fn records_wait_while_the_journal_has_no_space() {
    let (disk, o, d) = without_space();
    assert_eq!(stage(&d, 1).outcome().ok, 1);
    let batches = d.stats().batches;
    for _ in 0..3 {
        d.tick();
        d.pump();
    }
    assert_eq!((read_shard(&d, 1).unwrap(), d.stats().batches), (content(1), batches));
    let image = cuts(&disk, 0).remove(0);
    assert_eq!(read_shard(&open(&image, &o), 1).unwrap(), content(1));
    disk.set_limit(1 << 30);
    d.tick();
    d.pump();
    assert_eq!((read_shard(&d, 1).unwrap(), d.stats().batches), (content(1), batches + 1));
    assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0));
}

/// A drive that was full when the power failed opens without more room: what it answered for is read, also after one more
/// cut, and its records wait until there is room.
#[test]
fn drive_without_space_opens() {
    let (disk, o, d) = without_space();
    for id in [1, 2] {
        assert_eq!(stage(&d, id).outcome().ok, 1);
    }
    drop(d);
    let mut images = cuts(&disk, 20);
    for again in 0..2 {
        for image in &mut images {
            image.resume();
            image.set_limit(image.used());
            let d = open(image, &o);
            assert_eq!((d.damage().len(), role(&d)), (0, ashlar_drive::Role::Voter));
            for id in [1, 2] {
                assert_eq!(read_shard(&d, id).unwrap(), content(id), "start {again}");
            }
            drop(d);
            *image = cuts(image, 1).remove(1);
        }
    }
    for image in images {
        image.set_limit(1 << 30);
        let d = open(&image, &o);
        assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0));
        let batches = d.stats().batches;
        d.discard(GROUP, u32::MAX, &[(write_id(2), 3)]);
        d.pump();
        assert!(d.stats().batches > batches);
        assert_eq!((read_shard(&d, 1).unwrap(), read_shard(&d, 2)), (content(1), Err(Error::Missing)));
    }
}

/// Stages a large shard on a drive with threads, and waits for its answer.
async fn write_shard(d: &Drive, id: u64) {
    let (t, data) = (Tally::new(1), content(id));
    let mut w =
        d.begin_shard(&key(1), write_id(id), 3, ballot(1), u32::MAX, data.len() as u64, FRAME).unwrap();
    for c in data.chunks(FRAME as usize) {
        w.write(Bytes::copy_from_slice(c)).await.unwrap();
    }
    w.finish(t.completion(0));
    assert_eq!(t.wait_all().await.ok, 1, "{:?}", t.error());
}

#[test]
fn drive_without_space_closes() {
    let mut o = small_options();
    o.reserve_bytes = 0;
    let disk = SimDisk::new(256 << 20);
    let folder = Folder::simulated(&disk, None);
    ashlar_drive::format_folder(&folder, &label(1), VOTER, 64 << 10).unwrap();
    let d = Drive::open_folder(&folder, &o, true).unwrap();
    block(async {
        // The journal notes the segment that takes regions.
        write_shard(&d, 1000).await;
        let t = Tally::new(1);
        d.accept(accept_of(1000, ballot(2), b"a record"), t.completion(0));
        assert_eq!(t.wait_all().await.ok, 1);
        disk.set_limit(disk.used());
        for k in 0..100 {
            let t = Tally::new(1);
            d.accept(accept_of(k, ballot(2), b"a record"), t.completion(0));
            t.wait_all().await;
        }
        write_shard(&d, 1).await;
        d.close().await;
    });
    drop(d);
    disk.set_limit(1 << 30);
    assert_eq!(read_shard(&open(&disk, &o), 1).unwrap(), content(1));
}

/// A process that ended has left a region in the page cache only: it is flushed before a record names it, so that a
/// power cut after that leaves no record without its region.
#[test]
fn region_that_was_not_flushed_is_flushed_before_it_is_named() {
    let (disk, _, d) = noted();
    let extent = "extents/00000001.seg";
    let w = begin(&d, 1);
    // As far as its process came: all is written, nothing is flushed.
    let before = cuts(&disk, 0).remove(0);
    let t = Tally::new(1);
    w.finish(t.completion(0));
    assert_eq!(t.outcome().ok, 1);
    let region = disk.dump()[extent].clone();
    let disk = copy(&before);
    let old = before.dump()[extent].clone();
    let from = (0..old.len()).find(|i| old[*i] != region[*i]).expect("nothing was written") / 4096 * 4096;
    let file = Folder::simulated(&disk, None).sub("extents").open("00000001.seg", false).unwrap();
    file.write_at(&region[from..], from as u64).unwrap();
    let start = disk.position();
    assert_eq!(read_shard(&open(&disk, &small_options()), 1).unwrap(), content(1), "it is found");
    let (mut crash, mut rng) = (Crash::new(&disk), Rng(5));
    for at in start..=disk.position() {
        crash.advance(at);
        for _ in 0..8 {
            let d = open(&crash.image(|| rng.next()), &small_options());
            match read_shard(&d, 1) {
                Ok(bytes) => assert!(bytes == content(1), "cut at {at}"),
                Err(e) => assert_eq!(e, Error::Missing, "cut at {at}"),
            }
            assert_eq!(d.damage().len(), 0);
        }
    }
    assert_eq!(read_shard(&open(&crash.image(|| 0), &small_options()), 1).unwrap(), content(1), "and stays");
}

/// A flush that fails later takes nothing back that was answered.
#[test]
fn answered_shard_survives_a_fence() {
    let mut o = small_options();
    let faults = Arc::new(ashlar_machine::Faults::new());
    o.faults = Some(faults.clone());
    let (_, folder, d) = sim_drive(&o);
    assert_eq!(stage(&d, 1000).outcome().ok, 0);
    d.pump();
    assert_eq!(stage(&d, 1).outcome().ok, 1);
    faults.set_after(ashlar_machine::Operation::Sync, ashlar_machine::Fault::Error(5), 0, 1);
    let (o2, _) = one(&d, |d, done| d.accept(accept_of(1, ballot(2), b"lost"), done));
    assert_eq!((o2.ok, matches!(d.state(), ashlar_drive::State::Fenced(_))), (0, true));
    drop(d);
    for start in 0..2 {
        let d = Drive::open_folder(&folder, &o, false).unwrap();
        assert_eq!(role(&d), ashlar_drive::Role::Distrusted, "start {start}");
        assert_eq!(read_shard(&d, 1).unwrap(), content(1), "start {start}");
    }
}

/// A discard that waits concerns the shard before, not the one that was staged again after it.
#[test]
fn shard_staged_again_after_its_discard_stays() {
    let (disk, _, d) = noted();
    assert_eq!(stage(&d, 1).outcome().ok, 1);
    d.pump();
    d.discard(GROUP, u32::MAX, &[(write_id(1), 3)]);
    let t = stage(&d, 1);
    d.pump();
    assert_eq!(t.outcome().ok, 1);
    assert_eq!(read_shard(&d, 1).unwrap(), content(1));
    // The same while its record waits.
    assert_eq!(stage(&d, 2).outcome().ok, 1);
    d.discard(GROUP, u32::MAX, &[(write_id(2), 3)]);
    let t = stage(&d, 2);
    d.pump();
    assert_eq!(t.outcome().ok, 1);
    d.pump();
    let after = cuts(&disk, 50);
    for id in [1, 2] {
        assert_eq!(read_shard(&d, id).unwrap(), content(id));
    }
    for image in after {
        let d = open(&image, &small_options());
        for id in [1, 2] {
            assert_eq!(read_shard(&d, id).unwrap(), content(id));
        }
    }
}

/// Random stages, accepts, drops, given-up writers and upkeep, with few batches of the journal, and a power cut
/// after any event.
#[test]
fn every_answered_shard_survives_any_power_cut() {
    let seeds: u64 = std::env::var("ASHLAR_UNNAMED_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(24);
    let mut unnamed = 0;
    for seed in 0..seeds {
        unnamed += campaign(seed);
    }
    assert!(unnamed > seeds * 3, "only {unnamed} shards were answered before their record");
}

/// Returns how many shards were answered before their journal record.
fn campaign(seed: u64) -> u64 {
    let mut rng = Rng(seed);
    let mut o = small_options();
    // Segments fill up, become empty and are reused.
    o.segment_bytes = if seed.is_multiple_of(2) { 64 << 10 } else { 256 << 10 };
    o.cache_bytes = 16 << 10;
    // A hard disk writes shards that come together one after the other, and flushes them together.
    o.kind = if seed % 3 == 2 { DriveKind::Hdd } else { DriveKind::Ssd };
    let (disk, _, d) = sim_drive(&o);
    let start = disk.position();
    // (answered at, discard requested at).
    let mut past: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    let mut waiting: Vec<(u64, Arc<Tally>)> = Vec::new();
    let mut open_writers: Vec<(u64, ShardWriter)> = Vec::new();
    let (mut early, mut next) = (0, 1);
    for _ in 0..120 {
        match rng.below(100) {
            0..45 => {
                let w = begin(&d, next);
                past.insert(next, (usize::MAX, usize::MAX));
                open_writers.push((next, w));
                next += 1;
            }
            45..55 => {
                let n = rng.below(open_writers.len() as u64) as usize;
                if n < open_writers.len() {
                    drop(open_writers.swap_remove(n));
                }
            }
            55..70 => {
                let id = 1 + rng.below(next);
                if let Some((answered, discarded)) = past.get_mut(&id)
                    && *answered != usize::MAX
                    && *discarded == usize::MAX
                {
                    *discarded = disk.position();
                    d.discard(GROUP, u32::MAX, &[(write_id(id), 3)]);
                }
            }
            70..75 => d.accept(accept_of(rng.below(5), ballot(next), b"record"), Completion::ignored()),
            75..80 => d.tick(),
            80..84 => d.upkeep().unwrap(),
            84..86 => d.tidy().unwrap(),
            86..90 => d.pump(),
            _ => {}
        }
        if rng.below(2) == 0 && !open_writers.is_empty() {
            let n = rng.below(open_writers.len() as u64) as usize;
            let (id, w) = open_writers.swap_remove(n);
            let (t, batches) = (Tally::new(1), d.stats().batches);
            w.finish(t.completion(0));
            early += u64::from(t.outcome().ok == 1 && d.stats().batches == batches);
            waiting.push((id, t));
        }
        let at = disk.position();
        waiting.retain(|(id, t)| {
            assert_eq!(t.outcome().failed, 0, "{:?}", t.error());
            let answered = t.outcome().ok == 1;
            if answered {
                past.get_mut(id).unwrap().0 = at;
            }
            !answered
        });
    }
    let mut crash = Crash::new(&disk);
    let end = disk.position();
    for at in start..=end {
        crash.advance(at);
        for n in 0..2 {
            let image = crash.image(|| rng.next());
            let what = format!("seed {seed}, cut at {at} of {end}, image {n}");
            if rng.below(4) == 0 {
                for name in image.dump().keys().filter(|n| n.starts_with("index/")) {
                    image.put(name, None);
                }
            }
            check(&open(&image, &o), &past, at, &what);
            if rng.below(8) == 0 {
                check(&open(&image, &o), &past, at, &format!("{what}, second start"));
            }
        }
    }
    early
}

fn check(d: &Drive, past: &BTreeMap<u64, (usize, usize)>, at: usize, what: &str) {
    assert_eq!((d.damage(), role(d)), (vec![], ashlar_drive::Role::Voter), "{what}");
    assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0), "{what}");
    for (id, (answered, discarded)) in past {
        match read_shard(d, *id) {
            Ok(bytes) => assert!(bytes == content(*id), "{what}: shard {id} has other bytes"),
            Err(Error::Missing) => {
                assert!(*answered > at || *discarded < at, "{what}: shard {id} is gone");
            }
            Err(e) => panic!("{what}: shard {id}: {e}"),
        }
    }
}
