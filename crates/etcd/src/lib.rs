#![forbid(unsafe_code)]
//! The control store in etcd: the driver for deployments of several nodes.
//!
//! | file | what it holds |
//! |---|---|
//! | `options` | where etcd is |
//! | `gateway` | requests to etcd's HTTP gateway: endpoints, authentication, what a refusal means |
//! | `wire` | requests and answers as JSON |
//! | `lines` | splits the answer to a watch |
//! | `memory` | the content in memory |
//! | `shared` | the state of the driver, and what it knows about etcd |
//! | `identity` | which store it is, and which stores it was restored from |
//! | `read` | reads everything, and checks that it follows what is known |
//! | `follow` | keeps memory up to date: watch, resumption, heartbeat |
//! | `change` | changes: one transaction each, and what became of it |
//! | `announce` | the announcements of this process, under a lease |
//! | `snapshot` | the last content on this node's drives |
//! | `create` | makes the store of a new deployment |
//! | `restore` | makes it anew from a snapshot |
//! | `driver` | the driver |
//!
//! Invariants: etcd decides; memory follows it and never goes back. A change is sent in a transaction that can
//! succeed at most once. What etcd holds is used only if it follows what this node knows.
//!
//! Must not depend on: what values mean, objects, requests of clients.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod announce;
mod change;
mod create;
mod driver;
mod error;
mod follow;
mod gateway;
mod identity;
mod lines;
mod memory;
mod options;
mod read;
mod restore;
mod shared;
mod snapshot;
mod wire;

pub use ashlar_outbound::tls::Identity as ClientCertificate;
pub use driver::{Etcd, clock_offset};
pub use error::{Error, Result};
#[doc(hidden)]
pub use lines::fuzzed_watch;
pub use options::Options;
pub use restore::{Kept, Restored, latest, look, restore};
pub use snapshot::FILES;
#[doc(hidden)]
pub use snapshot::fuzzed_snapshot;
