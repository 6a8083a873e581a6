//! # ashlar-server: `ashlar server`
//!
//! The node is in `ashlar-node`, the administration API in `ashlar-admin`, options in `ashlar-server-options`. Layers; a file imports only files of
//! its own layer and of those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | configuration | `kms` | the key service, from its options in `ashlar-server-options` |
//! | | `signals` | what ends the process from outside |
//! | connections | `socket`, `connection` | plain or TLS as one type; one connection: its time limits, its traffic |
//! | entry | `service_tasks`, `import`, `restore`, `etcd_member` | periodic work of the services over the node; `ashlar cluster import` and `restore`; etcd of this node |
//! | | `routes`, `listen`, `serve` | routing of requests; sockets; the server from start to stop |
//!
//! Invariant: nothing is served before the node is complete; nothing is closed before requests in flight have
//! ended or their time limit has passed.
//!
//! Must not depend on: the command line of clients, the presentation of benchmark results.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod connection;
mod etcd_member;
mod import;
mod kms;
mod listen;
mod readiness;
mod restore;
mod routes;
mod serve;
mod service_tasks;
mod signals;
mod socket;

pub use ashlar_admin::api_document;
pub use ashlar_server_options::Args;
pub use serve::run;
