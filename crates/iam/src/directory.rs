//! A snapshot of all stored identities, and the [`Identity`] values that are made from it on demand.
//!
//! Invariants: a directory is immutable; an access key that is disabled, expired, or whose parent is
//! missing or disabled is not found; policies that are attached but do not exist allow nothing; at most
//! [`CACHED`] identities are cached.
//!
//! Must not depend on: how records are stored.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_policy::{Attached, Policy};
use parking_lot::RwLock;

use crate::federated::Trusted;
use crate::identity::{ACCOUNT, Identity, Kind, Root};
use crate::record::Records;
use crate::secret::Secret;

/// Most cached identities. The cache is cleared when there are more.
const CACHED: usize = 16 << 10;

pub(crate) struct Directory {
    pub records: Records,
    pub root: Arc<Identity>,
    made: RwLock<HashMap<String, Arc<Identity>>>,
}

/// The policies of a user: its own and those of its groups.
pub(crate) struct Rights {
    pub groups: Vec<String>,
    pub policies: Vec<Arc<Policy>>,
    pub names: Vec<String>,
}

impl Directory {
    pub fn new(records: Records, root: &Root) -> Directory {
        Directory { records, root: Arc::new(Identity::of_root(root)), made: RwLock::default() }
    }

    /// The identity of an access key that is stored.
    pub fn find(&self, access_key: &str, trusted: &Trusted, now_ms: i64) -> Option<Arc<Identity>> {
        if access_key == self.root.access_key {
            return Some(self.root.clone());
        }
        let known = self.made.read().get(access_key).cloned();
        let identity = match known {
            Some(i) => i,
            None => {
                let made = Arc::new(self.make(access_key, trusted)?);
                let mut all = self.made.write();
                if all.len() >= CACHED {
                    all.clear();
                }
                all.insert(access_key.to_owned(), made.clone());
                made
            }
        };
        identity.expires_ms.is_none_or(|at| now_ms < at).then_some(identity)
    }

    fn make(&self, access_key: &str, trusted: &Trusted) -> Option<Identity> {
        if let Some(user) = self.records.users.get(access_key) {
            if !user.enabled {
                return None;
            }
            let mut i = self.child(access_key)?;
            i.access_key = access_key.to_owned();
            i.secret = Secret::new(user.secret.clone());
            i.kind = Kind::User;
            return Some(i);
        }
        let key = self.records.keys.get(access_key).filter(|k| k.enabled)?;
        let mut i = match &key.federated {
            None => self.child(&key.parent)?,
            Some(who) => self.federated(who, trusted)?,
        };
        i.access_key = access_key.to_owned();
        i.secret = Secret::new(key.secret.clone());
        i.kind = Kind::AccessKey;
        i.expires_ms = key.expires_ms;
        if let Some(document) = &key.policy {
            // The policy was checked when it was stored. One that cannot be read allows nothing.
            match Policy::parse(Attached::AccessKey, document.as_bytes()) {
                Ok(p) => i.bounds.push(Arc::new(p)),
                Err(e) => {
                    tracing::error!(access_key, error = %e, "the policy of an access key cannot be read");
                    return None;
                }
            }
        }
        Some(i)
    }

    /// An identity that acts for `user`: all but its own key, secret, kind and bounds.
    pub fn child(&self, user: &str) -> Option<Identity> {
        let root = user == self.root.access_key;
        let rights = if root {
            Rights { groups: Vec::new(), policies: Vec::new(), names: Vec::new() }
        } else {
            self.records.users.get(user).filter(|u| u.enabled)?;
            self.rights(user)
        };
        Some(self.acting(user.to_owned(), root, rights))
    }

    /// An identity with these rights: all but its own key, secret, kind and bounds.
    pub fn acting(&self, user: String, root: bool, rights: Rights) -> Identity {
        let arn = if root { self.root.arn.clone() } else { format!("arn:aws:iam::{ACCOUNT}:user/{user}") };
        let canonical_id = self.canonical_id(&user).to_owned();
        Identity {
            access_key: String::new(),
            secret: Secret::new(String::new()),
            kind: Kind::Session,
            user,
            root,
            groups: rights.groups,
            policies: rights.policies,
            policy_names: rights.names,
            bounds: Vec::new(),
            expires_ms: None,
            issued_ms: None,
            federated: None,
            made_with: None,
            arn,
            canonical_id,
            used_ms: AtomicI64::new(0),
        }
    }

    /// The canonical id of a user; of others the name, which no user can have.
    pub fn canonical_id<'a>(&'a self, user: &'a str) -> &'a str {
        self.records.users.get(user).map(|u| u.id.as_str()).filter(|id| !id.is_empty()).unwrap_or(user)
    }

    /// When the cached identities were last used, without those that were never used.
    pub fn uses(&self) -> Vec<(String, i64)> {
        let made = self.made.read();
        let all = made.values().chain([&self.root]);
        all.map(|i| (i.access_key.clone(), i.used_ms.load(Ordering::Relaxed)))
            .filter(|(_, at)| *at > 0)
            .collect()
    }

    /// When an access key was last used.
    pub fn used(&self, access_key: &str) -> Option<i64> {
        let at = self.made.read().get(access_key)?.used_ms.load(Ordering::Relaxed);
        (at > 0).then_some(at)
    }

    pub fn rights(&self, user: &str) -> Rights {
        let mut groups = Vec::new();
        let own = self.records.users.get(user).map(|u| &u.policies);
        let mut names: Vec<&String> = own.into_iter().flatten().collect();
        for (name, group) in self.records.groups_of(user) {
            // A disabled group gives no policies, but its members still match conditions about the group,
            // which may deny.
            groups.push(name.clone());
            if group.enabled {
                names.extend(&group.policies);
            }
        }
        self.named(user, names, groups)
    }

    /// The policies of these names.
    pub fn named(&self, user: &str, mut names: Vec<&String>, groups: Vec<String>) -> Rights {
        let mut out = Rights { groups, policies: Vec::new(), names: Vec::new() };
        names.sort();
        names.dedup();
        for name in names {
            match self.records.policy(name) {
                Some(p) => {
                    out.policies.push(p);
                    out.names.push(name.clone());
                }
                None => tracing::warn!(user, policy = name, "an attached policy does not exist"),
            }
        }
        out
    }
}
