//! The benchmark suite: loads, probes of drives and networks, ceilings, statistics, reports.
//!
//! * [`result`] is the one document every mode writes; everything else produces or reads it.
//! * [`block`] measures drives: sequential and random access, alone and together.
//! * [`net`] measures networks: TCP streams between nodes.
//! * `gpu` measures a GPU as an erasure engine (feature `gpu`).
//! * [`plan`] computes ceilings of hardware and names the limiting resource.
//! * [`import`] reads the results of warp and fio.
//! * [`compare`] and [`merge`] work on whole results.
//! * [`report`] is the HTML page; [`spec`] measures a system through its life cycle.
//! * [`stat`] has the statistics.
//! * [`load`] sends load to S3 servers, closed or open loop; [`wire`] is the lean client below it.
//! * [`agent`] spreads a load over machines and merges what they measured.
//! * [`server`] asks a server for its facts, [`stall`] detects stalls of this machine.
//! * [`cost`] reads the CPU time and memory of processes; [`live`] shows a run while it lasts.
//!
//! Invariants: no number is invented (a value that was not measured is absent, never zero); memory stays
//! bounded however long a run lasts; a run removes only what it wrote. Must not depend on: the server's
//! internals. The benchmark is a client like any other.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a simulation")]

pub mod agent;
pub mod block;
pub mod compare;
pub mod cost;
mod error;
#[cfg(test)]
mod fixture;
#[cfg(feature = "gpu")]
pub mod gpu;
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
