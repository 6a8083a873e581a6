//! The repository's own tool: `cargo xtask ci | tidy | deny | sbom | package | bench | loopdrives | fuzz | sim | model`.
//!
//! Invariants: it builds with the same profile as everything else, so that nothing is built twice;
//! it ends only processes that it started; it removes only what it made.
//!
//! Must never know: the insides of any room. It drives programs and reads files.
#![forbid(unsafe_code)]

mod ci;
mod deny;
mod package;
mod sbom;
mod shell;
mod sim;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The repository's own tool")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that must pass before a change is taken: format, lints, house rules, tests
    Ci(ci::Options),
    /// The house rules alone: which room may use which, file lengths, unsafe code, links, licences
    Tidy(tidy::Options),
    /// What the dependencies may be: licences, sources, bans, duplicates; advisories where they can be reached
    Deny,
    /// What a release is made of, as a CycloneDX document
    Sbom(sbom::Options),
    /// Loads any S3 server and prints what each operation costs it
    Bench(PassedOn),
    /// XFS file systems on loop devices in memory, as drives for the benchmark (root only)
    Loopdrives(PassedOn),
    /// Builds what is released: a static binary, a Debian package, an archive
    Package(package::Options),
    /// Fuzzes every decoder: `--seconds N --seed S TARGET...` are passed on
    Fuzz(PassedOn),
    /// The random tests at a multiple of their usual size
    Sim(sim::Options),
    /// Checks the model of the commit protocol: `small|large|mutants TRANSITIONS NAME` are passed on
    Model(PassedOn),
}

/// Arguments for another program of the repository.
#[derive(clap::Args)]
struct PassedOn {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl PassedOn {
    fn to(&self, package: &str, task: Option<&str>) -> Outcome {
        let mut command = shell::cargo();
        command.args(["run", "--release", "--package", package, "--"]).args(task).args(&self.arguments);
        shell::show(&mut command)
    }
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Ci(options) => ci::run(&options),
        Task::Tidy(options) => tidy::run(&options),
        Task::Deny => deny::run().map(|note| println!("{note}")),
        Task::Sbom(options) => sbom::run(&options),
        Task::Bench(rest) => rest.to("ashlar-server-cost", Some("bench")),
        Task::Loopdrives(rest) => rest.to("ashlar-server-cost", Some("loopdrives")),
        Task::Package(options) => package::run(&options),
        Task::Fuzz(rest) => rest.to("ashlar-fuzz", None),
        Task::Sim(options) => sim::run(&options),
        Task::Model(rest) => rest.to("ashlar-model", None),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What a task returns; the text says what to do.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
