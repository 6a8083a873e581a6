//! Bad input: a clear error, nothing changed, bounded memory, and the server goes on.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

#[path = "wire/common/mod.rs"]
mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use common::*;

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn bodies_of_the_wrong_length() {
    let s = server();
    // Shorter than announced, and the client hangs up or waits half-closed.
    for half in [true, false] {
        let (head, _) = s.req("PUT", "/b-1/k").body(noise(100_000, 1)).wire();
        let mut stream = TcpStream::connect(s.addr).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        stream.write_all(&noise(50_000, 1)).unwrap();
        if half {
            stream.shutdown(Shutdown::Write).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            let text = String::from_utf8_lossy(&answer);
            assert!(answer.is_empty() || text.contains("IncompleteBody"), "{text}");
        }
        drop(stream);
    }
    // No length at all.
    let (head, _) = s.req("PUT", "/b-1/k").mode(Mode::Unsigned).wire();
    let head = head.replace("content-length: 0\r\n", "");
    raw(s.addr, format!("{head}connection: close\r\n\r\n").as_bytes()).refused(411, "MissingContentLength");
    raw(s.addr, format!("{head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n").as_bytes())
        .refused(411, "MissingContentLength");
    let (head, _) = s.req("PUT", "/b-1/k").mode(Mode::Unsigned).header("content-length", "6000000000").wire();
    raw(s.addr, format!("{head}connection: close\r\n\r\n").as_bytes()).refused(400, "EntityTooLarge");
    s.get("/b-1/k").refused(404, "NoSuchKey");
}

#[test]
fn a_transfer_encoding_with_announced_length_works() {
    let s = server();
    let data = noise(70_000, 4);
    let request = s
        .req("PUT", "/b-1/k")
        .body(&data)
        .mode(Mode::UnsignedTrailer)
        .trailer("x-amz-checksum-crc32c", checksum("CRC32C", &data))
        .unsigned("transfer-encoding", "chunked");
    let (head, body) = request.wire();
    let mut wire = format!("{head}\r\n").into_bytes();
    for piece in body.chunks(10_000) {
        wire.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        wire.extend_from_slice(piece);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    // Twice on one connection: it stays open, because the scanner saw that there was no length.
    let mut stream = TcpStream::connect(s.addr).unwrap();
    for _ in 0..2 {
        stream.write_all(&wire).unwrap();
        let r = read_response(&mut stream, false);
        assert_eq!((r.status, r.header("connection")), (200, None), "{}", r.text());
    }
    assert_eq!(s.get("/b-1/k").body, data);
}

#[test]
fn garbage_is_answered_or_dropped() {
    let s = server();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(s.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(bytes).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.1 5"),
            "{text}"
        );
    }
    s.req("GET", "/").send().expect(200);
}

#[test]
fn an_early_answer_reaches_a_client_that_is_still_sending() {
    let s = server();
    let data = noise(900_000, 2);
    // Refused before the body is read: the answer must not be lost in a reset.
    for _ in 0..5 {
        s.req("PUT", "/nobucket/k").body(&data).send().refused(404, "NoSuchBucket");
        s.req("PUT", "/b-1/k")
            .body(&data)
            .set(|r| r.secret = "0".repeat(40))
            .send()
            .refused(403, "SignatureDoesNotMatch");
    }
    // A client that asks first never sends the body.
    let (head, _) = s.req("PUT", "/nobucket/k").body(&data).header("expect", "100-continue").wire();
    let mut stream = TcpStream::connect(s.addr).unwrap();
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let began = Instant::now();
    let r = read_response(&mut stream, false);
    assert_eq!((r.status, r.header("connection")), (404, Some("close")));
    assert!(began.elapsed() < Duration::from_secs(1));
    // One that may go on is told so.
    let (head, body) = s.req("PUT", "/b-1/k").body(&data).header("expect", "100-continue").wire();
    let mut stream = TcpStream::connect(s.addr).unwrap();
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let mut interim = [0u8; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(&body).unwrap();
    assert_eq!(read_response(&mut stream, false).status, 200);
}

#[test]
fn memory_does_not_follow_what_clients_announce() {
    let s = server();
    s.put("/b-1/warm", &noise(100_000, 1)).expect(200);
    let before = resident();
    // Many uploads that announce gigabytes and send little.
    let mut open = Vec::new();
    for i in 0..64 {
        let (head, _) = s
            .req("PUT", &format!("/b-1/big{i}"))
            .mode(Mode::Unsigned)
            .header("content-length", "5000000000")
            .wire();
        let mut stream = TcpStream::connect(s.addr).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        stream.write_all(&[0; 1000]).unwrap();
        open.push(stream);
    }
    // Documents that announce more than they may hold.
    for _ in 0..20 {
        let (head, _) = s
            .req("POST", "/b-1")
            .q("delete", "")
            .mode(Mode::Unsigned)
            .header("content-md5", "x")
            .header("content-length", "4000000000")
            .wire();
        let mut stream = TcpStream::connect(s.addr).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        open.push(stream);
    }
    std::thread::sleep(Duration::from_millis(300));
    let grown = resident().saturating_sub(before);
    assert!(grown < 256 << 20, "{grown} bytes");
    drop(open);
    s.req("GET", "/b-1/warm").send().expect(200);
    s.get("/b-1/big0").refused(404, "NoSuchKey");
}

#[test]
fn fuzzed_requests_never_hurt() {
    let s = server();
    s.put("/b-1/k", b"x").expect(200);
    let seed: u64 = 0x5eed_0007;
    let mut x = seed;
    let mut next = move |n: usize| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 11) as usize % n
    };
    let requests = [
        s.req("PUT", "/b-1/f")
            .body(noise(500, 1))
            .mode(Mode::SignedTrailer)
            .trailer("x-amz-checksum-crc32", "AAAAAA=="),
        s.req("GET", "/b-1").q("list-type", "2").q("prefix", "a"),
        s.req("POST", "/b-1")
            .q("delete", "")
            .body("<Delete><Object><Key>zz</Key></Object></Delete>")
            .header("content-md5", "x"),
        s.req("PUT", "/b-1/f").header("x-amz-copy-source", "/b-1/k?versionId=null"),
    ];
    for round in 0..300 {
        let (head, body) = requests[round % requests.len()].wire();
        let mut bytes = format!("{head}connection: close\r\n\r\n").into_bytes();
        bytes.extend_from_slice(&body);
        for _ in 0..1 + next(6) {
            let at = next(bytes.len());
            match next(3) {
                0 => bytes[at] = next(256) as u8,
                1 => {
                    bytes.remove(at);
                }
                _ => bytes.insert(at, next(256) as u8),
            }
        }
        let mut stream = TcpStream::connect(s.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(3000))).unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(
            !text.starts_with("HTTP/1.1 500"),
            "seed {seed:#x} round {round}: {text}\n{}",
            String::from_utf8_lossy(&bytes)
        );
    }
    assert_eq!(s.get("/b-1/k").expect(200).text(), "x");
}
