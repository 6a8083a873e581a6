//! `ashlar cluster`: the nodes of a cluster, tokens for new nodes, and a whole cluster on this machine for trying out.
//!
//! | file | contents |
//! |---|---|
//! | `status`, `token`, `may_stop` | `ashlar cluster status`, `ashlar cluster token`, `ashlar cluster may-stop` |
//! | `upgrade` | `ashlar cluster upgrade`: the feature level, after all nodes have a new release |
//! | `remove` | `ashlar cluster remove`: a node that is gone for good |
//! | `authority` | `ashlar cluster authority rotate`: the authority of the nodes' certificates is replaced |
//! | `alias` | the alias that a command uses |
//! | `secret`, `control` | `ashlar cluster secret`, `ashlar cluster control`: for nodes that run etcd themselves |
//! | `import` | `ashlar cluster import`: a server without a cluster becomes the first node |
//! | `restore` | `ashlar cluster restore`: an etcd that was lost is made anew from the drives |
//! | `home` | the folder of a cluster on this machine: settings, credentials, lock |
//! | `process` | one child process with its log |
//! | `etcd` | etcd as a child process |
//! | `plan` | how the nodes are started; what is printed when they serve |
//! | `up` | `ashlar cluster up`: start, watch and stop all processes |
//!
//! Invariant: a command that fails changes nothing on the server, and nothing in a folder that it did not make.

mod alias;
mod authority;
mod control;
mod etcd;
mod home;
mod import;
mod may_stop;
mod plan;
mod process;
mod remove;
mod restore;
mod secret;
mod status;
mod token;
mod up;
mod upgrade;

use clap::Subcommand;

use super::context::Context;
use super::failure::Outcome;

pub use up::{UpOptions, up};

/// Actions on a cluster.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show the nodes of a cluster, its control store, and what may fail
    #[command(after_long_help = "\
The node behind the alias says what it knows: a node that has just crashed counts as running for some seconds. The exit \
code is 5 if not all data can be read and written now.

Examples:
  ashlar cluster status it
  ashlar --json cluster status it")]
    Status {
        /// The alias of any node; may be left out if there is only one alias
        alias: Option<String>,
    },
    /// Make a token with which one new node joins a cluster
    #[command(after_long_help = "\
The token is printed this once; the cluster keeps only a hash. It is used once, by `ashlar server --join TOKEN`.

Examples:
  ashlar cluster token it
  ashlar cluster token it --lifetime 10m")]
    Token(token::TokenOptions),
    /// Make this server the first node of a cluster
    #[command(after_long_help = import::HELP)]
    Import(import::ImportOptions),
    /// Make the control store anew in an etcd that lost it for good, from the snapshots on the drives
    #[command(after_long_help = restore::HELP)]
    Restore(restore::RestoreOptions),
    /// Show whether a node can be stopped now without an effect on clients
    #[command(after_long_help = "\
It can if every placement group keeps enough drives on other nodes to be read and written, nothing waits to be healed, no \
drive is being filled, and every other node that runs has said so. The exit code is 0 if it can be stopped, and 5 if it \
cannot now; then the reasons are printed. `/minio/health/cluster?maintenance=true` says the same about the node that is \
asked: 200, or 412 with the reasons.

Examples:
  ashlar cluster may-stop 3 it
  ashlar --json cluster may-stop 3 it")]
    MayStop {
        /// The number of the node
        node: u16,
        /// The alias of any node; may be left out if there is only one alias
        alias: Option<String>,
    },
    /// Raise the feature level, when all nodes run a new release
    #[command(after_long_help = upgrade::HELP)]
    Upgrade(upgrade::UpgradeOptions),
    /// Remove a node that is gone for good
    #[command(after_long_help = remove::HELP)]
    Remove(remove::RemoveOptions),
    /// The authority that signs the certificates of nodes
    #[command(subcommand)]
    Authority(authority::AuthorityCommand),
    /// The members of etcd that the nodes run themselves
    #[command(subcommand)]
    Control(control::ControlCommand),
    /// Make a secret for a cluster whose nodes run etcd themselves
    #[command(after_long_help = secret::HELP)]
    Secret,
    /// Run a whole cluster on this machine, for trying out
    #[command(after_long_help = up::HELP)]
    Up(UpOptions),
}

/// Runs the command.
pub async fn run(command: Command, context: &Context) -> Outcome {
    match command {
        Command::Status { alias } => status::status(alias, context).await,
        Command::MayStop { node, alias } => may_stop::may_stop(node, alias, context).await,
        Command::Token(options) => token::token(options, context).await,
        Command::Import(options) => import::import(&options, &context.output),
        Command::Restore(options) => restore::restore(&options, &context.output),
        Command::Upgrade(options) => upgrade::upgrade(options, context).await,
        Command::Remove(options) => remove::remove(options, context).await,
        Command::Authority(command) => authority::authority(command, context).await,
        Command::Control(command) => control::control(command, context).await,
        Command::Secret => secret::secret(&context.output),
        Command::Up(options) => up(&options, &context.output).await,
    }
}
