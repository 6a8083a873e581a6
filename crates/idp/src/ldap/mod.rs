//! LDAP and Active Directory: login with name and password, groups by search, periodic check of users.
//!
//! | module | content |
//! |---|---|
//! | `settings` | parsing of the settings |
//! | `dn` | distinguished names and their normal form |
//! | `filter` | search filters with placeholders for names |
//! | `ber`, `message`, `connection` | LDAP on the wire |
//! | `people` | search for users and their groups |
//! | `check` | periodic check of users |
//! | `backoff` | backoff after wrong passwords |
//!
//! A login: the first connection binds with the lookup name and finds exactly one entry; a second connection
//! binds as that entry with the password; the first one finds the groups. Connections are not kept after the
//! login.
//!
//! Invariants: an empty password is refused before the directory is asked (directories treat it as an
//! anonymous bind, which succeeds); a name that does not exist and a wrong password get the same answer, no
//! sooner than [`FLOOR`]; the number of logins and their time are limited; passwords are in no log.
//!
//! Must not depend on: permissions.

mod backoff;
mod ber;
mod check;
mod connection;
mod dn;
mod filter;
mod message;
mod people;
pub mod script;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::{self, Instant};
use ashlar_iam::{Authenticated, Federated, Refused, Values};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{Clock, Error, ProviderContext};
use backoff::Backoff;
use connection::{Connection, Failure};
use dn::Dn;
use message::Outcome;
use people::{Person, within};
use settings::Settings;

pub use check::Checked;
pub(crate) use settings::{NAMES, SECRETS};

/// Most logins at the same time; more are refused as busy.
const LOGINS: usize = 32;
/// Time limit of a login.
const LOGIN: Duration = Duration::from_secs(30);
/// A refused login is answered no sooner than this after it arrived.
const FLOOR: Duration = Duration::from_secs(1);
/// Longest login name, in bytes.
const NAME: usize = 256;
/// Longest password, in bytes.
const PASSWORD: usize = 1024;

/// One directory.
pub(crate) struct Provider {
    /// The name of the provider in [`ashlar_iam::Federated`].
    name: String,
    settings: Settings,
    clock: Clock,
    room: Semaphore,
    backoff: Mutex<Backoff>,
}

impl Provider {
    pub fn new(target: &str, values: &Values, context: &Arc<ProviderContext>) -> Result<Provider, Error> {
        Ok(Provider {
            name: format!("ldap/{target}"),
            settings: Settings::read(target, values, context)?,
            clock: context.clock.clone(),
            room: Semaphore::new(LOGINS),
            backoff: Mutex::default(),
        })
    }

    /// The name of the provider, and no policies: a directory gives none by itself.
    pub fn trusted(&self) -> (String, Vec<String>) {
        (self.name.clone(), Vec::new())
    }

    /// Binds with the lookup name.
    pub async fn probe(&self) -> Result<(), Error> {
        let c = self.lookup().await.map_err(|why| Error::Unreachable(why.to_string()))?;
        c.close().await;
        Ok(())
    }

    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let privacy = match self.settings.server.privacy {
            connection::Privacy::Tls(_) => "TLS",
            connection::Privacy::StartTls(_) => "StartTLS",
            connection::Privacy::None => "none: names and passwords are sent unencrypted",
        };
        vec![
            ("provider", self.name.clone()),
            ("privacy", privacy.to_owned()),
            ("people are looked up again every", format!("{} s", self.check_interval().as_secs())),
        ]
    }

    /// How often [`Provider::check`] is to be called.
    pub fn check_interval(&self) -> Duration {
        self.settings.check_interval
    }

    /// A connection that is bound with the lookup name.
    async fn lookup(&self) -> Result<Connection, Failure> {
        let mut c = self.settings.server.connect().await?;
        let outcome = c.bind(&self.settings.bind_dn, &self.settings.bind_password).await?;
        if outcome.code != Outcome::SUCCESS {
            return Err(Failure::Refused("the lookup bind", outcome));
        }
        Ok(c)
    }

    /// The user with this name and password.
    pub async fn login(&self, name: &str, password: &str) -> Result<Authenticated, Refused> {
        let began = Instant::now();
        let answer = self.try_login(name, password).await;
        if matches!(answer, Err(Refused::Denied(_))) {
            time::sleep_until(began + FLOOR).await;
        }
        answer
    }

    async fn try_login(&self, name: &str, password: &str) -> Result<Authenticated, Refused> {
        let usable = |text: &str, most: usize| (1..=most).contains(&text.len()) && !text.contains('\0');
        if !usable(name, NAME) || name.trim().is_empty() || name.chars().any(char::is_control) {
            return Err(Refused::Denied("the login name is empty, too long or not printable".into()));
        }
        if !usable(password, PASSWORD) {
            return Err(Refused::Denied("the password is empty or too long".into()));
        }
        if self.backoff.lock().waits(name, (self.clock)()) {
            tracing::warn!(name, "too many wrong passwords for a login name; it has to wait");
            return Err(Refused::Busy);
        }
        let Ok(_room) = self.room.try_acquire() else { return Err(Refused::Busy) };
        let proved = match time::timeout(LOGIN, self.prove(name, password)).await {
            Ok(proved) => proved,
            Err(_) => Err(Failure::Away(format!("did not answer within {} s", LOGIN.as_secs()))),
        };
        match proved {
            Ok(Ok(authenticated)) => {
                self.backoff.lock().passed(name);
                Ok(authenticated)
            }
            Ok(Err(why)) => {
                self.backoff.lock().failed(name, (self.clock)());
                Err(Refused::Denied(why))
            }
            Err(Failure::TooMuch(why)) => Err(Refused::Denied(why)),
            Err(why) => Err(Refused::Unavailable(why.to_string())),
        }
    }

    /// The inner error: a wrong name or a wrong password.
    async fn prove(&self, name: &str, password: &str) -> Result<Result<Authenticated, String>, Failure> {
        let mut c = self.lookup().await?;
        let Some(person) = self.settings.find(&mut c, name).await? else {
            c.close().await;
            return Ok(Err(format!("{name:?} matches no entry, or several entries")));
        };
        let mut own = self.settings.server.connect().await?;
        let outcome = own.bind(&person.dn, password).await?;
        own.close().await;
        if outcome.is_passing() {
            return Err(Failure::Refused("a bind", outcome));
        }
        if outcome.code != Outcome::SUCCESS {
            c.close().await;
            return Ok(Err(format!("{}: the directory refuses the password: {outcome}", person.dn)));
        }
        let groups = self.settings.groups(&mut c, &person).await?;
        c.close().await;
        Ok(Ok(self.authenticated(person, groups)))
    }

    fn authenticated(&self, person: Person, groups: Vec<String>) -> Authenticated {
        let who = Federated {
            provider: self.name.clone(),
            id: person.id,
            groups,
            attributes: person.attributes,
            ..Federated::default()
        };
        let server = &self.settings.server;
        let issuer = format!("{}:{}", server.host, server.port);
        Authenticated { who, subject: person.username, issuer, ..Authenticated::default() }
    }

    /// The normal form of a user's name, given as login name or DN. A DN that cannot be looked up now is only
    /// normalized.
    ///
    /// # Errors
    /// `Invalid`: there is no such user; `Unreachable`: a login name cannot be looked up now.
    pub async fn user(&self, text: &str) -> Result<String, Error> {
        if text.contains('=') {
            return self.entry("user", text, &self.settings.user_bases).await;
        }
        let away = |why: Failure| Error::Unreachable(why.to_string());
        let mut c = self.lookup().await.map_err(away)?;
        let found = self.settings.find(&mut c, text).await.map_err(away)?;
        c.close().await;
        match found {
            Some(person) => Ok(person.id),
            None => Err(Error::Invalid(format!("the directory has no user \"{text}\", or more than one"))),
        }
    }

    /// The normal form of a group that is named by its DN.
    ///
    /// # Errors
    /// As [`Provider::user`].
    pub async fn group(&self, text: &str) -> Result<String, Error> {
        self.entry("group", text, &self.settings.group_bases).await
    }

    async fn entry(&self, what: &str, text: &str, bases: &[settings::Base]) -> Result<String, Error> {
        let dn = Dn::parse(text).map_err(Error::Invalid)?;
        if !within(&dn, bases) {
            return Err(Error::Invalid(format!("\"{text}\" is not where {what}s are searched for")));
        }
        let found = async {
            let mut c = self.lookup().await?;
            let found = self.settings.entry(&mut c, &dn).await?;
            c.close().await;
            Ok::<_, Failure>(found)
        };
        match found.await {
            Ok(Some(normal)) => Ok(normal),
            Ok(None) => Err(Error::Invalid(format!("the directory has no {what} \"{text}\""))),
            Err(error) => {
                tracing::warn!(%error, dn = text, "a DN is stored unchecked: the directory does not answer");
                Ok(dn.normal())
            }
        }
    }
}

/// The normal form of a distinguished name; `None`: the text is not one.
pub(crate) fn normal(text: &str) -> Option<String> {
    Dn::parse(text).ok().map(|dn| dn.normal())
}

/// The user with this name and password, in the configured directory.
pub(crate) async fn authenticator(
    providers: &[Arc<Provider>],
    name: &str,
    password: &str,
) -> Result<Authenticated, Refused> {
    match providers {
        [] => Err(Refused::Unconfigured),
        // There is at most one directory: settings refuse more.
        [provider, ..] => provider.login(name, password).await,
    }
}
