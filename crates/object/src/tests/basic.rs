//! The guarantees of S3 for single operations, one by one.

use ashlar_checksum::{Hasher, md5_once};
use ashlar_format::VersionId;
use bytes::Bytes;

use super::{CopySource, Rng, Store, get, memory, put, put_if, read};
use crate::*;

fn bytes(s: &str) -> Bytes {
    Bytes::copy_from_slice(s.as_bytes())
}

async fn bucket() -> Store {
    let (store, _, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    store
}

#[tokio::test]
async fn bodies_of_all_sizes_and_pieces() {
    let store = bucket().await;
    let mut rng = Rng(7);
    for size in [0usize, 1, 4096, 65_535, 65_536, 65_537, 300_000, 5_000_000] {
        for piece in [1000usize, 70_000, 1 << 20, usize::MAX] {
            if size / piece.min(size.max(1)) > 400 {
                continue;
            }
            let body = rng.body(size);
            let spec = PutSpec { checksum: Some(Algorithm::Crc64Nvme), ..PutSpec::new(size as u64) };
            let mut p = store.put("bucket", "k", spec).await.unwrap();
            let mut rest = body.clone();
            while !rest.is_empty() {
                p.write(rest.split_to(piece.min(rest.len()))).await.unwrap();
            }
            let sums = p.end().await.unwrap();
            let mut h = Hasher::new(Algorithm::Crc64Nvme);
            h.update(&body);
            let want = Sums { size: size as u64, md5: Some(md5_once(&body)), checksum: Some(h.finish()) };
            assert_eq!(sums, want);
            assert_eq!(p.end().await.unwrap(), want, "asking again is free");
            let done = p.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
            assert_eq!(done.version_id, None);
            let o = store.get("bucket", "k", None).await.unwrap();
            assert_eq!(digest_of(o.version().checksum.as_ref().unwrap()), want.checksum);
            assert_eq!(read(&o).await.unwrap(), body);
        }
    }
}

#[tokio::test]
async fn put_with_wrong_length_fails() {
    let store = bucket().await;
    let mut p = store.put("bucket", "k", PutSpec::new(3)).await.unwrap();
    let e = p.write(bytes("four")).await.unwrap_err();
    assert!(matches!(e, Error::IncompleteBody { expected: 3, got: 4 }));
    let mut p = store.put("bucket", "k", PutSpec::new(3)).await.unwrap();
    p.write(bytes("ab")).await.unwrap();
    assert!(matches!(p.end().await, Err(Error::IncompleteBody { expected: 3, got: 2 })));
    assert!(p.commit(VersionSpec::default(), &Conditions::NONE).await.is_err());
    assert!(matches!(get(&store, "bucket", "k", None).await, Err(Error::NoSuchKey { .. })));
    assert!(matches!(store.put("bucket", "k", PutSpec::new(MAX_PUT + 1)).await, Err(Error::EntityTooLarge)));
    let without = PutSpec { want_md5: false, ..PutSpec::new(0) };
    let p = store.put("bucket", "k", without).await.unwrap();
    let done = p.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
    assert!(done.etag.to_string().ends_with("-1"), "not to be taken for an MD5");
}

#[tokio::test]
async fn keys_with_any_bytes_and_any_legal_length() {
    let store = bucket().await;
    let long = "k".repeat(1024);
    let odd = [
        "a",
        "a/b",
        "a/",
        "/",
        "//",
        ".",
        "..",
        "../../etc/passwd",
        "a\0b",
        "\u{1f980}",
        " ",
        "a%2Fb",
        &long,
    ];
    for k in odd {
        put(&store, "bucket", k, &bytes(k)).await.unwrap();
    }
    for k in odd {
        assert_eq!(get(&store, "bucket", k, None).await.unwrap(), k.as_bytes());
    }
    let page = store.list("bucket", &ListSpec { max_keys: 1000, ..ListSpec::default() }).await.unwrap();
    let keys: Vec<&str> = page.entries.iter().map(|e| e.key.as_str()).collect();
    let mut want = odd.to_vec();
    want.sort_unstable();
    assert_eq!(keys, want);
    let e = put(&store, "bucket", &"k".repeat(1025), &bytes("")).await.unwrap_err();
    assert!(matches!(e, Error::KeyTooLong));
    assert!(matches!(put(&store, "bucket", "", &bytes("")).await, Err(Error::InvalidArgument(_))));
    assert!(matches!(put(&store, "other", "k", &bytes("")).await, Err(Error::NoSuchBucket)));
}

#[tokio::test]
async fn get_of_delete_marker_returns_its_version_id() {
    let store = bucket().await;
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    let first = put(&store, "bucket", "k", &bytes("1")).await.unwrap().version_id.unwrap();
    let marker = store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
    assert!(marker.delete_marker);
    let id = marker.version_id.unwrap();
    match get(&store, "bucket", "k", None).await {
        Err(Error::NoSuchKey { delete_marker }) => assert_eq!(delete_marker, Some(id)),
        other => panic!("{other:?}"),
    }
    match get(&store, "bucket", "k", Some(id)).await {
        Err(Error::DeleteMarker { version_id, .. }) => assert_eq!(version_id, id),
        other => panic!("{other:?}"),
    }
    // If-None-Match: * goes through a delete marker.
    let none = Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE };
    put_if(&store, "bucket", "k", &bytes("2"), &none).await.unwrap();
    assert_eq!(get(&store, "bucket", "k", Some(first)).await.unwrap(), b"1");
    assert!(matches!(store.set_versioning("bucket", Versioning::Off).await, Err(Error::InvalidArgument(_))));
    // A marker is added even to an absent key, and can be removed.
    let d = store.delete("bucket", "never", None, &Conditions::NONE).await.unwrap();
    assert!(d.delete_marker);
    let d = store.delete("bucket", "never", d.version_id, &Conditions::NONE).await.unwrap();
    assert!(d.delete_marker);
    assert!(matches!(
        get(&store, "bucket", "never", None).await,
        Err(Error::NoSuchKey { delete_marker: None })
    ));
}

#[tokio::test]
async fn metadata_tags_and_acl() {
    let store = bucket().await;
    let spec = VersionSpec {
        meta: vec![
            ("x-amz-meta-b".into(), "2".into()),
            ("content-type".into(), "text/plain".into()),
            (":upload".into(), "00112233445566778899aabbccddeeff".into()),
        ],
        tags: vec![("t".into(), "1".into())],
        acl: "public-read".into(),
        ..VersionSpec::default()
    };
    let p = store.put("bucket", "k", PutSpec::new(0)).await.unwrap();
    let first = p.commit(spec, &Conditions::NONE).await.unwrap();
    let o = store.get("bucket", "k", None).await.unwrap();
    let names: Vec<&str> = o.version().meta.iter().map(|m| m.0.as_str()).collect();
    assert_eq!(names, ["content-type", "x-amz-meta-b"], "sorted, and nothing internal comes in");
    assert_eq!(o.version().acl, "public-read");
    store.set_tags("bucket", "k", None, vec![("u".into(), "9".into())]).await.unwrap();
    store.set_acl("bucket", "k", None, String::new()).await.unwrap();
    let o = store.get("bucket", "k", None).await.unwrap();
    assert_eq!((o.version().tags.len(), o.version().acl.as_str()), (1, ""));
    assert_eq!(o.version().modified_ms, first.modified_ms, "neither touches Last-Modified");
    assert!(matches!(store.get_tags("bucket", "x", None).await, Err(Error::NoSuchKey { .. })));
    let gone = store.get_tags("bucket", "k", Some(VersionId([7; 16]))).await;
    assert!(matches!(gone, Err(Error::NoSuchVersion)));
}

#[tokio::test]
async fn copies() {
    let store = bucket().await;
    let body = Rng(3).body(200_000);
    let spec = PutSpec { checksum: Some(Algorithm::Sha256), ..PutSpec::new(body.len() as u64) };
    let mut p = store.put("bucket", "a", spec).await.unwrap();
    p.write(body.clone()).await.unwrap();
    p.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
    let from = |key: &str, conditions| CopySource {
        bucket: "bucket".into(),
        key: key.into(),
        version: None,
        conditions,
    };
    let done = store.copy(&from("a", Conditions::NONE), "bucket", "b", CopySpec::default()).await.unwrap();
    assert_eq!(get(&store, "bucket", "b", None).await.unwrap(), body);
    let sum = |o: &Object| o.version().checksum.clone();
    let a = store.get("bucket", "a", None).await.unwrap();
    let b = store.get("bucket", "b", None).await.unwrap();
    assert_eq!((sum(&a), a.etag()), (sum(&b), b.etag()));
    assert_eq!(done.committed.checksum, sum(&a));
    assert_ne!(a.version().parts[0].data.write_id, b.version().parts[0].data.write_id);
    // A copy onto itself: the same data with new metadata, or with another checksum.
    let spec = CopySpec { meta: Some(vec![("x-amz-meta-n".into(), "1".into())]), ..CopySpec::default() };
    store.copy(&from("a", Conditions::NONE), "bucket", "a", spec.clone()).await.unwrap();
    let again = store.get("bucket", "a", None).await.unwrap();
    assert_eq!(again.version().parts[0].data.write_id, a.version().parts[0].data.write_id);
    assert_eq!(again.version().meta.len(), 1);
    let crc = CopySpec { checksum: Some(Algorithm::Crc32), ..spec };
    store.copy(&from("a", Conditions::NONE), "bucket", "a", crc).await.unwrap();
    let o = store.get("bucket", "a", None).await.unwrap();
    assert_eq!(o.version().checksum.as_ref().unwrap().value.len(), 4);
    assert_eq!(read(&o).await.unwrap(), body);
    // Conditions on the source.
    let none = Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE };
    let e = store.copy(&from("a", none.clone()), "bucket", "c", CopySpec::default()).await.unwrap_err();
    assert!(matches!(e, Error::PreconditionFailed));
    // Conditions on the destination.
    let spec = CopySpec { conditions: none, ..CopySpec::default() };
    let e = store.copy(&from("a", Conditions::NONE), "bucket", "b", spec).await.unwrap_err();
    assert!(matches!(e, Error::PreconditionFailed));
    let e = store.copy(&from("x", Conditions::NONE), "bucket", "b", CopySpec::default()).await.unwrap_err();
    assert!(matches!(e, Error::NoSuchKey { .. }));
}

#[tokio::test]
async fn ranges_of_multipart_objects() {
    let store = bucket().await;
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    let mut rng = Rng(11);
    let bodies: Vec<Bytes> = [150usize, 100, 333, 1].into_iter().map(|n| rng.body(n)).collect();
    let mut list = Vec::new();
    for (i, b) in bodies.iter().enumerate() {
        let number = i as u16 * 3 + 2;
        let p = super::part(&store, "bucket", "k", id, number, b).await.unwrap();
        list.push(CompletedPart { number, etag: p.etag, checksum: None });
    }
    store.complete_upload("bucket", "k", id, &list, None, &Conditions::NONE).await.unwrap();
    let whole: Vec<u8> = bodies.iter().flat_map(|b| b.to_vec()).collect();
    let o = store.get("bucket", "k", None).await.unwrap();
    assert_eq!(o.version().meta, vec![], "the mark is not shown");
    assert_eq!(o.part_range(1), Some(0..150));
    assert_eq!(o.part_range(4), Some(583..584));
    assert_eq!((o.part_range(0), o.part_range(5)), (None, None));
    for from in (0..=whole.len()).step_by(7) {
        for to in (from..=whole.len()).step_by(31) {
            let mut body = o.read(from as u64..to as u64).await.unwrap();
            let mut out = Vec::new();
            while let Some(piece) = body.next().await {
                out.extend_from_slice(&piece.unwrap());
            }
            assert_eq!(out, whole[from..to]);
            assert_eq!(body.remaining(), 0);
        }
    }
}

#[tokio::test]
async fn last_modified_never_goes_back() {
    use ashlar_environment::time::{Clock, ManualClock};
    use std::sync::Arc;
    struct Backwards(ManualClock);
    impl Clock for Backwards {
        fn wall_ms(&self) -> i64 {
            1_000_000 - self.0.wall_ms()
        }
        fn elapsed(&self) -> std::time::Duration {
            self.0.elapsed()
        }
    }
    let clock = Arc::new(Backwards(ManualClock::default()));
    let store = Store::in_memory(Options { clock: clock.clone(), ..Options::default() }).await.unwrap();
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let first = put(&store, "bucket", "k", &bytes("1")).await.unwrap();
    clock.0.advance(std::time::Duration::from_secs(60));
    let second = put(&store, "bucket", "k", &bytes("2")).await.unwrap();
    assert!(second.modified_ms >= first.modified_ms);
    assert_eq!(get(&store, "bucket", "k", None).await.unwrap(), b"2");
}

#[tokio::test]
async fn buckets_and_documents_survive_restart() {
    let (store, memory, control) = memory().await;
    store.create_bucket("one", &CreateBucket { object_lock: true, ..CreateBucket::default() }).await.unwrap();
    assert_eq!(store.bucket("one").unwrap().versioning, Versioning::Enabled);
    assert!(matches!(
        store.set_versioning("one", Versioning::Suspended).await,
        Err(Error::InvalidBucketState(_))
    ));
    store.set_bucket_tags("one", Some(vec![("a".into(), "b".into())])).await.unwrap();
    store.set_bucket_document("one", "cors", Some("<x/>")).await.unwrap();
    store.set_bucket_document("one", "policy", Some("{}")).await.unwrap();
    store.set_bucket_document("one", "policy", None).await.unwrap();
    let big = "x".repeat(300_000);
    assert!(matches!(store.set_bucket_document("one", "p", Some(&big)).await, Err(Error::EntityTooLarge)));
    assert!(matches!(
        store.create_bucket("A", &CreateBucket::default()).await,
        Err(Error::InvalidBucketName(_))
    ));
    let id = store.bucket("one").unwrap().id;
    let store = super::again(&memory, &control);
    let b = store.bucket("one").unwrap();
    assert_eq!((b.id, b.tags.len(), b.documents.len()), (id, 1, 1));
    assert_eq!(store.buckets().len(), 1);
    store.delete_bucket("one").await.unwrap();
    store.create_bucket("one", &CreateBucket::default()).await.unwrap();
    assert_ne!(store.bucket("one").unwrap().id, id);
}

#[tokio::test]
async fn empty_pages() {
    let store = bucket().await;
    put(&store, "bucket", "k", &bytes("")).await.unwrap();
    let page = store.list("bucket", &ListSpec::default()).await.unwrap();
    assert!(page.entries.is_empty() && !page.truncated);
    let page = store.list_versions("bucket", &VersionListSpec::default()).await.unwrap();
    assert!(page.entries.is_empty() && !page.truncated);
    let page = store.list_uploads("bucket", &UploadListSpec::default()).await.unwrap();
    assert!(page.uploads.is_empty() && !page.truncated);
    assert!(matches!(store.list("nothing", &ListSpec::default()).await, Err(Error::NoSuchBucket)));
}

/// Two servers over one control store change a bucket at the same time: no setting is lost, and one of them
/// creates and deletes a bucket. A server whose lock time is behind does not set it back.
#[tokio::test]
async fn concurrent_writers_of_registry() {
    let (one, memory, control) = memory().await;
    one.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let two = super::again(&memory, &control);
    let tags = Some(vec![("a".to_owned(), "b".to_owned())]);
    let (a, b) = tokio::join!(
        one.set_versioning("bucket", Versioning::Enabled),
        two.set_bucket_tags("bucket", tags.clone())
    );
    a.unwrap();
    b.unwrap();
    one.set_bucket_document("bucket", "cors", Some("<a/>")).await.unwrap();
    let three = super::again(&memory, &control);
    let seen = three.bucket("bucket").unwrap();
    assert_eq!(seen.versioning, Versioning::Enabled);
    assert_eq!(Some(seen.tags.clone()), tags);
    assert_eq!(seen.documents.get("cors").map(|d| &**d), Some("<a/>"));
    let spec = CreateBucket::default();
    let (a, b) = tokio::join!(one.create_bucket("other", &spec), two.create_bucket("other", &spec));
    assert!(matches!((&a, &b), (Ok(_), Err(Error::BucketExists)) | (Err(Error::BucketExists), Ok(_))));
    let (a, b) = tokio::join!(one.delete_bucket("bucket"), two.delete_bucket("bucket"));
    assert!(matches!((&a, &b), (Ok(()), Err(Error::NoSuchBucket)) | (Err(Error::NoSuchBucket), Ok(()))));
    assert!(one.bucket("bucket").is_err() && two.bucket("bucket").is_err());

    let future = Bytes::from_static(b"{\"format\":1,\"ms\":9000000000000000}");
    let mut update = ashlar_cluster::Update::new();
    update.set(&control.read("lock-time"), future.clone());
    control.update(update).await.unwrap();
    one.save_lock_time().await.unwrap();
    assert_eq!(control.read("lock-time").bytes(), Some(&future));
}
