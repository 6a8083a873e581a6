//! DELETE of keys and versions.
//!
//! Must not depend on: HTTP.

use ashlar_format::{Version, VersionId};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bucket::Versioning;
use crate::conditions::Conditions;
use crate::lock::LockPermissions;
use crate::registry::OpenBucket;
use crate::store::ChangeContext;
use crate::versions::{self, Deleted};
use crate::{Error, Result, Store};

/// Most concurrent deletes of one multi-object call: as many share a flush of a drive.
const MOST: usize = 128;
/// Concurrent deletes of all calls together, of which each has an equal share: one takes some 30 KiB of memory.
const ALL: usize = 256;
/// The least share: keys that wait for drives that do not answer must not keep other calls from theirs.
const LEAST: usize = 16;

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

/// A multi-object call that runs, among all of them.
struct Call<'a>(&'a AtomicUsize);

impl Call<'_> {
    fn begin(all: &AtomicUsize) -> Call<'_> {
        all.fetch_add(1, Ordering::Relaxed);
        Call(all)
    }

    /// How many deletes the call may run now.
    fn share(&self) -> usize {
        (ALL / self.0.load(Ordering::Relaxed).max(1)).clamp(LEAST, MOST)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
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
            let calls = Call::begin(&self.inner.many_deletes);
            let mut what = what.into_iter().enumerate();
            let mut running = FuturesUnordered::new();
            loop {
                let free = calls.share().saturating_sub(running.len());
                running.extend(what.by_ref().take(free).map(&one));
                // In any order: a key that waits for another request does not hold up those behind it.
                let Some((at, result)) = running.next().await else { break };
                results[at] = result;
            }
            results
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_share_what_all_may_run() {
        let all = AtomicUsize::new(0);
        let first = Call::begin(&all);
        assert_eq!(first.share(), MOST);
        let others: Vec<Call<'_>> = (0..7).map(|_| Call::begin(&all)).collect();
        assert_eq!((first.share(), others[6].share()), (ALL / 8, ALL / 8));
        let more: Vec<Call<'_>> = (0..100).map(|_| Call::begin(&all)).collect();
        assert_eq!(first.share(), LEAST);
        drop((more, others));
        assert_eq!(first.share(), MOST);
    }
}
