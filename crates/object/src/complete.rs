//! How an upload becomes a version (docs/protocol.md 2.8; `ashlar-commit`'s `upload` and the model).
//!
//! 1. Read the parts, check what the client says about them, judge the conditions once.
//! 2. CAS the upload from `Open` to `Completing(version)`: parts, version id and conditions are fixed.
//! 3. Read the key. If it carries the mark of this upload, go to 6.
//! 4. Read the upload again: still `Completing`? Then read the parts again. One that was replaced
//!    before step 2 took effect fails the call: back to `Open`. One that is replaced later does not
//!    drop the data it replaces (see `parts`).
//! 5. CAS the key, **from exactly the record read in
//!    3**, to a list with the version and the mark; the conditions are judged on that record. If the
//!    key has moved on, go to 3. A condition that does not hold: back to `Open`, 412.
//! 6. Make the part registers tombstones: the data is the key's now.
//! 7. CAS the upload to `Done(result)`, kept 24 hours for retries.
//! 8. Take the mark off the key.
//!
//! After step 5 the version is there and the caller can be answered; 6 to 8 follow (or are done by a
//! retry, an abort, the collector, or the next writer that removes the version). The mark makes step
//! 5 happen once: nobody removes a marked version before the upload is done ([`Inner::settle`]), and
//! whoever looked at the key before cannot put it back, since the key has changed.
//!
//! A completion that is found interrupted (a crash, or its caller is gone) goes on from step 6 when the version is on
//! the key. Else it goes back to `Open`: nobody was told that it succeeded, and putting it on the key later
//! would replace what others have written, or deleted, since.
//!
//! Going back to `Open` is safe because one completion or abort of an upload runs at a time: a lock
//! in this process. A cluster of several coordinators needs that turn elsewhere, because somebody who
//! slept in step 5 could put the version on the key after another went back.

use ashlar_checksum::Digest;
use ashlar_format::{Body, Part, Record, RegisterKey, Upload, UploadState, Version};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

use crate::assemble::{
    CompletedPart, assemble, check_order, check_parts, keep_conditions, kept_conditions, whole_checksum,
};
use crate::backend::{Decision, Failed};
use crate::bucket::{Bucket, Versioning};
use crate::conditions::Conditions;
use crate::feed::{Cause, Effect, Kind, Ticket};
use crate::held;
use crate::kept::{AT_ONCE, Kept, kept};
use crate::lock::{self, Permit};
use crate::marks;
use crate::names::{Names, upload_of};
use crate::registry::Live;
use crate::seal::Sealed;
use crate::spec::Committed;
use crate::store::Inner;
use crate::types::{UploadId, digest_of};
use crate::versions;
use crate::{Error, Result, Store};

/// Part registers that the caller of a complete waits for; more are cleared after the answer.
const CLEAR_NOW: usize = 32;
/// The bucket of a key, and what the change feed is told of its change.
type By<'a> = (&'a Arc<Bucket>, Option<&'a Arc<Cause>>);

/// What a complete call made.
#[derive(Clone, Debug)]
pub struct Completed {
    /// The new version; the same for every retry.
    pub committed: Committed,
    /// How it is encrypted.
    pub sealed: Option<Sealed>,
}

/// How a roll-forward ended.
pub(crate) enum Outcome {
    /// The version is on the key, or was.
    Done(Box<Version>),
    /// Its condition does not hold; the upload is open again.
    Refused(Error),
    /// The upload is not known any more, or aborted.
    Gone,
}

impl Store {
    /// Puts the parts together as a new version of the key. Idempotent: a retry within 24 hours
    /// answers the same. `checksum` is what the client states for the whole object.
    ///
    /// # Errors
    /// `NoSuchUpload`, `InvalidPart`, `InvalidPartOrder`, `EntityTooSmall`, `EntityTooLarge`,
    /// `BadDigest`, `InvalidRequest` (no parts), `PreconditionFailed`, `NoSuchKey`, `Conflict`,
    /// `Unavailable`. After a refusal the upload can be completed again.
    pub fn complete_upload<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        id: UploadId,
        parts: &'a [CompletedPart],
        checksum: Option<Digest>,
        conditions: &'a Conditions,
    ) -> BoxFuture<'a, Result<Completed>> {
        Box::pin(async move {
            let live = self.inner.registry.live(bucket)?;
            let names = self.inner.names(&live.bucket(), key, id)?;
            // Always the gate before the lock: a change of a key waits for the lock inside the gate.
            let _pass = live.gate.enter().await?;
            let turn = self.inner.upload_lock(id).lock_owned().await;
            let record = self.inner.read_upload(&names).await?;
            let version = match held::clients(upload_of(record.as_deref())).map(|u| &u.state) {
                None | Some(UploadState::Aborted) => return Err(Error::NoSuchUpload),
                Some(UploadState::Done(v)) => return Ok(completed(v, &live)),
                Some(UploadState::Completing(v)) => (**v).clone(),
                Some(UploadState::Open) => {
                    self.inner
                        .begin_complete(&live, &names, record.as_deref(), parts, checksum, conditions)
                        .await?
                }
            };
            // Its parts are counted already.
            let version = match self
                .inner
                .put_on_key(&names, &version, Some((&live.bucket(), self.cause.as_ref())))
                .await?
            {
                Outcome::Done(v) => v,
                Outcome::Refused(e) => return Err(e),
                Outcome::Gone => return Err(Error::NoSuchUpload),
            };
            let answer = completed(&version, &live);
            if version.parts.len() <= CLEAR_NOW {
                // The version is there: whatever fails now is finished later.
                if let Err(error) = self.inner.finish(&names, &version).await {
                    tracing::debug!(%error, upload = %id, "completed, to be cleared later");
                }
                return Ok(answer);
            }
            let inner = self.inner.clone();
            tokio::spawn(async move {
                let _turn = turn;
                if let Err(error) = inner.finish(&names, &version).await {
                    tracing::debug!(%error, "completed, to be cleared later");
                }
            });
            Ok(answer)
        })
    }
}

fn completed(v: &Version, live: &Live) -> Completed {
    // How it is encrypted was understood when the upload was made.
    let sealed = Sealed::of(&v.meta).ok().flatten();
    Completed { committed: Committed::of(v, live.bucket().versioning), sealed }
}

impl Inner {
    /// Steps 1 and 2: answers the version that was fixed.
    pub(crate) async fn begin_complete(
        &self,
        live: &Live,
        names: &Names,
        record: Option<&Record>,
        asked: &[CompletedPart],
        checksum: Option<Digest>,
        conditions: &Conditions,
    ) -> Result<Version> {
        let upload = upload_of(record).ok_or(Error::NoSuchUpload)?;
        check_order(asked)?;
        let numbers: Vec<u16> = asked.iter().map(|p| p.number).collect();
        let found = self.read_parts(names, &numbers).await?;
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
        if let Some(stated) = checksum
            && version.checksum.as_ref().and_then(digest_of).is_none_or(|d| d != stated)
        {
            return Err(Error::BadDigest);
        }
        version.id = versions::new_id(live.bucket().versioning, now_ms)?;
        version.modified_ms = now_ms;
        let key = held::read(&self.backend, &names.object).await?;
        versions::check(conditions, versions::of(key.as_ref().map(|r| &r.body)), false)?;
        keep_conditions(&mut version, conditions);
        let fixed = self
            .set_upload(names, false, |u| {
                (u.state == UploadState::Open).then(|| UploadState::Completing(Box::new(version.clone())))
            })
            .await?;
        if !fixed {
            return Err(Error::NoSuchUpload);
        }
        Ok(version)
    }

    /// Back from `Completing` to `Open`. The data stays with the part registers.
    async fn reopen(&self, names: &Names) -> Result<()> {
        let back = |u: &Upload| matches!(u.state, UploadState::Completing(_)).then_some(UploadState::Open);
        self.set_upload(names, true, back).await.map(|_| ())
    }

    /// A part whose register no longer has the data that the version names.
    async fn replaced_part(&self, names: &Names, v: &Version) -> Result<Option<u16>> {
        let numbers: Vec<u16> = v.parts.iter().map(|p| p.number).collect();
        let now = self.read_parts(names, &numbers).await?;
        let same = |p: &Part, k: &Option<Kept>| {
            k.as_ref().and_then(|k| k.data).is_some_and(|d| d.write_id == p.data.write_id)
        };
        Ok(v.parts.iter().zip(&now).find(|(p, k)| !same(p, k)).map(|(p, _)| p.number))
    }

    async fn read_parts(&self, names: &Names, numbers: &[u16]) -> Result<Vec<Option<Kept>>> {
        let keys: Vec<(u16, RegisterKey)> = numbers.iter().map(|n| (*n, names.part(*n))).collect();
        futures::stream::iter(keys)
            .map(|(number, key)| async move {
                let record = self.backend.read_register(&key).await?;
                Ok(record.and_then(|r| kept(&r.body, number)))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Settles an upload that was found completing, whose caller never heard how it ended: steps 6 to 8 when the
    /// version is on the key (true); else the upload is open again, and its client may complete it anew. What others
    /// have written since is never replaced by it. The caller holds the bucket's gate and the upload's lock.
    pub(crate) async fn settle_completing(&self, names: &Names) -> Result<bool> {
        let id = names.id();
        let there = loop {
            // A change that keeps what is there: nothing of step 5 that is still on its way comes up after it.
            let looked = self.backend.update(&names.object, None, |old| {
                Decision::Keep(match old.map(|r| &r.body) {
                    Some(Body::Held(held)) => Err(held.clone()),
                    body => Ok(versions::of(body).iter().find(|v| marks::upload(v) == Some(id)).cloned()),
                })
            });
            match looked.await? {
                Ok(there) => break there,
                Err(held) => self.settle_held(&names.object, &held).await?,
            }
        };
        match &there {
            Some(v) => self.finish(names, v).await?,
            None => self.reopen(names).await?,
        }
        Ok(there.is_some())
    }

    /// Steps 3 to 8 for an upload that was found completing by somebody who wants it completed, or too late to
    /// abort; the caller holds the bucket's gate and the upload's lock.
    pub(crate) async fn roll_forward(&self, names: &Names, v: &Version) -> Result<Outcome> {
        let outcome = self.put_on_key(names, v, None).await?;
        if let Outcome::Done(v) = &outcome {
            self.finish(names, v).await?;
        }
        Ok(outcome)
    }

    /// Steps 3 to 5. The version answered carries the time under which it is shown.
    pub(crate) async fn put_on_key(&self, names: &Names, v: &Version, by: Option<By<'_>>) -> Result<Outcome> {
        if marks::rename(v).is_some() {
            self.fill(names, v).await?;
            return Ok(Outcome::Done(Box::new(v.clone())));
        }
        let mut ticket = self.intend(names, by).await?;
        let outcome = self.try_on_key(names, v, &mut ticket).await;
        if let (Ok(_), Some((ticket, _))) = (&outcome, ticket) {
            ticket.ended(None);
        }
        outcome
    }

    /// Tells the change feed what is about to be done to the key, if its bucket is still there.
    async fn intend(&self, names: &Names, by: Option<By<'_>>) -> Result<Option<(Ticket, Versioning)>> {
        let (bucket, cause) = match by {
            Some((bucket, cause)) => (bucket.clone(), cause.cloned()),
            None => {
                let id = names.object.bucket();
                match self.registry.all().iter().map(|l| l.bucket()).find(|b| b.id == id) {
                    Some(bucket) => (bucket, None),
                    None => return Ok(None),
                }
            }
        };
        if !self.feed.wants(&bucket) {
            return Ok(None);
        }
        let cause = cause.unwrap_or_else(|| Arc::new(Cause { kind: Kind::Complete, ..Cause::default() }));
        let ticket = self.feed.intend(&bucket, names.object.key(), None, Some(&cause)).await?;
        Ok(ticket.map(|t| (t, bucket.versioning)))
    }

    /// Steps 3 to 5; takes the ticket when it was used.
    async fn try_on_key(
        &self,
        names: &Names,
        v: &Version,
        ticket: &mut Option<(Ticket, Versioning)>,
    ) -> Result<Outcome> {
        let id = names.id();
        let conditions = kept_conditions(v);
        loop {
            let key = self.backend.read_register(&names.object).await?;
            if let Some(Body::Held(held)) = key.as_ref().map(|r| &r.body) {
                self.settle_held(&names.object, held).await?;
                continue;
            }
            let list = versions::of(key.as_ref().map(|r| &r.body));
            if let Some(there) = list.iter().find(|l| marks::upload(l) == Some(id)) {
                return Ok(Outcome::Done(Box::new(there.clone())));
            }
            let upload = self.read_upload(names).await?;
            match upload_of(upload.as_deref()).map(|u| &u.state) {
                Some(UploadState::Completing(_)) => {}
                Some(UploadState::Done(done)) => return Ok(Outcome::Done(done.clone())),
                _ => return Ok(Outcome::Gone),
            }
            if let Some(number) = self.replaced_part(names, v).await? {
                self.reopen(names).await?;
                return Ok(Outcome::Refused(Error::InvalidPart(number)));
            }
            if let Err(e) = versions::check(&conditions, list, false) {
                self.reopen(names).await?;
                return Ok(Outcome::Refused(e));
            }
            let mut new = marks::clean(v);
            marks::set_upload(&mut new, id);
            let list = versions::with(list, new)?;
            // A null version made by another upload may be what this one replaces.
            let old = versions::of(key.as_ref().map(|r| &r.body));
            if let Some(other) = old
                .iter()
                .filter_map(marks::upload)
                .find(|m| !list.iter().any(|n| marks::upload(n) == Some(*m)))
            {
                self.settle_other(&names.object, other).await?;
                self.unmark(&names.object, other).await?;
                continue;
            }
            if let Err(e) = lock::guard(old, &list, || self.lock_time.now_ms(), Permit::default()) {
                self.reopen(names).await?;
                return Ok(Outcome::Refused(e));
            }
            let turn = match &*ticket {
                Some((ticket, _)) => ticket.turn().await,
                None => None,
            };
            if self.replace_exactly(&names.object, key.as_ref(), &list).await? {
                if let Some((ticket, versioning)) = ticket.take() {
                    let kind = ticket.cause().kind;
                    ticket.ended(Some(Effect::of(kind, &list[0], versioning)));
                }
                drop(turn);
                return Ok(Outcome::Done(Box::new(list[0].clone())));
            }
        }
    }

    /// CAS of the key's register from `from` to `list`.
    async fn replace_exactly(
        &self,
        key: &RegisterKey,
        from: Option<&Arc<Record>>,
        list: &[Version],
    ) -> Result<bool> {
        let mut changing = self.usage.begin(key.bucket(), key.key());
        let done = self.backend.update(key, None, |old| {
            changing.looks();
            if old != from.map(|r| &**r) {
                return Decision::Keep(false);
            }
            changing.proposes(versions::of(old.map(|r| &r.body)), list);
            let (body, summary) = versions::body(list.to_vec());
            Decision::Write { body, summary, moved: false, out: true }
        });
        match done.await {
            Ok(done) => {
                changing.took_effect();
                Ok(done)
            }
            Err(Failed::Refused(e)) => {
                changing.took_effect();
                Err(e)
            }
            Err(Failed::Set(Error::Busy)) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Steps 6 to 8 for a version that is on the key (or was).
    pub(crate) async fn finish(&self, names: &Names, v: &Version) -> Result<()> {
        self.finish_upload(names, v).await?;
        self.unmark(&names.object, names.id()).await
    }

    /// Steps 6 and 7.
    async fn finish_upload(&self, names: &Names, v: &Version) -> Result<()> {
        let record = self.read_upload(names).await?;
        if let Some(UploadState::Completing(fixed)) = upload_of(record.as_deref()).map(|u| &u.state) {
            // Of a rename: only then may it be forgotten.
            self.take(names, fixed).await?;
            self.clear_parts(names, Some(fixed)).await?;
            let mut result = marks::clean(v);
            result.parts.clear();
            if marks::rename(fixed).is_some() {
                // What is renamed keeps its time, but what is answered is kept from now on.
                result.modified_ms = self.now_ms();
            }
            let done = |u: &Upload| {
                matches!(u.state, UploadState::Completing(_))
                    .then(|| UploadState::Done(Box::new(result.clone())))
            };
            self.set_upload(names, true, done).await?;
        }
        Ok(())
    }

    /// Step 8: takes a mark off the key, when the upload is done.
    pub(crate) async fn unmark(&self, key: &RegisterKey, upload: UploadId) -> Result<()> {
        let done = self.backend.update(key, None, |old| {
            let list = versions::of(old.map(|r| &r.body));
            let Some(at) = list.iter().position(|v| marks::upload(v) == Some(upload)) else {
                return Decision::Keep(());
            };
            let mut list = list.to_vec();
            list[at] = marks::clean(&list[at]);
            let (body, summary) = versions::body(list);
            Decision::Write { body, summary, moved: false, out: () }
        });
        Ok(done.await?)
    }

    /// Makes sure that an upload whose mark the key carries is done, so that the version may be
    /// removed. Waits for whoever is completing it.
    pub(crate) async fn settle(&self, key: &RegisterKey, upload: UploadId) -> Result<()> {
        let lock = self.upload_lock(upload);
        let _turn = lock.lock().await;
        self.settle_other(key, upload).await
    }

    /// As [`Inner::settle`] without its lock: every step is a compare-and-set that only goes forward.
    async fn settle_other(&self, key: &RegisterKey, upload: UploadId) -> Result<()> {
        let names = Names::of(&self.backend, key.bucket(), key.key(), upload);
        let record = self.backend.read_register(key).await?;
        let list = versions::of(record.as_ref().map(|r| &r.body));
        match list.iter().find(|v| marks::upload(v) == Some(upload)) {
            Some(v) => self.finish_upload(&names, v).await,
            None => Ok(()),
        }
    }
}
