//! warp's aggregate: `.json.zst` (since 1.0: operations by type, requests in windows of ten
//! seconds), and what `warp analyze --json` prints (a list of operations).
//!
//! warp keeps percentiles per window, not histograms. Windows are combined weighted by their
//! requests, which is not a percentile of the whole; a caveat says so.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    error::Error,
    result::{Caveat, Estimate, Histogram, Load, Operation, Phase, Point, Run, Severity, Share, Timeline},
    stat,
};

use super::{document, instant, note, num, rfc3339, text};

/// Understands an aggregate.
pub fn parse(value: &Value) -> Result<Run, Error> {
    let mut run = document("warp", text(value, "warp_version"));
    let mut parts: Vec<(String, &Value)> = Vec::new();
    if let Some(map) = value.get("by_op_type").and_then(Value::as_object) {
        parts.extend(map.iter().map(|(name, v)| (name.clone(), v)));
    } else if let Some(list) = value.get("operations").and_then(Value::as_array) {
        parts.extend(list.iter().map(|v| (text(v, "type").to_owned(), v)));
    }
    parts.retain(|(_, v)| v.is_object());
    if parts.is_empty() {
        return Err(Error::format("the result of warp contains no operations"));
    }
    let start = parts.iter().filter_map(|(_, v)| began(v)).min();
    run.started = start.map(rfc3339).unwrap_or_default();
    let command = text(value, "commandline");
    run.command = command.split_whitespace().map(str::to_owned).collect();
    let operations: Vec<Operation> = parts.iter().map(|(name, v)| operation(name, v)).collect();
    if value.get("final").and_then(Value::as_bool) == Some(false) {
        run.caveats.push(Caveat {
            severity: Severity::Warning,
            code: "incomplete".to_owned(),
            text: "The file was written before the run ended.".to_owned(),
        });
    }
    run.caveats.push(note(
        "approximate-percentiles",
        "Percentiles are those of warp's windows, weighted by their requests and rounded to a millisecond as warp writes \
         them; there is no histogram.",
    ));
    let concurrency = parts.iter().map(|(_, v)| num(v, "concurrency") as u32).max().unwrap_or(0);
    let seconds = parts.iter().filter_map(|(_, v)| v.get("throughput")).map(duration_s).fold(0.0, f64::max);
    let name = if operations.len() == 1 { operations[0].name.to_lowercase() } else { "mixed".to_owned() };
    run.phases = vec![Phase {
        name,
        state: None,
        repetition: 1,
        load: Load::Closed { concurrency },
        at_s: 0.0,
        warmup_s: 0.0,
        seconds,
        stopped_by: "time".to_owned(),
        operations,
        cost: None,
        values: BTreeMap::new(),
    }];
    Ok(run)
}

fn began(v: &Value) -> Option<i128> {
    instant(text(v, "start_time")).or_else(|| instant(text(v.get("throughput")?, "start_time")))
}

fn duration_s(throughput: &Value) -> f64 {
    let millis = num(throughput, "measure_duration_millis");
    if millis > 0.0 {
        return millis / 1e3;
    }
    let ends = (instant(text(throughput, "start_time")), instant(text(throughput, "end_time")));
    if let (Some(start), Some(end)) = ends { (end - start).max(0) as f64 / 1e9 } else { 0.0 }
}

fn operation(name: &str, v: &Value) -> Operation {
    let nothing = Value::Null;
    let throughput = v.get("throughput").unwrap_or(&nothing);
    let seconds = duration_s(throughput);
    let timeline = timeline(throughput);
    let per_s = |total: f64| if seconds > 0.0 { total / seconds } else { 0.0 };
    let estimate = |mean: f64, steps: &[f64]| {
        let of = stat::batched(steps, 20);
        Estimate { mean, ci95: of.ci95.map(|(l, h)| (l - of.mean + mean, h - of.mean + mean)), cov: of.cov }
    };
    let failed = [num(v, "total_errors"), num(v, "errors")].into_iter().fold(0.0, f64::max) as u64;
    let requests =
        [num(v, "total_requests"), num(v, "n")].into_iter().fold(num(throughput, "ops"), f64::max) as u64;
    let bytes = num(v, "total_bytes").max(num(throughput, "bytes"));
    let (service, first_byte) = times(v);
    let shares = v.get("throughput_by_host").and_then(Value::as_object);
    Operation {
        name: name.to_owned(),
        count: requests.saturating_sub(failed),
        bytes: bytes as u64,
        verified_bytes: 0,
        errors: if failed > 0 { BTreeMap::from([("error".to_owned(), failed)]) } else { BTreeMap::new() },
        rate_per_s: estimate(per_s(num(throughput, "objects")), &timeline.rates_per_s(0.0)),
        bytes_per_s: estimate(per_s(num(throughput, "bytes")), &timeline.bytes_per_s(0.0)),
        service,
        response: None,
        first_byte,
        timeline,
        by: shares.into_iter().flatten().map(|(host, t)| (format!("host {host}"), share(t))).collect(),
    }
}

fn share(t: &Value) -> Share {
    let errors = num(t, "errors") as u64;
    Share {
        count: (num(t, "ops") as u64).saturating_sub(errors),
        bytes: num(t, "bytes") as u64,
        errors,
        service: Histogram::default(),
    }
}

fn timeline(throughput: &Value) -> Timeline {
    let Some(segmented) = throughput.get("segmented") else { return Timeline::default() };
    let step_s = num(segmented, "segment_duration_millis") / 1e3;
    let mut segments: Vec<&Value> =
        segmented.get("segments").and_then(Value::as_array).into_iter().flatten().collect();
    // They may come in the order of their speed.
    segments.sort_by_key(|s| instant(text(s, "start")));
    let mut timeline = Timeline { step_s, points: Vec::new() };
    if step_s > 0.0 {
        timeline.points.extend(segments.iter().map(|s| Point {
            count: (num(s, "obj_per_sec") * step_s).round() as u64,
            bytes: (num(s, "bytes_per_sec") * step_s).round() as u64,
            errors: num(s, "errors") as u64,
            max_ns: 0,
        }));
        timeline.coarsen(Timeline::MAX);
    }
    timeline
}

/// Sums of windows, weighted by their requests.
#[derive(Default)]
struct Windows {
    requests: f64,
    mean: f64,
    /// Mean of the squares: from the windows' standard deviations, where there are any.
    squares: f64,
    least: Option<f64>,
    most: f64,
    percentiles: BTreeMap<&'static str, (f64, f64)>,
}

impl Windows {
    fn add(&mut self, n: f64, v: &Value, mean: &str, named: &[(&'static str, &str)]) {
        let mean = num(v, mean);
        self.requests += n;
        self.mean += n * mean;
        self.squares += n * (mean * mean + num(v, "std_dev_millis").powi(2));
        if let Some(fastest) = v.get("fastest_millis").and_then(Value::as_f64) {
            self.least = Some(self.least.map_or(fastest, |l| l.min(fastest)));
        }
        self.most = self.most.max(num(v, "slowest_millis"));
        for &(name, key) in named {
            if let Some(value) = v.get(key).and_then(Value::as_f64) {
                let sum = self.percentiles.entry(name).or_default();
                *sum = (sum.0 + n * value, sum.1 + n);
            }
        }
    }

    fn histogram(&self) -> Histogram {
        if self.requests <= 0.0 {
            return Histogram::default();
        }
        let mean = self.mean / self.requests;
        let ns = |millis: f64| (millis * 1e6).round() as u64;
        Histogram {
            count: self.requests as u64,
            min_ns: ns(self.least.unwrap_or(0.0)),
            max_ns: ns(self.most),
            mean_ns: mean * 1e6,
            stdev_ns: (self.squares / self.requests - mean * mean).max(0.0).sqrt() * 1e6,
            percentiles_ns: self.percentiles.iter().map(|(&k, v)| (k.to_owned(), ns(v.0 / v.1))).collect(),
            buckets: Vec::new(),
        }
    }
}

fn times(v: &Value) -> (Histogram, Option<Histogram>) {
    let (mut service, mut first) = (Windows::default(), Windows::default());
    let mut window = |w: &Value| {
        let single = w.get("single_sized_requests").or_else(|| w.get("multi_sized_requests"));
        let Some(requests) = single.filter(|s| s.get("skipped").and_then(Value::as_bool) != Some(true))
        else {
            return;
        };
        let sizes = requests.get("by_size").and_then(Value::as_array);
        let parts: Vec<&Value> = sizes.map_or_else(|| vec![requests], |list| list.iter().collect());
        for part in parts {
            let n = num(part, "requests");
            let mean =
                if part.get("dur_avg_millis").is_some() { "dur_avg_millis" } else { "avg_duration_millis" };
            let named = [("p50", "dur_median_millis"), ("p90", "dur_90_millis"), ("p99", "dur_99_millis")];
            service.add(n, part, mean, &named);
            if let Some(ttfb) = part.get("first_byte").filter(|f| f.is_object()) {
                let named = [("p50", "median_millis"), ("p90", "p90_millis"), ("p99", "p99_millis")];
                first.add(n, ttfb, "average_millis", &named);
            }
        }
    };
    match v.get("requests_by_client").and_then(Value::as_object) {
        Some(clients) => clients.values().filter_map(Value::as_array).flatten().for_each(&mut window),
        None => window(v),
    }
    (service.histogram(), (first.requests > 0.0).then(|| first.histogram()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(text: &str) -> Run {
        parse(&serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn results_since_version_1_are_imported() {
        let run = fixture(include_str!("../../tests/fixtures/warp-get.json"));
        assert_eq!(run.environment[0].facts["version warp"], "1.1.4");
        assert_eq!(run.command[..2], ["warp", "get"]);
        let phase = &run.phases[0];
        assert_eq!(
            (phase.name.as_str(), phase.load.text(), phase.seconds),
            ("get", "8 in flight".into(), 6.0)
        );
        let get = &phase.operations[0];
        assert_eq!((get.name.as_str(), get.count, get.failed(), get.bytes), ("GET", 3098, 2, 3_250_585_600));
        assert_eq!((get.rate_per_s.mean, get.bytes_per_s.mean), (300.0, 314_572_800.0));
        assert_eq!(get.timeline.points.len(), 6);
        assert_eq!(get.timeline.points[0].count, 310, "by time, not by speed");
        // Two windows: 2,000 requests of 20 ms and 1,000 of 50 ms.
        assert!((get.service.mean_ns - 30e6).abs() < 1.0);
        assert_eq!(get.service.percentiles_ns["p50"], 27_000_000);
        assert_eq!((get.service.min_ns, get.service.max_ns), (3_000_000, 300_000_000));
        assert_eq!(get.first_byte.as_ref().unwrap().percentiles_ns["p99"], 40_000_000);
        assert_eq!(get.service.quantile(0.99), get.service.percentiles_ns["p99"]);
        assert_eq!(get.by["host 127.0.0.1:9000"].count, 3098);
    }

    #[test]
    fn analyze_output_is_imported() {
        let run = fixture(include_str!("../../tests/fixtures/warp-analyze.json"));
        let phase = &run.phases[0];
        assert_eq!(phase.name, "mixed");
        let names: Vec<_> = phase.operations.iter().map(|o| (o.name.as_str(), o.count)).collect();
        assert_eq!(names, [("GET", 450), ("PUT", 150)]);
        assert_eq!(phase.operations[1].service.percentiles_ns["p90"], 80_000_000);
    }

    #[test]
    fn incomplete_files_are_reported() {
        let run = fixture(r#"{"v":2,"final":false,"by_op_type":{"GET":{"total_requests":3}}}"#);
        assert!(run.caveats.iter().any(|c| c.code == "incomplete"));
        assert_eq!(run.phases[0].operations[0].count, 3);
        assert!(parse(&serde_json::json!({"by_op_type": {}})).is_err());
        assert!(parse(&serde_json::json!({"operations": [1, "x"]})).is_err());
    }
}
