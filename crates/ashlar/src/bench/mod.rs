//! `ashlar bench`: the command line of the benchmark suite, one file per command.
//!
//! Invariant: nothing is measured or computed here; it parses, calls the `bench` room, prints.

mod drive;
mod net;
mod plan;
mod shared;

use std::process::ExitCode;

use clap::Subcommand;

use crate::client::Globals;

/// What can be measured, and what can be done with results.
#[derive(Subcommand)]
pub enum Command {
    /// Measure drives: sequential and random, each alone and all together
    Drive(drive::Options),
    /// Measure the network between nodes: TCP streams and round trips
    Net(net::Options),
    /// What hardware can give at most, what binds, and how near a run came
    Plan(plan::Options),
}

/// Runs a command.
pub fn run(command: Command, globals: &Globals) -> ExitCode {
    match command {
        Command::Drive(options) => drive::run(&options, globals),
        Command::Net(options) => net::run(&options, globals),
        Command::Plan(options) => plan::run(&options, globals),
    }
}
