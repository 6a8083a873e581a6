//! `ashlar fabric ana`: how namespaces are accessed through ports (asymmetric namespace access).
//!
//! Must not depend on: the other verbs.

use ashlar_fabric::api::{AnaEntry, AnaSpec, Call};
use ashlar_nvme_tcp::AnaState;
use clap::Subcommand;
use serde_json::{Value, json};

use super::context::Context;
use crate::failure::Outcome;
use crate::output::empty_table;

/// The states and what is done with them.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Set the state of namespaces at a port, at all ports of a module, or everywhere
    Set {
        /// For instance A1, A or all
        #[arg(value_name = "PORT|MODULE|all")]
        at: String,
        /// optimized, non-optimized, inaccessible, persistent-loss or change
        #[arg(value_parser = state)]
        state: AnaState,
        /// Only these namespaces, or all of a drive [default: all of the enclosure]
        #[arg(long, value_name = "BAY[/NAMESPACE]", num_args = 1..)]
        namespaces: Vec<String>,
    },
    /// List the states at each port
    #[command(visible_alias = "ls")]
    List,
}

fn state(text: &str) -> Result<AnaState, String> {
    AnaState::ALL.into_iter().find(|s| s.to_string() == text).ok_or_else(|| {
        let all = AnaState::ALL.map(|s| s.to_string());
        format!("there are {}", all.join(", "))
    })
}

/// Runs the command.
pub async fn run(command: Command, context: &Context<'_>) -> Outcome {
    let output = context.output;
    match command {
        Command::Set { at, state, namespaces } => {
            let everywhere = at.eq_ignore_ascii_case("all");
            let ana = AnaSpec { at: (!everywhere).then(|| at.clone()), namespaces, state };
            context.client().call(&Call::SetAna { ana: ana.clone() }).await?;
            let what = if ana.namespaces.is_empty() {
                "all namespaces".to_owned()
            } else {
                ana.namespaces.join(", ")
            };
            let place = if everywhere { "all ports".to_owned() } else { at };
            output.done(|| json!(ana), || format!("{what} at {}: {state}", output.printable(&place)));
        }
        Command::List => {
            let entries = context.client().state().await?.ana;
            if output.json {
                entries.iter().for_each(|e| output.result(|| json!(e), String::new));
            } else {
                output.result(|| Value::Null, || table(&entries));
            }
        }
    }
    Ok(())
}

fn table(entries: &[AnaEntry]) -> String {
    let mut table = empty_table();
    table.set_header(["Port", "ANA state", "Namespaces"]);
    for entry in entries {
        // The names of a whole enclosure would fill the screen.
        let alone = entries.iter().filter(|e| e.port == entry.port).count() == 1;
        let names =
            if alone { format!("all {}", entry.namespaces.len()) } else { entry.namespaces.join(" ") };
        table.add_row([entry.port.clone(), entry.state.to_string(), names]);
    }
    table.to_string()
}
