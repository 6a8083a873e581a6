//! The registry of buckets in the control store, and its cache in memory.
//!
//! The registry is read once and kept in memory; every change goes through this process, writes the
//! control store first and the memory second. So the hot path does no I/O for the bucket.
//!
//! Must not depend on: the store; what operations do with buckets.

use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_cluster::{Compare, Control, Txn};
use parking_lot::RwLock;

use crate::bucket::Bucket;
use crate::error::control_error;
use crate::gate::Gate;
use crate::{Error, Result};

/// Keys of buckets in the control store: this and the name.
pub(crate) const PREFIX: &str = "bucket/";
/// Keys of deleted buckets whose uploads are not collected yet: this and the id.
pub(crate) const GONE: &str = "gone/";

/// A bucket in memory.
pub(crate) struct Live {
    bucket: RwLock<Arc<Bucket>>,
    pub gate: Gate,
}

impl Live {
    pub(crate) fn bucket(&self) -> Arc<Bucket> {
        self.bucket.read().clone()
    }
}

/// All buckets in memory over the control store.
pub(crate) struct Registry {
    pub control: Control,
    pub live: RwLock<BTreeMap<String, Arc<Live>>>,
    /// Changes of the registry go one after another.
    pub turn: tokio::sync::Mutex<()>,
}

impl Registry {
    pub(crate) fn load(control: Control) -> Result<Registry> {
        let mut live = BTreeMap::new();
        for (key, value) in control.list(PREFIX) {
            let bucket = Bucket::decode(&key[PREFIX.len()..], &value.bytes)?;
            live.insert(bucket.name.clone(), Arc::new(Live::new(bucket)));
        }
        Ok(Registry { control, live: RwLock::new(live), turn: tokio::sync::Mutex::new(()) })
    }

    pub(crate) fn live(&self, name: &str) -> Result<Arc<Live>> {
        self.live.read().get(name).cloned().ok_or(Error::NoSuchBucket)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Live>> {
        self.live.read().values().cloned().collect()
    }

    /// Changes one bucket, control store first.
    pub(crate) async fn modify(
        &self,
        name: &str,
        change: impl FnOnce(&mut Bucket) -> Result<()>,
    ) -> Result<()> {
        let _turn = self.turn.lock().await;
        let live = self.live(name)?;
        let mut bucket = (*live.bucket()).clone();
        change(&mut bucket)?;
        let key = format!("{PREFIX}{name}");
        let revision = self.control.get(&key).ok_or(Error::NoSuchBucket)?.revision;
        let txn = Txn {
            compares: vec![Compare::Revision(key.clone(), revision)],
            puts: vec![(key, bucket.encode()?)],
            ..Txn::default()
        };
        self.control.txn(txn).await.map_err(control_error)?;
        *live.bucket.write() = Arc::new(bucket);
        Ok(())
    }

    /// Decides transactions without a known outcome, so that gates that are shut for them open.
    pub(crate) async fn resolve(&self) {
        let shut: Vec<Arc<Live>> =
            self.live.read().values().filter(|l| l.gate.is_undecided()).cloned().collect();
        if shut.is_empty() {
            return;
        }
        let _turn = self.turn.lock().await;
        // A transaction that goes through is built on the last known state and replaces whatever
        // was left on a minority.
        if self.control.txn(Txn::default()).await.is_ok() {
            for live in shut {
                live.gate.open();
            }
        }
    }
}

impl Live {
    pub(crate) fn new(bucket: Bucket) -> Live {
        Live { bucket: RwLock::new(Arc::new(bucket)), gate: Gate::default() }
    }
}
