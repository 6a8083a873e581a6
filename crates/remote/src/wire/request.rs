//! Requests that one message carries, with their method numbers.
//!
//! Must not depend on: answers.

use ashlar_commit::bucket_fence::Grant;
use ashlar_drive::{Accept, Fold, Inline, InlineShard, Range, Request};
use ashlar_format::BucketId;
use ashlar_format::codec::{Reader, Writer};

use super::{In, Malformed, Out, unknown};
use crate::transport::method;

/// The method number of a request.
#[must_use]
pub fn method(request: &Request) -> u16 {
    match request {
        Request::Prepare { .. } => 1,
        Request::Accept { .. } => method::ACCEPT,
        Request::Copy { .. } => method::COPY,
        Request::Stage(_) => 4,
        Request::Confirm { .. } => 5,
        Request::Read { .. } => method::READ,
        Request::Scan { .. } => 7,
        Request::RangeDigest { .. } => 8,
        // Those of folded lists are requests of their own, so that one that is not folded means the same to every node.
        Request::ScanMany { fold: None, .. } => 9,
        Request::Digests { fold: None, .. } => 10,
        Request::ScanMany { fold: Some(_), .. } => 25,
        Request::Digests { fold: Some(_), .. } => 26,
        Request::VerifyRegister { .. } => 11,
        Request::VerifyShard { .. } => 12,
        Request::Shards { .. } => 13,
        Request::DropOrphan { .. } => 14,
        Request::FenceEpoch { .. } => 15,
        Request::Found { .. } => 16,
        Request::Join { .. } => 17,
        Request::Joined { .. } => 18,
        Request::Hint { .. } => 19,
        Request::Purge { .. } => 20,
        Request::Discard { .. } => 21,
        Request::FenceBucket { .. } => 22,
        Request::LiftFence { .. } => 23,
        Request::Fences => 24,
    }
}

/// Appends the parameters of a request.
pub fn encode_request(out: &mut Out, request: &Request) {
    match request {
        Request::Prepare { key, ballot } => {
            out.key(key);
            out.ballot(*ballot);
        }
        Request::Accept { accept, grant } => {
            encode_accept(out, accept);
            encode_grant(out, *grant);
        }
        Request::Copy { accept, hint } => {
            encode_accept(out, accept);
            out.head.bool(*hint);
        }
        Request::Stage(shard) => {
            out.key(&shard.owner);
            out.write_id(shard.write_id);
            out.head.u8(shard.index);
            out.ballot(shard.ballot);
            out.head.u32(shard.epoch);
            out.blob(&shard.data);
        }
        Request::Confirm { write_id, index, ballot, epoch } => {
            out.write_id(*write_id);
            out.head.u8(*index);
            out.ballot(*ballot);
            out.head.u32(*epoch);
        }
        Request::Read { key, record, epoch } => {
            out.key(key);
            out.head.bool(*record);
            out.head.u32(*epoch);
        }
        Request::Scan { from, to, limit, epoch } => {
            out.head.bytes(from);
            out.head.bytes(to);
            out.head.var(*limit as u64);
            out.head.u32(*epoch);
        }
        Request::RangeDigest { from, to, epoch } => {
            out.head.bytes(from);
            out.head.bytes(to);
            out.head.u32(*epoch);
        }
        Request::ScanMany { ranges, fold, limit } => {
            encode_ranges(out, ranges);
            out.head.var(*limit as u64);
            encode_fold(out, fold.as_ref());
        }
        Request::Digests { ranges, fold, few } => {
            encode_ranges(out, ranges);
            out.head.bool(*few);
            encode_fold(out, fold.as_ref());
        }
        Request::VerifyRegister { key } => out.key(key),
        Request::VerifyShard { write_id, index } => {
            out.write_id(*write_id);
            out.head.u8(*index);
        }
        Request::Shards { after, limit } => {
            out.head.bool(after.is_some());
            if let Some((write_id, index)) = after {
                out.write_id(*write_id);
                out.head.u8(*index);
            }
            out.head.var(*limit as u64);
        }
        Request::DropOrphan { write_id, index, collector, epoch } => {
            out.write_id(*write_id);
            out.head.u8(*index);
            out.ballot(*collector);
            out.head.u32(*epoch);
        }
        Request::FenceEpoch { group, epoch } | Request::Joined { group, epoch } => {
            out.group(*group);
            out.head.u32(*epoch);
        }
        Request::Found { groups, epoch } => {
            out.head.var(groups.len() as u64);
            groups.iter().for_each(|g| out.group(*g));
            out.head.u32(*epoch);
        }
        Request::Join { groups } => {
            out.head.var(groups.len() as u64);
            for (group, epoch) in groups {
                out.group(*group);
                out.head.u32(*epoch);
            }
        }
        Request::Hint { key, ballot, epoch } | Request::Purge { key, ballot, epoch } => {
            out.key(key);
            out.ballot(*ballot);
            out.head.u32(*epoch);
        }
        Request::Discard { group, epoch, shards } => {
            out.group(*group);
            out.head.u32(*epoch);
            out.head.var(shards.len() as u64);
            for (write_id, index) in shards {
                out.write_id(*write_id);
                out.head.u8(*index);
            }
        }
        Request::FenceBucket { group, bucket, by, epoch } => {
            out.group(*group);
            out.head.raw(&bucket.0);
            out.deletion(*by);
            out.head.u32(*epoch);
        }
        Request::LiftFence { bucket, up_to } => {
            out.head.raw(&bucket.0);
            out.deletion(*up_to);
        }
        Request::Fences => {}
    }
}

/// The inverse of [`encode_request`].
///
/// # Errors
/// Bytes that no request has.
pub fn decode_request(of: u16, mut message: In<'_>) -> Result<Request, Malformed> {
    let m = &mut message;
    let request = match of {
        1 => Request::Prepare { key: m.key()?, ballot: m.ballot()? },
        method::ACCEPT => Request::Accept { accept: decode_accept(m)?, grant: decode_grant(m)? },
        method::COPY => Request::Copy { accept: decode_accept(m)?, hint: m.head.bool()? },
        4 => Request::Stage(InlineShard {
            owner: m.key()?,
            write_id: m.write_id()?,
            index: m.head.u8()?,
            ballot: m.ballot()?,
            epoch: m.head.u32()?,
            data: m.blob()?,
        }),
        5 => Request::Confirm {
            write_id: m.write_id()?,
            index: m.head.u8()?,
            ballot: m.ballot()?,
            epoch: m.head.u32()?,
        },
        method::READ => Request::Read { key: m.key()?, record: m.head.bool()?, epoch: m.head.u32()? },
        7 => Request::Scan {
            from: m.head.bytes()?.to_vec(),
            to: m.head.bytes()?.to_vec(),
            limit: count(m)?,
            epoch: m.head.u32()?,
        },
        8 => Request::RangeDigest {
            from: m.head.bytes()?.to_vec(),
            to: m.head.bytes()?.to_vec(),
            epoch: m.head.u32()?,
        },
        9 => Request::ScanMany { ranges: decode_ranges(m)?, limit: count(m)?, fold: None },
        10 => Request::Digests { ranges: decode_ranges(m)?, few: m.head.bool()?, fold: None },
        11 => Request::VerifyRegister { key: m.key()? },
        12 => Request::VerifyShard { write_id: m.write_id()?, index: m.head.u8()? },
        13 => Request::Shards {
            after: if m.head.bool()? { Some((m.write_id()?, m.head.u8()?)) } else { None },
            limit: count(m)?,
        },
        14 => Request::DropOrphan {
            write_id: m.write_id()?,
            index: m.head.u8()?,
            collector: m.ballot()?,
            epoch: m.head.u32()?,
        },
        15 => Request::FenceEpoch { group: m.group()?, epoch: m.head.u32()? },
        16 => Request::Found { groups: m.list(|m| m.group())?, epoch: m.head.u32()? },
        17 => Request::Join { groups: m.list(|m| Ok((m.group()?, m.head.u32()?)))? },
        18 => Request::Joined { group: m.group()?, epoch: m.head.u32()? },
        19 => Request::Hint { key: m.key()?, ballot: m.ballot()?, epoch: m.head.u32()? },
        20 => Request::Purge { key: m.key()?, ballot: m.ballot()?, epoch: m.head.u32()? },
        21 => Request::Discard {
            group: m.group()?,
            epoch: m.head.u32()?,
            shards: m.list(|m| Ok((m.write_id()?, m.head.u8()?)))?,
        },
        22 => Request::FenceBucket {
            group: m.group()?,
            bucket: BucketId(m.head.array()?),
            by: m.deletion()?,
            epoch: m.head.u32()?,
        },
        23 => Request::LiftFence { bucket: BucketId(m.head.array()?), up_to: m.deletion()? },
        24 => Request::Fences,
        25 => Request::ScanMany { ranges: decode_ranges(m)?, limit: count(m)?, fold: Some(decode_fold(m)?) },
        26 => {
            Request::Digests { ranges: decode_ranges(m)?, few: m.head.bool()?, fold: Some(decode_fold(m)?) }
        }
        _ => return unknown(),
    };
    message.end()?;
    Ok(request)
}

fn count(m: &mut In<'_>) -> Result<usize, Malformed> {
    usize::try_from(m.head.var()?).map_err(|_| Malformed::Malformed("count"))
}

fn encode_accept(out: &mut Out, accept: &Accept) {
    out.key(&accept.key);
    out.ballot(accept.ballot);
    out.head.u32(accept.epoch);
    out.blob(&accept.record);
    out.head.bytes(&accept.summary);
    out.head.bool(accept.inline.is_some());
    if let Some(inline) = &accept.inline {
        out.write_id(inline.write_id);
        out.head.u8(inline.index);
        out.blob(&inline.data);
    }
}

fn decode_accept(m: &mut In<'_>) -> Result<Accept, Malformed> {
    let (key, ballot, epoch) = (m.key()?, m.ballot()?, m.head.u32()?);
    let (record, summary) = (m.blob()?, bytes::Bytes::copy_from_slice(m.head.bytes()?));
    let inline = if m.head.bool()? {
        Some(Inline { write_id: m.write_id()?, index: m.head.u8()?, data: m.blob()? })
    } else {
        None
    };
    Ok(Accept { key, ballot, epoch, record, summary, inline })
}

fn encode_grant(out: &mut Out, grant: Grant) {
    match grant {
        Grant::Plain => out.head.u8(0),
        Grant::Empties => out.head.u8(1),
        Grant::Of(deletion) => {
            out.head.u8(2);
            out.deletion(deletion);
        }
    }
}

fn decode_grant(m: &mut In<'_>) -> Result<Grant, Malformed> {
    match m.head.u8()? {
        0 => Ok(Grant::Plain),
        1 => Ok(Grant::Empties),
        2 => Ok(Grant::Of(m.deletion()?)),
        _ => unknown(),
    }
}

/// Ranges can be long: they are a byte string of their own.
fn encode_ranges(out: &mut Out, ranges: &[Range]) {
    let mut list = Writer::default();
    list.list(ranges, |list, range| {
        list.bytes(&range.from);
        list.bytes(&range.to);
        list.u32(range.epoch);
    });
    out.blob(&list.into_vec().into());
}

fn decode_ranges(m: &mut In<'_>) -> Result<Vec<Range>, Malformed> {
    let bytes = m.blob()?;
    let mut list = Reader::new(&bytes);
    let range = |r: &mut Reader<'_>| {
        Ok(Range { from: r.bytes()?.to_vec(), to: r.bytes()?.to_vec(), epoch: r.u32()? })
    };
    let ranges = list.list(range)?;
    list.end()?;
    Ok(ranges)
}

fn encode_fold(out: &mut Out, fold: Option<&Fold>) {
    if let Some(fold) = fold {
        out.head.var(fold.prefix as u64);
        out.head.bytes(&fold.delimiter);
    }
}

fn decode_fold(m: &mut In<'_>) -> Result<Fold, Malformed> {
    let (prefix, delimiter) = (count(m)?, m.head.bytes()?.to_vec());
    if delimiter.is_empty() {
        return Err(Malformed::Malformed("delimiter"));
    }
    Ok(Fold { prefix, delimiter })
}
