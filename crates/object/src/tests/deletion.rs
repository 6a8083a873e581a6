//! Deletion of a bucket while other coordinators, which have not seen the deletion, write into it; crashes
//! between any two of its steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ashlar_commit::bucket_fence::Deletion;
use ashlar_format::{BucketId, RegisterKey, Space};
use bytes::Bytes;

use super::{Pool, again, get, memory, put};
use crate::fence::Removal;
use crate::*;

fn body() -> Bytes {
    Bytes::from_static(b"x")
}

/// Whether a key of this bucket exists, whatever the registry contains.
async fn is_stored(store: &Store, bucket: BucketId, key: &str) -> bool {
    let inner = &store.inner;
    let group = inner.backend.group_of(bucket, key.as_bytes());
    let key = RegisterKey::new(group, Space::Object, bucket, key.as_bytes());
    let record = inner.backend.read_register(&key).await.unwrap();
    !crate::versions::of(record.as_ref().map(|r| &r.body)).is_empty()
}

/// One store deletes buckets while another, which read the registry before, writes into them: an acknowledged
/// write keeps its bucket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_deletion_by_another_process_loses_no_acknowledged_write() {
    let mut pool = Pool::new(4).await;
    pool.sole = false;
    let store = pool.open(&[]).await;
    let (mut written, mut deleted) = (0, 0);
    // Which of the two comes first is not certain: both must have happened.
    let mut round = 0;
    while round < 24 || round < 80 && (written <= 8 || deleted == 0) {
        round += 1;
        let bucket = store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
        // It reads the registry now, and never again.
        let (other, sets) = pool.gateway(round);
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer = {
            let (stop, seen) = (stop.clone(), seen.clone());
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for n in 0u64..100 {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    // Without a pause the bucket is hardly ever empty.
                    tokio::time::sleep(Duration::from_millis(u64::from(round) % 5)).await;
                    let key = format!("key{n}");
                    match put(&other, "bucket", &key, &body()).await {
                        Ok(_) => acknowledged.push(key.clone()),
                        Err(Error::NoSuchBucket) => break,
                        Err(
                            Error::Unavailable(_) | Error::ControlStore(_) | Error::Conflict | Error::Busy,
                        ) => {}
                        Err(e) => panic!("{e}"),
                    }
                    seen.fetch_add(1, Ordering::SeqCst);
                    if round % 2 == 0 {
                        // Like a client that deletes what it wrote: the bucket is sometimes empty.
                        let gone = other.delete("bucket", &key, None, &Conditions::NONE).await;
                        if gone.is_ok() {
                            acknowledged.retain(|k| *k != key);
                        }
                    }
                }
                acknowledged
            })
        };
        // The deletion begins before the first write, after it, or after the second.
        while seen.load(Ordering::SeqCst) < u64::from(round) % 3 && !writer.is_finished() {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let mut gone = false;
        for _ in 0..12 {
            match store.delete_bucket("bucket").await {
                Ok(()) => {
                    gone = true;
                    break;
                }
                Err(
                    Error::BucketNotEmpty | Error::Conflict | Error::Unavailable(_) | Error::ControlStore(_),
                ) => {}
                Err(e) => panic!("{e}"),
            }
            tokio::time::sleep(Duration::from_millis(u64::from(round) % 3)).await;
        }
        if gone {
            // The other store continues for some time with its old view.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        stop.store(true, Ordering::SeqCst);
        let acknowledged = writer.await.unwrap();
        written += seen.load(Ordering::SeqCst);
        if gone {
            deleted += 1;
            assert_eq!(acknowledged, [""; 0], "round {round}: acknowledged into a bucket that is gone");
            for n in 0..seen.load(Ordering::SeqCst) {
                assert!(
                    !is_stored(&store, bucket.id, &format!("key{n}")).await,
                    "round {round}: key{n} is_stored there"
                );
            }
        } else {
            for key in &acknowledged {
                assert_eq!(get(&store, "bucket", key, None).await.unwrap(), b"x", "round {round}: {key}");
                store.delete("bucket", key, None, &Conditions::NONE).await.unwrap();
            }
            let spec = ListSpec { max_keys: 1000, ..ListSpec::default() };
            for e in store.list("bucket", &spec).await.unwrap().entries {
                store.delete("bucket", &e.key, None, &Conditions::NONE).await.unwrap();
            }
            store.delete_bucket("bucket").await.unwrap();
        }
        sets.stop().await;
    }
    assert!(written > 8 && deleted > 0, "{written} writes, {deleted} buckets deleted meanwhile");
    pool.close().await;
}

/// The purpose of the fence: with the registry alone, an acknowledged write is lost with its bucket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_deletion_without_fence_loses_write() {
    let mut pool = Pool::new(4).await;
    pool.sole = false;
    let store = pool.open(&[]).await;
    let bucket = store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let (other, sets) = pool.gateway(1);
    let begun = store.inner.registry.begin_deletion(&bucket).await.unwrap();
    let page = store.inner.backend.list(Space::Object, bucket.id, b"", b"", 1).await.unwrap();
    assert!(page.entries.is_empty());
    put(&other, "bucket", "key", &body()).await.unwrap();
    let removed = store.inner.registry.remove(&bucket, begun).await.unwrap();
    assert_eq!(removed, Removal::Done);
    assert!(is_stored(&store, bucket.id, "key").await, "it is_stored in a bucket that is gone");
    sets.stop().await;
    pool.close().await;
}

/// A store with the old view gets the error that the bucket is gone, and a bucket that stays can be written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_at_fence_follows_bucket_outcome() {
    let mut pool = Pool::new(4).await;
    pool.sole = false;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    put(&store, "bucket", "key", &body()).await.unwrap();
    let (other, sets) = pool.gateway(1);
    assert!(matches!(store.delete_bucket("bucket").await, Err(Error::BucketNotEmpty)));
    assert_eq!(store.sets().unwrap().fences().await, [], "lifted");
    put(&other, "bucket", "key2", &body()).await.unwrap();
    for key in ["key", "key2"] {
        store.delete("bucket", key, None, &Conditions::NONE).await.unwrap();
    }
    store.delete_bucket("bucket").await.unwrap();
    assert!(other.bucket("bucket").is_ok(), "it has the old view");
    assert!(matches!(put(&other, "bucket", "key3", &body()).await, Err(Error::NoSuchBucket)));
    assert!(matches!(other.bucket("bucket"), Err(Error::NoSuchBucket)), "it has looked");
    // As long as others may have the old view, the fence stays.
    store.sweep(0).await.unwrap();
    assert_eq!(store.sets().unwrap().fences().await.len(), 1);
    sets.stop().await;
    pool.close().await;
    // The only process lifts it with the last trace of the bucket.
    pool.sole = true;
    let store = pool.open(&[]).await;
    assert_eq!(store.sets().unwrap().fences().await.len(), 1, "it is durable");
    store.sweep(0).await.unwrap();
    assert_eq!(store.sets().unwrap().fences().await, []);
    pool.close().await;
}

/// A deletion whose process crashed: a write of another process aborts it, and so does the collector.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_bucket_deletion_is_settled() {
    let mut pool = Pool::new(4).await;
    pool.sole = false;
    let store = pool.open(&[]).await;
    let bucket = store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let (other, sets) = pool.gateway(1);
    let begun = store.inner.registry.begin_deletion(&bucket).await.unwrap();
    store.inner.fence_empty(bucket.id, begun).await.unwrap();
    // It crashed here.
    put(&other, "bucket", "key", &body()).await.unwrap();
    let late = store.inner.registry.remove(&bucket, begun).await.unwrap();
    assert_eq!(late, Removal::Superseded, "a deletion that wakes up late");
    assert_eq!(get(&store, "bucket", "key", None).await.unwrap(), b"x");
    let begun = store.inner.registry.begin_deletion(&bucket).await.unwrap();
    assert_eq!(begun, Deletion(2));
    assert!(matches!(store.inner.fence_empty(bucket.id, begun).await, Err(Error::BucketNotEmpty)));
    // It crashed here; the second pass that finds it in this state aborts it.
    store.sweep(0).await.unwrap();
    assert_eq!(store.sets().unwrap().fences().await, [(bucket.id, begun)]);
    store.sweep(0).await.unwrap();
    assert_eq!(store.sets().unwrap().fences().await, []);
    put(&other, "bucket", "key2", &body()).await.unwrap();
    // A deletion replaces another.
    let begun = store.inner.registry.begin_deletion(&bucket).await.unwrap();
    let next = store.inner.registry.begin_deletion(&bucket).await.unwrap();
    assert!(matches!(store.inner.fence_empty(bucket.id, next).await, Err(Error::BucketNotEmpty)));
    assert!(matches!(store.inner.fence_empty(bucket.id, begun).await, Err(Error::Conflict)));
    store.inner.abort_deletion(&bucket, begun).await.unwrap();
    assert_eq!(store.sets().unwrap().fences().await, [(bucket.id, next)], "not its fence");
    store.inner.abort_deletion(&bucket, next).await.unwrap();
    put(&other, "bucket", "key3", &body()).await.unwrap();
    sets.stop().await;
    pool.close().await;
}

/// A crash after any number of steps on the registers: for the next process, the bucket is writable or gone.
#[tokio::test]
async fn crash_during_bucket_deletion_leaves_bucket_or_nothing() {
    for full in [false, true] {
        let (mut whole, mut gone) = (0, 0);
        for steps in 0..12 {
            let (store, memory, control) = memory().await;
            store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
            if full {
                put(&store, "bucket", "key", &body()).await.unwrap();
            }
            memory.limit(steps);
            let done = store.delete_bucket("bucket").await;
            let memory = Arc::new(memory.survivor());
            let store = again(&memory, &control);
            store.sweep(0).await.unwrap();
            assert_eq!(memory.fences(), [], "after {steps} steps");
            match store.bucket("bucket") {
                Ok(_) => {
                    whole += 1;
                    assert!(done.is_err(), "after {steps} steps");
                    put(&store, "bucket", "key2", &body()).await.unwrap();
                    assert!(matches!(store.delete_bucket("bucket").await, Err(Error::BucketNotEmpty)));
                    put(&store, "bucket", "key3", &body()).await.unwrap();
                }
                Err(_) => {
                    gone += 1;
                    assert!(!full, "after {steps} steps");
                    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
                    put(&store, "bucket", "key", &body()).await.unwrap();
                }
            }
        }
        assert!(whole > 1 && (full || gone > 1), "{whole} whole, {gone} gone");
    }
}
