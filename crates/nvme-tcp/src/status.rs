//! Status codes of completions: Base 4.6.1 (figures "Generic Command Status Values" and following), NVM 3.1.
//!
//! A status is `type << 8 | code`; [`DNR`] is its bit 14. A completion has it shifted by one, above the phase tag.
//!
//! Must not depend on: anything.

/// Do not retry: the same command fails again.
pub(crate) const DNR: u16 = 1 << 14;

pub(crate) const SUCCESS: u16 = 0;
pub(crate) const INVALID_OPCODE: u16 = 0x001 | DNR;
pub(crate) const INVALID_FIELD: u16 = 0x002 | DNR;
/// Internal error. A repetition may succeed.
pub(crate) const INTERNAL: u16 = 0x006;
pub(crate) const INVALID_NAMESPACE: u16 = 0x00b | DNR;
pub(crate) const COMMAND_SEQUENCE: u16 = 0x00c | DNR;
pub(crate) const SGL_LENGTH: u16 = 0x00f | DNR;
pub(crate) const SGL_TYPE: u16 = 0x011 | DNR;
pub(crate) const SGL_OFFSET: u16 = 0x016 | DNR;
/// The command has identifiers of hosts of 64 bits, and the controller those of 128 bits.
pub(crate) const HOST_IDENTIFIER_FORMAT: u16 = 0x018 | DNR;
pub(crate) const KEEP_ALIVE_INVALID: u16 = 0x01a | DNR;
pub(crate) const NAMESPACE_WRITE_PROTECTED: u16 = 0x020 | DNR;
/// A data digest was wrong: a repetition may succeed.
pub(crate) const TRANSIENT_TRANSPORT: u16 = 0x022;
pub(crate) const LBA_RANGE: u16 = 0x080 | DNR;
pub(crate) const CAPACITY: u16 = 0x081 | DNR;
pub(crate) const RESERVATION_CONFLICT: u16 = 0x083 | DNR;

pub(crate) const ASYNC_LIMIT: u16 = 0x105 | DNR;
pub(crate) const INVALID_LOG_PAGE: u16 = 0x109 | DNR;
pub(crate) const FEATURE_NOT_SAVEABLE: u16 = 0x10d | DNR;
pub(crate) const FEATURE_NOT_CHANGEABLE: u16 = 0x10e | DNR;

pub(crate) const CONNECT_FORMAT: u16 = 0x180 | DNR;
/// No room for another controller: the host may try again.
pub(crate) const CONNECT_BUSY: u16 = 0x181;
/// A parameter of Connect is wrong; the result says which.
pub(crate) const CONNECT_PARAMETER: u16 = 0x182;

/// The host may not connect.
pub(crate) const CONNECT_HOST: u16 = 0x184 | DNR;
/// The queue is not authenticated (Base 4.6.1.2).
pub(crate) const AUTHENTICATION_REQUIRED: u16 = 0x191 | DNR;

/// Path related: another port may execute the command (Base 4.6.1.4).
pub(crate) const ANA_PERSISTENT_LOSS: u16 = 0x301;
pub(crate) const ANA_INACCESSIBLE: u16 = 0x302;
pub(crate) const ANA_TRANSITION: u16 = 0x303;

pub(crate) const WRITE_FAULT: u16 = 0x280 | DNR;
pub(crate) const UNRECOVERED_READ: u16 = 0x281 | DNR;
pub(crate) const COMPARE_FAILURE: u16 = 0x285 | DNR;

/// What a status means, for people: its name in the specification, as far as hosts often meet it.
pub(crate) fn describe(status: u16) -> String {
    let name = match status & !(DNR | 3 << 11 | 1 << 13) | DNR {
        INVALID_OPCODE => "Invalid Command Opcode",
        INVALID_FIELD => "Invalid Field in Command",
        0x4006 => "Internal Error",
        INVALID_NAMESPACE => "Invalid Namespace or Format: there is no namespace of this number",
        COMMAND_SEQUENCE => "Command Sequence Error",
        NAMESPACE_WRITE_PROTECTED => "Namespace is Write Protected",
        0x4022 => "Transient Transport Error",
        0x4082 => "Namespace Not Ready",
        LBA_RANGE => "LBA Out of Range",
        CAPACITY => "Capacity Exceeded",
        RESERVATION_CONFLICT => "Reservation Conflict: another host has reserved the namespace",
        0x4181 => "Connect Controller Busy",
        0x4182 => "Connect Invalid Parameters",
        CONNECT_HOST => "Connect Invalid Host: it may not use the target",
        AUTHENTICATION_REQUIRED => "Authentication Required",
        WRITE_FAULT => "Write Fault",
        UNRECOVERED_READ => "Unrecovered Read Error",
        0x4301 => "Asymmetric Access Persistent Loss",
        0x4302 => "Asymmetric Access Inaccessible",
        0x4303 => "Asymmetric Access Transition",
        _ => "a failure",
    };
    format!("{name} (status {:#05x})", status & 0x7ff)
}

/// Whether the same command may succeed later, or elsewhere. Not all targets say of a conflict that it does not.
pub(crate) fn may_repeat(status: u16) -> bool {
    status & DNR == 0 && !is_conflict(status)
}

/// Whether another host has reserved the namespace.
pub(crate) fn is_conflict(status: u16) -> bool {
    status & 0x7ff == RESERVATION_CONFLICT & 0x7ff
}

/// Whether the path is what failed, not the command.
pub(crate) fn is_of_path(status: u16) -> bool {
    status & 0x700 == 0x300
}
