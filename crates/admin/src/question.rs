//! What nodes of a cluster ask each other for administration, as JSON.
//!
//! Invariants: only the questions of this list are answered; a question with an unknown name or field is refused by that
//! name. The permission of whoever wants the answer was checked by the node that asks.
//!
//! Must not depend on: how questions travel, how they are answered.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use ashlar_audit::{Filter, Position};

use super::followed::Followed;

/// Longest question in bytes: as much as a request of the administration API.
const LIMIT: usize = 64 * 1024;

/// A question.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Question {
    /// Process, drives, healing: answered by `api::state::NodeState`.
    State {},
    /// Totals of each operation: answered by `api::state::Top`.
    Top {},
    /// What the asked node measured: answered by a `history::NodeSteps`.
    History {
        /// When, and in what steps.
        span: Span,
    },
    /// The last lines of the log: answered by a list of `api::state::LogLine`.
    Logs {
        /// How many.
        last: usize,
        /// The rank of the least important level: see `monitor::LEVELS`.
        level: usize,
    },
    /// The audit record of a request: answered by an `api::state::RequestRecord`, or null.
    Why {
        /// The id of the request.
        request: String,
    },
    /// Records of the asked node: answered by `ashlar_audit::Hits`.
    Audit {
        /// Which.
        filter: Box<Filter>,
        /// Where an earlier search ended.
        from: Option<Position>,
        /// Most records.
        records: usize,
        /// Most bytes of records.
        bytes: usize,
    },
    /// Whom the asked node trusts: answered by `ashlar_node::authority::Standing`.
    Standing {},
    /// Takes a drive of the asked node out of service, puts it back, or replaces it: answered by null.
    Drive {
        /// What to do.
        order: DriveOrder,
        /// A path, an id, or the beginning of an id.
        drive: String,
    },
    /// What changed in the usage of buckets: answered by a `usage_board::UsageShare`.
    Usage {
        /// Since when: of parts, and of bases, on the clocks of the asked node.
        since: [u64; 2],
    },
    /// The part of the asked node in the usage of a bucket: answered by a `usage_board::PartNow`.
    UsagePart {
        /// The id of the bucket, in hexadecimal.
        bucket: String,
    },
    /// The next lines of what is followed: answered by a `followed::Turn`.
    Follow {
        /// A number that the asking node gave to this stream.
        id: u64,
        /// The number of the turn, from 0; the same again if its answer did not come.
        turn: u64,
        /// What is followed.
        what: Box<Followed>,
    },
    /// Ends the asked process: answered by null.
    End {
        /// Whether the same program starts again.
        restart: bool,
    },
}

/// A span of time in steps of equal length.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The beginning of the first step, in seconds since 1970.
    pub from_s: i64,
    /// The length of a step, in seconds.
    pub step_s: i64,
    /// How many steps.
    pub count: usize,
}

/// What to do with a drive.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum DriveOrder {
    /// Out of service.
    Offline,
    /// Back into service.
    Online,
    /// Replaced by the blank folder in its place.
    Replace,
}

impl Question {
    /// As bytes.
    pub fn encode(&self) -> Bytes {
        // It cannot fail: there are only names, numbers and texts.
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// From bytes.
    ///
    /// # Errors
    /// A message that names what is not understood.
    pub fn decode(bytes: &[u8]) -> Result<Question, String> {
        if bytes.len() > LIMIT {
            return Err(format!("the question has {} bytes, of {LIMIT} that it may have", bytes.len()));
        }
        serde_json::from_slice(bytes).map_err(|e| format!("the question is not understood: {e}"))
    }
}

/// Decodes any bytes: for the fuzzer.
pub fn fuzzed(bytes: &[u8]) {
    if let Ok(question) = Question::decode(bytes) {
        assert_eq!(Question::decode(&question.encode()).as_ref(), Ok(&question));
    }
}

/// Questions as they are sent: for the fuzzer.
pub fn fuzzed_seeds() -> Vec<Vec<u8>> {
    all().iter().map(|question| question.encode().to_vec()).collect()
}

/// One of each kind.
fn all() -> [Question; 15] {
    let follow = |what| Question::Follow { id: u64::MAX, turn: 3, what: Box::new(what) };
    [
        Question::State {},
        Question::Top {},
        Question::History { span: Span { from_s: 1_764_000_000, step_s: 10, count: 360 } },
        Question::Logs { last: 100, level: 2 },
        Question::Why { request: "0123456789abcdef".to_owned() },
        Question::Audit {
            filter: Box::new(Filter {
                bucket: "b".to_owned(),
                status: Some((400, 499)),
                ..Filter::default()
            }),
            from: Some(Position { line: 7, offset: 1 << 40 }),
            records: 100,
            bytes: 1 << 20,
        },
        Question::Standing {},
        Question::Drive { order: DriveOrder::Replace, drive: "/mnt/disk1".to_owned() },
        Question::Usage { since: [7, 0] },
        Question::UsagePart { bucket: "00".repeat(16) },
        follow(Followed::Trace { filter: Default::default(), minio: true }),
        follow(Followed::Logs { last: 100, level: 1 }),
        follow(Followed::MinioLogs { last: 10, kind: "ALL".to_owned() }),
        follow(Followed::Events {
            bucket: "b".to_owned(),
            prefix: "p/".to_owned(),
            suffix: String::new(),
            events: vec!["s3:ObjectCreated:*".to_owned()],
        }),
        Question::End { restart: true },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_back_as_they_were() {
        for question in all() {
            assert_eq!(Question::decode(&question.encode()), Ok(question));
        }
    }

    #[test]
    fn unknown_questions_and_fields_are_refused_by_name() {
        for (text, name) in [
            (r#"{"shutdown":{}}"#, "`shutdown`"),
            (r#"{"state":{"more":1}}"#, "`more`"),
            (r#"{"logs":{"last":1,"level":0,"follow":true}}"#, "`follow`"),
            (r#"{"logs":{"last":1}}"#, "`level`"),
            (r#"{"drive":{"order":"format","drive":"/d"}}"#, "`format`"),
            (r#"{"end":{"restart":true},"state":{}}"#, "line 1"),
            ("", "EOF"),
        ] {
            let refused = Question::decode(text.as_bytes()).unwrap_err();
            assert!(refused.contains(name), "{text}: {refused}");
        }
        let long = format!(r#"{{"why":{{"request":"{}"}}}}"#, "x".repeat(LIMIT));
        assert!(Question::decode(long.as_bytes()).unwrap_err().contains("may have"));
    }
}
