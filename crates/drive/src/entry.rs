//! The index entries of registers and shards, and their encoding in index files.
//!
//! Invariants: one encoding per value; a decoder never panics. Index files are a cache, so their format may
//! change with any release: a manifest of another format means "rebuild".
//!
//! Must not depend on: files.

use ashlar_format::codec::{Reader, Writer};
use ashlar_format::journal::{HINTED, ONE_SYNC};
use ashlar_format::{Ballot, Error, RegisterKey, WriteId};

/// The position of a journal record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Loc {
    pub segment: u32,
    /// Offset of the record header.
    pub at: u32,
    /// Bytes of the payload.
    pub len: u32,
}

impl Loc {
    /// Bytes the record takes in the journal.
    pub fn bytes(self) -> u64 {
        ashlar_format::journal::record_len(self.len as usize) as u64
    }
}

/// A register's accepted record; `S`: what holds its summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Register<S = Box<[u8]>> {
    pub ballot: Ballot,
    pub digest: u64,
    pub loc: Loc,
    /// The record is at the end of the payload.
    pub record_len: u32,
    pub flags: u8,
    /// Journal segments below this one hold no record of this register; 0: not known.
    pub oldest: u32,
    pub summary: S,
}

impl<S> Register<S> {
    pub fn hinted(&self) -> bool {
        self.flags & HINTED != 0
    }
    /// The same with another summary.
    fn with<T>(&self, summary: T) -> Register<T> {
        let Register { ballot, digest, loc, record_len, flags, oldest, .. } = *self;
        Register { ballot, digest, loc, record_len, flags, oldest, summary }
    }
}

impl<'a> Register<&'a [u8]> {
    /// A register whose summary is a part of `bytes`.
    pub fn borrow(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut r = Reader::new(bytes);
        let e = Register {
            flags: r.u8()?,
            ballot: Ballot::from_bytes(&r.array()?),
            digest: r.u64()?,
            loc: get_loc(&mut r)?,
            record_len: r.u32()?,
            oldest: r.u32()?,
            summary: r.rest(),
        };
        if e.record_len > e.loc.len {
            return Err(Error::Malformed("index record length"));
        }
        Ok(e)
    }
}

impl Register {
    /// The same with a borrowed summary.
    pub fn borrowed(&self) -> Register<&[u8]> {
        self.with(&self.summary)
    }
    pub fn one_sync(&self) -> bool {
        self.flags & ONE_SYNC != 0
    }
    pub fn encode(&self, w: &mut Writer) {
        w.u8(self.flags);
        w.raw(&self.ballot.to_bytes());
        w.u64(self.digest);
        put_loc(w, self.loc);
        w.u32(self.record_len);
        w.u32(self.oldest);
        w.raw(&self.summary);
    }
    pub fn decode(bytes: &[u8]) -> Result<Register, Error> {
        Register::borrow(bytes).map(|r| r.with(r.summary.into()))
    }
}

/// The name of a shard on a drive.
pub(crate) type ShardName = (WriteId, u8);

/// A shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shard {
    pub owner: RegisterKey,
    pub ballot: Ballot,
    pub len: u64,
    /// The journal record: with the data if `extent` is none, otherwise the record that names the shard.
    pub loc: Loc,
    pub extent: Option<Region>,
}

/// A region of an extent segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    pub segment: u32,
    pub offset: u64,
    pub frame: u32,
}

impl Shard {
    /// Bytes of its region with header, padding and table.
    pub fn region_bytes(&self) -> u64 {
        self.extent.map_or(0, |e| layout(self.len, e.frame).region())
    }
    pub fn encode(&self, w: &mut Writer) {
        w.raw(&self.ballot.to_bytes());
        w.u64(self.len);
        put_loc(w, self.loc);
        match &self.extent {
            None => w.u8(0),
            Some(e) => {
                w.u8(1);
                w.u32(e.segment);
                w.u64(e.offset);
                w.u32(e.frame);
            }
        }
        w.raw(self.owner.as_bytes());
    }
    pub fn decode(bytes: &[u8]) -> Result<Shard, Error> {
        let mut r = Reader::new(bytes);
        let ballot = Ballot::from_bytes(&r.array()?);
        let len = r.u64()?;
        let loc = get_loc(&mut r)?;
        let extent = if r.bool()? {
            Some(Region { segment: r.u32()?, offset: r.u64()?, frame: r.u32()? })
        } else {
            None
        };
        if extent.is_some_and(|e| e.frame == 0 || len == 0) {
            return Err(Error::Malformed("index frame"));
        }
        let owner = RegisterKey::from_bytes(r.rest()).ok_or(Error::Malformed("index owner"))?;
        Ok(Shard { owner, ballot, len, loc, extent })
    }
}

pub(crate) fn layout(len: u64, frame: u32) -> ashlar_format::frame::Layout {
    ashlar_format::frame::Layout { len, frame }
}

fn put_loc(w: &mut Writer, l: Loc) {
    w.u32(l.segment);
    w.u32(l.at);
    w.u32(l.len);
}

fn get_loc(r: &mut Reader<'_>) -> Result<Loc, Error> {
    Ok(Loc { segment: r.u32()?, at: r.u32()?, len: r.u32()? })
}

/// The key of a register in index files.
pub(crate) fn register_key(key: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.push(b'r');
    out.extend_from_slice(key);
}

/// The key of a shard in index files.
pub(crate) fn shard_key((id, index): ShardName) -> [u8; 18] {
    let mut k = [0; 18];
    k[0] = b's';
    k[1..17].copy_from_slice(&id.0);
    k[17] = index;
    k
}

/// The inverse of [`shard_key`].
pub(crate) fn shard_name(key: &[u8]) -> Option<ShardName> {
    let k: &[u8; 18] = key.try_into().ok()?;
    let mut id = [0; 16];
    id.copy_from_slice(&k[1..17]);
    (k[0] == b's').then_some((WriteId(id), k[17]))
}
