//! What can go wrong, by what the caller can do about it.
//!
//! Must never know: how errors are shown.

use std::{fmt, io};

use http::StatusCode;

/// The result of everything in this room.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a request did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error; its code says what to do.
    #[error("{0}")]
    Service(Box<ServiceError>),
    /// No connection could be made, so nothing was asked: check the address, try again later.
    #[error("cannot reach {endpoint}: {reason}")]
    Unreachable {
        /// `host:port` that was tried.
        endpoint: String,
        /// What the system said.
        reason: String,
    },
    /// The connection broke after the request was (partly) sent: whether it took effect is unknown.
    #[error("the connection to {endpoint} broke: {reason}")]
    Broken {
        /// `host:port` of the connection.
        endpoint: String,
        /// What the connection said.
        reason: String,
    },
    /// Nothing moved for the configured time: whether the request took effect is unknown.
    #[error("no progress for {seconds} s while {what}")]
    Timeout {
        /// What was being waited for.
        what: &'static str,
        /// For how long, in seconds.
        seconds: u64,
    },
    /// The answer is not what the protocol says: perhaps this is no S3 server.
    #[error("unexpected answer: {0}")]
    Unexpected(String),
    /// What was received is not what was stored: do not use it.
    #[error("damaged in transit: {0}")]
    Integrity(String),
    /// The caller asked for something that cannot be sent.
    #[error("{0}")]
    Invalid(String),
    /// The source of an upload could not be read.
    #[error("reading the data to send: {0}")]
    Source(#[source] io::Error),
}

/// An error that a server answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceError {
    /// The HTTP status.
    pub status: StatusCode,
    /// The S3 error code, `NoSuchKey` for example. Derived from the status where the answer has no
    /// body (HEAD).
    pub code: String,
    /// The server's words; may be empty.
    pub message: String,
    /// `x-amz-request-id`, for whoever reads the server's log; may be empty.
    pub request_id: String,
    /// What was asked for, as the server names it; may be empty.
    pub resource: String,
    /// The region the server wants, where it says so.
    pub region: Option<String>,
    /// Seconds to wait before the next try, where the server says so.
    pub retry_after: Option<u64>,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "{} ({})", self.code, self.status.as_u16())?;
        } else {
            write!(f, "{} ({})", self.message.trim_end_matches('.'), self.code)?;
        }
        if !self.request_id.is_empty() {
            write!(f, " [request {}]", self.request_id)?;
        }
        Ok(())
    }
}

impl Error {
    /// The server's answer, if it answered.
    pub fn service(&self) -> Option<&ServiceError> {
        match self {
            Error::Service(error) => Some(error),
            _ => None,
        }
    }

    /// The S3 error code, if the server answered.
    pub fn code(&self) -> Option<&str> {
        self.service().map(|e| e.code.as_str())
    }

    /// The HTTP status, if the server answered.
    pub fn status(&self) -> Option<StatusCode> {
        self.service().map(|e| e.status)
    }

    /// Whether the bucket, key, version or upload does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
            // A key whose current version is a delete marker, asked for by its version.
            || self.code() == Some("MethodNotAllowed")
    }

    /// Whether the credentials are wrong or do not suffice.
    pub fn is_denied(&self) -> bool {
        matches!(self.status(), Some(StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED))
    }

    /// Whether the server could not be reached or says that it cannot serve now.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Broken { .. } | Error::Timeout { .. } => true,
            Error::Service(e) => e.status == StatusCode::SERVICE_UNAVAILABLE,
            _ => false,
        }
    }
}

/// The code that S3 would have put in the body of an error answer that has none.
pub(crate) fn code_of_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        301 | 307 => "PermanentRedirect",
        304 => "NotModified",
        400 => "BadRequest",
        401 | 403 => "AccessDenied",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        412 => "PreconditionFailed",
        416 => "InvalidRange",
        429 => "SlowDown",
        501 => "NotImplemented",
        503 => "ServiceUnavailable",
        507 => "InsufficientStorage",
        500..=599 => "InternalError",
        _ => "UnexpectedStatus",
    }
}
