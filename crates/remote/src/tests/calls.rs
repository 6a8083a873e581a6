//! Calls of a remote drive have the results of the same calls on the drive itself.

use ashlar_commit::bucket_fence::{Deletion, Grant};
use ashlar_drive::{
    Accept, Completion, DriveHandle, Error, FenceAnswer, Fold, Inline, InlineShard, Outcome, Prepared, Range,
    Role, State, Tally,
};
use ashlar_format::{BucketId, GroupId};

use super::{Fate, GROUP, accept, ballot, content, drive, key, reach, rig, until, write_id};
use crate::{Caller, Served};

pub(super) async fn one(call: impl FnOnce(Completion)) -> (Outcome, Option<Error>) {
    let tally = Tally::new(1);
    call(tally.completion(0));
    (tally.wait_all().await, tally.error())
}

/// All registers of [`GROUP`].
fn all() -> Range {
    let (from, to) = (GROUP.to_bytes(), GROUP.next().unwrap().to_bytes());
    Range { from: from.to_vec(), to: to.to_vec(), epoch: u32::MAX }
}

pub(super) fn accept_with(handle: &DriveHandle, accept: Accept, done: Completion) {
    handle.accept_with(accept, Grant::Plain, done);
}

/// What changed on the drive without a call of this handle is known after its node was asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_is_asked_for() {
    let r = rig().await;
    r.drive.fence_epoch(GROUP, 3).await.unwrap();
    assert_ne!(r.remote.epoch(GROUP), 3);
    r.remote.ask_status().await.unwrap();
    assert_eq!(r.remote.epoch(GROUP), 3);
    assert_eq!(r.remote.role(GROUP), r.drive.role(GROUP));
}

#[tokio::test]
async fn registers_are_written_and_read() {
    let rig = rig().await;
    let long = content(100_000);
    for (n, record) in [(1, &content(10)), (2, &long)] {
        let promised = rig.remote.prepare(&key(n), ballot(1)).await.unwrap();
        assert!(matches!(promised, Prepared::Promised { accepted: None, .. }), "{promised:?}");
        let (outcome, error) = one(|done| accept_with(&rig.remote, accept(n, 1, record), done)).await;
        assert_eq!((outcome.ok, error), (1, None));
    }
    let read = rig.remote.read(&key(2), true, u32::MAX).await.unwrap();
    assert_eq!(read, rig.drive.read(&key(2), true, u32::MAX).await.unwrap());
    assert_eq!(read.accepted.unwrap().record.unwrap(), long);
    let promised = rig.remote.prepare(&key(2), ballot(5)).await.unwrap();
    let Prepared::Promised { accepted: Some(accepted), .. } = promised else { panic!("{promised:?}") };
    assert_eq!((accepted.ballot, accepted.record), (ballot(1), long));
    let (outcome, _) = one(|done| accept_with(&rig.remote, accept(2, 3, b"late"), done)).await;
    assert_eq!((outcome.refused, outcome.highest), (1, ballot(5)));
}

#[tokio::test]
async fn lists_and_digests_are_those_of_the_drive() {
    let rig = rig().await;
    for n in 0..200 {
        one(|done| accept_with(&rig.remote, accept(n, 1, &content(50)), done)).await;
    }
    let listed = rig.remote.scan_many(vec![all()], None, 1000).await.unwrap();
    assert_eq!(listed.len(), 200);
    assert_eq!(listed, rig.drive.scan_many(vec![all()], None, 1000).await.unwrap());
    let digests = rig.remote.digests(vec![all()], None, false).await.unwrap();
    assert_eq!(digests, rig.drive.digests(vec![all()], None, false).await.unwrap());
    assert_eq!(digests[0].0, 200);
}

#[tokio::test]
async fn folded_lists_and_digests_are_those_of_the_drive() {
    let rig = rig().await;
    for n in 0..200 {
        one(|done| accept_with(&rig.remote, accept(n, 1, &content(50)), done)).await;
    }
    let whole = rig.drive.scan_many(vec![all()], None, 1000).await.unwrap();
    // The common prefix is all but the last byte of the key.
    let end = whole[0].key.key().len() - 1;
    let fold = || Some(Fold { prefix: 0, delimiter: whole[0].key.key()[..end].to_vec() });
    let listed = rig.remote.scan_many(vec![all()], fold(), 1000).await.unwrap();
    assert!(!listed.is_empty() && listed.len() < whole.len(), "{} of {}", listed.len(), whole.len());
    assert_eq!(listed, rig.drive.scan_many(vec![all()], fold(), 1000).await.unwrap());
    let digests = rig.remote.digests(vec![all()], fold(), true).await.unwrap();
    assert_eq!(digests, rig.drive.digests(vec![all()], fold(), true).await.unwrap());
    assert_eq!(digests[0].0, listed.len() as u64);
}

#[tokio::test]
async fn staged_and_inline_shards_are_listed_and_dropped() {
    let rig = rig().await;
    let data = content(20_000);
    let staged = InlineShard {
        owner: key(1),
        write_id: write_id(1),
        index: 3,
        ballot: ballot(1),
        epoch: u32::MAX,
        data: data.clone(),
    };
    let (outcome, error) = one(|done| rig.remote.stage(staged, done)).await;
    assert_eq!((outcome.ok, error), (1, None));
    let mut with_shard = accept(2, 1, &content(5_000));
    with_shard.inline = Some(Inline { write_id: write_id(2), index: 4, data: data.clone() });
    let (outcome, error) = one(|done| accept_with(&rig.remote, with_shard, done)).await;
    assert_eq!((outcome.ok, error), (1, None));
    let mut shards = rig.remote.shards(None, 10).await.unwrap();
    shards.sort_by_key(|shard| shard.index);
    assert_eq!(
        shards.iter().map(|s| (s.write_id, s.index, s.len)).collect::<Vec<_>>(),
        [(write_id(1), 3, 20_000), (write_id(2), 4, 20_000)]
    );
    assert!(rig.remote.drop_orphan(write_id(1), 3, ballot(9), u32::MAX).await.unwrap());
    rig.drive.pump();
    assert_eq!(rig.drive.shards(None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn fences_of_buckets_hold() {
    let rig = rig().await;
    let bucket = BucketId([1; 16]);
    let fenced = rig.remote.fence_bucket(GROUP, bucket, Deletion(4), u32::MAX).await.unwrap();
    assert_eq!(fenced, FenceAnswer::Fenced { counted: true });
    assert_eq!(rig.remote.fences().await.unwrap(), [(GROUP, bucket, Deletion(4))]);
    let (outcome, error) = one(|done| accept_with(&rig.remote, accept(1, 1, b"new"), done)).await;
    assert_eq!((outcome.failed, error), (1, Some(Error::BucketFenced(Deletion(4)))));
    rig.remote.lift_fence(bucket, Deletion(4)).await.unwrap();
    assert!(rig.drive.fences().is_empty());
}

#[tokio::test]
async fn change_of_role_is_known_with_its_answer() {
    let rig = rig().await;
    let other = GroupId::new(0, 7);
    assert_eq!(rig.remote.role(other), None);
    rig.remote.join(&[(other, 3)]).await.unwrap();
    assert_eq!((rig.remote.role(other), rig.remote.epoch(other)), (Some(Role::Joining), 3));
    rig.remote.joined(other, 3).await.unwrap();
    assert_eq!(rig.remote.role(other), Some(Role::Voter));
    rig.remote.fence_epoch(other, 5).await.unwrap();
    assert_eq!(rig.remote.epoch(other), 5);
    let refused = rig.remote.read(&key(1), true, 0).await;
    assert!(refused.is_ok(), "group 0 has no later epoch: {refused:?}");
}

#[tokio::test]
async fn status_follows_the_drive() {
    let rig = rig().await;
    assert_eq!(rig.remote.state(), State::Online);
    assert_eq!(rig.remote.label(), rig.drive.label());
    assert_eq!(rig.remote.floor(), rig.drive.floor());
    let before = rig.remote.stats();
    assert_eq!((before.capacity, before.free), (rig.drive.stats().capacity, rig.drive.stats().free));
    rig.drive.close().await;
    // The failure of a call tells.
    assert!(rig.remote.read(&key(1), true, u32::MAX).await.is_err());
    assert_eq!(rig.remote.state(), State::Closed);
    rig.served.set([]);
    assert_eq!(
        rig.remote.read(&key(1), true, u32::MAX).await.unwrap_err(),
        Error::Offline("its node does not serve it")
    );
    assert!(!rig.remote.is_away());
    assert!(rig.node.refresh().await.unwrap().is_empty());
    assert!(rig.remote.is_away(), "its node answers, and does not name it");
    rig.served.set([rig.drive.clone()]);
    rig.node.refresh().await.unwrap();
    assert!(!rig.remote.is_away());
}

#[tokio::test]
async fn lost_answer_is_unknown_and_unsent_call_is_offline() {
    let rig = rig().await;
    rig.transport.set(Fate::AnswerLost);
    let (outcome, error) = one(|done| accept_with(&rig.remote, accept(1, 1, b"there"), done)).await;
    assert_eq!((outcome.failed, error), (1, Some(Error::Unanswered)));
    assert_eq!(rig.remote.read(&key(1), true, u32::MAX).await, Err(Error::Unanswered));
    rig.transport.set(Fate::Garbled);
    assert_eq!(rig.remote.read(&key(1), true, u32::MAX).await, Err(Error::Unanswered));
    rig.transport.set(Fate::NotSent);
    let before = rig.transport.sent();
    let unsent = Err(Error::Offline("its node cannot be reached"));
    assert_eq!(rig.remote.read(&key(1), true, u32::MAX).await, unsent);
    assert_eq!(rig.transport.sent(), before);
    rig.transport.set(Fate::Delivered);
    let read = rig.remote.read(&key(1), true, u32::MAX).await.unwrap();
    assert_eq!(&read.accepted.unwrap().record.unwrap()[..], b"there");
}

#[tokio::test]
async fn unanswered_call_has_an_age_until_nobody_waits() {
    let rig = rig().await;
    assert_eq!(rig.remote.oldest(), std::time::Duration::ZERO);
    let key = key(1);
    let asked = rig.remote.read(&key, true, u32::MAX);
    let mut asked = Box::pin(asked);
    // The first step sends the call.
    assert!(futures::poll!(asked.as_mut()).is_pending());
    until(|| rig.remote.oldest() > std::time::Duration::ZERO).await;
    drop(asked);
    assert_eq!(rig.remote.oldest(), std::time::Duration::ZERO);
}

/// The answer to a frame is looked at when the next frame comes, which may be minutes later.
#[tokio::test]
async fn answered_call_has_no_age_although_nobody_looks() {
    let rig = rig().await;
    let (size, frame) = (3 * 4096, 4096);
    let begun = rig.remote.begin_shard(&key(1), write_id(1), 0, ballot(1), u32::MAX, size, frame);
    let mut writer = begun.unwrap();
    for _ in 0..2 {
        writer.write(content(4096)).await.unwrap();
        until(|| rig.transport.sent() > 1).await;
        until(|| rig.remote.oldest() == std::time::Duration::ZERO).await;
    }
    writer.write(content(4096)).await.unwrap();
    assert_eq!(rig.remote.oldest(), std::time::Duration::ZERO);
    let finish = |done| drop(writer.finish(done));
    assert_eq!(one(finish).await.0.ok, 1);
    assert_eq!(rig.remote.frames_waiting(), 0);
}

#[tokio::test]
async fn calls_reach_the_drive_that_they_name() {
    let (_disk1, first) = drive(1);
    let (_disk2, second) = drive(2);
    let served = Served::default();
    served.set([first.clone(), second.clone()]);
    let (_, node) = reach(&served, Caller { node: 3, process: 4 });
    let handles = node.refresh().await.unwrap();
    assert_eq!(handles.len(), 2);
    let (outcome, _) = one(|done| accept_with(&handles[1], accept(1, 1, b"second"), done)).await;
    assert_eq!(outcome.ok, 1);
    assert!(first.read(&key(1), false, u32::MAX).await.unwrap().accepted.is_none());
    assert!(second.read(&key(1), false, u32::MAX).await.unwrap().accepted.is_some());
    assert_eq!(node.drive(second.label().drive).unwrap().label(), second.label());
}

#[tokio::test]
async fn long_records_are_asked_for_once_more() {
    let rig = rig().await;
    let long = content(100_000);
    one(|done| accept_with(&rig.remote, accept(1, 1, &long), done)).await;
    let before = rig.transport.sent();
    let promised = rig.remote.prepare(&key(1), ballot(2)).await.unwrap();
    let Prepared::Promised { accepted: Some(accepted), .. } = promised else { panic!("{promised:?}") };
    assert_eq!((accepted.ballot, accepted.record), (ballot(1), long.clone()));
    assert_eq!(rig.transport.sent() - before, 2);
    let read = rig.remote.read(&key(1), true, u32::MAX).await.unwrap();
    assert_eq!(read.accepted.unwrap().record.unwrap(), long);
    assert_eq!(rig.transport.sent() - before, 4);
    // The promise holds although its answer came in two parts.
    let (outcome, _) = one(|done| accept_with(&rig.remote, accept(1, 1, b"older"), done)).await;
    assert_eq!(outcome.refused, 1);
    let (outcome, _) = one(|done| accept_with(&rig.remote, accept(1, 2, b"newer"), done)).await;
    assert_eq!(outcome.ok, 1);
}

#[tokio::test]
async fn node_that_nobody_uses_is_freed() {
    let rig = rig().await;
    let bytes = content(10);
    one(|done| accept_with(&rig.remote, accept(1, 1, &bytes), done)).await;
    let super::Rig { transport, node, remote, .. } = rig;
    let transport = std::sync::Arc::downgrade(&{ transport });
    assert!(transport.upgrade().is_some());
    drop((node, remote));
    until(|| transport.upgrade().is_none()).await;
}
