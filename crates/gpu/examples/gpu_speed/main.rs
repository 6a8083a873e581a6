//! Measures erasure coding on a GPU against the CPU of the same machine, and checks the GPU's bytes.
//!
//! `gpu_speed [--quick] [--json FILE] [--only SECTION,...] [--sweep]`
//!
//! Sections, in this order, each independent of the others: `copy` (bandwidth of the bus and of the device memory, the
//! floor of everything else), `check` (every byte against the CPU), `device` (kernels in device memory), `staged` (from
//! pinned memory to pinned memory), `cpu` (1 to 16 cores, from memory), `crossover`. `--sweep` times every plan of the
//! fixed kernel. What fails is printed and the rest goes on; the exit status is 1 if anything failed, 2 without a device.
//! 1 GiB/s is 2^30 bytes of data rows a second, whatever is written.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures the machine, in real time"
)]

mod check;
mod copy;
mod cpu;
mod crossing;
mod resident;
mod staged;

use std::time::{Duration, Instant};

use ashlar_erasure::Code;
use ashlar_gpu::crossover::Spread;
use ashlar_gpu::{Computation, Device, Error};
use serde_json::{Value, json};

/// The codes to measure.
const CODES: [(usize, usize); 6] = [(7, 1), (8, 2), (8, 4), (12, 4), (14, 4), (20, 10)];

/// Bytes of a row.
const ROW: usize = 64 << 10;

const GIB: f64 = (1u64 << 30) as f64;

/// What was asked for, and what came of it.
struct Run {
    quick: bool,
    sweep: bool,
    repetitions: usize,
    time: Duration,
    records: Vec<Value>,
    failures: usize,
}

impl Run {
    /// Keeps a record for the JSON file.
    fn record(&mut self, section: &str, mut what: Value) {
        what["section"] = json!(section);
        self.records.push(what);
    }

    /// Prints and counts what failed.
    fn attempt<T>(&mut self, what: &str, result: Result<T, Error>) -> Option<T> {
        result
            .map_err(|e| {
                println!("FAILED {what}: {e}");
                self.failures += 1;
                self.records.push(json!({ "failed": what, "why": e.to_string() }));
            })
            .ok()
    }
}

/// Encoding, and reconstruction of the first `m` rows (at most `k`), for a code.
fn computations(k: usize, m: usize) -> Vec<(&'static str, Computation)> {
    let code = Code::new(k, m).expect("the codes of the list exist");
    let present: Vec<usize> = (m..k + m).collect();
    let lost: Vec<usize> = (0..m).collect();
    vec![
        ("encode", Computation::encode(&code).expect("it has parity rows")),
        ("reconstruct", Computation::reconstruct(&code, &present, &lost).expect("k rows are left")),
    ]
}

/// GiB/s of `bytes` in so many seconds.
fn rate(bytes: usize, seconds: Spread) -> Spread {
    seconds.map(|s| bytes as f64 / s / GIB)
}

fn show(spread: Spread) -> String {
    format!("{:.1} [{:.1}, {:.1}]", spread.median, spread.min, spread.max)
}

fn value(spread: Spread) -> Value {
    json!({ "min": spread.min, "median": spread.median, "max": spread.max })
}

/// Measures and prints one subject.
type Section = fn(&mut Run, &Device);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| arguments.iter().any(|a| a == name);
    let after =
        |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1)).cloned();
    let quick = flag("--quick");
    let mut run = Run {
        quick,
        sweep: flag("--sweep"),
        repetitions: if quick { 3 } else { 7 },
        time: Duration::from_millis(if quick { 60 } else { 150 }),
        records: Vec::new(),
        failures: 0,
    };
    let only = after("--only");
    let wanted = |section: &str| only.as_ref().is_none_or(|list| list.split(',').any(|s| s == section));
    let begin = Instant::now();
    let kernel = Code::new(8, 4).map_or_else(|e| e.to_string(), |code| code.kernel().to_string());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("CPU: {}, {cores} cores, erasure kernel {kernel}", cpu::name());
    run.record("machine", json!({ "cpu": cpu::name(), "cores": cores, "kernel": kernel }));

    let device = run.attempt("device", Device::open(0));
    if let Some(device) = &device {
        println!("GPU: {}", device.describe());
        run.record("machine", json!({ "gpu": device.describe() }));
        let sections: [(&str, Section); 4] =
            [("copy", copy::run), ("check", check::run), ("device", resident::run), ("staged", staged::run)];
        for (name, section) in sections {
            if wanted(name) {
                println!("\n== {name} (at {:.1} s)", begin.elapsed().as_secs_f64());
                section(&mut run, device);
            }
        }
    }
    if wanted("cpu") {
        println!("\n== cpu (at {:.1} s)", begin.elapsed().as_secs_f64());
        cpu::run(&mut run, cores);
    }
    if let Some(device) = &device
        && wanted("crossover")
    {
        println!("\n== crossover (at {:.1} s)", begin.elapsed().as_secs_f64());
        crossing::run(&mut run, device, cores);
    }
    println!("\n{} failures, {:.1} s", run.failures, begin.elapsed().as_secs_f64());
    if let Some(file) = after("--json") {
        let all = json!({ "quick": quick, "records": run.records });
        if let Err(e) = std::fs::write(&file, all.to_string()) {
            println!("FAILED {file}: {e}");
        }
    }
    let status = if device.is_none() { 2 } else { i32::from(run.failures > 0) };
    drop(device);
    std::process::exit(status);
}
