//! Fences of buckets over a group: what they refuse, what is behind them, and that joining drives have them.

use super::*;
use crate::tests::join::replaced;
use crate::with_fence_right;
use ashlar_commit::bucket_fence::Deletion;

const FIRST: Deletion = Deletion(1);

async fn first_behind(rig: &Rig, by: Deletion) -> Result<Option<(Bytes, Bytes)>> {
    let fenced = rig.sets.fence_bucket(BUCKET, by).await?;
    with_fence_right(BUCKET, by, rig.sets.first_behind(&fenced, Space::Object)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_bucket_is_read_only() {
    let rig = Rig::new(2, 2).await;
    rig.put("x", b"there").await.unwrap();
    let found = first_behind(&rig, FIRST).await.unwrap().unwrap();
    assert_eq!(&found.0[..], b"x");
    for name in ["x", "y"] {
        let refused = rig.put(name, b"new").await;
        assert_eq!(refused.err(), Some(Error::BucketFenced(FIRST)), "{name}");
    }
    assert_eq!(rig.get("x").await.unwrap(), Some(b"there".to_vec()));
    assert_eq!(rig.get("y").await.unwrap(), None);
    // Changes that only remove are not refused.
    rig.delete("x").await.unwrap();
    assert_eq!(first_behind(&rig, FIRST).await.unwrap(), None);
    // A later deletion; an older one neither fences nor lifts.
    assert_eq!(first_behind(&rig, Deletion(2)).await.unwrap(), None);
    assert_eq!(first_behind(&rig, FIRST).await.err(), Some(Error::BucketFenced(Deletion(2))));
    rig.sets.lift_fences(BUCKET, FIRST).await.unwrap();
    assert_eq!(rig.sets.fences().await, [(BUCKET, Deletion(2))]);
    rig.sets.lift_fences(BUCKET, Deletion(2)).await.unwrap();
    rig.put("y", b"new").await.unwrap();
    rig.close().await;
}

/// A bucket is fenced in every group, in the epoch of each: a new epoch of one of them is another layout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_is_fenced_group_by_group() {
    let rig = Rig::with(2, 2, 5, |_| {}).await;
    let fenced = rig.sets.fence_bucket(BUCKET, FIRST).await.unwrap();
    let drives = rig.sets.drives();
    for group in (0..5).map(|g| GroupId::new(0, g)) {
        let has = drives.iter().filter(|d| d.fences().contains(&(group, BUCKET, FIRST)));
        assert!(has.count() >= 3, "group {group}");
    }
    let look = || with_fence_right(BUCKET, FIRST, rig.sets.first_behind(&fenced, Space::Object));
    assert_eq!(look().await.unwrap(), None);
    let mut layout = (*rig.sets.layout()).clone();
    layout.epoch += 1;
    layout.groups[3].epoch = layout.epoch;
    rig.sets.set_layout(layout).unwrap();
    assert!(matches!(look().await, Err(Error::Unavailable(_))), "counted in another epoch");
    assert_eq!(first_behind(&rig, FIRST).await.unwrap(), None);
    let names: Vec<String> = (0..20).map(|i| format!("key-{i}")).collect();
    for name in &names {
        assert_eq!(rig.put(name, b"new").await.err(), Some(Error::BucketFenced(FIRST)), "{name}");
    }
    rig.sets.lift_fences(BUCKET, FIRST).await.unwrap();
    assert_eq!(rig.sets.fences().await, []);
    for name in &names {
        rig.put(name, b"new").await.unwrap();
    }
    rig.close().await;
}

/// A put that reached one drive only: whichever drives are fenced, it is decided before the bucket counts as
/// empty, and cannot appear afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undecided_records_are_settled_behind_fence() {
    for slot in 0..4 {
        for away in 0..4 {
            let rig = Rig::new(2, 2).await;
            rig.sets.inner.gate.set(Some((u64::MAX, 1 << slot)));
            rig.put("x", b"of a put that failed").await.unwrap_err();
            rig.sets.inner.gate.set(None);
            rig.unplug(away, 0).await;
            let there = first_behind(&rig, FIRST).await.unwrap().is_some();
            let (why, drive) = (format!("slot {slot}, away {away}"), rig.plug(away, 0).await);
            assert!(!there || slot != away, "{why}");
            rig.sets.scrub(false).await.unwrap();
            rig.sets.heal_queued().await;
            let now = rig.get("x").await;
            let risen = matches!(now, Ok(Some(_)));
            assert_eq!(risen, there, "{why}: {now:?}");
            drop(drive);
            rig.close().await;
        }
    }
}

/// Every drive is replaced, one after another: the bucket stays fenced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_drives_have_fences() {
    let rig = Rig::new(2, 2).await;
    assert_eq!(first_behind(&rig, FIRST).await.unwrap(), None);
    let mut new: Vec<u8> = Vec::new();
    for slot in 0..4 {
        rig.unplug(slot, 0).await;
        rig.format(slot, 1, Role::Joining);
        new.push(slot);
        let epoch = rig.sets.layout().epoch + 1;
        rig.sets.set_layout(in_epoch(&replaced(&rig, &new), epoch)).unwrap();
        let drive = rig.plug(slot, 1).await;
        rig.sets.rebuild(drive_id(slot, 1)).await.unwrap();
        assert_eq!(drive.role(GroupId::default()), Some(Role::Voter));
        let fences: Vec<_> = drive.fences().into_iter().map(|(_, b, d)| (b, d)).collect();
        assert!(fences.contains(&(BUCKET, FIRST)), "slot {slot}");
        let refused = rig.put("x", b"new").await;
        assert_eq!(refused.err(), Some(Error::BucketFenced(FIRST)), "slot {slot}");
    }
    rig.close().await;
}
