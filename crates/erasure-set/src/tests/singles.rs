//! T10, single faults: a drive that is offline, blank, foreign, read-only, failing reads, failing writes,
//! full, slow or flapping makes no read and no write fail. (Pairs of faults: `faults`.)

use super::join::replaced;
use super::*;
use ashlar_machine::{Fault, Operation};
use std::sync::atomic::{AtomicBool, Ordering};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

#[derive(Clone, Copy, Debug, PartialEq)]
enum DriveFault {
    Offline,
    Blank,
    Foreign,
    ReadOnly,
    ReadErrors,
    WriteErrors,
    FlushErrors,
    Full,
    Slow,
    Flapping,
}

impl DriveFault {
    const ALL: [DriveFault; 10] = [
        DriveFault::Offline,
        DriveFault::Blank,
        DriveFault::Foreign,
        DriveFault::ReadOnly,
        DriveFault::ReadErrors,
        DriveFault::WriteErrors,
        DriveFault::FlushErrors,
        DriveFault::Full,
        DriveFault::Slow,
        DriveFault::Flapping,
    ];
}

/// Injects a fault into `slot`. Returns a permanent fault, to be ended.
async fn inject(
    fault: DriveFault,
    rig: &Rig,
    slot: u8,
) -> Option<(Arc<AtomicBool>, tokio::task::JoinHandle<u32>)> {
    let f = rig.faults[usize::from(slot)].clone();
    match fault {
        DriveFault::Offline => rig.unplug(slot, 0).await,
        DriveFault::Blank => {
            rig.unplug(slot, 0).await;
            rig.format(slot, 1, Role::Joining);
            rig.sets.set_layout(replaced(rig, &[slot])).unwrap();
            rig.plug(slot, 1).await;
        }
        DriveFault::Foreign => {
            // Its folder holds a drive of another deployment, under an id that no slot has, and its other
            // content belongs to others.
            rig.unplug(slot, 0).await;
            let path = rig.path(slot, 9);
            std::fs::create_dir_all(&path).unwrap();
            let (deployment, drive) = (DeploymentId([0xee; 16]), drive_id(slot, 9));
            ashlar_drive::format(
                &path,
                &Label { deployment, drive, created_ms: 1 },
                &[(GroupId::default(), Role::Voter)],
            )
            .unwrap();
            rig.plug(slot, 9).await;
        }
        DriveFault::ReadOnly => f.set(Operation::Write, Fault::Error(EROFS)),
        DriveFault::ReadErrors => f.set(Operation::Read, Fault::Error(EIO)),
        DriveFault::WriteErrors => f.set(Operation::Write, Fault::Error(EIO)),
        DriveFault::FlushErrors => f.set(Operation::Sync, Fault::Error(EIO)),
        DriveFault::Full => f.set(Operation::Allocate, Fault::Error(ENOSPC)),
        // A hundred times the latency of a flash drive.
        DriveFault::Slow => {
            f.set(Operation::Read, Fault::Delay(Duration::from_millis(10)));
            f.set(Operation::Sync, Fault::Delay(Duration::from_millis(50)));
        }
        DriveFault::Flapping => {
            let (stop, sets) = (Arc::new(AtomicBool::new(false)), rig.sets.clone());
            let task = tokio::spawn({
                let stop = stop.clone();
                async move {
                    let (mut dice, mut flaps) = (Dice::new(u64::from(slot) + 1), 0);
                    while !stop.load(Ordering::SeqCst) {
                        let d = sets.detach(drive_id(slot, 0)).unwrap();
                        tokio::time::sleep(Duration::from_millis(dice.roll(6))).await;
                        sets.attach(d);
                        flaps += 1;
                        tokio::time::sleep(Duration::from_millis(1 + dice.roll(6))).await;
                    }
                    flaps
                }
            });
            return Some((stop, task));
        }
    }
    None
}

async fn single(k: u8, m: u8, fault: DriveFault, slot: u8) {
    let rig = Rig::with(k, m, 1, |o| o.sole = false).await;
    let sizes = [0usize, 10, 20_000, 700_000];
    for (i, size) in sizes.into_iter().enumerate() {
        rig.put(&format!("old{i}"), &noise(i as u64, size)).await.unwrap();
    }
    let flapping = inject(fault, &rig, slot).await;
    let rounds = if fault == DriveFault::Flapping { 12 } else { 3 };
    for round in 0..rounds {
        for (i, size) in sizes.into_iter().enumerate() {
            let what = format!("{k}+{m}, drive {slot} {fault:?}, {size} bytes, round {round}");
            let got = rig.get(&format!("old{i}")).await;
            assert!(got.expect(&what).unwrap() == noise(i as u64, size), "{what}");
            let fresh = noise(50 + round, size);
            rig.put(&format!("new{i}"), &fresh).await.expect(&what);
            assert!(rig.get(&format!("new{i}")).await.expect(&what).unwrap() == fresh, "{what}");
        }
        rig.put("gone", b"x").await.unwrap();
        rig.delete("gone").await.unwrap();
        assert_eq!(rig.get("gone").await.unwrap(), None);
        assert_eq!(rig.get("never").await.unwrap(), None);
        let page = rig.sets.list(Space::Object, BUCKET, b"", b"", 100).await.unwrap();
        assert_eq!(page.entries.len(), 8, "{k}+{m}, drive {slot} {fault:?}");
    }
    if let Some((stop, task)) = flapping {
        stop.store(true, Ordering::SeqCst);
        assert!(task.await.unwrap() > 0, "it must have flapped");
    }
    for f in &rig.faults {
        f.clear();
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_drive_faults_are_tolerated() {
    for fault in DriveFault::ALL {
        for slot in [0, 3] {
            single(2, 2, fault, slot).await;
        }
        single(4, 2, fault, 5).await;
    }
}
