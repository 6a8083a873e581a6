//! Lifecycle, CORS, websites, access logs and settings that are not set, over HTTP.

use crate::common::{Server, raw};

fn server() -> Server {
    let s = Server::start();
    s.req("PUT", "/b-1").send().expect(200);
    s
}

const DAYS: &str = "<LifecycleConfiguration><Rule><ID>x y</ID><Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>";

#[test]
fn every_way_to_create_an_object_returns_its_expiration() {
    let s = server();
    let tagged = DAYS.replace(
        "<Prefix>logs/</Prefix>",
        "<And><Prefix>logs/</Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And>",
    );
    s.req("PUT", "/b-1").q("lifecycle", "").body(&tagged).send().expect(200);
    let tag = ("x-amz-tagging", "a=b");
    s.req("PUT", "/b-1/other").header(tag.0, tag.1).body("x").send().expect(200);
    let told = |r: crate::common::Resp| r.header("x-amz-expiration").map(str::to_owned);
    // The tags of the source come along, or are replaced.
    let copy = |key: &str| s.req("PUT", key).header("x-amz-copy-source", "/b-1/other");
    let when = told(copy("/b-1/logs/c").send().expect(200)).expect("it is told");
    assert_eq!(told(s.get("/b-1/logs/c")), Some(when.clone()));
    let replaced = copy("/b-1/logs/d").header("x-amz-tagging-directive", "REPLACE").send();
    assert_eq!(told(replaced.expect(200)), None);
    assert_eq!(told(copy("/b-1/else").send().expect(200)), None);
    let upload = |tagged: bool| {
        let create = s.req("POST", "/b-1/logs/m").q("uploads", "");
        let create = if tagged { create.header(tag.0, tag.1) } else { create };
        let id = create.send().expect(200).tag("UploadId").unwrap();
        let part = s.req("PUT", "/b-1/logs/m").q("partNumber", "1").q("uploadId", &id).body("x").send();
        let etag = part.expect(200).header("etag").unwrap().to_owned();
        let document = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        );
        s.req("POST", "/b-1/logs/m").q("uploadId", &id).body(document).send().expect(200)
    };
    assert_eq!(told(upload(true)), Some(when.clone()));
    assert_eq!(told(upload(false)), None);
    let append = |offset: &str| s.req("PUT", "/b-1/logs/a").header("x-amz-write-offset-bytes", offset);
    let first = append("0").header(tag.0, tag.1).body("x").send().expect(200);
    assert_eq!(told(first), Some(when.clone()));
    assert_eq!(told(append("1").body("y").send().expect(200)), Some(when));
}

#[test]
fn lifecycle_rules_are_stored_and_returned() {
    let s = server();
    s.req("GET", "/b-1").q("lifecycle", "").send().refused(404, "NoSuchLifecycleConfiguration");
    s.req("DELETE", "/b-1").q("lifecycle", "").send().expect(204);
    s.req("PUT", "/b-1").q("lifecycle", "").body(DAYS).send().expect(200);
    let r = s.req("GET", "/b-1").q("lifecycle", "").send().expect(200);
    assert_eq!(r.tag("Days").as_deref(), Some("3"));
    assert_eq!(r.header("x-amz-transition-default-minimum-object-size"), Some("all_storage_classes_128K"));
    let put = s.put("/b-1/logs/k", b"x").expect(200);
    let told = put.header("x-amz-expiration").unwrap().to_owned();
    assert!(
        told.starts_with("expiry-date=\"") && told.ends_with(" 00:00:00 GMT\", rule-id=\"x%20y\""),
        "{told}"
    );
    assert_eq!(s.get("/b-1/logs/k").header("x-amz-expiration"), Some(told.as_str()));
    assert_eq!(s.req("HEAD", "/b-1/logs/k").send().header("x-amz-expiration"), Some(told.as_str()));
    s.put("/b-1/other", b"x").expect(200);
    assert_eq!(s.get("/b-1/other").header("x-amz-expiration"), None);
    let moves = DAYS.replace("Expiration>", "Transition>");
    s.req("PUT", "/b-1").q("lifecycle", "").body(&moves).send().refused(501, "NotImplemented");
    let none = DAYS.replace("<Days>3</Days>", "<Days>0</Days>");
    s.req("PUT", "/b-1").q("lifecycle", "").body(&none).send().refused(400, "InvalidArgument");
    let legacy = "<LifecycleConfiguration><Rule><Prefix>a/</Prefix><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>";
    s.req("PUT", "/b-1")
        .q("lifecycle", "")
        .header("x-amz-transition-default-minimum-object-size", "varies_by_storage_class")
        .body(legacy)
        .send()
        .expect(200);
    let r = s.req("GET", "/b-1").q("lifecycle", "").send().expect(200);
    assert!(
        r.text().contains("<Prefix>a/</Prefix><Status>") && !r.text().contains("<Filter>"),
        "{}",
        r.text()
    );
    assert_eq!(r.header("x-amz-transition-default-minimum-object-size"), Some("varies_by_storage_class"));
    s.req("DELETE", "/b-1").q("lifecycle", "").send().expect(204);
    s.req("GET", "/b-1").q("lifecycle", "").send().refused(404, "NoSuchLifecycleConfiguration");
    s.req("GET", "/none").q("lifecycle", "").send().refused(404, "NoSuchBucket");
}

#[test]
fn unset_settings_are_answered_as_aws() {
    let s = server();
    for (name, root) in [
        ("accelerate", "AccelerateConfiguration"),
        ("requestPayment", "<Payer>BucketOwner</Payer>"),
        ("logging", "BucketLoggingStatus"),
        ("analytics", "ListBucketAnalyticsConfigurationResult"),
        ("inventory", "ListInventoryConfigurationsResult"),
        ("metrics", "ListMetricsConfigurationsResult"),
        ("intelligent-tiering", "ListBucketIntelligentTieringConfigurationsOutput"),
    ] {
        let r = s.req("GET", "/b-1").q(name, "").send().expect(200);
        assert!(r.text().contains(root), "{}", r.text());
        if name != "logging" {
            s.req("PUT", "/b-1").q(name, "").body("<x/>").send().refused(501, "NotImplemented");
        }
    }
    for (name, code) in [
        ("replication", "ReplicationConfigurationNotFoundError"),
        ("cors", "NoSuchCORSConfiguration"),
        ("website", "NoSuchWebsiteConfiguration"),
        ("policy", "NoSuchBucketPolicy"),
        ("tagging", "NoSuchTagSet"),
        ("ownershipControls", "OwnershipControlsNotFoundError"),
    ] {
        if name == "ownershipControls" {
            continue;
        }
        s.req("GET", "/b-1").q(name, "").send().refused(404, code);
    }
    s.req("GET", "/b-1").q("metrics", "").q("id", "x").send().refused(404, "NoSuchConfiguration");
}

#[test]
fn cors_rules_of_a_bucket_apply() {
    let s = server();
    s.put("/b-1/k", b"x").expect(200);
    let plain = s.req("GET", "/b-1/k").header("origin", "https://a.example").send().expect(200);
    assert_eq!(plain.header("access-control-allow-origin"), Some("*"), "the server's own");
    let rules = "<CORSConfiguration><CORSRule><AllowedOrigin>https://*.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>7</MaxAgeSeconds></CORSRule></CORSConfiguration>";
    s.req("PUT", "/b-1").q("cors", "").body(rules).send().expect(200);
    assert!(s.req("GET", "/b-1").q("cors", "").send().expect(200).text().contains("<MaxAgeSeconds>7<"));
    let r = s.req("GET", "/b-1/k").header("origin", "https://a.example").send().expect(200);
    assert_eq!(r.header("access-control-allow-origin"), Some("https://a.example"));
    assert_eq!(r.header("access-control-expose-headers"), Some("ETag"));
    assert_eq!(r.header("access-control-allow-credentials"), Some("true"));
    let r = s.req("GET", "/b-1/k").header("origin", "http://evil.test").send().expect(200);
    assert_eq!(r.header("access-control-allow-origin"), None);
    assert!(r.header("vary").is_some());
    let preflight = |origin: &str, method: &str, headers: &str| {
        raw(s.addr, format!(
            "OPTIONS /b-1/k HTTP/1.1\r\nHost: x\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: {method}\r\nAccess-Control-Request-Headers: {headers}\r\nConnection: close\r\n\r\n"
        ).as_bytes())
    };
    let good = preflight("https://a.example", "GET", "X-Amz-Date");
    assert_eq!(good.header("access-control-allow-headers"), Some("x-amz-date"));
    assert_eq!(good.header("access-control-max-age"), Some("7"));
    for (origin, method, headers) in [
        ("https://a.example", "PUT", "x-amz-date"),
        ("https://a.example", "GET", "authorization"),
        ("http://evil.test", "GET", "x-amz-date"),
    ] {
        preflight(origin, method, headers).refused(403, "AccessForbidden");
    }
    s.req("DELETE", "/b-1").q("cors", "").send().expect(204);
    s.req("GET", "/b-1").q("cors", "").send().refused(404, "NoSuchCORSConfiguration");
}

#[test]
fn websites_show_what_anonymous_requests_may_read() {
    let s = server();
    let browse = |path: &str, extra: &str| {
        raw(
            s.addr,
            format!("GET {path} HTTP/1.1\r\nHost: b-1.website.test\r\n{extra}Connection: close\r\n\r\n")
                .as_bytes(),
        )
    };
    assert!(browse("/", "").text().contains("NoSuchWebsiteConfiguration"));
    let site = "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument><ErrorDocument><Key>oops.html</Key></ErrorDocument><RoutingRules><RoutingRule><Condition><KeyPrefixEquals>old/</KeyPrefixEquals></Condition><Redirect><ReplaceKeyPrefixWith>new/</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>";
    s.req("PUT", "/b-1").q("website", "").body(site).send().expect(200);
    s.req("PUT", "/b-1/index.html").header("content-type", "text/html").body(b"home").send().expect(200);
    s.req("PUT", "/b-1/sub/index.html").header("content-type", "text/html").body(b"sub").send().expect(200);
    let denied = browse("/", "");
    assert_eq!(denied.status, 403, "nothing is public yet");
    assert!(denied.text().contains("<li>Code: AccessDenied</li>"), "{}", denied.text());
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b-1/*"},{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b-1"}]}"#;
    s.req("PUT", "/b-1").q("policy", "").body(policy).send().expect(204);
    let home = browse("/", "");
    assert_eq!(
        (home.status, home.text().as_str(), home.header("content-type")),
        (200, "home", Some("text/html"))
    );
    assert_eq!(browse("/sub/", "").text(), "sub");
    let folder = browse("/sub", "");
    assert_eq!((folder.status, folder.header("location")), (302, Some("/sub/")));
    let old = browse("/old/a", "");
    assert_eq!((old.status, old.header("location")), (301, Some("http://b-1.website.test/new/a")));
    let missing = browse("/a%3Cb", "");
    assert_eq!(missing.status, 404);
    assert!(missing.text().contains("<li>Key: a&lt;b</li>"), "{}", missing.text());
    s.req("PUT", "/b-1/oops.html").body(b"oops").send().expect(200);
    let missing = browse("/nothing", "Range: bytes=1-2\r\n");
    assert_eq!((missing.status, missing.text().as_str()), (404, "oops"));
    assert_eq!(browse("/index.html", "Range: bytes=1-2\r\n").text(), "om");
    // Redirects that objects have; they are shown on the S3 endpoint.
    s.req("PUT", "/b-1/go").header("x-amz-website-redirect-location", "/sub/").body(b"").send().expect(200);
    s.req("PUT", "/b-1/bad")
        .header("x-amz-website-redirect-location", "ftp://x")
        .body(b"")
        .send()
        .refused(400, "InvalidRedirectLocation");
    assert_eq!(s.get("/b-1/go").header("x-amz-website-redirect-location"), Some("/sub/"));
    let go = browse("/go", "");
    assert_eq!((go.status, go.header("location")), (301, Some("/sub/")));
    // Nothing is written here, whatever it is signed with, and S3's questions are not answered.
    let written = raw(
        s.addr,
        b"PUT /k HTTP/1.1\r\nHost: b-1.website.test\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
    );
    assert_eq!(written.status, 405);
    assert_eq!(browse("/?policy", "").text(), "home");
}

#[test]
fn access_logs_are_delivered() {
    let s = server();
    s.req("PUT", "/logs").send().expect(200);
    let to = |target: &str, format: &str| {
        let document = format!(
            "<BucketLoggingStatus><LoggingEnabled><TargetBucket>{target}</TargetBucket><TargetPrefix>of-b/</TargetPrefix>{format}</LoggingEnabled></BucketLoggingStatus>"
        );
        s.req("PUT", "/b-1").q("logging", "").body(document.as_bytes()).send()
    };
    to("none", "").refused(400, "InvalidTargetBucketForLogging");
    to("logs", "").expect(200);
    s.put("/b-1/some key", b"12345").expect(200);
    s.get("/b-1/some key").expect(200);
    s.get("/b-1/nothing").refused(404, "NoSuchKey");
    let service = s.service.clone();
    let deliver = || {
        let service = service.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { service.access_logs().deliver(service.context()).await });
    };
    deliver();
    let list = s.req("GET", "/logs").q("list-type", "2").send().expect(200);
    let keys = list.tags("Key");
    assert_eq!(keys.len(), 1, "{}", list.text());
    assert!(keys[0].starts_with("of-b/20") && keys[0].len() == "of-b/".len() + 20 + 16, "{}", keys[0]);
    let text = s.get(&format!("/logs/{}", keys[0])).expect(200).text();
    let lines: Vec<&str> = text.lines().collect();
    // The request that switched the log on is not in it.
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines[0].contains(" REST.PUT.OBJECT some%20key \"PUT /b-1/some%20key HTTP/1.1\" 200 - - 5 "),
        "{text}"
    );
    assert!(lines[1].contains(" REST.GET.OBJECT some%20key ") && lines[1].contains(" 200 - 5 5 "), "{text}");
    assert!(lines[2].contains(" 404 NoSuchKey "), "{text}");
    // The log of the bucket that takes logs does not feed itself.
    let own = "<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix>own/</TargetPrefix><TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>DeliveryTime</PartitionDateSource></PartitionedPrefix></TargetObjectKeyFormat></LoggingEnabled></BucketLoggingStatus>";
    s.req("PUT", "/logs").q("logging", "").body(own).send().expect(200);
    // Nor here is the request that switched it on: a request goes by the bucket that it found.
    s.get(&format!("/logs/{}", keys[0])).expect(200);
    deliver();
    deliver();
    let list = s.req("GET", "/logs").q("list-type", "2").q("prefix", "own/").send().expect(200);
    assert_eq!(list.tags("Key").len(), 1, "{}", list.text());
    assert!(list.tags("Key")[0].contains("/us-east-1/logs/20"), "{}", list.text());
    s.req("PUT", "/b-1").q("logging", "").body("<BucketLoggingStatus/>").send().expect(200);
    assert!(!s.req("GET", "/b-1").q("logging", "").send().expect(200).text().contains("LoggingEnabled"));
}
