//! `PutObject` with a write offset, on the wire.

use crate::common::*;

fn world() -> World {
    let w = World::new();
    w.root("PUT", "/logs").send().expect(200);
    w
}

fn append(w: &World, key: &str, offset: &str, body: &str, more: &[(&str, &str)]) -> Resp {
    let r = w.root("PUT", key).header("x-amz-write-offset-bytes", offset);
    more.iter().fold(r, |r, (n, v)| r.header(n, *v)).body(body).send()
}

#[test]
fn appended_parts_are_read_as_one_object() {
    let w = world();
    let one = append(&w, "/logs/a", "0", "one\n", &[("x-amz-meta-k", "v")]);
    assert_eq!(one.expect(200).header("x-amz-object-size"), Some("4"));
    let two = append(&w, "/logs/a", "4", "two\n", &[]).expect(200);
    assert_eq!(two.header("x-amz-object-size"), Some("8"));
    assert!(two.header("etag").unwrap().ends_with("-2\""));
    let read = w.root("GET", "/logs/a").send().expect(200);
    assert_eq!((read.text(), read.header("x-amz-meta-k")), ("one\ntwo\n".to_owned(), Some("v")));
    let range = w.root("GET", "/logs/a").header("range", "bytes=2-5").send().expect(206);
    assert_eq!(range.text(), "e\ntw");
    let part = w.root("GET", "/logs/a").q("partNumber", "2").send().expect(206);
    assert_eq!(part.text(), "two\n");
    // Where it is not the end, nothing happens; the refusal says where the end is.
    for offset in ["0", "4", "9"] {
        let wrong = append(&w, "/logs/a", offset, "x", &[]).refused(400, "InvalidWriteOffset");
        assert_eq!(wrong.tag("ObjectSize").as_deref(), Some("8"));
    }
    append(&w, "/logs/new", "1", "x", &[]).refused(400, "InvalidWriteOffset");
    w.root("HEAD", "/logs/new").send().expect(404);
    assert_eq!(w.root("GET", "/logs/a").send().text(), "one\ntwo\n");
}

#[test]
fn appends_are_conditional_and_refused_where_unsupported() {
    let w = world();
    let etag = append(&w, "/logs/a", "0", "one", &[]).expect(200).header("etag").unwrap().to_owned();
    append(&w, "/logs/a", "3", "x", &[("if-none-match", "*")]).refused(412, "PreconditionFailed");
    append(&w, "/logs/a", "3", "two", &[("if-match", &etag)]).expect(200);
    append(&w, "/logs/a", "6", "x", &[("if-match", &etag)]).refused(412, "PreconditionFailed");
    append(&w, "/logs/a", "6", "", &[]).refused(400, "InvalidRequest");
    append(&w, "/logs/a", "6", "x", &[("x-amz-meta-a", "b")]).refused(400, "InvalidRequest");
    append(
        &w,
        "/logs/a",
        "6",
        "x",
        &[
            ("x-amz-sdk-checksum-algorithm", "SHA256"),
            ("x-amz-checksum-sha256", "LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE="),
        ],
    )
    .refused(400, "InvalidRequest");
    for bad in ["-1", "+1", "x", "1x", "18446744073709551616"] {
        append(&w, "/logs/a", bad, "x", &[]).refused(400, "InvalidArgument");
    }
    append(&w, "/logs/a", "6", "x", &[("x-amz-server-side-encryption-customer-algorithm", "AES256")])
        .refused(400, "InvalidRequest");
    let refused = w.root("POST", "/logs/u").q("uploads", "").header("x-amz-write-offset-bytes", "0").send();
    refused.refused(501, "NotImplemented");
    w.root("PUT", "/logs")
        .q("versioning", "")
        .body("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
        .send()
        .expect(200);
    append(&w, "/logs/a", "6", "x", &[]).refused(400, "InvalidRequest");
    assert_eq!(w.root("GET", "/logs/a").send().text(), "onetwo");
}
