//! `ashlar cluster may-stop`: whether a node can be stopped now.
//!
//! Invariant: with `--json` the server's own answer is printed; the exit code is the answer.

use ashlar_client::Method;
use serde::Deserialize;

use super::alias::alias_or_only;
use crate::admin_request::{ask_with, understand};
use crate::context::Context;
use crate::failure::{Failure, Kind, Outcome};

/// Whether a node can be stopped, as a node answers it.
#[derive(Deserialize)]
struct MayStop {
    may_stop: bool,
    reasons: Vec<String>,
}

/// Prints whether a node can be stopped.
pub async fn may_stop(node: u16, alias: Option<String>, context: &Context) -> Outcome {
    let alias = alias_or_only(alias, &context.aliases)?;
    let number = node.to_string();
    let query = [("node", number.as_str())];
    let answer = ask_with(context, &alias, Method::GET, "cluster/may-stop", &query, None).await?;
    let MayStop { may_stop, reasons } = understand(&answer)?;
    if may_stop {
        context.output.done(|| answer, || format!("Node {node} can be stopped."));
        return Ok(());
    }
    let why = reasons.join("; ");
    if context.output.json {
        context.output.result(|| answer, String::new);
    }
    Err(Failure {
        what: format!("node {node} cannot be stopped now"),
        ..Failure::new(Kind::Unavailable, why)
    })
}
