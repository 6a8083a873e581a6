//! Batches from pinned memory of the host, to the device, and back: several slots in turn, one batch alone, and the
//! CPU time that a batch costs.

use std::time::Duration;

use ashlar_gpu::crossover::Slots;
use ashlar_gpu::{Computation, Device, Error, Plan, Shape};
use serde_json::json;

use crate::{CODES, ROW, Run, computations, cpu, rate, show, value};

/// Bytes of input of a batch, about.
const BATCH: usize = 8 << 20;

pub fn run(run: &mut Run, device: &Device) {
    println!("batches of 8 MiB, 8 slots; 'copied': with copies from and to ordinary memory by one thread");
    println!(
        "{:<18} {:<8} {:>24} {:>22} {:>16}",
        "code", "kernel", "in turn, GiB/s", "alone, us", "CPU us/batch"
    );
    for (k, m) in CODES {
        for (name, computation) in computations(k, m) {
            for label in ["fixed", "table", "copied"] {
                let what = format!("staged {name} {k}+{m} {label}");
                let result = one(run, device, &computation, label);
                let _ = run
                    .attempt(&what, result.map(|line| println!("{:<18} {line}", format!("{name} {k}+{m}"))));
            }
        }
    }
    println!("slots and sizes, encode 8+4, table kernel: GiB/s in turn");
    let (_, computation) = computations(8, 4).swap_remove(0);
    for batch in [1 << 20, 4 << 20, 16 << 20, 64 << 20] {
        let mut line = format!("{:>4} MiB:", batch >> 20);
        for slots in [1, 2, 3, 4, 8] {
            let result = size(run, device, &computation, batch, slots);
            if let Some(rate) = run.attempt("staged sizes", result) {
                line.push_str(&format!("  {slots} slots {rate:.1}"));
                run.record("staged-sizes", json!({ "batch": batch, "slots": slots, "gib_s": rate }));
            }
        }
        println!("{line}");
    }
}

fn one(run: &mut Run, device: &Device, computation: &Computation, label: &str) -> Result<String, Error> {
    let matrix = computation.matrix();
    let shape = Shape { row: ROW, stripes: (BATCH / (matrix.inputs() * ROW)).max(1) };
    let kernel =
        if label == "fixed" { device.fixed(matrix, Plan::of(matrix))? } else { device.table(matrix)? };
    let bytes = shape.bytes(matrix.inputs())?;
    let mut slots = Slots::new(device, &kernel, shape, 8, label == "copied")?;
    let alone = slots.alone(run.repetitions.max(9))?;
    let in_turn = rate(bytes, slots.in_turn(run.repetitions, run.time)?);
    // CPU time of all threads of this process, the driver's too, over many batches.
    let before = cpu::used();
    let time = Duration::from_millis(120);
    let seconds = slots.in_turn(1, time)?.median;
    // `in_turn` runs once more, to warm up.
    let batches = 2.0 * time.as_secs_f64() / seconds;
    let used = before.and_then(|before| Some((cpu::used()? - before) * 1e6 / batches));
    let microseconds = alone.map(|s| s * 1e6);
    let cost = used.map_or("-".to_owned(), |used| format!("{used:.1}"));
    run.record(
        "staged",
        json!({
            "code": format!("{}+{}", matrix.inputs(), matrix.outputs()),
            "inputs": computation.inputs(),
            "kernel": label,
            "bytes": bytes,
            "gib_s": value(in_turn),
            "alone_us": value(microseconds),
            "cpu_us": used,
        }),
    );
    Ok(format!("{label:<8} {:>24} {:>22} {cost:>16}", show(in_turn), show(microseconds)))
}

fn size(
    run: &Run,
    device: &Device,
    computation: &Computation,
    batch: usize,
    slots: usize,
) -> Result<f64, Error> {
    let matrix = computation.matrix();
    let shape = Shape { row: ROW, stripes: batch / (matrix.inputs() * ROW) };
    let kernel = device.table(matrix)?;
    let bytes = shape.bytes(matrix.inputs())?;
    let mut slots = Slots::new(device, &kernel, shape, slots, false)?;
    Ok(rate(bytes, slots.in_turn(3, run.time / 2)?).median)
}
