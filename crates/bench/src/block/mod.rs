//! Raw speed of drives: sequential and random, each drive alone and all together, with direct I/O.
//!
//! Threads with blocking reads and writes, one per entry of a drive's queue. Invariants: a result of several
//! drives comes from one common interval, never from a sum of rates over different ones; only written data is
//! read, so that no drive answers from a hole; no files are left behind.
//!
//! Must not depend on: objects, servers, the presentation of results.

mod device;
mod facts;
mod outlier;
mod place;
mod slot;
mod target;
mod threads;

use std::{path::PathBuf, sync::atomic::AtomicBool, time::Instant};

use ashlar_bench_report::{
    quantity::block_text,
    result::{Caveat, Phase, Run, Severity},
    units,
};
use serde_json::json;

pub use outlier::{Outlier, outliers};
pub use place::{Handle, Namespace, Place};
pub(crate) use slot::fill;
pub use target::Access;

use crate::{
    error::{Error, Result},
    host, stall,
};
use slot::Order;
use target::Target;

/// Most threads of a run: drives x depth x jobs.
pub const MOST_THREADS: usize = 4096;

/// What one phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Sequential reading.
    SeqRead,
    /// Sequential writing.
    SeqWrite,
    /// Random reading.
    RandRead,
    /// Random reading and writing.
    RandMixed,
    /// Random writing.
    RandWrite,
}

impl Test {
    /// All, in the order they run.
    pub const ALL: [Test; 5] =
        [Test::SeqRead, Test::SeqWrite, Test::RandRead, Test::RandMixed, Test::RandWrite];

    /// Whether it goes through the drive in order.
    fn sequential(self) -> bool {
        matches!(self, Test::SeqRead | Test::SeqWrite)
    }

    /// Whether it only writes.
    pub fn writes_only(self) -> bool {
        matches!(self, Test::SeqWrite | Test::RandWrite)
    }

    fn order(self, mix: u8) -> Order {
        match self {
            Test::SeqRead => Order::SequentialRead,
            Test::SeqWrite => Order::SequentialWrite,
            Test::RandRead => Order::Random { read_percent: 100 },
            Test::RandMixed => Order::Random { read_percent: mix },
            Test::RandWrite => Order::Random { read_percent: 0 },
        }
    }

    /// As phases are called, for instance `rand-mixed-70-4KiB`.
    pub fn name(self, block: u64, mix: u8) -> String {
        let block = block_text(block);
        match self {
            Test::SeqRead => format!("seq-read-{block}"),
            Test::SeqWrite => format!("seq-write-{block}"),
            Test::RandRead => format!("rand-read-{block}"),
            Test::RandMixed => format!("rand-mixed-{mix}-{block}"),
            Test::RandWrite => format!("rand-write-{block}"),
        }
    }
}

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folders, or raw devices.
    pub paths: Vec<PathBuf>,
    /// Bytes per drive that are read and written; 0 is all of a device.
    pub size: u64,
    /// Block sizes of sequential tests.
    pub sequential: Vec<u64>,
    /// Block size of random tests.
    pub random: u64,
    /// Which tests.
    pub tests: Vec<Test>,
    /// I/Os in flight per job.
    pub depth: u32,
    /// Jobs per drive, each with its own region of the drive in sequential tests.
    pub jobs: u32,
    /// Per cent of reads in the mixed test.
    pub mix: u8,
    /// Measured seconds per phase.
    pub runtime_s: f64,
    /// Seconds of load before those.
    pub warmup_s: f64,
    /// Each drive alone.
    pub alone: bool,
    /// All drives at once.
    pub together: bool,
    /// How often everything is repeated.
    pub repeat: u32,
    /// Write everything once before.
    pub precondition: bool,
    /// How drives are opened.
    pub access: Access,
    /// Deviation from the median of all drives that is named, per cent.
    pub outlier_percent: f64,
    /// Decides places and contents.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            paths: Vec::new(),
            size: 1 << 30,
            sequential: vec![128 << 10, 4 << 20],
            random: 4 << 10,
            tests: Test::ALL.to_vec(),
            depth: 16,
            jobs: 1,
            mix: 70,
            runtime_s: 10.0,
            warmup_s: 1.0,
            alone: true,
            together: true,
            repeat: 1,
            precondition: true,
            access: Access::default(),
            outlier_percent: 10.0,
            seed: 1,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        let usage = |text: String| Err(Error::usage(text));
        if self.paths.is_empty() {
            return usage("name at least one drive".to_owned());
        }
        let mut real: Vec<PathBuf> = Vec::new();
        for path in &self.paths {
            real.push(std::fs::canonicalize(path).map_err(Error::io(path.display().to_string()))?);
        }
        real.sort();
        if let Some(twice) = real.windows(2).find(|w| w[0] == w[1]) {
            return usage(format!("{} is named twice", twice[0].display()));
        }
        let blocks = || self.sequential.iter().copied().chain([self.random]);
        if blocks().any(|b| b == 0 || b % 4096 != 0 || b > 64 << 20) {
            return usage("block sizes must be multiples of 4 KiB, at most 64 MiB".to_owned());
        }
        if self.depth == 0 || self.jobs == 0 || self.repeat == 0 || self.mix > 100 {
            return usage(
                "--depth, --jobs and --repeat must be at least 1, and --mix at most 100".to_owned(),
            );
        }
        if !(self.runtime_s > 0.0 && self.warmup_s >= 0.0) {
            return usage("--runtime must be above zero".to_owned());
        }
        let slots = self.slots_per_drive() as u64;
        let threads = self.paths.len() as u64 * slots;
        if threads > MOST_THREADS as u64 {
            return usage(format!("{threads} I/Os in flight are more than {MOST_THREADS}"));
        }
        let largest = blocks().max().unwrap_or(0);
        let memory = crate::host::memory_bytes().unwrap_or(u64::MAX) / 4;
        if threads * largest > memory {
            return usage(format!(
                "{threads} buffers of {} are more than a quarter of this machine's memory",
                block_text(largest)
            ));
        }
        let least = largest * u64::from(self.jobs);
        if self.size != 0 && self.size < least {
            return usage(format!("--size must be at least one block per job, {}", block_text(least)));
        }
        if self.tests.is_empty() || !(self.alone || self.together) {
            return usage("nothing to measure".to_owned());
        }
        if !self.precondition && !self.access.raw && self.tests.iter().any(|t| !t.writes_only()) {
            return usage(
                "without preconditioning a new file has only holes to read: use --write-only".into(),
            );
        }
        Ok(())
    }

    fn slots_per_drive(&self) -> usize {
        self.depth as usize * self.jobs as usize
    }

    /// As [`Run::setup`] has it.
    fn setup(&self, run: &mut Run) {
        let paths: Vec<String> = self.paths.iter().map(|p| p.display().to_string()).collect();
        for (name, value) in [
            ("paths", json!(paths)),
            ("size", json!(self.size)),
            ("block-size", json!(self.sequential)),
            ("random-block-size", json!(self.random)),
            ("depth", json!(self.depth)),
            ("jobs", json!(self.jobs)),
            ("mix", json!(self.mix)),
            ("runtime", json!(self.runtime_s)),
            ("warmup", json!(self.warmup_s)),
            ("repeat", json!(self.repeat)),
            ("precondition", json!(self.precondition)),
            ("buffered", json!(self.access.buffered)),
            ("sync", json!(self.access.sync)),
            ("raw-device", json!(self.access.raw)),
            ("seed", json!(self.seed)),
        ] {
            run.setup.insert(name.to_owned(), value);
        }
    }
}

/// Measures and fills `run`. `note` is called with a description of each step. When `stop` is set, what was
/// measured until then is kept and the phase says `interrupted`.
///
/// # Errors
/// [`Error`] when a drive cannot be opened or prepared; I/O errors of the measured load are counted.
pub fn run(options: &Options, run: &mut Run, stop: &AtomicBool, note: &dyn Fn(&str)) -> Result<()> {
    options.check()?;
    options.setup(run);
    let mut targets = Vec::new();
    for path in &options.paths {
        let mut target = Target::open(path, options.size, options.access)?;
        let largest = options.sequential.iter().copied().chain([options.random]).max().unwrap_or(4096);
        let unit = largest * u64::from(options.jobs);
        target.size -= target.size % unit;
        if target.size == 0 {
            return Err(Error::setup(format!("{} is smaller than a block per job", path.display())));
        }
        targets.push(target);
    }
    facts::describe(run, &targets, options.access.buffered);
    for target in &targets {
        target.allocate()?;
    }
    if options.precondition {
        note(&format!("writing {} on each of {} drives", block_text(targets[0].size), targets.len()));
        let places: Vec<&dyn Place> = targets.iter().map(|t| t as &dyn Place).collect();
        threads::precondition(&places, options, stop)?;
    }
    let started = Instant::now();
    let watch = stall::Watch::start();
    let outcome = phases(options, run, &targets, stop, note, started);
    for target in &targets {
        target
            .leave()
            .map_err(Error::io(format!("cannot clear the start and end of {}", target.path.display())))?;
    }
    host::ended(run, &watch.end(), stop);
    outcome
}

/// Writes everything in these places once.
///
/// # Errors
/// [`Error::Io`] of the first that fails.
pub fn fill_places(options: &Options, places: &[&dyn Place], stop: &AtomicBool) -> Result<()> {
    threads::precondition(places, options, stop)
}

/// Does a test once on all of these places, over one common interval; the name, the repetition and the start of the phase are the
/// caller's.
///
/// # Errors
/// When a thread cannot be started; failed requests are counted.
pub fn measure_places(
    options: &Options,
    places: &[&dyn Place],
    test: Test,
    stop: &AtomicBool,
    note: &dyn Fn(&str),
) -> Result<Phase> {
    let block = if test.sequential() { options.sequential[0] } else { options.random };
    threads::measure(options, places, test.order(options.mix), block, test.sequential(), stop, note)
}

fn phases(
    options: &Options,
    run: &mut Run,
    targets: &[Target],
    stop: &AtomicBool,
    note: &dyn Fn(&str),
    started: Instant,
) -> Result<()> {
    for repetition in 1..=options.repeat {
        for (test, block) in plan(options) {
            let name = test.name(block, options.mix);
            let mut alone = Vec::new();
            for groups in groups(options, targets) {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return Ok(());
                }
                let only = (groups.len() == 1 && targets.len() > 1).then(|| groups[0].path.display());
                let name = only.map_or_else(|| name.clone(), |path| format!("{name} alone {path}"));
                note(&name);
                let at_s = started.elapsed().as_secs_f64();
                let places: Vec<&dyn Place> = groups.iter().map(|t| *t as &dyn Place).collect();
                let mut phase = threads::measure(
                    options,
                    &places,
                    test.order(options.mix),
                    block,
                    test.sequential(),
                    stop,
                    note,
                )?;
                (phase.name, phase.repetition, phase.at_s) = (name, repetition, at_s);
                if groups.len() == 1 {
                    alone.push(phase.operations.iter().map(|o| o.bytes_per_s.mean).sum::<f64>());
                }
                judge(options, run, &mut phase);
                run.phases.push(phase);
            }
            if alone.len() > 1 && alone.len() == targets.len() {
                let found = outliers(&alone, options.outlier_percent);
                name_outliers(run, &format!("{name}, each alone"), targets, &alone, &found);
            }
        }
    }
    Ok(())
}

/// Tests with their block sizes, in order.
fn plan(options: &Options) -> Vec<(Test, u64)> {
    let mut all = Vec::new();
    for test in Test::ALL.into_iter().filter(|t| options.tests.contains(t)) {
        if test.sequential() {
            all.extend(options.sequential.iter().map(|b| (test, *b)));
        } else {
            all.push((test, options.random));
        }
    }
    all
}

/// Which drives are driven at once: each alone, then all.
fn groups<'a>(options: &Options, targets: &'a [Target]) -> Vec<Vec<&'a Target>> {
    let mut all = Vec::new();
    if options.alone || targets.len() == 1 {
        all.extend(targets.iter().map(|t| vec![t]));
    }
    if options.together && targets.len() > 1 {
        all.push(targets.iter().collect());
    }
    all
}

/// Errors and outliers of a phase become caveats.
fn judge(options: &Options, run: &mut Run, phase: &mut Phase) {
    if let Some(client) = phase.cost.as_ref().and_then(|c| c.client.as_ref()).filter(|c| c.cpu_share > 0.9) {
        run.caveats.push(Caveat {
            severity: Severity::Warning,
            code: "client-throttled".to_owned(),
            text: format!(
                "{}: this program used {:.0} % of the machine's CPU: the drives may give more",
                phase.name,
                client.cpu_share * 100.0
            ),
        });
    }
    let mut rates: Vec<(String, f64)> = Vec::new();
    for operation in &phase.operations {
        let failed: u64 = operation.errors.values().sum();
        if failed > 0 {
            let kinds: Vec<&str> = operation.errors.keys().map(String::as_str).collect();
            run.caveats.push(Caveat {
                severity: Severity::Invalid,
                code: "errors".to_owned(),
                text: format!("{}: {failed} {}s failed ({})", phase.name, operation.name, kinds.join(", ")),
            });
        }
        for (drive, share) in &operation.by {
            let rate = share.bytes as f64 / phase.seconds.max(1e-9);
            match rates.iter_mut().find(|r| r.0 == *drive) {
                Some(known) => known.1 += rate,
                None => rates.push((drive.clone(), rate)),
            }
        }
    }
    if rates.len() < 2 {
        return;
    }
    let numbers: Vec<f64> = rates.iter().map(|r| r.1).collect();
    let found = outliers(&numbers, options.outlier_percent);
    phase.values.insert("outlier_drives".to_owned(), found.len() as f64);
    let names: Vec<&str> = rates.iter().map(|r| r.0.trim_start_matches("drive ")).collect();
    warn_outliers(run, &format!("{}, all together", phase.name), &names, &numbers, &found);
}

fn name_outliers(run: &mut Run, phase: &str, targets: &[Target], rates: &[f64], found: &[Outlier]) {
    let names: Vec<String> = targets.iter().map(|t| t.path.display().to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    warn_outliers(run, phase, &names, rates, found);
}

fn warn_outliers(run: &mut Run, phase: &str, names: &[&str], rates: &[f64], found: &[Outlier]) {
    for outlier in found {
        let z = outlier.z.map(|z| format!(", robust z-score {z:.1}")).unwrap_or_default();
        run.caveats.push(Caveat {
            severity: Severity::Warning,
            code: "outlier-drive".to_owned(),
            text: format!(
                "{phase}: {} reaches {}, {:+.0} % from the {}{z}",
                names[outlier.index],
                units::bytes_per_s(rates[outlier.index]),
                outlier.percent,
                if names.len() == 2 { "other drive" } else { "median of the drives" }
            ),
        });
    }
}

#[cfg(test)]
mod tests;
