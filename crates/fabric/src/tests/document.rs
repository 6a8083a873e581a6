//! Set-ups: those that ship are right, and wrong ones are refused by the name of the field.

use std::collections::BTreeSet;
use std::path::Path;

use crate::setup::{Media, Setup};
use crate::{Kind, SETUPS, is_local, parse};

fn shipped(name: &str) -> Setup {
    let found = SETUPS.iter().find(|s| s.0 == name).unwrap();
    parse(found.1, Path::new("/folder")).unwrap()
}

#[test]
fn shipped_set_ups_give_each_server_its_namespaces_once() {
    for (name, text) in SETUPS {
        let setup = parse(text, Path::new("/folder")).unwrap();
        assert_eq!(setup.name, name);
        assert_eq!(setup.data, Path::new("/folder").join(name));
        assert!(is_local(&setup));
        let zones = setup.zones.as_ref().unwrap();
        let all: Vec<_> = zones.iter().flat_map(|z| &z.namespaces).collect();
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), setup.bays * setup.namespaces as usize, "{name}");
        assert_eq!(different.len(), all.len(), "{name}");
        let ports: BTreeSet<_> = zones.iter().map(|z| &z.ports).collect();
        assert!(ports.len() == zones.len() && ports.iter().all(|p| p.len() == 1), "{name}");
    }
}

#[test]
fn servers_of_a_data24_have_eight_namespaces_and_those_of_a_data60_twenty_disks() {
    for name in ["data24-minio", "data24-supremeraid"] {
        let setup = shipped(name);
        let zones = setup.zones.unwrap();
        assert_eq!((zones.len(), setup.size), (6, 1_599_078_400));
        for zone in zones {
            let drives: BTreeSet<usize> = zone.namespaces.iter().map(|n| n.0).collect();
            let wanted = if name == "data24-minio" { 4 } else { 8 };
            assert_eq!((zone.namespaces.len(), drives.len()), (8, wanted), "{name}");
        }
    }
    for name in ["data60-minio-1", "data60-minio-2"] {
        let setup = shipped(name);
        assert!(setup.zones.unwrap().iter().all(|z| z.namespaces.len() == 20));
        let Media::Disk(disk) = setup.media else { panic!("no disk") };
        assert_eq!(disk.rate, 12.5e6);
    }
}

#[test]
fn zones_decide_what_a_host_sees() {
    let setup = shipped("data24-supremeraid");
    let host = |n: u32| format!("nqn.2014-08.org.nvmexpress:uuid:24000000-0000-4000-8000-00000000000{n}");
    let a1 = setup.port_named("a1").unwrap();
    let b1 = setup.port_named("B1").unwrap();
    assert_eq!(setup.port_name(b1), "B1");
    assert_eq!(setup.visible(&host(1), a1, 8), [1]);
    assert_eq!(setup.visible(&host(1), a1, 9), [0u32; 0]);
    assert_eq!(setup.visible(&host(1), b1, 8), [0u32; 0]);
    assert_eq!(setup.visible(&host(4), b1, 8), [2]);
    assert_eq!(setup.visible("nqn.unknown", a1, 8), [0u32; 0]);
    let open = super::setup(Path::new("/x"), "data24", "");
    assert_eq!(open.visible("nqn.unknown", 5, 24), [1, 2]);
    let any = super::setup(
        Path::new("/x"),
        "data24",
        "[[zones]]\nname = \"z\"\nhosts = [\"*\"]\nnamespaces = [\"3\", \"4/2\"]",
    );
    assert_eq!(any.visible("nqn.unknown", 0, 3), [1, 2]);
    assert_eq!(any.visible("nqn.unknown", 5, 4), [2]);
}

#[test]
fn wrong_set_ups_are_refused_with_the_name_of_the_field() {
    let base = "name = \"x\"\nmodel = \"data24\"\nports = [\"127.0.0.1:4421\"]\n";
    assert!(parse(base, Path::new("/x")).is_ok());
    for (more, expected) in [
        ("unknown = 1", "unknown"),
        ("scale = 0.5", "scale"),
        ("scale = 1e7", "scale"),
        ("block = 1024", "block"),
        ("bays = 0", "bays"),
        ("bays = 100000", "bays"),
        ("connections = 0", "connections"),
        ("[drive]\nnamespaces = 1000", "drive.namespaces"),
        ("[drive]\ncapacity = \"1MB\"", "drive.capacity"),
        ("[drive]\ncapacity = \"many\"", "drive.capacity"),
        ("[drive]\nread = \"3GB\"", "drive.read"),
        ("[drive]\nread_iops = 0.0", "drive.read_iops"),
        ("[drive]\nread_iops = nan", "drive.read_iops"),
        ("[drive]\nread_us = []", "drive.read_us"),
        ("[drive]\nread_us = [[4, 80], [2, 90]]", "drive.read_us"),
        ("[drive]\nrpm = 7200", "rpm"),
        ("[drive]\ncache = \"1GiB\"", "drive.cache"),
        ("[drive]\ncache_lost = 0.5", "drive.cache_lost"),
        ("[drive]\ncache = \"1MiB\"\ncache_lost = 1.5", "drive.cache_lost"),
        ("[thermal]\nseconds = 0", "thermal.seconds"),
        ("[thermal]\nambient = inf", "thermal.ambient"),
        ("[port]\nrate = \"0GB/s\"", "port.rate"),
        ("[module]\niops = -1", "module.iops"),
        ("[[zones]]\nname = \"z\"\nhosts = []\nnamespaces = [\"25\"]", "\"25\""),
        ("[[zones]]\nname = \"z\"\nhosts = []\nnamespaces = [\"1/3\"]", "\"1/3\""),
        ("[[zones]]\nname = \"z\"\nhosts = []\nnamespaces = []\nports = [\"C1\"]", "C1"),
        ("[[ana]]\nstate = \"best\"", "best"),
        ("[[ana]]\nstate = \"change\"\nat = \"A4\"", "A4"),
        ("[[ana]]\nstate = \"change\"\nnamespaces = [\"25\"]", "\"25\""),
        ("[[faults]]\nfault = \"drive-gone\"\nbay = 25", "bay 25"),
        ("[[faults]]\nfault = \"fire\"", "fire"),
        ("[[faults]]\nfault = \"slow-drive\"\nbay = 1\nfactor = 0.1", "factor"),
        ("[[faults]]\nfault = \"port-down\"\nport = \"A2\"", "A2"),
        ("[[faults]]\nfault = \"lost-write\"\nbay = 1\nnamespace = 1\nblocks = { rate = 2 }", "rate"),
        (
            "[[faults]]\nfault = \"corrupt-read\"\nbay = 1\nnamespace = 1\nblocks = { first = 9, last = 8 }",
            "9",
        ),
    ] {
        let error = parse(&format!("{base}{more}"), Path::new("/x")).unwrap_err();
        assert!(error.message.contains(expected), "{more}: {error}");
        assert!([Kind::Invalid, Kind::NotFound].contains(&error.kind), "{more}: {error:?}");
    }
    for (text, expected) in [
        ("", "name"),
        ("name = \"../x\"\nmodel = \"data24\"\nports = [\"127.0.0.1:1\"]", "name"),
        ("name = \"x\"\nmodel = \"data25\"\nports = [\"127.0.0.1:1\"]", "data24, data60"),
        ("name = \"x\"\nmodel = \"data24\"\nports = []", "ports"),
        ("name = \"x\"\nmodel = \"data24\"\nports = [\"localhost:1\"]", "ports"),
        ("name = \"x\"\nmodel = \"data24\"\nports = [\"127.0.0.1:{1...7}\"]", "ports"),
        ("name = \"x\"\nmodel = \"data60\"\nports = [\"127.0.0.1:1\"]\n[drive]\nread_iops = 5.0", "disk"),
    ] {
        let error = parse(text, Path::new("/x")).unwrap_err();
        assert!(error.message.contains(expected), "{text}: {error}");
    }
    let far = parse("name = \"x\"\nmodel = \"data24\"\nports = [\"10.0.0.1:1\"]", Path::new("/x")).unwrap();
    assert!(!is_local(&far));
}

#[test]
fn damaged_set_ups_are_read_or_refused() {
    let mut random = ashlar_environment::random::Seeded::new(11);
    let pieces = [
        "0",
        "-",
        "nan",
        "1e99",
        "{1...9}",
        "\"",
        "[[",
        "[drive]\n",
        "GB/s",
        "24",
        "\n",
        "= ",
        "99999999999",
    ];
    let mut read = 0;
    for round in 0..8000 {
        let mut text = SETUPS[round % SETUPS.len()].1.to_owned();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len() as u64) as usize;
            let until = (at + random.below(12) as usize).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(until) {
                text.replace_range(at..until, pieces[random.below(pieces.len() as u64) as usize]);
            }
        }
        if let Ok(setup) = parse(&text, Path::new("/x")) {
            read += 1;
            assert!(setup.blocks() > 0 && setup.size % u64::from(setup.block) == 0);
            assert!((0..setup.ports.len()).all(|p| setup.port_named(&setup.port_name(p)) == Some(p)));
            let model = crate::model::Model::new(&setup);
            assert_eq!(model.drives.len(), setup.bays);
        }
    }
    assert!(read > 100, "{read}");
}
