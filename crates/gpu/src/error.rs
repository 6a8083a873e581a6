//! The error type of the crate. Its variants differ in what the caller can do.
//!
//! Must not depend on: other files of this crate.

/// Why a device could not be used or a batch was not computed. The CPU computes the same rows, so every variant
/// but [`Error::Shape`] can be answered by using `ashlar_erasure`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no device that can be used here: no driver, no run-time compiler, no such device, or one that is
    /// too old. The normal case on most machines.
    #[error("no GPU can be used: {0}")]
    Unavailable(String),
    /// The arguments do not fit each other: a bug in the caller.
    #[error("{0}")]
    Shape(String),
    /// Too little memory is free on the device, or the host cannot pin so much: use smaller batches.
    #[error("{bytes} bytes of {what} memory are not available")]
    Memory {
        /// Whose memory: of the device, or pinned memory of the host.
        what: &'static str,
        /// Bytes asked for.
        bytes: usize,
    },
    /// The run-time compiler refused the text of a kernel: a bug of this crate, or a compiler that is too old.
    #[error("the kernel was not compiled: {0}")]
    Compile(String),
    /// The driver reported an error. After most of these, nothing on the device works any more until the
    /// process ends.
    #[error("GPU driver: {0}")]
    Driver(String),
}
