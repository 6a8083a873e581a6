//! Lines of the trace and of the log in MinIO's format.
//!
//! Must not depend on: where they come from, other nodes.

use std::time::Duration;

use ashlar_cluster::registry::Registry;
use ashlar_node::Node;
use ashlar_node::clock::now_ms;
use ashlar_s3::trace::Event;
use serde_json::{Value, json};

use super::answers;
use crate::followed::TraceFilter;
use crate::followers::Report;
use crate::monitor::Formatter;
use ashlar_node::log_buffer::Line;

/// MinIO's number for the trace of S3 calls.
const TRACE_S3: u64 = 4;

/// What names the server in MinIO's lines.
#[derive(Clone, Debug)]
pub struct MinioLines {
    host: String,
    deployment: String,
}

/// Lines of the log.
pub struct MinioLogs {
    /// What names the server.
    pub lines: MinioLines,
    /// In capitals: `APPLICATION`, `MINIO`, or `ALL` or nothing.
    pub kind: String,
}

/// Host and port at which this node of a cluster serves S3.
pub fn own_address(node: &Node) -> Option<String> {
    node.member.as_ref()?;
    let registry = Registry::read(&node.control).ok().flatten()?;
    let endpoint = &registry.nodes.get(&node.number())?.endpoint;
    Some(endpoint.split_once("://").map_or(endpoint.as_str(), |(_, address)| address).to_owned())
}

impl MinioLines {
    /// Of this node; a machine that is alone is named as the client names it.
    pub fn of(node: &Node, host: &str) -> MinioLines {
        MinioLines {
            host: own_address(node).unwrap_or_else(|| host.to_owned()),
            // `mc` shows no line of the log without this.
            deployment: answers::uuid(&node.map.load().deployment.to_hex()),
        }
    }

    /// Formats the trace.
    pub fn trace_formatter(self, wanted: TraceFilter) -> Formatter<Event> {
        Box::new(move |e| wanted.matches(e).then(|| traced(e, &self.host)))
    }

    /// Says something about another node in the trace.
    pub fn trace_report(self) -> Report {
        Box::new(|number, what| {
            let time_ns = i128::from(now_ms()) * 1_000_000;
            let said = Event { time_ns, kind: "cluster", operation: "Node", ..Event::default() };
            let mut line = traced(&said, &format!("node {number}"));
            line["error"] = json!(format!("node {number} {what}"));
            format!("{line}\n")
        })
    }

    /// Says something about another node in the log.
    pub fn log_report(self) -> Report {
        Box::new(move |number, what| {
            let at = answers::time(now_ms());
            let text = format!("{at} WARNING node {number} {what}");
            let line = json!({ "deploymentid": self.deployment, "level": "WARNING", "errKind": "MINIO", "time": at,
                "node": format!("node {number}"), "ConsoleMsg": text });
            format!("{line}\n")
        })
    }
}

impl MinioLogs {
    /// Formats lines of the log.
    pub fn formatter(self) -> Formatter<Line> {
        Box::new(move |l| self.form(l))
    }

    fn form(&self, l: &Line) -> Option<Value> {
        // The origin of the error: the server, or a request.
        let of = match l.target {
            "ashlar::request" | "ashlar::admin" | "ashlar::slow" => "APPLICATION",
            _ => "MINIO",
        };
        let level = if l.level == "WARN" { "WARNING" } else { l.level };
        let at = answers::time(l.at_ms);
        if !matches!(self.kind.as_str(), "" | "ALL") && self.kind != of {
            return None;
        }
        let text = format!("{at} {level} {}", l.text);
        Some(json!({ "deploymentid": self.lines.deployment, "level": level, "errKind": of, "time": at,
            "node": self.lines.host, "ConsoleMsg": text }))
    }
}

/// Nanoseconds since 1970 in MinIO's time format.
fn time_ns(ns: i128) -> String {
    let at = time::OffsetDateTime::from_unix_timestamp_nanos(ns).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    at.format(&time::format_description::well_known::Rfc3339).unwrap_or_default()
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

fn traced(e: &Event, host: &str) -> Value {
    let took = |d: Duration| format!("{:.3}ms", d.as_secs_f64() * 1e3);
    let ended = e.time_ns + i128::from(nanos(e.took));
    let mut headers = json!({ "Host": [e.host] });
    if !e.user_agent.is_empty() {
        headers["User-Agent"] = json!([e.user_agent]);
    }
    json!({
        "type": TRACE_S3,
        "nodename": host,
        "funcname": format!("{}.{}", e.kind, e.operation),
        "time": time_ns(e.time_ns),
        "path": e.path,
        "dur": nanos(e.took),
        "bytes": e.bytes_in + e.bytes_out,
        "error": e.error,
        "custom": { "drives": took(e.waited_for_drives), "body": took(e.waited_for_client),
            "requestID": e.request_id },
        "http": {
            "request": { "time": time_ns(e.time_ns), "proto": "HTTP/1.1", "method": e.method, "path": e.path,
                "rawquery": e.query, "headers": headers, "client": e.client },
            "response": { "time": time_ns(ended), "headers": { "X-Amz-Request-Id": [e.request_id] },
                "statuscode": e.status },
            "stats": { "inputbytes": e.bytes_in, "outputbytes": e.bytes_out,
                "timetofirstbyte": nanos(e.first_byte), "readBlocked": nanos(e.waited_for_client),
                "writeBlocked": nanos(e.took.saturating_sub(e.first_byte)) },
        },
    })
}
