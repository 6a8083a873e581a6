//! Batches from memory of the host, to the device, and back: several slots in turn, one batch alone, and the CPU time
//! that a batch costs.
//!
//! `fixed` and `table` begin and end in pinned memory; `copied` is the table kernel with copies from and to ordinary
//! memory, made by one thread.

use ashlar_gpu::crossover::Slots;
use ashlar_gpu::{Computation, Device, Error, Shape};

use super::session::{ROW, Session, rates, values};

/// Bytes of input of a batch, about.
const BATCH: usize = 8 << 20;

/// Slots in turn.
const SLOTS: usize = 8;

pub(super) fn run(session: &mut Session<'_>, device: &Device) {
    for (what, computation) in session.computations() {
        for label in ["fixed", "table", "copied"] {
            if session.stopped() {
                return;
            }
            let name = format!("staged {what} {label}");
            let result = one(session, device, &computation, label);
            if let Some(values) = session.attempt(&name, result) {
                session.phase(name, SLOTS, values);
            }
        }
    }
    let Some((what, computation)) = session.computations().into_iter().next() else { return };
    for batch in [1 << 20, 4 << 20, 16 << 20, 64 << 20] {
        for slots in [1, 2, 3, 4, 8] {
            if session.stopped() {
                return;
            }
            let name = format!("batches {what} {} MiB", batch >> 20);
            let result = size(session, device, &computation, batch, slots);
            if let Some(values) = session.attempt(&name, result) {
                session.phase(name, slots, values);
            }
        }
    }
}

fn one(
    session: &Session<'_>,
    device: &Device,
    computation: &Computation,
    label: &str,
) -> Result<Vec<(String, f64)>, Error> {
    let matrix = computation.matrix();
    let shape = Shape { row: ROW, stripes: (BATCH / (matrix.inputs() * ROW)).max(1) };
    let kernel = if label == "fixed" { device.fixed(matrix)? } else { device.table(matrix)? };
    let bytes = shape.bytes(matrix.inputs())?;
    let mut slots = Slots::new(device, &kernel, shape, SLOTS, label == "copied")?;
    let alone = slots.alone(session.repetitions().max(9))?;
    let mut all = rates(bytes, slots.in_turn(session.repetitions(), session.time())?);
    all.extend(values("alone_s", alone));
    // CPU time of all threads of this process, the driver's too, over many batches.
    let (before, batches) = (cpu_seconds(), slots.started());
    slots.in_turn(1, session.time())?;
    if let (Some(before), Some(after)) = (before, cpu_seconds()) {
        let batches = (slots.started() - batches) as f64;
        all.push(("cpu_s_per_batch".to_owned(), (after - before) / batches));
    }
    all.push(("batch_bytes".to_owned(), bytes as f64));
    Ok(all)
}

/// CPU seconds of all threads of this process, in nanoseconds where `cost` has hundredths; none where the kernel does
/// not tell.
fn cpu_seconds() -> Option<f64> {
    let mut sum = 0.0;
    for thread in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        sum += text.split_whitespace().next()?.parse::<f64>().ok()? / 1e9;
    }
    (sum > 0.0).then_some(sum)
}

fn size(
    session: &Session<'_>,
    device: &Device,
    computation: &Computation,
    batch: usize,
    slots: usize,
) -> Result<Vec<(String, f64)>, Error> {
    let matrix = computation.matrix();
    let shape = Shape { row: ROW, stripes: (batch / (matrix.inputs() * ROW)).max(1) };
    let kernel = device.table(matrix)?;
    let bytes = shape.bytes(matrix.inputs())?;
    let mut slots = Slots::new(device, &kernel, shape, slots, false)?;
    Ok(rates(bytes, slots.in_turn(3, session.time() / 2)?))
}
