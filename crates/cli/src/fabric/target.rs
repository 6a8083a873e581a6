//! `ashlar fabric discover` and `list`: what a target of NVMe/TCP has, real or virtual. They need no process. `attach` and `detach` say which
//! commands do that.
//!
//! Must not depend on: the other verbs.

use ashlar_environment::spawn_blocking;
use ashlar_nvme_tcp::Error as Cause;
use ashlar_nvme_tcp::host::{self, Address, DiscoveryEntry, HostOptions, Listed, MAX_PORTALS, Portal};
use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::secrets::{Secrets, nqn};
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{Output, empty_table, size_text};

/// A target, and who asks it.
#[derive(Args, Debug)]
pub struct TargetOptions {
    /// The address of a target
    #[arg(value_name = "HOST:PORT", value_parser = portal)]
    portal: String,
    /// The name of the host that asks: what it sees may depend on it [default: a random one]
    #[arg(long, value_name = "NQN", value_parser = nqn)]
    host_nqn: Option<String>,
    #[command(flatten)]
    secrets: Secrets,
}

/// What is listed.
#[derive(Args, Debug)]
pub struct ListOptions {
    #[command(flatten)]
    target: TargetOptions,
    /// Only the namespaces of this subsystem, which is asked at the address itself
    #[arg(long, value_name = "NQN", value_parser = nqn)]
    subsystem: Option<String>,
}

/// What was to be attached or detached.
#[derive(Args, Debug)]
pub struct AttachOptions {
    /// Addresses of namespaces, as `list` shows them
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
}

/// Nothing is attached apart from the process that uses it: there is no list of connections that could differ from what it uses.
pub fn attach(options: &AttachOptions) -> Outcome {
    let named = named(options);
    Err(Failure::usage(format!(
        "a namespace is attached by the process that uses it, as long as it does. Name {named} in `ashlar array create dg`, `import dg`, \
         `replace pd` or `edit pd ADDRESS marker hotspare`, and in `ashlar array serve ADDRESS...` after a restart; `ashlar array describe pd` shows the \
         paths. For the kernel of this machine: `nvme connect -t tcp -a HOST -s PORT -n NQN`"
    )))
}

/// As [`attach`].
pub fn detach(options: &AttachOptions) -> Outcome {
    let named = named(options);
    Err(Failure::usage(format!(
        "a namespace is detached when no group has {named} any more: `ashlar array replace pd`, `delete pd` for a hot spare, `stop dg` or `delete dg`. \
         In the kernel of this machine: `nvme disconnect -n NQN`"
    )))
}

fn named(options: &AttachOptions) -> String {
    if options.addresses.is_empty() { "it".to_owned() } else { options.addresses.join(" ") }
}

fn portal(text: &str) -> Result<String, String> {
    let found = text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    found.map(|_| text.to_owned()).ok_or_else(|| format!("{text:?} is not HOST:PORT"))
}

/// A target that does not answer is no hanging command.
fn options(target: &TargetOptions) -> Outcome<HostOptions> {
    let mut options = HostOptions::new().map_err(|e| failure(&e))?;
    if let Some(name) = &target.host_nqn {
        options.host_nqn.clone_from(name);
    }
    (options.secret, options.controller_secret) = (target.secrets.host()?, target.secrets.target()?);
    options.tls_key = target.secrets.tls()?;
    Ok(options)
}

fn failure(error: &Cause) -> Failure {
    let kind = match error {
        Cause::Connection(_) | Cause::Unreachable { .. } => Kind::Unavailable,
        Cause::Refused(_) => Kind::NotFound,
        Cause::Address { .. } | Cause::Range { .. } => Kind::Usage,
        _ => Kind::Failed,
    };
    Failure::new(kind, error.to_string())
}

/// Calls the target in a thread that may wait.
async fn ask<T: Send + 'static>(call: impl FnOnce() -> Result<T, Cause> + Send + 'static) -> Outcome<T> {
    let done = spawn_blocking("fabric-target", call).await;
    done.map_err(|_| Failure::new(Kind::Failed, "the call broke off"))?.map_err(|e| failure(&e))
}

async fn entries(target: &TargetOptions, options: &HostOptions) -> Outcome<Vec<DiscoveryEntry>> {
    let (portal, options) = (target.portal.clone(), options.clone());
    ask(move || host::discover(&portal, &options)).await
}

/// Shows the subsystems and addresses of which the target tells.
pub async fn discover(target: &TargetOptions, context: &Context<'_>) -> Outcome {
    let output = context.output;
    let found = entries(target, &options(target)?).await?;
    if output.json {
        let object =
            |e: &DiscoveryEntry| json!({ "nqn": e.nqn, "address": address(e), "discovery": e.discovery });
        found.iter().for_each(|e| output.result(|| object(e), String::new));
        return Ok(());
    }
    let mut table = empty_table();
    table.set_header(["Subsystem", "Address", "Type"]);
    for entry in &found {
        let kind = if entry.discovery { "discovery" } else { "NVM" };
        table.add_row([output.printable(&entry.nqn), output.printable(&address(entry)), kind.into()]);
    }
    output.result(|| Value::Null, || table.to_string());
    Ok(())
}

fn address(entry: &DiscoveryEntry) -> String {
    let host = &entry.host;
    if host.contains(':') { format!("[{host}]:{}", entry.port) } else { format!("{host}:{}", entry.port) }
}

/// Lists the namespaces of a subsystem, or of all that the target tells of: each is asked once, at its first address. Those of which the
/// target tells have all their ports in their addresses.
pub async fn list(options: &ListOptions, context: &Context<'_>) -> Outcome {
    let target = &options.target;
    let host_options = self::options(target)?;
    let wanted: Vec<(Vec<String>, String)> = match &options.subsystem {
        Some(nqn) => vec![(vec![target.portal.clone()], nqn.clone())],
        None => {
            let mut seen: Vec<(Vec<String>, String)> = Vec::new();
            for entry in entries(target, &host_options).await?.iter().filter(|e| !e.discovery) {
                match seen.iter_mut().find(|(_, nqn)| *nqn == entry.nqn) {
                    Some((ports, _)) if ports.contains(&address(entry)) || ports.len() == MAX_PORTALS => {}
                    Some((ports, _)) => ports.push(address(entry)),
                    None => seen.push((vec![address(entry)], entry.nqn.clone())),
                }
            }
            seen
        }
    };
    let mut all = Vec::new();
    for (ports, nqn) in wanted {
        let (first, options) = (ports[0].clone(), host_options.clone());
        let found = ask(move || host::list(&first, &nqn, &options)).await?;
        // A port that no address can have is left out.
        let portals: Vec<Portal> = ports.iter().filter_map(|p| p.parse().ok()).collect();
        all.extend(found.into_iter().map(|(at, facts)| (Address { portals: portals.clone(), ..at }, facts)));
    }
    print(&all, context.output);
    Ok(())
}

fn print(all: &[Listed], output: &Output) {
    if output.json {
        all.iter().for_each(|one| output.result(|| object(one), String::new));
        return;
    }
    let mut table = empty_table();
    table.set_header(["Namespace", "Size", "Block", "Identity"]);
    for (address, facts) in all {
        let (size, block, identity) = match facts {
            Ok(f) => (size_text(f.blocks * u64::from(f.block)), f.block.to_string(), f.identity.to_string()),
            Err(e) => (String::new(), String::new(), e.to_string()),
        };
        table.add_row([output.printable(&address.to_string()), size, block, output.printable(&identity)]);
    }
    output.result(|| Value::Null, || table.to_string());
}

fn object((address, facts): &Listed) -> Value {
    match facts {
        Ok(f) => json!({
            "address": address.to_string(), "nqn": address.nqn, "nsid": address.nsid, "block": f.block,
            "size": f.blocks * u64::from(f.block), "read_only": f.read_only, "identity": f.identity.to_string(),
        }),
        Err(error) => json!({
            "address": address.to_string(), "nqn": address.nqn, "nsid": address.nsid, "problem": error.to_string(),
        }),
    }
}
