//! `ashlar fabric host`: which hosts may connect to an enclosure, and the table of such hosts, also of `ashlar array`.
//!
//! Must not depend on: the other verbs.

use ashlar_fabric::api::Call;
use ashlar_nvme_tcp::Known;
use clap::Subcommand;
use serde_json::{Value, json};

use super::context::Context;
use super::secrets::HostOptions;
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{Output, empty_table};

/// Hosts and what is done with them.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Let a host connect with a secret, a key of TLS or both, or change them
    Set(HostOptions),
    /// Let a host connect no more; its connections end
    #[command(visible_alias = "rm")]
    Remove {
        /// The name of the host
        #[arg(value_name = "NQN", value_parser = super::secrets::nqn)]
        nqn: String,
    },
    /// List the hosts that may connect
    #[command(visible_alias = "ls")]
    List,
}

/// Runs the command.
pub async fn run(command: Command, context: &Context<'_>) -> Outcome {
    match command {
        Command::Set(options) => {
            let keys = options.keys()?;
            let nqn = options.nqn;
            context.client().call(&Call::SetHost { nqn: nqn.clone(), keys }).await?;
            context.output.done(|| json!({ "nqn": nqn }), || format!("{nqn} may connect"));
            Ok(())
        }
        Command::Remove { nqn } => {
            context.client().call(&Call::RemoveHost { nqn: nqn.clone() }).await?;
            context.output.done(|| json!({ "nqn": nqn }), || format!("{nqn} may not connect any more"));
            Ok(())
        }
        Command::List => list(context.client().state().await?.hosts, context.output),
    }
}

/// Prints the hosts that may connect. None: all may.
pub fn list(hosts: Option<Vec<Known>>, output: &Output) -> Outcome {
    let Some(hosts) = hosts else {
        return Err(Failure::new(
            Kind::NotFound,
            "all hosts may connect: the process was started without --nvme-hosts",
        ));
    };
    if output.json {
        hosts.iter().for_each(|h| output.result(|| json!(h), String::new));
        return Ok(());
    }
    let mut table = empty_table();
    table.set_header(["Host", "TLS", "DH-HMAC-CHAP", "Target authenticates itself", "Hash", "Group"]);
    for host in &hosts {
        table.add_row([
            output.printable(&host.nqn),
            if host.tls { "required" } else { "no key" }.to_owned(),
            if host.dhchap { "required" } else { "no secret" }.to_owned(),
            if host.mutual { "if asked" } else { "no" }.to_owned(),
            host.hash.map_or("any", |h| h.name()).to_owned(),
            host.group.map_or("any", |g| g.name()).to_owned(),
        ]);
    }
    output.result(|| Value::Null, || table.to_string());
    Ok(())
}
