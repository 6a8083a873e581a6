//! The answer to `GET history`: the sum over all nodes, and when the capacity is used up.
//!
//! Invariants: a rate is what happened divided by the time that was measured, so that a step that has just begun, or in
//! which a node was down for a while, has the right one; a capacity counts what a node said last, so that a restart
//! shows no dip.
//!
//! Must not depend on: how a node measures.

use ashlar_node::Node;
use ashlar_s3::metrics::BOUNDS as LATENCY_BOUNDS;
use ashlar_s3::target::Query;
use ashlar_time_series::{Point, RESOLUTIONS};
use serde::{Deserialize, Serialize};

use super::Recorder;
use super::series::{self, LATENCIES};
use crate::admin_request::{Refusal, bad_request};
use crate::api::history::{Forecast, HistoryNode, MetricsHistory};
use crate::everywhere::{self, Answers};
use crate::question::{Question, Span};

/// Most steps of an answer.
const MOST: i64 = 400;
/// Lengths of steps in seconds: each is a multiple of the step of a ring that goes back far enough.
const STEPS: [i64; 13] = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];
/// Length of a range by default.
const DEFAULT_S: i64 = 3600;
const DAY: i64 = 86_400;
/// What a forecast looks at.
const FORECAST: (i64, i64) = (30 * DAY, 6 * 3600);
/// How much of it there must be at least.
const ENOUGH_S: i64 = DAY;
/// A forecast that is further away than this says nothing.
const HORIZON_DAYS: f64 = 3650.0;

/// What one node measured.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSteps {
    /// Since when it has measurements, in seconds since 1970.
    pub first_s: Option<i64>,
    /// For each step the measured seconds, then the values.
    pub steps: Vec<Option<Vec<u64>>>,
    /// The last one before.
    pub before: Option<Vec<u64>>,
}

/// What this node measured.
pub(crate) fn own_steps(recorder: &Recorder, span: Span) -> NodeSteps {
    let row = |p: &Point| {
        let mut row = vec![p.covered_s];
        row.extend_from_slice(&p.values);
        row
    };
    recorder.read(|history| {
        let found = history.steps(span.from_s, span.step_s, span.count.min(MOST as usize + 1));
        NodeSteps {
            first_s: history.first_s(),
            steps: found.points.iter().map(|p| p.as_ref().map(row)).collect(),
            before: found.before.as_ref().map(row),
        }
    })
}

/// The span of a request, in at most `most` steps if the longest steps are long enough.
fn span(last_s: i64, until_s: i64, most: i64) -> Result<Span, Refusal> {
    let longest = RESOLUTIONS[RESOLUTIONS.len() - 1].keep_s;
    if !(60..=longest).contains(&last_s) {
        return Err(bad_request(format!("last_s is 60 to {longest} seconds, not {last_s}")));
    }
    if !(1..=MOST).contains(&most) {
        return Err(bad_request(format!("steps is 1 to {MOST}, not {most}")));
    }
    if until_s < last_s || until_s > i64::from(u32::MAX) {
        return Err(bad_request("until_ms is a time in milliseconds since 1970"));
    }
    let step_s = STEPS.into_iter().find(|step| last_s <= step * most).unwrap_or(DAY);
    let end = until_s.div_euclid(step_s) * step_s + if until_s % step_s == 0 { 0 } else { step_s };
    let count = (last_s + step_s - 1).div_euclid(step_s);
    Ok(Span { from_s: end - count * step_s, step_s, count: count as usize })
}

/// Asks all nodes.
async fn everywhere(node: &Node, recorder: &Recorder, span: Span) -> Answers<NodeSteps> {
    let mut all = vec![(node.number(), Ok(own_steps(recorder, span)))];
    all.extend(everywhere::ask(node, &Question::History { span }).await);
    all.sort_by_key(|(number, _)| *number);
    all
}

/// Answers a request.
///
/// # Errors
/// 400: the query is invalid.
pub(crate) async fn answer(
    node: &Node,
    recorder: &Recorder,
    query: &Query,
    now_ms: i64,
) -> Result<MetricsHistory, Refusal> {
    let number = |name: &'static str| {
        let given = query.filled(name).map(str::parse::<i64>).transpose();
        given.map_err(|_| bad_request(format!("{name} is a number")))
    };
    let until_s = number("until_ms")?.unwrap_or(now_ms).div_euclid(1000);
    let last_s = number("last_s")?.unwrap_or(DEFAULT_S);
    let asked = span(last_s, until_s, number("steps")?.unwrap_or(MOST))?;
    let long = span(FORECAST.0, now_ms.div_euclid(1000), FORECAST.0 / FORECAST.1)?;
    let (answers, past) = futures::join!(everywhere(node, recorder, asked), everywhere(node, recorder, long));
    let alone = node.member.is_none();
    let nodes = answers.iter().map(|(number, answer)| HistoryNode {
        node: *number,
        since_ms: answer.as_ref().ok().and_then(|a| a.first_s).map(|s| s * 1000),
        problem: answer.as_ref().err().map(|no| everywhere::why(*number, no)),
    });
    let nodes: Vec<HistoryNode> = nodes.collect();
    let complete = nodes.iter().all(|n| n.problem.is_none());
    let mut all = sum(asked, &good(&answers));
    // Without the drives of a node that does not answer, what is used would jump.
    all.forecast = if complete { forecast(&sum(long, &good(&past)), now_ms) } else { None };
    all.nodes = if alone { None } else { Some(nodes) };
    Ok(all)
}

fn good(answers: &Answers<NodeSteps>) -> Vec<&NodeSteps> {
    answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()).collect()
}

/// The sum of what nodes measured.
fn sum(span: Span, nodes: &[&NodeSteps]) -> MetricsHistory {
    let mut all = MetricsHistory {
        from_ms: span.from_s * 1000,
        step_s: span.step_s as u64,
        ..MetricsHistory::default()
    };
    // What each node said last of its capacity.
    let mut last: Vec<Option<&Vec<u64>>> = nodes.iter().map(|n| n.before.as_ref()).collect();
    for i in 0..span.count {
        let rows: Vec<Option<&Vec<u64>>> =
            nodes.iter().map(|n| n.steps.get(i).and_then(Option::as_ref)).collect();
        for (last, row) in last.iter_mut().zip(&rows) {
            *last = row.or(*last);
        }
        let measured: Vec<&Vec<u64>> = rows.into_iter().flatten().collect();
        let value = |row: &[u64], at: usize| row.get(at + 1).copied().unwrap_or(0);
        let rate = |at: usize| {
            let per_s = |row: &&Vec<u64>| value(row, at) as f64 / row[0].max(1) as f64;
            (!measured.is_empty()).then(|| rounded(measured.iter().map(per_s).sum()))
        };
        for (kind, list) in all.requests().into_iter().enumerate() {
            list.push(rate(series::REQUESTS + kind));
        }
        all.client_errors.push(rate(series::CLIENT_ERRORS));
        all.server_errors.push(rate(series::SERVER_ERRORS));
        all.bytes_in.push(rate(series::BYTES_IN));
        all.bytes_out.push(rate(series::BYTES_OUT));
        let buckets: Vec<u64> = (0..series::LATENCY_BUCKETS)
            .map(|b| measured.iter().map(|row| value(row, LATENCIES + b)).sum())
            .collect();
        all.median_ms.push(quantile(&buckets, 0.5));
        all.p99_ms.push(quantile(&buckets, 0.99));
        let known: Vec<&Vec<u64>> = last.iter().copied().flatten().collect();
        let gauge = |at: usize| (!measured.is_empty()).then(|| known.iter().map(|row| value(row, at)).sum());
        all.capacity_bytes.push(gauge(series::CAPACITY));
        all.free_bytes.push(gauge(series::FREE));
    }
    all
}

/// To three digits after the point.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The time, in milliseconds, in which a part of the requests had their first byte, from a histogram: linear between the
/// bounds, as Prometheus's `histogram_quantile`. `None`: there were no requests.
fn quantile(buckets: &[u64], part: f64) -> Option<f64> {
    let total: u64 = buckets.iter().sum();
    if total == 0 {
        return None;
    }
    let wanted = total as f64 * part;
    let (mut seen, mut lower) = (0.0, 0.0);
    for (count, bound) in buckets.iter().zip(LATENCY_BOUNDS) {
        let (count, upper) = (*count as f64, bound as f64 / 1000.0);
        if seen + count >= wanted && count > 0.0 {
            return Some(rounded(lower + (upper - lower) * (wanted - seen) / count));
        }
        (seen, lower) = (seen + count, upper);
    }
    Some(lower)
}

/// When the capacity is used up, if it goes on as in the last weeks: a line by least squares.
fn forecast(past: &MetricsHistory, now_ms: i64) -> Option<Forecast> {
    let step_s = past.step_s as f64;
    let both = past.capacity_bytes.iter().zip(&past.free_bytes).enumerate();
    let used: Vec<(f64, f64)> = both
        .filter_map(|(i, (all, free))| {
            Some((i as f64 * step_s / DAY as f64, all.as_ref()?.checked_sub((*free)?)? as f64))
        })
        .collect();
    let (first, last) = (used.first()?, used.last()?);
    let days = last.0 - first.0;
    if days * (DAY as f64) < ENOUGH_S as f64 {
        return None;
    }
    let n = used.len() as f64;
    let (mean_x, mean_y) =
        (used.iter().map(|p| p.0).sum::<f64>() / n, used.iter().map(|p| p.1).sum::<f64>() / n);
    let above: f64 = used.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let below: f64 = used.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let slope = above / below;
    let free = past.free_bytes.iter().rev().find_map(|f| *f)? as f64;
    let left = free / slope;
    let full = slope > 0.0 && left < HORIZON_DAYS;
    Some(Forecast {
        bytes_per_day: slope.round() as i64,
        days: rounded(days),
        full_ms: full.then(|| now_ms.saturating_add((left * DAY as f64 * 1000.0) as i64)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(covered: u64, requests: u64, capacity: u64, free: u64) -> Vec<u64> {
        let mut row = vec![0; series::KINDS.len() + 1];
        row[0] = covered;
        row[1 + series::REQUESTS] = requests;
        row[1 + series::CAPACITY] = capacity;
        row[1 + series::FREE] = free;
        row[1 + LATENCIES + 3] = requests;
        row
    }

    #[test]
    fn spans_have_few_steps_that_end_after_the_asked_time() {
        for (last_s, until_s) in
            [(60, 1_764_000_007), (3600, 1_764_000_000), (86_400, 1_764_000_001), (400 * DAY, 1_764_012_345)]
        {
            let span = span(last_s, until_s, MOST).unwrap();
            let end = span.from_s + span.step_s * span.count as i64;
            assert!(span.count <= MOST as usize && span.from_s % span.step_s == 0);
            assert!(end >= until_s && end < until_s + span.step_s, "{last_s}: {span:?}");
            assert!(span.step_s * span.count as i64 >= last_s);
        }
        assert_eq!(span(3600, 1_764_000_000, 24).unwrap().step_s, 300);
        assert!(span(3600, 1_764_000_000, 0).is_err() && span(3600, 1_764_000_000, 401).is_err());
        for (last_s, until_s) in
            [(59, 1_764_000_000), (401 * DAY, 1_764_000_000), (3600, -5), (3600, i64::MAX)]
        {
            assert!(span(last_s, until_s, MOST).is_err(), "{last_s} {until_s}");
        }
    }

    #[test]
    fn rates_are_per_measured_second_and_capacity_has_no_dips() {
        let span = Span { from_s: 1_764_000_000, step_s: 60, count: 4 };
        let one = NodeSteps {
            first_s: None,
            steps: vec![Some(row(60, 600, 100, 50)), Some(row(30, 300, 100, 40)), None, None],
            before: None,
        };
        let two = NodeSteps {
            first_s: None,
            steps: vec![None, Some(row(60, 60, 10, 5)), Some(row(60, 120, 10, 4)), None],
            before: Some(row(60, 0, 10, 9)),
        };
        let all = sum(span, &[&one, &two]);
        assert_eq!(all.reads, [Some(10.0), Some(11.0), Some(2.0), None]);
        assert_eq!(all.capacity_bytes, [Some(110), Some(110), Some(110), None]);
        assert_eq!(all.free_bytes, [Some(59), Some(45), Some(44), None]);
        assert!(all.median_ms[0].unwrap() > 0.5 && all.p99_ms[0].unwrap() <= 1.0);
        assert_eq!((all.writes[0], all.median_ms[3]), (Some(0.0), None));
    }

    #[test]
    fn quantiles_are_between_their_bounds() {
        let mut buckets = [0; series::LATENCY_BUCKETS];
        buckets[0] = 50;
        buckets[4] = 50;
        assert_eq!(quantile(&buckets, 0.25), Some(0.05));
        assert_eq!(quantile(&buckets, 0.75), Some(1.75));
        let mut slow = [0; series::LATENCY_BUCKETS];
        slow[series::LATENCY_BUCKETS - 1] = 1;
        assert_eq!(quantile(&slow, 0.5), Some(10_000.0));
        assert_eq!(quantile(&[0; series::LATENCY_BUCKETS], 0.5), None);
    }

    #[test]
    fn forecast_follows_the_line_and_needs_a_day() {
        let of = |used: &dyn Fn(u64) -> u64, count: u64| {
            let all = MetricsHistory {
                step_s: 6 * 3600,
                capacity_bytes: (0..count).map(|_| Some(1_000_000)).collect(),
                free_bytes: (0..count).map(|i| Some(1_000_000 - used(i))).collect(),
                ..MetricsHistory::default()
            };
            forecast(&all, 0)
        };
        let grows = of(&|i| 100_000 + i * 1000, 41).unwrap();
        assert_eq!((grows.bytes_per_day, grows.days), (4000, 10.0));
        // 860,000 bytes are free.
        assert_eq!(grows.full_ms, Some(215 * DAY * 1000));
        assert_eq!(of(&|i| 500_000 - i * 1000, 41).unwrap().full_ms, None);
        assert_eq!(of(&|_| 500_000, 41).unwrap().full_ms, None);
        assert!(of(&|i| i, 4).is_none());
    }
}
