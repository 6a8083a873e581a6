//! Requests that the server makes itself: webhooks, identity providers, key servers.
//!
//! | file | what it holds |
//! |---|---|
//! | `address` | which addresses are what kind |
//! | `url` | the part of a URL that a connection needs |
//! | `tls` | whom to trust |
//! | `request` | resolve, classify, connect to the checked address, ask, read at most so much |
//!
//! Invariants: a connection goes to the very address that was classified, so that a name that changes its
//! mind between the check and the use (DNS rebinding) gains nothing; redirects are never followed; link-local
//! and metadata addresses, loopback and, where it is said so, private ones are refused unless they are
//! allowed, and what the operator allows ([`allow`]) is the same for all who ask; every request has an end in time, every answer an end in size.
//!
//! Must never know: what is asked for, or why.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod address;
mod request;
pub mod tls;
mod url;

pub use address::{Class, allow, classify, is_allowed, refuse_host};
pub use request::{Answer, Outbound, Resolve, Rules};
pub use url::Url;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings or the URL have to be changed.
    #[error("{0}")]
    Invalid(String),
    /// The address is of a kind that is not allowed; trying again changes nothing.
    #[error("{host} is {address}, {class}: not allowed")]
    Forbidden {
        /// The host of the URL.
        host: String,
        /// What it resolved to.
        address: std::net::IpAddr,
        /// What kind of address that is.
        class: Class,
    },
    /// The other end is not there, or broke off: try later.
    #[error("{0}")]
    Unreachable(String),
    /// No whole answer in time: try later.
    #[error("{host}: no answer within {seconds} s")]
    TooSlow {
        /// The host of the URL.
        host: String,
        /// The limit.
        seconds: u64,
    },
    /// The answer is longer than allowed.
    #[error("{host}: the answer is longer than {limit} bytes")]
    TooLarge {
        /// The host of the URL.
        host: String,
        /// The limit, in bytes.
        limit: usize,
    },
}

/// What this room answers.
pub type Result<T> = std::result::Result<T, Error>;
