//! Operations for lifecycle rules: a fast scan of a bucket, and removal of versions that are due.
//!
//! Invariants: a removal was decided on exactly the list that is replaced; locked versions stay and are
//! skipped instead of failing the rest; a scan of a bucket reads no record.
//!
//! Must not depend on: rules.

use ashlar_environment::HashSet;
use ashlar_format::{Below, Body, Data, Record, RegisterKey, Space, Version, VersionId};
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;

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
/// Times that another change of such a list may come between without anything being removed.
const TRIES: u32 = 16;
/// Most keys of one page of a scan.
pub const MAX_SCAN: usize = 5000;

/// Chooses what to remove from the versions of a key.
pub type Decide<'a> = &'a mut (dyn FnMut(&KeyVersions<'_>) -> ToExpire + Send);

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
    /// Versions that are gone, or below a marker now.
    fn removed(&self) -> u64 {
        self.current + self.versions + self.markers
    }

    fn add(&mut self, other: Expired) {
        self.current += other.current;
        self.versions += other.versions;
        self.markers += other.markers;
        self.locked += other.locked;
    }
}

/// What one change of a list with pages removes, or several.
struct Removal {
    current: bool,
    ids: Vec<VersionId>,
    /// More was chosen than this.
    more: bool,
}

impl Removal {
    /// The oldest of what was chosen, at most `most`, and the current version.
    fn of(list: &[Version], chosen: ToExpire, most: usize) -> Removal {
        let ToExpire { current, mut versions } = chosen;
        versions.sort_unstable_by_key(|i| std::cmp::Reverse(*i));
        let ids: Vec<VersionId> =
            versions.iter().take(most).filter_map(|i| list.get(*i)).map(|v| v.id).collect();
        let more = versions.len() > ids.len();
        Removal { current, ids, more }
    }

    /// The same in changes of one version each, the current one last.
    fn one_by_one(&self) -> impl Iterator<Item = Removal> {
        let one = |id: &VersionId| Removal { current: false, ids: vec![*id], more: false };
        let last = || Removal { current: true, ids: Vec::new(), more: false };
        self.ids.iter().map(one).chain(self.current.then(last))
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
    pub fn expire<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        decide: Decide<'a>,
    ) -> BoxFuture<'a, Result<Expired>> {
        Box::pin(self.expire_all(bucket, key, decide))
    }

    async fn expire_all(&self, bucket: &OpenBucket, key: &str, decide: Decide<'_>) -> Result<Expired> {
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
            let chosen = self.show(&list, &bucket, &mut *decide);
            if chosen == ToExpire::default() {
                return Ok(total);
            }
            // Followers of the bucket's changes get one version per change.
            let followed = self.inner.feed.wants(&bucket);
            let with_pages = record.filter(|r| r.body.below().is_some());
            if let Some(record) = with_pages {
                let removal = Removal::of(&list, chosen, if followed { usize::MAX } else { MAX_REMOVED });
                drop(list);
                let before = total.removed();
                let done = match followed {
                    true => self.expire_one_by_one(handle, &register, record, &removal, &mut total).await,
                    false => {
                        let done = self.expire_chosen(handle, &register, &record, &removal).await;
                        done.map(|(expired, _)| total.add(expired))
                    }
                };
                match done {
                    // It was decided on another list.
                    Err(Error::Changed) if total.removed() != before => changed = 0,
                    Err(Error::Changed) if changed < TRIES => changed += 1,
                    Err(Error::Changed) => return Err(Error::Busy),
                    Err(e) => return Err(e),
                    Ok(()) if removal.more && total.removed() != before => {}
                    Ok(()) => return Ok(total),
                }
                continue;
            }
            let oldest = chosen.versions.iter().max().and_then(|i| list.get(*i)).map(|v| v.id);
            let only = followed.then_some(oldest);
            let expired = self.expire_now(handle, &register, only, &mut *decide).await?;
            total.add(expired);
            if !followed || expired.removed() == 0 {
                return Ok(total);
            }
        }
    }

    /// Removes what was chosen from exactly this list, in changes of one version each. The list is not read again
    /// between them: what one of them made is what the next one is made on.
    ///
    /// # Errors
    /// `Changed`: the list was, or has become, another one; what was removed is in `total`.
    async fn expire_one_by_one(
        &self,
        handle: &BucketHandle,
        register: &RegisterKey,
        mut record: Arc<Record>,
        removal: &Removal,
        total: &mut Expired,
    ) -> Result<()> {
        let mut changes = removal.one_by_one().peekable();
        while let Some(one) = changes.next() {
            let (expired, made) = self.expire_chosen(handle, register, &record, &one).await?;
            total.add(expired);
            let Some(made) = made.filter(|_| changes.peek().is_some()) else { continue };
            let now = held_keys::read(&self.inner.backend, register).await?;
            record = now.filter(|r| is_same_list(&r.body, &made)).ok_or(Error::Changed)?;
        }
        Ok(())
    }

    /// One change of a list with pages: removes what was chosen from exactly this list. Answers also what the list
    /// became, if it was changed.
    async fn expire_chosen(
        &self,
        handle: &BucketHandle,
        register: &RegisterKey,
        record: &Record,
        removal: &Removal,
    ) -> Result<(Expired, Option<Body>)> {
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
        let made = Mutex::new(None);
        let (only, next) = (Some(record), Some(&made));
        let by = ChangeContext { version: first, others, only, next, ..ChangeContext::cause(cause) };
        match self.inner.change(handle, register, None, false, by, choose).await {
            Err(Error::Locked) => Ok((Expired { locked: 1, ..Expired::default() }, None)),
            done => done.map(|expired| (expired, made.into_inner())),
        }
    }

    /// One change. `only`: nothing but this version, or (`None` within) the current one.
    async fn expire_now(
        &self,
        handle: &BucketHandle,
        register: &RegisterKey,
        only: Option<Option<VersionId>>,
        decide: Decide<'_>,
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

/// Whether two states have the same versions and pages, whichever drives hold them.
fn is_same_list(a: &Body, b: &Body) -> bool {
    let anywhere = |data: &mut Data| data.durable = 0;
    let list = |body: &Body| -> (Vec<Version>, Option<Below>) {
        let (mut head, mut below) = (body.newest().to_vec(), body.below().cloned());
        head.iter_mut().flat_map(|v| &mut v.parts).for_each(|p| anywhere(&mut p.data));
        below.iter_mut().for_each(|b| anywhere(&mut b.root.page.data));
        (head, below)
    };
    list(a) == list(b)
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
