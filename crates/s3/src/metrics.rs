//! Counters of requests, in Prometheus text.
//!
//! Invariant: counting a request costs a handful of relaxed atomic additions and nothing else.
//! Names are MinIO's (version 2) where the meaning is the same; ours begin with `ashlar_`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::operation::Operation;

/// Upper bounds of the latency histogram, in microseconds.
const BOUNDS: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

#[derive(Default)]
struct PerOperation {
    /// By first digit of the status.
    statuses: [AtomicU64; 6],
    /// Cumulative only when printed.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// The counters of one service.
pub struct Metrics {
    operations: Vec<PerOperation>,
    received: AtomicU64,
    sent: AtomicU64,
    inflight: AtomicI64,
    rejected_auth: AtomicU64,
    rejected_time: AtomicU64,
    rejected_invalid: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            operations: Operation::ALL.iter().map(|_| PerOperation::default()).collect(),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            inflight: AtomicI64::new(0),
            rejected_auth: AtomicU64::new(0),
            rejected_time: AtomicU64::new(0),
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

impl Metrics {
    /// A request begins.
    pub fn begin(&self) -> Running<'_> {
        self.inflight.fetch_add(1, Relaxed);
        Running(self)
    }

    /// A request has its answer. `received`: bytes of its body; `sent`: bytes of the answer's.
    pub fn end(&self, op: Operation, status: u16, took: Duration, received: u64, sent: u64) {
        let per = &self.operations[op as usize];
        per.statuses[usize::from(status / 100).min(5)].fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|b| micros <= *b).unwrap_or(BOUNDS.len());
        per.buckets[bucket].fetch_add(1, Relaxed);
        per.micros.fetch_add(micros, Relaxed);
        self.received.fetch_add(received, Relaxed);
        self.sent.fetch_add(sent, Relaxed);
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
            _ => &self.rejected_invalid,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Requests that run now.
    pub fn inflight(&self) -> i64 {
        self.inflight.load(Relaxed)
    }

    /// Appends Prometheus text.
    pub fn render(&self, out: &mut String) {
        let total = |per: &PerOperation| per.statuses.iter().map(|s| s.load(Relaxed)).sum::<u64>();
        let used: Vec<(&str, &PerOperation)> = Operation::ALL
            .iter()
            .zip(&self.operations)
            .filter(|(_, per)| total(per) > 0)
            .map(|(op, per)| (op.name(), per))
            .collect();
        let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&PerOperation) -> u64| {
            header(out, name, kind, help);
            for (op, per) in &used {
                let _ = writeln!(out, "{name}{{api=\"{}\"}} {}", op.to_ascii_lowercase(), value(per));
            }
        };
        let class = |per: &PerOperation, c: usize| per.statuses[c].load(Relaxed);
        family("minio_s3_requests_total", "counter", "Total number of S3 requests.", &total);
        family(
            "minio_s3_requests_errors_total",
            "counter",
            "Total number of S3 requests with (4xx and 5xx) errors.",
            &|p| class(p, 4) + class(p, 5),
        );
        family(
            "minio_s3_requests_4xx_errors_total",
            "counter",
            "Total number of S3 requests with (4xx) errors.",
            &|p| class(p, 4),
        );
        family(
            "minio_s3_requests_5xx_errors_total",
            "counter",
            "Total number of S3 requests with (5xx) errors.",
            &|p| class(p, 5),
        );
        for (name, kind, help, value) in [
            (
                "minio_s3_requests_inflight_total",
                "gauge",
                "Total number of S3 requests currently in flight.",
                self.inflight.load(Relaxed).max(0) as u64,
            ),
            (
                "minio_s3_requests_rejected_auth_total",
                "counter",
                "Total number of S3 requests rejected for auth failure.",
                self.rejected_auth.load(Relaxed),
            ),
            (
                "minio_s3_requests_rejected_timestamp_total",
                "counter",
                "Total number of S3 requests rejected for invalid timestamp.",
                self.rejected_time.load(Relaxed),
            ),
            (
                "minio_s3_requests_rejected_invalid_total",
                "counter",
                "Total number of S3 requests rejected as not valid.",
                self.rejected_invalid.load(Relaxed),
            ),
            (
                "minio_s3_traffic_received_bytes",
                "counter",
                "Total number of S3 bytes received.",
                self.received.load(Relaxed),
            ),
            (
                "minio_s3_traffic_sent_bytes",
                "counter",
                "Total number of S3 bytes sent.",
                self.sent.load(Relaxed),
            ),
        ] {
            header(out, name, kind, help);
            let _ = writeln!(out, "{name} {value}");
        }
        header(
            out,
            "ashlar_s3_requests_total",
            "counter",
            "S3 requests by operation and first digit of the status.",
        );
        for (op, per) in &used {
            for (digit, count) in per.statuses.iter().enumerate() {
                let count = count.load(Relaxed);
                if count > 0 {
                    let _ = writeln!(
                        out,
                        "ashlar_s3_requests_total{{operation=\"{op}\",status=\"{digit}xx\"}} {count}"
                    );
                }
            }
        }
        histogram(out, &used);
    }
}

fn header(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn histogram(out: &mut String, used: &[(&str, &PerOperation)]) {
    const NAME: &str = "ashlar_s3_request_seconds";
    header(out, NAME, "histogram", "Seconds until the head of the answer, by operation.");
    for (op, per) in used {
        let mut sum = 0;
        for (i, bucket) in per.buckets.iter().enumerate() {
            sum += bucket.load(Relaxed);
            let le = BOUNDS.get(i).map_or("+Inf".to_owned(), |b| format!("{}", *b as f64 / 1e6));
            let _ = writeln!(out, "{NAME}_bucket{{operation=\"{op}\",le=\"{le}\"}} {sum}");
        }
        let seconds = per.micros.load(Relaxed) as f64 / 1e6;
        let _ = writeln!(
            out,
            "{NAME}_sum{{operation=\"{op}\"}} {seconds}\n{NAME}_count{{operation=\"{op}\"}} {sum}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_was_counted() {
        let metrics = Metrics::default();
        let running = metrics.begin();
        assert_eq!(metrics.inflight(), 1);
        metrics.end(Operation::GetObject, 200, Duration::from_micros(300), 0, 4096);
        metrics.end(Operation::GetObject, 404, Duration::from_secs(60), 0, 100);
        metrics.rejected("SignatureDoesNotMatch");
        drop(running);
        let mut out = String::new();
        metrics.render(&mut out);
        for line in [
            "minio_s3_requests_total{api=\"getobject\"} 2",
            "minio_s3_requests_4xx_errors_total{api=\"getobject\"} 1",
            "minio_s3_traffic_sent_bytes 4196",
            "minio_s3_requests_rejected_auth_total 1",
            "ashlar_s3_request_seconds_bucket{operation=\"GetObject\",le=\"0.0005\"} 1",
            "ashlar_s3_request_seconds_bucket{operation=\"GetObject\",le=\"+Inf\"} 2",
        ] {
            assert!(out.lines().any(|l| l == line), "{line}\n{out}");
        }
    }
}
