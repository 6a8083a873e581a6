//! `RenameObject` on the wire.

use crate::common::*;

fn world() -> World {
    let w = World::new();
    w.root("PUT", "/data").send().expect(200);
    w
}

fn rename(w: &World, from: &str, to: &str, more: &[(&str, &str)]) -> Resp {
    let r = w.root("PUT", &format!("/data/{to}")).q("renameObject", "").header("x-amz-rename-source", from);
    more.iter().fold(r, |r, (n, v)| r.header(n, *v)).send()
}

#[test]
fn object_gets_another_key() {
    let w = world();
    let put = w
        .root("PUT", "/data/tmp/a b")
        .header("x-amz-meta-k", "v")
        .header("x-amz-tagging", "t=1")
        .header("content-type", "text/x")
        .body("hello")
        .send()
        .expect(200);
    let before = w.root("HEAD", "/data/tmp/a b").send().expect(200);
    rename(&w, "tmp/a%20b", "final/c", &[]).expect(200);
    w.root("GET", "/data/tmp/a b").send().refused(404, "NoSuchKey");
    let got = w.root("GET", "/data/final/c").send().expect(200);
    assert_eq!(got.text(), "hello");
    for name in ["etag", "last-modified", "x-amz-meta-k", "content-type", "x-amz-tagging-count"] {
        assert_eq!(got.header(name), before.header(name), "{name}");
    }
    assert_eq!(got.header("etag"), put.header("etag"));
    // A slash before the key is as good.
    rename(&w, "/final/c", "d", &[]).expect(200);
    assert_eq!(w.root("GET", "/data/d").send().text(), "hello");
    assert_eq!(w.root("GET", "/data").send().expect(200).tag("Key").as_deref(), Some("d"));
}

#[test]
fn rename_is_conditional() {
    let w = world();
    let put = |key: &str, body: &str| {
        let r = w.root("PUT", &format!("/data/{key}")).body(body).send().expect(200);
        r.header("etag").unwrap().to_owned()
    };
    let (a, b) = (put("a", "aa"), put("b", "bb"));
    let time = w.root("HEAD", "/data/a").send().header("last-modified").unwrap().to_owned();
    for refused in [
        ("if-none-match", "*"),
        ("if-match", a.as_str()),
        ("if-unmodified-since", "Mon, 01 Jan 2001 00:00:00 GMT"),
        ("x-amz-rename-source-if-match", b.as_str()),
        ("x-amz-rename-source-if-none-match", a.as_str()),
        ("x-amz-rename-source-if-none-match", "*"),
        ("x-amz-rename-source-if-unmodified-since", "Mon, 01 Jan 2001 00:00:00 GMT"),
        ("x-amz-rename-source-if-modified-since", time.as_str()),
    ] {
        rename(&w, "a", "b", &[refused]).refused(412, "PreconditionFailed");
    }
    assert_eq!(w.root("GET", "/data/b").send().text(), "bb");
    rename(&w, "a", "b", &[("if-match", &b), ("x-amz-rename-source-if-match", &a)]).expect(200);
    assert_eq!(w.root("GET", "/data/b").send().text(), "aa");
}

#[test]
fn invalid_renames_are_refused() {
    let w = world();
    w.root("PUT", "/data/a").body("x").send().expect(200);
    rename(&w, "none", "b", &[]).refused(404, "NoSuchKey");
    rename(&w, "a", "a", &[]).refused(400, "InvalidRequest");
    rename(&w, "", "b", &[]).refused(400, "InvalidArgument");
    rename(&w, "/", "b", &[]).refused(400, "InvalidArgument");
    rename(&w, "%zz", "b", &[]).refused(400, "InvalidArgument");
    w.root("PUT", "/data/b").q("renameObject", "").send().refused(400, "InvalidArgument");
    w.root("PUT", "/none/b")
        .q("renameObject", "")
        .header("x-amz-rename-source", "a")
        .send()
        .refused(404, "NoSuchBucket");
    // The header alone is not a PUT.
    w.root("PUT", "/data/b")
        .header("x-amz-rename-source", "a")
        .body("y")
        .send()
        .refused(501, "NotImplemented");
    for token in ["", "with space", &"x".repeat(65)] {
        rename(&w, "a", "b", &[("x-amz-client-token", token)]).refused(400, "InvalidArgument");
    }
    w.root("PUT", "/data")
        .q("versioning", "")
        .body("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
        .send()
        .expect(200);
    rename(&w, "a", "b", &[]).refused(400, "InvalidRequest");
    assert_eq!(w.root("GET", "/data/a").send().text(), "x");
}

#[test]
fn client_token_makes_a_retry_idempotent() {
    let w = world();
    let token = ("x-amz-client-token", "0b1c-!~");
    w.root("PUT", "/data/a").body("old").send().expect(200);
    rename(&w, "a", "b", &[token]).expect(200);
    rename(&w, "a", "b", &[token]).expect(200);
    w.root("PUT", "/data/a").body("new").send().expect(200);
    rename(&w, "a", "b", &[token]).expect(200);
    assert_eq!(w.root("GET", "/data/a").send().text(), "new");
    assert_eq!(w.root("GET", "/data/b").send().text(), "old");
    rename(&w, "c", "b", &[token]).refused(400, "IdempotencyParameterMismatch");
    rename(&w, "a", "b", &[("x-amz-client-token", "another")]).expect(200);
    assert_eq!(w.root("GET", "/data/b").send().text(), "new");
}
