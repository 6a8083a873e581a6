//! Many clients change one key through all coordinators at the same time, each on a condition: the history is
//! linearizable, with and without faults. Without faults hardly any change ends with an
//! unknown outcome (docs/decisions/0040-outcomes-are-learned-early.md).
//!
//! Must not depend on: the default calls of clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// How many changes of the key had no outcome that their clients could know, or were not made although no condition failed.
fn unanswered(clients: &Clients) -> u64 {
    let unknown = clients.history.of(group(KEY)).iter().filter(|op| op.answer.is_none()).count();
    // A call without an effect is in this group. A read may meet a version whose data is being replaced.
    let none = clients.history.of(usize::MAX);
    let refused = none.iter().filter(|op| !matches!(op.call, Call::Get(_))).count();
    (unknown + refused) as u64
}

/// `open`: the number of changes without an outcome.
async fn contention(clients: Arc<Clients>, open: Arc<AtomicU64>) {
    let count = clients.cluster.plan.coordinators;
    let work: Vec<_> = (0..CLIENTS * count as u64)
        .map(|n| ashlar_environment::spawn("client", contend(clients.clone(), n as usize % count, n)))
        .collect();
    for client in work {
        if client.await.is_err() {
            clients.report("a client ended early");
        }
    }
    open.fetch_add(unanswered(&clients), Ordering::Relaxed);
    check_recovered(&clients).await;
    judge(&clients);
}

/// Runs the seeds; no more than `most` changes may be without an outcome.
fn contend_without_faults(seeds: std::ops::Range<u64>, most: u64) {
    let open = Arc::new(AtomicU64::new(0));
    let counted = open.clone();
    let found = findings(seeds, plan, move |clients| contention(clients, counted.clone()));
    assert!(found.is_empty(), "{found:#?}");
    let open = open.load(Ordering::Relaxed);
    println!("{open} changes have no outcome");
    assert!(open <= most, "{open} changes have no outcome");
}

/// Of about 2,500 changes; before decision 0040 it was one in three runs.
#[test]
fn contention_is_linearizable_and_nearly_every_change_is_answered() {
    contend_without_faults(0..60, 2);
}

#[test]
#[ignore = "minutes; by hand"]
fn contention_at_length() {
    contend_without_faults(1000..1400, 4);
}

/// Turns that are lost change nothing about what is true.
#[test]
fn contention_with_lost_messages_is_linearizable() {
    let network_faults = NetworkFaults { lost: 20, twice: 20, slow: 50, late: 5 };
    let story = |clients| contention(clients, Arc::default());
    let found = findings(100..108, |seed| Plan { network_faults, ..plan(seed) }, story);
    assert!(found.is_empty(), "{found:#?}");
}
