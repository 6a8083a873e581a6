//! Metrics of groups, drives, virtual drives and exports, in the Prometheus text format.
//!
//! Must not depend on: who asks.

use ashlar_metrics::{Group as Subject, Page};

use crate::api::{Drive, Group, State};

/// States of a group, of which one is 1.
const GROUP_STATES: [&str; 6] = ["OPTIMAL", "PARTIALLY_DEGRADED", "DEGRADED", "RECOVERY", "RESYNC", "FAILED"];
/// States of a drive, of which one is 1.
const DRIVE_STATES: [&str; 6] = ["ONLINE", "OFFLINE", "FAILED", "REBUILD", "HOTSPARE", "MISSING"];

/// The page.
pub(crate) fn text(state: &State, server: &str) -> String {
    let mut page = Page::new(server);
    let node = Subject::Node;
    page.value(node, "ashlar_array_uptime_seconds", "Time since the process was started.", state.uptime_s);
    let out = state.out_of_service.len();
    page.value(node, "ashlar_array_groups_out_of_service", "Groups that could not be put in service.", out);
    for group in &state.groups {
        of_group(&mut page, group);
        of_drives(&mut page, group);
        of_volumes(&mut page, group);
    }
    let nvme = &state.nvme;
    page.value(node, "ashlar_array_nvme_connections", "Open NVMe connections.", nvme.connections);
    page.value(node, "ashlar_array_nvme_controllers", "NVMe hosts that are connected.", nvme.controllers);
    transfers(
        &mut page,
        [
            ("ashlar_array_nvme_commands_total", "NVMe commands."),
            ("ashlar_array_nvme_bytes_total", "Bytes of NVMe commands."),
        ],
        [("read", nvme.reads, nvme.bytes_read), ("write", nvme.writes, nvme.bytes_written)],
    );
    let nbd = &state.nbd;
    page.value(node, "ashlar_array_nbd_connections", "Open NBD connections.", nbd.connections);
    transfers(
        &mut page,
        [
            ("ashlar_array_nbd_requests_total", "NBD requests."),
            ("ashlar_array_nbd_bytes_total", "Bytes of NBD requests."),
        ],
        [("read", nbd.reads, nbd.bytes_read), ("write", nbd.writes, nbd.bytes_written)],
    );
    if let Some(vhost) = &state.vhost_user {
        let (open, failed) =
            ("Hypervisors that are connected.", "Requests that were answered with an error.");
        page.value(node, "ashlar_array_vhost_user_connections", open, vhost.connections);
        page.counter(node, "ashlar_array_vhost_user_errors_total", failed).add(&[], vhost.errors);
        transfers(
            &mut page,
            [
                ("ashlar_array_vhost_user_requests_total", "vhost-user-blk requests."),
                ("ashlar_array_vhost_user_bytes_total", "Bytes of vhost-user-blk requests."),
            ],
            [("read", vhost.reads, vhost.bytes_read), ("write", vhost.writes, vhost.bytes_written)],
        );
    }
    if let Some(ublk) = &state.ublk {
        page.value(node, "ashlar_array_ublk_devices", "Block devices of this machine.", ublk.devices);
        let failed = "Requests that were answered with an error.";
        page.counter(node, "ashlar_array_ublk_errors_total", failed).add(&[], ublk.errors);
        transfers(
            &mut page,
            [
                ("ashlar_array_ublk_requests_total", "Requests of block devices."),
                ("ashlar_array_ublk_bytes_total", "Bytes of requests of block devices."),
            ],
            [("read", ublk.reads, ublk.bytes_read), ("write", ublk.writes, ublk.bytes_written)],
        );
    }
    page.counter(
        node,
        "ashlar_array_nvme_unauthenticated_total",
        "NVMe queues that were refused because their host may not connect, or was not authenticated.",
    )
    .add(&[], state.nvme.unauthenticated);
    page.text(&[node])
}

/// Requests and their bytes, each with its name and help, by kind.
fn transfers(page: &mut Page, names: [(&'static str, &'static str); 2], counted: [(&str, u64, u64); 2]) {
    let [requests, bytes] = names;
    for (kind, number, size) in counted {
        let labels = [("kind", kind)];
        page.counter(Subject::Node, requests.0, requests.1).add(&labels, number);
        page.counter(Subject::Node, bytes.0, bytes.1).add(&labels, size);
    }
}

fn of_group(page: &mut Page, group: &Group) {
    let (node, name) = (Subject::Node, [("group", group.name.as_str())]);
    for state in GROUP_STATES {
        page.gauge(node, "ashlar_array_group_state", "1 for the state of the group.")
            .add(&[name[0], ("state", state)], u8::from(group.state == state));
    }
    page.gauge(node, "ashlar_array_group_size_bytes", "Bytes for virtual drives.").add(&name, group.size);
    page.gauge(node, "ashlar_array_group_free_bytes", "Bytes that no virtual drive has.")
        .add(&name, group.free);
    if group.distributed_spares > 0 {
        let (all, used) = (group.distributed_spares, group.distributed_spares_used);
        page.gauge(node, "ashlar_array_distributed_spares", "Distributed spares of a declustered group.")
            .add(&name, all);
        page.gauge(node, "ashlar_array_distributed_spares_used", "Those that have blocks of failed drives.")
            .add(&name, used);
    }
    if let Some(rebuild) = &group.rebuild {
        page.gauge(node, "ashlar_array_rebuild_rows_done", "Rows that are rebuilt.").add(&name, rebuild.done);
        page.gauge(node, "ashlar_array_rebuild_rows", "Rows of the drive that is rebuilt.")
            .add(&name, rebuild.rows);
    }
    if let Some(resync) = &group.resync {
        page.gauge(node, "ashlar_array_resync_rows_done", "Rows whose parity was made anew.")
            .add(&name, resync.done);
        page.gauge(node, "ashlar_array_resync_rows", "Rows whose parity is made anew after an unclean stop.")
            .add(&name, resync.rows);
    }
    if let Some(growth) = &group.growth {
        page.gauge(node, "ashlar_array_growth_rows_done", "Rows that have moved to the new shape.")
            .add(&name, growth.progress.done);
        page.gauge(node, "ashlar_array_growth_rows", "Rows of a group that grows.")
            .add(&name, growth.progress.rows);
    }
    if let Some(check) = &group.check {
        page.gauge(node, "ashlar_array_check_mismatches", "Wrong rows that the last check found.")
            .add(&name, check.mismatches);
    }
    let c = &group.counters;
    for (kind, value) in [
        ("corrected", c.corrected),
        ("pages_lost", c.pages_lost),
        ("replayed", c.replayed),
        ("dropped", c.dropped),
        ("resynced", c.resynced),
        ("unprotected", c.unprotected),
        ("blocks_read", c.blocks_read),
        ("blocks_written", c.blocks_written),
    ] {
        page.counter(node, "ashlar_array_group_events_total", "What the group has counted; docs/array.md.")
            .add(&[name[0], ("kind", kind)], value);
    }
}

fn of_drives(page: &mut Page, group: &Group) {
    for drive in group.drives.iter().chain(&group.spares) {
        let path = drive.path.as_deref().unwrap_or_default();
        let position = drive.position.map(|p| p.to_string()).unwrap_or_default();
        let labels = [("group", group.name.as_str()), ("position", position.as_str()), ("path", path)];
        for state in DRIVE_STATES {
            let all = [labels[0], labels[1], labels[2], ("state", state)];
            page.gauge(Subject::Node, "ashlar_array_drive_state", "1 for the state of the drive.")
                .add(&all, u8::from(drive.state == state));
        }
        page.counter(
            Subject::Node,
            "ashlar_array_drive_corrected_total",
            "Blocks that were wrong, and corrected.",
        )
        .add(&labels, drive.corrected);
        of_paths(page, drive, labels[2]);
    }
}

/// The paths and the health of a drive that is a namespace of a target.
fn of_paths(page: &mut Page, drive: &Drive, path: (&str, &str)) {
    let node = Subject::Node;
    for p in &drive.paths {
        let labels = [path, ("portal", p.address.as_str())];
        let usable = p.state == "live" && matches!(p.ana_state.as_str(), "optimized" | "non-optimized");
        page.gauge(node, "ashlar_array_path_usable", "1 if commands can be sent to the path of the drive.")
            .add(&labels, u8::from(usable));
        page.counter(
            node,
            "ashlar_array_path_losses_total",
            "Times that the connection of the path was lost.",
        )
        .add(&labels, p.losses);
        page.counter(node, "ashlar_array_path_commands_total", "Commands that were answered on the path.")
            .add(&labels, p.commands);
    }
    let Some(health) = &drive.health else { return };
    page.gauge(node, "ashlar_array_drive_health_warnings", "Warnings of the drive about its health.")
        .add(&[path], health.warnings.len());
    page.gauge(node, "ashlar_array_drive_life_used_percent", "Percent of the expected life of the drive.")
        .add(&[path], health.percentage_used);
    page.counter(node, "ashlar_array_drive_media_errors_total", "Times that the drive did not recover data.")
        .add(&[path], health.media_errors);
    if let Some(celsius) = health.temperature_c {
        page.gauge(node, "ashlar_array_drive_temperature_celsius", "The temperature of the drive.")
            .add(&[path], celsius);
    }
}

fn of_volumes(page: &mut Page, group: &Group) {
    let node = Subject::Node;
    for volume in &group.volumes {
        let labels = [("group", group.name.as_str()), ("volume", volume.name.as_str())];
        page.gauge(node, "ashlar_array_volume_size_bytes", "Bytes of the virtual drive.")
            .add(&labels, volume.size);
        for (kind, requests, bytes) in
            [("read", volume.reads, volume.bytes_read), ("write", volume.writes, volume.bytes_written)]
        {
            let all = [labels[0], labels[1], ("kind", kind)];
            page.counter(node, "ashlar_array_volume_requests_total", "Requests of clients.")
                .add(&all, requests);
            page.counter(node, "ashlar_array_volume_bytes_total", "Bytes of requests.").add(&all, bytes);
        }
        if let Some(allocated) = volume.allocated {
            page.gauge(
                node,
                "ashlar_array_volume_allocated_bytes",
                "Bytes of the group that a thin virtual drive has.",
            )
            .add(&labels, allocated);
            page.gauge(
                node,
                "ashlar_array_volume_damaged",
                "1 if the map of a thin virtual drive is damaged.",
            )
            .add(&labels, u8::from(volume.damage.is_some()));
        }
        if volume.iops_limit > 0 {
            page.gauge(
                node,
                "ashlar_array_volume_iops_limit",
                "Requests per second that clients get at most.",
            )
            .add(&labels, volume.iops_limit);
        }
        if volume.bandwidth_limit > 0 {
            page.gauge(
                node,
                "ashlar_array_volume_bandwidth_limit_bytes",
                "Bytes per second that clients get at most.",
            )
            .add(&labels, volume.bandwidth_limit);
        }
        page.counter(
            node,
            "ashlar_array_volume_limit_wait_seconds_total",
            "Time that requests have waited because of limits, of all together.",
        )
        .add(&labels, volume.limit_wait_us as f64 / 1e6);
        page.counter(node, "ashlar_array_volume_errors_total", "Requests that failed.")
            .add(&labels, volume.errors);
    }
}
