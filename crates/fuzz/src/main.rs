//! Mutation fuzzing of every decoder of untrusted bytes (docs/proof.md, T18).
//!
//! `cargo run --release -p ashlar-fuzz [-- --seconds N] [--seed S] [TARGET...]`
//!
//! Every target starts from its seeds and from the inputs in `crates/fuzz/corpus/TARGET/`, which once caused
//! failures. A panic, a call of more than a second or one that allocates more than 64 times its input (and
//! more than [`SLACK`]) is a failure: the input is stored and the run ends with status 1. The fuzzer is not
//! coverage-guided, because that needs a nightly compiler; therefore it can run in every CI.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a simulation")]

mod alloc;
mod blocks;
mod documents;
mod journal;
mod mutate;
mod network;
mod target;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use target::Target;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// Bytes that a call may allocate regardless of its input: error texts, small tables.
const SLACK: usize = 64 << 10;
/// Targets with a higher limit: archives, whose formats have large windows and blocks regardless of the
/// input, filters of directories, which have parts of a few bytes and come from administrators, and blocks: what is
/// read from members has a fixed length, a part of a journal up to 768 KiB, a request of 28 bytes reads 16 KiB, and an NVMe
/// command asks for up to 1 MiB. A set-up is written by an operator, and has ranges (`{1...1024}`); so is a file of hosts, which the
/// target reads, writes and reads again. A device with files on it is in memory, with what is written to it.
const WINDOWS: [(&str, usize); 11] = [
    ("drive-on-device", 1 << 20),
    ("fabric-set-up", 4 << 20),
    ("archive", 20 << 20),
    ("ldap-name", 1 << 20),
    ("raid-superblock", 1 << 20),
    ("raid-journal-entry", 8 << 20),
    ("nbd-connection", 16 << 20),
    ("vhost-user-guest", 1 << 20),
    ("nvme-connection", 16 << 20),
    ("nvme-host-connection", 1 << 20),
    ("nvme-hosts", 1 << 20),
];
const MAX_CALL: Duration = Duration::from_secs(1);

struct Options {
    seconds: f64,
    seed: u64,
    only: Vec<String>,
}

fn options() -> Result<Options, String> {
    let mut o = Options { seconds: 5.0, seed: 1, only: Vec::new() };
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut number =
            || args.next().and_then(|v| v.parse::<f64>().ok()).ok_or(format!("{a} needs a number"));
        match a.as_str() {
            "--seconds" => o.seconds = number()?,
            "--seed" => o.seed = number()? as u64,
            name if !name.starts_with('-') => o.only.push(name.to_owned()),
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(o)
}

fn kept(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.sort();
    files.iter().filter_map(|p| std::fs::read(p).ok()).collect()
}

/// The time that this thread has had a processor.
fn processor_time() -> Result<Duration, String> {
    let file = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let nanos = text.split_whitespace().next().and_then(|n| n.parse().ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| format!("{file}: no number"))
}

/// Runs one input; `Err` describes the failure.
fn one(target: &Target, input: &[u8]) -> Result<(), String> {
    let begin = Instant::now();
    let (result, peak) = alloc::peak_of(|| catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok());
    if !result {
        return Err("it panicked".into());
    }
    if begin.elapsed() > MAX_CALL {
        // Other programs may have had the processor: once more, by processor time.
        let before = processor_time()?;
        let _ = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        let took = processor_time()?.saturating_sub(before);
        if took > MAX_CALL {
            return Err(format!("it took {took:?} of processor time"));
        }
    }
    let window = WINDOWS.iter().find(|(name, _)| *name == target.name).map_or(0, |(_, bytes)| *bytes);
    if peak > window + SLACK.max(64 * input.len()) {
        return Err(format!("it allocated {peak} bytes for {} bytes of input", input.len()));
    }
    Ok(())
}

fn fuzz(target: &Target, o: &Options) -> Result<u64, String> {
    let mut corpus = target.seeds.clone();
    corpus.extend(kept(target.name));
    let mut runs = 0;
    let report = |runs: u64, input: &[u8], why: String| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        let file = folder.join(format!("failed-{}-{}", o.seed, runs));
        let _ = std::fs::create_dir_all(&folder);
        let _ = std::fs::write(&file, input);
        format!("{}: {why}; the input is kept in {}", target.name, file.display())
    };
    for input in &corpus {
        one(target, input).map_err(|why| report(0, input, why))?;
    }
    let mut random = mutate::Random(o.seed);
    let end = Instant::now() + Duration::from_secs_f64(o.seconds);
    while Instant::now() < end {
        for _ in 0..64 {
            let input = mutate::mutate(&mut random, &corpus, target.tokens);
            one(target, &input).map_err(|why| report(runs, &input, why))?;
            runs += 1;
        }
    }
    Ok(runs)
}

fn main() -> std::process::ExitCode {
    let o = match options() {
        Ok(o) => o,
        Err(e) => {
            eprintln!("ashlar-fuzz: {e}");
            return 2.into();
        }
    };
    let all: Vec<Target> = targets::all()
        .into_iter()
        .filter(|t| o.only.is_empty() || o.only.iter().any(|n| n == t.name))
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failed = std::sync::atomic::AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(t) = all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    match fuzz(t, &o) {
                        Ok(runs) => println!("{:<14} {runs:>10} inputs, seed {}: ok", t.name, o.seed),
                        Err(e) => {
                            failed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            println!("FAILED {e}");
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!("{} passed, {failed} failed", all.len() - failed);
    u8::from(failed > 0).into()
}
