//! What all nodes of a cluster say about themselves, as one answer.
//!
//! | answer | put together of |
//! |---|---|
//! | overview, drives, healing | the states of all nodes; drives of a node that does not answer are those of the map |
//! | totals of operations | the sums over all nodes |
//! | lines of the log | the last lines of all nodes, by time |
//! | the record of a request | that of the node that has it |
//!
//! Invariants: nobody waits longer than [`PATIENCE`] for a node, and not at all for one that does not run; a node that does
//! not answer is named, with the reason. A machine that is alone answers what it answered without this module.
//!
//! Must not depend on: how nodes are reached, who is permitted to ask.

use std::time::Duration;

use ashlar_cluster::registry::Registry;
use ashlar_cluster::{DriveState as InMap, Map};
use ashlar_node::Node;
use ashlar_node::clock::now_ms;
use ashlar_node::questions::NoAnswer;
use serde::de::DeserializeOwned;

use super::admin_status::NOT_BEGUN;
use super::api::state::{
    Capacity, DriveState, HealStatus, LogLine, Memory, NodeInfo, NodeRequests, NodeState, OperationTotals,
    Rebuild, RequestRecord, RunningRequests, Top,
};
use super::question::Question;

/// How long other nodes may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most completed rebuilds, and damages, of all nodes in an answer.
const MOST: usize = 256;

/// What each other node answered, by number.
pub type Answers<T> = Vec<(u16, Result<T, NoAnswer>)>;

/// Asks all other nodes.
pub async fn ask<T: DeserializeOwned>(node: &Node, question: &Question) -> Answers<T> {
    let answers = node.ask_all(question.encode(), PATIENCE).await;
    let read = |answer: Result<bytes::Bytes, NoAnswer>| {
        serde_json::from_slice(&answer?).map_err(|error| {
            tracing::warn!(%error, "another node's answer is not understood");
            NoAnswer::Refused("its answer is not understood; do all nodes run the same release?".to_owned())
        })
    };
    answers.into_iter().map(|(number, answer)| (number, read(answer))).collect()
}

/// Why a node has no part in an answer.
pub(crate) fn why(number: u16, no: &NoAnswer) -> String {
    format!("node {number} {no}")
}

/// The state of all nodes, and the list of nodes; `own` and none for a machine that is alone.
pub async fn whole(node: &Node, own: NodeState) -> (NodeState, Option<Vec<NodeInfo>>) {
    if node.member.is_none() {
        return (own, None);
    }
    let answers = ask(node, &Question::State {}).await;
    let nodes = nodes(node, &own, &answers);
    (merge(node.number(), own, answers, &node.map.load()), Some(nodes))
}

/// The nodes of the cluster.
fn nodes(node: &Node, own: &NodeState, answers: &Answers<NodeState>) -> Vec<NodeInfo> {
    let registry = Registry::read(&node.control).ok().flatten();
    let describe = |(number, running): (u16, bool)| {
        let this = number == node.number();
        let answer = answers.iter().find(|(n, _)| *n == number).map(|(_, answer)| answer);
        let state = if this { Some(own) } else { answer.and_then(|answer| answer.as_ref().ok()) };
        let record = registry.as_ref().and_then(|r| r.nodes.get(&number));
        let text = |of: fn(&ashlar_cluster::registry::NodeRecord) -> &String| {
            record.map(|r| of(r).clone()).unwrap_or_default()
        };
        NodeInfo {
            node: number,
            running,
            this,
            address: text(|r| &r.address),
            endpoint: text(|r| &r.endpoint),
            version: state.map_or_else(|| text(|r| &r.version), |s| s.version.clone()),
            uptime_s: state.map(|s| s.uptime_s),
            started_ms: state.map(|s| s.started_ms),
            problem: answer.and_then(|a| a.as_ref().err()).map(|no| why(number, no)),
        }
    };
    node.nodes().into_iter().map(describe).collect()
}

/// Says of everything in a state which node it is from.
fn mark(number: u16, state: &mut NodeState) {
    let heal = &mut state.heal.heal;
    state.drives.iter_mut().for_each(|row| row.node = Some(number));
    heal.rebuilds.iter_mut().chain(&mut heal.rebuilt).for_each(|row| row.node = Some(number));
    heal.last_scrub.iter_mut().chain(&mut heal.last_full_scrub).for_each(|row| row.node = Some(number));
    state.heal.damages.iter_mut().for_each(|row| row.node = Some(number));
}

/// The states of all nodes as one. Version and uptime are those of node `me`.
fn merge(me: u16, mut own: NodeState, answers: Answers<NodeState>, map: &Map) -> NodeState {
    mark(me, &mut own);
    for (number, answer) in answers {
        match answer {
            Ok(mut state) => {
                mark(number, &mut state);
                add_capacity(&mut own.capacity, &state.capacity);
                add_memory(&mut own.memory, &state.memory);
                own.drives.append(&mut state.drives);
                add_heal(&mut own.heal, state.heal);
            }
            Err(no) => own.drives.extend(unknown(number, &why(number, &no), map)),
        }
    }
    // The order of the folders of a node stays.
    own.drives.sort_by_key(|row| row.node);
    let heal = &mut own.heal.heal;
    // The node that has a joining drive does not know what the node does that fills it.
    let begun = |r: &Rebuild| r.why.as_deref() != Some(NOT_BEGUN);
    let known: Vec<_> = heal.rebuilds.iter().filter(|r| begun(r)).map(|r| r.drive.clone()).collect();
    heal.rebuilds.retain(|r| begun(r) || !known.contains(&r.drive));
    for row in own.drives.iter_mut().filter(|row| row.rebuild.is_none() && !row.id.is_empty()) {
        row.rebuild = heal.rebuilds.iter().find(|r| r.drive == row.id && r.phase != "done").cloned();
    }
    heal.rebuilt.sort_by_key(|r| r.ended_ms);
    own.heal.damages.sort_by_key(|d| d.at_ms);
    let surplus = |len: usize| len.saturating_sub(MOST);
    heal.rebuilt.drain(..surplus(heal.rebuilt.len()));
    own.heal.damages.drain(..surplus(own.heal.damages.len()));
    own
}

/// The drives of a node that does not answer.
fn unknown<'a>(number: u16, why: &'a str, map: &'a Map) -> impl Iterator<Item = DriveState> + 'a {
    let drives = map.drives.iter().filter(move |d| d.node == number && d.state == InMap::Active);
    drives.map(move |drive| DriveState {
        node: Some(number),
        path: drive.path.clone(),
        id: drive.id.to_hex(),
        state: "unknown".to_owned(),
        problem: Some(why.to_owned()),
        ..DriveState::default()
    })
}

fn add_capacity(all: &mut Capacity, more: &Capacity) {
    all.raw += more.raw;
    all.raw_free += more.raw_free;
    all.usable += more.usable;
    all.usable_free += more.usable_free;
}

fn add_memory(all: &mut Memory, more: &Memory) {
    all.buffers += more.buffers;
    all.idle += more.idle;
    all.ceiling += more.ceiling;
}

/// Counters are added; of the last scrubs, the one that began last is kept.
fn add_heal(all: &mut HealStatus, mut more: HealStatus) {
    all.running |= more.running;
    all.damages.append(&mut more.damages);
    let (all, mut more) = (&mut all.heal, more.heal);
    all.queued += more.queued;
    all.looked += more.looked;
    all.records += more.records;
    all.shards += more.shards;
    all.lost += more.lost;
    all.rebuilds.append(&mut more.rebuilds);
    all.rebuilt.append(&mut more.rebuilt);
    for (kept, other) in
        [(&mut all.last_scrub, more.last_scrub), (&mut all.last_full_scrub, more.last_full_scrub)]
    {
        let began = kept.as_ref().map(|s| s.began_ms);
        if other.as_ref().map(|s| s.began_ms) > began {
            *kept = other;
        }
    }
}

/// Totals of operations, and requests in progress, of all nodes.
pub async fn top(node: &Node, own: Top) -> Top {
    if node.member.is_none() {
        return own;
    }
    add_tops(node.number(), own, ask(node, &Question::Top {}).await)
}

fn add_tops(me: u16, mut own: Top, answers: Answers<Top>) -> Top {
    let of = |node, top: &Top| NodeRequests {
        node,
        uptime_s: Some(top.uptime_s),
        inflight: Some(top.inflight),
        problem: None,
    };
    let mut nodes = vec![of(me, &own)];
    for (number, answer) in answers {
        match answer {
            Ok(top) => {
                nodes.push(of(number, &top));
                own.inflight += top.inflight;
                top.operations.into_iter().for_each(|more| add_operation(&mut own.operations, more));
                top.running.into_iter().for_each(|more| add_running(&mut own.running, more));
            }
            Err(no) => nodes.push(NodeRequests {
                node: number,
                uptime_s: None,
                inflight: None,
                problem: Some(why(number, &no)),
            }),
        }
    }
    nodes.sort_by_key(|n| n.node);
    own.nodes = Some(nodes);
    own
}

fn add_operation(all: &mut Vec<OperationTotals>, more: OperationTotals) {
    let Some(o) = all.iter_mut().find(|o| o.operation == more.operation) else {
        all.push(more);
        return;
    };
    let calls = o.calls + more.calls;
    let spent = u128::from(o.mean_micros) * u128::from(o.calls)
        + u128::from(more.mean_micros) * u128::from(more.calls);
    o.mean_micros = u64::try_from(spent / u128::from(calls.max(1))).unwrap_or(u64::MAX);
    o.calls = calls;
    o.client_errors += more.client_errors;
    o.server_errors += more.server_errors;
    o.bytes_in += more.bytes_in;
    o.bytes_out += more.bytes_out;
}

fn add_running(all: &mut Vec<RunningRequests>, more: RunningRequests) {
    match all.iter_mut().find(|r| r.bucket == more.bucket && r.operation == more.operation) {
        Some(running) => running.count += more.count,
        None => all.push(more),
    }
}

/// The last lines of the logs of all nodes, oldest first. `own`: those of this node.
pub async fn logs(node: &Node, own: Vec<LogLine>, last: usize, level: usize) -> Vec<LogLine> {
    let answers = ask(node, &Question::Logs { last, level }).await;
    merge_logs(node.number(), own, answers, last, now_ms())
}

fn merge_logs(
    me: u16,
    own: Vec<LogLine>,
    answers: Answers<Vec<LogLine>>,
    last: usize,
    now_ms: i64,
) -> Vec<LogLine> {
    let mut all = own;
    all.iter_mut().for_each(|line| line.node = Some(me));
    let mut missing = Vec::new();
    for (number, answer) in answers {
        match answer {
            Ok(lines) => all.extend(lines.into_iter().map(|l| LogLine { node: Some(number), ..l })),
            Err(no) => missing.push(LogLine {
                node: Some(number),
                time_ms: now_ms,
                level: "warn".to_owned(),
                target: module_path!().to_owned(),
                message: format!("no lines of its log are here: {}", why(number, &no)),
            }),
        }
    }
    // Lines of one node stay in their order.
    all.sort_by_key(|line| line.time_ms);
    all.drain(..all.len().saturating_sub(last));
    all.append(&mut missing);
    all
}

/// The record of a request that this node does not have.
///
/// # Errors
/// Which nodes could not be asked; empty: no node has it.
pub async fn find_record(node: &Node, request: &str) -> Result<RequestRecord, Vec<String>> {
    let question = Question::Why { request: request.to_owned() };
    let answers: Answers<Option<RequestRecord>> = ask(node, &question).await;
    let mut silent = Vec::new();
    for (number, answer) in answers {
        match answer {
            Ok(Some(record)) => return Ok(RequestRecord { node: Some(number), ..record }),
            Ok(None) => {}
            Err(no) => silent.push(why(number, &no)),
        }
    }
    Err(silent)
}

#[cfg(test)]
#[path = "everywhere_tests.rs"]
mod tests;
