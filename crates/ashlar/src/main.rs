#![forbid(unsafe_code)]
//! `ashlar`: one program, many commands.
//!
//! `ashlar-server` runs the command `server`, `ashlar-cli` all others. Invariant: `main` only parses the
//! command line and calls them.
//!
//! Must not depend on: crates that `ashlar-server` and `ashlar-cli` use.

#[cfg(test)]
mod command_line;
#[cfg(test)]
mod documentation;

use std::process::ExitCode;

use ashlar_cli::{Globals, bench, examples, root_key};
use ashlar_server as server;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// S3 object storage on erasure-coded drives.
#[derive(Parser)]
#[command(name = "ashlar", version, about, propagate_version = true, disable_help_subcommand = true)]
#[command(after_long_help = ashlar_cli::EXIT_CODES)]
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
    /// Measure S3 servers, drives, networks and GPUs; plan, compare and report.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Measure how fast a server writes and reads objects, in about a minute
    Speedtest(bench::speedtest::Options),
    /// Generate a root key for encryption at rest, or seal one under a passphrase
    #[command(subcommand)]
    RootKey(root_key::Command),
    #[command(flatten)]
    Client(ashlar_cli::Command),
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
    cli.globals.api_document = Some(server::api_document);
    match cli.command {
        Command::Server(args) => server::run(*args, cli.globals.json, !cli.globals.no_color),
        Command::Bench(command) => bench::run(command, &cli.globals),
        Command::Speedtest(options) => bench::speedtest::run(&options, &cli.globals),
        Command::RootKey(command) => root_key::run(&command, &cli.globals),
        Command::Client(command) => ashlar_cli::run(command, &cli.globals),
    }
}
