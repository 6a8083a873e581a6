//! By what hosts know groups and virtual drives: names, numbers and identities of NVMe.
//!
//! Invariants: they are the same after every restart and on every machine, as they come from the superblock: a host that knows a
//! namespace finds the same data in it. Two virtual drives of a group never have the same number at the same time.
//!
//! Must not depend on: who asks.

use ashlar_raid::{Id, Superblock, Volume};

/// Blocks of 4 KiB in 1 MiB: a virtual drive begins at a multiple of them.
const PER_MIB: u64 = 256;

/// An identity in the form of RFC 9562, with hyphens.
pub(crate) fn uuid(id: &Id) -> String {
    let hex = hex::encode(id);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The name of the subsystem that a group is.
pub(crate) fn nqn(group: &Id) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid(group))
}

/// The number of a virtual drive as a namespace: the MiB at which it begins in its group, from 1. No other one of the group can
/// have it as long as it exists, and it needs no place in the superblock. 0: it begins too far away for a number.
pub(crate) fn number(volume: &Volume) -> u32 {
    let number = u32::try_from(volume.start / PER_MIB + 1).unwrap_or(u32::MAX);
    if number == u32::MAX { 0 } else { number }
}

/// The identity of a virtual drive, which is that of its NGUID and of its UUID: version 8, from the group's and its name.
pub(crate) fn identity(group: &Id, volume: &str) -> Id {
    let sum = ashlar_checksum::sha256(&[b"ashlar virtual drive", &group[..], volume.as_bytes()].concat());
    let mut id = Id::default();
    id.copy_from_slice(&sum[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

/// Number and identity of a virtual drive.
pub(crate) fn known_as(superblock: &Superblock, volume: &str) -> (u32, Id) {
    let found = superblock.volumes.iter().find(|v| v.name == volume);
    (found.map_or(0, number), identity(&superblock.group, volume))
}
