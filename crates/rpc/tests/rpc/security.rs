//! Who is let in, and who is not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_format::DeploymentId;
use ashlar_rpc::frame::{Header, Kind};
use ashlar_rpc::{Authority, Credentials, Error, Identity, Limits, NodeKey, Peer, Trust};
use rcgen::{CertificateParams, KeyPair, SanType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::common::*;

/// What a raw client gets that says hello and calls.
async fn tried(address: std::net::SocketAddr, with: Introduction) -> Vec<u8> {
    let Ok(mut raw) = Raw::dial(address, with).await else { return Vec::new() };
    let mut all = raw.greet(&hello(1, 2)).await;
    let call = message(Header { code: ECHO, id: 1, ..Header::new(Kind::Request, 1) }, b"x");
    let _ = raw.send(&call).await;
    all.extend(raw.some(45).await);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_other_clusters_and_other_nodes_are_refused() {
    let Pair { seen, endpoint, authority, .. } = pair().await;
    let address = endpoint.address().to_string();
    // Another node than the one that was dialled.
    let peer = Peer::new(transport(&authority, 1), 3, address.clone());
    let refused = peer.call(request(ECHO, b""), soon()).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Unauthorized(why) if why.contains("of node 2, not of node 3")),
        "{refused}"
    );
    // Another authority.
    let stranger = crate::common::authority();
    let peer = Peer::new(transport(&stranger, 1), 2, address.clone());
    assert!(matches!(peer.call(request(ECHO, b""), soon()).await, Err(Error::Unauthorized(_))));
    // The same authority's key, another cluster: restored under the name of that cluster it does not exist,
    // so that its certificates come from one that trusts both.
    let other = DeploymentId([9; 16]);
    let foreign = Authority::create(other, DAY).unwrap();
    let key = NodeKey::generate().unwrap();
    let certificate = foreign.sign(&key.request().unwrap(), 1, DAY).unwrap();
    let identity = Identity::new(other, &certificate, &key).unwrap();
    let both = Trust::new(other, [foreign.certificate(), authority.certificate()]).unwrap();
    let peer = Peer::new(with(Credentials::new(identity, both).unwrap(), limits()), 2, address);
    let refused = peer.call(request(ECHO, b""), soon()).await.unwrap_err();
    assert!(matches!(&refused, Error::Unauthorized(why) if why.contains("another cluster")), "{refused}");
    assert_eq!(seen.begun.load(Ordering::SeqCst), 0);
}

/// A server that trusts both authorities still refuses names of another cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trusted_authority_cannot_name_nodes_of_another_cluster() {
    let own = authority();
    let foreign = Authority::create(DeploymentId([9; 16]), DAY).unwrap();
    let trusted = Trust::new(CLUSTER, [own.certificate(), foreign.certificate()]).unwrap();
    let credentials = Credentials::new(identity(&own, 2), trusted).unwrap();
    let (endpoint, seen) = serve(with(credentials, limits())).await;
    assert_eq!(tried(endpoint.address(), Introduction::of(&foreign, 1)).await, b"");
    assert!(!tried(endpoint.address(), Introduction::of(&own, 1)).await.is_empty(), "the own is let in");
    assert_eq!(seen.begun.load(Ordering::SeqCst), 1);
}

/// A certificate that is not issued by [`Authority::sign`].
fn made(change: impl FnOnce(&mut CertificateParams)) -> Introduction {
    let key = NodeKey::generate().unwrap();
    let pair = KeyPair::try_from(&key.to_pkcs8()[..]).unwrap();
    let mut params = CertificateParams::default();
    let name = format!("ashlar://{}/node/1", CLUSTER.to_hex());
    params.subject_alt_names = vec![SanType::URI(name.try_into().unwrap())];
    change(&mut params);
    let certificate = params.self_signed(&pair).unwrap().der().to_vec();
    let of = Introduction::of(&authority(), 1);
    Introduction { certificate: Some((certificate, key)), ..of }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_without_a_valid_certificate_get_nothing() {
    let Pair { endpoint, authority, seen, .. } = pair().await;
    let to = endpoint.address();
    let own = || Introduction::of(&authority, 1);
    let expired = {
        let key = NodeKey::generate().unwrap();
        let certificate = authority.sign(&key.request().unwrap(), 1, Duration::ZERO).unwrap();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        Introduction { certificate: Some((certificate, key)), ..own() }
    };
    let cases = [
        ("no certificate", Introduction { certificate: None, ..own() }),
        ("self-signed", made(|_| ())),
        (
            "an authority of its own",
            made(|p| {
                p.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            }),
        ),
        ("expired", expired),
        ("TLS 1.2", Introduction { version: &rustls::version::TLS12, ..own() }),
        ("another protocol", Introduction { protocol: b"h2", ..own() }),
    ];
    for (what, with) in cases {
        assert_eq!(tried(to, with).await, b"", "{what}");
    }
    assert_eq!(seen.begun.load(Ordering::SeqCst), 0);
    assert!(!tried(to, own()).await.is_empty());
    assert_eq!(seen.begun.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_a_node_is_that_of_its_certificate() {
    let Pair { endpoint, authority, seen, .. } = pair().await;
    for (said, why) in [(hello(3, 2), "hello of node 3"), (hello(1, 4), "expects node 4")] {
        let mut raw = Raw::dial(endpoint.address(), Introduction::of(&authority, 1)).await.unwrap();
        let mut answer = raw.greet(&said).await;
        answer.extend(raw.rest().await);
        let header = Header::decode(answer.first_chunk().unwrap(), None).unwrap();
        assert_eq!((header.kind, header.code), (Kind::Goodbye, 3));
        assert!(String::from_utf8_lossy(&answer).contains(why));
    }
    assert_eq!(seen.begun.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_versions_are_refused_by_name() {
    let authority = authority();
    let (endpoint, seen) = serve(transport(&authority, 2)).await;
    let newer = transport(&authority, 1).with_versions(2, 3).unwrap();
    let peer = Peer::new(newer, 2, endpoint.address().to_string());
    let refused = peer.call(request(ECHO, b""), soon()).await.unwrap_err();
    let expected = "node 2 speaks versions 1 to 1 of the protocol between nodes, node 1 versions 2 to 3";
    assert!(matches!(&refused, Error::Incompatible(why) if why.contains(expected)), "{refused}");
    // A newer one that still speaks ours.
    let both = transport(&authority, 1).with_versions(1, 3).unwrap();
    let peer = Peer::new(both, 2, endpoint.address().to_string());
    peer.call(request(ECHO, b""), soon()).await.unwrap();
    assert_eq!(seen.begun.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_without_a_common_feature_level_are_refused_by_name() {
    let authority = authority();
    // It can do 2 to 3.
    let (endpoint, seen) = serve(transport(&authority, 2)).await;
    let with = |levels| {
        Peer::new(transport(&authority, 1).with_levels(levels).unwrap(), 2, endpoint.address().to_string())
    };
    let refused = with(4..=5).call(request(ECHO, b""), soon()).await.unwrap_err();
    let expected = "node 2 can do feature levels 2 to 3, node 1 levels 4 to 5";
    assert!(matches!(&refused, Error::Incompatible(why) if why.contains(expected)), "{refused}");
    let older = with(1..=2);
    older.call(request(ECHO, b""), soon()).await.unwrap();
    assert_eq!(older.remote().map(|remote| remote.feature_level), Some(3));
    assert_eq!(seen.begun.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_connections_cannot_be_replayed() {
    let Pair { endpoint, authority, seen, .. } = pair().await;
    let (other, other_seen) = serve(transport(&authority, 2)).await;
    let proxy = Proxy::new(endpoint.address()).await;
    let peer = Peer::new(transport(&authority, 1), 2, proxy.address.to_string());
    peer.call(request(ECHO, b"once"), soon()).await.unwrap();
    peer.call(bulk(ECHO, 100_000), soon()).await.unwrap();
    drop(peer);
    let recorded = proxy.recorded.lock().unwrap().clone();
    assert!(recorded.len() == 2 && recorded.iter().all(|r| r.len() > 1000));
    for to in [endpoint.address(), other.address()] {
        for bytes in &recorded {
            let mut tcp = TcpStream::connect(to).await.unwrap();
            let _ = tcp.write_all(bytes).await;
            let mut answer = Vec::new();
            // Reset or closed; what came is the server's half of a handshake that cannot be finished.
            let _ = tokio::time::timeout(LONG, tcp.read_to_end(&mut answer)).await.unwrap();
        }
    }
    assert_eq!(seen.begun.load(Ordering::SeqCst), 2);
    assert_eq!(other_seen.begun.load(Ordering::SeqCst), 0);
    assert_eq!(other.connections(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_protocols_are_closed_without_an_answer() {
    let Pair { endpoint, .. } = pair().await;
    let garbage: Vec<u8> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let plain = message(Header::new(Kind::Hello, 0), &hello(1, 2).encode());
    let http = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    for bytes in [http, garbage, plain, vec![0; 100_000]] {
        let mut tcp = TcpStream::connect(endpoint.address()).await.unwrap();
        let _ = tcp.write_all(&bytes).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(LONG, tcp.read_to_end(&mut answer)).await.expect("closed");
        assert_eq!(answer, b"");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_idle_connections_are_closed_and_bounded() {
    let server = Limits { handshake: Duration::from_millis(1500), unauthenticated: 20, ..limits() };
    let Pair { endpoint, peer, .. } = pair_with(limits(), server).await;
    let mut idle = Vec::new();
    let mut most = 0;
    for _ in 0..1000 {
        idle.push(TcpStream::connect(endpoint.address()).await.unwrap());
        most = most.max(endpoint.unauthenticated());
    }
    assert!(most <= 20, "{most}");
    // A node gets in all the same.
    peer.call(request(ECHO, b""), soon()).await.unwrap();
    until("all idle ones are closed", || endpoint.unauthenticated() == 0).await;
    let mut slow = idle.pop().unwrap();
    let mut byte = [0];
    let read = tokio::time::timeout(LONG, slow.read(&mut byte)).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)));
    // One that authenticates, and then does not say hello.
    let Pair { endpoint, authority, .. } =
        pair_with(limits(), Limits { handshake: Duration::from_millis(300), ..limits() }).await;
    let mut raw = Raw::dial(endpoint.address(), Introduction::of(&authority, 1)).await.unwrap();
    assert_eq!(raw.rest().await, b"");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_permitted_ends_the_connection() {
    let server = Limits { bulk_window: 8 << 20, requests: 2, ..limits() };
    let Pair { endpoint, authority, seen, .. } = pair_with(limits(), server).await;
    let call = |id| Header { code: NEVER, id, ..Header::new(Kind::Request, 1) };
    let big = Header { bulk_len: 8 << 20, ..call(2) };
    let mut wrong_crc = message(call(1), b"x");
    wrong_crc[44] = b'y';
    let said = message(Header::new(Kind::Hello, 0), &hello(1, 2).encode());
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("an id twice", [message(call(1), b""), message(call(1), b"")].concat()),
        ("three requests", (1..4).flat_map(|id| message(call(id), b"")).collect()),
        (
            "bytes above the window",
            [message(Header { bulk_len: 5000, ..call(1) }, b""), vec![0; 5000], message(big, b"")].concat(),
        ),
        ("answers above the window", {
            let want = |id| message(Header { amount: 5 << 20, ..call(id) }, b"");
            [want(1), want(2)].concat()
        }),
        ("a second hello", said.clone()),
        ("an answer", message(Header { id: 1, ..Header::new(Kind::Answer, 1) }, b"")),
        ("credit", message(Header { amount: 1, ..Header::new(Kind::Credit, 1) }, b"")),
        ("another version", message(Header { version: 2, ..call(1) }, b"")),
        ("a wrong checksum", wrong_crc),
        ("garbage", vec![3; 44]),
    ];
    for (what, bytes) in cases {
        let mut raw = Raw::dial(endpoint.address(), Introduction::of(&authority, 1)).await.unwrap();
        let answer = raw.greet(&hello(1, 2)).await;
        let header = Header::decode(answer.first_chunk().unwrap(), None).unwrap();
        assert!(header.kind == Kind::Hello, "{what}");
        let _ = raw.send(&bytes).await;
        // At most credit for what was given back.
        let after = raw.rest().await;
        assert!(after.chunks(44).all(|m| m.len() == 44 && m[5] == Kind::Credit as u8), "{what}");
    }
    // Requests behind the hello that do not wait for the server's.
    let mut raw = Raw::dial(endpoint.address(), Introduction::of(&authority, 1)).await.unwrap();
    let hello_len = said.len();
    let _ = raw.send(&[said, message(call(1), b"")].concat()).await;
    assert!(raw.rest().await.len() <= hello_len);
    until("their calls ended", || seen.running.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withdrawn_certificates_end_connections() {
    let authority = authority();
    let server = credentials(&authority, 2);
    let (endpoint, seen) = serve(with(server.clone(), limits())).await;
    let client = credentials(&authority, 1);
    let peer = Arc::new(Peer::new(with(client.clone(), limits()), 2, endpoint.address().to_string()));
    peer.call(request(ECHO, b""), soon()).await.unwrap();
    let waiting = {
        let peer = peer.clone();
        tokio::spawn(async move { peer.call(request(NEVER, b""), soon()).await })
    };
    until("the call runs", || seen.running.load(Ordering::SeqCst) == 1).await;
    // Every certificate of node 1 from before tomorrow.
    let tomorrow = client.identity().validity().0 + 2 * 86_400;
    server.replace(server.identity(), trust(&[&authority]).without_before(1, tomorrow)).unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(Error::Unanswered(_))));
    until("calls are refused", || endpoint.connections() == 0).await;
    let outcome = peer.call(request(ECHO, b""), soon()).await;
    assert!(outcome.as_ref().is_err_and(Error::is_not_executed), "{outcome:?}");
    server.replace(server.identity(), trust(&[&authority])).unwrap();
    until_called(&peer).await;
    // Node 1 was removed from the cluster: no certificate is accepted, old or new.
    server.replace(server.identity(), trust(&[&authority]).without_node(1)).unwrap();
    until("its connections ended", || endpoint.connections() == 0).await;
    for _ in 0..2 {
        let outcome = peer.call(request(ECHO, b""), soon()).await;
        assert!(outcome.as_ref().is_err_and(Error::is_not_executed), "{outcome:?}");
        client.replace(credentials(&authority, 1).identity(), trust(&[&authority])).unwrap();
    }
    assert_eq!(endpoint.connections(), 0);
}

/// Calls until a call succeeds: until then every one certainly was not executed.
async fn until_called(peer: &Peer) {
    let begin = std::time::Instant::now();
    while let Err(e) = peer.call(request(ECHO, b""), soon()).await {
        assert!(e.is_not_executed() && begin.elapsed() < LONG, "{e}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_authorities_are_replaced_while_calls_run() {
    let (old, new) = (authority(), authority());
    let (server, client) = (credentials(&old, 2), credentials(&old, 1));
    let (endpoint, seen) = serve(with(server.clone(), limits())).await;
    let peer = Arc::new(Peer::new(with(client.clone(), limits()), 2, endpoint.address().to_string()));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let calls: Vec<_> = (0..8)
        .map(|i| {
            let (peer, stop) = (peer.clone(), stop.clone());
            tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::SeqCst) {
                    let call = if i % 2 == 0 { bulk(ECHO, 100_000) } else { request(ECHO, b"x") };
                    peer.call(call, soon()).await.unwrap();
                    count += 1;
                }
                count
            })
        })
        .collect();
    until("calls run", || seen.begun.load(Ordering::SeqCst) > 50).await;
    let connections = || seen.callers.lock().unwrap().len();
    // Both trust both; then both get certificates of the new one; then nobody trusts the old one.
    for credentials in [&server, &client] {
        credentials.replace(credentials.identity(), trust(&[&old, &new])).unwrap();
    }
    let before = connections();
    client.replace(identity(&new, 1), trust(&[&old, &new])).unwrap();
    until("the client's connections are replaced", || connections() >= before + 2).await;
    let before = connections();
    server.replace(identity(&new, 2), trust(&[&old, &new])).unwrap();
    // The client keeps its connections to the old certificate until they are no longer trusted.
    client.replace(identity(&new, 1), trust(&[&old, &new])).unwrap();
    until("they are replaced again", || connections() >= before + 2).await;
    for credentials in [&server, &client] {
        credentials.replace(credentials.identity(), trust(&[&new])).unwrap();
    }
    let before = seen.begun.load(Ordering::SeqCst);
    until("calls go on", || seen.begun.load(Ordering::SeqCst) > before + 50).await;
    stop.store(true, Ordering::SeqCst);
    for call in calls {
        assert!(call.await.unwrap() > 0);
    }
    // A node with a certificate of the old one is out.
    let stale = Peer::new(transport(&old, 3), 2, endpoint.address().to_string());
    assert!(stale.call(request(ECHO, b""), soon()).await.is_err_and(|e| e.is_not_executed()));
}
