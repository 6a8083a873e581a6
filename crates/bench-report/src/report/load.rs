//! Latency against load: the knee of a server, and its highest rate within an objective.

use std::collections::BTreeMap;

use crate::{
    result::{Histogram, Load, Phase, Run},
    units,
};

use super::{
    chart::{Axis, Chart, Scale, Series, log_ends},
    html::{Cell, Table, text},
    parts::{id_of, section as framed},
    throughput::unit,
};

/// Fewest different loads that make a sweep.
const LOADS: usize = 3;

/// Share of failed operations with which a load still counts as carried.
const FAILED: f64 = 0.001;

/// The section; nothing without a sweep.
pub fn section(runs: &[Run]) -> String {
    let body: String =
        runs.iter().flat_map(|run| sweeps(run).into_iter().map(|s| chart(run, &s, runs.len() > 1))).collect();
    if body.is_empty() {
        return String::new();
    }
    let about =
        "Further right means more work per second. At the knee, times rise and the work per second does not.";
    framed("load", "Latency against load", about, &body)
}

/// One load of a sweep.
struct Step {
    offered: Load,
    rate: f64,
    bytes: f64,
    times: Histogram,
    errors: u64,
    count: u64,
}

struct Sweep {
    name: String,
    steps: Vec<Step>,
}

fn sweeps(run: &Run) -> Vec<Sweep> {
    let mut by_name: BTreeMap<String, Vec<&Phase>> = BTreeMap::new();
    for phase in &run.phases {
        let name =
            phase.state.as_ref().map_or_else(|| phase.name.clone(), |s| format!("{}, {s}", phase.name));
        by_name.entry(name).or_default().push(phase);
    }
    let mut sweeps = Vec::new();
    for (name, mut phases) in by_name {
        // A search for the knee begins with a closed loop, which has no place among rates.
        let open = |p: &&Phase| matches!(p.load, Load::Open { .. });
        if phases.iter().filter(|p| open(p)).count() >= LOADS {
            phases.retain(open);
        }
        let mut loads: Vec<String> = phases.iter().map(|p| p.load.text()).collect();
        loads.sort();
        loads.dedup();
        if loads.len() < LOADS {
            continue;
        }
        let mut steps: Vec<Step> = phases.iter().map(|p| step(p)).filter(|s| s.times.count > 0).collect();
        steps.sort_by(|a, b| offered(&a.offered).total_cmp(&offered(&b.offered)));
        sweeps.push(Sweep { name, steps });
    }
    sweeps
}

fn offered(load: &Load) -> f64 {
    match load {
        Load::Closed { concurrency } => f64::from(*concurrency),
        Load::Open { rate_per_s, .. } => *rate_per_s,
    }
}

fn step(phase: &Phase) -> Step {
    let mut times = Histogram::default();
    phase.operations.iter().for_each(|o| times.merge(o.response.as_ref().unwrap_or(&o.service)));
    Step {
        offered: phase.load.clone(),
        rate: phase.rate_per_s(),
        bytes: phase.bytes_per_s(),
        times,
        errors: phase.errors(),
        count: phase.count(),
    }
}

/// The objective of a sweep, `p99=50ms`, as (name, share, nanoseconds).
fn objective(run: &Run) -> Option<(String, f64, f64)> {
    // As `bench s3` resolves it, else as it was given.
    if let Some(slo) = run.setup.get("sweep").and_then(|s| s.get("slo")) {
        let percentile = slo.get("percentile")?.as_f64()?;
        return Some((format!("p{percentile}"), percentile / 100.0, slo.get("nanoseconds")?.as_f64()?));
    }
    let slo = run.setup.get("slo")?.as_str()?;
    let (percentile, limit) = slo.split_once('=')?;
    let q = percentile.trim().strip_prefix('p')?.parse::<f64>().ok().filter(|p| (0.0..100.0).contains(p))?
        / 100.0;
    let split = limit.find(|c: char| c.is_alphabetic() || c == 'µ')?;
    let number: f64 = limit[..split].trim().parse().ok()?;
    let factor = match &limit[split..] {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some((percentile.trim().to_owned(), q, number * factor))
}

fn chart(run: &Run, sweep: &Sweep, several: bool) -> String {
    let lines = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
    let series: Vec<Series> = lines
        .iter()
        .enumerate()
        .map(|(i, &(name, q))| Series {
            name: name.to_owned(),
            points: sweep
                .steps
                .iter()
                .map(|s| (s.rate, s.times.quantile(q) as f64))
                .filter(|p| p.1 > 0.0)
                .collect(),
            color: i,
            dash: i,
            dots: true,
        })
        .filter(|s| !s.points.is_empty())
        .collect();
    let slo = objective(run);
    let limits = slo.iter().map(|s| s.2);
    let (min, max) = log_ends(series.iter().flat_map(|s| &s.points).map(|p| p.1).chain(limits));
    let most = sweep.steps.iter().map(|s| s.rate).fold(0.0, f64::max);
    let (factor, rate_unit) = unit(most, false);
    let name = if several { format!("{}: {}", run.name, sweep.name) } else { sweep.name.clone() };
    let within = slo.as_ref().map(|(percentile, q, limit)| {
        let best = sweep
            .steps
            .iter()
            .filter(|s| s.errors as f64 <= FAILED * s.count as f64)
            .filter(|s| s.times.quantile(*q) > 0 && s.times.quantile(*q) as f64 <= *limit)
            .map(|s| s.rate)
            .fold(0.0, f64::max);
        if best > 0.0 {
            format!("Within {percentile} ≤ {}: {}.", units::plain_ns(*limit), units::per_s(best))
        } else {
            format!("No load stayed within {percentile} ≤ {}.", units::plain_ns(*limit))
        }
    });
    let rows = sweep.steps.iter().map(|s| {
        let mut row: Vec<Cell> = vec![
            Cell {
                text: s.offered.text(),
                small: if s.errors > 0 {
                    format!("{} failed", units::count(s.errors as i64))
                } else {
                    String::new()
                },
                tone: "bad",
            },
            Cell {
                text: units::per_s(s.rate),
                small: if s.bytes > 0.0 { units::bytes_per_s(s.bytes) } else { String::new() },
                tone: "",
            },
        ];
        row.extend(lines.iter().map(|&(_, q)| match s.times.quantile(q) {
            0 => Cell::default(),
            ns => units::ns(ns as f64).into(),
        }));
        row
    });
    let table = Table {
        class: "",
        caption: String::new(),
        words: 1,
        head: ["Offered", "Done", "p50", "p99", "p99.9"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    };
    let chart = Chart {
        id: id_of(&["load", &name]),
        title: format!("{name}: latency against load"),
        about: format!(
            "Times of {name} at {} loads. The table beside it holds the numbers.",
            sweep.steps.len()
        ),
        x: Axis {
            label: format!("done, {rate_unit}"),
            scale: Scale::Linear,
            min: 0.0,
            max: most.max(1e-9) * 1.04,
            show: Box::new(move |v| units::plain(v / factor)),
        },
        y: Axis { label: "time".to_owned(), scale: Scale::Log, min, max, show: Box::new(units::plain_ns) },
        series,
        shade: None,
        limit: slo.map(|(percentile, _, limit)| {
            (limit, format!("{percentile} objective, {}", units::plain_ns(limit)))
        }),
        faults: Vec::new(),
    };
    format!(
        "<h3>{}</h3>{}<div class=\"chart\">{}{}</div>",
        text(&name),
        within.map(|w| format!("<p>{}</p>", text(&w))).unwrap_or_default(),
        chart.html(),
        table.html()
    )
}
