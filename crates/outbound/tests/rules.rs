//! Restrictions of outbound requests, tested over real sockets on this machine.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ashlar_outbound::{Class, Error, Outbound, Resolve, Rules};
use bytes::Bytes;
use futures::future::BoxFuture;

/// Sends `answer` to every request; counts the connections.
fn server(answer: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            seen.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let mut buffer = [0u8; 4096];
                while let Ok(n) = stream.read(&mut buffer) {
                    if n == 0 || stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, count)
}

fn local() -> Rules {
    Rules { allow_loopback: true, timeout: Duration::from_secs(5), ..Rules::default() }
}

#[tokio::test]
async fn connection_is_reused() {
    let (at, count) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-a: b\r\n\r\nok");
    let out = Outbound::new(local()).unwrap();
    for _ in 0..3 {
        let answer = out.post(&format!("http://{at}/x?y=z"), &[], Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"ok"[..]));
        assert_eq!(answer.headers["x-a"], "b");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (target, asked) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let text = format!("HTTP/1.1 302 Found\r\nlocation: http://{target}/\r\ncontent-length: 0\r\n\r\n");
    let (at, _) = server(Box::leak(text.into_boxed_str()));
    let answer = Outbound::new(local()).unwrap().get(&format!("http://{at}/"), &[]).await.unwrap();
    assert_eq!(answer.status.as_u16(), 302);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn disallowed_addresses_are_not_connected_to() {
    let (at, count) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let out = Outbound::new(Rules::default()).unwrap();
    let port = at.port();
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1.2.3", "[::127.0.0.1]"] {
        let error = out.get(&format!("http://{host}:{port}/"), &[]).await.unwrap_err();
        assert!(matches!(error, Error::Forbidden { class: Class::Loopback, .. }), "{host}: {error}");
    }
    for (host, class) in [
        ("169.254.169.254", Class::Metadata),
        ("[fd00:ec2::254]", Class::Metadata),
        ("[64:ff9b::a9fe:a9fe]", Class::Metadata),
        ("169.254.1.1", Class::LinkLocal),
        ("0.0.0.0", Class::Unusable),
    ] {
        let error = out.get(&format!("http://{host}:{port}/"), &[]).await.unwrap_err();
        assert!(matches!(&error, Error::Forbidden { class: c, .. } if *c == class), "{host}: {error}");
    }
    let strict = Outbound::new(Rules { allow_private: false, ..Rules::default() }).unwrap();
    let error = strict.get("http://10.0.0.1/", &[]).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { class: Class::Private, .. }), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

/// A resolver that returns another address each time.
struct Rebinding(AtomicUsize, SocketAddr);

impl Resolve for Rebinding {
    fn resolve<'a>(&'a self, _: &'a str, port: u16) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
        let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        let answer = if first { self.1 } else { SocketAddr::from(([169, 254, 169, 254], port)) };
        Box::pin(async move { Ok(vec![answer]) })
    }
}

#[tokio::test]
async fn dns_rebinding_has_no_effect() {
    let (at, count) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let names = Arc::new(Rebinding(AtomicUsize::new(0), at));
    let out = Outbound::resolving(local(), names.clone()).unwrap();
    let url = format!("http://receiver.example:{}/", at.port());
    // The name is resolved once, and the checked address is connected to.
    assert_eq!(out.get(&url, &[]).await.unwrap().status.as_u16(), 200);
    assert_eq!((names.0.load(Ordering::SeqCst), count.load(Ordering::SeqCst)), (1, 1));
    // The next connection is checked again.
    let error = loop {
        match out.get(&url, &[]).await {
            Err(error) if !matches!(error, Error::Unreachable(_)) => break error,
            _ => {}
        }
    };
    assert!(matches!(error, Error::Forbidden { class: Class::Metadata, .. }), "{error}");
}

#[tokio::test]
async fn answers_are_limited_in_size_and_time() {
    let (at, _) = server("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabcdef");
    let out = Outbound::new(Rules { max_body: 5, ..local() }).unwrap();
    let error = out.get(&format!("http://{at}/"), &[]).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 5, .. }), "{error}");

    let (at, _) = server("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabc");
    let out = Outbound::new(Rules { timeout: Duration::from_millis(200), ..local() }).unwrap();
    let error = out.get(&format!("http://{at}/"), &[]).await.unwrap_err();
    assert!(matches!(error, Error::TooSlow { .. }), "{error}");
}

/// The pieces of an answer arrive as they are sent, however long that takes; the client ends it by dropping
/// it.
#[tokio::test]
async fn streams_arrive_piece_by_piece() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (go_on, told) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0u8; 4096];
        assert!(stream.read(&mut buffer).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\none\n\r\n").unwrap();
        told.recv().unwrap();
        stream.write_all(b"4\r\ntwo\n\r\n").unwrap();
        // The end of the connection.
        stream.read(&mut buffer).unwrap()
    });
    let out = Outbound::new(Rules { timeout: Duration::from_secs(1), ..local() }).unwrap();
    let mut stream = out.stream(&format!("http://{at}/"), &[], Bytes::from_static(b"{}")).await.unwrap();
    assert_eq!(stream.status.as_u16(), 200);
    assert_eq!(stream.piece().await.unwrap().as_deref(), Some(&b"one\n"[..]));
    // Longer than a whole request may take.
    assert!(tokio::time::timeout(Duration::from_millis(1500), stream.piece()).await.is_err());
    go_on.send(()).unwrap();
    assert_eq!(stream.piece().await.unwrap().as_deref(), Some(&b"two\n"[..]));
    drop(stream);
    assert_eq!(tokio::task::spawn_blocking(|| server.join().unwrap()).await.unwrap(), 0);
    // Before the head the limit of time holds, and the rules hold as for every request.
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failed = out.stream(&format!("http://{dead}/"), &[], Bytes::new()).await;
    assert!(matches!(failed.err(), Some(Error::Unreachable(_))));
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let failed = out.stream(&format!("http://{}/", hung.local_addr().unwrap()), &[], Bytes::new()).await;
    assert!(matches!(failed.err(), Some(Error::TooSlow { .. })));
    let strict = Outbound::new(Rules::default()).unwrap();
    let failed = strict.stream(&format!("http://{at}/"), &[], Bytes::new()).await;
    assert!(matches!(failed.err(), Some(Error::Forbidden { .. })));
}
