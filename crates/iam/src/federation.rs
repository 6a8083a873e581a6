//! Operations for federated users: sessions, attached policies, revocation.
//!
//! Invariants: policies attached to a federated user, or to their groups, are looked up at every use;
//! sessions and access keys are valid only while the provider is configured ([`Iam::trust`]).
//!
//! Must not depend on: how a provider is asked.

use futures::future::BoxFuture;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ashlar_policy::{Attached, Policy};

use crate::directory::Directory;
use crate::error::missing;
use crate::federated::{Facts, Federated, Trusted, check_id};
use crate::identity::{Identity, Kind};
use crate::limits;
use crate::record::{AccessKey, Mapping};
use crate::secret::check_name;
use crate::session::{Assume, Session, check_duration};
use crate::store::{Change, FEDERATED_GROUPS, FEDERATED_USERS, KEYS};
use crate::{Error, Iam, Result};

/// The policies attached to a federated user or group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingInfo {
    /// The [`Federated::id`] of a user, or the name of a group.
    pub name: String,
    /// Whether it is a group.
    pub group: bool,
    /// Names of policies.
    pub policies: BTreeSet<String>,
    /// When it was last changed, in milliseconds since 1970.
    pub changed_ms: i64,
}

impl Iam {
    /// Sets the configured providers. Sessions and access keys of other providers are refused from now on.
    pub fn trust(&self, trusted: Trusted) {
        self.trusted.store(Arc::new(trusted));
        self.forget_made();
    }

    /// Temporary credentials for a federated user; `until_ms`: the latest end.
    ///
    /// # Errors
    /// `Invalid`, `Policy`, `Token` when the provider is not trusted.
    pub fn assume_federated(&self, who: Federated, ask: &Assume, until_ms: Option<i64>) -> Result<Session> {
        check_duration(ask.duration_s)?;
        who.check()?;
        if !self.trusted.load().contains_key(&who.provider) {
            return Err(Error::Token("its identity provider is not configured"));
        }
        let bounds = match &ask.policy {
            Some(document) => vec![Policy::parse(Attached::Session, document.as_bytes())?.to_json()],
            None => Vec::new(),
        };
        let mut expires_ms = self.now().saturating_add(ask.duration_s * 1000);
        if let Some(until) = until_ms {
            expires_ms = expires_ms.min(until);
        }
        self.issue(who.id.clone(), expires_ms, bounds, None, Some(who))
    }

    /// The identity of a federated user with the current policies: everything except key, secret, kind and
    /// bounds.
    #[must_use]
    pub fn federated(&self, who: &Federated) -> Option<Identity> {
        self.directory().federated(who, &self.trusted.load())
    }

    /// The policies attached to federated users and groups, in order of names.
    #[must_use]
    pub fn mappings(&self) -> Vec<MappingInfo> {
        let d = self.directory();
        let info = |group: bool| {
            move |(name, m): (&String, &Arc<Mapping>)| MappingInfo {
                name: name.clone(),
                group,
                policies: m.policies.clone(),
                changed_ms: m.changed_ms,
            }
        };
        let users = d.records.federated_users.iter().filter(|(_, m)| !m.policies.is_empty());
        let groups = d.records.federated_groups.iter().filter(|(_, m)| !m.policies.is_empty());
        users.map(info(false)).chain(groups.map(info(true))).collect()
    }

    /// Enabled access keys of the users of a provider, with their owners.
    #[must_use]
    pub fn federated_keys(&self, provider: &str) -> Vec<(String, Federated)> {
        let d = self.directory();
        let keys = d.records.keys.iter().filter(|(_, k)| k.enabled);
        let of = |who: &Federated| who.provider == provider;
        keys.filter_map(|(n, k)| Some((n.clone(), k.federated.clone().filter(of)?))).collect()
    }

    /// Stores the current groups and attributes of the federated owner of an access key.
    ///
    /// # Errors
    /// `Missing`, `Unavailable`.
    pub fn set_federated_facts<'a>(
        &'a self,
        access_key: &'a str,
        groups: &'a [String],
        attributes: &'a Facts,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.change(|iam, c| {
                let stored =
                    c.records.keys.get(access_key).ok_or_else(|| missing("access key", access_key))?;
                let mut key = (**stored).clone();
                let who =
                    key.federated.as_mut().ok_or_else(|| missing("federated access key", access_key))?;
                who.groups = groups.to_vec();
                who.attributes.clone_from(attributes);
                key.changed_ms = iam.now();
                iam.put(c, format!("{KEYS}{access_key}"), &key);
                Ok(())
            })
            .await
        })
    }

    /// Removes the access of a user that a provider no longer has: disables their access keys and revokes
    /// their sessions. Returns the number of disabled keys.
    ///
    /// # Errors
    /// `Invalid`, `Unavailable`.
    pub fn end_federated<'a>(&'a self, provider: &'a str, id: &'a str) -> BoxFuture<'a, Result<usize>> {
        Box::pin(async move {
            self.change(|iam, c| {
                let of = |k: &AccessKey| {
                    k.enabled && k.federated.as_ref().is_some_and(|f| f.provider == provider && f.id == id)
                };
                let keys = c.records.keys.iter().filter(|(_, k)| of(k));
                let keys: Vec<_> = keys.map(|(n, k)| (n.clone(), (**k).clone())).collect();
                for (name, key) in &keys {
                    let key = AccessKey { enabled: false, changed_ms: iam.now(), ..key.clone() };
                    iam.put(c, format!("{KEYS}{name}"), &key);
                }
                iam.revoke_federated(c, id)?;
                Ok(keys.len())
            })
            .await
        })
    }

    /// Notes that a session was used, for [`Iam::take_seen`]. Only sessions of directories are noted, at most
    /// [`limits::SEEN`].
    pub fn see(&self, access_key: &str, who: &Arc<Federated>) {
        let mut seen = self.seen.0.lock();
        if who.is_in_directory() && seen.len() < limits::SEEN && !seen.contains_key(access_key) {
            seen.insert(access_key.to_owned(), who.clone());
        }
    }

    /// The sessions of a provider that were used since the last call: access keys and users.
    #[must_use]
    pub fn take_seen(&self, provider: &str) -> Vec<(String, Arc<Federated>)> {
        let mut seen = self.seen.0.lock();
        let (of, others) = std::mem::take(&mut *seen).into_iter().partition(|(_, w)| w.provider == provider);
        *seen = others;
        Vec::from_iter::<HashMap<_, _>>(of)
    }

    /// Refuses all sessions of a federated user that exist now.
    pub(crate) fn revoke_federated(&self, c: &mut Change, id: &str) -> Result<()> {
        let now = self.now();
        self.edit_mapping(c, false, id, |m| m.revoked_ms = now)
    }

    /// Changes the record of a federated user or group; removes it if it becomes empty.
    pub(crate) fn edit_mapping(
        &self,
        c: &mut Change,
        group: bool,
        name: &str,
        f: impl FnOnce(&mut Mapping),
    ) -> Result<()> {
        let (prefix, stored) = match group {
            false => {
                check_id(name)?;
                (FEDERATED_USERS, c.records.federated_users.get(name))
            }
            true => {
                check_name("federated group", name, limits::FEDERATED_NAME)?;
                (FEDERATED_GROUPS, c.records.federated_groups.get(name))
            }
        };
        let mut m = stored.map(|m| (**m).clone()).unwrap_or_default();
        f(&mut m);
        m.changed_ms = self.now();
        let key = format!("{prefix}{name}");
        if m.policies.is_empty() && m.revoked_ms == 0 {
            if stored.is_some() {
                c.remove(key);
            }
        } else {
            self.put(c, key, &m);
        }
        Ok(())
    }
}

impl Directory {
    pub(crate) fn federated(&self, who: &Federated, trusted: &Trusted) -> Option<Identity> {
        let of_provider = trusted.get(&who.provider)?;
        let mut names: Vec<&String> = who.policies.iter().chain(of_provider).collect();
        names.extend(self.records.federated_users.get(&who.id).into_iter().flat_map(|m| &m.policies));
        for group in &who.groups {
            names.extend(self.records.federated_groups.get(group).into_iter().flat_map(|m| &m.policies));
        }
        let rights = self.named(&who.id, names, who.groups.clone());
        let mut identity = self.acting(who.id.clone(), false, rights);
        identity.kind = Kind::Session;
        let mut known = who.clone().stored();
        if known.is_in_directory() && !known.groups.is_empty() {
            known.attributes.push(("groups".into(), known.groups.clone()));
        }
        identity.federated = Some(Arc::new(known));
        Some(identity)
    }
}
