//! Completes an upload: the steps of `ashlar_commit::upload` (docs/protocol.md 2.8).
//!
//! 1. Read the upload: it must be open. Its generation is part of the name of the attempt.
//! 2. Read the parts; compare them with the client's list.
//! 3. CAS the key to a record that the attempt holds; conditions and locks are evaluated here.
//! 4. CAS the upload, from open of the same generation, to `Completing(version)`. **This is the completion.**
//! 5. CAS the key to the list with the version, which carries the mark of the upload.
//! 6. Make the part registers tombstones: the data belongs to the key now.
//! 7. CAS the upload to `Done(result)`, kept 24 hours for retries.
//! 8. Remove the mark from the key.
//!
//! Invariants: nothing undoes step 4; refusals happen before it and leave the upload open. After step 4,
//! readers of the key find the version ([`held_keys::read`]), and any of the caller, a retry, an abort, a
//! writer of the key or the collector does steps 5 to 8. A marked version is not removed before its upload is
//! done ([`Inner::settle`]). Locks of this process only save work.
//!
//! Must not depend on: HTTP.

use ashlar_checksum::Digest;
use ashlar_commit::upload::{Attempt, Complete, complete, decide};
use ashlar_format::{Ballot, Body, HeldKey, RegisterKey, Upload, UploadState, Version, VersionId};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

use crate::assemble::{CompletedPart, assemble, check_order, check_parts, whole_checksum};
use crate::backend::{Decision, Failed};
use crate::bucket::Bucket;
use crate::conditions::Conditions;
use crate::feed::{Cause, Effect, Kind, PendingChange};
use crate::held_keys;
use crate::list_change::ListChange;
use crate::lock::{self, LockPermissions};
use crate::marks;
use crate::part_record::{CONCURRENCY, StoredPart, stored_part};
use crate::registry::{BucketHandle, OpenBucket};
use crate::seal::Sealed;
use crate::spec::Committed;
use crate::store::Inner;
use crate::tally::Share;
use crate::types::{UploadId, digest_of, fresh_id};
use crate::upload_registers::{UploadRegisters, upload_of};
use crate::{Error, Result, Store, summary, versions};

/// Part registers that the caller of a complete waits for; the others are cleared after the answer.
const CLEAR_NOW: usize = 32;
/// Attempts of one call; each but the last found that the upload or the key had changed.
const TRIES: usize = 16;

/// The result of a complete call.
#[derive(Clone, Debug)]
pub struct Completed {
    /// The new version; the same for every retry.
    pub committed: Committed,
    /// How it is encrypted.
    pub sealed: Option<Sealed>,
}

/// The parameters of a complete call.
pub(crate) struct Request<'a> {
    pub parts: &'a [CompletedPart],
    /// The checksum that the client states for the whole object.
    pub checksum: Option<Digest>,
    pub conditions: &'a Conditions,
    /// The cause for the change feed.
    pub cause: Option<&'a Arc<Cause>>,
}

/// The outcome of a complete call.
enum Outcome {
    /// It has happened; steps 5 to 8 follow.
    Decided(Version),
    /// Steps 6 to 8 follow.
    Filled(Version),
    /// Nothing more to do.
    Done(Version),
}

impl Store {
    /// Assembles the parts as a new version of the key. Idempotent: a retry within 24 hours returns the same.
    /// `checksum`: the one that the client states for the whole object.
    ///
    /// # Errors
    /// `NoSuchUpload`, `InvalidPart`, `InvalidPartOrder`, `EntityTooSmall`, `EntityTooLarge`,
    /// `BadDigest`, `InvalidRequest` (no parts), `PreconditionFailed`, `NoSuchKey`, `Conflict`,
    /// `Unavailable`. After a refusal the upload can be completed again.
    pub fn complete_upload<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        id: UploadId,
        parts: &'a [CompletedPart],
        checksum: Option<Digest>,
        conditions: &'a Conditions,
    ) -> BoxFuture<'a, Result<Completed>> {
        Box::pin(async move {
            let handle = bucket.handle();
            let registers = self.inner.upload_registers(bucket, key, id)?;
            // Always the gate before the lock: a change of a key waits for the lock inside the gate.
            let _pass = handle.gate.enter().await?;
            let turn = self.inner.upload_lock(id).lock_owned().await;
            let request = Request { parts, checksum, conditions, cause: self.cause.as_ref() };
            let (filled, version) = match self.inner.complete(&handle.bucket(), &registers, &request).await? {
                Outcome::Done(v) => return Ok(completed(&v, handle)),
                Outcome::Filled(v) => (true, v),
                Outcome::Decided(v) => (false, v),
            };
            let answer = completed(&version, handle);
            let clear_now = version.parts.len() <= CLEAR_NOW;
            let inner = self.inner.clone();
            let finish = async move {
                let _turn = turn;
                // It has happened: if a step fails now, the next operation that finds it finishes it.
                let done = match filled {
                    true => inner.finish(&registers, &version).await,
                    false => inner.roll_forward(&registers, &version).await,
                };
                if let Err(error) = done {
                    tracing::debug!(%error, upload = %id, "completed, to be cleared later");
                }
                // Until here its mark has kept the version in the record.
                inner.spill(&registers.object).await;
            };
            if clear_now {
                finish.await;
            } else {
                ashlar_environment::spawn("finish-upload", finish);
            }
            Ok(answer)
        })
    }
}

fn completed(v: &Version, handle: &BucketHandle) -> Completed {
    // The encryption was checked when the upload was created.
    let sealed = Sealed::of(&v.meta).ok().flatten();
    Completed { committed: Committed::of(v, handle.bucket().versioning), sealed }
}

impl Inner {
    /// Steps 1 to 4, repeated if other operations interfere.
    async fn complete(
        &self,
        bucket: &Arc<Bucket>,
        registers: &UploadRegisters,
        request: &Request<'_>,
    ) -> Result<Outcome> {
        for _ in 0..TRIES {
            let record = self.read_upload(registers).await?;
            let upload = held_keys::client_upload(upload_of(record.as_deref())).ok_or(Error::NoSuchUpload)?;
            let generation = match complete(Some(&held_keys::protocol_state(upload))) {
                Complete::Attempt(generation) => generation,
                Complete::RollForward(v) => return Ok(Outcome::Decided((*v).clone())),
                Complete::Completed(v) => return Ok(Outcome::Done((*v).clone())),
                Complete::NoSuchUpload => return Err(Error::NoSuchUpload),
            };
            let version = self.assemble_version(bucket, registers, upload, request).await?;
            if let Some(outcome) = self.attempt(bucket, registers, generation, version, request).await? {
                return Ok(outcome);
            }
        }
        Err(Error::Conflict)
    }

    /// Step 2: the future version.
    pub(crate) async fn assemble_version(
        &self,
        bucket: &Bucket,
        registers: &UploadRegisters,
        upload: &Upload,
        request: &Request<'_>,
    ) -> Result<Version> {
        let asked = request.parts;
        check_order(asked)?;
        let numbers: Vec<u16> = asked.iter().map(|p| p.number).collect();
        let found = self.read_parts(registers, &numbers).await?;
        check_parts(asked, &found, self.min_part)?;
        if upload.checksum_algorithm != 0
            && upload.checksum_composite
            && asked.iter().any(|p| p.checksum.is_none())
        {
            return Err(Error::InvalidRequest(
                "The upload was created with a composite checksum. The complete request must include the checksum for each part.",
            ));
        }
        let now_ms = self.now_ms();
        let mut version = assemble(&upload.template, asked, &found);
        version.checksum = whole_checksum(upload, &found)?;
        if let Some(stated) = request.checksum
            && version.checksum.as_ref().and_then(digest_of).is_none_or(|d| d != stated)
        {
            return Err(Error::BadDigest);
        }
        version.id = versions::new_id(bucket.versioning, now_ms)?;
        version.modified_ms = now_ms;
        Ok(version)
    }

    /// Steps 3 to 5. `None`: another operation interfered; nothing is changed.
    async fn attempt(
        &self,
        bucket: &Arc<Bucket>,
        registers: &UploadRegisters,
        generation: u64,
        version: Version,
        request: &Request<'_>,
    ) -> Result<Option<Outcome>> {
        let id = u128::from_be_bytes(fresh_id(self.now_ms())?);
        // The lower half is random.
        let attempt = Attempt { generation, nonce: (id & u128::from(u64::MAX)) as u64 };
        let mut pending_change = self.intend(bucket, registers, request.cause).await?;
        let held = self.hold_for_upload(registers, attempt, version, request.conditions).await;
        let (version, before, ballot) = match held {
            Ok(held) => held,
            Err(e) => {
                // No other call decides in the name of this attempt.
                pending_change.take().into_iter().for_each(|t| t.finish(None));
                return Err(e);
            }
        };
        let turn = match &pending_change {
            Some(pending_change) => pending_change.turn().await,
            None => None,
        };
        // If the answer is lost, the next operation on the key finds out the outcome, also for the count.
        let mut counting = self.usage.begin(registers.object.bucket(), registers.object.key());
        counting.propose(before, Share::default());
        let decided = self.decide(registers, attempt, &version).await?;
        let effect = |t: &PendingChange| Effect::of(t.cause().kind, &version, bucket.versioning);
        if let Some(pending_change) = pending_change {
            // Nothing else changes the key from its hold until the version is on it.
            let effect = decided.then(|| (effect(&pending_change), ballot));
            pending_change.finish(effect);
        }
        drop(turn);
        if decided && let Err(error) = self.apply_version(registers, &version).await {
            tracing::debug!(%error, upload = %registers.id(), "completed, to be put on its key later");
            return Ok(Some(Outcome::Done(version)));
        }
        // The change of the key has counted it.
        counting.retry();
        counting.commit();
        if decided {
            return Ok(Some(Outcome::Filled(version)));
        }
        self.release(&registers.object, attempt.to_bytes()).await?;
        Ok(None)
    }

    /// Records the intended change of the key in the change feed.
    async fn intend(
        &self,
        bucket: &Arc<Bucket>,
        registers: &UploadRegisters,
        cause: Option<&Arc<Cause>>,
    ) -> Result<Option<PendingChange>> {
        if !self.feed.wants(bucket) {
            return Ok(None);
        }
        let default = || Arc::new(Cause { kind: Kind::Complete, ..Cause::default() });
        let cause = cause.cloned().unwrap_or_else(default);
        self.feed.intend(bucket, registers.object.key(), None, Some(&cause)).await
    }

    /// Step 3. The returned version has the time that is shown to clients and the name of the attempt; after
    /// it come the versions that the key has, and the ballot under which the key is held.
    pub(crate) async fn hold_for_upload(
        &self,
        registers: &UploadRegisters,
        attempt: Attempt,
        mut version: Version,
        conditions: &Conditions,
    ) -> Result<(Version, Share, Ballot)> {
        enum Met {
            Mine(i64, Share),
            HeldKey(Box<HeldKey>),
            Marked(UploadId),
        }
        let key = &registers.object;
        let mut change = ListChange::new(self.version_bounds);
        // A null version replaces the null version, which may be locked.
        let ids: &[VersionId] = if version.id == VersionId::ZERO { &[VersionId::ZERO] } else { &[] };
        for _ in 0..TRIES {
            let mut wanted = None;
            let done = self.update_with_ballot(key, &[], |old| {
                if let Some(Body::HeldKey(by)) = old.map(|r| &r.body) {
                    return Decision::Keep(match versions::with(&by.versions, version.clone()) {
                        // The answer of an earlier call was lost.
                        Ok(list) if by.attempt == attempt.to_bytes() => {
                            Met::Mine(list[0].modified_ms, Share::of_body(old.map(|r| &r.body)))
                        }
                        _ => Met::HeldKey(by.clone()),
                    });
                }
                let body = old.map(|r| &r.body);
                let view = match change.view(body, ids) {
                    Ok(view) => view,
                    Err(w) => {
                        wanted = Some(w);
                        return Decision::Refuse(Error::Busy);
                    }
                };
                let list = view.versions();
                let next = versions::check(conditions, list, false)
                    .and_then(|()| versions::with(list, version.clone()))
                    .and_then(|next| {
                        lock::check_locks(
                            list,
                            &next,
                            || self.lock_time.now_ms(),
                            LockPermissions::default(),
                        )?;
                        Ok(next)
                    });
                let next = match next {
                    Ok(next) => next,
                    Err(e) => return Decision::Refuse(e),
                };
                // The version may replace a null version made by another upload.
                let stays = |m: &UploadId| next.iter().any(|v| marks::upload(v) == Some(*m));
                if let Some(mark) = list.iter().filter_map(marks::upload).find(|m| !stays(m)) {
                    return Decision::Keep(Met::Marked(mark));
                }
                let head = body.map_or(&[][..], Body::newest);
                let held = HeldKey {
                    versions: head.to_vec(),
                    below: body.and_then(Body::below).cloned(),
                    attempt: attempt.to_bytes(),
                    upload: registers.id().0,
                    to: None,
                };
                let summary = summary::of_held(head);
                let out = Met::Mine(next[0].modified_ms, Share::of_body(body));
                Decision::Write { body: Body::HeldKey(Box::new(held)), summary, moved: false, out }
            });
            let done = done.await;
            if let (Err(Failed::Refused(_)), Some(wanted)) = (&done, wanted) {
                change.provide(&self.backend, key, wanted).await?;
                continue;
            }
            match done {
                Ok((Met::Mine(modified_ms, before), ballot)) => {
                    version.modified_ms = modified_ms;
                    marks::set_attempt(&mut version, attempt.to_bytes());
                    return Ok((version, before, ballot));
                }
                // Its own: this call has the turn.
                Ok((Met::HeldKey(by), _)) if by.upload == registers.id().0 => self.free(key, &by).await?,
                Ok((Met::HeldKey(by), _)) => self.resolve_held_key(key, &by).await?,
                Ok((Met::Marked(mark), _)) => {
                    self.resolve_other_upload(key, mark).await?;
                    self.unmark(key, mark).await?;
                }
                Err(Failed::Set(Error::Busy)) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Conflict)
    }

    /// Step 4. Returns false if another operation interfered.
    pub(crate) async fn decide(
        &self,
        registers: &UploadRegisters,
        attempt: Attempt,
        version: &Version,
    ) -> Result<bool> {
        let done = self.update(&registers.upload, &[], |old| {
            let Some(upload) = upload_of(old) else { return Decision::Keep(false) };
            let found = held_keys::protocol_state(upload);
            if matches!(&found, ashlar_commit::upload::Upload::Completing(a, _) if *a == attempt) {
                return Decision::Keep(true);
            }
            if !decide(Some(&found), attempt) {
                return Decision::Keep(false);
            }
            let state = UploadState::Completing(Box::new(version.clone()));
            let next = Upload { state, ..upload.clone() };
            let summary = summary::of_upload(&next);
            Decision::Write { body: Body::Upload(Box::new(next)), summary, moved: false, out: true }
        });
        Ok(done.await?)
    }

    async fn read_parts(
        &self,
        registers: &UploadRegisters,
        numbers: &[u16],
    ) -> Result<Vec<Option<StoredPart>>> {
        let keys: Vec<(u16, RegisterKey)> = numbers.iter().map(|n| (*n, registers.part(*n))).collect();
        futures::stream::iter(keys)
            .map(|(number, key)| async move {
                let record = self.backend.read_register(&key).await?;
                Ok(record.and_then(|r| stored_part(&r.body, number)))
            })
            .buffered(CONCURRENCY)
            .try_collect()
            .await
    }

    /// Steps 5 to 8 of a rename or a completion that has happened.
    pub(crate) async fn roll_forward(&self, registers: &UploadRegisters, v: &Version) -> Result<()> {
        self.apply_version(registers, v).await?;
        self.finish(registers, v).await
    }

    /// Steps 6 to 8 for a version that is (or was) on the key.
    pub(crate) async fn finish(&self, registers: &UploadRegisters, v: &Version) -> Result<()> {
        self.finish_upload(registers, v).await?;
        self.unmark(&registers.object, registers.id()).await
    }

    /// Steps 6 and 7.
    async fn finish_upload(&self, registers: &UploadRegisters, v: &Version) -> Result<()> {
        let record = self.read_upload(registers).await?;
        if let Some(UploadState::Completing(fixed)) = upload_of(record.as_deref()).map(|u| &u.state) {
            // For a rename: only then may it be removed.
            self.remove_source(registers, fixed).await?;
            self.clear_parts(registers, Some(fixed)).await?;
            let mut result = marks::clean(v);
            result.parts.clear();
            if marks::rename(fixed).is_some() {
                // A renamed object keeps its time, but the result is kept for retries from now on.
                result.modified_ms = self.now_ms();
            }
            let done = |u: &Upload| {
                matches!(u.state, UploadState::Completing(_))
                    .then(|| UploadState::Done(Box::new(result.clone())))
            };
            self.set_upload(registers, true, done).await?;
        }
        Ok(())
    }

    /// Step 8: removes a mark from the key once the upload is done.
    pub(crate) async fn unmark(&self, key: &RegisterKey, upload: UploadId) -> Result<()> {
        let done = self.update(key, &[], |old| {
            let list = versions::of(old.map(|r| &r.body));
            let Some(at) = list.iter().position(|v| marks::upload(v) == Some(upload)) else {
                return Decision::Keep(());
            };
            let mut list = list.to_vec();
            list[at] = marks::settled(&list[at]);
            // A marked version is in no page.
            let body = versions::list_body(list, old.and_then(|r| r.body.below()));
            let summary = versions::summary(&body);
            Decision::Write { body, summary, moved: false, out: () }
        });
        Ok(done.await?)
    }

    /// Makes sure that an upload whose mark the key carries is done, so that the version may be removed.
    /// Waits for a completion of it in this process.
    pub(crate) async fn resolve_upload(&self, key: &RegisterKey, upload: UploadId) -> Result<()> {
        let lock = self.upload_lock(upload);
        let _turn = lock.lock().await;
        self.resolve_other_upload(key, upload).await
    }

    /// Like [`Inner::settle`] without its lock: every step is a compare-and-set that only moves forward.
    async fn resolve_other_upload(&self, key: &RegisterKey, upload: UploadId) -> Result<()> {
        let registers = UploadRegisters::of(&self.backend, key.bucket(), key.key(), upload);
        let record = self.backend.read_register(key).await?;
        let list = versions::of(record.as_ref().map(|r| &r.body));
        match list.iter().find(|v| marks::upload(v) == Some(upload)) {
            Some(v) => self.finish_upload(&registers, v).await,
            None => Ok(()),
        }
    }
}
