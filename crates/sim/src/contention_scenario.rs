//! Many clients change one key through all coordinators at the same time, each on a condition. Without faults every call is
//! answered: none ends with an unknown outcome, or without an effect because of the others.
//!
//! Must not depend on: the default calls of clients.

use std::sync::Arc;

use ashlar_environment::random::Seeded;

use crate::client::Clients;
use crate::keys::Value;
use crate::plan::{NetworkFaults, Plan};
use crate::run::{check_recovered, judge, simulate};
use crate::scenario::without_faults;

/// The key.
const KEY: u8 = 2;
/// Clients of each coordinator.
const CLIENTS: u64 = 4;
/// Calls of each client.
const CALLS: u64 = 3;

/// As [`without_faults`], with three or four coordinators over six drives.
fn plan(seed: u64) -> Plan {
    let coordinators = 3 + seed as usize % 2;
    Plan { coordinators, drives: 6, takes_turns: true, ..without_faults(seed) }
}

/// Changes the key, if it is what was read, or if it is not there; the others try the same.
async fn contend(clients: Arc<Clients>, at: usize, number: u64) {
    let mut rng = Seeded::new(clients.cluster.plan.seed ^ (number + 1) << 40);
    for call in 0..CALLS {
        let value: Value = (number + 1) * 1000 + call;
        match rng.below(4) {
            0 => clients.create(at, KEY, value).await,
            1 => drop(clients.delete(at, KEY).await),
            _ => match clients.get(at, KEY).await.ok().flatten() {
                Some(got) => clients.replace(at, KEY, &got, value).await,
                None => clients.create(at, KEY, value).await,
            },
        }
    }
}

async fn contention(clients: Arc<Clients>) {
    let count = clients.cluster.plan.coordinators;
    let work: Vec<_> = (0..CLIENTS * count as u64)
        .map(|n| ashlar_environment::spawn("client", contend(clients.clone(), n as usize % count, n)))
        .collect();
    for client in work {
        if client.await.is_err() {
            clients.report("a client ended early");
        }
    }
    check_recovered(&clients).await;
    judge(&clients);
}

/// Calls that were answered 503, per seed: their outcomes, as the trace has them.
fn unanswered(plan: Plan) -> (Vec<String>, Vec<String>) {
    let verdict = simulate(Plan { traced: true, ..plan }, contention);
    let is_503 = |line: &&String| line.contains(": unknown: ") || line.contains(": no: busy");
    (verdict.findings, verdict.trace.iter().filter(is_503).cloned().collect())
}

#[test]
fn every_call_for_a_contended_key_is_answered() {
    for seed in 0..24 {
        let (findings, unanswered) = unanswered(plan(seed));
        assert!(findings.is_empty(), "seed {seed}: {findings:#?}");
        assert!(unanswered.is_empty(), "seed {seed}: {unanswered:#?}");
    }
}

/// With messages that get lost, turns change nothing about what is true: an outcome may be unknown.
#[test]
fn contention_with_lost_messages_is_linearizable() {
    let network_faults = NetworkFaults { lost: 20, twice: 20, slow: 50, late: 5 };
    for seed in 100..108 {
        let (findings, _) = unanswered(Plan { network_faults, ..plan(seed) });
        assert!(findings.is_empty(), "seed {seed}: {findings:#?}");
    }
}
