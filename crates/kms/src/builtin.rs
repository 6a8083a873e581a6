//! Named keys in the control store, sealed under the root key.
//!
//! `kms/key/NAME` holds JSON: `{"format":1,"created_ms":...,"versions":["base64", ...]}`, each version
//! sealed by `wrap` under the root key for the context `deployment 0x00 NAME 0x00 number`. A sealed data key
//! is the number of the version (u32, big-endian) and then what `wrap` makes.
//!
//! All keys are in memory, opened: the hot path asks nobody. Invariants: a version is never removed, since
//! something may be sealed under it; the control store is written before the memory; when the root key was
//! replaced, all keys are sealed anew in one transaction.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_cluster::{Compare, Control, Txn};
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

/// The built-in driver.
pub struct Builtin {
    control: Control,
    root: Secret,
    clock: fn() -> i64,
    keys: RwLock<BTreeMap<String, Arc<Named>>>,
    /// Changes go one after another.
    turn: tokio::sync::Mutex<()>,
}

impl Builtin {
    /// Opens the keys that are there. `old`: the root key before this one, under which they may still be
    /// sealed; then they are sealed anew. `clock`: milliseconds since 1970.
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
            let me =
                Builtin { control, root, clock, keys: RwLock::default(), turn: tokio::sync::Mutex::new(()) };
            let mut again = Vec::new();
            for (key, value) in me.control.list(PREFIX) {
                let name = key[PREFIX.len()..].to_owned();
                let bad = |why: &dyn std::fmt::Display| Error::Corrupt(format!("the key {name}: {why}"));
                let stored: Stored = serde_json::from_slice(&value.bytes).map_err(|e| bad(&e))?;
                if stored.format != 1 {
                    return Err(bad(&format_args!("format {} is not known here", stored.format)));
                }
                let named = match (me.decode(&me.root, &name, &stored), old) {
                    (Err(Error::Sealed), Some(old)) => {
                        let named = me.decode(old, &name, &stored).map_err(|_| Error::OtherRoot)?;
                        again.push((key.clone(), me.encode(&name, &named)?));
                        named
                    }
                    (Err(Error::Sealed), None) => return Err(Error::OtherRoot),
                    (other, _) => other?,
                };
                me.keys.write().insert(name, Arc::new(named));
            }
            if !again.is_empty() {
                let count = again.len();
                me.control.txn(Txn { puts: again, ..Txn::default() }).await?;
                tracing::info!(count, "keys are sealed under the new root key");
            }
            Ok(me)
        })
    }

    fn context(&self, name: &str, number: usize) -> Vec<u8> {
        let number = (number as u32).to_be_bytes();
        [&self.control.deployment().0[..], &[0], name.as_bytes(), &[0], &number].concat()
    }

    fn decode(&self, root: &Secret, name: &str, stored: &Stored) -> Result<Named> {
        let mut versions = Vec::with_capacity(stored.versions.len());
        for (i, text) in stored.versions.iter().enumerate() {
            let sealed =
                STANDARD.decode(text).map_err(|_| Error::Corrupt(format!("the key {name}: no base64")))?;
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

    fn named(&self, name: &str) -> Result<Arc<Named>> {
        self.keys.read().get(name).cloned().ok_or_else(|| Error::Missing(name.to_owned()))
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
        let _turn = self.turn.lock().await;
        {
            let keys = self.keys.read();
            if keys.contains_key(name) {
                return Err(Error::Exists(name.to_owned()));
            }
            if keys.len() >= MOST {
                return Err(Error::Invalid(format!("there are {MOST} keys, which is the most there can be")));
            }
        }
        let named = Named { created_ms: (self.clock)(), versions: vec![Secret::generate()] };
        let key = format!("{PREFIX}{name}");
        let txn = Txn {
            compares: vec![Compare::Absent(key.clone())],
            puts: vec![(key, self.encode(name, &named)?)],
            ..Txn::default()
        };
        self.control.txn(txn).await.map_err(|e| match e {
            ashlar_cluster::Error::Conflict(_) => Error::Exists(name.to_owned()),
            e => e.into(),
        })?;
        self.keys.write().insert(name.to_owned(), Arc::new(named));
        Ok(())
    }

    pub(crate) async fn rotate(&self, name: &str) -> Result<u32> {
        let _turn = self.turn.lock().await;
        let old = self.named(name)?;
        if old.versions.len() >= MOST_VERSIONS {
            return Err(Error::Invalid(format!("the key {name} has {MOST_VERSIONS} versions already")));
        }
        let mut versions = old.versions.clone();
        versions.push(Secret::generate());
        let number = versions.len() as u32;
        let named = Named { created_ms: old.created_ms, versions };
        let txn =
            Txn { puts: vec![(format!("{PREFIX}{name}"), self.encode(name, &named)?)], ..Txn::default() };
        self.control.txn(txn).await?;
        self.keys.write().insert(name.to_owned(), Arc::new(named));
        Ok(number)
    }

    pub(crate) fn list(&self) -> Vec<KeyStatus> {
        self.keys.read().iter().map(|(name, named)| status(name, named)).collect()
    }

    pub(crate) fn status(&self, name: &str) -> Result<KeyStatus> {
        self.named(name).map(|named| status(name, &named))
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
