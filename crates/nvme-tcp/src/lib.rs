//! NVMe/TCP: a target of namespaces over TCP, and a host.
//!
//! * [`Namespace`], [`Subsystem`], [`Subsystems`]: what is served; whoever owns devices implements them.
//! * [`host`]: namespaces of targets as block devices of this process.
//! * [`Server`]: accepts connections at TCP addresses and serves them until it is stopped.
//!
//! The protocol is that of the NVM Express Base Specification 2.0 (here "Base"), the NVM Command Set Specification 1.0 ("NVM")
//! and the NVMe/TCP Transport Specification 1.0 ("TCP"). A connection is one queue pair. Queue 0, the admin queue, makes a
//! controller; its end is that of the controller and of the connections of its I/O queues.
//!
//! Files: `pdu` and `command` (numbers and bytes), `status` (status codes), `namespace` (the traits), `memory` (a device in
//! memory), `wire` (sockets), `flow` (memory and transfers of one queue), `receive` (PDUs that come in), `connection` (threads
//! of one queue, PDUs that go out), `auth` (DH-HMAC-CHAP) and `authentication` (its commands), `tls` and `channel` (which of both a connection begins with), `ana` (access through a port), `controller` (controllers and their properties), `fabrics` (Connect, properties), `admin`,
//! `identify`, `log`, `io` (commands), `reservation` (who may read and write a namespace), `server`.
//!
//! Invariants: whatever a host sends, memory is bounded by [`Limits`] and no other connection is affected; a command is
//! completed once, after the namespace has answered; a queue of a host that has to authenticate itself executes nothing else before; a host that has a key of TLS is served over TLS alone, as the host of that key; a PDU that breaks the protocol ends its connection only.
//!
//! Must not depend on: what a namespace is made of.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod admin;
mod ana;
mod auth;
mod authentication;
mod channel;
mod command;
mod connection;
mod controller;
mod error;
mod fabrics;
mod flow;
pub mod fuzzed;
pub mod host;
mod identify;
mod io;
mod log;
mod memory;
mod namespace;
mod pdu;
mod receive;
mod reservation;
mod samples;
mod server;
mod status;
mod tls;
mod wire;

#[cfg(test)]
mod tests;

pub use ana::{AnaState, AnaStates};
pub use auth::{Admission, Group, Hash, HostKeys, Hosts, Known, Secret, check_name};
pub use error::Error;
pub use memory::Memory;
pub use namespace::{DISCOVERY, DiscoveryRecord, Fault, Health, Namespace, Subsystem, Subsystems, Summary};
pub use reservation::{Registrant, ReservationStatus, ReservationType, Reservations};
pub use server::{Limits, Server, Statistics};
pub use tls::{TlsKey, TlsMode};
