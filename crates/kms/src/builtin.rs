//! Named keys in the control store, sealed under the root key.
//!
//! `kms/key/NAME` holds JSON: `{"format":1,"created_ms":...,"versions":["base64", ...]}`, each version
//! sealed by `wrap` under the root key for the context `deployment 0x00 NAME 0x00 number`. A sealed data key
//! is the number of the version (u32, big-endian) and then what `wrap` makes.
//!
//! All keys are in memory, opened, each with the revision it was opened from. If the revision in the control
//! store, whose reads are from memory too, is another one, the key is opened again. So a request needs no
//! other server, and keys of other servers are used. Invariants: a version is never removed, because data
//! keys may be sealed under it; a version is made from the versions that were read, and stored before
//! anything is sealed under it; after a change of the root key, all keys are sealed again, in as many updates
//! as necessary: after a crash between two of them there are keys under both root keys, and the next start
//! with both continues.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_cluster::{Control, Entry, Update};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::{Error, KeyStatus, Result, Secret, wrap};

const PREFIX: &str = "kms/key/";
/// Most named keys.
const MOST: usize = 1000;
/// Most versions of one key: bounds its document.
const MOST_VERSIONS: usize = 1000;
/// How often keys are sealed again when other servers change them at the same time.
const TRIES: usize = 16;

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    created_ms: i64,
    versions: Vec<String>,
}

struct Named {
    created_ms: i64,
    versions: Vec<Secret>,
}

/// A key in memory, and its revision in the control store.
struct Opened {
    revision: Option<u64>,
    named: Arc<Named>,
}

/// The built-in driver.
pub struct Builtin {
    control: Control,
    root: Secret,
    clock: fn() -> i64,
    keys: RwLock<BTreeMap<String, Opened>>,
}

impl Builtin {
    /// Opens the existing keys. `old`: the previous root key, under which they may still be sealed; then they
    /// are sealed again. `clock`: milliseconds since 1970.
    ///
    /// # Errors
    /// [`Error::OtherRoot`], [`Error::Corrupt`], [`Error::Unavailable`].
    pub fn open_keys(
        control: Control,
        root: Secret,
        old: Option<&Secret>,
        clock: fn() -> i64,
    ) -> BoxFuture<'_, Result<Builtin>> {
        Box::pin(async move {
            let me = Builtin { control, root, clock, keys: RwLock::default() };
            let mut conflicts = 0;
            loop {
                let (again, more) = me.open_all(old)?;
                if again.is_empty() {
                    return Ok(me);
                }
                let count = again.len();
                match me.control.update(again).await {
                    Ok(_) => tracing::info!(count, "keys are sealed under the new root key"),
                    // Another server may do the same: then fewer keys are left each time.
                    Err(ashlar_cluster::Error::Conflict(_)) if conflicts < TRIES => {
                        conflicts += 1;
                        continue;
                    }
                    Err(e) => return Err(e.into()),
                }
                if !more {
                    return Ok(me);
                }
            }
        })
    }

    /// Opens the stored keys. Returns the keys to seal again, as many as fit into one update, and whether
    /// there are more.
    fn open_all(&self, old: Option<&Secret>) -> Result<(Update, bool)> {
        let (mut again, mut more) = (Update::new(), false);
        for entry in self.control.entries(PREFIX) {
            let name = &entry.key()[PREFIX.len()..];
            let Some(stored) = read(name, &entry)? else { continue };
            let named = match (self.decode(&self.root, name, &stored), old) {
                (Err(Error::Sealed), Some(old)) => {
                    let named = self.decode(old, name, &stored).map_err(|_| Error::OtherRoot)?;
                    let sealed = self.encode(name, &named)?;
                    match again.has_room(entry.key(), sealed.len()) {
                        true => again.set(&entry, sealed),
                        false => more = true,
                    }
                    named
                }
                (Err(Error::Sealed), None) => return Err(Error::OtherRoot),
                (other, _) => other?,
            };
            let opened = Opened { revision: entry.revision(), named: Arc::new(named) };
            self.keys.write().insert(name.to_owned(), opened);
        }
        Ok((again, more))
    }

    fn context(&self, name: &str, number: usize) -> Vec<u8> {
        let number = (number as u32).to_be_bytes();
        [&self.control.deployment().0[..], &[0], name.as_bytes(), &[0], &number].concat()
    }

    fn decode(&self, root: &Secret, name: &str, stored: &Stored) -> Result<Named> {
        let mut versions = Vec::with_capacity(stored.versions.len());
        for (i, text) in stored.versions.iter().enumerate() {
            let sealed =
                STANDARD.decode(text).map_err(|_| Error::Corrupt(format!("the key {name} is not base64")))?;
            versions.push(wrap::open(root, &sealed, &self.context(name, i + 1))?);
        }
        if versions.is_empty() {
            return Err(Error::Corrupt(format!("the key {name} has no version")));
        }
        Ok(Named { created_ms: stored.created_ms, versions })
    }

    fn encode(&self, name: &str, named: &Named) -> Result<Bytes> {
        let seal = |(i, v)| STANDARD.encode(wrap::seal(&self.root, v, &self.context(name, i + 1)));
        let versions = named.versions.iter().enumerate().map(seal).collect();
        let stored = Stored { format: 1, created_ms: named.created_ms, versions };
        serde_json::to_vec(&stored).map(Bytes::from).map_err(|e| Error::Corrupt(e.to_string()))
    }

    /// The key as it is stored now.
    fn named(&self, name: &str) -> Result<Arc<Named>> {
        let entry = self.control.read(&format!("{PREFIX}{name}"));
        let before = {
            let keys = self.keys.read();
            match keys.get(name) {
                Some(opened) if opened.revision == entry.revision() => return Ok(opened.named.clone()),
                opened => opened.map(|o| o.named.clone()),
            }
        };
        let named = match (self.opened(name, &entry), before) {
            (Ok(Some(named)), _) => Arc::new(named),
            (Ok(None), _) => {
                self.keys.write().remove(name);
                return Err(Error::Missing(name.to_owned()));
            }
            // Another server has changed the root key. The opened version still opens and seals data keys.
            (Err(error), Some(before)) => {
                tracing::warn!(key = name, %error, "a changed key cannot be read; the previous one stays in use");
                before
            }
            (Err(e), None) => return Err(e),
        };
        let opened = Opened { revision: entry.revision(), named: named.clone() };
        self.keys.write().insert(name.to_owned(), opened);
        Ok(named)
    }

    /// Opens the entry of a key; `None`: it does not exist.
    fn opened(&self, name: &str, entry: &Entry) -> Result<Option<Named>> {
        let opened = read(name, entry)?.map(|stored| match self.decode(&self.root, name, &stored) {
            Err(Error::Sealed) => Err(Error::OtherRoot),
            other => other,
        });
        opened.transpose()
    }

    pub(crate) fn generate(&self, name: &str, context: &[u8]) -> Result<(Secret, Vec<u8>)> {
        let named = self.named(name)?;
        let plain = Secret::generate();
        Ok((plain.clone(), seal_newest(&named, &plain, context)))
    }

    pub(crate) fn open(&self, name: &str, sealed: &[u8], context: &[u8]) -> Result<Secret> {
        let named = self.named(name)?;
        let (number, rest) = sealed.split_first_chunk::<4>().ok_or(Error::Sealed)?;
        let number = u32::from_be_bytes(*number) as usize;
        let key = number.checked_sub(1).and_then(|i| named.versions.get(i)).ok_or(Error::Sealed)?;
        wrap::open(key, rest, context)
    }

    pub(crate) fn rewrap(
        &self,
        from: &str,
        to: &str,
        sealed: &[u8],
        context: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let newest = self.named(to)?;
        let number = (newest.versions.len() as u32).to_be_bytes();
        if from == to && sealed.starts_with(&number) {
            return Ok(None);
        }
        let plain = self.open(from, sealed, context)?;
        Ok(Some(seal_newest(&newest, &plain, context)))
    }

    pub(crate) fn rebind(&self, key_id: &str, sealed: &[u8], from: &[u8], to: &[u8]) -> Result<Vec<u8>> {
        let plain = self.open(key_id, sealed, from)?;
        Ok(seal_newest(&*self.named(key_id)?, &plain, to))
    }

    pub(crate) async fn create(&self, name: &str) -> Result<()> {
        let named = Named { created_ms: (self.clock)(), versions: vec![Secret::generate()] };
        let sealed = self.encode(name, &named)?;
        let key = format!("{PREFIX}{name}");
        let make = |update: &mut Update| {
            let entry = self.control.read(&key);
            if entry.bytes().is_some() {
                return Err(Error::Exists(name.to_owned()));
            }
            if self.control.list(PREFIX).len() >= MOST {
                return Err(Error::Invalid(format!("there are {MOST} keys already, which is the limit")));
            }
            update.set(&entry, sealed.clone());
            Ok(())
        };
        self.control.change(make).await
    }

    /// Adds a version to the stored ones. Of two concurrent rotations, the later one gets the higher number.
    pub(crate) async fn rotate(&self, name: &str) -> Result<u32> {
        let key = format!("{PREFIX}{name}");
        let fresh = Secret::generate();
        let add = |update: &mut Update| {
            let entry = self.control.read(&key);
            let mut named = self.opened(name, &entry)?.ok_or_else(|| Error::Missing(name.to_owned()))?;
            if named.versions.len() >= MOST_VERSIONS {
                return Err(Error::Invalid(format!("the key {name} has {MOST_VERSIONS} versions already")));
            }
            named.versions.push(fresh.clone());
            update.set(&entry, self.encode(name, &named)?);
            Ok(named.versions.len() as u32)
        };
        self.control.change(add).await
    }

    pub(crate) fn list(&self) -> Vec<KeyStatus> {
        let names = self.control.list(PREFIX).into_iter().map(|(key, _)| key[PREFIX.len()..].to_owned());
        // A key that does not open is not listed; its use returns the error.
        names.filter_map(|name| self.status(&name).ok()).collect()
    }

    pub(crate) fn status(&self, name: &str) -> Result<KeyStatus> {
        self.named(name).map(|named| status(name, &named))
    }
}

/// The stored form of a key; `None`: it does not exist.
fn read(name: &str, entry: &Entry) -> Result<Option<Stored>> {
    let Some(bytes) = entry.bytes() else { return Ok(None) };
    let bad = |why: &dyn std::fmt::Display| Error::Corrupt(format!("the key {name}: {why}"));
    let stored: Stored = serde_json::from_slice(bytes).map_err(|e| bad(&e))?;
    match stored.format {
        1 => Ok(Some(stored)),
        other => Err(bad(&format_args!("format {other} is not known here"))),
    }
}

fn status(name: &str, named: &Named) -> KeyStatus {
    KeyStatus { name: name.to_owned(), version: named.versions.len() as u32, created_ms: named.created_ms }
}

fn seal_newest(named: &Named, plain: &Secret, context: &[u8]) -> Vec<u8> {
    let number = named.versions.len();
    let mut out = (number as u32).to_be_bytes().to_vec();
    out.extend_from_slice(&wrap::seal(&named.versions[number - 1], plain, context));
    out
}
