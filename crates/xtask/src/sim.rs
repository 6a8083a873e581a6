//! The random tests with a multiple of the cases in `ci`: simulated media that lose power, orders of protocol
//! messages, concurrent histories, stores against their model.
//!
//! Invariant: the same tests as in `ci`, with more cases; a failure prints the seed that reproduces it.

use std::time::Instant;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::shell::{self, Outcome, clock};

/// Which suites to run, and how many cases.
pub struct Options {
    times: u64,
    only: Option<String>,
}

impl Options {
    /// Describes the options on the command line.
    pub fn describe(command: Command) -> Command {
        let times = Arg::new("times").long("times").value_name("TIMES").default_value("10");
        let only = Arg::new("only").long("only").value_name("ONLY");
        command
            .arg(
                times
                    .value_parser(value_parser!(u64).range(1..=100_000))
                    .help("So many times the number of cases that `ci` runs"),
            )
            .arg(only.help("Only suites whose name contains this"))
    }

    /// The options on the command line.
    pub fn of(given: &ArgMatches) -> Options {
        Options {
            times: given.get_one("times").copied().unwrap_or(10),
            only: given.get_one::<String>("only").cloned(),
        }
    }
}

/// Name, package, arguments of `cargo test`.
const SUITES: [(&str, &str, &[&str]); 5] = [
    ("crashes of one drive", "ashlar-drive", &["--test", "all", "crash::"]),
    ("orders of protocol messages", "ashlar-commit", &["--test", "random"]),
    ("histories over drives", "ashlar-erasure-set", &["--lib", "histories_are_linearizable"]),
    ("stores against their model", "ashlar-object", &["--lib", "tests::random"]),
    ("uploads in every order", "ashlar-object", &["--lib", "tests::interleave"]),
];
/// The numbers of cases in `ci` of the two suites that take absolute numbers.
const CRASH_IMAGES: u64 = 100_000;
const SCHEDULES: u64 = 6_000;

/// Runs the suites one after the other; stops at the first failure.
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
