//! Mutants of the messages: what a coordinator or a drive with a defect would make of an answer.
//!
//! Must not depend on: how messages travel.

use ashlar_commit::bucket_fence::Deletion;
use ashlar_drive::{Answer, Prepared, ReadReply};
use ashlar_format::Ballot;
use ashlar_remote::wire::{self, Reply};
use ashlar_remote::{Delivered, Failure, method};

use crate::network::delivered;
use crate::plan::Mutant;

/// The number of [`ashlar_drive::Request::Prepare`], and that of [`ashlar_drive::Request::Stage`].
const PREPARE: u16 = 1;
const STAGE: u16 = 4;

/// What a coordinator with the defect makes of an answer.
pub fn answer(mutant: Option<Mutant>, of: u16, answer: Delivered) -> Delivered {
    let changed: fn(&Answer) -> Option<Answer> = match (mutant, of) {
        (Some(Mutant::RefusedCounts), method::ACCEPT | method::COPY) => accepted,
        (Some(Mutant::JoiningVotes), PREPARE | method::READ | method::ACCEPT | method::COPY) => voted,
        _ => return answer,
    };
    let Ok(reply) = wire::decode_reply(&answer.head, &answer.bulk, wire::decode_answer) else {
        return answer;
    };
    match reply.result.as_ref().ok().and_then(changed) {
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

fn voted(answer: &Answer) -> Option<Answer> {
    match answer {
        Answer::Prepared(Prepared::NotVoter) => Some(Answer::Prepared(Prepared::Promised {
            accepted: None,
            horizon: Ballot::ZERO,
            purged: Ballot::ZERO,
            fence: Deletion::NONE,
        })),
        Answer::Uncounted => Some(Answer::Done),
        Answer::Read(reply) if !reply.voter => Some(Answer::Read(ReadReply { voter: true, ..reply.clone() })),
        _ => None,
    }
}

/// The answer of a drive with the defect that does nothing.
pub fn idle(mutant: Option<Mutant>, of: u16) -> Option<Delivered> {
    let idle = mutant == Some(Mutant::ShardsNotStored) && of == STAGE;
    idle.then(|| encoded(Answer::Done))
}

fn encoded(answer: Answer) -> Delivered {
    delivered(wire::encode_reply(&Reply { status: None, result: Ok(answer) }, wire::encode_answer))
}

/// What a coordinator with the defect makes of it that no answer came.
pub fn silence(mutant: Option<Mutant>, of: u16) -> Result<Delivered, Failure> {
    let answer = match (mutant, of) {
        (Some(Mutant::UnansweredCounts), method::ACCEPT | STAGE) => Answer::Done,
        (Some(Mutant::SilenceIsAbsence), method::READ) => {
            Answer::Read(ReadReply { voter: true, accepted: None, horizon: Ballot::ZERO })
        }
        _ => return Err(Failure::Unanswered),
    };
    Ok(encoded(answer))
}
