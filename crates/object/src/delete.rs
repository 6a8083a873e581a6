//! DELETE of keys and versions.
//!
//! Must not depend on: HTTP.

use ashlar_format::{Version, VersionId};
use futures::StreamExt;
use futures::future::BoxFuture;

use crate::bucket::Versioning;
use crate::conditions::Conditions;
use crate::lock::LockPermissions;
use crate::registry::OpenBucket;
use crate::store::ChangeContext;
use crate::versions::{self, Deleted};
use crate::{Error, Result, Store};

/// Concurrent deletes of one multi-object call: as many share a flush of a drive.
const CONCURRENCY: usize = 128;

/// One key of a multi-object delete.
#[derive(Clone, Debug)]
pub struct ToDelete {
    /// The key.
    pub key: String,
    /// A version, or the current one.
    pub version: Option<VersionId>,
    /// Conditions for this key, evaluated on the current version.
    pub conditions: Conditions,
    /// Bypasses a lock in GOVERNANCE mode.
    pub bypass: bool,
}

impl Store {
    /// Deletes a key (in a versioned bucket: adds a delete marker) or one version of it. Deleting something
    /// that does not exist succeeds.
    ///
    /// # Errors
    /// `NoSuchBucket`, `PreconditionFailed`, `Conflict`, `KeyTooLong`, `Locked`, `Unavailable`.
    pub fn delete<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
        conditions: &'a Conditions,
    ) -> BoxFuture<'a, Result<Deleted>> {
        Box::pin(async move { self.delete_bypassing(bucket, key, version, conditions, false).await })
    }

    /// Like [`Store::delete`]; `bypass`: bypasses a lock in GOVERNANCE mode.
    ///
    /// # Errors
    /// As [`Store::delete`].
    pub fn delete_bypassing<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
        conditions: &'a Conditions,
        bypass: bool,
    ) -> BoxFuture<'a, Result<Deleted>> {
        Box::pin(async move {
            let key = self.inner.object_key(bucket, key)?;
            let now_ms = self.inner.now_ms();
            let decide = |list: &[Version], bucket: &crate::Bucket| {
                versions::check(conditions, list, true)?;
                if let Some(id) = version {
                    return Ok(versions::delete_version(list, id));
                }
                let marker = match bucket.versioning {
                    Versioning::Off => VersionId::ZERO,
                    v => versions::new_id(v, now_ms)?,
                };
                versions::delete_current(list, bucket.versioning, marker, now_ms)
            };
            let by = ChangeContext {
                permit: LockPermissions { bypass, hold: false },
                version,
                ..ChangeContext::cause(self.cause.as_ref())
            };
            self.inner.change(bucket.handle(), &key, None, !conditions.is_empty(), by, decide).await
        })
    }

    /// Deletes several keys, a bounded number concurrently; returns the results in the order of `what`.
    pub fn delete_many<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        what: Vec<ToDelete>,
    ) -> BoxFuture<'a, Vec<Result<Deleted>>> {
        Box::pin(async move {
            let mut results: Vec<Result<Deleted>> = what.iter().map(|_| Err(Error::Busy)).collect();
            let one = |(at, d): (usize, ToDelete)| async move {
                (at, self.delete_bypassing(bucket, &d.key, d.version, &d.conditions, d.bypass).await)
            };
            let what = futures::stream::iter(what.into_iter().enumerate());
            // In any order: a key that waits for another request does not hold up those behind it.
            let mut done = what.map(one).buffer_unordered(CONCURRENCY);
            while let Some((at, result)) = done.next().await {
                results[at] = result;
            }
            results
        })
    }
}
