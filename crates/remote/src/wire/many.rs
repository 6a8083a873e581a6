//! Messages for several drives of one node, about one register, and their answers.
//!
//! Must not depend on: sessions, the execution of requests.

use ashlar_drive::{Answer, Error, Prepared, ReadReply, ReadWithShard, Result, WantedShards};
use ashlar_format::{Ballot, DriveId, RegisterKey};

use super::answer::{Told, decode_read, decode_told, encode_read, encode_told};
use super::status::{decode_error, encode_error};
use super::{In, Malformed, Out, unknown};
use crate::transport::method;

/// The most drives of one message: a placement group has no more slots.
pub const MOST: usize = 64;

/// READ on several drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadMany {
    /// The drives.
    pub drives: Vec<DriveId>,
    /// The register.
    pub key: RegisterKey,
    /// A record of this ballot is not sent.
    pub known: Ballot,
    /// The epoch that the caller follows.
    pub epoch: u32,
    /// Shards that are wanted as well; such a message is another call, which the first feature level does not have.
    pub shards: Option<WantedShards>,
}

/// PREPARE on several drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepareMany {
    /// The drives.
    pub drives: Vec<DriveId>,
    /// The register.
    pub key: RegisterKey,
    /// The ballot.
    pub ballot: Ballot,
    /// Ballot and digest of a record that the caller has; it is not sent.
    pub known: Option<(Ballot, u64)>,
}

/// HINT for several drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintMany {
    /// The drives.
    pub drives: Vec<DriveId>,
    /// The register.
    pub key: RegisterKey,
    /// The ballot that is chosen.
    pub ballot: Ballot,
    /// The epoch that the caller follows.
    pub epoch: u32,
}

impl ReadMany {
    /// The number of the call.
    #[must_use]
    pub fn method(&self) -> u16 {
        if self.shards.is_some() { method::READ_WITH_SHARDS } else { method::READ_MANY }
    }

    /// The message.
    #[must_use]
    pub fn encode(&self) -> Out {
        let mut out = to(&self.drives);
        out.key(&self.key);
        out.ballot(self.known);
        out.head.u32(self.epoch);
        if let Some(shards) = &self.shards {
            out.write_id(shards.write_id);
            for shard in &shards.of {
                out.head.bool(shard.is_some());
                shard.iter().for_each(|index| out.head.u8(*index));
            }
        }
        out
    }

    /// The inverse of [`ReadMany::encode`]; `of`: the number of the call.
    pub fn decode(of: u16, mut m: In<'_>) -> std::result::Result<ReadMany, Malformed> {
        let (drives, key, known, epoch) = (drives(&mut m)?, m.key()?, m.ballot()?, m.head.u32()?);
        let shards = match of {
            method::READ_MANY => None,
            method::READ_WITH_SHARDS => {
                let write_id = m.write_id()?;
                let mut shard = || Ok(if m.head.bool()? { Some(m.head.u8()?) } else { None });
                let of = drives.iter().map(|_| shard()).collect::<std::result::Result<_, Malformed>>()?;
                Some(WantedShards { write_id, of })
            }
            _ => return unknown(),
        };
        m.end()?;
        Ok(ReadMany { drives, key, known, epoch, shards })
    }
}

impl PrepareMany {
    /// The message.
    #[must_use]
    pub fn encode(&self) -> Out {
        let mut out = to(&self.drives);
        out.key(&self.key);
        out.ballot(self.ballot);
        out.head.bool(self.known.is_some());
        if let Some((ballot, digest)) = self.known {
            out.ballot(ballot);
            out.head.u64(digest);
        }
        out
    }

    /// The inverse of [`PrepareMany::encode`].
    pub fn decode(mut m: In<'_>) -> std::result::Result<PrepareMany, Malformed> {
        let (drives, key, ballot) = (drives(&mut m)?, m.key()?, m.ballot()?);
        let known = if m.head.bool()? { Some((m.ballot()?, m.head.u64()?)) } else { None };
        m.end()?;
        Ok(PrepareMany { drives, key, ballot, known })
    }
}

impl HintMany {
    /// The message.
    #[must_use]
    pub fn encode(&self) -> Out {
        let mut out = to(&self.drives);
        out.key(&self.key);
        out.ballot(self.ballot);
        out.head.u32(self.epoch);
        out
    }

    /// The inverse of [`HintMany::encode`].
    pub fn decode(mut m: In<'_>) -> std::result::Result<HintMany, Malformed> {
        let message =
            HintMany { drives: drives(&mut m)?, key: m.key()?, ballot: m.ballot()?, epoch: m.head.u32()? };
        m.end()?;
        Ok(message)
    }
}

fn to(drives: &[DriveId]) -> Out {
    let mut out = Out::with_room(192 + 16 * drives.len());
    out.head.var(drives.len() as u64);
    drives.iter().for_each(|drive| out.head.raw(&drive.0));
    out
}

fn drives(m: &mut In<'_>) -> std::result::Result<Vec<DriveId>, Malformed> {
    match m.list(|m| m.drive())? {
        drives if drives.is_empty() || drives.len() > MOST => Err(Malformed::Malformed("number of drives")),
        drives => Ok(drives),
    }
}

/// Encodes the answers to [`ReadMany`].
#[must_use]
pub fn encode_reads(replies: &[Option<ReadReply>]) -> Out {
    let mut out = Out::with_room(replies.iter().flatten().map(read_len).sum::<usize>() + replies.len() + 8);
    out.head.var(replies.len() as u64);
    for reply in replies {
        out.head.bool(reply.is_some());
        if let Some(reply) = reply {
            encode_read(&mut out, reply);
        }
    }
    out
}

/// The inverse of [`encode_reads`].
pub fn decode_reads(mut m: In<'_>) -> std::result::Result<Vec<Option<ReadReply>>, Malformed> {
    let replies = m.list(|m| if m.head.bool()? { decode_read(m).map(Some) } else { Ok(None) })?;
    m.end()?;
    Ok(replies)
}

/// Encodes the answers to a [`ReadMany`] that asks for shards.
#[must_use]
pub fn encode_reads_with_shards(replies: &[Option<ReadWithShard>]) -> Out {
    let len = |answer: &ReadWithShard| read_len(&answer.reply) + answer.shard.as_ref().map_or(1, blob_len);
    let mut out = Out::with_room(replies.iter().flatten().map(len).sum::<usize>() + replies.len() + 8);
    out.head.var(replies.len() as u64);
    for answer in replies {
        out.head.bool(answer.is_some());
        if let Some(ReadWithShard { reply, shard }) = answer {
            encode_read(&mut out, reply);
            out.head.bool(shard.is_some());
            shard.iter().for_each(|shard| out.blob(shard));
        }
    }
    out
}

/// The inverse of [`encode_reads_with_shards`].
pub fn decode_reads_with_shards(mut m: In<'_>) -> std::result::Result<Vec<Option<ReadWithShard>>, Malformed> {
    let replies = m.list(|m| {
        if !m.head.bool()? {
            return Ok(None);
        }
        let reply = decode_read(m)?;
        let shard = if m.head.bool()? { Some(m.blob()?) } else { None };
        Ok(Some(ReadWithShard { reply, shard }))
    })?;
    m.end()?;
    Ok(replies)
}

/// Bytes of an answer in the head, at most a few more than it takes.
fn read_len(reply: &ReadReply) -> usize {
    64 + reply.accepted.as_ref().and_then(|seen| seen.record.as_ref()).map_or(0, blob_len)
}

fn blob_len(bytes: &bytes::Bytes) -> usize {
    8 + if bytes.len() > super::INLINE { 0 } else { bytes.len() }
}

/// Encodes the answers to [`PrepareMany`]; without the records for which `limit` bytes of payload are not enough.
#[must_use]
pub fn encode_promises(answers: &[Result<Prepared>], limit: usize) -> Out {
    let mut out = Out::default();
    out.head.var(answers.len() as u64);
    for answer in answers {
        out.head.bool(answer.is_ok());
        match answer {
            Ok(prepared) => {
                let used: usize = out.bulk.iter().map(bytes::Bytes::len).sum();
                encode_told(&mut out, &Answer::Prepared(prepared.clone()), limit.saturating_sub(used));
            }
            Err(e) => encode_error(&mut out.head, e),
        }
    }
    out
}

/// A promise as it came: whole, or without its record, which is to be read.
pub type ToldPrepared = Result<(Prepared, bool)>;

/// The inverse of [`encode_promises`]. The flag says that the record has to be read.
pub fn decode_promises(mut m: In<'_>) -> std::result::Result<Vec<ToldPrepared>, Malformed> {
    let answers = m.list(|m| {
        Ok(match m.head.bool()? {
            true => match decode_told(m)? {
                Told::Whole(Answer::Prepared(prepared)) => Ok((prepared, false)),
                Told::WithoutRecord(prepared) => Ok((prepared, true)),
                Told::Whole(_) => return unknown(),
            },
            false => Err::<_, Error>(decode_error(&mut m.head)?),
        })
    })?;
    m.end()?;
    Ok(answers)
}
