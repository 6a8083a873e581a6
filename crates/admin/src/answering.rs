//! Answers what other nodes of the cluster ask: see `question`.
//!
//! Invariant: the permission was checked by the node that asks; this one logs who that is when something changes.
//!
//! Must not depend on: how questions travel.

use std::sync::{Arc, Weak};

use ashlar_format::BucketId;
use ashlar_node::questions::{Answers, LONGEST};
use bytes::Bytes;
use futures::future::BoxFuture;
use serde::Serialize;

use super::admin::{Admin, Shutdown};
use super::api::state::LogLine;
use super::monitor::LogFilter;
use super::question::Question;
use super::{audit_search, drive_orders, history};

/// What answers. It does not keep the server alive.
pub struct NodeAnswers(Weak<Admin>);

impl NodeAnswers {
    /// Answers with what `admin` knows.
    pub fn new(admin: &Arc<Admin>) -> NodeAnswers {
        NodeAnswers(Arc::downgrade(admin))
    }
}

impl Answers for NodeAnswers {
    fn answer(&self, from: u16, question: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        let admin = self.0.upgrade();
        Box::pin(async move {
            let admin = admin.ok_or("the server is ending")?;
            answer(&admin, from, Question::decode(&question)?).await
        })
    }
}

async fn answer(admin: &Admin, from: u16, question: Question) -> Result<Bytes, String> {
    match question {
        Question::State {} => json(&admin.own_state()),
        Question::Top {} => json(&admin.own_top()),
        Question::History { span } => {
            if span.step_s <= 0
                || span.step_s > 86_400
                || span.from_s < 0
                || span.from_s > i64::from(u32::MAX)
            {
                return Err("the span of the history is not understood".to_owned());
            }
            json(&history::own_steps(admin.recorder(), span))
        }
        Question::Logs { last, level } => {
            let lines = LogFilter { last, level, follow: false }.lines();
            Ok(newest(&lines, LONGEST))
        }
        Question::Why { request } => json(&admin.own_record(&request).await),
        Question::Audit { filter, from, records, bytes } => {
            json(&audit_search::own(admin.service().audit(), *filter, from, (records, bytes)).await?)
        }
        Question::Standing {} => json(&admin.node().member.as_ref().map(|member| member.standing())),
        Question::Usage { since } => json(&admin.usage().share(since)),
        Question::UsagePart { bucket } => {
            let bucket = BucketId::from_hex(&bucket).ok_or("the id of the bucket is not understood")?;
            json(&admin.usage().part(bucket))
        }
        Question::Follow { id, turn, what } => json(&admin.followed((from, id), turn, *what)?),
        Question::Drive { order, drive } => {
            tracing::info!(target: "ashlar::admin", from, ?order, drive, "an order of another node about a drive");
            drive_orders::carry_out(admin.node(), order, &drive).await?;
            json(&())
        }
        Question::End { restart } => {
            tracing::warn!(target: "ashlar::admin", from, restart, "stopping at the request of an administrator, at another node");
            admin.end(if restart { Shutdown::Restart } else { Shutdown::Stop });
            json(&())
        }
    }
}

fn json(answer: &impl Serialize) -> Result<Bytes, String> {
    serde_json::to_vec(answer).map(Bytes::from).map_err(|e| e.to_string())
}

/// A list of the newest lines that fit in so many bytes, oldest first.
fn newest(lines: &[LogLine], limit: usize) -> Bytes {
    let texts = lines.iter().rev().filter_map(|line| serde_json::to_string(line).ok());
    let mut len = 2;
    let fits = |text: &String| {
        len += text.len() + 1;
        len <= limit
    };
    let mut texts: Vec<String> = texts.take_while(fits).collect();
    texts.reverse();
    format!("[{}]", texts.join(",")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_answered_by_its_newest_lines_in_order() {
        let line = |n: usize| LogLine {
            node: None,
            time_ms: n as i64,
            level: "info".into(),
            target: "t".into(),
            message: "\u{1}\"x".repeat(n),
        };
        let lines: Vec<_> = (0..50).map(line).collect();
        for limit in [2, 100, 1000, 10_000, 1 << 20] {
            let bytes = newest(&lines, limit);
            assert!(bytes.len() <= limit, "{limit}: {}", bytes.len());
            let read: Vec<LogLine> = serde_json::from_slice(&bytes).unwrap();
            let times: Vec<_> = read.iter().map(|l| l.time_ms as usize).collect();
            assert_eq!(times, (50 - read.len()..50).collect::<Vec<_>>());
        }
        assert_eq!(newest(&lines, 1 << 20).first(), Some(&b'['));
        let all: Vec<LogLine> = serde_json::from_slice(&newest(&lines, 1 << 20)).unwrap();
        assert_eq!(all.len(), 50);
    }
}
