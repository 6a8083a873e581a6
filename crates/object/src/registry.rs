//! The registry of buckets in the control store, and its cache in memory.
//!
//! The registry is read once and kept in memory; every change goes through this process, is made
//! from what the control store holds, and writes the control store first and the memory second. So the hot path does no I/O for the bucket.
//!
//! Must not depend on: the store; what operations do with buckets.

use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_cluster::{Control, Entry, Update};
use ashlar_format::BucketId;
use parking_lot::RwLock;

use crate::bucket::Bucket;
use crate::gate::{DEAD, Gate};
use crate::{Error, Result};

/// Keys of buckets in the control store: this and the name.
pub(crate) const PREFIX: &str = "bucket/";
/// Keys of deleted buckets whose uploads are not collected yet: this and the id.
pub(crate) const GONE: &str = "gone/";

/// A bucket in memory.
pub(crate) struct BucketHandle {
    bucket: RwLock<Arc<Bucket>>,
    pub gate: Gate,
}

impl BucketHandle {
    pub(crate) fn bucket(&self) -> Arc<Bucket> {
        self.bucket.read().clone()
    }
}

/// All buckets in memory over the control store.
pub(crate) struct Registry {
    pub control: Control,
    pub live: RwLock<BTreeMap<String, Arc<BucketHandle>>>,
    /// Changes of the registry go one after another.
    pub turn: tokio::sync::Mutex<()>,
}

impl Registry {
    pub(crate) fn load(control: Control) -> Result<Registry> {
        let mut live = BTreeMap::new();
        for (key, value) in control.list(PREFIX) {
            let bucket = Bucket::decode(&key[PREFIX.len()..], &value.bytes)?;
            live.insert(bucket.name.clone(), Arc::new(BucketHandle::new(bucket)));
        }
        Ok(Registry { control, live: RwLock::new(live), turn: tokio::sync::Mutex::new(()) })
    }

    pub(crate) fn live(&self, name: &str) -> Result<Arc<BucketHandle>> {
        self.live.read().get(name).cloned().ok_or(Error::NoSuchBucket)
    }

    pub(crate) fn all(&self) -> Vec<Arc<BucketHandle>> {
        self.live.read().values().cloned().collect()
    }

    /// Changes one bucket, control store first; `change` is asked anew when others were faster.
    pub(crate) async fn modify(
        &self,
        name: &str,
        mut change: impl FnMut(&mut Bucket) -> Result<()> + Send,
    ) -> Result<()> {
        let _turn = self.turn.lock().await;
        let live = self.live(name)?;
        let was = live.bucket();
        let write = |update: &mut Update| {
            let entry = self.control.read(&format!("{PREFIX}{name}"));
            let mut bucket = same(&was, &entry)?.ok_or(Error::NoSuchBucket)?;
            change(&mut bucket)?;
            update.set(&entry, bucket.encode()?);
            Ok::<_, Error>(bucket)
        };
        let bucket = self.control.change(write).await?;
        *live.bucket.write() = Arc::new(bucket);
        Ok(())
    }

    /// Decides removals without a known outcome, so that gates that are shut for them open. Answers the
    /// buckets that are gone.
    pub(crate) async fn resolve(&self) -> Vec<BucketId> {
        let shut: Vec<Arc<BucketHandle>> =
            self.live.read().values().filter(|l| l.gate.is_undecided()).cloned().collect();
        if shut.is_empty() {
            return Vec::new();
        }
        let _turn = self.turn.lock().await;
        let mut gone = Vec::new();
        for live in shut {
            match self.decide(&live).await {
                Ok(true) => live.gate.open(),
                Ok(false) => gone.push(self.forget(&live)),
                Err(error) => tracing::debug!(%error, "whether a bucket is gone is not known yet"),
            }
        }
        gone
    }

    /// Whether a bucket is there after a removal without a known outcome. It is written anew
    /// without its deletion: a removal that is still under way then no longer fits.
    pub(crate) async fn decide(&self, live: &BucketHandle) -> Result<bool> {
        let was = live.bucket();
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
    pub(crate) fn forget(&self, live: &BucketHandle) -> BucketId {
        let bucket = live.bucket();
        self.live.write().remove(&bucket.name);
        live.gate.mark(DEAD);
        bucket.id
    }
}

/// The bucket as it is stored; `None`: it is gone, and perhaps another has its name.
pub(crate) fn same(was: &Bucket, entry: &Entry) -> Result<Option<Bucket>> {
    let stored = entry.bytes().map(|b| Bucket::decode(&was.name, b)).transpose()?;
    Ok(stored.filter(|b| b.id == was.id))
}

impl BucketHandle {
    pub(crate) fn new(bucket: Bucket) -> BucketHandle {
        BucketHandle { bucket: RwLock::new(Arc::new(bucket)), gate: Gate::default() }
    }
}
