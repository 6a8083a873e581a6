#![forbid(unsafe_code)]
//! What `ashlar server` is told at its start, and what it says: options, environment variables, certificates, log and
//! start-up output.
//!
//! It is a crate of its own so that a change of an S3 operation does not compile it again.
//!
//! Layers; a file imports only files of its own layer and of those above it in this table:
//!
//! | layer | file | what it holds |
//! |---|---|---|
//! | configuration | `env_file`, `environment`, `region` | variables; settings of outgoing connections; the region |
//! | | `audit`, `cluster`, `kms`, `limits`, `tls` | options of the audit log, of a cluster, of encryption keys, of what clients share; certificates |
//! | | `logs`, `banner` | log and start-up output |
//! | | `args`, `minio_environment` | options; MinIO's variables with the same effect |
//!
//! Must not depend on: what serves requests.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

pub mod args;
pub mod audit;
pub mod banner;
pub mod cluster;
pub mod env_file;
pub mod environment;
pub mod kms;
pub mod limits;
pub mod logs;
pub mod minio_environment;
pub mod region;
pub mod tls;

pub use args::Args;
