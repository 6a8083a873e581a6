//! How many flushes a write makes: each is a wait for the device.

use super::*;

/// Flushes of all drives per write, over `count` writes one after another.
async fn flushes(rig: &Rig, name: &str, bytes: &[u8], count: u64) -> f64 {
    let syncs = || rig.sets.drives().iter().map(|d| d.stats().syncs).sum::<u64>();
    for i in 0..8 {
        rig.put(&format!("{name}-before-{i}"), bytes).await.unwrap();
    }
    let before = syncs();
    for i in 0..count {
        rig.put(&format!("{name}-{i}"), bytes).await.unwrap();
    }
    (syncs() - before) as f64 / count as f64
}

/// A small write makes one flush per drive, that of its record with its shard. A large one makes two: of its
/// shard, and of its record. The rest are segments that are made, and what is journaled once per second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_write_makes_two_flushes_per_drive_and_a_small_one() {
    let rig = Rig::new(2, 2).await;
    let small = flushes(&rig, "small", &noise(1, 4096), 100).await;
    assert!((4.0..4.9).contains(&small), "{small} flushes for a small write");
    let large = flushes(&rig, "large", &noise(2, 1 << 20), 48).await;
    assert!((8.0..10.0).contains(&large), "{large} flushes for a large write");
    // Over 4+2 the ACCEPT cannot carry the shard: the same holds.
    rig.close().await;
    let rig = Rig::new(4, 2).await;
    let large = flushes(&rig, "large", &noise(3, 1 << 20), 48).await;
    assert!((12.0..15.0).contains(&large), "{large} flushes for a large write over 4+2");
    rig.close().await;
}
