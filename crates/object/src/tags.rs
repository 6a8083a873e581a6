//! Tags and access control lists of a version: changes of the record alone. They neither make a new version
//! nor change `Last-Modified`.
//!
//! Must not depend on: HTTP.

use ashlar_format::{Version, VersionId};
use futures::future::BoxFuture;

use crate::get::find;
use crate::lock::LockPermissions;
use crate::registry::OpenBucket;
use crate::store::ChangeContext;
use crate::types::Pairs;
use crate::versions;
use crate::{Result, Store};

impl Store {
    /// Tags of a version and the version id to show.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get_tags<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
    ) -> BoxFuture<'a, Result<(Pairs, Option<VersionId>)>> {
        Box::pin(async move {
            let object = self.get(bucket, key, version).await?;
            Ok((object.version().tags.clone(), object.version_id()))
        })
    }

    /// Replaces the tags of a version; returns the version id to show.
    ///
    /// # Errors
    /// As [`Store::get`], and `Conflict`.
    pub fn set_tags<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
        tags: Pairs,
    ) -> BoxFuture<'a, Result<Option<VersionId>>> {
        Box::pin(async move {
            self.edit(bucket, key, version, LockPermissions::default(), |v| v.tags.clone_from(&tags)).await
        })
    }

    /// Replaces the access control list of a version; returns the version id to show.
    ///
    /// # Errors
    /// As [`Store::set_tags`].
    pub fn set_acl<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
        acl: String,
    ) -> BoxFuture<'a, Result<Option<VersionId>>> {
        Box::pin(async move {
            self.edit(bucket, key, version, LockPermissions::default(), |v| v.acl.clone_from(&acl)).await
        })
    }

    /// Changes a version's record.
    pub(crate) async fn edit(
        &self,
        bucket: &OpenBucket,
        key: &str,
        version: Option<VersionId>,
        permit: LockPermissions,
        edit: impl Fn(&mut Version) + Sync,
    ) -> Result<Option<VersionId>> {
        let key = self.inner.object_key(bucket, key)?;
        let decide = |list: &[Version], bucket: &crate::Bucket| {
            let index = find(list, version)?;
            let mut next = list.to_vec();
            edit(&mut next[index]);
            let shown = versions::shown(bucket.versioning, next[index].id);
            Ok((Some(next), shown))
        };
        let by = ChangeContext { permit, version, ..ChangeContext::cause(self.cause.as_ref()) };
        self.inner.change(bucket.handle(), &key, None, false, by, decide).await
    }
}
