//! `ashlar array`: drive groups and virtual drives, with the nouns, verbs and short names that operators of hardware and GPU
//! arrays know.
//!
//! | file | contents |
//! |---|---|
//! | `serve` | `ashlar array serve`: the process that owns groups |
//! | `nouns` | what the verbs are about, and their options |
//! | `show` | `list`, `describe`, `progress`: what is said, as text |
//! | `change` | all other verbs |
//!
//! Invariants: with `--json` or `--format json` the documents of the process are printed as they are; a verb that is given drives
//! reads them itself, and needs no process.
//!
//! Must not depend on: aliases, S3.

mod change;
mod nouns;
mod serve;
mod show;

use std::path::PathBuf;

use ashlar_array::{Client, Error, Kind as Cause, default_socket};
use clap::{Args, Subcommand, ValueEnum};

use super::failure::{Failure, Kind, Outcome};
use super::output::Output;

/// Options of all commands on arrays.
#[derive(Args, Debug)]
pub struct Options {
    /// The socket of the process that owns the groups [default: ashlar/array.sock in $XDG_RUNTIME_DIR, or in /run]
    #[arg(long, global = true, value_name = "PATH", env = "ASHLAR_ARRAY_SOCKET")]
    socket: Option<PathBuf>,
    /// How results are printed; `json` is the same as --json
    #[arg(long, global = true, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(subcommand)]
    command: Command,
}

/// A form of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One object per line.
    Json,
}

/// Actions on arrays.
#[derive(Subcommand, Debug)]
enum Command {
    /// Own drive groups: open them, rebuild and check them, and export their virtual drives over NBD
    #[command(after_long_help = serve::HELP)]
    Serve(Box<serve::ServeOptions>),
    /// List physical drives, drive groups, virtual drives or hosts of NVMe/TCP
    #[command(subcommand, visible_alias = "ls")]
    List(nouns::List),
    /// Show one physical drive, drive group, virtual drive or the last consistency check in full
    #[command(subcommand, visible_alias = "desc")]
    Describe(nouns::Describe),
    /// Create files for drives, drive groups or virtual drives; let a host connect over NVMe/TCP
    #[command(subcommand)]
    Create(nouns::Create),
    /// Delete drive groups, virtual drives, hot spares or hosts of NVMe/TCP
    #[command(subcommand, visible_alias = "del")]
    Delete(nouns::Delete),
    /// Change the marker of a drive or the rebuild speed of a group
    #[command(subcommand)]
    Edit(nouns::Edit),
    /// Put a drive in the place of another one
    #[command(subcommand)]
    Replace(nouns::Replace),
    /// Add drives to a drive group or change its level, while it is in use
    #[command(subcommand)]
    Grow(nouns::Grow),
    /// Make a virtual drive smaller, while it is in use
    #[command(subcommand)]
    Shrink(nouns::Shrink),
    /// Put groups in service that are on drives already
    #[command(subcommand)]
    Import(nouns::Import),
    /// Start a consistency check
    #[command(subcommand)]
    Start(nouns::Start),
    /// Stop a consistency check, or take a group out of service
    #[command(subcommand)]
    Stop(nouns::Stop),
    /// Show how far resyncs, rebuilds, growth and checks are, and when they will be done
    Progress(nouns::ProgressOptions),
}

/// What a command needs.
struct Context<'a> {
    output: &'a Output,
    socket: PathBuf,
}

impl Context<'_> {
    fn client(&self) -> Client {
        Client::new(&self.socket)
    }
}

/// Runs the command.
pub async fn run(options: Options, output: &mut Output) -> Outcome {
    match options.format {
        Some(Format::Json) => output.json = true,
        Some(Format::Text) => output.json = false,
        None => {}
    }
    let socket = options.socket.unwrap_or_else(default_socket);
    let context = Context { output, socket };
    // It catches signals itself.
    if let Command::Serve(options) = options.command {
        return serve::serve(*options, &context).await;
    }
    tokio::select! {
        outcome = dispatch(options.command, &context) => outcome,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Kind::Interrupted, "interrupted")),
    }
}

async fn dispatch(command: Command, context: &Context<'_>) -> Outcome {
    match command {
        Command::Serve(_) => Ok(()),
        Command::List(noun) => show::list(noun, context).await,
        Command::Describe(noun) => show::describe(noun, context).await,
        Command::Progress(options) => show::progress(&options, context).await,
        Command::Create(noun) => change::create(noun, context).await,
        Command::Delete(noun) => change::delete(noun, context).await,
        Command::Edit(noun) => change::edit(noun, context).await,
        Command::Replace(noun) => change::replace(noun, context).await,
        Command::Grow(noun) => change::grow(noun, context).await,
        Command::Shrink(noun) => change::shrink(noun, context).await,
        Command::Import(noun) => change::import(noun, context).await,
        Command::Start(noun) => change::start(noun, context).await,
        Command::Stop(noun) => change::stop(noun, context).await,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let kind = match error.kind {
            Cause::Invalid => Kind::Usage,
            Cause::NotFound => Kind::NotFound,
            Cause::Denied => Kind::Denied,
            Cause::Unavailable => Kind::Unavailable,
            Cause::Conflict | Cause::Failed => Kind::Failed,
        };
        Failure::new(kind, error.message)
    }
}
