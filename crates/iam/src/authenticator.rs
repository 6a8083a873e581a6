//! The interface to identity providers: the API layer asks them who a caller is.
//!
//! Invariants: an answer is about a user who has just proved their identity; the reason of a refusal goes to
//! the log and never to the caller, so that callers cannot find out which names exist.
//!
//! Must not depend on: how a directory is asked, what is done with the answer.

use std::future::Future;
use std::pin::Pin;

use crate::Federated;

/// A user whose identity a provider has confirmed.
#[derive(Clone, Debug, Default)]
pub struct Authenticated {
    /// The user, for [`crate::Iam::assume_federated`].
    pub who: Federated,
    /// The provider's name for the user (`sub`, a distinguished name, a common name), for the answer.
    pub subject: String,
    /// The audience of the proof (`aud`), for the answer.
    pub audience: String,
    /// The issuer of the proof (`iss`), for the answer.
    pub issuer: String,
    /// A session must not last longer than this, in milliseconds since 1970.
    pub until_ms: Option<i64>,
}

/// Why a provider did not confirm an identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No provider of that kind is configured, or none that has the requested role.
    #[error("no such identity provider is configured")]
    Unconfigured,
    /// The proof is invalid. The text is for the log.
    #[error("{0}")]
    Denied(String),
    /// The proof has expired.
    #[error("the token has expired")]
    Expired,
    /// The provider does not answer: try again. The text is for the log.
    #[error("{0}")]
    Unavailable(String),
    /// Too many requests at once: try again.
    #[error("too many requests at the same time")]
    Busy,
}

/// A future with the answer.
pub type Later<'a> = Pin<Box<dyn Future<Output = Result<Authenticated, Refused>> + Send + 'a>>;

/// Identity providers.
pub trait Authenticator: Send + Sync {
    /// The user of an OpenID Connect token. `access_token`: gives access to further claims of the provider,
    /// if that is configured; `role`: the role in the request (`RoleArn`), if any.
    fn web_identity<'a>(
        &'a self,
        token: &'a str,
        access_token: Option<&'a str>,
        role: Option<&'a str>,
    ) -> Later<'a>;

    /// The LDAP user with this name and password.
    fn ldap<'a>(&'a self, name: &'a str, password: &'a str) -> Later<'a>;

    /// The user of a client certificate. `chain`: certificates in DER, the client's first; TLS has verified
    /// that the client has its private key.
    fn certificate<'a>(&'a self, chain: &'a [Vec<u8>]) -> Later<'a>;
}
