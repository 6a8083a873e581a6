//! The error type of the crate. Its kinds follow what the caller can do, and travel over the socket.
//!
//! Must not depend on: other files of this crate.

use serde::{Deserialize, Serialize};

/// What the caller can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Correct the request.
    Invalid,
    /// Name something else: there is no such group, drive or virtual drive.
    NotFound,
    /// Change the state first, or permit the exception that the message names.
    Conflict,
    /// Use another account: the system does not permit it.
    Denied,
    /// Start the process, or wait until it has started.
    Unavailable,
    /// Look at the drives: the system or a device failed.
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

impl From<ashlar_raid::Error> for Error {
    fn from(error: ashlar_raid::Error) -> Error {
        use ashlar_raid::Error as Raid;
        let kind = match &error {
            Raid::Layout(_) | Raid::Range { .. } => Kind::Invalid,
            Raid::NoMember { .. } => Kind::NotFound,
            Raid::Signature { .. }
            | Raid::Domain { .. }
            | Raid::Conflict(_)
            | Raid::Missing { .. }
            | Raid::NoSpace
            | Raid::State(_) => Kind::Conflict,
            Raid::Failed { .. } | Raid::Lost { .. } | Raid::Damaged(_) | Raid::Coder(_) | Raid::Io { .. } => {
                Kind::Failed
            }
        };
        Error::new(kind, error.to_string())
    }
}
