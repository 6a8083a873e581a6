//! One drive with many keys: `many_keys FOLDER [--keys N] [--steps N] [--writers N] [--reads N] [--cache MIB] [--minutes N] [--idle SECONDS]
//! [--strict] [--keep] [--count]`.
//!
//! A server over four drives, 2+2, keeps a record and a small shard of every object on each of them. This gives one drive the
//! operations that it gets for PUTs of one byte: PREPARE, ACCEPT with the shard in it, HINT, with summaries and records as
//! long as those of `ashlar bench s3 put`, and keys of 20 bytes. HTTP, the other drives and the erasure set are left out, and so are flushes unless
//! `--strict` is given. Many writers fill the batches of the journal, so that it has little padding.
//!
//! For each step it prints the rate, CPU (user + system) of the process and of the two threads of the drive, memory, and bytes of the
//! drive. After the first step and at the end it waits until the drive has nothing to merge and to compact, closes it, and
//! starts itself again to open it, to read random keys and pages, and to count all keys. Each answer is compared with what
//! was written.
//!
//! `--count`: this only, of a drive that an earlier run left with `--keep`. `--minutes`: no new step begins after them. `--idle`: the longest wait for merges and
//! compaction, in seconds. `--cache`: memory for recent changes (8 MiB). By hand only: 50,000,000 keys need some 60 GB.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use ashlar_drive::{Accept, Check, Drive, Inline, Label, Options, Prepared, Range, Role, Tally};
use ashlar_format::{Ballot, BucketId, DeploymentId, DriveId, GroupId, RegisterKey, Space, WriteId};
use ashlar_machine::BufferPool;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// That of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Placement groups of a server with four drives.
const GROUPS: u16 = 64;
const BUCKET: BucketId = BucketId([0xd7; 16]);
/// Bytes of a record and of a summary of an object of one byte, 2+2.
const RECORD: usize = 200;
const SUMMARY: usize = 32;
/// Keys of a page of a list.
const PAGE: usize = 1000;
/// Keys that the prefix of a key counts, as steps of `small_objects.py` do.
const PER_PREFIX: u64 = 5_000_000;

/// Spreads numbers; no two have the same result.
fn mix(i: u64) -> u64 {
    let a = (i ^ (i >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

fn key(i: u64) -> RegisterKey {
    let name = format!("{:03}/{:016x}", i / PER_PREFIX, mix(i));
    let group = GroupId::new(0, (mix(i ^ (1 << 40)) % u64::from(GROUPS)) as u16);
    RegisterKey::new(group, Space::Object, BUCKET, name.as_bytes())
}

fn id(i: u64) -> WriteId {
    let mut b = [0; 16];
    b[..8].copy_from_slice(&mix(i ^ (1 << 41)).to_be_bytes());
    b[8..].copy_from_slice(&mix(i ^ (1 << 42)).to_be_bytes());
    WriteId(b)
}

/// `length` bytes that begin with the number.
fn numbered(i: u64, length: usize) -> Bytes {
    let mut b = vec![0x3c; length];
    b[..8].copy_from_slice(&i.to_be_bytes());
    b.into()
}

fn number(b: &[u8]) -> u64 {
    u64::from_be_bytes(b[..8].try_into().expect("eight bytes"))
}

fn ballot(counter: u64) -> Ballot {
    Ballot { epoch: 0, counter, node: 1, nonce: 1 }
}

/// CPU seconds in a `stat` file of /proc.
fn cpu_of(path: &Path) -> f64 {
    let stat = std::fs::read_to_string(path).unwrap_or_default();
    let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace().skip(11);
    let mut next = || fields.next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    (next() + next()) / 100.0
}

/// CPU seconds of the process, of its maintenance thread and of its journal thread.
fn cpu() -> [f64; 3] {
    let mut all = [cpu_of(Path::new("/proc/self/stat")), 0.0, 0.0];
    for task in std::fs::read_dir("/proc/self/task").expect("proc").flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let at = usize::from(name.starts_with("maint")) + 2 * usize::from(name.starts_with("journal"));
        if at > 0 {
            all[at] += cpu_of(&task.path().join("stat"));
        }
    }
    all
}

/// Resident memory in MiB now, and at most since the last call.
fn memory() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let of = |what: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(what)).unwrap_or("");
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
    };
    let found = (of("VmRSS:"), of("VmHWM:"));
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    found
}

/// Bytes of the blocks of a folder's files, and the number of its index files.
fn allocated(folder: &Path) -> (u64, usize) {
    use std::os::unix::fs::MetadataExt;
    let (mut bytes, mut runs) = (0, 0);
    for file in std::fs::read_dir(folder).expect("folder").flatten() {
        bytes += file.metadata().map_or(0, |m| m.blocks() * 512);
        runs += usize::from(file.path().extension().is_some_and(|e| e == "run"));
    }
    (bytes, runs)
}

#[derive(Clone)]
struct Plan {
    folder: PathBuf,
    keys: u64,
    steps: u64,
    writers: u64,
    reads: u64,
    cache: usize,
    strict: bool,
    count: bool,
    keep: bool,
    idle: u64,
    minutes: u64,
}

impl Plan {
    fn drive(&self) -> PathBuf {
        self.folder.join("many-keys")
    }

    fn options(&self) -> Options {
        let mut options = Options::new(BufferPool::new(256 << 20));
        options.strict = self.strict;
        options.cache_bytes = self.cache;
        options
    }
}

/// What a PUT of one byte asks of the drive.
async fn put(drive: &Drive, i: u64, ballot: Ballot) {
    let key = key(i);
    match drive.prepare(&key, ballot).await.expect("prepare") {
        Prepared::Promised { accepted: None, .. } => {}
        other => panic!("key {i}: {other:?}"),
    }
    let inline = Inline { write_id: id(i), index: 0, data: Bytes::copy_from_slice(&[i as u8]) };
    let accept = Accept {
        key: key.clone(),
        ballot,
        epoch: u32::MAX,
        record: numbered(i, RECORD),
        summary: numbered(i, SUMMARY),
        inline: Some(inline),
    };
    let tally = Tally::new(1);
    drive.accept(accept, tally.completion(0));
    assert_eq!(tally.wait(1).await.ok, 1, "{:?}", tally.error());
    drive.hint(&key, ballot, u32::MAX);
}

/// Calls `f` for each number, by many tasks.
async fn each<F, Fut>(numbers: std::ops::Range<u64>, tasks: u64, f: F)
where
    F: Fn(u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (f, next) = (Arc::new(f), Arc::new(AtomicU64::new(numbers.start)));
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let (f, next) = (f.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= numbers.end {
                        break;
                    }
                    f(i).await;
                }
            })
        })
        .collect();
    for t in tasks {
        t.await.expect("task");
    }
}

/// A line of the table: since `before`, `ops` operations; the drive has `keys`.
fn row(plan: &Plan, drive: &Drive, what: &str, ops: u64, keys: u64, before: ([f64; 3], Instant)) {
    let (now, took) = (cpu(), before.1.elapsed().as_secs_f64());
    let [all, upkeep, journal] = [0, 1, 2].map(|n| (now[n] - before.0[n]) * 1e6 / ops as f64);
    let (rss, most) = memory();
    let (journal_bytes, _) = allocated(&plan.drive().join("journal"));
    let (index_bytes, runs) = allocated(&plan.drive().join("index"));
    let s = drive.stats();
    let per = |bytes: u64| bytes as f64 / keys as f64;
    println!(
        "| {what} | {:.0} | {all:.1} us | {upkeep:.1}, {journal:.1} us | {rss:.0}, {most:.0} MiB | {:.0} ({:.0} in use) | {:.0} | {runs} | {took:.1} s |",
        ops as f64 / took,
        per(journal_bytes),
        per(s.journal_live),
        per(index_bytes),
    );
}

/// Waits until nothing was merged, compacted or written for some seconds.
async fn settle(plan: &Plan, drive: &Drive) {
    let limit = Instant::now() + Duration::from_secs(plan.idle);
    let mut quiet = 0;
    let mut last = (0, 0, (0, 0));
    while quiet < 8 && Instant::now() < limit {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let s = drive.stats();
        let now = (s.writes, s.compacted, allocated(&plan.drive().join("index")));
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
    println!(
        "  waited for upkeep: {}, {} bytes of the journal moved since the start",
        if quiet < 8 { "it had not ended" } else { "ended" },
        drive.stats().compacted
    );
}

/// Runs this program again on the drive, which is closed.
fn again(plan: &Plan, keys: u64) {
    let status = std::process::Command::new(std::env::current_exe().expect("program"))
        .arg(&plan.folder)
        .args(["--count", "--keys", &keys.to_string(), "--reads", &plan.reads.to_string()])
        .args(["--idle", "0", "--cache", &(plan.cache >> 20).to_string()])
        .status();
    assert!(status.expect("program").success());
}

async fn fill(plan: &Plan) {
    std::fs::create_dir(plan.drive()).expect("a new folder");
    let label = Label { deployment: DeploymentId([1; 16]), drive: DriveId([1; 16]), created_ms: 0 };
    let groups: Vec<_> = (0..GROUPS).map(|g| (GroupId::new(0, g), Role::Voter)).collect();
    ashlar_drive::format(&plan.drive(), &label, &groups).expect("format");
    let mut drive = Drive::open(&plan.drive(), &plan.options()).expect("open");
    println!(
        "| Keys | per second | CPU each | of these upkeep, journal | Memory now, at most | Journal for each key | Index | its files | |\n|---|---|---|---|---|---|---|---|---|"
    );
    let began = Instant::now();
    for step in 0..plan.steps {
        let (from, to) = (plan.keys * step / plan.steps, plan.keys * (step + 1) / plan.steps);
        let before = (cpu(), Instant::now());
        let (d, floor) = (drive.clone(), drive.floor().counter + 1);
        each(from..to, plan.writers, move |i| {
            let d = d.clone();
            async move { put(&d, i, ballot(floor + i - from)).await }
        })
        .await;
        row(plan, &drive, &to.to_string(), to - from, to, before);
        let last = step + 1 == plan.steps || began.elapsed().as_secs() >= plan.minutes * 60;
        if step > 0 && !last {
            continue;
        }
        let before = (cpu(), Instant::now());
        settle(plan, &drive).await;
        row(plan, &drive, "settled", to - from, to, before);
        let before = (cpu(), Instant::now());
        drive.close().await;
        println!(
            "  close: {:.2} s, {:.2} s of CPU",
            before.1.elapsed().as_secs_f64(),
            cpu()[0] - before.0[0]
        );
        drop(drive);
        again(plan, to);
        if last {
            break;
        }
        drive = Drive::open(&plan.drive(), &plan.options()).expect("open");
        memory();
    }
    if !plan.keep {
        std::fs::remove_dir_all(plan.drive()).expect("remove");
    }
}

/// Prints CPU for each of `n` calls, and percentiles of their times in microseconds.
fn costs(what: &str, n: u64, before: f64, mut times: Vec<u64>) {
    times.sort_unstable();
    let at = |p: usize| times.get(times.len() * p / 100).copied().unwrap_or(0);
    let each = (cpu()[0] - before) * 1e6 / n as f64;
    println!("  {what}: CPU {each:.1} us each, p50 {} us, p99 {} us", at(50), at(99));
}

/// Ranges of all groups, from the same name on.
fn ranges(from: &[u8]) -> Vec<Range> {
    let bound = |group: u16, space: u8, rest: &[u8]| {
        let head = GroupId::new(0, group).to_bytes();
        [&head[..], &[space], &BUCKET.0, rest].concat()
    };
    (0..GROUPS).map(|g| Range { from: bound(g, 1, from), to: bound(g, 2, b""), epoch: u32::MAX }).collect()
}

async fn check(plan: &Plan) {
    let (base, _) = memory();
    let before = (cpu()[0], Instant::now());
    let drive = Drive::open(&plan.drive(), &plan.options()).expect("open");
    let took = before.1.elapsed().as_secs_f64();
    let (rss, most) = memory();
    println!(
        "  open: {took:.2} s, {:.2} s of CPU; memory {base:.0} MiB before, {rss:.0} after, {most:.0} at most, {:.2} bytes for each key",
        cpu()[0] - before.0,
        (rss - base) * (1 << 20) as f64 / plan.keys as f64
    );
    if plan.idle > 0 {
        settle(plan, &drive).await;
        println!(
            "  memory after that: {:?} MiB now, at most; {} index files",
            memory(),
            allocated(&plan.drive().join("index")).1
        );
    }
    let reads = plan.reads.max(1);
    for with_shard in [false, true] {
        let mut times = Vec::with_capacity(reads as usize);
        let mut waits = 0;
        let before = cpu()[0];
        for n in 0..reads {
            let i = mix(n ^ (u64::from(with_shard) << 50)) % plan.keys;
            let (k, began) = (key(i), Instant::now());
            let found = match drive.read_now(&k, true, u32::MAX) {
                Some(found) => found,
                None => {
                    waits += 1;
                    drive.read(&k, true, u32::MAX).await
                }
            };
            let seen = found.expect("read").accepted.unwrap_or_else(|| panic!("key {i} is lost"));
            assert_eq!(seen.record, Some(numbered(i, RECORD)), "key {i}");
            if with_shard {
                let shard = drive.open_shard(id(i), 0).await.expect("shard");
                assert_eq!(shard.read(0, Check::Drive).await.expect("frame")[..], [i as u8], "key {i}");
            }
            times.push(began.elapsed().as_micros() as u64);
        }
        let what = if with_shard { "record and shard" } else { "record" };
        costs(&format!("{reads} random reads of a {what} ({waits} waited)"), reads, before, times);
    }
    let missing = reads;
    let (before, mut times) = (cpu()[0], Vec::new());
    for n in 0..missing {
        let (k, began) = (key((1 << 45) + n), Instant::now());
        let found = drive.read(&k, true, u32::MAX).await.expect("read");
        assert!(found.accepted.is_none());
        times.push(began.elapsed().as_micros() as u64);
    }
    costs(&format!("{missing} reads of keys that are absent"), missing, before, times);
    let (before, mut times, mut pages) = (cpu()[0], Vec::new(), 0);
    for n in 0..20 {
        let mut from = key(mix(n ^ (1 << 51)) % plan.keys).key().to_vec();
        for _ in 0..10 {
            let began = Instant::now();
            let page = drive.scan_many(ranges(&from), None, PAGE).await.expect("scan");
            times.push(began.elapsed().as_micros() as u64);
            pages += 1;
            assert!(page.windows(2).all(|w| w[0].key.key() < w[1].key.key()), "in order");
            assert!(page.iter().all(|e| e.key == key(number(&e.summary)) && e.key.key() >= &from[..]));
            match page.last() {
                Some(last) if page.len() == PAGE => from = [last.key.key(), b"\0"].concat(),
                _ => break,
            }
        }
    }
    costs(&format!("{pages} pages of {PAGE} keys, 10 in turn from random keys"), pages, before, times);
    println!("  memory after that: {:?} MiB now, at most", memory());
    let (before, mut found) = ((cpu()[0], Instant::now()), 0);
    for r in ranges(b"") {
        found += drive.range_digest(&r.from, &r.to, u32::MAX).await.expect("digest").0;
    }
    assert_eq!(found, plan.keys, "keys of the drive");
    println!(
        "  digest of all {found} keys: {:.1} s, CPU {:.2} us each; memory {:?} MiB now, at most",
        before.1.elapsed().as_secs_f64(),
        (cpu()[0] - before.0) * 1e6 / found as f64,
        memory()
    );
    drive.close().await;
}

fn main() {
    let mut plan = Plan {
        folder: ".".into(),
        keys: 50_000_000,
        steps: 10,
        writers: 256,
        reads: 100_000,
        cache: 8 << 20,
        strict: false,
        count: false,
        keep: false,
        idle: 300,
        minutes: 1_000,
    };
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = |what: &mut u64| *what = args.next().and_then(|n| n.parse().ok()).expect("a number");
        match a.as_str() {
            "--keys" => value(&mut plan.keys),
            "--steps" => value(&mut plan.steps),
            "--writers" => value(&mut plan.writers),
            "--reads" => value(&mut plan.reads),
            "--idle" => value(&mut plan.idle),
            "--minutes" => value(&mut plan.minutes),
            "--cache" => {
                let mut mib = 0;
                value(&mut mib);
                plan.cache = (mib as usize) << 20;
            }
            "--strict" => plan.strict = true,
            "--count" => plan.count = true,
            "--keep" => plan.keep = true,
            folder => plan.folder = folder.into(),
        }
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    runtime.block_on(async { if plan.count { check(&plan).await } else { fill(&plan).await } });
}
