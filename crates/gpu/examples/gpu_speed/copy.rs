//! Bandwidth of the bus in each direction, in both at once, and of the device memory: the floor of the other sections.

use std::time::Instant;

use ashlar_gpu::crossover::{Spread, noise};
use ashlar_gpu::{Device, Error};
use serde_json::json;

use crate::{GIB, Run, rate, show, value};

const BYTES: usize = 256 << 20;

pub fn run(run: &mut Run, device: &Device) {
    let repetitions = run.repetitions;
    for (name, result) in [
        ("host to device", one(device, repetitions, true, false)),
        ("device to host", one(device, repetitions, false, true)),
        ("both at once, each", one(device, repetitions, true, true)),
    ] {
        if let Some(seconds) = run.attempt(name, result) {
            let rate = rate(BYTES, seconds);
            println!("{name:<22} {} GiB/s ({:.1} GB/s)", show(rate), rate.median * GIB / 1e9);
            run.record("copy", json!({ "what": name, "gib_s": value(rate) }));
        }
    }
    let result = within(device, repetitions);
    if let Some(seconds) = run.attempt("within the device", result) {
        // Each byte is read and written.
        let rate = rate(2 * 4 * BYTES, seconds);
        println!(
            "{:<22} {} GiB/s read and written ({:.2} TB/s)",
            "within the device",
            show(rate),
            rate.median * GIB / 1e12
        );
        run.record("copy", json!({ "what": "within the device, read and written", "gib_s": value(rate) }));
    }
}

/// Seconds for `BYTES` bytes to the device, from it, or both, by a thread for each.
fn one(device: &Device, repetitions: usize, up: bool, down: bool) -> Result<Spread, Error> {
    let noise = noise(BYTES, 1);
    let mut figures = Vec::new();
    let (mut to, from) = (device.buffer(BYTES)?, device.buffer(BYTES)?);
    let (mut source, mut target) = (device.pinned(BYTES)?, device.pinned(BYTES)?);
    source.bytes_mut().copy_from_slice(&noise);
    for repetition in 0..=repetitions {
        let start = Instant::now();
        std::thread::scope(|scope| -> Result<(), Error> {
            let upload = up.then(|| scope.spawn(|| to.write(0, source.bytes())));
            let download = down.then(|| scope.spawn(|| from.read(0, target.bytes_mut())));
            for thread in [upload, download].into_iter().flatten() {
                thread.join().expect("a copy does not panic")?;
            }
            Ok(())
        })?;
        if repetition > 0 {
            figures.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(Spread::of(figures))
}

/// Seconds for a copy of four times `BYTES` bytes within the device.
fn within(device: &Device, repetitions: usize) -> Result<Spread, Error> {
    let (from, mut to) = (device.buffer(4 * BYTES)?, device.buffer(4 * BYTES)?);
    let stream = device.stream()?;
    let (start, end) = (device.event()?, device.event()?);
    let mut figures = Vec::new();
    for repetition in 0..repetitions.max(5) + 2 {
        stream.record(&start)?;
        stream.copy(&from, &mut to, 4 * BYTES)?;
        stream.record(&end)?;
        end.wait()?;
        if repetition > 1 {
            figures.push(end.since(&start)?);
        }
    }
    Ok(Spread::of(figures))
}
