//! The error type of the crate. Its variants follow what the caller can do.
//!
//! Must not depend on: other files of this crate.

use ashlar_commit::bucket_fence::Deletion;
use ashlar_format::GroupId;
use std::io;

/// Why an operation of a drive failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The shard, or its file, is not on this drive. For shards only: "no record" of a register is an answer,
    /// not an error.
    #[error("not on this drive")]
    Missing,
    /// The bytes exist and are wrong: use other drives, then heal.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// No space for new data; deletes and heals still have some.
    #[error("the drive is full")]
    Full,
    /// The file system cannot be written; reads go on.
    #[error("the drive is read-only")]
    ReadOnly,
    /// The drive took itself out of service: it must join again before it votes.
    #[error("the drive is fenced: {0}")]
    Fenced(String),
    /// The drive is closed or closing, or too slow to take more work now.
    #[error("the drive is not available: {0}")]
    Offline(&'static str),
    /// A drive that another process serves did not answer in time. It is unknown whether the request was
    /// executed.
    #[error("no answer came in time")]
    Unanswered,
    /// The drive was fenced for a newer layout of the group than the one the request was made in: fetch the map.
    #[error("the drive follows layout epoch {0}, the request an older one")]
    NewerLayout(u32),
    /// The bucket is fenced by this deletion: nothing is accepted that could add to it. Never "no record".
    #[error("the bucket is fenced by its deletion {}", .0.0)]
    BucketFenced(Deletion),
    /// The drive has not joined the placement group: none of its answers about the group counts.
    #[error("the drive does not hold placement group {0}")]
    NotHeld(GroupId),
    /// The path does not hold a drive of this deployment, or holds something else.
    #[error("{0}")]
    Unsuitable(String),
    /// The operating system failed the operation.
    #[error("{op}: {error}")]
    Io {
        /// The operation, with the name of the file.
        op: String,
        /// The error number, if there was one.
        code: Option<i32>,
        /// The message of the system.
        error: String,
    },
    /// The request is invalid (too large, empty, wrong frame size).
    #[error("not acceptable: {0}")]
    Malformed(&'static str),
}

impl Error {
    /// From an operating system error of operation `op`.
    #[must_use]
    pub fn io(op: impl Into<String>, e: &io::Error) -> Error {
        match e.raw_os_error() {
            Some(libc_codes::ENOSPC | libc_codes::EDQUOT) => Error::Full,
            Some(libc_codes::EROFS) => Error::ReadOnly,
            code => Error::Io { op: op.into(), code, error: e.to_string() },
        }
    }
}

/// The error numbers that matter here; equal on every supported Linux architecture.
mod libc_codes {
    pub const ENOSPC: i32 = 28;
    pub const EROFS: i32 = 30;
    pub const EDQUOT: i32 = 122;
}

impl From<ashlar_format::Error> for Error {
    fn from(e: ashlar_format::Error) -> Error {
        Error::Corrupt(e.to_string())
    }
}

/// The result of a drive operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;
