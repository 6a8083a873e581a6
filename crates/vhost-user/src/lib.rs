//! vhost-user-blk: block devices for virtual machines, over shared memory and one Unix socket for each device.
//!
//! * [`Server`]: follows a list of exports and serves each at `FOLDER/NAME.sock` until it is stopped.
//!
//! What is served are the devices of the NBD server: [`ashlar_nbd::Device`], [`ashlar_nbd::Exports`]. The protocol is that of
//! QEMU's `docs/interop/vhost-user.rst`, the requests are those of section 5.2 (block device) of the Virtual I/O Device
//! specification 1.2. The messages of the socket and the access to the memory of the guest are those of the crates of the
//! rust-vmm project.
//!
//! Files: `request` (requests and what they do), `ring` (the order of answers), `backend` (one connection), `socket` (one device),
//! `server` (all devices).
//!
//! Invariants: answers of a ring are given in the order of its requests, so that a hypervisor that connects again after the end of this
//! process sends again exactly what was not answered; nothing is read from or written to the memory of a guest after its ring was
//! stopped; whatever a guest sends, memory is bounded and other devices are not affected.
//!
//! Whoever can connect can end this process, as shared memory can be taken away: the sockets are for hypervisors that are trusted with
//! the data.
//!
//! Must not depend on: what a device is made of.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod backend;
pub mod fuzzed;
mod request;
mod ring;
mod server;
mod socket;

#[cfg(test)]
mod tests;

pub use server::{Error, Server, Statistics};
