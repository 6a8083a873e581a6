//! Healing, rebuild and scrub keep to their rate limits, whichever way the bytes go.
//!
//! Of the time only lower bounds are checked: a slow machine cannot fail them. What was counted is checked both ways.

use super::join::replaced;
use super::*;
use ashlar_pacer::Limits;
use std::time::Instant;

/// Bytes per second of the tests; a quarter of it goes at once.
const RATE: u64 = 256 << 10;

/// Heal and scrub limited in this way: by [`RATE`], or not at all.
fn limit(rig: &Rig, heal: bool, scrub: bool) {
    let of = |on: bool| Limits { per_second: on.then_some(RATE), ..Limits::default() };
    rig.sets.set_background(of(heal), of(scrub));
}

/// The least time that `bytes` take at [`RATE`].
fn least(bytes: u64) -> Duration {
    Duration::from_secs_f64((bytes - RATE / 4 - 1) as f64 / RATE as f64)
}

/// What counts: data, with a tenth more for records.
#[track_caller]
fn counted(bytes: u64, data: u64) {
    assert!((data..=data + data / 10).contains(&bytes), "{bytes} counted, {data} bytes of shards");
}

/// Fills slot 1 with a blank drive. Returns the bytes that were counted and the time.
async fn rebuild(rig: &mut Rig) -> (u64, Duration) {
    rig.unplug(1, 0).await;
    rig.layout = replaced(rig, &[1]);
    rig.sets.set_layout(rig.layout.clone()).unwrap();
    rig.format(1, 1, Role::Joining);
    rig.plug(1, 1).await;
    let (before, began) = (rig.sets.paced_bytes().0, Instant::now());
    rig.sets.rebuild(drive_id(1, 1)).await.unwrap();
    (rig.sets.paced_bytes().0 - before, began.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rebuild_of_inline_shards_keeps_to_the_rate() {
    let mut rig = Rig::new(2, 1).await;
    for i in 0..20 {
        rig.put(&format!("small{i}"), &noise(i, 100_000)).await.unwrap();
    }
    basic::quiet(&rig.sets).await;
    limit(&rig, true, true);
    let (bytes, took) = rebuild(&mut rig).await;
    assert!(took >= least(20 * 50_000), "{took:?}");
    counted(bytes, 20 * 50_000);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rebuild_of_large_shards_keeps_to_the_rate_and_counts_once() {
    let mut rig = Rig::new(2, 1).await;
    rig.put("large", &noise(1, 1_600_000)).await.unwrap();
    basic::quiet(&rig.sets).await;
    limit(&rig, true, false);
    let (bytes, took) = rebuild(&mut rig).await;
    assert!(took >= least(800_000), "{took:?}");
    counted(bytes, 800_000);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn full_scrub_keeps_to_the_rate() {
    let rig = Rig::new(2, 1).await;
    rig.put("large", &noise(1, 600_000)).await.unwrap();
    basic::quiet(&rig.sets).await;
    // A pass that looks only reads no bytes of shards; the limit of heal is another one.
    limit(&rig, false, true);
    rig.sets.scrub(false).await.unwrap();
    assert_eq!(rig.sets.paced_bytes(), (0, 0));
    let began = Instant::now();
    rig.sets.scrub(true).await.unwrap();
    let took = began.elapsed();
    assert!(took >= least(3 * 300_000), "{took:?}");
    counted(rig.sets.paced_bytes().1, 3 * 300_000);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scrub_with_a_limit_does_not_read_everything_before_its_first_pause() {
    let rig = Rig::new(2, 1).await;
    for i in 0..8 {
        rig.put(&format!("large{i}"), &noise(i, 300_000)).await.unwrap();
    }
    basic::quiet(&rig.sets).await;
    limit(&rig, false, true);
    let began = Instant::now();
    let sets = rig.sets.clone();
    let scrub = tokio::spawn(async move { sets.scrub(true).await });
    // Three bodies are paid for when the fourth is read.
    while rig.sets.paced_bytes().1 < 4 * 450_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed();
    assert!(took >= least(3 * 450_000), "{took:?}");
    limit(&rig, false, false);
    tokio::time::timeout(Duration::from_secs(60), scrub).await.expect("it ends soon").unwrap().unwrap();
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn damage_that_a_reader_met_is_verified_without_waiting_for_scrubs() {
    let rig = Rig::new(2, 1).await;
    rig.put("large", &noise(1, 600_000)).await.unwrap();
    basic::quiet(&rig.sets).await;
    limit(&rig, false, true);
    rig.sets.damage(&rig.key("large"));
    assert_eq!(rig.sets.heal_queued().await, 1);
    assert_eq!(rig.sets.paced_bytes(), (0, 0), "nothing was made, and no scrub ran");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn body_that_is_widened_counts() {
    let rig = Rig::new(4, 2).await;
    for slot in [4, 5] {
        rig.unplug(slot, 0).await;
    }
    let narrow = rig.put("k", &noise(1, 1_200_000)).await.unwrap();
    let data = narrow.record.data().next().unwrap().data;
    assert!(data.k < 4, "it was written with {} data shards", data.k);
    for slot in [4, 5] {
        rig.plug(slot, 0).await;
    }
    basic::quiet(&rig.sets).await;
    while rig.sets.heal_register(&rig.key("k"), false).await.unwrap().shards > 0 {}
    let now = rig.sets.read_register(&rig.key("k")).await.unwrap().unwrap();
    assert_eq!(now.record.data().next().unwrap().data.k, 4);
    // Its last two shards as it was written, and then all six of the new ones.
    let old = 2 * data.shard_len(1_200_000);
    counted(rig.sets.paced_bytes().0, old + 1_200_000 / 4 * 6);
    rig.close().await;
}
