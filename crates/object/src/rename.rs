//! RenameObject: gives an object another key, atomically for all readers (`ashlar_commit::attempt`).
//!
//! Semantics: Amazon S3 Express One Zone, "Renaming objects in directory buckets": everything but the name
//! stays, the destination is replaced unless a condition forbids it, and a token makes a retry return the
//! same. The stored bytes are copied, since data is in the placement group of its key; that happens before
//! the keys are held.
//!
//! Invariants: the conditions of both keys hold at the moment of the rename; a failure before it leaves both
//! keys as they were; after it, any operation that finds an unfinished rename finishes it.
//!
//! Must not depend on: HTTP.

use futures::future::BoxFuture;
use std::sync::Arc;

use ashlar_format::{Ballot, Body, HeldKey, Part, RegisterKey, Upload, UploadState, Version, VersionId};

use bytes::Bytes;

use crate::backend::{Decision, Staged};
use crate::bucket::{Bucket, Versioning};
use crate::conditions::{Conditions, Verdict, evaluate};
use crate::feed::{Cause, Effect, Kind, PendingChange};
use crate::get::Object;
use crate::held_keys;
use crate::lock::{self, LockPermissions};
use crate::marks;
use crate::part_record::{StoredPart, part_body};
use crate::registry::{BucketHandle, OpenBucket};
use crate::seal::{self, Sealed};
use crate::store::Inner;
use crate::types::{UploadId, fresh_id};
use crate::upload_registers::{UploadRegisters, upload_of};
use crate::{Error, Result, Store, summary, versions};

/// How often a rename frees a key from other attempts before it gives up.
const TRIES: usize = 16;

const VERSIONS: &str = "objects of a bucket with versioning cannot be renamed";

/// The parameters of a rename.
#[derive(Clone, Debug, Default)]
pub struct RenameSpec {
    /// Conditions on the source.
    pub source: Conditions,
    /// Conditions on the destination.
    pub conditions: Conditions,
    /// Makes retries within 24 hours answer the same.
    pub token: Option<[u8; 16]>,
    /// The envelope under the new key; needed if and only if the source is encrypted.
    pub envelope: Option<String>,
}

/// One attempt.
struct Attempt<'a> {
    id: [u8; 16],
    from: &'a RegisterKey,
    registers: &'a UploadRegisters,
    /// The version as it was found.
    source: &'a Version,
    /// The future version.
    version: Version,
    spec: &'a RenameSpec,
}

/// The ballots under which the two keys are held.
struct Held {
    from: Ballot,
    to: Ballot,
}

fn require_versioning_off(bucket: &Bucket) -> Result<()> {
    if bucket.versioning == Versioning::Off {
        return Ok(());
    }
    Err(Error::InvalidRequest(VERSIONS))
}

impl Store {
    /// Whether a rename with this token to `key` has happened.
    ///
    /// # Errors
    /// `NoSuchBucket`, `KeyTooLong`, `TokenReused` (from another key), `Unavailable`.
    pub fn rename_happened<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        from: &'a str,
        key: &'a str,
        token: [u8; 16],
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let registers = self.inner.upload_registers(bucket, key, UploadId(token))?;
            let record = self.inner.read_upload(&registers).await?;
            let Some(upload) = upload_of(record.as_deref()) else { return Ok(false) };
            match (marks::rename(&upload.template), &upload.state) {
                (Some((source, _)), _) if source != from => Err(Error::TokenReused),
                (Some(_), UploadState::Completing(_) | UploadState::Done(_)) => Ok(true),
                _ => Ok(false),
            }
        })
    }

    /// Gives the current version of a key, as it was found, another key in its bucket.
    ///
    /// # Errors
    /// `Changed`: the source was replaced or deleted since it was found, find it again;
    /// `PreconditionFailed`, `NoSuchKey` (If-Match without destination), `InvalidRequest` (a bucket with
    /// versions, the same key), `KeyNeeded` (encrypted, no envelope), `TokenReused`, `Conflict` (lost
    /// against others: try again), and as [`Store::put`] and [`Store::get`].
    pub fn rename<'a>(
        &'a self,
        source: &'a Object,
        key: &'a str,
        spec: &'a RenameSpec,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let bucket = source.bucket();
            require_versioning_off(bucket)?;
            let id = match spec.token {
                Some(token) => token,
                None => fresh_id(self.inner.now_ms())?,
            };
            let registers = self.inner.upload_registers(bucket, key, UploadId(id))?;
            if registers.object == source.key {
                return Err(Error::InvalidRequest("the object has this key"));
            }
            check_source(&spec.source, source.stored())?;
            let there = held_keys::read(&self.inner.backend, &registers.object).await?;
            versions::check(&spec.conditions, versions::of(there.as_ref().map(|r| &r.body)), false)?;
            let lock = self.inner.upload_lock(UploadId(id));
            let _turn = lock.lock().await;
            if spec.token.is_some() {
                let from = String::from_utf8_lossy(source.key.key());
                if self.rename_happened(bucket, &from, key, id).await? {
                    return Ok(());
                }
                // The remains of an attempt that did not finish.
                self.inner.discard(&registers).await?;
            }
            let attempt = Attempt {
                id: fresh_id(self.inner.now_ms())?,
                from: &source.key,
                registers: &registers,
                source: source.stored(),
                version: renamed_version(source, spec)?,
                spec,
            };
            let done = self.attempt(bucket.handle(), attempt).await;
            if done.is_err()
                && let Err(error) = self.inner.discard(&registers).await
            {
                tracing::debug!(%error, "a rename that failed is to be cleared later");
            }
            done
        })
    }

    async fn attempt(&self, handle: &Arc<BucketHandle>, mut a: Attempt<'_>) -> Result<()> {
        let inner = &self.inner;
        inner.open_rename(&a).await?;
        a.version.parts = inner.copy_parts(&a).await?;
        let _pass = handle.gate.enter().await?;
        let bucket = handle.bucket();
        require_versioning_off(&bucket)?;
        let pending_changes = self.pending_changes(&bucket, &a).await?;
        let lock = inner.upload_lock(UploadId(a.id));
        let _turn = lock.lock().await;
        let held = self.hold_both(&a).await;
        let turns = PendingChange::turns(pending_changes.0.as_ref(), pending_changes.1.as_ref()).await;
        let happened = match held {
            Ok(ballots) => {
                let mut version = a.version.clone();
                marks::set_rename(&mut version, &String::from_utf8_lossy(a.from.key()), a.id);
                let to = UploadState::Completing(Box::new(version.clone()));
                // If the answer is lost, the next operation that finds the attempt determines the outcome.
                let ended = inner.end_attempt(a.registers, a.id, to).await?;
                ended.then_some((version, ballots)).ok_or(Error::Conflict)
            }
            Err(e) => Err(e),
        };
        let (version, ballots) = match happened {
            Ok(happened) => happened,
            Err(e) => {
                inner.release_keys(&a).await?;
                for pending_change in [pending_changes.0, pending_changes.1].into_iter().flatten() {
                    pending_change.finish(None);
                }
                return Err(e);
            }
        };
        // It has happened: if a step fails now, the next operation that finds it finishes it.
        let finish = async {
            inner.apply_version(a.registers, &version).await?;
            inner.remove_source(a.registers, &version).await?;
            if let Some(pending_change) = pending_changes.0 {
                let effect = Effect::of(Kind::Rename, &a.version, bucket.versioning);
                pending_change.finish(Some((effect, ballots.to)));
            }
            if let Some(pending_change) = pending_changes.1 {
                let effect = Effect::of(Kind::Delete, a.source, bucket.versioning);
                pending_change.finish(Some((effect, ballots.from)));
            }
            drop(turns);
            inner.finish(a.registers, &version).await
        };
        if let Err(error) = finish.await {
            tracing::debug!(%error, "renamed, to be cleared later");
        }
        Ok(())
    }

    /// The entries of the change feed for destination and source.
    async fn pending_changes(
        &self,
        bucket: &Bucket,
        a: &Attempt<'_>,
    ) -> Result<(Option<PendingChange>, Option<PendingChange>)> {
        let feed = &self.inner.feed;
        let cause = |kind| {
            let of = self.cause.as_deref().cloned().unwrap_or_default();
            Arc::new(Cause { kind, ..of })
        };
        let to = feed.intend(bucket, a.registers.object.key(), None, Some(&cause(Kind::Rename))).await?;
        let from = feed.intend(bucket, a.from.key(), None, Some(&cause(Kind::Delete))).await?;
        Ok((to, from))
    }

    /// Holds both keys, the lesser first, so that of several renames one always makes progress. Nothing else changes them from
    /// then until the rename has ended, so these ballots are the places of the rename in the order of their changes.
    async fn hold_both(&self, a: &Attempt<'_>) -> Result<Held> {
        let inner = &self.inner;
        let unlocked = |list: &[Version]| {
            lock::check_locks(list, &[], || inner.lock_time.now_ms(), LockPermissions::default())
        };
        let source = |list: &[Version]| {
            let there = versions::current(list).filter(|v| *v == a.source).ok_or(Error::Changed)?;
            check_source(&a.spec.source, there)?;
            unlocked(list)
        };
        let destination = |list: &[Version]| {
            versions::check(&a.spec.conditions, list, false)?;
            unlocked(list)
        };
        if a.from.key() < a.registers.object.key() {
            let from = inner.hold(a, true, source).await?;
            Ok(Held { from, to: inner.hold(a, false, destination).await? })
        } else {
            let to = inner.hold(a, false, destination).await?;
            Ok(Held { from: inner.hold(a, true, source).await?, to })
        }
    }
}

/// Conditions on the source are those of a read; 304 is not used here.
fn check_source(conditions: &Conditions, v: &Version) -> Result<()> {
    match evaluate(conditions, Some((&versions::etag(v), v.modified_ms)), true) {
        Verdict::Proceed => Ok(()),
        _ => Err(Error::PreconditionFailed),
    }
}

/// The version under its new name, without its parts.
fn renamed_version(source: &Object, spec: &RenameSpec) -> Result<Version> {
    let mut version = marks::clean(source.stored());
    version.parts.clear();
    match (source.sealed(), &spec.envelope) {
        (None, None) => {}
        (Some(sealed), Some(envelope)) => {
            seal::check_envelope(envelope)?;
            seal::set(&mut version.meta, &Sealed { envelope: envelope.clone(), ..sealed.clone() });
        }
        (Some(_), None) => return Err(Error::KeyNeeded),
        (None, Some(_)) => return Err(Error::Changed),
    }
    Ok(version)
}

impl Inner {
    /// Creates the register that will decide.
    async fn open_rename(&self, a: &Attempt<'_>) -> Result<()> {
        let mut template = a.version.clone();
        marks::set_rename(&mut template, &String::from_utf8_lossy(a.from.key()), a.id);
        let upload = Upload {
            created_ms: self.now_ms(),
            state: UploadState::Open(0),
            template,
            checksum_algorithm: 0,
            checksum_composite: false,
        };
        let summary = summary::of_upload(&upload);
        self.make(&a.registers.upload, None, &Body::Upload(Box::new(upload)), &summary).await
    }

    /// Creates a register. If it exists, another server is executing the same rename.
    pub(crate) async fn make(
        &self,
        key: &RegisterKey,
        staged: Option<&Staged>,
        body: &Body,
        summary: &Bytes,
    ) -> Result<()> {
        let done = self.update(key, staged.as_slice(), |old| match old.map(|r| &r.body) {
            None | Some(Body::Tombstone) => {
                Decision::Write { body: body.clone(), summary: summary.clone(), moved: false, out: () }
            }
            Some(_) => Decision::Refuse(Error::Conflict),
        });
        Ok(done.await?)
    }

    /// Copies the stored parts into the placement group of the destination.
    async fn copy_parts(&self, a: &Attempt<'_>) -> Result<Vec<Part>> {
        let mut parts = Vec::with_capacity(a.source.parts.len());
        let _turn = self.backend.copy_permit().await;
        for p in &a.source.parts {
            let mut pieces = self.backend.read(a.from, &p.data, p.size, 0..p.size).await?;
            let owner = a.registers.part(p.number);
            let mut writer = self.backend.write(&owner, p.size).await?;
            while let Some(piece) = pieces.next().await {
                writer.write(piece?).await?;
            }
            let staged = writer.finish().await?;
            let part = Part { data: staged.data(), ..p.clone() };
            let (nonce, checksum) = seal::split(p.checksum.as_ref());
            let (size, md5, modified_ms) = (p.size, p.md5, p.modified_ms);
            let kept = StoredPart { size, md5, checksum, nonce, modified_ms, data: Some(part.data) };
            let (body, summary) = part_body(p.number, &kept, &[]);
            self.make(&owner, Some(&staged), &body, &summary).await?;
            parts.push(part);
        }
        Ok(parts)
    }

    /// Holds a key for this attempt, if its versions are as expected.
    async fn hold(
        &self,
        a: &Attempt<'_>,
        source: bool,
        judge: impl Fn(&[Version]) -> Result<()> + Sync,
    ) -> Result<Ballot> {
        enum Met {
            Mine,
            HeldKey(Box<HeldKey>),
            Marked(UploadId),
        }
        let key = if source { a.from } else { &a.registers.object };
        for _ in 0..TRIES {
            let done = self.update_with_ballot(key, &[], |old| {
                if let Some(Body::HeldKey(by)) = old.map(|r| &r.body) {
                    return Decision::Keep(if by.attempt == a.id {
                        Met::Mine
                    } else {
                        Met::HeldKey(by.clone())
                    });
                }
                let list = versions::of(old.map(|r| &r.body));
                if old.is_some_and(|r| r.body.below().is_some())
                    || list.iter().any(|v| v.id != VersionId::ZERO)
                {
                    return Decision::Refuse(Error::InvalidRequest(VERSIONS));
                }
                if let Some(mark) = list.iter().find_map(marks::upload) {
                    return Decision::Keep(Met::Marked(mark));
                }
                if let Err(e) = judge(list) {
                    return Decision::Refuse(e);
                }
                let held = HeldKey {
                    versions: list.to_vec(),
                    below: None,
                    attempt: a.id,
                    upload: a.registers.id().0,
                    to: source.then(|| a.registers.object.key().to_vec()),
                };
                let summary = summary::of_held(list);
                Decision::Write { body: Body::HeldKey(Box::new(held)), summary, moved: false, out: Met::Mine }
            });
            let (met, ballot) = done.await?;
            match met {
                Met::Mine => return Ok(ballot),
                // Of the same rename, which has the turn.
                Met::HeldKey(by) if by.upload == a.registers.id().0 => self.free(key, &by).await?,
                Met::HeldKey(by) => self.resolve_held_key(key, &by).await?,
                Met::Marked(mark) => {
                    self.resolve_upload(key, mark).await?;
                    self.unmark(key, mark).await?;
                }
            }
        }
        Err(Error::Conflict)
    }

    /// Ends an attempt that did not happen, and frees its keys.
    async fn release_keys(&self, a: &Attempt<'_>) -> Result<()> {
        self.end_attempt(a.registers, a.id, UploadState::Aborted).await?;
        self.release(a.from, a.id).await?;
        self.release(&a.registers.object, a.id).await
    }

    /// Drops the remains of a rename that did not happen; one that happened is not changed.
    pub(crate) async fn discard(&self, registers: &UploadRegisters) -> Result<()> {
        let record = self.read_upload(registers).await?;
        let aborted = match upload_of(record.as_deref()).map(|u| &u.state) {
            Some(UploadState::Open(_)) => {
                let open =
                    |u: &Upload| matches!(u.state, UploadState::Open(_)).then_some(UploadState::Aborted);
                self.set_upload(registers, false, open).await?
            }
            Some(UploadState::Aborted) => true,
            _ => false,
        };
        if aborted {
            self.drop_aborted(registers).await?;
        }
        Ok(())
    }
}
