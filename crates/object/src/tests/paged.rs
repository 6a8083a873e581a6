//! Lists of versions that are in pages: what changes them, and what they cost.

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_commit::version_list::Bounds;
use ashlar_format::{Body, Retention, VersionId};
use bytes::Bytes;

use super::{Pool, Rng, SMALL, Store, again, get, memory, options, put, spilled};
use crate::backend::Backend;
use crate::memory::Memory;
use crate::*;

/// Every version, in lists of `max`.
async fn listed(store: &Store, max: usize) -> Vec<VersionEntry> {
    let (mut all, mut key, mut version) = (Vec::new(), String::new(), None);
    loop {
        let spec = VersionListSpec {
            key_marker: &key,
            version_marker: version,
            max_keys: max,
            ..VersionListSpec::default()
        };
        let page = store.list_versions("bucket", &spec).await.unwrap();
        assert!(page.entries.len() <= max && (!page.truncated || page.entries.len() == max));
        all.extend(page.entries);
        if !page.truncated {
            return all;
        }
        (key, version) = (page.next_key.unwrap(), page.next_version);
    }
}

/// A store with these bounds and a bucket that keeps versions.
async fn store(bounds: Bounds) -> (Store, Arc<Memory>) {
    let (_, memory, control) = memory().await;
    let options = Options { version_bounds: bounds, ..options() };
    let store = Store::over(Backend::Memory(memory.clone()), control, options).unwrap();
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    (store, memory)
}

async fn add(store: &Store, key: &str, n: usize) -> VersionId {
    put(store, "bucket", key, &format!("{key} {n}").into()).await.unwrap().version_id.unwrap()
}

/// How the record of a key stands: versions in it, and versions in pages.
async fn shape(store: &Store, key: &str) -> (usize, u64) {
    spilled(store).await;
    let register = store.inner.object_key(&store.bucket("bucket").unwrap(), key).unwrap();
    let record = store.inner.backend.read_register(&register).await.unwrap();
    let body = record.as_ref().map_or(&Body::Tombstone, |r| &r.body);
    (body.newest().len(), body.below().map_or(0, |b| b.root.count()))
}

#[tokio::test]
async fn paged_list_equals_unpaged_list() {
    let (_, memory, control) = memory().await;
    let options = Options { version_bounds: Bounds::STANDARD, ..options() };
    let store = Store::over(Backend::Memory(memory.clone()), control.clone(), options).unwrap();
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    // The null version is the oldest of its key.
    put(&store, "bucket", "k", &"k null".into()).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    let mut want = HashMap::from([(("k".to_owned(), VersionId::ZERO), "k null".to_owned())]);
    let mut order = Vec::new();
    for (key, count) in [("a", 3), ("k", 400), ("k2", 1), ("z", 20)] {
        let first = order.len();
        if key == "k" {
            order.push((key.to_owned(), VersionId::ZERO));
        }
        for i in 0..count {
            let id = add(&store, key, i).await;
            want.insert((key.to_owned(), id), format!("{key} {i}"));
            order.push((key.to_owned(), id));
        }
        order[first..].reverse();
    }
    let (head, below) = shape(&store, "k").await;
    assert!(head <= Bounds::STANDARD.head && head as u64 + below == 401, "{head}, {below}");
    for store in [store, again(&memory, &control)] {
        store.count_usage("bucket").await.unwrap();
        let counted = store.usage("bucket").unwrap().usage;
        assert_eq!((counted.versions, counted.objects), (425, 4));
        assert_eq!(counted.bytes, want.values().map(|b| b.len() as u64).sum::<u64>());
        for max in [1000, 7, 3] {
            let list = listed(&store, max).await;
            let ids: Vec<_> = list.iter().map(|e| (e.entry.key.clone(), e.version_id)).collect();
            assert!(ids == order, "in lists of {max}");
        }
        for ((key, id), body) in &want {
            assert_eq!(get(&store, "bucket", key, Some(*id)).await.unwrap(), body.as_bytes());
        }
        let absent = store.get("bucket", "k", Some(VersionId([7; 16]))).await;
        assert!(matches!(absent.err(), Some(Error::NoSuchVersion)));
        // The first page of a long list reads none of the older pages but those that it shows.
        let steps = || memory.steps.load(std::sync::atomic::Ordering::SeqCst);
        let before = steps();
        let spec = VersionListSpec { prefix: "k", max_keys: 5, ..VersionListSpec::default() };
        store.list_versions("bucket", &spec).await.unwrap();
        assert!(steps() - before < 12, "{} steps", steps() - before);
        // A marker that is gone shows the key's versions again rather than leaving some out.
        let spec = VersionListSpec {
            key_marker: "k",
            version_marker: Some(VersionId([7; 16])),
            max_keys: 1000,
            ..VersionListSpec::default()
        };
        assert_eq!(store.list_versions("bucket", &spec).await.unwrap().entries.len(), 401 + 1 + 20);
    }
}

/// What is locked stays, in a page as in the record.
#[tokio::test]
async fn locks_apply_to_versions_in_pages() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    // The null version is locked, and the oldest.
    put(&store, "bucket", "k", &"null".into()).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    store.enable_object_lock("bucket").await.unwrap();
    store.set_legal_hold("bucket", "k", Some(VersionId::ZERO), true).await.unwrap();
    let mut ids = Vec::new();
    for i in 0..40 {
        ids.push(add(&store, "k", i).await);
    }
    let until_ms = store.lock_time_ms() + 1_000_000_000;
    let retention = |compliance| Some(Retention { compliance, until_ms });
    store.set_retention("bucket", "k", Some(ids[5]), retention(true), false).await.unwrap();
    store.set_retention("bucket", "k", Some(ids[9]), retention(false), false).await.unwrap();
    let (head, below) = shape(&store, "k").await;
    assert!(head <= 2 && head as u64 + below == 41);
    let delete = |id: VersionId, bypass: bool| {
        let store = store.clone();
        async move { store.delete_bypassing("bucket", "k", Some(id), &Conditions::NONE, bypass).await }
    };
    for (id, bypass, fine) in [
        (ids[5], true, false),
        (ids[9], false, false),
        (VersionId::ZERO, true, false),
        (ids[9], true, true),
        (ids[6], false, true),
    ] {
        let done = delete(id, bypass).await;
        assert!(if fine { done.is_ok() } else { matches!(done, Err(Error::Locked)) }, "{done:?}");
    }
    let weaker = store.set_retention("bucket", "k", Some(ids[5]), None, true).await;
    assert!(matches!(weaker, Err(Error::Locked)));
    assert_eq!(listed(&store, 1000).await.len(), 39);
    // Lifecycle removes the others, however many a change takes, and nothing that is locked.
    let all = |found: &KeyVersions<'_>| ToExpire {
        current: false,
        versions: (1..found.versions.len()).filter(|i| !found.locked[*i]).collect(),
    };
    let gone = store.expire("bucket", "k", all).await.unwrap();
    assert_eq!((gone.versions, gone.locked), (36, 0));
    let left: Vec<VersionId> = listed(&store, 1000).await.iter().map(|e| e.version_id).collect();
    assert_eq!(left, [ids[39], ids[5], VersionId::ZERO]);
}

/// A completed upload in a bucket whose versioning is suspended replaces the null version in a page.
#[tokio::test]
async fn completion_onto_key_with_pages() {
    let (store, memory) = store(SMALL).await;
    store.set_versioning("bucket", Versioning::Suspended).await.unwrap();
    put(&store, "bucket", "k", &"null".into()).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    for i in 0..20 {
        add(&store, "k", i).await;
    }
    store.set_versioning("bucket", Versioning::Suspended).await.unwrap();
    let upload = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    let body = Rng(7).body(300);
    let made = super::part(&store, "bucket", "k", upload, 1, &body).await.unwrap();
    let parts = [CompletedPart { number: 1, etag: made.etag, checksum: None }];
    store.complete_upload("bucket", "k", upload, &parts, None, &Conditions::NONE).await.unwrap();
    let list = listed(&store, 1000).await;
    assert_eq!((list.len(), list[0].version_id), (21, VersionId::ZERO));
    assert_eq!(list.iter().filter(|e| e.version_id == VersionId::ZERO).count(), 1);
    assert_eq!(get(&store, "bucket", "k", None).await.unwrap(), body);
    let (head, below) = shape(&store, "k").await;
    assert!(head <= 2 && head as u64 + below == 21, "{head}, {below}");
    for e in listed(&store, 1000).await {
        store.delete("bucket", "k", Some(e.version_id), &Conditions::NONE).await.unwrap();
    }
    store.sweep(i64::MAX / 2).await.unwrap();
    spilled(&store).await;
    assert_eq!(memory.census(), (0, 0));
}

/// A copy of an old version onto its key shares the data with it.
#[tokio::test]
async fn shared_data_is_kept_while_a_version_names_it() {
    let (store, memory) = store(SMALL).await;
    let mut ids = Vec::new();
    for i in 0..12 {
        ids.push(add(&store, "k", i).await);
    }
    spilled(&store).await;
    let from = |v| super::CopySource {
        bucket: "bucket".into(),
        key: "k".into(),
        version: Some(v),
        conditions: Conditions::NONE,
    };
    let mut shared = vec![ids[2]];
    for source in [ids[2], ids[2], ids[4]] {
        let spec = CopySpec { meta: Some(Pairs::new()), ..CopySpec::default() };
        let copied = store.copy(&from(source), "bucket", "k", spec).await.unwrap();
        shared.push(copied.committed.version_id.unwrap());
        for i in 0..7 {
            ids.push(add(&store, "k", 100 + i).await);
        }
        spilled(&store).await;
    }
    for (n, id) in [(0, 2), (1, 2), (2, 2)].map(|(at, body)| (shared[at], body)).into_iter().enumerate() {
        let id: (VersionId, i32) = id;
        assert_eq!(get(&store, "bucket", "k", Some(id.0)).await.unwrap(), format!("k {}", id.1).as_bytes());
        store.delete("bucket", "k", Some(id.0), &Conditions::NONE).await.unwrap();
        assert!(n < 3);
    }
    assert_eq!(get(&store, "bucket", "k", Some(shared[3])).await.unwrap(), b"k 4");
    for e in listed(&store, 1000).await {
        store.delete("bucket", "k", Some(e.version_id), &Conditions::NONE).await.unwrap();
    }
    spilled(&store).await;
    assert_eq!(memory.census(), (0, 0));
}

/// Who follows the changes of a bucket is told of versions in pages too.
#[tokio::test]
async fn feed_records_versions_in_pages() {
    use crate::feed::{Cause, Kind, NOTIFICATION};
    let (store, _) = store(SMALL).await;
    let mut ids = Vec::new();
    for i in 0..20 {
        ids.push(add(&store, "k", i).await);
    }
    store.set_bucket_document("bucket", NOTIFICATION, Some("x")).await.unwrap();
    store.open_feed().await.unwrap();
    let mut reader = store.feed().reader("r").await.unwrap();
    store.delete("bucket", "k", Some(ids[3]), &Conditions::NONE).await.unwrap();
    let cause = Cause { kind: Kind::Expire, who: "lifecycle".into(), ..Cause::default() };
    let older =
        |found: &KeyVersions<'_>| ToExpire { current: false, versions: (10..found.versions.len()).collect() };
    let expired = store.by(Arc::new(cause)).expire("bucket", "k", older).await.unwrap();
    assert_eq!(expired, Expired { versions: 9, ..Expired::default() });
    let mut told = Vec::new();
    while !reader.is_at_end() {
        told.extend(reader.next(100).await.unwrap().changes.iter().map(|c| c.version_id));
    }
    let want: Vec<_> = [3, 0, 1, 2, 4, 5, 6, 7, 8, 9].iter().map(|i| Some(ids[*i])).collect();
    assert_eq!(told, want);
}

/// Hundreds of versions over drives, from several tasks, with spills and joins of pages all the time: nothing
/// is lost, nothing is left over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_versions_over_drives() {
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    let tasks = (0..4).map(|t| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut made = Vec::new();
            for i in 0..75 {
                let size = if i % 20 == 0 { 200_000 } else { 700 };
                let body = Rng(t * 1000 + i + 1).body(size);
                let id = put(&store, "bucket", "k", &body).await.unwrap().version_id.unwrap();
                made.push((id, body));
                if i % 5 == 4 {
                    let (gone, _) = made.remove(made.len() / 2);
                    store.delete("bucket", "k", Some(gone), &Conditions::NONE).await.unwrap();
                }
            }
            made
        })
    });
    let mut want: HashMap<VersionId, Bytes> = HashMap::new();
    for made in futures::future::join_all(tasks).await {
        want.extend(made.unwrap());
    }
    let (head, below) = shape(&store, "k").await;
    // How far writers are ahead of the spills that they start is not certain; most versions are in pages.
    assert!(head as u64 + below == 240 && below > 120, "{head}, {below}");
    let check = |store: Store| {
        let want = want.clone();
        async move {
            let list = listed(&store, 50).await;
            assert_eq!(list.len(), want.len());
            for e in &list {
                let body = get(&store, "bucket", "k", Some(e.version_id)).await.unwrap();
                assert!(body == want[&e.version_id], "{:?}", e.version_id);
            }
        }
    };
    check(store.clone()).await;
    pool.close().await;
    // Without a drive the older versions are changed as ever; with it again everything is there.
    let store = pool.open(&[1]).await;
    check(store.clone()).await;
    let oldest: Vec<VersionId> = listed(&store, 1000).await.iter().rev().map(|e| e.version_id).collect();
    for id in &oldest[..40] {
        store.delete("bucket", "k", Some(*id), &Conditions::NONE).await.unwrap();
        want.remove(id);
    }
    pool.close().await;
    let store = pool.open(&[]).await;
    assert_eq!(listed(&store, 33).await.len(), want.len());
    for e in listed(&store, 33).await {
        let body = get(&store, "bucket", "k", Some(e.version_id)).await.unwrap();
        assert!(body == want[&e.version_id]);
        store.delete("bucket", "k", Some(e.version_id), &Conditions::NONE).await.unwrap();
    }
    assert!(listed(&store, 1000).await.is_empty());
    pool.close().await;
}
