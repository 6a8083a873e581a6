//! What can go wrong, by what the caller can do.

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done. Nothing was changed, except where [`Error::Unavailable`] says that it is
/// not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for is not possible: change the request. The text says how.
    #[error("{0}")]
    Invalid(String),
    /// There is none of that name.
    #[error("there is no {what} called \"{name}\"")]
    Missing {
        /// `user`, `group`, `policy`, `access key`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// There is one already.
    #[error("there is a {what} called \"{name}\" already")]
    Exists {
        /// As in [`Error::Missing`].
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Somebody uses it: take it from them first.
    #[error("the {what} \"{name}\" is in use by {by}")]
    InUse {
        /// As in [`Error::Missing`].
        what: &'static str,
        /// The name.
        name: String,
        /// Who.
        by: String,
    },
    /// A policy document cannot be used.
    #[error("{0}")]
    Policy(#[from] ashlar_policy::Error),
    /// The session token is not one of ours, is too old, or was revoked: ask for a new one.
    #[error("the session token is not valid: {0}")]
    Token(&'static str),
    /// The session has ended: ask for a new one.
    #[error("the session token has expired")]
    Expired,
    /// The control store cannot take or show the change now: try again.
    #[error("{0}")]
    Unavailable(String),
    /// What is stored was sealed with another root secret: start with that secret once more, given as the
    /// old one, and it is sealed anew.
    #[error(
        "the stored users and keys were sealed under another root secret; start once with \
         ASHLAR_ROOT_PASSWORD_OLD set to that secret"
    )]
    OtherSeal,
    /// What is stored cannot be understood: it was damaged, or written by a newer release.
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
