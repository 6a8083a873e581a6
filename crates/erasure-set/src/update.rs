//! Changing a register (docs/protocol.md 2.3): prepare, decide, stage, accept.
//!
//! [`ashlar_commit::Proposer`] decides what may be done; this file sends the messages and waits. One update
//! of a key runs at a time inside this process (`keylock`), so its own requests never duel.
//!
//! Invariants: a decision that does not write is answered only from a state known to be chosen; a record that
//! names data is sent only after k' + f of its shards are durable (I4), except in one-sync mode, where shard
//! and record become durable together; after an ACCEPT was sent, staged data is never dropped here, because
//! another proposer may complete the record.
//!
//! Must not depend on: what a version means beyond the data it names.

use crate::invariants::named_no_more;
use crate::key_turn::{ATTEMPTS, KeyTurn};
use crate::outcome::{LAST_READ, Stop};
use crate::propose::{Attempt, Based};
use crate::register::{Done, LAYOUTS, Register};
use crate::sent_records::{Sent, SentRecords};
use crate::sets::{Inner, Sets};
use crate::stored::{OneSyncRecord, Parent};
use crate::table::View;
use crate::write::Staged;
use crate::{Error, Result};
use ashlar_commit::{OneSync, SlotSet};
use ashlar_environment::time::{self, Instant};
use ashlar_format::{Ballot, Body, Data, Record, RegisterKey, WriteId};
use bytes::Bytes;
use futures::future::{BoxFuture, Either, select};
use smallvec::SmallVec;
use std::sync::Arc;

/// The decision about a register.
#[derive(Debug)]
pub enum Decision<R, E> {
    /// Make `body` the new state.
    Write {
        /// The new state. `durable` is filled in where it names staged data.
        body: Body,
        /// What listings return for the key, at most 256 bytes; empty: the key is not listed
        /// (always so for a tombstone).
        summary: Bytes,
        /// What happens to data that the old state names and the new one does not: false: it is dropped;
        /// true: another register names it now.
        moved: bool,
        /// The answer.
        out: R,
    },
    /// As [`Decision::Write`], where the old or the new state has version pages: only the caller knows what
    /// they name.
    Rewrite {
        /// The new state.
        body: Body,
        /// As for [`Decision::Write`].
        summary: Bytes,
        /// Data that the old state names, itself or by its pages, and the new one does not.
        dropped: Vec<Data>,
        /// Staged data that the new state names by its pages.
        below: Vec<WriteId>,
        /// The answer.
        out: R,
    },
    /// Keep the state, and return this answer.
    Keep(R),
    /// Keep the state, and return this error.
    Refuse(E),
}

/// A successful update.
#[derive(Debug)]
pub struct Updated<R> {
    /// The answer of the decision.
    pub out: R,
    /// The place of the update in the order of all changes of the register: the ballot under which its record was sent, or,
    /// if it kept the state, one above that of every change that it saw and below that of every later one.
    pub ballot: Ballot,
    /// The register after the update; `None`: it has no record.
    pub register: Option<Register>,
}

/// Why an update failed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError<E> {
    /// The decision returned an error.
    #[error("refused")]
    Refused(E),
    /// The drives could not execute it.
    #[error(transparent)]
    Set(#[from] Error),
}

/// A [`Decision`] whose answer stays with the caller, so that an update is compiled once and not for every
/// type of answer. `answer` is the index of the answer.
pub(crate) enum Choice {
    Write { body: Body, summary: Bytes, follows: Follows, answer: usize },
    Keep { answer: usize },
    Refuse,
}

/// What becomes of data that the old state names.
pub(crate) enum Follows {
    /// What the new one does not name is dropped.
    Drop,
    /// Another register names it.
    Moved,
    /// This is dropped; and this staged data is named by pages.
    Pages(Vec<Data>, Vec<WriteId>),
}

/// Decides; may be called several times.
type Decide<'a> = dyn FnMut(Option<&Record>) -> Choice + Send + 'a;

/// The decision returned an error, or the drives could not execute the update.
type Stopped = UpdateError<()>;

/// Records, however an update ends, that its record was sent with an unknown outcome.
struct UndecidedGuard<'a> {
    inner: &'a Inner,
    key: &'a RegisterKey,
    hash: u64,
    sent: bool,
}

impl Drop for UndecidedGuard<'_> {
    fn drop(&mut self) {
        if self.sent {
            self.inner.undecided_registers.add(self.key, self.hash);
            self.inner.heals.push(self.key, false);
        }
    }
}

impl Sets {
    /// Changes a register by a function of its state. `decide` may be called several times; if it keeps or
    /// refuses, its answer is returned only after the state it saw is known to be chosen. `staged`: data that
    /// the new state may name.
    ///
    /// # Errors
    /// [`UpdateError::Refused`] from `decide`; [`Error::Unavailable`], [`Error::Contended`], [`Error::Full`];
    /// [`Error::Unknown`] if the change may or may not have happened.
    pub async fn update_register<R: Send, E: Send>(
        &self,
        key: &RegisterKey,
        staged: &[&Staged],
        mut decide: impl FnMut(Option<&Record>) -> Decision<R, E> + Send,
    ) -> Result<Updated<R>, UpdateError<E>> {
        let mut answers: SmallVec<[Option<R>; 1]> = SmallVec::new();
        let mut refused = None;
        let done = {
            let mut note = |out| {
                answers.push(Some(out));
                answers.len() - 1
            };
            let mut choose = |base: Option<&Record>| match decide(base) {
                Decision::Write { body, summary, moved, out } => {
                    let follows = if moved { Follows::Moved } else { Follows::Drop };
                    Choice::Write { body, summary, follows, answer: note(out) }
                }
                Decision::Rewrite { body, summary, dropped, below, out } => {
                    let follows = Follows::Pages(dropped, below);
                    Choice::Write { body, summary, follows, answer: note(out) }
                }
                Decision::Keep(out) => Choice::Keep { answer: note(out) },
                Decision::Refuse(e) => {
                    refused = Some(e);
                    Choice::Refuse
                }
            };
            self.decide_and_write(key, staged, &mut choose).await
        };
        match done {
            Ok(Done { answer, ballot, register }) => {
                let Some(out) = answers[answer].take() else { unreachable!("an update ends once") };
                Ok(Updated { out, ballot, register })
            }
            Err(UpdateError::Refused(())) => {
                let Some(e) = refused else { unreachable!("only a decision refuses") };
                Err(UpdateError::Refused(e))
            }
            Err(UpdateError::Set(e)) => Err(UpdateError::Set(e)),
        }
    }

    /// The update without its generic types.
    fn decide_and_write<'a>(
        &'a self,
        key: &'a RegisterKey,
        staged: &'a [&'a Staged],
        decide: &'a mut Decide<'_>,
    ) -> BoxFuture<'a, Result<Done, Stopped>> {
        Box::pin(async move {
            let hash = ashlar_checksum::key_hash(key.as_bytes());
            let mut turn = self.inner.turn(hash).await;
            let mut undecided = UndecidedGuard { inner: &self.inner, key, hash, sent: false };
            let mut sent = SentRecords::default();
            let (began, mut round, mut layouts) = (Instant::now(), 0, 0);
            loop {
                let view = self.inner.view(key.group())?;
                if round > 0
                    && let Some(done) = self.inner.meet(key, hash, &mut turn, round, &mut sent).await
                {
                    undecided.sent = false;
                    return Ok(done);
                }
                round += 1;
                match self.inner.attempt(&view, key, staged, decide, &mut sent, &mut undecided).await {
                    Ok(Some(done)) => {
                        undecided.sent = false;
                        return Ok(done);
                    }
                    Ok(None) if self.inner.may_propose_again(round, began) => {}
                    Ok(None) => break,
                    Err(UpdateError::Refused(())) => {
                        undecided.sent = false;
                        return Err(UpdateError::Refused(()));
                    }
                    // A deletion of the bucket began in between: it may end soon.
                    Err(UpdateError::Set(Error::BucketFenced(_))) if !sent.is_empty() && round < ATTEMPTS => {
                    }
                    // Drives that follow a newer layout refuse proposals of this one.
                    Err(UpdateError::Set(Error::Unavailable(_)))
                        if layouts < LAYOUTS && self.inner.newer_layout(&[view]).await =>
                    {
                        layouts += 1;
                        if sent.is_empty() {
                            round = 0;
                        }
                    }
                    Err(UpdateError::Set(e)) if sent.may_be_applied() => {
                        tracing::debug!(?key, "an update whose record was sent cannot be ended: {e}");
                        return Err(Error::Unknown(sent.ballot()).into());
                    }
                    Err(e) => return Err(e),
                }
            }
            Err(if sent.may_be_applied() { Error::Unknown(sent.ballot()) } else { Error::Contended }.into())
        })
    }
}

impl Inner {
    /// The proposal of an update met those of others: waits for its turn, and meanwhile looks for what became of the records
    /// that it has sent. A record that is found applied ends the update. The turn ends the look: others wait for it.
    async fn meet(
        &self,
        key: &RegisterKey,
        hash: u64,
        turn: &mut KeyTurn,
        round: u32,
        sent: &mut SentRecords,
    ) -> Option<Done> {
        let met = std::pin::pin!(self.met(turn, hash, round));
        let stop = Stop::default();
        let learned = std::pin::pin!(self.learn_outcome(key, sent, &stop));
        match select(learned, met).await {
            Either::Left((None, met)) => {
                met.await;
                None
            }
            Either::Left((applied, _)) => applied,
            Either::Right(((), learned)) => {
                stop.stop();
                time::timeout(LAST_READ, learned).await.ok().flatten()
            }
        }
    }

    /// One attempt in a view; `None`: try again.
    async fn attempt(
        &self,
        view: &Arc<View>,
        key: &RegisterKey,
        staged: &[&Staged],
        decide: &mut Decide<'_>,
        sent: &mut SentRecords,
        undecided: &mut UndecidedGuard<'_>,
    ) -> Result<Option<Done>, Stopped> {
        let hash = undecided.hash;
        let prepared = Attempt::prepare(self, view.clone(), key, hash, !sent.is_empty()).await?;
        let Some(mut attempt) = prepared else { return Ok(None) };
        let this = (&**view, key, attempt.ballot());
        let base = attempt.base.take();
        // The usual update has sent nothing before.
        let seen = base.as_ref().filter(|_| !sent.is_empty()).map(Based::lineage);
        if let Some((answer, ballot)) = sent.find(seen, attempt.purged())? {
            // The base may not be chosen yet: answer only once it is.
            let known = attempt.chosen_known();
            if !known && self.watching(this, sent, attempt.complete(base.as_ref())).await.0?.is_none() {
                return Ok(None);
            }
            let register = base.map(|b| attempt.register(b));
            return Ok(Some(Done { answer, ballot, register }));
        }
        let choice = decide(base.as_ref().map(|b| &*b.record));
        let (mut body, summary, follows, answer) = match choice {
            Choice::Write { body, summary, follows, answer } => (body, summary, follows, answer),
            Choice::Keep { answer } => {
                // No record of an earlier failed operation may appear after this answer.
                let settle = async {
                    attempt.await_all_promises().await;
                    if attempt.idle_known() { Ok(Some(())) } else { attempt.complete(base.as_ref()).await }
                };
                if self.watching(this, sent, settle).await.0?.is_none() {
                    return Ok(None);
                }
                let ballot = attempt.ballot();
                let register = base.map(|b| attempt.register(b));
                return Ok(Some(Done { answer, ballot, register }));
            }
            Choice::Refuse => {
                let known = attempt.chosen_known();
                if !known && self.watching(this, sent, attempt.complete(base.as_ref())).await.0?.is_none() {
                    return Ok(None);
                }
                return Err(UpdateError::Refused(()));
            }
        };
        if summary.len() > 256 {
            return Err(Error::Invalid("a summary has at most 256 bytes").into());
        }
        attempt.tombstone = matches!(body, Body::Tombstone);
        attempt.check_fence()?;
        let summary = if attempt.tombstone { Bytes::new() } else { summary };
        let named: SmallVec<[&Staged; 2]> =
            staged.iter().copied().filter(|s| names(&body, &s.data) || follows.names(&s.data)).collect();
        let seq = base.as_ref().map_or(1, |b| b.record.seq + 1);
        let parent = base.as_ref().map_or(0, |b| b.digest);

        if !follows.has_pages() && self.fits_one_sync(attempt.view(), &named) {
            // A promise costs less than the flush that it saves.
            if self.unless_overtaken(this, sent, attempt.await_all_promises()).await.is_none() {
                return Ok(None);
            }
        }
        let one_sync_record = self.one_sync(&attempt, &named).filter(|_| !follows.has_pages());
        let parent_summary = match one_sync_record {
            None => Bytes::new(),
            Some(_) => match attempt.summary_of(base.as_ref()).await {
                Some(s) => s,
                None => return Ok(None),
            },
        };
        let needed = if let Some(one) = &one_sync_record {
            set_durable(&mut body, &named[0].data, one.targets);
            0
        } else {
            match self.unless_overtaken(this, sent, attempt.stage(&named, &mut body)).await {
                Some(needed) => needed?,
                None => return Ok(None),
            }
        };
        let nonce = self.ids.nonce();
        let record = Record { seq, parent, nonce, body };
        if let Some(b) = &base {
            let next = record.seq == b.record.seq + 1 && record.parent == b.digest;
            assert!(next && attempt.ballot() > b.ballot, "I5: {key:?} is not built on its base");
        }
        let bytes = Bytes::from(record.encode());
        let digest = Record::digest(&bytes);
        for s in &named {
            s.keep();
        }
        undecided.sent = true;
        // A record without a nonce may be made again after a purge.
        let parent = base.as_ref().map_or(0, |b| if b.record.nonce == 0 { 0 } else { b.digest });
        sent.push(Sent { seq, digest, parent, ballot: attempt.ballot(), answer });
        let drops = dropped(base.as_ref().map(|b| &*b.record), &record, follows);
        named_no_more(&drops, &record);
        let chosen = match one_sync_record {
            None => attempt.accept(bytes, summary, needed, drops).await?,
            Some(one_sync) => {
                let staged = named[0];
                let one_sync_record = OneSyncRecord {
                    one_sync,
                    write_id: staged.data.write_id,
                    parent: base.as_ref().map_or_else(Parent::default, |b| Parent::of(&b.bytes, &bytes)),
                    parent_ballot: base.as_ref().map_or(Ballot::ZERO, |b| b.ballot),
                    parent_summary,
                };
                attempt.accept_one_sync(bytes, summary, &one_sync_record, staged, drops).await?
            }
        };
        let Some((stored_digest, stored)) = chosen else { return Ok(None) };
        named.iter().for_each(|s| s.was_named());
        attempt.queue_unfinished_shards(&named);
        sent.pop();
        let record = Arc::new(record);
        let ballot = attempt.ballot();
        self.cache.put(hash, key, ballot, stored_digest, &record, stored.bytes.len());
        self.cache.keep(hash, key, ballot, stored);
        self.cache.decided(hash, key, ballot);
        let register = Some(Register { ballot, digest: stored_digest, record });
        Ok(Some(Done { answer, ballot, register }))
    }

    /// Whether the write can be made with one flush if every slot promises.
    fn fits_one_sync(&self, view: &View, named: &[&Staged]) -> bool {
        let [staged] = named else { return false };
        self.options.one_sync && staged.is_pending() && staged.needed <= view.quorum.majority()
    }

    /// Whether the write can be made with one flush: one small body, every slot a voter that promised, and a
    /// majority is enough to choose it (so that reads need no other count).
    fn one_sync(&self, attempt: &Attempt<'_>, named: &[&Staged]) -> Option<OneSync> {
        let [staged] = named else { return None };
        let all = attempt.view().quorum.all();
        let fits = self.fits_one_sync(attempt.view(), named) && attempt.promised() == all;
        fits.then_some(OneSync { k: staged.data.k, needed: staged.needed, targets: all })
    }
}

/// Every piece of data of a body, for changing.
pub(crate) fn each_data(body: &mut Body, mut f: impl FnMut(&mut Data)) {
    use ashlar_format::UploadState;
    let versions: &mut [ashlar_format::Version] = match body {
        Body::Tombstone => &mut [],
        Body::Versions(v) => v,
        Body::Paged(p) => {
            f(&mut p.below.root.page.data);
            &mut p.head
        }
        Body::HeldKey(h) => {
            if let Some(below) = &mut h.below {
                f(&mut below.root.page.data);
            }
            &mut h.versions
        }
        Body::Part(parts) => {
            parts.iter_mut().for_each(|p| f(&mut p.data));
            &mut []
        }
        Body::Upload(u) => match &mut u.state {
            UploadState::Completing(v) | UploadState::Done(v) => std::slice::from_mut(v),
            _ => &mut [],
        },
    };
    for v in versions {
        for p in &mut v.parts {
            f(&mut p.data);
        }
    }
}

/// Records which slots hold the data.
pub(crate) fn set_durable(body: &mut Body, data: &Data, slots: SlotSet) {
    each_data(body, |d| {
        if d.write_id == data.write_id {
            d.durable = slots.0;
        }
    });
}

fn names(body: &Body, data: &Data) -> bool {
    if let Body::Part(parts) = body {
        return parts.iter().any(|p| p.data.write_id == data.write_id);
    }
    let root = body.below().is_some_and(|b| b.root.page.data.write_id == data.write_id);
    root || body.newest().iter().any(|v| v.parts.iter().any(|p| p.data.write_id == data.write_id))
}

impl Follows {
    /// Pages that are written with the record name this staged data.
    fn names(&self, data: &Data) -> bool {
        matches!(self, Follows::Pages(_, below) if below.contains(&data.write_id))
    }

    /// Pages are written with the record.
    fn has_pages(&self) -> bool {
        matches!(self, Follows::Pages(_, below) if !below.is_empty())
    }
}

/// Data that `old` names and `new` does not.
fn dropped(old: Option<&Record>, new: &Record, follows: Follows) -> crate::tail_queue::Drops {
    let Some(old) = old else { return SmallVec::new() };
    match follows {
        Follows::Drop => {}
        Follows::Moved => return SmallVec::new(),
        Follows::Pages(dropped, _) => return dropped.into(),
    }
    // What pages name cannot be seen here: a change of a list with pages says itself what it drops.
    let pages = |r: &Record| r.body.below().map(|b| b.root.page.data.write_id);
    assert_eq!(pages(old), pages(new), "I10: a change of version pages does not say what it drops");
    let kept = |d: &Data| new.data().any(|p| p.data.write_id == d.write_id);
    old.data().map(|p| p.data).filter(|d| !kept(d)).collect()
}

#[cfg(test)]
#[path = "tests/again.rs"]
mod tests;
