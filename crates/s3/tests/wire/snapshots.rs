//! A request sees one revision of its bucket, from the decision about it to its end.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use ashlar_s3::archive::fuzzed::entry;

use crate::common::*;

const ENCRYPTION: &str = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>\
     <SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>\
     </ServerSideEncryptionConfiguration>";
const SSE: &str = "x-amz-server-side-encryption";

/// A policy that lets nobody but root put.
fn denies(bucket: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Deny","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::{bucket}/*"}}]}}"#
    )
}

/// A server with keys, and a user who may everything.
fn world() -> World {
    let (kms, _) = keys();
    let (iam, runtime) = users();
    let for_server = iam.clone();
    let server = Server::with(move |c| {
        c.verifier.keys = ashlar_s3::Keys::over(for_server);
        c.context.encryption = ashlar_s3::sse::Encryption { kms: Some(kms), cipher: None };
    });
    server.make_bucket("b-1");
    let world = World { server, iam, runtime };
    world.user("ann", &allow(r#""s3:*""#, "arn:aws:s3:::*"));
    world
}

/// An archive is on its way when its bucket gets a default encryption and a policy that denies: each of its
/// entries, for which both are decided anew, is stored by the bucket that the request found.
#[test]
fn bucket_changed_during_request() {
    let w = world();
    let s = &w.server;
    let (first, second) = (entry("first", b'0', b"1"), [entry("second", b'0', b"2"), vec![0; 1024]].concat());
    let (mut stream, rest) = begin(s, w.by("ann", "PUT", "/b-1/archive.tar"), &first, &second);
    s.req("PUT", "/b-1").q("encryption", "").body(ENCRYPTION).send().expect(200);
    s.req("PUT", "/b-1").q("policy", "").body(denies("b-1")).send().expect(204);
    stream.write_all(&rest).unwrap();
    read_response(&mut stream, false).expect(200);
    for key in ["first", "second"] {
        assert_eq!(s.get(&format!("/b-1/{key}")).expect(200).header(SSE), None, "{key}");
    }
    // The next request finds what is there now.
    w.by("ann", "PUT", "/b-1/third").body("3").send().refused(403, "AccessDenied");
    s.req("DELETE", "/b-1").q("policy", "").send().expect(204);
    let r = w.by("ann", "PUT", "/b-1/third").body("3").send().expect(200);
    assert_eq!(r.header(SSE), Some("AES256"));
}

/// The bucket is deleted under a request and made again under its name: nothing of the request gets into
/// the new one.
#[test]
fn bucket_recreated_during_request() {
    let w = world();
    let s = &w.server;
    let (first, second) = (entry("first", b'0', b"1"), [entry("second", b'0', b"2"), vec![0; 1024]].concat());
    let (mut stream, rest) = begin(s, w.by("ann", "PUT", "/b-1/archive.tar"), &first, &second);
    s.req("DELETE", "/b-1/first").send().expect(204);
    s.req("DELETE", "/b-1").send().expect(204);
    s.make_bucket("b-1");
    stream.write_all(&rest).unwrap();
    read_response(&mut stream, false).refused(404, "NoSuchBucket");
    s.get("/b-1/second").refused(404, "NoSuchKey");
}

/// Sends the head of an archive and its first entry, and waits until that is stored. Answers what is to be
/// sent then.
fn begin(s: &Server, r: Req, first: &[u8], second: &[u8]) -> (TcpStream, Vec<u8>) {
    let r = r.header("x-amz-meta-snowball-auto-extract", "true").mode(Mode::Unsigned);
    let (head, body) = r.body([first, second].concat()).wire();
    let (now, later) = body.split_at(first.len());
    let mut stream = TcpStream::connect(s.addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).unwrap();
    stream.write_all(now).unwrap();
    let stored = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        s.get("/b-1/first").status == 200
    });
    assert!(stored, "the first entry is stored while the second is on its way");
    (stream, later.to_vec())
}
