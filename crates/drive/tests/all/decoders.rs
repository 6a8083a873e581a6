//! Decoders with arbitrary and mutated bytes: no panic, nothing invalid is accepted (T18).

use crate::common::*;
use ashlar_format::frame::{self, ShardId};
use ashlar_format::journal::{
    self, AcceptEntry, BatchWriter, Body, Entry, ExtentEntry, Found, PAGE, SegmentHeader, kind,
};
use ashlar_format::label::Label;
use ashlar_format::{DeploymentId, codec};
use proptest::prelude::*;

fn batch(records: &[Vec<u8>]) -> (Vec<u8>, journal::Batch) {
    let mut buf = vec![0; 64 * PAGE];
    let mut w = BatchWriter::new(label(1).hash_key(), 3, 8192, PAGE);
    for r in records {
        let mut h = codec::Writer::default();
        let k = key(r.len() as u64);
        let e = AcceptEntry {
            key: k.as_bytes(),
            ballot: ballot(1),
            flags: 0,
            oldest: 0,
            summary: b"",
            record: r,
        };
        journal::accept_head(&mut h, &e);
        w.push(&mut buf, kind::ACCEPT, &[&h.into_vec(), r]);
    }
    let b = w.close(&mut buf, 1, &[0; 16]);
    buf.truncate(b.len as usize);
    (buf, b)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..9000), kind in any::<u8>()) {
        let k = label(1).hash_key();
        prop_assert!(Label::decode(&bytes).is_err());
        let page = &bytes[..bytes.len().min(4096)];
        prop_assert!(SegmentHeader::decode(page, &k, 1).is_err());
        prop_assert!(frame::decode_header(page, &k).is_err());
        prop_assert!(journal::record(&bytes, &k, 1, 4096).is_err());
        prop_assert!(!matches!(journal::batch_header(&bytes, &k, 1, 4096), Found::Header(_)));
        let id = ShardId { deployment: DeploymentId([1; 16]), write_id: write_id(1), index: 0 };
        prop_assert!(id.check_table(&bytes, 3).is_err());
        // An unchecked payload may decode, but only to what its bytes contain.
        let _ = Entry::decode(kind % 12, &bytes);
    }

    #[test]
    fn mutated_batches(
        sizes in prop::collection::vec(0usize..3000, 1..8),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let k = label(1).hash_key();
        let records: Vec<Vec<u8>> = sizes.iter().map(|n| Rng(*n as u64).bytes(*n)).collect();
        let (good, _) = batch(&records);
        let Found::Header(h) = journal::batch_header(&good, &k, 3, 8192) else { panic!() };
        let mut got = 0;
        let body = journal::batch_body(&good, &k, 3, 8192, &h, |at, kind, payload| {
            assert!(matches!(Entry::decode(kind, payload), Ok(Entry::Accept(_))));
            let start = (at - 8192) as usize;
            assert_eq!(journal::record(&good[start..], &k, 3, at).unwrap().1, payload);
            got += 1;
        });
        prop_assert_eq!((body, got), (Body::Sound, records.len()));
        // Another place, another drive.
        prop_assert_eq!(journal::batch_header(&good, &k, 3, 12288), Found::Damaged);
        prop_assert_eq!(journal::batch_header(&good, &k, 4, 8192), Found::Damaged);
        prop_assert_eq!(journal::batch_header(&good, &label(2).hash_key(), 3, 8192), Found::Damaged);
        // Flipped bits.
        let mut bad = good.clone();
        for (i, bit) in &flips {
            let i = i.index(bad.len());
            bad[i] ^= 1 << bit;
        }
        if bad != good {
            match journal::batch_header(&bad, &k, 3, 8192) {
                Found::Header(h) => {
                    let b = journal::batch_body(&bad, &k, 3, 8192, &h, |_, _, _| {});
                    prop_assert_eq!(b, Body::Damaged);
                }
                f => prop_assert_eq!(f, Found::Damaged),
            }
        }
        // Sectors that never reached the medium.
        let mut torn = good.clone();
        let n = cut.index(torn.len() / 512);
        torn[n * 512..(n + 1) * 512].fill(0);
        if torn != good {
            match journal::batch_header(&torn, &k, 3, 8192) {
                Found::Header(h) => {
                    let b = journal::batch_body(&torn, &k, 3, 8192, &h, |_, _, _| {});
                    prop_assert_eq!(b, Body::Torn);
                }
                f => prop_assert_eq!(f, Found::Unwritten),
            }
        }
    }

    #[test]
    fn mutated_pages(at in 0usize..4096, bit in 0u8..8) {
        let k = label(1).hash_key();
        let mut seg = SegmentHeader::new(5, 1 << 20).encode(&k);
        prop_assert!(SegmentHeader::decode(&seg, &k, 6).is_err());
        seg[at] ^= 1 << bit;
        prop_assert!(SegmentHeader::decode(&seg, &k, 5).is_err());
        let owner = key(1);
        let e = ExtentEntry {
            write_id: write_id(1), index: 1, ballot: ballot(1), owner: owner.as_bytes(),
            len: 100, frame: 50, segment: 1, offset: 4096,
        };
        let mut page = frame::header(&e, &k);
        prop_assert_eq!(frame::decode_header(&page, &k).unwrap(), e.clone());
        page[at] ^= 1 << bit;
        prop_assert!(frame::decode_header(&page, &k).is_err());
        let id = ShardId { deployment: DeploymentId([1; 16]), write_id: write_id(1), index: 0 };
        let mut table = id.table(&[[1; 32], [2; 32]]);
        prop_assert!(id.check_table(&table, 2).is_ok());
        table[at] ^= 1 << bit;
        prop_assert!(id.check_table(&table, 2).is_err());
    }

    #[test]
    fn entries_of_mutated_payloads(at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let owner = key(1);
        let e = ExtentEntry {
            write_id: write_id(1), index: 1, ballot: ballot(1), owner: owner.as_bytes(),
            len: 100, frame: 50, segment: 1, offset: 4096,
        };
        let mut w = codec::Writer::default();
        journal::extent(&mut w, &e);
        let good = w.into_vec();
        prop_assert_eq!(Entry::decode(kind::EXTENT, &good).unwrap(), Entry::Extent(e));
        let mut bad = good.clone();
        let i = at.index(bad.len());
        bad[i] = with;
        if let Ok(Entry::Extent(x)) = Entry::decode(kind::EXTENT, &bad) {
            // What decodes must encode to the same bytes: one encoding per value.
            let mut w = codec::Writer::default();
            journal::extent(&mut w, &x);
            prop_assert_eq!(w.into_vec(), bad);
        }
    }
}
