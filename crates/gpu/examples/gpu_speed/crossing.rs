//! From which size of batches the device is faster than the CPU.

use ashlar_gpu::Device;
use ashlar_gpu::crossover::{Crossover, Options, measure};
use serde_json::json;

use crate::{CODES, GIB, Run, computations, value};

pub fn run(run: &mut Run, device: &Device, cores: usize) {
    let codes: Vec<(usize, usize)> = if run.quick { vec![(8, 4)] } else { CODES.to_vec() };
    let powers = if run.quick { vec![21, 23, 25] } else { vec![21, 22, 23, 24, 25, 26] };
    let options = Options {
        sizes: powers.into_iter().map(|power| 1 << power).collect(),
        cores: [1, 2, 4, 8].into_iter().filter(|&c| c <= cores).collect(),
        repetitions: 3,
        time: run.time / 3,
        ..Options::default()
    };
    for (k, m) in codes {
        let all = computations(k, m);
        for (name, computation) in all.into_iter().take(if run.quick { 1 } else { 2 }) {
            for copied in [false, true] {
                let what = format!("{name} {k}+{m}{}", if copied { ", copied" } else { "" });
                let options = Options { copied, ..options.clone() };
                let found = device
                    .table(computation.matrix())
                    .and_then(|kernel| measure(device, &kernel, &computation, &options));
                if let Some(found) = run.attempt(&what, found) {
                    show(run, &what, &found, &options.cores);
                }
            }
        }
    }
}

fn show(run: &mut Run, what: &str, found: &Crossover, cores: &[usize]) {
    println!("{what}");
    for point in &found.points {
        let rate = |seconds: f64| point.bytes as f64 / seconds / GIB;
        let mut line = format!(
            "  {:>8} KiB: GPU {:.1} GiB/s in turn, {:.1} alone;",
            point.bytes >> 10,
            rate(point.device.median),
            rate(point.alone.median)
        );
        for (cores, cpu) in &point.cpu {
            line.push_str(&format!(" CPU x{cores} {:.1}", rate(cpu.median)));
        }
        println!("{line}");
        let cpu: Vec<_> =
            point.cpu.iter().map(|(c, s)| json!({ "cores": c, "seconds": value(*s) })).collect();
        run.record("crossover", json!({ "what": what, "bytes": point.bytes, "device": value(point.device), "alone": value(point.alone), "cpu": cpu }));
    }
    let words =
        |from: Option<usize>| from.map_or("never".to_owned(), |bytes| format!("from {} KiB", bytes >> 10));
    for &cores in cores {
        println!("  the GPU wins against {cores} cores: {}", words(found.from(cores)));
    }
    println!("  one batch alone against one core: {}", words(found.from_alone()));
}
