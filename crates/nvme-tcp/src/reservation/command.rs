//! Reservation commands (Base 7.2 to 7.5): their fields, what they do, and the data structure of Reservation Report.
//!
//! Invariants: decoding never panics; fields that ask for what is not there are refused before anything changes: a state that persists
//! through a loss of power, identifiers of hosts of 64 bits, keys that are ignored where a key is needed.
//!
//! Must not depend on: queues, how a namespace is found.

use crate::command::{Command, io};
use crate::pdu::u64_at;
use crate::reservation::Reservations;
use crate::reservation::kind::ReservationType;
use crate::reservation::notice::Notice;
use crate::reservation::rights::HostId;
use crate::reservation::state::{Refusal, ReservationStatus, State};
use crate::status;

/// RESCAP of a namespace: every type, Ignore Existing Key as since version 1.3; nothing persists through a loss of power.
pub(crate) const CAPABILITIES: u8 = 0xfe;
/// Bytes of the data of Register and Acquire: two keys.
const KEYS: usize = 16;
/// Bytes of the data of Release: a key.
const KEY: usize = 8;
/// Bytes of the header of an extended report, and of what it says of a registrant.
const HEADER: usize = 64;
const ENTRY: usize = 64;
/// The number of the controller of a registrant, with dynamic controllers.
const DYNAMIC: u16 = 0xffff;

/// Bits of dword 10.
mod bit {
    pub(super) const IGNORE_KEY: u32 = 1 << 3;
    /// Change Persist Through Power Loss State, in bits 30 and 31: as it is; 1 is reserved; off; on.
    pub(super) const PERSIST_SAME: u32 = 0;
    pub(super) const PERSIST_OFF: u32 = 2;
}

/// What a command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    Register {
        key: u64,
    },
    /// `current`: the key that the host has to have; none: it is not asked for.
    Unregister {
        current: Option<u64>,
    },
    Replace {
        current: Option<u64>,
        key: u64,
    },
    Acquire {
        key: u64,
        kind: ReservationType,
    },
    /// Commands that a host has in progress are waited for, with and without abort.
    Preempt {
        key: u64,
        of: u64,
        kind: ReservationType,
    },
    Release {
        key: u64,
        kind: ReservationType,
    },
    Clear {
        key: u64,
    },
    /// `len`: the bytes of the answer.
    Report {
        len: usize,
    },
}

/// Whether a command is one of reservations.
pub(crate) fn concerns(opcode: u8) -> bool {
    [io::RESERVATION_REGISTER, io::RESERVATION_REPORT, io::RESERVATION_ACQUIRE, io::RESERVATION_RELEASE]
        .contains(&opcode)
}

impl Request {
    /// Reads a command and its data. `room`: bytes that the host has room for.
    ///
    /// # Errors
    /// A status.
    pub(crate) fn decode(command: &Command, data: &[u8], room: usize) -> Result<Request, u16> {
        let dword = command.dword(10);
        let needed = match command.opcode() {
            io::RESERVATION_REPORT => 0,
            io::RESERVATION_RELEASE => KEY,
            _ => KEYS,
        };
        if data.len() < needed {
            return Err(status::SGL_LENGTH);
        }
        let ignore = dword & bit::IGNORE_KEY != 0;
        let kind = ReservationType::of_code((dword >> 8) as u8).ok_or(status::INVALID_FIELD);
        let key = |at: usize| u64_at(data, at);
        if command.opcode() == io::RESERVATION_REGISTER {
            if ![bit::PERSIST_SAME, bit::PERSIST_OFF].contains(&(dword >> 30)) {
                return Err(status::INVALID_FIELD);
            }
            let current = (!ignore).then(|| key(0));
            return match dword & 7 {
                0 => Ok(Request::Register { key: key(8) }),
                1 => Ok(Request::Unregister { current }),
                2 => Ok(Request::Replace { current, key: key(8) }),
                _ => Err(status::INVALID_FIELD),
            };
        }
        if command.opcode() == io::RESERVATION_REPORT {
            if command.dword(11) & 1 == 0 {
                return Err(status::HOST_IDENTIFIER_FORMAT);
            }
            let len = (u64::from(dword) + 1) * 4;
            return match usize::try_from(len) {
                Ok(len) if len <= room => Ok(Request::Report { len }),
                _ => Err(status::SGL_LENGTH),
            };
        }
        if ignore {
            return Err(status::INVALID_FIELD);
        }
        match (command.opcode(), dword & 7) {
            (io::RESERVATION_ACQUIRE, 0) => Ok(Request::Acquire { key: key(0), kind: kind? }),
            (io::RESERVATION_ACQUIRE, 1 | 2) => Ok(Request::Preempt { key: key(0), of: key(8), kind: kind? }),
            (io::RESERVATION_RELEASE, 0) => Ok(Request::Release { key: key(0), kind: kind? }),
            (io::RESERVATION_RELEASE, 1) => Ok(Request::Clear { key: key(0) }),
            _ => Err(status::INVALID_FIELD),
        }
    }

    /// Executes it for a host, without waiting for the I/O commands of before: the data of the answer.
    ///
    /// # Errors
    /// A status.
    pub(crate) fn perform(
        self,
        reservations: &Reservations,
        host: &HostId,
        nqn: &str,
    ) -> Result<Vec<u8>, u16> {
        if let Request::Report { len } = self {
            return Ok(report(&reservations.status(), len));
        }
        if *host == [0; 16] {
            // It stands for no host, so nothing can be reserved for it.
            return Err(status::COMMAND_SEQUENCE);
        }
        reservations.change(|state| self.apply(state, host, nqn)).map(|()| Vec::new()).map_err(of_refusal)
    }

    /// Its effect.
    pub(crate) fn apply(self, state: &mut State, host: &HostId, nqn: &str) -> Result<Vec<Notice>, Refusal> {
        match self {
            Request::Register { key } => state.register(host, nqn, key),
            Request::Unregister { current } => state.unregister(host, current),
            Request::Replace { current, key } => state.replace(host, current, key),
            Request::Acquire { key, kind } => state.acquire(host, key, kind),
            Request::Preempt { key, of, kind } => state.preempt(host, key, of, kind),
            Request::Release { key, kind } => state.release(host, key, kind),
            Request::Clear { key } => state.clear(host, key),
            Request::Report { .. } => Ok(Vec::new()),
        }
    }
}

fn of_refusal(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::Conflict => status::RESERVATION_CONFLICT,
        Refusal::Invalid => status::INVALID_FIELD,
        Refusal::Full => status::INTERNAL | status::DNR,
    }
}

/// The extended data structure of Reservation Report, cut or filled with zeros to `len` bytes.
pub(crate) fn report(status: &ReservationStatus, len: usize) -> Vec<u8> {
    let mut out = vec![0; HEADER];
    out[..4].copy_from_slice(&status.generation.to_le_bytes());
    out[4] = status.kind.map_or(0, ReservationType::code);
    out[5..7].copy_from_slice(&(status.registrants.len() as u16).to_le_bytes());
    for registrant in &status.registrants {
        let mut entry = [0; ENTRY];
        entry[..2].copy_from_slice(&DYNAMIC.to_le_bytes());
        entry[2] = u8::from(registrant.holder);
        entry[8..16].copy_from_slice(&registrant.key.to_le_bytes());
        entry[16..32].copy_from_slice(&registrant.host);
        out.extend_from_slice(&entry);
    }
    out.resize(len, 0);
    out
}
