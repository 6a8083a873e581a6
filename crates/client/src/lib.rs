//! An S3 client: the command line, the benchmark and the tests speak to servers through it.
//!
//! * [`Client`] holds one endpoint, its credentials and its kept-alive connections; it is cheap to
//!   clone. Operations are its methods, one file per family in `ops`.
//! * [`Body`] goes out, [`Answer`] comes in; both stream, neither is ever held whole unless the
//!   caller does so.
//! * [`Error`] says what the caller can do about it.
//!
//! Invariants: a request is signed over exactly the bytes of the target that is sent; a request is
//! sent a second time only if the first was certainly not processed or repeating it is harmless;
//! a connection returns to the pool only after its answer was read to the end; secrets are never
//! printed. Memory per request is bounded by the pieces in flight and by the limits in
//! [`limits`].
//!
//! This room must never know: the server's insides, alias files, terminals.
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
pub use sign::{AmzDate, Signer};
pub use tls::tls_config;
pub use types::{
    Bucket, DeleteError, DeleteOutcome, Deleted, Entry, Head, Identifier, ListPage, Notice, ObjectData, Part,
    PutOutcome, Tags, Upload, UploadPage, Versioning,
};

pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// The bounds this room keeps.
pub mod limits {
    /// The largest XML or JSON answer that is read: a page of 1,000 versions with keys of 1,024
    /// percent-encoded bytes stays below it.
    pub const ANSWER: usize = 16 << 20;
    /// The largest error answer that is read; what follows is not needed to name the error.
    pub const ERROR_ANSWER: usize = 64 << 10;
    /// Keys in one multi-delete, by the protocol.
    pub const DELETE_KEYS: usize = 1000;
    /// Parts in one multipart upload, by the protocol.
    pub const PARTS: u32 = 10_000;
    /// The smallest part but the last, by the protocol.
    pub const MIN_PART: u64 = 5 << 20;
    /// How deep an XML answer may nest.
    pub const XML_DEPTH: usize = 16;
}
