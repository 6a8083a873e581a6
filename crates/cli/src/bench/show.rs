//! `ashlar bench show`: results as tables.

use std::{path::PathBuf, process::ExitCode};

use ashlar_bench_report::{
    result::{Estimate, Histogram, Operation, Phase, Run, settings, title},
    units,
};
use clap::Args;
use comfy_table::{CellAlignment, Table};

use super::results;
use crate::{
    Globals,
    failure::{Failure, Outcome},
    output::{Output, Tone, empty_table},
};

/// What to show.
#[derive(Args, Debug)]
pub struct Options {
    /// Results of `ashlar bench`, warp (JSON, CSV) or fio (JSON); compressed with Zstandard or not
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also show environment and settings
    #[arg(long)]
    all: bool,
}

/// Shows results; with `--json` prints the documents themselves, one per line.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| {
        options.files.iter().try_for_each(|file| {
            let run = results::open(file)?;
            let object = serde_json::to_value(&run).map_err(|e| Failure::usage(e.to_string()))?;
            output.result(|| object, || text(output, &run, options.all));
            Outcome::Ok(())
        })
    })
}

/// A result as tables and lines.
pub fn text(output: &Output, run: &Run, all: bool) -> String {
    let mut lines =
        vec![format!("{}  {}, {}", output.paint(Tone::Folder, title::of(run)), run.mode, run.started)];
    lines.extend(title::server_line(run).map(|line| format!("Server {line}")));
    if !run.command.is_empty() {
        lines.push(run.command.join(" "));
    }
    lines.push(phases(run).to_string());
    let more: Vec<String> = run.phases.iter().filter_map(values).collect();
    lines.extend(more);
    lines.extend(run.caveats.iter().map(|c| results::caveat_text(output, c)));
    if all {
        for host in &run.environment {
            lines.push(format!("{}:", output.paint(Tone::Folder, &host.role)));
            lines.extend(host.facts.iter().map(|(name, fact)| format!("  {name}: {fact}")));
        }
        lines.push(format!("{}:", output.paint(Tone::Folder, "settings")));
        let rows = settings::readable(&run.setup);
        lines.extend(rows.iter().map(|(name, value)| format!("  {name}: {value}")));
    }
    lines.join("\n")
}

fn phases(run: &Run) -> Table {
    let mut table = empty_table();
    let header = [
        "Phase",
        "#",
        "Operation",
        "Rate",
        "Throughput",
        "±95 %",
        "p50",
        "p99",
        "p99.9",
        "Max",
        "Errors",
        "CPU/op",
    ];
    table.set_header(header);
    for (i, column) in table.column_iter_mut().enumerate() {
        if i == 1 || i > 2 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for phase in &run.phases {
        for (i, operation) in phase.operations.iter().enumerate() {
            table.add_row(row(phase, operation, i == 0));
        }
    }
    table
}

fn row(phase: &Phase, operation: &Operation, first: bool) -> Vec<String> {
    let times = operation.response.as_ref().unwrap_or(&operation.service);
    let of = if operation.bytes > 0 { &operation.bytes_per_s } else { &operation.rate_per_s };
    let cost = phase.cost.as_ref().and_then(|c| c.server_us_per_op).filter(|_| first);
    vec![
        if first { phase.key() } else { String::new() },
        if first { phase.repetition.to_string() } else { String::new() },
        operation.name.clone(),
        units::per_s(operation.rate_per_s.mean),
        if operation.bytes > 0 { units::bytes_per_s(operation.bytes_per_s.mean) } else { String::new() },
        margin(of),
        time(times, 0.5),
        time(times, 0.99),
        time(times, 0.999),
        if times.max_ns > 0 { units::ns(times.max_ns as f64) } else { String::new() },
        match operation.failed() {
            0 => "0".to_owned(),
            n => format!("{} of {}", units::count(n as i64), units::count((n + operation.count) as i64)),
        },
        cost.map(|us| units::ns(us * 1e3)).unwrap_or_default(),
    ]
}

/// Half the width of the confidence interval, relative.
fn margin(of: &Estimate) -> String {
    let half = of.ci95.filter(|_| of.mean > 0.0).map(|(low, high)| (high - low) / 2.0 / of.mean);
    half.map(units::percent).unwrap_or_default()
}

fn time(h: &Histogram, q: f64) -> String {
    match h.quantile(q) {
        0 => String::new(),
        ns => units::ns(ns as f64),
    }
}

fn values(phase: &Phase) -> Option<String> {
    let all: Vec<String> = phase.values.iter().map(|(k, v)| format!("{k} {}", units::plain(*v))).collect();
    (!all.is_empty()).then(|| format!("{} #{}: {}", phase.key(), phase.repetition, all.join(", ")))
}
