//! Versions and listings end to end: answers are those of AWS.

use crate::common::*;

#[test]
fn versions_are_listed_and_deleted() {
    let s = versioned();
    assert_eq!(s.req("GET", "/b-1").q("versioning", "").send().expect(200).tag("Status").unwrap(), "Enabled");
    let v1 = s.put("/b-1/k", b"one").expect(200).header("x-amz-version-id").unwrap().to_owned();
    let v2 = s.put("/b-1/k", b"two").expect(200).header("x-amz-version-id").unwrap().to_owned();
    assert_ne!(v1, v2);
    let r = s.req("GET", "/b-1/k").q("versionId", &v1).send().expect(200);
    assert_eq!((r.text(), r.header("x-amz-version-id")), ("one".into(), Some(v1.as_str())));
    let r = s.req("DELETE", "/b-1/k").send().expect(204);
    assert_eq!(r.header("x-amz-delete-marker"), Some("true"));
    let marker = r.header("x-amz-version-id").unwrap().to_owned();
    let r = s.get("/b-1/k").refused(404, "NoSuchKey");
    assert_eq!(
        (r.header("x-amz-delete-marker"), r.header("x-amz-version-id")),
        (Some("true"), Some(marker.as_str()))
    );
    for method in ["GET", "HEAD"] {
        let r = s.req(method, "/b-1/k").q("versionId", &marker).send().expect(405);
        assert_eq!((r.header("x-amz-delete-marker"), r.header("allow")), (Some("true"), Some("DELETE")));
        assert!(r.header("last-modified").is_some());
    }
    s.put("/b-1/a", b"x").expect(200);
    let r = s.req("GET", "/b-1").q("versions", "").send().expect(200);
    // In key order, newest first, markers among versions.
    assert_eq!(r.tags("Key"), ["a", "k", "k", "k"]);
    assert_eq!(r.tags("IsLatest"), ["true", "true", "false", "false"]);
    let order: Vec<usize> =
        ["<DeleteMarker><Key>k", "<Version><Key>k"].iter().map(|t| r.text().find(t).unwrap()).collect();
    assert!(order[0] < order[1] && r.text().find("<Version><Key>a").unwrap() < order[0]);
    // Page by page: everything once.
    let (mut seen, mut key, mut version) = (Vec::new(), String::new(), String::new());
    loop {
        let mut page = s.req("GET", "/b-1").q("versions", "").q("max-keys", "1");
        if !key.is_empty() {
            page = page.q("key-marker", &key).q("version-id-marker", &version);
        }
        let r = page.send().expect(200);
        seen.extend(r.tags("VersionId"));
        if r.tag("IsTruncated").unwrap() == "false" {
            break;
        }
        key = r.tag("NextKeyMarker").unwrap();
        version = r.tag("NextVersionIdMarker").unwrap();
    }
    assert_eq!(seen.len(), 4);
    s.req("GET", "/b-1").q("versions", "").q("version-id-marker", &v1).send().refused(400, "InvalidArgument");
    let r = s.req("DELETE", "/b-1/k").q("versionId", &marker).send().expect(204);
    assert_eq!(r.header("x-amz-delete-marker"), Some("true"));
    assert_eq!(s.get("/b-1/k").expect(200).text(), "two");
    s.req("DELETE", "/b-1/k").q("versionId", &v2).send().expect(204);
    assert_eq!(s.get("/b-1/k").expect(200).text(), "one");
    s.req("GET", "/b-1/k").q("versionId", &v2).send().refused(404, "NoSuchVersion");
    s.req("GET", "/b-1/k").q("versionId", "nonsense").send().refused(400, "InvalidArgument");
    s.req("GET", "/b-1/k").q("versionId", "").send().refused(400, "InvalidArgument");
    // Suspended: the null version.
    s.req("PUT", "/b-1")
        .q("versioning", "")
        .body("<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>")
        .send()
        .expect(200);
    assert_eq!(s.put("/b-1/k", b"null").expect(200).header("x-amz-version-id"), None);
    assert_eq!(s.req("GET", "/b-1/k").q("versionId", "null").send().expect(200).text(), "null");
    assert_eq!(s.req("GET", "/b-1/k").q("versionId", &v1).send().expect(200).text(), "one");
    s.req("PUT", "/b-1")
        .q("versioning", "")
        .body("<VersioningConfiguration><Status>Off</Status></VersioningConfiguration>")
        .send()
        .refused(400, "MalformedXML");
    s.req("DELETE", "/b-1").send().refused(409, "BucketNotEmpty");
}

#[test]
fn objects_are_listed_in_pages() {
    let s = server();
    let keys = ["a", "a/b", "a/b/c", "b//x", "c\rd", "dä", "e&<>\"", "f\u{1}", "z z+%"];
    for key in keys {
        s.put(&format!("/b-1/{key}"), key.as_bytes()).expect(200);
    }
    let r = s.req("GET", "/b-1").q("list-type", "2").send().expect(200);
    assert_eq!(r.tag("KeyCount").unwrap(), "9");
    assert_eq!(r.tag("IsTruncated").unwrap(), "false");
    assert!(r.tag("Owner").is_none() && r.text().contains("<Key>c&#xD;d</Key>"), "{}", r.text());
    assert!(r.text().contains("<StorageClass>STANDARD</StorageClass>") && r.text().contains("<ETag>&quot;"));
    let r = s
        .req("GET", "/b-1")
        .q("list-type", "2")
        .q("encoding-type", "url")
        .q("fetch-owner", "true")
        .send()
        .expect(200);
    assert_eq!(
        r.tags("Key"),
        ["a", "a/b", "a/b/c", "b//x", "c%0Dd", "d%C3%A4", "e%26%3C%3E%22", "f%01", "z%20z%2B%25"]
    );
    assert!(r.tag("Owner").is_some() && r.tag("EncodingType").unwrap() == "url");
    // Delimiter.
    let r = s.req("GET", "/b-1").q("list-type", "2").q("delimiter", "/").send().expect(200);
    let prefixes: Vec<String> = r
        .text()
        .split("<CommonPrefixes>")
        .skip(1)
        .map(|t| t.split("</Prefix>").next().unwrap().replace("<Prefix>", ""))
        .collect();
    assert_eq!(prefixes, ["a/", "b/"]);
    assert_eq!(r.tags("Key").first().unwrap(), "a");
    assert_eq!(r.tag("KeyCount").unwrap(), "8");
    let r = s.req("GET", "/b-1").q("list-type", "2").q("prefix", "a/").q("delimiter", "/").send().expect(200);
    assert_eq!(r.tags("Key"), ["a/b"]);
    // Pages, both versions of the operation.
    for size in [1, 2, 4] {
        let (mut seen, mut token) = (Vec::new(), None::<String>);
        loop {
            let mut page = s
                .req("GET", "/b-1")
                .q("list-type", "2")
                .q("max-keys", &size.to_string())
                .q("encoding-type", "url");
            if let Some(token) = &token {
                page = page.q("continuation-token", token);
            }
            let r = page.send().expect(200);
            seen.extend(r.tags("Key"));
            token = r.tag("NextContinuationToken");
            assert_eq!(r.tag("IsTruncated").unwrap(), token.is_some().to_string());
            if token.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), 9);
        let (mut seen, mut marker) = (Vec::new(), String::new());
        loop {
            let r =
                s.req("GET", "/b-1").q("max-keys", &size.to_string()).q("marker", &marker).send().expect(200);
            seen.extend(r.tags("Key"));
            if r.tag("IsTruncated").unwrap() == "false" {
                break;
            }
            assert!(r.tag("NextMarker").is_none(), "only with a delimiter");
            marker = keys[seen.len() - 1].to_owned();
        }
        assert_eq!(seen.len(), 9);
    }
    let r = s.req("GET", "/b-1").q("max-keys", "2").q("delimiter", "/").send().expect(200);
    assert_eq!(r.tag("NextMarker").unwrap(), "a/");
    let r = s.req("GET", "/b-1").q("list-type", "2").q("start-after", "b//x").send().expect(200);
    assert_eq!((r.tags("Key").len(), r.tag("StartAfter").unwrap()), (5, "b//x".into()));
    let r = s.req("GET", "/b-1").q("list-type", "2").q("max-keys", "0").send().expect(200);
    assert_eq!((r.tag("KeyCount").unwrap(), r.tag("IsTruncated").unwrap()), ("0".into(), "false".into()));
    for (name, value) in [
        ("max-keys", "x"),
        ("max-keys", "-1"),
        ("encoding-type", "x"),
        ("continuation-token", ""),
        ("continuation-token", "%%"),
    ] {
        s.req("GET", "/b-1").q("list-type", "2").q(name, value).send().refused(400, "InvalidArgument");
    }
}

#[test]
fn long_and_unusual_keys_are_supported() {
    let s = server();
    for key in [
        "x".repeat(1024),
        "\u{10ffff}".repeat(256),
        "..".into(),
        ".".into(),
        "../../etc/passwd".into(),
        "a//b".into(),
        "/a".into(),
        "a/".into(),
        "\u{feff}".into(),
    ] {
        s.put(&format!("/b-1/{key}"), key.as_bytes()).expect(200);
        assert_eq!(s.get(&format!("/b-1/{key}")).expect(200).body, key.as_bytes());
        s.req("DELETE", &format!("/b-1/{key}")).send().expect(204);
    }
    s.put(&format!("/b-1/{}", "x".repeat(1025)), b"").refused(400, "KeyTooLongError");
}
