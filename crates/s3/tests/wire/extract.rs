//! Archives that are unpacked by a PUT ("snowball auto extract").

use std::io::Write as _;

use crate::common::*;
use ashlar_object::feed::WatchEvent;
use ashlar_s3::archive::fuzzed::entry;
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};

const EXTRACT: &str = "x-amz-meta-snowball-auto-extract";
const PREFIX: &str = "x-amz-meta-minio-snowball-prefix";
const IGNORE_DIRS: &str = "x-amz-meta-minio-snowball-ignore-dirs";
const IGNORE_ERRORS: &str = "x-amz-meta-minio-snowball-ignore-errors";

fn file(name: &str, content: impl AsRef<[u8]>) -> Vec<u8> {
    entry(name, b'0', content.as_ref())
}

/// A file with records of a pax header.
fn with(records: &[(&str, &str)], file: Vec<u8>) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let length = (rest..).find(|n| n.to_string().len() + rest == *n).unwrap();
        text.extend_from_slice(format!("{length} {key}={value}\n").as_bytes());
    }
    [entry("pax", b'x', &text), file].concat()
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(plain).unwrap();
    gzip.finish().unwrap()
}

fn put(r: Req, archive: impl AsRef<[u8]>) -> Req {
    r.header(EXTRACT, "true").body(archive)
}

fn send(s: &Server, archive: impl AsRef<[u8]>) -> Resp {
    put(s.req("PUT", "/b-1/archive.tar"), archive).send()
}

/// All keys of a bucket.
fn keys(s: &Server, bucket: &str) -> Vec<String> {
    s.req("GET", &format!("/{bucket}")).q("list-type", "2").send().expect(200).tags("Key")
}

#[test]
fn entries_become_objects() {
    let s = server();
    let big = noise(3_000_000, 5);
    let archive = [
        entry("./", b'5', b""),
        file("./a", "one"),
        file("/b//c", "two"),
        entry("folder/", b'5', b""),
        entry("link", b'2', b""),
        file("big", &big),
        file("empty", ""),
        file("a", "one again"),
        vec![0; 1024],
    ]
    .concat();
    let r = put(s.req("PUT", "/b-1/archive.tar"), &archive)
        .header(PREFIX, "/in//to")
        .header("content-type", "application/x-tar")
        .header("x-amz-meta-team", "red")
        .header("cache-control", "no-cache")
        .header("x-amz-tagging", "k=v")
        .send()
        .expect(200);
    assert_eq!(
        r.header("etag").unwrap(),
        format!("\"{}\"", md5_hex(&archive)),
        "of the archive, as with MinIO"
    );
    assert_eq!(keys(&s, "b-1"), ["in/to/a", "in/to/b/c", "in/to/big", "in/to/empty", "in/to/folder/"]);
    let a = s.get("/b-1/in/to/a").expect(200);
    assert_eq!(a.text(), "one again", "the last of a name counts");
    assert_eq!(a.header("etag").unwrap(), format!("\"{}\"", md5_hex(b"one again")));
    assert_eq!(
        a.header("content-type"),
        Some("binary/octet-stream"),
        "that of the archive says nothing of it"
    );
    assert_eq!((a.header("x-amz-meta-team"), a.header("cache-control")), (Some("red"), Some("no-cache")));
    assert_eq!(a.header("x-amz-tagging-count"), Some("1"));
    assert!(a.headers.iter().all(|(name, _)| !name.contains("snowball")), "{:?}", a.headers);
    assert_eq!(s.get("/b-1/in/to/b/c").text(), "two");
    assert!(s.get("/b-1/in/to/big").expect(200).body == big);
    assert_eq!(s.get("/b-1/in/to/empty").expect(200).body, b"");
    let store = &s.service.context().store;
    let used = store.usage(&store.bucket("b-1").unwrap());
    assert!(used.complete);
    assert_eq!((used.usage.objects, used.usage.bytes), (5, 3_000_000 + 3 + 9));

    // Without the folders; without anything.
    s.make_bucket("b-2");
    put(s.req("PUT", "/b-2/x"), &archive).header(IGNORE_DIRS, "TRUE").send().expect(200);
    assert_eq!(keys(&s, "b-2"), ["a", "b/c", "big", "empty"]);
    for nothing in [vec![], vec![0; 1024]] {
        put(s.req("PUT", "/b-2/x"), nothing).send().expect(200);
    }
    assert_eq!(keys(&s, "b-2").len(), 4);
}

#[test]
fn compressed_archives_are_unpacked() {
    let s = server();
    let mut archive = Vec::new();
    let content = |i: usize| noise(i * 977, i as u64);
    for i in 0..120 {
        archive.extend(file(&format!("k{i:03}"), content(i)));
    }
    archive.extend(file("large", noise(2_500_000, 3)));
    let chunk = |kind: u8, content: &[u8]| {
        [&[kind][..], &(content.len() as u32).to_le_bytes()[..3], content].concat()
    };
    let frames = |id: &[u8], size: usize, pack: fn(&[u8]) -> Vec<u8>| {
        let mut out = chunk(0xff, id);
        for plain in archive.chunks(size) {
            let packed = pack(plain);
            out.extend(chunk(0, &[&minlz::crc::crc(plain).to_le_bytes()[..], &packed].concat()));
        }
        out
    };
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    for (name, packed) in [
        ("gzip", gzip(&archive)),
        ("members", [gzip(&archive[..100_000]), gzip(&archive[100_000..])].concat()),
        ("zstd", ruzstd::encoding::compress_to_vec(&archive[..], level)),
        ("s2", frames(b"S2sTwO", 1 << 20, minlz::s2::encode_better)),
        ("snappy", frames(b"sNaPpY", 1 << 16, minlz::s2::encode_snappy)),
    ] {
        put(s.req("PUT", "/b-1/x"), &packed).header(PREFIX, name).send().expect(200);
        for i in [0, 1, 66, 67, 68, 119] {
            assert!(s.get(&format!("/b-1/{name}/k{i:03}")).expect(200).body == content(i), "{name} {i}");
        }
        assert!(s.get(&format!("/b-1/{name}/large")).expect(200).body == noise(2_500_000, 3), "{name}");
        // Half of it: what had come is stored, and nothing that is not whole.
        let half = format!("{name}-half");
        put(s.req("PUT", "/b-1/x"), &packed[..packed.len() / 2])
            .header(PREFIX, &half)
            .send()
            .refused(400, "BadRequest");
        let stored = keys(&s, "b-1").iter().filter(|k| k.starts_with(&half)).count();
        assert!(stored <= 120, "{name}: {stored}");
        s.req("HEAD", &format!("/b-1/{half}/large")).send().expect(404);
    }
    for (first, name) in
        [(&b"\x04\x22\x4d\x18"[..], "LZ4"), (b"BZh9", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"PK\x03\x04", "zip")]
    {
        let r = send(&s, [first, &[7; 600]].concat()).refused(501, "NotImplemented");
        assert!(r.text().contains(name), "{}", r.text());
    }
    send(&s, "this is not an archive").refused(400, "BadRequest");
    s.req("HEAD", "/b-1/archive.tar").send().expect(404);
}

#[test]
fn entries_may_have_their_own_headers() {
    let s = server();
    let archive = [
        with(
            &[
                ("minio.metadata.Content-Type", "text/plain"),
                ("minio.metadata.X-Amz-Meta-Team", "blue"),
                ("minio.metadata.X-Amz-Tagging", "a=b&c=d"),
            ],
            file("own", "1"),
        ),
        file("plain", "2"),
    ]
    .concat();
    put(s.req("PUT", "/b-1/x"), &archive).header("x-amz-meta-team", "red").send().expect(200);
    let own = s.get("/b-1/own").expect(200);
    assert_eq!(
        (own.header("content-type"), own.header("x-amz-meta-team")),
        (Some("text/plain"), Some("blue"))
    );
    assert_eq!(own.header("x-amz-tagging-count"), Some("2"));
    assert_eq!(s.get("/b-1/plain").header("x-amz-meta-team"), Some("red"));
    for (record, value, status, code) in [
        ("minio.versionId", "2e4a", 501, "NotImplemented"),
        ("minio.metadata.X-Minio-Source-Mtime", "1", 501, "NotImplemented"),
        ("minio.metadata.X-Amz-Acl", "public-read", 501, "NotImplemented"),
        ("minio.metadata.X-Amz-Server-Side-Encryption", "AES256", 501, "NotImplemented"),
        ("minio.metadata.X-Amz-Storage-Class", "COLD", 400, "InvalidStorageClass"),
        ("minio.metadata.X-Amz-Meta-A", "a\u{1}b", 400, "InvalidArgument"),
        ("minio.metadata.X-Amz-Meta-", "x", 400, "InvalidArgument"),
        ("minio.metadata.X-Amz-Tagging", "a=b&a=c", 400, "InvalidTag"),
    ] {
        let r = send(&s, with(&[(record, value)], file("refused", "x")));
        assert_eq!(r.status, status, "{record}: {}", r.text());
        assert_eq!(r.code(), code, "{record}: {}", r.text());
        assert_eq!(r.tag("Key").as_deref(), Some("refused"), "{record}: {}", r.text());
    }
    s.req("HEAD", "/b-1/refused").send().expect(404);
}

#[test]
fn names_and_types_that_cannot_be_stored_are_refused() {
    let s = server();
    let long = "x".repeat(1025);
    let bad: [(Vec<u8>, u16, &str); 9] = [
        (file("../up", "x"), 400, "InvalidArgument"),
        (file("a/../../up", "x"), 400, "InvalidArgument"),
        (file(".", "x"), 400, "InvalidArgument"),
        (file("", "x"), 400, "InvalidArgument"),
        (with(&[("path", "a\0b")], file("x", "x")), 400, "InvalidURI"),
        (with(&[("path", &long)], file("x", "x")), 400, "KeyTooLongError"),
        (entry("hard", b'1', b""), 501, "NotImplemented"),
        (with(&[("GNU.sparse.major", "1")], file("sparse", "x")), 501, "NotImplemented"),
        (entry("volume", b'V', b""), 501, "NotImplemented"),
    ];
    for (i, (entry, status, code)) in bad.iter().enumerate() {
        let r = send(&s, [file("before", "x"), entry.clone(), file("after", "x")].concat());
        assert_eq!((r.status, r.code().as_str()), (*status, *code), "{i}: {}", r.text());
        s.req("HEAD", "/b-1/after").send().expect(404);
        // They are left out, if that is asked for.
        s.make_bucket("b-3");
        let all = [file("before", "x"), entry.clone(), file("after", "x")].concat();
        put(s.req("PUT", "/b-3/x"), all).header(IGNORE_ERRORS, "true").send().expect(200);
        assert_eq!(keys(&s, "b-3"), ["after", "before"], "{i}");
        for key in keys(&s, "b-3") {
            s.req("DELETE", &format!("/b-3/{key}")).send().expect(204);
        }
        s.req("DELETE", "/b-3").send().expect(204);
    }
    let r = send(&s, [file("one", "x"), file("two", "x"), file("../x", "x")].concat());
    assert!(matches!(r.tag("StoredEntries").as_deref(), Some("0" | "1" | "2")), "{}", r.text());
    // One that states more than it has, and more than there may be.
    let mut huge = Header::new_gnu();
    huge.set_path("huge").unwrap();
    huge.set_size(6 << 30);
    huge.set_cksum();
    send(&s, huge.as_bytes()).refused(400, "BadRequest");
    let r = send(&s, gzip(huge.as_bytes())).refused(400, "EntityTooLarge");
    assert_eq!(r.tag("Key").as_deref(), Some("huge"));
    assert!(!keys(&s, "b-1").contains(&"huge".to_owned()));
}

#[test]
fn invalid_archives_are_not_stored_as_objects() {
    let s = server();
    let archive = file("k", "x");
    for (name, value) in [
        ("if-none-match", "*"),
        ("x-amz-write-offset-bytes", "0"),
        ("x-amz-meta-minio-snowball-other", "1"),
        ("x-minio-extract", "true"),
        ("x-amz-server-side-encryption", "aws:kms:dsse"),
    ] {
        let r = put(s.req("PUT", "/b-1/a.tar"), &archive).header(name, value).send();
        r.refused(501, "NotImplemented");
    }
    put(s.req("PUT", "/b-1/a.tar"), &archive).header(PREFIX, "a/../b").send().refused(400, "InvalidArgument");
    put(s.req("PUT", "/none/a.tar"), &archive).send().refused(404, "NoSuchBucket");
    let r = s.req("POST", "/b-1/a.tar").q("uploads", "").header(EXTRACT, "true").send();
    assert!(r.refused(501, "NotImplemented").text().contains("in parts"));
    assert_eq!(keys(&s, "b-1"), Vec::<String>::new());
    // What is not asked for is stored as it is.
    s.req("PUT", "/b-1/a.tar").header(EXTRACT, "false").body(&archive).send().expect(200);
    assert!(s.get("/b-1/a.tar").body == archive);
}

#[test]
fn every_entry_needs_the_permission_for_its_own_key() {
    let w = World::new();
    let s = &w.server;
    let allowed = allow(r#""s3:PutObject""#, "arn:aws:s3:::b-2/in/*");
    let archive = [file("in/a", "1"), file("other", "2"), file("in/b", "3")].concat();
    let by = |user: &str, key: &str, more: &[(&str, &str)]| {
        let r = more.iter().fold(w.by(user, "PUT", key), |r, (n, v)| r.header(n, *v));
        put(r, &archive).send()
    };
    let there = || keys(s, "b-2");
    w.user("ann", &allowed);
    // The archive's own key needs it too, and is not enough.
    by("ann", "/b-2/x.tar", &[]).refused(403, "AccessDenied");
    assert_eq!(there(), ["k"]);
    let r = by("ann", "/b-2/in/x.tar", &[]).refused(403, "AccessDenied");
    assert_eq!(r.tag("Key").as_deref(), Some("other"));
    assert!(!there().contains(&"other".to_owned()) && !there().contains(&"in/b".to_owned()), "{:?}", there());
    // The record of the refusal is about the entry.
    let id = r.header("x-amz-request-id").unwrap();
    let record = w.runtime.block_on(s.service.audit().find(id)).unwrap();
    assert_eq!((record["key"].as_str(), record["action"].as_str()), (Some("other"), Some("s3:PutObject")));
    by("ann", "/b-2/in/x.tar", &[(IGNORE_ERRORS, "true")]).expect(200);
    assert_eq!(there(), ["in/a", "in/b", "k"]);
    by("ann", "/b-2/in/x.tar", &[(PREFIX, "in")]).expect(200);
    assert_eq!(there(), ["in/a", "in/b", "in/in/a", "in/in/b", "in/other", "k"]);

    // A refusal by name of one key holds in an archive.
    let deny = r#"{"Effect":"Deny","Action":["s3:PutObject"],"Resource":["arn:aws:s3:::b-2/in/other"]}"#;
    w.user("bob", &format!("{},{deny}", allow(r#""s3:PutObject""#, "arn:aws:s3:::b-2/*")));
    let r = by("bob", "/b-2/x.tar", &[(PREFIX, "in")]).refused(403, "AccessDenied");
    assert_eq!(r.tag("Key").as_deref(), Some("in/other"));
    // A large entry is judged before it is stored, like a small one.
    let large = file("in/other", noise(200_000, 1));
    put(w.by("bob", "PUT", "/b-2/x.tar"), large).send().refused(403, "AccessDenied");

    // What headers store beside the body needs its own action, on the entry's key; an entry's own headers too.
    let tags = allow(r#""s3:PutObjectTagging""#, "arn:aws:s3:::b-2/x.tar");
    w.user("cat", &format!("{},{tags}", allow(r#""s3:PutObject""#, "arn:aws:s3:::b-2/*")));
    by("cat", "/b-2/x.tar", &[("x-amz-tagging", "a=b")]).refused(403, "AccessDenied");
    let tagged = with(&[("minio.metadata.X-Amz-Tagging", "a=b")], file("tagged", "x"));
    put(w.by("cat", "PUT", "/b-2/x.tar"), &tagged).send().refused(403, "AccessDenied");
    put(w.root("PUT", "/b-2/x.tar"), &tagged).send().expect(200);
    let held = with(&[("minio.metadata.X-Amz-Object-Lock-Legal-Hold", "ON")], file("held", "x"));
    put(w.by("cat", "PUT", "/b-2/x.tar"), &held).send().refused(403, "AccessDenied");
    // Nobody's archive.
    put(w.root("PUT", "/b-2/x.tar").anonymous(), &archive).send().refused(403, "AccessDenied");
}

#[test]
fn quotas_locks_and_versioning_apply_to_every_entry() {
    let w = World::new();
    let s = &w.server;
    let store = s.service.context().store.clone();
    let bucket = store.bucket("b-2").unwrap();
    w.runtime.block_on(store.set_quota(&bucket, Some(1000))).unwrap();
    let archive = [file("q/a", [1; 600]), file("q/b", [2; 600]), file("q/c", [3; 100])].concat();
    let r = put(w.root("PUT", "/b-2/x"), &archive).send().refused(400, "XMinioAdminBucketQuotaExceeded");
    assert_eq!(r.tag("Quota").as_deref(), Some("1000"));
    put(w.root("PUT", "/b-2/x"), &archive).header(IGNORE_ERRORS, "true").send().expect(200);
    let there: Vec<String> = keys(s, "b-2").into_iter().filter(|k| k.starts_with("q/")).collect();
    assert_eq!(there.len(), 2, "one of the large ones, and the small one: {there:?}");

    // In a bucket with object lock each entry has the default, or what the request asks for.
    w.root("PUT", "/l-1").header("x-amz-bucket-object-lock-enabled", "true").send().expect(200);
    let rule = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>";
    w.root("PUT", "/l-1").q("object-lock", "").body(rule).send().expect(200);
    put(w.root("PUT", "/l-1/x"), file("default", "1")).send().expect(200);
    put(w.root("PUT", "/l-1/x"), file("held", "1"))
        .header("x-amz-object-lock-legal-hold", "ON")
        .send()
        .expect(200);
    for (key, hold) in [("default", None), ("held", Some("ON"))] {
        let head = w.root("HEAD", &format!("/l-1/{key}")).send().expect(200);
        assert_eq!(head.header("x-amz-object-lock-mode"), Some("GOVERNANCE"));
        assert_eq!(head.header("x-amz-object-lock-legal-hold"), hold);
        let id = head.header("x-amz-version-id").unwrap().to_owned();
        w.root("DELETE", &format!("/l-1/{key}")).q("versionId", &id).send().refused(403, "AccessDenied");
    }
    put(w.root("PUT", "/b-2/x"), file("q/d", "1"))
        .header("x-amz-object-lock-legal-hold", "ON")
        .send()
        .refused(400, "InvalidRequest");

    // An entry makes a version, and two of a name make two.
    put(w.root("PUT", "/b-1/x"), [file("v", "1"), file("v", "2")].concat()).send().expect(200);
    let versions = w.root("GET", "/b-1").q("versions", "").q("prefix", "v").send().expect(200);
    assert_eq!(versions.tags("VersionId").len(), 2);
    assert_eq!(s.get("/b-1/v").text(), "2");
}

#[test]
fn entries_are_encrypted_like_objects() {
    let (s, _kms, _runtime) = encrypting(true);
    let big = noise(300_000, 9);
    let archive = [file("a", "small"), file("b", &big)].concat();
    put(s.req("PUT", "/b-1/x"), &archive)
        .header("x-amz-server-side-encryption", "AES256")
        .header(PREFIX, "s3")
        .send()
        .expect(200);
    let kms = put(s.req("PUT", "/b-1/x"), &archive).header("x-amz-server-side-encryption", "aws:kms");
    kms.header("x-amz-server-side-encryption-aws-kms-key-id", "other")
        .header(PREFIX, "kms")
        .send()
        .expect(200);
    let key = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [5; 32]);
    let customer = [
        ("x-amz-server-side-encryption-customer-algorithm", "AES256".to_owned()),
        ("x-amz-server-side-encryption-customer-key", key),
        ("x-amz-server-side-encryption-customer-key-md5", md5_base64(&[5; 32])),
    ];
    let own = |r: Req| customer.iter().fold(r, |r, (n, v)| r.header(n, v.as_str()));
    own(put(s.req("PUT", "/b-1/x"), &archive)).header(PREFIX, "c").send().expect(200);
    let rule = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";
    s.req("PUT", "/b-1").q("encryption", "").body(rule).send().expect(200);
    put(s.req("PUT", "/b-1/x"), gzip(&archive)).header(PREFIX, "default").send().expect(200);
    for (prefix, shown) in
        [("s3", Some("AES256")), ("kms", Some("aws:kms")), ("default", Some("AES256")), ("c", None)]
    {
        for (name, want) in [("a", &b"small"[..]), ("b", &big)] {
            let get = s.req("GET", &format!("/b-1/{prefix}/{name}"));
            let got = if prefix == "c" { own(get) } else { get }.send().expect(200);
            assert!(got.body == want, "{prefix}/{name}");
            assert_eq!(got.header("x-amz-server-side-encryption"), shown, "{prefix}/{name}");
        }
    }
    s.get("/b-1/c/a").refused(400, "InvalidRequest");
    // A missing key: nothing is stored in clear.
    let gone = put(s.req("PUT", "/b-1/x"), &archive)
        .header("x-amz-server-side-encryption", "aws:kms")
        .header(PREFIX, "gone");
    let gone = gone.header("x-amz-server-side-encryption-aws-kms-key-id", "nothing").send();
    assert!((400..500).contains(&gone.status), "{}", gone.text());
    assert!(keys(&s, "b-1").iter().all(|k| !k.starts_with("gone/")));
}

#[test]
fn body_checks_apply_to_its_end() {
    let s = server();
    let archive = [file("one", "1"), file("two", noise(100_000, 2)), vec![0; 1024]].concat();
    let of = |what: &str| put(s.req("PUT", "/b-1/x"), &archive).header(PREFIX, what);
    // Right ones are taken, and answered.
    of("md5").header("content-md5", md5_base64(&archive)).send().expect(200);
    let crc = checksum("CRC32C", &archive);
    let r = of("crc").header("x-amz-checksum-crc32c", &crc).send().expect(200);
    assert_eq!(r.header("x-amz-checksum-crc32c"), Some(crc.as_str()));
    for mode in [Mode::Signed, Mode::Unsigned] {
        of(&format!("{mode:?}")).mode(mode).send().expect(200);
    }
    for mode in [Mode::SignedTrailer, Mode::UnsignedTrailer] {
        let r = of(&format!("{mode:?}")).mode(mode).header("x-amz-trailer", "x-amz-checksum-crc32c");
        r.trailer("x-amz-checksum-crc32c", &crc).send().expect(200);
    }
    assert_eq!(keys(&s, "b-1").len(), 12);
    // Wrong ones end in an error; what had come before the end is stored, as with MinIO.
    let wrong = checksum("CRC32C", b"other");
    let refused = |r: Req, status, code: &str| {
        let r = r.send().refused(status, code);
        assert_eq!(r.tag("StoredEntries").as_deref(), Some("2"), "{}", r.text());
    };
    refused(of("w1").header("content-md5", md5_base64(b"other")), 400, "BadDigest");
    refused(of("w2").header("x-amz-checksum-crc32c", &wrong), 400, "BadDigest");
    refused(of("w3").set(|r| r.payload = Some(sha256_hex(b"other"))), 400, "XAmzContentSHA256Mismatch");
    let trailer = of("w4").mode(Mode::UnsignedTrailer).header("x-amz-trailer", "x-amz-checksum-crc32c");
    refused(trailer.trailer("x-amz-checksum-crc32c", &wrong), 400, "BadDigest");
    assert!(s.get("/b-1/w1/two").expect(200).body == noise(100_000, 2));

    // Of a chunk whose signature does not fit, nothing is stored.
    let two = [file("first", "1"), vec![], file("second", "2")].concat();
    let r =
        put(s.req("PUT", "/b-1/x"), &two).header(PREFIX, "chunks").mode(Mode::Signed).set(|r| r.chunk = 1024);
    let (head, mut body) = r.wire();
    let at = body.windows(6).rposition(|w| w == b"second").unwrap();
    body[at] = b'S';
    let mut bytes = format!("{head}connection: close\r\n\r\n").into_bytes();
    bytes.extend(body);
    raw(s.addr, &bytes).refused(403, "SignatureDoesNotMatch");
    let there: Vec<String> = keys(&s, "b-1").into_iter().filter(|k| k.starts_with("chunks/")).collect();
    assert_eq!(there, ["chunks/first"]);
    let r = put(s.req("PUT", "/b-1/x"), file("k", noise(3 << 20, 1)))
        .mode(Mode::Signed)
        .set(|r| r.chunk = 2 << 20);
    assert!(r.send().refused(501, "NotImplemented").text().contains("1 MiB"));
    s.req("HEAD", "/b-1/k").send().expect(404);
}

#[test]
fn truncated_archives_store_only_complete_entries() {
    let s = server();
    let archive = [file("a", "1"), file("b", noise(200_000, 2)), file("c", "3")].concat();
    for (cut, whole) in [(100, 0), (512, 0), (1324, 1), (101_536, 1), (archive.len() - 700, 2)] {
        let prefix = format!("cut-{cut}");
        let r = put(s.req("PUT", "/b-1/x"), &archive[..cut]).header(PREFIX, &prefix).send();
        r.refused(400, "BadRequest");
        let names: Vec<String> = keys(&s, "b-1").into_iter().filter(|k| k.starts_with(&prefix)).collect();
        assert_eq!(names.len(), whole, "{cut}: {names:?}");
    }
    // The connection breaks off: the same.
    let (head, body) = put(s.req("PUT", "/b-1/x"), &archive).header(PREFIX, "gone").wire();
    let mut bytes = format!("{head}connection: close\r\n\r\n").into_bytes();
    bytes.extend_from_slice(&body[..100_000]);
    let mut stream = std::net::TcpStream::connect(s.addr).unwrap();
    stream.write_all(&bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut rest);
    s.req("HEAD", "/b-1/gone/b").send().expect(404);
}

#[test]
fn decompression_bombs_are_bounded() {
    let s = server();
    // More entries than there may be, as a few megabytes.
    let mut many = GzEncoder::new(Vec::new(), Compression::fast());
    let links = entry("link", b'2', b"").repeat(1000);
    for _ in 0..1001 {
        many.write_all(&links).unwrap();
    }
    let many = many.finish().unwrap();
    assert!(many.len() < 16 << 20, "{}", many.len());
    let r = send(&s, many).refused(400, "BadRequest");
    assert!(r.text().contains("1000000 entries"), "{}", r.text());
    // A gigabyte of zeros that is not stored passes through.
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..4].copy_from_slice(b"../x");
    header.set_size(1 << 30);
    header.set_cksum();
    let mut zeros = GzEncoder::new(Vec::new(), Compression::fast());
    zeros.write_all(header.as_bytes()).unwrap();
    for _ in 0..1024 {
        zeros.write_all(&vec![0; 1 << 20]).unwrap();
    }
    zeros.write_all(&file("after", "x")).unwrap();
    put(s.req("PUT", "/b-1/x"), zeros.finish().unwrap()).header(IGNORE_ERRORS, "true").send().expect(200);
    assert_eq!(keys(&s, "b-1"), ["after"]);
    // Headers that are gigabytes long.
    for kind in [b'x', b'L', b'K', b'g'] {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::new(kind));
        header.set_size(2 << 30);
        header.set_cksum();
        send(&s, gzip(header.as_bytes())).refused(400, "BadRequest");
    }
}

#[test]
fn every_entry_causes_an_event() {
    let s = server();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut watch = s.service.context().store.feed().watch();
    send(&s, [file("a", "1"), file("b", noise(100_000, 1)), file("c", "3")].concat()).expect(200);
    let mut told = Vec::new();
    runtime.block_on(async {
        while told.len() < 3 {
            match watch.next().await {
                WatchEvent::Change(change) => {
                    assert_eq!((change.kind.name(), change.cause.who.as_str()), ("put", KEY));
                    told.push((change.key.clone(), change.size));
                }
                _ => panic!("the feed ended"),
            }
        }
    });
    told.sort();
    assert_eq!(told, [("a".into(), 1), ("b".into(), 100_000), ("c".into(), 1)]);
}
