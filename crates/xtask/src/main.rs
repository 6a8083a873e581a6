//! The repository's own tool: `cargo xtask ci | tidy | deny | sbom | build | package | bench | loopdrives | harddisks | fuzz | sim | soak | model`.
//!
//! Invariants: it builds within seconds (few dependencies, no derive macros, not optimised); it ends only
//! processes that it started; it removes only files that it created.
//!
//! Must not depend on: any other crate of the repository. It runs programs and reads files.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a simulation")]

mod ci;
mod crate_tests;
mod deny;
mod guided;
mod package;
mod programs;
mod sbom;
mod shell;
mod sim;
mod soak;
mod tidy;

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use shell::Outcome;

/// The command line.
fn command_line() -> Command {
    let task = |name: &'static str, about: &'static str| Command::new(name).about(about);
    Command::new("cargo xtask")
        .bin_name("cargo xtask")
        .about("The repository's own tool")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            ci::Options::describe(task(
                "ci",
                "Everything that must pass before a change is taken: format, lints, the repository's rules, tests",
            )),
            tidy::Options::describe(task(
                "tidy",
                "The repository's rules alone: dependencies between crates, import loops, file lengths, unsafe code, links, licences",
            )),
            task(
                "deny",
                "What the dependencies may be: licences, sources, bans, duplicates; advisories where they can be reached",
            ),
            sbom::Options::describe(task("sbom", "What a release is made of, as a CycloneDX document")),
            passed_on(task("bench", "Loads any S3 server and prints what each operation costs it")),
            passed_on(task(
                "loopdrives",
                "XFS file systems on loop devices in memory, as drives for the benchmark (root only)",
            )),
            passed_on(task("harddisks", "Hard disks in software, as files for loop devices (root only)")),
            task(
                "build",
                "The program of a release, for this machine: optimised across crates, and by a profile of loads (half an hour)",
            ),
            package::Options::describe(task(
                "package",
                "Builds what is released: a static binary, a Debian package, an archive",
            )),
            passed_on(task(
                "fuzz",
                "Fuzzes every decoder: `--seconds N --seed S TARGET...` are passed on",
            )),
            sim::Options::describe(task(
                "sim",
                "Whole clusters in one thread: one run again, or many. Alone: the random tests at a multiple of their size",
            )),
            soak::describe(task("soak", "Campaigns that are too long for every change, with figures to report")),
            passed_on(task(
                "model",
                "Checks the model of the commit protocol: `small|large|mutants TRANSITIONS NAME` are passed on",
            )),
        ])
}

/// Accepts arguments for another program of the repository.
fn passed_on(command: Command) -> Command {
    let arguments = Arg::new("arguments").value_name("ARGUMENTS").action(ArgAction::Append).num_args(0..);
    command.arg(arguments.trailing_var_arg(true).allow_hyphen_values(true))
}

/// Runs another program of the repository with these arguments.
fn run_program(package: &str, task: Option<&str>, given: &ArgMatches) -> Outcome {
    let mut command = shell::cargo();
    command.args(["run", "--release", "--package", package, "--"]).args(task);
    command.args(given.get_many::<String>("arguments").into_iter().flatten());
    shell::show(&mut command)
}

fn run(task: &str, given: &ArgMatches) -> Outcome {
    match task {
        "ci" => ci::run(&ci::Options::of(given)),
        "tidy" => tidy::run(&tidy::Options::of(given)),
        "deny" => deny::run().map(|note| println!("{note}")),
        "sbom" => sbom::run(&sbom::Options::of(given)),
        "bench" | "loopdrives" | "harddisks" => run_program("ashlar-server-cost", Some(task), given),
        "build" => guided::run(),
        "package" => package::run(&package::Options::of(given)),
        "fuzz" => run_program("ashlar-fuzz", None, given),
        "sim" => sim::run(&sim::Options::of(given)),
        "soak" => soak::run(given),
        "model" => run_program("ashlar-model", None, given),
        other => Err(format!("no such task: {other}").into()),
    }
}

fn main() -> ExitCode {
    let given = command_line().get_matches();
    let outcome = given.subcommand().map_or(Ok(()), |(task, given)| run(task, given));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn every_task_is_known() {
        let tasks = command_line();
        let listed: Vec<&str> = tasks.get_subcommands().map(Command::get_name).collect();
        assert_eq!(
            listed,
            [
                "ci",
                "tidy",
                "deny",
                "sbom",
                "bench",
                "loopdrives",
                "harddisks",
                "build",
                "package",
                "fuzz",
                "sim",
                "soak",
                "model"
            ]
        );
    }

    #[test]
    fn arguments_of_other_programs_are_passed_on() {
        let given = command_line().get_matches_from(["xtask", "fuzz", "--seconds", "3", "x"]);
        let (_, given) = given.subcommand().unwrap();
        let arguments: Vec<&String> = given.get_many("arguments").unwrap().collect();
        assert_eq!(arguments, ["--seconds", "3", "x"]);
    }
}
