//! `ashlar admin history`: what a server, or all nodes of a cluster, measured.
//!
//! Invariant: with `--json` the server's own answer is printed. Must not depend on: how it is measured.

use ashlar_client::Method;
use clap::Args;
use serde_json::Value;
use time::OffsetDateTime;

use super::{
    admin_request::ask_with,
    context::Context,
    failure::{Failure, Kind, Outcome},
    output::{empty_table, size_text, time_text},
};

/// Rows of the table.
const ROWS: &str = "24";

/// Of which time.
#[derive(Args, Debug)]
pub struct HistoryOptions {
    /// The server's alias
    alias: String,
    /// How far back: 10m, 24h, 30d; at most 400d
    #[arg(long, default_value = "1h", value_name = "DURATION")]
    last: String,
}

/// Shows what was measured.
pub async fn history(options: &HistoryOptions, context: &Context) -> Outcome {
    let last = ashlar_arguments::time::parse(&options.last)
        .map_err(|why| Failure::new(Kind::Usage, format!("--last: {why}")))?;
    let seconds = last.as_secs().to_string();
    // A program gets all steps, a person as many as fit on a screen.
    let mut query = vec![("last_s", seconds.as_str())];
    if !context.output.json {
        query.push(("steps", ROWS));
    }
    let answer = ask_with(context, &options.alias, Method::GET, "history", &query, None).await?;
    context.output.result(|| answer.clone(), || text(&answer));
    Ok(())
}

fn text(answer: &Value) -> String {
    let mut table = empty_table();
    table.set_header([
        "From",
        "Reads/s",
        "Writes/s",
        "Lists/s",
        "Deletes/s",
        "4xx/s",
        "5xx/s",
        "In/s",
        "Out/s",
        "Median",
        "p99",
        "Used",
    ]);
    let (from_ms, step_s) = (answer["from_ms"].as_i64().unwrap_or(0), answer["step_s"].as_i64().unwrap_or(1));
    let steps = answer["reads"].as_array().map_or(0, Vec::len);
    for i in 0..steps {
        let value = |name: &str| answer[name][i].as_f64();
        if value("reads").is_none() {
            continue;
        }
        let rate = |name: &str| value(name).map_or_else(String::new, |v| format!("{v:.1}"));
        let size = |name: &str| value(name).map_or_else(String::new, |v| size_text(v as u64));
        let time = |name: &str| value(name).map_or_else(|| "-".to_owned(), |v| format!("{v:.1} ms"));
        let all = value("capacity_bytes").unwrap_or(0.0);
        let used = all - value("free_bytes").unwrap_or(0.0);
        let at = OffsetDateTime::from_unix_timestamp(from_ms / 1000 + step_s * i as i64).ok();
        table.add_row([
            time_text(at),
            rate("reads"),
            rate("writes"),
            rate("lists"),
            rate("deletes"),
            rate("client_errors"),
            rate("server_errors"),
            size("bytes_in"),
            size("bytes_out"),
            time("median_ms"),
            time("p99_ms"),
            if all > 0.0 { format!("{:.1}%", used / all * 100.0) } else { String::new() },
        ]);
    }
    let mut out = table.to_string();
    if let Some(forecast) = answer["forecast"].as_object() {
        let per_day = forecast["bytes_per_day"].as_i64().unwrap_or(0);
        let size = size_text(per_day.unsigned_abs());
        let days = forecast["days"].as_f64().unwrap_or(0.0);
        let full = forecast["full_ms"].as_i64();
        let full = full.and_then(|ms| OffsetDateTime::from_unix_timestamp(ms / 1000).ok());
        let until =
            full.map_or_else(String::new, |at| format!("; the drives are full at {}", time_text(Some(at))));
        let word = if per_day < 0 { "less" } else { "more" };
        out.push_str(&format!("\n{size} {word} each day, by the last {days:.0} days{until}"));
    }
    let nodes = answer["nodes"].as_array().into_iter().flatten();
    for why in nodes.filter_map(|n| n["problem"].as_str()) {
        out.push_str(&format!("\n{why}: its part is missing"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_without_measurements_are_left_out_and_missing_nodes_are_named() {
        let list = |a: f64| json!([a, null]);
        let answer = json!({
            "from_ms": 1_764_000_000_000i64, "step_s": 300, "reads": list(12.34), "writes": list(1.0), "lists": list(0.0),
            "deletes": list(0.0), "client_errors": list(0.0), "server_errors": list(0.0), "bytes_in": list(2048.0),
            "bytes_out": list(0.0), "median_ms": [null, null], "p99_ms": [null, null], "capacity_bytes": [1000, null],
            "free_bytes": [750, null], "nodes": [{ "node": 3, "problem": "node 3 does not run" }],
            "forecast": { "bytes_per_day": 1_048_576, "days": 10.0, "full_ms": 1_766_000_000_000i64 },
        });
        let text = text(&answer);
        for part in [
            "12.3",
            "2.0 KiB",
            "25.0%",
            "node 3 does not run",
            "1.0 MiB more each day",
            "2025-11-24 16:00:00",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("16:05:00"), "{text}");
    }
}
