//! # ashlar-server: `ashlar server`
//!
//! The node is in `ashlar-node`, the administration API in `ashlar-admin`. Layers; a file imports only files of
//! its own layer and of those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | configuration | `env_file`, `environment`, `region` | variables; settings of outgoing connections; the region |
//! | | `audit`, `cluster`, `kms`, `limits`, `tls` | options of the audit log, of a cluster, of encryption keys, of what clients share; certificates |
//! | | `logs`, `banner` | log and start-up output |
//! | | `args`, `minio_environment` | options; MinIO's variables with the same effect |
//! | | `signals` | what ends the process from outside |
//! | connections | `socket`, `connection` | plain or TLS as one type; one connection: its time limits, its traffic |
//! | entry | `service_tasks`, `import`, `restore` | periodic work of the services over the node; `ashlar cluster import` and `restore` |
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

mod args;
mod audit;
mod banner;
mod cluster;
mod connection;
mod env_file;
mod environment;
mod import;
mod kms;
mod limits;
mod listen;
mod logs;
mod minio_environment;
mod region;
mod restore;
mod routes;
mod serve;
mod service_tasks;
mod signals;
mod socket;
mod tls;

pub use args::Args;
pub use ashlar_admin::api_document;
pub use serve::run;
