//! COPY: within one key only the record changes; otherwise the data is read and written again.
//!
//! Invariant: keys never share data. A register names only its own data, so that dropping needs no reference
//! counts. Within one key, versions may share data, which is dropped with the last of them.
//!
//! Must not depend on: HTTP.

use ashlar_checksum::Algorithm;
use ashlar_format::{Retention, Version, VersionId};
use futures::future::BoxFuture;

use crate::backend::CopyPermit;
use crate::bucket::Bucket;
use crate::conditions::{Conditions, Verdict, evaluate};
use crate::get::Object;
use crate::registry::OpenBucket;
use crate::seal::{self, ContentKey, Seal, Sealed};
use crate::spec::{Committed, PutSpec, VersionSpec};
use crate::store::ChangeContext;
use crate::types::{Class, Pairs, STORAGE_CLASS, digest_of, number_algorithm, storage_class};
use crate::versions;
use crate::{Error, MAX_PUT, Result, Store};

/// How often a copy starts again because its source was replaced in the meantime.
const ATTEMPTS: usize = 4;

/// The source of a copy.
#[derive(Clone, Debug)]
pub struct CopySource {
    /// Bucket.
    pub bucket: OpenBucket,
    /// Key.
    pub key: String,
    /// A version, or the current one.
    pub version: Option<VersionId>,
    /// `x-amz-copy-source-if-*`.
    pub conditions: Conditions,
}

/// The parameters of a copy.
#[derive(Clone, Debug, Default)]
pub struct CopySpec {
    /// `Some`: metadata directive REPLACE; `None`: metadata of the source.
    pub meta: Option<Pairs>,
    /// `Some`: tagging directive REPLACE; `None`: tags of the source.
    pub tags: Option<Pairs>,
    /// Access control list of the copy; it is never copied.
    pub acl: String,
    /// Retention of the copy; it is never copied.
    pub retention: Option<Retention>,
    /// Legal hold of the copy; it is never copied.
    pub legal_hold: bool,
    /// Checksum algorithm of the copy; `None`: that of the source.
    pub checksum: Option<Algorithm>,
    /// The redundancy of the copy.
    pub class: Class,
    /// Conditions on the destination.
    pub conditions: Conditions,
    /// True: the API layer changes something else (storage class, ...), so that a copy of a key onto itself
    /// is valid without a new `meta`.
    pub changes: bool,
    /// How the copy is encrypted.
    pub seal: CopySeal,
}

/// How a copy is encrypted.
#[derive(Clone, Debug, Default)]
pub enum CopySeal {
    /// Not encrypted.
    #[default]
    Plain,
    /// Encrypted with a new key.
    Fresh(Seal),
    /// Encrypted as the source, whose data it shares: within one key only.
    Kept,
    /// Like [`CopySeal::Kept`], with another envelope for the same content key.
    Envelope(String),
}

/// The result of a copy.
#[derive(Clone, Debug)]
pub struct Copied {
    /// The new version.
    pub committed: Committed,
    /// The version that was read, as shown to clients; `None` if the source bucket never had versioning.
    pub source_version_id: Option<VersionId>,
}

impl Store {
    /// Finds the source of a copy and evaluates its conditions.
    ///
    /// # Errors
    /// As [`Store::get`]; `PreconditionFailed`; `InvalidRequest` for a delete marker named by version.
    pub fn get_source<'a>(&'a self, from: &'a CopySource) -> BoxFuture<'a, Result<Object>> {
        Box::pin(async move {
            let object = match self.get(&from.bucket, &from.key, from.version).await {
                Err(Error::DeleteMarker { .. }) => {
                    return Err(Error::InvalidRequest("the source of a copy may not be a delete marker"));
                }
                r => r?,
            };
            let current = (&object.etag(), object.version().modified_ms);
            match evaluate(&from.conditions, Some(current), true) {
                Verdict::Proceed => Ok(object),
                _ => Err(Error::PreconditionFailed),
            }
        })
    }

    /// Copies a version. Within one key only the record changes; otherwise the data is read and written.
    ///
    /// # Errors
    /// As [`Store::get`] for the source and [`Store::put`] and commit for the destination;
    /// `InvalidRequest` for a copy onto itself that changes nothing.
    pub fn copy<'a>(
        &'a self,
        from: &'a CopySource,
        bucket: &'a OpenBucket,
        key: &'a str,
        spec: CopySpec,
    ) -> BoxFuture<'a, Result<Copied>> {
        Box::pin(async move {
            for _ in 0..ATTEMPTS {
                let source = self.get_source(from).await?;
                match self.copy_from(&source, None, bucket, key, &spec).await {
                    Err(Error::Changed) => {}
                    done => return done,
                }
            }
            Err(Error::Busy)
        })
    }

    /// Like [`Store::copy`], for a version that was found, with its key if it is encrypted.
    ///
    /// # Errors
    /// Those of [`Store::copy`]; `Changed`: the source was replaced in the meantime, find it again;
    /// `KeyNeeded`.
    pub fn copy_from<'a>(
        &'a self,
        source: &'a Object,
        content: Option<&'a ContentKey>,
        bucket: &'a OpenBucket,
        key: &'a str,
        spec: &'a CopySpec,
    ) -> BoxFuture<'a, Result<Copied>> {
        Box::pin(async move {
            let target = self.inner.object_key(bucket, key)?;
            let same = source.key == target;
            let checksum = spec.checksum;
            if same && source.is_latest() && spec.meta.is_none() && !spec.changes {
                return Err(Error::InvalidRequest(
                    "a copy of an object onto itself must change its metadata or storage class",
                ));
            }
            let kept = source.stored().checksum.as_ref().and_then(|c| number_algorithm(c.algorithm));
            let shares = match spec.seal {
                CopySeal::Plain => source.sealed().is_none(),
                CopySeal::Fresh(_) => false,
                CopySeal::Kept | CopySeal::Envelope(_) => source.sealed().is_some(),
            };
            // Another class is another redundancy.
            let class = storage_class(&source.stored().meta);
            let shares =
                shares && class == if spec.class == Class::Standard { "" } else { spec.class.name() };
            let committed = if same && shares && (checksum.is_none() || checksum == kept) {
                self.copy_record(source, bucket, key, spec).await?
            } else {
                self.copy_data(source, content, bucket, key, spec, checksum.or(kept)).await?
            };
            Ok(Copied { committed, source_version_id: source.version_id() })
        })
    }

    /// A new version of the same key over the same data.
    async fn copy_record(
        &self,
        source: &Object,
        bucket: &OpenBucket,
        key: &str,
        spec: &CopySpec,
    ) -> Result<Committed> {
        let handle = bucket.handle();
        let key = self.inner.object_key(bucket, key)?;
        let now_ms = self.inner.now_ms();
        let v = source.stored();
        let _room = self.inner.reserve(key.bucket(), v.size).await?;
        let decide = |list: &[Version], bucket: &Bucket| {
            // The data exists only as long as a version of this list names it.
            if !list.iter().any(|l| l.id == v.id && l.parts == v.parts) {
                return Err(Error::Changed);
            }
            versions::check(&spec.conditions, list, false)?;
            let mut carried = carried(spec, v);
            if let Some(sealed) = source.sealed() {
                let envelope = match &spec.seal {
                    CopySeal::Envelope(text) => text.clone(),
                    _ => sealed.envelope.clone(),
                };
                seal::check_envelope(&envelope)?;
                seal::set(&mut carried.meta, &Sealed { envelope, ..sealed.clone() });
            }
            let new = Version {
                id: versions::new_id(bucket.versioning, now_ms)?,
                modified_ms: now_ms,
                meta: carried.meta,
                tags: carried.tags,
                acl: carried.acl,
                retention: carried.retention,
                legal_hold: carried.legal_hold,
                ..v.clone()
            };
            let next = versions::with(list, new)?;
            // A hidden checksum is returned only if it was shown.
            let checksum = source.version().checksum.clone();
            let committed = Committed { checksum, ..Committed::of(&next[0], bucket.versioning) };
            Ok((Some(next), committed))
        };
        let others = [v.id];
        let by = ChangeContext { others: &others, ..ChangeContext::cause(self.cause.as_ref()) };
        self.inner.change(handle, &key, None, !spec.conditions.is_empty(), by, decide).await
    }

    /// A permit to take before one body is read to write another ([`CopyPermit`]).
    pub fn copy_permit(&self) -> BoxFuture<'_, CopyPermit> {
        Box::pin(async move { self.inner.backend.copy_permit().await })
    }

    async fn copy_data(
        &self,
        source: &Object,
        content: Option<&ContentKey>,
        bucket: &OpenBucket,
        key: &str,
        spec: &CopySpec,
        checksum: Option<Algorithm>,
    ) -> Result<Committed> {
        let v = source.version();
        if v.size > MAX_PUT {
            return Err(Error::EntityTooLarge);
        }
        let seal = match &spec.seal {
            CopySeal::Plain => None,
            CopySeal::Fresh(seal) => Some(seal.clone()),
            CopySeal::Kept | CopySeal::Envelope(_) => {
                return Err(Error::Internal("a content key is one key's alone".to_owned()));
            }
        };
        let want_md5 = seal.as_ref().is_none_or(|s| s.md5);
        let put = PutSpec { size: v.size, checksum, want_md5, class: spec.class };
        let _turn = self.copy_permit().await;
        // Opened first: this copy itself may replace the source.
        let mut body = source.read_with(0..v.size, content).await?;
        let mut put = self.put_sealed(bucket, key, put, seal).await?;
        while let Some(piece) = body.next().await {
            put.write(piece?).await?;
        }
        let sums = put.end().await?;
        let whole = v.checksum.as_ref().filter(|c| !c.composite).and_then(digest_of);
        let differs =
            whole.is_some_and(|d| sums.checksum.is_some_and(|s| s.algorithm() == d.algorithm() && s != d));
        // An encrypted version may have a random tag; its packages authenticate its bytes.
        let tagged = v.parts_count == 0 && source.sealed().is_none();
        if differs || (tagged && sums.md5.is_some_and(|md5| md5 != v.md5)) {
            return Err(Error::Corrupt("the data read is not what was written".to_owned()));
        }
        put.commit(carried(spec, v), &spec.conditions).await
    }
}

/// The metadata and tags of the copy, according to the directives.
fn carried(spec: &CopySpec, source: &Version) -> VersionSpec {
    let mut meta = spec.meta.clone().unwrap_or_else(|| source.meta.clone());
    // The class always comes from the request of the copy.
    meta.retain(|(name, _)| name != STORAGE_CLASS);
    if spec.class != Class::Standard {
        meta.push((STORAGE_CLASS.to_owned(), spec.class.name().to_owned()));
    }
    VersionSpec {
        meta: VersionSpec::stored_meta(meta),
        tags: spec.tags.clone().unwrap_or_else(|| source.tags.clone()),
        acl: spec.acl.clone(),
        retention: spec.retention.clone(),
        legal_hold: spec.legal_hold,
    }
}
