//! Which coder a group uses: measured on this machine, and said in words.
//!
//! A device that computes by itself is chosen if it codes faster than the CPU on the threads that the rebuild has, for batches
//! of the size that the rebuild has, and for all larger ones that were measured. What the CPU codes is in its caches
//! here, as it is in a rebuild, where it was verified just before. That a device codes faster does not say that a rebuild is
//! faster: reading and checksums take most of its time.
//!
//! Must not depend on: groups, members.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_erasure::Code;

use crate::Error;
use crate::coder::{Batching, Coder, Cpu, Memory, Part};
use crate::geometry::BLOCK;
use crate::threads::on_threads;

/// Sizes of batches that are measured beside that of the rebuild, in bytes of input.
const SIZES: [usize; 5] = [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20];
/// Repetitions of a measurement; the middle one counts.
const REPETITIONS: usize = 5;
/// Time of one, about.
const TIME: Duration = Duration::from_millis(8);

/// Which coder is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Wanted {
    /// The one that codes faster.
    Auto,
    /// The CPU: no rebuild was faster with a GPU where it was measured (docs/benchmarks/gpu.md).
    #[default]
    Cpu,
    /// The GPU, even where it is slower; the CPU if there is none.
    Gpu,
}

/// Seconds per batch of one size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Bytes of input of a batch.
    pub bytes: usize,
    /// On the CPU, with all threads.
    pub cpu: f64,
    /// On the device.
    pub device: f64,
}

/// The smallest size from which on the device is faster, at every larger size too.
#[must_use]
pub fn crossover(points: &[Point]) -> Option<usize> {
    points.iter().rev().take_while(|p| p.device < p.cpu).last().map(|p| p.bytes)
}

/// Measures a device against the CPU on `threads` threads, for the reconstruction of one row of `code` in batches of
/// several sizes and of `bytes`; by size, ascending. Takes about half a second.
///
/// # Errors
/// [`Error::Coder`] if one of the two fails.
pub fn measure(code: &Code, device: &dyn Coder, threads: usize, bytes: usize) -> Result<Vec<Point>, Error> {
    let mut sizes: Vec<usize> = SIZES.into_iter().chain([bytes]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let point = |bytes| {
        let part = part(code, bytes);
        let bytes = part.row * part.stripes * code.k();
        let cpu = per_batch(code, &Cpu::default(), threads, &part)?;
        Ok(Point { bytes, cpu, device: per_batch(code, device, threads, &part)? })
    };
    sizes.into_iter().map(point).collect()
}

/// A batch of about so many bytes in which the first role is lost.
fn part(code: &Code, bytes: usize) -> Part {
    let k = code.k();
    let row = (64 << 10).min((bytes / k / BLOCK).max(1) * BLOCK);
    Part { present: (1..=k).collect(), wanted: 0, row, stripes: (bytes / (k * row)).max(1) }
}

/// Seconds per batch, with batches in turn on all threads.
fn per_batch(code: &Code, coder: &dyn Coder, threads: usize, part: &Part) -> Result<f64, Error> {
    let output = part.row * part.stripes;
    let worker = |_| -> Result<Vec<Box<dyn Memory>>, Error> {
        (0..coder.under_way().max(1)).map(|_| coder.memory(code, output * code.k(), output)).collect()
    };
    let mut workers: Vec<_> = (0..threads.max(1)).map(worker).collect::<Result<_, _>>()?;
    for memory in workers.iter_mut().flatten() {
        // Memory that was never written is one page for the CPU.
        memory.input()?.fill(0x5a);
    }
    let mut figures = Vec::new();
    // The first repetition only warms up.
    for repetition in 0..=REPETITIONS {
        let begun = Instant::now();
        let done = on_threads(&mut workers, |memories| -> Result<u32, Error> {
            let mut done = 0;
            while done < memories.len() as u32 || begun.elapsed() < TIME {
                let at = done as usize % memories.len();
                memories[at].start(std::slice::from_ref(part))?;
                done += 1;
            }
            for memory in memories {
                memory.output()?;
            }
            Ok(done)
        });
        let batches: u32 = done.into_iter().sum::<Result<u32, Error>>()?;
        if repetition > 0 {
            figures.push(begun.elapsed().as_secs_f64() / f64::from(batches.max(1)));
        }
    }
    figures.sort_by(f64::total_cmp);
    Ok(figures[figures.len() / 2])
}

/// The batching of a group of `k` data and `m` parity rows, with the coder that is wanted. Opening a GPU and measuring it
/// takes a second or more.
///
/// # Errors
/// [`Error::Layout`] if there is no such code.
pub fn choose(k: usize, m: usize, wanted: Wanted, batching: &Batching) -> Result<Batching, Error> {
    let code = Code::new(k, m).map_err(|e| Error::Layout(e.to_string()))?;
    let coder: Arc<dyn Coder> = match wanted {
        Wanted::Cpu => Arc::new(Cpu::default()),
        _ if m == 0 => Arc::new(Cpu::default()),
        // Who did not ask for a GPU is not told about one.
        Wanted::Auto if cfg!(not(feature = "gpu")) => Arc::new(Cpu::default()),
        Wanted::Auto | Wanted::Gpu => match open() {
            Err(Error::Coder(why)) => Arc::new(Cpu::instead_of(why)),
            Err(e) => Arc::new(Cpu::instead_of(e.to_string())),
            Ok(device) => decide(&code, device, wanted, batching),
        },
    };
    Ok(Batching { coder, ..batching.clone() })
}

#[cfg(feature = "gpu")]
fn open() -> Result<Arc<dyn Coder>, Error> {
    Ok(Arc::new(crate::gpu::Gpu::open(0)?))
}

#[cfg(not(feature = "gpu"))]
fn open() -> Result<Arc<dyn Coder>, Error> {
    Err(Error::Coder("this program was built without the feature `gpu`".into()))
}

fn decide(code: &Code, device: Arc<dyn Coder>, wanted: Wanted, batching: &Batching) -> Arc<dyn Coder> {
    let (threads, name) = (batching.threads.max(1), device.name());
    let points = match measure(code, &*device, threads, batching.bytes) {
        Ok(points) => points,
        Err(e) => return Arc::new(Cpu::instead_of(format!("{name}: {e}"))),
    };
    let from = crossover(&points);
    let why = in_words(&points, from, threads, batching.bytes);
    if wanted == Wanted::Gpu || from.is_some_and(|from| from <= batching.bytes) {
        Arc::new(Explained { coder: device, why })
    } else {
        Arc::new(Cpu::instead_of(format!("{name} is not used: {why}")))
    }
}

/// What was measured.
fn in_words(points: &[Point], from: Option<usize>, threads: usize, bytes: usize) -> String {
    let rate = |p: &Point, seconds: f64| p.bytes as f64 / seconds / 1e9;
    let here = points.iter().min_by_key(|p| p.bytes.abs_diff(bytes));
    let here = here.map_or_else(String::new, |p| {
        format!(
            "; {:.1} MiB: {:.1} GB/s against {:.1}",
            p.bytes as f64 / f64::from(1 << 20),
            rate(p, p.device),
            rate(p, p.cpu)
        )
    });
    let cpu = format!("{threads} thread{} of the CPU", if threads == 1 { "" } else { "s" });
    match from {
        Some(from) => {
            let mib = from as f64 / f64::from(1 << 20);
            format!("faster than {cpu} from batches of {mib:.1} MiB on{here}")
        }
        None => format!("not faster than {cpu} in batches of up to 16 MiB{here}"),
    }
}

/// A coder whose name says why it is used.
struct Explained {
    coder: Arc<dyn Coder>,
    why: String,
}

impl Coder for Explained {
    fn name(&self) -> String {
        format!("{}; {}", self.coder.name(), self.why)
    }

    fn under_way(&self) -> usize {
        self.coder.under_way()
    }

    fn memory(&self, code: &Code, input: usize, output: usize) -> Result<Box<dyn Memory>, Error> {
        self.coder.memory(code, input, output)
    }
}
