//! An etcd that lost everything, and the store that is made anew from what drives keep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_cluster::{ControlDriver as _, Error as StoreError, Medium, MemoryMedium};
use ashlar_etcd::{Error, Etcd, Kept, Options, Restored, latest, look, restore};
use ashlar_format::DeploymentId;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::json;

use crate::contract::DEPLOYMENT;
use crate::support::{Cluster, Media, created, drive, not_opened, opened, put, text, until};

/// A store that keeps snapshots on one drive, with `k` as its last change.
async fn with_drive(options: &Options, value: &str) -> (Etcd, Arc<MemoryMedium>) {
    let (medium, media) = drive();
    let store = Etcd::open(options, media, Some(DEPLOYMENT)).await.unwrap();
    put(&store.control(), "k", value).await.unwrap();
    saved(&medium, value).await;
    (store, medium)
}

async fn saved(medium: &Arc<MemoryMedium>, text: &str) {
    until(|| async { medium.bytes().windows(text.len()).any(|w| w == text.as_bytes()) }).await;
}

async fn reopened(options: &Options, medium: &Arc<MemoryMedium>) -> Etcd {
    Etcd::open(options, medium.as_only_drive(), Some(DEPLOYMENT)).await.unwrap()
}

/// Removes the data of all members for good.
async fn wipe(cluster: &mut Cluster) {
    cluster.members.iter_mut().for_each(|m| m.kill());
    for member in &mut cluster.members {
        std::fs::remove_dir_all(member.data()).unwrap();
        member.start();
    }
    cluster.ready().await;
}

/// The latest snapshot of some drives.
fn best(options: &Options, drives: &[&Arc<MemoryMedium>]) -> Result<Kept, Error> {
    let mut all: Vec<Kept> = drives.iter().flat_map(|d| look(&***d).unwrap()).collect();
    let place = latest(&options.cluster, &all.iter().collect::<Vec<_>>())?;
    Ok(all.swap_remove(place))
}

async fn restored(options: &Options, drives: &[&Arc<MemoryMedium>]) -> Result<Restored, Error> {
    restore(options, &best(options, drives)?).await
}

/// A drive that is written while it is read: the first reads find half a snapshot.
struct Written {
    inner: Arc<MemoryMedium>,
    halves: AtomicUsize,
}

impl Medium for Written {
    fn read(&self, slot: usize) -> std::io::Result<Option<Vec<u8>>> {
        let half = self.halves.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        let whole = self.inner.read(slot)?;
        Ok(whole.map(|bytes| if half { bytes[..bytes.len() / 2].to_vec() } else { bytes }))
    }

    fn write(&self, _: usize, _: &[u8]) -> std::io::Result<()> {
        unreachable!("snapshots are only read")
    }

    fn read_log(&self) -> std::io::Result<Option<Vec<u8>>> {
        unreachable!("snapshots have no log")
    }

    fn write_log(&self, _: u64, _: &[u8]) -> std::io::Result<()> {
        unreachable!("snapshots have no log")
    }
}

/// A node that runs may write each slot just while it is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_are_found_while_they_are_written() {
    let cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    Etcd::create(&options, DEPLOYMENT, Vec::new()).await.unwrap();
    let (store, medium) = with_drive(&options, "the last change").await;
    drop(store);
    let found = look(&*medium).unwrap();
    let written = Written { inner: medium, halves: AtomicUsize::new(3) };
    let again = look(&written).unwrap();
    assert!(!found.is_empty());
    assert_eq!(again.iter().map(Kept::revision).max(), found.iter().map(Kept::revision).max());
    // What never verifies is not waited for.
    let written = Written { halves: AtomicUsize::new(usize::MAX), ..written };
    assert!(look(&written).unwrap().is_empty());
}

/// Everything is there again at other revisions, for nodes that knew it or less; a process that has read values at the
/// old revisions must start again; a second restore finds the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_there_again() {
    let mut cluster = Cluster::start(3).await;
    let options = cluster.options("c");
    let big: Vec<(String, Bytes)> =
        (0..500).map(|n| (format!("many/{n:04}"), Bytes::from(vec![n as u8; 8 << 10]))).collect();
    Etcd::create(&options, DEPLOYMENT, big.clone()).await.unwrap();
    let (old, behind) = with_drive(&options, "before").await;
    drop(old);
    let (store, medium) = with_drive(&options, "the last change").await;
    let c = store.control();
    let stale = c.read("k");
    assert_eq!(restored(&options, &[&medium]).await.unwrap_err(), Error::Exists("c".into()));
    wipe(&mut cluster).await;
    until(|| async { store.trouble().is_some_and(|t| t.contains("another or an older state")) }).await;
    let keys = big.len() + 1;
    assert_eq!(restored(&options, &[&behind, &medium]).await, Ok(Restored { keys, before: false }));
    assert_eq!(restored(&options, &[&medium]).await, Ok(Restored { keys, before: true }));
    assert_eq!(restored(&options, &[&behind]).await.unwrap_err(), Error::Exists("c".into()));
    // What was read before has revisions that mean something else now.
    until(|| async { store.trouble().is_some_and(|t| t.contains("restart this node")) }).await;
    let mut update = ashlar_cluster::Update::new();
    update.set(&stale, "x");
    assert!(matches!(c.update(update).await, Err(StoreError::Unavailable(_))));
    assert_eq!(text(&c, "k").as_deref(), Some("the last change"));
    drop((c, store));
    for medium in [&medium, &behind] {
        let store = reopened(&options, medium).await;
        let c = store.control();
        assert_eq!(text(&c, "k").as_deref(), Some("the last change"));
        let many: Vec<_> = c.list("many/").into_iter().map(|(key, value)| (key, value.bytes)).collect();
        assert_eq!(many, big);
        put(&c, "after", "the restore").await.unwrap();
        saved(medium, "the restore").await;
    }
    // The next time too, and with a drive that has seen nothing since.
    let last = reopened(&options, &medium).await;
    put(&last.control(), "k", "the second life").await.unwrap();
    saved(&medium, "the second life").await;
    last.control().close().await;
    drop(last);
    wipe(&mut cluster).await;
    assert_eq!(restored(&options, &[&behind, &medium]).await, Ok(Restored { keys: keys + 1, before: false }));
    let store = reopened(&options, &behind).await;
    assert_eq!(text(&store.control(), "k").as_deref(), Some("the second life"));
}

/// A node that knows a change which the restored store lacks does not go on with it, and says what it lacks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_knows_more_refuses() {
    let mut cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    Etcd::create(&options, DEPLOYMENT, Vec::new()).await.unwrap();
    let (old, behind) = with_drive(&options, "before").await;
    let less = best(&options, &[&behind]).unwrap();
    drop(old);
    let (store, medium) = with_drive(&options, "the last change").await;
    drop(store);
    wipe(&mut cluster).await;
    restore(&options, &less).await.unwrap();
    let known = best(&options, &[&medium]).unwrap().revision();
    let expected = Error::RestoredFromOlder { restored: less.revision(), known };
    assert_eq!(not_opened(&options, medium.as_only_drive()).await, expected);
    // The other one goes on; together their drives are of two histories.
    let store = reopened(&options, &behind).await;
    put(&store.control(), "k", "a history of its own").await.unwrap();
    saved(&behind, "a history of its own").await;
    store.control().close().await;
    drop(store);
    let why = best(&options, &[&behind, &medium]).err().unwrap().to_string();
    assert!(why.contains("is not a later state of"), "{why}");
    // What the error says: everything again, from what knows most.
    wipe(&mut cluster).await;
    restored(&options, &[&medium]).await.unwrap();
    assert_eq!(text(&reopened(&options, &medium).await.control(), "k").as_deref(), Some("the last change"));
    assert!(matches!(not_opened(&options, behind.as_only_drive()).await, Error::Replaced(_)));
}

/// Nodes that run announce themselves in an etcd that lost everything: that is noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_restored_while_a_node_runs() {
    let mut cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    Etcd::create(&options, DEPLOYMENT, Vec::new()).await.unwrap();
    let (store, medium) = with_drive(&options, "known").await;
    let running = store.announce(3).await.unwrap();
    wipe(&mut cluster).await;
    assert_eq!(restored(&options, &[&medium]).await, Err(Error::Running(vec![3])));
    drop((running, store));
    restored(&options, &[&medium]).await.unwrap();
}

/// A prefix with anything in it is left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_an_empty_prefix_is_written_to() {
    let mut cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    Etcd::create(&options, DEPLOYMENT, Vec::new()).await.unwrap();
    let (store, medium) = with_drive(&options, "known").await;
    drop(store);
    let kept = best(&options, &[&medium]).unwrap();
    let other = Options { cluster: "other".into(), ..options.clone() };
    assert!(matches!(restore(&other, &kept).await, Err(Error::Settings(_))));
    assert!(matches!(best(&other, &[&medium]), Err(Error::Settings(_))));
    wipe(&mut cluster).await;
    raw(&cluster, "data/k", "v").await;
    let why = restore(&options, &kept).await.unwrap_err().to_string();
    assert!(why.contains("is not empty: it has /ashlar/c/data/k"), "{why}");
    wipe(&mut cluster).await;
    // Another deployment of the same name.
    Etcd::create(&options, DeploymentId([1; 16]), Vec::new()).await.unwrap();
    assert_eq!(restore(&options, &kept).await, Err(Error::Exists("c".into())));
    assert!(matches!(best(&options, &[]), Err(Error::NoSnapshot)));
    // A new one, made under the same name by a node that knows nothing.
    wipe(&mut cluster).await;
    created(&options).await;
    assert_eq!(restore(&options, &kept).await, Err(Error::Exists("c".into())));
}

/// A restore that ends after any of its requests: no node opens what it left, no new cluster is made over it, and the
/// next restore of the same state completes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_restore_is_repeated() {
    let mut cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    let entries: Vec<(String, Bytes)> =
        (0..400).map(|n| (format!("many/{n:04}"), Bytes::from_static(b"v"))).collect();
    Etcd::create(&options, DEPLOYMENT, entries).await.unwrap();
    let (store, behind) = with_drive(&options, "before").await;
    drop(store);
    let (store, medium) = with_drive(&options, "the last change").await;
    drop(store);
    let less = best(&options, &[&behind]).unwrap();
    let kept = best(&options, &[&medium]).unwrap();
    // The identity is put first, then 120 entries at a time.
    for written in [0, 120, 360, 401] {
        wipe(&mut cluster).await;
        begin(&cluster, &kept).await;
        let names: Vec<_> = kept.entries().keys().take(written).collect();
        for name in names.iter().map(|name| name.as_str()).chain(["of-an-older-state"]) {
            raw(&cluster, &format!("data/{name}"), "v").await;
        }
        assert_eq!(not_opened(&options, Media::new()).await, Error::Incomplete("c".into()));
        let new = Etcd::create(&options, DeploymentId([1; 16]), Vec::new()).await;
        assert_eq!(new, Err(Error::Incomplete("c".into())));
        let why = restore(&options, &less).await.unwrap_err().to_string();
        assert!(why.contains("was begun and not completed"), "{why}");
        assert_eq!(restore(&options, &kept).await, Ok(Restored { keys: 401, before: false }));
        let store = opened(&options).await;
        let all = store.control().list("").into_iter().map(|(key, value)| (key, value.bytes));
        assert!(all.eq(kept.entries().iter().map(|(key, value)| (key.clone(), value.bytes.clone()))));
    }
}

/// A node that starts while a restore is under way waits for its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_the_end_of_a_restore() {
    let mut cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    Etcd::create(&options, DEPLOYMENT, Vec::new()).await.unwrap();
    let (store, medium) = with_drive(&options, "known").await;
    drop(store);
    let kept = best(&options, &[&medium]).unwrap();
    wipe(&mut cluster).await;
    begin(&cluster, &kept).await;
    let (other, drive) = (options.clone(), medium.clone());
    let starting = tokio::spawn(async move { reopened(&other, &drive).await });
    restore(&options, &kept).await.unwrap();
    assert_eq!(text(&starting.await.unwrap().control(), "k").as_deref(), Some("known"));
}

/// Puts a key of the cluster as it is in etcd.
async fn raw(cluster: &Cluster, key: &str, value: &str) {
    let encode = |text: &str| STANDARD.encode(text);
    let put = json!({ "key": encode(&format!("/ashlar/c/{key}")), "value": encode(value) });
    let done = cluster.ask(0, "/v3/kv/put", put).await;
    assert!(done["header"].is_object(), "{done}");
}

/// The first step of a restore.
async fn begin(cluster: &Cluster, kept: &Kept) {
    let (deployment, store, revision) = (DEPLOYMENT.to_hex(), kept.store(), kept.revision());
    let from = format!(r#"{{"store":"{store}","revision":{revision},"mark":"m"}}"#);
    let identity = format!(
        r#"{{"format":2,"deployment":"{deployment}","store":"aa","complete":false,"restored":[{from}]}}"#
    );
    raw(cluster, "identity", &identity).await;
}
