//! By what hosts know drives and namespaces.
//!
//! A drive is a subsystem of its own, with the serial number of the drive: its namespaces share the subsystem, and so the
//! failure domain. Identities come from the name of the enclosure, the seed, the bay and the number: they are the same after
//! every restart and at every port, and differ between enclosures of different names.
//!
//! Must not depend on: who asks.

use crate::setup::Setup;

fn hash(setup: &Setup, what: &str, bay: usize, nsid: u32) -> [u8; 32] {
    let text = format!("ashlar virtual enclosure\n{}\n{}\n{what}\n{bay}\n{nsid}", setup.name, setup.seed);
    ashlar_checksum::sha256(text.as_bytes())
}

/// 16 bytes as a UUID of version 8 (RFC 9562).
pub(crate) fn uuid_bytes(sum: &[u8; 32]) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&sum[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

/// With hyphens.
pub(crate) fn uuid_text(id: &[u8; 16]) -> String {
    let hex = hex::encode(id);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The name of the subsystem that a drive is.
pub(crate) fn nqn(setup: &Setup, bay: usize) -> String {
    let id = uuid_bytes(&hash(setup, "drive", bay, 0));
    format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid_text(&id))
}

/// The serial number of a drive: 16 characters, which end with its bay.
pub(crate) fn serial(setup: &Setup, bay: usize) -> String {
    let sum = hash(setup, "enclosure", 0, 0);
    format!("VE{}{bay:04}", hex::encode_upper(&sum[..5]))
}

/// The model of a drive: at most 40 characters.
pub(crate) fn model(setup: &Setup) -> String {
    let mut text = format!("{} virtual drive 1:{}", setup.title, setup.scale);
    text.truncate(40);
    text
}

/// The NGUID and UUID of a namespace.
pub(crate) fn namespace(setup: &Setup, bay: usize, nsid: u32) -> [u8; 16] {
    uuid_bytes(&hash(setup, "namespace", bay, nsid))
}

/// The EUI-64 of a namespace: not that of a registered maker, as the local bit of its first byte says.
pub(crate) fn eui64(setup: &Setup, bay: usize, nsid: u32) -> [u8; 8] {
    let mut id = [0; 8];
    id.copy_from_slice(&hash(setup, "eui", bay, nsid)[..8]);
    id[0] = id[0] & 0xfc | 0x02;
    id
}
