//! NBD: a server of block devices over TCP and Unix sockets.
//!
//! * [`Device`], [`Exports`]: what is served; whoever owns devices implements them.
//! * [`Server`]: accepts connections at [`Endpoint`]s and serves them until it is stopped.
//!
//! The protocol is the fixed newstyle of the NBD project's `doc/proto.md`, with structured replies and the metadata
//! context `base:allocation`. Requests of one connection run at the same time and are answered in the order in which
//! they end.
//!
//! Files: `protocol` (numbers and bytes), `device` (the traits), `wire` (sockets, TLS), `negotiate` (options),
//! `request` (requests and their replies), `connection` (threads of one connection), `budget` (memory), `server`.
//!
//! Invariants: whatever a client sends, memory is bounded by [`Limits`] and no other connection is affected; a reply is
//! sent once per request, after the device has answered; nothing of an export is revealed before TLS where TLS is
//! required.
//!
//! Must not depend on: what a device is made of.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod budget;
mod connection;
mod device;
mod error;
pub mod fuzzed;
mod memory;
mod negotiate;
mod protocol;
mod request;
mod samples;
mod server;
mod wire;

#[cfg(test)]
mod tests;

pub use device::{Device, Export, Exports, Extent, Fault};
pub use error::Error;
pub use memory::Memory;
pub use protocol::MAX_PAYLOAD;
pub use server::{Endpoint, Limits, Server, Statistics, Tls, listen_unix};
