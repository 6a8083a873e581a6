//! What went wrong, by what the caller can do.
//!
//! Depends on no other file of this crate.

use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting has to be changed.
    #[error("{0}")]
    Invalid(String),
    /// A file or folder cannot be used.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Records are not written at present: free space, or look at the log.
    #[error("the audit log cannot be written at present")]
    Stuck,
}

impl Error {
    pub(crate) fn io(path: &Path, error: std::io::Error) -> Error {
        Error::Io { path: path.to_owned(), error }
    }
}

/// What this room answers.
pub type Result<T> = std::result::Result<T, Error>;
