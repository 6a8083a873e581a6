//! What placement groups cost: a LIST page of 1,000 keys, and a node without work, over 4 drives (2+2).
//!
//! `cargo run --release -p ashlar-object --example groups_cost [folder] [groups ...]` makes a store for each number of
//! groups (1, 64 and 256), each with 20,000 objects of 100 bytes. It lists pages in turns, a page of each store after
//! another, so that a noisy machine disturbs all alike, and prints mean and median time and processor time of a page.
//! Then it opens each store alone and prints processor time in a second without requests, and the resident memory.
//! Default folder: `/dev/shm`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_cluster::{Embedded, FileMedium, Map, Medium};
use ashlar_drive::Drive;
use ashlar_erasure_set::{Code, Group, Layout, Sets};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::{BufferPool, Folder};
use ashlar_object::*;
use bytes::Bytes;

const DEPLOYMENT: DeploymentId = DeploymentId([7; 16]);
const OBJECTS: usize = 20_000;
/// Pages in one turn of a store: many enough for the 10 ms of processor time.
const RUN: usize = 20;
const TURNS: usize = 20;
const IDLE: Duration = Duration::from_secs(20);

type Fallible<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// User and system time of this process, in microseconds, from the counters of the scheduler.
fn cpu_us() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |path: PathBuf| std::fs::read_to_string(path).ok()?.split(' ').next()?.parse::<f64>().ok();
    tasks.filter_map(|t| of(t.path().join("schedstat"))).sum::<f64>() / 1000.0
}

/// Resident memory of this process, in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// A store over four drives in a folder.
struct Opened {
    store: Store,
    sets: Sets,
    drives: Vec<Drive>,
}

async fn open(folder: &Path, groups: usize) -> Fallible<Opened> {
    let made = !folder.exists();
    let buffers = BufferPool::new(1 << 30);
    let ids: Vec<(DriveId, PathBuf)> =
        (1..=4u8).map(|i| (DriveId([i; 16]), folder.join(format!("drive{i}")))).collect();
    let named: Vec<_> = ids.iter().map(|(d, p)| (*d, p.display().to_string(), 1 << 30)).collect();
    let map = Map::first(DEPLOYMENT, &named, None, Some(groups))?;
    let (mut drives, mut media) = (Vec::new(), Vec::new());
    for (id, path) in &ids {
        if made {
            std::fs::create_dir_all(path)?;
            let label = ashlar_drive::Label { deployment: DEPLOYMENT, drive: *id, created_ms: 1 };
            let votes: Vec<_> =
                map.groups_of(*id).into_iter().map(|g| (g, ashlar_drive::Role::Voter)).collect();
            ashlar_drive::format(path, &label, &votes)?;
        }
        media.push((*id, Arc::new(FileMedium::new(Folder::real(path, None))) as Arc<dyn Medium>));
        drives.push(Drive::open(path, &ashlar_drive::Options::new(buffers.clone()))?);
    }
    let control = if made {
        Embedded::create(DEPLOYMENT, media, Vec::new()).await?.control()
    } else {
        Embedded::open(DEPLOYMENT, media).await?.control()
    };
    let group = |g: &ashlar_cluster::Group| Group {
        id: g.id,
        epoch: g.epoch,
        slots: g.slots.iter().map(|s| s.drive).collect(),
    };
    let layout = Layout {
        epoch: map.epoch,
        code: Code { k: map.code().k, m: map.code().m },
        groups: map.groups.iter().map(group).collect(),
    };
    let sets = Sets::new(layout, drives.clone(), ashlar_erasure_set::Options::new(buffers))?;
    sets.start();
    let store = Store::open(sets.clone(), control, Options::default())?;
    Ok(Opened { store, sets, drives })
}

impl Opened {
    async fn fill(&self) -> Fallible<()> {
        self.store.create_bucket("bucket", &CreateBucket::default()).await?;
        let bucket = self.store.bucket("bucket")?;
        let body = Bytes::from(vec![7u8; 100]);
        for i in 0..OBJECTS {
            let mut put = self.store.put(&bucket, &format!("key/{i:08}"), PutSpec::new(100)).await?;
            put.write(body.clone()).await?;
            put.commit(VersionSpec::default(), &Conditions::NONE).await?;
        }
        Ok(())
    }

    async fn page(&self, number: usize) -> Fallible<()> {
        let after = format!("key/{:08}", number * 1000 % OBJECTS);
        let spec = ListSpec { start_after: &after, max_keys: 1000, ..ListSpec::default() };
        let page = self.store.list(&self.store.bucket("bucket")?, &spec).await?;
        assert!(page.entries.len() >= 999, "a page is full: {}", page.entries.len());
        Ok(())
    }

    async fn close(self) {
        self.sets.stop().await;
        for drive in self.drives {
            drive.close().await;
        }
    }
}

async fn run(base: &Path, counts: &[usize]) -> Fallible<()> {
    let folder = |groups: usize| base.join(format!("groups{groups}"));
    let mut stores = Vec::new();
    for groups in counts {
        let opened = open(&folder(*groups), *groups).await?;
        opened.fill().await?;
        stores.push((*groups, opened, Vec::new(), 0.0));
    }
    for turn in 0..TURNS {
        for (_, opened, times, cpu) in &mut stores {
            let before = cpu_us();
            for i in 0..RUN {
                let began = Instant::now();
                opened.page((turn * RUN + i) % (OBJECTS / 1000 - 1)).await?;
                times.push(began.elapsed().as_secs_f64() * 1e6);
            }
            *cpu += cpu_us() - before;
        }
    }
    for (groups, opened, mut times, cpu) in stores {
        times.sort_unstable_by(f64::total_cmp);
        let n = times.len() as f64;
        let (mean, median) = (times.iter().sum::<f64>() / n, times[times.len() / 2]);
        println!(
            "{groups:4} groups: a page {mean:6.0} us mean, {median:6.0} us median, {:6.0} CPU-us",
            cpu / n
        );
        opened.close().await;
    }
    for groups in counts {
        let opened = open(&folder(*groups), *groups).await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = cpu_us();
        tokio::time::sleep(IDLE).await;
        let idle = (cpu_us() - before) / IDLE.as_secs_f64();
        println!(
            "{groups:4} groups: without requests {idle:6.0} CPU-us a second, {:4.0} MiB resident",
            resident()
        );
        opened.close().await;
    }
    Ok(())
}

fn main() -> Fallible<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let base = PathBuf::from(args.first().map_or("/dev/shm", String::as_str));
    let counts: Vec<usize> = args.iter().skip(1).filter_map(|n| n.parse().ok()).collect();
    let counts = if counts.is_empty() { vec![1, 64, 256] } else { counts };
    let folder = base.join(format!("groups-cost-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(run(&folder, &counts));
    std::fs::remove_dir_all(&folder)?;
    done
}
