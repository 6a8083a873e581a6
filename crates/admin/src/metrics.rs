//! Metrics of the deployment, its drives, buckets, healing and the process.
//!
//! Names are MinIO's (versions 2 and 3) if the meaning is the same; our own begin with `ashlar_`. Metrics of
//! the machine are in `machine`; requests, audit, events and lifecycle add their own.
//!
//! Must not depend on: the text format, the readers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use ashlar_cluster::DriveState;
use ashlar_drive::{State, Stats};
use ashlar_erasure_set::{Phase, Scrubbed};
use ashlar_machine::Space;
use ashlar_metrics::{Group, Kind, Page};
use ashlar_node::clock::{coarse, now_ms};
use ashlar_node::{DriveFolder, Node};

use super::{heal_limits, machine, monitor};
pub use crate::api::state::Capacity;

/// Counters of connections.
#[derive(Default, Debug)]
pub struct ConnectionCounts {
    /// Open now.
    pub open: AtomicUsize,
    /// Closed in favour of new connections, by class.
    pub displaced: [AtomicU64; 4],
    /// Refused because there were too many connections.
    pub refused: AtomicU64,
    /// Closed because sockets held too much unsent data.
    pub cut: AtomicU64,
    /// Requests answered with 503 on reserved connections.
    pub busy: AtomicU64,
}

/// Values that are requested from drives and key servers in advance, because the answer may take time.
#[derive(Default)]
pub struct SlowValues {
    /// The file systems of the drives, in the order of slots; `None`: the drive did not answer.
    pub spaces: Vec<Option<Space>>,
    /// Whether the default encryption key works, and its uses; `None` if no keys are configured.
    pub keys: Option<(bool, [u64; 3])>,
    /// When the certificate expires, in seconds since 1970; `None` without TLS.
    pub certificate: Option<i64>,
    /// Of the drives of all nodes that answer; `None`: they were not asked in time.
    pub capacity: Option<Capacity>,
}

/// Adds the metrics of the node to a page.
pub fn render(node: &Node, slow_values: &SlowValues, page: &mut Page) {
    cluster(node, slow_values, page);
    usage(node, page);
    drives(node, slow_values, page);
    healing(node, page);
    node.lifecycle.render(page);
    feed(node, page);
    keys(slow_values, page);
    if let Some(at) = slow_values.certificate {
        let help = "When the TLS certificate expires, in seconds since 1970.";
        page.value(Group::Node, "ashlar_certificate_expiry_timestamp_seconds", help, at);
    }
    machine::render(page);
}

/// The sum over the file systems of the drives in service of this node.
pub(crate) fn capacity(node: &Node) -> Capacity {
    let map = node.map.load();
    let (k, n) = (u64::from(map.code().k), u64::from(map.code().k) + u64::from(map.code().m));
    // A file system with several folders counts once.
    let mut counted = std::collections::HashSet::new();
    let (mut raw, mut raw_free) = (0u64, 0u64);
    for folder in node.folders.lock().iter() {
        let Some(drive) = &folder.drive else { continue };
        if folder.facts.as_ref().is_none_or(|f| counted.insert(f.device)) {
            let stats = drive.stats();
            raw += stats.capacity;
            raw_free += stats.free;
        }
    }
    Capacity { raw, raw_free, usable: raw / n * k, usable_free: raw_free / n * k }
}

/// Numbers of drives.
struct DriveCounts {
    total: usize,
    online: usize,
}

/// The drives of all nodes: those of the folders of this one, and those that the map has at others. Nobody is asked.
fn drive_counts(node: &Node) -> DriveCounts {
    let online = |s: &&DriveFolder| s.drive.as_ref().is_some_and(|d| d.state() == State::Online);
    let (own, own_online) = {
        let folders = node.folders.lock();
        (folders.len(), folders.iter().filter(online).count())
    };
    if node.member.is_none() {
        return DriveCounts { total: own, online: own_online };
    }
    let present = node.sets.present();
    let map = node.map.load();
    let active = map.drives.iter().filter(|d| d.state == DriveState::Active && d.node != node.number());
    let others: Vec<_> = active.collect();
    let there = others.iter().filter(|d| present.contains(&d.id)).count();
    DriveCounts { total: own + others.len(), online: own_online + there }
}

fn cluster(node: &Node, slow_values: &SlowValues, page: &mut Page) {
    let DriveCounts { total, online } = drive_counts(node);
    let offline = total - online;
    let nodes = node.nodes();
    let up = nodes.iter().filter(|(_, runs)| *runs).count().max(1);
    let down = nodes.len().max(1) - up;
    let health = node.sets.health();
    let capacity = slow_values.capacity.as_ref();
    let control = node.control.health();
    let buckets = node.store.buckets().len();
    let writable = u8::from(health.iter().all(|g| g.writable));
    let c = Group::Cluster;
    page.value(c, "minio_cluster_nodes_online_total", "Total number of nodes online.", up);
    page.value(c, "minio_cluster_nodes_offline_total", "Total number of nodes offline.", down);
    for (number, runs) in nodes {
        let number = number.to_string();
        let help = "Whether a node runs (1), as far as this one knows.";
        page.gauge(c, "ashlar_node_online", help).add(&[("node", &number)], u8::from(runs));
    }
    page.value(c, "minio_cluster_drive_total", "Total drives in this cluster.", total);
    page.value(c, "minio_cluster_drive_online_total", "Total drives online in this cluster.", online);
    page.value(c, "minio_cluster_drive_offline_total", "Total drives offline in this cluster.", offline);
    let v3 = Group::V3("cluster/health");
    page.value(v3, "minio_cluster_health_drives_count", "Count of all drives in the cluster.", total);
    page.value(v3, "minio_cluster_health_drives_online_count", "Count of online drives.", online);
    page.value(v3, "minio_cluster_health_drives_offline_count", "Count of offline drives.", offline);
    page.value(v3, "minio_cluster_health_nodes_online_count", "Count of online nodes.", up);
    page.value(v3, "minio_cluster_health_nodes_offline_count", "Count of offline nodes.", down);
    let capacity = capacity.into_iter().flat_map(|capacity| {
        [
            ("raw_total_bytes", "Total capacity online in the cluster.", capacity.raw),
            ("raw_free_bytes", "Total free capacity online in the cluster.", capacity.raw_free),
            ("usable_total_bytes", "Total usable capacity online in the cluster.", capacity.usable),
            ("usable_free_bytes", "Total free usable capacity online in the cluster.", capacity.usable_free),
        ]
    });
    for (name, help, value) in capacity {
        page.value(c, &format!("minio_cluster_capacity_{name}"), help, value);
        page.value(v3, &format!("minio_cluster_health_capacity_{name}"), help, value);
    }
    page.value(c, "minio_cluster_health_status", "Get current cluster health status.", writable);
    page.value(c, "minio_cluster_bucket_total", "Total number of buckets in the cluster.", buckets);
    for g in &health {
        let (pool, set) = (g.group.pool.to_string(), g.group.group.to_string());
        let labels = [("pool", pool.as_str()), ("set", set.as_str())];
        let majority = g.slots / 2 + 1;
        for (name, v3_name, help, value) in [
            ("status", "health", "Get current health status for the set.", u8::from(g.writable)),
            ("online_drives", "online_drives_count", "Online drives of the set.", g.voters + g.joining),
            ("healing_drives", "healing_drives_count", "Drives of the set that are being filled.", g.joining),
            ("read_quorum", "read_quorum", "Drives that reads need.", g.slots.div_ceil(2)),
            ("write_quorum", "write_quorum", "Drives that writes need.", majority),
        ] {
            page.gauge(c, &format!("minio_cluster_health_erasure_set_{name}"), help).add(&labels, value);
            let v3 = Group::V3("cluster/erasure-set");
            let v3_labels = [("pool_id", pool.as_str()), ("set_id", set.as_str())];
            page.gauge(v3, &format!("minio_cluster_erasure_set_{v3_name}"), help).add(&v3_labels, value);
        }
    }
    let count = |of: fn(&ashlar_erasure_set::GroupHealth) -> bool| health.iter().filter(|g| of(g)).count();
    page.value(c, "ashlar_groups_readable", "Placement groups that can be read.", count(|g| g.readable));
    page.value(c, "ashlar_groups_writable", "Placement groups that take writes.", count(|g| g.writable));
    page.value(c, "ashlar_groups_total", "Placement groups.", health.len());
    let spare = health.iter().map(|g| g.spare).min().unwrap_or(0);
    page.value(c, "ashlar_drives_spare", "Drives that may still fail before writes stop.", spare);
    let help = "Drives, or members of etcd, that hold the present content of the control store.";
    page.value(c, "ashlar_control_copies_current", help, control.current);
    let help = "Whether the control store takes changes.";
    page.value(c, "ashlar_control_writable", help, u8::from(control.writable));
    let n = Group::Node;
    page.value(n, "ashlar_buffer_bytes", "Bytes of buffers in use.", node.pool.used());
    page.value(n, "ashlar_buffer_idle_bytes", "Bytes of buffers kept for use.", node.pool.idle());
    page.value(n, "ashlar_buffer_ceiling_bytes", "Most bytes of buffers.", node.pool.ceiling());
    let help = "Total number of S3 requests that wait for memory.";
    page.value(n, "minio_s3_requests_waiting_total", help, node.pool.waiting());
    // Of a cluster they are not counted.
    if node.member.is_none() {
        let help = "Bytes between nodes; there is one node.";
        page.count(n, "minio_inter_node_traffic_received_bytes", help, 0);
        page.count(n, "minio_inter_node_traffic_sent_bytes", help, 0);
    }
}

/// Refusals that other modules count.
pub struct Refusals {
    /// Long request heads: those that waited in vain, and those ended for others.
    pub heads: (u64, u64),
    /// Bodies that are read before the signature can be checked: the same counts.
    pub unsigned: (u64, u64),
    /// Sealed administration requests.
    pub sealed: u64,
    /// Listeners.
    pub listeners: u64,
}

/// Adds metrics of shared resources: their use, and requests refused because of a limit.
pub fn fairness(node: &Node, connections: &ConnectionCounts, other: &Refusals, page: &mut Page) {
    let m = node.sets.memory();
    let open = connections.open.load(Relaxed);
    page.value(Group::Node, "ashlar_connections_open", "Connections that are open.", open);
    for (name, help, value) in [
        ("ashlar_memory_reading_bytes", "Bytes read from drives and not handed out.", m.reading),
        ("ashlar_memory_sending_bytes", "Bytes handed out that sockets have not taken.", m.lent),
        ("ashlar_memory_writing_bytes", "Bytes of whole stripes being written.", m.writing),
        ("ashlar_memory_collecting_bytes", "Bytes of stripes that slow clients send.", m.collecting),
    ] {
        page.value(Group::Node, name, help, value);
    }
    let name = "ashlar_refused_total";
    let help = "Requests and connections refused, cut or given up so that others are served, by reason.";
    let mut refused = page.counter(Group::Node, name, help);
    let displaced = |class: usize| connections.displaced[class].load(Relaxed);
    for (reason, value) in [
        ("read_memory", m.refused_reads),
        ("write_memory", m.refused_writes),
        ("slow_write", m.evicted_writes),
        ("connection_silent", displaced(0)),
        ("connection_unknown", displaced(1)),
        ("connection_idle", displaced(2)),
        ("connection_stuck", displaced(3)),
        ("connections_full", connections.refused.load(Relaxed)),
        ("connection_reserve", connections.busy.load(Relaxed)),
        ("answer_stuck", connections.cut.load(Relaxed)),
        ("long_head_wait", other.heads.0),
        ("long_head", other.heads.1),
        ("unsigned_body_wait", other.unsigned.0),
        ("unsigned_body", other.unsigned.1),
        ("sealed_request", other.sealed),
        ("listener", other.listeners),
    ] {
        refused.add(&[("reason", reason)], value);
    }
    let help = "Answers whose read-ahead was taken back because their clients stood still.";
    page.count(Group::Node, "ashlar_reads_reclaimed_total", help, m.reclaimed_reads);
}

/// Adds the usage of buckets.
fn usage(node: &Node, page: &mut Page) {
    let all = monitor::total(&node.store);
    let u = &all.usage;
    let c = Group::Cluster;
    page.value(c, "minio_cluster_usage_total_bytes", "Total cluster usage in bytes.", u.bytes);
    page.value(c, "minio_cluster_usage_object_total", "Total number of objects in a cluster.", u.objects);
    page.value(c, "minio_cluster_usage_version_total", "Total number of versions in a cluster.", u.versions);
    let help = "Total number of delete markers in a cluster.";
    page.value(c, "minio_cluster_usage_deletemarker_total", help, u.delete_markers);
    let help = "Whether every bucket has been counted since the start.";
    page.value(c, "ashlar_usage_complete", help, u8::from(all.complete));
    let help = "Keys with a change whose outcome is not known yet.";
    page.value(c, "ashlar_usage_unsettled_keys", help, all.unsettled);
    let help = "Time elapsed (in nano seconds) since the last count of a bucket.";
    let since = now_ms().saturating_sub(all.counted_ms).max(0);
    page.value(c, "minio_usage_last_activity_nano_seconds", help, i128::from(since) * 1_000_000);
    let v3 = Group::V3("cluster/usage/objects");
    for (name, help, value) in [
        ("total_bytes", "Total cluster usage in bytes.", u.bytes),
        ("count", "Total cluster objects count.", u.objects),
        ("versions_count", "Total cluster object versions count.", u.versions),
        ("delete_markers_count", "Total cluster delete markers count.", u.delete_markers),
        ("buckets_count", "Total cluster buckets count.", node.store.buckets().len() as u64),
    ] {
        page.value(v3, &format!("minio_cluster_usage_objects_{name}"), help, value);
    }
    for (range, n) in monitor::SIZE_NAMES.iter().zip(u.sizes) {
        let help = "Distribution of object sizes across a cluster.";
        page.gauge(c, "minio_cluster_objects_size_distribution", help).add(&[("range", range)], n);
        page.gauge(v3, "minio_cluster_usage_objects_size_distribution", help).add(&[("range", range)], n);
    }
    for (range, n) in monitor::COUNT_NAMES.iter().zip(u.counts) {
        let help = "Distribution of object versions across a cluster.";
        page.gauge(c, "minio_cluster_objects_version_distribution", help).add(&[("range", range)], n);
        page.gauge(v3, "minio_cluster_usage_objects_versions_count_distribution", help)
            .add(&[("range", range)], n);
    }
    for (bucket, counted) in node.store.usages() {
        let (u, bucket) = (&counted.usage, bucket.as_str());
        let labels = [("bucket", bucket)];
        let quota = node.store.bucket(bucket).ok().and_then(|b| node.store.quota(&b)).unwrap_or(0);
        let v3 = Group::V3("cluster/usage/buckets");
        for (name, v3_name, help, value) in [
            ("usage_total_bytes", "total_bytes", "Total bucket size in bytes.", u.bytes),
            ("usage_object_total", "objects_count", "Total number of objects.", u.objects),
            ("usage_version_total", "versions_count", "Total number of versions.", u.versions),
            (
                "usage_deletemarker_total",
                "delete_markers_count",
                "Total number of delete markers.",
                u.delete_markers,
            ),
            ("quota_total_bytes", "quota_total_bytes", "Total bucket quota size in bytes; 0: none.", quota),
        ] {
            page.gauge(Group::Bucket, &format!("minio_bucket_{name}"), help).add(&labels, value);
            page.gauge(v3, &format!("minio_cluster_usage_buckets_{v3_name}"), help).add(&labels, value);
        }
        for (range, n) in monitor::SIZE_NAMES.iter().zip(u.sizes) {
            let labels = [("bucket", bucket), ("range", *range)];
            let help = "Distribution of object sizes in the bucket.";
            page.gauge(Group::Bucket, "minio_bucket_objects_size_distribution", help).add(&labels, n);
            page.gauge(v3, "minio_cluster_usage_buckets_object_size_distribution", help).add(&labels, n);
        }
        for (range, n) in monitor::COUNT_NAMES.iter().zip(u.counts) {
            let labels = [("bucket", bucket), ("range", *range)];
            let help = "Distribution of object versions in the bucket.";
            page.gauge(Group::Bucket, "minio_bucket_objects_version_distribution", help).add(&labels, n);
            page.gauge(v3, "minio_cluster_usage_buckets_object_version_count_distribution", help)
                .add(&labels, n);
        }
    }
}

/// A counter or gauge of a drive: name, kind, help, value.
type Field = (&'static str, Kind, &'static str, fn(&Stats) -> f64);

const FIELDS: [Field; 18] = [
    ("minio_node_drive_total_bytes", Kind::Gauge, "Total storage on a drive.", |s| s.capacity as f64),
    ("minio_node_drive_free_bytes", Kind::Gauge, "Total storage available on a drive.", |s| s.free as f64),
    ("minio_node_drive_used_bytes", Kind::Gauge, "Total storage used on a drive.", |s| s.used as f64),
    (
        "minio_node_drive_errors_ioerror",
        Kind::Counter,
        "Total number of I/O errors since the server uptime.",
        |s| s.read_errors as f64,
    ),
    ("ashlar_drive_journal_live_bytes", Kind::Gauge, "Live bytes in the journal.", |s| s.journal_live as f64),
    ("ashlar_drive_journal_bytes", Kind::Gauge, "Bytes of journal segments.", |s| s.journal_bytes as f64),
    ("ashlar_drive_extent_live_bytes", Kind::Gauge, "Live bytes in extents.", |s| s.extent_live as f64),
    ("ashlar_drive_extent_bytes", Kind::Gauge, "Bytes of extent segments.", |s| s.extent_bytes as f64),
    ("ashlar_drive_index_bytes", Kind::Gauge, "Bytes of index files.", |s| s.index_bytes as f64),
    ("ashlar_drive_reads_total", Kind::Counter, "Reads from the device or its cache.", |s| s.reads as f64),
    ("ashlar_drive_writes_total", Kind::Counter, "Writes to the device.", |s| s.writes as f64),
    ("ashlar_drive_syncs_total", Kind::Counter, "Flushes.", |s| s.syncs as f64),
    ("ashlar_drive_records_total", Kind::Counter, "Journal records written.", |s| s.records as f64),
    ("ashlar_drive_commits_total", Kind::Counter, "Group commits.", |s| s.batches as f64),
    (
        "ashlar_drive_commit_seconds_total",
        Kind::Counter,
        "Seconds spent until group commits were durable.",
        |s| s.commit_us as f64 / 1e6,
    ),
    ("ashlar_drive_commit_seconds_max", Kind::Gauge, "The longest group commit.", |s| {
        s.commit_us_max as f64 / 1e6
    }),
    ("ashlar_drive_compacted_bytes_total", Kind::Counter, "Journal bytes rewritten by compaction.", |s| {
        s.compacted as f64
    }),
    (
        "ashlar_drive_journal_damage_total",
        Kind::Counter,
        "Journal batches found unreadable at the start.",
        |s| s.journal_damage as f64,
    ),
];

fn drives(node: &Node, slow_values: &SlowValues, page: &mut Page) {
    let drive_folders = node.folders.lock().clone();
    let n = Group::Node;
    let online = |s: &&DriveFolder| s.drive.as_ref().is_some_and(|d| d.state() == State::Online);
    let up = drive_folders.iter().filter(online).count();
    page.value(n, "minio_node_drive_total", "Total drives in a node.", drive_folders.len());
    page.value(n, "minio_node_drive_online_total", "Total drives online in a node.", up);
    page.value(
        n,
        "minio_node_drive_offline_total",
        "Total drives offline in a node.",
        drive_folders.len() - up,
    );
    for (i, folder) in drive_folders.iter().enumerate() {
        let path = folder.path.display().to_string();
        let drive = [("drive", path.as_str())];
        let (state, stats) = match &folder.drive {
            None => ("offline", None),
            Some(d) => {
                let state = match (d.state(), node.sets.joins(d.label().drive)) {
                    (State::Fenced(_), _) => "fenced",
                    (State::ReadOnly, _) => "read_only",
                    (State::Closed, _) => "closed",
                    (State::Online, true) => "joining",
                    (State::Online, false) => "online",
                };
                (state, Some(d.stats()))
            }
        };
        let labels = [("drive", path.as_str()), ("state", state)];
        page.gauge(n, "ashlar_drive_state", "1 for the state a drive is in.").add(&labels, 1);
        let away = u8::from(!matches!(state, "online" | "joining"));
        let help = "1 while the drive does not serve.";
        page.gauge(n, "minio_node_drive_errors_availability", help).add(&drive, away);
        let v3 = Group::V3("system/drive");
        page.gauge(v3, "minio_system_drive_health", "Drive health (0 = offline, 1 = healthy).")
            .add(&drive, 1 - away);
        if let Some(Some(space)) = slow_values.spaces.get(i) {
            let help = "Total free inodes.";
            page.gauge(n, "minio_node_drive_free_inodes", help).add(&drive, space.inodes_free);
            let used = space.inodes.saturating_sub(space.inodes_free);
            for (name, help, value) in [
                ("total_inodes", "Total inodes of a drive.", space.inodes),
                ("used_inodes", "Used inodes of a drive.", used),
            ] {
                page.gauge(Group::Resource, &format!("minio_node_drive_{name}"), help).add(&drive, value);
            }
            page.gauge(v3, "minio_system_drive_free_inodes", help).add(&drive, space.inodes_free);
            page.gauge(v3, "minio_system_drive_used_inodes", "Used inodes.").add(&drive, used);
            page.gauge(v3, "minio_system_drive_total_inodes", "Total inodes.").add(&drive, space.inodes);
        }
        let Some(stats) = stats else { continue };
        for (name, kind, help, value) in FIELDS {
            page.family(n, kind, name, help).add(&drive, value(&stats));
        }
        let latency = stats.commit_us.checked_div(stats.batches).unwrap_or(0);
        let api = [("drive", path.as_str()), ("api", "storage.Commit")];
        let help = "Average latency in microseconds of group commits since the start.";
        page.gauge(n, "minio_node_drive_latency_us", help).add(&api, latency);
        for (name, help, value) in [
            ("total_bytes", "Total storage available on the drive.", stats.capacity),
            ("used_bytes", "Total storage used on the drive.", stats.used),
            ("free_bytes", "Total storage free on the drive.", stats.free),
        ] {
            page.gauge(v3, &format!("minio_system_drive_{name}"), help).add(&drive, value);
        }
        page.gauge(v3, "minio_system_drive_api_latency_micros", help).add(&api, latency);
        let help = "I/O errors since the start.";
        page.counter(v3, "minio_system_drive_ioerror_errors_total", help).add(&drive, stats.read_errors);
        let percent = stats.used as f64 * 100.0 / stats.capacity.max(1) as f64;
        page.gauge(Group::Resource, "minio_node_drive_utilised", "Used space in percent.")
            .add(&drive, percent);
    }
    let v3 = Group::V3("system/drive");
    page.value(v3, "minio_system_drive_count", "Count of all drives.", drive_folders.len());
    page.value(v3, "minio_system_drive_online_count", "Count of online drives.", up);
    page.value(v3, "minio_system_drive_offline_count", "Count of offline drives.", drive_folders.len() - up);
}

fn healing(node: &Node, page: &mut Page) {
    let heal = node.sets.heal_stats();
    let n = Group::Node;
    let help = "Objects scanned in current self healing run.";
    page.count(n, "minio_heal_objects_total", help, heal.looked);
    let help = "Objects healed in current self healing run.";
    page.count(n, "minio_heal_objects_heal_total", help, heal.records + heal.shards);
    let help = "Objects for which healing failed in current self healing run.";
    page.count(n, "minio_heal_objects_errors_total", help, heal.lost);
    let help = "Time elapsed (in nano seconds) since last self healing activity; -1 before the first.";
    page.value(n, "minio_heal_time_last_activity_nano_seconds", help, machine::since_healing(&heal));
    page.value(n, "ashlar_heal_queue", "Registers waiting to be healed.", heal.queued);
    page.count(n, "ashlar_heal_records_total", "Records brought up to date.", heal.records);
    page.count(n, "ashlar_heal_shards_total", "Shards made again.", heal.shards);
    page.count(n, "ashlar_heal_lost_total", "Pieces of data found with too few shards.", heal.lost);
    let (written, verified) = node.sets.paced_bytes();
    let help = "Bytes of records and shards written for healing and rebuild.";
    page.count(n, "ashlar_heal_written_bytes_total", help, written);
    let help = "Bytes of shards read and verified by scrubs.";
    page.count(n, "ashlar_scrub_read_bytes_total", help, verified);
    let limits = heal_limits::in_force(node);
    let help = "Bytes per second that this node writes at most for healing and rebuild; 0: no limit.";
    page.value(n, "ashlar_heal_max_rate_bytes", help, limits.max_rate);
    let help = "Bytes per second that this node reads at most for scrubs; 0: no limit.";
    page.value(n, "ashlar_scrub_max_rate_bytes", help, limits.scrub_max_rate);
    let help = "Percent of the time that a task of healing or scrub takes while requests are in flight.";
    page.value(n, "ashlar_heal_busy_share_percent", help, u64::from(limits.busy_share));
    let rebuilds = node.sets.rebuilds();
    let active = rebuilds.iter().filter(|r| r.phase != Phase::Done).count();
    page.value(n, "ashlar_rebuilds_active", "Drives being filled.", active);
    for r in rebuilds.iter().filter(|r| r.phase != Phase::Done) {
        let id = r.drive.to_hex();
        let drive = [("drive_id", id.as_str())];
        let left = r.registers.saturating_sub(r.looked);
        page.gauge(n, "ashlar_rebuild_registers_left", "Registers of this phase not looked at yet.")
            .add(&drive, left);
        page.counter(n, "ashlar_rebuild_bytes_total", "Bytes of shards made for the drive.")
            .add(&drive, r.bytes);
    }
    if let Some(scrub) = node.sets.last_scrub() {
        let help = "Registers looked at in the last pass.";
        page.value(n, "ashlar_scrub_registers", help, scrub.registers);
        let help = "Shards that no record named in the last pass.";
        page.value(n, "ashlar_scrub_orphans", help, scrub.orphans);
    }
    if let Some(scrub) = node.sets.last_full_scrub() {
        full_scrub(&scrub, page);
    }
}

/// Adds the metrics of the last passes that verified everything, of the placement groups that this node scrubs; `began` is of
/// the earliest. They are left out until each of these groups has had one.
fn full_scrub(scrub: &Scrubbed, page: &mut Page) {
    let n = Group::Node;
    let began = scrub.began_ms as f64 / 1e3;
    let help = "When the last pass that verified all shards began, in seconds since 1970.";
    page.value(n, "ashlar_scrub_full_began_timestamp_seconds", help, began);
    let help = "Seconds that this pass took.";
    page.value(n, "ashlar_scrub_full_seconds", help, scrub.took_ms as f64 / 1e3);
    for (name, help, value) in [
        ("registers", "Registers whose shards this pass verified.", scrub.registers),
        ("damaged", "Damages that were found while this pass ran.", scrub.damaged),
        ("shards_made", "Shards that this pass made again.", u64::from(scrub.healed.shards)),
        (
            "shards_missing",
            "Shards that were still missing after this pass.",
            u64::from(scrub.healed.missing),
        ),
        ("lost", "Pieces of data of which this pass found too few shards.", u64::from(scrub.healed.lost)),
    ] {
        page.value(n, &format!("ashlar_scrub_full_{name}"), help, value);
    }
}

/// Adds the metrics of the change feed, and the lag of its readers.
fn feed(node: &Node, page: &mut Page) {
    let stats = node.store.feed().stats();
    let n = Group::Node;
    page.count(n, "ashlar_feed_changes_total", "Changes written to the change feed.", stats.position);
    page.value(n, "ashlar_feed_segments", "Segments of the change feed on drives.", stats.segments);
    page.value(n, "ashlar_feed_bytes", "Bytes of these segments, before coding.", stats.bytes);
    page.value(n, "ashlar_feed_waiting", "Entries that wait to be written.", stats.pending);
    page.value(n, "ashlar_feed_open", "Changes whose outcome is not written down.", stats.open);
    let help = "Changes dropped before a reader had them, since the start.";
    page.count(n, "ashlar_feed_lost_total", help, stats.lost);
    let help = "1 while the change feed cannot be written.";
    page.value(n, "ashlar_feed_failing", help, u8::from(stats.last_error.is_some()));
    for (reader, lag) in stats.readers {
        let help = "Changes that a reader has not done.";
        page.gauge(n, "ashlar_feed_lag", help).add(&[("reader", &reader)], lag);
    }
}

/// Adds the metrics of encryption keys.
fn keys(slow_values: &SlowValues, page: &mut Page) {
    let Some((online, [succeeded, refused, failed])) = slow_values.keys else { return };
    let c = Group::Cluster;
    let help = "Reports whether the KMS is online (1) or offline (0).";
    page.value(c, "minio_cluster_kms_online", help, u8::from(online));
    let help = "Number of KMS requests that succeeded.";
    page.count(c, "minio_cluster_kms_request_success", help, succeeded);
    let help = "Number of KMS requests that failed due to some error. (HTTP 4xx status code).";
    page.count(c, "minio_cluster_kms_request_error", help, refused);
    let help = "Number of KMS requests that failed due to some internal failure. (HTTP 5xx status code).";
    page.count(c, "minio_cluster_kms_request_failure", help, failed);
    let help = "The time the server has used its KMS, in seconds.";
    page.value(c, "minio_cluster_kms_uptime", help, coarse());
}
