//! Virtual drives as namespaces of subsystems: names, numbers, identities, and what errors become.

use ashlar_nvme_tcp::{Fault, Registrant, ReservationStatus, ReservationType, Subsystems as _, Summary};

use super::rig::*;
use crate::api::{Call, NewVolume};
use crate::namespace::describe;
use crate::owner::Owner;
use crate::{Kind, Process, offline};

/// The group `tank` in service.
fn served() -> (Rig, Owner) {
    let rig = Rig::new(4);
    offline::create(&rig.new_group("5", 0..4)).unwrap();
    let owner = Owner::default();
    owner.open(&rig.members(0..4), false).unwrap();
    (rig, owner)
}

#[test]
fn names_numbers_and_identities_stay() {
    let rig = Rig::new(4);
    offline::create(&rig.new_group("5", 0..4)).unwrap();
    let mut before: Option<(String, Vec<Summary>)> = None;
    for round in 0..2 {
        let owner = Owner::default();
        assert_eq!(owner.open(&rig.members(0..4), false).unwrap().0.len(), 1);
        if round == 0 {
            for name in ["a", "b", "c"] {
                let size = Some(8 << 20);
                owner.perform(&volume_of(name, size)).unwrap();
            }
            owner.perform(&Call::DeleteVolume { volume: "tank/a".into() }).unwrap();
        }
        let subsystem = owner.list().pop().unwrap();
        let nqn = subsystem.nqn();
        assert!(nqn.starts_with("nqn.2014-08.org.nvmexpress:uuid:") && nqn.len() == 68, "{nqn}");
        let seen = Summary::of(&*subsystem);
        assert_eq!(seen.iter().map(|s| (s.nsid, s.blocks)).collect::<Vec<_>>(), [(9, 2048), (17, 2048)]);
        assert!(seen[0].id != seen[1].id && seen.iter().all(|s| s.id[6] >> 4 == 8 && s.id[8] >> 6 == 2));
        let described = owner.groups()[0].describe();
        assert_eq!((&described.nqn, described.volumes[0].nsid), (&nqn, 9));
        assert_eq!(described.volumes[0].uuid.replace('-', ""), hex::encode(seen[0].id));
        assert_eq!(*before.get_or_insert((nqn, seen.clone())), (subsystem.nqn(), seen));
        assert!(subsystem.namespace(1).is_none() && subsystem.namespace(0).is_none());
        assert!(owner.close().is_empty());
        assert!(!subsystem.in_service() && subsystem.namespaces().is_empty());
    }
}

#[test]
fn namespaces_read_write_and_fail() {
    let (_rig, owner) = served();
    let size = Some(4 << 20);
    owner.perform(&volume_of("a", size)).unwrap();
    let namespace = owner.list()[0].namespace(1).unwrap();
    namespace.write(4096, vec![7; 8192], true).unwrap();
    let mut out = vec![1; 16384];
    namespace.read(0, &mut out).unwrap();
    assert_eq!(out, [vec![0; 4096], vec![7; 8192], vec![0; 4096]].concat());
    namespace.zero(4096, 4096, true, false).unwrap();
    namespace.trim(8192, 4096).unwrap();
    namespace.flush().unwrap();
    namespace.read(0, &mut out).unwrap();
    assert_eq!(out, vec![0; 16384]);
    assert_eq!(namespace.read(4 << 20, &mut [0; 4096]), Err(Fault::Range));
    owner.perform(&Call::GrowVolume { volume: "tank/a".into(), size: Some(5 << 20) }).unwrap();
    assert_eq!(namespace.blocks(), (5 << 20) / 4096, "hosts are told, as it is in the summary");
    namespace.read(4 << 20, &mut [0; 4096]).unwrap();
    owner.perform(&Call::ShrinkVolume { volume: "tank/a".into(), size: 2 << 20, force: true }).unwrap();
    assert_eq!(namespace.blocks(), (2 << 20) / 4096, "likewise");
    assert_eq!(namespace.write(2 << 20, vec![0; 4096], false), Err(Fault::Range));
    owner.perform(&Call::DeleteVolume { volume: "tank/a".into() }).unwrap();
    assert_eq!(namespace.read(0, &mut [0; 4096]), Err(Fault::Gone));
    assert!(owner.list()[0].namespace(1).is_none());
    owner.close();
}

#[test]
fn thin_namespaces_say_what_they_use_and_that_there_is_no_room() {
    let (_rig, owner) = served();
    for thin in [false, true] {
        let (group, name) = ("tank".into(), Some(format!("thin-{thin}")));
        let new = NewVolume { group, name, size: Some(4 << 20), thin, ..NewVolume::default() };
        owner.perform(&Call::CreateVolume(new)).unwrap();
    }
    let subsystem = owner.list().pop().unwrap();
    let (thick, thin) = (subsystem.namespace(1).unwrap(), subsystem.namespace(5).unwrap());
    assert_eq!((thick.used(), thin.used(), thin.blocks()), (None, Some(0), 1024));
    thin.write(4096, vec![7; 4096], true).unwrap();
    assert_eq!(thin.used(), Some(256));
    let rest = NewVolume { group: "tank".into(), ..NewVolume::default() };
    owner.perform(&Call::CreateVolume(rest)).unwrap();
    assert_eq!(thin.write(1 << 20, vec![7; 4096], true), Err(Fault::NoSpace));
    thin.trim(0, 1 << 20).unwrap();
    assert_eq!(thin.used(), Some(0));
    thin.write(1 << 20, vec![7; 4096], true).unwrap();
    owner.close();
}

#[test]
fn reservations_are_shown_and_cleared() {
    let (_rig, owner) = served();
    let size = Some(4 << 20);
    owner.perform(&volume_of("a", size)).unwrap();
    let namespace = owner.list()[0].namespace(1).unwrap();
    assert_eq!(namespace.reservations().unwrap().status(), ReservationStatus::default());
    let cleared = owner.perform(&Call::ClearReservation { volume: "a".into() }).unwrap();
    assert_eq!(cleared.volume.unwrap().reservation, None);
    let unknown = owner.perform(&Call::ClearReservation { volume: "tank/b".into() }).unwrap_err();
    assert_eq!(unknown.kind, Kind::NotFound);
    let host = |n: u8, holder| Registrant {
        host: [n; 16],
        nqn: format!("nqn.{n}"),
        key: 0xa0 + u64::from(n),
        holder,
    };
    let status = ReservationStatus {
        generation: 3,
        kind: Some(ReservationType::ExclusiveAccessRegistrantsOnly),
        registrants: vec![host(1, false), host(2, true)],
    };
    let shown = serde_json::to_value(describe(&status)).unwrap();
    let expected = serde_json::json!({
        "type": "exclusive-access-registrants-only",
        "generation": 3,
        "registrants": [
            { "nqn": "nqn.1", "host_id": "01010101-0101-0101-0101-010101010101", "key": "0xa1", "holder": false },
            { "nqn": "nqn.2", "host_id": "02020202-0202-0202-0202-020202020202", "key": "0xa2", "holder": true },
        ],
    });
    assert_eq!(shown, expected);
    assert_eq!(describe(&ReservationStatus::default()), None);
    owner.close();
}

#[test]
fn an_open_address_needs_permission() {
    run(async {
        let rig = Rig::new(1);
        let mut options = rig.options(vec![]);
        options.nvme = vec!["0.0.0.0:0".into()];
        let error = Process::start(options.clone()).await.err().expect("it is refused");
        assert!(error.message.contains("name the file of the hosts"), "{error}");
        options.allow_anyone = true;
        let process = Process::start(options).await.unwrap();
        assert_eq!(process.state().nvme.endpoints.len(), 1);
        process.stop().await;
    });
}
