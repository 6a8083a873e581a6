//! Parts of multipart uploads.
//!
//! Each part has its own register, so that the cost of a part does not grow with their number. A part that
//! replaces another must not drop data with which the upload is being completed. So its register names the
//! replaced data too until the generation of the upload has grown (`ashlar_commit::upload`), which makes
//! every attempt fail that has read the replaced part.
//!
//! Must not depend on: HTTP.

use futures::future::BoxFuture;
use std::sync::Arc;

use ashlar_checksum::{Algorithm, Digest};
use ashlar_commit::upload::{Replace, replace};
use ashlar_format::{Body, Part, Space, Upload, UploadState, Version};
use bytes::Bytes;

use crate::backend::{Decision, Staged};
use crate::body::BodyWriter;
use crate::held_keys;
use crate::part_record::{StoredPart, named, part_body, part_size, stored_part};
use crate::registry::{BucketHandle, OpenBucket};
use crate::seal::{self, ContentKey, Seal, Sealed};
use crate::spec::{PutSpec, Sums};
use crate::store::Inner;
use crate::types::{Class, ETag, UploadId, digest_of, fresh_id, number_algorithm, storage_class, stored};
use crate::upload::OpenUpload;
use crate::upload_registers::{UploadRegisters, upload_of};
use crate::{Error, MAX_PAGE, MAX_PARTS, Result, Store, summary};

/// The parameters of a part that are given before its body.
#[derive(Clone, Copy, Debug)]
pub struct PartSpec {
    /// 1..=10,000.
    pub number: u16,
    /// Bytes of the body, exactly.
    pub size: u64,
    /// Checksum to compute; `None`: the algorithm of the upload, if it has one.
    pub checksum: Option<Algorithm>,
    /// Like in [`crate::PutSpec`].
    pub want_md5: bool,
}

/// The upload of a part in progress. Dropping it abandons the data.
pub struct PartPut {
    inner: Arc<Inner>,
    handle: Arc<BucketHandle>,
    registers: UploadRegisters,
    number: u16,
    body_writer: BodyWriter,
    /// Whether the ETag is the MD5.
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
    /// Whether there are more parts.
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
        bucket: &'a OpenBucket,
        key: &'a str,
        id: UploadId,
        spec: PartSpec,
    ) -> BoxFuture<'a, Result<PartPut>> {
        Box::pin(async move { self.find_upload(bucket, key, id).await?.part(spec, None).await })
    }
}

impl OpenUpload {
    /// Begins the upload of a part; `key`: for an encrypted upload.
    ///
    /// # Errors
    /// As [`Store::upload_part`], and `KeyNeeded`.
    pub fn part(self, spec: PartSpec, key: Option<&ContentKey>) -> BoxFuture<'_, Result<PartPut>> {
        Box::pin(async move {
            if spec.number == 0 || spec.number > MAX_PARTS {
                return Err(Error::InvalidArgument("part numbers are 1 to 10,000"));
            }
            let OpenUpload { inner, handle, registers, sealed, algorithm: own, hide_md5 } = self;
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
            let body_writer =
                BodyWriter::begin(&inner, &registers.part(spec.number), &put, spec.number, seal.as_ref())
                    .await?;
            let shown_md5 = seal.is_none_or(|s| s.md5);
            Ok(PartPut { inner, handle, registers, number: spec.number, body_writer, shown_md5 })
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
        bucket: &'a OpenBucket,
        key: &'a str,
        id: UploadId,
        marker: u16,
        max_parts: usize,
    ) -> BoxFuture<'a, Result<PartListing>> {
        Box::pin(async move {
            let registers = self.inner.upload_registers(bucket, key, id)?;
            let record = self.inner.read_upload(&registers).await?;
            let open = |u: &&ashlar_format::Upload| {
                matches!(u.state, UploadState::Open(_) | UploadState::Completing(_))
            };
            let upload = held_keys::client_upload(upload_of(record.as_deref()))
                .filter(open)
                .ok_or(Error::NoSuchUpload)?;
            let max = max_parts.min(MAX_PAGE);
            let mut listing = PartListing {
                parts: Vec::new(),
                truncated: false,
                next: None,
                checksum: number_algorithm(upload.checksum_algorithm).map(|a| (a, upload.checksum_composite)),
                storage_class: storage_class(&upload.template.meta).to_owned(),
            };
            let mut from = registers.stem.clone();
            from.extend_from_slice(&marker.saturating_add(1).to_be_bytes());
            let page =
                self.inner.backend.list(Space::Part, bucket.id, &registers.stem, &from, max + 1).await?;
            for (key, summary) in &page.entries {
                let Some(s) = summary::part(summary).filter(|_| key.len() == registers.stem.len() + 2) else {
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
        Box::pin(async move { self.body_writer.write(&self.inner, data).await })
    }

    /// As [`crate::Put::end`].
    ///
    /// # Errors
    /// As [`crate::Put::end`].
    pub fn end(&mut self) -> BoxFuture<'_, Result<Sums>> {
        Box::pin(async move { self.body_writer.end().await })
    }

    /// Commits the part durably; it replaces an earlier one of the same number.
    ///
    /// # Errors
    /// `NoSuchUpload` (completed or aborted meanwhile), `IncompleteBody`, `Unavailable`.
    pub fn commit(mut self) -> BoxFuture<'static, Result<PartEntry>> {
        Box::pin(async move {
            let sums = self.body_writer.end().await?;
            let staged = self.body_writer.finish().await?;
            let _pass = self.handle.gate.enter().await?;
            let now_ms = self.inner.now_ms();
            let kept = StoredPart {
                size: self.body_writer.stored_size(),
                md5: match sums.md5.filter(|_| self.shown_md5) {
                    Some(md5) => md5,
                    None => fresh_id(now_ms)?,
                },
                checksum: sums.checksum.map(|d| stored(&d, false)),
                nonce: self.body_writer.nonce().filter(|_| staged.is_some()),
                modified_ms: now_ms,
                data: staged.as_ref().map(|s| s.data()),
            };
            let key = self.registers.part(self.number);
            self.body_writer.reservation().check()?;
            let began = self.inner.usage.begin_part(key.bucket());
            let put = self.put(&kept, staged.as_ref()).await;
            if put.is_err() {
                self.body_writer.reservation().lost();
            }
            let (replaced, before) = put?;
            let grown = i64::try_from(kept.plain_size()).unwrap_or(i64::MAX).saturating_sub_unsigned(before);
            self.inner.usage.note_part(key.bucket(), key.key(), grown, began);
            if !self.is_counted(&kept, replaced).await? && self.withdraw(&kept).await? {
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

    /// Writes the part to its register, in front of the one that it replaces. Returns whether it replaced
    /// one, and the bytes of that one.
    async fn put(&self, mine: &StoredPart, staged: Option<&Staged>) -> Result<(bool, u64)> {
        let number = self.number;
        let key = self.registers.part(number);
        let done = self.inner.update(&key, staged.as_slice(), |old| {
            let before = old.map(|r| &r.body);
            let replaced: Vec<Part> =
                before.map_or(&[][..], named).iter().filter(|p| !is_same_part(p, mine)).cloned().collect();
            let (body, summary) = part_body(number, mine, &replaced);
            let out = before.and_then(|b| part_size(b, number));
            Decision::Write { body, summary, moved: false, out: (out.is_some(), out.unwrap_or(0)) }
        });
        Ok(done.await?)
    }

    /// Whether the upload has the part or may still be completed with it.
    async fn is_counted(&self, mine: &StoredPart, replaced: bool) -> Result<bool> {
        // Of an empty part, a version only records that there is one more.
        let has = |v: &Version| match mine.data {
            Some(d) => v.parts.iter().any(|p| p.data.write_id == d.write_id),
            None => {
                v.parts.len() < usize::from(v.parts_count) && v.parts.iter().all(|p| p.number != self.number)
            }
        };
        loop {
            let record = self.inner.read_upload(&self.registers).await?;
            let Some(upload) = upload_of(record.as_deref()) else { return Ok(false) };
            match (replace(Some(&held_keys::protocol_state(upload))), &upload.state) {
                (Replace::Grow(_), _) if !replaced => return Ok(true),
                (Replace::Grow(_), _) => {
                    let grown = |u: &Upload| match replace(Some(&held_keys::protocol_state(u))) {
                        Replace::Grow(generation) => Some(UploadState::Open(generation)),
                        Replace::TooLate => None,
                    };
                    if self.inner.set_upload(&self.registers, false, grown).await? {
                        self.drop_replaced(mine).await?;
                        return Ok(true);
                    }
                }
                (Replace::TooLate, UploadState::Completing(v)) => return Ok(has(v)),
                (Replace::TooLate, _) => return Ok(false),
            }
        }
    }

    /// Drops the data of the parts that this one replaced; the upload cannot be completed with it any more.
    async fn drop_replaced(&self, mine: &StoredPart) -> Result<()> {
        let (key, number) = (self.registers.part(self.number), self.number);
        let done = self.inner.update(&key, &[], |old| {
            let Some(record) = old.filter(|r| !named(&r.body).is_empty()) else { return Decision::Keep(()) };
            match stored_part(&record.body, number).filter(|now| now.same_data(mine)) {
                Some(now) => {
                    let (body, summary) = part_body(number, &now, &[]);
                    Decision::Write { body, summary, moved: false, out: () }
                }
                None => Decision::Keep(()),
            }
        });
        Ok(done.await?)
    }

    /// Withdraws the part: the upload no longer accepts parts. Returns false if its register is gone already,
    /// so the completion or abort had seen it. The replaced part may belong to the version and stays.
    async fn withdraw(&self, mine: &StoredPart) -> Result<bool> {
        let key = self.registers.part(self.number);
        let done =
            self.inner.update(&key, &[], |old| match old.and_then(|r| stored_part(&r.body, self.number)) {
                Some(now) if now.same_data(mine) => {
                    Decision::Write { body: Body::Tombstone, summary: Bytes::new(), moved: true, out: true }
                }
                _ => Decision::Keep(false),
            });
        let withdrawn = done.await?;
        if let Some(data) = mine.data.filter(|_| withdrawn) {
            self.inner.backend.discard(key.group(), &[data]);
        }
        Ok(withdrawn)
    }
}

/// Whether the data of a part is that of `kept`.
fn is_same_part(part: &Part, kept: &StoredPart) -> bool {
    kept.data.is_some_and(|d| d.write_id == part.data.write_id)
}
