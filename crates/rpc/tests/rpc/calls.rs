//! Calls and their outcomes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_rpc::{Error, Peer, Refusal, Request, Unsent};
use bytes::Bytes;
use futures::future::join_all;

use crate::common::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_and_answer() {
    let Pair { peer, seen, endpoint: _endpoint, .. } = pair().await;
    let answer = peer.call(request(ECHO, b"hello"), soon()).await.unwrap();
    assert_eq!((&answer.head[..], answer.bulk.len()), (&b"hello"[..], 0));
    let who = Request { epoch: 77, ..request(WHO, b"") };
    let answer = peer.call(who, Instant::now() + Duration::from_secs(1000)).await.unwrap();
    let text = String::from_utf8(answer.head.to_vec()).unwrap();
    let left: u64 = text.strip_prefix("1 77 3 ").unwrap().parse().unwrap();
    assert!((900_000..=1_000_000).contains(&left), "{text}");
    let refused = peer.call(request(REFUSE, b""), soon()).await.unwrap_err();
    assert_eq!(refused, Error::Refused(Refusal::new(42, "not today")));
    assert!(!refused.is_not_executed());
    assert_eq!(peer.remote().unwrap().feature_level, 3);
    assert!(peer.is_connected() && peer.silent_for() == Duration::ZERO && peer.oldest().is_none());
    assert_eq!((peer.small_round_trips().calls, peer.bulk_round_trips().calls), (3, 0));
    assert_eq!(seen.begun.load(Ordering::SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_of_all_lengths_arrive_unchanged() {
    let Pair { peer, endpoint: _endpoint, .. } = pair().await;
    for len in [0, 1, 4096, 4097, 16 << 10, 64 << 10, (64 << 10) + 1, 1 << 20, (1 << 20) + 7, 8 << 20] {
        let sent = bulk(ECHO, len);
        let whole: Vec<u8> = sent.bulk.concat();
        let answer = peer.call(sent, soon()).await.unwrap();
        assert!(answer.bulk == whole, "{len}");
        if len > 64 << 10 {
            assert_eq!(answer.bulk.as_ptr() as usize % 4096, 0, "aligned");
        }
    }
    assert_eq!(peer.small_round_trips().calls, 6);
    assert_eq!(peer.bulk_round_trips().calls, 4);
    assert_eq!(peer.in_flight_bytes(), 0);
    for len in [(8 << 20) + 1, 1 << 30] {
        let long = Request { answer_limit: len, ..request(ECHO, b"") };
        assert!(matches!(peer.call(long, soon()).await, Err(Error::NotSent(Unsent::TooLong(_)))));
    }
    let head = Request { head: Bytes::from(vec![0; (256 << 10) + 1]), ..Request::default() };
    assert!(matches!(peer.call(head, soon()).await, Err(Error::NotSent(Unsent::TooLong(_)))));
    let head = Request { method: ECHO, head: Bytes::from(vec![5; 256 << 10]), ..Request::default() };
    assert_eq!(peer.call(head, soon()).await.unwrap().head.len(), 256 << 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_longer_than_asked_for_are_refused() {
    let Pair { peer, endpoint: _endpoint, .. } = pair().await;
    assert_eq!(peer.call(give(1000, 1000), soon()).await.unwrap().bulk.len(), 1000);
    for (len, limit) in [(1001, 1000), (1 << 20, 100_000), (9 << 20, 8 << 20)] {
        let refused = peer.call(give(len, limit), soon()).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(r) if r.code == Refusal::TOO_LONG), "{len}");
    }
    let shorter = peer.call(give(100_000, 1 << 20), soon()).await.unwrap();
    assert!(shorter.bulk.len() == 100_000 && shorter.bulk[0] == 9 && shorter.bulk[99_999] == 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once() {
    let Pair { peer, seen, endpoint: _endpoint, .. } = pair().await;
    let calls = (0..3000u32).map(|i| {
        let peer = peer.clone();
        async move {
            let mut call = if i % 10 == 0 { bulk(ECHO, 70_000) } else { request(ECHO, b"") };
            call.head = Bytes::from(i.to_le_bytes().to_vec());
            let answer = peer.call(call, soon()).await.unwrap();
            assert_eq!(answer.head, i.to_le_bytes()[..]);
        }
    });
    join_all(calls.map(tokio::spawn)).await.into_iter().for_each(|done| done.unwrap());
    assert_eq!(seen.begun.load(Ordering::SeqCst), 3000);
    assert_eq!(peer.in_flight_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panics_of_the_service_do_not_end_the_connection() {
    let Pair { peer, seen, endpoint: _endpoint, .. } = pair().await;
    for method in [PANIC, PANIC_LATER, PANIC] {
        let refused = peer.call(request(method, b""), soon()).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(r) if r.code == Refusal::INTERNAL));
    }
    peer.call(request(ECHO, b""), soon()).await.unwrap();
    assert_eq!(seen.callers.lock().unwrap().len(), 1, "one connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadline_passes_after_sending() {
    let Pair { peer, seen, endpoint: _endpoint, .. } = pair().await;
    peer.call(request(ECHO, b""), soon()).await.unwrap();
    let outcome = peer.call(request(NEVER, b""), Instant::now() + Duration::from_millis(50)).await;
    assert!(matches!(outcome, Err(Error::Unanswered(_))), "{outcome:?}");
    until("the call is cancelled", || seen.dropped.load(Ordering::SeqCst) == 1).await;
    let outcome = peer.call(bulk(NEVER, 1 << 20), Instant::now() + Duration::from_millis(50)).await;
    assert!(outcome.is_err());
    peer.call(request(ECHO, b""), soon()).await.unwrap();
    assert_eq!(peer.in_flight_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_call_cancels_it() {
    let Pair { peer, seen, endpoint: _endpoint, .. } = pair().await;
    let calls: Vec<_> = (0..50)
        .map(|i| {
            let peer = peer.clone();
            let call = if i % 5 == 0 { bulk(NEVER, 100_000) } else { request(NEVER, b"") };
            tokio::spawn(async move { peer.call(call, soon()).await })
        })
        .collect();
    until("all calls run", || seen.running.load(Ordering::SeqCst) == 50).await;
    assert!(peer.oldest().is_some() && peer.in_flight_bytes() > 0);
    for call in &calls {
        call.abort();
    }
    until("all calls are dropped", || seen.dropped.load(Ordering::SeqCst) == 50).await;
    until("no bytes are in flight", || peer.in_flight_bytes() == 0).await;
    assert!(peer.oldest().is_none());
    peer.call(bulk(ECHO, 1 << 20), soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_nodes_are_not_sent_to() {
    let authority = authority();
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let peer = Peer::new(transport(&authority, 1), 2, free.to_string());
    assert!(!peer.is_unreachable(), "nobody tried");
    for call in [request(ECHO, b""), bulk(ECHO, 1 << 20)] {
        let outcome = peer.call(call, soon()).await.unwrap_err();
        assert!(matches!(outcome, Error::NotSent(Unsent::Unreachable(_))) && outcome.is_not_executed());
    }
    assert!(!peer.is_connected() && peer.is_unreachable());
    // It accepts, but never says a word.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = Peer::new(transport(&authority, 1), 2, silent.local_addr().unwrap().to_string());
    let outcome = peer.call(request(ECHO, b""), Instant::now() + Duration::from_millis(50)).await;
    assert!(matches!(outcome, Err(Error::NotSent(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_leaves_calls_unanswered_and_is_made_again() {
    let Pair { peer, seen, endpoint, authority } = pair().await;
    let address = endpoint.address();
    let calls: Vec<_> = (0..20)
        .map(|i| {
            let peer = peer.clone();
            let call = if i % 4 == 0 { bulk(NEVER, 100_000) } else { request(NEVER, b"") };
            tokio::spawn(async move { peer.call(call, soon()).await })
        })
        .collect();
    until("all calls run", || seen.running.load(Ordering::SeqCst) == 20).await;
    let before = peer.remote().unwrap().incarnation;
    // As if the process were killed.
    drop(endpoint);
    for outcome in join_all(calls).await {
        let outcome = outcome.unwrap();
        assert!(matches!(outcome, Err(Error::Unanswered(_))), "{outcome:?}");
    }
    until("the calls ended with their connections", || seen.running.load(Ordering::SeqCst) == 0).await;
    assert!(seen.ended.lock().unwrap().iter().any(|(caller, remaining)| caller.node == 1 && *remaining == 0));
    // A new process at the same address.
    let other = Arc::new(Seen::default());
    let endpoint = loop {
        // Until the dropped one has let go of the address.
        let service = Arc::new(Methods(other.clone()));
        match ashlar_rpc::Endpoint::bind(transport(&authority, 2), &address.to_string(), service).await {
            Ok(endpoint) => break endpoint,
            Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    };
    let begin = std::time::Instant::now();
    while let Err(e) = peer.call(request(ECHO, b""), soon()).await {
        assert!(matches!(e, Error::NotSent(_)) && begin.elapsed() < LONG, "{e}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_ne!(peer.remote().unwrap().incarnation, before);
    assert!(!peer.is_unreachable());
    drop(endpoint);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_answers_what_was_begun() {
    let Pair { peer, seen, endpoint, .. } = pair().await;
    let calls: Vec<_> = (0..10)
        .map(|i| {
            let peer = peer.clone();
            let call = if i % 2 == 0 { bulk(WAIT, 100_000) } else { request(WAIT, b"x") };
            tokio::spawn(async move { peer.call(call, soon()).await })
        })
        .collect();
    until("all calls run", || seen.running.load(Ordering::SeqCst) == 10).await;
    let closing = tokio::spawn(endpoint.shutdown(LONG));
    until("the peer knows", || !peer.is_connected()).await;
    let refused = peer.call(request(ECHO, b""), soon()).await.unwrap_err();
    assert!(refused.is_not_executed(), "{refused:?}");
    seen.gate.add_permits(10);
    for outcome in join_all(calls).await {
        outcome.unwrap().unwrap();
    }
    closing.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_peer_ends_its_connections() {
    let Pair { peer, seen, endpoint, .. } = pair().await;
    peer.call(request(ECHO, b""), soon()).await.unwrap();
    peer.call(bulk(ECHO, 1 << 20), soon()).await.unwrap();
    until("both connections are known", || endpoint.connections() == 2).await;
    drop(peer);
    until("none is left", || endpoint.connections() == 0).await;
    let ended = seen.ended.lock().unwrap().clone();
    assert_eq!(ended.len(), 2);
    assert_eq!(ended.iter().map(|(_, remaining)| *remaining).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(ended[0].0.incarnation, ended[1].0.incarnation);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_runs_after_both_ends_are_dropped() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let Pair { peer, seen, endpoint, .. } = pair().await;
    let idle = tokio::net::TcpStream::connect(endpoint.address()).await.unwrap();
    let calls: Vec<_> = [request(NEVER, b""), bulk(NEVER, 1 << 20)]
        .into_iter()
        .map(|call| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call(call, soon()).await })
        })
        .collect();
    until("both run", || seen.running.load(Ordering::SeqCst) == 2).await;
    assert!(tasks() > before + 6);
    for call in calls {
        call.abort();
    }
    drop((peer, endpoint));
    until("no task is left", || tasks() == before).await;
    assert_eq!(seen.running.load(Ordering::SeqCst), 0);
    drop(idle);
}
