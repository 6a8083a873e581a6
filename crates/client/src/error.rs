//! Errors of requests, by what the caller can do about them.
//!
//! Must not depend on: how errors are shown.

use std::{fmt, io};

use http::StatusCode;

/// The result of all functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error; its code says what to do.
    #[error("{0}")]
    Service(Box<ServiceError>),
    /// No connection could be made, so the request was not sent: check the address, try again later.
    #[error("cannot reach {endpoint}: {reason}")]
    Unreachable {
        /// `host:port` that was tried.
        endpoint: String,
        /// The message of the operating system.
        reason: String,
    },
    /// The connection broke after the request was (partly) sent: it may have taken effect.
    #[error("the connection to {endpoint} broke: {reason}")]
    Broken {
        /// `host:port` of the connection.
        endpoint: String,
        /// The message of the connection.
        reason: String,
    },
    /// No progress for the configured time: the request may have taken effect.
    #[error("no progress for {seconds} s while {what}")]
    Timeout {
        /// What the client was waiting for.
        what: &'static str,
        /// How long, in seconds.
        seconds: u64,
    },
    /// The answer violates the protocol; the server may not be an S3 server.
    #[error("unexpected answer: {0}")]
    Unexpected(String),
    /// The received data differs from the stored data: do not use it.
    #[error("damaged in transit: {0}")]
    Integrity(String),
    /// The request of the caller cannot be sent.
    #[error("{0}")]
    Invalid(String),
    /// The source of an upload could not be read.
    #[error("reading the data to send: {0}")]
    Source(#[source] io::Error),
}

/// An error answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceError {
    /// The HTTP status.
    pub status: StatusCode,
    /// The S3 error code, for example `NoSuchKey`. Derived from the status if the answer has no body (HEAD).
    pub code: String,
    /// The server's message; may be empty.
    pub message: String,
    /// `x-amz-request-id`, to find the request in the server's log; may be empty.
    pub request_id: String,
    /// The resource, as the server names it; may be empty.
    pub resource: String,
    /// The region that the server requires, if it names one.
    pub region: Option<String>,
    /// Seconds to wait before the next attempt, if the server states them.
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
    /// The error answer, if the server answered.
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
            // A version that is a delete marker.
            || self.code() == Some("MethodNotAllowed")
    }

    /// Whether the credentials are wrong or lack a permission.
    pub fn is_denied(&self) -> bool {
        matches!(self.status(), Some(StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED))
    }

    /// Whether the server cannot be reached or reports that it is not ready.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Broken { .. } | Error::Timeout { .. } => true,
            Error::Service(e) => e.status == StatusCode::SERVICE_UNAVAILABLE,
            _ => false,
        }
    }
}

/// The S3 error code of an error answer without body.
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
