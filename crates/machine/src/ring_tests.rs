//! Needs a folder with direct I/O below the folder of temporary files, and io_uring; where the machine has neither, each test says so and
//! ends.

use super::*;
use crate::{ALIGN, BufferPool, Fault, Faults, Folder, Operation, Watch};
use parking_lot::Condvar;
use std::time::{Duration, Instant};

struct Fixture {
    ring: Arc<Ring>,
    pool: BufferPool,
    folder: Folder,
    watch: Arc<Watch>,
    faults: Arc<Faults>,
    _home: tempfile::TempDir,
}

/// `None`: this machine cannot.
fn fixture() -> Option<Fixture> {
    let ring = match Ring::new(2) {
        Ok(ring) => Arc::new(ring),
        Err(e) => {
            eprintln!("not tested: no io_uring: {e}");
            return None;
        }
    };
    let home = tempfile::tempdir_in("/var/tmp").or_else(|_| tempfile::tempdir()).unwrap();
    let (watch, faults) = (Arc::new(Watch::new()), Arc::new(Faults::new()));
    let folder = Folder::real(home.path(), Some(faults.clone())).watched(&watch);
    let f = Fixture { ring, pool: BufferPool::new(64 << 20), folder, watch, faults, _home: home };
    if !f.file("probe", 1).is_direct() {
        eprintln!("not tested: the folder of temporary files has no direct I/O");
        return None;
    }
    Some(f)
}

/// What page `n` of every file has at the beginning.
fn page(n: u64) -> [u8; ALIGN] {
    std::array::from_fn(|i| (n as usize * 31 + i * 7) as u8)
}

impl Fixture {
    fn file(&self, name: &str, pages: u64) -> Arc<DiskFile> {
        let file = self.folder.create(name, true).unwrap();
        // Aligned: what is in the page cache is not written directly without waiting.
        let mut buf = self.pool.get_reserved(ALIGN);
        for n in 0..pages {
            buf.copy_from_slice(&page(n));
            file.write_at(&buf, n * ALIGN as u64).unwrap();
        }
        file.sync_all().unwrap();
        Arc::new(file)
    }

    fn reap(&self) {
        (0..self.ring.queues()).for_each(|n| self.ring.reap(n));
    }

    fn reap_all(&self) {
        let began = Instant::now();
        while self.ring.under_way() > 0 {
            self.reap();
            assert!(began.elapsed() < Duration::from_secs(60), "a call does not end");
            std::thread::yield_now();
        }
    }

    /// One call, from begin to end.
    fn call(&self, begin: impl FnOnce(AtEnd) -> Result<(), NotBegun>) -> Option<(Buf, Ended)> {
        let result = Arc::new(Mutex::new(None));
        let out = result.clone();
        begin(Box::new(move |buf, how| *out.lock() = Some((buf, how)))).ok()?;
        self.reap_all();
        result.lock().take()
    }

    fn read(&self, file: &Arc<DiskFile>, len: usize, at: u64) -> Option<(Buf, Ended)> {
        self.call(|done| self.ring.read(file, self.pool.get_reserved(len), at, done))
    }
}

#[test]
fn reads_what_the_file_has() {
    let Some(f) = fixture() else { return };
    let file = f.file("a", 8);
    for (pages, from) in [(1, 0), (1, 7), (3, 2), (8, 0)] {
        let (buf, how) = f.read(&file, pages * ALIGN, from * ALIGN as u64).unwrap();
        match how {
            Ended::Done => {
                let expected: Vec<u8> = (from..from + pages as u64).flat_map(page).collect();
                assert!(buf[..] == expected[..]);
            }
            Ended::NotNow => {}
            Ended::Failed(e) => panic!("{e}"),
        }
    }
    assert_eq!(f.watch.under_way(), 0);
}

#[test]
fn read_beyond_the_end_is_left_to_a_thread_which_finds_the_end() {
    let Some(f) = fixture() else { return };
    let file = f.file("a", 2);
    for at in [ALIGN as u64, 2 * ALIGN as u64, 1 << 30] {
        let (mut buf, how) = f.read(&file, 2 * ALIGN, at).unwrap();
        assert!(matches!(how, Ended::NotNow), "{how:?}");
        let e = file.read_at_direct(&mut buf, at).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn what_is_not_aligned_or_not_direct_is_not_begun() {
    let Some(f) = fixture() else { return };
    let file = f.file("a", 4);
    for (len, at) in [(512, 0), (ALIGN, 512), (0, 0), (ALIGN + 1, 0)] {
        let mut buf = f.pool.get_reserved(2 * ALIGN);
        buf.set_len(len);
        let done = Box::new(|_, _| panic!("it must not be begun"));
        assert!(f.ring.read(&file, buf, at, done).is_err(), "{len} at {at}");
    }
    let buffered = Arc::new(f.folder.create("b", false).unwrap());
    assert!(f.read(&buffered, ALIGN, 0).is_none());
    assert_eq!((f.ring.under_way(), f.watch.under_way()), (0, 0));
}

#[test]
fn injected_faults_are_those_of_threads() {
    let Some(f) = fixture() else { return };
    let file = f.file("a", 4);
    f.faults.set(Operation::Read, Fault::Corrupt);
    assert!(f.read(&file, ALIGN, 0).is_none());
    f.faults.clear();
    assert!(f.read(&file, ALIGN, 0).is_some());
}

#[test]
fn calls_are_recorded_until_they_end_and_no_more_are_begun_than_can_be() {
    let Some(f) = fixture() else { return };
    let file = f.file("a", 4);
    let all: Vec<_> = std::iter::from_fn(|| f.watch.hold()).collect();
    assert!(f.read(&file, ALIGN, 0).is_none(), "it could not be recorded");
    drop(all);
    let done = Box::new(|_, _| {});
    f.ring.read(&file, f.pool.get_reserved(ALIGN), 0, done).map_err(|_| "not begun").unwrap();
    assert_eq!((f.watch.under_way(), f.ring.under_way()), (1, 1), "its end was not looked at");
    f.reap_all();
    assert_eq!(f.watch.under_way(), 0);
}

#[test]
fn error_of_the_kernel_is_that_of_the_call() {
    assert!(matches!(how(-libc::EIO, 4096), Ended::Failed(e) if e.raw_os_error() == Some(libc::EIO)));
    assert!(matches!(how(-libc::EBADF, 4096), Ended::Failed(e) if e.raw_os_error() == Some(libc::EBADF)));
    assert!(matches!(how(4096, 4096), Ended::Done));
    for result in [0, 512, -libc::EAGAIN, -libc::EINTR, -libc::ECANCELED, -libc::EOPNOTSUPP] {
        assert!(matches!(how(result, 4096), Ended::NotNow), "{result}");
    }
}

#[test]
fn call_that_the_kernel_refuses_fails() {
    let Some(f) = fixture() else { return };
    let file = f.file("a", 4);
    let fd = file.ring_descriptor().unwrap();
    let path = f.folder.path().join("a");
    let become_only = |other: std::fs::File| {
        // SAFETY: both are open; the file closes what takes the place of its own descriptor.
        assert!(unsafe { libc::dup2(other.as_raw_fd(), fd) } == fd);
    };
    let bad = |how: Ended| matches!(how, Ended::Failed(e) if e.raw_os_error() == Some(libc::EBADF));
    become_only(std::fs::OpenOptions::new().write(true).open(&path).unwrap());
    assert!(bad(f.read(&file, ALIGN, 0).unwrap().1));
    assert_eq!((f.ring.under_way(), f.watch.under_way()), (0, 0));
}

#[test]
fn panic_at_an_end_does_not_keep_the_others_from_theirs() {
    let Some(f) = fixture() else { return };
    let file = f.file("a", 4);
    let ended = Arc::new(AtomicUsize::new(0));
    for n in 0..8 {
        let ended = ended.clone();
        let done = Box::new(move |_, _| {
            ended.fetch_add(1, Ordering::Relaxed);
            assert!(n % 2 == 0, "meant to panic");
        });
        f.ring.read(&file, f.pool.get_reserved(ALIGN), 0, done).map_err(|_| "not begun").unwrap();
    }
    f.reap_all();
    assert_eq!(ended.load(Ordering::Relaxed), 8);
    assert_eq!(f.watch.under_way(), 0);
}

#[test]
fn dropped_ring_leaves_the_buffers_of_calls_alone() {
    let Some(f) = fixture() else { return };
    let file = f.file("a", 64);
    for _ in 0..50 {
        let ring = Ring::new(1).unwrap();
        for n in 0..16 {
            let done = Box::new(|_, _| {});
            let _ = ring.read(&file, f.pool.get_reserved(4 * ALIGN), n * 4 * ALIGN as u64, done);
        }
        drop(ring);
        // Whoever has memory from now on: the kernel writes nothing into it.
        let mut bufs: Vec<Buf> = (0..16).map(|_| f.pool.get_reserved(4 * ALIGN)).collect();
        bufs.iter_mut().for_each(|b| b.fill(0x55));
        std::thread::yield_now();
        assert!(bufs.iter().all(|b| b.iter().all(|b| *b == 0x55)));
    }
}

/// A task that waits for a call, and may stop waiting.
#[derive(Default)]
struct Waiter {
    state: Mutex<(bool, Option<Buf>)>,
    ended: Condvar,
}

/// How a page is read in the stress test.
trait Reader: Sync {
    /// The page at a place, or nothing if `gives_up`.
    fn read(&self, file: &Arc<DiskFile>, pool: &BufferPool, at: u64, gives_up: bool) -> Option<Buf>;
}

/// The safe twin: a call of the thread.
struct ByThread;

impl Reader for ByThread {
    fn read(&self, file: &Arc<DiskFile>, pool: &BufferPool, at: u64, gives_up: bool) -> Option<Buf> {
        let mut buf = pool.get_reserved(2 * ALIGN);
        file.read_at_direct(&mut buf, at).unwrap();
        (!gives_up).then_some(buf)
    }
}

struct ByRing<'a>(&'a Ring);

impl Reader for ByRing<'_> {
    fn read(&self, file: &Arc<DiskFile>, pool: &BufferPool, at: u64, gives_up: bool) -> Option<Buf> {
        let waiter = Arc::new(Waiter::default());
        let its = Arc::downgrade(&waiter);
        let done = Box::new(move |buf: Buf, how| {
            // Nobody waits: the buffer goes back to the pool, and to the next reader.
            let Some(waiter) = its.upgrade() else { return };
            *waiter.state.lock() = (true, matches!(how, Ended::Done).then_some(buf));
            waiter.ended.notify_all();
        });
        if self.0.read(file, pool.get_reserved(2 * ALIGN), at, done).is_err() {
            return ByThread.read(file, pool, at, gives_up);
        }
        if gives_up {
            return None;
        }
        let mut state = waiter.state.lock();
        while !state.0 {
            waiter.ended.wait(&mut state);
        }
        match state.1.take() {
            Some(buf) => Some(buf),
            None => ByThread.read(file, pool, at, false),
        }
    }
}

/// Readers of which every third one gives up, while buffers are used again at once: everybody sees their own bytes, also a moment later.
fn readers_see_their_own_bytes(f: &Fixture, file: &Arc<DiskFile>, reader: &dyn Reader) {
    std::thread::scope(|s| {
        for t in 0..4u64 {
            s.spawn(move || {
                let mut kept: Vec<(u64, Buf)> = Vec::new();
                for n in 0..1500u64 {
                    let at = (n * 7919 + t * 104_729) % 62;
                    let gives_up = (n + t) % 3 == 0;
                    if let Some(buf) = reader.read(file, &f.pool, at * ALIGN as u64, gives_up) {
                        kept.push((at, buf));
                    }
                    if kept.len() > 8 {
                        for (at, buf) in kept.drain(..) {
                            assert!(buf[..ALIGN] == page(at) && buf[ALIGN..] == page(at + 1), "page {at}");
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn buffers_of_readers_that_gave_up_are_used_again_only_after_the_end() {
    let Some(f) = fixture() else { return };
    let file = f.file("a", 64);
    readers_see_their_own_bytes(&f, &file, &ByThread);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                f.reap();
                std::thread::yield_now();
            }
        });
        readers_see_their_own_bytes(&f, &file, &ByRing(&f.ring));
        stop.store(true, Ordering::Relaxed);
    });
    f.reap_all();
    assert_eq!((f.watch.under_way(), f.pool.used()), (0, 0));
}

#[test]
fn runtime_is_told_of_ends() {
    let Some(f) = fixture() else { return };
    let file = f.file("a", 8);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for queue in 0..f.ring.queues() {
            tokio::spawn(f.ring.serve(queue).unwrap());
        }
        let tasks: Vec<_> = (0..8)
            .map(|t: u64| {
                let (ring, file, pool) = (f.ring.clone(), file.clone(), f.pool.clone());
                tokio::spawn(async move {
                    for n in 0..200 {
                        let at = (t + n) % 8;
                        let (tx, rx) = tokio::sync::oneshot::channel();
                        let done = Box::new(move |buf, how| drop(tx.send((buf, how))));
                        let buf = pool.get_reserved(ALIGN);
                        if ring.read(&file, buf, at * ALIGN as u64, done).is_err() {
                            continue;
                        }
                        let (buf, how): (Buf, Ended) = rx.await.unwrap();
                        assert!(!matches!(how, Ended::Done) || buf[..] == page(at));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(f.ring.under_way(), 0);
}

/// In a process of its own, since a filter is for good: `fall_back_when_the_kernel_refuses` starts it.
#[test]
#[ignore = "started by another test"]
fn refused_by_a_filter() {
    refuse_io_uring();
    let e = Ring::new(1).unwrap_err();
    assert_eq!(e.raw_os_error(), Some(libc::EPERM), "{e}");
}

/// As the filters of containers do: EPERM for io_uring_setup.
fn refuse_io_uring() {
    let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        // The number of the call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: numbers only, and a program that lives until the call returns.
    unsafe {
        let (none, one): (libc::c_ulong, libc::c_ulong) = (0, 1);
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, none, none, none), 0);
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn fall_back_when_the_kernel_refuses() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "ring::tests::refused_by_a_filter", "--test-threads=1"])
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && out.contains("1 passed"), "{out}");
}
