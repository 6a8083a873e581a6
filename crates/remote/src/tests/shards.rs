//! Large shards: written and read over several messages.

use ashlar_drive::{Check, DriveHandle, Error, Outcome, Tally, WriterHandle};
use bytes::Bytes;

use super::{Fate, ME, ballot, content, key, reach, rig, until, write_id};
use crate::wire::{Begin, In, Out, WriteFrame, decode_answer, decode_reply};
use crate::{Caller, Served, method};
use ashlar_format::frame::ShardId;

const FRAME: u32 = 64 << 10;

fn begin(drive: &DriveHandle, id: u64, len: usize) -> WriterHandle {
    drive.begin_shard(&key(id), write_id(id), 2, ballot(1), u32::MAX, len as u64, FRAME).unwrap()
}

async fn finish(writer: WriterHandle) -> (Outcome, Option<Error>) {
    let tally = Tally::new(1);
    writer.finish(tally.completion(0));
    (tally.wait_all().await, tally.error())
}

async fn write(drive: &DriveHandle, id: u64, bytes: &Bytes) {
    let mut writer = begin(drive, id, bytes.len());
    let mut rest = bytes.clone();
    while !rest.is_empty() {
        writer.write(rest.split_to(rest.len().min(FRAME as usize))).await.unwrap();
    }
    let (outcome, error) = finish(writer).await;
    assert_eq!((outcome.ok, error), (1, None));
}

#[tokio::test]
async fn shard_of_many_frames_is_written_and_read() {
    let rig = rig().await;
    let bytes = content(5 * FRAME as usize + 1000);
    write(&rig.remote, 1, &bytes).await;
    assert_eq!(rig.served.sessions(), 0);
    let reader = rig.remote.open_shard(write_id(1), 2).await.unwrap();
    assert_eq!((reader.len(), reader.frame(), reader.frames()), (bytes.len() as u64, FRAME, 6));
    assert_eq!(rig.served.sessions(), 1);
    let frames = reader.read_run(0, 6, Check::Drive).await.unwrap();
    assert_eq!(frames.concat(), bytes);
    let last = reader.read(5, Check::Reader).await.unwrap();
    assert_eq!(last, bytes.slice(5 * FRAME as usize..));
    reader.verify(5, [last].into_iter().collect()).await.unwrap();
    assert_eq!(
        reader.read_run(5, 2, Check::Drive).await,
        Err(Error::Malformed("its node refuses the request"))
    );
    drop(reader);
    until(|| rig.served.sessions() == 0).await;
    // The drive's own reader sees the same.
    let own = rig.drive.open_shard(write_id(1), 2).await.unwrap();
    assert_eq!(own.read_run(0, 6, Check::Drive).await.unwrap().concat(), bytes);
}

#[tokio::test]
async fn short_shard_costs_one_message_each_way() {
    let rig = rig().await;
    let bytes = content(10_000);
    let before = rig.transport.sent();
    write(&rig.remote, 1, &bytes).await;
    assert_eq!(rig.transport.sent() - before, 1);
    let reader = rig.remote.open_shard(write_id(1), 2).await.unwrap();
    assert_eq!(reader.read(0, Check::Reader).await.unwrap(), bytes);
    reader.verify(0, [bytes].into_iter().collect()).await.unwrap();
    drop(reader);
    assert_eq!(rig.transport.sent() - before, 2);
    assert_eq!(rig.served.sessions(), 0);
}

#[tokio::test]
async fn changed_frame_is_found_by_its_hash() {
    let rig = rig().await;
    let bytes = content(3 * FRAME as usize);
    write(&rig.remote, 1, &bytes).await;
    let reader = rig.remote.open_shard(write_id(1), 2).await.unwrap();
    let mut changed = bytes[..FRAME as usize].to_vec();
    changed[77] ^= 1;
    let verified = reader.verify(0, [Bytes::from(changed)].into_iter().collect()).await;
    assert!(matches!(verified, Err(Error::Corrupt(_))), "{verified:?}");
    assert!(matches!(rig.remote.open_shard(write_id(8), 2).await.map(|_| ()), Err(Error::Missing)));
    drop(rig.disk);
}

#[tokio::test]
async fn shard_that_is_given_up_leaves_nothing() {
    let rig = rig().await;
    let free = rig.drive.stats().extent_live;
    let mut writer = begin(&rig.remote, 1, 4 * FRAME as usize);
    writer.write(content(FRAME as usize)).await.unwrap();
    writer.write(content(FRAME as usize)).await.unwrap();
    until(|| rig.served.sessions() == 1).await;
    drop(writer);
    until(|| rig.served.sessions() == 0).await;
    assert!(rig.drive.shards(None, 10).await.unwrap().is_empty());
    assert_eq!(rig.drive.stats().extent_live, free);
    // Finishing too early fails, and gives up.
    let mut writer = begin(&rig.remote, 2, 4 * FRAME as usize);
    writer.write(content(FRAME as usize)).await.unwrap();
    let (outcome, error) = finish(writer).await;
    assert_eq!((outcome.failed, error), (1, Some(Error::Malformed("frames are missing"))));
    until(|| rig.served.sessions() == 0).await;
    assert!(rig.drive.shards(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn frame_of_the_wrong_length_is_refused_before_it_is_sent() {
    let rig = rig().await;
    let mut writer = begin(&rig.remote, 1, 2 * FRAME as usize);
    let before = rig.transport.sent();
    assert_eq!(writer.write(content(100)).await, Err(Error::Malformed("frame length")));
    assert_eq!(rig.transport.sent(), before);
}

#[tokio::test]
async fn unanswered_frame_fails_the_shard() {
    let rig = rig().await;
    let mut writer = begin(&rig.remote, 1, 3 * FRAME as usize);
    rig.transport.set(Fate::AnswerLost);
    // The answer to a frame is awaited with the next one.
    writer.write(content(FRAME as usize)).await.unwrap();
    assert_eq!(writer.write(content(FRAME as usize)).await, Err(Error::Unanswered));
    rig.transport.set(Fate::Delivered);
    let (outcome, _) = finish(writer).await;
    assert_eq!(outcome.failed, 1);
    until(|| rig.served.sessions() == 0).await;
}

#[tokio::test]
async fn sessions_end_with_the_process_of_the_caller() {
    let rig = rig().await;
    let bytes = content(3 * FRAME as usize);
    write(&rig.remote, 1, &bytes).await;
    let reader = rig.remote.open_shard(write_id(1), 2).await.unwrap();
    let (_, other) = reach(&rig.served, Caller { node: 2, process: 5 });
    let theirs = other.refresh().await.unwrap().remove(0).open_shard(write_id(1), 2).await.unwrap();
    assert_eq!(rig.served.sessions(), 2);
    rig.served.ended(ME);
    assert_eq!(rig.served.sessions(), 1);
    assert_eq!(reader.read(0, Check::Drive).await, Err(Error::Offline("the session ended")));
    assert_eq!(theirs.read(0, Check::Drive).await.unwrap(), bytes.slice(..FRAME as usize));
}

/// A frame as a caller could send it.
async fn send(served: &Served, caller: Caller, frame: &WriteFrame) -> Result<(), String> {
    let mut out = Out::to(super::label(1).drive);
    frame.encode(&mut out);
    let answer = served
        .call(caller, method::WRITE_FRAME, out.head.into_vec().into(), super::joined(&out.bulk), 0)
        .await;
    let answer = answer.map_err(|e| e.to_string())?;
    let (head, bulk) = (answer.head.into_vec().into(), super::joined(&answer.bulk));
    decode_reply(&head, &bulk, |m: &mut In<'_>| decode_answer(m))
        .unwrap()
        .result
        .map(|_| ())
        .map_err(|e| e.to_string())
}

#[tokio::test]
async fn frames_out_of_order_and_of_other_callers_are_refused() {
    let rig = rig().await;
    let shard = ShardId { deployment: super::label(1).deployment, write_id: write_id(1), index: 2 };
    let begin = Begin {
        owner: key(1),
        shard,
        ballot: ballot(1),
        epoch: u32::MAX,
        len: 4 * u64::from(FRAME),
        frame: FRAME,
    };
    let bytes = content(FRAME as usize);
    let frame = |number: u32, begin: Option<Begin>| WriteFrame {
        session: 9,
        begin,
        number,
        hash: shard.frame_hash(number, &bytes),
        frame: bytes.clone(),
        last: false,
    };
    send(&rig.served, ME, &frame(0, Some(begin.clone()))).await.unwrap();
    let other = Caller { node: ME.node, process: 12 };
    let foreign = send(&rig.served, other, &frame(1, None)).await;
    assert!(foreign.unwrap_err().contains("the session ended"));
    assert_eq!(rig.served.sessions(), 1);
    // A frame that was skipped ends the session: the shard would have a hole.
    assert!(send(&rig.served, ME, &frame(2, None)).await.is_err());
    assert_eq!(rig.served.sessions(), 0);
    assert!(send(&rig.served, ME, &frame(1, None)).await.is_err());
    let mut foreign = begin;
    foreign.shard.deployment = ashlar_format::DeploymentId([8; 16]);
    assert!(send(&rig.served, ME, &frame(0, Some(foreign))).await.is_err());
    assert_eq!(rig.served.sessions(), 0);
}
