//! Several processes over one registry of buckets, and requests that look a bucket up once.
//!
//! Two stores over one control store behave like two processes, except for the delay of the control store.

use std::time::Duration;

use super::{Store, again, get, memory, put};
use crate::*;

/// Waits until the follower has reached this state.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it does not come about: {what}");
}

fn body() -> bytes::Bytes {
    bytes::Bytes::from_static(b"body")
}

/// Changes of a bucket in one process are visible in another that follows: created, configured, deleted,
/// created again.
#[tokio::test]
async fn other_process_follows_bucket_changes() {
    let (one, memory, control) = memory().await;
    let two = again(&memory, &control);
    let follower = tokio::spawn(two.follow_buckets());
    one.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    // The list contains only buckets that were followed or requested.
    until("made", || two.buckets().len() == 1).await;
    one.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    one.set_bucket_document("bucket", "policy", Some("{}")).await.unwrap();
    one.set_bucket_tags("bucket", Some(vec![("a".to_owned(), "b".to_owned())])).await.unwrap();
    until("configured", || {
        let b = two.bucket("bucket").unwrap();
        b.versioning == Versioning::Enabled && b.documents.contains_key("policy") && b.tags.len() == 1
    })
    .await;
    // It also applies to the writes of the other process.
    assert!(put(&two, "bucket", "k", &body()).await.unwrap().version_id.is_some());
    one.set_quota("bucket", Some(5)).await.unwrap();
    until("limited", || two.quota("bucket").unwrap() == Some(5)).await;

    one.create_bucket("gone", &CreateBucket::default()).await.unwrap();
    let old = two.bucket("gone").unwrap();
    one.delete_bucket("gone").await.unwrap();
    until("deleted", || two.bucket("gone").is_err()).await;
    one.create_bucket("gone", &CreateBucket::default()).await.unwrap();
    until("made again", || two.bucket("gone").is_ok_and(|b| b.id != old.id)).await;
    follower.abort();
}

/// Changes from before the follower began, and more of them than a watch keeps, are not missed.
#[tokio::test]
async fn late_follower_misses_no_change() {
    let (one, memory, control) = memory().await;
    one.create_bucket("kept", &CreateBucket::default()).await.unwrap();
    one.create_bucket("gone", &CreateBucket::default()).await.unwrap();
    let two = again(&memory, &control);
    one.set_versioning("kept", Versioning::Enabled).await.unwrap();
    one.delete_bucket("gone").await.unwrap();
    assert!(two.bucket("kept").unwrap().versioning == Versioning::Off && two.bucket("gone").is_ok());
    for n in 0..2000 {
        one.set_bucket_document("kept", "n", Some(&n.to_string())).await.unwrap();
    }
    let follower = tokio::spawn(two.follow_buckets());
    until("both", || {
        let kept = two.bucket("kept").unwrap();
        two.bucket("gone").is_err()
            && kept.versioning == Versioning::Enabled
            && kept.documents.get("n").is_some_and(|n| &**n == "1999")
    })
    .await;
    follower.abort();
}

/// Without following: a bucket that only the control store contains is found when it is requested, and a
/// change that finds another state than expected adopts that state.
#[tokio::test]
async fn registry_adopts_state_of_control_store() {
    let (one, memory, control) = memory().await;
    let two = again(&memory, &control);
    one.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    put(&one, "bucket", "k", &body()).await.unwrap();
    assert_eq!(get(&two, "bucket", "k", None).await.unwrap(), b"body", "found by a re-read");
    let again = two.create_bucket("bucket", &CreateBucket::default()).await;
    assert!(matches!(again, Err(Error::BucketExists)));

    one.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    two.set_bucket_document("bucket", "cors", Some("<a/>")).await.unwrap();
    assert_eq!(two.bucket("bucket").unwrap().versioning, Versioning::Enabled, "taken up with the change");

    one.delete("bucket", "k", Some(VersionId::ZERO), &Conditions::NONE).await.unwrap();
    let old = two.bucket("bucket").unwrap();
    one.delete_bucket("bucket").await.unwrap();
    one.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    // The id decides: the bucket that was found is gone, whatever has its name now.
    let change = two.set_bucket_document("bucket", "cors", None).await;
    assert!(matches!(change, Err(Error::NoSuchBucket)));
    let now = two.bucket("bucket").unwrap();
    assert!(now.id != old.id && now.documents.is_empty(), "and the new one is known from then on");
    two.set_bucket_document("bucket", "cors", Some("<b/>")).await.unwrap();
    one.delete_bucket("bucket").await.unwrap();
    let change = two.set_versioning("bucket", Versioning::Enabled).await;
    assert!(matches!(change, Err(Error::NoSuchBucket)));
    assert!(two.bucket("bucket").is_err());
}

/// A request sees one revision of its bucket, whatever is changed; the versioning state is read where the
/// list of versions is replaced.
#[tokio::test]
async fn open_bucket_is_a_snapshot() {
    let (store, ..) = memory().await;
    let store: &crate::Store = &store;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let open = store.bucket("bucket").unwrap();
    let mut p = store.put(&open, "k", PutSpec::new(4)).await.unwrap();
    p.write(body()).await.unwrap();
    p.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
    let mut p = store.put(&open, "k", PutSpec::new(4)).await.unwrap();
    p.write(body()).await.unwrap();
    store.set_versioning(&open, Versioning::Enabled).await.unwrap();
    store.set_bucket_document(&open, "policy", Some("{}")).await.unwrap();
    assert!(open.versioning == Versioning::Off && open.documents.is_empty());
    assert!(store.get(&open, "k", None).await.unwrap().version_id().is_none());
    // A request that began before versioning was enabled does not replace what versioning protects.
    let made = p.commit(VersionSpec::default(), &Conditions::NONE).await.unwrap();
    assert!(made.version_id.is_some());
    let now = store.bucket("bucket").unwrap();
    assert!(now.versioning == Versioning::Enabled && now.documents.contains_key("policy"));
    let all =
        store.list_versions(&now, &VersionListSpec { max_keys: 10, ..Default::default() }).await.unwrap();
    assert_eq!(all.entries.len(), 2);
}

/// A PUT, a part and a deletion that began in a bucket that is deleted and created again have no effect on
/// either bucket.
#[tokio::test]
async fn request_begun_in_deleted_bucket_fails() {
    let (by_name, ..) = memory().await;
    let store: &crate::Store = &by_name;
    let old = store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    let upload = store.create_upload(&old, "u", UploadSpec::default()).await.unwrap();
    let mut p = store.put(&old, "k", PutSpec::new(4)).await.unwrap();
    p.write(body()).await.unwrap();
    by_name.delete_bucket("bucket").await.unwrap();
    let new = store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    assert_ne!(old.id, new.id);
    let gone = |r: Result<()>| assert!(matches!(r, Err(Error::NoSuchBucket)), "{r:?}");
    gone(p.commit(VersionSpec::default(), &Conditions::NONE).await.map(drop));
    gone(store.delete(&old, "k", None, &Conditions::NONE).await.map(drop));
    gone(store.create_upload(&old, "v", UploadSpec::default()).await.map(drop));
    gone(store.abort_upload(&old, "u", upload).await);
    gone(store.set_versioning(&old, Versioning::Enabled).await);
    put(&by_name, "bucket", "k", &body()).await.unwrap();
    let page = store.list(&new, &ListSpec { max_keys: 10, ..ListSpec::default() }).await.unwrap();
    assert_eq!(page.entries.len(), 1);
    assert!(
        store.list(&old, &ListSpec { max_keys: 10, ..ListSpec::default() }).await.unwrap().entries.is_empty()
    );
}

/// Many requests for a bucket while another process creates, changes and deletes it: each bucket has one
/// gate, so that no write is acknowledged into a deleted one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_handle_for_each_bucket() {
    let (one, memory, control) = memory().await;
    let two = again(&memory, &control);
    let follower = tokio::spawn(two.follow_buckets());
    for round in 0..30 {
        one.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
        let ask = |store: Store| {
            tokio::spawn(async move {
                let mut seen = Vec::new();
                for _ in 0..50 {
                    seen.extend(
                        store.bucket("bucket").ok().map(|b| std::sync::Arc::as_ptr(b.handle()) as usize),
                    );
                    tokio::task::yield_now().await;
                }
                seen
            })
        };
        let asked: Vec<_> = (0..4).map(|_| ask(two.clone())).collect();
        one.set_versioning("bucket", Versioning::Enabled).await.unwrap();
        for asked in asked {
            let mut seen = asked.await.unwrap();
            seen.dedup();
            assert!(seen.len() == 1, "round {round}: {seen:?}");
        }
        one.delete_bucket("bucket").await.unwrap();
        until("deleted", || two.bucket("bucket").is_err()).await;
    }
    follower.abort();
}
