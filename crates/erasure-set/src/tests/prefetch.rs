//! Shards that come with a record: how many messages a read takes, and what becomes of shards that are not there, damaged, or of
//! another write.

use super::away::{ME, execute};
use super::faults::damage;
use super::*;
use crate::{BodyRange, Choice, MemoryLimits, Prefetched};
use ashlar_drive::DriveHandle;
use ashlar_remote::{Call, Delivered, Failure, RemoteNode, Served, Transport, method};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Carries calls to a node with several drives, and counts them.
struct Counting {
    served: Served,
    /// Methods, in order.
    sent: Mutex<Vec<u16>>,
    reached: AtomicBool,
}

impl Transport for Counting {
    fn call(&self, call: Call) -> BoxFuture<'static, std::result::Result<Delivered, Failure>> {
        if !self.reached.load(Ordering::Relaxed) {
            return Box::pin(async { Err(Failure::NotSent) });
        }
        self.sent.lock().push(call.method);
        execute(self.served.clone(), call)
    }

    fn tell(&self, call: Call) {
        drop(self.call(call));
    }

    fn is_connected(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }
}

/// Eight drives, 4+4: slots 0 and 1 are of this process, two each of three other nodes.
pub(super) struct Nodes {
    pub(super) rig: Rig,
    /// Those of other nodes.
    pub(super) drives: Vec<Drive>,
    wires: Vec<Arc<Counting>>,
    _nodes: Vec<Arc<RemoteNode>>,
}

impl Nodes {
    pub(super) async fn new(tune: impl FnOnce(&mut Options)) -> Nodes {
        let rig = Rig::with(4, 4, 1, |options| {
            options.sole = false;
            tune(options);
        })
        .await;
        let (mut drives, mut wires, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
        for first in [2, 4, 6] {
            let of_node: Vec<Drive> =
                [first, first + 1].map(|slot| rig.sets.detach(drive_id(slot, 0)).unwrap()).to_vec();
            let served = Served::default();
            served.set(of_node.iter().cloned());
            let wire = Arc::new(Counting { served, sent: Mutex::default(), reached: AtomicBool::new(true) });
            let node = RemoteNode::new(wire.clone());
            let handles: Vec<DriveHandle> = node.refresh().await.unwrap();
            handles.into_iter().for_each(|handle| rig.sets.attach(handle));
            drives.extend(of_node);
            wires.push(wire);
            nodes.push(node);
        }
        rig.sets.bring_shards(true);
        Nodes { rig, drives, wires, _nodes: nodes }
    }

    /// The methods that were called on all nodes since the last time, and how many of each.
    pub(super) async fn sent(&self) -> BTreeMap<u16, usize> {
        basic::quiet(&self.rig.sets).await;
        let mut count = BTreeMap::new();
        for method in self.wires.iter().flat_map(|wire| std::mem::take(&mut *wire.sent.lock())) {
            *count.entry(method).or_default() += 1;
        }
        count
    }

    /// Reads a key as a GET does, in the record that `read_register_for` serves. Also the number of shards that came.
    async fn get(&self, name: &str) -> (Option<Vec<u8>>, usize) {
        let key = self.rig.key(name);
        let (register, came) = self.rig.sets.read_register_for(&key, WHOLE).await.unwrap();
        let shards = came.shards();
        let Some(version) = register.as_ref().and_then(|r| first(&r.record)) else { return (None, shards) };
        (Some(self.body(&key, version, came).await), shards)
    }

    async fn body(&self, key: &RegisterKey, version: &Version, came: Prefetched) -> Vec<u8> {
        let part = &version.parts[0];
        let mut reader =
            self.rig.sets.read_prefetched(key, &part.data, part.size, 0..part.size, came).await.unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = reader.next().await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        bytes
    }

    /// How many data shards of a version are on other nodes.
    fn there(register: &Register) -> usize {
        let data = register.record.data().next().unwrap().data;
        (0..data.k).filter(|shard| data.slot_of(*shard) > 1).count()
    }

    pub(super) async fn close(self) {
        let Nodes { rig, drives, wires, .. } = self;
        wires.iter().for_each(|wire| wire.served.ended(ME));
        for drive in drives {
            rig.sets.detach(drive.label().drive);
            shut(&drive).await;
        }
        rig.close().await;
    }
}

fn first(record: &Record) -> Option<&Version> {
    record.body.newest().first()
}

fn whole(record: &Record) -> Option<BodyRange> {
    let part = first(record)?.parts.first()?;
    Some(BodyRange { data: part.data, size: part.size, range: 0..part.size })
}

const WHOLE: Choice<'static> = &whole;

const READS: [u16; 3] = [method::READ, method::READ_MANY, method::READ_WITH_SHARDS];

fn reads(sent: &BTreeMap<u16, usize>) -> [usize; 3] {
    READS.map(|method| sent.get(&method).copied().unwrap_or(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_body_takes_one_message_to_each_node() {
    let nodes = Nodes::new(|_| {}).await;
    for (name, size) in [("short", 4096), ("larger", 60_000), ("wide", 90_000)] {
        let want = noise(size as u64, size);
        let register = nodes.rig.put(name, &want).await.unwrap();
        let there = Nodes::there(&register);
        nodes.sent().await;
        // With a record from the cache, and with one of a drive of this process.
        for cached in [true, false] {
            if !cached {
                nodes.rig.sets.inner.cache.forget(ashlar_checksum::key_hash(nodes.rig.key(name).as_bytes()));
            }
            assert_eq!(nodes.get(name).await, (Some(want.clone()), there), "{name}, cached: {cached}");
            let sent = nodes.sent().await;
            // A node without a wanted shard is asked for the register only.
            let [alone, without, with] = reads(&sent);
            assert_eq!((alone, without + with, sent.len()), (0, 3, usize::from(without > 0) + 1), "{sent:?}");
            assert!(!sent.contains_key(&method::OPEN));
        }
        // Who wants the record only gets no shards.
        assert!(nodes.rig.sets.read_register(&nodes.rig.key(name)).await.unwrap().is_some());
        assert_eq!(reads(&nodes.sent().await), [0, 3, 0]);
        // While there may be nodes of an older release, they are asked in two steps.
        nodes.rig.sets.bring_shards(false);
        assert_eq!(nodes.get(name).await, (Some(want), 0), "{name}");
        let sent = nodes.sent().await;
        assert_eq!((reads(&sent), sent[&method::OPEN]), ([0, 3, 0], there), "{name}");
        nodes.rig.sets.bring_shards(true);
    }
    // A large one is read as before.
    let want = noise(3, 1 << 20);
    nodes.rig.put("large", &want).await.unwrap();
    assert_eq!(nodes.get("large").await, (Some(want), 0));
    nodes.close().await;
}

/// A long body is read in runs of stripes, and each shard is opened once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_body_takes_few_messages() {
    let nodes = Nodes::new(|_| {}).await;
    let want = noise(3, 10 << 20);
    let register = nodes.rig.put("large", &want).await.unwrap();
    let there = Nodes::there(&register);
    nodes.sent().await;
    // Ten stripes: the first alone, then runs of four. A drive that is late on a busy machine is read around, with more messages.
    let expected =
        [(method::OPEN, there), (method::READ_RUN, 4 * there), (method::END, there), (method::READ_MANY, 3)];
    let mut sent = BTreeMap::new();
    for _ in 0..50 {
        assert_eq!(nodes.get("large").await, (Some(want.clone()), 0));
        sent = nodes.sent().await;
        if sent == BTreeMap::from(expected) {
            return nodes.close().await;
        }
    }
    panic!("never {expected:?}, at last {sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drives_that_are_behind_send_no_shard() {
    let nodes = Nodes::new(|_| {}).await;
    nodes.rig.put("k", &noise(1, 5000)).await.unwrap();
    nodes.sent().await;
    nodes.wires[1].reached.store(false, Ordering::Relaxed);
    let want = noise(2, 5000);
    let register = nodes.rig.put("k", &want).await.unwrap();
    nodes.wires[1].reached.store(true, Ordering::Relaxed);
    let data = register.record.data().next().unwrap().data;
    let behind = (0..data.k).filter(|shard| [4, 5].contains(&data.slot_of(*shard))).count();
    let (bytes, came) = nodes.get("k").await;
    assert_eq!(bytes, Some(want));
    assert!(came <= Nodes::there(&register) - behind, "{came} shards came");
    nodes.close().await;
}

/// The cached record is an old one: shards are asked for by the record of a drive of this process, which is newer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_record_in_the_cache_does_not_choose_the_shards() {
    let nodes = Nodes::new(|_| {}).await;
    let old = nodes.rig.put("k", &noise(1, 5000)).await.unwrap();
    let (key, want) = (nodes.rig.key("k"), noise(2, 5000));
    let new = nodes.rig.put("k", &want).await.unwrap();
    basic::quiet(&nodes.rig.sets).await;
    let hash = ashlar_checksum::key_hash(key.as_bytes());
    nodes.rig.sets.inner.cache.forget(hash);
    nodes.rig.sets.inner.cache.put(hash, &key, old.ballot, old.digest, &old.record, 100);
    assert_eq!(nodes.get("k").await, (Some(want), Nodes::there(&new)));
    nodes.close().await;
}

/// A record that is not chosen lies on one drive, of this process or of another: the read settles it, and what came counts only
/// if it is of the body that is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_above_is_settled_before_its_shards_count() {
    for slot in [0, 3] {
        let nodes = Nodes::new(|_| {}).await;
        let before = noise(1, 5000);
        nodes.rig.put("k", &before).await.unwrap();
        basic::quiet(&nodes.rig.sets).await;
        nodes.rig.sets.inner.gate.set(Some((u64::MAX, 1 << slot)));
        let after = noise(2, 5000);
        assert!(nodes.rig.put("k", &after).await.is_err());
        nodes.rig.sets.inner.gate.set(None);
        let (bytes, _) = nodes.get("k").await;
        let bytes = bytes.unwrap();
        assert!(bytes == before || bytes == after, "slot {slot}");
        for _ in 0..3 {
            assert_eq!(nodes.get("k").await.0.as_ref(), Some(&bytes), "slot {slot}: the answer is stable");
        }
        nodes.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_shard_does_not_come_and_is_read_around() {
    let nodes = Nodes::new(|_| {}).await;
    let want = noise(5, 40_000);
    let register = nodes.rig.put("k", &want).await.unwrap();
    basic::quiet(&nodes.rig.sets).await;
    let data = register.record.data().next().unwrap().data;
    let shard = (0..data.k).find(|shard| data.slot_of(*shard) > 1).unwrap();
    let row = data.row_len(want.len() as u64) as usize;
    assert!(damage(&nodes.rig, data.slot_of(shard), &want[usize::from(shard) * row..][..64]));
    assert_eq!(nodes.get("k").await, (Some(want), Nodes::there(&register) - 1));
    assert_eq!(nodes.rig.sets.heal_backlog(), 1, "the damage is queued");
    nodes.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_of_one_write_are_not_taken_for_those_of_another() {
    let nodes = Nodes::new(|_| {}).await;
    let key = nodes.rig.key("k");
    nodes.rig.put("k", &noise(1, 5000)).await.unwrap();
    let (_, came) = nodes.rig.sets.read_register_for(&key, WHOLE).await.unwrap();
    assert!(came.shards() > 0);
    let want = noise(2, 5000);
    let register = nodes.rig.put("k", &want).await.unwrap();
    assert_eq!(nodes.body(&key, first(&register.record).unwrap(), came).await, want);
    nodes.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_memory_no_shards_are_asked_for() {
    let nodes = Nodes::new(|options| {
        options.memory = MemoryLimits { patience: Duration::from_secs(60), ..MemoryLimits::default() };
    })
    .await;
    let want = noise(1, 90_000);
    let register = nodes.rig.put("k", &want).await.unwrap();
    let there = Nodes::there(&register);
    let readers = nodes.rig.sets.inner.memory.readers.clone();
    let (_, came) = nodes.rig.sets.read_register_for(&nodes.rig.key("k"), WHOLE).await.unwrap();
    assert_eq!((came.shards(), readers.used()), (there, want.len()));
    drop(came);
    assert_eq!(readers.used(), 0);
    let all = readers.try_take(usize::MAX, 0).unwrap();
    let (_, came) = nodes.rig.sets.read_register_for(&nodes.rig.key("k"), WHOLE).await.unwrap();
    assert_eq!(came.shards(), 0);
    drop(all);
    assert_eq!(nodes.get("k").await, (Some(want), there));
    assert_eq!(readers.used(), 0);
    nodes.close().await;
}
