//! Messages as bytes: each has one encoding, and other bytes are refused.

use std::sync::Arc;
use std::time::Duration;

use ashlar_commit::bucket_fence::{Deletion, Grant};
use ashlar_drive::{
    Accept, Accepted, Answer, Check, Entry, Error, FenceAnswer, Fold, Frames, Inline, InlineShard, Prepared,
    Range, ReadReply, Request, Role, Seen, ShardInfo, State, Stats, Status,
};
use ashlar_format::frame::ShardId;
use ashlar_format::{BucketId, DriveId, GroupId};
use bytes::Bytes;

use super::{GROUP, accept, ballot, content, joined, key, label, write_id};
use crate::wire::{
    Begin, Heard, In, Open, Opened, Out, ReadRun, Reply, Verify, WriteFrame, decode_answer, decode_heard,
    decode_reply, decode_request, encode_answer, encode_heard, encode_reply, encode_request, method,
};

fn requests() -> Vec<Request> {
    let with_inline = Accept {
        inline: Some(Inline { write_id: write_id(1), index: 3, data: content(9_000) }),
        ..accept(1, 2, &content(5_000))
    };
    let staged = InlineShard {
        owner: key(2),
        write_id: write_id(2),
        index: 1,
        ballot: ballot(3),
        epoch: 4,
        data: content(4_096),
    };
    let range = Range { from: vec![1; 1_000], to: vec![2; 900], epoch: 5 };
    let fold = Some(Fold { prefix: 3, delimiter: b"--".to_vec() });
    let (group, bucket) = (GroupId::new(1, 2), BucketId([3; 16]));
    let (id, index, epoch) = (write_id(4), 5, 6);
    vec![
        Request::Prepare { key: key(1), ballot: ballot(1) },
        Request::Accept { accept: with_inline.clone(), grant: Grant::Of(Deletion(7)) },
        Request::Accept { accept: accept(1, 2, b"short"), grant: Grant::Plain },
        Request::Copy { accept: with_inline, hint: true },
        Request::Copy { accept: accept(1, 2, b""), hint: false },
        Request::Stage(staged),
        Request::Confirm { write_id: id, index, ballot: ballot(2), epoch },
        Request::Read { key: key(3), record: true, epoch },
        Request::Scan { from: vec![], to: vec![9], limit: 1_000, epoch },
        Request::RangeDigest { from: vec![1], to: vec![9], epoch },
        Request::ScanMany { ranges: vec![range.clone(); 20], fold: None, limit: 100 },
        Request::Digests { ranges: vec![range.clone()], fold: None, few: true },
        Request::VerifyRegister { key: key(4) },
        Request::VerifyShard { write_id: id, index },
        Request::Shards { after: Some((id, index)), limit: 3 },
        Request::Shards { after: None, limit: usize::MAX },
        Request::DropOrphan { write_id: id, index, collector: ballot(8), epoch },
        Request::FenceEpoch { group, epoch },
        Request::Found { groups: vec![group, GROUP], epoch },
        Request::Join { groups: vec![(group, 1), (GROUP, 2)] },
        Request::Joined { group, epoch },
        Request::Hint { key: key(5), ballot: ballot(1), epoch },
        Request::Purge { key: key(5), ballot: ballot(1), epoch },
        Request::Discard { group, epoch, shards: vec![(id, 1), (id, 2)] },
        Request::FenceBucket { group, bucket, by: Deletion(2), epoch },
        Request::LiftFence { bucket, up_to: Deletion(3) },
        Request::Fences,
        Request::ScanMany { ranges: vec![range.clone(); 20], fold: fold.clone(), limit: 100 },
        Request::Digests { ranges: vec![range], fold, few: false },
    ]
}

fn answers() -> Vec<Answer> {
    let accepted = Accepted { ballot: ballot(1), hint: true, with_shard: false, record: content(10_000) };
    let promised =
        |accepted| Prepared::Promised { accepted, horizon: ballot(2), purged: ballot(3), fence: Deletion(4) };
    let seen = |record| Seen { ballot: ballot(1), hint: false, with_shard: true, digest: 5, record };
    let read = |accepted| ReadReply { voter: true, accepted, horizon: ballot(6) };
    let entry = Entry { key: key(1), ballot: ballot(2), hint: true, digest: 3, summary: content(256) };
    let shard =
        ShardInfo { write_id: write_id(1), index: 2, owner: key(3), ballot: ballot(4), len: 5, inline: true };
    vec![
        Answer::Done,
        Answer::Uncounted,
        Answer::Refused(ballot(9)),
        Answer::Prepared(promised(None)),
        Answer::Prepared(promised(Some(accepted))),
        Answer::Prepared(Prepared::Refused { highest: ballot(2) }),
        Answer::Prepared(Prepared::NotVoter),
        Answer::Read(read(None)),
        Answer::Read(read(Some(seen(None)))),
        Answer::Read(read(Some(seen(Some(content(3)))))),
        Answer::Entries(vec![entry; 50]),
        Answer::Entries(vec![]),
        Answer::Digest(1, u64::MAX),
        Answer::Digests(vec![(1, 2), (3, 4)]),
        Answer::Shards(vec![shard; 3]),
        Answer::Dropped(true),
        Answer::Fence(FenceAnswer::Fenced { counted: false }),
        Answer::Fence(FenceAnswer::Later(Deletion(8))),
        Answer::Fences(vec![(GROUP, BucketId([1; 16]), Deletion(2))]),
    ]
}

fn errors() -> Vec<Error> {
    vec![
        Error::Missing,
        Error::Corrupt("what".into()),
        Error::Full,
        Error::ReadOnly,
        Error::Fenced("why".into()),
        Error::Offline("closing"),
        Error::Unanswered,
        Error::NewerLayout(3),
        Error::BucketFenced(Deletion(4)),
        Error::NotHeld(GROUP),
        Error::Unsuitable("that".into()),
        Error::Io { op: "write".into(), code: Some(-5), error: "no".into() },
        Error::Io { op: "write".into(), code: None, error: String::new() },
    ]
}

fn status(state: State) -> Status {
    Status {
        state,
        held: Arc::new([
            (GroupId::new(0, 1), Role::Voter, 1),
            (GroupId::new(0, 2), Role::Joining, 2),
            (GroupId::new(1, 0), Role::Distrusted, 3),
        ]),
        floor: ballot(5),
        stats: Stats { capacity: 1 << 50, index_rebuilt: 1, ..Stats::default() },
    }
}

fn parts(out: Out) -> (Bytes, Bytes) {
    (out.head.into_vec().into(), joined(&out.bulk))
}

#[test]
fn requests_survive_encoding() {
    for request in requests() {
        let mut out = Out::default();
        encode_request(&mut out, &request);
        let (head, bulk) = parts(out);
        let decoded = decode_request(method(&request), In::new(&head, &bulk)).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{request:?}"));
        for cut in 0..head.len() {
            let cut = head.slice(..cut);
            assert!(decode_request(method(&request), In::new(&cut, &bulk)).is_err(), "{request:?} cut");
        }
        let more = [&bulk[..], b"x"].concat().into();
        assert!(decode_request(method(&request), In::new(&head, &more)).is_err(), "{request:?} with more");
    }
}

#[test]
fn every_request_has_a_method_of_its_own() {
    let mut methods: Vec<u16> = requests().iter().map(method).collect();
    methods.dedup();
    assert_eq!(methods, (1..=26).collect::<Vec<u16>>());
}

/// A node that does not know folded lists refuses them, and no node takes one kind of request for the other.
#[test]
fn folded_lists_are_requests_of_their_own() {
    let range = Range { from: vec![1; 30], to: vec![2; 30], epoch: 5 };
    for fold in [None, Some(Fold { prefix: 3, delimiter: b"/".to_vec() })] {
        let scan = Request::ScanMany { ranges: vec![range.clone(); 3], fold: fold.clone(), limit: 100 };
        let digests = Request::Digests { ranges: vec![range.clone(); 3], fold, few: true };
        for (request, methods) in [(scan, [9, 25]), (digests, [10, 26])] {
            let mut out = Out::default();
            encode_request(&mut out, &request);
            let (head, bulk) = parts(out);
            for of in methods {
                let decoded = decode_request(of, In::new(&head, &bulk));
                assert_eq!(decoded.is_ok(), of == method(&request), "{of}: {decoded:?}");
            }
        }
    }
    let nothing = Request::ScanMany {
        ranges: vec![range],
        fold: Some(Fold { prefix: 3, delimiter: Vec::new() }),
        limit: 1,
    };
    let mut out = Out::default();
    encode_request(&mut out, &nothing);
    let (head, bulk) = parts(out);
    assert!(decode_request(25, In::new(&head, &bulk)).is_err(), "an empty delimiter");
}

#[test]
fn answers_and_errors_survive_encoding() {
    let results = answers().into_iter().map(Ok).chain(errors().into_iter().map(Err));
    for result in results {
        for status in [None, Some(status(State::Online))] {
            let reply = Reply { status, result: result.clone() };
            let (head, bulk) = parts(encode_reply(&reply, encode_answer));
            assert_eq!(decode_reply(&head, &bulk, decode_answer).unwrap(), reply);
            for cut in 0..head.len() {
                assert!(decode_reply(&head.slice(..cut), &bulk, decode_answer).is_err());
            }
        }
    }
}

#[test]
fn unknown_reason_becomes_a_general_one() {
    let reply = Reply::<Answer> { status: None, result: Err(Error::Offline("a reason of a later version")) };
    let (head, bulk) = parts(encode_reply(&reply, encode_answer));
    let decoded = decode_reply(&head, &bulk, decode_answer).unwrap();
    assert_eq!(decoded.result, Err(Error::Offline("its node refuses")));
}

#[test]
fn list_of_drives_survives_encoding() {
    let states = [State::Online, State::Fenced("emptied".into()), State::ReadOnly, State::Closed];
    let heard: Vec<Heard> = states
        .into_iter()
        .map(|state| Heard {
            label: label(3),
            path: "/mnt/drive1".into(),
            status: status(state),
            oldest: Duration::from_micros(1_234),
        })
        .collect();
    let (head, bulk) = parts(encode_heard(&heard));
    assert_eq!(decode_heard(&head, &bulk).unwrap(), heard);
}

#[test]
fn messages_about_shards_survive_encoding() {
    let shard = ShardId { deployment: label(1).deployment, write_id: write_id(1), index: 4 };
    let begin = Begin { owner: key(1), shard, ballot: ballot(2), epoch: 3, len: 1 << 40, frame: 1 << 20 };
    for begin in [None, Some(begin)] {
        let frame =
            WriteFrame { session: 1, begin, number: 2, hash: [3; 32], frame: content(70_000), last: true };
        let mut out = Out::default();
        frame.encode(&mut out);
        let (head, bulk) = parts(out);
        assert_eq!(WriteFrame::decode(In::new(&head, &bulk)).unwrap(), frame);
    }
    let mut out = Out::default();
    let open = Open { session: 9, write_id: write_id(2), index: 1 };
    open.encode(&mut out);
    let (head, bulk) = parts(out);
    assert_eq!(Open::decode(In::new(&head, &bulk)).unwrap(), open);
    for content in [None, Some(content(9_999))] {
        let opened = Opened { len: 9_999, frame: 10_000, content };
        let mut out = Out::default();
        opened.encode(&mut out);
        let (head, bulk) = parts(out);
        assert_eq!(Opened::decode(&mut In::new(&head, &bulk)).unwrap(), opened);
    }
    for check in [Check::Drive, Check::Reader] {
        let read = ReadRun { session: 1, first: 2, count: 3, check };
        let mut out = Out::default();
        read.encode(&mut out);
        let (head, bulk) = parts(out);
        assert_eq!(ReadRun::decode(In::new(&head, &bulk)).unwrap(), read);
    }
    let frames: Frames = [content(5_000), content(3)].into_iter().collect();
    let mut out = Out::default();
    ReadRun::encode_frames(&mut out, &frames);
    let (head, bulk) = parts(out);
    assert_eq!(ReadRun::decode_frames(&mut In::new(&head, &bulk)).unwrap(), frames);
    let verify = Verify { session: 1, first: 2, hashes: vec![[3; 32], [4; 32]] };
    let mut out = Out::default();
    verify.encode(&mut out);
    let (head, bulk) = parts(out);
    assert_eq!(Verify::decode(In::new(&head, &bulk)).unwrap(), verify);
}

#[test]
fn bytes_that_claim_more_than_they_hold_are_refused() {
    let mut out = Out::to(DriveId([1; 16]));
    out.head.raw(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    let (head, bulk) = parts(out);
    for method in 0..100 {
        let mut message = In::new(&head, &bulk);
        message.drive().unwrap();
        let _ = decode_request(method, message).unwrap_err();
    }
    assert!(decode_heard(&Bytes::from_static(&[1, 0xff, 0xff, 0x7f]), &Bytes::new()).is_err());
}
