//! What placement groups cost: a LIST page of 1,000 keys, and a node without work, over 4 drives (2+2).
//!
//! `cargo run --release -p ashlar-object --example groups_cost [folder] [groups ...]` makes a store for each number of
//! groups (1, 64 and 256), each with 20,000 objects of 100 bytes. It lists pages in turns, a page of each store after
//! another, so that a noisy machine disturbs all alike, and prints mean and median time and processor time of a page.
//! Then it opens each store alone and prints processor time in a second without requests, and the resident memory.
//! Default folder: `/dev/shm`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

#[path = "common/cpu.rs"]
mod cpu;
#[path = "common/store.rs"]
mod store;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ashlar_object::*;
use bytes::Bytes;

use cpu::cpu_us;
use store::{Fallible, open};

const OBJECTS: usize = 20_000;
/// Pages in one turn of a store: many enough for the 10 ms of processor time.
const RUN: usize = 20;
const TURNS: usize = 20;
/// Processor time in a second of stores that have nothing to do, in us.
const QUIET: f64 = 40_000.0;
const IDLE: Duration = Duration::from_secs(20);

/// Resident memory of this process, in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

async fn fill(store: &Store) -> Fallible<()> {
    store.create_bucket("bucket", &CreateBucket::default()).await?;
    let bucket = store.bucket("bucket")?;
    let body = Bytes::from(vec![7u8; 100]);
    for i in 0..OBJECTS {
        let mut put = store.put(&bucket, &format!("key/{i:08}"), PutSpec::new(100)).await?;
        put.write(body.clone()).await?;
        put.commit(VersionSpec::default(), &Conditions::NONE).await?;
    }
    Ok(())
}

/// Waits until the first look over all registers has ended, which begins soon after a store is opened: until the
/// process needs little for fifteen seconds, at most five minutes.
async fn quiet() {
    let mut calm = 0;
    for _ in 0..60 {
        let before = cpu_us();
        tokio::time::sleep(Duration::from_secs(5)).await;
        calm = if cpu_us() - before < 5.0 * QUIET { calm + 1 } else { 0 };
        if calm == 3 {
            return;
        }
    }
    println!("   the process did not become quiet");
}

async fn page(store: &Store, number: usize) -> Fallible<()> {
    let after = format!("key/{:08}", number * 1000 % OBJECTS);
    let spec = ListSpec { start_after: &after, max_keys: 1000, ..ListSpec::default() };
    let page = store.list(&store.bucket("bucket")?, &spec).await?;
    assert!(page.entries.len() >= 999, "a page is full: {}", page.entries.len());
    Ok(())
}

async fn run(base: &Path, counts: &[usize]) -> Fallible<()> {
    let folder = |groups: usize| base.join(format!("groups{groups}"));
    let mut stores = Vec::new();
    for groups in counts {
        let opened = open(&folder(*groups), *groups, Options::default()).await?;
        fill(&opened.store).await?;
        stores.push((*groups, opened, Vec::new(), 0.0));
    }
    quiet().await;
    for turn in 0..TURNS {
        for (_, opened, times, cpu) in &mut stores {
            let before = cpu_us();
            for i in 0..RUN {
                let began = Instant::now();
                page(&opened.store, (turn * RUN + i) % (OBJECTS / 1000 - 1)).await?;
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
        let opened = open(&folder(*groups), *groups, Options::default()).await?;
        quiet().await;
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
    let folder = tempfile::tempdir_in(base)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(folder.path(), &counts))
}
