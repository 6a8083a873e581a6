#![forbid(unsafe_code)]
//! Keys that seal other keys.
//!
//! A **data key** is 32 random bytes that somebody encrypts something with. It leaves this room twice: in
//! clear, to be used and forgotten, and sealed, to be stored beside what it encrypted. A **named key**
//! seals data keys and never leaves; it has versions: the newest seals, all of them open. Every data key is
//! bound to a context (where it belongs): it opens under the same context only.
//!
//! | file | what it holds |
//! |---|---|
//! | `secret` | 32 bytes that are wiped and cannot be printed |
//! | `wrap` | one key sealed under another, bound to a context |
//! | `root` | the root key: from a file, the environment, or MinIO's form of it |
//! | `builtin` | named keys in the control store, sealed under the root key |
//! | `vault` | named keys in HashiCorp Vault (transit engine) |
//! | `kes`, `kes_identity` | named keys in MinIO KES; the client certificate of an API key |
//! | `cache` | data keys of remote drivers that were opened a moment ago |
//!
//! Invariants: what does not open gives no reason and no bytes; nothing is ever handed out unsealed in
//! place of a key that is missing; a key name is checked before it enters a path; secrets have neither
//! `Debug` nor `Display`; what is kept is bounded.
//!
//! Must never know: objects, requests, users.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod builtin;
mod cache;
mod error;
mod kes;
mod kes_identity;
mod root;
mod sealed_root;
mod secret;
mod vault;
mod wrap;

pub use builtin::Builtin;
pub use error::{Error, Result};
pub use kes::{Kes, KesSettings};
pub use kes_identity::kes_identity;
pub use root::{Root, passphrase_from, root_from};
pub use sealed_root::seal_root;
pub use secret::{Secret, random};
pub use vault::{Vault, VaultSettings};
pub use wrap::{open, open_bytes, seal, seal_bytes};

use futures::future::BoxFuture;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cache::Cache;

/// Longest name of a key, in bytes.
pub const MAX_NAME: usize = 80;

/// A fresh data key.
pub struct DataKey {
    /// In clear: to be used now.
    pub plain: Secret,
    /// Sealed: to be stored.
    pub sealed: Vec<u8>,
    /// The named key that it is sealed under.
    pub key_id: String,
}

/// What is known of a named key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStatus {
    /// Its name.
    pub name: String,
    /// The newest version, from 1; 0: the driver has no versions that it tells of.
    pub version: u32,
    /// Milliseconds since 1970; 0: the driver does not tell.
    pub created_ms: i64,
}

/// Where named keys are.
enum Driver {
    Builtin(Builtin),
    Vault(Box<Vault>),
    Kes(Box<Kes>),
}

/// Named keys, wherever they are.
pub struct Kms {
    driver: Driver,
    /// The key that is used when nobody names one.
    default: String,
    /// The default key is made when it is first needed.
    when_needed: bool,
    cache: Cache,
    counts: Counts,
}

/// Uses of data keys since the start.
#[derive(Default)]
struct Counts {
    succeeded: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

/// Refuses names that could be something else in a path or a header.
///
/// # Errors
/// [`Error::Invalid`].
pub fn check_name(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let good = (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(plain)
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if good {
        return Ok(());
    }
    let shown: String = name.chars().take(MAX_NAME).filter(|c| !c.is_control()).collect();
    Err(Error::Invalid(format!(
        "\"{shown}\" cannot be the name of a key: use 1 to {MAX_NAME} letters, digits, '-', '_' and '.', \
         beginning with a letter or digit"
    )))
}

impl Kms {
    /// Keys in the control store. The default key is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Invalid`] (the name), [`Error::Unavailable`] (it cannot be stored).
    pub fn builtin(driver: Builtin, default: &str) -> BoxFuture<'_, Result<Kms>> {
        Box::pin(async move {
            check_name(default)?;
            let kms = Kms::over(Driver::Builtin(driver), default);
            kms.ensure_default().await?;
            Ok(kms)
        })
    }

    /// As [`Kms::builtin`], but the default key is made only when something is to be sealed under it.
    ///
    /// # Errors
    /// [`Error::Invalid`] (the name).
    pub fn builtin_when_needed(driver: Builtin, default: &str) -> Result<Kms> {
        check_name(default)?;
        Ok(Kms { when_needed: true, ..Kms::over(Driver::Builtin(driver), default) })
    }

    /// Keys in Vault.
    ///
    /// # Errors
    /// [`Error::Invalid`] (the name).
    pub fn vault(driver: Vault, default: &str) -> Result<Kms> {
        check_name(default)?;
        Ok(Kms::over(Driver::Vault(Box::new(driver)), default))
    }

    /// Keys in MinIO KES.
    ///
    /// # Errors
    /// [`Error::Invalid`] (the name).
    pub fn kes(driver: Kes, default: &str) -> Result<Kms> {
        check_name(default)?;
        Ok(Kms::over(Driver::Kes(Box::new(driver)), default))
    }

    fn over(driver: Driver, default: &str) -> Kms {
        Kms {
            driver,
            default: default.to_owned(),
            when_needed: false,
            cache: Cache::default(),
            counts: Counts::default(),
        }
    }

    /// What kind of driver it is, and where its keys are, for people.
    #[must_use]
    pub fn describe(&self) -> (&'static str, String) {
        match &self.driver {
            Driver::Builtin(_) => ("builtin", String::new()),
            Driver::Vault(v) => ("vault", v.endpoint().to_owned()),
            Driver::Kes(k) => ("kes", k.endpoints()),
        }
    }

    /// The key that is used when nobody names one.
    #[must_use]
    pub fn default_key(&self) -> &str {
        &self.default
    }

    /// Makes the default key, if it is not there.
    ///
    /// # Errors
    /// As [`Kms::create_key`], but for [`Error::Exists`].
    pub fn ensure_default(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self.create_key(&self.default).await {
                Err(Error::Exists(_)) => Ok(()),
                other => other,
            }
        })
    }

    /// A fresh data key under a named key.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Unavailable`], [`Error::Refused`].
    pub fn generate<'a>(&'a self, key_id: &'a str, context: &'a [u8]) -> BoxFuture<'a, Result<DataKey>> {
        Box::pin(async move { self.noted(self.try_generate(key_id, context).await) })
    }

    /// Data keys made and opened since the start: how often that succeeded, was refused, and failed because
    /// the key server could not be used.
    #[must_use]
    pub fn uses(&self) -> [u64; 3] {
        [&self.counts.succeeded, &self.counts.refused, &self.counts.failed].map(|n| n.load(Relaxed))
    }

    fn noted<T>(&self, result: Result<T>) -> Result<T> {
        let count = match &result {
            Ok(_) => &self.counts.succeeded,
            Err(Error::Unavailable(_)) => &self.counts.failed,
            Err(_) => &self.counts.refused,
        };
        count.fetch_add(1, Relaxed);
        result
    }

    async fn try_generate(&self, key_id: &str, context: &[u8]) -> Result<DataKey> {
        check_name(key_id)?;
        let (plain, sealed) = match &self.driver {
            Driver::Builtin(b) => match b.generate(key_id, context) {
                Err(Error::Missing(_)) if self.when_needed && key_id == self.default => {
                    self.ensure_default().await?;
                    b.generate(key_id, context)?
                }
                made => made?,
            },
            Driver::Vault(v) => v.generate(key_id, context).await?,
            Driver::Kes(k) => k.generate(key_id, context).await?,
        };
        Ok(DataKey { plain, sealed, key_id: key_id.to_owned() })
    }

    /// Opens a sealed data key.
    ///
    /// # Errors
    /// [`Error::Sealed`] (changed, another context, another key), [`Error::Missing`],
    /// [`Error::Unavailable`], [`Error::Refused`].
    pub fn open<'a>(
        &'a self,
        key_id: &'a str,
        sealed: &'a [u8],
        context: &'a [u8],
    ) -> BoxFuture<'a, Result<Secret>> {
        Box::pin(async move { self.noted(self.try_open(key_id, sealed, context).await) })
    }

    async fn try_open(&self, key_id: &str, sealed: &[u8], context: &[u8]) -> Result<Secret> {
        check_name(key_id)?;
        if let Driver::Builtin(b) = &self.driver {
            return b.open(key_id, sealed, context);
        }
        let name = Cache::name(key_id, sealed, context);
        if let Some(plain) = self.cache.get(&name) {
            return Ok(plain);
        }
        let plain = match &self.driver {
            Driver::Vault(v) => v.open(key_id, sealed, context).await?,
            Driver::Kes(k) => k.open(key_id, sealed, context).await?,
            Driver::Builtin(_) => unreachable!("answered above"),
        };
        self.cache.put(name, &plain);
        Ok(plain)
    }

    /// Seals a data key again, under the newest version of `to`, if it is not already. `None`: it is.
    ///
    /// # Errors
    /// As [`Kms::open`].
    pub fn rewrap<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        sealed: &'a [u8],
        context: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            check_name(from)?;
            check_name(to)?;
            match &self.driver {
                Driver::Builtin(b) => b.rewrap(from, to, sealed, context),
                Driver::Vault(v) => v.rewrap(from, to, sealed, context).await,
                Driver::Kes(k) => k.rewrap(from, to, sealed, context).await,
            }
        })
    }

    /// Seals a data key again, for another context.
    ///
    /// # Errors
    /// As [`Kms::open`].
    pub fn rebind<'a>(
        &'a self,
        key_id: &'a str,
        sealed: &'a [u8],
        from: &'a [u8],
        to: &'a [u8],
    ) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async move {
            check_name(key_id)?;
            match &self.driver {
                Driver::Builtin(b) => b.rebind(key_id, sealed, from, to),
                Driver::Vault(v) => v.rebind(key_id, sealed, from, to).await,
                Driver::Kes(k) => k.rebind(key_id, sealed, from, to).await,
            }
        })
    }

    /// Makes a named key.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Invalid`], [`Error::Unavailable`], [`Error::Refused`].
    pub fn create_key<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name(name)?;
            match &self.driver {
                Driver::Builtin(b) => b.create(name).await,
                Driver::Vault(v) => v.create(name).await,
                Driver::Kes(k) => k.create(name).await,
            }
        })
    }

    /// All named keys whose names begin with `prefix`, in order.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Refused`].
    pub fn list_keys<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<KeyStatus>>> {
        Box::pin(async move {
            let mut all = match &self.driver {
                Driver::Builtin(b) => b.list(),
                Driver::Vault(v) => v.list().await?,
                Driver::Kes(k) => k.list(prefix).await?,
            };
            all.retain(|k| k.name.starts_with(prefix));
            all.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(all)
        })
    }

    /// Whether a named key works: a data key is sealed and opened again.
    ///
    /// # Errors
    /// As [`Kms::open`].
    pub fn key_status<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<KeyStatus>> {
        Box::pin(async move {
            check_name(name)?;
            let key = self.generate(name, b"status").await?;
            // Not from the cache: the driver is what is asked about.
            let again = match &self.driver {
                Driver::Builtin(b) => b.open(name, &key.sealed, b"status")?,
                Driver::Vault(v) => v.open(name, &key.sealed, b"status").await?,
                Driver::Kes(k) => k.open(name, &key.sealed, b"status").await?,
            };
            if again.expose() != key.plain.expose() {
                return Err(Error::Sealed);
            }
            match &self.driver {
                Driver::Builtin(b) => b.status(name),
                Driver::Vault(v) => v.status(name).await,
                Driver::Kes(k) => k.status(name).await,
            }
        })
    }

    /// Gives a named key a new version, which seals from now on; answers its number.
    ///
    /// # Errors
    /// [`Error::Invalid`] (the driver has no versions), [`Error::Missing`], [`Error::Unavailable`], [`Error::Refused`].
    pub fn rotate<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<u32>> {
        Box::pin(async move {
            check_name(name)?;
            match &self.driver {
                Driver::Builtin(b) => b.rotate(name).await,
                Driver::Vault(v) => v.rotate(name).await,
                Driver::Kes(k) => k.rotate(name),
            }
        })
    }
}
