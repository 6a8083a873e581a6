//! Periodic check of federated users with access keys or sessions: do they still exist, in the same groups?
//!
//! If the directory no longer has a user, the check disables their access keys and revokes their sessions. It
//! updates the groups of access keys. It revokes a session with a group that its user has left; the user
//! signs in again. Invariants: the check changes nothing unless the directory answers and shows its
//! configured bases, so that an unreachable, empty or inaccessible directory removes no access; disabled keys
//! are kept, and can be enabled again.
//!
//! Must not depend on: requests.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_iam::{Facts, Federated, Iam};

use super::Provider;
use super::connection::{Connection, Failure};
use super::dn::Dn;
use crate::Error;

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Users that were looked up.
    pub people: usize,
    /// How many of them the directory no longer has.
    pub gone: usize,
    /// How many of them had changes of groups or attributes that affected an access key or a session.
    pub changed: usize,
}

/// The access keys and sessions of one federated user.
#[derive(Default)]
struct Credentials {
    username: String,
    keys: Vec<(String, Federated)>,
    sessions: Vec<(String, Arc<Federated>)>,
}

impl Provider {
    /// Looks up all users that have an access key, or used a session since the last check.
    ///
    /// # Errors
    /// `Unreachable`: the directory or the store does not answer. The next check continues with the remaining
    /// users.
    pub fn check<'a>(&'a self, iam: &'a Iam) -> BoxFuture<'a, Result<Checked, Error>> {
        Box::pin(async move {
            let mut credentials = self.credentials(iam);
            let mut done = Checked::default();
            if credentials.is_empty() {
                return Ok(done);
            }
            let checked = self.check_all(iam, &mut credentials, &mut done).await;
            for sessions in credentials.into_values().map(|h| h.sessions) {
                sessions.iter().for_each(|(key, who)| iam.see(key, who));
            }
            checked.map(|()| done)
        })
    }

    fn credentials(&self, iam: &Iam) -> BTreeMap<String, Credentials> {
        let mut credentials: BTreeMap<String, Credentials> = BTreeMap::new();
        for (key, who) in iam.federated_keys(&self.name) {
            let h = credentials.entry(who.id.clone()).or_default();
            h.username = username(&who);
            h.keys.push((key, who));
        }
        for (key, who) in iam.take_seen(&self.name) {
            let h = credentials.entry(who.id.clone()).or_default();
            h.username = username(&who);
            h.sessions.push((key, who));
        }
        credentials
    }

    /// Checks the users in `credentials` and removes those that were checked.
    async fn check_all(
        &self,
        iam: &Iam,
        credentials: &mut BTreeMap<String, Credentials>,
        done: &mut Checked,
    ) -> Result<(), Error> {
        let mut c = self.lookup().await.map_err(away)?;
        for base in self.settings.user_bases.iter().chain(&self.settings.group_bases) {
            self.shows(&mut c, &base.dn).await?;
        }
        while let Some(id) = credentials.first_entry().map(|e| e.key().clone()) {
            let now = match self.now(&mut c, &id, &credentials[&id].username).await {
                Ok(now) => now,
                Err(why @ Failure::Away(_)) => return Err(away(why)),
                Err(why) => {
                    // The failure concerns only this user: leave them unchanged, and check the others.
                    tracing::warn!(user = id, %why, "a user cannot be checked in the directory");
                    credentials.remove(&id);
                    continue;
                }
            };
            done.people += 1;
            match now {
                None => {
                    done.gone += 1;
                    let keys = iam.end_federated(&self.name, &id).await.map_err(stored)?;
                    tracing::warn!(
                        user = id,
                        keys,
                        "a user is no longer in the directory: sessions end, access keys are disabled"
                    );
                }
                Some((groups, attributes)) => {
                    if follow(iam, &id, &credentials[&id], &groups, &attributes).await? {
                        done.changed += 1;
                    }
                }
            }
            credentials.remove(&id);
        }
        c.close().await;
        Ok(())
    }

    /// The current groups and attributes of a user; `None`: the directory no longer has them.
    async fn now(
        &self,
        c: &mut Connection,
        id: &str,
        username: &str,
    ) -> Result<Option<(Vec<String>, Facts)>, Failure> {
        let Some(person) = self.settings.again(c, id, username).await? else { return Ok(None) };
        let groups = self.settings.groups(c, &person).await?;
        Ok(Some((groups, person.attributes)))
    }

    /// Fails if the directory does not show a configured base.
    async fn shows(&self, c: &mut Connection, base: &Dn) -> Result<(), Error> {
        match self.settings.entry(c, base).await.map_err(away)? {
            Some(_) => Ok(()),
            None => Err(Error::Unreachable(format!(
                "the directory has no entry at {}: the check is skipped, because all users would seem removed",
                base.normal()
            ))),
        }
    }
}

/// Applies the current groups and attributes of a user. Returns whether that changed anything.
async fn follow(
    iam: &Iam,
    id: &str,
    credentials: &Credentials,
    groups: &[String],
    attributes: &Facts,
) -> Result<bool, Error> {
    let mut changed = false;
    for (key, who) in &credentials.keys {
        if who.groups != groups || who.attributes != *attributes {
            iam.set_federated_facts(key, groups, attributes).await.map_err(stored)?;
            tracing::info!(
                user = id,
                access_key = key,
                "groups or attributes of an access key's user changed"
            );
            changed = true;
        }
    }
    let left = |who: &Federated| who.groups.iter().any(|g| !groups.contains(g));
    if credentials.sessions.iter().any(|(_, who)| left(who)) {
        iam.revoke_sessions(id).await.map_err(stored)?;
        tracing::info!(user = id, "a user left a group: the sessions that had it end");
        changed = true;
    }
    Ok(changed)
}

fn username(who: &Federated) -> String {
    let found = who.attributes.iter().find(|(n, _)| n == "username").and_then(|(_, v)| v.first());
    found.cloned().unwrap_or_default()
}

fn away(why: Failure) -> Error {
    Error::Unreachable(why.to_string())
}

fn stored(why: ashlar_iam::Error) -> Error {
    Error::Unreachable(why.to_string())
}
