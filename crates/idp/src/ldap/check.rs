//! Looking people up again who have access keys or sessions: are they still there, in the same groups?
//!
//! Access keys of people who are gone are disabled and their sessions end; access keys follow changes of
//! groups; a session that claims a group its user has left ends, and the user signs in again. Invariants:
//! nothing is taken from anybody unless the directory answers and shows its own bases, so that a directory
//! that is away, empty or closed to us ends nothing; disabled keys stay, and can be enabled again.
//!
//! Must never know: requests.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_iam::{Facts, Federated, Iam};

use super::Provider;
use super::connection::{Connection, Failure};
use super::dn::Dn;
use crate::Error;

/// What a check did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// People looked up.
    pub people: usize,
    /// Of them, those whom the directory no longer has.
    pub gone: usize,
    /// Of them, those whose groups or attributes changed so that an access key or a session did.
    pub changed: usize,
}

/// What somebody has here.
#[derive(Default)]
struct Held {
    username: String,
    keys: Vec<(String, Federated)>,
    sessions: Vec<(String, Arc<Federated>)>,
}

impl Provider {
    /// Looks up everybody who has an access key, or used a session since the last check.
    ///
    /// # Errors
    /// `Unreachable`: the directory, or the store; what was not looked at yet is looked at next time.
    pub fn check<'a>(&'a self, iam: &'a Iam) -> BoxFuture<'a, Result<Checked, Error>> {
        Box::pin(async move {
            let mut held = self.held(iam);
            let mut done = Checked::default();
            if held.is_empty() {
                return Ok(done);
            }
            let checked = self.check_all(iam, &mut held, &mut done).await;
            for sessions in held.into_values().map(|h| h.sessions) {
                sessions.iter().for_each(|(key, who)| iam.see(key, who));
            }
            checked.map(|()| done)
        })
    }

    fn held(&self, iam: &Iam) -> BTreeMap<String, Held> {
        let mut held: BTreeMap<String, Held> = BTreeMap::new();
        for (key, who) in iam.federated_keys(&self.name) {
            let h = held.entry(who.id.clone()).or_default();
            h.username = username(&who);
            h.keys.push((key, who));
        }
        for (key, who) in iam.take_seen(&self.name) {
            let h = held.entry(who.id.clone()).or_default();
            h.username = username(&who);
            h.sessions.push((key, who));
        }
        held
    }

    /// Takes those who were looked at out of `held`.
    async fn check_all(
        &self,
        iam: &Iam,
        held: &mut BTreeMap<String, Held>,
        done: &mut Checked,
    ) -> Result<(), Error> {
        let mut c = self.lookup().await.map_err(away)?;
        for base in self.settings.user_bases.iter().chain(&self.settings.group_bases) {
            self.shows(&mut c, &base.dn).await?;
        }
        while let Some(id) = held.first_entry().map(|e| e.key().clone()) {
            let now = match self.now(&mut c, &id, &held[&id].username).await {
                Ok(now) => now,
                Err(why @ Failure::Away(_)) => return Err(away(why)),
                Err(why) => {
                    // About this one person: nothing changes for them, others are looked up.
                    tracing::warn!(user = id, %why, "a user cannot be looked up again");
                    held.remove(&id);
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
                        "the directory no longer vouches for a user: sessions end, access keys are disabled"
                    );
                }
                Some((groups, attributes)) => {
                    if follow(iam, &id, &held[&id], &groups, &attributes).await? {
                        done.changed += 1;
                    }
                }
            }
            held.remove(&id);
        }
        c.close().await;
        Ok(())
    }

    /// Somebody's groups and attributes now; `None`: they are gone.
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

    /// Refuses to go on with a directory that does not show us where people and groups are.
    async fn shows(&self, c: &mut Connection, base: &Dn) -> Result<(), Error> {
        match self.settings.entry(c, base).await.map_err(away)? {
            Some(_) => Ok(()),
            None => Err(Error::Unreachable(format!(
                "the directory shows no entry {}: nobody is looked up, since everybody would seem to be gone",
                base.normal()
            ))),
        }
    }
}

/// Takes over somebody's groups and attributes. Answers whether that changed anything.
async fn follow(
    iam: &Iam,
    id: &str,
    held: &Held,
    groups: &[String],
    attributes: &Facts,
) -> Result<bool, Error> {
    let mut changed = false;
    for (key, who) in &held.keys {
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
    if held.sessions.iter().any(|(_, who)| left(who)) {
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
