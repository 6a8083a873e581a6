//! Metrics of an enclosure in the Prometheus text format.
//!
//! Must not depend on: who asks.

use ashlar_metrics::{Group as Subject, Page};

use crate::api::{State, Use};

/// States of a drive, of which one is 1.
const DRIVE_STATES: [&str; 5] = ["ONLINE", "GONE", "SLOW", "THROTTLED", "FAULTY"];

/// The page.
pub(crate) fn text(state: &State) -> String {
    let mut page = Page::new(&state.name);
    let node = Subject::Node;
    page.value(node, "ashlar_fabric_uptime_seconds", "Time since the process was started.", state.uptime_s);
    page.value(node, "ashlar_fabric_faults", "Faults in force.", state.faults.len());
    for port in &state.ports {
        let labels = [("port", port.name.as_str())];
        page.gauge(node, "ashlar_fabric_port_up", "1 if the port is up.")
            .add(&labels, u8::from(port.state == "UP"));
        page.gauge(node, "ashlar_fabric_port_controllers", "Controllers of hosts at the port.")
            .add(&labels, port.controllers);
        used(&mut page, "port", &labels, &port.used);
    }
    for entry in &state.ana {
        let labels = [("port", entry.port.as_str()), ("state", &entry.state.to_string())];
        let what = "Namespaces of the enclosure by their ANA state at a port.";
        page.gauge(node, "ashlar_fabric_port_namespaces", what).add(&labels, entry.namespaces.len());
    }
    for drive in &state.drives {
        let bay = drive.bay.to_string();
        let labels = [("bay", bay.as_str())];
        for name in DRIVE_STATES {
            page.gauge(node, "ashlar_fabric_drive_state", "1 for the state of the drive.")
                .add(&[labels[0], ("state", name)], u8::from(drive.state == name));
        }
        page.gauge(node, "ashlar_fabric_drive_temperature_celsius", "Temperature of the drive's model.")
            .add(&labels, drive.celsius);
        for (fault, blocks) in [
            ("corrupt-read", drive.corrupt_blocks),
            ("lost-write", drive.lost_blocks),
            ("drive-gone", drive.unflushed_blocks),
        ] {
            page.counter(node, "ashlar_fabric_drive_damaged_blocks_total", "Blocks that a fault has hit.")
                .add(&[labels[0], ("fault", fault)], blocks);
        }
        used(&mut page, "drive", &labels, &drive.used);
    }
    page.text(&[node])
}

fn used(page: &mut Page, subject: &str, labels: &[(&str, &str); 1], of: &Use) {
    let node = Subject::Node;
    let name = |what: &str| format!("ashlar_fabric_{subject}_{what}_total");
    for (kind, commands, bytes) in [("read", of.reads, of.bytes_read), ("write", of.writes, of.bytes_written)]
    {
        let all = [labels[0], ("kind", kind)];
        page.counter(node, &name("commands"), "Commands that succeeded.").add(&all, commands);
        page.counter(node, &name("bytes"), "Bytes of commands that succeeded.").add(&all, bytes);
    }
    page.counter(node, &name("errors"), "Commands that failed.").add(labels, of.errors);
}
