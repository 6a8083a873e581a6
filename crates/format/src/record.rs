//! The record: what a register holds, replicated on every slot of its placement group.
//!
//! A record is the whole state of one key (its versions) or of one multipart upload. It says which shards
//! hold the data (write ids, shard maps). Byte layout: docs/formats.md, "Record".
//!
//! Invariants: `seq` grows by one and `parent` is the digest of the record it was made from (I5); one record
//! has one encoding.
//!
//! Must not depend on: how a drive stores shards.

use crate::codec::{Reader, Writer};
use crate::pages::{Below, get_below, put_below};
use crate::{Error, VersionId, WriteId};

/// The state of one register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// 1 for the first record of a register; one more with each change.
    pub seq: u64,
    /// [`Record::digest`] of the record this one was made from; 0 for the first.
    pub parent: u64,
    /// Distinguishes records of the same content that two updates make from one base, such as two deletions, so that
    /// each of them knows its own. 0: made by no update of a caller.
    pub nonce: u32,
    /// The content of the register.
    pub body: Body,
}

/// The content of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing: the key was deleted. Kept until every voter has it (docs/protocol.md 2.6).
    Tombstone,
    /// The versions of a key, newest first; never empty.
    Versions(Vec<Version>),
    /// The versions of a key with older ones in version pages.
    Paged(Box<Paged>),
    /// A multipart upload.
    Upload(Box<Upload>),
    /// One part of a multipart upload. It has its own register, so that the cost of a part does not grow with
    /// the number of parts. After it come the parts that it replaced and whose data may still be needed
    /// (`ashlar_commit::upload`); never empty.
    Part(Vec<Part>),
    /// A key that is held by an attempt to rename or to complete an upload.
    HeldKey(Box<HeldKey>),
}

/// The versions of a key that has many: the newest here, the others in pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paged {
    /// The newest versions, newest first; never empty.
    pub head: Vec<Version>,
    /// The pages with older versions.
    pub below: Below,
}

/// A key that is the source or destination of a rename, or the destination of a multipart upload, while the
/// attempt is under way (`ashlar_commit::attempt`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    /// The versions of the key, newest first; empty if it has none.
    pub versions: Vec<Version>,
    /// Those below them, in version pages.
    pub below: Option<Below>,
    /// The attempt that holds it.
    pub attempt: [u8; 16],
    /// The id of the upload whose register decides, next to the destination key.
    pub upload: [u8; 16],
    /// `None`: this key is the destination of the rename or upload. Otherwise this key is the source of a
    /// rename to the key given here.
    pub to: Option<Vec<u8>>,
}

/// One version of a key.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Version {
    /// All zero: the null version.
    pub id: VersionId,
    /// True for a delete marker, which has no data.
    pub delete_marker: bool,
    /// Milliseconds since 1970, for display only; never older than the version below it.
    pub modified_ms: i64,
    /// Bytes of the object as clients see it.
    pub size: u64,
    /// MD5 of the body, or MD5 over the parts' MD5s when `parts_count > 0`.
    pub md5: [u8; 16],
    /// 0 for a simple PUT, else the number of parts shown after the dash in the ETag.
    pub parts_count: u16,
    /// The data, in order. Empty for an empty object or a delete marker.
    pub parts: Vec<Part>,
    /// The S3 additional checksum of the whole object.
    pub checksum: Option<Checksum>,
    /// System and user metadata by lower-case header name, in order of name. User metadata keeps
    /// its `x-amz-meta-` prefix; values are UTF-8.
    pub meta: Vec<(String, String)>,
    /// Object tags, in the order given.
    pub tags: Vec<(String, String)>,
    /// Retention mode and date of object lock, if set.
    pub retention: Option<Retention>,
    /// Legal hold of object lock.
    pub legal_hold: bool,
    /// Access control list as given, canned name or grants; empty means private.
    pub acl: String,
}

impl Version {
    /// The name in `meta` of the mark that a version bears from when its upload puts it on its key until the upload
    /// is done (docs/protocol.md 2.8). Until then the upload and its parts name the version's data too.
    pub const UPLOAD_MARK: &'static str = ":upload";

    /// Whether it bears the mark.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.meta.iter().any(|(name, _)| name == Version::UPLOAD_MARK)
    }
}

/// Object-lock retention of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// True: COMPLIANCE; false: GOVERNANCE.
    pub compliance: bool,
    /// Milliseconds since 1970.
    pub until_ms: i64,
}

/// An S3 additional checksum as stored and returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// 1 CRC32, 2 CRC32C, 3 CRC64NVME, 4 SHA1, 5 SHA256.
    pub algorithm: u8,
    /// True: the checksum of the parts' checksums (composite), shown with `-N`.
    pub composite: bool,
    /// 4, 8, 20 or 32 bytes, as the algorithm gives them (big-endian).
    pub value: Vec<u8>,
}

/// One contiguous piece of an object: the body of a simple PUT, or one part of a multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Part number 1..=10,000; 1 for a simple PUT.
    pub number: u16,
    /// Bytes of object data.
    pub size: u64,
    /// MD5 of the part.
    pub md5: [u8; 16],
    /// The part's own additional checksum.
    pub checksum: Option<Checksum>,
    /// Milliseconds since 1970 when the part was written.
    pub modified_ms: i64,
    /// Where its bytes are.
    pub data: Data,
}

/// The location of the bytes of one write: the map from slots to shards.
///
/// The bytes are cut into stripes of `stripe` bytes (the last one is shorter), and each stripe into `k` data
/// rows of equal length (the last row padded with zeros) and `m` parity rows. Shard `i` is row `i` of every
/// stripe, one after another, on slot `(i + rotate) % (k + m)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Identifies the shards on every drive.
    pub write_id: WriteId,
    /// Number of data shards (k', possibly lowered).
    pub k: u8,
    /// Number of parity shards; `k + m` is the number of slots of the placement group.
    pub m: u8,
    /// Rotation of the slot -> shard map.
    pub rotate: u8,
    /// Object bytes per stripe.
    pub stripe: u32,
    /// Bit s set: slot s was known durable when this record was proposed.
    pub durable: u64,
    /// True: the shards are in the journals of the drives; false: in extents.
    pub inline: bool,
}

impl Data {
    /// The slot that holds shard `shard`.
    #[must_use]
    pub fn slot_of(&self, shard: u8) -> u8 {
        let n = u16::from(self.k) + u16::from(self.m);
        ((u16::from(shard) + u16::from(self.rotate)) % n) as u8
    }

    /// The shard held by slot `slot`.
    #[must_use]
    pub fn shard_of(&self, slot: u8) -> u8 {
        let n = u16::from(self.k) + u16::from(self.m);
        ((u16::from(slot) + n - u16::from(self.rotate) % n) % n) as u8
    }

    /// Bytes of one row of a stripe that holds `bytes` object bytes.
    #[must_use]
    pub fn row_len(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.k))
    }

    /// Bytes of each shard of a write of `size` object bytes.
    #[must_use]
    pub fn shard_len(&self, size: u64) -> u64 {
        let stripe = u64::from(self.stripe);
        (size / stripe) * self.row_len(stripe) + self.row_len(size % stripe)
    }
}

/// A multipart upload (docs/protocol.md 2.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// Its state.
    pub state: UploadState,
    /// The future version, without id, parts, size and checksums.
    pub template: Version,
    /// Checksum algorithm asked for at creation (0 none, else as [`Checksum::algorithm`]).
    pub checksum_algorithm: u8,
    /// True: checksum type COMPOSITE; false: FULL_OBJECT.
    pub checksum_composite: bool,
}

/// The state of a multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadState {
    /// Parts can be uploaded. The generation grows to make attempts to complete it fail that have read an
    /// older one.
    Open(u64),
    /// It is completed with this version (id and parts chosen), which is being added to the key.
    Completing(Box<Version>),
    /// The key has the version. Kept so that a retry gets the same answer.
    Done(Box<Version>),
    /// Aborted; the parts are being dropped.
    Aborted,
}

impl Record {
    /// A 64-bit digest of the encoding, used as `parent` and to compare drives.
    #[must_use]
    pub fn digest(bytes: &[u8]) -> u64 {
        use highway::{HighwayHash, HighwayHasher, Key};
        HighwayHasher::new(Key([0x6173_686c, 0x6172_2072, 0x6563_6f72, 0x6420_7631])).hash64(bytes)
    }

    /// The bytes of the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(384);
        w.u8(FORMAT);
        w.var(self.seq);
        w.u64(self.parent);
        w.u32(self.nonce);
        match &self.body {
            Body::Tombstone => w.u8(0),
            Body::Versions(v) => {
                w.u8(1);
                w.list(v, put_version);
            }
            Body::Upload(u) => {
                w.u8(2);
                put_upload(&mut w, u);
            }
            Body::Part(parts) => match parts.as_slice() {
                [part] => {
                    w.u8(3);
                    put_part(&mut w, part);
                }
                parts => {
                    w.u8(5);
                    w.list(parts, put_part);
                }
            },
            Body::Paged(p) => {
                w.u8(6);
                w.list(&p.head, put_version);
                put_below(&mut w, &p.below);
            }
            Body::HeldKey(h) => {
                w.u8(if h.below.is_some() { 7 } else { 4 });
                w.list(&h.versions, put_version);
                if let Some(below) = &h.below {
                    put_below(&mut w, below);
                }
                w.raw(&h.attempt);
                w.raw(&h.upload);
                w.option(h.to.as_ref(), |w, key| w.bytes(key));
            }
        }
        w.into_vec()
    }

    /// The inverse of [`Record::encode`].
    ///
    /// # Errors
    /// [`Error::Version`] for another format, [`Error::Newer`] for a feature that this release cannot read,
    /// [`Error::Malformed`] for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Record, Error> {
        let mut r = Reader::new(bytes);
        let format = r.u8()?;
        if format != FORMAT {
            return Err(Error::Version { what: "record", found: u32::from(format) });
        }
        let seq = r.var()?;
        let parent = r.u64()?;
        let nonce = r.u32()?;
        let tag = r.u8()?;
        let body = match tag {
            0 => Body::Tombstone,
            1 => Body::Versions(r.list(get_version)?),
            2 => Body::Upload(Box::new(get_upload(&mut r)?)),
            3 => Body::Part(vec![get_part(&mut r)?]),
            6 => Body::Paged(Box::new(Paged { head: r.list(get_version)?, below: get_below(&mut r)? })),
            4 | 7 => Body::HeldKey(Box::new(HeldKey {
                versions: r.list(get_version)?,
                below: if tag == 7 { Some(get_below(&mut r)?) } else { None },
                attempt: r.array()?,
                upload: r.array()?,
                to: r.option(|r| Ok(r.bytes()?.to_vec()))?,
            })),
            5 => Body::Part(r.list(get_part)?),
            _ => return Err(Error::Malformed("record body")),
        };
        r.end()?;
        let none = match &body {
            Body::Versions(v) => v.is_empty(),
            Body::Paged(p) => p.head.is_empty(),
            Body::HeldKey(h) => h.below.is_some() && h.versions.is_empty(),
            _ => false,
        };
        if none {
            return Err(Error::Malformed("no versions"));
        }
        if matches!(&body, Body::Part(p) if p.is_empty() || p.len() == 1 && tag == 5) {
            return Err(Error::Malformed("parts"));
        }
        Ok(Record { seq, parent, nonce, body })
    }

    /// Every piece of data this record names itself; pages name more. An upload that is being completed
    /// names the parts of the version it has chosen; one that is done names none, since the key does.
    pub fn data(&self) -> impl Iterator<Item = &Part> {
        let (versions, parts): (&[Version], &[Part]) = match &self.body {
            Body::Part(p) => (&[], p),
            Body::Upload(u) => match &u.state {
                UploadState::Completing(v) => (std::slice::from_ref(v), &[]),
                _ => (&[], &[]),
            },
            other => (other.newest(), &[]),
        };
        let root = self.body.below().map(|b| &b.root.page);
        versions.iter().flat_map(|v| v.parts.iter()).chain(parts).chain(root)
    }
}

impl Body {
    /// The versions of a key that the record itself holds, newest first. Below them are those in pages.
    #[must_use]
    pub fn newest(&self) -> &[Version] {
        match self {
            Body::Versions(v) => v,
            Body::Paged(p) => &p.head,
            Body::HeldKey(h) => &h.versions,
            Body::Tombstone | Body::Upload(_) | Body::Part(_) => &[],
        }
    }

    /// The versions of a key that are in pages.
    #[must_use]
    pub fn below(&self) -> Option<&Below> {
        match self {
            Body::Paged(p) => Some(&p.below),
            Body::HeldKey(h) => h.below.as_ref(),
            Body::Tombstone | Body::Versions(_) | Body::Upload(_) | Body::Part(_) => None,
        }
    }
}

/// The record format written by this release.
const FORMAT: u8 = 3;

fn put_pairs(w: &mut Writer, pairs: &[(String, String)]) {
    w.list(pairs, |w, (k, v)| {
        w.bytes(k.as_bytes());
        w.bytes(v.as_bytes());
    });
}

fn get_pairs(r: &mut Reader<'_>) -> Result<Vec<(String, String)>, Error> {
    r.list(|r| Ok((r.string()?, r.string()?)))
}

fn put_checksum(w: &mut Writer, c: &Checksum) {
    w.u8(c.algorithm);
    w.bool(c.composite);
    w.bytes(&c.value);
}

fn get_checksum(r: &mut Reader<'_>) -> Result<Checksum, Error> {
    Ok(Checksum { algorithm: r.u8()?, composite: r.bool()?, value: r.bytes()?.to_vec() })
}

fn put_part(w: &mut Writer, p: &Part) {
    w.u16(p.number);
    w.var(p.size);
    w.raw(&p.md5);
    w.option(p.checksum.as_ref(), put_checksum);
    w.i64(p.modified_ms);
    put_data(w, &p.data);
}

pub(crate) fn put_data(w: &mut Writer, d: &Data) {
    w.raw(&d.write_id.0);
    w.u8(d.k);
    w.u8(d.m);
    w.u8(d.rotate);
    w.u32(d.stripe);
    w.u64(d.durable);
    w.bool(d.inline);
    // The location of the bytes if they are not on the drives: this release always writes `None`.
    w.option(None::<&()>, |_, ()| {});
}

fn get_part(r: &mut Reader<'_>) -> Result<Part, Error> {
    Ok(Part {
        number: r.u16()?,
        size: r.var()?,
        md5: r.array()?,
        checksum: r.option(get_checksum)?,
        modified_ms: r.i64()?,
        data: get_data(r)?,
    })
}

pub(crate) fn get_data(r: &mut Reader<'_>) -> Result<Data, Error> {
    let d = Data {
        write_id: WriteId(r.array()?),
        k: r.u8()?,
        m: r.u8()?,
        rotate: r.u8()?,
        stripe: r.u32()?,
        durable: r.u64()?,
        inline: r.bool()?,
    };
    if r.option(|r| r.bytes())?.is_some() {
        return Err(Error::Newer("a part whose data is stored elsewhere"));
    }
    let n = u16::from(d.k) + u16::from(d.m);
    if d.k == 0 || n > 64 || u16::from(d.rotate) >= n || d.stripe == 0 {
        return Err(Error::Malformed("shard map"));
    }
    Ok(d)
}

pub(crate) fn put_version(w: &mut Writer, v: &Version) {
    w.raw(&v.id.0);
    w.bool(v.delete_marker);
    w.i64(v.modified_ms);
    w.var(v.size);
    w.raw(&v.md5);
    w.u16(v.parts_count);
    w.list(&v.parts, put_part);
    w.option(v.checksum.as_ref(), put_checksum);
    put_pairs(w, &v.meta);
    put_pairs(w, &v.tags);
    w.option(v.retention.as_ref(), |w, r| {
        w.bool(r.compliance);
        w.i64(r.until_ms);
    });
    w.bool(v.legal_hold);
    w.bytes(v.acl.as_bytes());
}

pub(crate) fn get_version(r: &mut Reader<'_>) -> Result<Version, Error> {
    Ok(Version {
        id: VersionId(r.array()?),
        delete_marker: r.bool()?,
        modified_ms: r.i64()?,
        size: r.var()?,
        md5: r.array()?,
        parts_count: r.u16()?,
        parts: r.list(get_part)?,
        checksum: r.option(get_checksum)?,
        meta: get_pairs(r)?,
        tags: get_pairs(r)?,
        retention: r.option(|r| Ok(Retention { compliance: r.bool()?, until_ms: r.i64()? }))?,
        legal_hold: r.bool()?,
        acl: r.string()?,
    })
}

fn put_upload(w: &mut Writer, u: &Upload) {
    w.i64(u.created_ms);
    match &u.state {
        UploadState::Open(0) => w.u8(0),
        UploadState::Open(generation) => {
            w.u8(4);
            w.var(*generation);
        }
        UploadState::Completing(v) => {
            w.u8(1);
            put_version(w, v);
        }
        UploadState::Done(v) => {
            w.u8(2);
            put_version(w, v);
        }
        UploadState::Aborted => w.u8(3),
    }
    put_version(w, &u.template);
    w.u8(u.checksum_algorithm);
    w.bool(u.checksum_composite);
}

fn get_upload(r: &mut Reader<'_>) -> Result<Upload, Error> {
    Ok(Upload {
        created_ms: r.i64()?,
        state: match r.u8()? {
            0 => UploadState::Open(0),
            1 => UploadState::Completing(Box::new(get_version(r)?)),
            2 => UploadState::Done(Box::new(get_version(r)?)),
            3 => UploadState::Aborted,
            4 => match r.var()? {
                0 => return Err(Error::Malformed("upload generation")),
                generation => UploadState::Open(generation),
            },
            _ => return Err(Error::Malformed("upload state")),
        },
        template: get_version(r)?,
        checksum_algorithm: r.u8()?,
        checksum_composite: r.bool()?,
    })
}
