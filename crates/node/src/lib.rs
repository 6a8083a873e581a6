//! # ashlar-node: drives, control store, placement groups and store as one running node, without HTTP
//!
//! Layers; a file imports only files of its own layer and of those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | ground | `clock` | time |
//! | configuration | `credentials`, `own_key` | root's credentials; the root key that the server makes |
//! | | `kms`, `kms_remote` | the configured source of encryption keys; configuration of key servers |
//! | | `questions` | what nodes ask each other besides: bytes that another part of the process answers |
//! | | `peers`, `turns` | other nodes: their drives, and ours as they reach them; turns among nodes that write one key |
//! | | `control_store` | the driver of the control store, and what the drives keep of it |
//! | | `told_control` | the same for a cluster: changes are answered when other nodes have applied them |
//! | | `authority`, `rotation` | this node's certificate; how the authority of the cluster is replaced |
//! | | `member` | this node as one of a cluster |
//! | | `drive_discovery`, `deployments` | inspection of the folders; which folders held a deployment |
//! | node | `lifecycle` | carries out lifecycle rules |
//! | | `drive_monitor::order`, `node` | the shared state of a running server |
//! | work | `rollback`, `background` | detection of drives that went back in time; periodic work |
//! | | `map_follow`, `level_follow` | what other nodes change in the map; the feature level in force |
//! | | `evacuation`, `let_go` | slots of nodes that are gone move to others; what their drives forget when they return |
//! | | `control_members` | which nodes run a member of etcd, if nodes run it themselves |
//! | | `removal` | a node that is gone for good is removed |
//! | | `recovery` | recovery of distrusted drives by an operator |
//! | | `drive_monitor`, `start_folders`, `node_start` | management of drives; building the node |
//! | | `formation`, `cluster_start` | how a node takes part in the formation of a cluster; building a node of one |
//! | | `import`, `restore` | a machine that is alone becomes the first node of a cluster; an etcd that was lost is made anew |
//!
//! [`Node::open`] builds a node from a [`Plan`]; the caller then starts the tasks of `clock`,
//! `drive_monitor`, `rollback`, `background`, `evacuation`, `let_go` and `lifecycle`, and ends with [`Node::close`].
//!
//! Invariant: the map in use is the one in the control store.
//!
//! Must not depend on: HTTP, S3, the command line.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

pub mod authority;
pub mod background;
pub mod clock;
mod cluster_start;
pub mod control_members;
mod control_store;
pub mod credentials;
pub mod deployments;
pub mod drive_discovery;
pub mod drive_monitor;
pub mod evacuation;
mod formation;
pub mod heal_limits;
pub mod import;
pub mod kms;
mod kms_remote;
pub mod let_go;
pub mod level_follow;
pub mod lifecycle;
pub mod log_buffer;
pub mod map_follow;
mod member;
mod namespaces;
mod node;
mod node_start;
pub mod own_key;
pub mod peers;
pub mod questions;
pub mod recovery;
pub mod removal;
pub mod restore;
pub mod rollback;
pub mod rotation;
mod scrub_records;
mod start_folders;
mod told_control;
mod turns;

pub use ashlar_drive::{DriveKind, start_ring};
pub use ashlar_machine::Ring;
pub use cluster_start::{ClusterPlan, token_hash};
pub use member::Member;
pub use node::{DriveFolder, Node};
pub use node_start::{Opening, Plan, Started};
