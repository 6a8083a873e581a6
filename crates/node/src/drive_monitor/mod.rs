//! Manages the drives while the server runs: carries out what `ashlar_cluster::drive_monitor` decides.
//!
//! | file | contents |
//! |---|---|
//! | `workers` | inspecting, opening and formatting, each on its own thread |
//! | `order` | the type of operators' orders |
//! | `orders` | sending and carrying out orders |
//! | `replace` | the change of the map that replaces a drive by a blank one |
//!
//! Invariants: a change of the map is in the control store before it takes effect, and changes are made one
//! at a time; nothing here waits for a drive, so a drive that hangs delays no other.

pub(crate) mod order;
mod orders;
mod replace;
#[cfg(test)]
mod tests;
pub(crate) mod workers;

use ashlar_environment::time::{self, Instant};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_cluster::drive_monitor::{Action, Condition, Event, Monitor, Opened, Serving, updated_map};
use ashlar_cluster::{FoundAt, Map};
use ashlar_drive::{Drive, Role, State};
use ashlar_format::{DriveId, GroupId};
use futures::future::BoxFuture;
use tokio::sync::mpsc::UnboundedReceiver;

use order::Order;
pub use orders::{hold, last_seen, release, replace_now};
use workers::{Answer, AtOpen, Workers};

use super::drive_discovery::Facts;
use super::node::{self, Node};

/// Time between inspections of the drives.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for a drive to write its role.
const ROLE: Duration = Duration::from_secs(30);

/// What the start hands over to the drive monitor.
pub struct Start {
    /// The state of the folders.
    pub(crate) monitor: Monitor,
    /// The first actions.
    pub(crate) first: Vec<Action>,
    /// Drives that are open and not in service, by folder.
    pub(crate) opened: HashMap<usize, Drive>,
    /// Threads that work on folders.
    pub(crate) workers: Workers,
    /// Results of the workers.
    pub(crate) answers: UnboundedReceiver<Answer>,
    /// Orders of operators.
    pub(crate) orders: UnboundedReceiver<Order>,
}

/// The drive monitor with the state that its actions need.
struct DriveMonitor {
    node: Arc<Node>,
    monitor: Monitor,
    began: Instant,
    opened: HashMap<usize, Drive>,
    workers: Workers,
    /// Operators who wait for the result of a replacement.
    waiting: Vec<orders::Waiting>,
    map: Arc<Map>,
    updating_map: Arc<AtomicBool>,
    noting_distrust: Arc<AtomicBool>,
}

/// Runs the drive monitor; never returns.
pub fn run(node: Arc<Node>, start: Start) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Start { monitor, first, opened, workers, mut answers, mut orders } = start;
        let map = node.map.load_full();
        let mut drive_monitor = DriveMonitor {
            node,
            monitor,
            began: Instant::now(),
            opened,
            workers,
            waiting: Vec::new(),
            map,
            updating_map: Arc::default(),
            noting_distrust: Arc::default(),
        };
        for action in first {
            drive_monitor.perform(action);
        }
        let mut interval = time::interval(CHECK_INTERVAL);
        loop {
            tokio::select! {
                Some(answer) = answers.recv() => drive_monitor.answered(answer),
                Some(order) = orders.recv() => drive_monitor.order(order),
                _ = interval.tick() => drive_monitor.inspect_all(),
                else => return,
            }
            drive_monitor.reply_to_waiting();
        }
    })
}

impl DriveMonitor {
    fn handle(&mut self, event: Event) {
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
            Answer::Probed(i, inspected) => {
                let found = workers::found(&inspected, self.node.map.load().deployment);
                Event::Probed(i, found)
            }
            Answer::Opened(i, Ok(AtOpen { drive, facts, distrust })) => {
                if let Some(folder) = self.node.folders.lock().get_mut(i) {
                    folder.facts = facts;
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
        self.handle(event);
    }

    fn inspect_all(&mut self) {
        self.handle(Event::Tick(self.began.elapsed()));
        let conditions: Vec<(usize, Condition)> = {
            let folders = self.node.folders.lock();
            let serving = folders.iter().enumerate().filter_map(|(i, s)| Some((i, s.drive.as_ref()?)));
            serving.map(|(i, drive)| (i, condition(drive))).collect()
        };
        for (i, condition) in conditions {
            self.handle(Event::Condition(i, condition));
        }
        if !self.updating_map.swap(true, Ordering::AcqRel) {
            let (node, running) = (self.node.clone(), self.updating_map.clone());
            ashlar_environment::spawn("drive-monitor", async move {
                update_map(&node).await;
                running.store(false, Ordering::Release);
            });
        }
    }

    fn path(&self, i: usize) -> std::path::PathBuf {
        self.node.folders.lock().get(i).map(|s| s.path.clone()).unwrap_or_default()
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Probe(i) => self.workers.probe(i, self.path(i)),
            Action::Open(i) => {
                let peers = self.node.folders.lock().iter().map(|s| s.path.clone()).collect();
                self.workers.open(i, self.path(i), peers);
            }
            Action::Format(i, mount) => {
                let (map, accepted) = (self.node.map.load_full(), self.node.accepts_shared_drive());
                let (deployment, old) = (map.deployment, self.monitor.replaced_by(i));
                let check = move |domain: Option<&str>| {
                    old.map_or(Ok(()), |old| replace::check_disk(&map, accepted, old, domain))
                };
                self.workers.format(i, self.path(i), deployment, mount, check);
            }
            Action::MakeJoining(i) => self.make_joining(i),
            Action::Attach(i) => {
                if let Some(drive) = self.opened.remove(&i) {
                    put_in_service(&self.node, i, drive);
                }
            }
            Action::Replace(i, old) => {
                let Some(drive) = self.opened.get(&i).cloned() else { return };
                let (node, workers) = (self.node.clone(), self.workers.clone());
                ashlar_environment::spawn("drive-monitor", async move {
                    let done = replace::replace(&node, i, old, drive).await;
                    workers.answer(Answer::Replaced(i, done));
                });
            }
            Action::Withdraw(i, _) => {
                let drive = self.node.folders.lock().get_mut(i).and_then(|s| s.drive.take());
                if let Some(drive) = &drive {
                    let id = drive.label().drive;
                    self.node.serve_to_others();
                    self.node.sets.detach(id);
                    self.node.control_store.detach(id);
                }
                self.close(i, drive);
            }
            Action::Discard(i) => {
                let drive = self.opened.remove(&i);
                self.close(i, drive);
            }
            Action::Distrust(id, why) => self.distrust(id, why),
            Action::Note(i, why) => {
                let mut folders = self.node.folders.lock();
                let Some(folder) = folders.get_mut(i) else { return };
                if let Some(why) = &why {
                    tracing::warn!(drive = %folder.path.display(), why, "drive out of service");
                }
                folder.problem = why;
            }
        }
    }

    /// Closes a drive in the background, because the call may hang.
    fn close(&self, i: usize, drive: Option<Drive>) {
        let workers = self.workers.clone();
        ashlar_environment::spawn("drive-monitor", async move {
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
        ashlar_environment::spawn("drive-monitor", async move {
            let held: Vec<_> = drive.held().into_iter().map(|(group, _)| (group, epoch)).collect();
            let done = match time::timeout(ROLE, drive.set_joining(&held)).await {
                Ok(done) => done.map_err(|e| e.to_string()),
                Err(_) => Err("it does not answer".to_owned()),
            };
            workers.answer(Answer::MadeJoining(i, done));
        });
    }

    /// Notes in the map that a drive must join; repeated at every tick until the map says so.
    fn distrust(&self, id: DriveId, why: String) {
        if !self.node.control.health().writable || self.noting_distrust.swap(true, Ordering::AcqRel) {
            return;
        }
        let (node, running) = (self.node.clone(), self.noting_distrust.clone());
        ashlar_environment::spawn("drive-monitor", async move {
            let _one = node.changes.lock().await;
            let map = node.map.load_full();
            if map.drive(id).is_some_and(|d| d.distrusted.is_none())
                && let Ok(next) = map.distrust(id, &why)
                && let Err(why) = put_map(&node, &map, next).await
            {
                tracing::warn!(%id, why, "the map does not say yet that the drive must join; retrying");
            }
            running.store(false, Ordering::Release);
        });
    }
}

/// The event of a drive that was opened.
pub(crate) fn opened_event(i: usize, drive: &Drive, distrust: Option<String>) -> Event {
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

/// Puts an opened drive into service at a folder.
fn put_in_service(node: &Arc<Node>, i: usize, drive: Drive) {
    let id = drive.label().drive;
    let path = drive.path().to_owned();
    if let Some(folder) = node.folders.lock().get_mut(i) {
        (folder.drive, folder.problem) = (Some(drive.clone()), None);
    }
    if !drive.votes() {
        node.joins.lock().insert(id);
    }
    node.sets.attach(drive);
    node.serve_to_others();
    tracing::info!(drive = %path.display(), %id, "drive in service");
    let node = node.clone();
    ashlar_environment::spawn("drive-monitor", async move {
        if let Err(error) = node.control_store.attach(id, &path).await {
            tracing::warn!(drive = %path.display(), %error, "control store: the drive is not used");
        }
    });
}

/// Notes in the map which drives have joined, which must join again, and where drives were found.
async fn update_map(node: &Arc<Node>) {
    let _one = node.changes.lock().await;
    let before = node.map.load_full();
    let serving: Vec<Serving> = {
        let folders = node.folders.lock();
        let works = |d: &&Drive| matches!(d.state(), State::Online | State::ReadOnly);
        let serves = folders.iter().filter_map(|s| Some((s, s.drive.as_ref().filter(works)?)));
        let at = |facts: &Option<Facts>| facts.as_ref().map(|f| f.mount.clone());
        serves
            .map(|(s, d)| Serving {
                at: FoundAt { id: d.label().drive, path: s.path.display().to_string(), mount: at(&s.facts) },
                votes: votes(d),
            })
            .collect()
    };
    let next = updated_map(&before, &serving);
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
        tracing::debug!(why, "the map could not be updated; retrying");
    }
}

/// The groups in which a drive votes.
fn votes(drive: &Drive) -> Vec<GroupId> {
    let held = drive.held().into_iter().filter(|(_, role)| *role == Role::Voter);
    held.map(|(group, _)| group).collect()
}

/// Writes a map that follows `before` and applies it to the placement groups. The caller holds `changes`.
pub(crate) async fn put_map(node: &Node, before: &Map, next: Map) -> Result<(), String> {
    let layout = (next.epoch != before.epoch).then(|| node::layout(&next));
    node.write_map(before, next).await?;
    match layout {
        Some(layout) => node.sets.set_layout(layout).map_err(|e| e.to_string()),
        None => Ok(()),
    }
}
