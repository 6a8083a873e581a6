//! Metrics of drives, capacity, healing and the process, in Prometheus text.
//!
//! Names are MinIO's (version 2) where the meaning is the same; ours begin with `ashlar_`.

use std::fmt::{Display, Write as _};

use ashlar_drive::{Role, State, Stats};
use ashlar_erasure_set::Phase;

use super::clock::now_ms;
use super::house::House;

/// Appends everything that the house knows.
pub fn render(house: &House, out: &mut String) {
    cluster(house, out);
    drives(house, out);
    healing(house, out);
    house.lifecycle.render(out);
    feed(house, out);
    process(out);
}

fn one(out: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
}

/// Capacity of the drives in service, and what of it objects can use.
pub struct Capacity {
    /// Bytes of the file systems.
    pub raw: u64,
    /// Bytes free on them.
    pub raw_free: u64,
    /// Without parity.
    pub usable: u64,
    /// Without parity, free.
    pub usable_free: u64,
}

/// Adds up the file systems of the drives in service.
pub fn capacity(house: &House) -> Capacity {
    let map = house.map.load();
    let (k, n) = (u64::from(map.code.k), u64::from(map.code.k) + u64::from(map.code.m));
    // A file system that several folders are on counts once.
    let mut counted = std::collections::HashSet::new();
    let (mut raw, mut raw_free) = (0u64, 0u64);
    for slot in house.slots.lock().iter() {
        let Some(drive) = &slot.drive else { continue };
        if slot.facts.as_ref().is_none_or(|f| counted.insert(f.device)) {
            let stats = drive.stats();
            raw += stats.capacity;
            raw_free += stats.free;
        }
    }
    Capacity { raw, raw_free, usable: raw / n * k, usable_free: raw_free / n * k }
}

fn cluster(house: &House, out: &mut String) {
    let slots = house.slots.lock().clone();
    let online =
        slots.iter().filter(|s| s.drive.as_ref().is_some_and(|d| d.state() == State::Online)).count();
    let health = house.sets.health();
    let capacity = capacity(house);
    let control = house.control.health();
    one(out, "minio_cluster_nodes_online_total", "gauge", "Total number of nodes online.", 1);
    one(out, "minio_cluster_nodes_offline_total", "gauge", "Total number of nodes offline.", 0);
    one(out, "minio_cluster_drive_total", "gauge", "Total drives in this cluster.", slots.len());
    one(out, "minio_cluster_drive_online_total", "gauge", "Total drives online in this cluster.", online);
    one(
        out,
        "minio_cluster_drive_offline_total",
        "gauge",
        "Total drives offline in this cluster.",
        slots.len() - online,
    );
    one(
        out,
        "minio_cluster_capacity_raw_total_bytes",
        "gauge",
        "Total capacity online in the cluster.",
        capacity.raw,
    );
    one(
        out,
        "minio_cluster_capacity_raw_free_bytes",
        "gauge",
        "Total free capacity online in the cluster.",
        capacity.raw_free,
    );
    one(
        out,
        "minio_cluster_capacity_usable_total_bytes",
        "gauge",
        "Total usable capacity online in the cluster.",
        capacity.usable,
    );
    one(
        out,
        "minio_cluster_capacity_usable_free_bytes",
        "gauge",
        "Total free usable capacity online in the cluster.",
        capacity.usable_free,
    );
    one(
        out,
        "minio_cluster_health_status",
        "gauge",
        "Get current cluster health status.",
        u8::from(health.iter().all(|g| g.writable)),
    );
    one(
        out,
        "minio_cluster_bucket_total",
        "gauge",
        "Total number of buckets in the cluster.",
        house.store.buckets().len(),
    );
    one(
        out,
        "ashlar_groups_readable",
        "gauge",
        "Placement groups that can be read.",
        health.iter().filter(|g| g.readable).count(),
    );
    one(
        out,
        "ashlar_groups_writable",
        "gauge",
        "Placement groups that take writes.",
        health.iter().filter(|g| g.writable).count(),
    );
    one(out, "ashlar_groups_total", "gauge", "Placement groups.", health.len());
    one(
        out,
        "ashlar_control_copies_current",
        "gauge",
        "Drives that hold the present content of the control store.",
        control.current,
    );
    one(
        out,
        "ashlar_control_writable",
        "gauge",
        "Whether the control store takes changes.",
        u8::from(control.writable),
    );
    one(out, "ashlar_buffer_bytes", "gauge", "Bytes of buffers in use.", house.pool.used());
    one(out, "ashlar_buffer_idle_bytes", "gauge", "Bytes of buffers kept for use.", house.pool.idle());
    one(out, "ashlar_buffer_ceiling_bytes", "gauge", "Most bytes of buffers.", house.pool.ceiling());
}

/// A counter or gauge of a drive: name, type, help, value.
type Field = (&'static str, &'static str, &'static str, fn(&Stats) -> f64);

const FIELDS: [Field; 18] = [
    ("minio_node_drive_total_bytes", "gauge", "Total storage on a drive.", |s| s.capacity as f64),
    ("minio_node_drive_free_bytes", "gauge", "Total storage available on a drive.", |s| s.free as f64),
    ("minio_node_drive_used_bytes", "gauge", "Total storage used on a drive.", |s| s.used as f64),
    (
        "minio_node_drive_errors_ioerror",
        "counter",
        "Total number of I/O errors since the server uptime.",
        |s| s.read_errors as f64,
    ),
    ("ashlar_drive_journal_live_bytes", "gauge", "Live bytes in the journal.", |s| s.journal_live as f64),
    ("ashlar_drive_journal_bytes", "gauge", "Bytes of journal segments.", |s| s.journal_bytes as f64),
    ("ashlar_drive_extent_live_bytes", "gauge", "Live bytes in extents.", |s| s.extent_live as f64),
    ("ashlar_drive_extent_bytes", "gauge", "Bytes of extent segments.", |s| s.extent_bytes as f64),
    ("ashlar_drive_index_bytes", "gauge", "Bytes of index files.", |s| s.index_bytes as f64),
    ("ashlar_drive_reads_total", "counter", "Reads from the device or its cache.", |s| s.reads as f64),
    ("ashlar_drive_writes_total", "counter", "Writes to the device.", |s| s.writes as f64),
    ("ashlar_drive_syncs_total", "counter", "Flushes.", |s| s.syncs as f64),
    ("ashlar_drive_records_total", "counter", "Journal records written.", |s| s.records as f64),
    ("ashlar_drive_commits_total", "counter", "Group commits.", |s| s.batches as f64),
    (
        "ashlar_drive_commit_seconds_total",
        "counter",
        "Seconds spent until group commits were durable.",
        |s| s.commit_us as f64 / 1e6,
    ),
    ("ashlar_drive_commit_seconds_max", "gauge", "The longest group commit.", |s| {
        s.commit_us_max as f64 / 1e6
    }),
    ("ashlar_drive_compacted_bytes_total", "counter", "Journal bytes rewritten by compaction.", |s| {
        s.compacted as f64
    }),
    ("ashlar_drive_journal_damage_total", "counter", "Journal batches found unreadable at the start.", |s| {
        s.journal_damage as f64
    }),
];

#[allow(clippy::type_complexity)] // a table, read once, here
fn drives(house: &House, out: &mut String) {
    let slots = house.slots.lock().clone();
    let all: Vec<(String, Option<(State, Role, Stats)>)> = slots
        .iter()
        .map(|s| {
            (label(&s.path.display().to_string()), s.drive.as_ref().map(|d| (d.state(), d.role(), d.stats())))
        })
        .collect();
    head(out, "ashlar_drive_state", "gauge", "1 for the state a drive is in.");
    for (path, drive) in &all {
        let state = match drive {
            None => "offline",
            Some((State::Fenced(_), ..)) => "fenced",
            Some((State::ReadOnly, ..)) => "read_only",
            Some((State::Closed, ..)) => "closed",
            Some((State::Online, Role::Joining, _)) => "joining",
            Some((State::Online, Role::Voter, _)) => "online",
        };
        let _ = writeln!(out, "ashlar_drive_state{{drive=\"{path}\",state=\"{state}\"}} 1");
    }
    for (name, kind, help, value) in FIELDS {
        head(out, name, kind, help);
        for (path, drive) in &all {
            if let Some((_, _, stats)) = drive {
                let _ = writeln!(out, "{name}{{drive=\"{path}\"}} {}", value(stats));
            }
        }
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Escapes a label value.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn healing(house: &House, out: &mut String) {
    let heal = house.sets.heal_stats();
    one(
        out,
        "minio_heal_objects_total",
        "counter",
        "Objects scanned in current self healing run.",
        heal.looked,
    );
    one(
        out,
        "minio_heal_objects_heal_total",
        "counter",
        "Objects healed in current self healing run.",
        heal.records + heal.shards,
    );
    one(
        out,
        "minio_heal_objects_errors_total",
        "counter",
        "Objects for which healing failed in current self healing run.",
        heal.lost,
    );
    one(out, "ashlar_heal_queue", "gauge", "Registers waiting to be healed.", heal.queued);
    one(out, "ashlar_heal_records_total", "counter", "Records brought up to date.", heal.records);
    one(out, "ashlar_heal_shards_total", "counter", "Shards made again.", heal.shards);
    let rebuilds = house.sets.rebuilds();
    let active = rebuilds.iter().filter(|r| r.phase != Phase::Done).count();
    one(out, "ashlar_rebuilds_active", "gauge", "Drives being filled.", active);
    if let Some(scrub) = house.sets.last_scrub() {
        one(out, "ashlar_scrub_registers", "gauge", "Registers looked at in the last pass.", scrub.registers);
        one(
            out,
            "ashlar_scrub_orphans",
            "gauge",
            "Shards that no record named in the last pass.",
            scrub.orphans,
        );
    }
}

/// The change feed, and how far behind its readers are.
fn feed(house: &House, out: &mut String) {
    let stats = house.store.feed().stats();
    one(out, "ashlar_feed_changes_total", "counter", "Changes written to the change feed.", stats.position);
    one(out, "ashlar_feed_segments", "gauge", "Segments of the change feed on drives.", stats.segments);
    one(out, "ashlar_feed_bytes", "gauge", "Bytes of these segments, before coding.", stats.bytes);
    one(out, "ashlar_feed_waiting", "gauge", "Entries that wait to be written.", stats.pending);
    one(out, "ashlar_feed_open", "gauge", "Changes whose outcome is not written down.", stats.open);
    one(
        out,
        "ashlar_feed_lost_total",
        "counter",
        "Changes dropped before a reader had them, since the start.",
        stats.lost,
    );
    one(
        out,
        "ashlar_feed_failing",
        "gauge",
        "1 while the change feed cannot be written.",
        u8::from(stats.trouble.is_some()),
    );
    if !stats.readers.is_empty() {
        let _ = writeln!(
            out,
            "# HELP ashlar_feed_lag Changes that a reader has not done.\n# TYPE ashlar_feed_lag gauge"
        );
        for (reader, lag) in stats.readers {
            let reader = reader.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = writeln!(out, "ashlar_feed_lag{{reader=\"{reader}\"}} {lag}");
        }
    }
}

/// The process, as far as /proc says.
fn process(out: &mut String) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rss = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .and_then(|v| v.trim().split(' ').next()?.parse::<u64>().ok());
    if let Some(kib) = rss {
        one(
            out,
            "minio_node_process_resident_memory_bytes",
            "gauge",
            "Resident memory size in bytes.",
            kib * 1024,
        );
    }
    if let Some(seconds) = cpu_seconds() {
        one(
            out,
            "minio_node_process_cpu_total_seconds",
            "counter",
            "Total user and system CPU time spent in seconds.",
            seconds,
        );
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        one(
            out,
            "minio_node_file_descriptor_open_total",
            "gauge",
            "Total number of open file descriptors.",
            files.count(),
        );
    }
    let uptime = super::clock::coarse();
    one(out, "minio_node_process_uptime_seconds", "gauge", "Uptime of the process in seconds.", uptime);
    one(
        out,
        "minio_node_process_starttime_seconds",
        "gauge",
        "Start time of the process in seconds since epoch.",
        now_ms() / 1000 - uptime as i64,
    );
}

/// User and system time of this process.
pub fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold anything.
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    // USER_HZ is 100 on every Linux architecture that is built for.
    Some((user + system) / 100.0)
}
