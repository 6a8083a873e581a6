//! The commands, and which function carries out which.
//!
//! Must not be imported by what carries them out, except that `manual` describes them.

use std::process::ExitCode;

use clap::Subcommand;

use super::aliases::Aliases;
use super::context::Context;
use super::failure::{Failure, Kind, Outcome};
use super::globals::Globals;
use super::output::{Output, finish};
use super::{
    admin, alias, bucket, cat, change, cp, event, find, iam, ilm, lock, ls, manual, mirror, quota, reach, rm,
    settings, stat,
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
    /// Show how much is in folders
    Du(find::DuOptions),
    /// Show what differs between two trees
    Diff(change::DiffOptions),
    /// Take back the newest changes, where versions are kept
    Undo(change::UndoOptions),
    /// Make links that work without credentials for some time
    #[command(subcommand)]
    Share(reach::ShareCommand),
    /// Show what is known of objects and buckets
    Stat(stat::Options),
    /// Make buckets
    Mb(bucket::MakeOptions),
    /// Remove buckets
    Rb(bucket::RemoveOptions),
    /// Synchronize a tree, copying only what differs
    Mirror(mirror::Options),
    /// Versioning and tags of buckets
    #[command(subcommand)]
    Bucket(bucket::Command),
    /// Tags of buckets and objects
    #[command(subcommand)]
    Tag(settings::TagCommand),
    /// What everybody may do in a bucket, without credentials
    #[command(subcommand)]
    Anonymous(settings::AnonymousCommand),
    /// Which web pages may ask for a bucket's objects
    #[command(subcommand)]
    Cors(settings::CorsCommand),
    /// How new objects of a bucket are encrypted
    #[command(subcommand)]
    Encrypt(settings::EncryptCommand),
    /// How much a bucket may hold
    #[command(subcommand)]
    Quota(quota::Command),
    /// Keep versions of objects for some time
    #[command(subcommand)]
    Retention(lock::RetentionCommand),
    /// Keep versions of objects until that is lifted
    #[command(subcommand)]
    Legalhold(lock::HoldCommand),
    /// Lifecycle rules of buckets: when objects expire and old versions go
    #[command(subcommand)]
    Ilm(ilm::Command),
    /// Who is told of what happens in a bucket; what could not be delivered
    #[command(subcommand)]
    Event(event::Command),
    /// Print what happens in a bucket, as it happens
    Watch(event::WatchOptions),
    /// Ask a server for signs of life and show how long its answers take
    Ping(reach::PingOptions),
    /// Say whether a server takes requests, or wait until it does
    Ready(reach::ReadyOptions),
    /// Show the state of an Ashlar server: drives, groups, repair, memory
    Info(admin::InfoOptions),
    /// Watch and start the repair of damaged data
    #[command(subcommand)]
    Heal(admin::HealCommand),
    /// List drives, take them out, replace them, check them
    #[command(subcommand)]
    Drive(admin::DriveCommand),
    /// Users, groups, policies and access keys of an Ashlar server
    #[command(subcommand)]
    Admin(iam::Command),
    /// Print the completions of a shell: `source <(ashlar completion bash)`
    Completion(manual::CompletionOptions),
    /// Write the manual pages
    Man(manual::ManOptions),
}

/// Runs a command to its end, prints what went wrong and returns the exit code.
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
    let output = Output::new(globals);
    // These need neither aliases nor a server.
    match &command {
        Command::Completion(options) => return finish(&output, manual::completion(options, globals)),
        Command::Man(options) => return finish(&output, manual::man(options, globals)),
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
        Command::Share(command) => reach::share(command, context).await,
        Command::Tag(command) => settings::tag(command, context).await,
        Command::Anonymous(command) => settings::anonymous(command, context).await,
        Command::Cors(command) => settings::cors(command, context).await,
        Command::Encrypt(command) => settings::encrypt(command, context).await,
        Command::Ping(options) => reach::ping(&options, context).await,
        Command::Ready(options) => reach::ready(&options, context).await,
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
        Command::Admin(command) => iam::run(command, context).await,
        Command::Completion(_) | Command::Man(_) => Ok(()),
    }
}
