//! Contents of a drive's journal and extents, after the hashes: records by kind, bodies of batches, header
//! pages; and small files of a drive: one-sync records, notes about journals, the map.
//!
//! Invariant: a value with one encoding is encoded to the same bytes.

use ashlar_format::codec::Writer;
use ashlar_format::journal::{
    self, AcceptEntry, BatchWriter, Entry, ExtentEntry, FenceEntry, GroupState, LiftEntry, StageEntry, kind,
};
use ashlar_format::{Ballot, BucketId, DeploymentId, DriveId, GroupId, RegisterKey, Space, WriteId, frame};

use crate::target::Target;

const KEY: [u64; 4] = [1, 2, 3, 4];
const TOKENS: &[&[u8]] = &[&[0xff; 9], &[0x80; 8], &[0], &[1]];
/// The segment at which the batches of the seeds begin.
const SEGMENT: u32 = 3;
const AT: u32 = 4096;

/// Every target of this file.
pub fn all() -> Vec<Target> {
    let (deployment, drive) = (DeploymentId([9; 16]), |n| DriveId([n; 16]));
    let drives: Vec<_> = (1..5).map(|n| (drive(n), format!("/d{n}"), 1 << 40)).collect();
    let map =
        ashlar_cluster::Map::first(deployment, &drives, None, Some(2)).expect("four drives are a deployment");
    let replaced = map.replace(drive(1), drive(9), "/d9", 1 << 40).expect("a drive can be replaced");
    let mut notes = vec![2];
    notes.extend(deployment.0);
    notes.push(2);
    for n in 1..3u8 {
        notes.extend([&[n; 16][..], &[0; 4], &[n, 1, 0, 0, 0, 0, 0, 0]].concat());
    }
    vec![
        Target {
            name: "metrics-history",
            seeds: ashlar_time_series::fuzzed_seeds(),
            tokens: &[b"ASHTIMES"],
            run: ashlar_time_series::fuzzed,
        },
        Target {
            name: "journal-entry",
            seeds: payloads().iter().map(|(kind, payload)| [&[*kind], &payload[..]].concat()).collect(),
            tokens: TOKENS,
            run: entry,
        },
        Target {
            name: "journal-batch",
            seeds: vec![batch(&payloads()), batch(&payloads()[3..4])],
            tokens: TOKENS,
            run: body,
        },
        Target {
            name: "one-sync",
            seeds: ashlar_erasure_set::fuzzed_stored_seeds(),
            tokens: TOKENS,
            run: ashlar_erasure_set::fuzzed_stored,
        },
        Target {
            name: "sequences",
            seeds: vec![notes],
            tokens: TOKENS,
            run: ashlar_cluster::fuzzed_sequences,
        },
        Target {
            name: "map",
            seeds: vec![
                lines(&map),
                lines(&replaced),
                b"map {}".to_vec(),
                br#"map {"format":3,"epoch":1e999}"#.to_vec(),
                b"map [[[[".to_vec(),
            ],
            tokens: &[
                b"[",
                b"{",
                b"\"slots\":",
                b"18446744073709551616",
                b"4294967295",
                b"null",
                b"\nmap/drive/",
            ],
            run: |b| {
                let lines = b.split(|c| *c == b'\n').filter_map(|line| {
                    let at = line.iter().position(|c| *c == b' ')?;
                    Some((std::str::from_utf8(&line[..at]).ok()?, &line[at + 1..]))
                });
                let Ok(map) = ashlar_cluster::Map::from_entries(lines) else { return };
                let again = map.entries();
                let again = again.iter().map(|(k, v)| (k.as_str(), &v[..]));
                assert_eq!(ashlar_cluster::Map::from_entries(again).ok().as_ref(), Some(&map));
                // Changes of a map must not fail on any map that is read.
                let _ = (map.next_epoch(), map.members());
                for d in &map.drives {
                    let new = DriveId([0xee; 16]);
                    let (all, joins) = (map.groups_of(d.id), map.rejoin(d.id, |_| true));
                    let _ = (joins, map.joined(d.id, &all), map.replace(d.id, new, "/n", 1));
                }
            },
        },
    ]
}

/// A map as a line per value: key, space, JSON.
fn lines(map: &ashlar_cluster::Map) -> Vec<u8> {
    let entries = map.entries();
    entries.iter().flat_map(|(k, v)| [k.as_bytes(), b" ", &v[..], b"\n"].concat()).collect()
}

/// A payload of every kind.
fn payloads() -> Vec<(u8, Vec<u8>)> {
    let (group, bucket) = (GroupId::new(1, 2), BucketId([2; 16]));
    let key = RegisterKey::new(GroupId::default(), Space::Object, bucket, b"key");
    let (key, ballot) = (key.as_bytes(), Ballot { epoch: 1, counter: 5, node: 2, nonce: 9 });
    let write_id = WriteId([7; 16]);
    let made = |put: &dyn Fn(&mut Writer)| {
        let mut w = Writer::default();
        put(&mut w);
        w.into_vec()
    };
    vec![
        (
            kind::ACCEPT,
            made(&|w| {
                let e = AcceptEntry { flags: 1, ballot, oldest: 2, key, summary: b"sum", record: b"" };
                journal::accept_head(w, &e);
                w.raw(b"the record");
            }),
        ),
        (
            kind::STAGE,
            made(&|w| {
                journal::stage_head(w, &StageEntry { write_id, index: 1, ballot, owner: key, data: b"" });
                w.raw(b"the bytes");
            }),
        ),
        (
            kind::EXTENT,
            made(&|w| {
                let (len, frame) = (1 << 20, 65_536);
                let e = ExtentEntry {
                    write_id,
                    index: 1,
                    ballot,
                    owner: key,
                    len,
                    frame,
                    segment: 4,
                    offset: 8192,
                };
                journal::extent(w, &e);
            }),
        ),
        (
            kind::HINTS,
            made(&|w| {
                journal::hint(w, key, ballot);
                journal::hint(w, key, Ballot::ZERO);
            }),
        ),
        (kind::PURGE, made(&|w| journal::purge(w, key, ballot, 1, 2))),
        (kind::DISCARD, made(&|w| journal::discard(w, write_id, 1, 3, (4, 4096)))),
        (
            kind::STATE,
            made(&|w| {
                let state =
                    GroupState { floor: ballot, horizon: ballot, epoch: 3, voter: true, distrusted: false };
                journal::states(w, &[(GroupId::new(0, 1), state), (GroupId::new(2, 0), state)]);
            }),
        ),
        (kind::SEGMENTS, made(&|w| journal::segments(w, &[1, 2, 3]))),
        (kind::SEAL, vec![4, 0, 0, 0]),
        (kind::FENCE, made(&|w| journal::fence(w, &FenceEntry { group, bucket, deletion: 3, oldest: 1 }))),
        (
            kind::LIFT,
            made(&|w| journal::lift(w, &LiftEntry { group, bucket, up_to: 3, oldest: 1, newest: 4 })),
        ),
        (kind::UNNAMED, made(&|w| journal::unnamed(w, &[(1, 4096), (3, 1 << 40)]))),
    ]
}

/// Decodes a kind and its payload: a payload that decodes encodes to the same bytes.
fn entry(b: &[u8]) {
    let Some((kind, payload)) = b.split_first() else { return };
    let Ok(entry) = Entry::decode(*kind, payload) else { return };
    let mut w = Writer::default();
    match &entry {
        Entry::Accept(e) => {
            journal::accept_head(&mut w, e);
            w.raw(e.record);
        }
        Entry::Stage(e) => {
            journal::stage_head(&mut w, e);
            w.raw(e.data);
        }
        Entry::Extent(e) => {
            journal::extent(&mut w, e);
            page(e);
        }
        Entry::Hints(hints) => hints.iter().for_each(|(key, ballot)| journal::hint(&mut w, key, *ballot)),
        Entry::Purge { key, ballot, oldest, newest } => {
            journal::purge(&mut w, key, *ballot, *oldest, *newest)
        }
        Entry::Discard { write_id, index, segment, before } => {
            journal::discard(&mut w, *write_id, *index, *segment, *before);
        }
        Entry::State(of) => journal::states(&mut w, of),
        Entry::Segments(list) => journal::segments(&mut w, list),
        Entry::Fence(e) => journal::fence(&mut w, e),
        Entry::Lift(e) => journal::lift(&mut w, e),
        Entry::Unnamed(note) => journal::unnamed(&mut w, note),
        Entry::Seal { next } => w.u32(*next),
    }
    assert_eq!(w.into_vec(), payload, "a record of the journal that is not itself");
}

/// The header page of a region has the same content as the journal record, and its positions are in order.
fn page(e: &ExtentEntry<'_>) {
    let page = frame::header(e, &KEY);
    let read = frame::decode_header(&page, &KEY);
    assert!(read.as_ref() == Ok(e) || e.frame > frame::MAX_FRAME, "a header page that says something else");
    let layout = frame::Layout { len: e.len, frame: e.frame };
    assert!(layout.table_at() >= e.len && layout.region() >= layout.table_at(), "a region that wraps");
}

/// A batch with these records.
fn batch(records: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut writer = BatchWriter::new(KEY, SEGMENT, AT, 512);
    let mut buf = vec![0; 16 << 10];
    for (kind, payload) in records {
        writer.push(&mut buf, *kind, &[payload]);
    }
    writer.close(&mut buf, 5, &[6; 16]);
    buf.truncate(writer.len());
    buf
}

/// Decodes a batch whose header is valid: every returned record must be one of the batch.
fn body(b: &[u8]) {
    let whole = &b[..b.len() / 512 * 512];
    let Some(head) = whole.get(..512) else { return };
    let _ = journal::batch_header(head, &KEY, SEGMENT, AT);
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (count, used) = (number(28), number(32));
    let content = 512 + used as usize;
    if !(content..content + 4096).contains(&whole.len()) || count == 0 {
        return;
    }
    let batch =
        journal::Batch { len: whole.len() as u32, count, used, seq: 5, previous: [6; 16], chain: [0; 16] };
    let mut given = 0;
    let found = journal::batch_body(whole, &KEY, SEGMENT, AT, &batch, |at, kind, payload| {
        let alone = journal::record(&whole[(at - AT) as usize..], &KEY, SEGMENT, at);
        assert_eq!(alone, Ok((kind, payload)), "a record that is none by itself");
        let _ = Entry::decode(kind, payload);
        given += 1;
    });
    assert!(given <= count && (found != journal::Body::Sound || given == count));
}
