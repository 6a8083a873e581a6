//! PDUs of NVMe/TCP, byte for byte: TCP 3.6. All integers are little-endian.
//!
//! Invariant: decoding reads only what it is given, and never panics.
//!
//! Must not depend on: sockets, commands.

use ashlar_checksum::{Algorithm, Hasher};

use crate::error::Error;

/// Bytes of the common header (TCP 3.6.1).
pub(crate) const COMMON: usize = 8;
/// Bytes of an `ICReq` and of an `ICResp`.
pub(crate) const IC: usize = 128;
/// Bytes of the header of a `CapsuleCmd`: the common header and the command.
pub(crate) const CAPSULE: usize = 72;
/// Bytes of the headers of `CapsuleResp`, `H2CData`, `C2HData`, `R2T` and `TermReq`.
pub(crate) const SHORT: usize = 24;
/// Bytes of a digest.
pub(crate) const DIGEST: usize = 4;
/// Bytes of data in a command capsule, at most: what the admin queue has (TCP 3.3.1), for every queue.
pub(crate) const IN_CAPSULE: usize = 8192;
/// Bytes of data of a command, at most: MDTS, and the data of one `H2CData`.
pub(crate) const MAX_DATA: usize = 1 << 20;
/// Bytes of the header in error that a `C2HTermReq` repeats, at most (TCP 3.6.2.4).
pub(crate) const MAX_REPEATED: usize = 128;

/// Types of PDUs.
pub(crate) mod kind {
    pub(crate) const IC_REQ: u8 = 0;
    pub(crate) const IC_RESP: u8 = 1;
    pub(crate) const H2C_TERM: u8 = 2;
    pub(crate) const C2H_TERM: u8 = 3;
    pub(crate) const COMMAND: u8 = 4;
    pub(crate) const RESPONSE: u8 = 5;
    pub(crate) const H2C_DATA: u8 = 6;
    pub(crate) const C2H_DATA: u8 = 7;
    pub(crate) const R2T: u8 = 9;
}

/// Flags of PDUs.
pub(crate) mod flag {
    pub(crate) const HEADER_DIGEST: u8 = 1;
    pub(crate) const DATA_DIGEST: u8 = 2;
    pub(crate) const LAST: u8 = 4;
    pub(crate) const SUCCESS: u8 = 8;
}

/// Fatal error statuses of a `C2HTermReq`.
pub(crate) mod fes {
    pub(crate) const INVALID_HEADER: u16 = 1;
    pub(crate) const SEQUENCE: u16 = 2;
    pub(crate) const HEADER_DIGEST: u16 = 3;
    pub(crate) const OUT_OF_RANGE: u16 = 4;
    pub(crate) const LIMIT: u16 = 5;
    pub(crate) const UNSUPPORTED: u16 = 6;
}

pub(crate) fn broken<T>(what: &'static str, fes: u16, at: u32) -> Result<T, Error> {
    Err(Error::Protocol { what, fes, at })
}

/// The CRC-32C of parts, as it is on the wire (TCP 3.3.2).
pub(crate) fn digest(parts: &[&[u8]]) -> [u8; DIGEST] {
    let mut hasher = Hasher::new(Algorithm::Crc32c);
    parts.iter().for_each(|p| hasher.update(p));
    let mut out = [0; DIGEST];
    out.copy_from_slice(hasher.finish().as_bytes());
    // It is little-endian here, and big-endian in `checksum`.
    out.reverse();
    out
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// What both sides agreed on in `ICReq` and `ICResp` (TCP 3.6.2.2, 3.6.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Agreed {
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    /// Data of a `C2HData` begins at a multiple of this many bytes.
    pub(crate) align: usize,
}

/// The common header of a PDU that a host may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Common {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// Bytes of the header, without its digest.
    pub(crate) header: usize,
    /// Where data begins; 0: there is none.
    pub(crate) offset: usize,
    /// Bytes in all.
    pub(crate) len: usize,
}

impl Common {
    /// Reads and checks the common header. `agreed`: none, before `ICResp`.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub(crate) fn decode(bytes: &[u8; COMMON], agreed: Option<&Agreed>) -> Result<Common, Error> {
        let (kind, flags, hlen) = (bytes[0], bytes[1], usize::from(bytes[2]));
        let (pdo, len) = (usize::from(bytes[3]), u32_at(bytes, 4) as usize);
        let header = match (kind, agreed) {
            (kind::IC_REQ, None) => IC,
            (kind::IC_REQ, Some(_)) | (kind::COMMAND | kind::H2C_DATA, None) => {
                return broken("a PDU at a time that is not its own", fes::SEQUENCE, 0);
            }
            (kind::COMMAND, _) => CAPSULE,
            (kind::H2C_DATA | kind::H2C_TERM, _) => SHORT,
            _ => return broken("a PDU of an unknown type", fes::INVALID_HEADER, 0),
        };
        if hlen != header {
            return broken("the length of a header", fes::INVALID_HEADER, 2);
        }
        let plain = Common { kind, flags, header, offset: 0, len };
        let (Some(agreed), kind::COMMAND | kind::H2C_DATA) = (agreed, kind) else {
            let most = if kind == kind::H2C_TERM { SHORT + MAX_REPEATED } else { header };
            if len < header || len > most {
                return broken("the length of a PDU", fes::INVALID_HEADER, 4);
            }
            return Ok(plain);
        };
        let digests = u8::from(agreed.header_digest) | u8::from(agreed.data_digest) << 1;
        let ends = header + if agreed.header_digest { DIGEST } else { 0 };
        if flags & flag::HEADER_DIGEST != digests & flag::HEADER_DIGEST {
            return broken("whether there is a header digest", fes::INVALID_HEADER, 1);
        }
        if len == ends {
            return match kind {
                kind::COMMAND => Ok(plain),
                _ => broken("an H2CData without data", fes::INVALID_HEADER, 4),
            };
        }
        if flags & flag::DATA_DIGEST != digests & flag::DATA_DIGEST {
            return broken("whether there is a data digest", fes::INVALID_HEADER, 1);
        }
        if pdo < ends || !pdo.is_multiple_of(4) {
            return broken("where data begins", fes::INVALID_HEADER, 3);
        }
        let most = if kind == kind::COMMAND { IN_CAPSULE } else { MAX_DATA };
        let tail = if agreed.data_digest { DIGEST } else { 0 };
        match len.checked_sub(pdo + tail) {
            None | Some(0) => broken("the length of a PDU", fes::INVALID_HEADER, 4),
            Some(data) if data > most => broken("a PDU has more data than permitted", fes::LIMIT, 4),
            Some(_) => Ok(Common { offset: pdo, ..plain }),
        }
    }

    /// Bytes of data.
    pub(crate) fn data(&self, agreed: &Agreed) -> usize {
        if self.offset == 0 {
            return 0;
        }
        self.len - self.offset - if agreed.data_digest { DIGEST } else { 0 }
    }
}

/// Reads an `ICReq`.
///
/// # Errors
/// [`Error::Protocol`].
pub(crate) fn ic_req(bytes: &[u8; IC]) -> Result<Agreed, Error> {
    if u16_at(bytes, 8) != 0 {
        return broken("an unknown version of the PDU format", fes::UNSUPPORTED, 8);
    }
    if bytes[10] > 31 {
        return broken("the alignment of data", fes::INVALID_HEADER, 10);
    }
    let dgst = bytes[11];
    Ok(Agreed {
        header_digest: dgst & 1 != 0,
        data_digest: dgst & 2 != 0,
        align: (usize::from(bytes[10]) + 1) * 4,
    })
}

/// A common header, with room for what follows.
pub(crate) fn common(kind: u8, flags: u8, header: usize, offset: usize, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(header + 2 * DIGEST);
    out.extend_from_slice(&[kind, flags, header as u8, offset as u8]);
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out
}

/// An `ICResp`: what was asked for; no alignment is asked of the host.
pub(crate) fn ic_resp(agreed: &Agreed) -> Vec<u8> {
    let mut out = common(kind::IC_RESP, 0, IC, 0, IC);
    let digests = u8::from(agreed.header_digest) | u8::from(agreed.data_digest) << 1;
    out.extend_from_slice(&[0, 0, 0, digests]);
    out.extend_from_slice(&(MAX_DATA as u32).to_le_bytes());
    out.resize(IC, 0);
    out
}

/// A `C2HTermReq` that repeats the header in error.
pub(crate) fn c2h_term(fes: u16, at: u32, header: &[u8]) -> Vec<u8> {
    term(kind::C2H_TERM, fes, at, header)
}

/// An `H2CTermReq` that repeats the header in error.
pub(crate) fn h2c_term(fes: u16, at: u32, header: &[u8]) -> Vec<u8> {
    term(kind::H2C_TERM, fes, at, header)
}

fn term(kind: u8, fes: u16, at: u32, header: &[u8]) -> Vec<u8> {
    let repeated = &header[..header.len().min(MAX_REPEATED)];
    let mut out = common(kind, 0, SHORT, 0, SHORT + repeated.len());
    out.extend_from_slice(&fes.to_le_bytes());
    out.extend_from_slice(&at.to_le_bytes());
    out.resize(SHORT, 0);
    out.extend_from_slice(repeated);
    out
}

fn sealed(mut header: Vec<u8>, agreed: &Agreed) -> Vec<u8> {
    if agreed.header_digest {
        let sum = digest(&[&header]);
        header.extend_from_slice(&sum);
    }
    header
}

fn header_len(agreed: &Agreed) -> usize {
    SHORT + if agreed.header_digest { DIGEST } else { 0 }
}

/// A `CapsuleResp` with its completion.
pub(crate) fn response(completion: &[u8; 16], agreed: &Agreed) -> Vec<u8> {
    let flags = u8::from(agreed.header_digest);
    let mut out = common(kind::RESPONSE, flags, SHORT, 0, header_len(agreed));
    out.extend_from_slice(completion);
    sealed(out, agreed)
}

/// An `R2T` for all data of a command.
pub(crate) fn r2t(command: u16, tag: u16, len: u32, agreed: &Agreed) -> Vec<u8> {
    let flags = u8::from(agreed.header_digest);
    let mut out = common(kind::R2T, flags, SHORT, 0, header_len(agreed));
    out.extend_from_slice(&command.to_le_bytes());
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.resize(SHORT, 0);
    sealed(out, agreed)
}

/// What comes before the data of a `C2HData` that has all data of a command, and after it. `success`: no `CapsuleResp` follows.
pub(crate) fn c2h_data(command: u16, data: &[u8], success: bool, agreed: &Agreed) -> (Vec<u8>, Vec<u8>) {
    let offset = header_len(agreed).next_multiple_of(agreed.align);
    let tail = if agreed.data_digest { DIGEST } else { 0 };
    let mut flags = flag::LAST | u8::from(agreed.header_digest) | u8::from(agreed.data_digest) << 1;
    if success {
        flags |= flag::SUCCESS;
    }
    let mut out = common(kind::C2H_DATA, flags, SHORT, offset, offset + data.len() + tail);
    out.extend_from_slice(&command.to_le_bytes());
    out.resize(16, 0);
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.resize(SHORT, 0);
    let mut out = sealed(out, agreed);
    out.resize(offset, 0);
    let end = if agreed.data_digest { digest(&[data]).to_vec() } else { Vec::new() };
    (out, end)
}

/// The header of an `H2CData`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct H2cData {
    pub(crate) command: u16,
    pub(crate) tag: u16,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) last: bool,
}

impl H2cData {
    pub(crate) fn decode(bytes: &[u8; SHORT]) -> H2cData {
        H2cData {
            command: u16_at(bytes, 8),
            tag: u16_at(bytes, 10),
            offset: u32_at(bytes, 12) as usize,
            len: u32_at(bytes, 16) as usize,
            last: bytes[1] & flag::LAST != 0,
        }
    }
}
