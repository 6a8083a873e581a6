//! What is bounded, and what does not wait for what.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_rpc::{Error, Limits, Peer, Unsent};
use futures::future::join_all;

use crate::common::*;

const MIB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_calls_do_not_wait_behind_large_ones() {
    let Pair { peer, seen, endpoint: _endpoint, .. } = pair().await;
    // More than all windows take.
    let large: Vec<_> = (0..300)
        .map(|_| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call(bulk(KEEP, MIB), soon()).await })
        })
        .collect();
    until("a window is full", || seen.held.load(Ordering::SeqCst) >= 32 * MIB).await;
    for _ in 0..100 {
        peer.call(request(ECHO, b"small"), soon()).await.unwrap();
    }
    assert!(large.iter().all(|call| !call.is_finished()));
    assert!(seen.held.load(Ordering::SeqCst) <= 64 * MIB);
    seen.gate.add_permits(300);
    for call in join_all(large).await {
        call.unwrap().unwrap();
    }
    assert_eq!(peer.in_flight_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credit_bounds_the_memory_of_the_receiver() {
    let one = Limits { bulk_window: 8 << 20, bulk_connections: 1, ..limits() };
    let Pair { peer, seen, endpoint: _endpoint, .. } = pair_with(one.clone(), one).await;
    let calls: Vec<_> = (0..60)
        .map(|i| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call(bulk(KEEP, MIB + i * 1000), soon()).await })
        })
        .collect();
    until("the window is full", || seen.held.load(Ordering::SeqCst) > 7 * MIB).await;
    assert!(peer.in_flight_bytes() > 60 * MIB);
    let late = peer.call(bulk(KEEP, MIB), Instant::now() + Duration::from_millis(50)).await;
    assert_eq!(late, Err(Error::NotSent(Unsent::NoCredit)));
    seen.gate.add_permits(1000);
    for call in join_all(calls).await {
        call.unwrap().unwrap();
    }
    assert!(seen.most_held.load(Ordering::SeqCst) <= 8 * MIB);
    peer.call(bulk(KEEP, 8 * MIB), soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_are_bounded() {
    let Pair { peer, seen, endpoint: _endpoint, .. } =
        pair_with(limits(), Limits { requests: 5, ..limits() }).await;
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call(request(WAIT, b""), soon()).await })
        })
        .collect();
    until("five run", || seen.running.load(Ordering::SeqCst) == 5).await;
    let late = peer.call(request(ECHO, b""), Instant::now() + Duration::from_millis(30)).await;
    assert_eq!(late, Err(Error::NotSent(Unsent::NoCredit)));
    assert_eq!(seen.begun.load(Ordering::SeqCst), 5);
    seen.gate.add_permits(40);
    for call in join_all(calls).await {
        call.unwrap().unwrap();
    }
}

/// A client that sends requests without end, and takes no answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_takes_stop_the_reading() {
    use ashlar_rpc::frame::{Header, Kind};
    const CALLS: u64 = 50_000;
    let Pair { endpoint, authority, seen, .. } = pair().await;
    let mut raw = Raw::dial(endpoint.address(), Introduction::of(&authority, 1)).await.unwrap();
    assert_eq!(raw.greet(&hello(1, 2)).await.len(), 92);
    let ask = |id| {
        let header = Header { code: GIVE, id, amount: 4096, ..Header::new(Kind::Request, 1) };
        message(header, &4096u32.to_le_bytes())
    };
    let sending = tokio::spawn(async move {
        for first in (1..=CALLS).step_by(100) {
            let some: Vec<u8> = (first..first + 100).flat_map(ask).collect();
            if raw.send(&some).await.is_err() {
                break;
            }
        }
        raw
    });
    // 200 MiB of answers are in no buffer of the system.
    let mut before = 0;
    let mut still = 0;
    while still < 100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let now = seen.begun.load(Ordering::SeqCst);
        still = if now == before && now > 0 { still + 1 } else { 0 };
        before = now;
    }
    assert!(before < CALLS as usize / 2, "{before}");
    sending.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_one_node_are_bounded() {
    let server = Limits { connections_per_peer: 3, ..limits() };
    let Pair { endpoint, authority, .. } = pair_with(limits(), server).await;
    let mut peers = Vec::new();
    for _ in 0..6 {
        let peer = Peer::new(transport(&authority, 1), 2, endpoint.address().to_string());
        peer.call(request(ECHO, b""), soon()).await.unwrap();
        peers.push(peer);
        until("the oldest gave way", || endpoint.connections() <= 3).await;
        peers.iter().rev().skip(2).for_each(|old| old.set_address("127.0.0.1:1"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_seen_and_ends_the_connection() {
    let authority = authority();
    let (endpoint, seen) = serve(transport(&authority, 2)).await;
    let proxy = Proxy::new(endpoint.address()).await;
    let quick = Limits { ping: Duration::from_millis(40), silence: Duration::from_millis(400), ..limits() };
    let client = with(credentials(&authority, 1), quick);
    let peer = Arc::new(Peer::new(client, 2, proxy.address.to_string()));
    peer.call(request(ECHO, b""), soon()).await.unwrap();
    let calls: Vec<_> = [request(NEVER, b""), bulk(NEVER, 100_000)]
        .into_iter()
        .map(|call| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call(call, soon()).await })
        })
        .collect();
    until("both run", || seen.running.load(Ordering::SeqCst) == 2).await;
    // A long call is not silence: pings are answered.
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert!(calls.iter().all(|call| !call.is_finished()) && peer.is_connected());
    proxy.frozen.store(true, Ordering::SeqCst);
    until("silence is seen", || peer.silent_for() > Duration::from_millis(100)).await;
    for call in join_all(calls).await {
        let outcome = call.unwrap();
        assert!(matches!(&outcome, Err(Error::Unanswered(why)) if why.contains("silent")), "{outcome:?}");
    }
    proxy.frozen.store(false, Ordering::SeqCst);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_in_the_middle_of_a_message() {
    let authority = authority();
    let (endpoint, seen) = serve(transport(&authority, 2)).await;
    let proxy = Proxy::new(endpoint.address()).await;
    let peer = Arc::new(Peer::new(transport(&authority, 1), 2, proxy.address.to_string()));
    for round in 0..20u64 {
        let calls: Vec<_> = (0..10)
            .map(|_| {
                let peer = peer.clone();
                tokio::spawn(async move { peer.call(bulk(ECHO, MIB), soon()).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(round)).await;
        proxy.cut();
        for call in join_all(calls).await {
            match call.unwrap() {
                Ok(answer) => assert_eq!(answer.bulk.len(), MIB),
                Err(e) => {
                    assert!(matches!(e, Error::Unanswered(_) | Error::NotSent(Unsent::Unreachable(_))), "{e}")
                }
            }
        }
        assert_eq!(peer.in_flight_bytes(), 0);
    }
    until("nothing runs", || seen.running.load(Ordering::SeqCst) == 0).await;
}
