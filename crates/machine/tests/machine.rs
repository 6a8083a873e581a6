//! Buffers, files and threads.
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use ashlar_machine::{ALIGN, BufferPool, Fault, Faults, Folder, IoPool, Operation, SimDisk};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[test]
fn buffers_are_aligned_reused_and_bounded() {
    let pool = BufferPool::new(8 << 20);
    for len in [1, 4096, 5000, 70_000, 1 << 20, 3 << 20] {
        let b = pool.try_get(len).unwrap();
        assert_eq!((b.len(), b.as_ptr() as usize % ALIGN), (len, 0));
        assert!(b.capacity() >= len);
    }
    assert_eq!(pool.used(), 0);
    assert!(pool.idle() > 0 && pool.idle() <= 2 << 20);
    let a = pool.try_get(4 << 20).unwrap();
    let b = pool.try_get(4 << 20).unwrap();
    assert!(pool.try_get(1).is_none());
    // Waiters are served in order as memory comes back.
    let mut cx = Context::from_waker(Waker::noop());
    let mut first = Box::pin(pool.get(3 << 20));
    let mut second = Box::pin(pool.get(4096));
    assert!(first.as_mut().poll(&mut cx).is_pending());
    assert!(second.as_mut().poll(&mut cx).is_pending());
    drop(a);
    assert!(second.as_mut().poll(&mut cx).is_pending(), "not before the first");
    assert!(pool.try_get(1).is_none(), "nor past those who wait");
    let Poll::Ready(c) = first.as_mut().poll(&mut cx) else { panic!() };
    assert!(second.as_mut().poll(&mut cx).is_pending());
    drop(b);
    assert!(second.as_mut().poll(&mut cx).is_ready());
    // Shared bytes give the buffer back with the last clone.
    let used = pool.used();
    let bytes = c.freeze();
    let slice = bytes.slice(10..20);
    drop(bytes);
    assert_eq!(pool.used(), used);
    drop(slice);
    assert!(pool.used() < used);
    // A waiter that is dropped does not block the others.
    let all: Vec<_> = std::iter::from_fn(|| pool.try_get(1 << 20)).collect();
    let mut gone = Box::pin(pool.get(4 << 20));
    let mut stays = Box::pin(pool.get(1 << 20));
    assert!(gone.as_mut().poll(&mut cx).is_pending());
    assert!(stays.as_mut().poll(&mut cx).is_pending());
    drop(gone);
    drop(all);
    assert!(stays.as_mut().poll(&mut cx).is_ready());
    drop(stays);
    pool.trim_older(Duration::ZERO);
    assert_eq!(pool.idle(), 0);
}

#[test]
fn direct_writes_and_buffered_reads_agree() {
    for base in ["/dev/shm", "/tmp"] {
        let dir = tempfile::tempdir_in(base).unwrap();
        let f = Folder::real(dir.path(), None).create("f", true).unwrap();
        f.allocate(1 << 20).unwrap();
        let pool = BufferPool::new(8 << 20);
        let mut w = pool.try_get(16 << 10).unwrap();
        let mut r = vec![0; 16 << 10];
        let mut direct = pool.try_get(16 << 10).unwrap();
        for round in 0..50u8 {
            // The page cache holds what was there before the direct write.
            f.read_at(&mut r, 8192).unwrap();
            w.fill(round);
            f.write_at(&w, 8192).unwrap();
            f.read_at(&mut r, 8192).unwrap();
            assert!(r.iter().all(|b| *b == round), "{base} {round}");
            assert!(f.read_at_now(&mut r, 8192).unwrap(), "just read");
            assert!(r.iter().all(|b| *b == round));
            f.read_at_direct(&mut direct, 8192).unwrap();
            assert!(direct.iter().all(|b| *b == round));
        }
        // Unaligned pieces go through the page cache, aligned ones past it; all arrive.
        f.write_slices_at(&mut [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"de")], 100).unwrap();
        let mut five = [0; 5];
        f.read_at_direct(&mut five, 100).unwrap();
        assert_eq!(&five, b"abcde");
        let (mut head, mut none, mut tail) = ([0; 2], [0; 0], [0; 3]);
        let mut parts = [&mut head[..], &mut none, &mut tail].map(IoSliceMut::new);
        f.read_slices_at(&mut parts, 100).unwrap();
        assert_eq!((&head, &tail), (b"ab", b"cde"));
        let mut beyond = [IoSliceMut::new(&mut tail)];
        assert!(f.read_slices_at(&mut beyond, (1 << 20) - 2).is_err());
        f.sync_data().unwrap();
        assert!(f.read_at(&mut r, (1 << 20) - 5).is_err());
        assert!(f.punch_hole(8192, 16 << 10).unwrap());
        f.read_at(&mut r, 8192).unwrap();
        assert!(r.iter().all(|b| *b == 0));
    }
}

#[test]
fn real_and_simulated_folders_and_those_of_devices_behave_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SimDisk::new(1 << 20);
    let device = Folder::simulated_device(&SimDisk::new(1 << 30), 4 << 20, None).unwrap();
    for root in [Folder::real(dir.path(), None), Folder::simulated(&disk, None), device] {
        let f = root.sub("sub");
        f.make().unwrap();
        f.make().unwrap();
        f.write_new("a", b"hello").unwrap();
        assert!(f.write_new("a", b"again").is_err());
        assert_eq!(f.read("a", 100).unwrap(), b"hello");
        assert!(f.read("a", 4).is_err());
        f.rename("a", "b").unwrap();
        assert_eq!(f.list().unwrap(), ["b"]);
        f.sync().unwrap();
        let id = f.identity("b").unwrap();
        assert_eq!(f.open("b", true).unwrap().identity().unwrap(), id);
        f.remove("b").unwrap();
        f.remove("b").unwrap();
        assert!(f.open_read("b").is_err() && f.list().unwrap().is_empty());
    }
    let root = Folder::real(dir.path(), None);
    root.write_new("label", b"x").unwrap();
    let held = root.lock("label").unwrap();
    assert!(held.is_some() && root.lock("label").unwrap().is_none());
    drop(held);
    assert!(root.lock("label").unwrap().is_some());
}

#[test]
fn injected_faults_affect_selected_operations() {
    let faults = Arc::new(Faults::new());
    let disk = SimDisk::new(1 << 20);
    let f = Folder::simulated(&disk, Some(faults.clone())).create("f", false).unwrap();
    f.write_at(&[7; 100], 0).unwrap();
    faults.set_after(Operation::Write, Fault::Error(5), 1, 1);
    f.write_at(&[8; 100], 0).unwrap();
    assert_eq!(f.write_at(&[9; 100], 0).unwrap_err().raw_os_error(), Some(5));
    f.write_at(&[8; 100], 0).unwrap();
    faults.set_after(Operation::Write, Fault::Lost, 0, 1);
    f.write_at(&[1; 100], 0).unwrap();
    let mut b = [0; 100];
    assert!(!f.read_at_now(&mut b, 0).unwrap(), "the slow way while faults are set");
    f.read_at(&mut b, 0).unwrap();
    assert_eq!(b, [8; 100]);
    faults.set(Operation::Read, Fault::Corrupt);
    f.read_at(&mut b, 0).unwrap();
    assert_ne!(b, [8; 100]);
    faults.clear();
    f.read_at(&mut b, 0).unwrap();
    assert_eq!(b, [8; 100]);
    assert_eq!(faults.affected(), 3);
}

#[test]
fn pool_is_bounded_and_survives_panics() {
    let pool = IoPool::new("test", 2, 4);
    let ran = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(std::sync::Barrier::new(3));
    for _ in 0..2 {
        let g = gate.clone();
        pool.run(move || {
            g.wait();
        })
        .ok()
        .unwrap();
    }
    while pool.queued() > 0 {
        std::thread::yield_now();
    }
    for i in 0..4 {
        let r = ran.clone();
        let ok = pool.run(move || {
            r.fetch_add(1, Ordering::SeqCst);
            assert!(i != 1, "a job that panics");
        });
        assert!(ok.is_ok());
    }
    assert!(pool.run(|| ()).is_err(), "the queue is full");
    gate.wait();
    for _ in 0..1000 {
        if ran.load(Ordering::SeqCst) == 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(ran.load(Ordering::SeqCst), 4);
    pool.close();
    assert!(pool.run(|| ()).is_err());
}

/// A file without a name accepts writes and flushes as before; `linked` reports that it has none.
#[test]
fn unlinked_file_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SimDisk::new(1 << 20);
    for folder in [Folder::real(dir.path(), None), Folder::simulated(&disk, None)] {
        let f = folder.create("f", false).unwrap();
        assert!(f.linked().unwrap());
        folder.rename("f", "g").unwrap();
        assert!(f.linked().unwrap(), "another name will do");
        folder.remove("g").unwrap();
        f.write_at(b"into the void", 0).unwrap();
        f.sync_data().unwrap();
        assert!(!f.linked().unwrap());
        folder.create("g", false).unwrap();
        assert!(!f.linked().unwrap(), "the name leads to another file now");
    }
}

/// What the name of a drive's file can refer to instead of a file.
const KINDS: [&str; 6] = ["FIFO", "link to a file", "link to a folder", "folder", "socket", "device"];

/// Puts something of that kind at `path`; false: this process has no permission to do so.
fn put_kind(path: &std::path::Path, kind: &str, file: &std::path::Path, folder: &std::path::Path) -> bool {
    use std::os::unix::fs::symlink;
    match kind {
        "FIFO" => std::process::Command::new("mkfifo").arg(path).status().unwrap().success(),
        "link to a file" => symlink(file, path).is_ok(),
        "link to a folder" => symlink(folder, path).is_ok(),
        "folder" => std::fs::create_dir(path).is_ok(),
        "socket" => std::os::unix::net::UnixListener::bind(path).is_ok(),
        _ => {
            let made = std::process::Command::new("mknod").arg(path).args(["c", "1", "5"]).output();
            made.is_ok_and(|o| o.status.success())
        }
    }
}

/// Only regular files are opened, and only inside the folder; opening never waits.
#[test]
fn only_regular_files_inside_the_folder_are_touched() {
    let home = tempfile::tempdir().unwrap();
    let (outside, theirs) = (home.path().join("outside"), home.path().join("folder"));
    std::fs::create_dir(&theirs).unwrap();
    let content = || {
        (
            std::fs::read(&outside).unwrap(),
            std::fs::read(theirs.join("control.0")).unwrap(),
            theirs.read_dir().unwrap().count(),
        )
    };
    std::fs::write(&outside, b"theirs").unwrap();
    std::fs::write(theirs.join("control.0"), b"theirs too").unwrap();
    let before = content();
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let f = Folder::real(dir.path(), None);
        if !put_kind(&dir.path().join("x"), kind, &outside, &theirs) {
            assert_eq!(kind, "device", "cannot be made here");
            continue;
        }
        let refused = |r: std::io::Result<()>, what: &str| {
            let e = r.expect_err(&format!("{kind}: {what}"));
            let text = e.to_string();
            assert!(text.contains("x is a") && text.contains("not a regular file"), "{kind}: {what}: {text}");
        };
        refused(f.open("x", false).map(drop), "open");
        refused(f.open("x", true).map(drop), "open direct");
        refused(f.open_read("x").map(drop), "open_read");
        refused(f.read("x", 100).map(drop), "read");
        refused(f.lock("x").map(drop), "lock");
        assert!(f.create("x", false).is_err() && f.write_new("x", b"y").is_err(), "{kind}");
        // A name that must be a folder.
        let sub = f.sub("x");
        for (what, r) in [
            ("list", sub.list().map(drop)),
            ("make", sub.make()),
            ("sync", sub.sync()),
            ("create", sub.create("n", false).map(drop)),
            ("open", sub.open("control.0", false).map(drop)),
            ("remove", sub.remove("control.0")),
            ("rename", sub.rename("control.0", "gone")),
            ("identity", sub.identity("control.0").map(drop)),
            ("narrow", sub.narrow()),
        ] {
            let missing = r.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
            assert!(kind == "folder" || r.is_err() && !missing, "{kind}: {what}: {r:?}");
        }
        if kind == "folder" {
            f.remove_folder("x").unwrap();
        } else {
            assert!(f.remove_folder("x").is_err(), "{kind}");
            // The entry itself may be removed: it is in the folder.
            f.remove("x").unwrap();
        }
        assert_eq!(f.list().unwrap(), [""; 0], "{kind}");
        assert_eq!(content(), before, "{kind}: something outside was changed");
    }
    // The folder named by an operator may be a link.
    let link = home.path().join("link");
    std::os::unix::fs::symlink(&theirs, &link).unwrap();
    assert_eq!(Folder::real(&link, None).read("control.0", 100).unwrap(), b"theirs too");
}

/// Only their owner can access new files, regardless of the umask; the mode of a wider file is narrowed.
#[test]
fn file_modes_do_not_depend_on_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    // The umask belongs to the process, so the test runs itself again with other ones.
    if let Some(dir) = std::env::var_os("ASHLAR_TEST_MODES") {
        let f = Folder::real(std::path::Path::new(&dir), None);
        f.sub("s").make().unwrap();
        f.sub("s").write_new("x", b"secret").unwrap();
        f.open("wide", false).unwrap();
        return;
    }
    for umask in ["000", "022", "077", "277"] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("wide"), b"secret").unwrap();
        std::fs::set_permissions(dir.path().join("wide"), std::fs::Permissions::from_mode(0o644)).unwrap();
        let me = std::env::current_exe().unwrap();
        let line =
            format!("umask {umask}; exec {} --exact file_modes_do_not_depend_on_the_umask", me.display());
        let out = std::process::Command::new("sh")
            .args(["-c", &line])
            .env("ASHLAR_TEST_MODES", dir.path())
            .output()
            .unwrap();
        assert!(out.status.success(), "{umask}: {}", String::from_utf8_lossy(&out.stdout));
        let mode =
            |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("s"), mode("s/x"), mode("wide")), (0o700, 0o600, 0o600), "umask {umask}");
        let wide = Folder::real(dir.path(), None);
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(wide.mode().unwrap(), 0o755);
        wide.narrow().unwrap();
        assert_eq!(wide.mode().unwrap(), 0o700);
    }
}

/// A future that waits for memory and is not polled, because its task does something else, keeps its assigned
/// memory and does not block other waiters.
#[test]
fn waiter_that_is_not_polled_blocks_no_other() {
    use std::task::{Context, Poll, Waker};
    let pool = BufferPool::new(8 << 20);
    let mut all: Vec<_> = std::iter::from_fn(|| pool.try_get(1 << 20)).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let (mut idle, mut keen) = (Box::pin(pool.get(1 << 20)), Box::pin(pool.get(1 << 20)));
    assert!(idle.as_mut().poll(&mut cx).is_pending());
    assert!(keen.as_mut().poll(&mut cx).is_pending());
    all.pop();
    assert!(keen.as_mut().poll(&mut cx).is_pending(), "in order of arrival");
    all.pop();
    let Poll::Ready(got) = keen.as_mut().poll(&mut cx) else { panic!("it waits for one that does not come") };
    assert_eq!(pool.used(), 8 << 20, "what was given counts");
    drop(idle);
    assert_eq!(pool.used(), 7 << 20);
    drop((got, all));
    assert_eq!(pool.used(), 0);
}
