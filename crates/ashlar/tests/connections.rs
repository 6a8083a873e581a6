//! Connections of a server process: those that are idle, slow or at work when it is told to stop.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ashlar_client::GetOptions;
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
    server.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    server.signal("INT");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
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
