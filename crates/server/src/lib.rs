//! # ashlar-server: `ashlar server`
//!
//! Layers; a file imports only files of its own layer and of those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | configuration | `env_file`, `environment` | variables; with what identity providers are asked |
//! | | `credentials`, `own_key`, `region`, `limits`, `tls` | root's credentials and key; what clients share; certificates |
//! | | `drive_discovery`, `deployments` | what lies in the folders named; which folders held a deployment |
//! | | `logs`, `clock`, `banner` | what is printed; time |
//! | types | `table`, `api` | every administration request with its actions; documents taken and given |
//! | | `connection` | one connection: its client, its time limits, its counters |
//! | | `admin_request`, `responses` | a request whose sender is known, its refusal; HTTP answers |
//! | node | `lifecycle` | carries out lifecycle rules |
//! | | `drive_monitor::order`, `node` | drives, control store, sets, store: what everything in the server shares |
//! | | `rollback`, `background` | drives that went back in time; what is done now and then |
//! | | `kms`, `kms_remote` | keys for encryption at rest; what is configured of key servers |
//! | | `drive_monitor`, `start_folders`, `node_start` | looking after drives; building the node |
//! | administration | `identities`, `delegation`, `providers`, `transfer` | users, groups, keys, policies; who may give what; sign-in; export and import |
//! | | `settings`, `notify`, `events` | settings changed at run time; those of event targets, and how targets fare |
//! | | `quotas`, `monitor`, `metrics`, `machine` | limits and sizes of buckets; live streams; metrics |
//! | | `recovery`, `admin_status` | distrusted drives brought back by an operator; the state of the deployment |
//! | | `audit` | where requests are recorded; the trail of an administration call |
//! | entry | `args`, `minio_environment` | options, with those of the layers above; MinIO's variables for them |
//! | | `admin`, `api::document`, `minio` | the administration API; its description; MinIO's, translated to ours |
//! | | `routes`, `listen`, `serve` | where a request goes; sockets; the whole server from start to end |
//!
//! Invariant: nothing is served before the node is whole; nothing is closed before what was in
//! flight has ended or its time is up.
//!
//! Must never know: how a command line of a client looks, how a result of the benchmark is shown.
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
mod deployments;
mod drive_discovery;
mod drive_monitor;
mod env_file;
mod environment;
mod events;
mod identities;
mod kms;
mod kms_remote;
#[cfg(test)]
mod lattice;
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

/// The OpenAPI document of the administration API, for the path before its calls.
pub fn api_document(path: &str) -> serde_json::Value {
    api::document::document(path)
}
