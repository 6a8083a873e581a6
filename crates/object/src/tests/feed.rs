//! The change feed contains every change, in the order in which the changes were made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{CopySource, Pool, Rng, Store, again, memory, part, put};
use crate::feed::{Cause, Change, Kind, Limits, NOTIFICATION, Reader, WatchEvent};
use crate::*;

async fn followed(store: &Store) {
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    store.set_bucket_document("bucket", NOTIFICATION, Some("x")).await.unwrap();
}

fn by(store: &Store, kind: Kind) -> Store {
    store.by(Arc::new(Cause { kind, who: "somebody".into(), ..Cause::default() }))
}

fn body(n: usize) -> Bytes {
    Bytes::from(vec![7; n])
}

/// All changes so far, without waiting for more.
async fn all(reader: &mut Reader) -> (Vec<Arc<Change>>, u64) {
    let (mut changes, mut lost) = (Vec::new(), 0);
    while !reader.is_at_end() {
        let batch = reader.next(7).await.unwrap();
        lost += batch.lost;
        changes.extend(batch.changes);
    }
    (changes, lost)
}

fn kinds(changes: &[Arc<Change>]) -> Vec<&'static str> {
    changes.iter().map(|c| c.kind.name()).collect()
}

#[tokio::test]
async fn every_kind_of_change_is_recorded_once() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket { object_lock: true, ..Default::default() }).await.unwrap();
    store.set_bucket_document("bucket", NOTIFICATION, Some("x")).await.unwrap();
    assert!(matches!(put(&store, "bucket", "k", &body(1)).await, Err(Error::Unavailable(_))), "not open yet");
    store.open_feed().await.unwrap();
    let mut reader = store.feed().reader("r").await.unwrap();

    let first = put(&by(&store, Kind::Put), "bucket", "k", &body(3)).await.unwrap();
    let id = first.version_id;
    by(&store, Kind::TagsPut).set_tags("bucket", "k", id, vec![("a".into(), "b".into())]).await.unwrap();
    by(&store, Kind::LegalHoldPut).set_legal_hold("bucket", "k", id, true).await.unwrap();
    by(&store, Kind::LegalHoldPut).set_legal_hold("bucket", "k", id, false).await.unwrap();
    let from =
        CopySource { bucket: "bucket".into(), key: "k".into(), version: None, conditions: Conditions::NONE };
    by(&store, Kind::Copy).copy(&from, "bucket", "copy", CopySpec::default()).await.unwrap();
    let upload = store.create_upload("bucket", "u", UploadSpec::default()).await.unwrap();
    let p = part(&store, "bucket", "u", upload, 1, &body(9)).await.unwrap();
    let parts = [CompletedPart { number: 1, etag: p.etag, checksum: None }];
    for _ in 0..2 {
        let by = by(&store, Kind::Complete);
        by.complete_upload("bucket", "u", upload, &parts, None, &Conditions::NONE).await.unwrap();
    }
    let deleting = by(&store, Kind::Delete);
    let marker = deleting.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
    deleting.delete("bucket", "k", marker.version_id, &Conditions::NONE).await.unwrap();
    deleting.delete("bucket", "k", id, &Conditions::NONE).await.unwrap();
    // Changes that were not made are not recorded.
    deleting.delete("bucket", "k", id, &Conditions::NONE).await.unwrap();
    let never = Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE };
    assert!(super::put_if(&by(&store, Kind::Put), "bucket", "copy", &body(1), &never).await.is_err());

    let (changes, lost) = all(&mut reader).await;
    assert_eq!(lost, 0);
    let told = [
        "put",
        "tags-put",
        "legal-hold-put",
        "legal-hold-put",
        "copy",
        "complete",
        "mark",
        "delete",
        "delete",
    ];
    assert_eq!(kinds(&changes), told);
    let positions: Vec<u64> = changes.iter().map(|c| c.position).collect();
    assert_eq!(positions, (1..=told.len() as u64).collect::<Vec<_>>());
    assert_eq!((changes[0].version_id, changes[0].size, changes[0].etag), (id, 3, Some(first.etag)));
    assert_eq!((changes[5].key.as_str(), changes[5].size), ("u", 9));
    assert_eq!((changes[6].version_id, changes[6].etag), (marker.version_id, None));
    assert_eq!(changes[8].version_id, id);
    assert!(changes.iter().all(|c| c.cause.who == "somebody" && c.bucket == "bucket"));
    store.feed().flush().await.unwrap();
    assert_eq!(store.feed().stats().open, 0);
}

#[tokio::test]
async fn readers_resume_after_restart_and_watchers_see_unrecorded_changes() {
    let (store, memory, control) = memory().await;
    store.open_feed().await.unwrap();
    store.create_bucket("other", &CreateBucket::default()).await.unwrap();
    put(&store, "other", "unseen", &body(1)).await.unwrap();
    let mut watch = store.feed().watch();
    put(&by(&store, Kind::Put), "other", "seen", &body(1)).await.unwrap();
    match watch.next().await {
        WatchEvent::Change(c) => assert_eq!((c.key.as_str(), c.position), ("seen", 0)),
        other => panic!("{other:?}"),
    }
    drop(watch);
    assert_eq!(store.feed().stats().position, 0, "nothing of it is written down");

    followed(&store).await;
    let mut reader = store.feed().reader("r").await.unwrap();
    for i in 0..20 {
        put(&by(&store, Kind::Put), "bucket", &format!("k{i}"), &body(i)).await.unwrap();
    }
    let (changes, _) = all(&mut reader).await;
    assert_eq!(changes.len(), 20);
    reader.done(changes[11].position);
    assert_eq!(reader.lag(), 8);
    store.close_feed().await;

    let store = again(&memory, &control);
    store.open_feed().await.unwrap();
    assert_eq!(store.feed().stats().position, 20);
    put(&by(&store, Kind::Put), "bucket", "after", &body(1)).await.unwrap();
    let mut reader = store.feed().reader("r").await.unwrap();
    let (changes, lost) = all(&mut reader).await;
    let keys: Vec<&str> = changes.iter().map(|c| c.key.as_str()).collect();
    assert_eq!(keys, ["k12", "k13", "k14", "k15", "k16", "k17", "k18", "k19", "after"]);
    assert_eq!(lost, 0);
    // When all is done, only the newest segment is left; a removed reader keeps nothing.
    let _idle = store.feed().reader("idle").await.unwrap();
    reader.done(21);
    let left = |wanted: usize| {
        let feed = store.feed().clone();
        async move {
            for _ in 0..100 {
                if feed.stats().segments == wanted {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            panic!("{:?}", feed.stats());
        }
    };
    put(&by(&store, Kind::Put), "bucket", "more", &body(1)).await.unwrap();
    store.feed().flush().await.unwrap();
    reader.done(22);
    store.feed().forget("idle");
    left(1).await;
}

#[tokio::test]
async fn slow_reader_learns_number_of_lost_changes() {
    let (_, memory, control) = memory().await;
    let limits = Limits { bytes: 6000, segments: 1000, ..Limits::default() };
    let backend = crate::backend::Backend::Memory(memory.clone());
    let options = Options { feed: limits, ..super::options() };
    let store = Store::over(backend, control, options).unwrap();
    store.open_feed().await.unwrap();
    followed(&store).await;
    let mut reader = store.feed().reader("slow").await.unwrap();
    // More changes than memory keeps.
    for i in 0..4300 {
        if i % 50 == 0 {
            put(&by(&store, Kind::Put), "bucket", &format!("k{i}"), &body(1)).await.unwrap();
        } else {
            store.feed().report(&store.bucket("bucket").unwrap(), change(i));
        }
    }
    store.feed().flush().await.unwrap();
    let total = store.feed().stats().position;
    for _ in 0..100 {
        if store.feed().stats().bytes <= limits.bytes {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (changes, lost) = all(&mut reader).await;
    assert_eq!(changes.len() as u64 + lost, total, "{:?}", store.feed().stats());
    assert!(lost > 0);
    assert_eq!(store.feed().stats().lost, lost);
    assert!(changes.windows(2).all(|w| w[0].position + 1 == w[1].position));
}

fn change(i: usize) -> Change {
    Change {
        position: 0,
        ballot: Ballot::ZERO,
        time_ms: 1,
        bucket: "bucket".into(),
        key: format!("read{i}"),
        kind: Kind::Get,
        version_id: None,
        size: 1,
        etag: None,
        meta: Vec::new(),
        cause: Arc::default(),
    }
}

/// The state of every key according to the feed: the last change of a key tells whether it exists, and with
/// which content.
fn replay(changes: &[Arc<Change>]) -> BTreeMap<String, Option<ETag>> {
    let mut state = BTreeMap::new();
    for c in changes {
        let there = !matches!(c.kind, Kind::Delete | Kind::Mark);
        state.insert(c.key.clone(), c.etag.filter(|_| there));
    }
    state
}

async fn truth(store: &Store, keys: &[String]) -> BTreeMap<String, Option<ETag>> {
    let mut state = BTreeMap::new();
    for key in keys {
        let etag = match store.get("bucket", key, None).await {
            Ok(object) => Some(object.etag()),
            Err(Error::NoSuchKey { .. }) => None,
            Err(e) => panic!("{key}: {e}"),
        };
        state.insert(key.clone(), etag);
    }
    state
}

/// A crash after every possible number of steps: in the end the feed shows the actual state.
#[tokio::test]
async fn crash_loses_no_change() {
    let mut steps = 0;
    for budget in 0.. {
        let (store, memory, control) = memory().await;
        store.open_feed().await.unwrap();
        followed(&store).await;
        store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
        let mut reader = store.feed().reader("r").await.unwrap();
        memory.limit(budget);
        let (putting, deleting) = (by(&store, Kind::Put), by(&store, Kind::Delete));
        // A separate task, so that it and the feed's writer take turns step by step.
        let client = tokio::spawn(async move {
            for i in 0..3 {
                let a = format!("a{}", i % 2);
                let mut ended = put(&putting, "bucket", &a, &body(i + 1)).await.is_ok();
                ended &= put(&putting, "bucket", "b", &body(i + 10)).await.is_ok();
                ended &= deleting.delete("bucket", &a, None, &Conditions::NONE).await.is_ok();
                if !ended {
                    return false;
                }
            }
            true
        });
        let ended = client.await.unwrap();
        // Some changes from before the crash were read, and may have been done.
        if let Ok(Ok(batch)) = tokio::time::timeout(Duration::from_millis(1), reader.next(2)).await {
            reader.done(batch.changes.last().map_or(0, |c| c.position));
        }
        // Tasks of the crashed store that still run cannot change this one.
        memory.limit(0);
        let memory = Arc::new(memory.survivor());
        drop((reader, store));

        let store = again(&memory, &control);
        store.open_feed().await.unwrap();
        // From the first change on: what a reader sees that did nothing before.
        let mut update = ashlar_cluster::Update::new();
        update.set(&control.read("feed-reader/r"), Bytes::from_static(b"{\"format\":1,\"position\":0}"));
        control.update(update).await.unwrap();
        for _ in 0..200 {
            if store.feed().stats().open == 0 {
                break;
            }
            let _ = store.feed().flush().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(store.feed().stats().open, 0, "budget {budget}");
        let mut reader = store.feed().reader("r").await.unwrap();
        let (changes, lost) = all(&mut reader).await;
        assert_eq!(lost, 0, "budget {budget}");
        let mut told = replay(&changes);
        let keys = ["a0".to_owned(), "a1".to_owned(), "b".to_owned()];
        for key in &keys {
            told.entry(key.clone()).or_insert(None);
        }
        assert_eq!(told, truth(&store, &keys).await, "budget {budget}: {:?}", kinds(&changes));
        steps = budget;
        if ended {
            break;
        }
    }
    assert!(steps > 30, "{steps} steps");
}

/// Many concurrent changes of a few keys, over real drives, with callers that disconnect: the last change of
/// every key is its state, and there is one change for every acknowledged call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_key_are_in_commit_order() {
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    store.open_feed().await.unwrap();
    followed(&store).await;
    let mut reader = store.feed().reader("r").await.unwrap();
    let seed = 11;
    let tasks = (0..16u64).map(|t| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut rng = Rng(seed + t);
            let mut answered = 0u64;
            for _ in 0..25 {
                let key = format!("k{}", rng.below(3));
                let n = 1 + rng.below(2000) as usize;
                let (putting, deleting) = (by(&store, Kind::Put), by(&store, Kind::Delete));
                let content = rng.body(n);
                let work = async {
                    if rng.chance(4) {
                        // A delete of an absent key is no change; only puts are counted.
                        deleting.delete("bucket", &key, None, &Conditions::NONE).await.map(|_| 0)
                    } else {
                        put(&putting, "bucket", &key, &content).await.map(|_| 1)
                    }
                };
                if t < 3 {
                    // A client that disconnects in the middle.
                    let _ = tokio::time::timeout(Duration::from_micros(700), work).await;
                } else {
                    answered += work.await.unwrap();
                }
            }
            answered
        })
    });
    let mut answered = 0;
    for task in tasks.collect::<Vec<_>>() {
        answered += task.await.unwrap();
    }
    for _ in 0..100 {
        if store.feed().stats().open == 0 {
            break;
        }
        let _ = store.feed().flush().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (changes, lost) = all(&mut reader).await;
    assert_eq!(lost, 0);
    let puts = changes.iter().filter(|c| c.kind == Kind::Put).count() as u64;
    assert!(puts >= answered, "{puts} told, {answered} answered");
    let keys: Vec<String> = (0..3).map(|i| format!("k{i}")).collect();
    for key in &keys {
        let times: Vec<i64> = changes.iter().filter(|c| c.key == *key).map(|c| c.time_ms).collect();
        assert!(times.is_sorted(), "{key}: {times:?}");
    }
    let told = replay(&changes);
    for (key, etag) in truth(&store, &keys).await {
        assert_eq!(told.get(&key).copied().flatten(), etag, "{key}, seed {seed}");
    }
    store.close_feed().await;
    drop(store);
    pool.close().await;
}

/// While the feed cannot be written, nothing of a followed bucket changes; other buckets are not affected.
#[tokio::test]
async fn change_fails_while_feed_cannot_be_written() {
    let (store, memory, _) = memory().await;
    store.open_feed().await.unwrap();
    followed(&store).await;
    memory.limit(0);
    let refused = store.delete("bucket", "k", None, &Conditions::NONE).await;
    assert!(matches!(&refused, Err(Error::Unavailable(why)) if why.contains("change feed")), "{refused:?}");
    memory.limit(-1);
    put(&by(&store, Kind::Put), "bucket", "k", &body(1)).await.unwrap();
}
