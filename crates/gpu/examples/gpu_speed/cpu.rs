//! The CPU with its fastest kernel, on 1 to 16 cores, from memory; and the CPU time of this process.

use ashlar_gpu::Shape;
use ashlar_gpu::crossover::on_cpu;
use serde_json::json;

use crate::{CODES, ROW, Run, computations, rate, show, value};

pub fn run(run: &mut Run, cores: usize) {
    println!("GiB/s of data on so many threads, each with memory of its own");
    for (k, m) in CODES {
        for (name, computation) in computations(k, m) {
            let mut line = format!("{:<18}", format!("{name} {k}+{m}"));
            for threads in [1, 2, 4, 8, 16].into_iter().filter(|&threads| threads <= cores) {
                let shape = Shape { row: ROW, stripes: (1 << 20) / (k * ROW) + 1 };
                let seconds = on_cpu(&computation, shape, threads, run.repetitions, run.time);
                let Some(seconds) = run.attempt("cpu", seconds) else { continue };
                let rate = rate(shape.stripes * k * ROW, seconds);
                line.push_str(&format!("  {threads}: {}", show(rate)));
                run.record("cpu", json!({ "code": format!("{k}+{m}"), "what": name, "threads": threads, "gib_s": value(rate) }));
            }
            println!("{line}");
        }
    }
}

/// The CPU's name.
pub fn name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(": ")).map_or("unknown".to_owned(), |(_, name)| name.to_owned())
}

/// Seconds of CPU that all threads of this process have used; none where the kernel does not tell.
pub fn used() -> Option<f64> {
    let mut sum = 0.0;
    for thread in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        sum += text.split_whitespace().next()?.parse::<f64>().ok()? / 1e9;
    }
    (sum > 0.0).then_some(sum)
}
