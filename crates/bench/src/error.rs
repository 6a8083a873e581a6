//! What can go wrong in this room, by what the caller can do about it.

use std::io;

/// A failure of a benchmark.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter, a profile or a document is wrong: change it.
    #[error("{0}")]
    Usage(String),
    /// It would destroy something, or cannot be measured honestly: read the text, then decide.
    #[error("{0}")]
    Refused(String),
    /// The system said no.
    #[error("{what}: {source}")]
    Io {
        /// What was being done to what.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Another machine did not do its part.
    #[error("{0}")]
    Peer(String),
    /// Stopped by the user before anything was measured.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// For `map_err`: an I/O error with what was being done.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}

/// The result of this room's functions.
pub type Outcome<T = ()> = Result<T, Error>;
