//! Reads a version.
//!
//! Must not depend on: HTTP.

use futures::future::BoxFuture;
use std::ops::Range;
use std::sync::Arc;

use ashlar_erasure_set::{BodyRange, Prefetched};
use ashlar_format::{Ballot, Part, Record, RegisterKey, Version, VersionId};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::backend::Reader;
use crate::bucket::Versioning;
use crate::held_keys;
use crate::marks;
use crate::paged;
use crate::registry::OpenBucket;
use crate::seal::{self, ContentKey, Sealed};
use crate::sealing::{Unsealing, stored_range};
use crate::store::Inner;
use crate::types::ETag;
use crate::versions;
use crate::{Error, Result, Store};

/// A version of a key that was found; its data is not read yet.
pub struct Object {
    inner: Arc<Inner>,
    pub(crate) key: RegisterKey,
    record: Arc<Record>,
    ballot: Ballot,
    index: usize,
    /// Only if the record contains something that clients never see.
    cleaned: Option<Box<Version>>,
    /// How it is encrypted.
    sealed: Option<Box<Sealed>>,
    versioning: Versioning,
    bucket: OpenBucket,
    /// Shards that came with the record, until the body is read.
    came: Mutex<Prefetched>,
}

/// Chooses by the size of a version the range that its reader will want; `None`: nothing. The version that is found may be
/// another one.
pub type WantedRange<'a> = &'a (dyn Fn(u64) -> Option<Range<u64>> + Send + Sync);

/// The bytes of a range of an object, in pieces.
pub struct ObjectBody {
    inner: Arc<Inner>,
    key: RegisterKey,
    record: Arc<Record>,
    index: usize,
    /// The part that is open, or that is opened next.
    part: usize,
    reader: Option<Reader>,
    remaining: u64,
    /// For an encrypted version.
    unseal: Option<Box<Unseal>>,
    /// Shards that came with the record, for the first part.
    came: Prefetched,
}

/// Opens the parts of an encrypted version; the part that is open.
struct Unseal {
    key: ContentKey,
    sealed: Sealed,
    part: Option<Unsealing>,
    /// Whether the drives have checked the bytes of the open part.
    checked: bool,
}

impl Store {
    /// Finds a version: the current one, or the one named. Reads no data.
    ///
    /// # Errors
    /// `NoSuchBucket`, `NoSuchKey`, `NoSuchVersion`, `DeleteMarker`, `Unavailable`, `KeyTooLong`.
    pub fn get<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
    ) -> BoxFuture<'a, Result<Object>> {
        Box::pin(async move { self.find(bucket, key, version, None).await })
    }

    /// Like [`Store::get`], for a caller that will read what `wanted` chooses: if its first bytes lie in a small body, they may
    /// come from other nodes with the record, in one round trip.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub fn get_to_read<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
        wanted: WantedRange<'a>,
    ) -> BoxFuture<'a, Result<Object>> {
        Box::pin(async move { self.find(bucket, key, version, Some(wanted)).await })
    }

    fn find<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
        wanted: Option<WantedRange<'a>>,
    ) -> BoxFuture<'a, Result<Object>> {
        Box::pin(async move {
            let key = self.inner.object_key(bucket, key)?;
            let backend = &self.inner.backend;
            let choose = |record: &Record| first_range(record, version, wanted?);
            let choice = wanted.is_some().then_some(&choose as ashlar_erasure_set::Choice<'_>);
            let held_keys::Found { record, ballot, came } = held_keys::find(backend, &key, choice).await?;
            let record = paged::with(backend, &key, record, version).await?;
            let list = versions::of(record.as_ref().map(|r| &r.body));
            let index = find(list, version)?;
            let sealed = Sealed::of(&list[index].meta)?;
            let cleaned = match &sealed {
                Some(sealed) => Some(Box::new(seal::shown(&list[index], sealed, None))),
                None => marks::shown(&list[index]).map(Box::new),
            };
            let sealed = sealed.map(Box::new);
            // `find` succeeded, so there is a record.
            let record = record.ok_or(Error::NoSuchKey { delete_marker: None })?;
            let versioning = bucket.versioning;
            let (inner, bucket, came) = (self.inner.clone(), bucket.clone(), Mutex::new(came));
            Ok(Object { inner, key, record, ballot, index, cleaned, sealed, versioning, bucket, came })
        })
    }
}

/// The index of a version that has data, by the rules of S3.
pub(crate) fn find(list: &[Version], version: Option<VersionId>) -> Result<usize> {
    match version {
        None => match list.first() {
            Some(v) if !v.delete_marker => Ok(0),
            v => Err(Error::NoSuchKey { delete_marker: v.map(|v| v.id) }),
        },
        Some(id) => {
            let index = list.iter().position(|v| v.id == id).ok_or(Error::NoSuchVersion)?;
            let v = &list[index];
            if v.delete_marker {
                return Err(Error::DeleteMarker { version_id: id, modified_ms: v.modified_ms });
            }
            Ok(index)
        }
    }
}

/// The stored bytes that a reader of `wanted` begins with: of the first part that it overlaps.
fn first_range(record: &Record, version: Option<VersionId>, wanted: WantedRange<'_>) -> Option<BodyRange> {
    let list = versions::of(Some(&record.body));
    let v = &list[find(list, version).ok()?];
    let is_sealed = Sealed::of(&v.meta).ok()?.is_some();
    let range = wanted(v.size)?;
    let mut skip = range.start;
    for &Part { size, data, .. } in &v.parts {
        let plain = if is_sealed { seal::plain_len(size) } else { size };
        if skip < plain {
            let of_part = skip..plain.min(skip + range.end.saturating_sub(range.start));
            let range = if is_sealed { stored_range(&of_part, plain) } else { of_part };
            return Some(BodyRange { data, size, range });
        }
        skip -= plain;
    }
    None
}

fn stored_version(record: &Record, index: usize) -> &Version {
    &versions::of(Some(&record.body))[index]
}

impl Object {
    /// The version, including metadata, tags and parts. Its `meta` may be shown to clients.
    #[must_use]
    pub fn version(&self) -> &Version {
        match &self.cleaned {
            Some(v) => v,
            None => stored_version(&self.record, self.index),
        }
    }

    /// The bucket in which it was found.
    #[must_use]
    pub fn bucket(&self) -> &OpenBucket {
        &self.bucket
    }

    /// The version as it is stored.
    pub(crate) fn stored(&self) -> &Version {
        stored_version(&self.record, self.index)
    }

    /// The ballot under which the state of the key was chosen in which it was found; zero if it is not known.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// How it is encrypted; `None` if it is not.
    #[must_use]
    pub fn sealed(&self) -> Option<&Sealed> {
        self.sealed.as_deref()
    }

    /// Shows the checksum of an encrypted version, which needs the key. The key itself is verified when bytes
    /// are read.
    pub fn unlock(&mut self, key: &ContentKey) {
        if let Some(sealed) = &self.sealed {
            self.cleaned = Some(Box::new(seal::shown(self.stored(), sealed, Some(key))));
        }
    }

    /// Whether it is the current version.
    #[must_use]
    pub fn is_latest(&self) -> bool {
        self.index == 0
    }

    /// The version id to show: `None` in a bucket that never had versioning.
    #[must_use]
    pub fn version_id(&self) -> Option<VersionId> {
        versions::shown(self.versioning, self.version().id)
    }

    /// The entity tag.
    #[must_use]
    pub fn etag(&self) -> ETag {
        versions::etag(self.version())
    }

    /// Bytes of the object.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.version().size
    }

    /// The byte range of part `number` (`?partNumber=`), counted from 1; a simple object is its own
    /// part 1. `None`: 416.
    #[must_use]
    pub fn part_range(&self, number: u16) -> Option<Range<u64>> {
        let v = self.version();
        let at = usize::from(number.checked_sub(1)?);
        if v.parts.is_empty() {
            return (at == 0).then_some(0..0);
        }
        let start: u64 = v.parts.get(..at)?.iter().map(|p| p.size).sum();
        v.parts.get(at).map(|p| start..start + p.size)
    }

    /// Opens `range` (within the size) for reading. From then on the bytes stay readable even if the version
    /// is replaced (each part of a multipart object from the time when it is reached).
    ///
    /// # Errors
    /// `Changed`: the version was replaced or deleted since it was found; find it again. `Corrupt`,
    /// `Unavailable`.
    ///
    /// # Panics
    /// If the range is not within the object.
    pub fn read(&self, range: Range<u64>) -> BoxFuture<'_, Result<ObjectBody>> {
        Box::pin(async move { self.read_with(range, None).await })
    }

    /// Like [`Object::read`], with the key of an encrypted version.
    ///
    /// # Errors
    /// Those of [`Object::read`], and `KeyNeeded`. With another key than that of the version, reading bytes
    /// gives `Corrupt`: the caller must check keys before.
    ///
    /// # Panics
    /// As [`Object::read`].
    pub fn read_with<'a>(
        &'a self,
        range: Range<u64>,
        key: Option<&'a ContentKey>,
    ) -> BoxFuture<'a, Result<ObjectBody>> {
        Box::pin(async move {
            let unseal = match (self.sealed.as_deref(), key) {
                (None, _) => None,
                (Some(_), None) => return Err(Error::KeyNeeded),
                (Some(sealed), Some(key)) => Some(Box::new(Unseal {
                    key: key.clone(),
                    sealed: sealed.clone(),
                    part: None,
                    checked: false,
                })),
            };
            let v = self.version();
            assert!(range.start <= range.end && range.end <= v.size, "{range:?} of {} bytes", v.size);
            let mut body = ObjectBody {
                inner: self.inner.clone(),
                key: self.key.clone(),
                record: self.record.clone(),
                index: self.index,
                part: 0,
                reader: None,
                remaining: range.end - range.start,
                unseal,
                came: std::mem::take(&mut *self.came.lock()),
            };
            let mut skip = range.start;
            while let Some(p) = v.parts.get(body.part).filter(|p| skip >= p.size) {
                skip -= p.size;
                body.part += 1;
            }
            if body.remaining > 0 {
                body.open(skip).await?;
            }
            Ok(body)
        })
    }
}

impl ObjectBody {
    /// Number of bytes not returned yet.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Whether slow clients hold so many answer bytes that bodies should be returned in small pieces.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.inner.backend.is_crowded()
    }

    /// Opens the next part from byte `from` on.
    async fn open(&mut self, from: u64) -> Result<()> {
        let parts = &stored_version(&self.record, self.index).parts;
        let Some(&Part { size, data, number, ref checksum, .. }) = parts.get(self.part) else {
            return Err(Error::Corrupt("the parts are shorter than the object".to_owned()));
        };
        let mut range = from..size.min(from + self.remaining);
        if let Some(Unseal { key, sealed, part, checked }) = self.unseal.as_deref_mut() {
            let nonce = seal::split(checksum.as_ref()).0;
            let nonce = nonce.ok_or_else(|| Error::Corrupt("an encrypted part has no nonce".to_owned()))?;
            let plain = seal::plain_len(size);
            range.end = plain.min(from + self.remaining);
            *part = Some(Unsealing::new(key, sealed, &nonce, number, plain, &range));
            *checked = false;
            range = stored_range(&range, plain);
        }
        let came = std::mem::take(&mut self.came);
        let mut reader = self.inner.backend.read_prefetched(&self.key, &data, size, range, came).await?;
        if self.unseal.is_some() {
            reader.uncheck();
        }
        self.reader = Some(reader);
        self.part += 1;
        Ok(())
    }

    /// Reads the rest of the open part again, checked by the drives, because a package did not open: that
    /// finds damage and repairs it. `None`: the bytes were already checked.
    async fn again(&mut self) -> Option<Result<Reader>> {
        let unseal = self.unseal.as_deref_mut().filter(|u| !u.checked)?;
        unseal.checked = true;
        let left = unseal.part.as_ref()?.left();
        let part = stored_version(&self.record, self.index).parts.get(self.part.checked_sub(1)?)?;
        Some(self.inner.backend.read(&self.key, &part.data, part.size, left).await)
    }

    /// The next piece; `None` after the last. After an error there are no more.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        self.boxed_next().await
    }

    fn boxed_next(&mut self) -> BoxFuture<'_, Option<Result<Bytes>>> {
        Box::pin(async move {
            while self.remaining > 0 {
                if let Some(reader) = &mut self.reader {
                    let next = match self.unseal.as_deref_mut().and_then(|u| u.part.as_mut()) {
                        None => reader.next().await,
                        Some(part) => {
                            let backend = &self.inner.backend;
                            part.next(reader, backend.pool(), backend.is_crowded()).await
                        }
                    };
                    match next {
                        Some(Ok(piece)) => {
                            // More bytes than requested would belong to another object.
                            self.remaining = match self.remaining.checked_sub(piece.len() as u64) {
                                Some(rest) => rest,
                                None => return Some(self.fail(Error::Internal("too many bytes".to_owned()))),
                            };
                            return Some(Ok(piece));
                        }
                        Some(Err(Error::Corrupt(what))) => match self.again().await {
                            Some(Ok(reader)) => {
                                self.reader = Some(reader);
                                continue;
                            }
                            Some(Err(e)) => return Some(self.fail(e)),
                            None => return Some(self.fail(Error::Corrupt(what))),
                        },
                        Some(Err(e)) => return Some(self.fail(e)),
                        None => self.reader = None,
                    }
                }
                if self.remaining > 0
                    && let Err(e) = self.open(0).await
                {
                    return Some(self.fail(e));
                }
            }
            None
        })
    }

    fn fail(&mut self, e: Error) -> Result<Bytes> {
        self.remaining = 0;
        self.reader = None;
        Err(e)
    }
}
