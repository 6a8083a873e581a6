//! Tests of framing: exact bytes of small cases, and the announced length for all sizes of pieces.

use std::task::Waker;

use proptest::prelude::*;

use super::*;
use crate::sign::Signed;
use crate::sigv4::{AmzDate, SigningKey};

fn signer() -> ChunkSigner {
    ChunkSigner::new(Signed {
        signature: [b'0'; 64],
        key: SigningKey::new("secret", "20130524", "us-east-1", "s3"),
        date: AmzDate::new(time::OffsetDateTime::UNIX_EPOCH),
    })
}

fn encode(pieces: Vec<Bytes>, signed: bool, trailer: Option<Algorithm>) -> Vec<u8> {
    let left = pieces.iter().map(|p| p.len() as u64).sum();
    let stream = Box::pin(futures::stream::iter(pieces.into_iter().map(Ok)));
    let mut chunked = Chunked::new(Input::Stream { left, stream }, signed.then(signer), trailer);
    let announced = chunked.encoded_left();
    let mut out = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match chunked.poll_piece(&mut cx) {
            Poll::Ready(Some(piece)) => out.extend_from_slice(&piece.unwrap()),
            Poll::Ready(None) => break,
            Poll::Pending => panic!("the stream is always ready"),
        }
    }
    assert_eq!(out.len() as u64, announced);
    out
}

/// Decodes chunks: the payload, and what follows the header of the last chunk.
fn decode(mut wire: &[u8]) -> (Vec<u8>, String) {
    let mut out = Vec::new();
    loop {
        let end = wire.windows(2).position(|w| w == b"\r\n").unwrap();
        let head = std::str::from_utf8(&wire[..end]).unwrap();
        let size = usize::from_str_radix(head.split(';').next().unwrap(), 16).unwrap();
        wire = &wire[end + 2..];
        if size == 0 {
            return (out, String::from_utf8(wire.to_vec()).unwrap());
        }
        out.extend_from_slice(&wire[..size]);
        assert_eq!(&wire[size..size + 2], b"\r\n");
        wire = &wire[size + 2..];
    }
}

#[test]
fn unsigned_with_trailer_is_as_botocore_writes_it() {
    let wire = encode(vec!["hello ".into(), "world".into()], false, Some(Algorithm::Crc32));
    assert_eq!(
        String::from_utf8(wire).unwrap(),
        "b\r\nhello world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n"
    );
    assert_eq!(encode(vec![], false, None), b"0\r\n\r\n");
}

#[test]
fn source_of_wrong_length_fails() {
    for (pieces, left) in [(vec![Bytes::from("abc")], 4), (vec![Bytes::from("abc")], 2)] {
        let stream = Box::pin(futures::stream::iter(pieces.into_iter().map(Ok)));
        let mut chunked = Chunked::new(Input::Stream { left, stream }, None, None);
        let mut cx = Context::from_waker(Waker::noop());
        let failed = loop {
            match chunked.poll_piece(&mut cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_))) => break true,
                _ => break false,
            }
        };
        assert!(failed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_payload_round_trips(
        sizes in prop::collection::vec(0usize..200_000, 0..8),
        signed in any::<bool>(),
        trailer in prop::option::of(prop::sample::select(Algorithm::ALL.to_vec())),
    ) {
        let mut n = 0u32;
        let pieces: Vec<Bytes> = sizes.iter().map(|&size| {
            (0..size).map(|_| { n = n.wrapping_mul(1664525).wrapping_add(1013904223); (n >> 24) as u8 })
                .collect::<Vec<u8>>().into()
        }).collect();
        let all = pieces.concat();
        let (payload, end) = decode(&encode(pieces, signed, trailer));
        prop_assert!(payload == all);
        if let Some(algorithm) = trailer {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(&all);
            let line = format!("{}:{}\r\n", trailer_name(algorithm), hasher.finish().base64());
            prop_assert!(end.starts_with(&line));
            prop_assert_eq!(end.contains("x-amz-trailer-signature:"), signed);
        }
        prop_assert!(end.ends_with("\r\n"));
    }
}
