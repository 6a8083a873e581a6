//! Live monitoring for operators: the trace of requests, the log, and requests in progress.
//!
//! | request | answer |
//! |---|---|
//! | `GET trace?errors&slower_ms=N&bucket=B&operation=O` | one JSON object per line and request, until the client disconnects |
//! | `GET logs?last=N&follow&level=L` | lines of the log; with `follow` also later ones |
//! | the same with `seconds=N` | the stream ends after so many seconds |
//! | `GET top` | totals of each operation, and the requests in progress |
//!
//! Invariants: a stream ends when the server stops, and when the caller's credential or permission has ended; an empty line is sent every few seconds, so that a
//! disconnected client is noticed. In a cluster, trace and log have the lines of all nodes (`followers`).
//!
//! Must not depend on: MinIO's formats.

use ashlar_environment::time;
use std::sync::Arc;
use std::time::Duration;

use ashlar_node::clock::{coarse, now_ms};
use ashlar_object::{Bucket, Counted, Store};
use ashlar_s3::body::{Broken, Pieces};
use ashlar_s3::target::Query;
use ashlar_s3::trace::{Event, Listener, Tracer};
use ashlar_s3::{Body, Metrics, StillPermitted, WhilePermitted};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use super::admin_request::{Refusal, bad_request};
use super::api::{self, state as shape};
use super::followed::TraceFilter;
use super::followers::{Others, Report};
use ashlar_node::log_buffer::{self, Line};

/// Time between empty lines.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Most seconds that a request can name.
const LONGEST_S: u64 = 3600;
/// Number of log lines by default.
const DEFAULT_LINES: usize = 100;
/// The levels of log lines, the most important first.
pub(crate) const LEVELS: [&str; 3] = ["ERROR", "WARN", "INFO"];

/// The rank of a level in [`LEVELS`].
fn rank(level: &str) -> Option<usize> {
    LEVELS.iter().position(|l| l.eq_ignore_ascii_case(level))
}

/// Which lines of the log a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogFilter {
    /// How many of the last lines.
    pub last: usize,
    /// The rank of the least important level.
    pub level: usize,
    /// Whether later lines follow.
    pub follow: bool,
}

impl LogFilter {
    /// # Errors
    /// 400: the query is invalid.
    pub(crate) fn of(query: &Query) -> Result<LogFilter, Refusal> {
        let last = query.filled("last").map(str::parse).transpose();
        let last = last.map_err(|_| bad_request("last is a number of lines"))?.unwrap_or(DEFAULT_LINES);
        let level = match query.filled("level") {
            None => LEVELS.len() - 1,
            Some(level) => rank(level).ok_or_else(|| bad_request("level is error, warn or info"))?,
        };
        Ok(LogFilter { last, level, follow: is_true(query, "follow") })
    }

    /// A line in the format of our API, if it is wanted.
    fn form(self, l: &Line, node: Option<u16>) -> Option<shape::LogLine> {
        (rank(l.level)? <= self.level).then(|| shape::LogLine {
            node,
            time_ms: l.at_ms,
            level: l.level.to_ascii_lowercase(),
            target: l.target.to_owned(),
            message: l.text.clone(),
        })
    }

    /// Formats lines of this process; `node`: its number in a cluster.
    pub(crate) fn formatter(self, node: Option<u16>) -> Formatter<Line> {
        Box::new(move |l: &Line| self.form(l, node).map(api::value))
    }

    /// The last lines of the log of this process, oldest first.
    pub(crate) fn lines(self) -> Vec<shape::LogLine> {
        let (lines, _) = log_buffer::buffer().read(self.last);
        lines.iter().filter_map(|l| self.form(l, None)).collect()
    }
}

/// The filter of the trace in a query.
///
/// # Errors
/// 400: the query is invalid.
pub(crate) fn trace_filter(query: &Query) -> Result<TraceFilter, Refusal> {
    let slower = query.filled("slower_ms").map(str::parse).transpose();
    let slower = slower.map_err(|_| bad_request("slower_ms is a number of milliseconds"))?;
    Ok(TraceFilter {
        errors: is_true(query, "errors"),
        slower: Duration::from_millis(slower.unwrap_or(0)),
        operation: query.filled("operation").map(str::to_owned),
        path: query.filled("bucket").map(|b| format!("/{b}")),
    })
}

/// `still`, until the `seconds` are over that the query names, if it does: for clients behind a proxy that collects answers.
///
/// # Errors
/// 400: it is not a number from 1 to [`LONGEST_S`].
pub(crate) fn within(query: &Query, still: StillPermitted) -> Result<StillPermitted, Refusal> {
    let Some(text) = query.filled("seconds") else { return Ok(still) };
    let seconds = text.parse().ok().filter(|n| (1..=LONGEST_S).contains(n));
    let seconds = seconds.ok_or_else(|| bad_request("seconds is a number from 1 to 3600"))?;
    let end = time::Instant::now() + Duration::from_secs(seconds);
    Ok(Box::new(move || time::Instant::now() < end && still()))
}

/// Whether the query contains a parameter without value or with the value true.
fn is_true(query: &Query, name: &str) -> bool {
    matches!(query.get(name), Some("" | "true" | "1"))
}

/// Formats an event; `None`: it is left out.
pub(crate) type Formatter<T> = Box<dyn Fn(&T) -> Option<Value> + Send>;

/// A line of JSON.
fn line(value: &Value) -> Bytes {
    let mut text = value.to_string();
    text.push('\n');
    text.into()
}

/// The next lines of other nodes.
async fn next_of(others: &mut Option<Others>) -> Bytes {
    match others {
        Some(others) => others.next().await,
        None => std::future::pending().await,
    }
}

/// When a line in our format or MinIO's was written, in nanoseconds since 1970.
fn time_of(line: &Value) -> i128 {
    let minio = |text: &str| {
        let format = &::time::format_description::well_known::Rfc3339;
        Some(::time::OffsetDateTime::parse(text, format).ok()?.unix_timestamp_nanos())
    };
    match line["time_ms"].as_i64() {
        Some(ms) => i128::from(ms) * 1_000_000,
        None => line["time"].as_str().and_then(minio).unwrap_or(0),
    }
}

/// The last lines of several nodes by time; those of one node stay in their order.
fn in_order(mut lines: Vec<Value>, last: usize) -> Vec<u8> {
    lines.sort_by_cached_key(time_of);
    lines.drain(..lines.len().saturating_sub(last));
    lines.iter().flat_map(line).collect()
}

/// The trace as lines of JSON.
struct Traced {
    listener: Listener,
    others: Option<Others>,
    form: Formatter<Event>,
    stop: watch::Receiver<bool>,
}

impl Pieces for Traced {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            tokio::select! {
                biased;
                _ = self.stop.wait_for(|s| *s) => return None,
                heard = self.listener.next() => match heard? {
                    Ok(event) => {
                        if let Some(value) = (self.form)(&event) {
                            return Some(Ok(line(&value)));
                        }
                    }
                    Err(lost) => tracing::debug!(lost, "a listener of the trace was too slow"),
                },
                lines = next_of(&mut self.others) => return Some(Ok(lines)),
                () = time::sleep(KEEPALIVE) => return Some(Ok(Bytes::from_static(b"\n"))),
            }
        }
    }
}

/// The log as lines of JSON.
struct Logged {
    others: Option<Others>,
    live: broadcast::Receiver<Arc<Line>>,
    form: Formatter<Line>,
    stop: watch::Receiver<bool>,
}

impl Pieces for Logged {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            tokio::select! {
                biased;
                _ = self.stop.wait_for(|s| *s) => return None,
                heard = self.live.recv() => match heard {
                    Ok(heard) => {
                        if let Some(value) = (self.form)(&heard) {
                            return Some(Ok(line(&value)));
                        }
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
                lines = next_of(&mut self.others) => return Some(Ok(lines)),
                () = time::sleep(KEEPALIVE) => return Some(Ok(Bytes::from_static(b"\n"))),
            }
        }
    }
}

/// A repeated document as lines of JSON.
struct Repeated<F> {
    make: F,
    left: Option<u64>,
    interval: Duration,
    stop: watch::Receiver<bool>,
}

impl<F: FnMut(bool) -> Value + Send + 'static> Pieces for Repeated<F> {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        if self.left == Some(0) {
            return None;
        }
        tokio::select! {
            _ = self.stop.wait_for(|s| *s) => return None,
            () = time::sleep(self.interval) => {}
        }
        self.left = self.left.map(|n| n - 1);
        Some(Ok(line(&(self.make)(self.left == Some(0)))))
    }
}

/// The sources of the streams.
#[derive(Clone)]
pub struct Monitor {
    tracer: Arc<Tracer>,
    stop: watch::Receiver<bool>,
}

impl Monitor {
    /// Streams end when `stop` is true.
    pub fn new(tracer: Arc<Tracer>, stop: watch::Receiver<bool>) -> Monitor {
        Monitor { tracer, stop }
    }

    /// Becomes true when the server stops.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.clone()
    }

    /// Hears of requests from now on.
    pub(crate) fn listen(&self) -> Listener {
        self.tracer.listen()
    }

    /// The trace from now on; `others`: that of other nodes; `still`: whether the receiver may have it.
    pub(crate) fn trace(
        &self,
        form: Formatter<Event>,
        mut others: Option<Others>,
        still: StillPermitted,
    ) -> Body {
        let (listener, stop) = (self.tracer.listen(), self.stop.clone());
        let mut first = others.as_mut().map_or_else(Vec::new, Others::ready).concat();
        first.push(b'\n');
        Body::endless(first.into(), WhilePermitted::new(Traced { listener, others, form, stop }, still))
    }

    /// The last lines of the log, and with `follow` later ones; `others`: of other nodes.
    pub(crate) fn logs(
        &self,
        last: usize,
        follow: bool,
        form: Formatter<Line>,
        mut others: Option<Others>,
        still: StillPermitted,
    ) -> Body {
        let (lines, live) = log_buffer::buffer().read(last);
        let mut all: Vec<Value> = lines.iter().filter_map(|l| form(l)).collect();
        for theirs in others.as_mut().map_or_else(Vec::new, Others::ready) {
            let read = |line: &[u8]| serde_json::from_slice(line).ok();
            all.extend(theirs.split(|b| *b == b'\n').filter_map(read));
        }
        let mut first = in_order(all, last);
        if !follow {
            return Body::whole(first);
        }
        first.push(b'\n');
        let logged = Logged { others, live, form, stop: self.stop.clone() };
        Body::endless(first.into(), WhilePermitted::new(logged, still))
    }

    /// A document `times` times (`None`: without end), every `interval`; the argument of `make` marks the
    /// last one.
    pub(crate) fn repeat(
        &self,
        times: Option<u64>,
        interval: Duration,
        mut make: impl FnMut(bool) -> Value + Send + 'static,
        still: StillPermitted,
    ) -> Body {
        let left = times.map(|n| n.saturating_sub(1));
        let first = line(&make(left == Some(0)));
        let repeated = Repeated { make, left, interval, stop: self.stop.clone() };
        Body::endless(first, WhilePermitted::new(repeated, still))
    }
}

/// Formats the trace of this process in the format of our API; `node`: its number in a cluster.
pub(crate) fn trace_formatter(wanted: TraceFilter, node: Option<u16>) -> Formatter<Event> {
    Box::new(move |e| wanted.matches(e).then(|| api::value(event(e, node))))
}

/// Says something about another node in the trace.
pub(crate) fn trace_report() -> Report {
    Box::new(|number, what| {
        let said = shape::TraceEvent {
            node: Some(number),
            time_ms: now_ms(),
            kind: "cluster".to_owned(),
            error: format!("node {number} {what}"),
            ..shape::TraceEvent::default()
        };
        format!("{}\n", api::value(said))
    })
}

/// Says something about another node in the log.
pub(crate) fn log_report() -> Report {
    Box::new(|number, what| {
        let said = shape::LogLine {
            node: Some(number),
            time_ms: now_ms(),
            level: "warn".to_owned(),
            target: module_path!().to_owned(),
            message: format!("node {number} {what}"),
        };
        format!("{}\n", api::value(said))
    })
}

/// Lines of the logs of several nodes, as the answer to a request.
pub(crate) fn log_body(lines: &[shape::LogLine]) -> Body {
    Body::whole(lines.iter().flat_map(|l| line(&api::value(l))).collect::<Vec<u8>>())
}

/// An event in the format of our API.
fn event(e: &Event, node: Option<u16>) -> shape::TraceEvent {
    let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    let client = e.waited_for_client.min(e.first_byte);
    let drives = e.waited_for_drives.min(e.first_byte - client);
    shape::TraceEvent {
        node,
        time_ms: i64::try_from(e.time_ns / 1_000_000).unwrap_or(0),
        kind: e.kind.to_owned(),
        request_id: e.request_id.clone(),
        operation: e.operation.to_owned(),
        method: e.method.clone(),
        path: e.path.clone(),
        query: e.query.clone(),
        client: e.client.clone(),
        user_agent: e.user_agent.clone(),
        access_key: e.access_key.clone(),
        status: e.status,
        error: e.error.to_owned(),
        bytes_in: e.bytes_in,
        bytes_out: e.bytes_out,
        micros: micros(e.took),
        first_byte_micros: micros(e.first_byte),
        body_micros: micros(client),
        drives_micros: micros(drives),
        server_micros: micros(e.first_byte - client - drives),
        answer_micros: micros(e.took.saturating_sub(e.first_byte)),
        cut: e.cut,
    }
}

/// Totals of each operation, and the requests in progress, of this process.
pub(crate) fn top(metrics: &Metrics) -> shape::Top {
    let operations = metrics.totals().into_iter().map(|t| shape::OperationTotals {
        operation: t.operation.to_owned(),
        calls: t.calls,
        client_errors: t.client_errors,
        server_errors: t.server_errors,
        mean_micros: t.micros / t.calls.max(1),
        bytes_in: t.received,
        bytes_out: t.sent,
    });
    let running = metrics.running().into_iter().map(|(bucket, operation, count)| shape::RunningRequests {
        bucket,
        operation: operation.to_owned(),
        count,
    });
    shape::Top {
        uptime_s: coarse(),
        inflight: metrics.inflight().max(0) as u64,
        operations: operations.collect(),
        running: running.collect(),
        nodes: None,
    }
}

/// The usage of a bucket, in the format of our API.
pub(crate) fn bucket_usage(bucket: &Bucket, counted: &Counted) -> shape::BucketUsage {
    let u = &counted.usage;
    let named = |names: &[&str], counts: &[u64]| {
        names.iter().zip(counts).map(|(n, c)| ((*n).to_owned(), *c)).collect()
    };
    shape::BucketUsage {
        bucket: bucket.name.clone(),
        created_ms: bucket.created_ms,
        objects: u.objects,
        versions: u.versions,
        delete_markers: u.delete_markers,
        bytes: u.bytes,
        current_bytes: u.current_bytes,
        sizes: named(&SIZE_NAMES, &u.sizes),
        version_counts: named(&COUNT_NAMES, &u.counts),
        complete: counted.complete,
        unsettled: counted.unsettled,
        counted_ms: (counted.counted_ms > 0).then_some(counted.counted_ms),
    }
}

/// MinIO's names for classes of sizes; as many as `ashlar_object::SIZE_BOUNDS` defines.
pub(crate) const SIZE_NAMES: [&str; ashlar_object::SIZE_BOUNDS.len() + 1] = [
    "LESS_THAN_1024_B",
    "BETWEEN_1024_B_AND_64_KB",
    "BETWEEN_64_KB_AND_256_KB",
    "BETWEEN_256_KB_AND_512_KB",
    "BETWEEN_512_KB_AND_1_MB",
    "BETWEEN_1_MB_AND_10_MB",
    "BETWEEN_10_MB_AND_64_MB",
    "BETWEEN_64_MB_AND_128_MB",
    "BETWEEN_128_MB_AND_512_MB",
    "GREATER_THAN_512_MB",
];

/// MinIO's names for classes of version counts.
pub(crate) const COUNT_NAMES: [&str; ashlar_object::COUNT_BOUNDS.len() + 1] = [
    "UNVERSIONED",
    "SINGLE_VERSION",
    "BETWEEN_2_AND_10",
    "BETWEEN_10_AND_100",
    "BETWEEN_100_AND_1000",
    "BETWEEN_1000_AND_10000",
    "GREATER_THAN_10000",
];

/// The sum over all buckets; complete if every bucket has been counted.
pub(crate) fn total(store: &Store) -> Counted {
    let mut all = Counted { complete: true, ..Counted::default() };
    for (_, counted) in store.usages() {
        all.usage += counted.usage;
        all.complete &= counted.complete;
        all.unsettled += counted.unsettled;
        all.counted_ms = all.counted_ms.max(counted.counted_ms);
    }
    all
}

/// The total in the format of our API.
pub(crate) fn usage_total(store: &Store) -> shape::UsageTotal {
    let all = total(store);
    let u = all.usage;
    shape::UsageTotal {
        objects: u.objects,
        versions: u.versions,
        delete_markers: u.delete_markers,
        bytes: u.bytes,
        complete: all.complete,
    }
}

/// The usage of buckets in MinIO's format.
pub(crate) fn minio_usage(store: &Store) -> Value {
    let histogram = |names: &[&str], counts: &[u64]| -> serde_json::Map<String, Value> {
        names.iter().zip(counts).map(|(n, c)| ((*n).to_owned(), json!(c))).collect()
    };
    let usages = store.usages();
    let buckets: serde_json::Map<String, Value> = usages
        .iter()
        .map(|(name, c)| {
            let u = &c.usage;
            let mut sizes = histogram(&SIZE_NAMES, &u.sizes);
            // An older class that MinIO still reports for dashboards.
            sizes.insert("BETWEEN_1024B_AND_1_MB".to_owned(), json!(u.sizes[1..5].iter().sum::<u64>()));
            let value = json!({ "size": u.bytes, "objectsCount": u.objects, "versionsCount": u.versions,
                "deleteMarkersCount": u.delete_markers, "objectsSizesHistogram": sizes,
                "objectsVersionsHistogram": histogram(&COUNT_NAMES, &u.counts) });
            (name.clone(), value)
        })
        .collect();
    let sizes: serde_json::Map<String, Value> =
        usages.iter().map(|(name, c)| (name.clone(), json!(c.usage.bytes))).collect();
    let all = total(store).usage;
    json!({ "objectsCount": all.objects, "objectsTotalSize": all.bytes, "bucketsCount": usages.len(),
        "versionsCount": all.versions, "deleteMarkersCount": all.delete_markers,
        "bucketsUsageInfo": buckets, "bucketsSizes": sizes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_ends_by_itself_only_after_a_number_of_seconds() {
        let asked =
            |query: &str| within(&Query::parse(query).unwrap(), Box::new(|| true)).map(|still| still());
        for query in ["", "seconds=", "seconds=1", "seconds=3600"] {
            assert!(matches!(asked(query), Ok(true)), "{query}");
        }
        for query in ["seconds=0", "seconds=3601", "seconds=-1", "seconds=x"] {
            assert!(asked(query).is_err(), "{query}");
        }
        // Whoever may not have it gets nothing for any number of seconds.
        let refused =
            within(&Query::parse("seconds=60").unwrap(), Box::new(|| false)).unwrap_or_else(|_| panic!());
        assert!(!refused());
    }
}
