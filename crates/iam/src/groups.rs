//! Groups: users that share policies.
//!
//! Invariants: a member is a user that existed when it was added; a group with members cannot be removed.

use futures::future::BoxFuture;
use std::collections::BTreeSet;

use crate::error::missing;
use crate::limits::GROUP_NAME;
use crate::record::Group;
use crate::secret::check_name;
use crate::store::{Change, GROUPS, USERS};
use crate::{Error, Iam, Result};

/// Information about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// Whether its policies apply.
    pub enabled: bool,
    /// Names of its members.
    pub members: BTreeSet<String>,
    /// Names of its policies.
    pub policies: BTreeSet<String>,
    /// When it was made or last changed, in milliseconds since 1970.
    pub changed_ms: i64,
}

impl Iam {
    /// Adds users to a group. Creates the group if it does not exist.
    ///
    /// # Errors
    /// `Invalid`, `Missing` (a user), `Unavailable`.
    pub fn add_members<'a>(&'a self, group: &'a str, users: &'a [String]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name("group", group, GROUP_NAME)?;
            self.change(|iam, c| {
                for user in users {
                    if !c.records.users.contains_key(user) {
                        return Err(missing("user", user));
                    }
                    iam.depends(c, &format!("{USERS}{user}"));
                }
                let mut g = match c.records.groups.get(group) {
                    Some(g) => (**g).clone(),
                    None => Group { enabled: true, ..Group::default() },
                };
                g.members.extend(users.iter().cloned());
                g.changed_ms = iam.now();
                iam.put(c, format!("{GROUPS}{group}"), &g);
                Ok(())
            })
            .await
        })
    }

    /// Removes users from a group.
    ///
    /// # Errors
    /// `Missing` (the group), `Unavailable`.
    pub fn remove_members<'a>(&'a self, group: &'a str, users: &'a [String]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.change(|iam, c| iam.edit_group(c, group, |g| g.members.retain(|m| !users.contains(m)))).await
        })
    }

    /// Removes a group that has no members.
    ///
    /// # Errors
    /// `Missing`, `InUse`, `Unavailable`.
    pub fn remove_group<'a>(&'a self, group: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.change(|_, c| {
                let g = c.records.groups.get(group).ok_or_else(|| missing("group", group))?;
                if let Some(member) = g.members.first() {
                    let by = format!("{} members, {member} first", g.members.len());
                    return Err(Error::InUse { what: "group", name: group.to_owned(), by });
                }
                c.remove(format!("{GROUPS}{group}"));
                Ok(())
            })
            .await
        })
    }

    /// Enables or disables a group. The policies of a disabled group do not apply.
    ///
    /// # Errors
    /// `Missing`, `Unavailable`.
    pub fn enable_group<'a>(&'a self, group: &'a str, enabled: bool) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.change(|iam, c| iam.edit_group(c, group, |g| g.enabled = enabled)).await })
    }

    /// All groups, in order of their names.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupInfo> {
        let names: Vec<String> = self.directory().records.groups.keys().cloned().collect();
        names.iter().filter_map(|n| self.group(n)).collect()
    }

    /// One group.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<GroupInfo> {
        let d = self.directory();
        let g = d.records.groups.get(name)?;
        Some(GroupInfo {
            name: name.to_owned(),
            enabled: g.enabled,
            members: g.members.clone(),
            policies: g.policies.clone(),
            changed_ms: g.changed_ms,
        })
    }

    pub(crate) fn edit_group(&self, c: &mut Change, name: &str, f: impl FnOnce(&mut Group)) -> Result<()> {
        let mut g =
            c.records.groups.get(name).map(|g| (**g).clone()).ok_or_else(|| missing("group", name))?;
        f(&mut g);
        g.changed_ms = self.now();
        self.put(c, format!("{GROUPS}{name}"), &g);
        Ok(())
    }
}
