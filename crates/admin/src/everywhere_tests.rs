//! Tests of `everywhere`: what several nodes answer, and some do not, as one answer.

use ashlar_cluster::{Accept, CodeSpec, NewDrive};
use ashlar_format::{DeploymentId, DriveId};
use serde_json::json;

use super::*;

/// Three nodes with two drives each, whose ids are `NI` in hexadecimal, repeated.
fn map() -> Map {
    let drive = |node: u16, i: u16| NewDrive {
        id: DriveId([(node * 16 + i) as u8; 16]),
        path: format!("/disk{i}"),
        weight: 1 << 40,
        node,
        rack: None,
        enclosure: None,
    };
    let all: Vec<_> = (1..=3).flat_map(|node| (0..2).map(move |i| drive(node, i))).collect();
    Map::first_over_nodes(
        DeploymentId([1; 16]),
        &all,
        Some(CodeSpec { k: 4, m: 2 }),
        None,
        Accept { node_loss: true, ..Accept::default() },
    )
    .unwrap()
}

fn rebuild(drive: &str, why: Option<&str>) -> Rebuild {
    let value = json!({ "drive": drive, "phase": "records", "registers": 9, "looked": 1, "copied": 1, "shards": 0,
        "bytes": 5, "missing": 0, "rate": 1.5, "eta_s": 3, "why": why, "done_bytes": 1, "total_bytes": 2,
        "began_ms": 1, "ended_ms": null });
    serde_json::from_value(value).unwrap()
}

fn damage(at_ms: u64) -> crate::api::state::Damage {
    let value = json!({ "at_ms": at_ms, "drive": "d", "path": "/p", "bucket": "b", "key": "k", "what": "record",
        "repaired": true });
    serde_json::from_value(value).unwrap()
}

fn scrub(began_ms: u64) -> crate::api::state::Scrub {
    let value = json!({ "deep": true, "began_ms": began_ms, "took_ms": 1, "damaged": 0, "registers": 1, "shards": 1,
        "orphans": 0, "dropped": 0, "healed_records": 0, "healed_shards": 0, "missing": 0, "lost": 0, "bytes": 0 });
    serde_json::from_value(value).unwrap()
}

/// A node with the drives of the map; its counters are its number.
fn state(node: u16) -> NodeState {
    let mut state = NodeState { version: format!("v{node}"), ..NodeState::default() };
    let n = u64::from(node);
    state.capacity = Capacity { raw: n, raw_free: n, usable: n, usable_free: n };
    state.memory = Memory { buffers: n, idle: n, ceiling: n };
    for i in 0..2 {
        let id = DriveId([(node * 16 + i) as u8; 16]).to_hex();
        let row =
            DriveState { path: format!("/disk{i}"), id, state: "online".to_owned(), ..Default::default() };
        state.drives.push(row);
    }
    let heal = &mut state.heal.heal;
    (heal.queued, heal.looked, heal.records, heal.shards, heal.lost) = (n, n, n, n, n);
    state
}

#[test]
fn one_answer_has_the_drives_and_sums_of_all_nodes() {
    let answers = vec![(1, Ok(state(1))), (3, Ok(state(3)))];
    let all = merge(2, state(2), answers, &map());
    let rows: Vec<_> = all.drives.iter().map(|d| (d.node.unwrap(), d.path.as_str())).collect();
    assert_eq!(rows, [1, 2, 3].map(|n| [(n, "/disk0"), (n, "/disk1")]).concat());
    assert_eq!(all.version, "v2", "that of the node that answers");
    let (c, m, h) = (&all.capacity, &all.memory, &all.heal.heal);
    assert_eq!([c.raw, c.raw_free, c.usable, c.usable_free, m.buffers, m.idle, m.ceiling], [6; 7]);
    assert_eq!([h.queued, h.looked, h.records, h.shards, h.lost], [6; 5]);
}

#[test]
fn drives_of_a_node_that_does_not_answer_are_those_of_the_map_with_the_reason() {
    let answers = vec![(1, Err(NoAnswer::NotRunning)), (3, Err(NoAnswer::Silent))];
    let all = merge(2, state(2), answers, &map());
    let shown = |d: &DriveState| (d.node.unwrap(), d.state.clone(), d.problem.clone().unwrap_or_default());
    let row = |node, state: &str, problem: &str| (node, state.to_owned(), problem.to_owned());
    let first: Vec<_> = all.drives.iter().step_by(2).map(shown).collect();
    assert_eq!(
        first,
        [
            row(1, "unknown", "node 1 is not running"),
            row(2, "online", ""),
            row(3, "unknown", "node 3 does not answer"),
        ]
    );
    assert_eq!((all.drives.len(), all.drives[0].id.as_str()), (6, "10".repeat(16).as_str()));
    assert_eq!((all.drives[0].capacity, all.capacity.raw), (None, 2), "nothing else is known");
}

#[test]
fn the_rebuild_of_a_drive_is_shown_with_the_drive_whoever_does_it() {
    let (mut own, mut other) = (state(1), state(2));
    let joining = own.drives[1].id.clone();
    own.heal.heal.rebuilds = vec![rebuild(&joining, Some(NOT_BEGUN)), rebuild("elsewhere", Some(NOT_BEGUN))];
    other.heal.heal.rebuilds = vec![rebuild(&joining, None)];
    let all = merge(1, own, vec![(2, Ok(other))], &map());
    let rebuilds: Vec<_> = all.heal.heal.rebuilds.iter().map(|r| (r.node, r.drive.as_str())).collect();
    assert_eq!(rebuilds, [(Some(1), "elsewhere"), (Some(2), joining.as_str())]);
    assert_eq!(all.drives[1].rebuild.as_ref().and_then(|r| r.node), Some(2));
    assert!(all.drives[0].rebuild.is_none());
}

#[test]
fn the_last_scrub_and_the_last_damages_of_all_are_kept() {
    let (mut own, mut other) = (state(1), state(2));
    own.heal.heal.last_scrub = Some(scrub(50));
    own.heal.heal.last_full_scrub = Some(scrub(70));
    other.heal.heal.last_scrub = Some(scrub(60));
    other.heal.running = true;
    own.heal.damages = (0..200).map(|at| damage(at * 2)).collect();
    other.heal.damages = (0..200).map(|at| damage(at * 2 + 1)).collect();
    let all = merge(1, own, vec![(2, Ok(other))], &map()).heal;
    let of = |scrub: Option<crate::api::state::Scrub>| scrub.map(|s| (s.node.unwrap(), s.began_ms));
    assert_eq!((of(all.heal.last_scrub), of(all.heal.last_full_scrub)), (Some((2, 60)), Some((1, 70))));
    assert!(all.running);
    let times: Vec<_> = all.damages.iter().map(|d| (d.at_ms, d.node.unwrap())).collect();
    let wanted: Vec<_> = (400 - MOST as u64..400).map(|at| (at, if at % 2 == 0 { 1 } else { 2 })).collect();
    assert_eq!(times, wanted);
}

fn totals(operation: &str, calls: u64, mean_micros: u64) -> OperationTotals {
    let operation = operation.to_owned();
    OperationTotals {
        operation,
        calls,
        client_errors: 1,
        server_errors: 2,
        mean_micros,
        bytes_in: 3,
        bytes_out: 4,
    }
}

#[test]
fn operations_of_all_nodes_are_added_and_their_means_weighted() {
    let running = |count| RunningRequests { bucket: "b".into(), operation: "GetObject".into(), count };
    let of = |operations, inflight| Top {
        uptime_s: 9,
        inflight,
        operations,
        running: vec![running(inflight)],
        nodes: None,
    };
    let own = of(vec![totals("GetObject", 30, 100)], 2);
    let other = of(vec![totals("GetObject", 10, 500), totals("PutObject", 1, 7)], 3);
    let all = add_tops(2, own, vec![(1, Ok(other)), (3, Err(NoAnswer::Silent))]);
    let shown: Vec<_> =
        all.operations.iter().map(|o| (o.operation.as_str(), o.calls, o.mean_micros)).collect();
    assert_eq!(shown, [("GetObject", 40, 200), ("PutObject", 1, 7)]);
    let get = &all.operations[0];
    assert_eq!([get.client_errors, get.server_errors, get.bytes_in, get.bytes_out], [2, 4, 6, 8]);
    assert_eq!((all.inflight, all.running.len(), all.running[0].count), (5, 1, 5));
    let nodes = all.nodes.unwrap();
    let nodes: Vec<_> = nodes.iter().map(|n| (n.node, n.inflight, n.problem.as_deref())).collect();
    assert_eq!(nodes, [(1, Some(3), None), (2, Some(2), None), (3, None, Some("node 3 does not answer"))]);
}

#[test]
fn lines_of_all_nodes_are_in_the_order_of_time_and_missing_nodes_are_named() {
    let line = |time_ms: i64| LogLine {
        node: None,
        time_ms,
        level: "info".into(),
        target: "t".into(),
        message: format!("{time_ms}"),
    };
    let answers = vec![(1, Ok(vec![line(2), line(5)])), (3, Err(NoAnswer::NotRunning))];
    let all = merge_logs(2, vec![line(1), line(4), line(6)], answers, 4, 99);
    let shown: Vec<_> = all.iter().map(|l| (l.node.unwrap(), l.message.as_str())).collect();
    assert_eq!(
        shown,
        [(1, "2"), (2, "4"), (1, "5"), (2, "6"), (3, "no lines of its log are here: node 3 is not running"),]
    );
}
