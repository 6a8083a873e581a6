//! Groups whose drives are namespaces of another process: made, opened, replaced, and while that process restarts.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ashlar_nvme_tcp::{Limits, Server, Subsystems};

use super::rig::*;
use crate::api::{Call, NewGroup, NewVolume};
use crate::error::Kind;
use crate::offline;
use crate::owner::Owner;

/// A group that is exported: its virtual drives are the namespaces.
struct Target {
    owner: Arc<Owner>,
    server: Option<Server>,
    address: String,
    nqn: String,
}

impl Target {
    /// With `count` virtual drives of 20 MiB.
    fn new(rig: &Rig, count: usize) -> Target {
        let owner = Arc::new(Owner::default());
        let new = NewGroup { name: Some("below".into()), ..rig.new_group("0", 0..8) };
        let answer = owner.perform(&Call::CreateGroup(new)).unwrap();
        for i in 0..count {
            let (group, name) = ("below".to_owned(), Some(format!("d{i}")));
            owner
                .perform(&Call::CreateVolume(NewVolume {
                    group,
                    name,
                    size: Some(20 << 20),
                    ..NewVolume::default()
                }))
                .unwrap();
        }
        let nqn = answer.groups[0].nqn.clone();
        let mut target = Target { owner, server: None, address: "127.0.0.1:0".into(), nqn };
        target.start();
        target
    }

    fn start(&mut self) {
        let end = Instant::now() + Duration::from_secs(60);
        let served: Arc<dyn Subsystems> = self.owner.clone();
        while self.server.is_none() {
            // The port may be taken for a moment.
            let made = Server::start(std::slice::from_ref(&self.address), served.clone(), Limits::default());
            assert!(made.is_ok() || Instant::now() < end);
            self.server = made.ok();
        }
        self.address = self.server.as_ref().unwrap().addresses()[0].to_string();
    }

    fn stop(&mut self) {
        self.server = None;
    }

    fn drive(&self, i: usize) -> PathBuf {
        let volumes = self.owner.groups()[0].describe().volumes;
        let volume = volumes.iter().find(|v| v.name == format!("d{i}")).unwrap();
        format!("nvme-tcp://{}/{}/{}", self.address, self.nqn, volume.nsid).into()
    }

    fn group(&self, level: &str, drives: std::ops::Range<usize>) -> NewGroup {
        NewGroup {
            name: Some("tank".into()),
            level: level.into(),
            strip: 64 << 10,
            policy: "journal".into(),
            journal: 1 << 20,
            drives: drives.map(|i| self.drive(i)).collect(),
            spares: vec![],
            force: false,
            shared_domains: true,
        }
    }
}

fn volume(owner: &Owner, size: u64) {
    owner.perform(&volume_of("a", Some(size))).unwrap();
}

fn content(block: u64, turn: u8) -> Vec<u8> {
    (0..4096u64).map(|i| (block * 31 + i * 7 + u64::from(turn) * 101) as u8 ^ turn).collect()
}

#[test]
fn a_group_of_namespaces_is_made_opened_and_refused() {
    let rig = Rig::new(8);
    let target = Target::new(&rig, 5);
    let described = offline::create(&target.group("6", 0..4)).unwrap();
    let paths: Vec<PathBuf> = (0..4).map(|i| target.drive(i)).collect();
    let shown = described.drives.iter().map(|d| PathBuf::from(d.path.clone().unwrap()));
    assert_eq!(shown.collect::<Vec<_>>(), paths);
    // It has a superblock now.
    let again = offline::create(&target.group("6", 0..4)).unwrap_err();
    assert!(again.kind == Kind::Conflict && again.message.contains("nvme-tcp://"), "{again:?}");
    // Twice the same namespace, by two names of the machine.
    let other = PathBuf::from(target.drive(4).display().to_string().replace("127.0.0.1", "localhost"));
    let mut twice = target.group("1", 4..5);
    twice.drives.push(other);
    let refused = offline::create(&twice).unwrap_err();
    assert!(refused.kind == Kind::Conflict && refused.message.contains("in use"), "{refused:?}");

    let owner = Owner::default();
    let (groups, failed) = owner.open(&paths, false).unwrap();
    assert!(groups.len() == 1 && failed.is_empty(), "{failed:?}");
    volume(&owner, 4 << 20);
    let namespace = owner.list()[0].namespace(1).unwrap();
    namespace.write(4096, content(1, 1), true).unwrap();
    // While it is in service, no other group gets its drives.
    let taken = Owner::default().open(&paths, false).unwrap().1;
    assert!(taken[0].2.message.contains("in use"), "{taken:?}");
    // By path, and a drive that is replaced.
    let old = target.drive(2).display().to_string();
    owner.perform(&Call::Replace { old, new: target.drive(4), force: false, shared_domains: true }).unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while owner.groups()[0].describe().state != "OPTIMAL" {
        assert!(Instant::now() < end, "it is rebuilt");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut out = vec![0; 4096];
    namespace.read(4096, &mut out).unwrap();
    assert!(out == content(1, 1));
    assert!(owner.close().is_empty());
    // Nothing listens: the error names the address.
    let paths: Vec<PathBuf> = [0, 1, 3, 4].map(|i| target.drive(i)).into();
    drop(target);
    let (none, failed) = Owner::default().open(&paths, false).unwrap();
    assert!(
        none.is_empty() && failed.iter().all(|(_, _, e)| e.message.contains("nvme-tcp://")),
        "{failed:?}"
    );
}

#[test]
fn acknowledged_writes_survive_restarts_of_the_target_and_a_deleted_namespace() {
    let rig = Rig::new(8);
    let mut target = Target::new(&rig, 5);
    let owner = Owner::default();
    owner.perform(&Call::CreateGroup(target.group("6", 0..5))).unwrap();
    volume(&owner, 4 << 20);
    let namespace = owner.list()[0].namespace(1).unwrap();
    let (finished, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let last: Vec<u8> = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut last, mut turn) = (vec![0u8; 256], 0u64);
            while !finished.load(Ordering::Acquire) {
                let block = turn * 37 % 256;
                let stamp = (turn / 256 % 250) as u8 + 1;
                namespace.write(block * 4096, content(block, stamp), true).unwrap();
                last[block as usize] = stamp;
                turn += 1;
                written.store(turn, Ordering::Release);
            }
            last
        });
        for restarts in (0..4).rev() {
            // So many touch every drive: all are connected.
            let (end, before) = (Instant::now() + Duration::from_secs(120), written.load(Ordering::Acquire));
            while written.load(Ordering::Acquire) < before + 100 {
                assert!(Instant::now() < end && !writer.is_finished(), "it goes on");
                std::thread::sleep(Duration::from_millis(5));
            }
            if restarts > 0 {
                target.stop();
                target.start();
            }
        }
        // One is deleted for good.
        target.owner.perform(&Call::DeleteVolume { volume: "below/d3".into() }).unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        while owner.groups()[0].describe().drives[3].state != "FAILED" {
            assert!(Instant::now() < end && !writer.is_finished(), "the deletion is seen");
            std::thread::sleep(Duration::from_millis(5));
        }
        finished.store(true, Ordering::Release);
        writer.join().unwrap()
    });
    let described = owner.groups()[0].describe();
    assert_eq!(described.state, "PARTIALLY_DEGRADED");
    let why = described.drives[3].why.clone().unwrap();
    assert!(why.contains("Invalid Namespace") && why.contains(&target.nqn), "{why}");
    for (block, stamp) in last.iter().enumerate().filter(|(_, stamp)| **stamp > 0) {
        let mut out = vec![0; 4096];
        namespace.read(block as u64 * 4096, &mut out).unwrap();
        assert!(out == content(block as u64, *stamp), "block {block}");
    }
    // A new namespace, at the address of the deleted one.
    let (group, name) = ("below".to_owned(), Some("d5".to_owned()));
    target
        .owner
        .perform(&Call::CreateVolume(NewVolume { group, name, size: Some(20 << 20), ..NewVolume::default() }))
        .unwrap();
    let new = target.drive(5);
    assert_eq!(described.drives[3].path.as_deref(), new.to_str());
    owner.perform(&Call::Replace { old: "tank/3".into(), new, force: false, shared_domains: true }).unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while owner.groups()[0].describe().state != "OPTIMAL" {
        assert!(Instant::now() < end, "it is rebuilt");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(owner.close().is_empty());
}
