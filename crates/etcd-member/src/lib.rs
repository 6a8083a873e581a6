#![forbid(unsafe_code)]
//! An etcd member that a node runs itself: `ashlar server --control managed`.
//!
//! | file | what it holds |
//! |---|---|
//! | `address` | who the members are |
//! | `secret`, `certificate` | the secret that all nodes have, and certificates that follow from it |
//! | `program` | the program etcd on this machine |
//! | `child` | a process that ends with this one |
//! | `log_lines` | what etcd writes, in our log |
//! | `state` | the folder of the member, and what it remembers |
//! | `access` | requests to members |
//! | `greeting` | what a member tells others before its etcd runs |
//! | `founding` | how members agree to found a cluster |
//! | `start` | the options of etcd |
//! | `membership` | how a member is added, replaced and removed |
//! | `run` | the task that runs the member |
//! | `supervisor` | what the rest of the program sees of it |
//!
//! Invariants: a member that lost its data never comes back under its old number (`founding`, `membership`); etcd never
//! outlives the node. Without certificates, members are on loopback addresses only.
//!
//! Must not depend on: what is stored in etcd, drives, how nodes use it.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod access;
mod address;
mod certificate;
mod child;
mod error;
mod founding;
mod greeting;
mod log_lines;
mod membership;
mod program;
mod run;
mod secret;
mod start;
mod state;
mod supervisor;

pub use access::Status;
pub use address::{Address, Members};
pub use certificate::Certificates;
pub use child::{GRACE, guarded};
pub use error::{Error, Result};
pub use program::{INSTALL, Program, find};
pub use secret::Secret;
pub use start::COMMON;
pub use supervisor::{MemberState, Settings, Supervisor};
