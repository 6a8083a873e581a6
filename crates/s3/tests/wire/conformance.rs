//! Requests of AWS's and MinIO's own clients, and the answers that they expect.

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

/// SDKs send one header in several lines, which count as one list.
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

/// Content-Encoding keeps its space.
#[test]
fn content_encoding_is_stored_as_sent() {
    let s = server();
    for (given, kept) in [("gzip, br", "gzip, br"), ("gzip,br", "gzip,br")] {
        s.req("PUT", "/b-1/k").header("content-encoding", given).body("x").send().expect(200);
        assert_eq!(s.get("/b-1/k").expect(200).header("content-encoding"), Some(kept));
    }
}

/// A list that is not truncated names no next marker.
#[test]
fn next_marker_is_returned_only_for_truncated_lists() {
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

/// A sub-resource is never passed over.
#[test]
fn subresource_with_wrong_method_changes_nothing() {
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

/// Botocore signs `/bucket/` for a bucket; version 2 can be switched off.
#[test]
fn signature_v2_covers_subresources_and_can_be_disabled() {
    let s = server();
    let body =
        "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>";
    for sub in ["ownershipControls", "policyStatus", "events", "renameObject", "abac", "encryption"] {
        // Signed for the bucket alone: another party added the sub-resource.
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

/// Any region is taken unless one is configured.
#[test]
fn any_region_is_accepted_unless_one_is_configured() {
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

/// CreateBucket takes tags.
#[test]
fn bucket_is_created_with_tags() {
    let w = World::new();
    let body = "<CreateBucketConfiguration><Tags><Tag><Key>team</Key><Value>red</Value></Tag></Tags></CreateBucketConfiguration>";
    w.root("PUT", "/b-3").body(body).send().expect(200);
    let tags = w.root("GET", "/b-3").q("tagging", "").send().expect(200);
    assert_eq!((tags.tag("Key").as_deref(), tags.tag("Value").as_deref()), (Some("team"), Some("red")));
    let twice = body.replace("</Tags>", "<Tag><Key>team</Key><Value>blue</Value></Tag></Tags>");
    w.root("PUT", "/b-4").body(twice).send().refused(400, "InvalidTag");
    w.root("HEAD", "/b-4").send().expect(404);
    // Tags take the permission to tag.
    w.user("maker", &allow("\"s3:CreateBucket\"", "arn:aws:s3:::*"));
    w.by("maker", "PUT", "/b-4").body(body).send().refused(403, "AccessDenied");
    w.by("maker", "PUT", "/b-4").send().expect(200);
}

/// A bucket policy may use one Sid twice, as in AWS.
#[test]
fn bucket_policy_statements_may_share_a_sid() {
    let s = server();
    let one = r#"{"Sid":"s","Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b-1/*"}"#;
    let policy = format!(r#"{{"Version":"2012-10-17","Statement":[{one},{one}]}}"#);
    s.req("PUT", "/b-1").q("policy", "").body(&policy).send().expect(204);
    assert_eq!(s.req("GET", "/b-1").q("policy", "").send().expect(200).text(), policy);
}

/// No checksum that a client sends is ignored.
#[test]
fn checksums_of_all_kinds_are_verified_stored_and_returned() {
    let s = server();
    let all = [
        "CRC32",
        "CRC32C",
        "CRC64NVME",
        "SHA1",
        "SHA256",
        "SHA512",
        "MD5",
        "XXHASH64",
        "XXHASH3",
        "XXHASH128",
    ];
    for name in all {
        let header = format!("x-amz-checksum-{}", name.to_lowercase());
        let sum = checksum(name, b"hello");
        let put = |sum: &str| s.req("PUT", "/b-1/k").body("hello").header(&header, sum).send();
        let made = put(&sum).expect(200);
        assert_eq!(made.header(&header), Some(sum.as_str()), "{name}");
        assert_eq!(made.header("x-amz-checksum-type"), Some("FULL_OBJECT"), "{name}");
        put(&checksum(name, b"other")).refused(400, "BadDigest");
        put("AAAA").refused(400, "InvalidRequest");
        let got = s.req("GET", "/b-1/k").header("x-amz-checksum-mode", "ENABLED").send().expect(200);
        assert_eq!(got.header(&header), Some(sum.as_str()), "{name}");
        let told = s.req("GET", "/b-1/k").q("attributes", "").header("x-amz-object-attributes", "Checksum");
        assert_eq!(told.send().expect(200).tag(&format!("Checksum{name}")), Some(sum.clone()));
        let listed = s.req("GET", "/b-1").q("list-type", "2").q("prefix", "k").send().expect(200);
        assert_eq!(listed.tag("ChecksumAlgorithm").as_deref(), Some(name));
        // At the end of the body.
        let trailing =
            s.req("PUT", "/b-1/k").body("hello").mode(Mode::UnsignedTrailer).trailer(&header, &sum);
        trailing.header("x-amz-sdk-checksum-algorithm", name).send().expect(200);
        // Of a copy, computed.
        let copy = s.req("PUT", "/b-1/copy").header("x-amz-copy-source", "b-1/k");
        let copied = copy.header("x-amz-checksum-algorithm", name).send().expect(200);
        assert_eq!(copied.tag(&format!("Checksum{name}")), Some(sum.clone()));
    }
    for name in ["SHA512", "MD5", "XXHASH64", "XXHASH3", "XXHASH128"] {
        let create = |kind: Option<&str>| {
            let r = s.req("POST", "/b-1/big").q("uploads", "").header("x-amz-checksum-algorithm", name);
            kind.into_iter().fold(r, |r, kind| r.header("x-amz-checksum-type", kind)).send()
        };
        create(Some("FULL_OBJECT")).refused(400, "InvalidRequest");
        let made = create(None).expect(200);
        assert_eq!(made.header("x-amz-checksum-type"), Some("COMPOSITE"));
        let id = made.tag("UploadId").unwrap();
        let header = format!("x-amz-checksum-{}", name.to_lowercase());
        let parts = [noise(5 << 20, 1), noise(100, 2)];
        let (mut list, mut sums) = (String::new(), Vec::new());
        for (i, part) in parts.iter().enumerate() {
            let (number, sum) = ((i + 1).to_string(), checksum(name, part));
            let put = s.req("PUT", "/b-1/big").q("partNumber", &number).q("uploadId", &id);
            let put = put.body(part).header(&header, &sum).send().expect(200);
            let etag = put.header("etag").unwrap();
            list += &format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag><Checksum{name}>{sum}</Checksum{name}></Part>"
            );
            sums.extend(base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &sum).unwrap());
        }
        let complete = |list: &str| {
            let body = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
            s.req("POST", "/b-1/big").q("uploadId", &id).body(body).send()
        };
        // A composite upload is completed with the parts' checksums.
        let bare: String = list
            .split("<Checksum")
            .map(|t| t.split_once("</Checksum").map_or(t, |(_, r)| &r[name.len() + 1..]))
            .collect();
        assert!(!bare.contains("Checksum"), "{bare}");
        complete(&bare).refused(400, "InvalidRequest");
        let done = complete(&list).expect(200);
        assert_eq!(done.tag(&format!("Checksum{name}")), Some(format!("{}-2", checksum(name, &sums))));
    }
}

/// `x-amz-expected-bucket-owner` may be the account id that GetCallerIdentity answers.
#[test]
fn expected_owner_may_be_the_account() {
    let s = server();
    let get = |owner: &str| s.req("HEAD", "/b-1").header("x-amz-expected-bucket-owner", owner).send().status;
    assert_eq!([get(&"0".repeat(64)), get(ashlar_iam::ACCOUNT), get("123456789012")], [200, 200, 403]);
}

/// CopyObject keeps `x-amz-storage-class`.
#[test]
fn copy_has_the_requested_storage_class() {
    let s = server();
    s.put("/b-1/k", b"hello").expect(200);
    let copy = |to: &str, class: Option<&str>| {
        let r = s.req("PUT", to).header("x-amz-copy-source", "b-1/k");
        class.into_iter().fold(r, |r, c| r.header("x-amz-storage-class", c)).send()
    };
    let class =
        |path: &str| s.req("HEAD", path).send().expect(200).header("x-amz-storage-class").map(str::to_owned);
    copy("/b-1/c", Some("REDUCED_REDUNDANCY")).expect(200);
    assert_eq!(class("/b-1/c").as_deref(), Some("REDUCED_REDUNDANCY"));
    copy("/b-1/k", None).refused(400, "InvalidRequest");
    copy("/b-1/k", Some("REDUCED_REDUNDANCY")).expect(200);
    assert_eq!(
        (class("/b-1/k").as_deref(), s.get("/b-1/k").body),
        (Some("REDUCED_REDUNDANCY"), b"hello".to_vec())
    );
    // It is not copied: a copy that does not ask is STANDARD.
    copy("/b-1/d", None).expect(200);
    assert_eq!(class("/b-1/d"), None);
}

/// After DeleteBucketOwnershipControls there is none to get.
#[test]
fn deleted_ownership_controls_are_not_found() {
    let s = server();
    s.req("GET", "/b-1").q("ownershipControls", "").send().expect(200);
    s.req("DELETE", "/b-1").q("ownershipControls", "").send().expect(204);
    s.req("GET", "/b-1").q("ownershipControls", "").send().refused(404, "OwnershipControlsNotFoundError");
    s.req("DELETE", "/b-1").q("ownershipControls", "").send().expect(204);
    // What held by default still holds.
    s.req("PUT", "/b-1/k")
        .header("x-amz-acl", "public-read")
        .send()
        .refused(400, "AccessControlListNotSupported");
    let on =
        "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>";
    s.req("PUT", "/b-1").q("ownershipControls", "").body(on).send().expect(200);
    s.req("GET", "/b-1").q("ownershipControls", "").send().expect(200);
}

/// UploadPart, Abort and Complete on a missing bucket answer NoSuchBucket.
#[test]
fn uploads_in_a_missing_bucket_are_not_found() {
    let s = server();
    for (method, body) in [("PUT", "x"), ("DELETE", ""), ("POST", "<x/>"), ("GET", "")] {
        for bucket in ["b-9", "b-1"] {
            let code = if bucket == "b-9" { "NoSuchBucket" } else { "NoSuchUpload" };
            let r = s.req(method, &format!("/{bucket}/k")).q("uploadId", "nonsense").body(body);
            let r = if method == "PUT" { r.q("partNumber", "1") } else { r };
            r.send().refused(404, code);
        }
    }
}

/// With suspended versioning a PUT returns no version id, as in AWS.
#[test]
fn put_of_the_null_version_returns_no_version_id() {
    let s = versioned();
    let off = "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";
    s.req("PUT", "/b-1").q("versioning", "").body(off).send().expect(200);
    assert_eq!(s.put("/b-1/k", b"x").expect(200).header("x-amz-version-id"), None);
    assert_eq!(s.get("/b-1/k").expect(200).header("x-amz-version-id"), Some("null"));
    let copied = s.req("PUT", "/b-1/c").header("x-amz-copy-source", "b-1/k").send().expect(200);
    assert_eq!(copied.header("x-amz-version-id"), None);
    let gone = s.req("DELETE", "/b-1/k").send().expect(204);
    assert_eq!(gone.header("x-amz-version-id"), Some("null"));
}

/// A PUT with an ETag in If-None-Match is not implemented, as in AWS.
#[test]
fn if_none_match_of_a_write_accepts_only_a_star() {
    let s = server();
    let etag = s.put("/b-1/k", b"x").expect(200).header("etag").unwrap().to_owned();
    let put = |value: &str| s.req("PUT", "/b-1/k").body("y").header("if-none-match", value).send();
    put(&etag).refused(501, "NotImplemented");
    put("\"other\"").refused(501, "NotImplemented");
    put("*").refused(412, "PreconditionFailed");
    assert_eq!(s.get("/b-1/k").body, b"x");
}

/// A bad retention mode is MalformedXML.
#[test]
fn retention_with_an_invalid_mode_is_malformed() {
    let s = Server::start();
    s.req("PUT", "/b-1").header("x-amz-bucket-object-lock-enabled", "true").send().expect(200);
    s.put("/b-1/k", b"x").expect(200);
    let body =
        "<Retention><Mode>FOREVER</Mode><RetainUntilDate>2100-01-01T00:00:00Z</RetainUntilDate></Retention>";
    s.req("PUT", "/b-1/k").q("retention", "").body(body).send().refused(400, "MalformedXML");
}

/// What is wrong with a website configuration is said with AWS's codes, and errors of websites
/// carry their code in a header.
#[test]
fn website_errors_have_the_codes_of_aws() {
    let s = server();
    let put = |inner: &str| {
        let body = format!("<WebsiteConfiguration>{inner}</WebsiteConfiguration>");
        s.req("PUT", "/b-1").q("website", "").body(body).send()
    };
    let index = "<IndexDocument><Suffix>i</Suffix></IndexDocument>";
    let rule =
        |inner: &str| format!("{index}<RoutingRules><RoutingRule>{inner}</RoutingRule></RoutingRules>");
    for (inner, code) in [
        (String::new(), "InvalidArgument"),
        ("<IndexDocument><Suffix>a/b</Suffix></IndexDocument>".into(), "InvalidArgument"),
        (format!("{index}<ErrorDocument><Key></Key></ErrorDocument>"), "MalformedXML"),
        ("<RedirectAllRequestsTo><Protocol>http</Protocol></RedirectAllRequestsTo>".into(), "MalformedXML"),
        (rule("<Redirect><Protocol>ftp</Protocol></Redirect>"), "InvalidRequest"),
        (rule("<Condition></Condition><Redirect><HostName>h</HostName></Redirect>"), "InvalidRequest"),
        (rule("<Redirect><HttpRedirectCode>200</HttpRedirectCode></Redirect>"), "InvalidRequest"),
        (
            rule(
                "<Redirect><ReplaceKeyWith>a</ReplaceKeyWith><ReplaceKeyPrefixWith>b</ReplaceKeyPrefixWith></Redirect>",
            ),
            "InvalidRequest",
        ),
    ] {
        put(&inner).refused(400, code);
    }
    put(index).expect(200);
    let head = "GET /nothing HTTP/1.1\r\nhost: b-1.website.test\r\nconnection: close\r\n\r\n";
    let r = raw(s.addr, head.as_bytes()).expect(403);
    assert_eq!(r.header("x-amz-error-code"), Some("AccessDenied"));
    assert!(r.header("x-amz-error-message").is_some());
}

/// No extension of MinIO is ignored in silence.
#[test]
fn extensions_of_minio_are_supported() {
    let w = World::new();
    w.root("PUT", "/b-2/k")
        .header("x-amz-meta-team", "red")
        .header("x-amz-tagging", "a=1&b=2")
        .body("x")
        .send()
        .expect(200);
    let plain = w.root("GET", "/b-2").q("list-type", "2").send().expect(200);
    assert!(!plain.text().contains("UserMetadata"));
    let list = |r: Req| r.q("list-type", "2").q("metadata", "true").send().expect(200);
    let shown = list(w.root("GET", "/b-2"));
    assert_eq!(shown.tag("X-Amz-Meta-Team").as_deref(), Some("red"), "{}", shown.text());
    assert_eq!(shown.tag("UserTags").as_deref(), Some("a=1&amp;b=2"));
    let versions = w.root("GET", "/b-2").q("versions", "").q("metadata", "true").send().expect(200);
    assert_eq!(versions.tag("X-Amz-Meta-Team").as_deref(), Some("red"));
    // Not for callers who may list but not read.
    w.user("alice", &allow("\"s3:ListBucket\"", "arn:aws:s3:::b-2"));
    assert!(!list(w.by("alice", "GET", "/b-2")).text().contains("Team"));
    // A bucket with everything in it: versions and delete markers.
    w.root("PUT", "/b-1/k").body("2").send().expect(200);
    w.root("DELETE", "/b-1/k").send().expect(204);
    w.user("alice", &allow("\"s3:DeleteBucket\"", "arn:aws:s3:::*"));
    let force = |r: Req| r.header("x-minio-force-delete", "true").send();
    force(w.by("alice", "DELETE", "/b-1")).refused(403, "AccessDenied");
    w.root("DELETE", "/b-1").send().refused(409, "BucketNotEmpty");
    force(w.root("DELETE", "/b-1")).expect(204);
    w.root("GET", "/b-1").send().refused(404, "NoSuchBucket");
    force(w.root("DELETE", "/b-2/k")).refused(501, "NotImplemented");
    w.root("GET", "/b-2/k").send().expect(200);
    w.root("PUT", "/b-3").header("x-amz-bucket-object-lock-enabled", "true").send().expect(200);
    force(w.root("DELETE", "/b-3")).refused(405, "MethodNotAllowed");
}
