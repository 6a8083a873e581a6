//! Many concurrent callers: conditional writes (T13), bucket deletion, lists under change (T16).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_format::VersionId;
use bytes::Bytes;
use futures::future::join_all;

use super::{Pool, Store, get, put, put_if};
use crate::*;

fn none() -> Conditions {
    Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE }
}

/// Racers on each key with If-None-Match, over several coordinators: exactly one wins, and its value is read.
/// A racer with an unknown outcome may be the winner.
async fn one_winner(stores: &[Store], keys: usize, racers: usize) {
    for k in 0..keys {
        let key = format!("race-{k}");
        let calls = (0..racers).map(|i| {
            let (store, key) = (stores[i % stores.len()].clone(), key.clone());
            tokio::spawn(async move {
                let body = Bytes::from(format!("racer {i}"));
                (body.clone(), put_if(&store, "bucket", &key, &body, &none()).await)
            })
        });
        let (mut won, mut maybe) = (Vec::new(), Vec::new());
        for r in join_all(calls).await {
            match r.unwrap() {
                (body, Ok(_)) => won.push(body),
                (_, Err(Error::PreconditionFailed | Error::Conflict)) => {}
                (body, Err(Error::Unavailable(_))) => maybe.push(body),
                (_, Err(e)) => panic!("{key}: {e}"),
            }
        }
        assert!(won.len() == 1 || (won.is_empty() && !maybe.is_empty()), "{key}: {won:?} {maybe:?}");
        for store in stores {
            let there = get(store, "bucket", &key, None).await.unwrap();
            let legal = if won.is_empty() { &maybe } else { &won };
            assert!(legal.iter().any(|b| b[..] == there), "{key}");
        }
    }
}

/// A counter made of If-Match: no increment is lost.
async fn counter(store: &Store, callers: usize, times: usize) {
    put(store, "bucket", "counter", &Bytes::from_static(b"0")).await.unwrap();
    let lost = Arc::new(AtomicU64::new(0));
    let calls = (0..callers).map(|_| {
        let (store, lost) = (store.clone(), lost.clone());
        tokio::spawn(async move {
            for _ in 0..times {
                loop {
                    let o = match store.get("bucket", "counter", None).await {
                        Ok(o) => o,
                        Err(e) => panic!("{e}"),
                    };
                    let Ok(body) = super::read(&o).await else { continue };
                    let n: u64 = String::from_utf8(body).unwrap().parse().unwrap();
                    let tag = EntityTag { weak: false, tag: o.etag().to_string() };
                    let c = Conditions { if_match: Some(Match::Tags(vec![tag])), ..Conditions::NONE };
                    match put_if(&store, "bucket", "counter", &Bytes::from((n + 1).to_string()), &c).await {
                        Ok(_) => break,
                        Err(Error::PreconditionFailed | Error::Conflict) => {
                            lost.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(e) => panic!("{e}"),
                    }
                }
            }
        })
    });
    for r in join_all(calls).await {
        r.unwrap();
    }
    let end = get(store, "bucket", "counter", None).await.unwrap();
    assert_eq!(end, (callers * times).to_string().as_bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditional_writes_over_drives() {
    let mut pool = Pool::new(4).await;
    pool.sole = false;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    one_winner(std::slice::from_ref(&store), 10, 100).await;
    counter(&store, 8, 20).await;
    let (second, sets2) = pool.gateway(1);
    let (third, sets3) = pool.gateway(2);
    for k in 0..10 {
        store.delete("bucket", &format!("race-{k}"), None, &Conditions::NONE).await.unwrap();
    }
    // T13: a hundred racers on each of a hundred keys, over three gateways.
    one_winner(&[store, second, third], 100, 100).await;
    sets2.stop().await;
    sets3.stop().await;
    pool.close().await;
    let store = pool.open(&[2]).await;
    for k in 0..10 {
        let r = put_if(&store, "bucket", &format!("race-{k}"), &Bytes::new(), &none()).await;
        assert!(matches!(r, Err(Error::PreconditionFailed)), "after reopening, {k}");
    }
    counter(&store, 4, 10).await;
    pool.close().await;
}

/// Deleting a bucket races with writes into it: an acknowledged write keeps the bucket, and a deleted bucket
/// accepts none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_deletion_loses_no_write() {
    let store = Store::in_memory(Options::default()).await.unwrap();
    for round in 0..60u64 {
        let bucket = store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
        let writers = (0..4).map(|i| {
            let store = store.clone();
            tokio::spawn(async move {
                if i % 2 == 1 {
                    tokio::task::yield_now().await;
                }
                match put(&store, "bucket", &format!("k{i}"), &Bytes::from_static(b"x")).await {
                    Ok(_) => true,
                    Err(Error::NoSuchBucket) => false,
                    Err(e) => panic!("{e}"),
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        if round % 3 == 0 {
            tokio::task::yield_now().await;
        }
        let deletes = (0..2).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.delete_bucket("bucket").await })
        });
        let deletes: Vec<_> = deletes.collect();
        let written = join_all(writers).await.into_iter().filter(|w| *w.as_ref().unwrap()).count();
        let deleted = join_all(deletes).await.into_iter().filter(|d| d.as_ref().unwrap().is_ok()).count();
        assert!(deleted <= 1);
        if deleted == 1 {
            assert_eq!(written, 0, "round {round}: acknowledged into a deleted bucket");
            assert!(matches!(store.bucket("bucket"), Err(Error::NoSuchBucket)));
        } else {
            assert_eq!(store.bucket("bucket").unwrap().id, bucket.id);
            let spec = ListSpec { max_keys: 10, ..ListSpec::default() };
            let keys = store.list("bucket", &spec).await.unwrap().entries;
            assert_eq!(keys.len(), written, "round {round}");
            for e in keys {
                store.delete("bucket", &e.key, None, &Conditions::NONE).await.unwrap();
            }
            store.delete_bucket("bucket").await.unwrap();
        }
    }
}

/// Keys that exist all the time are in every list exactly once, whatever other keys are added or removed;
/// keys deleted before a list began are not in it.
async fn lists_under_change(store: &Store, keys: usize, versions: bool) {
    let name = |i: usize| format!("dir{:02}/key{i:06}", i % 37);
    let stay: Vec<usize> = (0..keys).filter(|i| i % 2 == 0).collect();
    let fill = futures::StreamExt::for_each_concurrent(futures::stream::iter(0..keys), 16, |i| async move {
        put(store, "bucket", &name(i), &Bytes::new()).await.unwrap();
    });
    fill.await;
    // A tenth of the others is removed before the list begins.
    for i in (0..keys).filter(|i| i % 20 == 1) {
        store.delete("bucket", &name(i), None, &Conditions::NONE).await.unwrap();
    }
    let stop = Arc::new(AtomicU64::new(0));
    let churn = {
        let (store, stop) = (store.clone(), stop.clone());
        tokio::spawn(async move {
            let mut i = 3usize;
            let mut n = 0u64;
            while stop.load(Ordering::Relaxed) == 0 {
                i = (i * 7919 + 13) % keys;
                let odd = i | 1;
                if odd % 20 == 1 {
                    continue;
                }
                if n.is_multiple_of(2) {
                    store.delete("bucket", &name(odd), None, &Conditions::NONE).await.unwrap();
                } else {
                    put(&store, "bucket", &name(odd), &Bytes::new()).await.unwrap();
                }
                n += 1;
            }
            n
        })
    };
    for max_keys in [1000, 137] {
        let mut seen: HashMap<String, u32> = HashMap::new();
        let (mut after, mut version) = (String::new(), None::<VersionId>);
        loop {
            if versions {
                let spec = VersionListSpec {
                    key_marker: &after,
                    version_marker: version,
                    max_keys,
                    ..VersionListSpec::default()
                };
                let page = store.list_versions("bucket", &spec).await.unwrap();
                for e in page.entries {
                    *seen.entry(e.entry.key).or_default() += 1;
                }
                match page.next_key.filter(|_| page.truncated) {
                    Some(k) => (after, version) = (k, page.next_version),
                    None => break,
                }
            } else {
                let spec = ListSpec { start_after: &after, max_keys, ..ListSpec::default() };
                let page = store.list("bucket", &spec).await.unwrap();
                for e in page.entries {
                    *seen.entry(e.key).or_default() += 1;
                }
                match page.next {
                    Some(k) => after = k,
                    None => break,
                }
            }
        }
        for i in &stay {
            assert_eq!(seen.get(&name(*i)), Some(&1), "{} in pages of {max_keys}", name(*i));
        }
        assert!(seen.values().all(|n| *n == 1), "a key came twice");
        for i in (0..keys).filter(|i| i % 20 == 1) {
            assert!(!seen.contains_key(&name(i)), "{} was deleted before", name(i));
        }
    }
    // By folders: every common prefix exactly once, although the first keys of many come and go.
    for max_keys in [1000, 5] {
        for _ in 0..10 {
            let (mut after, mut folders) = (String::new(), Vec::new());
            loop {
                let spec = ListSpec { delimiter: "/", max_keys, start_after: &after, ..ListSpec::default() };
                let page = store.list("bucket", &spec).await.unwrap();
                assert!(page.entries.is_empty());
                folders.extend(page.common_prefixes);
                match page.next {
                    Some(next) => after = next,
                    None => break,
                }
            }
            assert_eq!(folders, (0..37).map(|d| format!("dir{d:02}/")).collect::<Vec<_>>());
        }
    }
    stop.store(1, Ordering::Relaxed);
    assert!(churn.await.unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_in_memory() {
    let store = Store::in_memory(Options::default()).await.unwrap();
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    lists_under_change(&store, 10_000, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_over_drives() {
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    lists_under_change(&store, 10_000, false).await;
    pool.close().await;
    let store = pool.open(&[1]).await;
    lists_under_change(&store, 1_000, true).await;
    pool.close().await;
}

/// Folders cost what they show, not what they group.
#[tokio::test]
async fn list_skips_keys_below_common_prefix() {
    let (store, memory, _) = super::memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    for d in 0..20 {
        for i in 0..200 {
            put(&store, "bucket", &format!("d{d:02}/{i}"), &Bytes::new()).await.unwrap();
        }
    }
    let before = memory.steps.load(Ordering::SeqCst);
    let spec = ListSpec { delimiter: "/", max_keys: 1000, ..ListSpec::default() };
    let page = store.list("bucket", &spec).await.unwrap();
    assert_eq!(page.common_prefixes.len(), 20);
    let steps = memory.steps.load(Ordering::SeqCst) - before;
    assert!(steps <= 21, "{steps} reads of the index for 20 folders");
}
