//! The wire format of messages: a header of fixed length, then the head, then the bulk payload.
//!
//! docs/formats.md describes it byte by byte ("Messages between nodes").
//!
//! Invariants: decoding is a pure function and allocates nothing. An unknown version or kind, a length above
//! its limit, and a field that the kind does not have are refused before a byte after the header is read.
//! Equal headers have equal bytes. The header's own checksum is verified first, so that lengths are trusted
//! only if they arrived as they were sent; the head has its checksum in the header. The bulk payload has
//! none: TLS authenticates every byte, and what is sent as bulk (frames of shards) has its own hashes, which
//! the receiver verifies anyway.
//!
//! Must not depend on: connections, what methods mean.

use ashlar_checksum::{Algorithm, Hasher};
use bytes::{BufMut as _, BytesMut};

use crate::error::{Error, Result};

/// The first bytes of every header.
pub const MAGIC: [u8; 4] = *b"ASHM";
/// Length of a header.
pub const HEADER: usize = 44;
/// Longest head.
pub const MAX_HEAD: usize = 256 << 10;
/// Longest bulk payload: a shard's frame of the largest stripe, and room beside it.
pub const MAX_BULK: usize = 8 << 20;
/// Bulk payloads up to this length are received into ordinary memory and need no credit: the limit of
/// requests in flight bounds them.
pub const FREE_BULK: usize = 4 << 10;
/// The version in hello and goodbye, which every release can read.
pub const ANY_VERSION: u8 = 0;
/// The oldest version that this release speaks.
pub const MIN_VERSION: u8 = 1;
/// The newest version that this release speaks.
pub const MAX_VERSION: u8 = 1;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The first message in both directions: see [`crate::hello`].
    Hello = 1,
    /// A call.
    Request = 2,
    /// The answer to a call.
    Answer = 3,
    /// Nobody waits for the answer any more.
    Cancel = 4,
    /// Asks for a pong.
    Ping = 5,
    /// The answer to a ping.
    Pong = 6,
    /// Bytes of requests that the receiver took from its buffers, so that as many may be sent again.
    Credit = 7,
    /// The sender takes no more requests; it executes those up to the id, and then closes.
    Goodbye = 8,
}

impl Kind {
    fn parse(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Hello,
            2 => Kind::Request,
            3 => Kind::Answer,
            4 => Kind::Cancel,
            5 => Kind::Ping,
            6 => Kind::Pong,
            7 => Kind::Credit,
            8 => Kind::Goodbye,
            _ => return None,
        })
    }

    fn has_version(self) -> bool {
        !matches!(self, Kind::Hello | Kind::Goodbye)
    }
}

/// The header of a message, without what follows from its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// Protocol version that the two ends agreed on; [`ANY_VERSION`] in hello and goodbye.
    pub version: u8,
    /// Request: the method. Answer: 0, or the code of a refusal. Goodbye: the reason.
    pub code: u16,
    /// Request: its number, increasing within a connection. Answer, cancel: of which request. Goodbye: the
    /// last request that is executed. Ping, pong: any number.
    pub id: u64,
    /// Request: the time that is left to answer, in microseconds.
    pub deadline_us: u32,
    /// Request: an epoch, whose meaning the methods define.
    pub epoch: u32,
    /// Request: the longest bulk payload of an answer. Credit: bytes.
    pub amount: u32,
    /// Length of the head.
    pub head_len: u32,
    /// Length of the bulk payload.
    pub bulk_len: u32,
    /// CRC32C of the head.
    pub head_crc: u32,
}

impl Header {
    /// A header of a kind, all else zero.
    #[must_use]
    pub fn new(kind: Kind, version: u8) -> Header {
        Header {
            kind,
            version: if kind.has_version() { version } else { ANY_VERSION },
            code: 0,
            id: 0,
            deadline_us: 0,
            epoch: 0,
            amount: 0,
            head_len: 0,
            bulk_len: 0,
            head_crc: 0,
        }
    }

    /// Appends the header and the head. The lengths and checksums are set here; the bulk payload, of
    /// `bulk_len` bytes, must follow.
    ///
    /// # Panics
    /// If head or bulk are above their limits: the caller checks them.
    pub fn encode(mut self, head: &[u8], out: &mut BytesMut) {
        assert!(head.len() <= MAX_HEAD && self.bulk_len as usize <= MAX_BULK);
        self.head_len = head.len() as u32;
        self.head_crc = crc(head);
        out.reserve(HEADER + head.len());
        out.put_slice(&self.bytes());
        out.put_slice(head);
    }

    /// The bytes of the header.
    #[must_use]
    pub fn bytes(&self) -> [u8; HEADER] {
        let mut b = [0; HEADER];
        b[..4].copy_from_slice(&MAGIC);
        b[4] = self.version;
        b[5] = self.kind as u8;
        b[6..8].copy_from_slice(&self.code.to_le_bytes());
        b[8..16].copy_from_slice(&self.id.to_le_bytes());
        let words = [self.deadline_us, self.epoch, self.amount, self.head_len, self.bulk_len, self.head_crc];
        for (place, word) in b[16..40].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let own = crc(&b[..40]);
        b[40..].copy_from_slice(&own.to_le_bytes());
        b
    }

    /// Decodes a header. `version` is the version agreed on; none before hello, when only hello and goodbye
    /// are accepted.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is not exactly what [`Header::bytes`] gives for some header.
    pub fn decode(b: &[u8; HEADER], version: Option<u8>) -> Result<Header> {
        let no = |why: &str| Err(Error::malformed(why));
        let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        if b[..4] != MAGIC {
            return no("it does not begin as a message does");
        }
        if word(40) != crc(&b[..40]) {
            return no("the header's checksum is wrong");
        }
        let Some(kind) = Kind::parse(b[5]) else { return no("an unknown kind of message") };
        let expected = if kind.has_version() { version } else { Some(ANY_VERSION) };
        if expected != Some(b[4]) {
            return no("another version than the one agreed on");
        }
        let header = Header {
            kind,
            version: b[4],
            code: u16::from_le_bytes([b[6], b[7]]),
            id: u64::from(word(8)) | u64::from(word(12)) << 32,
            deadline_us: word(16),
            epoch: word(20),
            amount: word(24),
            head_len: word(28),
            bulk_len: word(32),
            head_crc: word(36),
        };
        if header.head_len as usize > MAX_HEAD || header.bulk_len as usize > MAX_BULK {
            return no("longer than a message may be");
        }
        if !header.is_canonical() {
            return no("a field that this kind of message does not have");
        }
        Ok(header)
    }

    /// Whether the fields that the kind does not have are zero.
    fn is_canonical(&self) -> bool {
        let Header { kind, code, id, deadline_us, epoch, amount, head_len, bulk_len, head_crc, .. } = *self;
        let bare = code == 0 && head_len == 0 && bulk_len == 0;
        let timeless = deadline_us == 0 && epoch == 0;
        (head_len > 0 || head_crc == 0)
            && match kind {
                Kind::Request => id > 0 && amount as usize <= MAX_BULK,
                Kind::Hello => code == 0 && id == 0 && timeless && amount == 0 && bulk_len == 0,
                Kind::Answer => id > 0 && timeless && amount == 0 && (code == 0 || bulk_len == 0),
                Kind::Cancel => id > 0 && bare && timeless && amount == 0,
                Kind::Ping | Kind::Pong => bare && timeless && amount == 0,
                Kind::Credit => bare && timeless && id == 0 && amount > 0,
                Kind::Goodbye => timeless && amount == 0 && bulk_len == 0,
            }
    }

    /// Verifies the head.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is not what was sent.
    pub fn check_head(&self, head: &[u8]) -> Result<()> {
        if crc(head) == self.head_crc {
            Ok(())
        } else {
            Err(Error::malformed("the head's checksum is wrong"))
        }
    }
}

/// The credit that a request with a bulk payload of this length takes.
#[must_use]
pub fn charge(bulk: usize) -> u32 {
    if bulk <= FREE_BULK { 0 } else { bulk as u32 }
}

/// CRC32C; 0 of nothing.
fn crc(bytes: &[u8]) -> u32 {
    if bytes.is_empty() {
        return 0;
    }
    let mut hasher = Hasher::new(Algorithm::Crc32c);
    hasher.update(bytes);
    let digest = hasher.finish();
    digest.as_bytes().iter().fold(0, |all, byte| all << 8 | u32::from(*byte))
}

/// For `ashlar-fuzz`: decodes the bytes as one message after the other.
#[doc(hidden)]
pub fn fuzzed(mut bytes: &[u8]) {
    while let Some((first, rest)) = bytes.split_first_chunk::<HEADER>() {
        let Ok(header) = Header::decode(first, Some(MAX_VERSION)) else { return };
        assert_eq!(header.bytes(), *first);
        let head_len = header.head_len as usize;
        let Some((head, rest)) = rest.split_at_checked(head_len) else { return };
        if header.check_head(head).is_err() {
            return;
        }
        if header.kind == Kind::Hello
            && let Ok(hello) = crate::hello::Hello::decode(head)
        {
            assert!(head.starts_with(&hello.encode()));
        }
        bytes = rest.get(header.bulk_len as usize..).unwrap_or_default();
    }
}

/// For `ashlar-fuzz`: messages of all kinds.
#[doc(hidden)]
#[must_use]
pub fn fuzz_seeds() -> Vec<Vec<u8>> {
    let kinds = [Kind::Request, Kind::Answer, Kind::Cancel, Kind::Ping, Kind::Pong, Kind::Goodbye];
    let mut seeds: Vec<Vec<u8>> = kinds
        .into_iter()
        .map(|kind| {
            let mut out = BytesMut::new();
            let head: &[u8] =
                if matches!(kind, Kind::Request | Kind::Answer | Kind::Goodbye) { b"head" } else { b"" };
            Header { id: 7, ..Header::new(kind, MAX_VERSION) }.encode(head, &mut out);
            out.to_vec()
        })
        .collect();
    let mut out = BytesMut::new();
    Header { amount: 9, ..Header::new(Kind::Credit, MAX_VERSION) }.encode(b"", &mut out);
    Header::new(Kind::Hello, 0).encode(&crate::hello::Hello::example().encode(), &mut out);
    seeds.push(out.to_vec());
    seeds.push(seeds.concat());
    seeds
}

/// For `ashlar-fuzz`: corrects the checksums of a header and head, so that mutations reach what is behind.
#[doc(hidden)]
#[must_use]
pub fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    if out.len() < HEADER {
        return out;
    }
    let len = u32::from_le_bytes([out[28], out[29], out[30], out[31]]) as usize;
    if let Some(head) = out.get(HEADER..HEADER.saturating_add(len)) {
        let head = crc(head).to_le_bytes();
        out[36..40].copy_from_slice(&head);
    }
    let own = crc(&out[..40]).to_le_bytes();
    out[40..44].copy_from_slice(&own);
    out
}
