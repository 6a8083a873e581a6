//! What targets say about themselves: Identify structures (Base 5.17.2, NVM 4.1.5) and log pages 04h, 0Ch and 70h (Base 5.16.1).
//!
//! Invariant: decoding reads only what it is given, and never panics; lists are bounded by the bytes that they are in.
//!
//! Must not depend on: connections.

use std::time::Duration;

use crate::ana::{AnaState, DESCRIPTOR, LOG_HEADER, MAX_GROUPS};
use crate::pdu::{u16_at, u32_at, u64_at};

/// Bytes of a structure.
pub(crate) const STRUCTURE: usize = 4096;
/// Bytes of an entry of the discovery log page, and of what comes before the first.
pub(crate) const RECORD: usize = 1024;

/// What matters of an Identify Controller structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    /// Bytes of data of a command, at most; none: no limit.
    pub(crate) max_transfer: Option<usize>,
    /// Bytes of data in the capsule of an I/O command.
    pub(crate) in_capsule: usize,
    /// It may lose writes that were not flushed.
    pub(crate) write_cache: bool,
    pub(crate) write_zeroes: bool,
    pub(crate) deallocate: bool,
    /// Events that it can tell (OAES).
    pub(crate) events: u32,
    /// It takes Keep Alive.
    pub(crate) keep_alive: bool,
    /// Its keep-alive time begins again at intervals, not with each command (TBKAS).
    pub(crate) traffic_based: bool,
    /// How long it may execute commands after it knows that the connection is lost (CQT, Base 2.1); none: it does not say.
    pub(crate) quiesce: Option<Duration>,
    /// It reports ANA states.
    pub(crate) ana: Option<AnaFacts>,
}

/// What a controller says about ANA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AnaFacts {
    /// The longest time of a transition.
    pub(crate) transition: Duration,
    /// Groups, at most [`MAX_GROUPS`] (NANAGRPID).
    pub(crate) groups: usize,
}

impl Facts {
    /// Reads the structure. `page`: the least page of CAP (MPSMIN), in bytes.
    pub(crate) fn decode(bytes: &[u8; STRUCTURE], page: usize) -> Facts {
        let oncs = u16_at(bytes, 520);
        let capsule = u32_at(bytes, 1792) as usize * 16;
        Facts {
            max_transfer: match bytes[77] {
                0 => None,
                n => page.checked_shl(u32::from(n)).filter(|l| *l >= page),
            },
            // ICDOFF: data in a capsule begins somewhere else than we put it.
            in_capsule: if u16_at(bytes, 1800) == 0 { capsule.saturating_sub(64) } else { 0 },
            write_cache: bytes[525] & 1 != 0,
            write_zeroes: oncs >> 3 & 1 != 0,
            deallocate: oncs >> 2 & 1 != 0,
            events: u32_at(bytes, 92),
            keep_alive: u16_at(bytes, 320) != 0,
            traffic_based: u32_at(bytes, 96) >> 6 & 1 != 0,
            quiesce: Some(u16_at(bytes, 386)).filter(|t| *t > 0).map(|t| Duration::from_millis(t.into())),
            ana: (bytes[76] >> 3 & 1 != 0).then(|| AnaFacts {
                transition: Duration::from_secs(bytes[342].into()),
                groups: u32_at(bytes, 348).min(MAX_GROUPS) as usize,
            }),
        }
    }
}

/// A namespace: its size, the form of its blocks, and who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceFacts {
    /// Bytes of a block.
    pub block: u32,
    /// Blocks.
    pub blocks: u64,
    /// It refuses changes.
    pub read_only: bool,
    /// Its identity: UUID, NGUID or EUI64, in this order of preference.
    pub identity: Identity,
    /// Its ANA group; 0: it has none.
    pub ana_group: u32,
}

/// The identity of a namespace: no other one in the world has it, wherever it is reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Identity {
    /// A UUID (RFC 9562).
    Uuid([u8; 16]),
    /// A namespace globally unique identifier.
    Nguid([u8; 16]),
    /// An IEEE extended unique identifier.
    Eui64([u8; 8]),
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, bytes) = match self {
            Identity::Uuid(b) => ("uuid", &b[..]),
            Identity::Nguid(b) => ("nguid", &b[..]),
            Identity::Eui64(b) => ("eui", &b[..]),
        };
        write!(f, "{kind}.")?;
        bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// The state of a group in an ANA log page without lists of namespaces, and how often the states have changed. A group that is not in
/// the page, or has a reserved state, has none.
pub(crate) fn ana(bytes: &[u8], group: u32) -> Option<(u64, Option<AnaState>)> {
    let (header, rest) = bytes.split_at_checked(LOG_HEADER)?;
    let count = usize::from(u16_at(header, 8));
    let found = rest.chunks_exact(DESCRIPTOR).take(count).find(|d| u32_at(d, 0) == group);
    Some((u64_at(header, 0), found.and_then(|d| AnaState::of_code(d[16] & 0xf))))
}

/// Size and form of a namespace: block bytes, blocks, whether it is read-only.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn namespace(bytes: &[u8; STRUCTURE]) -> Result<(u32, u64, bool), &'static str> {
    let blocks = u64_at(bytes, 0);
    if blocks == 0 {
        return Err("there is no namespace of this number");
    }
    let format = usize::from(bytes[26] & 0xf | (bytes[26] >> 5 & 3) << 4);
    let at = 128 + 4 * format;
    let (metadata, shift) = (u16_at(bytes, at), bytes[at + 2]);
    if metadata != 0 || bytes[29] & 7 != 0 {
        return Err("its blocks have metadata or protection information, which is not supported");
    }
    if shift != 9 && shift != 12 {
        return Err("its blocks have neither 512 nor 4096 bytes");
    }
    if blocks.checked_shl(u32::from(shift)).is_none_or(|b| b >> shift != blocks) {
        return Err("its size is no number of bytes");
    }
    Ok((1 << shift, blocks, bytes[99] & 1 != 0))
}

/// The identity in a list of namespace identification descriptors.
pub(crate) fn identity(bytes: &[u8; STRUCTURE]) -> Option<Identity> {
    let (mut eui, mut nguid, mut at) = (None, None, 0);
    while at + 4 <= bytes.len() {
        let (kind, len) = (bytes[at], usize::from(bytes[at + 1]));
        let value = bytes.get(at + 4..at + 4 + len)?;
        let any = value.iter().any(|b| *b != 0);
        match (kind, len) {
            (0, _) | (_, 0) => break,
            (1, 8) if any => eui = value.first_chunk::<8>().copied(),
            (2, 16) if any => nguid = value.first_chunk::<16>().copied(),
            (3, 16) if any => return value.first_chunk::<16>().map(|v| Identity::Uuid(*v)),
            _ => {}
        }
        at += 4 + len;
    }
    nguid.map(Identity::Nguid).or(eui.map(Identity::Eui64))
}

/// Numbers of namespaces in a list, which ends with a zero.
pub(crate) fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|c| u32_at(c, 0)).take_while(|n| *n != 0).collect()
}

/// A subsystem at a port, as a discovery log page tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiscoveryEntry {
    /// The name of the subsystem.
    pub nqn: String,
    /// Its address.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
    /// Whether it is another discovery subsystem.
    pub discovery: bool,
}

impl DiscoveryEntry {
    /// Its address as `HOST:PORT`.
    pub(crate) fn portal(&self) -> String {
        let bare = self.host.contains(':') && !self.host.starts_with('[');
        if bare { format!("[{}]:{}", self.host, self.port) } else { format!("{}:{}", self.host, self.port) }
    }
}

/// An entry of a discovery log page, if it is one of the TCP transport.
pub(crate) fn record(bytes: &[u8; RECORD]) -> Option<DiscoveryEntry> {
    let text = |at: usize, len: usize| {
        let field = &bytes[at..at + len];
        let end = field.iter().position(|b| *b == 0).unwrap_or(len);
        std::str::from_utf8(&field[..end]).ok().map(|t| t.trim_end().to_owned())
    };
    let discovery = match bytes[2] {
        1 | 3 => true,
        2 => false,
        _ => return None,
    };
    if bytes[0] != 3 {
        return None;
    }
    Some(DiscoveryEntry {
        port: text(32, 32)?.parse().ok()?,
        nqn: text(256, 256)?,
        host: text(512, 256)?,
        discovery,
    })
}

/// Generation and number of entries of a discovery log page.
pub(crate) fn discovery(bytes: &[u8; RECORD]) -> (u64, u64) {
    (u64_at(bytes, 0), u64_at(bytes, 8))
}
