//! The error type of the crate. Its variants follow what the caller can do. The API layer maps each variant
//! to one S3 error code, which the text of the variant names if it is not obvious.
//!
//! Must not depend on: HTTP.

use ashlar_format::VersionId;

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such bucket (404 NoSuchBucket).
    #[error("no such bucket")]
    NoSuchBucket,
    /// The bucket name is taken (409 BucketAlreadyOwnedByYou).
    #[error("the bucket exists")]
    BucketExists,
    /// Keys, versions or delete markers exist (409 BucketNotEmpty).
    #[error("the bucket is not empty")]
    BucketNotEmpty,
    /// An invalid bucket name (400 InvalidBucketName): the reason.
    #[error("bucket name: {0}")]
    InvalidBucketName(&'static str),
    /// The state of the bucket does not allow this (409 InvalidBucketState): the reason.
    #[error("{0}")]
    InvalidBucketState(&'static str),
    /// No current version (404 NoSuchKey). If the current version is a delete marker, its id, for the header
    /// `x-amz-delete-marker: true`.
    #[error("no such key")]
    NoSuchKey {
        /// The delete marker that is current.
        delete_marker: Option<VersionId>,
    },
    /// The key has no such version (404 NoSuchVersion).
    #[error("no such version")]
    NoSuchVersion,
    /// The version named is a delete marker (405 MethodNotAllowed, with `Last-Modified` and
    /// `x-amz-delete-marker: true`).
    #[error("the version is a delete marker")]
    DeleteMarker {
        /// Its id.
        version_id: VersionId,
        /// Milliseconds since 1970.
        modified_ms: i64,
    },
    /// The bucket would hold more than its limit (400 XMinioAdminBucketQuotaExceeded, as in MinIO).
    #[error("the bucket holds {used} bytes and may hold {limit}")]
    QuotaExceeded {
        /// Bytes that it holds.
        used: u64,
        /// Bytes that it may hold.
        limit: u64,
    },
    /// An append at another offset than the end (400 InvalidWriteOffset).
    #[error("the object has {size} bytes")]
    WrongOffset {
        /// Its bytes.
        size: u64,
    },
    /// The version has the largest allowed number of parts (400 TooManyParts).
    #[error("the object has 10,000 parts already")]
    TooManyParts,
    /// The version is locked (403 AccessDenied).
    #[error("the version is protected by object lock")]
    Locked,
    /// Another key was renamed with the same token (400 IdempotencyParameterMismatch).
    #[error("the token was used for another rename")]
    TokenReused,
    /// No such upload, or it was aborted or completed (404 NoSuchUpload).
    #[error("no such upload")]
    NoSuchUpload,
    /// A part in a complete call is missing or has another ETag or checksum (400 InvalidPart).
    #[error("part {0} is missing or not the one named")]
    InvalidPart(u16),
    /// The list of parts is not in ascending order (400 InvalidPartOrder).
    #[error("parts are not in ascending order")]
    InvalidPartOrder,
    /// A part other than the last is smaller than 5 MiB (400 EntityTooSmall).
    #[error("part {number} has {size} bytes, less than the minimum")]
    EntityTooSmall {
        /// The part.
        number: u16,
        /// Its bytes.
        size: u64,
    },
    /// More bytes than a PUT, part or object may have (400 EntityTooLarge).
    #[error("too large")]
    EntityTooLarge,
    /// Fewer or more bytes arrived than were announced (400 IncompleteBody).
    #[error("{got} bytes were received, {expected} were announced")]
    IncompleteBody {
        /// Announced.
        expected: u64,
        /// Received.
        got: u64,
    },
    /// A stated checksum of a part or of the whole object is not that of the data (400 BadDigest).
    #[error("the checksum does not match the data")]
    BadDigest,
    /// An invalid argument (400 InvalidArgument): which and why.
    #[error("{0}")]
    InvalidArgument(&'static str),
    /// A request that is invalid here (400 InvalidRequest): the reason.
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// The key is longer than 1,024 bytes (400 KeyTooLongError).
    #[error("the key is too long")]
    KeyTooLong,
    /// A condition does not hold (412 PreconditionFailed).
    #[error("a condition of the request does not hold")]
    PreconditionFailed,
    /// The version was replaced or deleted between finding and reading it: find it again (the API layer
    /// repeats the GET; nothing was sent yet).
    #[error("the version was replaced meanwhile")]
    Changed,
    /// Concurrent changes won too often; read again and retry a conditional request (409
    /// ConditionalRequestConflict).
    #[error("lost against concurrent changes")]
    Conflict,
    /// Too busy, or a duel of writers took too long; try again (503 SlowDown).
    #[error("busy, try again")]
    Busy,
    /// Too few drives answer to do this safely (503 ServiceUnavailable): what is missing. It is unknown
    /// whether a change happened.
    #[error("too few drives answer: {0}")]
    Unavailable(String),
    /// The control store takes no changes now, so nothing that concerns buckets changes (503 ServiceUnavailable): why. It is
    /// unknown whether a change happened.
    #[error("the control store takes no changes now: {0}")]
    ControlStore(String),
    /// No space for the data (507 InsufficientStorage).
    #[error("no room left on the drives")]
    Full,
    /// More shards of this version are damaged or lost than its parity covers (503 ServiceUnavailable with a
    /// message; never "not found").
    #[error("data is damaged beyond its parity: {0}")]
    Corrupt(String),
    /// The version list of the key has reached its limit (400 InvalidRequest, as MaxVersionsExceeded).
    #[error("the key has too many versions")]
    TooManyVersions,
    /// The version is encrypted, and no key was given (400 InvalidRequest).
    #[error("the object is encrypted, and its key was not given")]
    KeyNeeded,
    /// The store is closing, or an internal inconsistency was detected (500 InternalError).
    #[error("internal error: {0}")]
    Internal(String),
}

/// Errors of the control store, translated.
pub(crate) fn control_error(e: ashlar_cluster::Error) -> Error {
    match e {
        ashlar_cluster::Error::Conflict(_) | ashlar_cluster::Error::Contended(_) => Error::Conflict,
        ashlar_cluster::Error::TooLarge(_) => Error::EntityTooLarge,
        ashlar_cluster::Error::Unavailable(why) => Error::ControlStore(why),
        e => Error::Internal(e.to_string()),
    }
}

impl From<ashlar_cluster::Error> for Error {
    fn from(e: ashlar_cluster::Error) -> Error {
        control_error(e)
    }
}
