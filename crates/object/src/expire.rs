//! Operations for lifecycle rules: a fast scan of a bucket, and removal of versions that are due.
//!
//! Invariants: a removal was decided on exactly the list that is replaced; locked versions stay and are
//! skipped instead of failing the rest; a scan of a bucket reads no record.
//!
//! Must not depend on: rules.

use ashlar_environment::HashSet;
use ashlar_format::{Record, RegisterKey, Space, Version, VersionId};
use bytes::Bytes;
use futures::future::BoxFuture;

use crate::bucket::Versioning;
use crate::held_keys;
use crate::lock::is_locked;
use crate::paged;
use crate::registry::{BucketHandle, OpenBucket};
use crate::store::ChangeContext;
use crate::summary;
use crate::versions;
use crate::{Bucket, Error, Result, Store};

/// Most versions that one change of a list with pages removes.
const MAX_REMOVED: usize = 1000;
/// Times that another change of such a list may come between.
const TRIES: u32 = 16;
/// Most keys of one page of a scan.
pub const MAX_SCAN: usize = 5000;

/// What the index has about a key, without its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedKey {
    /// The key.
    pub key: String,
    /// Bytes of the current version.
    pub size: u64,
    /// When the current version was made.
    pub modified_ms: i64,
    /// The current version is a delete marker.
    pub delete_marker: bool,
    /// Whether it is the only version; false also if that is unknown.
    pub alone: bool,
}

/// The versions of a key, newest first.
pub struct KeyVersions<'a> {
    /// As they are in the record.
    pub versions: &'a [Version],
    /// For each version, whether a lock keeps it.
    pub locked: &'a [bool],
    /// Expiring the current version keeps all data, below a delete marker.
    pub keeps_data: bool,
}

/// The versions to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToExpire {
    /// The current version expires, like by a delete without a version id.
    pub current: bool,
    /// These versions are removed, by index.
    pub versions: Vec<usize>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Current versions that expired.
    pub current: u64,
    /// Noncurrent versions removed.
    pub versions: u64,
    /// Delete markers removed.
    pub markers: u64,
    /// Versions that stayed because they are locked.
    pub locked: u64,
}

impl Expired {
    fn add(&mut self, other: Expired) {
        self.current += other.current;
        self.versions += other.versions;
        self.markers += other.markers;
        self.locked += other.locked;
    }
}

/// What one change of a list with pages removes.
struct Removal {
    current: bool,
    ids: Vec<VersionId>,
    /// More was chosen than this.
    more: bool,
}

impl Removal {
    /// The oldest of what was chosen, and the current version. `one`: one of them, the current version last.
    fn of(list: &[Version], chosen: ToExpire, one: bool) -> Removal {
        let ToExpire { current, mut versions } = chosen;
        versions.sort_unstable_by_key(|i| std::cmp::Reverse(*i));
        let most = if one { 1 } else { MAX_REMOVED };
        let ids: Vec<VersionId> =
            versions.iter().take(most).filter_map(|i| list.get(*i)).map(|v| v.id).collect();
        let now = current && (!one || ids.is_empty());
        let more = versions.len() > ids.len() || current && !now;
        Removal { current: now, ids, more }
    }
}

impl Store {
    /// The keys with `prefix` after `after` (empty: from the first), in order, at most `limit`
    /// (1..=[`MAX_SCAN`]), and the last key scanned if there are more after it. Reads no record.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub fn scan_index<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        prefix: &'a str,
        after: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<(Vec<ScannedKey>, Option<String>)>> {
        Box::pin(async move {
            let mut from = after.as_bytes().to_vec();
            if !after.is_empty() {
                from.push(0);
            }
            let from = from.max(prefix.as_bytes().to_vec());
            let limit = limit.clamp(1, MAX_SCAN);
            let page = held_keys::list(
                &self.inner.backend,
                Space::Object,
                bucket.id,
                prefix.as_bytes(),
                &from,
                limit,
            )
            .await?;
            let text = |key: &Bytes| String::from_utf8_lossy(key).into_owned();
            let next = page.entries.last().filter(|_| page.truncated).map(|(key, _)| text(key));
            let keys = page.entries.iter().filter_map(|(key, summary)| {
                let (s, alone) = summary::scanned(summary)?;
                let (size, modified_ms, delete_marker) = (s.size, s.modified_ms, s.delete_marker);
                Some(ScannedKey { key: text(key), size, modified_ms, delete_marker, alone })
            });
            Ok((keys.collect(), next))
        })
    }

    /// Passes the versions of a key to a function. An absent key has none.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub async fn inspect<R>(
        &self,
        bucket: &OpenBucket,
        key: &str,
        f: impl FnOnce(&KeyVersions<'_>) -> R,
    ) -> Result<R> {
        let register = self.inner.object_key(bucket, key)?;
        let (_, list) = paged::all(&self.inner.backend, &register).await?;
        Ok(self.show(&list, bucket, f))
    }

    fn show<R>(&self, list: &[Version], bucket: &Bucket, f: impl FnOnce(&KeyVersions<'_>) -> R) -> R {
        let now = self.inner.lock_time.now_ms();
        let locked: smallvec::SmallVec<[bool; 8]> = list.iter().map(|v| is_locked(v, now)).collect();
        let null = |v: &Version| v.id == VersionId::ZERO;
        let keeps_data = match bucket.versioning {
            Versioning::Off => false,
            Versioning::Enabled => true,
            // The marker replaces the null version.
            Versioning::Suspended => !list.iter().any(null),
        };
        f(&KeyVersions { versions: list, locked: &locked, keeps_data })
    }

    /// Removes the versions of a key that `decide` chooses. `decide` is called once for a list that was just
    /// read, and, if it chooses any, again for the list that is replaced. Locked versions stay.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Conflict`, `Busy`, `Unavailable`.
    pub async fn expire(
        &self,
        bucket: &OpenBucket,
        key: &str,
        mut decide: impl FnMut(&KeyVersions<'_>) -> ToExpire + Send,
    ) -> Result<Expired> {
        let handle = bucket.handle();
        let register = self.inner.object_key(bucket, key)?;
        let mut total = Expired::default();
        let mut changed = 0;
        // Bounded: each iteration but the last removes a version or covers the current one.
        loop {
            let bucket = handle.bucket();
            let (record, list) = paged::all(&self.inner.backend, &register).await?;
            if list.is_empty() {
                return Ok(total);
            }
            let chosen = self.show(&list, &bucket, &mut decide);
            if chosen == ToExpire::default() {
                return Ok(total);
            }
            // Followers of the bucket's changes get one version per change.
            let followed = self.inner.feed.wants(&bucket);
            let with_pages = record.filter(|r| r.body.below().is_some());
            if let Some(record) = with_pages {
                let removal = Removal::of(&list, chosen, followed);
                drop(list);
                let expired = match self.expire_chosen(handle, &register, &record, &removal).await {
                    // It was decided on another list.
                    Err(Error::Changed) if changed < TRIES => {
                        changed += 1;
                        continue;
                    }
                    Err(Error::Changed) => return Err(Error::Busy),
                    done => done?,
                };
                total.add(expired);
                if removal.more && expired.current + expired.versions + expired.markers > 0 {
                    continue;
                }
                return Ok(total);
            }
            let oldest = chosen.versions.iter().max().and_then(|i| list.get(*i)).map(|v| v.id);
            let only = followed.then_some(oldest);
            let expired = self.expire_now(handle, &register, only, &mut decide).await?;
            total.add(expired);
            if !followed || expired.current + expired.versions + expired.markers == 0 {
                return Ok(total);
            }
        }
    }

    /// One change of a list with pages: removes what was chosen from exactly this list.
    async fn expire_chosen(
        &self,
        handle: &BucketHandle,
        register: &RegisterKey,
        record: &Record,
        removal: &Removal,
    ) -> Result<Expired> {
        let now_ms = self.inner.now_ms();
        let Removal { ids, current, .. } = removal;
        let wanted: HashSet<VersionId> = ids.iter().copied().collect();
        let choose = |list: &[Version], bucket: &Bucket| {
            let places = list.iter().enumerate().filter(|(_, v)| wanted.contains(&v.id)).map(|(i, _)| i);
            let chosen = ToExpire { current: *current, versions: places.collect() };
            let locked = self.show(list, bucket, locked_of);
            without(list, bucket.versioning, &chosen, &locked, now_ms)
        };
        let (first, others) = match ids.as_slice() {
            [one] if !current => (Some(*one), &[][..]),
            others => (None, others),
        };
        let cause = self.cause.as_ref();
        let by = ChangeContext { version: first, others, only: Some(record), ..ChangeContext::cause(cause) };
        match self.inner.change(handle, register, None, false, by, choose).await {
            Err(Error::Locked) => Ok(Expired { locked: 1, ..Expired::default() }),
            done => done,
        }
    }

    /// One change. `only`: nothing but this version, or (`None` within) the current one.
    async fn expire_now(
        &self,
        handle: &BucketHandle,
        register: &RegisterKey,
        only: Option<Option<VersionId>>,
        mut decide: impl FnMut(&KeyVersions<'_>) -> ToExpire + Send,
    ) -> Result<Expired> {
        let now_ms = self.inner.now_ms();
        let choose = |list: &[Version], bucket: &Bucket| {
            let (mut chosen, locked) = self.show(list, bucket, |found| (decide(found), locked_of(found)));
            match only {
                None => {}
                Some(None) => chosen.versions.clear(),
                Some(Some(id)) => {
                    chosen.current = false;
                    chosen.versions.retain(|i| list.get(*i).is_some_and(|v| v.id == id));
                }
            }
            let (next, expired) = without(list, bucket.versioning, &chosen, &locked, now_ms)?;
            Ok((next, expired))
        };
        let by = ChangeContext { version: only.flatten(), ..ChangeContext::cause(self.cause.as_ref()) };
        let done = self.inner.change(handle, register, None, false, by, choose).await;
        match done {
            // Happens only if a marker would replace a locked null version.
            Err(Error::Locked) => Ok(Expired { locked: 1, ..Expired::default() }),
            done => done,
        }
    }
}

fn locked_of(found: &KeyVersions<'_>) -> Vec<bool> {
    // The data of the current version stays below a marker.
    let mut locked = found.locked.to_vec();
    if let (Some(first), true) = (locked.first_mut(), found.keeps_data) {
        *first = false;
    }
    locked
}

/// The list without the chosen versions that are not locked; `None`: unchanged.
fn without(
    list: &[Version],
    versioning: Versioning,
    chosen: &ToExpire,
    locked: &[bool],
    now_ms: i64,
) -> Result<(Option<Vec<Version>>, Expired)> {
    let mut expired = Expired::default();
    let mut rest = Vec::with_capacity(list.len() + 1);
    for (i, v) in list.iter().enumerate() {
        let current = i == 0 && !v.delete_marker && chosen.current;
        // A current version with data is removed only in the way a delete would remove it.
        let removed = chosen.versions.contains(&i) && (i > 0 || v.delete_marker);
        if (current || removed) && locked[i] {
            expired.locked += 1;
            rest.push(v.clone());
        } else if current {
            expired.current += 1;
            if versioning != Versioning::Off {
                rest.push(v.clone());
            }
        } else if removed {
            *(if v.delete_marker { &mut expired.markers } else { &mut expired.versions }) += 1;
        } else {
            rest.push(v.clone());
        }
    }
    if expired.current > 0 && versioning != Versioning::Off {
        let id = versions::new_id(versioning, now_ms)?;
        let marker = Version { id, delete_marker: true, modified_ms: now_ms, ..Version::default() };
        rest = versions::with(&rest, marker)?;
    }
    let changed = expired.current + expired.versions + expired.markers > 0;
    Ok((changed.then_some(rest), expired))
}
