//! Operations on buckets: making, finding, configuring them, and deletion that loses no write.
//!
//! **Deletion.** Every change of a register passes the gate of its bucket. Deleting closes the gate,
//! waits until those inside are out, looks whether the bucket is empty, and either removes the bucket
//! from the registry (whoever waits at the gate gets "no such bucket") or opens the gate again. So no
//! write is acknowledged into a bucket that is gone, and a crash at any point leaves either the
//! bucket or nothing: the removal is one transaction. When that transaction has no known outcome the
//! gate stays shut, with "unavailable", until a later transaction decides it. A bucket made again
//! under the same name has another id, so that nothing of the old one can show in it; uploads that
//! were in progress are listed under `gone/` in the same transaction and collected by `sweep`.
//! Several nodes will need the gate in the control store; one process has it in memory.
//!
//! Must not depend on: operations on keys.

use futures::future::BoxFuture;
use std::sync::Arc;

use ashlar_cluster::{Compare, Txn};
use ashlar_format::BucketId;
use bytes::Bytes;

use crate::bucket::{Bucket, CreateBucket, Versioning, check_name};
use crate::error::control_error;
use crate::gate::{DEAD, REMOVING};
use crate::registry::{GONE, Live, PREFIX};
use crate::types::Pairs;
use crate::{Error, Result, Store};

/// Largest document of a bucket, in bytes.
const MAX_DOCUMENT: usize = 256 << 10;

impl Store {
    /// Makes a bucket.
    ///
    /// # Errors
    /// `BucketExists`, `InvalidBucketName`, `Unavailable`.
    pub fn create_bucket<'a>(
        &'a self,
        name: &'a str,
        spec: &'a CreateBucket,
    ) -> BoxFuture<'a, Result<Arc<Bucket>>> {
        Box::pin(async move {
            check_name(name)?;
            let registry = &self.inner.registry;
            let _turn = registry.turn.lock().await;
            if registry.live.read().contains_key(name) {
                return Err(Error::BucketExists);
            }
            let mut id = [0; 16];
            getrandom::fill(&mut id).map_err(|e| Error::Internal(format!("no randomness: {e}")))?;
            let bucket = Bucket {
                id: BucketId(id),
                name: name.to_owned(),
                created_ms: self.inner.now_ms(),
                versioning: if spec.object_lock { Versioning::Enabled } else { Versioning::Off },
                object_lock: spec.object_lock,
                region: spec.region.clone(),
                tags: spec.tags.clone(),
                documents: spec.documents.clone(),
            };
            let key = format!("{PREFIX}{name}");
            let txn = Txn {
                compares: vec![Compare::Absent(key.clone())],
                puts: vec![(key, bucket.encode()?)],
                ..Txn::default()
            };
            registry.control.txn(txn).await.map_err(|e| match e {
                ashlar_cluster::Error::Conflict(_) => Error::BucketExists,
                e => control_error(e),
            })?;
            let live = Arc::new(Live::new(bucket));
            let bucket = live.bucket();
            self.inner.usage.made(bucket.id, self.inner.now_ms());
            registry.live.write().insert(name.to_owned(), live);
            Ok(bucket)
        })
    }

    /// The bucket, from memory: no I/O.
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub fn bucket(&self, name: &str) -> Result<Arc<Bucket>> {
        Ok(self.inner.registry.live(name)?.bucket())
    }

    /// All buckets in order of name, from memory.
    #[must_use]
    pub fn buckets(&self) -> Vec<Arc<Bucket>> {
        self.inner.registry.live.read().values().map(|l| l.bucket()).collect()
    }

    /// Deletes an empty bucket; uploads in progress in it are given up.
    ///
    /// # Errors
    /// `NoSuchBucket`, `BucketNotEmpty`, `Conflict` (it is being deleted), `Unavailable`.
    pub fn delete_bucket<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let registry = &self.inner.registry;
            let live = registry.live(name)?;
            let id = live.bucket().id;
            let Some(_closed) = live.gate.close().await else {
                live.gate.enter().await?;
                return Err(Error::Conflict);
            };
            let _turn = registry.turn.lock().await;
            self.inner.check_empty(id).await?;
            let txn = Txn {
                deletes: vec![format!("{PREFIX}{name}")],
                puts: vec![(format!("{GONE}{id}"), Bytes::from_static(b"{\"format\":1}"))],
                ..Txn::default()
            };
            live.gate.mark(REMOVING);
            match registry.control.txn(txn).await {
                Ok(_) => {
                    registry.live.write().remove(name);
                    self.inner.usage.forget(id);
                    live.gate.mark(DEAD);
                    Ok(())
                }
                Err(e) => {
                    if !matches!(e, ashlar_cluster::Error::Unavailable(_))
                        || registry.control.txn(Txn::default()).await.is_ok()
                    {
                        live.gate.unmark(REMOVING);
                    }
                    Err(control_error(e))
                }
            }
        })
    }

    /// Enables or suspends versioning. `Off` is refused: it cannot be had back.
    ///
    /// # Errors
    /// `NoSuchBucket`, `InvalidBucketState` (suspending with object lock), `InvalidArgument`.
    pub fn set_versioning<'a>(&'a self, name: &'a str, versioning: Versioning) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let registry = &self.inner.registry;
            registry
                .modify(name, |b| {
                    if versioning == Versioning::Off {
                        return Err(Error::InvalidArgument("versioning can be suspended, not removed"));
                    }
                    if b.object_lock && versioning != Versioning::Enabled {
                        return Err(Error::InvalidBucketState("object lock needs versioning"));
                    }
                    b.versioning = versioning;
                    Ok(())
                })
                .await
        })
    }

    /// Replaces (or with `None` removes) the tags of the bucket.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub fn set_bucket_tags<'a>(&'a self, name: &'a str, tags: Option<Pairs>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let change = |b: &mut Bucket| {
                b.tags = tags.unwrap_or_default();
                Ok(())
            };
            self.inner.registry.modify(name, change).await
        })
    }

    /// Stores (or with `None` removes) a document of the bucket: at most 256 KiB.
    ///
    /// # Errors
    /// `NoSuchBucket`, `EntityTooLarge`, `Unavailable`.
    pub fn set_bucket_document<'a>(
        &'a self,
        name: &'a str,
        kind: &'a str,
        text: Option<&'a str>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if text.is_some_and(|t| t.len() > MAX_DOCUMENT) {
                return Err(Error::EntityTooLarge);
            }
            let change = |b: &mut Bucket| {
                match text {
                    Some(t) => b.documents.insert(kind.to_owned(), Arc::from(t)),
                    None => b.documents.remove(kind),
                };
                Ok(())
            };
            self.inner.registry.modify(name, change).await
        })
    }
}
