//! The error type of the crate. Its kinds follow what the caller can do, and travel over the socket.
//!
//! Must not depend on: other files of this crate.

use serde::{Deserialize, Serialize};

/// What the caller can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Correct the set-up or the request.
    Invalid,
    /// Name something else: there is no such drive, port, namespace or fault.
    NotFound,
    /// Change the state first: another process has the enclosure, or the data is of another one.
    Conflict,
    /// Use another account: the system does not permit it.
    Denied,
    /// Start the process, or wait until it has started.
    Unavailable,
    /// Look at this machine: the system failed.
    Failed,
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Error {
    /// What the caller can do.
    pub kind: Kind,
    /// For people.
    pub message: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(Kind::Invalid, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Error {
        Error::new(Kind::NotFound, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Error {
        Error::new(Kind::Conflict, message)
    }

    /// An error of the system about `what`.
    pub(crate) fn io(what: &str, error: &std::io::Error) -> Error {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => Kind::NotFound,
            std::io::ErrorKind::PermissionDenied => Kind::Denied,
            _ => Kind::Failed,
        };
        Error::new(kind, format!("{what}: {error}"))
    }
}
