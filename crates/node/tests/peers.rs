//! Four nodes in one process, each with two drives: their stores share all drives over mutual TLS.
//!
//! Must not depend on: how a cluster is formed; the test tells each node who the others are.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::{CodeSpec, Control, Embedded, Map, Medium, MemoryMedium};
use ashlar_drive::{Drive, Label, Options as DriveOptions, Range, Role};
use ashlar_erasure_set::{Code, Group, Layout, Options as SetsOptions, Sets};
use ashlar_format::{Ballot, DeploymentId, DriveId, RegisterKey, WriteId};
use ashlar_machine::BufferPool;
use ashlar_node::peers::{DriveService, Peers};
use ashlar_object::{
    Conditions, CreateBucket, Error, ListSpec, Match, Options, PutSpec, Result, Store, VersionSpec,
};
use ashlar_remote::Served;
use ashlar_rpc::{
    Authority, Credentials, Endpoint, Identity, Incoming, Limits, NodeKey, Refusal, Reply, Service,
    Transport, Trust,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::watch;

const CLUSTER: DeploymentId = DeploymentId([0xc; 16]);
const NODES: u16 = 4;
const DRIVES: u8 = 2;
const BUCKET: &str = "bucket";
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The longest that a request may take without a node: far less than the time limits of calls to it together.
const LIMIT: Duration = Duration::from_secs(5);

/// Serves drives, and stands still while it is told to: calls are taken and not executed.
struct Standing(DriveService, watch::Receiver<bool>);

impl Service for Standing {
    fn call(
        &self,
        caller: &ashlar_rpc::Caller,
        request: Incoming,
    ) -> BoxFuture<'static, std::result::Result<Reply, Refusal>> {
        let mut stands = self.1.clone();
        let (service, caller) = (DriveService(self.0.0.clone()), *caller);
        Box::pin(async move {
            let _ = stands.wait_for(|stands| !stands).await;
            service.call(&caller, request).await
        })
    }

    fn disconnected(&self, caller: &ashlar_rpc::Caller, remaining: usize) {
        self.0.disconnected(caller, remaining);
    }
}

/// A running node.
struct Node {
    number: u16,
    drives: Vec<Drive>,
    served: Served,
    stands: watch::Sender<bool>,
    endpoint: Endpoint,
    peers: Peers,
    sets: Sets,
    store: Store,
}

struct Cluster {
    dir: tempfile::TempDir,
    map: Map,
    control: Control,
    authority: Authority,
    nodes: Vec<Option<Node>>,
    addresses: Vec<String>,
}

fn drive_id(node: u16, n: u8) -> DriveId {
    DriveId([(node as u8) * DRIVES + n + 1; 16])
}

fn path(dir: &Path, id: DriveId) -> PathBuf {
    dir.join(format!("drive{}", id.0[0]))
}

fn layout(map: &Map) -> Layout {
    let code = map.code();
    let group = |g: &ashlar_cluster::Group| Group {
        id: g.id,
        epoch: g.epoch,
        slots: g.slots.iter().map(|s| s.drive).collect(),
    };
    Layout {
        epoch: map.epoch,
        code: Code { k: code.k, m: code.m },
        groups: map.groups.iter().map(group).collect(),
    }
}

impl Cluster {
    /// Formats the drives and starts all nodes.
    async fn start() -> Cluster {
        let shm = Path::new("/dev/shm");
        let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap();
        let ids: Vec<DriveId> =
            (0..NODES).flat_map(|node| (0..DRIVES).map(move |n| drive_id(node, n))).collect();
        let named: Vec<_> =
            ids.iter().map(|id| (*id, path(dir.path(), *id).display().to_string(), 1 << 30)).collect();
        let map = Map::first(CLUSTER, &named, Some(CodeSpec { k: 4, m: 4 }), Some(4)).unwrap();
        for id in &ids {
            let path = path(dir.path(), *id);
            std::fs::create_dir(&path).unwrap();
            let label = Label { deployment: CLUSTER, drive: *id, created_ms: 1 };
            let groups: Vec<_> = map.groups_of(*id).into_iter().map(|g| (g, Role::Voter)).collect();
            ashlar_drive::format(&path, &label, &groups).unwrap();
        }
        let media = vec![(ids[0], Arc::new(MemoryMedium::default()) as Arc<dyn Medium>)];
        let control = Embedded::create(CLUSTER, media, Vec::new()).await.unwrap().control();
        let authority = Authority::create(CLUSTER, DAY).unwrap();
        let addresses = vec!["127.0.0.1:0".to_owned(); usize::from(NODES)];
        let mut cluster = Cluster { dir, map, control, authority, nodes: Vec::new(), addresses };
        for number in 0..NODES {
            let node = cluster.node(number).await;
            cluster.addresses[usize::from(number)] = node.endpoint.address().to_string();
            cluster.nodes.push(Some(node));
        }
        (0..NODES).for_each(|number| cluster.introduce(number));
        cluster
    }

    /// Starts a node that knows no other yet.
    async fn node(&self, number: u16) -> Node {
        let pool = BufferPool::new(256 << 20);
        let drives: Vec<Drive> = (0..DRIVES)
            .map(|n| {
                let path = path(self.dir.path(), drive_id(number, n));
                let mut options = DriveOptions::new(pool.clone());
                options.reserve_bytes = 1 << 20;
                Drive::open(&path, &options).unwrap()
            })
            .collect();
        let served = Served::default();
        served.set(drives.clone());
        let key = NodeKey::generate().unwrap();
        let certificate = self.authority.sign(&key.request().unwrap(), number, DAY).unwrap();
        let identity = Identity::new(CLUSTER, &certificate, &key).unwrap();
        let trust = Trust::new(CLUSTER, [self.authority.certificate()]).unwrap();
        let credentials = Credentials::new(identity, trust).unwrap();
        let pools = (BufferPool::new(64 << 20), BufferPool::new(64 << 20));
        let transport = Transport::new(credentials, Limits::default(), 1..=1, pools.0, pools.1).unwrap();
        let (stands, is_standing) = watch::channel(false);
        let service = Arc::new(Standing(DriveService(served.clone()), is_standing));
        let address = &self.addresses[usize::from(number)];
        let endpoint = Endpoint::bind(transport.clone(), address, service).await.unwrap();
        let mut options = SetsOptions::new(pool);
        options.node = number;
        options.sole = false;
        let sets = Sets::new(layout(&self.map), drives.clone(), options).unwrap();
        let store = Store::open(sets.clone(), self.control.clone(), Options::default()).unwrap();
        tokio::spawn(store.follow_buckets());
        Node { number, drives, served, stands, endpoint, peers: Peers::new(transport), sets, store }
    }

    /// Tells a node who the others are.
    fn introduce(&self, number: u16) {
        let node = self.nodes[usize::from(number)].as_ref().unwrap();
        for other in (0..NODES).filter(|other| *other != number) {
            let remote = node.peers.at(other, &self.addresses[usize::from(other)]);
            for n in 0..DRIVES {
                let id = drive_id(other, n);
                node.sets.attach(remote.know(&self.heard(id)));
            }
        }
        node.sets.start();
    }

    /// What is known of a drive before its node was asked.
    fn heard(&self, id: DriveId) -> ashlar_remote::wire::Heard {
        let held = self.map.groups_of(id).into_iter().map(|g| (g, Role::Voter, 0));
        ashlar_remote::wire::Heard {
            label: Label { deployment: CLUSTER, drive: id, created_ms: 1 },
            path: path(self.dir.path(), id).display().to_string(),
            status: ashlar_drive::Status {
                state: ashlar_drive::State::Online,
                held: held.collect(),
                floor: ashlar_format::Ballot::ZERO,
                stats: ashlar_drive::Stats { free: 1 << 30, ..Default::default() },
            },
            oldest: Duration::ZERO,
        }
    }

    fn store(&self, number: usize) -> &Store {
        &self.nodes[number].as_ref().unwrap().store
    }

    /// Ends a node, as a crash of its process does: no connection is ended properly.
    async fn end(&mut self, number: usize) {
        let node = self.nodes[number].take().unwrap();
        let Node { drives, served, endpoint, peers, sets, .. } = node;
        drop(endpoint);
        drop(peers);
        sets.stop().await;
        served.set([]);
        for drive in drives {
            drive.close().await;
        }
    }

    /// Starts a node again.
    async fn again(&mut self, number: u16) {
        let node = self.node(number).await;
        self.nodes[usize::from(number)] = Some(node);
        self.introduce(number);
    }

    /// Waits until a node counts this many voters in every group.
    async fn know_voters(&self, number: usize, voters: u8) {
        let sets = &self.nodes[number].as_ref().unwrap().sets;
        for _ in 0..3_000 {
            if sets.health().iter().all(|group| group.voters == voters) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("node {number} counts: {:?}", sets.health());
    }

    /// What a drive holds: the registers of all groups with their ballots, and the writes of its shards.
    async fn holds(&self, drive: &Drive) -> (BTreeMap<RegisterKey, Ballot>, BTreeSet<WriteId>) {
        let range = |g: &ashlar_cluster::Group| {
            let (from, to) = (g.id.to_bytes().to_vec(), g.id.next().unwrap().to_bytes().to_vec());
            Range { from, to, epoch: u32::MAX }
        };
        let entries =
            drive.scan_many(self.map.groups.iter().map(range).collect(), None, 10_000).await.unwrap();
        let shards = drive.shards(None, 10_000).await.unwrap();
        let registers = entries.into_iter().map(|e| (e.key, e.ballot)).collect();
        (registers, shards.into_iter().map(|s| s.write_id).collect())
    }

    /// Waits until the drives of a node hold what all others hold.
    async fn know_healed(&self, number: usize) {
        for _ in 0..300 {
            let (mut others, mut own) = (Vec::new(), Vec::new());
            for (at, node) in self.nodes.iter().enumerate() {
                for drive in &node.as_ref().unwrap().drives {
                    let holds = self.holds(drive).await;
                    if at == number { own.push(holds) } else { others.push(holds) }
                }
            }
            let (registers, mut writes) = others.pop().unwrap();
            let same = others.iter().chain(&own).all(|drive| drive.0 == registers);
            writes.retain(|id| others.iter().all(|drive| drive.1.contains(id)));
            if same && own.iter().all(|drive| drive.1.is_superset(&writes)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("the drives of node {number} are not healed");
    }

    /// Every node knows the bucket.
    async fn know_bucket(&self) {
        for node in self.nodes.iter().flatten() {
            while node.store.bucket(BUCKET).is_err() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }

    /// Shards that nodes have open on drives of others.
    fn sessions(&self) -> usize {
        self.nodes.iter().flatten().map(|node| node.served.sessions()).sum()
    }

    async fn stop(mut self) {
        for number in 0..self.nodes.len() {
            if self.nodes[number].is_some() {
                self.end(number).await;
            }
        }
    }
}

fn body(seed: usize, len: usize) -> Bytes {
    (0..len).map(|i| ((i ^ seed).wrapping_mul(2_654_435_761) >> 7) as u8).collect::<Vec<_>>().into()
}

async fn put(store: &Store, key: &str, bytes: &Bytes, conditions: Conditions) -> Result<()> {
    let mut put = store.put(&store.bucket(BUCKET)?, key, PutSpec::new(bytes.len() as u64)).await?;
    for piece in bytes.chunks(1 << 18) {
        put.write(bytes.slice_ref(piece)).await?;
    }
    put.commit(VersionSpec::default(), &conditions).await.map(|_| ())
}

async fn get(store: &Store, key: &str) -> Result<Bytes> {
    let object = store.get(&store.bucket(BUCKET)?, key, None).await?;
    let mut body = object.read(0..object.size()).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes.into())
}

async fn list(store: &Store) -> Vec<String> {
    let (bucket, spec) = (store.bucket(BUCKET).unwrap(), ListSpec { max_keys: 1000, ..Default::default() });
    let page = store.list(&bucket, &spec).await.unwrap();
    page.entries.into_iter().map(|entry| entry.key).collect()
}

/// Repeats a call while drives cannot be reached, as a client does.
async fn patiently<T, F: Future<Output = Result<T>>>(mut call: impl FnMut() -> F) -> T {
    for _ in 0..60 {
        match call().await {
            Ok(done) => return done,
            Err(Error::Unavailable(_) | Error::Busy) => tokio::time::sleep(Duration::from_millis(500)).await,
            Err(e) => panic!("{e}"),
        }
    }
    panic!("it remained unavailable")
}

const SIZES: [usize; 6] = [0, 10, 5_000, 300_000, 1 << 20, (5 << 20) + 17];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_nodes_are_one_store() {
    let cluster = Cluster::start().await;
    cluster.store(0).create_bucket(BUCKET, &CreateBucket::default()).await.unwrap();
    cluster.know_bucket().await;
    for (n, len) in SIZES.into_iter().enumerate() {
        put(cluster.store(n % 4), &format!("key-{n}"), &body(n, len), Conditions::NONE).await.unwrap();
    }
    let keys: Vec<String> = (0..SIZES.len()).map(|n| format!("key-{n}")).collect();
    for at in 0..4 {
        for (n, len) in SIZES.into_iter().enumerate() {
            assert_eq!(get(cluster.store(at), &keys[n]).await.unwrap(), body(n, len), "{n} at {at}");
        }
        assert_eq!(list(cluster.store(at)).await, keys, "at {at}");
    }
    // What one node overwrote or deleted is so for all others at once.
    for (n, key) in keys.iter().enumerate() {
        put(cluster.store(n % 4), key, &body(n + 50, 7_000), Conditions::NONE).await.unwrap();
        assert_eq!(get(cluster.store((n + 1) % 4), key).await.unwrap(), body(n + 50, 7_000));
        let store = cluster.store((n + 2) % 4);
        store.delete(&store.bucket(BUCKET).unwrap(), key, None, &Conditions::NONE).await.unwrap();
        let gone = get(cluster.store((n + 3) % 4), key).await;
        assert!(matches!(gone, Err(Error::NoSuchKey { .. })), "{gone:?}");
    }
    assert!(list(cluster.store(1)).await.is_empty());
    for _ in 0..5_000 {
        if cluster.sessions() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(cluster.sessions(), 0, "shards remain open");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_racers_at_all_nodes_creates_a_key() {
    let cluster = Cluster::start().await;
    cluster.store(0).create_bucket(BUCKET, &CreateBucket::default()).await.unwrap();
    cluster.know_bucket().await;
    for round in 0..10 {
        let key = format!("raced-{round}");
        let racers = (0..4).map(|at| {
            let (store, key) = (cluster.store(at).clone(), key.clone());
            async move {
                let none = || Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE };
                let bytes = body(at, 3_000);
                loop {
                    match put(&store, &key, &bytes, none()).await {
                        Ok(()) => return true,
                        Err(Error::PreconditionFailed) => return false,
                        // Others hold the key; nothing happened.
                        Err(Error::Busy | Error::Conflict) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            }
        });
        let won = futures::future::join_all(racers).await;
        let winners: Vec<usize> = (0..4).filter(|at| won[*at]).collect();
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        assert_eq!(get(cluster.store(3), &key).await.unwrap(), body(winners[0], 3_000));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn others_go_on_without_a_node_and_with_it_again() {
    let mut cluster = Cluster::start().await;
    cluster.store(0).create_bucket(BUCKET, &CreateBucket::default()).await.unwrap();
    cluster.know_bucket().await;
    for (n, len) in SIZES.into_iter().enumerate() {
        put(cluster.store(3), &format!("before-{n}"), &body(n, len), Conditions::NONE).await.unwrap();
    }
    cluster.end(3).await;
    for (n, len) in SIZES.into_iter().enumerate() {
        let store = cluster.store(n % 3);
        let bytes = body(n + 9, len);
        let (without, before) = (format!("without-{n}"), format!("before-{n}"));
        patiently(|| put(store, &without, &bytes, Conditions::NONE)).await;
        assert_eq!(patiently(|| get(store, &before)).await, body(n, len));
    }
    cluster.again(3).await;
    cluster.know_bucket().await;
    let number = cluster.nodes[3].as_ref().unwrap().number;
    assert_eq!(number, 3);
    for (n, len) in SIZES.into_iter().enumerate() {
        let without = format!("without-{n}");
        assert_eq!(patiently(|| get(cluster.store(3), &without)).await, body(n + 9, len));
    }
    assert_eq!(list(cluster.store(3)).await.len(), 2 * SIZES.len());
    cluster.stop().await;
}

/// Fails if a request waits for a node that is away.
async fn soon<T>(what: &str, request: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, request).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what} waits for a node that is away"),
    }
}

/// Every kind of request at the nodes 0 to 2, while node 3 is away.
async fn requests_without_node_3(cluster: &Cluster) {
    for at in 0..3 {
        let store = cluster.store(at);
        for (n, len) in SIZES.into_iter().enumerate() {
            let (without, before) = (format!("without-{at}-{n}"), format!("before-{n}"));
            let put = soon("PUT", put(store, &without, &body(n + 9, len), Conditions::NONE)).await;
            put.unwrap();
            assert_eq!(soon("GET", get(store, &without)).await.unwrap(), body(n + 9, len));
            assert_eq!(soon("GET", get(store, &before)).await.unwrap(), body(n, len));
        }
        let (bucket, gone) = (store.bucket(BUCKET).unwrap(), format!("gone-{at}"));
        soon("DELETE", store.delete(&bucket, &gone, None, &Conditions::NONE)).await.unwrap();
        let listed = soon("LIST", list(store)).await;
        assert_eq!(listed.len(), SIZES.len() + (at + 1) * SIZES.len() + (2 - at), "{listed:?}");
    }
}

/// Node 3 goes away, by standing still or by ending, and comes back.
async fn away_and_back(stands: bool) {
    let mut cluster = Cluster::start().await;
    cluster.store(0).create_bucket(BUCKET, &CreateBucket::default()).await.unwrap();
    cluster.know_bucket().await;
    for (n, len) in SIZES.into_iter().enumerate() {
        put(cluster.store(3), &format!("before-{n}"), &body(n, len), Conditions::NONE).await.unwrap();
    }
    for at in 0..3 {
        put(cluster.store(at), &format!("gone-{at}"), &body(at, 20_000), Conditions::NONE).await.unwrap();
    }
    if stands {
        cluster.nodes[3].as_ref().unwrap().stands.send_replace(true);
    } else {
        cluster.end(3).await;
    }
    for at in 0..3 {
        cluster.know_voters(at, (NODES as u8 - 1) * DRIVES).await;
    }
    requests_without_node_3(&cluster).await;
    if stands {
        cluster.nodes[3].as_ref().unwrap().stands.send_replace(false);
    } else {
        cluster.again(3).await;
    }
    for at in 0..4 {
        cluster.know_voters(at, NODES as u8 * DRIVES).await;
    }
    cluster.know_bucket().await;
    cluster.know_healed(3).await;
    for (n, len) in SIZES.into_iter().enumerate() {
        assert_eq!(get(cluster.store(3), &format!("without-1-{n}")).await.unwrap(), body(n + 9, len));
    }
    assert_eq!(list(cluster.store(3)).await.len(), 4 * SIZES.len());
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_waits_for_a_node_that_stands_still_and_it_gets_what_it_missed() {
    away_and_back(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_waits_for_a_node_that_ended_and_it_gets_what_it_missed() {
    away_and_back(false).await;
}
