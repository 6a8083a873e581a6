//! docs/proof.md 2.1: every pitfall of request parsing (chunks, framing, XML), over a real socket.

use crate::common::*;

fn server() -> Server {
    let s = Server::start();
    s.make_bucket("b-1");
    s.put("/b-1/k", b"hello").expect(200);
    s
}

// ---- 5: chunks

#[test]
fn p5_every_changed_byte_of_a_signed_body_is_detected() {
    let s = server();
    let data = noise(300, 5);
    let request = s
        .req("PUT", "/b-1/k5")
        .body(&data)
        .mode(Mode::SignedTrailer)
        .trailer("x-amz-checksum-crc32", checksum("CRC32", &data))
        .set(|r| r.chunk = 100);
    let (head, body) = request.wire();
    let send = |body: &[u8]| {
        let head = head.replace(
            &format!("content-length: {}", head_length(&head)),
            &format!("content-length: {}", body.len()),
        );
        let mut bytes = format!("{head}connection: close\r\n\r\n").into_bytes();
        bytes.extend_from_slice(body);
        raw(s.addr, &bytes)
    };
    for i in 0..body.len() {
        let mut bent = body.clone();
        bent[i] ^= 1;
        let r = send(&bent);
        assert!((400..500).contains(&r.status), "byte {i}: {} {}", r.status, r.text());
        if i % 7 == 0 {
            // Cut off there.
            assert!((400..500).contains(&send(&body[..i]).status), "cut at {i}");
        }
    }
    s.get("/b-1/k5").refused(404, "NoSuchKey");
    // Chunks in another order, a chunk twice, a chunk left out.
    let one = body.windows(2).position(|w| w == b"\r\n").unwrap() + 2 + 100 + 2;
    for bent in [
        [&body[one..2 * one], &body[..one], &body[2 * one..]].concat(),
        [&body[..one], &body[..]].concat(),
        body[one..].to_vec(),
    ] {
        assert!((400..500).contains(&send(&bent).status));
    }
    s.get("/b-1/k5").refused(404, "NoSuchKey");
    send(&body).expect(200);
    assert_eq!(s.get("/b-1/k5").body, data);
}

fn head_length(head: &str) -> String {
    head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap().to_owned()
}

#[test]
fn p5_chunks_are_limited() {
    let s = server();
    // A chunk header longer than 1 KiB.
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(2000));
    // Signed chunks above 16 MiB are refused by their header already.
    let huge = format!("1000001;chunk-signature={}\r\n", "0".repeat(64));
    for (mode, wire, length) in [(Mode::UnsignedTrailer, long, 5usize), (Mode::Signed, huge, 17 << 20)] {
        let request = s
            .req("PUT", "/b-1/k5b")
            .mode(mode)
            .trailer("x-amz-checksum-crc32", "AAAAAA==")
            .header("x-amz-decoded-content-length", length.to_string());
        let request = if mode == Mode::Signed { request.set(|r| r.trailers.clear()) } else { request };
        let (head, _) = request.wire();
        let head = head.replace(&format!("content-length: {}\r\n", head_length(&head)), "");
        let mut bytes =
            format!("{head}content-length: {}\r\nconnection: close\r\n\r\n", wire.len()).into_bytes();
        bytes.extend_from_slice(wire.as_bytes());
        raw(s.addr, &bytes).refused(400, "IncompleteBody");
    }
    // The length and the trailer must be announced.
    let r = s
        .req("PUT", "/b-1/k5b")
        .body(b"hello")
        .set(|r| r.payload = Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER".into()));
    r.clone().header("x-amz-trailer", "x-amz-checksum-crc32").send().refused(411, "MissingContentLength");
    r.header("x-amz-decoded-content-length", "5").send().refused(400, "InvalidRequest");
    // A trailer that was not declared, or is not what was declared.
    let bent = s
        .req("PUT", "/b-1/k5b")
        .body(b"hello")
        .mode(Mode::UnsignedTrailer)
        .trailer("x-amz-checksum-crc32", checksum("CRC32", b"hello"));
    bent.clone().header("x-amz-trailer", "x-amz-checksum-sha1").send().refused(400, "MalformedTrailerError");
    bent.clone().header("x-amz-decoded-content-length", "4").send().refused(400, "IncompleteBody");
    bent.clone().header("x-amz-decoded-content-length", "6").send().refused(400, "IncompleteBody");
    bent.clone().set(|r| r.trailers[0].1 = checksum("CRC32", b"hellO")).send().refused(400, "BadDigest");
    s.get("/b-1/k5b").refused(404, "NoSuchKey");
    bent.send().expect(200);
}

// ---- 9: HTTP

#[test]
fn p9_ambiguous_framing_is_refused() {
    let s = server();
    let (head, _) = s.req("PUT", "/b-1/k9").body(b"hello").mode(Mode::Unsigned).wire();
    for extra in ["transfer-encoding: chunked\r\n", "Transfer-Encoding: identity, chunked\r\n"] {
        let r =
            raw(s.addr, format!("{head}{extra}connection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n").as_bytes());
        assert_eq!(r.status, 400, "{}", r.text());
        let first = head.replacen("\r\n", &format!("\r\n{extra}"), 1);
        let r = raw(s.addr, format!("{first}connection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n").as_bytes());
        assert_eq!(r.status, 400, "{}", r.text());
    }
    let two = format!("{head}content-length: 6\r\nconnection: close\r\n\r\nhello!");
    assert_eq!(raw(s.addr, two.as_bytes()).status, 400);
    let bare = head.replace("\r\nhost", "\nhost");
    assert_eq!(raw(s.addr, format!("{bare}connection: close\r\n\r\nhello").as_bytes()).status, 400);
    let absolute = head.replace("PUT /b-1/k9", "PUT http://elsewhere/b-1/k9");
    assert_eq!(raw(s.addr, format!("{absolute}connection: close\r\n\r\nhello").as_bytes()).status, 400);
    s.get("/b-1/k9").refused(404, "NoSuchKey");
}

#[test]
fn p9_headers_are_bounded() {
    let s = server();
    s.req("PUT", "/b-1/m").body(b"x").header("x-amz-meta-a", "v".repeat(2047)).send().expect(200);
    s.req("PUT", "/b-1/m")
        .body(b"x")
        .header("x-amz-meta-a", "v".repeat(2048))
        .send()
        .refused(400, "MetadataTooLarge");
    let mut many = s.req("GET", "/b-1/m");
    for i in 0..17 {
        many = many.header(&format!("x-pad-{i}"), "p".repeat(4000));
    }
    let r = many.send();
    assert!(r.status == 400 || r.status == 431, "{}", r.status);
    let r = s.req("GET", "/b-1/m").q("prefix", &"p".repeat(20_000)).send();
    assert!(r.status == 414, "{}", r.status);
}

// ---- 10: XML

#[test]
fn p10_xml_documents_are_limited() {
    let s = server();
    let bomb = "<!DOCTYPE d [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]><Delete><Object><Key>&b;</Key></Object></Delete>";
    let external = "<!DOCTYPE d [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><Delete><Object><Key>&x;</Key></Object></Delete>";
    let deep = format!("<Delete>{}{}</Delete>", "<a>".repeat(30), "</a>".repeat(30));
    let many = format!("<Delete>{}</Delete>", "<Object><Key>k</Key></Object>".repeat(1001));
    let unknown = "<Delete><Thing>1</Thing></Delete>";
    for body in [
        bomb,
        external,
        &deep,
        &many,
        unknown,
        "",
        "x",
        "<Delete></Delete>",
        "<Delete><Object></Object></Delete>",
    ] {
        let r = s
            .req("POST", "/b-1")
            .q("delete", "")
            .body(body)
            .header("content-md5", md5_base64(body.as_bytes()))
            .send();
        assert!(r.status == 400, "{body:.60}: {} {}", r.status, r.text());
    }
    let large = format!("<Delete><!--{}--></Delete>", "x".repeat(3 << 20));
    s.req("POST", "/b-1")
        .q("delete", "")
        .body(&large)
        .header("content-md5", md5_base64(large.as_bytes()))
        .send()
        .refused(400, "MaxMessageLengthExceeded");
    for (path, query, body) in [
        (
            "/b-1",
            "versioning",
            "<VersioningConfiguration><Status>Enabled</Status><Extra/></VersioningConfiguration>",
        ),
        (
            "/b-1",
            "tagging",
            "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value><X/></Tag></TagSet></Tagging>",
        ),
        ("/b-1/k", "tagging", "<Tagging><Other/></Tagging>"),
    ] {
        s.req("PUT", path).q(query, "").body(body).send().refused(400, "MalformedXML");
    }
    s.get("/b-1/k").expect(200);
}
