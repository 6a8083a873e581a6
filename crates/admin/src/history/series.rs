//! Which values a point of the history has.
//!
//! Invariant: values are only appended to [`KINDS`], because the points of older releases are kept.
//!
//! Must not depend on: when something is measured, how it is stored.

use ashlar_node::Node;
use ashlar_s3::Metrics;
use ashlar_time_series::Kind;

use crate::metrics::capacity;

/// Five values: reads, writes, lists, deletions, other requests.
pub(crate) const REQUESTS: usize = 0;
pub(crate) const CLIENT_ERRORS: usize = 5;
pub(crate) const SERVER_ERRORS: usize = 6;
pub(crate) const BYTES_IN: usize = 7;
pub(crate) const BYTES_OUT: usize = 8;
/// Capacity in bytes, without parity, and what is free of it.
pub(crate) const CAPACITY: usize = 9;
pub(crate) const FREE: usize = 10;
/// How many requests took how long: as many values as the histogram has.
pub(crate) const LATENCIES: usize = 11;
pub(crate) const LATENCY_BUCKETS: usize = ashlar_s3::metrics::BOUNDS.len() + 1;

/// The kinds of values, in their order.
pub(crate) const KINDS: &[Kind] = &{
    let mut kinds = [Kind::Sum; LATENCIES + LATENCY_BUCKETS];
    kinds[CAPACITY] = Kind::Gauge;
    kinds[FREE] = Kind::Gauge;
    kinds
};

/// The kind of requests of an operation.
fn request_kind(operation: &str) -> usize {
    const BEGINNINGS: [(&str, usize); 14] = [
        ("Get", 0),
        ("Head", 0),
        ("Select", 0),
        ("Put", 1),
        ("Post", 1),
        ("Copy", 1),
        ("Upload", 1),
        ("Create", 1),
        ("Complete", 1),
        ("Rename", 1),
        ("Append", 1),
        ("List", 2),
        ("Delete", 3),
        ("Abort", 3),
    ];
    BEGINNINGS.iter().find(|(b, _)| operation.starts_with(b)).map_or(4, |(_, kind)| *kind)
}

/// The values since the start of the process; gauges are as they are now.
pub(crate) fn measure(metrics: &Metrics, node: &Node) -> Vec<u64> {
    let mut values = vec![0; KINDS.len()];
    for total in metrics.totals() {
        values[REQUESTS + request_kind(total.operation)] += total.calls;
        values[CLIENT_ERRORS] += total.client_errors;
        values[SERVER_ERRORS] += total.server_errors;
        values[BYTES_IN] += total.received;
        values[BYTES_OUT] += total.sent;
    }
    values[LATENCIES..].copy_from_slice(&metrics.latencies());
    let capacity = capacity(node);
    values[CAPACITY] = capacity.usable;
    values[FREE] = capacity.usable_free;
    values
}

/// What happened between two measurements.
pub(crate) fn difference(before: &[u64], now: &[u64]) -> Vec<u64> {
    let values = KINDS.iter().zip(before).zip(now);
    values
        .map(|((kind, before), now)| match kind {
            Kind::Sum => now.saturating_sub(*before),
            Kind::Gauge => *now,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_kind_of_their_name() {
        for (operation, kind) in [
            ("GetObject", 0),
            ("HeadBucket", 0),
            ("PutObject", 1),
            ("CompleteMultipartUpload", 1),
            ("CopyObject", 1),
            ("ListObjectsV2", 2),
            ("ListBuckets", 2),
            ("DeleteObjects", 3),
            ("AbortMultipartUpload", 3),
            ("AssumeRole", 4),
        ] {
            assert_eq!(request_kind(operation), kind, "{operation}");
        }
    }

    #[test]
    fn sums_are_differences_and_gauges_are_not() {
        let (mut before, mut now) = (vec![5; KINDS.len()], vec![7; KINDS.len()]);
        now[FREE] = 3;
        before[BYTES_IN] = 9;
        let point = difference(&before, &now);
        assert_eq!((point[REQUESTS], point[FREE], point[CAPACITY], point[BYTES_IN]), (2, 3, 7, 0));
        assert_eq!(point.len(), KINDS.len());
    }
}
