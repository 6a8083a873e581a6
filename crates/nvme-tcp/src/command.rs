//! Commands and completions, byte for byte: Base 3.3.3 (figures "Common Command Format", "Common Completion Queue Entry
//! Layout"), Base 4.1.2 (SGLs). All integers are little-endian.
//!
//! Invariant: decoding never panics.
//!
//! Must not depend on: sockets, namespaces.

use crate::pdu::{u16_at, u32_at, u64_at};
use crate::status;

/// Bytes of a command.
pub(crate) const SQE: usize = 64;

/// Opcodes of the admin queue (Base 5).
pub(crate) mod admin {
    pub(crate) const GET_LOG_PAGE: u8 = 0x02;
    pub(crate) const IDENTIFY: u8 = 0x06;
    pub(crate) const ABORT: u8 = 0x08;
    pub(crate) const SET_FEATURES: u8 = 0x09;
    pub(crate) const GET_FEATURES: u8 = 0x0a;
    pub(crate) const ASYNC_EVENT: u8 = 0x0c;
    pub(crate) const KEEP_ALIVE: u8 = 0x18;
    pub(crate) const FABRICS: u8 = 0x7f;
}

/// Types of fabrics commands (Base 6).
pub(crate) mod fabrics {
    pub(crate) const PROPERTY_SET: u8 = 0x00;
    pub(crate) const CONNECT: u8 = 0x01;
    pub(crate) const PROPERTY_GET: u8 = 0x04;
    pub(crate) const AUTHENTICATION_SEND: u8 = 0x05;
    pub(crate) const AUTHENTICATION_RECEIVE: u8 = 0x06;
}

/// Opcodes of I/O queues (NVM 3.2, Base 7).
pub(crate) mod io {
    pub(crate) const FLUSH: u8 = 0x00;
    pub(crate) const WRITE: u8 = 0x01;
    pub(crate) const READ: u8 = 0x02;
    pub(crate) const COMPARE: u8 = 0x05;
    pub(crate) const WRITE_ZEROES: u8 = 0x08;
    pub(crate) const DATASET_MANAGEMENT: u8 = 0x09;
    pub(crate) const RESERVATION_REGISTER: u8 = 0x0d;
    pub(crate) const RESERVATION_REPORT: u8 = 0x0e;
    pub(crate) const RESERVATION_ACQUIRE: u8 = 0x11;
    pub(crate) const RESERVATION_RELEASE: u8 = 0x15;
}

/// The first SGL descriptor: where the host has the data.
const SGL_DATA_IN_CAPSULE: u8 = 0x01;
const SGL_TRANSPORT: u8 = 0x5a;

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Command(pub(crate) [u8; SQE]);

/// How data of a command travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transfer {
    /// None does.
    None,
    /// It came with the command.
    InCapsule,
    /// The target asks for it.
    FromHost(usize),
    /// The target sends it; the host has room for so many bytes.
    ToHost(usize),
}

impl Command {
    pub(crate) fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// The type of a fabrics command.
    pub(crate) fn fabrics_type(&self) -> u8 {
        self.0[4]
    }

    pub(crate) fn id(&self) -> u16 {
        u16_at(&self.0, 2)
    }

    pub(crate) fn nsid(&self) -> u32 {
        u32_at(&self.0, 4)
    }

    /// Command dword 10 to 15.
    pub(crate) fn dword(&self, number: usize) -> u32 {
        u32_at(&self.0, 4 * number)
    }

    /// Command dwords `number` and the next one.
    pub(crate) fn quadword(&self, number: usize) -> u64 {
        u64_at(&self.0, 4 * number)
    }

    /// How its data travels. `here`: bytes that came with it. The direction is in the lowest two bits of the opcode, or of the
    /// type of a fabrics command (Base 3.3.3.1).
    ///
    /// # Errors
    /// A status.
    pub(crate) fn transfer(&self, here: usize, most: usize) -> Result<Transfer, u16> {
        let direction =
            if self.opcode() == admin::FABRICS { self.fabrics_type() & 3 } else { self.opcode() & 3 };
        let (address, len) = (u64_at(&self.0, 24), u32_at(&self.0, 32) as usize);
        if len == 0 || direction == 0 {
            return if here > 0 { Err(status::SGL_LENGTH) } else { Ok(Transfer::None) };
        }
        match (self.0[39], direction) {
            (SGL_DATA_IN_CAPSULE, 1) if address != 0 => Err(status::SGL_OFFSET),
            (SGL_DATA_IN_CAPSULE, 1) if len != here => Err(status::SGL_LENGTH),
            (SGL_DATA_IN_CAPSULE, 1) => Ok(Transfer::InCapsule),
            (SGL_TRANSPORT, 1 | 2) if here > 0 => Err(status::SGL_TYPE),
            (SGL_TRANSPORT, 1 | 2) if len > most => Err(status::INVALID_FIELD),
            (SGL_TRANSPORT, 1) => Ok(Transfer::FromHost(len)),
            (SGL_TRANSPORT, 2) => Ok(Transfer::ToHost(len)),
            _ => Err(status::SGL_TYPE),
        }
    }
}

/// What a command answers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Dwords 0 and 1 of the completion.
    pub(crate) result: u64,
    /// For the host.
    pub(crate) data: Vec<u8>,
}

impl Answer {
    pub(crate) fn failed(status: u16) -> Answer {
        Answer { status, ..Answer::default() }
    }

    pub(crate) fn with(result: u64) -> Answer {
        Answer { result, ..Answer::default() }
    }

    pub(crate) fn data(data: Vec<u8>) -> Answer {
        Answer { data, ..Answer::default() }
    }
}

/// A completion.
pub(crate) fn completion(result: u64, head: u16, queue: u16, command: u16, status: u16) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&result.to_le_bytes());
    out[8..10].copy_from_slice(&head.to_le_bytes());
    out[10..12].copy_from_slice(&queue.to_le_bytes());
    out[12..14].copy_from_slice(&command.to_le_bytes());
    out[14..].copy_from_slice(&(status << 1).to_le_bytes());
    out
}
