//! Looking after the drives while the server runs: what comes back, what was emptied, what has
//! joined.
//!
//! Invariants: a drive is declared dead only when a blank folder stands in its place, or an operator
//! says so; every change of the map is in the control store before it is in force; one change at a
//! time. A folder that is blank because its drive is not mounted is left alone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_cluster::{DriveState, Map};
use ashlar_drive::{Drive, Probe, Role, State};
use ashlar_format::DriveId;
use ashlar_machine::Folder;

use super::house::{self, House, Slot, UNKNOWN};
use super::places::looks_unmounted;

/// How often drives are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A drive that failed is tried again after this long, then after twice that, and so on.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// Folder in which the control store stands in for a drive that is being replaced.
const HANDOVER: &str = "handover";

/// Looks after the drives for ever.
pub async fn run(house: Arc<House>) {
    let mut interval = tokio::time::interval(LOOK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut fenced: HashMap<usize, Fenced> = HashMap::new();
    loop {
        interval.tick().await;
        let count = house.slots.lock().len();
        // First everything that is gone goes, then what is there comes: a change of the map must not
        // wait for copies on drives that were lost together with another.
        for i in 0..count {
            retire(&house, i, &mut fenced).await;
        }
        for i in 0..count {
            fill(&house, i).await;
        }
        settle(&house).await;
    }
}

/// A drive that fenced itself for a failure: when to try it again, and how long to wait after that.
struct Fenced {
    again: Instant,
    pause: Duration,
}

/// Takes a drive out of service that no longer works.
async fn retire(house: &House, i: usize, fenced: &mut HashMap<usize, Fenced>) {
    let Some(slot) = house.slots.lock().get(i).cloned() else { return };
    let Some(drive) = &slot.drive else { return };
    match drive.state() {
        State::Online => {}
        State::ReadOnly => note(house, i, "it can be read but not written"),
        State::Closed => withdraw(house, i, "closed").await,
        State::Fenced(why) if why == "emptied" => withdraw(house, i, "the folder was emptied").await,
        State::Fenced(why) => {
            note(house, i, &format!("out of service: {why}"));
            let now = Instant::now();
            let plan = fenced.entry(i).or_insert(Fenced { again: now + FIRST_PAUSE, pause: FIRST_PAUSE });
            if now < plan.again {
                return;
            }
            plan.pause = (plan.pause * 2).min(LONGEST_PAUSE);
            plan.again = now + plan.pause;
            // What it held may be wrong now: it joins again before it is trusted (PROTOCOL.md 2.7).
            withdraw(house, i, &format!("out of service: {why}; it will join again")).await;
            if let Some(slot) = house.slots.lock().get_mut(i) {
                slot.distrusted = true;
            }
        }
    }
}

/// Looks at a folder without a drive in service.
async fn fill(house: &House, i: usize) {
    let Some(slot) = house.slots.lock().get(i).cloned() else { return };
    if slot.held || slot.drive.is_some() {
        return;
    }
    let path = slot.path.clone();
    let Ok(probe) = house::blocking(move || ashlar_drive::probe(&path)).await else { return };
    let _one = house.changes.lock().await;
    let done = match probe {
        Probe::Ours(label) => returned(house, i, &slot, label.drive).await,
        Probe::Blank => blank(house, i, &slot).await,
        other => Err(house::problem(&other).unwrap_or_default()),
    };
    if let Err(why) = done {
        note(house, i, &why);
    }
}

/// Says why a folder is out of service; logged when it is news.
fn note(house: &House, i: usize, why: &str) {
    let mut slots = house.slots.lock();
    let Some(slot) = slots.get_mut(i) else { return };
    if slot.problem.as_deref() != Some(why) {
        tracing::warn!(drive = %slot.path.display(), why, "drive out of service");
        slot.problem = Some(why.to_owned());
    }
}

/// Takes the drive of a folder out of service.
async fn withdraw(house: &House, i: usize, why: &str) {
    note(house, i, why);
    let drive = house.slots.lock().get_mut(i).and_then(|s| s.drive.take());
    if let Some(drive) = drive {
        let id = drive.label().drive;
        house.sets.detach(id);
        house.control.detach(id);
        drive.close().await;
    }
}

/// Puts an opened drive in service at a folder.
async fn enlist(house: &House, i: usize, drive: Drive) -> Result<(), String> {
    let id = drive.label().drive;
    let path = {
        let mut slots = house.slots.lock();
        let slot = slots.get_mut(i).ok_or("no such folder")?;
        slot.drive = Some(drive.clone());
        slot.problem = None;
        slot.distrusted = false;
        slot.path.clone()
    };
    if let Err(error) = house.control.attach(id, house::medium(&path, id)).await {
        tracing::warn!(drive = %path.display(), %error, "control store: the drive is not used");
    }
    house.sets.attach(drive);
    tracing::info!(drive = %path.display(), %id, "drive in service");
    Ok(())
}

/// A drive of this deployment stands in the folder and is not in service.
async fn returned(house: &House, i: usize, slot: &Slot, id: DriveId) -> Result<(), String> {
    let map = house.map.load_full();
    match map.drive(id).map(|d| d.state) {
        Some(DriveState::Active | DriveState::Joining) => {
            let elsewhere =
                house.slots.lock().iter().any(|s| s.drive.as_ref().is_some_and(|d| d.label().drive == id));
            if elsewhere {
                return Err("the same drive is in service at another path".into());
            }
            let drive = house::open_drive(slot.path.clone(), house.drive_options.clone()).await?;
            if slot.distrusted {
                drive.set_joining().await.map_err(|e| e.to_string())?;
            }
            super::rollback::distrust_late(house, &drive).await?;
            enlist(house, i, drive).await
        }
        Some(DriveState::Dead) => Err("it was replaced; empty the folder to use it again".into()),
        None => {
            let Some(old) = vacancy(house, &map, &slot.path) else { return Err(UNKNOWN.into()) };
            let drive = house::open_drive(slot.path.clone(), house.drive_options.clone()).await?;
            replace(house, i, &map, old, drive).await
        }
    }
}

/// A blank folder: it takes the place of the drive that was there.
async fn blank(house: &House, i: usize, slot: &Slot) -> Result<(), String> {
    let map = house.map.load_full();
    let Some(old) = vacancy(house, &map, &slot.path) else {
        return Err("blank, and no drive is missing".into());
    };
    let others: Vec<PathBuf> =
        house.slots.lock().iter().filter(|s| s.drive.is_some()).map(|s| s.path.clone()).collect();
    if looks_unmounted(&slot.path, &others) {
        return Err("blank, but not a mount point as the other drives are: is the drive not mounted? `ashlar drive replace` uses it all the same".into());
    }
    join(house, i, &map, old, &slot.path).await
}

/// Formats a blank folder and puts it in the place of `old`.
async fn join(house: &House, i: usize, map: &Map, old: DriveId, path: &Path) -> Result<(), String> {
    let (folder, deployment) = (path.to_owned(), map.deployment);
    house::blocking(move || house::format(&folder, deployment, Role::Joining)).await??;
    let drive = house::open_drive(path.to_owned(), house.drive_options.clone()).await?;
    replace(house, i, map, old, drive).await
}

/// The drive of the map whose place a blank folder at `path` takes: the one last seen there, else
/// any that is nowhere, if no other folder is its place.
fn vacancy(house: &House, map: &Map, path: &Path) -> Option<DriveId> {
    let slots = house.slots.lock();
    let serving = |id: DriveId| slots.iter().any(|s| s.drive.as_ref().is_some_and(|d| d.label().drive == id));
    let mut missing = map.drives.iter().filter(|d| d.state != DriveState::Dead && !serving(d.id));
    let here = path.display().to_string();
    if let Some(drive) = missing.clone().find(|d| d.path == here) {
        return Some(drive.id);
    }
    let named = |p: &str| slots.iter().any(|s| s.path.display().to_string() == p);
    missing.find(|d| !named(&d.path)).map(|d| d.id)
}

/// Writes the map in which `drive` has the slots of `old`, and puts it in service.
async fn replace(house: &House, i: usize, map: &Map, old: DriveId, drive: Drive) -> Result<(), String> {
    let (id, path) = (drive.label().drive, drive.path().to_owned());
    let next = map
        .replace(old, id, &path.display().to_string(), drive.stats().capacity)
        .map_err(|e| e.to_string())?;
    let handover = hand_over(house, old, &path).await?;
    house.control.attach(id, house::medium(&path, id)).await.map_err(|e| e.to_string())?;
    let written = house.write_map(next.clone()).await;
    if handover.is_some() || written.is_ok() {
        house.control.detach(old);
    }
    if handover.is_some() {
        let folder = Folder::real(&path, None);
        let _ = house::blocking(move || folder.remove_folder(HANDOVER)).await;
    }
    written?;
    house.sets.set_layout(house::layout(&next)).map_err(|e| e.to_string())?;
    house.sets.detach(old);
    tracing::warn!(drive = %path.display(), %old, new = %id, epoch = next.epoch, "a blank drive takes the place of another");
    enlist(house, i, drive).await
}

/// When too few copies of the control store are left to change it, the blank drive first stands in
/// for the one it replaces: its copy is written anew from those that are left, which hold
/// everything that was ever answered (PROTOCOL.md 2.13).
async fn hand_over(house: &House, old: DriveId, path: &Path) -> Result<Option<()>, String> {
    if house.control.health().writable {
        return Ok(None);
    }
    let folder = Folder::real(path, None).sub(HANDOVER);
    let made = folder.clone();
    house::blocking(move || made.make()).await?.map_err(|e| format!("{}: {e}", folder.path().display()))?;
    house.control.attach(old, house::bare_medium(folder)).await.map_err(|e| e.to_string())?;
    if house.control.health().writable {
        return Ok(Some(()));
    }
    // Others must stand in too: this one stays until they have.
    Err("waiting for more drives: the control store has no majority".into())
}

/// Notes in the map which drives have joined, which must join again, and where drives were found.
async fn settle(house: &House) {
    let _one = house.changes.lock().await;
    let before = house.map.load_full();
    let mut map = (*before).clone();
    let slots: Vec<Slot> = house.slots.lock().clone();
    for slot in &slots {
        let Some(drive) = &slot.drive else { continue };
        let id = drive.label().drive;
        let next = match (map.drive(id).map(|d| d.state), drive.role()) {
            (Some(DriveState::Joining), Role::Voter) => map.joined(id),
            // Away for too long, damaged, or fenced: a new epoch, so that what it may have promised
            // counts no more.
            (Some(DriveState::Active), Role::Joining) => map.rejoin(id),
            _ => continue,
        };
        if let Ok(next) = next {
            tracing::info!(drive = %slot.path.display(), %id, epoch = next.epoch, "drive {}", if next.epoch == map.epoch { "has joined" } else { "joins again" });
            map = next;
        }
    }
    let at = |s: &Slot| s.drive.as_ref().map(|d| (d.label().drive, s.path.display().to_string()));
    let found: Vec<(DriveId, String)> = slots.iter().filter_map(at).collect();
    if let Some(next) = map.found_at(&found) {
        map = next;
    }
    if map == *before || !house.control.health().writable {
        return;
    }
    let layout = (map.epoch != before.epoch).then(|| house::layout(&map));
    match house.write_map(map).await {
        Ok(()) => {
            if let Some(layout) = layout
                && let Err(error) = house.sets.set_layout(layout)
            {
                tracing::error!(%error, "the new layout is not taken");
            }
        }
        Err(why) => tracing::debug!(why, "the map could not be brought up to date; tried again soon"),
    }
}

/// Takes a drive out of service until [`bring_back`].
///
/// # Errors
/// In words.
pub async fn hold(house: &House, which: &str) -> Result<(), String> {
    let _one = house.changes.lock().await;
    let i = find(house, which)?;
    let spare = house.sets.health().iter().map(|g| g.spare).min().unwrap_or(0);
    let serving = house.slots.lock()[i].drive.is_some();
    if serving && spare == 0 {
        return Err("no drive can be spared now: writes would stop. Wait until the others are whole".into());
    }
    house.slots.lock()[i].held = true;
    withdraw(house, i, "taken offline by an operator").await;
    Ok(())
}

/// Undoes [`hold`].
///
/// # Errors
/// In words.
pub fn bring_back(house: &House, which: &str) -> Result<(), String> {
    let i = find(house, which)?;
    house.slots.lock()[i].held = false;
    Ok(())
}

/// Puts the blank folder at a place in service for the drive that was there, mounted or not.
///
/// # Errors
/// In words.
pub async fn replace_now(house: &House, which: &str) -> Result<(), String> {
    let _one = house.changes.lock().await;
    let i = find(house, which)?;
    let slot = house.slots.lock()[i].clone();
    let path = slot.path.clone();
    let probe = house::blocking(move || ashlar_drive::probe(&path)).await?;
    if probe != Probe::Blank {
        return Err(format!("{} is not blank: put an empty drive there first", slot.path.display()));
    }
    if slot.drive.is_some() {
        withdraw(house, i, "replaced by an operator").await;
    }
    let map = house.map.load_full();
    let old = vacancy(house, &map, &slot.path).ok_or("no drive is missing there")?;
    house.slots.lock()[i].held = false;
    join(house, i, &map, old, &slot.path).await
}

/// The drive of the map that was last seen at `path`.
pub fn last_seen(map: &Map, path: &Path) -> Option<DriveId> {
    let here = path.display().to_string();
    map.drives.iter().find(|d| d.state != DriveState::Dead && d.path == here).map(|d| d.id)
}

/// The folder that `which` means: its path, or the id of its drive or the beginning of it.
fn find(house: &House, which: &str) -> Result<usize, String> {
    let slots = house.slots.lock();
    let by_path = |s: &Slot| s.path.as_os_str() == which || s.path == super::places::absolute(which);
    if let Some(i) = slots.iter().position(by_path) {
        return Ok(i);
    }
    let map = house.map.load();
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
