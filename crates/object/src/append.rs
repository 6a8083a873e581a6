//! Append: a PUT whose body becomes one more part after those that the version of the key has.
//!
//! Only the record and the data of the new part change, in one compare-and-set: two appends at the same
//! offset never both succeed, and a reader sees the version before or after, never a mixture. Semantics:
//! Amazon S3 Express One Zone, "Appending data to objects in directory buckets".
//!
//! An encrypted version is continued under its own content key. The new part has its own nonce, so its
//! packages have their own key, which also depends on the part number. The checksums are hidden again
//! ([`crate::seal::Hiding::Parts`]).
//!
//! Invariants: existing parts stay unchanged; a part can only become part of the version, and at the
//! position, for which it was sealed.
//!
//! Must not depend on: HTTP.

use ashlar_checksum::{Algorithm, combine_crc, composite};
use ashlar_format::{Checksum, Part, Version};
use futures::future::BoxFuture;

use crate::bucket::Versioning;
use crate::conditions::Conditions;
use crate::put::Put;
use crate::registry::OpenBucket;
use crate::seal::{self, Seal, Sealed};
use crate::spec::{Committed, PutSpec, Sums, VersionSpec};
use crate::store::ChangeContext;
use crate::types::{digest_of, number_algorithm, stored};
use crate::{Error, MAX_OBJECT, MAX_PARTS, Result, Store, versions};

/// The state of a key that is needed before something is appended to it.
#[derive(Clone, Debug)]
pub struct AppendBase {
    /// Bytes of the current version; 0 if there is none.
    pub size: u64,
    /// Whether there is a current version.
    pub exists: bool,
    /// The checksum algorithm required for the appended bytes.
    pub checksum: Option<Algorithm>,
    /// How the current version is encrypted.
    pub sealed: Option<Sealed>,
    /// The number of the next part.
    next: u16,
}

impl Store {
    /// The present end of a key.
    ///
    /// # Errors
    /// As [`Store::get`]; `InvalidRequest` in a bucket with versions.
    pub fn append_base<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
    ) -> BoxFuture<'a, Result<AppendBase>> {
        Box::pin(async move {
            if bucket.versioning != Versioning::Off {
                return Err(Error::InvalidRequest(
                    "objects of a bucket with versioning cannot be appended to",
                ));
            }
            match self.get(bucket, key, None).await {
                Ok(object) => {
                    let v = object.stored();
                    let checksum = v.checksum.as_ref().and_then(|c| number_algorithm(c.algorithm));
                    let sealed = object.sealed().cloned();
                    Ok(AppendBase { size: v.size, exists: true, checksum, sealed, next: next(v) })
                }
                Err(Error::NoSuchKey { .. }) => {
                    Ok(AppendBase { size: 0, exists: false, checksum: None, sealed: None, next: 1 })
                }
                Err(e) => Err(e),
            }
        })
    }

    /// Begins a PUT that will be appended after `base`. `seal`: with the content key, cipher and envelope of
    /// the existing version; for a key without a version, a new one, or none.
    ///
    /// # Errors
    /// As [`Store::put_sealed`].
    pub fn put_append<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        spec: PutSpec,
        seal: Option<Seal>,
        base: &'a AppendBase,
    ) -> BoxFuture<'a, Result<Put>> {
        Box::pin(async move {
            let behind = base.exists.then_some(base.next);
            self.begin_put(bucket, key, spec, seal, behind).await
        })
    }
}

/// The number of the next part.
fn next(v: &Version) -> u16 {
    v.parts.last().map_or(1, |last| last.number.saturating_add(1))
}

impl Put {
    /// Appends the body to the current version, which must have `offset` bytes. For a key without a version
    /// (`offset` 0), it makes one with the fields of `spec`. The ETag is that of an object of parts.
    ///
    /// # Errors
    /// `WrongOffset`, `TooManyParts`, `EntityTooLarge`, `PreconditionFailed`, `Conflict` (the version is not
    /// the one for which the body was sealed, or is no longer encrypted in the same way), `InvalidRequest` (a
    /// bucket with versions, another checksum than that of the version), and those of [`Put::commit`].
    pub fn append(
        mut self,
        offset: u64,
        spec: VersionSpec,
        conditions: &Conditions,
    ) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(async move {
            let sums = self.body_writer.end().await?;
            let staged = self.body_writer.finish().await?;
            let now_ms = self.inner.now_ms();
            let data = staged.as_ref().ok_or(Error::InvalidRequest("nothing to append"))?.data();
            let first = self.version(&sums, staged.as_ref(), now_ms, spec)?;
            let checksum = sums.checksum.map(|d| stored(&d, false));
            // The sizes that clients see.
            let number = self.behind.unwrap_or(1);
            let part = Part {
                number,
                size: sums.size,
                md5: first.md5,
                checksum: checksum.clone(),
                modified_ms: now_ms,
                data,
            };
            let decide = |list: &[Version], bucket: &crate::Bucket| {
                if bucket.versioning != Versioning::Off {
                    return Err(Error::InvalidRequest(
                        "objects of a bucket with versioning cannot be appended to",
                    ));
                }
                versions::check(conditions, list, false)?;
                let (next, checksum) = match versions::current(list) {
                    None if offset != 0 => return Err(Error::WrongOffset { size: 0 }),
                    // A content key belongs to one version.
                    None if self.seal.is_some() && self.behind.is_some() => return Err(Error::Conflict),
                    None => (first.clone(), checksum.clone()),
                    Some(v) if v.size != offset => return Err(Error::WrongOffset { size: v.size }),
                    Some(v) => self.appended_version(v, &part, &sums)?,
                };
                let next = versions::with(list, next)?;
                let committed = Committed { checksum, ..Committed::of(&next[0], bucket.versioning) };
                Ok((Some(next), committed))
            };
            let by = ChangeContext::cause(self.cause.as_ref());
            self.inner.change(&self.handle, &self.key, staged.as_ref(), true, by, decide).await
        })
    }

    /// The version with one more part, as stored, and its checksum as shown to clients.
    fn appended_version(&self, v: &Version, part: &Part, sums: &Sums) -> Result<(Version, Option<Checksum>)> {
        match (self.seal.as_deref(), Sealed::of(&v.meta)?) {
            (None, None) => {
                let part = Part { number: next(v), ..part.clone() };
                let longer = appended_version(v, &part, sums, true)?;
                let checksum = longer.checksum.clone();
                Ok((longer, checksum))
            }
            (Some(seal), Some(sealed))
                if self.behind == Some(next(v))
                    && seal.envelope == sealed.envelope
                    && seal.cipher == sealed.cipher =>
            {
                // The tag of an encrypted object of one part has 32 digits, whether it is an MD5 or not.
                let shown = appended_version(&seal::shown(v, &sealed, Some(&seal.key)), part, sums, true)?;
                let checksum = shown.checksum.clone();
                let nonce = self.body_writer.nonce();
                let nonce = nonce.ok_or_else(|| Error::Internal("sealed without a nonce".to_owned()))?;
                let of_part = (nonce, self.body_writer.stored_size());
                Ok((seal::append_to(v, &sealed, &seal.key, of_part, shown)?, checksum))
            }
            _ => Err(Error::Conflict),
        }
    }
}

/// The version with one more part, both as clients see them. `md5`: the ETag of a single part is its MD5.
fn appended_version(v: &Version, part: &Part, sums: &Sums, md5: bool) -> Result<Version> {
    if part.number > MAX_PARTS {
        return Err(Error::TooManyParts);
    }
    let size = v.size + sums.size;
    if size > MAX_OBJECT {
        return Err(Error::EntityTooLarge);
    }
    let mut parts = v.parts.clone();
    parts.push(part.clone());
    let md5s: Vec<u8> = parts.iter().flat_map(|p| p.md5).collect();
    let checksum = extended_checksum(v, part, &parts)?;
    Ok(Version {
        modified_ms: part.modified_ms,
        size,
        // An empty object has no part: the appended part is the whole object.
        md5: if parts.len() == 1 { part.md5 } else { ashlar_checksum::md5_once(&md5s) },
        parts_count: if parts.len() == 1 && md5 { 0 } else { parts.len() as u16 },
        parts,
        checksum,
        ..v.clone()
    })
}

/// The checksum of the longer version: CRCs are continued; for other algorithms, the checksums of the parts
/// are combined.
fn extended_checksum(v: &Version, part: &Part, parts: &[Part]) -> Result<Option<Checksum>> {
    let Some(old) = &v.checksum else { return Ok(None) };
    let added = part.checksum.as_ref().and_then(digest_of);
    let (Some(algorithm), Some(before), Some(added)) =
        (number_algorithm(old.algorithm), digest_of(old), added)
    else {
        return Ok(None);
    };
    if added.algorithm() != algorithm {
        return Err(Error::InvalidRequest("the object has another kind of checksum"));
    }
    if v.parts.is_empty() {
        return Ok(part.checksum.clone());
    }
    if !old.composite
        && let Some(all) = combine_crc(algorithm, &before, &added, part.size)
    {
        return Ok(Some(stored(&all, false)));
    }
    let of_parts: Option<Vec<_>> = parts.iter().map(|p| p.checksum.as_ref().and_then(digest_of)).collect();
    Ok(of_parts.map(|digests| stored(&composite(algorithm, &digests), true)))
}
