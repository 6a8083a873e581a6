//! `ashlar ilm rule simulate`: what lifecycle rules will do, by day.
//!
//! Invariants: nothing is changed; a day or a version of one request is not counted in another.
//!
//! Must not depend on: how rules are evaluated.

use std::collections::BTreeMap;
use std::io::Read as _;

use ashlar_client::Method;
use clap::Args;
use serde_json::{Value, json};

use super::{
    admin_request::ask_with,
    context::Context,
    failure::{Outcome, While},
    ilm::bucket_location,
    output::{empty_table, size_text},
};

/// What to forecast.
#[derive(Args, Debug)]
pub struct SimulateOptions {
    /// ALIAS/BUCKET
    target: String,
    /// Until when, such as 2030-01-31T00:00:00Z; by default for 30 days
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// A file with other rules than the bucket's, as XML; `-` reads the standard input
    #[arg(long, value_name = "FILE")]
    rules: Option<String>,
    /// How many versions to name, at most 1000
    #[arg(long, default_value_t = 20, value_name = "N")]
    examples: u16,
}

/// What all rules do on one day: numbers by name.
type Days = BTreeMap<(String, String), BTreeMap<&'static str, u64>>;

const NUMBERS: [&str; 5] = ["expire", "remove_versions", "remove_markers", "abort_uploads", "bytes"];

/// Adds the days of an answer.
fn add(days: &mut Days, answer: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for rule in answer["rules"].as_array().into_iter().flatten() {
        for day in rule["days"].as_array().into_iter().flatten() {
            let sums = days.entry((text(&day["date"]), text(&rule["id"]))).or_default();
            for name in NUMBERS {
                *sums.entry(name).or_default() += day[name].as_u64().unwrap_or(0);
            }
        }
    }
}

/// Repeats the request until everything has been examined.
pub async fn simulate(options: &SimulateOptions, context: &Context) -> Outcome {
    let remote = bucket_location(&options.target, context)?;
    let path = format!("lifecycle/{}/simulate", remote.bucket);
    let rules = match options.rules.as_deref() {
        None => None,
        Some(file) => {
            let mut text = String::new();
            let read = match file {
                "-" => std::io::stdin().read_to_string(&mut text),
                _ => std::fs::File::open(file).and_then(|mut f| f.read_to_string(&mut text)),
            };
            read.when(|| format!("cannot read `{file}`"))?;
            Some(text)
        }
    };
    let mut order = json!({ "rules": rules, "until": options.until, "examples": options.examples });
    let (mut days, mut examples, mut looked_at, mut locked) = (Days::new(), Vec::new(), 0, 0);
    loop {
        let answer = ask_with(context, &remote.alias, Method::POST, &path, &[], Some(&order)).await;
        let answer = answer.when(|| format!("cannot simulate for `{remote}`"))?;
        add(&mut days, &answer);
        let room = usize::from(options.examples).saturating_sub(examples.len());
        examples.extend(answer["examples"].as_array().into_iter().flatten().take(room).cloned());
        looked_at += answer["looked_at"].as_u64().unwrap_or(0);
        locked += answer["locked"].as_u64().unwrap_or(0);
        // All requests go as far as the first.
        (order["until"], order["after"]) = (answer["until"].clone(), answer["after"].clone());
        if answer["after"].is_null() {
            break;
        }
    }
    let rows = days.iter().map(|((date, rule), sums)| {
        let mut row = json!({ "date": date, "rule": rule });
        NUMBERS.iter().for_each(|name| row[*name] = json!(sums.get(name)));
        row
    });
    let rows: Vec<Value> = rows.collect();
    let text = text(&days, &examples, looked_at, locked);
    let whole = json!({ "bucket": remote.bucket, "until": order["until"], "looked_at": looked_at, "locked": locked,
        "days": rows, "examples": examples });
    context.output.result(|| whole, || text);
    Ok(())
}

fn text(days: &Days, examples: &[Value], looked_at: u64, locked: u64) -> String {
    let end = format!("{looked_at} examined; {locked} due and locked. Nothing was changed.");
    if days.is_empty() {
        return format!("Nothing becomes due.\n{end}");
    }
    let mut table = empty_table();
    table.set_header(["Day", "Rule", "Expire", "Old versions", "Markers", "Uploads", "Size"]);
    for ((date, rule), sums) in days {
        let n = |name: &str| sums.get(name).copied().unwrap_or(0);
        let numbers = NUMBERS[..4].iter().map(|name| n(name).to_string());
        let row = [date.clone(), rule.clone()].into_iter().chain(numbers).chain([size_text(n("bytes"))]);
        table.add_row(row);
    }
    let line = |e: &Value| {
        let of = |name: &str| e[name].as_str().unwrap_or_default();
        let kept = if e["locked"] == true { "  (locked)" } else { "" };
        format!("{}  {:<13}  {}  {}{kept}", of("at"), of("action"), of("key"), of("version_id"))
    };
    let lines: String = examples.iter().map(|e| format!("\n{}", line(e))).collect();
    format!("{table}{lines}\n{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_several_answers_are_added_up() {
        let answer = json!({ "rules": [{ "id": "a", "days": [
            { "date": "2030-01-01", "expire": 2, "remove_versions": 0, "remove_markers": 1, "abort_uploads": 0, "bytes": 10 }] }] });
        let mut days = Days::new();
        add(&mut days, &answer);
        add(&mut days, &answer);
        let sums = &days[&("2030-01-01".to_owned(), "a".to_owned())];
        assert_eq!((sums["expire"], sums["remove_markers"], sums["bytes"]), (4, 2, 20));
        let example = json!({ "at": "T", "action": "expire", "key": "k", "version_id": "v", "locked": true });
        let text = text(&days, &[example], 3, 1);
        assert!(
            text.contains("2030-01-01") && text.contains("k  v  (locked)") && text.contains("3 examined"),
            "{text}"
        );
        assert!(super::text(&Days::new(), &[], 0, 0).starts_with("Nothing becomes due."));
    }
}
