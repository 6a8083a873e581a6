//! Concurrent calls in every order of steps, and a crash between any two steps (T14).
//!
//! The store in memory yields before each step, so an executor that picks the next call by a seed decides the
//! whole interleaving. The memory backend checks that nothing named is dropped and nothing dropped is named.
//! After each run the store is opened again, swept, and compared with the answers to the callers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ashlar_checksum::md5_once;
use ashlar_format::VersionId;
use bytes::Bytes;

use super::{Rng, Store, again, get, memory, part, put};
use crate::*;

type Call = Pin<Box<dyn Future<Output = Outcome>>>;

/// The answer to a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Put(Option<VersionId>),
    Deleted,
    Completed(Vec<u8>),
    Aborted,
    Part,
    No(String),
    Unknown,
}

fn outcome_of<T>(r: Result<T>, yes: Outcome) -> Outcome {
    match r {
        Ok(_) => yes,
        Err(Error::Unavailable(_)) => Outcome::Unknown,
        Err(e) => Outcome::No(e.to_string()),
    }
}

/// Polls the calls in an order drawn from `rng` until all are done or `stop` polls were made. Polling a call
/// that waits for a lock is useless but harmless.
fn run(calls: &mut [Option<Call>], rng: &mut Rng, stop: usize) -> Vec<Option<Outcome>> {
    let mut out: Vec<Option<Outcome>> = vec![None; calls.len()];
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..stop {
        let alive: Vec<usize> = (0..calls.len()).filter(|i| calls[*i].is_some()).collect();
        if alive.is_empty() {
            break;
        }
        let i = *rng.pick(&alive);
        if let Some(call) = &mut calls[i]
            && let Poll::Ready(t) = call.as_mut().poll(&mut cx)
        {
            out[i] = Some(t);
            calls[i] = None;
        }
    }
    out
}

pub(super) fn block<F: Future>(f: F) -> F::Output {
    let mut f = Box::pin(f);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1_000_000 {
        if let Poll::Ready(t) = f.as_mut().poll(&mut cx) {
            return t;
        }
    }
    panic!("stuck");
}

struct Scene {
    /// Bodies that part 1 may have.
    bodies: Vec<Bytes>,
    versioning: Versioning,
    conditional: bool,
}

fn calls(store: &Store, id: UploadId, scene: &Scene, etag: ETag, rng: &mut Rng) -> Vec<Option<Call>> {
    let n = 2 + rng.below(4);
    let mut out: Vec<Option<Call>> = Vec::new();
    for i in 0..n {
        let store = store.clone();
        let kind = if i == 0 { 0 } else { rng.below(7) };
        let body = rng.pick(&scene.bodies).clone();
        let conditions = if scene.conditional {
            Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE }
        } else {
            Conditions::NONE
        };
        out.push(Some(Box::pin(async move {
            match kind {
                0..=2 => {
                    let list = [CompletedPart { number: 1, etag, checksum: None }];
                    let r = store.complete_upload("bucket", "k", id, &list, None, &conditions).await;
                    let md5 = r.as_ref().map(|c| c.committed.etag.md5.to_vec()).unwrap_or_default();
                    outcome_of(r, Outcome::Completed(md5))
                }
                3 => outcome_of(store.abort_upload("bucket", "k", id).await, Outcome::Aborted),
                4 => outcome_of(part(&store, "bucket", "k", id, 1, &body).await, Outcome::Part),
                5 => {
                    let r = put(&store, "bucket", "k", &Bytes::from_static(b"put")).await;
                    let id = r.as_ref().ok().and_then(|c| c.version_id);
                    outcome_of(r, Outcome::Put(id))
                }
                _ => outcome_of(store.delete("bucket", "k", None, &Conditions::NONE).await, Outcome::Deleted),
            }
        })));
    }
    out
}

/// One run: concurrent calls, cut off after `stop` polls (a crash of the process), then a restart, a retry, a
/// sweep, and the checks.
async fn one(seed: u64, stop: usize) {
    let mut rng = Rng(seed);
    let (store, memory, control) = memory().await;
    let versioning = *rng.pick(&[Versioning::Off, Versioning::Enabled, Versioning::Suspended]);
    let scene = Scene { bodies: vec![rng.body(200), rng.body(300)], versioning, conditional: rng.chance(3) };
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    if versioning != Versioning::Off {
        store.set_versioning("bucket", versioning).await.unwrap();
    }
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    let first = part(&store, "bucket", "k", id, 1, &scene.bodies[0]).await.unwrap();
    if rng.chance(2) {
        put(&store, "bucket", "k", &Bytes::from_static(b"before")).await.unwrap();
    }
    let mut calls = calls(&store, id, &scene, first.etag, &mut rng);
    let answers = run(&mut calls, &mut rng, stop);
    let cut = calls.iter().any(|c| c.is_some());
    drop(calls);
    drop(store);
    let at = || format!("seed {seed:#x} stop {stop} {:?} {answers:?}", scene.versioning);

    let store = again(&memory, &control);
    let completed = answers.iter().flatten().find_map(|t| match t {
        Outcome::Completed(md5) => Some(md5.clone()),
        _ => None,
    });
    let aborted = answers.iter().flatten().any(|t| *t == Outcome::Aborted);
    assert!(!(completed.is_some() && aborted), "complete and abort both won: {}", at());
    if let Some(md5) = &completed {
        let whole = md5_once(&md5_once(&scene.bodies[0]));
        let other = md5_once(&md5_once(&scene.bodies[1]));
        assert!(md5[..] == whole || md5[..] == other, "{}", at());
    }
    // A key that is read has complete content, and never a refused one.
    let before = block(get(&store, "bucket", "k", None));
    let legal = |b: &[u8]| b == b"put" || b == b"before" || scene.bodies.iter().any(|s| s[..] == *b);
    match &before {
        Ok(b) => assert!(legal(b), "{}", at()),
        Err(Error::NoSuchKey { .. }) => {}
        Err(e) => panic!("{e}: {}", at()),
    }
    // Acknowledged versions exist, whatever else happened to the key.
    if scene.versioning == Versioning::Enabled {
        for t in answers.iter().flatten() {
            if let Outcome::Put(id) = t {
                let body = block(get(&store, "bucket", "k", *id));
                assert_eq!(body.unwrap_or_default(), b"put", "{}", at());
            }
        }
    }
    // A retry of the completion returns the same.
    let list = [CompletedPart { number: 1, etag: first.etag, checksum: None }];
    let retry = block(store.complete_upload("bucket", "k", id, &list, None, &Conditions::NONE));
    match (&completed, &retry) {
        (Some(md5), Ok(c)) => assert_eq!(md5[..], c.committed.etag.md5[..], "{}", at()),
        (Some(_), Err(e)) => panic!("the retry says {e}: {}", at()),
        (None, Ok(_)) => assert!(!aborted, "{}", at()),
        (None, Err(_)) => {}
    }
    // If nothing can have followed the version, it exists; and an overwritten one never returns.
    let after = block(get(&store, "bucket", "k", None));
    if completed.is_some() && !cut {
        let same = match (&before, &after) {
            (Ok(a), Ok(b)) => a == b,
            (Err(_), Err(_)) => true,
            _ => false,
        };
        assert!(same, "the retry of a completed call changed the key: {}", at());
    }
    let again_retry = block(store.complete_upload("bucket", "k", id, &list, None, &Conditions::NONE));
    match &retry {
        Ok(_) => assert!(again_retry.is_ok(), "{}", at()),
        Err(Error::NoSuchUpload) => assert!(again_retry.is_err(), "{}", at()),
        // A condition of the interrupted call, or a part that was replaced in the meantime: the upload is
        // open again.
        Err(_) => {}
    }
    // After everything is deleted, nothing is left.
    let _ = block(store.abort_upload("bucket", "k", id));
    let spec = VersionListSpec { max_keys: 100, ..VersionListSpec::default() };
    let page = block(store.list_versions("bucket", &spec)).unwrap();
    for e in &page.entries {
        let o = block(store.get("bucket", "k", Some(e.version_id)));
        if !e.delete_marker {
            block(super::read(&o.unwrap())).unwrap();
        }
    }
    for e in page.entries {
        block(store.delete("bucket", "k", Some(e.version_id), &Conditions::NONE)).unwrap();
    }
    block(store.sweep(i64::MAX / 2)).unwrap();
    block(store.sweep(i64::MAX / 2)).unwrap();
    let (registers, bodies) = memory.census();
    assert_eq!(registers, 0, "{}", at());
    // The orphan collector removes data that an interrupted call had replaced but not dropped (it reads the
    // same registers and finds no name); everything else is gone.
    assert!(bodies == 0 || bodies <= orphans(&answers, cut), "{bodies} bodies left: {}", at());
}

/// How many bodies without a name a run may leave: parts that replaced another while the upload was being
/// completed, or that were interrupted between the change of their register and the drop.
fn orphans(answers: &[Option<Outcome>], cut: bool) -> usize {
    answers
        .iter()
        .filter(|a| match a {
            None => cut,
            Some(Outcome::Part | Outcome::No(_) | Outcome::Unknown) => true,
            _ => false,
        })
        .count()
}

#[tokio::test]
async fn every_order() {
    for seed in 1..=1500 * super::times() {
        one(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), usize::MAX >> 1).await;
    }
}

#[tokio::test]
async fn crash_at_any_point() {
    for seed in 1..=60 * super::times() {
        for stop in 1..60 {
            one(seed.wrapping_mul(0xd134_2543_de82_ef95), stop).await;
        }
    }
}

/// The drives fail after this number of operations; then the same checks.
#[tokio::test]
async fn failing_drives_at_any_point() {
    for steps in 0..40 {
        let (store, memory, control) = memory().await;
        store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
        let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
        let mut rng = Rng(steps as u64 + 1);
        let body = rng.body(150);
        let p = part(&store, "bucket", "k", id, 1, &body).await.unwrap();
        let list = [CompletedPart { number: 1, etag: p.etag, checksum: None }];
        memory.limit(steps);
        let r = store.complete_upload("bucket", "k", id, &list, None, &Conditions::NONE).await;
        memory.limit(-1);
        assert!(matches!(r, Ok(_) | Err(Error::Unavailable(_))), "{steps}");
        // The next writer of the key, before any retry: the version must not reappear afterwards.
        let store = if steps % 2 == 0 { again(&memory, &control) } else { store };
        let seen = get(&store, "bucket", "k", None).await;
        if seen.is_ok() {
            store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
        }
        let retry = store.complete_upload("bucket", "k", id, &list, None, &Conditions::NONE).await;
        retry.unwrap_or_else(|e| panic!("{steps}: {e}"));
        match (seen, get(&store, "bucket", "k", None).await) {
            (Ok(_), Err(Error::NoSuchKey { .. })) => {}
            (Err(_), Ok(b)) => assert_eq!(b, body),
            (s, n) => panic!("{steps}: {s:?} then {n:?}"),
        }
        store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
        store.sweep(i64::MAX / 2).await.unwrap();
        assert_eq!(memory.census(), (0, 0), "{steps}");
    }
}

/// A completion with a condition is interrupted; then another call writes the key. The call that finishes the
/// completion evaluates the original condition.
#[tokio::test]
async fn interrupted_conditional_completion_replaces_no_later_write() {
    let mut refused = 0;
    for steps in 0..40 {
        let (store, memory, control) = memory().await;
        store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
        let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
        let body = Rng(9).body(150);
        let p = part(&store, "bucket", "k", id, 1, &body).await.unwrap();
        let list = [CompletedPart { number: 1, etag: p.etag, checksum: None }];
        let none = Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE };
        memory.limit(steps);
        let r = store.complete_upload("bucket", "k", id, &list, None, &none).await;
        memory.limit(-1);
        let visible = get(&store, "bucket", "k", None).await.is_ok();
        assert!(visible || r.is_err(), "{steps}");
        let store = again(&memory, &control);
        put(&store, "bucket", "k", &Bytes::from_static(b"other")).await.unwrap();
        store.sweep(0).await.unwrap();
        let now = get(&store, "bucket", "k", None).await.unwrap();
        assert_eq!(now, b"other", "{steps}: If-None-Match: * came over an existing key");
        let spec = UploadListSpec { max_uploads: 10, ..UploadListSpec::default() };
        let open = !store.list_uploads("bucket", &spec).await.unwrap().uploads.is_empty();
        assert_eq!(open, !visible, "{steps}: refused, so open again");
        refused += u32::from(open);
    }
    assert!(refused > 3, "the test must meet the interesting steps");
}
