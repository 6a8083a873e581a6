//! The benchmark suite: loads, probes of drives and networks, ceilings, statistics, reports.
//!
//! * [`result`] is the one document every mode writes; everything else produces or reads it.
//! * [`import`] reads the results of warp and fio.
//! * [`compare`] and [`merge`] work on whole results.
//! * [`report`] is the HTML page; [`spec`] runs a life cycle of whatever a driver drives.
//! * [`stat`] is what may be said of measured numbers.
//!
//! Invariants: no number is made up (what was not measured is absent, never zero); memory stays
//! bounded however long a run lasts; only what a run wrote is ever removed.
//!
//! This room must never know: the server's insides. It is a client like any other.
#![forbid(unsafe_code)]

pub mod compare;
#[cfg(test)]
mod fixture;
pub mod import;
pub mod merge;
pub mod report;
pub mod result;
pub mod spec;
pub mod stat;
pub mod units;
