//! Latency percentiles: logarithmic time, and shares by nines, so that the tail is visible.

use crate::{
    result::{Histogram, Run, hist::PERCENTILES},
    units,
};

use super::{
    chart::{Axis, Chart, Scale, Series, log_ends, nines},
    html::{Cell, Table},
    parts::{Group, Item, groups, id_of, section as framed},
};

/// The largest share that is drawn.
const LAST: f64 = 0.99999;

/// The section; nothing without times.
pub fn section(runs: &[Run]) -> String {
    let groups = groups(runs, |i| !curve(i.times()).is_empty());
    let body: String = groups.iter().map(chart).collect();
    if body.is_empty() {
        return String::new();
    }
    let open = groups.iter().flat_map(|g| &g.items).any(|i| i.operation.response.is_some());
    let about = if open {
        "Across, each further nine takes the same space; upwards, each further factor of ten. Response times count from the moment a request was due, service times from when it was sent: where they differ, requests waited to be sent."
    } else {
        "Across, each further nine takes the same space; upwards, each further factor of ten."
    };
    framed("latency", "Latency percentiles", about, &body)
}

/// (share, nanoseconds): from buckets, else from the named percentiles.
fn curve(h: &Histogram) -> Vec<(f64, f64)> {
    if h.count == 0 {
        return Vec::new();
    }
    if h.buckets.is_empty() {
        let named =
            PERCENTILES.iter().filter_map(|&(name, q)| Some((q, *h.percentiles_ns.get(name)? as f64)));
        return named.filter(|p| p.1 > 0.0).collect();
    }
    // Beyond the last whole value nothing is known.
    let last = (1.0 - 1.0 / h.count as f64).clamp(0.0, LAST);
    let steps = (nines(last) / 0.04).ceil() as usize;
    let shares = (0..steps).map(|i| 1.0 - 10f64.powf(-0.04 * i as f64)).chain([last]);
    // One pass over the buckets for all shares.
    let (mut points, mut seen, mut at) = (Vec::with_capacity(steps + 1), 0, 0);
    for q in shares {
        let rank = ((q * h.count as f64).ceil() as u64).max(1);
        while seen < rank && at < h.buckets.len() {
            seen += h.buckets[at].1;
            at += 1;
        }
        let value = h.buckets[at.saturating_sub(1)].0.clamp(h.min_ns, h.max_ns.max(h.min_ns));
        points.push((q, value.max(1) as f64));
    }
    points
}

fn chart(group: &Group) -> String {
    let labels = group.labels();
    let several = group.items.len() > 1;
    // With several operations only the response times are drawn: more lines cannot be distinguished.
    let lines: Vec<(&Histogram, String)> = if several {
        group.items.iter().zip(&labels).map(|(i, label)| (i.times(), label.clone())).collect()
    } else {
        group.items.iter().flat_map(kinds).map(|(h, kind)| (h, kind.to_owned())).collect()
    };
    let mut series = Vec::new();
    for (i, (h, name)) in lines.iter().enumerate() {
        let points = curve(h);
        if !points.is_empty() {
            series.push(Series { name: name.clone(), dots: h.buckets.is_empty(), points, color: i, dash: i });
        }
    }
    let (min, max) = log_ends(series.iter().flat_map(|s| &s.points).map(|p| p.1));
    let last = series.iter().flat_map(|s| &s.points).map(|p| p.0).fold(0.9, f64::max);
    let table = if several { across(&lines) } else { down(&lines) };
    let title = format!("{}: latency percentiles", group.name);
    let chart = Chart {
        id: id_of(&["latency", &group.name]),
        about: format!(
            "Time below which a share of {} stayed, from half of them to {}. The table beside it holds the numbers.",
            group.name,
            units::percent(last)
        ),
        title,
        x: Axis {
            label: "share of operations".to_owned(),
            scale: Scale::Nines,
            min: 0.0,
            max: last,
            show: Box::new(|q| {
                if q == 0.0 { "0 %".to_owned() } else { format!("{} %", (q * 1e7).round() / 1e5) }
            }),
        },
        y: Axis { label: "time".to_owned(), scale: Scale::Log, min, max, show: Box::new(units::plain_ns) },
        series,
        shade: None,
        limit: None,
        faults: Vec::new(),
    };
    format!("{}<div class=\"chart\">{}{}</div>", group.heading(), chart.html(), table.html())
}

/// The histograms of an operation with their names.
fn kinds<'a>(item: &Item<'a>) -> Vec<(&'a Histogram, &'static str)> {
    let o = item.operation;
    let mut kinds = Vec::new();
    kinds.extend(o.response.as_ref().map(|h| (h, "response")));
    kinds.push((&o.service, "service"));
    kinds.extend(o.first_byte.as_ref().map(|h| (h, "first byte")));
    kinds
}

/// A percentile; with too few values a high one would only be the largest value.
fn time(h: &Histogram, q: f64) -> Cell {
    let known = h.buckets.is_empty() || h.count as f64 * (1.0 - q) >= 1.0;
    match h.quantile(q) {
        0 => Cell::default(),
        _ if !known => Cell::from("–"),
        ns => units::ns(ns as f64).into(),
    }
}

/// A row for each percentile.
fn down(lines: &[(&Histogram, String)]) -> Table {
    let mut rows: Vec<Vec<Cell>> = PERCENTILES
        .iter()
        .map(|&(name, q)| {
            [Cell::from(name)].into_iter().chain(lines.iter().map(|(h, _)| time(h, q))).collect()
        })
        .collect();
    for (name, of) in [("largest", (|h| h.max_ns as f64) as fn(&Histogram) -> f64), ("mean", |h| h.mean_ns)] {
        let values =
            lines.iter().map(|(h, _)| if of(h) > 0.0 { units::ns(of(h)).into() } else { Cell::default() });
        rows.push([Cell::from(name)].into_iter().chain(values).collect());
    }
    let head = [String::new()].into_iter().chain(lines.iter().map(|(_, name)| name.clone())).collect();
    Table { class: "", caption: String::new(), words: 1, head, rows }
}

/// A row for each operation.
fn across(lines: &[(&Histogram, String)]) -> Table {
    let rows = lines.iter().map(|(h, name)| {
        let largest = if h.max_ns > 0 { units::ns(h.max_ns as f64).into() } else { Cell::default() };
        vec![name.clone().into(), time(h, 0.5), time(h, 0.99), time(h, 0.999), largest]
    });
    let head = ["", "p50", "p99", "p99.9", "Largest"].map(str::to_owned).to_vec();
    Table { class: "", caption: String::new(), words: 1, head, rows: rows.collect() }
}
