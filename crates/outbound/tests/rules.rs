//! What outbound requests must not do, over real sockets on this machine.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ashlar_outbound::{Class, Error, Outbound, Resolve, Rules};
use bytes::Bytes;
use futures::future::BoxFuture;

/// Answers every request with `answer`; counts the connections.
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
async fn asks_and_keeps_its_connection() {
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
async fn addresses_that_are_not_allowed_are_not_connected_to() {
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

/// Says something else each time it is asked.
struct Rebinding(AtomicUsize, SocketAddr);

impl Resolve for Rebinding {
    fn resolve<'a>(&'a self, _: &'a str, port: u16) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
        let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        let answer = if first { self.1 } else { SocketAddr::from(([169, 254, 169, 254], port)) };
        Box::pin(async move { Ok(vec![answer]) })
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    let (at, count) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let names = Arc::new(Rebinding(AtomicUsize::new(0), at));
    let out = Outbound::resolving(local(), names.clone()).unwrap();
    let url = format!("http://receiver.example:{}/", at.port());
    // Asked once: what was checked is what is connected to.
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
async fn answers_end_in_size_and_time() {
    let (at, _) = server("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabcdef");
    let out = Outbound::new(Rules { max_body: 5, ..local() }).unwrap();
    let error = out.get(&format!("http://{at}/"), &[]).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 5, .. }), "{error}");

    let (at, _) = server("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabc");
    let out = Outbound::new(Rules { timeout: Duration::from_millis(200), ..local() }).unwrap();
    let error = out.get(&format!("http://{at}/"), &[]).await.unwrap_err();
    assert!(matches!(error, Error::TooSlow { .. }), "{error}");
}
