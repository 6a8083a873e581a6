//! What hosts send, for the fuzzer and tests.
//!
//! Must not depend on: the server.

use crate::command::{SQE, admin, fabrics, io};
use crate::pdu::{COMMON, DIGEST, IC, SHORT, digest, flag, kind};

/// The name of the subsystem of samples.
pub(crate) const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6d656d6f-7279-806e-616d-657370616365";
/// The name of the host of samples.
pub(crate) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";
/// The number of a controller: any.
pub(crate) const ANY: u16 = 0xffff;

/// Digests of a connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct Digests {
    pub(crate) header: bool,
    pub(crate) data: bool,
}

impl Digests {
    fn flags(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }
}

/// An `ICReq`.
pub(crate) fn ic_req(digests: Digests, align: u8) -> Vec<u8> {
    let mut out = vec![kind::IC_REQ, 0, IC as u8, 0];
    out.extend_from_slice(&(IC as u32).to_le_bytes());
    out.extend_from_slice(&[0, 0, align, digests.flags()]);
    out.resize(IC, 0);
    out
}

/// A PDU with its digests.
pub(crate) fn pdu(kind: u8, flags: u8, body: &[u8], data: &[u8], digests: Digests) -> Vec<u8> {
    let header = COMMON + body.len();
    let offset = header + if digests.header { DIGEST } else { 0 };
    let tail = if digests.data && !data.is_empty() { DIGEST } else { 0 };
    let pdo = if data.is_empty() { 0 } else { offset as u8 };
    let mut out = vec![kind, flags | digests.flags(), header as u8, pdo];
    out.extend_from_slice(&((offset + data.len() + tail) as u32).to_le_bytes());
    out.extend_from_slice(body);
    if digests.header {
        let sum = digest(&[&out]);
        out.extend_from_slice(&sum);
    }
    out.extend_from_slice(data);
    if tail > 0 {
        out.extend_from_slice(&digest(&[data]));
    }
    out
}

/// A command without data.
pub(crate) fn command(opcode: u8, id: u16, nsid: u32, dwords: [u32; 6]) -> [u8; SQE] {
    let mut out = [0; SQE];
    (out[0], out[1]) = (opcode, 0x40);
    out[2..4].copy_from_slice(&id.to_le_bytes());
    out[4..8].copy_from_slice(&nsid.to_le_bytes());
    out[39] = 0x5a;
    for (i, dword) in dwords.into_iter().enumerate() {
        out[40 + 4 * i..44 + 4 * i].copy_from_slice(&dword.to_le_bytes());
    }
    out
}

/// Says where the data of a command is: `here`, in its capsule.
pub(crate) fn with_data(mut command: [u8; SQE], len: u32, here: bool) -> [u8; SQE] {
    command[32..36].copy_from_slice(&len.to_le_bytes());
    command[39] = if here { 1 } else { 0x5a };
    command
}

/// A command capsule.
pub(crate) fn capsule(command: &[u8; SQE], data: &[u8], digests: Digests) -> Vec<u8> {
    pdu(kind::COMMAND, 0, command, data, digests)
}

/// An `H2CData`.
pub(crate) fn h2c(id: u16, tag: u16, offset: u32, data: &[u8], last: bool, digests: Digests) -> Vec<u8> {
    let mut body = Vec::with_capacity(SHORT);
    body.extend_from_slice(&id.to_le_bytes());
    body.extend_from_slice(&tag.to_le_bytes());
    body.extend_from_slice(&offset.to_le_bytes());
    body.extend_from_slice(&(data.len() as u32).to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    pdu(kind::H2C_DATA, if last { flag::LAST } else { 0 }, &body, data, digests)
}

/// A fabrics command: `rest` is what follows its type and reserved bytes, from byte 40 on.
fn fabrics(id: u16, kind: u8, rest: &[u8]) -> [u8; SQE] {
    let mut out = command(admin::FABRICS, id, u32::from(kind), [0; 6]);
    out[40..40 + rest.len()].copy_from_slice(rest);
    out
}

/// A Connect and its data.
pub(crate) fn connect(
    queue: u16,
    controller: u16,
    nqn: &str,
    entries: u16,
    flags: u8,
    kato: u32,
) -> ([u8; SQE], Vec<u8>) {
    let mut rest = vec![0, 0];
    rest.extend_from_slice(&queue.to_le_bytes());
    rest.extend_from_slice(&(entries - 1).to_le_bytes());
    rest.extend_from_slice(&[flags, 0]);
    rest.extend_from_slice(&kato.to_le_bytes());
    let mut data = vec![0; 1024];
    data[15] = 1;
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + nqn.len()].copy_from_slice(nqn.as_bytes());
    data[512..512 + HOST.len()].copy_from_slice(HOST.as_bytes());
    (with_data(fabrics(1, fabrics::CONNECT, &rest), 1024, true), data)
}

/// A Property Get.
pub(crate) fn property_get(id: u16, offset: u32, wide: bool) -> [u8; SQE] {
    let mut rest = vec![u8::from(wide), 0, 0, 0];
    rest.extend_from_slice(&offset.to_le_bytes());
    fabrics(id, fabrics::PROPERTY_GET, &rest)
}

/// A Property Set of four bytes.
pub(crate) fn property_set(id: u16, offset: u32, value: u32) -> [u8; SQE] {
    let mut rest = vec![0, 0, 0, 0];
    rest.extend_from_slice(&offset.to_le_bytes());
    rest.extend_from_slice(&value.to_le_bytes());
    fabrics(id, fabrics::PROPERTY_SET, &rest)
}

/// A value of CC that enables.
pub(crate) const ENABLED: u32 = 1 | 6 << 16 | 4 << 20;

fn identify(id: u16, cns: u32, nsid: u32) -> [u8; SQE] {
    with_data(command(admin::IDENTIFY, id, nsid, [cns, 0, 0, 0, 0, 0]), 4096, false)
}

fn log(id: u16, page: u32) -> [u8; SQE] {
    with_data(command(admin::GET_LOG_PAGE, id, 0, [page | 127 << 16, 0, 0, 0, 0, 0]), 512, false)
}

fn admin_queue(nqn: &str, digests: Digests) -> Vec<u8> {
    let mut out = ic_req(digests, 0);
    let (command, data) = connect(0, ANY, nqn, 32, 0, 5000);
    out.extend(capsule(&command, &data, digests));
    let mut all = vec![property_get(2, 0, true), property_get(3, 8, false), property_set(4, 0x14, ENABLED)];
    all.extend((0..9).map(|cns| identify(5, cns, 1)));
    all.extend([0, 1, 2, 3, 4, 5, 0x0c, 0x70, 0x80].map(|page| log(6, page)));
    for (opcode, dwords) in [
        (admin::SET_FEATURES, [7, 0x0001_0001, 0, 0, 0, 0]),
        (admin::GET_FEATURES, [0x0b, 0, 0, 0, 0, 0]),
        (admin::SET_FEATURES, [0x82, 0x0e, 0, 0, 0, 0]),
        (admin::GET_FEATURES, [0x83, 0, 0, 0, 0, 0]),
        (admin::ASYNC_EVENT, [0; 6]),
        (admin::KEEP_ALIVE, [0; 6]),
        (admin::ABORT, [0x0001_0001, 0, 0, 0, 0, 0]),
    ] {
        all.push(self::command(opcode, 7, 0, dwords));
    }
    all.iter().for_each(|c| out.extend(capsule(c, b"", digests)));
    out
}

fn io_queue(digests: Digests, flags: u8) -> Vec<u8> {
    let mut out = ic_req(digests, 0);
    let (command, data) = connect(1, 1, NQN, 16, flags, 0);
    out.extend(capsule(&command, &data, digests));
    let one = |opcode, id, len, here| with_data(self::command(opcode, id, 1, [1, 0, 0, 0, 0, 0]), len, here);
    out.extend(capsule(&one(io::WRITE, 1, 512, true), &[7; 512], digests));
    out.extend(capsule(&one(io::WRITE, 2, 512, false), b"", digests));
    out.extend(h2c(2, 0, 0, &[8; 256], false, digests));
    out.extend(h2c(2, 0, 256, &[8; 256], true, digests));
    out.extend(capsule(&one(io::READ, 3, 512, false), b"", digests));
    out.extend(capsule(&one(io::COMPARE, 4, 512, true), &[8; 512], digests));
    out.extend(capsule(&one(io::FLUSH, 5, 0, false), b"", digests));
    out.extend(capsule(&one(io::WRITE_ZEROES, 6, 0, false), b"", digests));
    let range = [&[0; 4][..], &1u32.to_le_bytes(), &3u64.to_le_bytes()].concat();
    let trim = with_data(self::command(io::DATASET_MANAGEMENT, 7, 1, [0, 4, 0, 0, 0, 0]), 16, true);
    out.extend(capsule(&trim, &range, digests));
    out.extend(reservation(digests));
    out.extend(pdu(
        kind::H2C_TERM,
        0,
        &[1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        b"",
        Digests::default(),
    ));
    out
}

/// Registers with the key 1, acquires, writes, asks for a report and clears.
fn reservation(digests: Digests) -> Vec<u8> {
    let keys = [1u64, 1].map(u64::to_le_bytes).concat();
    let mut out = Vec::new();
    for (id, opcode, dword, len) in [
        (8, io::RESERVATION_REGISTER, 0, 16),
        (9, io::RESERVATION_ACQUIRE, 1 << 8, 16),
        (10, io::RESERVATION_ACQUIRE, 2 | 2 << 8, 16),
        (11, io::RESERVATION_RELEASE, 2 << 8, 8),
        (12, io::RESERVATION_RELEASE, 1, 8),
    ] {
        let command = self::command(opcode, id, 1, [dword, 0, 0, 0, 0, 0]);
        out.extend(capsule(&with_data(command, len, true), &keys[..len as usize], digests));
    }
    let report = self::command(io::RESERVATION_REPORT, 13, 1, [31, 1, 0, 0, 0, 0]);
    out.extend(capsule(&with_data(report, 128, false), b"", digests));
    out
}

/// Whole connections. The I/O queues are those of controller 1, which is ready.
pub(crate) fn connections() -> Vec<Vec<u8>> {
    let (off, on) = (Digests::default(), Digests { header: true, data: true });
    vec![
        admin_queue(NQN, off),
        admin_queue(NQN, on),
        admin_queue(crate::namespace::DISCOVERY, off),
        io_queue(off, 0),
        io_queue(off, 4),
        io_queue(on, 0),
    ]
}
