//! `ashlar bench`: the command line of the benchmark suite, one file per command.
//!
//! Invariant: nothing is measured or computed here; it parses, calls the `bench` room, prints.

mod compare;
mod import;
mod merge;
mod report;
mod results;
mod show;

use std::process::ExitCode;

use clap::Subcommand;

use crate::client::Globals;

/// What can be measured, and what can be done with results.
#[derive(Subcommand)]
pub enum Command {
    /// Show results as tables
    Show(show::Options),
    /// Say what changed between two results, and how sure that is
    Compare(compare::Options),
    /// Put results of agents or repetitions together
    Merge(merge::Options),
    /// Write results as one HTML file
    Report(report::Options),
    /// Turn results of warp or fio into results of this program
    Import(import::Options),
}

/// Runs a command.
pub fn run(command: Command, globals: &Globals) -> ExitCode {
    match command {
        Command::Show(options) => show::run(&options, globals),
        Command::Compare(options) => compare::run(&options, globals),
        Command::Merge(options) => merge::run(&options, globals),
        Command::Report(options) => report::run(&options, globals),
        Command::Import(options) => import::run(&options, globals),
    }
}
