//! How many flushes a write makes: each is a wait for the device.

use super::*;

/// Flushes per write and drive, over `count` writes one after another.
async fn flushes(rig: &Rig, name: &str, bytes: &[u8], count: u64) -> f64 {
    let syncs = || rig.sets.drives().iter().map(|d| d.stats().syncs).sum::<u64>();
    for i in 0..4 {
        rig.put(&format!("{name}-before-{i}"), bytes).await.unwrap();
    }
    basic::quiet(&rig.sets).await;
    let before = syncs();
    for i in 0..count {
        rig.put(&format!("{name}-{i}"), bytes).await.unwrap();
        basic::quiet(&rig.sets).await;
    }
    (syncs() - before) as f64 / count as f64 / f64::from(rig.code.n())
}

/// A small write makes one flush per drive, that of its record with its shard. A large one makes two, of its
/// shard and of its record; with a third for the record of the shard it would make three. The rest are segments: three
/// flushes for each of eight shards, and a record that is written before its shard is answered. Nothing is
/// journaled by the clock here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_write_makes_two_flushes_per_drive_and_a_small_one() {
    // Over 4+2 a record does not carry the shard of a small write: it is journaled before.
    for (k, m, least) in [(2, 2, 1.0), (4, 2, 2.0)] {
        let mut rig = Rig::new(k, m).await;
        rig.tick = Duration::from_secs(3600);
        rig.restart(|_| 0).await;
        let small = flushes(&rig, "small", &noise(1, 4096), 64).await;
        assert!((least..least + 0.3).contains(&small), "{k}+{m}: {small} flushes for a small write");
        let large = flushes(&rig, "large", &noise(2, 1 << 20), 48).await;
        assert!((2.0..2.8).contains(&large), "{k}+{m}: {large} flushes for a large write");
        rig.close().await;
    }
}
