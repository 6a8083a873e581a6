//! T15 and docs/protocol.md 2.7, 2.13: drives that are replaced, emptied, or away for some time.

use super::*;
use crate::Phase;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The layout in which the given slots have their second drive.
pub(crate) fn replaced(rig: &Rig, slots: &[u8]) -> Layout {
    let mut layout = in_epoch(&rig.layout, rig.layout.epoch + 1);
    for g in &mut layout.groups {
        for d in &mut g.slots {
            if slots.contains(&d.0[0]) {
                d.0[1] = 1;
            }
        }
    }
    layout
}

/// Inspects the drives directly: every record is on every drive under one ballot, every shard that a record
/// names is on its slot and intact, and nothing else exists. Returns records and shards. Purges and discards
/// are lazy, so differences are tolerated for some time.
pub(crate) async fn census(sets: &Sets) -> (usize, usize) {
    let mut result = count(sets).await;
    for _ in 0..60 {
        if result.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        result = count(sets).await;
    }
    result.unwrap_or_else(|e| panic!("{e}"))
}

/// A census after writes under load. On a busy machine a shard may arrive after its body was replaced; the
/// collector removes it, in a later pass if a drive does not answer in time. Needs an `orphan_age` of zero.
pub(crate) async fn census_after_load(sets: &Sets) -> (usize, usize) {
    for _ in 0..20 {
        basic::quiet(sets).await;
        sets.heal_queued().await;
        sets.scrub(true).await.unwrap();
        sets.inner.purge_tombstones(Duration::ZERO);
        if count(sets).await.is_ok() {
            break;
        }
    }
    census(sets).await
}

async fn count(sets: &Sets) -> Result<(usize, usize), String> {
    let layout = sets.layout();
    let (mut records, mut named) = (0, HashSet::new());
    for d in sets.drives() {
        d.flush().await.unwrap();
    }
    for g in &layout.groups {
        let (from, to) = crate::list::group_range(g.id);
        let mut first: Option<Vec<_>> = None;
        for (slot, id) in g.slots.iter().enumerate() {
            let d = sets.drives().into_iter().find(|d| d.label().drive == *id).unwrap();
            assert!(!d.joins());
            let entries = d.scan(&from, &to, 1_000_000, u32::MAX).await.unwrap();
            for e in &entries {
                let seen = d.read(&e.key, true, u32::MAX).await;
                let seen = seen.map_err(|x| format!("{:?} on slot {slot}: {x}", e.key))?.accepted;
                let seen = seen.ok_or_else(|| format!("{:?} just went", e.key))?;
                let stored = crate::stored::Stored::parse(&seen.record.unwrap()).unwrap();
                let record = stored.decode().unwrap();
                let mut parts: Vec<Part> = record.data().cloned().collect();
                let mut pages = sets.inner.walk_pages(record.body.below());
                while let Some(more) = pages.next(&e.key).await.map_err(|x| format!("{:?}: {x}", e.key))? {
                    parts.extend(more);
                }
                for p in &parts {
                    let shard = p.data.shard_of(slot as u8);
                    let sound = d.verify_shard(p.data.write_id, shard).await;
                    sound.map_err(|x| format!("{:?}: shard {shard} on slot {slot}: {x}", e.key))?;
                    named.insert((*id, p.data.write_id, shard));
                }
            }
            let pairs: Vec<_> = entries.into_iter().map(|e| (e.key, e.ballot)).collect();
            if let Some(f) = &first {
                let odd = f.iter().find(|p| !pairs.contains(p));
                let odd = odd.or_else(|| pairs.iter().find(|p| !f.contains(p)));
                if let Some(odd) = odd {
                    return Err(format!("slot {slot} of group {}: {odd:?}", g.id));
                }
            } else {
                first = Some(pairs);
            }
        }
        records += first.map_or(0, |f| f.len());
    }
    for d in sets.drives() {
        let id = d.label().drive;
        for s in d.shards(None, 1_000_000).await.unwrap() {
            if !named.contains(&(id, s.write_id, s.index)) {
                return Err(format!(
                    "an orphan of {:?}: {} {} of {} bytes on {id}",
                    s.owner, s.write_id, s.index, s.len
                ));
            }
        }
    }
    Ok((records, named.len()))
}

async fn fill(rig: &Rig, count: u64) {
    for i in 0..count {
        let size = [100, 5000, 300_000, 1_200_000][i as usize % 4];
        rig.put(&format!("f{i}"), &noise(i, size)).await.unwrap();
    }
}

async fn check(rig: &Rig, count: u64) {
    for i in 0..count {
        let size = [100, 5000, 300_000, 1_200_000][i as usize % 4];
        assert!(rig.get(&format!("f{i}")).await.unwrap().unwrap() == noise(i, size), "f{i}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blank_drive_joins_under_load() {
    let rig = Rig::with(2, 2, 2, |o| o.orphan_age = Duration::ZERO).await;
    fill(&rig, 40).await;
    let stop = Arc::new(AtomicBool::new(false));
    let puts = Arc::new(AtomicU64::new(0));
    let load = {
        let (sets, stop, puts) = (rig.sets.clone(), stop.clone(), puts.clone());
        tokio::spawn(async move {
            let mut i = 0u64;
            while !stop.load(Ordering::SeqCst) {
                let name = format!("load{}", i % 25);
                let size = if i.is_multiple_of(10) { 400_000 } else { 2000 };
                put(&sets, &name, &noise(i, size)).await.unwrap();
                assert!(get(&sets, &name).await.unwrap().unwrap() == noise(i, size));
                if i.is_multiple_of(7) {
                    delete(&sets, &name).await.unwrap();
                }
                i += 1;
                puts.store(i, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    rig.unplug(1, 0).await;
    while puts.load(Ordering::SeqCst) < 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    rig.format(1, 1, Role::Joining);
    rig.sets.set_layout(replaced(&rig, &[1])).unwrap();
    rig.plug(1, 1).await;
    let done = rig.sets.rebuild(drive_id(1, 1)).await.unwrap();
    assert_eq!((done.phase, done.missing), (Phase::Done, 0));
    // Small bodies of one-sync records are stored with their record.
    assert!(done.copied >= 40 && done.shards >= 20, "{done:?}");
    stop.store(true, Ordering::SeqCst);
    load.await.unwrap();
    let (records, shards) = census_after_load(&rig.sets).await;
    assert!(records >= 40 && shards >= 160, "{records} records, {shards} shards");
    // The new drive and one old one are enough.
    for slot in [2, 3] {
        rig.sets.detach(drive_id(slot, 0));
    }
    check(&rig, 40).await;
    rig.close().await;
}

async fn two_of_four_emptied(one_sync: bool) {
    let rig = Rig::with(2, 2, 1, |o| (o.one_sync, o.orphan_age) = (one_sync, Duration::ZERO)).await;
    fill(&rig, 24).await;
    let stop = Arc::new(AtomicBool::new(false));
    // Reads hold it shared; a moment with too few drives holds it exclusively.
    let enough = Arc::new(tokio::sync::RwLock::new(()));
    let load = {
        let (sets, stop, enough) = (rig.sets.clone(), stop.clone(), enough.clone());
        tokio::spawn(async move {
            let mut reads = 0u64;
            while !stop.load(Ordering::SeqCst) {
                let i = reads % 24;
                let size = [100, 5000, 300_000, 1_200_000][i as usize % 4];
                let _enough = enough.read().await;
                let got = get(&sets, &format!("f{i}")).await;
                assert!(got.expect("reads never fail").unwrap() == noise(i, size));
                reads += 1;
                tokio::task::yield_now().await;
            }
            reads
        })
    };
    rig.put("other", &noise(2, 300_000)).await.unwrap();
    // Half of the drives serve records for which one of them has the hint: every hint has arrived.
    basic::quiet(&rig.sets).await;
    for slot in [2, 3] {
        rig.unplug(slot, 0).await;
    }
    let health = rig.sets.health()[0].clone();
    assert!(health.readable && !health.writable, "{health:?}");
    for size in [10usize, 400_000] {
        let e = rig.put("new", &noise(1, size)).await.unwrap_err();
        assert!(matches!(e, Error::Unavailable(_)), "{e}");
    }
    assert!(matches!(rig.delete("f1").await, Err(Error::Unavailable(_))));
    assert_eq!(rig.get("new").await.unwrap(), None, "half the drives can say so");
    // One more is removed: no answer is possible any more.
    {
        let _few = enough.write().await;
        let d = rig.sets.detach(drive_id(1, 0)).unwrap();
        let alone = rig.sets.read_register(&rig.key("nothing")).await;
        assert!(matches!(alone, Err(Error::Unavailable(_))), "503, never 404: {alone:?}");
        rig.sets.attach(d);
    }
    for slot in [2, 3] {
        rig.format(slot, 1, Role::Joining);
    }
    rig.sets.set_layout(replaced(&rig, &[2, 3])).unwrap();
    rig.plug(2, 1).await;
    let early = rig.sets.rebuild(drive_id(2, 1)).await;
    assert!(matches!(early, Err(Error::Unavailable(_))), "slot 3 might know more: {early:?}");
    rig.plug(3, 1).await;
    for slot in [2, 3] {
        let done = rig.sets.rebuild(drive_id(slot, 1)).await.unwrap();
        assert_eq!((done.phase, done.missing), (Phase::Done, 0), "{done:?}");
    }
    rig.put("new", b"works again").await.unwrap();
    rig.delete("other").await.unwrap();
    rig.put("other", &noise(3, 1_200_000)).await.unwrap();
    stop.store(true, Ordering::SeqCst);
    assert!(load.await.unwrap() > 0);
    let (records, shards) = census_after_load(&rig.sets).await;
    assert_eq!((records, shards), (26, 104));
    for slot in [0, 1] {
        rig.sets.detach(drive_id(slot, 0));
    }
    check(&rig, 24).await;
    assert_eq!(rig.get("new").await.unwrap().unwrap(), b"works again");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_four_emptied_two_syncs() {
    two_of_four_emptied(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_four_emptied_one_sync() {
    two_of_four_emptied(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returning_drive_catches_up() {
    let rig = Rig::new(4, 2).await;
    fill(&rig, 12).await;
    for slot in [4, 5] {
        shut(&rig.sets.detach(drive_id(slot, 0)).unwrap()).await;
    }
    // Written with fewer data shards while two are away.
    for i in 0..12u64 {
        rig.put(&format!("w{i}"), &noise(i, 40_000 + 90_000 * i as usize)).await.unwrap();
    }
    rig.put("f0", b"changed").await.unwrap();
    rig.delete("f1").await.unwrap();
    let r = rig.sets.read_register(&rig.key("w3")).await.unwrap().unwrap();
    assert_eq!(r.record.data().next().unwrap().data.k, 3);
    for slot in [4, 5] {
        rig.plug(slot, 0).await;
    }
    // Nothing stale is ever returned, healed or not.
    assert_eq!(rig.get("f0").await.unwrap().unwrap(), b"changed");
    assert_eq!(rig.get("f1").await.unwrap(), None);
    let page = rig.sets.list(Space::Object, BUCKET, b"", b"", 100).await.unwrap();
    assert_eq!(page.entries.len(), 23);
    let s = rig.sets.scrub(false).await.unwrap();
    assert!(s.healed.records >= 14 && s.healed.lost == 0, "{s:?}");
    rig.sets.heal_queued().await;
    rig.sets.inner.purge_tombstones(Duration::ZERO);
    let r = rig.sets.read_register(&rig.key("w3")).await.unwrap().unwrap();
    let data = r.record.data().next().unwrap().data;
    assert_eq!((data.k, data.durable), (4, 0b11_1111), "back to full width");
    // Old shards of keys that changed while they were away are orphans there.
    let s = rig.sets.scrub(true).await.unwrap();
    assert!(s.orphans > 0 && s.dropped == 0, "too young: {s:?}");
    for slot in [0, 1] {
        rig.sets.detach(drive_id(slot, 0));
    }
    for i in 0..12u64 {
        let want = noise(i, 40_000 + 90_000 * i as usize);
        assert!(rig.get(&format!("w{i}")).await.unwrap().unwrap() == want, "w{i}");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_orphans_are_collected() {
    let rig = Rig::with(2, 2, 1, |o| {
        o.orphan_age = Duration::ZERO;
        o.one_sync = false;
    })
    .await;
    fill(&rig, 8).await;
    // Coordinators that crashed after staging, for a new key and for an old one.
    for name in ["never", "f1"] {
        for size in [2000u64, 500_000] {
            let key = rig.key(name);
            let mut w = rig.sets.write(&key, size).await.unwrap();
            w.write(noise(9, size as usize)).await.unwrap();
            let staged = w.finish().await.unwrap();
            rig.sets.inner.gate.set(Some((u64::MAX, 0)));
            let done = rig
                .sets
                .update_register::<(), ()>(&key, &[&staged], |_| {
                    let body = body(size, Some(staged.data()));
                    Decision::Write { body, summary: summary(size), moved: false, out: () }
                })
                .await;
            rig.sets.inner.gate.set(None);
            assert!(done.is_err());
            staged.keep();
        }
    }
    // One that is still being written.
    let mut live = rig.sets.write(&rig.key("live"), 600_000).await.unwrap();
    live.write(noise(5, 600_000)).await.unwrap();
    let live = live.finish().await.unwrap();
    let s = rig.sets.scrub(true).await.unwrap();
    assert_eq!(s.healed.lost, 0);
    assert!(s.dropped >= 4, "{s:?}");
    let key = rig.key("live");
    rig.sets
        .update_register::<(), ()>(&key, &[&live], |_| {
            let body = body(600_000, Some(live.data()));
            Decision::Write { body, summary: summary(600_000), moved: false, out: () }
        })
        .await
        .unwrap();
    drop(live);
    check(&rig, 8).await;
    assert!(rig.get("live").await.unwrap().unwrap() == noise(5, 600_000));
    assert_eq!(rig.get("never").await.unwrap(), None);
    rig.sets.scrub(true).await.unwrap();
    rig.sets.inner.purge_tombstones(Duration::ZERO);
    assert_eq!(census(&rig.sets).await, (9, 36));
    rig.close().await;
}

/// A shard that arrives after its body was replaced by a one-sync record, which keeps what it replaced with it, is
/// collected although the key is not written again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_that_a_replaced_record_named_are_collected() {
    let rig = Rig::with(2, 2, 1, |o| (o.sole, o.orphan_age) = (false, Duration::ZERO)).await;
    rig.put("k", &noise(1, 2000)).await.unwrap();
    let key = rig.key("k");
    let first = rig.sets.read_register(&key).await.unwrap().unwrap();
    let data = first.record.data().next().unwrap().data;
    rig.put("k", &noise(2, 2000)).await.unwrap();
    basic::quiet(&rig.sets).await;
    let view = rig.sets.inner.view(key.group()).unwrap();
    let member = view.member(3).unwrap();
    let seen = member.read(&key, true, view.epoch).await.unwrap().accepted.unwrap();
    let stored = crate::stored::Stored::parse(&seen.record.unwrap()).unwrap();
    assert!(stored.one_sync_record.is_some_and(|of| !of.parent.is_none()), "the replaced record is kept");
    let tally = ashlar_drive::Tally::new(1);
    let shard = ashlar_drive::InlineShard {
        owner: key.clone(),
        write_id: data.write_id,
        index: data.shard_of(3),
        ballot: first.ballot,
        epoch: view.epoch,
        data: noise(3, 1000).into(),
    };
    member.drive.stage(shard, tally.completion(0));
    assert_eq!(tally.wait_all().await.ok, 1);
    assert!(count(&rig.sets).await.is_err(), "it has arrived");
    let (records, shards) = census_after_load(&rig.sets).await;
    assert_eq!((records, shards), (1, 4));
    rig.close().await;
}

/// An upload whose client disconnected while its shards were being made durable. Drives that were still
/// writing keep theirs; no search is needed for them, and bytes in use decrease again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_of_interrupted_upload_are_collected() {
    let rig = Rig::with(2, 2, 1, |o| o.orphan_age = Duration::ZERO).await;
    fill(&rig, 4).await;
    let live = |rig: &Rig| -> u64 { rig.sets.drives().iter().map(|d| d.stats().extent_live).sum() };
    for d in rig.sets.drives() {
        d.tidy().unwrap();
    }
    let before = live(&rig);
    for i in 0..20u64 {
        let mut w = rig.sets.write(&rig.key(&format!("cut{i}")), 700_000).await.unwrap();
        w.write(noise(i, 700_000)).await.unwrap();
        // The client disconnects.
        let _ = tokio::time::timeout(Duration::from_micros(i * 40), w.finish()).await;
    }
    let began = std::time::Instant::now();
    loop {
        rig.sets.inner.collect_abandoned().await;
        for d in rig.sets.drives() {
            d.tidy().unwrap();
        }
        if live(&rig) == before && rig.sets.inner.scrub.abandoned_now() == 0 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{} of {before} bytes in use", live(&rig));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    check(&rig, 4).await;
    for d in rig.sets.drives() {
        assert_eq!((d.audit().unwrap(), d.stats().miscounts), (vec![], 0));
    }
    rig.close().await;
}

/// A killed process leaves shards that no record names; the next process finds them automatically.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_of_killed_process_are_collected() {
    let age = |o: &mut Options| {
        o.orphan_age = Duration::from_millis(200);
        o.scrub_every = Duration::from_secs(4);
    };
    let mut rig = Rig::with(2, 2, 1, age).await;
    fill(&rig, 4).await;
    for i in 0..6u64 {
        let mut w = rig.sets.write(&rig.key(&format!("cut{i}")), 700_000).await.unwrap();
        w.write(noise(i, 700_000)).await.unwrap();
        // As if the process ended here: they are not dropped.
        w.finish().await.unwrap().keep();
    }
    rig.sets.inner.scrub.forget_abandoned();
    rig.restart(|_| 0).await;
    rig.sets.start();
    let began = std::time::Instant::now();
    loop {
        let mut shards = 0;
        for d in rig.sets.drives() {
            shards += d
                .shards(None, 10_000)
                .await
                .unwrap()
                .iter()
                .filter(|s| (340_000..360_000).contains(&s.len))
                .count();
        }
        if shards == 0 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{shards} shards are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    check(&rig, 4).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_rebuild_restarts() {
    let mut rig = Rig::new(2, 2).await;
    fill(&rig, 16).await;
    rig.unplug(0, 0).await;
    rig.format(0, 1, Role::Joining);
    rig.layout = replaced(&rig, &[0]);
    rig.sets.set_layout(rig.layout.clone()).unwrap();
    let d = rig.plug(0, 1).await;
    // Interrupted several times.
    for us in [50, 500, 3000] {
        let cut = Duration::from_micros(us);
        let _ = tokio::time::timeout(cut, rig.sets.rebuild(drive_id(0, 1))).await;
    }
    drop(d);
    rig.restart(|s| u8::from(s == 0)).await;
    rig.sets.start();
    let began = std::time::Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let d = rig.sets.drives().into_iter().find(|d| d.label().drive == drive_id(0, 1)).unwrap();
        if !d.joins() && d.shards(None, 1000).await.unwrap().len() == 16 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", rig.sets.rebuilds());
    }
    rig.sets.stop().await;
    assert_eq!(census(&rig.sets).await, (16, 64));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_drive_is_filled_by_responsible_node() {
    let duties = ashlar_duties::Duties::alone(1);
    let mut rig = Rig::with(2, 2, 1, |o| o.duties = duties.clone()).await;
    rig.put("k", &[1; 5000]).await.unwrap();
    duties.set_nodes([2]);
    rig.unplug(3, 0).await;
    rig.layout = replaced(&rig, &[3]);
    rig.sets.set_layout(rig.layout.clone()).unwrap();
    rig.format(3, 1, Role::Joining);
    let drive = rig.plug(3, 1).await;
    rig.sets.start();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(drive.joins(), "node 2 fills it");
    duties.set_nodes([1]);
    for _ in 0..600 {
        if !drive.joins() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(drive.role(GroupId::default()), Some(Role::Voter));
    rig.close().await;
}
