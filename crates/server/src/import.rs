//! `ashlar cluster import`: carries out what `ashlar_node::import` does, and says what comes next.
//!
//! It takes the options of the server, because the cluster remembers which of them must be equal on all nodes.
//!
//! Must not depend on: how an import works.

use ashlar_node::kms::Configured;
use ashlar_node::{Plan, import};
use serde_json::json;

/// Imports, or undoes an import that did not complete.
///
/// # Errors
/// A message for the operator.
pub async fn run(
    plan: &Plan,
    root: Option<ashlar_s3::Credential>,
    keys: Configured,
    (undo, as_json): (bool, bool),
) -> Result<(), String> {
    let name = plan.cluster.as_ref().map_or("", |c| c.etcd.cluster.as_str());
    let (document, text) = if undo {
        let drives = import::undo(plan).await?;
        let text = format!(
            "The import was undone on {drives} drives. This machine is alone again: start it without --control."
        );
        (json!({"cluster": name, "undone": true, "drives": drives}), text)
    } else {
        let done = import::import(plan, root, keys).await?;
        let what = match done.before {
            true => "An earlier import was complete",
            false => "The control store is in etcd now",
        };
        let text = format!(
            "{what}: {} keys of deployment {}, {} drives, cluster {name}.\nStart this machine as its first node: ashlar \
             server with these options. Others join it with tokens of `ashlar cluster token`.",
            done.keys, done.deployment, done.drives
        );
        let document = json!({
            "cluster": name,
            "deployment": done.deployment.to_hex(),
            "keys": done.keys,
            "drives": done.drives,
            "before": done.before,
        });
        (document, text)
    };
    super::serve::print(&if as_json { document.to_string() } else { text });
    Ok(())
}
