//! Mutants of the messages: what a coordinator or a drive with a defect would make of an answer.
//!
//! Must not depend on: how messages travel.

use ashlar_drive::{Answer, ReadReply, ReadWithShard, Request};
use ashlar_format::Ballot;
use ashlar_remote::wire::{self, In, Out, Reply};
use ashlar_remote::{Delivered, method};
use bytes::Bytes;

use crate::network::delivered;
use crate::plan::Mutant;

/// The number of [`ashlar_drive::Request::Stage`].
const STAGE: u16 = 4;
/// Bytes of the id of the drive, with which the head of a request begins.
const DRIVE: usize = 16;
/// The bucket of registers of the server itself.
const OWN: &[u8] = b"ashlar:own-keys!";

/// What a coordinator with the defect makes of an answer.
pub fn answer(mutant: Option<Mutant>, of: u16, answer: Delivered) -> Delivered {
    if mutant != Some(Mutant::RefusedCounts) || !matches!(of, method::ACCEPT | method::COPY) {
        return answer;
    }
    let Ok(reply) = wire::decode_reply(&answer.head, &answer.bulk, wire::decode_answer) else {
        return answer;
    };
    match reply.result.as_ref().ok().and_then(accepted) {
        Some(other) => {
            let reply = Reply { status: reply.status, result: Ok(other) };
            delivered(wire::encode_reply(&reply, wire::encode_answer))
        }
        None => answer,
    }
}

fn accepted(answer: &Answer) -> Option<Answer> {
    matches!(answer, Answer::Refused(_)).then_some(Answer::Done)
}

/// The answer of a drive with the defect that does nothing. `node`: who asks; `head`: the first part of the message.
pub fn idle(mutant: Option<Mutant>, of: u16, node: u16, head: &[u8]) -> Option<Delivered> {
    let idle = match mutant {
        Some(Mutant::ShardsNotStored) => of == STAGE,
        Some(Mutant::FeedNotStored) => node == 1 && of == method::ACCEPT && is_own(head),
        _ => false,
    };
    idle.then(|| encoded(Answer::Done))
}

/// What a drive with the defect makes of the head of a request.
pub fn request(mutant: Option<Mutant>, of: u16, head: Bytes, bulk: &Bytes) -> Bytes {
    if mutant != Some(Mutant::NonVotersList) || head.len() < DRIVE {
        return head;
    }
    let rest = head.slice(DRIVE..);
    let Ok(mut request) = wire::decode_request(of, In::new(&rest, bulk)) else { return head };
    match &mut request {
        Request::Scan { epoch, .. } | Request::RangeDigest { epoch, .. } => *epoch = u32::MAX,
        Request::ScanMany { ranges, .. } | Request::Digests { ranges, .. } => {
            ranges.iter_mut().for_each(|range| range.epoch = u32::MAX);
        }
        _ => return head,
    }
    let mut out = Out::default();
    out.head.raw(&head[..DRIVE]);
    wire::encode_request(&mut out, &request);
    out.head.into_vec().into()
}

/// Whether a message is about a register of the server itself: feeds are kept there.
fn is_own(head: &[u8]) -> bool {
    head.windows(OWN.len()).any(|part| part == OWN)
}

fn encoded(answer: Answer) -> Delivered {
    delivered(wire::encode_reply(&Reply { status: None, result: Ok(answer) }, wire::encode_answer))
}

/// What a coordinator with the defect makes of a message that was lost.
pub fn silence(mutant: Option<Mutant>, of: u16) -> Option<Delivered> {
    let absent = ReadReply { voter: true, accepted: None, horizon: Ballot::ZERO };
    if mutant == Some(Mutant::SilenceIsAbsence) && of == method::READ_WITH_SHARDS {
        let answer = ReadWithShard { reply: absent, shard: None };
        return Some(delivered(wire::encode_reads_with_shards(&[Some(answer)])));
    }
    let answer = match (mutant, of) {
        (Some(Mutant::UnansweredCounts), method::ACCEPT | STAGE) => Answer::Done,
        (Some(Mutant::SilenceIsAbsence), method::READ) => Answer::Read(absent),
        _ => return None,
    };
    Some(encoded(answer))
}
