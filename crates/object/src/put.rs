//! PUT of an object.
//!
//! The body is passed to the drives while it is received. One change of the key's register at the end makes
//! it an object; the conditions are evaluated there.
//!
//! Must not depend on: HTTP.

use futures::future::BoxFuture;
use std::sync::Arc;

use ashlar_format::{Part, RegisterKey, Version};
use bytes::Bytes;

use crate::backend::{DecoderMemory, Staged};
use crate::body::BodyWriter;
use crate::conditions::Conditions;
use crate::feed::Cause;
use crate::registry::{BucketHandle, OpenBucket};
use crate::seal::{self, Hiding, Seal, Sealed};
use crate::spec::{Committed, PutSpec, Sums, VersionSpec};
use crate::store::{ChangeContext, Inner};
use crate::types::{fresh_id, stored};
use crate::versions;
use crate::{Result, Store};

/// A PUT in progress. Dropping it abandons the data.
pub struct Put {
    pub(crate) inner: Arc<Inner>,
    pub(crate) cause: Option<Arc<Cause>>,
    pub(crate) handle: Arc<BucketHandle>,
    pub(crate) key: RegisterKey,
    pub(crate) body_writer: BodyWriter,
    pub(crate) seal: Option<Box<Seal>>,
    /// It is sealed as this part of an existing version.
    pub(crate) behind: Option<u16>,
}

impl Store {
    /// Begins a PUT: checks bucket, key and size, and that drives and memory have space, before any byte of
    /// the body is read.
    ///
    /// # Errors
    /// `NoSuchBucket`, `KeyTooLong`, `EntityTooLarge`, `Full`, `Unavailable`, `Busy`.
    pub fn put<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        spec: PutSpec,
    ) -> BoxFuture<'a, Result<Put>> {
        Box::pin(async move { self.put_sealed(bucket, key, spec, None).await })
    }

    /// Like [`Store::put`]; with a seal, the body is encrypted.
    ///
    /// # Errors
    /// As [`Store::put`], and `InvalidArgument` (the envelope is too long).
    pub fn put_sealed<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        spec: PutSpec,
        seal: Option<Seal>,
    ) -> BoxFuture<'a, Result<Put>> {
        Box::pin(async move { self.begin_put(bucket, key, spec, seal, None).await })
    }

    /// Memory for `bytes` of a decoder of bodies, from the memory that all bodies share.
    ///
    /// # Errors
    /// `Busy`: not available in time.
    pub fn reserve_decoder_memory(&self, bytes: usize) -> BoxFuture<'_, Result<DecoderMemory>> {
        Box::pin(async move { self.inner.backend.reserve_decoder_memory(bytes).await })
    }

    /// `behind`: the part number in an existing version.
    pub(crate) async fn begin_put(
        &self,
        bucket: &OpenBucket,
        key: &str,
        spec: PutSpec,
        seal: Option<Seal>,
        behind: Option<u16>,
    ) -> Result<Put> {
        let key = self.inner.object_key(bucket, key)?;
        if let Some(seal) = &seal {
            seal::check_envelope(&seal.envelope)?;
        }
        let body_writer =
            BodyWriter::begin(&self.inner, &key, &spec, behind.unwrap_or(1), seal.as_ref()).await?;
        let (inner, cause) = (self.inner.clone(), self.cause.clone());
        let handle = bucket.handle().clone();
        Ok(Put { inner, cause, handle, key, body_writer, seal: seal.map(Box::new), behind })
    }
}

impl Put {
    /// Writes the next piece of the body, in order; waits while drives or memory are short.
    ///
    /// # Errors
    /// `IncompleteBody` at the first byte too many, `Unavailable`, `Full`.
    pub fn write(&mut self, data: Bytes) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.body_writer.write(&self.inner, data).await })
    }

    /// After the last piece: the computed sums, to be compared with those that the client stated. Optional;
    /// otherwise `commit` does it.
    ///
    /// # Errors
    /// `IncompleteBody` when bytes are missing.
    pub fn end(&mut self) -> BoxFuture<'_, Result<Sums>> {
        Box::pin(async move { self.body_writer.end().await })
    }

    /// Makes the version current, durably, if the conditions hold.
    ///
    /// # Errors
    /// `PreconditionFailed`, `NoSuchKey` (If-Match without a current version), `Conflict`,
    /// `NoSuchBucket` (deleted meanwhile), `IncompleteBody`, `TooManyVersions`, `Unavailable`.
    pub fn commit(mut self, spec: VersionSpec, conditions: &Conditions) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(async move {
            let sums = self.body_writer.end().await?;
            let staged = self.body_writer.finish().await?;
            self.body_writer.reservation().check()?;
            let now_ms = self.inner.now_ms();
            let shown = sums.checksum.map(|d| stored(&d, false));
            let version = self.version(&sums, staged.as_ref(), now_ms, spec)?;
            let decide = |list: &[Version], bucket: &crate::Bucket| {
                versions::check(conditions, list, false)?;
                let id = versions::new_id(bucket.versioning, now_ms)?;
                let next = versions::with(list, Version { id, ..version.clone() })?;
                let checksum = shown.clone();
                let committed = Committed { checksum, ..Committed::of(&next[0], bucket.versioning) };
                Ok((Some(next), committed))
            };
            let conditional = !conditions.is_empty();
            let by = ChangeContext::cause(self.cause.as_ref());
            self.inner.change(&self.handle, &self.key, staged.as_ref(), conditional, by, decide).await
        })
    }

    /// A version that consists of the received body, without its id.
    pub(crate) fn version(
        &self,
        sums: &Sums,
        staged: Option<&Staged>,
        now_ms: i64,
        spec: VersionSpec,
    ) -> Result<Version> {
        let (md5, parts_count) = match sums.md5.filter(|_| self.seal.as_ref().is_none_or(|s| s.md5)) {
            Some(md5) => (md5, 0),
            // The ETag of an encrypted object has 32 digits, like that of any object of one piece; its
            // encryption tells that they are no MD5.
            None => (fresh_id(now_ms)?, u16::from(self.seal.is_none())),
        };
        let mut checksum = sums.checksum.map(|d| stored(&d, false));
        let mut meta = VersionSpec::stored_meta(spec.meta);
        if let Some(Seal { key, cipher, envelope, .. }) = self.seal.as_deref() {
            if let Some(c) = &mut checksum {
                seal::mask(key, c);
            }
            let (cipher, envelope) = (*cipher, envelope.clone());
            seal::set(&mut meta, &Sealed { cipher, envelope, hiding: Hiding::Whole });
        }
        let mut version = Version {
            modified_ms: now_ms,
            size: sums.size,
            md5,
            parts_count,
            meta,
            tags: spec.tags,
            acl: spec.acl,
            retention: spec.retention,
            legal_hold: spec.legal_hold,
            checksum: checksum.clone(),
            ..Version::default()
        };
        if let Some(staged) = staged {
            let data = staged.data();
            let size = self.body_writer.stored_size();
            // A hidden checksum is stored once, with the version.
            let nonce = self.body_writer.nonce();
            let checksum = if nonce.is_some() { seal::join(nonce, None) } else { checksum };
            version.parts = vec![Part { number: 1, size, md5, checksum, modified_ms: now_ms, data }];
        }
        Ok(version)
    }
}
