//! T15: a gigabyte is rebuilt on a blank drive while it is read and written; counted by records, not by the
//! reports of the rebuild. `ASHLAR_HEAL_MIB` sets the size.

use super::join::{census_after_load, replaced};
use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes of the k-th body: most bytes are in large bodies, most bodies are small.
fn size_of(i: u64) -> usize {
    [4 << 20, 3000, 100, 60_000][i as usize % 4]
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gigabyte_is_rebuilt_under_load() {
    let mib: u64 = std::env::var("ASHLAR_HEAL_MIB").ok().and_then(|s| s.parse().ok()).unwrap_or(1024);
    let count = mib.div_ceil(4) * 4;
    let rig = Rig::with(2, 2, 1, |o| (o.sole, o.orphan_age) = (false, Duration::ZERO)).await;
    // One random body, cut differently for each key: generating random bytes must not dominate the test.
    let noise = noise(15, (4 << 20) + 4096);
    let bytes_of = |i: u64| &noise[i as usize % 4096..][..size_of(i)];
    let mut put_bytes = 0;
    for i in 0..count {
        rig.put(&format!("g{i}"), bytes_of(i)).await.unwrap();
        put_bytes += size_of(i) as u64;
    }
    assert!(put_bytes >= mib << 20);
    rig.unplug(1, 0).await;
    std::fs::remove_dir_all(rig.path(1, 0)).unwrap();
    rig.format(1, 1, Role::Joining);
    rig.sets.set_layout(replaced(&rig, &[1])).unwrap();
    rig.plug(1, 1).await;
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn({
        let (sets, stop, noise) = (rig.sets.clone(), stop.clone(), noise.clone());
        async move {
            let (mut dice, mut times, mut writes) = (Dice::new(15), Vec::new(), 0u64);
            while !stop.load(Ordering::SeqCst) {
                let i = dice.roll(count);
                let began = Instant::now();
                let got = get(&sets, &format!("g{i}")).await.expect("reads never fail").unwrap();
                times.push(began.elapsed());
                assert!(got == noise[i as usize % 4096..][..size_of(i)], "g{i}");
                put(&sets, &format!("w{}", writes % 50), &noise[..3000]).await.expect("writes never fail");
                writes += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (times, writes)
        }
    });
    let began = Instant::now();
    let done = rig.sets.rebuild(drive_id(1, 1)).await.unwrap();
    let took = began.elapsed();
    stop.store(true, Ordering::SeqCst);
    let (times, writes) = load.await.unwrap();
    // A body that was just being written may lack a shard until it is healed; counted below.
    assert_eq!(done.phase, crate::Phase::Done, "{done:?}");
    let (records, shards) = census_after_load(&rig.sets).await;
    let keys = count + writes.min(50);
    assert_eq!((records as u64, shards as u64), (keys, keys * 4), "counted on the drives themselves");
    println!(
        "{put_bytes} bytes in {count} keys, made again in {took:?}; meanwhile {} reads, p99 {:?}",
        times.len(),
        p99(times)
    );
    // The rebuilt data is sufficient even without any one of the old drives.
    rig.sets.detach(drive_id(0, 0));
    rig.sets.detach(drive_id(2, 0));
    for i in 0..count {
        assert!(rig.get(&format!("g{i}")).await.unwrap().unwrap() == bytes_of(i), "g{i}");
    }
    rig.close().await;
}
