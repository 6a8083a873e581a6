//! `ashlar bench`: the command line of the benchmark suite, one file per command.
//!
//! Invariant: nothing is measured or computed here: the code parses, calls the crate `bench`, and prints.

mod agent;
mod compare;
mod drive;
mod gpu;
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
mod spec_arrays;
pub mod speedtest;

use std::process::ExitCode;

use clap::Subcommand;

use crate::Globals;

/// The commands of `ashlar bench`.
#[derive(Subcommand)]
pub enum Command {
    /// Measure drives: sequential and random, each alone and all together
    Drive(drive::Options),
    /// Measure the network between nodes: TCP streams and round trips
    Net(net::Options),
    /// Measure a GPU as an erasure engine, against the CPU
    Gpu(gpu::Options),
    /// Compute what hardware can deliver, which resource limits it, and how close a run came
    Plan(plan::Options),
    /// Measure an Ashlar server in its states: nominal, drives down, rebuild, after
    Spec(Box<spec::Options>),
    /// Show results as tables
    Show(show::Options),
    /// Show what changed between two results, with confidence intervals
    Compare(compare::Options),
    /// Merge results of agents or repetitions
    Merge(merge::Options),
    /// Write results as one HTML file
    Report(report::Options),
    /// Convert results of warp or fio
    Import(import::Options),
    /// Load an S3 server: closed or open loop, or a search for the highest rate
    S3(Box<s3::Args>),
    /// Wait for a coordinator (`ashlar bench s3 --agents`) and run its loads
    Agent(agent::Args),
}

/// Runs a command.
pub fn run(command: Command, globals: &Globals) -> ExitCode {
    match command {
        Command::Drive(options) => drive::run(&options, globals),
        Command::Net(options) => net::run(&options, globals),
        Command::Gpu(options) => gpu::run(&options, globals),
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
