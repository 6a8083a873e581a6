#![forbid(unsafe_code)]
//! Messages between the nodes of a cluster: calls with an answer, over TCP with mutual TLS.
//!
//! * [`Authority`], [`NodeKey`], [`Identity`], [`Trust`], [`Credentials`]: who is a node of the cluster.
//! * [`Transport`]: this process as a node. [`Limits`]: what bounds its connections.
//! * [`Endpoint`]: listens, and passes requests to a [`Service`].
//! * [`Peer`]: another node, to be called.
//! * [`frame`], [`hello`]: the bytes on the wire (docs/formats.md, "Messages between nodes").
//!
//! A call has a method (a number), an epoch, a head, a payload and a deadline. Its result says what the caller
//! can do next: [`Error`]. docs/decisions/0025-transport-between-nodes.md gives the reasons.
//!
//! Invariants:
//! * The number of a node comes from its certificate, never from a message.
//! * A request is executed at most once. Unless an answer came, its outcome is either certainly "not executed"
//!   or unknown; this crate never repeats a request that may have been executed.
//! * Everything is bounded: the length of messages, the requests and bytes in flight, the connections, the time
//!   to authenticate.
//! * Dropping an [`Endpoint`] or a [`Peer`] ends its tasks and connections.
//!
//! Must not depend on: what is carried (drives, objects).

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

pub mod frame;
pub mod hello;

mod authority;
mod call;
mod connection;
mod credentials;
mod driver;
mod endpoint;
mod error;
mod handshake;
mod identity;
mod inbound;
mod limits;
mod link;
mod outbound;
mod peer;
mod permits;
mod serve;
mod service;
mod statistics;
mod stream;
mod tls;
#[cfg(test)]
mod tls_tests;
mod trust;

pub use authority::Authority;
pub use call::{Answer, Request};
pub use credentials::Credentials;
pub use endpoint::Endpoint;
pub use error::{Error, Refusal, Result, Unsent};
pub use identity::{Identity, NodeKey};
pub use limits::{Limits, Transport};
pub use peer::{Peer, Remote};
pub use service::{Caller, Incoming, Reply, Service};
pub use statistics::RoundTripSummary;
pub use trust::{Trust, serial_of};
