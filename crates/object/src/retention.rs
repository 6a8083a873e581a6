//! Operations on object lock: retention, legal hold, the lock time. `lock` checks what they may do, where
//! version lists are replaced.
//!
//! Must not depend on: who may bypass, what a bucket's default is.

use futures::future::BoxFuture;

use ashlar_format::{Retention, VersionId};

use crate::bucket::{Bucket, Versioning};
use crate::lock::LockPermissions;
use crate::registry::OpenBucket;
use crate::{Error, Result, Store};

impl Store {
    /// The lock time in milliseconds since 1970; never later than the wall clock.
    #[must_use]
    pub fn lock_time_ms(&self) -> i64 {
        self.inner.lock_time.now_ms()
    }

    /// Stores the lock time: to be called regularly, and before the process ends. If it is not stored, locks
    /// last longer.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn save_lock_time(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.inner.lock_time.save(&self.inner.registry.control).await })
    }

    /// Permanently allows locks in a bucket with versioning.
    ///
    /// # Errors
    /// `NoSuchBucket`, `InvalidBucketState` without versioning, `Unavailable`.
    pub fn enable_object_lock<'a>(&'a self, bucket: &'a OpenBucket) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let change = |b: &mut Bucket| {
                if b.versioning != Versioning::Enabled {
                    return Err(Error::InvalidBucketState("object lock needs versioning"));
                }
                b.object_lock = true;
                Ok(())
            };
            self.inner.registry.modify(bucket, change).await
        })
    }

    /// Sets (or with `None` removes) the retention of a version; `bypass`: overrides GOVERNANCE. Returns the
    /// version id to show.
    ///
    /// # Errors
    /// Those of [`Store::set_tags`]; `Locked` if that would shorten a retention; `InvalidRequest` in a bucket
    /// without object lock, and for a delete marker.
    pub fn set_retention<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
        retention: Option<Retention>,
        bypass: bool,
    ) -> BoxFuture<'a, Result<Option<VersionId>>> {
        Box::pin(async move {
            require_object_lock(bucket)?;
            let permit = LockPermissions { bypass, hold: false };
            self.edit(bucket, key, version, permit, |v| v.retention.clone_from(&retention)).await
        })
    }

    /// Sets or lifts the legal hold of a version. Returns the version id to show.
    ///
    /// # Errors
    /// As [`Store::set_tags`]; `InvalidRequest` in a bucket without object lock.
    pub fn set_legal_hold<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
        on: bool,
    ) -> BoxFuture<'a, Result<Option<VersionId>>> {
        Box::pin(async move {
            require_object_lock(bucket)?;
            self.edit(bucket, key, version, LockPermissions { bypass: false, hold: true }, |v| {
                v.legal_hold = on
            })
            .await
        })
    }
}

fn require_object_lock(bucket: &Bucket) -> Result<()> {
    if bucket.object_lock {
        return Ok(());
    }
    Err(Error::InvalidRequest("Bucket is missing Object Lock Configuration"))
}
