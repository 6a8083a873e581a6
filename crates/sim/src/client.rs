//! One call of a client: it is made at a coordinator, and its outcome is recorded in the history.
//!
//! Invariants: a call belongs to the process of the coordinator, so a crash ends it without an answer to its
//! client. A body identifies its value, and every byte of it is checked. An error that means that nothing
//! happened removes the call from the history; an error that leaves the outcome open records it as unknown;
//! every other error is a finding.
//!
//! Must not depend on: which calls are made.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::simulation::spawn_in;
use ashlar_environment::time::{timeout, wall_ms};
use ashlar_format::{Version, VersionId};
use ashlar_history::History;
use ashlar_object::{
    CompletedPart, Conditions, ETag, EntityTag, Error, Expired, KeyVersions, ListSpec, Match, PartSpec,
    PutSpec, RenameSpec, Result, Store, ToExpire, UploadId, UploadSpec, VersionListSpec, VersionSpec,
};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::cluster::Cluster;
use crate::keys::{Answer, Call, Value};
use crate::plan::Mutant;

/// The bucket without versions.
pub const PLAIN: &str = "plain";
/// The bucket with versions.
pub const VERSIONED: &str = "versions";
/// How long a client waits for an answer.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The same for a sweep, which is a job of a node and makes many calls one after another: while no voter can be spared and every tenth exchange
/// is lost, each of them takes seconds.
pub const SWEEP_PATIENCE: Duration = Duration::from_secs(600);

/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3600 * 1000;

/// The state that all clients share.
pub struct Clients {
    /// The cluster that they use.
    pub cluster: Arc<Cluster>,
    /// Their calls and answers; groups are those of [`group`].
    pub history: History<Call, Answer>,
    /// Observations that contradict the guarantees.
    pub findings: Mutex<Vec<String>>,
}

/// The outcome of a call, as the client sees it.
#[derive(Clone, Debug)]
pub enum Outcome<T> {
    /// An answer.
    Answer(T),
    /// The call had no effect; the reason.
    NoEffect(String),
    /// It is unknown whether the call took effect; the reason.
    Unknown(String),
}

/// The name of a key.
#[must_use]
pub fn name(key: u8) -> String {
    format!("key-{key}")
}

/// The bucket of a key.
#[must_use]
pub fn bucket(key: u8) -> &'static str {
    if key >= 100 { VERSIONED } else { PLAIN }
}

/// The group of a key. Keys of one group are checked together: 0 and 1, because of renames between them.
#[must_use]
pub fn group(key: u8) -> usize {
    usize::from(key.max(1))
}

/// The body of a value: from a few bytes to several frames of a shard.
#[must_use]
pub fn body(value: Value) -> Bytes {
    let len = match value % 7 {
        0 => 20_000,
        1 => 6_000,
        _ => 8 + value as usize % 100,
    };
    let mut bytes: Vec<u8> = value.to_le_bytes().to_vec();
    bytes.extend((8..len as u64).map(|i| (i ^ value) as u8));
    Bytes::from(bytes)
}

/// The value of a body, if the body is valid.
fn value_of(bytes: &[u8]) -> Option<Value> {
    let value = Value::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    (body(value)[..] == *bytes).then_some(value)
}

/// The result of a successful put.
#[derive(Clone, Debug)]
pub struct Put {
    /// The value.
    pub value: Value,
    /// The version, in a bucket with versions.
    pub version: Option<VersionId>,
}

/// The result of a read.
#[derive(Clone, Debug)]
pub struct Got {
    /// The value.
    pub value: Value,
    /// Its entity tag.
    pub etag: ETag,
}

async fn put(store: Store, key: u8, value: Value, conditions: Conditions) -> Result<Option<VersionId>> {
    let bytes = body(value);
    let mut put =
        store.put(&store.bucket(bucket(key))?, &name(key), PutSpec::new(bytes.len() as u64)).await?;
    put.write(bytes).await?;
    Ok(put.commit(VersionSpec::default(), &conditions).await?.version_id)
}

async fn get(store: Store, key: u8, version: Option<VersionId>) -> Result<Got> {
    let whole = |size| Some(0..size);
    let object = store.get_to_read(&store.bucket(bucket(key))?, &name(key), version, &whole).await?;
    let mut body = object.read(0..object.size()).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    let value = value_of(&bytes).ok_or_else(|| Error::Corrupt("a body that was never put".to_owned()))?;
    Ok(Got { value, etag: object.etag() })
}

impl Clients {
    /// Clients that have made no call yet.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>) -> Arc<Clients> {
        Arc::new(Clients { cluster, history: History::default(), findings: Mutex::default() })
    }

    /// Records a finding.
    pub fn report(&self, what: impl Into<String>) {
        let what = what.into();
        self.cluster.note(|| format!("FOUND {what}"));
        self.findings.lock().push(what);
    }

    /// Makes a call at a coordinator. `what` is the text for the trace.
    pub async fn at<T, F>(&self, coordinator: usize, what: &str, work: impl FnOnce(Store) -> F) -> Outcome<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.within(PATIENCE, coordinator, what, work).await
    }

    async fn within<T, F>(
        &self,
        patience: Duration,
        coordinator: usize,
        what: &str,
        work: impl FnOnce(Store) -> F,
    ) -> Outcome<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let Some(c) = self.cluster.coordinator(coordinator) else {
            return Outcome::NoEffect("it is down".to_owned());
        };
        let work = work(c.store.clone());
        drop(c.store);
        let task = spawn_in(c.process, "call", work);
        let done = timeout(patience, task).await;
        self.cluster.network.while_paused(coordinator).await;
        let outcome = match done {
            Err(_) => {
                self.report(format!("{what} at coordinator {coordinator} was not answered in {patience:?}"));
                Outcome::Unknown("no answer".to_owned())
            }
            Ok(Err(_)) => Outcome::Unknown("the coordinator crashed".to_owned()),
            Ok(Ok(Ok(answer))) => Outcome::Answer(answer),
            Ok(Ok(Err(e))) => self.judge(what, &e),
        };
        self.cluster.note(|| {
            let outcome = match &outcome {
                Outcome::Answer(_) => "done".to_owned(),
                Outcome::NoEffect(why) => format!("no: {why}"),
                Outcome::Unknown(why) => format!("unknown: {why}"),
            };
            format!("{what} at coordinator {coordinator}: {outcome}")
        });
        outcome
    }

    fn judge<T>(&self, what: &str, e: &Error) -> Outcome<T> {
        match e {
            Error::Unavailable(_) | Error::ControlStore(_) | Error::Full => Outcome::Unknown(e.to_string()),
            Error::Busy | Error::Conflict | Error::Changed => Outcome::NoEffect(e.to_string()),
            Error::PreconditionFailed
            | Error::NoSuchKey { .. }
            | Error::NoSuchVersion
            | Error::DeleteMarker { .. }
            | Error::NoSuchUpload
            | Error::InvalidPart(_)
            | Error::NoSuchBucket
            | Error::BucketNotEmpty
            | Error::BucketExists
            | Error::QuotaExceeded { .. } => Outcome::NoEffect(format!("{e:?}")),
            e => {
                self.report(format!("{what} answered: {e:?}"));
                Outcome::Unknown(e.to_string())
            }
        }
    }

    /// Records the outcome of a call in the history. `failed`: errors of these kinds mean that the condition
    /// of the call did not hold.
    fn record<T>(&self, id: usize, outcome: &Outcome<T>, failed: &[&str], answer: impl FnOnce(&T) -> Answer) {
        match outcome {
            Outcome::Answer(t) => self.history.end(id, Ok::<_, ()>(answer(t))),
            Outcome::NoEffect(why) if failed.iter().any(|f| why.starts_with(f)) => {
                self.history.end(id, Ok::<_, ()>(Answer::Failed));
            }
            Outcome::NoEffect(_) => self.history.never(id),
            Outcome::Unknown(_) => self.history.end(id, Err::<Answer, _>(())),
        }
    }

    /// Puts a value.
    pub async fn put(&self, at: usize, key: u8, value: Value) -> Outcome<Put> {
        let id = self.history.call(group(key), Call::Put(key, value));
        let outcome =
            self.at(at, &format!("put {key} {value}"), |s| put(s, key, value, Conditions::NONE)).await;
        self.record(id, &outcome, &[], |_| Answer::Done);
        outcome.map(|version| Put { value, version })
    }

    /// Puts a value if there is none.
    pub async fn create(&self, at: usize, key: u8, value: Value) {
        let id = self.history.call(group(key), Call::Create(key, value));
        let none = Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE };
        let outcome = self.at(at, &format!("create {key} {value}"), |s| put(s, key, value, none)).await;
        self.record(id, &outcome, &["PreconditionFailed"], |_| Answer::Done);
    }

    /// Puts a value if the key still has the one that was read.
    pub async fn replace(&self, at: usize, key: u8, old: &Got, value: Value) {
        let id = self.history.call(group(key), Call::Replace(key, old.value, value));
        let tag = EntityTag { weak: false, tag: old.etag.to_string() };
        let same = Conditions { if_match: Some(Match::Tags(vec![tag])), ..Conditions::NONE };
        let what = format!("replace {key} {} {value}", old.value);
        let outcome = self.at(at, &what, |s| put(s, key, value, same)).await;
        self.record(id, &outcome, &["PreconditionFailed", "NoSuchKey"], |_| Answer::Done);
    }

    /// Deletes a key.
    pub async fn delete(&self, at: usize, key: u8) -> Outcome<()> {
        let id = self.history.call(group(key), Call::Delete(key));
        let work = |s: Store| async move {
            s.delete(&s.bucket(bucket(key))?, &name(key), None, &Conditions::NONE).await.map(|_| ())
        };
        let outcome = self.at(at, &format!("delete {key}"), work).await;
        self.record(id, &outcome, &[], |()| Answer::Done);
        outcome
    }

    /// Reads a key.
    pub async fn get(&self, at: usize, key: u8) -> Outcome<Option<Got>> {
        let id = self.history.call(group(key), Call::Get(key));
        let what = format!("get {key}");
        let outcome = self.at(at, &what, |s| absent(get(s, key, None))).await;
        self.record(id, &outcome, &[], |got| Answer::Read(got.as_ref().map(|g| g.value)));
        self.cluster.note(|| match &outcome {
            Outcome::Answer(got) => format!("  {key} is {:?}", got.as_ref().map(|g| g.value)),
            _ => String::new(),
        });
        outcome
    }

    /// Reads one version of a key.
    pub async fn get_version(&self, at: usize, key: u8, of: &Put) {
        let id = self.history.call(group(key), Call::GetVersion(key, of.value));
        let version = of.version;
        let what = format!("get {key} version {}", of.value);
        let outcome = self.at(at, &what, |s| absent(get(s, key, version))).await;
        self.record(id, &outcome, &[], |got| Answer::Read(got.as_ref().map(|g| g.value)));
    }

    /// Removes one version of a key.
    pub async fn delete_version(&self, at: usize, key: u8, of: &Put) {
        let id = self.history.call(group(key), Call::DeleteVersion(key, of.value));
        let version = of.version;
        let work = |s: Store| async move {
            s.delete(&s.bucket(bucket(key))?, &name(key), version, &Conditions::NONE).await.map(|_| ())
        };
        let outcome = self.at(at, &format!("delete {key} version {}", of.value), work).await;
        self.record(id, &outcome, &[], |()| Answer::Done);
    }

    /// A lifecycle pass removes the value that it has read.
    pub async fn expire(&self, at: usize, key: u8, old: &Got) {
        let id = self.history.call(group(key), Call::Expire(key, old.value));
        let (tag, blind) = (old.etag, self.cluster.plan.mutant == Some(Mutant::BlindExpiry));
        let mut due = move |found: &KeyVersions<'_>| {
            let same = |v: &Version| blind || (v.md5, v.parts_count) == (tag.md5, tag.parts);
            ToExpire { current: found.versions.first().is_some_and(same), versions: Vec::new() }
        };
        let work =
            move |s: Store| async move { s.expire(&s.bucket(bucket(key))?, &name(key), &mut due).await };
        let outcome = self.at(at, &format!("expire {key} {}", old.value), work).await;
        let answer = |e: &Expired| if e.current == 1 { Answer::Done } else { Answer::Failed };
        self.record(id, &outcome, &[], answer);
    }

    /// Collects what uploads and renames left behind.
    pub async fn sweep(&self, at: usize) {
        let early = self.cluster.plan.mutant == Some(Mutant::SweepsEarly);
        let ahead = if early { 2 * DAY_MS } else { 0 };
        let work = move |s: Store| async move { s.sweep(wall_ms() + ahead).await };
        let outcome = self.within(SWEEP_PATIENCE, at, "sweep", work).await;
        self.cluster.note(|| format!("  swept: {outcome:?}"));
    }

    /// Lists all versions of a key; `known` maps a version to its value.
    pub async fn versions(&self, at: usize, key: u8) {
        let id = self.history.call(group(key), Call::Versions(key));
        let work = |s: Store| async move {
            let prefix = name(key);
            let spec = VersionListSpec { prefix: &prefix, max_keys: 1000, ..VersionListSpec::default() };
            let page = s.list_versions(&s.bucket(bucket(key))?, &spec).await?;
            let mut values = Vec::new();
            for e in page.entries {
                let value = match e.delete_marker {
                    true => None,
                    false => Some(get(s.clone(), key, Some(e.version_id)).await?.value),
                };
                values.push(value);
            }
            Ok(values)
        };
        let outcome = self.at(at, &format!("versions of {key}"), work).await;
        self.record(id, &outcome, &[], |values| Answer::Versions(values.clone()));
    }

    /// Lists the bucket without versions, in pages. Records for each of `keys` whether it is shown, and
    /// checks that it is shown once.
    pub async fn list(&self, at: usize, keys: &[u8], page: usize) {
        // All answers of the list have these times.
        let id = self.history.call(usize::MAX, Call::Shown(0));
        let work = move |s: Store| async move {
            let (mut names, mut after) = (Vec::new(), String::new());
            loop {
                let spec = ListSpec { start_after: &after, max_keys: page, ..ListSpec::default() };
                let got = s.list(&s.bucket(PLAIN)?, &spec).await?;
                names.extend(got.entries.into_iter().map(|e| e.key));
                match got.next.filter(|_| got.truncated) {
                    Some(next) => after = next,
                    None => return Ok(names),
                }
            }
        };
        let outcome = self.at(at, "list", work).await;
        let Outcome::Answer(names) = outcome else { return self.history.never(id) };
        self.history.end(id, Ok::<_, ()>(Answer::Shown(true)));
        self.cluster.note(|| format!("  shown: {names:?}"));
        if names.windows(2).any(|w| w[0] >= w[1]) {
            self.report(format!("a list is out of order, or shows a key twice: {names:?}"));
        }
        for key in keys {
            let shown = names.contains(&name(*key));
            self.history.same_time(id, group(*key), Call::Shown(*key), Answer::Shown(shown));
        }
    }

    /// Renames the object that was read.
    pub async fn rename(&self, at: usize, from: u8, to: u8, what: &Got) {
        let id = self.history.call(group(from), Call::Rename(from, to, what.value));
        let seen = what.etag;
        let work = |s: Store| async move {
            // Read again, so that the store that renames has read the object itself.
            let now = s.get(&s.bucket(bucket(from))?, &name(from), None).await?;
            if now.etag() != seen {
                return Err(Error::Changed);
            }
            s.rename(&now, &name(to), &RenameSpec::default()).await.map(|_| ())
        };
        let outcome = self.at(at, &format!("rename {from} to {to}, {}", what.value), work).await;
        // An error "not found" is no evidence: the key may have been deleted and created again.
        self.record(id, &outcome, &[], |()| Answer::Done);
    }

    /// Begins an upload with one part.
    pub async fn begin(&self, at: usize, key: u8, value: Value) -> Outcome<(UploadId, ETag)> {
        let work = |s: Store| async move {
            let (b, k) = (bucket(key), name(key));
            let id = s.create_upload(&s.bucket(b)?, &k, UploadSpec::default()).await?;
            let bytes = body(value);
            let spec = PartSpec { number: 1, size: bytes.len() as u64, checksum: None, want_md5: true };
            let mut part = s.upload_part(&s.bucket(b)?, &k, id, spec).await?;
            part.write(bytes).await?;
            Ok((id, part.commit().await?.etag))
        };
        self.at(at, &format!("begin an upload to {key}, {value}"), work).await
    }

    /// Completes an upload.
    pub async fn complete(&self, at: usize, key: u8, value: Value, upload: (UploadId, ETag)) -> Outcome<()> {
        let id = self.history.call(group(key), Call::Complete(value, key, value));
        let work = |s: Store| async move {
            let list = [CompletedPart { number: 1, etag: upload.1, checksum: None }];
            let done = s
                .complete_upload(
                    &s.bucket(bucket(key))?,
                    &name(key),
                    upload.0,
                    &list,
                    None,
                    &Conditions::NONE,
                )
                .await;
            done.map(|_| ())
        };
        let outcome = self.at(at, &format!("complete the upload of {value} to {key}"), work).await;
        self.record(id, &outcome, &["NoSuchUpload"], |()| Answer::Done);
        outcome
    }

    /// Aborts an upload.
    pub async fn abort(&self, at: usize, key: u8, value: Value, upload: UploadId) -> Outcome<()> {
        let id = self.history.call(group(key), Call::Abort(value));
        let work =
            |s: Store| async move { s.abort_upload(&s.bucket(bucket(key))?, &name(key), upload).await };
        let outcome = self.at(at, &format!("abort the upload of {value} to {key}"), work).await;
        self.record(id, &outcome, &["NoSuchUpload"], |()| Answer::Done);
        outcome
    }
}

impl<T> Outcome<T> {
    /// The same outcome with another answer.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Answer(t) => Outcome::Answer(f(t)),
            Outcome::NoEffect(why) => Outcome::NoEffect(why),
            Outcome::Unknown(why) => Outcome::Unknown(why),
        }
    }

    /// The answer, if there is one.
    pub fn ok(self) -> Option<T> {
        match self {
            Outcome::Answer(t) => Some(t),
            Outcome::NoEffect(_) | Outcome::Unknown(_) => None,
        }
    }
}

/// Turns "not found" into an answer.
async fn absent(found: impl Future<Output = Result<Got>>) -> Result<Option<Got>> {
    match found.await {
        Ok(got) => Ok(Some(got)),
        Err(Error::NoSuchKey { .. } | Error::NoSuchVersion | Error::DeleteMarker { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}
