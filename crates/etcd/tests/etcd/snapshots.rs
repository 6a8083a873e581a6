//! Starts without etcd, and etcds that are not what they were.

use std::sync::{Arc, Condvar, Mutex};

use ashlar_cluster::{Control, ControlDriver as _, Error as StoreError, Medium, MemoryMedium};
use ashlar_etcd::{Error, Etcd, Options};
use ashlar_format::DriveId;
use bytes::Bytes;
use serde_json::json;

use crate::contract::{DEPLOYMENT, set};
use crate::support::{Cluster, LONG, Media, copy, created, drive, not_opened, opened, put, text, until};

/// Opens a store that keeps snapshots.
async fn kept(options: &Options, media: Media) -> Etcd {
    Etcd::open(options, media, Some(DEPLOYMENT)).await.unwrap()
}

async fn from_snapshot(options: &Options, media: Media) -> Etcd {
    Etcd::open_from_snapshot(options, media, Some(DEPLOYMENT)).await.unwrap()
}

fn again(medium: &Arc<MemoryMedium>) -> Media {
    medium.as_only_drive()
}

/// Waits until the drive has this text in a snapshot: what was changed last.
async fn saved(medium: &Arc<MemoryMedium>, text: &str) {
    until(|| async { medium.bytes().windows(text.len()).any(|w| w == text.as_bytes()) }).await;
}

/// Without etcd a node starts with what it knew; it says that it is old, and goes on when etcd is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_etcd() {
    let mut cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    Etcd::create(&options, DEPLOYMENT, vec![("a".into(), Bytes::from_static(b"1"))]).await.unwrap();
    let (medium, media) = drive();
    let store = kept(&options, media).await;
    put(&store.control(), "k", "the last change").await.unwrap();
    saved(&medium, "the last change").await;
    let revision = store.revision();
    // As a crash would leave it.
    drop(store);
    cluster.members[0].kill();
    let killed = std::time::Instant::now();
    assert!(matches!(not_opened(&options, again(&medium)).await, Error::Unreachable(_)));
    let store = from_snapshot(&options, again(&medium)).await;
    // It is as old as the snapshot, not as this process.
    assert!(store.age() >= killed.elapsed(), "{:?}", store.age());
    let c = store.control();
    assert_eq!((c.deployment(), c.revision()), (DEPLOYMENT, revision));
    assert_eq!((text(&c, "a").as_deref(), text(&c, "k").as_deref()), (Some("1"), Some("the last change")));
    assert_eq!(c.list("").len(), 2);
    until(|| async { store.trouble().is_some() }).await;
    let stale = c.read("k");
    let why = c.update(set(&stale, "x")).await.unwrap_err().to_string();
    assert!(why.contains("cannot be reached") && why.contains("since"), "{why}");
    assert!(matches!(c.barrier().await, Err(StoreError::Unavailable(_))));
    assert!(matches!(c.announce(1).await, Err(StoreError::Unavailable(_))));
    let health = c.health();
    assert!(!health.writable && health.age > std::time::Duration::ZERO);
    let mut watch = c.watch(revision);
    cluster.members[0].start();
    until(|| async { c.barrier().await.is_ok() }).await;
    let next = c.update(set(&stale, "y")).await.unwrap();
    let news = watch.next().await;
    assert!(matches!(news, ashlar_cluster::Watched::Changes(n) if n[0].revision == next));
    assert!(store.age() < health.age + std::time::Duration::from_secs(60));
    assert!(matches!(
        Etcd::open_from_snapshot(&options, drive().1, None).await.err(),
        Some(Error::NoSnapshot)
    ));
    let strange = Some(ashlar_format::DeploymentId([1; 16]));
    let strange = Etcd::open_from_snapshot(&options, again(&medium), strange).await;
    assert!(matches!(strange.err(), Some(Error::OtherDeployment { .. })));
}

/// A closed store has left its last state on the drives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_keeps_the_last_state() {
    let cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    let (medium, media) = drive();
    Etcd::create(&options, DEPLOYMENT, Vec::new()).await.unwrap();
    let store = kept(&options, media).await;
    for i in 0..20 {
        put(&store.control(), "k", &format!("change {i}")).await.unwrap();
    }
    store.control().close().await;
    let store = from_snapshot(&options, again(&medium)).await;
    assert_eq!(text(&store.control(), "k").as_deref(), Some("change 19"));
}

/// Drives come and go while the node runs: one that comes gets the snapshot without a further change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drives_come_and_go() {
    let mut cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    let store = created(&options).await;
    put(&store.control(), "k", "before it came").await.unwrap();
    let (one, two) = (drive().0, drive().0);
    store.attach(DriveId([1; 16]), one.clone());
    saved(&one, "before it came").await;
    store.attach(DriveId([2; 16]), two.clone());
    saved(&two, "before it came").await;
    store.detach(DriveId([1; 16]));
    put(&store.control(), "k", "after one went").await.unwrap();
    saved(&two, "after one went").await;
    store.control().close().await;
    cluster.members[0].kill();
    for (medium, known) in [(one, "before it came"), (two, "after one went")] {
        let store = from_snapshot(&options, again(&medium)).await;
        assert_eq!(text(&store.control(), "k").as_deref(), Some(known));
    }
}

/// A drive on which every operation hangs while it is told to.
#[derive(Default)]
struct Hanging {
    inner: Arc<MemoryMedium>,
    hangs: Mutex<bool>,
    changed: Condvar,
}

impl Hanging {
    fn set(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.changed.notify_all();
    }

    fn wait(&self) {
        drop(self.changed.wait_while(self.hangs.lock().unwrap(), |hangs| *hangs).unwrap());
    }
}

impl Medium for Hanging {
    fn read(&self, slot: usize) -> std::io::Result<Option<Vec<u8>>> {
        self.wait();
        self.inner.read(slot)
    }

    fn write(&self, slot: usize, bytes: &[u8]) -> std::io::Result<()> {
        self.wait();
        self.inner.write(slot, bytes)
    }

    fn read_log(&self) -> std::io::Result<Option<Vec<u8>>> {
        unreachable!("snapshots have no log")
    }

    fn write_log(&self, _: u64, _: &[u8]) -> std::io::Result<()> {
        unreachable!("snapshots have no log")
    }
}

/// A drive that hangs stops neither the start, nor the snapshots of the others, nor the end. When it answers
/// again, it gets the newest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drive_that_hangs_does_not_stop_the_snapshots_of_others() {
    let cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    Etcd::create(&options, DEPLOYMENT, Vec::new()).await.unwrap();
    let (good, mut media) = drive();
    let hanging = Arc::new(Hanging::default());
    hanging.set(true);
    media.insert(0, (DriveId([2; 16]), hanging.clone()));
    let store = tokio::time::timeout(LONG, kept(&options, media)).await.expect("the start ends");
    for value in ["the first", "the second", "the third"] {
        put(&store.control(), "k", value).await.unwrap();
        saved(&good, value).await;
    }
    let another = Arc::new(Hanging::default());
    another.set(true);
    store.attach(DriveId([3; 16]), another.clone());
    put(&store.control(), "k", "the last").await.unwrap();
    tokio::time::timeout(LONG, store.control().close()).await.expect("closing ends");
    saved(&good, "the last").await;
    assert!(hanging.inner.bytes().is_empty() && another.inner.bytes().is_empty());
    for drive in [hanging, another] {
        drive.set(false);
        saved(&drive.inner, "the last").await;
    }
}

/// The store refuses what etcd holds, goes on with what it knows, and says why.
async fn is_refused(c: &Control, store: &Etcd, options: &Options, medium: &Arc<MemoryMedium>, known: &str) {
    until(|| async { store.trouble().is_some_and(|t| t.contains("another or an older state")) }).await;
    let why = put(c, "k", "x").await.unwrap_err().to_string();
    assert!(why.contains("Nothing is rolled back"), "{why}");
    assert_eq!(text(c, "k").as_deref(), Some(known));
    let error = not_opened(options, again(medium)).await;
    assert!(matches!(&error, Error::Replaced(_)), "{error}");
    let restarted = from_snapshot(options, again(medium)).await;
    until(|| async { restarted.trouble().is_some_and(|t| t.contains("another or an older state")) }).await;
    assert_eq!(text(&restarted.control(), "k").as_deref(), Some(known));
}

/// An etcd that lost its data is not taken for the old one, nor is one in which the cluster was made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_etcd() {
    let mut cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    Etcd::create(&options, DEPLOYMENT, Vec::new()).await.unwrap();
    let (medium, media) = drive();
    let store = kept(&options, media).await;
    let c = store.control();
    put(&c, "k", "known").await.unwrap();
    saved(&medium, "known").await;
    cluster.members[0].kill();
    std::fs::remove_dir_all(cluster.members[0].data()).unwrap();
    cluster.members[0].start();
    cluster.ready().await;
    is_refused(&c, &store, &options, &medium, "known").await;
    // A node without snapshot makes the cluster anew, and goes further than the old one had been.
    let new = created(&options).await.control();
    for i in 0..20 {
        put(&new, "k", &i.to_string()).await.unwrap();
    }
    is_refused(&c, &store, &options, &medium, "known").await;
    assert_eq!(text(&new, "k").as_deref(), Some("19"), "nothing of the old node has come there");
}

/// An etcd that went back to a backup is refused: at its old revision, and when it has gone on from there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_from_a_backup() {
    let mut cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    Etcd::create(&options, DEPLOYMENT, Vec::new()).await.unwrap();
    let (medium, media) = drive();
    let store = kept(&options, media).await;
    let c = store.control();
    put(&c, "k", "in the backup").await.unwrap();
    let member = &mut cluster.members[0];
    member.kill();
    let backup = member.data().with_extension("backup");
    copy(&member.data(), &backup);
    member.start();
    cluster.ready().await;
    until(|| async { put(&c, "k", "known").await.is_ok() }).await;
    saved(&medium, "known").await;
    let member = &mut cluster.members[0];
    member.kill();
    std::fs::remove_dir_all(member.data()).unwrap();
    copy(&backup, &member.data());
    member.start();
    cluster.ready().await;
    is_refused(&c, &store, &options, &medium, "known").await;
    // A node that knows nothing goes on from the backup; its changes are not those that this node knows.
    let new = opened(&options).await.control();
    assert_eq!(text(&new, "k").as_deref(), Some("in the backup"));
    put(&new, "other", "x").await.unwrap();
    for i in 0..20 {
        put(&new, "k", &i.to_string()).await.unwrap();
    }
    is_refused(&c, &store, &options, &medium, "known").await;
    // Without the history it shows in what was not changed since.
    cluster.compact(0).await;
    is_refused(&c, &store, &options, &medium, "known").await;
}

/// Removing the cluster's keys in a running etcd is noticed too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_keys() {
    let cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    Etcd::create(&options, DEPLOYMENT, Vec::new()).await.unwrap();
    let (medium, media) = drive();
    let store = kept(&options, media).await;
    let c = store.control();
    put(&c, "other", "known").await.unwrap();
    saved(&medium, "known").await;
    // All keys.
    cluster.ask(0, "/v3/kv/deleterange", json!({ "key": "AA==", "range_end": "AA==" })).await;
    until(|| async { store.trouble().is_some_and(|t| t.contains("emptied")) }).await;
    assert!(put(&c, "k", "x").await.is_err());
    let error = not_opened(&options, again(&medium)).await;
    assert!(matches!(&error, Error::Replaced(_)), "{error}");
}
