//! # ashlar-idp: other directories that vouch for users
//!
//! Asks OpenID Connect providers, LDAP servers and client certificates who somebody is, for the doors
//! ([`ashlar_iam::Vouch`]). What somebody may do is not decided here.
//!
//! Settings are those of `ashlar_iam`'s store and of the environment, which wins: subsystems
//! `identity_openid`, `identity_ldap`, `identity_tls`, with MinIO's names of values, so that a
//! configuration written for MinIO means the same here.
//!
//! Invariants: a change of settings is checked before it is stored ([`Idp::check`]) and counts from the
//! next request on; a provider that cannot be reached stops nobody else; whatever is asked of a provider
//! has an end in time and in bytes; passwords and tokens are never logged.
//!
//! Must never know: S3, policies, HTTP requests of clients.
#![forbid(unsafe_code)]

mod settings;

use std::sync::Arc;

use arc_swap::ArcSwap;
use ashlar_iam::{Iam, Later, Refused, Trusted, Values, Vouch};

pub use settings::{Environment, Error, Target, targets};

/// Subsystems of this room.
pub const SUBSYSTEMS: [&str; 3] = ["identity_openid", "identity_ldap", "identity_tls"];

/// The providers that are configured.
pub struct Idp {
    iam: Arc<Iam>,
    environment: Environment,
    providers: ArcSwap<Providers>,
}

/// One state of what is configured.
#[derive(Default)]
struct Providers {}

impl Idp {
    /// Reads the settings. One that cannot be used is reported in the log and left out: the others, and
    /// users stored here, go on.
    #[must_use]
    pub fn new(iam: Arc<Iam>, environment: Environment) -> Arc<Idp> {
        let idp = Arc::new(Idp { iam, environment, providers: ArcSwap::default() });
        idp.reload();
        idp
    }

    /// Follows changes of settings. Runs until it is dropped.
    pub async fn follow(self: Arc<Self>) {
        let mut news = self.iam.settings_changed();
        while news.changed().await.is_ok() {
            self.reload();
        }
    }

    /// Takes up what is configured now.
    pub fn reload(&self) {
        let trusted = Trusted::new();
        self.providers.store(Arc::new(Providers {}));
        self.iam.trust(trusted);
    }

    /// Whether these values could be used for a target.
    ///
    /// # Errors
    /// In words: what is missing, unknown or wrong.
    pub fn check(&self, subsystem: &str, target: &str, _values: &Values) -> Result<(), Error> {
        Err(Error::Unknown(format!("{subsystem}:{target}")))
    }
}

impl Vouch for Idp {
    fn web_identity<'a>(&'a self, _token: &'a str, _role: Option<&'a str>) -> Later<'a> {
        Box::pin(async { Err(Refused::Unconfigured) })
    }

    fn ldap<'a>(&'a self, _name: &'a str, _password: &'a str) -> Later<'a> {
        Box::pin(async { Err(Refused::Unconfigured) })
    }

    fn certificate<'a>(&'a self, _chain: &'a [Vec<u8>]) -> Later<'a> {
        Box::pin(async { Err(Refused::Unconfigured) })
    }
}
