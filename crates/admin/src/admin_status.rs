//! The state of this process and its drives for the administration API: capacity, drives, healing, damage. In a cluster
//! `everywhere` adds what other nodes answer.
//!
//! Invariant: nothing is changed here. Must not depend on: requests, authorization, other nodes.

use ashlar_cluster::Map;
use ashlar_drive::{Drive, State};
use ashlar_erasure_set::{Damage, Phase, Progress, Scrubbed};
use ashlar_node::clock::coarse;
use ashlar_node::drive_monitor;
use ashlar_node::{DriveFolder, Node};

use super::api::state as shape;
use super::heal_limits;
use super::metrics;
use super::monitor;

/// What this node says about itself. `running`: whether a scrub that was asked for runs.
pub fn own_state(node: &Node, started_ms: i64, running: bool) -> shape::NodeState {
    shape::NodeState {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_s: coarse(),
        started_ms,
        capacity: metrics::capacity(node),
        memory: shape::Memory {
            buffers: node.pool.used() as u64,
            idle: node.pool.idle() as u64,
            ceiling: node.pool.ceiling() as u64,
        },
        drives: drives(node),
        heal: shape::HealStatus {
            heal: heal(node),
            running,
            damages: damages(node),
            limits: heal_limits::in_force(node),
        },
        lacking: node.sets.lacking().iter().map(|id| id.to_hex()).collect(),
        owes_pass: node.sets.owes_pass(),
    }
}

/// The overview that `ashlar info` shows, for the state of one node or of all.
pub fn info(node: &Node, state: shape::NodeState, nodes: Option<Vec<shape::NodeInfo>>) -> shape::Info {
    let map = node.map.load();
    let health = node.sets.health();
    let control = node.control.health();
    let groups = health.iter().map(|g| shape::PlacementGroup {
        group: g.group.group.into(),
        slots: g.slots.into(),
        voters: g.voters.into(),
        joining: g.joining.into(),
        readable: g.readable,
        writable: g.writable,
        spare: g.spare.into(),
    });
    let tolerance = ashlar_erasure_set::tolerance(map.code().k, map.code().m);
    shape::Info {
        version: env!("CARGO_PKG_VERSION"),
        deployment: map.deployment.to_hex(),
        uptime_s: coarse(),
        code: map.code().to_string(),
        data_shards: map.code().k.into(),
        parity_shards: map.code().m.into(),
        reads_tolerate: tolerance.reads.into(),
        writes_tolerate: tolerance.writes.into(),
        epoch: map.epoch.into(),
        readable: health.iter().all(|g| g.readable),
        writable: health.iter().all(|g| g.writable),
        buckets: node.store.buckets().len() as u64,
        usage: monitor::usage_total(&node.store),
        capacity: state.capacity,
        memory: state.memory,
        control: shape::Control {
            members: control.members as u64,
            current: control.current as u64,
            writable: control.writable,
            revision: control.revision,
        },
        drives: state.drives,
        groups: groups.collect(),
        heal: state.heal.heal,
        nodes,
    }
}

/// The drives of this node.
pub fn drives(node: &Node) -> Vec<shape::DriveState> {
    let rebuilds = node.sets.rebuilds();
    let drive_folders = node.folders.lock().clone();
    let map = node.map.load();
    drive_folders.iter().map(|folder| drive(folder, &map, node, &rebuilds)).collect()
}

fn drive(folder: &DriveFolder, map: &Map, node: &Node, rebuilds: &[Progress]) -> shape::DriveState {
    let path = folder.path.display().to_string();
    let Some(drive) = &folder.drive else {
        let seen = drive_monitor::last_seen(map, node.number(), &folder.path);
        let id = seen.map(|id| id.to_hex()).unwrap_or_default();
        let state = if folder.held { "held" } else { "offline" }.to_owned();
        let problem = folder.problem.clone();
        return shape::DriveState { path, id, state, problem, ..shape::DriveState::default() };
    };
    let id = drive.label().drive;
    let stats = drive.stats();
    let rebuild = rebuilds.iter().find(|r| r.drive == id && r.phase != Phase::Done);
    let commits = stats.batches.max(1) as f64;
    shape::DriveState {
        node: None,
        path,
        id: id.to_hex(),
        state: state(node, drive).to_owned(),
        problem: why(drive).or_else(|| silent(drive)).or_else(|| folder.problem.clone()),
        capacity: Some(stats.capacity),
        used: Some(stats.used),
        free: Some(stats.free),
        read_errors: Some(stats.read_errors),
        reads: Some(stats.reads),
        writes: Some(stats.writes),
        syncs: Some(stats.syncs),
        commit_ms: Some(stats.commit_us as f64 / commits / 1000.0),
        rebuild: rebuild.map(progress),
    }
}

fn state(node: &Node, drive: &Drive) -> &'static str {
    match (drive.state(), node.sets.joins(drive.label().drive)) {
        (State::Online, false) => "online",
        (State::Online, true) => "joining",
        (State::ReadOnly, _) => "read-only",
        (State::Fenced(_), _) => "fenced",
        (State::Closed, _) => "offline",
    }
}

/// Reports a device that does not complete a call.
fn silent(drive: &Drive) -> Option<String> {
    drive.stalled().map(|s| format!("its device has not answered for {} s", s.as_secs()))
}

fn why(drive: &Drive) -> Option<String> {
    match drive.state() {
        State::Fenced(why) => Some(why),
        _ => None,
    }
}

fn progress(p: &Progress) -> shape::Rebuild {
    let phase = match p.phase {
        Phase::Waiting => "waiting",
        Phase::Records => "records",
        Phase::Shards => "shards",
        Phase::Done => "done",
    };
    shape::Rebuild {
        node: None,
        drive: p.drive.to_hex(),
        phase: phase.to_owned(),
        registers: p.registers,
        looked: p.looked,
        copied: p.copied,
        shards: p.shards,
        bytes: p.bytes,
        missing: p.missing,
        rate: p.rate,
        eta_s: p.eta_s,
        why: p.why.clone(),
        done_bytes: p.done_bytes,
        total_bytes: p.total_bytes,
        began_ms: p.began_ms,
        ended_ms: p.ended_ms,
    }
}

/// Why nothing is known of a rebuild.
pub const NOT_BEGUN: &str = "it has not begun";

/// A joining drive whose rebuild has not begun.
fn not_begun(drive: &Drive) -> shape::Rebuild {
    shape::Rebuild {
        node: None,
        drive: drive.label().drive.to_hex(),
        phase: "waiting".to_owned(),
        registers: 0,
        looked: 0,
        copied: 0,
        shards: 0,
        bytes: 0,
        missing: 0,
        rate: 0.0,
        eta_s: None,
        why: Some(NOT_BEGUN.to_owned()),
        done_bytes: 0,
        total_bytes: 0,
        began_ms: 0,
        ended_ms: None,
    }
}

fn scrub(s: Scrubbed) -> shape::Scrub {
    shape::Scrub {
        node: None,
        deep: s.deep,
        began_ms: s.began_ms,
        took_ms: s.took_ms,
        damaged: s.damaged,
        registers: s.registers,
        shards: s.shards,
        orphans: s.orphans,
        dropped: s.dropped,
        healed_records: s.healed.records.into(),
        healed_shards: s.healed.shards.into(),
        missing: s.healed.missing.into(),
        lost: s.healed.lost.into(),
        bytes: s.healed.bytes,
    }
}

/// The damage that this process found since the start, with names of buckets instead of ids.
pub fn damages(node: &Node) -> Vec<shape::Damage> {
    let buckets = node.store.buckets();
    let found = node.sets.damages();
    let named = |d: &Damage| {
        let bucket = buckets.iter().find(|b| b.id == d.bucket);
        shape::Damage {
            node: None,
            at_ms: d.at_ms,
            drive: d.drive.to_hex(),
            path: d.path.clone(),
            bucket: bucket.map_or_else(|| format!("{:?}", d.bucket), |b| b.name.clone()),
            key: String::from_utf8_lossy(&d.key).into_owned(),
            what: d.what.to_string(),
            repaired: d.repaired,
        }
    };
    found.iter().map(named).collect()
}

/// The state of healing by this process.
pub fn heal(node: &Node) -> shape::Heal {
    let stats = node.sets.heal_stats();
    let mut rebuilds: Vec<_> = node.sets.rebuilds().iter().map(progress).collect();
    for drive in node.folders.lock().iter().filter_map(|s| s.drive.as_ref()) {
        let id = drive.label().drive.to_hex();
        let begun = |r: &shape::Rebuild| r.drive == id && r.phase != "done";
        if node.sets.joins(drive.label().drive) && !rebuilds.iter().any(begun) {
            rebuilds.push(not_begun(drive));
        }
    }
    shape::Heal {
        queued: stats.queued,
        looked: stats.looked,
        records: stats.records,
        shards: stats.shards,
        lost: stats.lost,
        rebuilds,
        rebuilt: node.sets.rebuilt().iter().map(progress).collect(),
        last_scrub: node.sets.last_scrub().map(scrub),
        last_full_scrub: node.sets.last_full_scrub().map(scrub),
    }
}
