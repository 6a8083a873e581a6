//! Named policies, and their attachment to users and groups.
//!
//! Invariants: every stored policy compiles; a policy that is attached cannot be removed; a policy exists at
//! the moment when it is attached.

use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ashlar_policy::{Attached, BUILTIN, Policy};

use crate::error::missing;
use crate::limits;
use crate::record::{Mapping, NamedPolicy, StoredPolicy};
use crate::secret::check_name;
use crate::store::{Change, POLICIES};
use crate::{Error, Iam, Result};

/// A user or group that policies can be attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entity<'a> {
    /// A user.
    User(&'a str),
    /// A group.
    Group(&'a str),
    /// A federated user: see [`crate::Federated::id`].
    FederatedUser(&'a str),
    /// A group of an identity provider.
    FederatedGroup(&'a str),
}

/// The users, groups and providers that have a policy, or may have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Users that it is attached to, in order.
    pub users: Vec<String>,
    /// Groups that it is attached to, in order.
    pub groups: Vec<String>,
    /// Federated users that it is attached to, in order.
    pub federated_users: Vec<String>,
    /// Groups of identity providers that it is attached to, in order.
    pub federated_groups: Vec<String>,
    /// Identity providers that give it to all their users.
    pub roles: Vec<String>,
    /// Identity providers whose claims name policies. A session carries its claims in its token, and nothing
    /// is stored about it, so each of these may give any existing policy.
    pub claims: Vec<String>,
}

impl Holders {
    /// Whether any user, group or role is known to have it.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        [&self.users, &self.groups, &self.federated_users, &self.federated_groups, &self.roles]
            .iter()
            .any(|list| !list.is_empty())
    }
}

/// Whether claims of this provider name policies. Claims of a directory never do, nor claims of a provider
/// that gives the same policies to all its users.
fn takes_claims(provider: &str, roles: &[String]) -> bool {
    !provider.starts_with("ldap/") && roles.is_empty()
}

impl Iam {
    /// Stores a policy under a name, replacing an existing one. A stored policy hides a built-in one of that
    /// name.
    ///
    /// # Errors
    /// `Invalid`, `Policy`, `Unavailable`.
    pub fn put_policy<'a>(&'a self, name: &'a str, document: &'a [u8]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name("policy", name, limits::POLICY_NAME)?;
            if name.contains([',', '/']) {
                return Err(Error::Invalid(format!(
                    "\"{name}\" cannot be the name of a policy: leave out , and /"
                )));
            }
            let policy = Policy::parse(Attached::Identity, document)?;
            self.change(|iam, c| {
                let now = iam.now();
                let made_ms = c.records.policies.get(name).map_or(now, |p| p.made_ms);
                let stored = StoredPolicy { document: policy.to_json(), made_ms, changed_ms: now };
                iam.put(c, format!("{POLICIES}{name}"), &stored);
                Ok(())
            })
            .await
        })
    }

    /// Removes a stored policy that is not attached.
    ///
    /// # Errors
    /// `Missing`, `InUse`, `Invalid` (a built-in one), `Unavailable`.
    pub fn remove_policy<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.change(|iam, c| {
                if !c.records.policies.contains_key(name) {
                    return Err(match ashlar_policy::builtin(name) {
                        Some(_) => Error::Invalid(format!("\"{name}\" is built in and cannot be removed")),
                        None => missing("policy", name),
                    });
                }
                let user = c.records.users.iter().find(|(_, u)| u.policies.contains(name));
                let group = c.records.groups.iter().find(|(_, g)| g.policies.contains(name));
                let mut mapped = c.records.federated_users.iter().chain(&c.records.federated_groups);
                let mapped = mapped.find(|(_, m)| m.policies.contains(name));
                let by = user.map(|(n, _)| format!("user {n}")).or(group.map(|(n, _)| format!("group {n}")));
                let trusted = iam.trusted.load();
                let role = trusted.iter().find(|(_, roles)| roles.iter().any(|r| r == name));
                let by = by.or(mapped.map(|(n, _)| n.clone()));
                let by = by.or(role.map(|(provider, _)| format!("all users of provider {provider}")));
                match by {
                    Some(by) if ashlar_policy::builtin(name).is_none() => {
                        Err(Error::InUse { what: "policy", name: name.to_owned(), by })
                    }
                    _ => {
                        c.remove(format!("{POLICIES}{name}"));
                        Ok(())
                    }
                }
            })
            .await
        })
    }

    /// Attaches policies in addition to those already attached. Returns those that were not attached before.
    ///
    /// # Errors
    /// `Missing` (policy, user, group), `Invalid`, `Unavailable`.
    pub fn attach<'a>(&'a self, to: Entity<'a>, names: &'a [String]) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async move {
            self.change(|iam, c| {
                for name in names {
                    if c.records.policy(name).is_none() {
                        return Err(missing("policy", name));
                    }
                    iam.depends(c, &format!("{POLICIES}{name}"));
                }
                iam.edit_policies(c, to, |all| {
                    names.iter().filter(|n| all.insert((*n).clone())).cloned().collect()
                })
            })
            .await
        })
    }

    /// Detaches policies. Returns those that were attached.
    ///
    /// # Errors
    /// `Missing` (user, group), `Unavailable`.
    pub fn detach<'a>(&'a self, from: Entity<'a>, names: &'a [String]) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async move {
            self.change(|iam, c| {
                iam.edit_policies(c, from, |all| names.iter().filter(|n| all.remove(*n)).cloned().collect())
            })
            .await
        })
    }

    /// Replaces the attached policies by these.
    ///
    /// # Errors
    /// As [`Iam::attach`].
    pub fn set_policies<'a>(&'a self, of: Entity<'a>, names: &'a [String]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.change(|iam, c| {
                if let Some(name) = names.iter().find(|n| c.records.policy(n).is_none()) {
                    return Err(missing("policy", name));
                }
                iam.edit_policies(c, of, |all| *all = names.iter().cloned().collect())
            })
            .await
        })
    }

    fn edit_policies<T>(
        &self,
        c: &mut Change,
        of: Entity<'_>,
        f: impl FnOnce(&mut BTreeSet<String>) -> T,
    ) -> Result<T> {
        let mut answer = None;
        let mut count = 0;
        let edit = |all: &mut BTreeSet<String>| {
            answer = Some(f(all));
            count = all.len();
        };
        match of {
            Entity::User(name) => self.edit_user(c, name, |u| edit(&mut u.policies))?,
            Entity::Group(name) => self.edit_group(c, name, |g| edit(&mut g.policies))?,
            Entity::FederatedUser(name) => self.edit_mapping(c, false, name, |m| edit(&mut m.policies))?,
            Entity::FederatedGroup(name) => self.edit_mapping(c, true, name, |m| edit(&mut m.policies))?,
        }
        if count > limits::POLICIES {
            return Err(Error::Invalid(format!("at most {} policies can be attached", limits::POLICIES)));
        }
        answer.ok_or_else(|| Error::Invalid("nothing was changed".into()))
    }

    /// All policies by name: built-in and stored ones.
    #[must_use]
    pub fn policies(&self) -> BTreeMap<String, Arc<NamedPolicy>> {
        let mut all = self.directory().records.policies.clone();
        for (name, _) in BUILTIN {
            if let Some(named) = self.policy(name) {
                all.entry((*name).to_owned()).or_insert(named);
            }
        }
        all
    }

    /// One policy.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<Arc<NamedPolicy>> {
        let stored = self.directory().records.policies.get(name).cloned();
        stored.or_else(|| {
            let policy = ashlar_policy::builtin(name)?;
            Some(Arc::new(NamedPolicy { policy, made_ms: 0, changed_ms: 0 }))
        })
    }

    /// The holders of a policy.
    #[must_use]
    pub fn holders(&self, policy: &str) -> Holders {
        let d = self.directory();
        let users = d.records.users.iter().filter(|(_, u)| u.policies.contains(policy));
        let groups = d.records.groups.iter().filter(|(_, g)| g.policies.contains(policy));
        let mapped = |all: &BTreeMap<String, Arc<Mapping>>| {
            all.iter().filter(|(_, m)| m.policies.contains(policy)).map(|(n, _)| n.clone()).collect()
        };
        let trusted = self.trusted.load();
        let roles = trusted.iter().filter(|(_, roles)| roles.iter().any(|r| r == policy));
        let claims = trusted.iter().filter(|(provider, roles)| takes_claims(provider, roles));
        Holders {
            users: users.map(|(n, _)| n.clone()).collect(),
            groups: groups.map(|(n, _)| n.clone()).collect(),
            federated_users: mapped(&d.records.federated_users),
            federated_groups: mapped(&d.records.federated_groups),
            roles: roles.map(|(n, _)| n.clone()).collect(),
            claims: claims.map(|(n, _)| n.clone()).collect(),
        }
    }
}
