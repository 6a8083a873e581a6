//! Drive groups in service: the process that owns them, its exports and its management interface.
//!
//! * [`Process`]: opens groups, works in the background, exports virtual drives over NBD and NVMe/TCP, and answers management calls on a
//!   Unix socket: what `ashlar array serve` runs.
//! * [`Client`]: makes those calls. [`api`]: the documents of both sides.
//! * [`offline`]: groups that no process has open: what is on drives, and new groups.
//!
//! Files: `api` (documents), `error`, `files` (members by path, their locks), `remote` (members that are namespaces of targets), `offline`, `identity` (names for hosts), `group` (one group in service),
//! `worker` (its rebuilds and checks), `owner` (all groups of a process), `export` (requests, NBD), `limit` (requests and bytes per second), `namespace` (NVMe/TCP), `tls`, `metrics`, `service`
//! (the socket), `client`, `process`.
//!
//! Invariants: a member is locked while a process has its group open, so one process at most writes it; a management
//! call that fails changes nothing, unless its error says what was done; whoever can connect to the socket may do everything, and
//! nobody else can: its file mode is the permission.
//!
//! Must not depend on: the command line, S3.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

pub mod api;
mod client;
mod error;
mod export;
mod files;
mod group;
mod identity;
mod lend;
mod limit;
mod metrics;
mod namespace;
pub mod offline;
mod owner;
mod process;
mod remote;
mod service;
mod tls;
mod worker;

#[cfg(test)]
mod tests;

pub use ashlar_nbd::Endpoint;
pub use ashlar_nvme_tcp::host::IoPolicy;
pub use ashlar_raid::{Level, Policy, Wanted};
pub use client::Client;
pub use error::{Error, Kind};
pub use files::make_file;
pub use process::{Options, Process, default_socket};
pub use remote::RemoteOptions;
