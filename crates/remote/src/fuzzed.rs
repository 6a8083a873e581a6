//! The decoders of messages for the fuzzer: what decodes must encode to the same bytes.
//!
//! Invariant: the program calls nothing here.
//!
//! Must not depend on: drives.

use ashlar_drive::{Answer, Fold, Prepared, Range, ReadWithShard, Request, WantedShards};
use ashlar_format::{Ballot, BucketId, DriveId, GroupId, RegisterKey, Space, WriteId};
use bytes::{Bytes, BytesMut};

use crate::transport::method;
use crate::wire::{self, HintMany, In, Open, Out, PrepareMany, ReadMany, ReadRun, Verify, WriteFrame};

/// A message: its method (2 bytes), the length of its head (2 bytes), its head, its payload. Method 200 is a reply, 201 a
/// list of drives, 202 to 204 are the answers of several drives.
pub fn message(input: &[u8]) {
    let Some((fixed, rest)) = input.split_at_checked(4) else { return };
    let method = u16::from_le_bytes([fixed[0], fixed[1]]);
    let len = usize::from(u16::from_le_bytes([fixed[2], fixed[3]]));
    let Some((head, bulk)) = rest.split_at_checked(len) else { return };
    let (head, bulk) = (Bytes::copy_from_slice(head), Bytes::copy_from_slice(bulk));
    let Some(again) = again(method, &head, &bulk) else { return };
    assert_eq!((&parts(again)), &(head, bulk), "a message with two encodings");
}

/// What was decoded, encoded again.
fn again(method: u16, head: &Bytes, bulk: &Bytes) -> Option<Out> {
    match method {
        200 => {
            let reply = wire::decode_reply(head, bulk, wire::decode_answer).ok()?;
            // Reasons that are not known become general ones.
            let texts = matches!(
                reply.result,
                Err(ashlar_drive::Error::Offline(_) | ashlar_drive::Error::Malformed(_))
            );
            return (!texts).then(|| wire::encode_reply(&reply, wire::encode_answer));
        }
        201 => return Some(wire::encode_heard(&wire::decode_heard(head, bulk).ok()?)),
        202 => return Some(wire::encode_reads(&wire::decode_reads(In::new(head, bulk)).ok()?)),
        204 => {
            let answers = wire::decode_reads_with_shards(In::new(head, bulk)).ok()?;
            return Some(wire::encode_reads_with_shards(&answers));
        }
        method::READ_MANY | method::READ_WITH_SHARDS => {
            return Some(ReadMany::decode(method, In::new(head, bulk)).ok()?.encode());
        }
        method::PREPARE_MANY => return Some(PrepareMany::decode(In::new(head, bulk)).ok()?.encode()),
        method::HINT_MANY => return Some(HintMany::decode(In::new(head, bulk)).ok()?.encode()),
        203 => {
            // A promise without its record has another form.
            drop(wire::decode_promises(In::new(head, bulk)));
            return None;
        }
        _ => {}
    }
    let mut message = In::new(head, bulk);
    let mut out = Out::to(message.drive().ok()?);
    match method {
        method::WRITE_FRAME => WriteFrame::decode(message).ok()?.encode(&mut out),
        method::OPEN => Open::decode(message).ok()?.encode(&mut out),
        method::READ_RUN => ReadRun::decode(message).ok()?.encode(&mut out),
        method::VERIFY => Verify::decode(message).ok()?.encode(&mut out),
        _ => wire::encode_request(&mut out, &wire::decode_request(method, message).ok()?),
    }
    Some(out)
}

fn parts(out: Out) -> (Bytes, Bytes) {
    let mut bulk = BytesMut::new();
    out.bulk.iter().for_each(|part| bulk.extend_from_slice(part));
    (out.head.into_vec().into(), bulk.freeze())
}

/// Messages.
#[must_use]
pub fn messages() -> Vec<Vec<u8>> {
    let group = GroupId::new(0, 3);
    let requests = [
        Request::FenceEpoch { group, epoch: 3 },
        Request::Join { groups: vec![(group, 1)] },
        Request::Discard { group, epoch: 1, shards: vec![(WriteId([1; 16]), 2)] },
        Request::Shards { after: Some((WriteId([1; 16]), 2)), limit: 10 },
        Request::Fences,
        Request::ScanMany {
            ranges: vec![Range { from: vec![1], to: vec![2], epoch: 3 }],
            fold: Some(Fold { prefix: 1, delimiter: b"/".to_vec() }),
            limit: 10,
        },
    ];
    let mut seeds: Vec<Vec<u8>> = requests
        .iter()
        .map(|request| {
            let mut out = Out::to(DriveId([4; 16]));
            wire::encode_request(&mut out, request);
            seed(wire::method(request), out)
        })
        .collect();
    let mut out = Out::to(DriveId([4; 16]));
    let frame = Bytes::from(vec![5; wire::INLINE + 1]);
    WriteFrame { session: 1, begin: None, number: 2, hash: [3; 32], frame, last: true }.encode(&mut out);
    seeds.push(seed(method::WRITE_FRAME, out));
    let refused = wire::Reply { status: None, result: Ok(Answer::Refused(Ballot::ZERO)) };
    seeds.push(seed(200, wire::encode_reply(&refused, wire::encode_answer)));
    seeds.push(seed(201, wire::encode_heard(&[])));
    let (drives, ballot, epoch) = (vec![DriveId([4; 16]), DriveId([5; 16])], Ballot::fence(3), 3);
    let key = RegisterKey::new(group, Space::Object, BucketId([1; 16]), b"key");
    let mut read = ReadMany { drives: drives.clone(), key: key.clone(), known: ballot, epoch, shards: None };
    seeds.push(seed(read.method(), read.encode()));
    read.shards = Some(WantedShards { write_id: WriteId([2; 16]), of: vec![None, Some(3)] });
    seeds.push(seed(read.method(), read.encode()));
    let known = Some((ballot, 7));
    let prepare = PrepareMany { drives: drives.clone(), key: key.clone(), ballot, known };
    seeds.push(seed(method::PREPARE_MANY, prepare.encode()));
    seeds.push(seed(method::HINT_MANY, HintMany { drives, key, ballot, epoch }.encode()));
    let reply = ashlar_drive::ReadReply { voter: true, accepted: None, horizon: ballot };
    seeds.push(seed(202, wire::encode_reads(&[Some(reply.clone()), None])));
    let shard = Some(Bytes::from_static(b"shard"));
    let answers = [Some(ReadWithShard { reply, shard }), None];
    seeds.push(seed(204, wire::encode_reads_with_shards(&answers)));
    let answers = [Ok(Prepared::NotVoter), Err(ashlar_drive::Error::Unanswered)];
    seeds.push(seed(203, wire::encode_promises(&answers, 100)));
    seeds
}

fn seed(method: u16, out: Out) -> Vec<u8> {
    let (head, bulk) = parts(out);
    let mut seed = method.to_le_bytes().to_vec();
    seed.extend_from_slice(&(head.len() as u16).to_le_bytes());
    seed.extend_from_slice(&head);
    seed.extend_from_slice(&bulk);
    seed
}
