//! Change feeds: a node is taken for gone, and another one takes over its feed; it lives on, or it crashes and returns. No
//! acknowledged change is missing in what the readers of both get.
//!
//! Must not depend on: how a feed is stored.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::Announcement;
use ashlar_environment::random::Seeded;
use ashlar_environment::simulation::spawn_in;
use ashlar_environment::time::sleep;
use ashlar_object::feed::{Cause, Kind, NOTIFICATION};
use ashlar_object::{Conditions, ETag, Error, PutSpec, Result, Store, VersionSpec};
use ashlar_sim::client::{Clients, Outcome, PLAIN, body};
use ashlar_sim::faults::stop_faults;
use ashlar_sim::plan::{Mutant, NetworkFaults, Plan};
use parking_lot::Mutex;

use crate::{assert_found, findings, without_faults};

/// The nodes with feeds; the first one is taken for gone. Node 0 is a machine that is alone, and has another kind of feed.
const NODES: [usize; 2] = [1, 2];

/// How many keys there are: few, which both nodes change again and again, or more, so that most changes are the last ones of
/// their keys.
fn keys(clients: &Clients) -> u64 {
    if clients.cluster.plan.seed.is_multiple_of(2) { 3 } else { 16 }
}

/// What happens to the first node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its announcement is lost, while it goes on.
    Lives,
    /// It crashes, and returns.
    Crashes,
    /// First the one, then the other.
    Both,
    /// It crashes for good.
    Ends,
}

/// A change as a reader gets it: the key, and the state after it.
type Event = (String, Option<ETag>);

#[derive(Default)]
struct Seen {
    events: Mutex<BTreeSet<(String, String)>>,
}

impl Seen {
    fn add(&self, (key, tag): Event) {
        self.events.lock().insert((key, text(tag)));
    }

    fn has(&self, (key, tag): &Event) -> bool {
        self.events.lock().contains(&(key.clone(), text(*tag)))
    }
}

fn text(tag: Option<ETag>) -> String {
    tag.map_or_else(|| "deleted".to_owned(), |tag| tag.to_string())
}

/// Repeats a call until it is answered, for at most two minutes of virtual time.
async fn until_done<T, F>(clients: &Clients, at: usize, what: &str, call: impl Fn(Store) -> F) -> Option<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    for _ in 0..240 {
        if let Outcome::Answer(answer) = clients.at(at, what, &call).await {
            return Some(answer);
        }
        sleep(Duration::from_millis(500)).await;
    }
    clients.report(format!("{what} at node {at} is never done"));
    None
}

/// Opens the feed of a node and delivers what its reader gets to `seen`, until the node ends.
async fn deliver(clients: &Arc<Clients>, at: usize, seen: &Arc<Seen>) -> bool {
    let open = |s: Store| async move { s.open_feed().await };
    if until_done(clients, at, "open the feed", open).await.is_none() {
        return false;
    }
    let reader = |s: Store| async move { s.feed().reader("r").await };
    let Some(mut reader) = until_done(clients, at, "reader", reader).await else { return false };
    let Some(c) = clients.cluster.coordinator(at) else { return false };
    let (clients, seen) = (clients.clone(), seen.clone());
    let mut rng = Seeded::new(clients.cluster.plan.seed ^ (at as u64 + 1) << 40);
    let work = async move {
        loop {
            // What is not delivered yet when a node ends is what a takeover is for.
            sleep(Duration::from_micros(rng.below(150_000))).await;
            let Ok(batch) = reader.next(3).await else {
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            if batch.lost > 0 {
                clients.report(format!("the feed of node {at} dropped {} changes", batch.lost));
            }
            for change in &batch.changes {
                let there = !matches!(change.kind, Kind::Delete | Kind::Mark);
                let event = (change.key.clone(), change.etag.filter(|_| there));
                clients.cluster.note(|| format!("  node {at}: {} is {}", event.0, text(event.1)));
                seen.add(event);
            }
            if let Some(last) = batch.changes.last() {
                reader.done(last.position);
            }
        }
    };
    drop(spawn_in(c.process, "deliver", work));
    true
}

/// Puts and deletes at one node. Returns those that were acknowledged.
async fn change(clients: &Clients, at: usize) -> Vec<Event> {
    let mut rng = Seeded::new(clients.cluster.plan.seed ^ (at as u64) << 24);
    let mut acknowledged = Vec::new();
    for n in 0..14 {
        let key = format!("f{}", rng.below(keys(clients)));
        let (name, value) = (key.clone(), at as u64 * 1000 + n);
        let delete = rng.below(5) == 0;
        let work = move |s: Store| async move {
            let kind = if delete { Kind::Delete } else { Kind::Put };
            let s = s.by(Arc::new(Cause { kind, ..Cause::default() }));
            let bucket = s.bucket(PLAIN)?;
            if delete {
                s.delete(&bucket, &name, None, &Conditions::NONE).await?;
                return Ok(None);
            }
            let bytes = body(value);
            let mut put = s.put(&bucket, &name, PutSpec::new(bytes.len() as u64)).await?;
            put.write(bytes).await?;
            Ok(Some(put.commit(VersionSpec::default(), &Conditions::NONE).await?.etag))
        };
        let what = format!("change {key} to {value}");
        // A deletion may have met no object, and then it is no change.
        if let Outcome::Answer(Some(tag)) = clients.at(at, &what, work).await {
            acknowledged.push((key, Some(tag)));
        }
        sleep(Duration::from_micros(rng.below(120_000))).await;
    }
    acknowledged
}

async fn announce(clients: &Clients, at: usize) -> Option<Announcement> {
    let c = clients.cluster.coordinator(at)?;
    c.control.announce(at as u16).await.ok()
}

/// The second node takes over the feed of the first one, if that counts as gone.
async fn take_over(clients: &Clients) {
    for _ in 0..20 {
        let take = |s: Store| async move { s.take_over_feed(NODES[0] as u16).await };
        let taken = clients.at(NODES[1], "take over", take).await;
        clients.cluster.note(|| format!("  taken over: {taken:?}"));
        if let Outcome::Answer(_) = taken {
            return;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// What happens to the first node while both make changes.
async fn disturb(clients: &Arc<Clients>, fate: Fate, mine: Option<Announcement>, seen: &Arc<Seen>) {
    let mut rng = Seeded::new(clients.cluster.plan.seed ^ 0xfeed);
    let first = NODES[0];
    sleep(Duration::from_micros(rng.below(800_000))).await;
    if matches!(fate, Fate::Crashes | Fate::Ends) {
        clients.cluster.crash(first);
    }
    drop(mine);
    clients.cluster.note(|| format!("node {first} counts as gone"));
    sleep(Duration::from_micros(rng.below(200_000))).await;
    let after = Duration::from_micros(rng.below(60_000));
    let crash = async {
        if fate == Fate::Both {
            sleep(after).await;
            clients.cluster.crash(first);
        }
    };
    futures::join!(take_over(clients), crash);
    sleep(Duration::from_micros(rng.below(400_000))).await;
    if matches!(fate, Fate::Crashes | Fate::Both) {
        clients.cluster.start(first).await;
        let back = announce(clients, first).await;
        deliver(clients, first, seen).await;
        // The announcement of a process ends with it.
        sleep(Duration::from_secs(30)).await;
        drop(back);
    }
}

async fn feeds(clients: Arc<Clients>, fate: Fate) {
    let seen = Arc::new(Seen::default());
    let follow =
        |s: Store| async move { s.set_bucket_document(&s.bucket(PLAIN)?, NOTIFICATION, Some("x")).await };
    let (first, second) = (announce(&clients, NODES[0]).await, announce(&clients, NODES[1]).await);
    for at in NODES {
        if !deliver(&clients, at, &seen).await {
            return;
        }
    }
    if until_done(&clients, NODES[1], "follow the bucket", follow).await.is_none() {
        return;
    }
    // Longer than a copy of the control store lags.
    sleep(Duration::from_secs(2)).await;
    let (a, b, ()) = futures::join!(
        change(&clients, NODES[0]),
        change(&clients, NODES[1]),
        disturb(&clients, fate, first, &seen)
    );
    stop_faults(&clients).await;
    // Longer than a write, a settlement and a delivery take.
    sleep(Duration::from_secs(60)).await;
    drop(second);
    for key in (0..keys(&clients)).map(|n| format!("f{n}")) {
        let name = key.clone();
        let get = move |s: Store| {
            let name = name.clone();
            async move {
                match s.get(&s.bucket(PLAIN)?, &name, None).await {
                    Ok(object) => Ok(Some(object.etag())),
                    Err(Error::NoSuchKey { .. }) => Ok(None),
                    Err(e) => Err(e),
                }
            }
        };
        let Some(now) = until_done(&clients, 0, "get", get).await else { return };
        let changed = a.iter().chain(&b).any(|(changed, _)| *changed == key);
        let event = (key, now);
        if changed && !seen.has(&event) {
            clients.report(format!("no reader got that {} is {}", event.0, text(event.1)));
        }
    }
    // What a node that did not crash has acknowledged, it delivers, also if it was changed again since.
    let whole = b.iter().chain(a.iter().filter(|_| fate == Fate::Lives));
    for event in whole.filter(|event| !seen.has(event)) {
        clients.report(format!("no reader got that {} became {}", event.0, text(event.1)));
    }
}

fn plan(seed: u64) -> Plan {
    let network_faults = match seed % 3 {
        0 => NetworkFaults::NONE,
        1 => NetworkFaults { lost: 10, twice: 10, slow: 50, late: 5 },
        _ => NetworkFaults { lost: 5, twice: 200, slow: 300, late: 10 },
    };
    Plan { coordinators: 3, network_faults, ..without_faults(seed) }
}

#[test]
fn feed_of_a_node_that_lives_is_taken_over() {
    let found = findings(0..30, plan, |clients| feeds(clients, Fate::Lives));
    assert!(found.is_empty(), "{found:#?}");
}

/// The scenario can fail: what a node acknowledged before it ended is in nobody's feed.
#[test]
fn feed_that_is_not_stored_loses_changes() {
    for fate in [Fate::Crashes, Fate::Both, Fate::Ends] {
        assert_found(Mutant::FeedNotStored, 0..90, plan, move |clients| feeds(clients, fate));
    }
}

#[test]
fn feed_of_a_node_that_crashes_and_returns_is_taken_over() {
    let found = findings(0..30, plan, |clients| feeds(clients, Fate::Crashes));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn feed_of_a_node_that_crashes_while_it_is_taken_over() {
    let found = findings(0..30, plan, |clients| feeds(clients, Fate::Both));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn feed_of_a_node_that_ends_is_taken_over() {
    let found = findings(0..30, plan, |clients| feeds(clients, Fate::Ends));
    assert!(found.is_empty(), "{found:#?}");
}
