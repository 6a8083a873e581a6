//! The commands of the command line, and the functions that run them.
//!
//! Must not be imported by those functions, except that `manual` describes the commands.

use std::process::ExitCode;

use clap::Subcommand;

use super::aliases::Aliases;
use super::context::Context;
use super::failure::{Failure, Kind, Outcome};
use super::globals::Globals;
use super::output::{Output, finish};
use super::{
    admin, alias, array, bucket, cat, change, cluster_commands, cp, event, fabric, find, iam, ilm, lock, ls,
    manual, mirror, ping, quota, rm, settings, stat,
};

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Name endpoints: `ALIAS/BUCKET/KEY` then works in every command
    #[command(subcommand)]
    Alias(alias::Command),
    /// List buckets, keys and folders
    Ls(ls::Options),
    /// Copy files and objects, up, down and between servers
    Cp(cp::Options),
    /// Print objects
    Cat(cat::Options),
    /// Print the first lines of objects
    Head(find::HeadOptions),
    /// Write the standard input to an object
    Pipe(change::PipeOptions),
    /// Move files and objects: copy, then remove the source
    Mv(cp::Options),
    /// Remove objects
    Rm(rm::Options),
    /// Find objects by name, size and age
    Find(find::FindOptions),
    /// Show folders as a tree
    Tree(find::TreeOptions),
    /// Show the total size of folders
    Du(find::DuOptions),
    /// Show the differences of two trees
    Diff(change::DiffOptions),
    /// Undo the newest changes, in buckets with versioning
    Undo(change::UndoOptions),
    /// Create links that work without credentials for a limited time
    #[command(subcommand)]
    Share(ping::ShareCommand),
    /// Show the properties of objects and buckets
    Stat(stat::Options),
    /// Create buckets
    Mb(bucket::MakeOptions),
    /// Remove buckets
    Rb(bucket::RemoveOptions),
    /// Synchronize a tree, copying only what differs
    Mirror(mirror::Options),
    /// Versioning, tags, websites and access logs of buckets
    #[command(subcommand)]
    Bucket(bucket::Command),
    /// Tags of buckets and objects
    #[command(subcommand)]
    Tag(settings::TagCommand),
    /// Set what anonymous requests may do in a bucket
    #[command(subcommand)]
    Anonymous(settings::AnonymousCommand),
    /// Set which web pages may read a bucket's objects (CORS)
    #[command(subcommand)]
    Cors(settings::CorsCommand),
    /// Set how new objects of a bucket are encrypted
    #[command(subcommand)]
    Encrypt(settings::EncryptCommand),
    /// Set the quota of a bucket
    #[command(subcommand)]
    Quota(quota::Command),
    /// Protect versions of objects for a time (retention)
    #[command(subcommand)]
    Retention(lock::RetentionCommand),
    /// Protect versions of objects until the protection is lifted (legal hold)
    #[command(subcommand)]
    Legalhold(lock::HoldCommand),
    /// Set lifecycle rules of buckets: when objects and old versions expire
    #[command(subcommand)]
    Ilm(ilm::Command),
    /// Set bucket notifications; list undelivered events
    #[command(subcommand)]
    Event(event::Command),
    /// Print the events of a bucket as they happen
    Watch(event::WatchOptions),
    /// Send requests to a server and show the response times
    Ping(ping::PingOptions),
    /// Show whether a server is ready, or wait until it is
    Ready(ping::ReadyOptions),
    /// Show the state of an Ashlar server: drives, groups, repair, memory
    Info(admin::InfoOptions),
    /// Show and start the repair of damaged data
    #[command(subcommand)]
    Heal(admin::HealCommand),
    /// List, remove, replace and verify drives
    #[command(subcommand)]
    Drive(admin::DriveCommand),
    /// Show a cluster, let nodes join it, or run one on this machine for trying out
    #[command(subcommand)]
    Cluster(cluster_commands::Command),
    /// Drive groups and virtual drives for blocks: create, export over NBD, repair
    Array(array::Options),
    /// Targets of NVMe/TCP, and virtual enclosures for tests: serve drives, have parts fail
    Fabric(fabric::Options),
    /// Administer an Ashlar server: users, groups, policies, access keys and more
    #[command(subcommand)]
    Admin(iam::Command),
    /// Print completions for a shell: `source <(ashlar completion bash)`
    Completion(manual::CompletionOptions),
    /// Write the manual pages
    Man(manual::ManOptions),
}

/// Runs a command, prints its error and returns the exit code.
pub fn run(command: Command, globals: &Globals) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(perform(command, globals)),
        Err(error) => {
            eprintln!("ashlar: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn perform(command: Command, globals: &Globals) -> ExitCode {
    let mut output = Output::new(globals);
    // These need neither aliases nor a server.
    let command = match command {
        Command::Array(options) => {
            let outcome = array::run(options, &mut output).await;
            return finish(&output, outcome);
        }
        Command::Fabric(options) => {
            let outcome = fabric::run(options, &output).await;
            return finish(&output, outcome);
        }
        other => other,
    };
    match &command {
        Command::Completion(options) => return finish(&output, manual::completion(options, globals)),
        Command::Man(options) => return finish(&output, manual::man(options, globals)),
        // It catches signals itself.
        Command::Cluster(cluster_commands::Command::Up(options)) => {
            return finish(&output, cluster_commands::up(options, &output).await);
        }
        _ => {}
    }
    let mut context = match Aliases::load(globals) {
        Ok(aliases) => Context { output, aliases, api_document: globals.api_document },
        Err(failure) => return finish(&output, Err(failure)),
    };
    let outcome = tokio::select! {
        outcome = dispatch(command, &mut context) => outcome,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Kind::Interrupted, "interrupted")),
    };
    finish(&context.output, outcome)
}

async fn dispatch(command: Command, context: &mut Context) -> Outcome {
    match command {
        Command::Alias(command) => alias::run(command, context).await,
        Command::Ls(options) => ls::run(&options, context).await,
        Command::Cp(options) => cp::run(&options, context).await,
        Command::Cat(options) => cat::run(&options, context).await,
        Command::Rm(options) => rm::run(&options, context).await,
        Command::Head(options) => find::head(&options, context).await,
        Command::Pipe(options) => change::pipe(&options, context).await,
        Command::Mv(options) => change::mv(&options, context).await,
        Command::Find(options) => find::find(&options, context).await,
        Command::Tree(options) => find::tree(&options, context).await,
        Command::Du(options) => find::du(&options, context).await,
        Command::Diff(options) => change::diff(&options, context).await,
        Command::Undo(options) => change::undo(&options, context).await,
        Command::Share(command) => ping::share(command, context).await,
        Command::Tag(command) => settings::tag(command, context).await,
        Command::Anonymous(command) => settings::anonymous(command, context).await,
        Command::Cors(command) => settings::cors(command, context).await,
        Command::Encrypt(command) => settings::encrypt(command, context).await,
        Command::Ping(options) => ping::ping(&options, context).await,
        Command::Ready(options) => ping::ready(&options, context).await,
        Command::Stat(options) => stat::run(&options, context).await,
        Command::Mb(options) => bucket::make(&options, context).await,
        Command::Rb(options) => bucket::remove(&options, context).await,
        Command::Mirror(options) => mirror::run(&options, context).await,
        Command::Bucket(command) => bucket::run(command, context).await,
        Command::Retention(command) => lock::retention(command, context).await,
        Command::Legalhold(command) => lock::hold(command, context).await,
        Command::Quota(command) => quota::run(command, context).await,
        Command::Ilm(command) => ilm::run(command, context).await,
        Command::Event(command) => event::run(command, context).await,
        Command::Watch(options) => event::watch(&options, context).await,
        Command::Info(options) => admin::info(&options, context).await,
        Command::Heal(command) => admin::heal(command, context).await,
        Command::Drive(command) => admin::drive(command, context).await,
        Command::Cluster(command) => cluster_commands::run(command, context).await,
        Command::Admin(command) => iam::run(command, context).await,
        Command::Array(_) | Command::Fabric(_) | Command::Completion(_) | Command::Man(_) => Ok(()),
    }
}
