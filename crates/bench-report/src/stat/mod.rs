//! Statistics of measured numbers, with their confidence.
//!
//! * [`describe`] has mean, deviation, quantiles, a straight line, batch means.
//! * [`distribution`] has Student's t and the normal distribution.
//! * [`bootstrap`] has the confidence of a difference or a ratio, from a seed.
//! * [`rank`] is the test of Mann and Whitney.
//! * [`steady`] detects the steady state as SNIA defines it, and the end of warm-up.
//!
//! Invariants: every function is pure; random ones take a seed; too few samples give no answer
//! (`None`) instead of a guess.
//!
//! Must not depend on: the meaning of the numbers.

pub mod bootstrap;
pub mod describe;
pub mod distribution;
pub mod rank;
pub mod steady;

pub use bootstrap::{Interval, difference, ratio};
pub use describe::{Line, batch_means, batched, cov, estimate, line, mean, median, quantile, stdev};
pub use rank::{MannWhitney, mann_whitney};
pub use steady::{Steady, steady_state, warmup_end};
