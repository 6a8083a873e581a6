//! Objects end to end: answers are those of AWS.

use crate::common::*;

#[test]
fn buckets_are_created_listed_and_deleted() {
    let s = Server::start();
    let r = s.req("PUT", "/b-1").send().expect(200);
    assert_eq!(r.header("location"), Some("/b-1"));
    s.req("PUT", "/b-1").send().refused(409, "BucketAlreadyOwnedByYou");
    s.req("PUT", "/Bad_Name").send().refused(400, "InvalidBucketName");
    s.req("PUT", "/minio").send().refused(409, "BucketAlreadyExists");
    let conf = |l: &str| {
        format!(
            "<CreateBucketConfiguration><LocationConstraint>{l}</LocationConstraint></CreateBucketConfiguration>"
        )
    };
    s.req("PUT", "/b-2").body(conf("us-east-1")).send().expect(200);
    s.req("PUT", "/b-3").body(conf("eu-west-1")).send().refused(400, "InvalidLocationConstraint");
    s.req("PUT", "/b-3")
        .header("x-amz-bucket-object-lock-enabled", "perhaps")
        .send()
        .refused(400, "InvalidArgument");
    let r = s.get("/").expect(200);
    assert_eq!(r.tags("Name"), ["b-1", "b-2"]);
    assert!(
        r.text().contains(
            "<ListAllMyBucketsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Owner><ID>"
        )
    );
    let r = s.req("GET", "/").q("max-buckets", "1").send().expect(200);
    let token = r.tag("ContinuationToken").unwrap();
    let r = s.req("GET", "/").q("max-buckets", "1").q("continuation-token", &token).send().expect(200);
    assert_eq!((r.tags("Name"), r.tag("ContinuationToken")), (vec!["b-2".to_owned()], None));
    let r = s.req("HEAD", "/b-1").send().expect(200);
    assert_eq!(r.header("x-amz-bucket-region"), Some("us-east-1"));
    assert!(s.req("HEAD", "/nope").send().expect(404).body.is_empty());
    let r = s.req("GET", "/b-1").q("location", "").send().expect(200);
    assert!(
        r.text().ends_with(
            "<LocationConstraint xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"></LocationConstraint>"
        ),
        "{}",
        r.text()
    );
    s.req("GET", "/b-1").q("tagging", "").send().refused(404, "NoSuchTagSet");
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>";
    s.req("PUT", "/b-1").q("tagging", "").body(tags).send().expect(204);
    assert_eq!(s.req("GET", "/b-1").q("tagging", "").send().expect(200).tag("Value").unwrap(), "1");
    s.req("DELETE", "/b-1").q("tagging", "").send().expect(204);
    s.req("GET", "/b-1").q("tagging", "").send().refused(404, "NoSuchTagSet");
    s.put("/b-1/k", b"x").expect(200);
    s.req("DELETE", "/b-1").send().refused(409, "BucketNotEmpty");
    s.req("DELETE", "/b-1/k").send().expect(204);
    s.req("DELETE", "/b-1").send().expect(204);
    s.req("DELETE", "/b-1").send().refused(404, "NoSuchBucket");
    s.get("/b-1").refused(404, "NoSuchBucket");
    s.put("/b-1/k", b"x").refused(404, "NoSuchBucket");
}

#[test]
fn missing_buckets_and_keys_are_named() {
    let s = server();
    s.put("/b-1/k", b"x").expect(200);
    for name in ["replication", "inventory", "accelerate", "analytics"] {
        for method in ["PUT", "DELETE"] {
            let r = s.req(method, "/b-1").q(name, "").send().refused(501, "NotImplemented");
            assert!(r.tag("Message").unwrap().contains(name), "{}", r.text());
        }
    }
    for name in ["select", "restore", "torrent"] {
        s.req("POST", "/b-1/k").q(name, "").send().refused(501, "NotImplemented");
        s.req("PUT", "/b-1/k").q(name, "").send().refused(501, "NotImplemented");
    }
    let sealed = s.req("PUT", "/b-1/k2").body(b"x").header("x-amz-server-side-encryption", "AES256");
    sealed.send().refused(501, "NotImplemented");
    s.req("PUT", "/b-1/k2")
        .header("x-amz-acl", "public-read")
        .send()
        .refused(400, "AccessControlListNotSupported");
    s.req("PUT", "/b-1/k2")
        .header("x-amz-storage-class", "GLACIER")
        .send()
        .refused(400, "InvalidStorageClass");
    s.req("PUT", "/b-1/k2").header("x-amz-expected-bucket-owner", "123").send().refused(403, "AccessDenied");
    s.get("/b-1/k2").refused(404, "NoSuchKey");
    let r = s.req("GET", "/b-1").q("acl", "").send().expect(200);
    assert_eq!(r.tags("Permission"), ["FULL_CONTROL"]);
    s.req("PUT", "/b-1").q("acl", "").header("x-amz-acl", "private").send().expect(200);
    s.req("PUT", "/b-1/k").q("acl", "").body(r.body).send().expect(200);
    let public = "<AccessControlPolicy><AccessControlList><Grant><Grantee><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee><Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>";
    s.req("PUT", "/b-1/k").q("acl", "").body(public).send().refused(400, "AccessControlListNotSupported");
}

#[test]
fn put_get_head_delete() {
    let s = server();
    let data = noise(300_000, 1);
    let r = s
        .req("PUT", "/b-1/dir/k")
        .body(&data)
        .header("content-type", "text/plain")
        .header("cache-control", "max-age=1")
        .header("content-disposition", "attachment")
        .header("content-encoding", "gzip")
        .header("content-language", "de")
        .header("expires", "whenever")
        .header("x-amz-meta-Colour", "Blau")
        .header("x-amz-meta-umlaut", "gr\u{fc}n")
        .header("x-amz-tagging", "a=1&b=c%20d")
        .send()
        .expect(200);
    let etag = format!("\"{}\"", md5_hex(&data));
    assert_eq!(r.header("etag"), Some(etag.as_str()));
    assert_eq!(
        r.header("x-amz-checksum-crc64nvme"),
        Some(checksum("CRC64NVME", &data).as_str()),
        "AWS computes it by default"
    );
    assert_eq!(r.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
    assert!(r.header("x-amz-version-id").is_none());
    for method in ["GET", "HEAD"] {
        let r = s.req(method, "/b-1/dir/k").send().expect(200);
        for (name, value) in [
            ("etag", etag.as_str()),
            ("content-length", "300000"),
            ("accept-ranges", "bytes"),
            ("content-type", "text/plain"),
            ("cache-control", "max-age=1"),
            ("content-disposition", "attachment"),
            ("content-encoding", "gzip"),
            ("content-language", "de"),
            ("expires", "whenever"),
            ("x-amz-meta-colour", "Blau"),
            ("x-amz-meta-umlaut", "=?UTF-8?B?Z3LDvG4=?="),
            ("x-amz-tagging-count", "2"),
            ("server", "Ashlar"),
        ] {
            assert_eq!(r.header(name), Some(value), "{method} {name}");
        }
        assert!(r.header("last-modified").unwrap().ends_with(" GMT"));
        assert!(
            r.header("x-amz-request-id").is_some()
                && r.header("x-amz-id-2").is_some()
                && r.header("date").is_some()
        );
        assert!(r.header("x-amz-checksum-crc64nvme").is_none(), "only when asked for");
        if method == "GET" {
            assert_eq!(r.body, data);
        } else {
            assert!(r.body.is_empty());
        }
    }
    let r = s.req("HEAD", "/b-1/dir/k").header("x-amz-checksum-mode", "ENABLED").send().expect(200);
    assert!(r.header("x-amz-checksum-crc64nvme").is_some());
    s.put("/b-1/empty", b"").expect(200);
    let r = s.get("/b-1/empty").expect(200);
    assert_eq!(
        (r.header("content-length"), r.header("content-type")),
        (Some("0"), Some("binary/octet-stream"))
    );
    s.req("DELETE", "/b-1/dir/k").send().expect(204);
    s.req("DELETE", "/b-1/dir/k").send().expect(204);
    let r = s.get("/b-1/dir/k").refused(404, "NoSuchKey");
    assert_eq!(r.tag("Key").unwrap(), "dir/k");
    assert!(s.req("HEAD", "/b-1/dir/k").send().expect(404).body.is_empty());
}

#[test]
fn checksums_in_header_and_trailer_are_verified() {
    let s = server();
    let data = noise(50_000, 7);
    for algorithm in ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"] {
        let name = format!("x-amz-checksum-{}", algorithm.to_ascii_lowercase());
        let sum = checksum(algorithm, &data);
        for mode in [Mode::Hash, Mode::Unsigned, Mode::UnsignedTrailer, Mode::SignedTrailer] {
            let trailing = matches!(mode, Mode::UnsignedTrailer | Mode::SignedTrailer);
            let request = |sum: &str| {
                let r = s
                    .req("PUT", "/b-1/c")
                    .body(&data)
                    .mode(mode)
                    .header("x-amz-sdk-checksum-algorithm", algorithm);
                if trailing { r.trailer(&name, sum) } else { r.header(&name, sum) }
            };
            let r = request(&sum).send().expect(200);
            assert_eq!(r.header(&name), Some(sum.as_str()));
            let r = s.req("GET", "/b-1/c").header("x-amz-checksum-mode", "ENABLED").send().expect(200);
            assert_eq!(
                (r.header(&name), r.header("x-amz-checksum-type")),
                (Some(sum.as_str()), Some("FULL_OBJECT"))
            );
            assert_eq!(r.body, data);
            s.req("DELETE", "/b-1/c").send().expect(204);
            request(&checksum(algorithm, b"other")).send().refused(400, "BadDigest");
            request("AAAA").send().refused(400, "InvalidRequest");
            s.get("/b-1/c").refused(404, "NoSuchKey");
        }
    }
    s.req("PUT", "/b-1/c").body(b"x").header("content-md5", md5_base64(b"x")).send().expect(200);
    s.req("PUT", "/b-1/c")
        .body(b"x")
        .header("content-md5", md5_base64(b"y"))
        .send()
        .refused(400, "BadDigest");
    s.req("PUT", "/b-1/c").body(b"x").header("content-md5", "zzz").send().refused(400, "InvalidDigest");
    s.req("PUT", "/b-1/c")
        .body(b"x")
        .header("x-amz-sdk-checksum-algorithm", "CRC32")
        .send()
        .refused(400, "InvalidRequest");
    s.req("PUT", "/b-1/c")
        .body(b"x")
        .header("x-amz-sdk-checksum-algorithm", "MD4")
        .send()
        .refused(400, "InvalidRequest");
}

#[test]
fn ranges_and_parts_are_read() {
    let s = server();
    let data = noise(100_000, 3);
    s.put("/b-1/k", &data).expect(200);
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=99990-", 99_990, 100_000),
        ("bytes=-10", 99_990, 100_000),
        ("bytes=50000-999999", 50_000, 100_000),
    ] {
        let r = s.req("GET", "/b-1/k").header("range", range).send().expect(206);
        assert_eq!(r.header("content-range"), Some(format!("bytes {from}-{}/100000", to - 1).as_str()));
        assert_eq!(r.body, &data[from..to], "{range}");
        let r = s.req("HEAD", "/b-1/k").header("range", range).send().expect(206);
        assert_eq!(r.header("content-length"), Some((to - from).to_string().as_str()));
    }
    for whole in ["bytes=5-1", "octets=0-1", "bytes=0-1,5-6", "bytes=x-y"] {
        assert_eq!(s.req("GET", "/b-1/k").header("range", whole).send().expect(200).body.len(), 100_000);
    }
    for none in ["bytes=100000-", "bytes=-0"] {
        let r = s.req("GET", "/b-1/k").header("range", none).send().refused(416, "InvalidRange");
        assert_eq!(r.header("content-range"), Some("bytes */100000"));
        assert_eq!(r.tag("ActualObjectSize").unwrap(), "100000");
    }
    let etag = s.get("/b-1/k").header("etag").unwrap().to_owned();
    s.req("GET", "/b-1/k").header("range", "bytes=0-0").header("if-range", etag.as_str()).send().expect(206);
    s.req("GET", "/b-1/k").header("range", "bytes=0-0").header("if-range", "\"other\"").send().expect(200);
    let r = s.req("GET", "/b-1/k").q("partNumber", "1").send().expect(206);
    assert!(r.body == data && r.header("x-amz-mp-parts-count").is_none());
    s.req("GET", "/b-1/k").q("partNumber", "2").send().refused(416, "InvalidPartNumber");
    s.req("GET", "/b-1/k").q("partNumber", "0").send().refused(400, "InvalidArgument");
    s.req("GET", "/b-1/k")
        .q("partNumber", "1")
        .header("range", "bytes=0-1")
        .send()
        .refused(400, "InvalidRequest");
}

#[test]
fn read_conditions_are_evaluated() {
    let s = server();
    s.put("/b-1/k", b"x").expect(200);
    let r = s.get("/b-1/k");
    let (etag, modified) =
        (r.header("etag").unwrap().to_owned(), r.header("last-modified").unwrap().to_owned());
    let (before, after) = (http_date(-3600), http_date(3600));
    let get = |list: &[(&str, &str)]| {
        let mut r = s.req("GET", "/b-1/k");
        for (name, value) in list {
            r = r.header(name, *value);
        }
        let got = r.send();
        if got.status == 304 {
            assert!(got.body.is_empty() && got.header("etag") == Some(etag.as_str()));
        }
        if got.status == 412 {
            assert_eq!(got.code(), "PreconditionFailed");
        }
        got.status
    };
    let bare = etag.trim_matches('"');
    for (list, want) in [
        (vec![("if-match", etag.as_str())], 200),
        (vec![("if-match", bare)], 200),
        (vec![("if-match", "*")], 200),
        (vec![("if-match", "\"no\", \"either\"")], 412),
        (vec![("if-none-match", etag.as_str())], 304),
        (vec![("if-none-match", "W/\"x\", *")], 200),
        (vec![("if-none-match", "*")], 304),
        (vec![("if-none-match", "\"x\"")], 200),
        (vec![("if-modified-since", modified.as_str())], 304),
        (vec![("if-modified-since", before.as_str())], 200),
        (vec![("if-unmodified-since", modified.as_str())], 200),
        (vec![("if-unmodified-since", before.as_str())], 412),
        (vec![("if-unmodified-since", after.as_str())], 200),
        (vec![("if-match", etag.as_str()), ("if-unmodified-since", before.as_str())], 200),
        (vec![("if-none-match", etag.as_str()), ("if-modified-since", before.as_str())], 304),
        (vec![("if-none-match", "\"x\""), ("if-modified-since", modified.as_str())], 200),
        (vec![("if-modified-since", "not a date")], 200),
    ] {
        assert_eq!(get(&list), want, "{list:?}");
    }
    s.req("GET", "/b-1/none").header("if-match", "\"x\"").send().refused(404, "NoSuchKey");
}

#[test]
fn write_conditions_are_evaluated() {
    let s = server();
    let put = |name: &str, value: &str| s.req("PUT", "/b-1/w").body(b"x").header(name, value).send();
    put("if-match", "\"x\"").refused(404, "NoSuchKey");
    put("if-none-match", "*").expect(200);
    put("if-none-match", "*").refused(412, "PreconditionFailed");
    let etag = s.get("/b-1/w").header("etag").unwrap().to_owned();
    put("if-match", &etag).expect(200);
    put("if-match", "\"0123456789abcdef0123456789abcdef\"").refused(412, "PreconditionFailed");
    s.req("DELETE", "/b-1/w").header("if-match", "\"no\"").send().refused(412, "PreconditionFailed");
    s.req("DELETE", "/b-1/w").header("if-match", etag.as_str()).send().expect(204);
    // One winner among many.
    let winners: Vec<u16> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..16u8)
            .map(|i| {
                let s = s.clone();
                scope.spawn(move || {
                    s.req("PUT", "/b-1/race").body([i; 10]).header("if-none-match", "*").send().status
                })
            })
            .collect();
        racers.into_iter().map(|r| r.join().unwrap()).collect()
    });
    assert_eq!(winners.iter().filter(|w| **w == 200).count(), 1, "{winners:?}");
    assert!(winners.iter().all(|w| matches!(w, 200 | 412 | 409)), "{winners:?}");
}
#[test]
fn multi_delete_removes_many_keys() {
    let s = versioned();
    for i in 0..5 {
        s.put(&format!("/b-1/k{i}"), b"x").expect(200);
    }
    let delete = |inner: &str| {
        let body = format!("<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inner}</Delete>");
        s.req("POST", "/b-1")
            .q("delete", "")
            .body(&body)
            .header("x-amz-checksum-crc32", checksum("CRC32", body.as_bytes()))
            .send()
    };
    let r = delete("<Object><Key>k0</Key></Object><Object><Key>none</Key></Object><Object><Key>k1</Key><VersionId>bad</VersionId></Object>").expect(200);
    assert_eq!(r.tags("Key"), ["k0", "none", "k1"]);
    assert!(r.tag("DeleteMarkerVersionId").is_some());
    assert_eq!(r.tags("Code"), ["NoSuchVersion"]);
    let r = delete("<Quiet>true</Quiet><Object><Key>k2</Key></Object>").expect(200);
    assert!(r.tags("Key").is_empty());
    s.get("/b-1/k2").refused(404, "NoSuchKey");
    let body = "<Delete><Object><Key>k3</Key></Object></Delete>";
    s.req("POST", "/b-1")
        .q("delete", "")
        .body(body)
        .mode(Mode::Unsigned)
        .send()
        .refused(400, "InvalidRequest");
    s.req("POST", "/b-1")
        .q("delete", "")
        .body(body)
        .header("content-md5", md5_base64(b"x"))
        .send()
        .refused(400, "BadDigest");
    s.get("/b-1/k3").expect(200);
}

#[test]
fn objects_are_copied() {
    let s = server();
    s.req("PUT", "/b-1/src ä")
        .body(b"hello")
        .header("x-amz-meta-a", "1")
        .header("content-type", "text/a")
        .header("x-amz-tagging", "t=1")
        .send()
        .expect(200);
    let copy = |to: &str| s.req("PUT", to).header("x-amz-copy-source", "/b-1/src%20%C3%A4");
    let r = copy("/b-1/dst").send().expect(200);
    assert!(
        r.text().contains("<CopyObjectResult")
            && r.tag("ETag").unwrap() == format!("&quot;{}&quot;", md5_hex(b"hello"))
    );
    let r = s.get("/b-1/dst").expect(200);
    assert_eq!(
        (r.header("x-amz-meta-a"), r.header("content-type"), r.header("x-amz-tagging-count")),
        (Some("1"), Some("text/a"), Some("1"))
    );
    copy("/b-1/dst")
        .header("x-amz-metadata-directive", "REPLACE")
        .header("x-amz-tagging-directive", "REPLACE")
        .header("x-amz-meta-b", "2")
        .send()
        .expect(200);
    let r = s.get("/b-1/dst").expect(200);
    assert_eq!(
        (r.header("x-amz-meta-a"), r.header("x-amz-meta-b"), r.header("x-amz-tagging-count")),
        (None, Some("2"), None)
    );
    copy("/b-1/src ä").send().refused(400, "InvalidRequest");
    copy("/b-1/src ä").header("x-amz-metadata-directive", "REPLACE").send().expect(200);
    copy("/b-1/dst").header("x-amz-metadata-directive", "MAYBE").send().refused(400, "InvalidArgument");
    let etag = format!("\"{}\"", md5_hex(b"hello"));
    let (before, after) = (http_date(-3600), http_date(3600));
    for (name, value, status) in [
        ("x-amz-copy-source-if-match", etag.as_str(), 200),
        ("x-amz-copy-source-if-match", "\"x\"", 412),
        ("x-amz-copy-source-if-none-match", etag.as_str(), 412),
        ("x-amz-copy-source-if-none-match", "\"x\"", 200),
        ("x-amz-copy-source-if-modified-since", before.as_str(), 200),
        ("x-amz-copy-source-if-modified-since", after.as_str(), 412),
        ("x-amz-copy-source-if-unmodified-since", before.as_str(), 412),
        ("x-amz-copy-source-if-unmodified-since", after.as_str(), 200),
        ("if-none-match", "*", 412),
        ("if-match", etag.as_str(), 200),
    ] {
        assert_eq!(copy("/b-1/dst").header(name, value).send().status, status, "{name}: {value}");
    }
    s.req("PUT", "/b-1/d").header("x-amz-copy-source", "/b-1/none").send().refused(404, "NoSuchKey");
    s.req("PUT", "/b-1/d").header("x-amz-copy-source", "/nobucket/k").send().refused(404, "NoSuchBucket");
    for bad in ["", "/", "b-1", "/b-1/", "%zz/k"] {
        s.req("PUT", "/b-1/d").header("x-amz-copy-source", bad).send().refused(400, "InvalidArgument");
    }
    copy("/b-1/sum").header("x-amz-checksum-algorithm", "SHA256").send().expect(200);
    let r = s.req("HEAD", "/b-1/sum").header("x-amz-checksum-mode", "ENABLED").send().expect(200);
    assert_eq!(r.header("x-amz-checksum-sha256"), Some(checksum("SHA256", b"hello").as_str()));
}

#[test]
fn tags_and_attributes_are_returned() {
    let s = versioned();
    let v1 = s.put("/b-1/k", b"x").expect(200).header("x-amz-version-id").unwrap().to_owned();
    s.put("/b-1/k", b"yy").expect(200);
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>ä &amp; b</Value></Tag></TagSet></Tagging>";
    s.req("PUT", "/b-1/k")
        .q("tagging", "")
        .q("versionId", &v1)
        .body(tags.replace("&amp;", "+"))
        .send()
        .expect(200);
    let r = s.req("GET", "/b-1/k").q("tagging", "").q("versionId", &v1).send().expect(200);
    assert_eq!((r.tag("Value").unwrap(), r.header("x-amz-version-id")), ("ä + b".into(), Some(v1.as_str())));
    assert!(s.req("GET", "/b-1/k").q("tagging", "").send().expect(200).tag("Tag").is_none());
    s.req("DELETE", "/b-1/k").q("tagging", "").q("versionId", &v1).send().expect(204);
    assert!(
        s.req("GET", "/b-1/k").q("tagging", "").q("versionId", &v1).send().expect(200).tag("Tag").is_none()
    );
    s.req("PUT", "/b-1/k").q("tagging", "").body(tags).send().refused(400, "InvalidTag");
    s.req("GET", "/b-1/none").q("tagging", "").send().refused(404, "NoSuchKey");
    let r = s
        .req("GET", "/b-1/k")
        .q("attributes", "")
        .header("x-amz-object-attributes", "ETag,ObjectSize,StorageClass,Checksum")
        .send()
        .expect(200);
    assert_eq!(
        (r.tag("ObjectSize").unwrap(), r.tag("StorageClass").unwrap()),
        ("2".into(), "STANDARD".into())
    );
    assert_eq!(r.tag("ETag").unwrap(), md5_hex(b"yy"));
    assert_eq!(r.tag("ChecksumCRC64NVME").unwrap(), checksum("CRC64NVME", b"yy"));
    s.req("GET", "/b-1/k").q("attributes", "").send().refused(400, "InvalidRequest");
    s.req("GET", "/b-1/k")
        .q("attributes", "")
        .header("x-amz-object-attributes", "Colour")
        .send()
        .refused(400, "InvalidArgument");
}
