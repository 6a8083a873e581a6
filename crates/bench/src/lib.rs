//! The benchmark suite: loads, probes of drives and networks, ceilings, statistics, reports.
//!
//! * [`result`] is the one document every mode writes; everything else produces or reads it.
//! * [`block`] drives drives: sequential and random, alone and together.
//! * [`net`] drives networks: TCP streams between nodes.
//! * [`plan`] computes what hardware can give at most and names what binds.
//! * [`import`] reads the results of warp and fio.
//! * [`compare`] and [`merge`] work on whole results.
//! * [`report`] is the HTML page; [`spec`] runs a life cycle of whatever a driver drives.
//! * [`stat`] is what may be said of measured numbers.
//! * [`load`] drives S3 servers, closed or open loop; [`wire`] is the lean client below it.
//! * [`agent`] spreads a load over machines and merges what they measured.
//! * [`server`] says what a server says of itself, [`stall`] whether this machine stood still.
//! * [`cost`] reads the CPU time and memory of processes; [`live`] shows a run while it lasts.
//!
//! Invariants: no number is made up (what was not measured is absent, never zero); memory stays
//! bounded however long a run lasts; only what a run wrote is ever removed.
//!
//! This room must never know: the server's insides. It is a client like any other.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a simulation")]

pub mod agent;
pub mod block;
pub mod compare;
pub mod cost;
mod error;
#[cfg(test)]
mod fixture;
pub mod host;
pub mod import;
pub mod live;
pub mod load;
pub mod merge;
pub mod net;
pub mod plan;
pub mod quantity;
mod random;
pub mod report;
pub mod result;
pub mod server;
pub mod spec;
pub mod stall;
pub mod stat;
pub mod units;
pub mod wire;

pub use error::{Error, Result};
