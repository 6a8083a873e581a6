//! `ashlar fabric`: virtual enclosures of NVMe drives and disks, and what targets have.
//!
//! | file | contents |
//! |---|---|
//! | `ana` | `ana`: how namespaces are accessed through ports |
//! | `context` | what a command needs |
//! | `serve` | `serve`: the process that is an enclosure; `check` and `setup`, which need none |
//! | `fault` | `fault`: what fails, and what works again |
//! | `host` | `host`: which hosts may connect |
//! | `secrets` | secrets of hosts and targets on the command line |
//! | `services` | `services`, `locate`: enclosure services and identify LEDs |
//! | `show` | `status`, `describe`: what is said, as text |
//! | `target` | `discover`, `list`: what a target has, real or virtual; `attach`, `detach`, which are refused |
//!
//! Invariant: with `--json` the documents of the process are printed as they are.
//!
//! Must not depend on: aliases, S3.

mod ana;
mod context;
mod fault;
pub mod host;
pub mod secrets;
mod serve;
mod services;
mod show;
mod target;

pub use secrets::nqn;

use std::path::PathBuf;

use ashlar_fabric::{Error, Kind as Cause, default_socket};
use clap::{Args, Subcommand};

use self::context::Context;
use super::failure::{Failure, Kind, Outcome};
use super::output::Output;

/// Options of all commands on enclosures.
#[derive(Args, Debug)]
pub struct Options {
    /// The socket of the process that is the enclosure [default: ashlar/fabric.sock in $XDG_RUNTIME_DIR, or in /run]
    #[arg(long, global = true, value_name = "PATH", env = "ASHLAR_FABRIC_SOCKET")]
    socket: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// Actions on enclosures.
#[derive(Subcommand, Debug)]
enum Command {
    /// Be a virtual enclosure: serve its drives over NVMe/TCP
    #[command(after_long_help = serve::HELP)]
    Serve(serve::ServeOptions),
    /// Read a set-up and show what it means, without serving it
    Check(serve::CheckOptions),
    /// List the set-ups that ship with the program, or print one
    Setup(serve::SetupOptions),
    /// Show the enclosure: its bays, ports, faults and rates
    Status(show::StatusOptions),
    /// Show enclosure services: slots, fans, power supplies, sensors, modules
    #[command(visible_alias = "ses")]
    Services(services::ServicesOptions),
    /// Turn the identify LED of a bay on or off
    Locate(services::LocateOptions),
    /// Show one drive in full
    #[command(subcommand, visible_alias = "desc")]
    Describe(show::Describe),
    /// Show the subsystems and addresses of which a target of NVMe/TCP tells, real or virtual
    Discover(target::TargetOptions),
    /// List the namespaces of a target, with the addresses by which `ashlar array` takes them
    #[command(visible_alias = "ls")]
    List(target::ListOptions),
    /// Refused: says which commands use a namespace, here and with the kernel
    Attach(target::AttachOptions),
    /// Refused: says which commands give a namespace up
    Detach(target::AttachOptions),
    /// Have parts of the enclosure fail, and work again
    #[command(subcommand)]
    Fault(fault::Command),
    /// Say how hosts access namespaces through ports: asymmetric namespace access
    #[command(subcommand)]
    Ana(ana::Command),
    /// Say which hosts may connect to the drives, with their secrets
    #[command(subcommand)]
    Host(host::Command),
}

/// Runs the command.
pub async fn run(options: Options, output: &Output) -> Outcome {
    let socket = options.socket.unwrap_or_else(default_socket);
    let context = Context { output, socket };
    // It catches signals itself.
    if let Command::Serve(options) = options.command {
        return serve::serve(options, &context).await;
    }
    tokio::select! {
        outcome = dispatch(options.command, &context) => outcome,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Kind::Interrupted, "interrupted")),
    }
}

async fn dispatch(command: Command, context: &Context<'_>) -> Outcome {
    match command {
        Command::Serve(_) => Ok(()),
        Command::Check(options) => serve::check(&options, context),
        Command::Setup(options) => serve::setup(&options, context),
        Command::Status(options) => show::status(&options, context).await,
        Command::Services(options) => services::show(&options, context).await,
        Command::Locate(options) => services::locate(&options, context).await,
        Command::Describe(noun) => show::describe(noun, context).await,
        Command::Discover(options) => target::discover(&options, context).await,
        Command::List(options) => target::list(&options, context).await,
        Command::Attach(options) => target::attach(&options),
        Command::Detach(options) => target::detach(&options),
        Command::Fault(command) => fault::run(command, context).await,
        Command::Ana(command) => ana::run(command, context).await,
        Command::Host(command) => host::run(command, context).await,
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
