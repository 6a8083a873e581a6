#![forbid(unsafe_code)]
#![recursion_limit = "256"]
//! `ashlar`: one program, many commands.
//!
//! `server` builds the house (drives, sets, store, S3 door) and listens; everything else is a
//! client of an S3 endpoint. Invariant: `main` parses, starts one runtime and hands over; it knows
//! nothing of what a command does.

mod bench;
mod client;
#[cfg(test)]
mod documentation;
mod examples;
mod root_key;
mod server;
mod size;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use client::Globals;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// S3 object storage on erasure-coded drives.
#[derive(Parser)]
#[command(name = "ashlar", version, about, propagate_version = true, disable_help_subcommand = true)]
#[command(after_long_help = client::failure::EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve S3 from drives.
    Server(Box<server::Args>),
    /// Measure S3 servers, drives and networks; plan, compare and report.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Measure how fast a server takes and gives objects, in about a minute
    Speedtest(bench::speedtest::Options),
    /// Make the root key of encryption at rest, in clear or sealed under a passphrase
    #[command(subcommand)]
    RootKey(root_key::Command),
    #[command(flatten)]
    Client(client::Command),
}

/// The whole command line, with examples.
fn command() -> clap::Command {
    examples::add(Cli::command())
}

fn main() -> ExitCode {
    let mut cli = match Cli::from_arg_matches(&command().get_matches()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    cli.globals.root = Some(command);
    match cli.command {
        Command::Server(args) => server::run(*args, &cli.globals),
        Command::Bench(command) => bench::run(command, &cli.globals),
        Command::Speedtest(options) => bench::speedtest::run(&options, &cli.globals),
        Command::RootKey(command) => root_key::run(&command, &cli.globals),
        Command::Client(command) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(client::run(command, &cli.globals)),
                Err(error) => {
                    eprintln!("ashlar: cannot start: {error}");
                    ExitCode::FAILURE
                }
            }
        }
    }
}
