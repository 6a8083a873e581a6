//! `ashlar cluster control`: the members of etcd that the nodes run themselves.
//!
//! Must not depend on: how members are added and removed.

use ashlar_client::Method;
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use super::alias::alias_or_only;
use crate::admin_request::{ask_with, understand};
use crate::context::Context;
use crate::failure::Outcome;

/// What `--help` adds.
const HELP: &str = "\
For a cluster whose nodes run etcd themselves (`ashlar server --control managed`). LIST names one, three or five nodes by the \
hosts of their node addresses, as --control-members does. A node that is new on the list must run; it gets a member, which votes \
when it has everything. Then members that are not on the list are removed; one that does not answer is removed at once. The nodes \
do this by themselves: `ashlar cluster status` shows how far it is. All nodes remember the list; --control-members does not count \
any more. Most of the members that vote must stay: to replace more, repeat the command when the new ones vote.

Examples:
  ashlar cluster control set-members 10.0.0.4,10.0.0.5,10.0.0.7 it
  ashlar cluster control set-members --dry-run 10.0.0.4,10.0.0.5,10.0.0.7 it";

/// Actions on the members.
#[derive(Subcommand, Debug)]
pub enum ControlCommand {
    /// Change which nodes run a member of etcd
    #[command(after_long_help = HELP)]
    SetMembers(SetMembers),
}

/// A list of members.
#[derive(Args, Debug)]
pub struct SetMembers {
    /// HOST,HOST,... or HOST:CLIENT-PORT:PEER-PORT,...
    #[arg(value_name = "LIST", value_delimiter = ',', required = true)]
    members: Vec<String>,
    /// The alias of any node; may be left out if there is only one alias
    alias: Option<String>,
    /// Only show whether it can be done
    #[arg(long)]
    dry_run: bool,
}

#[derive(Deserialize)]
struct Done {
    before: Vec<String>,
    members: Vec<String>,
    changed: bool,
}

/// Carries out an action.
pub async fn control(command: ControlCommand, context: &Context) -> Outcome {
    let ControlCommand::SetMembers(options) = command;
    let alias = alias_or_only(options.alias, &context.aliases)?;
    let order = json!({ "members": options.members, "dry_run": options.dry_run });
    let answer =
        ask_with(context, &alias, Method::POST, "cluster/control-members", &[], Some(&order)).await?;
    let done: Done = understand(&answer)?;
    context.output.done(|| answer, || done.text());
    Ok(())
}

impl Done {
    fn text(&self) -> String {
        let Done { before, members, changed } = self;
        let (before_text, members_text) = (before.join(","), members.join(","));
        match changed {
            _ if before == members => format!("The members of etcd are {members_text} already."),
            true => format!(
                "The members of etcd were {before_text}; the nodes make them {members_text}. `ashlar cluster status` shows how \
                 far it is."
            ),
            false => format!(
                "The members of etcd can be changed from {before_text} to {members_text}. Nothing was changed: repeat without \
                 --dry-run."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_what_was_done() {
        let of = |before: &str, changed| {
            Done { before: vec![before.to_owned()], members: vec!["b".to_owned()], changed }.text()
        };
        assert!(of("a", true).starts_with("The members of etcd were a; the nodes make them b."));
        assert!(of("a", false).contains("Nothing was changed"));
        assert_eq!(of("b", false), "The members of etcd are b already.");
    }
}
