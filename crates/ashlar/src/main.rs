#![forbid(unsafe_code)]
//! `ashlar`: one program, many commands.
//!
//! `server` builds the house (drives, sets, store, S3 door) and listens; everything else is a
//! client of an S3 endpoint. Invariant: `main` parses, starts one runtime and hands over; it knows
//! nothing of what a command does.

mod client;
mod server;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// S3 object storage on erasure-coded drives.
#[derive(Parser)]
#[command(name = "ashlar", version, about, propagate_version = true, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(clap::Args, Debug, Clone)]
pub struct Globals {
    /// Print JSON, one object per line, instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress and no notes, only results and errors.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Use no colour (also: the environment variable NO_COLOR).
    #[arg(long, global = true)]
    pub no_color: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Serve S3 from drives.
    Server(server::Args),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    #[command(hide = true)]
    Man,
    #[command(flatten)]
    Client(client::Command),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Command::Server(args) => server::run(args, &cli.globals),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "ashlar", &mut std::io::stdout());
            ExitCode::SUCCESS
        }
        Command::Man => match clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
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
