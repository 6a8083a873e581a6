//! Compaction, large contents, full etcds, and announcements whose lease ends.

use ashlar_cluster::{Error as StoreError, Update, Watched};
use ashlar_etcd::{Error, Etcd};
use bytes::Bytes;
use serde_json::json;

use crate::contract::{DEPLOYMENT, set};
use crate::proxy::{Network, Proxy};
use crate::support::{Cluster, LONG, created, not_opened, opened, put, text, until};

/// After a compaction everything is read again, and watchers are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compacted_while_away() {
    let cluster = Cluster::start(1).await;
    let writer = created(&cluster.options("c")).await.control();
    put(&writer, "old", "1").await.unwrap();
    put(&writer, "removed", "1").await.unwrap();
    let proxy = Proxy::before(&cluster.members[0].url).await;
    let mut options = cluster.options("c");
    options.endpoints = vec![proxy.url.clone()];
    let store = opened(&options).await;
    let reader = store.control();
    let mut watch = reader.watch(reader.revision());
    proxy.set(Network::Refuses);
    until(|| async { store.trouble().is_some() }).await;
    put(&writer, "new", "1").await.unwrap();
    let mut gone = Update::new();
    gone.remove(&writer.read("removed"));
    let last = writer.update(gone).await.unwrap();
    cluster.compact(0).await;
    proxy.set(Network::Passes);
    let news = tokio::time::timeout(LONG, watch.next()).await.unwrap();
    assert_eq!(news, Watched::Reset(last));
    assert_eq!(reader.list(""), writer.list(""));
    let after = put(&writer, "after", "1").await.unwrap();
    let news = tokio::time::timeout(LONG, watch.next()).await.unwrap();
    assert!(matches!(news, Watched::Changes(c) if c.len() == 1 && c[0].revision == after));
    // Compaction under a watch that is up to date disturbs nothing.
    cluster.compact(0).await;
    put(&writer, "after", "2").await.unwrap();
    let news = tokio::time::timeout(LONG, watch.next()).await.unwrap();
    assert!(matches!(news, Watched::Changes(c) if c[0].key == "after"));
}

/// What does not fit into one answer of etcd is read in pages, and changes as large as may be are followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_contents() {
    let cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    let mut entries: Vec<(String, Bytes)> =
        (0..3000).map(|i| (format!("small/{i:05}"), Bytes::from(format!("{i}")))).collect();
    entries.extend((0..12).map(|i| (format!("large/{i:02}"), Bytes::from(vec![b'x'; 1 << 20]))));
    Etcd::create(&options, DEPLOYMENT, entries.clone()).await.unwrap();
    let store = opened(&options).await;
    entries.sort();
    let listed: Vec<(String, Bytes)> =
        store.control().list("").into_iter().map(|(k, v)| (k, v.bytes)).collect();
    assert!(listed == entries);
    let c = store.control();
    let proxy = Proxy::before(&cluster.members[0].url).await;
    let mut through = options.clone();
    through.endpoints = vec![proxy.url.clone()];
    let other = opened(&through).await;
    let mut watch = other.control().watch(other.control().revision());
    proxy.set(Network::Refuses);
    // Together more than one message of a watch.
    let mut told = Vec::new();
    for i in 0..4 {
        let revision = c.update(largest(&c, i)).await.unwrap();
        told.extend([revision; Update::MAX_KEYS]);
    }
    proxy.set(Network::Passes);
    let mut seen = Vec::new();
    while seen.len() < told.len() {
        let Watched::Changes(news) = tokio::time::timeout(LONG, watch.next()).await.unwrap() else {
            panic!("a reset")
        };
        assert!(news.len() % Update::MAX_KEYS == 0, "all changes of a revision come together");
        seen.extend(news.iter().map(|n| n.revision));
    }
    assert_eq!(seen, told);
    assert!(other.control().list("most/") == c.list("most/"));
    // The bound of the content is that of the embedded driver.
    let mut refused = None;
    for i in 0..24 {
        match c.update(set_large(&c, i)).await {
            Ok(_) => {}
            Err(e) => {
                refused = Some((i, e));
                break;
            }
        }
    }
    assert!(matches!(refused, Some((10.., StoreError::TooLarge(_)))), "{refused:?}");
}

/// A change of as many keys and bytes as may be.
fn largest(c: &ashlar_cluster::Control, i: u8) -> Update {
    let mut update = Update::new();
    for n in 0..Update::MAX_KEYS {
        let key = format!("most/{n:03}");
        let bytes = Update::MAX_BYTES / Update::MAX_KEYS - Update::PER_KEY - 2 * key.len();
        update.set(&c.read(&key), vec![i; bytes]);
    }
    update
}

fn set_large(c: &ashlar_cluster::Control, i: usize) -> Update {
    let mut update = Update::new();
    update.set(&c.read(&format!("more/{i:02}")), vec![b'z'; Update::MAX_VALUE]);
    update
}

/// An etcd that is out of space refuses changes; reads go on, and so do changes once there is space.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_space() {
    let cluster = Cluster::with(1, &["--quota-backend-bytes=4194304"], None).await;
    let store = created(&cluster.options("c")).await;
    let c = store.control();
    put(&c, "k", "1").await.unwrap();
    // "Zg==" is `f`: another user of the same etcd.
    let value = "eHh4".repeat(100_000);
    loop {
        let done = cluster.ask(0, "/v3/kv/put", json!({ "key": "Zg==", "value": value })).await;
        if done["code"].as_u64() == Some(8) {
            break;
        }
    }
    let why = c.update(set(&c.read("k"), "2")).await.unwrap_err().to_string();
    assert!(why.contains("NOSPACE") && why.contains("nothing was changed"), "{why}");
    assert_eq!(text(&c, "k").as_deref(), Some("1"));
    c.barrier().await.unwrap();
    until(|| async { !c.health().writable }).await;
    cluster.compact(0).await;
    cluster.ask(0, "/v3/maintenance/defragment", json!({})).await;
    let member = cluster.leader().await.1.remove(0);
    let alarm = json!({ "action": "DEACTIVATE", "memberID": member, "alarm": "NOSPACE" });
    cluster.ask(0, "/v3/maintenance/alarm", alarm).await;
    c.update(set(&c.read("k"), "3")).await.unwrap();
    until(|| async { c.health().writable }).await;
}

/// An announcement whose lease ends is made again; another process cannot have the number meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announcements_are_renewed() {
    let cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    let first = created(&options).await.control();
    let second = opened(&options).await.control();
    let own = first.announce(3).await.unwrap();
    let mut list = second.announced();
    list.wait_for(|nodes| nodes.contains(&3)).await.unwrap();
    assert!(matches!(second.announce(3).await, Err(StoreError::Conflict(_))));
    let leases = cluster.ask(0, "/v3/lease/leases", json!({})).await;
    let id = leases["leases"][0]["ID"].clone();
    cluster.ask(0, "/v3/lease/revoke", json!({ "ID": id })).await;
    tokio::time::timeout(LONG, list.wait_for(|nodes| !nodes.contains(&3))).await.unwrap().unwrap();
    tokio::time::timeout(LONG, list.wait_for(|nodes| nodes.contains(&3))).await.unwrap().unwrap();
    // A process that ends without a word: its announcement ends with the lease.
    let third = second.announce(4).await.unwrap();
    std::mem::forget(third);
    list.wait_for(|nodes| nodes.contains(&4)).await.unwrap();
    drop(own);
    tokio::time::timeout(LONG, list.wait_for(|nodes| !nodes.contains(&3))).await.unwrap().unwrap();
    let mut rest = first.announced();
    second.close().await;
    tokio::time::timeout(LONG, rest.wait_for(|nodes| nodes.is_empty())).await.unwrap().unwrap();
}

/// Of several processes that create at once one succeeds; a creation that was interrupted is done again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creation() {
    let cluster = Cluster::start(1).await;
    let options = cluster.options("c");
    assert_eq!(not_opened(&options, Vec::new()).await, Error::NotCreated("c".into()));
    let identity =
        r#"{"format":1,"deployment":"06060606060606060606060606060606","store":"a","complete":false}"#;
    use base64::Engine as _;
    let encode = |t: &str| base64::engine::general_purpose::STANDARD.encode(t);
    for (key, value) in [("/ashlar/c/identity", identity), ("/ashlar/c/data/rest", "x")] {
        cluster.ask(0, "/v3/kv/put", json!({ "key": encode(key), "value": encode(value) })).await;
    }
    assert_eq!(not_opened(&options, Vec::new()).await, Error::NotCreated("c".into()));
    let tries = (0..4).map(|i| {
        let options = options.clone();
        tokio::spawn(async move {
            let entries = (0..300).map(|n| (format!("{n:03}"), Bytes::from(format!("{i}")))).collect();
            (i, Etcd::create(&options, DEPLOYMENT, entries).await)
        })
    });
    let mut winners = Vec::new();
    for one in tries.collect::<Vec<_>>() {
        match one.await.unwrap() {
            (i, Ok(())) => winners.push(i.to_string()),
            (_, Err(Error::Exists(name))) => assert_eq!(name, "c"),
            (_, Err(e)) => panic!("{e}"),
        }
    }
    assert_eq!(winners.len(), 1);
    let listed = opened(&options).await.control().list("");
    assert_eq!(listed.len(), 300);
    assert!(listed.iter().all(|(_, v)| v.bytes == winners[0]));
    let other = Etcd::open(&options, Vec::new(), Some(ashlar_format::DeploymentId([1; 16]))).await;
    assert!(matches!(other.err(), Some(Error::OtherDeployment { .. })));
}
