//! # ashlar-admin: the administration API of a server, and MinIO's
//!
//! Layers; a file imports only files of its own layer and of those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | types | `table`, `api` | every administration request with its actions; request and answer documents |
//! | | `peer` | what a request is told about its connection |
//! | | `question` | what nodes of a cluster ask each other |
//! | | `admin_request`, `responses` | an authenticated request, its error; HTTP answers |
//! | subjects | `identities`, `delegation`, `providers`, `transfer` | users, groups, keys, policies; which permissions can be granted; sign-in; export and import |
//! | | `settings`, `notify`, `events`, `heal_limits` | settings changed at run time; those of event targets; state of the targets; limits of healing |
//! | | `kms`, `lifecycle`, `quotas`, `usage`, `permissions` | encryption keys; lifecycle rules; quotas of buckets; their usage; what the caller may do |
//! | | `monitor`, `metrics`, `machine`, `metrics_token` | live streams; metrics of the node; those of the machine; who may read them |
//! | | `cluster`, `authority` | the nodes of a cluster, tokens with which others join; replacement of the cluster's authority |
//! | | `recovery`, `admin_status` | recovery of distrusted drives by an operator; the state of this process |
//! | | `everywhere`, `may_stop`, `drive_orders` | the same of all nodes of a cluster; whether one can be stopped; orders about a drive of any |
//! | | `audit`, `audit_search` | the audit record of a call; search of the records of all nodes |
//! | entry | `answering` | answers what other nodes ask |
//! | | `admin`, `api::document`, `minio` | the administration API; its description; MinIO's API, translated to ours |
//!
//! Invariants: every call except a sign-in is authenticated and permitted before it is carried out; every
//! call is recorded in the audit log before it is answered.
//!
//! Must not depend on: the command line, listeners and connections, how a node starts.
#![forbid(unsafe_code)]
#![recursion_limit = "256"]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod admin;
mod admin_request;
mod admin_status;
mod answering;
mod api;
mod audit;
mod audit_search;
mod authority;
mod browser_sign_in;
mod cluster;
mod cluster_usage;
mod delegation;
#[cfg(test)]
mod delegation_tests;
mod drive_orders;
pub mod events;
mod everywhere;
mod follow;
mod followed;
mod followers;
mod heal_limits;
mod history;
mod identities;
pub mod kms;
mod lifecycle;
mod machine;
mod may_stop;
pub mod metrics;
mod metrics_token;
mod minio;
pub mod monitor;
pub mod notify;
pub mod peer;
mod permissions;
mod placement;
pub mod providers;
pub mod question;
mod quotas;
mod recovery;
pub mod responses;
pub mod settings;
mod sign_in_test;
mod table;
mod transfer;
mod usage;
mod usage_board;

pub use admin::{Admin, Shutdown, ShutdownSender};
pub use admin_request::Refusal;
pub use browser_sign_in::SignInOptions;
pub use minio::lines::own_address;
pub use minio::{Minio, not_implemented};
pub use table::Route;

/// The OpenAPI document of the administration API; `path`: the prefix of its calls.
pub fn api_document(path: &str) -> serde_json::Value {
    api::document::document(path)
}
