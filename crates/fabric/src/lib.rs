//! Virtual enclosures: a process that is an enclosure of NVMe drives or disks, and serves them over real NVMe/TCP, with the
//! rates, the service times and the faults of a set-up.
//!
//! * [`parse`], [`Setup`]: what an enclosure is, from a file; [`SETUPS`]: those that ship with the program.
//! * [`Process`]: serves it, and answers management calls on a Unix socket: what `ashlar fabric serve` runs.
//! * [`Client`]: makes those calls. [`api`]: the documents of both sides.
//!
//! Files: `ana` (access by port); `document` (the file of a set-up), `quantity`, `design` (enclosures that exist), `setup` (what is decided); `limiter`,
//! `thermal`, `drive_model`, `model` (the time of commands, pure), `selection`, `faults` (faults, pure), `store` (backing
//! files), `cache` (what was not flushed), `usage` (counters), `enclosure` (a command from arrival to answer), `identity`, `target` (as hosts see it), `process`,
//! `describe`, `metrics`, `sample`, `services`, `ses`, `redfish` (enclosure services), `service` (the socket), `client`, `api`, `error`.
//!
//! Invariants: a command never ends before every resource that it passes had the time for it; what a fault does to which block
//! depends on the seed alone; a command of a port or drive that went away never takes effect later.
//!
//! Must not depend on: the command line, drive groups, S3.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod ana;
pub mod api;
mod cache;
mod client;
mod describe;
mod design;
mod document;
mod drive_model;
mod enclosure;
mod error;
mod faults;
mod identity;
mod limiter;
mod metrics;
mod model;
mod process;
mod quantity;
mod redfish;
mod sample;
mod selection;
mod service;
mod services;
mod ses;
mod setup;
mod store;
mod target;
mod thermal;
mod usage;

#[cfg(test)]
mod tests;

pub use client::Client;
pub use design::SETUPS;
pub use document::{MOST, is_local, parse};
pub use error::{Error, Kind};
pub use process::{Options, Process, default_socket};
pub use setup::{Setup, Zone};
