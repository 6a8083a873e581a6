//! The store: what all operations share, and the only way to change a key.
//!
//! Must not depend on: HTTP.

use ashlar_environment::{HashMap, HashSet};
use futures::future::BoxFuture;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};

use ashlar_checksum::Md5Lanes;
use ashlar_cluster::Control;
use ashlar_commit::bucket_fence::Deletion;
use ashlar_commit::version_list::Bounds;
use ashlar_duties::Duties;
use ashlar_environment::time::{Clock, SystemClock};
use ashlar_erasure_set::Sets;
use ashlar_format::{Body, BucketId, DeploymentId, DriveId, Record, RegisterKey, Space, Version, VersionId};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::backend::{Backend, Decision, Failed, Staged};
use crate::bucket::{Bucket, Versioning};
use crate::feed::{self, Cause, Effect, Feed, PendingChange};
use crate::list_change::ListChange;
use crate::lock::{self, LockPermissions, LockTime};
use crate::marks;
use crate::memory::Memory;
use crate::registry::{BucketHandle, Registry};
use crate::tally::Share;
use crate::types::UploadId;
use crate::usage::UsageTable;
use crate::{Error, MAX_KEY, MIN_PART, Result};

/// Settings of a store.
#[derive(Clone)]
pub struct Options {
    /// Source of display times.
    pub clock: Arc<dyn Clock>,
    /// Smallest part of a multipart upload except the last, in bytes; only tests change it.
    pub min_part: u64,
    /// MD5 scheduler of the process; `None`: the store starts its own.
    pub md5: Option<Md5Lanes>,
    /// Limits of the change feed.
    pub feed: feed::Limits,
    /// The buckets that [`Store::sweep`] of this node handles.
    pub duties: Duties,
    /// How long the record of a key and its version pages get; only tests change it.
    pub version_bounds: Bounds,
    /// Other processes have these buckets too, whatever the drives say; so it is where they are not used by this
    /// process alone. Limits of buckets are then kept by shares, as the node of `duties`.
    pub shared: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            clock: Arc::new(SystemClock::default()),
            min_part: MIN_PART,
            md5: None,
            feed: feed::Limits::default(),
            duties: Duties::alone(0),
            version_bounds: Bounds::STANDARD,
            shared: false,
        }
    }
}

/// Buckets and objects over placement groups. Cheap to clone: all clones are one store.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    /// The cause that changes through this handle record in the change feed.
    pub(crate) cause: Option<Arc<Cause>>,
}

/// One lock per upload that is being completed or aborted, and the size at which unused entries are removed:
/// twice the number in use the last time.
struct UploadLocks {
    locks: HashMap<UploadId, Weak<tokio::sync::Mutex<()>>>,
    limit: usize,
}

pub(crate) struct Inner {
    pub backend: Backend,
    pub registry: Registry,
    pub clock: Arc<dyn Clock>,
    pub md5: Md5Lanes,
    pub min_part: u64,
    pub duties: Duties,
    pub usage: Arc<UsageTable>,
    pub lock_time: LockTime,
    pub feed: Feed,
    locks: Mutex<UploadLocks>,
    pub version_bounds: Bounds,
    /// Keys whose versions are being moved to pages.
    pub spilling: Mutex<HashSet<RegisterKey>>,
    /// Deletions of buckets that the last pass of the collector found under way.
    pub open_deletions: Mutex<HashMap<BucketId, Deletion>>,
    /// Multi-object deletes that run.
    pub many_deletes: AtomicUsize,
}

impl Store {
    /// Opens the store: reads the registry of buckets.
    ///
    /// # Errors
    /// `Internal` if the registry cannot be decoded.
    pub fn open(sets: Sets, control: Control, options: Options) -> Result<Store> {
        Store::over(Backend::Sets(sets), control, options)
    }

    /// A store in memory that stores nothing durably: for tests of API layers. Above the registers it has the
    /// same code.
    ///
    /// # Errors
    /// None in practice.
    pub fn in_memory(options: Options) -> BoxFuture<'static, Result<Store>> {
        Box::pin(async move {
            let control = crate::memory::control(DeploymentId([1; 16]), DriveId([1; 16])).await?;
            let store = Store::over(Backend::Memory(Arc::new(Memory::new(false))), control, options)?;
            store.open_feed().await?;
            Ok(store)
        })
    }

    pub(crate) fn over(backend: Backend, control: Control, options: Options) -> Result<Store> {
        let md5 = options.md5.unwrap_or_default();
        let lock_time = LockTime::open(&control, options.clock.clone())?;
        let node = options.duties.node();
        let feed = Feed::new(backend.clone(), control.clone(), node, options.clock.clone(), options.feed);
        let shared = options.shared || !backend.is_sole();
        let usage = Arc::new(UsageTable::new(shared.then(|| options.duties.node())));
        let inner = Inner {
            feed,
            lock_time,
            backend,
            registry: Registry::load(control, usage.clone())?,
            clock: options.clock,
            md5,
            min_part: options.min_part,
            duties: options.duties,
            usage,
            locks: Mutex::new(UploadLocks { locks: HashMap::default(), limit: 64 }),
            version_bounds: options.version_bounds,
            spilling: Mutex::default(),
            open_deletions: Mutex::default(),
            many_deletes: AtomicUsize::new(0),
        };
        Ok(Store { inner: Arc::new(inner), cause: None })
    }

    /// The same store; changes made through this handle record this cause in the change feed.
    #[must_use]
    pub fn by(&self, cause: Arc<Cause>) -> Store {
        Store { inner: self.inner.clone(), cause: Some(cause) }
    }

    /// The change feed.
    #[must_use]
    pub fn feed(&self) -> &Feed {
        &self.inner.feed
    }

    /// The placement groups, for health and administration; `None` for a store in memory.
    #[must_use]
    pub fn sets(&self) -> Option<&Sets> {
        match &self.inner.backend {
            Backend::Sets(sets) => Some(sets),
            Backend::Memory(_) => None,
        }
    }
}

/// The context of a change of a key.
#[derive(Clone, Copy, Default)]
pub(crate) struct ChangeContext<'a> {
    /// Its permissions on locks.
    pub permit: LockPermissions,
    /// The cause for the change feed.
    pub cause: Option<&'a Arc<Cause>>,
    /// The version that the request names, if any.
    pub version: Option<VersionId>,
    /// Other versions that the change has to see.
    pub others: &'a [VersionId],
    /// Only this list is changed.
    pub only: Option<&'a Record>,
    /// Where to note what the change makes of the list.
    pub next: Option<&'a Mutex<Option<Body>>>,
}

/// The list of the other record is another one.
fn differs(old: Option<&Record>, only: Option<&Record>) -> bool {
    let Some(only) = only else { return false };
    let Some(old) = old else { return true };
    old.body.newest() != only.body.newest() || old.body.below() != only.body.below()
}

impl<'a> ChangeContext<'a> {
    /// A context with a cause only.
    pub fn cause(cause: Option<&'a Arc<Cause>>) -> ChangeContext<'a> {
        ChangeContext { cause, ..ChangeContext::default() }
    }
}

impl Inner {
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    /// The register of a key.
    pub(crate) fn object_key(&self, bucket: &Bucket, key: &str) -> Result<RegisterKey> {
        if key.is_empty() {
            return Err(Error::InvalidArgument("the key is empty"));
        }
        if key.len() > MAX_KEY {
            return Err(Error::KeyTooLong);
        }
        let group = self.backend.group_of(bucket.id, key.as_bytes());
        Ok(RegisterKey::new(group, Space::Object, bucket.id, key.as_bytes()))
    }

    /// The lock of an upload (see `complete`).
    pub(crate) fn upload_lock(&self, id: UploadId) -> Arc<tokio::sync::Mutex<()>> {
        let UploadLocks { locks, limit } = &mut *self.locks.lock();
        if let Some(lock) = locks.get(&id).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.len() >= *limit {
            locks.retain(|_, l| l.strong_count() > 0);
            *limit = (locks.len() * 2).max(64);
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(id, Arc::downgrade(&lock));
        lock
    }

    /// Changes the version list of a key. `decide` returns the next list (`None`: unchanged) and the answer,
    /// for exactly the list that is replaced. Waits while the bucket is being deleted.
    ///
    /// A version that a multipart upload made, and whose upload is not known to be done, may only be removed
    /// after the upload is done; otherwise the roll-forward after a crash would restore it. This function
    /// ensures that.
    pub(crate) async fn change<R: Send>(
        self: &Arc<Self>,
        handle: &BucketHandle,
        key: &RegisterKey,
        staged: Option<&Staged>,
        conditional: bool,
        by: ChangeContext<'_>,
        mut decide: impl FnMut(&[Version], &Bucket) -> Result<(Option<Vec<Version>>, R)> + Send,
    ) -> Result<R> {
        // The answers stay here, so that the code below is compiled once and not for every type of answer.
        let mut answers: SmallVec<[Option<R>; 1]> = SmallVec::new();
        let mut choose = |list: &[Version], bucket: &Bucket| {
            let (next, out) = decide(list, bucket)?;
            answers.push(Some(out));
            Ok((next, answers.len() - 1))
        };
        let answer = self.change_list(handle, key, staged, conditional, by, &mut choose).await?;
        let Some(out) = answers[answer].take() else { unreachable!("a change ends once") };
        Ok(out)
    }

    /// [`Inner::change`], whose answers are numbers of decisions.
    async fn change_list(
        self: &Arc<Self>,
        handle: &BucketHandle,
        key: &RegisterKey,
        staged: Option<&Staged>,
        conditional: bool,
        by: ChangeContext<'_>,
        decide: DecideList<'_>,
    ) -> Result<usize> {
        let _pass = handle.gate.enter().await?;
        let bucket = handle.bucket();
        let pending_change = self.feed.intend(&bucket, key.key(), by.version, by.cause).await?;
        let mut settled: Vec<UploadId> = Vec::new();
        let mut change = ListChange::new(self.version_bounds);
        let mut ids: SmallVec<[VersionId; 2]> =
            by.version.into_iter().chain(by.others.iter().copied()).collect();
        if bucket.versioning != Versioning::Enabled {
            // A new version replaces the null version.
            ids.push(VersionId::ZERO);
        }
        loop {
            let (mut unsettled, mut held, mut wanted) = (None, None, None);
            let mut changing = self.usage.begin(key.bucket(), key.key());
            let turn = match &pending_change {
                Some(pending_change) => pending_change.turn().await,
                None => None,
            };
            let all = change.staged(staged);
            let result = self
                .update_with_ballot(key, &all, |old| {
                    changing.retry();
                    if let Some(Body::HeldKey(by)) = old.map(|r| &r.body) {
                        held = Some(by.clone());
                        return Decision::Refuse(Error::Busy);
                    }
                    if differs(old, by.only) {
                        return Decision::Refuse(Error::Changed);
                    }
                    let body = old.map(|r| &r.body);
                    let view = match change.view(body, &ids) {
                        Ok(view) => view,
                        Err(w) => {
                            wanted = Some(w);
                            return Decision::Refuse(Error::Busy);
                        }
                    };
                    let list = view.versions();
                    match decide(list, &bucket) {
                        Err(e) => Decision::Refuse(e),
                        Ok((None, out)) => Decision::Keep((out, None, None)),
                        Ok((Some(new), out)) => {
                            unsettled = removed_mark(list, &new, &settled);
                            if unsettled.is_some() {
                                return Decision::Refuse(Error::Busy);
                            }
                            if let Err(e) =
                                lock::check_locks(list, &new, || self.lock_time.now_ms(), by.permit)
                            {
                                return Decision::Refuse(e);
                            }
                            let told =
                                |t: &PendingChange| Effect::between(t.cause().kind, list, &new, &bucket);
                            let effect = pending_change.as_ref().map(told);
                            let decision = change.decide(&view, new, |next| {
                                changing.propose(Share::of_body(body), Share::of_body(Some(next)));
                                if let Some(noted) = by.next {
                                    *noted.lock() = Some(next.clone());
                                }
                                (out, effect, self.long_head(next))
                            });
                            decision.unwrap_or_else(|w| {
                                wanted = Some(w);
                                Decision::Refuse(Error::Busy)
                            })
                        }
                    }
                })
                .await;
            if !matches!(result, Err(Failed::Set(_))) {
                changing.commit();
            }
            if let (Err(Failed::Refused(_)), Some(held)) = (&result, held) {
                drop(turn);
                self.resolve_held_key(key, &held).await?;
                continue;
            }
            if let (Err(Failed::Refused(_)), Some(wanted)) = (&result, wanted) {
                drop(turn);
                if let Err(e) = change.provide(&self.backend, key, wanted).await {
                    if let Some(pending_change) = pending_change {
                        pending_change.finish(None);
                    }
                    return Err(e);
                }
                continue;
            }
            match (result, unsettled) {
                (Ok(((out, effect, long), ballot)), _) => {
                    if let Some(pending_change) = pending_change {
                        pending_change.finish(effect.map(|effect| (effect, ballot)));
                    }
                    if let Some(head) = long {
                        drop(turn);
                        self.spill_after(key, head).await;
                    }
                    return Ok(out);
                }
                (Err(Failed::Refused(_)), Some(upload)) => {
                    drop(turn);
                    self.resolve_upload(key, upload).await?;
                    settled.push(upload);
                }
                (Err(Failed::Refused(e)), _) => {
                    if let Some(pending_change) = pending_change {
                        pending_change.finish(None);
                    }
                    return Err(e);
                }
                // Whether it happened is determined later, for followers of the change feed.
                (Err(Failed::Set(Error::Busy)), _) if conditional => return Err(Error::Conflict),
                (Err(Failed::Set(e)), _) => return Err(e),
            }
        }
    }
}

/// Chooses the next version list, `None` for no change; returns the number of its answer with it.
type DecideList<'a> =
    &'a mut (dyn FnMut(&[Version], &Bucket) -> Result<(Option<Vec<Version>>, usize)> + Send);

/// A mark of `old` that `new` no longer has and that is not known to be settled.
fn removed_mark(old: &[Version], new: &[Version], settled: &[UploadId]) -> Option<UploadId> {
    old.iter()
        .filter_map(marks::upload)
        .filter(|m| !settled.contains(m))
        .find(|m| !new.iter().any(|v| marks::upload(v) == Some(*m)))
}
