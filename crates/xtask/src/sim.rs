//! The random tests at a multiple of their size in `ci`: simulated media that lose power, every order
//! of protocol messages, concurrent histories, whole stores against their model.
//!
//! Invariant: the same tests as in `ci`, only more of them; a failure prints the seed that repeats it.

use std::time::Instant;

use clap::Args;

use crate::{Outcome, ci::clock, shell};

/// How much.
#[derive(Args)]
pub struct Options {
    /// So many times the number of cases that `ci` runs
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    times: u64,
    /// Only suites whose name contains this
    #[arg(long)]
    only: Option<String>,
}

/// Name, package, arguments of `cargo test`.
const SUITES: [(&str, &str, &[&str]); 5] = [
    ("crashes of one drive", "ashlar-drive", &["--test", "all", "crash::"]),
    ("orders of protocol messages", "ashlar-commit", &["--test", "random"]),
    ("histories over drives", "ashlar-erasure-set", &["--lib", "histories_are_linearizable"]),
    ("stores against their model", "ashlar-object", &["--lib", "tests::random"]),
    ("uploads in every order", "ashlar-object", &["--lib", "tests::interleave"]),
];
/// What `ci` runs of the two suites that take absolute numbers.
const CRASH_IMAGES: u64 = 100_000;
const SCHEDULES: u64 = 6_000;

/// Runs the suites one after the other; the first failure ends it.
pub fn run(options: &Options) -> Outcome {
    let wanted = |name: &str| options.only.as_deref().is_none_or(|o| name.contains(o));
    let chosen: Vec<_> = SUITES.iter().filter(|(name, ..)| wanted(name)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = SUITES.iter().map(|s| s.0).collect();
        return Err(format!("no such suite; there are: {}", names.join(", ")).into());
    }
    for (name, package, arguments) in chosen {
        println!("\n=== {name}, {} times", options.times);
        let begin = Instant::now();
        let mut command = shell::cargo();
        command.args(["test", "--release", "--package", package]).args(*arguments);
        command
            .env("ASHLAR_TIMES", options.times.to_string())
            .env("ASHLAR_CRASH_IMAGES", CRASH_IMAGES.saturating_mul(options.times).to_string())
            .env("ASHLAR_CASES", SCHEDULES.saturating_mul(options.times).min(u32::MAX.into()).to_string());
        shell::show(&mut command)?;
        println!("{name}: passed in {}", clock(begin.elapsed()));
    }
    Ok(())
}
