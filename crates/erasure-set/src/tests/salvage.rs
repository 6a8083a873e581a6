//! More drives of a group are distrusted than the others can fill.

use super::*;
use crate::Showing;

/// Removes the drives of slots 0 to 2 as a crash does (nothing is flushed), changes their journals, and attaches
/// them again.
async fn damage(rig: &Rig, at: &[u8]) {
    for slot in 0..3 {
        drop(rig.sets.detach(drive_id(slot, 0)));
    }
    for slot in 0..3 {
        let mut hits = 0;
        for entry in std::fs::read_dir(rig.path(slot, 0).join("journal")).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            // The data, the record, the hint: all that names the key.
            let places: Vec<usize> = (0..bytes.len()).filter(|i| bytes[*i..].starts_with(at)).collect();
            places.iter().for_each(|i| bytes[*i] ^= 1);
            hits += places.len();
            std::fs::write(&path, bytes).unwrap();
        }
        assert!(hits > 0, "slot {slot}");
    }
    // None is in service before all are damaged: a single one would be filled by the others.
    let mut drives = Vec::new();
    for slot in 0..3 {
        drives.push(rig.open(slot, 0).await);
    }
    for drive in drives {
        assert!(!drive.votes(), "{:?}", drive.damage());
        rig.sets.attach(drive);
    }
}

/// Drives with a checkpoint, so that the next one is a minute away.
async fn checkpointed(groups: u16) -> Rig {
    let rig = Rig::with(2, 2, groups, |o| o.sole = false).await;
    rig.put("first", b"so that a checkpoint is made").await.unwrap();
    for slot in 0..4 {
        while !rig.path(slot, 0).join("index/manifest").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    rig
}

/// One flipped bit in three of four journals: nothing is served automatically; after an operator's order the
/// newest record that verifies anywhere is served, and uncertain keys are reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_of_four_damaged_journals_are_salvaged() {
    let rig = checkpointed(2).await;
    for i in 0..40 {
        rig.put(&format!("key-{i:02}"), &noise(i, 300)).await.unwrap();
    }
    basic::quiet(&rig.sets).await;
    assert!(!rig.sets.needs_salvage() && rig.sets.salvage(true).await.is_err(), "nothing to recover from");
    damage(&rig, b"key-17").await;
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

/// With many groups a group has few keys: what is damaged on three drives may be all that they had of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drives_that_lost_their_only_record_are_salvaged() {
    let rig = checkpointed(64).await;
    rig.put("alone", &noise(17, 300)).await.unwrap();
    // The last batch of a journal may be torn, so damage to it is none.
    let group = rig.key("alone").group();
    assert_ne!(rig.key("first").group(), group);
    let others: Vec<_> =
        (0..20).map(|i| format!("key-{i}")).filter(|k| rig.key(k).group() != group).collect();
    for key in &others {
        rig.put(key, b"elsewhere").await.unwrap();
    }
    basic::quiet(&rig.sets).await;
    damage(&rig, b"alone").await;
    assert!(matches!(rig.get("alone").await, Err(Error::Unavailable(_))));
    rig.sets.set_layout(in_epoch(&rig.sets.layout(), 2)).unwrap();
    let done = rig.sets.salvage(true).await.unwrap();
    assert_eq!((done.registers, done.drives.len()), (2 + others.len() as u64, 3));
    let named: Vec<_> = done.named.iter().map(|u| &u.key).collect();
    assert!(named.contains(&&rig.key("alone")), "only one drive shows it: {done:?}");
    assert_eq!(rig.get("alone").await.unwrap().unwrap(), noise(17, 300));
    rig.close().await;
}

/// A drive that never voted and holds nothing says nothing about what was chosen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_drive_and_three_blank_ones_are_not_salvaged() {
    let rig = Rig::with(2, 2, 2, |o| o.sole = false).await;
    rig.put("key", &noise(17, 300)).await.unwrap();
    basic::quiet(&rig.sets).await;
    for slot in 0..3 {
        rig.unplug(slot, 0).await;
        rig.format(slot, 1, Role::Joining);
    }
    rig.sets.set_layout(join::replaced(&rig, &[0, 1, 2])).unwrap();
    for slot in 0..3 {
        rig.plug(slot, 1).await;
    }
    let refused = rig.sets.salvage(true).await.unwrap_err();
    assert!(refused.to_string().contains("less than half"), "{refused}");
    rig.close().await;
}
