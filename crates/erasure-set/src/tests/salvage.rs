//! More drives of a group are distrusted than the others can fill.

use super::*;
use crate::Showing;

/// Removes a drive as a crash does (nothing is flushed), changes its journal, and attaches it again.
async fn damage(rig: &Rig, slot: u8, at: &[u8]) {
    drop(rig.sets.detach(drive_id(slot, 0)));
    let mut hit = 0;
    for entry in std::fs::read_dir(rig.path(slot, 0).join("journal")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(found) = bytes.windows(at.len()).position(|w| w == at) {
            bytes[found] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            hit += 1;
            break;
        }
    }
    assert_eq!(hit, 1, "slot {slot}");
    let drive = rig.plug(slot, 0).await;
    assert!(!drive.votes(), "slot {slot}: {:?}", drive.damage());
}

/// One flipped bit in three of four journals: nothing is served automatically; after an operator's order the
/// newest record that verifies anywhere is served, and uncertain keys are reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_of_four_damaged_journals_are_salvaged() {
    let rig = Rig::with(2, 2, 2, |o| o.sole = false).await;
    rig.put("first", b"so that a checkpoint is made").await.unwrap();
    for slot in 0..4 {
        while !rig.path(slot, 0).join("index/manifest").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    for i in 0..40 {
        rig.put(&format!("key-{i:02}"), &noise(i, 300)).await.unwrap();
    }
    basic::quiet(&rig.sets).await;
    assert!(!rig.sets.needs_salvage() && rig.sets.salvage(true).await.is_err(), "nothing to recover from");
    for slot in 0..3 {
        damage(&rig, slot, b"key-17").await;
    }
    assert!(matches!(rig.get("key-03").await, Err(Error::Unavailable(_))));
    assert!(rig.sets.needs_salvage());
    let dry = rig.sets.salvage(false).await.unwrap();
    assert!(matches!(rig.get("key-03").await, Err(Error::Unavailable(_))), "a dry run changes nothing");
    let layout = in_epoch(&rig.sets.layout(), 2);
    rig.sets.set_layout(layout).unwrap();
    let done = rig.sets.salvage(true).await.unwrap();
    assert_eq!((done.registers, done.uncertain, done.drives.len()), (41, dry.uncertain, 3));
    assert!(done.copied >= 3 && done.uncertain < 15, "{done:?}");
    let named = done.named.iter().find(|u| u.key == rig.key("key-17")).expect("it is named");
    assert!(named.kept.is_some());
    assert_eq!(named.shown.len(), 4);
    for (drive, shows) in &named.shown {
        assert_eq!(matches!(shows, Showing::Record(_)), *drive == drive_id(3, 0), "{named:?}");
    }
    for i in 0..40 {
        assert!(rig.get(&format!("key-{i:02}")).await.unwrap().unwrap() == noise(i, 300), "key-{i:02}");
    }
    rig.put("after", b"writes work").await.unwrap();
    assert!(!rig.sets.needs_salvage());
    // Any two drives show all of it now.
    let healed = rig.sets.scrub(true).await.unwrap();
    assert_eq!(healed.healed.lost, 0, "{healed:?}");
    for lost in [[2, 3], [0, 3], [0, 1]] {
        let away: Vec<Drive> = lost.iter().filter_map(|s| rig.sets.detach(drive_id(*s, 0))).collect();
        for i in 0..40 {
            assert!(rig.get(&format!("key-{i:02}")).await.unwrap().is_some(), "key-{i:02} without {lost:?}");
        }
        for drive in away {
            rig.sets.attach(drive);
        }
    }
    rig.close().await;
}
