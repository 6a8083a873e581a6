//! `ashlar cluster upgrade`: raises the feature level, once all nodes can do the next one.
//!
//! Invariant: with `--json` the server's own answer is printed; the exit code says whether the level is in force.

use ashlar_client::Method;
use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::alias::alias_or_only;
use crate::admin_request::{ask_with, understand};
use crate::context::Context;
use crate::failure::{Failure, Kind, Outcome};

/// An upgrade.
#[derive(Args, Debug)]
pub struct UpgradeOptions {
    /// The alias of any node; may be left out if there is only one alias
    alias: Option<String>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
}

/// What `--help` adds.
pub const HELP: &str = "\
Nodes of releases whose feature levels overlap work together, so a cluster is upgraded one node at a time: stop a node \
(`ashlar cluster may-stop`), start it with the new release, go on with the next one. What the new release adds to formats and \
messages is used when its level is in force. This command raises the level to the newest one that any node can do, if all \
can. It cannot be lowered: releases that cannot do it do not start any more. Keep the level until you are sure that you do \
not want to go back. The exit code is 5 if a node cannot do the level; it is named.

Examples:
  ashlar cluster upgrade --dry-run it
  ashlar cluster upgrade it";

#[derive(Deserialize)]
struct Upgrade {
    feature_level: u32,
    target: u32,
    raised: bool,
    reasons: Vec<String>,
}

/// Raises the level.
pub async fn upgrade(options: UpgradeOptions, context: &Context) -> Outcome {
    let alias = alias_or_only(options.alias, &context.aliases)?;
    let order = json!({ "dry_run": options.dry_run });
    let answer = ask_with(context, &alias, Method::POST, "cluster/upgrade", &[], Some(&order)).await?;
    let done: Upgrade = understand(&answer)?;
    if done.reasons.is_empty() {
        context.output.done(|| answer, || done.text());
        return Ok(());
    }
    if context.output.json {
        context.output.result(|| answer, String::new);
    }
    Err(Failure {
        what: format!("the feature level stays {}", done.feature_level),
        ..Failure::new(Kind::Unavailable, done.reasons.join("; "))
    })
}

impl Upgrade {
    fn text(&self) -> String {
        let Upgrade { feature_level, target, raised, .. } = self;
        match (raised, target > feature_level) {
            (true, _) => format!("Feature level {target} is in force now."),
            (false, true) => format!(
                "Feature level {feature_level} is in force, and all nodes can do {target}. Nothing was changed."
            ),
            (false, false) => format!("Feature level {feature_level} is in force, the newest of all nodes."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_what_was_done() {
        let of = |feature_level, target, raised| {
            Upgrade { feature_level, target, raised, reasons: Vec::new() }.text()
        };
        assert_eq!(of(2, 2, true), "Feature level 2 is in force now.");
        assert!(of(1, 2, false).ends_with("all nodes can do 2. Nothing was changed."));
        assert!(of(2, 2, false).ends_with("the newest of all nodes."));
    }
}
