//! `status` and `describe`: what is said about an enclosure, as text.
//!
//! Must not depend on: verbs that change something.

use std::time::Duration;

use ashlar_environment::time;
use ashlar_fabric::api::{Blocks, Drive, Fault, FaultSpec, State};
use clap::{Args, Subcommand};
use serde_json::json;

use super::context::Context;
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{Output, Tone, empty_table, size_text, span_text};

/// Time between looks of `--watch`.
const LOOK: Duration = Duration::from_secs(1);

/// What is shown.
#[derive(Args, Debug)]
pub struct StatusOptions {
    /// Show it again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// What is described.
#[derive(Subcommand, Debug)]
pub enum Describe {
    /// A drive
    Drive {
        /// From 1
        bay: usize,
    },
}

/// Shows the enclosure.
pub async fn status(options: &StatusOptions, context: &Context<'_>) -> Outcome {
    let output = context.output;
    loop {
        let state = context.client().state().await?;
        output.result(|| json!(state), || status_text(output, &state));
        if !options.watch {
            return Ok(());
        }
        output.flush();
        time::sleep(LOOK).await;
    }
}

fn tone(state: &str) -> Tone {
    match state {
        "ONLINE" | "UP" => Tone::Good,
        _ => Tone::Bad,
    }
}

fn per_s(commands: u64, bytes: u64) -> String {
    if commands == 0 { "-".into() } else { format!("{commands}/s {}/s", size_text(bytes)) }
}

fn status_text(output: &Output, state: &State) -> String {
    let mut lines = vec![format!(
        "{}  {}  {} 1:{}, up {}",
        output.paint(Tone::Folder, &state.name),
        output.paint(tone(&state.state), &state.state),
        state.title,
        state.scale,
        span_text(state.uptime_s)
    )];
    let mut table = empty_table();
    table.set_header(["Bay", "State", "Temp", "Reads", "Writes", "Depth", "Errors", "Namespaces", "Faults"]);
    for drive in &state.drives {
        let faults: Vec<&str> =
            state.faults.iter().filter(|f| concerns(&f.spec, drive.bay)).map(|f| word(&f.spec)).collect();
        let lost = drive.namespaces.iter().filter(|n| n.state != "ONLINE").count();
        let there = drive.namespaces.len() - lost;
        table.add_row([
            format!("{:>2}", drive.bay),
            output.paint(tone(&drive.state), &drive.state),
            format!("{:.0} C", drive.celsius),
            per_s(drive.used.reads_per_s, drive.used.read_bytes_per_s),
            per_s(drive.used.writes_per_s, drive.used.written_bytes_per_s),
            drive.depth.to_string(),
            drive.used.errors.to_string(),
            if lost == 0 { there.to_string() } else { format!("{there} of {}", drive.namespaces.len()) },
            faults.join(", "),
        ]);
    }
    lines.push(table.to_string());
    let mut table = empty_table();
    table.set_header(["Port", "State", "ANA", "Address", "Hosts", "Reads", "Writes", "Zones"]);
    for port in &state.ports {
        let zones = state.zones.iter().flatten().filter(|z| z.ports.contains(&port.name));
        table.add_row([
            port.name.clone(),
            output.paint(tone(&port.state), &port.state),
            ana_text(state, &port.name),
            port.address.clone(),
            port.controllers.to_string(),
            per_s(port.used.reads_per_s, port.used.read_bytes_per_s),
            per_s(port.used.writes_per_s, port.used.written_bytes_per_s),
            zones.map(|z| output.printable(&z.name)).collect::<Vec<_>>().join(", "),
        ]);
    }
    lines.push(table.to_string());
    if !state.faults.is_empty() {
        lines.push(fault_table(&state.faults));
    }
    lines.join("\n")
}

/// The ANA states at a port: one, or how many namespaces have each.
fn ana_text(state: &State, port: &str) -> String {
    let of: Vec<_> = state.ana.iter().filter(|e| e.port == port).collect();
    match of[..] {
        [one] => one.state.to_string(),
        _ => of.iter().map(|e| format!("{} {}", e.namespaces.len(), e.state)).collect::<Vec<_>>().join(", "),
    }
}

/// The word of a fault, as commands and set-ups have it.
fn word(fault: &FaultSpec) -> &'static str {
    match fault {
        FaultSpec::DriveGone { .. } => "drive-gone",
        FaultSpec::SlowDrive { .. } => "slow-drive",
        FaultSpec::NamespaceLost { .. } => "namespace-lost",
        FaultSpec::PortDown { .. } => "port-down",
        FaultSpec::ModuleDown { .. } => "module-down",
        FaultSpec::EnclosureDown {} => "enclosure-down",
        FaultSpec::CorruptRead { .. } => "corrupt-read",
        FaultSpec::LostWrite { .. } => "lost-write",
    }
}

fn concerns(fault: &FaultSpec, at: usize) -> bool {
    match fault {
        FaultSpec::DriveGone { bay }
        | FaultSpec::SlowDrive { bay, .. }
        | FaultSpec::NamespaceLost { bay, .. }
        | FaultSpec::CorruptRead { bay, .. }
        | FaultSpec::LostWrite { bay, .. } => *bay == at,
        FaultSpec::PortDown { .. } | FaultSpec::ModuleDown { .. } | FaultSpec::EnclosureDown {} => false,
    }
}

/// A fault in words.
pub fn fault_text(fault: &FaultSpec) -> String {
    let what = match fault {
        FaultSpec::DriveGone { bay } => format!("bay {bay}"),
        FaultSpec::SlowDrive { bay, factor } => format!("bay {bay}, {factor} times slower"),
        FaultSpec::NamespaceLost { bay, namespace } => format!("{bay}/{namespace}"),
        FaultSpec::PortDown { port } => format!("port {port}"),
        FaultSpec::ModuleDown { module } => format!("module {module}"),
        FaultSpec::EnclosureDown {} => return word(fault).into(),
        FaultSpec::CorruptRead { bay, namespace, blocks }
        | FaultSpec::LostWrite { bay, namespace, blocks } => {
            format!("{bay}/{namespace}, {}", blocks_text(blocks))
        }
    };
    format!("{} {what}", word(fault))
}

fn blocks_text(blocks: &Blocks) -> String {
    let range = match blocks.last {
        Some(last) => format!("blocks {}-{last}", blocks.first),
        None if blocks.first == 0 => "all blocks".into(),
        None => format!("blocks from {} on", blocks.first),
    };
    let mut text = if blocks.rate < 1.0 { format!("{} % of {range}", 100.0 * blocks.rate) } else { range };
    if let Some(seed) = blocks.seed {
        text += &format!(", seed {seed}");
    }
    match blocks.times {
        None | Some(0) => {}
        Some(times) => text += &format!(", {times} times each"),
    }
    if let Some(limit) = blocks.limit {
        text += &format!(", {limit} in all");
    }
    text
}

/// Whether it damages blocks.
fn damages(fault: &FaultSpec) -> bool {
    matches!(fault, FaultSpec::CorruptRead { .. } | FaultSpec::LostWrite { .. })
}

/// The faults in force.
pub fn fault_table(faults: &[Fault]) -> String {
    if faults.is_empty() {
        return "No fault is in force.".into();
    }
    let mut table = empty_table();
    table.set_header(["Fault", "What", "Blocks hit"]);
    for fault in faults {
        let hits = if damages(&fault.spec) { fault.hits.to_string() } else { String::new() };
        table.add_row([fault.id.to_string(), fault_text(&fault.spec), hits]);
    }
    table.to_string()
}

/// Describes one thing.
pub async fn describe(noun: Describe, context: &Context<'_>) -> Outcome {
    let Describe::Drive { bay } = noun;
    let output = context.output;
    let state = context.client().state().await?;
    let missing = || Failure::new(Kind::NotFound, format!("there is no bay {bay}"));
    let drive = state.drives.iter().find(|d| d.bay == bay).ok_or_else(missing)?;
    output.result(|| json!(drive), || drive_text(output, drive, &state));
    Ok(())
}

fn drive_text(output: &Output, drive: &Drive, state: &State) -> String {
    let mut lines = vec![
        format!("Bay {}  {}", drive.bay, output.paint(tone(&drive.state), &drive.state)),
        format!("Serial       {}", drive.serial),
        format!("NQN          {}", drive.nqn),
        format!("Temperature  {:.1} C", drive.celsius),
        format!("Health       {}{}", drive.health, if drive.locate { ", identify LED on" } else { "" }),
        format!("Wear         {} % used, spare {} %", drive.percentage_used, drive.spare),
        format!("Read         {} commands, {}", drive.used.reads, size_text(drive.used.bytes_read)),
        format!("Written      {} commands, {}", drive.used.writes, size_text(drive.used.bytes_written)),
        format!("Failed       {} commands", drive.used.errors),
        format!(
            "Damaged      {} blocks read with a wrong bit, {} writes of blocks lost, {} blocks not flushed before a pull",
            drive.corrupt_blocks, drive.lost_blocks, drive.unflushed_blocks
        ),
    ];
    let of = state.faults.iter().filter(|f| concerns(&f.spec, drive.bay));
    lines.extend(of.map(|f| {
        let hits = if damages(&f.spec) { format!(", {} hit", f.hits) } else { String::new() };
        format!("Fault {:<6} {}{hits}", f.id, fault_text(&f.spec))
    }));
    let mut table = empty_table();
    table.set_header(["Namespace", "State", "Size", "Block", "NGUID, UUID", "EUI-64"]);
    for namespace in &drive.namespaces {
        table.add_row([
            namespace.nsid.to_string(),
            output.paint(tone(&namespace.state), &namespace.state),
            size_text(namespace.size),
            namespace.block.to_string(),
            namespace.uuid.clone(),
            namespace.eui64.clone(),
        ]);
    }
    lines.push(table.to_string());
    lines.join("\n")
}
