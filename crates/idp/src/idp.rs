//! [`Idp`]: all providers that are configured, as the doors and those who change settings see them.
//!
//! Invariants: a change of settings is checked before it is stored ([`Idp::check`]) and counts from the
//! next request on. This is the top of the crate: nothing in it uses this file.
//!
//! Must never know: how a provider is asked.

use ashlar_environment::time;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use ashlar_iam::{Authenticated, Authenticator, Later, Refused, Values};

use crate::providers::Providers;
use crate::{Around, Checked, Choice, Error, Shown, SignIn, Subsystem, ldap, openid};

/// The providers that are configured.
pub struct Idp {
    around: Arc<Around>,
    providers: ArcSwap<Providers>,
    /// For the listener: whether clients are asked for certificates.
    certificates: Arc<AtomicBool>,
    sign_in_flow: openid::SignInFlow,
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
            sign_in_flow: openid::SignInFlow::new(),
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
            self.sign_in_flow.choices(&providers.openid(), origin, (self.around.clock)()).await
        })
    }

    /// Whom a code means that a provider sent back through the browser.
    ///
    /// # Errors
    /// As [`ashlar_iam::Authenticator::web_identity`].
    pub fn sign_in<'a>(&'a self, back: &'a SignIn) -> BoxFuture<'a, Result<Authenticated, Refused>> {
        Box::pin(async move {
            let providers = self.providers.load_full();
            self.sign_in_flow.sign_in(&providers.openid(), back, (self.around.clock)()).await
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
                        Some(interval) => time::sleep(interval).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = wait => {}
                    changed = news.changed() => match changed {
                        // Who reloads the settings hears of them at the same time.
                        Ok(()) => { time::sleep(std::time::Duration::from_secs(1)).await; continue }
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

impl Authenticator for Idp {
    fn web_identity<'a>(
        &'a self,
        token: &'a str,
        access_token: Option<&'a str>,
        role: Option<&'a str>,
    ) -> Later<'a> {
        Box::pin(async move {
            let providers = self.providers.load_full().openid();
            openid::authenticator(&providers, token, access_token, role).await
        })
    }

    fn ldap<'a>(&'a self, name: &'a str, password: &'a str) -> Later<'a> {
        Box::pin(async move {
            let providers = self.providers.load_full().ldap();
            ldap::authenticator(&providers, name, password).await
        })
    }

    fn certificate<'a>(&'a self, chain: &'a [Vec<u8>]) -> Later<'a> {
        Box::pin(async move {
            match self.providers.load().certificate() {
                None => Err(Refused::Unconfigured),
                Some(provider) => provider.authenticator(chain, (self.around.clock)()),
            }
        })
    }
}
