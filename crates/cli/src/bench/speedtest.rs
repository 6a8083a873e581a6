//! `ashlar speedtest`: measures how fast a server writes and reads objects, in a minute and without options.
//!
//! Invariant: the written objects are removed, also after an interruption.

use std::{process::ExitCode, sync::atomic::Ordering, time::Duration};

use ashlar_bench::{
    Error,
    agent::random_text,
    live::Live,
    load::{self, Mode, Op, RunContext, Session, Sizes, Tune, parse_bytes},
    server::ask,
    spec::objects,
};
use ashlar_bench_report::{
    result::{Caveat, Host, Run, Severity, server, title},
    units,
};
use clap::Args;
use serde_json::{Value, json};

use super::{results, s3, shared};
use crate::{
    Globals,
    aliases::Aliases,
    failure::{Failure, Kind, Outcome},
    output::Output,
};

const AFTER: &str = "\
Objects are written, then read, with as many requests in flight as the server gains from: 8, 16, 32 ... are tried for 2 s \
each until doubling gains less than 5 %. Data lies under a prefix of this run only and is removed. Drives and networks by \
themselves: `ashlar bench drive`, `ashlar bench net`. Everything else: `ashlar bench s3`.

Examples:
  ashlar speedtest it
  ashlar speedtest it/bench --size 64MiB --duration 30s
  ashlar --json speedtest it --size 4KiB --concurrency 32

Exit codes:
  0    measured
  6    measured, but the result is marked invalid (errors, a client at its limit, a measuring machine that stalled)
  130  interrupted; what was measured until then is shown
  others as for every command";

/// What to measure.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub struct Options {
    /// ALIAS[/BUCKET[/PREFIX]]
    target: String,
    /// Size of objects
    #[arg(long, short, default_value = "4MiB", value_parser = parse_bytes, value_name = "SIZE")]
    size: u64,
    /// Duration of writing, and of reading
    #[arg(long, short, default_value = "10s", value_parser = s3::duration, value_name = "TIME")]
    duration: Duration,
    /// Requests in flight [default: increased while the server gains from it]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    concurrency: Option<u32>,
    /// Number of objects that are read
    #[arg(long, default_value_t = 64, value_name = "N")]
    objects: u64,
}

/// Runs the command.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| measure(options, globals, output))
}

fn measure(options: &Options, globals: &Globals, output: &Output) -> Outcome {
    let (alias, location) = options.target.split_once('/').unwrap_or((&options.target, ""));
    let (bucket, prefix) = location.split_once('/').unwrap_or((location, ""));
    let bucket = if bucket.is_empty() { "benchmark" } else { bucket };
    let aliases = Aliases::load(globals)?;
    let target = shared::target(globals, &aliases, alias)?;
    let host = server::host(alias, ask(&target).as_ref());
    let id = random_text().map_err(shared::failed)?;
    let prefix =
        if prefix.is_empty() || prefix.ends_with('/') { prefix.to_owned() } else { format!("{prefix}/") };
    let mut job = objects::job(
        target,
        bucket.to_owned(),
        prefix,
        format!("ashlar-bench-{}", &id[..16]),
        u64::from_str_radix(&id[..12], 16).unwrap_or(1),
        options.concurrency.unwrap_or(8),
        options.duration.as_secs_f64(),
    );
    (job.sizes, job.objects) = (Sizes::Fixed(options.size), options.objects);
    let left = format!("what was written below {}/{} is left behind", job.bucket, job.run_prefix());
    let interrupt = s3::interrupt(Some(left));
    let mut live = Live::new(globals.quiet || globals.json, !globals.no_color);
    let around = RunContext {
        server: None,
        host: Some(host.clone()),
        agents: Vec::new(),
        command: shared::command(),
        name: None,
        interrupt,
    };
    let from = options.concurrency.unwrap_or(8);
    let tune = Tune { from, to: options.concurrency.unwrap_or(256), probe_s: 2.0, gain: 0.05 };
    let mut runs: Vec<Run> = Vec::new();
    for (mode, op) in [(Mode::Put, Op::Put), (Mode::Get, Op::Get)] {
        (job.mode, job.mix) = (mode, vec![(op, 1)]);
        let mut session = Session::new(job.clone()).map_err(shared::failed)?;
        let run = match options.concurrency {
            None => load::tune(&job, &tune, &mut session, &mut live, &around),
            Some(_) => load::drive(&job, &mut session, &mut live, &around),
        };
        runs.push(run.map_err(|e| failure_for_alias(e, alias))?);
        if interrupt.load(Ordering::Relaxed) {
            break;
        }
    }
    output.result(|| object(&host, &runs), || text(output, &runs));
    if interrupt.load(Ordering::Relaxed) {
        return Err(Failure::new(Kind::Interrupted, "interrupted"));
    }
    match caveats(&runs).any(|c| c.severity == Severity::Invalid) {
        true => Err(Failure::new(Kind::Partly, "measured, but the result is marked invalid")),
        false => Ok(()),
    }
}

fn failure_for_alias(error: Error, alias: &str) -> Failure {
    Failure { what: format!("cannot measure `{alias}`"), ..shared::failed(error) }
}

/// Caveats, without those that every short run has.
fn caveats(runs: &[Run]) -> impl Iterator<Item = &Caveat> {
    runs.iter().flat_map(|r| &r.caveats).filter(|c| !matches!(c.code.as_str(), "cached-data" | "not-steady"))
}

fn object(host: &Host, runs: &[Run]) -> Value {
    let rows = runs.iter().flat_map(|r| &r.phases).flat_map(|phase| {
        phase.operations.iter().map(move |o| {
            let percentile = |p: &str| o.service.percentiles_ns.get(p).copied();
            json!({
                "operation": o.name, "load": phase.load, "seconds": phase.seconds, "count": o.count, "errors": o.failed(),
                "bytes_per_s": o.bytes_per_s.mean, "rate_per_s": o.rate_per_s.mean,
                "p50_ns": percentile("p50"), "p99_ns": percentile("p99"),
            })
        })
    });
    json!({
        "server": host.facts,
        "size": runs.first().and_then(|r| r.setup.get("size")),
        "operations": rows.collect::<Vec<_>>(),
        "caveats": caveats(runs).collect::<Vec<_>>(),
    })
}

fn text(output: &Output, runs: &[Run]) -> String {
    let header = ["", "Throughput", "Objects", "p50", "p99", "Errors", "In flight"];
    let mut table = shared::table(&header, 1);
    for phase in runs.iter().flat_map(|r| &r.phases) {
        for o in &phase.operations {
            let percentile = |p: &str| {
                o.service.percentiles_ns.get(p).map_or_else(String::new, |ns| units::ns(*ns as f64))
            };
            table.add_row([
                o.name.clone(),
                units::bytes_per_s(o.bytes_per_s.mean),
                units::per_s(o.rate_per_s.mean),
                percentile("p50"),
                percentile("p99"),
                o.failed().to_string(),
                phase.load.text().trim_end_matches(" in flight").to_owned(),
            ]);
        }
    }
    let mut lines: Vec<String> = runs.first().and_then(title::server_line).into_iter().collect();
    lines.push(table.to_string());
    lines.extend(caveats(runs).map(|c| results::caveat_text(output, c)));
    lines.join("\n")
}
