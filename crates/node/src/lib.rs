//! # ashlar-node: drives, control store, placement groups and store as one running node, without HTTP
//!
//! Layers; a file imports only files of its own layer and of those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | ground | `clock` | time |
//! | configuration | `credentials`, `own_key` | root's credentials; the root key that the server makes |
//! | | `kms`, `kms_remote` | the configured source of encryption keys; configuration of key servers |
//! | | `peers` | other nodes: their drives, and ours as they reach them |
//! | | `drive_discovery`, `deployments` | inspection of the folders; which folders held a deployment |
//! | node | `lifecycle` | carries out lifecycle rules |
//! | | `drive_monitor::order`, `node` | the shared state of a running server |
//! | work | `rollback`, `background` | detection of drives that went back in time; periodic work |
//! | | `recovery` | recovery of distrusted drives by an operator |
//! | | `drive_monitor`, `start_folders`, `node_start` | management of drives; building the node |
//!
//! [`Node::open`] builds a node from a [`Plan`]; the caller then starts the tasks of `clock`,
//! `drive_monitor`, `rollback`, `background` and `lifecycle`, and ends with [`Node::close`].
//!
//! Invariant: the map in use is the one in the control store.
//!
//! Must not depend on: HTTP, S3, the command line.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

pub mod background;
pub mod clock;
pub mod credentials;
pub mod deployments;
pub mod drive_discovery;
pub mod drive_monitor;
pub mod kms;
mod kms_remote;
pub mod lifecycle;
mod node;
mod node_start;
mod own_key;
pub mod peers;
pub mod recovery;
pub mod rollback;
mod start_folders;

pub use node::{DriveFolder, Node};
pub use node_start::{Opening, Plan, Started};
