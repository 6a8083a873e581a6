//! Measures the rebuild and the check of a drive group of files, and a coder against the CPU, byte by byte.
//!
//! ```text
//! rebuild folder=/dev/shm level=8+4 size=512 [strip=64] [coder=cpu,gpu,auto] [threads=1,4] [batch=4] [rows=16384] [repeat=3]
//! rebuild verify=2000 coder=gpu
//! ```
//!
//! Sizes are MiB of a member and of a batch, KiB of a strip. The first form makes files in the folder, which it removes at the
//! end. For each number of threads, which run on as many cores, each batch and each coder it takes a member out and rebuilds
//! another file in its place, `repeat` times, then checks the group; at the end it reads and compares every block. One line of
//! JSON on standard output for each measurement.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures the machine, in real time"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ashlar_environment::random::Seeded;
use ashlar_erasure::Code;
use ashlar_machine::Folder;
use ashlar_raid::{
    BLOCK, Batching, Coder, Cpu, Device, Group, Level, Part, Plan, Policy, Repair, Wanted, choose,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// `key=value` arguments.
struct Arguments(BTreeMap<String, String>);

impl Arguments {
    fn text<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.0.get(key).map_or(default, String::as_str)
    }

    fn numbers(&self, key: &str, default: &str) -> Result<Vec<usize>> {
        Ok(self.text(key, default).split(',').map(str::parse).collect::<std::result::Result<_, _>>()?)
    }

    fn number(&self, key: &str, default: u64) -> Result<u64> {
        Ok(self.0.get(key).map_or(Ok(default), |v| v.parse())?)
    }
}

fn main() -> Result<()> {
    let pairs = std::env::args().skip(1);
    let pairs = pairs.map(|a| a.split_once('=').map(|(k, v)| (k.into(), v.into())).ok_or(a));
    let arguments = Arguments(pairs.collect::<std::result::Result<_, String>>()?);
    match arguments.number("verify", 0)? {
        0 => measure(&arguments),
        batches => verify(&arguments, batches),
    }
}

#[cfg(feature = "gpu")]
fn gpu() -> Result<Arc<dyn Coder>> {
    Ok(Arc::new(ashlar_raid::Gpu::open(0)?))
}

#[cfg(not(feature = "gpu"))]
fn gpu() -> Result<Arc<dyn Coder>> {
    Err("built without the feature gpu".into())
}

/// `known` keeps the GPU: its kernels are compiled once.
fn coder(
    name: &str,
    batching: &Batching,
    (k, m): (usize, usize),
    known: &mut Option<Arc<dyn Coder>>,
) -> Result<Arc<dyn Coder>> {
    match name {
        "cpu" => Ok(Arc::new(Cpu::default())),
        "gpu" => match known {
            Some(gpu) => Ok(gpu.clone()),
            None => Ok(known.insert(gpu()?).clone()),
        },
        "auto" => Ok(choose(k, m, Wanted::Auto, batching)?.coder),
        other => Err(format!("coder={other} is none of cpu, gpu, auto").into()),
    }
}

/// Compares random batches with what the CPU makes of them.
fn verify(arguments: &Arguments, batches: u64) -> Result<()> {
    let mut random = Seeded::new(arguments.number("seed", 1)?);
    let most = 8 << 20;
    let device = coder(arguments.text("coder", "gpu"), &Batching::default(), (8, 4), &mut None)?;
    let (mut bytes, begun) = (0u64, Instant::now());
    for number in 0..batches {
        let (k, m) = (1 + random.below(24) as usize, 1 + random.below(12) as usize);
        let code = Code::new(k, m)?;
        let parts: Vec<Part> = (0..1 + random.below(6)).map(|_| part(&mut random, k, m, most / 6)).collect();
        let output: usize = parts.iter().map(|p| p.row * p.stripes).sum();
        let mut input = vec![0; output * k];
        random.fill(&mut input);
        let mut made = Vec::new();
        for coder in [&device as &Arc<dyn Coder>, &(Arc::new(Cpu::default()) as Arc<dyn Coder>)] {
            let mut memory = coder.memory(&code, input.len(), output)?;
            memory.input()?[..input.len()].copy_from_slice(&input);
            memory.start(&parts)?;
            made.push(memory.output()?[..output].to_vec());
        }
        if made[0] != made[1] {
            return Err(format!("batch {number} of {k}+{m} differs: {parts:?}").into());
        }
        bytes += (input.len() + output) as u64;
    }
    println!(
        "{{\"what\":\"verify\",\"coder\":{:?},\"batches\":{batches},\"bytes\":{bytes},\"differ\":0,\"seconds\":{:.1}}}",
        device.name(),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn part(random: &mut Seeded, k: usize, m: usize, most: usize) -> Part {
    let mut roles: Vec<usize> = (0..k + m).collect();
    for i in 0..roles.len() {
        let j = i + random.below((roles.len() - i) as u64) as usize;
        roles.swap(i, j);
    }
    let wanted = roles[k];
    let mut present = roles[..k].to_vec();
    present.sort_unstable();
    let row = BLOCK * (1 + random.below(16) as usize);
    let stripes = 1 + random.below((most / (k * row)).clamp(1, 40) as u64) as usize;
    Part { present, wanted, row, stripes }
}

fn device(folder: &Path, number: usize, size: u64) -> Result<Device> {
    let name = format!("rebuild-{number}");
    let _ = std::fs::remove_file(folder.join(&name));
    let file = Folder::real(folder, None).create(&name, false)?;
    file.allocate(size)?;
    Ok(Device { medium: Box::new(file), name })
}

/// CPU seconds of this process.
fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit_once(')').ok_or("no process name")?.1;
    let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<std::result::Result<f64, _>>()? / 100.0)
}

fn measure(arguments: &Arguments) -> Result<()> {
    let folder = PathBuf::from(arguments.text("folder", "/dev/shm"));
    let level: Level = arguments.text("level", "6").parse()?;
    let members = match level {
        Level::Coded { k, m } => usize::from(k) + usize::from(m),
        _ => arguments.number("members", 8)? as usize,
    };
    let used: Vec<PathBuf> = (0..=members).map(|i| folder.join(format!("rebuild-{i}"))).collect();
    let result = with_files(arguments, &folder, level, members);
    used.iter().for_each(|path| drop(std::fs::remove_file(path)));
    result
}

/// A group with what changes between measurements.
struct Bench<'a> {
    arguments: &'a Arguments,
    folder: &'a Path,
    group: Group,
    /// The number of the file at each position, and the one that is free.
    places: Vec<usize>,
    free: usize,
    rebuilds: usize,
    gpu: Option<Arc<dyn Coder>>,
}

fn with_files(arguments: &Arguments, folder: &Path, level: Level, members: usize) -> Result<()> {
    let size = arguments.number("size", 256)? << 20;
    let plan = Plan {
        name: "rebuild".into(),
        level,
        strip: arguments.number("strip", 64)? << 10,
        policy: Policy::Journal,
        ..Plan::default()
    };
    let devices = (0..members).map(|i| device(folder, i, size)).collect::<Result<_>>()?;
    let mut group = Group::create(&plan, devices, vec![])?;
    fill(&mut group)?;
    let places = (0..members).collect();
    let mut bench = Bench { arguments, folder, group, places, free: members, rebuilds: 0, gpu: None };
    let mut failed = Ok(());
    for threads in arguments.numbers("threads", "1")? {
        pin(threads)?;
        for batch in arguments.numbers("batch", "4")? {
            for coder in arguments.text("coder", "cpu").split(',') {
                // The others are measured all the same.
                if let Err(e) = bench.rebuild(coder, threads, batch) {
                    eprintln!("{coder}: {e}");
                    failed = Err(e);
                }
            }
        }
        bench.check()?;
    }
    compare(&mut bench.group)?;
    failed
}

/// This thread, and those that it starts, run on the first cores.
fn pin(threads: usize) -> Result<()> {
    let mut cores = rustix::thread::CpuSet::new();
    (0..threads).for_each(|core| cores.set(core));
    Ok(rustix::thread::sched_setaffinity(None, &cores)?)
}

impl Bench<'_> {
    fn rebuild(&mut self, coder: &str, threads: usize, batch: usize) -> Result<()> {
        let (k, m) = (self.group.geometry().k, self.group.geometry().m);
        let batching = Batching { bytes: batch << 20, threads, ..Batching::default() };
        let chosen = self::coder(coder, &batching, (k, m), &mut self.gpu)?;
        self.group.set_batching(Batching { coder: chosen, ..batching });
        for _ in 0..self.arguments.number("repeat", 3)? {
            // Which member it is decides in which stripes its role is a parity.
            let slot = (self.rebuilds * 5 + 1) % self.places.len();
            self.rebuilds += 1;
            self.group.take_out(slot)?;
            let new = device(self.folder, self.free, self.arguments.number("size", 256)? << 20)?;
            self.group.replace(slot, new, true)?;
            std::mem::swap(&mut self.free, &mut self.places[slot]);
            let (begun, cpu) = (Instant::now(), cpu_seconds()?);
            while self.group.rebuild(self.arguments.number("rows", 16 << 10)?)?.is_some() {}
            self.print("rebuild", k, begun.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
        }
        let name = self.group.batching().coder.name();
        if coder == "gpu" && name.starts_with("CPU") {
            return Err(name.into());
        }
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        self.group
            .set_batching(Batching { coder: Arc::new(Cpu::default()), ..self.group.batching().clone() });
        let (begun, cpu) = (Instant::now(), cpu_seconds()?);
        let checked = self.group.check(0, u64::MAX, Repair::StopOnError)?;
        let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
        if !checked.mismatches.is_empty() || self.group.counters().corrected > 0 {
            let counters = self.group.counters();
            return Err(format!("wrong after the rebuild: {:?}, {counters:?}", checked.mismatches).into());
        }
        self.print("check", self.places.len(), seconds, cpu);
        Ok(())
    }

    /// One line of JSON; `members` is how many members were read.
    fn print(&self, what: &str, members: usize, seconds: f64, cpu: f64) {
        let (g, batching) = (self.group.geometry(), self.group.batching());
        let drive = g.rows() as f64 * BLOCK as f64;
        let read = drive * members as f64;
        println!(
            "{{\"what\":\"{what}\",\"code\":\"{}+{}\",\"coder\":{:?},\"threads\":{},\"batch_mib\":{},\
             \"drive_mb_s\":{:.1},\"read_gb_s\":{:.3},\"cpu_s_per_gib_read\":{:.4},\
             \"cpu_s_per_gib_of_drive\":{:.4},\"seconds\":{seconds:.3}}}",
            g.k,
            g.m,
            batching.coder.name(),
            batching.threads,
            batching.bytes >> 20,
            drive / seconds / 1e6,
            read / seconds / 1e9,
            cpu / read * f64::from(1 << 30),
            cpu / drive * f64::from(1 << 30),
        );
    }
}

/// Bytes that are written at once: whole rows.
fn piece(group: &Group) -> usize {
    group.geometry().k * group.geometry().strip_blocks as usize * BLOCK * 4
}

/// The content of a piece: random bytes, and its position in every block.
fn content(at: u64, bytes: &mut [u8]) {
    for (i, block) in bytes.chunks_mut(BLOCK).enumerate() {
        block[..8].copy_from_slice(&(at + i as u64).to_le_bytes());
    }
}

fn fill(group: &mut Group) -> Result<()> {
    let mut bytes = vec![0; piece(group)];
    Seeded::new(7).fill(&mut bytes);
    let mut at = 0;
    while at < group.size() {
        let len = (group.size() - at).min(bytes.len() as u64) as usize;
        content(at, &mut bytes);
        group.write(at, &bytes[..len])?;
        at += len as u64;
    }
    Ok(())
}

fn compare(group: &mut Group) -> Result<()> {
    let mut bytes = vec![0; piece(group)];
    Seeded::new(7).fill(&mut bytes);
    let (mut read, mut at) = (vec![0; bytes.len()], 0);
    while at < group.size() {
        let len = (group.size() - at).min(bytes.len() as u64) as usize;
        content(at, &mut bytes);
        group.read(at, &mut read[..len])?;
        if read[..len] != bytes[..len] {
            return Err(format!("wrong bytes at {at}").into());
        }
        at += len as u64;
    }
    Ok(())
}
