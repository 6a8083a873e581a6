//! The answer of a drive as a whole: its result, and its status where the caller needs it at once.
//!
//! Must not depend on: requests, sessions.

use std::sync::Arc;
use std::time::Duration;

use ashlar_commit::bucket_fence::Deletion;
use ashlar_drive::{Error, Label, Role, State, Stats, Status};
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::{Ballot, DeploymentId, DriveId, GroupId};
use bytes::Bytes;

use super::{In, Malformed, Out, unknown};

/// What a drive answered to one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply<T> {
    /// The status after the call, if the call or its failure can have changed it.
    pub status: Option<Status>,
    /// The result of the call.
    pub result: Result<T, Error>,
}

/// One drive that a node serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// Its label.
    pub label: Label,
    /// Where it is on that node, for messages.
    pub path: String,
    /// Its status.
    pub status: Status,
    /// How long its oldest call has not been answered.
    pub oldest: Duration,
}

/// Encodes a reply; `body` appends the result of a call that succeeded.
pub fn encode_reply<T>(reply: &Reply<T>, body: impl FnOnce(&mut Out, &T)) -> Out {
    let mut out = Out::default();
    out.head.bool(reply.status.is_some());
    if let Some(status) = &reply.status {
        encode_status(&mut out.head, status);
    }
    match &reply.result {
        Ok(result) => {
            out.head.bool(true);
            body(&mut out, result);
        }
        Err(error) => {
            out.head.bool(false);
            encode_error(&mut out.head, error);
        }
    }
    out
}

/// The inverse of [`encode_reply`].
///
/// # Errors
/// Bytes that no reply has.
pub fn decode_reply<T>(
    head: &Bytes,
    bulk: &Bytes,
    body: impl FnOnce(&mut In<'_>) -> Result<T, Malformed>,
) -> Result<Reply<T>, Malformed> {
    let mut m = In::new(head, bulk);
    let status = m.head.option(decode_status)?;
    let result = if m.head.bool()? { Ok(body(&mut m)?) } else { Err(decode_error(&mut m.head)?) };
    m.end()?;
    Ok(Reply { status, result })
}

/// Encodes the drives of a node.
#[must_use]
pub fn encode_heard(drives: &[Heard]) -> Out {
    let mut list = Writer::default();
    list.list(drives, |list, heard| {
        list.raw(&heard.label.deployment.0);
        list.raw(&heard.label.drive.0);
        list.i64(heard.label.created_ms);
        list.bytes(heard.path.as_bytes());
        encode_status(list, &heard.status);
        list.u64(u64::try_from(heard.oldest.as_micros()).unwrap_or(u64::MAX));
    });
    let mut out = Out::default();
    out.blob(&list.into_vec().into());
    out
}

/// The inverse of [`encode_heard`].
///
/// # Errors
/// Bytes that no such list has.
pub fn decode_heard(head: &Bytes, bulk: &Bytes) -> Result<Vec<Heard>, Malformed> {
    let mut m = In::new(head, bulk);
    let bytes = m.blob()?;
    m.end()?;
    let mut list = Reader::new(&bytes);
    let heard = list.list(|r| {
        let label =
            Label { deployment: DeploymentId(r.array()?), drive: DriveId(r.array()?), created_ms: r.i64()? };
        let (path, status) = (r.string()?, decode_status(r)?);
        Ok(Heard { label, path, status, oldest: Duration::from_micros(r.u64()?) })
    })?;
    list.end()?;
    Ok(heard)
}

fn encode_status(out: &mut Writer, status: &Status) {
    match &status.state {
        State::Online => out.u8(0),
        State::Fenced(reason) => {
            out.u8(1);
            out.bytes(reason.as_bytes());
        }
        State::ReadOnly => out.u8(2),
        State::Closed => out.u8(3),
    }
    out.list(&status.held, |out, (group, role, epoch)| {
        out.raw(&group.to_bytes());
        out.u8(match role {
            Role::Voter => 0,
            Role::Joining => 1,
            Role::Distrusted => 2,
        });
        out.u32(*epoch);
    });
    out.raw(&status.floor.to_bytes());
    let mut stats = status.stats.clone();
    for counter in counters(&mut stats) {
        out.var(*counter);
    }
}

fn decode_status(r: &mut Reader<'_>) -> Result<Status, Malformed> {
    let state = match r.u8()? {
        0 => State::Online,
        1 => State::Fenced(r.string()?),
        2 => State::ReadOnly,
        3 => State::Closed,
        _ => return unknown(),
    };
    let held: Arc<[(GroupId, Role, u32)]> = r
        .list(|r| {
            let group = GroupId::from_bytes(r.array()?);
            let role = match r.u8()? {
                0 => Role::Voter,
                1 => Role::Joining,
                2 => Role::Distrusted,
                _ => return unknown(),
            };
            Ok((group, role, r.u32()?))
        })?
        .into();
    if !held.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(Malformed::Malformed("order of groups"));
    }
    let floor = Ballot::from_bytes(&r.array()?);
    let mut stats = Stats::default();
    for counter in counters(&mut stats) {
        *counter = r.var()?;
    }
    Ok(Status { state, held, floor, stats })
}

/// All counters, in the order of the message.
fn counters(stats: &mut Stats) -> [&mut u64; 22] {
    let Stats {
        capacity,
        free,
        used,
        journal_live,
        journal_bytes,
        extent_live,
        extent_bytes,
        miscounts,
        index_bytes,
        overlay_bytes,
        reads,
        writes,
        syncs,
        records,
        batches,
        commit_us,
        commit_us_max,
        compacted,
        recycled,
        read_errors,
        journal_damage,
        index_rebuilt,
    } = stats;
    [
        capacity,
        free,
        used,
        journal_live,
        journal_bytes,
        extent_live,
        extent_bytes,
        miscounts,
        index_bytes,
        overlay_bytes,
        reads,
        writes,
        syncs,
        records,
        batches,
        commit_us,
        commit_us_max,
        compacted,
        recycled,
        read_errors,
        journal_damage,
        index_rebuilt,
    ]
}

pub(super) fn encode_error(out: &mut Writer, error: &Error) {
    match error {
        Error::Missing => out.u8(0),
        Error::Corrupt(what) => {
            out.u8(1);
            out.bytes(what.as_bytes());
        }
        Error::Full => out.u8(2),
        Error::ReadOnly => out.u8(3),
        Error::Fenced(reason) => {
            out.u8(4);
            out.bytes(reason.as_bytes());
        }
        Error::Offline(reason) => {
            out.u8(5);
            out.bytes(reason.as_bytes());
        }
        Error::Unanswered => out.u8(6),
        Error::NewerLayout(epoch) => {
            out.u8(7);
            out.u32(*epoch);
        }
        Error::BucketFenced(deletion) => {
            out.u8(8);
            out.u64(deletion.0);
        }
        Error::NotHeld(group) => {
            out.u8(9);
            out.raw(&group.to_bytes());
        }
        Error::Unsuitable(what) => {
            out.u8(10);
            out.bytes(what.as_bytes());
        }
        Error::Io { op, code, error } => {
            out.u8(11);
            out.bytes(op.as_bytes());
            out.option(code.as_ref(), |out, code| out.i64(i64::from(*code)));
            out.bytes(error.as_bytes());
        }
        Error::Malformed(what) => {
            out.u8(12);
            out.bytes(what.as_bytes());
        }
    }
}

pub(super) fn decode_error(r: &mut Reader<'_>) -> Result<Error, Malformed> {
    Ok(match r.u8()? {
        0 => Error::Missing,
        1 => Error::Corrupt(r.string()?),
        2 => Error::Full,
        3 => Error::ReadOnly,
        4 => Error::Fenced(r.string()?),
        5 => Error::Offline(fixed(&r.string()?, &OFFLINE, "its node refuses")),
        6 => Error::Unanswered,
        7 => Error::NewerLayout(r.u32()?),
        8 => Error::BucketFenced(Deletion(r.u64()?)),
        9 => Error::NotHeld(GroupId::from_bytes(r.array()?)),
        10 => Error::Unsuitable(r.string()?),
        11 => {
            let op = r.string()?;
            let code =
                r.option(|r| i32::try_from(r.i64()?).map_err(|_| Malformed::Malformed("error number")))?;
            Error::Io { op, code, error: r.string()? }
        }
        12 => Error::Malformed(fixed(&r.string()?, &[], "its node refuses the request")),
        _ => return unknown(),
    })
}

/// Reasons of `Offline` that people see often. Others become a general one: the type holds fixed texts only.
const OFFLINE: [&str; 9] = [
    "it is out of service",
    "closing",
    "closed",
    "it went away",
    "it does not answer",
    "abandoned",
    "too many operations wait for the drive",
    "its node does not serve it",
    crate::sessions::ENDED,
];

fn fixed(text: &str, known: &[&'static str], other: &'static str) -> &'static str {
    known.iter().find(|known| **known == text).copied().unwrap_or(other)
}
