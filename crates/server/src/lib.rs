//! # ashlar-server: `ashlar server`
//!
//! Layers; a file imports only files of its own layer and of those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | configuration | `env_file`, `environment` | variables; settings of outgoing connections |
//! | | `credentials`, `own_key`, `region`, `limits`, `tls` | root's credentials and key; limits for clients; certificates |
//! | | `drive_discovery`, `deployments` | inspection of the folders; which folders held a deployment |
//! | | `logs`, `clock`, `banner` | log and start-up output; time |
//! | types | `table`, `api` | every administration request with its actions; request and answer documents |
//! | | `connection` | one connection: its client, its time limits, its counters |
//! | | `admin_request`, `responses` | an authenticated request, its error; HTTP answers |
//! | node | `lifecycle` | carries out lifecycle rules |
//! | | `drive_monitor::order`, `node` | drives, control store, placement groups, store: the shared state of the server |
//! | | `rollback`, `background` | detection of drives that went back in time; periodic work |
//! | | `kms`, `kms_remote` | encryption keys at rest; configuration of key servers |
//! | | `drive_monitor`, `start_folders`, `node_start` | management of drives; building the node |
//! | administration | `identities`, `delegation`, `providers`, `transfer` | users, groups, keys, policies; which permissions can be granted; sign-in; export and import |
//! | | `settings`, `notify`, `events` | settings changed at run time; those of event targets; state of the targets |
//! | | `quotas`, `monitor`, `metrics`, `machine` | quotas and sizes of buckets; live streams; metrics |
//! | | `recovery`, `admin_status` | recovery of distrusted drives by an operator; the state of the deployment |
//! | | `audit` | settings of the audit log; the audit record of an administration call |
//! | entry | `args`, `minio_environment` | options; MinIO's variables with the same effect |
//! | | `admin`, `api::document`, `minio` | the administration API; its description; MinIO's API, translated to ours |
//! | | `routes`, `listen`, `serve` | routing of requests; sockets; the server from start to stop |
//!
//! Invariant: nothing is served before the node is complete; nothing is closed before requests in flight have
//! ended or their time limit has passed.
//!
//! Must not depend on: the command line of clients, the presentation of benchmark results.
#![forbid(unsafe_code)]
#![recursion_limit = "256"]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod admin;
mod admin_request;
mod admin_status;
mod api;
mod args;
mod audit;
mod background;
mod banner;
mod clock;
mod connection;
mod credentials;
mod delegation;
#[cfg(test)]
mod delegation_tests;
mod deployments;
mod drive_discovery;
mod drive_monitor;
mod env_file;
mod environment;
mod events;
mod identities;
mod kms;
mod kms_remote;
mod lifecycle;
mod limits;
mod listen;
mod logs;
mod machine;
mod metrics;
mod minio;
mod minio_environment;
mod monitor;
mod node;
mod node_start;
mod notify;
mod own_key;
mod providers;
mod quotas;
mod recovery;
mod region;
mod responses;
mod rollback;
mod routes;
mod serve;
mod settings;
mod start_folders;
mod table;
mod tls;
mod transfer;

pub use args::Args;
pub use serve::run;

/// The OpenAPI document of the administration API; `path`: the prefix of its calls.
pub fn api_document(path: &str) -> serde_json::Value {
    api::document::document(path)
}
