//! Every field of a request that is stored, for every kind of request that sets it: without the field's own
//! action the request is refused, and nothing is stored; with exactly the needed actions it is stored.

use std::sync::Arc;

use crate::common::*;
use ashlar_object::VersionSpec;
use ashlar_s3::Keys;
use ashlar_s3::sse::Encryption;

const LATER: &str = "2099-01-01T00:00:00Z";
const EVERYBODY: &str = "uri=\"http://acs.amazonaws.com/groups/global/AllUsers\"";
const TAGS: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";

/// A field: its headers, the action of its own, where root sees it afterwards, and what it shows there.
struct Field {
    headers: &'static [(&'static str, &'static str)],
    action: Option<&'static str>,
    /// A sub-resource; empty: the headers of HEAD.
    seen: &'static str,
    shows: &'static str,
}

const fn field(
    headers: &'static [(&'static str, &'static str)],
    action: Option<&'static str>,
    seen: &'static str,
    shows: &'static str,
) -> Field {
    Field { headers, action, seen, shows }
}

const FIELDS: &[Field] = &[
    field(&[("x-amz-tagging", "a=b")], Some("s3:PutObjectTagging"), "tagging", "<Key>a</Key>"),
    field(
        &[("x-amz-object-lock-mode", "GOVERNANCE"), ("x-amz-object-lock-retain-until-date", LATER)],
        Some("s3:PutObjectRetention"),
        "retention",
        "GOVERNANCE",
    ),
    field(
        &[("x-amz-object-lock-legal-hold", "ON")],
        Some("s3:PutObjectLegalHold"),
        "legal-hold",
        "<Status>ON</Status>",
    ),
    field(&[("x-amz-acl", "public-read")], Some("s3:PutObjectAcl"), "acl", "AllUsers"),
    field(&[("x-amz-grant-read", EVERYBODY)], Some("s3:PutObjectAcl"), "acl", "AllUsers"),
    // As in AWS these come with s3:PutObject.
    field(&[("x-amz-storage-class", "REDUCED_REDUNDANCY")], None, "", "REDUCED_REDUNDANCY"),
    field(&[("x-amz-website-redirect-location", "/elsewhere")], None, "", "/elsewhere"),
    field(&[("x-amz-meta-color", "teal")], None, "", "teal"),
    field(&[("cache-control", "max-age=77")], None, "", "max-age=77"),
    field(&[("content-type", "text/teal")], None, "", "text/teal"),
    field(&[("x-amz-server-side-encryption", "AES256")], None, "", "AES256"),
    field(
        &[
            ("x-amz-server-side-encryption", "aws:kms"),
            ("x-amz-server-side-encryption-aws-kms-key-id", "other"),
        ],
        None,
        "",
        "other",
    ),
];

/// Ways in.
const WAYS: [&str; 6] = ["put", "presigned", "copy", "multipart", "form", "append"];

fn world() -> (World, tokio::runtime::Runtime) {
    let ((iam, runtime), (kms, kept)) = (users(), keys());
    let for_server = iam.clone();
    let server = Server::over(true, move |c| {
        c.verifier.keys = Keys::over(for_server);
        c.context.encryption = Encryption { kms: Some(Arc::clone(&kms)), cipher: None };
    });
    let w = World { server, iam, runtime };
    for bucket in ["locked", "plain"] {
        let make = w.root("PUT", &format!("/{bucket}")).header("x-amz-object-ownership", "ObjectWriter");
        let lock = make.clone().header("x-amz-bucket-object-lock-enabled", "true");
        (if bucket == "locked" { lock } else { make }).send().expect(200);
    }
    w.server.put("/plain/source", b"hello").expect(200);
    (w, kept)
}

/// Makes `/BUCKET/made` by `user` in one of the ways. The answer of the first request that is refused, or
/// of the last.
fn make(w: &World, user: &str, way: &str, bucket: &str, headers: &[(&str, &str)]) -> Resp {
    let path = format!("/{bucket}/made");
    let with = |mut r: Req| {
        for (name, value) in headers {
            r = r.header(name, *value);
        }
        r
    };
    match way {
        "put" => with(w.by(user, "PUT", &path)).body("hello").send(),
        "presigned" => {
            let mut r = w.by(user, "PUT", &path).body("hello");
            for (name, value) in headers {
                match name.starts_with("x-amz-") {
                    true => r = r.q(name, value),
                    false => r = r.header(name, *value),
                }
            }
            r.send_presigned("60")
        }
        "copy" => with(w.by(user, "PUT", &path))
            .header("x-amz-copy-source", "/plain/source")
            .header("x-amz-tagging-directive", "REPLACE")
            .header("x-amz-metadata-directive", "REPLACE")
            .send(),
        "append" => {
            with(w.by(user, "PUT", &path)).header("x-amz-write-offset-bytes", "0").body("hello").send()
        }
        "form" => form(w, user, bucket, headers),
        _ => {
            let r = with(w.by(user, "POST", &path)).q("uploads", "").send();
            if r.status != 200 {
                return r;
            }
            let id = r.tag("UploadId").unwrap();
            let part = w.by(user, "PUT", &path).q("partNumber", "1").q("uploadId", &id).body("hello").send();
            let etag = part.expect(200).header("etag").unwrap().to_owned();
            let document = format!(
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
            );
            w.by(user, "POST", &path).q("uploadId", &id).body(document).send()
        }
    }
}

fn form(w: &World, user: &str, bucket: &str, fields: &[(&str, &str)]) -> Resp {
    use base64::Engine as _;
    let date = stamp(0);
    let credential = format!("{user}/{}/{REGION}/s3/aws4_request", &date[..8]);
    let mut all = vec![
        ("key".to_owned(), "made".to_owned()),
        ("x-amz-algorithm".into(), "AWS4-HMAC-SHA256".into()),
        ("x-amz-credential".into(), credential),
        ("x-amz-date".into(), date.clone()),
    ];
    all.extend(fields.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
    let quoted = |t: &str| format!("\"{}\"", t.replace('"', "\\\""));
    let conditions: Vec<String> =
        all.iter().map(|(n, v)| format!("[\"eq\",{},{}]", quoted(&format!("${n}")), quoted(v))).collect();
    let policy = format!(
        "{{\"expiration\":\"{LATER}\",\"conditions\":[{{\"bucket\":\"{bucket}\"}},{}]}}",
        conditions.join(",")
    );
    let policy = base64::engine::general_purpose::STANDARD.encode(policy);
    let mut key = hmac256(format!("AWS4{USERS_SECRET}").as_bytes(), &date.as_bytes()[..8]);
    for step in [REGION, "s3", "aws4_request"] {
        key = hmac256(&key, step.as_bytes());
    }
    all.push(("x-amz-signature".into(), hex::encode(hmac256(&key, policy.as_bytes()))));
    all.push(("policy".into(), policy));
    let mut body = String::new();
    for (name, value) in all {
        body += &format!("--7\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    body += "--7\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nhello\r\n--7--\r\n";
    let head = format!(
        "POST /{bucket} HTTP/1.1\r\nhost: {}\r\ncontent-type: multipart/form-data; boundary=7\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        w.server.addr,
        body.len()
    );
    raw(w.server.addr, format!("{head}{body}").as_bytes())
}

fn forget(w: &World, bucket: &str) {
    let list = w.root("GET", &format!("/{bucket}")).q("versions", "").send().expect(200);
    for version in list.tags("VersionId") {
        w.root("PUT", &format!("/{bucket}/made"))
            .q("legal-hold", "")
            .q("versionId", &version)
            .body("<LegalHold><Status>OFF</Status></LegalHold>")
            .send();
        w.root("DELETE", &format!("/{bucket}/made"))
            .q("versionId", &version)
            .header("x-amz-bypass-governance-retention", "true")
            .send()
            .expect(204);
    }
}

#[test]
fn each_stored_field_needs_its_action_in_every_request() {
    // A field that objects come to carry has to be looked at here.
    let VersionSpec { meta: _, tags: _, acl: _, retention: _, legal_hold: _ } = VersionSpec::default();
    let (w, _kept) = world();
    let base = r#""s3:PutObject","s3:GetObject""#;
    for f in FIELDS {
        let locks = f.headers[0].0.contains("object-lock");
        for way in WAYS {
            // Nothing is appended where versions are kept, nor are locks elsewhere.
            if locks && way == "append" {
                continue;
            }
            let bucket = if locks { "locked" } else { "plain" };
            let what = format!("{way}: {:?}", f.headers);
            let made = || w.root("HEAD", &format!("/{bucket}/made")).send();
            if let Some(action) = f.action {
                let deny = format!(r#"{{"Effect":"Deny","Action":"{action}","Resource":"*"}}"#);
                w.user("almost", &format!("{},{deny}", allow("\"s3:*\"", "*")));
                let r = make(&w, "almost", way, bucket, f.headers);
                assert_eq!((r.status, r.code().as_str()), (403, "AccessDenied"), "{what}: without {action}");
                made().expect(404);
                w.user("plain", &allow(base, "*"));
                let r = make(&w, "plain", way, bucket, f.headers);
                assert_eq!((r.status, r.code().as_str()), (403, "AccessDenied"), "{what}: with {base}");
                made().expect(404);
                w.user("exact", &allow(&format!("{base},\"{action}\""), "*"));
            } else {
                w.user("exact", &allow(base, "*"));
            }
            let r = make(&w, "exact", way, bucket, f.headers);
            assert!((200..300).contains(&r.status), "{what}: {} {}", r.status, r.text());
            let shown = match f.seen {
                "" => format!("{:?}", made().expect(200).headers),
                sub => w.root("GET", &format!("/{bucket}/made")).q(sub, "").send().expect(200).text(),
            };
            assert!(shown.contains(f.shows), "{what}: {shown}");
            forget(&w, bucket);
        }
    }
}

/// Fields that exist in forms only, and what a copy carries along from its source.
#[test]
fn form_fields_and_copied_state_need_their_actions() {
    let (w, _kept) = world();
    let base = r#""s3:PutObject","s3:GetObject""#;
    for (fields, action) in [
        (&[("tagging", TAGS)][..], "s3:PutObjectTagging"),
        (&[("acl", "public-read")][..], "s3:PutObjectAcl"),
    ] {
        w.user("plain", &allow(base, "*"));
        form(&w, "plain", "plain", fields).refused(403, "AccessDenied");
        w.root("HEAD", "/plain/made").send().expect(404);
        w.user("plain", &allow(&format!("{base},\"{action}\""), "*"));
        form(&w, "plain", "plain", fields).expect(204);
        forget(&w, "plain");
    }
    // Tags of a source are read there and stored here.
    let held = "ON";
    w.root("PUT", "/locked/tagged")
        .header("x-amz-tagging", "a=b")
        .header("x-amz-acl", "public-read")
        .header("x-amz-object-lock-legal-hold", held)
        .body("hello")
        .send()
        .expect(200);
    let copy = || w.by("copier", "PUT", "/locked/made").header("x-amz-copy-source", "/locked/tagged").send();
    for missing in ["s3:GetObjectTagging", "s3:PutObjectTagging"] {
        let rest = ["s3:GetObjectTagging", "s3:PutObjectTagging"].map(|a| format!("\"{a}\""));
        let rest: Vec<String> = rest.into_iter().filter(|a| !a.contains(missing)).collect();
        w.user("copier", &allow(&format!("{base},{}", rest.join(",")), "*"));
        copy().refused(403, "AccessDenied");
        w.root("HEAD", "/locked/made").send().expect(404);
    }
    w.user("copier", &allow(&format!(r#"{base},"s3:GetObjectTagging","s3:PutObjectTagging""#), "*"));
    copy().expect(200);
    assert!(
        w.root("GET", "/locked/made").q("tagging", "").send().expect(200).text().contains("<Key>a</Key>")
    );
    // What needs actions of its own is never copied.
    assert!(!w.root("GET", "/locked/made").q("acl", "").send().expect(200).text().contains("AllUsers"));
    assert!(!w.root("GET", "/locked/made").q("legal-hold", "").send().expect(200).text().contains(held));
}

/// `s3:RequestObjectTag` is about the tags that are stored, wherever the request has them.
#[test]
fn tags_are_checked_where_they_are_stored() {
    let (w, _kept) = world();
    w.server.put("/plain/k", b"hello").expect(200);
    let of = |team: &str| TAGS.replace(">a<", ">team<").replace(">b<", &format!(">{team}<"));
    let when = |actions: &str| {
        format!(
            r#"{{"Effect":"Allow","Action":[{actions}],"Resource":"*","Condition":{{"StringEquals":{{"s3:RequestObjectTag/team":"red"}}}}}}"#
        )
    };
    w.user("alice", &when(r#""s3:PutObjectTagging","s3:GetObject""#));
    let put = |team: &str| w.by("alice", "PUT", "/plain/k").q("tagging", "").body(of(team));
    put("red").send().expect(200);
    put("blue").send().refused(403, "AccessDenied");
    put("blue").header("x-amz-tagging", "team=red").send().refused(403, "AccessDenied");
    put("blue").q("x-amz-tagging", "team=red").send_presigned("60").refused(403, "AccessDenied");
    assert!(w.root("GET", "/plain/k").q("tagging", "").send().text().contains("red"));
    // A header that the operation ignores is no fact.
    w.by("alice", "GET", "/plain/k").header("x-amz-tagging", "team=red").send().refused(403, "AccessDenied");
    // By header, form and copy.
    let needed = r#""s3:PutObject","s3:PutObjectTagging""#;
    w.user("alice", &format!("{},{}", when(needed), allow(r#""s3:GetObject*""#, "*")));
    for (team, status) in [("red", 200), ("blue", 403)] {
        let tag = format!("team={team}");
        w.by("alice", "PUT", "/plain/h").header("x-amz-tagging", &tag).body("x").send().expect(status);
        let formed = if status == 200 { 204 } else { 403 };
        form(&w, "alice", "plain", &[("tagging", of(team).as_str())]).expect(formed);
        form(&w, "alice", "plain", &[("x-amz-tagging", tag.as_str())]).expect(formed);
        // The field `tagging` is what is stored where both are given.
        let both = [("tagging", of("blue")), ("x-amz-tagging", tag.clone())];
        let both: Vec<(&str, &str)> = both.iter().map(|(n, v)| (*n, v.as_str())).collect();
        form(&w, "alice", "plain", &both).refused(403, "AccessDenied");
    }
    let deny = r#"{"Effect":"Deny","Action":"s3:PutObject","Resource":"*","Condition":{"StringEquals":{"s3:RequestObjectTag/team":"red"}}}"#;
    w.user("alice", &format!("{},{deny}", allow("\"s3:*\"", "*")));
    let copy = || w.by("alice", "PUT", "/plain/copy").header("x-amz-copy-source", "/plain/k");
    copy().send().refused(403, "AccessDenied");
    let replaced = || copy().header("x-amz-tagging-directive", "REPLACE");
    replaced().header("x-amz-tagging", "team=blue").send().expect(200);
    replaced().header("x-amz-tagging", "team=red").send().refused(403, "AccessDenied");
}

/// A caller who is denied whatever the document says gets no error about its content.
#[test]
fn documents_of_unauthorized_callers_are_not_parsed() {
    let (w, _kept) = world();
    w.user("alice", &allow(r#""s3:PutObject*""#, "arn:aws:s3:::other/*"));
    for sub in ["tagging", "retention", "legal-hold"] {
        for garbage in ["<", "<Other/>", "<Retention><Mode>X</Mode></Retention>"] {
            let put = |r: Req| r.q(sub, "").body(garbage).send();
            put(w.by("alice", "PUT", "/plain/source")).refused(403, "AccessDenied");
            put(w.root("PUT", "/plain/source").anonymous()).refused(403, "AccessDenied");
        }
        w.root("PUT", "/plain/source").q(sub, "").body("<").send().refused(400, "MalformedXML");
    }
}

/// Headers of a presigned request may stand in its query; `x-amz-copy-source` there is a copy too.
#[test]
fn presigned_copy_needs_the_permissions_of_a_copy() {
    let (w, _kept) = world();
    let presigned = |user: &str, name: &str| {
        w.by(user, "PUT", "/plain/copied").q(name, "/plain/source").send_presigned("60")
    };
    for name in ["x-amz-copy-source", "X-Amz-Copy-Source"] {
        w.user("alice", &allow(r#""s3:PutObject""#, "*"));
        presigned("alice", name).refused(403, "AccessDenied");
        w.root("HEAD", "/plain/copied").send().expect(404);
        w.user("alice", &allow(r#""s3:PutObject","s3:GetObject""#, "*"));
        presigned("alice", name).expect(200);
        assert_eq!(w.server.get("/plain/copied").expect(200).body, b"hello");
        w.root("DELETE", "/plain/copied").send().expect(204);
    }
}

/// The bucket that takes an access log has to permit it, and nobody learns of buckets by asking.
#[test]
fn access_log_target_needs_write_permission_of_its_owner() {
    let (w, _kept) = world();
    for bucket in ["mine", "web", "logs"] {
        w.server.make_bucket(bucket);
    }
    let mine = allow("\"s3:*\"", "arn:aws:s3:::mine\",\"arn:aws:s3:::mine/*");
    w.user("alice", &format!("{mine},{}", allow("\"s3:PutObject\"", "arn:aws:s3:::logs/of-mine/*")));
    let put = |target: &str, prefix: &str| {
        let document = format!(
            "<BucketLoggingStatus><LoggingEnabled><TargetBucket>{target}</TargetBucket><TargetPrefix>{prefix}</TargetPrefix></LoggingEnabled></BucketLoggingStatus>"
        );
        w.by("alice", "PUT", "/mine").q("logging", "").body(document).send()
    };
    let refused = |target: &str, prefix: &str| {
        let r = put(target, prefix);
        assert_eq!(
            (r.status, r.code().as_str()),
            (400, "InvalidTargetBucketForLogging"),
            "{target} {prefix}"
        );
        r.text().replace(target, "").split("<RequestId>").next().unwrap().to_owned()
    };
    // The same answer, whether the bucket exists or not.
    assert_eq!(refused("web", "of-mine/"), refused("none", "of-mine/"));
    refused("logs", "");
    refused("logs", "of-min");
    assert!(!w.root("GET", "/mine").q("logging", "").send().expect(200).text().contains("Enabled"));
    put("logs", "of-mine/").expect(200);
    put("mine", "log/").expect(200);
    // A policy of the bucket may permit it, and a Deny of it counts.
    let policy = |effect: &str| {
        format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"{effect}","Principal":{{"AWS":"arn:aws:iam:::user/alice"}},"Action":"s3:PutObject","Resource":"arn:aws:s3:::web/*"}}]}}"#
        )
    };
    w.root("PUT", "/web").q("policy", "").body(policy("Allow")).send().expect(204);
    put("web", "").expect(200);
    w.root("PUT", "/web").q("policy", "").body(policy("Deny")).send().expect(204);
    refused("web", "");
}

/// Names that the server uses itself.
#[test]
fn users_cannot_create_or_write_reserved_buckets() {
    let (w, _kept) = world();
    w.user("alice", &allow("\"s3:*\"", "*"));
    for name in ["ashlar-dead-letters", "ashlar-anything", "ashlar", "minio"] {
        w.by("alice", "PUT", &format!("/{name}")).send().expect(if name.contains('-') { 403 } else { 409 });
        w.root("PUT", &format!("/{name}")).send().refused(409, "BucketAlreadyExists");
    }
    w.by("alice", "PUT", "/ashlarish").send().expect(200);
    // What the server put there is read by whom a policy allows, and changed by root.
    let store = w.server.service.context().store.clone();
    let spec = ashlar_object::CreateBucket::default();
    w.runtime.block_on(store.create_bucket("ashlar-dead-letters", &spec)).unwrap();
    w.server.put("/ashlar-dead-letters/1:webhook/a.json", b"{}").expect(200);
    let path = "/ashlar-dead-letters/1:webhook/a.json";
    w.by("alice", "GET", path).send().expect(200);
    w.by("alice", "PUT", path).body("{}").send().refused(403, "AccessDenied");
    w.by("alice", "PUT", path)
        .header("x-amz-copy-source", "/plain/source")
        .send()
        .refused(403, "AccessDenied");
    w.by("alice", "DELETE", path).send().refused(403, "AccessDenied");
    w.by("alice", "POST", path).q("uploads", "").send().refused(403, "AccessDenied");
    form(&w, "alice", "ashlar-dead-letters", &[]).refused(403, "AccessDenied");
    w.by("alice", "DELETE", "/ashlar-dead-letters").send().refused(403, "AccessDenied");
    let public = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::ashlar-dead-letters/*"}]}"#;
    w.by("alice", "PUT", "/ashlar-dead-letters")
        .q("policy", "")
        .body(public)
        .send()
        .refused(403, "AccessDenied");
    w.root("PUT", "/ashlar-dead-letters").q("policy", "").body(public).send().expect(204);
    w.root("PUT", path).anonymous().body("{}").send().refused(403, "AccessDenied");
    w.root("DELETE", path).send().expect(204);
}

/// A condition restricts the named keys for encryption, as in MinIO; there is no action per key.
#[test]
fn policy_can_restrict_kms_keys_of_new_objects() {
    let (w, _kept) = world();
    let deny = r#"{"Effect":"Deny","Action":"s3:PutObject","Resource":"*","Condition":{"StringNotEquals":{"s3:x-amz-server-side-encryption-aws-kms-key-id":"other"},"Null":{"s3:x-amz-server-side-encryption-aws-kms-key-id":"false"}}}"#;
    w.user("alice", &format!("{},{deny}", allow("\"s3:*\"", "*")));
    let put = |way: &str, key: &str| {
        let headers = [
            ("x-amz-server-side-encryption", "aws:kms"),
            ("x-amz-server-side-encryption-aws-kms-key-id", key),
        ];
        make(&w, "alice", way, "plain", &headers)
    };
    for way in WAYS {
        put(way, "main").refused(403, "AccessDenied");
        w.root("HEAD", "/plain/made").send().expect(404);
        let r = put(way, "other");
        assert!((200..300).contains(&r.status), "{way}: {}", r.text());
        forget(&w, "plain");
    }
}
