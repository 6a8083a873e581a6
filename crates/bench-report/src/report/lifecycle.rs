//! The life-cycle matrix: phases down, states across, each state against nominal.

use crate::{
    result::averaged,
    result::{Phase, Run},
    stat, units,
};

use super::{
    html::{Cell, Table, text},
    parts::section as framed,
};

/// The states in the order of a drive's life.
pub const STATES: [&str; 5] = ["baseline", "nominal", "down", "rebuild", "after"];

/// The section; nothing where no phase has a state.
pub fn section(runs: &[Run]) -> String {
    let body: String = runs
        .iter()
        .filter(|r| r.phases.iter().any(|p| p.state.is_some()))
        .map(|run| {
            let title = if runs.len() > 1 { format!("<h3>{}</h3>", text(&run.name)) } else { String::new() };
            format!("{title}{}{}", matrix(run), rebuild(run))
        })
        .collect();
    if body.is_empty() {
        return String::new();
    }
    let about = "Means of the repetitions; the difference from the first state is below them. COV is the standard deviation of the repetitions divided by their mean.";
    framed("lifecycle", "Life cycle", about, &body)
}

fn states(run: &Run) -> Vec<String> {
    let mut found: Vec<String> = run.phases.iter().filter_map(|p| p.state.clone()).collect();
    found.sort_by_key(|s| STATES.iter().position(|known| known == s).unwrap_or(STATES.len()));
    found.dedup();
    let mut unique: Vec<String> = Vec::new();
    found.into_iter().for_each(|s| {
        if !unique.contains(&s) {
            unique.push(s)
        }
    });
    unique
}

/// What is shown of each phase: name, whether less is better, value of a repetition, how to write it.
type Measure = (&'static str, bool, fn(&Phase) -> Option<f64>, fn(f64) -> String);

fn large(phase: &Phase) -> bool {
    phase.bytes_per_s() >= 65536.0 * phase.rate_per_s() && phase.bytes_per_s() > 0.0
}

fn matrix(run: &Run) -> String {
    let states = states(run);
    let mut names: Vec<&str> = Vec::new();
    for phase in run.phases.iter().filter(|p| p.state.is_some()) {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    let p99 = |p: &Phase| {
        let worst =
            p.operations.iter().map(|o| o.response.as_ref().unwrap_or(&o.service).quantile(0.99)).max();
        worst.filter(|ns| *ns > 0).map(|ns| ns as f64)
    };
    let measures: [Measure; 4] = [
        // Large operations are compared in bytes, small ones in operations.
        ("throughput", false, |p| Some(p.bytes_per_s()).filter(|_| large(p)), units::bytes_per_s),
        ("rate", false, |p| Some(p.rate_per_s()).filter(|v| *v > 0.0 && !large(p)), units::per_s),
        ("p99", true, p99, units::ns),
        ("rate per CPU %", false, |p| p.values.get("work_per_cpu_percent").copied(), units::per_s),
    ];
    let mut rows = Vec::new();
    for name in names {
        for (what, less, of, show) in &measures {
            let of_state = |state: &str| -> Vec<f64> {
                let mine =
                    averaged(&run.phases).filter(|p| p.name == name && p.state.as_deref() == Some(state));
                mine.filter_map(of).collect()
            };
            // The drives without the array, where they were measured.
            let first = states.first().map_or("nominal", String::as_str);
            let reference = stat::mean(&of_state(first));
            let cells: Vec<Cell> =
                states.iter().map(|s| cell(&of_state(s), s == first, reference, *less, *show)).collect();
            if cells.iter().all(|c| c.text.is_empty()) {
                continue;
            }
            let mut row = vec![Cell { text: name.to_owned(), small: (*what).to_owned(), tone: "" }];
            row.extend(cells);
            rows.push(row);
        }
    }
    let mut head = vec!["Phase".to_owned()];
    head.extend(states);
    Table { class: "matrix", caption: String::new(), words: 1, head, rows }.html()
}

fn cell(
    values: &[f64],
    is_reference: bool,
    reference: Option<f64>,
    less: bool,
    show: fn(f64) -> String,
) -> Cell {
    let Some(mean) = stat::mean(values) else { return Cell::default() };
    let (mut small, mut tone) = (String::new(), "");
    if is_reference {
        if let Some(cov) = stat::cov(values) {
            small = format!("COV\u{a0}{}", units::percent(cov)).replace(" %", "\u{a0}%");
        }
    } else if let Some(reference) = reference.filter(|n| *n > 0.0) {
        let ratio = mean / reference;
        // No break within a number: on a phone they go one below the other.
        small = format!("{} {}×", units::change(ratio), units::number(ratio)).replace(" %", "\u{a0}%");
        let worse = if less { ratio > 1.05 } else { ratio < 0.95 };
        tone = if worse { "bad" } else { "" };
    }
    Cell { text: show(mean), small, tone }
}

/// How the rebuild went, in a sentence.
fn rebuild(run: &Run) -> String {
    let of = |name: &str| {
        let values: Vec<f64> = run.phases.iter().filter_map(|p| p.values.get(name).copied()).collect();
        values.into_iter().fold(None, |most: Option<f64>, v| Some(most.map_or(v, |m| m.max(v))))
    };
    let Some(seconds) = of("rebuild_seconds") else { return String::new() };
    let mut said = format!("The rebuild took {}", units::seconds(seconds));
    if let Some(bytes) = of("rebuild_bytes") {
        said.push_str(&format!(" for {}", units::bytes(bytes)));
    }
    if let Some(rate) = of("rebuild_bytes_per_s") {
        said.push_str(&format!(", {}", units::bytes_per_s(rate)));
    }
    if let Some(items) = of("rebuild_items") {
        said.push_str(&format!(", {} records", units::count(items as i64)));
    }
    if let Some(rate) = of("rebuild_items_per_s") {
        said.push_str(&format!(", {}", units::per_s(rate)));
    }
    if let Some(slow) = of("foreground_slowdown_percent") {
        said.push_str(&format!(
            ", while the foreground kept {} of its nominal rate",
            units::percent(1.0 - slow / 100.0)
        ));
    }
    format!("<p>{}.</p>", text(&said))
}
