//! `cargo xtask bench | loopdrives | harddisks`: measures the cost of operations for any S3 server, and makes drives for
//! that.
//!
//! A separate program, so that `cargo xtask` does not have to build an HTTP client.
//!
//! Must not depend on the server's code: it loads programs from outside.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a simulation")]

mod bench;
mod hard_disks;
mod loopdrives;
mod outcome;
mod shell;
mod size;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Measures what S3 operations cost a server"
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Loads any S3 server and prints what each operation costs it
    Bench(Box<bench::Options>),
    /// XFS file systems on loop devices in memory, as drives for the benchmark (root only)
    Loopdrives(loopdrives::Options),
    /// Hard disks in software, as files for loop devices (root only)
    Harddisks(hard_disks::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Bench(options) => bench::run(&options),
        Task::Loopdrives(options) => loopdrives::run(&options),
        Task::Harddisks(options) => hard_disks::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
