//! `cargo xtask bench | loopdrives`: what the operations of any S3 server cost it, and drives to measure on.
//!
//! A program of its own, so that `cargo xtask` itself starts without an HTTP client to build.
//!
//! Must not depend on the server's code: it loads programs from outside.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a simulation")]

mod bench;
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
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Bench(options) => bench::run(&options),
        Task::Loopdrives(options) => loopdrives::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
