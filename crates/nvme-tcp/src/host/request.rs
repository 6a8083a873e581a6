//! Commands that a host sends (Base 3.3.3, 5, 6; NVM 3.2). Identifiers and SGLs are filled in when they are sent.
//!
//! Must not depend on: sockets.

use std::time::Duration;

use crate::auth::message::{MAX_MESSAGE, PROTOCOL, SPECIFIC};
use crate::command::{SQE, admin, fabrics, io};

/// A command, and what travels with it.
#[derive(Clone)]
pub(crate) struct Request<'a> {
    pub(crate) command: [u8; SQE],
    /// For the target.
    pub(crate) data: &'a [u8],
    /// Bytes that the target sends, exactly.
    pub(crate) room: usize,
    /// Time for the answer; none: that of the queue.
    pub(crate) timeout: Option<Duration>,
}

fn plain(opcode: u8, nsid: u32, dwords: [u32; 6]) -> Request<'static> {
    let mut command = [0; SQE];
    // PSDT: an SGL says where data is.
    (command[0], command[1]) = (opcode, 0x40);
    command[4..8].copy_from_slice(&nsid.to_le_bytes());
    for (i, dword) in dwords.into_iter().enumerate() {
        command[40 + 4 * i..44 + 4 * i].copy_from_slice(&dword.to_le_bytes());
    }
    Request { command, data: &[], room: 0, timeout: None }
}

fn of_fabrics(kind: u8, rest: &[u8]) -> Request<'static> {
    let mut out = plain(admin::FABRICS, u32::from(kind), [0; 6]);
    out.command[40..40 + rest.len()].copy_from_slice(rest);
    out
}

/// The data of Connect. `controller`: 0xffff for a new one.
pub(crate) fn connect_data(host_id: &[u8; 16], controller: u16, nqn: &str, host_nqn: &str) -> Vec<u8> {
    let mut out = vec![0; 1024];
    out[..16].copy_from_slice(host_id);
    out[16..18].copy_from_slice(&controller.to_le_bytes());
    out[256..256 + nqn.len()].copy_from_slice(nqn.as_bytes());
    out[512..512 + host_nqn.len()].copy_from_slice(host_nqn.as_bytes());
    out
}

/// Connect of a queue of `entries` entries; `kato` in milliseconds, of the admin queue.
pub(crate) fn connect(queue: u16, entries: u16, kato: u32, data: &[u8]) -> Request<'_> {
    let mut rest = vec![0, 0];
    rest.extend_from_slice(&queue.to_le_bytes());
    rest.extend_from_slice(&(entries - 1).to_le_bytes());
    rest.extend_from_slice(&[0, 0]);
    rest.extend_from_slice(&kato.to_le_bytes());
    Request { data, ..of_fabrics(fabrics::CONNECT, &rest) }
}

fn authentication(kind: u8, len: usize) -> Request<'static> {
    let mut rest = [0; 8];
    (rest[1], rest[2], rest[3]) = (SPECIFIC[0], SPECIFIC[1], PROTOCOL);
    rest[4..].copy_from_slice(&(len as u32).to_le_bytes());
    of_fabrics(kind, &rest)
}

/// Authentication Send of a message.
pub(crate) fn authentication_send(message: &[u8]) -> Request<'_> {
    Request { data: message, ..authentication(fabrics::AUTHENTICATION_SEND, message.len()) }
}

/// Authentication Receive of a message, which is followed by zeros.
pub(crate) fn authentication_receive() -> Request<'static> {
    Request { room: MAX_MESSAGE, ..authentication(fabrics::AUTHENTICATION_RECEIVE, MAX_MESSAGE) }
}

/// Byte offsets of properties (Base 3.1.3).
pub(crate) mod property {
    pub(crate) const CAP: u32 = 0x00;
    pub(crate) const CC: u32 = 0x14;
    pub(crate) const CSTS: u32 = 0x1c;
}

pub(crate) fn property_get(offset: u32, wide: bool) -> Request<'static> {
    let mut rest = vec![u8::from(wide), 0, 0, 0];
    rest.extend_from_slice(&offset.to_le_bytes());
    of_fabrics(fabrics::PROPERTY_GET, &rest)
}

/// Sets a property of four bytes.
pub(crate) fn property_set(offset: u32, value: u32) -> Request<'static> {
    let mut rest = vec![0, 0, 0, 0];
    rest.extend_from_slice(&offset.to_le_bytes());
    rest.extend_from_slice(&value.to_le_bytes());
    of_fabrics(fabrics::PROPERTY_SET, &rest)
}

/// Identify; a structure has 4096 bytes.
pub(crate) fn identify(cns: u8, nsid: u32) -> Request<'static> {
    Request { room: 4096, ..plain(admin::IDENTIFY, nsid, [u32::from(cns), 0, 0, 0, 0, 0]) }
}

/// A part of a log page, whose number may have a log specific parameter above its 8 bits, of `len` bytes from `offset`, which are multiples of 4.
pub(crate) fn log(page: u32, nsid: u32, offset: u64, len: usize) -> Request<'static> {
    let dwords = (len / 4 - 1) as u32;
    let numbers = [page | dwords << 16, dwords >> 16, offset as u32, (offset >> 32) as u32, 0, 0];
    Request { room: len, ..plain(admin::GET_LOG_PAGE, nsid, numbers) }
}

pub(crate) fn set_feature(feature: u8, value: u32) -> Request<'static> {
    plain(admin::SET_FEATURES, 0, [u32::from(feature), value, 0, 0, 0, 0])
}

pub(crate) fn async_event() -> Request<'static> {
    plain(admin::ASYNC_EVENT, 0, [0; 6])
}

pub(crate) fn keep_alive() -> Request<'static> {
    plain(admin::KEEP_ALIVE, 0, [0; 6])
}

fn blocks(opcode: u8, nsid: u32, first: u64, count: u32) -> Request<'static> {
    plain(opcode, nsid, [first as u32, (first >> 32) as u32, (count - 1) & 0xffff, 0, 0, 0])
}

/// Reads `count` blocks, 1 to 65536, of `block` bytes.
pub(crate) fn read(nsid: u32, first: u64, count: u32, block: u32) -> Request<'static> {
    Request { room: count as usize * block as usize, ..blocks(io::READ, nsid, first, count) }
}

/// Writes `count` blocks, 1 to 65536.
pub(crate) fn write(nsid: u32, first: u64, count: u32, data: &[u8]) -> Request<'_> {
    Request { data, ..blocks(io::WRITE, nsid, first, count) }
}

/// Makes `count` blocks, 1 to 65536, read as zeros.
pub(crate) fn write_zeroes(nsid: u32, first: u64, count: u32) -> Request<'static> {
    blocks(io::WRITE_ZEROES, nsid, first, count)
}

pub(crate) fn flush(nsid: u32) -> Request<'static> {
    plain(io::FLUSH, nsid, [0; 6])
}

/// The range of a Dataset Management command (NVM 3.2.3).
pub(crate) fn range(first: u64, count: u32) -> [u8; 16] {
    let mut out = [0; 16];
    out[4..8].copy_from_slice(&count.to_le_bytes());
    out[8..].copy_from_slice(&first.to_le_bytes());
    out
}

/// Deallocates one range.
pub(crate) fn deallocate(nsid: u32, range: &[u8]) -> Request<'_> {
    Request { data: range, ..plain(io::DATASET_MANAGEMENT, nsid, [0, 4, 0, 0, 0, 0]) }
}
