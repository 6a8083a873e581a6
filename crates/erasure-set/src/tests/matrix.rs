//! T9 across drives: files of one drive that are lost, stale, truncated, emptied, swapped or from another
//! drive. No read is wrong before the heal, and one scrub (after the drive has joined again, if it detected
//! the damage) leaves every record and every shard on every drive right.
//!
//! `ashlar-drive`'s `damage` tests single drives, file by file; the cases here also include those that one
//! drive cannot detect: a consistent older state, a shard that was never written.

use super::join::census;
use super::*;
use std::path::{Path, PathBuf};

const KEYS: u64 = 24;

fn size_of(i: u64, generation: u64) -> usize {
    [100, 5000, 200_000, 1_200_000][(i + generation) as usize % 4]
}

async fn write_all(rig: &Rig, generation: u64) {
    write(rig, generation, 0..KEYS).await;
}

async fn write(rig: &Rig, generation: u64, keys: std::ops::Range<u64>) {
    for i in keys {
        let bytes = noise(i * 10 + generation, size_of(i, generation));
        rig.put(&format!("m{i}"), &bytes).await.unwrap();
    }
    rig.put(&format!("gone{generation}"), b"x").await.unwrap();
    rig.delete(&format!("gone{generation}")).await.unwrap();
    basic::quiet(&rig.sets).await;
}

async fn read_all_right(rig: &Rig, what: &str) {
    for i in 0..KEYS {
        let got = rig.get(&format!("m{i}")).await;
        let got = got.unwrap_or_else(|e| panic!("{what}: m{i}: {e}"));
        assert!(got.as_deref() == Some(&noise(i * 10 + 2, size_of(i, 2))), "{what}: m{i} is wrong");
    }
    for name in ["gone1", "gone2", "never"] {
        assert_eq!(rig.get(name).await.unwrap(), None, "{what}: {name}");
    }
    let page = rig.sets.list(Space::Object, BUCKET, b"", b"", 100).await.unwrap();
    assert_eq!(page.entries.len() as u64, KEYS, "{what}");
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for e in std::fs::read_dir(from).unwrap().map(|e| e.unwrap()) {
        let to = to.join(e.file_name());
        if e.file_type().unwrap().is_dir() { copy(&e.path(), &to) } else { drop(std::fs::copy(e.path(), to)) }
    }
}

/// The files of a folder that hold something.
fn filled(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| std::fs::read(p).unwrap().iter().skip(4096).any(|b| *b != 0));
    all.sort();
    all
}

/// A file of `folder` and the one of `files` with its name. On a busy machine there may be none with the same name: then the first
/// of each.
fn namesake(files: &[PathBuf], folder: &Path) -> (PathBuf, PathBuf) {
    let there = |f: &PathBuf| Some(folder.join(f.file_name()?)).filter(|f| f.exists());
    let same = files.iter().find_map(|f| Some((there(f)?, f.clone())));
    same.unwrap_or_else(|| (filled(folder)[0].clone(), files[0].clone()))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Lost,
    Truncated,
    Emptied,
    Stale,
    OfAnotherDrive,
    Swapped,
    /// The whole drive in its state before the last writes.
    Yesterday,
    /// One shard of every body was reported as written and does not exist.
    NeverWritten,
}

/// Applies it to the files in `folder` of the drive at `path`; `old`: the earlier drive, `other`: another
/// one.
fn tamper(wrong: Wrong, path: &Path, folder: &str, old: &Path, other: &Path) {
    let files = filled(&path.join(folder));
    assert!(!files.is_empty(), "{wrong:?} {folder}: nothing to tamper with");
    let bytes = std::fs::read(&files[0]).unwrap();
    match wrong {
        Wrong::Lost => std::fs::remove_file(&files[0]).unwrap(),
        Wrong::Truncated => std::fs::write(&files[0], &bytes[..bytes.len() / 3 / 4096 * 4096]).unwrap(),
        Wrong::Emptied => std::fs::write(&files[0], vec![0; bytes.len()]).unwrap(),
        Wrong::Stale => {
            let (from, to) = namesake(&files, &old.join(folder));
            std::fs::copy(from, to).unwrap();
        }
        Wrong::OfAnotherDrive => {
            let (from, to) = namesake(&files, &other.join(folder));
            std::fs::copy(from, to).unwrap();
        }
        Wrong::Swapped => {
            let last = files.last().unwrap();
            assert_ne!(last, &files[0], "two files are needed");
            std::fs::write(&files[0], std::fs::read(last).unwrap()).unwrap();
            std::fs::write(last, bytes).unwrap();
        }
        Wrong::Yesterday => {
            std::fs::remove_dir_all(path).unwrap();
            copy(old, path);
        }
        Wrong::NeverWritten => {}
    }
}

async fn both(wrong: Wrong, folder: &str) {
    one(wrong, folder, false).await;
    one(wrong, folder, true).await;
}

async fn one(wrong: Wrong, folder: &str, one_sync: bool) {
    let what = format!("{wrong:?} {folder} one_sync {one_sync}");
    let rig = Rig::with(2, 2, 1, |o| {
        (o.sole, o.one_sync, o.orphan_age) = (false, one_sync, Duration::ZERO);
    })
    .await;
    write_all(&rig, 1).await;
    let slot = 2u8;
    let (path, old, other) = (rig.path(slot, 0), rig.path(slot, 200), rig.path(3, 0));
    rig.unplug(slot, 0).await;
    copy(&path, &old);
    rig.plug(slot, 0).await;
    write_all(&rig, 2).await;
    if wrong == Wrong::Swapped {
        // Two files are needed. A drive that is opened begins new ones, and drops only those that hold nothing. On a busy
        // machine it can miss a write, which is then healed into the newest file.
        for round in 0..20 {
            rig.unplug(slot, 0).await;
            let enough = filled(&path.join(folder)).len() > 1;
            rig.plug(slot, 0).await;
            if enough {
                break;
            }
            let half = round % 2 * (KEYS / 2);
            write(&rig, 2, half..half + KEYS / 2).await;
        }
    }
    if wrong == Wrong::NeverWritten {
        let d = rig.sets.drives().into_iter().find(|d| d.label().drive == drive_id(slot, 0)).unwrap();
        let all: Vec<_> = d.shards(None, 1000).await.unwrap().iter().map(|s| (s.write_id, s.index)).collect();
        d.discard(GroupId::default(), u32::MAX, &all);
        d.flush().await.unwrap();
    }
    rig.unplug(slot, 0).await;
    tamper(wrong, &path, folder, &old, &other);
    let d = rig.plug(slot, 0).await;
    read_all_right(&rig, &what).await;
    if d.joins() {
        let done = rig.sets.rebuild(drive_id(slot, 0)).await;
        let done = done.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(done.missing, 0, "{what}: {done:?}");
    }
    drop(d);
    let found = rig.sets.scrub(true).await.unwrap();
    rig.sets.heal_queued().await;
    assert_eq!(found.healed.lost, 0, "{what}: {found:?}");
    read_all_right(&rig, &what).await;
    // Bodies that the drive had dropped already, and that returned with its older files, have no record: this
    // pass drops them. Then every drive holds exactly what it should. (A record that was written with one
    // flush contains its parent, whose data is kept until the next change.)
    rig.sets.scrub(true).await.unwrap();
    if !one_sync {
        let (_, shards) = census(&rig.sets).await;
        assert_eq!(shards as u64, KEYS * 4, "{what}");
    }
    read_all_right(&rig, &what).await;
    // The modified drive and one other are enough now, once the hints of the last rounds have reached them.
    basic::quiet(&rig.sets).await;
    for slot in [0, 1] {
        rig.sets.detach(drive_id(slot, 0));
    }
    for i in 0..KEYS {
        let got = rig.get(&format!("m{i}")).await.unwrap_or_else(|e| panic!("{what}: m{i} from two: {e}"));
        assert!(got.as_deref() == Some(&noise(i * 10 + 2, size_of(i, 2))), "{what}: m{i} from two");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_files_of_one_drive_are_healed() {
    use Wrong::*;
    for wrong in [Lost, Truncated, Emptied, Stale, OfAnotherDrive, Swapped] {
        both(wrong, "extents").await;
        both(wrong, "journal").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_undetectable_by_one_drive() {
    both(Wrong::Yesterday, "journal").await;
    both(Wrong::NeverWritten, "journal").await;
}
