//! Deletion of a bucket by its durable fence (docs/protocol.md 2.15): the steps in the registry, the handling
//! of a refusal by a fence, and the settling of abandoned deletions.
//!
//! Invariants: `ashlar_commit::bucket_fence` makes the decisions. The registry numbers a deletion before the
//! first drive is fenced, and only the number that the registry names removes the bucket. A fence is lifted
//! only after the registry, read without a cache, has shown that the fence is left over. Waiting is bounded:
//! an operation that waits for a deletion longer than [`MAX_DELETION_WAIT`] aborts it; the client of the
//! deletion gets a 409.
//!
//! Must not depend on: what the updates of registers mean.

use std::time::Duration;

use ashlar_cluster::Update;
use ashlar_commit::bucket_fence::{Deletion, Met, Registered, met};
use ashlar_environment::HashMap;
use ashlar_environment::time::{self, Instant};
use ashlar_format::{Ballot, Body, BucketId, Record, RegisterKey, Space};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::backend::{Decision, Failed, Staged, Stopped};
use crate::bucket::Bucket;
use crate::registry::{BucketHandle, GONE, PREFIX, Registry, same};
use crate::store::Inner;
use crate::{Error, Result, summary};

/// How long a deletion of another process may delay a change.
const MAX_DELETION_WAIT: Duration = Duration::from_secs(2);
/// How long a change waits at fences in total.
const MAX_FENCE_WAIT: Duration = Duration::from_secs(10);
/// Pause before the registry is read again.
const PAUSE: Duration = Duration::from_millis(20);
/// Keys held by attempts that a deletion frees before it gives up.
const TRIES: u32 = 16;

/// The result of a removal from the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Removal {
    Done,
    /// The deletion was aborted, or a later one has begun.
    Superseded,
    /// Another process has removed the bucket.
    Gone,
}

/// A deleted bucket that may have left traces: the value that the registry stores under [`GONE`].
#[derive(Serialize, Deserialize)]
struct DeletedBucket {
    format: u32,
    /// The deletion whose fences still exist.
    #[serde(default)]
    deletion: u64,
}

/// The deletion whose fences are left of a deleted bucket.
pub(crate) fn fences_left_by(value: &[u8]) -> Deletion {
    Deletion(serde_json::from_slice::<DeletedBucket>(value).map_or(0, |l| l.deletion))
}

/// A change that waits at a fence.
struct Waiting {
    since: Instant,
    /// The deletion that it waits for, and since when.
    of: (Deletion, Instant),
}

impl Registry {
    /// Numbers a deletion of the bucket; it replaces one that is under way.
    pub(crate) async fn begin_deletion(&self, was: &Bucket) -> Result<Deletion> {
        let begin = |update: &mut Update| {
            let entry = self.control.read(&format!("{PREFIX}{}", was.name));
            let mut bucket = same(was, &entry)?.ok_or(Error::NoSuchBucket)?;
            bucket.deletion = bucket.deletion.begin();
            update.set(&entry, bucket.encode()?);
            Ok::<_, Error>(bucket.deletion.last)
        };
        self.control.change(begin).await
    }

    /// The bucket stays; no effect if this deletion is not under way any more.
    pub(crate) async fn abort_deletion(&self, was: &Bucket, deletion: Deletion) -> Result<()> {
        let abort = |update: &mut Update| {
            let entry = self.control.read(&format!("{PREFIX}{}", was.name));
            if let Some(mut bucket) = same(was, &entry)?
                && let Some(next) = bucket.deletion.abort(deletion)
            {
                bucket.deletion = next;
                update.set(&entry, bucket.encode()?);
            }
            Ok::<_, Error>(())
        };
        self.control.change(abort).await
    }

    /// Removes the bucket, if this deletion is the one under way.
    pub(crate) async fn remove(&self, was: &Bucket, deletion: Deletion) -> Result<Removal> {
        let left = DeletedBucket { format: 1, deletion: deletion.0 };
        let left = serde_json::to_vec(&left).map_err(|e| Error::Internal(e.to_string()))?;
        let remove = |update: &mut Update| {
            let entry = self.control.read(&format!("{PREFIX}{}", was.name));
            Ok::<_, Error>(match same(was, &entry)? {
                None => Removal::Gone,
                Some(b) if !b.deletion.is_open(deletion) => Removal::Superseded,
                Some(_) => {
                    update.remove(&entry);
                    self.forget_quota(was.id, update);
                    let gone = self.control.read(&format!("{GONE}{}", was.id));
                    update.set(&gone, Bytes::from(left.clone()));
                    Removal::Done
                }
            })
        };
        self.control.change(remove).await
    }

    /// The bucket in the control store; `None` if it does not exist.
    fn stored(&self, id: BucketId) -> Result<Option<Bucket>> {
        if let Some(known) = self.of_id(id).map(|l| l.bucket()) {
            return same(&known, &self.control.read(&format!("{PREFIX}{}", known.name)));
        }
        for (key, value) in self.control.list(PREFIX) {
            let bucket = Bucket::decode(&key[PREFIX.len()..], &value.bytes)?;
            if bucket.id == id {
                return Ok(Some(bucket));
            }
        }
        Ok(None)
    }
}

impl Inner {
    /// Changes a register ([`crate::backend::Backend::update`]); waits at a fence of its bucket.
    pub(crate) async fn update<R: Send>(
        &self,
        key: &RegisterKey,
        staged: &[&Staged],
        mut decide: impl FnMut(Option<&Record>) -> Decision<R> + Send,
    ) -> std::result::Result<R, Failed> {
        Ok(self.update_with_ballot(key, staged, &mut decide).await?.0)
    }

    /// [`Inner::update`], with the place of the change in the order of all changes of the register.
    pub(crate) async fn update_with_ballot<R: Send>(
        &self,
        key: &RegisterKey,
        staged: &[&Staged],
        mut decide: impl FnMut(Option<&Record>) -> Decision<R> + Send,
    ) -> std::result::Result<(R, Ballot), Failed> {
        let mut waiting = None;
        loop {
            match self.backend.update_with_ballot(key, staged, &mut decide).await {
                Ok(out) => return Ok(out),
                Err(Stopped::Failed(failed)) => return Err(failed),
                Err(Stopped::Fenced(by)) => {
                    self.wait_at_fence(key.bucket(), by, &mut waiting).await.map_err(Failed::Set)?;
                }
            }
        }
    }

    /// Handles a change that a fence refused. Returns when the change may be tried again.
    async fn wait_at_fence(
        &self,
        id: BucketId,
        fence: Deletion,
        waiting: &mut Option<Waiting>,
    ) -> Result<()> {
        if ashlar_erasure_set::fence_right(id).is_some() {
            // A later deletion has replaced the one that this task works for.
            return Err(Error::Conflict);
        }
        let now = Instant::now();
        let w = waiting.get_or_insert(Waiting { since: now, of: (Deletion::NONE, now) });
        if w.since.elapsed() > MAX_FENCE_WAIT {
            return Err(Error::Unavailable("the bucket is being deleted".to_owned()));
        }
        self.registry.control.barrier().await?;
        let stored = self.registry.stored(id)?;
        match met(stored.as_ref().map(|b| b.deletion), fence) {
            Met::Gone => {
                self.forget_bucket(id);
                return Err(Error::NoSuchBucket);
            }
            Met::Lift(up_to) => {
                if let Err(error) = self.backend.lift_fences(id, up_to).await {
                    tracing::debug!(%error, bucket = %id, "a fence that is left over");
                    time::sleep(PAUSE).await;
                }
            }
            Met::Wait(by) => {
                if w.of.0 != by {
                    w.of = (by, now);
                }
                match stored.filter(|b| b.deletion.is_open(by) && w.of.1.elapsed() > MAX_DELETION_WAIT) {
                    Some(bucket) => self.abort_deletion(&bucket, by).await?,
                    None => time::sleep(PAUSE).await,
                }
            }
        }
        Ok(())
    }

    /// Drops a bucket that another process has removed.
    fn forget_bucket(&self, id: BucketId) {
        if let Some(handle) = self.registry.of_id(id) {
            self.usage.forget(self.registry.forget(&handle));
        }
    }

    /// Aborts a deletion: first in the registry, then on the drives.
    pub(crate) async fn abort_deletion(&self, bucket: &Bucket, deletion: Deletion) -> Result<()> {
        self.registry.abort_deletion(bucket, deletion).await?;
        if let Err(error) = self.backend.lift_fences(bucket.id, deletion).await {
            // The next operation that is refused by a remaining fence lifts it.
            tracing::debug!(%error, bucket = %bucket.id, "a fence of an aborted deletion stays for now");
        }
        Ok(())
    }

    /// Fences the bucket and refuses one with keys in it; keys that attempts hold are freed first. Must be
    /// called with the permission of the deletion.
    pub(crate) async fn fence_empty(&self, bucket: BucketId, deletion: Deletion) -> Result<()> {
        let fenced = self.backend.fence_bucket(bucket, deletion).await?;
        for _ in 0..TRIES {
            let found = self.backend.first_behind(&fenced, Space::Object, bucket).await?;
            let Some((key, shown)) = found else { return Ok(()) };
            if !summary::is_held(&shown) {
                return Err(Error::BucketNotEmpty);
            }
            let group = self.backend.group_of(bucket, &key);
            let key = RegisterKey::new(group, Space::Object, bucket, &key);
            let record = self.backend.read_register(&key).await?;
            if let Some(Body::HeldKey(held)) = record.as_ref().map(|r| &r.body) {
                self.resolve_held_key(&key, held).await?;
            }
        }
        Err(Error::Conflict)
    }

    /// Settles abandoned deletions, and lifts fences that are left over. Part of the collector.
    pub(crate) async fn settle_deletions(&self) -> Result<()> {
        // The drives before the registry: a deletion is in the registry before its fences are on drives.
        let fences = self.backend.fences().await;
        if let Err(error) = self.registry.control.barrier().await {
            tracing::debug!(%error, "deletions of buckets are completed later");
            return Ok(());
        }
        let mut open = HashMap::default();
        let mut stored: HashMap<BucketId, Registered> = HashMap::default();
        for (key, value) in self.registry.control.list(PREFIX) {
            let bucket = Bucket::decode(&key[PREFIX.len()..], &value.bytes)?;
            stored.insert(bucket.id, bucket.deletion);
            if bucket.deletion.open {
                open.insert(bucket.id, bucket);
            }
        }
        let before = std::mem::take(&mut *self.open_deletions.lock());
        let sole = self.backend.is_sole();
        for (id, bucket) in &open {
            let by = bucket.deletion.last;
            let mine = self.registry.of_id(*id).is_some_and(|l| l.gate.is_closed());
            // A deletion of this process is under way; one of another process has time until the next pass.
            if !mine && (sole || before.get(id) == Some(&by)) {
                self.abort_deletion(bucket, by).await?;
            } else {
                self.open_deletions.lock().insert(*id, by);
            }
        }
        for (id, fence) in fences {
            let up_to = match met(stored.get(&id).copied(), fence) {
                Met::Lift(up_to) => up_to,
                // The collector lifts them with the last trace of the bucket.
                Met::Gone if self.registry.control.read(&format!("{GONE}{id}")).bytes().is_some() => continue,
                Met::Gone => fence,
                Met::Wait(_) => continue,
            };
            if let Err(error) = self.backend.lift_fences(id, up_to).await {
                tracing::debug!(%error, bucket = %id, "a fence that is left over");
            }
        }
        Ok(())
    }

    /// Lifts the fences that an aborted deletion may have left on drives; the rest is lifted later.
    pub(crate) async fn lift_remaining_fences(&self, id: BucketId) {
        let last = self.registry.stored(id).ok().flatten().filter(|b| !b.deletion.open);
        if let Some(bucket) = last
            && let Err(error) = self.backend.lift_fences(id, bucket.deletion.last).await
        {
            tracing::debug!(%error, bucket = %id, "a fence of an aborted deletion stays for now");
        }
    }

    /// A later deletion has replaced one of this process: returns the state of the bucket.
    async fn superseded(&self, id: BucketId) -> Result<Removal> {
        let began = Instant::now();
        loop {
            self.registry.control.barrier().await?;
            match self.registry.stored(id)? {
                None => return Ok(Removal::Gone),
                Some(b) if !b.deletion.open || began.elapsed() > MAX_DELETION_WAIT => {
                    return Ok(Removal::Superseded);
                }
                Some(_) => time::sleep(PAUSE).await,
            }
        }
    }

    /// The deletion of an empty bucket, behind its gate. On `BucketNotEmpty` and other errors the bucket
    /// stays as it was.
    pub(crate) async fn delete_with_gate_closed(&self, handle: &BucketHandle) -> Result<Removal> {
        let was = handle.bucket();
        // Usually a non-empty bucket is detected without a fence.
        let page = self.backend.list(Space::Object, was.id, b"", b"", 1).await?;
        if page.entries.first().is_some_and(|(_, shown)| !summary::is_held(shown)) {
            return Err(Error::BucketNotEmpty);
        }
        let deletion = self.registry.begin_deletion(&was).await?;
        let work = self.fence_empty(was.id, deletion);
        if let Err(e) = ashlar_erasure_set::with_fence_right(was.id, deletion, work).await {
            if let Err(error) = self.abort_deletion(&was, deletion).await {
                tracing::debug!(%error, bucket = %was.id, "a deletion is completed later");
            }
            return match e {
                Error::Conflict => self.superseded(was.id).await,
                e => Err(e),
            };
        }
        handle.gate.mark(crate::bucket_gate::REMOVING);
        let removed = self.registry.remove(&was, deletion).await;
        match &removed {
            Ok(Removal::Done | Removal::Gone) => {}
            Ok(Removal::Superseded) => {
                handle.gate.unmark(crate::bucket_gate::REMOVING);
                return self.superseded(was.id).await;
            }
            Err(Error::Unavailable(_) | Error::ControlStore(_)) => {}
            Err(_) => {
                handle.gate.unmark(crate::bucket_gate::REMOVING);
                let _ = self.abort_deletion(&was, deletion).await;
            }
        }
        removed
    }
}
