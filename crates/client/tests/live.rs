//! Every operation against a real S3 server, if one is named:
//! `ASHLAR_CLIENT_TEST=http://KEY:SECRET@127.0.0.1:9000 cargo test --release -p ashlar-client`.
//! Without it this test does nothing; the repository's client suite covers the same ground through
//! the command line.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::{io::Write, sync::Arc};

use ashlar_client::{
    Algorithm, Body, Call, Client, Config, CopyOptions, Credentials, FileRange, GetOptions, Identifier,
    ListOptions, ListVersionsOptions, Method, Payload, PutOptions, Target, Versioning,
};
use futures::TryStreamExt;

fn client() -> Option<Client> {
    let url = std::env::var("ASHLAR_CLIENT_TEST").ok()?;
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (credentials, host) = rest.split_once('@').expect("credentials in the URL");
    let (key, secret) = credentials.split_once(':').expect("KEY:SECRET");
    let mut config = Config::new(format!("{scheme}://{host}"), Some(Credentials::new(key, secret)));
    config.tls.insecure = true;
    Some(Client::new(config).unwrap())
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything() {
    let Some(client) = client() else { return };
    let bucket = format!("live-{:08x}", getrandom::u32().unwrap());
    let b = bucket.as_str();
    client.create_bucket(b, false).await.unwrap();
    assert!(client.bucket_exists(b).await.unwrap());
    assert!(client.list_buckets().await.unwrap().iter().any(|found| found.name == b));
    assert_eq!(client.bucket_location(b).await.unwrap(), "us-east-1");
    payloads(&client, b).await;
    keys(&client, b).await;
    multipart(&client, b).await;
    metadata_and_tags(&client, b).await;
    versions(&client, b).await;
    assert!(!client.bucket_exists("no-such-bucket-at-all").await.unwrap());
    client.delete_bucket(b).await.unwrap();
}

async fn payloads(client: &Client, b: &str) {
    let modes = [
        Payload::Auto,
        Payload::Signed,
        Payload::Unsigned,
        Payload::SignedChunks,
        Payload::Trailer(Algorithm::Crc32),
        Payload::Trailer(Algorithm::Crc32c),
        Payload::Trailer(Algorithm::Crc64Nvme),
        Payload::Trailer(Algorithm::Sha256),
        Payload::SignedTrailer(Algorithm::Crc32),
        Payload::SignedTrailer(Algorithm::Sha1),
    ];
    for len in [0, 1, 65536, 65537, 3 << 20] {
        let data = noise(len, len as u64);
        for mode in modes {
            let options = PutOptions { payload: Some(mode), ..PutOptions::default() };
            client
                .put_object(b, "payload", data.clone(), &options)
                .await
                .unwrap_or_else(|e| panic!("{mode:?} {len}: {e}"));
            let got = client.get_bytes(b, "payload", 4 << 20).await.unwrap();
            assert!(got == data, "{mode:?} {len}");
        }
    }
    let options = GetOptions { range: Some((10, Some(19))), ..GetOptions::default() };
    let mut part = client.get_object(b, "payload", &options).await.unwrap();
    assert_eq!((part.length, part.head.size), (10, 3 << 20));
    assert_eq!(part.body.drain().await.unwrap(), 10);
    let url = client.presign(&Method::GET, Target::Object(b, "payload"), &[], 60).unwrap();
    let path_and_query = url.split_once(b).unwrap().1;
    assert!(path_and_query.starts_with("/payload?X-Amz-Algorithm="));
    client.delete_object(b, "payload", None).await.unwrap();
    let gone = client.get_bytes(b, "payload", 1).await.unwrap_err();
    assert_eq!(gone.code(), Some("NoSuchKey"), "{gone}");
    assert!(client.head_object(b, "payload", &GetOptions::default()).await.unwrap_err().is_not_found());
}

async fn keys(client: &Client, b: &str) {
    let mut keys: Vec<String> =
        ["plain", "a b+c", "ü/ö&<>\"'", "tilde~!*'()", "q?x=1#f", "%2F", "dir/one", "dir/two"]
            .map(String::from)
            .to_vec();
    for key in &keys {
        client.put_object(b, key, key.clone(), &PutOptions::default()).await.unwrap();
        assert_eq!(client.get_bytes(b, key, 100).await.unwrap(), key.as_bytes(), "{key}");
    }
    keys.sort();
    let options = ListOptions { max_keys: Some(3), ..ListOptions::default() };
    let pages: Vec<_> = client.pages(b, options).try_collect().await.unwrap();
    let listed: Vec<_> = pages.iter().flat_map(|p| &p.entries).map(|e| e.key.clone()).collect();
    assert_eq!(listed, keys);
    assert_eq!(pages.len(), 3);
    let options = ListOptions { delimiter: Some("/".into()), ..ListOptions::default() };
    assert_eq!(client.list(b, &options).await.unwrap().prefixes, ["dir/", "ü/"]);
    let all: Vec<_> = keys.into_iter().map(|key| Identifier { key, version_id: None }).collect();
    let outcome = client.delete_objects(b, &all).await.unwrap();
    assert_eq!((outcome.deleted.len(), outcome.errors.len()), (all.len(), 0));
}

async fn multipart(client: &Client, b: &str) {
    let data = noise(11 << 20, 7);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&data).unwrap();
    let file = Arc::new(file);
    for mode in [Payload::Auto, Payload::Signed, Payload::SignedChunks, Payload::Unsigned] {
        let options = PutOptions { payload: Some(mode), ..PutOptions::default() };
        let id = client.create_multipart(b, "big", &options).await.unwrap();
        let page = client.list_uploads(b, "big", None, None).await.unwrap();
        assert_eq!(page.uploads[0].upload_id, id);
        let mut parts = Vec::new();
        for (number, from) in [(1, 0u64), (2, 5 << 20), (3, 10 << 20)] {
            let len = (5 << 20).min(data.len() as u64 - from);
            let source = Body::Source(Arc::new(FileRange::new(file.clone(), from, len)));
            parts.push(client.upload_part(b, "big", &id, number, source, &options).await.unwrap());
        }
        let listed = client.list_parts(b, "big", &id).await.unwrap();
        let brief = |p: &ashlar_client::Part| (p.number, p.etag.clone(), p.size);
        assert_eq!(listed.iter().map(brief).collect::<Vec<_>>(), parts.iter().map(brief).collect::<Vec<_>>());
        let done = client.complete_multipart(b, "big", &id, &parts, &options).await.unwrap();
        assert!(done.etag.ends_with("-3"));
        assert!(client.get_bytes(b, "big", 12 << 20).await.unwrap() == data, "{mode:?}");
    }
    let plain = PutOptions { payload: Some(Payload::Unsigned), ..PutOptions::default() };
    let id = client.create_multipart(b, "copy", &plain).await.unwrap();
    let copy = CopyOptions::default();
    let last = data.len() as u64 - 1;
    let part = client.upload_part_copy(b, "copy", &id, 1, (b, "big"), (0, last), &copy).await.unwrap();
    client.complete_multipart(b, "copy", &id, &[part], &plain).await.unwrap();
    assert!(client.get_bytes(b, "copy", 12 << 20).await.unwrap() == data);
    let id = client.create_multipart(b, "gone", &plain).await.unwrap();
    client.abort_multipart(b, "gone", &id).await.unwrap();
    let failed = client.complete_multipart(b, "gone", &id, &[], &plain).await;
    assert!(failed.is_err());
    for key in ["big", "copy"] {
        client.delete_object(b, key, None).await.unwrap();
    }
}

async fn metadata_and_tags(client: &Client, b: &str) {
    let mut options = PutOptions { content_type: Some("text/plain".into()), ..PutOptions::default() };
    options.metadata.insert("colour".into(), "grün".into());
    client.put_object(b, "meta", "x", &options).await.unwrap();
    client.copy_object((b, "meta"), (b, "meta copy"), &CopyOptions::default()).await.unwrap();
    for key in ["meta", "meta copy"] {
        let head = client.head_object(b, key, &GetOptions::default()).await.unwrap();
        assert_eq!(head.metadata.get("colour").map(String::as_str), Some("grün"));
        assert_eq!(head.content_type.as_deref(), Some("text/plain"));
    }
    let tags = [("a", "1"), ("b +-=._:/@", "two words")].map(|(n, v)| (n.to_owned(), v.to_owned())).into();
    for target in [Target::Object(b, "meta"), Target::Bucket(b)] {
        assert!(client.tags(target, None).await.unwrap().is_empty());
        client.set_tags(target, None, &tags).await.unwrap();
        assert_eq!(client.tags(target, None).await.unwrap(), tags);
        client.delete_tags(target, None).await.unwrap();
    }
    for key in ["meta", "meta copy"] {
        client.delete_object(b, key, None).await.unwrap();
    }
}

async fn versions(client: &Client, b: &str) {
    assert_eq!(client.versioning(b).await.unwrap(), Versioning::Off);
    client.set_versioning(b, Versioning::Enabled).await.unwrap();
    assert_eq!(client.versioning(b).await.unwrap(), Versioning::Enabled);
    let first = client.put_object(b, "v", "one", &PutOptions::default()).await.unwrap();
    client.put_object(b, "v", "two", &PutOptions::default()).await.unwrap();
    assert!(client.delete_object(b, "v", None).await.unwrap().delete_marker);
    let options = GetOptions { version_id: first.version_id.clone(), ..GetOptions::default() };
    let mut old = client.get_object(b, "v", &options).await.unwrap();
    assert_eq!(old.body.collect(10).await.unwrap(), "one");
    let options = ListVersionsOptions { max_keys: Some(2), ..ListVersionsOptions::default() };
    let pages: Vec<_> = client.version_pages(b, options).try_collect().await.unwrap();
    let all: Vec<_> = pages.into_iter().flat_map(|p| p.entries).collect();
    assert_eq!(all.len(), 3);
    assert!(all[0].delete_marker && all[0].is_latest);
    let ids: Vec<_> = all.into_iter().map(|e| Identifier { key: e.key, version_id: e.version_id }).collect();
    assert_eq!(client.delete_objects(b, &ids).await.unwrap().errors, []);
    client.set_versioning(b, Versioning::Suspended).await.unwrap();
    let call = Call::new(Method::GET, Target::Bucket(b)).query("versions", "");
    client.execute(call).await.unwrap();
}
