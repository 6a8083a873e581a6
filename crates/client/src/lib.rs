//! # ashlar-client: the S3 client that the command line, the benchmark and the tests use
//!
//! * [`Client`] has one endpoint, its credentials and its persistent connections; cloning it is cheap. Its
//!   methods are the operations, one file per family in `ops`.
//! * [`Body`] is sent, [`Answer`] is received; both are streams and are never in memory as a whole, unless
//!   the caller collects them.
//! * [`Error`] says what the caller can do about it.
//!
//! Invariants: a request is signed over exactly the bytes of the target that is sent; a request is repeated
//! only if the first attempt was certainly not processed or the request is idempotent; a connection returns
//! to the pool only after its answer was read to the end; secrets are never printed. Memory per request is
//! limited by the pieces in flight and by [`limits`].
//!
//! Must not depend on: the implementation of the server, alias files, terminals.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod answer;
mod body;
mod call;
mod chunked;
mod config;
mod encode;
mod error;
mod fault;
mod file;
mod ops;
mod pool;
mod retry;
mod sign;
mod sigv4;
mod tls;
mod types;
mod xml;

pub use answer::Answer;
pub use ashlar_checksum::{Algorithm, sha256};
pub use body::{Body, PieceStream, Source};
pub use call::{Call, Client, Repeat, Target};
pub use config::{Addressing, Config, Credentials, Payload, Tls};
pub use encode::{percent_decode, percent_encode, percent_encode_into};
pub use error::{Error, Result, ServiceError};
pub use file::FileRange;
pub use ops::lifecycle::{
    Lifecycle, LifecycleAbort, LifecycleAnd, LifecycleExpiration, LifecycleFilter, LifecycleNoncurrent,
    LifecycleRule, LifecycleTag,
};
pub use ops::list::{ListOptions, ListVersionsOptions};
pub use ops::lock::{DefaultRetention, Retention};
pub use ops::object::{CopyOptions, GetOptions, PutOptions};
pub use sign::Signer;
pub use sigv4::{AmzDate, EMPTY_SHA256, Signature, SigningKey, hex_into};
pub use tls::tls_config;
pub use types::{
    Bucket, DeleteError, DeleteOutcome, Deleted, Entry, Head, Identifier, ListPage, Notice, ObjectData, Part,
    PutOutcome, Tags, Upload, UploadPage, Versioning,
};

pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// The limits of this crate.
pub mod limits {
    /// Maximum bytes of an XML or JSON answer that is read: a page of 1,000 versions with keys of 1,024
    /// percent-encoded bytes is smaller.
    pub const ANSWER: usize = 16 << 20;
    /// Maximum bytes of an error answer that are read; the rest is not needed.
    pub const ERROR_ANSWER: usize = 64 << 10;
    /// Keys in one multi-delete, by the protocol.
    pub const DELETE_KEYS: usize = 1000;
    /// Parts in one multipart upload, by the protocol.
    pub const PARTS: u32 = 10_000;
    /// The smallest part but the last, by the protocol.
    pub const MIN_PART: u64 = 5 << 20;
    /// Maximum nesting depth of an XML answer.
    pub const XML_DEPTH: usize = 16;
}
