//! Ceilings: the highest rates of hardware, the limiting resource, and the efficiency of a measured run.
//!
//! * [`model`]: the formulas. * [`profile`]: hardware as TOML. * [`ceiling`]: ceilings of a profile by the
//!   formulas.
//! * [`published`]: published results of other systems that validate the model.
//! * [`measured`]: results of `s3`, `drive` and `net` runs as input.
//!
//! Invariant: pure; nothing here does I/O. Must not depend on: how a number was measured.

pub mod ceiling;
pub mod measured;
pub mod model;
pub mod profile;
pub mod published;
#[cfg(test)]
mod published_tests;

pub use ceiling::{Ceiling, Direction, Plan, Random4k};
pub use profile::Profile;
