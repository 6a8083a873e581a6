//! `ashlar cluster authority`: the authority that signs the certificates of nodes, and its replacement.
//!
//! Invariant: a replacement that is interrupted can be continued by the same command, at any node. Must not depend on:
//! certificates.

use std::time::Duration;

use ashlar_client::Method;
use ashlar_environment::time::{self, Instant};
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

use super::alias::alias_or_only;
use crate::admin_request::{ask, ask_with, understand};
use crate::context::Context;
use crate::failure::{Failure, Kind, Outcome};

/// Time between two requests.
const PAUSE: Duration = Duration::from_millis(500);

/// Actions on the authority.
#[derive(Subcommand, Debug)]
pub enum AuthorityCommand {
    /// Replace the authority while all nodes go on
    #[command(after_long_help = HELP)]
    Rotate(RotateOptions),
}

/// A replacement.
#[derive(Args, Debug)]
pub struct RotateOptions {
    /// The alias of any node; may be left out if there is only one alias
    alias: Option<String>,
    /// How many seconds to wait at most for the nodes, for each of the two phases
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    timeout: u64,
}

/// What `--help` adds.
const HELP: &str = "\
First every node that runs trusts a new authority beside the old one, then all get certificates of the new one, then the old one \
is not trusted any more. No connection is refused meanwhile. If the command is interrupted, all nodes work on as before; run it again, \
at any node, to go on. A node that is away is not waited for: it takes the new authority from etcd when it comes back. One that \
runs, but does not answer or cannot reach etcd, is waited for. The exit code is 5 if the nodes were not ready in time; they are named.

Rotate when somebody may know the authority's key, which is stored in etcd, sealed with a key that root's password opens: after \
you have taken away their access to etcd, and changed the password. docs/cluster.md has the details.

Examples:
  ashlar cluster authority rotate it
  ashlar --json cluster authority rotate it --timeout 600";

/// The authorities, as a node answers them.
#[derive(Deserialize)]
struct State {
    phase: Option<String>,
    signer: String,
    old: String,
}

#[derive(Deserialize)]
struct Rotation {
    authority: State,
    done: bool,
    waits: Vec<String>,
    away: Vec<u16>,
}

/// Runs an action on the authority.
pub async fn authority(command: AuthorityCommand, context: &Context) -> Outcome {
    let AuthorityCommand::Rotate(options) = command;
    rotate(options, context).await
}

async fn rotate(options: RotateOptions, context: &Context) -> Outcome {
    let alias = alias_or_only(options.alias, &context.aliases)?;
    let cluster = ask(context, &alias, Method::GET, "cluster", None).await?;
    let state: Option<State> = understand(&cluster["authority"])?;
    let Some(state) = state else {
        let why = "this server is alone: it has no certificates for other nodes";
        return Err(Failure::new(Kind::Failed, why));
    };
    if let Some(phase) = &state.phase {
        context.output.note(&format!("A replacement goes on that was begun before: {}.", described(phase)));
    }
    let order = json!({ "replace": state.old });
    let (mut phase, mut began, mut told) = (state.phase, Instant::now(), Vec::new());
    loop {
        let answer = ask_with(context, &alias, Method::POST, "cluster/authority", &[], Some(&order)).await?;
        let now: Rotation = understand(&answer)?;
        if now.done {
            context.output.done(|| answer, || text(&now));
            return Ok(());
        }
        if now.authority.phase != phase {
            phase = now.authority.phase;
            (began, told) = (Instant::now(), Vec::new());
            context.output.note(&format!("{}.", described(phase.as_deref().unwrap_or_default())));
        }
        if now.waits != told {
            now.waits.iter().for_each(|why| context.output.note(&format!("  waits: {why}")));
            told.clone_from(&now.waits);
        }
        // A step that was made is followed by the question what it waits for.
        if !now.waits.is_empty() && began.elapsed() >= Duration::from_secs(options.timeout) {
            return Err(late(&answer, &now.waits, context));
        }
        time::sleep(PAUSE).await;
    }
}

fn late(answer: &Value, waits: &[String], context: &Context) -> Failure {
    if context.output.json {
        context.output.result(|| answer.clone(), String::new);
    }
    Failure {
        what: "the authority is not replaced yet; run the command again to go on".to_owned(),
        ..Failure::new(Kind::Unavailable, waits.join("; "))
    }
}

fn described(phase: &str) -> &'static str {
    match phase {
        "introducing" => "All nodes learn to trust the new authority",
        "renewing" => "All nodes get certificates of the new authority",
        _ => "The authority is being replaced",
    }
}

fn text(done: &Rotation) -> String {
    let away: Vec<String> = done.away.iter().map(u16::to_string).collect();
    let short: String = done.authority.signer.chars().take(16).collect();
    let mut text = format!("The authority was replaced. The new one is {short}.");
    if !away.is_empty() {
        text.push_str(&format!(" Nodes that are away take it when they come back: {}.", away.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_the_new_authority_and_nodes_that_are_away() {
        let of = |away: &[u16]| {
            let authority = State { phase: None, signer: "ab".repeat(32), old: "ab".repeat(32) };
            text(&Rotation { authority, done: true, waits: Vec::new(), away: away.to_vec() })
        };
        assert_eq!(of(&[]), "The authority was replaced. The new one is abababababababab.");
        assert!(of(&[2, 3]).ends_with("when they come back: 2, 3."));
    }
}
