//! The drives follow a newer layout than this process does.

use super::*;
use ashlar_commit::bucket_fence::Deletion;

/// Epoch of the layout that the drives follow.
const NEWER: u32 = 2;

/// A rig with an object whose drives all follow a newer layout.
async fn outdated() -> Rig {
    let rig = Rig::with(2, 2, 2, |o| o.sole = false).await;
    rig.put("x", b"old").await.unwrap();
    basic::quiet(&rig.sets).await;
    for drive in rig.sets.drives() {
        for group in [0, 1] {
            drive.fence_epoch(GroupId::new(0, group), NEWER).await.unwrap();
        }
    }
    rig
}

/// Large bodies, of one stripe and of several: drives of other nodes refuse their shards with the first frame, because this
/// process has not heard of the layout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_body_begins_again_when_drives_of_other_nodes_refuse_it() {
    for size in [900_000, 3_500_000] {
        let nodes = prefetch::Nodes::new(|_| {}).await;
        nodes.rig.put("x", b"old").await.unwrap();
        nodes.sent().await;
        let here = nodes.rig.sets.drives().into_iter();
        for drive in here.chain(nodes.drives.iter().cloned()) {
            drive.fence_epoch(GroupId::new(0, 0), NEWER).await.unwrap();
        }
        let body = noise(1, size);
        while_heard(&nodes.rig, nodes.rig.put("x", &body)).await.unwrap();
        assert_eq!(nodes.rig.get("x").await.unwrap().unwrap(), body);
        // Nothing of the first attempt is left.
        basic::quiet(&nodes.rig.sets).await;
        nodes.close().await;
    }
}

/// Runs an operation, and meanwhile this process hears of the layout.
async fn while_heard<T>(rig: &Rig, operation: impl Future<Output = T>) -> T {
    let hears = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        rig.sets.set_layout(in_epoch(&rig.sets.layout(), NEWER)).unwrap();
    };
    tokio::join!(operation, hears).0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_wait_for_layout_of_drives() {
    for size in [10, 300_000] {
        let rig = outdated().await;
        let body = noise(1, size);
        while_heard(&rig, rig.put("x", &body)).await.unwrap();
        assert_eq!(rig.get("x").await.unwrap().unwrap(), body);
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_wait_for_layout_of_drives() {
    let rig = outdated().await;
    assert_eq!(while_heard(&rig, rig.get("x")).await.unwrap().unwrap(), b"old");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_wait_for_layout_of_drives() {
    let rig = outdated().await;
    let page = while_heard(&rig, rig.sets.list(Space::Object, BUCKET, b"", b"", 100)).await.unwrap();
    assert_eq!(page.entries.len(), 1);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_wait_for_layout_of_drives() {
    let rig = outdated().await;
    while_heard(&rig, rig.sets.fence_bucket(BUCKET, Deletion(1))).await.unwrap();
    rig.close().await;
}

/// A layout that never comes is waited for no longer than a request may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn layout_that_is_not_heard_of_fails_operations() {
    let rig = outdated().await;
    let (put, got) = tokio::join!(rig.put("y", b"new"), rig.get("x"));
    assert!(matches!(put, Err(Error::Unavailable(_))), "{put:?}");
    assert!(matches!(got, Err(Error::Unavailable(_))), "{got:?}");
    rig.close().await;
}
