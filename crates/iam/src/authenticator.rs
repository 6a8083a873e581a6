//! What the doors ask of other directories: who is this?
//!
//! Invariants: an answer is about somebody who proved it just now; why somebody is refused goes to the
//! log and never to the one who asked, so that nobody learns which names exist.
//!
//! Must never know: how a directory is asked, what is done with the answer.

use std::future::Future;
use std::pin::Pin;

use crate::Federated;

/// Somebody a directory vouches for.
#[derive(Clone, Debug, Default)]
pub struct Authenticated {
    /// Who, for [`crate::Iam::assume_federated`].
    pub who: Federated,
    /// Whom the provider means (`sub`, a distinguished name, a common name), for the answer.
    pub subject: String,
    /// For whom the proof was made (`aud`), for the answer.
    pub audience: String,
    /// Who made the proof (`iss`), for the answer.
    pub issuer: String,
    /// A session must not last longer than this, in milliseconds since 1970.
    pub until_ms: Option<i64>,
}

/// Why nobody is vouched for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No provider of that kind is configured, or none that fits the role asked for.
    #[error("no such identity provider is configured")]
    Unconfigured,
    /// The proof is wrong. The text is for the log.
    #[error("{0}")]
    Denied(String),
    /// The proof was right once.
    #[error("the token has expired")]
    Expired,
    /// The provider does not answer: try again. The text is for the log.
    #[error("{0}")]
    Unavailable(String),
    /// Too many ask at once: try again.
    #[error("too many ask at once")]
    Busy,
}

/// An answer that takes a while.
pub type Later<'a> = Pin<Box<dyn Future<Output = Result<Authenticated, Refused>> + Send + 'a>>;

/// Other directories.
pub trait Authenticator: Send + Sync {
    /// Whom a token of OpenID Connect means. `access_token`: opens the provider's further claims, where it
    /// is configured so; `role`: the role asked for (`RoleArn`), if any.
    fn web_identity<'a>(
        &'a self,
        token: &'a str,
        access_token: Option<&'a str>,
        role: Option<&'a str>,
    ) -> Later<'a>;

    /// Whom a name and a password of LDAP mean.
    fn ldap<'a>(&'a self, name: &'a str, password: &'a str) -> Later<'a>;

    /// Whom a client certificate means, the peer's first: each in DER, as TLS verified possession of it.
    fn certificate<'a>(&'a self, chain: &'a [Vec<u8>]) -> Later<'a>;
}
