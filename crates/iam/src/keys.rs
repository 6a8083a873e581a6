//! Access keys (service accounts): additional keys of a user, with their own policy and expiry.
//!
//! Invariants: an access key belongs to a user that existed when it was made, or to root; its policy only
//! restricts the policies of that user. The API layer checks who may make an access key for whom.

use crate::error::missing;
use crate::federated::Federated;
use crate::limits;
use crate::record::AccessKey;
use crate::secret::{check_access_key, check_secret, new_access_key, new_secret};
use crate::store::{KEYS, USERS};
use crate::{Error, Iam, Result, Secret};
use ashlar_policy::{Attached, Policy};
use futures::future::BoxFuture;

/// The parameters of a new access key.
#[derive(Clone, Debug, Default)]
pub struct NewKey {
    /// The user it acts for.
    pub parent: String,
    /// The access key; `None`: a random one.
    pub access_key: Option<String>,
    /// The secret; `None`: a random one.
    pub secret: Option<Secret>,
    /// A policy document that restricts it.
    pub policy: Option<String>,
    /// Its end, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
    /// What its owner calls it.
    pub name: String,
    /// The owner's description of it.
    pub description: String,
    /// Set if the parent is a federated user; `parent` is then their id.
    pub federated: Option<Federated>,
}

/// Changes of an access key; fields that are `None` stay unchanged.
#[derive(Clone, Debug, Default)]
pub struct KeyChange {
    /// The new secret.
    pub secret: Option<Secret>,
    /// The new policy; `Some(None)` removes it.
    pub policy: Option<Option<String>>,
    /// Whether it is enabled.
    pub enabled: Option<bool>,
    /// The new expiry; `Some(None)` removes it.
    pub expires_ms: Option<Option<i64>>,
    /// The new name.
    pub name: Option<String>,
    /// The new description.
    pub description: Option<String>,
}

/// Information about an access key, without the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The access key.
    pub access_key: String,
    /// The user it acts for.
    pub parent: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Its own policy.
    pub policy: Option<String>,
    /// Its end, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
    /// What its owner calls it.
    pub name: String,
    /// The owner's description of it.
    pub description: String,
    /// When it last signed a request.
    pub used_ms: Option<i64>,
}

impl Iam {
    /// Makes an access key. Returns the key and its secret, which is not returned again.
    ///
    /// # Errors
    /// `Missing` (the parent), `Exists`, `Invalid`, `Policy`, `Unavailable`.
    pub fn add_key(&self, new: NewKey) -> BoxFuture<'_, Result<(String, Secret)>> {
        Box::pin(async move {
            let access_key = new.access_key.clone().unwrap_or_else(new_access_key);
            let secret = new.secret.clone().unwrap_or_else(new_secret);
            check_access_key("access key", &access_key)?;
            check_secret(&secret)?;
            let record = AccessKey {
                secret: secret.expose().to_owned(),
                parent: new.parent,
                enabled: true,
                policy: new.policy.as_deref().map(checked).transpose()?,
                expires_ms: new.expires_ms,
                name: new.name,
                description: new.description,
                made_ms: 0,
                changed_ms: 0,
                federated: new.federated.map(Federated::stored),
            };
            if let Some(who) = &record.federated {
                who.check()?;
                if who.id != record.parent {
                    return Err(Error::Invalid("the access key's parent must be the federated user".into()));
                }
            }
            self.check_key(&record)?;
            self.change(|iam, c| {
                iam.name_is_free(c, &access_key, false)?;
                if record.parent != iam.root().access_key && record.federated.is_none() {
                    if !c.records.users.contains_key(&record.parent) {
                        return Err(missing("user", &record.parent));
                    }
                    iam.depends(c, &format!("{USERS}{}", record.parent));
                }
                let count = c.records.keys.values().filter(|k| k.parent == record.parent).count();
                if count >= limits::KEYS {
                    return Err(Error::Invalid(format!(
                        "{} has {count} access keys; remove some",
                        record.parent
                    )));
                }
                let now = iam.now();
                let record = AccessKey { made_ms: now, changed_ms: now, ..record.clone() };
                iam.put(c, format!("{KEYS}{access_key}"), &record);
                Ok(())
            })
            .await?;
            Ok((access_key, secret))
        })
    }

    /// Changes an access key.
    ///
    /// # Errors
    /// `Missing`, `Invalid`, `Policy`, `Unavailable`.
    pub fn change_key<'a>(&'a self, access_key: &'a str, change: &'a KeyChange) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if let Some(secret) = &change.secret {
                check_secret(secret)?;
            }
            let policy = match &change.policy {
                Some(Some(p)) => Some(Some(checked(p)?)),
                other => other.clone(),
            };
            self.change(|iam, c| {
                let before =
                    c.records.keys.get(access_key).ok_or_else(|| missing("access key", access_key))?;
                let mut k = (**before).clone();
                if let Some(secret) = &change.secret {
                    k.secret = secret.expose().to_owned();
                }
                k.policy = policy.clone().unwrap_or(k.policy);
                k.enabled = change.enabled.unwrap_or(k.enabled);
                k.expires_ms = change.expires_ms.unwrap_or(k.expires_ms);
                k.name = change.name.clone().unwrap_or(k.name);
                k.description = change.description.clone().unwrap_or(k.description);
                k.changed_ms = iam.now();
                if change.expires_ms.is_some() {
                    iam.check_key(&k)?;
                }
                check_texts(&k)?;
                iam.put(c, format!("{KEYS}{access_key}"), &k);
                Ok(())
            })
            .await
        })
    }

    /// Removes an access key.
    ///
    /// # Errors
    /// `Missing`, `Unavailable`.
    pub fn remove_key<'a>(&'a self, access_key: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.change(|_, c| {
                if !c.records.keys.contains_key(access_key) {
                    return Err(missing("access key", access_key));
                }
                c.remove(format!("{KEYS}{access_key}"));
                Ok(())
            })
            .await
        })
    }

    /// Access keys in order; `parent`: only those of one user.
    #[must_use]
    pub fn keys(&self, parent: Option<&str>) -> Vec<KeyInfo> {
        let d = self.directory();
        let of = |k: &AccessKey| parent.is_none_or(|p| p == k.parent);
        let names: Vec<_> = d.records.keys.iter().filter(|(_, k)| of(k)).map(|(n, _)| n.clone()).collect();
        names.iter().filter_map(|n| self.key(n)).collect()
    }

    /// One access key.
    #[must_use]
    pub fn key(&self, access_key: &str) -> Option<KeyInfo> {
        let d = self.directory();
        let k = d.records.keys.get(access_key)?;
        Some(KeyInfo {
            access_key: access_key.to_owned(),
            parent: k.parent.clone(),
            enabled: k.enabled,
            policy: k.policy.clone(),
            expires_ms: k.expires_ms,
            name: k.name.clone(),
            description: k.description.clone(),
            used_ms: d.used(access_key),
        })
    }

    fn check_key(&self, key: &AccessKey) -> Result<()> {
        if key.expires_ms.is_some_and(|at| at <= self.now()) {
            return Err(Error::Invalid("the expiry of the access key is in the past".into()));
        }
        check_texts(key)
    }
}

fn check_texts(key: &AccessKey) -> Result<()> {
    for (what, text, limit) in
        [("name", &key.name, limits::KEY_NAME), ("description", &key.description, limits::KEY_DESCRIPTION)]
    {
        if text.len() > limit || text.chars().any(char::is_control) {
            return Err(Error::Invalid(format!(
                "the {what} of an access key has at most {limit} bytes and no control characters"
            )));
        }
    }
    Ok(())
}

/// A policy document in its canonical form.
fn checked(document: &str) -> Result<String> {
    Ok(Policy::parse(Attached::AccessKey, document.as_bytes())?.to_json())
}
