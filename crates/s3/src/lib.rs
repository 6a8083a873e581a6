#![forbid(unsafe_code)]
//! The S3 service on the wire: one door to [`ashlar_object::Store`].
//!
//! A request walks `service` -> gate (`framing`, `target`, `auth`) -> `operation` -> `ops` -> answer.
//!
//! Files in layers; each uses its own layer and those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | language | `fault`, `xml`, `date`, `target` | errors as S3 says them; the small languages of the protocol; bucket, key and query, decoded once |
//! | | `operation`, `tags`, `fields`, `website`, `madmin`, `archive` | which operation a request is; rules for tags; fields of forms; what websites answer; documents of MinIO's administration; compression and tar |
//! | wire | `framing`, `auth` | how a request said where it ends; signatures and keys; the type [`auth::Verified`] |
//! | | `request_body`, `chunked`, `form`, `policy` | bodies in; `aws-chunked`; `multipart/form-data` and its policy |
//! | | `body`, `note`, `trace`, `metrics` | bodies out; what is written down of them; counters |
//! | | `headers`, `answer`, `store_fault` | headers in; answers; errors of the store as errors of S3 |
//! | settings | `cors_rules`, `documents`, `parsed` | what documents of buckets say, by kind; each read once |
//! | context | `context`, `notifications`, `access_log` | what operations share; listeners; lines for access logs |
//! | | `acl`, `gate`, `ruling`, `call`, `permit` | access control lists; policies, compiled; decisions; a verified request; whether who asks may do it |
//! | operations | `sse`, `ops`, `needs` | server-side encryption; one file per family of operations; what each needs to be permitted |
//! | | `notifications::listen`, `access_log::delivery`, `audit_context` | what listeners are sent; log objects; what is noted about a request for the audit log |
//! | walk | `service`, `admit`, `hosting`, `sts`, `cors`, `turns` | the walk, request ids, logging, what every answer has; head, signature, operation; websites; temporary credentials; origins for all buckets; who waits |
//!
//! [`Call`](ops::Call) and [`Context`] stand low and hold only data; what is decided about a call is in
//! `permit` and `needs`.
//!
//! Invariants: handlers take only [`auth::Verified`] requests; one decoding of the target serves
//! both the signature and the operation; body bytes go through without a copy and without being
//! held; limits of every input stand beside the code that reads it.
//!
//! It must never know: drives, shards, placement, processes.
//!
//! The messages are ours and not those of the crate `s3s`, whose release 0.14 was read for this: it
//! verifies against two canonical paths, holds whole chunks and whole posted files in memory,
//! accepts a chunked body without its last chunk, cannot interleave versions with delete markers,
//! reads CDATA as nothing, and answers 400 where AWS ignores a header. What would have been left of
//! it is a dozen small documents.

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
mod call;
pub mod chunked;
mod context;
pub mod cors;
pub mod cors_rules;
pub mod date;
mod documents;
pub mod fault;
mod fields;
pub mod form;
pub mod framing;
#[doc(hidden)]
pub mod fuzzed;
mod gate;
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
mod turns;
pub mod website;
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
pub use turns::{Turn, Turns};
