//! Search of the audit records of all nodes: `GET audit`.
//!
//! Each node searches its own records, newest first, as far as the time for one request allows, and says how far it came.
//! The node that was asked merges them: a record is given out only when no node can have a later one that it has not
//! found yet. The cursor has the place of each node from which the next page goes on.
//!
//! Order: by the time at which a request ended, the latest first; records of one node stay in the order of its log, which may
//! differ by the time that requests waited for the log.
//!
//! Invariants: over all pages, each record of a node that answers is given out once; the work of a request is bounded on
//! every node; a node that does not answer is named, and keeps its place in the cursor.
//!
//! Must not depend on: where records are stored, who may search.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_audit::{
    Audit, Bounds, Filter, Found, Hits, Position, moment_text, parse_moment, parse_network, parse_status,
};
use ashlar_node::Node;
use ashlar_node::questions::NoAnswer;
use ashlar_s3::target::Query;
use futures::future::join_all;

use super::admin_request::{Refusal, bad_request};
use super::api::audit::{AuditRecords, SearchedNode};
use super::everywhere::why;
use super::question::Question;

/// How long a node searches for one request, and how long others may take to answer. A long answer is asked for twice.
const WORK: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes that a node reads for one request.
const READ: u64 = 512 << 20;
/// Most bytes of records that one node answers, and all nodes together; but each may answer [`LEAST`].
const ANSWER: usize = 2 << 20;
const ANSWERS: usize = 16 << 20;
const LEAST: usize = 32 << 10;
/// Most records of a page, and how many there are if the request does not say.
const MOST: usize = 1000;
const DEFAULT: usize = 100;

/// Names of the query.
const NAMES: [&str; 14] = [
    "since",
    "until",
    "user",
    "access_key",
    "bucket",
    "prefix",
    "operation",
    "api",
    "status",
    "error",
    "source",
    "request_id",
    "limit",
    "cursor",
];

/// A search as a client asks for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Search {
    pub filter: Filter,
    pub limit: usize,
    /// From where each node goes on; a node that is not in it begins at its newest record.
    pub cursor: BTreeMap<u16, Position>,
}

impl Search {
    /// The search of a query.
    ///
    /// # Errors
    /// 400, which names what is not understood.
    pub fn of(query: &Query) -> Result<Search, Refusal> {
        if let Some((name, _)) = query.iter().find(|(name, _)| !NAMES.contains(name)) {
            return Err(bad_request(format!("{name} is no condition of a search: {}", NAMES.join(", "))));
        }
        let text = |name: &str| query.filled(name).unwrap_or_default().to_owned();
        let time = |name: &str| {
            let bad = |text: &str| format!("{name}={text}: a time such as 2026-11-24T10:00:00Z, or a date");
            read(query, name, parse_moment, bad)
        };
        let filter = Filter {
            since_ms: time("since")?,
            until_ms: time("until")?,
            user: text("user"),
            access_key: text("access_key"),
            bucket: text("bucket"),
            prefix: text("prefix"),
            operation: text("operation"),
            api: text("api"),
            status: read(query, "status", parse_status, |text| {
                format!(
                    "status={text}: a status such as 403, a class such as 4xx, or a range such as 400-499"
                )
            })?,
            error: text("error"),
            source: read(query, "source", parse_network, |text| {
                format!("source={text}: an address, or a network such as 10.0.0.0/8")
            })?,
            request_id: text("request_id"),
        };
        let limit = |text: &str| text.parse().ok().filter(|n| (1..=MOST).contains(n));
        let limit = read(query, "limit", limit, |text| format!("limit={text}: a number from 1 to {MOST}"))?;
        let cursor = read(query, "cursor", decode, |_| "the cursor is not one of this server".to_owned())?;
        Ok(Search { filter, limit: limit.unwrap_or(DEFAULT), cursor: cursor.unwrap_or_default() })
    }
}

/// A value of the query, if it is there.
fn read<T>(
    query: &Query,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
    bad: impl Fn(&str) -> String,
) -> Result<Option<T>, Refusal> {
    let Some(text) = query.filled(name) else { return Ok(None) };
    parse(text).map(Some).ok_or_else(|| bad_request(bad(text)))
}

/// `NODE.LINE.OFFSET`, joined by `_`.
fn encode(cursor: &BTreeMap<u16, Position>) -> String {
    let one = |(node, at): (&u16, &Position)| format!("{node}.{}.{}", at.line, at.offset);
    cursor.iter().map(one).collect::<Vec<_>>().join("_")
}

fn decode(text: &str) -> Option<BTreeMap<u16, Position>> {
    let one = |part: &str| {
        let mut numbers = part.splitn(3, '.');
        let node = numbers.next()?.parse().ok()?;
        let line = numbers.next()?.parse().ok()?;
        Some((node, Position { line, offset: numbers.next()?.parse().ok()? }))
    };
    text.split('_').map(one).collect()
}

/// Searches the records of this process.
///
/// # Errors
/// A message for the operator.
pub async fn own(
    audit: &Audit,
    filter: Filter,
    from: Option<Position>,
    (records, bytes): (usize, usize),
) -> Result<Hits, String> {
    let (records, bytes) = (records.min(MOST), bytes.min(ANSWER));
    let bounds = Bounds { records, bytes, read: READ, time: WORK };
    audit.search(filter, from, bounds).await.map_err(|e| e.to_string())
}

/// Searches the records of all nodes.
pub async fn everywhere(node: &Node, audit: &Audit, search: &Search) -> AuditRecords {
    let Search { filter, limit, cursor } = search;
    let me = node.number();
    let all = node.nodes();
    let bytes = (ANSWERS / all.len().max(1)).clamp(LEAST, ANSWER);
    let others = all.into_iter().map(|(number, _)| number).filter(|number| *number != me);
    // What is not in the cursor was not searched yet.
    let open = |number: &u16| cursor.get(number) != Some(&Position::END);
    let asked = others.filter(open).map(|number| async move {
        let from = cursor.get(&number).copied();
        let question = Question::Audit { filter: Box::new(filter.clone()), from, records: *limit, bytes };
        let answer = node.ask(number, question.encode(), PATIENCE).await;
        let read = answer.and_then(|bytes| {
            let bad = |e| NoAnswer::Refused(format!("its answer is not understood: {e}"));
            serde_json::from_slice::<Hits>(&bytes).map_err(bad)
        });
        (number, read.map_err(|no| why(number, &no)))
    });
    let here = async {
        match open(&me) {
            true => Some((me, own(audit, filter.clone(), cursor.get(&me).copied(), (*limit, bytes)).await)),
            false => None,
        }
    };
    let (here, others) = futures::join!(here, join_all(asked));
    merge(node.member.is_some(), cursor.clone(), here.into_iter().chain(others).collect(), *limit)
}

/// What a node found, of which the first `given` were given out.
struct Part {
    node: u16,
    hits: Hits,
    given: usize,
}

impl Part {
    fn head(&self) -> Option<&Found> {
        self.hits.found.get(self.given)
    }

    /// Until when it may still have records that were not found: none if all were.
    fn open_until(&self) -> Option<i64> {
        (self.hits.next != Position::END).then(|| self.hits.reached_ms.unwrap_or(i64::MAX))
    }

    /// Where the next page goes on.
    fn position(&self) -> Position {
        match (self.head(), self.given.checked_sub(1).and_then(|i| self.hits.found.get(i))) {
            (None, _) => self.hits.next,
            (Some(_), Some(last)) => last.at,
            // Nothing of it was given out: it searches again, from its first record.
            (Some(first), None) => Position { line: first.at.line.saturating_add(1), offset: first.end },
        }
    }
}

/// The answers of the nodes as one page. `cluster`: records say which node they are from.
fn merge(
    cluster: bool,
    mut cursor: BTreeMap<u16, Position>,
    answers: Vec<(u16, Result<Hits, String>)>,
    limit: usize,
) -> AuditRecords {
    let (mut parts, mut nodes, mut silent) = (Vec::new(), Vec::new(), false);
    for (node, answer) in answers {
        let (refusals_only, problem) = match answer {
            Ok(hits) => {
                let refusals_only = hits.refusals_only;
                parts.push(Part { node, hits, given: 0 });
                (Some(refusals_only), None)
            }
            Err(why) => {
                silent = true;
                (None, Some(why))
            }
        };
        nodes.push(SearchedNode { node, refusals_only, problem });
    }
    nodes.sort_by_key(|n| n.node);
    parts.sort_by_key(|p| p.node);
    let (mut records, mut searched_to) = (Vec::new(), None);
    while records.len() < limit {
        // A node whose records were all given out, and which has not looked at all, may have some that ended before this.
        let open = parts.iter().filter(|p| p.head().is_none()).filter_map(Part::open_until).max();
        let latest = parts.iter_mut().filter(|p| p.head().is_some());
        // The first node of those with the same time.
        let latest = latest.rev().max_by_key(|p| p.head().map(|f| f.ended_ms));
        let Some(part) = latest else {
            searched_to = open;
            break;
        };
        let Some(found) = part.hits.found.get(part.given) else { break };
        if let Some(open) = open.filter(|open| *open >= found.ended_ms) {
            searched_to = Some(open);
            break;
        }
        searched_to = Some(found.ended_ms);
        if let Ok(mut record) =
            serde_json::from_value::<super::api::state::RequestRecord>(found.record.clone())
        {
            record.node = cluster.then_some(part.node);
            records.push(record);
        }
        part.given += 1;
    }
    for part in &parts {
        cursor.insert(part.node, part.position());
    }
    let complete = parts.iter().all(|p| p.position() == Position::END);
    AuditRecords {
        records,
        cursor: (!complete || silent).then(|| encode(&cursor)),
        complete,
        searched_to: searched_to.filter(|to| !complete && *to != i64::MAX).map(moment_text),
        nodes,
    }
}

#[cfg(test)]
#[path = "audit_search_tests.rs"]
mod tests;
