#![forbid(unsafe_code)]
//! The API layer for S3: the service in front of [`ashlar_object::Store`].
//!
//! Request path: `service` -> admission (`framing`, `target`, `auth`) -> `operation` -> `ops` -> answer.
//!
//! Below it is the crate `s3-protocol`: what requests, documents and answers look like. Its modules can be reached under
//! the names of this crate too.
//!
//! Files in layers; each uses its own layer and those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | context | `context`, `buckets`, `notifications`, `access_log` | what operations share; the buckets of a request, each looked up once; listeners; lines for access logs |
//! | | `while_permitted` | answers without an end that end with a permission |
//! | | `acl`, `document_cache`, `authz_decision`, `call`, `permit` | access control lists; compiled policies; decisions; a verified request; authorization |
//! | operations | `sse`, `ops`, `needs` | server-side encryption; one file per family of operations; the permissions that each needs |
//! | | `notifications::listen`, `access_log::delivery`, `audit_context` | streams for listeners; log objects; data for the audit log |
//! | request path | `service` (with `form`, `long`, `records`), `admit`, `hosting`, `sts`, `cors`, `work_permits` | the request path, request ids, logging, common headers; head, signature, operation; websites; temporary credentials; origins for all buckets; limits on unauthenticated work |
//!
//! [`Call`](ops::Call) and [`Context`] are in a low layer and contain only data; `permit` and `needs` make
//! the decisions about a call.
//!
//! Invariants: handlers accept only [`auth::Verified`] requests; bytes of bodies are neither copied nor held in memory.
//!
//! It must not depend on: drives, shards, placement, processes.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

pub mod access_log;
mod acl;
mod admit;
pub mod audit_context;
mod authz_decision;
pub mod buckets;
mod call;
mod context;
pub mod cors;
mod document_cache;
#[doc(hidden)]
pub mod fuzzed;
mod hosting;
mod needs;
pub mod notifications;
pub mod ops;
pub mod permit;
pub mod service;
pub mod sse;
mod sts;
mod while_permitted;
mod work_permits;

pub use ashlar_s3_protocol::{
    answer, archive, auth, body, chunked, cors_rules, date, documents, fault, fields, form, framing, headers,
    madmin, metrics, note, operation, parsed, policy, request_body, store_fault, tags, target, trace,
    website, xml,
};
pub use auth::{Credential, Keys, Secret, Verifier};
pub use body::Body;
pub use context::Context;
pub use cors::Origins;
pub use fault::{Code, Fault};
pub use framing::{HeadScanner, Watch};
pub use metrics::Metrics;
pub use notifications::Notifications;
pub use request_body::Source;
pub use service::{Arrival, Config, Service};
pub use while_permitted::{StillPermitted, WhilePermitted};
pub use work_permits::{WorkPermit, WorkPermits};
