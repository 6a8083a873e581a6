//! Erasure coding on a GPU against the CPU of the same machine, and whether the GPU's bytes are right.
//!
//! | file | what it measures |
//! |---|---|
//! | `copy` | the bus in each direction, and the device memory: the floor of everything else |
//! | `device` | kernels on rows in memory of the device |
//! | `check` | nothing: it compares every byte with what the CPU makes |
//! | `staged` | batches from memory of the host to the device and back |
//! | `cpu` | the CPU on 1 to 16 cores, from memory |
//! | `crossover` | from which size of batches on the device is faster than how many cores |
//!
//! Every figure is the middle of several repetitions, with the smallest and the largest beside it. Bytes per second
//! are of data rows, also for a reconstruction.
//!
//! Invariants: what fails is a caveat, and the rest goes on; wrong bytes make the result invalid.
//!
//! Must not depend on: how results are shown.

mod check;
mod copy;
mod cpu;
mod crossover;
mod device;
mod staged;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use ashlar_erasure::Code;
use ashlar_gpu::{Computation, Device, Error as GpuError, crossover::Spread};

use crate::{
    error::{Error, Result},
    host,
    result::{Caveat, Load, Phase, Run, Severity},
    stall, units,
};

/// Bytes of a row.
const ROW: usize = 64 << 10;

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The bus and the device memory.
    Copy,
    /// Kernels on rows in memory of the device. Before the check, which would have compiled them.
    Device,
    /// Every byte against the CPU.
    Check,
    /// Batches from memory of the host and back.
    Staged,
    /// The CPU.
    Cpu,
    /// Who is faster from which size on.
    Crossover,
}

impl Section {
    /// All of them, in the order in which they run.
    pub const ALL: [Section; 6] =
        [Section::Copy, Section::Device, Section::Check, Section::Staged, Section::Cpu, Section::Crossover];
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of the GPU, from 0 on.
    pub device: usize,
    /// Data and parity rows of the codes.
    pub codes: Vec<(usize, usize)>,
    /// The parts of the measurement.
    pub sections: Vec<Section>,
    /// Fewer repetitions, patterns and sizes.
    pub quick: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            device: 0,
            codes: vec![(7, 1), (8, 2), (8, 4), (12, 4), (14, 4), (20, 10)],
            sections: Section::ALL.to_vec(),
            quick: false,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        if self.codes.is_empty() || self.sections.is_empty() {
            return Err(Error::usage("name at least one code and one test"));
        }
        for &(k, m) in &self.codes {
            if m == 0 || m > k || m > ashlar_gpu::TABLE_OUTPUTS || Code::new(k, m).is_err() {
                return Err(Error::usage(format!(
                    "{k}+{m}: measured are codes of 1 to {} parity rows, not more than data rows, at most 64 in all",
                    ashlar_gpu::TABLE_OUTPUTS
                )));
            }
        }
        Ok(())
    }
}

/// Measures a GPU, and adds phases and caveats to `run`. `note` gets every figure when it is measured.
///
/// # Errors
/// [`Error::Usage`]; [`Error::Setup`] if no GPU can be used here.
pub fn run(options: &Options, run: &mut Run, stop: &AtomicBool, note: &dyn Fn(&str)) -> Result<()> {
    options.check()?;
    let device = Device::open(options.device).map_err(|e| Error::setup(e.to_string()))?;
    let kernel = Code::new(8, 4).map_or_else(|e| e.to_string(), |code| code.kernel().to_string());
    note(&format!("GPU: {}", device.describe()));
    note(&format!("CPU: {} cores, kernel {kernel}", cores()));
    if let Some(client) = run.environment.first_mut() {
        client.facts.insert("gpu".to_owned(), device.describe());
        client.facts.insert("erasure kernel".to_owned(), kernel);
    }
    let watch = stall::Watch::start();
    let mut session = Session { options, run, stop, note, begin: Instant::now(), ended_s: 0.0 };
    for section in Section::ALL.into_iter().filter(|section| options.sections.contains(section)) {
        match section {
            Section::Copy => copy::run(&mut session, &device),
            Section::Device => device::run(&mut session, &device),
            Section::Check => check::run(&mut session, &device),
            Section::Staged => staged::run(&mut session, &device),
            Section::Cpu => cpu::run(&mut session),
            Section::Crossover => crossover::run(&mut session, &device),
        }
    }
    host::ended(run, &watch.end(), stop);
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the parts share.
struct Session<'a> {
    options: &'a Options,
    run: &'a mut Run,
    stop: &'a AtomicBool,
    note: &'a dyn Fn(&str),
    begin: Instant,
    /// When the last phase ended.
    ended_s: f64,
}

impl Session<'_> {
    fn quick(&self) -> bool {
        self.options.quick
    }

    fn repetitions(&self) -> usize {
        if self.quick() { 3 } else { 7 }
    }

    /// About how long a repetition takes.
    fn time(&self) -> Duration {
        Duration::from_millis(if self.quick() { 60 } else { 150 })
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Encoding, and reconstruction of the first `m` rows, for each code; none when the run is to end.
    fn computations(&self) -> Vec<(String, Computation)> {
        if self.stopped() {
            return Vec::new();
        }
        let both = |&(k, m): &(usize, usize)| {
            let code = Code::new(k, m).expect("the options were checked");
            let (present, lost): (Vec<usize>, Vec<usize>) = ((m..k + m).collect(), (0..m).collect());
            [
                (format!("encode {k}+{m}"), Computation::encode(&code).expect("it has parity rows")),
                (
                    format!("reconstruct {k}+{m}"),
                    Computation::reconstruct(&code, &present, &lost).expect("k rows are left"),
                ),
            ]
        };
        self.options.codes.iter().flat_map(both).collect()
    }

    /// Adds a phase with `concurrency` batches at once. It lasted since the last one, preparations included.
    fn phase(&mut self, name: String, concurrency: usize, values: Vec<(String, f64)>) {
        let at_s = std::mem::replace(&mut self.ended_s, self.begin.elapsed().as_secs_f64());
        let load = Load::Closed { concurrency: u32::try_from(concurrency).unwrap_or(u32::MAX) };
        let rate = values.iter().find(|(name, _)| name == "bytes_per_s");
        let shown = rate.map_or(String::new(), |(_, rate)| format!(": {}", units::bytes_per_s(*rate)));
        (self.note)(&format!("{name}, {}{shown}", load.text()));
        self.run.phases.push(Phase {
            name,
            state: None,
            repetition: 1,
            load,
            at_s,
            warmup_s: 0.0,
            seconds: self.ended_s - at_s,
            stopped_by: "count".to_owned(),
            operations: Vec::new(),
            cost: None,
            values: values.into_iter().collect(),
        });
    }

    /// What worked; what failed becomes a caveat.
    fn attempt<T>(&mut self, what: &str, result: Result<T, GpuError>) -> Option<T> {
        result.map_err(|e| self.caveat(Severity::Warning, "errors", format!("{what}: {e}"))).ok()
    }

    /// Bytes of the GPU that are not those of the CPU.
    fn wrong(&mut self, what: &str) {
        let text = format!("{what}: the GPU's bytes are not those of the CPU");
        self.caveat(Severity::Invalid, "wrong-bytes", text);
    }

    fn caveat(&mut self, severity: Severity, code: &str, text: String) {
        (self.note)(&text);
        self.run.caveats.push(Caveat { severity, code: code.to_owned(), text });
    }
}

/// `name`, `name_min` and `name_max`.
fn values(name: &str, spread: Spread) -> Vec<(String, f64)> {
    vec![
        (name.to_owned(), spread.median),
        (format!("{name}_min"), spread.min),
        (format!("{name}_max"), spread.max),
    ]
}

/// The values of a rate: `bytes` in so many seconds.
fn rates(bytes: usize, seconds: Spread) -> Vec<(String, f64)> {
    values("bytes_per_s", rate(bytes, seconds))
}

fn rate(bytes: usize, seconds: Spread) -> Spread {
    seconds.map(|s| bytes as f64 / s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(options: &Options) -> (Result<()>, Run) {
        let mut run = host::new_run("gpu", None, Vec::new());
        let result = super::run(options, &mut run, &AtomicBool::new(false), &|_| ());
        (result, run)
    }

    #[test]
    fn codes_that_no_kernel_computes_are_refused() {
        for code in [(4, 0), (2, 3), (0, 1), (40, 30), (40, 20)] {
            let options = Options { codes: vec![code], ..Options::default() };
            assert!(matches!(measure(&options).0, Err(Error::Usage(_))), "{code:?}");
        }
    }

    #[test]
    fn without_a_device_it_says_so() {
        let options = Options { device: 9, ..Options::default() };
        match measure(&options) {
            (Err(Error::Setup(why)), run) => {
                assert!(why.contains("no GPU can be used"), "{why}");
                assert!(run.phases.is_empty());
            }
            (other, _) => eprintln!("not checked: there are ten devices here: {other:?}"),
        }
    }

    #[test]
    fn the_cpu_is_measured_for_every_code() {
        let options = Options { codes: vec![(2, 1), (3, 2)], quick: true, ..Options::default() };
        let mut run = host::new_run("gpu", None, Vec::new());
        let stop = AtomicBool::new(false);
        let begin = Instant::now();
        let mut session =
            Session { options: &options, run: &mut run, stop: &stop, note: &|_| (), begin, ended_s: 0.0 };
        cpu::on(&mut session, &[1]);
        let names: Vec<&str> = run.phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["cpu encode 2+1", "cpu reconstruct 2+1", "cpu encode 3+2", "cpu reconstruct 3+2"]);
        assert!(run.phases.iter().all(|p| p.values["bytes_per_s"] > 0.0 && p.seconds > 0.0));
        assert!(run.caveats.is_empty());
    }
}
