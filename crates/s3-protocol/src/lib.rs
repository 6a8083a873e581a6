#![forbid(unsafe_code)]
//! The S3 protocol: what requests, their signatures, bodies and documents, and the answers to them look like.
//!
//! It is a crate of its own so that a change in one operation of `s3` does not compile it again.
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
//!
//! Invariants: the target is decoded once, for both the signature and the operation; bytes of bodies are neither copied nor
//! held in memory; the limits of every input are in the file that reads it.
//!
//! It must not depend on: a store in use (it knows the store's types and errors), drives, processes.
//!
//! This crate does not use the crate `s3s`, whose release 0.14 was evaluated: it verifies against two
//! canonical paths, holds whole chunks and whole posted files in memory, accepts a chunked body without its
//! last chunk, cannot interleave versions with delete markers, ignores CDATA, and answers 400 where AWS
//! ignores a header. Only a dozen small documents would have remained of it.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

pub mod answer;
pub mod archive;
pub mod auth;
pub mod body;
pub mod chunked;
pub mod cors_rules;
pub mod date;
pub mod documents;
pub mod fault;
pub mod fields;
pub mod form;
pub mod framing;
pub mod headers;
pub mod madmin;
pub mod metrics;
pub mod note;
pub mod operation;
pub mod parsed;
pub mod policy;
pub mod request_body;
pub mod store_fault;
pub mod tags;
pub mod target;
pub mod trace;
pub mod website;
pub mod xml;
