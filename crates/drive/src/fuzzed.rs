//! The decoders of index files for the fuzzer. Hashes are corrected first, so that the code after the hash
//! check is reached.
//!
//! Invariant: the program calls nothing here.
//!
//! Must not depend on: a running drive.

use crate::counters::Counters;
use crate::entry::{Register, Shard, shard_name};
use crate::index::Manifest;
use crate::run::{Cursor, Mode, Run, filter_hash, sealed_run};
use ashlar_format::codec::Writer;
use ashlar_machine::{Folder, SimDisk};
use std::sync::Arc;

const KEY: [u64; 4] = [1, 2, 3, 4];

/// A manifest without its hash: what decodes must encode to the same bytes.
pub fn manifest(body: &[u8]) {
    if let Ok(m) = Manifest::decode(&Manifest::seal(body.to_vec(), &KEY), &KEY) {
        let again = Manifest::decode(&m.encode(&KEY), &KEY);
        assert!(again.is_ok_and(|again| again == m), "a manifest that is not itself");
    }
}

/// Manifests without their hashes.
#[must_use]
pub fn manifests() -> Vec<Vec<u8>> {
    let full = Manifest {
        next_run: 9,
        runs: vec![(7, 4096), (8, 1 << 40)],
        journal: vec![(
            3,
            crate::space::Segment { bytes: 65_536, live: 4000, deletions: 90, need: Some((1, 2)) },
        )],
        extents: vec![(
            5,
            crate::space::Extent { bytes: 1 << 20, at: 8192, live: 4096, ..Default::default() },
        )],
        next_extent: 6,
        unnamed: vec![(5, 8192), (6, 0)],
        fences: vec![(
            (ashlar_format::GroupId::new(0, 2), ashlar_format::BucketId([7; 16])),
            crate::fence_table::Fence {
                deletion: ashlar_commit::bucket_fence::Deletion(3),
                loc: crate::entry::Loc { segment: 3, at: 4096, len: 30 },
                oldest: 2,
            },
        )],
        ..Manifest::default()
    };
    let body = |m: &Manifest| {
        let mut bytes = m.encode(&KEY);
        bytes.truncate(bytes.len() - 32);
        bytes
    };
    vec![body(&full), body(&Manifest::default())]
}

/// An index file with this block, this block index and this filter (the block gets half of the bytes, the
/// others a quarter each): opened, searched and walked.
pub fn run(bytes: &[u8]) {
    let quarter = bytes.len() / 4;
    let (filter, rest) = bytes.split_at(quarter.min(64));
    let (index, block) = rest.split_at(quarter);
    both(block, index, filter);
    // A matching block index, so that the block is read.
    let mut fitting = Writer::default();
    fitting.u32(block.len() as u32 + 16);
    fitting.bytes(b"");
    both(block, &fitting.into_vec(), filter);
}

fn both(block: &[u8], index: &[u8], filter: &[u8]) {
    let disk = SimDisk::new(1 << 30);
    let file = sealed_run(7, &KEY, block, index, filter);
    let len = file.len() as u64;
    disk.put("00000007.run", Some(file));
    let folder = Folder::simulated(&disk, None);
    let Ok(run) = Run::open(&folder, 7, len, &KEY, &Arc::new(Counters::default())) else { return };
    let run = Arc::new(run);
    let mut scratch = Vec::new();
    for key in [b"r".as_slice(), &[b's'; 18], b"", &[0xff; 40]] {
        let _ = run.get(key, filter_hash(key), Mode::Wait, &mut scratch, Register::decode);
        let _ = run.get(key, filter_hash(key), Mode::Wait, &mut scratch, Shard::decode);
    }
    let Ok(mut cursor) = Cursor::new(run, b"", Mode::Wait, None) else { return };
    while let Some((k, v)) = cursor.peek() {
        let v = v.unwrap_or_default();
        if shard_name(k).is_some() {
            if let Ok(s) = Shard::decode(v) {
                let mut w = Writer::default();
                s.encode(&mut w);
                assert_eq!(w.into_vec(), v, "a shard's entry that is not itself");
                let _ = s.region_bytes();
            }
        } else if let Ok(r) = Register::decode(v) {
            let mut w = Writer::default();
            r.encode(&mut w);
            assert_eq!(w.into_vec(), v, "a register's entry that is not itself");
        }
        if cursor.next().is_err() {
            return;
        }
    }
}

/// Inputs of [`run`] whose block holds entries.
#[must_use]
pub fn runs() -> Vec<Vec<u8>> {
    use ashlar_format::{BucketId, GroupId, RegisterKey, Space};
    let owner = RegisterKey::new(GroupId::default(), Space::Object, BucketId([1; 16]), b"key");
    let shard = Shard {
        owner: owner.clone(),
        ballot: Default::default(),
        len: 70_000,
        loc: crate::entry::Loc { segment: 1, at: 4096, len: 90 },
        extent: Some(crate::entry::Region { segment: 2, offset: 0, frame: 65_536 }),
    };
    let mut block = Vec::new();
    let mut put = |key: &[u8], value: &[u8]| {
        block.extend_from_slice(&(key.len() as u16).to_le_bytes());
        block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        block.extend_from_slice(key);
        block.extend_from_slice(value);
    };
    let register = Register {
        ballot: Default::default(),
        digest: 7,
        loc: crate::entry::Loc { segment: 1, at: 8192, len: 200 },
        record_len: 100,
        flags: 1,
        oldest: 1,
        summary: (*b"summary").into(),
    };
    let mut key = Vec::new();
    crate::entry::register_key(owner.as_bytes(), &mut key);
    let mut w = Writer::default();
    register.encode(&mut w);
    put(&key, &w.into_vec());
    let mut w = Writer::default();
    shard.encode(&mut w);
    put(&crate::entry::shard_key((ashlar_format::WriteId([1; 16]), 3)), &w.into_vec());
    // Filter and block index in front of it, by the same arithmetic as in `run`.
    let fits = |n: usize| {
        let quarter = (n + block.len()) / 4;
        n == quarter.min(64) + quarter
    };
    let front = (0..4096).find(|n| fits(*n)).unwrap_or(0);
    vec![[vec![0xff; front], block].concat(), vec![0; 400]]
}
