//! Lists of versions in pages: what pages name is healed, rebuilt and kept like what records name, and goes
//! when nothing names it any more.

use super::*;
use ashlar_commit::version_list::{Bounds, Need, Pages, Plan, Window, change, next_leaf, spill};
use ashlar_format::VersionId;

const BOUNDS: Bounds = Bounds { head: 2, keep: 1, leaf: 6, fan: 2, ..Bounds::STANDARD };

/// Makes a plan, writes its pages, and the record with them.
async fn carry_out(
    sets: &Sets,
    key: &RegisterKey,
    body: Option<&crate::Staged>,
    plan: impl Fn(&Body, &Pages) -> std::result::Result<Option<Plan>, Need>,
) {
    let old = sets.read_register(key).await.unwrap().map_or(Body::Tombstone, |r| r.record.body.clone());
    let mut pages = Pages::default();
    let plan = loop {
        match plan(&old, &pages) {
            Ok(Some(plan)) => break plan,
            Ok(None) => return,
            Err(Need(refs)) => {
                for r in refs {
                    pages.insert(r.page.data.write_id, sets.read_page(key, &r).await.unwrap());
                }
            }
        }
    };
    let (mut written, mut staged) = (Vec::new(), Vec::new());
    for i in 0..plan.pages() {
        let bytes = plan.page(i, &written).encode();
        let mut w = sets.write(key, bytes.len() as u64).await.unwrap();
        w.write(&bytes).await.unwrap();
        let page = w.finish().await.unwrap();
        written.push((page.data(), bytes.len() as u64));
        staged.push(page);
    }
    if body.is_none() {
        // As a spill does.
        sets.stage(key, staged.iter_mut().collect()).await.unwrap();
    }
    let below: Vec<_> = written.iter().map(|(d, _)| d.write_id).collect();
    let refs: Vec<_> = staged.iter().chain(body).collect();
    let done = sets
        .update_register::<(), ()>(key, &refs, |base| {
            assert_eq!(base.map_or(&Body::Tombstone, |r| &r.body), &old);
            let (body, dropped, below) = (plan.body(&written), plan.dropped.clone(), below.clone());
            Decision::Rewrite { body, summary: summary(1), dropped, below, out: () }
        })
        .await;
    done.unwrap();
}

/// A new version, and a spill if the head is long.
async fn add(sets: &Sets, key: &RegisterKey, n: u64, size: usize) {
    let mut w = sets.write(key, size as u64).await.unwrap();
    w.write(noise(n, size)).await.unwrap();
    let staged = w.finish().await.unwrap();
    let Body::Versions(mut new) = body(size as u64, Some(staged.data())) else { unreachable!() };
    new[0].id = VersionId([n as u8; 16]);
    carry_out(sets, key, Some(&staged), |body, pages| {
        let window = Window::of(body, pages, &[])?;
        let list = new.iter().chain(window.versions()).cloned().collect();
        change(body, &window, list, pages, &BOUNDS).map(Some)
    })
    .await;
    carry_out(sets, key, None, |body, pages| spill(body, pages, &BOUNDS)).await;
}

async fn remove(sets: &Sets, key: &RegisterKey, n: u64) {
    let id = VersionId([n as u8; 16]);
    carry_out(sets, key, None, |body, pages| {
        let window = Window::of(body, pages, &[id])?;
        let list = window.versions().iter().filter(|v| v.id != id).cloned().collect();
        change(body, &window, list, pages, &BOUNDS).map(Some)
    })
    .await;
}

/// All versions, newest first.
async fn all(sets: &Sets, key: &RegisterKey) -> Vec<Version> {
    let Some(r) = sets.read_register(key).await.unwrap() else { return Vec::new() };
    let mut all = r.record.body.newest().to_vec();
    let Some(below) = r.record.body.below() else { return all };
    let (mut pages, mut before) = (Pages::default(), below.next);
    loop {
        match next_leaf(below, &pages, before) {
            Ok(None) => return all,
            Ok(Some(leaf)) => {
                before = leaf.last().unwrap().position;
                all.extend(leaf.iter().map(|e| e.version.clone()));
            }
            Err(Need(refs)) => {
                for r in refs {
                    pages.insert(r.page.data.write_id, sets.read_page(key, &r).await.unwrap());
                }
            }
        }
    }
}

const SIZES: [usize; 3] = [700, 40_000, 300_000];

async fn check(sets: &Sets, key: &RegisterKey, want: &[u64]) {
    let list = all(sets, key).await;
    let ids: Vec<u64> = list.iter().map(|v| u64::from(v.id.0[0])).collect();
    assert_eq!(ids, want);
    for v in &list {
        let n = u64::from(v.id.0[0]);
        assert!(read_all(sets, key, v).await.unwrap() == noise(n, SIZES[n as usize % 3]), "version {n}");
    }
}

/// No page is known but from the drives.
fn forget(sets: &Sets) {
    sets.inner.pages.forget();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_named_by_pages_is_rebuilt_and_kept() {
    let rig = Rig::with(2, 2, 1, |o| o.orphan_age = Duration::ZERO).await;
    let key = rig.key("k");
    for n in 1..=30 {
        add(&rig.sets, &key, n, SIZES[n as usize % 3]).await;
    }
    for n in [30, 3, 11, 12] {
        remove(&rig.sets, &key, n).await;
    }
    let want: Vec<u64> = (1..30).rev().filter(|n| ![3, 11, 12].contains(n)).collect();
    check(&rig.sets, &key, &want).await;
    basic::quiet(&rig.sets).await;
    let (records, shards) = join::census(&rig.sets).await;
    assert!(records == 1 && shards > want.len() * 4, "{records} records, {shards} shards");
    // A full pass finds nothing to drop and nothing to heal.
    forget(&rig.sets);
    let s = rig.sets.scrub(true).await.unwrap();
    assert_eq!((s.orphans, s.healed.shards, s.healed.lost), (0, 0, 0), "{s:?}");
    assert_eq!(join::census(&rig.sets).await, (records, shards));

    // A blank drive gets everything, and with one old drive is enough.
    forget(&rig.sets);
    rig.unplug(1, 0).await;
    rig.format(1, 1, Role::Joining);
    rig.sets.set_layout(join::replaced(&rig, &[1])).unwrap();
    rig.plug(1, 1).await;
    let done = rig.sets.rebuild(drive_id(1, 1)).await.unwrap();
    assert_eq!(done.missing, 0);
    basic::quiet(&rig.sets).await;
    assert_eq!(join::census(&rig.sets).await, (records, shards));
    forget(&rig.sets);
    for slot in [2, 3] {
        rig.sets.detach(drive_id(slot, 0));
    }
    check(&rig.sets, &key, &want).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_named_by_no_page_is_removed() {
    let rig = Rig::with(2, 2, 1, |o| {
        o.orphan_age = Duration::ZERO;
        o.one_sync = false;
    })
    .await;
    let key = rig.key("k");
    for n in 1..=12 {
        add(&rig.sets, &key, n, SIZES[n as usize % 3]).await;
    }
    basic::quiet(&rig.sets).await;
    let before = join::census(&rig.sets).await;
    // A coordinator that died after it staged a page: nothing names it.
    let mut w = rig.sets.write(&key, 900).await.unwrap();
    w.write(noise(9, 900)).await.unwrap();
    let orphan = w.finish().await.unwrap();
    rig.sets.inner.gate.set(Some((u64::MAX, 0)));
    let done = rig
        .sets
        .update_register::<(), ()>(&key, &[&orphan], |base| {
            let (body, below) = (base.unwrap().body.clone(), vec![orphan.data().write_id]);
            Decision::Rewrite { body, summary: summary(1), dropped: Vec::new(), below, out: () }
        })
        .await;
    rig.sets.inner.gate.set(None);
    assert!(done.is_err());
    orphan.keep();
    drop(orphan);
    forget(&rig.sets);
    let s = rig.sets.scrub(true).await.unwrap();
    assert!(s.dropped >= 1, "{s:?}");
    basic::quiet(&rig.sets).await;
    assert_eq!(join::census(&rig.sets).await, before);
    // A reader that still has a version of a page which is gone is told so.
    let old = all(&rig.sets, &key).await.pop().unwrap();
    remove(&rig.sets, &key, 1).await;
    join::census(&rig.sets).await;
    assert_eq!(read_all(&rig.sets, &key, &old).await, Err(Error::Superseded));
    // Everything goes, one version after another.
    for n in 2..=12 {
        remove(&rig.sets, &key, n).await;
    }
    assert!(all(&rig.sets, &key).await.is_empty());
    basic::quiet(&rig.sets).await;
    rig.sets.inner.purge_tombstones(Duration::ZERO);
    assert_eq!(join::census(&rig.sets).await, (0, 0));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_may_be_staged_before_its_update() {
    let rig = Rig::with(2, 2, 1, |o| o.orphan_age = Duration::ZERO).await;
    let key = rig.key("k");
    add(&rig.sets, &key, 1, SIZES[1]).await;
    basic::quiet(&rig.sets).await;
    let before = join::census(&rig.sets).await;
    let mut staged = Vec::new();
    for n in [2, 3] {
        let mut w = rig.sets.write(&key, 900).await.unwrap();
        w.write(noise(n, 900)).await.unwrap();
        staged.push(w.finish().await.unwrap());
    }
    rig.sets.stage(&key, staged.iter_mut().collect()).await.unwrap();
    // The collector does not touch them.
    let s = rig.sets.scrub(true).await.unwrap();
    assert_eq!((s.orphans, s.dropped), (0, 0), "{s:?}");
    // The update sends no shard of the one that it names.
    rig.sets.inner.gate.set(Some((0, u64::MAX)));
    let named: Vec<_> = staged.iter().collect();
    let data = staged[0].data();
    let done = rig
        .sets
        .update_register::<(), ()>(&key, &named, |base| {
            let Body::Versions(new) = body(900, Some(data)) else { unreachable!() };
            let Body::Versions(old) = &base.unwrap().body else { unreachable!() };
            let body = Body::Versions(new.into_iter().chain(old.iter().cloned()).collect());
            Decision::Write { body, summary: summary(1), moved: false, out: () }
        })
        .await;
    rig.sets.inner.gate.set(None);
    done.unwrap();
    // What was named stays, the rest goes.
    drop(staged);
    basic::quiet(&rig.sets).await;
    assert_eq!(join::census(&rig.sets).await, (before.0, before.1 + 4));
    let newest = all(&rig.sets, &key).await.remove(0);
    assert!(read_all(&rig.sets, &key, &newest).await.unwrap() == noise(2, 900));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_reads_one_record_at_most() {
    let rig = Rig::new(2, 2).await;
    let reads = || rig.sets.inner.table.load().members.values().map(|m| m.drive.stats().reads).sum::<u64>();
    let mut round = 1;
    for (forget, expected) in [(false, 0), (true, 1)] {
        let mut fewest = u64::MAX;
        // A drive that a busy machine delays is asked again and reads its record: only the usual case costs this little.
        for _ in 0..50 {
            rig.put("k", &noise(round, 700)).await.unwrap();
            basic::quiet(&rig.sets).await;
            if forget {
                rig.sets.inner.cache.forget(ashlar_checksum::key_hash(rig.key("k").as_bytes()));
            }
            let before = reads();
            rig.put("k", &noise(round + 1, 700)).await.unwrap();
            fewest = fewest.min(reads() - before);
            round += 2;
            if fewest <= expected {
                break;
            }
        }
        // A record that is not kept is read on one drive; the others have the same.
        assert_eq!(fewest, expected, "forgotten: {forget}");
        assert_eq!(rig.get("k").await.unwrap().unwrap(), noise(round - 1, 700));
    }
    rig.close().await;
}
