//! Drives that are told to be hard disks: long reads, from the drives with the least to do, and bodies that take turns.

use super::*;
use ashlar_machine::{Fault, Operation};

const BODY: usize = 10 << 20;

/// Reads of each drive, in the order of the slots.
fn reads(rig: &Rig) -> Vec<u64> {
    let of = |s| rig.sets.drives().into_iter().find(|d| d.label().drive == drive_id(s, 0)).unwrap();
    (0..rig.code.n()).map(|s| of(s).stats().reads).collect()
}

/// The record with one body, and where its shards are.
async fn stored(rig: &Rig, name: &str) -> (RegisterKey, Version) {
    let key = rig.key(name);
    let register = rig.sets.read_register(&key).await.unwrap().unwrap();
    let Body::Versions(versions) = &register.record.body else { panic!("a body") };
    (key, versions[0].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_shard_is_read_at_once_with_its_hashes() {
    let rig = Rig::hard_disks(2, 2).await;
    let body = noise(1, BODY);
    rig.put("a", &body).await.unwrap();
    basic::quiet(&rig.sets).await;
    let (key, v) = stored(&rig, "a").await;
    let before = reads(&rig);
    assert!(read_all(&rig.sets, &key, &v).await.unwrap() == body);
    let reads: u64 = reads(&rig).iter().zip(&before).map(|(a, b)| a - b).sum();
    // A busy machine may take one drive for late, and ask others.
    assert!((2..=4).contains(&reads), "{reads} reads");
    // A range, whose last stripe is not that of the body.
    let data = v.parts[0].data;
    let range = 700_000..5_000_000;
    let mut r = rig.sets.read(&key, &data, BODY as u64, range.clone()).await.unwrap();
    let mut got = Vec::new();
    while let Some(b) = r.next().await {
        got.extend_from_slice(&b.unwrap());
    }
    assert!(got == body[range.start as usize..range.end as usize]);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drive_with_the_most_to_do_is_not_asked() {
    let rig = Rig::hard_disks(2, 2).await;
    let body = noise(2, BODY);
    rig.put("a", &body).await.unwrap();
    basic::quiet(&rig.sets).await;
    let (key, v) = stored(&rig, "a").await;
    let data = v.parts[0].data;
    let view = rig.sets.inner.view(key.group()).unwrap();
    for shard in 0..4u8 {
        let _busy = view.member(data.slot_of(shard)).unwrap().asked_for(100 << 20);
        let r = rig.sets.read(&key, &data, BODY as u64, 0..BODY as u64).await.unwrap();
        let asked = r.least_loaded(0b11, 20).unwrap();
        assert_eq!((asked >> shard & 1, asked.count_ones()), (0, 2), "shard {shard}");
        assert!(read_all(&rig.sets, &key, &v).await.unwrap() == body);
    }
    // Little more to do is no reason to compute rows.
    let _busy = view.member(data.slot_of(0)).unwrap().asked_for(1 << 20);
    let r = rig.sets.read(&key, &data, BODY as u64, 0..BODY as u64).await.unwrap();
    assert_eq!(r.least_loaded(0b11, 20), Some(0b11));
    assert_eq!(r.least_loaded(0b01, 20), None, "one row is wanted");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drive_that_cannot_be_read_or_is_damaged_is_read_around() {
    for fault in [Fault::Error(5), Fault::Corrupt] {
        let rig = Rig::hard_disks(2, 2).await;
        let body = noise(3, BODY);
        rig.put("a", &body).await.unwrap();
        basic::quiet(&rig.sets).await;
        let (key, v) = stored(&rig, "a").await;
        // The drive of the first shard, which is asked if none has more to do.
        let first = usize::from(v.parts[0].data.slot_of(0));
        rig.faults[first].set(Operation::Read, fault);
        assert!(read_all(&rig.sets, &key, &v).await.unwrap() == body, "{fault:?}");
        rig.faults[first].clear();
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_bodies_at_once_take_turns() {
    let mut rig = Rig::hard_disks(2, 2).await;
    // The longer ones take several turns.
    let body = |n: u64| noise(n, if n.is_multiple_of(4) { 40 << 20 } else { BODY });
    {
        let each = (0..16u64).map(|n| {
            let sets = rig.sets.clone();
            tokio::spawn(async move { put(&sets, &format!("k{n}"), &body(n)).await.map(drop) })
        });
        for one in each.collect::<Vec<_>>() {
            one.await.unwrap().unwrap();
        }
    }
    basic::quiet(&rig.sets).await;
    rig.restart(|_| 0).await;
    for n in 0..16u64 {
        assert!(rig.get(&format!("k{n}")).await.unwrap().unwrap() == body(n), "k{n}");
    }
    rig.close().await;
}

/// A client that sends nothing more does not keep others from writing, and goes on afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_client_loses_its_turn_and_goes_on() {
    let rig = Rig::hard_disks(2, 2).await;
    let body = noise(4, BODY);
    // As many as have turns at once, and more.
    let mut idle = Vec::new();
    for n in 0..4 {
        let key = rig.key(&format!("idle{n}"));
        let mut w = rig.sets.write(&key, BODY as u64).await.unwrap();
        w.write(&body[..1_500_000]).await.unwrap();
        idle.push((key, w));
    }
    for n in 0..6 {
        let key = rig.key(&format!("quick{n}"));
        let mut w = rig.sets.write(&key, BODY as u64).await.unwrap();
        w.write(&body[..]).await.unwrap();
        w.finish().await.unwrap();
    }
    for (_, mut w) in idle {
        w.write(&body[1_500_000..]).await.unwrap();
        w.finish().await.unwrap();
    }
    rig.close().await;
}
