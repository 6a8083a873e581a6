//! Looking after the drives while the server runs: carries out what `ashlar_cluster::drive_monitor` decides.
//!
//! | file | what it holds |
//! |---|---|
//! | `workers` | looking, opening and formatting, each on a thread of its own |
//! | `order` | the type of what operators ask for |
//! | `orders` | giving and carrying it out |
//! | `replace` | the change of the map that puts a blank drive in the place of another |
//!
//! Invariants: every change of the map is in the control store before it is in force, and one change is made
//! at a time; nothing here waits for a drive, so that one that hangs holds up no other.

pub mod order;
mod orders;
mod replace;
#[cfg(test)]
mod tests;
pub mod workers;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ashlar_cluster::drive_monitor::{Action, Condition, Event, Monitor, Opened, Serving, settle};
use ashlar_cluster::{FoundAt, Map};
use ashlar_drive::{Drive, Role, State};
use ashlar_format::{DriveId, GroupId};
use tokio::sync::mpsc::UnboundedReceiver;

use order::Order;
pub use orders::{hold, last_seen, release, replace_now};
use workers::{Answer, AtOpen, Workers};

use super::drive_discovery::Facts;
use super::node::{self, Node};

/// How often drives are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long a drive may take to write its role.
const ROLE: Duration = Duration::from_secs(30);

/// What the start leaves to be looked after.
pub struct Start {
    /// What is known of the folders.
    pub monitor: Monitor,
    /// What is to be done first.
    pub first: Vec<Action>,
    /// Drives that were opened and are not in service, by folder.
    pub opened: HashMap<usize, Drive>,
    /// Work on folders, and where its answers come.
    pub workers: Workers,
    /// See `workers`.
    pub answers: UnboundedReceiver<Answer>,
    /// Orders of operators.
    pub orders: UnboundedReceiver<Order>,
}

/// The monitor and what it steers.
struct Shell {
    node: Arc<Node>,
    monitor: Monitor,
    began: Instant,
    opened: HashMap<usize, Drive>,
    workers: Workers,
    /// Operators who wait for a replacement.
    waiting: Vec<orders::Waiting>,
    map: Arc<Map>,
    settling: Arc<AtomicBool>,
    noting: Arc<AtomicBool>,
}

/// Looks after the drives for ever.
pub async fn run(node: Arc<Node>, start: Start) {
    let Start { monitor, first, opened, workers, mut answers, mut orders } = start;
    let map = node.map.load_full();
    let mut shell = Shell {
        node,
        monitor,
        began: Instant::now(),
        opened,
        workers,
        waiting: Vec::new(),
        map,
        settling: Arc::default(),
        noting: Arc::default(),
    };
    for action in first {
        shell.perform(action);
    }
    let mut interval = tokio::time::interval(LOOK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(answer) = answers.recv() => shell.answered(answer),
            Some(order) = orders.recv() => shell.order(order),
            _ = interval.tick() => shell.look(),
            else => return,
        }
        shell.tell();
    }
}

impl Shell {
    fn give(&mut self, event: Event) {
        let now = self.node.map.load_full();
        if !Arc::ptr_eq(&now, &self.map) {
            self.map = now.clone();
            let actions = self.monitor.step(Event::Map(now));
            self.perform_all(actions);
        }
        let actions = self.monitor.step(event);
        self.perform_all(actions);
    }

    fn perform_all(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.perform(action);
        }
    }

    fn answered(&mut self, answer: Answer) {
        let event = match answer {
            Answer::Probed(i, place) => {
                let found = workers::found(&place, self.node.map.load().deployment);
                Event::Probed(i, found)
            }
            Answer::Opened(i, Ok(AtOpen { drive, facts, distrust })) => {
                if let Some(slot) = self.node.slots.lock().get_mut(i) {
                    slot.facts = facts;
                }
                let event = opened_event(i, &drive, distrust);
                self.opened.insert(i, drive);
                event
            }
            Answer::Opened(i, Err(why)) => Event::Opened(i, Err(why)),
            Answer::MadeJoining(i, done) => Event::MadeJoining(i, done),
            Answer::Formatted(i, done) => Event::Formatted(i, done),
            Answer::Replaced(i, done) => {
                if done.is_ok() {
                    self.opened.remove(&i);
                }
                Event::Replaced(i, done)
            }
            Answer::Closed(i) => Event::Closed(i),
        };
        self.give(event);
    }

    fn look(&mut self) {
        self.give(Event::Tick(self.began.elapsed()));
        let conditions: Vec<(usize, Condition)> = {
            let slots = self.node.slots.lock();
            let serving = slots.iter().enumerate().filter_map(|(i, s)| Some((i, s.drive.as_ref()?)));
            serving.map(|(i, drive)| (i, condition(drive))).collect()
        };
        for (i, condition) in conditions {
            self.give(Event::Condition(i, condition));
        }
        if !self.settling.swap(true, Ordering::AcqRel) {
            let (node, running) = (self.node.clone(), self.settling.clone());
            tokio::spawn(async move {
                settle_map(&node).await;
                running.store(false, Ordering::Release);
            });
        }
    }

    fn path(&self, i: usize) -> std::path::PathBuf {
        self.node.slots.lock().get(i).map(|s| s.path.clone()).unwrap_or_default()
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Probe(i) => self.workers.probe(i, self.path(i)),
            Action::Open(i) => {
                let peers = self.node.slots.lock().iter().map(|s| s.path.clone()).collect();
                self.workers.open(i, self.path(i), peers);
            }
            Action::Format(i, mount) => {
                let deployment = self.node.map.load().deployment;
                self.workers.format(i, self.path(i), deployment, mount);
            }
            Action::MakeJoining(i) => self.make_joining(i),
            Action::Attach(i) => {
                if let Some(drive) = self.opened.remove(&i) {
                    enlist(&self.node, i, drive);
                }
            }
            Action::Replace(i, old) => {
                let Some(drive) = self.opened.get(&i).cloned() else { return };
                let (node, workers) = (self.node.clone(), self.workers.clone());
                tokio::spawn(async move {
                    let done = replace::replace(&node, i, old, drive).await;
                    workers.answer(Answer::Replaced(i, done));
                });
            }
            Action::Withdraw(i, _) => {
                let drive = self.node.slots.lock().get_mut(i).and_then(|s| s.drive.take());
                if let Some(drive) = &drive {
                    let id = drive.label().drive;
                    self.node.sets.detach(id);
                    self.node.embedded.detach(id);
                }
                self.close(i, drive);
            }
            Action::Discard(i) => {
                let drive = self.opened.remove(&i);
                self.close(i, drive);
            }
            Action::Distrust(id, why) => self.distrust(id, why),
            Action::Note(i, why) => {
                let mut slots = self.node.slots.lock();
                let Some(slot) = slots.get_mut(i) else { return };
                if let Some(why) = &why {
                    tracing::warn!(drive = %slot.path.display(), why, "drive out of service");
                }
                slot.problem = why;
            }
        }
    }

    /// Closes a drive in the background; it may hang.
    fn close(&self, i: usize, drive: Option<Drive>) {
        let workers = self.workers.clone();
        tokio::spawn(async move {
            if let Some(drive) = drive {
                drive.close().await;
            }
            workers.answer(Answer::Closed(i));
        });
    }

    fn make_joining(&self, i: usize) {
        let Some(drive) = self.opened.get(&i).cloned() else { return };
        let workers = self.workers.clone();
        let epoch = self.node.map.load().epoch;
        tokio::spawn(async move {
            let held: Vec<_> = drive.held().into_iter().map(|(group, _)| (group, epoch)).collect();
            let done = match tokio::time::timeout(ROLE, drive.set_joining(&held)).await {
                Ok(done) => done.map_err(|e| e.to_string()),
                Err(_) => Err("it does not answer".to_owned()),
            };
            workers.answer(Answer::MadeJoining(i, done));
        });
    }

    /// Notes in the map that a drive must join; asked for again at every tick until the map says so.
    fn distrust(&self, id: DriveId, why: String) {
        if !self.node.control.health().writable || self.noting.swap(true, Ordering::AcqRel) {
            return;
        }
        let (node, running) = (self.node.clone(), self.noting.clone());
        tokio::spawn(async move {
            let _one = node.changes.lock().await;
            let map = node.map.load_full();
            if map.drive(id).is_some_and(|d| d.distrusted.is_none())
                && let Ok(next) = map.distrust(id, &why)
                && let Err(why) = put_map(&node, &map, next).await
            {
                tracing::warn!(%id, why, "the map does not note yet that the drive must join");
            }
            running.store(false, Ordering::Release);
        });
    }
}

/// What the monitor hears of a drive that was opened.
pub fn opened_event(i: usize, drive: &Drive, distrust: Option<String>) -> Event {
    let voter = drive.votes();
    Event::Opened(i, Ok(Opened { id: drive.label().drive, voter, distrust }))
}

fn condition(drive: &Drive) -> Condition {
    match drive.state() {
        State::Online => Condition::Works,
        State::ReadOnly => Condition::ReadOnly,
        State::Closed => Condition::Closed,
        State::Fenced(why) if why == "emptied" => Condition::Gone,
        State::Fenced(why) => Condition::Failed(why),
    }
}

/// Puts an opened drive in service at a folder.
fn enlist(node: &Arc<Node>, i: usize, drive: Drive) {
    let id = drive.label().drive;
    let path = drive.path().to_owned();
    if let Some(slot) = node.slots.lock().get_mut(i) {
        (slot.drive, slot.problem) = (Some(drive.clone()), None);
    }
    if !drive.votes() {
        node.joins.lock().insert(id);
    }
    node.sets.attach(drive);
    tracing::info!(drive = %path.display(), %id, "drive in service");
    let node = node.clone();
    tokio::spawn(async move {
        if let Err(error) = node.embedded.attach(id, node::medium(&path, id)).await {
            tracing::warn!(drive = %path.display(), %error, "control store: the drive is not used");
        }
    });
}

/// Notes in the map which drives have joined, which must join again, and where drives were found.
async fn settle_map(node: &Arc<Node>) {
    let _one = node.changes.lock().await;
    let before = node.map.load_full();
    let serving: Vec<Serving> = {
        let slots = node.slots.lock();
        let works = |d: &&Drive| matches!(d.state(), State::Online | State::ReadOnly);
        let serves = slots.iter().filter_map(|s| Some((s, s.drive.as_ref().filter(works)?)));
        let at = |facts: &Option<Facts>| facts.as_ref().map(|f| f.mount.clone());
        serves
            .map(|(s, d)| Serving {
                at: FoundAt { id: d.label().drive, path: s.path.display().to_string(), mount: at(&s.facts) },
                votes: votes(d),
            })
            .collect()
    };
    let next = settle(&before, &serving);
    if next == *before || !node.control.health().writable {
        return;
    }
    for drive in &next.drives {
        let joins = next.is_joining(drive.id);
        if before.is_joining(drive.id) != joins {
            tracing::info!(drive = drive.path, id = %drive.id, epoch = next.epoch, joins, "drive's place in the map");
        }
    }
    if let Err(why) = put_map(node, &before, next).await {
        tracing::debug!(why, "the map could not be brought up to date; tried again soon");
    }
}

/// The groups in which a drive votes.
fn votes(drive: &Drive) -> Vec<GroupId> {
    let held = drive.held().into_iter().filter(|(_, role)| *role == Role::Voter);
    held.map(|(group, _)| group).collect()
}

/// Writes a map that follows `before` and lets the sets follow it. The caller holds `changes`.
async fn put_map(node: &Node, before: &Map, next: Map) -> Result<(), String> {
    let layout = (next.epoch != before.epoch).then(|| node::layout(&next));
    node.write_map(before, next).await?;
    match layout {
        Some(layout) => node.sets.set_layout(layout).map_err(|e| e.to_string()),
        None => Ok(()),
    }
}
