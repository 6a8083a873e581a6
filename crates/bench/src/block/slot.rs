//! One entry of a drive's queue: a thread that keeps one I/O in flight.
//!
//! Invariants: only I/O that completes within the common interval is counted; offsets, lengths and memory are
//! aligned; no I/O allocates or takes a lock.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use ashlar_bench_report::{random::Random, result::Point};
use ashlar_machine::Buf;
use hdrhistogram::Histogram;

use super::place::Handle;

/// I/O errors after which a thread gives up.
const MOST_ERRORS: u64 = 100;

/// Where the next I/O goes, and which way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// One after the other, reading.
    SequentialRead,
    /// One after the other, writing.
    SequentialWrite,
    /// Anywhere, so many per cent of them reading.
    Random {
        /// 0 to 100.
        read_percent: u8,
    },
}

/// The instants that all threads of a phase share.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// Start of the load.
    pub start: Instant,
    /// Start of what counts.
    pub from: Instant,
    /// End of what counts.
    pub to: Instant,
    /// Length of a timeline step in nanoseconds.
    pub step_ns: u64,
    /// Steps from `start` to `to`.
    pub steps: usize,
}

/// What one thread, or several together, did in one direction.
pub struct Tally {
    /// I/Os that completed within the interval.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Times of those. 32 bits per bucket and growing with the largest time: about 80 KiB.
    pub times: Histogram<u32>,
    /// By step from the start of the load, warm-up included.
    pub points: Vec<Point>,
    /// I/Os that failed, by the system's error; the first few kinds.
    pub errors: Vec<(io::ErrorKind, u64)>,
}

impl Tally {
    fn new(steps: usize) -> Tally {
        let mut times = Histogram::new(3).unwrap_or_else(|e| unreachable!("three digits: {e}"));
        times.auto(true);
        Tally { count: 0, bytes: 0, times, points: vec![Point::default(); steps], errors: Vec::new() }
    }

    /// Errors of every kind.
    pub fn failed(&self) -> u64 {
        self.errors.iter().map(|e| e.1).sum()
    }

    fn error(&mut self, kind: io::ErrorKind) {
        match self.errors.iter_mut().find(|e| e.0 == kind) {
            Some(known) => known.1 += 1,
            None => self.errors.push((kind, 1)),
        }
    }
}

/// Both directions.
pub struct Done {
    /// Reads.
    pub read: Tally,
    /// Writes.
    pub write: Tally,
}

/// What a thread works with.
pub struct Slot<'a> {
    /// Its own handle of the target.
    pub handle: Box<dyn Handle + 'a>,
    /// One block, aligned.
    pub buffer: Buf,
    /// First byte and blocks of its region.
    pub region: (u64, u64),
    /// Next block of a sequential region, shared by the threads of one job.
    pub cursor: &'a AtomicU64,
    /// Direction and place.
    pub order: Order,
    /// When.
    pub interval: Interval,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
    /// Decides places, directions and contents.
    pub random: Random,
}

impl Slot<'_> {
    /// Works until the interval ends.
    pub fn run(mut self) -> Done {
        let steps = self.interval.steps;
        let mut done = Done { read: Tally::new(steps), write: Tally::new(steps) };
        fill(&mut self.buffer, &mut self.random);
        let block = self.buffer.len() as u64;
        while Instant::now() < self.interval.start {
            std::thread::sleep(self.interval.start.saturating_duration_since(Instant::now()));
        }
        let mut before = Instant::now();
        while before < self.interval.to && !self.stop.load(Ordering::Relaxed) {
            let (write, index) = self.next();
            let at = self.region.0 + index * block;
            let result = if write {
                stamp(&mut self.buffer, &mut self.random);
                self.handle.write(&self.buffer, at)
            } else {
                self.handle.read(&mut self.buffer, at)
            };
            let now = Instant::now();
            let tally = if write { &mut done.write } else { &mut done.read };
            if count(tally, &self.interval, result, (before, now), block) > MOST_ERRORS {
                break;
            }
            before = now;
        }
        done
    }

    /// Whether the next I/O writes, and its block in the region.
    fn next(&mut self) -> (bool, u64) {
        let blocks = self.region.1;
        match self.order {
            Order::SequentialRead => (false, self.cursor.fetch_add(1, Ordering::Relaxed) % blocks),
            Order::SequentialWrite => (true, self.cursor.fetch_add(1, Ordering::Relaxed) % blocks),
            Order::Random { read_percent } => {
                let bits = self.random.next_u64();
                // The high bits choose the place, independent low ones the direction.
                let place = (u128::from(bits) * u128::from(blocks)) >> 64;
                let direction = match read_percent {
                    0 => true,
                    100.. => false,
                    percent => self.random.next_u64() % 100 >= u64::from(percent),
                };
                (direction, place as u64)
            }
        }
    }
}

/// Records one I/O; returns the errors so far.
fn count(
    tally: &mut Tally,
    interval: &Interval,
    result: io::Result<()>,
    (before, now): (Instant, Instant),
    block: u64,
) -> u64 {
    let step = (now.duration_since(interval.start).as_nanos() as u64 / interval.step_ns) as usize;
    let took = now.duration_since(before).as_nanos() as u64;
    let point = tally.points.get_mut(step);
    if let Err(error) = result {
        if let Some(point) = point {
            point.errors += 1;
        }
        tally.error(error.kind());
        return tally.failed();
    }
    if let Some(point) = point {
        point.count += 1;
        point.bytes += block;
        point.max_ns = point.max_ns.max(took);
    }
    if now >= interval.from && now < interval.to {
        tally.count += 1;
        tally.bytes += block;
        // Grows as needed; only a time beyond 2^63 ns could fail. (Saturating would not grow.)
        let _ = tally.times.record(took.max(1));
    }
    0
}

/// Fills with bytes that do not compress.
pub fn fill(buffer: &mut [u8], random: &mut Random) {
    for chunk in buffer.chunks_mut(8) {
        let bits = random.next_u64().to_le_bytes();
        chunk.copy_from_slice(&bits[..chunk.len()]);
    }
}

/// Makes every 4 KiB differ from all written before, against drives that remove duplicates.
pub fn stamp(buffer: &mut [u8], random: &mut Random) {
    for page in buffer.chunks_mut(4096) {
        if let Some(start) = page.first_chunk_mut::<8>() {
            *start = random.next_u64().to_le_bytes();
        }
    }
}
