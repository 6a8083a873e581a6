//! The benchmark suite: loads, probes of drives and networks, ceilings, statistics, reports.
//!
//! * [`result`] is the one document every mode writes; everything else produces or reads it.
//! * [`load`] drives S3 servers, closed or open loop; [`wire`] is the lean client below it.
//! * [`agent`] spreads a load over machines and merges what they measured.
//! * [`cost`] reads the CPU time and memory of processes; [`live`] shows a run while it lasts.
//!
//! Invariants: no number is made up (what was not measured is absent, never zero); memory stays
//! bounded however long a run lasts; only what a run wrote is ever removed.
//!
//! This room must never know: the server's insides. It is a client like any other.
#![forbid(unsafe_code)]

pub mod agent;
pub mod cost;
mod error;
pub mod live;
pub mod load;
pub mod result;
pub mod wire;

pub use error::{Error, Result};
