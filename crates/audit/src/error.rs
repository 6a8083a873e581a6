//! The error type of the crate. Its variants differ in what the caller can do.
//!
//! Depends on no other file of this crate.

use std::path::{Path, PathBuf};

/// Why an operation of the audit log failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting has to be changed.
    #[error("{0}")]
    Invalid(String),
    /// A file or folder cannot be used.
    #[error("{path}: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system call.
        error: std::io::Error,
    },
    /// Records cannot be written at present: free space on the device, or read the server's log.
    #[error("the audit log cannot be written at present")]
    Stuck,
    /// Try again.
    #[error("other searches of the audit log are running; try again")]
    Busy,
}

impl Error {
    pub(crate) fn io(path: &Path, error: std::io::Error) -> Error {
        Error::Io { path: path.to_owned(), error }
    }
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
