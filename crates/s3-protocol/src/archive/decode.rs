//! Decoders of compressed archives, fed with pieces.
//!
//! [`Format::detect`] examines the first [`DETECT`] bytes. The caller gives pieces to a [`Decoder`] with
//! [`Decoder::push`] as they arrive and calls [`Decoder::step`] until it returns `None`; after
//! [`Decoder::end`] it returns the rest, or an error if the input is incomplete.
//!
//! Invariants: a step produces at most [`MAX_STEP`] bytes and a decoder keeps at most [`Format::memory`]
//! besides the pushed bytes, whatever the input declares; the checksums of the formats are verified.

use std::io::{BufRead, ErrorKind, Read};

use ashlar_checksum::{Algorithm, Hasher};
use bytes::{Buf, Bytes, BytesMut};
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::broken;
use super::tar::is_header;
use crate::fault::{Fault, Outcome};

/// How many first bytes tell one format from another: a block of tar, whose first bytes are a name that may look like
/// anything.
pub const DETECT: usize = 512;
/// Most bytes that one step makes: a block of S2.
pub const MAX_STEP: usize = S2_BLOCK;

/// Bytes of plain text that a step of gzip or Zstandard makes.
const STEP: usize = 64 << 10;
/// Largest block of S2: <https://pkg.go.dev/github.com/klauspost/compress/s2>.
const S2_BLOCK: usize = 4 << 20;
/// Longest block of S2, unless its writer was configured otherwise; Snappy's are shorter.
const S2_USUAL: usize = 1 << 20;
/// Largest window of Zstandard, as RFC 8878 recommends to support (3.1.1.1.2).
const ZSTD_WINDOW: u64 = 8 << 20;
/// Largest window of later frames, independent of the first one's.
const ZSTD_LEAST: u64 = 1 << 20;
/// Largest block of Zstandard (RFC 8878, 3.1.1.2.4).
const ZSTD_BLOCK: usize = 128 << 10;
/// A frame header of Zstandard with its magic number: at most this many bytes.
const ZSTD_HEADER: usize = 18;

/// How an archive is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Not compressed.
    Plain,
    /// RFC 1952.
    Gzip,
    /// RFC 8878, with windows up to this many bytes.
    Zstd(u64),
    /// S2 or Snappy, in frames, with blocks up to this many bytes.
    S2(usize),
}

impl Format {
    /// The format that the first [`DETECT`] bytes show; fewer are all there is.
    ///
    /// # Errors
    /// `NotImplemented`, by name, for known formats that are not read here.
    pub fn detect(first: &[u8]) -> Outcome<Format> {
        if is_header(first) {
            return Ok(Format::Plain);
        }
        let missing: [(&[u8], &str); 8] = [
            (b"\x04\x22\x4d\x18", "LZ4"),
            (b"BZh", "bzip2"),
            (b"\xfd7zXZ\0", "xz"),
            (b"LZIP", "lzip"),
            (b"\x1f\x9d", "compress (.Z)"),
            (b"PK\x03\x04", "zip"),
            (b"7z\xbc\xaf\x27\x1c", "7z"),
            (b"Rar!", "rar"),
        ];
        if let Some((_, name)) = missing.iter().find(|(magic, _)| first.starts_with(magic)) {
            return Err(Fault::not_implemented(&format!("Unpacking {name} archives")));
        }
        let skippable = first.len() >= 4 && first[0] & 0xf0 == 0x50 && first[1..4] == *b"\x2a\x4d\x18";
        Ok(match first {
            f if f.starts_with(b"\x1f\x8b\x08") => Format::Gzip,
            f if f.starts_with(b"\x28\xb5\x2f\xfd") || skippable => Format::Zstd(window(f)),
            f if f.starts_with(b"\xff\x06\0\0") => Format::S2(block_size(f)),
            _ => Format::Plain,
        })
    }

    /// Bytes that a decoder keeps at most: windows, blocks and what is collected for them.
    pub fn memory(self) -> usize {
        match self {
            Format::Plain => 0,
            Format::Gzip => 256 << 10,
            // The ring of the window may have just grown to twice its size.
            Format::Zstd(window) => 2 * window as usize + 8 * ZSTD_BLOCK,
            // What is collected for a chunk may have just grown to twice its size.
            Format::S2(block) => block + 2 * chunk_size(block),
        }
    }
}

/// The largest window that a Zstandard stream with these first bytes may have (RFC 8878, 3.1.1.1).
fn window(first: &[u8]) -> u64 {
    let stated = match first {
        // The content is in one piece of this size.
        [0x28, 0xb5, 0x2f, 0xfd, head, rest @ ..] if head & 0x20 != 0 => {
            let id = [0, 1, 2, 4][usize::from(head & 3)];
            let length = 1 << (head >> 6);
            let size = rest.get(id..id + length);
            size.map(|size| {
                size.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)) + u64::from(length == 2) * 256
            })
        }
        [0x28, 0xb5, 0x2f, 0xfd, _, window, ..] => {
            let base = 1u64 << (10 + (window >> 3));
            Some(base + base / 8 * u64::from(window & 7))
        }
        _ => None,
    };
    stated.unwrap_or(ZSTD_WINDOW).clamp(ZSTD_LEAST, ZSTD_WINDOW)
}

/// The largest block that an S2 stream with these first bytes may have: writers begin with a whole one.
fn block_size(first: &[u8]) -> usize {
    let length = match first.get(10..) {
        Some([0, _, _, _, _, _, _, _, packed @ ..]) => {
            minlz::s2::decode_len(packed).map_or(S2_BLOCK, |(n, _)| n)
        }
        Some([1, a, b, c, ..]) => u32::from_le_bytes([*a, *b, *c, 0]).saturating_sub(4) as usize,
        Some([_, ..]) => S2_BLOCK,
        Some([]) | None => 0,
    };
    if length <= S2_USUAL { S2_USUAL } else { S2_BLOCK }
}

/// Largest chunk: a block that does not compress, and its checksum.
fn chunk_size(block: usize) -> usize {
    4 + 32 + block + block / 6
}

/// What reads one format.
pub struct Decoder {
    kind: Kind,
    ended: bool,
    done: bool,
}

enum Kind {
    Plain(Bytes),
    Gzip(Box<MultiGzDecoder<Feed>>),
    Zstd(Box<Zstd>),
    S2(S2),
}

impl Decoder {
    /// A decoder that has read nothing.
    pub fn new(format: Format) -> Decoder {
        let kind = match format {
            Format::Plain => Kind::Plain(Bytes::new()),
            Format::Gzip => Kind::Gzip(Box::new(MultiGzDecoder::new(Feed::default()))),
            Format::Zstd(window) => Kind::Zstd(Box::new(Zstd::new(window))),
            Format::S2(block) => Kind::S2(S2 { input: BytesMut::new(), skip: 0, begun: false, block }),
        };
        Decoder { kind, ended: false, done: false }
    }

    /// Adds the next piece; the one before must have been consumed ([`Decoder::step`] returned `None`).
    pub fn push(&mut self, piece: Bytes) {
        match &mut self.kind {
            Kind::Plain(rest) => *rest = piece,
            Kind::Gzip(gzip) => gzip.get_mut().data = piece,
            Kind::Zstd(zstd) => zstd.input.extend_from_slice(&piece),
            Kind::S2(s2) => s2.input.extend_from_slice(&piece),
        }
    }

    /// No piece follows.
    pub fn end(&mut self) {
        self.ended = true;
        if let Kind::Gzip(gzip) = &mut self.kind {
            gzip.get_mut().ended = true;
        }
    }

    /// Whether the decoder is done: the input has ended where it may end.
    pub fn is_ended(&self) -> bool {
        self.done
    }

    /// The next bytes of plain text; `None`: it wants another piece, or has ended.
    ///
    /// # Errors
    /// The input is not of the format, breaks off, or needs more memory than it gets here.
    pub fn step(&mut self) -> Outcome<Option<Bytes>> {
        let made = match &mut self.kind {
            Kind::Plain(rest) => Some(std::mem::take(rest)).filter(|b| !b.is_empty()),
            Kind::Gzip(gzip) => {
                let mut out = vec![0; STEP];
                match gzip.read(&mut out) {
                    Ok(0) => None,
                    Ok(n) => {
                        out.truncate(n);
                        Some(out.into())
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                    Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                        return Err(broken("its gzip stream breaks off"));
                    }
                    Err(e) => return Err(broken("its gzip stream is damaged").because(e)),
                }
            }
            Kind::Zstd(zstd) => zstd.step(self.ended)?,
            Kind::S2(s2) => s2.step(self.ended)?,
        };
        self.done = self.ended && made.is_none();
        Ok(made)
    }
}

/// A piece of input that reports when there is no more for now.
#[derive(Default)]
struct Feed {
    data: Bytes,
    ended: bool,
}

impl Read for Feed {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.fill_buf()?.len().min(out.len());
        self.data.copy_to_slice(&mut out[..n]);
        Ok(n)
    }
}

impl BufRead for Feed {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.data.is_empty() && !self.ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(&self.data)
    }

    fn consume(&mut self, n: usize) {
        self.data.advance(n);
    }
}

/// Frames of Zstandard, block by block: the library reads a block only when all of it is there.
struct Zstd {
    input: BytesMut,
    decoder: FrameDecoder,
    /// In a frame; the value: it has a checksum.
    frame: Option<bool>,
    /// Bytes of a skippable frame still to come.
    skip: usize,
}

impl Zstd {
    fn new(window: u64) -> Zstd {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(window);
        Zstd { input: BytesMut::new(), decoder, frame: None, skip: 0 }
    }

    fn step(&mut self, ended: bool) -> Outcome<Option<Bytes>> {
        let damaged = |e: &dyn std::fmt::Display| broken("its Zstandard stream is damaged").because(e);
        let cut = || broken("its Zstandard stream breaks off");
        loop {
            let ready = self.decoder.can_collect().min(STEP);
            if self.frame.is_some() && ready > 0 {
                let mut out = vec![0; ready];
                let n = self.decoder.read(&mut out).map_err(|e| damaged(&e))?;
                out.truncate(n);
                return Ok(Some(out.into()));
            }
            if self.skip > 0 {
                let n = self.skip.min(self.input.len());
                self.input.advance(n);
                self.skip -= n;
                if self.skip > 0 {
                    return if ended { Err(cut()) } else { Ok(None) };
                }
            }
            let Some(has_sum) = self.frame else {
                if self.input.is_empty() && ended {
                    return Ok(None);
                }
                if !self.header(ended)? {
                    return Ok(None);
                }
                continue;
            };
            if self.decoder.is_finished() {
                let stated = self.decoder.get_checksum_from_data();
                if has_sum && stated != self.decoder.get_calculated_checksum() {
                    return Err(broken("the checksum of a Zstandard frame does not match"));
                }
                self.frame = None;
                continue;
            }
            let Some(need) = self.block(has_sum)?.filter(|need| *need <= self.input.len()) else {
                return if ended { Err(cut()) } else { Ok(None) };
            };
            let block = self.input.split_to(need);
            let one = BlockDecodingStrategy::UptoBlocks(1);
            self.decoder.decode_blocks(&block[..], one).map_err(|e| damaged(&e))?;
        }
    }

    /// Reads the head of a frame; false: more input is needed.
    fn header(&mut self, ended: bool) -> Outcome<bool> {
        if self.input.len() < ZSTD_HEADER && !ended {
            return Ok(false);
        }
        if self.input.len() >= 8 && self.input[0] & 0xf0 == 0x50 && self.input[1..4] == *b"\x2a\x4d\x18" {
            self.input.advance(4);
            self.skip = self.input.get_u32_le() as usize;
            return Ok(true);
        }
        let mut rest = &self.input[..];
        self.decoder.reset(&mut rest).map_err(|e| match e {
            ruzstd::decoding::errors::FrameDecoderError::WindowSizeTooBig { .. } => Fault::not_implemented(
                "Unpacking Zstandard archives with a window of more than 8 MiB (options --long and --ultra), or a larger one than at their beginning",
            ),
            e => broken("its Zstandard stream is damaged, or needs a dictionary").because(e),
        })?;
        let has_sum = self.input[4] & 4 != 0;
        let used = self.input.len() - rest.len();
        self.input.advance(used);
        self.frame = Some(has_sum);
        Ok(true)
    }

    /// Bytes of the next block with its head, and the checksum behind the last one; `None`: its head is
    /// missing.
    fn block(&self, has_sum: bool) -> Outcome<Option<usize>> {
        let [a, b, c, ..] = self.input[..] else { return Ok(None) };
        let head = u32::from_le_bytes([a, b, c, 0]);
        let (last, repeats, size) = (head & 1 == 1, (head >> 1) & 3 == 1, (head >> 3) as usize);
        if size > ZSTD_BLOCK {
            return Err(broken("a block of its Zstandard stream is too long"));
        }
        Ok(Some(3 + if repeats { 1 } else { size } + if last && has_sum { 4 } else { 0 }))
    }
}

/// Chunks of S2 and Snappy (<https://github.com/google/snappy/blob/main/framing_format.txt>), whole.
struct S2 {
    input: BytesMut,
    /// Bytes of a chunk without data still to come.
    skip: usize,
    begun: bool,
    /// Largest block.
    block: usize,
}

impl S2 {
    fn step(&mut self, ended: bool) -> Outcome<Option<Bytes>> {
        let damaged = || broken("its S2 stream is damaged");
        loop {
            let n = self.skip.min(self.input.len());
            self.input.advance(n);
            self.skip -= n;
            let cut = ended && (self.skip > 0 || !self.input.is_empty());
            let more = || if cut { Err(broken("its S2 stream breaks off")) } else { Ok(None) };
            if self.skip > 0 {
                return more();
            }
            let [kind, a, b, c, ..] = self.input[..] else { return more() };
            let length = u32::from_le_bytes([a, b, c, 0]) as usize;
            // Chunks without data may be left out, whatever they hold.
            if matches!(kind, 0x80..=0xfe) && self.begun {
                self.input.advance(4);
                self.skip = length;
                continue;
            }
            let known = match kind {
                0xff => length == 6,
                0 | 1 => self.begun && (4..=chunk_size(self.block)).contains(&length),
                _ => false,
            };
            if !known {
                return Err(damaged());
            }
            if self.input.len() < 4 + length {
                return more();
            }
            let mut chunk = self.input.split_to(4 + length);
            chunk.advance(4);
            if kind == 0xff {
                if ![&b"sNaPpY"[..], b"S2sTwO"].contains(&&chunk[..]) {
                    return Err(damaged());
                }
                self.begun = true;
                continue;
            }
            let stated = chunk.get_u32_le();
            let plain =
                if kind == 1 { chunk.freeze() } else { block(&chunk, self.block).ok_or_else(damaged)? };
            if plain.len() > self.block {
                return Err(damaged());
            }
            if masked_crc(&plain) != stated {
                return Err(broken("the checksum of a block of its S2 stream does not match"));
            }
            if !plain.is_empty() {
                return Ok(Some(plain));
            }
        }
    }
}

/// The checksum of a block: CRC32C, masked as section 3 of the framing format defines.
pub(super) fn masked_crc(plain: &[u8]) -> u32 {
    let mut hasher = Hasher::new(Algorithm::Crc32c);
    hasher.update(plain);
    let sum = hasher.finish().as_bytes().iter().fold(0, |sum, b| sum << 8 | u32::from(*b));
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A block of S2, which Snappy's are too.
fn block(packed: &[u8], most: usize) -> Option<Bytes> {
    let (length, _) = minlz::s2::decode_len(packed).ok()?;
    if length > most {
        return None;
    }
    // Memory of our own, zeroed: a mistake of the decoder would show nothing that was there before.
    let mut out = vec![0; length];
    minlz::s2::decode_into(&mut out, packed).ok()?;
    Some(out.into())
}

#[cfg(test)]
mod tests;
