//! Operations on buckets: making, finding, configuring them, and deletion that loses no write.
//!
//! **Deletion.** Every change of a register passes the gate of its bucket. Deleting closes the gate,
//! waits until those inside are out, looks whether the bucket is empty, and either removes the bucket
//! from the registry (whoever waits at the gate gets "no such bucket") or opens the gate again. So no
//! write is acknowledged into a bucket that is gone, and a crash at any point leaves either the
//! bucket or nothing: the removal is one update. When that update has no known outcome the gate stays
//! shut, with "unavailable", until the bucket, written anew as it is, decides it: either the bucket is
//! gone, or the removal no longer fits what is stored. A bucket made again
//! under the same name has another id, so that nothing of the old one can show in it; uploads that
//! were in progress are listed under `gone/` in the same update and collected by `sweep`.
//! Several nodes will need the gate in the control store; one process has it in memory.
//!
//! Must not depend on: operations on keys.

use futures::future::BoxFuture;
use std::sync::Arc;

use ashlar_cluster::Update;
use ashlar_format::BucketId;
use bytes::Bytes;

use crate::bucket::{Bucket, CreateBucket, Versioning, check_name};
use crate::gate::REMOVING;
use crate::registry::{BucketHandle, GONE, PREFIX, same};
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
            ashlar_environment::random::fill(&mut id)
                .map_err(|e| Error::Internal(format!("no randomness: {e}")))?;
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
            let json = bucket.encode()?;
            let make = |update: &mut Update| {
                let entry = registry.control.read(&format!("{PREFIX}{name}"));
                if entry.bytes().is_some() {
                    return Err(Error::BucketExists);
                }
                update.set(&entry, json.clone());
                Ok(())
            };
            registry.control.change(make).await?;
            let live = Arc::new(BucketHandle::new(bucket));
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
            let was = live.bucket();
            let Some(_closed) = live.gate.close().await else {
                live.gate.enter().await?;
                return Err(Error::Conflict);
            };
            let _turn = registry.turn.lock().await;
            self.inner.check_empty(was.id).await?;
            let remove = |update: &mut Update| {
                let entry = registry.control.read(&format!("{PREFIX}{name}"));
                let there = same(&was, &entry)?.is_some();
                if there {
                    update.remove(&entry);
                    let gone = registry.control.read(&format!("{GONE}{}", was.id));
                    update.set(&gone, Bytes::from_static(b"{\"format\":1}"));
                }
                Ok(there)
            };
            live.gate.mark(REMOVING);
            let done = match registry.control.change(remove).await {
                // Another server removed it.
                Ok(false) => Err(Error::NoSuchBucket),
                Ok(true) => Ok(()),
                Err(Error::Unavailable(why)) => match registry.decide(&live).await {
                    Ok(false) => Ok(()),
                    Ok(true) => {
                        live.gate.unmark(REMOVING);
                        return Err(Error::Unavailable(why));
                    }
                    Err(_) => return Err(Error::Unavailable(why)),
                },
                Err(e) => {
                    live.gate.unmark(REMOVING);
                    return Err(e);
                }
            };
            self.inner.usage.forget(registry.forget(&live));
            done
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
                b.tags = tags.clone().unwrap_or_default();
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
