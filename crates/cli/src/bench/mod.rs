//! `ashlar bench`: the command line of the benchmark suite, one file per command.
//!
//! Invariant: nothing is measured or computed here; it parses, calls the `bench` room, prints.

mod agent;
mod compare;
mod drive;
mod import;
mod merge;
mod net;
mod plan;
mod report;
mod results;
mod s3;
mod shared;
mod show;
mod spec;
pub mod speedtest;

use std::process::ExitCode;

use clap::Subcommand;

use crate::Globals;

/// What can be measured, and what can be done with results.
#[derive(Subcommand)]
pub enum Command {
    /// Measure drives: sequential and random, each alone and all together
    Drive(drive::Options),
    /// Measure the network between nodes: TCP streams and round trips
    Net(net::Options),
    /// What hardware can give at most, what binds, and how near a run came
    Plan(plan::Options),
    /// Measure the life of an Ashlar server: nominal, drives down, rebuild, after
    Spec(Box<spec::Options>),
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
    /// Load an S3 server: closed or open loop, or a sweep to the knee
    S3(Box<s3::Args>),
    /// Wait for a coordinator (`ashlar bench s3 --agents`) and do its loads
    Agent(agent::Args),
}

/// Runs a command.
pub fn run(command: Command, globals: &Globals) -> ExitCode {
    match command {
        Command::Drive(options) => drive::run(&options, globals),
        Command::Net(options) => net::run(&options, globals),
        Command::Plan(options) => plan::run(&options, globals),
        Command::Spec(options) => spec::run(&options, globals),
        Command::Show(options) => show::run(&options, globals),
        Command::Compare(options) => compare::run(&options, globals),
        Command::Merge(options) => merge::run(&options, globals),
        Command::Report(options) => report::run(&options, globals),
        Command::Import(options) => import::run(&options, globals),
        Command::S3(args) => s3::run(&args, globals),
        Command::Agent(args) => agent::run(&args, globals),
    }
}
