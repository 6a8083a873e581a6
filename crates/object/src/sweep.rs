//! The collector of what uploads leave behind: interrupted completions, old results, parts of uploads that
//! are gone, uploads of buckets that are gone.
//!
//! Invariants: requests do not wait for a pass ([`let_others_run`]); it only does what a retry of the client's call would do, under the same locks. `erasure-set`
//! collects data that no register names at all.
//!
//! Must not depend on: HTTP.

use futures::future::BoxFuture;
use std::sync::Arc;

use ashlar_cluster::Update;
use ashlar_commit::bucket_fence::Deletion;
use ashlar_duties::{Duty, Unit};
use ashlar_erasure_set::with_fence_right;
use ashlar_format::{BucketId, Space, UploadState};

use crate::backend::Page;
use crate::error::control_error;
use crate::fence::fences_left_by;
use crate::held_keys;
use crate::registry::{BucketHandle, GONE};
use crate::store::Inner;
use crate::upload_registers::{UploadRegisters, split, upload_of};
use crate::{Result, Store, summary};

/// How long the result of a completed upload is kept for retries.
const KEEP_MS: i64 = 24 * 3600 * 1000;
/// Registers listed at a time.
const WINDOW: usize = 500;

/// The result of a pass of the collector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Uploads and renames that had happened and are now finished.
    pub finished: u64,
    /// Uploads that were removed: completed ones after their time for retries, and aborted ones.
    pub forgotten: u64,
    /// Parts dropped.
    pub parts: u64,
}

impl Store {
    /// One pass over the buckets that this node sweeps: settles completions that a crash interrupted, removes
    /// results older than 24 hours, drops parts of aborted uploads and uploads of deleted buckets. `now_ms`:
    /// milliseconds since 1970. The program calls it once at the start and then every few minutes.
    ///
    /// # Errors
    /// `Unavailable`; what was done before stays done.
    pub fn sweep(&self, now_ms: i64) -> BoxFuture<'_, Result<Swept>> {
        Box::pin(async move {
            let inner = &self.inner;
            for gone in inner.registry.resolve().await {
                inner.usage.forget(gone);
            }
            inner.settle_deletions().await?;
            let mut swept = Swept::default();
            let mine = |id: BucketId| inner.duties.mine(Duty::Sweep, &Unit::Bucket(id.0));
            for handle in inner.registry.all() {
                let id = handle.bucket().id;
                if !mine(id) {
                    continue;
                }
                inner.sweep_uploads(id, Some(&handle), now_ms, &mut swept).await?;
                inner.sweep_parts(id, &mut swept).await?;
                let_others_run().await;
            }
            for gone in inner.registry.control.entries(GONE) {
                if let Some(id) = BucketId::from_hex(&gone.key()[GONE.len()..]) {
                    if !mine(id) {
                        continue;
                    }
                    let left = fences_left_by(gone.bytes().map_or(&[][..], |b| b));
                    let work = async {
                        inner.sweep_uploads(id, None, now_ms, &mut swept).await?;
                        inner.sweep_parts(id, &mut swept).await
                    };
                    with_fence_right(id, left, work).await?;
                    // Another process may not have seen the deletion: only the fence stops its writes. In
                    // this process, no change is left that began before the gate was closed.
                    if left != Deletion::NONE && !inner.backend.is_sole() {
                        continue;
                    }
                    inner.backend.lift_fences(id, left).await?;
                }
                let mut update = Update::new();
                update.remove(&gone);
                match inner.registry.control.update(update).await {
                    // Another server has done it.
                    Ok(_) | Err(ashlar_cluster::Error::Conflict(_)) => {}
                    Err(e) => return Err(control_error(e)),
                }
            }
            Ok(swept)
        })
    }
}

/// Between two buckets of a pass over all of them: lets other tasks run. What a pass reads is mostly in memory, so that
/// it would otherwise not wait once, and keep a thread of the runtime from requests for as long as it takes for
/// thousands of buckets.
pub(crate) async fn let_others_run() {
    tokio::task::yield_now().await;
}

impl Inner {
    async fn sweep_uploads(
        &self,
        bucket: BucketId,
        handle: Option<&Arc<BucketHandle>>,
        now_ms: i64,
        swept: &mut Swept,
    ) -> Result<()> {
        let mut from = Vec::new();
        loop {
            let page = self.backend.list(Space::Upload, bucket, b"", &from, WINDOW).await?;
            for (stem, s) in &page.entries {
                let Some(s) = summary::upload(s) else { continue };
                let idle = handle.is_some() && s.state == 0;
                let Some(registers) =
                    UploadRegisters::from_stem(&self.backend, bucket, stem).filter(|_| !idle)
                else {
                    continue;
                };
                match handle {
                    Some(handle) => self.sweep_upload(handle, &registers, now_ms, swept).await?,
                    None => self.drop_upload(&registers, swept).await?,
                }
            }
            match next(&page) {
                Some(f) => from = f,
                None => return Ok(()),
            }
        }
    }

    /// An upload of an existing bucket that is not open.
    async fn sweep_upload(
        &self,
        handle: &Arc<BucketHandle>,
        registers: &UploadRegisters,
        now_ms: i64,
        swept: &mut Swept,
    ) -> Result<()> {
        let Ok(_pass) = handle.gate.enter().await else { return Ok(()) };
        let lock = self.upload_lock(registers.id());
        let _turn = lock.lock().await;
        let record = self.read_upload(registers).await?;
        match upload_of(record.as_deref()).map(|u| &u.state) {
            Some(UploadState::Completing(v)) => {
                self.roll_forward(registers, v).await?;
                swept.finished += 1;
            }
            Some(UploadState::Done(v)) => {
                self.unmark(&registers.object, registers.id()).await?;
                if v.modified_ms.saturating_add(KEEP_MS) < now_ms {
                    self.free_key(registers).await?;
                    self.forget_upload(registers, |u| matches!(u.state, UploadState::Done(_))).await?;
                    swept.forgotten += 1;
                }
            }
            Some(UploadState::Aborted) => {
                swept.parts += self.drop_aborted(registers).await?;
                swept.forgotten += 1;
            }
            // No process works on it. It has no other trace than the keys that it holds, and the next
            // operation on these frees them.
            Some(UploadState::Open(_)) if held_keys::is_rename_upload(record.as_deref()) => {
                self.discard(registers).await?;
                swept.forgotten += 1;
            }
            Some(UploadState::Open(_)) | None => {}
        }
        Ok(())
    }

    /// An upload of a deleted bucket: no key can get a version any more.
    async fn drop_upload(&self, registers: &UploadRegisters, swept: &mut Swept) -> Result<()> {
        let lock = self.upload_lock(registers.id());
        let _turn = lock.lock().await;
        swept.parts += self.clear_parts(registers, None).await?;
        self.forget_upload(registers, |_| true).await?;
        swept.forgotten += 1;
        Ok(())
    }

    /// Parts whose upload accepts none any more: the upload ended while they were being written.
    async fn sweep_parts(&self, bucket: BucketId, swept: &mut Swept) -> Result<()> {
        let mut from = Vec::new();
        loop {
            // One register of each upload is enough.
            let page = self.backend.list(Space::Part, bucket, b"", &from, 1).await?;
            let Some((key, _)) = page.entries.first() else { return Ok(()) };
            let Some(stem) = key.len().checked_sub(2).map(|n| &key[..n]).filter(|s| split(s).is_some())
            else {
                from = key.to_vec();
                from.push(0);
                continue;
            };
            if let Some(registers) = UploadRegisters::from_stem(&self.backend, bucket, stem) {
                let lock = self.upload_lock(registers.id());
                let _turn = lock.lock().await;
                let record = self.read_upload(&registers).await?;
                let state = upload_of(record.as_deref()).map(|u| &u.state);
                if !matches!(state, Some(UploadState::Open(_) | UploadState::Completing(_))) {
                    swept.parts += self.clear_parts(&registers, None).await?;
                }
            }
            from = stem.to_vec();
            from.extend_from_slice(&[0xff, 0xff, 0xff]);
        }
    }
}

/// The start of the page after this one.
fn next(page: &Page) -> Option<Vec<u8>> {
    let (last, _) = page.entries.last().filter(|_| page.truncated)?;
    let mut from = last.to_vec();
    from.push(0);
    Some(from)
}
