//! The error type of the crate.
//!
//! Must not depend on: other files of this crate.

use std::io;

/// Why a server could not start, or a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing can listen there: name another address, or end the program that has this one.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The connection broke: the host connects again.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The host does not follow the protocol: another host is needed. It is told in a `C2HTermReq`.
    #[error("the host broke the protocol: {what} (fatal error status {fes}, at {at})")]
    Protocol {
        /// What is wrong.
        what: &'static str,
        /// The fatal error status of the `C2HTermReq` (TCP 3.6.2.4).
        fes: u16,
        /// The byte of the header that is wrong, where the status has one.
        at: u32,
    },
}
