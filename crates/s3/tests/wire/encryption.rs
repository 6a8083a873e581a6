//! Server-side encryption on the wire: the three kinds, their headers and errors, bucket defaults.

use crate::common::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const SSE: &str = "x-amz-server-side-encryption";
const KEY_ID: &str = "x-amz-server-side-encryption-aws-kms-key-id";

/// The three headers of a customer's key.
fn customer(key: u8, source: bool) -> [(String, String); 3] {
    let prefix = if source { "x-amz-copy-source-server-side-encryption" } else { SSE };
    let bytes = [key; 32];
    [
        (format!("{prefix}-customer-algorithm"), "AES256".into()),
        (format!("{prefix}-customer-key"), STANDARD.encode(bytes)),
        (format!("{prefix}-customer-key-MD5"), md5_base64(&bytes)),
    ]
}

trait With {
    fn with(self, key: u8) -> Req;
    fn from(self, key: u8) -> Req;
}

impl With for Req {
    fn with(mut self, key: u8) -> Req {
        self.headers.extend(customer(key, false));
        self
    }
    fn from(mut self, key: u8) -> Req {
        self.headers.extend(customer(key, true));
        self
    }
}

#[test]
fn sse_s3_and_kms_round_trip() {
    let (s, ..) = encrypting(false);
    let body = noise(300_000, 1);
    let r = s.req("PUT", "/b-1/a").header(SSE, "AES256").body(&body).send().expect(200);
    assert_eq!(r.header(SSE), Some("AES256"));
    assert_eq!(r.header("etag").unwrap(), format!("\"{}\"", md5_hex(&body)), "as AWS: the MD5");
    let crc = checksum("CRC64NVME", &body);
    assert_eq!(r.header("x-amz-checksum-crc64nvme"), Some(crc.as_str()));
    let r = s.get("/b-1/a").expect(200);
    assert!(r.body == body && r.header(SSE) == Some("AES256") && r.header(KEY_ID).is_none());
    for (range, from, to) in
        [("bytes=0-0", 0, 1), ("bytes=65530-65540", 65530, 65541), ("bytes=-7", 299_993, 300_000)]
    {
        let r = s.req("GET", "/b-1/a").header("range", range).send().expect(206);
        assert_eq!(r.body, body[from..to], "{range}");
    }
    let r = s.req("HEAD", "/b-1/a").header("x-amz-checksum-mode", "ENABLED").send().expect(200);
    assert_eq!(r.header("x-amz-checksum-crc64nvme"), Some(crc.as_str()));
    assert_eq!((r.header(SSE), r.header("content-length")), (Some("AES256"), Some("300000")));

    let context = STANDARD.encode("{\"team\":\"a\"}");
    let r = s
        .req("PUT", "/b-1/k")
        .header(SSE, "aws:kms")
        .header(KEY_ID, "other")
        .header("x-amz-server-side-encryption-context", &context)
        .header("x-amz-server-side-encryption-bucket-key-enabled", "true")
        .header("content-md5", md5_base64(&body))
        .body(&body)
        .send()
        .expect(200);
    assert_eq!((r.header(SSE), r.header(KEY_ID)), (Some("aws:kms"), Some("arn:aws:kms:other")));
    assert_eq!(r.header("x-amz-server-side-encryption-bucket-key-enabled"), Some("true"));
    assert!(!r.header("etag").unwrap().contains(&md5_hex(&body)), "no digest of the plaintext");
    let r = s.get("/b-1/k").expect(200);
    assert!(r.body == body && r.header(KEY_ID) == Some("arn:aws:kms:other"));
    let bad = s.req("PUT", "/b-1/k").header(SSE, "aws:kms").header("content-md5", md5_base64(b"x"));
    bad.body(&body).send().refused(400, "BadDigest");
    // MinIO's form of an ARN; the default key.
    let r = s.req("PUT", "/b-1/k").header(SSE, "aws:kms").header(KEY_ID, "arn:aws:kms:other").send();
    r.expect(200);
    let r = s.req("PUT", "/b-1/k").header(SSE, "aws:kms").body("x").send().expect(200);
    assert_eq!(r.header(KEY_ID), Some("arn:aws:kms:main"));
}

#[test]
fn invalid_encryption_headers_are_refused() {
    let (s, ..) = encrypting(true);
    let put = || s.req("PUT", "/b-1/k").body("x");
    put().header(SSE, "rot13").send().refused(400, "InvalidArgument");
    put().header(SSE, "aws:kms:dsse").send().refused(501, "NotImplemented");
    put().header(SSE, "AES256").header(KEY_ID, "other").send().refused(400, "InvalidArgument");
    put().header(KEY_ID, "other").send().refused(400, "InvalidArgument");
    put().header(SSE, "AES256").with(1).send().refused(400, "InvalidArgument");
    for id in ["nobody", "../x", "a b"] {
        put().header(SSE, "aws:kms").header(KEY_ID, id).send().refused(400, "KMS.NotFoundException");
    }
    let context = "x-amz-server-side-encryption-context";
    for bad in ["!", "e30", &STANDARD.encode("[1]")] {
        put().header(SSE, "aws:kms").header(context, bad).send().refused(400, "InvalidArgument");
    }
    put().header("x-amz-server-side-encryption-new", "x").send().refused(501, "NotImplemented");
    s.req("GET", "/b-1/k").header(SSE, "AES256").send().refused(400, "InvalidArgument");
    s.req("DELETE", "/b-1/k").header(SSE, "AES256").send().refused(501, "NotImplemented");
    s.get("/b-1/k").expect(404);
    type Headers = [(String, String); 3];
    let part = |change: &dyn Fn(&mut Headers)| {
        let mut headers = customer(1, false);
        change(&mut headers);
        let mut req = put();
        req.headers.extend(headers.into_iter().filter(|(n, _)| !n.is_empty()));
        req.send()
    };
    part(&|h| h[0].1 = "AES128".into()).refused(400, "InvalidEncryptionAlgorithmError");
    for i in 0..3 {
        part(&|h| h[i].0.clear()).refused(400, "InvalidArgument");
    }
    part(&|h| h[1].1 = STANDARD.encode([1; 31])).refused(400, "InvalidArgument");
    part(&|h| h[2].1 = md5_base64(b"x")).refused(400, "InvalidArgument");
    // Without TLS.
    let (open, ..) = encrypting(false);
    open.req("PUT", "/b-1/k").with(1).body("x").send().refused(400, "InvalidRequest");
    // Without keys.
    let none = server();
    none.req("PUT", "/b-1/k").header(SSE, "AES256").body("x").send().refused(501, "NotImplemented");
    none.req("PUT", "/b-1/k").header(SSE, "aws:kms").body("x").send().refused(501, "NotImplemented");
    none.get("/b-1/k").expect(404);
}

#[test]
fn renamed_object_stays_encrypted() {
    let (s, ..) = encrypting(true);
    let body = noise(150_000, 5);
    let rename = |from: &str, to: &str| {
        s.req("PUT", &format!("/b-1/{to}")).q("renameObject", "").header("x-amz-rename-source", from).send()
    };
    let context = STANDARD.encode("{\"team\":\"a\"}");
    s.req("PUT", "/b-1/s3").header(SSE, "AES256").body(&body).send().expect(200);
    let kms = s.req("PUT", "/b-1/kms").header(SSE, "aws:kms").header(KEY_ID, "arn:aws:kms:other");
    kms.header("x-amz-server-side-encryption-context", context.clone()).body(&body).send().expect(200);
    for (kind, of) in [("AES256", "s3"), ("aws:kms", "kms")] {
        let before = s.req("HEAD", &format!("/b-1/{of}")).send().expect(200);
        rename(of, &format!("{of}-new")).expect(200);
        let got = s.get(&format!("/b-1/{of}-new")).expect(200);
        assert!(got.body == body && got.header(SSE) == Some(kind));
        assert_eq!((got.header("etag"), got.header(KEY_ID)), (before.header("etag"), before.header(KEY_ID)));
        let range = s.req("GET", &format!("/b-1/{of}-new")).header("range", "bytes=65530-65540").send();
        assert_eq!(range.expect(206).body, body[65530..65541]);
    }
    s.req("PUT", "/b-1/c").with(1).body(&body).send().expect(200);
    rename("c", "c-new").refused(400, "InvalidRequest");
    s.req("GET", "/b-1/c").with(1).send().expect(200);
}

#[test]
fn sse_c_round_trips() {
    let (s, ..) = encrypting(true);
    let body = noise(200_000, 2);
    let r = s.req("PUT", "/b-1/c").with(1).body(&body).send().expect(200);
    let algorithm = "x-amz-server-side-encryption-customer-algorithm";
    let md5 = "x-amz-server-side-encryption-customer-key-md5";
    assert_eq!((r.header(algorithm), r.header(SSE)), (Some("AES256"), None));
    assert_eq!(r.header(md5), Some(md5_base64(&[1; 32]).as_str()));
    for method in ["GET", "HEAD"] {
        let r = s.req(method, "/b-1/c").send().expect(400);
        assert!(method == "HEAD" || r.code() == "InvalidRequest");
        let r = s.req(method, "/b-1/c").with(2).send().expect(403);
        assert!(method == "HEAD" || r.code() == "AccessDenied");
        let r = s.req(method, "/b-1/c").with(1).send().expect(200);
        assert_eq!(r.header(algorithm), Some("AES256"));
        assert!(method == "HEAD" || r.body == body);
    }
    let attributes = || {
        let req = s.req("GET", "/b-1/c").q("attributes", "");
        req.header("x-amz-object-attributes", "Checksum,ObjectSize")
    };
    attributes().send().refused(400, "InvalidRequest");
    let r = attributes().with(1).send().expect(200);
    assert_eq!(r.tag("ObjectSize").unwrap(), "200000");
    assert_eq!(r.tag("ChecksumCRC64NVME").unwrap(), checksum("CRC64NVME", &body));
    s.put("/b-1/plain", b"x").expect(200);
    s.req("GET", "/b-1/plain").with(1).send().refused(400, "InvalidRequest");
    // A key that moves onto its own place under another key moves no data: only the envelope changes.
    let copy = |to: &str| s.req("PUT", to).header("x-amz-copy-source", "/b-1/c");
    copy("/b-1/d").send().refused(400, "InvalidRequest");
    copy("/b-1/d").from(2).send().refused(403, "AccessDenied");
    copy("/b-1/d").from(1).with(3).send().expect(200);
    assert!(s.req("GET", "/b-1/d").with(3).send().expect(200).body == body);
    copy("/b-1/c").from(1).with(4).send().expect(200);
    s.req("GET", "/b-1/c").with(1).send().refused(403, "AccessDenied");
    assert!(s.req("GET", "/b-1/c").with(4).send().expect(200).body == body);
    copy("/b-1/c").from(4).header(SSE, "AES256").send().expect(200);
    let r = s.get("/b-1/c").expect(200);
    assert!(r.body == body && r.header(SSE) == Some("AES256"));
    s.req("PUT", "/b-1/open").header("x-amz-copy-source", "/b-1/c").send().expect(200);
    let r = s.get("/b-1/open").expect(200);
    assert!(r.body == body && r.header(SSE).is_none());
}

#[test]
fn copies_within_a_kind_share_the_data() {
    let (s, ..) = encrypting(false);
    let body = noise(100_000, 3);
    s.req("PUT", "/b-1/a").header(SSE, "AES256").body(&body).send().expect(200);
    let copy = |to: &str| {
        let req = s.req("PUT", to).header("x-amz-copy-source", "/b-1/a");
        req.header("x-amz-metadata-directive", "REPLACE")
    };
    copy("/b-1/a").header("x-amz-meta-x", "1").header(SSE, "AES256").send().expect(200);
    let r = s.get("/b-1/a").expect(200);
    assert!(r.body == body && r.header("x-amz-meta-x") == Some("1") && r.header(SSE) == Some("AES256"));
    let r = copy("/b-1/a").header(SSE, "aws:kms").header(KEY_ID, "other").send().expect(200);
    assert_eq!(r.header(KEY_ID), Some("arn:aws:kms:other"));
    assert!(s.get("/b-1/a").expect(200).body == body);
    // Without a word about encryption, and without a default: in clear.
    copy("/b-1/a").send().expect(200);
    let r = s.get("/b-1/a").expect(200);
    assert!(r.body == body && r.header(SSE).is_none());
    // Once more it changes nothing.
    s.req("PUT", "/b-1/a").header("x-amz-copy-source", "/b-1/a").send().refused(400, "InvalidRequest");
}

/// Only the encryption changes, and only the source's key is in the request.
#[test]
fn copy_onto_itself_may_change_only_the_encryption() {
    let (s, ..) = encrypting(true);
    let body = noise(100_000, 3);
    s.req("PUT", "/b-1/c").with(1).body(&body).send().expect(200);
    let copy = || s.req("PUT", "/b-1/c").header("x-amz-copy-source", "/b-1/c");
    copy().from(1).send().expect(200);
    assert!(s.get("/b-1/c").expect(200).body == body);
    copy().send().refused(400, "InvalidRequest");
}

/// An object of one piece has an ETag of 32 digits and no parts, however it is encrypted.
#[test]
fn etags_of_encrypted_objects_follow_aws() {
    let (s, ..) = encrypting(true);
    let body = noise(200_000, 6);
    let made = [
        s.req("PUT", "/b-1/a").header(SSE, "AES256").body(&body).send().expect(200),
        s.req("PUT", "/b-1/b").header(SSE, "aws:kms").body(&body).send().expect(200),
        s.req("PUT", "/b-1/c").with(1).body(&body).send().expect(200),
    ];
    for (made, path) in made.iter().zip(["/b-1/a", "/b-1/b", "/b-1/c"]) {
        let etag = made.header("etag").unwrap();
        assert!(etag.len() == 34 && etag[1..33].bytes().all(|b| b.is_ascii_hexdigit()), "{path}: {etag}");
        assert_eq!(etag.contains(&md5_hex(&body)), path == "/b-1/a", "{path}: a digest of the plaintext");
        let with = |r: Req| if path == "/b-1/c" { r.with(1) } else { r };
        let told =
            s.req("GET", path).q("attributes", "").header("x-amz-object-attributes", "ETag,ObjectParts");
        let told = with(told).send().expect(200);
        assert!(!told.text().contains("ObjectParts"), "{path}: {}", told.text());
        let head = with(s.req("HEAD", path)).send().expect(200);
        assert_eq!((head.header("etag"), head.header("x-amz-mp-parts-count")), (Some(etag), None));
    }
    // A copy reads what the tag does not prove.
    let copy = s.req("PUT", "/b-1/d").header("x-amz-copy-source", "/b-1/b").send().expect(200);
    assert_eq!(copy.tag("ETag").unwrap(), format!("&quot;{}&quot;", md5_hex(&body)));
    assert!(s.get("/b-1/d").expect(200).body == body);
}

/// minio-go says with each part, and at the end, what it made the upload with.
#[test]
fn parts_may_repeat_the_encryption_of_the_upload() {
    let (s, ..) = encrypting(true);
    let context = STANDARD.encode("{\"team\":\"a\"}");
    let kms =
        [(SSE, "aws:kms"), (KEY_ID, "other"), ("x-amz-server-side-encryption-context", context.as_str())];
    let with = |r: Req, headers: &[(&str, &str)]| headers.iter().fold(r, |r, (n, v)| r.header(n, *v));
    for (key, headers) in [("a", &[(SSE, "AES256")][..]), ("b", &kms[..])] {
        let path = format!("/b-1/{key}");
        let made = with(s.req("POST", &path).q("uploads", ""), headers).send().expect(200);
        let id = made.tag("UploadId").unwrap();
        let part = |headers: &[(&str, &str)]| {
            let r = s.req("PUT", &path).q("partNumber", "1").q("uploadId", &id).body("hello");
            with(r, headers).send()
        };
        let etag = part(headers).expect(200).header("etag").unwrap().to_owned();
        // Another one is asked for: refused as by AWS.
        let other = if key == "a" { &kms[..1] } else { &[(SSE, "AES256")][..] };
        part(other).refused(400, "InvalidArgument");
        part(&[(SSE, "aws:kms"), (KEY_ID, "main")]).refused(400, "InvalidArgument");
        part(&[]).expect(200);
        let etag =
            if key == "a" { etag } else { part(headers).expect(200).header("etag").unwrap().to_owned() };
        let document = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        );
        let complete = |headers: &[(&str, &str)]| {
            with(s.req("POST", &path).q("uploadId", &id).body(&document), headers).send()
        };
        complete(other).refused(400, "InvalidArgument");
        complete(headers).expect(200);
        assert_eq!(s.get(&path).expect(200).body, b"hello");
    }
    // An upload that is not encrypted.
    let made = s.req("POST", "/b-1/c").q("uploads", "").send().expect(200);
    let id = made.tag("UploadId").unwrap();
    let part = s.req("PUT", "/b-1/c").q("partNumber", "1").q("uploadId", &id).body("x");
    part.header(SSE, "AES256").send().refused(400, "InvalidArgument");
}

fn upload(s: &Server, key: &str, with: &[(String, String)], bodies: &[Vec<u8>]) -> Resp {
    let mut create = s.req("POST", key).q("uploads", "");
    create.headers.extend(with.iter().cloned());
    let created = create.send().expect(200);
    let id = created.tag("UploadId").unwrap();
    let customer: Vec<_> = with.iter().filter(|(n, _)| n.contains("customer")).cloned().collect();
    let mut document = String::from("<CompleteMultipartUpload>");
    for (i, body) in bodies.iter().enumerate() {
        let mut part = s.req("PUT", key).q("partNumber", &(i + 1).to_string()).q("uploadId", &id).body(body);
        part.headers.extend(customer.iter().cloned());
        let r = part.send().expect(200);
        assert_eq!(r.header(SSE), created.header(SSE));
        let etag = r.header("etag").unwrap();
        document += &format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", i + 1);
    }
    let r = s.req("GET", key).q("uploadId", &id).send().expect(200);
    let sizes: Vec<String> = bodies.iter().map(|b| b.len().to_string()).collect();
    assert_eq!(r.tags("Size"), sizes);
    document += "</CompleteMultipartUpload>";
    s.req("POST", key).q("uploadId", &id).body(document).send().expect(200)
}

#[test]
fn multipart_uploads_are_encrypted() {
    let (s, ..) = encrypting(true);
    let bodies = [noise(70_000, 4), noise(131_072, 5), noise(10, 6)];
    let whole = bodies.concat();
    let kinds: [Vec<(String, String)>; 3] = [
        vec![(SSE.into(), "AES256".into())],
        vec![(SSE.into(), "aws:kms".into())],
        customer(1, false).to_vec(),
    ];
    for (i, with) in kinds.iter().enumerate() {
        let done = upload(&s, "/b-1/m", with, &bodies);
        let get = || {
            let mut req = s.req("GET", "/b-1/m");
            if i == 2 {
                req.headers.extend(with.iter().cloned());
            }
            req
        };
        assert_eq!(done.header(SSE), get().send().header(SSE));
        let r = get().send().expect(200);
        assert!(r.body == whole, "kind {i}");
        assert!(r.header("etag").unwrap().ends_with("-3\""));
        let r = get().header("range", "bytes=69990-70010").send().expect(206);
        assert_eq!(r.body, whole[69_990..70_011]);
        let r = get().q("partNumber", "2").send().expect(206);
        assert!(r.body == bodies[1]);
        let md5s = md5_hex(&bodies.iter().flat_map(|b| ashlar_checksum::md5_once(b)).collect::<Vec<_>>());
        assert_eq!(r.header("etag").unwrap().contains(&md5s), i == 0, "MD5s only of SSE-S3");
    }
    // Parts of SSE-C need the upload's key.
    let r = s.req("POST", "/b-1/n").q("uploads", "").with(1).send().expect(200);
    let id = r.tag("UploadId").unwrap();
    let part = || s.req("PUT", "/b-1/n").q("partNumber", "1").q("uploadId", &id).body("x");
    part().send().refused(400, "InvalidRequest");
    part().with(2).send().refused(400, "InvalidRequest");
    part().header(SSE, "AES256").send().refused(400, "InvalidArgument");
    // A part copied from an encrypted source.
    s.req("PUT", "/b-1/src").with(9).body(&whole).send().expect(200);
    let copy = || {
        let req = s.req("PUT", "/b-1/n").q("partNumber", "1").q("uploadId", &id);
        req.header("x-amz-copy-source", "/b-1/src").header("x-amz-copy-source-range", "bytes=65000-66000")
    };
    copy().with(1).send().refused(400, "InvalidRequest");
    let r = copy().with(1).from(9).send().expect(200);
    let document = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
        r.tag("ETag").unwrap()
    );
    s.req("POST", "/b-1/n").q("uploadId", &id).with(1).body(document).send().expect(200);
    assert_eq!(s.req("GET", "/b-1/n").with(1).send().expect(200).body, whole[65_000..=66_000]);
    // An upload without encryption takes no key.
    let r = s.req("POST", "/b-1/p").q("uploads", "").send().expect(200);
    let id = r.tag("UploadId").unwrap();
    let part = s.req("PUT", "/b-1/p").q("partNumber", "1").q("uploadId", &id).body("x").with(1);
    part.send().refused(400, "InvalidRequest");
}

#[test]
fn bucket_defaults_apply() {
    let (s, ..) = encrypting(false);
    let at = |method: &str| s.req(method, "/b-1").q("encryption", "");
    let rule = |inner: &str| {
        format!(
            "<ServerSideEncryptionConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Rule><ApplyServerSideEncryptionByDefault>{inner}</ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>"
        )
    };
    at("GET").send().refused(404, "ServerSideEncryptionConfigurationNotFoundError");
    at("PUT").body(rule("<SSEAlgorithm>AES256</SSEAlgorithm>")).send().expect(200);
    assert_eq!(at("GET").send().expect(200).tag("SSEAlgorithm").unwrap(), "AES256");
    assert_eq!(s.put("/b-1/a", b"x").expect(200).header(SSE), Some("AES256"));
    let unknown = "<SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>nobody</KMSMasterKeyID>";
    at("PUT").body(rule(unknown)).send().refused(400, "KMS.NotFoundException");
    let other = "<SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>other</KMSMasterKeyID>";
    at("PUT").body(rule(other)).send().expect(200);
    // It is answered as it was put.
    assert_eq!(at("GET").send().expect(200).tag("KMSMasterKeyID").unwrap(), "other");
    at("PUT").body(rule(&other.replace(">other<", ">arn:aws:kms:other<"))).send().expect(200);
    assert_eq!(at("GET").send().expect(200).tag("KMSMasterKeyID").unwrap(), "arn:aws:kms:other");
    let r = s.put("/b-1/b", b"x").expect(200);
    assert_eq!((r.header(SSE), r.header(KEY_ID)), (Some("aws:kms"), Some("arn:aws:kms:other")));
    let r = s.req("PUT", "/b-1/c").header(SSE, "AES256").body("x").send().expect(200);
    assert_eq!(r.header(SSE), Some("AES256"), "what the request says comes first");
    s.req("PUT", "/b-1/d").header("x-amz-copy-source", "/b-1/a").send().expect(200);
    assert_eq!(s.get("/b-1/d").expect(200).header(SSE), Some("aws:kms"));
    let r = s.req("POST", "/b-1/m").q("uploads", "").send().expect(200);
    assert_eq!(r.header(SSE), Some("aws:kms"));
    at("DELETE").send().expect(204);
    assert_eq!(s.put("/b-1/a", b"x").expect(200).header(SSE), None);
    assert_eq!(s.get("/b-1/b").expect(200).header(SSE), Some("aws:kms"));
    at("PUT").body(rule("<SSEAlgorithm>x</SSEAlgorithm>")).send().refused(400, "MalformedXML");
    let none = server();
    let put = none.req("PUT", "/b-1").q("encryption", "").body(rule("<SSEAlgorithm>AES256</SSEAlgorithm>"));
    put.send().refused(501, "NotImplemented");
}

#[test]
fn policies_can_test_encryption_headers() {
    let (s, ..) = encrypting(false);
    let policy = r#"{"Version":"2012-10-17","Statement":[
        {"Effect":"Allow","Principal":"*","Action":["s3:PutObject","s3:GetObject"],"Resource":"arn:aws:s3:::b-1/*"},
        {"Effect":"Deny","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::b-1/*",
         "Condition":{"StringNotEquals":{"s3:x-amz-server-side-encryption":"aws:kms"}}},
        {"Effect":"Deny","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::b-1/*",
         "Condition":{"StringNotLikeIfExists":{"s3:x-amz-server-side-encryption-aws-kms-key-id":"oth*"}}}]}"#;
    s.req("PUT", "/b-1").q("policy", "").body(policy).send().expect(204);
    let put = |headers: &[(&str, &str)]| {
        let mut req = s.req("PUT", "/b-1/k").body("x");
        req.anonymous = true;
        for (n, v) in headers {
            req = req.header(n, *v);
        }
        req.send().status
    };
    assert_eq!(put(&[]), 403);
    assert_eq!(put(&[(SSE, "AES256")]), 403);
    assert_eq!(put(&[(SSE, "aws:kms"), (KEY_ID, "main")]), 403);
    assert_eq!(put(&[(SSE, "aws:kms"), (KEY_ID, "other")]), 200);
}

#[test]
fn old_data_opens_after_key_rotation_and_rewrap() {
    let (s, kms, runtime) = encrypting(false);
    let body = noise(1000, 8);
    s.req("PUT", "/b-1/a").header(SSE, "AES256").body(&body).send().expect(200);
    assert_eq!(runtime.block_on(kms.rotate("main")).unwrap(), 2);
    assert!(s.get("/b-1/a").expect(200).body == body, "the old version of the key still opens");
    s.req("PUT", "/b-1/b").header(SSE, "AES256").body(&body).send().expect(200);
    let id = ashlar_object::BucketId([1; 16]);
    let made = runtime.block_on(kms.generate("main", b"x")).ok().unwrap();
    let text = format!("s3 main {}", base64::engine::general_purpose::STANDARD_NO_PAD.encode(&made.sealed));
    let newest = runtime.block_on(ashlar_s3::sse::rewrap(&kms, (id, "a"), &text, None)).unwrap();
    assert!(newest.is_none(), "under the newest version already");
    let moved = runtime.block_on(ashlar_s3::sse::rewrap(&kms, (id, "a"), &text, Some("other")));
    assert!(moved.is_err(), "bound to another place");
}

#[test]
fn metadata_of_client_side_encryption_is_stored() {
    // Headers of AWS's encryption clients, of old (AES-CBC) and new (AES-GCM) formats: kept as they are.
    let s = server();
    let meta = [
        ("x-amz-meta-x-amz-key", "old-wrapped-key=="),
        ("x-amz-meta-x-amz-key-v2", "ZmFrZQ=="),
        ("x-amz-meta-x-amz-iv", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("x-amz-meta-x-amz-matdesc", "{\"aws:x-amz-cek-alg\":\"AES/GCM/NoPadding\"}"),
        ("x-amz-meta-x-amz-cek-alg", "AES/CBC/PKCS5Padding"),
        ("x-amz-meta-x-amz-wrap-alg", "kms+context"),
        ("x-amz-meta-x-amz-tag-len", "128"),
        ("x-amz-meta-x-amz-unencrypted-content-length", "17"),
    ];
    let mut put = s.req("PUT", "/b-1/k").body(noise(32, 1));
    for (n, v) in meta {
        put = put.header(n, v);
    }
    put.send().expect(200);
    let r = s.get("/b-1/k").expect(200);
    for (n, v) in meta {
        assert_eq!(r.header(n), Some(v), "{n}");
    }
    assert!(r.header(SSE).is_none());
}

#[test]
fn internal_metadata_from_clients_is_ignored() {
    // MinIO GHSA-3rh2-v3gr-35p9: headers of replication that made a plain object look encrypted.
    let s = server();
    let mut put = s.req("PUT", "/b-1/k").body("hello");
    for name in [
        "x-minio-internal-server-side-encryption-s3-sealed-key",
        "x-minio-replication-server-side-encryption-sealed-key",
        "x-minio-replication-actual-object-size",
        "x-minio-source-etag",
    ] {
        put = put.header(name, "1 aes hidden s3 main AAAA");
    }
    put.header("x-amz-meta-seal", "1 aes hidden s3 main AAAA").send().expect(200);
    let r = s.get("/b-1/k").expect(200);
    assert_eq!(r.text(), "hello");
    assert!(r.header(SSE).is_none());
}

#[test]
fn appended_parts_are_encrypted_like_the_object() {
    let (s, ..) = encrypting(true);
    let bodies = [noise(70_000, 7), noise(10, 8), noise(131_072, 9)];
    let whole = bodies.concat();
    let kinds: [Vec<(String, String)>; 3] = [
        vec![(SSE.into(), "AES256".into())],
        vec![(SSE.into(), "aws:kms".into()), (KEY_ID.into(), "other".into())],
        customer(1, false).to_vec(),
    ];
    let append = |key: &str, offset: usize, body: &[u8]| {
        s.req("PUT", key).header("x-amz-write-offset-bytes", offset.to_string()).body(body)
    };
    for (i, with) in kinds.iter().enumerate() {
        let key = format!("/b-1/kind{i}");
        let needed = |mut req: Req| {
            req.headers.extend(with.iter().filter(|_| i == 2).cloned());
            req
        };
        // Begun by a usual PUT, by an append with the headers of encryption, and with an empty body.
        for start in 0..3 {
            let mut first = match start {
                0 => s.req("PUT", &key).body(&bodies[0]),
                1 => append(&key, 0, &bodies[0]),
                _ => s.req("PUT", &key).body(b""),
            };
            first.headers.extend(with.iter().cloned());
            let first = first.send().expect(200);
            let mut at = bodies[0].len();
            if start == 2 {
                let r = needed(append(&key, 0, &bodies[0])).send().expect(200);
                assert_eq!(r.header("etag").unwrap().contains(&md5_hex(&bodies[0])), i == 0);
            }
            for body in &bodies[1..] {
                needed(append(&key, at - 1, body)).send().refused(400, "InvalidWriteOffset");
                let r = needed(append(&key, at, body)).send().expect(200);
                at += body.len();
                assert_eq!(r.header("x-amz-object-size"), Some(at.to_string().as_str()));
                for name in [SSE, KEY_ID, "x-amz-server-side-encryption-customer-key-md5"] {
                    assert_eq!(r.header(name), first.header(name), "kind {i}: {name}");
                }
            }
            let get = || needed(s.req("GET", &key)).header("x-amz-checksum-mode", "ENABLED");
            let r = get().send().expect(200);
            assert!(r.body == whole, "kind {i}, start {start}");
            assert_eq!(r.header("x-amz-checksum-crc64nvme"), Some(checksum("CRC64NVME", &whole).as_str()));
            let md5s = md5_hex(&bodies.iter().flat_map(|b| ashlar_checksum::md5_once(b)).collect::<Vec<_>>());
            let etag = r.header("etag").unwrap();
            assert!(etag.ends_with("-3\"") && etag.contains(&md5s) == (i == 0), "MD5s only of SSE-S3");
            let r = get().header("range", "bytes=69990-70100").send().expect(206);
            assert_eq!(r.body, whole[69_990..70_101]);
            let r = get().q("partNumber", "2").send().expect(206);
            assert_eq!(r.body, bodies[1]);
            s.req("DELETE", &key).send().expect(204);
        }
    }
    // Another key, no key, a key that is not applicable, another kind: refused, and nothing changes.
    s.req("PUT", "/b-1/c").with(1).body("one").send().expect(200);
    append("/b-1/c", 3, b"x").send().refused(400, "InvalidRequest");
    append("/b-1/c", 3, b"x").with(2).send().refused(403, "AccessDenied");
    append("/b-1/c", 3, b"x").header(SSE, "AES256").send().refused(400, "InvalidRequest");
    assert_eq!(s.req("GET", "/b-1/c").with(1).send().expect(200).body, b"one");
    s.req("PUT", "/b-1/s").header(SSE, "AES256").body("one").send().expect(200);
    append("/b-1/s", 3, b"x").with(1).send().refused(400, "InvalidRequest");
    append("/b-1/s", 3, b"x").header(SSE, "aws:kms").send().refused(400, "InvalidRequest");
    append("/b-1/s", 3, b"two").header(SSE, "AES256").send().expect(200);
    assert_eq!(s.get("/b-1/s").expect(200).body, b"onetwo");
    let kms = |key: &str| append("/b-1/k", 3, b"x").header(SSE, "aws:kms").header(KEY_ID, key).send();
    s.req("PUT", "/b-1/k").header(SSE, "aws:kms").header(KEY_ID, "other").body("one").send().expect(200);
    kms("main").refused(400, "InvalidRequest");
    kms("other").expect(200);
    // What asks for encryption is never stored in clear: by its headers, or by the bucket's default.
    s.put("/b-1/p", b"one").expect(200);
    append("/b-1/p", 3, b"x").header(SSE, "AES256").send().refused(400, "InvalidRequest");
    append("/b-1/p", 3, b"x").with(1).send().refused(400, "InvalidRequest");
    let default = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";
    s.req("PUT", "/b-1").q("encryption", "").body(default).send().expect(200);
    append("/b-1/p", 3, b"x").send().refused(400, "InvalidRequest");
    assert_eq!(s.get("/b-1/p").expect(200).body, b"one");
    let r = append("/b-1/new", 0, b"one").send().expect(200);
    assert_eq!(
        (r.header(SSE), r.header("etag")),
        (Some("AES256"), Some(format!("\"{}\"", md5_hex(b"one")).as_str()))
    );
    append("/b-1/new", 3, b"two").send().expect(200);
    let r = s.get("/b-1/new").expect(200);
    assert!(r.body == b"onetwo" && r.header(SSE) == Some("AES256"));
    // A copy is one body again, under a key of its own.
    s.req("PUT", "/b-1/copy").header("x-amz-copy-source", "/b-1/new").send().expect(200);
    let r = s.get("/b-1/copy").expect(200);
    assert!(r.body == b"onetwo" && r.header(SSE) == Some("AES256"));
}
