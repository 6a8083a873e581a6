//! Counters of requests, by operation and by bucket.
//!
//! Invariants: counting a request costs a few relaxed atomic additions and one lookup of the bucket; only
//! existing buckets are counted by name, so that requests for other names cannot grow the table. Names are
//! MinIO's (versions 2 and 3) where the meaning is the same; Ashlar's own begin with `ashlar_`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ashlar_metrics::{Group, Kind, Page};
use parking_lot::RwLock;

use crate::operation::Operation;

/// Upper bounds of the latency histogram, in microseconds.
pub const BOUNDS: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];
/// Upper bounds of MinIO's histograms of the time to the first byte, in microseconds; all are in [`BOUNDS`].
const MINIO_BOUNDS: [u64; 8] =
    [50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000];

#[derive(Default)]
struct PerOperation {
    inflight: AtomicI64,
    /// By first digit of the status.
    statuses: [AtomicU64; 6],
    /// Cumulative only when printed.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
}

impl PerOperation {
    fn end(&self, status: u16, micros: u64, received: u64, sent: u64) {
        self.statuses[usize::from(status / 100).min(5)].fetch_add(1, Relaxed);
        let bucket = BOUNDS.iter().position(|b| micros <= *b).unwrap_or(BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.micros.fetch_add(micros, Relaxed);
        self.received.fetch_add(received, Relaxed);
        self.sent.fetch_add(sent, Relaxed);
    }

    fn total(&self) -> u64 {
        self.statuses.iter().map(|s| s.load(Relaxed)).sum()
    }

    fn class(&self, digit: usize) -> u64 {
        self.statuses[digit].load(Relaxed)
    }

    /// Observations up to each of MinIO's bounds, with the name of the bound.
    fn first_bytes(&self) -> Vec<(String, u64)> {
        let mut out = Vec::with_capacity(MINIO_BOUNDS.len() + 1);
        let mut seen = 0;
        for (i, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Relaxed);
            match BOUNDS.get(i) {
                Some(b) if MINIO_BOUNDS.contains(b) => out.push((format!("{}", *b as f64 / 1e6), seen)),
                Some(_) => {}
                None => out.push(("+Inf".to_owned(), seen)),
            }
        }
        out
    }
}

/// The counters of one bucket; those of an operation are made when it is first asked for.
struct PerBucket(Box<[OnceLock<Box<PerOperation>>]>);

impl PerBucket {
    fn of(&self, op: Operation) -> &PerOperation {
        self.0[op as usize].get_or_init(Box::default)
    }

    fn used(&self) -> impl Iterator<Item = (&'static str, &PerOperation)> {
        Operation::ALL.iter().zip(&self.0).filter_map(|(op, per)| Some((op.name(), &**per.get()?)))
    }
}

/// The counters of one service.
pub struct Metrics {
    operations: Vec<PerOperation>,
    buckets: RwLock<HashMap<String, Arc<PerBucket>>>,
    inflight: AtomicI64,
    rejected_auth: AtomicU64,
    rejected_time: AtomicU64,
    rejected_header: AtomicU64,
    rejected_invalid: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            operations: Operation::ALL.iter().map(|_| PerOperation::default()).collect(),
            buckets: RwLock::default(),
            inflight: AtomicI64::new(0),
            rejected_auth: AtomicU64::new(0),
            rejected_time: AtomicU64::new(0),
            rejected_header: AtomicU64::new(0),
            rejected_invalid: AtomicU64::new(0),
        }
    }
}

/// Counts a request as running while it lives.
pub struct Running<'a>(&'a Metrics);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.inflight.fetch_sub(1, Relaxed);
    }
}

/// Counts a request as running in a bucket while it lives.
pub struct InBucket {
    bucket: Arc<PerBucket>,
    op: Operation,
}

impl InBucket {
    /// It has its answer, as in [`Metrics::end`].
    pub fn end(&self, status: u16, took: Duration, received: u64, sent: u64) {
        self.bucket.of(self.op).end(status, micros(took), received, sent);
    }
}

impl Drop for InBucket {
    fn drop(&mut self) {
        self.bucket.of(self.op).inflight.fetch_sub(1, Relaxed);
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

impl Metrics {
    /// A request begins.
    pub fn begin(&self) -> Running<'_> {
        self.inflight.fetch_add(1, Relaxed);
        Running(self)
    }

    /// A request about a bucket begins. `exists` is asked the first time.
    pub fn begin_in(&self, bucket: &str, op: Operation, exists: impl FnOnce() -> bool) -> Option<InBucket> {
        let known = self.buckets.read().get(bucket).cloned();
        let bucket = match known {
            Some(bucket) => bucket,
            None if !exists() => return None,
            None => {
                let none = || PerBucket(Operation::ALL.iter().map(|_| OnceLock::new()).collect());
                self.buckets.write().entry(bucket.to_owned()).or_insert_with(|| Arc::new(none())).clone()
            }
        };
        bucket.of(op).inflight.fetch_add(1, Relaxed);
        Some(InBucket { bucket, op })
    }

    /// Forgets buckets that are gone.
    pub fn keep_buckets(&self, exists: impl Fn(&str) -> bool) {
        if self.buckets.read().keys().any(|name| !exists(name)) {
            self.buckets.write().retain(|name, _| exists(name));
        }
    }

    /// A request has its answer. `received`: bytes of its body; `sent`: bytes of the answer's.
    pub fn end(&self, op: Operation, status: u16, took: Duration, received: u64, sent: u64) {
        self.operations[op as usize].end(status, micros(took), received, sent);
    }

    /// A request was refused before it became an operation.
    pub fn rejected(&self, code: &str) {
        let counter = match code {
            "RequestTimeTooSkewed" => &self.rejected_time,
            "AccessDenied"
            | "SignatureDoesNotMatch"
            | "InvalidAccessKeyId"
            | "AuthorizationHeaderMalformed"
            | "AuthorizationQueryParametersError"
            | "InvalidToken" => &self.rejected_auth,
            "MissingSecurityHeader" | "MetadataTooLarge" | "RequestHeaderSectionTooLarge" => {
                &self.rejected_header
            }
            _ => &self.rejected_invalid,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Requests that run now.
    pub fn inflight(&self) -> i64 {
        self.inflight.load(Relaxed)
    }

    /// Requests that run now, by bucket and operation; for `top`.
    pub fn running(&self) -> Vec<(String, &'static str, u64)> {
        let buckets = self.buckets.read();
        let mut all: Vec<(String, &'static str, u64)> = Vec::new();
        for (name, bucket) in &*buckets {
            for (op, per) in bucket.used() {
                let inflight = per.inflight.load(Relaxed).max(0) as u64;
                if inflight > 0 {
                    all.push((name.clone(), op, inflight));
                }
            }
        }
        all.sort();
        all
    }

    /// What each operation has done since the start: its name, calls, errors, mean and bytes; for `top`.
    pub fn totals(&self) -> Vec<Totals> {
        let used = Operation::ALL.iter().zip(&self.operations).filter(|(_, per)| per.total() > 0);
        used.map(|(op, per)| Totals {
            operation: op.name(),
            calls: per.total(),
            client_errors: per.class(4),
            server_errors: per.class(5),
            micros: per.micros.load(Relaxed),
            received: per.received.load(Relaxed),
            sent: per.sent.load(Relaxed),
        })
        .collect()
    }

    /// The time to the first byte of the answer, of all requests since the start: how many took up to each of [`BOUNDS`]
    /// and longer than the one before; the last number is of those that took longer than all.
    pub fn latencies(&self) -> [u64; BOUNDS.len() + 1] {
        let mut all = [0; BOUNDS.len() + 1];
        for per in &self.operations {
            for (sum, bucket) in all.iter_mut().zip(&per.buckets) {
                *sum += bucket.load(Relaxed);
            }
        }
        all
    }

    /// Adds what is counted.
    pub fn render(&self, page: &mut Page) {
        let used: Vec<(&str, &PerOperation)> = Operation::ALL
            .iter()
            .zip(&self.operations)
            .filter(|(_, per)| per.total() > 0)
            .map(|(op, per)| (op.name(), per))
            .collect();
        let sum = |of: fn(&PerOperation) -> &AtomicU64| -> u64 {
            self.operations.iter().map(|per| of(per).load(Relaxed)).sum()
        };
        let (received, sent) = (sum(|p| &p.received), sum(|p| &p.sent));
        let inflight = self.inflight.load(Relaxed).max(0);
        by_operation(page, &used);
        let node = Group::Node;
        for (name, help, value) in [
            ("inflight_total", "Total number of S3 requests currently in flight.", inflight),
            ("incoming_total", "Total number of incoming S3 requests that are not answered yet.", inflight),
        ] {
            page.value(node, &format!("minio_s3_requests_{name}"), help, value);
        }
        for (name, help, counter) in [
            ("auth", "Total number of S3 requests rejected for auth failure.", &self.rejected_auth),
            ("timestamp", "Total number of S3 requests rejected for invalid timestamp.", &self.rejected_time),
            ("header", "Total number of S3 requests rejected for invalid header.", &self.rejected_header),
            ("invalid", "Total number of S3 requests rejected as not valid.", &self.rejected_invalid),
        ] {
            page.count(
                node,
                &format!("minio_s3_requests_rejected_{name}_total"),
                help,
                counter.load(Relaxed),
            );
            let v3 = Group::V3("api/requests");
            let name = format!("minio_api_requests_rejected_{name}_total");
            page.counter(v3, &name, help).add(&[("type", "s3")], counter.load(Relaxed));
        }
        page.count(node, "minio_s3_traffic_received_bytes", "Total number of S3 bytes received.", received);
        page.count(node, "minio_s3_traffic_sent_bytes", "Total number of S3 bytes sent.", sent);
        let v3 = Group::V3("api/requests");
        let s3 = &[("type", "s3")][..];
        let help = "Total number of S3 requests currently in flight.";
        page.gauge(v3, "minio_api_requests_inflight_total", help).add(s3, inflight);
        page.counter(v3, "minio_api_requests_traffic_received_bytes", "Bytes received.").add(s3, received);
        page.counter(v3, "minio_api_requests_traffic_sent_bytes", "Bytes sent.").add(s3, sent);
        self.by_bucket(page);
    }

    fn by_bucket(&self, page: &mut Page) {
        let buckets = self.buckets.read();
        let mut names: Vec<&String> = buckets.keys().collect();
        names.sort();
        for name in names {
            let bucket = &buckets[name];
            let (mut received, mut sent) = (0, 0);
            for (op, per) in bucket.used() {
                received += per.received.load(Relaxed);
                sent += per.sent.load(Relaxed);
                let api = op.to_ascii_lowercase();
                let labels = &[("bucket", name.as_str()), ("api", api.as_str())][..];
                let v3 = Group::V3("bucket/api");
                let named = &[("bucket", name.as_str()), ("name", op), ("type", "s3")][..];
                page.gauge(
                    Group::Bucket,
                    "minio_bucket_requests_inflight_total",
                    "Total number of S3 requests currently in flight on a bucket.",
                )
                .add(labels, per.inflight.load(Relaxed).max(0));
                for (family, help, value) in [
                    ("total", "Total number of S3 requests on a bucket.", per.total()),
                    (
                        "4xx_errors_total",
                        "Total number of S3 requests with (4xx) errors on a bucket.",
                        per.class(4),
                    ),
                    (
                        "5xx_errors_total",
                        "Total number of S3 requests with (5xx) errors on a bucket.",
                        per.class(5),
                    ),
                ] {
                    page.counter(Group::Bucket, &format!("minio_bucket_requests_{family}"), help)
                        .add(labels, value);
                    page.counter(v3, &format!("minio_bucket_api_{family}"), help).add(named, value);
                }
                for (le, seen) in per.first_bytes() {
                    let help = "Distribution of time to first byte across API calls per bucket.";
                    let labels = [labels, &[("le", le.as_str())]].concat();
                    page.gauge(Group::Bucket, "minio_bucket_requests_ttfb_seconds_distribution", help)
                        .add(&labels, seen);
                    let named = [named, &[("le", le.as_str())]].concat();
                    page.counter(v3, "minio_bucket_api_ttfb_seconds_distribution", help).add(&named, seen);
                }
            }
            let labels = &[("bucket", name.as_str())][..];
            for (family, help, value) in [
                ("traffic_received_bytes", "Total number of S3 bytes received for this bucket.", received),
                ("traffic_sent_bytes", "Total number of S3 bytes sent for this bucket.", sent),
            ] {
                page.counter(Group::Bucket, &format!("minio_bucket_{family}"), help).add(labels, value);
                page.counter(Group::V3("bucket/api"), &format!("minio_bucket_api_{family}"), help)
                    .add(labels, value);
            }
        }
    }
}

/// What an operation has done since the start.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Its name.
    pub operation: &'static str,
    /// Answers.
    pub calls: u64,
    /// Of these, with a status of 4xx.
    pub client_errors: u64,
    /// Of these, with a status of 5xx.
    pub server_errors: u64,
    /// Microseconds until the head of the answer, all together.
    pub micros: u64,
    /// Bytes of request bodies.
    pub received: u64,
    /// Bytes of answers.
    pub sent: u64,
}

fn by_operation(page: &mut Page, used: &[(&str, &PerOperation)]) {
    for (op, per) in used {
        let api = op.to_ascii_lowercase();
        let labels = &[("api", api.as_str())][..];
        let named = &[("name", *op), ("type", "s3")][..];
        let v3 = Group::V3("api/requests");
        let errors = per.class(4) + per.class(5);
        for (family, help, value) in [
            ("total", "Total number of S3 requests.", per.total()),
            ("errors_total", "Total number of S3 requests with (4xx and 5xx) errors.", errors),
            ("4xx_errors_total", "Total number of S3 requests with (4xx) errors.", per.class(4)),
            ("5xx_errors_total", "Total number of S3 requests with (5xx) errors.", per.class(5)),
        ] {
            page.counter(Group::Node, &format!("minio_s3_requests_{family}"), help).add(labels, value);
            page.counter(v3, &format!("minio_api_requests_{family}"), help).add(named, value);
        }
        for (le, seen) in per.first_bytes() {
            let help = "Distribution of time to first byte across API calls.";
            let labels = [labels, &[("le", le.as_str())]].concat();
            page.gauge(Group::Node, "minio_s3_requests_ttfb_seconds_distribution", help).add(&labels, seen);
            let named = [named, &[("le", le.as_str())]].concat();
            page.counter(v3, "minio_api_requests_ttfb_seconds_distribution", help).add(&named, seen);
        }
        for (digit, count) in per.statuses.iter().enumerate() {
            let count = count.load(Relaxed);
            if count > 0 {
                let status = format!("{digit}xx");
                let help = "S3 requests by operation and first digit of the status.";
                let labels = [("operation", *op), ("status", status.as_str())];
                page.counter(Group::Node, "ashlar_s3_requests_total", help).add(&labels, count);
            }
        }
        let help = "Seconds until the head of the answer, by operation.";
        let bounds = BOUNDS.map(|b| b as f64 / 1e6);
        let counts: Vec<u64> = per.buckets.iter().map(|b| b.load(Relaxed)).collect();
        page.family(Group::Node, Kind::Histogram, "ashlar_s3_request_seconds", help).histogram(
            &[("operation", op)],
            &bounds,
            &counts,
            per.micros.load(Relaxed) as f64 / 1e6,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_rendered() {
        let metrics = Metrics::default();
        let running = metrics.begin();
        let inside = metrics.begin_in("b", Operation::GetObject, || true).unwrap();
        assert!(metrics.begin_in("no-such-bucket", Operation::GetObject, || false).is_none());
        assert_eq!(metrics.inflight(), 1);
        assert_eq!(metrics.running(), [("b".to_owned(), "GetObject", 1)]);
        metrics.end(Operation::GetObject, 200, Duration::from_micros(300), 0, 4096);
        inside.end(200, Duration::from_micros(60_000), 0, 4096);
        metrics.end(Operation::GetObject, 404, Duration::from_secs(60), 0, 100);
        metrics.rejected("SignatureDoesNotMatch");
        drop((running, inside));
        let mut page = Page::new("s:1");
        metrics.render(&mut page);
        let out = page.text(&[Group::Node, Group::Bucket]) + &page.text_v3("");
        for line in [
            "minio_s3_requests_total{server=\"s:1\",api=\"getobject\"} 2",
            "minio_s3_requests_4xx_errors_total{server=\"s:1\",api=\"getobject\"} 1",
            "minio_s3_traffic_sent_bytes{server=\"s:1\"} 4196",
            "minio_s3_requests_rejected_auth_total{server=\"s:1\"} 1",
            "minio_s3_requests_ttfb_seconds_distribution{server=\"s:1\",api=\"getobject\",le=\"0.05\"} 1",
            "minio_s3_requests_ttfb_seconds_distribution{server=\"s:1\",api=\"getobject\",le=\"+Inf\"} 2",
            "minio_bucket_requests_total{server=\"s:1\",bucket=\"b\",api=\"getobject\"} 1",
            "minio_bucket_requests_inflight_total{server=\"s:1\",bucket=\"b\",api=\"getobject\"} 0",
            "minio_bucket_requests_ttfb_seconds_distribution{server=\"s:1\",bucket=\"b\",api=\"getobject\",le=\"0.05\"} 0",
            "minio_bucket_requests_ttfb_seconds_distribution{server=\"s:1\",bucket=\"b\",api=\"getobject\",le=\"0.1\"} 1",
            "minio_bucket_traffic_sent_bytes{server=\"s:1\",bucket=\"b\"} 4096",
            "minio_api_requests_total{server=\"s:1\",name=\"GetObject\",type=\"s3\"} 2",
            "ashlar_s3_request_seconds_bucket{server=\"s:1\",operation=\"GetObject\",le=\"0.0005\"} 1",
            "ashlar_s3_request_seconds_bucket{server=\"s:1\",operation=\"GetObject\",le=\"+Inf\"} 2",
        ] {
            assert!(out.lines().any(|l| l == line), "{line}\n{out}");
        }
        metrics.keep_buckets(|_| false);
        assert!(metrics.running().is_empty());
    }
}
