//! Calls for several drives of one node: one message, and the answers that each drive would have given by itself.

use std::sync::Arc;

use ashlar_drive::{
    Accepted, Drive, DriveHandle, Error, InlineShard, Known, Prepared, ReadReply, ReadWithShard, Result,
    Tally, WantedShards,
};
use ashlar_format::{Ballot, DriveId, Record};
use bytes::Bytes;

use super::calls::{accept_with, one};
use super::{Direct, Fate, accept, ballot, content, drive, key, label, reach, until, write_id};
use crate::{Caller, RemoteNode, Served};

/// Three drives of one node.
struct Three {
    drives: Vec<Drive>,
    handles: Vec<DriveHandle>,
    ids: Vec<DriveId>,
    served: Served,
    transport: Arc<Direct>,
    _node: Arc<RemoteNode>,
    _disks: Vec<ashlar_machine::SimDisk>,
}

async fn three() -> Three {
    let (disks, drives): (Vec<_>, Vec<_>) = (1..=3).map(drive).unzip();
    let served = Served::default();
    served.set(drives.iter().cloned());
    let (transport, node) = reach(&served, Caller { node: 3, process: 4 });
    let handles = node.refresh().await.unwrap();
    let ids = handles.iter().map(|h| h.label().drive).collect();
    Three { drives, handles, ids, served, transport, _node: node, _disks: disks }
}

impl Three {
    async fn accept(&self, n: usize, counter: u64, record: &[u8]) {
        let (outcome, _) = one(|done| accept_with(&self.handles[n], accept(1, counter, record), done)).await;
        assert_eq!(outcome.ok, 1);
    }

    async fn promises(&self, counter: u64, known: Option<&Known>) -> Vec<Prepared> {
        let before = self.transport.sent();
        let answers = self.handles[0].prepare_many(&self.ids, &key(1), ballot(counter), known).await.unwrap();
        assert_eq!(self.transport.sent() - before, 1);
        answers.into_iter().map(Result::unwrap).collect()
    }
}

/// The answers to a READ that asks for no shards.
async fn replies(
    answer: impl Future<Output = Result<Vec<Option<ReadWithShard>>>>,
) -> Result<Vec<Option<ReadReply>>> {
    let without = |answer: ReadWithShard| {
        assert_eq!(answer.shard, None);
        answer.reply
    };
    Ok(answer.await?.into_iter().map(|answer| answer.map(without)).collect())
}

fn shown(prepared: &Prepared) -> Option<(Ballot, Bytes)> {
    match prepared {
        Prepared::Promised { accepted: Some(Accepted { ballot, record, .. }), .. } => {
            Some((*ballot, record.clone()))
        }
        _ => None,
    }
}

#[tokio::test]
async fn drives_of_one_node_have_its_number() {
    let (three, other) = (three().await, three().await);
    assert!(three.handles.iter().all(|h| h.node() == three.handles[0].node()));
    assert_ne!(three.handles[0].node(), other.handles[0].node());
    assert_eq!(DriveHandle::from(three.drives[0].clone()).node(), None);
}

#[tokio::test]
async fn one_message_reads_all_drives_and_brings_each_record_once() {
    let three = three().await;
    three.accept(0, 1, b"first").await;
    three.accept(1, 1, b"first").await;
    let read = |known| replies(three.handles[2].read_many(&three.ids, &key(1), known, u32::MAX, None));
    let before = three.transport.sent();
    let replies = read(Ballot::ZERO).await.unwrap();
    assert_eq!(three.transport.sent() - before, 1);
    for (handle, reply) in three.handles.iter().zip(&replies) {
        let mut alone = handle.read(&key(1), true, u32::MAX).await.unwrap();
        let mut reply = reply.clone().unwrap();
        alone.accepted.iter_mut().chain(&mut reply.accepted).for_each(|seen| seen.record = None);
        assert_eq!(reply, alone);
    }
    let record = |i: usize, replies: &[Option<ReadReply>]| {
        replies[i].as_ref().unwrap().accepted.as_ref().and_then(|seen| seen.record.clone())
    };
    assert_eq!(record(0, &replies).as_deref(), Some(&b"first"[..]));
    assert_eq!((record(1, &replies), record(2, &replies)), (None, None));
    // Another record is sent too; one that the caller has is not.
    three.accept(1, 2, b"second").await;
    let replies = read(Ballot::ZERO).await.unwrap();
    assert_eq!(record(0, &replies).as_deref(), Some(&b"first"[..]));
    assert_eq!(record(1, &replies).as_deref(), Some(&b"second"[..]));
    let replies = read(ballot(1)).await.unwrap();
    assert_eq!(record(0, &replies), None);
    assert_eq!(record(1, &replies).as_deref(), Some(&b"second"[..]));
}

impl Three {
    /// Stores a shard in the journal of a drive.
    async fn stage(&self, n: usize, index: u8, data: &Bytes) {
        let (owner, write_id, data) = (key(1), write_id(1), data.clone());
        let shard = InlineShard { owner, write_id, index, ballot: ballot(1), epoch: u32::MAX, data };
        let tally = Tally::new(1);
        self.handles[n].stage(shard, tally.completion(0));
        assert_eq!(tally.wait_all().await.ok, 1);
    }

    /// The shards that come with a READ of those that know the record of a ballot.
    async fn shards(&self, known: Ballot, of: [Option<u8>; 3]) -> Vec<Option<Bytes>> {
        let wanted = WantedShards { write_id: write_id(1), of: of.to_vec() };
        let before = self.transport.sent();
        let answer = self.handles[0].read_many(&self.ids, &key(1), known, u32::MAX, Some(wanted));
        let answers = answer.await.unwrap();
        assert_eq!(self.transport.sent() - before, 1);
        answers.into_iter().map(|answer| answer.unwrap().shard).collect()
    }
}

#[tokio::test]
async fn shards_come_from_drives_that_show_the_known_record() {
    let three = three().await;
    let shard = |n| content(3000 + n);
    for n in 0..3 {
        three.accept(n, 1, b"record").await;
        three.stage(n, n as u8, &shard(n)).await;
    }
    let all = [Some(0), Some(1), Some(2)];
    assert_eq!(three.shards(ballot(1), all).await, [Some(shard(0)), Some(shard(1)), Some(shard(2))]);
    assert_eq!(three.shards(ballot(1), [None, Some(1), None]).await, [None, Some(shard(1)), None]);
    // One that it does not have.
    assert_eq!(three.shards(ballot(1), [Some(2), Some(1), Some(7)]).await, [None, Some(shard(1)), None]);
    // A drive that shows another record sends that one, and no shard.
    three.accept(1, 2, b"newer").await;
    assert_eq!(three.shards(ballot(1), all).await, [Some(shard(0)), None, Some(shard(2))]);
    assert_eq!(three.shards(Ballot::ZERO, all).await, [None, None, None]);
}

#[tokio::test]
async fn shards_for_which_an_answer_has_no_room_are_left_out() {
    let three = three().await;
    for n in 0..3 {
        three.accept(n, 1, b"record").await;
        three.stage(n, n as u8, &content(30_000)).await;
    }
    let all = [Some(0), Some(1), Some(2)];
    let came: Vec<bool> = three.shards(ballot(1), all).await.iter().map(Option::is_some).collect();
    assert_eq!(came, [true, true, false], "of 64 KiB");
    // Long records come before shards.
    three.accept(0, 2, &content(50_000)).await;
    let came: Vec<bool> = three.shards(ballot(1), all).await.iter().map(Option::is_some).collect();
    assert_eq!(came, [false, false, false]);
}

#[tokio::test]
async fn drives_that_cannot_answer_together_are_left_to_calls_of_their_own() {
    let three = three().await;
    three.accept(0, 1, b"there").await;
    let served = three.drives[..2].iter().cloned();
    three.served.set(served);
    let read = || replies(three.handles[0].read_many(&three.ids, &key(1), Ballot::ZERO, u32::MAX, None));
    let replies = read().await.unwrap();
    assert!(replies[0].is_some() && replies[1].is_some());
    assert_eq!(replies[2], None, "its node does not serve it");
    let promises = three.handles[0].prepare_many(&three.ids, &key(1), ballot(5), None).await.unwrap();
    assert!(promises[0].is_ok() && promises[1].is_ok());
    assert_eq!(promises[2], Err(Error::Offline("its node does not serve it")));
    three.transport.set(Fate::NotSent);
    assert_eq!(read().await, Err(Error::Offline("its node cannot be reached")));
    three.transport.set(Fate::AnswerLost);
    assert_eq!(read().await, Err(Error::Unanswered));
    three.transport.set(Fate::Garbled);
    assert_eq!(read().await, Err(Error::Unanswered));
    let promises = three.handles[0].prepare_many(&three.ids, &key(1), ballot(9), None).await;
    assert_eq!(promises, Err(Error::Unanswered));
    three.transport.set(Fate::Delivered);
    // A record that is too long for the answer.
    three.accept(1, 10, &content(100_000)).await;
    assert_eq!(read().await.unwrap(), [None, None, None]);
}

#[tokio::test]
async fn one_message_prepares_all_drives() {
    let three = three().await;
    three.accept(0, 1, b"first").await;
    three.accept(1, 2, b"second").await;
    let promises = three.promises(3, None).await;
    assert_eq!(shown(&promises[0]), Some((ballot(1), Bytes::from_static(b"first"))));
    assert_eq!(shown(&promises[1]), Some((ballot(2), Bytes::from_static(b"second"))));
    assert!(matches!(promises[2], Prepared::Promised { accepted: None, .. }));
    // They did promise.
    for (handle, answer) in three.handles.iter().zip(three.promises(2, None).await) {
        assert_eq!(answer, Prepared::Refused { highest: ballot(3) });
        assert_eq!(handle.prepare(&key(1), ballot(3)).await.unwrap(), answer);
    }
}

#[tokio::test]
async fn record_that_several_have_or_the_caller_has_comes_whole() {
    let three = three().await;
    for n in 0..3 {
        three.accept(n, 1, b"same").await;
    }
    let same = Some((ballot(1), Bytes::from_static(b"same")));
    assert!(three.promises(2, None).await.iter().all(|p| shown(p) == same));
    let known = |record: &'static [u8], counter| {
        let record = Bytes::from_static(record);
        Known { ballot: ballot(counter), digest: Record::digest(&record), record }
    };
    assert!(three.promises(3, Some(&known(b"same", 1))).await.iter().all(|p| shown(p) == same));
    // What the caller has is not what they have.
    assert!(three.promises(4, Some(&known(b"older", 0))).await.iter().all(|p| shown(p) == same));
    let long = content(100_000);
    for n in 0..2 {
        three.accept(n, 5, &long).await;
    }
    let before = three.transport.sent();
    let promises = three.handles[0].prepare_many(&three.ids, &key(1), ballot(6), None).await.unwrap();
    let promises: Vec<_> = promises.into_iter().map(|p| shown(&p.unwrap())).collect();
    assert_eq!(promises, [Some((ballot(5), long.clone())), Some((ballot(5), long)), same]);
    assert_eq!(three.transport.sent() - before, 2, "a long record is read once");
}

#[tokio::test]
async fn one_message_tells_all_drives_what_is_chosen() {
    let three = three().await;
    for n in 0..3 {
        three.accept(n, 1, b"chosen").await;
    }
    let before = three.transport.sent();
    three.handles[1].hint_many(&three.ids, &key(1), ballot(1), u32::MAX);
    assert_eq!(three.transport.sent() - before, 1);
    let hinted = |d: &Drive| {
        let reply = d.read_now(&key(1), false, u32::MAX).unwrap().unwrap();
        reply.accepted.unwrap().hint
    };
    until(|| three.drives.iter().all(hinted)).await;
    assert_eq!(three.drives[0].label(), &label(1));
}
