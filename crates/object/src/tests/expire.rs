//! Lifecycle removes exactly the chosen versions, and never a locked one.

use std::sync::atomic::Ordering;

use ashlar_environment::time::Clock;
use ashlar_format::Retention;

use super::{Pool, Rng, Store, memory, put, spilled};
use crate::feed::{Cause, Kind, NOTIFICATION};
use crate::memory::Memory;
use crate::*;

fn body() -> bytes::Bytes {
    bytes::Bytes::from_static(b"data")
}

async fn versions(store: &Store, key: &str) -> Vec<VersionEntry> {
    let spec = VersionListSpec { prefix: key, max_keys: 1000, ..VersionListSpec::default() };
    store.list_versions("bucket", &spec).await.unwrap().entries
}

fn everything(found: &KeyVersions<'_>) -> ToExpire {
    let marker = found.versions[0].delete_marker;
    ToExpire { current: !marker, versions: (usize::from(!marker)..found.versions.len()).collect() }
}

#[tokio::test]
async fn expiry_depends_on_versioning() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    put(&store, "bucket", "k", &body()).await.unwrap();
    let nothing = store.expire("bucket", "k", |_| ToExpire::default()).await.unwrap();
    assert_eq!((nothing, versions(&store, "k").await.len()), (Expired::default(), 1));
    let gone = store.expire("bucket", "k", everything).await.unwrap();
    assert_eq!((gone, versions(&store, "k").await.len()), (Expired { current: 1, ..Default::default() }, 0));
    assert_eq!(store.expire("bucket", "k", |_| panic!("absent")).await.unwrap(), Expired::default());
    // With versions, a marker is added, and removed when it hides nothing.
    put(&store, "bucket", "k", &body()).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    put(&store, "bucket", "k", &body()).await.unwrap();
    let current = |_: &KeyVersions<'_>| ToExpire { current: true, versions: vec![] };
    assert_eq!(store.expire("bucket", "k", current).await.unwrap().current, 1);
    let list = versions(&store, "k").await;
    assert_eq!(list.iter().map(|v| v.delete_marker).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(list[2].version_id, VersionId::ZERO);
    // A marker does not expire again, and a current version is never treated as a noncurrent one.
    assert_eq!(store.expire("bucket", "k", current).await.unwrap(), Expired::default());
    let older = |_: &KeyVersions<'_>| ToExpire { current: false, versions: vec![1, 2] };
    assert_eq!(store.expire("bucket", "k", older).await.unwrap().versions, 2);
    let (keys, next) = store.scan_index("bucket", "", "", 10).await.unwrap();
    assert!(next.is_none() && keys[0].delete_marker && keys[0].alone, "{keys:?}");
    assert_eq!(store.expire("bucket", "k", everything).await.unwrap().markers, 1);
    assert!(versions(&store, "k").await.is_empty());
    put(&store, "bucket", "k", &body()).await.unwrap();
    let by_place = |_: &KeyVersions<'_>| ToExpire { current: false, versions: vec![0] };
    assert_eq!(store.expire("bucket", "k", by_place).await.unwrap(), Expired::default());
    // Suspended: the marker is the null version.
    store.set_versioning("bucket", Versioning::Suspended).await.unwrap();
    put(&store, "bucket", "s", &body()).await.unwrap();
    assert_eq!(store.expire("bucket", "s", everything).await.unwrap().current, 1);
    let list = versions(&store, "s").await;
    assert_eq!((list.len(), list[0].version_id, list[0].delete_marker), (1, VersionId::ZERO, true));
}

#[tokio::test]
async fn index_scan_covers_all_keys() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    for i in 0..23 {
        put(&store, "bucket", &format!("a/{i:02}"), &body()).await.unwrap();
        put(&store, "bucket", &format!("b/{i:02}"), &body()).await.unwrap();
    }
    for (prefix, want) in [("", 46), ("a/", 23), ("b/1", 10), ("c", 0)] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let (keys, next) = store.scan_index("bucket", prefix, &after, 7).await.unwrap();
            assert!(keys.iter().all(|k| k.alone && k.size == 4 && k.key.starts_with(prefix)));
            seen.extend(keys.into_iter().map(|k| k.key));
            match next {
                Some(next) => after = next,
                None => break,
            }
        }
        assert_eq!(seen.len(), want, "{prefix}");
        assert!(seen.is_sorted());
    }
}

#[tokio::test]
async fn expiry_of_each_version_is_recorded() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    let mut made = Vec::new();
    for _ in 0..4 {
        made.push(put(&store, "bucket", "k", &body()).await.unwrap().version_id);
    }
    store.set_bucket_document("bucket", NOTIFICATION, Some("x")).await.unwrap();
    store.open_feed().await.unwrap();
    let mut reader = store.feed().reader("r").await.unwrap();
    let cause = Cause { kind: Kind::Expire, who: "lifecycle".into(), ..Cause::default() };
    let store = store.by(std::sync::Arc::new(cause));
    // By age: a marker that was added in the meantime does not make the current version older.
    let all = |found: &KeyVersions<'_>| match found.versions[0].delete_marker {
        false => everything(found),
        true => ToExpire::default(),
    };
    let expired = store.expire("bucket", "k", all).await.unwrap();
    assert_eq!(expired, Expired { current: 1, versions: 3, ..Expired::default() });
    let mut told = Vec::new();
    while !reader.is_at_end() {
        let batch = reader.next(100).await.unwrap();
        told.extend(batch.changes.iter().map(|c| (c.kind, c.version_id)));
    }
    let gone = made[..3].iter().map(|id| (Kind::Expire, *id));
    assert_eq!(told[..3], gone.collect::<Vec<_>>());
    assert_eq!((told.len(), told[3].0), (4, Kind::ExpireMark));
    assert_eq!(versions(&store, "k").await.len(), 2);
}

/// A key with so many versions in a bucket with followers, and a handle by which lifecycle rules change it.
async fn followed(versions: usize) -> (Store, Store, std::sync::Arc<Memory>) {
    let (store, memory, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    for _ in 0..versions {
        put(&store, "bucket", "k", &body()).await.unwrap();
    }
    spilled(&store).await;
    store.set_bucket_document("bucket", NOTIFICATION, Some("x")).await.unwrap();
    store.open_feed().await.unwrap();
    let cause = Cause { kind: Kind::Expire, who: "lifecycle".into(), ..Cause::default() };
    (store.by(std::sync::Arc::new(cause)), store, memory)
}

/// The versions that the feed says were removed, in order.
async fn removed(reader: &mut crate::feed::Reader) -> Vec<Option<VersionId>> {
    let mut told = Vec::new();
    while !reader.is_at_end() {
        let batch = reader.next(1000).await.unwrap();
        told.extend(batch.changes.iter().filter(|c| c.kind == Kind::Expire).map(|c| c.version_id));
    }
    told
}

/// Each version is removed by a change of its own, and the list is not read again for each.
#[tokio::test]
async fn expiry_with_followers_does_not_read_list_for_each_version() {
    let mut took = Vec::new();
    for n in [40u64, 160] {
        let (lifecycle, store, memory) = followed(n as usize).await;
        let mut reader = store.feed().reader("r").await.unwrap();
        let mut old = versions(&store, "k").await.split_off(1);
        let mut calls = 0;
        let before = memory.steps.load(Ordering::SeqCst);
        let older = |found: &KeyVersions<'_>| {
            calls += 1;
            ToExpire { current: false, versions: (1..found.versions.len()).collect() }
        };
        let expired = lifecycle.expire("bucket", "k", older).await.unwrap();
        took.push(memory.steps.load(Ordering::SeqCst) - before);
        assert_eq!((expired, calls), (Expired { versions: n - 1, ..Expired::default() }, 1));
        assert_eq!(versions(&store, "k").await.len(), 1);
        old.reverse();
        let old: Vec<_> = old.iter().map(|v| Some(v.version_id)).collect();
        assert_eq!(removed(&mut reader).await, old, "one change for each, the oldest first");
    }
    // Four times as many versions in a tree of two more levels. Reading all pages for each takes 16 times as much.
    assert!(took[1] < 8 * took[0], "{took:?}");
}

/// Random versions, locks and choices: the chosen versions that are not locked are removed, and nothing else.
#[tokio::test]
async fn expiry_skips_locked_versions() {
    let far = ashlar_environment::time::SystemClock::default().wall_ms() + 1_000_000_000;
    for seed in 1..=150u64 {
        let mut r = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (store, ..) = memory().await;
        let spec = CreateBucket { object_lock: true, ..Default::default() };
        store.create_bucket("bucket", &spec).await.unwrap();
        for _ in 0..1 + r.below(5) {
            if r.chance(4) {
                store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
                continue;
            }
            let retention = match r.below(4) {
                0 => Some(Retention { compliance: true, until_ms: far }),
                1 => Some(Retention { compliance: false, until_ms: far }),
                2 => Some(Retention { compliance: false, until_ms: 5 }),
                _ => None,
            };
            let spec = VersionSpec { retention, legal_hold: r.chance(4), ..VersionSpec::default() };
            let mut p = store.put("bucket", "k", PutSpec::new(4)).await.unwrap();
            p.write(body()).await.unwrap();
            p.commit(spec, &Conditions::NONE).await.unwrap();
        }
        let before = versions(&store, "k").await;
        let mut locked = Vec::new();
        let mut chosen = ToExpire::default();
        store
            .inspect("bucket", "k", |found| {
                locked = found.locked.to_vec();
                assert!(found.keeps_data);
                chosen.current = r.chance(2);
                chosen.versions = (0..found.versions.len()).filter(|_| r.chance(2)).collect();
            })
            .await
            .unwrap();
        let expired = store.expire("bucket", "k", |_| chosen.clone()).await.unwrap();
        let after = versions(&store, "k").await;
        let mut gone = 0;
        for (i, v) in before.iter().enumerate() {
            let there = after.iter().any(|a| a.version_id == v.version_id);
            let may_go = chosen.versions.contains(&i) && (i > 0 || v.delete_marker) && !locked[i];
            assert_eq!(there, !may_go, "seed {seed}: version {i} of {before:?}, {chosen:?}, {locked:?}");
            gone += u64::from(!there);
        }
        assert_eq!(expired.versions + expired.markers, gone, "seed {seed}");
        let marked = chosen.current && !before[0].delete_marker;
        assert_eq!(expired.current, u64::from(marked), "seed {seed}");
        assert_eq!(after.len() as u64, before.len() as u64 - gone + expired.current, "seed {seed}");
    }
}

/// The speed of scanning a bucket: `cargo test --release -p ashlar-object index_scan_speed -- --ignored
/// --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn index_scan_speed() {
    const KEYS: usize = 100_000;
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    use futures::StreamExt;
    let puts = (0..KEYS).map(|i| {
        let store = store.clone();
        async move { put(&store, "bucket", &format!("some/where/{i:08}"), &body()).await.unwrap() }
    });
    futures::stream::iter(puts).buffer_unordered(64).for_each(|_| async {}).await;
    for _ in 0..3 {
        let began = std::time::Instant::now();
        let (mut seen, mut after) = (0, String::new());
        loop {
            let (keys, next) = store.scan_index("bucket", "", &after, MAX_SCAN).await.unwrap();
            seen += keys.len();
            match next {
                Some(next) => after = next,
                None => break,
            }
        }
        assert_eq!(seen, KEYS);
        println!("{:.0} keys/s looked at", KEYS as f64 / began.elapsed().as_secs_f64());
    }
    let began = std::time::Instant::now();
    let (keys, _) = store.scan_index("bucket", "", "", MAX_SCAN).await.unwrap();
    let gone = keys.iter().map(|k| store.expire("bucket", &k.key, everything));
    let n = futures::stream::iter(gone)
        .buffer_unordered(16)
        .fold(0, |n, e| async move { n + e.unwrap().current })
        .await;
    println!("{:.0} keys/s expired ({n})", n as f64 / began.elapsed().as_secs_f64());
    pool.close().await;
}
