//! Search for users in a directory, and for their groups.
//!
//! Invariants: a login name must match exactly one entry; nested groups are followed once each, to a bounded
//! depth and number; entries outside the configured bases are ignored.
//!
//! Must not depend on: passwords.

use futures::future::BoxFuture;
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;

use ashlar_iam::Facts;

use super::connection::{Connection, Failure};
use super::dn::Dn;
use super::filter::Filter;
use super::message::{Entry, Scope};
use super::settings::{Base, Settings};

/// Most groups of one user. A user with more is refused, because leaving some out could widen their
/// permissions.
pub const GROUPS: usize = 1000;
/// Most levels of nested groups.
pub const DEPTH: usize = 16;
/// Values kept of an attribute, and the longest, in bytes.
const VALUES: (usize, usize) = (16, 256);

/// A user of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The distinguished name in the directory's spelling.
    pub dn: String,
    /// The same in normal form.
    pub id: String,
    /// The login name in the directory's spelling.
    pub username: String,
    /// Values for `ldap:*`, the name and the DN among them.
    pub attributes: Facts,
}

impl Settings {
    /// The user with this login name. `None`: none, or more than one.
    pub fn find<'a>(
        &'a self,
        c: &'a mut Connection,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Person>, Failure>> {
        Box::pin(async move {
            let mut found: Vec<Person> = Vec::new();
            for base in &self.user_bases {
                let entries = match self.at(c, (&base.text, Scope::Tree), name, 2).await {
                    Err(Failure::TooMuch(_)) => {
                        tracing::warn!(base = base.text, "more than one entry matches a login name");
                        return Ok(None);
                    }
                    entries => entries?,
                };
                for person in entries.into_iter().filter_map(|e| self.person(e, name)) {
                    // Bases may overlap, so an entry can be found twice.
                    if !found.iter().any(|f| f.id == person.id) {
                        found.push(person);
                    }
                }
            }
            if found.len() > 1 {
                let names: Vec<&str> = found.iter().map(|p| p.dn.as_str()).collect();
                tracing::warn!(?names, "more than one entry matches a login name");
                return Ok(None);
            }
            Ok(found.pop())
        })
    }

    /// The user with this normal form, if the login name still belongs to them.
    pub fn again<'a>(
        &'a self,
        c: &'a mut Connection,
        id: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Person>, Failure>> {
        Box::pin(async move {
            if !Dn::parse(id).is_ok_and(|dn| within(&dn, &self.user_bases)) {
                return Ok(None);
            }
            let entries = self.at(c, (id, Scope::Base), name, 1).await?;
            Ok(entries.into_iter().find_map(|e| self.person(e, name)).filter(|p| p.id == id))
        })
    }

    async fn at(
        &self,
        c: &mut Connection,
        place: (&str, Scope),
        name: &str,
        limit: usize,
    ) -> Result<Vec<Entry>, Failure> {
        let mut asked: Vec<&str> = self.attributes.iter().map(String::as_str).collect();
        self.user_filter.login_attributes(&mut asked);
        c.search(place, (&self.user_filter, name, ""), &asked, limit).await
    }

    fn person(&self, entry: Entry, name: &str) -> Option<Person> {
        let dn = match Dn::parse(&entry.dn) {
            Ok(dn) if within(&dn, &self.user_bases) => dn,
            Ok(_) => return None,
            Err(why) => {
                tracing::warn!(why, "an entry's name cannot be read");
                return None;
            }
        };
        let username = self.login_name(&entry, name);
        let mut attributes =
            vec![("user".to_owned(), vec![dn.spelled()]), ("username".to_owned(), vec![username.clone()])];
        for attribute in &self.attributes {
            let values: Vec<String> = entry.texts(attribute).map(str::to_owned).collect();
            if values.len() > VALUES.0 || values.iter().any(|v| v.len() > VALUES.1) {
                tracing::warn!(dn = entry.dn, attribute, "too many or too long values; left out");
            } else if !values.is_empty() {
                attributes.push((attribute.clone(), values));
            }
        }
        Some(Person { id: dn.normal(), dn: entry.dn, username, attributes })
    }

    /// The login name in the directory's spelling, so that users cannot choose a spelling. If the filter
    /// compares it with no attribute that the directory shows, the name as it was given.
    fn login_name(&self, entry: &Entry, name: &str) -> String {
        let words = |t: &str| t.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let mut attributes = Vec::new();
        self.user_filter.login_attributes(&mut attributes);
        let values = attributes.into_iter().flat_map(|a| entry.texts(a));
        values.into_iter().find(|v| words(v) == words(name)).unwrap_or(name.trim()).to_owned()
    }

    /// The normal forms of a user's groups, in order.
    pub fn groups<'a>(
        &'a self,
        c: &'a mut Connection,
        person: &'a Person,
    ) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        Box::pin(async move {
            if self.group_bases.is_empty() {
                return Ok(Vec::new());
            }
            collect_groups(&mut InDirectory { settings: self, c }, self.nested, &person.username, &person.dn)
                .await
        })
    }

    /// The normal form of an entry, if one of that name exists in one of the bases.
    pub fn entry<'a>(
        &'a self,
        c: &'a mut Connection,
        dn: &'a Dn,
    ) -> BoxFuture<'a, Result<Option<String>, Failure>> {
        Box::pin(async move {
            let found = c.search((&dn.spelled(), Scope::Base), (&Filter::any(), "", ""), &[], 1).await?;
            Ok(found.first().and_then(|e| Dn::parse(&e.dn).ok()).map(|dn| dn.normal()))
        })
    }
}

/// Whether a name is in one of the bases.
pub fn within(dn: &Dn, bases: &[Base]) -> bool {
    bases.iter().any(|b| dn.is_within(&b.dn))
}

/// A source of group memberships.
pub trait GroupSource {
    /// Distinguished names of the groups that have `dn` as a member; `user`: their login name.
    fn groups_of(
        &mut self,
        user: &str,
        dn: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<String>, Failure>> + Send;
}

struct InDirectory<'a> {
    settings: &'a Settings,
    c: &'a mut Connection,
}

impl GroupSource for InDirectory<'_> {
    async fn groups_of(&mut self, user: &str, dn: &str, limit: usize) -> Result<Vec<String>, Failure> {
        let mut all = Vec::new();
        for base in &self.settings.group_bases {
            let filter = (&self.settings.group_filter, user, dn);
            let found = self.c.search((&base.text, Scope::Tree), filter, &[], limit).await?;
            all.extend(found.into_iter().map(|e| e.dn));
        }
        Ok(all)
    }
}

/// The normal forms of all groups of an entry; with `nested`, including the groups that those are in.
pub async fn collect_groups(
    source: &mut impl GroupSource,
    nested: bool,
    user: &str,
    dn: &str,
) -> Result<Vec<String>, Failure> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut next = VecDeque::from([(dn.to_owned(), 0)]);
    while let Some((member, depth)) = next.pop_front() {
        for group in source.groups_of(user, &member, GROUPS).await? {
            let normal = match Dn::parse(&group) {
                Ok(dn) => dn.normal(),
                Err(why) => {
                    tracing::warn!(why, "a group's name cannot be read; left out");
                    continue;
                }
            };
            if !found.insert(normal) || !nested {
                continue;
            }
            if depth + 1 >= DEPTH {
                return Err(Failure::TooMuch(format!("groups are nested more than {DEPTH} deep")));
            }
            next.push_back((group, depth + 1));
        }
        if found.len() > GROUPS {
            return Err(Failure::TooMuch(format!("more than {GROUPS} groups of one user")));
        }
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Group memberships, and the number of queries.
    struct Fake(BTreeMap<String, Vec<String>>, usize);

    impl GroupSource for Fake {
        async fn groups_of(&mut self, _: &str, dn: &str, _: usize) -> Result<Vec<String>, Failure> {
            self.1 += 1;
            Ok(self.0.get(dn).cloned().unwrap_or_default())
        }
    }

    fn fake(edges: &[(&str, &[&str])]) -> Fake {
        let owned = |all: &[&str]| all.iter().map(|g| (*g).to_owned()).collect();
        Fake(edges.iter().map(|(m, all)| ((*m).to_owned(), owned(all))).collect(), 0)
    }

    #[tokio::test]
    async fn nested_groups_are_followed_once_each() {
        let edges: &[(&str, &[&str])] = &[
            ("uid=a", &["cn=One", "cn=two"]),
            ("cn=One", &["cn=three", "cn=one"]),
            ("cn=two", &["cn=three"]),
            ("cn=three", &["cn=ONE", "cn=four"]),
        ];
        let mut f = fake(edges);
        assert_eq!(collect_groups(&mut f, false, "a", "uid=a").await.unwrap(), ["cn=one", "cn=two"]);
        assert_eq!(f.1, 1);
        let mut f = fake(edges);
        let all = collect_groups(&mut f, true, "a", "uid=a").await.unwrap();
        assert_eq!(all, ["cn=four", "cn=one", "cn=three", "cn=two"]);
        assert_eq!(f.1, 5, "the person, and each group once, whatever circles they form");
        let mut f = fake(&[("uid=a", &["no name", "cn=b"])]);
        assert_eq!(collect_groups(&mut f, true, "a", "uid=a").await.unwrap(), ["cn=b"]);
    }

    #[tokio::test]
    async fn too_many_or_too_deeply_nested_groups_are_errors() {
        let chain = |n: usize| {
            let names = (0..n).map(|i| (format!("cn={i}"), vec![format!("cn={}", i + 1)]));
            Fake(names.collect(), 0)
        };
        assert_eq!(collect_groups(&mut chain(DEPTH - 1), true, "", "cn=0").await.unwrap().len(), DEPTH - 1);
        assert!(matches!(
            collect_groups(&mut chain(DEPTH), true, "", "cn=0").await,
            Err(Failure::TooMuch(_))
        ));
        let wide =
            |n: usize| Fake([("u=a".to_owned(), (0..n).map(|i| format!("cn={i}")).collect())].into(), 0);
        assert_eq!(collect_groups(&mut wide(GROUPS), true, "", "u=a").await.unwrap().len(), GROUPS);
        assert!(matches!(
            collect_groups(&mut wide(GROUPS + 1), false, "", "u=a").await,
            Err(Failure::TooMuch(_))
        ));
    }
}
