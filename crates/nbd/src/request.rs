//! Requests: what is refused at once, how one is executed, and its reply.
//!
//! Invariant: ranges that reach a device are inside of it.
//!
//! Must not depend on: sockets, threads.

use crate::budget::Reservation;
use crate::device::Fault;
use crate::negotiate::Agreed;
use crate::protocol::*;

/// Pieces of an answer about allocation, at most.
const MAX_EXTENTS: usize = 1024;
/// Bytes of a range whose allocation is looked up at once.
const MAX_STATUS: u64 = 1 << 30;
/// Bytes that a request and its reply need beside its data.
const OVERHEAD: u64 = 512;

/// A request that has arrived.
pub(crate) struct Job {
    pub(crate) head: Head,
    /// The data of a write; of a read, as many bytes to be filled.
    pub(crate) data: Vec<u8>,
    /// Why it is refused.
    pub(crate) refused: Option<u32>,
    /// Its memory.
    pub(crate) reserved: Reservation,
}

/// A reply to be sent.
pub(crate) struct Reply {
    pub(crate) head: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// Given back when it was sent.
    #[allow(dead_code, reason = "it counts until it is dropped")]
    pub(crate) reserved: Reservation,
}

/// Why a request is refused, if it is.
pub(crate) fn check(agreed: &Agreed, head: &Head) -> Option<u32> {
    let device = &agreed.export.device;
    let allowed = match head.command {
        command::READ => flag::DF,
        command::WRITE | command::TRIM => flag::FUA,
        command::FLUSH => 0,
        command::WRITE_ZEROES => flag::FUA | flag::NO_HOLE,
        command::BLOCK_STATUS => flag::REQ_ONE,
        _ => return Some(errno::INVALID),
    };
    if head.flags & !allowed != 0 || head.command == command::BLOCK_STATUS && !agreed.allocation {
        return Some(errno::INVALID);
    }
    let changes = matches!(head.command, command::WRITE | command::TRIM | command::WRITE_ZEROES);
    if changes && device.read_only() {
        return Some(errno::PERM);
    }
    if head.command == command::FLUSH {
        return (head.at != 0 || head.len != 0).then_some(errno::INVALID);
    }
    if head.len == 0 {
        return Some(errno::INVALID);
    }
    if matches!(head.command, command::READ | command::WRITE) && head.len > MAX_PAYLOAD {
        return Some(errno::OVERFLOW);
    }
    let inside = head.at.checked_add(u64::from(head.len)).is_some_and(|end| end <= device.size());
    let grows = matches!(head.command, command::WRITE | command::WRITE_ZEROES);
    (!inside).then_some(if grows { errno::NO_SPACE } else { errno::INVALID })
}

/// Bytes of memory that a request takes until its reply is sent.
pub(crate) fn memory(head: &Head, refused: bool) -> u64 {
    OVERHEAD
        + match head.command {
            command::READ | command::WRITE if !refused => u64::from(head.len),
            command::BLOCK_STATUS => MAX_EXTENTS as u64 * 32,
            _ => 0,
        }
}

/// Executes a request.
pub(crate) fn perform(agreed: &Agreed, job: Job) -> Reply {
    let Job { head, data, refused, reserved } = job;
    let result = match refused {
        Some(error) => Err(error),
        None => execute(agreed, &head, data),
    };
    // Reads and block status have structured replies, where those were agreed on; others never have content.
    let structured = agreed.structured && matches!(head.command, command::READ | command::BLOCK_STATUS);
    let (head, data) = match result {
        Err(error) if structured => (error_chunk(error, head.cookie), Vec::new()),
        Err(error) => (simple_reply(error, head.cookie), Vec::new()),
        Ok(data) if !structured => (simple_reply(0, head.cookie), data),
        Ok(data) if head.command == command::READ => {
            let mut out = last_chunk(chunk::OFFSET_DATA, head.cookie, 8 + head.len);
            out.extend_from_slice(&head.at.to_be_bytes());
            (out, data)
        }
        Ok(data) => {
            let kind = if data.is_empty() { chunk::NONE } else { chunk::BLOCK_STATUS };
            (last_chunk(kind, head.cookie, data.len() as u32), data)
        }
    };
    Reply { head, data, reserved }
}

/// The content of the reply, or the error.
fn execute(agreed: &Agreed, head: &Head, data: Vec<u8>) -> Result<Vec<u8>, u32> {
    let device = &agreed.export.device;
    let durable = head.flags & flag::FUA != 0;
    let (at, len) = (head.at, u64::from(head.len));
    let done = match head.command {
        command::READ => {
            let mut out = data;
            return device.read(at, &mut out).map(|()| out).map_err(number);
        }
        command::BLOCK_STATUS => return status(agreed, head),
        command::WRITE => device.write(at, data, durable),
        command::FLUSH => device.flush(),
        command::TRIM => device.trim(at, len, durable),
        command::WRITE_ZEROES => device.zero(at, len, head.flags & flag::NO_HOLE != 0, durable),
        _ => return Err(errno::UNSUPPORTED),
    };
    done.map(|()| Vec::new()).map_err(number)
}

/// Number of the context, and pieces: bytes and state.
fn status(agreed: &Agreed, head: &Head) -> Result<Vec<u8>, u32> {
    let one = head.flags & flag::REQ_ONE != 0;
    let len = u64::from(head.len).min(MAX_STATUS);
    let most = if one { 1 } else { MAX_EXTENTS };
    let extents = agreed.export.device.extents(head.at, len, most).map_err(number)?;
    let mut out = ALLOCATION_ID.to_be_bytes().to_vec();
    let mut left = len;
    for extent in extents.iter().take(most) {
        let piece = extent.len.min(left);
        left -= piece;
        if piece > 0 {
            out.extend_from_slice(&(piece as u32).to_be_bytes());
            out.extend_from_slice(&(if extent.data { 0 } else { HOLE_ZERO }).to_be_bytes());
        }
    }
    // A reply has at least one piece.
    if out.len() == 4 { Err(errno::IO) } else { Ok(out) }
}

fn number(fault: Fault) -> u32 {
    match fault {
        Fault::Io => errno::IO,
        Fault::Gone => errno::SHUTDOWN,
        Fault::NoSpace => errno::NO_SPACE,
        Fault::Invalid => errno::INVALID,
    }
}
