//! Multipart uploads: the table of refusals, checksums, retries, leftovers (T14; the interleavings
//! are in `interleave`).

use ashlar_checksum::{Hasher, composite};
use bytes::Bytes;

use super::{Pool, Rng, Store, get, memory, part, put};
use crate::complete::Request;
use crate::marks;
use crate::memory::Memory;
use crate::upload_registers::{UploadRegisters, upload_of};
use crate::*;
use ashlar_commit::upload::Attempt;
use ashlar_format::{UploadState, Version};
use std::sync::Arc;

async fn bucket() -> (Store, Arc<Memory>) {
    let (store, memory, _) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    (store, memory)
}

fn done(p: &PartEntry) -> CompletedPart {
    CompletedPart { number: p.number, etag: p.etag, checksum: p.checksum }
}

fn digest(a: Algorithm, b: &[u8]) -> Digest {
    let mut h = Hasher::new(a);
    h.update(b);
    h.finish()
}

async fn complete(s: &Store, id: UploadId, list: &[CompletedPart]) -> Result<Completed> {
    s.complete_upload("bucket", "k", id, list, None, &Conditions::NONE).await
}

#[tokio::test]
async fn refusals() {
    let (store, _) = bucket().await;
    let mut rng = Rng(5);
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    let a = part(&store, "bucket", "k", id, 1, &rng.body(100)).await.unwrap();
    let b = part(&store, "bucket", "k", id, 2, &rng.body(99)).await.unwrap();
    let c = part(&store, "bucket", "k", id, 3, &rng.body(100)).await.unwrap();
    let is = |r: Result<Completed>| r.map(|_| ()).unwrap_err();
    assert!(matches!(is(complete(&store, id, &[]).await), Error::InvalidRequest(_)));
    assert!(matches!(is(complete(&store, id, &[done(&c), done(&a)]).await), Error::InvalidPartOrder));
    assert!(matches!(is(complete(&store, id, &[done(&a), done(&a)]).await), Error::InvalidPartOrder));
    let small = complete(&store, id, &[done(&a), done(&b), done(&c)]).await;
    assert!(matches!(is(small), Error::EntityTooSmall { number: 2, size: 99 }));
    let mut wrong = done(&a);
    wrong.etag.md5[0] ^= 1;
    assert!(matches!(is(complete(&store, id, &[wrong]).await), Error::InvalidPart(1)));
    let mut missing = done(&a);
    missing.number = 4;
    assert!(matches!(is(complete(&store, id, &[missing]).await), Error::InvalidPart(4)));
    let other = UploadId([9; 16]);
    assert!(matches!(is(complete(&store, other, &[done(&a)]).await), Error::NoSuchUpload));
    let elsewhere = store.complete_upload("bucket", "k2", id, &[done(&a)], None, &Conditions::NONE).await;
    assert!(matches!(is(elsewhere), Error::NoSuchUpload));
    for number in [0, 10_001] {
        let r = part(&store, "bucket", "k", id, number, &Bytes::new()).await;
        assert!(matches!(r, Err(Error::InvalidArgument(_))));
    }
    assert!(matches!(part(&store, "bucket", "k", other, 1, &Bytes::new()).await, Err(Error::NoSuchUpload)));
    // After all that, it can still be completed.
    let ok = complete(&store, id, &[done(&a), done(&b)]).await.unwrap();
    assert_eq!(ok.committed.size, 199);
    assert!(matches!(part(&store, "bucket", "k", id, 1, &Bytes::new()).await, Err(Error::NoSuchUpload)));
    assert!(matches!(store.list_parts("bucket", "k", id, 0, 10).await, Err(Error::NoSuchUpload)));
    assert!(matches!(store.abort_upload("bucket", "k", id).await, Err(Error::NoSuchUpload)));
}

#[tokio::test]
async fn conditions_of_complete() {
    let (store, memory) = bucket().await;
    let mut rng = Rng(6);
    put(&store, "bucket", "k", &rng.body(10)).await.unwrap();
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    let a = done(&part(&store, "bucket", "k", id, 1, &rng.body(100)).await.unwrap());
    let none = Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE };
    let call = |c: Conditions| {
        let (store, a) = (store.clone(), a.clone());
        async move { store.complete_upload("bucket", "k", id, &[a], None, &c).await }
    };
    assert!(matches!(call(none.clone()).await, Err(Error::PreconditionFailed)));
    store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
    let any = Conditions { if_match: Some(Match::Any), ..Conditions::NONE };
    assert!(matches!(call(any).await, Err(Error::NoSuchKey { .. })));
    call(none.clone()).await.unwrap();
    // The retry of a successful call is not evaluated again.
    call(none).await.unwrap();
    assert_eq!(store.get("bucket", "k", None).await.unwrap().size(), 100);
    store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
    store.sweep(i64::MAX / 2).await.unwrap();
    assert_eq!(memory.census(), (0, 0));
}

/// A process that finds a register undecided settles it: where nothing was, it leaves a tombstone. That may happen between
/// two attempts of one update, so no call may tell the two apart.
#[tokio::test]
async fn uploads_and_renames_do_not_distinguish_nothing_from_a_tombstone() {
    let (store, memory) = bucket().await;
    memory.settle();
    let mut rng = Rng(9);
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    let (first, second) = (rng.body(5 << 20), rng.body(100));
    let a = part(&store, "bucket", "k", id, 1, &first).await.unwrap();
    let b = part(&store, "bucket", "k", id, 2, &second).await.unwrap();
    complete(&store, id, &[done(&a), done(&b)]).await.unwrap();
    let whole = [&first[..], &second[..]].concat();
    assert_eq!(get(&store, "bucket", "k", None).await.unwrap(), whole);
    let source = store.get("bucket", "k", None).await.unwrap();
    store.rename(&source, "l", &RenameSpec::default()).await.unwrap();
    assert_eq!(get(&store, "bucket", "l", None).await.unwrap(), whole);
    assert!(matches!(get(&store, "bucket", "k", None).await, Err(Error::NoSuchKey { .. })));
    put(&store, "bucket", "m", &second).await.unwrap();
    assert_eq!(get(&store, "bucket", "m", None).await.unwrap(), second);
    let aborted = store.create_upload("bucket", "n", UploadSpec::default()).await.unwrap();
    store.abort_upload("bucket", "n", aborted).await.unwrap();
}

/// A completion of `bucket/k` whose process crashes: after it held the key, or after it was decided.
struct Interrupted {
    store: Store,
    registers: UploadRegisters,
    attempt: Attempt,
    version: Version,
}

impl Interrupted {
    async fn holding(store: &Store, list: &[CompletedPart], id: UploadId) -> Interrupted {
        let inner = &store.inner;
        let bucket = inner.registry.handle("bucket").unwrap().bucket();
        let registers = inner.upload_registers(&bucket, "k", id).unwrap();
        let record = inner.read_upload(&registers).await.unwrap();
        let upload = upload_of(record.as_deref()).unwrap();
        let UploadState::Open(generation) = upload.state else { panic!("not open") };
        let request = Request { parts: list, checksum: None, conditions: &Conditions::NONE, cause: None };
        let version = inner.assemble_version(&bucket, &registers, upload, &request).await.unwrap();
        let attempt = Attempt { generation, nonce: 7 };
        let held = inner.hold_for_upload(&registers, attempt, version, &Conditions::NONE).await;
        let (version, ..) = held.unwrap();
        Interrupted { store: store.clone(), registers, attempt, version }
    }

    async fn decide(&self) -> bool {
        self.store.inner.decide(&self.registers, self.attempt, &self.version).await.unwrap()
    }

    async fn fill(&self) {
        let mut version = self.version.clone();
        marks::set_attempt(&mut version, self.attempt.to_bytes());
        self.store.inner.apply_version(&self.registers, &version).await.unwrap();
    }
}

#[tokio::test]
async fn completion_interrupted_before_decision_has_no_effect() {
    for deleted in [false, true] {
        let (store, memory) = bucket().await;
        let mut rng = Rng(8);
        put(&store, "bucket", "k", &rng.body(10)).await.unwrap();
        let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
        let list = [done(&part(&store, "bucket", "k", id, 1, &rng.body(100)).await.unwrap())];
        let late = Interrupted::holding(&store, &list, id).await;
        assert_eq!(get(&store, "bucket", "k", None).await.unwrap().len(), 10);
        assert_eq!(store.sweep(0).await.unwrap(), Swept::default());
        // It was acknowledged, so it stays.
        if deleted {
            store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
        } else {
            put(&store, "bucket", "k", &rng.body(20)).await.unwrap();
        }
        assert!(!late.decide().await, "its key has been taken from it");
        let now = get(&store, "bucket", "k", None).await;
        assert!(if deleted { now.is_err() } else { now.unwrap().len() == 20 });
        assert_eq!(store.sweep(0).await.unwrap(), Swept::default());
        // Its client may still need it.
        complete(&store, id, &list).await.unwrap();
        assert_eq!(get(&store, "bucket", "k", None).await.unwrap().len(), 100);
        store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
        store.sweep(i64::MAX / 2).await.unwrap();
        assert_eq!(memory.census(), (0, 0));
    }
}

#[tokio::test]
async fn decided_completion_is_visible_and_keeps_its_position() {
    #[derive(PartialEq, Clone, Copy, Debug)]
    enum Next {
        Sweep,
        Put,
        Abort,
        Retry,
    }
    for next in [Next::Sweep, Next::Put, Next::Abort, Next::Retry] {
        let (store, memory) = bucket().await;
        let mut rng = Rng(9);
        put(&store, "bucket", "k", &rng.body(10)).await.unwrap();
        let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
        let list = [done(&part(&store, "bucket", "k", id, 1, &rng.body(100)).await.unwrap())];
        assert!(Interrupted::holding(&store, &list, id).await.decide().await);
        assert_eq!(get(&store, "bucket", "k", None).await.unwrap().len(), 100, "{next:?}");
        let spec = ListSpec { max_keys: 10, ..ListSpec::default() };
        let shown = store.list("bucket", &spec).await.unwrap();
        assert_eq!(shown.entries.iter().map(|e| e.size).collect::<Vec<_>>(), [100], "{next:?}");
        match next {
            Next::Sweep => assert_eq!(store.sweep(0).await.unwrap().finished, 1),
            Next::Put => drop(put(&store, "bucket", "k", &rng.body(20)).await.unwrap()),
            Next::Abort => {
                let aborted = store.abort_upload("bucket", "k", id).await;
                assert!(matches!(aborted, Err(Error::NoSuchUpload)));
            }
            Next::Retry => drop(complete(&store, id, &list).await.unwrap()),
        }
        let want = if next == Next::Put { 20 } else { 100 };
        store.sweep(0).await.unwrap();
        assert_eq!(get(&store, "bucket", "k", None).await.unwrap().len(), want, "{next:?}");
        complete(&store, id, &list).await.unwrap();
        assert_eq!(get(&store, "bucket", "k", None).await.unwrap().len(), want, "a retry changes nothing");
        store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
        store.sweep(i64::MAX / 2).await.unwrap();
        assert_eq!(memory.census(), (0, 0), "{next:?}");
    }
}

#[tokio::test]
async fn replaced_part_fails_completions_that_read_it() {
    let (store, memory) = bucket().await;
    let mut rng = Rng(10);
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    let first = done(&part(&store, "bucket", "k", id, 1, &rng.body(100)).await.unwrap());
    let late = Interrupted::holding(&store, std::slice::from_ref(&first), id).await;
    let second = done(&part(&store, "bucket", "k", id, 1, &rng.body(200)).await.unwrap());
    assert_eq!(memory.census().1, 1, "the data of the first is dropped");
    assert!(!late.decide().await);
    let gone = complete(&store, id, &[first]).await;
    assert!(matches!(gone, Err(Error::InvalidPart(1))));
    complete(&store, id, &[second]).await.unwrap();
    assert_eq!(get(&store, "bucket", "k", None).await.unwrap().len(), 200);
}

#[tokio::test]
async fn part_after_decision_replaces_nothing() {
    for empty in [false, true] {
        let (store, memory) = bucket().await;
        let mut rng = Rng(11);
        let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
        let first = done(&part(&store, "bucket", "k", id, 1, &rng.body(100)).await.unwrap());
        let spec = PartSpec { number: 1, size: if empty { 0 } else { 3 }, checksum: None, want_md5: true };
        let mut late = store.upload_part("bucket", "k", id, spec).await.unwrap();
        if !empty {
            late.write(Bytes::from_static(b"abc")).await.unwrap();
        }
        assert!(Interrupted::holding(&store, std::slice::from_ref(&first), id).await.decide().await);
        assert!(matches!(late.commit().await, Err(Error::NoSuchUpload)), "{empty}");
        assert_eq!(get(&store, "bucket", "k", None).await.unwrap().len(), 100);
        store.sweep(0).await.unwrap();
        assert_eq!(get(&store, "bucket", "k", None).await.unwrap().len(), 100);
        assert_eq!(memory.census().1, 1, "only the object's data is left");
    }
}

#[tokio::test]
async fn checksums_of_parts_and_objects() {
    let (store, _) = bucket().await;
    let mut rng = Rng(8);
    let bodies = [rng.body(500), rng.body(700), rng.body(3)];
    let whole: Vec<u8> = bodies.iter().flat_map(|b| b.to_vec()).collect();
    for (a, comp) in [
        (Algorithm::Crc32, true),
        (Algorithm::Crc32, false),
        (Algorithm::Crc32c, true),
        (Algorithm::Crc32c, false),
        (Algorithm::Crc64Nvme, false),
        (Algorithm::Sha1, true),
        (Algorithm::Sha256, true),
    ] {
        let spec = UploadSpec { checksum: Some((a, comp)), ..UploadSpec::default() };
        let id = store.create_upload("bucket", "k", spec).await.unwrap();
        let mut list = Vec::new();
        for (i, b) in bodies.iter().enumerate() {
            let p = part(&store, "bucket", "k", id, i as u16 + 1, b).await.unwrap();
            assert_eq!(p.checksum, Some(digest(a, b)));
            list.push(done(&p));
        }
        let parts: Vec<Digest> = bodies.iter().map(|b| digest(a, b)).collect();
        let want = if comp { composite(a, &parts) } else { digest(a, &whole) };
        let mut bad = list.clone();
        bad[1].checksum = bad[0].checksum;
        let r = store.complete_upload("bucket", "k", id, &bad, None, &Conditions::NONE).await;
        assert!(matches!(r, Err(Error::InvalidPart(2))));
        let wrong = Some(digest(a, b"something else"));
        let r = store.complete_upload("bucket", "k", id, &list, wrong, &Conditions::NONE).await;
        assert!(matches!(r, Err(Error::BadDigest)));
        let ok =
            store.complete_upload("bucket", "k", id, &list, Some(want), &Conditions::NONE).await.unwrap();
        let c = ok.committed.checksum.unwrap();
        assert_eq!((digest_of(&c), c.composite), (Some(want), comp), "{a}");
        assert_eq!(get(&store, "bucket", "k", None).await.unwrap(), whole);
        let other = if a == Algorithm::Sha1 { Algorithm::Crc32 } else { Algorithm::Sha1 };
        let id = store
            .create_upload("bucket", "k", UploadSpec { checksum: Some((a, comp)), ..UploadSpec::default() })
            .await
            .unwrap();
        let spec = PartSpec { number: 1, size: 1, checksum: Some(other), want_md5: true };
        assert!(matches!(store.upload_part("bucket", "k", id, spec).await, Err(Error::InvalidRequest(_))));
    }
    for bad in [(Algorithm::Sha256, false), (Algorithm::Crc64Nvme, true)] {
        let spec = UploadSpec { checksum: Some(bad), ..UploadSpec::default() };
        assert!(matches!(store.create_upload("bucket", "k", spec).await, Err(Error::InvalidRequest(_))));
    }
}

#[tokio::test]
async fn empty_part() {
    let (store, memory) = bucket().await;
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    let p = part(&store, "bucket", "k", id, 1, &Bytes::new()).await.unwrap();
    assert_eq!(store.list_parts("bucket", "k", id, 0, 10).await.unwrap().parts, vec![p.clone()]);
    let ok = complete(&store, id, &[done(&p)]).await.unwrap();
    assert_eq!((ok.committed.size, ok.committed.etag.parts), (0, 1));
    assert_eq!(get(&store, "bucket", "k", None).await.unwrap(), b"");
    // Replaced by one with bytes, and the reverse.
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    let mut rng = Rng(1);
    for n in [0usize, 5, 0, 7] {
        part(&store, "bucket", "k", id, 1, &rng.body(n)).await.unwrap();
    }
    assert_eq!(memory.census().1, 1, "replaced parts drop their data");
    store.abort_upload("bucket", "k", id).await.unwrap();
    assert_eq!(memory.census().1, 0);
}

#[tokio::test]
async fn many_parts_in_pages() {
    let (store, memory) = bucket().await;
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    let body = Rng(2).body(100);
    let mut list = Vec::new();
    for n in 1..=1200u16 {
        list.push(done(&part(&store, "bucket", "k", id, n * 8, &body).await.unwrap()));
    }
    let mut seen = 0;
    let mut marker = 0;
    loop {
        let l = store.list_parts("bucket", "k", id, marker, 5000).await.unwrap();
        assert!(l.parts.len() <= 1000);
        seen += l.parts.len();
        match l.next {
            Some(n) => marker = n,
            None => break,
        }
    }
    assert_eq!(seen, 1200);
    let ok = complete(&store, id, &list).await.unwrap();
    assert_eq!(ok.committed.etag.parts, 1200);
    // Clearing continues after the answer; a change of the key waits for it.
    put(&store, "bucket", "k", &body).await.unwrap();
    assert_eq!(memory.census().1, 1);
    complete(&store, id, &list).await.unwrap();
    assert_eq!(store.get("bucket", "k", None).await.unwrap().size(), 100, "a retry changes nothing");
    store.sweep(i64::MAX / 2).await.unwrap();
    assert_eq!(memory.census(), (1, 1));
    assert!(matches!(complete(&store, id, &list).await, Err(Error::NoSuchUpload)), "forgotten after a day");
}

#[tokio::test]
async fn uploads_of_deleted_bucket_are_collected() {
    let (store, memory) = bucket().await;
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    part(&store, "bucket", "k", id, 1, &Rng(2).body(1000)).await.unwrap();
    let spec = PartSpec { number: 2, size: 1, checksum: None, want_md5: true };
    let mut late = store.upload_part("bucket", "k", id, spec).await.unwrap();
    late.write(Bytes::from_static(b"x")).await.unwrap();
    store.delete_bucket("bucket").await.unwrap();
    assert!(matches!(late.commit().await, Err(Error::NoSuchBucket)));
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let spec = UploadListSpec { max_uploads: 10, ..UploadListSpec::default() };
    assert!(store.list_uploads("bucket", &spec).await.unwrap().uploads.is_empty());
    assert_eq!(store.sweep(0).await.unwrap().forgotten, 1);
    assert_eq!(memory.census(), (0, 0));
    assert_eq!(store.sweep(0).await.unwrap(), Swept::default());
}

#[tokio::test]
async fn bucket_is_swept_by_node_on_duty() {
    let (store, memory) = bucket().await;
    let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
    part(&store, "bucket", "k", id, 1, &Rng(11).body(100)).await.unwrap();
    store.delete_bucket("bucket").await.unwrap();
    store.inner.duties.set_nodes([1]);
    store.sweep(i64::MAX / 2).await.unwrap();
    assert_ne!(memory.census(), (0, 0), "node 1 sweeps it");
    store.inner.duties.set_nodes([0]);
    store.sweep(i64::MAX / 2).await.unwrap();
    assert_eq!(memory.census(), (0, 0));
}

/// The data of a part is named by its register, then by the upload, then by the key: while a completion is under
/// way by several of them. Healing may not replace it for one of them and drop what the others name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heal_keeps_data_named_by_upload_and_key() {
    for filled in [false, true] {
        let mut pool = Pool::new(5).await;
        // Data that is written while drives are away has fewer data shards than healing would give it.
        let store = pool.open(&[0, 1]).await;
        store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
        let mut rng = Rng(12);
        let body = rng.body(400_000);
        let id = store.create_upload("bucket", "k", UploadSpec::default()).await.unwrap();
        let list = [done(&part(&store, "bucket", "k", id, 1, &body).await.unwrap())];
        let late = Interrupted::holding(&store, &list, id).await;
        assert!(late.decide().await);
        if filled {
            late.fill().await;
        }
        drop((late, store));
        pool.close().await;
        let store = pool.open(&[]).await;
        for _ in 0..3 {
            let sets = pool.sets.as_ref().unwrap();
            let found = sets.scrub(true).await.unwrap();
            assert_eq!(found.healed.lost, 0, "filled {filled}: {found:?}");
            sets.heal_queued().await;
            assert!(get(&store, "bucket", "k", None).await.unwrap() == body, "filled {filled}");
        }
        assert_eq!(store.sweep(0).await.unwrap().finished, 1);
        for _ in 0..3 {
            let sets = pool.sets.as_ref().unwrap();
            let found = sets.scrub(true).await.unwrap();
            assert_eq!(found.healed.lost, 0, "filled {filled}: {found:?}");
            sets.heal_queued().await;
            assert!(get(&store, "bucket", "k", None).await.unwrap() == body, "filled {filled}");
        }
        pool.close().await;
    }
}
