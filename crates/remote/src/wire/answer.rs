//! Answers that one message carries.
//!
//! Must not depend on: requests.

use ashlar_commit::bucket_fence::Deletion;
use ashlar_drive::{Accepted, Answer, Entry, FenceAnswer, Prepared, ReadReply, Seen, ShardInfo};
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::{Ballot, BucketId, GroupId, RegisterKey, WriteId};
use bytes::Bytes;

use super::{In, Malformed, Out, unknown};

/// Appends an answer.
pub fn encode_answer(out: &mut Out, answer: &Answer) {
    match answer {
        Answer::Done => out.head.u8(0),
        Answer::Uncounted => out.head.u8(1),
        Answer::Refused(ballot) => {
            out.head.u8(2);
            out.ballot(*ballot);
        }
        Answer::Prepared(prepared) => {
            out.head.u8(3);
            encode_prepared(out, prepared);
        }
        Answer::Read(reply) => {
            out.head.u8(4);
            encode_read(out, reply);
        }
        Answer::Entries(entries) => section(out, 5, |list| list.list(entries, encode_entry)),
        Answer::Digest(count, sum) => {
            out.head.u8(6);
            out.head.u64(*count);
            out.head.u64(*sum);
        }
        Answer::Digests(digests) => section(out, 7, |list| {
            list.list(digests, |list, (count, sum)| {
                list.u64(*count);
                list.u64(*sum);
            });
        }),
        Answer::Shards(shards) => section(out, 8, |list| list.list(shards, encode_shard)),
        Answer::Dropped(dropped) => {
            out.head.u8(9);
            out.head.bool(*dropped);
        }
        Answer::Fence(FenceAnswer::Fenced { counted }) => {
            out.head.u8(10);
            out.head.bool(*counted);
        }
        Answer::Fence(FenceAnswer::Later(deletion)) => {
            out.head.u8(11);
            out.deletion(*deletion);
        }
        Answer::Fences(fences) => section(out, 12, |list| {
            list.list(fences, |list, (group, bucket, deletion)| {
                list.raw(&group.to_bytes());
                list.raw(&bucket.0);
                list.u64(deletion.0);
            });
        }),
    }
}

/// The inverse of [`encode_answer`].
///
/// # Errors
/// Bytes that no answer has.
pub fn decode_answer(m: &mut In<'_>) -> Result<Answer, Malformed> {
    Ok(match m.head.u8()? {
        0 => Answer::Done,
        1 => Answer::Uncounted,
        2 => Answer::Refused(m.ballot()?),
        3 => Answer::Prepared(decode_prepared(m)?),
        4 => Answer::Read(decode_read(m)?),
        5 => Answer::Entries(items(m, decode_entry)?),
        6 => Answer::Digest(m.head.u64()?, m.head.u64()?),
        7 => Answer::Digests(items(m, |r, _| Ok((r.u64()?, r.u64()?)))?),
        8 => Answer::Shards(items(m, |r, _| decode_shard(r))?),
        9 => Answer::Dropped(m.head.bool()?),
        10 => Answer::Fence(FenceAnswer::Fenced { counted: m.head.bool()? }),
        11 => Answer::Fence(FenceAnswer::Later(m.deletion()?)),
        12 => Answer::Fences(items(m, |r, _| {
            Ok((GroupId::from_bytes(r.array()?), BucketId(r.array()?), Deletion(r.u64()?)))
        })?),
        _ => return unknown(),
    })
}

/// An answer as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// All of it.
    Whole(Answer),
    /// A promise whose record is too long for the answer; the record is empty.
    WithoutRecord(Prepared),
}

/// Appends an answer; of a promise with a record longer than `limit`, all but the record.
pub fn encode_told(out: &mut Out, answer: &Answer, limit: usize) {
    match answer {
        Answer::Prepared(Prepared::Promised { accepted: Some(accepted), horizon, purged, fence })
            if accepted.record.len() > limit.max(super::INLINE) =>
        {
            let accepted = Some(Accepted { record: Bytes::new(), ..accepted.clone() });
            out.head.u8(13);
            encode_prepared(
                out,
                &Prepared::Promised { accepted, horizon: *horizon, purged: *purged, fence: *fence },
            );
        }
        _ => encode_answer(out, answer),
    }
}

/// The inverse of [`encode_told`].
///
/// # Errors
/// Bytes that no answer has.
pub fn decode_told(m: &mut In<'_>) -> Result<Told, Malformed> {
    if m.head.rest().first() != Some(&13) {
        return Ok(Told::Whole(decode_answer(m)?));
    }
    m.head.u8()?;
    match decode_prepared(m)? {
        Prepared::Promised { accepted: Some(accepted), horizon, purged, fence }
            if accepted.record.is_empty() =>
        {
            let accepted = Some(accepted);
            Ok(Told::WithoutRecord(Prepared::Promised { accepted, horizon, purged, fence }))
        }
        _ => Err(Malformed::Malformed("a promise without a record")),
    }
}

/// A list that can be long: a byte string of its own.
fn section(out: &mut Out, tag: u8, write: impl FnOnce(&mut Writer)) {
    out.head.u8(tag);
    let mut list = Writer::default();
    write(&mut list);
    out.blob(&list.into_vec().into());
}

/// The inverse of [`section`]. `item` also gets the bytes that hold the list, to share their memory.
fn items<T>(
    m: &mut In<'_>,
    mut item: impl FnMut(&mut Reader<'_>, &Bytes) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let whole = m.blob()?;
    let mut list = Reader::new(&whole);
    let items = list.list(|r| item(r, &whole))?;
    list.end()?;
    Ok(items)
}

fn encode_prepared(out: &mut Out, prepared: &Prepared) {
    match prepared {
        Prepared::Promised { accepted, horizon, purged, fence } => {
            out.head.u8(0);
            out.head.bool(accepted.is_some());
            if let Some(accepted) = accepted {
                out.ballot(accepted.ballot);
                out.head.bool(accepted.hint);
                out.head.bool(accepted.with_shard);
                out.blob(&accepted.record);
            }
            out.ballot(*horizon);
            out.ballot(*purged);
            out.deletion(*fence);
        }
        Prepared::Refused { highest } => {
            out.head.u8(1);
            out.ballot(*highest);
        }
        Prepared::NotVoter => out.head.u8(2),
    }
}

fn decode_prepared(m: &mut In<'_>) -> Result<Prepared, Malformed> {
    Ok(match m.head.u8()? {
        0 => {
            let accepted = if m.head.bool()? {
                Some(Accepted {
                    ballot: m.ballot()?,
                    hint: m.head.bool()?,
                    with_shard: m.head.bool()?,
                    record: m.blob()?,
                })
            } else {
                None
            };
            Prepared::Promised { accepted, horizon: m.ballot()?, purged: m.ballot()?, fence: m.deletion()? }
        }
        1 => Prepared::Refused { highest: m.ballot()? },
        2 => Prepared::NotVoter,
        _ => return unknown(),
    })
}

pub(super) fn encode_read(out: &mut Out, reply: &ReadReply) {
    out.head.bool(reply.voter);
    out.head.bool(reply.accepted.is_some());
    if let Some(seen) = &reply.accepted {
        out.ballot(seen.ballot);
        out.head.bool(seen.hint);
        out.head.bool(seen.with_shard);
        out.head.u64(seen.digest);
        out.head.bool(seen.record.is_some());
        if let Some(record) = &seen.record {
            out.blob(record);
        }
    }
    out.ballot(reply.horizon);
}

pub(super) fn decode_read(m: &mut In<'_>) -> Result<ReadReply, Malformed> {
    let voter = m.head.bool()?;
    let accepted = if m.head.bool()? {
        Some(Seen {
            ballot: m.ballot()?,
            hint: m.head.bool()?,
            with_shard: m.head.bool()?,
            digest: m.head.u64()?,
            record: if m.head.bool()? { Some(m.blob()?) } else { None },
        })
    } else {
        None
    };
    Ok(ReadReply { voter, accepted, horizon: m.ballot()? })
}

fn encode_entry(list: &mut Writer, entry: &Entry) {
    list.bytes(entry.key.as_bytes());
    list.raw(&entry.ballot.to_bytes());
    list.bool(entry.hint);
    list.u64(entry.digest);
    list.bytes(&entry.summary);
}

fn decode_entry(r: &mut Reader<'_>, whole: &Bytes) -> Result<Entry, Malformed> {
    Ok(Entry {
        key: decode_key(r)?,
        ballot: Ballot::from_bytes(&r.array()?),
        hint: r.bool()?,
        digest: r.u64()?,
        summary: whole.slice_ref(r.bytes()?),
    })
}

fn encode_shard(list: &mut Writer, shard: &ShardInfo) {
    list.raw(&shard.write_id.0);
    list.u8(shard.index);
    list.bytes(shard.owner.as_bytes());
    list.raw(&shard.ballot.to_bytes());
    list.u64(shard.len);
    list.bool(shard.inline);
}

fn decode_shard(r: &mut Reader<'_>) -> Result<ShardInfo, Malformed> {
    Ok(ShardInfo {
        write_id: WriteId(r.array()?),
        index: r.u8()?,
        owner: decode_key(r)?,
        ballot: Ballot::from_bytes(&r.array()?),
        len: r.u64()?,
        inline: r.bool()?,
    })
}

fn decode_key(r: &mut Reader<'_>) -> Result<RegisterKey, Malformed> {
    RegisterKey::from_bytes(r.bytes()?).ok_or(Malformed::Malformed("register key"))
}
