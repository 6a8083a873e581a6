//! Limits of buckets: never exceeded, in whatever way bytes are added. Counts of buckets: exact after every
//! step.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{CopySource, Rng, Store, again, memory, part, put, times};
use crate::*;

async fn limited(limit: u64) -> (Store, std::sync::Arc<crate::memory::Memory>, ashlar_cluster::Control) {
    let (store, memory, control) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    store.set_quota("bucket", Some(limit)).await.unwrap();
    (store, memory, control)
}

fn full<T>(r: Result<T>) -> bool {
    matches!(r, Err(Error::QuotaExceeded { .. }))
}

fn body(n: usize) -> Bytes {
    Bytes::from(vec![7; n])
}

#[tokio::test]
async fn quota_applies_to_puts_copies_parts_and_completions() {
    let (store, memory, control) = limited(1000).await;
    let used = |s: &Store| {
        let counted = s.usage("bucket").unwrap();
        counted.complete.then_some((counted.usage.bytes, counted.usage.versions))
    };
    put(&store, "bucket", "a", &body(400)).await.unwrap();
    put(&store, "bucket", "a", &body(400)).await.unwrap();
    assert_eq!(used(&store), Some((800, 2)), "every version counts");
    assert!(full(put(&store, "bucket", "b", &body(201)).await));
    let from =
        CopySource { bucket: "bucket".into(), key: "a".into(), version: None, conditions: Conditions::NONE };
    let spec = || CopySpec { changes: true, ..CopySpec::default() };
    assert!(full(store.copy(&from, "bucket", "c", spec()).await), "a copy");
    assert!(full(store.copy(&from, "bucket", "a", spec()).await), "a copy of the record alone");
    // Parts of open uploads count: those of one, and of another.
    let id = store.create_upload("bucket", "u", UploadSpec::default()).await.unwrap();
    let other = store.create_upload("bucket", "v", UploadSpec::default()).await.unwrap();
    let upload = async |number: u16| {
        let p = part(&store, "bucket", "u", id, number, &body(100)).await.unwrap();
        CompletedPart { number, etag: p.etag, checksum: p.checksum }
    };
    let first = upload(1).await;
    part(&store, "bucket", "v", other, 1, &body(60)).await.unwrap();
    assert!(full(part(&store, "bucket", "u", id, 2, &body(100)).await), "900 + 60 + 100");
    // A part that replaces another needs space while both exist, and then its own size.
    part(&store, "bucket", "v", other, 1, &body(30)).await.unwrap();
    assert!(full(part(&store, "bucket", "u", id, 2, &body(100)).await), "900 + 30 + 100");
    store.abort_upload("bucket", "v", other).await.unwrap();
    let second = upload(2).await;
    assert!(full(put(&store, "bucket", "b", &body(1)).await), "800 + 200");
    // After a restart the parts are counted from what is stored.
    store.count_usage("bucket").await.unwrap();
    assert!(full(put(&store, "bucket", "b", &body(1)).await), "800 + 200, counted");
    let complete = |parts: Vec<CompletedPart>| {
        let store = store.clone();
        async move { store.complete_upload("bucket", "u", id, &parts, None, &Conditions::NONE).await }
    };
    assert_eq!(used(&store), Some((800, 2)), "parts are no versions");
    let page = VersionListSpec { max_keys: 10, ..Default::default() };
    let oldest = store.list_versions("bucket", &page).await.unwrap().entries[1].version_id;
    store.delete("bucket", "a", Some(oldest), &Conditions::NONE).await.unwrap();
    assert_eq!(used(&store), Some((400, 1)));
    // A third part, and then all of them as an object: each byte counts once.
    let parts = vec![first, second, upload(3).await];
    complete(parts.clone()).await.unwrap();
    complete(parts).await.unwrap();
    assert_eq!(used(&store), Some((700, 2)), "a repeated completion counts once");
    assert!(full(put(&store, "bucket", "b", &body(301)).await), "700 and no parts");
    put(&store, "bucket", "b", &body(300)).await.unwrap();
    let page = VersionListSpec { prefix: "b", max_keys: 10, ..Default::default() };
    let b = store.list_versions("bucket", &page).await.unwrap().entries[0].version_id;
    store.delete("bucket", "b", Some(b), &Conditions::NONE).await.unwrap();
    // A marker counts nothing; after a restart nothing is accepted before the bucket is counted.
    store.delete("bucket", "a", None, &Conditions::NONE).await.unwrap();
    assert_eq!(used(&store), Some((700, 2)));
    let store = again(&memory, &control);
    assert!(matches!(put(&store, "bucket", "d", &body(1)).await, Err(Error::Busy)));
    store.count_uncounted(false).await.unwrap();
    assert_eq!(used(&store), Some((700, 2)));
    put(&store, "bucket", "d", &body(300)).await.unwrap();
    assert!(full(put(&store, "bucket", "d", &body(1)).await));
    put(&store, "bucket", "d", &body(0)).await.unwrap();
    store.set_quota("bucket", None).await.unwrap();
    put(&store, "bucket", "d", &body(1)).await.unwrap();
    assert_eq!((used(&store), store.quota("bucket").unwrap()), (Some((1001, 5)), None));
}

#[tokio::test]
async fn concurrent_bodies_never_exceed_quota() {
    let (store, ..) = limited(1000).await;
    let spec = || PutSpec::new(300);
    let mut open = Vec::new();
    for i in 0..3 {
        open.push(store.put("bucket", &format!("k{i}"), spec()).await.unwrap());
    }
    assert!(full(store.put("bucket", "k3", spec()).await.map(|_| ())));
    // One is aborted, and its space is free again.
    drop(open.pop());
    let mut again = store.put("bucket", "k3", spec()).await.unwrap();
    again.write(body(300)).await.unwrap();
    again.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
    assert!(full(store.put("bucket", "k4", spec()).await.map(|_| ())));
}

/// Counts a bucket by its list of versions, without any code of the counts.
pub(crate) async fn recount(store: &Store, bucket: &str) -> Usage {
    let mut usage = Usage::default();
    let (mut keys, mut after, mut version) =
        (BTreeMap::<String, Vec<VersionEntry>>::new(), String::new(), None);
    loop {
        let spec = VersionListSpec {
            key_marker: &after,
            version_marker: version,
            max_keys: 1000,
            ..VersionListSpec::default()
        };
        let page = store.list_versions(bucket, &spec).await.unwrap();
        for e in page.entries {
            keys.entry(e.entry.key.clone()).or_default().push(e);
        }
        match page.next_key.filter(|_| page.truncated) {
            Some(k) => (after, version) = (k, page.next_version),
            None => break,
        }
    }
    for list in keys.values() {
        let (markers, data): (Vec<_>, Vec<_>) = list.iter().partition(|v| v.delete_marker);
        usage.delete_markers += markers.len() as u64;
        usage.versions += data.len() as u64;
        usage.bytes += data.iter().map(|v| v.entry.size).sum::<u64>();
        let of = |bounds: &[u64], n: u64| bounds.iter().filter(|b| n >= **b).count();
        usage.counts[of(&COUNT_BOUNDS, data.len() as u64)] += 1;
        if !list[0].delete_marker {
            usage.objects += 1;
            usage.current_bytes += list[0].entry.size;
            usage.sizes[of(&SIZE_BOUNDS, list[0].entry.size)] += 1;
        }
    }
    usage
}

#[tokio::test]
async fn new_bucket_is_counted_from_first_byte() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    put(&store, "bucket", "a", &body(400)).await.unwrap();
    put(&store, "bucket", "b", &body(2000)).await.unwrap();
    let counted = store.usage("bucket").unwrap();
    assert!(counted.complete);
    let u = counted.usage;
    assert_eq!((u.objects, u.versions, u.bytes, u.current_bytes), (2, 2, 2400, 2400));
    assert_eq!((u.sizes[0], u.sizes[1], u.counts[1]), (1, 1, 2));
}

/// Changes of many kinds by clients of a bucket, then `counted == recount` after every single one; answers
/// are lost and the process crashes, with half-done changes of every kind.
#[tokio::test]
async fn counts_are_exact_after_lost_answers_and_crashes() {
    for seed in 1..=30 * times() {
        let (mut store, mut memory, control) = memory().await;
        let mut rng = Rng(seed * 7919);
        store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
        let versioned = rng.chance(2);
        if versioned {
            store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
        }
        let mut uploads: Vec<(String, UploadId, Vec<CompletedPart>)> = Vec::new();
        let mut trace = Vec::new();
        for step in 0..80 {
            let (key, other) = (format!("k{}", rng.below(5)), format!("k{}", rng.below(5)));
            let (fate, kind) = (rng.below(24), rng.below(11));
            let crash = fate == 0;
            match fate {
                0 => memory.limit(rng.below(12) as i64),
                1..=3 => memory.lose(rng.below(4) as i64),
                _ => {}
            }
            trace.push(format!("{kind} {key} {other} fate {fate}"));
            let n = rng.below(3000) as usize;
            // Whether it succeeds is irrelevant.
            match kind {
                0..=2 => drop(put(&store, "bucket", &key, &rng.body(n)).await),
                3 => drop(store.delete("bucket", &key, None, &Conditions::NONE).await),
                4 => {
                    let page = VersionListSpec { max_keys: 100, ..Default::default() };
                    if let Ok(all) = store.list_versions("bucket", &page).await
                        && !all.entries.is_empty()
                    {
                        let e = &all.entries[rng.below(all.entries.len() as u64) as usize];
                        drop(
                            store.delete("bucket", &e.entry.key, Some(e.version_id), &Conditions::NONE).await,
                        );
                    }
                }
                5 => {
                    let everything = |f: &KeyVersions<'_>| ToExpire {
                        current: true,
                        versions: (1..f.versions.len()).collect(),
                    };
                    drop(store.expire("bucket", &key, everything).await);
                }
                6 => {
                    if let Ok(source) = store.get("bucket", &key, None).await {
                        drop(store.rename(&source, &other, &RenameSpec::default()).await);
                    }
                }
                7 => {
                    let size = store.get("bucket", &key, None).await.map_or(0, |o| o.size());
                    let checksum = Some(Algorithm::Crc64Nvme);
                    let spec = PutSpec { checksum, ..PutSpec::new(n as u64 + 1) };
                    if let Ok(mut a) = store.put("bucket", &key, spec).await {
                        let _ = a.write(rng.body(n + 1)).await;
                        drop(a.append(size, VersionSpec::default(), &Conditions::NONE).await);
                    }
                }
                8 => {
                    if let Ok(id) = store.create_upload("bucket", &key, UploadSpec::default()).await {
                        let mut parts = Vec::new();
                        for number in 1..=2 {
                            let Ok(p) = part(&store, "bucket", &key, id, number, &rng.body(n + 100)).await
                            else {
                                break;
                            };
                            parts.push(CompletedPart { number, etag: p.etag, checksum: p.checksum });
                        }
                        uploads.push((key.clone(), id, parts));
                    }
                }
                9 => {
                    if let Some((key, id, parts)) = uploads.pop() {
                        drop(
                            store.complete_upload("bucket", &key, id, &parts, None, &Conditions::NONE).await,
                        );
                    }
                }
                _ => {
                    let from = CopySource {
                        bucket: "bucket".into(),
                        key: key.clone(),
                        version: None,
                        conditions: Conditions::NONE,
                    };
                    drop(
                        store
                            .copy(&from, "bucket", &other, CopySpec { changes: true, ..CopySpec::default() })
                            .await,
                    );
                }
            }
            memory.limit(-1);
            memory.lose(-1);
            if crash {
                memory = Arc::new(memory.survivor());
                store = again(&memory, &control);
                assert!(!store.usage("bucket").unwrap().complete, "nothing is shown as known before it is");
            }
            store.count_uncounted(false).await.unwrap();
            // The first call frees a key that a rename held, and the next one reads it.
            store.count_uncounted(false).await.unwrap();
            let counted = store.usage("bucket").unwrap();
            let found = recount(&store, "bucket").await;
            assert!(counted.complete);
            assert_eq!(counted.usage, found, "seed {seed}, step {step}: {trace:#?}");
        }
    }
}

/// While clients change keys continuously, scans begin and end; afterwards the count is right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_under_load_are_exact() {
    for seed in 1..=4 * times() {
        let (store, memory, control) = memory().await;
        store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
        store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
        for i in 0..1500 {
            put(&store, "bucket", &format!("k{i:04}"), &body(i % 7)).await.unwrap();
        }
        let store = again(&memory, &control);
        let clients = (0..4u64).map(|c| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut rng = Rng(seed * 1000 + c + 1);
                for _ in 0..300 {
                    let key = format!("k{:04}", rng.below(1600));
                    if rng.chance(3) {
                        store.delete("bucket", &key, None, &Conditions::NONE).await.unwrap();
                    } else {
                        let n = rng.below(3000) as usize;
                        put(&store, "bucket", &key, &rng.body(n)).await.unwrap();
                    }
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        while !clients.iter().all(tokio::task::JoinHandle::is_finished) {
            store.count_uncounted(true).await.unwrap();
        }
        for c in clients {
            c.await.unwrap();
        }
        store.count_uncounted(false).await.unwrap();
        let counted = store.usage("bucket").unwrap();
        assert_eq!((counted.usage, counted.unsettled), (recount(&store, "bucket").await, 0), "seed {seed}");
    }
}

/// Passes over all buckets do not keep other tasks from running, however fast what they read answers.
#[tokio::test(flavor = "current_thread")]
async fn passes_over_many_buckets_let_other_tasks_run() {
    const BUCKETS: usize = 200;
    let (store, _, control) = memory().await;
    for i in 0..BUCKETS {
        store.create_bucket(&format!("bucket-{i}"), &CreateBucket::default()).await.unwrap();
    }
    let turns = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let taken = || turns.swap(0, std::sync::atomic::Ordering::Relaxed);
    store.sweep(0).await.unwrap();
    assert!(taken() >= BUCKETS, "a sweep");
    store.count_uncounted(true).await.unwrap();
    assert!(taken() >= BUCKETS, "a count");
    other.abort();
    drop(control);
}
