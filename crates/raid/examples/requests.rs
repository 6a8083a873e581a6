//! Measures reads and writes of a drive group of files: what its members are asked for a request, the processor time, and the rate.
//!
//! ```text
//! requests folder=/dev/shm [level=5] [members=8] [size=64] [strip=64] [depth=1,8] [seconds=3] [delay=0] [rate=0] [together=yes]
//!     [policy=journal] [loads=write]
//! ```
//!
//! Sizes are MiB of a member and KiB of a strip. It makes files in the folder, which it removes at the end, and fills a virtual drive.
//! `depth` is the number of threads that have a request each. With `delay`, microseconds, a member answers no earlier than that, as if it were
//! behind a network; it says that it waits, unless `together=no`. With `rate` a member executes so many reads per second, and so many writes, one
//! after the other: it never catches up on time in which it had none. `loads` chooses by a part of the name. One line of JSON on standard output for each measurement.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures the machine, in real time"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ashlar_environment::random::Seeded;
use ashlar_machine::{DiskFile, Folder};
use ashlar_raid::{Device, Group, Medium, Plan, Policy, Shared, VirtualDrive};
use parking_lot::Mutex;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What all members were asked.
#[derive(Default)]
struct Asked {
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
}

/// A file that counts, and answers late.
struct Counting {
    file: DiskFile,
    asked: Arc<Asked>,
    delay: Duration,
    together: bool,
    reads: Lane,
    writes: Lane,
}

/// Requests of one kind at a member of limited speed.
struct Lane {
    /// Time that each takes.
    each: Arc<AtomicU64>,
    /// When the last one ends.
    free: Mutex<Instant>,
}

impl Lane {
    fn new(each: &Arc<AtomicU64>) -> Lane {
        Lane { each: each.clone(), free: Mutex::new(Instant::now()) }
    }

    fn pass(&self) {
        let each = Duration::from_nanos(self.each.load(Ordering::Relaxed));
        if each.is_zero() {
            return;
        }
        let end = {
            let mut free = self.free.lock();
            *free = (*free).max(Instant::now()) + each;
            *free
        };
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
    }
}

impl Counting {
    fn count(&self, what: &AtomicU64, lane: &Lane) {
        what.fetch_add(1, Ordering::Relaxed);
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        lane.pass();
    }
}

impl Medium for Counting {
    fn size(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.count(&self.asked.reads, &self.reads);
        self.file.read_at(out, at)
    }

    fn read_slices_at(&self, slices: &mut [IoSliceMut<'_>], at: u64) -> io::Result<()> {
        self.count(&self.asked.reads, &self.reads);
        self.file.read_slices_at(slices, at)
    }

    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        self.count(&self.asked.writes, &self.writes);
        self.file.write_slices_at(slices, at)
    }

    fn flush(&self) -> io::Result<()> {
        self.asked.flushes.fetch_add(1, Ordering::Relaxed);
        self.file.sync_data()
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        self.file.punch_hole(at, len).map(drop)
    }

    fn waits(&self) -> bool {
        self.together
    }
}

/// A load.
struct Load {
    name: &'static str,
    bytes: u64,
    write: bool,
    random: bool,
}

const LOADS: [Load; 6] = [
    Load { name: "random read 4 KiB", bytes: 4 << 10, write: false, random: true },
    Load { name: "random write 4 KiB", bytes: 4 << 10, write: true, random: true },
    Load { name: "sequential read 128 KiB", bytes: 128 << 10, write: false, random: false },
    Load { name: "sequential write 128 KiB", bytes: 128 << 10, write: true, random: false },
    Load { name: "random write 128 KiB", bytes: 128 << 10, write: true, random: true },
    Load { name: "sequential read 1 MiB", bytes: 1 << 20, write: false, random: false },
];

fn main() -> Result<()> {
    let pairs = std::env::args().skip(1);
    let pairs = pairs.map(|a| a.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).ok_or(a));
    let arguments: BTreeMap<String, String> = pairs.collect::<std::result::Result<_, String>>()?;
    let text =
        |key: &str, default: &'static str| arguments.get(key).map_or(default, String::as_str).to_owned();
    let number = |key: &str, default| -> Result<u64> { Ok(text(key, default).parse()?) };
    let folder =
        Path::new(&text("folder", "/dev/shm")).join(format!("ashlar-requests-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let members = number("members", "8")?;
    let asked = Arc::new(Asked::default());
    let delay = Duration::from_micros(number("delay", "0")?);
    let rate = number("rate", "0")?;
    let together = text("together", "yes") == "yes" && (!delay.is_zero() || rate > 0);
    // Limited when the virtual drive is filled.
    let each = Arc::new(AtomicU64::new(0));
    let done = (|| -> Result<()> {
        let files = Folder::real(&folder, None);
        let mut devices = Vec::new();
        for i in 0..members {
            let name = format!("m{i}");
            let file = files.create(&name, false)?;
            file.allocate(number("size", "64")? << 20)?;
            devices.push(Device {
                medium: Box::new(Counting {
                    file,
                    asked: asked.clone(),
                    delay,
                    together,
                    reads: Lane::new(&each),
                    writes: Lane::new(&each),
                }),
                name,
            });
        }
        let plan = Plan {
            name: "requests".into(),
            level: text("level", "5").parse()?,
            strip: number("strip", "64")? << 10,
            policy: match &*text("policy", "journal") {
                "journal" => Policy::Journal,
                "bitmap" => Policy::Bitmap,
                _ => Policy::None,
            },
            ..Plan::default()
        };
        let mut group = Group::create(&plan, devices, vec![])?;
        group.create_volume("v", None)?;
        let drive = Shared::new(group).volume("v").ok_or("no virtual drive")?;
        let piece = 8 << 20;
        for at in (0..drive.size()).step_by(piece) {
            let len = piece.min((drive.size() - at) as usize);
            drive.write(at, vec![(at >> 23) as u8 | 1; len])?;
        }
        drive.flush()?;
        each.store(1_000_000_000u64.checked_div(rate).unwrap_or(0), Ordering::Relaxed);
        let (seconds, loads) = (number("seconds", "3")?, text("loads", ""));
        for depth in text("depth", "1,8").split(',') {
            for load in LOADS.iter().filter(|load| load.name.contains(&loads)) {
                measure(&drive, load, depth.parse()?, Duration::from_secs(seconds), &asked)?;
            }
        }
        Ok(())
    })();
    std::fs::remove_dir_all(&folder)?;
    done
}

/// Processor time of this process, seconds: the kernel counts in hundredths.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn measure(drive: &VirtualDrive, load: &Load, depth: u64, time: Duration, asked: &Asked) -> Result<()> {
    let seen = || [&asked.reads, &asked.writes, &asked.flushes].map(|c| c.load(Ordering::Relaxed) as f64);
    let (next, places) = (AtomicU64::new(0), drive.size() / load.bytes);
    let (before, cpu, begun) = (seen(), processor_s(), Instant::now());
    let work = |i: u64| {
        let (mut random, mut done) = (Seeded::new(i + 1), 0u64);
        let mut buffer = vec![i as u8; load.bytes as usize];
        while begun.elapsed() < time {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let place = if load.random { random.below(places) } else { turn % places };
            let at = place * load.bytes;
            match load.write {
                true => drive.write(at, buffer.clone())?,
                false => drive.read(at, &mut buffer)?,
            }
            done += 1;
        }
        Ok::<u64, ashlar_raid::Error>(done)
    };
    let work = &work;
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..depth).map(|i| scope.spawn(move || work(i))).collect();
        threads.into_iter().map(|t| t.join()).collect::<Vec<_>>()
    });
    let mut operations = 0;
    for result in results {
        operations += result.map_err(|_| "a thread panicked")??;
    }
    let (took, cpu) = (begun.elapsed().as_secs_f64(), processor_s() - cpu);
    let per = |at: usize, after: &[f64; 3]| (after[at] - before[at]) / operations as f64;
    let after = seen();
    let gib = (operations * load.bytes) as f64 / (1u64 << 30) as f64;
    println!(
        "{{\"load\":\"{}\",\"depth\":{depth},\"reads_per_op\":{:.2},\"writes_per_op\":{:.2},\"flushes_per_op\":{:.2},\
         \"cpu_s_per_gib\":{:.2},\"cpu_us_per_op\":{:.1},\"ops_per_s\":{:.0},\"mb_per_s\":{:.0}}}",
        load.name,
        per(0, &after),
        per(1, &after),
        per(2, &after),
        cpu / gib,
        cpu * 1e6 / operations as f64,
        operations as f64 / took,
        (operations * load.bytes) as f64 / took / 1e6
    );
    Ok(())
}
