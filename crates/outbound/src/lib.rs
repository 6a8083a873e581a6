//! Requests that the server makes itself: webhooks, identity providers, key servers.
//!
//! | file | what it holds |
//! |---|---|
//! | `address` | classification of addresses |
//! | `url` | the part of a URL that a connection needs |
//! | `tls` | trusted authorities and client certificates |
//! | `request` | resolve, classify, connect to the checked address, send the request, limit the answer |
//!
//! Invariants: a connection is made to the very address that was classified, so that a name that resolves
//! differently between check and use (DNS rebinding) has no effect; redirects are never followed; link-local
//! and metadata addresses, loopback and, if configured, private ones are refused unless they are allowed, and
//! the operator's exceptions ([`allow`]) apply to all callers; every request has a time limit, every answer a
//! size limit.
//!
//! Must not depend on: the content or purpose of requests.

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
pub use request::{Answer, Io, Outbound, Resolve, Rules, Stream};
pub use url::Url;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings or the URL have to be changed.
    #[error("{0}")]
    Invalid(String),
    /// The class of the address is not allowed; trying again does not help.
    #[error("{host} is {address}, {class}: not allowed")]
    Forbidden {
        /// The host of the URL.
        host: String,
        /// An address that it resolved to.
        address: std::net::IpAddr,
        /// The class of that address.
        class: Class,
    },
    /// The other end cannot be reached, or closed the connection: try later.
    #[error("{0}")]
    Unreachable(String),
    /// No complete answer in time: try later.
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

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
