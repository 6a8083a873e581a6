//! `ashlar cluster remove`: removes a node that is gone for good.
//!
//! Invariant: without `--yes` nothing is removed. Must not depend on: when a node may be removed.

use ashlar_client::Method;
use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::alias::alias_or_only;
use crate::admin_request::{ask_with, understand};
use crate::context::Context;
use crate::failure::Outcome;

/// A removal.
#[derive(Args, Debug)]
pub struct RemoveOptions {
    /// The number of the node
    node: u16,
    /// The alias of any other node; may be left out if there is only one alias
    alias: Option<String>,
    /// Remove it; without this, only show whether it can be removed
    #[arg(long)]
    yes: bool,
}

/// What `--help` adds.
pub const HELP: &str = "\
For a node that never comes back, after its slots have moved to other nodes (`ashlar server --rebuild-after`). `ashlar cluster \
status` and `upgrade` forget it, its certificate is not accepted any more, and its number is not given again. Its machine may join \
as a new node, with blank folders and a token. It is refused while the node runs, while placement groups have slots on its drives, \
and while what moved away is not complete elsewhere.

Examples:
  ashlar cluster remove 3 it
  ashlar cluster remove 3 it --yes";

#[derive(Deserialize)]
struct Removed {
    host: String,
    address: String,
    removed: bool,
}

/// Removes a node.
pub async fn remove(options: RemoveOptions, context: &Context) -> Outcome {
    let alias = alias_or_only(options.alias, &context.aliases)?;
    let node = options.node;
    let order = json!({ "node": node, "dry_run": !options.yes });
    let answer = ask_with(context, &alias, Method::POST, "cluster/remove", &[], Some(&order)).await?;
    let done: Removed = understand(&answer)?;
    context.output.done(|| answer, || done.text(node));
    Ok(())
}

impl Removed {
    fn text(&self, node: u16) -> String {
        let Removed { host, address, removed } = self;
        match removed {
            true => format!("Node {node} ({host}, {address}) was removed from the cluster."),
            false => format!(
                "Node {node} ({host}, {address}) can be removed. Nothing was changed: repeat with --yes."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_whether_it_was_done() {
        let of = |removed| Removed { host: "h".into(), address: "a:1".into(), removed }.text(3);
        assert_eq!(of(true), "Node 3 (h, a:1) was removed from the cluster.");
        assert!(of(false).ends_with("Nothing was changed: repeat with --yes."));
    }
}
