//! Numbers and bytes of the NBD protocol, as `doc/proto.md` of the NBD project names them. All integers are big-endian.
//!
//! Invariant: decoding reads only what it is given, and never panics.
//!
//! Must not depend on: sockets, devices.

/// Bytes of a read or of the data of a write, at most.
pub const MAX_PAYLOAD: u32 = 32 << 20;
/// Bytes of the name of an export, at most: the limit of the protocol.
pub(crate) const MAX_NAME: usize = 4096;
/// Bytes of an option, at most. The longest useful one names an export and a few metadata contexts.
pub(crate) const MAX_OPTION: u32 = 16 << 10;
/// Options of a negotiation, at most.
pub(crate) const MAX_OPTIONS: usize = 256;

pub(crate) const MAGIC: &[u8; 8] = b"NBDMAGIC";
pub(crate) const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
pub(crate) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY: u32 = 0x6744_6698;
pub(crate) const CHUNK: u32 = 0x668e_33ef;

/// Flags of both sides of the handshake.
pub(crate) mod handshake {
    pub(crate) const FIXED_NEWSTYLE: u16 = 1;
    pub(crate) const NO_ZEROES: u16 = 2;
}

/// Options.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options.
pub(crate) mod answer {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    pub(crate) const UNSUPPORTED: u32 = 0x8000_0001;
    pub(crate) const POLICY: u32 = 0x8000_0002;
    pub(crate) const INVALID: u32 = 0x8000_0003;
    pub(crate) const TLS_REQUIRED: u32 = 0x8000_0005;
    pub(crate) const UNKNOWN: u32 = 0x8000_0006;
    pub(crate) const TOO_BIG: u32 = 0x8000_0009;
}

/// Kinds of information about an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
pub(crate) mod transmission {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const FLUSH: u16 = 1 << 2;
    pub(crate) const FUA: u16 = 1 << 3;
    pub(crate) const TRIM: u16 = 1 << 5;
    pub(crate) const WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const DF: u16 = 1 << 7;
    pub(crate) const MULTI_CONN: u16 = 1 << 8;
}

/// Requests.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISCONNECT: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub(crate) mod flag {
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
}

/// Types of chunks of structured replies; the flag of the last one.
pub(crate) mod chunk {
    pub(crate) const DONE: u16 = 1;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const ERROR: u16 = 0x8001;
}

/// Errors of requests.
pub(crate) mod errno {
    pub(crate) const PERM: u32 = 1;
    pub(crate) const IO: u32 = 5;
    pub(crate) const INVALID: u32 = 22;
    pub(crate) const NO_SPACE: u32 = 28;
    pub(crate) const OVERFLOW: u32 = 75;
    pub(crate) const UNSUPPORTED: u32 = 95;
    pub(crate) const SHUTDOWN: u32 = 108;
}

/// The only metadata context, and the number that this server gives it.
pub(crate) const ALLOCATION: &str = "base:allocation";
pub(crate) const ALLOCATION_ID: u32 = 1;
/// `base:allocation` of a piece that reads as zeros and has no space: a hole, and zeros.
pub(crate) const HOLE_ZERO: u32 = 3;

/// The head of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    /// Chosen by the client; in the reply.
    pub(crate) cookie: u64,
    pub(crate) at: u64,
    pub(crate) len: u32,
}

/// Bytes of the head of a request.
pub(crate) const HEAD: usize = 28;

impl Head {
    /// None: not a request.
    pub(crate) fn decode(bytes: &[u8; HEAD]) -> Option<Head> {
        let mut r = Reader(bytes);
        if r.u32()? != REQUEST {
            return None;
        }
        Some(Head { flags: r.u16()?, command: r.u16()?, cookie: r.u64()?, at: r.u64()?, len: r.u32()? })
    }
}

/// Reads integers and strings.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn raw(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.raw(N)?.try_into().ok()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string of a length that comes first.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        let n = self.u32()? as usize;
        std::str::from_utf8(self.raw(n)?).ok()
    }
}

/// The name and the kinds of information of an option `INFO` or `GO`.
pub(crate) fn export_request(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let mut r = Reader(data);
    let name = r.string().filter(|n| n.len() <= MAX_NAME)?;
    let n = r.u16()?;
    let kinds = (0..n).map(|_| r.u16()).collect::<Option<Vec<u16>>>()?;
    r.0.is_empty().then_some((name, kinds))
}

/// The name and the queries of an option about metadata contexts.
pub(crate) fn context_request(data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let mut r = Reader(data);
    let name = r.string().filter(|n| n.len() <= MAX_NAME)?;
    let n = r.u32()?;
    // A query has at least its length: the capacity is bounded by the data.
    if n as usize > r.0.len() / 4 {
        return None;
    }
    let queries = (0..n).map(|_| r.string()).collect::<Option<Vec<&str>>>()?;
    r.0.is_empty().then_some((name, queries))
}

/// A reply to an option.
pub(crate) fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(20 + data.len());
    out.extend_from_slice(&OPTION_REPLY.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
    out
}

/// A simple reply, without data.
pub(crate) fn simple_reply(error: u32, cookie: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.extend_from_slice(&SIMPLE_REPLY.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out
}

/// The head of a chunk, the last of its reply; `len` bytes follow it.
pub(crate) fn last_chunk(kind: u16, cookie: u64, len: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    out.extend_from_slice(&CHUNK.to_be_bytes());
    out.extend_from_slice(&chunk::DONE.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out
}

/// A structured reply that is an error.
pub(crate) fn error_chunk(error: u32, cookie: u64) -> Vec<u8> {
    let mut out = last_chunk(chunk::ERROR, cookie, 6);
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&0u16.to_be_bytes());
    out
}
