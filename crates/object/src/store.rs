//! The store: what all operations share, and the one way in which a key changes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use ashlar_checksum::Md5Lanes;
use ashlar_cluster::Control;
use ashlar_erasure_set::Sets;
use ashlar_format::{DeploymentId, DriveId, RegisterKey, Space, Version};
use ashlar_machine::{Clock, SystemClock};
use parking_lot::Mutex;

use crate::backend::{Backend, Decision, Failed, Staged};
use crate::bucket::{Bucket, Live, Registry};
use crate::lock::{self, LockTime, Permit};
use crate::memory::Memory;
use crate::types::UploadId;
use crate::usage::{Difference, Usages};
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
}

impl Default for Options {
    fn default() -> Options {
        Options { clock: Arc::new(SystemClock::default()), min_part: MIN_PART, md5: None }
    }
}

/// Buckets and objects over placement groups. Cheap to clone: all clones are one store.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
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
    pub usage: Usages,
    pub lock_time: LockTime,
    locks: Mutex<UploadLocks>,
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
    pub async fn in_memory(options: Options) -> Result<Store> {
        let control = crate::memory::control(DeploymentId([1; 16]), DriveId([1; 16])).await?;
        Store::over(Backend::Memory(Arc::new(Memory::new(false))), control, options)
    }

    pub(crate) fn over(backend: Backend, control: Control, options: Options) -> Result<Store> {
        let md5 = options.md5.unwrap_or_default();
        let lock_time = LockTime::open(&control, options.clock.clone())?;
        let inner = Inner {
            lock_time,
            backend,
            registry: Registry::load(control)?,
            clock: options.clock,
            md5,
            min_part: options.min_part,
            usage: Usages::default(),
            locks: Mutex::new(UploadLocks { locks: HashMap::new(), limit: 64 }),
        };
        inner.take_limits();
        Ok(Store { inner: Arc::new(inner) })
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
    pub(crate) async fn change<R>(
        &self,
        live: &Live,
        key: &RegisterKey,
        staged: Option<&Staged>,
        conditional: bool,
        decide: impl FnMut(&[Version], &Bucket) -> Result<(Option<Vec<Version>>, R)>,
    ) -> Result<R> {
        self.change_locked(live, key, staged, conditional, Permit::default(), decide).await
    }

    /// As [`Inner::change`], by an operation that may do something to locks.
    pub(crate) async fn change_locked<R>(
        &self,
        live: &Live,
        key: &RegisterKey,
        staged: Option<&Staged>,
        conditional: bool,
        permit: Permit,
        mut decide: impl FnMut(&[Version], &Bucket) -> Result<(Option<Vec<Version>>, R)>,
    ) -> Result<R> {
        let _pass = live.gate.enter().await?;
        let bucket = live.bucket();
        let mut settled: Vec<UploadId> = Vec::new();
        loop {
            let mut unsettled = None;
            let counts = self.usage.counts(key.bucket());
            let mut difference = Difference::default();
            let result = self
                .backend
                .update(key, staged, |old| {
                    let list = versions::of(old.map(|r| &r.body));
                    match decide(list, &bucket) {
                        Err(e) => Decision::Refuse(e),
                        Ok((None, out)) => Decision::Keep(out),
                        Ok((Some(new), out)) => {
                            unsettled = removed_mark(list, &new, &settled);
                            if unsettled.is_some() {
                                return Decision::Refuse(Error::Busy);
                            }
                            if let Err(e) = lock::guard(list, &new, || self.lock_time.now_ms(), permit) {
                                return Decision::Refuse(e);
                            }
                            if counts {
                                difference = Difference::between(list, &new);
                            }
                            let (body, summary) = versions::body(new);
                            Decision::Write { body, summary, moved: false, out }
                        }
                    }
                })
                .await;
            match (result, unsettled) {
                (Ok(out), _) => {
                    if counts {
                        self.usage.note(key.bucket(), key.key(), difference);
                    }
                    return Ok(out);
                }
                (Err(Failed::Refused(_)), Some(upload)) => {
                    self.settle(key, upload).await?;
                    settled.push(upload);
                }
                (Err(Failed::Set(Error::Busy)), _) if conditional => return Err(Error::Conflict),
                (Err(e), _) => return Err(e.into()),
            }
        }
    }
}

/// A mark of `old` that `new` no longer has and that is not known settled.
fn removed_mark(old: &[Version], new: &[Version], settled: &[UploadId]) -> Option<UploadId> {
    old.iter()
        .filter_map(versions::mark)
        .filter(|m| !settled.contains(m))
        .find(|m| !new.iter().any(|v| versions::mark(v) == Some(*m)))
}
