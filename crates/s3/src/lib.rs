#![forbid(unsafe_code)]
//! The S3 service on the wire: one door to [`ashlar_object::Store`].
//!
//! A request walks `service` -> gate (`framing`, `target`, `auth`) -> `operation` -> `ops` -> answer.
//!
//! | file | what it holds |
//! |---|---|
//! | `service` | the walk, request ids, logging, what every answer has |
//! | `admit` | the gate: head, signature, operation |
//! | `framing`, `target` | how a request said where it ends; bucket, key and query, decoded once |
//! | `auth` | signatures: V4 header, query, form, chunks; V2; keys; the type [`auth::Verified`] |
//! | `permit` | whether who asks may do it: from operation to actions, from policies to a decision |
//! | `operation` | which operation a request is; what is not implemented, by name |
//! | `intake`, `body`, `chunked`, `form` | bodies in and out; `aws-chunked`; `multipart/form-data` |
//! | `archive` | compression and tar, for PUT of an archive that is unpacked |
//! | `headers`, `date`, `xml`, `policy`, `cors` | the small languages of the protocol |
//! | `madmin` | documents as MinIO's administration clients seal them |
//! | `sse` | server-side encryption: what is asked for, content keys, bucket defaults |
//! | `sts` | temporary credentials, on the same port |
//! | `ops` | one file per family of operations |
//! | `fault`, `metrics` | errors as S3 says them; counters |
//! | `notices` | listeners, and reads that somebody wants to hear of |
//! | `witness` | what is noted about a request for the audit log |
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

pub mod access_log;
mod acl;
mod admit;
pub mod archive;
pub mod auth;
pub mod body;
pub mod chunked;
pub mod cors;
pub mod cors_rules;
pub mod date;
pub mod fault;
pub mod form;
pub mod framing;
pub mod headers;
mod hosting;
pub mod intake;
pub mod madmin;
pub mod metrics;
pub mod notices;
pub mod operation;
pub mod ops;
pub mod parsed;
pub mod permit;
pub mod policy;
pub mod service;
pub mod sse;
mod sts;
pub mod target;
pub mod trace;
mod turns;
pub mod website;
pub mod witness;
pub mod xml;

pub use auth::{Credential, Keys, Secret, Verifier};
pub use body::Body;
pub use cors::Origins;
pub use fault::{Code, Fault};
pub use framing::{HeadScanner, Watch};
pub use intake::Source;
pub use metrics::Metrics;
pub use notices::Notices;
pub use ops::Context;
pub use service::{Arrival, Config, Service};
pub use turns::{Turn, Turns};
