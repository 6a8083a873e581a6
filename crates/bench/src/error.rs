//! Errors outside the measured requests. The variants differ in what the caller can do.

use std::io;

/// An error of the suite. Failed requests of a load are counted, not returned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The parameters make no sense: change the command line.
    #[error("{0}")]
    Usage(String),
    /// A server or agent could not be reached, or refused what the run needs before it can begin.
    #[error("{0}")]
    Setup(String),
    /// I/O on a file or socket failed.
    #[error("{what}: {source}")]
    Io {
        /// The step that failed.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A wrong parameter.
    pub fn usage(text: impl Into<String>) -> Error {
        Error::Usage(text.into())
    }

    /// Something that must work before a run did not.
    pub fn setup(text: impl Into<String>) -> Error {
        Error::Setup(text.into())
    }

    /// Adds to an I/O error what was being done.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}
