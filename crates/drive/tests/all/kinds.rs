//! A drive folder in which a file or folder has another kind. The drive opens or reports the problem by name;
//! it never blocks, and never accesses anything outside of its folder.

use crate::common::*;
use ashlar_drive::Drive;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const KINDS: [&str; 5] = ["FIFO", "link to a file", "link to a folder", "folder", "socket"];

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for e in std::fs::read_dir(from).unwrap() {
        let e = e.unwrap();
        match e.metadata().unwrap().is_dir() {
            true => copy(&e.path(), &to.join(e.file_name())),
            false => drop(std::fs::copy(e.path(), to.join(e.file_name())).unwrap()),
        }
    }
}

/// Every file below, with its content.
fn tree(at: &Path, out: &mut Vec<(PathBuf, Vec<u8>)>) {
    for e in std::fs::read_dir(at).unwrap() {
        let path = e.unwrap().path();
        match path.is_dir() {
            true => tree(&path, out),
            false => out.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
}

fn put_kind(path: &Path, kind: &str, file: &Path, folder: &Path) {
    match kind {
        "FIFO" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        "link to a file" => symlink(file, path).unwrap(),
        "link to a folder" => symlink(folder, path).unwrap(),
        "folder" => std::fs::create_dir(path).unwrap(),
        _ => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
    }
}

#[test]
fn non_regular_files_are_refused_without_blocking() {
    let home = tempfile::tempdir_in("/tmp").unwrap();
    let first = home.path().join("first");
    std::fs::create_dir(&first).unwrap();
    ashlar_drive::format(&first, &label(1), VOTER).unwrap();
    let o = small_options();
    let d = Drive::open(&first, &o).unwrap();
    for id in 0..8 {
        block(async {
            let mut w =
                d.begin_shard(&key(id), write_id(id), 3, ballot(1), u32::MAX, 65_536, 65_536).unwrap();
            w.write(o.pool.get(65_536).await.freeze()).await.unwrap();
            let t = ashlar_drive::Tally::new(1);
            w.finish(t.completion(0));
            assert_eq!(t.wait(1).await.ok, 1);
        });
    }
    block(d.close());
    let inside = |folder: &str| {
        let mut names: Vec<_> = first
            .join(folder)
            .read_dir()
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        format!("{folder}/{}", names.into_iter().find(|n| n != "manifest").unwrap())
    };
    let mut names: Vec<String> =
        ["label", "index/manifest", "journal", "extents", "index"].map(Into::into).into();
    names.extend(["journal", "extents", "index"].map(inside));
    for name in &names {
        for kind in KINDS {
            let what = format!("{name} is a {kind}");
            if kind == "folder" && first.join(name).is_dir() {
                continue;
            }
            let case = tempfile::tempdir_in("/tmp").unwrap();
            let (outside, file) = (case.path().join("outside"), case.path().join("outside/file"));
            // It has the right content, so that only its kind is wrong.
            std::fs::create_dir(&outside).unwrap();
            std::fs::write(&file, b"theirs").unwrap();
            let taken = first.join(name);
            match taken.is_dir() {
                true => copy(&taken, &outside.join("folder")),
                false => {
                    std::fs::create_dir(outside.join("folder")).unwrap();
                    std::fs::copy(&taken, &file).unwrap();
                }
            }
            let at = case.path().join("drive");
            copy(&first, &at);
            match at.join(name).is_dir() {
                true => std::fs::remove_dir_all(at.join(name)).unwrap(),
                false => std::fs::remove_file(at.join(name)).unwrap(),
            }
            put_kind(&at.join(name), kind, &file, &outside.join("folder"));
            let (mut before, mut after) = (Vec::new(), Vec::new());
            tree(&outside, &mut before);
            let (tell, told) = std::sync::mpsc::channel();
            let (path, options) = (at.clone(), o.clone());
            std::thread::spawn(move || {
                let opened = Drive::open(&path, &options);
                let said = opened.map(|d| {
                    let _ = d.tidy();
                    block(d.close());
                });
                let _ = tell.send(said);
            });
            let said =
                told.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|_| panic!("{what}: it hangs"));
            let file_name = name.rsplit('/').next().unwrap();
            match said {
                // Only a cache.
                Ok(()) => assert!(name.starts_with("index/"), "{what}: taken for what it is not"),
                Err(e) => assert!(e.to_string().contains(file_name), "{what}: not named: {e}"),
            }
            tree(&outside, &mut after);
            assert!(before == after, "{what}: something outside was changed");
        }
    }
}
