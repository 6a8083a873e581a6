//! Many clients change one key through all coordinators at the same time, each on a condition: the history is
//! linearizable, with and without faults. Without faults no change ends with an unknown outcome
//! (docs/decisions/0040-outcomes-are-learned-early.md).
//!
//! Must not depend on: the default calls of clients.

use std::sync::Arc;

use ashlar_environment::random::Seeded;

use crate::{findings, without_faults};
use ashlar_sim::client::{Clients, group};
use ashlar_sim::keys::{Call, Value};
use ashlar_sim::plan::{NetworkFaults, Plan};
use ashlar_sim::run::{check_recovered, judge};

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

/// Without faults, every change is made or refused because of its condition.
fn report_unanswered(clients: &Clients) {
    let unknown = clients.history.of(group(KEY)).iter().filter(|op| op.answer.is_none()).count();
    // A call without an effect is in this group. A read may meet a version whose data is being replaced.
    let none = clients.history.of(usize::MAX);
    let refused = none.iter().filter(|op| !matches!(op.call, Call::Get(_))).count();
    if unknown + refused > 0 {
        clients.report(format!("{unknown} changes ended with an unknown outcome, {refused} were not made"));
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
    if clients.cluster.plan.network_faults.lost == 0 {
        report_unanswered(&clients);
    }
    check_recovered(&clients).await;
    judge(&clients);
}

#[test]
fn contention_is_linearizable_and_every_change_is_answered() {
    let found = findings(0..60, plan, contention);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
#[ignore = "minutes; by hand"]
fn contention_at_length() {
    let found = findings(1000..1400, plan, contention);
    assert!(found.is_empty(), "{found:#?}");
}

/// Turns that are lost change nothing about what is true.
#[test]
fn contention_with_lost_messages_is_linearizable() {
    let network_faults = NetworkFaults { lost: 20, twice: 20, slow: 50, late: 5 };
    let found = findings(100..108, |seed| Plan { network_faults, ..plan(seed) }, contention);
    assert!(found.is_empty(), "{found:#?}");
}
