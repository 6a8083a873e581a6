//! `ashlar drive recover`: recovers a deployment in which too many drives are distrusted, and reports
//! uncertain keys.

use std::time::Duration;

use ashlar_client::Method;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::admin_request::{ask, understand};
use super::context::Context;
use super::failure::{Failure, Kind, Outcome};

/// Options of a recovery.
#[derive(Args, Debug)]
pub struct RecoverOptions {
    /// The server's alias
    alias: String,
    /// Change nothing; only show which keys would be uncertain
    #[arg(long)]
    dry_run: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Recovery {
    state: String,
    dry_run: bool,
    why: Option<String>,
    registers: u64,
    copied: u64,
    uncertain: u64,
    drives: Vec<String>,
    named: Vec<Key>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Key {
    bucket: String,
    key: String,
    kind: String,
    kept: bool,
    shown: Vec<Shown>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Shown {
    path: String,
    shows: String,
}

/// Starts a recovery, waits for its end and prints its report.
pub async fn recover(options: RecoverOptions, context: &Context) -> Outcome {
    let order = json!({ "dry_run": options.dry_run });
    let mut answer = ask(context, &options.alias, Method::POST, "drives/recover", Some(&order)).await?;
    while answer.get("state").and_then(Value::as_str) == Some("running") {
        ashlar_environment::time::sleep(Duration::from_millis(500)).await;
        answer = ask(context, &options.alias, Method::GET, "drives/recover", None).await?;
    }
    let report: Recovery = understand(&answer)?;
    if report.state != "done" {
        let why = report
            .why
            .unwrap_or_else(|| "the server has no record of it; it may have been restarted".to_owned());
        return Err(Failure::new(Kind::Failed, format!("the recovery ended early: {why}")));
    }
    context.output.result(|| answer, || text(&report));
    Ok(())
}

fn text(report: &Recovery) -> String {
    let (votes, copies) = if report.dry_run { ("would vote", "would be") } else { ("vote", "were") };
    let mut lines = vec![format!(
        "{} drives {votes} again; {} records examined, {} copies {copies} made",
        report.drives.len(),
        report.registers,
        report.copied
    )];
    if report.uncertain == 0 {
        lines.push("every record is known to be the newest that any drive ever held".to_owned());
        return lines.join("\n");
    }
    lines.push(format!("{} keys are uncertain: the kept state may not be the newest", report.uncertain));
    for key in &report.named {
        let kept = if key.kept { "kept" } else { "nothing is left" };
        let shown: Vec<String> = key.shown.iter().map(|s| format!("{}: {}", s.path, s.shows)).collect();
        lines.push(format!("{} {:?} in {}: {kept} ({})", key.kind, key.key, key.bucket, shown.join(", ")));
    }
    if report.uncertain > report.named.len() as u64 {
        lines.push(format!("and {} more", report.uncertain - report.named.len() as u64));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_lists_uncertain_keys() {
        let shown = |path: &str, shows: &str| Shown { path: path.into(), shows: shows.into() };
        let key = Key {
            bucket: "photos".into(),
            key: "a\u{1b}b".into(),
            kind: "object".into(),
            kept: true,
            shown: vec![shown("/d1", "what is kept"), shown("/d2", "damage")],
        };
        let report = Recovery {
            state: "done".into(),
            registers: 7,
            copied: 2,
            uncertain: 3,
            drives: vec!["x".into(); 3],
            named: vec![key],
            ..Recovery::default()
        };
        let text = text(&report);
        assert!(text.starts_with(
            "3 drives vote again; 7 records examined, 2 copies were made\n3 keys are uncertain"
        ));
        assert!(
            text.contains(r#"object "a\u{1b}b" in photos: kept (/d1: what is kept, /d2: damage)"#),
            "{text}"
        );
        assert!(text.ends_with("and 2 more"));
    }
}
