//! A drive goes back in time: it is replaced by an older image of itself.
//!
//! Invariant of the tests: nothing that was deleted and purged in the meantime ever reappears.

use super::basic::quiet;
use super::matrix::copy;
use super::*;

const KEYS: u8 = 16;

/// Purges the tombstones that wait in this process; returns whether no drive shows a register any more.
pub(crate) async fn purged(sets: &Sets) -> bool {
    quiet(sets).await;
    while sets.inner.purge_tombstones(Duration::ZERO) > 0 {}
    let mut none = true;
    for d in sets.drives() {
        d.flush().await.unwrap();
        none &= d.scan(&[], &[0xff], 100, 1).await.unwrap().is_empty();
    }
    none
}

fn name(i: u8) -> String {
    format!("k{i:02}")
}

/// A rig in which the drive of `slot` is in its state from before every key was deleted and purged.
async fn gone_back(k: u8, m: u8, slot: u8) -> Rig {
    let rig = Rig::new(k, m).await;
    for i in 0..KEYS {
        rig.put(&name(i), &noise(u64::from(i), 200 + 90_000 * usize::from(i % 2))).await.unwrap();
    }
    quiet(&rig.sets).await;
    for d in rig.sets.drives() {
        d.flush().await.unwrap();
    }
    rig.unplug(slot, 0).await;
    let image = rig.path(slot, 99);
    copy(&rig.path(slot, 0), &image);
    rig.plug(slot, 0).await;
    for i in 0..KEYS {
        rig.delete(&name(i)).await.unwrap();
    }
    let began = std::time::Instant::now();
    while !purged(&rig.sets).await {
        assert!(began.elapsed() < Duration::from_secs(60), "all purged");
        // The tombstone of a key whose drive was late stays until the key is read.
        rig.sets.scrub(false).await.unwrap();
    }
    rig.unplug(slot, 0).await;
    std::fs::remove_dir_all(rig.path(slot, 0)).unwrap();
    copy(&image, &rig.path(slot, 0));
    rig
}

async fn all_deleted(rig: &Rig, at: &str) {
    let list = rig.sets.list(Space::Object, BUCKET, b"", b"", 100).await.unwrap();
    assert!(list.entries.is_empty(), "{at}: {} are listed", list.entries.len());
    for i in 0..KEYS {
        assert!(rig.get(&name(i)).await.unwrap().is_none(), "{at}: {}", name(i));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drive_rollback_restores_no_purged_delete() {
    for (k, m) in [(2, 2), (4, 2)] {
        for slot in [0, 1, k + m - 1] {
            let mut rig = gone_back(k, m, slot).await;
            // The rollback is not detected: only the horizon protects.
            rig.plug(slot, 0).await;
            let at = format!("{k}+{m}, slot {slot}");
            all_deleted(&rig, &at).await;
            // If-None-Match: * finds nothing.
            for i in 0..4 {
                let name = name(i);
                let free = |r: Option<&Record>| r.is_none_or(|r| r.body == Body::Tombstone);
                let made = put_if(&rig.sets, &name, b"new", free);
                assert!(made.await.unwrap().is_some(), "{at}: {name} exists");
                rig.delete(&name).await.unwrap();
            }
            rig.sets.scrub(false).await.unwrap();
            rig.sets.heal_queued().await;
            all_deleted(&rig, &format!("{at}, looked at")).await;
            // Not even if another drive is away.
            rig.unplug((slot + 1) % (k + m), 0).await;
            all_deleted(&rig, &format!("{at}, one away")).await;
            rig.restart(|_| 0).await;
            all_deleted(&rig, &format!("{at}, restarted")).await;
            rig.close().await;
        }
    }
}

/// The rollback is detected: the drive joins, and keeps nothing that its peers do not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolled_back_drive_joins() {
    for (k, m) in [(2, 2), (4, 2), (2, 1)] {
        for slot in [0, k + m - 1] {
            let mut rig = gone_back(k, m, slot).await;
            let drive = rig.open(slot, 0).await;
            drive
                .set_joining(&drive.held().into_iter().map(|(g, _)| (g, u32::MAX)).collect::<Vec<_>>())
                .await
                .unwrap();
            rig.layout = in_epoch(&rig.layout, rig.layout.epoch + 1);
            rig.sets.set_layout(rig.layout.clone()).unwrap();
            rig.sets.attach(drive.clone());
            let at = format!("{k}+{m}, slot {slot}");
            all_deleted(&rig, &at).await;
            rig.sets.rebuild(drive.label().drive).await.unwrap();
            assert!(!drive.joins());
            all_deleted(&rig, &at).await;
            let left = drive.scan(&[], &[0xff], 100, 9).await.unwrap();
            assert!(left.is_empty(), "{at}: it kept {} records", left.len());
            // With as few other drives as possible.
            rig.unplug((slot + 1) % (k + m), 0).await;
            all_deleted(&rig, &format!("{at}, one away")).await;
            rig.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_image_has_older_sequence() {
    let rig = Rig::new(2, 2).await;
    rig.put("a", b"one").await.unwrap();
    quiet(&rig.sets).await;
    rig.unplug(0, 0).await;
    copy(&rig.path(0, 0), &rig.path(0, 99));
    let drive = rig.plug(0, 0).await;
    let then = drive.opened_sequence();
    assert!(then > 0);
    rig.put("b", b"two").await.unwrap();
    drive.flush().await.unwrap();
    let noted = drive.sequence();
    assert!(noted > then);
    drop(drive);
    rig.unplug(0, 0).await;
    let again = rig.open(0, 0).await;
    assert!(again.opened_sequence() >= noted, "nothing is lost by closing and opening");
    shut(&again).await;
    drop(again);
    std::fs::remove_dir_all(rig.path(0, 0)).unwrap();
    copy(&rig.path(0, 99), &rig.path(0, 0));
    let old = rig.open(0, 0).await;
    assert!(old.opened_sequence() < noted);
    shut(&old).await;
    rig.close().await;
}
