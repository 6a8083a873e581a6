//! The records of a drive's journal: the payload of each kind.
//!
//! Invariants: a payload decodes to one entry or to an error, and equal entries have equal bytes; an unknown
//! kind is [`Error::Version`], never skipped.
//!
//! Must not depend on: batches and segments, which contain the payloads.

use crate::codec::{Reader, Writer};
use crate::{Ballot, BucketId, Error, GroupId, RegisterKey, WriteId};

/// One record of the journal, borrowed from its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A register accepted a record.
    Accept(AcceptEntry<'a>),
    /// A small shard.
    Stage(StageEntry<'a>),
    /// A large shard was written to an extent.
    Extent(ExtentEntry<'a>),
    /// These ballots are known to be chosen.
    Hints(Vec<(&'a [u8], Ballot)>),
    /// A tombstone was removed from the index.
    Purge {
        /// Register key bytes.
        key: &'a [u8],
        /// Ballot of the tombstone.
        ballot: Ballot,
        /// Journal segments below this one have no record of the register.
        oldest: u32,
        /// Segments above this one have none either, up to this ballot.
        newest: u32,
    },
    /// A shard was removed from the index.
    Discard {
        /// The write.
        write_id: WriteId,
        /// Shard index.
        index: u8,
        /// Journal segment of the record that is now dead.
        segment: u32,
        /// Segment and offset: records of the shard at or after this position stay. Zero: the position of
        /// this record itself (compaction writes that of the original).
        before: (u32, u32),
    },
    /// The small state of the drive in some placement groups, in order of the groups. The last one of each
    /// group counts.
    State(Vec<(GroupId, GroupState)>),
    /// Every segment that must exist below the one that contains this record; the last such record counts.
    Segments(Vec<u32>),
    /// Where regions of extent segments may be that are durable and not named by the journal: by segment, the
    /// offset from which on. The last such record counts.
    Unnamed(Vec<(u32, u64)>),
    /// A bucket is fenced in a group.
    Fence(FenceEntry),
    /// The fence of a bucket is lifted in a group.
    Lift(LiftEntry),
    /// The last record of its segment.
    Seal {
        /// Number of the next segment.
        next: u32,
    },
}

/// See [`Entry::Accept`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptEntry<'a> {
    /// Register key bytes.
    pub key: &'a [u8],
    /// Accepted ballot.
    pub ballot: Ballot,
    /// Bit 0: known chosen; bit 1: came with an inline shard (one-sync mode).
    pub flags: u8,
    /// Journal segments below this one hold no record of the register.
    pub oldest: u32,
    /// For listings.
    pub summary: &'a [u8],
    /// The record.
    pub record: &'a [u8],
}

/// [`AcceptEntry::flags`]: known chosen.
pub const HINTED: u8 = 1;
/// [`AcceptEntry::flags`]: one-sync mode.
pub const ONE_SYNC: u8 = 2;

/// See [`Entry::Stage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageEntry<'a> {
    /// The write.
    pub write_id: WriteId,
    /// Shard index.
    pub index: u8,
    /// Stage ballot.
    pub ballot: Ballot,
    /// Register key bytes of the owner.
    pub owner: &'a [u8],
    /// The shard.
    pub data: &'a [u8],
}

/// See [`Entry::Extent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentEntry<'a> {
    /// The write.
    pub write_id: WriteId,
    /// Shard index.
    pub index: u8,
    /// Stage ballot.
    pub ballot: Ballot,
    /// Register key bytes of the owner.
    pub owner: &'a [u8],
    /// Bytes of the shard.
    pub len: u64,
    /// Bytes of a frame.
    pub frame: u32,
    /// Extent segment.
    pub segment: u32,
    /// Offset of the region in it.
    pub offset: u64,
}

/// See [`Entry::Fence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceEntry {
    /// Placement group.
    pub group: GroupId,
    /// The bucket.
    pub bucket: BucketId,
    /// Number of the deletion; not 0.
    pub deletion: u64,
    /// Journal segments below this one have no fence of the bucket in the group.
    pub oldest: u32,
}

/// See [`Entry::Lift`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiftEntry {
    /// Placement group.
    pub group: GroupId,
    /// The bucket.
    pub bucket: BucketId,
    /// Fences up to this deletion are lifted.
    pub up_to: u64,
    /// Journal segments below this one have none of them.
    pub oldest: u32,
    /// Segments above this one have none of them either.
    pub newest: u32,
}

/// The small durable state of a drive in one placement group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GroupState {
    /// Ballot floor (docs/protocol.md 2.1).
    pub floor: Ballot,
    /// Purge horizon (docs/protocol.md 2.6).
    pub horizon: Ballot,
    /// The layout epoch of the group to which the drive was last fenced.
    pub epoch: u32,
    /// Whether the drive may vote; otherwise it is joining.
    pub voter: bool,
    /// It voted and lost its vote: it had received everything that was chosen before. Never set for a voter.
    pub distrusted: bool,
}

/// The byte of a group's vote: 0 joining, 1 voter, or this.
const DISTRUSTED: u8 = 2;

impl GroupState {
    /// Encoded length in bytes.
    pub const LEN: usize = 2 * Ballot::LEN + 5;

    /// Fixed-width bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..18].copy_from_slice(&self.floor.to_bytes());
        out[18..36].copy_from_slice(&self.horizon.to_bytes());
        out[36..40].copy_from_slice(&self.epoch.to_le_bytes());
        out[40] = if self.distrusted { DISTRUSTED } else { u8::from(self.voter) };
        out
    }

    /// The inverse of [`GroupState::encode`].
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn decode(r: &mut Reader<'_>) -> Result<GroupState, Error> {
        let (floor, horizon) = (Ballot::from_bytes(&r.array()?), Ballot::from_bytes(&r.array()?));
        let (epoch, vote) = (r.u32()?, r.u8()?);
        if vote > DISTRUSTED {
            return Err(Error::Malformed("vote of a group"));
        }
        Ok(GroupState { floor, horizon, epoch, voter: vote == 1, distrusted: vote == DISTRUSTED })
    }
}

/// Record kinds, the byte in the record header.
pub mod kind {
    /// [`super::Entry::Accept`].
    pub const ACCEPT: u8 = 1;
    /// [`super::Entry::Stage`].
    pub const STAGE: u8 = 2;
    /// [`super::Entry::Extent`].
    pub const EXTENT: u8 = 3;
    /// [`super::Entry::Hints`].
    pub const HINTS: u8 = 4;
    /// [`super::Entry::Purge`].
    pub const PURGE: u8 = 5;
    /// [`super::Entry::Discard`].
    pub const DISCARD: u8 = 6;
    /// [`super::Entry::State`].
    pub const STATE: u8 = 7;
    /// [`super::Entry::Segments`].
    pub const SEGMENTS: u8 = 8;
    /// [`super::Entry::Seal`].
    pub const SEAL: u8 = 9;
    /// [`super::Entry::Fence`].
    pub const FENCE: u8 = 10;
    /// [`super::Entry::Lift`].
    pub const LIFT: u8 = 11;
    /// [`super::Entry::Unnamed`].
    pub const UNNAMED: u8 = 12;
}

/// The fields of an accept record before the record bytes, which follow unchanged.
pub fn accept_head(w: &mut Writer, e: &AcceptEntry<'_>) {
    w.u8(e.flags);
    w.raw(&e.ballot.to_bytes());
    w.u32(e.oldest);
    w.bytes(e.key);
    w.bytes(e.summary);
}

/// The fields of a small shard before its bytes, which follow unchanged.
pub fn stage_head(w: &mut Writer, e: &StageEntry<'_>) {
    w.raw(&e.write_id.0);
    w.u8(e.index);
    w.raw(&e.ballot.to_bytes());
    w.bytes(e.owner);
}

/// The payload of an extent record.
pub fn extent(w: &mut Writer, e: &ExtentEntry<'_>) {
    w.raw(&e.write_id.0);
    w.u8(e.index);
    w.raw(&e.ballot.to_bytes());
    w.bytes(e.owner);
    w.var(e.len);
    w.u32(e.frame);
    w.u32(e.segment);
    w.var(e.offset);
}

/// The payload of a hints record with one pair; further pairs are appended.
pub fn hint(w: &mut Writer, key: &[u8], ballot: Ballot) {
    w.raw(&ballot.to_bytes());
    w.bytes(key);
}

/// The payload of a purge record.
pub fn purge(w: &mut Writer, key: &[u8], ballot: Ballot, oldest: u32, newest: u32) {
    w.raw(&ballot.to_bytes());
    w.u32(oldest);
    w.u32(newest);
    w.bytes(key);
}

/// The payload of a segments record.
pub fn segments(w: &mut Writer, list: &[u32]) {
    w.list(list, |w, n| w.u32(*n));
}

/// The payload of a discard record.
pub fn discard(w: &mut Writer, write_id: WriteId, index: u8, segment: u32, before: (u32, u32)) {
    w.raw(&write_id.0);
    w.u8(index);
    w.u32(segment);
    w.u32(before.0);
    w.u32(before.1);
}

/// The payload of a fence record.
pub fn fence(w: &mut Writer, e: &FenceEntry) {
    w.raw(&e.group.to_bytes());
    w.raw(&e.bucket.0);
    w.u64(e.deletion);
    w.u32(e.oldest);
}

/// The payload of a lift record.
pub fn lift(w: &mut Writer, e: &LiftEntry) {
    w.raw(&e.group.to_bytes());
    w.raw(&e.bucket.0);
    w.u64(e.up_to);
    w.u32(e.oldest);
    w.u32(e.newest);
}

/// States by group, as state records and the index manifest contain them. The groups are in ascending order.
pub fn states(w: &mut Writer, of: &[(GroupId, GroupState)]) {
    w.list(of, |w, (group, state)| {
        w.raw(&group.to_bytes());
        w.raw(&state.encode());
    });
}

/// The inverse of [`states`].
///
/// # Errors
/// [`Error::Malformed`], also if the groups are not in ascending order.
pub fn read_states(r: &mut Reader<'_>) -> Result<Vec<(GroupId, GroupState)>, Error> {
    let of = r.list(|r| Ok((GroupId::from_bytes(r.array()?), GroupState::decode(r)?)))?;
    if of.is_sorted_by(|a, b| a.0 < b.0) { Ok(of) } else { Err(Error::Malformed("order of groups")) }
}

/// Where unnamed regions may be, as [`Entry::Unnamed`] and the index manifest contain it: extent segments in
/// ascending order, each with an offset.
pub fn unnamed(w: &mut Writer, from: &[(u32, u64)]) {
    w.list(from, |w, (segment, offset)| {
        w.u32(*segment);
        w.var(*offset);
    });
}

/// The inverse of [`unnamed`].
///
/// # Errors
/// [`Error::Malformed`], also if the segments are not in ascending order.
pub fn read_unnamed(r: &mut Reader<'_>) -> Result<Vec<(u32, u64)>, Error> {
    let from = r.list(|r| Ok((r.u32()?, r.var()?)))?;
    if from.is_sorted_by(|a, b| a.0 < b.0) { Ok(from) } else { Err(Error::Malformed("order of segments")) }
}

fn key<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Error> {
    let k = r.bytes()?;
    if k.len() < RegisterKey::PREFIX || k.len() > RegisterKey::MAX {
        return Err(Error::Malformed("register key"));
    }
    Ok(k)
}

impl<'a> Entry<'a> {
    /// Decodes the payload of a record of kind `kind`.
    ///
    /// # Errors
    /// [`Error::Malformed`]; [`Error::Version`] for a kind of a newer release.
    pub fn decode(kind: u8, payload: &'a [u8]) -> Result<Entry<'a>, Error> {
        let mut r = Reader::new(payload);
        Ok(match kind {
            kind::ACCEPT => {
                let flags = r.u8()?;
                if flags > (HINTED | ONE_SYNC) {
                    return Err(Error::Malformed("accept flags"));
                }
                Entry::Accept(AcceptEntry {
                    flags,
                    ballot: Ballot::from_bytes(&r.array()?),
                    oldest: r.u32()?,
                    key: key(&mut r)?,
                    summary: r.bytes()?,
                    record: r.rest(),
                })
            }
            kind::STAGE => Entry::Stage(StageEntry {
                write_id: WriteId(r.array()?),
                index: r.u8()?,
                ballot: Ballot::from_bytes(&r.array()?),
                owner: key(&mut r)?,
                data: r.rest(),
            }),
            kind::EXTENT => {
                let e = ExtentEntry {
                    write_id: WriteId(r.array()?),
                    index: r.u8()?,
                    ballot: Ballot::from_bytes(&r.array()?),
                    owner: key(&mut r)?,
                    len: r.var()?,
                    frame: r.u32()?,
                    segment: r.u32()?,
                    offset: r.var()?,
                };
                r.end()?;
                if e.frame == 0 || e.len == 0 {
                    return Err(Error::Malformed("extent lengths"));
                }
                Entry::Extent(e)
            }
            kind::HINTS => {
                let mut hints = Vec::new();
                while !r.rest().is_empty() {
                    let ballot = Ballot::from_bytes(&r.array()?);
                    hints.push((key(&mut r)?, ballot));
                }
                Entry::Hints(hints)
            }
            kind::PURGE => {
                let ballot = Ballot::from_bytes(&r.array()?);
                let (oldest, newest) = (r.u32()?, r.u32()?);
                let key = key(&mut r)?;
                r.end()?;
                Entry::Purge { key, ballot, oldest, newest }
            }
            kind::DISCARD => {
                let (write_id, index) = (WriteId(r.array()?), r.u8()?);
                let segment = r.u32()?;
                let before = (r.u32()?, r.u32()?);
                r.end()?;
                Entry::Discard { write_id, index, segment, before }
            }
            kind::STATE => {
                let of = read_states(&mut r)?;
                r.end()?;
                if of.is_empty() {
                    return Err(Error::Malformed("no group in a state record"));
                }
                Entry::State(of)
            }
            kind::SEGMENTS => {
                let list = r.list(|r| r.u32())?;
                r.end()?;
                Entry::Segments(list)
            }
            kind::SEAL => {
                let next = r.u32()?;
                r.end()?;
                Entry::Seal { next }
            }
            kind::FENCE => {
                let (group, bucket) = (GroupId::from_bytes(r.array()?), BucketId(r.array()?));
                let e = FenceEntry { group, bucket, deletion: r.u64()?, oldest: r.u32()? };
                r.end()?;
                if e.deletion == 0 {
                    return Err(Error::Malformed("fence without a deletion"));
                }
                Entry::Fence(e)
            }
            kind::LIFT => {
                let (group, bucket) = (GroupId::from_bytes(r.array()?), BucketId(r.array()?));
                let (up_to, oldest, newest) = (r.u64()?, r.u32()?, r.u32()?);
                r.end()?;
                Entry::Lift(LiftEntry { group, bucket, up_to, oldest, newest })
            }
            kind::UNNAMED => {
                let from = read_unnamed(&mut r)?;
                r.end()?;
                Entry::Unnamed(from)
            }
            k => return Err(Error::Version { what: "journal record", found: u32::from(k) }),
        })
    }
}
