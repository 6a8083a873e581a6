//! Several nodes over one control store keep the limit of a bucket together: never exceeded, and what is free is had
//! in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use ashlar_cluster::{
    Announcement, Control, ControlDriver, Error as ControlError, Health, Nodes, Update, Value, Watch,
};
use ashlar_duties::Duties;
use ashlar_environment::{task::JoinHandle, time};
use ashlar_format::DeploymentId;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::usage::recount;
use super::{Rng, Store, memory, options_in_memory, part, put, times};
use crate::backend::Backend;
use crate::memory::Memory;
use crate::*;

/// A control store that one node may not reach.
pub(super) struct Link {
    control: Control,
    pub(super) down: AtomicBool,
    /// What a node that is cut off still shows.
    frozen: Mutex<Option<Vec<(String, Value)>>>,
}

impl ControlDriver for Link {
    fn deployment(&self) -> DeploymentId {
        self.control.deployment()
    }
    fn get(&self, key: &str) -> Option<Value> {
        match &*self.frozen.lock() {
            Some(all) => all.iter().find(|(k, _)| k == key).map(|(_, value)| value.clone()),
            None => self.control.get(key),
        }
    }
    fn list(&self, prefix: &str) -> Vec<(String, Value)> {
        match &*self.frozen.lock() {
            Some(all) => all.iter().filter(|(k, _)| k.starts_with(prefix)).cloned().collect(),
            None => self.control.list(prefix),
        }
    }
    fn revision(&self) -> u64 {
        self.control.revision()
    }
    fn health(&self) -> Health {
        self.control.health()
    }
    fn barrier(&self) -> BoxFuture<'_, ashlar_cluster::Result<()>> {
        Box::pin(async {
            self.up()?;
            self.control.barrier().await
        })
    }
    fn update(&self, update: Update) -> BoxFuture<'_, ashlar_cluster::Result<u64>> {
        Box::pin(async {
            self.up()?;
            self.control.update(update).await
        })
    }
    fn watch(&self, from: u64) -> Watch {
        self.control.watch(from)
    }
    fn settled(&self, revision: u64) -> BoxFuture<'_, ()> {
        Box::pin(self.control.settled(revision))
    }
    fn announce(&self, node: u16) -> BoxFuture<'_, ashlar_cluster::Result<Announcement>> {
        Box::pin(self.control.announce(node))
    }
    fn announced(&self) -> watch::Receiver<Nodes> {
        self.control.announced()
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.control.close())
    }
}

impl Link {
    /// The node sees nothing of the control store any more, but what it has seen.
    pub(super) fn cut(&self) {
        self.down.store(true, SeqCst);
        *self.frozen.lock() = Some(self.control.list(""));
    }

    pub(super) fn mend(&self) {
        *self.frozen.lock() = None;
        self.down.store(false, SeqCst);
    }

    fn up(&self) -> ashlar_cluster::Result<()> {
        if self.down.load(SeqCst) { Err(ControlError::Unavailable("cut off".into())) } else { Ok(()) }
    }
}

/// A node, and its way to the control store.
pub(super) struct Node {
    pub(super) store: Store,
    pub(super) link: Arc<Link>,
    follower: JoinHandle<()>,
    pub(super) announced: Option<Announcement>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

pub(super) async fn node(number: u16, memory: &Arc<Memory>, control: &Control) -> Node {
    let (down, frozen) = (AtomicBool::new(false), Mutex::default());
    let link = Arc::new(Link { control: control.clone(), down, frozen });
    let options = Options { duties: Duties::alone(number), shared: true, ..options_in_memory() };
    let over = Control::new(link.clone());
    let store = Store::over(Backend::Memory(memory.clone()), over, options).unwrap();
    let follower = ashlar_environment::spawn("follow-buckets", store.follow_buckets());
    let announced = control.announce(number).await.ok();
    Node { store, link, follower, announced }
}

/// Nodes 1 and up, over one bucket with a limit that all of them know.
async fn nodes(n: u16, limit: u64) -> (Vec<Node>, Arc<Memory>, Control) {
    let (_, memory, control) = memory().await;
    let mut nodes = Vec::new();
    for number in 1..=n {
        nodes.push(node(number, &memory, &control).await);
    }
    limit_bucket(&nodes, limit).await;
    (nodes, memory, control)
}

/// Makes the bucket, and waits until all of them know its limit.
pub(super) async fn limit_bucket(nodes: &[Node], limit: u64) {
    nodes[0].store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    nodes[0].store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    nodes[0].store.set_quota("bucket", Some(limit)).await.unwrap();
    for node in nodes {
        while node.store.quota("bucket").ok().flatten() != Some(limit) {
            time::sleep(Duration::from_millis(1)).await;
        }
    }
}

pub(super) fn body(n: usize) -> Bytes {
    Bytes::from(vec![7; n])
}

pub(super) fn full<T>(r: &Result<T>) -> bool {
    matches!(r, Err(Error::QuotaExceeded { .. }))
}

pub(super) async fn stored(node: &Node) -> u64 {
    recount(&node.store, "bucket").await.bytes
}

/// Two nodes fill a bucket to the last byte, whoever asks first, and then both say that it is full; what one of
/// them removes, the other may add.
#[tokio::test]
async fn two_nodes_fill_a_bucket_exactly() {
    let (nodes, ..) = nodes(2, 1000).await;
    let (one, two) = (&nodes[0].store, &nodes[1].store);
    for i in 0..10 {
        let store = if i % 3 == 0 { two } else { one };
        put(store, "bucket", &format!("k{i}"), &body(100)).await.unwrap();
    }
    for store in [one, two] {
        let refused = put(store, "bucket", "more", &body(1)).await;
        assert!(matches!(refused, Err(Error::QuotaExceeded { used: 1000, limit: 1000 })), "{refused:?}");
    }
    assert_eq!(stored(&nodes[0]).await, 1000);
    let page = VersionListSpec { max_keys: 10, ..Default::default() };
    let oldest = one.list_versions("bucket", &page).await.unwrap().entries[0].version_id;
    one.delete("bucket", "k0", Some(oldest), &Conditions::NONE).await.unwrap();
    // That it was full a moment ago is known for a second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    put(two, "bucket", "new", &body(100)).await.unwrap();
    assert!(full(&put(one, "bucket", "more", &body(1)).await));
    // A body that was admitted, and not written yet, takes its room; given up, another has it.
    two.set_quota("bucket", Some(1100)).await.unwrap();
    let open = two.put("bucket", "open", PutSpec::new(100)).await.unwrap();
    assert!(full(&put(one, "bucket", "more", &body(1)).await));
    drop(open);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    put(one, "bucket", "more", &body(100)).await.unwrap();
}

/// Parts of uploads take room for all nodes, and give it back where they are cleared.
#[tokio::test]
async fn parts_and_completions_count() {
    let (nodes, ..) = nodes(2, 1000).await;
    let (one, two) = (&nodes[0].store, &nodes[1].store);
    let id = one.create_upload("bucket", "u", UploadSpec::default()).await.unwrap();
    let p = part(two, "bucket", "u", id, 1, &body(600)).await.unwrap();
    assert!(full(&put(one, "bucket", "k", &body(500)).await));
    let parts = [CompletedPart { number: 1, etag: p.etag, checksum: p.checksum }];
    one.complete_upload("bucket", "u", id, &parts, None, &Conditions::NONE).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    put(two, "bucket", "k", &body(400)).await.unwrap();
    assert!(full(&put(one, "bucket", "k", &body(1)).await));
    assert_eq!(stored(&nodes[0]).await, 1000);
}

/// A body costs no write of the control store of its own.
#[tokio::test]
async fn shares_are_requested_in_bulk() {
    let (nodes, _, control) = nodes(2, 10_000_000).await;
    put(&nodes[0].store, "bucket", "first", &body(100)).await.unwrap();
    put(&nodes[1].store, "bucket", "first", &body(100)).await.unwrap();
    let before = control.revision();
    for i in 0..300 {
        put(&nodes[i % 2].store, "bucket", &format!("k{i}"), &body(100)).await.unwrap();
    }
    assert!(control.revision() - before < 5, "{} writes", control.revision() - before);
}

/// A node that is alone in the record has everything: it refuses what a node without shares refuses.
#[tokio::test]
async fn single_node_gets_whole_quota() {
    let (nodes, _, control) = nodes(1, 1000).await;
    let store = &nodes[0].store;
    put(store, "bucket", "a", &body(400)).await.unwrap();
    let before = control.revision();
    put(store, "bucket", "a", &body(400)).await.unwrap();
    let refused = put(store, "bucket", "b", &body(201)).await;
    assert!(matches!(refused, Err(Error::QuotaExceeded { used: 800, limit: 1000 })), "{refused:?}");
    put(store, "bucket", "b", &body(200)).await.unwrap();
    assert!(full(&put(store, "bucket", "b", &body(1)).await));
    assert_eq!(control.revision(), before, "no write at all");
}

/// A node without the control store goes on within its share; beyond, it answers that it cannot say, not that the
/// bucket is full.
#[tokio::test]
async fn disconnected_node_continues_within_its_share() {
    let (nodes, ..) = nodes(2, 1000).await;
    let (one, two) = (&nodes[0].store, &nodes[1].store);
    put(two, "bucket", "b", &body(10)).await.unwrap();
    put(one, "bucket", "a", &body(10)).await.unwrap();
    nodes[0].link.down.store(true, SeqCst);
    let mut admitted = 0;
    let refused = loop {
        match put(one, "bucket", "a", &body(10)).await {
            Ok(_) => admitted += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, Error::ControlStore(_)), "{refused:?}");
    assert!(admitted > 5, "{admitted}");
    // The other one has the rest, but not what the silent one may hold; whether that is free it cannot say.
    let refused = loop {
        match put(two, "bucket", "b", &body(10)).await {
            Ok(_) => {}
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, Error::Busy), "{refused:?}");
    assert!(stored(&nodes[0]).await < 1000);
    nodes[0].link.down.store(false, SeqCst);
    while !full(&put(two, "bucket", "b", &body(10)).await) {}
    assert_eq!(stored(&nodes[0]).await, 1000);
    assert!(full(&put(one, "bucket", "a", &body(1)).await));
}

/// What a node that crashed was granted is not lost: the node that comes back in its place counts.
#[tokio::test]
async fn restarted_node_replaces_share_of_crashed_node() {
    let (mut nodes, memory, control) = nodes(2, 1000).await;
    put(&nodes[1].store, "bucket", "b", &body(50)).await.unwrap();
    put(&nodes[0].store, "bucket", "a", &body(50)).await.unwrap();
    put(&nodes[1].store, "bucket", "b", &body(50)).await.unwrap();
    nodes.pop();
    // It does not answer: there is no saying whether the bucket is full.
    let refused = put(&nodes[0].store, "bucket", "a", &body(850)).await;
    assert!(matches!(refused, Err(Error::Busy)), "{refused:?}");
    nodes.push(node(2, &memory, &control).await);
    nodes[1].store.count_uncounted(false).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    put(&nodes[0].store, "bucket", "a", &body(850)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(full(&put(&nodes[1].store, "bucket", "a", &body(1)).await));
    assert_eq!(stored(&nodes[0]).await, 1000);
}

/// Random puts, deletions, lost answers, crashes, counts and outages: never more than the limit, and in the end all
/// of it can be used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_changes_never_exceed_quota() {
    for seed in 1..=4 * times() {
        const LIMIT: u64 = 5000;
        let (mut nodes, memory, control) = nodes(3, LIMIT).await;
        let mut rng = Rng(seed * 7919);
        for step in 0..120 {
            let at = rng.below(3) as usize;
            let key = format!("k{}", rng.below(6));
            match rng.below(20) {
                0 => {
                    let number = at as u16 + 1;
                    let old = std::mem::replace(&mut nodes[at], node(99, &memory, &control).await);
                    drop(old);
                    nodes[at] = node(number, &memory, &control).await;
                }
                1 => nodes[at].link.down.store(true, SeqCst),
                2..=4 => nodes.iter().for_each(|n| n.link.down.store(false, SeqCst)),
                5 => drop(nodes[at].store.count_uncounted(rng.chance(2)).await),
                6..=9 => {
                    let page = VersionListSpec { max_keys: 100, ..Default::default() };
                    let all = nodes[at].store.list_versions("bucket", &page).await.unwrap().entries;
                    if !all.is_empty() {
                        let e = rng.pick(&all);
                        let (key, version) = (&e.entry.key, Some(e.version_id));
                        drop(nodes[at].store.delete("bucket", key, version, &Conditions::NONE).await);
                    }
                }
                kind => {
                    memory.lose(if kind == 10 { 0 } else { -1 });
                    let n = 1 + rng.below(600) as usize;
                    drop(put(&nodes[at].store, "bucket", &key, &rng.body(n)).await);
                    memory.lose(-1);
                }
            }
            let held = stored(&nodes[0]).await;
            assert!(held <= LIMIT, "seed {seed}, step {step}: {held}");
        }
        // All begin anew, so that nothing is on its way, and count: then all of it can be used.
        for (number, at) in (1..).zip(&mut nodes) {
            *at = node(99, &memory, &control).await;
            *at = node(number, &memory, &control).await;
        }
        for node in nodes.iter().chain(&nodes) {
            node.store.count_uncounted(true).await.unwrap();
        }
        let mut n = 0;
        while !full(&put(&nodes[n % 3].store, "bucket", "end", &body(50)).await) {
            n += 1;
            assert!(n < 500, "seed {seed}: it never says that the bucket is full");
        }
        let held = stored(&nodes[0]).await;
        assert!(held <= LIMIT && held > LIMIT - 50, "seed {seed}: {held}");
    }
}

/// Each node shows what all nodes have changed, as far as it was told: its own part always, the rest as it is given.
#[tokio::test]
async fn usage_is_the_part_of_a_node_and_the_rest() {
    let (nodes, memory, control) = nodes(2, 1_000_000).await;
    let (one, two) = (&nodes[0].store, &nodes[1].store);
    let bucket = one.bucket("bucket").unwrap().id;
    put(one, "bucket", "a", &body(100)).await.unwrap();
    let first = two.usage_parts(0, 9);
    put(two, "bucket", "b", &body(30)).await.unwrap();
    put(two, "bucket", "a", &body(7)).await.unwrap();
    let bytes = |s: &Store| s.usage_part(bucket).own[0];
    assert_eq!((bytes(one), bytes(two)), (100, 37));
    assert!(!two.usage("bucket").unwrap().complete, "nobody has counted for all");
    // What changed since is answered once, and all of it to whoever asks for everything.
    let parts = two.usage_parts(first.next, 9);
    assert_eq!((parts.parts[0].0, parts.parts[0].1.own[0], parts.more), (bucket, 37, false));
    assert!(two.usage_parts(parts.next, 9).parts.is_empty());
    assert_eq!(two.usage_parts(0, 9).parts.len(), 1);
    assert!(two.usage_parts(0, 0).more);
    // A count sees what all have written; the part stays.
    let (numbers, part) = two.count_with_part(bucket).await.unwrap();
    assert_eq!((numbers[0], part.own[0], bytes(two)), (137, 37, 37));
    let rest = RestOfUsage {
        numbers: std::array::from_fn(|i| numbers[i] - part.own[i]),
        complete: true,
        counted_ms: 5,
    };
    two.set_rest_of_usage(bucket, rest);
    put(two, "bucket", "c", &body(1)).await.unwrap();
    let shown = two.usage("bucket").unwrap();
    assert_eq!((shown.usage, shown.complete), (recount(two, "bucket").await, true));
    // After a restart a node counts from zero.
    let again = node(2, &memory, &control).await;
    assert_eq!(again.store.usage_part(bucket).own, [0; NUMBERS]);
}
