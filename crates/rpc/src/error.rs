//! The errors of the crate, by what a caller can do.
//!
//! Invariant: every variant but [`Error::Unanswered`] and [`Error::Refused`] of a call means that the service
//! was certainly not called.
//!
//! Must not depend on: connections, frames.

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request certainly was not executed. It may be sent again, also to another node.
    #[error("not sent: {0}")]
    NotSent(Unsent),
    /// Whether the request was executed is not known: there was no answer before the deadline, or the
    /// connection broke after the request was sent.
    #[error("unanswered: {0}")]
    Unanswered(String),
    /// The service answered that it does not do this.
    #[error("refused with code {}: {}", .0.code, .0.message)]
    Refused(Refusal),
    /// The other end sent bytes that are no valid message, or more than it may. The connection is closed.
    #[error("malformed message: {0}")]
    Malformed(String),
    /// The two nodes have no protocol version, or no feature level, in common.
    #[error("incompatible: {0}")]
    Incompatible(String),
    /// One of the nodes is not who it should be: wrong certificate, cluster or node number.
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    /// A certificate, a key or a certificate request cannot be used.
    #[error("identity: {0}")]
    Identity(String),
    /// The address cannot be listened at.
    #[error("cannot listen: {0}")]
    Listen(String),
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// There is no connection: with the reason of the last attempt.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// The deadline passed before the request was sent.
    #[error("the deadline passed")]
    Deadline,
    /// The deadline passed while the bytes in flight, or the requests in flight, were at their limit.
    #[error("no credit before the deadline")]
    NoCredit,
    /// The request, or the answer that it asks for, is longer than a message can be.
    #[error("too long: {0}")]
    TooLong(&'static str),
    /// The peer was dropped.
    #[error("closed")]
    Closed,
}

/// A service's answer that it does not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A number that the service defines, not 0. Numbers from [`Refusal::INTERNAL`] on belong to this crate.
    pub code: u16,
    /// The reason in words.
    pub message: String,
}

impl Refusal {
    /// The service panicked. What it had changed by then is not known.
    pub const INTERNAL: u16 = 0xff00;
    /// The answer was longer than the request accepts, or than a message can be.
    pub const TOO_LONG: u16 = 0xff01;

    /// A refusal.
    pub fn new(code: u16, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }
}

impl Error {
    /// Whether the request certainly was not executed.
    #[must_use]
    pub fn is_not_executed(&self) -> bool {
        !matches!(self, Error::Unanswered(_) | Error::Refused(_))
    }

    pub(crate) fn malformed(why: impl Into<String>) -> Error {
        Error::Malformed(why.into())
    }
    pub(crate) fn identity(what: &str, why: impl std::fmt::Display) -> Error {
        Error::Identity(format!("{what}: {why}"))
    }
    pub(crate) fn unreachable(why: impl std::fmt::Display) -> Error {
        Error::NotSent(Unsent::Unreachable(why.to_string()))
    }
}
