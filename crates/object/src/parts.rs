//! Parts of multipart uploads.
//!
//! Each part is a register of its own, so that the cost of a part does not grow with their number. A
//! part that replaces another must not drop data that a completion has just fixed: so the register
//! is changed without dropping, then the upload is read, and only if it is still open the old data
//! goes. (A completion fixes its parts first and reads them again afterwards; one of the two sees the
//! other.)

use futures::future::BoxFuture;
use std::sync::Arc;

use ashlar_checksum::{Algorithm, Digest};
use ashlar_format::{Body, Data, Space, UploadState};
use bytes::Bytes;

use crate::backend::Decision;
use crate::body::Intake;
use crate::held;
use crate::kept::{Kept, kept, kept_size, part_body};
use crate::names::{Names, upload_of};
use crate::registry::Live;
use crate::seal::{self, ContentKey, Seal, Sealed};
use crate::spec::{PutSpec, Sums};
use crate::store::Inner;
use crate::types::{Class, ETag, UploadId, digest_of, fresh_id, number_algorithm, storage_class, stored};
use crate::upload::OpenUpload;
use crate::{Error, MAX_PAGE, MAX_PARTS, Result, Store, summary};

/// What is known of a part before its body.
#[derive(Clone, Copy, Debug)]
pub struct PartSpec {
    /// 1..=10,000.
    pub number: u16,
    /// Bytes of the body, exactly.
    pub size: u64,
    /// Checksum to compute; `None`: the algorithm of the upload, if it has one.
    pub checksum: Option<Algorithm>,
    /// As in [`crate::PutSpec`].
    pub want_md5: bool,
}

/// The upload of a part in progress. Dropping it abandons the data.
pub struct PartPut {
    inner: Arc<Inner>,
    live: Arc<Live>,
    names: Names,
    number: u16,
    intake: Intake,
    /// The ETag is the MD5.
    shown_md5: bool,
}

/// One part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartEntry {
    /// Part number.
    pub number: u16,
    /// Bytes.
    pub size: u64,
    /// Entity tag.
    pub etag: ETag,
    /// Milliseconds since 1970.
    pub modified_ms: i64,
    /// Its checksum.
    pub checksum: Option<Digest>,
}

/// A page of parts, in order of number.
#[derive(Clone, Debug)]
pub struct PartListing {
    /// Parts.
    pub parts: Vec<PartEntry>,
    /// There is more.
    pub truncated: bool,
    /// When truncated: the `marker` of the next page.
    pub next: Option<u16>,
    /// Checksum algorithm of the upload, and whether the object's will be composite.
    pub checksum: Option<(Algorithm, bool)>,
    /// Storage class as stored in the metadata (`x-amz-storage-class`), empty for STANDARD.
    pub storage_class: String,
}

impl Store {
    /// Begins the upload of a part.
    ///
    /// # Errors
    /// As [`Store::put`], and `NoSuchUpload`, `InvalidArgument` (part number), `InvalidRequest`
    /// (another checksum algorithm than the upload's).
    pub fn upload_part<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        id: UploadId,
        spec: PartSpec,
    ) -> BoxFuture<'a, Result<PartPut>> {
        Box::pin(async move { self.find_upload(bucket, key, id).await?.part(spec, None).await })
    }
}

impl OpenUpload {
    /// Begins the upload of a part; `key`: of an encrypted upload.
    ///
    /// # Errors
    /// As [`Store::upload_part`], and `KeyNeeded`.
    pub fn part(self, spec: PartSpec, key: Option<&ContentKey>) -> BoxFuture<'_, Result<PartPut>> {
        Box::pin(async move {
            if spec.number == 0 || spec.number > MAX_PARTS {
                return Err(Error::InvalidArgument("part numbers are 1 to 10,000"));
            }
            let OpenUpload { inner, live, names, sealed, algorithm: own, hide_md5 } = self;
            let seal = match (sealed, key) {
                (None, _) => None,
                (Some(_), None) => return Err(Error::KeyNeeded),
                (Some(Sealed { cipher, envelope, .. }), Some(key)) => {
                    Some(Seal { key: key.clone(), cipher, envelope, md5: !hide_md5 })
                }
            };
            if own.is_some() && spec.checksum.is_some() && own != spec.checksum {
                return Err(Error::InvalidRequest("the upload was created with another checksum algorithm"));
            }
            let put = PutSpec {
                size: spec.size,
                checksum: spec.checksum.or(own),
                want_md5: spec.want_md5,
                class: Class::Standard,
            };
            let intake =
                Intake::begin(&inner, &names.part(spec.number), &put, spec.number, seal.as_ref()).await?;
            let shown_md5 = seal.is_none_or(|s| s.md5);
            Ok(PartPut { inner, live, names, number: spec.number, intake, shown_md5 })
        })
    }
}

impl Store {
    /// Lists the parts after number `marker` (0 for all); at most 1,000.
    ///
    /// # Errors
    /// `NoSuchBucket`, `NoSuchUpload`, `Unavailable`.
    pub fn list_parts<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        id: UploadId,
        marker: u16,
        max_parts: usize,
    ) -> BoxFuture<'a, Result<PartListing>> {
        Box::pin(async move {
            let bucket = self.bucket(bucket)?;
            let names = self.inner.names(&bucket, key, id)?;
            let record = self.inner.read_upload(&names).await?;
            let open = |u: &&ashlar_format::Upload| {
                matches!(u.state, UploadState::Open | UploadState::Completing(_))
            };
            let upload =
                held::clients(upload_of(record.as_deref())).filter(open).ok_or(Error::NoSuchUpload)?;
            let max = max_parts.min(MAX_PAGE);
            let mut listing = PartListing {
                parts: Vec::new(),
                truncated: false,
                next: None,
                checksum: number_algorithm(upload.checksum_algorithm).map(|a| (a, upload.checksum_composite)),
                storage_class: storage_class(&upload.template.meta).to_owned(),
            };
            let mut from = names.stem.clone();
            from.extend_from_slice(&marker.saturating_add(1).to_be_bytes());
            let page = self.inner.backend.list(Space::Part, bucket.id, &names.stem, &from, max + 1).await?;
            for (key, summary) in &page.entries {
                let Some(s) = summary::part(summary).filter(|_| key.len() == names.stem.len() + 2) else {
                    continue;
                };
                if listing.parts.len() == max {
                    listing.truncated = max > 0;
                    break;
                }
                listing.parts.push(PartEntry {
                    number: s.number,
                    size: if seal::split(s.checksum.as_ref()).0.is_some() {
                        seal::plain_len(s.size)
                    } else {
                        s.size
                    },
                    etag: ETag { md5: s.md5, parts: 0 },
                    modified_ms: s.modified_ms,
                    checksum: seal::split(s.checksum.as_ref()).1.as_ref().and_then(digest_of),
                });
            }
            listing.next = listing.parts.last().map(|p| p.number).filter(|_| listing.truncated);
            Ok(listing)
        })
    }
}

impl PartPut {
    /// As [`crate::Put::write`].
    ///
    /// # Errors
    /// As [`crate::Put::write`].
    pub fn write(&mut self, data: Bytes) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.intake.write(&self.inner, data).await })
    }

    /// As [`crate::Put::end`].
    ///
    /// # Errors
    /// As [`crate::Put::end`].
    pub fn end(&mut self) -> BoxFuture<'_, Result<Sums>> {
        Box::pin(async move { self.intake.end().await })
    }

    /// Makes the part count, durably; it replaces an earlier one of the same number.
    ///
    /// # Errors
    /// `NoSuchUpload` (completed or aborted meanwhile), `IncompleteBody`, `Unavailable`.
    pub fn commit(mut self) -> BoxFuture<'static, Result<PartEntry>> {
        Box::pin(async move {
            let sums = self.intake.end().await?;
            let staged = self.intake.finish().await?;
            let _pass = self.live.gate.enter().await?;
            let now_ms = self.inner.now_ms();
            let kept = Kept {
                size: self.intake.stored_size(),
                md5: match sums.md5.filter(|_| self.shown_md5) {
                    Some(md5) => md5,
                    None => fresh_id(now_ms)?,
                },
                checksum: sums.checksum.map(|d| stored(&d, false)),
                nonce: self.intake.nonce().filter(|_| staged.is_some()),
                modified_ms: now_ms,
                data: staged.as_ref().map(|s| s.data()),
            };
            let (body, summary) = part_body(self.number, &kept);
            let key = self.names.part(self.number);
            let (replaced, before): (Vec<Data>, u64) = self
                .inner
                .backend
                .update(&key, staged.as_ref(), |old| Decision::Write {
                    body: body.clone(),
                    summary: summary.clone(),
                    moved: true,
                    out: (
                        old.iter().flat_map(|r| r.data().map(|p| p.data)).collect(),
                        old.and_then(|r| kept_size(&r.body, self.number)).unwrap_or(0),
                    ),
                })
                .await?;
            let grown = i64::try_from(kept.plain_size()).unwrap_or(i64::MAX).saturating_sub_unsigned(before);
            self.inner.usage.parts.note(key.bucket(), key.key(), grown);
            let record = self.inner.read_upload(&self.names).await?;
            let counts = match upload_of(record.as_deref()).map(|u| &u.state) {
                Some(UploadState::Open) => {
                    self.inner.backend.discard(key.group(), &replaced);
                    true
                }
                // The completion has this very part: it came in time.
                Some(UploadState::Completing(v)) => {
                    kept.data.is_none_or(|d| v.parts.iter().any(|p| p.data.write_id == d.write_id))
                }
                Some(UploadState::Aborted) => {
                    self.inner.backend.discard(key.group(), &replaced);
                    false
                }
                // The data replaced may be the object's now; if nothing names it, it is an orphan that
                // `erasure-set` collects.
                Some(UploadState::Done(_)) | None => false,
            };
            if !counts && self.withdraw(&kept).await? {
                return Err(Error::NoSuchUpload);
            }
            Ok(PartEntry {
                number: self.number,
                size: sums.size,
                etag: ETag { md5: kept.md5, parts: 0 },
                modified_ms: now_ms,
                checksum: sums.checksum,
            })
        })
    }

    /// Takes the part away again: the upload no longer takes parts. False: its register is gone
    /// already, so the completion or abort had seen it.
    async fn withdraw(&self, mine: &Kept) -> Result<bool> {
        let number = self.number;
        let key = self.names.part(number);
        let done =
            self.inner.backend.update(&key, None, |old| match old.and_then(|r| kept(&r.body, number)) {
                Some(now) if now.data.map(|d| d.write_id) == mine.data.map(|d| d.write_id) => {
                    Decision::Write { body: Body::Tombstone, summary: Bytes::new(), moved: false, out: true }
                }
                _ => Decision::Keep(false),
            });
        Ok(done.await?)
    }
}
