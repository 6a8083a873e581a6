//! `ashlar fabric serve`: the process that is an enclosure, until a signal ends it; `check` and `setup`.
//!
//! Must not depend on: the other verbs.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use ashlar_fabric::{MOST, Options, Process, SETUPS, Setup, api, parse};
use clap::Args;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::context::Context;
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{Output, Tone, empty_table, size_text};

/// The help text after the options.
pub const HELP: &str = "\
Each drive is an NVMe subsystem, with its namespaces, at every port. Commands take the time that the model of the drive, its port \
and its module say. The data is in sparse files in the folder that the set-up names, beside the set-up unless it says otherwise. \
All other commands of `ashlar fabric` ask this process over its socket. SIGTERM and Ctrl-C answer the commands that have arrived.

With --nvme-hosts only hosts in that file may connect, with TLS if they have a key of it, and after they have authenticated themselves \
(DH-HMAC-CHAP) if they have a secret; `ashlar fabric host` \
changes the file. An address that other machines reach needs --nvme-hosts or --allow-anyone.

Examples:
  ashlar fabric serve shelf.toml
  ashlar fabric serve shelf.toml --redfish 127.0.0.1:8000
  ashlar fabric serve shelf.toml --socket /run/user/1000/shelf.sock";

/// The process.
#[derive(Args, Debug)]
pub struct ServeOptions {
    /// The set-up, a TOML file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file of the hosts that may connect, with their secrets and keys of TLS; it is made when the first is added
    #[arg(long, value_name = "FILE")]
    nvme_hosts: Option<PathBuf>,
    /// Let everybody who reaches a port read and write
    #[arg(long)]
    allow_anyone: bool,
    /// Serve Redfish over HTTP at this address: it shows the enclosure, and changes nothing
    #[arg(long, value_name = "HOST:PORT")]
    redfish: Option<String>,
    /// Let everybody who reaches the address read Redfish
    #[arg(long, requires = "redfish")]
    redfish_allow_anyone: bool,
}

/// A set-up without a process.
#[derive(Args, Debug)]
pub struct CheckOptions {
    /// The set-up, a TOML file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The set-ups that ship.
#[derive(Args, Debug)]
pub struct SetupOptions {
    /// The one to print
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

fn read(file: &Path) -> Outcome<Setup> {
    let mut text = String::new();
    let opened = std::fs::File::open(file).and_then(|f| f.take(MOST as u64 + 1).read_to_string(&mut text));
    opened.map_err(|e| {
        let kind = if e.kind() == std::io::ErrorKind::NotFound { Kind::NotFound } else { Kind::Failed };
        Failure::new(kind, format!("{}: {e}", file.display()))
    })?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let setup = parse(&text, folder);
    setup.map_err(|e| Failure::usage(format!("{}: {}", file.display(), e.message)))
}

/// Serves until a signal.
pub async fn serve(options: ServeOptions, context: &Context<'_>) -> Outcome {
    let output = context.output;
    logs(output);
    let setup = read(&options.file)?;
    let data = setup.data.display().to_string();
    let catch = |kind| signal(kind).map_err(|e| Failure::new(Kind::Failed, e.to_string()));
    let (mut terminate, mut interrupt) = (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
    let process = Process::start(Options {
        setup,
        socket: context.socket.clone(),
        hosts: options.nvme_hosts,
        allow_anyone: options.allow_anyone,
        redfish: options.redfish,
        redfish_allow_anyone: options.redfish_allow_anyone,
    })
    .await?;
    let state = process.state();
    let socket = context.socket.display().to_string();
    output.result(
        || json!({ "socket": socket, "data": data, "state": state }),
        || banner(output, &socket, &data, &state),
    );
    output.flush();
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    process.stop().await;
    Ok(())
}

/// The log goes to the standard error.
fn logs(output: &Output) {
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false);
    let subscriber = subscriber.with_max_level(tracing::Level::INFO);
    // Tests start several in one process.
    let _ = if output.json { subscriber.json().try_init() } else { subscriber.try_init() };
}

fn banner(output: &Output, socket: &str, data: &str, state: &api::State) -> String {
    let name = output.paint(Tone::Folder, &state.name);
    let size: u64 = state.drives.iter().flat_map(|d| &d.namespaces).map(|n| n.size).sum();
    let each = state.drives.first().map_or(0, |d| d.namespaces.len());
    let mut lines = vec![
        format!("{name}  {} 1:{}, {}", state.title, state.scale, state.state),
        format!("Drives   {}, {each} namespaces each, {} in all", state.drives.len(), size_text(size)),
        format!("Data     {data}"),
        format!("Socket   {socket}"),
    ];
    for port in &state.ports {
        let zones = state.zones.iter().flatten().filter(|z| z.ports.contains(&port.name));
        let zones: Vec<&str> = zones.map(|z| z.name.as_str()).collect();
        let of = if zones.is_empty() { String::new() } else { format!("  {}", zones.join(", ")) };
        lines.push(format!("Port {}  {}  {}{of}", port.name, port.address, port.state));
    }
    if let Some(address) = &state.redfish {
        lines.push(format!("Redfish  http://{address}/redfish/v1/"));
    }
    if let Some((host, service)) = state.ports.first().and_then(|p| p.address.rsplit_once(':')) {
        lines.push(format!("Linux    nvme discover -t tcp -a {host} -s {service}"));
    }
    lines.join("\n")
}

/// Shows what a set-up means.
pub fn check(options: &CheckOptions, context: &Context<'_>) -> Outcome {
    let setup = read(&options.file)?;
    let zones = setup.zones.as_deref().unwrap_or_default();
    let names = |ports: &[usize]| ports.iter().map(|p| setup.port_name(*p)).collect::<Vec<_>>().join(" ");
    context.output.result(
        || {
            let zone = |z: &ashlar_fabric::Zone| {
                json!({ "name": z.name, "hosts": z.hosts, "namespaces": z.namespaces.len(), "ports": names(&z.ports) })
            };
            json!({
                "name": setup.name, "model": setup.model, "scale": setup.scale, "bays": setup.bays,
                "namespaces": setup.namespaces, "namespace_size": setup.size, "block": setup.block,
                "data": setup.data, "ports": setup.ports, "faults": setup.faults,
                "zones": zones.iter().map(zone).collect::<Vec<Value>>(),
            })
        },
        || {
            let mut lines = vec![format!(
                "{}  {} 1:{}: {} drives with {} namespaces of {}, {} ports, {} faults at the start",
                context.output.paint(Tone::Folder, &setup.name),
                setup.title,
                setup.scale,
                setup.bays,
                setup.namespaces,
                size_text(setup.size),
                setup.ports.len(),
                setup.faults.len()
            )];
            for zone in zones {
                lines.push(format!(
                    "Zone {}: {} namespaces for {} hosts at {}",
                    context.output.printable(&zone.name),
                    zone.namespaces.len(),
                    zone.hosts.len(),
                    names(&zone.ports)
                ));
            }
            lines.join("\n")
        },
    );
    Ok(())
}

/// Lists the set-ups that ship, or prints one.
pub fn setup(options: &SetupOptions, context: &Context<'_>) -> Outcome {
    let output = context.output;
    let Some(name) = &options.name else {
        let first = |text: &str| text.lines().next().unwrap_or_default().trim_start_matches("# ").to_owned();
        if output.json {
            SETUPS.iter().for_each(|(name, text)| {
                output.result(|| json!({ "name": name, "what": first(text) }), String::new)
            });
            return Ok(());
        }
        let mut table = empty_table();
        table.set_header(["Set-up", "What it is"]);
        for (name, text) in SETUPS {
            // The sentence goes on in the next lines of the comment.
            let comment: Vec<&str> = text.lines().map_while(|l| l.strip_prefix("# ")).collect();
            let all = comment.join(" ");
            table.add_row([name.to_owned(), all.split(". ").next().unwrap_or_default().to_owned()]);
        }
        output.result(|| Value::Null, || table.to_string());
        return Ok(());
    };
    let found = SETUPS.iter().find(|s| s.0 == name);
    let (name, text) =
        found.ok_or_else(|| Failure::new(Kind::NotFound, format!("there is no set-up {name:?}")))?;
    output.result(|| json!({ "name": name, "text": text }), || text.trim_end().to_owned());
    Ok(())
}
