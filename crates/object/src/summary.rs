//! The part of a record that the index of a drive keeps (at most 256 bytes), so that lists read no records.
//!
//! | byte | object | upload | part |
//! |---|---|---|---|
//! | format u8 = 1, kind u8 | 1 | 2 | 3 |
//! | | flags u8 (bit 0: delete marker, bit 1: known to be the only version) | state u8 (0 open, 1 completing, 2 done, 3 aborted, 4 a rename) | number u16 |
//! | | size var | created i64 | size var |
//! | | md5 16 | checksum u8 | md5 16 |
//! | | parts count u16 | class bytes | modified i64 |
//! | | modified i64 | | checksum u8, value bytes |
//! | | checksum u8, class bytes, owner bytes if it has one | | |
//!
//! Kind 4: a key that an attempt holds; then its summary as an object, if it has versions.
//!
//! Checksum u8: algorithm as in the record, 0 none, plus 128 for composite. Class: the storage class, empty
//! for STANDARD. A tombstone has no summary.
//!
//! Invariant: the summary is a function of the record.
//!
//! Must not depend on: registers, the store.

use ashlar_checksum::Algorithm;
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::{Checksum, Part, Upload, UploadState, Version};
use bytes::Bytes;

use crate::marks;
use crate::types::{ETag, number_algorithm, storage_class};

const FORMAT: u8 = 1;
/// Kind of a key that a rename holds.
const HELD: u8 = 4;
/// State of a rename that is not done.
pub(crate) const RENAME: u8 = 4;
/// Longest storage class that is kept; lists show longer ones as STANDARD.
const MAX_CLASS: usize = 64;
/// Longest owner that is kept; lists show longer ones as the bucket's owner.
const MAX_OWNER: usize = 96;

/// What lists show of the current version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectSummary {
    pub delete_marker: bool,
    pub size: u64,
    pub etag: ETag,
    pub modified_ms: i64,
    pub checksum: Option<(Algorithm, bool)>,
    pub class: String,
    /// Canonical id; empty: the bucket's owner.
    pub owner: String,
}

/// What lists show of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadSummary {
    pub state: u8,
    pub created_ms: i64,
    pub checksum: Option<(Algorithm, bool)>,
    pub class: String,
}

/// What lists show of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartSummary {
    pub number: u16,
    pub size: u64,
    pub md5: [u8; 16],
    pub modified_ms: i64,
    pub checksum: Option<Checksum>,
}

fn checksum_byte(algorithm: u8, composite: bool) -> u8 {
    if algorithm == 0 { 0 } else { algorithm | u8::from(composite) << 7 }
}

fn read_checksum(byte: u8) -> Option<(Algorithm, bool)> {
    number_algorithm(byte & 127).map(|a| (a, byte & 128 != 0))
}

fn put_class(w: &mut Writer, meta: &[(String, String)]) {
    let class = storage_class(meta);
    w.bytes(if class.len() <= MAX_CLASS { class.as_bytes() } else { b"" });
}

/// The summary of a key whose current version is `v`; `alone`: it is the only version.
pub(crate) fn of_version(v: &Version, alone: bool) -> Bytes {
    let mut w = Writer::with_capacity(48);
    w.u8(FORMAT);
    w.u8(1);
    w.u8(u8::from(v.delete_marker) | u8::from(alone) << 1);
    w.var(v.size);
    w.raw(&v.md5);
    w.u16(v.parts_count);
    w.i64(v.modified_ms);
    w.u8(v.checksum.as_ref().map_or(0, |c| checksum_byte(c.algorithm, c.composite)));
    put_class(&mut w, &v.meta);
    let owner = owner(v);
    if !owner.is_empty() && owner.len() <= MAX_OWNER {
        w.bytes(owner.as_bytes());
    }
    Bytes::from(w.into_vec())
}

/// The owner in the access control list of a version: its first line; empty for the bucket's owner.
pub(crate) fn owner(v: &Version) -> &str {
    v.acl.lines().next().unwrap_or_default()
}

/// The summary of an upload.
pub(crate) fn of_upload(u: &Upload) -> Bytes {
    let mut w = Writer::with_capacity(32);
    w.u8(FORMAT);
    w.u8(2);
    w.u8(match u.state {
        UploadState::Open(_) | UploadState::Completing(_) if marks::rename(&u.template).is_some() => RENAME,
        UploadState::Open(_) => 0,
        UploadState::Completing(_) => 1,
        UploadState::Done(_) => 2,
        UploadState::Aborted => 3,
    });
    w.i64(u.created_ms);
    w.u8(checksum_byte(u.checksum_algorithm, u.checksum_composite));
    put_class(&mut w, &u.template.meta);
    Bytes::from(w.into_vec())
}

/// The summary of a key with these versions that a rename holds.
pub(crate) fn of_held(versions: &[Version]) -> Bytes {
    let before = versions.first().map_or(Bytes::new(), |v| of_version(v, versions.len() == 1));
    Bytes::from([&[FORMAT, HELD], &before[..]].concat())
}

/// Whether the summary is that of a key that a rename holds.
pub(crate) fn is_held(bytes: &[u8]) -> bool {
    bytes.starts_with(&[FORMAT, HELD])
}

/// The summary of a part.
pub(crate) fn of_part(p: &Part) -> Bytes {
    let mut w = Writer::with_capacity(96);
    w.u8(FORMAT);
    w.u8(3);
    w.u16(p.number);
    w.var(p.size);
    w.raw(&p.md5);
    w.i64(p.modified_ms);
    match &p.checksum {
        None => w.u8(0),
        Some(c) => {
            w.u8(checksum_byte(c.algorithm, c.composite));
            w.bytes(&c.value);
        }
    }
    Bytes::from(w.into_vec())
}

fn begin(bytes: &[u8], kind: u8) -> Option<Reader<'_>> {
    let mut r = Reader::new(bytes);
    (r.u8().ok()? == FORMAT && r.u8().ok()? == kind).then_some(r)
}

/// Like [`version`], and whether it is known to be the only version.
pub(crate) fn scanned(bytes: &[u8]) -> Option<(ObjectSummary, bool)> {
    Some((version(bytes)?, bytes.get(2)? & 2 != 0))
}

/// The inverse of [`of_version`]; `None` for anything else.
pub(crate) fn version(bytes: &[u8]) -> Option<ObjectSummary> {
    let mut r = begin(bytes, 1)?;
    let delete_marker = r.u8().ok()? & 1 != 0;
    let size = r.var().ok()?;
    let md5 = r.array().ok()?;
    let parts = r.u16().ok()?;
    let modified_ms = r.i64().ok()?;
    let checksum = read_checksum(r.u8().ok()?);
    let class = r.string().ok()?;
    let owner = if r.end().is_ok() { String::new() } else { r.string().ok()? };
    r.end().ok()?;
    Some(ObjectSummary {
        delete_marker,
        size,
        etag: ETag { md5, parts },
        modified_ms,
        checksum,
        class,
        owner,
    })
}

/// The inverse of [`of_upload`]; `None` for anything else.
pub(crate) fn upload(bytes: &[u8]) -> Option<UploadSummary> {
    let mut r = begin(bytes, 2)?;
    let state = r.u8().ok()?;
    let created_ms = r.i64().ok()?;
    let checksum = read_checksum(r.u8().ok()?);
    let class = r.string().ok()?;
    r.end().ok()?;
    Some(UploadSummary { state, created_ms, checksum, class })
}

/// The inverse of [`of_part`]; `None` for anything else.
pub(crate) fn part(bytes: &[u8]) -> Option<PartSummary> {
    let mut r = begin(bytes, 3)?;
    let number = r.u16().ok()?;
    let size = r.var().ok()?;
    let md5 = r.array().ok()?;
    let modified_ms = r.i64().ok()?;
    let byte = r.u8().ok()?;
    let checksum = if byte == 0 {
        None
    } else {
        let value = r.bytes().ok()?.to_vec();
        Some(Checksum { algorithm: byte & 127, composite: byte & 128 != 0, value })
    };
    r.end().ok()?;
    Some(PartSummary { number, size, md5, modified_ms, checksum })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_format::{Data, WriteId};

    fn hex(b: &[u8]) -> String {
        b.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn golden() {
        let v = Version {
            size: 300,
            md5: [0xab; 16],
            parts_count: 2,
            modified_ms: 1_700_000_000_123,
            checksum: Some(Checksum { algorithm: 2, composite: true, value: vec![1, 2, 3, 4] }),
            meta: vec![("x-amz-storage-class".into(), "GLACIER".into())],
            ..Version::default()
        };
        assert!(scanned(&of_version(&v, true)).unwrap().1 && !scanned(&of_version(&v, false)).unwrap().1);
        assert_eq!(hex(&of_version(&v, true)[..3]), "010102");
        let b = of_version(&v, false);
        assert_eq!(
            hex(&b),
            "010100ac02abababababababababababababababab02007b68e5cf8b0100008207474c4143494552"
        );
        let s = version(&b).unwrap();
        assert_eq!((s.size, s.etag.parts, s.class.as_str()), (300, 2, "GLACIER"));
        assert_eq!(s.checksum, Some((Algorithm::Crc32c, true)));
        assert!(upload(&b).is_none() && part(&b).is_none());

        let u = Upload {
            created_ms: 5,
            state: UploadState::Aborted,
            template: Version::default(),
            checksum_algorithm: 5,
            checksum_composite: false,
        };
        let b = of_upload(&u);
        assert_eq!(hex(&b), "01020305000000000000000500");
        assert_eq!(upload(&b).unwrap().state, 3);

        let data = Data {
            write_id: WriteId([1; 16]),
            k: 2,
            m: 1,
            rotate: 0,
            stripe: 4096,
            durable: 7,
            inline: false,
        };
        let p = Part {
            number: 10_000,
            size: 5 << 20,
            md5: [1; 16],
            checksum: Some(Checksum { algorithm: 1, composite: false, value: vec![9; 4] }),
            modified_ms: -1,
            data,
        };
        let b = of_part(&p);
        assert_eq!(hex(&b), "010310278080c00201010101010101010101010101010101ffffffffffffffff010409090909");
        assert_eq!(part(&b).unwrap().checksum, p.checksum);
        for cut in 0..b.len() {
            assert!(part(&b[..cut]).is_none());
        }
    }

    #[test]
    fn summary_fits_limit_of_drive_index() {
        let meta = vec![("x-amz-storage-class".to_owned(), "X".repeat(2000))];
        let v = Version { size: u64::MAX, meta, ..Version::default() };
        assert!(of_version(&v, true).len() <= 256);
    }
}
