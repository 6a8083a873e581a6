//! Appending: what is put becomes one more part behind those that the key's version has.
//!
//! Only the record changes beside the new part's own data, in one compare-and-set: two that append at the
//! same offset never both succeed, and a reader sees the version before or after, nothing between.
//! Semantics: Amazon S3 Express One Zone, "Appending data to objects in directory buckets".
//!
//! Invariant: the parts that were there stay as they are.
//!
//! Must never know: HTTP.

use ashlar_checksum::{Algorithm, combine_crc, composite};
use ashlar_format::{Checksum, Part, Version};

use crate::bucket::Versioning;
use crate::conditions::Conditions;
use crate::put::{Committed, Put, Sums, VersionSpec};
use crate::store::By;
use crate::types::{digest_of, number_algorithm, stored};
use crate::{Error, MAX_OBJECT, MAX_PARTS, Result, Store, versions};

/// What has to be known of a key before something is appended to it.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// Bytes of the current version; 0 when there is none.
    pub size: u64,
    /// There is a current version.
    pub exists: bool,
    /// The checksum that what is appended has to have.
    pub checksum: Option<Algorithm>,
}

impl Store {
    /// The end of a key, as it is now.
    ///
    /// # Errors
    /// As [`Store::get`]; `InvalidRequest` in a bucket with versions; `Unsupported` for an encrypted
    /// version.
    pub async fn tail(&self, bucket: &str, key: &str) -> Result<Tail> {
        if self.bucket(bucket)?.versioning != Versioning::Off {
            return Err(Error::InvalidRequest("objects of a bucket with versioning cannot be appended to"));
        }
        match self.get(bucket, key, None).await {
            Ok(object) => {
                let v = object.version();
                refuse_sealed(object.sealed().is_some())?;
                let checksum = v.checksum.as_ref().and_then(|c| number_algorithm(c.algorithm));
                Ok(Tail { size: v.size, exists: true, checksum })
            }
            Err(Error::NoSuchKey { .. }) => Ok(Tail { size: 0, exists: false, checksum: None }),
            Err(e) => Err(e),
        }
    }
}

fn refuse_sealed(sealed: bool) -> Result<()> {
    if sealed { Err(Error::InvalidRequest("encrypted objects cannot be appended to yet")) } else { Ok(()) }
}

impl Put {
    /// Appends what was put to the current version, which must have `offset` bytes; of a key without
    /// version (`offset` 0) it makes one with what `spec` says. The ETag is that of an object of parts.
    ///
    /// # Errors
    /// `WrongOffset`, `TooManyParts`, `EntityTooLarge`, `PreconditionFailed`, `InvalidRequest` (a bucket
    /// with versions, an encrypted version, another checksum than the version has), and as
    /// [`Put::commit`].
    pub async fn append(
        mut self,
        offset: u64,
        spec: VersionSpec,
        conditions: &Conditions,
    ) -> Result<Committed> {
        assert!(self.seal.is_none(), "what is appended is not encrypted");
        let sums = self.intake.end().await?;
        let staged = self.intake.finish().await?;
        let now_ms = self.inner.now_ms();
        let data = staged.as_ref().ok_or(Error::InvalidRequest("nothing to append"))?.data();
        let md5 = sums.md5.ok_or_else(|| Error::Internal("an append without MD5".to_owned()))?;
        let checksum = sums.checksum.map(|d| stored(&d, false));
        let part = Part { number: 1, size: sums.size, md5, checksum, modified_ms: now_ms, data };
        let first = Version {
            modified_ms: now_ms,
            size: sums.size,
            md5,
            meta: VersionSpec::stored_meta(spec.meta),
            tags: spec.tags,
            acl: spec.acl,
            checksum: part.checksum.clone(),
            parts: vec![part.clone()],
            ..Version::default()
        };
        let decide = |list: &[Version], bucket: &crate::Bucket| {
            if bucket.versioning != Versioning::Off {
                return Err(Error::InvalidRequest(
                    "objects of a bucket with versioning cannot be appended to",
                ));
            }
            versions::check(conditions, list, false)?;
            let next = match versions::current(list) {
                None if offset == 0 => first.clone(),
                None => return Err(Error::WrongOffset { size: 0 }),
                Some(v) if v.size != offset => return Err(Error::WrongOffset { size: v.size }),
                Some(v) => {
                    refuse_sealed(crate::seal::Sealed::of(&v.meta)?.is_some())?;
                    longer(v, &part, &sums)?
                }
            };
            let next = versions::with(list, next)?;
            let committed = Committed::of(&next[0], bucket.versioning);
            Ok((Some(next), committed))
        };
        let by = By::cause(self.cause.as_ref());
        self.inner.change(&self.live, &self.key, staged.as_ref(), true, by, decide).await
    }
}

/// The version with one more part.
fn longer(v: &Version, part: &Part, sums: &Sums) -> Result<Version> {
    let number = match v.parts.last() {
        Some(last) if last.number >= MAX_PARTS => return Err(Error::TooManyParts),
        Some(last) => last.number + 1,
        None => 1,
    };
    let size = v.size + sums.size;
    if size > MAX_OBJECT {
        return Err(Error::EntityTooLarge);
    }
    let mut parts = v.parts.clone();
    parts.push(Part { number, ..part.clone() });
    let md5s: Vec<u8> = parts.iter().flat_map(|p| p.md5).collect();
    let checksum = whole(v, part, &parts)?;
    Ok(Version {
        modified_ms: part.modified_ms,
        size,
        // An empty object has no part: what is appended is all of it.
        md5: if parts.len() == 1 { part.md5 } else { ashlar_checksum::md5_once(&md5s) },
        parts_count: if parts.len() == 1 { 0 } else { parts.len() as u16 },
        parts,
        checksum,
        ..v.clone()
    })
}

/// The checksum of the longer version: CRCs are continued, of others the parts' are put together.
fn whole(v: &Version, part: &Part, parts: &[Part]) -> Result<Option<Checksum>> {
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
