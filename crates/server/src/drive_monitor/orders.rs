//! What operators ask for: a drive out of service, back, or replaced.

use ashlar_environment::time;
use std::path::Path;
use std::time::Duration;

use ashlar_cluster::{DriveState, Map};
use ashlar_format::DriveId;
use tokio::sync::oneshot;

use super::order::{Order, Reply};
use super::{Shell, workers};
use crate::drive_discovery;
use crate::node::{Node, Slot};

/// How long an operator waits for a look at a folder, and for a replacement.
const PATIENCE: Duration = Duration::from_secs(30);

/// An operator who waits for a replacement.
pub struct Waiting {
    folder: usize,
    reply: Reply,
}

impl Shell {
    pub(super) fn order(&mut self, order: Order) {
        match order {
            Order::Hold(i, reply) => {
                if let Some(slot) = self.node.slots.lock().get_mut(i) {
                    slot.held = true;
                }
                let actions = self.monitor.hold(i);
                self.perform_all(actions);
                let _ = reply.send(Ok(()));
            }
            Order::Release(i, reply) => {
                if let Some(slot) = self.node.slots.lock().get_mut(i) {
                    slot.held = false;
                }
                self.monitor.release(i);
                let _ = reply.send(Ok(()));
            }
            Order::Replace(i, place, reply) => {
                let found = workers::found(&place, self.node.map.load().deployment);
                match self.monitor.replace(i, found) {
                    Ok(actions) => {
                        if let Some(slot) = self.node.slots.lock().get_mut(i) {
                            slot.held = false;
                        }
                        self.waiting.push(Waiting { folder: i, reply });
                        self.perform_all(actions);
                    }
                    Err(why) => drop(reply.send(Err(why))),
                }
            }
        }
    }

    /// Tells operators whose order is carried out, or cannot be.
    pub(super) fn tell(&mut self) {
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

async fn ask(node: &Node, order: impl FnOnce(Reply) -> Order) -> Result<(), String> {
    let (reply, answer) = oneshot::channel();
    node.orders.send(order(reply)).map_err(|_| "the server is ending")?;
    match time::timeout(PATIENCE, answer).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err("the server is ending".into()),
        Err(_) => Err("it is not done yet; it goes on: see `ashlar drive list`".into()),
    }
}

/// Takes a drive out of service until [`release`].
///
/// # Errors
/// In words.
pub async fn hold(node: &Node, which: &str) -> Result<(), String> {
    let i = find(node, which)?;
    let spare = node.sets.health().iter().map(|g| g.spare).min().unwrap_or(0);
    let serving = node.slots.lock().get(i).is_some_and(|s| s.drive.is_some());
    if serving && spare == 0 {
        return Err("no drive can be spared now: writes would stop. Wait until the others are whole".into());
    }
    ask(node, |reply| Order::Hold(i, reply)).await
}

/// Undoes [`hold`].
///
/// # Errors
/// In words.
pub async fn release(node: &Node, which: &str) -> Result<(), String> {
    let i = find(node, which)?;
    ask(node, |reply| Order::Release(i, reply)).await
}

/// Puts the blank folder at a place in service for the drive that was there, whatever file system it is on.
///
/// # Errors
/// In words.
pub async fn replace_now(node: &Node, which: &str) -> Result<(), String> {
    let i = find(node, which)?;
    let path = node.slots.lock().get(i).map(|s| s.path.clone()).ok_or("no such folder")?;
    let (look, looked) = oneshot::channel();
    ashlar_environment::thread::run_apart("drive-look", move || {
        drop(look.send(drive_discovery::look(&path)))
    })
    .map_err(|e| e.to_string())?;
    let place = match time::timeout(PATIENCE, looked).await {
        Ok(Ok(place)) => place,
        _ => return Err("the folder does not answer".into()),
    };
    ask(node, |reply| Order::Replace(i, place, reply)).await
}

/// The drive of the map that was last seen at `path`.
pub fn last_seen(map: &Map, path: &Path) -> Option<DriveId> {
    let here = path.display().to_string();
    map.drives.iter().find(|d| d.state != DriveState::Dead && d.path == here).map(|d| d.id)
}

/// The folder that `which` means: its path, or the id of its drive or the beginning of it.
fn find(node: &Node, which: &str) -> Result<usize, String> {
    let slots = node.slots.lock();
    let by_path = |s: &Slot| s.path.as_os_str() == which || s.path == drive_discovery::absolute(which);
    if let Some(i) = slots.iter().position(by_path) {
        return Ok(i);
    }
    let map = node.map.load();
    // A drive that is out of service keeps its name.
    let by_id = |s: &Slot| {
        let id = s.drive.as_ref().map(|d| d.label().drive).or_else(|| last_seen(&map, &s.path));
        id.is_some_and(|id| which.len() >= 4 && id.to_hex().starts_with(which))
    };
    let mut found = slots.iter().enumerate().filter(|(_, s)| by_id(s));
    match (found.next(), found.next()) {
        (Some((i, _)), None) => Ok(i),
        (Some(_), Some(_)) => Err(format!("{which} means more than one drive")),
        (None, _) => Err(format!("no drive is called {which}; see `ashlar drive list`")),
    }
}
