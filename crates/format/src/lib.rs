#![forbid(unsafe_code)]
//! Every byte that outlives the process: identities, records, labels, journal framing, frames.
//!
//! Invariants: encoders and decoders are pure; a decoder never panics and never allocates more
//! than a small multiple of its input; a format number is the first byte of everything. This
//! room must never know where the bytes are kept or who asked for them.

pub mod codec;
pub mod frame;
pub mod ids;
pub mod journal;
pub mod label;
pub mod pages;
pub mod record;

pub use ids::{Ballot, BucketId, DeploymentId, DriveId, GroupId, RegisterKey, Space, VersionId, WriteId};
pub use pages::{Below, Entry, Page, PageRef};
pub use record::{Body, Checksum, Data, Held, Paged, Part, Record, Retention, Upload, UploadState, Version};

/// Why bytes could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not what this format says: treat as corrupt.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// Written by a newer release: refuse, do not repair.
    #[error("{what} has format {found}, which this release does not know")]
    Version {
        /// Which structure.
        what: &'static str,
        /// The format number found.
        found: u32,
    },
    /// It uses what only a newer release knows: refuse, do not repair.
    #[error("{0}: written by a newer release")]
    Newer(&'static str),
    /// A checksum does not match.
    #[error("checksum of {0} does not match")]
    Checksum(&'static str),
    /// The bytes are sound but belong to another place.
    #[error("{0} belongs to another place")]
    Identity(&'static str),
}
