//! Messages about a shard that one node writes to, or reads from, a drive of another node over several messages. The
//! caller numbers its sessions.
//!
//! Invariant: a session is begun by its first message, so beginning one costs no message of its own.
//!
//! Must not depend on: requests, answers.

use ashlar_drive::{Check, Frames};
use ashlar_format::frame::ShardId;
use ashlar_format::{Ballot, DeploymentId, RegisterKey, WriteId};
use bytes::Bytes;

use super::{In, Malformed, Out, unknown};

/// The parameters of a shard that is written; as [`ashlar_drive::Drive::begin_shard`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The register that will name it.
    pub owner: RegisterKey,
    /// Its name.
    pub shard: ShardId,
    /// Stage ballot.
    pub ballot: Ballot,
    /// The layout epoch that the sender follows.
    pub epoch: u32,
    /// Bytes of the shard.
    pub len: u64,
    /// Bytes of a frame, except the last.
    pub frame: u32,
}

/// One frame of a shard that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFrame {
    /// The session.
    pub session: u64,
    /// With the first frame: the shard.
    pub begin: Option<Begin>,
    /// The number of the frame.
    pub number: u32,
    /// Its hash.
    pub hash: [u8; 32],
    /// Its bytes.
    pub frame: Bytes,
    /// The shard ends with this frame and is made durable.
    pub last: bool,
}

impl WriteFrame {
    /// Appends the message.
    pub fn encode(&self, out: &mut Out) {
        out.head.u64(self.session);
        out.head.bool(self.begin.is_some());
        if let Some(begin) = &self.begin {
            out.key(&begin.owner);
            out.head.raw(&begin.shard.deployment.0);
            out.write_id(begin.shard.write_id);
            out.head.u8(begin.shard.index);
            out.ballot(begin.ballot);
            out.head.u32(begin.epoch);
            out.head.u64(begin.len);
            out.head.u32(begin.frame);
        }
        out.head.u32(self.number);
        out.head.raw(&self.hash);
        out.head.bool(self.last);
        out.blob(&self.frame);
    }

    /// The inverse of [`WriteFrame::encode`].
    ///
    /// # Errors
    /// Bytes that no such message has.
    pub fn decode(mut m: In<'_>) -> Result<WriteFrame, Malformed> {
        let session = m.head.u64()?;
        let begin = if m.head.bool()? {
            Some(Begin {
                owner: m.key()?,
                shard: ShardId {
                    deployment: DeploymentId(m.head.array()?),
                    write_id: m.write_id()?,
                    index: m.head.u8()?,
                },
                ballot: m.ballot()?,
                epoch: m.head.u32()?,
                len: m.head.u64()?,
                frame: m.head.u32()?,
            })
        } else {
            None
        };
        let (number, hash, last) = (m.head.u32()?, m.head.array()?, m.head.bool()?);
        let frame = m.blob()?;
        m.end()?;
        Ok(WriteFrame { session, begin, number, hash, frame, last })
    }
}

/// Opens a shard for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The session.
    pub session: u64,
    /// The write.
    pub write_id: WriteId,
    /// Shard index.
    pub index: u8,
}

impl Open {
    /// Appends the message.
    pub fn encode(&self, out: &mut Out) {
        out.head.u64(self.session);
        out.write_id(self.write_id);
        out.head.u8(self.index);
    }

    /// The inverse of [`Open::encode`].
    ///
    /// # Errors
    /// Bytes that no such message has.
    pub fn decode(mut m: In<'_>) -> Result<Open, Malformed> {
        let open = Open { session: m.head.u64()?, write_id: m.write_id()?, index: m.head.u8()? };
        m.end()?;
        Ok(open)
    }
}

/// The answer to [`Open`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Bytes of the shard.
    pub len: u64,
    /// Bytes of a frame, except the last.
    pub frame: u32,
    /// A shard of one short frame comes with the answer, checked by the drive; there is no session then.
    pub content: Option<Bytes>,
}

impl Opened {
    /// Appends the answer.
    pub fn encode(&self, out: &mut Out) {
        out.head.u64(self.len);
        out.head.u32(self.frame);
        out.head.bool(self.content.is_some());
        if let Some(content) = &self.content {
            out.blob(content);
        }
    }

    /// The inverse of [`Opened::encode`].
    ///
    /// # Errors
    /// Bytes that no such answer has.
    pub fn decode(m: &mut In<'_>) -> Result<Opened, Malformed> {
        let (len, frame) = (m.head.u64()?, m.head.u32()?);
        if len == 0 || frame == 0 || len.div_ceil(u64::from(frame)) > u64::from(u32::MAX) {
            return Err(Malformed::Malformed("size of a shard"));
        }
        let content = if m.head.bool()? { Some(m.blob()?) } else { None };
        if content.as_ref().is_some_and(|c| c.len() as u64 != len) {
            return Err(Malformed::Malformed("size of a short shard"));
        }
        Ok(Opened { len, frame, content })
    }
}

/// Reads frames of an open shard; as [`ashlar_drive::ShardReader::read_run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRun {
    /// The session.
    pub session: u64,
    /// The first frame.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// Who checks them.
    pub check: Check,
}

impl ReadRun {
    /// Appends the message.
    pub fn encode(&self, out: &mut Out) {
        out.head.u64(self.session);
        out.head.u32(self.first);
        out.head.u32(self.count);
        out.head.u8(match self.check {
            Check::Drive => 0,
            Check::Reader => 1,
        });
    }

    /// The inverse of [`ReadRun::encode`].
    ///
    /// # Errors
    /// Bytes that no such message has.
    pub fn decode(mut m: In<'_>) -> Result<ReadRun, Malformed> {
        let (session, first, count) = (m.head.u64()?, m.head.u32()?, m.head.u32()?);
        let check = match m.head.u8()? {
            0 => Check::Drive,
            1 => Check::Reader,
            _ => return unknown(),
        };
        m.end()?;
        Ok(ReadRun { session, first, count, check })
    }

    /// Appends the answer.
    pub fn encode_frames(out: &mut Out, frames: &Frames) {
        out.head.var(frames.len() as u64);
        frames.iter().for_each(|frame| out.blob(frame));
    }

    /// The inverse of [`ReadRun::encode_frames`].
    ///
    /// # Errors
    /// Bytes that no such answer has.
    pub fn decode_frames(m: &mut In<'_>) -> Result<Frames, Malformed> {
        Ok(m.list(In::blob)?.into())
    }
}

/// Compares frames, by their hashes, with those of an open shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    /// The session.
    pub session: u64,
    /// The first frame.
    pub first: u32,
    /// The hashes of the frames.
    pub hashes: Vec<[u8; 32]>,
}

impl Verify {
    /// Appends the message.
    pub fn encode(&self, out: &mut Out) {
        out.head.u64(self.session);
        out.head.u32(self.first);
        out.head.var(self.hashes.len() as u64);
        self.hashes.iter().for_each(|hash| out.head.raw(hash));
    }

    /// The inverse of [`Verify::encode`].
    ///
    /// # Errors
    /// Bytes that no such message has.
    pub fn decode(mut m: In<'_>) -> Result<Verify, Malformed> {
        let (session, first) = (m.head.u64()?, m.head.u32()?);
        let hashes = m.list(|m| m.head.array())?;
        m.end()?;
        Ok(Verify { session, first, hashes })
    }
}
