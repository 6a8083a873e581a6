//! Kernels in device memory: which plan is the fastest, and how near it is to a copy within the device.

use ashlar_gpu::crossover::{Spread, noise};
use ashlar_gpu::{Buffer, Computation, Device, Doubling, Error, Kernel, Plan, Shape};
use serde_json::json;

use crate::{CODES, GIB, ROW, Run, computations, rate, show, value};

/// Bytes of input, about: many times the cache of the device.
const BYTES: usize = 1 << 30;

/// Random bytes that fill the input in pieces.
const PIECE: usize = 64 << 20;

pub fn run(run: &mut Run, device: &Device) {
    let buffers = fill(device);
    let Some((from, mut to)) = run.attempt("memory of the device", buffers) else { return };
    println!("{:<18} {:<26} {:>26}   moved", "code", "kernel", "GiB/s of data");
    for (k, m) in CODES {
        for (name, computation) in computations(k, m) {
            let mut best: Option<(String, Spread)> = None;
            for (label, kernel) in kernels(run, device, &computation) {
                let what = format!("{name} {k}+{m} {label}");
                let Some(kernel) = run.attempt(&what, kernel) else { continue };
                let shape = Shape { row: ROW, stripes: BYTES / (k * ROW) };
                let seconds = time(device, &kernel, &from, &mut to, shape, run.repetitions);
                let Some(seconds) = run.attempt(&what, seconds) else { continue };
                let checked = verify(&computation, &from, &to, shape);
                if run.attempt(&what, checked) != Some(true) {
                    println!("DIFFERENT {what}");
                    run.failures += 1;
                }
                let data = shape.stripes * k * ROW;
                let rate = rate(data, seconds);
                let moved = rate.median * GIB / 1e12 * (k + m) as f64 / k as f64;
                println!(
                    "{:<18} {label:<26} {:>26}   {moved:.2} TB/s",
                    format!("{name} {k}+{m}"),
                    show(rate)
                );
                run.record("device", json!({ "code": format!("{k}+{m}"), "what": name, "kernel": label, "gib_s": value(rate), "moved_tb_s": moved }));
                if best.as_ref().is_none_or(|(_, b)| rate.median > b.median) {
                    best = Some((label, rate));
                }
            }
            if let Some((label, rate)) = best {
                println!("{:<18} fastest: {label}, {} GiB/s", format!("{name} {k}+{m}"), show(rate));
            }
        }
    }
}

/// A gibibyte of random rows, and room for as many output rows as a code of the list makes.
fn fill(device: &Device) -> Result<(Buffer, Buffer), Error> {
    let (mut from, to) = (device.buffer(BYTES)?, device.buffer(BYTES)?);
    let noise = noise(PIECE + 4096, 3);
    for at in 0..BYTES / PIECE {
        // Each piece begins elsewhere, so that no two are alike.
        from.write(at * PIECE, &noise[at * 16..at * 16 + PIECE])?;
    }
    Ok((from, to))
}

type Labelled = (String, Result<Kernel, Error>);

/// The kernels to time, compiled on several threads.
fn kernels(run: &Run, device: &Device, computation: &Computation) -> Vec<Labelled> {
    let matrix = computation.matrix();
    let mut plans = Vec::new();
    for doubling in Doubling::ALL {
        for group in if run.sweep { vec![1, 3, 4, 5] } else { vec![4] } {
            for words in [1, 2, 4] {
                plans.push(Plan { doubling, group, words });
            }
        }
    }
    if !run.sweep {
        plans.retain(|plan| plan.doubling != Doubling::ShiftProduct);
        plans.push(Plan { doubling: Doubling::HighProduct, group: 1, words: 2 });
    }
    std::thread::scope(|scope| {
        let all: Vec<_> = plans
            .iter()
            .map(|plan| {
                let label = format!("fixed {} g{} w{}", plan.doubling.name(), plan.group, plan.words);
                (label, scope.spawn(|| device.fixed(matrix, *plan)))
            })
            .collect();
        let mut made: Vec<Labelled> = all
            .into_iter()
            .map(|(label, thread)| (label, thread.join().expect("compiling does not panic")))
            .collect();
        made.push(("table".to_owned(), device.table(matrix)));
        made
    })
}

/// Seconds for a launch.
fn time(
    device: &Device,
    kernel: &Kernel,
    from: &Buffer,
    to: &mut Buffer,
    shape: Shape,
    repetitions: usize,
) -> Result<Spread, Error> {
    let stream = device.stream()?;
    let (start, end) = (device.event()?, device.event()?);
    let mut figures = Vec::new();
    for repetition in 0..repetitions.max(5) + 3 {
        stream.record(&start)?;
        kernel.launch(&stream, from, to, shape)?;
        stream.record(&end)?;
        end.wait()?;
        if repetition > 2 {
            figures.push(end.since(&start)?);
        }
    }
    Ok(Spread::of(figures))
}

/// Whether the first and the last stripe are what the CPU makes of them.
fn verify(computation: &Computation, from: &Buffer, to: &Buffer, shape: Shape) -> Result<bool, Error> {
    let one = Shape { row: shape.row, stripes: 1 };
    let (inputs, outputs) =
        (one.bytes(computation.matrix().inputs())?, one.bytes(computation.matrix().outputs())?);
    for stripe in [0, shape.stripes - 1] {
        let (mut input, mut made) = (vec![0; inputs], vec![0; outputs]);
        from.read(stripe * inputs, &mut input)?;
        to.read(stripe * outputs, &mut made)?;
        let mut expected = vec![0; outputs];
        computation.on_cpu(&input, &mut expected, one)?;
        if made != expected {
            return Ok(false);
        }
    }
    Ok(true)
}
