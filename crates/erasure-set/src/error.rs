//! What can go wrong with a placement group, by what the caller can do about it.

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
    /// Memory for the body did not come in time, or its client was too slow while others waited (503
    /// SlowDown).
    #[error("too busy: {0}")]
    Busy(&'static str),
    /// The drives have no room for new data (507 or 503).
    #[error("the drives are full")]
    Full,
    /// More shards are lost or damaged than the code can replace. The bytes before the damage may
    /// already have left; wrong bytes never do.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// The data was replaced or deleted while it was being read: read the register again.
    #[error("the data was replaced meanwhile")]
    Superseded,
    /// The arguments are not acceptable: a bug in the caller.
    #[error("not acceptable: {0}")]
    Invalid(&'static str),
    /// The bucket is fenced by this deletion: ask the registry of buckets what became of it. Nothing was changed.
    #[error("the bucket is fenced by its deletion {}", .0.0)]
    BucketFenced(Deletion),
    /// The outcome of an update is not known: it may or may not have been chosen. It will be one
    /// of both for good as soon as the register is read again.
    #[error("the outcome of the update at {0:?} is not known")]
    Unknown(Ballot),
}

/// The result of an operation on a placement group.
pub type Result<T, E = Error> = std::result::Result<T, E>;
