//! `ashlar admin audit search`: records of the audit logs of all nodes, newest first.
//!
//! Invariant: with `--json` each record is a line as the server answered it. Must not depend on: where records are stored.

use ashlar_audit::{moment_text, parse_moment};
use ashlar_client::Method;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::admin_request::{ask_with, understand};
use super::context::Context;
use super::failure::{Failure, Kind, Outcome};

/// What `--help` adds.
pub const HELP: &str = "\
A record has to meet all conditions. The records of all nodes of a cluster are searched; a node that does not answer is named, \
and the exit code is 6 then. Without an audit file (`ashlar server --audit-file`), a server keeps only its last refusals.

Examples:
  ashlar admin audit search it --since 1h --status 4xx
  ashlar admin audit search it --bucket photos --prefix 2026/ --operation DeleteObject
  ashlar admin audit search it --user alice --since 2026-11-01 --until 2026-11-08 --limit 0
  ashlar --json admin audit search it --source 10.0.0.0/8 --error AccessDenied";

/// Most records of one request.
const PAGE: u64 = 1000;

/// A search.
#[derive(Args, Debug)]
pub struct SearchOptions {
    /// The server's alias
    alias: String,
    /// Requests that came at this time or later: a time, a date (UTC), or how long ago (90m, 24h, 30d)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Requests that came before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Requests of this user, also with access keys and sessions of theirs
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Requests signed with this access key
    #[arg(long, value_name = "KEY")]
    access_key: Option<String>,
    /// Requests about this bucket
    #[arg(long)]
    bucket: Option<String>,
    /// Requests about keys, or names, that begin with this
    #[arg(long)]
    prefix: Option<String>,
    /// Requests for this operation, such as GetObject
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Requests to this API: s3, sts or admin
    #[arg(long)]
    api: Option<String>,
    /// A status such as 403, a class such as 4xx, or a range such as 400-499
    #[arg(long)]
    status: Option<String>,
    /// Answers with this error code
    #[arg(long, value_name = "CODE")]
    error: Option<String>,
    /// The client's address, or a network such as 10.0.0.0/8
    #[arg(long, value_name = "ADDRESS")]
    source: Option<String>,
    /// The request with this id
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Most records; 0: all
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: u64,
}

#[derive(Deserialize)]
struct Page {
    records: Vec<Value>,
    cursor: Option<String>,
    complete: bool,
    searched_to: Option<String>,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    node: u16,
    refusals_only: Option<bool>,
    problem: Option<String>,
}

/// A point in time as the server takes it.
fn moment(option: &str, text: Option<&String>, now_ms: i64) -> Outcome<Option<String>> {
    let Some(text) = text else { return Ok(None) };
    let ago = || Some(now_ms.saturating_sub(super::iam::span_ms(text)?));
    let at = parse_moment(text).or_else(ago).ok_or_else(|| {
        Failure::usage(format!(
            "{option} {text}: a time (2026-11-24T10:00:00Z), a date, or how long ago (90m, 24h, 30d)"
        ))
    })?;
    Ok(Some(moment_text(at)))
}

/// Prints the records that a search finds.
pub async fn search(options: &SearchOptions, context: &Context) -> Outcome {
    let now = ashlar_environment::time::wall_ms();
    let since = moment("--since", options.since.as_ref(), now)?;
    let until = moment("--until", options.until.as_ref(), now)?;
    let conditions = [
        ("since", &since),
        ("until", &until),
        ("user", &options.user),
        ("access_key", &options.access_key),
        ("bucket", &options.bucket),
        ("prefix", &options.prefix),
        ("operation", &options.operation),
        ("api", &options.api),
        ("status", &options.status),
        ("error", &options.error),
        ("source", &options.source),
        ("request_id", &options.request_id),
    ];
    let conditions = conditions.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let conditions: Vec<(&str, &str)> = conditions.collect();
    let (mut left, mut cursor) = (if options.limit == 0 { u64::MAX } else { options.limit }, String::new());
    let mut count = 0;
    loop {
        let limit = left.min(PAGE).to_string();
        let query = [&conditions[..], &[("limit", &limit), ("cursor", &cursor)]].concat();
        let answer = ask_with(context, &options.alias, Method::GET, "audit", &query, None).await?;
        let page: Page = understand(&answer)?;
        for record in &page.records {
            context.output.result(|| record.clone(), || line(record));
        }
        context.output.flush();
        let found = page.records.len() as u64;
        (count, left) = (count + found, left.saturating_sub(found));
        if left == 0 || page.complete || page.cursor.is_none() {
            return end(&page, left == 0, count, context);
        }
        if let (0, Some(to)) = (found, &page.searched_to) {
            context.output.note(&format!("searched back to {to} ..."));
        }
        cursor = page.cursor.unwrap_or_default();
    }
}

/// Says what the search has not covered.
fn end(page: &Page, cut: bool, count: u64, context: &Context) -> Outcome {
    let name = |n: &&Node| if n.node == 0 { "this server".to_owned() } else { format!("node {}", n.node) };
    let short: Vec<String> =
        page.nodes.iter().filter(|n| n.refusals_only == Some(true)).map(|n| name(&n)).collect();
    if !short.is_empty() {
        let note = "without an audit file (--audit-file) only the last refusals are kept";
        context.output.note(&format!("{}: {note}", short.join(", ")));
    }
    if cut && !page.complete {
        context.output.note("There may be more records: see --limit.");
    }
    if count == 0 && page.complete {
        context.output.note("No record meets the conditions.");
    }
    let silent: Vec<String> = page.nodes.iter().filter_map(|n| n.problem.clone()).collect();
    if silent.is_empty() {
        return Ok(());
    }
    Err(Failure {
        what: "not all records were searched".to_owned(),
        ..Failure::new(Kind::Partly, silent.join("; "))
    })
}

/// A record as a line.
fn line(record: &Value) -> String {
    let of = |name: &str| record[name].as_str().unwrap_or_default();
    let node = record["node"].as_u64().map(|n| format!("  node {n}")).unwrap_or_default();
    let who = match (of("user"), of("access_key"), of("kind")) {
        (_, _, "anonymous") => "(anonymous)",
        ("", "", _) => "(unknown)",
        ("", key, _) => key,
        (user, ..) => user,
    };
    let what = match (of("bucket"), of("key")) {
        ("", key) => key.to_owned(),
        (bucket, "") => bucket.to_owned(),
        (bucket, key) => format!("{bucket}/{key}"),
    };
    let answer = format!("{} {}", record["status"], of("error"));
    let parts = [of("time"), of("ip"), who, of("operation"), &what, answer.trim_end(), of("request_id")];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{}{node}", parts.join("  "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_are_lines() {
        let record = json!({ "time": "T", "ip": "192.0.2.7", "user": "alice", "operation": "GetObject", "bucket": "b",
            "key": "k", "status": 403, "error": "AccessDenied", "request_id": "ID", "node": 3 });
        assert_eq!(line(&record), "T  192.0.2.7  alice  GetObject  b/k  403 AccessDenied  ID  node 3");
        let record = json!({ "time": "T", "ip": "::1", "operation": "ListBuckets", "status": 200, "kind": "anonymous" });
        assert_eq!(line(&record), "T  ::1  (anonymous)  ListBuckets  200");
    }

    #[test]
    fn points_in_time() {
        let at = |text: &str| moment("--since", Some(&text.to_owned()), 86_400_000);
        assert_eq!(at("1h").unwrap().unwrap(), "1970-01-01T23:00:00.000Z");
        assert_eq!(at("1970-01-02").unwrap().unwrap(), "1970-01-02T00:00:00.000Z");
        assert!(at("soon").is_err() && moment("--since", None, 0).unwrap().is_none());
    }
}
