//! `ashlar cluster import`: makes a server without a cluster the first node of one.
//!
//! Only the server accesses drives: this program replaces itself by `ashlar server`, which imports and ends.
//!
//! Must not depend on: how an import works.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use ashlar_environment::process;
use clap::Args;

use crate::failure::{Failure, Kind, Outcome, While as _};
use crate::output::Output;

/// An import.
#[derive(Args, Debug)]
pub struct ImportOptions {
    /// Undo an import that did not complete: the server runs without a cluster again
    #[arg(long)]
    undo: bool,
    /// The options and folders of `ashlar server` on this machine, with --control, --cluster and an --address that other
    /// nodes reach
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
The server must be stopped. No object is copied: buckets, identities, settings and the map of drives move from the drives \
into etcd, which must not hold a cluster of that name. From then on the machine starts only as a node of the cluster. If it \
is interrupted, repeat it.

If the server made its own root key (it does unless one is configured), bring that file to every node and name it with \
--kms-root-key-file, here too.

Examples:
  ashlar cluster import --control etcd://10.0.0.1:2379 --cluster prod --address 10.0.0.4:9000 /mnt/disk{1...4}
  ashlar cluster import --undo --control etcd://10.0.0.1:2379 --cluster prod --address 10.0.0.4:9000 /mnt/disk{1...4}";

/// Starts the import in place of this process. Returns only if that fails.
pub fn import(options: &ImportOptions, output: &Output) -> Outcome {
    as_server(if options.undo { "--undo-import" } else { "--import" }, &options.server, output)
}

/// Starts `ashlar server` with these options in place of this process. Returns only if that fails.
pub fn as_server(first: &str, options: &[OsString], output: &Output) -> Outcome {
    let program = process::executable().when(|| "cannot find this program".to_owned())?;
    let mut command = Command::new(program);
    if output.json {
        command.arg("--json");
    }
    command.arg("server").arg(first).args(options);
    Err(Failure::new(Kind::Failed, format!("`ashlar server` cannot be started: {}", command.exec())))
}
