//! The store as tests call it: with the names of buckets, each looked up again by every call.
//!
//! Methods that are missing here are those of the store, see [`Store::deref`].

use std::ops::Deref;
use std::sync::Arc;

use ashlar_cluster::Control;
use ashlar_erasure_set::Sets;
use futures::future::BoxFuture;

use crate::backend::Backend;
use crate::feed::Cause;
use crate::*;

/// A store whose operations take names.
#[derive(Clone)]
pub(crate) struct Store(crate::Store);

/// [`crate::CopySource`] with a name.
#[derive(Clone, Debug)]
pub(crate) struct CopySource {
    pub bucket: String,
    pub key: String,
    pub version: Option<VersionId>,
    pub conditions: Conditions,
}

impl Deref for Store {
    type Target = crate::Store;

    fn deref(&self) -> &crate::Store {
        &self.0
    }
}

impl Store {
    pub fn open(sets: Sets, control: Control, options: Options) -> Result<Store> {
        crate::Store::open(sets, control, options).map(Store)
    }

    pub fn over(backend: Backend, control: Control, options: Options) -> Result<Store> {
        crate::Store::over(backend, control, options).map(Store)
    }

    pub async fn in_memory(options: Options) -> Result<Store> {
        crate::Store::in_memory(options).await.map(Store)
    }

    pub fn by(&self, cause: Arc<Cause>) -> Store {
        Store(self.0.by(cause))
    }

    pub fn quota(&self, bucket: &str) -> Result<Option<u64>> {
        Ok(self.0.quota(&*self.bucket(bucket)?))
    }

    pub fn usage(&self, bucket: &str) -> Result<Counted> {
        Ok(self.0.usage(&*self.bucket(bucket)?))
    }

    pub async fn copy(&self, from: &CopySource, bucket: &str, key: &str, spec: CopySpec) -> Result<Copied> {
        let CopySource { bucket: of, key: source, version, conditions } = from.clone();
        let from = crate::CopySource { bucket: self.0.bucket(&of)?, key: source, version, conditions };
        self.0.copy(&from, &self.0.bucket(bucket)?, key, spec).await
    }

    pub async fn copy_from(
        &self,
        source: &Object,
        content: Option<&ContentKey>,
        bucket: &str,
        key: &str,
        spec: &CopySpec,
    ) -> Result<Copied> {
        self.0.copy_from(source, content, &self.0.bucket(bucket)?, key, spec).await
    }

    pub async fn delete_many(&self, bucket: &str, what: Vec<ToDelete>) -> Result<Vec<Result<Deleted>>> {
        Ok(self.0.delete_many(&self.0.bucket(bucket)?, what).await)
    }

    pub async fn inspect<R>(
        &self,
        bucket: &str,
        key: &str,
        f: impl FnOnce(&KeyVersions<'_>) -> R,
    ) -> Result<R> {
        self.0.inspect(&self.0.bucket(bucket)?, key, f).await
    }

    pub async fn expire(
        &self,
        bucket: &str,
        key: &str,
        mut decide: impl FnMut(&KeyVersions<'_>) -> ToExpire + Send,
    ) -> Result<Expired> {
        self.0.expire(&self.0.bucket(bucket)?, key, &mut decide).await
    }
}

macro_rules! by_name {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {
        impl Store { $(
            pub fn $name<'a>(&'a self, bucket: &'a str, $($arg: $ty),*) -> BoxFuture<'a, Result<$out>> {
                Box::pin(async move { self.0.$name(&self.0.bucket(bucket)?, $($arg),*).await })
            }
        )* }
    };
}

by_name! {
    put(key: &'a str, spec: PutSpec) -> Put;
    put_sealed(key: &'a str, spec: PutSpec, seal: Option<Seal>) -> Put;
    put_append(key: &'a str, spec: PutSpec, seal: Option<Seal>, tail: &'a AppendBase) -> Put;
    append_base(key: &'a str) -> AppendBase;
    get(key: &'a str, version: Option<VersionId>) -> Object;
    delete(key: &'a str, version: Option<VersionId>, conditions: &'a Conditions) -> Deleted;
    delete_bypassing(
        key: &'a str, version: Option<VersionId>, conditions: &'a Conditions, bypass: bool
    ) -> Deleted;
    rename_happened(from: &'a str, key: &'a str, token: [u8; 16]) -> bool;
    replace_envelope(key: &'a str, version: Option<VersionId>, from: &'a str, to: &'a str) -> bool;
    list(spec: &'a ListSpec<'a>) -> Listing;
    list_versions(spec: &'a VersionListSpec<'a>) -> VersionListing;
    list_uploads(spec: &'a UploadListSpec<'a>) -> UploadListing;
    scan_index(prefix: &'a str, after: &'a str, limit: usize) -> (Vec<ScannedKey>, Option<String>);
    get_tags(key: &'a str, version: Option<VersionId>) -> (Pairs, Option<VersionId>);
    set_tags(key: &'a str, version: Option<VersionId>, tags: Pairs) -> Option<VersionId>;
    set_acl(key: &'a str, version: Option<VersionId>, acl: String) -> Option<VersionId>;
    set_retention(
        key: &'a str, version: Option<VersionId>, retention: Option<Retention>, bypass: bool
    ) -> Option<VersionId>;
    set_legal_hold(key: &'a str, version: Option<VersionId>, on: bool) -> Option<VersionId>;
    create_upload(key: &'a str, spec: UploadSpec) -> UploadId;
    find_upload(key: &'a str, id: UploadId) -> OpenUpload;
    abort_upload(key: &'a str, id: UploadId) -> ();
    upload_part(key: &'a str, id: UploadId, spec: PartSpec) -> PartPut;
    list_parts(key: &'a str, id: UploadId, marker: u16, max_parts: usize) -> PartListing;
    complete_upload(
        key: &'a str, id: UploadId, parts: &'a [CompletedPart], checksum: Option<Digest>,
        conditions: &'a Conditions
    ) -> Completed;
    set_versioning(versioning: Versioning) -> ();
    set_bucket_tags(tags: Option<Pairs>) -> ();
    set_bucket_document(kind: &'a str, text: Option<&'a str>) -> ();
    enable_object_lock() -> ();
    set_quota(limit: Option<u64>) -> ();
    count_usage() -> Usage;
}
