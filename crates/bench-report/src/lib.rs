//! What the benchmark suite does with results: the document, statistics, plans, comparisons, reports.
//!
//! * [`result`] is the one document that every mode writes; everything else produces or reads it.
//! * [`plan`] computes ceilings of hardware and names the limiting resource.
//! * [`import`] reads the results of warp and fio.
//! * [`compare`] and [`merge`] work on whole results; [`report`] is the HTML page.
//! * [`check`] finds reasons to reject or doubt the numbers of a life cycle, [`sheet`] is the spec sheet of arrays.
//! * [`stat`] has the statistics, [`random`] the random numbers, of loads too.
//! * [`units`] prints numbers, [`quantity`] parses sizes and rates.
//!
//! The crate is apart from `bench`, which measures, so that the two are compiled beside each other
//! (docs/decisions/0016-build-time.md). Code that runs for every request of a load belongs in `bench`.
//!
//! Invariants: no number is invented (a value that was not measured is absent, never zero); a document that an earlier
//! version wrote is read. Must not depend on: how a number was measured, networks, drives, clocks.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test is told by the environment to write its report")
)]

pub mod check;
pub mod compare;
mod error;
#[cfg(test)]
mod fixture;
pub mod import;
pub mod merge;
pub mod plan;
pub mod quantity;
pub mod random;
pub mod report;
pub mod result;
pub mod sheet;
pub mod stat;
pub mod units;

pub use error::{Error, Result};
