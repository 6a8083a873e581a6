//! Drives that a release with an older format has written: they are opened, read, and continued in the present format.
//! `golden/drive-2.txt` holds all files of one, as that release wrote them; it is not made again.

use crate::common::*;
use ashlar_drive::{Drive, Error, Tally};
use ashlar_machine::{Crash, Folder, SimDisk};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The content of large shards in the drive.
fn content(id: u64) -> Vec<u8> {
    let mut v = vec![0; 9000];
    v[..8].copy_from_slice(&id.to_le_bytes());
    v[8992..].copy_from_slice(&id.to_be_bytes());
    v
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// A line without indentation names a file and its length; the others are an offset and bytes, or an offset and how many
/// lines of 32 times one byte. The rest is zeros.
fn files(text: &str) -> BTreeMap<String, Vec<u8>> {
    let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(line) = line.strip_prefix("  ") else {
            name = words[0].into();
            all.insert(name.clone(), vec![0; words[1].parse().unwrap()]);
            continue;
        };
        let at = usize::from_str_radix(words[0], 16).unwrap();
        let bytes = match words[..] {
            [_, bytes] => hex(bytes),
            [_, lines, "of", byte] => hex(byte).repeat(32 * lines.parse::<usize>().unwrap()),
            _ => panic!("{line}"),
        };
        all.get_mut(&name).unwrap()[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    all
}

fn before() -> BTreeMap<String, Vec<u8>> {
    files(include_str!("../golden/drive-2.txt"))
}

fn open(disk: &SimDisk) -> Drive {
    let mut o = small_options();
    o.segment_bytes = 64 << 10;
    Drive::open_folder(&Folder::simulated(disk, None), &o, false).unwrap()
}

fn disk_of(files: &BTreeMap<String, Vec<u8>>) -> SimDisk {
    let disk = SimDisk::new(256 << 20);
    for (name, bytes) in files {
        disk.put(name, Some(bytes.clone()));
    }
    disk.resume();
    disk
}

fn format_of(disk: &SimDisk, segment: u32) -> Option<u8> {
    disk.dump().get(&format!("journal/{segment:08}.seg")).map(|bytes| bytes[8])
}

/// What that release had answered is there.
fn holds_all(d: &Drive, what: &str) {
    assert_eq!((d.damage(), role(d)), (vec![], ashlar_drive::Role::Voter), "{what}");
    for k in 1..=7 {
        let record = read_record(d, k).unwrap();
        assert_eq!(record, Some((ballot(k + 1), format!("record {k}").into_bytes())), "{what}");
    }
    assert_eq!(read_shard(d, 2).unwrap(), b"a small shard", "{what}");
    for id in [3, 6] {
        assert_eq!(read_shard(d, id).unwrap(), content(id), "{what}");
    }
    assert_eq!(read_shard(d, 4), Err(Error::Missing), "{what}");
    assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0), "{what}");
}

/// A large shard, answered; whether its journal record was written before.
fn stage(d: &Drive, id: u64) -> bool {
    let data = content(id);
    let mut w =
        d.begin_shard(&key(id), write_id(id), 3, ballot(1), u32::MAX, data.len() as u64, 4096).unwrap();
    for c in data.chunks(4096) {
        run(d, w.write(Bytes::copy_from_slice(c))).unwrap();
    }
    let (t, batches) = (Tally::new(1), d.stats().batches);
    w.finish(t.completion(0));
    d.pump_queued();
    assert_eq!(t.outcome().ok, 1);
    d.stats().batches > batches
}

#[test]
fn drive_of_journal_format_2_is_continued_in_a_new_segment() {
    for index in [true, false] {
        let mut files = before();
        files.retain(|name, _| index || !name.starts_with("index/"));
        let disk = disk_of(&files);
        assert_eq!(
            (format_of(&disk, 1), format_of(&disk, 2)),
            (Some(2), Some(2)),
            "the second one is prepared"
        );
        let d = open(&disk);
        holds_all(&d, "opened");
        assert_eq!(d.stats().index_rebuilt, u64::from(!index), "the index of that release is used");
        let one = disk.dump()["journal/00000001.seg"].clone();
        assert!(stage(&d, 8), "no note covers its region");
        assert!(!stage(&d, 9), "now one does");
        let dump = disk.dump();
        assert_eq!((format_of(&disk, 1), format_of(&disk, 2)), (Some(2), None), "that one is not used");
        assert_eq!(format_of(&disk, 3), Some(3));
        let changed = dump["journal/00000001.seg"].chunks(4096).zip(one.chunks(4096)).filter(|(a, b)| a != b);
        assert!(changed.count() <= 1, "it got more than its seal");
        for start in 0..2 {
            let d = open(&disk);
            holds_all(&d, "opened again");
            assert_eq!(
                (read_shard(&d, 8).unwrap(), read_shard(&d, 9).unwrap()),
                (content(8), content(9)),
                "{start}"
            );
        }
    }
}

#[test]
fn first_writes_to_an_older_drive_may_be_interrupted() {
    let disk = disk_of(&before());
    let start = disk.position();
    let d = open(&disk);
    let mut answered = Vec::new();
    for id in [8, 9] {
        stage(&d, id);
        answered.push((disk.position(), id));
    }
    d.pump();
    d.upkeep().unwrap();
    let (mut crash, mut rng) = (Crash::new(&disk), Rng(4));
    for at in start..=disk.position() {
        crash.advance(at);
        for _ in 0..4 {
            let d = open(&crash.image(|| rng.next()));
            holds_all(&d, &format!("cut at {at}"));
            for (_, id) in answered.iter().filter(|(when, _)| *when <= at) {
                assert_eq!(read_shard(&d, *id).unwrap(), content(*id), "cut at {at}");
            }
        }
    }
}
