//! Healthy drives are never repaired, whatever clients do and however late a drive is once; repairs are
//! reported by name, and a rebuild reports its progress in bytes.

use super::*;
use crate::{Phase, What};
use ashlar_machine::{Fault, Operation};

/// Waits until nothing is under way and nothing waits for heal.
async fn at_rest(sets: &Sets) {
    for _ in 0..3000 {
        if sets.inner.sweep_tails() == 0 && sets.heal_backlog() == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if sets.inner.sweep_tails() == 0 && sets.heal_backlog() == 0 {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not come to rest");
}

/// Writers, readers, listers and scrubs, all over the same few keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_clients_cause_no_repairs() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    rig.sets.start();
    // Drives that answer one after another, so that tails and drops are under way all the time.
    for (i, f) in rig.faults.iter().enumerate() {
        f.set(Operation::Sync, Fault::Delay(Duration::from_millis(1 + 9 * i as u64)));
    }
    let mut tasks = Vec::new();
    for client in 0..4u64 {
        let sets = rig.sets.clone();
        tasks.push(tokio::spawn(async move {
            let mut dice = Dice::new(client + 1);
            for round in 0..40 * times() {
                let name = format!("k{}", dice.roll(3));
                match dice.roll(8) {
                    0..3 => {
                        let size = [500, 30_000, 600_000, 1_500_000][dice.roll(4) as usize];
                        put(&sets, &name, &noise(round, size)).await.unwrap();
                    }
                    3 => delete(&sets, &name).await.unwrap(),
                    4 => {
                        // Begun, and abandoned.
                        let mut w = sets.write(&key(&sets, &name), 900_000).await.unwrap();
                        w.write(noise(round, 700_000)).await.unwrap();
                    }
                    5 => drop(sets.list(Space::Object, BUCKET, b"", b"", 100).await.unwrap()),
                    6 => sets.damage(&key(&sets, &name)),
                    _ => drop(get(&sets, &name).await.unwrap()),
                }
            }
        }));
    }
    for t in tasks {
        t.await.unwrap();
    }
    at_rest(&rig.sets).await;
    let stats = rig.sets.heal_stats();
    assert_eq!((stats.shards, stats.lost), (0, 0), "{stats:?}");
    let found = rig.sets.scrub(false).await.unwrap();
    assert_eq!((found.healed.shards, found.healed.missing), (0, 0), "and nothing is missing");
    for f in &rig.faults {
        f.clear();
    }
    rig.close().await;
}

/// A drive that was late once gets its shards of large bodies like the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_delay_costs_no_shard() {
    let rig = Rig::new(2, 2).await;
    for slot in 0..4usize {
        let f = &rig.faults[slot];
        f.set_after(Operation::Sync, Fault::Delay(Duration::from_millis(300)), 0, 1);
        rig.put(&format!("small{slot}"), b"a record").await.unwrap();
        let body = noise(slot as u64, 2_000_000);
        rig.put(&format!("large{slot}"), &body).await.unwrap();
        basic::quiet(&rig.sets).await;
        rig.sets.heal_queued().await;
        f.clear();
        assert_eq!(rig.sets.heal_stats().shards, 0, "slot {slot}");
    }
    rig.close().await;
}

/// Damage that a scrub finds is reported: drive, object, shard, and that it was repaired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_named() {
    let rig = Rig::new(2, 2).await;
    let want = noise(5, 900_000);
    let reg = rig.put("photos/one.jpg", &want).await.unwrap();
    let part = reg.record.data().next().unwrap().clone();
    rig.put("two", &noise(6, 900_000)).await.unwrap();
    assert_eq!(rig.sets.scrub(true).await.unwrap().damaged, 0);
    assert!(rig.sets.damages().is_empty());
    let row = part.data.row_len(u64::from(part.data.stripe).min(part.size)) as usize;
    let slot = part.data.slot_of(1);
    assert!(faults::damage(&rig, slot, &want[row..][..64]));
    let found = rig.sets.scrub(true).await.unwrap();
    assert_eq!((found.deep, found.damaged, found.healed.shards), (true, 1, 1));
    let [one] = &rig.sets.damages()[..] else { panic!("one find") };
    assert_eq!((one.drive, &one.key[..], one.bucket), (drive_id(slot, 0), &b"photos/one.jpg"[..], BUCKET));
    assert_eq!((one.what, one.repaired), (What::Shard(1), true));
    assert_eq!(one.path, rig.path(slot, 0).display().to_string());
    // A later look is not mistaken for the pass that verified everything.
    rig.sets.scrub(false).await.unwrap();
    let full = rig.sets.last_full_scrub().unwrap();
    assert_eq!((full.damaged, full.began_ms), (1, found.began_ms));
    assert!(!rig.sets.last_scrub().unwrap().deep);
    rig.close().await;
}

/// Many small objects come first in the order of keys and have few bytes: a rebuild measured in registers
/// would be nearly done after few bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rebuild_is_measured_in_bytes() {
    let rig = Rig::new(2, 2).await;
    for i in 0..300u64 {
        rig.put(&format!("a{i:03}"), b"small").await.unwrap();
    }
    for i in 0..8u64 {
        rig.put(&format!("z{i}"), &noise(i, 3_000_000)).await.unwrap();
    }
    basic::quiet(&rig.sets).await;
    rig.unplug(3, 0).await;
    rig.format(3, 1, Role::Joining);
    rig.sets.set_layout(join::replaced(&rig, &[3])).unwrap();
    // Its device is slow, so that the progress can be observed.
    rig.faults[3].set(Operation::Sync, Fault::Delay(Duration::from_millis(40)));
    rig.plug(3, 1).await;
    let sets = rig.sets.clone();
    let work = tokio::spawn(async move { sets.rebuild(drive_id(3, 1)).await });
    let mut seen = Vec::new();
    while !work.is_finished() {
        seen.extend(rig.sets.rebuilds().into_iter().filter(|p| p.phase != Phase::Done));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let done = work.await.unwrap().unwrap();
    assert_eq!((done.phase, done.done_bytes), (Phase::Done, done.total_bytes));
    assert!(done.ended_ms.is_some_and(|e| e >= done.began_ms));
    assert!(done.total_bytes > 8 * 1_500_000, "{done:?}");
    for p in &seen {
        assert!(p.done_bytes <= p.total_bytes, "{p:?}");
    }
    // All registers but the last eight were processed, and most bytes are still missing.
    let nearly = seen.iter().find(|p| p.phase == Phase::Shards && p.looked >= 280 && p.looked < 300);
    if let Some(p) = nearly {
        assert!(p.done_bytes * 2 < p.total_bytes, "{p:?}");
    }
    let first = seen.iter().find(|p| p.total_bytes > 0).expect("it is seen under way");
    assert!(first.done_bytes * 2 < first.total_bytes, "{first:?}");
    let [past] = &rig.sets.rebuilt()[..] else { panic!("one rebuild is remembered") };
    assert_eq!((past.drive, past.shards), (drive_id(3, 1), done.shards));
    rig.faults[3].clear();
    rig.close().await;
}

/// What a pass over a group cannot make now is in the heal queue afterwards: it does not wait for the next scrub.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_made_yet_is_tried_again() {
    let rig = Rig::with(2, 3, 1, |_| {}).await;
    let register = rig.put("large", &noise(1, 1_200_000)).await.unwrap();
    at_rest(&rig.sets).await;
    let data = register.record.data().next().unwrap().data;
    let away = rig.sets.detach(drive_id(3, 0)).unwrap();
    for slot in 0..3 {
        let drive = rig.sets.drives().into_iter().find(|d| d.label().drive == drive_id(slot, 0)).unwrap();
        let (id, shard) = (data.write_id, data.shard_of(slot));
        drive.discard(GroupId::default(), u32::MAX, &[(id, shard)]);
        // A drop may require a lookup in the index first.
        while drive.open_shard(id, shard).await.is_ok() {
            drive.flush().await.unwrap();
        }
    }
    let found = rig.sets.scrub(false).await.unwrap();
    assert_eq!((found.healed.shards, found.healed.missing, found.healed.lost), (0, 3, 0), "{found:?}");
    assert_eq!(rig.sets.heal_stats().queued, 1);
    rig.sets.attach(away);
    rig.sets.heal_queued().await;
    let placed = rig.sets.placement(&rig.key("large"), &data, true).await.unwrap();
    assert!(placed.iter().all(|p| p.state == crate::ShardState::Good), "{placed:?}");
    rig.close().await;
}
