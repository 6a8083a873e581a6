//! `ashlar cluster restore`: makes the control store of a cluster anew in an etcd that lost it.
//!
//! Drives are the server's matter: this program replaces itself by `ashlar server`, which restores and ends.
//!
//! Must not depend on: how a restore works.

use std::ffi::OsString;

use clap::Args;

use super::import::as_server;
use crate::failure::Outcome;
use crate::output::Output;

/// A restore.
#[derive(Args, Debug)]
pub struct RestoreOptions {
    /// Only show the snapshots in the folders, and which one would be restored; etcd is not asked
    #[arg(long)]
    dry_run: bool,
    /// The options and folders of `ashlar server`; those that say where etcd is (--control, --cluster) and the folders count
    #[arg(
        value_name = "SERVER OPTIONS",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    server: Vec<OsString>,
}

/// What `--help` adds.
pub const HELP: &str = "\
For an etcd whose data is lost for good, with no backup. Stop all nodes first. Each drive keeps the last snapshot of the \
control store (etcd.0, etcd.1): buckets, identities, settings, the map of drives. Name the folders of the node that has the \
latest one; --dry-run shows the revision and the time of each. Folders with copies of etcd.0 and etcd.1 of other nodes may \
be named too. Of all, the latest is written to an etcd that holds no cluster of that name. Nodes that know as much, or less, \
go on with it when they are started; a node that knows more refuses. What was changed after the snapshot (about the last \
second) is lost. The folders are only read. If it is interrupted, repeat it.

Examples:
  ashlar cluster restore --dry-run --cluster prod /mnt/disk{1...4}
  ashlar cluster restore --control etcd://10.0.0.1:2379 --cluster prod /mnt/disk{1...4}";

/// Starts the restore in place of this process. Returns only if that fails.
pub fn restore(options: &RestoreOptions, output: &Output) -> Outcome {
    as_server(if options.dry_run { "--restore-dry-run" } else { "--restore" }, &options.server, output)
}
