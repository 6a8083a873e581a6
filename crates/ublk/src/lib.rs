//! ublk: block devices of this machine's kernel that this process serves.
//!
//! * [`Server`]: follows a list of exports; each is a device `/dev/ublkbN` with a link `FOLDER/NAME` to it.
//!
//! What is served are the devices of the NBD server: [`ashlar_nbd::Device`], [`ashlar_nbd::Exports`]. The driver is that of Linux 6.5
//! and later (`Documentation/block/ublk.rst`); `ashlar-machine` has what is unsafe about it.
//!
//! Files: `driver` (commands and their structures), `choice` (whether a device is new or one that an ended process has left),
//! `request` (requests and what they do), `pool` (the threads that execute them), `queue` (the threads that take and answer them),
//! `served` (one device), `links` (names), `server` (all devices).
//!
//! Invariants: a device outlives the process, and the next process that has the export takes it over: the kernel keeps what was not
//! answered and sends it again. A device that another process may still serve is not touched. The kernel lets a process take over a
//! device only after the one before has let go of it, with all its threads: no request of an ended process is executed after one of its
//! successor.
//!
//! Must not depend on: what a device is made of.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod choice;
mod driver;
mod error;
mod links;
mod pool;
mod queue;
mod request;
mod served;
mod server;

#[cfg(test)]
mod tests;

pub use error::Error;
pub use server::{MAX_QUEUES, Server, Statistics};
