//! Damage is detected: flipped bits, lost, stale, swapped, truncated and foreign files (docs/proof.md T8,
//! T9). A drive never answers wrongly; what it cannot read is an error, never absent.

use crate::common::*;
use ashlar_drive::{Check, Drive, Error, Probe, Role, Tally};
use ashlar_machine::{Folder, SimDisk};
use std::collections::BTreeMap;

type Files = BTreeMap<String, Vec<u8>>;

fn disk_of(files: &Files) -> SimDisk {
    let d = SimDisk::new(1 << 30);
    for (n, c) in files {
        d.put(n, Some(c.clone()));
    }
    d
}

fn open(disk: &SimDisk) -> Result<Drive, Error> {
    Drive::open_folder(&Folder::simulated(disk, None), &small_options(), false)
}

fn record(k: u64) -> Vec<u8> {
    Rng(k + 100).bytes(300 + k as usize * 13)
}

fn shard(id: u64) -> Vec<u8> {
    Rng(id + 900).bytes(if id < 100 { 900 } else { 20_000 + id as usize })
}

/// A drive with a few registers, small shards (id < 100) and large ones.
fn filled(registers: u64, small: u64, large: u64, tidy: bool) -> Files {
    let (disk, _, d) = sim_drive(&small_options());
    for k in 0..registers {
        assert_eq!(one(&d, |d, c| d.accept(accept_of(k, ballot(k + 1), &record(k)), c)).0.ok, 1);
    }
    for id in 0..small {
        assert_eq!(one(&d, |d, c| d.stage(stage_of(id, id, &shard(id)), c)).0.ok, 1);
    }
    for id in 100..100 + large {
        write_large(&d, id, id, &shard(id), 8192).unwrap();
    }
    if tidy {
        d.tidy().unwrap();
    }
    drop(d);
    disk.dump()
}

/// Every answer is right, or an error other than "absent". Returns the number of errors.
fn never_wrong(d: &Drive, registers: u64, small: u64, large: u64, what: &str) -> u64 {
    let mut errors = 0;
    for k in 0..registers {
        match read_record(d, k) {
            Ok(Some(got)) => assert_eq!(got, (ballot(k + 1), record(k)), "{what}: {k}"),
            Ok(None) => assert_ne!(role(d), Role::Voter, "{what}: register {k} is absent"),
            // Or the damage removed its state in the group: the drive has to join the group again.
            Err(Error::Corrupt(_) | Error::NotHeld(_)) => errors += 1,
            Err(e) => panic!("{what}: {e}"),
        }
    }
    for id in (0..small).chain(100..100 + large) {
        match read_shard(d, id) {
            Ok(got) => assert!(got == shard(id), "{what}: shard {id}"),
            Err(Error::Missing) => {
                assert_ne!(role(d), Role::Voter, "{what}: shard {id} is missing");
            }
            Err(Error::Corrupt(_)) => errors += 1,
            Err(e) => panic!("{what}: {e}"),
        }
    }
    errors
}

fn without_index(files: &Files) -> Files {
    files.iter().filter(|(n, _)| !n.starts_with("index/")).map(|(n, c)| (n.clone(), c.clone())).collect()
}

#[test]
fn every_bit_of_the_label() {
    let files = filled(1, 0, 0, false);
    let label_bytes = files["label"].clone();
    let disk = disk_of(&files);
    let folder = Folder::simulated(&disk, None);
    for bit in 0..label_bytes.len() * 8 {
        disk.flip("label", bit as u64 / 8, (bit % 8) as u8);
        // The other copy is sufficient.
        assert_eq!(ashlar_drive::probe_folder(&folder), Probe::Ours(label(1)), "bit {bit}");
        let at = (bit / 8 + 4096) % 8192;
        disk.flip("label", at as u64, (bit % 8) as u8);
        assert!(matches!(ashlar_drive::probe_folder(&folder), Probe::Unreadable(_)), "bit {bit}");
        disk.flip("label", at as u64, (bit % 8) as u8);
        disk.flip("label", bit as u64 / 8, (bit % 8) as u8);
    }
    for len in [0, 1, 4095, 4096, 8191] {
        disk.put("label", Some(label_bytes[..len].to_vec()));
        assert!(!matches!(ashlar_drive::probe_folder(&folder), Probe::Ours(_)));
    }
}

#[test]
fn every_bit_of_the_journal() {
    let files = without_index(&filled(3, 2, 1, false));
    let name = "journal/00000001.seg";
    let used = files[name].iter().rposition(|b| *b != 0).unwrap() + 1;
    let mut flips = 0;
    for at in 0..used {
        // Padding is one constant byte; a few bits of it are enough.
        let pad = files[name][at] == 0xa5 && files[name][at.saturating_sub(1)] == 0xa5;
        let zero = at < 4096 && files[name][at] == 0;
        for bit in 0..8 {
            if (pad || zero) && (at * 8 + bit) % 61 != 0 {
                continue;
            }
            flips += 1;
            let disk = disk_of(&files);
            disk.flip(name, at as u64, bit as u8);
            let what = format!("byte {at} bit {bit}");
            let d = open(&disk).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(d.stats().journal_damage > 0, "{what} was not noticed");
            assert_eq!(role(&d), Role::Distrusted, "{what}");
            never_wrong(&d, 3, 2, 1, &what);
            if flips % 97 == 0 {
                // It continues to work, joins, and a restart does not report the damage again.
                assert_eq!(one(&d, |d, c| d.stage(stage_of(1, 50, b"after"), c)).0.ok, 1);
                run(&d, d.join(&[(GROUP, 0)])).unwrap();
                run(&d, d.joined(GROUP, u32::MAX)).unwrap();
                d.tidy().unwrap();
                drop(d);
                let d = open(&disk).unwrap();
                assert_eq!((role(&d), d.damage()), (Role::Voter, vec![]), "{what}");
                assert_eq!(read_shard(&d, 50).unwrap(), b"after");
            }
        }
    }
    assert!(flips > 20_000, "{flips}");
}

#[test]
fn damaged_record_is_an_error_and_heals() {
    let mut files = filled(20, 20, 2, true);
    let mut rng = Rng(4);
    let target = record(7);
    let holds = |c: &[u8]| c.windows(target.len()).any(|w| w == target);
    let (name, _) = files.iter().find(|(n, c)| n.starts_with("journal/") && holds(c)).unwrap();
    let name = name.clone();
    let used = files[&name].iter().rposition(|b| *b != 0).unwrap() + 1;
    let name = &name;
    let mut errors = 0;
    for _ in 0..400 {
        let disk = disk_of(&files);
        disk.flip(name, 8192 + rng.below(used as u64 - 8192), rng.below(8) as u8);
        let d = open(&disk).unwrap();
        errors += never_wrong(&d, 20, 20, 2, "index intact");
    }
    assert!(errors > 100, "{errors}");
    // A damaged record: refused as base of a promise, healed by the same accept.
    let seg = files.get_mut(name).unwrap();
    let at = seg.windows(target.len()).position(|w| w == target).unwrap();
    seg[at] ^= 1;
    let disk = disk_of(&files);
    let d = open(&disk).unwrap();
    assert!(matches!(read_record(&d, 7), Err(Error::Corrupt(_))));
    assert!(matches!(run(&d, d.verify_register(&key(7))), Err(Error::Corrupt(_))));
    assert!(matches!(run(&d, d.prepare(&key(7), ballot(1 << 40))), Err(Error::Corrupt(_))));
    let again = ashlar_format::Ballot { counter: 8, ..ballot(0) };
    // Below the floor after the restart, so only exactly the stored ballot is accepted.
    let t = Tally::new(1);
    d.accept(accept_of(7, again, &target), t.completion(0));
    d.pump();
    d.pump();
    let o = t.outcome();
    if o.ok == 1 {
        assert_eq!(read_record(&d, 7).unwrap().unwrap().1, target);
    } else {
        assert_eq!(o.refused, 1);
    }
    assert!(d.stats().read_errors > 0);
}

#[test]
fn flips_in_the_index() {
    let files = filled(200, 60, 3, true);
    let names: Vec<&String> = files.keys().filter(|n| n.starts_with("index/")).collect();
    assert!(names.len() >= 2);
    let mut rng = Rng(6);
    let (mut seen, mut rebuilt) = (0, 0);
    for i in 0..200 {
        let disk = disk_of(&files);
        let name = names[rng.below(names.len() as u64) as usize];
        let (at, bit) = (rng.below(files[name].len() as u64), rng.below(8) as u8);
        disk.flip(name, at, bit);
        let d = open(&disk).unwrap();
        let what = format!("{i}: {name} {at}.{bit}");
        assert_eq!((role(&d), d.damage()), (Role::Voter, vec![]), "{what}");
        rebuilt += d.stats().index_rebuilt;
        let errors = never_wrong(&d, 200, 60, 3, &what);
        seen += u64::from(errors > 0);
        let r = run(&d, d.scan(b"", &[0xff; 40], 1000, u32::MAX));
        assert!(r.is_err() || r.unwrap().len() == 200, "{what}");
        // The maintenance thread repairs it.
        d.tidy().unwrap();
        assert_eq!(never_wrong(&d, 200, 60, 3, &what), 0, "{what}");
        assert_eq!(run(&d, d.scan(b"", &[0xff; 40], 1000, u32::MAX)).unwrap().len(), 200, "{what}");
    }
    assert!(seen > 10 && rebuilt > 10, "{seen} {rebuilt}");
}

/// Reads a shard unchecked, at once or frame by frame, and has it checked afterwards; returns false if it was
/// damaged.
fn checked_later(d: &Drive, id: u64, at_once: bool, what: &str) -> bool {
    let r = run(d, d.open_shard(write_id(id), 3)).unwrap();
    let runs = if at_once { vec![(0, r.frames())] } else { (0..r.frames()).map(|n| (n, 1)).collect() };
    let (mut got, mut sound) = (Vec::new(), true);
    for (n, count) in runs {
        let frames = run(d, r.read_run(n, count, Check::Reader)).unwrap();
        assert_eq!(frames.len(), count as usize, "{what}");
        if count == 1 {
            assert_eq!(run(d, r.read(n, Check::Reader)).unwrap(), frames[0], "{what}");
        }
        got.extend(frames.iter().flat_map(|b| b.to_vec()));
        match run(d, r.verify(n, frames)) {
            Ok(()) => {}
            Err(Error::Corrupt(_)) => sound = false,
            Err(e) => panic!("{what}: {e}"),
        }
    }
    assert_eq!(got.len() as u64, r.len(), "{what}");
    assert!(!sound || got == shard(id), "{what}: damage of shard {id} is not noticed");
    sound
}

/// T8: 100,000 random bits of large shards, one at a time under an open drive; sometimes the drive is opened
/// with the damage. `ASHLAR_FLIPS` sets the number.
#[test]
fn flips_in_extents() {
    let files = filled(0, 0, 4, true);
    let mut rng = Rng(7);
    let name = "extents/00000001.seg";
    let used = files[name].iter().rposition(|b| *b != 0).unwrap() + 1;
    let rounds: u64 = std::env::var("ASHLAR_FLIPS").ok().and_then(|s| s.parse().ok()).unwrap_or(100_000);
    let disk = disk_of(&files);
    let mut d = open(&disk).unwrap();
    let mut noticed = 0;
    for i in 0..rounds {
        let (at, bit) = (rng.below(used as u64), rng.below(8) as u8);
        disk.flip(name, at, bit);
        if i % 50 == 0 {
            drop(d);
            d = open(&disk).unwrap();
        }
        let what = format!("round {i}: byte {at} bit {bit}");
        let errors = never_wrong(&d, 0, 0, 4, &what);
        let scrub = (100..104).filter(|id| run(&d, d.verify_shard(write_id(*id), 3)) != Ok(())).count();
        assert!(scrub as u64 >= errors && scrub <= 1, "{what}: {errors} read errors, {scrub} found by scrub");
        let later = (100..104).filter(|id| !checked_later(&d, *id, rng.below(2) == 0, &what)).count();
        assert_eq!(later as u64, errors, "{what}: read first and checked afterwards");
        noticed += scrub as u64;
        // Only damage in the padding between a frame and the next page is not detected.
        if scrub == 0 {
            assert_eq!(files[name][at as usize], 0, "{what} is not padding");
        }
        disk.flip(name, at, bit);
        if i % 1000 == 0 {
            assert_eq!(never_wrong(&d, 0, 0, 4, &what), 0, "{what}: sound again");
        }
    }
    assert!(noticed * 10 > rounds * 7, "{noticed} of {rounds}");
}

#[test]
fn missing_index_is_rebuilt() {
    let files = filled(100, 50, 4, true);
    let d = open(&disk_of(&files)).unwrap();
    let listing = run(&d, d.scan(b"", &[0xff; 40], 1000, u32::MAX)).unwrap();
    let census = run(&d, d.shards(None, 1000)).unwrap();
    for gone in files.keys().filter(|n| n.starts_with("index/")).map(Some).chain([None]) {
        let mut less = files.clone();
        match gone {
            Some(n) => {
                less.remove(n);
            }
            None => less = without_index(&files),
        }
        let d = open(&disk_of(&less)).unwrap();
        assert_eq!((d.stats().index_rebuilt, d.damage()), (1, vec![]), "{gone:?}");
        assert_eq!(run(&d, d.scan(b"", &[0xff; 40], 1000, u32::MAX)).unwrap(), listing);
        assert_eq!(run(&d, d.shards(None, 1000)).unwrap(), census);
        assert_eq!(never_wrong(&d, 100, 50, 4, "rebuilt"), 0);
    }
}

/// T9: lost, stale, swapped, truncated, foreign files; with the index and without.
#[test]
fn invalid_files_are_detected() {
    let before = filled(30, 40, 8, true);
    let now = filled(60, 70, 20, true);
    let other = {
        // The same content on another drive of the deployment.
        let disk = SimDisk::new(256 << 20);
        let folder = Folder::simulated(&disk, None);
        ashlar_drive::format_folder(&folder, &label(2), VOTER, 64 << 10).unwrap();
        let d = Drive::open_folder(&folder, &small_options(), false).unwrap();
        for k in 0..60 {
            one(&d, |d, c| d.accept(accept_of(k, ballot(k + 1), &record(k + 1)), c));
        }
        for id in 0..70 {
            one(&d, |d, c| d.stage(stage_of(id, id, &shard(id + 1)), c));
        }
        for id in 100..120 {
            write_large(&d, id, id, &shard(id + 1), 8192).unwrap();
        }
        d.tidy().unwrap();
        drop(d);
        disk.dump()
    };
    let data: Vec<String> = now
        .keys()
        .filter(|n| n.starts_with("journal/") || n.starts_with("extents/"))
        // A prepared segment holds nothing that could be missed.
        .filter(|n| now[*n].iter().skip(4096).any(|b| *b != 0))
        .cloned()
        .collect();
    assert!(data.len() >= 4, "{data:?}");
    let mut cases: Vec<(String, Files)> = Vec::new();
    for (i, n) in data.iter().enumerate() {
        let mut case = |what: &str, change: &dyn Fn(&mut Files)| {
            let mut f = now.clone();
            change(&mut f);
            if f != now {
                cases.push((format!("{n} {what}"), f));
            }
        };
        case("lost", &|f| {
            f.remove(n);
        });
        case("truncated", &|f| {
            let c = f.get_mut(n).unwrap();
            c.truncate(c.len() / 3 / 4096 * 4096);
        });
        case("emptied", &|f| f.get_mut(n).unwrap().fill(0));
        if let Some(old) = before.get(n) {
            case("stale", &|f| *f.get_mut(n).unwrap() = old.clone());
        }
        if let Some(theirs) = other.get(n) {
            case("of another drive", &|f| *f.get_mut(n).unwrap() = theirs.clone());
        }
        for m in &data[i + 1..] {
            case(&format!("swapped with {m}"), &|f| {
                let (a, b) = (now[n].clone(), now[m].clone());
                f.insert(n.clone(), b);
                f.insert(m.clone(), a);
            });
        }
    }
    let last = data.iter().rfind(|n| n.starts_with("journal/")).unwrap();
    for (what, files) in cases {
        let d = open(&disk_of(&files)).unwrap_or_else(|e| panic!("{what}: {e}"));
        let errors = never_wrong(&d, 60, 70, 20, &what);
        let scrub = (100..120).filter(|id| run(&d, d.verify_shard(write_id(*id), 3)) != Ok(())).count();
        let noticed = errors > 0 || scrub > 0 || d.stats().journal_damage > 0;
        assert!(noticed, "{what}: not noticed with the index");
        // Without the index everything must come from the rest. The last segment restored to an older state
        // is the only case that a single drive cannot detect.
        if what.starts_with(last.as_str()) && what.contains("stale") {
            continue;
        }
        let d = open(&disk_of(&without_index(&files))).unwrap_or_else(|e| panic!("{what}: {e}"));
        let errors = never_wrong(&d, 60, 70, 20, &what);
        let noticed = errors > 0 || d.stats().journal_damage > 0;
        assert!(noticed, "{what}: not noticed without the index: {:?}", d.stats());
    }
}

/// What another release wrote, newer or older, is refused as a whole: it is not damage, and the drive keeps
/// its vote and its files for the release that supports them.
#[test]
fn data_of_other_release_is_not_damage() {
    use ashlar_format::codec;
    use ashlar_format::journal::{self, BatchWriter, GroupState, PAGE, SegmentHeader, kind};
    let name = "journal/00000001.seg";
    let files = filled(3, 1, 1, false);
    let hash_key = label(1).hash_key();
    // A header of the next or the previous format, in a segment that is otherwise unchanged.
    let header = |format: u8| {
        let mut files = files.clone();
        let segment = files.get_mut(name).unwrap();
        assert_eq!(segment[8..10], [3, 0]);
        segment[8] = format;
        let sum = ashlar_checksum::frame_hash(&hash_key, &[b"segment", &segment[..PAGE - 32]]);
        segment[PAGE - 32..PAGE].copy_from_slice(&sum);
        files
    };
    // A batch with a record of an unknown kind.
    let mut newer_kind = files.clone();
    let bytes = files[name].len();
    let mut segment = SegmentHeader::new(1, bytes as u64).encode(&hash_key);
    segment.resize(bytes, 0);
    let mut list = codec::Writer::default();
    journal::segments(&mut list, &[]);
    let mut w = BatchWriter::new(hash_key, 1, PAGE as u32, PAGE);
    let state = GroupState { voter: true, ..GroupState::default() };
    w.push(&mut segment[PAGE..], kind::SEGMENTS, &[&list.into_vec()]);
    let mut states = codec::Writer::default();
    journal::states(&mut states, &[(GROUP, state)]);
    w.push(&mut segment[PAGE..], kind::STATE, &[&states.into_vec()]);
    w.push(&mut segment[PAGE..], 99, &[b"of another time"]);
    w.close(&mut segment[PAGE..], 1, &[0; 16]);
    newer_kind.insert(name.into(), segment);
    for (what, files) in [("newer header", header(4)), ("older header", header(1)), ("kind", newer_kind)] {
        let files = without_index(&files);
        let disk = disk_of(&files);
        match open(&disk).err() {
            Some(Error::Unsuitable(why)) => {
                assert!(why.contains("has format") && why.contains("does not support"), "{what}: {why}");
            }
            e => panic!("{what}: {e:?}"),
        }
        assert_eq!(without_index(&disk.dump()), files, "{what}: nothing changed");
    }
}

/// The index is a cache. Whatever its blocks hold, and whether or not recovery needs them, the drive opens,
/// and nothing is lost.
#[test]
fn drive_opens_with_damaged_index_block() {
    let (disk, _, d) = sim_drive(&small_options());
    for k in 0..200 {
        assert_eq!(one(&d, |d, c| d.accept(accept_of(k, ballot(k + 1), &record(k)), c)).0.ok, 1);
    }
    for id in 0..60 {
        assert_eq!(one(&d, |d, c| d.stage(stage_of(id, id, &shard(id)), c)).0.ok, 1);
    }
    for id in 100..106 {
        write_large(&d, id, id, &shard(id), 8192).unwrap();
    }
    d.tidy().unwrap();
    // After the checkpoint: records that recovery compares with the index files.
    let gone: Vec<_> = (40..60).chain([104, 105]).map(|id| (write_id(id), 3)).collect();
    d.discard(GROUP, u32::MAX, &gone);
    d.upkeep().unwrap();
    for k in 190..200 {
        d.purge(&key(k), ballot(k + 1), u32::MAX);
    }
    d.upkeep().unwrap();
    write_large(&d, 103, 103, &shard(103), 8192).unwrap();
    run(&d, d.flush()).unwrap();
    drop(d);
    let files = disk.dump();
    let runs: Vec<&String> = files.keys().filter(|n| n.ends_with(".run")).collect();
    assert!(!runs.is_empty());
    let check = |d: &Drive, what: &str| {
        assert_eq!(never_wrong(d, 190, 40, 4, what), 0, "{what}");
        assert!((190..200).all(|k| read_record(d, k).unwrap().is_none()), "{what}: a purge was forgotten");
        let lost = |id| read_shard(d, id).err() == Some(Error::Missing);
        assert!((40..60).chain([104, 105]).all(lost), "{what}: a drop was forgotten");
        assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0), "{what}");
    };
    let mut rng = Rng(77);
    let mut rebuilt = 0;
    for i in 0..400 {
        let disk = disk_of(&files);
        let name = runs[rng.below(runs.len() as u64) as usize];
        let len = files[name].len() as u64;
        let at = rng.below(len);
        let what = format!("{i}: {name} at {at} of {len}");
        match i % 4 {
            0 => disk.flip(name, at, rng.below(8) as u8),
            1 => disk.put(name, Some(files[name][..at as usize].to_vec())),
            2 => {
                let mut c = files[name].clone();
                let end = (at as usize + 1 + rng.below(9000) as usize).min(c.len());
                c[at as usize..end].copy_from_slice(&rng.bytes(end - at as usize));
                disk.put(name, Some(c));
            }
            _ => disk.put(name, Some(rng.bytes(len as usize))),
        }
        let d = open(&disk).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!((role(&d), d.damage()), (Role::Voter, vec![]), "{what}");
        rebuilt += d.stats().index_rebuilt;
        // A block that recovery did not need is detected by its first reader, and the index is rebuilt.
        never_wrong(&d, 190, 40, 4, &what);
        let _ = d.audit();
        d.upkeep().unwrap();
        check(&d, &what);
        drop(d);
        check(&open(&disk).unwrap(), &format!("{what}, opened again"));
    }
    assert!(rebuilt > 250, "{rebuilt}");
    // It also opens with a damaged journal, and joins.
    for i in 0..40 {
        let disk = disk_of(&files);
        for name in &runs {
            disk.flip(name, rng.below(files[*name].len() as u64), 1);
        }
        let used = |n: &str| files[n].iter().skip(4096).any(|b| *b != 0);
        let last = files.keys().rfind(|n| n.starts_with("journal/") && used(n));
        disk.flip(last.unwrap(), 4096 + rng.below(3000), 1);
        let d = open(&disk).unwrap_or_else(|e| panic!("{i}: {e}"));
        never_wrong(&d, 190, 40, 4, &format!("{i}, with a damaged journal"));
    }
}
