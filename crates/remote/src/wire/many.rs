//! Messages for several drives of one node, about one register, and their answers.
//!
//! Must not depend on: sessions, the execution of requests.

use ashlar_drive::{Answer, Error, Prepared, ReadReply, Result};
use ashlar_format::{Ballot, DriveId, RegisterKey};

use super::answer::{Told, decode_read, decode_told, encode_read, encode_told};
use super::status::{decode_error, encode_error};
use super::{In, Malformed, Out, unknown};

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
    /// The message.
    #[must_use]
    pub fn encode(&self) -> Out {
        let mut out = to(&self.drives);
        out.key(&self.key);
        out.ballot(self.known);
        out.head.u32(self.epoch);
        out
    }

    /// The inverse of [`ReadMany::encode`].
    pub fn decode(mut m: In<'_>) -> std::result::Result<ReadMany, Malformed> {
        let message =
            ReadMany { drives: drives(&mut m)?, key: m.key()?, known: m.ballot()?, epoch: m.head.u32()? };
        m.end()?;
        Ok(message)
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
    let mut out = Out::default();
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
    let mut out = Out::default();
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
