//! docs/proof.md 2.1: every pitfall of signatures, over a real socket. `parsing.rs` has those of bodies,
//! framing and documents.

use crate::common::*;

fn server() -> Server {
    let s = Server::start();
    s.make_bucket("b-1");
    s.put("/b-1/k", b"hello").expect(200);
    s
}

// ---- 1: one canonicaliser, one decoding

#[test]
fn p1_signed_key_is_the_used_key() {
    let s = server();
    for (i, key) in [
        "a b",
        "a+b",
        "a%2Fb",
        "a//b",
        "./../x",
        "ä/你",
        "a;b",
        "a=b&c",
        "~-_.",
        "a*b!'()",
        "a:b@c$d,e",
        " ",
        "a/",
    ]
    .iter()
    .enumerate()
    {
        let body = format!("body {i}");
        s.put(&format!("/b-1/{key}"), body.as_bytes()).expect(200);
        assert_eq!(s.get(&format!("/b-1/{key}")).expect(200).text(), body, "{key}");
    }
    // The same key in other spellings of the target: one decoding serves signature and lookup.
    for raw in ["/b-1/%6B", "/b-1/%6b", "/%62-1/k"] {
        s.req("GET", "/").raw_path(raw).send().expect(200);
    }
    s.put("/b-1/x/y", b"slash").expect(200);
    assert_eq!(s.req("GET", "/").raw_path("/b-1/x%2Fy").send().expect(200).text(), "slash");
    // Encoded twice is another key.
    s.req("GET", "/").raw_path("/b-1/x%252Fy").send().refused(404, "NoSuchKey");
}

#[test]
fn p1_signature_over_another_path_is_refused() {
    let s = server();
    s.put("/b-1/secret", b"x").expect(200);
    for signed in ["/b-1/public", "/b-1/secret/", "/b-1//secret", "/b-1/x/../secret", "/b-1/secre%74%2F"] {
        s.req("GET", "/b-1/secret")
            .set(|r| r.signed_path = Some(signed.into()))
            .send()
            .refused(403, "SignatureDoesNotMatch");
    }
}

#[test]
fn p1_ambiguous_targets_are_refused() {
    let s = server();
    for raw in ["/b-1/%", "/b-1/%4", "/b-1/%zz", "/b-1/%C0%AF", "/b-1/%ED%A0%80", "/b-1/%00", "/b-1/a%00b"] {
        s.req("GET", "/").raw_path(raw).send().refused(400, "InvalidURI");
    }
}

// ---- 2: one source of credentials

#[test]
fn p2_credentials_in_two_places_are_refused() {
    let s = server();
    let query = s.req("GET", "/b-1/k").presigned_query("100", &[]);
    let mut both = s.req("GET", "/b-1/k");
    both.query = query;
    both.send().refused(400, "InvalidArgument");
    let mut v2 = s.req("GET", "/b-1/k");
    v2.query = vec![
        ("AWSAccessKeyId".into(), KEY.into()),
        ("Signature".into(), "x".into()),
        ("Expires".into(), "1".into()),
    ];
    v2.send().refused(400, "InvalidArgument");
    // Only part of the query form is still the query form: no header counts, and no fallback either.
    for name in ["X-Amz-Credential", "X-Amz-Algorithm", "X-Amz-Signature"] {
        let q = format!("{name}={}", encode(&format!("{KEY}/20200101/us-east-1/s3/aws4_request"), false));
        let r = raw(
            s.addr,
            format!(
                "PUT /b-1/forged?{q} HTTP/1.1\r\nhost: {}\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx",
                s.addr
            )
            .as_bytes(),
        );
        r.refused(400, "AuthorizationQueryParametersError");
    }
    s.get("/b-1/forged").refused(404, "NoSuchKey");
}

#[test]
fn p2_anonymous_request_is_denied_without_information() {
    let s = server();
    let etag = s.get("/b-1/k").header("etag").unwrap().to_owned();
    let mut bodies = Vec::new();
    for path in ["/b-1/k", "/b-1/none", "/nobucket/k", "/b-1", "/nobucket", "/"] {
        for (name, value) in [
            ("if-match", etag.as_str()),
            ("if-none-match", "*"),
            ("if-modified-since", "Fri, 24 May 2013 00:00:00 GMT"),
            ("range", "bytes=0-0"),
        ] {
            let r = s.req("GET", path).anonymous().header(name, value).send().refused(403, "AccessDenied");
            bodies.push((r.tag("Message").unwrap(), r.header("etag").map(str::to_owned)));
            s.req("HEAD", path).anonymous().header(name, value).send().expect(403);
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    for q in ["lifecycle", "policy", "acl", "uploads", "versions"] {
        s.req("GET", "/b-1").anonymous().q(q, "").send().refused(403, "AccessDenied");
    }
    s.req("PUT", "/b-1/k2").anonymous().body(b"x").send().refused(403, "AccessDenied");
    s.req("DELETE", "/b-1/k").anonymous().send().refused(403, "AccessDenied");
    s.req("POST", "/b-1").anonymous().q("delete", "").body(b"<Delete/>").send().refused(403, "AccessDenied");
    s.get("/b-1/k").expect(200);
}

// ---- 3: payload modes, with every handler that takes a body

#[test]
fn p3_every_body_handler_checks_every_mode() {
    let s = server();
    let data = noise(20_000, 1);
    let upload = s.req("POST", "/b-1/mp").q("uploads", "").send().expect(200).tag("UploadId").unwrap();
    for mode in [Mode::Hash, Mode::Unsigned, Mode::Signed, Mode::SignedTrailer, Mode::UnsignedTrailer] {
        let trailing = |r: Req| match mode {
            Mode::SignedTrailer | Mode::UnsignedTrailer => {
                r.trailer("x-amz-checksum-crc32", checksum("CRC32", &data))
            }
            _ => r,
        };
        let put = || trailing(s.req("PUT", "/b-1/modes").body(&data).mode(mode));
        let part = || {
            trailing(
                s.req("PUT", "/b-1/mp").q("partNumber", "1").q("uploadId", &upload).body(&data).mode(mode),
            )
        };
        put().send().expect(200);
        assert_eq!(s.get("/b-1/modes").body, data, "{mode:?}");
        part().send().expect(200);
        for request in [put(), part()] {
            // A wrong secret, in every mode: the seed signature is always checked.
            let forged = request.clone().set(|r| r.secret = "wrong".repeat(8));
            forged.send().refused(403, "SignatureDoesNotMatch");
            // The credentials only in the query while the body claims to be signed or not.
            let nobody = request.clone().anonymous().header(
                "x-amz-content-sha256",
                request.clone().payload.unwrap_or("STREAMING-UNSIGNED-PAYLOAD-TRAILER".into()),
            );
            nobody.send().refused(403, "AccessDenied");
        }
        s.req("PUT", "/b-1/modes").body(&data).send().expect(200);
    }
    // Documents too.
    let delete = b"<Delete><Object><Key>none</Key></Object></Delete>";
    for mode in [Mode::Hash, Mode::Unsigned, Mode::Signed, Mode::UnsignedTrailer] {
        let r = s.req("POST", "/b-1").q("delete", "").body(delete).mode(mode);
        let r = if mode == Mode::UnsignedTrailer {
            r.trailer("x-amz-checksum-crc32", checksum("CRC32", delete))
        } else {
            r.header("content-md5", md5_base64(delete))
        };
        r.send().expect(200);
        r.set(|r| r.secret = "wrong".repeat(8)).send().refused(403, "SignatureDoesNotMatch");
    }
}

#[test]
fn p3_unknown_modes_are_refused() {
    let s = server();
    for (payload, status, code) in [
        ("STREAMING-UNSIGNED-PAYLOAD", 400, "InvalidArgument"),
        ("unsigned-payload", 400, "InvalidArgument"),
        ("", 400, "InvalidArgument"),
        ("abc", 400, "InvalidArgument"),
        ("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", 501, "NotImplemented"),
        ("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER", 501, "NotImplemented"),
    ] {
        s.req("PUT", "/b-1/k9")
            .body(b"x")
            .set(|r| r.payload = Some(payload.into()))
            .send()
            .refused(status, code);
    }
    s.get("/b-1/k9").refused(404, "NoSuchKey");
    // A body that is not the one signed for.
    let r = s.req("PUT", "/b-1/k9").body(b"x").set(|r| r.payload = Some(sha256_hex(b"y")));
    r.send().refused(400, "XAmzContentSHA256Mismatch");
    s.get("/b-1/k9").refused(404, "NoSuchKey");
}

// ---- 4: signed headers

#[test]
fn p4_unsigned_amz_headers_are_refused() {
    let s = server();
    for (name, value) in [
        ("x-amz-meta-a", "1"),
        ("x-amz-acl", "private"),
        ("x-amz-copy-source", "/b-1/k"),
        ("x-amz-tagging", "a=b"),
        ("X-AMZ-Meta-B", "2"),
    ] {
        let r = s.req("PUT", "/b-1/k4").body(b"x").unsigned(name, value).send().refused(403, "AccessDenied");
        assert_eq!(r.tag("HeadersNotSigned").unwrap(), name.to_ascii_lowercase());
        let r = s.req("PUT", "/b-1/k4").body(b"x").unsigned(name, value).send_presigned("100");
        r.refused(403, "AccessDenied");
    }
    s.get("/b-1/k4").refused(404, "NoSuchKey");
}

#[test]
fn p4_host_must_be_signed_and_duplicates_are_refused() {
    let s = server();
    let (head, _) = s.req("GET", "/b-1/k").wire();
    let without_host = head.replace("SignedHeaders=host;", "SignedHeaders=");
    raw(s.addr, format!("{without_host}connection: close\r\n\r\n").as_bytes())
        .refused(400, "AuthorizationHeaderMalformed");
    for name in ["x-amz-date", "host", "x-amz-content-sha256", "authorization"] {
        let line = head.lines().find(|l| l.to_ascii_lowercase().starts_with(&format!("{name}:"))).unwrap();
        let r = raw(s.addr, format!("{head}{line}\r\nconnection: close\r\n\r\n").as_bytes());
        assert_eq!(r.status, 400, "{name}: {}", r.text());
    }
    // The same line twice in SignedHeaders, upper case, an empty name.
    for (from, to) in [
        ("SignedHeaders=host;", "SignedHeaders=host;host;"),
        ("SignedHeaders=host", "SignedHeaders=Host"),
        ("SignedHeaders=host;", "SignedHeaders=host;;"),
    ] {
        let bent = head.replace(from, to);
        raw(s.addr, format!("{bent}connection: close\r\n\r\n").as_bytes())
            .refused(400, "AuthorizationHeaderMalformed");
    }
    // Folded lines never reach us.
    let folded = head.replace("x-amz-date: ", "x-amz-date:\r\n ");
    assert_eq!(raw(s.addr, format!("{folded}connection: close\r\n\r\n").as_bytes()).status, 400);
}

// ---- 6: dates and scopes

#[test]
fn p6_dates_and_scopes() {
    let s = server();
    let get = || s.req("GET", "/b-1/k");
    get().stamp(-800).send().expect(200);
    get().stamp(800).send().expect(200);
    get().stamp(-1000).send().refused(403, "RequestTimeTooSkewed");
    get().stamp(1000).send().refused(403, "RequestTimeTooSkewed");
    let r = get().set(|r| r.region = "eu-west-1".into()).send().refused(400, "AuthorizationHeaderMalformed");
    assert_eq!(r.tag("Region").unwrap(), "us-east-1");
    get().set(|r| r.service = "ec2".into()).send().refused(400, "AuthorizationHeaderMalformed");
    get().set(|r| r.scope_date = Some("20200101".into())).send().refused(400, "AuthorizationHeaderMalformed");
    for expires in ["0", "-1", "604801", "x", "99999999999999999999", ""] {
        get().send_presigned(expires).refused(400, "AuthorizationQueryParametersError");
    }
    get().send_presigned("1").expect(200);
    get().send_presigned("604800").expect(200);
    get().stamp(-100).send_presigned("60").refused(403, "AccessDenied");
    get().stamp(-100).send_presigned("200").expect(200);
    get().stamp(1000).send_presigned("3000").refused(403, "AccessDenied");
    get()
        .set(|r| r.region = "eu-west-1".into())
        .send_presigned("60")
        .refused(400, "AuthorizationQueryParametersError");
    get()
        .set(|r| r.scope_date = Some("20200101".into()))
        .send_presigned("60")
        .refused(400, "AuthorizationQueryParametersError");
}

#[test]
fn p6_response_overrides_are_signed() {
    let s = server();
    let r = s
        .req("GET", "/b-1/k")
        .q("response-content-type", "text/x")
        .q("response-cache-control", "no-store")
        .send_presigned("60")
        .expect(200);
    assert_eq!((r.header("content-type"), r.header("cache-control")), (Some("text/x"), Some("no-store")));
    // Added afterwards, it breaks the signature; without one there is no answer at all.
    let mut query = s.req("GET", "/b-1/k").presigned_query("60", &[]);
    query.push(("response-content-type".into(), "text/html".into()));
    let target: Vec<String> =
        query.iter().map(|(n, v)| format!("{}={}", encode(n, false), encode(v, false))).collect();
    raw(
        s.addr,
        format!("GET /b-1/k?{} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", target.join("&"), s.addr)
            .as_bytes(),
    )
    .refused(403, "SignatureDoesNotMatch");
    s.req("GET", "/b-1/k")
        .anonymous()
        .q("response-content-type", "text/x")
        .send()
        .refused(403, "AccessDenied");
    // Nothing can end a header early.
    let r = s.req("GET", "/b-1/k").q("response-content-disposition", "a\r\nx-evil: 1").send();
    assert!(r.header("x-evil").is_none());
}

// ---- 7: no oracle

#[test]
fn p7_unknown_key_and_wrong_secret_have_different_errors() {
    let s = server();
    let wrong = s
        .req("GET", "/b-1/k")
        .set(|r| r.secret = "0".repeat(40))
        .send()
        .refused(403, "SignatureDoesNotMatch");
    let unknown = s
        .req("GET", "/b-1/k")
        .set(|r| r.key = "AKNOBODYNOBODYNOBODY".into())
        .send()
        .refused(403, "InvalidAccessKeyId");
    assert_eq!(unknown.tag("AWSAccessKeyId").as_deref(), Some("AKNOBODYNOBODYNOBODY"));
    // Nor does the answer hold what a right signature would have been.
    let right = s.req("GET", "/b-1/k").wire().0;
    let right = right.split("Signature=").nth(1).unwrap().trim().to_owned();
    assert!(!wrong.text().contains(&right) && !wrong.text().contains(SECRET));
    let wrong = s
        .req("GET", "/b-1/k")
        .set(|r| r.secret = "0".repeat(40))
        .send_presigned("60")
        .refused(403, "SignatureDoesNotMatch");
    let unknown = s
        .req("GET", "/b-1/k")
        .set(|r| r.key = "AKNOBODYNOBODYNOBODY".into())
        .send_presigned("60")
        .refused(403, "InvalidAccessKeyId");
    assert_ne!(wrong.tag("Message"), unknown.tag("Message"));
}

// ---- 8: session tokens: none are issued, so none are taken

#[test]
fn p8_session_tokens_are_refused() {
    let s = server();
    s.req("GET", "/b-1/k").header("x-amz-security-token", "token").send().refused(400, "InvalidToken");
    s.req("GET", "/b-1/k")
        .q("X-Amz-Security-Token", "token")
        .send_presigned("60")
        .refused(400, "InvalidToken");
}
