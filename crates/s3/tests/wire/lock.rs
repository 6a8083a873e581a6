//! Object lock over HTTP: defaults, retention, legal hold, bypass, and the permissions for them.

use crate::common::*;

/// So many days from now, as clients write it.
fn days(n: i64) -> String {
    let s = stamp(n * 86_400);
    format!("{}-{}-{}T{}:{}:{}Z", &s[..4], &s[4..6], &s[6..8], &s[9..11], &s[11..13], &s[13..15])
}

fn retention(mode: &str, until: &str) -> String {
    format!("<Retention><Mode>{mode}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>")
}

fn configuration(rule: &str) -> String {
    let rule = if rule.is_empty() {
        String::new()
    } else {
        format!("<Rule><DefaultRetention>{rule}</DefaultRetention></Rule>")
    };
    format!(
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}</ObjectLockConfiguration>"
    )
}

/// A server with the bucket `l-1` that has object lock.
fn world() -> World {
    let w = World::new();
    w.root("PUT", "/l-1").header("x-amz-bucket-object-lock-enabled", "true").send().expect(200);
    w
}

fn put(w: &World, key: &str, headers: &[(&str, &str)]) -> String {
    let r = headers.iter().fold(w.root("PUT", key), |r, (n, v)| r.header(n, *v));
    r.body("x").send().expect(200).header("x-amz-version-id").unwrap().to_owned()
}

fn delete(w: &World, key: &str, id: &str, bypass: bool) -> Resp {
    let r = w.root("DELETE", key).q("versionId", id);
    let r = if bypass { r.header("x-amz-bypass-governance-retention", "true") } else { r };
    r.send()
}

#[test]
fn objects_get_the_default_retention_of_the_bucket() {
    let w = world();
    let get = || w.root("GET", "/l-1").q("object-lock", "").send();
    assert_eq!(get().expect(200).tag("ObjectLockEnabled").as_deref(), Some("Enabled"));
    let free = put(&w, "/l-1/free", &[]);
    delete(&w, "/l-1/free", &free, false).expect(204);
    let set = |text: String| w.root("PUT", "/l-1").q("object-lock", "").body(text).send();
    set(configuration("<Mode>GOVERNANCE</Mode><Days>3</Days>")).expect(200);
    assert_eq!(get().tag("Days").as_deref(), Some("3"));
    let id = put(&w, "/l-1/k", &[]);
    let head = w.root("HEAD", "/l-1/k").send().expect(200);
    assert_eq!(head.header("x-amz-object-lock-mode"), Some("GOVERNANCE"));
    assert!(head.header("x-amz-object-lock-retain-until-date").unwrap() < days(4).as_str());
    delete(&w, "/l-1/k", &id, false).refused(403, "AccessDenied");
    delete(&w, "/l-1/k", &id, true).expect(204);
    // Uploads and copies too; what the request asks for is stronger than the default.
    let made = w
        .root("POST", "/l-1/u")
        .q("uploads", "")
        .header("x-amz-object-lock-legal-hold", "ON")
        .send()
        .expect(200);
    let upload = made.tag("UploadId").unwrap();
    let part =
        w.root("PUT", "/l-1/u").q("partNumber", "1").q("uploadId", &upload).body("x").send().expect(200);
    let etag = part.header("etag").unwrap().to_owned();
    let done = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    );
    let done = w.root("POST", "/l-1/u").q("uploadId", &upload).body(done).send().expect(200);
    let id = done.header("x-amz-version-id").unwrap().to_owned();
    let head = w.root("HEAD", "/l-1/u").send().expect(200);
    assert_eq!(head.header("x-amz-object-lock-mode"), Some("GOVERNANCE"));
    assert_eq!(head.header("x-amz-object-lock-legal-hold"), Some("ON"));
    delete(&w, "/l-1/u", &id, true).refused(403, "AccessDenied");
    let copy = w.root("PUT", "/l-1/c").header("x-amz-copy-source", "l-1/u");
    let copy = copy
        .header("x-amz-object-lock-mode", "COMPLIANCE")
        .header("x-amz-object-lock-retain-until-date", days(1));
    let id = copy.send().expect(200).header("x-amz-version-id").unwrap().to_owned();
    let head = w.root("HEAD", "/l-1/c").send().expect(200);
    assert_eq!(head.header("x-amz-object-lock-mode"), Some("COMPLIANCE"));
    assert_eq!(head.header("x-amz-object-lock-legal-hold"), None, "never copied");
    delete(&w, "/l-1/c", &id, true).refused(403, "AccessDenied");
    // Without a rule again; never off.
    set(configuration("")).expect(200);
    assert_eq!(get().tag("Days"), None);
    w.root("PUT", "/l-1")
        .q("versioning", "")
        .body("<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>")
        .send()
        .refused(409, "InvalidBucketState");
    for bad in
        ["<Mode>GOVERNANCE</Mode>", "<Mode>X</Mode><Days>1</Days>", "<Mode>GOVERNANCE</Mode><Days>x</Days>"]
    {
        set(configuration(bad)).refused(400, "MalformedXML");
    }
    set(configuration("<Mode>COMPLIANCE</Mode><Days>0</Days>")).refused(400, "InvalidRetentionPeriod");
}

#[test]
fn retention_and_legal_hold_of_a_version_apply() {
    let w = world();
    let id = put(&w, "/l-1/k", &[]);
    let get = |what: &str| w.root("GET", "/l-1/k").q(what, "").send();
    get("retention").refused(404, "NoSuchObjectLockConfiguration");
    assert_eq!(get("legal-hold").expect(200).tag("Status").as_deref(), Some("OFF"));
    let set = |mode: &str, until: &str, bypass: bool| {
        let r = w.root("PUT", "/l-1/k").q("retention", "").body(retention(mode, until));
        let r = if bypass { r.header("x-amz-bypass-governance-retention", "true") } else { r };
        r.send()
    };
    set("GOVERNANCE", &days(5), false).expect(200);
    let r = get("retention").expect(200);
    assert_eq!(r.tag("Mode").as_deref(), Some("GOVERNANCE"));
    set("GOVERNANCE", &days(2), false).refused(403, "AccessDenied");
    set("GOVERNANCE", &days(6), false).expect(200);
    set("GOVERNANCE", &days(2), true).expect(200);
    w.root("PUT", "/l-1/k").q("retention", "").body("<Retention/>").send().refused(403, "AccessDenied");
    set("COMPLIANCE", &days(2), true).expect(200);
    for bypass in [false, true] {
        set("COMPLIANCE", &days(1), bypass).refused(403, "AccessDenied");
        set("GOVERNANCE", &days(9), bypass).refused(403, "AccessDenied");
        delete(&w, "/l-1/k", &id, bypass).refused(403, "AccessDenied");
    }
    set("COMPLIANCE", &days(3), false).expect(200);
    set("COMPLIANCE", &days(-1), true).refused(400, "InvalidArgument");
    set("COMPLIANCE", "tomorrow", true).refused(400, "InvalidArgument");
    // Covered by a marker, and by others; the version stays. A multi-object delete says so per key.
    w.root("DELETE", "/l-1/k").send().expect(204);
    let many = format!("<Delete><Object><Key>k</Key><VersionId>{id}</VersionId></Object></Delete>");
    let r = w.root("POST", "/l-1").q("delete", "").body(many).send().expect(200);
    assert_eq!(r.tag("Code").as_deref(), Some("AccessDenied"));
    w.root("GET", "/l-1/k").q("versionId", &id).send().expect(200);
    // Holds.
    let id = put(&w, "/l-1/h", &[("x-amz-object-lock-legal-hold", "ON")]);
    delete(&w, "/l-1/h", &id, true).refused(403, "AccessDenied");
    let hold = |status: &str| {
        let text = format!("<LegalHold><Status>{status}</Status></LegalHold>");
        w.root("PUT", "/l-1/h").q("legal-hold", "").body(text).send()
    };
    hold("MAYBE").refused(400, "MalformedXML");
    hold("OFF").expect(200);
    delete(&w, "/l-1/h", &id, false).expect(204);
}

#[test]
fn lock_requests_need_a_bucket_with_object_lock() {
    let w = world();
    w.root("GET", "/b-1").q("object-lock", "").send().refused(404, "ObjectLockConfigurationNotFoundError");
    let locked =
        [("x-amz-object-lock-mode", "GOVERNANCE"), ("x-amz-object-lock-retain-until-date", &days(1))];
    let r = locked.iter().fold(w.root("PUT", "/b-1/k"), |r, (n, v)| r.header(n, *v));
    r.send().refused(400, "InvalidRequest");
    for what in ["retention", "legal-hold"] {
        w.root("GET", "/b-1/k").q(what, "").send().refused(400, "InvalidRequest");
    }
    w.root("PUT", "/b-1/k")
        .q("retention", "")
        .body(retention("GOVERNANCE", &days(1)))
        .send()
        .refused(400, "InvalidRequest");
    for headers in [
        &[("x-amz-object-lock-mode", "GOVERNANCE")][..],
        &[("x-amz-object-lock-mode", "X"), ("x-amz-object-lock-retain-until-date", "2099-01-01T00:00:00Z")],
        &[
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-object-lock-retain-until-date", "2001-01-01T00:00:00Z"),
        ],
        &[("x-amz-object-lock-legal-hold", "on")],
    ] {
        let r = headers.iter().fold(w.root("PUT", "/l-1/k"), |r, (n, v)| r.header(n, *v));
        r.send().refused(400, "InvalidArgument");
    }
    w.root("GET", "/l-1/k").send().refused(404, "NoSuchKey");
    // Switched on later where versions are kept, not elsewhere.
    w.root("PUT", "/b-1").q("object-lock", "").body(configuration("")).send().expect(200);
    put(&w, "/b-1/k", &locked);
    w.root("PUT", "/b-2")
        .q("object-lock", "")
        .body(configuration(""))
        .send()
        .refused(409, "InvalidBucketState");
    w.root("PUT", "/l-2")
        .header("x-amz-bucket-object-lock-enabled", "yes")
        .send()
        .refused(400, "InvalidArgument");
}

#[test]
fn locking_and_bypass_need_permissions() {
    let w = world();
    let all = "arn:aws:s3:::l-1/*";
    let id = put(
        &w,
        "/l-1/k",
        &[("x-amz-object-lock-mode", "GOVERNANCE"), ("x-amz-object-lock-retain-until-date", &days(2))],
    );
    // Writing alone does not lock; nor does it show locks.
    w.user("alice", &allow("\"s3:PutObject\",\"s3:GetObject\",\"s3:DeleteObjectVersion\"", all));
    let lock = |user: &str, days_: i64| {
        let r = w.by(user, "PUT", "/l-1/a").header("x-amz-object-lock-mode", "GOVERNANCE");
        r.header("x-amz-object-lock-retain-until-date", days(days_)).body("x").send()
    };
    lock("alice", 1).refused(403, "AccessDenied");
    w.by("alice", "PUT", "/l-1/a")
        .header("x-amz-object-lock-legal-hold", "OFF")
        .send()
        .refused(403, "AccessDenied");
    w.by("alice", "PUT", "/l-1/k")
        .q("retention", "")
        .body(retention("GOVERNANCE", &days(9)))
        .send()
        .refused(403, "AccessDenied");
    w.by("alice", "GET", "/l-1/k").q("retention", "").send().refused(403, "AccessDenied");
    assert_eq!(w.by("alice", "HEAD", "/l-1/k").send().expect(200).header("x-amz-object-lock-mode"), None);
    let remove = |user: &str| {
        let r = w.by(user, "DELETE", "/l-1/k").q("versionId", &id);
        r.header("x-amz-bypass-governance-retention", "true").send()
    };
    remove("alice").refused(403, "AccessDenied");
    // The permission without the header does nothing, a deny counts (CVE-2023-25812).
    let bypass = "\"s3:DeleteObjectVersion\",\"s3:BypassGovernanceRetention\"";
    w.user(
        "bobby",
        &format!(
            "{},{{\"Effect\":\"Deny\",\"Action\":\"s3:BypassGovernanceRetention\",\"Resource\":\"{all}\"}}",
            allow(bypass, all)
        ),
    );
    remove("bobby").refused(403, "AccessDenied");
    w.user("bobby", &allow(bypass, all));
    w.by("bobby", "DELETE", "/l-1/k").q("versionId", &id).send().refused(403, "AccessDenied");
    remove("bobby").expect(204);
    // Conditions see what is asked for, in headers and in documents.
    let short = format!(
        r#"{{"Effect":"Allow","Action":["s3:PutObject","s3:PutObjectRetention","s3:GetObjectRetention"],"Resource":"{all}","Condition":{{"NumericLessThanIfExists":{{"s3:object-lock-remaining-retention-days":"10"}}}}}}"#
    );
    w.user("carol", &short);
    lock("carol", 5).expect(200);
    lock("carol", 20).refused(403, "AccessDenied");
    let set =
        |n| w.by("carol", "PUT", "/l-1/a").q("retention", "").body(retention("GOVERNANCE", &days(n))).send();
    set(8).expect(200);
    set(20).refused(403, "AccessDenied");
    // What headers say does not pass for what the document asks for.
    let lie = w.by("carol", "PUT", "/l-1/a").q("retention", "").body(retention("GOVERNANCE", &days(20)));
    let lie = lie.header("x-amz-object-lock-mode", "GOVERNANCE");
    lie.header("x-amz-object-lock-retain-until-date", days(5)).send().refused(403, "AccessDenied");
    let long = format!(
        r#"{{"Effect":"Allow","Action":"s3:PutObjectRetention","Resource":"{all}","Condition":{{"NumericGreaterThan":{{"s3:object-lock-remaining-retention-days":"10"}}}}}}"#
    );
    w.user("david", &long);
    let lie = w.by("david", "PUT", "/l-1/a").q("retention", "").body("<Retention/>");
    let lie = lie.header("x-amz-object-lock-mode", "GOVERNANCE");
    lie.header("x-amz-object-lock-retain-until-date", days(20)).send().refused(403, "AccessDenied");
    w.by("carol", "GET", "/l-1/a").q("retention", "").send().expect(200);
}
