//! Quotas: several coordinators admit into one bucket while one of them crashes and another loses the control store.
//! The bucket never holds more than its quota, and in the end all of it can be used.
//!
//! Must not depend on: the default calls of clients.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::random::Seeded;
use ashlar_environment::time::sleep;
use ashlar_object::{Conditions, ListSpec, Result, Store};

use crate::{assert_found, findings, put, without_faults};
use ashlar_sim::client::{Clients, Outcome, PLAIN};
use ashlar_sim::faults::stop_faults;
use ashlar_sim::plan::{Mutant, Plan};

/// The quota in bytes: about seven bodies.
const LIMIT: u64 = 4_000;
/// The largest body.
const BODY: u64 = 900;
/// The body with which the bucket is filled in the end.
const LAST: u64 = 50;

async fn delete(store: Store, key: String) -> Result<()> {
    store.delete(&store.bucket(PLAIN)?, &key, None, &Conditions::NONE).await.map(|_| ())
}

/// The bytes that a list shows. Nothing may be changed meanwhile.
async fn listed(store: Store) -> Result<u64> {
    let spec = ListSpec { max_keys: 1000, ..ListSpec::default() };
    let page = store.list(&store.bucket(PLAIN)?, &spec).await?;
    Ok(page.entries.iter().map(|e| e.size).sum())
}

/// Repeats a call until it is answered, for at most a minute of virtual time.
async fn until_answered<T, F>(
    clients: &Clients,
    at: usize,
    what: &str,
    call: impl Fn(Store) -> F,
) -> Option<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    for _ in 0..120 {
        if let Outcome::Answer(answer) = clients.at(at, what, &call).await {
            return Some(answer);
        }
        sleep(Duration::from_millis(500)).await;
    }
    clients.report(format!("{what} at coordinator {at} is never answered"));
    None
}

/// Puts and deletes of one client. Returns the bytes of puts with an unknown outcome: their nodes count them as stored
/// for a quarter of an hour.
async fn change(clients: &Clients, at: usize) -> u64 {
    let mut unknown = 0;
    let mut rng = Seeded::new(clients.cluster.plan.seed ^ (at as u64 + 1) << 20);
    for _ in 0..16 {
        let key = format!("q{}", rng.below(8));
        if rng.below(4) == 0 {
            let what = format!("delete {key}");
            drop(clients.at(at, &what, |s| delete(s, key)).await);
        } else {
            let size = 100 + rng.below(BODY - 100);
            let what = format!("put {key} of {size} bytes");
            if let Outcome::Unknown(_) = clients.at(at, &what, |s| put(s, PLAIN, key, size)).await {
                unknown += size;
            }
        }
        sleep(Duration::from_micros(rng.below(150_000))).await;
    }
    unknown
}

/// A coordinator crashes and comes back; another one loses the control store for a while.
async fn disturb(clients: &Clients) {
    let (cluster, mut rng) = (&clients.cluster, Seeded::new(clients.cluster.plan.seed ^ 0xd15));
    sleep(Duration::from_micros(rng.below(1_500_000))).await;
    cluster.crash(1);
    cluster.control.set_reachable(0, rng.below(2) == 0);
    sleep(Duration::from_micros(rng.below(800_000))).await;
    cluster.start(1).await;
    sleep(Duration::from_micros(rng.below(800_000))).await;
    cluster.control.set_reachable(0, true);
}

async fn quota_of_three_coordinators(clients: Arc<Clients>) {
    let mut announcements = Vec::new();
    for number in 0..clients.cluster.plan.coordinators {
        let Some(c) = clients.cluster.coordinator(number) else { return clients.report("it is down") };
        announcements.push(c.control.announce(number as u16).await);
    }
    let set = |s: Store| async move { s.set_quota(&s.bucket(PLAIN)?, Some(LIMIT)).await };
    if until_answered(&clients, 0, "set the quota", set).await.is_none() {
        return;
    }
    // Longer than a copy of the control store lags.
    sleep(Duration::from_secs(2)).await;
    let changes =
        futures::join!(change(&clients, 0), change(&clients, 1), change(&clients, 2), disturb(&clients));
    let unknown = changes.0 + changes.1 + changes.2;
    stop_faults(&clients).await;
    // What was not answered takes effect by then, or never.
    sleep(Duration::from_secs(60)).await;
    let Some(held) = until_answered(&clients, 0, "list", listed).await else { return };
    if held > LIMIT {
        clients.report(format!("the bucket holds {held} bytes and may hold {LIMIT}"));
    }
    fill(&clients, unknown).await;
    drop(announcements);
}

/// After a count all of the quota can be used, but for `unknown` bytes, and no more.
async fn fill(clients: &Clients, unknown: u64) {
    let coordinators = clients.cluster.plan.coordinators;
    for at in (0..coordinators).chain(0..coordinators) {
        // Two nodes count at once: each believes that it is the one that does.
        let count = |s: Store| async move { s.count_uncounted(true).await };
        let other = (at + 1) % coordinators;
        let counts = futures::join!(
            until_answered(clients, at, "count", count),
            until_answered(clients, other, "count", count)
        );
        if counts.0.is_none() || counts.1.is_none() {
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
    for n in 0..400 {
        let put = clients.at(n % coordinators, "fill", |s| put(s, PLAIN, format!("fill{n}"), LAST)).await;
        match put {
            Outcome::NoEffect(why) if why.starts_with("QuotaExceeded") => {
                let Some(held) = until_answered(clients, 0, "list", listed).await else { return };
                if held > LIMIT || held + LAST + unknown <= LIMIT {
                    clients.report(format!("it is full with {held} bytes and may hold {LIMIT}"));
                }
                return;
            }
            Outcome::NoEffect(_) => sleep(Duration::from_millis(100)).await,
            _ => {}
        }
    }
    clients.report("it never says that the bucket is full");
}

#[test]
fn quota_is_never_exceeded_and_all_of_it_can_be_used() {
    let plan = |seed| Plan { coordinators: 3, ..without_faults(seed) };
    let found = findings(0..60, plan, quota_of_three_coordinators);
    assert!(found.is_empty(), "{found:#?}");
    assert_found(Mutant::Sole, 0..20, plan, quota_of_three_coordinators);
}
