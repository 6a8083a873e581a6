//! `ashlar bench`: the command line of the benchmark suite, one file per command.
//!
//! Invariant: nothing is measured or computed here; it parses, calls the `bench` room, prints.

mod agent;
mod s3;

use std::process::ExitCode;

use clap::Subcommand;

use crate::client::Globals;

/// What can be measured, and what can be done with results.
#[derive(Subcommand)]
pub enum Command {
    /// Load an S3 server: closed or open loop, or a sweep to the knee
    S3(Box<s3::Args>),
    /// Wait for a coordinator (`ashlar bench s3 --agents`) and do its loads
    Agent(agent::Args),
}

/// Runs a command.
pub fn run(command: Command, globals: &Globals) -> ExitCode {
    match command {
        Command::S3(args) => s3::run(&args, globals),
        Command::Agent(args) => agent::run(&args, globals),
    }
}
