//! Locked versions stay, whatever is done to their keys.

use ashlar_environment::time::Clock;
use ashlar_format::Retention;

use super::{CopySource, Rng, Store, memory, put};
use crate::*;

async fn locked_bucket() -> Store {
    let (store, ..) = memory().await;
    store.create_bucket("bucket", &CreateBucket { object_lock: true, ..Default::default() }).await.unwrap();
    store
}

fn until(compliance: bool, ms: i64) -> Retention {
    Retention { compliance, until_ms: ms }
}

/// A time far in the future.
fn later() -> i64 {
    ashlar_environment::time::SystemClock::default().wall_ms() + 1_000_000_000
}

fn locked<T: std::fmt::Debug>(r: Result<T>) -> bool {
    match r {
        Err(Error::Locked) => true,
        Ok(_) => false,
        Err(e) => panic!("{e}"),
    }
}

#[tokio::test]
async fn locked_version_survives_delete_overwrite_and_lock_changes() {
    let store = locked_bucket().await;
    let spec = VersionSpec { retention: Some(until(false, later())), ..VersionSpec::default() };
    let body = bytes::Bytes::from_static(b"kept");
    let mut p = store.put("bucket", "k", PutSpec::new(4)).await.unwrap();
    p.write(body.clone()).await.unwrap();
    let id = p.commit(spec, &Conditions::NONE).await.unwrap().version_id;
    let remove = |bypass| store.delete_bypassing("bucket", "k", id, &Conditions::NONE, bypass);
    assert!(locked(remove(false).await));
    // An overwrite and a delete marker only cover it.
    put(&store, "bucket", "k", &bytes::Bytes::from_static(b"new")).await.unwrap();
    store.delete("bucket", "k", None, &Conditions::NONE).await.unwrap();
    assert_eq!(super::get(&store, "bucket", "k", id).await.unwrap(), body);
    // Shorter only with bypass, longer always.
    let set = |r, bypass| store.set_retention("bucket", "k", id, r, bypass);
    assert!(locked(set(Some(until(false, 5)), false).await));
    assert!(locked(set(None, false).await));
    assert!(!locked(set(Some(until(false, later() + 5_000_000)), false).await));
    assert!(!locked(set(Some(until(true, later())), true).await));
    for bypass in [false, true] {
        assert!(locked(remove(bypass).await), "compliance gives way to nobody");
        assert!(locked(set(None, bypass).await));
        assert!(locked(set(Some(until(false, later() + 9_000_000)), bypass).await));
    }
    // Tags and access control lists change, the lock stays.
    store.set_tags("bucket", "k", id, vec![("a".into(), "b".into())]).await.unwrap();
    assert!(locked(remove(true).await));
    // A legal hold together with retention, and alone.
    put(&store, "bucket", "h", &body).await.unwrap();
    let held = store.get("bucket", "h", None).await.unwrap().version_id();
    let hold = |on| store.set_legal_hold("bucket", "h", held, on);
    hold(true).await.unwrap();
    assert!(locked(store.delete_bypassing("bucket", "h", held, &Conditions::NONE, true).await));
    hold(false).await.unwrap();
    assert!(!locked(store.delete("bucket", "h", held, &Conditions::NONE).await));
    assert!(matches!(
        store.set_versioning("bucket", Versioning::Suspended).await,
        Err(Error::InvalidBucketState(_))
    ));
    assert!(matches!(store.delete_bucket("bucket").await, Err(Error::BucketNotEmpty)));
    store.create_bucket("other", &CreateBucket::default()).await.unwrap();
    assert!(matches!(store.set_legal_hold("other", "k", None, true).await, Err(Error::InvalidRequest(_))));
    assert!(matches!(store.enable_object_lock("other").await, Err(Error::InvalidBucketState(_))));
}

/// Random operations on one key, by a caller with bypass and one without: versions locked in COMPLIANCE mode
/// or under hold always exist.
#[tokio::test]
async fn no_operation_removes_locked_versions() {
    for seed in 1..40u64 {
        let store = locked_bucket().await;
        let mut rng = Rng(seed * 104_729);
        let mut must: Vec<VersionId> = Vec::new();
        let mut all: Vec<VersionId> = Vec::new();
        for step in 0..60 {
            let pick = |rng: &mut Rng, all: &[VersionId]| (!all.is_empty()).then(|| *rng.pick(all));
            match rng.below(7) {
                0 | 1 => {
                    let retention = rng.chance(2).then(|| until(rng.chance(2), later()));
                    let legal_hold = rng.chance(3);
                    let keeps = legal_hold || retention.as_ref().is_some_and(|r| r.compliance);
                    let spec = VersionSpec { retention, legal_hold, ..VersionSpec::default() };
                    let p = store.put("bucket", "k", PutSpec::new(0)).await.unwrap();
                    let id = p.commit(spec, &Conditions::NONE).await.unwrap().version_id.unwrap();
                    all.push(id);
                    if keeps {
                        must.push(id);
                    }
                }
                2 => drop(store.delete("bucket", "k", None, &Conditions::NONE).await),
                3 | 4 => {
                    if let Some(id) = pick(&mut rng, &all) {
                        let bypass = rng.chance(2);
                        let _ =
                            store.delete_bypassing("bucket", "k", Some(id), &Conditions::NONE, bypass).await;
                    }
                }
                5 => {
                    if let Some(id) = pick(&mut rng, &all) {
                        let r = rng.chance(2).then(|| until(rng.chance(2), rng.below(100) as i64));
                        let _ = store.set_retention("bucket", "k", Some(id), r, rng.chance(2)).await;
                    }
                }
                _ => {
                    let from = CopySource {
                        bucket: "bucket".into(),
                        key: "k".into(),
                        version: pick(&mut rng, &all),
                        conditions: Conditions::NONE,
                    };
                    let spec = CopySpec { changes: true, ..CopySpec::default() };
                    if let Ok(copied) = store.copy(&from, "bucket", "k", spec).await {
                        all.extend(copied.committed.version_id);
                    }
                }
            }
            for id in &must {
                let there = store.get("bucket", "k", Some(*id)).await;
                assert!(there.is_ok(), "seed {seed}, step {step}: a locked version is gone");
            }
        }
    }
}
