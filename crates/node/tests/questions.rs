//! Nodes that ask each other questions over mutual TLS.
//!
//! Must not depend on: drives, how a cluster is formed.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_format::DeploymentId;
use ashlar_machine::BufferPool;
use ashlar_node::peers::Peers;
use ashlar_node::questions::{ASK, Answers, NoAnswer, Questions};
use ashlar_rpc::{
    Authority, Caller, Credentials, Endpoint, Identity, Incoming, Limits, NodeKey, Refusal, Reply, Service,
    Transport, Trust,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::watch;

const CLUSTER: DeploymentId = DeploymentId([0xc; 16]);
const NODES: u16 = 4;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Answers questions, and stands still while it is told to.
struct Standing(Questions, watch::Receiver<bool>);

impl Service for Standing {
    fn call(&self, caller: &Caller, request: Incoming) -> BoxFuture<'static, Result<Reply, Refusal>> {
        let (questions, mut stands, caller) = (self.0.clone(), self.1.clone(), *caller);
        Box::pin(async move {
            let _ = stands.wait_for(|stands| !stands).await;
            match request.method {
                ASK => questions.answer(&caller, request).await,
                _ => Err(Refusal::new(3, "there is no such method")),
            }
        })
    }
}

/// A running node.
struct Node {
    questions: Questions,
    stands: watch::Sender<bool>,
    peers: Peers,
    endpoint: Endpoint,
}

async fn node(authority: &Authority, number: u16) -> Node {
    let key = NodeKey::generate().unwrap();
    let certificate = authority.sign(&key.request().unwrap(), number, DAY).unwrap();
    let identity = Identity::new(CLUSTER, &certificate, &key).unwrap();
    let trust = Trust::new(CLUSTER, [authority.certificate()]).unwrap();
    let credentials = Credentials::new(identity, trust).unwrap();
    let pools = (BufferPool::new(64 << 20), BufferPool::new(64 << 20));
    let transport = Transport::new(credentials, Limits::default(), 1..=1, pools.0, pools.1).unwrap();
    let (questions, (stands, is_standing)) = (Questions::default(), watch::channel(false));
    let service = Arc::new(Standing(questions.clone(), is_standing));
    let endpoint = Endpoint::bind(transport.clone(), "127.0.0.1:0", service).await.unwrap();
    Node { questions, stands, peers: Peers::new(transport), endpoint }
}

/// Nodes that know each other.
async fn nodes() -> Vec<Option<Node>> {
    let authority = Authority::create(CLUSTER, DAY).unwrap();
    let mut nodes = Vec::new();
    for number in 0..NODES {
        nodes.push(node(&authority, number).await);
    }
    for node in &nodes {
        for (number, other) in nodes.iter().enumerate() {
            if !std::ptr::eq(node, other) {
                node.peers.at(number as u16, &other.endpoint.address().to_string());
            }
        }
    }
    nodes.into_iter().map(Some).collect()
}

/// Repeats what it is asked, with its own number and that of the node that asks.
struct Repeats(u16);

impl Answers for Repeats {
    fn answer(&self, from: u16, question: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        let text = String::from_utf8_lossy(&question).into_owned();
        let answer = match text.strip_prefix("long ").map(|n| n.parse().unwrap()) {
            Some(len) => Ok(vec![self.0 as u8; len].into()),
            None if text == "no" => Err("not that".to_owned()),
            None => Ok(format!("{from} asks {}: {text}", self.0).into()),
        };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn questions_are_answered_by_running_nodes_and_nobody_waits_for_others() {
    let mut nodes = nodes().await;
    for (number, node) in nodes.iter().flatten().enumerate().filter(|(number, _)| *number != 3) {
        node.questions.register(Arc::new(Repeats(number as u16)));
    }
    let stands = nodes[2].as_ref().unwrap().stands.clone();
    let asker = &nodes[0].as_ref().unwrap().peers;
    let soon = |ms| Instant::now() + Duration::from_millis(ms);
    let all = asker.ask_all(|number| number != 2, Bytes::from_static(b"what"), soon(10_000)).await;
    assert_eq!(all.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(all[0].1, Ok(Bytes::from_static(b"0 asks 1: what")));
    assert_eq!(all[1].1, Err(NoAnswer::NotRunning));
    assert!(matches!(&all[2].1, Err(NoAnswer::Refused(why)) if why.contains("yet")), "{all:?}");
    // Short, long, as long as can be, and longer.
    for len in [0, 1, 48 << 10, (48 << 10) + 1, 1 << 20, 8 << 20] {
        let answer = asker.ask(1, format!("long {len}").into(), soon(10_000)).await.unwrap();
        assert!(answer.len() == len && answer.iter().all(|b| *b == 1), "{len}: {}", answer.len());
    }
    let longer = asker.ask(1, format!("long {}", (8 << 20) + 1).into(), soon(10_000)).await;
    assert!(matches!(&longer, Err(NoAnswer::Refused(why)) if why.contains("8388609 bytes")), "{longer:?}");
    let refused = asker.ask(1, Bytes::from_static(b"no"), soon(10_000)).await;
    assert_eq!(refused, Err(NoAnswer::Refused("not that".to_owned())));
    assert_eq!(asker.ask(9, Bytes::new(), soon(10_000)).await, Err(NoAnswer::NotRunning));
    // A node that stands still costs no more than the deadline, and delays no other answer.
    let _ = stands.send(true);
    let all = asker.ask_all(|number| number != 3, Bytes::from_static(b"what"), soon(3_000)).await;
    assert_eq!(all[0].1, Ok(Bytes::from_static(b"0 asks 1: what")));
    assert_eq!(all[1].1, Err(NoAnswer::Silent));
    let _ = stands.send(false);
    // One that is away is found out without waiting for the deadline.
    drop(nodes[1].take());
    let asker = &nodes[0].as_ref().unwrap().peers;
    while !asker.is_unreachable(1) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let away = asker.ask(1, Bytes::from_static(b"what"), Instant::now() + DAY);
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), away).await, Ok(Err(NoAnswer::Silent)));
}
