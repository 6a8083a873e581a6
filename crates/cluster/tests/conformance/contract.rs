//! The contract of every driver of the control store. Each check takes a new store; a new driver is tested
//! with one more call of [`conforms`].
//!
//! Must not depend on: what one driver offers beyond the interface.

use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::{Change, Control, ControlDriver, Entry, Error, Update, Watched};
use ashlar_format::DeploymentId;
use bytes::Bytes;
use futures::future::BoxFuture;

/// The deployment of the stores under test.
pub const DEPLOYMENT: DeploymentId = DeploymentId([6; 16]);

pub type Driver = Arc<dyn ControlDriver>;
/// Makes a store of [`DEPLOYMENT`] without any key.
pub type Fresh<'a> = &'a (dyn Fn() -> BoxFuture<'static, Driver> + Sync);

/// The contract.
pub async fn conforms(fresh: Fresh<'_>) {
    compares(fresh().await).await;
    removed_and_made_again(fresh().await).await;
    all_or_nothing(fresh().await).await;
    nothing_is_written_by_what_changes_nothing(fresh().await).await;
    limits(fresh().await).await;
    lists(fresh().await).await;
    watches(fresh().await).await;
    old_watches(fresh().await).await;
    watches_under_load(fresh().await).await;
    settles(fresh().await).await;
    increments(fresh().await).await;
    tries_are_bounded(fresh().await).await;
    announcements(fresh().await).await;
    the_end(fresh().await).await;
}

pub fn set(entry: &Entry, value: &'static str) -> Update {
    let mut update = Update::new();
    update.set(entry, value);
    update
}

fn remove(entry: &Entry) -> Update {
    let mut update = Update::new();
    update.remove(entry);
    update
}

fn conflict(done: Result<u64, Error>, key: &str) {
    assert!(matches!(&done, Err(Error::Conflict(k)) if k == key), "{done:?}");
}

fn value(c: &Control, key: &str) -> Option<Bytes> {
    c.get(key).map(|v| v.bytes)
}

/// A node is in the list from its announcement until the announcement is dropped, and no number is announced
/// twice.
async fn announcements(driver: Driver) {
    let c = Control::new(driver);
    let revision = c.revision();
    let mut list = c.announced();
    assert!(list.borrow_and_update().is_empty());
    let one = c.announce(1).await.unwrap();
    let seven = c.announce(7).await.unwrap();
    list.changed().await.unwrap();
    list.wait_for(|nodes| nodes.iter().copied().eq([1, 7])).await.unwrap();
    assert!(matches!(c.announce(7).await, Err(Error::Conflict(_))), "7 is there already");
    drop(seven);
    list.wait_for(|nodes| nodes.iter().copied().eq([1])).await.unwrap();
    let again = c.announce(7).await.unwrap();
    c.announced().wait_for(|nodes| nodes.len() == 2).await.unwrap();
    drop((one, again));
    list.wait_for(|nodes| nodes.is_empty()).await.unwrap();
    assert_eq!(c.revision(), revision, "announcements are no changes of the store");
}

/// A change succeeds only if the keys are as they were read. The caller then sees it, and so does a caller
/// that got a conflict.
async fn compares(driver: Driver) {
    let c = Control::new(driver);
    assert_eq!(c.deployment(), DEPLOYMENT);
    let start = c.revision();
    let absent = c.read("k");
    assert_eq!((absent.key(), absent.bytes(), absent.revision()), ("k", None, None));
    let first = c.update(set(&absent, "1")).await.unwrap();
    assert!(first > start);
    let one = c.read("k");
    assert_eq!((one.bytes(), one.revision()), (Some(&Bytes::from_static(b"1")), Some(first)));
    assert!(c.revision() >= first);
    // The key is no longer absent.
    conflict(c.update(set(&absent, "x")).await, "k");
    conflict(c.update(remove(&absent)).await, "k");
    let second = c.update(set(&one, "2")).await.unwrap();
    assert!(second > first);
    // The key is no longer as first written, although it has the same value.
    c.update(set(&c.read("k"), "1")).await.unwrap();
    conflict(c.update(set(&one, "x")).await, "k");
    conflict(c.update(remove(&one)).await, "k");
    let mut expect = Update::new();
    expect.expect(&one);
    conflict(c.update(expect).await, "k");
    assert_eq!(value(&c, "k"), Some(Bytes::from_static(b"1")));
    // An empty value is a value.
    c.update(set(&c.read("k"), "")).await.unwrap();
    assert_eq!(c.read("k").bytes(), Some(&Bytes::new()));
    c.barrier().await.unwrap();
    assert!(c.health().writable);
    assert!(c.health().revision >= second);
}

/// A key that was removed and created again is another key: an update derived from the first one fails.
async fn removed_and_made_again(driver: Driver) {
    let c = Control::new(driver);
    let absent = c.read("k");
    c.update(set(&absent, "1")).await.unwrap();
    let one = c.read("k");
    let removed = c.update(remove(&one)).await.unwrap();
    assert!(removed > one.revision().unwrap());
    assert_eq!(c.get("k"), None);
    conflict(c.update(set(&one, "x")).await, "k");
    conflict(c.update(remove(&one)).await, "k");
    // Absent is the same state, whenever it was read.
    let again = c.update(set(&absent, "1")).await.unwrap();
    assert!(again > removed);
    assert_eq!(c.read("k").revision(), Some(again));
    assert_ne!(c.read("k").seen(), one.seen());
    conflict(c.update(set(&one, "x")).await, "k");
    conflict(c.update(remove(&one)).await, "k");
    assert_eq!(value(&c, "k"), Some(Bytes::from_static(b"1")));
}

/// One key that is not as it was read makes the whole update fail, at any position in the update.
async fn all_or_nothing(driver: Driver) {
    let c = Control::new(driver);
    let mut update = Update::new();
    for key in ["a", "b", "c"] {
        update.set(&c.read(key), "1");
    }
    let made = c.update(update).await.unwrap();
    for key in ["a", "b", "c"] {
        assert_eq!(c.read(key).revision(), Some(made), "one revision for all of an update");
    }
    for stale in ["a", "b", "c"] {
        let old = c.read(stale);
        c.update(set(&old, "moved")).await.unwrap();
        let before = (c.revision(), c.list(""));
        for way in 0..3 {
            let mut update = Update::new();
            for key in ["a", "b", "c"].into_iter().filter(|k| *k != stale) {
                update.set(&c.read(key), "x");
            }
            update.set(&c.read("new"), "x");
            match way {
                0 => update.set(&old, "x"),
                1 => update.remove(&old),
                _ => update.expect(&old),
            }
            conflict(c.update(update).await, stale);
        }
        assert_eq!((c.revision(), c.list("")), before);
    }
    // One update that sets, removes and expects.
    let mut update = Update::new();
    update.set(&c.read("a"), "2");
    update.remove(&c.read("b"));
    update.expect(&c.read("c"));
    update.expect(&c.read("d"));
    let looked_at = c.read("c");
    c.update(update).await.unwrap();
    assert_eq!((value(&c, "a"), c.get("b")), (Some(Bytes::from_static(b"2")), None));
    assert_eq!(c.read("c"), looked_at);
    // A key in two states at once.
    let (old, mut update) = (c.read("a"), Update::new());
    c.update(set(&old, "3")).await.unwrap();
    update.expect(&old);
    update.set(&c.read("a"), "x");
    conflict(c.update(update).await, "a");
}

async fn nothing_is_written_by_what_changes_nothing(driver: Driver) {
    let c = Control::new(driver);
    c.update(set(&c.read("k"), "1")).await.unwrap();
    let before = c.revision();
    let mut update = remove(&c.read("absent"));
    update.expect(&c.read("k"));
    c.update(update).await.unwrap();
    c.update(Update::new()).await.unwrap();
    let kept: Result<u8, Error> = c.change(|_| Ok(7)).await;
    assert_eq!(kept.unwrap(), 7);
    assert_eq!(c.revision(), before);
}

/// The largest allowed update succeeds, and a larger one changes nothing.
async fn limits(driver: Driver) {
    let c = Control::new(driver);
    let many = |n: usize, bytes: usize| {
        let mut update = Update::new();
        for i in 0..n {
            update.set(&c.read(&format!("many/{i}")), vec![b'x'; bytes]);
        }
        update
    };
    for bad in [many(Update::MAX_KEYS + 1, 1), many(1, Update::MAX_VALUE + 1), many(2, Update::MAX_VALUE)] {
        assert!(matches!(c.update(bad).await, Err(Error::TooLarge(_))));
    }
    assert!(c.list("").is_empty());
    c.update(many(1, Update::MAX_VALUE)).await.unwrap();
    assert_eq!(c.get("many/0").unwrap().bytes.len(), Update::MAX_VALUE);
    let each = Update::MAX_BYTES / Update::MAX_KEYS - Update::PER_KEY - 2 * "many/119".len();
    c.update(many(Update::MAX_KEYS, each)).await.unwrap();
    assert_eq!(c.list("many/").len(), Update::MAX_KEYS);
    let mut all = Update::new();
    c.entries("many/").iter().for_each(|e| all.remove(e));
    c.update(all).await.unwrap();
    assert!(c.list("").is_empty());
}

async fn lists(driver: Driver) {
    let c = Control::new(driver);
    let keys = ["a", "a/", "a/1", "a/10", "a/2", "a/\u{e9}", "a0", "b/1"];
    let mut update = Update::new();
    for key in keys {
        update.set(&c.read(key), key);
    }
    c.update(update).await.unwrap();
    let listed = |prefix: &str| c.list(prefix).into_iter().map(|(k, _)| k).collect::<Vec<_>>();
    assert_eq!(listed(""), keys);
    assert_eq!(listed("a/"), ["a/", "a/1", "a/10", "a/2", "a/\u{e9}"]);
    assert_eq!(listed("a/1"), ["a/1", "a/10"]);
    assert!(listed("c").is_empty() && listed("a/3").is_empty());
    let entries = c.entries("a/");
    assert_eq!(entries.len(), 5);
    for e in entries {
        assert_eq!(e, c.read(e.key()));
        assert_eq!(e.bytes().unwrap(), e.key());
    }
}

/// All changes up to revision `to`.
async fn follow(watch: &mut ashlar_cluster::Watch, to: u64) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    while all.last().is_none_or(|c| c.revision < to) {
        match tokio::time::timeout(Duration::from_secs(20), watch.next()).await.unwrap() {
            Watched::Changes(changes) => {
                assert!(!changes.is_empty());
                all.extend(changes);
            }
            Watched::Reset(at) => panic!("too far behind at {at}"),
        }
    }
    all
}

async fn watches(driver: Driver) {
    let c = Control::new(driver);
    c.update(set(&c.read("a"), "0")).await.unwrap();
    let from = c.revision();
    let mut early = c.watch(from);
    let nothing = tokio::time::timeout(Duration::from_millis(50), early.next()).await;
    assert!(nothing.is_err(), "what was there before is no news");
    let mut expected = Vec::new();
    let one = c.update(set(&c.read("b"), "1")).await.unwrap();
    expected.push((one, "b", Some("1")));
    let mut both = set(&c.read("a"), "2");
    both.remove(&c.read("b"));
    both.expect(&c.read("c"));
    let two = c.update(both).await.unwrap();
    expected.extend([(two, "a", Some("2")), (two, "b", None)]);
    let three = c.update(set(&c.read("b"), "1")).await.unwrap();
    expected.push((three, "b", Some("1")));
    let expected: Vec<Change> = expected
        .into_iter()
        .map(|(revision, key, value)| Change { revision, key: key.into(), value: value.map(Bytes::from) })
        .collect();
    assert_eq!(follow(&mut early, three).await, expected);
    assert_eq!(follow(&mut c.watch(from), three).await, expected, "from a revision of the past");
    assert_eq!(follow(&mut c.watch(one), three).await, expected[1..], "after it, not with it");
    assert_eq!(follow(&mut c.watch(two), three).await, expected[3..]);
    let nothing = tokio::time::timeout(Duration::from_millis(50), early.next()).await;
    assert!(nothing.is_err(), "nothing twice");
}

/// A watcher that is so far behind that changes are forgotten must start again, and then misses nothing.
async fn old_watches(driver: Driver) {
    let c = Control::new(driver);
    let from = c.revision();
    let mut slow = c.watch(from);
    // More changes than any driver keeps for slow watchers, unless all of them are delivered.
    let mut told = 0;
    for _ in 0..40 {
        let mut update = Update::new();
        for i in 0..Update::MAX_KEYS {
            update.set(&c.read(&format!("{i}")), "x");
        }
        c.update(update).await.unwrap();
        told += Update::MAX_KEYS;
    }
    let end = c.revision();
    match slow.next().await {
        Watched::Reset(at) => {
            assert!(at >= end && c.list("").len() == Update::MAX_KEYS);
            let after = c.update(set(&c.read("after"), "x")).await.unwrap();
            let news = follow(&mut slow, after).await;
            assert_eq!(news.iter().map(|c| c.key.as_str()).collect::<Vec<_>>(), ["after"]);
        }
        Watched::Changes(first) => {
            let at = first.last().unwrap().revision;
            let rest = if at < end { follow(&mut slow, end).await } else { Vec::new() };
            assert_eq!(first.len() + rest.len(), told);
        }
    }
}

/// Whether a future ends although nothing else happens. Only the answer "yes" is certain, so a wrong "no" cannot
/// fail a test.
async fn ends(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
    tokio::time::timeout(Duration::from_millis(50), future).await.is_ok()
}

/// Waits for a future that has to end.
async fn must_end(future: impl Future<Output = ()>) {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("nothing holds it");
}

/// What a revision changed is settled when every watch has returned it and was asked again, or was dropped. What
/// does not watch yet holds nothing.
async fn settles(driver: Driver) {
    let c = Control::new(driver);
    let from = c.revision();
    must_end(c.settled(from)).await;
    let revision = c.update(set(&c.read("a"), "1")).await.unwrap();
    must_end(c.settled(revision)).await;
    // One that has taken nothing, one that took the change, one that asks for the next, one that is dropped.
    let mut late = c.watch(from);
    let mut settled = Box::pin(c.settled(revision));
    assert!(!ends(&mut settled).await, "it has not taken the change");
    assert_eq!(follow(&mut late, revision).await.len(), 1);
    assert!(!ends(&mut settled).await, "it took the change, and may be at work on it");
    let dropped = c.watch(from);
    let mut with_both = Box::pin(c.settled(revision));
    let asking = tokio::spawn(async move { late.next().await });
    must_end(settled).await;
    assert!(!ends(&mut with_both).await, "the other watch has taken nothing");
    drop(dropped);
    must_end(with_both).await;
    // One that waits for changes holds a later revision until it has returned it and asks again.
    let mut later = Box::pin(c.settled(revision + 1));
    assert!(!ends(&mut later).await, "there is no such revision yet");
    let next = c.update(set(&c.read("a"), "2")).await.unwrap();
    let Watched::Changes(changes) = asking.await.unwrap() else { panic!("a reset") };
    assert_eq!(changes.last().map(|c| c.revision), Some(next));
    // The task, and its watch with it, has ended.
    must_end(later).await;
    must_end(c.settled(next)).await;
    // A watch that begins after the call does not hold it, and one that was never behind does until it asks.
    let before = c.settled(next);
    let mut current = c.watch(next);
    must_end(before).await;
    assert!(!ends(&mut Box::pin(c.settled(next))).await, "it may hold what was read before");
    assert!(!ends(&mut Box::pin(async { drop(current.next().await) })).await, "there is no news");
    must_end(c.settled(next)).await;
}

/// Watchers that start at any time see each later change once and in order.
async fn watches_under_load(driver: Driver) {
    let c = Control::new(driver);
    let watchers: Vec<_> = (0..4_u64)
        .map(|i| {
            let c = c.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(i)).await;
                let from = c.revision();
                let mut n = c.read("n").bytes().map_or(0, |b| number(b));
                let (mut watch, mut last) = (c.watch(from), from);
                // The keys may have been read after `from`; then the first changes are older than what was
                // read.
                let mut seen: Option<u64> = None;
                while n < 200 {
                    let Watched::Changes(changes) = watch.next().await else { panic!("a reset") };
                    for change in changes {
                        assert!(change.revision > last, "{} after {last}", change.revision);
                        last = change.revision;
                        n = number(&change.value.unwrap());
                        assert!(seen.is_none_or(|s| n == s + 1), "{n} after {seen:?}");
                        seen = Some(n);
                    }
                }
            })
        })
        .collect();
    for _ in 0..200 {
        increment(&c).await.unwrap();
    }
    for w in watchers {
        tokio::time::timeout(Duration::from_secs(20), w).await.unwrap().unwrap();
    }
}

pub fn number(bytes: &[u8]) -> u64 {
    std::str::from_utf8(bytes).unwrap().parse().unwrap()
}

pub async fn increment(c: &Control) -> Result<u64, Error> {
    c.change(|update| {
        let entry = c.read("n");
        let n = entry.bytes().map_or(0, |b| number(b)) + 1;
        update.set(&entry, n.to_string());
        Ok(n)
    })
    .await
}

/// Eight tasks with one handle, then eight with their own handles, as processes have.
async fn increments(driver: Driver) {
    const EACH: u64 = 25;
    let shared = Control::new(driver.clone());
    for round in 0..2_u64 {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let c = if round == 0 { shared.clone() } else { Control::new(driver.clone()) };
                tokio::spawn(async move {
                    let mut answers = Vec::new();
                    while answers.len() < EACH as usize {
                        match increment(&c).await {
                            Ok(n) => answers.push(n),
                            Err(Error::Contended(key)) => assert_eq!(key, "n"),
                            Err(e) => panic!("{e}"),
                        }
                    }
                    answers
                })
            })
            .collect();
        let mut all = Vec::new();
        for t in tasks {
            all.extend(t.await.unwrap());
        }
        all.sort_unstable();
        let first = round * 8 * EACH;
        assert_eq!(all, (first + 1..=first + 8 * EACH).collect::<Vec<_>>());
    }
    assert_eq!(number(&value(&shared, "n").unwrap()), 16 * EACH);
}

/// A caller whose attempts all come too late gets an error, and has changed nothing.
async fn tries_are_bounded(driver: Driver) {
    let c = Control::new(driver);
    let stale = c.read("k");
    c.update(set(&stale, "1")).await.unwrap();
    let mut asked = 0;
    let done: Result<(), Error> = c
        .change(|update| {
            asked += 1;
            update.set(&stale, "x");
            Ok(())
        })
        .await;
    assert!(matches!(done, Err(Error::Contended(k)) if k == "k"));
    assert!(asked > 1 && value(&c, "k") == Some(Bytes::from_static(b"1")));
    // What the caller finds wrong ends it at once.
    let done: Result<(), Error> = c
        .change(|update| {
            update.set(&c.read("k"), "x");
            Err(Error::Drive("no".into()))
        })
        .await;
    assert!(matches!(done, Err(Error::Drive(_))) && value(&c, "k") == Some(Bytes::from_static(b"1")));
}

async fn the_end(driver: Driver) {
    let c = Control::new(driver);
    c.update(set(&c.read("k"), "1")).await.unwrap();
    let two = set(&c.read("k"), "2");
    c.close().await;
    assert!(matches!(c.update(two).await, Err(Error::Unavailable(_))));
    assert!(matches!(c.barrier().await, Err(Error::Unavailable(_))));
}
