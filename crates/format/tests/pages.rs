//! Version pages: golden bytes, round trips, filters.

use ashlar_format::{
    Below, Body, Data, Entry, Error, HeldKey, Page, PageRef, Paged, Part, Record, Version, VersionId, WriteId,
};
use proptest::prelude::*;

fn data(id: u8) -> Data {
    let write_id = WriteId([id; 16]);
    Data { write_id, k: 2, m: 2, rotate: 1, stripe: 4096, durable: 15, inline: true }
}

fn version(id: u8) -> Version {
    let part = Part { number: 1, size: 9, md5: [2; 16], checksum: None, modified_ms: 5, data: data(id) };
    Version { id: VersionId([id; 16]), modified_ms: 5, size: 9, parts: vec![part], ..Version::default() }
}

fn leaf() -> Page {
    let marker = Version { id: VersionId([4; 16]), delete_marker: true, ..Version::default() };
    Page::Leaf(vec![
        Entry { position: 300, version: version(7) },
        Entry { position: 299, version: marker },
        Entry { position: 5, version: version(0) },
    ])
}

fn row() -> Page {
    let older = Page::Leaf(vec![Entry { position: 4, version: version(9) }]);
    Page::Row(vec![leaf().reference(0, data(0xaa), 400), older.reference(1, data(0xbb), 150)])
}

fn record() -> Record {
    let root = row().reference(0, data(0xcc), 222);
    let below = Below { next: 301, null: Some(5), root };
    Record {
        seq: 9,
        parent: 8,
        nonce: 0,
        body: Body::Paged(Box::new(Paged { head: vec![version(1)], below })),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of format 1. If this test fails, lists written by an earlier build become unreadable: raise the
/// format number and keep a decoder for the old one.
#[test]
fn golden_pages() {
    assert_eq!(hex(&row().encode()), include_str!("page-row-1.hex").trim());
    assert_eq!(hex(&leaf().encode()), include_str!("page-leaf-1.hex").trim());
    for page in [leaf(), row()] {
        assert_eq!(Page::decode(&page.encode()), Ok(page));
    }
}

#[test]
fn golden_record_with_pages() {
    let bytes = record().encode();
    assert_eq!(hex(&bytes), include_str!("record-3.hex").trim());
    assert_eq!(Record::decode(&bytes), Ok(record()));
    let body = Body::HeldKey(Box::new(HeldKey {
        versions: vec![version(1)],
        below: record().body.below().cloned(),
        attempt: [3; 16],
        upload: [4; 16],
        to: None,
    }));
    let held = Record { body, ..record() };
    assert_eq!(Record::decode(&held.encode()), Ok(held.clone()));
    // What the record itself names: the data of its versions, and the root.
    let named: Vec<u8> = held.data().map(|p| p.data.write_id.0[0]).collect();
    assert_eq!(named, [1, 0xcc]);
}

#[test]
fn reference_totals_equal_those_of_its_page() {
    let PageRef { level, versions, markers, bytes, newest, oldest, filter, .. } =
        row().reference(3, data(1), 222);
    assert_eq!((level, versions, markers, bytes, newest, oldest), (1, 3, 1, 27, 300, 4));
    assert!(filter.is_empty(), "a row has no filter");
}

#[test]
fn filter_contains_versions_and_data() {
    let of = leaf().reference(0, data(1), 400);
    for id in [7, 4, 0] {
        assert!(of.may_hold(&[id; 16]));
    }
    let wrong = (20..220u8).filter(|id| of.may_hold(&[*id; 16])).count();
    assert!(wrong < 30, "{wrong} of 200 ids are let through");
    let mut many = version(3);
    many.parts = vec![many.parts[0].clone(); 1000];
    let of = Page::Leaf(vec![Entry { position: 1, version: many }]).reference(0, data(1), 400);
    assert!(of.filter.is_empty() && of.may_hold(&[99; 16]));
}

#[test]
fn pages_out_of_order_are_refused() {
    let entry = |position| Entry { position, version: version(1) };
    for positions in [vec![], vec![1, 1], vec![1, 2]] {
        let page = Page::Leaf(positions.into_iter().map(entry).collect());
        assert_eq!(Page::decode(&page.encode()), Err(Error::Malformed("order of a page")));
    }
    let Page::Row(mut refs) = row() else { unreachable!() };
    refs.reverse();
    assert!(Page::decode(&Page::Row(refs).encode()).is_err());
    let mut newer = leaf().encode();
    newer[0] = 2;
    assert_eq!(Page::decode(&newer), Err(Error::Version { what: "version page", found: 2 }));
}

proptest! {
    #[test]
    fn one_encoding(at in any::<usize>(), to in any::<u8>(), which in 0..3) {
        let mut b = [leaf().encode(), row().encode(), record().encode()][which as usize].clone();
        let i = at % b.len();
        b[i] = to;
        if let Ok(page) = Page::decode(&b) {
            prop_assert_eq!(page.encode(), b.clone());
        }
        if let Ok(record) = Record::decode(&b) {
            prop_assert_eq!(record.encode(), b);
        }
    }

    #[test]
    fn any_bytes_decode_or_fail_cleanly(b in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(page) = Page::decode(&b) {
            prop_assert_eq!(page.encode(), b);
        }
    }
}
