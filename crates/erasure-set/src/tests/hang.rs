//! T10 with drives that hang: calls to the device that do not return before they are released.
//!
//! Bounds here are far above the promised ones and far below the time that a request waits for a drive it
//! needs (10 to 30 seconds), because test machines are busy.

#![allow(clippy::expect_fun_call)] // messages of tests may cost

use super::*;
use ashlar_machine::{Fault, Operation};
use std::time::Instant;

/// The longest a request may take.
const LIMIT: Duration = Duration::from_secs(6);
pub(super) const SIZES: [usize; 4] = [10, 20_000, 700_000, 3_000_000];

pub(super) async fn soon<T>(what: &str, f: impl Future<Output = T>) -> T {
    let began = Instant::now();
    match tokio::time::timeout(LIMIT, f).await {
        Ok(t) => {
            let took = began.elapsed();
            if took > Duration::from_millis(300) {
                println!("{what}: {took:?}");
            }
            t
        }
        Err(_) => panic!("{what} waits for a drive that hangs"),
    }
}

/// Objects whose records and index entries are only on the devices.
pub(super) async fn settled(k: u8, m: u8) -> Rig {
    let mut rig = Rig::with(k, m, 1, |o| o.sole = false).await;
    for (i, size) in SIZES.into_iter().enumerate() {
        rig.put(&format!("old{i}"), &noise(i as u64, size)).await.unwrap();
        rig.put(&format!("gone{i}"), &noise(i as u64, size)).await.unwrap();
    }
    basic::quiet(&rig.sets).await;
    for d in rig.sets.drives() {
        tokio::task::spawn_blocking(move || d.tidy()).await.unwrap().unwrap();
    }
    rig.restart(|_| 0).await;
    rig
}

/// Every kind of request.
pub(super) async fn use_it(rig: &Rig, round: u64) {
    for (i, size) in SIZES.into_iter().enumerate() {
        let what = |op: &str| format!("{op} of {size} bytes in round {round}");
        let (old, new) = (format!("old{i}"), format!("new{round}.{i}"));
        let head = soon(&what("HEAD"), rig.sets.read_register(&rig.key(&old))).await.unwrap();
        assert!(head.is_some());
        let got = soon(&what("GET"), rig.get(&old)).await.expect(&what("GET")).unwrap();
        assert!(got == noise(i as u64, size), "{}", what("GET"));
        let body = noise(100 + round, size);
        soon(&what("PUT"), rig.put(&new, &body)).await.expect(&what("PUT"));
        soon(&what("PUT over"), rig.put(&new, &body)).await.expect(&what("PUT over"));
        assert!(soon(&what("GET"), rig.get(&new)).await.unwrap().unwrap() == body);
        if round == 0 {
            soon(&what("DELETE"), rig.delete(&format!("gone{i}"))).await.expect(&what("DELETE"));
            assert_eq!(soon(&what("GET"), rig.get(&format!("gone{i}"))).await.unwrap(), None);
        }
        let page = soon(&what("LIST"), rig.sets.list(Space::Object, BUCKET, b"", b"", 1000)).await;
        assert!(page.expect(&what("LIST")).entries.len() >= SIZES.len());
    }
}

pub(super) async fn until(what: &str, mut there: impl FnMut() -> bool) {
    let began = Instant::now();
    while !there() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// After the drives answer again, nothing is missing on them: the others are not needed.
async fn whole_again(rig: &Rig, hung: &[u8], rounds: u64) {
    for f in &rig.faults {
        f.clear();
    }
    for s in hung {
        let d = rig.sets.drives().into_iter().find(|d| d.label().drive == drive_id(*s, 0)).unwrap();
        until("the drive answers again", || d.stalled().is_none()).await;
    }
    basic::quiet(&rig.sets).await;
    rig.sets.heal_queued().await;
    let away: Vec<u8> = (0..rig.code.n()).filter(|s| !hung.contains(s)).take(rig.code.m.into()).collect();
    let half = rig.code.m == rig.code.k;
    let kept: Vec<Drive> =
        away.iter().skip(usize::from(half)).map(|s| rig.sets.detach(drive_id(*s, 0)).unwrap()).collect();
    for round in 0..rounds {
        for (i, size) in SIZES.into_iter().enumerate() {
            let got = rig.get(&format!("new{round}.{i}")).await.unwrap().unwrap();
            assert!(got == noise(100 + round, size), "{size} bytes of round {round}");
        }
    }
    for i in 0..SIZES.len() {
        assert_eq!(rig.get(&format!("gone{i}")).await.unwrap(), None);
    }
    for d in kept {
        rig.sets.attach(d);
    }
    // A scrub finds nothing missing either.
    let found = rig.sets.scrub(false).await.unwrap();
    assert_eq!((found.healed.missing, found.healed.lost, found.healed.shards), (0, 0, 0));
}

async fn hangs(k: u8, m: u8, hung: &[u8]) {
    let rig = settled(k, m).await;
    for s in hung {
        rig.faults[usize::from(*s)].hang();
    }
    if hung.len() > 1 {
        // A body that was begun with all drives may lack one now, and gets an error soon.
        let drives = rig.sets.drives();
        let known = || drives.iter().filter(|d| d.stalled().is_some()).count() == hung.len();
        let began = Instant::now();
        while !known() {
            assert!(began.elapsed() < Duration::from_secs(30), "they hang");
            drop(soon("PUT", rig.put("begun", &noise(1, 20_000))).await);
        }
    }
    for round in 0..3 {
        use_it(&rig, round).await;
    }
    whole_again(&rig, hung, 3).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_four_hangs() {
    hangs(2, 2, &[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_six_hangs() {
    hangs(4, 2, &[1]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_six_hang() {
    hangs(4, 2, &[0, 3]).await;
}

/// Only calls of one kind hang, so the drive answers half of the requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_kind_of_call_hangs() {
    for on in [Operation::Read, Operation::Write, Operation::Sync, Operation::Allocate] {
        for slot in [0u8, 2] {
            let rig = settled(2, 2).await;
            rig.faults[usize::from(slot)].set(on, Fault::Hang);
            for round in 0..2 {
                use_it(&rig, round).await;
            }
            whole_again(&rig, &[slot], 2).await;
            rig.close().await;
        }
    }
}

/// The drive hangs while bodies are read and written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drive_hangs_during_requests() {
    for (k, m) in [(2, 2), (4, 2)] {
        let rig = Rig::direct(k, m).await;
        let body = noise(1, 24 << 20);
        rig.put("read", &body).await.unwrap();
        let part = {
            let r = rig.sets.read_register(&rig.key("read")).await.unwrap().unwrap();
            r.record.data().next().unwrap().clone()
        };
        let mut r = rig.sets.read(&rig.key("read"), &part.data, part.size, 0..part.size).await.unwrap();
        let mut got = r.next().await.unwrap().unwrap().to_vec();
        let mut w = rig.sets.write(&rig.key("written"), body.len() as u64).await.unwrap();
        w.write(&body[..3_000_000]).await.unwrap();
        // The slot of a data shard, so that the reader needs it.
        let slot = part.data.slot_of(1);
        rig.faults[usize::from(slot)].hang();
        while let Some(b) = soon("a read under way", r.next()).await {
            got.extend_from_slice(&b.unwrap());
        }
        assert!(got == body);
        soon("a write under way", w.write(&body[3_000_000..])).await.unwrap();
        let staged = soon("a write that ends", w.finish()).await.unwrap();
        let (data, size) = (staged.data(), body.len() as u64);
        let key = rig.key("written");
        let named = [&staged];
        let done = rig.sets.update_register::<(), ()>(&key, &named, |_| Decision::Write {
            body: super::body(size, Some(data)),
            summary: summary(size),
            moved: false,
            out: (),
        });
        soon("its update", done).await.unwrap();
        drop(staged);
        assert!(soon("what was written", rig.get("written")).await.unwrap().unwrap() == body);
        for f in &rig.faults {
            f.clear();
        }
        rig.close().await;
    }
}

/// A hung drive holds little of the shared memory, however much was under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_drive_releases_memory() {
    let rig = Rig::direct(4, 2).await;
    let body = noise(2, 6 << 20);
    rig.put("read", &body).await.unwrap();
    rig.sets.start();
    rig.faults[2].hang();
    let tasks: Vec<_> = (0..32)
        .map(|i| {
            let (sets, body) = (rig.sets.clone(), body.clone());
            tokio::spawn(async move {
                put(&sets, &format!("w{i}"), &body).await.unwrap();
                assert!(get(&sets, "read").await.unwrap().unwrap() == body);
            })
        })
        .collect();
    for t in tasks {
        tokio::time::timeout(Duration::from_secs(60), t).await.expect("it ends").unwrap();
    }
    let pool = rig.sets.pool().clone();
    until("what was not on its way to the device is forgotten", || pool.used() < 20 << 20).await;
    assert!(rig.faults[2].hanging() > 0, "while it still hangs");
    // All of it is recorded as missing there.
    rig.faults[2].clear();
    let d = rig.sets.drives().into_iter().find(|d| d.label().drive == drive_id(2, 0)).unwrap();
    until("the drive answers again", || d.stalled().is_none()).await;
    basic::quiet(&rig.sets).await;
    rig.sets.heal_queued().await;
    // The background task needs its share of the queue.
    until("all are healed", || rig.sets.heal_stats().queued == 0).await;
    let found = rig.sets.scrub(false).await.unwrap();
    assert_eq!((found.healed.missing, found.healed.lost, found.healed.shards), (0, 0, 0));
    rig.close().await;
}

/// Drives with much to write are slow one after another, for longer than the second after which one hangs: a write that has
/// left out one of them waits for the next, also while memory is short.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drives_that_are_slow_in_turn_fail_no_write() {
    let rig = Rig::direct(2, 2).await;
    rig.sets.start();
    let body = noise(3, 24 << 20);
    let drives = rig.sets.drives();
    let stalls =
        |slot: u8| drives.iter().any(|d| d.label().drive == drive_id(slot, 0) && d.stalled().is_some());
    let mut w = rig.sets.write(&rig.key("written"), body.len() as u64).await.unwrap();
    w.write(&body[..3_000_000]).await.unwrap();
    rig.faults[0].hang();
    soon("a write", w.write(&body[3_000_000..12_000_000])).await.unwrap();
    rig.faults[0].clear();
    until("the first drive answers again", || !stalls(0)).await;
    let held = rig.sets.pool().get(rig.sets.pool().ceiling() * 6 / 10).await;
    rig.faults[1].hang();
    let rest = body[12_000_000..].to_vec();
    let ending = tokio::spawn(async move {
        w.write(rest).await?;
        w.finish().await
    });
    until("the second drive stalls", || stalls(1)).await;
    // The background task has looked at it meanwhile.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    rig.faults[1].clear();
    let staged = ending.await.unwrap().unwrap();
    drop(held);
    let (data, size) = (staged.data(), body.len() as u64);
    let key = rig.key("written");
    let named = [&staged];
    let done = rig.sets.update_register::<(), ()>(&key, &named, |_| Decision::Write {
        body: super::body(size, Some(data)),
        summary: summary(size),
        moved: false,
        out: (),
    });
    done.await.unwrap();
    drop(staged);
    assert!(rig.get("written").await.unwrap().unwrap() == body);
    rig.close().await;
}

/// A stopped machine is not treated as a drive that hangs: requests wait and succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_wait_while_machine_is_stopped() {
    let rig = settled(2, 2).await;
    for f in &rig.faults {
        f.hang();
    }
    let sets = rig.sets.clone();
    let waiting = tokio::spawn(async move {
        let got = get(&sets, "old1").await;
        let page = sets.list(Space::Object, BUCKET, b"", b"", 1000).await;
        (got, page, put(&sets, "new", b"x").await)
    });
    let drives = rig.sets.drives();
    until("all stall", || drives.iter().all(|d| d.stalled().is_some()) || waiting.is_finished()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished(), "it waits");
    for f in &rig.faults {
        f.clear();
    }
    let (got, page, put) = waiting.await.unwrap();
    assert!(got.unwrap().unwrap() == noise(1, SIZES[1]));
    assert_eq!(page.unwrap().entries.len(), 2 * SIZES.len());
    put.unwrap();
    rig.close().await;
}

/// With another drive out of service, no drive can replace one that hangs: requests wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn needed_drive_is_waited_for() {
    let rig = settled(2, 2).await;
    let away = rig.sets.detach(drive_id(3, 0)).unwrap();
    rig.faults[0].hang();
    let sets = rig.sets.clone();
    // The drive is known to hang when the request arrives.
    let first = tokio::spawn({
        let sets = rig.sets.clone();
        async move { put(&sets, "first", b"x").await }
    });
    let drives = rig.sets.drives();
    until("it stalls", || drives.iter().any(|d| d.stalled().is_some())).await;
    let waiting = tokio::spawn(async move { (get(&sets, "old1").await, put(&sets, "new", b"x").await) });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished(), "it waits");
    rig.faults[0].clear();
    let (got, put) = waiting.await.unwrap();
    assert!(got.unwrap().unwrap() == noise(1, SIZES[1]));
    put.unwrap();
    first.await.unwrap().unwrap();
    rig.sets.attach(away);
    rig.close().await;
}

/// Heal and scrub continue without the drive, hold no key's turn meanwhile, and handle it later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heal_does_not_wait_for_a_hung_drive() {
    let rig = settled(4, 2).await;
    let reg = rig.sets.read_register(&rig.key("old2")).await.unwrap().unwrap();
    let part = reg.record.data().next().unwrap().clone();
    let want = noise(2, SIZES[2]);
    let row = part.data.row_len(u64::from(part.data.stripe).min(part.size)) as usize;
    let slot = part.data.slot_of(2);
    assert!(faults::damage(&rig, slot, &want[2 * row..][..64]));
    let hung = (slot + 1) % 6;
    rig.faults[usize::from(hung)].hang();
    let healed = soon("heal", rig.sets.heal_register(&rig.key("old2"), true)).await.unwrap();
    assert_eq!((healed.shards, healed.lost), (1, 0));
    let deep = tokio::time::timeout(Duration::from_secs(60), rig.sets.scrub(true)).await;
    deep.expect("a scrub ends").unwrap();
    soon("PUT", rig.put("old2", b"x")).await.unwrap();
    for f in &rig.faults {
        f.clear();
    }
    rig.close().await;
}

/// A drive that lacks a tombstone and says nothing: the tombstone stays on the others, or the deleted object could
/// come back with the drive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tombstone_missing_on_hung_drive_is_not_purged() {
    let rig = Rig::new(2, 2).await;
    rig.put("x", b"to be deleted").await.unwrap();
    rig.sets.inner.gate.set(Some((u64::MAX, 0b0111)));
    rig.delete("x").await.unwrap();
    rig.sets.inner.gate.set(None);
    rig.faults[3].hang();
    // Something that it does not come to, so that it is known to hang.
    let drives = rig.sets.drives();
    let hung = drives.iter().find(|d| d.label().drive == drive_id(3, 0)).unwrap();
    rig.put("y", b"beside it").await.unwrap();
    while hung.stalled().is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    rig.sets.heal_register(&rig.key("x"), false).await.unwrap();
    rig.sets.inner.purge_tombstones(Duration::ZERO);
    // A purge is told, and nobody waits for it.
    tokio::time::sleep(Duration::from_millis(300)).await;
    for d in drives.iter().filter(|d| d.label().drive != drive_id(3, 0)) {
        let seen = d.read(&rig.key("x"), false, u32::MAX).await.unwrap();
        assert!(seen.accepted.is_some(), "{}: {seen:?}", d.label().drive);
    }
    rig.faults[3].clear();
    while hung.stalled().is_some() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // With the drive back the tombstone reaches it, and then it goes.
    for _ in 0..200 {
        rig.sets.heal_register(&rig.key("x"), false).await.unwrap();
        rig.sets.inner.purge_tombstones(Duration::ZERO);
        let mut left = 0;
        for d in &drives {
            left += u32::from(d.read(&rig.key("x"), false, u32::MAX).await.unwrap().accepted.is_some());
        }
        if left == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(rig.get("x").await.unwrap(), None);
    rig.close().await;
}
