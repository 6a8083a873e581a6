//! Operators' orders: take a drive out of service, put it back, or replace it.

use ashlar_environment::time;
use std::path::Path;
use std::time::Duration;

use ashlar_cluster::{DriveState, Map};
use ashlar_format::DriveId;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::order::{Order, Reply};
use super::{DriveMonitor, replace, workers};
use crate::drive_discovery;
use crate::node::{DriveFolder, Node};

/// How long an operator waits for the inspection of a folder, and for a replacement.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An operator who waits for the result of a replacement.
pub(crate) struct Waiting {
    folder: usize,
    reply: Reply,
}

impl DriveMonitor {
    pub(super) fn order(&mut self, order: Order) {
        match order {
            Order::Hold(i, reply) => {
                if let Some(folder) = self.node.folders.lock().get_mut(i) {
                    folder.held = true;
                }
                let actions = self.monitor.hold(i);
                self.perform_all(actions);
                let _ = reply.send(Ok(()));
            }
            Order::Release(i, reply) => {
                if let Some(folder) = self.node.folders.lock().get_mut(i) {
                    folder.held = false;
                }
                self.monitor.release(i);
                let _ = reply.send(Ok(()));
            }
            Order::Replace(i, inspected, reply) => {
                if let Err(why) = self.check_disk(i, &inspected) {
                    return drop(reply.send(Err(why)));
                }
                let found = workers::found(&inspected, self.node.map.load().deployment);
                match self.monitor.replace(i, found) {
                    Ok(actions) => {
                        if let Some(folder) = self.node.folders.lock().get_mut(i) {
                            folder.held = false;
                        }
                        self.waiting.push(Waiting { folder: i, reply });
                        self.perform_all(actions);
                    }
                    Err(why) => drop(reply.send(Err(why))),
                }
            }
        }
    }

    /// Refuses a blank drive that would be on the wrong disk, before the one in its place is taken out of service.
    fn check_disk(&self, i: usize, inspected: &drive_discovery::InspectedFolder) -> Result<(), String> {
        let Some(old) = self.monitor.replaced_by(i) else { return Ok(()) };
        let domain = inspected.facts.as_ref().and_then(|f| f.domain.as_deref());
        let done = replace::check_disk(&self.node.map.load(), self.node.accepts_shared_drive(), old, domain);
        done.map_err(|why| format!("{}: {why}", inspected.path.display()))
    }

    /// Replies to operators whose order was carried out or has failed.
    pub(super) fn reply_to_waiting(&mut self) {
        let monitor = &self.monitor;
        let (done, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|w| w.reply.is_closed() || !monitor.is_ordered(w.folder));
        self.waiting = waiting;
        for Waiting { folder, reply } in done {
            let why = || monitor.problem(folder).unwrap_or("it was not replaced").to_owned();
            let _ = reply.send(if monitor.serving(folder).is_some() { Ok(()) } else { Err(why()) });
        }
    }
}

async fn send_order(node: &Node, order: impl FnOnce(Reply) -> Order) -> Result<(), String> {
    let (reply, answer) = oneshot::channel();
    node.orders.send(order(reply)).map_err(|_| "the server is ending")?;
    match time::timeout(TIMEOUT, answer).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err("the server is ending".into()),
        Err(_) => Err("it is not done yet; it goes on: see `ashlar drive list`".into()),
    }
}

/// Takes a drive out of service until [`release`].
///
/// # Errors
/// A message for the operator.
pub fn hold<'a>(node: &'a Node, which: &'a str) -> BoxFuture<'a, Result<(), String>> {
    Box::pin(async move {
        let i = find(node, which)?;
        let spare = node.sets.health().iter().map(|g| g.spare).min().unwrap_or(0);
        let serving = node.folders.lock().get(i).is_some_and(|s| s.drive.is_some());
        if serving && spare == 0 {
            return Err(
                "no drive can be taken offline now: writes would stop. Wait until the others are rebuilt"
                    .into(),
            );
        }
        send_order(node, |reply| Order::Hold(i, reply)).await
    })
}

/// Undoes [`hold`].
///
/// # Errors
/// A message for the operator.
pub fn release<'a>(node: &'a Node, which: &'a str) -> BoxFuture<'a, Result<(), String>> {
    Box::pin(async move {
        let i = find(node, which)?;
        send_order(node, |reply| Order::Release(i, reply)).await
    })
}

/// Replaces the drive of a folder that is blank now, whatever file system the folder is on.
///
/// # Errors
/// A message for the operator.
pub fn replace_now<'a>(node: &'a Node, which: &'a str) -> BoxFuture<'a, Result<(), String>> {
    Box::pin(async move {
        let i = find(node, which)?;
        let path = node.folders.lock().get(i).map(|s| s.path.clone()).ok_or("no such folder")?;
        let (send, inspected) = oneshot::channel();
        ashlar_environment::thread::run_apart("drive-look", move || {
            drop(send.send(drive_discovery::inspect(&path)))
        })
        .map_err(|e| e.to_string())?;
        let inspected = match time::timeout(TIMEOUT, inspected).await {
            Ok(Ok(inspected)) => inspected,
            _ => return Err("the folder does not answer".into()),
        };
        send_order(node, |reply| Order::Replace(i, inspected, reply)).await
    })
}

/// The drive of the map that was last seen at `path`.
pub fn last_seen(map: &Map, node: u16, path: &Path) -> Option<DriveId> {
    let here = path.display().to_string();
    let seen = |d: &&ashlar_cluster::Drive| d.state != DriveState::Dead && d.node == node && d.path == here;
    map.drives.iter().find(seen).map(|d| d.id)
}

/// The folder that `which` names: by its path, or by the id of its drive or a prefix of the id.
fn find(node: &Node, which: &str) -> Result<usize, String> {
    let folders = node.folders.lock();
    let by_path = |s: &DriveFolder| s.path.as_os_str() == which || s.path == drive_discovery::absolute(which);
    if let Some(i) = folders.iter().position(by_path) {
        return Ok(i);
    }
    let map = node.map.load();
    // A drive that is out of service can still be named by its id.
    let by_id = |s: &DriveFolder| {
        let id =
            s.drive.as_ref().map(|d| d.label().drive).or_else(|| last_seen(&map, node.number(), &s.path));
        id.is_some_and(|id| which.len() >= 4 && id.to_hex().starts_with(which))
    };
    let mut found = folders.iter().enumerate().filter(|(_, s)| by_id(s));
    match (found.next(), found.next()) {
        (Some((i, _)), None) => Ok(i),
        (Some(_), Some(_)) => Err(format!("{which} means more than one drive")),
        (None, _) => Err(format!("no drive is called {which}; see `ashlar drive list`")),
    }
}
