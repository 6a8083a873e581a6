//! # ashlar-idp: other directories that vouch for users
//!
//! Asks OpenID Connect providers, LDAP servers and client certificates who somebody is, for the doors
//! ([`ashlar_iam::Vouch`]). What somebody may do is not decided here.
//!
//! | module | what |
//! |---|---|
//! | `settings` | what is configured: stored, or in the environment, which wins |
//! | `providers` | one state of what is configured, and whom it makes trusted |
//! | `openid` | OpenID Connect: tokens, and signing in with a browser |
//! | `ldap` | names and passwords |
//! | `certificate` | client certificates |
//! | `web` | how providers are asked over HTTP |
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

mod certificate;
mod ldap;
mod openid;
mod providers;
mod settings;
#[cfg(test)]
mod testing;
mod web;

use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use ashlar_iam::{Iam, Later, Refused, Values, Vouch, Vouched};

use providers::Providers;

pub use ldap::Checked;
#[cfg(feature = "script")]
pub use ldap::script;
pub use openid::{Choice, SignIn};
pub use settings::{Environment, Error, REDACTED, Shown, Subsystem, Target, targets};
pub use web::{Web, WebAnswer, WebAsk, Within};

/// Time, in milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What the room needs of the program around it.
#[derive(Clone)]
pub struct Around {
    /// Where settings are stored, and who has to know whom to trust.
    pub iam: Arc<Iam>,
    /// Settings of the environment.
    pub environment: Environment,
    /// How providers are asked over HTTP.
    pub web: Arc<dyn Web>,
    /// What time it is.
    pub clock: Clock,
    /// Certificates in PEM that may vouch for clients and for servers that are asked.
    pub authorities: Vec<Vec<u8>>,
}

/// The providers that are configured.
pub struct Idp {
    around: Arc<Around>,
    providers: ArcSwap<Providers>,
    /// For the listener: whether clients are asked for certificates.
    certificates: Arc<AtomicBool>,
    desk: openid::Desk,
}

impl Idp {
    /// Reads the settings. One that cannot be used is reported in the log and left out: the others, and
    /// users stored here, go on.
    #[must_use]
    pub fn new(around: Around) -> Arc<Idp> {
        let idp = Arc::new(Idp {
            around: Arc::new(around),
            providers: ArcSwap::default(),
            certificates: Arc::default(),
            desk: openid::Desk::new(),
        });
        idp.reload();
        idp
    }

    /// Follows changes of settings. Runs until it is dropped.
    pub fn follow(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut news = self.around.iam.settings_changed();
            // Whatever changed before this was called.
            self.reload();
            while news.changed().await.is_ok() {
                self.reload();
            }
        })
    }

    /// Takes up what is configured now. A provider whose settings are as before keeps what it knows.
    pub fn reload(&self) {
        let next = Providers::load(&self.around, &self.providers.load());
        self.certificates.store(next.certificate().is_some(), Ordering::Release);
        let trusted = next.trusted();
        self.providers.store(Arc::new(next));
        self.around.iam.trust(trusted);
    }

    /// True while clients are to be asked for certificates.
    #[must_use]
    pub fn wants_certificates(&self) -> Arc<AtomicBool> {
        self.certificates.clone()
    }

    /// What is configured for a subsystem, in order of names; secrets are not in it.
    #[must_use]
    pub fn shown(&self, subsystem: Subsystem) -> Vec<Shown> {
        self.providers.load().shown(&self.around, subsystem)
    }

    /// Whether these values could be used for a target, together with what is configured otherwise: they
    /// are understood, and the provider answers. What the environment says wins here too.
    ///
    /// # Errors
    /// In words: what is missing, unknown or wrong; or the provider does not answer.
    pub fn check<'a>(
        &'a self,
        subsystem: Subsystem,
        target: &'a str,
        values: &'a Values,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let built = self.providers.load().build_one(&self.around, subsystem, target, values)?;
            match built {
                Some(provider) => provider.probe().await,
                None => Ok(()),
            }
        })
    }

    /// The providers that somebody can sign in with by a browser. `origin`: as the browser sees this
    /// server (`https://host:port`), for providers whose redirect is made from it.
    pub fn choices<'a>(&'a self, origin: &'a str) -> BoxFuture<'a, Vec<Choice>> {
        Box::pin(async move {
            let providers = self.providers.load_full();
            self.desk.choices(&providers.openid(), origin, (self.around.clock)()).await
        })
    }

    /// Whom a code means that a provider sent back through the browser.
    ///
    /// # Errors
    /// As [`Vouch::web_identity`].
    pub fn sign_in<'a>(&'a self, back: &'a SignIn) -> BoxFuture<'a, Result<Vouched, Refused>> {
        Box::pin(async move {
            let providers = self.providers.load_full();
            self.desk.sign_in(&providers.openid(), back, (self.around.clock)()).await
        })
    }
}

/// What belongs to directories.
impl Idp {
    /// The one spelling of a user of another directory, for what is attached to them: a login name or a
    /// distinguished name of LDAP is looked up; while no directory is configured, a distinguished name gets
    /// its one spelling. `openid/...` and `certificate/...` stay as they are.
    ///
    /// # Errors
    /// `Invalid`: there is no such user; `Unreachable`: a login name cannot be looked up now.
    pub fn normal_user_dn<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<String, Error>> {
        Box::pin(async move {
            let directory = self.providers.load().ldap().into_iter().next();
            match directory {
                Some(ldap) if !text.starts_with("openid/") && !text.starts_with("certificate/") => {
                    ldap.user(text).await
                }
                _ => Ok(Idp::normal_dn(text)),
            }
        })
    }

    /// As [`Idp::normal_user_dn`] for a group. What is no distinguished name may be a group of another
    /// provider, and stays as it is.
    ///
    /// # Errors
    /// `Invalid`: there is no such group.
    pub fn normal_group_dn<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<String, Error>> {
        Box::pin(async move {
            let directory = self.providers.load().ldap().into_iter().next();
            match directory {
                Some(ldap) if ldap::normal(text).is_some() => ldap.group(text).await,
                _ => Ok(text.to_owned()),
            }
        })
    }

    /// One spelling of a distinguished name, whether it exists or not; other text stays as it is.
    #[must_use]
    pub fn normal_dn(text: &str) -> String {
        ldap::normal(text).unwrap_or_else(|| text.to_owned())
    }

    /// Looks up everybody again for whom a directory vouched and who has access keys or sessions. `None`:
    /// there is no directory.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn check_directories(&self) -> BoxFuture<'_, Result<Option<Checked>, Error>> {
        Box::pin(async move {
            let directory = self.providers.load().ldap().into_iter().next();
            match directory {
                Some(ldap) => ldap.check(&self.around.iam).await.map(Some),
                None => Ok(None),
            }
        })
    }

    /// Does [`Idp::check_directories`] as often as is configured. Runs until it is dropped.
    pub fn watch_directories(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut news = self.around.iam.settings_changed();
            loop {
                let interval = self.providers.load().ldap().first().map(|l| l.check_interval());
                let wait = async {
                    match interval {
                        Some(interval) => tokio::time::sleep(interval).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = wait => {}
                    changed = news.changed() => match changed {
                        // Who reloads the settings hears of them at the same time.
                        Ok(()) => { tokio::time::sleep(std::time::Duration::from_secs(1)).await; continue }
                        Err(_) => return,
                    }
                }
                match self.check_directories().await {
                    Ok(Some(done)) if done != Checked::default() => {
                        tracing::info!(
                            people = done.people,
                            gone = done.gone,
                            changed = done.changed,
                            "users of the directory were looked up again"
                        );
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(%error, "users of the directory cannot be looked up again; nothing changes")
                    }
                }
            }
        })
    }
}

impl Vouch for Idp {
    fn web_identity<'a>(
        &'a self,
        token: &'a str,
        access_token: Option<&'a str>,
        role: Option<&'a str>,
    ) -> Later<'a> {
        Box::pin(async move {
            let providers = self.providers.load_full().openid();
            openid::vouch(&providers, token, access_token, role).await
        })
    }

    fn ldap<'a>(&'a self, name: &'a str, password: &'a str) -> Later<'a> {
        Box::pin(async move {
            let providers = self.providers.load_full().ldap();
            ldap::vouch(&providers, name, password).await
        })
    }

    fn certificate<'a>(&'a self, chain: &'a [Vec<u8>]) -> Later<'a> {
        Box::pin(async move {
            match self.providers.load().certificate() {
                None => Err(Refused::Unconfigured),
                Some(provider) => provider.vouch(chain, (self.around.clock)()),
            }
        })
    }
}
