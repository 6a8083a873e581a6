//! Calls for several drives of one node about one register: one message instead of one for each drive.
//!
//! Invariants: no answer waits for a device of another drive longer than [`TOGETHER`]: a READ that would have to wait is left to
//! a call of its own, and a PREPARE without an answer by then is *unknown*. What a drive answers is what it would have answered
//! to a call of its own.
//!
//! Must not depend on: how messages travel, the commit protocol.

use std::time::Duration;

use ashlar_drive::{
    Check, Drive, Error, Known, Later, Prepared, ReadReply, ReadWithShard, Result, WantedShards,
};
use ashlar_environment::time::timeout;
use ashlar_format::{Ballot, DriveId, RegisterKey};
use bytes::Bytes;
use futures::future::join_all;

use crate::drive::RemoteDrive;
use crate::serve::Served;
use crate::transport::{Failure, method};
use crate::wire::{self, HintMany, In, Malformed, Out, PrepareMany, ReadMany, ToldPrepared};

/// How long a node waits for the slowest of its drives.
const TOGETHER: Duration = Duration::from_secs(1);
/// Time limit of the calls, as of those of one drive.
const LIMIT: Duration = Duration::from_secs(3);
/// Payload of an answer: most records are short. Those that are not are asked for once more.
const ANSWER: usize = 64 << 10;

pub(crate) fn read_many(
    drive: &RemoteDrive,
    message: ReadMany,
) -> Later<'static, Vec<Option<ReadWithShard>>> {
    let count = message.drives.len();
    let answer = drive.send(message.method(), message.encode(), ANSWER, LIMIT);
    Box::pin(async move {
        let delivered = match answer.await {
            Err(Failure::TooLong) => return Ok(vec![None; count]),
            answer => answer.map_err(|e| crate::node::failed(&e))?,
        };
        let answer = In::new(&delivered.head, &delivered.bulk);
        let replies = match &message.shards {
            Some(_) => wire::decode_reads_with_shards(answer),
            None => {
                wire::decode_reads(answer).map(|replies| replies.into_iter().map(without_shard).collect())
            }
        };
        match replies {
            Ok(replies) if replies.len() == count => Ok(replies),
            other => Err(garbled(other.err())),
        }
    })
}

fn without_shard(reply: Option<ReadReply>) -> Option<ReadWithShard> {
    reply.map(|reply| ReadWithShard { reply, shard: None })
}

pub(crate) fn prepare_many(
    drive: &RemoteDrive,
    message: PrepareMany,
    known: Option<Known>,
) -> Later<'static, Vec<Result<Prepared>>> {
    let answer = drive.send(method::PREPARE_MANY, message.encode(), ANSWER, LIMIT);
    let drive = drive.clone();
    Box::pin(async move {
        let delivered = answer.await.map_err(|e| crate::node::failed(&e))?;
        let told = match wire::decode_promises(In::new(&delivered.head, &delivered.bulk)) {
            Ok(told) if told.len() == message.drives.len() => told,
            other => return Err(garbled(other.err())),
        };
        let mut records: Vec<(Ballot, Bytes)> = known.into_iter().map(|k| (k.ballot, k.record)).collect();
        let mut answers = Vec::with_capacity(told.len());
        for (id, told) in message.drives.iter().zip(told) {
            let answer = complete(&drive, *id, &message, told, &records).await;
            if let Ok(Prepared::Promised { accepted: Some(a), .. }) = &answer
                && !records.iter().any(|(ballot, _)| *ballot == a.ballot)
            {
                records.push((a.ballot, a.record.clone()));
            }
            answers.push(answer);
        }
        Ok(answers)
    })
}

/// Adds the record that an answer left out: it is known, or in an answer before it, or so long that it has to be read.
async fn complete(
    drive: &RemoteDrive,
    id: DriveId,
    message: &PrepareMany,
    told: ToldPrepared,
    records: &[(Ballot, Bytes)],
) -> Result<Prepared> {
    let (mut prepared, is_long) = told?;
    let Prepared::Promised { accepted: Some(accepted), .. } = &mut prepared else { return Ok(prepared) };
    if !accepted.record.is_empty() {
        return Ok(prepared);
    }
    match records.iter().find(|(ballot, _)| *ballot == accepted.ballot) {
        Some((_, record)) => accepted.record = record.clone(),
        None if is_long => {
            accepted.record =
                drive.record_of(id, &message.key, accepted.ballot, message.ballot.epoch).await?;
        }
        None => return Err(Error::Unanswered),
    }
    Ok(prepared)
}

fn garbled(why: Option<Malformed>) -> Error {
    tracing::warn!(?why, "an answer about several drives cannot be decoded");
    Error::Unanswered
}

impl Served {
    pub(crate) fn read_many(
        &self,
        of: u16,
        message: In<'_>,
        answer_limit: usize,
    ) -> std::result::Result<Out, Malformed> {
        let asked = ReadMany::decode(of, message)?;
        let mut shown: Vec<Ballot> = Vec::new();
        if asked.known != Ballot::ZERO {
            shown.push(asked.known);
        }
        let drives: Vec<Option<Drive>> = asked.drives.iter().map(|id| self.drive(*id).ok()).collect();
        let read = |drive: &Option<Drive>| read_one(drive.as_ref()?, &asked, &mut shown);
        let replies: Vec<Option<ReadReply>> = drives.iter().map(read).collect();
        let Some(wanted) = &asked.shards else { return Ok(wire::encode_reads(&replies)) };
        // Records come first: a shard for which the answer has no room is asked for by itself.
        let mut room = answer_limit.saturating_sub(replies.iter().flatten().map(record_len).sum());
        let with_shard = |(n, reply): (usize, Option<ReadReply>)| {
            let reply = reply?;
            let is_known = reply.accepted.as_ref().is_some_and(|seen| seen.ballot == asked.known);
            let drive = drives[n].as_ref().filter(|_| is_known);
            let shard = drive.and_then(|drive| shard_of(drive, wanted, n, room));
            room -= shard.as_ref().map_or(0, Bytes::len);
            Some(ReadWithShard { reply, shard })
        };
        let answers: Vec<_> = replies.into_iter().enumerate().map(with_shard).collect();
        Ok(wire::encode_reads_with_shards(&answers))
    }

    pub(crate) async fn prepare_many(
        &self,
        message: In<'_>,
        answer_limit: usize,
    ) -> std::result::Result<Out, Malformed> {
        let asked = PrepareMany::decode(message)?;
        // A drive that accepted it last answers with this record, which the caller has.
        let known = asked.known.map(|(ballot, digest)| Known { ballot, digest, record: Bytes::new() });
        let prepare = |id: &DriveId| {
            let drive = self.drive(*id);
            let (asked, known) = (&asked, known.as_ref());
            async move {
                let drive = drive?;
                let promise = drive.prepare_knowing(&asked.key, asked.ballot, known);
                timeout(TOGETHER, promise).await.unwrap_or(Err(Error::Unanswered))
            }
        };
        let mut answers: Vec<Result<Prepared>> = join_all(asked.drives.iter().map(prepare)).await;
        leave_out_repeated(&mut answers);
        Ok(wire::encode_promises(&answers, answer_limit))
    }

    pub(crate) fn hint_many(&self, message: In<'_>) -> std::result::Result<Out, Malformed> {
        let HintMany { drives, key, ballot, epoch } = HintMany::decode(message)?;
        for drive in drives.iter().filter_map(|id| self.drive(*id).ok()) {
            drive.hint(&key, ballot, epoch);
        }
        Ok(Out::default())
    }
}

fn record_len(reply: &ReadReply) -> usize {
    reply.accepted.as_ref().and_then(|seen| seen.record.as_ref()).map_or(0, Bytes::len)
}

/// The shard that the `n`-th drive is asked for, if it has it whole in one frame of at most `room` bytes and needs no device.
/// It was read after the register, so it is what a call of its own would have read.
fn shard_of(drive: &Drive, wanted: &WantedShards, n: usize, room: usize) -> Option<Bytes> {
    let index = wanted.of.get(n).copied().flatten()?;
    let reader = drive.open_shard_now(wanted.write_id, index)?.ok()?;
    let fits = reader.frames() == 1 && reader.len() <= room as u64;
    fits.then(|| reader.read_run_now(0, 1, Check::Drive))??.ok()?.pop()
}

/// The answer of one drive; a record that was shown before is left out.
fn read_one(drive: &Drive, asked: &ReadMany, shown: &mut Vec<Ballot>) -> Option<ReadReply> {
    let want = shown.is_empty();
    let mut reply = drive.read_now(&asked.key, want, asked.epoch)?.ok()?;
    let Some(seen) = &mut reply.accepted else { return Some(reply) };
    if shown.contains(&seen.ballot) {
        seen.record = None;
        return Some(reply);
    }
    if seen.record.is_none() {
        // Others have shown another record.
        reply = drive.read_now(&asked.key, true, asked.epoch)?.ok()?;
    }
    shown.extend(reply.accepted.as_ref().map(|seen| seen.ballot));
    Some(reply)
}

/// Leaves the records out that an earlier answer has.
fn leave_out_repeated(answers: &mut [Result<Prepared>]) {
    let mut shown: Vec<Ballot> = Vec::new();
    for answer in answers {
        let Ok(Prepared::Promised { accepted: Some(accepted), .. }) = answer else { continue };
        if shown.contains(&accepted.ballot) {
            accepted.record = Bytes::new();
        } else if !accepted.record.is_empty() {
            shown.push(accepted.ballot);
        }
    }
}

pub(crate) fn hint_many(
    drive: &RemoteDrive,
    drives: &[DriveId],
    key: &RegisterKey,
    ballot: Ballot,
    epoch: u32,
) {
    let message = HintMany { drives: drives.to_vec(), key: key.clone(), ballot, epoch };
    drive.line().tell(method::HINT_MANY, message.encode(), LIMIT);
}
