//! The byte layout of a drive's journal: segments and batches here, the records in `entry`.
//!
//! A segment is a file that is filled with zeros before use. Its first page identifies it. Then *batches*
//! follow, each written by one group commit with one write: a header sector, records, padding to 4096 bytes
//! (on a file system in memory: to 512). A batch is valid as a whole or not at all. Layout: docs/formats.md,
//! "Journal".
//!
//! How a torn batch is distinguished from a damaged one: a device writes whole 512-byte sectors, and an
//! unwritten sector still holds zeros. The header contains a bitmap of the sectors that are all zero *by
//! content*. A batch that does not verify is torn only if some other sector reads as zeros. Anything else is
//! damage, even in the very last batch.
//!
//! Invariants: every bit of a valid batch is covered by a checksum or has a fixed value; checksums are keyed
//! with deployment and drive and cover segment and offset, so that nothing verifies in another position;
//! headers are chained, so that a batch missing in the middle is detected.
//!
//! Must not depend on: files, what the records are for.

use crate::Error;
use crate::codec::{Reader, Writer};
use highway::{HighwayHash, HighwayHasher, Key};

mod entry;
pub use entry::{
    AcceptEntry, Entry, ExtentEntry, FenceEntry, GroupState, HINTED, LiftEntry, ONE_SYNC, StageEntry,
    accept_head, discard, extent, fence, hint, kind, lift, purge, read_states, read_unnamed, segments,
    stage_head, states, unnamed,
};

/// Length of the segment header. On devices, batches start and end at multiples of it.
pub const PAGE: usize = 4096;
/// The unit that a device writes completely or not at all.
pub const SECTOR: usize = 512;
/// Bytes before the payload of a record.
pub const RECORD_HEADER: usize = 24;
/// Bytes before the records of a batch.
pub const BATCH_HEADER: usize = SECTOR;
/// Longest payload of one record, in bytes.
pub const MAX_PAYLOAD: usize = 8 << 20;

const SEGMENT_MAGIC: &[u8; 8] = b"ASHLJRNL";
const BATCH_MAGIC: u32 = u32::from_le_bytes(*b"AJB1");
/// The format of a batch.
const FORMAT: u16 = 2;
/// The format of the segments that are written: one that has [`Entry::Unnamed`].
const SEGMENT_FORMAT: u16 = 3;
/// The oldest format of a segment that is read. What it has, the present one has too.
const OLDEST_SEGMENT: u16 = 2;
/// Padding inside a batch. It is not zero, so that padding sectors are not mistaken for unwritten ones.
const PAD: u8 = 0xa5;
const BITMAP: usize = 400;
const BITMAP_AT: usize = 80;
const SUM_AT: usize = SECTOR - 32;

/// A checksum key: see [`crate::label::Label::hash_key`].
pub type HashKey = [u64; 4];

fn hash256(key: &HashKey, parts: &[&[u8]]) -> [u8; 32] {
    let mut h = HighwayHasher::new(Key(*key));
    for p in parts {
        h.append(p);
    }
    let mut out = [0; 32];
    for (o, w) in out.chunks_exact_mut(8).zip(h.finalize256()) {
        o.copy_from_slice(&w.to_le_bytes());
    }
    out
}

/// The first page of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// Number of the segment; never used twice on one drive.
    pub number: u32,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Format of what is in it. A segment of an older format than the present one is read and not continued.
    pub format: u16,
}

impl SegmentHeader {
    /// The header of a segment that is made now.
    #[must_use]
    pub fn new(number: u32, bytes: u64) -> SegmentHeader {
        SegmentHeader { number, bytes, format: SEGMENT_FORMAT }
    }

    /// Whether batches may be written to the segment: it has the present format.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.format == SEGMENT_FORMAT
    }

    /// The page.
    #[must_use]
    pub fn encode(&self, key: &HashKey) -> Vec<u8> {
        let mut w = Writer::with_capacity(PAGE);
        w.raw(SEGMENT_MAGIC);
        w.u16(self.format);
        w.u32(self.number);
        w.u64(self.bytes);
        let mut page = w.into_vec();
        page.resize(PAGE - 32, 0);
        let sum = hash256(key, &[b"segment", &page]);
        page.extend_from_slice(&sum);
        page
    }

    /// The inverse of [`SegmentHeader::encode`]; `number` is the one in the file's name.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::Version`], [`Error::Checksum`] (also for another drive's
    /// segment), [`Error::Identity`] for a segment with another number.
    pub fn decode(page: &[u8], key: &HashKey, number: u32) -> Result<SegmentHeader, Error> {
        if page.len() != PAGE {
            return Err(Error::Malformed("segment header length"));
        }
        let (body, sum) = page.split_at(PAGE - 32);
        if hash256(key, &[b"segment", body]) != sum {
            return Err(Error::Checksum("journal segment header"));
        }
        let mut r = Reader::new(body);
        if r.raw(8)? != SEGMENT_MAGIC {
            return Err(Error::Malformed("segment magic"));
        }
        let format = r.u16()?;
        if !(OLDEST_SEGMENT..=SEGMENT_FORMAT).contains(&format) {
            return Err(Error::Version { what: "journal segment", found: u32::from(format) });
        }
        let h = SegmentHeader { number: r.u32()?, bytes: r.u64()?, format };
        if h.number != number {
            return Err(Error::Identity("journal segment"));
        }
        Ok(h)
    }
}

/// A batch header, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Bytes of the whole batch, a multiple of [`SECTOR`].
    pub len: u32,
    /// Records in it.
    pub count: u32,
    /// Bytes of the records with their headers and alignment, after the batch header.
    pub used: u32,
    /// 1 for the first batch of a drive; each further batch has one more.
    pub seq: u64,
    /// Chain value of the previous batch; zero before the first.
    pub previous: [u8; 16],
    /// Chain value of this batch.
    pub chain: [u8; 16],
}

/// Appends records to a batch.
///
/// The caller passes a buffer that starts at the batch; nothing is allocated.
pub struct BatchWriter {
    key: HashKey,
    segment: u32,
    /// Offset of the batch in the segment.
    at: u32,
    used: usize,
    count: u32,
    content: u64,
    align: usize,
}

impl BatchWriter {
    /// A batch at offset `at` of `segment`, padded to `align` bytes: [`PAGE`] on a device, so that a batch
    /// never shares the unit that a device may rewrite with an acknowledged one; [`SECTOR`] if there is no
    /// device.
    #[must_use]
    pub fn new(key: HashKey, segment: u32, at: u32, align: usize) -> BatchWriter {
        assert!(align.is_multiple_of(SECTOR) && (at as usize).is_multiple_of(align));
        BatchWriter { key, segment, at, used: 0, count: 0, content: 0, align }
    }

    /// Bytes of the batch if it is closed now.
    #[must_use]
    pub fn len(&self) -> usize {
        (BATCH_HEADER + self.used).next_multiple_of(self.align)
    }

    /// Whether it has no record yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the batch with one more record of `payload` bytes.
    #[must_use]
    pub fn len_with(&self, payload: usize) -> usize {
        (BATCH_HEADER + self.used + record_len(payload)).next_multiple_of(self.align)
    }

    /// Appends a record whose payload is the concatenation of `parts`; returns its offset in the segment. The
    /// caller has checked the size with [`BatchWriter::len_with`].
    pub fn push(&mut self, buf: &mut [u8], kind: u8, parts: &[&[u8]]) -> u32 {
        let payload: usize = parts.iter().map(|p| p.len()).sum();
        assert!(payload <= MAX_PAYLOAD);
        let start = BATCH_HEADER + self.used;
        let at = self.at + start as u32;
        let total = record_len(payload);
        let head = record_head(self.segment, at, kind, payload);
        let mut h = HighwayHasher::new(Key(self.key));
        h.append(&head);
        let rec = &mut buf[start..start + total];
        let mut pos = RECORD_HEADER;
        for p in parts {
            rec[pos..pos + p.len()].copy_from_slice(p);
            pos += p.len();
        }
        h.append(&rec[RECORD_HEADER..pos]);
        let sum = h.finalize128();
        rec[0..4].copy_from_slice(&(payload as u32).to_le_bytes());
        rec[4..8].copy_from_slice(&[kind, 0, 0, 0]);
        rec[8..16].copy_from_slice(&sum[0].to_le_bytes());
        rec[16..24].copy_from_slice(&sum[1].to_le_bytes());
        rec[pos..].fill(PAD);
        self.used += total;
        self.count += 1;
        self.content = mix(self.content, sum[0]);
        at
    }

    /// Pads the batch and writes its header; `buf[..len()]` is then ready to be written to the device.
    pub fn close(&self, buf: &mut [u8], seq: u64, previous: &[u8; 16]) -> Batch {
        let len = self.len();
        let end = BATCH_HEADER + self.used;
        buf[end..len].fill(PAD);
        let granule = granule(len);
        let (head, body) = buf[..len].split_at_mut(SECTOR);
        head.fill(0);
        for (i, sector) in body.chunks_exact(SECTOR).enumerate() {
            if is_zero(sector) {
                let g = (i + 1) / granule;
                head[BITMAP_AT + g / 8] |= 1 << (g % 8);
            }
        }
        head[0..4].copy_from_slice(&BATCH_MAGIC.to_le_bytes());
        head[4..6].copy_from_slice(&FORMAT.to_le_bytes());
        head[8..12].copy_from_slice(&self.segment.to_le_bytes());
        head[12..16].copy_from_slice(&self.at.to_le_bytes());
        head[16..24].copy_from_slice(&seq.to_le_bytes());
        head[24..28].copy_from_slice(&(len as u32).to_le_bytes());
        head[28..32].copy_from_slice(&self.count.to_le_bytes());
        head[32..36].copy_from_slice(&(self.used as u32).to_le_bytes());
        head[36..40].copy_from_slice(&(granule as u32).to_le_bytes());
        head[40..56].copy_from_slice(previous);
        head[56..64].copy_from_slice(&self.content.to_le_bytes());
        let sum = hash256(&self.key, &[&head[..SUM_AT]]);
        head[SUM_AT..].copy_from_slice(&sum);
        let mut chain = [0; 16];
        chain.copy_from_slice(&sum[..16]);
        Batch { len: len as u32, count: self.count, used: self.used as u32, seq, previous: *previous, chain }
    }
}

/// Sectors per bit of the bitmap.
fn granule(len: usize) -> usize {
    (len / SECTOR).div_ceil(BITMAP * 8).max(1)
}

fn mix(a: u64, b: u64) -> u64 {
    (a.rotate_left(23) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Whether every byte is zero.
#[must_use]
pub fn is_zero(b: &[u8]) -> bool {
    let (head, words, tail) = (b.len() / 8 * 8, b.chunks_exact(8), b.len() % 8);
    let mut words = words;
    words.all(|w| w == [0; 8]) && b[head..head + tail].iter().all(|x| *x == 0)
}

/// Bytes that a record of `payload` bytes takes in a batch.
#[must_use]
pub fn record_len(payload: usize) -> usize {
    (RECORD_HEADER + payload).next_multiple_of(8)
}

fn record_head(segment: u32, at: u32, kind: u8, payload: usize) -> [u8; 16] {
    let mut h = [0; 16];
    h[0..4].copy_from_slice(&segment.to_le_bytes());
    h[4..8].copy_from_slice(&at.to_le_bytes());
    h[8..12].copy_from_slice(&(payload as u32).to_le_bytes());
    h[12] = kind;
    h
}

/// Checks one record in place: `bytes` starts at its header and contains at least the whole record. Returns
/// kind and payload.
///
/// # Errors
/// [`Error::Malformed`] or [`Error::Checksum`].
pub fn record<'a>(bytes: &'a [u8], key: &HashKey, segment: u32, at: u32) -> Result<(u8, &'a [u8]), Error> {
    let (kind, payload, _) = record_sum(bytes, key, segment, at)?;
    Ok((kind, payload))
}

fn record_sum<'a>(
    bytes: &'a [u8],
    key: &HashKey,
    segment: u32,
    at: u32,
) -> Result<(u8, &'a [u8], u64), Error> {
    let mut r = Reader::new(bytes);
    let len = r.u32()? as usize;
    let kind = r.u8()?;
    let zero = r.array::<3>()?;
    let sum = [r.u64()?, r.u64()?];
    if len > MAX_PAYLOAD || zero != [0; 3] {
        return Err(Error::Malformed("record header"));
    }
    let payload = r.raw(len)?;
    let mut h = HighwayHasher::new(Key(*key));
    h.append(&record_head(segment, at, kind, len));
    h.append(payload);
    if h.finalize128() != sum {
        return Err(Error::Checksum("journal record"));
    }
    Ok((kind, payload, sum[0]))
}

/// What is at a position where a batch may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A header that verifies.
    Header(Batch),
    /// A sector of zeros: nothing was written here, or the header did not reach the device.
    Unwritten,
    /// Neither.
    Damaged,
}

/// Checks the sector at offset `at` of `segment`.
#[must_use]
pub fn batch_header(sector: &[u8], key: &HashKey, segment: u32, at: u32) -> Found {
    let Some(head) = sector.get(..SECTOR) else { return Found::Damaged };
    if is_zero(head) {
        return Found::Unwritten;
    }
    match decode_batch(head, key, segment, at) {
        Ok(b) => Found::Header(b),
        Err(_) => Found::Damaged,
    }
}

fn decode_batch(head: &[u8], key: &HashKey, segment: u32, at: u32) -> Result<Batch, Error> {
    let mut r = Reader::new(head);
    if r.u32()? != BATCH_MAGIC || r.u16()? != FORMAT {
        return Err(Error::Malformed("batch magic"));
    }
    let sum = hash256(key, &[&head[..SUM_AT]]);
    if sum != head[SUM_AT..SECTOR] {
        return Err(Error::Checksum("batch header"));
    }
    let _ = r.u16()?;
    if r.u32()? != segment || r.u32()? != at {
        return Err(Error::Identity("batch"));
    }
    let (seq, len, count, used) = (r.u64()?, r.u32()?, r.u32()?, r.u32()?);
    let _granule = r.u32()?;
    let previous = r.array()?;
    let content = BATCH_HEADER + used as usize;
    let ok = (len as usize).is_multiple_of(SECTOR)
        && (content..content + PAGE).contains(&(len as usize))
        && count > 0;
    if !ok {
        return Err(Error::Malformed("batch lengths"));
    }
    let mut chain = [0; 16];
    chain.copy_from_slice(&sum[..16]);
    Ok(Batch { len, count, used, seq, previous, chain })
}

/// The state of the body of a batch whose header verifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// Everything verifies.
    Sound,
    /// Some sectors never reached the device.
    Torn,
    /// Some bytes are neither what was written nor unwritten.
    Damaged,
}

/// Checks the body of a batch (`bytes` is the whole batch with its header) and passes every valid record
/// (offset in the segment, kind, payload) to `each`.
///
/// For a body that is not [`Body::Sound`], the records before the first invalid one have been passed.
pub fn batch_body<'a>(
    bytes: &'a [u8],
    key: &HashKey,
    segment: u32,
    at: u32,
    batch: &Batch,
    mut each: impl FnMut(u32, u8, &'a [u8]),
) -> Body {
    let (mut pos, mut content) = (BATCH_HEADER, 0);
    let end = BATCH_HEADER + batch.used as usize;
    let mut sound = bytes.len() == batch.len as usize;
    if sound {
        for _ in 0..batch.count {
            let here = at + pos as u32;
            let Ok((kind, payload, sum)) = record_sum(&bytes[pos..end], key, segment, here) else {
                sound = false;
                break;
            };
            let next = pos + record_len(payload.len());
            if next > end || !is_pad(&bytes[pos + RECORD_HEADER + payload.len()..next]) {
                sound = false;
                break;
            }
            each(here, kind, payload);
            content = mix(content, sum);
            pos = next;
        }
    }
    let told = bytes[56..64] == content.to_le_bytes();
    if sound && told && pos == end && is_pad(&bytes[end..]) {
        return Body::Sound;
    }
    if lost_sector(bytes, batch) { Body::Torn } else { Body::Damaged }
}

fn is_pad(b: &[u8]) -> bool {
    b.iter().all(|x| *x == PAD)
}

/// Whether a sector reads as zeros although its content was not.
fn lost_sector(bytes: &[u8], batch: &Batch) -> bool {
    let granule = granule(batch.len as usize);
    let bitmap = &bytes[BITMAP_AT..BITMAP_AT + BITMAP];
    bytes.chunks(SECTOR).enumerate().skip(1).any(|(i, sector)| {
        let g = i / granule;
        bitmap[g / 8] & (1 << (g % 8)) == 0 && is_zero(sector)
    })
}
