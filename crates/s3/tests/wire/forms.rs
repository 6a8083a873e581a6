//! Form uploads: the signed policy determines what is allowed.

use crate::common::*;

const BOUNDARY: &str = "----boundary7";

struct Form<'a> {
    s: &'a Server,
    bucket: &'a str,
    policy: String,
    fields: Vec<(String, String)>,
    file: Vec<u8>,
    signed: bool,
}

fn scope() -> String {
    format!("{KEY}/{}/us-east-1/s3/aws4_request", &stamp(0)[..8])
}

impl<'a> Form<'a> {
    fn new(s: &'a Server, conditions: &str) -> Form<'a> {
        let date = stamp(0);
        let policy = format!(
            "{{\"expiration\":\"2099-01-01T00:00:00.000Z\",\"conditions\":[{{\"x-amz-algorithm\":\"AWS4-HMAC-SHA256\"}},{{\"x-amz-credential\":\"{}\"}},{{\"x-amz-date\":\"{date}\"}},{conditions}]}}",
            scope()
        );
        let fields = vec![
            ("x-amz-algorithm".into(), "AWS4-HMAC-SHA256".into()),
            ("x-amz-credential".into(), scope()),
            ("x-amz-date".into(), date),
        ];
        Form { s, bucket: "b-1", policy, fields, file: b"hello".to_vec(), signed: true }
    }
    fn field(mut self, name: &str, value: &str) -> Form<'a> {
        self.fields.push((name.into(), value.into()));
        self
    }
    fn file(mut self, data: &[u8]) -> Form<'a> {
        self.file = data.to_vec();
        self
    }
    fn wire(&self) -> Vec<u8> {
        use base64::Engine as _;
        let policy = base64::engine::general_purpose::STANDARD.encode(&self.policy);
        let mut key = hmac256(format!("AWS4{SECRET}").as_bytes(), &stamp(0).as_bytes()[..8]);
        for step in ["us-east-1", "s3", "aws4_request"] {
            key = hmac256(&key, step.as_bytes());
        }
        let signature = hex::encode(hmac256(&key, policy.as_bytes()));
        let mut fields = self.fields.clone();
        if self.signed {
            fields.push(("policy".into(), policy));
            fields.push(("x-amz-signature".into(), signature));
        }
        let mut body = Vec::new();
        for (name, value) in &fields {
            body.extend_from_slice(
                format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
                    .as_bytes(),
            );
        }
        body.extend_from_slice(format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"up.txt\"\r\nContent-Type: text/up\r\n\r\n").as_bytes());
        body.extend_from_slice(&self.file);
        body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        body
    }
    fn send(&self) -> Resp {
        self.send_with("")
    }
    fn send_with(&self, lines: &str) -> Resp {
        let body = self.wire();
        let head = format!(
            "POST /{} HTTP/1.1\r\nhost: {}\r\n{lines}content-type: multipart/form-data; boundary={BOUNDARY}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.bucket,
            self.s.addr,
            body.len()
        );
        raw(self.s.addr, &[head.as_bytes(), &body].concat())
    }
}

#[test]
fn form_can_request_encryption() {
    let (s, ..) = encrypting(false);
    let field = r#"{"bucket":"b-1"},["starts-with","$key","u/"],{"x-amz-server-side-encryption":"AES256"}"#;
    let form = Form::new(&s, field).field("key", "u/a").field("x-amz-server-side-encryption", "AES256");
    let r = form.send().expect(204);
    assert_eq!(r.header("x-amz-server-side-encryption"), Some("AES256"));
    let r = s.get("/b-1/u/a").expect(200);
    assert_eq!((r.text(), r.header("x-amz-server-side-encryption")), ("hello".into(), Some("AES256")));
    // Without keys it is refused, never stored in clear.
    let plain = server();
    let form = Form::new(&plain, field).field("key", "u/a").field("x-amz-server-side-encryption", "AES256");
    form.send().refused(501, "NotImplemented");
    plain.get("/b-1/u/a").expect(404);
}

fn server() -> Server {
    let s = Server::start();
    s.make_bucket("b-1");
    s.make_bucket("b-2");
    s
}

#[test]
fn form_upload_returns_the_expiration() {
    let s = server();
    let rules = "<LifecycleConfiguration><Rule><ID>r</ID><Filter><And><Prefix>u/</Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And></Filter><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>";
    s.req("PUT", "/b-1").q("lifecycle", "").body(rules).send().expect(200);
    let tagging = r#"{"bucket":"b-1"},["starts-with","$key","u/"],["starts-with","$tagging",""]"#;
    let form = |tag: &str| {
        let document =
            format!("<Tagging><TagSet><Tag><Key>a</Key><Value>{tag}</Value></Tag></TagSet></Tagging>");
        Form::new(&s, tagging).field("key", "u/a").field("tagging", &document).send().expect(204)
    };
    let told = form("b").header("x-amz-expiration").expect("it is told").to_owned();
    assert_eq!(s.get("/b-1/u/a").header("x-amz-expiration"), Some(told.as_str()));
    assert_eq!(form("c").header("x-amz-expiration"), None);
}

#[test]
fn form_uploads_an_object() {
    let s = server();
    let base = r#"{"bucket":"b-1"},["starts-with","$key","u/"]"#;
    let r = Form::new(&s, base).field("key", "u/${filename}").send().expect(204);
    assert_eq!(r.header("etag"), Some(format!("\"{}\"", md5_hex(b"hello")).as_str()));
    let r = s.get("/b-1/u/up.txt").expect(200);
    // The file's own type is no field: what the policy does not name is not taken.
    assert_eq!((r.text(), r.header("content-type")), ("hello".into(), Some("binary/octet-stream")));
    let big = noise(700_000, 3);
    let r = Form::new(
        &s,
        &format!(
            r#"{base},{{"success_action_status":"201"}},{{"content-type":"text/big"}},{{"x-amz-meta-a":"1"}}"#
        ),
    )
    .field("Key", "u/big")
    .field("success_action_status", "201")
    .field("Content-Type", "text/big")
    .field("x-amz-meta-a", "1")
    .file(&big)
    .send()
    .expect(201);
    assert_eq!((r.tag("Key").unwrap(), r.tag("Bucket").unwrap()), ("u/big".into(), "b-1".into()));
    let r = s.get("/b-1/u/big").expect(200);
    assert!(
        r.body == big
            && r.header("content-type") == Some("text/big")
            && r.header("x-amz-meta-a") == Some("1")
    );
    let r = Form::new(&s, &format!(r#"{base},["eq","$success_action_redirect","http://a.example/x?y=1"]"#))
        .field("key", "u/r")
        .field("success_action_redirect", "http://a.example/x?y=1")
        .send()
        .expect(303);
    assert!(
        r.header("location").unwrap().starts_with("http://a.example/x?y=1&bucket=b-1&key=u%2Fr&etag=%22")
    );
    let sum = checksum("CRC32", b"hello");
    let with = |sum: &str| {
        Form::new(&s, &format!(r#"{base},["starts-with","$x-amz-checksum-crc32",""]"#))
            .field("key", "u/c")
            .field("x-amz-checksum-crc32", sum)
            .send()
    };
    with(&sum).expect(204);
    with("AAAAAA==").refused(400, "BadDigest");
}

#[test]
fn uploads_outside_the_policy_are_refused() {
    let s = server();
    let base = r#"{"bucket":"b-1"},["starts-with","$key","u/"],["content-length-range",1,10]"#;
    let form = || Form::new(&s, base).field("key", "u/x");
    form().send().expect(204);
    s.req("DELETE", "/b-1/u/x").send().expect(204);
    let refused = |f: Form<'_>, status: u16, code: &str| {
        f.send().refused(status, code);
        s.get("/b-1/u/x").refused(404, "NoSuchKey");
    };
    refused(Form::new(&s, base).field("key", "v/x"), 403, "AccessDenied");
    refused(form().field("acl", "private"), 403, "AccessDenied");
    refused(form().field("x-amz-meta-a", "1"), 403, "AccessDenied");
    refused(form().file(b""), 400, "EntityTooSmall");
    refused(form().file(b"12345678901"), 400, "EntityTooLarge");
    refused(form().file(&noise(500_000, 1)), 400, "EntityTooLarge");
    refused(form().field("key", "u/y"), 400, "InvalidArgument");
    // Another bucket than the policy says, in the URL or in a field.
    let mut other = form();
    other.bucket = "b-2";
    other.send().refused(403, "AccessDenied");
    s.get("/b-2/u/x").refused(404, "NoSuchKey");
    let mut field = form().field("bucket", "b-2");
    field.bucket = "b-2";
    field.send().refused(403, "AccessDenied");
    // No signature, a bent policy, a header beside the form, a query beside it.
    let mut unsigned = form();
    unsigned.signed = false;
    refused(unsigned, 403, "AccessDenied");
    let body = String::from_utf8(form().wire()).unwrap();
    let bent =
        body.replace("name=\"x-amz-signature\"\r\n\r\n", "name=\"x-amz-signature\"\r\n\r\n0").into_bytes();
    let head = format!(
        "POST /b-1 HTTP/1.1\r\nhost: {}\r\ncontent-type: multipart/form-data; boundary={BOUNDARY}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        s.addr,
        bent.len()
    );
    raw(s.addr, &[head.as_bytes(), &bent].concat()).refused(403, "SignatureDoesNotMatch");
    form().send_with("authorization: AWS4-HMAC-SHA256 Credential=x\r\n").refused(400, "InvalidArgument");
    let mut old = form();
    old.policy = old.policy.replace("2099", "2001");
    refused(old, 403, "AccessDenied");
    s.get("/b-1/u/x").refused(404, "NoSuchKey");
}
