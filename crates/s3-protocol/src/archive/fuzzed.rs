//! For the fuzzer and tests: entries, archives of every kind, and the whole content of an archive.

use std::io::Write as _;

use bytes::{Bytes, BytesMut};
use tar::Header;

use super::decode::MAX_STEP;
use super::{DETECT, Decoder, Format, Item, Reader};
use crate::fault::Outcome;

/// Unpacks `pieces` to the end and returns how many entries and bytes there were.
///
/// # Errors
/// What a request with this archive would be refused with.
pub fn unpack(pieces: impl IntoIterator<Item = Bytes>) -> Outcome<(u64, u64)> {
    let mut pieces = pieces.into_iter();
    let mut first = BytesMut::new();
    while first.len() < DETECT {
        let Some(piece) = pieces.next() else { break };
        first.extend_from_slice(&piece);
    }
    let mut decoder = Decoder::new(Format::detect(&first)?);
    let mut reader = Reader::default();
    let (mut entries, mut bytes) = (0, 0);
    decoder.push(first.freeze());
    loop {
        while let Some(mut plain) = decoder.step()? {
            assert!(plain.len() <= MAX_STEP.max(DETECT), "a step made {} bytes", plain.len());
            while let Some(item) = reader.step(&mut plain)? {
                match item {
                    Item::Entry(_) => entries += 1,
                    Item::Data(data) => bytes += data.len() as u64,
                    Item::Finished => {}
                }
            }
        }
        if decoder.is_ended() {
            reader.end()?;
            return Ok((entries, bytes));
        }
        match pieces.next() {
            Some(piece) => decoder.push(piece),
            None => decoder.end(),
        }
    }
}

/// The same archive with checksums that fit, so that what is changed in headers is read.
#[must_use]
pub fn with_checksums(archive: &[u8]) -> Vec<u8> {
    let mut out = archive.to_vec();
    for block in out.chunks_exact_mut(512).filter(|b| b[257..262] == *b"ustar") {
        let mut header = Header::from_byte_slice(block).clone();
        header.set_cksum();
        block.copy_from_slice(header.as_bytes());
    }
    out
}

/// An entry of a plain archive: header, content, padding. `name`: at most 100 bytes.
#[must_use]
pub fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut out = header.as_bytes().to_vec();
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

/// Archives: plain, and compressed in every way that is read.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let plain = [
        entry("a", b'0', b"hello"),
        entry("pax", b'x', b"20 path=a/long/name\n9 size=1\n32 minio.metadata.Expires=never\n"),
        entry("b", b'0', b"x"),
        entry("././@LongLink", b'L', b"another/long/name\0"),
        entry("c", b'0', &[7; 700]),
        entry("folder/", b'5', b""),
        vec![0; 1024],
    ]
    .concat();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let gzip = gzip.write_all(&plain).and_then(|()| gzip.finish()).unwrap_or_default();
    let zstd = ruzstd::encoding::compress_to_vec(&plain[..], ruzstd::encoding::CompressionLevel::Fastest);
    let chunk = |kind: u8, content: &[u8]| {
        [&[kind][..], &(content.len() as u32).to_le_bytes()[..3], content].concat()
    };
    let sum = super::decode::masked_crc(&plain).to_le_bytes();
    let s2 = [chunk(0xff, b"S2sTwO"), chunk(0, &[&sum[..], &minlz::s2::encode(&plain)].concat())].concat();
    let raw = [chunk(0xff, b"sNaPpY"), chunk(1, &[&sum[..], &plain].concat()), chunk(0xfe, b"..")].concat();
    vec![plain, gzip, zstd, s2, raw, Vec::new()]
}
