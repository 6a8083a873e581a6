//! Golden bytes of everything that a drive stores across releases. `ASHLAR_BLESS=1` writes them again: only
//! together with a new format number.

use crate::common::*;
use ashlar_format::frame::{self, Layout, ShardId};
use ashlar_format::journal::{
    self, AcceptEntry, BatchWriter, ExtentEntry, FenceEntry, GroupState, LiftEntry, PAGE, SegmentHeader,
    StageEntry, kind,
};
use ashlar_format::{Ballot, BucketId, GroupId, codec};
use std::fmt::Write as _;

/// Lines of offset and bytes; lines of zeros, or of padding, are omitted.
fn dump(bytes: &[u8]) -> String {
    let mut out = format!("{} bytes\n", bytes.len());
    for (i, line) in bytes.chunks(32).enumerate() {
        if line.iter().all(|b| *b == 0) || line.iter().all(|b| *b == 0xa5) {
            continue;
        }
        let _ = write!(out, "{:06x} ", i * 32);
        for b in line {
            let _ = write!(out, "{b:02x}");
        }
        out.push('\n');
    }
    out
}

fn check(name: &str, bytes: &[u8]) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let now = dump(bytes);
    if std::env::var_os("ASHLAR_BLESS").is_some() {
        std::fs::create_dir_all(format!("{}/tests/golden", env!("CARGO_MANIFEST_DIR"))).unwrap();
        std::fs::write(&path, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == now, "{name}: on-drive bytes have changed\n{now}");
}

fn b(counter: u64) -> Ballot {
    Ballot { epoch: 3, counter, node: 2, nonce: 0xabcd }
}

#[test]
fn label_bytes() {
    check("label", &label(9).encode());
}

#[test]
fn journal_bytes() {
    let hash_key = label(9).hash_key();
    check("segment-header", &SegmentHeader::new(7, 1 << 20).encode(&hash_key));
    let mut buf = vec![0; 4 * PAGE];
    let mut w = BatchWriter::new(hash_key, 7, PAGE as u32, PAGE);
    let (k, wid) = (key(1), write_id(1));
    let mut push = |kind: u8, f: &dyn Fn(&mut codec::Writer)| {
        let mut head = codec::Writer::default();
        f(&mut head);
        w.push(&mut buf, kind, &[&head.into_vec()]);
    };
    push(kind::SEGMENTS, &|h| journal::segments(h, &[1, 5]));
    push(kind::ACCEPT, &|h| {
        let e = AcceptEntry {
            key: k.as_bytes(),
            ballot: b(5),
            flags: journal::ONE_SYNC,
            oldest: 6,
            summary: b"summary",
            record: b"",
        };
        journal::accept_head(h, &e);
        h.raw(b"the record");
    });
    push(kind::STAGE, &|h| {
        let e = StageEntry { write_id: wid, index: 4, ballot: b(5), owner: k.as_bytes(), data: b"" };
        journal::stage_head(h, &e);
        // Two sectors of zeros, which appear in the bitmap.
        h.raw(&[0; 1500]);
    });
    push(kind::EXTENT, &|h| journal::extent(h, &extent(&k, wid)));
    push(kind::HINTS, &|h| journal::hint(h, k.as_bytes(), b(5)));
    push(kind::PURGE, &|h| journal::purge(h, k.as_bytes(), b(5), 1, 7));
    push(kind::DISCARD, &|h| journal::discard(h, wid, 4, 6, (6, 8192)));
    push(kind::STATE, &|h| {
        let s = GroupState { floor: b(9), horizon: b(2), epoch: 3, voter: true, distrusted: false };
        journal::states(h, &[(GROUP, s), (GroupId::new(1, 258), GroupState::default())]);
    });
    push(kind::FENCE, &|h| {
        let e = FenceEntry { group: GroupId::new(1, 258), bucket: BucketId([6; 16]), deletion: 3, oldest: 1 };
        journal::fence(h, &e);
    });
    push(kind::LIFT, &|h| {
        let e = LiftEntry {
            group: GroupId::new(1, 258),
            bucket: BucketId([6; 16]),
            up_to: 3,
            oldest: 1,
            newest: 7,
        };
        journal::lift(h, &e);
    });
    push(kind::UNNAMED, &|h| journal::unnamed(h, &[(2, 1 << 20), (5, 0)]));
    push(kind::SEAL, &|h| h.u32(8));
    let batch = w.close(&mut buf, 42, &[0x11; 16]);
    check("journal-batch", &buf[..batch.len as usize]);
}

fn extent(k: &ashlar_format::RegisterKey, wid: ashlar_format::WriteId) -> ExtentEntry<'_> {
    ExtentEntry {
        write_id: wid,
        index: 4,
        ballot: b(5),
        owner: k.as_bytes(),
        len: 10_000,
        frame: 4096,
        segment: 2,
        offset: 1 << 20,
    }
}

#[test]
fn extent_bytes() {
    let (k, wid) = (key(1), write_id(1));
    check("extent-header", &frame::header(&extent(&k, wid), &label(9).hash_key()));
    let id = ShardId { deployment: label(9).deployment, write_id: wid, index: 4 };
    let layout = Layout { len: 10_000, frame: 4096 };
    assert_eq!(
        (layout.frames(), layout.frame_at(2), layout.table_at(), layout.region()),
        (3, 3 * 4096, 4 * 4096, 5 * 4096)
    );
    let data: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
    let hashes: Vec<[u8; 32]> =
        data.chunks(4096).enumerate().map(|(n, c)| id.frame_hash(n as u32, c)).collect();
    check("extent-table", &id.table(&hashes));
}
