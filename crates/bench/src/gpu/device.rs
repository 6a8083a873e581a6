//! Kernels on rows in memory of the device, and how long compiling them took.

use std::time::Instant;

use ashlar_gpu::crossover::{Spread, noise};
use ashlar_gpu::{Buffer, Computation, Device, Error, Kernel, Shape};

use super::session::{ROW, Session, rate, values};

/// Bytes of input, about: many times the cache of the device.
const BYTES: usize = 1 << 30;

/// Random bytes that fill the input in pieces.
const PIECE: usize = 64 << 20;

pub(super) fn run(session: &mut Session<'_>, device: &Device) {
    let Some((from, mut to)) = session.attempt("memory of the device", fill(device)) else { return };
    for (what, computation) in session.computations() {
        for label in ["fixed", "table"] {
            if session.stopped() {
                return;
            }
            let name = format!("device {what} {label}");
            let result = one(session.repetitions(), device, &computation, label, &from, &mut to);
            let Some((right, values)) = session.attempt(&name, result) else { continue };
            session.phase(name.clone(), 1, values);
            if !right {
                session.wrong(&name);
            }
        }
    }
}

type Values = Vec<(String, f64)>;

/// Whether the bytes are right, and the values of a kernel.
fn one(
    repetitions: usize,
    device: &Device,
    computation: &Computation,
    label: &str,
    from: &Buffer,
    to: &mut Buffer,
) -> Result<(bool, Values), Error> {
    let matrix = computation.matrix();
    let start = Instant::now();
    let kernel = if label == "fixed" { device.fixed(matrix)? } else { device.table(matrix)? };
    let compiled = start.elapsed().as_secs_f64();
    let shape = Shape { row: ROW, stripes: BYTES / (matrix.inputs() * ROW) };
    let seconds = time(device, &kernel, from, to, shape, repetitions)?;
    let right = verify(computation, from, to, shape)?;
    let data = rate(shape.bytes(matrix.inputs())?, seconds);
    let moved = data.median * (matrix.inputs() + matrix.outputs()) as f64 / matrix.inputs() as f64;
    let mut all = values("bytes_per_s", data);
    all.push(("moved_bytes_per_s".to_owned(), moved));
    // A kernel that was known already took no time, which is not a time of compiling.
    if compiled > 1e-3 {
        all.push(("compile_s".to_owned(), compiled));
    }
    Ok((right, all))
}

/// A gibibyte of random rows, and room for as many output rows as a code makes.
fn fill(device: &Device) -> Result<(Buffer, Buffer), Error> {
    let (mut from, to) = (device.buffer(BYTES)?, device.buffer(BYTES)?);
    let noise = noise(PIECE + 4096, 3);
    for at in 0..BYTES / PIECE {
        // Each piece begins elsewhere, so that no two are alike.
        from.write(at * PIECE, &noise[at * 16..at * 16 + PIECE])?;
    }
    Ok((from, to))
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
