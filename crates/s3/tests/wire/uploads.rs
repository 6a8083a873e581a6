//! Multipart uploads, virtual hosts, presigned requests and version 2 signatures, end to end.

use crate::common::*;

fn server() -> Server {
    let s = Server::start();
    s.make_bucket("b-1");
    s
}

struct Multipart<'a> {
    s: &'a Server,
    path: &'a str,
    id: String,
}

impl<'a> Multipart<'a> {
    fn new(s: &'a Server, path: &'a str, headers: &[(&str, &str)]) -> Multipart<'a> {
        let mut r = s.req("POST", path).q("uploads", "");
        for (name, value) in headers {
            r = r.header(name, *value);
        }
        let id = r.send().expect(200).tag("UploadId").unwrap();
        Multipart { s, path, id }
    }
    fn part(&self, n: u32, data: &[u8]) -> Req {
        self.s.req("PUT", self.path).q("partNumber", &n.to_string()).q("uploadId", &self.id).body(data)
    }
    fn complete(&self, parts: &[(u32, String)]) -> Req {
        let inner: String = parts
            .iter()
            .map(|(n, e)| format!("<Part><PartNumber>{n}</PartNumber><ETag>{e}</ETag></Part>"))
            .collect();
        self.s.req("POST", self.path).q("uploadId", &self.id).body(format!("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inner}</CompleteMultipartUpload>"))
    }
}

#[test]
fn multipart_upload_is_completed() {
    let s = server();
    let (a, b) = (noise(6000, 1), noise(3000, 2));
    let up = Multipart::new(&s, "/b-1/mp k", &[("x-amz-meta-a", "1"), ("content-type", "text/x")]);
    let etag_of = |r: Resp| r.header("etag").unwrap().to_owned();
    let e2 = etag_of(up.part(2, &b).send().expect(200));
    etag_of(up.part(1, &b).send().expect(200));
    let e1 = etag_of(up.part(1, &a).send().expect(200));
    let r = s.req("GET", "/b-1/mp k").q("uploadId", &up.id).q("max-parts", "1").send().expect(200);
    assert_eq!(
        (r.tags("PartNumber"), r.tag("IsTruncated").unwrap(), r.tag("NextPartNumberMarker").unwrap()),
        (vec!["1".to_owned()], "true".into(), "1".into())
    );
    let r = s.req("GET", "/b-1").q("uploads", "").q("prefix", "mp").send().expect(200);
    assert_eq!((r.tags("Key"), r.tag("UploadId").unwrap()), (vec!["mp k".to_owned()], up.id.clone()));
    s.get("/b-1/mp k").refused(404, "NoSuchKey");
    up.complete(&[(2, e2.clone()), (1, e1.clone())]).send().refused(400, "InvalidPartOrder");
    up.complete(&[(1, e1.clone()), (3, e2.clone())]).send().refused(400, "InvalidPart");
    up.complete(&[(1, e2.clone())]).send().refused(400, "InvalidPart");
    up.complete(&[]).send().refused(400, "MalformedXML");
    up.complete(&[(1, e1.clone()), (2, e2.clone())])
        .header("x-amz-mp-object-size", "1")
        .send()
        .refused(400, "InvalidRequest");
    let done = up
        .complete(&[(1, e1.clone()), (2, e2.clone())])
        .header("x-amz-mp-object-size", "9000")
        .send()
        .expect(200);
    let md5s = [ashlar_checksum::md5_once(&a), ashlar_checksum::md5_once(&b)].concat();
    let etag = format!("\"{}-2\"", md5_hex(&md5s));
    assert_eq!(done.tag("ETag").unwrap(), etag.replace('"', "&quot;"));
    assert!(done.tag("Location").unwrap().ends_with("/b-1/mp%20k"));
    // A retry gets the same answer.
    assert_eq!(up.complete(&[(1, e1), (2, e2)]).send().expect(200).tag("ETag"), done.tag("ETag"));
    let r = s.get("/b-1/mp k").expect(200);
    assert!(r.body == [a.clone(), b.clone()].concat() && r.header("etag") == Some(etag.as_str()));
    assert_eq!((r.header("x-amz-meta-a"), r.header("content-type")), (Some("1"), Some("text/x")));
    let r = s.req("GET", "/b-1/mp k").q("partNumber", "2").send().expect(206);
    assert_eq!(
        (r.header("x-amz-mp-parts-count"), r.header("content-range")),
        (Some("2"), Some("bytes 6000-8999/9000"))
    );
    assert_eq!(r.body, b);
    let r = s.req("GET", "/b-1/mp k").header("range", "bytes=5990-6009").send().expect(206);
    assert_eq!(r.body, [&a[5990..], &b[..10]].concat());
    s.req("GET", "/b-1/mp k").q("partNumber", "3").send().refused(416, "InvalidPartNumber");
    let r = s
        .req("GET", "/b-1/mp k")
        .q("attributes", "")
        .header("x-amz-object-attributes", "ObjectParts")
        .send()
        .expect(200);
    assert_eq!(r.tag("PartsCount").unwrap(), "2");
}

#[test]
fn multipart_upload_is_aborted_and_errors_are_reported() {
    let s = server();
    let up = Multipart::new(&s, "/b-1/k", &[]);
    up.part(1, b"x").send().expect(200);
    for n in ["0", "10001", "x", ""] {
        s.req("PUT", "/b-1/k")
            .q("partNumber", n)
            .q("uploadId", &up.id)
            .body(b"x")
            .send()
            .refused(400, "InvalidArgument");
    }
    s.req("PUT", "/b-1/k")
        .q("partNumber", "1")
        .q("uploadId", "nope")
        .body(b"x")
        .send()
        .refused(404, "NoSuchUpload");
    s.req("PUT", "/b-1/other")
        .q("partNumber", "1")
        .q("uploadId", &up.id)
        .body(b"x")
        .send()
        .refused(404, "NoSuchUpload");
    s.req("DELETE", "/b-1/k").q("uploadId", &up.id).send().expect(204);
    s.req("GET", "/b-1/k").q("uploadId", &up.id).send().refused(404, "NoSuchUpload");
    up.part(1, b"x").send().refused(404, "NoSuchUpload");
    assert!(s.req("GET", "/b-1").q("uploads", "").send().expect(200).tags("Upload").is_empty());
    let small = Multipart::new(&s, "/b-1/k", &[]);
    let e1 = small.part(1, b"small").send().expect(200).header("etag").unwrap().to_owned();
    let e2 = small.part(2, b"small").send().expect(200).header("etag").unwrap().to_owned();
    small.complete(&[(1, e1), (2, e2)]).send().refused(400, "EntityTooSmall");
}

#[test]
fn multipart_checksums_are_verified() {
    let s = server();
    let parts = [noise(5000, 1), noise(4000, 2)];
    let whole = parts.concat();
    for (algorithm, kind, composite) in [
        ("CRC32", "", true),
        ("CRC32C", "COMPOSITE", true),
        ("CRC32", "FULL_OBJECT", false),
        ("CRC64NVME", "", false),
        ("SHA1", "", true),
        ("SHA256", "COMPOSITE", true),
    ] {
        let mut headers = vec![("x-amz-checksum-algorithm", algorithm)];
        if !kind.is_empty() {
            headers.push(("x-amz-checksum-type", kind));
        }
        let up = Multipart::new(&s, "/b-1/k", &headers);
        let name = format!("x-amz-checksum-{}", algorithm.to_ascii_lowercase());
        let mut list = Vec::new();
        for (i, data) in parts.iter().enumerate() {
            let sum = checksum(algorithm, data);
            let r = up
                .part(i as u32 + 1, data)
                .mode(Mode::UnsignedTrailer)
                .trailer(&name, sum.as_str())
                .send()
                .expect(200);
            assert_eq!(r.header(&name), Some(sum.as_str()));
            list.push((i as u32 + 1, r.header("etag").unwrap().to_owned()));
        }
        let r = s.req("GET", "/b-1/k").q("uploadId", &up.id).send().expect(200);
        assert_eq!(r.tag("ChecksumAlgorithm").unwrap(), algorithm);
        let want = if composite {
            let sums: Vec<u8> = parts
                .iter()
                .flat_map(|p| {
                    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, checksum(algorithm, p))
                        .unwrap()
                })
                .collect();
            format!("{}-2", checksum(algorithm, &sums))
        } else {
            checksum(algorithm, &whole)
        };
        let sums: Vec<String> = parts.iter().map(|p| checksum(algorithm, p)).collect();
        let complete = || {
            let mut r = up.complete(&list);
            let mut body = String::from_utf8(r.body).unwrap();
            for ((_, etag), sum) in list.iter().zip(&sums) {
                let (etag, element) = (
                    format!("<ETag>{etag}</ETag>"),
                    format!("<Checksum{algorithm}>{sum}</Checksum{algorithm}>"),
                );
                body = body.replace(&etag, &(etag.clone() + &element));
            }
            r.body = body.into_bytes();
            r
        };
        complete().header(&name, checksum(algorithm, b"wrong")).send().refused(400, "BadDigest");
        let r = complete().header(&name, want.as_str()).send().expect(200);
        assert_eq!(r.tag(&format!("Checksum{algorithm}")).unwrap(), want);
        let r = s.req("GET", "/b-1/k").header("x-amz-checksum-mode", "ENABLED").send().expect(200);
        let kind = if composite { "COMPOSITE" } else { "FULL_OBJECT" };
        assert_eq!((r.header(&name), r.header("x-amz-checksum-type")), (Some(want.as_str()), Some(kind)));
        let r = s
            .req("GET", "/b-1/k")
            .q("partNumber", "1")
            .header("x-amz-checksum-mode", "ENABLED")
            .send()
            .expect(206);
        assert_eq!(r.header(&name), Some(checksum(algorithm, &parts[0]).as_str()));
    }
    for (algorithm, kind) in
        [("SHA1", "FULL_OBJECT"), ("CRC64NVME", "COMPOSITE"), ("MD4", ""), ("CRC32", "OTHER")]
    {
        let mut r = s.req("POST", "/b-1/k").q("uploads", "").header("x-amz-checksum-algorithm", algorithm);
        if !kind.is_empty() {
            r = r.header("x-amz-checksum-type", kind);
        }
        r.send().refused(400, "InvalidRequest");
    }
}

#[test]
fn parts_are_copied_from_objects() {
    let s = server();
    let data = noise(9000, 9);
    s.put("/b-1/src", &data).expect(200);
    let up = Multipart::new(&s, "/b-1/k", &[]);
    let copy = |n: &str, range: Option<&str>| {
        let mut r = s
            .req("PUT", "/b-1/k")
            .q("partNumber", n)
            .q("uploadId", &up.id)
            .header("x-amz-copy-source", "b-1/src");
        if let Some(range) = range {
            r = r.header("x-amz-copy-source-range", range);
        }
        r
    };
    let etag = |r: Resp| r.tag("ETag").unwrap().replace("&quot;", "\"");
    let e1 = etag(copy("1", Some("bytes=0-4999")).send().expect(200));
    let e2 = etag(copy("2", Some("bytes=5000-8999")).send().expect(200));
    for bad in ["bytes=0-9000", "bytes=5-4", "bytes=-5", "0-5", "bytes=0-"] {
        copy("3", Some(bad)).send().refused(400, "InvalidArgument");
    }
    copy("3", None).header("x-amz-copy-source-if-match", "\"no\"").send().refused(412, "PreconditionFailed");
    up.complete(&[(1, e1), (2, e2)]).send().expect(200);
    assert_eq!(s.get("/b-1/k").body, data);
}

#[test]
fn virtual_hosts_and_cors_preflights_work() {
    let s = server();
    s.put("/b-1/dir/k", b"x").expect(200);
    let vh = |path: &str| s.req("GET", path).set(|r| r.host = "b-1.s3.test:9000".into());
    assert_eq!(vh("/dir/k").send().expect(200).text(), "x");
    assert_eq!(vh("/").q("list-type", "2").send().expect(200).tags("Key"), ["dir/k"]);
    assert_eq!(vh("/dir/k").send_presigned("60").expect(200).text(), "x");
    s.req("GET", "/b-1/dir/k").set(|r| r.host = "s3.test".into()).send().expect(200);
    s.req("GET", "/b-1/dir/k").set(|r| r.host = "elsewhere.example".into()).send().expect(200);
    let r = raw(s.addr, b"OPTIONS /b-1/k HTTP/1.1\r\nhost: x\r\norigin: https://a.example\r\naccess-control-request-method: PUT\r\naccess-control-request-headers: x-amz-date\r\nconnection: close\r\n\r\n");
    assert_eq!(
        (r.status, r.header("access-control-allow-origin"), r.header("access-control-allow-credentials")),
        (200, Some("*"), None)
    );
    let r = s.req("GET", "/b-1/dir/k").header("origin", "https://a.example").send().expect(200);
    assert_eq!(r.header("access-control-allow-origin"), Some("*"));
    assert!(r.header("access-control-expose-headers").unwrap().contains("ETag"));
}

#[test]
fn presigned_puts_and_hoisted_headers_work() {
    let s = server();
    s.req("PUT", "/b-1/k").body(b"x").send_presigned("60").expect(200);
    s.req("PUT", "/b-1/k")
        .body(b"x")
        .q("x-amz-meta-a", "1")
        .q("x-amz-tagging", "t=1")
        .send_presigned("60")
        .expect(200);
    let r = s.get("/b-1/k").expect(200);
    assert_eq!((r.header("x-amz-meta-a"), r.header("x-amz-tagging-count")), (Some("1"), Some("1")));
    s.req("PUT", "/b-1/k").body(b"x").header("x-amz-meta-b", "2").send_presigned("60").expect(200);
    assert_eq!(s.get("/b-1/k").expect(200).header("x-amz-meta-b"), Some("2"));
}

#[test]
fn signature_version_2_is_accepted() {
    let s = server();
    s.put("/b-1/k", b"x").expect(200);
    let sign = |method: &str, date: &str, extra: &str, resource: &str| {
        let text = format!("{method}\n\n\n{date}\n{extra}{resource}");
        base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            hmac1(SECRET.as_bytes(), text.as_bytes()),
        )
    };
    let send = |method: &str, target: &str, lines: &str| {
        raw(
            s.addr,
            format!("{method} {target} HTTP/1.1\r\nhost: {}\r\n{lines}connection: close\r\n\r\n", s.addr)
                .as_bytes(),
        )
    };
    let date = http_date(0);
    let auth = |sig: &str| format!("authorization: AWS {KEY}:{sig}\r\n");
    send("GET", "/b-1/k", &format!("date: {date}\r\n{}", auth(&sign("GET", &date, "", "/b-1/k"))))
        .expect(200);
    send("GET", "/b-1/k", &format!("date: {date}\r\n{}", auth(&sign("PUT", &date, "", "/b-1/k"))))
        .refused(403, "SignatureDoesNotMatch");
    // x-amz-* headers are always signed: one that is added breaks it.
    send(
        "GET",
        "/b-1/k",
        &format!("date: {date}\r\nx-amz-meta-a: 1\r\n{}", auth(&sign("GET", &date, "", "/b-1/k"))),
    )
    .refused(403, "SignatureDoesNotMatch");
    send(
        "GET",
        "/b-1?location",
        &format!("date: {date}\r\n{}", auth(&sign("GET", &date, "", "/b-1?location"))),
    )
    .expect(200);
    send("GET", "/b-1?location", &format!("date: {date}\r\n{}", auth(&sign("GET", &date, "", "/b-1"))))
        .refused(403, "SignatureDoesNotMatch");
    let old = http_date(-1000);
    send("GET", "/b-1/k", &format!("date: {old}\r\n{}", auth(&sign("GET", &old, "", "/b-1/k"))))
        .refused(403, "RequestTimeTooSkewed");
    let query = |expires: i64| {
        let sig = encode(&sign("GET", &expires.to_string(), "", "/b-1/k"), false);
        format!("/b-1/k?AWSAccessKeyId={KEY}&Expires={expires}&Signature={sig}")
    };
    send("GET", &query(unix(60)), "").expect(200);
    send("GET", &query(unix(-1)), "").refused(403, "AccessDenied");
    let bent = query(unix(60)).replace("/k?", "/j?");
    send("GET", &bent, "").refused(403, "SignatureDoesNotMatch");
}

#[test]
fn connections_are_reused() {
    use std::io::Write;
    let s = server();
    let mut stream = std::net::TcpStream::connect(s.addr).unwrap();
    for i in 0..20 {
        let path = format!("/b-1/keep{i}");
        for request in [
            s.req("PUT", &path).body(b"hello").mode([Mode::Hash, Mode::Signed][i % 2]),
            s.req("GET", &path),
            s.req("PUT", &path).body(b"x").set(|r| r.secret = "0".repeat(40)),
            s.req("GET", "/b-1/none"),
        ] {
            let (head, body) = request.wire();
            stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
            let r = read_response(&mut stream, false);
            assert!(matches!(r.status, 200 | 403 | 404), "{}", r.text());
            assert!(r.header("connection").is_none());
        }
    }
}
