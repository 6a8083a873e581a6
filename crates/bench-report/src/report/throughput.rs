//! Throughput over time.

use crate::{stat, units};

use super::{
    chart::{Axis, Chart, Scale, Series},
    html::{Cell, Table},
    parts::{Group, Item, groups, id_of, section as framed},
};

/// The section; nothing without timelines.
pub fn section(runs: &[crate::result::Run]) -> String {
    let groups = groups(runs, |i| i.operation.timeline.points.len() > 1 && i.operation.timeline.step_s > 0.0);
    let body: String = groups.iter().map(chart).collect();
    if body.is_empty() {
        return String::new();
    }
    let about = "A flat line is a steady run; the shaded part is warm-up and is not in any other number.";
    framed("throughput", "Throughput over time", about, &body)
}

fn moves_bytes(group: &Group) -> bool {
    group.items.iter().any(|i| i.operation.bytes > 0)
}

fn points(item: &Item, bytes: bool) -> Vec<(f64, f64)> {
    let t = &item.operation.timeline;
    // The last step may be cut off by the end of the phase.
    let end = if t.points.len() > 2 { t.points.len() - 1 } else { t.points.len() };
    t.points[..end]
        .iter()
        .enumerate()
        .map(|(i, p)| {
            ((i as f64 + 0.5) * t.step_s, if bytes { p.bytes as f64 } else { p.count as f64 } / t.step_s)
        })
        .collect()
}

fn chart(group: &Group) -> String {
    let bytes = moves_bytes(group);
    let labels = group.labels();
    let series: Vec<Series> = group
        .items
        .iter()
        .zip(&labels)
        .enumerate()
        .map(|(i, (item, name))| Series {
            name: name.clone(),
            points: points(item, bytes),
            color: i,
            dash: if group.items.len() > 1 { i } else { 0 },
            dots: false,
        })
        .collect();
    let most = series.iter().flat_map(|s| &s.points).map(|p| p.1).fold(0.0, f64::max);
    let long =
        group.items.iter().map(|i| i.operation.timeline.step_s * i.operation.timeline.points.len() as f64);
    let long = long.fold(0.0, f64::max);
    let (factor, unit) = unit(most, bytes);
    let (time, time_unit) = if long > 600.0 { (60.0, "min") } else { (1.0, "s") };
    let warmup = group.items.iter().map(|i| i.phase.warmup_s).fold(0.0, f64::max);
    let faults: Vec<f64> = group
        .items
        .iter()
        .flat_map(|i| {
            let step = i.operation.timeline.step_s;
            let points = i.operation.timeline.points.iter().enumerate();
            points.filter(|(_, p)| p.errors > 0).map(move |(n, _)| (n as f64 + 0.5) * step)
        })
        .take(400)
        .collect();
    let rows = group.items.iter().zip(&labels).map(|(item, name)| row(item, name, bytes));
    let table = Table {
        class: "",
        caption: "Steps after warm-up".to_owned(),
        words: 1,
        head: ["", "Slowest", "Median", "Fastest", "COV"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    };
    let title = format!("{}: throughput over time", group.name);
    let chart = Chart {
        id: id_of(&["throughput", &group.name]),
        about: format!(
            "{} in {unit} over {}. The table beside it holds the numbers.",
            group.name,
            units::seconds(long)
        ),
        title,
        x: Axis {
            label: format!("time, {time_unit}"),
            scale: Scale::Linear,
            min: 0.0,
            max: long.max(1e-9),
            show: Box::new(move |v| units::plain(v / time)),
        },
        y: Axis {
            label: unit.to_owned(),
            scale: Scale::Linear,
            min: 0.0,
            max: most.max(1e-9) * 1.08,
            show: Box::new(move |v| units::plain(v / factor)),
        },
        series,
        shade: (warmup > 0.0).then(|| (warmup, "warm-up".to_owned())),
        limit: None,
        faults,
    };
    format!("{}<div class=\"chart\">{}{}</div>", group.heading(), chart.html(), table.html())
}

fn row(item: &Item, name: &str, bytes: bool) -> Vec<Cell> {
    let t = &item.operation.timeline;
    let steps = if bytes { t.bytes_per_s(item.phase.warmup_s) } else { t.rates_per_s(item.phase.warmup_s) };
    let show = |v: Option<f64>| {
        v.map(|v| if bytes { units::bytes_per_s(v) } else { units::per_s(v) }).unwrap_or_default()
    };
    vec![
        name.into(),
        show(stat::quantile(&steps, 0.0)).into(),
        show(stat::median(&steps)).into(),
        show(stat::quantile(&steps, 1.0)).into(),
        stat::cov(&steps).map(units::percent).unwrap_or_default().into(),
    ]
}

/// A unit in which the largest value has one to three digits before the point.
pub fn unit(most: f64, bytes: bool) -> (f64, &'static str) {
    let units: [(f64, &str); 4] = if bytes {
        [(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")]
    } else {
        [(f64::MAX, ""), (1e9, "billion/s"), (1e6, "million/s"), (1e5, "thousand/s")]
    };
    let found = units.into_iter().find(|(factor, _)| most >= *factor);
    match found {
        Some((1e5, unit)) if !bytes => (1e3, unit),
        Some(unit) => unit,
        None if bytes => (1.0, "B/s"),
        None => (1.0, "operations/s"),
    }
}
