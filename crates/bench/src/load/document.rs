//! The head of a result: machine, parameters and caveats.

use std::collections::BTreeMap;

use ashlar_bench_report::{
    result::{Caveat, FORMAT, Host, Run, Severity, VERSION},
    units,
};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{Job, Mode, Sizes, runner::RunContext};
use crate::host::{self, facts, memory_bytes};

/// Something that must be known about a result.
pub(super) fn caveat(severity: Severity, code: &str, text: String) -> Caveat {
    Caveat { severity, code: code.into(), text }
}

/// A result without phases.
pub fn begin(job: &Job, around: &RunContext<'_>) -> Run {
    let started = OffsetDateTime::now_utc();
    let started = started.replace_nanosecond(0).unwrap_or(started);
    let started = started.format(&Rfc3339).unwrap_or_default();
    let mut environment = vec![Host { role: "client".into(), facts: facts() }];
    environment
        .extend(around.agents.iter().map(|a| Host { role: format!("agent {a}"), facts: BTreeMap::new() }));
    environment.extend(around.host.clone());
    Run {
        format: FORMAT.into(),
        version: VERSION,
        mode: "s3".into(),
        // Without one it is called by what was measured, which is known in the end.
        name: around.name.clone().unwrap_or_default(),
        started,
        command: around.command.clone(),
        environment,
        setup: setup(job),
        ..Run::default()
    }
}

/// The job by the names of its options, without secrets.
fn setup(job: &Job) -> BTreeMap<String, Value> {
    let sizes = match &job.sizes {
        Sizes::Fixed(size) => json!(size),
        Sizes::Random(max) => json!(format!("random:{max}")),
        Sizes::Weighted(classes) => {
            json!(classes.iter().map(|(s, w)| format!("{s}:{w}")).collect::<Vec<_>>().join(","))
        }
    };
    let mix = job.mix.iter().map(|(op, w)| format!("{}={w}", op.name())).collect::<Vec<_>>().join(",");
    let mut out = BTreeMap::new();
    let mut put = |name: &str, value: Value| drop(out.insert(name.to_owned(), value));
    put("operation", json!(job.mode.name()));
    put("endpoint", json!(job.target.endpoints));
    // Never the key itself: results are passed on.
    put("credentials", json!(if job.target.keys.is_some() { "signed" } else { "anonymous" }));
    put("region", json!(job.target.keys.as_ref().map(|k| &k.region)));
    put("payload", json!(job.target.payload));
    put("checksum", json!(job.target.checksum));
    put("virtual-host", json!(job.target.virtual_host));
    put("host-select", json!(job.target.select));
    put("timeout", json!(job.target.timeout_s));
    put("bucket", json!(job.bucket));
    put("buckets", json!(job.buckets));
    put("prefix", json!(if job.existing { job.prefix.clone() } else { job.run_prefix() }));
    put("existing", json!(job.existing));
    put("objects", json!(job.objects));
    put("size", sizes);
    put("data", json!(job.shape));
    put("seed", json!(job.seed));
    put("verify", json!(job.verify));
    if let Some(range) = job.range {
        put("range-size", json!(range));
    }
    put("mix", json!(mix));
    put("depth", json!(job.depth));
    put("fanout", json!(job.fanout));
    put("key-order", json!(job.order));
    put("concurrency", json!(job.offer.concurrency));
    put("stop", json!(job.stop));
    put("warmup", json!(job.warmup));
    put("max-error-rate", json!(job.max_error_rate));
    match job.mode {
        Mode::Multipart | Mode::MultipartPut => {
            put("parts", json!(job.parts));
            put("part-size", json!(job.part_size));
        }
        Mode::Versioned => put("versions", json!(job.versions)),
        Mode::Delete => put("batch", json!(job.batch)),
        Mode::List => put("list-keys", json!(job.list_keys)),
        _ => {}
    }
    if let Some(sweep) = &job.sweep {
        put("sweep", json!(sweep));
    }
    out
}

/// Adds what follows from the numbers; `interrupted`: whether the run was ended before its end.
pub fn judge(job: &Job, run: &mut Run, interrupted: bool) {
    let operations = run.phases.iter().flat_map(|p| &p.operations);
    let (good, failed, wrong) = operations.fold((0, 0, 0), |(good, failed, wrong), o| {
        let bad: u64 = o.errors.values().sum();
        let names = ["wrong-bytes", "wrong-length", "wrong-listing", "created-twice", "lost-update"];
        let broken: u64 = names.iter().filter_map(|n| o.errors.get(*n)).sum();
        (good + o.count, failed + bad, wrong + broken)
    });
    if wrong > 0 {
        run.caveats.push(caveat(
            Severity::Invalid,
            "wrong-data",
            format!("{wrong} answers differ from what was written: the server loses or mixes up data"),
        ));
    }
    if failed > 0 {
        let share = failed as f64 / (good + failed) as f64;
        let severity = if share >= 0.01 { Severity::Invalid } else { Severity::Warning };
        run.caveats.push(caveat(
            severity,
            "errors",
            format!("{failed} of {} operations failed ({:.3} %)", good + failed, share * 100.0),
        ));
    }
    let reads = matches!(job.mode, Mode::Get | Mode::Mixed | Mode::Multipart | Mode::Versioned);
    let data = match job.mode {
        Mode::Multipart => job.objects as f64 * job.part_size as f64 * f64::from(job.parts),
        Mode::Versioned => job.objects as f64 * f64::from(job.versions) * job.sizes.mean(),
        _ => job.objects as f64 * job.sizes.mean(),
    };
    if let Some(memory) = memory_bytes().filter(|m| reads && !job.existing && data < *m as f64) {
        run.caveats.push(caveat(
            Severity::Warning,
            "cached-data",
            format!(
                "the {} that are read fit into memory ({} here): the reads may not have reached the drives",
                units::size(data),
                units::size(memory as f64)
            ),
        ));
    }
    if interrupted || run.phases.iter().any(|p| p.stopped_by == "interrupted") {
        run.caveats.push(host::interrupted());
    }
    if job.stop.steady.is_some() && !run.phases.iter().any(|p| p.stopped_by == "steady") {
        let text = "the confidence interval asked for by --steady was not reached in the time given".into();
        run.caveats.push(caveat(Severity::Warning, "not-steady", text));
    }
}
