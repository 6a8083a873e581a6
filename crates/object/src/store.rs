//! The store: what all operations share, and the one way in which a key changes.

use ashlar_environment::HashMap;
use futures::future::BoxFuture;
use std::sync::{Arc, Weak};

use ashlar_checksum::Md5Lanes;
use ashlar_cluster::Control;
use ashlar_commit::bucket_fence::Deletion;
use ashlar_duties::Duties;
use ashlar_environment::time::{Clock, SystemClock};
use ashlar_erasure_set::Sets;
use ashlar_format::{Body, BucketId, DeploymentId, DriveId, RegisterKey, Space, Version, VersionId};
use parking_lot::Mutex;

use crate::backend::{Backend, Decision, Failed, Staged};
use crate::bucket::Bucket;
use crate::feed::{self, Cause, Effect, Feed, Ticket};
use crate::lock::{self, LockTime, Permit};
use crate::marks;
use crate::memory::Memory;
use crate::registry::{BucketHandle, Registry};
use crate::types::UploadId;
use crate::usage::Usages;
use crate::{Error, MAX_KEY, MIN_PART, Result, versions};

/// Settings of a store.
#[derive(Clone)]
pub struct Options {
    /// Where display times come from.
    pub clock: Arc<dyn Clock>,
    /// Smallest part of a multipart upload except the last, in bytes; only tests change it.
    pub min_part: u64,
    /// MD5 scheduler of the process; `None`: the store starts its own.
    pub md5: Option<Md5Lanes>,
    /// What the change feed may keep.
    pub feed: feed::Limits,
    /// Which buckets [`Store::sweep`] is for here.
    pub duties: Duties,
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
            shared: false,
        }
    }
}

/// Buckets and objects over placement groups. Cheap to clone: all clones are one store.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    /// What changes through this handle tell of themselves.
    pub(crate) cause: Option<Arc<Cause>>,
}

/// One lock per upload that is being completed or aborted now, and the size at which entries without
/// a holder are removed: twice what was in use the last time.
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
    pub usage: Arc<Usages>,
    pub lock_time: LockTime,
    pub feed: Feed,
    locks: Mutex<UploadLocks>,
    /// Deletions of buckets that the last pass of the collector found under way.
    pub open_deletions: Mutex<HashMap<BucketId, Deletion>>,
}

impl Store {
    /// Opens the store: reads the registry of buckets.
    ///
    /// # Errors
    /// `Internal` when the registry cannot be understood.
    pub fn open(sets: Sets, control: Control, options: Options) -> Result<Store> {
        Store::over(Backend::Sets(sets), control, options)
    }

    /// A store that lives in memory and forgets everything: for tests of doors. It has the same code
    /// above the registers.
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
        let feed = Feed::new(backend.clone(), control.clone(), options.clock.clone(), options.feed);
        let shared = options.shared || !backend.is_sole();
        let usage = Arc::new(Usages::new(shared.then(|| options.duties.node())));
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
            open_deletions: Mutex::default(),
        };
        Ok(Store { inner: Arc::new(inner), cause: None })
    }

    /// The same store; changes made through this handle tell the change feed of this cause.
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

/// On whose behalf a key is changed.
#[derive(Clone, Copy, Default)]
pub(crate) struct ChangeContext<'a> {
    /// What it may do to locks.
    pub permit: Permit,
    /// What the change feed tells of it.
    pub cause: Option<&'a Arc<Cause>>,
    /// The version that is meant, where one was named.
    pub version: Option<VersionId>,
}

impl<'a> ChangeContext<'a> {
    /// Nothing special.
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

    /// Changes the version list of a key: `decide` says what the next list is (`None`: as it is) and
    /// what to answer, for exactly the list that is replaced. Waits while the bucket is being
    /// deleted.
    ///
    /// A version that a multipart upload made and that was not seen done yet may only be removed
    /// after the upload is done, or else the roll-forward after a crash would bring it back; that is
    /// seen to here.
    pub(crate) async fn change<R: Send>(
        &self,
        live: &BucketHandle,
        key: &RegisterKey,
        staged: Option<&Staged>,
        conditional: bool,
        by: ChangeContext<'_>,
        mut decide: impl FnMut(&[Version], &Bucket) -> Result<(Option<Vec<Version>>, R)> + Send,
    ) -> Result<R> {
        let _pass = live.gate.enter().await?;
        let bucket = live.bucket();
        let ticket = self.feed.intend(&bucket, key.key(), by.version, by.cause).await?;
        let mut settled: Vec<UploadId> = Vec::new();
        loop {
            let (mut unsettled, mut held) = (None, None);
            let mut changing = self.usage.begin(key.bucket(), key.key());
            let turn = match &ticket {
                Some(ticket) => ticket.turn().await,
                None => None,
            };
            let result = self
                .update(key, staged, |old| {
                    changing.looks();
                    if let Some(Body::Held(by)) = old.map(|r| &r.body) {
                        held = Some(by.clone());
                        return Decision::Refuse(Error::Busy);
                    }
                    let list = versions::of(old.map(|r| &r.body));
                    match decide(list, &bucket) {
                        Err(e) => Decision::Refuse(e),
                        Ok((None, out)) => Decision::Keep((out, None)),
                        Ok((Some(new), out)) => {
                            unsettled = removed_mark(list, &new, &settled);
                            if unsettled.is_some() {
                                return Decision::Refuse(Error::Busy);
                            }
                            if let Err(e) = lock::guard(list, &new, || self.lock_time.now_ms(), by.permit) {
                                return Decision::Refuse(e);
                            }
                            changing.proposes(list, &new);
                            let told = |t: &Ticket| Effect::between(t.cause().kind, list, &new, &bucket);
                            let effect = ticket.as_ref().map(told);
                            let (body, summary) = versions::body(new);
                            Decision::Write { body, summary, moved: false, out: (out, effect) }
                        }
                    }
                })
                .await;
            if !matches!(result, Err(Failed::Set(_))) {
                changing.took_effect();
            }
            if let (Err(Failed::Refused(_)), Some(held)) = (&result, held) {
                drop(turn);
                self.settle_held(key, &held).await?;
                continue;
            }
            match (result, unsettled) {
                (Ok((out, effect)), _) => {
                    if let Some(ticket) = ticket {
                        ticket.ended(effect);
                    }
                    return Ok(out);
                }
                (Err(Failed::Refused(_)), Some(upload)) => {
                    drop(turn);
                    self.settle(key, upload).await?;
                    settled.push(upload);
                }
                (Err(Failed::Refused(e)), _) => {
                    if let Some(ticket) = ticket {
                        ticket.ended(None);
                    }
                    return Err(e);
                }
                // Whether it happened is found out later, for those who follow.
                (Err(Failed::Set(Error::Busy)), _) if conditional => return Err(Error::Conflict),
                (Err(Failed::Set(e)), _) => return Err(e),
            }
        }
    }
}

/// A mark of `old` that `new` no longer has and that is not known settled.
fn removed_mark(old: &[Version], new: &[Version], settled: &[UploadId]) -> Option<UploadId> {
    old.iter()
        .filter_map(marks::upload)
        .filter(|m| !settled.contains(m))
        .find(|m| !new.iter().any(|v| marks::upload(v) == Some(*m)))
}
