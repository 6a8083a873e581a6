//! `ashlar bench`: the command line of the benchmark suite, one file per command.
//!
//! Invariant: nothing is measured or computed here; it parses, calls the `bench` room, prints.

use std::process::ExitCode;

use clap::Subcommand;

use crate::client::Globals;

/// What can be measured, and what can be done with results.
#[derive(Subcommand)]
pub enum Command {}

/// Runs a command.
pub fn run(command: Command, _globals: &Globals) -> ExitCode {
    match command {}
}
