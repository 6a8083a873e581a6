//! The control store that all coordinators share, and each coordinator's connection to it.
//!
//! A coordinator has its own copy in memory, which follows the store. While it cannot reach the store, it
//! reads the copy, and its updates are lost or have an unknown outcome.
//!
//! Invariants: the store makes one update after another, each on the state that the update names. A copy
//! never goes back, and contains a coordinator's own update before that update is answered.
//!
//! The embedded driver of the product needs threads for its media, which a simulation does not have; it has
//! its own tests.
//!
//! Must not depend on: what the values mean.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::{
    Action, Announced, Announcement, Change, Control, ControlDriver, Error, Follower, Health, Nodes,
    Progress, Result, Update, Value, Watch, Watched, Watchers,
};
use ashlar_environment::random::Seeded;
use ashlar_environment::time::sleep;
use ashlar_format::DeploymentId;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::host::DEPLOYMENT;

/// How long a coordinator tries to reach the store.
const PATIENCE: Duration = Duration::from_secs(2);

/// The store.
pub struct ControlStore {
    state: Mutex<State>,
    announced: Announced,
}

struct State {
    revision: u64,
    entries: BTreeMap<String, Value>,
    /// The connections, by coordinator.
    connections: Vec<Connection>,
    rng: Seeded,
    /// False: an update is made on whatever state (a mutant).
    compares: bool,
}

struct Connection {
    reachable: bool,
    copy: Arc<Mutex<Copy>>,
}

#[derive(Default)]
struct Copy {
    revision: u64,
    entries: BTreeMap<String, Value>,
    history: VecDeque<Change>,
    moved: Option<watch::Sender<u64>>,
    watchers: Watchers,
}

impl ControlStore {
    /// A store with these entries, for this number of coordinators, and for one connection more, which is always
    /// reachable, for those who change the map.
    #[must_use]
    pub fn new(
        seed: u64,
        coordinators: usize,
        entries: Vec<(String, Bytes)>,
        compares: bool,
    ) -> Arc<ControlStore> {
        let entries = entries.into_iter().map(|(k, bytes)| (k, Value { revision: 1, bytes })).collect();
        let connection = |_| Connection { reachable: true, copy: Arc::default() };
        let state = State {
            revision: 1,
            entries,
            connections: (0..=coordinators).map(connection).collect(),
            rng: Seeded::new(seed),
            compares,
        };
        Arc::new(ControlStore { state: Mutex::new(state), announced: Announced::default() })
    }

    /// Sets whether a coordinator can reach the store.
    pub fn set_reachable(&self, coordinator: usize, reachable: bool) {
        self.state.lock().connections[coordinator].reachable = reachable;
    }

    /// Lets all coordinators reach the store.
    pub fn restore_all(&self) {
        self.state.lock().connections.iter_mut().for_each(|w| w.reachable = true);
    }

    /// Connects a coordinator that starts: it reads the store and follows it from then on.
    pub fn open(self: &Arc<Self>, coordinator: usize) -> Control {
        let copy = Arc::new(Mutex::new(Copy { moved: Some(watch::Sender::new(0)), ..Copy::default() }));
        {
            let s = &mut *self.state.lock();
            s.connections[coordinator].copy = copy.clone();
            s.follow(&copy);
        }
        let driver = Arc::new(Driver { store: self.clone(), coordinator, copy });
        let (store, copy) = (Arc::downgrade(self), Arc::downgrade(&driver.copy));
        drop(ashlar_environment::spawn("control", async move {
            loop {
                sleep(Duration::from_millis(50)).await;
                let (Some(store), Some(copy)) = (store.upgrade(), copy.upgrade()) else { return };
                let s = store.state.lock();
                if s.connections[coordinator].reachable {
                    s.follow(&copy);
                }
            }
        }));
        Control::new(driver)
    }

    /// The keys that begin with `prefix`, with their values, from the store itself, for checks.
    #[must_use]
    pub fn read_all(&self, prefix: &str) -> Vec<(String, Bytes)> {
        let state = self.state.lock();
        let found = state.entries.iter().filter(|(key, _)| key.starts_with(prefix));
        found.map(|(key, value)| (key.clone(), value.bytes.clone())).collect()
    }
}

impl State {
    /// Updates a copy to the state of the store.
    fn follow(&self, copy: &Arc<Mutex<Copy>>) {
        let c = &mut *copy.lock();
        if c.revision == self.revision {
            return;
        }
        let mut changes: Vec<Change> = Vec::new();
        for (key, value) in self.entries.iter().filter(|(k, v)| c.entries.get(*k) != Some(v)) {
            let (key, revision) = (key.clone(), value.revision);
            changes.push(Change { revision, key, value: Some(value.bytes.clone()) });
        }
        for key in c.entries.keys().filter(|k| !self.entries.contains_key(*k)) {
            changes.push(Change { revision: self.revision, key: key.clone(), value: None });
        }
        changes.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
        c.history.extend(changes);
        (c.revision, c.entries) = (self.revision, self.entries.clone());
        if let Some(moved) = &c.moved {
            moved.send_replace(c.revision);
        }
    }

    fn make(&mut self, update: &Update) -> Result<u64> {
        for step in update.steps() {
            if self.compares && self.entries.get(step.key).map(|v| v.revision) != step.seen.revision() {
                return Err(Error::Conflict(step.key.to_owned()));
            }
        }
        if !update.changes_something() {
            return Ok(self.revision);
        }
        self.revision += 1;
        for step in update.steps() {
            match step.action {
                Action::Expect => {}
                Action::Set(bytes) => {
                    let value = Value { revision: self.revision, bytes: bytes.clone() };
                    self.entries.insert(step.key.to_owned(), value);
                }
                Action::Remove => drop(self.entries.remove(step.key)),
            }
        }
        Ok(self.revision)
    }
}

struct Driver {
    store: Arc<ControlStore>,
    coordinator: usize,
    copy: Arc<Mutex<Copy>>,
}

impl Driver {
    fn unavailable() -> Error {
        Error::Unavailable("the control store does not answer".to_owned())
    }

    /// Delays one message; returns false if it does not arrive.
    async fn transmit(&self) -> bool {
        let micros = 200 + self.store.state.lock().rng.below(2_000);
        sleep(Duration::from_micros(micros)).await;
        self.store.state.lock().connections[self.coordinator].reachable
    }
}

impl ControlDriver for Driver {
    fn deployment(&self) -> DeploymentId {
        DEPLOYMENT
    }
    fn get(&self, key: &str) -> Option<Value> {
        self.copy.lock().entries.get(key).cloned()
    }
    fn list(&self, prefix: &str) -> Vec<(String, Value)> {
        let c = self.copy.lock();
        c.entries.iter().filter(|(k, _)| k.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }
    fn revision(&self) -> u64 {
        self.copy.lock().revision
    }
    fn health(&self) -> Health {
        let (revision, current) = (self.revision(), 1);
        Health { members: 1, current, writable: true, term: 1, revision, age: Duration::ZERO }
    }

    fn barrier(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if !self.transmit().await || !self.transmit().await {
                sleep(PATIENCE).await;
                return Err(Driver::unavailable());
            }
            self.store.state.lock().follow(&self.copy);
            Ok(())
        })
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            if !self.transmit().await {
                sleep(PATIENCE).await;
                return Err(Driver::unavailable());
            }
            let made = self.store.state.lock().make(&update);
            // If the answer is lost, the caller does not learn the outcome.
            if !self.transmit().await {
                sleep(PATIENCE).await;
                return Err(Driver::unavailable());
            }
            self.store.state.lock().follow(&self.copy);
            made
        })
    }

    fn watch(&self, from: u64) -> Watch {
        let c = self.copy.lock();
        let (moved, progress) = (c.moved.as_ref().map(watch::Sender::subscribe), c.watchers.add());
        Watch::new(Box::new(Following { copy: self.copy.clone(), from, moved, progress }))
    }

    fn settled(&self, revision: u64) -> BoxFuture<'_, ()> {
        let (moved, watchers) = {
            let c = self.copy.lock();
            (c.moved.as_ref().map(watch::Sender::subscribe), c.watchers.settled(revision))
        };
        Box::pin(async move {
            if let Some(mut moved) = moved
                && self.revision() < revision
            {
                let _ = moved.wait_for(|now| *now >= revision).await.is_ok();
            }
            watchers.await;
        })
    }

    fn announce(&self, node: u16) -> BoxFuture<'_, Result<Announcement>> {
        Box::pin(std::future::ready(self.store.announced.announce(node)))
    }

    fn announced(&self) -> watch::Receiver<Nodes> {
        self.store.announced.watch()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

struct Following {
    copy: Arc<Mutex<Copy>>,
    from: u64,
    moved: Option<watch::Receiver<u64>>,
    progress: Progress,
}

impl Follower for Following {
    fn next(&mut self) -> BoxFuture<'_, Watched> {
        Box::pin(async move {
            loop {
                self.progress.asks_after(self.from);
                {
                    let c = self.copy.lock();
                    let new: Vec<Change> =
                        c.history.iter().filter(|h| h.revision > self.from).cloned().collect();
                    if let Some(last) = new.last() {
                        self.from = last.revision;
                        return Watched::Changes(new);
                    }
                }
                let moves = match &mut self.moved {
                    Some(moved) => moved.changed().await.is_ok(),
                    None => false,
                };
                if !moves {
                    std::future::pending::<()>().await;
                }
            }
        })
    }
}
