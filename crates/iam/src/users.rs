//! Users: creating, changing, disabling and removing them.
//!
//! Invariants: a user's name is its access key; removing a user removes its access keys and its
//! memberships in the same transaction.

use futures::future::BoxFuture;
use std::collections::BTreeSet;

use crate::error::missing;
use crate::record::User;
use crate::secret::{check_access_key, check_secret, new_canonical_id};
use crate::store::{Change, GROUPS, KEYS, ROOT, USERS};
use crate::{Error, Iam, Result, Secret};

/// Information about a user, without the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserInfo {
    /// Its name.
    pub name: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Names of its own policies.
    pub policies: BTreeSet<String>,
    /// Groups it is in.
    pub groups: Vec<String>,
    /// When it was made or last changed, in milliseconds since 1970.
    pub changed_ms: i64,
    /// When it last signed a request; `None`: never, or not known.
    pub used_ms: Option<i64>,
    /// See [`crate::Identity::canonical_id`].
    pub canonical_id: String,
}

impl Iam {
    /// Creates a user, or changes the secret of an existing one (as `mc admin user add` does).
    ///
    /// # Errors
    /// `Invalid`, `Exists` (an access key or root has that name), `Unavailable`.
    pub fn put_user<'a>(
        &'a self,
        name: &'a str,
        secret: &'a Secret,
        enabled: bool,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            check_access_key("user", name)?;
            check_secret(secret)?;
            self.change(|iam, c| {
                iam.name_is_free(c, name, true)?;
                let before = c.records.users.get(name).cloned();
                let now = iam.now();
                let before = before.map(|u| (*u).clone());
                // Sessions of an earlier user of that name must not become valid again.
                let before = before.unwrap_or_else(|| User {
                    revoked_ms: now,
                    id: new_canonical_id(),
                    ..User::default()
                });
                let user = User { secret: secret.expose().to_owned(), enabled, changed_ms: now, ..before };
                iam.put(c, format!("{USERS}{name}"), &user);
                Ok(())
            })
            .await
        })
    }

    /// Enables or disables a user.
    ///
    /// # Errors
    /// `Missing`, `Unavailable`.
    pub fn enable_user<'a>(&'a self, name: &'a str, enabled: bool) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.change(|iam, c| iam.edit_user(c, name, |u| u.enabled = enabled)).await })
    }

    /// Removes a user with its access keys and memberships. Its sessions end with it.
    ///
    /// # Errors
    /// `Missing`, `Unavailable`.
    pub fn remove_user<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.change(|iam, c| {
                if !c.records.users.contains_key(name) {
                    return Err(missing("user", name));
                }
                c.remove(format!("{USERS}{name}"));
                let keys: Vec<_> =
                    c.records.keys.iter().filter(|(_, k)| k.parent == name).map(|(n, _)| n.clone()).collect();
                keys.into_iter().for_each(|k| c.remove(format!("{KEYS}{k}")));
                let groups: Vec<_> =
                    c.records.groups_of(name).map(|(n, g)| (n.clone(), (**g).clone())).collect();
                for (group, mut record) in groups {
                    record.members.remove(name);
                    record.changed_ms = iam.now();
                    iam.put(c, format!("{GROUPS}{group}"), &record);
                }
                Ok(())
            })
            .await
        })
    }

    /// Revokes all existing sessions of a user, of root, or of a federated user.
    ///
    /// # Errors
    /// `Missing`, `Unavailable`.
    pub fn revoke_sessions<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.change(|iam, c| {
                let now = iam.now();
                if user == iam.root().access_key {
                    iam.put(c, ROOT.to_owned(), &now);
                    return Ok(());
                }
                if !c.records.users.contains_key(user) && user.contains(['/', '=']) {
                    return iam.revoke_federated(c, user);
                }
                iam.edit_user(c, user, |u| u.revoked_ms = now)
            })
            .await
        })
    }

    /// All users, in order of their names.
    #[must_use]
    pub fn users(&self) -> Vec<UserInfo> {
        let names: Vec<String> = self.directory().records.users.keys().cloned().collect();
        names.iter().filter_map(|n| self.user(n)).collect()
    }

    /// One user.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<UserInfo> {
        let d = self.directory();
        let u = d.records.users.get(name)?;
        Some(UserInfo {
            name: name.to_owned(),
            enabled: u.enabled,
            policies: u.policies.clone(),
            groups: d.records.groups_of(name).map(|(n, _)| n.clone()).collect(),
            changed_ms: u.changed_ms,
            used_ms: d.used(name),
            canonical_id: d.canonical_id(name).to_owned(),
        })
    }

    /// The canonical id of a user of that name.
    #[must_use]
    pub fn canonical_id(&self, name: &str) -> Option<String> {
        let d = self.directory();
        d.records.users.contains_key(name).then(|| d.canonical_id(name).to_owned())
    }

    /// The user with this canonical id.
    #[must_use]
    pub fn user_by_canonical_id(&self, id: &str) -> Option<String> {
        let d = self.directory();
        let found = d.records.users.iter().find(|(name, user)| match user.id.is_empty() {
            true => name.as_str() == id,
            false => user.id == id,
        });
        found.map(|(name, _)| name.clone())
    }

    pub(crate) fn edit_user(&self, c: &mut Change, name: &str, f: impl FnOnce(&mut User)) -> Result<()> {
        let mut user =
            c.records.users.get(name).map(|u| (**u).clone()).ok_or_else(|| missing("user", name))?;
        f(&mut user);
        user.changed_ms = self.now();
        self.put(c, format!("{USERS}{name}"), &user);
        Ok(())
    }

    /// Refuses a name that root or an access key has (CVE-2023-27589), and that of a user unless `users`.
    pub(crate) fn name_is_free(&self, c: &mut Change, name: &str, users: bool) -> Result<()> {
        let root = self.root().access_key == name;
        let user = c.records.users.contains_key(name);
        if root || c.records.keys.contains_key(name) || (user && !users) {
            let what = if root || user { "user" } else { "access key" };
            return Err(Error::Exists { what, name: name.to_owned() });
        }
        // The change fails if another server takes the name meanwhile.
        self.depends(c, &format!("{KEYS}{name}"));
        self.depends(c, &format!("{USERS}{name}"));
        Ok(())
    }
}
