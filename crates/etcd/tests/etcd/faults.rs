//! Members that die, hang and cannot be reached while clients change the store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_cluster::{Control, Error, Update};
use serde_json::json;
use tokio::sync::Mutex;

use crate::contract::{number, set};
use crate::nemesis::Nemesis;
use crate::proxy::{Network, Proxy};
use crate::support::{Cluster, created, opened, put, text, until};

/// What one client was told of its increments.
#[derive(Default)]
struct Told {
    made: BTreeSet<String>,
    unknown: BTreeSet<String>,
}

/// One increment of a counter, which leaves a note of its own.
async fn increment(c: &Control, note: &str) -> Result<(), Error> {
    c.change(|update: &mut Update| {
        let entry = c.read("n");
        let n = entry.bytes().map_or(0, |b| number(b)) + 1;
        update.set(&entry, n.to_string());
        update.set(&c.read(note), "");
        Ok(())
    })
    .await
}

async fn client(c: Control, name: usize, stop: Arc<AtomicBool>) -> Told {
    let mut told = Told::default();
    for i in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let note = format!("note/{name}/{i}");
        match increment(&c, &note).await {
            Ok(()) => {
                assert!(c.get(&note).is_some(), "success comes after memory has the change");
                told.made.insert(note);
            }
            Err(Error::Contended(_)) => {}
            Err(Error::Unavailable(why)) => {
                if !why.contains("nothing was changed") {
                    told.unknown.insert(note);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(e) => panic!("{e}"),
        }
        // The members and the other clients need the machine too.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    told
}

/// Increments by compare-and-set sum exactly: none that was acknowledged is lost, none is counted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_sum_exactly() {
    let cluster = Cluster::start(3).await;
    let direct = cluster.options("c");
    let mut through = direct.clone();
    let mut proxies = Vec::new();
    for endpoint in &mut through.endpoints {
        let proxy = Proxy::before(endpoint).await;
        endpoint.clone_from(&proxy.url);
        proxies.push(proxy);
    }
    let mut stores = vec![created(&direct).await];
    for at in 0..3 {
        let mut options = through.clone();
        options.endpoints.rotate_left(at);
        stores.push(opened(&options).await);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = stores
        .iter()
        .enumerate()
        .map(|(i, store)| tokio::spawn(client(store.control(), i, stop.clone())))
        .collect();
    let cluster = Arc::new(Mutex::new(cluster));
    let mut nemesis = Nemesis::begin(cluster.clone(), proxies, 7);
    nemesis.each_kind().await;
    nemesis.end().await;
    stop.store(true, Ordering::Release);
    let (mut made, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    for client in clients {
        let told = client.await.unwrap();
        made.extend(told.made);
        unknown.extend(told.unknown);
    }
    for store in &stores {
        let c = store.control();
        until(|| async { c.barrier().await.is_ok() }).await;
        let notes: BTreeSet<String> = c.list("note/").into_iter().map(|(k, _)| k).collect();
        let n = number(&c.get("n").unwrap().bytes);
        assert_eq!(n, notes.len() as u64, "each increment that was made is counted once");
        assert!(made.is_subset(&notes), "acknowledged and lost: {:?}", made.difference(&notes));
        let surprises: Vec<_> = notes.difference(&made).filter(|n| !unknown.contains(*n)).collect();
        assert!(surprises.is_empty(), "made, although the client was told that it was not: {surprises:?}");
        assert!(!made.is_empty());
    }
}

/// A request that waited in a member that hung is not carried out after its change was decided: the key is
/// absent again, as the request expects it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_requests_change_nothing() {
    let cluster = Cluster::start(3).await;
    let store = created(&cluster.options("c")).await;
    let c = store.control();
    let mut direct = cluster.options("c");
    direct.endpoints.rotate_left(1);
    let other = opened(&direct).await.control();
    for round in 0..2 {
        let key = format!("k{round}");
        let absent = c.read(&key);
        // The members of the first client's list hang one after the other; each got a request by then.
        cluster.members[round].pause();
        c.update(set(&absent, "x")).await.unwrap();
        let made = c.read(&key);
        let mut gone = Update::new();
        gone.remove(&made);
        let removed = c.update(gone).await.unwrap();
        cluster.members[round].go_on();
        cluster.member_ready(round).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        other.barrier().await.unwrap();
        assert_eq!(other.get(&key), None, "the request was carried out twice");
        assert_eq!(other.revision(), removed);
    }
}

/// A member that hangs says nothing. Its clients notice, and follow another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_hangs_is_left() {
    let cluster = Cluster::start(3).await;
    let reader = created(&cluster.options("c")).await.control();
    let mut options = cluster.options("c");
    options.endpoints.rotate_left(1);
    let writer = opened(&options).await.control();
    let mut watch = reader.watch(reader.revision());
    cluster.members[0].pause();
    let told = put(&writer, "k", "1").await.unwrap();
    let seen = tokio::time::timeout(crate::support::LONG, watch.next()).await.unwrap();
    assert!(matches!(seen, ashlar_cluster::Watched::Changes(c) if c[0].revision == told));
    assert_eq!(text(&reader, "k").as_deref(), Some("1"));
    cluster.members[0].go_on();
}

/// A start finds the members that answer, wherever they are in the list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_passes_members_that_hang() {
    let cluster = Cluster::start(1).await;
    created(&cluster.options("c")).await;
    let mut options = cluster.options("c");
    // Nobody accepts connections there, and nobody refuses them.
    let silent: Vec<_> = (0..2).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let silent = silent.iter().map(|l| format!("http://{}", l.local_addr().unwrap()));
    let all: Vec<String> = silent.chain(options.endpoints).collect();
    options.endpoints = all;
    let c = opened(&options).await.control();
    put(&c, "k", "1").await.unwrap();
}

/// With a new leader nothing fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_changes() {
    let cluster = Cluster::start(3).await;
    let store = created(&cluster.options("c")).await;
    let stop = Arc::new(AtomicBool::new(false));
    let working = tokio::spawn(client(store.control(), 0, stop.clone()));
    for _ in 0..4 {
        let (leader, ids) = cluster.leader().await;
        let target = &ids[(leader + 1) % 3];
        let moved =
            cluster.ask(leader, "/v3/maintenance/transfer-leadership", json!({ "targetID": target })).await;
        assert!(moved["message"].is_null(), "{moved}");
        until(|| async { cluster.leader().await.0 == (leader + 1) % 3 }).await;
        // Changes go on after it.
        let count = || store.control().get("n").map_or(0, |v| number(&v.bytes));
        let before = count();
        until(|| async { count() > before + 1 }).await;
    }
    stop.store(true, Ordering::Release);
    let told = working.await.unwrap();
    assert!(told.unknown.is_empty());
    assert_eq!(number(&store.control().get("n").unwrap().bytes), told.made.len() as u64);
}

/// Without a quorum reads go on, and changes say why they fail; then all goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_is_lost_and_comes_back() {
    let mut cluster = Cluster::start(3).await;
    let store = created(&cluster.options("c")).await;
    let c = store.control();
    put(&c, "k", "1").await.unwrap();
    cluster.members[1].kill();
    cluster.members[2].kill();
    let stale = c.read("k");
    until(|| async { store.trouble().is_some() }).await;
    let why = c.update(set(&stale, "2")).await.unwrap_err().to_string();
    assert!(why.contains("since") && why.contains("nothing was changed"), "{why}");
    assert!(c.barrier().await.is_err() && !c.health().writable);
    assert_eq!(text(&c, "k").as_deref(), Some("1"));
    let age = store.age();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(store.age() > age, "nothing confirms it");
    until(|| async { store.trouble().is_some_and(|t| t.contains("quorum")) }).await;
    cluster.members[1].start();
    until(|| async { c.barrier().await.is_ok() }).await;
    c.update(set(&c.read("k"), "3")).await.unwrap();
    assert_eq!(text(&c, "k").as_deref(), Some("3"));
    assert!(store.age() < age + Duration::from_secs(60) && store.trouble().is_none());
}

/// A network that is cut and comes back: what happened meanwhile arrives, and no watcher has to start again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_network_heals() {
    let cluster = Cluster::start(1).await;
    let writer = created(&cluster.options("c")).await.control();
    let proxy = Proxy::before(&cluster.members[0].url).await;
    let mut options = cluster.options("c");
    options.endpoints = vec![proxy.url.clone()];
    let store = opened(&options).await;
    let reader = store.control();
    let from = reader.revision();
    let mut watch = reader.watch(from);
    for network in [Network::Cut, Network::Refuses] {
        // The watch exists before the network fails: a watch that hangs says nothing.
        put(&writer, "before", "x").await.unwrap();
        tokio::time::timeout(crate::support::LONG, watch.next()).await.unwrap();
        proxy.set(network);
        let mut told = Vec::new();
        for i in 0..5 {
            told.push(put(&writer, "k", &i.to_string()).await.unwrap());
        }
        until(|| async { store.trouble().is_some() }).await;
        let why = put(&reader, "other", "x").await.unwrap_err().to_string();
        assert!(why.contains("cannot be reached"), "{why}");
        proxy.set(Network::Passes);
        let mut seen = Vec::new();
        while seen.len() < told.len() {
            match tokio::time::timeout(crate::support::LONG, watch.next()).await.unwrap() {
                ashlar_cluster::Watched::Changes(changes) => seen.extend(changes.iter().map(|c| c.revision)),
                ashlar_cluster::Watched::Reset(at) => panic!("a reset at {at}"),
            }
        }
        assert_eq!(seen, told);
        until(|| async { put(&reader, "other", "x").await.is_ok() }).await;
        watch = reader.watch(reader.revision());
    }
}
