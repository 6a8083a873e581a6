//! The registry of buckets in the control store, and its projection in memory.
//!
//! The control store is authoritative: every change compares with it, and only [`Registry::refresh`] replaces
//! what is in memory: after a change by this process, after one by another process ([`Registry::follow`]),
//! and when a name is requested that is not in memory. So the hot path does no I/O for the bucket, and
//! changes of other processes are visible here as soon as the control store's memory has them.
//!
//! Invariants: a bucket has one handle, and so one gate, while it exists; a bucket that was deleted and
//! created again under its name has another handle, and the gate of the old one stays closed.
//!
//! Must not depend on: the store; what operations do with buckets.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use ashlar_cluster::{Control, Entry, News, Projection, Update};
use ashlar_format::BucketId;
use parking_lot::RwLock;

use crate::bucket::Bucket;
use crate::bucket_gate::{BucketGate, DEAD};
use crate::usage::{UsageTable, limit_of};
use crate::{Error, Result, quota_record};

/// Keys of buckets in the control store: this and the name.
pub(crate) const PREFIX: &str = "bucket/";
/// Keys of deleted buckets whose uploads are not collected yet: this and the id.
pub(crate) const GONE: &str = "gone/";

/// A bucket in memory.
pub(crate) struct BucketHandle {
    present: RwLock<Present>,
    pub gate: BucketGate,
}

/// A bucket, and the revision of the control store at which it reached this state.
struct Present {
    bucket: Arc<Bucket>,
    revision: u64,
}

/// A bucket as of one revision, found by its name once. Operations take it. Cheap to clone.
///
/// It does not change when the bucket is changed. It belongs to the bucket that was found: if that is deleted
/// and another one created under its name, changes through this one are refused with `NoSuchBucket`.
///
/// The versioning state is the only setting that a change of a key does not take from here: it is read inside
/// the gate, when the list of versions is replaced. Otherwise a body that took long to arrive could replace
/// what versioning, enabled in the meantime, protects.
#[derive(Clone)]
pub struct OpenBucket {
    bucket: Arc<Bucket>,
    handle: Arc<BucketHandle>,
}

impl Deref for OpenBucket {
    type Target = Bucket;

    fn deref(&self) -> &Bucket {
        &self.bucket
    }
}

impl std::fmt::Debug for OpenBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bucket.fmt(f)
    }
}

impl OpenBucket {
    /// The snapshot of the bucket.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Bucket> {
        &self.bucket
    }

    /// The handle, which contains the gate.
    pub(crate) fn handle(&self) -> &Arc<BucketHandle> {
        &self.handle
    }
}

impl BucketHandle {
    fn new(bucket: Bucket, revision: u64) -> BucketHandle {
        let present = Present { bucket: Arc::new(bucket), revision };
        BucketHandle { present: RwLock::new(present), gate: BucketGate::default() }
    }

    pub(crate) fn bucket(&self) -> Arc<Bucket> {
        self.present.read().bucket.clone()
    }

    /// The present bucket.
    pub(crate) fn open(self: &Arc<BucketHandle>) -> OpenBucket {
        OpenBucket { bucket: self.bucket(), handle: self.clone() }
    }
}

/// All buckets in memory over the control store.
pub(crate) struct Registry {
    pub control: Control,
    handles: RwLock<BTreeMap<String, Arc<BucketHandle>>>,
    /// Serializes the changes of the registry by this process.
    pub turn: tokio::sync::Mutex<()>,
    /// Limits of buckets are applied here.
    usage: Arc<UsageTable>,
    /// The revision of the control store after which all buckets were read.
    since: u64,
}

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

impl Registry {
    pub(crate) fn load(control: Control, usage: Arc<UsageTable>) -> Result<Registry> {
        let (since, handles) = (control.revision(), RwLock::default());
        let registry = Registry { control, handles, turn: tokio::sync::Mutex::new(()), usage, since };
        registry.refresh_all()?;
        Ok(registry)
    }

    /// The bucket of this name. One that is not in memory is looked up in the control store, which also
    /// answers from memory: requests for absent names cost no I/O.
    pub(crate) fn handle(&self, name: &str) -> Result<Arc<BucketHandle>> {
        if let Some(handle) = self.handles.read().get(name) {
            return Ok(handle.clone());
        }
        // Without the write lock: a request for an absent name delays no other.
        self.control.get(&key(name)).ok_or(Error::NoSuchBucket)?;
        self.refresh(name)?.ok_or(Error::NoSuchBucket)
    }

    /// The bucket of this id, if it is in memory.
    pub(crate) fn of_id(&self, id: BucketId) -> Option<Arc<BucketHandle>> {
        self.handles.read().values().find(|l| l.bucket().id == id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<BucketHandle>> {
        self.handles.read().values().cloned().collect()
    }

    /// Sets a name in memory to the state of the control store; returns the bucket that has the name.
    pub(crate) fn refresh(&self, name: &str) -> Result<Option<Arc<BucketHandle>>> {
        let mut handle = self.handles.write();
        // Read inside the lock: if several refresh a name, the last one has the latest state.
        let stored = self.control.get(&key(name));
        let known = handle.get(name).cloned();
        if let (Some(known), Some(stored)) = (&known, &stored)
            && known.present.read().revision == stored.revision
        {
            return Ok(Some(known.clone()));
        }
        let decoded = stored.map(|s| Bucket::decode(name, &s.bytes).map(|bucket| (bucket, s.revision)));
        let stored = decoded.transpose()?;
        if let Some((bucket, _)) = &stored {
            self.usage.limit(bucket.id, limit_of(bucket))?;
        }
        match (known, stored) {
            (Some(known), Some((bucket, revision))) if known.bucket().id == bucket.id => {
                *known.present.write() = Present { bucket: Arc::new(bucket), revision };
                Ok(Some(known))
            }
            (known, stored) => {
                if let Some(known) = known {
                    handle.remove(name);
                    known.gate.mark(DEAD);
                    self.usage.forget(known.bucket().id);
                }
                let made = stored.map(|(bucket, revision)| Arc::new(BucketHandle::new(bucket, revision)));
                if let Some(made) = &made {
                    handle.insert(name.to_owned(), made.clone());
                }
                Ok(made)
            }
        }
    }

    fn refresh_all(&self) -> Result<()> {
        let mut names: BTreeSet<String> = self.handles.read().keys().cloned().collect();
        names.extend(self.control.list(PREFIX).into_iter().map(|(key, _)| key[PREFIX.len()..].to_owned()));
        names.iter().try_for_each(|name| self.refresh(name).map(drop))
    }

    /// The changes that [`Registry::take`] processes.
    pub(crate) fn follow(&self) -> Projection {
        Projection::new(&self.control, PREFIX, self.since)
    }

    /// Applies changes of other processes.
    pub(crate) fn take(&self, news: &News) -> Result<()> {
        match news {
            News::Changes(changes) => {
                changes.iter().try_for_each(|c| self.refresh(&c.key[PREFIX.len()..]).map(drop))
            }
            News::Everything => self.refresh_all(),
        }
    }

    /// Changes one bucket, if it is still the one that was found, starting from the control store; `change`
    /// is called again if others changed it in between.
    pub(crate) async fn modify(
        &self,
        open: &OpenBucket,
        mut change: impl FnMut(&mut Bucket) -> Result<()> + Send,
    ) -> Result<()> {
        let _turn = self.turn.lock().await;
        let write = |update: &mut Update| {
            let entry = self.control.read(&key(&open.name));
            let mut bucket = same(open, &entry)?.ok_or(Error::NoSuchBucket)?;
            let limited = limit_of(&bucket).is_some();
            change(&mut bucket)?;
            update.set(&entry, bucket.encode()?);
            if limited != limit_of(&bucket).is_some() {
                self.forget_quota(bucket.id, update);
            }
            Ok::<_, Error>(())
        };
        let done = self.control.change(write).await;
        // Also after a refusal: its reason may be something that is not in memory yet.
        self.refresh(&open.name)?;
        done
    }

    /// What was counted and granted under a limit is void without it.
    pub(crate) fn forget_quota(&self, bucket: BucketId, update: &mut Update) {
        let quota = self.control.read(&quota_record::key(bucket));
        if quota.bytes().is_some() {
            update.remove(&quota);
        }
    }

    /// What [`crate::store::Inner::take_quota_news`] wants to be told.
    pub(crate) fn follow_quotas(&self) -> Projection {
        Projection::new(&self.control, quota_record::PREFIX, self.since)
    }

    /// Decides removals with an unknown outcome, so that gates that are closed for them open. Returns the
    /// buckets that are gone.
    pub(crate) async fn resolve(&self) -> Vec<BucketId> {
        let shut: Vec<Arc<BucketHandle>> =
            self.handles.read().values().filter(|l| l.gate.is_undecided()).cloned().collect();
        if shut.is_empty() {
            return Vec::new();
        }
        let _turn = self.turn.lock().await;
        let mut gone = Vec::new();
        for handle in shut {
            match self.decide(&handle).await {
                Ok(true) => handle.gate.open(),
                Ok(false) => gone.push(self.forget(&handle)),
                Err(error) => tracing::debug!(%error, "whether a bucket is gone is not known yet"),
            }
        }
        gone
    }

    /// Whether a bucket exists after a removal with an unknown outcome. It is written again without its
    /// deletion: a removal that is still under way then no longer matches.
    pub(crate) async fn decide(&self, handle: &BucketHandle) -> Result<bool> {
        let was = handle.bucket();
        let write = |update: &mut Update| {
            let entry = self.control.read(&format!("{PREFIX}{}", was.name));
            let there = same(&was, &entry)?;
            if let Some(mut bucket) = there.clone() {
                bucket.deletion.open = false;
                update.set(&entry, bucket.encode()?);
            }
            Ok(there.is_some())
        };
        self.control.change(write).await
    }

    /// A bucket that is gone from the control store.
    pub(crate) fn forget(&self, handle: &BucketHandle) -> BucketId {
        let bucket = handle.bucket();
        let mut all = self.handles.write();
        // Another one may have been created under the name.
        if all.get(&bucket.name).is_some_and(|now| std::ptr::eq(&raw const **now, handle)) {
            all.remove(&bucket.name);
        }
        handle.gate.mark(DEAD);
        bucket.id
    }
}

/// The stored bucket; `None`: it is gone, and another one may have its name.
pub(crate) fn same(was: &Bucket, entry: &Entry) -> Result<Option<Bucket>> {
    let stored = entry.bytes().map(|b| Bucket::decode(&was.name, b)).transpose()?;
    Ok(stored.filter(|b| b.id == was.id))
}
