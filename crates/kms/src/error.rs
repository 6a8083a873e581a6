//! The error type of the crate. Its variants differ in what the caller can do.

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. Nothing was changed, except that [`Error::Unavailable`] can say that the outcome
/// is unknown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is not possible and has to be changed. The text says how.
    #[error("{0}")]
    Invalid(String),
    /// No key of that name exists: create it, or name another.
    #[error("there is no key called \"{0}\"")]
    Missing(String),
    /// A key of that name exists.
    #[error("there is a key called \"{0}\" already")]
    Exists(String),
    /// A sealed key does not open: it was changed, is for another context, or was sealed under another key.
    /// No more is known.
    #[error("the sealed key does not open")]
    Sealed,
    /// The key server refuses access: change its policies, or the server's credentials.
    #[error("{0}")]
    Refused(String),
    /// The key is not available now: try again.
    #[error("{0}")]
    Unavailable(String),
    /// A stored key cannot be decoded: it was damaged, or written by a newer release.
    #[error("stored keys cannot be read: {0}")]
    Corrupt(String),
    /// The stored keys were sealed under another root key: start once with that key given as the old one.
    #[error(
        "the stored keys were sealed under another root key; start once with ASHLAR_KMS_ROOT_KEY_OLD set to it"
    )]
    OtherRoot,
}

impl From<ashlar_cluster::Error> for Error {
    fn from(e: ashlar_cluster::Error) -> Error {
        match e {
            ashlar_cluster::Error::TooLarge(what) => Error::Invalid(format!("{what} is too large")),
            e => Error::Unavailable(e.to_string()),
        }
    }
}

impl From<ashlar_outbound::Error> for Error {
    fn from(e: ashlar_outbound::Error) -> Error {
        match e {
            ashlar_outbound::Error::Invalid(_) | ashlar_outbound::Error::Forbidden { .. } => {
                Error::Invalid(format!("the key server: {e}"))
            }
            e => Error::Unavailable(format!("the key server: {e}")),
        }
    }
}
