//! Connections of a server process: those that are idle, slow or at work when it is told to stop.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ashlar_client::{GetOptions, Method, Target};
use common::*;

#[test]
fn stopping_lets_what_is_in_flight_end() {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(root.path(), "d{1...4}").run();
    block_on(async {
        let client = server.client();
        client.create_bucket("b-1", false).await.unwrap();
        put(&client, "big", &noise(8_000_000, 1)).await;
        // An answer that is read slowly, and an idle connection.
        let mut object = client.get_object("b-1", "big", &GetOptions::default()).await.unwrap();
        let idle = TcpStream::connect(server.hello["addresses"][0].as_str().unwrap()).unwrap();
        let mut got = object.body.piece().await.unwrap().unwrap().len();
        server.signal("TERM");
        tokio::time::sleep(Duration::from_millis(500)).await;
        while let Some(piece) = object.body.piece().await.unwrap() {
            got += piece.len();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(got, 8_000_000);
        drop(idle);
        assert!(client.list_buckets().await.is_err(), "new requests find nobody");
    });
    let mut server = server;
    assert!(server.child.wait().unwrap().success());
    // A second signal ends at once.
    let mut server = Start::new(root.path(), "d{1...4}").run();
    let address = server.hello["addresses"][0].as_str().unwrap().to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"PUT /b-1/k HTTP/1.1\r\nhost: a\r\n").unwrap();
    // Until the server has read that, the connection is idle, and nothing holds up the stop.
    std::thread::sleep(Duration::from_millis(500));
    server.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    server.signal("INT");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}

/// A raw signed-out connection that has asked once and keeps its connection.
fn keep_alive(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET /minio/health/live HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut head = [0u8; 4096];
    let n = stream.read(&mut head).unwrap();
    assert!(head[..n].starts_with(b"HTTP/1.1 200"));
    stream
}

/// Connections that do nothing do not hold up a stop: one that was never used, and one between two
/// requests; both see an end, not a silence.
#[test]
fn idle_connections_do_not_delay_a_stop() {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(root.path(), "d{1...4}").run();
    let address = server.hello["addresses"][0].as_str().unwrap().to_owned();
    let used: Vec<TcpStream> = (0..3).map(|_| keep_alive(&address)).collect();
    let fresh = TcpStream::connect(&address).unwrap();
    // The pool of a real client, too.
    let client = server.client();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        client.create_bucket("b-1", false).await.unwrap();
        put(&client, "k", &noise(100_000, 1)).await;
    });
    let took = server.stop();
    assert!(took < Duration::from_secs(3), "{took:?}");
    for mut stream in used.into_iter().chain([fresh]) {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_)));
    }
}

/// A request that was begun before the signal is served to its end, beside an idle connection; its
/// connection then closes, and the server ends at once.
#[test]
fn an_upload_in_flight_ends_well() {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(root.path(), "d{1...4}").run();
    let address = server.hello["addresses"][0].as_str().unwrap().to_owned();
    let _idle = keep_alive(&address);
    let data = noise(6_000_000, 3);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut server = runtime.block_on(async {
        let client = server.client();
        client.create_bucket("b-1", false).await.unwrap();
        let url = client.presign(&Method::PUT, Target::Object("b-1", "k"), &[], 600).unwrap();
        let path = url.split_once(&address).unwrap().1.to_owned();
        let (data, address) = (data.clone(), address.clone());
        let (begun, is_begun) = tokio::sync::oneshot::channel();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let upload = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            write!(
                stream,
                "PUT {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n",
                data.len()
            )
            .unwrap();
            stream.write_all(&data[..3_000_000]).unwrap();
            begun.send(()).unwrap();
            may_go.recv().unwrap();
            stream.write_all(&data[3_000_000..]).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            String::from_utf8_lossy(&answer).into_owned()
        });
        is_begun.await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.signal("TERM");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut server = server;
        assert!(server.child.try_wait().unwrap().is_none(), "it waits for the upload");
        assert!(TcpStream::connect(server.hello["addresses"][0].as_str().unwrap()).is_err());
        go.send(()).unwrap();
        let answer = upload.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        server
    });
    let began = Instant::now();
    assert!(server.child.wait().unwrap().success());
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    drop(server);
    let server = Start::new(root.path(), "d{1...4}").run();
    block_on(async { assert!(get(&server.client(), "k").await == data) });
}

#[test]
fn slow_and_silent_clients_are_cut_off() {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(root.path(), "d1").run();
    let address = server.hello["addresses"][0].as_str().unwrap().to_owned();
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(25))).unwrap();
    let began = Instant::now();
    let mut buf = [0u8; 100];
    slow.write_all(b"GET / HT").unwrap();
    let trickle = std::thread::spawn({
        let mut slow = slow.try_clone().unwrap();
        move || {
            // One byte a second does not help.
            for _ in 0..20 {
                std::thread::sleep(Duration::from_secs(1));
                if slow.write_all(b"x").is_err() {
                    break;
                }
            }
        }
    });
    let closed = matches!(slow.read(&mut buf), Ok(0) | Err(_));
    let took = began.elapsed();
    assert!(closed && (Duration::from_secs(8)..Duration::from_secs(20)).contains(&took), "{took:?}");
    let _ = slow.shutdown(std::net::Shutdown::Both);
    trickle.join().unwrap();
}
