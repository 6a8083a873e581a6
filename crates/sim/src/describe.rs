//! One line about a request and its answer, for the trace of a replayed run.
//!
//! Must not depend on: who sends requests, how they fare.

use ashlar_drive::{Answer, Prepared, Request};
use ashlar_format::{Body, Record, WriteId};

fn write(id: &WriteId) -> String {
    id.to_hex()[..12].to_owned()
}

fn data(record: &[u8]) -> String {
    let Ok(record) = Record::decode(record) else { return "?".to_owned() };
    let parts: Vec<String> = record.data().map(|p| write(&p.data.write_id)).collect();
    let kind = match record.body {
        Body::Tombstone => "tombstone",
        Body::Versions(_) => "versions",
        Body::Paged(_) => "versions with pages",
        Body::Upload(_) => "upload",
        Body::Part(_) => "part",
        Body::HeldKey(_) => "held",
    };
    format!("{kind} [{}]", parts.join(" "))
}

/// What a request asks.
#[must_use]
pub fn request(of: &Request) -> String {
    match of {
        Request::Prepare { key, ballot } => format!("prepare {key:?} {ballot:?}"),
        Request::Accept { accept: a, .. } => {
            format!("accept {:?} {:?} e{} {}", a.key, a.ballot, a.epoch, data(&a.record))
        }
        Request::Copy { accept: a, hint } => {
            format!("copy {:?} {:?} e{} hint {hint} {}", a.key, a.ballot, a.epoch, data(&a.record))
        }
        Request::Stage(s) => {
            format!("stage {} {} of {:?} {:?} e{}", write(&s.write_id), s.index, s.owner, s.ballot, s.epoch)
        }
        Request::Confirm { write_id, index, ballot, epoch } => {
            format!("confirm {} {index} {ballot:?} e{epoch}", write(write_id))
        }
        Request::Read { key, epoch, .. } => format!("read {key:?} e{epoch}"),
        Request::VerifyRegister { key } => format!("verify register {key:?}"),
        Request::VerifyShard { write_id, index } => format!("verify shard {} {index}", write(write_id)),
        Request::DropOrphan { write_id, index, collector, epoch } => {
            format!("drop orphan {} {index} {collector:?} e{epoch}", write(write_id))
        }
        Request::Hint { key, ballot, epoch } => format!("hint {key:?} {ballot:?} e{epoch}"),
        Request::Purge { key, ballot, epoch } => format!("purge {key:?} {ballot:?} e{epoch}"),
        Request::Discard { group, epoch, shards } => {
            let shards: Vec<_> = shards.iter().map(|(id, index)| format!("{} {index}", write(id))).collect();
            format!("discard in {group} e{epoch}: {}", shards.join(", "))
        }
        Request::FenceEpoch { group, epoch } => format!("fence epoch {group} e{epoch}"),
        Request::Joined { group, epoch } => format!("joined {group} e{epoch}"),
        other => other.name().to_owned(),
    }
}

/// What a drive answered, as far as it is not clear from the request.
#[must_use]
pub fn answer(of: &Answer) -> String {
    match of {
        Answer::Done => "done".to_owned(),
        Answer::Read(r) => match &r.accepted {
            None => format!("no record, horizon {:?}, voter {}", r.horizon, r.voter),
            Some(seen) => format!("{:?}, hint {}, voter {}", seen.ballot, seen.hint, r.voter),
        },
        Answer::Prepared(Prepared::Promised { accepted, horizon, .. }) => match accepted {
            None => format!("promised, no record, horizon {horizon:?}"),
            Some(a) => format!("promised, {:?} {}", a.ballot, data(&a.record)),
        },
        Answer::Prepared(_) | Answer::Refused(_) | Answer::Dropped(_) => format!("{of:?}"),
        Answer::Uncounted => "done, not counted".to_owned(),
        Answer::Entries(e) => format!("{} entries", e.len()),
        Answer::Shards(s) => {
            let s: Vec<_> = s.iter().map(|s| format!("{} {}", write(&s.write_id), s.index)).collect();
            s.join(", ")
        }
        _ => "answered".to_owned(),
    }
}
