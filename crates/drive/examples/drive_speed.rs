//! CPU per operation of drives: `speed [folder ...] [--ops N] [--drives N] [--ring] [--spread] [--writers N]
//! [--only stage,accept,one-sync,read,large]`.
//!
//! Makes one and four drives under each folder (default: /dev/shm and the working directory), or with `--spread` one under each,
//! keeps 8 writers busy, and prints CPU microseconds (user + system, whole process) per operation
//! and drive, that of all threads of the kernel, voluntary task switches, wall time, and how many operations shared a flush.
//! `--ring`: with io_uring.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use ashlar_drive::{Accept, Check, Drive, Inline, InlineShard, Label, Options, Role, Tally, start_ring};
use ashlar_format::{Ballot, BucketId, DeploymentId, DriveId, GroupId, RegisterKey, Space, WriteId};
use ashlar_machine::BufferPool;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Tasks.
static WRITERS: AtomicU64 = AtomicU64::new(8);

fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("proc");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap_or(0.0) + fields[12].parse::<f64>().unwrap_or(0.0);
    ticks * 10_000.0
}

/// CPU of the threads of the kernel, in microseconds: those of the file system and the block layer, and others that work meanwhile.
fn kernel_us() -> f64 {
    let mut all = 0.0;
    for process in std::fs::read_dir("/proc").expect("proc").flatten() {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        if fields.nth(1) == Some("2") && !stat.contains("damon") {
            let time = std::fs::read_to_string(process.path().join("schedstat")).unwrap_or_default();
            all += time.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1e3;
        }
    }
    all
}

/// Voluntary task switches of the threads of this process.
fn switches() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc").flatten();
    let of = |status: String| {
        status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<f64>().ok())
    };
    tasks.filter_map(|t| of(std::fs::read_to_string(t.path().join("status")).ok()?)).sum()
}

fn key(i: u64) -> RegisterKey {
    RegisterKey::new(
        GroupId::default(),
        Space::Object,
        BucketId([1; 16]),
        format!("some/prefix/object-{i:012}").as_bytes(),
    )
}

fn id(i: u64) -> WriteId {
    let mut b = [0; 16];
    b[..8].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    b[8..].copy_from_slice(&i.to_be_bytes());
    WriteId(b)
}

struct Begun {
    cpu: f64,
    kernel: f64,
    switches: f64,
    at: Instant,
    stats: Vec<ashlar_drive::Stats>,
}

fn report(what: &str, n: u64, drives: &[Drive], before: Begun) {
    let per = |x: f64| x / n as f64 / drives.len() as f64;
    let took = before.at.elapsed().as_secs_f64();
    let (batches, syncs): (u64, u64) = drives
        .iter()
        .zip(&before.stats)
        .map(|(d, b)| (d.stats().batches - b.batches, d.stats().syncs - b.syncs))
        .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    println!(
        "  {what:<28} {:7.2} CPU us/op/drive {:7.2} of the kernel {:5.2} switches {:8.0} op/s   {:.2} batches/op/drive {syncs} syncs",
        per(cpu_us() - before.cpu),
        per(kernel_us() - before.kernel),
        per(switches() - before.switches),
        n as f64 / took,
        per(batches as f64),
    );
}

fn begin(drives: &[Drive]) -> Begun {
    let stats = drives.iter().map(Drive::stats).collect();
    Begun { cpu: cpu_us(), kernel: kernel_us(), switches: switches(), at: Instant::now(), stats }
}

async fn writers<F, Fut>(n: u64, f: F)
where
    F: Fn(u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    let f = Arc::new(f);
    let next = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..WRITERS.load(Ordering::Relaxed))
        .map(|_| {
            let (f, next) = (f.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        break;
                    }
                    f(i).await;
                }
            })
        })
        .collect();
    for t in tasks {
        t.await.expect("writer");
    }
}

/// Drive `n` is under the folder `n`, counted round.
async fn measure(folders: &[String], count: u8, ops: u64, only: &str, by_ring: bool) {
    let dirs: Vec<_> = folders
        .iter()
        .map(|f| tempfile::Builder::new().prefix("ashlar-speed").tempdir_in(f).expect("folder"))
        .collect();
    let mut options = Options::new(BufferPool::new(256 << 20));
    options.strict = true;
    options.ring = by_ring.then(|| start_ring().expect("io_uring"));
    let drives: Arc<Vec<Drive>> = Arc::new(
        (0..count)
            .map(|n| {
                let path = dirs[usize::from(n) % dirs.len()].path().join(format!("d{n}"));
                std::fs::create_dir(&path).expect("drive folder");
                let label =
                    Label { deployment: DeploymentId([1; 16]), drive: DriveId([n + 1; 16]), created_ms: 0 };
                ashlar_drive::format(&path, &label, &[(GroupId::default(), Role::Voter)]).expect("format");
                Drive::open(&path, &options).expect("open")
            })
            .collect(),
    );
    println!("{count} drive(s) in {}{}", folders.join(" "), if by_ring { ", by io_uring" } else { "" });
    let data = Bytes::from(vec![0x5a; 4096]);
    let record = Bytes::from(vec![0x3c; 500]);
    let summary = Bytes::from(vec![1; 60]);
    let ballot = Ballot { epoch: 0, counter: 1, node: 1, nonce: 1 };

    let run = |phase: &str| only.is_empty() || only.split(',').any(|p| p == phase);
    let b = begin(&drives);
    let (d, x) = (drives.clone(), data.clone());
    writers(if run("stage") { ops } else { 0 }, move |i| {
        let tally = Tally::new(d.len() as u8);
        for (slot, drive) in d.iter().enumerate() {
            let shard = InlineShard {
                owner: key(i),
                write_id: id(i),
                index: slot as u8,
                ballot,
                epoch: u32::MAX,
                data: x.clone(),
            };
            drive.stage(shard, tally.completion(slot as u8));
        }
        let n = d.len() as u8;
        async move {
            assert_eq!(tally.wait(n).await.ok.count_ones(), u32::from(n), "{:?}", tally.error());
        }
    })
    .await;
    report("stage 4 KiB", ops, &drives, b);

    for with_shard in [false, true] {
        if !run(if with_shard { "one-sync" } else { "accept" }) {
            continue;
        }
        let b = begin(&drives);
        let (d, x, r, s) = (drives.clone(), data.clone(), record.clone(), summary.clone());
        let base = if with_shard { ops } else { 0 };
        writers(ops, move |i| {
            let tally = Tally::new(d.len() as u8);
            for (slot, drive) in d.iter().enumerate() {
                let inline =
                    with_shard.then(|| Inline { write_id: id(base + i), index: slot as u8, data: x.clone() });
                let a = Accept {
                    key: key(base + i),
                    ballot,
                    epoch: u32::MAX,
                    record: r.clone(),
                    summary: s.clone(),
                    inline,
                };
                drive.accept(a, tally.completion(slot as u8));
            }
            let n = d.len() as u8;
            async move {
                assert_eq!(tally.wait(n).await.ok.count_ones(), u32::from(n), "{:?}", tally.error());
            }
        })
        .await;
        let what = if with_shard { "accept with 4 KiB shard" } else { "accept of 500 B" };
        report(what, ops, &drives, b);
    }

    for round in ["first", "hot"] {
        if !run("read") {
            continue;
        }
        let b = begin(&drives);
        let waits = Arc::new(AtomicU64::new(0));
        let (d, w) = (drives.clone(), waits.clone());
        writers(ops, move |i| {
            let (d, w) = (d.clone(), w.clone());
            async move {
                for (slot, drive) in d.iter().enumerate() {
                    let k = key(ops + i);
                    let r = match drive.read_now(&k, true, u32::MAX) {
                        Some(r) => r,
                        None => {
                            w.fetch_add(1, Ordering::Relaxed);
                            drive.read(&k, true, u32::MAX).await
                        }
                    };
                    assert_eq!(r.expect("read").accepted.and_then(|s| s.record).map(|r| r.len()), Some(500));
                    let s = match drive.open_shard_now(id(ops + i), slot as u8) {
                        Some(s) => s,
                        None => {
                            w.fetch_add(1, Ordering::Relaxed);
                            drive.open_shard(id(ops + i), slot as u8).await
                        }
                    };
                    assert_eq!(s.expect("shard").read(0, Check::Drive).await.expect("frame").len(), 4096);
                }
            }
        })
        .await;
        report(&format!("read + shard, {round}"), ops, &drives, b);
        println!("  {:<28} {} waited for the device", "", waits.load(Ordering::Relaxed));
    }

    let large = 1 << 20;
    let n = (ops / 100).max(20);
    for frame in [64u32 << 10, 256 << 10] {
        if !run("large") {
            continue;
        }
        let b = begin(&drives);
        let (d, pool) = (drives.clone(), options.pool.clone());
        writers(n, move |i| {
            let (d, pool) = (d.clone(), pool.clone());
            async move {
                let tally = Tally::new(d.len() as u8);
                let mut buf = pool.get(frame as usize).await;
                buf.fill(i as u8);
                let bytes = buf.freeze();
                for (slot, drive) in d.iter().enumerate() {
                    let wid = id((1 << 40) + i + (u64::from(frame) << 20));
                    let mut w = drive
                        .begin_shard(&key(i), wid, slot as u8, ballot, u32::MAX, large, frame)
                        .expect("room");
                    for _ in 0..large / u64::from(frame) {
                        w.write(bytes.clone()).await.expect("write");
                    }
                    w.finish(tally.completion(slot as u8));
                }
                let all = d.len() as u8;
                assert_eq!(tally.wait(all).await.ok.count_ones(), u32::from(all), "{:?}", tally.error());
            }
        })
        .await;
        report(&format!("1 MiB shard, {} KiB frames", frame >> 10), n, &drives, b);
        let b = begin(&drives);
        let d = drives.clone();
        writers(n, move |i| {
            let d = d.clone();
            async move {
                for (slot, drive) in d.iter().enumerate() {
                    let wid = id((1 << 40) + i + (u64::from(frame) << 20));
                    let r = drive.open_shard(wid, slot as u8).await.expect("shard");
                    for k in 0..r.frames() {
                        assert_eq!(r.read(k, Check::Drive).await.expect("frame").len(), frame as usize);
                    }
                }
            }
        })
        .await;
        report("  read back", n, &drives, b);
    }
    let b = begin(&drives);
    for d in drives.iter() {
        d.close().await;
    }
    println!("  close {:.0} ms, {:.0} ms CPU", b.at.elapsed().as_secs_f64() * 1e3, (cpu_us() - b.cpu) / 1e3);
    drop(drives);
    let t = Instant::now();
    let d = Drive::open(&dirs[0].path().join("d0"), &options).expect("reopen");
    if let Some(ring) = &options.ring {
        println!("  calls of the ring: {:?} done and left to threads", ring.counts());
    }
    println!("  reopen {:.0} ms, index {} KiB", t.elapsed().as_secs_f64() * 1e3, d.stats().index_bytes >> 10);
}

fn main() {
    let mut folders = Vec::new();
    let mut ops = 50_000;
    let mut only = String::new();
    let mut counts = vec![1, 4];
    let (mut by_ring, mut spread) = (false, false);
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        if a == "--ops" {
            ops = args.next().and_then(|n| n.parse().ok()).unwrap_or(ops);
        } else if a == "--only" {
            only = args.next().unwrap_or_default();
        } else if a == "--ring" {
            by_ring = true;
        } else if a == "--spread" {
            spread = true;
        } else if a == "--writers" {
            let n = args.next().and_then(|n| n.parse().ok()).unwrap_or(8);
            WRITERS.store(n, Ordering::Relaxed);
        } else if a == "--drives" {
            counts = vec![args.next().and_then(|n| n.parse().ok()).unwrap_or(1)];
        } else {
            folders.push(a);
        }
    }
    if folders.is_empty() {
        folders = vec!["/dev/shm".into(), ".".into()];
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    for f in folders.chunks(if spread { folders.len() } else { 1 }) {
        for count in &counts {
            runtime.block_on(measure(f, *count, ops, &only, by_ring));
        }
    }
}
