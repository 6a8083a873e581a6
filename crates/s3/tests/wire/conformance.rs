//! What AWS's and MinIO's own clients send, and what they expect.

use crate::common::*;

/// A request that has several lines of one header: `lines` are signed as one, joined with commas.
fn repeated(req: Req, name: &str, values: &[&str]) -> Resp {
    let (head, body) = req.header(name, values.join(",")).wire();
    let one = format!("{name}: {}\r\n", values.join(","));
    let many: String = values.iter().map(|v| format!("{name}: {v}\r\n")).collect();
    assert!(head.contains(&one), "{head}");
    let mut bytes = format!("{}connection: close\r\n\r\n", head.replace(&one, &many)).into_bytes();
    bytes.extend_from_slice(&body);
    raw(address(&head), &bytes)
}

fn address(head: &str) -> std::net::SocketAddr {
    let line = head.lines().find(|l| l.starts_with("host: ")).unwrap();
    line[6..].parse().unwrap()
}

/// FINDINGS W1.
#[test]
fn repeated_headers_are_one_list() {
    let s = server();
    // The AWS SDK for Java 2: putObject(contentEncoding("gzip")).
    let put = s
        .req("PUT", "/b-1/k")
        .body("hello")
        .mode(Mode::UnsignedTrailer)
        .trailer("x-amz-checksum-crc32", checksum("crc32", b"hello"));
    repeated(put, "content-encoding", &["gzip", "aws-chunked"]).expect(200);
    let got = s.get("/b-1/k").expect(200);
    assert_eq!((got.header("content-encoding"), &got.body[..]), (Some("gzip"), &b"hello"[..]));
    let put = s.req("PUT", "/b-1/k").body("hello");
    repeated(put, "x-amz-meta-a", &["one", "two"]).expect(200);
    assert_eq!(s.get("/b-1/k").expect(200).header("x-amz-meta-a"), Some("one,two"));
    // Attributes as the SDKs for Go 2 and Java 2 ask for them.
    let get = s.req("GET", "/b-1/k").q("attributes", "");
    let r = repeated(get, "x-amz-object-attributes", &["ETag", "ObjectSize"]).expect(200);
    assert_eq!((r.tag("ObjectSize").as_deref(), r.tag("ETag").is_some()), (Some("5"), true));
    let get = s.req("GET", "/b-1/k");
    repeated(get, "if-none-match", &["\"a\"", "\"b\""]).expect(200);
    // One thing is said once.
    for (name, value) in [("x-amz-copy-source", "b-1/k"), ("content-md5", "x"), ("x-amz-tagging", "a=1")] {
        repeated(s.req("PUT", "/b-1/k2"), name, &[value, value]).refused(400, "InvalidRequest");
    }
}

/// FINDINGS W17.
#[test]
fn content_encoding_is_kept_as_it_came() {
    let s = server();
    for (given, kept) in [("gzip, br", "gzip, br"), ("gzip,br", "gzip,br")] {
        s.req("PUT", "/b-1/k").header("content-encoding", given).body("x").send().expect(200);
        assert_eq!(s.get("/b-1/k").expect(200).header("content-encoding"), Some(kept));
    }
}

/// FINDINGS W5.
#[test]
fn next_markers_only_when_there_is_more() {
    let s = versioned();
    for _ in 0..3 {
        s.put("/b-1/k", b"x").expect(200);
    }
    let whole = s.req("GET", "/b-1").q("versions", "").send().expect(200);
    assert_eq!(whole.tag("IsTruncated").as_deref(), Some("false"));
    assert_eq!((whole.tag("NextKeyMarker"), whole.tag("NextVersionIdMarker")), (None, None));
    let exact = s.req("GET", "/b-1").q("versions", "").q("max-keys", "3").send().expect(200);
    assert_eq!((exact.tag("IsTruncated").as_deref(), exact.tag("NextKeyMarker")), (Some("false"), None));
    let page = s.req("GET", "/b-1").q("versions", "").q("max-keys", "2").send().expect(200);
    assert_eq!(page.tag("IsTruncated").as_deref(), Some("true"));
    assert!(page.tag("NextKeyMarker").is_some() && page.tag("NextVersionIdMarker").is_some());
    let uploads = s.req("GET", "/b-1").q("uploads", "").send().expect(200);
    assert_eq!(uploads.tag("NextKeyMarker"), None);
}

/// FINDINGS W18: a sub-resource is never passed over.
#[test]
fn a_subresource_with_another_method_changes_nothing() {
    let s = server();
    s.put("/b-1/k", b"x").expect(200);
    s.req("DELETE", "/b-1/k").q("renameObject", "").send().refused(405, "MethodNotAllowed");
    assert_eq!(s.get("/b-1/k").expect(200).body, b"x");
    s.req("PUT", "/b-2").q("renameObject", "").send().refused(405, "MethodNotAllowed");
    s.get("/b-2").refused(404, "NoSuchBucket");
    s.req("GET", "/b-1/k").q("versioning", "").send().refused(405, "MethodNotAllowed");
    s.req("DELETE", "/b-1").q("policyStatus", "").send().refused(405, "MethodNotAllowed");
    s.req("GET", "/b-1").q("acl", "").q("policy", "").send().refused(400, "InvalidArgument");
    s.get("/b-1").expect(200);
}

fn sign_v2(text: &str) -> String {
    base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        hmac1(SECRET.as_bytes(), text.as_bytes()),
    )
}

fn presigned_v2(s: &Server, method: &str, target: &str, signed: &str, body: &str) -> Resp {
    let expires = unix(60);
    let signature = encode(&sign_v2(&format!("{method}\n\n\n{expires}\n{signed}")), false);
    let separator = if target.contains('?') { '&' } else { '?' };
    let head = format!(
        "{method} {target}{separator}AWSAccessKeyId={KEY}&Expires={expires}&Signature={signature} HTTP/1.1\r\n\
         host: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        s.addr,
        body.len()
    );
    raw(s.addr, head.as_bytes())
}

/// FINDINGS S12, W12.
#[test]
fn signature_v2_covers_subresources_and_can_be_switched_off() {
    let s = server();
    let body =
        "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>";
    for sub in ["ownershipControls", "policyStatus", "events", "renameObject", "abac", "encryption"] {
        // Signed for the bucket alone: the sub-resource was added by somebody else.
        presigned_v2(&s, "PUT", &format!("/b-1?{sub}"), "/b-1", body).refused(403, "SignatureDoesNotMatch");
    }
    presigned_v2(&s, "PUT", "/b-1?ownershipControls", "/b-1?ownershipControls", body).expect(200);
    // botocore signs a bucket with a slash behind it, whatever it sends.
    presigned_v2(&s, "GET", "/b-1", "/b-1/", "").expect(200);
    presigned_v2(&s, "GET", "/b-1/", "/b-1", "").expect(200);
    presigned_v2(&s, "GET", "/b-1", "/b-2/", "").refused(403, "SignatureDoesNotMatch");
    presigned_v2(&s, "GET", "/b-1/k", "/b-1/k/", "").refused(403, "SignatureDoesNotMatch");
    let off = Server::with(|config| config.verifier.v2 = false);
    off.make_bucket("b-1");
    presigned_v2(&off, "GET", "/b-1", "/b-1", "").refused(400, "InvalidRequest");
    let date = http_date(0);
    let signature = sign_v2(&format!("GET\n\n\n{date}\n/b-1"));
    let head = format!(
        "GET /b-1 HTTP/1.1\r\nhost: {}\r\ndate: {date}\r\nauthorization: AWS {KEY}:{signature}\r\nconnection: close\r\n\r\n",
        off.addr
    );
    raw(off.addr, head.as_bytes()).refused(400, "InvalidRequest");
    raw(s.addr, head.replace(&off.addr.to_string(), &s.addr.to_string()).as_bytes()).expect(200);
}

/// FINDINGS W20.
#[test]
fn any_region_unless_one_is_configured() {
    let s = Server::with(|config| {
        config.verifier.any_region = true;
        config.context.any_region = true;
    });
    let there = |r: Req| r.set(|r| r.region = "eu-central-1".into());
    let location = "<CreateBucketConfiguration><LocationConstraint>eu-central-1</LocationConstraint></CreateBucketConfiguration>";
    there(s.req("PUT", "/b-1")).body(location).send().expect(200);
    there(s.req("PUT", "/b-1/k")).body("x").send().expect(200);
    there(s.req("GET", "/b-1/k")).send_presigned("60").expect(200);
    s.get("/b-1/k").expect(200);
    there(s.req("GET", "/b-1/k"))
        .set(|r| r.secret = "0".repeat(40))
        .send()
        .refused(403, "SignatureDoesNotMatch");
    let configured = server();
    there(configured.req("GET", "/b-1")).send().refused(400, "AuthorizationHeaderMalformed");
    configured.req("PUT", "/b-2").body(location).send().refused(400, "InvalidLocationConstraint");
}
