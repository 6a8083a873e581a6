//! The error type of the crate. Its variants differ in what the caller can do.
//!
//! Must not depend on: other files of this crate, except the list of kernels.

use crate::Kernel;

/// Why a code could not be made or an operation refused its arguments. Output rows are unchanged whenever an
/// error is returned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The code itself is impossible: choose other numbers.
    #[error("a code needs k >= 1 data rows and k + m <= 64 rows in all, got k = {k}, m = {m}")]
    Parameters {
        /// Data rows asked for.
        k: usize,
        /// Parity rows asked for.
        m: usize,
    },
    /// The arguments do not fit the code (number of rows, lengths, indices): a bug in the caller.
    #[error("{0}")]
    Shape(String),
    /// Fewer than `k` distinct rows are present: find more rows, or give the data up as lost.
    #[error("{have} distinct rows are present, {need} are needed to reconstruct")]
    TooFewRows {
        /// Distinct rows handed over.
        have: usize,
        /// Rows needed, that is `k`.
        need: usize,
    },
    /// This CPU cannot run that kernel: take one of [`crate::kernels`].
    #[error("this CPU cannot run the erasure kernel {kernel}; it has: {usable}")]
    KernelUnavailable {
        /// The kernel asked for.
        kernel: Kernel,
        /// Names of those it can run.
        usable: String,
    },
    /// An unknown kernel name (from the environment or from [`str::parse`]): correct it.
    #[error("{name:?} is not an erasure kernel; known are: {known}")]
    KernelName {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
}
