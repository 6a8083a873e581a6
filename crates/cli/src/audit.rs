//! `ashlar admin why` and `ashlar admin audit`: the record of a request, and verification of audit files.
//!
//! Invariant: `verify` sends no request; root's secret is read from the environment only.

use std::path::PathBuf;

use ashlar_audit::{key_from, verify};
use ashlar_client::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    admin_request::ask_with,
    context::Context,
    failure::{Failure, Kind, Outcome},
    output::Tone,
};

/// Which request to show.
#[derive(Args, Debug)]
pub struct WhyOptions {
    /// The server's alias
    alias: String,
    /// The id of the request: the header `x-amz-request-id` of its answer
    request_id: String,
}

/// Actions on the audit log.
#[derive(Subcommand, Debug)]
pub enum AuditCommand {
    /// Search the records of all nodes, newest first
    #[command(after_long_help = super::audit_search::HELP)]
    Search(Box<super::audit_search::SearchOptions>),
    /// Verify that nothing was changed, removed or inserted in audit files; root's secret is read from
    /// ASHLAR_ROOT_PASSWORD, and a previous one from ASHLAR_ROOT_PASSWORD_OLD
    Verify {
        /// The files of one log, in any order
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// Shows the record of a request.
pub async fn why(options: &WhyOptions, context: &Context) -> Outcome {
    let path = format!("why/{}", options.request_id);
    let answer = ask_with(context, &options.alias, Method::GET, &path, &[], None).await?;
    context.output.result(|| answer.clone(), || text(&answer));
    Ok(())
}

fn text(record: &Value) -> String {
    let of = |name: &str| record[name].as_str().unwrap_or_default();
    let mut lines = vec![format!("Request  {} of {}, from {}", of("request_id"), of("time"), of("ip"))];
    let mut who = match (of("user"), of("kind")) {
        (_, "anonymous") => "anonymous: the request was not signed".to_owned(),
        ("", _) => "unknown: the signature is invalid".to_owned(),
        (user, kind) => format!("{user} ({kind}, access key {})", of("access_key")),
    };
    if !of("provider").is_empty() {
        who.push_str(&format!(", authenticated by {}", of("provider")));
    }
    lines.push(format!("Who      {who}"));
    let resource = match (of("bucket"), of("key")) {
        ("", key) => key.to_owned(),
        (bucket, "") => bucket.to_owned(),
        (bucket, key) => format!("{bucket}/{key}"),
    };
    lines.push(format!("Asked    {} {resource}", of("operation")).trim_end().to_owned());
    lines.push(format!("Answer   {} {}", record["status"], of("error")).trim_end().to_owned());
    if !of("decided_by").is_empty() {
        let sid = record["sid"].as_str().map(|s| format!(" (\"{s}\")")).unwrap_or_default();
        lines.push(format!("Because  {} was {}{sid}", of("action"), of("decided_by")));
    }
    lines.join("\n")
}

/// Runs an action on the audit log.
pub async fn audit(command: &AuditCommand, context: &Context) -> Outcome {
    match command {
        AuditCommand::Search(options) => super::audit_search::search(options, context).await,
        AuditCommand::Verify { files } => verify_files(files, context),
    }
}

fn verify_files(files: &[PathBuf], context: &Context) -> Outcome {
    let secrets = ["ASHLAR_ROOT_PASSWORD", "MINIO_ROOT_PASSWORD", "ASHLAR_ROOT_PASSWORD_OLD"];
    let keys: Vec<_> =
        secrets.iter().filter_map(ashlar_environment::process::variable).map(|s| key_from(&s)).collect();
    let report = verify(files, &keys).map_err(|e| Failure::new(Kind::Failed, e.to_string()))?;
    let whole = report.problem.is_none();
    context.output.result(
        || {
            let problem = report.problem.as_ref().map(|(file, line, what)| json!({ "file": file, "line": line, "what": what }));
            json!({ "whole": whole, "records": report.records, "first": report.first, "last": report.last,
                "checkpoints": report.checkpoints, "signed": report.signed, "uncovered": report.uncovered,
                "notes": report.notes, "problem": problem })
        },
        || {
            let mut lines = report.notes.clone();
            lines.push(match (whole, keys.is_empty()) {
                (false, _) => context.output.paint(Tone::Bad, "The log is not intact."),
                (true, true) => format!(
                    "The chain of {} records (lines {} to {}) is intact. The signatures of its checkpoints were not checked: set ASHLAR_ROOT_PASSWORD to check them.",
                    report.records, report.first, report.last
                ),
                (true, false) => context.output.paint(Tone::Good, format!(
                    "{} records (lines {} to {}) are intact, {} checkpoints are signed with root's secret.",
                    report.records, report.first, report.last, report.signed
                )),
            });
            if whole && report.uncovered > 0 {
                lines.push(format!("The last {} lines come after the last checkpoint: no signature covers them yet.", report.uncovered));
            }
            lines.join("\n")
        },
    );
    match &report.problem {
        None => Ok(()),
        Some((file, line, what)) => {
            Err(Failure::new(Kind::Failed, format!("{} line {line}: {what}", file.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_text() {
        let shown =
            text(&json!({ "request_id": "ID", "time": "T", "ip": "::1", "user": "alice", "kind": "user",
            "access_key": "alice", "bucket": "b", "key": "k", "operation": "GetObject", "status": 403,
            "error": "AccessDenied", "action": "s3:GetObject", "sid": "No",
            "decided_by": "denied by statement 2 of policy x" }));
        assert!(
            shown.contains("Because  s3:GetObject was denied by statement 2 of policy x (\"No\")"),
            "{shown}"
        );
        assert!(shown.contains("Asked    GetObject b/k\nAnswer   403 AccessDenied"), "{shown}");
    }
}
