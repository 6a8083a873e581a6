//! Renames: everything but the name stays; they are atomic in every order of steps and with a crash between
//! any two (`ashlar-model`'s `rename` checks the same in a small world).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::interleave::block;
use super::{Pool, Rng, Store, again, get, memory, part, put, put_if, read};
use crate::feed::{Cause, Kind, NOTIFICATION};
use crate::memory::Memory;
use crate::*;

fn bytes(n: u64) -> Bytes {
    Bytes::from(format!("value {n}"))
}

async fn rename_with(s: &Store, from: &str, to: &str, spec: &RenameSpec) -> Result<()> {
    for _ in 0..8 {
        let source = s.get("bucket", from, None).await?;
        match s.rename(&source, to, spec).await {
            Err(Error::Changed) => {}
            done => return done,
        }
    }
    Err(Error::Conflict)
}

async fn rename(s: &Store, from: &str, to: &str) -> Result<()> {
    rename_with(s, from, to, &RenameSpec::default()).await
}

async fn keys(s: &Store) -> Vec<String> {
    let page = s.list("bucket", &ListSpec { max_keys: 1000, ..ListSpec::default() }).await.unwrap();
    page.entries.into_iter().map(|e| e.key).collect()
}

async fn bucket() -> (Store, Arc<Memory>, ashlar_cluster::Control) {
    let (store, memory, control) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    (store, memory, control)
}

#[tokio::test]
async fn rename_changes_only_the_key() {
    let (store, memory, _) = bucket().await;
    let spec = VersionSpec {
        meta: vec![("content-type".into(), "a/b".into()), ("x-amz-meta-a".into(), "1".into())],
        tags: vec![("t".into(), "2".into())],
        acl: "owner\nREAD id:x".into(),
        ..VersionSpec::default()
    };
    let upload = UploadSpec {
        version: spec.clone(),
        checksum: Some((Algorithm::Crc32c, true)),
        ..UploadSpec::default()
    };
    let id = store.create_upload("bucket", "a", upload).await.unwrap();
    let (one, two) = (Rng(3).body(150), Rng(4).body(70));
    let mut list = Vec::new();
    for (number, body) in [(3, &one), (7, &two)] {
        let p = part(&store, "bucket", "a", id, number, body).await.unwrap();
        list.push(CompletedPart { number, etag: p.etag, checksum: p.checksum });
    }
    store.complete_upload("bucket", "a", id, &list, None, &Conditions::NONE).await.unwrap();
    let before = store.get("bucket", "a", None).await.unwrap().version().clone();
    rename(&store, "a", "dir/b").await.unwrap();
    let object = store.get("bucket", "dir/b", None).await.unwrap();
    let mut after = object.version().clone();
    assert_eq!(read(&object).await.unwrap(), [&one[..], &two[..]].concat());
    assert_eq!((object.part_range(1), object.part_range(2)), (Some(0..150), Some(150..220)));
    for (a, b) in after.parts.iter_mut().zip(&before.parts) {
        assert_ne!(a.data.write_id, b.data.write_id);
        a.data = b.data;
    }
    assert_eq!(after, before);
    assert!(matches!(store.get("bucket", "a", None).await, Err(Error::NoSuchKey { .. })));
    assert_eq!(keys(&store).await, ["dir/b"]);
    // The replaced data is dropped, and an empty object has nothing to copy.
    put(&store, "bucket", "empty", &Bytes::new()).await.unwrap();
    rename(&store, "empty", "dir/b").await.unwrap();
    assert_eq!(get(&store, "bucket", "dir/b", None).await.unwrap(), b"");
    store.delete("bucket", "dir/b", None, &Conditions::NONE).await.unwrap();
    store.sweep(i64::MAX / 2).await.unwrap();
    assert_eq!(memory.census(), (0, 0));
}

#[tokio::test]
async fn refused_rename_changes_nothing() {
    let (store, memory, _) = bucket().await;
    let a = put(&store, "bucket", "a", &bytes(1)).await.unwrap();
    put(&store, "bucket", "b", &bytes(2)).await.unwrap();
    let tag = |etag: ETag| Match::Tags(vec![EntityTag { weak: false, tag: etag.to_string() }]);
    let other = ETag { md5: [1; 16], parts: 0 };
    let on = |source, conditions| RenameSpec { source, conditions, ..RenameSpec::default() };
    let is = |m| Conditions { if_match: Some(m), ..Conditions::NONE };
    let not = |m| Conditions { if_none_match: Some(m), ..Conditions::NONE };
    let none = || Conditions::NONE;
    for refused in [
        on(is(tag(other)), none()),
        on(not(tag(a.etag)), none()),
        on(none(), not(Match::Any)),
        on(none(), is(tag(other))),
        on(Conditions { if_unmodified_since: Some(1), ..none() }, none()),
        on(Conditions { if_modified_since: Some(i64::MAX / 2), ..none() }, none()),
    ] {
        let r = rename_with(&store, "a", "b", &refused).await;
        assert!(matches!(r, Err(Error::PreconditionFailed)), "{refused:?} {r:?}");
    }
    let r = rename_with(&store, "a", "c", &on(none(), is(Match::Any))).await;
    assert!(matches!(r, Err(Error::NoSuchKey { .. })), "{r:?}");
    assert!(matches!(rename(&store, "a", "a").await, Err(Error::InvalidRequest(_))));
    assert!(matches!(rename(&store, "c", "a").await, Err(Error::NoSuchKey { .. })));
    assert!(matches!(rename(&store, "a", &"x".repeat(1025)).await, Err(Error::KeyTooLong)));
    // The version that was found is not the present one any more.
    let found = store.get("bucket", "a", None).await.unwrap();
    put(&store, "bucket", "a", &bytes(3)).await.unwrap();
    assert!(matches!(store.rename(&found, "b", &RenameSpec::default()).await, Err(Error::Changed)));
    assert_eq!(get(&store, "bucket", "a", None).await.unwrap(), bytes(3));
    assert_eq!(get(&store, "bucket", "b", None).await.unwrap(), bytes(2));
    assert_eq!(memory.census(), (2, 2), "nothing is left of them");
    let conditions = on(is(tag(store.get("bucket", "a", None).await.unwrap().etag())), is(Match::Any));
    rename_with(&store, "a", "b", &conditions).await.unwrap();
    assert_eq!(keys(&store).await, ["b"]);
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    let r = rename(&store, "b", "c").await;
    assert!(matches!(r, Err(Error::InvalidRequest(why)) if why.contains("versioning")));
}

#[tokio::test]
async fn rename_retry_with_token_returns_same_answer() {
    let (store, memory, control) = bucket().await;
    put(&store, "bucket", "a", &bytes(1)).await.unwrap();
    let spec = RenameSpec { token: Some([9; 16]), ..RenameSpec::default() };
    assert!(!store.rename_happened("bucket", "a", "b", [9; 16]).await.unwrap());
    rename_with(&store, "a", "b", &spec).await.unwrap();
    // A new source of the same name is another object: the retry belongs to the old one.
    put(&store, "bucket", "a", &bytes(2)).await.unwrap();
    let store = again(&memory, &control);
    assert!(store.rename_happened("bucket", "a", "b", [9; 16]).await.unwrap());
    rename_with(&store, "a", "b", &spec).await.unwrap();
    assert_eq!(get(&store, "bucket", "a", None).await.unwrap(), bytes(2));
    assert!(matches!(store.rename_happened("bucket", "c", "b", [9; 16]).await, Err(Error::TokenReused)));
    // The register of a rename is not visible as an upload.
    let id = UploadId([9; 16]);
    let none = store.list_uploads("bucket", &UploadListSpec { max_uploads: 9, ..Default::default() }).await;
    assert!(none.unwrap().uploads.is_empty());
    assert!(matches!(store.abort_upload("bucket", "b", id).await, Err(Error::NoSuchUpload)));
    let done = store.complete_upload("bucket", "b", id, &[], None, &Conditions::NONE).await;
    assert!(matches!(done, Err(Error::NoSuchUpload)), "{done:?}");
    assert!(matches!(store.list_parts("bucket", "b", id, 0, 9).await, Err(Error::NoSuchUpload)));
    // The result is kept for a day, regardless of the age of the object.
    store.sweep(store.inner.now_ms() + 23 * 3600 * 1000).await.unwrap();
    assert!(store.rename_happened("bucket", "a", "b", [9; 16]).await.unwrap());
    store.sweep(store.inner.now_ms() + 25 * 3600 * 1000).await.unwrap();
    assert!(!store.rename_happened("bucket", "a", "b", [9; 16]).await.unwrap());
}

#[tokio::test]
async fn rename_of_encrypted_object_copies_ciphertext() {
    let (store, ..) = bucket().await;
    let key = ContentKey::new([5; 32]);
    let seal = Seal { key: key.clone(), cipher: Cipher::Aes256Gcm, envelope: "under a".into(), md5: true };
    let body = Rng(5).body(200_000);
    let mut p = store.put_sealed("bucket", "a", PutSpec::new(body.len() as u64), Some(seal)).await.unwrap();
    p.write(body.clone()).await.unwrap();
    p.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
    assert!(matches!(rename(&store, "a", "b").await, Err(Error::KeyNeeded)));
    let spec = RenameSpec { envelope: Some("under b".into()), ..RenameSpec::default() };
    rename_with(&store, "a", "b", &spec).await.unwrap();
    let object = store.get("bucket", "b", None).await.unwrap();
    assert_eq!(object.sealed().unwrap().envelope, "under b");
    let mut pieces = object.read_with(100_000..150_000, Some(&key)).await.unwrap();
    let mut got = Vec::new();
    while let Some(piece) = pieces.next().await {
        got.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(got, body[100_000..150_000]);
}

#[tokio::test]
async fn rename_is_recorded_and_counted() {
    let (store, ..) = bucket().await;
    store.set_bucket_document("bucket", NOTIFICATION, Some("x")).await.unwrap();
    store.open_feed().await.unwrap();
    let mut reader = store.feed().reader("r").await.unwrap();
    let store = store.by(Arc::new(Cause { kind: Kind::Rename, who: "me".into(), ..Cause::default() }));
    put(&store, "bucket", "a", &bytes(1)).await.unwrap();
    rename(&store, "a", "b").await.unwrap();
    let refused = RenameSpec {
        conditions: Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE },
        ..RenameSpec::default()
    };
    put(&store, "bucket", "c", &bytes(1)).await.unwrap();
    assert!(rename_with(&store, "b", "c", &refused).await.is_err());
    let batch = reader.next(100).await.unwrap();
    let told: Vec<_> = batch.changes.iter().map(|c| (c.kind.name(), c.key.as_str(), c.size)).collect();
    assert_eq!(told[1..3], [("rename", "b", 7), ("delete", "a", 7)]);
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(batch.changes.iter().all(|c| c.cause.who == "me"));
}

/// The parameters of a call.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Put(usize, u64),
    Create(usize, u64),
    Delete(usize),
    Get(usize),
    Rename(usize, usize),
    /// Only onto an absent key.
    RenameFree(usize, usize),
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Yes,
    Value(Option<u64>),
    /// The source does not exist.
    Absent,
    /// The condition does not hold.
    Refused,
    /// It gave up, or the key changed too often: nothing was done.
    Lost,
    Unknown,
}

const KEYS: [&str; 3] = ["b", "a", "c"];

async fn make(s: Store, ask: Ask) -> Outcome {
    let free = RenameSpec {
        conditions: Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE },
        ..RenameSpec::default()
    };
    let done = match ask {
        Ask::Put(k, v) => put(&s, "bucket", KEYS[k], &bytes(v)).await.map(|_| ()),
        Ask::Create(k, v) => put_if(&s, "bucket", KEYS[k], &bytes(v), &free.conditions).await.map(|_| ()),
        Ask::Delete(k) => s.delete("bucket", KEYS[k], None, &Conditions::NONE).await.map(|_| ()),
        Ask::Rename(from, to) => rename(&s, KEYS[from], KEYS[to]).await,
        Ask::RenameFree(from, to) => rename_with(&s, KEYS[from], KEYS[to], &free).await,
        Ask::Get(k) => return value(&s, k).await.map_or(Outcome::Lost, Outcome::Value),
    };
    match done {
        Ok(()) => Outcome::Yes,
        Err(Error::NoSuchKey { .. }) => Outcome::Absent,
        Err(Error::PreconditionFailed) => Outcome::Refused,
        Err(Error::Conflict | Error::Busy) => Outcome::Lost,
        Err(Error::Unavailable(_)) => Outcome::Unknown,
        Err(e) => panic!("{ask:?}: {e}"),
    }
}

/// The value of a key; `None`: it changed too often to be read.
async fn value(s: &Store, k: usize) -> Option<Option<u64>> {
    for _ in 0..8 {
        match get(s, "bucket", KEYS[k], None).await {
            Ok(b) => {
                let n = std::str::from_utf8(&b).unwrap().strip_prefix("value ").unwrap().parse().unwrap();
                return Some(Some(n));
            }
            Err(Error::NoSuchKey { .. }) => return Some(None),
            Err(Error::Changed | Error::Unavailable(_)) => {}
            Err(e) => panic!("{e}"),
        }
    }
    None
}

type State = [Option<u64>; KEYS.len()];

/// The effect of a call on all keys together, if this answer is possible; with an unknown answer, its
/// possible effects.
fn after(state: &State, ask: Ask, outcome: &Outcome) -> Option<State> {
    let mut next = *state;
    let maybe = *outcome == Outcome::Unknown;
    let set = |cond: bool| if maybe { cond } else { cond == (*outcome == Outcome::Yes) };
    let ok = match ask {
        Ask::Put(k, v) => {
            next[k] = Some(v);
            true
        }
        Ask::Create(k, v) => {
            let free = state[k].is_none();
            if free {
                next[k] = Some(v);
            }
            set(free) && (free || maybe || *outcome == Outcome::Refused)
        }
        Ask::Delete(k) => {
            next[k] = None;
            true
        }
        Ask::Get(k) => maybe || *outcome == Outcome::Value(state[k]),
        Ask::Rename(from, to) | Ask::RenameFree(from, to) => {
            let only_free = matches!(ask, Ask::RenameFree(..));
            let can = state[from].is_some() && !(only_free && state[to].is_some());
            if can {
                next[to] = next[from].take();
            }
            match outcome {
                Outcome::Absent => state[from].is_none(),
                Outcome::Refused => only_free && state[to].is_some(),
                _ => can,
            }
        }
    };
    ok.then_some(next)
}

/// One call: its parameters, the polls of the whole run between which it took place, and the answer.
type Event = (Ask, usize, usize, Outcome);

/// The calls so far, and the number of the present poll.
#[derive(Clone, Default)]
struct Log {
    now: Rc<Cell<usize>>,
    events: Rc<RefCell<Vec<Event>>>,
}

impl Log {
    /// Makes a call and records it; an interrupted one stays unknown.
    async fn make(&self, s: &Store, ask: Ask) {
        let at = self.events.borrow().len();
        self.events.borrow_mut().push((ask, self.now.get(), usize::MAX, Outcome::Unknown));
        let outcome = make(s.clone(), ask).await;
        let mut events = self.events.borrow_mut();
        (events[at].2, events[at].3) = (self.now.get(), outcome);
    }
}

/// Whether some sequential order of the calls explains all answers and the last state. Interrupted calls may
/// have happened or not.
fn explained(events: &[Event], last: &State) -> bool {
    fn go(
        events: &[Event],
        done: u32,
        state: &State,
        last: &State,
        dead: &mut HashSet<(u32, State)>,
    ) -> bool {
        if !dead.insert((done, *state)) {
            return false;
        }
        let open = |i: &usize| done & 1 << i == 0;
        let left: Vec<usize> = (0..events.len()).filter(open).collect();
        if left.iter().all(|i| matches!(events[*i].3, Outcome::Unknown | Outcome::Lost)) && state == last {
            return true;
        }
        // Nothing may follow a call that ended before it began.
        let first_end = left.iter().map(|i| events[*i].2).min().unwrap_or(usize::MAX);
        for i in left {
            let (ask, begin, _, outcome) = &events[i];
            if *begin > first_end {
                continue;
            }
            let done = done | 1 << i;
            if *outcome == Outcome::Lost || *outcome == Outcome::Unknown {
                if go(events, done, state, last, dead) {
                    return true;
                }
                if *outcome == Outcome::Lost {
                    continue;
                }
            }
            if let Some(next) = after(state, *ask, outcome)
                && go(events, done, &next, last, dead)
            {
                return true;
            }
        }
        false
    }
    go(events, 0, &[None; KEYS.len()], last, &mut HashSet::new())
}

type Call = Pin<Box<dyn Future<Output = ()>>>;

/// One run: a seed decides the calls and every step; after `stop` polls the server is gone.
async fn one(seed: u64, stop: usize) -> bool {
    let mut rng = Rng(seed);
    let (store, memory, control) = bucket().await;
    let other = again(&memory, &control);
    let log = Log::default();
    for k in 0..2 {
        log.make(&store, Ask::Put(k, k as u64)).await;
    }
    let mut calls: Vec<Option<Call>> = Vec::new();
    for i in 0..3 + rng.below(4) {
        let k = rng.below(3) as usize;
        let to = (k + 1 + rng.below(2) as usize) % 3;
        let kind = if i == 0 { 0 } else { rng.below(9) };
        let asks = match kind {
            0..=2 => vec![Ask::Rename(k, to)],
            3 => vec![Ask::RenameFree(k, to)],
            4 => vec![Ask::Put(k, 10 + i)],
            5 => vec![Ask::Create(k, 10 + i)],
            6 => vec![Ask::Delete(k)],
            // One reader after another: what one has seen, the next one must see.
            _ => vec![Ask::Get(k), Ask::Get(to), Ask::Get(k), Ask::Get(to), Ask::Get(k)],
        };
        // Two coordinators, which are independent of each other.
        let (log, store) = (log.clone(), if rng.chance(2) { store.clone() } else { other.clone() });
        calls.push(Some(Box::pin(async move {
            for ask in asks {
                log.make(&store, ask).await;
            }
        })));
    }
    let mut cx = Context::from_waker(Waker::noop());
    for now in 1..stop {
        let alive: Vec<usize> = (0..calls.len()).filter(|i| calls[*i].is_some()).collect();
        if alive.is_empty() {
            break;
        }
        // Some run for a while before others do anything: long overtaking is rare otherwise.
        let i = *rng.pick(&alive);
        log.now.set(now);
        let polls = if rng.chance(4) { 1 + rng.below(20) } else { 1 };
        for _ in 0..polls {
            if let Some(call) = &mut calls[i]
                && let Poll::Ready(()) = call.as_mut().poll(&mut cx)
            {
                calls[i] = None;
            }
        }
    }
    let cut = calls.iter().any(Option::is_some);
    drop(calls);
    drop((store, other));
    let events = log.events.take();
    let renamed = events.iter().any(|(a, .., c)| matches!(a, Ask::Rename(..)) && *c == Outcome::Yes);

    let store = again(&memory, &control);
    // Half of the time the collector comes first, half of the time readers.
    if rng.chance(2) {
        store.sweep(0).await.unwrap();
    }
    let at = || format!("seed {seed:#x} stop {stop}: {events:?}");
    let mut last: State = [None; KEYS.len()];
    for (k, now) in last.iter_mut().enumerate() {
        *now = block(value(&store, k)).unwrap_or_else(|| panic!("unreadable: {}", at()));
    }
    assert!(explained(&events, &last), "{last:?} is not explained: {}", at());
    let mut there: Vec<&str> = (0..KEYS.len()).filter(|k| last[*k].is_some()).map(|k| KEYS[k]).collect();
    there.sort_unstable();
    assert_eq!(keys(&store).await, there, "{}", at());
    // The present objects can be changed, and nothing is left when all are deleted.
    for key in KEYS {
        if rng.chance(2) {
            put(&store, "bucket", key, &bytes(99)).await.unwrap();
            assert_eq!(get(&store, "bucket", key, None).await.unwrap(), bytes(99), "{}", at());
        }
        store.delete("bucket", key, None, &Conditions::NONE).await.unwrap();
    }
    store.delete_bucket("bucket").await.unwrap_or_else(|e| panic!("{e}: {}", at()));
    store.sweep(i64::MAX / 2).await.unwrap();
    let (registers, bodies) = memory.census();
    assert_eq!(registers, 0, "{}", at());
    // The orphan collector removes a body that was interrupted before a register named it.
    assert!(bodies == 0 || cut, "{bodies} bodies: {}", at());
    renamed
}

#[tokio::test]
async fn every_order() {
    let mut renamed = 0;
    for seed in 1..=3000 * super::times() {
        renamed += u64::from(one(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), usize::MAX).await);
    }
    assert!(renamed > 1000, "{renamed} runs had a rename that happened");
}

#[tokio::test]
async fn crash_at_any_point() {
    for seed in 1..=60 * super::times() {
        for stop in 2..80 {
            one(seed.wrapping_mul(0xd134_2543_de82_ef95), stop).await;
        }
    }
}

/// The drives fail after this number of operations; then the same checks, and a retry.
#[tokio::test]
async fn failing_drives_at_any_point() {
    let mut unknown = 0;
    for steps in 0..30 {
        let (store, memory, control) = bucket().await;
        put(&store, "bucket", "a", &bytes(1)).await.unwrap();
        put(&store, "bucket", "b", &bytes(2)).await.unwrap();
        let spec = RenameSpec { token: Some([7; 16]), ..RenameSpec::default() };
        memory.limit(steps);
        let done = rename_with(&store, "a", "b", &spec).await;
        memory.limit(-1);
        let store = if steps % 2 == 0 { again(&memory, &control) } else { store };
        let state = (value(&store, 1).await.unwrap(), value(&store, 0).await.unwrap());
        match &done {
            Ok(()) => assert_eq!(state, (None, Some(1)), "{steps}"),
            Err(Error::Unavailable(_)) => {
                assert!(state == (None, Some(1)) || state == (Some(1), Some(2)), "{steps}: {state:?}")
            }
            Err(e) => panic!("{steps}: {e}"),
        }
        unknown += u32::from(done.is_err());
        if !store.rename_happened("bucket", "a", "b", [7; 16]).await.unwrap() {
            rename_with(&store, "a", "b", &spec).await.unwrap();
        }
        assert_eq!(keys(&store).await, ["b"]);
        assert_eq!(get(&store, "bucket", "b", None).await.unwrap(), bytes(1));
        store.delete("bucket", "b", None, &Conditions::NONE).await.unwrap();
        store.sweep(i64::MAX / 2).await.unwrap();
        assert_eq!(memory.census().0, 0, "{steps}");
    }
    assert!(unknown > 8, "the test must meet the interesting steps: {unknown}");
}

/// A reader that begins after the rename has happened and sleeps after each of its steps never sees the
/// source again.
#[tokio::test]
async fn rename_with_slow_reader_of_source() {
    let mut met = 0;
    for steps in 1..40 {
        for naps in 1..6 {
            let (store, ..) = bucket().await;
            put(&store, "bucket", "a", &bytes(1)).await.unwrap();
            let mut cx = Context::from_waker(Waker::noop());
            let mut call = Box::pin(rename(&store, "a", "b"));
            let done = (0..steps).any(|_| call.as_mut().poll(&mut cx).is_ready());
            if done || value(&store, 1).await.unwrap().is_some() {
                continue;
            }
            // Like a HEAD: the bytes are gone, which would be detected.
            let mut reader = Box::pin(store.get("bucket", "a", None));
            let early = (0..naps).find_map(|_| match reader.as_mut().poll(&mut cx) {
                Poll::Ready(v) => Some(v),
                Poll::Pending => None,
            });
            block(call).unwrap();
            let seen = early.unwrap_or_else(|| block(reader));
            assert!(matches!(seen, Err(Error::NoSuchKey { .. })), "{steps} {naps}");
            met += 1;
        }
    }
    assert!(met > 10, "{met}");
}

/// One change takes effect and its answer is lost: the outcome is unknown to the caller, and the state is
/// right.
#[tokio::test]
async fn lost_answer_at_any_point() {
    let mut unknown = 0;
    for changes in 0..12 {
        let (store, memory, control) = bucket().await;
        put(&store, "bucket", "a", &bytes(1)).await.unwrap();
        put(&store, "bucket", "b", &bytes(2)).await.unwrap();
        memory.lose(changes);
        let done = rename(&store, "a", "b").await;
        memory.lose(-1);
        unknown += u32::from(done.is_err());
        for store in [store, again(&memory, &control)] {
            let state = (value(&store, 1).await.unwrap(), value(&store, 0).await.unwrap());
            let happened = state == (None, Some(1));
            assert!(happened || done.is_err() && state == (Some(1), Some(2)), "{changes}: {state:?}");
            store.sweep(0).await.unwrap();
            assert_eq!(happened, value(&store, 1).await.unwrap().is_none(), "{changes}");
        }
        for key in ["a", "b"] {
            let store = again(&memory, &control);
            store.delete("bucket", key, None, &Conditions::NONE).await.unwrap();
            store.sweep(i64::MAX / 2).await.unwrap();
        }
        assert_eq!(memory.census(), (0, 0), "{changes}");
    }
    assert!(unknown > 3, "the test must meet the interesting steps: {unknown}");
}

/// The same over real drives, by two coordinators at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_drives() {
    let mut pool = Pool::new(4).await;
    pool.sole = false;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let (other, sets) = pool.gateway(2);
    let mut rng = Rng(8);
    let bodies: BTreeMap<u64, Bytes> = (0..4).map(|n| (n, rng.body(3 + (n as usize) * 700_000))).collect();
    for n in 0..4u64 {
        put(&store, "bucket", &format!("k{n}"), &bodies[&n]).await.unwrap();
    }
    // A ring: every key is a source and a destination.
    let turn = |s: Store| async move {
        let mut done = 0;
        for i in 0..24u64 {
            let (from, to) = (i % 4, (i + 1) % 4);
            match rename(&s, &format!("k{from}"), &format!("r{to}")).await {
                Ok(()) => done += 1,
                // The outcome of the last one is unknown.
                Err(Error::NoSuchKey { .. } | Error::Conflict | Error::Busy | Error::Unavailable(_)) => {}
                Err(e) => panic!("{e}"),
            }
            match rename(&s, &format!("r{to}"), &format!("k{from}")).await {
                Ok(()) => done += 1,
                // The outcome of the last one is unknown.
                Err(Error::NoSuchKey { .. } | Error::Conflict | Error::Busy | Error::Unavailable(_)) => {}
                Err(e) => panic!("{e}"),
            }
        }
        done
    };
    let (a, b) = tokio::join!(tokio::spawn(turn(store.clone())), tokio::spawn(turn(other.clone())));
    assert!(a.unwrap() + b.unwrap() > 20);
    drop(other);
    sets.stop().await;
    pool.close().await;
    // One drive is missing: the bytes are the same.
    let store = pool.open(&[2]).await;
    store.sweep(0).await.unwrap();
    let mut seen = Vec::new();
    for key in keys(&store).await {
        let got = get(&store, "bucket", &key, None).await.unwrap();
        let n = bodies.iter().find(|(_, b)| got == b[..]).unwrap_or_else(|| panic!("{key} is nobody's")).0;
        seen.push(*n);
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3], "each is there once");
    pool.close().await;
}
