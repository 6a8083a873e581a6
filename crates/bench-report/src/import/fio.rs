//! fio's `--output-format=json` and `json+` (with histograms), of one job or many.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    error::Error,
    result::{Estimate, Histogram, Load, Operation, Phase, Run, Timeline},
    stat::distribution::t_quantile,
};

use super::{document, note, num, rfc3339, text};

/// Understands fio's JSON.
pub fn parse(value: &Value) -> Result<Run, Error> {
    let mut run = document("fio", text(value, "fio version"));
    let jobs: Vec<&Value> = value.get("jobs").and_then(Value::as_array).into_iter().flatten().collect();
    let clients: Vec<&Value> =
        value.get("client_stats").and_then(Value::as_array).into_iter().flatten().collect();
    // With remote clients fio adds a job that sums up all others.
    let all = jobs.into_iter().chain(clients).filter(|j| text(j, "jobname") != "All clients");
    // fio's time is that of the report.
    let end_ms = num(value, "timestamp_ms");
    let mut longest = 0.0f64;
    let global = value.get("global options").cloned().unwrap_or(Value::Null);
    for job in all {
        let phase = phase(job, &global);
        if phase.operations.is_empty() {
            continue;
        }
        longest = longest.max(phase.seconds);
        run.setup.insert(format!("job {}", phase.name), options(job, &global));
        let repetition = 1 + run.phases.iter().filter(|p| p.key() == phase.key()).count() as u32;
        run.phases.push(Phase { repetition, ..phase });
    }
    if run.phases.is_empty() {
        return Err(Error::format("the result of fio contains no job that did any I/O"));
    }
    run.started = rfc3339(((end_ms / 1e3 - longest) * 1e9) as i128);
    if run.phases.iter().flat_map(|p| &p.operations).any(|o| o.service.buckets.is_empty()) {
        run.caveats.push(note(
            "no-histogram",
            "Percentiles as fio names them; `--output-format=json+` keeps histograms.",
        ));
    }
    run.caveats.push(note(
        "completion-time",
        "Times are fio's total latency where it keeps its distribution, else completion latency (without submission).",
    ));
    Ok(run)
}

fn options(job: &Value, global: &Value) -> Value {
    let mut all = global.as_object().cloned().unwrap_or_default();
    all.extend(job.get("job options").and_then(Value::as_object).cloned().unwrap_or_default());
    Value::Object(all)
}

fn phase(job: &Value, global: &Value) -> Phase {
    let options = options(job, global);
    let number = |key: &str| text(&options, key).parse::<u32>().unwrap_or(1);
    let operations: Vec<Operation> =
        ["read", "write", "trim"].iter().filter_map(|&name| operation(name, job.get(name)?)).collect();
    let seconds =
        ["read", "write", "trim"].iter().filter_map(|&n| job.get(n)).map(|v| num(v, "runtime") / 1e3);
    let seconds = seconds.fold(0.0, f64::max);
    let mut values = BTreeMap::new();
    for (name, key) in [("user_cpu_percent", "usr_cpu"), ("system_cpu_percent", "sys_cpu")] {
        values.insert(name.to_owned(), num(job, key));
    }
    Phase {
        name: text(job, "jobname").to_owned(),
        state: None,
        repetition: 1,
        load: Load::Closed { concurrency: number("iodepth").max(1) },
        at_s: 0.0,
        warmup_s: 0.0,
        seconds,
        stopped_by: "time".to_owned(),
        operations,
        cost: None,
        values,
    }
}

fn operation(name: &str, v: &Value) -> Option<Operation> {
    let count = num(v, "total_ios") as u64;
    if count == 0 {
        return None;
    }
    Some(Operation {
        name: name.to_owned(),
        count,
        bytes: num(v, "io_bytes") as u64,
        rate_per_s: estimate(
            num(v, "iops"),
            num(v, "iops_mean"),
            num(v, "iops_stddev"),
            num(v, "iops_samples"),
        ),
        // fio gives this mean and deviation in KiB/s.
        bytes_per_s: estimate(num(v, "bw_bytes"), num(v, "bw_mean"), num(v, "bw_dev"), num(v, "bw_samples")),
        service: times(v),
        timeline: Timeline::default(),
        ..Operation::default()
    })
}

/// fio's own samples (every half second or `--bwavgtime`) as batches.
fn estimate(mean: f64, of_samples: f64, stdev: f64, n: f64) -> Estimate {
    let cov = (n >= 2.0 && of_samples > 0.0).then(|| stdev / of_samples);
    let half = cov.filter(|_| n >= 5.0).map(|cov| t_quantile(0.975, n - 1.0) * cov * mean / n.sqrt());
    Estimate { mean, ci95: half.map(|h| (mean - h, mean + h)), cov }
}

fn times(v: &Value) -> Histogram {
    let keeps = |t: &&Value| t.get("bins").is_some() || t.get("percentile").is_some();
    let Some(t) = v.get("lat_ns").filter(keeps).or_else(|| v.get("clat_ns")) else {
        return Histogram::default();
    };
    let bins = t.get("bins").and_then(Value::as_object);
    let pairs = bins.into_iter().flatten().filter_map(|(ns, n)| Some((ns.parse::<u64>().ok()?, n.as_u64()?)));
    let mut histogram = Histogram::from_buckets(pairs);
    if histogram.buckets.is_empty() {
        let given = t.get("percentile").and_then(Value::as_object);
        histogram.percentiles_ns = given
            .into_iter()
            .flatten()
            .filter_map(|(name, ns)| Some((percentile_name(name.parse().ok()?)?, ns.as_u64()?)))
            .collect();
    }
    histogram.count = num(t, "N") as u64;
    histogram.min_ns = num(t, "min") as u64;
    histogram.max_ns = num(t, "max") as u64;
    histogram.mean_ns = num(t, "mean");
    histogram.stdev_ns = num(t, "stddev");
    histogram
}

fn percentile_name(percent: f64) -> Option<String> {
    let known = crate::result::hist::PERCENTILES.iter().find(|p| (p.1 * 100.0 - percent).abs() < 1e-9);
    known.map(|p| p.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(text: &str) -> Run {
        parse(&serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn plain_results_are_imported() {
        let run = fixture(include_str!("../../tests/fixtures/fio-seq.json"));
        let phase = &run.phases[0];
        assert_eq!((phase.name.as_str(), phase.seconds, phase.operations.len()), ("seq", 1.001, 1));
        let write = &phase.operations[0];
        assert_eq!((write.name.as_str(), write.count, write.bytes), ("write", 18375, 2_408_448_000));
        assert!((write.bytes_per_s.mean - 2_406_041_958.0).abs() < 1.0);
        assert_eq!(write.service.percentiles_ns["p99.9"], 2_998_272);
        assert_eq!(write.service.quantile(0.5), 50_432);
        assert!(write.rate_per_s.ci95.is_none(), "two samples are too few");
        assert_eq!(run.started, "2026-11-21T15:26:38.485Z");
        assert_eq!(phase.values["system_cpu_percent"], 84.9);
        assert_eq!(run.environment[0].facts["version fio"], "fio-3.33");
    }

    #[test]
    fn results_with_histograms_are_imported() {
        let run = fixture(include_str!("../../tests/fixtures/fio-randrw-plus.json"));
        assert_eq!(run.phases.len(), 2, "two jobs of one name");
        assert_eq!(run.phases.iter().map(|p| p.repetition).collect::<Vec<_>>(), [1, 2]);
        for operation in run.phases.iter().flat_map(|p| &p.operations) {
            let counted: u64 = operation.service.buckets.iter().map(|b| b.1).sum();
            assert_eq!(counted, operation.service.count, "{}", operation.name);
            assert_eq!(operation.service.percentiles_ns.len(), 5);
        }
        assert!(run.caveats.iter().all(|c| c.code != "no-histogram"));
    }

    #[test]
    fn jobs_without_io_are_skipped() {
        assert!(parse(&serde_json::json!({"fio version": "fio-3.33", "jobs": [{"jobname": "a"}]})).is_err());
        assert!(parse(&serde_json::json!({"fio version": "fio-3.33"})).is_err());
    }
}
