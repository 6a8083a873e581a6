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
    /// Nothing of that name exists.
    #[error("there is no {what} called \"{name}\"")]
    Missing {
        /// `user`, `group`, `policy`, `access key`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The name is taken.
    #[error("there is a {what} called \"{name}\" already")]
    Exists {
        /// As in [`Error::Missing`].
        what: &'static str,
        /// The name.
        name: String,
    },
    /// It is in use and has to be detached first.
    #[error("the {what} \"{name}\" is in use by {by}")]
    InUse {
        /// As in [`Error::Missing`].
        what: &'static str,
        /// The name.
        name: String,
        /// The name of the user or group that uses it.
        by: String,
    },
    /// A policy document cannot be used.
    #[error("{0}")]
    Policy(#[from] ashlar_policy::Error),
    /// The session token is not from this deployment, is too old, or was revoked: request a new one.
    #[error("the session token is not valid: {0}")]
    Token(&'static str),
    /// The session has expired: request a new one.
    #[error("the session token has expired")]
    Expired,
    /// The control store cannot store or read the change now: try again.
    #[error("{0}")]
    Unavailable(String),
    /// The stored records were sealed with another root secret. Start once with that secret given as the old
    /// one, and they are sealed again with the new one.
    #[error(
        "the stored users and keys were sealed under another root secret; start once with \
         ASHLAR_ROOT_PASSWORD_OLD set to that secret"
    )]
    OtherSeal,
    /// A stored record cannot be decoded: it was damaged, or written by a newer release.
    #[error("stored identity data cannot be read: {0}")]
    Corrupt(String),
}

impl From<ashlar_cluster::Error> for Error {
    fn from(e: ashlar_cluster::Error) -> Error {
        match e {
            ashlar_cluster::Error::TooLarge(what) => Error::Invalid(format!(
                "{what} is too large; remove users, keys or policies that nobody uses"
            )),
            e => Error::Unavailable(e.to_string()),
        }
    }
}

pub(crate) fn missing(what: &'static str, name: &str) -> Error {
    Error::Missing { what, name: name.to_owned() }
}
