//! From which size of batches on a device is faster than the CPU: measured, not assumed.
//!
//! Per size of batch, three things are timed: batches in turn on a number of CPU cores, batches in turn on the device
//! over several slots (what counts for a rebuild, which has many), and one batch alone, from pinned memory to pinned
//! memory (what counts for one that somebody waits for). Where the rows are not in pinned memory anyway, they have to
//! be copied there and back by the CPU; [`Options::copied`] includes that.
//!
//! Invariants: the CPU's rows are not in its caches, as they would not be in a rebuild: buffers are larger. Every
//! figure is the middle of several repetitions, and the smallest and the largest are kept beside it.
//!
//! Must not depend on: what is decided with the figures.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures the machine, in real time"
)]

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::{Computation, Device, Error, Kernel, Shape, Slot};

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of a row: batches have as many stripes as fit.
    pub row: usize,
    /// Bytes of input of the batches, ascending.
    pub sizes: Vec<usize>,
    /// Numbers of CPU cores to compare with.
    pub cores: Vec<usize>,
    /// Slots in turn.
    pub slots: usize,
    /// Copy rows from ordinary memory to the slot and back, and count it.
    pub copied: bool,
    /// Repetitions of each measurement.
    pub repetitions: usize,
    /// About how long one repetition takes.
    pub time: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            row: 64 << 10,
            sizes: (18..=26).map(|power| 1 << power).collect(),
            cores: vec![1, 2, 4],
            slots: 4,
            copied: false,
            repetitions: 5,
            time: Duration::from_millis(40),
        }
    }
}

/// The smallest, middle and largest of several figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The middle.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of at least one figure. Panics if there is none.
    pub fn of(mut figures: Vec<f64>) -> Spread {
        figures.sort_by(f64::total_cmp);
        Spread { min: figures[0], median: figures[figures.len() / 2], max: figures[figures.len() - 1] }
    }

    /// Of a function of each figure that grows or falls with it.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Spread {
        Spread::of(vec![f(self.min), f(self.median), f(self.max)])
    }
}

/// The figures of one size.
#[derive(Debug, Clone)]
pub struct Point {
    /// Bytes of input of a batch.
    pub bytes: usize,
    /// Seconds per batch on so many cores.
    pub cpu: Vec<(usize, Spread)>,
    /// Seconds per batch on the device, in turn.
    pub device: Spread,
    /// Seconds for one batch alone on the device.
    pub alone: Spread,
}

/// The result.
#[derive(Debug, Clone)]
pub struct Crossover {
    /// By size, ascending.
    pub points: Vec<Point>,
}

impl Crossover {
    /// The smallest size from which on the device is faster with batches in turn than so many cores, at every larger
    /// size too; none if it is not at the largest size.
    pub fn from(&self, cores: usize) -> Option<usize> {
        self.first(|point| {
            let cpu = point.cpu.iter().find(|(c, _)| *c == cores);
            cpu.is_some_and(|(_, cpu)| point.device.median < cpu.median)
        })
    }

    /// The same for one batch that is waited for, against one core.
    pub fn from_alone(&self) -> Option<usize> {
        self.first(|point| {
            let cpu = point.cpu.iter().find(|(c, _)| *c == 1);
            cpu.is_some_and(|(_, cpu)| point.alone.median < cpu.median)
        })
    }

    fn first(&self, wins: impl Fn(&Point) -> bool) -> Option<usize> {
        self.points.iter().rev().take_while(|point| wins(point)).last().map(|point| point.bytes)
    }
}

/// Measures a computation on the CPU and, with `kernel`, on the device.
///
/// # Errors
/// [`Error::Shape`] if a size holds no stripe; [`Error::Memory`], [`Error::Driver`].
pub fn measure(
    device: &Device,
    kernel: &Kernel,
    computation: &Computation,
    options: &Options,
) -> Result<Crossover, Error> {
    let mut points = Vec::new();
    for &bytes in &options.sizes {
        let stripes = bytes / (computation.matrix().inputs() * options.row);
        if stripes == 0 {
            return Err(Error::Shape(format!("{bytes} bytes are less than a stripe")));
        }
        let shape = Shape { row: options.row, stripes };
        let mut cpu = Vec::new();
        for &cores in &options.cores {
            cpu.push((cores, on_cpu(computation, shape, cores, options.repetitions, options.time)?));
        }
        let mut slots = Slots::new(device, kernel, shape, options.slots, options.copied)?;
        let device = slots.in_turn(options.repetitions, options.time)?;
        let alone = slots.alone(options.repetitions.max(7))?;
        points.push(Point { bytes: shape.bytes(computation.matrix().inputs())?, cpu, device, alone });
    }
    Ok(Crossover { points })
}

/// Bytes of rows that all cores together go through before they come back to the first, and each of them at least:
/// more than caches hold.
const BEYOND_CACHE: (usize, usize) = (768 << 20, 96 << 20);

/// Seconds per batch when `cores` threads compute batches in turn, each on memory of its own.
///
/// # Errors
/// [`Error::Shape`] if the shape is impossible.
pub fn on_cpu(
    computation: &Computation,
    shape: Shape,
    cores: usize,
    repetitions: usize,
    time: Duration,
) -> Result<Spread, Error> {
    let (from, to) = sizes(computation, shape)?;
    let each = (BEYOND_CACHE.0 / cores.max(1)).max(BEYOND_CACHE.1);
    let batches = each.div_ceil(from + to).max(2);
    let pattern = noise(from, 5);
    let barrier = Barrier::new(cores + 1);
    let mut figures = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores)
            .map(|_| {
                scope.spawn(|| {
                    let mut memory: Vec<(Vec<u8>, Vec<u8>)> =
                        (0..batches).map(|_| (pattern.clone(), vec![1u8; to])).collect();
                    let mut at = 0;
                    (0..=repetitions)
                        .map(|_| {
                            barrier.wait();
                            let (start, mut done) = (Instant::now(), 0u32);
                            while start.elapsed() < time || done == 0 {
                                let (input, output) = &mut memory[at % batches];
                                computation.on_cpu(input, output, shape)?;
                                at += 1;
                                done += 1;
                            }
                            Ok(f64::from(done) / start.elapsed().as_secs_f64())
                        })
                        .collect::<Vec<Result<f64, Error>>>()
                })
            })
            .collect();
        for _ in 0..=repetitions {
            barrier.wait();
        }
        let rates: Vec<Vec<Result<f64, Error>>> =
            workers.into_iter().map(|worker| worker.join().expect("a measurement does not panic")).collect();
        // The first repetition only warms up.
        for turn in 1..=repetitions {
            let mut sum = 0.0;
            for worker in &rates {
                sum += worker[turn].clone()?;
            }
            figures.push(1.0 / sum);
        }
        Ok(Spread::of(figures))
    })
}

fn sizes(computation: &Computation, shape: Shape) -> Result<(usize, usize), Error> {
    Ok((shape.bytes(computation.matrix().inputs())?, shape.bytes(computation.matrix().outputs())?))
}

/// Bytes that do not repeat.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mixed = (state ^ (state >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bytes.extend_from_slice(&mixed.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Slots with their batches.
pub struct Slots<'a> {
    kernel: &'a Kernel,
    shape: Shape,
    slots: Vec<Slot>,
    /// Ordinary memory that rows are copied from and to.
    copied: Option<(Vec<u8>, Vec<u8>)>,
    started: u64,
}

impl Slots<'_> {
    /// `count` slots, with random rows in them.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Memory`], [`Error::Driver`].
    pub fn new<'a>(
        device: &Device,
        kernel: &'a Kernel,
        shape: Shape,
        count: usize,
        copied: bool,
    ) -> Result<Slots<'a>, Error> {
        let (from, to) = (shape.bytes(kernel.inputs())?, shape.bytes(kernel.outputs())?);
        let mut slots = Vec::new();
        for at in 0..count.max(1) {
            let mut slot = Slot::new(device, from, to)?;
            slot.input()?.copy_from_slice(&noise(from, at as u64));
            slots.push(slot);
        }
        let copied = copied.then(|| (noise(from, 99), vec![1u8; to]));
        Ok(Slots { kernel, shape, slots, copied, started: 0 })
    }

    /// Batches that were started so far.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Starts a batch in slot `at`, after the one before it there is done.
    fn turn(&mut self, at: usize) -> Result<(), Error> {
        let slot = &mut self.slots[at];
        if let Some((input, output)) = &mut self.copied {
            output.copy_from_slice(slot.output()?);
            slot.input()?.copy_from_slice(input);
        }
        self.started += 1;
        slot.start(self.kernel, self.shape)
    }

    fn drain(&mut self) -> Result<(), Error> {
        self.slots.iter_mut().try_for_each(Slot::wait)
    }

    /// Seconds per batch, with batches in all slots in turn.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn in_turn(&mut self, repetitions: usize, time: Duration) -> Result<Spread, Error> {
        let count = self.slots.len();
        let mut figures = Vec::new();
        for repetition in 0..=repetitions {
            let (start, mut done) = (Instant::now(), 0);
            while start.elapsed() < time || done < count {
                self.turn(done % count)?;
                done += 1;
            }
            self.drain()?;
            // The first repetition only warms up.
            if repetition > 0 {
                figures.push(start.elapsed().as_secs_f64() / done as f64);
            }
        }
        Ok(Spread::of(figures))
    }

    /// Seconds for one batch alone.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn alone(&mut self, repetitions: usize) -> Result<Spread, Error> {
        let mut figures = Vec::new();
        for repetition in 0..=repetitions {
            let start = Instant::now();
            self.turn(0)?;
            self.drain()?;
            if let Some((_, output)) = &mut self.copied {
                output.copy_from_slice(self.slots[0].output()?);
            }
            if repetition > 0 {
                figures.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(Spread::of(figures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_must_win_at_every_larger_size() {
        let one = |seconds: f64| Spread::of(vec![seconds]);
        let point = |bytes, cpu, device, alone| Point {
            bytes,
            cpu: vec![(1, one(cpu)), (4, one(cpu / 4.0))],
            device: one(device),
            alone: one(alone),
        };
        let points = vec![
            point(1, 1.0, 0.5, 9.0),
            point(2, 1.0, 2.0, 9.0),
            point(3, 1.0, 0.9, 9.0),
            point(4, 1.0, 0.2, 0.5),
        ];
        let crossover = Crossover { points };
        assert_eq!(crossover.from(1), Some(3));
        assert_eq!(crossover.from(4), Some(4));
        assert_eq!(crossover.from(2), None);
        assert_eq!(crossover.from_alone(), Some(4));
        assert_eq!(Crossover { points: crossover.points[..2].to_vec() }.from(1), None);
    }

    #[test]
    fn spreads_are_ordered() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
        assert_eq!(spread.map(|x| 6.0 / x).min, 2.0);
    }

    #[test]
    fn the_cpu_is_measured() {
        let code = ashlar_erasure::Code::new(2, 1).unwrap();
        let computation = Computation::encode(&code).unwrap();
        let shape = Shape { row: 4096, stripes: 2 };
        let spread = on_cpu(&computation, shape, 2, 1, Duration::from_millis(1)).unwrap();
        assert!(spread.min > 0.0);
    }
}
