//! Operations on buckets: creating, finding, configuring them, and deletion that loses no write.
//!
//! **Deletion.** A deletion gets a number in the registry, fences the bucket on a majority of the drives of
//! every group, checks behind the fences whether the bucket is empty, and removes it from the registry if its
//! number is still the one there (`fence`, docs/protocol.md 2.15). So no process acknowledges a write into a
//! deleted bucket. A crash at any point leaves a deletion that the next process to find it settles. In this
//! process, changes of the bucket wait at its gate during the deletion, which saves them the requests to the
//! drives. If the outcome of the removal is unknown, the gate stays closed, with "unavailable", until the
//! bucket is written again without its deletion. That decides the outcome: either the bucket is gone, or the
//! removal no longer matches what is stored. A bucket created again under the same name has another id, so
//! nothing of the old one can appear in it. Uploads that were in progress are listed under `gone/` in the
//! same update and collected by `sweep`.
//!
//! Must not depend on: operations on keys.

use futures::future::{BoxFuture, Either};
use std::sync::Arc;

use ashlar_cluster::Update;
use ashlar_commit::bucket_fence::Registered;
use ashlar_format::BucketId;

use crate::bucket::{Bucket, CreateBucket, Versioning, check_name};
use crate::bucket_gate::REMOVING;
use crate::fence::Removal;
use crate::registry::{BucketHandle, OpenBucket, PREFIX};
use crate::types::Pairs;
use crate::{Error, Result, Store};

/// Largest document of a bucket, in bytes.
const MAX_DOCUMENT: usize = 256 << 10;

impl Store {
    /// Creates a bucket.
    ///
    /// # Errors
    /// `BucketExists`, `InvalidBucketName`, `Unavailable`.
    pub fn create_bucket<'a>(
        &'a self,
        name: &'a str,
        spec: &'a CreateBucket,
    ) -> BoxFuture<'a, Result<OpenBucket>> {
        Box::pin(async move {
            check_name(name)?;
            let registry = &self.inner.registry;
            let _turn = registry.turn.lock().await;
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
                deletion: Registered::default(),
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
            // Before any request can find it: it is empty.
            self.inner.usage.bucket_created(bucket.id, self.inner.now_ms());
            let made = registry.control.change(make).await;
            if made.is_err() {
                self.inner.usage.forget(bucket.id);
            }
            // Also if it exists already: another process may have created it.
            let there = registry.refresh(name)?;
            made?;
            // Unless it was deleted in the meantime.
            there
                .filter(|handle| handle.bucket().id == bucket.id)
                .map(|l| l.open())
                .ok_or(Error::NoSuchBucket)
        })
    }

    /// The present bucket, from memory, without I/O. Call it once per request, so that the whole request uses
    /// one revision of the bucket.
    ///
    /// # Errors
    /// `NoSuchBucket`; `Internal` if another server stored something that cannot be decoded.
    pub fn bucket(&self, name: &str) -> Result<OpenBucket> {
        Ok(self.inner.registry.handle(name)?.open())
    }

    /// All buckets in order of name, from memory.
    #[must_use]
    pub fn buckets(&self) -> Vec<OpenBucket> {
        self.inner.registry.all().iter().map(BucketHandle::open).collect()
    }

    /// Follows buckets that other processes create, change and delete over the same control store. Runs until
    /// it is dropped, or until a change arrives after the store was dropped.
    pub fn follow_buckets(&self) -> BoxFuture<'static, ()> {
        let mut followed = self.inner.registry.follow();
        let mut quotas = self.inner.registry.follow_quotas();
        // Not the store itself, which would then never be dropped.
        let inner = Arc::downgrade(&self.inner);
        Box::pin(async move {
            loop {
                // Who is not waited for loses nothing.
                let news = futures::future::select(Box::pin(followed.next()), Box::pin(quotas.next())).await;
                let news = match news {
                    Either::Left((news, _)) => Ok(news),
                    Either::Right((news, _)) => Err(news),
                };
                let Some(inner) = inner.upgrade() else { return };
                let taken = match news {
                    Ok(buckets) => inner.registry.take(&buckets),
                    Err(quotas) => {
                        inner.take_quota_news(&quotas);
                        Ok(())
                    }
                };
                if let Err(error) = taken {
                    tracing::error!(%error, "a changed bucket cannot be read; its previous state stays in use");
                }
            }
        })
    }

    /// Deletes an empty bucket; aborts its uploads in progress.
    ///
    /// # Errors
    /// `NoSuchBucket`, `BucketNotEmpty`, `Conflict` (it is being deleted), `Unavailable`, `ControlStore`.
    pub fn delete_bucket<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let registry = &self.inner.registry;
            let handle = registry.handle(name)?;
            let Some(_closed) = handle.gate.close().await else {
                handle.gate.enter().await?;
                return Err(Error::Conflict);
            };
            let _turn = registry.turn.lock().await;
            let done = match self.inner.delete_with_gate_closed(&handle).await {
                Ok(Removal::Done) => Ok(()),
                // Another server removed it.
                Ok(Removal::Gone) | Err(Error::NoSuchBucket) => Err(Error::NoSuchBucket),
                Ok(Removal::Superseded) => return Err(Error::Conflict),
                // Only the removal itself leaves the outcome open: the stored state decides.
                Err(why @ (Error::Unavailable(_) | Error::ControlStore(_))) if handle.gate.is_removing() => {
                    match registry.decide(&handle).await {
                        Ok(false) => Ok(()),
                        Ok(true) => {
                            handle.gate.unmark(REMOVING);
                            self.inner.lift_remaining_fences(handle.bucket().id).await;
                            return Err(why);
                        }
                        Err(_) => return Err(why),
                    }
                }
                Err(e) => return Err(e),
            };
            self.inner.usage.forget(registry.forget(&handle));
            done
        })
    }

    /// Enables or suspends versioning. `Off` is refused, since a bucket never returns to it.
    ///
    /// # Errors
    /// `NoSuchBucket`, `InvalidBucketState` (suspending with object lock), `InvalidArgument`.
    pub fn set_versioning<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        versioning: Versioning,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let registry = &self.inner.registry;
            registry
                .modify(bucket, |b| {
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
    pub fn set_bucket_tags<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        tags: Option<Pairs>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let change = |b: &mut Bucket| {
                b.tags = tags.clone().unwrap_or_default();
                Ok(())
            };
            self.inner.registry.modify(bucket, change).await
        })
    }

    /// Stores (or with `None` removes) a document of the bucket: at most 256 KiB.
    ///
    /// # Errors
    /// `NoSuchBucket`, `EntityTooLarge`, `Unavailable`.
    pub fn set_bucket_document<'a>(
        &'a self,
        bucket: &'a OpenBucket,
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
            self.inner.registry.modify(bucket, change).await
        })
    }
}
