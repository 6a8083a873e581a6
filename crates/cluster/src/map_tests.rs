//! Tests of the map: its content, the changes of a drive, what is refused, and how large it gets.

use super::*;

fn id(n: u16) -> DriveId {
    let mut bytes = [n as u8; 16];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    DriveId(bytes)
}

fn first(n: u16, groups: usize) -> Map {
    let drives: Vec<_> = (1..=n).map(|i| (id(i), format!("/d{i}"), 1000)).collect();
    Map::first(DeploymentId([7; 16]), &drives, None, Some(groups)).unwrap()
}

fn text(map: &Map) -> String {
    map.entries().iter().map(|(k, v)| format!("{k} {}\n", String::from_utf8_lossy(v))).collect()
}

fn parse(text: &str) -> Result<Map> {
    Map::from_entries(text.lines().filter_map(|l| l.split_once(' ')).map(|(k, v)| (k, v.as_bytes())))
}

#[test]
fn golden_entries() {
    let found = FoundAt { id: id(1), path: "/mnt/a/d".to_owned(), mount: Some("/mnt/a".to_owned()) };
    let mut map = first(2, 3).found_at(&[found]).unwrap().distrust(id(2), "journal flush failed").unwrap();
    map = map.joined(id(2), &[GroupId::new(0, 1)]).unwrap();
    (map.drives[0].rack, map.drives[1].enclosure) = (Some("r1".to_owned()), Some("e2".to_owned()));
    if std::env::var_os("ASHLAR_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/map-3.txt");
        std::fs::write(path, text(&map)).unwrap();
    }
    assert_eq!(text(&map), include_str!("../tests/map-3.txt"));
    assert_eq!(parse(&text(&map)).unwrap(), map);
    let older = text(&map).replacen("\"format\":3", "\"format\":2", 1);
    assert!(parse(&older).unwrap_err().to_string().contains("format 2"));
    // The head in the previous format, which contained the whole map.
    let older = r#"map {"format": 2, "epoch": 2, "code": {"k": 1, "m": 1}, "drives": [], "groups": []}"#;
    assert!(parse(older).unwrap_err().to_string().contains("format 2"));
}

#[test]
fn blank_drive_takes_slots() {
    let map = first(24, 48);
    let next = map.replace(id(3), id(99), "/new", 1000).unwrap();
    assert_eq!(next.epoch, 2);
    assert_eq!(next.drive(id(3)).unwrap().state, DriveState::Dead);
    assert!(next.is_joining(id(99)) && next.groups_of(id(3)).is_empty());
    assert_eq!(next.groups_of(id(99)), map.groups_of(id(3)));
    for (a, b) in map.groups.iter().zip(&next.groups) {
        assert_eq!(b.epoch, if a.slot_of(id(3)).is_some() { 2 } else { 1 }, "epochs are of groups");
        for (a, b) in a.slots.iter().zip(&b.slots) {
            let taken = a.drive == id(3) && *b == Slot { drive: id(99), joining: true };
            assert!(a == b || taken, "only the slots of the old drive move");
        }
    }
    assert!(!next.members().contains(&id(3)) && next.members().contains(&id(99)));
    assert!(next.replace(id(3), id(100), "/x", 1).is_err(), "dead stays dead");
    assert!(next.replace(id(4), id(99), "/x", 1).is_err(), "no drive twice");
    assert!(next.rejoin(id(3), |_| true).is_err());
    let mut joined = next.clone();
    for group in next.groups_of(id(99)) {
        assert!(joined.is_joining(id(99)));
        joined = joined.joined(id(99), &[group]).unwrap();
        assert!(joined.joined(id(99), &[group]).is_err());
    }
    assert_eq!((joined.epoch, joined.is_joining(id(99))), (2, false));
    let one = next.groups_of(id(99))[0];
    let again = joined.rejoin(id(99), |g| g == one).unwrap();
    assert_eq!((again.epoch, again.groups.iter().filter(|g| g.epoch == 3).count()), (3, 1));
}

#[test]
fn distrusted_drive_is_noted_until_it_joins() {
    let map = first(4, 8).distrust(id(2), "a flush failed").unwrap();
    assert_eq!((map.epoch, map.is_joining(id(2))), (2, true));
    assert_eq!(map.drive(id(2)).unwrap().distrusted.as_deref(), Some("a flush failed"));
    let map = map.joins_by_itself(id(2)).unwrap();
    assert_eq!(map.drive(id(2)).unwrap().distrusted, None);
    assert!(map.joins_by_itself(id(2)).is_none() && map.joins_by_itself(id(9)).is_none());
    let mut again = map.distrust(id(2), "once more").unwrap();
    for group in again.groups_of(id(2)) {
        assert!(again.drive(id(2)).unwrap().distrusted.is_some());
        again = again.joined(id(2), &[group]).unwrap();
    }
    assert_eq!(again.drive(id(2)).unwrap().distrusted, None);
    let dead = map.replace(id(2), id(9), "/new", 1).unwrap();
    assert!(dead.distrust(id(2), "too late").is_err());
}

#[test]
fn invalid_maps_are_refused() {
    let broken = |change: &dyn Fn(&mut Map)| {
        let mut map = first(4, 2);
        change(&mut map);
        parse(&text(&map)).is_err()
    };
    assert!(!broken(&|_| {}));
    assert!(broken(&|m| m.groups[0].slots[0] = m.groups[0].slots[1]), "a drive twice in a group");
    assert!(broken(&|m| m.groups[0].slots.truncate(1)), "a slot missing");
    assert!(broken(&|m| m.groups.truncate(1)), "a group missing");
    assert!(broken(&|m| m.groups[1].epoch = 9), "an epoch of the future");
    assert!(broken(&|m| m.drives[1].number = 0), "one number for two");
    assert!(broken(&|m| m.pools[0].groups = 3), "groups that are not there");
    assert!(parse("").is_err() && parse("map {}").is_err());
    let lacks = text(&first(4, 2)).lines().filter(|l| !l.contains("\"/d2\"")).collect::<Vec<_>>().join("\n");
    assert!(parse(&lacks).is_err(), "an unknown drive");
}

/// The largest deployment fits into values and changes that etcd accepts too.
#[test]
fn values_and_changes_are_bounded() {
    let drives: Vec<_> = (1..=1024).map(|i| (id(i), format!("/mnt/somewhere/drive-{i}"), 1000)).collect();
    for code in [None, Some(CodeSpec { k: 1, m: 1 }), Some(CodeSpec { k: 50, m: 14 })] {
        let map = Map::first(DeploymentId([7; 16]), &drives, code, None).unwrap();
        assert!(map.entries().values().all(|v| v.len() < 100 << 10));
        let change = |next: Map| {
            let (was, now) = (map.entries(), next.entries());
            let changed = now.iter().filter(|(k, v)| was.get(*k) != Some(v));
            changed.fold((0, 0), |(n, bytes), (k, v)| (n + 1, bytes + k.len() + v.len() + Update::PER_KEY))
        };
        for next in [map.replace(id(5), id(2000), "/new", 1).unwrap(), map.next_epoch().unwrap()] {
            let (keys, bytes) = change(next);
            assert!(keys <= Update::MAX_KEYS && bytes <= Update::MAX_BYTES, "{keys} keys, {bytes} bytes");
        }
    }
}
