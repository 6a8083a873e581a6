//! `ashlar bench gpu`: measures a GPU as an erasure engine, against the CPU.
//!
//! Without the feature `gpu` the command exists and says that the program was built without it.

#[cfg(feature = "gpu")]
mod text;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, ValueEnum};

use super::results;
use crate::{Globals, failure::Outcome, output::Output};

/// The tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tests {
    /// The bus and the memory of the GPU
    Copy,
    /// Kernels on rows in memory of the GPU
    Device,
    /// The GPU's bytes against the CPU's
    Check,
    /// Batches from memory of the host to the GPU and back
    Staged,
    /// The CPU
    Cpu,
    /// From which size of batches on the GPU is faster
    Crossover,
}

/// What to measure.
#[derive(Args)]
#[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "the options are parsed and shown all the same"))]
#[command(after_long_help = "\
NVIDIA GPUs. The driver (libcuda.so.1) and the run-time compiler (libnvrtc.so, of CUDA 12 or 13) are loaded when
the command runs; LD_LIBRARY_PATH tells where they are if the system does not. Bytes per second are of data rows.

Examples:
  ashlar bench gpu --quick
  ashlar bench gpu --out gpu.json
  ashlar bench gpu --codes 8+2,16+4 --tests staged,cpu,crossover")]
pub struct Options {
    /// Number of the GPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: usize,
    /// Data and parity rows, as in 8+4
    #[arg(
        long,
        value_name = "K+M",
        value_delimiter = ',',
        value_parser = code,
        default_value = "7+1,8+2,8+4,12+4,14+4,20+10"
    )]
    codes: Vec<(usize, usize)>,
    /// Run only these tests
    #[arg(long, value_name = "TEST", value_delimiter = ',')]
    tests: Vec<Tests>,
    /// Fewer repetitions, patterns and sizes
    #[arg(long)]
    quick: bool,
    /// Name of the result
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write the result
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn code(text: &str) -> Result<(usize, usize), String> {
    let parsed = text.split_once('+').and_then(|(k, m)| Some((k.parse().ok()?, m.parse().ok()?)));
    parsed.ok_or_else(|| "a code is written as 8+4".to_owned())
}

/// Runs the command.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| measure(options, output))
}

#[cfg(not(feature = "gpu"))]
fn measure(_: &Options, _: &Output) -> Outcome {
    use crate::failure::{Failure, Kind};
    Err(Failure::new(
        Kind::Failed,
        "this program was built without the feature `gpu` (cargo build --release --features gpu)",
    ))
}

#[cfg(feature = "gpu")]
fn measure(options: &Options, output: &Output) -> Outcome {
    use ashlar_bench::{
        gpu::{self, Section},
        host,
    };
    use std::sync::atomic::Ordering;

    use super::{s3, shared};
    use crate::failure::{Failure, Kind};

    let stop = s3::interrupt(None);
    let section = |test: &Tests| match test {
        Tests::Copy => Section::Copy,
        Tests::Device => Section::Device,
        Tests::Check => Section::Check,
        Tests::Staged => Section::Staged,
        Tests::Cpu => Section::Cpu,
        Tests::Crossover => Section::Crossover,
    };
    let parameters = gpu::Options {
        device: options.device,
        codes: options.codes.clone(),
        sections: if options.tests.is_empty() {
            Section::ALL.to_vec()
        } else {
            options.tests.iter().map(section).collect()
        },
        quick: options.quick,
    };
    let mut run = host::new_run("gpu", options.name.as_deref(), shared::command());
    gpu::run(&parameters, &mut run, stop, &|text| output.note(text)).map_err(shared::failed)?;
    shared::store(options.out.as_deref(), &run)?;
    output.result(|| serde_json::to_value(&run).unwrap_or_default(), || text::of(&run));
    shared::caveats(output, &run);
    if stop.load(Ordering::SeqCst) {
        return Err(Failure::new(
            Kind::Interrupted,
            "interrupted: what was measured until then is printed, and the result is marked invalid",
        ));
    }
    Ok(())
}
