//! The error type of the crate. Its variants follow what the caller can do.
//!
//! Must not depend on: drivers.

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Too few member drives answer. Nothing was decided; or, after an update, the outcome is unknown until
    /// the store is opened again or an update of the same keys succeeds or conflicts.
    #[error("control store: {0}")]
    Unavailable(String),
    /// A key is not as it was read; nothing was changed.
    #[error("control store: {0} has changed")]
    Conflict(String),
    /// Others kept changing the key during all attempts of a change; nothing was changed.
    #[error("control store: others keep changing {0}; try again")]
    Contended(String),
    /// The drives hold no store of this deployment yet: create one first.
    #[error("the drives hold no control store yet")]
    NotCreated,
    /// The drives already hold a store: open it instead of creating one.
    #[error("the drives hold a control store already")]
    Exists,
    /// A drive shows a later writer than this process: another process uses these drives. This process must
    /// stop.
    #[error("another process has taken over the control store")]
    Superseded,
    /// The value or the store would be larger than its bound.
    #[error("control store: {0} is too large")]
    TooLarge(&'static str),
    /// Stored bytes cannot be decoded.
    #[error("control store: {0}")]
    Corrupt(String),
    /// The requested layout is impossible; a message for the operator.
    #[error("{0}")]
    Layout(String),
    /// The node may not do this in the cluster; a message for the operator.
    #[error("{0}")]
    Refused(String),
    /// The requested change of a drive is impossible; a message for the operator.
    #[error("{0}")]
    Drive(String),
}
