//! # ashlar-idp: identity providers
//!
//! Authenticates users with OpenID Connect providers, LDAP servers and client certificates, for the API layer
//! ([`ashlar_iam::Authenticator`]). Authorization is not part of this crate.
//!
//! | module | content |
//! |---|---|
//! | `environment` | the configuration: stored settings, overridden by environment variables |
//! | `settings` | the kinds of providers, and which settings may be shown |
//! | `context`, `values`, `error` | shared by all providers |
//! | `providers` | a snapshot of the configured providers |
//! | `openid` | OpenID Connect: tokens, and signing in with a browser |
//! | `ldap` | LDAP: names and passwords |
//! | `certificate` | client certificates |
//! | `web` | HTTP requests to providers |
//! | `idp` | [`Idp`], the interface of the crate |
//!
//! Layers, each of which uses only those before it: the shared modules; the providers of each kind;
//! `settings`, which lists all kinds; `providers`; `idp`.
//!
//! Settings are those of `ashlar_iam`'s store and of the environment: subsystems `identity_openid`,
//! `identity_ldap`, `identity_tls`, with MinIO's names of values, so that a configuration written for
//! MinIO means the same here, or is refused with an error that names the unsupported setting.
//!
//! Invariants: a change of settings is checked before it is stored ([`Idp::check`]) and applies from the next
//! request on; an unreachable provider does not affect others; every request to a provider has a limit in
//! time and in bytes; passwords and tokens are never logged.
//!
//! Must not depend on: S3, policies, HTTP requests of clients.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod certificate;
mod context;
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

pub use context::{Clock, ProviderContext};
pub use environment::{Environment, Target, targets};
pub use error::Error;
pub use idp::Idp;
pub use ldap::Checked;
#[doc(hidden)]
pub use ldap::script;
#[doc(hidden)]
pub use openid::script as openid_script;
pub use openid::{BrowserProvider, Choice, SignIn};
pub use settings::{REDACTED, Shown, Subsystem};
pub use web::{Web, WebAnswer, WebAsk, Within};
