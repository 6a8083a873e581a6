//! The parts in words and tables: what came out, what changed, what to beware of, where it ran.

use crate::{
    compare::{self, Verdict},
    merge::setup_line,
    result::{Run, Severity},
    units,
};

use super::{
    html::{Cell, Table, text},
    items, section,
};

/// Which runs these are, in a sentence.
pub fn lead(runs: &[Run]) -> String {
    let when = |r: &Run| match r.started.get(..16) {
        Some(at) => format!("{} UTC", at.replace('T', " ")),
        None => "at an unknown time".to_owned(),
    };
    let kind = |r: &Run| match r.mode.as_str() {
        "s3" => "S3 load".to_owned(),
        "drive" => "Drives".to_owned(),
        "net" => "Network".to_owned(),
        "spec" => "Life cycle".to_owned(),
        "import" => format!(
            "Imported from {}",
            r.setup.get("tool").and_then(|t| t.as_str()).unwrap_or("another tool")
        ),
        other => other.to_owned(),
    };
    match runs {
        [] => "There is nothing to report.".to_owned(),
        [one] => format!("{}, {}.", kind(one), when(one)),
        [first, ..] => {
            format!("{} results; the first: {}, {}.", runs.len(), kind(first).to_lowercase(), when(first))
        }
    }
}

/// Every phase and operation.
pub fn results(runs: &[Run]) -> String {
    let several = runs.len() > 1;
    let rows = items(runs).map(|i| {
        let o = i.operation;
        let times = i.times();
        let of = if o.bytes > 0 { &o.bytes_per_s } else { &o.rate_per_s };
        let margin = of.ci95.filter(|_| of.mean > 0.0).map(|(l, h)| (h - l) / 2.0 / of.mean);
        let time = |q: f64| match times.quantile(q) {
            0 => String::new(),
            ns => units::ns(ns as f64),
        };
        let cost = i.phase.cost.as_ref().filter(|_| i.phase.operations.len() == 1);
        let failed = o.failed();
        let mut name = Cell::from(format!("{} {}", i.phase.name, repeated(i.phase.repetition, i.run)));
        name.text = name.text.trim_end().to_owned();
        let mut under: Vec<String> = Vec::new();
        if several {
            under.push(i.run.name.clone());
        }
        under.extend(i.phase.state.clone());
        under.push(i.phase.load.text());
        name.small = under.join(", ");
        vec![
            name,
            o.name.clone().into(),
            Cell {
                text: if o.bytes > 0 { units::bytes_per_s(of.mean) } else { units::per_s(of.mean) },
                small: margin.map(|m| format!("± {}", units::percent(m))).unwrap_or_default(),
                tone: "",
            },
            if o.bytes > 0 { units::per_s(o.rate_per_s.mean).into() } else { Cell::default() },
            time(0.5).into(),
            time(0.99).into(),
            time(0.999).into(),
            Cell {
                text: units::count(failed as i64),
                small: if failed > 0 {
                    units::percent(failed as f64 / (failed + o.count) as f64)
                } else {
                    String::new()
                },
                tone: "bad",
            },
            cost.and_then(|c| c.server_us_per_op).map(|us| units::ns(us * 1e3)).unwrap_or_default().into(),
            cost.and_then(|c| c.client_us_per_op).map(|us| units::ns(us * 1e3)).unwrap_or_default().into(),
        ]
    });
    let table = Table {
        class: "stack",
        caption: String::new(),
        words: 2,
        head: [
            "Phase",
            "Operation",
            "Throughput",
            "Rate",
            "p50",
            "p99",
            "p99.9",
            "Errors",
            "Server CPU/op",
            "Client CPU/op",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: rows.collect(),
    };
    let waited = items(runs).any(|i| i.operation.response.is_some());
    let about = if waited {
        "Times are response times: from the moment a request was due to the end of its answer, so that a stall counts."
    } else {
        "Times are service times: from sending a request to the end of its answer."
    };
    section("results", "Results", about, &table.html())
}

fn repeated(repetition: u32, run: &Run) -> String {
    if run.phases.iter().any(|p| p.repetition > 1) { format!("#{repetition}") } else { String::new() }
}

/// What changed, when there are two results.
pub fn change(runs: &[Run]) -> String {
    let [before, after] = runs else { return String::new() };
    let c = compare::compare(before, after, 0.05, 1);
    if c.rows.is_empty() {
        return String::new();
    }
    let show = |metric: &str, v: f64| match metric {
        "bytes_per_s" => units::bytes_per_s(v),
        "rate_per_s" => units::per_s(v),
        "error_share" => units::percent(v),
        "server_s_per_gib" => units::seconds(v),
        m if m.ends_with("_us_per_op") => units::ns(v * 1e3),
        _ => units::ns(v),
    };
    let named = |metric: &str| match metric {
        "bytes_per_s" => "throughput".to_owned(),
        "rate_per_s" => "rate".to_owned(),
        "error_share" => "failed".to_owned(),
        m => m
            .trim_end_matches("_ns")
            .trim_end_matches("_us_per_op")
            .trim_end_matches("_s_per_gib")
            .replace('_', " CPU "),
    };
    let rows = c.rows.iter().map(|r| {
        let (word, tone) = match r.verdict {
            Verdict::Regression => ("worse", "bad"),
            Verdict::Improvement => ("better", "good"),
            Verdict::WithinLimit => ("within 5 %", ""),
            Verdict::Uncertain => ("uncertain", ""),
        };
        let p = r.p.map(|p| if p < 1e-4 { "p < 0.0001".to_owned() } else { format!("p = {p:.4}") });
        let interval = r.ratio.map(|(_, l, h)| format!("{} to {}", units::change(l), units::change(h)));
        vec![
            Cell { text: format!("{} {}", r.operation, named(&r.metric)), small: r.phase.clone(), tone: "" },
            show(&r.metric, r.before).into(),
            show(&r.metric, r.after).into(),
            Cell {
                text: if r.metric == "error_share" {
                    String::new()
                } else {
                    units::change(r.after / r.before)
                },
                small: interval.unwrap_or_default(),
                tone: "",
            },
            Cell { text: word.to_owned(), small: p.unwrap_or_default(), tone },
        ]
    });
    let table = Table {
        class: "stack",
        caption: String::new(),
        words: 1,
        head: ["Number", &before.name, &after.name, "Change", "Verdict"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    };
    let differ = match c.setup.len() {
        0 => String::new(),
        _ => format!(" The settings differ: {}.", c.setup.join("; ")),
    };
    let about = format!(
        "Worse and better are differences of more than 5 % that are significant at 5 %; uncertain is what may be chance.{differ}"
    );
    section("change", "What changed", &about, &table.html())
}

/// Everything a reader must know.
pub fn caveats(runs: &[Run]) -> String {
    let mut list: Vec<(Severity, String)> = Vec::new();
    for run in runs {
        for c in &run.caveats {
            let whose = if runs.len() > 1 { format!("{}: ", run.name) } else { String::new() };
            list.push((c.severity, format!("{whose}{}", c.text)));
        }
    }
    if list.is_empty() {
        let none = "<p>The checks found nothing that speaks against these numbers.</p>";
        return section("caveats", "Before you believe the numbers", "", none);
    }
    list.sort_by_key(|c| std::cmp::Reverse(c.0));
    let lines: Vec<String> = list
        .iter()
        .map(|(severity, what)| {
            let (word, class) = match severity {
                Severity::Invalid => ("Invalid", "bad"),
                Severity::Warning => ("Warning", "warn"),
                Severity::Note => ("Note", ""),
            };
            format!("<li><b class=\"{class}\">{word}</b> {}</li>", text(what))
        })
        .collect();
    section(
        "caveats",
        "Before you believe the numbers",
        "",
        &format!("<ul class=\"said\">{}</ul>", lines.concat()),
    )
}

/// Machines, side by side.
pub fn environment(runs: &[Run]) -> String {
    let several = runs.len() > 1;
    let mut hosts: Vec<(String, &std::collections::BTreeMap<String, String>)> = Vec::new();
    for run in runs {
        for host in &run.environment {
            // The same machine in several results is shown once.
            if !hosts.iter().any(|(role, facts)| role.ends_with(&host.role) && **facts == host.facts) {
                let role = if several { format!("{}: {}", run.name, host.role) } else { host.role.clone() };
                hosts.push((role, &host.facts));
            }
        }
    }
    let tables = hosts.iter().filter(|(_, facts)| !facts.is_empty()).map(|(role, facts)| {
        let show = |name: &str, value: &str| match value.parse::<f64>() {
            Ok(v) if name.ends_with("_bytes") => units::size(v),
            _ => value.to_owned(),
        };
        let rows = facts.iter().map(|(name, value)| {
            let shown = name.trim_end_matches("_bytes").replace('_', " ");
            vec![shown.into(), Cell::from(show(name, value))]
        });
        let table = Table {
            class: "facts",
            caption: String::new(),
            words: 2,
            head: vec!["Fact".into(), "Value".into()],
            rows: rows.collect(),
        };
        format!("<h3>{}</h3>{}", text(&capital(role)), table.html())
    });
    let body: String = tables.collect();
    if body.is_empty() { String::new() } else { section("environment", "Where it ran", "", &body) }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Settings as given and as resolved.
pub fn settings(runs: &[Run]) -> String {
    let lines = runs.iter().filter(|r| !r.setup.is_empty()).map(|run| {
        let title = if runs.len() > 1 { format!("<h3>{}</h3>", text(&run.name)) } else { String::new() };
        format!("{title}<pre>{}</pre>", text(&setup_line(&run.setup)))
    });
    let body: String = lines.collect();
    if body.is_empty() { String::new() } else { section("settings", "Settings", "", &body) }
}

/// The commands that repeat it.
pub fn command(runs: &[Run]) -> String {
    let lines: Vec<String> =
        runs.iter().filter(|r| !r.command.is_empty()).map(|r| r.command.join(" ")).collect();
    if lines.is_empty() {
        return String::new();
    }
    section("command", "Command", "", &format!("<pre>{}</pre>", text(&lines.join("\n"))))
}
