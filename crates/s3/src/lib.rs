#![forbid(unsafe_code)]
//! The API layer for S3: the service in front of [`ashlar_object::Store`].
//!
//! Request path: `service` -> admission (`framing`, `target`, `auth`) -> `operation` -> `ops` -> answer.
//!
//! Files in layers; each uses its own layer and those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | language | `fault`, `xml`, `date`, `target` | errors of S3; XML and dates of the protocol; bucket, key and query, decoded once |
//! | | `operation`, `tags`, `fields`, `website`, `madmin`, `archive` | which operation a request is; rules for tags; fields of forms; what websites answer; documents of MinIO's administration; compression and tar |
//! | wire | `framing`, `auth` | framing of requests; signatures and keys; the type [`auth::Verified`] |
//! | | `request_body`, `chunked`, `form`, `policy` | bodies of requests; `aws-chunked`; `multipart/form-data` and its policy |
//! | | `body`, `note`, `trace`, `metrics` | bodies of answers; records about finished requests; counters |
//! | | `headers`, `answer`, `store_fault` | headers of requests; answers; errors of the store as errors of S3 |
//! | settings | `cors_rules`, `documents`, `parsed` | documents of buckets, by kind; cache of parsed documents |
//! | context | `context`, `buckets`, `notifications`, `access_log` | what operations share; the buckets of a request, each looked up once; listeners; lines for access logs |
//! | | `acl`, `document_cache`, `authz_decision`, `call`, `permit` | access control lists; compiled policies; decisions; a verified request; authorization |
//! | operations | `sse`, `ops`, `needs` | server-side encryption; one file per family of operations; the permissions that each needs |
//! | | `notifications::listen`, `access_log::delivery`, `audit_context` | streams for listeners; log objects; data for the audit log |
//! | request path | `service`, `admit`, `hosting`, `sts`, `cors`, `work_permits` | the request path, request ids, logging, common headers; head, signature, operation; websites; temporary credentials; origins for all buckets; limits on unauthenticated work |
//!
//! [`Call`](ops::Call) and [`Context`] are in a low layer and contain only data; `permit` and `needs` make
//! the decisions about a call.
//!
//! Invariants: handlers accept only [`auth::Verified`] requests; the target is decoded once, for both the
//! signature and the operation; bytes of bodies are neither copied nor held in memory; the limits of every
//! input are in the file that reads it.
//!
//! It must not depend on: drives, shards, placement, processes.
//!
//! This crate does not use the crate `s3s`, whose release 0.14 was evaluated: it verifies against two
//! canonical paths, holds whole chunks and whole posted files in memory, accepts a chunked body without its
//! last chunk, cannot interleave versions with delete markers, ignores CDATA, and answers 400 where AWS
//! ignores a header. Only a dozen small documents would have remained of it.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

pub mod access_log;
mod acl;
mod admit;
mod answer;
pub mod archive;
pub mod audit_context;
pub mod auth;
mod authz_decision;
pub mod body;
pub mod buckets;
mod call;
pub mod chunked;
mod context;
pub mod cors;
pub mod cors_rules;
pub mod date;
mod document_cache;
mod documents;
pub mod fault;
mod fields;
pub mod form;
pub mod framing;
#[doc(hidden)]
pub mod fuzzed;
pub mod headers;
mod hosting;
pub mod madmin;
pub mod metrics;
mod needs;
mod note;
pub mod notifications;
pub mod operation;
pub mod ops;
pub mod parsed;
pub mod permit;
pub mod policy;
pub mod request_body;
pub mod service;
pub mod sse;
mod store_fault;
mod sts;
mod tags;
pub mod target;
pub mod trace;
pub mod website;
mod work_permits;
pub mod xml;

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
pub use work_permits::{WorkPermit, WorkPermits};
