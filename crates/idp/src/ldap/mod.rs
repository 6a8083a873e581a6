//! LDAP and Active Directory: names and passwords, groups by search, people looked up again.
//!
//! | module | what |
//! |---|---|
//! | `settings` | what the values mean |
//! | `dn` | distinguished names, and one spelling for each |
//! | `filter` | search filters with places for names |
//! | `ber`, `message`, `connection` | LDAP on the wire |
//! | `people` | who somebody is, and in which groups |
//! | `check` | looking people up again |
//! | `backoff` | waiting after wrong passwords |
//!
//! A login: who looks people up binds, finds exactly one entry, somebody else's connection binds as that
//! entry with the password, and the first one finds the groups. Two connections per login, none kept.
//!
//! Invariants: an empty password is refused before anything is asked (directories take it for a bind as
//! nobody, and say that it worked); a name that does not exist and a wrong password are answered alike,
//! both no sooner than [`FLOOR`]; logins are bounded in number and in time; passwords are in no log.
//!
//! Must never know: what somebody may do.

mod backoff;
mod ber;
mod check;
mod connection;
mod dn;
mod filter;
mod message;
mod people;
#[cfg(feature = "script")]
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

use crate::{Around, Clock, Error};
use backoff::Backoff;
use connection::{Connection, Failure};
use dn::Dn;
use message::Outcome;
use people::{Person, within};
use settings::Settings;

pub use check::Checked;
pub(crate) use settings::{NAMES, SECRETS};

/// Logins at the same time; more are told to try again.
const LOGINS: usize = 32;
/// Longest login.
const LOGIN: Duration = Duration::from_secs(30);
/// A refused login is answered no sooner than this after it came.
const FLOOR: Duration = Duration::from_secs(1);
/// Longest login name, in bytes.
const NAME: usize = 256;
/// Longest password, in bytes.
const PASSWORD: usize = 1024;

/// One directory.
pub(crate) struct Provider {
    /// As it is trusted.
    name: String,
    settings: Settings,
    clock: Clock,
    room: Semaphore,
    backoff: Mutex<Backoff>,
}

impl Provider {
    pub fn new(target: &str, values: &Values, around: &Arc<Around>) -> Result<Provider, Error> {
        Ok(Provider {
            name: format!("ldap/{target}"),
            settings: Settings::read(target, values, around)?,
            clock: around.clock.clone(),
            room: Semaphore::new(LOGINS),
            backoff: Mutex::default(),
        })
    }

    /// Its name as it is trusted; it gives nobody policies by itself.
    pub fn trusted(&self) -> (String, Vec<String>) {
        (self.name.clone(), Vec::new())
    }

    /// Binds as who looks people up.
    pub async fn probe(&self) -> Result<(), Error> {
        let c = self.lookup().await.map_err(|why| Error::Unreachable(why.to_string()))?;
        c.close().await;
        Ok(())
    }

    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let privacy = match self.settings.server.privacy {
            connection::Privacy::Tls(_) => "TLS",
            connection::Privacy::StartTls(_) => "StartTLS",
            connection::Privacy::None => "none: names and passwords go in clear",
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

    /// A connection bound as who looks people up.
    async fn lookup(&self) -> Result<Connection, Failure> {
        let mut c = self.settings.server.connect().await?;
        let outcome = c.bind(&self.settings.bind_dn, &self.settings.bind_password).await?;
        if outcome.code != Outcome::SUCCESS {
            return Err(Failure::Refused("the lookup bind", outcome));
        }
        Ok(c)
    }

    /// Whom a name and a password mean.
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
            return Ok(Err(format!("{name:?} is nobody, or not one person")));
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

    /// The normal form of a user that is named by login name or DN.
    ///
    /// # Errors
    /// `Invalid`: there is none; `Unreachable`: a login name cannot be looked up now. A DN that cannot be
    /// looked up now is taken as it is.
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
                tracing::warn!(%error, dn = text, "a name is taken as it is: the directory does not say whether it exists");
                Ok(dn.normal())
            }
        }
    }
}

/// One spelling of a distinguished name; `None`: it is none.
pub(crate) fn normal(text: &str) -> Option<String> {
    Dn::parse(text).ok().map(|dn| dn.normal())
}

/// Whom a name and a password mean.
pub(crate) async fn authenticator(
    providers: &[Arc<Provider>],
    name: &str,
    password: &str,
) -> Result<Authenticated, Refused> {
    match providers {
        [] => Err(Refused::Unconfigured),
        // There is one: settings refuse others.
        [provider, ..] => provider.login(name, password).await,
    }
}
