//! Virtual drives over NBD, with a client of a few lines.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::rig::*;
use crate::api::{Call, Marker, NewVolume};
use crate::{Kind, Process, offline};

/// A client that waits for each reply.
pub(super) struct Nbd(UnixStream);

impl Nbd {
    /// None: there is no such export.
    pub(super) fn connect(rig: &Rig, export: &str) -> Option<Nbd> {
        let mut socket = UnixStream::connect(rig.folder.path().join("nbd.sock")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.read_exact(&mut [0; 18]).unwrap();
        let mut out = 3u32.to_be_bytes().to_vec();
        out.extend_from_slice(b"IHAVEOPT\0\0\0\x01");
        out.extend_from_slice(&(export.len() as u32).to_be_bytes());
        out.extend_from_slice(export.as_bytes());
        socket.write_all(&out).unwrap();
        socket.read_exact(&mut [0; 10]).ok()?;
        Some(Nbd(socket))
    }

    /// The error of the reply.
    pub(super) fn request(&mut self, command: u16, at: u64, len: u32, data: &[u8]) -> u32 {
        let mut out = 0x2560_9513u32.to_be_bytes().to_vec();
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&command.to_be_bytes());
        out.extend_from_slice(&7u64.to_be_bytes());
        out.extend_from_slice(&at.to_be_bytes());
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(data);
        self.0.write_all(&out).unwrap();
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]])
    }

    pub(super) fn read(&mut self, at: u64, len: u32) -> Vec<u8> {
        assert_eq!(self.request(0, at, len, b""), 0);
        let mut out = vec![0; len as usize];
        self.0.read_exact(&mut out).unwrap();
        out
    }
}

/// Writes 0x5a to the first bytes of an export.
pub(super) fn fill(rig: &Rig, export: &str, bytes: u32) {
    let mut nbd = Nbd::connect(rig, export).unwrap();
    assert_eq!(nbd.request(1, 0, bytes, &vec![0x5a; bytes as usize]), 0);
}

/// A virtual drive of 8 MiB.
fn create(name: &str) -> Call {
    volume_of(name, Some(8 << 20))
}

#[test]
fn exports_come_and_go_with_virtual_drives_and_groups() {
    run(async {
        let rig = Rig::new(4);
        let mut new = rig.new_group("5", 0..4);
        new.policy = "bitmap".into();
        offline::create(&new).unwrap();
        let process = Process::start(rig.options(rig.members(0..4))).await.unwrap();
        let client = rig.client();
        assert!(Nbd::connect(&rig, "").is_none(), "there is nothing yet");
        client.call(&create("a")).await.unwrap();
        fill(&rig, "", 1 << 20);
        client.call(&create("b")).await.unwrap();
        assert!(Nbd::connect(&rig, "").is_none(), "there are two");
        let (mut a, mut b) = (Nbd::connect(&rig, "a").unwrap(), Nbd::connect(&rig, "tank/b").unwrap());
        assert_eq!(a.read((1 << 20) - 1, 2), [0x5a, 0]);
        // Flush, trim, zeros.
        assert_eq!(b.request(1, 4095, 2, &[1, 2]), 0);
        assert_eq!((b.request(3, 0, 0, b""), b.request(4, 0, 8 << 20, b"")), (0, 0));
        assert_eq!(b.read(0, 8192), vec![0; 8192]);
        assert_eq!(a.request(6, 1, 4096, b""), 0);
        assert_eq!([a.read(0, 2), a.read(4096, 2)].concat(), [0x5a, 0, 0, 0x5a]);
        client.call(&Call::DeleteVolume { volume: "tank/b".into() }).await.unwrap();
        assert_eq!(b.request(1, 0, 1, b"x"), 108, "it is gone");
        assert!(Nbd::connect(&rig, "b").is_none());
        let volumes = client.state().await.unwrap().groups[0].volumes.clone();
        assert!(
            volumes.len() == 1 && volumes[0].writes == 1 && volumes[0].bytes_written == 1 << 20,
            "{volumes:?}"
        );
        client.call(&Call::StopGroup { group: "tank".into() }).await.unwrap();
        assert_eq!(a.request(1, 0, 1, b"x"), 108, "its group is out of service");
        let import = Call::ImportGroups { drives: rig.members(0..4), without_missing: false };
        client.call(&import).await.unwrap();
        assert_eq!(Nbd::connect(&rig, "tank/a").unwrap().read(0, 2), [0x5a, 0]);
        process.stop().await;
    });
}

#[test]
fn clients_of_a_virtual_drive_that_grows_use_its_room_at_once() {
    run(async {
        let rig = Rig::new(4);
        offline::create(&rig.new_group("5", 0..4)).unwrap();
        let process = Process::start(rig.options(rig.members(0..4))).await.unwrap();
        let client = rig.client();
        let grow = |volume: &str, size| Call::GrowVolume { volume: volume.into(), size };
        client.call(&create("a")).await.unwrap();
        client.call(&create("b")).await.unwrap();
        fill(&rig, "tank/a", 1 << 20);
        fails(&client, grow("tank/c", None), Kind::NotFound, "c").await;
        fails(&client, grow("tank/a", Some(9 << 20)), Kind::Conflict, "\"b\" is behind it").await;
        fails(&client, grow("tank/a", Some(4 << 20)), Kind::Conflict, "can be made smaller").await;
        let mut b = Nbd::connect(&rig, "tank/b").unwrap();
        assert_ne!(b.request(1, 8 << 20, 1, b"x"), 0, "there is nothing");
        let answer = client.call(&grow("b", Some(12 << 20))).await.unwrap();
        assert_eq!(answer.volume.unwrap().size, 12 << 20);
        assert_eq!(b.request(1, (12 << 20) - 1, 1, b"x"), 0);
        assert_ne!(b.request(1, 12 << 20, 1, b"x"), 0);
        let mut again = Nbd::connect(&rig, "tank/b").unwrap();
        assert_eq!(again.read((12 << 20) - 2, 2), [0, b'x']);
        // Another virtual drive of the same name at the same place is another one.
        client.call(&Call::DeleteVolume { volume: "tank/b".into() }).await.unwrap();
        client.call(&create("b")).await.unwrap();
        client.call(&grow("b", None)).await.unwrap();
        assert_eq!(again.request(1, 0, 1, b"x"), 108, "it is gone");
        assert_eq!(Nbd::connect(&rig, "tank/b").unwrap().read((12 << 20) - 2, 2), [0, 0]);
        assert_eq!(Nbd::connect(&rig, "tank/a").unwrap().read((1 << 20) - 1, 2), [0x5a, 0]);
        process.stop().await;
    });
}

#[test]
fn clients_of_a_virtual_drive_that_became_smaller_meet_its_end() {
    run(async {
        let rig = Rig::new(4);
        offline::create(&rig.new_group("5", 0..4)).unwrap();
        let process = Process::start(rig.options(rig.members(0..4))).await.unwrap();
        let client = rig.client();
        let shrink = |size, force| Call::ShrinkVolume { volume: "tank/a".into(), size, force };
        client.call(&create("a")).await.unwrap();
        fill(&rig, "tank/a", 8 << 20);
        fails(&client, shrink(4 << 20, false), Kind::Conflict, "would be lost").await;
        fails(&client, shrink(9 << 20, true), Kind::Conflict, "smaller than that").await;
        fails(&client, shrink(0, true), Kind::Conflict, "not empty").await;
        let mut before = Nbd::connect(&rig, "tank/a").unwrap();
        assert_eq!(before.read((8 << 20) - 1, 1), [0x5a]);
        let answer = client.call(&shrink(3 << 20, true)).await.unwrap();
        assert_eq!(answer.volume.unwrap().size, 3 << 20);
        assert_eq!(before.read((3 << 20) - 1, 1), [0x5a]);
        assert_eq!(before.request(1, 3 << 20, 1, b"x"), 28, "there is no space");
        assert_eq!(before.request(0, (3 << 20) - 1, 2, b""), 22, "it is not valid");
        // Its size at the next connection is tested by its last byte.
        let mut again = Nbd::connect(&rig, "tank/a").unwrap();
        assert_eq!((again.request(1, (3 << 20) - 1, 1, b"y"), again.request(1, 3 << 20, 1, b"y")), (0, 28));
        client.call(&Call::GrowVolume { volume: "tank/a".into(), size: Some(8 << 20) }).await.unwrap();
        assert_eq!(again.read((3 << 20) - 1, 2), [b'y', 0]);
        assert_eq!(again.read(3 << 20, 5 << 20), vec![0; 5 << 20]);
        process.stop().await;
    });
}

#[test]
fn thin_virtual_drives_get_room_until_there_is_none() {
    run(async {
        let rig = Rig::new(4);
        offline::create(&rig.new_group("5", 0..4)).unwrap();
        let process = Process::start(rig.options(rig.members(0..4))).await.unwrap();
        let client = rig.client();
        let new = |name: &str, size, thin| {
            let (group, name) = ("tank".into(), Some(name.into()));
            Call::CreateVolume(NewVolume { group, name, size, thin, ..NewVolume::default() })
        };
        fails(&client, new("t", None, true), Kind::Conflict, "needs a size").await;
        let made = client.call(&new("t", Some(1 << 30), true)).await.unwrap().volume.unwrap();
        assert_eq!((made.size, made.thin, made.allocated), (1 << 30, true, Some(0)));
        client.call(&new("k", Some(8 << 20), false)).await.unwrap();
        let free = client.state().await.unwrap().groups[0].free;
        let mut t = Nbd::connect(&rig, "tank/t").unwrap();
        let mut written = 0u64;
        let last = loop {
            match t.request(1, written << 21, 4096, &[7; 4096]) {
                0 => written += 1,
                error => break error,
            }
        };
        assert_eq!((last, written), (28, free >> 20), "there is no space");
        assert_eq!(t.read(written << 21, 4096), [0; 4096]);
        assert_eq!(
            (t.request(1, 4096, 4096, &[8; 4096]), t.read(0, 8192)[4095..4097].to_vec()),
            (0, vec![7, 8])
        );
        let mut k = Nbd::connect(&rig, "tank/k").unwrap();
        assert_eq!(k.request(1, 0, 4096, &[9; 4096]), 0, "others go on");
        fails(&client, new("l", Some(1 << 20), false), Kind::Conflict, "no free piece").await;
        let found = client.state().await.unwrap().groups[0].clone();
        assert!(found.free < 1 << 20 && found.volumes[0].allocated == Some(written << 20), "{found:?}");
        assert_eq!(found.volumes[1].allocated, None);
        // Trim of two pieces and a part of one that has none.
        assert_eq!(t.request(4, 0, 5 << 20, b""), 0);
        assert_eq!(client.state().await.unwrap().groups[0].volumes[0].allocated, Some((written - 3) << 20));
        assert_eq!((t.read(0, 8192), t.read(6 << 20, 1)), (vec![0; 8192], vec![7]));
        client.call(&new("l", Some(1 << 20), false)).await.unwrap();
        // What is on drives says what it can without the maps.
        assert!(process.stop().await.is_empty());
        let (groups, _) = offline::describe(&offline::find(&rig.members(0..4)).unwrap());
        let volumes = &groups[0].volumes;
        let t = volumes.iter().find(|v| v.name == "t").unwrap();
        assert_eq!((volumes.len(), t.thin, t.allocated, t.size), (3, true, None, 1 << 30));
        let process = Process::start(rig.options(rig.members(0..4))).await.unwrap();
        assert_eq!(process.state().groups[0].volumes[0].allocated, Some((written - 3) << 20));
        process.stop().await;
    });
}

#[test]
fn a_block_device_of_this_machine_keeps_its_size() {
    let rig = Rig::new(4);
    offline::create(&rig.new_group("5", 0..4)).unwrap();
    let owner = crate::owner::Owner::default();
    owner.open(&rig.members(0..4), false).unwrap();
    owner.has_block_devices(Box::new(|export| (export == "tank/a").then(|| "/dev/ublkb7".into())));
    let shrink = |volume: &str| Call::ShrinkVolume { volume: volume.into(), size: 1 << 20, force: true };
    for name in ["a", "b"] {
        owner.perform(&create(name)).unwrap();
    }
    let error = owner.perform(&shrink("a")).unwrap_err();
    assert!(error.kind == Kind::Conflict && error.message.contains("/dev/ublkb7"), "{error:?}");
    owner.perform(&shrink("b")).unwrap();
    let sizes: Vec<u64> = owner.groups()[0].describe().volumes.iter().map(|v| v.size).collect();
    assert_eq!(sizes, [8 << 20, 1 << 20]);
    owner.close();
}

#[test]
fn limits_hold_up_only_their_own_virtual_drive() {
    run(async {
        let rig = Rig::new(4);
        offline::create(&rig.new_group("5", 0..4)).unwrap();
        let process = Process::start(rig.options(rig.members(0..4))).await.unwrap();
        let client = rig.client();
        let limit = |iops, bandwidth| Call::LimitVolume { volume: "tank/a".into(), iops, bandwidth };
        client.call(&create("a")).await.unwrap();
        client.call(&create("b")).await.unwrap();
        fails(&client, limit(Some(9), None), Kind::Invalid, "10 requests").await;
        fails(&client, limit(None, Some(1)), Kind::Invalid, "1048576 bytes").await;
        let answer = client.call(&limit(Some(10), Some(1 << 30))).await.unwrap().volume.unwrap();
        assert_eq!((answer.iops_limit, answer.bandwidth_limit), (10, 1 << 30));
        // 61 requests at 10 per second, of which one is caught up on, take six seconds.
        let began = std::time::Instant::now();
        let slow = std::thread::scope(|scope| {
            let slow = scope.spawn(|| {
                let mut a = Nbd::connect(&rig, "tank/a").unwrap();
                (0..61).for_each(|i| drop(a.read(i * 4096, 4096)));
                began.elapsed()
            });
            let mut b = Nbd::connect(&rig, "tank/b").unwrap();
            for i in 0..30u64 {
                assert_eq!(b.request(1, i * 4096, 4096, &[1; 4096]), 0);
            }
            assert!(!slow.is_finished(), "30 requests of another one do not wait for 61 of this one");
            slow.join().unwrap()
        });
        assert!(slow >= Duration::from_millis(5900), "{slow:?}");
        let state = client.state().await.unwrap();
        let waited: Vec<u64> = state.groups[0].volumes.iter().map(|v| v.limit_wait_us).collect();
        assert!(waited[0] > 5_000_000 && waited[1] == 0, "{waited:?}");
        assert!(process.stop().await.is_empty());
        // It survives a restart.
        let process = Process::start(rig.options(rig.members(0..4))).await.unwrap();
        let found = process.state().groups[0].volumes[0].clone();
        assert_eq!((found.iops_limit, found.bandwidth_limit), (10, 1 << 30));
        let answer = rig.client().call(&limit(Some(0), Some(0))).await.unwrap().volume.unwrap();
        assert_eq!((answer.iops_limit, answer.bandwidth_limit), (0, 0));
        process.stop().await;
    });
}

#[test]
fn a_client_reads_and_writes_through_failure_and_rebuild() {
    run(async {
        let rig = Rig::new(5);
        let process = Process::start(rig.options(vec![])).await.unwrap();
        let client = rig.client();
        let mut new = rig.new_group("5", 0..4);
        new.spares = rig.members(4..5);
        client.call(&Call::CreateGroup(new)).await.unwrap();
        client.call(&all_of_it()).await.unwrap();
        fill(&rig, "tank/vd0", 30 << 20);
        let mut nbd = Nbd::connect(&rig, "tank/vd0").unwrap();
        let offline =
            Call::Mark { drive: "tank/1".into(), marker: Marker::Offline, group: None, force: false };
        client.call(&offline).await.unwrap();
        for i in 0..30u64 {
            assert_eq!(nbd.request(1, i << 20, 4096, &[i as u8; 4096]), 0);
            assert_eq!(nbd.read(i << 20, 4096), [i as u8; 4096]);
        }
        until(&client, "the spare is rebuilt", |g| g.state == "OPTIMAL").await;
        for i in 0..30u64 {
            assert_eq!(nbd.read(i << 20, 8192), [[i as u8; 4096], [0x5a; 4096]].concat());
        }
        assert!(process.stop().await.is_empty());
        let process = Process::start(rig.options(vec![rig.folder.path().to_owned()])).await.unwrap();
        assert_eq!(process.state().groups[0].counters.replayed, 0, "it was closed");
        assert_eq!(Nbd::connect(&rig, "").unwrap().read(29 << 20, 1), [29]);
        process.stop().await;
    });
}
