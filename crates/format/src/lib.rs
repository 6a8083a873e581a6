#![forbid(unsafe_code)]
//! The byte formats of everything that is stored: identifiers, records, labels, the journal, frames.
//!
//! Invariants: encoders and decoders are pure; a decoder never panics and never allocates more than a small
//! multiple of its input; everything begins with a format number.
//!
//! Must not depend on: where the bytes are stored, who asked for them.

pub mod codec;
pub mod frame;
pub mod ids;
pub mod journal;
pub mod label;
pub mod pages;
pub mod record;

pub use ids::{Ballot, BucketId, DeploymentId, DriveId, GroupId, RegisterKey, Space, VersionId, WriteId};
pub use pages::{Below, Entry, Page, PageRef};
pub use record::{
    Body, Checksum, Data, HeldKey, Paged, Part, Record, Retention, Upload, UploadState, Version,
};

/// Why bytes could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes do not have this format: handle them as corrupt.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// A newer release wrote them: refuse them, do not repair them.
    #[error("{what} has format {found}, which this release does not support")]
    Version {
        /// Which structure.
        what: &'static str,
        /// The format number found.
        found: u32,
    },
    /// They use a feature of a newer release: refuse them, do not repair them.
    #[error("{0}: written by a newer release")]
    Newer(&'static str),
    /// A checksum does not match.
    #[error("checksum of {0} does not match")]
    Checksum(&'static str),
    /// The bytes are valid but belong to another position.
    #[error("{0} belongs to another position")]
    Identity(&'static str),
}
