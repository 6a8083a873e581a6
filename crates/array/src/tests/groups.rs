//! The life of groups: made, described, damaged, repaired, stopped, imported, deleted.

use std::os::unix::fs::PermissionsExt as _;

use super::rig::*;
use crate::api::{Call, CheckMode, Marker, NewVolume, Speed};
use crate::error::Kind;
use crate::{Process, offline};

fn states(group: &crate::api::Group) -> Vec<&str> {
    group.drives.iter().map(|d| d.state.as_str()).collect()
}

#[test]
fn groups_and_virtual_drives_are_made_described_and_deleted() {
    run(async {
        let rig = Rig::new(4);
        let process = Process::start(rig.options(vec![])).await.unwrap();
        let client = rig.client();
        let made = client.call(&Call::CreateGroup(rig.new_group("5", 0..4))).await.unwrap();
        let group = only(&made);
        assert_eq!(
            (group.state.as_str(), group.level.as_str(), group.data, group.parity),
            ("OPTIMAL", "5", 3, 1)
        );
        assert_eq!(states(group), ["ONLINE"; 4]);
        assert!(group.size > 50 << 20 && group.free == group.size);
        let volume = |name: &str, size| volume_of(name, size);
        let made = client.call(&volume("a", Some(10 << 20))).await.unwrap().volume.unwrap();
        assert_eq!((made.export.as_str(), made.size, made.start), ("tank/a", 10 << 20, 0));
        let rest = all_of_it();
        assert_eq!(client.call(&rest).await.unwrap().volume.unwrap().export, "tank/vd0");
        fails(&client, volume("a", Some(4096)), Kind::Conflict, "a").await;
        fails(&client, volume("b", Some(1 << 40)), Kind::Conflict, "no free piece").await;
        fails(&client, volume("x/y", Some(4096)), Kind::Conflict, "no name").await;
        let no_such = Call::CreateVolume(NewVolume {
            group: "tonk".into(),
            name: None,
            size: None,
            ..NewVolume::default()
        });
        fails(&client, no_such, Kind::NotFound, "tonk").await;
        fails(&client, Call::CreateGroup(rig.new_group("5", 0..4)), Kind::Conflict, "already").await;
        let mut other = rig.new_group("5", 0..4);
        other.name = Some("other".into());
        fails(&client, Call::CreateGroup(other.clone()), Kind::Conflict, "in use").await;
        other.drives.truncate(1);
        other.drives[0] = rig.folder.path().to_owned();
        fails(&client, Call::CreateGroup(other.clone()), Kind::Invalid, "not a regular file").await;
        other.name = Some("a b".into());
        fails(&client, Call::CreateGroup(other), Kind::Invalid, "no name").await;
        let delete = |force| Call::DeleteGroup { group: "tank".into(), force };
        fails(&client, delete(false), Kind::Conflict, "a, vd0").await;
        client.call(&Call::DeleteVolume { volume: "vd0".into() }).await.unwrap();
        fails(&client, Call::DeleteVolume { volume: "tank/vd0".into() }, Kind::NotFound, "vd0").await;
        client.call(&delete(true)).await.unwrap();
        assert!(client.state().await.unwrap().groups.is_empty());
        let (groups, strangers) = offline::describe(&offline::find(&rig.members(0..4)).unwrap());
        assert!(groups.is_empty() && strangers.len() == 4);
        // Its drives are free.
        client.call(&Call::CreateGroup(rig.new_group("6", 0..4))).await.unwrap();
        assert!(process.stop().await.is_empty());
    });
}

#[test]
fn only_this_user_can_connect_and_only_one_process_has_a_socket_and_a_drive() {
    run(async {
        let rig = Rig::new(3);
        offline::create(&rig.new_group("5", 0..3)).unwrap();
        let process = Process::start(rig.options(rig.members(0..3))).await.unwrap();
        let socket = rig.folder.path().join("array.sock");
        assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        let second = Process::start(rig.options(vec![])).await;
        assert!(second.is_err_and(|e| e.kind == Kind::Conflict));
        let mut elsewhere = rig.options(rig.members(0..3));
        elsewhere.socket = rig.folder.path().join("other.sock");
        elsewhere.nbd.clear();
        let second = Process::start(elsewhere).await.unwrap();
        let out = &second.state().out_of_service;
        assert!(
            out.len() == 1 && out[0].name == "tank" && out[0].why.contains("in use by another process"),
            "{out:?}"
        );
        assert!(offline::create(&rig.new_group("5", 0..3)).is_err_and(|e| e.kind == Kind::Conflict));
        assert!(process.stop().await.is_empty() && !socket.exists());
        assert!(rig.client().state().await.is_err_and(|e| e.kind == Kind::Unavailable));
        // Now they are free.
        let import =
            Call::ImportGroups { drives: vec![rig.folder.path().to_owned()], without_missing: false };
        let client = crate::Client::new(&rig.folder.path().join("other.sock"));
        assert_eq!(only(&client.call(&import).await.unwrap()).state, "OPTIMAL");
        assert!(client.state().await.unwrap().out_of_service.is_empty());
        second.stop().await;
    });
}

#[test]
fn addresses_of_other_machines_need_client_certificates() {
    run(async {
        let rig = Rig::new(0);
        let mut options = rig.options(vec![]);
        options.nbd = vec!["0.0.0.0:0".parse().unwrap()];
        let refused = Process::start(options.clone()).await;
        assert!(refused.is_err_and(|e| e.kind == Kind::Invalid && e.message.contains("allow anyone")));
        options.allow_anyone = true;
        Process::start(options).await.unwrap().stop().await;
    });
}

#[test]
fn groups_grow_with_new_drives_and_hot_spares() {
    run(async {
        let rig = Rig::new(7);
        let process = Process::start(rig.options(vec![])).await.unwrap();
        let client = rig.client();
        let mut new = rig.new_group("5", 0..3);
        new.spares = rig.members(5..6);
        let before = only(&client.call(&Call::CreateGroup(new)).await.unwrap()).clone();
        let grow = |level: Option<&str>, drives: Vec<std::path::PathBuf>| Call::GrowGroup {
            group: "tank".into(),
            level: level.map(str::to_owned),
            drives,
            force: false,
            shared_domains: false,
        };
        fails(&client, grow(Some("0"), rig.members(3..4)), Kind::Invalid, "less parity").await;
        fails(&client, grow(Some("seven"), rig.members(3..4)), Kind::Invalid, "not a level").await;
        fails(&client, grow(None, vec![]), Kind::Invalid, "already").await;
        fails(&client, grow(None, rig.members(0..1)), Kind::Conflict, "in use").await;
        fails(&client, grow(None, vec![rig.member(9)]), Kind::NotFound, "m09").await;
        // What was refused is free again. One of the two is a hot spare of the group.
        let answer = client.call(&grow(Some("6"), vec![rig.member(3), rig.member(5)])).await.unwrap();
        let begun = only(&answer);
        assert_eq!((begun.drives.len(), begun.spares.len()), (5, 0));
        assert_eq!(begun.drives[4].path.as_deref(), rig.member(5).to_str());
        let is_grown = |g: &crate::api::Group| g.growth.is_none() && g.level == "6";
        let grown = until(&client, "the growth", is_grown).await;
        assert_eq!((states(&grown), grown.data, grown.parity), (vec!["ONLINE"; 5], 3, 2));
        assert!(
            2 * grown.size == 3 * before.size && grown.free == grown.size,
            "{} {}",
            grown.size,
            before.size
        );
        // The new drives are locked like the others.
        let mut other = rig.new_group("1", 3..5);
        other.name = Some("other".into());
        fails(&client, Call::CreateGroup(other), Kind::Conflict, "in use").await;
        assert!(process.stop().await.is_empty());
        let found = offline::describe(&offline::find(&rig.members(0..7)).unwrap()).0;
        assert_eq!((found[0].level.as_str(), found[0].drives.len()), ("6", 5));
    });
}

#[test]
fn drives_go_offline_come_back_and_are_replaced() {
    run(async {
        let rig = Rig::new(7);
        let process = Process::start(rig.options(vec![])).await.unwrap();
        let client = rig.client();
        client.call(&Call::CreateGroup(rig.new_group("6", 0..5))).await.unwrap();
        let mark =
            |drive: &str, marker| Call::Mark { drive: drive.into(), marker, group: None, force: false };
        fails(&client, mark("tank/0", Marker::Online), Kind::Conflict, "in service").await;
        let answer = client.call(&mark("tank/1", Marker::Offline)).await.unwrap();
        assert_eq!(
            (only(&answer).state.as_str(), states(only(&answer))[1]),
            ("PARTIALLY_DEGRADED", "OFFLINE")
        );
        let path = rig.member(2).display().to_string();
        let answer = client.call(&mark(&path, Marker::Offline)).await.unwrap();
        assert_eq!(only(&answer).state, "DEGRADED");
        fails(&client, mark("tank/3", Marker::Offline), Kind::Conflict, "cannot do without").await;
        fails(&client, mark("tank/9", Marker::Offline), Kind::NotFound, "no position 9").await;
        client.call(&mark("tank/1", Marker::Online)).await.unwrap();
        until(&client, "it is rebuilt", |g| states(g)[1] == "ONLINE").await;
        let replace =
            |old: &str, new| Call::Replace { old: old.into(), new, force: false, shared_domains: false };
        fails(&client, replace("tank/2", rig.member(0)), Kind::Conflict, "in use").await;
        client.call(&replace("tank/2", rig.member(5))).await.unwrap();
        let group = until(&client, "it is whole", |g| g.state == "OPTIMAL").await;
        assert_eq!(group.drives[2].path, Some(rig.member(5).display().to_string()));
        // One that is in service, by its path.
        client.call(&replace(&rig.member(0).display().to_string(), rig.member(6))).await.unwrap();
        until(&client, "it is whole", |g| g.state == "OPTIMAL").await;
        // The old ones are free: the lock is gone, the signature is there.
        let spare = Call::Mark {
            drive: rig.member(0).display().to_string(),
            marker: Marker::Hotspare,
            group: None,
            force: false,
        };
        fails(&client, spare.clone(), Kind::Conflict, "signature").await;
        let Call::Mark { drive, marker, group, .. } = spare else { unreachable!() };
        let answer =
            client.call(&Call::Mark { drive: drive.clone(), marker, group, force: true }).await.unwrap();
        assert_eq!(only(&answer).spares[0].state, "HOTSPARE");
        client.call(&mark("tank/4", Marker::Offline)).await.unwrap();
        let group = until(&client, "the spare is in", |g| g.state == "OPTIMAL" && g.spares.is_empty()).await;
        assert_eq!(group.drives[4].path, Some(drive));
        assert!(process.stop().await.is_empty());
        // A folder with drives that were replaced opens all the same.
        let process = Process::start(rig.options(vec![rig.folder.path().to_owned()])).await.unwrap();
        let state = process.state();
        assert_eq!((state.groups.len(), state.out_of_service.len()), (1, 0), "{:?}", state.out_of_service);
        assert_eq!(state.groups[0].state, "OPTIMAL");
        process.stop().await;
    });
}

#[test]
fn missing_drives_keep_a_group_out_of_service_unless_permitted() {
    run(async {
        let rig = Rig::new(4);
        offline::create(&rig.new_group("5", 0..4)).unwrap();
        // A path that leads nowhere does not keep the process from starting.
        let gone = [rig.members(0..3), vec![rig.folder.path().join("gone")]].concat();
        let process = Process::start(rig.options(gone)).await.unwrap();
        let client = rig.client();
        let state = client.state().await.unwrap();
        let reasons: Vec<&str> = state.out_of_service.iter().map(|o| o.why.as_str()).collect();
        assert!(state.groups.is_empty() && reasons.iter().any(|r| r.contains("[3]")), "{reasons:?}");
        assert!(reasons.iter().any(|r| r.contains("gone: No such file")), "{reasons:?}");
        let import = |without_missing| Call::ImportGroups { drives: rig.members(0..3), without_missing };
        fails(&client, import(false), Kind::Conflict, "are missing").await;
        let answer = client.call(&import(true)).await.unwrap();
        assert_eq!((only(&answer).state.as_str(), states(only(&answer))[3]), ("DEGRADED", "MISSING"));
        client.call(&Call::StopGroup { group: "tank".into() }).await.unwrap();
        // It is not used when it is back: it has no current data.
        let all = Call::ImportGroups { drives: rig.members(0..4), without_missing: false };
        assert_eq!(states(only(&client.call(&all).await.unwrap()))[3], "FAILED");
        process.stop().await;
    });
}

#[test]
fn checks_find_and_correct_what_is_wrong() {
    run(async {
        let rig = Rig::new(4);
        let process = Process::start(rig.options(vec![])).await.unwrap();
        let client = rig.client();
        client.call(&Call::CreateGroup(rig.new_group("5", 0..4))).await.unwrap();
        client.call(&all_of_it()).await.unwrap();
        super::exports::fill(&rig, "tank/vd0", 6 << 20);
        // Behind the back of the process.
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(rig.member(2)).unwrap();
        let mut bytes = vec![0; 20 << 20];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let data = bytes.windows(64).rposition(|w| w == [0x5a; 64]).unwrap() / 4096 * 4096;
        file.write_all_at(&[1], data as u64).unwrap();
        let start = |mode| Call::StartCheck { group: "tank".into(), mode };
        let ended = |g: &crate::api::Group| g.check.as_ref().is_some_and(|c| c.state != "RUNNING");
        client.call(&start(CheckMode::StopOnError)).await.unwrap();
        let check = until(&client, "it ends", ended).await.check.unwrap();
        assert_eq!((check.state.as_str(), check.mismatches, check.fixed), ("STOPPED", 1, 0));
        assert_eq!(check.first[0].positions, [2]);
        client.call(&start(CheckMode::AutoFix)).await.unwrap();
        let group = until(&client, "it ends", ended).await;
        let check = group.check.unwrap();
        assert_eq!((check.state.as_str(), check.mismatches, check.fixed), ("DONE", 1, 1));
        assert_eq!((group.drives[2].corrected, group.counters.corrected), (1, 1));
        assert_eq!(check.progress.done, check.progress.rows);
        assert!(group.rebuild_coder.starts_with("CPU ("), "{}", group.rebuild_coder);
        fails(&client, Call::StopCheck { group: "tank".into() }, Kind::Conflict, "no consistency check")
            .await;
        let speed = Call::SetSpeed { group: "tank".into(), speed: Speed::Low };
        assert_eq!(only(&client.call(&speed).await.unwrap()).rebuild_speed, "low");
        process.stop().await;
    });
}

#[test]
fn what_is_no_call_is_refused() {
    run(async {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let rig = Rig::new(0);
        let mut options = rig.options(vec![]);
        options.metrics = Some("127.0.0.1:0".into());
        let process = Process::start(options).await.unwrap();
        let ask = async |request: &str| {
            let mut stream =
                tokio::net::UnixStream::connect(rig.folder.path().join("array.sock")).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut out = String::new();
            stream.read_to_string(&mut out).await.unwrap();
            out
        };
        let post = |body: &str| {
            format!("POST /v1/call HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        };
        assert!(ask(&post("{}")).await.starts_with("HTTP/1.1 400"));
        assert!(ask(&post(r#"{"call":"format_everything"}"#)).await.starts_with("HTTP/1.1 400"));
        assert!(ask("GET /v1/call HTTP/1.1\r\nhost: x\r\n\r\n").await.starts_with("HTTP/1.1 404"));
        assert!(
            ask("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.contains("ashlar_array_nbd_connections")
        );
        let address = process.metrics_address().unwrap().to_owned();
        for (path, status) in [("/metrics", "200"), ("/v1/state", "404"), ("/v1/call", "404")] {
            let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut out = String::new();
            stream.read_to_string(&mut out).await.unwrap();
            assert!(out.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {out}");
        }
        process.stop().await;
    });
}

#[test]
fn what_an_operator_set_survives_a_restart() {
    run(async {
        let rig = Rig::new(4);
        let drives = || vec![rig.folder.path().to_owned()];
        let process = Process::start(rig.options(vec![])).await.unwrap();
        let client = rig.client();
        client.call(&Call::CreateGroup(rig.new_group("6", 0..4))).await.unwrap();
        client.call(&Call::SetSpeed { group: "tank".into(), speed: Speed::High }).await.unwrap();
        let mark = |marker| Call::Mark { drive: "tank/1".into(), marker, group: None, force: false };
        client.call(&mark(Marker::Offline)).await.unwrap();
        fails(&client, mark(Marker::Offline), Kind::Conflict, "no member in service").await;
        let interval = |seconds| Call::SetCheckInterval { group: "tank".into(), seconds };
        let answer = client.call(&interval(1)).await.unwrap();
        assert!(only(&answer).check_interval_s == 1 && only(&answer).next_check_ms.is_some());
        let checked = |g: &crate::api::Group| g.check.as_ref().is_some_and(|c| c.state == "DONE");
        let check = until(&client, "a check begins by itself", checked).await.check.unwrap();
        assert_eq!((check.mode.as_str(), check.mismatches), ("auto_fix", 0));
        assert!(process.stop().await.is_empty());

        // Also for those who look without a process.
        let (groups, _) = offline::describe(&offline::find(&drives()).unwrap());
        assert_eq!(states(&groups[0])[1], "OFFLINE");
        let process = Process::start(rig.options(drives())).await.unwrap();
        let group = until(&client, "a check begins by itself", checked).await;
        assert_eq!(
            (group.rebuild_speed.as_str(), states(&group)[1], group.check_interval_s),
            ("high", "OFFLINE", 1)
        );
        client.call(&interval(0)).await.unwrap();
        client.call(&mark(Marker::Online)).await.unwrap();
        let group = until(&client, "it is rebuilt", |g| g.state == "OPTIMAL").await;
        assert!(group.next_check_ms.is_none() && group.check_interval_s == 0);
        process.stop().await;
        let process = Process::start(rig.options(drives())).await.unwrap();
        assert_eq!(states(&process.state().groups[0]), ["ONLINE"; 4]);
        process.stop().await;
    });
}

/// With `--shared-spares` a group without a spare of its own gets one of another group, once; without it, none.
#[test]
fn groups_share_hot_spares_if_they_are_told_to() {
    run(async {
        for shared in [true, false] {
            let rig = Rig::new(9);
            let mut options = rig.options(vec![]);
            options.shared_spares = shared;
            let process = Process::start(options).await.unwrap();
            let client = rig.client();
            client.call(&Call::CreateGroup(rig.new_group("5", 0..3))).await.unwrap();
            let mut pool = rig.new_group("5", 3..6);
            pool.name = Some("pool".into());
            pool.spares = rig.members(6..7);
            client.call(&Call::CreateGroup(pool)).await.unwrap();
            let offline = |drive: &str| Call::Mark {
                drive: drive.into(),
                marker: Marker::Offline,
                group: None,
                force: false,
            };
            client.call(&offline("tank/1")).await.unwrap();
            if shared {
                let whole = |g: &crate::api::Group| g.name == "tank" && g.state == "OPTIMAL";
                let tank = until(&client, "it has the spare", whole).await;
                let path = rig.member(6).display().to_string();
                assert_eq!(tank.drives[1].path, Some(path), "it is a drive of this group now");
                until(&client, "the other has none", |g| g.name == "pool" && g.spares.is_empty()).await;
                // There is no second one.
                client.call(&offline("tank/2")).await.unwrap();
            } else {
                ashlar_environment::time::sleep(std::time::Duration::from_millis(1500)).await;
                until(&client, "the other keeps it", |g| g.name == "pool" && g.spares.len() == 1).await;
            }
            until(&client, "it goes on degraded", |g| g.name == "tank" && g.state == "DEGRADED").await;
            assert!(process.stop().await.is_empty());
            // All is on the drives.
            let process = Process::start(rig.options(rig.members(0..7))).await.unwrap();
            assert!(process.state().out_of_service.is_empty(), "{:?}", process.state().out_of_service);
            assert!(process.stop().await.is_empty());
        }
    });
}
