//! `ashlar admin placement`: where the shards of an object are.
//!
//! Must not depend on: how shards are found.

use ashlar_client::Method;
use clap::Args;
use serde_json::{Value, json};

use super::{
    admin::moment,
    admin_request::ask_with,
    context::Context,
    failure::{Failure, Kind, Outcome},
    location::Location,
    output::{Tone, empty_table, size_text},
};

/// Which object.
#[derive(Args, Debug)]
#[command(after_long_help = "\
The exit code is 6 if a shard is missing or damaged, or its drive does not answer.

Examples:
  ashlar admin placement it/bucket/photo.jpg
  ashlar admin placement it/bucket/photo.jpg --verify
  ashlar admin placement it/bucket/photo.jpg --heal")]
pub struct PlacementOptions {
    /// ALIAS/BUCKET/KEY
    target: String,
    /// This version of the object
    #[arg(long, visible_alias = "vid", value_name = "ID")]
    version_id: Option<String>,
    /// Read every byte on its drive and compare it with its hash
    #[arg(long)]
    verify: bool,
    /// First make again what is missing or damaged, of all versions of the key
    #[arg(long)]
    heal: bool,
}

/// Prints the drives of all shards of a version.
pub async fn placement(options: &PlacementOptions, context: &Context) -> Outcome {
    let remote = Location::remote(&options.target, &context.aliases)?;
    remote.need_key()?;
    let path = format!("placement/{}/{}", remote.bucket, remote.key);
    if options.heal {
        let path = format!("{path}/heal");
        let answer = ask_with(context, &remote.alias, Method::POST, &path, &[], None).await?;
        let text = format!("{} records and {} shards made again.", answer["records"], answer["shards"]);
        context.output.note(&text);
    }
    let verify = options.verify.to_string();
    let version = options.version_id.as_deref().unwrap_or_default();
    let mut whole: Option<Value> = None;
    let mut part = String::new();
    loop {
        let query = [("version_id", version), ("verify", &verify), ("part", &part)];
        let answer = ask_with(context, &remote.alias, Method::GET, &path, &query, None).await?;
        let next = answer["next_part"].as_u64();
        match &mut whole {
            None => whole = Some(answer),
            Some(whole) => join(whole, answer),
        }
        match next {
            Some(next) => part = next.to_string(),
            None => break,
        }
    }
    let whole = whole.unwrap_or_default();
    let bad = shards(&whole).filter(|shard| shard["state"] != "good").count();
    let text = text(&whole, context);
    context.output.result(|| whole, || text);
    if bad == 0 {
        return Ok(());
    }
    let what = format!("`{remote}`");
    let again = "`--heal` makes again what drives in service lack";
    Err(Failure { what, ..Failure::new(Kind::Partly, format!("{bad} shards are not good; {again}")) })
}

/// Adds the parts of a later answer.
fn join(whole: &mut Value, later: Value) {
    let spare = [&whole["spare"], &later["spare"]].into_iter().filter_map(Value::as_i64).min();
    whole["spare"] = json!(spare);
    whole["next_part"] = Value::Null;
    if let (Some(all), Value::Array(more)) = (whole["parts"].as_array_mut(), later["parts"].clone()) {
        all.extend(more);
    }
}

fn shards(whole: &Value) -> impl Iterator<Item = &Value> {
    let parts = whole["parts"].as_array().into_iter().flatten();
    parts.flat_map(|part| part["shards"].as_array().into_iter().flatten())
}

fn text(whole: &Value, context: &Context) -> String {
    let of = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let mut table = empty_table();
    table.set_header(["Part", "Shard", "Size", "Drive", "State", "Verified"]);
    for part in whole["parts"].as_array().into_iter().flatten() {
        for shard in part["shards"].as_array().into_iter().flatten() {
            let node = shard["node"].as_u64().map(|n| format!("node {n} ")).unwrap_or_default();
            let state = of(shard, "state");
            let tone = if state == "good" { Tone::Good } else { Tone::Bad };
            let why = shard["problem"].as_str().map(|why| format!(" ({why})")).unwrap_or_default();
            table.add_row([
                part["number"].to_string(),
                format!("{} {}", of(shard, "kind"), shard["shard"]),
                size_text(part["shard_size"].as_u64().unwrap_or(0)),
                format!("{node}{}", of(shard, "path")),
                format!("{}{why}", context.output.paint(tone, state)),
                shard["scrubbed_ms"].as_u64().map_or_else(|| "-".to_owned(), moment),
            ]);
        }
    }
    let how = if whole["verified"] == true { "read and verified" } else { "looked up" };
    let spare = match whole["spare"].as_i64() {
        None => "It has no bytes.".to_owned(),
        Some(n) if n < 0 => "It cannot be read now.".to_owned(),
        Some(n) => format!("{n} more shards of each part may be lost."),
    };
    format!(
        "{table}\nVersion {}, placement group {}, shards {how}. {spare}",
        of(whole, "version_id"),
        whole["group"]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_later_answers_follow_and_the_weakest_counts() {
        let mut whole = json!({ "spare": 2, "next_part": 2, "parts": [{ "shards": [{ "state": "good" }] }] });
        join(&mut whole, json!({ "spare": 1, "parts": [{ "shards": [{ "state": "missing" }] }] }));
        assert_eq!((whole["spare"].as_i64(), shards(&whole).count()), (Some(1), 2));
        assert_eq!(whole["next_part"], Value::Null);
    }
}
