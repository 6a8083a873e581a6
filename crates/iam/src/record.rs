//! The stored records of identities: one sealed JSON document per name in the control store.
//!
//! Invariants: unknown fields are refused, because a newer release wrote them and ignoring one could widen
//! permissions; a document refers to other documents only by name.
//!
//! Must not depend on: requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ashlar_policy::Policy;
use serde::{Deserialize, Serialize};

use crate::federated::Federated;

/// A user. Its name is its access key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The secret key.
    pub secret: String,
    /// If false, requests with its key, its access keys and its sessions are refused.
    pub enabled: bool,
    /// Names of its policies.
    #[serde(default)]
    pub policies: BTreeSet<String>,
    /// When it was made or last changed, in milliseconds since 1970.
    pub changed_ms: i64,
    /// Sessions made at or before this time are refused.
    #[serde(default)]
    pub revoked_ms: i64,
    /// Its random canonical id: see [`crate::Identity::canonical_id`]. Empty in records of releases that did
    /// not have it; then its name is its canonical id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// If false, its policies do not apply.
    pub enabled: bool,
    /// Names of users.
    pub members: BTreeSet<String>,
    /// Names of its policies.
    #[serde(default)]
    pub policies: BTreeSet<String>,
    /// As [`User::changed_ms`].
    pub changed_ms: i64,
}

/// An access key of a user (a service account).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessKey {
    /// The secret key.
    pub secret: String,
    /// The user it acts for: a name, root's name, or a [`Federated::id`].
    pub parent: String,
    /// If false, requests with it are refused.
    pub enabled: bool,
    /// A policy document that restricts what the parent's policies allow.
    #[serde(default)]
    pub policy: Option<String>,
    /// No longer accepted from this time on, in milliseconds since 1970.
    #[serde(default)]
    pub expires_ms: Option<i64>,
    /// What its owner calls it.
    #[serde(default)]
    pub name: String,
    /// The owner's description of it.
    #[serde(default)]
    pub description: String,
    /// When it was made. Sessions that are older were made with an earlier key of that name.
    pub made_ms: i64,
    /// As [`User::changed_ms`].
    pub changed_ms: i64,
    /// The federated user that is the parent, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub federated: Option<Federated>,
}

/// The stored record of a federated user or group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mapping {
    /// Names of its policies.
    #[serde(default)]
    pub policies: BTreeSet<String>,
    /// As [`User::changed_ms`].
    pub changed_ms: i64,
    /// As [`User::revoked_ms`].
    #[serde(default)]
    pub revoked_ms: i64,
}

/// A policy as stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredPolicy {
    pub document: String,
    pub made_ms: i64,
    pub changed_ms: i64,
}

/// A named policy.
#[derive(Clone, Debug)]
pub struct NamedPolicy {
    /// The compiled policy.
    pub policy: Arc<Policy>,
    /// When it was made, in milliseconds since 1970; 0 for built-in policies.
    pub made_ms: i64,
    /// When it was last changed.
    pub changed_ms: i64,
}

/// Names and values of one target.
pub type Values = BTreeMap<String, String>;

/// The stored record of one target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Names and values.
    pub values: Values,
    /// When it was last changed, in milliseconds since 1970.
    pub changed_ms: i64,
}

/// All stored records, decoded.
#[derive(Clone, Default)]
pub(crate) struct Records {
    pub users: BTreeMap<String, Arc<User>>,
    pub groups: BTreeMap<String, Arc<Group>>,
    pub keys: BTreeMap<String, Arc<AccessKey>>,
    pub policies: BTreeMap<String, Arc<NamedPolicy>>,
    pub federated_users: BTreeMap<String, Arc<Mapping>>,
    pub federated_groups: BTreeMap<String, Arc<Mapping>>,
    /// By `SUBSYSTEM/TARGET`.
    pub settings: BTreeMap<String, Arc<Setting>>,
    /// Root's sessions made at or before this time are refused.
    pub root_revoked_ms: i64,
    /// The store's revision of each record above, by its key in the control store.
    pub revisions: BTreeMap<String, u64>,
}

impl Records {
    /// The policy of that name: a stored one before a built-in one.
    pub fn policy(&self, name: &str) -> Option<Arc<Policy>> {
        self.policies.get(name).map(|p| p.policy.clone()).or_else(|| ashlar_policy::builtin(name))
    }

    /// Groups that have `user` as a member.
    pub fn groups_of<'a>(&'a self, user: &'a str) -> impl Iterator<Item = (&'a String, &'a Arc<Group>)> {
        self.groups.iter().filter(move |(_, g)| g.members.contains(user))
    }
}
