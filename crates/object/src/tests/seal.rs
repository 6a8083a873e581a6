//! Encrypted bodies against the plain model: every range around every boundary, damage of every kind, copies,
//! uploads, and envelopes that are replaced.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use ashlar_drive::Check;
use ashlar_erasure_set::Sets;
use bytes::Bytes;

use super::{Pool, Rng, Store, memory};
use crate::marks::SEAL;
use crate::seal::{PACKAGE, WHOLE};
use crate::sealing::Unsealing;
use crate::*;
use ashlar_machine::BufferPool;

fn seal(n: u8) -> Seal {
    let cipher = if n.is_multiple_of(2) { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
    Seal { key: key(n), cipher, envelope: format!("envelope {n}"), md5: true }
}

fn key(n: u8) -> ContentKey {
    ContentKey::new([n; 32])
}

async fn put(s: &Store, name: &str, body: &Bytes, seal: Option<Seal>, step: usize) -> Committed {
    let spec = PutSpec { checksum: Some(Algorithm::Crc64Nvme), ..PutSpec::new(body.len() as u64) };
    let mut p = s.put_sealed("bucket", name, spec, seal).await.unwrap();
    for piece in body.chunks(step) {
        p.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    p.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap()
}

async fn range(o: &Object, range: Range<u64>, key: &ContentKey) -> Result<Vec<u8>> {
    let mut body = o.read_with(range, Some(key)).await?;
    let mut out = Vec::new();
    while let Some(piece) = body.next().await {
        out.extend_from_slice(&piece?);
    }
    Ok(out)
}

/// Every range whose ends are around a boundary.
async fn check_ranges(o: &Object, body: &[u8], key: &ContentKey, around: &[u64]) {
    let size = body.len() as u64;
    assert_eq!(o.size(), size);
    let mut points: Vec<u64> =
        around.iter().flat_map(|b| [b.saturating_sub(1), *b, b + 1]).filter(|p| *p <= size).collect();
    points.push(size);
    points.sort_unstable();
    points.dedup();
    for from in &points {
        for to in points.iter().filter(|to| *to >= from) {
            let got = range(o, *from..*to, key).await.unwrap();
            assert_eq!(got, body[*from as usize..*to as usize], "{from}..{to} of {size}");
        }
    }
}

#[tokio::test]
async fn ranges_in_memory() {
    let (store, _, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let mut rng = Rng(11);
    let p = PACKAGE;
    for (n, size) in [0, 1, 100, p - 1, p, p + 1, 2 * p, 5 * p + 17, 9 * p].into_iter().enumerate() {
        let body = rng.body(size);
        let n = n as u8;
        let step = *rng.pick(&[777, 8192, 65_536, 1 << 20]);
        let done = put(&store, "k", &body, Some(seal(n)), step).await;
        let plain = put(&store, "plain", &body, None, 1 << 20).await;
        assert_eq!((done.etag, &done.checksum, done.size), (plain.etag, &plain.checksum, plain.size));
        let mut o = store.get("bucket", "k", None).await.unwrap();
        assert_eq!(o.sealed().unwrap().envelope, format!("envelope {n}"));
        assert!(o.version().meta.is_empty(), "nothing internal is shown");
        assert!(o.version().checksum.is_none(), "hidden without the key");
        assert_ne!(o.stored().checksum, plain.checksum, "not in clear on the drives");
        o.unlock(&key(n));
        assert_eq!(o.version().checksum, plain.checksum);
        let around: Vec<u64> = (0..=9).map(|i| i * p as u64).chain([4 * p as u64]).collect();
        check_ranges(&o, &body, &key(n), &around).await;
        if size > 0 {
            assert!(matches!(o.read(0..1).await, Err(Error::KeyNeeded)));
            assert!(matches!(range(&o, 0..1, &key(n + 100)).await, Err(Error::Corrupt(_))));
        }
    }
}

#[tokio::test]
async fn encrypted_objects_with_missing_drive_and_after_restart() {
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let mut rng = Rng(12);
    let sizes = [10, 100_000, 131_072, (1 << 20) - 7, (3 << 20) + 12_345];
    let bodies: Vec<Bytes> = sizes.iter().map(|s| rng.body(*s)).collect();
    for (i, body) in bodies.iter().enumerate() {
        put(&store, &format!("k{i}"), body, Some(seal(i as u8)), 50_000).await;
    }
    pool.close().await;
    let store = pool.open(&[1]).await;
    for (i, body) in bodies.iter().enumerate() {
        let o = store.get("bucket", &format!("k{i}"), None).await.unwrap();
        let around = [0, PACKAGE as u64, 3 * PACKAGE as u64, 1 << 20, 2 << 20];
        check_ranges(&o, body, &key(i as u8), &around).await;
    }
    pool.close().await;
}

/// Flips a bit of frame `frame` of a stored shard, `at` bytes into it.
async fn flip(pool: &Pool, data: &ashlar_format::Data, shard: u8, frame: u32, at: usize) {
    let sets = pool.sets.as_ref().unwrap();
    for drive in sets.drives() {
        let Ok(r) = drive.open_shard(data.write_id, shard).await else { continue };
        let bytes = r.read(frame, Check::Reader).await.unwrap();
        let needle = &bytes[at..(at + 48).min(bytes.len())];
        assert!(needle.len() > 16, "too little to be found by");
        for file in std::fs::read_dir(drive.path().join("extents")).unwrap() {
            let path = file.unwrap().path();
            let all = std::fs::read(&path).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            // A name that is prepared for a segment has no bytes.
            let places = 0..all.len().saturating_sub(needle.len());
            for place in places.filter(|p| all[*p..].starts_with(needle)) {
                file.write_all_at(&[needle[0] ^ 4], place as u64).unwrap();
                if drive.verify_shard(data.write_id, shard).await.is_err() {
                    return;
                }
                // The stored bytes before the repair.
                file.write_all_at(&needle[..1], place as u64).unwrap();
            }
        }
        panic!("shard {shard} is not where its drive finds it");
    }
    panic!("no drive has shard {shard}");
}

/// All shards of a body exist and are intact.
async fn sound(sets: &Sets, data: &ashlar_format::Data) -> bool {
    let mut good = 0;
    for shard in 0..4 {
        for drive in sets.drives() {
            good += u32::from(drive.verify_shard(data.write_id, shard).await.is_ok());
        }
    }
    good == 4
}

/// Bits flipped on drives under encrypted bodies: in rows that are read unchecked, so that a package does not
/// open. Every read returns the right bytes, and the damage is found and repaired; reads of other bytes do
/// not detect it. With more damage than the code tolerates, no wrong bytes are returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_shards_are_read_around_and_repaired() {
    let mut pool = Pool::new(4).await;
    let store = pool.open(&[]).await;
    let sets = pool.sets.clone().unwrap();
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let mut rng = Rng(21);
    let body = rng.body((5 << 20) + 12_345);
    put(&store, "k", &body, Some(seal(2)), 1 << 20).await;
    let o = store.get("bucket", "k", None).await.unwrap();
    let data = o.stored().parts[0].data;
    assert_eq!((data.k, data.m, data.inline), (2, 2, false));
    let (stripe, row) = (u64::from(data.stripe), data.row_len(u64::from(data.stripe)));
    while !sound(&sets, &data).await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut unseen = 0;
    for round in 0..24 {
        // In one shard, or in both, of one stripe or of two.
        let mut hit = Vec::new();
        for shard in [vec![0], vec![1], vec![0, 1]][round % 3].iter().copied() {
            let at = if rng.chance(4) { row as usize - 64 } else { rng.below(row - 64) as usize };
            let frame = rng.below(5) as u32;
            flip(&pool, &data, shard, frame, at).await;
            hit.push(u64::from(frame) * stripe + u64::from(shard) * row + at as u64);
        }
        let what = format!("round {round}: {hit:?}");
        // Packages that are not affected, read from stripes that are not affected.
        let far = |from: u64, to: u64| {
            let (a, z) = (from / PACKAGE as u64 * WHOLE as u64, (to / PACKAGE as u64 + 1) * WHOLE as u64);
            hit.iter().all(|h| *h < a || *h >= z)
        };
        for _ in 0..20 {
            let from = rng.below(body.len() as u64);
            let to = (from + rng.below(300_000)).min(body.len() as u64);
            if far(from, to) {
                assert!(range(&o, from..to, &key(2)).await.unwrap() == body[from as usize..to as usize]);
            }
        }
        // Unless a drive was late, or a repair of the previous round ran again.
        unseen += u32::from(!sound(&sets, &data).await);
        let plain = |stored: u64| stored / WHOLE as u64 * PACKAGE as u64;
        let from = if rng.chance(2) { 0 } else { plain(hit.iter().copied().min().unwrap()) + 77 };
        let got = range(&o, from..o.size(), &key(2)).await.expect(&what);
        assert!(got == body[from as usize..], "{what}");
        // Repaired automatically.
        let began = Instant::now();
        while !sound(&sets, &data).await {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}: not repaired");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert!(unseen > 8, "reading what is sound found damage beside it in all but {unseen} rounds");
    for shard in 0..3 {
        flip(&pool, &data, shard, 2, 1000).await;
    }
    let mut read = o.read_with(0..o.size(), Some(&key(2))).await.unwrap();
    let mut out = Vec::new();
    let failed = loop {
        match read.next().await {
            Some(Ok(piece)) => out.extend_from_slice(&piece),
            end => break end,
        }
    };
    assert!(matches!(failed, Some(Err(Error::Corrupt(_) | Error::Unavailable(_)))), "{failed:?}");
    assert!(out.len() as u64 >= stripe && out == body[..out.len()]);
    pool.close().await;
}

/// While the pool has nothing left, opening continues above its ceiling, one package at a time.
#[tokio::test]
async fn decryption_continues_while_pool_is_exhausted() {
    let (store, _, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let body = Rng(19).body(900_000);
    put(&store, "k", &body, Some(seal(2)), 1 << 20).await;
    let o = store.get("bucket", "k", None).await.unwrap();
    let part = o.stored().parts[0].clone();
    let nonce = crate::seal::split(part.checksum.as_ref()).0.unwrap();
    let pool = BufferPool::new(4 << 20);
    for used_up in [true, false] {
        let mut held = Vec::new();
        for size in [1 << 20, 64 << 10, 4 << 10] {
            held.extend(std::iter::from_fn(|| pool.try_get(size).filter(|_| used_up)));
        }
        let mut reader = store.inner.backend.read(&o.key, &part.data, part.size, 0..part.size).await.unwrap();
        let plain = body.len() as u64;
        let mut open = Unsealing::new(&key(2), o.sealed().unwrap(), &nonce, part.number, plain, &(0..plain));
        let (mut out, mut longest) = (Vec::new(), 0);
        while let Some(piece) = open.next(&mut reader, Some(&pool), false).await {
            let piece = piece.unwrap();
            longest = longest.max(piece.len());
            out.extend_from_slice(&piece);
        }
        assert!(out == body);
        assert_eq!(longest == PACKAGE, used_up, "{longest}");
    }
}

#[tokio::test]
async fn encrypted_upload_shows_plain_sizes_and_reads_across_parts() {
    let (store, _, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let mut rng = Rng(13);
    let spec = UploadSpec {
        checksum: Some((Algorithm::Crc32c, false)),
        seal: Some((Cipher::Aes256Gcm, "of the upload".to_owned())),
        ..UploadSpec::default()
    };
    let id = store.create_upload("bucket", "k", spec).await.unwrap();
    let upload = store.find_upload("bucket", "k", id).await.unwrap();
    assert_eq!(upload.sealed().unwrap().envelope, "of the upload");
    let refused = upload.part(PartSpec { number: 1, size: 5, checksum: None, want_md5: true }, None).await;
    assert!(matches!(refused.err(), Some(Error::KeyNeeded)));
    let bodies = [rng.body(PACKAGE + 5), rng.body(3 * PACKAGE), rng.body(77)];
    let mut done = Vec::new();
    for round in 0..2 {
        done.clear();
        for (i, body) in bodies.iter().enumerate() {
            // The first round is replaced by the second, with the parts in another order of contents.
            let body = if round == 0 { &bodies[2 - i] } else { body };
            let upload = store.find_upload("bucket", "k", id).await.unwrap();
            let size = body.len() as u64;
            let spec = PartSpec { number: i as u16 + 1, size, checksum: None, want_md5: true };
            let mut p = upload.part(spec, Some(&key(1))).await.unwrap();
            p.write(body.clone()).await.unwrap();
            let part = p.commit().await.unwrap();
            assert_eq!((part.size, part.etag.md5), (size, ashlar_checksum::md5_once(body)));
            done.push(CompletedPart { number: part.number, etag: part.etag, checksum: part.checksum });
        }
    }
    let listed = store.list_parts("bucket", "k", id, 0, 10).await.unwrap();
    let sizes: Vec<u64> = listed.parts.iter().map(|p| p.size).collect();
    assert_eq!(sizes, bodies.iter().map(|b| b.len() as u64).collect::<Vec<_>>());
    assert!(listed.parts.iter().all(|p| p.checksum.is_some()));
    let completed = store.complete_upload("bucket", "k", id, &done, None, &Conditions::NONE).await.unwrap();
    assert_eq!(completed.sealed.unwrap().envelope, "of the upload");
    let whole = bodies.concat();
    assert_eq!(completed.committed.size, whole.len() as u64);
    let mut hasher = ashlar_checksum::Hasher::new(Algorithm::Crc32c);
    hasher.update(&whole);
    assert_eq!(completed.committed.checksum.as_ref().and_then(digest_of), Some(hasher.finish()));
    let o = store.get("bucket", "k", None).await.unwrap();
    let ends = [0, bodies[0].len() as u64, (bodies[0].len() + bodies[1].len()) as u64];
    check_ranges(&o, &whole, &key(1), &[ends[0], PACKAGE as u64, ends[1], ends[1] + PACKAGE as u64, ends[2]])
        .await;
    assert_eq!(o.part_range(2), Some(ends[1]..ends[2]));
    assert!(o.version().parts.iter().zip(&bodies).all(|(p, b)| p.size == b.len() as u64));
}

/// A stored body with changed packages, as an attacker with access to a drive could do it.
async fn tampered(change: impl Fn(&mut Vec<u8>)) -> Result<Vec<u8>> {
    let (store, memory, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let body = Rng(14).body(3 * PACKAGE + 10);
    put(&store, "k", &body, Some(seal(2)), 1 << 20).await;
    let o = store.get("bucket", "k", None).await.unwrap();
    memory.tamper(o.stored().parts[0].data.write_id, &change);
    let got = range(&o, 0..o.size(), &key(2)).await?;
    assert_eq!(got, body);
    Ok(got)
}

#[tokio::test]
async fn changed_moved_or_missing_packages_are_detected() {
    assert!(tampered(|_| {}).await.is_ok());
    assert!(tampered(|b| b[5] ^= 1).await.is_err(), "a changed byte");
    assert!(tampered(|b| b[..2 * WHOLE].rotate_left(WHOLE)).await.is_err(), "two packages swapped");
    assert!(tampered(|b| b.copy_within(..WHOLE, WHOLE)).await.is_err(), "a package twice");
    let last = |b: &mut Vec<u8>| {
        let n = b.len();
        b[n - 1] ^= 1;
    };
    assert!(tampered(last).await.is_err(), "the last tag");
}

/// Whichever package is damaged, and whether it is in one row or in two: the returned bytes end before it.
#[tokio::test]
async fn damaged_package_returns_no_byte() {
    let (store, memory, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let body = Rng(18).body(19 * PACKAGE + 10);
    put(&store, "k", &body, Some(seal(2)), 1 << 20).await;
    let o = store.get("bucket", "k", None).await.unwrap();
    let id = o.stored().parts[0].data.write_id;
    for package in 0..20 {
        for at in [0, 9, 25] {
            let flip = |b: &mut Vec<u8>| b[package * WHOLE + at] ^= 1;
            memory.tamper(id, &flip);
            for from in [0, 70_000] {
                let mut read = o.read_with(from..o.size(), Some(&key(2))).await.unwrap();
                let mut out = Vec::new();
                let failed = loop {
                    match read.next().await {
                        Some(Ok(piece)) => out.extend_from_slice(&piece),
                        Some(Err(e)) => break Some(e),
                        None => break None,
                    }
                };
                let begin = from as usize;
                if package == 0 && from > 0 {
                    assert!(failed.is_none(), "it is not read");
                } else {
                    assert!(matches!(failed, Some(Error::Corrupt(_))), "package {package}");
                    assert!(begin + out.len() <= (package * PACKAGE).max(begin), "package {package}");
                    assert!(read.next().await.is_none());
                }
                assert!(out == body[begin..begin + out.len()]);
            }
            memory.tamper(id, &flip);
        }
    }
}

#[tokio::test]
async fn truncated_encrypted_body_is_refused() {
    let (store, memory, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let body = Rng(15).body(3 * PACKAGE);
    put(&store, "k", &body, Some(seal(2)), 1 << 20).await;
    put(&store, "short", &body.slice(..2 * PACKAGE), Some(seal(2)), 1 << 20).await;
    // The record says two packages, the data is the first two of three: the mark of the last one is missing.
    let long = store.get("bucket", "k", None).await.unwrap();
    let short = store.get("bucket", "short", None).await.unwrap();
    let bytes = memory.bytes(long.stored().parts[0].data.write_id).slice(..2 * WHOLE);
    memory.tamper(short.stored().parts[0].data.write_id, &|b: &mut Vec<u8>| *b = bytes.to_vec());
    assert!(matches!(range(&short, 0..short.size(), &key(2)).await, Err(Error::Corrupt(_))));
}

#[tokio::test]
async fn copies_keep_or_change_the_encryption() {
    let (store, _, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let body = Rng(16).body(200_000);
    put(&store, "k", &body, Some(seal(2)), 1 << 20).await;
    let md5 = ashlar_checksum::md5_once(&body);
    let copy = async |from: &str, with: Option<u8>, to: &str, seal: CopySeal| {
        let mut o = store.get("bucket", from, None).await?;
        let with = with.map(key);
        if let Some(k) = &with {
            o.unlock(k);
        }
        let spec =
            CopySpec { meta: Some(vec![("x-amz-meta-a".into(), "b".into())]), seal, ..CopySpec::default() };
        store.copy_from(&o, with.as_ref(), "bucket", to, &spec).await
    };
    // The record alone, under another envelope.
    let before = store.get("bucket", "k", None).await.unwrap().stored().parts.clone();
    let done = copy("k", Some(2), "k", CopySeal::Envelope("another".into())).await.unwrap();
    assert!(done.committed.checksum.is_some() && done.committed.etag.md5 == md5);
    let o = store.get("bucket", "k", None).await.unwrap();
    assert_eq!((o.sealed().unwrap().envelope.as_str(), &o.stored().parts), ("another", &before));
    assert_eq!(o.version().meta, [("x-amz-meta-a".to_owned(), "b".to_owned())]);
    assert_eq!(range(&o, 0..200_000, &key(2)).await.unwrap(), body);
    // To unencrypted, to another key, and from unencrypted.
    assert!(matches!(copy("k", None, "p", CopySeal::Plain).await, Err(Error::KeyNeeded)));
    assert!(matches!(copy("k", Some(2), "p", CopySeal::Kept).await, Err(Error::Internal(_))));
    copy("k", Some(2), "p", CopySeal::Plain).await.unwrap();
    let o = store.get("bucket", "p", None).await.unwrap();
    assert!(o.sealed().is_none() && o.etag().md5 == md5);
    assert_eq!(super::read(&o).await.unwrap(), body);
    let random = Seal { md5: false, ..seal(3) };
    let done = copy("p", None, "e", CopySeal::Fresh(random)).await.unwrap();
    assert!(done.committed.etag.md5 != md5 && done.committed.etag.parts == 0);
    let o = store.get("bucket", "e", None).await.unwrap();
    assert_eq!(range(&o, 0..200_000, &key(3)).await.unwrap(), body);
    // Onto itself under a new key: the data is written again.
    copy("k", Some(2), "k", CopySeal::Fresh(seal(4))).await.unwrap();
    let o = store.get("bucket", "k", None).await.unwrap();
    assert_ne!(o.stored().parts, before);
    assert_eq!(range(&o, 0..200_000, &key(4)).await.unwrap(), body);
}

#[tokio::test]
async fn envelope_of_locked_version_can_be_replaced() {
    let (store, _, _) = memory().await;
    let spec = CreateBucket { object_lock: true, ..CreateBucket::default() };
    store.create_bucket("bucket", &spec).await.unwrap();
    let body = Rng(17).body(1000);
    let mut p = store.put_sealed("bucket", "k", PutSpec::new(1000), Some(seal(2))).await.unwrap();
    p.write(body.clone()).await.unwrap();
    let held = VersionSpec { legal_hold: true, ..VersionSpec::default() };
    let id = p.commit(held, &Conditions::NONE).await.unwrap().version_id;
    let before = store.get("bucket", "k", id).await.unwrap();
    assert!(!store.replace_envelope("bucket", "k", id, "not this", "new").await.unwrap());
    assert!(store.replace_envelope("bucket", "k", id, "envelope 2", "new").await.unwrap());
    let o = store.get("bucket", "k", id).await.unwrap();
    assert_eq!(o.sealed().unwrap().envelope, "new");
    assert_eq!(
        (&o.stored().parts, o.etag(), o.version().modified_ms, o.version().legal_hold),
        (&before.stored().parts, before.etag(), before.version().modified_ms, true)
    );
    assert_eq!(range(&o, 0..1000, &key(2)).await.unwrap(), body);
    let long = "x".repeat(MAX_ENVELOPE + 1);
    assert!(store.replace_envelope("bucket", "k", id, "new", &long).await.is_err());
}

#[tokio::test]
async fn client_metadata_never_becomes_envelope() {
    // MinIO GHSA-3rh2-v3gr-35p9: internal metadata from outside.
    let (store, _, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let mut p = store.put("bucket", "k", PutSpec::new(3)).await.unwrap();
    p.write(Bytes::from_static(b"abc")).await.unwrap();
    let meta = vec![(SEAL.to_owned(), "1 aes hidden x".to_owned())];
    p.commit(VersionSpec { meta, ..VersionSpec::default() }, &Conditions::NONE).await.unwrap();
    let o = store.get("bucket", "k", None).await.unwrap();
    assert!(o.sealed().is_none());
    assert_eq!(super::read(&o).await.unwrap(), b"abc");
}
