//! Errors of documents. The variants differ in what the caller can do.

use std::{io, path::PathBuf};

/// Why a result could not be read, written, merged or imported, or a profile or a parameter not be understood.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The parameters make no sense: change the command line or the profile.
    #[error("{0}")]
    Usage(String),
    /// The file is missing or cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is no result, or a damaged one.
    #[error("{what}")]
    Format {
        /// What is wrong, with the place.
        what: String,
    },
    /// A newer program wrote it.
    #[error(
        "version {found} of the result document was written by a newer ashlar (this one reads up to {known})"
    )]
    Newer {
        /// The version of the file.
        found: u32,
        /// What this program reads.
        known: u32,
    },
    /// These runs cannot be put together.
    #[error("{what}")]
    Different {
        /// In what they differ.
        what: String,
    },
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn format(what: impl Into<String>) -> Error {
        Error::Format { what: what.into() }
    }
}
