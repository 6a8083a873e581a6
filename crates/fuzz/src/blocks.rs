//! Block devices, block arrays and virtual enclosures: what is read from a device with files on it, what is read from members of drive groups and from set-ups, and what NBD clients, NVMe
//! hosts and NVMe targets send.
//!
//! Invariant: a target calls only public functions of the crates.

use ashlar_machine::fuzzed_store;
use ashlar_nbd::fuzzed as nbd;
use ashlar_nvme_tcp::fuzzed as nvme;
use ashlar_nvme_tcp::host::fuzzed as host;
use ashlar_raid::fuzzed as raid;
use ashlar_vhost_user::fuzzed as vhost_user;

use crate::target::Target;

const TOKENS: &[&[u8]] = &[&[0xff; 8], &[0x80; 8], &[0; 8], &[1], &[0, 1], &[0xff, 0xff]];

/// Every target of this file.
pub fn all() -> Vec<Target> {
    vec![
        Target {
            name: "drive-on-device",
            seeds: fuzzed_store::samples(),
            tokens: TOKENS,
            run: fuzzed_store::run,
        },
        Target { name: "raid-superblock", seeds: raid::superblocks(), tokens: TOKENS, run: raid::superblock },
        Target { name: "raid-directory", seeds: raid::directories(), tokens: TOKENS, run: raid::directory },
        Target {
            name: "raid-journal-head",
            seeds: raid::journal_heads(),
            tokens: TOKENS,
            run: raid::journal_head,
        },
        Target {
            name: "raid-journal-entry",
            seeds: raid::journal_entries(),
            tokens: TOKENS,
            run: raid::journal_entry,
        },
        Target {
            name: "raid-checksum-page",
            seeds: raid::checksum_pages(),
            tokens: TOKENS,
            run: raid::checksum_page,
        },
        Target { name: "raid-thin-map", seeds: raid::thin_maps(), tokens: TOKENS, run: raid::thin_map },
        Target { name: "raid-bitmap", seeds: raid::bitmaps(), tokens: TOKENS, run: raid::bitmap },
        Target { name: "nbd-option", seeds: nbd::option_samples(), tokens: TOKENS, run: nbd::options },
        Target {
            name: "nbd-connection",
            seeds: nbd::connections(),
            tokens: &[
                b"IHAVEOPT",
                b"memory",
                b"base:allocation",
                &[0x25, 0x60, 0x95, 0x13],
                &[0xff; 4],
                &[0; 4],
            ],
            run: nbd::connection,
        },
        Target {
            name: "vhost-user-guest",
            seeds: vhost_user::guests(),
            tokens: &[&[0, 2, 0, 0], &[1, 0, 2, 0], &[3, 0, 1, 0], &[4, 0, 0, 0], &[0xff; 8], &[0; 8]],
            run: |input| {
                vhost_user::guest(input);
            },
        },
        Target {
            name: "fabric-set-up",
            seeds: ashlar_fabric::SETUPS.iter().map(|s| s.1.as_bytes().to_vec()).collect(),
            tokens: &[
                b"scale = ",
                b"[drive]\n",
                b"read_us = [[1, 2]]\n",
                b"[[faults]]\nfault = \"lost-write\"\nbay = 1\nnamespace = 1\n",
                b"blocks = { rate = 0.5 }\n",
                b"{1...9}",
                b"GB/s",
                b"nan",
            ],
            run: set_up,
        },
        Target { name: "nvme-header", seeds: nvme::headers(), tokens: TOKENS, run: nvme::header },
        Target {
            name: "nvme-connection",
            seeds: nvme::connections(),
            tokens: &[
                &[4, 0, 72, 0, 72, 0, 0, 0],
                &[6, 4, 24, 24],
                &[0x7f, 0x40],
                &[0x5a],
                &[0xff; 4],
                &[0; 4],
                &[1],
            ],
            run: nvme::connection,
        },
        Target {
            name: "nvme-authentication",
            seeds: nvme::authentication_messages(),
            tokens: TOKENS,
            run: nvme::authentication,
        },
        Target {
            name: "nvme-hosts",
            seeds: nvme::hosts_files(),
            tokens: &[b"[[host]]\n", b"DHHC-1:00:", b"dhchap_hash = ", b"\"null\"", b"nqn.", b"tls_key = "],
            run: nvme::hosts,
        },
        Target {
            name: "nvme-tls-hello",
            seeds: nvme::tls_hellos(),
            tokens: &[
                b"NVMe1R01 nqn.",
                b"NVMe0R02 nqn.",
                b" ",
                b"NVMeTLSkey-1:00:",
                &[0, 41],
                &[0xff; 2],
                &[0; 4],
            ],
            run: nvme::tls_hello,
        },
        Target {
            name: "nvme-reservation",
            seeds: nvme::reservation_commands(),
            tokens: &[&[1, 0, 0, 0, 0, 1], &[2, 1, 1, 1, 2, 1], &[3, 2, 0, 1], &[8], &[0], &[0xc0]],
            run: nvme::reservations,
        },
        Target { name: "nvme-host-header", seeds: host::headers(), tokens: TOKENS, run: host::header },
        Target {
            name: "nvme-host-structure",
            seeds: host::structure_samples(),
            tokens: TOKENS,
            run: host::structures,
        },
        Target {
            name: "nvme-host-connection",
            seeds: host::connections(),
            tokens: &[
                &[5, 0, 24, 0, 24, 0, 0, 0],
                &[7, 4, 24, 24],
                &[9, 0, 24, 0, 24, 0, 0, 0],
                &[0, 4],
                &[1, 4],
                &[0xff; 4],
                &[0; 4],
            ],
            run: host::connection,
        },
    ]
}

/// A set-up that is read means the same at every call, and nothing in it is out of bounds.
fn set_up(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let folder = std::path::Path::new("/folder");
    let Ok(setup) = ashlar_fabric::parse(text, folder) else { return };
    assert!(setup.blocks() > 0 && setup.size % u64::from(setup.block) == 0);
    for port in 0..setup.ports.len() {
        assert_eq!(setup.port_named(&setup.port_name(port)), Some(port));
        for bay in 1..=setup.bays {
            let seen = setup.visible("nqn.host", port, bay);
            assert!(seen.iter().all(|n| (1..=setup.namespaces).contains(n)));
        }
    }
    let _ = ashlar_fabric::is_local(&setup);
}
