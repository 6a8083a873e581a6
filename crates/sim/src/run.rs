//! A run from its seed to its verdict.
//!
//! Invariants: after the faults have stopped every call is answered within [`MENDED`] of virtual time, every key can be
//! read at every coordinator, and every shard is there again; the history of every group of keys is judged whole.
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

use crate::client::{Clients, PLAIN, Told, VERSIONED, group};
use crate::cluster::Cluster;
use crate::faults::{Faults, calm};
use crate::keys::{Keys, State};
use crate::plan::Plan;
use crate::work::{Client, WITH_VERSIONS, plain};

/// How long the cluster may take to be whole again.
pub const MENDED: Duration = Duration::from_secs(180);
/// Steps of tasks after which a run is given up: some ten times what the longest runs take.
const STEPS: u64 = 1_000_000;

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What cannot be; empty: nothing.
    pub findings: Vec<String>,
    /// What happened, if it was asked for.
    pub trace: Vec<String>,
    /// Equal for equal runs.
    pub fingerprint: u64,
    /// Steps of tasks.
    pub steps: u64,
    /// Virtual time.
    pub took: Duration,
    /// Calls of clients.
    pub calls: usize,
}

/// Runs a plan.
#[must_use]
pub fn run(plan: Plan) -> Verdict {
    simulate(plan, |clients| async move { usual(&clients).await })
}

/// Runs a story over the cluster of a plan.
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
        let chores = ashlar_environment::spawn("chores", clients.cluster.clone().chores());
        begin(&clients).await;
        story(clients.clone()).await;
        if chores.is_finished() {
            clients.find(format!("upkeep of drives ended: {:?}", chores.await));
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

/// Starts the coordinators, the first of which makes the buckets.
async fn begin(clients: &Arc<Clients>) {
    let cluster = &clients.cluster;
    cluster.start(0).await;
    let made = clients.at(0, "make buckets", |s| async move {
        s.create_bucket(PLAIN, &CreateBucket::default()).await?;
        s.create_bucket(VERSIONED, &CreateBucket::default()).await?;
        s.set_versioning(&s.bucket(VERSIONED)?, Versioning::Enabled).await
    });
    if !matches!(made.await, Told::Is(())) {
        clients.find("a bucket cannot be made");
    }
    for number in 1..cluster.plan.coordinators {
        cluster.start(number).await;
    }
}

/// Clients work, faults strike, and then everything is looked at.
async fn usual(clients: &Arc<Clients>) {
    let plan = &clients.cluster.plan;
    let faults = ashlar_environment::spawn("faults", Faults::new(clients).strike(plan.strikes));
    let work: Vec<_> = (0..plan.clients as u64)
        .map(|n| ashlar_environment::spawn("client", Client::new(clients, n).work(plan.calls)))
        .collect();
    for client in work {
        if client.await.is_err() {
            clients.find("a client ended early");
        }
    }
    if faults.await.is_err() {
        clients.find("the faults ended early");
    }
    calm(clients).await;
    whole(clients).await;
    judge(clients);
}

/// Every key can be read everywhere, and every shard is there again.
pub async fn whole(clients: &Arc<Clients>) {
    let cluster = &clients.cluster;
    let end = Instant::now() + MENDED;
    for at in 0..cluster.plan.coordinators {
        for key in plain().into_iter().chain([WITH_VERSIONS]) {
            while clients.get(at, key).await.ok().is_none() {
                if Instant::now() > end {
                    return clients
                        .find(format!("key {key} cannot be read at coordinator {at} after the faults"));
                }
                sleep(Duration::from_millis(200)).await;
            }
        }
        clients.list(at, &plain(), 3).await;
    }
    // Twice in a row, so that what the first look set in motion has ended.
    let mut clean = 0;
    let mut last = String::new();
    while clean < 2 {
        if Instant::now() > end {
            return clients.find(format!("redundancy is not restored after the faults: {last}"));
        }
        sleep(Duration::from_millis(500)).await;
        let lacks = |g: &Group| {
            let status = |drive| cluster.host(drive).and_then(|h| h.status());
            let votes = |s: Status| s.role(g.id) == Some(Role::Voter);
            !g.slots.iter().all(|slot| status(slot.drive).is_some_and(votes))
        };
        let joining = cluster.map().groups.iter().any(lacks);
        let Some(c) = cluster.coordinator(0) else { return clients.find("coordinator 0 is down") };
        let found = c.sets.scrub(true).await;
        last = format!("{found:?}, joining: {joining}");
        let same = found.is_ok_and(|f| f.damaged == 0 && f.healed == ashlar_erasure_set::Healed::default());
        clean = if same && !joining { clean + 1 } else { 0 };
    }
}

/// Judges the history.
pub fn judge(clients: &Clients) {
    let mut groups: Vec<usize> = plain().into_iter().chain([WITH_VERSIONS]).map(group).collect();
    groups.dedup();
    for g in groups {
        let ops = clients.history.of(g);
        if ops.len() > 128 {
            clients.find(format!("the history of group {g} is too long to judge: {}", ops.len()));
            continue;
        }
        let model = Keys { versioned: g == group(WITH_VERSIONS) };
        if !linearizable(&model, &State::default(), Rules { settled: true }, &ops) {
            let told: Vec<String> = ops
                .iter()
                .map(|o| {
                    let to = if o.to == u64::MAX { "never".to_owned() } else { o.to.to_string() };
                    format!("\n      {}..{to} {:?}: {:?}", o.from, o.call, o.answer)
                })
                .collect();
            clients.find(format!("the history of group {g} is not linearizable:{}", told.concat()));
        }
    }
}
