//! What the tests of a GPU share: the options, the run that they add phases to, the computations.
//!
//! Must not depend on: the tests.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use ashlar_bench_report::{
    result::{Caveat, Load, Phase, Run, Severity},
    units,
};
use ashlar_erasure::Code;
use ashlar_gpu::{Computation, Error as GpuError, crossover::Spread};

use crate::error::{Error, Result};

/// Bytes of a row.
pub(super) const ROW: usize = 64 << 10;

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
    pub(super) fn check(&self) -> Result<()> {
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

/// CPUs this process may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the parts share.
pub(super) struct Session<'a> {
    pub(super) options: &'a Options,
    run: &'a mut Run,
    stop: &'a AtomicBool,
    note: &'a dyn Fn(&str),
    begin: Instant,
    /// When the last phase ended.
    ended_s: f64,
}

impl<'a> Session<'a> {
    /// A session that begins now.
    pub(super) fn new(
        options: &'a Options,
        run: &'a mut Run,
        stop: &'a AtomicBool,
        note: &'a dyn Fn(&str),
    ) -> Session<'a> {
        Session { options, run, stop, note, begin: Instant::now(), ended_s: 0.0 }
    }

    pub(super) fn quick(&self) -> bool {
        self.options.quick
    }

    pub(super) fn repetitions(&self) -> usize {
        if self.quick() { 3 } else { 7 }
    }

    /// About how long a repetition takes.
    pub(super) fn time(&self) -> Duration {
        Duration::from_millis(if self.quick() { 60 } else { 150 })
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Encoding, and reconstruction of the first `m` rows, for each code; none when the run is to end.
    pub(super) fn computations(&self) -> Vec<(String, Computation)> {
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
    pub(super) fn phase(&mut self, name: String, concurrency: usize, values: Vec<(String, f64)>) {
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
    pub(super) fn attempt<T>(&mut self, what: &str, result: Result<T, GpuError>) -> Option<T> {
        result.map_err(|e| self.caveat(Severity::Warning, "errors", format!("{what}: {e}"))).ok()
    }

    /// Bytes of the GPU that are not those of the CPU.
    pub(super) fn wrong(&mut self, what: &str) {
        let text = format!("{what}: the GPU's bytes are not those of the CPU");
        self.caveat(Severity::Invalid, "wrong-bytes", text);
    }

    fn caveat(&mut self, severity: Severity, code: &str, text: String) {
        (self.note)(&text);
        self.run.caveats.push(Caveat { severity, code: code.to_owned(), text });
    }
}

/// `name`, `name_min` and `name_max`.
pub(super) fn values(name: &str, spread: Spread) -> Vec<(String, f64)> {
    vec![
        (name.to_owned(), spread.median),
        (format!("{name}_min"), spread.min),
        (format!("{name}_max"), spread.max),
    ]
}

/// The values of a rate: `bytes` in so many seconds.
pub(super) fn rates(bytes: usize, seconds: Spread) -> Vec<(String, f64)> {
    values("bytes_per_s", rate(bytes, seconds))
}

pub(super) fn rate(bytes: usize, seconds: Spread) -> Spread {
    seconds.map(|s| bytes as f64 / s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;

    #[test]
    fn computations_of_every_code_become_phases_one_after_another() {
        let options = Options { codes: vec![(2, 1), (3, 2)], ..Options::default() };
        let mut run = host::new_run("gpu", None, Vec::new());
        let stop = AtomicBool::new(false);
        let mut session = Session::new(&options, &mut run, &stop, &|_| ());
        for (what, computation) in session.computations() {
            let inputs = computation.matrix().inputs();
            session.phase(format!("cpu {what}"), 2, rates(inputs, Spread::of(vec![4.0, 1.0, 2.0])));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(session.computations().is_empty());
        let names: Vec<&str> = run.phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["cpu encode 2+1", "cpu reconstruct 2+1", "cpu encode 3+2", "cpu reconstruct 3+2"]);
        let last = &run.phases[3];
        assert!((last.at_s - run.phases[2].at_s - run.phases[2].seconds).abs() < 1e-9);
        let rates = ["bytes_per_s_min", "bytes_per_s", "bytes_per_s_max"].map(|name| last.values[name]);
        assert_eq!(rates, [0.75, 1.5, 3.0]);
        assert_eq!(last.load, Load::Closed { concurrency: 2 });
    }
}
