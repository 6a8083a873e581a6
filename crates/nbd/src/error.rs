//! The error type of the crate.
//!
//! Must not depend on: other files of this crate.

use std::io;

/// Why a server could not start, or a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing can listen there: name another endpoint, or end the program that has this one.
    #[error("cannot listen at {endpoint}: {error}")]
    Listen {
        /// The endpoint.
        endpoint: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The connection broke: the client connects again.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The client does not follow the protocol: another client is needed.
    #[error("the client broke the protocol: {0}")]
    Protocol(&'static str),
}
