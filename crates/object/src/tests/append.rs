//! Appending: what is appended once is there once, behind what was there.

use bytes::Bytes;

use super::{Pool, get, memory, put};
use crate::*;

async fn append(s: &Store, key: &str, offset: u64, body: &Bytes) -> Result<Committed> {
    let tail = s.tail("bucket", key).await?;
    let checksum = Some(tail.checksum.unwrap_or(Algorithm::Crc64Nvme));
    let spec = PutSpec { checksum, ..PutSpec::new(body.len() as u64) };
    let mut p = s.put("bucket", key, spec).await?;
    p.write(body.clone()).await?;
    p.append(offset, VersionSpec::default(), &Conditions::NONE).await
}

fn sum(algorithm: Algorithm, bytes: &[u8]) -> Digest {
    let mut h = ashlar_checksum::Hasher::new(algorithm);
    h.update(bytes);
    h.finish()
}

#[tokio::test]
async fn appends_grow_the_object_and_its_checksum() {
    let (store, memory, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let mut all = Vec::new();
    for (i, text) in ["one ", "two ", "three"].iter().enumerate() {
        let body = Bytes::copy_from_slice(text.as_bytes());
        assert!(
            matches!(append(&store, "k", all.len() as u64 + 1, &body).await,
                Err(Error::WrongOffset { size }) if size == all.len() as u64),
            "beyond the end"
        );
        let done = append(&store, "k", all.len() as u64, &body).await.unwrap();
        all.extend_from_slice(text.as_bytes());
        assert_eq!((done.size, done.etag.parts), (all.len() as u64, if i == 0 { 0 } else { i as u16 + 1 }));
        let checksum = digest_of(done.checksum.as_ref().unwrap()).unwrap();
        assert_eq!(checksum, sum(Algorithm::Crc64Nvme, &all));
        assert_eq!(get(&store, "bucket", "k", None).await.unwrap(), all);
    }
    assert_eq!(memory.census(), (1, 3), "one register, three bodies");
    // A range across the pieces, and the pieces as parts.
    let object = store.get("bucket", "k", None).await.unwrap();
    assert_eq!(object.part_range(2), Some(4..8));
    let mut body = object.read(2..10).await.unwrap();
    let mut read = Vec::new();
    while let Some(piece) = body.next().await {
        read.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(read, all[2..10]);
    // Behind a usual object, its metadata stays.
    let mut p = store.put("bucket", "m", PutSpec::new(3)).await.unwrap();
    p.write(Bytes::from_static(b"abc")).await.unwrap();
    let meta = vec![("x-amz-meta-a".to_owned(), "b".to_owned())];
    p.commit(VersionSpec { meta: meta.clone(), ..VersionSpec::default() }, &Conditions::NONE).await.unwrap();
    append(&store, "m", 3, &Bytes::from_static(b"def")).await.unwrap();
    let object = store.get("bucket", "m", None).await.unwrap();
    assert_eq!((object.version().meta.clone(), object.size()), (meta, 6));
    // Behind an empty one it is all there is.
    put(&store, "bucket", "e", &Bytes::new()).await.unwrap();
    let done = append(&store, "e", 0, &Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(done.etag, ETag { md5: ashlar_checksum::md5_once(b"x"), parts: 0 });
    // Replaced, everything of it goes; in a bucket with versions it is refused.
    put(&store, "bucket", "k", &Bytes::from_static(b"new")).await.unwrap();
    assert_eq!(memory.census(), (3, 4));
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    assert!(matches!(append(&store, "k", 3, &Bytes::from_static(b"x")).await, Err(Error::InvalidRequest(_))));
}

#[tokio::test]
async fn other_checksums_become_those_of_parts() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let spec = PutSpec { checksum: Some(Algorithm::Sha256), ..PutSpec::new(1) };
    let mut p = store.put("bucket", "k", spec).await.unwrap();
    p.write(Bytes::from_static(b"a")).await.unwrap();
    p.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
    let done = append(&store, "k", 1, &Bytes::from_static(b"b")).await.unwrap();
    let parts = [sum(Algorithm::Sha256, b"a"), sum(Algorithm::Sha256, b"b")];
    let kept = done.checksum.unwrap();
    assert!(kept.composite);
    assert_eq!(digest_of(&kept).unwrap(), ashlar_checksum::composite(Algorithm::Sha256, &parts));
    let mut p = store
        .put("bucket", "k", PutSpec { checksum: Some(Algorithm::Crc32), ..PutSpec::new(1) })
        .await
        .unwrap();
    p.write(Bytes::from_static(b"c")).await.unwrap();
    let refused = p.append(2, VersionSpec::default(), &Conditions::NONE).await;
    assert!(matches!(refused, Err(Error::InvalidRequest(_))));
}

/// Many append at once, each at the end it sees: every one that is told it succeeded is there exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_at_once_never_overwrite_each_other() {
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let tasks: Vec<_> = (0..8u8)
        .map(|t| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut done = 0u32;
                while done < 10 {
                    let body = Bytes::from(vec![t; 100 + usize::from(t)]);
                    let at = store.tail("bucket", "k").await.unwrap().size;
                    match append(&store, "k", at, &body).await {
                        Ok(_) => done += 1,
                        Err(Error::WrongOffset { .. } | Error::Conflict) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let all = get(&store, "bucket", "k", None).await.unwrap();
    let mut at = 0;
    let mut times = [0; 8];
    while at < all.len() {
        let t = all[at];
        let end = at + 100 + usize::from(t);
        assert!(all[at..end].iter().all(|b| *b == t), "torn at {at}");
        times[usize::from(t)] += 1;
        at = end;
    }
    assert_eq!(times, [10; 8]);
    drop(store);
    pool.close().await;
}
