//! [`Idp`]: all configured providers; the interface of the crate for the API layer and for changes of
//! settings.
//!
//! Invariants: a change of settings is checked before it is stored ([`Idp::check`]) and applies from the
//! next request on. No other file of the crate uses this one.
//!
//! Must not depend on: how a provider is asked.

use ashlar_environment::time;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use ashlar_iam::{Authenticated, Authenticator, Later, Refused, Values};

use crate::providers::Providers;
use crate::{
    BrowserProvider, Checked, Choice, Error, ProviderContext, Shown, SignIn, Subsystem, ldap, openid,
};

/// The providers that are configured.
pub struct Idp {
    context: Arc<ProviderContext>,
    providers: ArcSwap<Providers>,
    /// Whether the listener asks clients for certificates.
    certificates: Arc<AtomicBool>,
    sign_in_flow: openid::SignInFlow,
}

impl Idp {
    /// Reads the settings. A target that cannot be used is reported in the log and left out; it does not
    /// affect other providers and stored users.
    #[must_use]
    pub fn new(context: ProviderContext) -> Arc<Idp> {
        let idp = Arc::new(Idp {
            sign_in_flow: openid::SignInFlow::new(context.iam.clone()),
            context: Arc::new(context),
            providers: ArcSwap::default(),
            certificates: Arc::default(),
        });
        idp.reload();
        idp
    }

    /// Follows changes of settings. Runs until it is dropped.
    pub fn follow(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut news = self.context.iam.settings_changed();
            // Load changes from before this was called.
            self.reload();
            while news.changed().await.is_ok() {
                self.reload();
            }
        })
    }

    /// Loads the current configuration. A provider with unchanged settings keeps its state.
    pub fn reload(&self) {
        let next = Providers::load(&self.context, &self.providers.load());
        self.certificates.store(next.certificate().is_some(), Ordering::Release);
        let trusted = next.trusted();
        self.providers.store(Arc::new(next));
        self.context.iam.trust(trusted);
    }

    /// True while clients are to be asked for certificates.
    #[must_use]
    pub fn wants_certificates(&self) -> Arc<AtomicBool> {
        self.certificates.clone()
    }

    /// The targets of a subsystem, in order of names, without secrets.
    #[must_use]
    pub fn shown(&self, subsystem: Subsystem) -> Vec<Shown> {
        self.providers.load().shown(&self.context, subsystem)
    }

    /// Checks whether these values could be used for a target, together with the other targets: they are
    /// valid, and the provider answers. Environment variables override them here too.
    ///
    /// # Errors
    /// A value is missing, unknown or wrong, or the provider does not answer.
    pub fn check<'a>(
        &'a self,
        subsystem: Subsystem,
        target: &'a str,
        values: &'a Values,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let built = self.providers.load().build_one(&self.context, subsystem, target, values)?;
            match built {
                Some(provider) => provider.probe().await,
                None => Ok(()),
            }
        })
    }

    /// The providers that users can sign in with in a browser. `origin`: the address of this server in the
    /// browser (`https://host:port`), for providers whose redirect is made from it.
    pub fn choices<'a>(&'a self, origin: &'a str) -> BoxFuture<'a, Vec<Choice>> {
        Box::pin(async move {
            let providers = self.providers.load_full();
            self.sign_in_flow.choices(&providers.openid(), origin, (self.context.clock)()).await
        })
    }

    /// The providers that users can sign in with in a browser, in order of names. Sends no request, so that one that is
    /// down is there too. `origin`: as of [`Idp::choices`].
    #[must_use]
    pub fn browser_providers(&self, origin: &str) -> Vec<BrowserProvider> {
        openid::for_browsers(&self.providers.load().openid(), origin)
    }

    /// Whether users of a directory can sign in with a name and a password.
    #[must_use]
    pub fn has_directory(&self) -> bool {
        !self.providers.load().ldap().is_empty()
    }

    /// Whether client certificates are accepted.
    #[must_use]
    pub fn has_certificates(&self) -> bool {
        self.certificates.load(std::sync::atomic::Ordering::Acquire)
    }

    /// The URL at which a browser begins to sign in with the provider `name`. `origin`: as of [`Idp::choices`].
    ///
    /// # Errors
    /// `Unconfigured`: no provider of this name takes browsers; `Unavailable`: it does not answer.
    pub fn begin_sign_in<'a>(
        &'a self,
        name: &'a str,
        origin: &'a str,
    ) -> BoxFuture<'a, Result<String, Refused>> {
        Box::pin(async move {
            let providers = self.providers.load_full();
            self.sign_in_flow.begin(&providers.openid(), name, origin, (self.context.clock)()).await
        })
    }

    /// The URL at which a browser ends its session at the provider `name`; `None`: the provider offers none.
    ///
    /// # Errors
    /// `Unconfigured`: there is no provider of this name; `Unavailable`: it does not answer.
    pub fn sign_out_url<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, Refused>> {
        Box::pin(async move {
            let providers = self.providers.load_full().openid();
            let provider = providers.iter().find(|p| p.is_named(name)).ok_or(Refused::Unconfigured)?;
            provider.sign_out_url((self.context.clock)()).await
        })
    }

    /// The user of an authorization code that a provider sent through the browser.
    ///
    /// # Errors
    /// As [`ashlar_iam::Authenticator::web_identity`].
    pub fn sign_in<'a>(&'a self, back: &'a SignIn) -> BoxFuture<'a, Result<Authenticated, Refused>> {
        Box::pin(async move {
            let providers = self.providers.load_full();
            self.sign_in_flow.sign_in(&providers.openid(), back, (self.context.clock)()).await
        })
    }
}

/// Operations of directories.
impl Idp {
    /// The normal form of a federated user's name, under which policies are attached. A login name or a
    /// distinguished name of LDAP is looked up; while no directory is configured, a distinguished name is
    /// only normalized. `openid/...` and `certificate/...` are returned unchanged.
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

    /// As [`Idp::normal_user_dn`] for a group. Text that is not a distinguished name may be a group of
    /// another provider, and is returned unchanged.
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

    /// The normal form of a distinguished name, whether it exists or not; other text is returned unchanged.
    #[must_use]
    pub fn normal_dn(text: &str) -> String {
        ldap::normal(text).unwrap_or_else(|| text.to_owned())
    }

    /// Looks up all users of the directory again that have access keys or sessions. `None`: no directory is
    /// configured.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn check_directories(&self) -> BoxFuture<'_, Result<Option<Checked>, Error>> {
        Box::pin(async move {
            let directory = self.providers.load().ldap().into_iter().next();
            match directory {
                Some(ldap) => ldap.check(&self.context.iam).await.map(Some),
                None => Ok(None),
            }
        })
    }

    /// Does [`Idp::check_directories`] as often as is configured. Runs until it is dropped.
    pub fn watch_directories(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut news = self.context.iam.settings_changed();
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
                        // The task that reloads the settings gets the same notification.
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
                            "users were checked in the directory"
                        );
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(%error, "users cannot be checked in the directory; nothing changes")
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
                Some(provider) => provider.authenticator(chain, (self.context.clock)()),
            }
        })
    }
}
