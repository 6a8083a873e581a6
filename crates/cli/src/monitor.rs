//! `ashlar admin trace`, `logs`, `top`: live monitoring of a server.
//!
//! Invariant: with `--json` the server's own lines are printed, so that no field is lost.

use std::time::Duration;

use ashlar_client::{Call, Method, Target};
use clap::Args;
use serde_json::Value;

use super::{
    admin_request::{ask_with, client},
    context::Context,
    failure::{Failure, Outcome},
    output::{Tone, empty_table, size_text, span_text, time_text},
};

/// Time limit for silence of a stream: the server sends empty lines more often.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between updates of `top --watch`.
const UPDATE_INTERVAL: Duration = Duration::from_secs(2);

/// Which requests to show.
#[derive(Args, Debug)]
pub struct TraceOptions {
    /// The server's alias, or ALIAS/BUCKET for the requests of one bucket
    target: String,
    /// Only requests that failed
    #[arg(long)]
    errors: bool,
    /// Only requests that took at least this many milliseconds
    #[arg(long, value_name = "MS")]
    slower: Option<u64>,
    /// Only this operation, such as GetObject
    #[arg(long, value_name = "OPERATION")]
    call: Option<String>,
    /// Stop after this many requests
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
}

/// Which lines to show.
#[derive(Args, Debug)]
pub struct LogsOptions {
    /// The server's alias
    alias: String,
    /// Number of last lines
    #[arg(long, default_value_t = 100)]
    last: u64,
    /// Continue with new lines
    #[arg(long, short)]
    follow: bool,
    /// Only lines of this level and above: error, warn or info
    #[arg(long, default_value = "info")]
    level: String,
}

/// What `top` shows.
#[derive(Args, Debug)]
pub struct TopOptions {
    /// The server's alias
    alias: String,
    /// Update repeatedly, with the changes in between
    #[arg(long)]
    watch: bool,
}

/// Prints the JSON lines of a stream until it ends, or until `most` have been printed.
async fn stream(
    context: &Context,
    alias: &str,
    path: &str,
    query: &[(&str, String)],
    most: Option<u64>,
    text: impl Fn(&Value) -> String,
) -> Outcome {
    let client = client(context, alias)?;
    let path = format!("/ashlar/api/v1/{path}");
    let mut call = Call::new(Method::GET, Target::Path(&path));
    for (name, value) in query {
        call = call.query(name, value.as_str());
    }
    call.patience = Some(IDLE_TIMEOUT);
    let told = |error| {
        let mut failure = Failure::from(error);
        failure.what = format!("`{alias}`");
        failure
    };
    let mut answer = client.execute(call).await.map_err(told)?;
    let (mut rest, mut shown) = (Vec::new(), 0);
    while let Some(piece) = answer.piece().await.map_err(told)? {
        rest.extend_from_slice(&piece);
        while let Some(at) = rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = rest.drain(..=at).collect();
            let Ok(value) = serde_json::from_slice::<Value>(&line) else { continue };
            context.output.result(|| value.clone(), || text(&value));
            context.output.flush();
            shown += 1;
            if most.is_some_and(|most| shown >= most) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn at(value: &Value) -> String {
    let ms = value["time_ms"].as_i64().unwrap_or(0);
    time_text(time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).ok())
}

/// Microseconds as text.
fn micros(n: u64) -> String {
    match n {
        0..1000 => format!("{n} \u{b5}s"),
        1000..1_000_000 => format!("{:.1} ms", n as f64 / 1e3),
        _ => format!("{:.2} s", n as f64 / 1e6),
    }
}

/// Shows requests as they end.
pub async fn trace(options: &TraceOptions, context: &Context) -> Outcome {
    let (alias, bucket) = options.target.split_once('/').unwrap_or((&options.target, ""));
    let mut query = vec![("errors", options.errors.to_string())];
    if let Some(ms) = options.slower {
        query.push(("slower_ms", ms.to_string()));
    }
    if let Some(call) = &options.call {
        query.push(("operation", call.clone()));
    }
    if !bucket.trim_end_matches('/').is_empty() {
        query.push(("bucket", bucket.trim_end_matches('/').to_owned()));
    }
    stream(context, alias, "trace", &query, options.count, |e| {
        let node = e["node"].as_u64().map(|n| format!("node {n}  ")).unwrap_or_default();
        if word(e, "kind") == "cluster" {
            return format!("{}  {}", at(e), context.output.paint(Tone::Bad, word(e, "error")));
        }
        let status = number(e, "status");
        let tone = if status >= 400 { Tone::Bad } else { Tone::Good };
        let path = match word(e, "query") {
            "" => word(e, "path").to_owned(),
            query => format!("{}?{query}", word(e, "path")),
        };
        let part = |name: &str| micros(number(e, name));
        format!(
            "{}  {node}{}  {:<16} {}  {}  (client {}, drives {}, server {}, answer {})  in {} out {}  {} {}",
            at(e),
            context.output.paint(tone, status),
            word(e, "operation"),
            context.output.printable(&path),
            part("micros"),
            part("body_micros"),
            part("drives_micros"),
            part("server_micros"),
            part("answer_micros"),
            size_text(number(e, "bytes_in")),
            size_text(number(e, "bytes_out")),
            word(e, "client"),
            word(e, "error"),
        )
    })
    .await
}

/// Shows the server's log.
pub async fn logs(options: &LogsOptions, context: &Context) -> Outcome {
    let query = [
        ("last", options.last.to_string()),
        ("follow", options.follow.to_string()),
        ("level", options.level.clone()),
    ];
    stream(context, &options.alias, "logs", &query, None, |l| {
        let tone = if word(l, "level") == "info" { Tone::Good } else { Tone::Bad };
        let level = word(l, "level").to_ascii_uppercase();
        let message = context.output.printable(word(l, "message"));
        let node = l["node"].as_u64().map(|n| format!("node {n}  ")).unwrap_or_default();
        format!("{}  {node}{:<5}  {message}", at(l), context.output.paint(tone, level))
    })
    .await
}

/// Shows totals of each operation, and the requests in progress.
pub async fn top(options: &TopOptions, context: &Context) -> Outcome {
    let mut before = Value::Null;
    loop {
        let now = ask_with(context, &options.alias, Method::GET, "top", &[], None).await?;
        context.output.result(|| now.clone(), || top_text(&now, &before));
        context.output.flush();
        if !options.watch {
            return Ok(());
        }
        before = now;
        ashlar_environment::time::sleep(UPDATE_INTERVAL).await;
    }
}

fn top_text(now: &Value, before: &Value) -> String {
    let mut table = empty_table();
    table.set_header(["Operation", "Calls", "4xx", "5xx", "Mean", "In", "Out"]);
    let none = Vec::new();
    for o in now["operations"].as_array().unwrap_or(&none) {
        let name = word(o, "operation");
        let old =
            before["operations"].as_array().into_iter().flatten().find(|b| word(b, "operation") == name);
        let since = |field: &str| number(o, field).saturating_sub(old.map_or(0, |b| number(b, field)));
        let spent = |v: &Value| number(v, "mean_micros") * number(v, "calls");
        let calls = since("calls");
        if calls == 0 {
            continue;
        }
        let mean = spent(o).saturating_sub(old.map_or(0, spent)) / calls;
        table.add_row([
            name.to_owned(),
            calls.to_string(),
            since("client_errors").to_string(),
            since("server_errors").to_string(),
            micros(mean),
            size_text(since("bytes_in")),
            size_text(since("bytes_out")),
        ]);
    }
    let running = now["running"].as_array().unwrap_or(&none).iter();
    let running: Vec<String> = running
        .map(|r| format!("{} {} in {}", number(r, "count"), word(r, "operation"), word(r, "bucket")))
        .collect();
    let up = span_text(number(now, "uptime_s"));
    let inflight = number(now, "inflight");
    let list = if running.is_empty() { String::new() } else { format!(": {}", running.join(", ")) };
    let nodes = now["nodes"].as_array().unwrap_or(&none).iter();
    let silent: String = nodes.filter_map(|n| n["problem"].as_str()).map(|why| format!("\n{why}")).collect();
    format!("up {up}, {inflight} requests in progress{list}\n{table}{silent}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn top_shows_what_happened_in_between() {
        let at = |calls: u64, mean: u64| {
            json!({ "uptime_s": 5, "inflight": 1, "running": [{ "bucket": "b", "operation": "GetObject", "count": 1 }],
                "operations": [{ "operation": "GetObject", "calls": calls, "mean_micros": mean, "bytes_out": calls * 10 },
                    { "operation": "PutObject", "calls": 3, "mean_micros": 7 }] })
        };
        let text = top_text(&at(30, 200), &at(10, 100));
        assert!(
            text.contains("1 GetObject in b") && text.contains("GetObject") && text.contains("20"),
            "{text}"
        );
        assert!(text.contains("250 \u{b5}s"), "{text}");
        assert!(!text.contains("PutObject"), "{text}");
    }
}
