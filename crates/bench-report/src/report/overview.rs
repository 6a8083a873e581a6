//! The parts in words and tables: results, changes, caveats, environment.

use crate::{
    compare::{self, Verdict},
    result::{Cost, Estimate, Histogram, Run, Severity, settings as shown, title},
    stat, units,
};

use super::{
    html::{Cell, Table, text},
    parts::{Item, items, prose, section},
};

/// Which runs these are, in a sentence, and a line for each server that was measured.
pub fn lead(runs: &[Run]) -> Vec<String> {
    let mut lines = vec![which(runs)];
    for run in runs {
        lines.extend(title::server_line(run).map(|l| format!("Server {l}")).filter(|l| !lines.contains(l)));
    }
    lines
}

fn which(runs: &[Run]) -> String {
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

/// Repetitions of one operation.
struct Line<'a> {
    run: &'a Run,
    items: Vec<Item<'a>>,
}

impl Line<'_> {
    fn row(&self, several: bool) -> Vec<Cell> {
        let Item { phase, operation, .. } = self.items[0];
        let moves_bytes = operation.bytes > 0;
        let of = |bytes: bool| -> Estimate {
            let each = self
                .items
                .iter()
                .map(|i| if bytes { i.operation.bytes_per_s } else { i.operation.rate_per_s });
            let each: Vec<Estimate> = each.collect();
            match each[..] {
                [one] => one,
                _ => stat::estimate(&each.iter().map(|e| e.mean).collect::<Vec<_>>()),
            }
        };
        let shown = of(moves_bytes);
        let margin = shown.ci95.filter(|_| shown.mean > 0.0).map(|(l, h)| (h - l) / 2.0 / shown.mean);
        let mut times = Histogram::default();
        self.items.iter().for_each(|i| times.merge(i.times()));
        let time = |q: f64| match times.quantile(q) {
            0 => String::new(),
            ns => units::ns(ns as f64),
        };
        let failed: u64 = self.items.iter().map(|i| i.operation.failed()).sum();
        let done: u64 = self.items.iter().map(|i| i.operation.count).sum();
        // The cost of a phase with several kinds of operations belongs to none of them.
        let cost = |of: fn(&Cost) -> Option<f64>| {
            let alone = self.items.iter().filter(|i| i.phase.operations.len() == 1);
            let each: Vec<f64> = alone.filter_map(|i| i.phase.cost.as_ref().and_then(of)).collect();
            stat::mean(&each).map(|us| units::ns(us * 1e3)).unwrap_or_default()
        };
        let mut under: Vec<String> = Vec::new();
        if several {
            under.push(self.run.name.clone());
        }
        under.extend(phase.state.clone());
        under.push(phase.load.text());
        if self.items.len() > 1 {
            under.push(format!("{} times", self.items.len()));
        }
        let same = phase.name.eq_ignore_ascii_case(&operation.name);
        let name = if same { operation.name.clone() } else { format!("{} {}", phase.name, operation.name) };
        vec![
            Cell { text: name, small: under.join(", "), tone: "" },
            Cell {
                text: if moves_bytes { units::bytes_per_s(shown.mean) } else { units::per_s(shown.mean) },
                small: margin.map(|m| format!("± {}", units::percent(m))).unwrap_or_default(),
                tone: "",
            },
            if moves_bytes { units::per_s(of(false).mean).into() } else { Cell::default() },
            time(0.5).into(),
            time(0.99).into(),
            time(0.999).into(),
            Cell {
                text: units::count(failed as i64),
                small: if failed > 0 {
                    units::percent(failed as f64 / (failed + done) as f64)
                } else {
                    String::new()
                },
                tone: "bad",
            },
            cost(|c| c.server_us_per_op).into(),
            cost(|c| c.client_us_per_op).into(),
        ]
    }
}

/// Every phase and operation; of a life cycle what is nominal, the rest has its matrix.
pub fn results(runs: &[Run]) -> String {
    let nominal = |i: &Item| i.phase.state.as_deref().is_none_or(|s| s == "nominal");
    let mut lines: Vec<Line> = Vec::new();
    for item in items(runs).filter(nominal) {
        let same = |l: &&mut Line| {
            let first = l.items[0];
            std::ptr::eq(l.run, item.run)
                && first.phase.key() == item.phase.key()
                && first.operation.name == item.operation.name
        };
        match lines.iter_mut().find(same) {
            Some(line) => line.items.push(item),
            None => lines.push(Line { run: item.run, items: vec![item] }),
        }
    }
    let table = Table {
        class: "stack",
        caption: String::new(),
        words: 1,
        head: [
            "Phase",
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
        rows: lines.iter().map(|l| l.row(runs.len() > 1)).collect(),
    };
    let waited = items(runs).filter(|i| i.operation.response.is_some()).count();
    let about = match waited {
        0 => "Times are service times: from sending a request to the end of its answer.",
        n if n == items(runs).count() => {
            "Times are response times: from the moment a request was due to the end of its answer, so that a stall counts."
        }
        _ => {
            "Times of a given rate are response times: from the moment a request was due to the end of its answer, so that a \
             stall counts. With a given number in flight they are service times, from sending a request."
        }
    };
    section("results", "Results", about, &table.html())
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
        // Rates and volumes are decimal everywhere.
        "server_s_per_gib" => units::seconds(units::per_gb(v)),
        m if m.ends_with("_us_per_op") => units::ns(v * 1e3),
        _ => units::ns(v),
    };
    let named = |metric: &str| match metric {
        "bytes_per_s" => "throughput".to_owned(),
        "rate_per_s" => "rate".to_owned(),
        "error_share" => "failed".to_owned(),
        "server_s_per_gib" => "server CPU per GB".to_owned(),
        m => m.trim_end_matches("_ns").trim_end_matches("_us_per_op").replace('_', " CPU "),
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
        "Worse and better are differences of more than 5 % that are significant at 5 %; uncertain are differences that may be chance.{differ}"
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
        let none = "<p>The checks found no problem with these numbers.</p>";
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
            format!("<li><b class=\"{class}\">{word}</b> {}</li>", prose(what))
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
        let rows = shown::readable(&run.setup);
        let table = Table {
            class: "facts",
            caption: String::new(),
            words: 2,
            head: vec!["Setting".into(), "Value".into()],
            rows: rows.into_iter().map(|(name, value)| vec![capital(&name).into(), value.into()]).collect(),
        };
        format!("{title}{}", table.html())
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
