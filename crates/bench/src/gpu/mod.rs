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
//! | `session` | nothing: what the others share |
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
mod session;
mod staged;

use std::sync::atomic::AtomicBool;

use ashlar_bench_report::result::Run;
use ashlar_erasure::Code;
use ashlar_gpu::Device;

pub use session::{Options, Section};

use crate::{
    error::{Error, Result},
    host, stall,
};
use session::{Session, cores};

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
    let mut session = Session::new(options, run, stop, note);
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
}
