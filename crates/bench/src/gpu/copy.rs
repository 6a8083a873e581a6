//! Bandwidth of the bus in each direction, in both at once, and of the device memory.

use std::time::Instant;

use ashlar_gpu::crossover::{Spread, noise};
use ashlar_gpu::{Device, Error};

use super::session::{Session, rates};

const BYTES: usize = 256 << 20;

pub(super) fn run(session: &mut Session<'_>, device: &Device) {
    let repetitions = session.repetitions();
    for (name, up, down) in [
        ("copy to the device", true, false),
        ("copy from the device", false, true),
        ("copy both ways at once, each", true, true),
    ] {
        if session.stopped() {
            return;
        }
        if let Some(seconds) = session.attempt(name, over_the_bus(device, repetitions, up, down)) {
            session.phase(name.to_owned(), 1, rates(BYTES, seconds));
        }
    }
    let name = "copy within the device, read and written";
    if let Some(seconds) = session.attempt(name, within(device, repetitions)) {
        // Each byte is read and written.
        session.phase(name.to_owned(), 1, rates(2 * 4 * BYTES, seconds));
    }
}

/// Seconds for `BYTES` bytes to the device, from it, or both, by a thread for each.
fn over_the_bus(device: &Device, repetitions: usize, up: bool, down: bool) -> Result<Spread, Error> {
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
