//! The benchmark suite: loads, probes of drives and networks, ceilings, statistics, reports.
//!
//! * [`result`] is the one document every mode writes; everything else produces or reads it.
//! * [`block`] drives drives: sequential and random, alone and together.
//! * [`net`] drives networks: TCP streams between nodes.
//! * [`plan`] computes what hardware can give at most and names what binds.
//! * [`stat`] is what may be said of measured numbers.
//!
//! Invariants: no number is made up (what was not measured is absent, never zero); memory stays
//! bounded however long a run lasts; only what a run wrote is ever removed.
//!
//! This room must never know: the server's insides. It is a client like any other.
#![forbid(unsafe_code)]

pub mod block;
mod error;
pub mod host;
pub mod net;
pub mod plan;
pub mod quantity;
pub mod result;
pub mod stat;

pub use error::{Error, Result};
