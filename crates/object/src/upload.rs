//! Multipart uploads: their registers, creation, and abort.
//!
//! `upload_registers` names their registers, `complete` makes a version of an upload.
//!
//! Must not depend on: HTTP.

use futures::future::BoxFuture;
use std::sync::Arc;

use ashlar_checksum::Algorithm;
use ashlar_commit::upload::{Abort, abort};
use ashlar_format::{Body, Data, Record, RegisterKey, Space, Upload, UploadState, Version};
use futures::StreamExt;

use crate::backend::Decision;
use crate::bucket::Bucket;
use crate::held_keys;
use crate::part_record::{CONCURRENCY, part_size};
use crate::registry::{BucketHandle, OpenBucket};
use crate::seal::{self, Cipher, Hiding, Sealed};
use crate::spec::VersionSpec;
use crate::store::Inner;
use crate::summary;
use crate::types::{Class, UploadId, algorithm_number, fresh_id, number_algorithm};
use crate::upload_registers::{UploadRegisters, upload_of};
use crate::{Error, MAX_KEY, Result, Store};

/// The parameters of a new upload.
#[derive(Clone, Debug, Default)]
pub struct UploadSpec {
    /// The fields of the future object.
    pub version: VersionSpec,
    /// Checksum algorithm of the parts and whether the object's is composite (true) or of the full
    /// object (false; CRCs only).
    pub checksum: Option<(Algorithm, bool)>,
    /// The redundancy of the parts.
    pub class: Class,
    /// How the parts are encrypted, with the envelope of their content key.
    pub seal: Option<(Cipher, String)>,
}

/// An upload that accepts parts.
pub struct OpenUpload {
    pub(crate) inner: Arc<Inner>,
    pub(crate) handle: Arc<BucketHandle>,
    pub(crate) registers: UploadRegisters,
    pub(crate) sealed: Option<Sealed>,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) hide_md5: bool,
}

impl OpenUpload {
    /// How its parts are encrypted; `None` if they are not.
    #[must_use]
    pub fn sealed(&self) -> Option<&Sealed> {
        self.sealed.as_ref()
    }

    /// Makes the part's ETag random, although an MD5 may be computed to compare it with the stated one.
    #[must_use]
    pub fn hiding_md5(mut self) -> OpenUpload {
        self.hide_md5 = true;
        self
    }
}

impl Inner {
    pub(crate) fn upload_registers(
        &self,
        bucket: &Bucket,
        key: &str,
        id: UploadId,
    ) -> Result<UploadRegisters> {
        let object = self.object_key(bucket, key)?;
        Ok(UploadRegisters::of(&self.backend, bucket.id, object.key(), id))
    }

    /// Reads an upload register.
    pub(crate) async fn read_upload(&self, registers: &UploadRegisters) -> Result<Option<Arc<Record>>> {
        self.backend.read_register(&registers.upload).await
    }

    /// Sets the state of an upload if `from` accepts the present one; returns whether it did. `moved`:
    /// another register names the data that this one no longer names.
    pub(crate) async fn set_upload(
        &self,
        registers: &UploadRegisters,
        moved: bool,
        mut to: impl FnMut(&Upload) -> Option<UploadState> + Send,
    ) -> Result<bool> {
        let done = self.update(&registers.upload, &[], |old| {
            let Some(upload) = upload_of(old) else { return Decision::Keep(false) };
            let Some(state) = to(upload) else { return Decision::Keep(false) };
            let next = Upload { state, ..upload.clone() };
            let summary = summary::of_upload(&next);
            Decision::Write { body: Body::Upload(Box::new(next)), summary, moved, out: true }
        });
        Ok(done.await?)
    }

    /// Makes the upload register a tombstone, unless `keep` forbids that.
    pub(crate) async fn forget_upload(
        &self,
        registers: &UploadRegisters,
        forget: impl Fn(&Upload) -> bool + Sync,
    ) -> Result<bool> {
        let done = self.update(&registers.upload, &[], |old| match upload_of(old) {
            Some(upload) if forget(upload) => Decision::Write {
                body: Body::Tombstone,
                summary: bytes::Bytes::new(),
                moved: false,
                out: true,
            },
            _ => Decision::Keep(false),
        });
        Ok(done.await?)
    }

    /// Drops the parts of an aborted upload and removes its register; returns how many parts there were.
    pub(crate) async fn drop_aborted(&self, registers: &UploadRegisters) -> Result<u64> {
        let parts = self.clear_parts(registers, None).await?;
        self.free_key(registers).await?;
        self.forget_upload(registers, |u| u.state == UploadState::Aborted).await?;
        Ok(parts)
    }

    /// Makes all part registers of an upload tombstones. Data that `version` names now belongs to it; all
    /// other data is dropped. Returns how many there were.
    pub(crate) async fn clear_parts(
        &self,
        registers: &UploadRegisters,
        version: Option<&Version>,
    ) -> Result<u64> {
        let bucket = registers.object.bucket();
        let kept: ashlar_environment::HashSet<ashlar_format::WriteId> =
            version.iter().flat_map(|v| v.parts.iter()).map(|p| p.data.write_id).collect();
        let mut cleared = 0;
        let mut from = registers.stem.clone();
        loop {
            let page =
                self.backend.list(Space::Part, bucket, &registers.stem, &from, crate::MAX_PAGE).await?;
            let group = registers.object.group();
            let keys: Vec<RegisterKey> = page
                .entries
                .iter()
                .filter(|(k, _)| k.len() == registers.stem.len() + 2)
                .map(|(k, _)| RegisterKey::new(group, Space::Part, bucket, k))
                .collect();
            let mut work = futures::stream::iter(keys)
                .map(|key| self.clear_part(key, &kept))
                .buffer_unordered(CONCURRENCY);
            while let Some(done) = work.next().await {
                cleared += u64::from(done?);
            }
            match page.entries.last() {
                Some((last, _)) if page.truncated => {
                    from = last.to_vec();
                    from.push(0);
                }
                _ => return Ok(cleared),
            }
        }
    }

    async fn clear_part(
        &self,
        key: RegisterKey,
        kept: &ashlar_environment::HashSet<ashlar_format::WriteId>,
    ) -> Result<bool> {
        // The number of a part is at the end of its key.
        let number = key.key().last_chunk::<2>().map_or(0, |n| u16::from_be_bytes(*n));
        let began = self.usage.begin_part(key.bucket());
        let done = self.update(&key, &[], |old| match old {
            Some(r) if r.body != Body::Tombstone => {
                let (moved, rest): (Vec<Data>, Vec<Data>) =
                    r.data().map(|p| p.data).partition(|d| kept.contains(&d.write_id));
                Decision::Write {
                    body: Body::Tombstone,
                    summary: bytes::Bytes::new(),
                    moved: !moved.is_empty(),
                    out: Some((part_size(&r.body, number).unwrap_or(0), (!moved.is_empty()).then_some(rest))),
                }
            }
            _ => Decision::Keep(None),
        });
        let gone = done.await?;
        if let Some((bytes, rest)) = &gone {
            self.backend.discard(key.group(), rest.as_deref().unwrap_or_default());
            let bytes = *bytes;
            let less = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_neg();
            self.usage.note_part(key.bucket(), key.key(), less, began);
        }
        Ok(gone.is_some())
    }
}

impl Store {
    /// Creates an upload.
    ///
    /// # Errors
    /// `NoSuchBucket`, `KeyTooLong`, `InvalidRequest` (a checksum type that the algorithm cannot
    /// have), `InvalidArgument` (a key with a zero byte), `Unavailable`.
    pub fn create_upload<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        spec: UploadSpec,
    ) -> BoxFuture<'a, Result<UploadId>> {
        Box::pin(async move {
            let _pass = bucket.handle().gate.enter().await?;
            // The zero byte separates the parts of the names of upload registers.
            if key.len() <= MAX_KEY && key.contains('\0') {
                return Err(Error::InvalidArgument("keys of multipart uploads may not contain a zero byte"));
            }
            match spec.checksum {
                Some((a, false)) if !a.is_crc() => {
                    return Err(Error::InvalidRequest("only CRCs can be of the full object"));
                }
                Some((Algorithm::Crc64Nvme, true)) => {
                    return Err(Error::InvalidRequest("CRC64NVME is always of the full object"));
                }
                _ => {}
            }
            let now_ms = self.inner.now_ms();
            let id = UploadId(fresh_id(now_ms)?);
            let registers = self.inner.upload_registers(bucket, key, id)?;
            let mut meta = VersionSpec::stored_meta(spec.version.meta);
            if let Some((cipher, envelope)) = spec.seal {
                seal::check_envelope(&envelope)?;
                seal::set(&mut meta, &Sealed { cipher, envelope, hiding: Hiding::Nothing });
            }
            let template = Version {
                meta,
                tags: spec.version.tags,
                acl: spec.version.acl,
                retention: spec.version.retention,
                legal_hold: spec.version.legal_hold,
                ..Version::default()
            };
            let upload = Upload {
                created_ms: now_ms,
                state: UploadState::Open(0),
                template,
                checksum_algorithm: spec.checksum.map_or(0, |(a, _)| algorithm_number(a)),
                checksum_composite: spec.checksum.is_some_and(|(_, composite)| composite),
            };
            let summary = summary::of_upload(&upload);
            self.inner.make(&registers.upload, None, &Body::Upload(Box::new(upload)), &summary).await?;
            Ok(id)
        })
    }

    /// Finds an upload that accepts parts.
    ///
    /// # Errors
    /// `NoSuchBucket`, `NoSuchUpload`, `Unavailable`.
    pub fn find_upload<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        id: UploadId,
    ) -> BoxFuture<'a, Result<OpenUpload>> {
        Box::pin(async move {
            let registers = self.inner.upload_registers(bucket, key, id)?;
            let record = self.inner.read_upload(&registers).await?;
            let upload = held_keys::client_upload(upload_of(record.as_deref()));
            let Some(upload) = upload.filter(|u| matches!(u.state, UploadState::Open(_))) else {
                return Err(Error::NoSuchUpload);
            };
            let sealed = Sealed::of(&upload.template.meta)?;
            let algorithm = number_algorithm(upload.checksum_algorithm);
            let (inner, handle) = (self.inner.clone(), bucket.handle().clone());
            Ok(OpenUpload { inner, handle, registers, sealed, algorithm, hide_md5: false })
        })
    }

    /// Aborts an upload and drops its parts.
    ///
    /// # Errors
    /// `NoSuchUpload` (also when it was completed), `Unavailable`.
    pub fn abort_upload<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        id: UploadId,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let registers = self.inner.upload_registers(bucket, key, id)?;
            let _pass = bucket.handle().gate.enter().await?;
            let lock = self.inner.upload_lock(id);
            let _turn = lock.lock().await;
            let record = self.inner.read_upload(&registers).await?;
            held_keys::client_upload(upload_of(record.as_deref())).ok_or(Error::NoSuchUpload)?;
            self.inner.abort(&registers).await
        })
    }
}

impl Inner {
    /// Aborts an upload.
    pub(crate) async fn abort(&self, registers: &UploadRegisters) -> Result<()> {
        loop {
            let record = self.read_upload(registers).await?;
            let upload = upload_of(record.as_deref()).map(held_keys::protocol_state);
            match abort(upload.as_ref()) {
                Abort::Set => {
                    let open = |u: &Upload| {
                        matches!(abort(Some(&held_keys::protocol_state(u))), Abort::Set)
                            .then_some(UploadState::Aborted)
                    };
                    if self.set_upload(registers, false, open).await? {
                        // It is aborted, whatever becomes of its parts now: the collector finds them.
                        if let Err(e) = self.drop_aborted(registers).await {
                            tracing::debug!("the parts of an aborted upload stay for now: {e}");
                        }
                        return Ok(());
                    }
                }
                Abort::RollForward(v) => {
                    self.roll_forward(registers, v).await?;
                    return Err(Error::NoSuchUpload);
                }
                Abort::Again => {
                    self.drop_aborted(registers).await?;
                    return Err(Error::NoSuchUpload);
                }
                Abort::NoSuchUpload => return Err(Error::NoSuchUpload),
            }
        }
    }
}
