//! Keys that an attempt holds, to rename or to complete an upload: how readers interpret them, and how
//! writers free them (`ashlar_commit::attempt`; `rename` and `complete` hold keys).
//!
//! Invariants: every reader of the register of a key reads it here, or handles held keys itself; a held key
//! is never changed before its attempt is known to be over.
//!
//! Must not depend on: HTTP.

use ashlar_environment::time;
use std::sync::Arc;
use std::time::Duration;

use ashlar_commit::attempt::{Holds, Settle, State, read as holds, settle};
use ashlar_commit::upload::{self, Attempt, invalidate};
use ashlar_erasure_set::{Choice, Prefetched};
use ashlar_format::{
    Ballot, Body, BucketId, HeldKey, Record, RegisterKey, Space, Upload, UploadState, Version, VersionId,
};
use bytes::Bytes;

use crate::backend::{Backend, Decision, Failed, Page};
use crate::list_change::{ListChange, MissingInput};
use crate::marks;
use crate::store::Inner;
use crate::tally::Share;
use crate::types::UploadId;
use crate::upload_registers::{UploadRegisters, upload_of};
use crate::{Error, Result, summary, versions};

/// Most reads of a held key; each but the last found another attempt.
const MAX_READS: usize = 64;
/// How long a writer waits for an attempt of this process before it makes the attempt fail. It only saves
/// work: correctness does not depend on it.
const ATTEMPT_WAIT: Duration = Duration::from_secs(2);

/// Whether the upload in a register belongs to a rename.
pub(crate) fn is_rename_upload(record: Option<&Record>) -> bool {
    upload_of(record).is_some_and(|u| marks::rename(&u.template).is_some())
}

/// An upload that does not belong to a rename.
pub(crate) fn client_upload(upload: Option<&Upload>) -> Option<&Upload> {
    upload.filter(|u| marks::rename(&u.template).is_none())
}

/// An upload as the protocol models it.
pub(crate) fn protocol_state(u: &Upload) -> upload::Upload<&Version> {
    match &u.state {
        UploadState::Open(generation) => upload::Upload::Open(*generation),
        // A version without its attempt belongs to no completion; no key is held for it.
        UploadState::Completing(v) => {
            upload::Upload::Completing(Attempt::from_bytes(marks::attempt(v).unwrap_or_default()), v)
        }
        UploadState::Done(v) => upload::Upload::Done(v),
        UploadState::Aborted => upload::Upload::Aborted,
    }
}

/// The destination of the rename that the record belongs to, or the key of the upload.
fn destination<'a>(key: &'a RegisterKey, held: &'a HeldKey) -> &'a [u8] {
    held.to.as_deref().unwrap_or(key.key())
}

/// The registers of the rename or the upload that holds a key.
fn upload_registers_of(backend: &Backend, key: &RegisterKey, held: &HeldKey) -> UploadRegisters {
    UploadRegisters::of(backend, key.bucket(), destination(key, held), UploadId(held.upload))
}

/// The state of this attempt; `None`: the register does not contain it any more.
fn state(record: Option<&Record>, attempt: [u8; 16]) -> Option<State<&Version>> {
    let upload = upload_of(record)?;
    let Some((_, rename)) = marks::rename(&upload.template) else {
        return Some(protocol_state(upload).attempt(Attempt::from_bytes(attempt)));
    };
    let state = match &upload.state {
        UploadState::Open(_) => State::Open,
        UploadState::Completing(v) => State::Completing(&**v),
        UploadState::Done(v) => State::Done(&**v),
        UploadState::Aborted => State::Aborted,
    };
    (rename == attempt).then_some(state)
}

/// The versions of the key of the upload or rename after it has happened.
fn filled(before: &[Version], v: &Version, new: Version) -> Result<Vec<Version>> {
    // A renamed object replaces everything, and keeps its time.
    if marks::rename(v).is_some() { Ok(vec![new]) } else { versions::with(before, new) }
}

/// A record with the content of a held key; the versions in pages are as they were.
fn record_of(held: &Record, list: Vec<Version>) -> Option<Arc<Record>> {
    if list.is_empty() {
        return None;
    }
    let mut below = held.body.below().cloned();
    // A new null version hides the one that is in a page.
    if let Some(below) = &mut below
        && list.iter().any(|v| v.id == VersionId::ZERO)
    {
        below.null = None;
    }
    let body = versions::list_body(list, below.as_ref());
    Some(Arc::new(Record { seq: held.seq, parent: held.parent, nonce: held.nonce, body }))
}

/// Reads the register of a key as clients see it: never held.
pub(crate) async fn read(backend: &Backend, key: &RegisterKey) -> Result<Option<Arc<Record>>> {
    let record = backend.read_register(key).await?;
    shown(backend, key, record).await
}

/// What was read of a key for a reader of a version.
pub(crate) struct Found {
    /// As [`read`] returns it.
    pub record: Option<Arc<Record>>,
    /// The ballot under which that state was chosen; zero if it is not known.
    pub ballot: Ballot,
    /// Shards that came along.
    pub came: Prefetched,
}

/// Like [`read`]; shards of what `choice` chooses may come along.
pub(crate) async fn find(backend: &Backend, key: &RegisterKey, choice: Option<Choice<'_>>) -> Result<Found> {
    let (register, came) = match choice {
        Some(choice) => backend.read_register_for(key, choice).await?,
        None => (backend.read_register_with_ballot(key).await?, Prefetched::default()),
    };
    let (record, ballot) = register.map_or((None, Ballot::ZERO), |(record, ballot)| (Some(record), ballot));
    Ok(Found { record: shown(backend, key, record).await?, ballot, came })
}

async fn shown(
    backend: &Backend,
    key: &RegisterKey,
    record: Option<Arc<Record>>,
) -> Result<Option<Arc<Record>>> {
    match record {
        Some(r) if matches!(r.body, Body::HeldKey(_)) => resolve(backend, key, r).await,
        other => Ok(other),
    }
}

async fn resolve(backend: &Backend, key: &RegisterKey, first: Arc<Record>) -> Result<Option<Arc<Record>>> {
    let mut record = first;
    // The attempt that the register does not contain any more, once one was found.
    let mut unknown = None;
    for _ in 0..MAX_READS {
        let Body::HeldKey(held) = &record.body else { return Ok(Some(record)) };
        if unknown == Some(held.attempt) {
            return Ok(record_of(&record, held.versions.clone()));
        }
        let upload = backend.read_register(&upload_registers_of(backend, key, held).upload).await?;
        let state = state(upload.as_deref(), held.attempt);
        match (holds(state.as_ref()), state) {
            (Holds::After, Some(State::Completing(v))) => {
                let list = match held.to {
                    Some(_) => Vec::new(),
                    None => filled(&held.versions, v, marks::clean(v))?,
                };
                return Ok(record_of(&record, list));
            }
            (Holds::Before | Holds::After, _) => return Ok(record_of(&record, held.versions.clone())),
            (Holds::Again, _) => {
                unknown = Some(held.attempt);
                match backend.read_register(key).await? {
                    Some(again) => record = again,
                    None => return Ok(None),
                }
            }
        }
    }
    Err(Error::Busy)
}

/// Lists registers; for keys, what clients may see of them: never held.
pub(crate) async fn list(
    backend: &Backend,
    space: Space,
    bucket: BucketId,
    prefix: &[u8],
    from: &[u8],
    limit: usize,
) -> Result<Page> {
    let page = backend.list(space, bucket, prefix, from, limit).await?;
    as_clients_see(backend, space, bucket, page).await
}

/// [`Backend::list_folded`] as clients see it: a key without a version for them has an empty summary.
pub(crate) async fn list_folded(
    backend: &Backend,
    space: Space,
    bucket: BucketId,
    grouped: (&[u8], &[u8]),
    from: &[u8],
    limit: usize,
) -> Result<Page> {
    let page = backend.list_folded(space, bucket, grouped, from, limit).await?;
    as_clients_see(backend, space, bucket, page).await
}

async fn as_clients_see(backend: &Backend, space: Space, bucket: BucketId, mut page: Page) -> Result<Page> {
    if space == Space::Object {
        for (key, shown) in &mut page.entries {
            if summary::is_held(shown) {
                let key = RegisterKey::new(backend.group_of(bucket, key), space, bucket, key);
                let record = read(backend, &key).await?;
                *shown = record.map_or(Bytes::new(), |r| versions::summary(&r.body));
            }
        }
    }
    Ok(page)
}

impl Inner {
    /// Frees a key from the attempt that holds it. Waits briefly for an attempt of this process.
    pub(crate) async fn resolve_held_key(&self, key: &RegisterKey, held: &HeldKey) -> Result<()> {
        let attempt = self.upload_lock(UploadId(held.attempt));
        let upload = self.upload_lock(UploadId(held.upload));
        let both = async { (attempt.lock().await, upload.lock().await) };
        drop(time::timeout(ATTEMPT_WAIT, both).await);
        self.free(key, held).await
    }

    /// Like [`Inner::resolve_held_key`], without waiting: an attempt that has not happened yet is made to
    /// fail.
    pub(crate) async fn free(&self, key: &RegisterKey, held: &HeldKey) -> Result<()> {
        let registers = upload_registers_of(&self.backend, key, held);
        loop {
            let record = self.read_upload(&registers).await?;
            match settle(state(record.as_deref(), held.attempt).as_ref()) {
                Settle::Abort if is_rename_upload(record.as_deref()) => {
                    self.end_attempt(&registers, held.attempt, UploadState::Aborted).await?;
                }
                Settle::Abort => {
                    let attempt = Attempt::from_bytes(held.attempt);
                    let grown =
                        |u: &Upload| invalidate(Some(&protocol_state(u)), attempt).map(UploadState::Open);
                    self.set_upload(&registers, false, grown).await?;
                }
                Settle::RollForward => {
                    if let Some(UploadState::Completing(v)) = upload_of(record.as_deref()).map(|u| &u.state) {
                        return self.roll_forward(&registers, v).await;
                    }
                }
                Settle::Release => return self.release(key, held.attempt).await,
            }
        }
    }

    /// Frees the key of an upload that is over, if an unsuccessful attempt still holds it.
    pub(crate) async fn free_key(&self, registers: &UploadRegisters) -> Result<()> {
        let record = self.backend.read_register(&registers.object).await?;
        match record.as_ref().map(|r| &r.body) {
            Some(Body::HeldKey(held)) if held.upload == registers.id().0 => {
                self.free(&registers.object, held).await
            }
            _ => Ok(()),
        }
    }

    /// Ends this attempt of a rename, if it is open. Returns whether it was.
    pub(crate) async fn end_attempt(
        &self,
        registers: &UploadRegisters,
        attempt: [u8; 16],
        to: UploadState,
    ) -> Result<bool> {
        let mine = |u: &Upload| marks::rename(&u.template).is_some_and(|(_, a)| a == attempt);
        let open = |u: &Upload| (matches!(u.state, UploadState::Open(_)) && mine(u)).then(|| to.clone());
        self.set_upload(registers, false, open).await
    }

    /// Restores the content of a key from before the attempt, if this attempt still holds it.
    pub(crate) async fn release(&self, key: &RegisterKey, attempt: [u8; 16]) -> Result<()> {
        self.change_held_key(key, attempt, &[], |before| Ok(before.to_vec())).await
    }

    /// Puts the version of an attempt that happened on its key.
    pub(crate) async fn apply_version(&self, registers: &UploadRegisters, v: &Version) -> Result<()> {
        let Some(attempt) = marks::attempt(v) else {
            return Err(Error::Internal("a version without its attempt".to_owned()));
        };
        let mut new = marks::clean(v);
        marks::set_upload(&mut new, registers.id());
        // A null version replaces the null version.
        let ids: &[VersionId] = if v.id == VersionId::ZERO { &[VersionId::ZERO] } else { &[] };
        self.change_held_key(&registers.object, attempt, ids, |before| filled(before, v, new.clone())).await
    }

    /// Removes the renamed version from its source, after the rename happened.
    pub(crate) async fn remove_source(&self, registers: &UploadRegisters, v: &Version) -> Result<()> {
        let Some((source, attempt)) = marks::rename(v) else { return Ok(()) };
        let group = self.backend.group_of(registers.object.bucket(), source.as_bytes());
        let key = RegisterKey::new(group, Space::Object, registers.object.bucket(), source.as_bytes());
        self.change_held_key(&key, attempt, &[], |_| Ok(Vec::new())).await
    }

    /// `ids`: the versions besides the newest ones that `next` has to see.
    async fn change_held_key(
        &self,
        key: &RegisterKey,
        attempt: [u8; 16],
        ids: &[VersionId],
        next: impl Fn(&[Version]) -> Result<Vec<Version>> + Sync,
    ) -> Result<()> {
        let mut change = ListChange::new(self.version_bounds);
        let mut changing = self.usage.begin(key.bucket(), key.key());
        loop {
            let mut wanted = None;
            let staged = change.staged(None);
            let done = self.update(key, &staged, |old| {
                changing.retry();
                let body = match old.map(|r| &r.body) {
                    Some(body @ Body::HeldKey(held)) if held.attempt == attempt => body,
                    _ => return Decision::Keep(()),
                };
                let view = change.view(Some(body), ids);
                let decision = view.and_then(|view| {
                    let list = next(view.versions()).map_err(MissingInput::Never)?;
                    change.decide(&view, list, |next| {
                        changing.propose(Share::of_body(Some(body)), Share::of_body(Some(next)));
                    })
                });
                decision.unwrap_or_else(|w| {
                    wanted = Some(w);
                    Decision::Refuse(Error::Busy)
                })
            });
            match (done.await, wanted) {
                (Err(Failed::Refused(_)), Some(wanted)) => {
                    change.provide(&self.backend, key, wanted).await?;
                }
                (done, _) => {
                    done?;
                    changing.commit();
                    return Ok(());
                }
            }
        }
    }
}
