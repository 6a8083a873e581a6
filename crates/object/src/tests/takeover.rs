//! A node takes over the change feed of another one that is gone: no change is missing, whenever either ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::Control;
use ashlar_duties::Duties;
use ashlar_environment::time::ManualClock;
use bytes::Bytes;

use super::{Store, memory, options_in_memory, put};
use crate::backend::Backend;
use crate::feed::{Cause, Change, Kind, NOTIFICATION};
use crate::memory::Memory;
use crate::*;

const KEYS: [&str; 3] = ["a0", "a1", "b"];

fn node(number: u16, memory: &Arc<Memory>, control: &Control) -> Store {
    let options = Options { duties: Duties::alone(number), ..options_in_memory() };
    Store::over(Backend::Memory(memory.clone()), control.clone(), options).unwrap()
}

fn by(store: &Store, kind: Kind) -> Store {
    store.by(Arc::new(Cause { kind, ..Cause::default() }))
}

/// Makes changes; returns whether all succeeded.
async fn work(store: Store) -> bool {
    let (putting, deleting) = (by(&store, Kind::Put), by(&store, Kind::Delete));
    for i in 0..3 {
        let body = |n: usize| Bytes::from(vec![7; n]);
        let mut ended = put(&putting, "bucket", KEYS[i % 2], &body(i + 1)).await.is_ok();
        ended &= put(&putting, "bucket", "b", &body(i + 10)).await.is_ok();
        ended &= deleting.delete("bucket", KEYS[i % 2], None, &Conditions::NONE).await.is_ok();
        if !ended {
            return false;
        }
    }
    true
}

/// Sets the reader of a node to the beginning, so that it sees every change.
async fn read_from_start(control: &Control, number: u16) {
    let mut update = ashlar_cluster::Update::new();
    let entry = control.read(&format!("feed-reader-{number}/r"));
    update.set(&entry, Bytes::from_static(b"{\"format\":1,\"position\":0}"));
    control.update(update).await.unwrap();
}

/// Node 1 makes changes of a followed bucket until it is cut off after `budget` steps. Returns whether it made all.
async fn crashed(budget: i64) -> (bool, Arc<Memory>, Control) {
    let (_, memory, control) = memory().await;
    let store = node(1, &memory, &control);
    store.open_feed().await.unwrap();
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    store.set_bucket_document("bucket", NOTIFICATION, Some("x")).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    drop(store.feed().reader("r").await.unwrap());
    memory.limit(budget);
    // A separate task, so that it and the feed's writer take turns step by step.
    let ended = tokio::spawn(work(store.clone())).await.unwrap();
    // Tasks of the crashed node that still run cannot change anything.
    memory.limit(0);
    let memory = Arc::new(memory.survivor());
    drop(store);
    read_from_start(&control, 1).await;
    (ended, memory, control)
}

/// A node with a reader that sees every change that it records.
async fn successor(number: u16, memory: &Arc<Memory>, control: &Control) -> Store {
    let store = node(number, memory, control);
    read_from_start(control, number).await;
    store.open_feed().await.unwrap();
    store
}

/// What the feed of a node says of each key, beside what is so.
async fn compare(store: &Store, context: &str) {
    let mut reader = store.feed().reader("r").await.unwrap();
    let mut told: BTreeMap<String, Option<ETag>> = KEYS.iter().map(|key| ((*key).to_owned(), None)).collect();
    let mut changes: Vec<Arc<Change>> = Vec::new();
    while !reader.is_at_end() {
        let batch = reader.next(7).await.unwrap();
        assert_eq!(batch.lost, 0, "{context}");
        changes.extend(batch.changes);
    }
    for c in &changes {
        let there = !matches!(c.kind, Kind::Delete | Kind::Mark);
        told.insert(c.key.clone(), c.etag.filter(|_| there));
    }
    for key in KEYS {
        let truth = match store.get("bucket", key, None).await {
            Ok(object) => Some(object.etag()),
            Err(Error::NoSuchKey { .. }) => None,
            Err(e) => panic!("{context}: {key}: {e}"),
        };
        assert_eq!(
            told[key],
            truth,
            "{context}: {key}: {:?}",
            changes.iter().map(|c| c.kind.name()).collect::<Vec<_>>()
        );
    }
}

/// Nodes with clocks that differ by a minute change one key in turns; by their ballots the changes are in order.
#[tokio::test]
async fn ballots_order_the_changes_of_nodes_with_different_clocks() {
    let (_, memory, control) = memory().await;
    let (mut stores, mut readers) = (Vec::new(), Vec::new());
    for number in [1, 2] {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Duration::from_hours(1) - Duration::from_mins(number.into()));
        let options = Options { duties: Duties::alone(number), clock, ..options_in_memory() };
        let store = Store::over(Backend::Memory(memory.clone()), control.clone(), options).unwrap();
        store.open_feed().await.unwrap();
        store.feed().tell_ballots(true);
        stores.push(store);
    }
    let new = CreateBucket::default();
    stores[0].create_bucket("bucket", &new).await.unwrap();
    stores[0].set_bucket_document("bucket", NOTIFICATION, Some("x")).await.unwrap();
    for (store, number) in stores.iter().zip([1, 2]) {
        drop(store.feed().reader("r").await.unwrap());
        read_from_start(&control, number).await;
        readers.push(store.feed().reader("r").await.unwrap());
    }
    let mut made = Vec::new();
    for turn in 0..12 {
        let store = |kind| by(&stores[turn % 2], kind);
        let kind = match turn % 6 {
            0 | 5 => {
                put(&store(Kind::Put), "bucket", "a0", &Bytes::from(vec![7; turn])).await.unwrap();
                Kind::Put
            }
            1 => {
                let tags = vec![("a".into(), turn.to_string())];
                store(Kind::TagsPut).set_tags("bucket", "a0", None, tags).await.unwrap();
                Kind::TagsPut
            }
            2 => {
                let store = store(Kind::Complete);
                let upload = store.create_upload("bucket", "a0", UploadSpec::default()).await.unwrap();
                let part =
                    super::part(&store, "bucket", "a0", upload, 1, &Bytes::from(vec![7; 9])).await.unwrap();
                let parts = [CompletedPart { number: 1, etag: part.etag, checksum: None }];
                let done = store.complete_upload("bucket", "a0", upload, &parts, None, &Conditions::NONE);
                done.await.unwrap();
                Kind::Complete
            }
            _ => {
                store(Kind::Delete).delete("bucket", "a0", None, &Conditions::NONE).await.unwrap();
                Kind::Delete
            }
        };
        made.push(kind);
    }
    let mut told: Vec<Arc<Change>> = Vec::new();
    for reader in &mut readers {
        while !reader.is_at_end() {
            told.extend(reader.next(7).await.unwrap().changes);
        }
    }
    told.sort_by_key(|c| c.ballot);
    // The second of two deletions in a row changes nothing.
    made.dedup_by(|a, b| (*a, *b) == (Kind::Delete, Kind::Delete));
    let kinds: Vec<&str> = told.iter().map(|c| c.kind.name()).collect();
    assert_eq!(kinds, made.iter().map(|kind| kind.name()).collect::<Vec<_>>());
    assert!(
        told.windows(2).all(|pair| pair[0].ballot < pair[1].ballot),
        "every change has a place of its own"
    );
    assert!(!told.is_sorted_by_key(|c| c.time_ms), "by the clocks they are not in order");
}

/// The first node ends after every possible number of steps.
#[tokio::test]
async fn changes_of_a_node_that_is_gone_are_not_missing() {
    let mut steps = 0;
    for budget in 0.. {
        let (ended, memory, control) = crashed(budget).await;
        let store = successor(2, &memory, &control).await;
        store.take_over_feed(1).await.unwrap();
        compare(&store, &format!("budget {budget}")).await;
        // What was taken over is not taken over again.
        assert_eq!(store.take_over_feed(1).await.unwrap(), 0, "budget {budget}");
        steps = budget;
        if ended {
            break;
        }
    }
    assert!(steps > 30, "{steps} steps");
}

/// The second node ends after every possible number of steps of its takeover; a third one takes over both.
#[tokio::test]
async fn takeover_may_end_anywhere() {
    let mut interrupted = 0;
    for first in (3..60).step_by(19) {
        for second in 0.. {
            let (_, memory, control) = crashed(first).await;
            let store = successor(2, &memory, &control).await;
            memory.limit(second);
            let taker = store.clone();
            let taking = tokio::spawn(async move { taker.take_over_feed(1).await.is_ok() });
            let taken = matches!(tokio::time::timeout(Duration::from_secs(60), taking).await, Ok(Ok(true)));
            memory.limit(0);
            let memory = Arc::new(memory.survivor());
            drop(store);
            read_from_start(&control, 2).await;
            let third = successor(3, &memory, &control).await;
            // The newest first: what it had taken over is older than what the first still has.
            third.take_over_feed(2).await.unwrap();
            third.take_over_feed(1).await.unwrap();
            compare(&third, &format!("budgets {first} and {second}")).await;
            if taken {
                break;
            }
            interrupted += 1;
        }
    }
    assert!(interrupted > 30, "{interrupted} interrupted takeovers");
}

/// A node that returns has its feed again, and its readers go on after what was taken over.
#[tokio::test]
async fn node_returns_after_its_feed_was_taken_over() {
    let (_, memory, control) = crashed(40).await;
    let store = successor(2, &memory, &control).await;
    assert!(store.take_over_feed(1).await.unwrap() > 0);
    let back = node(1, &memory, &control);
    back.open_feed().await.unwrap();
    let mut reader = back.feed().reader("r").await.unwrap();
    assert!(reader.is_at_end());
    assert_eq!(back.feed().stats().open, 0);
    put(&by(&back, Kind::Put), "bucket", "b", &Bytes::from_static(b"later")).await.unwrap();
    let batch = reader.next(10).await.unwrap();
    assert_eq!((batch.lost, batch.changes.len(), batch.changes[0].key.as_str()), (0, 1, "b"));
}

/// While another node is at its feed, a node that returns waits; a running node's feed is not taken over.
#[tokio::test]
async fn one_node_at_a_time_has_a_feed() {
    let (_, memory, control) = crashed(40).await;
    let store = successor(2, &memory, &control).await;
    {
        let _running = control.announce(1).await.unwrap();
        assert_eq!(store.take_over_feed(1).await.unwrap(), 0, "it runs");
    }
    let mut update = ashlar_cluster::Update::new();
    update.set(&control.read("feed-takeover/00001"), &b"{\"format\":1,\"by\":3,\"segment\":0}"[..]);
    control.update(update).await.unwrap();
    {
        let _third = control.announce(3).await.unwrap();
        assert_eq!(store.take_over_feed(1).await.unwrap(), 0, "node 3 is at it");
        let back = node(1, &memory, &control);
        assert!(matches!(back.open_feed().await, Err(Error::Unavailable(why)) if why.contains("node 3")));
    }
    // Node 3 is gone: either may go on.
    assert!(store.take_over_feed(1).await.unwrap() > 0);
    node(1, &memory, &control).open_feed().await.unwrap();
}
