//! Lists of keys, versions and uploads.
//!
//! Must not depend on: HTTP.

use futures::future::BoxFuture;
use std::sync::Arc;

use ashlar_checksum::Algorithm;
use ashlar_format::{BucketId, Record, RegisterKey, Space, Version, VersionId};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};

use crate::held_keys;
use crate::listing::{Item, Walk, group, start, walk};
use crate::paged::Older;
use crate::registry::OpenBucket;
use crate::store::Inner;
use crate::types::{ETag, UploadId, number_algorithm, storage_class};
use crate::upload_registers::split;
use crate::{Error, MAX_PAGE, Result, Store, summary, versions};

/// Records that a list of versions reads concurrently.
const CONCURRENCY: usize = 16;
/// Times that a list is looked at which changes all the time.
const MAX_READS: usize = 16;

/// Which keys to list. Limits above 1,000 count as 1,000; 0 gives an empty page that is not
/// truncated.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListSpec<'a> {
    /// Only keys that begin with this.
    pub prefix: &'a str,
    /// Keys that contain this after the prefix are grouped under a common prefix; empty for none.
    pub delimiter: &'a str,
    /// Only entries that sort after this: v1 marker, v2 start-after, or [`Listing::next`] of the previous
    /// page.
    pub start_after: &'a str,
    /// Most keys and common prefixes together.
    pub max_keys: usize,
}

/// A page of keys, in order of their UTF-8 bytes.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Current versions.
    pub entries: Vec<Entry>,
    /// Common prefixes, in order.
    pub common_prefixes: Vec<String>,
    /// Whether there are more entries.
    pub truncated: bool,
    /// When truncated: the `start_after` of the next page (the last key or common prefix shown).
    pub next: Option<String>,
}

/// One key of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// Entity tag.
    pub etag: ETag,
    /// Milliseconds since 1970.
    pub modified_ms: i64,
    /// Checksum algorithm, and whether it is composite.
    pub checksum: Option<(Algorithm, bool)>,
    /// Storage class as stored in the metadata (`x-amz-storage-class`), empty for STANDARD.
    pub storage_class: String,
    /// Canonical id of the owner; empty for the bucket's.
    pub owner: String,
}

/// Which versions to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct VersionListSpec<'a> {
    /// Only keys that begin with this.
    pub prefix: &'a str,
    /// As in [`ListSpec`].
    pub delimiter: &'a str,
    /// Begin after this key, or within it when `version_marker` is given.
    pub key_marker: &'a str,
    /// Begin after this version of `key_marker`. If it was removed in the meantime, versions of the key may
    /// be repeated rather than left out.
    pub version_marker: Option<VersionId>,
    /// Most versions and common prefixes together.
    pub max_keys: usize,
}

/// A page of versions: keys in order, of each key the newest version first.
#[derive(Clone, Debug, Default)]
pub struct VersionListing {
    /// Versions and delete markers.
    pub entries: Vec<VersionEntry>,
    /// Common prefixes, in order.
    pub common_prefixes: Vec<String>,
    /// Whether there are more entries.
    pub truncated: bool,
    /// When truncated: the `key_marker` of the next page.
    pub next_key: Option<String>,
    /// When truncated behind a version: the `version_marker` of the next page.
    pub next_version: Option<VersionId>,
}

/// One version or delete marker of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionEntry {
    /// What a plain list shows (all zero or empty for a delete marker, except key and time).
    pub entry: Entry,
    /// Its id; all zero is `null`.
    pub version_id: VersionId,
    /// Whether it is the current one.
    pub latest: bool,
    /// Whether it is a delete marker.
    pub delete_marker: bool,
}

/// Which uploads to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct UploadListSpec<'a> {
    /// Only keys that begin with this.
    pub prefix: &'a str,
    /// As in [`ListSpec`].
    pub delimiter: &'a str,
    /// Begin after this key, or within it when `upload_marker` is given.
    pub key_marker: &'a str,
    /// Begin after this upload of `key_marker`.
    pub upload_marker: Option<UploadId>,
    /// Most uploads and common prefixes together.
    pub max_uploads: usize,
}

/// A page of uploads in progress: keys in order, of each key the oldest upload first.
#[derive(Clone, Debug, Default)]
pub struct UploadListing {
    /// Uploads.
    pub uploads: Vec<UploadEntry>,
    /// Common prefixes, in order.
    pub common_prefixes: Vec<String>,
    /// Whether there are more entries.
    pub truncated: bool,
    /// When truncated: the `key_marker` of the next page.
    pub next_key: Option<String>,
    /// When truncated behind an upload: the `upload_marker` of the next page.
    pub next_upload: Option<UploadId>,
}

/// One upload of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadEntry {
    /// The key it will write.
    pub key: String,
    /// Its id.
    pub id: UploadId,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// Checksum algorithm, and whether it is composite.
    pub checksum: Option<(Algorithm, bool)>,
    /// Storage class as stored in the metadata (`x-amz-storage-class`), empty for STANDARD.
    pub storage_class: String,
}

impl Store {
    /// Lists current versions; delete markers hide their keys.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub fn list<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        spec: &'a ListSpec<'a>,
    ) -> BoxFuture<'a, Result<Listing>> {
        Box::pin(async move {
            let max = spec.max_keys.min(MAX_PAGE);
            if max == 0 {
                return Ok(Listing::default());
            }
            let pages = Walk {
                space: Space::Object,
                bucket: bucket.id,
                prefix: spec.prefix,
                delimiter: spec.delimiter,
                from: start(spec.prefix, spec.delimiter, spec.start_after),
                max,
            };
            let visible = |key: &Bytes, s: &Bytes| {
                let s = summary::version(s).filter(|s| !s.delete_marker)?;
                Some((key.len(), s))
            };
            let (items, truncated) = walk(&self.inner.backend, pages, visible).await?;
            let next = items.last().filter(|_| truncated).map(|i| match i {
                Item::Key(key, _) => text(key),
                Item::Prefix(p) => p.clone(),
            });
            let mut listing = Listing { truncated, next, ..Listing::default() };
            for item in items {
                match item {
                    Item::Prefix(p) => listing.common_prefixes.push(p),
                    Item::Key(key, s) => listing.entries.push(Entry {
                        key: text(&key),
                        size: s.size,
                        etag: s.etag,
                        modified_ms: s.modified_ms,
                        checksum: s.checksum,
                        storage_class: s.class,
                        owner: s.owner,
                    }),
                }
            }
            Ok(listing)
        })
    }

    /// Lists versions and delete markers.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub fn list_versions<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        spec: &'a VersionListSpec<'a>,
    ) -> BoxFuture<'a, Result<VersionListing>> {
        Box::pin(async move {
            let id = bucket.id;
            let mut page = VersionPage::new(spec.max_keys.min(MAX_PAGE));
            if page.max == 0 {
                return Ok(page.listing);
            }
            self.rest_of_key(id, spec, &mut page).await?;
            let mut from = start(spec.prefix, spec.delimiter, spec.key_marker);
            while !page.listing.truncated {
                let pages = Walk {
                    space: Space::Object,
                    bucket: id,
                    prefix: spec.prefix,
                    delimiter: spec.delimiter,
                    from,
                    max: page.max - page.shown + 1,
                };
                let every = |key: &Bytes, _: &Bytes| Some((key.len(), ()));
                let (items, truncated) = walk(&self.inner.backend, pages, every).await?;
                from = match items.last() {
                    Some(Item::Key(key, ())) => start(spec.prefix, spec.delimiter, &text(key)),
                    Some(Item::Prefix(p)) => start(spec.prefix, spec.delimiter, p),
                    None => break,
                };
                // Reads are at most `CONCURRENCY` ahead of the page.
                let read = items.into_iter().map(|item| async {
                    match item {
                        Item::Prefix(p) => crate::Result::Ok((p, None)),
                        Item::Key(key, ()) => {
                            let record = self.inner.read_object(&self.inner.register(id, &key)).await?;
                            Ok((text(&key), Some((key, record))))
                        }
                    }
                });
                let mut read = futures::stream::iter(read).buffered(CONCURRENCY);
                while let Some((name, record)) = read.try_next().await? {
                    let full = match record {
                        None => page.push_prefix(name),
                        Some((key, record)) => {
                            let register = self.inner.register(id, &key);
                            self.push_all(&mut page, &name, &register, record, None).await?
                        }
                    };
                    if full {
                        break;
                    }
                }
                if !truncated {
                    break;
                }
            }
            Ok(page.listing)
        })
    }

    /// The versions of `key_marker` that come after `version_marker`.
    async fn rest_of_key(
        &self,
        bucket: BucketId,
        spec: &VersionListSpec<'_>,
        page: &mut VersionPage,
    ) -> Result<()> {
        let key = spec.key_marker;
        let Some(marker) = spec.version_marker else { return Ok(()) };
        if key.is_empty()
            || !key.starts_with(spec.prefix)
            || group(key.as_bytes(), spec.prefix.len(), spec.delimiter).is_some()
        {
            return Ok(());
        }
        let register = self.inner.register(bucket, key.as_bytes());
        let record = self.inner.read_object(&register).await?;
        self.push_all(page, key, &register, record, Some(marker)).await?;
        Ok(())
    }

    /// Shows the versions of a key behind the one named, those in pages as far as there is room for them.
    /// True: the page was full before.
    async fn push_all(
        &self,
        page: &mut VersionPage,
        name: &str,
        key: &RegisterKey,
        mut record: Option<Arc<Record>>,
        mut after: Option<VersionId>,
    ) -> Result<bool> {
        let backend = &self.inner.backend;
        for _ in 0..MAX_READS {
            let list = versions::of(record.as_ref().map(|r| &r.body));
            let below = record.as_ref().and_then(|r| r.body.below());
            let mut older = below.map(|b| Older::of(backend, key, b));
            // Gone meanwhile: nothing tells where it stood (times order nothing: a clock may have been
            // behind), so all are shown again rather than an older one left out.
            let at = after.and_then(|id| list.iter().position(|v| v.id == id));
            let mut skip = at.map_or(0, |at| at + 1);
            let shown = async {
                if let (Some(id), None, Some(older)) = (after, at, &mut older)
                    && older.skip_to(id).await?
                {
                    skip = list.len();
                }
                if page.push_versions(name, list, skip, true) {
                    return Ok(true);
                }
                while let Some(older) = &mut older
                    && page.shown < page.max
                    && let Some(leaf) = older.next().await?
                {
                    for e in leaf.iter() {
                        if page.push_versions(name, std::slice::from_ref(&e.version), 0, false) {
                            return Ok(true);
                        }
                    }
                }
                // A full page tells of what follows, if anything does.
                match &mut older {
                    Some(older) if page.shown >= page.max => Ok(older.next().await?.is_some() && page.full()),
                    _ => Ok(false),
                }
            };
            match shown.await {
                Err(Error::Changed) => {
                    after =
                        page.listing.next_version.filter(|_| page.listing.next_key.as_deref() == Some(name));
                    record = self.inner.read_object(key).await?;
                }
                done => return done,
            }
        }
        Err(Error::Busy)
    }

    /// Lists uploads that are in progress.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub fn list_uploads<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        spec: &'a UploadListSpec<'a>,
    ) -> BoxFuture<'a, Result<UploadListing>> {
        Box::pin(async move {
            let max = spec.max_uploads.min(MAX_PAGE);
            if max == 0 {
                return Ok(UploadListing::default());
            }
            let pages = Walk {
                space: Space::Upload,
                bucket: bucket.id,
                prefix: spec.prefix,
                delimiter: spec.delimiter,
                from: upload_start(spec),
                max,
            };
            let visible = |stem: &Bytes, s: &Bytes| {
                let (key, id) = split(stem)?;
                let s = summary::upload(s).filter(|s| s.state <= 1)?;
                Some((key.len(), (id, s)))
            };
            let (items, truncated) = walk(&self.inner.backend, pages, visible).await?;
            let mut listing = UploadListing { truncated, ..UploadListing::default() };
            for item in items {
                match item {
                    Item::Prefix(p) => {
                        listing.next_key = Some(p.clone());
                        listing.next_upload = None;
                        listing.common_prefixes.push(p);
                    }
                    Item::Key(stem, (id, s)) => {
                        let key = text(&stem[..stem.len() - 17]);
                        listing.next_key = Some(key.clone());
                        listing.next_upload = Some(id);
                        listing.uploads.push(UploadEntry {
                            key,
                            id,
                            created_ms: s.created_ms,
                            checksum: s.checksum,
                            storage_class: s.class,
                        });
                    }
                }
            }
            if !truncated {
                listing.next_key = None;
                listing.next_upload = None;
            }
            Ok(listing)
        })
    }
}

/// The start of a list of uploads, in the bytes of upload registers.
fn upload_start(spec: &UploadListSpec<'_>) -> Vec<u8> {
    let key = spec.key_marker;
    let from = start(spec.prefix, spec.delimiter, key);
    if key.is_empty() || from.last() == Some(&0xff) {
        return from;
    }
    let mut after = key.as_bytes().to_vec();
    after.push(0);
    match spec.upload_marker {
        Some(id) => {
            after.extend_from_slice(&id.0);
            after.push(0);
        }
        // After every upload of the key itself.
        None => after.extend_from_slice(&[0xff; 17]),
    }
    after.max(spec.prefix.as_bytes().to_vec())
}

/// Keys are always written as UTF-8.
fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

impl Inner {
    fn register(&self, bucket: BucketId, key: &[u8]) -> RegisterKey {
        RegisterKey::new(self.backend.group_of(bucket, key), Space::Object, bucket, key)
    }

    async fn read_object(&self, key: &RegisterKey) -> Result<Option<Arc<Record>>> {
        held_keys::read(&self.backend, key).await
    }
}

/// A page of versions being filled.
struct VersionPage {
    max: usize,
    shown: usize,
    listing: VersionListing,
}

impl VersionPage {
    fn new(max: usize) -> VersionPage {
        VersionPage { max, shown: 0, listing: VersionListing::default() }
    }

    /// Whether the page was full already; then it is marked as truncated.
    fn full(&mut self) -> bool {
        if self.shown < self.max {
            self.shown += 1;
            return false;
        }
        self.listing.truncated = true;
        true
    }

    /// Records the last shown item, unless the page is full.
    fn push_prefix(&mut self, prefix: String) -> bool {
        if self.full() {
            return true;
        }
        self.listing.next_key = Some(prefix.clone());
        self.listing.next_version = None;
        self.listing.common_prefixes.push(prefix);
        false
    }

    /// `newest`: the first of them is the current one.
    fn push_versions(&mut self, key: &str, list: &[Version], skip: usize, newest: bool) -> bool {
        for (i, v) in list.iter().enumerate().skip(skip) {
            if self.full() {
                return true;
            }
            self.listing.next_key = Some(key.to_owned());
            self.listing.next_version = Some(v.id);
            self.listing.entries.push(VersionEntry {
                entry: entry(key, v),
                version_id: v.id,
                latest: newest && i == 0,
                delete_marker: v.delete_marker,
            });
        }
        false
    }
}

fn entry(key: &str, v: &Version) -> Entry {
    Entry {
        key: key.to_owned(),
        size: v.size,
        etag: versions::etag(v),
        modified_ms: v.modified_ms,
        checksum: v.checksum.as_ref().and_then(|c| number_algorithm(c.algorithm).map(|a| (a, c.composite))),
        storage_class: storage_class(&v.meta).to_owned(),
        owner: summary::owner(v).to_owned(),
    }
}
