//! # ashlar-idp: other directories that vouch for users
//!
//! Asks OpenID Connect providers, LDAP servers and client certificates who somebody is, for the doors
//! ([`ashlar_iam::Vouch`]). What somebody may do is not decided here.
//!
//! | module | what |
//! |---|---|
//! | `environment` | what is configured: stored, or in the environment, which wins |
//! | `settings` | the kinds of providers, and what may be shown of their settings |
//! | `around`, `values`, `error` | what all providers share |
//! | `providers` | one state of what is configured, and whom it makes trusted |
//! | `openid` | OpenID Connect: tokens, and signing in with a browser |
//! | `ldap` | names and passwords |
//! | `certificate` | client certificates |
//! | `web` | how providers are asked over HTTP |
//! | `idp` | [`Idp`]: all of it together |
//!
//! Layers, each of which uses only those before it: what all share; one provider of a kind; `settings`, which
//! knows all kinds; `providers`; `idp`.
//!
//! Settings are those of `ashlar_iam`'s store and of the environment: subsystems `identity_openid`,
//! `identity_ldap`, `identity_tls`, with MinIO's names of values, so that a configuration written for
//! MinIO means the same here, or is refused by the name of what does not exist.
//!
//! Invariants: a change of settings is checked before it is stored ([`Idp::check`]) and counts from the
//! next request on; a provider that cannot be reached stops nobody else; whatever is asked of a provider
//! has an end in time and in bytes; passwords and tokens are never logged.
//!
//! Must never know: S3, policies, HTTP requests of clients.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod around;
mod certificate;
mod environment;
mod error;
mod idp;
mod ldap;
mod openid;
mod providers;
mod settings;
#[cfg(test)]
mod testing;
mod values;
mod web;

pub use around::{Around, Clock};
pub use environment::{Environment, Target, targets};
pub use error::Error;
pub use idp::Idp;
pub use ldap::Checked;
#[cfg(feature = "script")]
pub use ldap::script;
#[cfg(feature = "script")]
pub use openid::script as openid_script;
pub use openid::{Choice, SignIn};
pub use settings::{REDACTED, Shown, Subsystem};
pub use web::{Web, WebAnswer, WebAsk, Within};
