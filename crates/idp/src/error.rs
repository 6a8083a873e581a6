//! The error type of the crate: why settings cannot be used.
//!
//! Depends on no other file of this crate.

/// Why settings cannot be used, with a message for the administrator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value is missing, unknown or wrong: change it.
    #[error("{0}")]
    Invalid(String),
    /// The provider does not answer, or its answer is invalid: try again, or change the settings.
    #[error("{0}")]
    Unreachable(String),
}
