//! `sim SEED` replays a run; `sim --seeds N` and `sim --minutes M` make many, on all cores.
//!
//! Invariant: a run with a finding prints the command that repeats it, and the program fails.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_sim::{Mutant, Plan, run};
use clap::Parser;

/// Simulates a whole cluster in one thread, from one seed.
#[derive(Parser)]
struct Args {
    /// Replays this run and prints its trace.
    seed: Option<u64>,
    /// Number of runs.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Duration, in minutes, in which as many runs as possible are made.
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value = "1")]
    first: u64,
    /// All runs are long; without it, one in eight is, and the others have half of the calls and faults.
    #[arg(long)]
    long: bool,
    /// A defect that is switched on.
    #[arg(long, value_name = "DEFECT")]
    mutant: Option<String>,
}

impl Args {
    fn plan(&self, seed: u64) -> Plan {
        let wanted = |m: &Mutant| self.mutant.as_ref().is_some_and(|name| *name == format!("{m:?}"));
        let plan = if self.long { Plan::long(seed) } else { Plan::of(seed) };
        Plan { mutant: Mutant::ALL.into_iter().find(wanted), ..plan }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.mutant.as_ref().is_some_and(|_| args.plan(0).mutant.is_none()) {
        eprintln!("there is no such defect; there are: {:?}", Mutant::ALL);
        return ExitCode::FAILURE;
    }
    if let Some(seed) = args.seed {
        return replay(args.plan(seed));
    }
    many(&args)
}

fn replay(plan: Plan) -> ExitCode {
    let plan = Plan { traced: true, ..plan };
    tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().init();
    println!("{plan:?}");
    let verdict = run(plan);
    for line in &verdict.trace {
        println!("{line}");
    }
    println!(
        "{} calls, {} steps, {:.3} s of virtual time, fingerprint {:016x}",
        verdict.calls,
        verdict.steps,
        verdict.took.as_secs_f64(),
        verdict.fingerprint
    );
    for finding in &verdict.findings {
        println!("FOUND: {finding}");
    }
    if verdict.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn many(args: &Args) -> ExitCode {
    let begin = Instant::now();
    let end = args.minutes.map(|m| begin + Duration::from_secs(m * 60));
    let most = args.seeds.unwrap_or(if end.is_some() { u64::MAX } else { 1000 });
    let (next, runs, found, calls) =
        (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= most || end.is_some_and(|end| Instant::now() >= end) {
                return;
            }
            let seed = args.first.wrapping_add(number);
            let verdict = std::panic::catch_unwind(|| run(args.plan(seed)));
            runs.fetch_add(1, Ordering::Relaxed);
            let findings = match verdict {
                Ok(v) => {
                    calls.fetch_add(v.calls as u64, Ordering::Relaxed);
                    v.findings
                }
                Err(_) => vec!["it panicked".to_owned()],
            };
            if !findings.is_empty() {
                found.fetch_add(1, Ordering::Relaxed);
                let long = if args.long { " --long" } else { "" };
                println!("seed {seed}: {}\n  again: cargo xtask sim {seed}{long}", findings.join("\n  "));
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    let (runs, found) = (runs.into_inner(), found.into_inner());
    println!(
        "{runs} runs, {} calls, {found} with findings, {:.0} s",
        calls.into_inner(),
        begin.elapsed().as_secs_f64()
    );
    if found == 0 && runs > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
