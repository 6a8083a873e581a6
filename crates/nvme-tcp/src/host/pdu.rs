//! PDUs as a host sees them: those that it sends, and those that a controller sends (TCP 3.6).
//!
//! Invariant: decoding reads only what it is given, and never panics.
//!
//! Must not depend on: sockets, commands.

use crate::command::SQE;
use crate::error::Error;
use crate::pdu::{CAPSULE, common};
use crate::pdu::{COMMON, DIGEST, IC, MAX_REPEATED, SHORT, broken, digest, fes, flag, kind, u16_at, u32_at};

const _: () = assert!(COMMON + SQE == CAPSULE);

/// Bytes of data of an `H2CData` that every controller takes (TCP 3.6.2.3).
const LEAST_DATA: u32 = 4096;

/// What both sides agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    /// Data that the host sends begins at a multiple of this many bytes.
    pub(crate) align: usize,
    /// Bytes of data of an `H2CData`, at most.
    pub(crate) max_data: usize,
}

impl Terms {
    fn flags(&self) -> u8 {
        u8::from(self.header_digest) | u8::from(self.data_digest) << 1
    }
}

/// An `ICReq`: no alignment of the controller's data, one `R2T` at a time per command.
pub(crate) fn ic_req(header_digest: bool, data_digest: bool) -> Vec<u8> {
    let mut out = common(kind::IC_REQ, 0, IC, 0, IC);
    out.extend_from_slice(&[0, 0, 0, u8::from(header_digest) | u8::from(data_digest) << 1]);
    out.resize(IC, 0);
    out
}

/// Reads an `ICResp` to an `ICReq` that asked for these digests.
///
/// # Errors
/// [`Error::Protocol`].
pub(crate) fn ic_resp(bytes: &[u8; IC], header_digest: bool, data_digest: bool) -> Result<Terms, Error> {
    if u16_at(bytes, 8) != 0 {
        return broken("an unknown version of the PDU format", fes::UNSUPPORTED, 8);
    }
    let (align, digests, most) = (bytes[10], bytes[11], u32_at(bytes, 12));
    if align > 31 {
        return broken("the alignment of data", fes::INVALID_HEADER, 10);
    }
    if digests != u8::from(header_digest) | u8::from(data_digest) << 1 {
        return broken("digests that were not asked for, or are missing", fes::INVALID_HEADER, 11);
    }
    if most < LEAST_DATA || !most.is_multiple_of(4) {
        return broken("the size of data that it takes", fes::INVALID_HEADER, 12);
    }
    let align = (usize::from(align) + 1) * 4;
    Ok(Terms { header_digest, data_digest, align, max_data: most as usize })
}

/// The common header of a PDU that a controller may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// Bytes of the header, without its digest.
    pub(crate) header: usize,
    /// Where data begins; 0: there is none.
    pub(crate) offset: usize,
    /// Bytes of data.
    pub(crate) data: usize,
    /// Bytes in all.
    pub(crate) len: usize,
}

impl Head {
    /// Reads and checks the common header. `terms`: none, before `ICResp`. Data has at most `most` bytes.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub(crate) fn decode(bytes: &[u8; COMMON], terms: Option<&Terms>, most: usize) -> Result<Head, Error> {
        let (kind, flags, hlen) = (bytes[0], bytes[1], usize::from(bytes[2]));
        let (pdo, len) = (usize::from(bytes[3]), u32_at(bytes, 4) as usize);
        let header = match (kind, terms) {
            (kind::IC_RESP, None) => IC,
            (kind::IC_RESP, Some(_)) | (kind::RESPONSE | kind::C2H_DATA | kind::R2T, None) => {
                return broken("a PDU at a time that is not its own", fes::SEQUENCE, 0);
            }
            (kind::RESPONSE | kind::C2H_DATA | kind::R2T | kind::C2H_TERM, _) => SHORT,
            _ => return broken("a PDU of an unknown type", fes::INVALID_HEADER, 0),
        };
        if hlen != header {
            return broken("the length of a header", fes::INVALID_HEADER, 2);
        }
        let plain = Head { kind, flags, header, offset: 0, data: 0, len };
        let (Some(terms), true) = (terms, kind != kind::C2H_TERM) else {
            let most = if kind == kind::C2H_TERM { SHORT + MAX_REPEATED } else { header };
            if len < header || len > most {
                return broken("the length of a PDU", fes::INVALID_HEADER, 4);
            }
            return Ok(plain);
        };
        if flags & flag::HEADER_DIGEST != terms.flags() & flag::HEADER_DIGEST {
            return broken("whether there is a header digest", fes::INVALID_HEADER, 1);
        }
        let ends = header + if terms.header_digest { DIGEST } else { 0 };
        if kind != kind::C2H_DATA {
            return if len == ends {
                Ok(plain)
            } else {
                broken("the length of a PDU", fes::INVALID_HEADER, 4)
            };
        }
        if flags & flag::DATA_DIGEST != terms.flags() & flag::DATA_DIGEST {
            return broken("whether there is a data digest", fes::INVALID_HEADER, 1);
        }
        if flags & flag::SUCCESS != 0 && flags & flag::LAST == 0 {
            return broken("a success before the last data", fes::INVALID_HEADER, 1);
        }
        if pdo < ends || !pdo.is_multiple_of(4) {
            return broken("where data begins", fes::INVALID_HEADER, 3);
        }
        let tail = if terms.data_digest { DIGEST } else { 0 };
        match len.checked_sub(pdo + tail) {
            None | Some(0) => broken("the length of a PDU", fes::INVALID_HEADER, 4),
            Some(data) if data > most => broken("a PDU has more data than permitted", fes::LIMIT, 4),
            Some(data) => Ok(Head { offset: pdo, data, ..plain }),
        }
    }
}

/// What follows the common header of `C2HData`, and of `R2T`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) command: u16,
    /// Of an `R2T`.
    pub(crate) tag: u16,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl Part {
    pub(crate) fn decode(bytes: &[u8; SHORT]) -> Part {
        Part {
            command: u16_at(bytes, 8),
            tag: u16_at(bytes, 10),
            offset: u32_at(bytes, 12) as usize,
            len: u32_at(bytes, 16) as usize,
        }
    }
}

/// What comes before the data of a PDU, and after it.
fn framed(kind: u8, flags: u8, body: &[u8], data: &[u8], terms: &Terms) -> (Vec<u8>, Vec<u8>) {
    let header = COMMON + body.len();
    let ends = header + if terms.header_digest { DIGEST } else { 0 };
    let mut flags = flags | terms.flags() & flag::HEADER_DIGEST;
    let (mut offset, mut len, mut tail) = (0, ends, Vec::new());
    if !data.is_empty() {
        offset = ends.next_multiple_of(terms.align);
        len = offset + data.len();
        if terms.data_digest {
            flags |= flag::DATA_DIGEST;
            tail = digest(&[data]).to_vec();
            len += DIGEST;
        }
    }
    let mut out = common(kind, flags, header, offset, len);
    out.extend_from_slice(body);
    if terms.header_digest {
        let sum = digest(&[&out]);
        out.extend_from_slice(&sum);
    }
    if offset > 0 {
        out.resize(offset, 0);
    }
    (out, tail)
}

/// A command capsule: what comes before the data in it, and after it.
pub(crate) fn capsule(command: &[u8; SQE], data: &[u8], terms: &Terms) -> (Vec<u8>, Vec<u8>) {
    framed(kind::COMMAND, 0, command, data, terms)
}

/// An `H2CData`: what comes before its data, and after it.
pub(crate) fn h2c_data(
    command: u16,
    tag: u16,
    offset: usize,
    data: &[u8],
    last: bool,
    terms: &Terms,
) -> (Vec<u8>, Vec<u8>) {
    let mut body = Vec::with_capacity(SHORT - COMMON);
    body.extend_from_slice(&command.to_le_bytes());
    body.extend_from_slice(&tag.to_le_bytes());
    body.extend_from_slice(&(offset as u32).to_le_bytes());
    body.extend_from_slice(&(data.len() as u32).to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    framed(kind::H2C_DATA, if last { flag::LAST } else { 0 }, &body, data, terms)
}
