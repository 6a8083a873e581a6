//! Records and identifiers: golden bytes, round trips, and decoders with arbitrary input.

use ashlar_format::{
    Ballot, Body, BucketId, Checksum, Data, GroupId, HeldKey, Part, Record, RegisterKey, Retention, Space,
    Upload, UploadState, Version, VersionId, WriteId,
};
use proptest::prelude::*;

fn sample() -> Record {
    Record {
        seq: 300,
        parent: 0x1122_3344_5566_7788,
        nonce: 0x0102_0304,
        body: Body::Versions(vec![Version {
            id: VersionId([7; 16]),
            delete_marker: false,
            modified_ms: 1_700_000_000_123,
            size: 5_000,
            md5: [9; 16],
            parts_count: 0,
            parts: vec![Part {
                number: 1,
                size: 5_000,
                md5: [9; 16],
                checksum: None,
                modified_ms: 1_700_000_000_123,
                data: Data {
                    write_id: WriteId([3; 16]),
                    k: 2,
                    m: 2,
                    rotate: 1,
                    stripe: 1 << 20,
                    durable: 0b1111,
                    inline: true,
                },
            }],
            checksum: Some(Checksum { algorithm: 3, composite: false, value: vec![1; 8] }),
            meta: vec![("content-type".into(), "text/plain".into())],
            tags: vec![("a".into(), "b".into())],
            retention: Some(Retention { compliance: true, until_ms: -1 }),
            legal_hold: false,
            acl: String::new(),
        }]),
    }
}

/// The bytes of format 2. If this test fails, drives written by an earlier build become unreadable:
/// raise the format number and keep a decoder for the old one.
#[test]
fn golden_record() {
    let hex = sample().encode().iter().map(|b| format!("{b:02x}")).collect::<String>();
    let golden = concat!(
        "03",
        "ac02",
        "8877665544332211",
        "04030201",
        "01",
        "01", // format, seq, parent, nonce, versions, count
        "07070707070707070707070707070707",
        "00",
        "7b68e5cf8b010000",
        "8827", // id, marker, time, size
        "09090909090909090909090909090909",
        "0000",
        "01", // md5, parts count, parts
        "0100",
        "8827",
        "09090909090909090909090909090909",
        "00",
        "7b68e5cf8b010000", // part
        "03030303030303030303030303030303",
        "02",
        "02",
        "01",
        "00001000",
        "0f00000000000000",
        "01",
        "00", // location
        "01",
        "03",
        "00",
        "08",
        "0101010101010101", // checksum
        "01",
        "0c",
        "636f6e74656e742d74797065",
        "0a",
        "746578742f706c61696e", // meta
        "01",
        "01",
        "61",
        "01",
        "62", // tags
        "01",
        "01",
        "ffffffffffffffff",
        "00",
        "00" // retention, legal hold, acl
    );
    assert_eq!(hex, golden);
    assert_eq!(Record::digest(&sample().encode()), 0xa45769fb559bac3c);
}

/// If the data of a part is in a location that only a newer release knows, decoding fails with an error that
/// says so.
#[test]
fn data_stored_elsewhere_is_refused() {
    let bytes = sample().encode();
    let data = [&[3; 16][..], &[2, 2, 1], &(1u32 << 20).to_le_bytes(), &15u64.to_le_bytes(), &[1]].concat();
    let at = bytes.windows(data.len()).position(|w| w == data).unwrap() + data.len();
    assert_eq!(bytes[at], 0);
    let elsewhere = [&bytes[..at], &[1, 4], b"tier", &bytes[at + 1..]].concat();
    let refused = Record::decode(&elsewhere).unwrap_err();
    assert!(refused.to_string().contains("written by a newer release"), "{refused}");
    let older = [&[1], &bytes[1..]].concat();
    assert_eq!(Record::decode(&older), Err(ashlar_format::Error::Version { what: "record", found: 1 }));
}

#[test]
fn golden_ids() {
    let b = Ballot { epoch: 1, counter: 2, node: 3, nonce: 4 };
    assert_eq!(b.to_bytes(), [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 4]);
    assert_eq!(Ballot::from_bytes(&b.to_bytes()), b);
    let k = RegisterKey::new(GroupId::new(3, 258), Space::Object, BucketId([5; 16]), b"a/b");
    let mut bytes = vec![0, 3, 1, 2, 1];
    bytes.extend([5; 16]);
    bytes.extend(b"a/b");
    assert_eq!(k.as_bytes(), &bytes[..]);
    assert_eq!(
        (k.group(), k.space(), k.bucket(), k.key()),
        (GroupId::new(3, 258), 1, BucketId([5; 16]), &b"a/b"[..])
    );
    assert_eq!(RegisterKey::from_bytes(&bytes), Some(k));
    assert_eq!(RegisterKey::from_bytes(&[0; 20]), None);
    assert_eq!(WriteId::from_hex(&WriteId([0xab; 16]).to_hex()), Some(WriteId([0xab; 16])));
    for bad in ["", "00", "+0000000000000000000000000000000", "é00000000000000000000000000000"] {
        assert_eq!(WriteId::from_hex(bad), None, "{bad}");
    }
}

#[test]
fn every_truncation_and_bit_flip_is_an_error_or_another_record() {
    let bytes = sample().encode();
    for cut in 0..bytes.len() {
        assert!(Record::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut b = bytes.clone();
        b[bit / 8] ^= 1 << (bit % 8);
        if let Ok(r) = Record::decode(&b) {
            assert_ne!(r, sample(), "bit {bit} is not part of the value");
            assert_eq!(r.encode(), b, "two encodings of one record, bit {bit}");
        }
    }
}

#[test]
fn shard_map_is_a_bijection() {
    for n in 1..=64u8 {
        for rotate in 0..n {
            let d = Data {
                write_id: WriteId::ZERO,
                k: 1,
                m: n - 1,
                rotate,
                stripe: 1 << 20,
                durable: 0,
                inline: false,
            };
            for shard in 0..n {
                assert_eq!(d.shard_of(d.slot_of(shard)), shard);
            }
        }
    }
}

#[test]
fn shard_lengths() {
    let d =
        |k| Data { write_id: WriteId::ZERO, k, m: 2, rotate: 0, stripe: 1 << 20, durable: 0, inline: false };
    assert_eq!(d(2).shard_len(0), 0);
    assert_eq!(d(2).shard_len(1), 1);
    assert_eq!(d(2).shard_len(10 << 20), 5 << 20);
    assert_eq!(d(3).shard_len(1 << 20), 349_526);
    assert_eq!(d(3).shard_len((1 << 20) + 4), 349_526 + 2);
}

fn checksum() -> impl Strategy<Value = Option<Checksum>> {
    proptest::option::of(
        (1u8..=5, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..33))
            .prop_map(|(algorithm, composite, value)| Checksum { algorithm, composite, value }),
    )
}

fn part() -> impl Strategy<Value = Part> {
    (
        any::<u16>(),
        any::<u64>(),
        any::<[u8; 16]>(),
        checksum(),
        any::<i64>(),
        1u8..=32,
        0u8..=32,
        any::<u64>(),
    )
        .prop_map(|(number, size, id, checksum, modified_ms, k, m, durable)| Part {
            number,
            size,
            md5: id,
            checksum,
            modified_ms,
            data: Data {
                write_id: WriteId(id),
                k,
                m,
                rotate: (k + m) - 1,
                stripe: 1,
                durable,
                inline: durable % 2 == 0,
            },
        })
}

fn version() -> impl Strategy<Value = Version> {
    let pairs = || proptest::collection::vec((".{0,8}", ".{0,8}"), 0..3);
    (
        any::<[u8; 16]>(),
        any::<bool>(),
        any::<(i64, u64)>(),
        proptest::collection::vec(part(), 0..3),
        checksum(),
        pairs(),
        pairs(),
    )
        .prop_map(|(id, delete_marker, (modified_ms, size), parts, checksum, meta, tags)| Version {
            id: VersionId(id),
            delete_marker,
            modified_ms,
            size,
            md5: id,
            parts_count: parts.len() as u16,
            parts,
            checksum,
            meta,
            tags,
            ..Version::default()
        })
}

fn record() -> impl Strategy<Value = Record> {
    let state = prop_oneof![
        Just(UploadState::Open(0)),
        any::<u64>().prop_map(UploadState::Open),
        Just(UploadState::Aborted),
        version().prop_map(|v| UploadState::Completing(Box::new(v))),
        version().prop_map(|v| UploadState::Done(Box::new(v))),
    ];
    let body = prop_oneof![
        Just(Body::Tombstone),
        proptest::collection::vec(version(), 1..4).prop_map(Body::Versions),
        prop::collection::vec(part(), 1..4).prop_map(Body::Part),
        (
            proptest::collection::vec(version(), 0..3),
            any::<[u8; 16]>(),
            any::<[u8; 16]>(),
            proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        )
            .prop_map(|(versions, attempt, upload, to)| {
                Body::HeldKey(Box::new(HeldKey { versions, below: None, attempt, upload, to }))
            }),
        (any::<i64>(), state, version(), 0u8..6, any::<bool>()).prop_map(
            |(created_ms, state, template, a, c)| {
                Body::Upload(Box::new(Upload {
                    created_ms,
                    state,
                    template,
                    checksum_algorithm: a,
                    checksum_composite: c,
                }))
            }
        ),
    ];
    (any::<u64>(), any::<u64>(), any::<u32>(), body).prop_map(|(seq, parent, nonce, body)| Record {
        seq,
        parent,
        nonce,
        body,
    })
}

proptest! {
    #[test]
    fn round_trip(r in record()) {
        let bytes = r.encode();
        prop_assert_eq!(Record::decode(&bytes), Ok(r));
    }

    #[test]
    fn arbitrary_bytes_decode_or_return_error(b in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(r) = Record::decode(&b) {
            prop_assert_eq!(r.encode(), b);
        }
    }

    #[test]
    fn mutated_records_have_one_encoding(r in record(), at in any::<usize>(), to in any::<u8>()) {
        let mut b = r.encode();
        let i = at % b.len();
        b[i] = to;
        if let Ok(other) = Record::decode(&b) {
            prop_assert_eq!(other.encode(), b);
        }
    }

    #[test]
    fn ballot_bytes_keep_order(a in any::<(u32, u64, u16, u32)>(), b in any::<(u32, u64, u16, u32)>()) {
        let make = |(epoch, counter, node, nonce)| Ballot { epoch, counter, node, nonce };
        let (a, b) = (make(a), make(b));
        prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
    }
}
