//! The error type of the crate. Its variants follow what the caller can do.
//!
//! Must not depend on: other files of this crate.

use ashlar_commit::bucket_fence::Deletion;
use ashlar_format::Ballot;

/// Why an operation on a placement group did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too few drives answered: try again later (503). Never means "absent".
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Another writer of the same key kept winning (409 or 503 SlowDown).
    #[error("too much contention on one key")]
    Contended,
    /// Memory for the body was not available in time, or its client was too slow while others waited (503
    /// SlowDown).
    #[error("too busy: {0}")]
    Busy(&'static str),
    /// The drives have no space for new data (507 or 503).
    #[error("the drives are full")]
    Full,
    /// More shards are lost or damaged than the code can replace. The bytes before the damage may have been
    /// sent already; wrong bytes are never sent.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// The data was replaced or deleted while it was being read: read the register again.
    #[error("the data was replaced meanwhile")]
    Superseded,
    /// Invalid arguments: a defect in the caller.
    #[error("not acceptable: {0}")]
    Invalid(&'static str),
    /// The bucket is fenced by this deletion: ask the registry of buckets for the state of the deletion.
    /// Nothing was changed.
    #[error("the bucket is fenced by its deletion {}", .0.0)]
    BucketFenced(Deletion),
    /// The outcome of an update is unknown: it may or may not have been chosen. The next read of the register
    /// decides it for good.
    #[error("the outcome of the update at {0:?} is not known")]
    Unknown(Ballot),
}

/// The result of an operation on a placement group.
pub type Result<T, E = Error> = std::result::Result<T, E>;
