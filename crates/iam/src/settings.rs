//! Settings that are changed while the server runs: per subsystem and target, names and values.
//!
//! As MinIO's configuration: `identity_openid:keycloak` has `config_url`, `client_id`, ... The target of
//! a subsystem that exists once is `_`. Invariants: settings are sealed like users, because values contain
//! secrets; only a subsystem knows the meaning of its values, and it checks a change before it is stored
//! here.
//!
//! Must not depend on: what a subsystem does.

use futures::future::BoxFuture;
use std::sync::Arc;

use crate::error::missing;
use crate::limits;
use crate::record::{Setting, Values};
use crate::store::SETTINGS;
use crate::{Error, Iam, Result};

/// The target of a subsystem that exists once.
pub const DEFAULT_TARGET: &str = "_";

impl Iam {
    /// Stores all values of a target, replacing the existing ones. The caller must have checked them.
    ///
    /// # Errors
    /// `Invalid` (names, size), `Unavailable`.
    pub fn put_setting<'a>(
        &'a self,
        subsystem: &'a str,
        target: &'a str,
        values: &'a Values,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let key = key_of(subsystem, target)?;
            let size: usize = values.iter().map(|(k, v)| k.len() + v.len()).sum();
            if size > limits::SETTING {
                return Err(Error::Invalid(format!(
                    "the settings of {subsystem}:{target} have {size} bytes, more than {}",
                    limits::SETTING
                )));
            }
            self.change(|iam, c| {
                if c.records.settings.len() >= limits::SETTINGS && !c.records.settings.contains_key(&key) {
                    return Err(Error::Invalid(format!(
                        "at most {} targets can be configured",
                        limits::SETTINGS
                    )));
                }
                let setting = Setting { values: values.clone(), changed_ms: iam.now() };
                iam.put(c, format!("{SETTINGS}{key}"), &setting);
                Ok(())
            })
            .await
        })
    }

    /// Removes a target.
    ///
    /// # Errors
    /// `Missing`, `Invalid` (names), `Unavailable`.
    pub fn remove_setting<'a>(&'a self, subsystem: &'a str, target: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let key = key_of(subsystem, target)?;
            self.change(|_, c| {
                if !c.records.settings.contains_key(&key) {
                    return Err(missing("setting", &format!("{subsystem}:{target}")));
                }
                c.remove(format!("{SETTINGS}{key}"));
                Ok(())
            })
            .await
        })
    }

    /// The targets of a subsystem, in order; all of them by `SUBSYSTEM/TARGET` with an empty name.
    #[must_use]
    pub fn settings(&self, subsystem: &str) -> Vec<(String, Arc<Setting>)> {
        let prefix = if subsystem.is_empty() { String::new() } else { format!("{subsystem}/") };
        let d = self.directory();
        let all = d.records.settings.iter();
        all.filter_map(|(k, s)| Some((k.strip_prefix(&prefix)?.to_owned(), s.clone()))).collect()
    }

    /// One target.
    #[must_use]
    pub fn setting(&self, subsystem: &str, target: &str) -> Option<Arc<Setting>> {
        self.directory().records.settings.get(&format!("{subsystem}/{target}")).cloned()
    }

    /// Notifies of changes of settings, on this or another machine. The number itself has no meaning.
    #[must_use]
    pub fn settings_changed(&self) -> tokio::sync::watch::Receiver<u64> {
        self.settings_news.subscribe()
    }
}

fn key_of(subsystem: &str, target: &str) -> Result<String> {
    let plain = |name: &str| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    };
    if !plain(subsystem) || !plain(target) {
        return Err(Error::Invalid(format!(
            "\"{subsystem}:{target}\" cannot be configured: names have 1 to 64 letters, digits and _ - ."
        )));
    }
    Ok(format!("{subsystem}/{target}"))
}
