//! Limits of buckets: never exceeded, by whatever way bytes come, and counted right.

use bytes::Bytes;

use super::{Rng, again, memory, part, put};
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
async fn a_limit_holds_for_puts_copies_parts_and_completions() {
    let (store, memory, control) = limited(1000).await;
    let used = |s: &Store| s.usage("bucket").unwrap().map(|u| (u.bytes, u.versions));
    put(&store, "bucket", "a", &body(400)).await.unwrap();
    put(&store, "bucket", "a", &body(400)).await.unwrap();
    assert_eq!(used(&store), Some((800, 2)), "every version counts");
    assert!(full(put(&store, "bucket", "b", &body(201)).await));
    let from =
        CopySource { bucket: "bucket".into(), key: "a".into(), version: None, conditions: Conditions::NONE };
    let spec = || CopySpec { changes: true, ..CopySpec::default() };
    assert!(full(store.copy(&from, "bucket", "c", spec()).await), "a copy");
    assert!(full(store.copy(&from, "bucket", "a", spec()).await), "a copy of the record alone");
    // Parts of open uploads take room (FINDINGS S13): those of one, and of another.
    let id = store.create_upload("bucket", "u", UploadSpec::default()).await.unwrap();
    let other = store.create_upload("bucket", "v", UploadSpec::default()).await.unwrap();
    let upload = async |number: u16| {
        let p = part(&store, "bucket", "u", id, number, &body(100)).await.unwrap();
        CompletedPart { number, etag: p.etag, checksum: p.checksum }
    };
    let first = upload(1).await;
    part(&store, "bucket", "v", other, 1, &body(60)).await.unwrap();
    assert!(full(part(&store, "bucket", "u", id, 2, &body(100)).await), "900 + 60 + 100");
    // One that replaces another needs room while both are there, and then takes its own.
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
    // A third part, and what becomes of all when they are an object: each byte counts once.
    let parts = vec![first, second, upload(3).await];
    complete(parts.clone()).await.unwrap();
    complete(parts).await.unwrap();
    assert_eq!(used(&store), Some((700, 2)), "a repeated completion counts once");
    assert!(full(put(&store, "bucket", "b", &body(301)).await), "700 and no parts");
    put(&store, "bucket", "b", &body(300)).await.unwrap();
    let page = VersionListSpec { prefix: "b", max_keys: 10, ..Default::default() };
    let b = store.list_versions("bucket", &page).await.unwrap().entries[0].version_id;
    store.delete("bucket", "b", Some(b), &Conditions::NONE).await.unwrap();
    // A marker is nothing; after a restart nothing is taken before it is counted.
    store.delete("bucket", "a", None, &Conditions::NONE).await.unwrap();
    assert_eq!(used(&store), Some((700, 2)));
    let store = again(&memory, &control);
    assert!(matches!(put(&store, "bucket", "d", &body(1)).await, Err(Error::Busy)));
    store.count_limited().await.unwrap();
    assert_eq!(used(&store), Some((700, 2)));
    put(&store, "bucket", "d", &body(300)).await.unwrap();
    assert!(full(put(&store, "bucket", "d", &body(1)).await));
    put(&store, "bucket", "d", &body(0)).await.unwrap();
    store.set_quota("bucket", None).await.unwrap();
    put(&store, "bucket", "d", &body(1)).await.unwrap();
    assert_eq!((used(&store), store.quota("bucket").unwrap()), (None, None));
}

#[tokio::test]
async fn bodies_in_flight_together_never_exceed_it() {
    let (store, ..) = limited(1000).await;
    let spec = || PutSpec::new(300);
    let mut open = Vec::new();
    for i in 0..3 {
        open.push(store.put("bucket", &format!("k{i}"), spec()).await.unwrap());
    }
    assert!(full(store.put("bucket", "k3", spec()).await.map(|_| ())));
    // One is given up, its room is free again.
    drop(open.pop());
    let mut again = store.put("bucket", "k3", spec()).await.unwrap();
    again.write(body(300)).await.unwrap();
    again.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
    assert!(full(store.put("bucket", "k4", spec()).await.map(|_| ())));
}

#[tokio::test]
async fn what_is_noted_is_what_a_count_finds() {
    for seed in 1..20u64 {
        let (store, ..) = limited(u64::MAX / 4).await;
        let mut rng = Rng(seed * 7919);
        for step in 0..60 {
            let key = format!("k{}", rng.below(5));
            match rng.below(5) {
                0..=2 => {
                    let n = rng.below(500) as usize;
                    put(&store, "bucket", &key, &rng.body(n)).await.unwrap();
                }
                3 => {
                    let _ = store.delete("bucket", &key, None, &Conditions::NONE).await;
                }
                _ => {
                    let page = VersionListSpec { max_keys: 100, ..Default::default() };
                    let all = store.list_versions("bucket", &page).await.unwrap().entries;
                    if !all.is_empty() {
                        let e = &all[rng.below(all.len() as u64) as usize];
                        let id = Some(e.version_id);
                        store.delete("bucket", &e.entry.key, id, &Conditions::NONE).await.unwrap();
                    }
                }
            }
            let noted = store.usage("bucket").unwrap();
            let counted = store.count_usage("bucket").await.unwrap();
            assert_eq!(noted, Some(counted), "seed {seed}, step {step}");
        }
    }
}
