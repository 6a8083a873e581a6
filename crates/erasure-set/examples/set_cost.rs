//! Processor time of operations on this machine, over drives on a memory file system.
//!
//! `cargo run --release -p ashlar-erasure-set --example set_cost [k] [m] [clients] [filter]`
//!
//! Prints, per operation, wall time and user + system time of the whole process (drives' threads
//! included), from `/proc/self/stat`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use ashlar_drive::{Drive, Label, Options as DriveOptions, Role};
use ashlar_erasure_set::{Code, Decision, Group, Layout, Options, Sets};
use ashlar_format::{Body, BucketId, DeploymentId, DriveId, GroupId, Part, RegisterKey, Space, Version};
use ashlar_machine::BufferPool;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// User and system time of this process so far.
fn cpu() -> (Duration, Duration) {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let rest = stat.rsplit(')').next().unwrap_or("");
    let f: Vec<u64> = rest.split_whitespace().map(|w| w.parse().unwrap_or(0)).collect();
    // Fields 14 and 15 of the file; clock ticks of 10 ms.
    (Duration::from_millis(f[11] * 10), Duration::from_millis(f[12] * 10))
}

fn key(sets: &Sets, name: &str) -> RegisterKey {
    let bucket = BucketId([7; 16]);
    RegisterKey::new(sets.group_of(bucket, name.as_bytes()), Space::Object, bucket, name.as_bytes())
}

async fn put(sets: &Sets, name: &str, bytes: &Bytes) {
    let key = key(sets, name);
    let size = bytes.len() as u64;
    let mut w = sets.write(&key, size).await.expect("begin");
    for piece in bytes.chunks(256 << 10) {
        w.write(piece).await.expect("write");
    }
    let staged = w.finish().await.expect("finish");
    let data = staged.data();
    let decide = |_: Option<&ashlar_format::Record>| {
        let part = Part { number: 1, size, md5: [1; 16], checksum: None, modified_ms: 1, data };
        let meta = vec![("content-type".to_owned(), "application/octet-stream".to_owned())];
        let v = Version { size, parts: vec![part], meta, ..Version::default() };
        let summary = Bytes::copy_from_slice(&[5; 60]);
        Decision::Write { body: Body::Versions(vec![v]), summary, moved: false, out: () }
    };
    sets.update_register::<(), ()>(&key, &[&staged], decide).await.map_err(|_| ()).expect("put");
}

async fn get(sets: &Sets, name: &str) -> u64 {
    let key = key(sets, name);
    let r = sets.read_register(&key).await.expect("read").expect("there");
    let mut total = 0;
    for p in r.record.data() {
        let mut r = sets.read(&key, &p.data, p.size, 0..p.size).await.expect("open");
        while let Some(b) = r.next().await {
            total += b.expect("bytes").len() as u64;
        }
    }
    total
}

#[derive(Clone, Copy)]
enum What {
    Put,
    Overwrite,
    Get,
    Head,
}

async fn measure(sets: &Sets, label: &str, what: What, size: usize, clients: u64, span: Duration) {
    let body = Bytes::from(vec![0x5a; size]);
    let count = Arc::new(AtomicU64::new(0));
    let (began, (user, system)) = (Instant::now(), cpu());
    let tasks: Vec<_> = (0..clients)
        .map(|c| {
            let (sets, body, count) = (sets.clone(), body.clone(), count.clone());
            tokio::spawn(async move {
                let mut i = 0u64;
                while began.elapsed() < span {
                    let name = match what {
                        What::Put => format!("n{size}/{c}/{i}/{}", began.elapsed().as_nanos()),
                        _ => format!("o{size}/{c}/{}", i % 16),
                    };
                    match what {
                        What::Put | What::Overwrite => put(&sets, &name, &body).await,
                        What::Get => assert_eq!(get(&sets, &name).await, size as u64),
                        What::Head => {
                            let key = key(&sets, &name);
                            assert!(sets.read_register(&key).await.expect("head").is_some());
                        }
                    }
                    i += 1;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for t in tasks {
        t.await.expect("client");
    }
    let wall = began.elapsed();
    let (u, s) = cpu();
    let n = count.load(Ordering::Relaxed).max(1) as f64;
    let us = |d: Duration| d.as_secs_f64() * 1e6 / n;
    let (u, s) = (us(u - user), us(s - system));
    let rate = n / wall.as_secs_f64();
    let per_gib = if size >= 1 << 20 {
        format!(", {:.3} CPU-s per GiB", (u + s) / 1e6 * (1u64 << 30) as f64 / size as f64)
    } else {
        String::new()
    };
    println!("{label:<28} {rate:>9.0}/s   user {u:>8.2} us   sys {s:>8.2} us   per operation{per_gib}");
}

fn open(path: &Path, id: u8, pool: &BufferPool) -> Drive {
    std::fs::create_dir_all(path).expect("folder");
    let label = Label { deployment: DeploymentId([9; 16]), drive: DriveId([id; 16]), created_ms: 1 };
    ashlar_drive::format(path, &label, &[(GroupId::default(), Role::Voter)]).expect("format");
    let mut o = DriveOptions::new(pool.clone());
    o.reserve_bytes = 1 << 20;
    o.segment_bytes = 64 << 20;
    Drive::open(path, &o).expect("open")
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, or: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(or);
    let (k, m, clients) = (number(0, 2) as u8, number(1, 2) as u8, number(2, 8));
    let filter = args.get(3).cloned().unwrap_or_default();
    let root = Path::new("/dev/shm");
    let dir = tempfile::Builder::new().prefix("ashlar-set-cost").tempdir_in(root).expect("tmpfs");
    let pool = BufferPool::new(256 << 20);
    let n = k + m;
    let drives: Vec<Drive> = (0..n).map(|i| open(&dir.path().join(i.to_string()), i + 1, &pool)).collect();
    let slots = drives.iter().map(|d| d.label().drive).collect();
    let layout = Layout {
        epoch: 1,
        code: Code { k, m },
        groups: vec![Group { id: GroupId::default(), epoch: 1, slots }],
    };
    let sets = Sets::new(layout, drives.clone(), Options::new(pool)).expect("sets");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    runtime.block_on(async {
        sets.start();
        let span = Duration::from_secs(2);
        for size in [4 << 10, 64 << 10, 1 << 20, 16 << 20] {
            let clients = if size > 1 << 20 { clients.min(2) } else { clients };
            let name =
                if size >= 1 << 20 { format!("{} MiB", size >> 20) } else { format!("{} KiB", size >> 10) };
            let body = Bytes::from(vec![0x5a; size]);
            if !["HEAD", "GET", "overwrite", "PUT"]
                .iter()
                .any(|verb| format!("{k}+{m} {verb} {name}").contains(&filter))
            {
                continue;
            }
            for c in 0..clients {
                for i in 0..16 {
                    put(&sets, &format!("o{size}/{c}/{i}"), &body).await;
                }
            }
            for (verb, what) in
                [("HEAD", What::Head), ("GET", What::Get), ("overwrite", What::Overwrite), ("PUT", What::Put)]
            {
                let label = format!("{k}+{m} {verb} {name}");
                if (size > 4 << 10 && matches!(what, What::Head))
                    || (size > 64 << 10 && matches!(what, What::Put))
                    || !label.contains(&filter)
                {
                    continue;
                }
                measure(&sets, &label, what, size, clients, span).await;
            }
        }
        sets.stop().await;
        for d in &drives {
            let _ = tokio::time::timeout(Duration::from_secs(5), d.close()).await;
        }
    });
}
