//! Printing records of the administration API: users, groups, policies, keys, providers.
//!
//! Invariant: with `--json` the server's own answer is printed. Must not depend on: the commands.

use ashlar_client::Method;
use serde_json::Value;
use time::OffsetDateTime;

use super::{
    admin_request::ask_with,
    context::Context,
    failure::Outcome,
    output::{Tone, empty_table, time_text},
};

/// Sends a request and prints that it was carried out.
pub async fn order(
    context: &Context,
    alias: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
    text: String,
) -> Outcome {
    let answer = ask_with(context, alias, method, path, &[], body).await?;
    context.output.done(|| answer, || text);
    Ok(())
}

/// Requests a list and prints it as one JSON object per line, or as a table.
pub async fn list(
    context: &Context,
    alias: &str,
    path: &str,
    query: &[(&str, &str)],
    columns: &[(&str, &str)],
) -> Outcome {
    let answer = ask_with(context, alias, Method::GET, path, query, None).await?;
    let rows = answer[path].as_array().cloned().unwrap_or_default();
    if context.output.json {
        for row in rows {
            // The field `status` of the output has another meaning.
            context.output.result(|| row, String::new);
        }
        return Ok(());
    }
    let mut table = empty_table();
    table.set_header(columns.iter().map(|(title, _)| *title));
    for row in &rows {
        table.add_row(columns.iter().map(|(_, field)| {
            let text = shown(field, &row[*field]);
            match (*field, row[*field].as_bool()) {
                ("enabled", Some(on)) => context.output.paint(if on { Tone::Good } else { Tone::Bad }, text),
                _ => text,
            }
        }));
    }
    context.output.result(|| Value::Null, || table.to_string());
    Ok(())
}

/// Requests one record and prints its fields.
pub async fn info(context: &Context, alias: &str, path: &str, columns: &[(&str, &str)]) -> Outcome {
    let answer = ask_with(context, alias, Method::GET, path, &[], None).await?;
    let text = columns
        .iter()
        .map(|(title, field)| format!("{title:<13}{}", shown(field, &answer[*field])))
        .collect::<Vec<_>>()
        .join("\n");
    context.output.result(|| answer, || text);
    Ok(())
}

/// A field as text.
pub fn shown(field: &str, value: &Value) -> String {
    match value {
        Value::Null if field == "used_ms" => "never".into(),
        Value::Null if field == "expires_ms" => "no end".into(),
        Value::Null => "-".into(),
        Value::Number(n) if field.ends_with("_ms") => {
            let at = n.as_i64().filter(|ms| *ms > 0);
            let at = at.and_then(|ms| OffsetDateTime::from_unix_timestamp(ms / 1000).ok());
            at.map_or_else(|| "-".into(), |at| time_text(Some(at)))
        }
        Value::Bool(on) if field == "enabled" => (if *on { "enabled" } else { "disabled" }).into(),
        Value::Bool(yes) => (if *yes { "yes" } else { "no" }).into(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}
