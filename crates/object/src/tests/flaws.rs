//! The flaws F7, F8 and F12 of docs/protocol.md 4, and related ones at this level: the order does not depend
//! on clocks, no key is held while a body is transferred, objects are not folders.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ashlar_environment::time::Clock;
use ashlar_format::VersionId;
use bytes::Bytes;

use super::{Pool, Rng, Store, get, options, put, put_if};
use crate::*;

/// A clock that can be wrong by any amount.
struct Skewed(AtomicI64);

impl Skewed {
    fn by(ms: i64) -> Arc<Skewed> {
        Arc::new(Skewed(AtomicI64::new(ms)))
    }
}

impl Clock for Skewed {
    fn wall_ms(&self) -> i64 {
        1_800_000_000_000 + self.0.load(Ordering::SeqCst)
    }
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

const MINUTES: i64 = 60_000;

/// Everything listed of one key, newest first, in pages of `page`: id, marker, latest, time.
/// Puts a body, or deletes: the id of the new version. The lists of the key move to pages in the background of all
/// nodes; if they overtake the change twice at once, its outcome is not known, and the list tells.
async fn change(store: &Store, key: &str, body: Option<&Bytes>, versions: usize) -> VersionId {
    loop {
        let changed = match body {
            Some(body) => put(store, "bucket", key, body).await.map(|c| c.version_id),
            None => store.delete("bucket", key, None, &Conditions::NONE).await.map(|d| d.version_id),
        };
        match changed {
            Ok(version) => return version.unwrap(),
            Err(Error::Unavailable(_)) => {
                let seen = listed(store, key, 1000).await;
                if seen.len() > versions {
                    return seen[0].0;
                }
            }
            Err(e) => panic!("{e}"),
        }
    }
}

async fn listed(store: &Store, key: &str, page: usize) -> Vec<(VersionId, bool, bool, i64)> {
    let mut out = Vec::new();
    let (mut after, mut version) = (String::new(), None);
    loop {
        let spec = VersionListSpec {
            prefix: key,
            key_marker: &after,
            version_marker: version,
            max_keys: page,
            ..VersionListSpec::default()
        };
        let p = store.list_versions("bucket", &spec).await.unwrap();
        out.extend(p.entries.iter().map(|e| (e.version_id, e.delete_marker, e.latest, e.entry.modified_ms)));
        match p.next_key.filter(|_| p.truncated) {
            Some(k) => (after, version) = (k, p.next_version),
            None => return out,
        }
    }
}

/// F7: three nodes, with a right clock, one ten minutes ahead and one ten minutes behind (and jumping), write
/// the same key in turn. Versions are in the order of their commits, the latest is the one written last, and
/// the shown times never go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f7_order_does_not_depend_on_clocks() {
    let mut pool = Pool::new(4).await;
    pool.sole = false;
    let first = pool.open(&[]).await;
    first.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    first.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    let clocks = [Skewed::by(0), Skewed::by(10 * MINUTES), Skewed::by(-10 * MINUTES)];
    let mut nodes = Vec::new();
    let mut all_sets = Vec::new();
    for (node, clock) in clocks.iter().enumerate() {
        let (_, sets) = pool.gateway(node as u16 + 1);
        let o = Options { clock: clock.clone(), ..options() };
        nodes.push(Store::open(sets.clone(), pool.control.clone().unwrap(), o).unwrap());
        all_sets.push(sets);
    }
    let mut rng = Rng(7);
    for key in ["one", "two", "three"] {
        // The commits: id, body or marker.
        let mut history: Vec<(VersionId, Option<Bytes>)> = Vec::new();
        for step in 0..40 {
            let n = rng.below(3) as usize;
            if rng.chance(5) {
                let jump = (rng.below(41) as i64 - 20) * MINUTES;
                clocks[n].0.store(jump, Ordering::SeqCst);
            }
            let body = if rng.chance(5) {
                None
            } else {
                let len = 1 + rng.below(9000) as usize;
                Some(rng.body(len))
            };
            let version = change(&nodes[n], key, body.as_ref(), history.len()).await;
            history.insert(0, (version, body));
            let reader = &nodes[rng.below(3) as usize];
            match &history[0].1 {
                Some(body) => {
                    assert_eq!(get(reader, "bucket", key, None).await.unwrap(), *body, "{key} {step}")
                }
                None => assert!(get(reader, "bucket", key, None).await.is_err(), "{key} {step}"),
            }
            if step % 8 != 7 {
                continue;
            }
            for page in [1000, 1, 3] {
                let seen = listed(reader, key, page).await;
                let ids: Vec<VersionId> = seen.iter().map(|s| s.0).collect();
                let want: Vec<VersionId> = history.iter().map(|h| h.0).collect();
                assert_eq!(ids, want, "{key} {step}: in pages of {page}");
                assert!(seen.iter().enumerate().all(|(i, s)| s.2 == (i == 0)), "only the first is latest");
                assert!(seen.iter().zip(&history).all(|(s, h)| s.1 == h.1.is_none()));
                assert!(seen.windows(2).all(|w| w[0].3 >= w[1].3), "time went back: {seen:?}");
            }
        }
        for (id, body) in &history {
            if let Some(body) = body {
                assert_eq!(get(&first, "bucket", key, Some(*id)).await.unwrap(), *body);
            }
        }
        // The version of the page marker is removed between two pages: no older version is left out, whatever
        // the clock of the node that wrote it.
        for cut in [3, 7, 11, 15, 19, 23, 27] {
            let spec = VersionListSpec { prefix: key, max_keys: cut, ..VersionListSpec::default() };
            let p = first.list_versions("bucket", &spec).await.unwrap();
            let (at, marker) = (p.next_key.unwrap(), p.next_version.unwrap());
            first.delete("bucket", key, Some(marker), &Conditions::NONE).await.unwrap();
            let spec = VersionListSpec {
                prefix: key,
                key_marker: &at,
                version_marker: Some(marker),
                max_keys: 1000,
                ..VersionListSpec::default()
            };
            let rest = first.list_versions("bucket", &spec).await.unwrap();
            let rest: Vec<VersionId> = rest.entries.iter().map(|e| e.version_id).collect();
            let gone = history.iter().position(|h| h.0 == marker).unwrap();
            history.remove(gone);
            assert!(history[gone..].iter().all(|h| rest.contains(&h.0)), "{key}: an older one is left out");
        }
    }
    for sets in all_sets {
        sets.stop().await;
    }
    pool.close().await;
}

/// F7 without versions: the later commit wins, regardless of the clock of its node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f7_later_commit_wins() {
    let mut pool = Pool::new(4).await;
    pool.sole = false;
    let first = pool.open(&[]).await;
    first.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let mut nodes = Vec::new();
    let mut all_sets = Vec::new();
    for (i, minutes) in [600, -600].into_iter().enumerate() {
        let (_, sets) = pool.gateway(i as u16 + 1);
        let o = Options { clock: Skewed::by(minutes * MINUTES), ..options() };
        nodes.push(Store::open(sets.clone(), pool.control.clone().unwrap(), o).unwrap());
        all_sets.push(sets);
    }
    for i in 0..20u8 {
        let body = Bytes::from(vec![i; 10 + usize::from(i) * 400]);
        put(&nodes[usize::from(i) % 2], "bucket", "k", &body).await.unwrap();
        for reader in nodes.iter().chain([&first]) {
            assert_eq!(get(reader, "bucket", "k", None).await.unwrap(), body, "{i}");
        }
    }
    nodes[1].delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
    assert!(get(&nodes[0], "bucket", "k", None).await.is_err());
    for sets in all_sets {
        sets.stop().await;
    }
    pool.close().await;
}

/// F8: a half-received body of a conditional PUT and a half-read large object do not hold the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f8_slow_body_blocks_no_other_writer() {
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let none = Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE };
    let mut rng = Rng(8);
    for size in [20_000usize, 6_000_000] {
        let slow_body = rng.body(size);
        let mut slow = store.put("bucket", "k", PutSpec::new(size as u64)).await.unwrap();
        slow.write(slow_body.slice(..size / 2)).await.unwrap();
        let old = rng.body(8_000_000);
        let began = Instant::now();
        put_if(&store, "bucket", "k", &old, &none).await.unwrap();
        let object = store.get("bucket", "k", None).await.unwrap();
        let mut reading = object.read(0..object.size()).await.unwrap();
        let mut got = reading.next().await.unwrap().unwrap().to_vec();
        for i in 0..5u8 {
            let body = Bytes::from(vec![i; 100 + usize::from(i) * 100_000]);
            put(&store, "bucket", "k", &body).await.unwrap();
            assert_eq!(get(&store, "bucket", "k", None).await.unwrap(), body);
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        slow.write(slow_body.slice(size / 2..)).await.unwrap();
        let r = slow.commit(VersionSpec::default(), &none).await;
        assert!(matches!(r, Err(Error::PreconditionFailed)), "judged at the end, not at the beginning");
        store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
        // The reader has begun: it gets the version that it asked for, to the end.
        while let Some(piece) = reading.next().await {
            got.extend_from_slice(&piece.unwrap());
        }
        assert!(got == old);
        assert!(matches!(get(&store, "bucket", "k", None).await, Err(Error::NoSuchKey { .. })));
    }
    pool.close().await;
}

fn files(path: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(path).unwrap().map(|e| e.unwrap());
    entries.map(|e| 1 + if e.file_type().unwrap().is_dir() { files(&e.path()) } else { 0 }).sum()
}

/// F12: a drive has as many files after thousands of keys as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f12_keys_create_no_files() {
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let count = |pool: &Pool| pool.paths.iter().map(|(_, p)| files(p)).max().unwrap();
    put(&store, "bucket", "first", &Bytes::from_static(b"x")).await.unwrap();
    let before = count(&pool);
    for i in 0..4000 {
        let key = format!("a/b{}/c/d/e/f/{i}/g", i % 91);
        put(&store, "bucket", &key, &Bytes::from(format!("{i}"))).await.unwrap();
    }
    let after = count(&pool);
    assert!(after <= before + 8, "{before} files, with 4,000 keys {after}");
    for i in 0..4000 {
        let key = format!("a/b{}/c/d/e/f/{i}/g", i % 91);
        store.delete("bucket", &key, None, &Conditions::NONE).await.unwrap();
    }
    let deleted = count(&pool);
    assert!(deleted <= before + 8, "{before} files, after deleting {deleted}");
    pool.close().await;
}

/// Related to F12: if objects were folders, `p` and `p/one` could not both exist. Here they are two
/// independent keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f12_key_that_is_prefix_of_another_key() {
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let names = ["p", "p/", "p/one", "p/one/two", "p//one"];
    for first in 0..names.len() {
        for gone in 0..names.len() {
            for i in 0..names.len() {
                let name = names[(first + i) % names.len()];
                put(&store, "bucket", name, &Bytes::from(name)).await.unwrap();
            }
            store.delete("bucket", names[gone], None, &Conditions::NONE).await.unwrap();
            let spec = ListSpec { max_keys: 100, ..ListSpec::default() };
            let page = store.list("bucket", &spec).await.unwrap();
            let keys: Vec<String> = page.entries.into_iter().map(|e| e.key).collect();
            let mut want: Vec<&str> = names.iter().copied().filter(|n| *n != names[gone]).collect();
            want.sort_unstable();
            assert_eq!(keys, want);
            for name in names {
                let r = get(&store, "bucket", name, None).await;
                match r {
                    Ok(b) => assert!(name != names[gone] && b == name.as_bytes()),
                    Err(Error::NoSuchKey { .. }) => assert_eq!(name, names[gone]),
                    Err(e) => panic!("{name}: {e}"),
                }
            }
            let spec = ListSpec { delimiter: "/", max_keys: 100, ..ListSpec::default() };
            let page = store.list("bucket", &spec).await.unwrap();
            assert_eq!(page.common_prefixes, ["p/"]);
            let keys: Vec<String> = page.entries.into_iter().map(|e| e.key).collect();
            assert_eq!(keys, if names[gone] == "p" { vec![] } else { vec!["p"] });
        }
    }
    pool.close().await;
}
