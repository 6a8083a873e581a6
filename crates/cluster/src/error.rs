//! What can go wrong, by what the caller can do.

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Too few member drives answer. Nothing was decided; or, after an update, the outcome is not
    /// known until the store is opened again or an update of the same keys succeeds or conflicts.
    #[error("control store: {0}")]
    Unavailable(String),
    /// A key is not as it was read; nothing was changed.
    #[error("control store: {0} has changed")]
    Conflict(String),
    /// Others kept changing the key while a change was tried again and again; nothing was changed.
    #[error("control store: others keep changing {0}; try again")]
    Contended(String),
    /// The drives hold no store of this deployment yet: create one.
    #[error("the drives hold no control store yet")]
    NotCreated,
    /// The drives hold a store already: open it, do not create one.
    #[error("the drives hold a control store already")]
    Exists,
    /// A drive shows a later writer than this process: another process uses these drives. Stop.
    #[error("another process has taken over the control store")]
    Superseded,
    /// The value or the store would be larger than its bound.
    #[error("control store: {0} is too large")]
    TooLarge(&'static str),
    /// Stored bytes cannot be understood.
    #[error("control store: {0}")]
    Corrupt(String),
    /// The layout that was asked for cannot be built, in words for the operator.
    #[error("{0}")]
    Layout(String),
    /// The change of a drive that was asked for is not possible, in words for the operator.
    #[error("{0}")]
    Drive(String),
}
