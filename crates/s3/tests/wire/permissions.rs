//! Authorization over HTTP: users, groups, access keys, sessions, bucket policies, anonymous requests.

use crate::common::*;
use ashlar_iam::{Assume, NewKey, Secret};
use ashlar_s3::operation::Operation;

#[test]
fn user_has_the_permissions_of_its_policies() {
    let w = World::new();
    w.by("alice", "GET", "/b-1/k").send().refused(403, "InvalidAccessKeyId");
    w.user("alice", "");
    w.by("alice", "GET", "/b-1/k").send().refused(403, "AccessDenied");
    w.user("alice", &allow("\"s3:GetObject\"", "arn:aws:s3:::b-1/*"));
    assert_eq!(w.by("alice", "GET", "/b-1/k").send().expect(200).body, b"hello");
    w.by("alice", "GET", "/b-2/k").send().refused(403, "AccessDenied");
    w.by("alice", "PUT", "/b-1/k").body("x").send().refused(403, "AccessDenied");
    // Only callers with permission to list can tell whether a key exists.
    w.by("alice", "GET", "/b-1/nothing").send().refused(403, "AccessDenied");
    w.by("alice", "HEAD", "/b-1/nothing").send().expect(403);
    w.by("alice", "GET", "/b-9/k").send().refused(403, "AccessDenied");
    let list = allow("\"s3:ListBucket\"", "arn:aws:s3:::b-1");
    w.user("alice", &format!("{},{list}", allow("\"s3:GetObject\"", "arn:aws:s3:::b-1/*")));
    w.by("alice", "GET", "/b-1/nothing").send().refused(404, "NoSuchKey");
    w.by("alice", "GET", "/b-1").send().expect(200);
    // Only its own folder.
    let own = r#"{"Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b-1","Condition":{"StringLike":{"s3:prefix":"home/${aws:username}/*"}}}"#;
    w.user("alice", own);
    w.by("alice", "GET", "/b-1").q("prefix", "home/alice/").send().expect(200);
    w.by("alice", "GET", "/b-1").q("list-type", "2").q("prefix", "home/alice/x").send().expect(200);
    w.by("alice", "GET", "/b-1").q("prefix", "home/bob/").send().refused(403, "AccessDenied");
    w.by("alice", "GET", "/b-1").send().refused(403, "AccessDenied");
    // By tags of the object, of the latest and of one version.
    let tagged = r#"{"Effect":"Allow","Action":["s3:GetObject","s3:GetObjectVersion"],"Resource":"*","Condition":{"StringEquals":{"s3:ExistingObjectTag/team":"red"}}}"#;
    w.user("alice", tagged);
    w.by("alice", "GET", "/b-1/k").send().refused(403, "AccessDenied");
    let red = w.root("PUT", "/b-1/k").header("x-amz-tagging", "team=red").body("red").send().expect(200);
    let red = red.header("x-amz-version-id").unwrap().to_owned();
    w.by("alice", "GET", "/b-1/k").send().expect(200);
    w.root("PUT", "/b-1/k").header("x-amz-tagging", "team=blue").body("blue").send().expect(200);
    w.by("alice", "GET", "/b-1/k").send().refused(403, "AccessDenied");
    assert_eq!(w.by("alice", "GET", "/b-1/k").q("versionId", &red).send().expect(200).body, b"red");
    // A disabled user is unknown from the next request on.
    w.runtime.block_on(w.iam.enable_user("alice", false)).unwrap();
    w.by("alice", "GET", "/b-1/k").send().refused(403, "InvalidAccessKeyId");
}

#[test]
fn each_key_of_a_multi_delete_is_decided_and_a_copy_needs_its_source() {
    let w = World::new();
    w.server.put("/b-2/keep", b"1").expect(200);
    w.user("alice", &allow("\"s3:DeleteObject\"", "arn:aws:s3:::b-2/k"));
    let body = "<Delete><Object><Key>k</Key></Object><Object><Key>keep</Key></Object><Object><Key>k</Key><VersionId>null</VersionId></Object></Delete>";
    let r = w
        .by("alice", "POST", "/b-2")
        .q("delete", "")
        .header("content-md5", md5_base64(body.as_bytes()))
        .body(body);
    let text = String::from_utf8(r.send().expect(200).body).unwrap();
    assert!(text.contains("<Deleted><Key>k</Key></Deleted>"), "{text}");
    assert_eq!(text.matches("<Code>AccessDenied</Code>").count(), 2, "{text}");
    w.server.get("/b-2/keep").expect(200);
    w.server.get("/b-2/k").refused(404, "NoSuchKey");

    w.user("bob", &allow("\"s3:PutObject\"", "arn:aws:s3:::b-2/*"));
    let copy = |user: &str| w.by(user, "PUT", "/b-2/copy").header("x-amz-copy-source", "/b-1/k");
    copy("bob").send().refused(403, "AccessDenied");
    let read = allow("\"s3:GetObject\"", "arn:aws:s3:::b-1/k");
    w.user("bob", &read);
    copy("bob").send().refused(403, "AccessDenied");
    w.user("bob", &format!("{read},{}", allow("\"s3:PutObject\"", "arn:aws:s3:::b-2/*")));
    copy("bob").send().expect(200);
    copy("bob")
        .header("x-amz-tagging-directive", "REPLACE")
        .header("x-amz-tagging", "a=b")
        .send()
        .refused(403, "AccessDenied");
    let gone = w.by("bob", "PUT", "/b-2/copy").header("x-amz-copy-source", "/b-1/nothing");
    gone.send().refused(403, "AccessDenied");
    // A version is another action than the latest.
    let version = w.server.put("/b-1/k", b"two").expect(200).header("x-amz-version-id").unwrap().to_owned();
    w.by("bob", "GET", "/b-1/k").send().expect(200);
    w.by("bob", "GET", "/b-1/k").q("versionId", &version).send().refused(403, "AccessDenied");
    let source = format!("/b-1/k?versionId={version}");
    w.by("bob", "PUT", "/b-2/copy").header("x-amz-copy-source", source).send().refused(403, "AccessDenied");
}

#[test]
fn only_accessible_buckets_are_listed() {
    let w = World::new();
    w.user("alice", "");
    w.by("alice", "GET", "/").send().refused(403, "AccessDenied");
    w.user("alice", &allow("\"s3:ListBucket\"", "arn:aws:s3:::b-2"));
    let seen = |user| String::from_utf8(w.by(user, "GET", "/").send().expect(200).body).unwrap();
    assert!(seen("alice").contains("<Name>b-2</Name>") && !seen("alice").contains("b-1"));
    w.user("alice", &allow("\"s3:ListAllMyBuckets\"", "arn:aws:s3:::*"));
    assert!(seen("alice").contains("<Name>b-2</Name>") && seen("alice").contains("b-1"));
}

#[test]
fn access_keys_and_sessions_are_restricted() {
    let w = World::new();
    w.user("alice", &allow("\"s3:GetObject\",\"s3:PutObject\"", "arn:aws:s3:::b-1/*"));
    let only_read = format!(
        "{{\"Version\":\"2012-10-17\",\"Statement\":[{}]}}",
        allow("\"s3:GetObject\"", "arn:aws:s3:::*")
    );
    let new = NewKey { parent: "alice".into(), policy: Some(only_read.clone()), ..NewKey::default() };
    let (key, secret) = w.runtime.block_on(w.iam.add_key(new)).unwrap();
    let with = |method: &str, path: &str, key: &str, secret: &Secret| {
        w.root(method, path).set(|r| {
            r.key = key.into();
            r.secret = secret.expose().into();
        })
    };
    with("GET", "/b-1/k", &key, &secret).send().expect(200);
    with("GET", "/b-2/k", &key, &secret).send().refused(403, "AccessDenied");
    with("PUT", "/b-1/k", &key, &secret).body("x").send().refused(403, "AccessDenied");

    let alice = w.iam.find("alice").unwrap();
    let ask = Assume { duration_s: 900, policy: Some(only_read) };
    let (s, t) = (w.iam.assume(&alice, &ask).unwrap(), w.iam.assume(&alice, &ask).unwrap());
    let token = |r: Req, token: &str| r.header("x-amz-security-token", token);
    let get = || with("GET", "/b-1/k", &s.access_key, &s.secret);
    token(get(), &s.token).send().expect(200);
    token(with("PUT", "/b-1/k", &s.access_key, &s.secret).body("x"), &s.token)
        .send()
        .refused(403, "AccessDenied");
    get().send().refused(403, "InvalidAccessKeyId");
    token(get(), &t.token).send().refused(400, "InvalidToken");
    token(get(), "nonsense").send().refused(400, "InvalidToken");
    token(w.root("GET", "/b-1/k"), &s.token).send().refused(400, "InvalidToken");
    // A token that is not signed, or beside a request without signature.
    get().unsigned("x-amz-security-token", s.token.as_str()).send().refused(403, "AccessDenied");
    w.root("GET", "/b-1/k")
        .anonymous()
        .header("x-amz-security-token", s.token.as_str())
        .send()
        .refused(400, "InvalidToken");
    w.root("GET", "/b-1/k").q("X-Amz-Security-Token", &s.token).send().refused(400, "InvalidToken");
    w.runtime.block_on(w.iam.revoke_sessions("alice")).unwrap();
    token(get(), &s.token).send().refused(400, "InvalidToken");
}

#[test]
fn bucket_policy_allows_and_denies() {
    let w = World::new();
    let nobody = |method: &str, path: &str| w.root(method, path).anonymous();
    let set = |text: &str| w.root("PUT", "/b-1").q("policy", "").body(text).send();
    let statement = |effect: &str, action: &str, more: &str| {
        format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"{effect}","Principal":"*","Action":"{action}","Resource":["arn:aws:s3:::b-1/*","arn:aws:s3:::b-1"]{more}}}]}}"#
        )
    };
    w.root("GET", "/b-1").q("policy", "").send().refused(404, "NoSuchBucketPolicy");
    nobody("GET", "/b-1/k").send().refused(403, "AccessDenied");
    let public = statement("Allow", "s3:GetObject", "");
    set(&public).expect(204);
    assert_eq!(w.root("GET", "/b-1").q("policy", "").send().expect(200).body, public.as_bytes());
    assert_eq!(nobody("GET", "/b-1/k").send().expect(200).body, b"hello");
    nobody("HEAD", "/b-1/k").send().expect(200);
    nobody("GET", "/b-1/k").q("response-content-type", "text/html").send().refused(400, "InvalidRequest");
    for refused in [
        nobody("PUT", "/b-1/k").body("x"),
        nobody("DELETE", "/b-1/k"),
        nobody("GET", "/b-1"),
        nobody("GET", "/b-2/k"),
        nobody("GET", "/b-1/nothing"),
        nobody("GET", "/"),
    ] {
        refused.send().refused(403, "AccessDenied");
    }
    let is_public =
        || String::from_utf8(w.root("GET", "/b-1").q("policyStatus", "").send().expect(200).body).unwrap();
    assert!(is_public().contains("<IsPublic>TRUE</IsPublic>"));
    // A user without policies can use this request through the bucket's policy, but no other action.
    w.user("alice", "");
    w.by("alice", "GET", "/b-1/k").send().expect(200);
    w.by("alice", "PUT", "/b-1/k").body("x").send().refused(403, "AccessDenied");
    // The public access block.
    let block = |on: &str| {
        let body =
            format!("<PublicAccessBlockConfiguration><{on}>true</{on}></PublicAccessBlockConfiguration>");
        w.root("PUT", "/b-1").q("publicAccessBlock", "").body(body).send()
    };
    w.root("GET", "/b-1")
        .q("publicAccessBlock", "")
        .send()
        .refused(404, "NoSuchPublicAccessBlockConfiguration");
    block("RestrictPublicBuckets").expect(200);
    nobody("GET", "/b-1/k").send().refused(403, "AccessDenied");
    block("BlockPublicPolicy").expect(200);
    nobody("GET", "/b-1/k").send().expect(200);
    set(&public).refused(403, "AccessDenied");
    let text = w.root("GET", "/b-1").q("publicAccessBlock", "").send().expect(200).body;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("<BlockPublicPolicy>true</BlockPublicPolicy>")
            && text.contains("<RestrictPublicBuckets>false<"),
        "{text}"
    );
    block("Nonsense").refused(400, "MalformedXML");
    w.root("DELETE", "/b-1").q("publicAccessBlock", "").send().expect(204);
    // Conditions on the connection; headers never pass for facts.
    let local = |cidr: &str| {
        statement(
            "Allow",
            "s3:GetObject",
            &format!(r#","Condition":{{"IpAddress":{{"aws:SourceIp":"{cidr}"}}}}"#),
        )
    };
    set(&local("127.0.0.0/8")).expect(204);
    nobody("GET", "/b-1/k").send().expect(200);
    set(&local("192.0.2.0/24")).expect(204);
    for name in ["x-forwarded-for", "x-real-ip", "aws:sourceip", "forwarded"] {
        if name.contains(':') {
            continue;
        }
        nobody("GET", "/b-1/k").header(name, "192.0.2.1").send().refused(403, "AccessDenied");
    }
    // A deny binds root too, except from repairing it.
    set(&statement("Deny", "s3:*", "")).expect(204);
    w.server.get("/b-1/k").refused(403, "AccessDenied");
    w.root("GET", "/b-1").q("policy", "").send().expect(200);
    for bad in [
        "",
        "{}",
        "[]",
        "null",
        &public.replace("b-1", "b-2"),
        &public.replace("s3:GetObject", "s3:NoSuchThing"),
        &public.replace("Principal", "Principle"),
    ] {
        set(bad).refused(400, "MalformedPolicy");
    }
    w.root("DELETE", "/b-1").q("policy", "").send().expect(204);
    w.server.get("/b-1/k").expect(200);
    w.root("DELETE", "/b-1").q("policy", "").send().expect(204);
    w.root("PUT", "/b-9").q("policy", "").body(&public).send().refused(404, "NoSuchBucket");
}

/// Operation, method, path, query, headers, body, and the actions that it needs with their resources.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static [(&'static str, &'static str)],
);

const BUCKET: &str = "arn:aws:s3:::b-1";
const OBJECT: &str = "arn:aws:s3:::b-1/k";
const VERSIONING: &str = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
const TAGS: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
const POLICY: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::000000000000:user/zoe"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b-1/*"}]}"#;
const LOCK: &str =
    "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
const OWNERSHIP: &str = "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>";
const BLOCK: &str = "<PublicAccessBlockConfiguration/>";
const V: (&str, &str) = ("versionId", "null");

#[rustfmt::skip]
const ROUTES: &[Row] = &[
    ("ListBuckets", "GET", "/", &[], &[], "", &[("s3:ListAllMyBuckets", "arn:aws:s3:::*")]),
    ("CreateBucket", "PUT", "/b-3", &[], &[], "", &[("s3:CreateBucket", "arn:aws:s3:::b-3")]),
    ("HeadBucket", "HEAD", "/b-1", &[], &[], "", &[("s3:ListBucket", BUCKET)]),
    ("DeleteBucket", "DELETE", "/b-1", &[], &[], "", &[("s3:DeleteBucket", BUCKET)]),
    ("GetBucketLocation", "GET", "/b-1", &[("location", "")], &[], "", &[("s3:GetBucketLocation", BUCKET)]),
    ("GetBucketVersioning", "GET", "/b-1", &[("versioning", "")], &[], "", &[("s3:GetBucketVersioning", BUCKET)]),
    ("PutBucketVersioning", "PUT", "/b-1", &[("versioning", "")], &[], VERSIONING, &[("s3:PutBucketVersioning", BUCKET)]),
    ("GetBucketTagging", "GET", "/b-1", &[("tagging", "")], &[], "", &[("s3:GetBucketTagging", BUCKET)]),
    ("PutBucketTagging", "PUT", "/b-1", &[("tagging", "")], &[], TAGS, &[("s3:PutBucketTagging", BUCKET)]),
    ("DeleteBucketTagging", "DELETE", "/b-1", &[("tagging", "")], &[], "", &[("s3:PutBucketTagging", BUCKET)]),
    ("GetBucketAcl", "GET", "/b-1", &[("acl", "")], &[], "", &[("s3:GetBucketAcl", BUCKET)]),
    ("PutBucketAcl", "PUT", "/b-1", &[("acl", "")], &[("x-amz-acl", "private")], "", &[("s3:PutBucketAcl", BUCKET)]),
    ("GetBucketPolicy", "GET", "/b-1", &[("policy", "")], &[], "", &[("s3:GetBucketPolicy", BUCKET)]),
    ("PutBucketPolicy", "PUT", "/b-1", &[("policy", "")], &[], POLICY, &[("s3:PutBucketPolicy", BUCKET)]),
    ("GetBucketPolicyStatus", "GET", "/b-1", &[("policyStatus", "")], &[], "", &[("s3:GetBucketPolicyStatus", BUCKET)]),
    ("DeleteBucketPolicy", "DELETE", "/b-1", &[("policy", "")], &[], "", &[("s3:DeleteBucketPolicy", BUCKET)]),
    ("GetPublicAccessBlock", "GET", "/b-1", &[("publicAccessBlock", "")], &[], "", &[("s3:GetBucketPublicAccessBlock", BUCKET)]),
    ("PutPublicAccessBlock", "PUT", "/b-1", &[("publicAccessBlock", "")], &[], BLOCK, &[("s3:PutBucketPublicAccessBlock", BUCKET)]),
    ("DeletePublicAccessBlock", "DELETE", "/b-1", &[("publicAccessBlock", "")], &[], "", &[("s3:PutBucketPublicAccessBlock", BUCKET)]),
    ("GetBucketEncryption", "GET", "/b-1", &[("encryption", "")], &[], "", &[("s3:GetEncryptionConfiguration", BUCKET)]),
    ("PutBucketEncryption", "PUT", "/b-1", &[("encryption", "")], &[], "<ServerSideEncryptionConfiguration/>", &[("s3:PutEncryptionConfiguration", BUCKET)]),
    ("DeleteBucketEncryption", "DELETE", "/b-1", &[("encryption", "")], &[], "", &[("s3:PutEncryptionConfiguration", BUCKET)]),
    ("GetBucketNotificationConfiguration", "GET", "/b-1", &[("notification", "")], &[], "", &[("s3:GetBucketNotification", BUCKET)]),
    ("PutBucketNotificationConfiguration", "PUT", "/b-1", &[("notification", "")], &[], "<NotificationConfiguration/>", &[("s3:PutBucketNotification", BUCKET)]),
    ("GetBucketLifecycleConfiguration", "GET", "/b-1", &[("lifecycle", "")], &[], "", &[("s3:GetLifecycleConfiguration", BUCKET)]),
    ("PutBucketLifecycleConfiguration", "PUT", "/b-1", &[("lifecycle", "")], &[], "<LifecycleConfiguration/>", &[("s3:PutLifecycleConfiguration", BUCKET)]),
    ("DeleteBucketLifecycle", "DELETE", "/b-1", &[("lifecycle", "")], &[], "", &[("s3:PutLifecycleConfiguration", BUCKET)]),
    ("GetBucketCors", "GET", "/b-1", &[("cors", "")], &[], "", &[("s3:GetBucketCORS", BUCKET)]),
    ("PutBucketCors", "PUT", "/b-1", &[("cors", "")], &[], "<CORSConfiguration/>", &[("s3:PutBucketCORS", BUCKET)]),
    ("DeleteBucketCors", "DELETE", "/b-1", &[("cors", "")], &[], "", &[("s3:PutBucketCORS", BUCKET)]),
    ("GetBucketWebsite", "GET", "/b-1", &[("website", "")], &[], "", &[("s3:GetBucketWebsite", BUCKET)]),
    ("PutBucketWebsite", "PUT", "/b-1", &[("website", "")], &[], "<WebsiteConfiguration/>", &[("s3:PutBucketWebsite", BUCKET)]),
    ("DeleteBucketWebsite", "DELETE", "/b-1", &[("website", "")], &[], "", &[("s3:DeleteBucketWebsite", BUCKET)]),
    ("GetBucketLogging", "GET", "/b-1", &[("logging", "")], &[], "", &[("s3:GetBucketLogging", BUCKET)]),
    ("PutBucketLogging", "PUT", "/b-1", &[("logging", "")], &[], "<BucketLoggingStatus/>", &[("s3:PutBucketLogging", BUCKET)]),
    ("GetBucketAccelerateConfiguration", "GET", "/b-1", &[("accelerate", "")], &[], "", &[("s3:GetAccelerateConfiguration", BUCKET)]),
    ("GetBucketRequestPayment", "GET", "/b-1", &[("requestPayment", "")], &[], "", &[("s3:GetBucketRequestPayment", BUCKET)]),
    ("GetBucketReplication", "GET", "/b-1", &[("replication", "")], &[], "", &[("s3:GetReplicationConfiguration", BUCKET)]),
    ("ListBucketAnalyticsConfigurations", "GET", "/b-1", &[("analytics", "")], &[], "", &[("s3:GetAnalyticsConfiguration", BUCKET)]),
    ("ListBucketInventoryConfigurations", "GET", "/b-1", &[("inventory", "")], &[], "", &[("s3:GetInventoryConfiguration", BUCKET)]),
    ("ListBucketMetricsConfigurations", "GET", "/b-1", &[("metrics", "")], &[], "", &[("s3:GetMetricsConfiguration", BUCKET)]),
    ("ListBucketIntelligentTieringConfigurations", "GET", "/b-1", &[("intelligent-tiering", "")], &[], "", &[("s3:GetIntelligentTieringConfiguration", BUCKET)]),
    ("GetBucketOwnershipControls", "GET", "/b-1", &[("ownershipControls", "")], &[], "", &[("s3:GetBucketOwnershipControls", BUCKET)]),
    ("PutBucketOwnershipControls", "PUT", "/b-1", &[("ownershipControls", "")], &[], OWNERSHIP, &[("s3:PutBucketOwnershipControls", BUCKET)]),
    ("DeleteBucketOwnershipControls", "DELETE", "/b-1", &[("ownershipControls", "")], &[], "", &[("s3:PutBucketOwnershipControls", BUCKET)]),
    ("CreateBucket", "PUT", "/b-3", &[], &[("x-amz-acl", "public-read"), ("x-amz-object-ownership", "ObjectWriter")], "", &[("s3:CreateBucket", "arn:aws:s3:::b-3"), ("s3:PutBucketAcl", "arn:aws:s3:::b-3"), ("s3:PutBucketOwnershipControls", "arn:aws:s3:::b-3")]),
    ("GetObjectLockConfiguration", "GET", "/b-1", &[("object-lock", "")], &[], "", &[("s3:GetBucketObjectLockConfiguration", BUCKET)]),
    ("PutObjectLockConfiguration", "PUT", "/b-1", &[("object-lock", "")], &[], LOCK, &[("s3:PutBucketObjectLockConfiguration", BUCKET)]),
    ("GetObjectRetention", "GET", "/b-1/k", &[("retention", "")], &[], "", &[("s3:GetObjectRetention", OBJECT)]),
    ("PutObjectRetention", "PUT", "/b-1/k", &[("retention", "")], &[], "<Retention/>", &[("s3:PutObjectRetention", OBJECT)]),
    ("GetObjectLegalHold", "GET", "/b-1/k", &[("legal-hold", "")], &[], "", &[("s3:GetObjectLegalHold", OBJECT)]),
    ("PutObjectLegalHold", "PUT", "/b-1/k", &[("legal-hold", "")], &[], "<LegalHold><Status>OFF</Status></LegalHold>", &[("s3:PutObjectLegalHold", OBJECT)]),
    ("PutObject", "PUT", "/b-1/k", &[], &[("x-amz-object-lock-legal-hold", "OFF")], "x", &[("s3:PutObject", OBJECT), ("s3:PutObjectLegalHold", OBJECT)]),
    ("ListObjects", "GET", "/b-1", &[], &[], "", &[("s3:ListBucket", BUCKET)]),
    ("ListObjectsV2", "GET", "/b-1", &[("list-type", "2")], &[], "", &[("s3:ListBucket", BUCKET)]),
    ("ListObjectVersions", "GET", "/b-1", &[("versions", "")], &[], "", &[("s3:ListBucketVersions", BUCKET)]),
    ("ListMultipartUploads", "GET", "/b-1", &[("uploads", "")], &[], "", &[("s3:ListBucketMultipartUploads", BUCKET)]),
    ("GetObject", "GET", "/b-1/k", &[], &[], "", &[("s3:GetObject", OBJECT)]),
    ("GetObject", "GET", "/b-1/k", &[V], &[], "", &[("s3:GetObjectVersion", OBJECT)]),
    ("HeadObject", "HEAD", "/b-1/k", &[], &[], "", &[("s3:GetObject", OBJECT)]),
    ("HeadObject", "HEAD", "/b-1/k", &[V], &[], "", &[("s3:GetObjectVersion", OBJECT)]),
    ("GetObjectAttributes", "GET", "/b-1/k", &[("attributes", "")], &[("x-amz-object-attributes", "ETag")], "", &[("s3:GetObject", OBJECT), ("s3:GetObjectAttributes", OBJECT)]),
    ("GetObjectAttributes", "GET", "/b-1/k", &[("attributes", ""), V], &[("x-amz-object-attributes", "ETag")], "", &[("s3:GetObjectVersion", OBJECT), ("s3:GetObjectVersionAttributes", OBJECT)]),
    ("PutObject", "PUT", "/b-1/k", &[], &[], "x", &[("s3:PutObject", OBJECT)]),
    ("PutObject", "PUT", "/b-1/k", &[], &[("x-amz-tagging", "a=b")], "x", &[("s3:PutObject", OBJECT), ("s3:PutObjectTagging", OBJECT)]),
    ("PutObject", "PUT", "/b-1/k", &[], &[("x-amz-acl", "bucket-owner-full-control")], "x", &[("s3:PutObject", OBJECT), ("s3:PutObjectAcl", OBJECT)]),
    ("CopyObject", "PUT", "/b-1/k", &[], &[("x-amz-copy-source", "b-2/k")], "", &[("s3:PutObject", OBJECT), ("s3:GetObject", "arn:aws:s3:::b-2/k")]),
    ("DeleteObject", "DELETE", "/b-1/other", &[], &[], "", &[("s3:DeleteObject", "arn:aws:s3:::b-1/other")]),
    ("DeleteObject", "DELETE", "/b-1/other", &[V], &[], "", &[("s3:DeleteObjectVersion", "arn:aws:s3:::b-1/other")]),
    ("GetObjectTagging", "GET", "/b-1/k", &[("tagging", "")], &[], "", &[("s3:GetObjectTagging", OBJECT)]),
    ("GetObjectTagging", "GET", "/b-1/k", &[("tagging", ""), V], &[], "", &[("s3:GetObjectVersionTagging", OBJECT)]),
    ("PutObjectTagging", "PUT", "/b-1/k", &[("tagging", "")], &[], TAGS, &[("s3:PutObjectTagging", OBJECT)]),
    ("PutObjectTagging", "PUT", "/b-1/k", &[("tagging", ""), V], &[], TAGS, &[("s3:PutObjectVersionTagging", OBJECT)]),
    ("DeleteObjectTagging", "DELETE", "/b-1/k", &[("tagging", "")], &[], "", &[("s3:DeleteObjectTagging", OBJECT)]),
    ("DeleteObjectTagging", "DELETE", "/b-1/k", &[("tagging", ""), V], &[], "", &[("s3:DeleteObjectVersionTagging", OBJECT)]),
    ("GetObjectAcl", "GET", "/b-1/k", &[("acl", "")], &[], "", &[("s3:GetObjectAcl", OBJECT)]),
    ("GetObjectAcl", "GET", "/b-1/k", &[("acl", ""), V], &[], "", &[("s3:GetObjectVersionAcl", OBJECT)]),
    ("PutObjectAcl", "PUT", "/b-1/k", &[("acl", "")], &[("x-amz-acl", "private")], "", &[("s3:PutObjectAcl", OBJECT)]),
    ("PutObjectAcl", "PUT", "/b-1/k", &[("acl", ""), V], &[("x-amz-acl", "private")], "", &[("s3:PutObjectVersionAcl", OBJECT)]),
    ("CreateMultipartUpload", "POST", "/b-1/k", &[("uploads", "")], &[], "", &[("s3:PutObject", OBJECT)]),
    ("UploadPart", "PUT", "/b-1/k", &[("partNumber", "1"), ("uploadId", "none")], &[], "x", &[("s3:PutObject", OBJECT)]),
    ("RenameObject", "PUT", "/b-1/k", &[("renameObject", "")], &[("x-amz-rename-source", "k")], "", &[("s3:PutObject", OBJECT), ("s3:GetObject", OBJECT), ("s3:DeleteObject", OBJECT)]),
    ("UploadPartCopy", "PUT", "/b-1/k", &[("partNumber", "1"), ("uploadId", "none")], &[("x-amz-copy-source", "b-2/k")], "", &[("s3:PutObject", OBJECT), ("s3:GetObject", "arn:aws:s3:::b-2/k")]),
    ("CompleteMultipartUpload", "POST", "/b-1/k", &[("uploadId", "none")], &[], "<CompleteMultipartUpload/>", &[("s3:PutObject", OBJECT)]),
    ("AbortMultipartUpload", "DELETE", "/b-1/k", &[("uploadId", "none")], &[], "", &[("s3:AbortMultipartUpload", OBJECT)]),
    ("ListParts", "GET", "/b-1/k", &[("uploadId", "none")], &[], "", &[("s3:ListMultipartUploadParts", OBJECT)]),
];

/// Every route: nobody, a user without policies, with every action but one of those needed, with exactly
/// those needed.
#[test]
fn every_route_checks_its_actions() {
    let w = World::new();
    let denied = |r: Resp| r.status == 403;
    for (name, method, path, query, headers, body, needs) in ROUTES {
        let request = |user: Option<&str>| {
            let mut r = match user {
                Some(u) => w.by(u, method, path),
                None => w.root(method, path).anonymous(),
            };
            for (n, v) in *query {
                r = r.q(n, v);
            }
            for (n, v) in *headers {
                r = r.header(n, *v);
            }
            r.body(body).send()
        };
        let what = format!("{name} {method} {path} {query:?}");
        assert!(denied(request(None)), "{what}: nobody");
        w.user("none", "");
        assert!(denied(request(Some("none"))), "{what}: a user without policies");
        for (action, _) in *needs {
            let all = format!(
                r#"{},{{"Effect":"Deny","Action":"{action}","Resource":"*"}}"#,
                allow("\"s3:*\"", "*")
            );
            // Callers without permission to list all buckets see those that they can access.
            if *name != "ListBuckets" {
                w.user("almost", &all);
                assert!(denied(request(Some("almost"))), "{what}: everything but {action}");
            }
        }
        let exact: Vec<String> = needs.iter().map(|(a, r)| allow(&format!("{a:?}"), r)).collect();
        w.user("exact", &exact.join(","));
        let r = request(Some("exact"));
        assert!(r.status != 403, "{what}: {} with {exact:?}", r.status);
    }
    let covered: Vec<&str> = ROUTES.iter().map(|r| r.0).collect();
    // Decided key by key, in a form, without credentials, without end, or of another service: other tests.
    let elsewhere = [
        "DeleteObjects",
        "PostObject",
        "Preflight",
        "Unknown",
        "WebsiteRequest",
        "ListenNotification",
        "ListenBucketNotification",
    ];
    for op in Operation::ALL {
        assert!(
            covered.contains(&op.name())
                || elsewhere.contains(&op.name())
                || op.name().starts_with("AssumeRole")
                || op.name() == "GetCallerIdentity",
            "{} is not covered",
            op.name()
        );
    }
}

/// One request, one id: in the header, and in the document that says what went wrong.
#[test]
fn each_request_has_one_id() {
    let s = Server::start();
    let id = |text: &str| {
        let rest = text.split_once("<RequestId>").unwrap_or_else(|| panic!("no id: {text}")).1;
        rest.split_once("</RequestId>").unwrap().0.to_owned()
    };
    let sts = s
        .req("POST", "/")
        .header("content-type", "application/x-www-form-urlencoded")
        .body("Action=GetCallerIdentity&Version=2011-06-15")
        .anonymous();
    for answer in [s.get("/no-such-bucket/k"), s.req("GET", "/b/k").anonymous().send(), sts.send()] {
        assert_eq!(answer.header("x-amz-request-id"), Some(id(&answer.text()).as_str()), "{}", answer.text());
    }
}
