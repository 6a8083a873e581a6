//! Ceilings: what hardware can give at most, what binds, how near a measured run came.
//!
//! * [`model`]: the formulas. * [`profile`]: hardware as TOML. * [`ceiling`]: one from the other.
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

pub use ceiling::{Ceiling, Direction, Plan};
pub use profile::Profile;
