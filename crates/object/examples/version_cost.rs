//! What a PUT costs on a key with many versions, over 4 drives (2+2) in memory file systems.
//!
//! `cargo run --release -p ashlar-object --example version_cost [folder] [versions] [head] [head bytes]` fills
//! one key with versions of 1 KiB; `head`, `head bytes`: what a record has at most. At 1, 10, 1,000, 10,000 and so
//! on up to `versions` (100,000) it measures in turns: PUTs to a key of so many versions (at 10: of 10 to 41, so
//! that every length of a head is among them), and first PUTs to new keys. It prints the mean and the median time
//! of both, processor time, and bytes written by the process (`/proc/self/io`); the moving of versions to pages is
//! part of all of them. Then it lists all versions, and finds and deletes the oldest. Default folder: `/dev/shm`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

#[path = "common/cpu.rs"]
mod cpu;
#[path = "common/store.rs"]
mod store;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ashlar_commit::version_list::Bounds;
use ashlar_object::*;
use bytes::Bytes;

use cpu::cpu_us;
use store::{Fallible, open};

/// Turns of each kind of PUT in one measurement.
const TURNS: u64 = 4;
/// PUTs of one turn: many enough for the work of the drives in the background to belong to them.
const RUN: u64 = 1200;
/// PUTs in a row to one key of 1,000 versions.
const ROW: u64 = 240;
/// So many lengths are between the shortest and the longest list at 10 versions.
const SPREAD: u64 = 32;
/// How long all threads are idle before their counters are read: a counter is exact when its thread waits. What is
/// done in the background ends meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// Bytes that this process has written.
fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|l| l.strip_prefix("wchar: "));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

async fn put(store: &Store, key: &str, body: &Bytes) -> Result<Option<VersionId>> {
    let bucket = store.bucket("bucket")?;
    let mut put = store.put(&bucket, key, PutSpec::new(body.len() as u64)).await?;
    put.write(body.clone()).await?;
    put.commit(VersionSpec::default(), &Conditions::NONE).await.map(|done| done.version_id)
}

/// What one kind of PUT took.
#[derive(Default)]
struct Cost {
    times: Vec<Duration>,
    cpu_us: f64,
    bytes: u64,
}

impl Cost {
    fn show(&mut self) -> String {
        self.times.sort_unstable();
        let n = self.times.len() as f64;
        let mean = self.times.iter().sum::<Duration>().as_secs_f64() * 1e6 / n;
        let median = self.times[self.times.len() / 2].as_secs_f64() * 1e6;
        let (cpu, bytes) = (self.cpu_us / n, self.bytes as f64 / n);
        format!("{mean:7.0} us mean, {median:5.0} us median, {cpu:5.0} CPU-us, {bytes:6.0} bytes")
    }
}

async fn measure(store: &Store, body: &Bytes, cost: &mut Cost, key: impl Fn(u64) -> String) -> Result<()> {
    tokio::time::sleep(PAUSE).await;
    let (cpu, bytes) = (cpu_us(), written());
    for i in 0..RUN {
        let began = Instant::now();
        put(store, &key(i), body).await?;
        cost.times.push(began.elapsed());
    }
    tokio::time::sleep(PAUSE).await;
    cost.cpu_us += cpu_us() - cpu;
    cost.bytes += written() - bytes;
    Ok(())
}

async fn run(store: &Store, versions: u64) -> Fallible<()> {
    let body = Bytes::from(vec![7u8; 1024]);
    let mut have = 0;
    let mut oldest = None;
    let mut at = 1;
    while at <= versions {
        while have < at {
            let id = put(store, "many", &body).await?;
            oldest = oldest.or(id);
            have += 1;
        }
        // New keys with few versions, so that their number stays as it is.
        let key = |turn: u64, i: u64| match at {
            1 | 10 => format!("few/{at}/{turn}/{i}"),
            1000 => format!("few/{at}/{turn}/{}", i / ROW),
            _ => "many".to_owned(),
        };
        for turn in 0..TURNS {
            let versions = |i: u64| match at {
                1 => 1,
                10 => at + i % SPREAD,
                1000 if i.is_multiple_of(ROW) => at,
                _ => 0,
            };
            for i in 0..RUN {
                for _ in 0..versions(i) {
                    put(store, &key(turn, i), &body).await?;
                }
            }
        }
        tokio::time::sleep(20 * PAUSE).await;
        let (mut many, mut first) = (Cost::default(), Cost::default());
        for turn in 0..TURNS {
            measure(store, &body, &mut first, |i| format!("first/{at}/{turn}/{i}")).await?;
            measure(store, &body, &mut many, |i| key(turn, i)).await?;
        }
        have += if at > 1000 { TURNS * RUN } else { 0 };
        println!("{at:7} versions: {}", many.show());
        println!("   a first one: {}", first.show());
        at *= if at == 10 { 100 } else { 10 };
    }
    let bucket = store.bucket("bucket")?;
    let timed = |what: &str, began: Instant, cpu: f64| {
        println!("{what}: {:.0} us, {:.0} CPU-us", began.elapsed().as_secs_f64() * 1e6, cpu_us() - cpu);
    };
    let (began, cpu) = (Instant::now(), cpu_us());
    let spec = VersionListSpec { prefix: "many", max_keys: 1000, ..VersionListSpec::default() };
    let mut page = store.list_versions(&bucket, &spec).await?;
    timed("the first 1,000 versions are listed", began, cpu);
    let (began, cpu, mut listed) = (Instant::now(), cpu_us(), page.entries.len() as u64);
    while page.truncated {
        let key_marker = page.next_key.unwrap_or_default();
        let spec = VersionListSpec { key_marker: &key_marker, version_marker: page.next_version, ..spec };
        page = store.list_versions(&bucket, &spec).await?;
        listed += page.entries.len() as u64;
    }
    timed(&format!("all {listed} are listed"), began, cpu);
    assert_eq!(listed, have, "every version is listed once");
    let (began, cpu) = (Instant::now(), cpu_us());
    store.get(&bucket, "many", oldest).await?;
    timed("the oldest is found", began, cpu);
    let (began, cpu) = (Instant::now(), cpu_us());
    store.delete(&bucket, "many", oldest, &Conditions::NONE).await?;
    timed("the oldest is deleted", began, cpu);
    Ok(())
}

fn main() -> Fallible<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let base = PathBuf::from(args.first().map_or("/dev/shm", String::as_str));
    let versions = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let bound = |at: usize, usual| args.get(at).and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (head, head_bytes) = (bound(2, Bounds::STANDARD.head), bound(3, Bounds::STANDARD.head_bytes));
    let folder = tempfile::tempdir_in(base)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let version_bounds = Bounds { head, head_bytes, ..Bounds::STANDARD };
        let opened = open(folder.path(), 1, Options { version_bounds, ..Options::default() }).await?;
        let store = &opened.store;
        store.create_bucket("bucket", &CreateBucket::default()).await?;
        store.set_versioning(&store.bucket("bucket")?, Versioning::Enabled).await?;
        let done = run(store, versions).await;
        opened.close().await;
        done
    })
}
