//! A run from its seed to its verdict.
//!
//! Invariants: after the faults have stopped, every call is answered within [`RECOVERY_TIME`] of virtual time, every
//! key can be read at every coordinator, and every shard exists again. The whole history of every group of
//! keys is checked.
//!
//! Must not depend on: which faults there are.

use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::Group;
use ashlar_drive::{Role, Status};
use ashlar_environment::simulation::Simulation;
use ashlar_environment::time::{Instant, sleep};
use ashlar_history::{Rules, linearizable};
use ashlar_object::{CreateBucket, Versioning};

use crate::client::{Clients, Outcome, PLAIN, VERSIONED, group};
use crate::cluster::Cluster;
use crate::faults::{Faults, stop_faults};
use crate::keys::{Keys, State};
use crate::monitor;
use crate::plan::Plan;
use crate::redundancy;
use crate::work::{Client, WITH_VERSIONS, plain};

/// How long the cluster may take to recover after the last fault.
pub const RECOVERY_TIME: Duration = Duration::from_secs(180);
/// Steps of tasks after which a run is stopped: about ten times those of the longest runs.
const STEPS: u64 = 1_000_000;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Observations that contradict the guarantees; empty if there are none.
    pub findings: Vec<String>,
    /// The trace, if it was requested.
    pub trace: Vec<String>,
    /// Equal for equal runs.
    pub fingerprint: u64,
    /// Number of steps of tasks.
    pub steps: u64,
    /// Virtual time.
    pub took: Duration,
    /// Number of calls of clients.
    pub calls: usize,
}

/// Runs a plan.
#[must_use]
pub fn run(plan: Plan) -> Verdict {
    simulate(plan, |clients| async move { default_run(&clients).await })
}

/// Runs `main` over the cluster of a plan.
pub fn simulate<F: Future<Output = ()> + 'static>(
    plan: Plan,
    story: impl FnOnce(Arc<Clients>) -> F + 'static,
) -> Verdict {
    let simulation = Simulation::new(plan.seed).with_limit(STEPS);
    let kept = std::rc::Rc::new(std::cell::RefCell::new(None));
    let place = kept.clone();
    let ended = simulation.run(async move {
        let clients = Clients::new(Cluster::new(plan));
        *place.borrow_mut() = Some(clients.clone());
        let maintain = ashlar_environment::spawn("maintain", clients.cluster.clone().maintain());
        drop(ashlar_environment::spawn("monitor", monitor::watch(clients.clone())));
        begin(&clients).await;
        story(clients.clone()).await;
        if maintain.is_finished() {
            clients.report(format!("upkeep of drives ended: {:?}", maintain.await));
        }
    });
    let clients = kept.borrow_mut().take();
    let (mut findings, mut trace, mut calls) = (Vec::new(), Vec::new(), 0);
    if let Some(clients) = clients {
        findings.clone_from(&clients.findings.lock());
        trace = clients.cluster.network.trace.lines();
        calls = clients.history.len();
    }
    if let Err(stuck) = ended {
        findings.push(format!("it hangs: {stuck}"));
    }
    let (fingerprint, steps, took) = (simulation.fingerprint(), simulation.steps(), simulation.elapsed());
    Verdict { findings, trace, fingerprint, steps, took, calls }
}

/// Starts the coordinators; the first one creates the buckets.
async fn begin(clients: &Arc<Clients>) {
    let cluster = &clients.cluster;
    cluster.start(0).await;
    let made = clients.at(0, "make buckets", |s| async move {
        s.create_bucket(PLAIN, &CreateBucket::default()).await?;
        s.create_bucket(VERSIONED, &CreateBucket::default()).await?;
        s.set_versioning(&s.bucket(VERSIONED)?, Versioning::Enabled).await
    });
    if !matches!(made.await, Outcome::Answer(())) {
        clients.report("a bucket cannot be made");
    }
    for number in 1..cluster.plan.coordinators {
        cluster.start(number).await;
    }
}

/// The default run: clients make calls while faults are injected; then everything is checked.
async fn default_run(clients: &Arc<Clients>) {
    let plan = &clients.cluster.plan;
    let faults = ashlar_environment::spawn("faults", Faults::new(clients).inject(plan.fault_count));
    let work: Vec<_> = (0..plan.clients as u64)
        .map(|n| ashlar_environment::spawn("client", Client::new(clients, n).work(plan.calls)))
        .collect();
    for client in work {
        if client.await.is_err() {
            clients.report("a client ended early");
        }
    }
    if faults.await.is_err() {
        clients.report("the faults ended early");
    }
    stop_faults(clients).await;
    check_recovered(clients).await;
    judge(clients);
}

/// Checks that every key can be read everywhere, and that every shard exists again.
pub async fn check_recovered(clients: &Arc<Clients>) {
    let cluster = &clients.cluster;
    let end = Instant::now() + RECOVERY_TIME;
    for at in 0..cluster.plan.coordinators {
        for key in plain().into_iter().chain([WITH_VERSIONS]) {
            while clients.get(at, key).await.ok().is_none() {
                if Instant::now() > end {
                    return clients
                        .report(format!("key {key} cannot be read at coordinator {at} after the faults"));
                }
                sleep(Duration::from_millis(200)).await;
            }
        }
        clients.list(at, &plain(), 3).await;
    }
    let mut last = String::new();
    loop {
        if Instant::now() > end {
            return clients.report(format!("redundancy is not restored after the faults: {last}"));
        }
        sleep(Duration::from_millis(500)).await;
        let lacks = |g: &Group| {
            let status = |drive| cluster.host(drive).and_then(|h| h.drive()).map(|d| d.status());
            let votes = |s: Status| s.role(g.id) == Some(Role::Voter);
            !g.slots.iter().all(|slot| status(slot.drive).is_some_and(votes))
        };
        // A scrub does not make a drive join.
        if cluster.map().groups.iter().any(lacks) {
            "a drive is still joining".clone_into(&mut last);
            continue;
        }
        let Some(c) = cluster.coordinator(0) else { return clients.report("coordinator 0 is down") };
        let found = c.sets.scrub(true).await;
        last = format!("{found:?}");
        if found.is_ok_and(|f| f.damaged == 0 && f.healed == ashlar_erasure_set::Healed::default()) {
            // Not by the code that repairs: it may overlook something.
            match redundancy::missing(cluster).await {
                None => return,
                Some(what) => last = format!("a scrub finds nothing, and yet there is missing: {what}"),
            }
        }
    }
}

/// Checks the history.
pub fn judge(clients: &Clients) {
    let mut groups: Vec<usize> = plain().into_iter().chain([WITH_VERSIONS]).map(group).collect();
    groups.dedup();
    for g in groups {
        let ops = clients.history.of(g);
        if ops.len() > 128 {
            clients.report(format!("the history of group {g} is too long to judge: {}", ops.len()));
            continue;
        }
        let model = Keys { versioned: g == group(WITH_VERSIONS) };
        if !linearizable(&model, &State::default(), Rules { settled: true }, &ops) {
            let outcome: Vec<String> = ops
                .iter()
                .map(|o| {
                    let to = if o.to == u64::MAX { "never".to_owned() } else { o.to.to_string() };
                    format!("\n      {}..{to} {:?}: {:?}", o.from, o.call, o.answer)
                })
                .collect();
            clients.report(format!("the history of group {g} is not linearizable:{}", outcome.concat()));
        }
    }
}
