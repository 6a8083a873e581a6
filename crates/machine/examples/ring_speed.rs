//! What a direct read costs with a thread that waits and with io_uring: `ring_speed threads|ring BYTES TASKS REQUESTS FOLDER...`.
//!
//! Each folder is a drive. A request reads from two of them at the same time. Prints CPU of the process, CPU of all threads of
//! the kernel, and voluntary task switches, per request, and how many calls the ring left to threads.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use ashlar_machine::{Buf, BufferPool, DiskFile, Ended, Folder, IoPool, NotBegun, Ring};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::oneshot;

/// Bytes of each file.
const SPAN: usize = 64 << 20;

/// CPU of this process, in microseconds.
fn own_us() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc").flatten();
    tasks.map(|t| run_us(&t.path().join("schedstat"))).sum()
}

fn run_us(schedstat: &std::path::Path) -> f64 {
    let text = std::fs::read_to_string(schedstat).unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1e3
}

/// CPU of the threads of the kernel, in microseconds.
fn kernel_us() -> f64 {
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    let is_kernel =
        |stat: String| stat.rsplit(')').next().and_then(|s| s.split_whitespace().nth(1)) == Some("2");
    processes
        .filter(|p| std::fs::read_to_string(p.path().join("stat")).is_ok_and(is_kernel))
        .map(|p| run_us(&p.path().join("schedstat")))
        .sum()
}

/// Voluntary task switches of the threads of this process.
fn switches() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc").flatten();
    let of = |status: String| {
        status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<f64>().ok())
    };
    tasks.filter_map(|t| of(std::fs::read_to_string(t.path().join("status")).ok()?)).sum()
}

struct Drives {
    files: Vec<Arc<DiskFile>>,
    threads: Vec<IoPool>,
    ring: Option<Arc<Ring>>,
    pool: BufferPool,
    len: usize,
}

impl Drives {
    /// One request; `n` says where.
    async fn request(&self, n: usize) {
        let count = self.files.len();
        let at = (n * 7919 * self.len % SPAN / self.len * self.len) as u64;
        let (first, of) = (n * 2 % count, count.min(2));
        let waits: Vec<_> = (first..first + of).map(|d| self.begin(d % count, at)).collect();
        for wait in waits {
            wait.await.expect("an end");
        }
    }

    fn begin(&self, drive: usize, at: u64) -> oneshot::Receiver<()> {
        let (tx, rx) = oneshot::channel();
        let (file, threads) = (self.files[drive].clone(), self.threads[drive].clone());
        let by_thread = move |mut buf: Buf| {
            let job = move || {
                file.read_at_direct(&mut buf, at).expect("read");
                let _ = tx.send(());
            };
            threads.run(job).map_err(|_| "busy").expect("a thread");
        };
        let buf = self.pool.get_reserved(self.len);
        let Some(ring) = &self.ring else {
            by_thread(buf);
            return rx;
        };
        let file = &self.files[drive];
        let (done, ended) = oneshot::channel();
        let at_end = Box::new(move |buf, how| drop(done.send((buf, how))));
        if let Err(NotBegun(buf, _)) = ring.read(file, buf, at, at_end) {
            by_thread(buf);
            return rx;
        }
        let (tx, rx_all) = oneshot::channel();
        tokio::spawn(async move {
            if let Ok((buf, how)) = ended.await {
                match how {
                    Ended::Done => {}
                    Ended::NotNow => {
                        by_thread(buf);
                        let _ = rx.await;
                    }
                    Ended::Failed(e) => panic!("{e}"),
                }
            }
            let _ = tx.send(());
        });
        rx_all
    }
}

async fn requests(drives: &Arc<Drives>, tasks: usize, count: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let (drives, next) = (drives.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return;
                    }
                    drives.request(n as usize).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
}

async fn measure(args: &[String]) {
    let [how, len, tasks, count, folders @ ..] = args else { panic!("arguments: see the source") };
    let number = |text: &String| text.parse::<usize>().expect("a number");
    let (by_ring, tasks, count) = (how == "ring", number(tasks), number(count) as u64);
    let pool = BufferPool::new(256 << 20);
    let files: Vec<_> = folders
        .iter()
        .map(|f| {
            let folder = Folder::real(f.as_ref(), None);
            let _ = folder.remove("ring-speed");
            let file = folder.create("ring-speed", true).expect("a file");
            let piece = pool.get_reserved(1 << 20);
            (0..SPAN >> 20).for_each(|n| file.write_at(&piece, (n as u64) << 20).expect("write"));
            file.sync_all().expect("flush");
            Arc::new(file)
        })
        .collect();
    let ring = by_ring.then(|| Arc::new(Ring::new(2).expect("io_uring")));
    if let Some(ring) = &ring {
        (0..ring.queues()).for_each(|n| drop(tokio::spawn(ring.serve(n).expect("events"))));
    }
    // As a drive has.
    let threads = files.iter().map(|_| IoPool::new("io", 4, 4096)).collect();
    let drives = Arc::new(Drives { files, threads, ring, pool, len: number(len) });
    requests(&drives, tasks, count / 4).await;
    let (own, kernel, switched, began) = (own_us(), kernel_us(), switches(), Instant::now());
    requests(&drives, tasks, count).await;
    let per = |x: f64| x / count as f64;
    println!(
        "{how:8} {len:>8} bytes, {tasks} tasks: {:7.1} us, {:7.1} us of the kernel, {:5.2} switches, {:.0}/s, calls of the ring {:?}",
        per(own_us() - own),
        per(kernel_us() - kernel),
        per(switches() - switched),
        count as f64 / began.elapsed().as_secs_f64(),
        drives.ring.as_ref().map(|r| r.counts()),
    );
    folders.iter().for_each(|f| drop(Folder::real(f.as_ref(), None).remove("ring-speed")));
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(measure(&args));
}
