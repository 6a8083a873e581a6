//! The identity store: sealed records in the control store, the present state in memory.
//!
//! Invariants: every change is one transaction that compares the revision of each record it was made
//! from, so that two writers never undo each other; the state in memory is replaced before a change is
//! answered; the key that seals is itself stored, sealed under root's secret, so that another secret
//! of root's costs one record.
//!
//! Must never know: what a request is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use ashlar_cluster::{Compare, Control, Txn, Watched};
use ashlar_policy::{Attached, Policy};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::directory::{Directory, Root};
use crate::identity::Identity;
use crate::record::{NamedPolicy, Records, StoredPolicy};
use crate::seal::{Sealer, random};
use crate::secret::Secret;
use crate::{Error, Result};

/// Milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

const PREFIX: &str = "iam/";
/// The sealing key, sealed under root's secret.
const SEAL: &str = "iam/seal";
/// The key of session tokens.
const TOKENS: &str = "iam/token-key";
/// When access keys were last used.
const USED: &str = "iam/used";
/// Since when root's sessions count.
pub(crate) const ROOT: &str = "iam/root";
pub(crate) const USERS: &str = "iam/users/";
pub(crate) const GROUPS: &str = "iam/groups/";
pub(crate) const KEYS: &str = "iam/keys/";
pub(crate) const POLICIES: &str = "iam/policies/";

/// How often a change is tried when others change the same records.
const TRIES: usize = 16;

/// Who there is. Cheap to share behind an [`Arc`].
pub struct Iam {
    control: Control,
    sealer: Sealer,
    pub(crate) tokens: Sealer,
    pub(crate) clock: Clock,
    root: ArcSwap<Root>,
    state: ArcSwap<Directory>,
    /// One change of the state in memory at a time.
    turn: tokio::sync::Mutex<()>,
    /// The store's revision after our last change.
    ours: AtomicU64,
}

/// A change in the making: what it was made from, and what it writes.
pub(crate) struct Change {
    pub records: Records,
    txn: Txn,
}

impl Change {
    /// The record under `key` is looked at: the change holds only while it stays as it is.
    fn watch(&mut self, key: &str) {
        if self
            .txn
            .compares
            .iter()
            .any(|c| matches!(c, Compare::Absent(k) | Compare::Revision(k, _) if k == key))
        {
            return;
        }
        self.txn.compares.push(match self.records.revisions.get(key) {
            Some(r) => Compare::Revision(key.to_owned(), *r),
            None => Compare::Absent(key.to_owned()),
        });
    }

    pub fn remove(&mut self, key: String) {
        self.watch(&key);
        self.txn.puts.retain(|(k, _)| *k != key);
        self.txn.deletes.push(key);
    }
}

impl Iam {
    /// Opens the store, and makes its keys at the first start. `old_secret`: root's secret before it was
    /// changed.
    ///
    /// # Errors
    /// `OtherSeal`, `Corrupt`, `Unavailable`.
    pub async fn open(
        control: Control,
        root: Root,
        old_secret: Option<&Secret>,
        clock: Clock,
    ) -> Result<Iam> {
        let deployment = control.deployment().0;
        let under = |s: &Secret| Sealer::new(&Sealer::derive(s.expose().as_bytes(), &deployment, SEAL));
        let key = sealing_key(&control, &under(&root.secret), old_secret.map(under)).await?;
        let sealer = Sealer::new(&key);
        let tokens = Sealer::new(&stored_key(&control, &sealer, TOKENS).await?);
        let iam = Iam {
            state: ArcSwap::from_pointee(Directory::new(Records::default(), &root)),
            control,
            sealer,
            tokens,
            clock,
            root: ArcSwap::from_pointee(root),
            turn: tokio::sync::Mutex::new(()),
            ours: AtomicU64::new(0),
        };
        iam.reload()?;
        iam.recall_uses();
        Ok(iam)
    }

    /// The identity behind a stored access key; root's too. `None`: unknown, disabled, expired.
    #[must_use]
    pub fn find(&self, access_key: &str) -> Option<Arc<Identity>> {
        self.state.load().find(access_key, (self.clock)())
    }

    /// Root.
    #[must_use]
    pub fn root(&self) -> Arc<Identity> {
        self.state.load().root.clone()
    }

    pub(crate) fn directory(&self) -> Arc<Directory> {
        self.state.load_full()
    }

    pub(crate) fn now(&self) -> i64 {
        (self.clock)()
    }

    /// Follows what other machines change. Runs until it is dropped.
    pub async fn follow(self: Arc<Self>) {
        let mut watch = self.control.watch(self.control.revision());
        loop {
            let seen = |c: &ashlar_cluster::Change| c.revision <= self.ours.load(Ordering::SeqCst);
            let news = match watch.next().await {
                Watched::Changes(changes) => changes.iter().any(|c| c.key.starts_with(PREFIX) && !seen(c)),
                Watched::Reset(_) => true,
            };
            if news {
                let _turn = self.turn.lock().await;
                if let Err(e) = self.reload() {
                    tracing::error!(error = %e, "identity data changed and cannot be read; the state before stays");
                }
            }
        }
    }

    fn reload(&self) -> Result<()> {
        let mut records = Records::default();
        for (key, value) in self.control.list(PREFIX) {
            self.take(&mut records, &key, Some((&value.bytes, value.revision)))?;
        }
        self.show(records);
        Ok(())
    }

    fn show(&self, records: Records) {
        let before = self.state.load_full();
        let now = Directory::new(records, &self.root.load());
        // When keys were last used outlives a change of something else.
        for (key, at) in before.uses() {
            if let Some(i) = now.find(&key, i64::MIN) {
                i.used_ms.store(at, Ordering::Relaxed);
            }
        }
        self.state.store(Arc::new(now));
    }

    /// Puts one stored record into `records`, or takes it out.
    fn take(&self, records: &mut Records, key: &str, stored: Option<(&[u8], u64)>) -> Result<()> {
        let sealed = stored.map(|(bytes, _)| bytes);
        set(&mut records.revisions, key, stored.map(|(_, revision)| revision));
        if let Some(name) = key.strip_prefix(USERS) {
            set(&mut records.users, name, self.opened(key, sealed)?.map(Arc::new));
        } else if let Some(name) = key.strip_prefix(GROUPS) {
            set(&mut records.groups, name, self.opened(key, sealed)?.map(Arc::new));
        } else if let Some(name) = key.strip_prefix(KEYS) {
            set(&mut records.keys, name, self.opened(key, sealed)?.map(Arc::new));
        } else if let Some(name) = key.strip_prefix(POLICIES) {
            let stored: Option<StoredPolicy> = self.opened(key, sealed)?;
            let compiled = stored.map(|s| {
                let policy = Policy::parse(Attached::Identity, s.document.as_bytes())?;
                let policy = Arc::new(policy);
                Ok::<_, Error>(Arc::new(NamedPolicy { policy, made_ms: s.made_ms, changed_ms: s.changed_ms }))
            });
            set(&mut records.policies, name, compiled.transpose()?);
        } else if key == ROOT {
            records.root_revoked_ms = self.opened(key, sealed)?.unwrap_or_default();
        }
        Ok(())
    }

    fn opened<T: DeserializeOwned>(&self, key: &str, sealed: Option<&[u8]>) -> Result<Option<T>> {
        let Some(sealed) = sealed else { return Ok(None) };
        let plain =
            self.sealer.open(key, sealed).ok_or_else(|| Error::Corrupt(format!("{key} does not open")))?;
        let value = serde_json::from_slice(&plain).map_err(|e| Error::Corrupt(format!("{key}: {e}")))?;
        Ok(Some(value))
    }

    /// Writes a record as part of a change.
    pub(crate) fn put<T: Serialize>(&self, change: &mut Change, key: String, value: &T) {
        change.watch(&key);
        let plain = serde_json::to_vec(value).expect("records are plain data");
        change.txn.deletes.retain(|k| *k != key);
        change.txn.puts.retain(|(k, _)| *k != key);
        let sealed = self.sealer.seal(&key, &plain);
        change.txn.puts.push((key, sealed.into()));
    }

    /// Holds a change to the records under these keys although it does not write them.
    pub(crate) fn depends(&self, change: &mut Change, key: &str) {
        change.watch(key);
    }

    /// Makes a change: `f` looks at the records and writes; repeated when somebody else was faster.
    pub(crate) async fn change<T>(&self, f: impl Fn(&Iam, &mut Change) -> Result<T>) -> Result<T> {
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let records = self.state.load().records.clone();
            let mut change = Change { records, txn: Txn::default() };
            let answer = f(self, &mut change)?;
            let Change { mut records, txn, .. } = change;
            if txn.puts.is_empty() && txn.deletes.is_empty() {
                return Ok(answer);
            }
            let (puts, deletes) = (txn.puts.clone(), txn.deletes.clone());
            match self.control.txn(txn).await {
                Ok(revision) => {
                    self.ours.store(revision, Ordering::SeqCst);
                    for (key, sealed) in &puts {
                        self.take(&mut records, key, Some((sealed, revision)))?;
                    }
                    for key in &deletes {
                        self.take(&mut records, key, None)?;
                    }
                    self.show(records);
                    return Ok(answer);
                }
                Err(ashlar_cluster::Error::Conflict(_)) => self.reload()?,
                Err(e) => {
                    // It may have happened: what is stored now is what counts.
                    self.reload()?;
                    return Err(e.into());
                }
            }
        }
        Err(Error::Unavailable("others keep changing the same users or policies; try again".into()))
    }

    /// Stores when access keys were last used, if that is news. To be called now and then.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn store_uses(&self) -> Result<()> {
        let uses: BTreeMap<String, i64> = self.directory().uses().into_iter().collect();
        let before: Option<BTreeMap<String, i64>> = match self.control.get(USED) {
            Some(v) => self.opened(USED, Some(&v.bytes))?,
            None => None,
        };
        let mut all = before.clone().unwrap_or_default();
        all.retain(|k, _| self.find(k).is_some());
        all.extend(uses);
        if Some(&all) == before.as_ref() || all.is_empty() {
            return Ok(());
        }
        let sealed = self.sealer.seal(USED, &serde_json::to_vec(&all).expect("plain data"));
        self.control.txn(Txn { puts: vec![(USED.to_owned(), sealed.into())], ..Txn::default() }).await?;
        Ok(())
    }

    fn recall_uses(&self) {
        let stored = self.control.get(USED).and_then(|v| self.opened(USED, Some(&v.bytes)).ok().flatten());
        let uses: BTreeMap<String, i64> = stored.unwrap_or_default();
        for (key, at) in uses {
            if let Some(i) = self.find(&key) {
                i.used_ms.store(at, Ordering::Relaxed);
            }
        }
    }
}

fn set<T>(map: &mut BTreeMap<String, T>, name: &str, value: Option<T>) {
    match value {
        Some(v) => map.insert(name.to_owned(), v),
        None => map.remove(name),
    };
}

/// The key that seals everything: opened with root's secret, made when there is none.
async fn sealing_key(control: &Control, now: &Sealer, old: Option<Sealer>) -> Result<[u8; 32]> {
    let Some(stored) = control.get(SEAL) else {
        let key = random::<32>();
        let txn = Txn {
            compares: vec![Compare::Absent(SEAL.to_owned())],
            puts: vec![(SEAL.to_owned(), now.seal(SEAL, &key).into())],
            ..Txn::default()
        };
        control.txn(txn).await?;
        return Ok(key);
    };
    let fits = |k: Vec<u8>| <[u8; 32]>::try_from(k).ok();
    if let Some(key) = now.open(SEAL, &stored.bytes).and_then(fits) {
        return Ok(key);
    }
    let key = old.and_then(|o| o.open(SEAL, &stored.bytes)).and_then(fits).ok_or(Error::OtherSeal)?;
    let txn = Txn {
        compares: vec![Compare::Revision(SEAL.to_owned(), stored.revision)],
        puts: vec![(SEAL.to_owned(), now.seal(SEAL, &key).into())],
        ..Txn::default()
    };
    control.txn(txn).await?;
    Ok(key)
}

/// A random key that is kept sealed under `name`.
async fn stored_key(control: &Control, sealer: &Sealer, name: &str) -> Result<[u8; 32]> {
    if let Some(stored) = control.get(name) {
        let key = sealer.open(name, &stored.bytes).and_then(|k| k.try_into().ok());
        return key.ok_or_else(|| Error::Corrupt(format!("{name} does not open")));
    }
    let key = random::<32>();
    let txn = Txn {
        compares: vec![Compare::Absent(name.to_owned())],
        puts: vec![(name.to_owned(), sealer.seal(name, &key).into())],
        ..Txn::default()
    };
    control.txn(txn).await?;
    Ok(key)
}
