//! The identity store: sealed records in the control store, the present state in memory.
//!
//! Invariants: every change is one update that compares the revision of each record it was made
//! from, so that two writers never undo each other's changes; the state in memory is replaced before a change
//! is answered; the sealing key is itself stored, sealed under root's secret, so that only one record has to
//! be written when root's secret changes.
//!
//! Must not depend on: requests.

use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use ashlar_cluster::{Action, Control, Entry, News, Projection, Update};
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
/// The purpose of the key that others are derived from.
const DERIVATION: &str = "iam/derivation";
/// The key of session tokens.
const TOKENS: &str = "iam/token-key";
/// When access keys were last used.
const USED: &str = "iam/used";
/// The key that the store of several servers has.
const CLUSTER: &str = "cluster";
/// Since when root's sessions are valid.
pub(crate) const ROOT: &str = "iam/root";
pub(crate) const USERS: &str = "iam/users/";
pub(crate) const GROUPS: &str = "iam/groups/";
pub(crate) const KEYS: &str = "iam/keys/";
pub(crate) const POLICIES: &str = "iam/policies/";
pub(crate) const FEDERATED_USERS: &str = "iam/federated/users/";
pub(crate) const FEDERATED_GROUPS: &str = "iam/federated/groups/";
pub(crate) const SETTINGS: &str = "iam/settings/";

/// How often a change is tried while other servers change the same records.
const TRIES: usize = 16;
/// Most remembered revisions of this server's own changes.
const MOST_OURS: usize = 1024;
/// Most bytes of the record of last uses, before it is sealed.
const MAX_USED: usize = Update::MAX_VALUE - 1024;

/// The identity store of a deployment. Share it with an [`Arc`].
pub struct Iam {
    control: Control,
    sealer: Sealer,
    pub(crate) tokens: Sealer,
    /// What keys for single purposes are derived from: see [`Iam::sealer_for`].
    derivation: [u8; 32],
    pub(crate) clock: Clock,
    root: ArcSwap<Root>,
    state: ArcSwap<Directory>,
    /// One change of the state in memory at a time.
    turn: tokio::sync::Mutex<()>,
    /// Revisions of this server's own changes that [`Iam::follow`] has not reached.
    ours: Mutex<BTreeSet<u64>>,
    /// The revision of the store that the state was read after: where [`Iam::follow`] begins.
    since: u64,
    /// Providers that are configured.
    pub(crate) trusted: ArcSwap<Trusted>,
    /// Sessions that were used.
    pub(crate) seen: Seen,
    /// Sends notifications of changed settings.
    pub(crate) settings_news: tokio::sync::watch::Sender<u64>,
    /// New keys that could not be stored yet.
    fresh: Mutex<Vec<(Entry, Bytes)>>,
}

/// A change in progress: the records it is made from, and what it writes.
pub(crate) struct Change {
    pub records: Records,
    control: Control,
    update: Update,
    /// A record in the control store is newer than `records`.
    stale: bool,
}

impl Change {
    /// The record under `key`, which `records` must have been made from.
    fn entry(&mut self, key: &str) -> Entry {
        let entry = self.control.read(key);
        self.stale |= entry.revision() != self.records.revisions.get(key).copied();
        entry
    }

    /// Notes that the change depends on the record under `key`: it is made only if that is unchanged.
    fn watch(&mut self, key: &str) {
        let entry = self.entry(key);
        self.update.expect(&entry);
    }

    pub fn remove(&mut self, key: String) {
        let entry = self.entry(&key);
        self.update.remove(&entry);
    }
}

impl Iam {
    /// Opens the store; makes its keys at the first start. `old_secret`: the previous root secret, after a
    /// change.
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
            let since = control.revision();
            let opened = stored_keys(&control, &under(&root.secret), old_secret.map(under)).await?;
            let iam = Iam {
                state: ArcSwap::from_pointee(Directory::new(Records::default(), &root)),
                sealer: Sealer::new(&opened.sealing),
                tokens: Sealer::new(&opened.tokens),
                derivation: Sealer::derive(&opened.sealing, &deployment, DERIVATION),
                control,
                clock,
                root: ArcSwap::from_pointee(root),
                turn: tokio::sync::Mutex::new(()),
                ours: Mutex::default(),
                since,
                trusted: ArcSwap::default(),
                seen: Seen::default(),
                settings_news: tokio::sync::watch::Sender::new(0),
                fresh: Mutex::new(opened.fresh),
            };
            iam.reload()?;
            iam.recall_uses();
            Ok(iam)
        })
    }

    /// The identity of a stored access key or of root. `None`: unknown, disabled or expired.
    #[must_use]
    pub fn find(&self, access_key: &str) -> Option<Arc<Identity>> {
        self.state.load().find(access_key, &self.trusted.load(), (self.clock)())
    }

    /// The identity of root.
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

    /// Seals bytes that another component keeps in the control store at `place`, so that only servers that know
    /// root's secret can open them.
    #[must_use]
    pub fn seal(&self, place: &str, bytes: &[u8]) -> Vec<u8> {
        self.sealer.seal(place, bytes)
    }

    /// The inverse of [`Iam::seal`]; `None` if the bytes were not sealed at `place` here.
    #[must_use]
    pub fn unseal(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        self.sealer.open(place, sealed)
    }

    /// A key for one purpose, the same on every node of the deployment and after a restart. What many can ask for
    /// is sealed with such a key and not with [`Iam::seal`], so that the key of the store does not wear out.
    #[must_use]
    pub fn sealer_for(&self, purpose: &str) -> Sealer {
        Sealer::new(&Sealer::derive(&self.derivation, &self.control.deployment().0, purpose))
    }

    /// Follows what other machines change. Runs until it is dropped.
    pub fn follow(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut followed = Projection::new(&self.control, PREFIX, self.since);
            loop {
                let news = match followed.next().await {
                    News::Changes(changes) => {
                        let mut ours = self.ours.lock();
                        let news = changes.iter().any(|c| !ours.contains(&c.revision));
                        let last = changes.last().map_or(0, |c| c.revision);
                        *ours = ours.split_off(&(last + 1));
                        news
                    }
                    News::Everything => true,
                };
                if news {
                    let _turn = self.turn.lock().await;
                    if let Err(e) = self.reload() {
                        tracing::error!(error = %e, "changed identity data cannot be read; the previous state stays in use");
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
        // A change of other records must not lose when keys were last used.
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

    /// Clears the cache of identities.
    pub(crate) fn forget_made(&self) {
        self.show(self.state.load().records.clone());
    }

    /// Puts one stored record into `records`, or removes it.
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
        let entry = change.entry(&key);
        let plain = serde_json::to_vec(value).expect("records are plain data");
        change.update.set(&entry, self.sealer.seal(&key, &plain));
    }

    /// Makes a change depend on the record under `key` although it does not write it.
    pub(crate) fn depends(&self, change: &mut Change, key: &str) {
        change.watch(key);
    }

    /// Makes a change: `f` reads the records and writes. Repeated if another server changed them meanwhile.
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

    /// [`Iam::change`] without its type parameter, so that it is compiled once.
    async fn change_by(&self, f: &mut (dyn FnMut(&Iam, &mut Change) -> Result<()> + Send)) -> Result<()> {
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let records = self.state.load().records.clone();
            let (control, update) = (self.control.clone(), Update::new());
            let mut change = Change { records, control, update, stale: false };
            f(self, &mut change)?;
            let Change { mut records, mut update, stale, .. } = change;
            if stale {
                self.reload()?;
                continue;
            }
            if !update.changes_something() {
                return Ok(());
            }
            let ours = update.clone();
            let fresh = self.fresh.lock().clone();
            fresh.iter().for_each(|(entry, sealed)| update.set(entry, sealed.clone()));
            match self.control.update(update).await {
                Ok(revision) => {
                    self.fresh.lock().clear();
                    self.note_ours(revision);
                    for step in ours.steps() {
                        match step.action {
                            Action::Set(sealed) => {
                                self.take(&mut records, step.key, Some((sealed, revision)))?;
                            }
                            Action::Remove => self.take(&mut records, step.key, None)?,
                            Action::Expect => {}
                        }
                    }
                    self.show(records);
                    return Ok(());
                }
                Err(ashlar_cluster::Error::Conflict(key)) if fresh.iter().any(|(e, _)| e.key() == key) => {
                    let why = "another server created the keys of the identity store; restart this server";
                    return Err(Error::Unavailable(why.into()));
                }
                Err(ashlar_cluster::Error::Conflict(_)) => self.reload()?,
                Err(e) => {
                    // The update may have been made: read what is stored now.
                    self.reload()?;
                    return Err(e.into());
                }
            }
        }
        Err(Error::Unavailable("others keep changing the same users or policies; try again".into()))
    }

    /// Stores when access keys were last used, if that changed. The caller calls it regularly.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn store_uses(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let directory = self.directory();
            let uses: BTreeMap<String, i64> = directory.uses().into_iter().collect();
            // Keep the entries of keys that another server made and this one has not seen.
            let new = |k: &str| {
                [USERS, KEYS].into_iter().map(|prefix| format!("{prefix}{k}")).any(|key| {
                    let stored = self.control.get(&key).map(|v| v.revision);
                    stored.is_some() && stored != directory.records.revisions.get(&key).copied()
                })
            };
            let merge = |update: &mut Update| -> Result<()> {
                let entry = self.control.read(USED);
                let before: BTreeMap<String, i64> =
                    self.opened(USED, entry.bytes().map(|b| &b[..]))?.unwrap_or_default();
                let mut all = before.clone();
                all.retain(|k, _| self.find(k).is_some() || new(k));
                for (key, at) in &uses {
                    // Another server may have stored a later use.
                    let last = all.entry(key.clone()).or_insert(*at);
                    *last = (*last).max(*at);
                }
                if all != before && !all.is_empty() {
                    update.set(&entry, self.sealer.seal(USED, &bounded(all)));
                }
                Ok(())
            };
            self.control.change(merge).await
        })
    }

    /// Notes a change of this server, so that [`Iam::follow`] need not read it again.
    fn note_ours(&self, revision: u64) {
        let mut ours = self.ours.lock();
        ours.insert(revision);
        // So many remain only while nothing follows the store. A follower starts at a later revision, so the
        // oldest are not needed.
        while ours.len() > MOST_OURS {
            ours.pop_first();
        }
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

/// The stored form of last uses; the oldest are left out when there are too many for one value.
fn bounded(mut all: BTreeMap<String, i64>) -> Vec<u8> {
    loop {
        let json = serde_json::to_vec(&all).expect("plain data");
        if json.len() <= MAX_USED {
            return json;
        }
        let mut times: Vec<i64> = all.values().copied().collect();
        let (_, median, _) = {
            let tenth = times.len() / 10;
            times.select_nth_unstable(tenth)
        };
        let oldest = *median;
        all.retain(|_, at| *at > oldest);
    }
}

/// The two keys, and the updates that store them.
struct Opened {
    sealing: [u8; 32],
    tokens: [u8; 32],
    /// Keys that are not stored yet.
    fresh: Vec<(Entry, Bytes)>,
    /// The update that stores the sealing key under the new root secret.
    again: Option<(Entry, Bytes)>,
}

/// Opens the keys, or makes and stores them. Of two servers that start at the same time, the later one takes
/// the keys of the other. While the control store takes no changes, a server can still start and serve reads:
/// it stores new keys with its first change.
async fn stored_keys(control: &Control, now: &RootSealer, old: Option<RootSealer>) -> Result<Opened> {
    for _ in 0..TRIES {
        let mut opened = open_keys(control, now, old.as_ref())?;
        let mut update = Update::new();
        for (entry, sealed) in opened.fresh.iter().chain(&opened.again) {
            update.set(entry, sealed.clone());
        }
        if update.is_empty() {
            return Ok(opened);
        }
        match control.update(update).await {
            Ok(_) => opened.fresh.clear(),
            Err(ashlar_cluster::Error::Conflict(_)) => continue,
            Err(e) => tracing::warn!(error = %e, "keys of the identity store are not stored yet"),
        }
        return Ok(opened);
    }
    Err(Error::Unavailable("other servers keep changing the keys of the identity store; try again".into()))
}

/// Opens the keys with root's secret, or the previous one. Makes new keys if there are none, or if they do
/// not open and nothing is sealed with them.
fn open_keys(control: &Control, now: &RootSealer, old: Option<&RootSealer>) -> Result<Opened> {
    let fits = |k: Vec<u8>| <[u8; 32]>::try_from(k).ok();
    let seal = |key: &[u8; 32]| Bytes::from(now.seal(SEAL, key));
    let open = |by: &RootSealer, bytes: &[u8]| by.open(SEAL, bytes).and_then(fits);
    let (entry, token_entry) = (control.read(SEAL), control.read(TOKENS));
    let make = || {
        let (sealing, tokens) = (random::<32>(), random::<32>());
        let sealed = Bytes::from(Sealer::new(&sealing).seal(TOKENS, &tokens));
        let fresh = vec![(entry.clone(), seal(&sealing)), (token_entry.clone(), sealed)];
        Opened { sealing, tokens, fresh, again: None }
    };
    let Some(stored) = entry.bytes() else { return Ok(make()) };
    let mut again = None;
    let sealing = match open(now, stored) {
        Some(key) => {
            if RootSealer::is_fast(stored) {
                again = Some((entry.clone(), seal(&key)));
            }
            key
        }
        None => match old.and_then(|o| open(o, stored)) {
            Some(key) => {
                again = Some((entry.clone(), seal(&key)));
                key
            }
            None if nobody_stored(control) => return Ok(make()),
            None => return Err(Error::OtherSeal),
        },
    };
    let stored = token_entry.bytes().ok_or_else(|| Error::Corrupt(format!("{TOKENS} is missing")))?;
    let tokens = Sealer::new(&sealing).open(TOKENS, stored).and_then(fits);
    let tokens = tokens.ok_or_else(|| Error::Corrupt(format!("{TOKENS} does not open")))?;
    Ok(Opened { sealing, tokens, fresh: Vec::new(), again })
}

/// Whether no user, group, access key or policy is stored, and no other server has opened the keys: the key `cluster`
/// is that of several nodes. Then a new root secret invalidates only sessions.
fn nobody_stored(control: &Control) -> bool {
    if control.get(CLUSTER).is_some() {
        return false;
    }
    let records = [USERS, GROUPS, KEYS, POLICIES, FEDERATED_USERS, FEDERATED_GROUPS, SETTINGS];
    !control.list(PREFIX).iter().any(|(k, _)| records.iter().any(|r| k.starts_with(r)))
}
