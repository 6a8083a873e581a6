//! What can go wrong, by what the caller can do.

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no key. Nothing was changed, except where [`Error::Unavailable`] says that it is not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for is not possible: change the request. The text says how.
    #[error("{0}")]
    Invalid(String),
    /// There is no key of that name: create it, or name another.
    #[error("there is no key called \"{0}\"")]
    Missing(String),
    /// There is one already.
    #[error("there is a key called \"{0}\" already")]
    Exists(String),
    /// It does not open: it was changed, belongs elsewhere, or was sealed under another key. There is no
    /// more to say.
    #[error("the sealed key does not open")]
    Sealed,
    /// The key server does not let us: change its policies, or our credentials.
    #[error("{0}")]
    Refused(String),
    /// It cannot be had now: try again.
    #[error("{0}")]
    Unavailable(String),
    /// What is stored cannot be understood: it was damaged, or written by a newer release.
    #[error("stored keys cannot be read: {0}")]
    Corrupt(String),
    /// The stored keys were sealed under another root key: start with that one, given as the old one.
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
