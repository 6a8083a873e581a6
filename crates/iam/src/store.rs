//! The identity store: sealed records in the control store, the present state in memory.
//!
//! Invariants: every change is one transaction that compares the revision of each record it was made
//! from, so that two writers never undo each other; the state in memory is replaced before a change is
//! answered; the key that seals is itself stored, sealed under root's secret, so that another secret
//! of root's costs one record.
//!
//! Must never know: what a request is.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use ashlar_cluster::{Compare, Control, Txn, Watched};
use ashlar_policy::{Attached, Policy};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::directory::Directory;
use crate::federated::{Seen, Trusted};
use crate::identity::{Identity, Root};
use crate::record::{NamedPolicy, Records, StoredPolicy};
use crate::seal::{RootSealer, Sealer, random};
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
pub(crate) const FEDERATED_USERS: &str = "iam/federated/users/";
pub(crate) const FEDERATED_GROUPS: &str = "iam/federated/groups/";
pub(crate) const SETTINGS: &str = "iam/settings/";

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
    /// Providers that are configured.
    pub(crate) trusted: ArcSwap<Trusted>,
    /// Sessions that were used.
    pub(crate) seen: Seen,
    /// Settings changed.
    pub(crate) settings_news: tokio::sync::watch::Sender<u64>,
    /// New keys that could not be stored yet.
    fresh: Mutex<Vec<(String, Bytes)>>,
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
    pub fn open(
        control: Control,
        root: Root,
        old_secret: Option<&Secret>,
        clock: Clock,
    ) -> BoxFuture<'_, Result<Iam>> {
        Box::pin(async move {
            let deployment = control.deployment().0;
            let under = |s: &Secret| RootSealer::new(s.clone(), deployment);
            let opened = open_keys(&control, &under(&root.secret), old_secret.map(under))?;
            let iam = Iam {
                state: ArcSwap::from_pointee(Directory::new(Records::default(), &root)),
                sealer: Sealer::new(&opened.sealing),
                tokens: Sealer::new(&opened.tokens),
                control,
                clock,
                root: ArcSwap::from_pointee(root),
                turn: tokio::sync::Mutex::new(()),
                ours: AtomicU64::new(0),
                trusted: ArcSwap::default(),
                seen: Seen::default(),
                settings_news: tokio::sync::watch::Sender::new(0),
                fresh: Mutex::new(opened.fresh),
            };
            iam.store_keys(opened.again).await?;
            iam.reload()?;
            iam.recall_uses();
            Ok(iam)
        })
    }

    /// Stores what keys have to be stored. A store that takes no changes now does not stop a server that
    /// can still serve reads: new keys then go with the first change.
    async fn store_keys(&self, again: Option<(u64, Bytes)>) -> Result<()> {
        let fresh = self.fresh.lock().clone();
        let compares = match &again {
            Some((revision, _)) => vec![Compare::Revision(SEAL.to_owned(), *revision)],
            None => Vec::new(),
        };
        let again = again.map(|(_, sealed)| (SEAL.to_owned(), sealed));
        let puts: Vec<_> = fresh.into_iter().chain(again).collect();
        if puts.is_empty() {
            return Ok(());
        }
        match self.control.txn(Txn { compares, puts, ..Txn::default() }).await {
            Ok(_) => self.fresh.lock().clear(),
            Err(e) => tracing::warn!(error = %e, "keys of the identity store are not stored yet"),
        }
        Ok(())
    }

    /// The identity behind a stored access key; root's too. `None`: unknown, disabled, expired.
    #[must_use]
    pub fn find(&self, access_key: &str) -> Option<Arc<Identity>> {
        self.state.load().find(access_key, &self.trusted.load(), (self.clock)())
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
    pub fn follow(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut watch = self.control.watch(self.control.revision());
            loop {
                let seen = |c: &ashlar_cluster::Change| c.revision <= self.ours.load(Ordering::SeqCst);
                let news = match watch.next().await {
                    Watched::Changes(changes) => {
                        changes.iter().any(|c| c.key.starts_with(PREFIX) && !seen(c))
                    }
                    Watched::Reset(_) => true,
                };
                if news {
                    let _turn = self.turn.lock().await;
                    if let Err(e) = self.reload() {
                        tracing::error!(error = %e, "identity data changed and cannot be read; the state before stays");
                    }
                }
            }
        })
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
            if let Some(i) = now.find(&key, &self.trusted.load(), i64::MIN) {
                i.used_ms.store(at, Ordering::Relaxed);
            }
        }
        let settings_changed = before.records.settings != now.records.settings;
        self.state.store(Arc::new(now));
        if settings_changed {
            self.settings_news.send_modify(|n| *n += 1);
        }
    }

    /// Makes identities anew from now on.
    pub(crate) fn forget_made(&self) {
        self.show(self.state.load().records.clone());
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
        } else if let Some(name) = key.strip_prefix(FEDERATED_USERS) {
            set(&mut records.federated_users, name, self.opened(key, sealed)?.map(Arc::new));
        } else if let Some(name) = key.strip_prefix(FEDERATED_GROUPS) {
            set(&mut records.federated_groups, name, self.opened(key, sealed)?.map(Arc::new));
        } else if let Some(name) = key.strip_prefix(SETTINGS) {
            set(&mut records.settings, name, self.opened(key, sealed)?.map(Arc::new));
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
    pub(crate) async fn change<T: Send>(
        &self,
        f: impl Fn(&Iam, &mut Change) -> Result<T> + Send + Sync,
    ) -> Result<T> {
        let mut answer = None;
        let mut note = |iam: &Iam, change: &mut Change| {
            answer = Some(f(iam, change)?);
            Ok(())
        };
        self.change_by(&mut note).await?;
        let Some(answer) = answer else { unreachable!("a change that went through has answered") };
        Ok(answer)
    }

    /// [`Iam::change`], compiled once and not for every kind of answer.
    async fn change_by(&self, f: &mut (dyn FnMut(&Iam, &mut Change) -> Result<()> + Send)) -> Result<()> {
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let records = self.state.load().records.clone();
            let mut change = Change { records, txn: Txn::default() };
            f(self, &mut change)?;
            let Change { mut records, txn, .. } = change;
            if txn.puts.is_empty() && txn.deletes.is_empty() {
                return Ok(());
            }
            let (puts, deletes) = (txn.puts.clone(), txn.deletes.clone());
            let mut txn = txn;
            txn.puts.extend(self.fresh.lock().iter().cloned());
            match self.control.txn(txn).await {
                Ok(revision) => {
                    self.fresh.lock().clear();
                    self.ours.store(revision, Ordering::SeqCst);
                    for (key, sealed) in &puts {
                        self.take(&mut records, key, Some((sealed, revision)))?;
                    }
                    for key in &deletes {
                        self.take(&mut records, key, None)?;
                    }
                    self.show(records);
                    return Ok(());
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
    pub fn store_uses(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
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
        })
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

/// The two keys, and what has to be written for them.
struct Opened {
    sealing: [u8; 32],
    tokens: [u8; 32],
    /// Keys that are not stored yet.
    fresh: Vec<(String, Bytes)>,
    /// The sealing key under another secret than it is stored under.
    again: Option<(u64, Bytes)>,
}

/// Opens the keys with root's secret, or the one before; makes them when there are none, or when nothing
/// is sealed with those that do not open.
fn open_keys(control: &Control, now: &RootSealer, old: Option<RootSealer>) -> Result<Opened> {
    let fits = |k: Vec<u8>| <[u8; 32]>::try_from(k).ok();
    let seal = |key: &[u8; 32]| Bytes::from(now.seal(SEAL, key));
    let open = |by: &RootSealer, bytes: &[u8]| by.open(SEAL, bytes).and_then(fits);
    let make = || {
        let (sealing, tokens) = (random::<32>(), random::<32>());
        let sealed = Bytes::from(Sealer::new(&sealing).seal(TOKENS, &tokens));
        let fresh = vec![(SEAL.to_owned(), seal(&sealing)), (TOKENS.to_owned(), sealed)];
        Opened { sealing, tokens, fresh, again: None }
    };
    let Some(stored) = control.get(SEAL) else { return Ok(make()) };
    let mut again = None;
    let sealing = match open(now, &stored.bytes) {
        Some(key) => {
            if RootSealer::is_fast(&stored.bytes) {
                again = Some((stored.revision, seal(&key)));
            }
            key
        }
        None => match old.and_then(|o| open(&o, &stored.bytes)) {
            Some(key) => {
                again = Some((stored.revision, seal(&key)));
                key
            }
            None if nobody_stored(control) => return Ok(make()),
            None => return Err(Error::OtherSeal),
        },
    };
    let stored = control.get(TOKENS).ok_or_else(|| Error::Corrupt(format!("{TOKENS} is missing")))?;
    let tokens = Sealer::new(&sealing).open(TOKENS, &stored.bytes).and_then(fits);
    let tokens = tokens.ok_or_else(|| Error::Corrupt(format!("{TOKENS} does not open")))?;
    Ok(Opened { sealing, tokens, fresh: Vec::new(), again })
}

/// No user, group, access key or policy is stored: another secret of root's loses nothing but sessions.
fn nobody_stored(control: &Control) -> bool {
    let records = [USERS, GROUPS, KEYS, POLICIES, FEDERATED_USERS, FEDERATED_GROUPS, SETTINGS];
    !control.list(PREFIX).iter().any(|(k, _)| records.iter().any(|r| k.starts_with(r)))
}
