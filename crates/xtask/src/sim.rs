//! The simulator of whole clusters: one run again, or many. And the random tests at a multiple of their size in `ci`:
//! simulated media that lose power, every order of protocol messages, concurrent histories, whole stores against
//! their model.
//!
//! Invariant: the tests are those of `ci`, with more runs; a failure prints the seed that repeats it.

use std::time::Instant;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::shell::{self, Outcome, clock};

/// Which suites to run, and how many cases.
pub struct Options {
    seed: Option<u64>,
    seeds: Option<u64>,
    minutes: Option<u64>,
    long: bool,
    times: u64,
    only: Option<String>,
}

impl Options {
    /// Describes the options on the command line.
    pub fn describe(command: Command) -> Command {
        let number = |name: &'static str, value: &'static str| {
            Arg::new(name)
                .value_name(value)
                .value_parser(value_parser!(u64))
                .conflicts_with_all(["times", "only"])
        };
        let times = Arg::new("times").long("times").value_name("TIMES").default_value("10");
        let only = Arg::new("only").long("only").value_name("ONLY");
        command
            .arg(number("seed", "SEED").help("Replays this run of a cluster and prints what happened"))
            .arg(number("seeds", "N").long("seeds").help("So many runs of clusters, on all cores"))
            .arg(number("minutes", "M").long("minutes").help("As many runs of clusters as fit"))
            .arg(
                Arg::new("long")
                    .long("long")
                    .action(ArgAction::SetTrue)
                    .conflicts_with_all(["times", "only"])
                    .help("Long runs of clusters only"),
            )
            .arg(
                times
                    .value_parser(value_parser!(u64).range(1..=100_000))
                    .help("So many times the number of cases that `ci` runs"),
            )
            .arg(only.help("Only suites whose name contains this"))
    }

    /// The options on the command line.
    pub fn of(given: &ArgMatches) -> Options {
        let number = |name| given.get_one::<u64>(name).copied();
        Options {
            seed: number("seed"),
            seeds: number("seeds"),
            minutes: number("minutes"),
            long: given.get_flag("long"),
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

/// Runs clusters, if one is named or a number is given; else the suites.
pub fn run(options: &Options) -> Outcome {
    let arguments: Vec<String> = [
        options.seed.map(|s| s.to_string()),
        options.seeds.map(|n| format!("--seeds={n}")),
        options.minutes.map(|m| format!("--minutes={m}")),
        options.long.then(|| "--long".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if arguments.is_empty() { suites(options) } else { clusters(&arguments) }
}

/// Runs the simulator of clusters.
fn clusters(arguments: &[String]) -> Outcome {
    let mut command = shell::cargo();
    command.args(["run", "--release", "--package", "ashlar-sim", "--"]).args(arguments);
    shell::show(&mut command)
}

/// Runs the suites one after the other; the first failure ends it.
fn suites(options: &Options) -> Outcome {
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
