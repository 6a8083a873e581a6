//! Append: appended bytes are added exactly once, after the existing ones.

use bytes::Bytes;

use super::{Pool, Rng, Store, get, memory, put};
use crate::seal::{Hiding, PACKAGE};
use crate::*;

async fn append(s: &Store, key: &str, offset: u64, body: &Bytes) -> Result<Committed> {
    let base = s.append_base("bucket", key).await?;
    let checksum = Some(base.checksum.unwrap_or(Algorithm::Crc64Nvme));
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
async fn append_extends_object_and_checksum() {
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
    // After a usual object: its metadata stays.
    let mut p = store.put("bucket", "m", PutSpec::new(3)).await.unwrap();
    p.write(Bytes::from_static(b"abc")).await.unwrap();
    let meta = vec![("x-amz-meta-a".to_owned(), "b".to_owned())];
    p.commit(VersionSpec { meta: meta.clone(), ..VersionSpec::default() }, &Conditions::NONE).await.unwrap();
    append(&store, "m", 3, &Bytes::from_static(b"def")).await.unwrap();
    let object = store.get("bucket", "m", None).await.unwrap();
    assert_eq!((object.version().meta.clone(), object.size()), (meta, 6));
    // After an empty object, the appended part is the whole object.
    put(&store, "bucket", "e", &Bytes::new()).await.unwrap();
    let done = append(&store, "e", 0, &Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(done.etag, ETag { md5: ashlar_checksum::md5_once(b"x"), parts: 0 });
    // If the object is replaced, all of its data is dropped; in a bucket with versions, an append is refused.
    put(&store, "bucket", "k", &Bytes::from_static(b"new")).await.unwrap();
    assert_eq!(memory.census(), (3, 4));
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    assert!(matches!(append(&store, "k", 3, &Bytes::from_static(b"x")).await, Err(Error::InvalidRequest(_))));
}

#[tokio::test]
async fn append_turns_non_crc_checksum_into_composite() {
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

/// Many concurrent appends, each at the end that it sees: every acknowledged one is there exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_appends_never_overwrite_each_other() {
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
                    let at = store.append_base("bucket", "k").await.unwrap().size;
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

/// Appends to the object under `key`, or creates it with a new seal of that key.
async fn append_sealed(
    s: &Store,
    name: &str,
    n: u8,
    offset: u64,
    body: &Bytes,
    md5: bool,
) -> Result<Committed> {
    let base = s.append_base("bucket", name).await?;
    let p = begin_sealed(s, name, n, body, md5, &base).await?;
    p.append(offset, VersionSpec::default(), &Conditions::NONE).await
}

async fn begin_sealed(
    s: &Store,
    name: &str,
    n: u8,
    body: &Bytes,
    md5: bool,
    base: &AppendBase,
) -> Result<Put> {
    let checksum = Some(base.checksum.unwrap_or(Algorithm::Crc64Nvme));
    let spec = PutSpec { checksum, want_md5: md5, ..PutSpec::new(body.len() as u64) };
    let envelope = base.sealed.as_ref().map_or_else(|| format!("envelope {n}"), |s| s.envelope.clone());
    let seal = Seal { key: key(n), cipher: Cipher::Aes256Gcm, envelope, md5 };
    let mut p = s.put_append("bucket", name, spec, Some(seal), base).await?;
    p.write(body.clone()).await?;
    Ok(p)
}

fn key(n: u8) -> ContentKey {
    ContentKey::new([n; 32])
}

async fn read_sealed(o: &Object, range: std::ops::Range<u64>, n: u8) -> Result<Vec<u8>> {
    let key = key(n);
    let mut body = o.read_with(range, Some(&key)).await?;
    let mut out = Vec::new();
    while let Some(piece) = body.next().await {
        out.extend_from_slice(&piece?);
    }
    Ok(out)
}

/// Compared with an unencrypted object: a growing encrypted object has the same sizes, ETags, checksums and
/// bytes.
#[tokio::test]
async fn append_to_encrypted_object_equals_append_to_plain_object() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let mut rng = Rng(31);
    let sizes = [PACKAGE + 7, 1, 2 * PACKAGE, 100];
    let bodies: Vec<Bytes> = sizes.iter().map(|s| rng.body(*s)).collect();
    // Begun by an append, by a usual PUT, and by an empty one.
    for start in ["append", "put", "empty"] {
        let plain = format!("{start} plain");
        if start != "append" {
            let body = if start == "put" { rng.body(5000) } else { Bytes::new() };
            let spec = PutSpec { checksum: Some(Algorithm::Crc64Nvme), ..PutSpec::new(body.len() as u64) };
            let seal =
                Seal { key: key(1), cipher: Cipher::Aes256Gcm, envelope: "envelope 1".into(), md5: true };
            for (name, seal) in [(start, Some(seal)), (&plain, None)] {
                let mut p = store.put_sealed("bucket", name, spec, seal).await.unwrap();
                p.write(body.clone()).await.unwrap();
                let meta = vec![("x-amz-meta-a".to_owned(), "b".to_owned())];
                p.commit(VersionSpec { meta, ..VersionSpec::default() }, &Conditions::NONE).await.unwrap();
            }
        }
        let mut masked = Vec::new();
        for body in &bodies {
            let at = store.append_base("bucket", start).await.unwrap().size;
            assert!(matches!(
                append_sealed(&store, start, 1, at + 1, body, true).await,
                Err(Error::WrongOffset { size }) if size == at
            ));
            let done = append_sealed(&store, start, 1, at, body, true).await.unwrap();
            let twin = append(&store, &plain, at, body).await.unwrap();
            assert_eq!((done.etag, &done.checksum, done.size), (twin.etag, &twin.checksum, twin.size));
            let whole = get(&store, "bucket", &plain, None).await.unwrap();
            let mut o = store.get("bucket", start, None).await.unwrap();
            let twin = store.get("bucket", &plain, None).await.unwrap();
            assert_eq!(o.sealed().unwrap().envelope, "envelope 1");
            assert!(o.version().checksum.is_none() && o.version().parts.iter().all(|p| p.checksum.is_none()));
            assert_eq!(o.version().meta, twin.version().meta);
            // No checksum in clear, and no mask used twice: two values with one mask would reveal what it
            // hides.
            let kept = o.stored().checksum.clone().unwrap();
            let clear = twin.version().checksum.clone().unwrap();
            let mask: Vec<u8> = kept.value.iter().zip(&clear.value).map(|(a, b)| a ^ b).collect();
            assert!(mask.iter().any(|b| *b != 0) && !masked.contains(&mask));
            masked.push(mask);
            for (p, t) in o.stored().parts.iter().zip(&twin.version().parts) {
                let (nonce, sum) = crate::seal::split(p.checksum.as_ref());
                assert!(nonce.is_some() && (sum.is_none() || sum != t.checksum));
            }
            o.unlock(&key(1));
            assert_eq!(o.version().checksum, twin.version().checksum);
            let (ours, its) = (&o.version().parts, &twin.version().parts);
            assert_eq!(ours.len(), its.len());
            for (a, b) in ours.iter().zip(its) {
                assert_eq!((a.number, a.size, a.md5, &a.checksum), (b.number, b.size, b.md5, &b.checksum));
            }
            // Every range whose ends are around the end of a part or of a package.
            let mut points = vec![0, o.size()];
            let mut from = 0;
            for p in its {
                for b in (0..p.size).step_by(PACKAGE).chain([p.size]) {
                    points.extend([(from + b).saturating_sub(1), from + b, from + b + 1]);
                }
                from += p.size;
            }
            points.retain(|p| *p <= o.size());
            points.sort_unstable();
            points.dedup();
            for (i, a) in points.iter().enumerate() {
                for b in points[i..].iter().step_by(3).chain(points.last()) {
                    let got = read_sealed(&o, *a..*b, 1).await.unwrap();
                    assert!(got == whole[*a as usize..*b as usize], "{start}: {a}..{b}");
                }
            }
            assert!(read_sealed(&o, 0..1, 2).await.is_err(), "another key");
        }
    }
}

#[tokio::test]
async fn append_without_md5_keeps_random_etag() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let body = Bytes::from_static(b"the same");
    let mut tags = Vec::new();
    for (i, n) in [0, 2, 3].into_iter().enumerate() {
        let done = append_sealed(&store, "k", 5, 8 * i as u64, &body, false).await.unwrap();
        assert_eq!(done.etag.parts, n);
        assert!(!tags.contains(&done.etag.md5));
        tags.push(done.etag.md5);
    }
    let o = store.get("bucket", "k", None).await.unwrap();
    let md5 = ashlar_checksum::md5_once(&body);
    assert!(o.stored().parts.iter().all(|p| p.md5 != md5));
    assert_eq!(read_sealed(&o, 0..24, 5).await.unwrap(), b"the samethe samethe same");
    // After an empty object, the appended part is the whole object, and its tag is no MD5 either.
    let spec = PutSpec { checksum: Some(Algorithm::Crc64Nvme), want_md5: false, ..PutSpec::new(0) };
    let empty =
        Seal { key: key(5), cipher: Cipher::Aes256Gcm, envelope: "of nothing".to_owned(), md5: false };
    let p = store.put_sealed("bucket", "empty", spec, Some(empty)).await.unwrap();
    p.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
    let done = append_sealed(&store, "empty", 5, 0, &body, false).await.unwrap();
    assert!(done.etag.parts == 0 && done.etag.md5 != md5, "{:?}", done.etag);
    // Of an upload: its checksums stay in clear, and are continued.
    let spec = UploadSpec {
        checksum: Some((Algorithm::Crc32c, false)),
        seal: Some((Cipher::Aes256Gcm, "of the upload".to_owned())),
        ..UploadSpec::default()
    };
    let id = store.create_upload("bucket", "u", spec).await.unwrap();
    let upload = store.find_upload("bucket", "u", id).await.unwrap();
    let part = PartSpec { number: 7, size: 8, checksum: None, want_md5: true };
    let mut p = upload.part(part, Some(&key(6))).await.unwrap();
    p.write(body.clone()).await.unwrap();
    let part = p.commit().await.unwrap();
    let parts = [CompletedPart { number: 7, etag: part.etag, checksum: part.checksum }];
    store.complete_upload("bucket", "u", id, &parts, None, &Conditions::NONE).await.unwrap();
    let done = append_sealed(&store, "u", 6, 8, &body, true).await.unwrap();
    let kept = done.checksum.clone().unwrap();
    assert_eq!(digest_of(&kept), Some(sum(Algorithm::Crc32c, b"the samethe same")));
    let mut o = store.get("bucket", "u", None).await.unwrap();
    assert_eq!(o.sealed().unwrap().hiding, Hiding::Nothing);
    o.unlock(&key(6));
    assert_eq!(o.version().checksum, Some(kept));
    let numbers: Vec<u16> = o.version().parts.iter().map(|p| p.number).collect();
    assert_eq!(numbers, [7, 8]);
    assert_eq!(read_sealed(&o, 3..12, 6).await.unwrap(), b" samethe ");
}

#[tokio::test]
async fn append_to_encrypted_object_after_copy() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let mut rng = Rng(31);
    let mut all = Vec::new();
    let mut name = "k".to_owned();
    for n in 0..4 {
        let body = rng.body(70_000 + n);
        let done = append_sealed(&store, &name, 5, all.len() as u64, &body, true).await.unwrap();
        all.extend_from_slice(&body);
        let whole = sum(Algorithm::Crc64Nvme, &all);
        assert_eq!(done.checksum.as_ref().and_then(digest_of), Some(whole), "{n}");
        let to = format!("k{n}");
        let spec = RenameSpec { envelope: Some(format!("under {to}")), ..RenameSpec::default() };
        let source = store.get("bucket", &name, None).await.unwrap();
        store.rename(&source, &to, &spec).await.unwrap();
        let mut o = store.get("bucket", &to, None).await.unwrap();
        o.unlock(&key(5));
        assert_eq!((o.sealed().unwrap().envelope.as_str(), o.etag()), (&*format!("under {to}"), done.etag));
        assert_eq!(o.version().checksum.as_ref().and_then(digest_of), Some(whole), "{n}");
        assert!(read_sealed(&o, 0..o.size(), 5).await.unwrap() == all);
        assert!(store.get("bucket", &name, None).await.is_err());
        name = to;
    }
}

/// A body that was sealed for one version, or one position in it, becomes no part of another.
#[tokio::test]
async fn append_to_changed_version_fails() {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let (a, b) = (Bytes::from_static(b"aaaa"), Bytes::from_static(b"bbbb"));
    let sealed = async |n: u8, body: &Bytes| {
        let envelope = format!("envelope {n}");
        let seal = Seal { key: key(n), cipher: Cipher::Aes256Gcm, envelope, md5: true };
        let spec = PutSpec { checksum: Some(Algorithm::Crc64Nvme), ..PutSpec::new(body.len() as u64) };
        let mut p = store.put_sealed("bucket", "k", spec, Some(seal)).await.unwrap();
        p.write(body.clone()).await.unwrap();
        p.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
    };
    let commit = |p: Put, at: u64| p.append(at, VersionSpec::default(), &Conditions::NONE);
    // Another key, the same size.
    sealed(1, &a).await;
    let base = store.append_base("bucket", "k").await.unwrap();
    let begun = begin_sealed(&store, "k", 1, &b, true, &base).await.unwrap();
    sealed(2, &a).await;
    assert!(matches!(commit(begun, 4).await, Err(Error::Conflict)));
    // In clear, with the same size; and the reverse.
    let base = store.append_base("bucket", "k").await.unwrap();
    let begun = begin_sealed(&store, "k", 2, &b, true, &base).await.unwrap();
    put(&store, "bucket", "k", &a).await.unwrap();
    assert!(matches!(commit(begun, 4).await, Err(Error::Conflict)));
    let mut begun = store.put("bucket", "k", PutSpec::new(4)).await.unwrap();
    begun.write(b.clone()).await.unwrap();
    sealed(3, &a).await;
    assert!(matches!(commit(begun, 4).await, Err(Error::Conflict)));
    // The same size in another number of parts, under the same envelope.
    let base = store.append_base("bucket", "k").await.unwrap();
    let begun = begin_sealed(&store, "k", 3, &b, true, &base).await.unwrap();
    append_sealed(&store, "k", 3, 4, &b, true).await.unwrap();
    assert!(matches!(commit(begun, 8).await, Err(Error::Conflict)), "sealed as part 2, would be part 3");
    // Another envelope of the same key: the caller has to start again.
    let base = store.append_base("bucket", "k").await.unwrap();
    let begun = begin_sealed(&store, "k", 3, &b, true, &base).await.unwrap();
    assert!(store.replace_envelope("bucket", "k", None, "envelope 3", "another").await.unwrap());
    assert!(matches!(commit(begun, 8).await, Err(Error::Conflict)));
    // Deleted: a content key belongs to one version, so it cannot begin another.
    let base = store.append_base("bucket", "k").await.unwrap();
    let begun = begin_sealed(&store, "k", 3, &b, true, &base).await.unwrap();
    store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
    assert!(matches!(commit(begun, 0).await, Err(Error::Conflict)));
    assert!(matches!(store.get("bucket", "k", None).await, Err(Error::NoSuchKey { .. })));
}

/// As above, encrypted: the parts of racing appends under several keys open in their positions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_encrypted_appends_never_overwrite_each_other() {
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    append_sealed(&store, "k", 9, 0, &Bytes::from(vec![0; 100]), true).await.unwrap();
    let tasks: Vec<_> = (1..5u8)
        .map(|t| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut done = 0u32;
                while done < 10 {
                    let body = Bytes::from(vec![t; 100 + usize::from(t)]);
                    let at = store.append_base("bucket", "k").await.unwrap().size;
                    match append_sealed(&store, "k", 9, at, &body, true).await {
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
    drop(store);
    pool.close().await;
    // With a drive missing, and from the drives alone.
    let store = pool.open(&[2]).await;
    let mut o = store.get("bucket", "k", None).await.unwrap();
    let all = read_sealed(&o, 0..o.size(), 9).await.unwrap();
    o.unlock(&key(9));
    let kept = o.version().checksum.as_ref().and_then(digest_of);
    assert_eq!(kept, Some(sum(Algorithm::Crc64Nvme, &all)));
    let mut at = 0;
    let mut times = [0; 5];
    while at < all.len() {
        let t = all[at];
        let end = at + 100 + usize::from(t);
        assert!(all[at..end].iter().all(|b| *b == t), "torn at {at}");
        times[usize::from(t)] += 1;
        at = end;
    }
    assert_eq!(times, [1, 10, 10, 10, 10]);
    drop(o);
    drop(store);
    pool.close().await;
}
