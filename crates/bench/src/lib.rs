//! The benchmark suite: loads, and tests of drives, networks and GPUs.
//!
//! * [`block`] measures drives: sequential and random access, alone and together.
//! * [`net`] measures networks: TCP streams between nodes.
//! * `gpu` measures a GPU as an erasure engine (feature `gpu`).
//! * [`load`] sends load to S3 servers, closed or open loop; [`wire`] is the lean client below it.
//! * [`agent`] spreads a load over machines and merges what they measured.
//! * [`spec`] measures a system through its life cycle.
//! * [`server`] asks a server for its facts, [`host`] this machine, [`stall`] detects stalls of it.
//! * [`cost`] reads the CPU time and memory of processes; [`live`] shows a run while it lasts.
//!
//! What is measured becomes a document of the crate `bench-report`, which also compares, merges and shows documents.
//!
//! Invariants: no number is invented (a value that was not measured is absent, never zero); memory stays
//! bounded however long a run lasts; a run removes only what it wrote. Must not depend on: the server's
//! internals. The benchmark is a client like any other.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a simulation")]

pub mod agent;
pub mod block;
pub mod cost;
mod error;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod host;
pub mod live;
pub mod load;
pub mod net;
pub mod server;
pub mod spec;
pub mod stall;
pub mod wire;

pub use error::{Error, Result};
