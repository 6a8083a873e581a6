//! What a host does when nothing fails.

use super::rig::*;
use crate::error::Error;
use crate::host::{Address, HostOptions, Identity, discover, list};
use crate::memory::Memory;
use crate::samples::NQN;

#[test]
fn addresses_are_read_and_written() {
    for (text, host, nqn) in [
        (
            "nvme-tcp://10.0.0.1:4420/nqn.2014-08.org.nvmexpress:uuid:1/7",
            "10.0.0.1",
            "nqn.2014-08.org.nvmexpress:uuid:1",
        ),
        ("nvme-tcp://[::1]:4420/nqn.a/b/7", "[::1]", "nqn.a/b"),
        ("nvme-tcp://target.example:4420/nqn.x/7", "target.example", "nqn.x"),
    ] {
        let address: Address = text.parse().unwrap();
        let only = &address.portals[0];
        assert_eq!((only.host.as_str(), address.nqn.as_str(), address.nsid), (host, nqn, 7));
        assert_eq!(address.to_string(), text);
    }
    for text in
        ["nvme-tcp://10.0.0.1:4420,[fe80::1]:4421,b:1/nqn.x/7", "nvme-tcp+discovery://a:8009,b:8009/nqn.x/7"]
    {
        let address: Address = text.parse().unwrap();
        assert_eq!((address.to_string(), address.portals.len() > 1), (text.to_owned(), true));
    }
    for text in [
        "10.0.0.1:4420/nqn.x/7",
        "nvme-tcp://10.0.0.1/nqn.x/7",
        "nvme-tcp://10.0.0.1:0/nqn.x/7",
        "nvme-tcp://10.0.0.1:4420/nqn.x",
        "nvme-tcp://10.0.0.1:4420/nqn.x/0",
        "nvme-tcp://10.0.0.1:4420/nqn.x/4294967295",
        "nvme-tcp://10.0.0.1:4420/other/7",
        "nvme-tcp://::1:4420/nqn.x/7",
        "nvme-tcp://:4420/nqn.x/7",
        "nvme-tcp://a:4420/nqn.\u{7}/7",
        "nvme-tcp://a:4420,/nqn.x/7",
        "nvme-tcp://a:4420,b/nqn.x/7",
        "nvme-tcp://a:4420,a:4420/nqn.x/7",
        "nvme-tcp+other://a:4420/nqn.x/7",
    ] {
        assert!(matches!(text.parse::<Address>(), Err(Error::Address { .. })), "{text}");
    }
}

#[test]
fn blocks_are_written_read_zeroed_and_discarded() {
    for block in [512, 4096] {
        for (header_digest, data_digest) in [(false, false), (true, false), (true, true)] {
            let target = Target::memory(block, (16 << 20) / u64::from(block));
            let namespace = target.namespace(HostOptions { header_digest, data_digest, ..options() });
            assert_eq!((namespace.size(), namespace.facts().block), (16 << 20, block));
            // In the capsule, by R2T, in several H2CData, in several commands.
            for (at, len) in [(0, 4096), (8192, 8192), (16384, 12288), (1 << 20, 1 << 20), (4 << 20, 5 << 20)]
            {
                let data = content(len as u64, len);
                namespace.write(at, &data).unwrap();
                namespace.flush().unwrap();
                let mut back = vec![1; len];
                namespace.read(at, &mut back).unwrap();
                assert!(back == data, "{at} {len}");
            }
            namespace.zero(4 << 20, 3 << 20).unwrap();
            namespace.discard(7 << 20, 1 << 20).unwrap();
            let mut back = vec![1; 5 << 20];
            namespace.read(4 << 20, &mut back).unwrap();
            assert!(back[..4 << 20].iter().all(|b| *b == 0));
            assert!(back[4 << 20..] == content(5 << 20, 5 << 20)[4 << 20..]);
            for (at, len) in [(1, 4096), (0, 100), (16 << 20, 4096), (u64::MAX - 4095, 4096)] {
                assert!(
                    matches!(namespace.read(at, &mut vec![0; len]), Err(Error::Range { .. })),
                    "{at} {len}"
                );
            }
            assert_eq!(namespace.losses(), 0);
        }
    }
}

#[test]
fn many_callers_share_few_places() {
    let target = Target::memory(4096, 4096);
    let namespace = target.namespace(HostOptions { depth: 3, queues: 2, ..options() });
    std::thread::scope(|scope| {
        for caller in 0..16u64 {
            let namespace = &namespace;
            scope.spawn(move || {
                for turn in 0..8 {
                    let data = content(caller * 100 + turn, 1 << 20);
                    namespace.write(caller << 20, &data).unwrap();
                    let mut back = vec![0; 1 << 20];
                    namespace.read(caller << 20, &mut back).unwrap();
                    assert!(back == data);
                }
            });
        }
    });
    namespace.flush().unwrap();
}

#[test]
fn a_target_says_what_it_has() {
    let target = Target::memory(4096, 16);
    let portal = target.address.to_string();
    let found = discover(&portal, &options()).unwrap();
    let of = found.iter().find(|e| !e.discovery).unwrap();
    assert_eq!((of.nqn.as_str(), of.port, of.host.as_str()), (NQN, target.address.port(), "127.0.0.1"));
    let all = list(&portal, NQN, &options()).unwrap();
    assert_eq!(all.len(), 1);
    let (address, facts) = &all[0];
    let facts = facts.as_ref().unwrap();
    assert_eq!((address.nsid, facts.blocks, facts.block), (1, 16, 4096));
    assert_eq!(facts.identity, Identity::Uuid(*b"memory\x80namespace"));
}

#[test]
fn a_subsystem_with_a_namespace_that_is_not_there() {
    let target = Target::of(Memory::new(4096, 16).subsystems(NQN));
    let attach = |nqn: &str, nsid| {
        crate::host::RemoteNamespace::attach(&at(target.address, nqn, nsid), options()).err().unwrap()
    };
    assert!(attach(NQN, 2).to_string().contains("no namespace of this number"));
    assert!(attach("nqn.other", 1).to_string().contains("connect to the subsystem"));
    target.stop();
    assert!(
        matches!(attach(NQN, 1), Error::Connection(e) if e.kind() == std::io::ErrorKind::ConnectionRefused)
    );
}
