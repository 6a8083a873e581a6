//! The result as text.

use ashlar_bench_report::{
    result::{Load, Operation, Phase, Run, Severity, title},
    units,
};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// The result as text.
pub(super) fn table(run: &Run) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header([
        "LOAD",
        "OPERATION",
        "COUNT",
        "PER SECOND",
        "+-",
        "THROUGHPUT",
        "P50",
        "P99",
        "P99.9",
        "MAX",
        "ERRORS",
    ]);
    for phase in &run.phases {
        for operation in &phase.operations {
            table.add_row(row(phase, operation));
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut out = title::of(run);
    if let Some(server) = title::server_line(run) {
        out.push_str(&format!("\nServer {server}"));
    }
    out.push_str(&format!("\n\n{}", table.trim_fmt()));
    for phase in &run.phases {
        let Some(cost) = &phase.cost else { continue };
        let number = |name: &str, value: Option<f64>| {
            value.map(|v| format!("{name} {}/operation", units::ns(v * 1e3)))
        };
        let per_gib =
            cost.server_s_per_gib.map(|v| format!("server {} CPU-s/GB", units::number(units::per_gb(v))));
        let share =
            cost.client.as_ref().map(|c| format!("client uses {:.0} % of its CPUs", c.cpu_share * 100.0));
        let parts = [
            number("client", cost.client_us_per_op),
            number("server", cost.server_us_per_op),
            per_gib,
            share,
        ];
        out.push_str(&format!(
            "\n{}: warm-up {:.1} s, measured {:.1} s, ended by {}; {}",
            load_text(phase),
            phase.warmup_s,
            phase.seconds,
            phase.stopped_by,
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        ));
    }
    for phase in &run.phases {
        for operation in phase.operations.iter().filter(|o| !o.errors.is_empty()) {
            let errors: Vec<String> =
                operation.errors.iter().map(|(code, n)| format!("{code} {n}")).collect();
            out.push_str(&format!("\n{} failures: {}", operation.name, errors.join(", ")));
        }
    }
    for caveat in &run.caveats {
        let level = match caveat.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Invalid => "INVALID",
        };
        out.push_str(&format!("\n{level}: {} ({})", caveat.text, caveat.code));
    }
    out
}

fn load_text(phase: &Phase) -> String {
    match &phase.load {
        Load::Closed { concurrency } => format!("{} in flight", concurrency),
        Load::Open { rate_per_s, .. } => format!("{rate_per_s:.1}/s"),
    }
}

fn row(phase: &Phase, operation: &Operation) -> Vec<String> {
    // In an open loop, the time that a user waits is the response time.
    let times = operation.response.as_ref().unwrap_or(&operation.service);
    let time =
        |name: &str| times.percentiles_ns.get(name).map_or_else(|| "-".into(), |ns| units::ns(*ns as f64));
    let rate = &operation.rate_per_s;
    let half = rate.ci95.map_or_else(
        || "-".into(),
        |ci| format!("{:.1} %", (ci.1 - ci.0) / 2.0 / rate.mean.max(1e-9) * 100.0),
    );
    let bytes = operation.bytes_per_s.mean;
    let max = if times.count > 0 { units::ns(times.max_ns as f64) } else { "-".into() };
    vec![
        load_text(phase),
        operation.name.clone(),
        operation.count.to_string(),
        format!("{:.1}", rate.mean),
        half,
        if bytes > 0.0 { units::bytes_per_s(bytes) } else { "-".into() },
        time("p50"),
        time("p99"),
        time("p99.9"),
        max,
        operation.errors.values().sum::<u64>().to_string(),
    ]
}
