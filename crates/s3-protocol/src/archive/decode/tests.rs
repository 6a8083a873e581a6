//! Every format in pieces of every size; truncated, damaged and malicious input.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;
use crate::archive::fuzzed;

fn text(n: usize) -> Vec<u8> {
    (0..n).map(|i| b"some text that is packed well "[(i * i / 7000 + i) % 30]).collect()
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(plain).unwrap();
    gzip.finish().unwrap()
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    compress_to_vec(plain, CompressionLevel::Fastest)
}

fn chunk(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind][..], &(content.len() as u32).to_le_bytes()[..3], content].concat()
}

fn framed(id: &[u8], plain: &[u8], block: usize, pack: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut out = chunk(0xff, id);
    for plain in plain.chunks(block) {
        let sum = masked_crc(plain).to_le_bytes();
        out.extend(chunk(0, &[&sum[..], &pack(plain)].concat()));
    }
    out
}

fn s2(plain: &[u8]) -> Vec<u8> {
    framed(b"S2sTwO", plain, 1 << 20, minlz::s2::encode_better)
}

fn decode(packed: &[u8], piece: usize) -> Result<Vec<u8>, String> {
    let format = Format::detect(&packed[..packed.len().min(DETECT)]).map_err(|f| f.message().to_owned())?;
    let mut decoder = Decoder::new(format);
    let mut out = Vec::new();
    let mut pieces = packed.chunks(piece);
    loop {
        match pieces.next() {
            Some(piece) => decoder.push(Bytes::copy_from_slice(piece)),
            None => decoder.end(),
        }
        while let Some(plain) = decoder.step().map_err(|f| f.message().to_owned())? {
            assert!(plain.len() <= MAX_STEP && !plain.is_empty());
            out.extend_from_slice(&plain);
        }
        if decoder.is_ended() {
            return Ok(out);
        }
    }
}

#[test]
fn every_format_is_decoded_from_pieces_of_any_size() {
    for plain in [Vec::new(), b"x".to_vec(), text(3_000_000)] {
        let snappy = framed(b"sNaPpY", &plain, 1 << 16, minlz::s2::encode_snappy);
        let raw =
            [chunk(0xff, b"S2sTwO"), chunk(1, &[&masked_crc(&plain).to_le_bytes()[..], &plain].concat())]
                .concat();
        for (name, packed) in [
            ("plain", plain.clone()),
            ("gzip", gzip(&plain)),
            ("zstd", zstd(&plain)),
            ("s2", s2(&plain)),
            ("snappy", snappy),
            ("raw", raw),
        ] {
            for piece in [1, 3, 1000, 65_536, 1 << 23] {
                if piece == 1 && plain.len() > 1 && packed.len() > 1 << 20 {
                    continue;
                }
                let got = decode(&packed, piece).unwrap_or_else(|e| panic!("{name} of {}: {e}", plain.len()));
                assert!(got == plain, "{name} of {} in pieces of {piece}", plain.len());
            }
        }
    }
}

#[test]
fn concatenated_members_and_frames_are_decoded() {
    let (a, b) = (text(70_000), text(300));
    let both = [&a[..], &b].concat();
    assert_eq!(decode(&[gzip(&a), gzip(&b)].concat(), 777).unwrap(), both);
    let skip = [&0x184d_2a53u32.to_le_bytes()[..], &5u32.to_le_bytes(), b"12345"].concat();
    assert_eq!(decode(&[skip.clone(), zstd(&a), skip.clone(), zstd(&b), skip].concat(), 777).unwrap(), both);
    let index = [chunk(0xfe, &[0; 100]), chunk(0x99, b"index")].concat();
    assert_eq!(decode(&[s2(&a), index.clone(), s2(&b), index].concat(), 777).unwrap(), both);
}

#[test]
fn truncated_or_damaged_input_is_refused() {
    let plain = text(200_000);
    for (name, packed) in [("gzip", gzip(&plain)), ("zstd", zstd(&plain)), ("s2", s2(&plain))] {
        for cut in [packed.len() - 1, packed.len() - 5, packed.len() / 2, 11] {
            let error = decode(&packed[..cut], 999).expect_err(name);
            assert!(error.contains("breaks off") || error.contains("damaged"), "{name} {cut}: {error}");
        }
        for at in [packed.len() - 2, packed.len() - 6, packed.len() / 2] {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x55;
            assert!(decode(&damaged, 999).is_err(), "{name} {at}");
        }
        assert!(decode(&[&packed[..], b"more"].concat(), 999).is_err(), "{name}");
    }
}

#[test]
fn decompression_bombs_are_bounded_or_refused() {
    // A gigabyte of zeros, as a megabyte.
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    for _ in 0..1024 {
        bomb.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let mut decoder = Decoder::new(Format::Gzip);
    decoder.push(bomb.finish().unwrap().into());
    let mut made = 0;
    while let Some(plain) = decoder.step().unwrap() {
        assert!(plain.len() <= STEP);
        made += plain.len();
    }
    assert_eq!(made, 1 << 30);
    // Zstandard: 4 bytes are 128 KiB of the same byte; a thousand of them in one piece.
    let head = [&[0x28, 0xb5, 0x2f, 0xfd, 0][..], &[0x68]].concat(); // a window of 8 MiB
    let block = |last: u32| [&((128 << 10 << 3) | 1 << 1 | last).to_le_bytes()[..3], b"z"].concat();
    let mut decoder = Decoder::new(Format::Zstd(ZSTD_WINDOW));
    decoder.push([head, block(0).repeat(1000), block(1)].concat().into());
    let mut made = 0;
    while let Some(plain) = decoder.step().unwrap() {
        made += plain.len();
        let Kind::Zstd(zstd) = &decoder.kind else { panic!() };
        assert!(plain.len() <= STEP && zstd.decoder.can_collect() <= ZSTD_WINDOW as usize + 2 * ZSTD_BLOCK);
    }
    assert_eq!(made, 1001 << 17);
    // Larger windows, longer blocks and chunks than belong there.
    let wide =
        decode(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x70, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 999).unwrap_err();
    assert!(wide.contains("window of more than 8 MiB"), "{wide}");
    let long = [
        &[0x28, 0xb5, 0x2f, 0xfd, 0, 0x68][..],
        &((129u32 << 10 << 3) | 2).to_le_bytes()[..3],
        b"zzzzzzzzzzzzzz",
    ]
    .concat();
    assert!(decode(&long, 999).unwrap_err().contains("too long"));
    let id = chunk(0xff, b"S2sTwO");
    // It states a block of 4 GiB.
    let wide = [id.clone(), chunk(0, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0])].concat();
    assert!(decode(&wide, 999).unwrap_err().contains("damaged"));
    assert!(decode(&[&id[..], &[0, 0xff, 0xff, 0xff]].concat(), 999).unwrap_err().contains("damaged"));
    // Chunks without data, a million of them, are passed over and not kept.
    assert_eq!(decode(&[id, [0xfe, 0, 0, 0].repeat(1 << 20)].concat(), 1 << 16).unwrap(), b"");
}

#[test]
fn memory_limit_follows_from_the_first_bytes() {
    let of = |packed: &[u8]| Format::detect(&packed[..packed.len().min(DETECT)]).unwrap();
    // A window of 64 KiB counts as the least; 2 MiB, 7 MiB, and more than there may be.
    for (descriptor, want) in [(0x30, ZSTD_LEAST), (0x58, 2 << 20), (0x66, 7 << 20), (0x78, ZSTD_WINDOW)] {
        assert_eq!(of(&[0x28, 0xb5, 0x2f, 0xfd, 0, descriptor]), Format::Zstd(want));
    }
    // In one piece, of 3 MiB, as four bytes behind a dictionary's two.
    assert_eq!(of(&[0x28, 0xb5, 0x2f, 0xfd, 0xa2, 9, 9, 0, 0, 0x30, 0]), Format::Zstd(3 << 20));
    assert_eq!(of(&0x184d_2a53u32.to_le_bytes()), Format::Zstd(ZSTD_WINDOW));
    let plain = text(6 << 20);
    for (block, want) in [(1 << 16, S2_USUAL), (1 << 20, S2_USUAL), (2 << 20, S2_BLOCK), (4 << 20, S2_BLOCK)]
    {
        let packed = framed(b"S2sTwO", &plain, block, minlz::s2::encode);
        assert_eq!(of(&packed), Format::S2(want), "{block}");
        assert!(decode(&packed, 100_000).unwrap() == plain);
    }
    // A block that is longer than the first ones let expect.
    let grows = [
        framed(b"S2sTwO", b"x", 1, minlz::s2::encode),
        framed(b"S2sTwO", &plain, 4 << 20, minlz::s2::encode),
    ]
    .concat();
    assert!(decode(&grows, 100_000).unwrap_err().contains("damaged"));
}

#[test]
fn unsupported_formats_are_refused_by_name() {
    for (first, name) in [
        (&b"\x04\x22\x4d\x18...."[..], "LZ4"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\0\0", "xz"),
        (b"PK\x03\x04", "zip"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"\x1f\x9d\x90", "compress"),
    ] {
        let fault = Format::detect(first).unwrap_err();
        assert_eq!(fault.code().name, "NotImplemented");
        assert!(fault.message().contains(name), "{}", fault.message());
    }
    // A name may begin like that.
    let mut header = tar::Header::new_ustar();
    header.set_path("BZhang/photo").unwrap();
    header.set_size(0);
    header.set_cksum();
    assert_eq!(Format::detect(header.as_bytes()).unwrap(), Format::Plain);
    assert_eq!(fuzzed::unpack([Bytes::copy_from_slice(header.as_bytes())]).unwrap(), (1, 0));
}

#[test]
fn fuzzer_seeds_are_valid_archives() {
    for (i, seed) in fuzzed::seeds().into_iter().enumerate() {
        let entries = if seed.is_empty() { 0 } else { 4 };
        let bytes = if seed.is_empty() { 0 } else { 706 };
        assert_eq!(
            fuzzed::unpack([Bytes::from(seed)]).map_err(|f| f.message().to_owned()),
            Ok((entries, bytes)),
            "{i}"
        );
    }
}
