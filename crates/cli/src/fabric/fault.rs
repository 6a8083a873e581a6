//! `ashlar fabric fault`: what fails, and what works again.
//!
//! Must not depend on: the other verbs, except for how faults are shown.

use ashlar_fabric::api::{Blocks, Call, Fault, FaultSpec};
use clap::{Args, Subcommand};
use serde_json::json;

use super::context::Context;
use super::show::{fault_table, fault_text};
use crate::failure::{Failure, Outcome};

/// Faults and what is done with them.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Pull a drive
    DriveGone {
        /// From 1
        bay: usize,
    },
    /// Have everything take longer at a drive
    SlowDrive {
        /// From 1
        bay: usize,
        /// How many times longer
        #[arg(long, default_value_t = 10.0)]
        factor: f64,
    },
    /// Remove a namespace of a drive
    NamespaceLost {
        /// For instance 3/1
        #[arg(value_name = "BAY/NAMESPACE", value_parser = place)]
        place: Place,
    },
    /// Cut the link of a port
    PortDown {
        /// For instance A1
        port: String,
    },
    /// Cut the links of all ports of a module
    ModuleDown {
        /// For instance A
        module: String,
    },
    /// Cut the links of all ports
    EnclosureDown,
    /// Return chosen blocks with a wrong bit, until they are written
    CorruptRead(Damage),
    /// Answer writes of chosen blocks without storing them
    LostWrite(Damage),
    /// List the faults in force
    #[command(visible_alias = "ls")]
    List,
    /// End faults
    Clear {
        /// Numbers of faults
        #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
        ids: Vec<u32>,
        /// All of them
        #[arg(long)]
        all: bool,
    },
}

/// A namespace of a bay.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    bay: usize,
    namespace: u32,
}

fn place(text: &str) -> Result<Place, String> {
    let parts = text.split_once('/').and_then(|(b, n)| Some((b.parse().ok()?, n.parse().ok()?)));
    parts
        .map(|(bay, namespace)| Place { bay, namespace })
        .ok_or_else(|| format!("{text:?} is not BAY/NAMESPACE"))
}

/// Damage of blocks.
#[derive(Args, Debug)]
pub struct Damage {
    /// For instance 3/1
    #[arg(value_name = "BAY/NAMESPACE", value_parser = place)]
    place: Place,
    /// Only these blocks: a block, or the first and the last one
    #[arg(long, value_name = "FIRST-LAST", value_parser = range)]
    blocks: Option<(u64, u64)>,
    /// The share of the blocks that is chosen, above 0 and at most 1
    #[arg(long, default_value_t = 1.0)]
    rate: f64,
    /// Decides which ones [default: that of the set-up]
    #[arg(long)]
    seed: Option<u64>,
    /// How often a block is hit; 0: always [default: a write once, reads always]
    #[arg(long, value_name = "N")]
    times: Option<u32>,
    /// How many hits there are in all; which blocks they hit depends on the order of commands [default: no limit]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(format!("{text:?} is not FIRST-LAST")),
    }
}

impl Damage {
    fn blocks(&self) -> Blocks {
        let (first, last) = self.blocks.map_or((0, None), |(first, last)| (first, Some(last)));
        Blocks { first, last, rate: self.rate, seed: self.seed, times: self.times, limit: self.limit }
    }
}

/// The call of a command; none: it only lists.
fn call(command: Command) -> Option<Call> {
    let fault = match command {
        Command::List => return None,
        Command::Clear { ids, .. } => return Some(Call::Clear { ids }),
        Command::DriveGone { bay } => FaultSpec::DriveGone { bay },
        Command::SlowDrive { bay, factor } => FaultSpec::SlowDrive { bay, factor },
        Command::NamespaceLost { place } => {
            FaultSpec::NamespaceLost { bay: place.bay, namespace: place.namespace }
        }
        Command::PortDown { port } => FaultSpec::PortDown { port },
        Command::ModuleDown { module } => FaultSpec::ModuleDown { module },
        Command::EnclosureDown => FaultSpec::EnclosureDown {},
        Command::CorruptRead(damage) => FaultSpec::CorruptRead {
            bay: damage.place.bay,
            namespace: damage.place.namespace,
            blocks: damage.blocks(),
        },
        Command::LostWrite(damage) => FaultSpec::LostWrite {
            bay: damage.place.bay,
            namespace: damage.place.namespace,
            blocks: damage.blocks(),
        },
    };
    Some(Call::Inject { fault })
}

/// Runs the command.
pub async fn run(command: Command, context: &Context<'_>) -> Outcome {
    let output = context.output;
    let Some(call) = call(command) else {
        let faults = context.client().state().await?.faults;
        if output.json {
            print(&faults, context);
        } else {
            output.result(|| json!(null), || fault_table(&faults));
        }
        return Ok(());
    };
    let done = context.client().call(&call).await.map_err(Failure::from)?.faults;
    if output.json {
        print(&done, context);
        return Ok(());
    }
    let ended = matches!(call, Call::Clear { .. });
    let word = if ended { "ended" } else { "in force" };
    for fault in &done {
        output.done(|| json!(fault), || format!("Fault {}: {}  {word}", fault.id, fault_text(&fault.spec)));
    }
    if ended && done.is_empty() {
        output.note("no fault was in force");
    }
    Ok(())
}

fn print(faults: &[Fault], context: &Context<'_>) {
    faults.iter().for_each(|fault| context.output.result(|| json!(fault), String::new));
}
